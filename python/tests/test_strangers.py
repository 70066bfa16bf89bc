"""Files of strangers: code left out, launches made anew, weights that do not follow their file."""

from __future__ import annotations

import numpy
import pytest

import npusim

TENSOR = {"shape": [2, 3], "dtype": "float32"}
IR = {
    "graph_inputs": [{"name": "x", **TENSOR}],
    "graph_outputs": [{"name": "add", **TENSOR}],
    "weights": [{"name": "w", **TENSOR}],
    "weight_name_mapping": {"p_w": "w"},
    "nodes": [
        {
            "name": "add",
            "op_type": "aten.add.Tensor",
            "inputs": [{"name": "x", **TENSOR}, {"name": "p_w", **TENSOR}],
            "outputs": [{"name": "add", **TENSOR}],
            "attrs": {},
        }
    ],
}
X = numpy.arange(6, dtype=numpy.float32).reshape(2, 3)


def test_recompile_makes_the_same_again():
    program = npusim.compile(IR, dtype="float32")
    assert program.recompile().to_bytes() == program.to_bytes()
    assert program.recompile("null").target == "null"
    with pytest.raises(npusim.UsageError):
        program.recompile("nothing")


def test_without_code(tmp_path):
    program = npusim.compile(IR, dtype="float32")
    program.save(tmp_path / "p.npubin")
    for given in (tmp_path / "p.npubin", program.to_bytes()):
        assert npusim.load(given, code=False).to_bytes() == program.to_bytes()  # there was none


def test_weights_that_were_read_do_not_follow_their_file(tmp_path):
    path = tmp_path / "w.safetensors"
    npusim.save_weights(path, {"w": X})
    weights = npusim.read_weights(path)
    path.write_bytes(b"")
    session = npusim.Session(npusim.compile(IR, dtype="float32"), weights)
    assert (session.run(X)["add"] == 2 * X).all()
