"""Writes through windows, and views that the order of memory decides on behind writes, as in eager PyTorch."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import npusim
import numpy as np
import pytest

torch = pytest.importorskip("torch")

WRITES: dict[str, Callable[[Any], Any]] = {
    "mul_": lambda t: t.mul_(2),
    "add_": lambda t: t.add_(1),
    "fill_": lambda t: t.fill_(7),
    "masked_fill_": lambda t: t.masked_fill_(t > 0, 3),
    "part": lambda t: t[..., 0].mul_(5),
    "one of a list": lambda t: t.unbind(-1)[0].mul_(5),
}
# Of these the functional form gives another order of memory.
MOVES: dict[str, Callable[[Any], Any]] = {
    "cumsum_": lambda t: t.cumsum_(1),
    "tril_": lambda t: t.tril_(),
    "masked_fill_": lambda t: t.masked_fill_(t > 0, 1),
    "mask": lambda t: t.__setitem__(t > 0, 0),
    "mul_": lambda t: t.mul_(2),
    "copy_": lambda t: t.copy_(torch.cumsum(t.contiguous(), 0)),
}
VIEWS: dict[str, Callable[[Any], Any]] = {
    "reshape": lambda t: t.t().reshape(-1)[:2].fill_(9),
    "flatten": lambda t: t.t().flatten().add_(1),
    "contiguous": lambda t: t.t().contiguous().mul_(3),
    "as_strided": lambda t: t.as_strided((3, 3), (5, 1)).add_(1),
}


class Calls(torch.nn.Module):
    def __init__(self, function: Callable[..., Any], buffer: Any) -> None:
        super().__init__()
        self.function = function
        self.register_buffer("b", buffer)

    def forward(self, x: Any) -> Any:
        return self.function(self, x)


def check(function: Callable[..., Any], x: Any, buffer: Any = None) -> None:
    """Three runs of the program and of eager PyTorch: the result and what is written."""
    model = Calls(function, buffer)
    eager = copy.deepcopy(model)
    eager.b = None if buffer is None else torch.empty_strided(buffer.shape, buffer.stride()).copy_(buffer)
    run = npusim.Session(npusim.compile(model, (x,), dtype="float32"))
    for _ in range(3):
        given = torch.empty_strided(x.shape, x.stride()).copy_(torch.randn(x.shape))
        found = run.run(given.clone())
        assert np.allclose(found["output"], eager(given), atol=1e-5)
        if "x_next" in found:
            assert np.allclose(found["x_next"], given, atol=1e-5)


def on(where: str, function: Callable[[Any], Any]) -> Callable[..., Any]:
    """Of an argument, a copy of it, or a buffer: what is written, read as a whole."""

    def of(model: Any, x: Any) -> Any:
        t = model.b if where == "buffer" else x if where == "argument" else x.clone()
        function(t)
        return t + 1

    return of


@pytest.mark.parametrize("where", ["argument", "clone", "buffer"])
@pytest.mark.parametrize("write", WRITES)
def test_what_is_in_no_window_stays(where: str, write: str) -> None:
    for shape in ((8,), (7,), (3, 5), (2, 4, 6)):
        for size in (1, 2, 3):
            for step in range(size, 4):
                x = torch.randn(shape)
                function = on(where, lambda t: WRITES[write](t.unfold(-1, size, step)))
                check(function, x, torch.randn(shape) if where == "buffer" else None)


# Views that show elements more than once, and parts of them that show each once.
OVERLAPPING: dict[str, Callable[[Any], Any]] = {
    "unfold": lambda t: t.unfold(1, 3, 1),
    "two": lambda t: t.unfold(0, 2, 1).unfold(1, 3, 2),
    "as_strided": lambda t: t.as_strided((3, 4), (1, 1), 2),
    "turned": lambda t: t.unfold(1, 2, 1).permute(2, 0, 1),
    "expand": lambda t: t.unsqueeze(2).expand(4, 6, 3),
}
PARTS: dict[str, Callable[[Any], Any]] = {
    "first": lambda w: w[..., 0],
    "last window": lambda w: w.select(1, -1),
    "one": lambda w: w[1:2].select(1, 1),
    "element": lambda w: w.flatten()[-1:] if w.is_contiguous() else w[(-1,) * w.dim()],
    "of a list": lambda w: w.unbind(-1)[1],
    "parts of a part": lambda w: w[..., 1].narrow(0, 0, 2)[1],
}


@pytest.mark.parametrize("where", ["argument", "clone", "buffer"])
@pytest.mark.parametrize("windows", OVERLAPPING)
def test_parts_of_windows_that_overlap(where: str, windows: str) -> None:
    for i, part in enumerate(PARTS.values()):
        x = torch.randn(6, 4).t() if i % 2 else torch.randn(4, 6)

        def function(t: Any, part: Any = part) -> None:
            part(OVERLAPPING[windows](t)).mul_(3)
            part(OVERLAPPING[windows](t.mul_(2))).add_(t[0, 0] * 1)

        try:
            check(on(where, function), x, x.clone() if where == "buffer" else None)
        except npusim.UnsupportedError as error:
            assert "view that shows an element more than once" in str(error), error
            shown = part(OVERLAPPING[windows](torch.arange(24.0).reshape(4, 6)))
            assert shown.unique().numel() < shown.numel(), (windows, error)


@pytest.mark.parametrize("where", ["argument", "clone", "buffer"])
@pytest.mark.parametrize("view", VIEWS)
def test_views_behind_writes(where: str, view: str) -> None:
    for shape, write in zip([(4, 4), (3, 4), (5, 3)] * 2, MOVES, strict=True):
        if view == "as_strided" and shape != (4, 4):
            shape = (4, 4)
        x = torch.randn(shape[::-1]).t()

        def function(t: Any, write: str = write) -> None:
            MOVES[write](t)
            VIEWS[view](t)

        check(on(where, function), x, torch.randn(shape[::-1]).t() if where == "buffer" else None)


@pytest.mark.parametrize("view", [*VIEWS, "unfold"])
def test_in_torch_compile(view: str) -> None:
    def function(x: Any) -> Any:
        a = x * 1
        a.cumsum_(1)
        a.unfold(1, 2, 3).mul_(2) if view == "unfold" else VIEWS[view](a)
        return a + 1

    x = torch.randn(4, 4).t()
    compiled = torch.compile(function, backend="npusim")
    with torch.no_grad():
        for _ in range(2):
            assert torch.allclose(compiled(x), function(x), atol=1e-4)


def view_of_out(model: Any, x: Any) -> Any:
    return torch.mul(x, 2, out=torch.empty(4, 4)).view(16) + 1


def flat_out(model: Any, x: Any) -> Any:
    e = torch.empty(4, 4)
    torch.exp(x, out=e)
    e.flatten().add_(1)
    return e * 1


def view_of_buffer(model: Any, x: Any) -> Any:
    torch.mul(x, 2, out=model.b)
    return model.b.view(16) + 1


def two_outs(model: Any, x: Any) -> Any:
    values, places = torch.empty(2, 4).t(), torch.empty(2, 4, dtype=torch.int64).t()
    torch.topk(x, 2, 1, out=(values, places))
    values.t().reshape(-1).mul_(3)
    return values + places


@pytest.mark.parametrize("function", [view_of_out, flat_out, view_of_buffer, two_outs])
def test_out_keeps_its_order(function: Callable[..., Any]) -> None:
    for x in (torch.randn(4, 4).t(), torch.randn(4, 4)):
        check(function, x, torch.ones(4, 4))


ADDRESSED: dict[str, Callable[[Any], Any]] = {
    "a part": lambda t: t[1:].as_strided((2, 2), (2, 1)),
    "turned": lambda t: t.t().as_strided((2, 2), (2, 1)),
    "flat": lambda t: t.view(-1).as_strided((2, 2), (2, 1), 3),
    "addressed": lambda t: t[1:].as_strided((3,), (4,)).as_strided((2,), (1,)),
    "written": lambda t: t.mul_(2)[1:].mul_(2).as_strided((2, 2), (3, 1)).t(),
    "a list": lambda t: t.unbind(1)[1].as_strided((2,), (4,)),
}


@pytest.mark.parametrize("where", ["made", "input", "buffer"])
@pytest.mark.parametrize("view", ADDRESSED)
def test_what_is_addressed_through_views(where: str, view: str) -> None:
    """as_strided reads and writes memory, whatever the view that it is called of."""

    def function(model: Any, x: Any) -> Any:
        t = {"made": x + 1, "input": x, "buffer": model.b}[where]
        ADDRESSED[view](t).add_(3)
        return torch.cat([t.flatten(), ADDRESSED[view](t).flatten() - x[0, 0]])

    check(function, torch.randn(4, 5), torch.randn(4, 5))


def test_an_order_that_only_eager_pytorch_knows() -> None:
    """The tracer takes what out= has become of another shape for row-major."""

    def copied(model: Any, x: Any) -> Any:
        out = torch.add(x.t(), 1, out=torch.empty(0))
        out.contiguous().mul_(2)
        return out

    with pytest.raises(npusim.UnsupportedError, match="gives a tensor that is written, .* out= has .0., the result .4, 3."):
        npusim.export(Calls(copied, None), (torch.randn(3, 4),))
    check(lambda model, x: torch.add(x.t(), 1, out=torch.empty(0)) * 2, torch.randn(3, 4))
    check(lambda model, x: torch.add(x, 1, out=torch.empty(0)).mul_(2), torch.randn(3, 4))


OUTGROWN: dict[str, Callable[[Any, Any], Any]] = {
    "matmul": lambda x, o: torch.matmul(x, x, out=o),
    "multi_dot": lambda x, o: torch.linalg.multi_dot([x, x, x], out=o),
    "chain_matmul": lambda x, o: torch.chain_matmul(x, x, out=o),
    "inner": lambda x, o: torch.inner(x, x, out=o),
    "norm": lambda x, o: torch.linalg.norm(x, out=o),
    "kron": lambda x, o: torch.kron(x, x, out=o),
    "matrix_power": lambda x, o: torch.linalg.matrix_power(x, 3, out=o),
    "mm": lambda x, o: torch.mm(x, x, out=o),
    "cat": lambda x, o: torch.cat([x, x], out=o),
}


@pytest.mark.parametrize("size", [(0,), (1, 1), None])
@pytest.mark.parametrize("kind", OUTGROWN)
def test_out_becomes_as_large_as_the_result(kind: str, size: Any) -> None:
    shape = OUTGROWN[kind](torch.randn(3, 3), torch.empty(0)).shape if size is None else size

    def function(model: Any, x: Any) -> Any:
        out = torch.zeros(shape)
        OUTGROWN[kind](x, out)
        out.mul_(2)
        return out + 1

    check(function, torch.randn(3, 3))


INDEX = torch.tensor([1])
# What writes at indices into [2, 4, 3]; the sources are in no order that IR knows.
AT_INDICES: dict[str, Callable[[Any, Any], Any]] = {
    "index_copy_": lambda k, x: k.index_copy_(1, INDEX, x[:2, None, :3]),
    "index_copy_ turned": lambda k, x: k.index_copy_(1, INDEX, x.t()[:2, None, :3]),
    "index_add_": lambda k, x: k.index_add_(1, INDEX, x.t()[:2, None, :3]),
    "index_put_": lambda k, x: k.index_put_((torch.tensor([0, 1]), INDEX), x.t()[:2, :3]),
    "at an index": lambda k, x: k.__setitem__((slice(None), INDEX), x.t()[:2, None, :3]),
    "at a column of indices": lambda k, x: k.__setitem__((x[:2, 1].long() * 0, INDEX), x.t()[:2, :3]),
    "scatter_": lambda k, x: k.scatter_(1, torch.zeros(2, 1, 3, dtype=torch.int64), x.t()[:2, None, :3]),
    "index_reduce_": lambda k, x: k.index_reduce_(1, INDEX, x.t()[:2, None, :3], "amax"),
    "masked_fill_": lambda k, x: k.masked_fill_(x.t()[:2, None, :3] > 0, 3.0),
    "lerp_": lambda k, x: k.lerp_(x.t()[:2, None, :3].expand(2, 4, 3), 0.5),
    "twice": lambda k, x: k.index_copy_(1, INDEX, x[:2, None, :3]).index_copy_(1, INDEX + 1, x.t()[:2, None, :3]),
}


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("where", ["argument", "clone", "buffer"])
@pytest.mark.parametrize("write", AT_INDICES)
def test_writes_at_indices_keep_the_order(write: str, where: str, turned: bool) -> None:
    """In place, so that what is written next is found."""
    memory = torch.empty(3, 4, 2).permute(2, 1, 0) if turned else torch.empty(2, 4, 3)

    def of(model: Any, x: Any) -> Any:
        source = x if where == "buffer" else model.source
        k = model.b if where == "buffer" else x if where == "argument" else torch.empty_like(x).copy_(x)
        AT_INDICES[write](k, source)
        (k.permute(2, 1, 0) if turned else k).view(-1)[3:5].fill_(7.0)
        return k + 1

    torch.manual_seed(0)
    if where == "buffer":
        check(of, torch.randn(4, 6), torch.empty_strided(memory.shape, memory.stride()).normal_())
        return
    model = Calls(of, None)
    model.register_buffer("source", torch.randn(4, 6))
    given = torch.empty_strided(memory.shape, memory.stride()).normal_()
    session = npusim.Session(npusim.compile(model, (given,), dtype="float32"))
    expected = of(model, torch.empty_strided(memory.shape, memory.stride()).copy_(given))
    assert np.allclose(session.run(given.clone())["output"], expected, atol=1e-5)
