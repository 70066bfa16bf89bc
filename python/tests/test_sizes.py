"""Sizes and branches that depend on values: right for the example's, refused by the run for others."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import npusim

REFUSED = "an assertion does not hold"


class Module(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor, m: torch.Tensor) -> Any:
        return self.function(x, m)


def export(function: Callable[..., Any], *args: torch.Tensor) -> npusim.Exported:
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        return npusim.export(Module(function), args)


def check(exported: npusim.Exported, function: Callable[..., Any], *args: torch.Tensor, bar: float = 1e-6) -> None:
    """The program gives what the function does."""
    session = npusim.Session(npusim.compile(exported, dtype="float32"), exported.weights)
    found = session.run({name: arg.numpy() for name, arg in zip(("x", "m"), args)})
    expected = torch.utils._pytree.tree_leaves(function(*(arg.clone() for arg in args)))
    assert len(found) == len(expected)
    for value, other in zip(found.values(), expected):
        assert np.asarray(value).dtype == other.numpy().dtype
        np.testing.assert_allclose(np.asarray(value), other.numpy(), rtol=bar, atol=bar)


def values(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(seed)
    return torch.randn(5, 4), torch.tensor([True, False, True, True, False])


def put_reversed(x: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[m] = x[m].flip(0)
    return y


def changed_mask(x: torch.Tensor, m: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x[m], m.logical_not_()


def changed_numbers(x: torch.Tensor) -> torch.Tensor:
    most = x.max().item()
    return x.mul_(2) * most


SOURCES: dict[str, Callable[..., Any]] = {
    "mask": lambda x, m: x[m],
    "mask of a later dimension": lambda x, m: x.t()[:, m],
    "mask beside an index": lambda x, m: x[m][:, [2, 0]],
    "mask of two dimensions": lambda x, m: x[(x > 0) & m.unsqueeze(1)],
    "mask that is changed afterwards": lambda x, m: changed_mask(x, m.clone()),
    "mask without dimensions": lambda x, m: x[m.any()],
    "put": put_reversed,
    "nonzero": lambda x, m: m.nonzero(),
    "nonzero of numbers": lambda x, m: (x * m.unsqueeze(1)).nonzero(),
    "argwhere": lambda x, m: torch.argwhere(x * m.unsqueeze(1)),
    "nonzero as columns": lambda x, m: torch.where(x > 0),
    "nonzero of one": lambda x, m: (m.nonzero().sum() + torch.zeros(1), m.any().nonzero()),
    "masked_select": lambda x, m: torch.masked_select(x, m.unsqueeze(1)),
    "masked_select of a row": lambda x, m: torch.masked_select(x[0], m.unsqueeze(1)),
    "masked_select of what is chosen": lambda x, m: torch.masked_select(x[m][:, 0], m.unsqueeze(1)),
    "unique": lambda x, m: torch.unique(x.round(), return_inverse=True, return_counts=True),
    "unique_consecutive": lambda x, m: torch.unique_consecutive(m, return_inverse=True, return_counts=True),
    "repeat_interleave": lambda x, m: torch.repeat_interleave(x, m.long() + 1, dim=0),
    "repeat_interleave of places": lambda x, m: torch.repeat_interleave(m.long() * 2),
    "bincount": lambda x, m: torch.bincount(m.long() * 3),
    "bincount of weights": lambda x, m: torch.bincount(m.long() * 2, x[:, 0].double()),
    "one_hot, minus one": lambda x, m: torch.nn.functional.one_hot(m.long() * 3, num_classes=-1),
    "one_hot": lambda x, m: torch.nn.functional.one_hot(m.long() * 3),
    "computed on": lambda x, m: torch.cat([x[m].cumsum(0), x[~m]]).softmax(0),
    "size alone": lambda x, m: x[: m.nonzero().shape[0]] * 1,
    "extent": lambda x, m: torch.arange(int(m.sum().item())) + torch.zeros(1, dtype=torch.int64),
}


@pytest.mark.parametrize("name", SOURCES)
def test_sizes_of_the_example(name: str) -> None:
    function, (x, m) = SOURCES[name], values()
    exported = export(function, x.clone(), m.clone())
    assert exported.made_for
    check(exported, function, x, m)
    if "one" not in name and "without" not in name:
        more = torch.ones_like(m) if "consecutive" not in name else m.flip(0).logical_xor(m)
        changed = {"unique": x * 7, "nonzero as columns": x.abs()}.get(name, x)
        if name in ("bincount", "bincount of weights", "one_hot", "one_hot, minus one"):
            more = torch.zeros_like(m)
        with pytest.raises(npusim.BadInputError, match=REFUSED):
            check(exported, function, changed, more)


@pytest.mark.parametrize("count", [0, 1, 5])
@pytest.mark.parametrize("name", ["mask", "nonzero", "masked_select", "put", "repeat_interleave of places"])
def test_none_one_and_all(name: str, count: int) -> None:
    x, _ = values()
    m = torch.arange(5) < count
    exported = export(lambda x, m: (SOURCES[name](x, m), x + 1), x.clone(), m.clone())
    check(exported, lambda x, m: (SOURCES[name](x, m), x + 1), x, m)
    if count < 5:
        with pytest.raises(npusim.BadInputError, match=REFUSED):
            check(exported, lambda x, m: (SOURCES[name](x, m), x + 1), x, torch.ones_like(m))


WITHOUT_ELEMENTS = {
    "nonzero": lambda x: x.nonzero(),
    "argwhere": lambda x: torch.argwhere(x.t()),
    "nonzero as columns": lambda x: x.nonzero(as_tuple=True),
    "where": lambda x: torch.where(x > 0),
    "unique": lambda x: torch.unique(x, return_inverse=True, return_counts=True),
    "unique alone": lambda x: x.unique(),
    "unique rows": lambda x: torch.unique(x, dim=0),
    "unique_consecutive": lambda x: torch.unique_consecutive(x, return_counts=True),
    "mask": lambda x: x[x > 0],
    "mask of rows": lambda x: x[x[:, 0] > 0] * 2,
    "mask of a later dimension": lambda x: x.t()[:, x[:, 0] > 0],
    "bincount": lambda x: torch.bincount(x[:, 0].long()),
    "put": lambda x: x.index_put((x > 0,), x[x > 0] * 2),
}


@pytest.mark.parametrize("name", WITHOUT_ELEMENTS)
def test_sizes_of_what_has_no_elements(name: str) -> None:
    """No value decides them."""
    def call(x: torch.Tensor, m: torch.Tensor) -> Any:
        return WITHOUT_ELEMENTS[name](x), x.sum(0) + 1, m + 1

    for x in (torch.zeros(0, 3), torch.zeros(0, 1)):
        exported = export(call, x, torch.zeros(2))
        assert not exported.made_for
        check(exported, call, x, torch.ones(2))


def test_other_rows_of_the_same_number() -> None:
    x, m = values()
    exported = export(SOURCES["mask"], x, m)
    check(exported, SOURCES["mask"], -x, m.flip(0))


def branches(x: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
    if x.max().item() > 1 and not m.all():
        x = x + 1
    return x * 2 if m.sum().item() % 2 else x


def test_branches_of_the_example() -> None:
    x, m = values()
    x[0, 0] = 1.5
    exported = export(branches, x, m)
    assert len(exported.made_for) == 3
    check(exported, branches, x * 1.5, m.flip(0))
    for other in ((x * 0.1, m), (x, torch.ones_like(m)), (x, torch.arange(5) < 2)):
        with pytest.raises(npusim.BadInputError, match="node item.*_branch.*" + REFUSED):
            check(exported, branches, *other)


NUMBERS: dict[str, Callable[..., Any]] = {
    "divided": lambda x, m: x / x.max().item(),
    "of an integer": lambda x, m: x * m.sum().item(),
    "of integers and a real": lambda x, m: m.long() * x.max().item(),
    "of a half": lambda x, m: (x.half() * x.max().item()).float(),
    "of one half": lambda x, m: (x.half().sum() * x.max().item()).float(),
    "of truth": lambda x, m: m + m.sum().item(),
    "truth": lambda x, m: x + m.all().item(),
    "computed with": lambda x, m: x - (x.max().item() + x.min().item()) / 2,
    "compared": lambda x, m: x > x.mean().item(),
    "clamped": lambda x, m: x.clamp(x.median().item(), 1.0),
    "filled": lambda x, m: x.masked_fill(m.unsqueeze(1), x.min().item()),
    "power": lambda x, m: x.abs() ** m.sum().item(),
    "full": lambda x, m: torch.full((2, 3), x.max().item()) + x[:2, :3],
    "before a change": lambda x, m: changed_numbers(x.clone()),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_that_decide_nothing_are_tensors(name: str) -> None:
    function = NUMBERS[name]
    exported = export(function, *values())
    assert not exported.made_for
    bar = 2e-3 if "half" in name else 1e-6  # it is computed in float32
    check(exported, function, *values(), bar=bar)
    check(exported, function, values(1)[0], torch.tensor([True, False, False, False, True]), bar=bar)


def test_a_warning_names_what_it_is_made_for() -> None:
    with pytest.warns(UserWarning, match=r"index \(aten.index.Tensor\): 3"):
        npusim.export(Module(SOURCES["mask"]), values())


def test_an_exported_program_has_its_example() -> None:
    x, m = values()
    exported = npusim.export(torch.export.export(Module(SOURCES["computed on"]), (x, m)))
    assert len(exported.made_for) == 2
    check(exported, SOURCES["computed on"], x, m)


def test_nothing_to_hold_the_check() -> None:
    with pytest.raises(npusim.UnsupportedError, match="no output has elements"):
        export(lambda x, m: x[m], torch.randn(5, 4), torch.zeros(5, dtype=torch.bool))


ALONG: dict[str, Callable[..., Any]] = {
    "rows": lambda x, m: torch.unique(x, dim=0, return_inverse=True, return_counts=True),
    "columns": lambda x, m: torch.unique(x, dim=-1, return_inverse=True, return_counts=True),
    "middle": lambda x, m: torch.unique(x.reshape(2, 6, 3), dim=1, return_inverse=True)[1],
    "whole numbers": lambda x, m: torch.unique(x.long(), dim=0),
    "truth": lambda x, m: torch.unique(x > 0, dim=1, return_counts=True),
    "consecutive rows": lambda x, m: torch.unique_consecutive(x, return_inverse=True, return_counts=True, dim=0),
    "consecutive columns": lambda x, m: torch.unique_consecutive(x, return_counts=True, dim=1),
    "of one dimension": lambda x, m: torch.unique(x[:, 0], dim=0, return_inverse=True, return_counts=True),
    "a branch": lambda x, m: branch_of_rows(x, m),
}


@pytest.mark.parametrize("name", ALONG)
def test_unique_along_a_dimension(name: str) -> None:
    torch.manual_seed(3)
    x, m = torch.randint(0, 2, (12, 3)).float(), torch.ones(5, dtype=torch.bool)
    x = torch.cat([x[:4], x[3:11]])
    exported = export(lambda x, m: (ALONG[name](x, m), x + m.sum()), x, m)
    check(exported, lambda x, m: (ALONG[name](x, m), x + m.sum()), x, m)
    if "consecutive" not in name:
        check(exported, lambda x, m: (ALONG[name](x, m), x + m.sum()), 1 - x, m)  # as many, in another order
    with pytest.raises(npusim.BadInputError, match=REFUSED):
        check(exported, lambda x, m: (ALONG[name](x, m), x + m.sum()), x * 0, m)


def test_unique_along_a_dimension_of_one() -> None:
    function = lambda x, m: torch.unique(x, dim=0, return_inverse=True, return_counts=True)
    exported = export(function, torch.randn(1, 3), torch.ones(2))
    check(exported, function, torch.randn(1, 3), torch.ones(2))


def boxes(seed: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(seed)
    corner = torch.rand(count, 2) * 3
    return torch.cat([corner, corner + 0.5 + torch.rand(count, 2)], 1), torch.rand(count)


def suppressed(x: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
    return pytest.importorskip("torchvision").ops.nms(x, m, 0.3)


def suppressed_by_class(x: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
    kept = pytest.importorskip("torchvision").ops.batched_nms(x, m, (m * 1e3).long() % 3, 0.4)
    return x[kept], m[kept]


@pytest.mark.parametrize("function", [suppressed, suppressed_by_class])
def test_boxes_that_overlap_a_better_one(function: Callable[..., Any]) -> None:
    by_count: dict[int, list[Any]] = {}
    for seed in range(40):
        found = function(*boxes(seed, 20))
        by_count.setdefault(len(found if isinstance(found, torch.Tensor) else found[0]), []).append(boxes(seed, 20))
    (first, second, *_), (other, *_) = sorted(by_count.values(), key=len, reverse=True)[:2]
    exported = export(function, *first)
    assert exported.made_for
    check(exported, function, *first)
    check(exported, function, *second)
    with pytest.raises(npusim.BadInputError, match=REFUSED):
        check(exported, function, *other)


def test_a_chain_of_boxes_that_is_too_long_is_refused() -> None:
    """Each overlaps the next one more than the threshold says: every other is kept, and each says so to the next."""

    def chain(count: int) -> tuple[torch.Tensor, torch.Tensor]:
        at = torch.arange(80) * 1.0
        at[count:] = at[count:] * 9 + 1000  # these overlap nothing
        return torch.stack([at, at * 0, at + 2, at * 0 + 1], 1), 1 - torch.arange(80) / 100

    exported = export(suppressed, *chain(31))
    assert len(suppressed(*chain(31))) == 80 - 15
    check(exported, suppressed, *chain(31))
    boxes, scores = chain(60)
    exported = export(suppressed, boxes, scores)
    with pytest.raises(npusim.BadInputError, match=REFUSED):
        check(exported, suppressed, boxes, scores)


def packed(x: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
    return torch._pack_padded_sequence(x.unsqueeze(-1), m.sum().expand(5), True)[1]


def test_a_size_that_has_no_form_is_refused_by_name() -> None:
    with pytest.raises(npusim.UnsupportedError, match="'pack_padded_sequence': its lengths are not known"):
        export(packed, *values())


def branch_of_rows(x: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
    return x + 1 if torch.unique(x, dim=0).shape[0] > 3 else x


def branch_of_packed(x: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
    return x + 1 if packed(x, m).shape[0] > 3 else x


def within_a_body(x: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cuda", enabled=False):
        return branches(x, m)


def test_branches_in_a_body_are_checked() -> None:
    x, m = values()
    x[0, 0] = 1.5
    exported = export(within_a_body, x, m)
    assert len(exported.made_for) == 3
    check(exported, within_a_body, x * 1.5, m.flip(0))
    with pytest.raises(npusim.BadInputError, match=REFUSED):
        check(exported, within_a_body, x * 0.1, m)


def test_a_branch_that_has_no_check_is_refused() -> None:
    with pytest.raises(Exception, match="data-dependent|decides a branch|its lengths are not known"):
        export(branch_of_packed, *values())


TURNS = {
    "t_": lambda x: x.t_(),
    "transpose_": lambda x: x.transpose_(0, -1),
    "swapdims_": lambda x: x.swapdims_(-1, 0),
    "swapaxes_": lambda x: x.swapaxes_(0, 1),
    "resize_": lambda x: x.resize_(x.shape[::-1]),
    "as_strided_": lambda x: x.as_strided_(x.shape[::-1], (1, x.shape[-1])),
    "twice": lambda x: x.t_().mul_(2).t_(),
}


@pytest.mark.parametrize("name", TURNS)
def test_what_is_turned_in_place_beside_a_branch(name: str) -> None:
    def turned(x: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
        if x.max() > 1e9:
            return x + 1
        TURNS[name](x)
        if x.sum() > 1e9:
            return x + 1
        return x * 2 + x.shape[0]

    for shape in ((3, 4), (1, 4), (4, 1)):
        x = torch.randn(shape)
        exported = export(turned, x.clone(), values()[1])
        session = npusim.Session(npusim.compile(exported, dtype="float32"))
        expected = turned(x.clone(), values()[1]).numpy()
        np.testing.assert_allclose(session.run(x, values()[1])["output"], expected, rtol=1e-6)
        with pytest.raises(npusim.Error, match=REFUSED):
            session.run(x + 2e9, values()[1])


WRITTEN = {
    **{name: lambda y, name=name: getattr(y, name)() for name in "square_ neg_ negative_ exp_ sinc_ reciprocal_".split()},
    "clip_": lambda y: y.clip_(0, 1.25),
    "multiply_": lambda y: y.multiply_(2),
    "leaky_relu": lambda y: torch.nn.functional.leaky_relu(y.mul_(-1), 0.3, inplace=True),
    "mish": lambda y: torch.nn.functional.mish(y, inplace=True),
    "addmm_": lambda y: y.addmm_(y, torch.eye(4)),
    "out=": lambda y: torch.square(y, out=y),
    "xlogy_": lambda y: y.xlogy_(torch.tensor(2.0)),
    "of a view": lambda y: y.t().square_(),
}


@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.parametrize("name", WRITTEN)
def test_what_is_written_before_a_branch_is_written_once(name: str, rows: bool) -> None:
    """By the tracer, too, which follows the numbers of the example."""

    def written(x: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
        y = x[m] if rows else x.clone()
        if x.max() > 1e9:
            return x
        WRITTEN[name](y)
        return torch.zeros(int(y.flatten()[0].item() * 1000) % 7 + 1) + y.sum()

    x, m = torch.full((3, 4), 1.5), torch.tensor([True, False, True])
    check(export(written, x, m), written, x, m)


def written_over(x: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[:] = row
    return y


BROADCAST = {
    "add": lambda x, row: x + row,
    "add_": lambda x, row: x.clone().add_(row),
    "where": lambda x, row: torch.where(x > 0, row, x),
    "expand": lambda x, row: row.expand(3, 4),
    "broadcast_to": lambda x, row: torch.broadcast_to(row, (3, 4)) * 2,
    "lerp": lambda x, row: torch.lerp(x, row, 0.5),
    "a batch": lambda x, row: (x[:, None] + row[None]).sum(1),
    "two": lambda x, row: row + x[x[:, 0] < 2],
    "copy_": written_over,
}
ONE = {
    "a mask": lambda x: x[x[:, 0] > 2],
    "its places": lambda x: x[(x[:, 0] > 2).nonzero()[:, 0]],
    "an element": lambda x: torch.masked_select(x, x > 6).float(),
    "a number": lambda x: x[: (x[:, 0] > 2).sum().item()],
}


@pytest.mark.parametrize("one", ONE)
@pytest.mark.parametrize("name", BROADCAST)
def test_one_that_is_broadcast(name: str, one: str) -> None:
    def broadcast(x: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
        return BROADCAST[name](x, ONE[one](x))

    x, m = torch.zeros(3, 4), torch.ones(2)
    x[1] = torch.tensor([5.0, 4, 7, 3])
    exported = export(broadcast, x, m)
    for other in (x, x[[1, 2, 0]].contiguous()):
        check(exported, broadcast, other, m)
    session = npusim.Session(npusim.compile(exported, dtype="float32"))
    with pytest.raises(npusim.Error, match=REFUSED):
        session.run(x[[1, 1, 0]].contiguous(), m)


def test_a_program_that_was_traced_for_more_than_one() -> None:
    x, m = torch.zeros(3, 4), torch.ones(2)
    x[1] = 5
    traced = torch.export.export(Module(lambda x, m: x + x[x[:, 0] > 2]), (x, m))
    with pytest.raises(npusim.UnsupportedError, match="traced as if .*what helps is npusim.export of the module"):
        npusim.export(traced)
