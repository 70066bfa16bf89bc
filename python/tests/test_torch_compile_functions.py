"""torch.compile with PyTorch's functions, as many as take tensors: what AOT autograd makes of them is compiled, none is left
to eager PyTorch that need not be, and all give what eager PyTorch gives."""

import logging
import re

import npusim
import pytest

torch = pytest.importorskip("torch")
from npusim import torch_compile
from test_torch_compile import said
from torch_functions import called, copied, functions, is_plain, leaves

if not npusim.aten_plugin().usable:
    pytest.skip(f"no ATen plugin: {npusim.aten_plugin().description}", allow_module_level=True)
TOGETHER = 24  # functions in one graph: whose it is that a graph is left is asked of each alone
# Why a graph may be left: what no exported model may have either, and what AOT autograd does not take.
MAY_BE_LEFT = (
    r"has no form for complex numbers|dtype uint64 is not supported|the range would depend on the data"
    r"|We only support functionalizing operators whose outputs do not have alias"
)
DYNAMOS_OWN = {"torch.slice_inverse", "torch.Tensor.slice_inverse"}  # which it does not trace


@pytest.fixture(autouse=True)
def plugin():
    """The one beside the package: any operator of ATen can be compiled then, and what cannot is none."""


@pytest.fixture(autouse=True)
def fresh(caplog):
    torch.compiler.reset()
    caplog.set_level(logging.INFO, "npusim")


def run(calls):
    """What the functions give in one compiled function, and what their arguments are afterwards."""
    given = [copied(arguments) for _, _, arguments in calls]
    torch.compiler.reset()
    compiled = torch.compile(lambda given: [f(*args) for (_, f, _), args in zip(calls, given)], backend=torch_compile.backend)
    found = compiled(given)
    return [[*leaves(one), *filter(is_plain, leaves(args))] for one, args in zip(found, given, strict=True)]


def wrong(calls, caplog):
    """Which functions are left to eager PyTorch without need, and which give something else."""
    caplog.clear()
    try:
        found = run(calls)
        left = said(caplog)
    except Exception as error:
        found, left = [], [f"{type(error).__name__}: {error}"]
    if left and len(calls) > 1:
        return [one for call in calls for one in wrong([call], caplog)]
    if left:
        return [] if all(re.search(MAY_BE_LEFT, why) for why in left) else [f"{calls[0][0]}: {left[0]}"]
    bad = []
    for (name, function, arguments), results in zip(calls, found, strict=True):
        expected = called(function, arguments)
        if expected is None:  # memory that nobody wrote, which was the same when the function was found
            continue
        try:
            torch.testing.assert_close(results, expected, rtol=1e-4, atol=1e-5, equal_nan=True, check_stride=True)
        except AssertionError as error:
            bad.append(f"{name}: {error}")
    return bad


@pytest.mark.filterwarnings("ignore")
def test_functions(caplog):
    calls = [call for call in functions() if call[0] not in DYNAMOS_OWN]
    assert len(calls) > 900
    with torch.no_grad():
        bad = [one for group in (calls[at : at + TOGETHER] for at in range(0, len(calls), TOGETHER)) for one in wrong(group, caplog)]
    assert not bad, "\n".join(bad)


class Solves(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(3) + 1)

    def forward(self, x):
        return self.weight + x, torch.linalg.inv(torch.diag(self.weight)), torch.linalg.cholesky(torch.diag(x))


@pytest.mark.parametrize("how", [{}, {"dynamic": True}])
def test_what_checks_itself(how, caplog):
    """Between weights and inputs there are tokens of the order of effects; where a check fails eager PyTorch says it."""
    model, x = Solves(), torch.tensor([1.0, 2.0, 3.0])
    run = torch.compile(model, backend=torch_compile.backend, **how)
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(run(x), model(x))
            model.weight.add_(1)
        assert not said(caplog) and said(caplog, logging.INFO)
        with pytest.raises(torch.linalg.LinAlgError, match="cholesky"):
            run(-x)
        torch.testing.assert_close(run(x), model(x))
    assert len(said(caplog)) == 1


def test_what_checks_itself_where_inputs_overlap():
    def solved(a, b):
        return a.mul_(2).sum(), torch.linalg.inv(torch.diag(b))

    y, z = torch.arange(1.0, 7.0), torch.arange(1.0, 7.0)
    with torch.no_grad():
        found = torch.compile(solved, backend=torch_compile.backend)(y[:4], y[2:])
    torch.testing.assert_close((found, y), (solved(z[:4], z[2:]), z))


def test_evaluated_it_draws_nothing(caplog):
    x, model = torch.linspace(-1, 1, 5), torch.nn.RReLU(0.2, 0.3).eval()
    with torch.no_grad():
        assert torch.equal(torch.compile(model, backend=torch_compile.backend)(x), model(x))
    assert not said(caplog) and said(caplog, logging.INFO)
