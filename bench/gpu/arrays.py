#!/usr/bin/env python3
"""What a run from Python takes by where its arrays are: PyTorch's own on the GPU, the session's there, NumPy's.

    bench/gpu/compare.py prepare FOLDER        on a machine that can export them
    bench/gpu/arrays.py FOLDER [--models A,B]  with the package of python/ where Python finds it

Answers are held to compare.py's bars, against PyTorch's float32, and all three are the same bits. Times are medians of
the host's clock around whole runs.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import compare
import npusim
import torch


def milliseconds(run: Callable[[], object], seconds: float = 0.5) -> float:
    times, end = [], time.perf_counter() + seconds
    while len(times) < 20 or time.perf_counter() < end:
        begin = time.perf_counter()
        run()
        times.append(1e3 * (time.perf_counter() - begin))
    return statistics.median(times)


@torch.inference_mode()
def by_place(name: str, folder: Path, work: Path) -> str:
    _, inputs, expected = compare.make(name, folder, work)
    torch.cuda.synchronize()
    session = npusim.Session(npusim.load(folder / f"{name}.npubin"), work / "model.safetensors", device="cuda:0")
    takes, [gives] = session.program.inputs(), session.program.outputs()
    out = torch.empty(gives.shape, dtype=getattr(torch, gives.dtype), device="cuda")
    host = [x.cpu().numpy() for x in inputs]
    own = session.device_arrays()
    for info, x in zip(takes, inputs, strict=True):
        torch.from_dlpack(own[info.name]).copy_(x)
    torch.cuda.synchronize()
    ways = {
        "PyTorch's": lambda: session.run(*inputs, out={gives.name: out})[gives.name],
        "the session's": lambda: session.run_on_device() or torch.from_dlpack(own[gives.name]),
        "NumPy's": lambda: torch.from_numpy(session.run(*host)[gives.name]),
    }
    answers = [way().cpu() for way in ways.values()]
    r, error = compare.distance(answers[0], expected)
    right = compare.is_near(r, error, compare.dtype_of(name))
    right &= all(torch.equal(answers[0], other) for other in answers[1:])
    times = ", ".join(f"{way} {milliseconds(run):.4f}" for way, run in ways.items())
    return f"{name:26s} {times} ms; {error:.1e} {'ok' if right else 'WRONG'}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--models", default=",".join(compare.NAMES))
    flags = parser.parse_args()
    return compare.each(flags.models, lambda name, work: by_place(name, flags.folder, work))


if __name__ == "__main__":
    sys.exit(main())
