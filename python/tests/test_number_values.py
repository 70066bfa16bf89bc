"""Numbers that are read from tensors go on as tensors, whatever Python and PyTorch do with them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import npusim
import numpy as np
import pytest

torch = pytest.importorskip("torch")

import number_programs
from modules import CallsWithSelf
from number_programs import CALLS, NOT_ALGEBRA, VALUES

X = torch.linspace(-2, 2, 12).reshape(3, 4) + 0.3
WHOLE = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
FRACTIONS = [0.75, 3.0, -2.25, 0.3, 1.0, -7.5, 11.375, 1e-3]


def exported(function: Callable[..., Any], *args: Any) -> npusim.Exported:
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        return npusim.export(CallsWithSelf(function), args)


def session(function: Callable[..., Any], *args: Any) -> npusim.Session:
    return npusim.Session(npusim.compile(exported(function, *args), dtype="float32"))


def python_value(form: Callable[[Any], Any], number: Any) -> Any:
    """What Python gives; None where it raises."""
    try:
        return form(number)
    except (ValueError, ZeroDivisionError, OverflowError):
        return None


@pytest.mark.parametrize("dtype", [*WHOLE, torch.float32, torch.float64, torch.float16])
def test_values_that_python_computes(dtype: torch.dtype) -> None:
    """Of every value, also of those for which the example would take another side."""
    forms = {name: form for name, form in VALUES.items() if dtype not in WHOLE or name != "s ** -1"}

    def function(m: Any, p: torch.Tensor) -> Any:
        s = p.item()
        return tuple(torch.ones(2, dtype=torch.float64) * form(s) for form in forms.values())

    numbers = [3, 1, 2, 100, 0, -3, 7] if dtype in WHOLE else FRACTIONS
    numbers = [number for number in numbers if dtype != torch.uint8 or number >= 0]
    run = session(function, torch.tensor(numbers[0]).to(dtype))
    for number in numbers:
        p = torch.tensor(number).to(dtype)
        for (name, form), found in zip(forms.items(), run.run(p).values(), strict=True):
            wanted = python_value(form, p.item())
            if wanted is not None:
                assert np.allclose(found, wanted, rtol=2e-5, atol=1e-5), (name, number)


@pytest.mark.parametrize("name", number_programs.math_of)
def test_functions_of_math(name: str) -> None:
    """By the name that `math` has for it, of a number and of a tensor."""

    def function(m: Any, p: torch.Tensor) -> Any:
        return p * getattr(math, name)(p.item()), p * getattr(math, name)(p)

    numbers = [2.5, 1.25, 3.0] if name in number_programs.POSITIVE else FRACTIONS
    run = session(function, torch.tensor(numbers[0]))
    for number in numbers:
        p = torch.tensor(number)
        for found in run.run(p).values():
            assert np.allclose(found, number * getattr(math, name)(p.item()), rtol=1e-4, atol=1e-5), number


@pytest.mark.parametrize("name", CALLS)
def test_calls_that_take_a_number(name: str) -> None:
    """Of the mean of what is given, whose last bits are another program's. Nothing is made for the example."""
    call = CALLS[name]

    def function(m: Any, x: torch.Tensor) -> Any:
        return call(x, x.mean().item())

    run = session(function, X)
    for x in (X, X * 1.37, -X, X.flip(0) * 0.71 - 0.9, X * 20 + 3.1):
        results = run.run(x).values()
        wanted = torch.utils._pytree.tree_leaves(function(None, x))
        for found, value in zip(results, wanted, strict=True):
            value = np.asarray(value)
            assert np.asarray(found).dtype == value.dtype
            assert np.allclose(found, value, rtol=1e-4, atol=1e-4), x


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.bool, torch.float64])
def test_numbers_that_are_returned(dtype: torch.dtype) -> None:
    run = session(lambda m, x: (x.max().item(), x), torch.tensor([0, 1]).to(dtype))
    x = torch.tensor([1, 0]).to(dtype)
    found = run.run(x)["output_0"]
    assert found == x.max().item() and np.asarray(found).dtype == np.asarray(x.max().item()).dtype


@pytest.mark.parametrize("count", [3, 17, 64, 1000, 4099])
def test_a_model_holds_for_its_own_example(count: int) -> None:
    """However long the sums are that a number is read from."""
    x = torch.randn(count, generator=torch.Generator().manual_seed(count)) + 1

    def function(m: Any, x: torch.Tensor) -> torch.Tensor:
        s, t = float(x.sum()), x.square().mean().item()
        y = torch.lerp(x, x + 1, t) * s**2 + math.sqrt(abs(s)) + max(s, t)
        y[0] = round(t * 10) + abs(s)
        return y.add_(x, alpha=float(x.std()))

    assert np.allclose(session(function, x).run(x)["output"], function(None, x).numpy(), rtol=1e-3)


def test_a_size_beside_a_number_is_the_example_s() -> None:
    def function(m: Any, x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        size = n.item()
        return torch.cat([torch.full((size,), x.sum().item()), torch.full((size,), size).float()])

    run = session(function, X, torch.tensor(2))
    assert np.allclose(run.run(-X, torch.tensor(2))["output"], function(None, -X, torch.tensor(2)).numpy(), atol=1e-5)
    with pytest.raises(npusim.BadInputError, match="an assertion does not hold"):
        run.run(X, torch.tensor(3))


def test_powers_that_are_not_real_end_the_run() -> None:
    function = lambda m, x: x * x.sum().item() ** 0.5
    run = session(function, X)
    with pytest.raises(npusim.BadInputError, match="power_of_a_negative_number"):
        run.run(-X)


def test_numbers_in_a_program_of_pytorch_s() -> None:
    """What PyTorch's own tracer follows is Python's too."""
    forms = [
        *(lambda s: s**2, lambda s: 2**s, lambda s: s**-0.5, abs, round, lambda s: round(s, 1), lambda s: +s),
        *(math.floor, math.ceil, math.trunc, torch.sym_sqrt, torch.sym_float, torch.sym_int),
        *(lambda s: torch.sym_max(s, 1.5), lambda s: torch.sym_min(s, 1.5)),
    ]

    def function(m: Any, p: torch.Tensor) -> Any:
        return tuple(torch.ones(2, dtype=torch.float64) * form(p.item()) for form in forms)

    program = torch.export.export(CallsWithSelf(function), (torch.tensor(2.25),))
    run = npusim.Session(npusim.compile(npusim.export(program), dtype="float32"))
    for number in (2.25, 0.75, 2.5, 11.375):
        p = torch.tensor(number)
        for i, (found, wanted) in enumerate(zip(run.run(p).values(), function(None, p), strict=True)):
            assert np.allclose(found, wanted.numpy(), rtol=1e-5), (i, number)


def test_the_model_s_source_is_as_it_was() -> None:
    before = dict(vars(number_programs))
    session(lambda m, x: x * VALUES["float"](x.sum().item()) * VALUES["sqrt"](x.sum().item()), X)
    assert vars(number_programs) == before
    assert math.sqrt(4) == 2 and max(1, 2) == 2


SOURCE = """
def forward(m, x):
    kind = type(1.5) is float
    return x * float(x.sum()) * kind
"""


def test_a_number_that_must_be_pythons_is_refused_by_name(tmp_path: Any) -> None:
    """It would hold for the very bits of the example, which a program that sums in another order does not give."""
    file = tmp_path / "others.py"
    file.write_text(SOURCE)
    names: dict[str, Any] = {}
    exec(compile(SOURCE, str(file), "exec"), names)
    attention = torch.nn.functional.scaled_dot_product_attention
    functions = {
        r"others.py:4 \(return x \* float": names["forward"],
        r"test_number_values.py:\d+ \(.*scale=": lambda m, x: attention(*[x[None]] * 3, scale=x.sum().item()),
        r"test_number_values.py:\d+ \(.*as_tensor": lambda m, x: x * torch.as_tensor(x.sum().item()),
        r"test_number_values.py:\d+ \(.*'%.1f'": lambda m, x: x * len({x.sum().item(): 1, 2.0: 1}) + len('%.1f' % 2),
    }
    for message, function in functions.items():
        with pytest.raises(npusim.UnsupportedError, match=message + ".*number of Python.*item"):
            exported(function, X)


def test_a_number_that_a_run_computes_exactly_may_be_pythons() -> None:
    """What is in an input, where an operator takes a number of Python's alone, is what the program is made for."""
    function = lambda m, x, p: torch.nn.functional.scaled_dot_product_attention(*[x[None]] * 3, scale=p.max().item())
    p = torch.tensor([0.3, 0.7])
    run = session(function, X, p)
    assert np.allclose(run.run(X, p)["output"], function(None, X, p).numpy(), atol=1e-5)
    with pytest.raises(npusim.BadInputError, match="an assertion does not hold"):
        run.run(X, p * 2)


# Branches: what a run gives is the model's, or it ends and says where.
BRANCHES: dict[str, Callable[[Any, torch.Tensor], torch.Tensor]] = {
    "if": lambda m, x: x * 2 if x.mean().item() > 0.25 else x,
    "not": lambda m, x: x if not x.mean().item() else x + 1,
    "equal": lambda m, x: x * 3 if x.mean().item() == 2 else x,
    "and": lambda m, x: x * 2 if x.mean().item() > 0 and x.max().item() < 5 else x - 1,
    "a whole number beside a fraction": lambda m, x: x * max(int((x > 0).sum().item()), 2.5),
    "whole numbers": lambda m, x: x * 2 if (x > 0).sum().item() < 5 else x,
    "a float": lambda m, x: x * 2 if float(x.mean()) > 0.25 else x,
    "a size": lambda m, x: x * len(range(int(x.mean().nan_to_num(0, 9, -9) * 10))),
    "truth": lambda m, x: x * bool(x.mean() > 0.2),
    "in a list": lambda m, x: x * (True in [x.mean().item() > 0.25]),
    "a math function": lambda m, x: x * 2 if math.exp(x.mean().item()) > 1.2 else x,
    "isfinite": lambda m, x: x * 2 if math.isfinite(x.mean().item()) else x.nan_to_num(),
}


def halved(m: Any, x: torch.Tensor) -> torch.Tensor:
    s, turns = x.mean().item(), 0
    while s > 0.1:
        s, turns = s / 2, turns + 1
    return x * turns


@pytest.mark.parametrize("name", [*BRANCHES, "while"])
def test_no_other_side_of_a_branch(name: str) -> None:
    function = BRANCHES.get(name, halved)
    for example in (X, -X):
        made = exported(function, example)
        assert made.made_for and all("at test_number_values.py:" in what for what in made.made_for)
        run = npusim.Session(npusim.compile(made, dtype="float32"))
        for i, x in enumerate((example, X, X * 1.1, -X, X * 0, X * 30, X + 4, X / 0)):
            try:
                found = run.run(x)["output"]
            except npusim.BadInputError as error:
                assert i > 0 and "in_line_" in str(error) and "an assertion does not hold" in str(error)
                continue
            assert np.allclose(found, function(None, x).numpy(), rtol=1e-5, equal_nan=True), x


@pytest.mark.parametrize("name", NOT_ALGEBRA)
def test_fractions_are_no_algebra(name: str) -> None:
    """Each run gives what eager PyTorch gives, or ends where it takes another way."""
    form = NOT_ALGEBRA[name]
    run = session(lambda m, x: form(x, x.sum().item()), torch.tensor([1.0, 3.0]))
    for values in ([1, 3], [2, 5], [0.25, 0.5], [-1, -2.5], [1e30, 1e30], [1, math.nan], [1, math.inf], [-math.inf, 2], [0, 0]):
        x = torch.tensor(values, dtype=torch.float32)
        wanted = form(x, x.sum().item()).numpy()
        try:
            found = run.run(x)["output"]
        except npusim.BadInputError:
            assert values != [1, 3] and name.startswith(("v", "abs", "0 <"))
            continue
        assert np.allclose(found, wanted, rtol=1e-5, atol=1e-6, equal_nan=True), values


@pytest.mark.parametrize("file", ["<stdin>", "<string>", "<ipython-input-3-0ab>", "<python-input-2>", "<console>", "model.py"])
def test_a_model_may_be_typed(file: str) -> None:
    names: dict[str, Any] = {}
    source = "def f(m, x):\n    v = x.sum().item()\n    return x * 2 + (v - v) if isinstance(v, float) else x\n"
    exec(compile(source, file, "exec"), names)
    run = session(names["f"], torch.tensor([1.0, 3.0]))
    for x in (torch.tensor([1.0, 3.0]), torch.tensor([2.0, math.inf])):
        assert np.array_equal(run.run(x)["output"], names["f"](None, x).numpy(), equal_nan=True)


def test_whole_numbers_are_rounded_to_tens() -> None:
    run = session(lambda m, x: x * round(x.sum().item(), -1) + round(x[0].item(), -2), torch.tensor([3, 14]))
    for values in ([3, 14], [20, 6], [25, 0], [-15, 0], [15, 20], [-150, 5], [250, 0], [350, -1]):
        x = torch.tensor(values)
        assert np.array_equal(run.run(x)["output"], (x * round(x.sum().item(), -1) + round(x[0].item(), -2)).numpy()), values


TEXTS = [str, repr, "{}".format, "{:4}".format, lambda v: f"{v}", lambda v: f"{v!r:>5}"]


@pytest.mark.parametrize("form", TEXTS)
def test_a_fraction_has_no_text(form: Callable[[Any], str]) -> None:
    with pytest.raises(npusim.UnsupportedError, match="asks for the text of a fraction that a tensor holds"):
        exported(lambda m, x: x * len(form(x.sum().item())), torch.tensor([1.0, 3.0]))


@pytest.mark.parametrize("form", TEXTS)
def test_the_text_of_a_whole_number_is_the_examples(form: Callable[[Any], str]) -> None:
    def function(m: Any, x: torch.Tensor) -> torch.Tensor:
        return x * {"0": 2.0, "1": 3.0}.get(form(x.argmax().item()).strip(), 0.0)

    run = session(function, torch.tensor([1.0, 3.0]))
    for values in ([1, 3], [2, 5]):
        assert np.array_equal(run.run(torch.tensor(values, dtype=torch.float32))["output"], np.array(values) * 3)
    with pytest.raises(npusim.BadInputError):
        run.run(torch.tensor([3.0, 1.0]))


def test_numbers_may_be_printed(capsys: Any) -> None:
    def function(m: Any, x: torch.Tensor) -> torch.Tensor:
        v = x.sum().item()
        print("sum:", v, sep=" ")
        return x * v

    run = session(function, torch.tensor([1.0, 3.0]))
    assert capsys.readouterr().out.startswith("sum: ")
    assert np.array_equal(run.run(torch.tensor([2.0, 5.0]))["output"], [14, 35])


WRITES = {
    "fill_": lambda b, v, x: b.fill_(v),
    "add_": lambda b, v, x: b.add_(x[:2] * v),
    "copy_": lambda b, v, x: b.copy_(x[:2] + v),
    "part": lambda b, v, x: b[:1].mul_(v),
    "index_put_": lambda b, v, x: b.index_put_((torch.tensor([1]),), x[:1] * v),
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("before", [True, False])
def test_a_branch_that_is_another_leaves_states_as_they_were(write: str, before: bool) -> None:
    """And is named, whatever is fused with it."""

    class Branches(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("b", torch.ones(2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            v = x[0].item()
            if before:
                WRITES[write](self.b, v, x)
            y = x * 2 if v > 1 else x * 3
            if not before:
                WRITES[write](self.b, v, x)
            return y[:2] + self.b

    model = Branches()
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        run = npusim.Session(npusim.compile(model, (torch.tensor([2.0, 1, 3]),), dtype="float32"))
    for values in ([2.0, 1, 3], [0.5, 1, 3], [3.0, 5, 0]):
        if values[0] > 1:
            assert np.allclose(run.run(torch.tensor(values))["output"], model(torch.tensor(values)))
        else:
            with pytest.raises(npusim.BadInputError, match=r"node item_\d*_?branch.*in_line_\d+_of"):
                run.run(torch.tensor(values))
