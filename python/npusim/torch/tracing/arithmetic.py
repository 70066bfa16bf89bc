"""What Python makes of numbers that tensors hold, while a model is traced: numbers that go on as tensors.

PyTorch's tracer follows Python's operators of such numbers, of fractions as algebra has them: `v - v` is 0 there, and
`v == v` is true, whatever a run has. So all that is done with a fraction is computed of tensors. Of what the tracer does not
follow it would take the example's number: functions of `math`, the larger of two; and it has `//`, powers and truth of
fractions in another way than Python. What asks such a number for its type or its text would find the tracer's."""

from __future__ import annotations

import builtins
import contextlib
import functools
import math
import operator
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import SymBool, SymFloat, SymInt, Tensor
from torch._export.non_strict_utils import _tensor_min_max

from ...errors import Problem, UnsupportedError
from ..facts.threads import ASKER, replaced
from ..facts.messages import is_of_a_library, place
from .swallowed import noted

Function = Callable[..., Any]
UNARY = (
    *("acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "erf", "erfc", "exp", "exp2", "expm1", "lgamma"),
    *("log10", "log1p", "log2", "sin", "sinh", "sqrt", "tan", "tanh", "isnan", "isinf", "isfinite"),
)


@contextlib.contextmanager
def numbers_followed() -> Iterator[None]:
    """Around what is traced, and what becomes of it."""
    from torch.export import _trace  # which PyTorch imports when something is exported

    with contextlib.ExitStack() as entered:
        for of, name, function in _methods():
            entered.enter_context(replaced(of, name, function))
        entered.enter_context(replaced(_trace, "_override_builtin_ops", _override))
        yield


@contextlib.contextmanager
def _override() -> Iterator[None]:
    """In the place of PyTorch's own replacement of functions around a trace, which is for all threads: what it has for tensors,
    and these."""
    largest, smallest = _extreme(max, torch.gt, torch.sym_max), _extreme(min, torch.lt, torch.sym_min)
    with contextlib.ExitStack() as entered:
        for function, form in FUNCTIONS.items():
            entered.enter_context(replaced(math, function.__name__, of_numbers(function, form)))
        for name in ("floor", "ceil", "trunc"):
            entered.enter_context(replaced(math, name, _of_item(getattr(math, name))))
        entered.enter_context(replaced(operator, "index", _models_index))
        entered.enter_context(replaced(builtins, "max", largest(_of_tensors(max, torch.maximum))))
        entered.enter_context(replaced(builtins, "min", smallest(_of_tensors(min, torch.minimum))))
        entered.enter_context(replaced(builtins, "isinstance", _is_instance(isinstance)))
        entered.enter_context(replaced(builtins, "print", _printed(print)))
        yield


def _of_tensors(plain: Function, of_tensors: Function) -> Function:
    """PyTorch's larger or smaller one of two tensors."""
    return functools.partial(_tensor_min_max, real_callable=plain, tensor_callable=of_tensors)


# Functions, and what they are of tensors of fractions.
FUNCTIONS: dict[Function, Function] = {
    **{getattr(math, name): getattr(torch, name) for name in UNARY if hasattr(math, name)},
    **{getattr(math, name): getattr(torch, name) for name in ("atan2", "copysign", "fmod", "hypot", "pow")},
    math.degrees: torch.rad2deg,
    math.fabs: torch.abs,
    math.log: lambda x, base=None: torch.log(x) if base is None else torch.log(x) / torch.log(base),
    math.radians: torch.deg2rad,
}


def is_held(value: Any) -> bool:
    """Whether it is a number that a tensor holds, or a tensor of one."""
    if isinstance(value, Tensor):
        return all(isinstance(extent, int) and extent == 1 for extent in value.shape)
    return isinstance(value, (SymFloat, SymInt))


def fraction(number: Any) -> Tensor:
    """A tensor of one that is it."""
    if isinstance(number, Tensor):
        return number.reshape([]).to(torch.float64)
    return torch.scalar_tensor(number, dtype=torch.float64)


def whole(number: Any) -> Any:
    """What `int()` gives of a number that a tensor holds, or of a tensor of one. Of what no int64 holds, where Python has a
    longer number or an error, the run ends."""
    if isinstance(number, Tensor):
        number = (number.to(torch.int64) if number.dtype == torch.bool else number).item()
    if not isinstance(number, (SymFloat, SymInt, SymBool)):
        return builtins.int(number)
    if isinstance(number, SymInt):
        return number
    if isinstance(number, SymBool):
        return torch.scalar_tensor(number, dtype=torch.int64).item()
    value = fraction(number)
    torch._assert_async(value.abs() < 2.0**63, "int of what no int64 holds")
    return value.to(torch.int64).item()


def is_held_fraction(value: Any) -> bool:
    """Whether it is a fraction that a tensor holds, or is made of one: not one that sizes are computed with."""
    if type(value) is not SymFloat:
        return False
    return any(not symbol.is_integer for symbol in getattr(getattr(value.node, "expr", None), "free_symbols", ()))


def of_numbers(plain: Function, form: Function) -> Function:
    @functools.wraps(plain)
    def function(*numbers: Any) -> Any:
        if not any(is_held(number) for number in numbers):
            return plain(*numbers)
        return form(*map(fraction, numbers)).item()

    return function


def _index(value: Any) -> Any:
    return whole(value) if is_held(value) and not _is_real(value) else INDEX(value)


def _models_index(value: Any) -> Any:
    """PyTorch asks for numbers of Python's, to choose its way by them."""
    return (_index if _is_the_models(sys._getframe(ASKER)) else INDEX)(value)


def _is_real(value: Any) -> bool:
    """Whether it is of a kind that Python takes for no index."""
    if not isinstance(value, Tensor):
        return isinstance(value, SymFloat)
    return value.dtype == torch.bool or value.dtype.is_floating_point or value.dtype.is_complex


INDEX = operator.index
# What a module may have under names of its own, and what that is while it is traced.
NAMED_FUNCTIONS: dict[Function, Function] = {
    **{function: of_numbers(function, form) for function, form in FUNCTIONS.items()},
    INDEX: _index,
}


def _of_item(plain: Function) -> Function:
    return lambda x: plain(x.item() if isinstance(x, Tensor) else x)


def _extreme(plain: Function, is_better: Function, of_whole: Function) -> Callable[[Function], Function]:
    """The largest, or smallest, of numbers: a later one only where it is better than those before, so that what is no number
    stays where it comes first. Of whole numbers beside fractions the values decide of which kind the result is: a branch."""

    def better(first: Any, second: Any) -> Any:
        a, b = fraction(first), fraction(second)
        return torch.where(is_better(b, a), b, a).item()

    def of(pytorchs: Function) -> Function:
        def function(*given: Any, **kwargs: Any) -> Any:
            values = list(given[0]) if len(given) == 1 and not isinstance(given[0], Tensor) else list(given)
            kinds = {_kind(value) for value in values}
            if kwargs or len(values) < 2 or not any(isinstance(value, (SymFloat, SymInt)) for value in values):
                return pytorchs(*((values,) if len(given) == 1 and not isinstance(given[0], Tensor) else given), **kwargs)
            if kinds == {float}:
                return functools.reduce(better, values)
            if kinds == {int}:
                return functools.reduce(of_whole, values)
            return plain(values) if kinds == {int, float} else pytorchs(*given)

        return function

    return of


def _kind(value: Any) -> type | None:
    if isinstance(value, (SymFloat, float)):
        return float
    return int if isinstance(value, (SymInt, int)) and not isinstance(value, bool) else None


# ---- operators


def _methods() -> Iterator[tuple[type, str, Function]]:
    for name, form in {"pow": _power, "floordiv": _quotient, "mod": _remainder}.items():
        for of in (SymFloat, SymInt):
            yield of, f"__{name}__", _operator(getattr(of, f"__{name}__"), form, of is SymFloat)
            yield of, f"__r{name}__", _operator(getattr(of, f"__r{name}__"), lambda a, b, form=form: form(b, a), of is SymFloat)
    for of in (SymFloat, SymInt):
        for name in ("add", "sub", "mul", "truediv"):
            form = getattr(operator, name)
            yield of, f"__{name}__", _of_fractions(getattr(of, f"__{name}__"), form)
            yield of, f"__r{name}__", _of_fractions(getattr(of, f"__r{name}__"), lambda a, b, form=form: form(b, a))
        for name in ("eq", "ne", "lt", "le", "gt", "ge"):
            yield of, f"__{name}__", _of_fractions(getattr(of, f"__{name}__"), getattr(operator, name))
    for of, kind in ((SymFloat, float), (SymInt, int), (SymBool, bool)):
        for name in ("str", "repr", "format"):
            yield of, f"__{name}__", _text(getattr(of, f"__{name}__"), name, kind)
    yield SymInt, "__round__", _rounded(SymInt.__round__)
    yield SymInt, "__hash__", _hashed(SymInt.__hash__)
    for of in (SymFloat, SymInt):
        yield of, "__divmod__", lambda self, other: (self // other, self % other)
        yield of, "__rdivmod__", lambda self, other: (other // self, other % self)
    yield SymFloat, "__bool__", lambda self: builtins.bool(self != 0.0)


def _of_fractions(plain: Function, form: Function) -> Function:
    """Of whole numbers as it is: sizes are computed with them. Where the model computes or asks: PyTorch does so with what it
    was given, to choose its way."""

    @functools.wraps(plain)
    def method(self: Any, other: Any) -> Any:
        held = is_held_fraction(self) or is_held_fraction(other)
        if held and _is_number(other) and _is_the_models(sys._getframe(ASKER)):
            return form(fraction(self), fraction(other)).item()
        return plain(self, other)

    return method


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, SymInt, SymFloat))


def _rounded(plain: Function) -> Function:
    """To tens, hundreds, …: PyTorch leaves whole numbers as they are."""

    @functools.wraps(plain)
    def method(self: Any, digits: int | None = None) -> Any:
        if digits is None or digits >= 0:
            return plain(self, digits)
        step = 10**-digits
        number = torch.scalar_tensor(self, dtype=torch.int64)
        below = torch.floor_divide(number, step)
        twice = (number - below * step) * 2
        up = (twice > step) | ((twice == step) & (below % 2 == 1))
        return ((below + up.to(torch.int64)) * step).item()

    return method


# ---- what a number is, and its text

EXAMPLES: dict[type, Any] = {SymFloat: 0.0, SymInt: 0, SymBool: True}  # of the types that Python has


def _is_the_models(frame: Any) -> bool:
    """Code from a string may be the model's, or what Python writes for a dataclass of PyTorch's."""
    file, module = frame.f_code.co_filename, str(frame.f_globals.get("__name__"))
    if file == "<string>":
        return module.partition(".")[0] not in ("torch", "npusim")
    return not is_of_a_library(file)


def _is_instance(plain: Function) -> Function:
    """For the model a number that a tensor holds is of the type that Python's own is."""

    def function(value: Any, kinds: Any) -> bool:
        example = EXAMPLES.get(type(value))
        if example is None or plain(value, kinds) or not _is_the_models(sys._getframe(ASKER)):
            return plain(value, kinds)
        return plain(example, kinds)

    return function


def _text(plain: Function, name: str, kind: type) -> Function:
    """The tracer's name for the number would decide what the model does with its text. That of a whole number is the
    example's, which a run has to have too; of a fraction, of which no run repeats the last digits, there is none."""

    @functools.wraps(plain)
    def method(self: Any, *form: Any) -> str:
        if not _is_the_models(sys._getframe(ASKER)) or getattr(self.node, "is_constant", lambda: False)():
            return plain(self, *form)
        if kind is not float:
            return getattr(kind, f"__{name}__")(kind(self), *form)
        what = "asks for the text of a fraction that a tensor holds: a program has none. print() of the number is fine"
        raise noted(UnsupportedError([Problem(place() or "the model", what)]))

    return method


def _hashed(plain: Function) -> Function:
    """A key of a dict is a number of Python's, as the example has it. Sizes have no hash: libraries ask that of them, and go
    another way that holds for all."""

    @functools.wraps(plain)
    def method(self: Any) -> int:
        numbers = getattr(getattr(self.node, "expr", None), "free_symbols", set())
        if not numbers or numbers & self.node.shape_env.size_like or not _is_the_models(sys._getframe(ASKER)):
            return plain(self)
        return hash(int(self))

    return method


def _printed(plain: Function) -> Function:
    """Numbers that tensors hold as the tracer names them."""
    return lambda *values, **how: plain(*(str(v) if type(v) in EXAMPLES else v for v in values), **how)


def _power(base: Any, exponent: Any) -> Tensor:
    """A real number. Python has complex ones of what is negative: such a run ends."""
    a, b = fraction(base), fraction(exponent)
    if not (isinstance(exponent, (int, float)) and exponent == math.floor(exponent)) and not _is_positive(base):
        real = (a >= 0) | (b == b.floor()) | a.isnan()
        torch._assert_async(real, "power of a negative number that is not real")
    return torch.pow(a, b)


def _is_positive(number: Any) -> bool:
    return isinstance(number, (int, float)) and number >= 0


def _quotient(a: Any, b: Any) -> Tensor:
    return torch.floor_divide(fraction(a), fraction(b))


def _remainder(a: Any, b: Any) -> Tensor:
    return torch.remainder(fraction(a), fraction(b))


def _operator(plain: Function, form: Function, always: bool) -> Function:
    """always: also beside whole numbers."""

    @functools.wraps(plain)
    def method(self: Any, other: Any) -> Any:
        if isinstance(other, (float, SymFloat)) or (always and isinstance(other, (int, SymInt))):
            return form(self, other).item()
        return plain(self, other)

    return method
