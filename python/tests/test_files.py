"""Names of files and what is written: names that no UTF-8 spells, NUL characters, folders that were saved to before, disks
that are full."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys

import npusim
import numpy as np
import pytest

from test_session import X, Y, add_ir

W = np.arange(3, dtype="float32")


def weighted_ir():
    ir = add_ir()
    y = ir["graph_inputs"].pop()
    ir["weights"] = [{"name": "y", "shape": y["shape"], "dtype": y["dtype"]}]
    ir["weight_name_mapping"] = {"y": "y"}
    ir["nodes"][0]["inputs"][1] = {"name": "y", "shape": y["shape"], "dtype": y["dtype"]}
    return ir


def exported(value=1):
    return npusim.Exported(weighted_ir(), {"y": np.full((2, 3), value, "float32")})


def text_model(files=(), value=2, methods=("prefill", "decode")):
    weights = {"y": np.full((2, 3), value, "float32")}
    return npusim.ExportedText(dict.fromkeys(methods, weighted_ir()), {"layers": []}, 8, weights, tuple(files))


def without_weights():
    return npusim.Exported(add_ir())


def made_files(folder):
    (folder / "from").mkdir()
    for name in ("tokenizer.json", "config.json"):
        (folder / "from" / name).write_text("{}")
    return [str(folder / "from" / name) for name in ("tokenizer.json", "config.json")]


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()} if folder.exists() else {}


def kinds(tmp_path):
    files = made_files(tmp_path)
    return {
        "exported": exported(),
        "without weights": without_weights(),
        "text": text_model(files),
        "text of other methods": text_model((), 3, ("prefill", "prefill_64", "decode")),
        "text without weights": npusim.ExportedText({"decode": add_ir()}, {"layers": []}, 8, None, (files[0],)),
    }


def test_a_folder_means_what_was_saved_last(tmp_path):
    """Each after each: what makes the folder mean a model is as if nothing had been there, what else is there stays."""
    models = kinds(tmp_path)
    for first in models:
        for then in models:
            clean, used = tmp_path / f"clean {then}", tmp_path / f"{first}, {then}"
            models[first].save(used)
            (used / "mine").write_text("kept")  # what no save wrote
            models[then].save(used)
            models[then].save(clean)
            found, meant = contents(used), contents(clean)
            assert {**found, **meant, "mine": b"kept"} == found, (first, then)
            for index in ("ir.json", "text.json", "model.safetensors"):
                assert (index in found) == (index in meant), (first, then, index)
            read = npusim.read_exported(used)
            assert type(read) is type(models[then]) and bool(read.weights) == bool(models[then].weights)


def test_what_was_read_is_saved_again(tmp_path):
    """With its weights, which are a file then: into another folder and its own."""
    for name, model in kinds(tmp_path).items():
        model.save(tmp_path / name)
        before = contents(tmp_path / name)
        if "text" not in name:
            read = npusim.read_exported(tmp_path / name)
            read.save(tmp_path / f"{name} again")
            assert contents(tmp_path / f"{name} again") == before
            read.save(tmp_path / name)
            assert contents(tmp_path / name) == before
    read = npusim.read_weights(tmp_path / "exported" / "model.safetensors")
    npusim.Exported(weighted_ir(), read).save(tmp_path / "set")
    assert contents(tmp_path / "set") == contents(tmp_path / "exported")


def test_weights_of_a_stranger_stay(tmp_path):
    npusim.save_weights(tmp_path / "model.safetensors", {"w": W})
    before = contents(tmp_path)
    with pytest.raises(npusim.BadInputError, match="model.safetensors that no save"):
        without_weights().save(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(npusim.UsageError, match="the folder that the model came from"):
        text_model([str(tmp_path / "tokenizer.json")]).save(tmp_path)
    assert contents(tmp_path) == {**before, "tokenizer.json": b"{}"}


@pytest.mark.parametrize("method", ["text", "kv_map", "KV_MAP", "a/b", "..", "", "tokenizer", "\0"])
def test_names_that_collide(tmp_path, method):
    files = made_files(tmp_path)
    with pytest.raises(npusim.UsageError):
        text_model(files, methods=("decode", method)).save(tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_list_of_methods_reaches_nothing_outside(tmp_path):
    text_model().save(tmp_path / "net")
    secret = tmp_path / "secret.json"
    secret.write_text("{}")
    for wrong in ({"methods": {"decode": "../secret.json"}}, {"methods": {"decode": str(secret)}}, {"methods": []},
                  {"methods": {}}, {"kv_map": 1}, {"kv_map": ".."}, {"capacity": "8"}, {"capacity": None}):  # fmt: skip
        text = {"methods": {"decode": "decode.json"}, "kv_map": "kv_map.json", "capacity": 8, **wrong}
        (tmp_path / "net" / "text.json").write_text(json.dumps(text))
        with pytest.raises(npusim.BadInputError, match=f"text.json: {next(iter(wrong))}"):
            npusim.read_exported(tmp_path / "net")
    text = {"methods": {"decode": "../secret.json"}, "kv_map": "../secret.json", "files": ["../secret.json"]}
    (tmp_path / "net" / "text.json").write_text(json.dumps(text))
    with pytest.raises(npusim.BadInputError, match="text.json that no save"):
        exported().save(tmp_path / "net")
    assert secret.exists()


@pytest.mark.parametrize("text", ["mine", "[1]", "{}", '{"methods": {"a": "photo.png"}, "files": ["thesis.md"]}'])
@pytest.mark.parametrize("kind", ["exported", "text"])
def test_a_list_of_a_stranger_removes_nothing(tmp_path, text, kind):
    made = {"text.json": text.encode(), "thesis.md": b"mine", "photo.png": b"mine", "k.json": b"mine"}
    model = kinds(tmp_path)[kind]
    folder = tmp_path / "folder"
    folder.mkdir()
    for name, content in made.items():
        (folder / name).write_bytes(content)
    with pytest.raises(npusim.BadInputError, match="text.json that no save"):
        model.save(folder)
    assert contents(folder) == made
    made["text.json"] = json.dumps({"methods": {"a": "photo.png"}, "files": ["thesis.md"], "kv_map": "k.json", "capacity": 8}).encode()
    (folder / "text.json").write_bytes(made.pop("text.json"))
    model.save(folder)  # as if a save() had left it: what it names stays all the same
    found = contents(folder)
    assert {**found, **made} == found


STRANGE = os.fsdecode(b"a\xffb\x80")


def writers(folder):
    """Each function that writes, as a function of a path, and each that reads what one of them wrote."""
    program = npusim.compile(add_ir(), dtype="float32")
    profiler = npusim.Profiler(npusim.Session(program))
    profiler.run(X, Y)
    return {
        "Program.save": (program.save, npusim.load),
        "save_weights": (lambda path: npusim.save_weights(path, {"w": W}), npusim.read_weights),
        "Exported.save": (exported().save, npusim.read_exported),
        "ExportedText.save": (text_model(made_files(folder)).save, npusim.read_exported),
        "save_trace": (profiler.profile().save_trace, lambda path: json.loads(open(path).read())),
    }


def readers():
    return [
        npusim.load, npusim.compile, npusim.read_weights, npusim.read_exported, npusim.Tokenizer,
        lambda path: npusim.compile(add_ir(), plan=path), lambda path: npusim.compile(add_ir(), kv_map=path),
        lambda path: npusim.Session(npusim.compile(add_ir()), path), lambda path: npusim.compile({"main": path}),
    ]  # fmt: skip


def test_names_that_are_no_utf8(tmp_path):
    for write, read in writers(tmp_path).values():
        path = str(tmp_path / STRANGE)
        write(path)
        read(path)
        shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)
    ir = tmp_path / f"{STRANGE}.json"
    ir.write_text(json.dumps(add_ir()))
    program = npusim.compile(ir, dtype="float32")
    assert npusim.verify(program, {"x": X, "y": Y}).ok and npusim.bisect(program, {"x": X, "y": Y}).ok
    for read in readers():
        with pytest.raises(npusim.Error) as raised:
            read(str(tmp_path / STRANGE / "none"))
        assert r"a\xffb\x80" in str(raised.value)
        for problem in raised.value.problems:
            f"{problem.where}{problem.reason}".encode()  # is UTF-8
    npusim.use_aten_plugin(str(tmp_path / STRANGE))
    assert r"a\xffb\x80" in npusim.aten_plugin().description


@pytest.mark.parametrize("path", ["ir.json\0.txt", "\0", "net\0", "a\ud800"])
def test_names_that_the_system_cannot_have(tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    exported().save("net")
    (tmp_path / "ir.json").write_text(json.dumps(add_ir()))
    calls = [*readers(), *(write for write, _ in writers(tmp_path).values()), npusim.use_aten_plugin]
    calls.append(lambda name: npusim.Exported(add_ir(), None, name).save("other"))
    calls.append(lambda name: npusim.bisect(npusim.compile(add_ir()), {"x": X, "y": Y}, folder=name))
    before = sorted(os.listdir(tmp_path))
    for call in calls:
        with pytest.raises(npusim.UsageError, match="expected a path (without a NUL character|that the system can spell)"):
            call(path)
    assert sorted(os.listdir(tmp_path)) == before


@pytest.fixture
def limit():
    """Sets how large a file may get: what is beyond fails as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)


def tree(folder):
    return {path: os.path.isfile(path) and open(path, "rb").read() for path in map(str, folder.rglob("*"))}


def test_a_full_disk_leaves_what_was_there(tmp_path, limit):
    functions = writers(tmp_path)
    for old in (False, True):  # whether something is there
        for name, (write, _) in functions.items():
            whole = tmp_path / f"whole {old}" / name
            os.makedirs(whole.parent, exist_ok=True)
            write(whole)
            largest = max(file.stat().st_size for file in ([whole] if whole.is_file() else whole.iterdir()))
            to = tmp_path / f"deep {old}" / "folder" / name
            if old or whole.is_file():
                os.makedirs(to.parent, exist_ok=True)
            if old and whole.is_file():
                to.write_text("old")
            elif old:
                exported(7).save(to)
            before = tree(tmp_path)
            for size in sorted({0, 1, largest // 2, largest - 1}):
                limit(size)
                with pytest.raises(npusim.BadInputError, match=f"cannot write .*{name}.*: File too large"):
                    write(to)
                limit(resource.RLIM_INFINITY)
                assert tree(tmp_path) == before, (name, size)
            write(to)


def test_places_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("x")
    for name, (write, _) in writers(tmp_path).items():
        saves = name.startswith("Exported")
        for path in ("file/below", "/proc/none/below", "x" * 300, *(["file"] if saves else ["no/folder", "."])):
            before = tree(tmp_path)
            with pytest.raises(npusim.BadInputError, match="cannot write"):
                write(tmp_path / path)
            assert tree(tmp_path) == before
    weights = npusim.ExportedText({"decode": add_ir()}, {"layers": []}, 8, None, (str(tmp_path / "gone.json"),))
    with pytest.raises(npusim.BadInputError, match="cannot read .*gone.json: No such file or directory"):
        weights.save(tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_folder_that_vanished(tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    functions = writers(tmp_path).values()
    monkeypatch.chdir(tmp_path / "gone")
    os.rmdir(tmp_path / "gone")
    for write, read in functions:
        with pytest.raises(npusim.BadInputError, match="cannot write"):
            write("there")
        with pytest.raises((npusim.BadInputError, FileNotFoundError)):
            read("there")


def test_the_export_verb(tmp_path):
    pytest.importorskip("torch")
    source = os.path.join(os.fsencode(tmp_path), b"m\xff.py")
    with open(source, "w") as file:
        file.write("import torch\ndef make(): return torch.nn.Linear(3, 2), (torch.ones(1, 3),)\n")

    def export(*words, out=subprocess.PIPE):
        command = [sys.executable, "-m", "npusim", "export", *words]
        found = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.abspath(npusim.__path__[0]))}
        return subprocess.run(command, cwd=tmp_path, env=found, stdout=out, stderr=subprocess.PIPE, check=False)

    done = export(b"m\xff.py:make", "-o", b"net\xfe")
    assert done.returncode == 0 and done.stdout.decode().startswith(r"net\xfe: "), done
    assert (tmp_path / os.fsdecode(b"net\xfe") / "ir.json").exists()
    for words in ((b"n\xff.py:make", "-o", "x"), (b"m\xff.py:no", "-o", "x"), (b"m\xff.py:make", "-o", b"m\xff.py/x")):
        failed = export(*words)
        assert failed.returncode in (2, 3) and failed.stderr.decode().startswith("error: "), failed
        assert failed.stderr.count(b"\n") == 1 and not failed.stdout and not (tmp_path / "x").exists()
    with open("/dev/full", "w") as full:
        failed = export(b"m\xff.py:make", "-o", "net", out=full)
    assert failed.returncode == 3 and failed.stderr.decode().startswith("error: cannot write to standard output: "), failed


def test_tables_of_benchmarks_are_whole(tmp_path, limit, monkeypatch):
    from pathlib import Path

    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "bench")
    from whole import write_whole

    table = tmp_path / "table.md"
    for old in (None, "old"):
        for size in (0, 5, 99):
            limit(size)
            with pytest.raises(OSError, match="File too large"):
                write_whole(table, "x" * 100)
            limit(resource.RLIM_INFINITY)
            assert tree(tmp_path) == ({} if old is None else {str(table): b"old"})
        write_whole(table, "old")
    os.chmod(table, 0o640)
    (tmp_path / "link").symlink_to(table)
    write_whole(tmp_path / "link", "new")
    assert table.read_text() == "new" and table.stat().st_mode & 0o777 == 0o640 and (tmp_path / "link").is_symlink()


def _said(model):
    try:
        session = npusim.Session(npusim.compile(model, dtype="float32"))
        return str(session.run(*([[0.0, 0.0]] * len(session.program.inputs()))))
    except npusim.Error as error:
        return str(error)


def test_a_folder_and_its_file_are_read_alike(tmp_path):
    """Whatever the text is: keys twice, numbers and depths that only one of two readers takes, fields of other kinds."""

    def tensor(name):
        return {"name": name, "shape": [2], "dtype": "float32"}

    node = {"name": "n", "op_type": "aten.add.Tensor", "inputs": [tensor("x")], "outputs": [tensor("n")], "attrs": {"other": 1}}
    ir = {"model_name": "m", "graph_inputs": [tensor("x")], "graph_outputs": [tensor("n")], "weights": [], "nodes": [node]}
    fields = [(ir, key) for key in ir] + [(node, key) for key in node] + [(ir, "states")]
    values = [None, 1, -1.5, "x", [], [1], [None], {}, {"x": 1}, {"x": []}, {"x": "zz"}, {"zz": "n"}, [[]], True]
    texts = []
    for held, key in fields:
        before = dict(held)
        for value in values:
            held[key] = value
            texts.append(json.dumps(ir))
        held.clear()
        held.update(before)
    text, other = json.dumps(ir), '"other": 1'
    for new in ("1, " + other, "1e999", "1" * 400, "1" * 5000, "[" * 200 + "1" + "]" * 200, "NaN", "-Infinity", '"\\ud800"', "tru"):
        texts.append(text.replace(other, f'"other": {new}'))
    texts += ["", " ", "[]", "1", "\ufeff" + text, text + "x", text[:-1], "\0" + text, text + "\0"]
    for written in texts:
        (tmp_path / "ir.json").write_bytes(written.encode("utf-8", "surrogatepass"))
        assert _said(str(tmp_path)) == _said(str(tmp_path / "ir.json")), written
    (tmp_path / "ir.json").write_bytes(b"\xff" + text.encode())
    assert all(isinstance(_said(str(place)), str) for place in (tmp_path, tmp_path / "ir.json"))
