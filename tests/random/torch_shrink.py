"""Makes a failing program smaller while it still fails, and prints one as Python that runs by itself."""

import copy
import inspect
import re
from collections.abc import Callable, Iterator

import torch

import torch_program
from torch_program import INPUT, Program, Value, defined

Failure = Callable[[Program, str], tuple[str, str] | None]


def works(program: Program) -> bool:
    """Whether PyTorch runs it."""
    try:
        torch_program.run(program, torch_program.made(program))
    except Exception:  # a name that is gone, a shape that does not fit
        return False
    return True


def traced(program: Program) -> dict[str, torch.Tensor]:
    """All named tensors after the run."""
    room = {name: value.clone() for name, value in torch_program.made(program).items()}
    with torch.no_grad():
        for statement in program.statements:
            exec(statement, {"torch": torch, "F": torch.nn.functional}, room)
    return room


def replaced(program: Program, old: str, new: str) -> Program:
    smaller = copy.deepcopy(program)
    smaller.statements = [re.sub(rf"\b{old}\b", new, s) for s in smaller.statements]
    smaller.outputs = list(dict.fromkeys(re.sub(rf"\b{old}\b", new, o) for o in smaller.outputs))
    return smaller


def unused_dropped(program: Program) -> Program:
    text = "\n".join(program.statements + program.outputs)
    program.values = [v for v in program.values if re.search(rf"\b{v.name}\b", text)]
    return program


def smaller_ones(program: Program) -> Iterator[Program]:
    """Programs with a statement, an output, a value or an oddity less."""
    for size in (8, 4, 2, 1):
        for i in reversed(range(0, len(program.statements) - size + 1, max(size // 2, 1))):
            smaller = copy.deepcopy(program)
            gone = [defined(s) for s in smaller.statements[i : i + size]]
            del smaller.statements[i : i + size]
            smaller.outputs = [o for o in smaller.outputs if o not in gone]
            if smaller.outputs:
                yield unused_dropped(smaller)
    for i in range(len(program.outputs)):
        if len(program.outputs) > 1:
            smaller = copy.deepcopy(program)
            del smaller.outputs[i]
            yield unused_dropped(smaller)
    try:
        room = traced(program)
    except Exception:
        return
    for i, statement in enumerate(program.statements):
        name = defined(statement)
        if name is None:
            continue
        for other in [v.name for v in program.values] + [defined(s) for s in program.statements[:i]]:
            if other in room and room[other].shape == room[name].shape and room[other].dtype == room[name].dtype:
                smaller = copy.deepcopy(program)
                del smaller.statements[i]
                yield unused_dropped(replaced(smaller, name, other))
        smaller = copy.deepcopy(program)
        del smaller.statements[i]
        fresh = Value(f"x{100 + i}", INPUT, list(room[name].shape), str(room[name].dtype)[6:], "normal", 7 * i + 1)
        smaller.values.append(fresh)
        yield unused_dropped(replaced(smaller, name, fresh.name))
    for i, value in enumerate(program.values):
        if value.kind not in ("normal", "small") and " " not in value.kind:
            smaller = copy.deepcopy(program)
            smaller.values[i].kind = "normal"
            yield smaller
        if value.role != INPUT:
            smaller = copy.deepcopy(program)
            smaller.values[i].role = INPUT
            yield smaller
        if value.dtype in ("float16", "bfloat16"):
            smaller = copy.deepcopy(program)
            for v in smaller.values:
                v.dtype = "float32" if v.dtype == value.dtype else v.dtype
            yield smaller


def shrink(program: Program, mode: str, text: str, failure: Failure, tries: int = 200) -> tuple[Program, str]:
    """The smallest program found that still fails in the mode, and how it does."""
    progress = True
    while progress and tries > 0:
        progress = False
        for smaller in smaller_ones(program):
            if not works(smaller):
                continue
            tries -= 1
            found = failure(smaller, mode)
            if found is not None and found[1].split(":")[0].split(" ")[0] == text.split(":")[0].split(" ")[0]:
                program, text, progress = smaller, found[1], True
                break
            if tries <= 0:
                break
    return program, text


def snippet(program: Program, flags: list[str], text: str) -> str:
    """The program as Python that prints PyTorch's answers and writes what npusim reads."""
    values = "".join(
        f"    '{v.name}': make({v.seed}, {v.shape}, torch.{v.dtype}, '{v.kind}'),\n" for v in program.values
    )
    inputs = "".join(f"values['{name}'], " for name in torch_program.names(program, INPUT))
    compile_flags = "".join(" " + flag for flag in flags)
    return f"""# {text}
import json, torch, torch_ir
import torch.nn.functional as F

{inspect.getsource(torch_program.make)}

{torch_program.source(program)}

values = {{
{values}}}
ir = torch_ir.extract_ir(Program(values).eval(), ({inputs}), model_name="random", strict=False)
json.dump(ir.to_dict(), open("ir.json", "w"), default=str)  # npusim compile ir.json{compile_flags}
with torch.no_grad():
    print(*Program(values)({inputs}), sep="\\n")
"""
