"""Branches, and numbers that become Python's, as the example has them: which line of the model asks, and that a check of it
is in the graph."""

from __future__ import annotations

import contextlib
import operator
import re
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import sympy
import torch
from torch.fx.experimental.sym_node import SymNode
from torch.fx.experimental.symbolic_shapes import (
    RuntimeAssert,
    ShapeEnv,
    _has_uninterpretable_sympy_function,
    canonicalize_bool_expr,
)

from ...errors import Problem, UnsupportedError
from ..facts.threads import replaced
from ..facts.messages import place

ATEN = torch.ops.aten
# What stands behind a condition in an assertion's message.
BRANCH, NUMBER = "; a branch at ", "; a number of Python's at "
# How many a mask chooses that stands beside other indices: no number of the graph, and what becomes of the call holds it.
CHOSEN = "; how many a mask chooses"
CHOOSING: ContextVar[bool] = ContextVar("CHOOSING", default=False)  # whether such a call is asking
# Calls that give elements of what they are given, as they are, whatever else is computed around them.
MOVES = {
    *(ATEN.reshape.default, ATEN.view.default, ATEN.select.int, ATEN.slice.Tensor, ATEN.expand.default, ATEN.clone.default),
    *(ATEN.unsqueeze.default, ATEN.squeeze.default, ATEN.squeeze.dim, ATEN.permute.default, ATEN.index.Tensor),
    *(ATEN.max.default, ATEN.min.default, ATEN.amax.default, ATEN.amin.default, ATEN.alias.default, ATEN.detach.default),
    *(ATEN.item.default, ATEN._local_scalar_dense.default, torch.sym_float, operator.getitem, ATEN.index_select.default),
}
AS_INT: ContextVar[bool] = ContextVar("AS_INT", default=False)  # whether int() is asking, which is not followed there
HOLDS = ": .item() in the place of int() holds for others too"  # behind its place
INSTEAD = "torch.where, torch.cond or torch.clamp compute both sides for every input"


@dataclass(frozen=True)
class Asked:
    """A condition that holds with the example."""

    place: str  # in the model, that asks; "" where that is unknown
    makes_number: bool  # a number of Python
    by_int: bool = False  # whether int() asks, where .item() in its place would hold for others too


@contextlib.contextmanager
def places_noted() -> Iterator[None]:
    """With the place in the model in what the tracer says of a branch, and an assertion where it may make none itself."""
    kinds = {"guard_bool": torch.SymBool, "guard_int": torch.SymInt, "guard_float": torch.SymFloat}
    defer = ShapeEnv.guard_or_defer_runtime_assert
    marks: list[str] = []  # of what is being asked for

    def deferred(self: ShapeEnv, condition: Any, message: str, *args: Any, **kwargs: Any) -> bool:
        mark = marks[-1] if marks else NUMBER if _is_one_fraction(condition) else BRANCH
        return defer(self, condition, message + (CHOSEN if CHOOSING.get() else mark + _place()), *args, **kwargs)

    with contextlib.ExitStack() as entered:
        entered.enter_context(replaced(ShapeEnv, "guard_or_defer_runtime_assert", deferred))
        for name, symbolic in kinds.items():
            entered.enter_context(replaced(SymNode, name, _compared(getattr(SymNode, name), symbolic, marks)))
        yield


def _compared(guard: Callable[..., Any], symbolic: Callable[[SymNode], Any], marks: list[str]) -> Callable[..., Any]:
    """Of `bool()`, `int()` and `float()` of a number that values decide: as is, and a condition of the graph says so."""
    mark = NUMBER if symbolic is torch.SymFloat else BRANCH

    def guarded(self: SymNode, file: str, line: int) -> Any:
        known = self.expr.xreplace(self.shape_env.real_tensor_prop_unbacked_vals)
        if _is_left_out(self.expr) and known in (sympy.true, sympy.false):
            holds = torch.SymBool(self) if known == sympy.true else torch.sym_not(torch.SymBool(self))
            condition = self.expr if known == sympy.true else sympy.Not(self.expr)
            _assert(holds, canonicalize_bool_expr(condition), mark)
        elif _is_left_out(self.expr) and known.is_number:
            holds = symbolic(self) == (int(known) if symbolic is torch.SymInt else float(known))
            _assert(holds, canonicalize_bool_expr(sympy.Eq(self.expr, known)), mark)
        marks.append(mark)
        try:
            return guard(self, file, line)
        finally:
            marks.pop()

    return guarded


def _is_left_out(expression: Any) -> bool:
    """Whether the tracer may write no condition of it: it writes no bounds of fractions, and nothing that converts."""
    return _has_uninterpretable_sympy_function(expression) or any(not n.is_integer for n in expression.free_symbols)


def _is_one_fraction(condition: Any) -> bool:
    """Whether it asks for one fraction that a tensor holds, as operators of PyTorch do that take no other."""
    numbers = condition.free_symbols
    return isinstance(condition, sympy.Eq) and condition.rhs.is_number and any(not n.is_integer for n in numbers)


def _assert(holds: torch.SymBool, condition: Any, mark: str) -> None:
    ATEN._assert_scalar.default(holds, f"Runtime assertion failed for expression {condition}{mark}{_place()}")


def _place() -> str:
    return place() + (HOLDS if AS_INT.get() else "")


def find_branches(module: torch.fx.GraphModule) -> dict[str, Asked]:
    """What a traced graph asserts, by the conditions as the tracer spells them. What becomes of the graph has them still.

    Raises UnsupportedError where a branch was decided by a number of which no call of the graph says anything: the tracer
    says nothing of a size that nothing reads. Of the others it leaves out what follows from what it says."""
    given = [node.meta.get("val") for node in module.graph.nodes if node.op == "placeholder"]
    mode = torch._guards.detect_fake_mode(given)
    if mode is None or mode.shape_env is None:
        return {}
    decided = [check for checks in mode.shape_env.deferred_runtime_asserts.values() for check in checks]
    spelled = [str(check.expr) for check in decided]
    asked = {condition: _asked(check.msg) for condition, check in zip(spelled, decided, strict=True)}
    about: dict[str, dict[str, None]] = {}  # by number the conditions on it
    for condition in spelled:
        for number in _words(condition):
            about.setdefault(number, {})[condition] = None
    found: dict[str, Asked] = {}
    calls = (node for part in module.modules() if isinstance(part, torch.fx.GraphModule) for node in part.graph.nodes)
    for node in calls:
        if node.target == ATEN._assert_scalar.default:
            condition = condition_of(node)
            if condition not in asked:  # a bound that follows from several conditions bears the places of all
                near = {other for number in _words(condition) for other in about.get(number, ())}
                of_these = [asked[other] for other in asked if other in near] if near else []
                places = " or ".join(filter(None, dict.fromkeys(one.place for one in of_these)))
                asked_here = Asked(places, False, any(one.by_int for one in of_these))
            else:
                asked_here = asked[condition]
            found[condition] = asked_by(node, {condition: asked_here})
    known = {number for condition in found for number in _words(condition)}
    lost = [check for check in decided if _is_lost(check, known, found)]
    if lost:
        where = [asked[str(check.expr)].place or f"'{check.expr}'" for check in lost]
        reason = f"decides a branch by values, and nothing would check it when the program runs: {INSTEAD}"
        raise UnsupportedError([Problem(at, reason) for at in dict.fromkeys(where)])
    return found


def _is_lost(check: RuntimeAssert, known: set[str], found: dict[str, Asked]) -> bool:
    """Whether nothing in the graph says what was decided: of numbers that are known what the tracer may leave out has to be
    there itself. What the model only promises (`torch._check`) decides nothing."""
    if CHOSEN in check.msg:
        return False
    if any(str(number) not in known for number in check.expr.free_symbols):
        return True
    decides = check.msg.startswith("propagate_real_tensors") or NUMBER in check.msg
    return decides and _is_left_out(check.expr) and str(check.expr) not in found


def asked_by(assertion: torch.fx.Node, found: dict[str, Asked]) -> Asked:
    """Who asks what an assertion says: that stands in it, or was found in the graph that it comes of."""
    said = _asked(str(assertion.args[1]))
    return said if said.place or said.makes_number else found.get(condition_of(assertion), said)


def _asked(message: str) -> Asked:
    return Asked((message.partition(NUMBER)[2] or message.partition(BRANCH)[2]), NUMBER in message, HOLDS in message)


def condition_of(assertion: torch.fx.Node) -> str:
    """As the tracer spells it."""
    message = str(assertion.args[1]).partition(BRANCH)[0].partition(NUMBER)[0]
    return message.partition("for expression ")[2].partition(" on node ")[0]


def _words(condition: str) -> set[str]:
    return set(re.findall(r"[a-z]+\d+", condition))


def is_exact(number: torch.fx.Node) -> bool:
    """Whether a run computes it bit for bit as PyTorch does: what is whole, or is somewhere in what the program is given.
    Sums differ with their order."""
    value = number.meta.get("val")
    fraction = isinstance(value, torch.SymFloat) or (isinstance(value, torch.Tensor) and value.dtype.is_floating_point)
    if not fraction or number.op == "placeholder":
        return True
    return number.target in MOVES and all(map(is_exact, number.all_input_nodes))
