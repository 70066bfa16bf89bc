"""Bodies of higher-order operators, as nodes of the graph that calls them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch


def insert(
    graph: torch.fx.Graph, module: torch.fx.GraphModule, at: torch.fx.Node, operands: Iterable[Any]
) -> list[Any]:
    """Copies of the nodes of a graph that the module has, and what it gives. Numbers of numbers are computed."""
    body = module.get_submodule(at.target)
    given, of = iter(operands), {}
    for node in body.graph.nodes:
        args, kwargs = (
            torch.fx.node.map_arg((node.args, node.kwargs), of.__getitem__) if node.op != "placeholder" else ((), {})
        )
        if node.op == "placeholder":
            of[node] = next(given)
        elif node.op == "output":
            results = args[0]
            return list(results) if isinstance(results, (list, tuple)) else [results]
        elif node.op == "call_function" and not isinstance(node.target, torch._ops.OpOverload) and _all_known(args):
            of[node] = node.target(*args, **kwargs)
        else:
            target = f"{at.target}.{node.target}" if node.op == "get_attr" else node.target
            of[node] = graph.create_node(node.op, target, args, kwargs, name=node.name)
            of[node].meta = dict(node.meta)
    raise AssertionError("a graph without an output")


def _all_known(args: Any) -> bool:
    found: list[torch.fx.Node] = []
    torch.fx.node.map_arg(args, found.append)
    return not found


def replace(node: torch.fx.Node, value: Any) -> None:
    """A node by another one, or by a number."""
    if isinstance(value, torch.fx.Node):
        node.replace_all_uses_with(value)
        return
    for user in list(node.users):
        user.args, user.kwargs = torch.fx.node.map_arg((user.args, user.kwargs), lambda n: value if n is node else n)
