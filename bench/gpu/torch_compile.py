#!/usr/bin/env python3
"""torch.compile(…, backend="npusim", options={"target": "cuda"}) on a GPU: eager PyTorch's answers, then how fast.

    PYTHONPATH=build/ci/python bench/gpu/torch_compile.py [--seconds S] [--inductor] [CASE…]

First each case, in which tensors come and go in one way or another (views, writes, numbers of the host, a stream, new
weights); then models with random weights, in float32 and float16. Times are of the host's clock around calls that end with
torch.cuda.synchronize(), the fastest of all. --inductor: PyTorch's own compiler too. Exit status 1: an answer is another
one, lies elsewhere, or was left to eager PyTorch; no time is told then.
"""

import argparse
import copy
import logging
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import npusim.torch_compile
import torch
from torch import nn

TARGET = {"target": "cuda"}
GPU = torch.device("cuda", 0)


def on_gpu(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, device=GPU).to(dtype)


def writes(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x[:, 1:].mul_(2)
    y.add_(x)
    return x.t()


def views(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = x * 2
    return y, y[1:], y.t(), y


def with_constants(x: torch.Tensor) -> torch.Tensor:
    return x + torch.arange(4, device=x.device) + torch.tensor([1.0, 2, 3, 4], device=x.device)


# What is called, and its arguments.
CASES: dict[str, Callable[[], tuple[Any, tuple[Any, ...]]]] = {
    "elements": lambda: (lambda x: torch.tanh(x) + 1, (on_gpu(5, 7),)),
    "a product": lambda: (lambda x, y: x @ y, (on_gpu(33, 65), on_gpu(65, 17))),
    "arguments that are turned": lambda: (lambda x, y: x @ y, (on_gpu(65, 33).t(), on_gpu(17, 65).t())),
    "part of an argument": lambda: (lambda x: x.sum(1), (on_gpu(9, 16)[2:, 3:11],)),
    "writes": lambda: (writes, (on_gpu(6, 6), on_gpu(6, 6))),
    "views of one memory": lambda: (views, (on_gpu(6, 4),)),
    "whole numbers and truths": lambda: (lambda x: (x.argmax(1), x > 0), (on_gpu(6, 9),)),
    "complex numbers": lambda: (lambda x: torch.complex(x, x + 1) * 2j, (on_gpu(6, 4),)),
    "complex arguments": lambda: (lambda z: z.conj() * 2, (torch.complex(on_gpu(4, 3), on_gpu(4, 3)).conj(),)),
    "a number of the host": lambda: (lambda x, n: x * n, (on_gpu(6, 4), torch.tensor(3.0))),
    "a result on the host": lambda: (lambda x: (x + 1, (x + 2).cpu()), (on_gpu(6, 4),)),
    "constants": lambda: (with_constants, (on_gpu(6, 4),)),
    "bfloat16": lambda: (lambda x, y: x @ y, (on_gpu(64, 64, dtype=torch.bfloat16), on_gpu(64, 64, dtype=torch.bfloat16))),
    "no elements": lambda: (lambda x: x * 2, (on_gpu(0, 4),)),
    "a layer": lambda: (nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.LayerNorm(64)).to(GPU).eval(), (on_gpu(8, 32),)),
}


class Net(nn.Module):
    """Convolutions with what is around them in a net for images."""

    def __init__(self) -> None:
        super().__init__()
        widths = (3, 32, 64, 128)
        self.layers = nn.Sequential(
            *(
                nn.Sequential(nn.Conv2d(a, b, 3, stride=2, padding=1), nn.BatchNorm2d(b), nn.ReLU())
                for a, b in zip(widths, widths[1:])
            )
        )
        self.head = nn.Linear(widths[-1], 100)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(x).mean((2, 3)))


def encoder() -> nn.Module:
    torch.backends.mha.set_fastpath_enabled(False)
    return nn.TransformerEncoderLayer(768, 12, 3072, batch_first=True)


MODELS: dict[str, Callable[[], tuple[nn.Module, tuple[int, ...]]]] = {
    "mlp": lambda: (nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1024)), (64, 1024)),
    "net": lambda: (Net(), (8, 3, 224, 224)),
    "encoder": lambda: (encoder(), (1, 128, 768)),
}
BARS = {torch.float32: 2e-3, torch.bfloat16: 3e-2, torch.float16: 1e-2}  # relative L2: eager's products may be in TF32


class Warnings(logging.Handler):
    """What the backend said it left to eager PyTorch."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.seen: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.seen.append(record.getMessage())


def compiled(model: Any, **options: Any) -> Any:
    torch.compiler.reset()
    return torch.compile(model, backend=npusim.torch_compile.backend, options={**TARGET, **options})


def differences(found: Any, expected: Any) -> Iterator[str]:
    """Each in which tensors are not eager's."""
    ours, theirs = (torch.utils._pytree.tree_leaves(one) for one in (found, expected))
    if len(ours) != len(theirs):
        yield f"{len(ours)} tensors for {len(theirs)}"
    for i, (a, b) in enumerate(zip(ours, theirs)):
        facts = [(x.device, x.dtype, tuple(x.shape), x.stride()) for x in (a, b)]
        if facts[0] != facts[1]:
            yield f"tensor {i} is {facts[0]}, eager's {facts[1]}"
        elif not b.dtype.is_floating_point and not b.dtype.is_complex:
            if not torch.equal(a, b):
                yield f"tensor {i} is another"
        elif b.numel() and distance(a, b) > BARS.get(b.dtype, 2e-3):
            yield f"tensor {i} is {distance(a, b):.1e} from eager's"


def distance(a: torch.Tensor, b: torch.Tensor) -> float:
    """Relative L2."""
    a, b = (x.resolve_conj().resolve_neg().cpu().to(torch.complex128) for x in (a, b))
    return ((a - b).norm() / b.norm().clamp(min=1e-30)).item()


def check(name: str, warnings: Warnings) -> list[str]:
    """What is wrong with a case: with its results, with what it leaves in its arguments, in the first call and in later ones,
    on a stream too, and with weights that change."""
    torch.manual_seed(0)
    model, args = CASES[name]()
    fast, problems = compiled(model), []
    for turn in range(4):
        ours, theirs = copy.deepcopy(args), copy.deepcopy(args)
        if turn == 3 and isinstance(model, nn.Module):
            model[0].weight.mul_(-1)
        stream = torch.cuda.Stream() if turn == 2 else torch.cuda.current_stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            found = fast(*ours)
        torch.cuda.current_stream().wait_stream(stream)
        problems += [f"call {turn}: {what}" for what in differences((found, ours), (model(*theirs), theirs))]
    problems += warnings.seen
    warnings.seen.clear()
    print(f"{name:28} {'ok' if not problems else 'WRONG'}", *problems, sep="\n    " if problems else "", flush=True)
    return problems


def fastest(model: Any, args: tuple[Any, ...], seconds: float) -> float:
    """Milliseconds of the fastest call within so many seconds, behind the first, which may compile."""
    model(*args)
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        torch.cuda.synchronize()
        begin = time.perf_counter()
        model(*args)
        torch.cuda.synchronize()
        best = min(best, time.perf_counter() - begin)
    return best * 1e3


def measure(name: str, dtype: torch.dtype, seconds: float, inductor: bool, warnings: Warnings) -> tuple[str, list[str]]:
    """A row of the table, and what is wrong with it."""
    torch.manual_seed(0)
    made, shape = MODELS[name]()
    model, args = made.to(GPU, dtype).eval(), (on_gpu(*shape, dtype=dtype),)
    begin = time.perf_counter()
    fast = compiled(model)
    found = fast(*args)
    torch.cuda.synchronize()
    took = time.perf_counter() - begin
    expected = model(*args)
    problems = [*differences(found, expected), *warnings.seen]
    warnings.seen.clear()
    times = [fastest(one, args, seconds) for one in (model, fast)]
    if inductor:
        times.append(fastest(torch.compile(model), args, seconds))
    kind = str(dtype).removeprefix("torch.")
    cells = " | ".join(f"{ms:.3f}" for ms in times)
    return f"| {name}, {kind} | {cells} | {distance(found, expected):.1e} | {took:.1f} |", problems


@torch.no_grad()
def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help="default: all, and the table")
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--inductor", action="store_true")
    flags = parser.parse_args()
    if unknown := {*flags.cases} - {*CASES}:
        parser.error(f"no case {', '.join(sorted(unknown))}: there are {', '.join(CASES)}")
    if not torch.cuda.is_available():
        print("SKIP: PyTorch has no CUDA device")
        return 0
    warnings = Warnings()
    logging.getLogger("npusim").addHandler(warnings)
    problems = [what for name in flags.cases or CASES for what in check(name, warnings)]
    if flags.cases or problems:
        return 1 if problems else 0
    kinds = [(name, dtype) for name in MODELS for dtype in (torch.float32, torch.float16)]
    rows = [measure(*kind, flags.seconds, flags.inductor, warnings) for kind in kinds]
    if problems := [what for _, found in rows for what in found]:
        print("WRONG", *problems, sep="\n    ")
        return 1
    inductor = " torch.compile |" if flags.inductor else ""
    print(f"\n{torch.cuda.get_device_name(GPU)}, PyTorch {torch.__version__}\n")
    print(f"| ms | PyTorch eager | npusim |{inductor} relative L2 | first call, s |")
    print("|---|" + "---|" * (5 if flags.inductor else 4))
    print(*(row for row, _ in rows), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
