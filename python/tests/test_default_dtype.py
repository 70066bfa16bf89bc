"""torch.set_default_dtype in forward(): every call has the dtype that it has in eager PyTorch, whether forward() puts the default
back or not; what it leaves is put back and told."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import npusim
from modules import Calls

K = torch.tensor([[1, 2], [3, 5]])
CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "arange": lambda x, k: torch.arange(4) / 3,
    "arange of fractions": lambda x, k: torch.arange(3.0) / 7,
    "zeros": lambda x, k: torch.zeros(2) + 1,
    "ones": lambda x, k: torch.ones(2, 2) / 3,
    "eye": lambda x, k: torch.eye(2) / 3,
    "full": lambda x, k: torch.full((2,), 0.1),
    "new_full": lambda x, k: k.new_full((2,), 3) / 7,
    "linspace": lambda x, k: torch.linspace(0, 1, 7),
    "logspace": lambda x, k: torch.logspace(0, 1, 5),
    "hann_window": lambda x, k: torch.hann_window(5),
    "scalar_tensor": lambda x, k: torch.scalar_tensor(0.1) * 2,
    "tensor": lambda x, k: torch.tensor([0.1, 0.2]) * 3,
    "whole numbers": lambda x, k: k / 3,
    "a condition": lambda x, k: (k > 1) / 3,
    "true_divide": lambda x, k: torch.true_divide(k, k + 1),
    "a fraction": lambda x, k: k * 0.1,
    "a power": lambda x, k: 0.3**k,
    "sin": lambda x, k: k.sin(),
    "a sum": lambda x, k: k.sum() / 7,
    "where": lambda x, k: torch.where(k > 1, 0.1, 0.2),
    "where, one number": lambda x, k: torch.where(k > 1, k, 0.2),
    "maximum": lambda x, k: torch.maximum(k / 3, (k + 1) / 7),
    "cat": lambda x, k: torch.cat([k.flatten(), torch.ones(2) / 3]),
    "what has a dtype": lambda x, k: torch.ones_like(x) / 3 + torch.zeros(2, dtype=torch.float32),
    "in place": lambda x, k: torch.zeros(2, 2).add_(k).div_(3),
    "of 16 bits": lambda x, k: x.half() * 2 + k,
}
COMPLEX = {"complex": lambda x, k: (k * (1j + 0.1)).abs()}
EXACT = {torch.float64: 1e-14, torch.float32: 1e-6, torch.float16: 1e-3, torch.bfloat16: 1e-2}


@contextlib.contextmanager
def default(dtype: Any, back: bool = True) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        if back:
            torch.set_default_dtype(before)


def setting(calls: Any, dtype: Any, back: bool) -> Callable[..., Any]:
    def function(x: Any, k: Any) -> Any:
        before = [torch.zeros(2) + 1, k / 3]
        torch.set_default_dtype(dtype)
        found = [call(x, k) for call in calls.values()]
        if back:
            torch.set_default_dtype(torch.float32)
            found.append(torch.arange(3) / 3)
        return before + found

    return function


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("back", [True, False])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16], ids=str)
def test_dtypes(dtype: Any, back: bool, strict: bool) -> None:
    calls = CALLS | (COMPLEX if dtype == torch.float64 else {})
    function, x = setting(calls, dtype, back), torch.full((2, 2), 0.5)
    with default(torch.float32):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            exported = npusim.export(Calls(function), (x, K), strict=strict)
        assert torch.get_default_dtype() == torch.float32
        assert any("forward() sets torch's default dtype" in str(one.message) for one in told) != back
        session = npusim.Session(npusim.compile(exported, dtype="float32"))
        for run in range(3):
            found = session.run(x, K + run)
            expected = function(x, K + run)
            torch.set_default_dtype(torch.float32)
            names = ["before", "k before", *calls, "behind"]
            for name, one, other in zip(names, found.values(), expected, strict=False):
                assert one.dtype.name == str(other.dtype).removeprefix("torch."), (name, one.dtype, other.dtype)
                rtol = max(EXACT[other.dtype], EXACT[dtype] if dtype.itemsize < 4 else 0)
                assert np.allclose(one.astype("float64"), other.double().numpy(), rtol=rtol, atol=rtol), (name, one, other)


def test_an_exported_program_has_the_dtypes_that_it_was_traced_with() -> None:
    with default(torch.float32):
        program = torch.export.export(Calls(setting(CALLS, torch.float64, True)), (torch.ones(2, 2), K))
        found = npusim.Session(npusim.compile(program, dtype="float32")).run(torch.ones(2, 2), K)
        assert found["output_2"].dtype == np.float64
        assert np.allclose(found["output_2"], np.arange(4) / 3, rtol=1e-15)


def narrow_complex(x: Any, k: Any) -> Any:
    torch.set_default_dtype(torch.bfloat16)
    found = (k * (1j + 0.1)).abs()
    torch.set_default_dtype(torch.float32)
    return found


def test_what_has_no_form_is_refused_by_line() -> None:
    """Of complex numbers with a default of 16 bits PyTorch's tracer knows another dtype than eager PyTorch."""
    with default(torch.float32), pytest.raises(npusim.UnsupportedError, match=r"\(found = .*default dtype that forward\(\) sets"):
        npusim.export(Calls(narrow_complex), (torch.ones(2, 2), K), strict=True)
