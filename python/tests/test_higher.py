"""Higher-order operators: what they do, and what is refused of them."""

import re

import npusim
import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore")


class Model(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.function = function

    def forward(self, *inputs):
        return self.function(self.linear, *inputs)


def check(function, *inputs, others=()):
    """What is compiled gives eager's results, for the inputs that it was exported with and for others."""
    torch.manual_seed(0)
    model = Model(function).eval()
    for strict in (False, True):
        exported = npusim.export(model, inputs, strict=strict)
        session = npusim.Session(npusim.compile(exported, dtype="float32"))
        for given in (inputs, *others):
            with torch.no_grad():
                expected = torch.utils._pytree.tree_leaves(model(*given))
            found = session.run(*given)
            assert len(found) == len(expected)
            for one, other in zip(found.values(), expected, strict=True):
                assert one.shape == tuple(other.shape) and one.dtype == other.numpy().dtype
                np.testing.assert_allclose(one, other.numpy(), rtol=1e-5, atol=1e-5)


def refused(function, *inputs, reason):
    with pytest.raises(npusim.UnsupportedError, match=re.escape(reason)):
        npusim.export(Model(function).eval(), inputs)


torch.manual_seed(1)
X, ROWS = torch.randn(3, 4), torch.randn(5, 3, 4)


def test_cond():
    def one(linear, x):
        return torch.cond(x.sum() > 0, lambda x: linear(x).relu(), lambda x: x * 2, (x,))

    check(one, X.abs(), others=[(-X.abs(),)])

    def several(linear, x, y):
        which = (x.amax() > 10).reshape(1)
        return torch.cond(which, lambda x, y: (x + y, y.argmax(-1)), lambda x, y: (linear(x), y.argmin(-1)), (x, y))

    check(several, X, X.flip(0), others=[(X + 100, X)])


def test_a_branch_that_is_not_taken_may_be_infinite():
    def root(linear, x):
        return torch.cond(x.amin() > 0, lambda x: x.log() + x.rsqrt(), lambda x: x / x.amin(), (x,))

    check(root, X, others=[(X.abs() + 1,), (torch.zeros(3, 4),)])


def test_nested():
    def nested(linear, x):
        def upper(x):
            return torch.cond(x.sum() > 9, lambda x: x * 3, lambda x: linear(x), (x,))

        return torch.cond(x.sum() > 0, upper, lambda x: x - 1, (x,))

    check(nested, X.abs(), others=[(-X.abs(),), (X * 0 + 0.01,)])


def test_a_branch_may_write_at_known_places():
    def written(x):
        y = x * 1
        y[0].add_(1)
        y[:, 1:3] = 2
        y.diagonal().mul_(3)
        return y

    check(lambda linear, x: torch.cond(x.sum() > 0, written, lambda x: x - 1, (x,)), X.abs(), others=[(-X.abs(),)])


def test_what_a_branch_may_not_do():
    def branch(yes, no):
        return lambda linear, x: torch.cond(x.sum() > 0, yes, no, (x,))

    refused(branch(lambda x: x[x.argmax(-1) % 3], lambda x: x * 2), X, reason="which is an error for some numbers")
    refused(branch(lambda x: x + torch.rand_like(x), lambda x: x * 2), X, reason="draws random numbers")
    refused(
        branch(lambda x: x.long() // x.long().sum(), lambda x: x.long()), X, reason="which is an error for some numbers"
    )


def test_scan():
    from torch._higher_order_ops import scan

    def carried(linear, x, rows):
        return scan(lambda c, y: (torch.tanh(linear(c) + y), c * 2), x, rows)

    check(carried, X, ROWS, others=[(X * 2, ROWS.flip(0))])
    check(lambda _, x, rows: scan(lambda c, y: (c - y, c * y), x, rows, reverse=True), X, ROWS)
    check(lambda _, x, rows: scan(lambda c, y: (c - y, c * y), x, rows, dim=1), X, ROWS.transpose(0, 1).contiguous())

    def trees(linear, x, rows):
        def step(c, y):
            return {"a": c["a"] + y[0], "b": c["b"] * y[1].cos()}, (c["a"] - c["b"], y[0].sum())

        return scan(step, {"a": x, "b": x + 1}, (rows, rows * 2))

    check(trees, X, ROWS)


def test_map_and_associative_scan():
    from torch._higher_order_ops import associative_scan
    from torch._higher_order_ops import map as map_rows

    check(lambda linear, rows, y: map_rows(lambda row, y: linear(row) + y, rows, y), ROWS, X)
    check(lambda _, rows: map_rows(lambda row: (row.sum(), row.argmax(-1)), rows), ROWS)
    check(lambda _, rows: associative_scan(lambda a, b: a * b, rows, 0, combine_mode="generic"), ROWS)


def attend(**how):
    from torch.nn.attention.flex_attention import flex_attention

    return lambda linear, q, k, v: flex_attention(q, k, v, **how)


Q, K, V = (torch.randn(2, 4, 6, 8) for _ in range(3))


def test_flex_attention():
    check(attend(), Q, K, V)
    check(attend(score_mod=lambda s, b, h, i, j: torch.where(i >= j, s, -float("inf"))), Q, K, V)
    check(attend(score_mod=lambda s, b, h, i, j: s + (j - i) * 0.1 * (h + 1)), Q, K, V)
    check(attend(score_mod=lambda s, b, h, i, j: 20 * torch.tanh(s / 20), scale=0.3), Q, K, V)
    check(attend(enable_gqa=True), Q, K[:, :2], V[:, :2])
    bias = torch.randn(4, 6, 6)
    check(attend(score_mod=lambda s, b, h, i, j: s + bias[h, i, j]), Q, K, V)


def test_flex_attention_with_a_block_mask():
    from torch.nn.attention.flex_attention import create_block_mask

    window = create_block_mask(lambda b, h, i, j: (i >= j) & (i - j < 3), None, None, 6, 6, device="cpu")
    check(attend(block_mask=window), Q, K, V)
    nothing = create_block_mask(lambda b, h, i, j: i > 2, None, None, 6, 6, device="cpu")
    check(attend(block_mask=nothing, return_lse=True), Q, K, V)  # rows of which all is masked


class Branches(torch.nn.Module):
    """One of two, by a value; a condition in a condition; what is chosen is changed in place."""

    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(4, 4)
        self.register_buffer("shift", torch.ones(4))

    def forward(self, x, i):
        a, b = torch.cond(
            x.sum() > 0, lambda v: (self.lin(v), v + self.shift), lambda v: (v * 2, v.sort(-1).values), (x,)
        )
        inner = lambda v: torch.cond(v.max() > 1, lambda w: w * 2, lambda w: w - 1, (v,))
        c = torch.cond(i > 1, inner, lambda v: v.cumsum(0), (x,))
        a.add_(c)
        return a, b, c, x


def test_what_is_chosen_may_be_changed_and_no_input_is():
    model = Branches().eval()
    exported = npusim.export(model, (torch.rand(3, 4), torch.tensor([5])))
    assert [tensor["name"] for tensor in exported.ir["graph_inputs"]] == ["x", "i"]
    session = npusim.Session(npusim.compile(exported, dtype="float32"), exported.weights)
    for sign, i in ((1, 0), (1, 5), (-1, 0), (-1, 5)):
        given = torch.rand(3, 4) * sign + sign, torch.tensor([i])
        with torch.no_grad():
            for found, expected in zip(session.run(*given).values(), model(*given), strict=True):
                assert np.allclose(found, expected.numpy(), rtol=1e-5, atol=1e-6)
