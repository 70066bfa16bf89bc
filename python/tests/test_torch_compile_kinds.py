"""torch.compile with every kind of input and output: as eager PyTorch, compiled or left to it with one warning.
NPUSIM_COMPILE_KINDS=all tries each with and without gradients, of fixed and of any size."""

import itertools
import logging
import os
import random

import pytest

torch = pytest.importorskip("torch")
import npusim
from npusim import torch_compile
from test_torch_compile import said

X = torch.linspace(-2, 2, 12).reshape(3, 4)
ALL = os.environ.get("NPUSIM_COMPILE_KINDS") == "all"


@pytest.fixture(autouse=True)
def fresh(caplog):
    torch.manual_seed(0)
    torch.compiler.reset()
    caplog.set_level(logging.INFO, "npusim")


OUTPUTS = {
    "expanded": lambda x: (x + 1)[:, :1].expand(3, 4),
    "expanded in front": lambda x: (x + 1).expand(2, *x.shape),
    "expanded, turned": lambda x: (x + 1).expand(2, *x.shape).transpose(0, 2),
    "windows that overlap": lambda x: (x + 1).unfold(1, 2, 1),
    "every other": lambda x: (x + 1)[:, ::2],
    "transposed": lambda x: (x + 1).t(),
    "a view of the input": lambda x: x[1:],
    "the input": lambda x: x,
    "the input, in a list": lambda x: [x, x + 1, x.t()],
    "the input, expanded": lambda x: x.expand(2, *x.shape),
    "one value twice": lambda x: (lambda y: (y, y, y.t(), y[0]))(x + 1),
    "0-d": lambda x: x.sum(),
    "0-d, expanded": lambda x: x.sum().expand(3),
    "empty": lambda x: (x[:0] + 1, x[:, 4:].sum(0), x.sum()),
    "empty, expanded": lambda x: x[:0].expand(2, 0, 4) * 2,
    "none and numbers": lambda x: (None, 3, x + 1, x.shape[0], "text", True),
    "nothing": lambda x: None,
    "only numbers": lambda x: x.shape[0] * 2,
    "a dict": lambda x: {"a": x * 2, "b": (x + 1, [x.mean()])},
    "a constant": lambda x: (x + 1, torch.tensor([1.0, 2.0]), torch.arange(3)),
    "truth": lambda x: (x > 0, (x > 0).any()),
    "indices": lambda x: x.argmax(1),
    "bfloat16": lambda x: x.to(torch.bfloat16),
    "float64": lambda x: x.double() * 2,
    "float8": lambda x: x.to(torch.float8_e4m3fn).float(),
    "complex": lambda x: torch.complex(x, x * 2),
    "complex, conjugated": lambda x: torch.complex(x, x * 2).conj(),
    "complex, one part": lambda x: torch.complex(x, x * 2).conj().imag,
    "complex, expanded": lambda x: torch.complex(x, x)[:, :1].expand(3, 4),
    "a spectrum": lambda x: (torch.fft.rfft(x), torch.fft.fft2(x)),
    "complex 32 bits": lambda x: torch.complex(x.half(), x.half()).abs().float().round(),
    "channels last": lambda x: (x.reshape(1, 3, 2, 2) * 2).contiguous(memory_format=torch.channels_last),
    "changed": lambda x: x.mul_(2),
    "changed, and a view of it": lambda x: (x.add_(1), x[0], x.t())[1:],
    "changed through a view": lambda x: x[1].zero_().sum() + x.sum(),
    "detached": lambda x: (x * 2).detach(),
    "sparse": lambda x: x.to_sparse(),
    "a nested function": lambda x: torch.func.vmap(lambda r: r * r.sum())(x),
}


def leaves(values):
    return torch.utils._pytree.tree_leaves(values)


def agree(function, *args, caplog, **how):
    """The function compiled and by itself, with copies of the arguments, twice. Gives the warnings."""
    run = torch.compile(function, backend=torch_compile.backend, **how)
    for _ in range(2):
        mine, theirs = (torch.utils._pytree.tree_map(copied, args) for _ in range(2))
        found, expected = run(*mine), function(*theirs)
        assert torch.utils._pytree.tree_structure(found) == torch.utils._pytree.tree_structure(expected)
        for a, b in zip(leaves((found, mine)), leaves((expected, theirs)), strict=True):
            if not isinstance(b, torch.Tensor):
                assert type(a) is type(b) and (a == b or a is b)
                continue
            assert a.dtype == b.dtype and a.shape == b.shape and a.layout == b.layout
            assert a.requires_grad == b.requires_grad
            if b.layout == torch.strided and not b.is_quantized:
                assert a.stride() == b.stride()
                assert a.numel() == 0 or torch.allclose(plain(a), plain(b), 1e-5, 1e-6, equal_nan=True)
    assert len(said(caplog)) <= 1
    return said(caplog)


def plain(x):
    x = x.detach().resolve_conj().resolve_neg()
    return x.to(torch.complex128 if x.is_complex() else torch.float64)


def copied(value):
    if not isinstance(value, torch.Tensor):
        return value
    if value.layout != torch.strided or value.is_quantized or value.is_conj() or value.is_neg():
        return value
    made = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype) if value.stride() else value.clone()
    if 0 in value.stride() or not value.is_contiguous() and value._is_view():
        return value
    return made.copy_(value.detach()).requires_grad_(value.requires_grad)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", OUTPUTS)
def test_outputs(kind, caplog):
    with torch.no_grad():
        agree(OUTPUTS[kind], X, caplog=caplog)
        if not ALL:
            return
        torch.compiler.reset()
        caplog.clear()
        agree(OUTPUTS[kind], X.clone().requires_grad_() if kind[:7] != "changed" else X, caplog=caplog)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", [k for k in list(OUTPUTS)[:: 1 if ALL else 5] if not k.startswith(("empty", "no", "only"))])
def test_outputs_of_any_size(kind, caplog):
    with torch.no_grad():
        agree(lambda x: OUTPUTS[kind](x) if isinstance(x, torch.Tensor) else x, X, caplog=caplog, dynamic=True)


def inputs():
    z = torch.complex(X, X.flip(0))
    yield "channels_last", (torch.randn(2, 3, 4, 4).contiguous(memory_format=torch.channels_last),)
    yield "transposed", (X.t(),)
    yield "expanded", (X[:, :1].expand(3, 4),)
    yield "from the middle", (X[1:, 1:3],)
    yield "every other", (X[:, ::2],)
    yield "0-d", (torch.tensor(2.0),)
    yield "empty", (torch.zeros(0, 4),)
    yield "complex64", (z,)
    yield "complex128", (z.to(torch.complex128),)
    yield "conjugated", (z.conj(),)
    yield "a part of the conjugated", (z.conj().imag,)
    yield "complex32", (z.to(torch.complex32),)
    yield "float8", (X.to(torch.float8_e4m3fn),)
    yield "float16", (X.half(),)
    yield "bfloat16", (X.bfloat16(),)
    yield "int8", (X.to(torch.int8),)
    yield "uint16", (X.abs().to(torch.uint16),)
    yield "truth", (X > 0,)
    yield "sparse", (X.to_sparse(),)
    yield "sparse rows", (X.to_sparse_csr(),)
    yield "quantized", (torch.quantize_per_tensor(X, 0.1, 0, torch.qint8),)
    yield "meta", (X.to("meta"),)
    yield "needs a gradient", (X.clone().requires_grad_(),)
    yield "a parameter", (torch.nn.Parameter(X.clone()),)
    yield "a list and a number", ([X, X + 1], 3, 2.5)
    yield "one tensor twice", (X, X)
    yield "views of one tensor", (X, X[1:], X.t())
    yield "a dict", ({"a": X, "b": None},)
    yield "none", (None, X)


def touch(*args):
    """Something of each tensor, whatever it is."""
    found = []
    for value in leaves(args):
        if isinstance(value, torch.Tensor):
            value = value.dequantize() if value.is_quantized else value
            value = value if value.layout == torch.strided else value.to_dense()
            narrow = value.dtype in (torch.float8_e4m3fn, torch.uint16, torch.bool)
            found += [value.float() + 1 if narrow else value * 2, value.reshape(-1)[:1]]
        elif isinstance(value, (int, float)):
            found.append(value + 1)
    return found


def shaped(*args):
    return [value.shape for value in leaves(args) if isinstance(value, torch.Tensor)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind,args", inputs(), ids=lambda v: v if isinstance(v, str) else "")
def test_inputs(kind, args, caplog):
    if kind == "meta":
        with torch.no_grad():
            assert torch.compile(touch, backend=torch_compile.backend)(*args)[0].device.type == "meta"
        assert len(said(caplog)) <= 1
        return
    ways = list(itertools.product((False, True), ({}, {"dynamic": True})))
    for grad, how in ways if ALL else [ways[len(kind) % 4], (False, {})]:
        torch.compiler.reset()
        caplog.clear()
        with torch.set_grad_enabled(grad):
            agree(touch, *args, caplog=caplog, **how)


def test_what_is_compiled(caplog):
    """Complex inputs and expanded outputs are no reason to leave a graph to eager PyTorch."""
    z = torch.complex(X, X.flip(0))
    with torch.no_grad():
        for function, args in (
            (lambda x: (x + 1)[:, :1].expand(3, 4), (X,)),
            (lambda z, w: (z * w.conj(), torch.view_as_real(z).sum()), (z, z * 2j)),
            (lambda x: torch.complex(x, x * 2), (X,)),
        ):
            torch.compiler.reset()
            assert not agree(function, *args, caplog=caplog)


def test_a_run_that_fails_is_eagers(caplog):
    rows = torch.arange(3)
    run = torch.compile(lambda x, i: x[i] * 2, backend=torch_compile.backend)
    with torch.no_grad():
        assert torch.equal(run(X, rows), X * 2)
        with pytest.raises(IndexError, match="out of"):
            run(X, rows + 1)
        assert torch.equal(run(X, rows), X * 2)
    assert len(said(caplog)) == 1


def test_weights_of_every_kind(caplog):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.z = torch.nn.Parameter(torch.complex(X, X))
            self.register_buffer("turned", X.t())
            self.register_buffer("some", X[:, 1:3])

        def forward(self, x):
            return (self.z * x).abs() + self.turned.t(), x[:, 1:3] + self.some

    model = Model()
    run = torch.compile(model, backend=torch_compile.backend)
    with torch.no_grad():
        for _ in range(2):
            for a, b in zip(run(X), model(X), strict=True):
                torch.testing.assert_close(a, b)
            model.z.mul_(2j)
    assert not said(caplog)


def pairs_that_share():
    """Inputs whose memory overlaps; and outputs of a graph that share memory, one of which is written to behind it."""
    y = torch.arange(8.0)
    views = {
        "next to it": lambda y: (y[1:], y[:-1]),
        "within it": lambda y: (y[2:5], y),
        "turned": lambda y: (y.view(2, 4).t(), y[3:]),
        "every other": lambda y: (y[::2], y[1:]),
        "apart": lambda y: (y[:3], y[4:]),
    }
    uses = {
        "first": lambda a, b: (a.mul_(2), b + 1),
        "second": lambda a, b: (b.add_(1), a * 2),
        "both": lambda a, b: (a.mul_(2).sum(), b.add_(1), a + 1),
    }
    return [(y, *view, *use) for view in views.items() for use in uses.items()]


@pytest.mark.parametrize("case", pairs_that_share(), ids=lambda case: f"{case[1]}, {case[3]}")
def test_inputs_that_overlap(case):
    y, _, views, _, use = case
    ours, theirs = y.clone(), y.clone()
    found, wanted = torch.compile(use, backend="npusim")(*views(ours)), use(*views(theirs))
    assert torch.equal(ours, theirs)
    for one, other in zip(found, wanted, strict=True):
        assert torch.equal(one, other)


SEEN = {
    "itself": lambda b: b,
    "as a line": lambda b: b.reshape(-1),
    "the same again": lambda b: b.view_as(b),
    "a part": lambda b: b[1:],
    "one": lambda b: b[1],
    "turned": lambda b: b.t(),
    "with a dimension": lambda b: b.unsqueeze(0),
    "expanded": lambda b: b.expand(2, *b.shape),
    "detached": lambda b: b.detach(),
    "at an address": lambda b: b.as_strided((2,), (1,)),
    "a copy": lambda b: b.flip(0),
}


@pytest.mark.parametrize("seen", SEEN)
def test_outputs_that_view_inputs_that_overlap(seen, caplog):
    """AOT autograd takes such views of the memory that the inputs share: elsewhere, or it ends in an assertion."""
    view = SEEN[seen]
    lines, table = torch.arange(8.0), torch.arange(24.0).view(6, 4)
    pairs = (
        lambda: (lambda y: (y[:4], y[2:]))(lines.clone()),
        lambda: (lambda y: (y[:4], y[2:]))(table.clone()),
        lambda: (lambda y: (y[:, :2], y[:, 1:]))(table.clone()),
        lambda: (lambda y: (y, y[1:]))(table.clone()),
    )
    uses = (
        lambda a, b: (a.mul_(2).sum(), view(b)),
        lambda a, b: (b.add_(1), view(a)),
        lambda a, b: [view(b)] if a.mul_(2) is not None else [],
    )
    for pair, use in itertools.product(pairs, uses):
        ours, theirs = pair(), pair()
        torch.compiler.reset()
        caplog.clear()
        found, wanted = torch.compile(use, backend="npusim")(*ours), use(*theirs)
        for one, other in zip((*found, *ours), (*wanted, *theirs), strict=True):
            assert torch.equal(one, other) and one.stride() == other.stride()
            assert one.storage_offset() == other.storage_offset()
        assert len(said(caplog)) <= 1


ORDERS = {
    "row-major": lambda: torch.arange(24.0).view(1, 2, 3, 4),
    "channels last": lambda: torch.arange(24.0).view(1, 2, 3, 4).to(memory_format=torch.channels_last),
    "turned": lambda: torch.arange(24.0).view(1, 2, 3, 4).transpose(2, 3).clone(),
    "reversed": lambda: torch.arange(24.0).view(4, 3, 2, 1).permute(3, 2, 1, 0).clone(),
    "with gaps": lambda: torch.arange(48.0).view(1, 2, 3, 8)[..., ::2],
    "a view": lambda: torch.arange(24.0).view(4, 3, 2, 1).permute(3, 2, 1, 0),
}
PARTS = {
    "a channel": lambda m: m[:, 1],
    "rows": lambda m: m[:, :, 1:],
    "every other": lambda m: m[..., ::2],
    "whole": lambda m: m.view_as(m),
    "turned": lambda m: m.transpose(1, 2),
    "one": lambda m: m[0, 1, 2, 1:2],
}


@pytest.mark.parametrize("order", ORDERS)
def test_inputs_that_overlap_in_any_order(order):
    uses = (
        lambda a, u: (u.add_(1), a * 2),
        lambda a, u: (a.mul_(2), u + 1),
        lambda a, u: (a.sum(), u.mul_(3).sum(0)),
    )
    for part in PARTS.values():
        for use in uses:
            ours, theirs = ORDERS[order](), ORDERS[order]()
            torch.compiler.reset()
            with torch.no_grad():
                found = torch.compile(use, backend="npusim")(ours, part(ours))
            wanted = use(theirs, part(theirs))
            assert torch.equal(ours, theirs), (order, part, use)
            for one, other in zip(found, wanted, strict=True):
                assert torch.equal(one, other)


ADDRESSED = {
    "read": lambda x: torch.as_strided(x.clone(), (5,), (2,)),
    "of a result": lambda x: (x + 1).as_strided((3, 4), (4, 1)),
    "from a place": lambda x: (x * 2).as_strided((2, 3), (3, 1), 2),
    "replaced": lambda x: torch.as_strided_scatter(x, torch.ones(3), (3,), (2,)),
    "in place": lambda x: (x + 0).as_strided_((2, 2), (1, 3)),
    "of a copy": lambda x: torch.empty_like(x).copy_(x).as_strided((6,), (1,)),
    "of all": lambda x: x.relu().as_strided((24,), (1,)),
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kind", ADDRESSED)
def test_what_addresses_memory(kind, order):
    x = ORDERS[order]()
    found = torch.compile(ADDRESSED[kind], backend="npusim")(x)
    assert torch.equal(found, ADDRESSED[kind](ORDERS[order]()))


def test_addresses_of_what_is_written(caplog):
    """AOT autograd takes the order in memory of another tensor for it: eager PyTorch does such a graph."""
    writes = [
        lambda y: y.cumsum_(0),
        lambda y: y.__setitem__(y > 0, 0),
        lambda y: y.masked_fill_(y > 0, 1),
        lambda y: torch.cumsum(y * 1, 0, out=y),
        lambda y: y.transpose(2, 3).mul_(2),
    ]
    for write, order, dtype in itertools.product(writes, ORDERS, (torch.float32, torch.int32)):

        def call(x):
            y = x.to(dtype) * 2
            write(y)
            return y.as_strided((y.numel(),), (1,)), y

        torch.compiler.reset()
        found, wanted = torch.compile(call, backend="npusim")(ORDERS[order]()), call(ORDERS[order]())
        for one, other in zip(found, wanted, strict=True):
            assert torch.equal(one, other), (order, dtype, one, other)
    assert any("memory" in text for text in said(caplog))


LISTS = {
    "swapped": lambda x, y: torch._foreach_copy_([x, y], [y, x]),
    "one after the other": lambda x, y: torch._foreach_add_([x, y], [y, x]),
    "what it gives": lambda x, y: torch._foreach_mul_([x[:2], x[1:]], 2.0),
    "twice, by operator": lambda x, y: torch.ops.aten._foreach_neg_([x, x]),
    "twice, by overload": lambda x, y: torch.ops.aten._foreach_add_.Scalar([x, x.view(-1)], 1.0),
    "numbers of what is written": lambda x, y: torch._foreach_addcmul_([x, y], [y, x], [x, y], scalars=x[:2]),
    "numbers of their own": lambda x, y: torch._foreach_addcdiv_([x, x], [y, x], [x, y], [1.0, 2.0]),
}


@pytest.mark.parametrize("inner", [True, False])
@pytest.mark.parametrize("name", LISTS)
def test_lists_whose_elements_share_memory(name, inner):
    def call(x, y):
        x, y = (x * 1, y * 1) if inner else (x, y)
        given = LISTS[name](x, y) or []
        return [x + y, x * 1, *(one * 1 for one in given)]

    ours, theirs = ([torch.linspace(1, 2, 3), torch.linspace(2, 5, 3)] for _ in range(2))
    torch.compiler.reset()
    with torch.no_grad():
        found, wanted = torch.compile(call, backend="npusim", fullgraph=True)(*ours), call(*theirs)
    for one, other in zip([*found, *ours], [*wanted, *theirs], strict=True):
        assert torch.allclose(one, other), (one, other)


SHARED = {
    "a part": lambda y: y[1:],
    "turned": lambda y: y.view(2, 2).t(),
    "expanded": lambda y: y[:1].expand(3),
    "an output of an output": lambda y: y[1:][1:],
    "of its own": lambda y: y * 1,
    "as bits": lambda y: y.view(torch.int32),
    "a part as bits": lambda y: y[1:].view(torch.int32),
    "bits as numbers": lambda y: (y.view(torch.int32) + 1).view(torch.float32),
    "as bytes": lambda y: y.view(torch.uint8),
    "as truth": lambda y: y.view(torch.bool),
}


@pytest.mark.parametrize("kind", SHARED)
def test_outputs_that_share_memory(kind):
    def broken(x):
        y = x + 1
        v, w = SHARED[kind](y), y[2:]
        torch._dynamo.graph_break()
        y.mul_(3)
        return v, y, w

    x = torch.linspace(-1, 1, 4)
    for one, other in zip(torch.compile(broken, backend="npusim")(x), broken(x), strict=True):
        assert torch.equal(one, other), (one, other)


def test_outputs_that_share_memory_are_written_in_later_graphs():
    """A base and its views come out of one graph as PyTorch knows them: the next graph may write all of them."""
    views = [lambda y: y[1:], lambda y: y[::2], lambda y: y.view(-1, 1)[:, 0], lambda y: y.flip(0)[:2]]
    for view in views:
        for base_first in (False, True):

            def broken(x):
                y = x + 1
                v = view(y)
                torch._dynamo.graph_break()
                y.mul_(0)
                v.add_(2)
                return (y, v) if base_first else (v, y)

            torch._dynamo.reset()
            x = torch.arange(6.0)
            for found, wanted in zip(torch.compile(broken, backend="npusim")(x), broken(x), strict=True):
                assert torch.equal(found, wanted)


def _bits_of_numbers(x):
    y = x + 0
    return y, y.view(torch.float32)


def _argument_as_truth(x):
    x.add_(1)
    return (x.view(torch.bool),)


def _argument_as_numbers(x):
    v = x.view(torch.float32)
    x.add_(1)
    return v, x


def _written_as_numbers(x):
    y = torch.arange(-3, 1, dtype=torch.int32) + x
    y.view(torch.float32)[:1].fill_(1.0)
    return (y + 0,)


def _integers_in_numbers(x):
    v = torch.empty(4).view(torch.int32)
    v.copy_(x - 3)
    v.add_(1)
    return (v + 0,)


def _written_expanded(x):
    y = x.clone()
    v = y.expand(3, 4)
    v.zero_()
    return v, y


def _argument_expanded(x):
    x.broadcast_to(3, 4).fill_(3)
    return (x + 0,)


LOST = [
    _bits_of_numbers,
    _argument_as_truth,
    _argument_as_numbers,
    _written_as_numbers,
    _integers_in_numbers,
    _written_expanded,
    _argument_expanded,
]


@pytest.mark.parametrize("call", LOST)
def test_writes_and_views_that_are_eagers(call):
    """Bits that numbers do not keep (-3 is a NaN's), and elements that are shown more than once."""
    torch._dynamo.reset()
    ours, theirs = (torch.arange(-3, 1, dtype=torch.int32) for _ in range(2))
    with torch.no_grad():
        found, wanted = torch.compile(call, backend="npusim")(ours), call(theirs)
    for one, other in zip([*found, ours], [*wanted, theirs], strict=True):
        assert one.dtype == other.dtype and one.clone().untyped_storage().tolist() == other.clone().untyped_storage().tolist()


# Layers, each with the shape that it takes of 24 elements: what PyTorch makes them of may write in place.
LAYERS = {
    "GRUCell": (lambda: torch.nn.GRUCell(4, 4), (6, 4)),
    "LSTMCell": (lambda: torch.nn.LSTMCell(4, 4), (6, 4)),
    "RNNCell": (lambda: torch.nn.RNNCell(4, 4), (6, 4)),
    "GRUCell without bias": (lambda: torch.nn.GRUCell(4, 4, bias=False), (6, 4)),
    "GRU": (lambda: torch.nn.GRU(4, 4, batch_first=True), (2, 3, 4)),
    "LSTM": (lambda: torch.nn.LSTM(4, 4, 2, bidirectional=True), (2, 3, 4)),
    "MultiheadAttention": (lambda: torch.nn.MultiheadAttention(4, 2), (2, 3, 4)),
    "TransformerEncoderLayer": (lambda: torch.nn.TransformerEncoderLayer(4, 2, 8).eval(), (2, 3, 4)),
    "BatchNorm1d": (lambda: torch.nn.BatchNorm1d(3).eval(), (2, 3, 4)),
    "GroupNorm": (lambda: torch.nn.GroupNorm(3, 3), (2, 3, 4)),
    "Hardswish": (lambda: torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Hardswish(inplace=True)), (6, 4)),
    "MaxPool1d": (lambda: torch.nn.MaxPool1d(2), (2, 3, 4)),
}
BEFORE = {
    "reshape": lambda x, shape: x.reshape(shape),
    "view": lambda x, shape: x.view(shape),
    "flatten": lambda x, shape: x.flatten().unflatten(0, shape),
    "permute": lambda x, shape: x.permute(2, 0, 1).reshape(shape),
    "contiguous": lambda x, shape: x.transpose(0, 1).contiguous().view(shape),
    "windows": lambda x, shape: x.unfold(2, 4, 4).reshape(shape),
}
BEHIND = {"as it is": lambda y: y, "flat": lambda y: y.reshape(-1), "turned": lambda y: y.transpose(0, -1).flatten()}


@pytest.mark.parametrize("name", LAYERS)
def test_layers_behind_views(name, caplog):
    """Writes of a layer that nothing shows otherwise are no reason to leave a graph to eager PyTorch."""
    make, shape = LAYERS[name]
    layer, x = make(), torch.randn(2, 3, 4)
    operands = 3 if name == "MultiheadAttention" else 1
    for before, behind in itertools.product(BEFORE.values(), BEHIND.values()):
        torch._dynamo.reset()

        def call(x, before=before, behind=behind):
            found = layer(*[before(x, shape)] * operands)
            return behind(torch.utils._pytree.tree_leaves(found)[0])

        with torch.no_grad():
            torch.testing.assert_close(torch.compile(call, backend="npusim")(x), call(x), atol=1e-4, rtol=1e-4)
        assert not said(caplog), said(caplog)


def sharings():
    """Ways in which three arguments of four elements lie in a memory of forty, by where they begin; None: each in its own."""
    return [None, (0, 20, 30), (0, 2, 30), (2, 0, 30), (0, 8, 30), (0, 0, 0), (0, 2, 4), (0, 30, 1), (30, 0, 2), (30, 10, 0)]


def in_memory(begins):
    memory = torch.arange(40.0)
    if begins is None:
        return [torch.arange(4.0) + 10 * i for i in range(3)]
    return [memory[begin : begin + 4] for begin in begins]


@pytest.mark.parametrize("first", sharings(), ids=str)
def test_arguments_that_share_otherwise_in_a_later_call(first, caplog):
    """PyTorch guards nothing there, and has wrong results with its own backends."""
    calls = [
        lambda x, y, z: (x.mul_(2), y + z),
        lambda x, y, z: (z.add_(1), y * 2 + x),
        lambda x, y, z: (x.add_(1).sum(), y.mul_(3), x + y),
    ]
    for call, grad in itertools.product(calls, (False, True)):
        torch._dynamo.reset()
        compiled = torch.compile(call, backend="npusim")
        with torch.set_grad_enabled(grad):
            for then in [first, *sharings(), first]:
                ours, theirs = in_memory(then), in_memory(then)
                found, wanted = compiled(*ours), call(*theirs)
                assert all(map(torch.equal, [*found, *ours], [*wanted, *theirs])), then
    warned = sum("share memory otherwise" in line for line in said(caplog))
    assert (0 if first else len(calls)) <= warned <= 2 * len(calls)


SHOWN_TWICE = {
    "unfold": lambda: torch.arange(1.0, 7).unfold(0, 4, 1),
    "strides": lambda: torch.as_strided(torch.arange(1.0, 20), (3, 4), (2, 1)),
    "expand": lambda: torch.arange(1.0, 5)[None].expand(3, 4),
    "dense": lambda: torch.arange(1.0, 13).reshape(3, 4),
}
WRITTEN = {
    "row": lambda x: (x[0].mul_(2), x * 1)[1],
    "column": lambda x: (x[:, :1].copy_(x[:, 1:2] + 1), x + 1)[1],
    "element": lambda x: (x[1, 2:3].add_(5), x.sum())[1],
    "none": lambda x: x * 2,
}


@pytest.mark.parametrize("memory", SHOWN_TWICE)
@pytest.mark.parametrize("write", WRITTEN)
def test_an_argument_that_shows_an_element_twice(memory, write):
    """Captured of such a one, and of a dense one before."""
    make, call = SHOWN_TWICE[memory], WRITTEN[write]
    try:
        wanted, theirs = call(x := make()), x
    except RuntimeError:
        pytest.skip("PyTorch refuses it")
    for first in (make, SHOWN_TWICE["dense"]):
        torch._dynamo.reset()
        compiled = torch.compile(call, backend="npusim")
        with torch.no_grad():
            compiled(first())
            ours = make()
            assert torch.equal(compiled(ours), wanted) and torch.equal(ours, theirs)


def test_arguments_of_one_memory_that_lie_apart(caplog):
    torch._dynamo.reset()
    compiled = torch.compile(lambda x, y: (x.mul_(2), y + 1)[1], backend="npusim")
    memory, apart = torch.ones(8), torch.ones(4, 2)
    with torch.no_grad():
        compiled(torch.ones(4), torch.ones(4))
        assert torch.equal(compiled(memory[:4], memory[4:]), torch.full((4,), 2.0))
        assert torch.equal(memory, torch.tensor([2.0] * 4 + [1.0] * 4))
        assert torch.equal(compiled(apart[:, 0], apart[:, 1]), torch.full((4,), 2.0))
    assert not said(caplog)


def test_arguments_that_are_not_row_major_and_share_memory(caplog):
    torch._dynamo.reset()

    def call(x, y):
        x.add_(1)
        return y * 2

    compiled = torch.compile(call, backend="npusim")
    with torch.no_grad():
        compiled(torch.zeros(4, 8)[:, :3], torch.zeros(4, 8)[:, :3])
        for begin in (1, 2, 3, 5):
            memory = torch.zeros(4, 8)
            found = compiled(memory[:, :3], memory[:, begin : begin + 3])
            assert found.sum() == 2 * 4 * max(3 - begin, 0) and memory.sum() == 12
    assert len(said(caplog)) == 1  # of those that overlap


def test_arguments_that_no_longer_fit_the_memory_that_was_shared():
    torch._dynamo.reset()

    def call(x, y):
        x.add_(1)
        return y * 2

    compiled, memory = torch.compile(call, backend="npusim"), torch.zeros(6)
    with torch.no_grad():
        compiled(memory[:4], memory[2:])
        assert torch.equal(compiled(torch.zeros(4), torch.ones(4)), torch.full((4,), 2.0))


def test_aliases_that_aot_autograd_refuses_are_eagers(caplog):
    def swapped(a, b):
        a.data, b.data = b.data, a.data
        return a + 1, b * 2

    def written(x, y):
        x.mul_(2)
        y.add_(1)
        return x, y

    def parts():
        y = torch.arange(5.0)
        return y.detach()[:3], y.detach()[2:]

    for function, make in ((swapped, lambda: (torch.ones(2), torch.zeros(2))), (written, parts)):
        torch._dynamo.reset()
        found, wanted = torch.compile(function, backend="npusim")(*make()), function(*make())
        assert all(map(torch.equal, found, wanted))


def test_arguments_that_share_in_a_later_call_of_what_checks_itself():
    """Beside its inputs such a graph has tokens of the order of effects."""

    def call(x, y):
        return x.mul_(2).sum(), torch.linalg.inv(torch.diag(y))

    torch._dynamo.reset()
    compiled = torch.compile(call, backend="npusim")
    with torch.no_grad():
        for begins in (None, (2, 0, 30), (0, 2, 30), (0, 20, 30)):
            ours, theirs = ([part.add_(1) for part in in_memory(begins)[:2]] for _ in range(2))
            for found, wanted in zip((*compiled(*ours), *ours), (*call(*theirs), *theirs), strict=True):
                torch.testing.assert_close(found, wanted)


WRITES = [
    lambda e, x: e.add_(x),
    lambda e, _: e.mul_(2.0),
    lambda e, x: e.copy_(x),
    lambda e, _: e.fill_(2.0),
    lambda e, x: torch.sub(x, 1, out=e),
    lambda e, _: e,
    lambda e, _: e.view(-1),
    lambda e, _: e.detach(),
    lambda e, _: e.contiguous(),
    lambda e, _: e[1:],
    lambda e, _: e * 1,
]


@pytest.mark.parametrize("seed", range(30))
def test_one_tensor_that_is_returned_twice_is_one(seed, caplog):
    """As eager PyTorch and aot_eager have it, and views of one memory that are different tensors stay different."""
    draw = random.Random(seed)
    made = draw.choice([lambda x: torch.zeros(3), lambda x: x * 1, lambda x: torch.empty_like(x).copy_(x)])
    steps = draw.choices(WRITES, k=draw.randint(2, 5))

    def call(x):
        e = made(x)
        return [step(e, x) for step in steps] + [x * 2]

    torch.compiler.reset()
    x = torch.tensor([1.0, 2.0, 3.0])
    with torch.no_grad():
        found, expected = torch.compile(call, backend="npusim")(x), call(x)
        ones = torch._dynamo.optimize("aot_eager")(call)(x)
    assert all(map(torch.equal, found, expected)) and not said(caplog)
    for outs in (found, ones):
        assert [[a is b for a in outs] for b in outs] == [[a is b for a in expected] for b in expected]
    for outs in (found, expected):
        outs[0].add_(10)
    assert all(map(torch.equal, found, expected))


# What gives a buffer or an argument other memory, or turns it, and what AOT autograd follows of that in part.
GIVES = {
    "data, turned": lambda v, w: setattr(v, "data", v.T),
    "data, turned and detached": lambda v, w: setattr(v, "data", v.view(2, 2).T.detach()),
    "data of a result": lambda v, w: setattr(v, "data", (v * 2).T),
    "data of another": lambda v, w: setattr(v, "data", w),
    "data of a view": lambda v, w: setattr(v, "data", torch.cat((v, w))[1:3]),
    "set_": lambda v, w: v.set_(v.T),
    "t_": lambda v, w: v.t_(),
    "resize_": lambda v, w: v.t_().resize_(2, 2),
}


@pytest.mark.parametrize("of", ["buffer", "argument", "local"])
@pytest.mark.parametrize("give", GIVES)
def test_what_is_given_other_memory(give, of):
    class Given(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("b", torch.tensor([[1.0, 2], [3, 4]]))

        def forward(self, x, y):
            v = {"buffer": self.b, "argument": y}.get(of)
            v = y * 2 if v is None else v
            GIVES[give](v, x)
            v[0] += 1
            return x + v

    torch._dynamo.reset()
    eager, model = Given(), Given()
    fast = torch.compile(model, backend="npusim")
    with torch.no_grad():
        for run in range(3):
            given = [torch.tensor([[5.0, 6], [7, 8]]) * run, torch.tensor([[1.0, 2], [3, 4]]) + run]
            others = [value.clone() for value in given]
            pairs = [(fast(*given), eager(*others)), *zip(given, others), (model.b, eager.b)]
            assert all(torch.equal(one, other) for one, other in pairs), (run, pairs)
