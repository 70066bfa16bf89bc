"""Every argument of the package's functions with values of other kinds: from their signatures, so that an argument that
is added is tested, and one whose kind has no values here fails."""

import enum
import inspect
import json
import math
import pathlib
import subprocess
import sys
from xml.etree import ElementTree

import npusim
import numpy as np
import pytest

from test_session import X, Y, add_ir, counter_ir  # noqa: F401



class Kind(enum.Enum):
    ONE = 1
    CPU = "cpu"


NOT_TEXT = [1, b"cpu", ["cpu"], 1.5, np.array("cpu"), np.bytes_(b"cpu"), Kind.CPU, pathlib.Path("cpu"), bytearray(b"cpu")]
NOT_A_PATH = ["", 1, b"", None, 1.5, ["a"], np.array("a"), np.bytes_(b"a"), Kind.CPU, bytearray(b"a"), pathlib.Path("a\0b")]
# Of one element, or of none that is a number.
NOT_A_NUMBER = [np.array([1]), np.array([[0.5]]), np.array("1"), np.array(True), np.bool_(True), np.complex64(1), np.array(1j), Kind.ONE]
NOT_TRUTH = [np.bool_(True), np.array(True), np.int64(1), Kind.ONE, {}.keys()]
NO_DIMENSIONS = [np.array(1), np.array(1.5), np.array("all"), np.array(None), np.int64(1), Kind.ONE, bytearray(b"1"), memoryview(b"1")]
BAD = {
    "str": [*NOT_TEXT, None, "no such"],
    "str | None": [*NOT_TEXT, "no such", ""],
    "bool": [0, 1, "yes", None, 2.0, *NOT_TRUTH],
    "bool | None": [0, 1, "yes", *NOT_TRUTH],
    "int": ["1", 1.0, 1.5, None, -1, 2**70, math.nan, True, b"1", [1], np.float32(1), *NOT_A_NUMBER],
    "int | float": ["1", 1.5, None, -1, 2**70, math.nan, math.inf, True, b"1", [1], *NOT_A_NUMBER],
    "int | None": ["1", 1.0, 1.5, -1, 2**70, math.nan, True, [1], *NOT_A_NUMBER],
    "float | None": ["1", math.nan, math.inf, -math.inf, -1, 1e9, b"1", [1], 1j, *NOT_A_NUMBER],
    "Sequence[int]": ["12", 1, None, [1.5], [-1], [2**70], {"a": 1}, [None], ["1"], [10**6], *NO_DIMENSIONS],
    "Callable[[str], None] | None": [1, "print", []],
    "Callable[[int], None] | None": [1, "print", []],
    "Iterable[str]": [1, [1], b"all", {"all": 1}, None, ["no such"], [""], *NO_DIMENSIONS],
    "Mapping[str, Any] | None": [1, [1], {"x": object()}, {"no_such_key": 1}, {"max_rank": -1}],
    "Mapping[str, Any] | Path_ | None": [1, [1], {"x": object()}, {"no_such_key": 1}, "", "no such file", b"x"],
    "Path_": NOT_A_PATH,
    "str | os.PathLike[str]": NOT_A_PATH,
    "Path_ | bytes": ["", 1, None, b"", b"no program", "no such file"],
    "Weights": ["", 1, ["a"], "no such file", {1: 2}, {"w": object()}],
}
# What has no kind of its own, and what needs no test of its kind.
OWN = {
    ("compile", "model"): [1, "", {}, {"main": 1}, "no such file"],
    ("compile", "args"): [],  # of a model in PyTorch
    ("compile", "kwargs"): [],
    ("Session", "program"): [1, None, "program.npubin", b"program"],
    ("Session", "weights"): ["", 1, ["a"], "no such file", {1: 2}],
    ("generate", "session"): [1, None, "session"],
    ("Session.run", "inputs"): [],  # test_session.py
    ("Session.run", "out"): [],
}


def cases(called, function, others=()):
    """(argument, value) for each argument that is tested."""
    for name, parameter in inspect.signature(function).parameters.items():
        if name == "self" or name in others:
            continue
        for value in OWN[called, name] if (called, name) in OWN else BAD[parameter.annotation]:
            yield name, value


def check(call, called, function, **skipped):
    for name, value in cases(called, function, skipped):
        try:
            call(**{name: value})
        except (npusim.UsageError, npusim.BadInputError, npusim.UnsupportedError) as error:
            assert str(error) and "\n" not in str(error)
        except Exception as error:  # of no other kind
            pytest.fail(f"{called}({name}={value!r}): {type(error).__name__}: {error}")
        else:
            pytest.fail(f"{called}({name}={value!r}) is taken")


def test_compile():
    def call(**arguments):
        return npusim.compile(**{"model": add_ir(), "dtype": "float32", **arguments})

    check(call, "compile", npusim.compile)


def test_session():
    program = npusim.compile(add_ir(), dtype="float32")

    def call(**arguments):
        return npusim.Session(**{"program": program, **arguments})

    check(call, "Session", npusim.Session.__init__)
    session = call()
    check(lambda seed: session.seed(seed), "Session.seed", npusim.Session.seed)
    check(lambda **a: session.run(X, Y, **a), "Session.run", npusim.Session.run)
    session.seed(2**64 - 1)
    session.seed(np.int64(3))
    file = program.to_bytes()
    check(lambda **a: npusim.load(**{"program": file, **a}), "load", npusim.load, weights=None)
    check(lambda path: program.save(path), "Program.save", npusim.Program.save)


def test_numbers_are_what_the_input_holds():
    counter = npusim.Session(npusim.compile(counter_ir(), dtype="float32"))
    row = np.ones((1, 2), "float32")
    for wrong in ([1.5], [2**70], [math.nan], ["1"], [None], [1 + 2j], [[1], [2, 3]]):
        with pytest.raises((npusim.UsageError, npusim.UnsupportedError)):
            counter.run({"at": wrong, "row": row})
    assert np.array_equal(counter.run({"at": [1], "row": row})["index_copy"][1], [1, 1])
    assert np.array_equal(counter.run({"at": [2.0], "row": row})["index_copy"][2], [1, 1])


def test_generate(tinyqwen):
    program = npusim.compile(
        {"prefill": tinyqwen / "prefill_ir.json", "decode": tinyqwen / "decode_ir.json"},
        kv_map=tinyqwen / "kv_mapping.json",
    )
    session = npusim.Session(program, tinyqwen / "model.safetensors")
    tokenizer = npusim.Tokenizer(tinyqwen / "tokenizer.json")

    def call(**arguments):
        return npusim.generate(**{"session": session, "prompt": [1, 2], "max_new_tokens": 2, **arguments})

    check(call, "generate", npusim.generate)
    for wrong in ({"top_p": 0}, {"top_p": 1.0001}, {"top_p": -1}, {"top_p": 2}, {"max_new_tokens": 0}, {"temperature": 101}):
        with pytest.raises(npusim.UsageError):
            call(**wrong)
    with pytest.raises(npusim.BadInputError, match="vocabulary"):
        call(stop_tokens=[10**6])
    assert call(max_new_tokens=1).tokens == call(max_new_tokens=np.int64(1), temperature=0).tokens
    # Asking for a way of sampling is asking to sample, as on the command line.
    prompt = tokenizer.encode("The")
    long = {"prompt": prompt, "max_new_tokens": 30}
    assert call(**long, seed=5).tokens == call(**long, seed=5, temperature=1).tokens != call(**long).tokens
    assert call(**long, top_p=0.9).tokens == call(**long, top_p=0.9, seed=0, temperature=1.0).tokens
    assert call(**long, top_p=0.9, temperature=0).tokens == call(**long).tokens

    check(lambda path: npusim.Tokenizer(path), "Tokenizer", npusim.Tokenizer.__init__)
    for wrong in (1, None, b"x"):
        with pytest.raises(npusim.UsageError):
            tokenizer.encode(wrong)
        with pytest.raises(npusim.UsageError):
            tokenizer.token_id(wrong)
    for wrong in ("12", 1, None, [1.5], [None]):
        with pytest.raises(npusim.UsageError):
            tokenizer.decode(wrong)


@pytest.mark.parametrize("odd", ["\ufffe", "\uffff", "\x1b[2J", "<&>\"'", "\u2028", "\ufdd0", "\U0001fffe", "\x85", "]]>"])
def test_pictures_of_odd_names_are_xml(odd):
    ir = add_ir()
    ir["nodes"][0]["name"] = ir["nodes"][0]["outputs"][0]["name"] = ir["graph_outputs"][0]["name"] = odd
    plan = npusim.partition(ir)
    root = ElementTree.fromstring(plan.picture())
    assert root.tag.endswith("svg")


def test_a_sub_interpreter_cannot_import():
    """Where a run would wait for the main interpreter's lock for ever."""
    package = pathlib.Path(npusim.__file__).parents[1]
    script = f"import sys; sys.path.insert(0, {str(package)!r})\ntry:\n  import npusim\nexcept ImportError as e:\n  print(e)"
    interpreters = "_xxsubinterpreters" if sys.version_info < (3, 13) else "_interpreters"
    run = f"import {interpreters} as i; i.run_string(i.create(), {script!r})"
    said = subprocess.run([sys.executable, "-c", run], capture_output=True, text=True, timeout=120)
    assert "sub-interpreter" in said.stdout, said


def test_names_in_errors_are_printable(tmp_path):
    ir = add_ir()
    bad = "a\x1b[31m\r\n\u202eb"
    ir["nodes"][0]["op_type"] = bad
    with pytest.raises(npusim.Error) as raised:
        npusim.compile(ir)
    lines = str(raised.value).split("\n")
    assert all(line.isprintable() for line in lines) and "\\u001b[31m\\r\\n\\u202eb" in lines[0]
    for problem in raised.value.problems:
        assert str(problem).isprintable()
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({"methods": {}, "cpu": []}))
    with pytest.raises(npusim.BadInputError, match='unknown key "cpu": expected methods'):
        npusim.compile(add_ir(), plan=path)


def test_integer_weights_that_do_not_fit():
    ir = add_ir("int32", right="int32")
    w = ir["graph_inputs"].pop()
    ir["weights"] = [{k: w[k] for k in ("name", "shape", "dtype")}]
    ir["weight_name_mapping"] = {"y": "y"}
    ir["nodes"][0]["inputs"][1] = ir["weights"][0]
    program = npusim.compile(ir)
    x = np.zeros((2, 3), "int32")
    for value in (2**31 - 1, -(2**31), 0):
        weights = {"y": np.full((2, 3), value, "int64")}
        assert (npusim.Session(program, weights).run(x)["add"] == value).all()
    for value in (2**31, -(2**31) - 1, 2**40, 2**63 - 1):
        weights = {"y": np.full((2, 3), value, "int64")}
        with pytest.raises(npusim.BadInputError, match=f"weight y: element 0 is {value}, which int32 does not hold"):
            npusim.Session(program, weights)


@pytest.mark.parametrize("prefix", ["module.", "_orig_mod.", "module._orig_mod.", "_orig_mod.module."])
def test_wrappers_names_are_taken_off(prefix):
    ir = add_ir()
    w = ir["graph_inputs"].pop()
    ir["weights"] = [{"name": "y", "shape": w["shape"], "dtype": w["dtype"]}]
    ir["weight_name_mapping"] = {"y": "net.y"}
    ir["weights"][0]["name"] = "net.y"
    ir["nodes"][0]["inputs"][1] = {"name": "y", "shape": w["shape"], "dtype": w["dtype"]}
    program = npusim.compile(ir, dtype="float32")
    ones = np.ones((2, 3), "float32")
    assert (npusim.Session(program, {prefix + "net.y": ones}).run(X)["add"] == X + 1).all()
    with pytest.raises(npusim.BadInputError, match="net.y"):
        npusim.Session(program, {prefix + "net.z": ones})
    # The name itself goes before.
    both = {"net.y": ones, prefix + "net.y": 2 * ones}
    assert (npusim.Session(program, both).run(X)["add"] == X + 1).all()


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["model.py:make"],
        ["model.py", "-o", "d"],
        ["model.py:make", "-o", "d"],
        ["model.py:make", "-o"],
        ["model.py:make", "-o", ""],
        ["", "-o", "d"],
        ["model.py:make", "-o", "d", "--stric"],
        ["model.py:make", "-o", "d", "--fixed"],
        ["a\x1b[31mb\n.py:make", "-o", "d"],
    ],
)
def test_the_export_verb_says_one_line(words, monkeypatch, tmp_path, capsys):
    from npusim import __main__ as command

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["npusim", "export", *words])
    assert command.main() == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.startswith("error: ") and said.err.count("\n") == 1
    assert said.err[:-1].isprintable() and not list(tmp_path.iterdir())


@pytest.mark.parametrize("key", ["nodes", "graph_inputs", "graph_outputs", "weights"])
def test_an_ir_without_a_part_is_named(key):
    ir = add_ir()
    del ir[key]
    with pytest.raises(npusim.BadInputError, match=key):
        npusim.compile(ir)


@pytest.mark.parametrize("model", [None, 3, 1.5, True, b"x", bytearray(b"x"), [], (), {1}])
def test_what_is_no_model_is_refused_without_pytorch(model):
    with pytest.raises(npusim.UsageError, match="model: expected a torch.nn.Module, an exported program, an IR"):
        npusim.compile(model)
