"""torch.compile for a target: its options, where tensors have to be, and what is left to eager PyTorch. Nothing here needs a
GPU: a graph's tensors there are the tracer's, and bench/gpu/torch_compile.py has the rest."""

import logging
import operator

import npusim
import pytest

torch = pytest.importorskip("torch")
from npusim.torch import compile as torch_compile
from npusim.torch.passes.kernels import spell_out_kernels
from npusim.torch.targets import Options, device_of_graph, options_of
from torch import nn
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

X = torch.linspace(-2, 2, 12).reshape(3, 4)


@pytest.fixture(autouse=True)
def fresh(caplog):
    torch.compiler.reset()
    caplog.set_level(logging.INFO, "npusim")


def said(caplog):
    return [r.getMessage() for r in caplog.records if r.name == "npusim" and r.levelno == logging.WARNING]


def compiled(model, options):
    return torch.compile(model, backend=torch_compile.backend, options=options)


WRONG = {
    "no option targets: expected some of target, dtype, threads, constant_weights": {"targets": "cuda"},
    "no option Target, speed: expected some of": {"speed": 11, "Target": "cpu"},
    "unknown target cdua: this build has cpu, cuda, null; did you mean cuda": {"target": "cdua"},
    "expected architectures such as sm_80,sm_90a, found '0'": {"target": "cuda:0"},
    "target null: torch.compile takes targets that PyTorch has tensors on, cpu or cuda": {"target": "null"},
    "target: expected a str, found device": {"target": torch.device("cuda")},
    "expected auto, float16, bfloat16 or float32; did you mean float32": {"dtype": "float31"},
    "dtype: expected a str, found torch.float16": {"dtype": torch.float16},
    "threads: expected an integer": {"threads": "2"},
    "threads: expected 1 to 4096, or 0": {"threads": -1},
    "threads: expected 1 to 4096, or 0 for": {"threads": 2**70},
    "constant_weights: expected True or False, found 1": {"constant_weights": 1},
}


@pytest.mark.parametrize("what", WRONG)
def test_options_are_checked(what, caplog):
    with pytest.raises(npusim.UsageError, match=what):
        options_of(WRONG[what])
    with pytest.raises(Exception, match=what), torch.no_grad():
        compiled(lambda x: x + 1, WRONG[what])(X)
    assert not said(caplog)  # an option that nobody knows is no reason for eager PyTorch


def test_options_as_they_are_told():
    assert options_of(None) == options_of({}) == Options("cpu", None, 0, True)
    assert options_of({"target": "cuda:sm_80,sm_90a", "threads": 3}).kind == "cuda"
    with pytest.raises(npusim.UsageError, match="options: expected options by name"):
        options_of(["cuda"])


def test_the_hosts_tensors_for_the_host(caplog):
    model = nn.Sequential(nn.Linear(4, 3), nn.Tanh())
    with torch.no_grad():
        found = compiled(model, {"target": "cpu", "threads": 1})(X)
    torch.testing.assert_close(found, model(X))
    assert found.device == X.device and not said(caplog)


def test_the_hosts_tensors_for_a_gpu_are_eagers(caplog):
    model = nn.Linear(4, 3)
    with torch.no_grad():
        found = compiled(model, {"target": "cuda"})(X)
    torch.testing.assert_close(found, model(X))
    (line,) = said(caplog)
    assert "left to eager PyTorch" in line and "is on cpu: expected cuda, the target" in line
    assert 'what helps: options={"target": "cpu"}' in line


def test_a_graph_without_tensors_on_the_target_is_eagers(caplog):
    with torch.no_grad():
        found = compiled(lambda x: x + 1, {"target": "cuda"})(torch.tensor(2.0))
    assert found == 3 and "none of its tensors is on cuda" in said(caplog)[0]


def tensors(*devices, dims=1):
    with FakeTensorMode():
        return [(f"input '{i}'", torch.empty([2] * dims, device=device)) for i, device in enumerate(devices)]


def test_one_device():
    def found(kind, given, gives=()):
        return str(device_of_graph(kind, given, gives))

    assert found("cpu", []) == found("cpu", tensors("cpu", "cpu"), tensors("cpu")) == "cpu"
    assert found("cuda", tensors("cuda:1", "cuda:1"), tensors("cuda:1")) == "cuda:1"
    assert found("cuda", [], tensors("cuda:0")) == "cuda:0"
    # A number on the host beside tensors elsewhere, and what a graph gives there.
    assert found("cuda", tensors("cpu", dims=0) + tensors("cuda:0"), tensors("cpu")) == "cuda:0"
    for kind, given, gives, what in (
        ("cuda", tensors("cuda:0", "cuda:1"), [], "is on cuda:1, and others are on cuda:0: expected one device"),
        ("cuda", tensors("cuda:0", "cpu"), [], "input '1': is on cpu: expected cuda, the target"),
        ("cpu", tensors("cuda:0"), [], 'is on cuda:0: expected cpu, the target; what helps: options={"target": "cuda"}'),
        ("cpu", tensors("cuda:0", dims=0), [], "is on cuda:0: expected cpu"),
        ("cpu", tensors("cpu"), tensors("cuda:0"), "is on cuda:0: expected cpu"),
        ("cpu", tensors("meta"), [], "is on meta: expected cpu, the target"),
        ("cuda", tensors("cuda:0"), tensors("meta"), "is on meta: expected cuda, the target"),
    ):
        with pytest.raises(npusim.UnsupportedError) as error:
            device_of_graph(kind, given, gives)
        assert what in str(error.value)


def graph_of(function, *devices, shape=(3, 4)):
    with FakeTensorMode():
        given = [torch.empty(shape, device=device) for device in devices]
        return make_fx(lambda *values: list(function(*values)))(*given)


@pytest.fixture
def cuda():
    """Options for a target that this build may not compile for without NVIDIA's compiler, which needs no GPU."""
    try:
        return options_of({"target": "cuda"})
    except npusim.DeviceError as error:
        pytest.skip(str(error))


def test_a_graph_of_a_gpus_tensors_is_compiled_for_it(cuda):
    graph = graph_of(lambda x, w: (x @ w.t(), (x + 1).cpu(), x[0]), "cuda:0", "cuda:0")
    made = torch_compile._Compiled(graph, frozenset({1}), cuda)
    assert str(made.device) == "cuda:0" and made.program.target == "cuda"
    assert [*made.inputs] == [0] and [*made.weights] == [1]
    assert [str(value.device) for _, value in made.outputs.placed().values()] == ["cuda:0", "cpu", "cuda:0"]


HEADS = torch.linspace(-1, 1, 2 * 4 * 6 * 8).reshape(2, 4, 6, 8)
IMAGE, CHANNELS = torch.linspace(-3, 3, 2 * 5 * 16).reshape(2, 5, 4, 4), torch.linspace(0.5, 2, 5)
ATTENTION = torch.nn.functional.scaled_dot_product_attention
ATEN = torch.ops.aten
# A kernel's operator that PyTorch leaves in graphs of a GPU's tensors, its arguments, and what eager PyTorch says of them.
KERNELS = {
    "cudnn": (ATEN._scaled_dot_product_cudnn_attention, (HEADS, HEADS, HEADS, None, False), lambda: ATTENTION(HEADS, HEADS, HEADS)),
    "causal": (
        ATEN._scaled_dot_product_flash_attention,
        (HEADS, HEADS + 1, HEADS * 2, 0.0, True),
        lambda: ATTENTION(HEADS, HEADS + 1, HEADS * 2, is_causal=True),
    ),
    "mask": (
        ATEN._scaled_dot_product_efficient_attention,
        (HEADS, HEADS, HEADS, HEADS[..., :6], True),
        lambda: ATTENTION(HEADS, HEADS, HEADS, HEADS[..., :6]),
    ),
    "batch norm": (
        ATEN._native_batch_norm_legit_no_training,
        (IMAGE, CHANNELS, CHANNELS - 1, CHANNELS * 2, CHANNELS, 0.1, 1e-3),
        lambda: torch.nn.functional.batch_norm(IMAGE, CHANNELS * 2, CHANNELS, CHANNELS, CHANNELS - 1, False, 0.1, 1e-3),
    ),
}


@pytest.mark.parametrize("what", KERNELS)
def test_kernels_of_a_gpu_are_operators_of_all_devices(what):
    op, arguments, expected = KERNELS[what]
    graph = torch.fx.Graph()
    tensors = [one for one in arguments if isinstance(one, torch.Tensor)]
    given = iter([graph.placeholder(f"x{n}") for n in range(len(tensors))])
    nodes = []
    for one in arguments:
        nodes.append(next(given) if isinstance(one, torch.Tensor) else one)
        if isinstance(one, torch.Tensor):
            nodes[-1].meta["val"] = one
    call = graph.call_function(op.default, tuple(nodes))
    graph.output(graph.call_function(operator.getitem, (call, 0)))
    spell_out_kernels(graph)
    assert not any(node.target is op.default for node in graph.nodes)
    torch.testing.assert_close(torch.fx.GraphModule({}, graph)(*tensors), expected())


def test_what_more_is_read_of_a_kernel_stays():
    graph = torch.fx.Graph()
    query = graph.placeholder("query")
    query.meta["val"] = HEADS
    few = graph.placeholder("few")
    few.meta["val"] = HEADS[:, :, :2]
    causal = ((few, query, query, None, False, 0.0, True), 0)  # fewer rows than keys
    weights, drop = ((query, query, query, None, True), 1), ((query, query, query, None, False, 0.5), 0)
    for arguments, result in (weights, drop, causal):
        call = graph.call_function(ATEN._scaled_dot_product_efficient_attention.default, arguments)
        last = graph.call_function(operator.getitem, (call, result))
    graph.output(last)
    spell_out_kernels(graph)
    assert sum(node.target is ATEN._scaled_dot_product_efficient_attention.default for node in graph.nodes) == 3


def test_the_same_graph_for_the_host_is_refused():
    graph = graph_of(lambda x: (x + 1,), "cuda:0")
    with pytest.raises(npusim.UnsupportedError, match="is on cuda:0: expected cpu, the target"):
        torch_compile._Compiled(graph, frozenset(), options_of({}))


def test_without_its_device_a_call_is_eagers(cuda, caplog):
    """What a run meets is told once, and each call goes on in eager PyTorch."""
    if torch.cuda.is_available():
        pytest.skip("it is there")
    made = torch_compile._Compiled(graph_of(lambda x: (x + 1,), "cuda:0"), frozenset(), cuda)
    for _ in range(2):
        assert torch.equal(made([X])[0], X + 1)
    (line,) = said(caplog)
    assert "left to eager PyTorch: cuda" in line


def test_a_call_of_a_graph_for_another_device(cuda, monkeypatch):
    """All of a call but the device: which one its session is opened on, what it is handed, what is made of its results. The
    device's part is played by a session on the host, of the same IR."""
    irs, opened = [], []
    compile_program = torch_compile.compile_program

    def noted(ir, **options):
        irs.append(ir)
        return compile_program(ir, **options)

    def on_the_host(program, weights, *, device, threads):
        assert program.target == "cuda"
        opened.append(device)
        return npusim.Session(npusim.compile(irs[-1], dtype="float32"), weights, threads=threads)

    monkeypatch.setattr(torch_compile, "compile_program", noted)
    monkeypatch.setattr(torch_compile, "Session", on_the_host)
    graph = graph_of(lambda x, w: (x @ w.t(), (x + w).t(), x[:, 1:]), "cuda:3", "cuda:3")
    made = torch_compile._Compiled(graph, frozenset({1}), cuda)
    for names, value in made.outputs.placed().values():  # results are the host's here
        made.outputs.listed[int(names[0][-1])] = names, torch.empty_strided(value.shape, value.stride())
    made.outputs.settle()
    w = torch.randn(3, 4)
    for x in (X, torch.randn(4, 3).t()):
        product, total, part = made.run([x, w])
        torch.testing.assert_close(product, x @ w.t())
        torch.testing.assert_close(total, (x + w).t())
        torch.testing.assert_close(part, x[:, 1:])
        assert total.stride() == (1, 4)
    assert opened == ["cuda:3"]
