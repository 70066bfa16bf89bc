"""Shallow copies of deep models: layers that repeat say nothing new of a compiler."""

import re
from collections.abc import Callable

import torch
from torch import nn

REPEATS = 2  # kept of equal layers in a row: windows shift in every other one
RATE = re.compile(r"(drop_prob|p)=[0-9.e-]+")  # of dropping a path: grows with the depth, does nothing in eval()


def shorten(model: nn.Module) -> None:
    """Drops, from each sequence, layers that print as the two before them do."""
    for sequence in list(model.modules()):
        if not isinstance(sequence, (nn.Sequential, nn.ModuleList)):
            continue
        names = list(sequence._modules)
        texts = [RATE.sub("", repr(layer)) for layer in sequence]
        for i in reversed(range(REPEATS, len(names))):
            if texts[i - REPEATS : i] == [texts[i]] * REPEATS:
                del sequence._modules[names[i]]
        if isinstance(sequence, nn.ModuleList):
            sequence._modules = {str(i): layer for i, layer in enumerate(sequence._modules.values())}


def shallow(make: Callable[[], nn.Module], *args: torch.Tensor) -> nn.Module:
    """The model without what repeats, or all of it where it does not run without."""
    model = make().eval()
    shorten(model)
    try:
        with torch.no_grad():
            model(*args)
    except Exception:
        return make().eval()
    return model
