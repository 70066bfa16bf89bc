"""Judges one model: exported, compiled, run, and compared with float64 eager, beside PyTorch's own 16 bits."""

import contextlib
import copy
import traceback
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

import npusim
import npusim.torch.export  # before processes fork
from case import Case, randomise, settle, worst_state
from choices import STEPS, Choosing, with_choices

# A program's name: the dtype that the model is cast to before, what compile() is told, the bar of relative L2.
PROGRAMS: dict[str, tuple[torch.dtype, str, float]] = {
    "float32": (torch.float32, "float32", 1e-3),
    "auto": (torch.float32, "auto", 2e-2),
    "bfloat16": (torch.float32, "bfloat16", 4e-2),
    "cast": (torch.bfloat16, "auto", 4e-2),
}
OWN = {"float32": torch.float32, "auto": torch.float16, "bfloat16": torch.bfloat16, "cast": torch.bfloat16}
UNSTABLE = 0.3  # PyTorch's own error from which on a model says nothing in a dtype
WORSE = 2.0  # times PyTorch's own error in the same dtype are right too, where that is above the bar
Call = tuple[Sequence[Any], Mapping[str, Any]]


def judge(family: str, name: str, case: Case) -> dict[str, Any]:
    """What was found of a model: "state" is right, tie (right, but for choices that rounding decides), wrong, refused,
    failed (npusim did), not exported (torch.export did), unstable (PyTorch itself is too far off to compare with) or not
    made; "programs" says it for each dtype."""
    torch.manual_seed(zlib.crc32(f"{family} {name}".encode()))
    found: dict[str, Any] = {"versions": versions(family)}
    if case.fixed:
        found["fixed"] = case.fixed
    try:
        with torch.no_grad():
            model, args, kwargs = case.make()
            model.eval().requires_grad_(False)
            randomise(model)
            settle(model, *cast((args, kwargs), torch.float32))
            found["parameters"] = sum(p.numel() for p in model.parameters())
            expected, of = reference(model, (args, kwargs))
            found["reference"] = of
    except Exception as error:
        traceback.print_exc()
        return found | {"state": "not made", "why": first_line(error)}
    found["spread"] = min([float(e.std()) for e in expected if is_real(e) and e.size > 1], default=0.0)
    own = {dtype: answers(model, (args, kwargs), dtype) for dtype in set(OWN.values())}
    programs = found["programs"] = {}
    exported: dict[torch.dtype, Any] = {}
    for program, (dtype, told, bar) in PROGRAMS.items():
        if dtype not in exported:
            exported[dtype] = export(model, (args, kwargs), dtype, case.fixed)
        inputs = args, {name: value for name, value in kwargs.items() if name not in case.fixed}
        judged = judge_program(exported[dtype], inputs, dtype, told, bar, expected, own[OWN[program]])
        outputs = judged.pop("outputs", None)
        if judged["state"] == "wrong" and "error" in judged and (other := traced(model, (args, kwargs))):
            as_traced = judge_outputs(outputs, other, None, bar)
            if as_traced["state"] == "right":
                error = max(distance(o, e)[0] for o, e in zip(other, expected, strict=True))
                why = f"torch.export's own program in float32 is off by {error:.2g}; npusim answers as it does"
                judged = {"state": "not exported", "why": why, "beside": as_traced["error"]}
        if judged["state"] in ("wrong", "unstable") and "error" in judged:
            judged |= as_chosen(model, (args, kwargs), exported[dtype], inputs, program, outputs)
        decided = judged["state"] == "failed" and "an assertion does not hold" in judged["why"]
        if decided and OWN[program] != torch.float32 and resized(model, (args, kwargs), OWN[program], expected):
            judged |= {
                "state": "unstable",
                "why": "rounding decides a size: PyTorch's are others too when weights move",
            }
        if judged["state"] == "wrong" and "error" in judged and OWN[program] != torch.float32:
            judged["shaken"], judged["beside"] = shaken(model, (args, kwargs), OWN[program], expected, outputs)
            if judged["error"] <= judged["shaken"] or judged["beside"] <= bar:
                judged["state"] = "unstable"
        programs[program] = judged
    found["made_for"] = [what for e in exported.values() if not isinstance(e, tuple) for what in e.made_for]
    found["state"] = worst_state([p["state"] for p in programs.values()])
    return found


def versions(family: str) -> dict[str, str]:
    import importlib.metadata

    own = family in importlib.metadata.packages_distributions()
    return {name: importlib.metadata.version(name) for name in ("torch", family)[: 1 + own]}


def first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:300]


# ---- what PyTorch answers


def cast(value: Any, dtype: torch.dtype) -> Any:
    """A copy of a model or of arguments with all real numbers in this dtype."""
    if isinstance(value, torch.nn.Module):
        return copy.deepcopy(value).to(dtype)
    return pytree.tree_map(
        lambda v: v.to(dtype) if isinstance(v, torch.Tensor) and v.is_floating_point() else copy.deepcopy(v), value
    )


def run(model: torch.nn.Module, call: Call, dtype: torch.dtype, mode: Any = None) -> list[np.ndarray]:
    """The outputs of a copy of the model, those that are tensors."""
    args, kwargs = cast(call, dtype)
    with torch.no_grad(), without_fast_path(), mode or contextlib.nullcontext():
        found = pytree.tree_leaves(cast(model, dtype)(*args, **kwargs))
    wide = [v.double() if v.is_floating_point() else v for v in found if isinstance(v, torch.Tensor)]
    return [v.numpy() for v in wide]


@contextlib.contextmanager
def without_fast_path() -> Any:
    """nn.MultiheadAttention's one operator for all it does has no float64."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def reference(model: torch.nn.Module, call: Call) -> tuple[list[np.ndarray], str]:
    """In float64, or in float32 where the model insists on it."""
    single = run(model, call, torch.float32)
    try:
        double = run(one_by_one(model), call, torch.float64)
    except Exception:
        traceback.print_exc()
        return single, "float32"
    return (double, "float64") if len(double) == len(single) else (single, "float32")


def one_by_one(model: torch.nn.Module) -> torch.nn.Module:
    """With the experts of transformers in turn: their grouped product has no float64."""
    if hasattr(model, "set_experts_implementation"):
        model = copy.deepcopy(model)
        model.set_experts_implementation("eager")
    return model


def answers(model: torch.nn.Module, call: Call, dtype: torch.dtype, mode: Any = None) -> list[np.ndarray] | None:
    """PyTorch's own in a dtype, or None where it has none."""
    try:
        return run(model, call, dtype, mode)
    except Exception as error:
        print(f"no eager {dtype}: {first_line(error)}")
        return None


def shaken(
    model: torch.nn.Module, call: Call, dtype: torch.dtype, expected: list[np.ndarray], outputs: list[Any]
) -> tuple[float, float]:
    """PyTorch's worst error in a dtype when the weights move by half a rounding step of it, and how far these outputs are
    from the answer that is the nearest of those: of models that choose (an expert, a code, a box), where the choice is a
    tie but for rounding."""
    worst, nearest = 0.0, float("inf")
    for found in moved_answers(model, call, dtype):
        if found is not None and [f.shape for f in found] == [e.shape for e in expected]:
            worst = max([worst, *(distance(f, e)[0] for f, e in zip(found, expected, strict=True))])
            nearest = min(nearest, max([0.0, *(distance(o, f)[0] for o, f in zip(outputs, found, strict=True))]))
    return worst, nearest


def resized(model: torch.nn.Module, call: Call, dtype: torch.dtype, expected: list[np.ndarray]) -> bool:
    """Whether PyTorch's outputs have other shapes when the weights move by half a rounding step of a dtype."""
    shapes = [e.shape for e in expected]
    return any(f is not None and [v.shape for v in f] != shapes for f in moved_answers(model, call, dtype))


def moved_answers(model: torch.nn.Module, call: Call, dtype: torch.dtype) -> Iterator[list[np.ndarray] | None]:
    """PyTorch's own in a dtype, or in float32 where it has none, of weights that moved by half a rounding step, or of
    arguments where the model has no weights."""

    def move(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or not value.is_floating_point():
            return value
        return value * (1 + (torch.rand_like(value) - 0.5) * torch.finfo(dtype).eps)

    weights = any(p.is_floating_point() for p in model.parameters())
    for seed in range(12):
        torch.manual_seed(seed)
        moved, given = copy.deepcopy(model), call
        for p in moved.parameters():
            p.copy_(move(p))
        if not weights:
            given = pytree.tree_map(move, (tuple(call[0]), dict(call[1])))
        yield answers(moved, given, dtype) or answers(moved, given, torch.float32)


def traced(model: torch.nn.Module, call: Call) -> list[np.ndarray] | None:
    """The answers of the program that torch.export makes of the model, run by PyTorch in float32: some models compute
    otherwise while they are traced. None where they are the model's."""
    args, kwargs = cast(call, torch.float32)
    with torch.no_grad(), without_fast_path():
        try:
            program = torch.export.export(cast(model, torch.float32), tuple(args), dict(kwargs), strict=False)
            found = pytree.tree_leaves(program.module()(*args, **kwargs))
        except Exception as error:
            print(f"no program: {first_line(error)}")
            return None
    values = [v.numpy() for v in found if isinstance(v, torch.Tensor)]
    same = judge_outputs(values, run(model, call, torch.float32), None, PROGRAMS["float32"][2])["state"] == "right"
    return None if same else values


def as_chosen(
    model: torch.nn.Module, call: Call, exported: Any, inputs: Call, program: str, outputs: list[Any]
) -> dict[str, Any]:
    """How these outputs are judged by float64 eager, and PyTorch's own in the dtype, when they choose by rank as the
    program did: a "tie" if that is right, and no choice has lost more than the dtype's rounding explains; else nothing."""
    dtype, told, bar = PROGRAMS[program]
    shown, choices = with_choices(exported)
    try:
        found = session_run(npusim.compile(shown, dtype=told), shown, inputs, dtype)
        places = [(op, torch.from_numpy(np.array(found[name]))) for op, name in choices]
        mode = Choosing(places, OWN[program])
        expected = run(one_by_one(model), call, torch.float64, mode)
        if mode.told or not mode.ties or mode.steps > STEPS:
            print(f"no tie: {mode.ties} of {mode.places} places, {mode.steps:.3g} steps, {len(mode.told)} choices left")
            return {}
    except Exception as error:
        print(f"no tie: {first_line(error)}")
        return {}
    own = answers(model, call, OWN[program], Choosing(places, OWN[program]))
    judged = judge_outputs(outputs, expected, own, bar)
    print(f"as chosen: {judged}")
    if judged["state"] != "right":
        return {}
    why = f"{program}: {mode.ties} of {mode.places} places chosen otherwise, for at most {mode.steps:.2g} steps of the dtype"
    return judged | {"state": "tie", "why": why}


# ---- what npusim answers


def export(model: torch.nn.Module, call: Call, dtype: torch.dtype, fixed: Sequence[str]) -> Any:
    """The export, or the state of why there is none, and why."""
    args, kwargs = cast(call, dtype)
    try:
        return npusim.export(cast(model, dtype), args, kwargs, fixed=fixed)
    except npusim.Error as error:
        if error.__cause__ is None:
            return "refused", str(error)
        traceback.print_exc()
        cause = error.__cause__
        while cause.__cause__ is not None:  # what tracing ended with where it followed the example
            cause = cause.__cause__
        return ("failed" if isinstance(error, npusim.InternalError) else "not exported"), first_line(cause)


def judge_program(
    exported: Any, call: Call, dtype: torch.dtype, told: str, bar: float, expected: list[Any], own: list[Any] | None
) -> dict[str, Any]:
    if isinstance(exported, tuple):
        return {"state": exported[0], "why": exported[1][:2000]}
    found: dict[str, Any] = {"nodes": len(exported.ir["nodes"])}
    try:
        program = npusim.compile(exported, dtype=told)
        by_aten = any(note.startswith("ATen of PyTorch") for note in program.notes)  # the plugin's part
        found["targets"] = [*program.targets, *(["ATen"] if by_aten else [])]
        found["notes"] = program.notes
        result = session_run(program, exported, call, dtype)
    except npusim.UnsupportedError as error:
        return found | {"state": "refused", "why": str(error)[:2000]}
    except Exception as error:
        traceback.print_exc()
        if own is None and "ATen of PyTorch" in str(error):  # it has no kernel in this dtype, asked here or there
            return found | {"state": "not exported", "why": f"PyTorch does not run it: {error}"[:2000]}
        return found | {"state": "failed", "why": f"{type(error).__name__}: {error}"[:2000]}
    outputs = [result[name] for kind, name in exported.leaves if kind == "output"]
    return found | judge_outputs(outputs, expected, own, bar) | {"outputs": outputs}


def session_run(program: Any, exported: Any, call: Call, dtype: torch.dtype) -> dict[str, Any]:
    tensors = [v for v in pytree.tree_leaves(cast(call, dtype)) if isinstance(v, torch.Tensor)]
    states = exported.ir.get("states", {})
    names = [i["name"] for i in exported.ir["graph_inputs"] if i["name"] not in states]
    return npusim.Session(program, threads=1).run(dict(zip(names, tensors, strict=True)))


# ---- how far they are apart


def is_real(value: np.ndarray) -> bool:
    return value.dtype.kind == "f" or value.dtype.name == "bfloat16"


def judge_outputs(found: list[Any], expected: list[Any], own: list[Any] | None, bar: float) -> dict[str, Any]:
    """The worst output's relative L2 and r, beside PyTorch's own."""
    if [f.shape for f in found] != [e.shape for e in expected]:
        shapes = f"{[list(f.shape) for f in found]}, expected {[list(e.shape) for e in expected]}"
        return {"state": "wrong", "why": f"outputs have shapes {shapes}"}
    if own is not None and [o.shape for o in own] != [e.shape for e in expected]:
        own = None
    worst: dict[str, Any] = {"state": "right", "error": 0.0, "r": 1.0, "own": 0.0 if own else None}
    for i, (f, e) in enumerate(zip(found, expected, strict=True)):
        error, r = distance(f, e)
        theirs, their_r = distance(own[i], e) if own else (None, None)
        allowed = bar if theirs is None else max(bar, WORSE * theirs)
        close = error <= bar and r >= 0.999
        fine = error <= allowed and (r >= 0.999 or (their_r is not None and 1 - r <= WORSE**2 * (1 - their_r)))
        worst["error"] = max(worst["error"], error)
        worst["r"] = min(worst["r"], r)
        if theirs is not None:
            worst["own"] = max(worst["own"], theirs)
        if not close and theirs is not None and theirs > UNSTABLE:
            if worst["state"] == "right":
                worst |= {
                    "state": "unstable",
                    "why": f"output {i} of {len(found)}: PyTorch's own error is {theirs:.2g}",
                }
        elif not fine and worst["state"] != "wrong":
            why = f"output {i} of {len(found)}: error {error:.2g}, r {r:.5f}, PyTorch's own {theirs}"
            worst |= {"state": "wrong", "why": why}
    return worst


def distance(found: np.ndarray, expected: np.ndarray) -> tuple[float, float]:
    """Relative L2 and Pearson's r; of integers the share that differs. What is not finite must be the same."""
    if not expected.size:
        return 0.0, 1.0
    if not is_real(expected):
        return float(np.mean(found != expected)), 1.0
    a, b = found.astype("float64").ravel(), expected.astype("float64").ravel()
    least = float(np.finfo("float32").min)
    same = (a == b) | (np.isnan(a) & np.isnan(b)) | ((b <= least / 2) & (a <= -6e4))  # the lowest number of a dtype
    finite = np.isfinite(a) & np.isfinite(b) & ~((b <= least / 2) & (a <= -6e4))
    if not (finite | same).all():
        return 1e9, 0.0
    a, b = a[finite], b[finite]
    norm = float(np.linalg.norm(b))
    error = float(np.linalg.norm(a - b))
    relative = error / norm if norm > 1e-12 else error
    if a.size < 16 or np.std(b) < 1e-6 * (np.abs(b).max() + 1e-30) or np.std(a) == 0:
        return relative, 1.0  # a line through few points says nothing, through a constant neither
    return relative, float(np.corrcoef(a, b)[0, 1])


def one_line(found: dict[str, Any]) -> str:
    """For the terminal."""
    parts = [f"{found['model']:32} {found['state']:13}"]
    for name, p in found.get("programs", {}).items():
        own = f"/{p['own']:.0e}" if p.get("own") is not None else ""
        parts.append(f"{name} {p['error']:.0e}{own}" if "error" in p else f"{name} {p['state']}")
    why = found.get("why") or next((p["why"] for p in found.get("programs", {}).values() if "why" in p), "")
    return "  ".join([*parts, why.replace("\n", " ")[:160]])
