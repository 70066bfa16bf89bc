#!/usr/bin/env python3
"""Programs of the same models in turns on one GPU: what a change of the compiler gives.

    bench/gpu/compare.py prepare FOLDER [--npusim FILE]    with each compiler, into a folder of its own
    bench/gpu/turns.py FOLDER... [--npusim FILE] [--models A,B] [--rounds N] [--seconds S]

Of decode steps their programs that are one launch. Each is held to compare.py's bars against PyTorch first, and told
whether its bits are those of the first folder's; then all are measured in rounds, inputs and outputs on the GPU.
Exit status 1: an answer is wrong, or npusim failed.
"""

import argparse
import json
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import compare
import torch


def program_of(name: str, folder: Path) -> Path:
    stream = folder / compare.STREAM / f"{compare.SHAPED.get(name, name)}.npubin"
    return stream if stream.exists() else folder / stream.name


@torch.inference_mode()
def turns(name: str, flags: argparse.Namespace, work: Path) -> str:
    model, inputs, expected = compare.make(name, flags.folders[0], work)
    expected = expected.cpu()
    del model, inputs
    torch.cuda.empty_cache()
    given = ["--weights", work / "model.safetensors", "--inputs", work / "inputs.safetensors"]
    given += ["--method", "decode"] if name in compare.SHAPED else []
    sessions = [[program_of(name, folder), *given] for folder in flags.folders]
    checked, first = [], b""
    for session in sessions:
        _, error, right = compare.check(flags.npusim, session, work, expected, compare.dtype_of(name))
        bits = (work / "out.safetensors").read_bytes()
        first = first or bits
        checked.append(f"{error:.1e} {'ok' if right else 'WRONG'}, {'same' if bits == first else 'other'} bits")
    times = [[] for _ in sessions]
    for _ in range(flags.rounds):
        for session, found in zip(sessions, times, strict=True):
            report = compare.own(flags.npusim, "bench", *session, "--on-device", "--seconds", flags.seconds, "--json")
            found.append(json.loads(report))
    lines = []
    for folder, found, answer in zip(flags.folders, times, checked, strict=True):
        medians = [report["median_ms"] for report in found]
        rounds = " ".join(f"{ms:.4f}" for ms in medians)
        probe = statistics.median(report["probe_read_gb_s"] for report in found)
        line = f"{name:28s} {folder.name:12s} {statistics.median(medians):.4f} ms of {rounds}"
        lines.append(f"{line}, probe {probe:.0f} GB/s, {answer}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--npusim", default="build/ci/npusim")
    parser.add_argument("--models", default=",".join(name for name in compare.TEXTS if "decode" in name))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.5)
    flags = parser.parse_args()
    return compare.each(flags.models, lambda name, work: turns(name, flags, work))


if __name__ == "__main__":
    sys.exit(main())
