"""Operators of which PyTorch has a composition that gives something else than they do, and takes it wherever it traces: the
loss of one sample, which has no batch, is a batch of one in it, and the loss of two dtypes is of the wider one; images in
uint8 are not rounded as they are. And what PyTorch takes for granted of a mask that is larger than what it chooses from: not
more than that has."""

from __future__ import annotations

import contextlib
import functools
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch._decomp import decomposition_table
from torch._subclasses import fake_impls
from torch.nn import _reduction as _Reduction

from ..facts.threads import only_here, replaced_item

ATEN = torch.ops.aten
Form = Callable[..., Any]


def _margins(loss: Tensor, input: Tensor, target: Tensor) -> Tensor:
    return loss.reshape(target.shape) if loss.dim() else loss


def _margins_of_labels(found: tuple[Tensor, Tensor], input: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    loss, is_target = found
    return loss.reshape(input.shape[:-1]) if loss.dim() else loss, is_target


def _of_its_dtype(loss: Tensor, input: Tensor, target: Tensor) -> Tensor:
    return loss.to(input.dtype)


SHAPED: dict[Any, Form] = {
    ATEN.huber_loss.default: _of_its_dtype,
    ATEN.soft_margin_loss.default: _of_its_dtype,
    ATEN.multi_margin_loss.default: _margins,
    ATEN.multilabel_margin_loss_forward.default: _margins_of_labels,
}
IMAGES = (ATEN.upsample_bilinear2d.default, ATEN.upsample_bicubic2d.default)


def _of_one(op: Any, composition: Form) -> Form:
    @functools.wraps(composition)
    def call(input: Tensor, target: Tensor, *args: Any, **kwargs: Any) -> Any:
        return SHAPED[op](composition(input, target, *args, **kwargs), input, target)

    return call


LOSSES = {str(op): _of_one(op, decomposition_table[op]) for op in SHAPED}


def _whole_for_bytes(op: Any, composition: Form) -> Form:
    """The operator itself for uint8, until npusim takes it apart (bytes.py)."""

    @functools.wraps(composition)
    def call(x: Tensor, *args: Any, **kwargs: Any) -> Any:
        if x.dtype != torch.uint8:
            return composition(x, *args, **kwargs)
        with torch._C._AutoDispatchBelowAutograd():
            return op(x, *args, **kwargs)

    return call


def _masked_select(chosen: Form) -> Form:
    """Of a tensor in the shape that it and the mask have together; where values decide one of them, of as many as there can
    be."""

    def call(mode: Any, op: Any, self: Tensor, mask: Tensor) -> Any:
        known = all(isinstance(extent, int) for extent in (*self.shape, *mask.shape))
        shape = torch.broadcast_shapes(self.shape, mask.shape) if known else (mask.numel(), *self.shape)
        with mode:
            self = self.expand(shape)
        return chosen(mode, op, self, mask)

    return call


def l1_loss(
    input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None, reduction: str = "mean", weight: Any = None
) -> Tensor:
    """PyTorch's as it is eagerly: traced that one hands itself on without its weight (2.15)."""
    if size_average is not None or reduce is not None:
        reduction = _Reduction.legacy_get_string(size_average, reduce)
    how = _Reduction.get_enum(reduction)  # or an error
    input, target = torch.broadcast_tensors(input, target)
    if weight is None:
        return torch._C._nn.l1_loss(input, target, how)
    if weight.size() != input.size():
        raise ValueError("Weights and input must have the same size.")
    errors = torch.abs(input - target) * weight
    if reduction == "mean":
        return errors.sum() / weight.sum()
    return errors.sum() if reduction == "sum" else errors


def _l1_loss_here(
    input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None, reduction: str = "mean", weight: Any = None
) -> Tensor:
    """While npusim traces this is the code of PyTorch's function, which a model may have under names of its own, and it is run
    with what torch.nn.functional has for names."""
    from npusim.torch.facts.threads import is_tracing
    from npusim.torch.forms.kernels import EAGER_L1_LOSS, l1_loss

    loss = l1_loss if is_tracing() else EAGER_L1_LOSS
    return loss(input, target, size_average, reduce, reduction, weight)


_L1_LOSS = torch.nn.functional.l1_loss
EAGER_L1_LOSS = types.FunctionType(_L1_LOSS.__code__, _L1_LOSS.__globals__, "l1_loss", _L1_LOSS.__defaults__)


def _arguments(function: Any) -> tuple[str, ...]:
    return function.__code__.co_varnames[: function.__code__.co_argcount]


# By the functions that graphs of dynamo call.
AS_EAGERLY: dict[Any, Form] = {torch.nn.functional.l1_loss: l1_loss}


@contextlib.contextmanager
def with_eager_results() -> Iterator[None]:
    """With eager PyTorch's shapes and numbers of them for what is traced. PyTorch has a composition at several keys of its
    dispatcher, in Python and behind that."""
    autograd, meta = torch._C.DispatchKey.Autograd, torch._C.DispatchKey.Meta
    kernels = [(op, key, kernel, _of_one(op, kernel)) for op in SHAPED for key, kernel in op.py_kernels.items()]
    images = [(op, op.py_kernels[autograd]) for op in IMAGES if autograd in op.py_kernels]
    kernels += [(op, autograd, kernel, _whole_for_bytes(op, kernel)) for op, kernel in images]
    shapes, select = fake_impls.op_implementations_dict, ATEN.masked_select.default
    with torch.library._scoped_library("aten", "IMPL") as library, contextlib.ExitStack() as entered:
        entered.enter_context(replaced_item(shapes, select, _masked_select(shapes[select])))
        for op, key, before, kernel in kernels:
            entered.callback(op._dispatch_cache.clear)
            entered.enter_context(replaced_item(op.py_kernels, key, kernel))
            op._dispatch_cache.clear()
            if key == meta:
                library.impl(op, only_here(kernel, before), "Meta", allow_override=True)
        entered.enter_context(_code_of(_L1_LOSS, _l1_loss_here))
        yield


@contextlib.contextmanager
def _code_of(function: Any, other: Any) -> Iterator[None]:
    """With the code of another function, if it takes the same in this PyTorch."""
    code = function.__code__
    if _arguments(function) == _arguments(other):
        function.__code__ = other.__code__
    try:
        yield
    finally:
        function.__code__ = code
