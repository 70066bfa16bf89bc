"""Operators of which PyTorch has a composition that gives something else than they do, and takes it wherever it traces: the
loss of one sample, which has no batch, is a batch of one in it, and the loss of two dtypes is of the wider one; images in
uint8 are not rounded as they are. And what PyTorch takes for granted of a mask that is larger than what it chooses from: not
more than that has."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch._decomp import decomposition_table
from torch._subclasses import fake_impls
from torch.nn import _reduction as _Reduction

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
    """PyTorch's as it is eagerly: traced that one hands itself on without its weight (2.15). While npusim traces this is its
    code, of names that torch.nn.functional has, too."""
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


def _arguments(function: Any) -> tuple[str, ...]:
    return function.__code__.co_varnames[: function.__code__.co_argcount]


# By the functions that graphs of dynamo call.
AS_EAGERLY: dict[Any, Form] = {torch.nn.functional.l1_loss: l1_loss}


@contextlib.contextmanager
def with_eager_results() -> Iterator[None]:
    """With eager PyTorch's shapes and numbers of them for what is traced. PyTorch has a composition at several keys of its
    dispatcher, in Python and behind that."""
    autograd, meta = torch._C.DispatchKey.Autograd, torch._C.DispatchKey.Meta
    before = [(op, key, kernel) for op in SHAPED for key, kernel in op.py_kernels.items()]
    after = [(op, key, _of_one(op, kernel)) for op, key, kernel in before]
    images = [(op, autograd, op.py_kernels[autograd]) for op in IMAGES if autograd in op.py_kernels]
    before, after = before + images, after + [(op, key, _whole_for_bytes(op, kernel)) for op, key, kernel in images]
    shapes, select = fake_impls.op_implementations_dict, ATEN.masked_select.default
    chosen = shapes[select]
    with torch.library._scoped_library("aten", "IMPL") as library:
        shapes[select] = _masked_select(chosen)
        for op, key, kernel in after:
            _set_kernel(op, key, kernel)
            if key == meta:
                library.impl(op, kernel, "Meta", allow_override=True)
        codes = [(function, function.__code__) for function in AS_EAGERLY]
        for function, own in AS_EAGERLY.items():
            if _arguments(function) == _arguments(own):  # of this PyTorch
                function.__code__ = own.__code__
        try:
            yield
        finally:
            for function, code in codes:
                function.__code__ = code
            shapes[select] = chosen
            for op, key, kernel in before:
                _set_kernel(op, key, kernel)


def _set_kernel(op: Any, key: Any, kernel: Form) -> None:
    op.py_kernels[key] = kernel
    op._dispatch_cache.clear()
