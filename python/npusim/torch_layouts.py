"""Writes in place whose result PyTorch's functionalisation leaves in another order of memory than what is written has.

`x.t().masked_fill_(m, 0)` leaves x row-major; functionalised, x is then a turned view of a row-major result, and
`x.view(-1)`, which needs no copy, has none that it could do without."""

from __future__ import annotations

from typing import Any

import torch

from .torch_aliases import copied, rebuilt
from .torch_levels import innermost, levels_of
from .torch_rows import call

ATEN = torch.ops.aten
NOT_COPIED = (torch.Tag.inplace_view, torch.Tag.nondeterministic_seeded)  # what no copy of a result stands for
NO_RESULT = {"copy_", "set_", "resize_", "resize_as_"}


def with_copied_results(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """The program with such results copied to where they are to be, in the order that they have there; the program itself
    where there are none."""
    if not any(_moves(node) for part in _parts(program.graph_module) for node in part.graph.nodes):
        return program
    module = copied(program.graph_module)
    for part in _parts(module):
        for node in [node for node in part.graph.nodes if _moves(node)]:
            with part.graph.inserting_before(node):
                _copy_result(part.graph, node)
    module.recompile()
    return rebuilt(program, module)


def _parts(module: torch.fx.GraphModule) -> list[torch.fx.GraphModule]:
    return [part for part in module.modules() if isinstance(part, torch.fx.GraphModule)]


def _moves(node: torch.fx.Node) -> bool:
    """Whether a call writes its first operand, and gives its result another order where it writes nothing."""
    op = _unwritten(node.target)
    if op is None or not node.args or not isinstance(node.args[0], torch.fx.Node):
        return False
    to = node.args[0].meta.get("val")
    if not isinstance(to, torch.Tensor) or not all(isinstance(n, int) for n in (*to.shape, *to.stride())):
        return False
    args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lambda arg: arg.meta["val"])
    try:
        with torch._guards.detect_fake_mode(innermost(to)) or torch.no_grad(), levels_of((args, kwargs)):
            found = op(*args, **kwargs)
    except Exception:  # what does not run so has no result that could be copied
        return False
    return found.shape == to.shape and found.dtype == to.dtype and found.stride() != to.stride()


def _copy_result(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
    """What the call would write is computed apart, and copied: copies keep the order of what they write."""
    op: Any = _unwritten(node.target)
    found = call(graph, op, *node.args, **node.kwargs)
    node.target, node.args, node.kwargs = ATEN.copy_.default, (node.args[0], found), {}


def _unwritten(op: Any) -> torch._ops.OpOverload | None:
    """The operator that computes what this one writes."""
    if not isinstance(op, torch._ops.OpOverload) or op.namespace != "aten" or not op._opname.endswith("_"):
        return None
    if op._opname in NO_RESULT or any(tag in op.tags for tag in NOT_COPIED) or len(op._schema.returns) != 1:
        return None
    packet = getattr(ATEN, op._opname[:-1], None)
    found = getattr(packet, op._overloadname, None) if packet is not None else None
    return found if found is not None and not found._schema.is_mutable else None
