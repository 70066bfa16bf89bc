#!/usr/bin/env python3
"""What `npusim tune` gives: compare.py's models, as they are compiled and as they are tuned, in one run on a GPU.

    bench/gpu/compare.py prepare FOLDER        on a machine that can export them
    bench/gpu/tune.py FOLDER [--npusim P] [--models A,B] [--ways N]

Of decode steps their programs that are one launch, with what each way took.
Answers of the tuned program are held to compare.py's bars, against PyTorch's float32. Tuned programs stay in
FOLDER/tuned.
"""

import argparse
import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import compare
import torch
import turns


@torch.inference_mode()
def tune(name: str, folder: Path, npusim: str, ways: int, work: Path) -> str:
    _, _, expected = compare.make(name, folder, work)
    torch.cuda.empty_cache()
    (folder / "tuned").mkdir(exist_ok=True)
    program, tuned = turns.program_of(name, folder), folder / "tuned" / f"{name}.npubin"
    given = ["--weights", work / "model.safetensors", "--inputs", work / "inputs.safetensors"]
    given += ["--method", "decode"] if name in compare.SHAPED else []
    begin = time.monotonic()
    flags = ["--ways", ways, "--seconds", 0.2, "--json"]
    report = json.loads(compare.own(npusim, "tune", program, *given, "-o", tuned, *flags))
    seconds = time.monotonic() - begin
    _, error, right = compare.check(npusim, [tuned, *given], work, expected, compare.dtype_of(name))
    changed = [k for k in report["kernels"] if k["after"] != k["before"]]
    kept = "kept" if report["kept"] else "not kept"
    times = f"{report['before_ms']:8.4f} {report['after_ms']:8.4f} ms" if changed else "no other way is faster"
    counts = f"{len(changed)} of {len(report['kernels'])} kernels"
    lines = [f"{name:26s} {times}  {kept:8s} {counts}, {error:.1e} {'ok' if right else 'WRONG'}, {seconds:.0f} s"]
    for k in report["kernels"] if len(report["kernels"]) == 1 else []:  # a method as one launch
        for way in sorted(k["ways"], key=lambda w: w["ms"]):
            lines.append(f"    {way['ms']:.4f}  {way['how'].rpartition('; ')[2]}")
    for k in sorted(changed, key=lambda k: k["after_ms"] - k["before_ms"]):
        lines.append(f"    {k['before_ms']:.4f} {k['after_ms']:.4f}  {k['launches']} x {k['before']} -> {k['after']}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--npusim", default="build/ci/npusim")
    parser.add_argument("--models", default=",".join(compare.NAMES))
    parser.add_argument("--ways", type=int, default=8)
    flags = parser.parse_args()
    return compare.each(flags.models, lambda name, work: tune(name, flags.folder, flags.npusim, flags.ways, work))


if __name__ == "__main__":
    sys.exit(main())
