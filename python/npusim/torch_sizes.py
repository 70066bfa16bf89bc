"""Sizes and branches that depend on values: those of the example arguments, which the program checks when it runs.

A static program has one shape for what a mask chooses. Where all of it cannot be computed in its place, the shape is that
of the example, and a run whose values ask for another one fails by name, as does one that would take another branch."""

from __future__ import annotations

import math
import operator
import re
from typing import Any

import torch
from torch.utils import _pytree as pytree

from .errors import Problem, UnsupportedError
from .torch_checks import example_operands, hold, is_tensor
from .torch_needed import CONDITIONS, find_needed
from .torch_numbers import READS
from .torch_places import find_place, settle_place
from .torch_rows import call
from .torch_sources import is_source, most_of, settle_source, sizes_of

ATEN = torch.ops.aten
# What Python's operators are of tensors.
OF_TENSORS: dict[Any, Any] = {
    **{getattr(operator, name): getattr(ATEN, name).Tensor for name in ("eq", "ne", "lt", "le", "gt", "ge", "mul")},
    operator.add: ATEN.add.Tensor,
    operator.sub: ATEN.sub.Tensor,
    operator.truediv: ATEN.div.Tensor,
    operator.floordiv: ATEN.floor_divide.default,
    operator.mod: ATEN.remainder.Tensor,
    operator.neg: ATEN.neg.default,
    operator.and_: ATEN.bitwise_and.Tensor,  # of truths the logical ones
    operator.or_: ATEN.bitwise_or.Tensor,
    torch.sym_not: ATEN.logical_not.default,
    torch.sym_ite: ATEN.where.self,
    torch.sym_max: ATEN.maximum.default,
    torch.sym_min: ATEN.minimum.default,
}
WHOLE = {math.floor: ATEN.floor.default, math.ceil: ATEN.ceil.default, math.trunc: ATEN.trunc.default}
CASTS = {torch.sym_float: torch.float64, torch.sym_int: torch.int64}
# Operators that take a number, by the overloads that take a tensor in its place.
WITH_TENSOR = {
    **{f"aten.{name}.Scalar": "Tensor" for name in ("add", "sub", "mul", "div", "eq", "ne", "lt", "le", "gt", "ge")},
    **{f"aten.{name}.Scalar": "Tensor" for name in ("masked_fill", "remainder", "fmod", "floor_divide")},
    **{f"aten.{name}.default": "Tensor" for name in ("clamp", "clamp_min", "clamp_max")},
    "aten.pow.Tensor_Scalar": "Tensor_Tensor",
}


def settle_sizes(
    program: torch.export.ExportedProgram, graph: torch.fx.Graph, branches: bool
) -> list[str]:
    """Makes every shape of the graph known, and gives what the program is made for then. branches: whether the model's
    branches are those that the example takes; the conditions in the graph say which then.

    Where a shape depends on what has no form here, the graph is left as it is. Raises UnsupportedError where a branch does."""
    if not any(_depends(node) for node in graph.nodes) or program.example_inputs is None:
        return []
    settling = _Settling(program, graph)
    if not settling.can_settle(branches):
        if settling.conditions:  # a branch was taken that nothing would check
            raise UnsupportedError(
                [Problem(f"node '{node.name}'", f"decides a branch: {node.args[1]}") for node in settling.conditions]
            )
        return []
    settling.settle()
    return settling.made_for


def check_branches(module: torch.fx.GraphModule) -> None:
    """Raises UnsupportedError where a branch was decided by a number of which no call of the graph says anything: the tracer
    says nothing of a size that nothing reads. Of the others it leaves out what follows from what it says."""
    given = [node.meta.get("val") for node in module.graph.nodes if node.op == "placeholder"]
    mode = torch._guards.detect_fake_mode(given)
    if mode is None or mode.shape_env is None:
        return
    calls = (node for part in module.modules() if isinstance(part, torch.fx.GraphModule) for node in part.graph.nodes)
    said = " ".join(str(node.args[1]) for node in calls if node.target == ATEN._assert_scalar.default)
    known = set(re.findall(r"\w+", said))
    decided = [check.expr for checks in mode.shape_env.deferred_runtime_asserts.values() for check in checks]
    lost = [what for what in decided if any(str(number) not in known for number in what.free_symbols)]
    if lost:
        raise UnsupportedError([Problem(f"'{what}'", "decides a branch, and nothing would check it") for what in lost])


class _Settling:
    def __init__(self, program: torch.export.ExportedProgram, graph: torch.fx.Graph) -> None:
        self.program = program
        self.graph = graph
        self.made_for: list[str] = []
        self.checks: list[tuple[str, torch.fx.Node]] = []  # a name, and a condition: one number or truth
        self.pinned: set[torch.fx.Node] = set()  # numbers that it is made for
        self.sizes: dict[torch.fx.Node, list[int]] = {}  # of sources
        self.tensors: dict[torch.fx.Node, Any] = {}  # numbers as tensors of one, or as what they are
        self.placed: set[torch.fx.Node] = set()  # views at places that numbers say

    def can_settle(self, branches: bool) -> bool:
        """Finds what has to be settled; whether all of it can be."""
        needed = find_needed(self.graph)
        conditions = [n for n in self.graph.nodes if n.target == ATEN._assert_scalar.default] if branches else []
        self.conditions = dict.fromkeys(
            n for n in conditions if isinstance(n.args[0], torch.fx.Node) and not _always_holds(n.args[0])
        )
        for node in reversed(self.graph.nodes):
            if node in self.conditions or needed.intersection(node.users):
                needed.add(node)
        self.needed = [node for node in self.graph.nodes if node in needed]
        if not any(_depends(node) for node in self.needed):
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
                    reason = f"raises {type(error).__name__} with the example: {str(error).partition(chr(10))[0]}"
                    raise UnsupportedError([Problem(f"node '{node.name}' ({node.target})", reason)]) from error
                if _depends(node) or _is_number(node):
                    found[node] = pytree.tree_map(_shape_of, result)
                if node in sources:
                    sizes[node] = sizes_of(node, args, result)
                return result

        Run(torch.fx.GraphModule(self.program.graph_module, self.graph)).run(
            *example_operands(self.program, self.graph)
        )
        return found

    # ---- numbers

    def as_tensor(self, node: torch.fx.Node, values: dict[torch.fx.Node, Any]) -> Any:
        """A number that is computed of values as a tensor of one; of sizes alone, the number."""
        with self.graph.inserting_before(node):
            if node.target in READS:  # Python computes with its own numbers, whatever the tensor's dtype
                one = call(self.graph, ATEN.reshape.default, node.args[0], [])
                dtype = _dtype_of_number(one.meta["val"].dtype)
                return one if one.meta["val"].dtype == dtype else call(self.graph, ATEN.to.dtype, one, dtype)
            given = [
                self.tensors[arg] if isinstance(arg, torch.fx.Node) and _is_number(arg) else arg for arg in node.args
            ]
            if node.target in CASTS and isinstance(given[0], torch.fx.Node):
                return call(self.graph, ATEN.to.dtype, given[0], CASTS[node.target])
            if node.target in WHOLE and isinstance(given[0], torch.fx.Node):
                return call(self.graph, ATEN.to.dtype, call(self.graph, WHOLE[node.target], given[0]), torch.int64)
            if node.target not in OF_TENSORS or not any(isinstance(arg, torch.fx.Node) for arg in given):
                self.settle_operands(node, values)
                return values[node]
            given = [arg if isinstance(arg, torch.fx.Node) else self.constant(arg) for arg in given]
            if node.target is operator.truediv:
                given = [call(self.graph, ATEN.to.dtype, arg, torch.float64) for arg in given]
            return call(self.graph, OF_TENSORS[node.target], *given)

    def settle_operands(self, node: torch.fx.Node, values: dict[torch.fx.Node, Any]) -> None:
        """What a number is computed of without a form for tensors is what it was."""
        for arg in node.args:
            if isinstance(arg, torch.fx.Node) and _is_number(arg):
                self.pin(arg, values)

    def constant(self, number: Any) -> torch.fx.Node:
        dtype = torch.bool if isinstance(number, bool) else torch.int64 if isinstance(number, int) else torch.float64
        return call(self.graph, ATEN.full.default, [], number, dtype=dtype, device=torch.device("cpu"))

    def pin(self, node: torch.fx.Node, values: dict[torch.fx.Node, Any]) -> None:
        """The program is made for this number."""
        tensor = self.tensors[node]
        if not isinstance(tensor, torch.fx.Node) or node in self.pinned:
            return
        self.pinned.add(node)
        with self.graph.inserting_before(node):
            self.note(f"{node.name} ({_name(node.target)}): {values[node]}")
            self.check(_wanted(node, values[node]), call(self.graph, ATEN.eq.Scalar, tensor, values[node]))

    def use_numbers(self, node: torch.fx.Node, values: dict[torch.fx.Node, Any]) -> None:
        """Numbers among a call's arguments become tensors where the operator takes one, and else what they are."""
        if not any(_is_number(arg) for arg in node.all_input_nodes) or self.take_place(node):
            return
        if isinstance(node.target, torch._ops.OpOverload):
            self.take_tensor(node)
        for arg in [arg for arg in node.all_input_nodes if _is_number(arg)]:
            self.pin(arg, values)

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

    def take_tensor(self, node: torch.fx.Node) -> None:
        """Gives a call tensors in the place of numbers, where an overload of its operator takes them."""
        op = node.target
        if op == ATEN.full.default and isinstance(self.tensors.get(node.args[1]), torch.fx.Node):
            with self.graph.inserting_before(node):
                value = call(self.graph, ATEN.to.dtype, self.tensors[node.args[1]], node.meta["val"].dtype)
            node.target, node.args, node.kwargs = ATEN.expand.default, (value, node.args[0]), {}
            return
        other = getattr(op._overloadpacket, WITH_TENSOR.get(str(op), op._overloadname), None)
        if other is None or not node.args or not is_tensor(node.args[0]):
            return
        takes = [_takes_tensor(arg) for arg in other._schema.arguments]
        given = [value for value, taken in zip(node.args, takes) if taken and isinstance(value, torch.fx.Node)]
        if not any(_is_number(arg) and isinstance(self.tensors[arg], torch.fx.Node) for arg in given):
            return
        with self.graph.inserting_before(node):
            args = [self.operand(v, node.args[0]) if t else v for v, t in zip(node.args, takes)]
        node.target, node.args = other, tuple(args)

    def operand(self, value: Any, beside: torch.fx.Node) -> Any:
        """A number as a tensor that promotes another one as the number does."""
        if isinstance(value, torch.fx.Node) and not _is_number(value):
            return value
        tensor = self.tensors[value] if isinstance(value, torch.fx.Node) else value
        if tensor is None:
            return None
        if not isinstance(tensor, torch.fx.Node):
            tensor = self.constant(tensor)
        dtype = _dtype_as_number(beside.meta["val"], tensor.meta["val"])
        return tensor if dtype == tensor.meta["val"].dtype else call(self.graph, ATEN.to.dtype, tensor, dtype)

    # ---- checks

    def check_branch(self, node: torch.fx.Node, values: dict[torch.fx.Node, Any]) -> None:
        """That a condition holds, which says what branch was taken."""
        condition = self.tensors[node.args[0]]
        if isinstance(condition, torch.fx.Node):
            read = _read_of(node.args[0])
            self.note(f"{read.name} ({_name(read.target)}): {values[read]}")
            self.check(f"{read.name}_branch", condition)

    def note(self, what: str) -> None:
        if what not in self.made_for:
            self.made_for.append(what)

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


def _takes_tensor(arg: Any) -> bool:
    kind = arg.type.getElementType() if isinstance(arg.type, torch._C.OptionalType) else arg.type
    return isinstance(kind, torch._C.TensorType)


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
