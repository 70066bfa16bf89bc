"""torch.compile with transformations of torch.func: what they give, and that nothing is left of them."""

import itertools
import logging
import random

import npusim
import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F
from npusim.torch import compile as torch_compile
from npusim.torch.facts.levels import levels_kept
from test_torch_compile import said
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

V = torch.tensor([0.5, -1.0, 2.0])
ACTIVATIONS = [
    *(F.silu, F.gelu, F.softplus, F.mish, F.elu, F.logsigmoid, F.hardswish, F.relu6, F.tanhshrink, F.selu, F.relu),
    *(torch.sigmoid, torch.tanh, torch.sin, torch.erf, torch.square, torch.logsumexp, torch.softmax, torch.cumsum),
]


def applied(activation, u):
    return activation(u, -1) if activation in (torch.logsumexp, torch.softmax, torch.cumsum) else activation(u)


# Of a function of a vector functions of a vector, whose results are flat.
TRANSFORMED = {
    "grad": lambda f: grad(lambda u: f(u).sum()),
    "jacfwd": lambda f: lambda u: jacfwd(f)(u).reshape(-1),
    "jacrev": lambda f: lambda u: jacrev(f)(u).reshape(-1),
    "hessian": lambda f: lambda u: hessian(lambda w: f(w).sum())(u).reshape(-1),
    "jvp": lambda f: lambda u: torch.cat([one.reshape(-1) for one in jvp(f, (u,), (u.cos(),))]),
    "vjp": lambda f: lambda u: vjp(lambda w: f(w).sum(), u)[1](torch.tensor(1.5))[0],
    "vmap": lambda f: lambda u: vmap(f)(torch.stack([u, u * 2])).reshape(-1),
}
COMPOSED = [names for depth in (1, 2) for names in itertools.product(TRANSFORMED, repeat=depth)]


@pytest.fixture(autouse=True)
def fresh(caplog):
    torch.compiler.reset()
    caplog.set_level(logging.INFO, "npusim")


def assert_outside():
    """Eager PyTorch is in no transformation, and goes into any."""
    assert torch._C._functorch.get_dynamic_layer_stack_depth() == 0
    torch.testing.assert_close(jvp(torch.sin, (V,), (V,)), (V.sin(), V.cos() * V))
    torch.testing.assert_close(hessian(lambda u: (u**3).sum())(V), torch.diag(6 * V))
    torch.testing.assert_close(torch.autograd.functional.jacobian(torch.sin, V), torch.diag(V.cos()))
    assert not torch.is_autocast_enabled("cpu") and torch.autograd.forward_ad._current_level == -1


def outcome(function, *given):
    try:
        return function(*given)
    except Exception as error:
        return type(error)


def compare(function, *given, gradients=True):
    """That it gives what it gives in eager PyTorch, or raises an error where that does."""
    with torch.set_grad_enabled(gradients):
        expected = outcome(function, *given)
        torch.compiler.reset()
        found = outcome(torch.compile(function, backend=torch_compile.backend), *given)
        if isinstance(expected, type):
            assert isinstance(found, type)
        else:
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
        assert torch.is_grad_enabled() == gradients
    assert_outside()


def composed(names, activation):
    function = lambda u: applied(activation, u)  # noqa: E731
    for name in names:
        function = TRANSFORMED[name](function)
    return function


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("names", COMPOSED, ids="-".join)
def test_compositions(names):
    rng = random.Random("-".join(names))
    compare(composed(names, rng.choice(ACTIVATIONS)), V, gradients=rng.random() < 0.6)


@pytest.mark.parametrize("activation", [F.silu, F.gelu, F.softplus, torch.tanh])
def test_second_derivatives_are_compiled(activation, caplog):
    compare(composed(["hessian"], activation), V)
    assert not said(caplog) and len(said(caplog, logging.INFO)) == 1


def fails(matrix):
    """Where it has values, and not while it is traced."""
    return torch.linalg.cholesky(matrix).sum()


FAILING = [
    lambda m: hessian(fails)(m),
    lambda m: jacfwd(fails)(m),
    lambda m: vmap(grad(fails))(torch.stack([m, m])),
    lambda m: jvp(grad(fails), (m,), (m,)),
    lambda m: vmap(lambda row: V[(row * 100).long()])(m),
    lambda m: jvp(lambda x: grad(lambda y: y[(m[0] * 100).long()].sum())(x), (V,), (V,)),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("failing", range(len(FAILING)))
def test_what_ends_in_the_middle(failing, left, monkeypatch):
    """left: where npusim leaves the graph that dynamo captured."""
    if left:
        monkeypatch.setattr(torch_compile, "loses_writes", lambda graph: True)
    for gradients in (True, False):
        compare(FAILING[failing], -torch.eye(3), gradients=gradients)
        compare(FAILING[failing], torch.eye(3) * 0.005, gradients=gradients)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("names", COMPOSED[::5], ids="-".join)
def test_what_is_left(names, monkeypatch):
    """A graph that npusim refuses in the middle, and runs as dynamo has it."""

    def refuse(graph):
        calls = [node for node in graph.graph.nodes if node.op == "call_function"]
        end = random.Random("-".join(names)).choice(calls)
        with graph.graph.inserting_before(end):
            graph.graph.call_function(torch.linalg.cholesky, (torch.zeros(()),))
        given = [node.meta["example_value"] for node in graph.graph.nodes if node.op == "placeholder"]
        with given[0].fake_mode:
            try:
                torch.fx.Interpreter(graph).run(*given)
            finally:
                graph.graph.erase_node(end.prev)

    monkeypatch.setattr(torch_compile, "loses_writes", refuse)
    for gradients in (True, False):
        compare(composed(names, torch.tanh), V, gradients=gradients)


class Calls(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("names", COMPOSED[::4], ids="-".join)
def test_an_export_leaves_nothing(names):
    for strict in (False, True):
        outcome(lambda: npusim.export(Calls(composed(names, F.silu)), (V,), strict=strict))  # noqa: B023
        assert_outside()


@pytest.mark.parametrize("gradients", [True, False])
def test_what_is_entered_is_left(gradients):
    functorch = torch._C._functorch
    entries = [
        lambda: functorch._vmap_increment_nesting(3, "same"),
        functorch._jvp_increment_nesting,
        functorch._grad_increment_nesting,
        lambda: functorch._func_increment_nesting(True),
        lambda: torch.autograd.forward_ad.enter_dual_level() if torch.autograd.forward_ad._current_level < 0 else None,
        lambda: torch._C._set_fwd_grad_enabled(False),
        lambda: torch._C._set_grad_enabled(not gradients),
        lambda: functorch.set_inplace_requires_grad_allowed(True),
        lambda: torch._C._autograd._saved_tensors_hooks_disable("a reason"),
        lambda: torch.amp.autocast_mode._enter_autocast("cpu", torch.bfloat16, True, True),
    ]
    with torch.set_grad_enabled(gradients):
        for seed in range(30):
            rng = random.Random(seed)
            with pytest.raises(ValueError, match="in the middle"), levels_kept():
                for entry in rng.choices(entries, k=rng.randrange(6)):
                    entry()
                raise ValueError("in the middle")
            assert torch.is_grad_enabled() == gradients and torch._C._is_fwd_grad_enabled()
            assert torch._C._autograd._saved_tensors_hooks_get_disabled_error_message() is None
            assert_outside()
