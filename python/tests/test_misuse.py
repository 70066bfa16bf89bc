"""Every public function and method with values that no argument should get: one clear error of npusim, or it works; never
what Python, NumPy or PyTorch say from the inside."""

import array
import collections
import decimal
import enum
import fractions
import importlib.util
import inspect
import pathlib
import sys

import npusim
import numpy as np
import pytest

from test_session import X, Y, add_ir


class Hostile:
    """Fails wherever it is asked for anything."""

    def __repr__(self):
        raise RuntimeError("no repr")

    def __array__(self, *_, **__):
        raise RuntimeError("no array")

    def __fspath__(self):
        return 5


class Kind(enum.Enum):
    ONE = 1
    CPU = "cpu"


class Number(enum.IntEnum):
    ONE = 1


def without_dimensions():
    """Arrays and tensors of one element, and NumPy's scalars."""
    numbers = [True, 1, -1, 1.5, float("nan"), 2j, "cpu", b"cpu", None]
    found = [np.array(number, object if number is None else None) for number in numbers]
    found += [np.bool_(True), np.int64(1), np.float64(0.5), np.complex64(1j), np.str_("no such"), np.bytes_(b"cpu")]
    found += [np.datetime64("2020-01-01"), np.timedelta64(1), np.void(b"ab"), np.array([1]), np.array([0.5]), np.array([[1]])]
    if torch := sys.modules.get("torch"):
        found += [torch.tensor(number) for number in (True, 1, 1.5, 2j)] + [torch.tensor([1]), torch.ones(1, 1)]
        found += [torch.tensor(1, device="meta"), torch.Size([1]), torch.float32]
    return found


def one_after_the_other():
    """What gives its elements once, or in no order of its own."""
    known = {"x": X, "y": 1}
    found = [(v for v in (1, 2)), (v for v in ("a", None)), iter([]), map(int, "12"), zip("a", "b"), enumerate("a")]
    found += [known.keys(), known.values(), known.items(), collections.deque([1]), array.array("i", [1]), frozenset("a")]
    return [*found, collections.OrderedDict(x=1), collections.ChainMap({"x": 1}), bytearray(b"cpu"), memoryview(b"cpu")]


def places():
    """Paths of other kinds than a file that is there. All of them lead into the folder of the test: functions write there."""
    pathlib.Path("folder").mkdir(exist_ok=True)
    pathlib.Path("file").write_bytes(b"no program")
    names = ("", "no such", "folder", "file", "file/below", "a\0b", "\udcff", "a" * 300)
    return [*map(pathlib.Path, names), pathlib.PurePosixPath("folder"), pathlib.PureWindowsPath("a")]


def values():
    read_only = X.copy()
    read_only.flags.writeable = False
    masked = np.ma.masked_array(X, X > 2)
    return [
        None, 0, -1, 2**70, 1.5, float("nan"), True, "", "no such", "a\0b", "\udcff", "\ud800", b"", b"a\0b", b"\xff",
        [], [None], ["a", 1], [[1], [2, 3]], (), {}, {1: 2}, {"x": None}, {"x": X, "y": object()}, {"\udcff": X},
        set(), object(), Hostile(), int, lambda: 1, X, X.T, X[::-1], X.astype(">f4"), X.astype(object), X.astype("U3"),
        X.astype("complex64"), read_only, masked, np.float32(1), np.zeros((2, 3, 0), "float32"),
        np.zeros(3, [("a", "f4")]), range(3),
        1j, decimal.Decimal("1.5"), fractions.Fraction(1, 2), ..., NotImplemented, Kind.ONE, Kind.CPU, Kind, Number.ONE,
        *without_dimensions(), *one_after_the_other(), *places(),
    ]  # fmt: skip


def names_of(function, skipped):
    return [name for name in inspect.signature(function).parameters if name not in ("self", *skipped)]


TORCH = importlib.util.find_spec("torch") is not None
REFUSED = (npusim.UsageError, npusim.BadInputError, npusim.UnsupportedError)


def words_for(name):
    """How a message names an argument: by its own name, as the command line spells it, or one of several."""
    return name, name.replace("_", "-"), name.removesuffix("s"), {"ir": "model"}.get(name, name)


def search(title, function, right, call=None, skipped=()):
    """Each argument of a function with each value. call: takes keywords; the function itself if it is None."""
    tested.add(title)
    for name in names_of(function, skipped):
        for value in values():
            if callable(value) and name in ("progress", "on_token", "clock"):
                continue  # what it raises is its own
            given = {**right, name: value}
            try:
                (call or function)(**given)
            except REFUSED as error:
                text = str(error)
                assert text and all(line.isprintable() for line in text.split("\n")), (title, name, type(value))
                text.encode()
                needs = name == "model" and not TORCH and "exporting needs torch" in text
                if isinstance(error, npusim.UsageError) and not needs and not any(word in text for word in words_for(name)):
                    failures.append(f"{title}({name}=…) is not named: {text[:200]}")
                for problem in error.problems:
                    f"{problem.where}{problem.reason}".encode()
            except Exception as error:
                shown = type(value).__name__ if isinstance(value, Hostile) else repr(value).replace("\n", "")
                failures.append(f"{title}({name}={shown[:60]}): {type(error).__name__}: {str(error)[:200]}")


tested: set[str] = set()
failures: list[str] = []


@pytest.fixture(autouse=True)
def no_failures(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    failures.clear()
    yield
    assert not failures, "\n".join(failures)


@pytest.fixture
def program():
    return npusim.compile(add_ir(), dtype="float32")


def spread(function):
    """For a function that takes *inputs."""

    def call(inputs, **more):
        return function(inputs, **more)

    return call


def test_every_function(program):
    session = npusim.Session(program)
    inputs = {"x": X, "y": Y}
    search("compile", npusim.compile, {"model": add_ir(), "dtype": "float32"})
    search("load", npusim.load, {"program": program.to_bytes()})
    search("Session", npusim.Session.__init__, {"program": program}, npusim.Session)
    search("Session.run", npusim.Session.run, {"inputs": inputs}, spread(session.run))
    search("Session.timed", npusim.Session.timed, {"method": "main", "inputs": (X, Y)}, session.timed)
    search("Session.run_timed_steps", npusim.Session.run_timed_steps, {"method": "main", "inputs": (X, Y)},
           session.run_timed_steps)  # fmt: skip
    right = {"method": "main", "inputs": (X, Y), "execute": lambda step: step(0)}
    search("Session.run_by_steps", npusim.Session.run_by_steps, right, session.run_by_steps, ("execute",))
    search("Session.step_how", npusim.Session.step_how, {"method": "main", "step": 0}, session.step_how)
    search("Session.device_arrays", npusim.Session.device_arrays, {}, session.device_arrays)
    search("Session.places", npusim.Session.places, {}, session.places)
    search("Session.run_on_device", npusim.Session.run_on_device, {}, session.run_on_device)
    search("Session.seed", npusim.Session.seed, {}, session.seed)
    for name in ("save", "recompile", "describe", "details", "inputs", "outputs", "steps", "choose_method"):
        search(f"Program.{name}", getattr(npusim.Program, name), {}, getattr(program, name))
    search("Program", npusim.Program.__init__, {"handle": program.handle}, npusim.Program,
           ("notes", "seconds", "sources", "kept", "options"))  # fmt: skip
    search("compare", npusim.compare, {"found": X, "expected": X})
    search("verify", npusim.verify, {"program": program, "inputs": inputs})
    search("bisect", npusim.bisect, {"program": program, "inputs": inputs})
    search("partition", npusim.partition, {"model": add_ir()}, skipped=("options", "is_supported"))
    for value in [v for v in values() if v is not None and not callable(v)]:
        with pytest.raises(npusim.UsageError):
            npusim.partition(add_ir(), is_supported=value)
    search("DAGExecutor", npusim.DAGExecutor.__init__, {"program": program}, npusim.DAGExecutor)
    executor = npusim.DAGExecutor(program)
    search("DAGExecutor.partitions", npusim.DAGExecutor.partitions, {}, executor.partitions)
    search("DAGExecutor.run", npusim.DAGExecutor.run, {"inputs": inputs}, spread(executor.run), ("watch",))
    plan = npusim.partition(add_ir())
    search("PartitionPlan.partitions", npusim.PartitionPlan.partitions, {}, plan.partitions)
    search("Profiler", npusim.Profiler.__init__, {"session": session}, npusim.Profiler)
    profiler = npusim.Profiler(session)
    search("Profiler.run", npusim.Profiler.run, {"inputs": inputs}, spread(profiler.run))
    profiler.run(X, Y)
    search("Profiler.profile", npusim.Profiler.profile, {}, profiler.profile)
    search("profile", npusim.profile, {"session": session, "inputs": inputs, "times": 1},
           lambda session, inputs, **more: npusim.profile(session, inputs, **more))  # fmt: skip
    search("Profile.save_trace", npusim.Profile.save_trace, {}, profiler.profile().save_trace)
    for name in ("ops", "is_op_supported", "use_aten_plugin", "read_exported", "read_weights"):
        search(name, getattr(npusim, name), {"op": "aten.relu"} if name == "is_op_supported" else {})
    search("save_weights", npusim.save_weights, {"path": "w.safetensors", "weights": {"w": X}})
    exported = npusim.Exported(add_ir(), {"w": X})
    search("Exported.save", npusim.Exported.save, {}, exported.save)
    search("Exported", npusim.Exported.__init__, {"ir": add_ir()}, lambda **a: npusim.Exported(**a).save("net"),
           ("structure", "leaves", "made_for", "notes"))  # fmt: skip
    search("Exported, compiled", npusim.Exported.__init__, {"ir": add_ir()}, lambda **a: npusim.compile(npusim.Exported(**a)),
           ("structure", "leaves", "made_for", "notes"))  # fmt: skip
    text = {"methods": {"decode": add_ir()}, "kv_map": {"layers": []}, "capacity": 8, "weights": {"w": X}}
    search("ExportedText.save", npusim.ExportedText.save, {}, npusim.ExportedText(**text).save)
    search("ExportedText", npusim.ExportedText.__init__, text, lambda **a: npusim.ExportedText(**a).save("text"))
    search("Tokenizer", npusim.Tokenizer.__init__, {}, npusim.Tokenizer)
    search("generate", npusim.generate, {"session": session, "prompt": [1]})


def test_every_text_function(tinyqwen):
    tokenizer = npusim.Tokenizer(tinyqwen / "tokenizer.json")
    search("Tokenizer.encode", npusim.Tokenizer.encode, {"text": "a"}, tokenizer.encode)
    search("Tokenizer.decode", npusim.Tokenizer.decode, {"ids": [1]}, tokenizer.decode)
    search("Tokenizer.token_id", npusim.Tokenizer.token_id, {}, tokenizer.token_id)


def test_exports(tmp_path):
    torch = pytest.importorskip("torch")
    model, x = torch.nn.Linear(3, 2), torch.ones(1, 3)
    search("export", npusim.export, {"model": model, "args": (x,)})
    pytest.importorskip("transformers")
    search("export_llm", npusim.export_llm, {"model": str(tmp_path), "capacity": 256})


def strange_tensors():
    torch = pytest.importorskip("torch")
    x = torch.ones(2, 3)
    yield "torch.sparse_coo", x.to_sparse()
    yield "torch.sparse_csr", x.to_sparse_csr()
    yield "quantized", torch.quantize_per_tensor(x, 0.1, 0, torch.qint8)
    yield "meta", x.to("meta")
    yield "nested", torch.nested.nested_tensor([torch.ones(3), torch.ones(2)])
    yield "nested", torch.nested.nested_tensor([torch.ones(3), torch.ones(2)], layout=torch.jagged)
    if torch.backends.mkldnn.is_available():
        yield "torch._mkldnn", x.to_mkldnn()


@pytest.mark.filterwarnings("ignore")
def test_strange_tensors(program):
    """Of other layouts, and without values."""
    torch = pytest.importorskip("torch")
    session = npusim.Session(program)

    class Add(torch.nn.Module):
        def forward(self, x, y=None):
            first = x["deep"][0] if isinstance(x, dict) else x
            return first + 1 if y is None else first + y

    for said, value in strange_tensors():
        calls = {
            r"example args\[0\]": lambda: npusim.export(Add(), (value,)),
            r"example args\[0\]\['deep'\]\[0\]": lambda: npusim.export(Add(), ({"deep": [value]},)),
            "example y": lambda: npusim.compile(Add(), (X,), {"y": value}),
            "input 'x'": lambda: session.run(value, Y),
            "input 'y'": lambda: session.run({"x": X, "y": value}),
            "weight 'w'": lambda: npusim.save_weights("w.safetensors", {"w": value}),
            "found": lambda: npusim.compare(value, X),
            "expected": lambda: npusim.compare(X, value),
        }
        for where, call in calls.items():
            with pytest.raises(npusim.UnsupportedError, match=f"{where}.*{said}"):
                call()


def test_arrays_that_are_taken(program):
    """Read-only, turned and spread in memory."""
    session = npusim.Session(program)
    read_only = X.copy()
    read_only.flags.writeable = False
    spread_out = np.zeros((4, 6), "float32")
    spread_out[::2, ::2] = X
    for x in (read_only, np.asfortranarray(X), spread_out[::2, ::2], X[::-1][::-1]):
        assert np.array_equal(session.run(x, Y)["add"], X + Y)
    with pytest.raises(npusim.UnsupportedError, match="input 'x': dtype >f4, whose bytes are in the other order"):
        session.run(X.astype(">f4"), Y)
    given = next(iter(session.run(X, Y)))
    with pytest.raises(npusim.UsageError, match=f"output '{given}': expected an array of values, found a masked one"):
        session.run(X, Y, out={given: np.ma.masked_array(session.run(X, Y)[given], True)})
    with pytest.raises(npusim.UsageError, match="input 'x': expected an array of values, found a masked one"):
        session.run(np.ma.masked_array(X, X > 2), Y)


def test_all_that_is_public_was_tested():
    """After the others: what is added to the package needs a search."""
    if len(tested) < 30:
        pytest.skip("others were not run")
    pytest.importorskip("torch")
    records = {
        "Bisection", "Comparison", "Device", "Generation", "Needs", "Op", "Part", "Partition", "PartitionPlan", "Problem",
        "Profile", "Step", "TensorInfo", "Verified",
    }  # fmt: skip
    simple = {"aten_plugin", "devices"}  # take nothing
    for name in npusim.__all__:
        value = getattr(npusim, name)
        if name in records | simple or (inspect.isclass(value) and issubclass(value, Exception)):
            continue
        assert name in tested, name
        if inspect.isclass(value):
            for method, function in inspect.getmembers(value, inspect.isfunction):
                if not method.startswith("_") and names_of(function, ()):
                    assert f"{name}.{method}" in tested, f"{name}.{method}"


