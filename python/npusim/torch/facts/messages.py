"""Messages about a model to its caller: of training behaviour that a program would have, and whose an error of tracing is."""

from __future__ import annotations

import functools
import re
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from ...errors import Error, InternalError, Problem, UnsupportedError
from ...parts import PACKAGE
from .aliases import FOLLOWED

ATEN = torch.ops.aten
# Operators that do in training what they do not in inference: the argument that says so, and what they do then.
TRAINED: dict[Any, tuple[str, str]] = {
    **dict.fromkeys((ATEN.dropout, ATEN.feature_dropout, ATEN.alpha_dropout, ATEN.native_dropout), ("train", "drops elements")),
    **dict.fromkeys((ATEN.dropout_, ATEN.feature_dropout_, ATEN.alpha_dropout_), ("train", "drops elements")),
    **dict.fromkeys((ATEN.feature_alpha_dropout, ATEN.feature_alpha_dropout_), ("train", "drops elements")),
    **dict.fromkeys((ATEN.rrelu, ATEN.rrelu_), ("training", "draws slopes")),
    **dict.fromkeys((ATEN.batch_norm, ATEN.native_batch_norm), ("training", "normalises by the batch at hand")),
    **dict.fromkeys((ATEN.lstm, ATEN.gru, ATEN.rnn_tanh, ATEN.rnn_relu), ("train", "drops elements")),
    ATEN.scaled_dot_product_attention: ("dropout_p", "drops elements"),
}
ANOTHER_LINE = "What helps: another way to write that line"
HELPS = f"{ANOTHER_LINE}, {{}}or fixed= for arguments that decide shapes"
GRADIENTS = (
    'What helps: torch.compile(model, backend="npusim"), which leaves what takes gradients to eager PyTorch; or the gradient '
    "as a formula"
)
WRITES_CONSTANT = re.compile(r"Constant (\S+) is mutated in the forward method")
UNKNOWN_CLASS = re.compile(
    r"Found <class .* in output|Unsupported input type <|is not supported or pytree-flattenable|unrecognized type .* at output"
)
CLASSES = (
    "What helps: a list, tuple, dict or dataclass in its place, or torch.utils._pytree.register_pytree_node(…) of the class "
    "before"
)
MOST_LINES = 4  # of an error whose first ones say that a reason follows
# Where a number that a tensor holds is one of several indices that something is assigned to.
PLACED = (
    "What helps: an index that is a tensor or a slice (y[:, i] = v of i = n.long(), y[:, n : n + 1] = …), "
    "y.select(1, n).copy_(v), y.index_copy_(1, …) or y.scatter(1, …)"
)
NAMED = 5  # of many: what a warning names
TYPED = ("<stdin", "<ipython", "<python-input", "<console")  # code of no file that is somebody's own


def trained_text(program: torch.export.ExportedProgram, model: torch.nn.Module) -> str:
    """The warning for a model in train() whose program would behave as in training; "" where there is nothing to say."""
    names = {name for name, module in model.named_modules() if getattr(module, "training", False)}  # a frozen one has none
    found: dict[str, None] = {}
    for node in program.graph.nodes:
        does = _trains(node)
        if does is None:
            continue
        stack = [path for path, _ in (node.meta.get("nn_module_stack") or {}).values()]
        path = stack[-1].removeprefix("L['self']").strip(".") if stack else ""
        if path in names:
            found[f"{path or type(model).__name__} ({type(model.get_submodule(path)).__name__}) {does}"] = None
    if not found:
        return ""
    listed = [*list(found)[:NAMED], *([f"{len(found) - NAMED} others too"] if len(found) > NAMED else [])]
    return f"the model is in train(): {', '.join(listed)}, in every run. For inference call model.eval() before export"


def set_text(names: list[str]) -> str:
    """The warning of attributes that forward() sets to what it computes; "" where there are none."""
    if not names:
        return ""
    listed = [*names[:NAMED], *([f"{len(names) - NAMED} others"] if len(names) > NAMED else [])]
    return (
        f"forward() sets {', '.join(listed)}: a program keeps no attribute, each of its runs begins with the model as it is "
        "now. What register_buffer() made is kept"
    )


def _trains(node: torch.fx.Node) -> str | None:
    """What a call does in training, if it does."""
    if not isinstance(node.target, torch._ops.OpOverload) or node.target._overloadpacket not in TRAINED:
        return None
    name, does = TRAINED[node.target._overloadpacket]
    given = {arg.name: value for arg, value in zip(node.target._schema.arguments, node.args, strict=False)}
    given |= node.kwargs
    share = given.get("p", given.get("dropout", given.get("dropout_p", 1)))
    return does if given.get(name) and share else None


def explained(
    error: Exception,
    name: str,
    followed: BaseException | None,
    traced: bool,
    raises: Callable[[], bool],
    gradient: Callable[[], str],
    written: Callable[[], tuple[str, str]],
    strict: bool,
) -> Error:
    """An error of exporting a model as npusim's, which says whose it is and what to do. followed: the error that the model
    ends with where its branches and sizes are those of the example. traced: whether torch.export was done by then. raises:
    whether its forward() raises an error in eager PyTorch too. gradient: which line of the model takes a gradient, "" if
    none does: neither way to trace follows that. written: which tensor that is no buffer forward() changes first, and which line
    does; "" where that is not known. strict: whether dynamo traced it."""
    frames = traceback.extract_tb(error.__traceback__)
    what, ours, at = what_of(error), _models(frames), _at(frames)
    apart = _ends_in_pytorch(frames)
    if ((traced and followed is None) or not any(_is_the_tracers(frame.filename) for frame in frames)) and not apart:
        return InternalError([Problem(f"model '{name}'", f"{what}, at {Path(frames[-1].filename).name}:{frames[-1].lineno}")])
    if WRITES_CONSTANT.search(what if followed is None else what_of(followed)):
        return UnsupportedError([Problem(f"model '{name}'", _writes_text(*written()))])
    taken = gradient()
    if taken and (not ours or taken == at.removeprefix(", at ")):
        reason = f"takes a gradient, at {taken}, which torch.export of PyTorch {_version()} does not trace: {what}. {GRADIENTS}"
    elif ours and frames[-1] == ours[-1] and re.search(r"'Sym(Int|Float|Bool)'", what):
        reason = f"asks{at} for what a number that a tensor holds has not while it is traced ({what}): compute with the tensor"
    elif ours and frames[-1] == ours[-1] and raises():
        reason = f"its forward() raises {what}{at}. Call it with these arguments in eager PyTorch first"
    else:
        pytorch = f"torch.export of PyTorch {_version()}, not npusim"
        reason = f"{pytorch}, does not trace it{at}: {what}. {_helps(error, frames, strict)}"
        if followed is not None:
            at = _at(traceback.extract_tb(followed.__traceback__))
            reason += f". With the branches and sizes of the example it goes on and ends{at}: {what_of(followed)}"
    return UnsupportedError([Problem(f"model '{name}'", reason)])


def _writes_text(held: str, at: str) -> str:
    """That forward() changes a tensor which is no buffer. held: its name, as 'part.h'."""
    which = f"'{held}'" if held else "a tensor"
    found = f"changes {which} in place{f', at {at}' if at else ''}: torch.export of PyTorch {_version()} takes tensors that are "
    found += "no buffers for constants"
    made = held.rpartition(".")[2] or "…"
    before = f"self.{made} = …" if held else "it"
    return f'{found}. What helps: a buffer, self.register_buffer("{made}", …) in the place of {before}'


def _version() -> str:
    return torch.__version__.partition("+")[0]


def _helps(error: Exception, frames: traceback.StackSummary, strict: bool) -> str:
    if _is_inside(frames):
        return FOLLOWED
    if isinstance(error, IndexError) and "SymInt" in str(error):
        return PLACED
    if UNKNOWN_CLASS.search(str(error)):
        return CLASSES
    return HELPS.format("" if strict else "npusim.export(…, strict=True), ")


def _ends_in_pytorch(frames: traceback.StackSummary) -> bool:
    """Whether it is raised by what torch.export does to a traced program, and by no form that npusim has for it."""
    calls = [i for i, frame in enumerate(frames) if frame.name == "run_decompositions" and _is_the_tracers(frame.filename)]
    behind = [frame for frame in frames[calls[-1] :] if not frame.name.startswith("__torch_")] if calls else []
    return bool(calls) and not any(PACKAGE in Path(frame.filename).parents for frame in behind)


def _is_inside(frames: traceback.StackSummary) -> bool:
    """Whether it is raised within a transformation of torch.func."""
    folder = Path(torch.__file__).parent / "_functorch"
    files = {folder / name for name in ("eager_transforms.py", "vmap.py", "predispatch.py")}
    return any(Path(frame.filename) in files for frame in frames)


def what_of(error: BaseException) -> str:
    """The error in one line: its first one, and the next ones where that says nothing but that there are more."""
    lines = [line.strip() for line in str(error).strip().splitlines() if line.strip()]
    count = 1
    while count < min(len(lines), MOST_LINES) and lines[count - 1].endswith(":"):
        count += 1
    text = " ".join(lines[:count])
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _models(frames: traceback.StackSummary) -> list[traceback.FrameSummary]:
    return [frame for frame in frames if not is_of_a_library(frame.filename)]


def _at(frames: traceback.StackSummary) -> str:
    """Which line of the model it is, if one."""
    ours = _models(frames)
    return f", at {Path(ours[-1].filename).name}:{ours[-1].lineno} ({ours[-1].line})" if ours else ""


def place() -> str:
    """Which line of the model is being traced: "model.py:12 (y = float(s))"; "" where none is."""
    return _at(traceback.extract_stack()).removeprefix(", at ")


def place_of(node: torch.fx.Node) -> str:
    """Which line of a forward() a call came of, as the tracer noted it."""
    lines = [line.strip() for line in str(node.meta.get("stack_trace") or "").splitlines()]
    found = [at for at, line in enumerate(lines) if line.startswith("File ")]
    if not found:
        return ""
    file, number = lines[found[-1]].split('"')[1], lines[found[-1]].partition("line ")[2].partition(",")[0]
    return f"{Path(file).name}:{number} ({' '.join(lines[found[-1] + 1 :][:1])})"


def _is_the_tracers(file: str) -> bool:
    folder = Path(torch.__file__).parent
    return any(folder / part in Path(file).parents for part in ("export", "_export"))


@functools.cache
def is_of_a_library(file: str) -> bool:
    """Whether a file is PyTorch's, npusim's or Python's, not the model's, which may have been typed into a prompt."""
    if file.startswith("<"):
        return not file.startswith(TYPED)
    ours = (Path(torch.__file__).parent, PACKAGE, Path(traceback.__file__).parent)
    path = Path(file)
    inside = any(folder in path.parents for folder in ours[:2])
    return inside or (ours[2] in path.parents and "site-packages" not in file)
