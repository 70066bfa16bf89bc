"""Counts that callers give, as the library takes them."""

from __future__ import annotations

import operator

from .errors import UsageError


def thread_count(threads: int) -> int:
    """As an integer that the library checks: what no machine word holds is out of its bounds too."""
    try:
        return max(-(2**63), min(operator.index(threads), 2**63 - 1))
    except TypeError:
        raise UsageError(f"threads: expected an integer, found {threads!r}") from None


def budget(max_bytes: int, max_flops: int) -> dict[str, int]:
    """What a program may need, 0 for any; whole floats such as 1e9 are taken."""
    limits = {"max_bytes": max_bytes, "max_flops": max_flops}
    for name, value in limits.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value or not 0 <= value < 2**64:
            raise UsageError(f"{name}: expected a number from 0, which is any, to 2**64 - 1, found {value!r}")
    return {name: int(value) for name, value in limits.items()}
