"""Loads the library, and with it OpenMP, which reads how its threads wait from the environment when it is loaded.

By default they would take a core for milliseconds while they wait for work, and of several processes on one machine each
would keep the others from theirs. What the environment says goes before; where PyTorch was imported first, its OpenMP is
there already and is used as it is."""

from __future__ import annotations

import os

_SPINS = "2000"  # as src/base/threads.cpp has it for the command line


_set = "OMP_WAIT_POLICY" not in os.environ and "GOMP_SPINCOUNT" not in os.environ
if _set:
    os.environ["GOMP_SPINCOUNT"] = _SPINS
try:
    from . import _core as core  # noqa: F401
finally:
    if _set:
        del os.environ["GOMP_SPINCOUNT"]  # processes that this one starts choose for themselves
