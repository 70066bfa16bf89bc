"""What export() leaves behind, says and calls things: the model as it was, warnings, names, whose an error is."""

from __future__ import annotations

import collections
import dataclasses
import subprocess
import sys
import types
import warnings
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import npusim
from torch import nn

from modules import Calls

X = torch.linspace(-2, 2, 12).reshape(3, 4)


def told(model: nn.Module, args: tuple[Any, ...], **more: Any) -> tuple[npusim.Exported, list[str]]:
    """The export, and the warnings."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        exported = npusim.export(model, args, **more)
    return exported, [str(one.message) for one in found if one.category is UserWarning]


# ---- the model stays as it was


def everything(value: Any, seen: dict[int, Any] | None = None) -> Any:
    """All that can be reached from a value, as ids and copies that can be compared."""
    seen = {} if seen is None else seen
    if isinstance(value, torch.Tensor):
        return (id(value), value._version, type(value), value.detach().clone().tolist(), value.requires_grad)
    if id(value) in seen:
        return id(value)
    seen[id(value)] = value
    if isinstance(value, dict):
        return (id(value), type(value), [(k, everything(v, seen)) for k, v in value.items()])
    if isinstance(value, (list, tuple, collections.deque)):
        return (id(value), type(value), [everything(v, seen) for v in value])
    if isinstance(value, nn.Module) or dataclasses.is_dataclass(value) or isinstance(value, Holder):
        return (id(value), type(value), everything(vars(value), seen))
    return (id(value), type(value)) if not isinstance(value, (int, float, str, bool, type(None))) else value


class Holder:
    """No module, and holds what forward() computes."""

    def __init__(self) -> None:
        self.value, self.log = None, []


class Sets(nn.Module):
    """Sets all it can: `ways` says what; at the end it may raise."""

    def __init__(self, ways: int, fails: bool) -> None:
        super().__init__()
        self.ways, self.fails = ways, fails
        self.inner = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
        self.register_buffer("kept", torch.ones(4))
        self.register_buffer("none", None)
        self.plain = torch.zeros(4)
        self.table, self.rows, self.holder = {"a": {"b": 1}}, collections.deque([1]), Holder()
        self.pair = (self.rows, [torch.ones(2)])
        self.names = {"x"}
        self.inner.register_forward_hook(lambda *_: None)

    def forward(self, x):
        y = self.inner(x)
        steps = [
            lambda: setattr(self, "last", y * 2),
            lambda: setattr(self, "plain", y[0]),
            lambda: self.table["a"].update(b=y),
            lambda: self.rows.append(y),
            lambda: setattr(self.holder, "value", {"y": y}),
            lambda: self.holder.log.append(x),
            lambda: setattr(self.inner[0], "seen", (y, x)),
            lambda: self.names.add("y"),
            lambda: self.pair[1].append(y),
            lambda: setattr(self, "kept", self.kept + y[0]),
            lambda: self.inner.eval(),
            lambda: setattr(self, "none", y[0]),
            lambda: self.inner.register_forward_hook(lambda *_: None),
            lambda: delattr(self, "plain"),
        ]
        for i, step in enumerate(steps):
            if self.ways >> i & 1:
                step()
        if self.fails:
            raise ValueError("enough")
        return y + self.kept


@pytest.mark.parametrize("seed", range(6))
def test_the_model_stays_as_it_was(seed):
    random = np.random.default_rng(seed)
    ways = int(random.integers(0, 2**14)) if seed else 2**13 - 1
    for fails in (False, True):
        model = Sets(ways, fails).train(bool(random.integers(0, 2)))
        before, state = everything(model), torch.get_rng_state()
        try:
            told(model, (X,))
        except npusim.UnsupportedError as error:
            assert fails == ("raises ValueError: enough" in str(error)), error
        assert everything(model) == before
        assert torch.equal(torch.get_rng_state(), state)


def test_what_forward_sets_is_told():
    class Remembers(nn.Module):
        def __init__(self):
            super().__init__()
            self.last, self.seen = torch.zeros(4), {}

        def forward(self, x):
            y = x[0] + self.last
            self.last, self.seen["y"] = y, y
            return y

    _, texts = told(Remembers(), (X,))
    assert len(texts) == 1 and "forward() sets last, seen.y" in texts[0]
    assert told(nn.Linear(4, 4), (X,))[1] == []


@pytest.mark.parametrize("before, now", [(True, False), (0, 1), (0.5, 0.25), (None, 3), ("a", "b"), (True, 1)])
def test_plain_values_that_forward_sets_are_told(before, now):
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.part = nn.Linear(4, 4)
            self.part.now, self.same, self.listed = before, now, [before]

        def forward(self, x):
            y = self.part(x) * (2.0 if self.part.now == before else 3.0)
            self.part.now, self.same = now, now
            return y

    model = Counts()
    _, texts = told(model, (X,))
    assert len(texts) == 1 and "forward() sets part.now: a program" in texts[0]
    assert model.part.now is before


def test_recurrent_layers_set_nothing():
    assert told(nn.LSTM(4, 4), (X[None],))[1] == []
    assert told(nn.GRU(4, 4, num_layers=2), (X[None],))[1] == []


# ---- train()


@pytest.mark.parametrize(
    ("layer", "what"),
    [
        (nn.Dropout(0.5), "0 (Dropout) drops elements"),
        (nn.BatchNorm1d(4), "0 (BatchNorm1d) normalises by the batch"),
        (nn.RReLU(), "0 (RReLU) draws slopes"),
        (nn.AlphaDropout(0.1), "0 (AlphaDropout) drops elements"),
        (nn.TransformerEncoderLayer(4, 2, 8), "drops elements"),
        (nn.Dropout(0.0), ""),
        (nn.LayerNorm(4), ""),
    ],
)
def test_training_is_told(layer, what):
    model = nn.Sequential(layer).train()
    _, texts = told(model, (X,))
    assert (len(texts) == 1 and "the model is in train()" in texts[0] and what in texts[0]) if what else not texts
    assert model.training and told(model.eval(), (X,))[1] == []


def test_the_command_line_tells_it_too(tmp_path):
    source = tmp_path / "net.py"
    source.write_text("import torch\ndef make():\n    return torch.nn.Dropout(0.5), (torch.ones(2),)\n")
    command = [sys.executable, "-m", "npusim", "export", f"{source}:make", "-o", str(tmp_path / "out")]
    env = {"PYTHONPATH": ":".join(sys.path), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=env)
    assert "warning: the model is in train(): Dropout (Dropout) drops elements" in done.stderr


# ---- names


@dataclasses.dataclass
class Given:
    input: torch.Tensor
    more: list


NAMES = ("input", "filter", "id", "type", "max", "generator", "object", "hash", "abs", "sum", "len", "map", "range", "iter")


def test_arguments_called_as_python_calls_things():
    given = ", ".join(NAMES)
    scope: dict[str, Any] = {}
    body = f"    y = torch.zeros(4)\n    y[0] = 1\n    for value in ({given}):\n        value += 1\n        y = y * 2 + value[0]\n"
    exec(f"import torch\ndef forward(self, {given}):\n{body}    return y[y > -1e9], y + torch.randn(4) * 0", scope)
    model = type("Called", (nn.Module,), {"forward": scope["forward"]})()
    args = tuple(torch.full((1, 4), float(i)) for i in range(len(NAMES)))
    exported, _ = told(model, tuple(arg.clone() for arg in args))
    assert [tensor["name"] for tensor in exported.ir["graph_inputs"]] == list(NAMES)
    found = npusim.Session(npusim.compile(exported, dtype="float32")).run(*args)
    expected = model(*(arg.clone() for arg in args))
    for i, value in enumerate(expected):
        np.testing.assert_allclose(found[f"output_{i}"], value, rtol=1e-5)
    for i, name in enumerate(NAMES):
        assert (found[f"{name}_next"] == i + 1).all()


def test_arguments_of_every_kind():
    class Every(nn.Module):
        def forward(self, input, /, filter, *args, max, id=None, **kwargs):
            whole = args[0]["type"] + args[1].input + args[1].more[1] + (0 if id is None else id)
            return {"min": input * filter + whole, "self": max + kwargs["hash"]["len"][0]}

    args = (X, X + 1, {"type": X}, Given(X * 2, [None, X * 3]))
    kwargs = {"max": X - 1, "hash": {"len": [X * 5]}}
    exported, _ = told(Every(), args, kwargs=kwargs)
    found = npusim.Session(npusim.compile(exported, dtype="float32")).run(X, X + 1, X, X * 2, X * 3, X - 1, X * 5)
    for name, value in Every()(*args, **kwargs).items():
        np.testing.assert_allclose(found[name], value, rtol=1e-5)


# ---- errors that a model catches


class Catches(nn.Module):
    """Gives its parts an argument that some of them do not take."""

    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(4, 4)

        def forward(self, x, scale):
            if x.shape[0] > 2:
                x = self.inner(x) * scale
            if scale.dim():
                raise ValueError("behind a part of its own")
            return x

    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList([nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4), nn.Tanh()), self.Scaled()])

    def forward(self, x, scale):
        for part in self.parts:
            try:
                x = part(x, scale)
            except TypeError:
                x = part(x)
            except ValueError:
                x = x * scale
        return x


@pytest.mark.parametrize("scale", [torch.tensor([2.0]), torch.tensor(2.0)])
def test_a_model_may_catch_what_its_parts_raise(scale):
    model = Catches().eval()
    found = npusim.Session(npusim.compile(npusim.export(model, (X, scale)), dtype="float32")).run(X, scale)["output"]
    assert np.allclose(found, model(X, scale).detach().numpy(), atol=1e-5)


# ---- whose an error is


class Fails(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def raises_itself(x):
    raise KeyError("none")


def not_traced(x):
    return x * len(str(x.numpy()))


def ends_behind_a_branch(x):
    if x.sum() > 1e9:
        x = x + 1
    return not_traced(x)


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (ends_behind_a_branch, r"1e9:\): GuardOn.* of the example it goes on and ends, at .*numpy\(\)"),
        (raises_itself, r"its forward\(\) raises KeyError: 'none', at test_exporting.py:\d+"),
        (not_traced, r"torch.export of PyTorch .*, not npusim, does not trace it, at test_exporting.py:\d+"),
        (lambda x: x @ x, r"torch.export .* at test_exporting.py:\d+.*"),
        (lambda x: (x + 1j)[0], r"output 'output': is complex64: expected real numbers: return torch.view_as_real"),
    ],
)
def test_errors_say_whose_they_are(function, text):
    with pytest.raises(npusim.UnsupportedError, match=text):
        npusim.export(Fails(function), (X,))


class Named(torch.Tensor):
    pass


@pytest.mark.parametrize("function", [lambda x: x.as_subclass(Named) * 2, lambda x: torch.Tensor.as_subclass(x, Named).sin()])
def test_what_eager_pytorch_takes_is_no_error_of_forward(function):
    with pytest.raises(npusim.UnsupportedError, match=r"torch.export .* does not trace it, at test_exporting.py:\d+"):
        npusim.export(Fails(function), (X,))


class HoldsSparse(torch.nn.Module):
    """Reads or makes sparse tensors; those that nobody reads are no matter."""

    def __init__(self, kind):
        super().__init__()
        self.kind = kind
        self.adjacent = torch.eye(3).to_sparse()
        self.several = {"of": [torch.eye(3).to_sparse()]}
        self.register_buffer("kept", torch.eye(3).to_sparse())

    def forward(self, x):
        if self.kind == "attribute":
            return torch.sparse.mm(self.adjacent, x)
        if self.kind == "in a dict":
            return self.several["of"][0] @ x
        if self.kind == "buffer":
            return self.kept @ x
        if self.kind == "made":
            return torch.sparse_coo_tensor(torch.tensor([[0, 1], [1, 2]]), x[0, :2], (3, 3)) @ x
        if self.kind == "turned":
            return x.to_sparse().to_dense() + x.to_sparse_csr().to_dense()
        return x * 2


SPARSE = {
    "attribute": r"'adjacent': is torch.sparse_coo: .* where test_exporting.py:\d+ \(return torch.sparse.mm\(self.adjacent, x\)\)",
    "in a dict": r"is torch.sparse_coo: .*, where test_exporting.py:\d+ \(return self.several\[\"of\"\]\[0\] @ x\) reads it",
    "buffer": r"'kept': is torch.sparse_coo: .*, where test_exporting.py:\d+ \(return self.kept @ x\) reads it",
    "made": r"^test_exporting.py:\d+ \(return torch.sparse_coo_tensor\(.*\): its result is torch.sparse_coo: expected a dense one",
    "turned": r"^test_exporting.py:\d+ \(return x.to_sparse.*\): its result is torch.sparse_coo(.|\n)* its result is torch.sparse_csr",
}


@pytest.mark.parametrize("kind", SPARSE)
def test_sparse_tensors_are_refused_by_line(kind):
    with pytest.raises(npusim.UnsupportedError, match=SPARSE[kind]):
        npusim.export(HoldsSparse(kind), (torch.randn(3, 3),))


def test_sparse_tensors_that_nobody_reads():
    npusim.export(HoldsSparse("none"), (torch.randn(3, 3),))


class Draws(torch.nn.Module):
    """With a generator of its own."""

    def __init__(self, made):
        super().__init__()
        self.generator = None if made else torch.Generator()

    def forward(self, x):
        generator = self.generator or torch.Generator().manual_seed(3)
        for _ in range(5):
            x = x + torch.rand(x.shape, generator=generator)
        x = x + torch.randn(x.shape, generator=generator)
        return x.clone().normal_(generator=generator) + x


@pytest.mark.parametrize("made", [False, True])
def test_generators_of_a_model_are_refused_by_line(made):
    with pytest.raises(npusim.UnsupportedError, match=r"torch.rand\(.*a generator of its own.*session.seed\(n\)") as refused:
        npusim.export(Draws(made), (X,))
    assert len(refused.value.problems) == 3


def test_a_warning_names_a_few():
    def forward(x):
        for row in x:
            if row.sum() > 0:
                x = x + 1
        return x

    with pytest.warns(UserWarning, match="made for") as warned:
        exported = npusim.export(Fails(forward), (torch.arange(48.0).reshape(12, 4) - 20.5,))
    text = str(warned[0].message)
    assert len(exported.made_for) > 6 and all(named in text for named in exported.made_for[:5])
    assert text.endswith(f"; {len(exported.made_for) - 5} others, in Exported.made_for")


def test_refused_values_have_their_shape():
    """What is refused is named, whatever is done with its results."""

    def inverse(x):
        return torch.view_as_real(torch.linalg.inv(x[:, :3] + 0j))[2, 1, 1]

    with pytest.raises(npusim.UnsupportedError, match="has no form for complex numbers"):
        npusim.export(Fails(inverse), (X,))


# ---- layouts


LAYOUTS = {
    "expanded": lambda: torch.randn(1, 4).expand(3, 4),
    "transposed": lambda: torch.randn(4, 3).t(),
    "strided": lambda: torch.randn(6, 8)[::2, ::2],
    "offset": lambda: torch.randn(5, 4)[2:],
    "scalar": lambda: torch.randn(()).expand(3, 4),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_of_arguments_and_weights(layout):
    class Read(nn.Module):
        def __init__(self, weight):
            super().__init__()
            self.weight = nn.Parameter(weight)
            self.register_buffer("kept", weight.detach())

        def forward(self, x):
            y = (x * self.weight).relu() + self.kept.t().reshape(3, 4)
            y.reshape(-1, 2).add_(x.flatten()[:2])
            return y, x.reshape(-1)

    torch.manual_seed(0)
    model, x = Read(LAYOUTS[layout]()), LAYOUTS[layout]()
    found = npusim.Session(npusim.compile(model, (x,), dtype="float32")).run(x)
    for i, value in enumerate(model(x)):
        np.testing.assert_allclose(found[f"output_{i}"], value.detach(), rtol=1e-5)
    backward = np.ones((3, 4), "float32")[::-1]  # strides that are negative: read as it lies or copied, the numbers are its
    again = npusim.Session(npusim.compile(model, (x,), dtype="float32")).run(backward)
    np.testing.assert_allclose(again["output_1"], np.ones(12))


def test_counts_that_are_given():
    program = npusim.compile(Fails(lambda x: torch.repeat_interleave(x, x[:, 0].int(), 0, output_size=5)), (X.abs(),))
    counts = torch.tensor([[2.0, 1], [0, 1], [3, 1]])
    found = npusim.Session(program).run(torch.cat([counts, counts], 1))["output"]
    assert (found[:, 0] == [2, 2, 3, 3, 3]).all()
    with pytest.raises(npusim.Error, match="assertion does not hold"):
        npusim.Session(program).run(torch.cat([counts + 1, counts], 1))


def test_what_a_function_closes_over_stays_as_it_was():
    """A module may call others that none of its attributes hold: by a closure or a bound method."""

    class Inner(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.held = torch.nn.Linear(3, 3), types.SimpleNamespace(last=None)

        def forward(self, x):
            self.held.last = self.layer(x)
            return self.held.last * 2

    for call in (lambda inner: lambda x: inner(x), lambda inner: inner.forward):
        inner = Inner()
        x = torch.randn(2, 3)
        inner(x)
        before = inner.held.last
        npusim.export(Calls(call(inner)), (x,))
        assert inner.held.last is before


# ---- arguments that are one array in the example


def shares_whole(x, y):
    return x.mul_(2), x + y


def shares_part(x, y):
    return y.add_(100), x.sum() + 1


@pytest.mark.parametrize("function", [shares_whole, shares_part])
def test_a_write_that_another_argument_shows(function):
    """Each input is an array of its own: what eager PyTorch shows of a write in the other one would be missing."""
    t = torch.arange(6.0)
    for args in ((t, t), (t, t.view(6)), (t[1:4], t[3:])):
        with pytest.raises(npusim.UnsupportedError, match="input 'args_1': shares memory with 'args_0' in the example"):
            npusim.export(Calls(function), args)
    session = npusim.Session(npusim.compile(Calls(function), (t[:3], t[3:]), dtype="float32"))  # beside each other
    expected = function(t[:3].clone(), t[3:].clone())
    assert np.allclose(session.run(t[:3].clone(), t[3:].clone())["output_1"], expected[1])
    npusim.export(Calls(lambda x, y: x + y), (t, t))  # nothing is written
    npusim.export(Calls(lambda x, y: (x.mul_(2), y.sum())), (t, t[2:2]))  # nothing is shown


def test_a_write_that_a_weight_shows():
    class Adds(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("h", torch.ones(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.h.add_(1)
            return x * 1

    model = Adds()
    with pytest.raises(npusim.UnsupportedError, match="input 'x': shares memory with 'h' in the example"):
        npusim.export(model, (model.h,))


# ---- what ends within PyTorch


def test_pytorch_is_as_before_when_tracing_ends():
    """Within a transformation of torch.func, which PyTorch does not leave then."""
    net = nn.Linear(3, 2)
    for strict in (False, True):
        with pytest.raises(npusim.UnsupportedError, match=r"torch\.compile\(model, backend=\"npusim\"\)|does not trace it"):
            npusim.export(Calls(lambda x: torch.func.jacfwd(net)(x)), (torch.randn(3),), strict=strict)
        assert torch._C._functorch.get_dynamic_layer_stack_depth() == 0
        torch.ones(3).numpy()


class Held(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.t = torch.ones(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.t += 1
        return self.t * x


def through_a_conjugate(x):
    z = torch.complex(x, x.roll(1))
    z.conj().mul_(2)
    return z.imag


@pytest.mark.parametrize(
    ("model", "said"),
    [(Held(), "changes 't' in place"), (Calls(through_a_conjugate), "not npusim, does not trace it")],
    ids=["a tensor that is no buffer", "a conjugate"],
)
def test_what_pytorch_does_not_functionalise(model, said):
    with pytest.raises(npusim.UnsupportedError, match=said):
        npusim.export(model, (X,))


def test_advice_that_has_been_taken():
    with pytest.raises(npusim.UnsupportedError) as found:
        npusim.export(Calls(lambda x: x.unsqueeze_(0) + 1), (torch.ones(3),), strict=True)
    assert "strict=True" not in str(found.value)


def padded(x):
    try:
        y = nn.functional.pad(x, (8, 8), mode="reflect")
    except RuntimeError:
        y = nn.functional.pad(x, (8, 8))
    return y * 2


def by_a_product(x):
    try:
        return x @ x
    except RuntimeError:
        return x @ x.t()


@pytest.mark.parametrize("function", [padded, by_a_product])
def test_errors_that_forward_catches(function):
    x = torch.randn(3, 5)
    found = npusim.Session(npusim.compile(Calls(function), (x,), dtype="float32")).run(x)["output"]
    assert np.allclose(found, function(x), atol=1e-5)


def test_numbers_of_elements_whose_place_values_decide():
    def picked(h, x):
        return x * h[x.argmax().item()].item() + h[x.argmin()].item()

    for h in (torch.randint(0, 5, (5,)), torch.randn(5)):
        session = npusim.Session(npusim.compile(Calls(picked), (h, torch.randn(5)), dtype="float32"))
        for _ in range(3):
            x = torch.randn(5)
            assert np.allclose(session.run(h, x)["output"], picked(h, x), atol=1e-5)


def at_a_number(x):
    y = x.clone()
    y[:, (x.argmax() % 3).item()] = x[:, 0]
    return y


@pytest.mark.parametrize("strict", [False, True])
def test_what_helps_is_said(strict):
    """Of an index that dynamo does not trace, and of what torch.export gives without values."""
    if strict:
        with pytest.raises(npusim.UnsupportedError, match=r"What helps: an index that is a tensor or a slice") as told:
            npusim.export(Calls(at_a_number), (torch.randn(2, 3),), strict=strict)
        assert "strict=True" not in str(told.value)
    else:
        session = npusim.Session(npusim.compile(Calls(at_a_number), (torch.randn(2, 3),), dtype="float32"))
        for _ in range(5):
            x = torch.randn(2, 3)
            assert np.array_equal(session.run(x)["output"], at_a_number(x).numpy())
    left = "torch.export left its tracer's tensor, without values. What helps: torch.compile"
    with pytest.raises(npusim.UnsupportedError, match=left):
        npusim.export(Calls(lambda x: torch.func.grad(lambda t: (t * t).sum())(x)), (torch.randn(3),), strict=strict)


ENERGY = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))


def force(x):
    with torch.enable_grad():
        x = x.clone().requires_grad_(True)
        return torch.autograd.grad(ENERGY(x).sum(), x)[0]


def force_and_energy(x):
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        energy = ENERGY(x).sum()
        return torch.autograd.grad(energy, x, create_graph=True)[0] * -1


def backward(x):
    with torch.enable_grad():
        x = x.clone().requires_grad_(True)
        ENERGY(x).sum().backward()
        return x.grad


def of_a_parameter(x):
    with torch.set_grad_enabled(True):
        y = torch.nn.Parameter(x.clone())
        return torch.autograd.grad(ENERGY(y).sum(), [y])[0]


def where_gradients_are_on(x):
    x = x.clone().requires_grad_(True)
    return torch.autograd.grad(ENERGY(x).sum(), x)[0]


def jacobian(x):
    return torch.autograd.functional.jacobian(lambda y: ENERGY(y).sum(), x)


def transformed(x):
    return torch.func.grad(lambda y: ENERGY(y).sum())(x)


GRADIENTS = [force, force_and_energy, backward, of_a_parameter, where_gradients_are_on, jacobian, transformed]


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("function", GRADIENTS)
def test_gradients_are_refused_by_line(function, strict):
    """With what helps, and without what does not."""
    torch._dynamo.reset()
    with pytest.raises(npusim.UnsupportedError, match=r"gradient, at test_exporting.py:\d+ \(.*What helps: torch.compile") as told:
        npusim.export(Fails(function), (torch.randn(2, 3),), strict=strict)
    assert "strict=True" not in str(told.value)


@pytest.mark.parametrize("function", GRADIENTS)
def test_what_helps_gradients_does(function):
    torch._dynamo.reset()
    x = torch.randn(2, 3)
    found = torch.compile(Fails(function), backend="npusim")(x)
    torch.testing.assert_close(found, function(x), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("given", [["-o", "d", "--output", "e"], ["-o", "d", "--strict", "--strict"]])
def test_an_option_is_given_once(given):
    from npusim.__main__ import export_verb

    with pytest.raises(npusim.UsageError, match="(-o/--output|--strict): expected once, found twice"):
        export_verb(["net.py:model", *given])


UNNAMED = """
class Count:
    def __init__(self):
        self.n, self.seen = 0, []

class Part(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("h", torch.zeros(3))
        self.kept, self.count, self.calls = torch.zeros(3), Count(), 0
        held = [torch.zeros(3)]
        def add(x):
            held[0] = held[0] + x
            return held[0]
        self.add, self.held = add, lambda: held[0]

    def forward(self, x):
        self.h = self.h + x
        self.calls += 1
        self.count.n += 1
        self.count.seen.append(x)
        self.kept = self.kept + x
        return self.h * 2 + self.add(x)
"""


@pytest.mark.parametrize("names", [{}, {"__name__": "builtins"}, {"__name__": "a_model"}], ids=str)
@pytest.mark.parametrize("within", [False, True])
def test_classes_without_a_module_stay_as_they_were(names, within):
    scope = {"torch": torch, **names}
    exec(UNNAMED, scope)
    part = scope["Part"]()
    model = torch.nn.Sequential(part) if within else part
    with warnings.catch_warnings(action="ignore"):
        npusim.export(model, (torch.ones(3),))
    assert not part.h.any() and not part.kept.any() and not part.held().any()
    assert part.calls == 0 and part.count.n == 0 and not part.count.seen


class Plain(torch.nn.Module):
    """Tensors that are no buffers, in an attribute, a list and a part."""

    def __init__(self, write):
        super().__init__()
        self.h, self.held, self.write = torch.zeros(3), [torch.zeros(3)], write
        self.part = torch.nn.Module()
        self.part.g = torch.zeros(3)

    def forward(self, x):
        self.write(self, x)
        return self.h * 2 + self.held[0] + self.part.g


def write_and_branch(model, x):
    if x.sum() > 0:
        model.part.g.copy_(x)


WRITES_TO_PLAIN = [
    ("h", lambda m, x: m.h.mul_(0.5).add_(x)),
    ("h", lambda m, x: m.h[1:].copy_(x[1:])),
    ("h", lambda m, x: m.h.__setitem__(0, x[1])),
    ("h", lambda m, x: torch.add(x, 1, out=m.h)),
    ("held", lambda m, x: m.held[0].add_(x)),
    ("part.g", lambda m, x: m.part.g.fill_(2)),
    ("part.g", lambda m, x: torch._foreach_add_([m.part.g], 1)),
    ("part.g", write_and_branch),
]


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(("name", "write"), WRITES_TO_PLAIN)
def test_plain_tensors_that_are_changed_are_to_be_buffers(name, write, strict):
    if strict and write is write_and_branch:
        pytest.skip("dynamo ends at the branch")
    with pytest.raises(npusim.UnsupportedError) as told:
        npusim.export(Plain(write), (torch.ones(3),), strict=strict)
    said = str(told.value)
    assert f"changes '{name}' in place, at test_exporting.py:" in said and "another way" not in said and "fixed=" not in said
    assert f'What helps: a buffer, self.register_buffer("{name.rpartition(".")[2]}", …)' in said and "strict=True" not in said


class Strange:
    def __init__(self, x):
        self.x = x


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(("forward", "given"), [(Strange, torch.ones(3)), (lambda x: x.x * 2, Strange(torch.ones(3)))])
def test_classes_that_pytorch_does_not_know_are_to_be_registered(forward, given, strict):
    with pytest.raises(npusim.UnsupportedError, match=r"What helps: a list, tuple, dict or dataclass in its place, or "):
        npusim.export(Calls(forward), (given,), strict=strict)


LAZY = {
    "LazyLinear": ((2, 3), ["parameter '0.weight'", "parameter '0.bias'"]),
    "LazyConv1d": ((2, 3, 4), ["parameter '0.weight'"]),
    "LazyConvTranspose2d": ((2, 3, 4, 4), ["parameter '0.weight'"]),
    "LazyBatchNorm1d": ((2, 3), ["parameter '0.weight'", "buffer '0.running_mean'", "buffer '0.running_var'"]),
    "LazyInstanceNorm2d": ((2, 3, 4, 4), ["buffer '0.running_var'"]),
}


@pytest.mark.parametrize("name", LAZY)
def test_weights_without_a_shape_are_refused_by_name(name):
    shape, weights = LAZY[name]
    given = {"LazyLinear": [5], "LazyInstanceNorm2d": []}.get(name, [4, 2] if "Conv" in name else [])
    options = {"affine": True, "track_running_stats": True} if "Norm" in name else {}
    model, x = torch.nn.Sequential(getattr(torch.nn, name)(*given, **options)).eval(), torch.randn(shape)
    for function in (npusim.export, npusim.compile, npusim.partition):
        with pytest.raises(npusim.UsageError, match="Run the model once before") as told:
            function(model, (x,))
        assert all(weight in str(told.value) for weight in weights)
    with torch.no_grad():
        wanted = model(x)
        found = npusim.Session(npusim.compile(model, (x,), dtype="float32")).run(x)["output"]
    assert np.allclose(found, wanted.numpy(), atol=1e-5)


def test_torch_compile_initialises_lazy_modules():
    torch._dynamo.reset()
    model, x = torch.nn.Sequential(torch.nn.LazyLinear(5), torch.nn.LazyBatchNorm1d()).eval(), torch.randn(2, 3)
    with torch.no_grad():
        assert torch.allclose(torch.compile(model, backend="npusim")(x), model(x), atol=1e-5)


@pytest.mark.parametrize("name", ["float64", "double"])
def test_what_computes_in_float64_is_said(name):
    model, x = torch.nn.Linear(2, 3).double(), torch.randn(4, 2, dtype=torch.float64)
    with pytest.raises(npusim.UsageError, match='models of float64 compute in it with dtype="float32"') as told:
        npusim.compile(model, (x,), dtype=name)
    assert "did you mean" not in str(told.value)
    found = npusim.Session(npusim.compile(model, (x,), dtype="float32")).run(x)["output"]
    assert found.dtype == np.float64 and np.allclose(found, model(x).detach().numpy(), rtol=1e-14)
