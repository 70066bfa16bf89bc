"""Numbers among what a model returns: as tensors of one, which is what a program can give."""

from __future__ import annotations

import contextlib
import copy
import math
from typing import Any

import torch
from torch.export.graph_signature import OutputKind, TensorArgument
from torch.utils import _pytree as pytree

from ..facts.aliases import copied, rebuilt

ATEN = torch.ops.aten
# Of the numbers that Python has, and of those that the tracer has for them.
DTYPES = (
    ((bool, torch.SymBool), torch.bool),
    ((int, torch.SymInt), torch.int64),
    ((float, torch.SymFloat), torch.float64),
)


def without_nan(result: Any) -> Any:
    """What forward() returns, with a tensor for each number that is none: PyTorch's check of signatures asks whether it is
    equal to itself."""

    def known(value: Any) -> Any:
        is_nan = isinstance(value, float) and math.isnan(value)
        return torch.full((), value, dtype=torch.float64) if is_nan else value

    return pytree.tree_map(known, result)


def return_tensors(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """With a tensor in the place of each number that the model returns. One that is read from a tensor would else be what it
    is with the example."""
    specs = program.graph_signature.output_specs
    returned: Any = program.graph.output_node().args[0]
    numbers = {
        i: dtype
        for i, (spec, value) in enumerate(zip(specs, returned, strict=True))
        if spec.kind == OutputKind.USER_OUTPUT and (dtype := _dtype_of_number(_value(value))) is not None
    }
    if not numbers:
        return program
    module, signature = copied(program.graph_module), copy.deepcopy(program.graph_signature)
    output = module.graph.output_node()
    values: list[Any] = [*output.args[0]]  # type: ignore[misc, union-attr]
    given = [node.meta.get("val") for node in module.graph.nodes if node.op == "placeholder"]
    for i, dtype in numbers.items():
        number = values[i] if _is_call(values[i]) else _value(values[i])
        with module.graph.inserting_before(output):
            kept = module.graph.call_function(ATEN.full.default, ([], number), {"dtype": dtype, "device": torch.device("cpu")})
        with torch._guards.detect_fake_mode(given) or contextlib.nullcontext():
            kept.meta["val"] = torch.empty((), dtype=dtype)
        values[i] = kept
        signature.output_specs[i].arg = TensorArgument(name=kept.name)
    output.args = (tuple(values),)
    module.recompile()
    return rebuilt(program, module, graph_signature=signature)


def _is_call(value: Any) -> bool:
    return isinstance(value, torch.fx.Node) and value.op == "call_function"


def _value(value: Any) -> Any:
    """Of an output: what it was when it was traced."""
    return value.meta.get("val") if isinstance(value, torch.fx.Node) else value


def _dtype_of_number(value: Any) -> torch.dtype | None:
    """That holds such a number. None: it is none, or too large."""
    if type(value) is int and not -(2**63) <= value < 2**63:
        return None
    return next((dtype for kinds, dtype in DTYPES if isinstance(value, kinds)), None)
