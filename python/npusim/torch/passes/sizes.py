"""Sizes and branches that depend on values: those of the example arguments, which the program checks when it runs.

A static program has one shape for what a mask chooses. Where all of it cannot be computed in its place, the shape is that
of the example, and a run whose values ask for another one fails by name, as does one that would take another branch."""

from __future__ import annotations

import operator
import re
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ...errors import Problem, UnsupportedError
from ..facts.checks import example_operands, hold, is_tensor
from ..facts.needed import CONDITIONS, find_needed
from ..facts.rows import call
from ..facts.messages import place_of
from ..forms.scalars import FILLS, arguments, arguments_of, given_numbers, made_tensors, with_tensors
from ..tracing.branches import INSTEAD, Asked, asked_by, condition_of, is_exact
from .numbers import READS
from .operators import as_call, constant, to_dtype
from .places import find_place, settle_place
from .sources import is_source, most_of, settle_source, sizes_of

ATEN = torch.ops.aten
ONE_NUMBER = "a number of Python of what a tensor holds, and would hold for that number alone, whose last bits no run repeats"
GUESSED = "is traced as if {}, which does not hold with the example"
GOES_ON = "what item() gives goes on through operators, functions of math, max() and min(); or compute with the tensor"


def settle_sizes(
    program: torch.export.ExportedProgram, graph: torch.fx.Graph, branches: dict[str, Asked] | None
) -> list[str]:
    """Makes every shape of the graph known, and gives what the program is made for then. branches: who asks what the graph
    asserts, where the model's branches are those that the example takes; None where it has none such.

    Where a shape depends on what has no form here, the graph is left as it is. Raises UnsupportedError where a branch does."""
    if not any(_depends(node) or is_source(node) for node in graph.nodes) or program.example_inputs is None:
        return []
    settling = _Settling(program, graph, branches)
    if not settling.can_settle():
        if settling.conditions:  # a branch was taken that nothing would check
            raise UnsupportedError(
                [
                    Problem(
                        asked_by(node, branches or {}).place or f"'{condition_of(node)}'",
                        f"decides a branch by values that npusim has no form to check: {INSTEAD}",
                    )
                    for node in settling.conditions
                ]
            )
        return []
    settling.settle()
    return [*settling.made_for]


class GuessedWrong(UnsupportedError):
    """What the tracer took for true of sizes that it did not know does not hold for the example's."""


class _Settling:
    def __init__(
        self, program: torch.export.ExportedProgram, graph: torch.fx.Graph, branches: dict[str, Asked] | None
    ) -> None:
        self.program = program
        self.branches = branches
        self.graph = graph
        self.made_for: dict[str, None] = {}
        self.checks: list[tuple[str, torch.fx.Node]] = []  # a name, and a condition: one number or truth
        self.pinned: set[torch.fx.Node] = set()  # numbers that it is made for
        self.asked: dict[torch.fx.Node, dict[str, None]] = {}  # numbers that decide branches, and where
        self.sizes: dict[torch.fx.Node, list[int]] = {}  # of sources
        self.tensors: dict[torch.fx.Node, Any] = {}  # numbers as tensors of one, or as what they are
        self.placed: set[torch.fx.Node] = set()  # views at places that numbers say

    def can_settle(self) -> bool:
        """Finds what has to be settled; whether all of it can be."""
        asserted = [n for n in self.graph.nodes if n.target == ATEN._assert_scalar.default]
        conditions = asserted if self.branches is not None else []
        self.conditions = dict.fromkeys(
            n for n in conditions if isinstance(n.args[0], torch.fx.Node) and not _always_holds(n.args[0])
        )
        needed = find_needed(self.graph, self.conditions)
        self.needed = [node for node in self.graph.nodes if node in needed]
        if not any(_depends(node) or is_source(node) for node in self.needed):
            return bool(self.conditions)
        return all(
            is_source(node) or node.target in READS or any(_depends(arg) for arg in node.all_input_nodes)
            for node in self.needed
            if _depends(node)
        )

    def settle(self) -> None:
        values = self.run_example()
        sources = [node for node in self.needed if node in self.sizes]
        for node in self.graph.nodes:
            if _depends(node) and not _is_number(node):
                node.meta["val"] = pytree.tree_map(_Like(node), values[node])
        for node in [node for node in self.needed if _is_number(node)]:
            self.tensors[node] = self.as_tensor(node, values)
        for node in self.conditions:
            self.check_branch(node, values)
        for read, places in self.asked.items():
            at = f", at {' or '.join(places)}" if places else ""
            self.note(f"{read.name} ({_name(read.target)}): {values[read]}{at}")
        for node in self.needed:
            if not _is_number(node) and node not in self.conditions:
                self.use_numbers(node, values)
        for node in sources:
            self.settle_source(node)
        for node in reversed(self.graph.nodes):
            spent = node.target is operator.getitem or _is_number(node) or node in sources
            if not node.users and (spent or node in self.placed or str(node.target) in CONDITIONS):
                self.graph.erase_node(node)
        hold(self.graph, self.checks)

    def settle_source(self, node: torch.fx.Node) -> None:
        sizes = self.sizes[node]
        self.note(f"{node.name} ({node.target}): {', '.join(map(str, sizes))}")
        with self.graph.inserting_before(node):
            result, conditions = settle_source(self.graph, node, sizes)
        for condition in conditions:
            self.check(f"{node.name}_has_size_{'_'.join(map(str, sizes))}", condition)
        if isinstance(result, torch.fx.Node):
            node.replace_all_uses_with(result)
        else:
            for user in list(node.users):
                user.replace_all_uses_with(result[user.args[1]])

    def run_example(self) -> dict[torch.fx.Node, Any]:
        """What numbers are with the example arguments, and of what shapes the tensors whose shapes depend on them."""
        found: dict[torch.fx.Node, Any] = {}
        sources = {node for node in self.needed if is_source(node)}
        sizes = self.sizes

        class Run(torch.fx.Interpreter):
            def run_node(self, node: torch.fx.Node) -> Any:
                args = self.fetch_args_kwargs_from_env(node)[0] if node in sources else ()
                try:
                    result = super().run_node(node)
                except Exception as error:
                    if node.target == ATEN._assert_scalar.default:
                        raise GuessedWrong([Problem(place_of(node) or f"node '{node.name}'", GUESSED.format(condition_of(node)))]) from error
                    reason = f"raises {type(error).__name__} with the example: {str(error).partition(chr(10))[0]}"
                    raise UnsupportedError([Problem(f"node '{node.name}' ({node.target})", reason)]) from error
                if _depends(node) or _is_number(node):
                    found[node] = pytree.tree_map(_shape_of, result)
                if node in sources:
                    sizes[node] = sizes_of(node, args, result)
                return result

        run = Run(torch.fx.GraphModule(self.program.graph_module, self.graph))
        try:
            run.run(*example_operands(self.program, self.graph))
        except UnsupportedError as error:  # to which the interpreter has added where it is
            raise type(error)(error.problems) from error.__cause__
        return found

    # ---- numbers

    def as_tensor(self, node: torch.fx.Node, values: dict[torch.fx.Node, Any]) -> Any:
        """A number that is computed of values as a tensor of one; of sizes alone, the number."""
        with self.graph.inserting_before(node):
            if node.target in READS:  # Python computes with its own numbers, whatever the tensor's dtype
                one = call(self.graph, ATEN.reshape.default, node.args[0], [])
                return to_dtype(self.graph, one, _dtype_of_number(one.meta["val"].dtype))
            given = [
                self.tensors[arg] if isinstance(arg, torch.fx.Node) and _is_number(arg) else arg for arg in node.args
            ]
            if (found := as_call(self.graph, node.target, given)) is not None:
                return found
            self.settle_operands(node, values)
            return values[node]

    def settle_operands(self, node: torch.fx.Node, values: dict[torch.fx.Node, Any]) -> None:
        """What a number is computed of without a form for tensors is what it was."""
        for arg in node.args:
            if isinstance(arg, torch.fx.Node) and _is_number(arg):
                self.pin(arg, node, values)

    def pin(self, node: torch.fx.Node, user: torch.fx.Node, values: dict[torch.fx.Node, Any]) -> None:
        """The program is made for this number, which a call takes as one. Raises UnsupportedError where a run does not compute
        the very same number of the example."""
        tensor = self.tensors[node]
        if not isinstance(tensor, torch.fx.Node) or node in self.pinned:
            return
        if isinstance(values[node], float) and not is_exact(node):
            at = place_of(user) or place_of(node)
            where = f"{at + ': ' if at else ''}node '{user.name}' ({_name(user.target)})"
            raise UnsupportedError([Problem(where, f"takes {ONE_NUMBER}: {GOES_ON}")])
        self.pinned.add(node)
        with self.graph.inserting_before(node):
            self.note(f"{node.name} ({_name(node.target)}): {values[node]}")
            self.check(_wanted(node, values[node]), call(self.graph, ATEN.eq.Scalar, tensor, values[node]))

    def use_numbers(self, node: torch.fx.Node, values: dict[torch.fx.Node, Any]) -> None:
        """Numbers among a call's arguments become tensors where the operator takes one, and else what they are."""
        if not any(_is_number(arg) for arg in node.all_input_nodes) or self.take_place(node):
            return
        if node.op == "output":  # a number is a tensor of one there
            with self.graph.inserting_before(node):
                node.args = torch.fx.node.map_arg(node.args, self.returned)
            return
        if isinstance(node.target, torch._ops.OpOverload):
            self.take_tensor(node, values)
        for arg in [arg for arg in node.all_input_nodes if _is_number(arg)]:
            self.pin(arg, node, values)

        def settled(found: torch.fx.Node) -> Any:
            return values[found] if _is_number(found) else found

        node.args, node.kwargs = torch.fx.node.map_arg((node.args, node.kwargs), settled)

    def take_place(self, node: torch.fx.Node) -> bool:
        """Gathers a view at a place that a number says, or writes there; whether it is done."""
        place = find_place(node)
        start = self.tensors.get(place.start) if place else None
        if place is None or not isinstance(start, torch.fx.Node):
            return False
        self.placed.add(node)
        for condition in settle_place(self.graph, node, place, start):
            self.check(f"{node.name}_place", condition)
        return True

    def take_tensor(self, node: torch.fx.Node, values: dict[torch.fx.Node, Any]) -> None:
        """Gives a call tensors in the place of numbers, where an overload of its operator takes them."""
        op, given = node.target, arguments(node.target, node.args, node.kwargs)

        def is_tensor_of_one(value: Any) -> bool:
            return isinstance(value, torch.fx.Node) and isinstance(self.tensors.get(value), torch.fx.Node)

        names = given_numbers(op, node.args, node.kwargs, is_tensor_of_one)
        if names and op in FILLS:
            for size in pytree.tree_leaves([value for name, value in given.items() if name not in names]):
                if isinstance(size, torch.fx.Node) and _is_number(size):
                    self.pin(size, node, values)
            with self.graph.inserting_before(node):
                value = to_dtype(self.graph, self.tensors[given[FILLS[op]]], node.meta["val"].dtype)
            node.target, node.args, node.kwargs = ATEN.expand.default, (value, list(node.meta["val"].shape)), {}
            return
        if not names or (other := with_tensors(op, names)) is None:
            return
        beside = next((value for value in given.values() if is_tensor(value)), None)
        names |= made_tensors(op, other, given)
        with self.graph.inserting_before(node):
            tensors = {name: self.operand(given[name], beside) for name in names}
            if not _gives(other, given | tensors, node.meta["val"]):  # it promotes nothing
                dtype = (beside or node).meta["val"].dtype
                tensors = {name: to_dtype(self.graph, tensor, dtype) for name, tensor in tensors.items()}
        node.target = other
        node.args, node.kwargs = arguments_of(other, given | tensors)

    def operand(self, value: Any, beside: torch.fx.Node | None) -> torch.fx.Node:
        """A number as a tensor that promotes another one, if there is one, as the number does."""
        if isinstance(value, torch.fx.Node) and not _is_number(value):
            return value
        tensor = self.tensors[value] if isinstance(value, torch.fx.Node) else value
        if not isinstance(tensor, torch.fx.Node):
            tensor = constant(self.graph, tensor)
        if beside is None:
            return tensor
        return to_dtype(self.graph, tensor, _dtype_as_number(beside.meta["val"], tensor.meta["val"]))

    def returned(self, node: torch.fx.Node) -> Any:
        return self.tensors[node] if _is_number(node) else node

    # ---- checks

    def check_branch(self, node: torch.fx.Node, values: dict[torch.fx.Node, Any]) -> None:
        """That a condition holds, which says what branch was taken."""
        condition, asked = self.tensors[node.args[0]], asked_by(node, self.branches or {})
        if not isinstance(condition, torch.fx.Node):
            return
        if asked.makes_number and not all(map(is_exact, node.args[0].all_input_nodes)):
            raise UnsupportedError([Problem(asked.place or f"node '{node.name}'", f"makes {ONE_NUMBER}: {GOES_ON}")])
        read = _read_of(node.args[0])
        self.asked.setdefault(read, {}).update(dict.fromkeys([asked.place] if asked.place else []))
        file, _, line = asked.place.partition(" ")[0].partition(":")
        where = f"_in_line_{line}_of_{re.sub(r'[^0-9A-Za-z]', '_', file)}" if line else ""
        where += "_item_in_the_place_of_int_holds_for_others" if asked.by_int else ""
        self.check(f"{read.name}_branch{where}", condition)

    def note(self, what: str) -> None:
        self.made_for[what] = None

    def check(self, name: str, condition: Any) -> None:
        if isinstance(condition, torch.fx.Node):
            self.checks.append((name, condition))


def _dtype_of_number(dtype: torch.dtype) -> torch.dtype:
    """Of the Python number that an element of a tensor is."""
    return torch.float64 if dtype.is_floating_point else torch.bool if dtype == torch.bool else torch.int64


def _wanted(node: torch.fx.Node, value: Any) -> str:
    """What a run whose values decide otherwise is told: the name of its assertion."""
    return f"{node.name}_is_{re.sub(r'[^0-9A-Za-z]', '_', str(value))}"


def _shape_of(value: Any) -> Any:
    """A tensor without its values."""
    if not isinstance(value, torch.Tensor):
        return value
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")


class _Like:
    """What stands for a tensor of a run in the graph."""

    def __init__(self, node: torch.fx.Node) -> None:
        vals = [v for v in pytree.tree_leaves(node.meta["val"]) if isinstance(v, torch.Tensor)]
        self.mode = torch._guards.detect_fake_mode(vals)
        self.device = vals[0].device if vals else None

    def __call__(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        with self.mode:
            return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=self.device)


def _depends(node: torch.fx.Node) -> bool:
    """Whether its value is a number, or has a shape, that depends on values."""
    return any(
        isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool))
        or (isinstance(value, torch.Tensor) and not all(isinstance(extent, int) for extent in value.shape))
        for value in pytree.tree_leaves(node.meta.get("val"))
    )


def _is_number(node: torch.fx.Node) -> bool:
    return isinstance(node.meta.get("val"), (torch.SymInt, torch.SymFloat, torch.SymBool)) or node.target in READS


def _always_holds(condition: torch.fx.Node) -> bool:
    """Whether it only says that there are not less than no elements, or not more than there can be."""
    if condition.target not in (operator.ge, operator.le) or not isinstance(condition.args[1], int):
        return False
    size, bound = condition.args
    if not isinstance(size, torch.fx.Node) or size.target != ATEN.sym_size.int:
        return False
    most = most_of(size.args[0])
    return bound <= 0 if condition.target is operator.ge else most is not None and size.args[1] == 0 and bound >= most


def _gives(op: Any, given: dict[str, Any], result: Any) -> bool:
    """Whether an overload gives such a result of these tensors."""
    args, kwargs = arguments_of(op, torch.fx.node.map_arg(given, lambda node: node.meta["val"]))
    try:
        return op(*args, **kwargs).dtype == result.dtype
    except RuntimeError:
        return False


def _read_of(number: torch.fx.Node) -> torch.fx.Node:
    """The last number read that it is computed of."""
    seen: set[torch.fx.Node] = set()
    waiting = [number]
    while waiting:
        node = waiting.pop()
        if node.target in READS:
            return node
        if node not in seen:
            seen.add(node)
            waiting += [arg for arg in node.all_input_nodes if _is_number(arg)]
    return number


def _dtype_as_number(x: torch.Tensor, value: torch.Tensor) -> torch.dtype:
    """In which a tensor of one promotes `x` as a number of its kind does."""
    kinds = [(v.dtype.is_complex, v.dtype.is_floating_point, v.dtype != torch.bool) for v in (x, value)]
    if kinds[1] <= kinds[0] and (x.dim() == 0 or not value.dtype.is_floating_point):
        return x.dtype
    if kinds[1] <= kinds[0]:
        return value.dtype
    return torch.get_default_dtype() if value.dtype.is_floating_point else torch.int64


def _name(target: Any) -> str:
    return str(target) if isinstance(target, torch._ops.OpOverload) else getattr(target, "__name__", str(target))
