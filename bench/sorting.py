#!/usr/bin/env python3
"""Orders, combining scatters and folds beside eager PyTorch: the same answers, and how fast.

    PYTHONPATH=build/ci/python bench/sorting.py [--rounds N] [--seconds S] [--threads N] [NAME…]

float32 unless said otherwise. Rounds are interleaved and the fastest run of all rounds counts. Exit status 1: an answer
is not eager's. PyTorch's threads and npusim's take turns: those who wait sleep."""
import argparse
import os
import sys
import time

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch is there

import torch
import torch.nn.functional as F

import npusim

g = torch.Generator().manual_seed(0)


def randn(*shape):
    return torch.randn(*shape, generator=g)


def whole(high, *shape):
    return torch.randint(0, high, shape, generator=g)


def distinct(*shape):
    """No two are equal: an order that need not be stable has one answer."""
    return torch.randperm(torch.Size(shape).numel(), generator=g).float().reshape(shape)


NODES, EDGES = whole(5000, 100000), randn(100000, 16)
CASES = {
    "sort 8x4096": (lambda x: torch.sort(x, stable=True), (distinct(8, 4096),)),
    "sort 1x200000": (lambda x: torch.sort(x, stable=True), (distinct(1, 200000),)),
    "sort 4096x64, dim 0": (lambda x: torch.sort(x, dim=0, stable=True), (distinct(4096, 64),)),
    "sort 20000x8": (lambda x: torch.sort(x, stable=True), (distinct(20000, 8),)),
    "sort int64 100000": (lambda x: torch.sort(x, stable=True), (whole(1 << 40, 100000),)),
    "argsort 1x8400": (lambda x: torch.argsort(x, descending=True, stable=True), (distinct(1, 8400),)),
    "topk 5 of 4096": (lambda x: torch.topk(x, 5), (distinct(1, 4096),)),
    "topk 50 of 152064": (lambda x: torch.topk(x, 50), (distinct(1, 152064),)),
    "topk 300 of 8400x80": (lambda x: torch.topk(x.flatten(1), 300), (distinct(1, 8400, 80),)),
    "median 200000": (torch.median, (distinct(200000),)),
    "kthvalue 100 of 8x20000": (lambda x: torch.kthvalue(x, 100), (distinct(8, 20000),)),
    "searchsorted 100000 of 10000": (torch.searchsorted, (distinct(10000).sort()[0], randn(100000) * 5000 + 5000)),
    "isin 10000 of 10000": (torch.isin, (whole(20000, 10000), whole(20000, 10000))),
    "scatter_reduce amax 20000x8": (
        lambda s, i, x: s.scatter_reduce(0, i, x, "amax"),
        (randn(2000, 8), whole(2000, 20000, 1).expand(-1, 8).contiguous(), randn(20000, 8)),
    ),
    "scatter_reduce mean 100000x16": (
        lambda s, i, x: s.scatter_reduce(0, i.unsqueeze(1).expand(-1, 16), x, "mean", include_self=False),
        (randn(5000, 16), NODES, EDGES),
    ),
    "scatter_add 100000x16": (
        lambda s, i, x: s.scatter_add(0, i.unsqueeze(1).expand(-1, 16), x),
        (randn(5000, 16), NODES, EDGES),
    ),
    "index_add 100000x16": (lambda s, i, x: s.index_add(0, i, x), (randn(5000, 16), NODES, EDGES)),
    "index_reduce amin 20000x8": (
        lambda s, i, x: s.index_reduce(0, i, x, "amin"),
        (randn(2000, 8), whole(2000, 20000), randn(20000, 8)),
    ),
    "fold 2-D 64x32x32, 3x3": (lambda x: F.fold(x, 32, 3, padding=1), (randn(1, 64 * 9, 1024),)),
    "fold 1-D 1024, hop 256": (
        lambda x: F.fold(x, (1, 1024 + 256 * 199), (1, 1024), stride=(1, 256)),
        (randn(1, 1024, 200),),
    ),
    "embedding_bag 1000 bags of 20": (
        lambda w, i, o: F.embedding_bag(i, w, o),
        (randn(10000, 64), whole(10000, 20000), torch.arange(0, 20000, 20)),
    ),
}


class Model(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


def fastest(call, seconds):
    """Milliseconds of the fastest run within so many seconds."""
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        begin = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - begin)
    return best * 1e3


def tensors(outputs):
    return [outputs] if isinstance(outputs, torch.Tensor) else list(outputs)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("names", nargs="*", metavar="NAME")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.set_grad_enabled(False)
    wrong = False
    print(f"{'':32} {'npusim ms':>10} {'eager ms':>10}  ratio")
    for name, (function, inputs) in CASES.items():
        if args.names and not any(part in name for part in args.names):
            continue
        session = npusim.Session(npusim.compile(Model(function), inputs), threads=args.threads)
        arrays = [x.numpy() for x in inputs]
        expected, found = tensors(function(*inputs)), session.run(*arrays).values()
        found = [torch.from_numpy(x) for x in found]
        same = all(torch.allclose(a.double(), b.double(), rtol=1e-4, atol=1e-4) for a, b in zip(expected, found, strict=True))
        wrong = wrong or not same
        times = [(fastest(lambda: session.run(*arrays), args.seconds), fastest(lambda: function(*inputs), args.seconds))
                 for _ in range(args.rounds)]
        ours, eager = min(t[0] for t in times), min(t[1] for t in times)
        print(f"{name:32} {ours:10.4f} {eager:10.4f} {ours / eager:6.2f}{'' if same else '  WRONG'}", flush=True)
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
