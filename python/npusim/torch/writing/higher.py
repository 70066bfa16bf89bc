"""Higher-order operators, whose arguments are graphs, as what they do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch._higher_order_ops.flex_attention import math_attention

from ..facts.checks import hold_assertions
from ..forms.ref import Ref, Refused
from ..functional.decompose import trace

if TYPE_CHECKING:
    from .graph import Graph

ATEN = torch.ops.aten
# Parts of names of operators that end a run at some numbers: indices, labels, probabilities, conditions.
DEMANDING = (
    *("index", "gather", "scatter", "embedding", "take", "put", "one_hot", "nll_loss", "cross_entropy", "ctc_loss"),
    *("bincount", "unpool", "assert", "constrain"),
)
AT_KNOWN_PLACES = ("select_scatter", "slice_scatter", "diagonal_scatter", "as_strided_scatter")  # whatever it is given
DIVISIONS = ("div", "remainder", "fmod")  # of whole numbers: none by zero


def spell_out(graph: Graph, node: torch.fx.Node) -> Any:
    """The results of a higher-order call, of calls that are added to the graph."""
    name = getattr(node.target, "__name__", str(node.target))
    if name == "while_loop":
        raise Refused("while_loop runs as often as values say, in a branch, a body or without example arguments")
    if name not in FORMS:
        raise Refused(f"{name} is no operator that IR has a form for")
    return FORMS[name](graph, node)


def _cond(graph: Graph, node: torch.fx.Node) -> list[Any]:
    """Both branches, and of each result the chosen one."""
    predicate, *branches, operands = (_operands(graph, value) for value in node.args)
    for branch in branches:
        _check_harmless(branch)
    if not isinstance(predicate, Ref):
        raise Refused("its condition is no tensor")
    if predicate.tensor["shape"]:
        predicate = graph.emit(f"{node.name}_which", ATEN.reshape.default, predicate, [])
    results = [_results(graph, branch, operands) for branch in branches]
    return [_chosen(graph, node.name, predicate, *pair) for pair in zip(*results, strict=True)]


def _chosen(graph: Graph, name: str, predicate: Ref, yes: Any, no: Any) -> Any:
    if isinstance(yes, Ref) and isinstance(no, Ref):
        return graph.emit(name, ATEN.where.self, predicate, yes, no)
    if type(yes) is type(no) and not isinstance(yes, Ref) and yes == no:
        return yes
    raise Refused("its branches give results that are no tensors")


def _scan(graph: Graph, node: torch.fx.Node) -> list[Any]:
    """The body for one row after the other: carried values, and of all others the rows as one tensor."""
    body, carried, rows, more = (_operands(graph, value) for value in node.args)
    _hold_assertions(body)
    given: list[list[Any]] = []
    for i in range(_length(rows)):
        results = _results(graph, body, [*carried, *_row(graph, node.name, rows, i), *more])
        carried, result = results[: len(carried)], results[len(carried) :]
        given.append(result)
    return [*carried, *_stacked(graph, node.name, given)]


def _map(graph: Graph, node: torch.fx.Node) -> list[Any]:
    """The body for each row."""
    body, rows, more = (_operands(graph, value) for value in node.args)
    _hold_assertions(body)
    given = [_results(graph, body, [*_row(graph, node.name, rows, i), *more]) for i in range(_length(rows))]
    return _stacked(graph, node.name, given)


def _flex_attention(graph: Graph, node: torch.fx.Node) -> Any:
    """PyTorch's own definition: products, scores changed one by one, softmax."""
    names = [argument for argument, _ in zip(FLEX_ARGUMENTS, node.args, strict=False)]
    given = {**dict(zip(names, node.args, strict=True)), **node.kwargs}
    operands: list[torch.fx.Node] = []

    def placed(value: torch.fx.Node) -> Any:
        if value.op == "get_attr" and isinstance(found := graph.operand(value), torch.fx.GraphModule):
            return found
        operands.append(value)
        return value

    given = torch.fx.node.map_arg(given, placed)
    for value in operands:
        if not isinstance(value.meta.get("val"), torch.Tensor):
            raise Refused(f"takes '{value.name}', which is no tensor")

    def attend(*tensors: torch.Tensor) -> Any:
        values = dict(zip(operands, tensors, strict=True))
        return math_attention(**torch.fx.node.map_arg(given, lambda n: values[n]))

    body, constants = trace(attend, [value.meta["val"] for value in operands])
    return graph.insert(body, [*operands, *constants])


FLEX_ARGUMENTS = (
    *("query", "key", "value", "score_mod", "block_mask", "scale", "kernel_options"),
    *("score_mod_other_buffers", "mask_mod_other_buffers"),
)
FORMS: dict[str, Callable[[Graph, torch.fx.Node], Any]] = {
    "cond": _cond,
    "scan": _scan,
    "map_impl": _map,
    "flex_attention": _flex_attention,
}


def _operands(graph: Graph, value: Any) -> Any:
    return torch.fx.node.map_aggregate(value, graph.operand)


def _hold_assertions(body: Any) -> None:
    if isinstance(body, torch.fx.GraphModule):
        hold_assertions(body.graph, every=True)


def _results(graph: Graph, body: Any, operands: Any) -> list[Any]:
    """What a body gives for these operands."""
    if not isinstance(body, torch.fx.GraphModule):
        raise Refused("its body is no graph")
    results = graph.insert(body, operands)
    return list(results) if isinstance(results, (list, tuple)) else [results]


def _check_harmless(branch: torch.fx.GraphModule) -> None:
    """That a branch may be run where it is not chosen: it draws no numbers, and whatever it is given does not end a run."""
    for node in _calls(branch):
        if not isinstance(node.target, torch._ops.OpOverload):
            continue
        name, value = node.target._opname, node.meta.get("val")
        if torch.Tag.nondeterministic_seeded in node.target.tags:
            raise Refused(f"its branch draws random numbers ({node.target}), whether it is chosen or not")
        whole = isinstance(value, torch.Tensor) and not value.dtype.is_floating_point and not value.dtype.is_complex
        demanding = any(part in name for part in DEMANDING) and name not in AT_KNOWN_PLACES
        if demanding or (whole and any(part in name for part in DIVISIONS)):
            raise Refused(f"its branch has {node.target}, which is an error for some numbers; both branches are run")
        if node.target.namespace != "aten":
            raise Refused(f"its branch has {node.target}, of which it is not known what it does; both branches are run")


def _calls(module: torch.fx.GraphModule) -> Iterator[torch.fx.Node]:
    for part in module.modules():
        if isinstance(part, torch.fx.GraphModule):
            yield from (node for node in part.graph.nodes if node.op == "call_function")


def _length(rows: list[Any]) -> int:
    lengths = {row.tensor["shape"][0] for row in rows if isinstance(row, Ref) and row.tensor["shape"]}
    if len(lengths) != 1 or 0 in lengths:
        raise Refused("has no rows, or not as many of each")
    return int(lengths.pop())


def _row(graph: Graph, name: str, rows: list[Any], i: int) -> list[Any]:
    return [graph.emit(f"{name}_row", ATEN.select.int, row, 0, i) for row in rows]


def _stacked(graph: Graph, name: str, given: list[list[Any]]) -> list[Any]:
    return [graph.emit(name, ATEN.stack.default, list(results)) for results in zip(*given, strict=True)]
