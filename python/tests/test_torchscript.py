"""Modules of TorchScript: in a model they are exported as far as torch.export takes them; as the model they are refused."""

import pytest

torch = pytest.importorskip("torch")
import npusim
from torch import nn
from torch._export.converter import TS2EPConverter

X = torch.linspace(-1, 1, 6).reshape(2, 3)
# What PyTorch says of TorchScript itself, and of a trace that counts.
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit", "ignore::torch.jit.TracerWarning", "ignore:forward.. sets")


class Counts(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.register_buffer("count", torch.zeros(3))

    def forward(self, x):
        self.count += 1
        return self.layer(x) * 2.0 + self.count


class Around(nn.Module):
    """Calls a module between others, with a buffer that it assigns."""

    def __init__(self, inner):
        super().__init__()
        self.inner, self.last = inner, nn.Linear(3, 3)
        self.register_buffer("scale", torch.ones(()))

    def forward(self, x):
        self.scale = self.scale + 1
        return self.last(self.inner(x)) * self.scale


def traced(module):
    return torch.jit.trace(module, X, check_trace=False)


MODULES = {
    "linear": lambda: traced(nn.Linear(3, 3)),
    "several": lambda: traced(nn.Sequential(nn.Linear(3, 4), nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))).eval()),
    "counts": lambda: torch.jit.trace(Counts(), X),
    "no weights": lambda: traced(nn.Tanh()),
    "frozen": lambda: torch.jit.freeze(torch.jit.script(nn.Linear(3, 3).eval())),
    "frozen trace": lambda: torch.jit.freeze(traced(nn.Sequential(nn.Linear(3, 3), nn.GELU()).eval())),
}


@pytest.mark.parametrize("name", MODULES)
def test_within_a_model(name):
    torch.manual_seed(0)
    model = Around(MODULES[name]())
    state = {key: value.clone() for key, value in model.state_dict().items()}
    owned = {key: id(value) for key, value in (*model.named_parameters(), *model.named_buffers())}
    session = npusim.Session(npusim.compile(model, (X,), dtype="float32"))
    after = {key: id(value) for key, value in (*model.named_parameters(), *model.named_buffers())}
    assert owned == after and state.keys() == model.state_dict().keys()
    for key, value in model.state_dict().items():
        assert torch.equal(value, state[key]), key
    for _ in range(3):
        torch.testing.assert_close(torch.from_numpy(session.run(X)["output"]), model(X).detach(), rtol=1e-5, atol=1e-5)


def test_a_weight_within_is_watched():
    model = Around(traced(nn.Linear(3, 3)))
    session = npusim.Session(npusim.compile(model, (X,), dtype="float32"))
    with torch.no_grad():
        model.inner.weight.mul_(2)
    with pytest.raises(npusim.UsageError, match=r"inner.weight.* was changed"):
        session.run(X)
    session = npusim.Session(npusim.compile(model, (X,), dtype="float32"))
    model.inner = nn.Linear(3, 3)
    with pytest.raises(npusim.UsageError, match="compile the model again"):
        session.run(X)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("make", [torch.jit.script, traced, lambda module: torch.jit.freeze(torch.jit.script(module.eval()))])
def test_as_the_model(make, strict):
    scripted = make(nn.Sequential(nn.Linear(3, 3), nn.ReLU()))
    with pytest.raises(npusim.UnsupportedError, match="is a module of TorchScript, .*TS2EPConverter") as refused:
        npusim.export(scripted, (X,), strict=strict)
    assert "the module that it was made of" in str(refused.value)


@pytest.mark.parametrize("make", [torch.jit.script, traced])
def test_the_way_out(make):
    scripted = make(nn.Sequential(nn.Linear(3, 3), nn.ReLU()))
    model = TS2EPConverter(scripted, (X,), {}).convert().module()
    found = npusim.Session(npusim.compile(model, (X,), dtype="float32")).run(X)
    torch.testing.assert_close(torch.from_numpy(*found.values()), scripted(X).detach(), rtol=1e-5, atol=1e-5)


def test_scripted_within_a_model():
    with pytest.raises(npusim.UnsupportedError, match="torch.export .* not npusim, does not trace it"):
        npusim.export(Around(torch.jit.script(nn.Linear(3, 3))), (X,))
