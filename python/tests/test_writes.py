"""Writes to weights that PyTorch does not count, and tensors that take the place of others: nothing runs with what was."""

import copy
import gc
import threading
import warnings
import weakref

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import npusim
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune

X = torch.randn(3, 8, generator=torch.Generator().manual_seed(0))
SAID = r"weight '[\w.]+': (was changed after this session was made|is not the model's any more)"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 64)
        self.norm = nn.BatchNorm1d(64)
        self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(2))
        self.register_buffer("scale", torch.ones(64))

    def forward(self, x):
        x = self.norm(self.first(x)).relu()
        for layer in self.layers:
            x = layer(x).tanh()
        return x * self.scale


def made(model, *args):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return npusim.Session(npusim.compile(model, args or (X,), dtype="float32"), threads=1)


def check_refused(session, *args):
    for one in (session, session.sibling()):
        with pytest.raises(npusim.UsageError, match=SAID):
            one.run(*(args or (X,)))


def check_runs(session, model, *args):
    args = args or (X,)
    with torch.no_grad():
        assert np.allclose(session.run(*args)["output"], model(*args).numpy(), atol=1e-4)


def set_gradients(parameters):
    for parameter in parameters:
        parameter.grad = torch.randn_like(parameter)


KINDS = [{"fused": True}, {"foreach": True}, {"foreach": False}]
OPTIMIZERS = [one for one in vars(torch.optim).values() if isinstance(one, type) and one is not torch.optim.Optimizer]


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=lambda one: one.__name__)
def test_optimizers(optimizer, kind):
    model = Net().eval()
    of = [*model.layers.parameters()]
    if optimizer is getattr(torch.optim, "Muon", None):
        of = [one for one in of if one.dim() == 2]
    try:
        steps = optimizer(of, lr=1e-2, **kind)
    except (TypeError, RuntimeError) as error:
        pytest.skip(str(error))
    session = made(model)
    check_runs(session, model)
    set_gradients(of)
    if optimizer is torch.optim.SparseAdam:
        of[0].grad = of[0].grad.to_sparse()
        of[1].grad = of[2].grad = of[3].grad = None
    try:
        steps.step(*([lambda: torch.tensor(1.0)] if optimizer is torch.optim.LBFGS else []))
    except RuntimeError as error:  # of kinds that PyTorch has not on the CPU
        pytest.skip(str(error))
    check_refused(session)
    check_runs(npusim.Session(session.program), model)


def train(model):
    model.train()(X)
    model.eval()


def half(model):
    model.half()
    assert model.first.weight.dtype == torch.float16


def replaced_in_place(model):
    model.first.weight.data = torch.randn(64, 8)


def turned(model):
    model.layers[0].weight.data = model.layers[0].weight.data.t()


def swapped(model):
    a, b = model.layers[0].weight, model.layers[1].weight
    a.data, b.data = b.data, a.data


def as_array_of(model):
    model.layers[1].weight.detach().numpy()[...] *= 2


def by_dlpack(model):
    np.from_dlpack(model.layers[1].bias.detach()).__array_interface__  # read-only there, as NumPy has it
    torch.from_dlpack(model.layers[1].bias.detach()).numpy()[:] = 3


CHANGES = {
    "running statistics": train,
    "data": lambda model: model.first.weight.data.mul_(1.5),
    "data of all": lambda model: [one.data.add_(1) for one in model.parameters()],
    "data, assigned": replaced_in_place,
    "data, transposed": turned,
    "data, swapped": swapped,
    "numpy": as_array_of,
    "dlpack": by_dlpack,
    "half": half,
    "double": lambda model: model.double(),
    "assign": lambda model: model.load_state_dict(Net().state_dict(), assign=True),
    "parameter": lambda model: setattr(model.first, "weight", nn.Parameter(torch.randn(64, 8))),
    "turned parameter": lambda model: setattr(model.layers[0], "weight", nn.Parameter(model.layers[0].weight.data.t())),
    "buffer": lambda model: setattr(model, "scale", torch.full((64,), 2.0)),
    "no bias": lambda model: setattr(model.first, "bias", None),
    "module": lambda model: setattr(model, "first", nn.Linear(8, 64)),
    "module in a list": lambda model: model.layers.__setitem__(1, nn.Linear(64, 64)),
    "parametrization": lambda model: parametrizations.weight_norm(model.layers[0]),
    "orthogonal": lambda model: parametrizations.orthogonal(model.layers[0]),
    "pruning": lambda model: prune.l1_unstructured(model.layers[0], "weight", 0.5),
    "inference mode": lambda model: torch.inference_mode()(model.first.weight.mul_)(2),
    "NaN": lambda model: model.first.weight.data.fill_(float("nan")),
    "shared memory": lambda model: model.share_memory(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_changes(change):
    torch.manual_seed(1)
    model = Net().eval()
    session = made(model)
    check_runs(session, model)
    with torch.no_grad():
        CHANGES[change](model)
    check_refused(session)


def with_data_of_their_own(model):
    for one in (*model.parameters(), *model.buffers()):
        one.data = one.data.clone()


def with_other_parameters(model):
    for module in model.modules():
        for name, one in list(module.named_parameters(recurse=False)):
            setattr(module, name, nn.Parameter(one.detach().clone()))
        for name, one in list(module.named_buffers(recurse=False)):
            setattr(module, name, one.clone())


MOVED = {
    "there and back": lambda model: model.double().float(),
    "data": with_data_of_their_own,
    "parameters": with_other_parameters,
    "assign": lambda model: model.load_state_dict(copy.deepcopy(model.state_dict()), assign=True),
    "twice": lambda model: (with_other_parameters(model), with_data_of_their_own(model)),
}


@pytest.mark.parametrize("change", [*(name for name in CHANGES if name != "shared memory"), "fused optimizer"])
@pytest.mark.parametrize("move", MOVED)
def test_changes_of_what_has_other_memory(move, change):
    torch.manual_seed(1)
    model = Net().eval()
    session = made(model)
    check_runs(session, model)
    for _ in range(2):
        MOVED[move](model)
        check_runs(session, model)
    if change == "fused optimizer":
        set_gradients(model.parameters())
        torch.optim.Adam(model.parameters(), lr=0.2, fused=True).step()
    else:
        with torch.no_grad():
            CHANGES[change](model)
    check_refused(session)


def test_what_replaces_before_the_session_is_made():
    model = Net().eval()
    program = npusim.compile(model, (X,), dtype="float32")
    model.half()
    with pytest.raises(npusim.UsageError, match="compile the model again"):
        npusim.Session(program).run(X)


SAME = {
    "to": lambda model: model.to("cpu").to(torch.float32).float(),
    "requires_grad": lambda model: model.requires_grad_(False),
    "train, eval": lambda model: model.train().eval(),
    "same parameter": lambda model: setattr(model.first, "weight", model.first.weight),
    "same memory": lambda model: setattr(model.first, "weight", nn.Parameter(model.first.weight.data)),
    "all in same memory": lambda model: model.load_state_dict(model.state_dict(), assign=True),
    "buffer made anew": lambda model: setattr(model, "scale", model.scale.clone()),
    "assign of copies": lambda model: model.load_state_dict(copy.deepcopy(model.state_dict()), assign=True),
    "order of memory": lambda model: setattr(model.first.weight, "data", model.first.weight.data.t().contiguous().t()),
    "set_ of another tensor": lambda model: model.first.weight.data.set_(torch.randn(64, 8)),
    "gradients": lambda model: set_gradients(model.parameters()),
    "deepcopy": lambda model: copy.deepcopy(model).half(),
    "copy trained": lambda model: train(copy.deepcopy(model)),
    "export": lambda model: npusim.export(model, (X,)),
    "torch.export": lambda model: torch.export.export(model, (X,)).module(),
    "around a module": lambda model: setattr(model, "first", nn.Sequential(model.first)),
    "meta": lambda model: model.to("meta"),
    "functional_call": lambda model: torch.func.functional_call(model, {k: v * 2 for k, v in model.state_dict().items()}, (X,)),
}


@pytest.mark.parametrize("overwrites", [False, True])
@pytest.mark.parametrize("change", SAME)
def test_what_changes_nothing(change, overwrites):
    model = Net().eval()
    session = made(model)
    expected = session.run(X)["output"]
    torch.__future__.set_overwrite_module_params_on_conversion(overwrites)
    try:
        SAME[change](model)
    finally:
        torch.__future__.set_overwrite_module_params_on_conversion(False)
    for _ in range(3):
        assert np.array_equal(session.run(X)["output"], expected)
    if change in ("to", "same memory", "all in same memory", "buffer made anew", "assign of copies"):  # and it is still looked at
        with torch.no_grad():
            model.first.weight[3, 3] = 7
        check_refused(session)


def test_models_are_not_kept():
    model = Net().eval()
    session = made(model)
    expected, of, weight = session.run(X)["output"], weakref.ref(model.layers[0]), weakref.ref(model.first.weight)
    del model
    gc.collect()
    assert of() is None and weight() is None
    assert np.array_equal(session.run(X)["output"], expected)
    assert np.array_equal(session.sibling().run(X)["output"], expected)


def test_modules_within_what_is_gone():
    """An export's own wrapper, or the caller's: what it was around is still asked."""
    model = Net().eval()
    session = made(nn.Sequential(model))
    gc.collect()
    check_runs(session, model)
    model.half()
    check_refused(session)


def test_tied_weights():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)
            self.b.weight = self.a.weight

        def forward(self, x):
            return self.b(self.a(x))

    for name in ("a", "b"):
        model = Tied()
        session = made(model)
        check_runs(session, model)
        getattr(model, name).weight = nn.Parameter(torch.randn(8, 8))
        check_refused(session)


def test_parametrized_weights():
    model = nn.Sequential(parametrizations.weight_norm(nn.Linear(8, 8)), parametrizations.spectral_norm(nn.Linear(8, 8))).eval()
    session = made(model)
    check_runs(session, model)
    parametrize.remove_parametrizations(model[0], "weight")
    check_refused(session)
    session = made(model)
    check_runs(session, model)
    model[1].parametrizations.weight.original.data.mul_(2)
    check_refused(session)


def test_complex_weights():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.randn(8, 8, dtype=torch.complex64))

        def forward(self, x):
            return (x * self.w[:3]).abs()

    for change in (lambda w: w.mul_(2), lambda w: w.data.mul_(2), lambda w: setattr(w, "data", torch.randn_like(w))):
        model = Net()
        session = made(model)
        check_runs(session, model)
        with torch.no_grad():
            change(model.w)
        check_refused(session)


def test_weights_that_lie_apart():
    """Of a weight that is a window of a larger tensor only that window is looked at."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.all = torch.randn(16, 16)  # no weight of its own
            self.w = nn.Parameter(self.all[4:12, 2::2][:, :3])

        def forward(self, x):
            return x @ self.w

    model = Net()
    session = made(model)
    kept = model.w.detach().clone()
    model.all.numpy()[:4] = 3
    model.all.numpy()[:, 1::2] = 4
    assert torch.equal(model.w, kept)
    check_runs(session, model)
    model.all.numpy()[4:12] = 3
    check_refused(session)


@pytest.mark.parametrize("given", ["export", "torch.export", "state_dict", "arrays", "parameters", "bfloat16"])
def test_how_weights_come(given):
    model = Net().eval()
    if given == "bfloat16":
        model = model.to(torch.bfloat16)
        session, x = npusim.Session(npusim.compile(model, (X.bfloat16(),))), X.bfloat16()
    elif given == "export":
        session, x = made(npusim.export(model, (X,))), X
    elif given == "torch.export":
        session, x = npusim.Session(npusim.compile(torch.export.export(model, (X,)), dtype="float32")), X
    else:
        weights = {
            "state_dict": model.state_dict(),
            "arrays": {name: value.numpy() for name, value in model.state_dict().items()},
            "parameters": dict([*model.named_parameters(), *model.named_buffers()]),
        }[given]
        session, x = npusim.Session(npusim.compile(model, (X,), dtype="float32"), weights), X
    for _ in range(3):
        session.run(x)
    if given == "export":
        before = model.first.weight.data
        model.first.weight.data = 2 * before
        check_refused(session, x)
        model.first.weight.data = before
        session.run(x)
    model.first.weight.data.mul_(2)
    check_refused(session, x)


def test_elements_between_two_words_may_stay_unseen():
    """Which docs/from-pytorch.md says; whole small weights, and first and last elements, do not."""
    model = nn.Linear(64, 16)
    session = made(model, torch.ones(64))
    for at in range(16):
        before = float(model.bias.data[at])
        model.bias.data[at] += 1
        check_refused(session, torch.ones(64))
        model.bias.data[at] = before
        session.run(torch.ones(64))
    for at in ((0, 0), (15, 63)):
        model.weight.data[at] += 1
        check_refused(session, torch.ones(64))
        model.weight.data[at] -= 1
        session = made(model, torch.ones(64))


def test_many_weights():
    """More than words are compared: each of them is counted, and in its place."""

    class Sum(nn.Module):
        def __init__(self):
            super().__init__()
            self.all = nn.ParameterList(torch.randn(2) for _ in range(2100))

        def forward(self, x):
            return x + torch.stack([*self.all]).sum(0)

    model = Sum()
    session = made(model, torch.ones(2))
    session.run(torch.ones(2))
    model.all[2099].data = torch.zeros(2)
    check_refused(session, torch.ones(2))


class Counts(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(3))
        self.register_buffer("line", torch.zeros(3, 8))
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        self.count.add_(1)
        y = self.layer(x) + self.line + self.count.sum()
        self.line = x
        return y


def nan_weights():
    model = Net().eval()
    model.layers[0].weight.data[0] = float("nan")
    model.layers[1].bias.data[:] = float("inf")
    return model


def of_inference_mode():
    model = Net().eval()
    with torch.inference_mode():
        model.scale = torch.full((64,), 3.0)
    return model


QUIET = {
    "plain": lambda: Net().eval(),
    "states": Counts,
    "train": lambda: Net().train(),
    "dropout": lambda: nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5)).train(),
    "nan": nan_weights,
    "inference mode": of_inference_mode,
    "half": lambda: Net().eval().bfloat16(),
    "lstm": lambda: nn.LSTM(8, 8).eval(),
    "empty": lambda: nn.Sequential(nn.ReLU()),
    "instance norm": lambda: nn.Sequential(nn.Linear(8, 8), nn.InstanceNorm1d(3, track_running_stats=True)).train(),
}


@pytest.mark.parametrize("kind", QUIET)
def test_no_false_alarm(kind):
    """Nor by what eager PyTorch does with the model meanwhile, where that changes no weight."""
    model = QUIET[kind]()
    x = X.to(next(iter(model.parameters()), X).dtype)
    session = made(model, x)
    for run in range(100):
        session.run(x)
        if run % 10 == 0 and not {"train", "states", "instance norm"} & {kind}:  # of states the sibling has new ones
            with torch.no_grad():
                model(x)
            gc.collect()
    other = session.sibling()
    other.run(x)


def test_threads():
    """Sessions of one model run beside each other, and beside exports of the model; all see a write."""
    model = Net().eval()
    program = npusim.compile(model, (X,), dtype="float32")
    sessions = [npusim.Session(program, threads=1) for _ in range(3)]
    expected = sessions[0].run(X)["output"]
    wrong = []

    def run(session):
        try:
            for _ in range(60):
                if not np.array_equal(session.run(X)["output"], expected):
                    wrong.append("other numbers")
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=run, args=(session,)) for session in [*sessions, sessions[0]]]
    for thread in threads:
        thread.start()
    for _ in range(2):
        torch.export.export(model, (X,))
    for thread in threads:
        thread.join()
    assert not wrong
    model.first.weight.data.mul_(2)
    for session in sessions:
        check_refused(session)


COMPILED = ("running statistics", "data", "numpy", "parameter", "assign", "data, swapped", "buffer", "turned parameter")


@pytest.mark.parametrize("change", COMPILED)
def test_torch_compile(change):
    """Prepares the new weights by itself, as after a counted write."""
    torch._dynamo.reset()
    torch.manual_seed(2)
    model = Net().eval()
    fast = torch.compile(model, backend="npusim")
    with torch.no_grad():
        for _ in range(2):
            assert torch.allclose(fast(X), model(X), atol=1e-5)
        before = model(X)
        CHANGES[change](model)
        assert not torch.allclose(before, model(X), atol=1e-5)
        for _ in range(2):
            assert torch.allclose(fast(X), model(X), atol=1e-5)


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.Adagrad])
def test_torch_compile_and_fused_optimizers(optimizer, caplog):
    torch._dynamo.reset()
    model = Net().eval()
    fast = torch.compile(model, backend="npusim")
    steps = optimizer(model.parameters(), lr=0.1, fused=True)
    for _ in range(3):
        with torch.no_grad():
            assert torch.allclose(fast(X), model(X), atol=1e-4)
        set_gradients(model.parameters())
        steps.step()
    assert not [record for record in caplog.records if record.name == "npusim"]
