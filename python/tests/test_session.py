"""Programs, sessions, errors and files, without PyTorch."""

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import ml_dtypes
import npusim
import numpy as np
import pytest
from npusim._core import on_device
from npusim.arrays import as_array


def tensor(name, shape, dtype="float32", **more):
    return {"name": name, "shape": shape, "dtype": dtype, **more}


def add_ir(dtype="float32", shape=(2, 3), right="float32"):
    """x + y"""
    shape = list(shape)
    x, y = tensor("x", shape, dtype, producer_node="x", producer_output_idx=0), tensor("y", shape, right)
    y |= {"producer_node": "y", "producer_output_idx": 0}
    out = tensor("add", shape, "float32" if "float32" in (dtype, right) else dtype)
    node = {"name": "add", "op_type": "aten.add.Tensor", "inputs": [x, y], "outputs": [out], "attrs": {}}
    return {"graph_inputs": [x, y], "graph_outputs": [out], "weights": [], "nodes": [node]}


def counter_ir():
    """state = index_copy(state, 0, at, row); the state is an input that is updated in place."""
    inputs = [tensor("state", [4, 2]), tensor("at", [1], "int64"), tensor("row", [1, 2])]
    read = [{**t, "producer_node": t["name"], "producer_output_idx": 0} for t in inputs]
    out = tensor("index_copy", [4, 2])
    node = {"name": "index_copy", "op_type": "aten.index_copy.default", "inputs": read, "outputs": [out]}
    return {"graph_inputs": inputs, "graph_outputs": [out], "weights": [], "nodes": [{**node, "attrs": {"dim": 0}}]}


@pytest.fixture
def add():
    return npusim.Session(npusim.compile(add_ir(), dtype="float32"))


def test_device_memory_is_shared(add):
    assert add.places() == {"x": "cpu", "y": "cpu", "add": "cpu"}
    arrays = {name: np.from_dlpack(array) for name, array in add.device_arrays().items()}
    assert {name: (a.dtype.name, a.shape) for name, a in arrays.items()} == dict.fromkeys(
        ("x", "y", "add"), ("float32", (2, 3))
    )
    found = add.run(X, Y)["add"]
    arrays["x"][:] = 2 * X
    arrays["y"][:] = Y
    add.run_on_device()
    assert np.array_equal(arrays["add"], 2 * X + Y) and np.array_equal(found, X + Y)
    del add
    arrays["x"][:] = X  # the session lives on


def test_memory_is_bound_by_dlpack(add):
    """As arrays on a GPU are, here the host's: runs copy from and to it."""
    x, y, out = X.copy(), Y.copy(), np.zeros((2, 3), "float32")
    add._handle.bind_device_input(0, 0, on_device(x.__dlpack__()))
    add._handle.bind_device_input(0, 1, on_device(y.__dlpack__()))
    add._handle.bind_device_output(0, 0, on_device(out.__dlpack__()))
    with pytest.raises(npusim.UsageError, match=r"input 'x': expected float32\[2, 3\], found float64\[2, 3\]"):
        add._handle.bind_device_input(0, 0, on_device(X.astype("float64").__dlpack__()))
    with pytest.raises(npusim.UsageError, match="row-major: stride 1 expected of dimension 1, found 2"):
        on_device(np.zeros((3, 2), "float32").T.__dlpack__())
    x *= 2
    add._handle.run(0, 1)
    assert np.array_equal(out, 2 * X + Y)
    assert np.array_equal(add.run(X, Y)["add"], X + Y)


def test_arrays_of_another_device_come_over_the_host(add):
    class Elsewhere:
        dtype, shape = X.dtype, X.shape

        def __dlpack_device__(self):
            return 2, 3  # the fourth GPU

        def __array__(self, dtype=None, copy=None):
            return X

    assert np.array_equal(add.run(Elsewhere(), Y)["add"], X + Y)
    with pytest.raises(npusim.UsageError, match=r"output 'add': expected an array of float32\[2, 3\]"):
        add.run(X, Y, out={"add": Elsewhere()})


def test_arrays_on_the_gpu_stay_there():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available() or not any(d.usable for d in npusim.devices() if d.name == "cuda"):
        pytest.skip("no GPU")
    session = npusim.Session(npusim.compile(add_ir(), target="cuda", dtype="float32"))
    x, y = torch.tensor(X, device="cuda"), torch.tensor(Y, device="cuda")
    out = torch.zeros_like(x)
    assert session.run(x, y, out={"add": out})["add"] is out
    assert torch.equal(out.cpu(), torch.tensor(X + Y))
    assert np.array_equal(session.run(2 * x, y)["add"], 2 * X + Y)
    assert np.array_equal(session.run(torch.tensor(X.T.copy(), device="cuda").T, Y)["add"], X + Y)
    with torch.cuda.stream(torch.cuda.Stream()):  # what is enqueued elsewhere comes before
        torch.cuda._sleep(10_000_000)
        x.mul_(3)
        assert np.array_equal(session.run(x, y)["add"], 3 * X + Y)
        torch.cuda._sleep(10_000_000)
        out.zero_()
        session.run(x, y, out={"add": out})
    torch.cuda.synchronize()
    assert torch.equal(out.cpu(), torch.tensor(3 * X + Y))
    with pytest.raises(npusim.UsageError, match="output 'add': expected a row-major array"):
        session.run(x, y, out={"add": torch.zeros(3, 2, device="cuda").T})
    if torch.cuda.device_count() > 1:  # PyTorch's current GPU is the first
        second = npusim.Session(session.program, device="cuda:1")
        here, other = x.to("cuda:1"), torch.zeros(2, 3, device="cuda:1")
        second.run(here, y.to("cuda:1"), out={"add": other})
        assert torch.equal(other.cpu(), torch.tensor(3 * X + Y))


X, Y = np.arange(6, dtype="float32").reshape(2, 3), np.full((2, 3), 0.5, "float32")


def test_digits_from_files(digits, tmp_path):
    program = npusim.compile(digits / "ir.json", dtype="float32")
    assert [(t.name, t.dtype, t.shape, t.state) for t in program.inputs()] == [("x", "float32", (1, 1, 32, 32), False)]
    assert program.methods == ["main"] and program.target == "cpu" and program.dtype == "float32"
    program.save(tmp_path / "p.npubin")
    loaded = npusim.load(tmp_path / "p.npubin")
    assert loaded.to_bytes() == program.to_bytes() == (tmp_path / "p.npubin").read_bytes()
    assert npusim.load(program.to_bytes()).describe() == program.describe()
    assert loaded.details()["methods"].keys() == {"main"}
    x = np.random.default_rng(0).standard_normal((1, 1, 32, 32)).astype("float32")
    weights = digits / "model.safetensors"
    first = npusim.Session(program, weights).run(x)
    assert np.array_equal(first["linear"], npusim.Session(loaded, weights, threads=1).run({"x": x})["linear"])
    checked = npusim.verify(program, {"x": x}, weights)
    assert checked.ok and checked.outputs["linear"].relative_l2 < 1e-4
    assert not npusim.verify(program, {"x": x}, weights, expected={"linear": first["linear"] * 1.01}).ok


def test_what_verify_allows_follows_the_coarsest_dtype(tmp_path):
    """The same from Python and the shell: of what the program rounds to, and of what it is compared with."""
    torch = pytest.importorskip("torch")

    from modules import Calls

    x = torch.linspace(-1, 1, 64)
    halves = Calls(lambda a: (a * a + a) * a - a)
    inside = Calls(lambda x: (x.bfloat16() * x.bfloat16()).float())
    cases = [
        (Calls(lambda x: x * x), x, "float32", 1e-3),
        (halves, x.bfloat16(), "float32", 4e-2),
        (halves, x.half(), "float32", 2e-2),
        (inside, x, "bfloat16", 4e-2),
        (inside, x, "float32", 4e-2),
    ]
    for i, (model, given, dtype, bar) in enumerate(cases):
        exported = npusim.export(model, (given,))
        exported.save(tmp_path / str(i))
        program = npusim.compile(tmp_path / str(i), dtype=dtype)
        inputs = {program.inputs()[0].name: given.float().numpy()}
        found = npusim.verify(program, inputs)
        assert found.ok and found.max_relative_l2 == bar, i
        npusim.save_weights(tmp_path / "inputs.safetensors", inputs)
        run = ["verify", str(tmp_path / str(i) / "ir.json"), "--dtype", dtype, "--json"]
        command = [sys.executable, "-m", "npusim", *run, "--inputs", str(tmp_path / "inputs.safetensors")]
        told = subprocess.run(command, capture_output=True, text=True, check=False)
        assert told.returncode == 0, told
    assert npusim.verify(program, inputs, expected={"output": (x * x).bfloat16()}).max_relative_l2 == 4e-2


def test_states_of_an_ir_are_its_inputs_and_outputs():
    torch = pytest.importorskip("torch")

    class Counter(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("c", torch.zeros(8, 4))
            self.register_buffer("n", torch.zeros((), dtype=torch.int64))

        def forward(self, x):
            self.c[1] = x[0]
            self.n += 1
            return self.c.sum() + self.n

    exported = npusim.export(Counter(), (torch.ones(1, 4),))
    for states, where in {
        ("n", "zz"): "states.n: expected an output of the graph (",
        ("n", "c_next"): "states.n: expected an output of the input's type, found 'n' of int64[] and 'c_next' of float32[8, 4]",
        ("zz", "n_next"): "states.zz: expected an input of the graph (",
    }.items():
        exported.ir["states"] = dict([states])
        with pytest.raises(npusim.BadInputError, match=re.escape(where)):
            npusim.compile(exported, dtype="float32")


def test_positions_names_and_out(add):
    assert np.array_equal(add.run(X, Y)["add"], X + Y)
    assert np.array_equal(add.run({"y": Y, "x": X})["add"], X + Y)
    out = np.zeros((2, 3), "float32")
    assert add.run(X, Y, out={"add": out})["add"] is out and np.array_equal(out, X + Y)
    first, second = add.run(X, Y)["add"], add.run(Y, Y)["add"]
    assert np.array_equal(first, X + Y) and np.array_equal(second, Y + Y)  # each run has arrays of its own
    assert np.array_equal(add.run(np.asfortranarray(X), Y[:, ::-1])["add"], X + Y)
    assert np.array_equal(add.run(X.tolist(), 2 * Y)["add"], X + 1)


def test_inputs_are_not_kept(add):
    x = X.copy()
    add.run(x, Y)
    assert sys.getrefcount(x) == 2
    del x
    assert np.array_equal(add.run(Y, Y)["add"], Y + Y)


@pytest.mark.parametrize(
    ("inputs", "problems"),
    [
        ({"x": X}, ["input 'y': expected float32[2, 3], found nothing"]),
        (
            {"x": X.astype("float64"), "y": Y[:1], "z": Y},
            [
                "input 'x': expected float32[2, 3], found float64[2, 3]",
                "input 'y': expected float32[2, 3], found float32[1, 3]",
                "input 'z': the method has none of this name",
            ],
        ),
        ({"x": X.astype("float16")[:1], "y": Y}, ["input 'x': expected float32[2, 3], found float16[1, 3]"]),
    ],
)
def test_wrong_inputs(add, inputs, problems):
    with pytest.raises(npusim.UsageError) as raised:
        add.run(inputs)
    assert [str(p) for p in raised.value.problems] == problems
    assert np.array_equal(add.run(X, Y)["add"], X + Y)  # the session is as it was


def test_wrong_calls(add):
    for call in (
        lambda: add.run(X),
        lambda: add.run(X, object()),
        lambda: add.run(X, Y, method="other"),
        lambda: add.run(X, Y, out={"add": np.zeros((2, 3))}),
        lambda: add.run(X, Y, out={"sum": np.zeros((2, 3))}),
        lambda: npusim.Session(add.program, device="abacus"),
        lambda: npusim.Session("add.npubin"),
        lambda: npusim.compile(add_ir(), dtype="int8"),
        lambda: npusim.compile(add_ir(), disable_fusion="no such"),
        lambda: npusim.verify(npusim.load(add.program.to_bytes()), {"x": X, "y": Y}),
        lambda: npusim.compare(X, Y[:1]),
    ):
        with pytest.raises(npusim.UsageError):
            call()
    with pytest.raises(npusim.UnsupportedError):
        add.run(X.astype("complex64"), Y)


def test_arrays_that_are_not_dense(add):
    torch = pytest.importorskip("torch")
    sparse = torch.eye(2).to_sparse()
    with pytest.raises(npusim.UnsupportedError, match="torch.sparse_coo: expected a dense one"):
        add.run(sparse, sparse)


def test_no_methods():
    with pytest.raises(npusim.UsageError, match="found an empty dict"):
        npusim.compile({})


def test_bfloat16_is_kept():
    session = npusim.Session(npusim.compile(add_ir("bfloat16", right="bfloat16")))
    x = X.astype(ml_dtypes.bfloat16)
    found = session.run(x, x)["add"]
    assert found.dtype == ml_dtypes.bfloat16 and np.array_equal(found, x + x)


def test_sixteen_bits_widen():
    program = npusim.compile(add_ir("bfloat16"), dtype="float32")
    assert [t.dtype for t in program.inputs()] == ["float32", "float32"]
    found = npusim.Session(program).run(X.astype(ml_dtypes.bfloat16), Y)["add"]
    assert found.dtype == np.float32 and np.array_equal(found, X + Y)


@pytest.mark.parametrize("shape", [(), (0, 3)])
def test_scalars_and_empty_arrays(shape):
    session = npusim.Session(npusim.compile(add_ir(shape=shape), dtype="float32"))
    x = np.ones(shape, "float32")
    found = session.run(x, x)["add"]
    assert found.shape == shape and np.array_equal(found, x + x)


def test_other_arrays():
    class Lent:  # as a library gives its tensors: DLPack and nothing else
        def __dlpack__(self, **options):
            return X.__dlpack__(**options)

        def __dlpack_device__(self):
            return X.__dlpack_device__()

    assert np.shares_memory(as_array(Lent()), X)
    assert np.shares_memory(as_array(X), X)


def test_states_stay_and_begin_with_weights():
    program = npusim.compile(counter_ir(), dtype="float32")
    assert [t.name for t in program.inputs() if t.state] == ["state"]
    begin = np.full((4, 2), 7, "float32")
    session, zero = npusim.Session(program, {"state": begin}), npusim.Session(program)
    row = np.ones((1, 2), "float32")
    for s, rest in ((session, 7), (zero, 0)):
        s.run(np.array([1]), row)
        after = s.run(np.array([3]), 2 * row)["index_copy"]
        assert after[:, 0].tolist() == [rest, 1, rest, 2]
        s.reset_states()
        assert s.run(np.array([0]), row)["index_copy"][:, 0].tolist() == [1, rest, rest, rest]
    assert session.sibling().run(np.array([0]), row)["index_copy"][:, 0].tolist() == [1, 7, 7, 7]
    given = session.run({"state": 2 * begin, "at": np.array([2]), "row": row})["index_copy"]
    assert given[:, 0].tolist() == [14, 14, 1, 14]


def test_weights_by_name(digits, tmp_path):
    program = npusim.compile(digits / "ir.json", dtype="float32")
    with pytest.raises(npusim.BadInputError, match="weight"):
        npusim.Session(program, {})
    with pytest.raises(npusim.BadInputError, match="no-such"):
        npusim.Session(program, tmp_path / "no-such.safetensors")
    names = {"a": X, "b": np.array(3), "c": X.astype(ml_dtypes.bfloat16)}
    npusim.save_weights(tmp_path / "w.safetensors", names)
    header = (tmp_path / "w.safetensors").read_bytes()
    assert b'"BF16"' in header and b'"I64"' in header


def test_bad_files(tmp_path):
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(npusim.BadInputError, match="bad.json"):
        npusim.compile(tmp_path / "bad.json")
    with pytest.raises(npusim.BadInputError, match="none.json"):
        npusim.compile(tmp_path / "none.json")
    with pytest.raises(npusim.BadInputError, match="ir.json"):
        npusim.compile(tmp_path)
    with pytest.raises(npusim.BadInputError):
        npusim.load(b"not a program")


def test_all_problems_of_an_ir_are_told():
    ir = add_ir()
    ir["nodes"][0]["op_type"] = "aten.no_such.default"
    with pytest.raises(npusim.UnsupportedError) as raised:
        npusim.compile(ir)
    assert raised.value.kind == "unsupported" and "aten.no_such.default" in raised.value.problems[0].reason
    assert isinstance(raised.value, npusim.Error)


def test_text(tinyqwen):
    stages = []
    program = npusim.compile(
        {"prefill": tinyqwen / "prefill_ir.json", "decode": tinyqwen / "decode_ir.json"},
        kv_map=json.loads((tinyqwen / "kv_mapping.json").read_text()),
        progress=stages.append,
    )
    assert stages[0] == "import" and {"prefill", "decode", "greedy"} <= set(program.methods)
    tokenizer = npusim.Tokenizer(tinyqwen / "tokenizer.json")
    session = npusim.Session(program, tinyqwen / "model.safetensors")
    golden = json.loads((tinyqwen / "golden_greedy.json").read_text())[0]
    prompt = tokenizer.encode(golden["prompt"])
    heard = []
    found = npusim.generate(session, prompt, max_new_tokens=16, on_token=heard.append)
    assert prompt == golden["prompt_ids"] and found.tokens == heard == golden["bf16"][:16]
    assert tokenizer.encode(tokenizer.decode(prompt)) == prompt
    assert npusim.generate(session, prompt, max_new_tokens=8).tokens == heard[:8]
    with pytest.raises(npusim.BadInputError):
        npusim.generate(session, [])
    with pytest.raises(ZeroDivisionError):
        npusim.generate(session, prompt, on_token=lambda token: 1 // 0)


def test_threads_share_a_session(add):
    wrong = []

    def work(value):
        x = np.full((2, 3), value, "float32")
        wrong.extend(1 for _ in range(200) if not np.array_equal(add.run(x, x)["add"], x + x))

    threads = [threading.Thread(target=work, args=(v,)) for v in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


@pytest.mark.parametrize("what", ["run", "compile", "reference"])
def test_gil_is_released(what, digits):
    """The thread that waits goes on before the library is done, though nobody makes Python switch."""
    ir, x = add_ir(shape=(300, 300)), np.zeros((300, 300), "float32")
    session = npusim.Session(npusim.compile(ir, dtype="float32"))
    graph = json.loads((digits.parent / "tinyqwen" / "decode_ir.json").read_text())
    calls = {
        "run": lambda: [session.run(x, x) for _ in range(50)],  # one is over before a busy machine sees the other
        "compile": lambda: npusim.compile(graph),
        "reference": lambda: npusim.verify(session.program, {"x": x, "y": x}),
    }
    started, done = threading.Event(), []

    def work():
        started.set()
        for _ in range(20):  # without a release the other thread would wait for all of them
            calls[what]()
        done.append(True)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(100)
    try:
        worker = threading.Thread(target=work)
        worker.start()
        started.wait()
        early = not done
    finally:
        sys.setswitchinterval(interval)
    worker.join()
    assert early and done


def test_ops_and_devices():
    assert npusim.is_op_supported("aten.relu.default") and npusim.is_op_supported("aten::relu_")
    assert not npusim.is_op_supported("aten.no_such.default")
    assert len(npusim.ops()) > 500 and {d.name for d in npusim.devices()} >= {"cpu", "null"}
    with pytest.raises(npusim.UsageError):
        npusim.ops("abacus")


def test_partition(digits):
    x = np.random.default_rng(0).standard_normal((1, 1, 32, 32)).astype("float32")
    weights = digits / "model.safetensors"
    whole = npusim.compile(digits / "ir.json", dtype="float32")
    split = npusim.compile(digits / "ir.json", dtype="float32", force_cpu="relu")
    assert whole.targets == ["cpu"] and len(split.targets) == 2
    assert "relu" in split.describe_partition() and split.partition_picture().startswith("<svg")
    expected = npusim.Session(whole, weights).run(x)["linear"]
    for device in (None, "cpu"):
        assert np.allclose(
            npusim.Session(split, weights, device=device).run(x)["linear"], expected, rtol=1e-4, atol=1e-4
        )
    again = npusim.compile(digits / "ir.json", dtype="float32", plan=split.partition_plan())
    assert again.partition() == split.partition() != whole.partition()
    with pytest.raises(npusim.UsageError):
        npusim.compile(digits / "ir.json", force_cpu=["no_such_operator"])


def test_needs_no_torch():
    code = "import sys; sys.modules['torch'] = None; import npusim, test_session as t; "
    code += "print(npusim.Session(npusim.compile(t.add_ir())).run(t.X, t.Y)['add'].sum())"
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.stdout.strip() == "18.0", done.stderr


def test_exporting_without_pytorch_says_what_is_missing():
    calls = ["npusim.export(object(), ())", "npusim.export_llm('folder', 4)", "npusim.compile(object(), ())"]
    for call in calls:
        code = f"import sys; sys.modules['torch'] = None\nimport npusim\ntry: {call}\nexcept npusim.UsageError as e: print(e)"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "exporting needs torch, which is not installed: pip install torch"


def test_the_module_shows_one_function():
    """What else it showed, as of a standard library that is linked into it, other modules would take for theirs."""
    if sys.platform != "linux" or not shutil.which("nm"):
        pytest.skip("needs nm, of Linux")
    found = subprocess.run(["nm", "-D", "--defined-only", npusim._core.__file__], capture_output=True, text=True, check=True)
    assert [line.split()[-1] for line in found.stdout.splitlines()] == ["PyInit__core"]
    pytest.importorskip("torch")
    subprocess.run([sys.executable, "-c", "import npusim, torch, numpy; npusim.ops()"], check=True)
