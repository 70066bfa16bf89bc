"""Writes through masks, whose values are chosen by the same mask."""

import npusim
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from modules import Calls


def put(x, m, y):
    x[m] = y[m]
    return x


def add(x, m, y):
    x[m] += y[m]
    return x


def computed(x, m, y):
    x[m] = torch.exp(y[m]) * 2 + x[m].double().float()
    return x


def computed_mask(x, m, y):
    x[x > 0] = -x[x > 0]
    x[~m] = y[~m]
    return x


def rows(x, m, y):
    x[m[:, 0]] = y[m[:, 0]] / 3
    x[:, m[0]] = y[:, m[0]]
    return x


def views(x, m, y):
    x[..., 1:][m[..., 1:]] = y[..., 1:][m[..., 1:]]
    return x


def views_behind_it(x, m, y):
    x[m] = y[m] - 1
    x[0:4][1:2].mul_(2)
    x[1:][0].fill_(7)
    x += 1
    return x * 1


def accumulated(x, m, y):
    return torch.index_put(x, (m,), y[m], accumulate=True)


def read_before_it_changes(x, m, y):
    chosen = y[m]
    y.mul_(0)
    x[m] = chosen
    return x + y


WEIGHT = torch.linspace(-1, 1, 36).reshape(6, 6)


def computed_rows(x, m, y):
    r = m[:, 1]
    normal = torch.nn.functional.layer_norm(y[r], (6,), WEIGHT[0], WEIGHT[1])
    scale = torch.rsqrt(x[r].pow(2).mean(1, keepdim=True) + 1e-5)
    x[r] = torch.nn.functional.linear(normal * scale, WEIGHT, WEIGHT[2]).softmax(dim=-1)
    x[r] += torch.nn.functional.silu(y[r]) / y[r].abs().sum(-1, keepdim=True)
    return x


def in_place_of_its_own(x, m, y):
    chosen = y[m]
    chosen.mul_(2).add_(1)
    x[m] = chosen
    return x


def scattered(x, m, y):
    return x.masked_scatter(~m[:, 2].unsqueeze(-1), (y[~m[:, 2]] * WEIGHT[3]).to(x.dtype))


def scattered_in_place(x, m, y):
    return x.masked_scatter_(m[:, 2, None].expand(4, 6), y[m[:, 2]].tanh())


def scattered_elements(x, m, y):
    return x.masked_scatter(m, y[m] * 2)


def written_under_another_name(x, m, y):
    chosen = y[m]
    chosen.detach().mul_(2)
    x[m] = chosen
    return x


def read_under_another_name(x, m, y):
    chosen = y[m]
    same = chosen.detach()
    chosen.mul_(2)
    x[m] = same
    return x


@pytest.mark.parametrize(
    "function",
    [
        *(put, add, computed, computed_mask, rows, views, views_behind_it, accumulated, read_before_it_changes),
        *(computed_rows, in_place_of_its_own, scattered, scattered_in_place, scattered_elements),
        *(written_under_another_name, read_under_another_name),
    ],
)
def test_values(function):
    def copies(x, m, y):
        return function(x.clone(), m, y.clone())

    torch.manual_seed(1)
    args = torch.randn(4, 6), torch.rand(4, 6) > 0.5, torch.randn(4, 6)
    program = npusim.compile(Calls(copies), args, dtype="float32")
    for mask in (args[1], ~args[1], torch.ones_like(args[1]), torch.zeros_like(args[1])):
        x, y = torch.randn(4, 6), torch.randn(4, 6)
        found = npusim.Session(program).run(x, mask, y)["output"]
        assert np.allclose(found, copies(x, mask, y).numpy(), atol=1e-6)


def other_mask(x, m, y):
    x[m] = y[~m]  # as many are chosen, but others
    return x


def changed_mask(x, m, y):
    m = m.clone()
    chosen = y[m]
    m.logical_not_()
    x[m] = chosen
    return x


def changed_operand(x, m, y):
    chosen = y[x > 0]
    x.neg_()
    x[x > 0] = chosen
    return x


def sorted_values(x, m, y):
    x[m] = y[m].sort().values
    return x


def divided_integers(x, m, y):
    z = x.int()
    z[m] = y.int()[m] // z[m]
    return z


def written_in_part(x, m, y):
    chosen = y[m[:, 0]]
    chosen[:, 0].mul_(2)
    x[m[:, 0]] = chosen
    return x


def across_rows(x, m, y):
    x[m[:, 0]] = y[m[:, 0]] - y[m[:, 0]].mean(0)
    return x


def along_rows_and_across(x, m, y):
    x[m[:, 0]] = y[m[:, 0]].softmax(-2)
    return x


def scattered_elsewhere(x, m, y):
    return x.masked_scatter(m[:, 1].unsqueeze(-1), y[m[:, 0]])


def scattered_along_columns(x, m, y):
    return x[:, :4].masked_scatter(m[:, 0], y[:, :4][m[:, 0]])


@pytest.mark.parametrize(
    "function",
    [
        *(other_mask, changed_mask, changed_operand, sorted_values, divided_integers),
        *(written_in_part, across_rows, along_rows_and_across, scattered_elsewhere, scattered_along_columns),
    ],
)
@pytest.mark.filterwarnings("ignore:the program is made for")
def test_what_is_no_choice_of_one_mask_is_made_for_the_example(function):
    half = torch.arange(24).reshape(4, 6) % 2 == 0
    x = torch.where(half, 1.0, -1.0) * (torch.rand(4, 6) + 1)
    model, args = Calls(lambda x, m, y: function(x.clone(), m, y)), (x, half, torch.randn(4, 6) + 3)
    exported = npusim.export(model, args)
    assert exported.made_for
    found = npusim.Session(npusim.compile(exported, dtype="float32")).run(*args)
    for value, expected in zip(found.values(), torch.utils._pytree.tree_leaves(model(*args)), strict=True):
        assert np.allclose(value, expected.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 5])
@pytest.mark.parametrize("shape, of_mask", [((4,), (4,)), ((3, 4), (4,)), ((2, 3), (2, 3)), ((2, 3), (2, 1))])
def test_as_many_values_as_a_mask_takes(shape, of_mask, count):
    """Fewer are an error of the run, as they are PyTorch's; more are not."""
    x, values = torch.zeros(shape), torch.arange(1.0, count + 1)
    scatter = Calls(lambda x, mask, values: x.masked_scatter(mask, values))
    exported = npusim.export(scatter, (x, torch.zeros(of_mask, dtype=torch.bool), values))
    session = npusim.Session(npusim.compile(exported, dtype="float32"))
    for share in (0, 0.3, 0.6, 1):
        mask = torch.rand(of_mask) < share
        if int(mask.expand(shape).sum()) > count:
            with pytest.raises(npusim.BadInputError, match="masked_scatter"):
                session.run(x, mask, values)
        else:
            assert np.array_equal(session.run(x, mask, values)["output"], x.masked_scatter(mask, values).numpy())
