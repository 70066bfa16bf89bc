"""Calls of PyTorch's functions: of each that takes tensors, with the first of these arguments that it takes."""

import warnings

import torch
from torch.overrides import get_overridable_functions, resolve_name

A = torch.rand(3, 3, generator=torch.Generator().manual_seed(1)) * 0.8 + 0.1
B = torch.eye(3) * 3 + (A + A.t()) / 4  # symmetric, positive
ROW, PLACES, ORDER = A[0].clone(), torch.tensor([0, 2, 1]), torch.tensor([[0, 2, 1], [1, 0, 2], [2, 1, 0]])
TRUTH, Z = A > 0.5, torch.complex(A, B)
IMAGE = torch.linspace(0, 1, 3 * 6 * 6).reshape(1, 3, 6, 6).sin()
SOUND, CUBE, MANY = IMAGE[0, :, 0, :].unsqueeze(0), IMAGE.unsqueeze(2), torch.stack([A, B])
DENSE, SPREAD = MANY[:, :1].expand(2, 3, 3).clone(), IMAGE[:, :, :3, :3].expand(2, 3, 3, 3).clone()
ARGUMENTS = [
    (A,), (B,), (A, B), (ORDER,), (ORDER, ORDER), (A, 0), (A, 1), (A, 0.5), (A, PLACES), (A, ORDER), (A, 0, PLACES),
    (A, 0, ORDER), (A, 0, ORDER, B), (A, 0, PLACES, B), (A, B, A), (A, 0, 1), (A, 0, 0, 1), (ROW,), (ROW, ROW), (A, ROW),
    (ROW, A), (TRUTH,), (TRUTH, TRUTH), (TRUTH, A, B), (A, TRUTH), (A, TRUTH, 0.5), (A, TRUTH, ROW), (Z,), (Z, Z),
    (IMAGE,), (IMAGE, 2), (IMAGE, (2, 2)), (IMAGE, IMAGE), (IMAGE, SPREAD), (IMAGE, SPREAD.transpose(0, 1)), (SOUND,),
    (SOUND, 2), (SOUND, DENSE), (SOUND, DENSE.transpose(0, 1)), (CUBE, SPREAD[:, :, None]), (CUBE, 2), (CUBE, (1, 2, 2)),
    (CUBE, SPREAD.transpose(0, 1)[:, :, None]), (MANY, MANY), (A, MANY, MANY), (MANY, MANY, MANY), (ROW, A, A), (A, A, ROW),
    (A, ROW, ROW), (A, (1,)), (A, (9,)), (A, (0, 1)), (A, 3), (A, 2, 0), (A, 0.2, 0.8), (A, torch.tensor(0.5)), ([A, B],),
    ([A, B], 0), ([A, B], [B, A]), ([A, B], [B, A], [A, A]), ([A, B], 2.0), (A, [3], A[0], A[1]), (A, torch.float64),
    (A, torch.int32), (0, A), (2.0, A), (3, ROW), ("ij,jk->ik", A, B), (A, 0, ORDER, 1.0), (A, torch.tensor(0)), (A, -1),
    (ORDER, A), (PLACES, A), (A, PLACES, PLACES), (A, (PLACES, PLACES), ROW), (A, 0, 0.5, 0.6), (IMAGE, 3, 1, 1),
    (A, 0, 0, 3), (A, 2, 1, 1.0), (A, A, ROW), (ROW, ROW, torch.tensor(1.0)), (A[None], A[None]), (SOUND, SOUND, SOUND),
    (IMAGE, ROW, ROW), (IMAGE, 3), (IMAGE, 3, ROW), (A, ROW, ROW + 1, None, None), (IMAGE, ROW, ROW + 1),
    (IMAGE, ROW, ROW + 1, ROW, ROW, True, 0.1, 1e-5), (A, (3, 3)), (A, 1, 1), (A, 2, 2, 2), (A, 1.0, 0.0), (SOUND, SOUND.sin()),
    (A, 0.1, 0.3, False), (IMAGE, A[None, :, None, :2].expand(1, 3, 3, 2)), (A[None], [1, 3, 4, 4]), (CUBE[0], 2),
]  # fmt: skip
# What changes the process, or gives what is no value: memory, gradients, other layouts.
NO_FUNCTIONS = ("set_", "save", "backward", "cuda", "share_memory", "sparse", "quantize", "dropout", "empty", "resize", "requires_grad")
FIRST_WRITTEN = ("torch.embedding_bag",)  # of whose results PyTorch writes the first alone, where it needs no gradient


def leaves(value):
    return torch.utils._pytree.tree_leaves(value)


def is_plain(value):
    return isinstance(value, torch.Tensor) and value.layout is torch.strided and not value.is_quantized


def copied(given):
    """Arguments with memory of their own, where one tensor stands for several, too: what is written then is defined."""
    return torch.utils._pytree.tree_map(lambda x: x.clone() if isinstance(x, torch.Tensor) else x, given)


def called(function, given):
    """What it gives for a copy of the arguments, and what these are afterwards; None where it takes no such arguments, or
    gives something else each time."""
    results = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        arguments = copied(given)
        try:
            found = leaves(function(*arguments))
        except Exception:
            return None
        if not found or not all(map(is_plain, found)):
            return None
        results.append([*found, *filter(is_plain, leaves(arguments))])
    for one, other in zip(*results, strict=True):
        if one.shape != other.shape or not torch.allclose(one, other, equal_nan=True):
            return None
    return results[0]


def first_of(function):
    return lambda *arguments: function(*arguments)[0]


def functions():
    """(name, function, arguments)"""
    found = {}
    for listed in get_overridable_functions().values():
        for function in listed:
            name = resolve_name(function) or ""
            short = name.rpartition(".")[2]
            if name and not short.startswith("__") and not any(part in short for part in NO_FUNCTIONS):
                found[name] = first_of(function) if name in FIRST_WRITTEN else function
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in sorted(found):
            given = next((given for given in ARGUMENTS if called(found[name], given) is not None), None)
            if given is not None:
                yield name, found[name], given
