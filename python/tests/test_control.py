"""Control flow in torch.export's graph: conditions, scans and maps are spelled out."""

import npusim
import pytest
from test_export import Function, check

torch = pytest.importorskip("torch")
from torch import nn
from torch._higher_order_ops import map as row_map
from torch._higher_order_ops import scan


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


class Branches(nn.Module):
    """One of two, by a value; a condition in a condition; what is chosen is changed in place."""

    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)
        self.register_buffer("shift", torch.ones(4))

    def forward(self, x, i):
        a, b = torch.cond(
            x.sum() > 0, lambda v: (self.lin(v), v + self.shift), lambda v: (v * 2, v.sort(-1).values), (x,)
        )
        inner = lambda v: torch.cond(v.max() > 1, lambda w: w * 2, lambda w: w - 1, (v,))
        c = torch.cond(i > 1, inner, lambda v: v.cumsum(0), (x,))
        a.add_(c)
        return a, b, c, x


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("i", [0, 5])
def test_both_branches_are_there_and_one_is_chosen(sign, i):
    exported, _ = check(Branches().eval(), (torch.rand(3, 4) * sign + sign, torch.tensor([i])))
    assert [tensor["name"] for tensor in exported.ir["graph_inputs"]] == ["x", "i"]
    assert len(exported.ir["graph_outputs"]) == 4  # no input is changed


def test_a_branch_that_is_not_taken_leaves_no_trace():
    log = Function(lambda self, x: torch.cond(x.min() > 0, lambda v: v.log(), lambda v: v / 0.0, (x,)))
    check(log, (torch.rand(5) + 0.5,))
    check(log, (-torch.rand(5),))


def test_a_scan_is_its_steps():
    lin = nn.Linear(4, 4)

    def step(self, x, h):
        return scan(lambda c, v: (torch.tanh(lin(c) + v), c * 2), h, x, reverse=True)

    model = Function(step)
    model.lin = lin
    check(model, (torch.randn(5, 2, 4), torch.randn(2, 4)))


def test_a_map_is_its_rows():
    check(
        Function(lambda self, x, w: row_map(lambda v, u: v.softmax(-1) @ u, x, w)),
        (torch.randn(3, 2, 4), torch.randn(4, 5)),
    )


def test_a_branch_that_draws_is_refused():
    noise = Function(lambda self, x: torch.cond(x.sum() > 0, lambda v: v + torch.rand_like(v), lambda v: v * 2, (x,)))
    with pytest.raises(npusim.UnsupportedError, match="draws random numbers"):
        npusim.export(noise, (torch.randn(3),))
