"""What this build can compile, and where it can run."""

from __future__ import annotations

import functools
import json
import os
from dataclasses import dataclass

from . import _core
from .arguments import path as _path
from .arguments import refused, text


@dataclass(frozen=True)
class Op:
    """An ATen operator."""

    name: str  # "aten.relu.default"
    family: str
    schema: str
    in_place: tuple[str, ...]  # "aten.relu_.default"


@dataclass(frozen=True)
class Device:
    """A kind of device."""

    name: str
    description: str  # what it is, or why it cannot be used
    usable: bool


def ops(target: str = "cpu") -> tuple[Op, ...]:
    """The operators that npusim compiles for a target. A call may still be refused for its attributes or dtypes."""
    return _ops(text("target", target))


@functools.cache
def _ops(target: str) -> tuple[Op, ...]:
    rows = json.loads(_core.describe_ops(target, True))["ops"]
    return tuple(Op(r["name"], r["family"], r["schema"], tuple(r["in_place"])) for r in rows)


@functools.cache
def _names(target: str) -> frozenset[str]:
    return frozenset(name for op in _ops(target) for name in (op.name, *op.in_place))


def is_op_supported(op: object, target: str = "cpu") -> bool:
    """Whether an operator can be compiled: "aten.relu.default", or torch.ops.aten.relu.default. A call of it may still
    be refused for its attributes or dtypes."""
    known = _names(text("target", target))
    try:
        shown = str(op)
    except Exception:  # of a class of the caller's
        raise refused("op", "the name of an operator", op) from None
    if isinstance(op, (int, float, bytes)) or op is None:
        raise refused("op", "the name of an operator", op)
    name = shown.removeprefix("torch.ops.").replace("::", ".")
    return (name if name.count(".") != 1 else name + ".default") in known


def use_aten_plugin(path: str | os.PathLike[str]) -> None:
    """Names the plugin that runs operators without a kernel, by PyTorch's library, for what is compiled, evaluated and
    opened from now on; "": libnpusim_aten.so beside npusim, or what NPUSIM_ATEN names."""
    _core.use_aten_plugin("" if isinstance(path, str) and not path else _path("path", path))


def aten_plugin() -> Device:
    """That plugin, or why there is none."""
    return Device(*_core.aten_plugin())


def devices() -> list[Device]:
    """Every kind of device of this build and what it found."""
    return [Device(*row) for row in _core.list_devices()]
