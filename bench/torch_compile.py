#!/usr/bin/env python3
"""torch.compile(model, backend="npusim") beside eager PyTorch, in one process: the same answers, and how fast.

    PYTHONPATH=build/ci/python bench/torch_compile.py [--rounds N] [--seconds S] [--threads N] [MODEL…]

Models with random weights, in float32: resnet18 (torchvision), bert_layer, llama (transformers; 8 layers). Rounds are
interleaved and the fastest run of all rounds counts. Exit status 1: an answer is further from eager's than 1e-4
(relative L2), part of a model was left to eager PyTorch, or npusim is not faster. Needs torch, torchvision and
transformers. PyTorch's threads and npusim's take turns: those who wait sleep."""
import argparse
import logging
import os
import sys
import time

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch is there

import torch

import npusim.torch_compile  # noqa: F401  the backend, also where the package is not installed


def resnet18():
    import torchvision

    return torchvision.models.resnet18().eval(), (torch.randn(1, 3, 224, 224),)


def bert_layer():
    from transformers.models.bert.modeling_bert import BertConfig, BertLayer

    return BertLayer(BertConfig(attn_implementation="sdpa")).eval(), (torch.randn(1, 128, 768),)


def llama():
    import transformers

    sizes = dict(hidden_size=512, intermediate_size=1408, num_hidden_layers=8, num_attention_heads=8, num_key_value_heads=4)
    config = transformers.LlamaConfig(vocab_size=4096, use_cache=False, **sizes)
    return transformers.LlamaForCausalLM(config).eval(), (torch.randint(0, 4096, (1, 64)),)


MODELS = {"resnet18": resnet18, "bert_layer": bert_layer, "llama": llama}


def first(output):
    return output if isinstance(output, torch.Tensor) else output[0]


def fastest(model, args, seconds):
    """Milliseconds of the fastest run within so many seconds."""
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        begin = time.perf_counter()
        model(*args)
        best = min(best, time.perf_counter() - begin)
    return best * 1e3


class Warnings(logging.Handler):
    """What the backend said it left to eager PyTorch."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self.seen = []

    def emit(self, record):
        self.seen.append(record.getMessage())


def measure(name, rounds, seconds):
    torch.manual_seed(0)
    torch.compiler.reset()
    eager, args = MODELS[name]()
    warnings = Warnings()
    logging.getLogger("npusim").addHandler(warnings)
    with torch.no_grad():
        begin = time.perf_counter()
        fast = torch.compile(eager, backend="npusim")
        found = first(fast(*args))
        took = time.perf_counter() - begin
        expected = first(eager(*args))
        times = [[fastest(model, args, seconds) for model in (eager, fast)] for _ in range(rounds)]
    logging.getLogger("npusim").removeHandler(warnings)
    distance = ((found - expected).norm() / expected.norm()).item()
    eager_ms, fast_ms = (min(column) for column in zip(*times))
    print(f"{name:12} eager {eager_ms:8.2f} ms   npusim {fast_ms:8.2f} ms   x{eager_ms / fast_ms:.2f}   "
          f"first call {took:.1f} s   relative L2 {distance:.1e}", flush=True)
    for line in warnings.seen:
        print(f"  {line}")
    return distance < 1e-4 and not warnings.seen and fast_ms < eager_ms


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=", ".join(MODELS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.7)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    args = parser.parse_args()
    if unknown := set(args.models) - set(MODELS):
        parser.error(f"no model {', '.join(sorted(unknown))}: there are {', '.join(MODELS)}")
    torch.set_num_threads(args.threads)
    right = [measure(name, args.rounds, args.seconds) for name in args.models or MODELS]
    return 0 if all(right) else 1


if __name__ == "__main__":
    sys.exit(main())
