"""What a family's file gives for each of its models, and weights that hide nothing."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

PROGRAMS = ("float32", "auto", "bfloat16", "cast")  # what a model is judged by: see judge.py
STATES = ("failed", "wrong", "refused", "not exported", "unstable", "tie", "right")  # the worst first
Made = tuple[nn.Module, Sequence[Any], Mapping[str, Any]]  # model, args, kwargs


@dataclass(frozen=True)
class Case:
    """One architecture: its group in the report, and a function that makes a small one of it, called after a seed; the
    keywords whose values are part of the program."""

    group: str
    make: Callable[[], Made]
    fixed: tuple[str, ...] = ()


def worst_state(states: Sequence[str]) -> str:
    """The state of a model from those of its programs."""
    worst = min(states, key=STATES.index)
    # Where torch exports it in float32 but not in 16 bits, that one says it.
    return "right" if worst == "not exported" != states[0] else worst


def randomise(model: nn.Module) -> None:
    """No weight stays at an initial 0 or 1, none is uninitialised, batch norms have statistics, and signals keep their
    size through the layers."""
    matrices = nn.modules.conv._ConvNd | nn.Linear
    norms = nn.modules.batchnorm._BatchNorm
    for module in model.modules():
        for name, p in module.named_parameters(recurse=False):
            if not p.is_floating_point():
                continue
            if not p.isfinite().all():
                p.normal_(std=0.02)
            if isinstance(module, matrices) and p.dim() > 1:
                p.normal_(std=1 / math.sqrt(max(p.shape[1:].numel(), 1)))
            elif isinstance(module, nn.Embedding):
                p.normal_(std=0.5)
            elif p.dim() >= 2 and p.numel() and p.std() < 0.05:  # stacks of experts, positions, tokens
                p.normal_(std=min(0.3, 1 / math.sqrt(max(p.shape[-2:]))))
            else:
                p.add_(torch.randn_like(p), alpha=0.1)
        if isinstance(module, norms) and module.running_mean is not None:
            module.running_mean.normal_(std=0.2)
            module.running_var.uniform_(0.5, 1.5)


def settle(model: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Random statistics of batch norms that fit what comes to them: signals keep their size however many branches are
    summed. Runs the model once."""

    def fit(module: nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
        x = inputs[0].detach()
        if module.running_mean is None or not x.isfinite().all() or x.std() == 0:
            return
        module.running_mean.normal_(std=0.2).mul_(x.std()).add_(x.mean())
        module.running_var.uniform_(0.5, 1.5).mul_(x.var())

    norms = [module for module in model.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)]
    handles = [norm.register_forward_pre_hook(fit) for norm in norms]
    try:
        if norms:
            model(*args, **kwargs)
    finally:
        for handle in handles:
            handle.remove()
