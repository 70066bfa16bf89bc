"""Complex numbers as two real values each: IR has real numbers only."""

from __future__ import annotations

from typing import Any

import torch

from .complex_call import Call, Writer
from .complex_rules import PART_BY_PART, RULES
from .fourier import FOURIER
from .ref import Complex, Refused

aten = torch.ops.aten
CHECKS = {"_assert_tensor_metadata"}
# What asks the shape of its first operand alone.
LIKE = {
    *(f"{name}_like" for name in ("empty", "full", "ones", "rand", "randint", "randn", "zeros")),
    *(f"new_{name}" for name in ("empty", "empty_strided", "full", "ones", "zeros")),
}
VIEWS_IN_PLACE = {"squeeze_", "swapaxes_", "swapdims_", "t_", "transpose_", "unsqueeze_"}  # they write no memory


def is_complex(value: Any) -> bool:
    """Whether it is a complex value, or has one in it."""
    if isinstance(value, (list, tuple)):
        return any(map(is_complex, value))
    if isinstance(value, dict):
        return any(map(is_complex, value.values()))
    if isinstance(value, torch.Tensor):
        return value.is_complex()
    return isinstance(value, (Complex, complex)) or (isinstance(value, torch.dtype) and value.is_complex)


def concerns_complex(op: torch._ops.OpOverload, args: Any, kwargs: Any, value: Any) -> bool:
    """Whether a call takes or gives complex values."""
    return op._opname in FOURIER or any(map(is_complex, (args, kwargs, value)))


def has_form(op: torch._ops.OpOverload) -> bool:
    """Whether call_complex() may have one for it."""
    return op._opname in {*PART_BY_PART, *RULES, *CHECKS, *LIKE, *VIEWS_IN_PLACE}


def without_complex(op: torch._ops.OpOverload, args: Any, value: Any) -> Any:
    """The arguments of a call that makes real numbers in the shape of complex ones: it asks nothing else of them."""
    if op._opname in LIKE and isinstance(args[0], Complex) and not is_complex(value):
        return (args[0].re, *args[1:])
    return args


def call_complex(graph: Writer, node: torch.fx.Node, op: torch._ops.OpOverload, args: Any, kwargs: Any) -> Any:
    """A call that takes or gives complex values. Throws Refused where it has no form here."""
    if op._opname in VIEWS_IN_PLACE:
        op = _out_of_place(op)
    if op._schema.is_mutable:
        raise Refused("writes complex numbers in place")
    name = op._opname
    if name in CHECKS:
        return None
    call = Call(graph, node, op)
    if name in PART_BY_PART:
        return call.part_by_part(args, kwargs)
    if name not in RULES:
        raise Refused("has no form for complex numbers")
    return RULES[name](call, *args, **kwargs)


def _out_of_place(op: torch._ops.OpOverload) -> torch._ops.OpOverload:
    packet = getattr(aten, op._opname[:-1])
    overloads = [getattr(packet, name) for name in packet.overloads()]
    wanted = [arg.name for arg in op._schema.arguments]
    return next(other for other in overloads if [arg.name for arg in other._schema.arguments] == wanted)
