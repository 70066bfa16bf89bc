"""Questions about tensors that PyTorch answers in C++, where no tracer sees them, in operators: `torch.equal`,
`torch.allclose`, `int()`, and the covariances, which ask themselves; and functions that make a number of Python's of one
which a tensor holds.

A branch that such an answer decides is then one on a number that is read from a tensor, as any other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from ..forms.scalars import is_symbol


class Alike(TorchFunctionMode):
    """While it is entered, these functions are compositions."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return COMPOSED.get(func, func)(*args, **(kwargs or {}))


def _equal(input: Tensor, other: Tensor) -> bool:
    return input.shape == other.shape and bool((input == other).all())


def _allclose(input: Tensor, other: Tensor, *args: Any, **kwargs: Any) -> bool:
    return bool(torch.isclose(input, other, *args, **kwargs).all())


def _cov(
    input: Tensor,  # [variables, observations]
    *,
    correction: int = 1,
    fweights: Tensor | None = None,
    aweights: Tensor | None = None,
) -> Tensor:
    x = input.reshape(1, -1) if input.dim() < 2 else input
    weights: Tensor | None = None
    for given, name in ((fweights, "fweights"), (aweights, "aweights")):
        if given is not None:
            torch._assert_async((given >= 0).all(), f"cov: {name} cannot be negative")
            weights = given if weights is None else weights * given
    if weights is None:
        freedom: Any = max(x.shape[1] - correction, 0)
        mean, weighted = x.sum(1) / x.shape[1], lambda v: v
    else:
        total = weights.sum()
        torch._assert_async(total != 0, "cov: weights sum to zero")
        lost: Any = correction if aweights is None else correction * (weights * aweights).sum() / total
        freedom = (total - lost).clamp(min=0)
        mean, weighted = (x * weights).sum(1) / total, lambda v: v * weights
    apart = x - mean.unsqueeze(1)
    return (apart @ weighted(apart).t().conj() / freedom).squeeze()


def _corrcoef(input: Tensor) -> Tensor:
    found = _cov(input)
    if found.dim() == 0:
        return found / found
    spread = (found.diagonal().real if found.is_complex() else found.diagonal()).sqrt()
    found = found / spread.unsqueeze(1) / spread
    if found.is_complex():
        return torch.complex(found.real.clamp(-1, 1), found.imag.clamp(-1, 1))
    return found.clamp(-1, 1)


def _float_power(power: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def of_tensors(base: Any, exponent: Any, **kwargs: Any) -> Tensor:
        tensors = [torch.scalar_tensor(n, dtype=torch.float64) if is_symbol(n) else n for n in (base, exponent)]
        return power(*tensors, **kwargs)

    return of_tensors


def _pad(input: Tensor, pad: Any, mode: str = "constant", value: Any = None) -> Tensor:
    pads = torch._C._nn.pad
    if mode != "constant" or not is_symbol(value):
        return pads(input, pad, mode, value)
    within = pads(torch.ones_like(input, dtype=torch.bool), pad)
    return torch.where(within, pads(input, pad), torch.scalar_tensor(value, dtype=input.dtype, device=input.device))


COMPOSED: dict[Any, Callable[..., Any]] = {
    **dict.fromkeys((torch.equal, Tensor.equal), _equal),
    **dict.fromkeys((torch.allclose, Tensor.allclose), _allclose),
    **dict.fromkeys((torch.cov, Tensor.cov), _cov),
    **dict.fromkeys((torch.corrcoef, Tensor.corrcoef), _corrcoef),
    **{power: _float_power(power) for power in (torch.float_power, Tensor.float_power, Tensor.float_power_)},
    **dict.fromkeys((torch.nn.functional.pad, torch._C._nn.pad), _pad),
    Tensor.__int__: lambda x: int(x.item()),  # of the number: PyTorch asks for all of a fraction first
}
