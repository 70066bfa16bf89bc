"""npusim compiles PyTorch models ahead of time for an accelerator and runs the result.

    program = npusim.compile(model, (x,))
    outputs = npusim.Session(program).run(x)

Compiling from IR, and running, need no PyTorch; export(), export_llm() and compile() of a torch.nn.Module do. Errors are
npusim.Error, with a class for each kind and a list of problems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ._openmp import core as _core
from .checks import Bisection, Comparison, Part, Verified, bisect, compare, verify
from .errors import BadInputError, CancelledError, DeviceError, Error, InternalError, Problem, UnsupportedError, UsageError
from .exported import Exported, ExportedText, read_exported
from .machine import Device, Op, aten_plugin, devices, is_op_supported, ops, use_aten_plugin
from .partitioning import DAGExecutor, Partition, PartitionPlan, partition
from .parts import torch_part
from .profiling import Profile, Profiler, Step, profile
from .program import Needs, Program, TensorInfo, compile, load
from .session import Session
from .text import Generation, Tokenizer, generate
from .weights import read_weights, save_weights

__version__ = _core.version()


def export(
    model: Any,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    strict: bool = False,
    fixed: Sequence[str] = (),
) -> Exported:
    """IR and weights of a torch.nn.Module, or of a torch.export.ExportedProgram. See npusim.torch.export.export."""
    return torch_part("export").export(model, args, kwargs, strict=strict, fixed=fixed)


def export_llm(model: Any, capacity: int, prefill: Sequence[int] | int | None = None) -> ExportedText:
    """IR and weights of a causal language model of transformers. See npusim.torch.text_export.export_llm."""
    return torch_part("text_export").export_llm(model, capacity, prefill)


__all__ = [
    "BadInputError",
    "Bisection",
    "CancelledError",
    "Comparison",
    "DAGExecutor",
    "Device",
    "DeviceError",
    "Error",
    "Exported",
    "ExportedText",
    "Generation",
    "InternalError",
    "Needs",
    "Op",
    "Part",
    "Partition",
    "PartitionPlan",
    "Problem",
    "Profile",
    "Profiler",
    "Program",
    "Session",
    "Step",
    "TensorInfo",
    "Tokenizer",
    "UnsupportedError",
    "UsageError",
    "Verified",
    "aten_plugin",
    "bisect",
    "compare",
    "compile",
    "devices",
    "export",
    "export_llm",
    "generate",
    "is_op_supported",
    "load",
    "ops",
    "partition",
    "profile",
    "read_exported",
    "read_weights",
    "save_weights",
    "use_aten_plugin",
    "verify",
]
