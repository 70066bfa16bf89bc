"""Indices that lie outside: whatever takes an index takes what eager PyTorch takes, and fails where that does.

The same calls in every run; NPUSIM_OPERATOR_CALLS=1000 draws as many new ones of each operator."""

import re
import warnings

import npusim
import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("hypothesis")
import torch.nn.functional as F
from hypothesis import errors as hypothesis_errors
from hypothesis import given, reject
from hypothesis import strategies as st
from modules import Calls, CallsWithSelf
from operator_calls import Call, Unfit
from test_operators import CALLS, PROFILE, REFUSALS, operators, overload, wrong, writes_twice

FAR = 2**40
# PyTorch reads or writes beyond its memory there, or leaves the result to chance.
UNCHECKED = {"_ctc_loss", "ctc_loss", "_unsafe_index", "_unsafe_index_put", "_unsafe_masked_index", "_index_put_impl"}


def takes_indices(name):
    packet = name.split(".")[1]
    if packet in UNCHECKED:
        return False
    names = {arg.name for arg in overload(name)._schema.arguments if "Tensor" in str(arg.type)}
    return bool(names & {"index", "indices"}) or packet == "bincount"


def corrupted(call, data):
    """Puts a number that may lie outside into one element of one index."""
    found = [one for key in ("index", "indices") for one in listed(call.named.get(key))]
    if call.packet == "bincount":
        found = [call.named["self"]]
    found = [one for one in found if not one.base.is_floating_point() and one.base.dtype != torch.bool]
    found = [one for one in found if one.base.numel()]
    if not found:
        raise Unfit("no index")
    base = data.draw(st.sampled_from(found)).base
    limit = max(call.shape or (1,), default=1)
    numbers = [-FAR, -limit - 1, -limit, -2, -1, *range(limit + 2), FAR, 2**31, -(2**31) - 1, 2**63 - 1, -(2**63)]
    info = torch.iinfo(base.dtype)
    number = data.draw(st.sampled_from([n for n in numbers if info.min <= n <= info.max]))
    base.view(-1)[data.draw(st.integers(0, base.numel() - 1))] = number


def listed(value):
    return [one for one in (value if isinstance(value, list) else [value]) if one is not None]


@pytest.mark.parametrize("name", [name for name in operators() if takes_indices(name)])
def test_operator(name):
    @PROFILE
    @given(st.data())
    def run(data):
        try:
            call = Call(data.draw, overload(name))
            results = call.eager()  # of indices that fit, for the shapes
            corrupted(call, data)
        except (Unfit, *REFUSALS):
            reject()
        if not any(one.numel() for one in results):
            reject()  # nothing is computed of it
        ir, inputs = call.ir(results)
        refused, shapes = None, [one.shape for one in results]
        try:
            results = call.eager()
            if shapes != [one.shape for one in results]:
                refused = "another shape"  # bins that a number makes more
            elif writes_twice(call):
                reject()
        except REFUSALS as error:
            refused = error
        try:
            session = npusim.Session(npusim.compile(ir, dtype="float32"))
        except npusim.UnsupportedError:
            reject()
        try:
            found = session.run(inputs)
        except npusim.Error as error:
            assert refused, f"{call}: {error}"
            return
        assert not refused, f"{call}: PyTorch says {refused}"
        found = [np.asarray(found[info["name"]]).astype("float64") for info in ir["graph_outputs"]]
        with warnings.catch_warnings(action="ignore"):
            assert not wrong(found, call, results), call

    try:
        run()
    except hypothesis_errors.Unsatisfiable:
        pass


def ones(*shape):
    return torch.linspace(-1, 1, max(int(np.prod(shape)), 1)).reshape(shape)


# What users call, with an index that fits: (function, other inputs, index, extent).
FUNCTIONS = {
    "nll_loss": (lambda i, x: F.nll_loss(x, i), (ones(4, 3),), torch.tensor([0, 2, 1, 1])),
    "nll_loss sum, ignored": (
        lambda i, x: F.nll_loss(x, i, ignore_index=1, reduction="sum"),
        (ones(4, 3),),
        torch.tensor([0, 2, 1, 1]),
    ),
    "nll_loss2d": (lambda i, x: F.nll_loss(x, i), (ones(2, 3, 2, 2),), torch.ones(2, 2, 2, dtype=torch.long)),
    "cross_entropy": (lambda i, x: F.cross_entropy(x, i), (ones(4, 3),), torch.tensor([0, 2, 1, 1])),
    "cross_entropy weighted, smoothed": (
        lambda i, x, w: F.cross_entropy(x, i, w, label_smoothing=0.1, reduction="none"),
        (ones(4, 3), torch.tensor([1.0, 2.0, 3.0])),
        torch.tensor([0, 2, 1, 1]),
    ),
    "multi_margin_loss": (lambda i, x: F.multi_margin_loss(x, i), (ones(4, 3),), torch.tensor([0, 2, 1, 1])),
    "one_hot": (lambda i: F.one_hot(i, 4), (), torch.tensor([0, 3, 1])),
    "embedding": (lambda i, w: F.embedding(i, w), (ones(5, 3),), torch.tensor([[0, 4], [1, 1]])),
    "embedding padded": (lambda i, w: F.embedding(i, w, padding_idx=0), (ones(5, 3),), torch.tensor([0, 4])),
    "embedding_bag": (lambda i, w: F.embedding_bag(i, w, mode="mean"), (ones(5, 3),), torch.tensor([[0, 4], [1, 1]])),
    "embedding_bag max": (lambda i, w: F.embedding_bag(i, w, mode="max"), (ones(5, 3),), torch.tensor([[0, 4], [1, 1]])),
    "getitem": (lambda i, x: x[i], (ones(5, 3),), torch.tensor([0, 4])),
    "getitem behind": (lambda i, x: x[:, i], (ones(3, 5),), torch.tensor([0, 4])),
    "setitem": (lambda i, x: x.clone().index_put((i,), x.new_zeros(2, 3)), (ones(5, 3),), torch.tensor([0, 4])),
    "take": (lambda i, x: x.take(i), (ones(5, 3),), torch.tensor([0, 14])),
    "gather": (lambda i, x: x.gather(1, i), (ones(2, 3),), torch.tensor([[0], [2]])),
    "index_select": (lambda i, x: x.index_select(0, i), (ones(5, 3),), torch.tensor([0, 4])),
    "scatter": (lambda i, x: x.scatter(1, i, 9.0), (ones(2, 3),), torch.tensor([[0], [2]])),
    "scatter_add": (lambda i, x: x.scatter_add(1, i, x[:, :1]), (ones(2, 3),), torch.tensor([[0], [2]])),
    "scatter_reduce": (
        lambda i, x: x.scatter_reduce(0, i, torch.ones(3), "amax"),
        (ones(3),),
        torch.tensor([0, 2, 1]),
    ),
    "scatter multiply": (lambda i, x: x.scatter(0, i, 2.0, reduce="multiply"), (ones(3),), torch.tensor([0, 2])),
    "index_reduce": (lambda i, x: x.index_reduce(0, i, x[:2], "mean"), (ones(5, 3),), torch.tensor([0, 4])),
    "index_add": (lambda i, x: x.index_add(0, i, x[:2]), (ones(5, 3),), torch.tensor([0, 4])),
    "index_copy": (lambda i, x: x.index_copy(0, i, x[:2]), (ones(5, 3),), torch.tensor([0, 4])),
    "index_fill": (lambda i, x: x.index_fill(0, i, 2.0), (ones(5, 3),), torch.tensor([0, 4])),
    "max_unpool2d": (
        lambda i, x: F.max_unpool2d(x, i, 2),
        (ones(1, 1, 2, 2),),
        torch.tensor([[[[0, 2], [8, 10]]]]),
    ),
    "take_along_dim": (lambda i, x: torch.take_along_dim(x, i, 1), (ones(2, 3),), torch.tensor([[0], [2]])),
    "behind a computation": (lambda i, x: F.embedding(i * 2 - 1, x).relu() + 1, (ones(5, 3),), torch.tensor([1, 2])),
    "of a slice": (lambda i, x: x[1:4].index_select(0, i) + 1, (ones(5, 3),), torch.tensor([0, 2])),
    "of a slice of a computation": (lambda i, x: (x * 2)[1:4].index_select(0, i), (ones(5, 3),), torch.tensor([0, 2])),
    "of every other row": (lambda i, x: (x * 2)[::2].index_select(0, i), (ones(6, 3),), torch.tensor([0, 2])),
    "of rows turned around": (lambda i, x: (x * 2).flip(0).index_select(0, i), (ones(6, 3),), torch.tensor([0, 2])),
    "of a row for many": (lambda i, x: x.expand(3, 3).index_select(0, i), (ones(1, 3),), torch.tensor([0, 2])),
    "of a row for many, computed": (lambda i, x: (x.exp().expand(3, 3) * 2)[i], (ones(1, 3),), torch.tensor([0, 2])),
    "of a matrix made of heads": (
        lambda i, x: (x * 2).reshape(2, 3, 4).transpose(0, 1).reshape(3, 8).index_select(0, i),
        (ones(6, 4),),
        torch.tensor([0, 2]),
    ),
    "of numbers": (lambda i: torch.arange(5)[i] * 2, (), torch.tensor([0, 4])),
    "of a table": (lambda i, x: (torch.arange(5.0)[:, None] * x).cos()[i], (ones(3),), torch.tensor([0, 4])),
    "of ones": (lambda i, x: torch.ones_like(x).index_select(0, i), (ones(5, 3),), torch.tensor([0, 4])),
    "of padding": (lambda i, x: F.pad(x, (0, 0, 1, 1)).index_select(0, i), (ones(3, 3),), torch.tensor([0, 4])),
    "of a sum": (lambda i, x: x.sum(1).index_select(0, i), (ones(5, 3),), torch.tensor([0, 4])),
    "of a softmax": (lambda i, x: x.softmax(1).index_select(0, i), (ones(5, 3),), torch.tensor([0, 4])),
    "of a product": (lambda i, x, w: (x @ w).index_select(0, i), (ones(5, 3), ones(3, 2)), torch.tensor([0, 4])),
    "of rows of a product": (
        lambda i, x, w: x.index_select(0, i) @ w,
        (ones(5, 3), ones(3, 2)),
        torch.tensor([0, 4]),
    ),
    "of pieces that are joined": (
        lambda i, x: torch.cat((x, x + 1)).index_select(0, i),
        (ones(3, 3),),
        torch.tensor([0, 4]),
    ),
    "of 32 bits": (lambda i, x: F.embedding(i.int(), x), (ones(5, 3),), torch.tensor([0, 4])),
    "of one number": (lambda i, x: x[i[0]], (ones(5, 3),), torch.tensor([4])),
    "of a row that is chosen": (lambda i, x: x.index_select(1, i)[0], (ones(3, 5),), torch.tensor([0, 4])),
}
COMPUTED = {"of 32 bits", "behind a computation"}  # whose index is another number than the input's
NUMBERS = [-(2**63), -FAR, -100, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 14, 15, 16, FAR, 2**31, 2**63 - 1]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function(name):
    function, others, index = FUNCTIONS[name]
    model = Calls(function)
    with warnings.catch_warnings(action="ignore"):
        session = npusim.Session(npusim.compile(model, (index, *others), dtype="float32"))
    for number in NUMBERS:
        for place in range(index.numel()):
            changed = index.clone()
            changed.view(-1)[place] = number
            try:
                expected = model(changed, *others)
            except REFUSALS as error:
                expected = error
            try:
                found = torch.from_numpy(next(iter(session.run(changed, *others).values())))
            except npusim.Error as error:
                found = error
            if isinstance(expected, Exception):
                assert isinstance(found, Exception), f"{number} at {place}: {found}, PyTorch says {expected}"
                said = re.search(r"index (-?\d+) is out of range", str(found))
                assert not said or int(said[1]) == number or name in COMPUTED, f"{number}: {found}"
                continue
            assert not isinstance(found, Exception), f"{number} at {place}: {found}, PyTorch says {expected}"
            torch.testing.assert_close(found.double(), expected.double(), rtol=1e-5, atol=1e-6)


def put(x, indices, value, accumulate=False):
    y, value = x.clone(), torch.as_tensor(value)
    if accumulate:
        return y.index_put_(indices, value, accumulate=True)
    y[indices] = value
    return y


TRUE = torch.tensor([True, False, True])
BESIDE = {
    "write of a constant mask": lambda m, x, chosen: put(x, (TRUE, torch.tensor([0, -1])), 2.0),
    "write of a buffer": lambda m, x, chosen: put(x, (m.mask, torch.tensor([0, -1])), 2.0),
    "write of an argument": lambda m, x, chosen: put(x, (chosen, torch.tensor([0, -1])), [3.0, 4.0]),
    "sum": lambda m, x, chosen: put(x, (chosen, torch.tensor([1])), 2.0, accumulate=True),
    "two masks": lambda m, x, chosen: put(x, (m.mask, torch.tensor([False, True, True, False])), 2.0),
    "the second": lambda m, x, chosen: put(x, (torch.tensor([[0], [2]]), torch.tensor([True, False, True, True])), x[:2, :3] + 1),
    "behind a whole dimension": lambda m, x, chosen: put(x[None], (slice(None), chosen), torch.ones(2, 4))[0],
    "computed": lambda m, x, chosen: put(x, (x[:, 0] > 0, torch.tensor([2])), 5.0),
    "read": lambda m, x, chosen: x[m.mask, torch.tensor([0, -1])] * 2,
    "read of an argument": lambda m, x, chosen: x[chosen, torch.tensor([[0, -1], [1, 2]])],
    "read of what is computed": lambda m, x, chosen: x[x[:, 0] > 0, torch.tensor([1])],
    "read and written": lambda m, x, chosen: put(x, (TRUE, torch.tensor([0, 1])), x[TRUE, torch.tensor([2, 3])] + 1),
}


@pytest.mark.parametrize("branch", [False, True])
@pytest.mark.parametrize("name", BESIDE)
def test_a_mask_beside_other_indices(name, branch):
    def function(m, x, chosen):
        if branch and x.sum() > 0:
            x = x + 1
        return BESIDE[name](m, x, chosen)

    x = torch.arange(12.0).reshape(3, 4) + 1
    x[1, 0] = -3
    model = CallsWithSelf(function, mask=TRUE.clone())
    with warnings.catch_warnings(action="ignore"):
        program = npusim.compile(model, (x, TRUE), dtype="float32")
    session = npusim.Session(program)
    for chosen in (TRUE, TRUE.flip(0), torch.tensor([True, True, False])):
        assert np.allclose(session.run(x, chosen)["output"], model(x, chosen)), name
    if "argument" in name:
        with pytest.raises(npusim.Error, match="an assertion does not hold"):
            session.run(x, ~TRUE)


NONE = torch.zeros(0, dtype=torch.int64)
OF_NOTHING = {
    "sum": lambda v: v.sum(),
    "product": lambda v: v.prod(),
    "one more": lambda v: v.sum() + 1,
    "kept": lambda v: v.sum(0, keepdim=True),
    "any": lambda v: v.any().to(v.dtype),
    "norm": lambda v: torch.linalg.vector_norm(v.float()).to(v.dtype),
}
AT_NONE = {
    "put": lambda x, i, a: x.index_put((i,), a),
    "summed": lambda x, i, a: x.index_put((i,), a, accumulate=True),
    "filled": lambda x, i, a: x.index_fill(0, i, a.reshape(())),
    "two": lambda x, i, a: x.reshape(-1, 1).index_put((i, i), a),
    "columns": lambda x, i, a: x.expand(2, -1).clone().index_put((torch.tensor([[0], [1]]), i), a),
    "turned": lambda x, i, a: torch.stack([x, x]).t().clone().index_put((i,), a),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.uint8])
@pytest.mark.parametrize("extent", [0, 3])
def test_what_nothing_gives_is_written_at_no_index(extent, dtype):
    x, v = (torch.arange(extent) + 4).to(dtype), torch.zeros(0).to(dtype)
    calls = [(a, b) for a in OF_NOTHING.values() for b in AT_NONE.values()]
    model = CallsWithSelf(lambda m, x, i, v: [b(x, i, a(v).to(x.dtype)) for a, b in calls])
    found = npusim.Session(npusim.compile(model, (x, NONE, v), dtype="float32")).run(x, NONE, v)
    for value, expected in zip(found.values(), model(x, NONE, v), strict=True):
        np.testing.assert_array_equal(value, expected.numpy())
