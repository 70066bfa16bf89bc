"""Operators over lists of tensors, `_foreach_add` and the like: for each element the operator of one tensor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

ATEN = torch.ops.aten


def _norm(x: Tensor, ord: Any = 2, dtype: Any = None) -> Tensor:
    return ATEN.linalg_vector_norm(x, ord, dtype=dtype)


def _at_least(x: Tensor, other: Any) -> Tensor:
    return ATEN.maximum(x, other) if isinstance(other, Tensor) else ATEN.clamp_min(x, other)


def _at_most(x: Tensor, other: Any) -> Tensor:
    return ATEN.minimum(x, other) if isinstance(other, Tensor) else ATEN.clamp_max(x, other)


def _added(quotient: bool) -> Callable[..., Tensor]:
    def of_one(x: Tensor, a: Tensor, b: Tensor, value: Any = 1) -> Tensor:
        if isinstance(value, Tensor):
            return x + value.to(x.dtype) * (a / b if quotient else a * b)
        return (ATEN.addcdiv if quotient else ATEN.addcmul)(x, a, b, value=value)

    return of_one


# What is not called as the operator of one tensor is.
OF_ONE: dict[str, Callable[..., Any]] = {
    "norm": _norm,
    "zero": ATEN.zeros_like,
    "maximum": _at_least,
    "clamp_min": _at_least,
    "minimum": _at_most,
    "clamp_max": _at_most,
    "addcdiv": _added(quotient=True),
    "addcmul": _added(quotient=False),
}


def _form(schema: Any, of_one: Callable[..., Any]) -> Callable[..., list[Tensor]]:
    def form(*args: Any, **kwargs: Any) -> list[Tensor]:
        count = next(len(value) for value in args if isinstance(value, (list, tuple)))

        def element(value: Any, i: int, name: str) -> Any:
            per_element = isinstance(value, (list, tuple)) or (name == "scalars" and isinstance(value, Tensor))
            return value[i] if per_element else value

        names = [argument.name for argument in schema.arguments]
        return [
            of_one(*(element(value, i, name) for value, name in zip(args, names, strict=False)), **kwargs)
            for i in range(count)
        ]

    return form


def _forms() -> Iterator[tuple[str, Callable[..., list[Tensor]]]]:
    """Of every such operator of PyTorch that writes nothing."""
    for qualified in torch._C._dispatch_get_all_op_names():
        if not qualified.startswith("aten::_foreach_"):
            continue
        name, _, overload = qualified.removeprefix("aten::").partition(".")
        op = getattr(getattr(ATEN, name), overload or "default")
        one = name.removeprefix("_foreach_")
        of_one = OF_ONE.get(one) or getattr(ATEN, one, None)
        if of_one is not None and not op._schema.is_mutable:
            yield str(op), _form(op._schema, of_one)


FOREACH = dict(_forms())
