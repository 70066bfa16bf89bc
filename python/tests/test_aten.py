"""Operators without a kernel, run by PyTorch's own library through the plugin."""

import resource
import subprocess
import sys
from pathlib import Path

import npusim
import numpy as np
import pytest

torch = pytest.importorskip("torch")
from npusim import torch_compile  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

if not npusim.aten_plugin().usable:
    pytest.skip(f"no ATen plugin: {npusim.aten_plugin().description}", allow_module_level=True)


@pytest.fixture(autouse=True)
def plugin():
    """The one beside the package."""


class Fn(torch.nn.Module):
    def __init__(self, fn):
        super().__init__()
        self.fn = fn

    def forward(self, *args):
        return self.fn(*args)


def calls(program):
    return {op: nodes for method in program.partition()["methods"].values() for op, nodes in method["calls"].items()}


def randn(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape)))


LINALG, SPECIAL = torch.linalg, torch.special
SQUARE, TALL, VECTOR = randn(4, 4) + 4 * torch.eye(4), randn(5, 3), randn(6)
CASES = {
    "linalg_solve": (LINALG.solve, (SQUARE, randn(4, 2))),
    "linalg_inv": (LINALG.inv, (SQUARE,)),
    "linalg_qr": (lambda a: LINALG.qr(a), (TALL,)),  # two results, column-major
    "linalg_cholesky": (lambda a: LINALG.cholesky(a @ a.mT + torch.eye(4)), (SQUARE,)),
    "linalg_slogdet": (lambda a: LINALG.slogdet(a), (SQUARE,)),
    "linalg_matrix_exp": (LINALG.matrix_exp, (SQUARE,)),
    "linalg_eigvalsh": (lambda a: LINALG.eigvalsh(a, UPLO="U"), (SQUARE,)),  # text
    "gcd": (lambda a: torch.gcd(a, a.flip(0)), (torch.arange(1, 7),)),
    "mode": (lambda a: torch.mode(a, dim=1), ((SQUARE > 0).float(),)),  # values and indices
    "polygamma_": (lambda a: (a.abs() + 1).polygamma_(1) * 2, (VECTOR,)),
    "polygamma": (lambda a: SPECIAL.polygamma(2, a.abs() + 1), (VECTOR,)),  # an integer before the tensor
    "zeta": (lambda a: SPECIAL.zeta(a.abs() + 2, 3.0), (VECTOR,)),  # a scalar that is none
    "bessel_y0": (lambda a: SPECIAL.bessel_y0(a.double().abs()), (VECTOR,)),
    "nextafter": (torch.nextafter, (VECTOR, VECTOR.flip(0))),
    "twice the same": (lambda a: LINALG.solve(a, a), (SQUARE,)),
    "changed in place": (lambda a: (LINALG.inv(a).mul_(2) + a, a), (SQUARE,)),
}


@pytest.mark.parametrize("name", CASES)
def test_operators_are_eagers(name):
    fn, args = CASES[name]
    model = Fn(fn).eval()
    program = npusim.compile(npusim.export(model, args), dtype="float32")
    assert calls(program)
    outputs = npusim.Session(program).run(*args)
    expected = model(*args)
    expected = expected if isinstance(expected, (tuple, list)) else (expected,)
    assert len(outputs) == len(expected)
    for found, want in zip(outputs.values(), expected, strict=True):
        torch.testing.assert_close(torch.from_numpy(np.array(found)), want)


class Seen(TorchDispatchMode):
    """Sees every operator of its thread."""

    def __init__(self):
        super().__init__()
        self.ops = []

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        self.ops.append(op)
        return op(*args, **(kwargs or {}))


STATES = {
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "gradients": torch.enable_grad,
    "inference": torch.inference_mode,
    "forward gradients": torch.autograd.forward_ad.dual_level,
    "a device": lambda: torch.device("meta"),
    "fake tensors": FakeTensorMode,
    "a mode": Seen,
}
STATED = {
    **CASES,
    "pinv": (LINALG.pinv, (TALL,)),
    "matrix_exp of many": (lambda a: LINALG.matrix_exp(torch.stack([a, a * 3])), (SQUARE,)),
    "a nuclear norm": (lambda a: LINALG.matrix_norm(a, "nuc"), (SQUARE,)),
}


@pytest.mark.parametrize("name", STATED)
def test_what_the_callers_thread_has_entered_changes_nothing(name):
    """A session is made and run as everywhere, and by itself calls nothing that a mode sees."""
    fn, args = STATED[name]
    program = npusim.compile(npusim.export(Fn(fn), args), dtype="float32")
    assert calls(program)
    given = [arg.numpy() for arg in args]
    expected = npusim.Session(program).run(*given)
    for state, enter in STATES.items():
        with enter() as mode:
            found = npusim.Session(program).run(*given)
        assert state != "a mode" or not mode.ops
        assert all(np.array_equal(found[out], expected[out]) for out in expected), state
    session = npusim.Session(program)

    def mapped(x):
        found = session.run(*given)
        assert all(np.array_equal(found[out], expected[out]) for out in expected)
        return x

    for transformation in (torch.func.vmap, torch.func.functionalize):
        transformation(mapped)(torch.ones(2))
    torch.func.grad(lambda x: mapped(x).sum())(torch.ones(2))


def test_lists_of_tensors():
    tensors = [{"name": f"x{i}", "shape": [n], "dtype": "float32"} for i, n in enumerate((6, 2))]
    taken = [{**tensor, "producer_node": tensor["name"], "producer_output_idx": 0} for tensor in tensors]
    given = [{**tensor, "name": f"y_{i}"} for i, tensor in enumerate(tensors)]
    node = {"name": "y", "op_type": "aten._foreach_lgamma.default", "inputs": taken, "outputs": given}
    node["attrs"] = {"_tensor_list_sizes": [2]}
    ends = [{**tensor, "producer_node": "y", "producer_output_idx": i} for i, tensor in enumerate(given)]
    ir = {"graph_inputs": tensors, "graph_outputs": ends, "weights": [], "nodes": [node]}
    program = npusim.compile(ir, dtype="float32")
    assert calls(program)
    found = npusim.Session(program).run(VECTOR.abs(), VECTOR[:2].abs())
    for value, x in zip(found.values(), (VECTOR.abs(), VECTOR[:2].abs()), strict=True):
        torch.testing.assert_close(torch.from_numpy(np.array(value)), torch.lgamma(x))


class Head(torch.nn.Module):
    """A layer, an operator without a kernel in its midst, and one of weights alone."""

    def __init__(self):
        super().__init__()
        self.inside, self.outside = torch.nn.Linear(8, 4), torch.nn.Linear(4, 3)
        self.basis = torch.nn.Parameter(randn(4, 4) + 4 * torch.eye(4))

    def forward(self, x):
        h = torch.tanh(self.inside(x))
        h = torch.linalg.solve(self.basis, h.mT).mT * SPECIAL.bessel_j0(h)
        return self.outside(torch.relu(h @ torch.linalg.inv(self.basis)))


@pytest.fixture(scope="module")
def head():
    torch.manual_seed(0)
    return Head().eval()


@pytest.mark.parametrize("dtype, tolerance", [("float32", 1e-5), ("auto", 1e-2), ("bfloat16", 5e-2)])
def test_a_model(head, dtype, tolerance, tmp_path):
    x = randn(5, 8)
    exported = npusim.export(head, (x,))
    program = npusim.compile(exported, dtype=dtype)
    assert sorted(calls(program)) == ["aten.linalg_solve.default", "aten.special_bessel_j0.default"]  # inv is a recipe
    program.save(tmp_path / "head.npubin")
    out = npusim.Session(npusim.load(tmp_path / "head.npubin"), exported.weights).run(x)
    found = torch.from_numpy(np.array(next(iter(out.values())), dtype="float32"))
    want = head(x).detach()
    assert (found - want).norm() <= tolerance * want.norm()
    assert npusim.verify(program, {program.inputs()[0].name: x}).ok


def test_on_another_target_the_cpu_runs_it(head):
    program = npusim.compile(npusim.export(head, (randn(5, 8),)), target="null", dtype="float32")
    report = program.partition()
    assert report["devices"] == ["null", "cpu"]
    reasons = {r["op"]: r["reason"] for r in report["methods"]["main"]["reasons"]}
    assert reasons["aten.linalg_solve.default"] == "it has no kernel: ATen runs it"
    assert report["methods"]["main"]["transfers"] >= 2


def test_refused_by_name():
    def refusal(fn, *args):
        with pytest.raises(npusim.UnsupportedError) as raised:
            npusim.compile(npusim.export(Fn(fn), args), dtype="float32")
        return str(raised.value)

    assert "draws random numbers" in refusal(lambda x: torch.poisson(x), VECTOR.abs())
    ir = npusim.export(Fn(LINALG.inv), (SQUARE,)).ir
    ir["nodes"][0]["op_type"] = "torchvision.nms.default"
    with pytest.raises(npusim.UnsupportedError, match="torchvision.nms.default.*it is no operator of ATen"):
        npusim.compile(ir)
    # What the IR declares is what comes out, or it is refused.
    ir = npusim.export(Fn(LINALG.inv), (SQUARE,)).ir
    ir["nodes"][0]["outputs"][0]["shape"] = ir["graph_outputs"][0]["shape"] = [2, 8]
    with pytest.raises(npusim.UnsupportedError, match=r"expected Float\[2, 8\], found Float\[4, 4\]"):
        npusim.compile(ir)


def test_errors_of_a_run():
    program = npusim.compile(npusim.export(Fn(LINALG.inv), (SQUARE,)), dtype="float32")
    session = npusim.Session(program)
    with pytest.raises(npusim.BadInputError, match=r"linalg_inv.*singular"):
        session.run(torch.zeros(4, 4))
    session.run(SQUARE)


def test_torch_compile(head):
    x = randn(5, 8)
    with torch.no_grad():
        fast = torch.compile(head, backend=torch_compile.backend)
        torch.testing.assert_close(fast(x), head(x), rtol=1e-4, atol=1e-5)


def test_without_the_plugin_and_without_torch(head, tmp_path):
    """In a process of its own: the plugin is not there, then it is, and torch is never imported."""
    exported = npusim.export(head, (randn(5, 8),))
    program = npusim.compile(exported, dtype="float32")
    program.save(tmp_path / "head.npubin")
    npusim.save_weights(tmp_path / "head.safetensors", exported.weights)
    code = f"""
import sys, numpy, npusim
program = npusim.load({str(tmp_path / "head.npubin")!r})
npusim.use_aten_plugin("/nowhere.so")
try:
    npusim.Session(program, {str(tmp_path / "head.safetensors")!r})
except npusim.DeviceError as error:
    print(error)
npusim.use_aten_plugin("")
out = npusim.Session(program, {str(tmp_path / "head.safetensors")!r}).run(numpy.zeros((5, 8), "float32"))
print(next(iter(out.values())).shape, "torch" in sys.modules)
"""
    paths = ":".join(dict.fromkeys([str(Path(npusim.__file__).parents[1]), *filter(None, sys.path)]))
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={"PYTHONPATH": paths}, check=False
    )
    assert run.returncode == 0, run.stderr
    assert "aten.linalg_inv.default has no kernel, and there is no plugin that could ask ATen: /nowhere.so" in run.stdout
    assert run.stdout.endswith("(5, 3) False\n")


def in_autocast(function, x):
    with torch.autocast("cpu", enabled=False):
        return function(x)


def in_gradients(function, x):
    with torch.enable_grad():
        return function(x)


def in_both(function, x):
    return in_autocast(lambda x: in_gradients(function, x) * 2, x) + 1


def mapped(function, x):
    return torch.func.vmap(function)(x)


FACTORISED = {  # what is computed; whether a matrix of zeros has none
    "cholesky": (LINALG.cholesky, True),
    "inv": (LINALG.inv, True),
    "solve": (lambda x: LINALG.solve(x, x * 2), True),
    "lu_factor": (lambda x: LINALG.lu_factor(x)[0], True),
    "det": (LINALG.det, False),
    "eigvalsh": (LINALG.eigvalsh, False),
    "pinv": (LINALG.pinv, False),
    "svdvals": (LINALG.svdvals, False),
}


@pytest.mark.parametrize("region", [in_autocast, in_gradients, in_both, mapped])
@pytest.mark.parametrize("name", FACTORISED)
def test_what_may_end_the_run_does_in_regions_too(region, name):
    function, ends = FACTORISED[name]
    model = Fn(lambda x: region(function, x))
    x = torch.rand(3, 4, 4, generator=torch.Generator().manual_seed(1))
    x = x @ x.mT + torch.eye(4)
    session = npusim.Session(npusim.compile(npusim.export(model, (x,)), dtype="float32"))
    assert np.allclose(session.run(x)["output"], model(x).detach().numpy(), rtol=1e-4, atol=1e-5)
    x[1] = 0
    if ends:
        with pytest.raises(RuntimeError):
            model(x)
        with pytest.raises(npusim.Error, match="singular|not positive|an assertion does not hold|zero"):
            session.run(x)
    else:
        assert np.allclose(session.run(x)["output"], model(x).detach().numpy(), rtol=1e-4, atol=1e-5)


def test_transformations_that_torch_export_does_not_trace():
    with pytest.raises(npusim.UnsupportedError, match="a transformation of torch.func"):
        npusim.export(Fn(lambda x: torch.func.grad(lambda a: (a**2).sum())(x)), (torch.ones(3),))


WITH_NUMBERS = [*(f"special.{name}" for name in dir(torch.special) if not name.startswith("_"))]
WITH_NUMBERS += "add sub rsub mul div true_divide floor_divide pow float_power fmod remainder copysign xlogy ldexp".split()
WITH_NUMBERS += "eq ne lt le gt ge bitwise_and bitwise_or bitwise_xor bitwise_left_shift maximum fmax atan2 hypot".split()


@pytest.mark.parametrize("name", sorted(WITH_NUMBERS))
def test_numbers_among_operands(name):
    """Of each operator of two operands, on either side: what PyTorch takes there."""
    function = torch
    for part in name.split("."):
        function = getattr(function, part)
    if not callable(function):
        pytest.skip("no operator")
    for x in (torch.linspace(0.25, 4.25, 12).reshape(3, 4), torch.arange(1, 13, dtype=torch.int32).reshape(3, 4)):
        for number in (3, 0.5, True):
            for call in (lambda x: function(x, number), lambda x: function(number, x)):  # noqa: B023
                try:
                    expected = call(x)
                except (TypeError, RuntimeError, IndexError):
                    continue
                if not isinstance(expected, torch.Tensor) or expected.dim() != 2:
                    continue
                exported = npusim.export(Fn(call), (x,))
                found = npusim.Session(npusim.compile(exported, dtype="float32")).run(x)["output"]
                assert np.allclose(found, expected.numpy(), rtol=1e-4, atol=1e-5, equal_nan=True), (number, x.dtype)


@pytest.mark.parametrize(
    ("name", "attrs", "inputs", "shape"),
    [
        ("combinations", {"r": 10**9}, [[4]], [0, 10**9]),
        ("combinations", {"r": 10**7}, [[4]], [0, 4]),
        ("hann_window", {"window_length": 4 * 10**9}, [], [4 * 10**9]),
        ("blackman_window", {"window_length": 4 * 10**9}, [], [4 * 10**9]),
    ],
)
def test_a_number_in_a_file_makes_nothing(name, attrs, inputs, shape):
    """Neither memory nor time before the file's own shapes are refused."""
    given = [{"name": f"x{i}", "shape": s, "dtype": "float32"} for i, s in enumerate(inputs)]
    result = {"name": "n", "shape": shape, "dtype": "float32"}
    node = {"name": "n", "op_type": f"aten.{name}.default", "inputs": given, "outputs": [result], "attrs": attrs}
    ir = {"graph_inputs": given, "graph_outputs": [result], "weights": [], "nodes": [node]}
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(npusim.Error):
        npusim.compile(ir, dtype="float32", max_bytes=10**6)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < before + 10**5  # KiB


BACKWARDS = {
    "convolution": lambda mask: lambda g, x, w: torch.ops.aten.convolution_backward(
        g, x, w, [4], [1, 1], [1, 1], [1, 1], False, [0, 0], 1, mask
    ),
    "layer norm": lambda mask: lambda g, x, w: torch.ops.aten.native_layer_norm_backward(
        g[:, :3], x, [8], x.mean(-1, keepdim=True), x.var(-1, keepdim=True), x[0, 0, 0], x[0, 0, 1], mask
    ),
    "group norm": lambda mask: lambda g, x, w: torch.ops.aten.native_group_norm_backward(
        g[:, :3].contiguous(), x, x[:, :, 0, 0], x[:, :, 1, 1], x[0, :, 0, 0], 2, 3, 64, 3, mask
    ),
}


@pytest.mark.parametrize("mask", [[bool(n >> i & 1) for i in range(3)] for n in range(1, 8)])
@pytest.mark.parametrize("name", BACKWARDS)
def test_gradients_that_nobody_asks_for_are_left_out(name, mask):
    def asked(*args):
        return tuple(one for one, wanted in zip(BACKWARDS[name](mask)(*args), mask, strict=True) if wanted)

    given = randn(2, 4, 8, 8), randn(2, 3, 8, 8), randn(4, 3, 3, 3)
    want = asked(*given)
    found = npusim.Session(npusim.compile(Fn(asked), given, dtype="float32")).run(*given)
    assert len(found) == len(want)
    for one, other in zip(found.values(), want, strict=True):
        torch.testing.assert_close(torch.from_numpy(one), other)
