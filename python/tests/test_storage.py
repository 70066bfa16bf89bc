"""resize_ and resize_as_ of tensors in any order of memory: what they show, and whose elements are written, as in eager PyTorch."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import npusim
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from modules import Calls, CallsWithSelf

# Views of a tensor of [4, 6].
VIEWS: dict[str, Callable[[Any], Any]] = {
    "itself": lambda t: t,
    "turned": lambda t: t.t(),
    "columns": lambda t: t[:, 3:],
    "rows": lambda t: t[1:],
    "every second": lambda t: t[::2],
    "a column": lambda t: t[:, 1],
    "a chunk": lambda t: t.chunk(2, 1)[1],
    "one of a list": lambda t: t.unbind(0)[2],
    "flat": lambda t: t.view(-1)[5:],
    "an image": lambda t: t.view(1, 4, 3, 2).permute(0, 3, 1, 2),
    "a diagonal": lambda t: t.diagonal(),
}
SIZES = ((4, 3), (6, 4), (4, 6), (2, 2), (3,), (1, 2, 2, 2), (1, 4, 3, 2), (0, 3), ())
KINDS: dict[str, Callable[[Any, tuple[int, ...]], Any]] = {
    "resize_": lambda v, size: v.resize_(size),
    "resize_as_": lambda v, size: v.resize_as_(torch.empty(size)),
    "resize_as_ turned": lambda v, size: v.resize_as_(torch.empty(size[::-1]).permute(tuple(reversed(range(len(size)))))),
    "channels_last": lambda v, size: v.resize_(size, memory_format=torch.channels_last if len(size) == 4 else None),
}


def fits(view: Callable[[Any], Any], size: tuple[int, ...]) -> bool:
    v = view(torch.empty(4, 6))
    return v.storage_offset() + torch.Size(size).numel() <= 24


def cases() -> list[tuple[str, str, tuple[int, ...]]]:
    """Those that stay within the memory of [4, 6]."""
    found = [(n, k, s) for n, k, s in itertools.product(VIEWS, KINDS, SIZES) if fits(VIEWS[n], s)]
    random.Random(3).shuffle(found)
    return found


@pytest.mark.parametrize("where", ["clone", "argument", "buffer"])
@pytest.mark.parametrize("part", range(3))
def test_within_memory(where: str, part: int) -> None:
    """Many at once, each of a tensor of its own: the view, what is written through it, and the tensor that it is one of."""
    chosen = cases()[part::3][:40]
    if where == "argument":  # torch.export does not trace that an argument itself gets another rank
        chosen = [case for case in chosen if case[0] != "itself" or len(case[2]) == 2]
    if where == "buffer":  # a buffer itself keeps its shape
        chosen = [case for case in chosen if case[0] != "itself"]

    def resized(t: Any, name: str, kind: str, size: tuple[int, ...]) -> Any:
        v = VIEWS[name](t)
        other = VIEWS[name](t)
        KINDS[kind](v, size)
        before = v * 1
        v.add_(1)
        return before, v * 1, t * 1, other * 1

    def of_clones(x: Any) -> Any:
        return [resized(x.clone(), *case) for case in chosen]

    if where == "clone":
        model, eager, given = Calls(of_clones), Calls(of_clones), (torch.arange(24.0).reshape(4, 6),)
    elif where == "argument":
        given = tuple(torch.arange(24.0).reshape(4, 6) + i for i in range(len(chosen)))
        model = Calls(lambda *xs: [resized(x, *case) for x, case in zip(xs, chosen, strict=True)])
        eager = model
    else:
        buffers = {f"b{i}": torch.arange(24.0).reshape(4, 6) + i for i in range(len(chosen))}

        def of_buffers(self: Any, x: Any) -> Any:
            return [resized(getattr(self, f"b{i}"), *case) for i, case in enumerate(chosen)]

        given = (torch.zeros(()),)
        model = CallsWithSelf(of_buffers, **buffers)
        eager = CallsWithSelf(of_buffers, **{name: value.clone() for name, value in buffers.items()})
    session = npusim.Session(npusim.compile(model, tuple(value.clone() for value in given), dtype="float32"))
    for _ in range(2):
        found = session.run(*(value.clone() for value in given))
        expected = torch.utils._pytree.tree_leaves(eager(*(value.clone() for value in given)))
        got = [value for name, value in found.items() if not name.endswith("_next")]
        for i, (one, want) in enumerate(zip(got, expected, strict=True)):
            assert np.array_equal(one, want.numpy()), (chosen[i // 4], i % 4)


def enlarged(x: Any) -> Any:
    y = x.clone().t()
    y.resize_(5, 7).view(-1)[24:].fill_(9)
    z = x.t().clone()[1:]
    z.resize_(8, 4).view(-1)[18:].zero_()
    w = torch.empty(0).resize_(3, 4).fill_(1)
    w.resize_(2, 2).mul_(3)
    return y * 1, z, w.resize_(3, 4)


def test_more_than_memory() -> None:
    x = torch.arange(24.0).reshape(4, 6)
    found = npusim.Session(npusim.compile(Calls(enlarged), (x,), dtype="float32")).run(x)
    for got, want in zip(found.values(), enlarged(x), strict=True):
        assert np.array_equal(got, want.numpy())


def shown_elsewhere(x: Any) -> Any:
    y = x.clone()
    v = y[1]
    y.resize_(6, 6).fill_(2)
    return v + 1


def turned_in_place(x: Any) -> Any:
    return (x.t_(), x.resize_(6, 4))[1]


def test_turned_in_place() -> None:
    x = torch.arange(24.0).reshape(4, 6)
    found = npusim.Session(npusim.compile(Calls(turned_in_place), (x.clone(),), dtype="float32")).run(x)
    assert np.array_equal(found["output"], turned_in_place(x.clone()).numpy())


@pytest.mark.parametrize(
    "function, message",
    [
        (lambda x: x.resize_(8, 4) * 1, "makes 'args_0' larger than the 24 elements.*what helps: resize_ of a clone"),
        (shown_elsewhere, "makes memory larger that 'select.*' shows too.*what helps: resize_ of a clone"),
        (lambda x: x.clone().view(torch.int32).resize_(2, 3) * 1, "what helps: clone"),
    ],
)
def test_refused(function: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(npusim.UnsupportedError, match=message):
        npusim.export(Calls(function), (torch.zeros(4, 6),))


def test_an_argument_that_is_not_row_major_is_named():
    """PyTorch's decompositions do not take it."""
    for x in (torch.randn(4, 6).t(), torch.randn(4, 6)[:, 1:3]):
        with pytest.raises(npusim.UnsupportedError, match="resizes argument 'args_0', which is not row-major"):
            npusim.compile(Calls(lambda x: x.resize_(2, 4) * 2), (x,))
