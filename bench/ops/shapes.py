#!/usr/bin/env python3
"""Calls whose time depends on their shape, in npusim beside eager PyTorch: what one shape for an operator (sweep.py) does not reach.

    PYTHONPATH=build/release/python bench/ops/shapes.py [--only REGEX] [--threads N] [--cpu-time] [--markdown FILE]

Each is a model of one call, with constant weights; answers are checked, the two take turns, and the fastest run of each counts.
Inputs and results stay where they are. Exit status 1: an answer is not PyTorch's."""

import argparse
import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch is there: the two have threads of their own
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import npusim
import torch
import torch.nn.functional as F
from record import machine, table, today
from whole import write_whole

MAX_RELATIVE_L2 = 1e-4
TIMED_SECONDS = 0.5  # of a row

Shape = tuple[int, ...]
Row = tuple[str, Callable[..., torch.Tensor], Shape, tuple[Shape, ...]]


def depthwise(channels: int, image: Shape, window: Shape, **more) -> Row:
    dims = len(image)
    call = (F.conv1d, F.conv2d, F.conv3d)[dims - 1]
    more = {"padding": tuple(n // 2 for n in window), "groups": channels} | more
    name = f"depthwise {'x'.join(map(str, window))}" + (", stride 2" if "stride" in more else "")
    return name, lambda x, w: call(x, w, **more), (1, channels, *image), ((channels, 1, *window),)


def head(channels: int, outputs: int, image: Shape, taps: int = 1) -> Row:
    call = (F.conv1d, F.conv2d)[len(image) - 1]
    window = (taps,) * len(image)
    return (
        f"{channels} to {outputs} channels, {'x'.join(map(str, window))}",
        lambda x, w: call(x, w, padding=taps // 2),
        (1, channels, *image),
        ((outputs, channels, *window),),
    )


def nearest(factor: float, shape: Shape) -> Row:
    return f"nearest, by {factor}", lambda x: F.interpolate(x, scale_factor=factor), shape, ()


ROWS: list[Row] = [
    depthwise(64, (4096,), (7,)),
    depthwise(256, (1000,), (31,)),
    depthwise(1536, (128,), (4,)),
    depthwise(64, (4096,), (3,), stride=2),
    depthwise(96, (56, 56), (3, 3)),
    depthwise(96, (56, 56), (7, 7)),
    depthwise(54, (13, 40, 40), (3, 3, 3)),
    depthwise(16, (9, 33, 33), (3, 3, 3)),
    depthwise(32, (8, 40, 40), (1, 3, 3)),
    depthwise(32, (8, 40, 40), (3, 3, 3), stride=(1, 2, 2)),
    head(256, 1, (128, 128)),
    head(256, 1, (4096,)),
    head(256, 2, (64, 64)),
    head(1, 1, (512, 512)),
    head(1, 64, (256, 256)),
    head(256, 1, (64, 64), 3),
    head(64, 3, (128, 128), 3),
    ("a gate", lambda x, w: F.conv2d(x, w).sigmoid() * x, (1, 256, 64, 64), ((1, 256, 1, 1),)),
    nearest(2, (4, 64, 4096)),
    nearest(2, (2, 64, 64, 64)),
    nearest(3, (4, 64, 4096)),
    nearest(1.7, (4, 64, 4096)),
]


class Call(torch.nn.Module):
    def __init__(self, call: Callable[..., torch.Tensor], weights: tuple[Shape, ...]) -> None:
        super().__init__()
        self.call = call
        for n, shape in enumerate(weights):
            self.register_buffer(f"weight{n}", torch.randn(shape))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.call(x, *self.buffers())


@torch.no_grad()
def measure(row: Row, threads: int, clock: Callable[[], float]) -> tuple[list[str], bool]:
    name, call, shape, weights = row
    model, x = Call(call, weights), torch.randn(shape)
    session = npusim.Session(npusim.compile(model, (x,), dtype="float32"), threads=threads)
    found, wanted = torch.as_tensor(session.run(x)["output"]).double(), model(x).double()
    error = ((found - wanted).norm() / wanted.norm()).item()
    best = [float("inf")] * 2
    end = time.perf_counter() + TIMED_SECONDS
    while time.perf_counter() < end:
        for side, run in enumerate((lambda: model(x), session.run_on_device)):
            begin = clock()
            run()
            best[side] = min(best[side], (clock() - begin) * 1e3)
    how = "; ".join(step.how for step in npusim.profile(session, x, times=1).steps)
    cells = [name, "x".join(map(str, shape)), *(f"{ms:.3f}" for ms in best), f"{best[1] / best[0]:.2f}", f"{error:.0e}", how]
    return cells, error <= MAX_RELATIVE_L2


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=re.compile, default=re.compile(""), metavar="REGEX", help="rows whose name has this")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cpu-time", action="store_true", help="of the calling thread, on a busy machine; with one thread")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write what is printed")
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(args.threads)
    clock = time.thread_time if args.cpu_time else time.perf_counter
    measured = [measure(row, args.threads, clock) for row in ROWS if args.only.search(row[0])]
    m = machine()
    text = (
        f"# Shapes, {today()}\n\n{m['cpu']}, {m['cores']} cores, {args.threads} of them used; PyTorch {torch.__version__}, npusim "
        f"{npusim.__version__}. Made by `bench/ops/shapes.py`: the fastest run of each side, in ms.\n\n"
        + table(["call", "image", "eager", "npusim", "ratio", "error", "steps"], [cells for cells, _ in measured])
    )
    print(text)
    if args.markdown:
        write_whole(args.markdown, text + "\n")
    return int(not all(right for _, right in measured))


if __name__ == "__main__":
    sys.exit(main())
