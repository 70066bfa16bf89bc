#!/usr/bin/env python3
"""Random PyTorch programs, exported, compiled and run by npusim, compared with PyTorch element by element.

    tests/random/against_torch.py --seed S --count N [--npusim FILE] [--json] ...

Program i of seed S is a function of S + i. Exit status 1: an answer was wrong, or compile or run failed. What npusim
refuses (exit code 4) and what PyTorch cannot export is counted with the reasons, and is no failure. A failure is shrunk
and printed as Python that runs by itself. Needs torch, numpy and pytorch-ir.
"""

import argparse
import collections
import json
import logging
import re
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy  # noqa: F401 torch needs it to hand over bytes
import torch

import torch_eager
import torch_npusim
import torch_shrink
import torch_statements
from torch_program import Program

# How a program is compiled; every program in the first way and in one of the others.
MODES = {
    "float32": ["--dtype", "float32"],
    "float32-unfused": ["--dtype", "float32", "--disable-fusion", "all"],
    "float32-strict": ["--dtype", "float32", "--strict"],
    "auto": [],
    "auto-unfused": ["--disable-fusion", "all"],
    "strict": ["--strict"],
}
EVERYTHING = [*torch_statements.FAMILIES, *torch_statements.FEATURES]
FLOAT16_BOUND = 2.0**14  # programs with larger numbers have no meaning in float16
FEW, MANY = [8.0] * 4, [4.0, 16.0, 64.0] * 8  # noise, in rounding steps: of a first look, and before calling it wrong


def default_unit(program: Program, mode: str) -> float:
    """The rounding step of what npusim stores in this mode."""
    if mode.startswith("float32"):
        return torch_eager.STEPS[torch.float32]
    brain = any(v.dtype == "bfloat16" for v in program.values)
    return torch_eager.STEPS[torch.bfloat16 if brain else torch.float16]


class Judge:
    """Runs programs through npusim and says what is wrong with the answers."""

    def __init__(self, npusim: str, folder: Path) -> None:
        self.npusim, self.folder = npusim, folder
        self.elements = self.unstable = self.loose = 0  # loose: allowed to be off by more than 1 %
        self.reasons: dict[str, collections.Counter] = {
            "refused": collections.Counter(),
            "export": collections.Counter(),
        }
        self.runs: collections.Counter = collections.Counter()

    def failure(self, program: Program, modes: list[str]) -> tuple[str, str] | None:
        """The first mode that fails, and how; None if all is right."""
        try:
            ir = torch_npusim.export(program, self.folder)
        except torch_npusim.NotExported as error:
            self.reasons["export"][general(str(error))] += 1
            return None
        for mode in modes:
            threads = 1 + program.seed % 2
            outcome = torch_npusim.simulate(program, ir, self.folder, self.npusim, MODES[mode], threads)
            self.runs[outcome.status] += 1
            if outcome.status == "refused":
                self.reasons["refused"][general(outcome.text)] += 1
                return None
            text = outcome.text if outcome.status == "failed" else self.compare(program, mode, outcome.outputs)
            if text:
                return mode, text
        return None

    def compare(self, program: Program, mode: str, found: list[torch.Tensor]) -> str:
        """What is wrong with the outputs; empty if nothing."""
        unit, exact = default_unit(program, mode), mode.startswith("float32")
        answer = torch_eager.measure(program, unit, exact, FEW)
        if (unit == torch_eager.STEPS[torch.float16] or answer.half) and answer.largest > FLOAT16_BOUND:
            self.runs["beyond float16"] += 1
            return ""
        shapes = [tuple(v.shape) for v in answer.outputs]
        if shapes != [tuple(v.shape) for v in found]:
            return f"shapes are {[tuple(v.shape) for v in found]}, PyTorch's {shapes}"
        self.elements += sum(v.numel() for v in answer.outputs)
        self.unstable += sum(int(u.sum()) for u in answer.unstable)
        self.loose += sum(int((s > v.abs() / 300).sum()) for s, v in zip(answer.spread, answer.outputs, strict=True))
        if not any(w.any() for w in torch_eager.differences(answer, found, unit)):
            return ""
        answer = torch_eager.measure(program, unit, exact, MANY)
        wrong = torch_eager.differences(answer, found, unit)
        return "; ".join(
            f"output {k}: " + torch_eager.describe(w, v, f)
            for k, (w, v, f) in enumerate(zip(wrong, answer.outputs, found, strict=True))
            if w.any()
        )


def general(text: str) -> str:
    """A reason without the names and numbers of one program."""
    first = next((line for line in text.splitlines() if line.startswith("error")), text.splitlines()[0] if text else "")
    return re.sub(r"\b\w+_\d+\b|\b[a-z]+\d+\b|'[^']*'|-?\d+(\.\d+)?", "#", first)[:160]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--npusim", default="build/ci/npusim", help="the command line tool to test")
    parser.add_argument("--modes", help=f"compile every program in these ways: {','.join(MODES)}")
    parser.add_argument("--without", default="", help=f"leave out: {','.join(EVERYTHING)}")
    parser.add_argument("--without-text", default="", help="leave out statements that match this regular expression")
    parser.add_argument("--only", default="", help="statements of these families alone")
    parser.add_argument("--no-shrink", action="store_true")
    parser.add_argument("--print", action="store_true", help="print every program")
    parser.add_argument("--json", action="store_true", help="report as JSON")
    args = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    without = args.without.split(",") if args.without else []
    for name in [*without, *(args.only.split(",") if args.only else [])]:
        if name not in EVERYTHING:
            parser.error(f"no family or feature '{name}'")
    families = [
        f for f in torch_statements.FAMILIES if f not in without and (not args.only or f in args.only.split(","))
    ]
    features = [f for f in torch_statements.FEATURES if f not in without]
    failures, start = [], time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        judge = Judge(args.npusim, Path(folder))
        for seed in range(args.seed, args.seed + args.count):
            program = torch_statements.generate(seed, families, features, args.without_text)
            if args.print:
                print(f"# {seed}\n" + torch_shrink.snippet(program, [], ""), flush=True)
            others = [m for m in MODES if m != "float32"]
            modes = args.modes.split(",") if args.modes else ["float32", others[seed % len(others)]]
            found = judge.failure(program, modes)
            if found is None:
                continue
            mode, text = found
            if not args.no_shrink:
                program, text = torch_shrink.shrink(
                    program, mode, text, lambda p, m: Judge(judge.npusim, judge.folder).failure(p, [m])
                )
            snippet = torch_shrink.snippet(program, MODES[mode], text)
            failures.append({"seed": seed, "mode": mode, "text": text, "program": snippet})
            print(
                f"# program {seed}, {mode}: {text}\n{snippet}\n",
                file=sys.stderr if args.json else sys.stdout,
                flush=True,
            )
    report = {
        "programs": args.count,
        "runs": dict(judge.runs),
        "elements": judge.elements,
        "unstable": judge.unstable,
        "loose": judge.loose,
        "refused": dict(judge.reasons["refused"].most_common()),
        "not_exported": dict(judge.reasons["export"].most_common()),
        "failures": failures,
        "seconds": round(time.monotonic() - start, 1),
    }
    if args.json:
        print(json.dumps(report, indent=1))
    else:
        for kind in ("refused", "not_exported"):
            for reason, count in report[kind].items():
                print(f"{kind} {count}: {reason}")
        print(
            f"{args.count} programs, {sum(judge.runs.values())} runs, {judge.runs['refused']} refused, "
            f"{sum(judge.reasons['export'].values())} not exported, {judge.elements} elements of which "
            f"{judge.unstable} unstable and {judge.loose} loose, {len(failures)} failed, {report['seconds']} s"
        )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
