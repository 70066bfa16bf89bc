"""The random programs of tests/random, exported by the package: the same judge, and runs that change buffers."""

import copy
import json
import logging
import sys
import warnings

import npusim
import numpy as np
import pytest
from conftest import ROOT

torch = pytest.importorskip("torch")
pytest.importorskip("torch_ir")  # which the judge imports
sys.path.insert(0, str(ROOT / "tests" / "random"))
import against_torch
import torch_npusim
import torch_program
import torch_statements

COUNT = 40
BINARY = ROOT / "build" / "ci" / "npusim"


def export(program):
    values = torch_program.made(program)
    inputs = tuple(values[name] for name in torch_program.names(program, torch_program.INPUT))
    try:
        with warnings.catch_warnings(action="ignore"):
            return npusim.export(torch_program.module(program, values), inputs)
    except npusim.Error as error:
        raise torch_npusim.NotExported(str(error)) from error
    except Exception as error:  # whatever PyTorch's exporter stumbles over
        raise torch_npusim.NotExported(type(error).__name__) from error


def programs(first):
    return [torch_statements.generate(s, torch_statements.FAMILIES, torch_statements.FEATURES, "") for s in first]


@pytest.fixture(autouse=True)
def quiet():
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.skipif(not BINARY.exists(), reason="build/ci/npusim was not built")
def test_values(tmp_path, monkeypatch):
    def to_folder(program, folder):
        exported = export(program)
        ir = exported.ir
        if ir["states"]:
            raise torch_npusim.NotExported("changes a weight")
        ir["graph_outputs"] = ir["graph_outputs"][: len(exported.leaves)]  # the judge counts inputs that change itself
        (folder / "ir.json").write_text(json.dumps(ir))
        npusim.save_weights(folder / "weights.safetensors", exported.weights)
        return ir

    monkeypatch.setattr(torch_npusim, "export", to_folder)
    judge = against_torch.Judge(str(BINARY), tmp_path)
    for seed, program in enumerate(programs(range(7000, 7000 + COUNT))):
        mode = list(against_torch.MODES)[seed % len(against_torch.MODES)]
        assert judge.failure(program, ["float32", mode]) is None, f"seed {7000 + seed}"
    assert judge.runs["done"] > COUNT  # most programs, each in two modes


def test_buffers_that_change():
    carried = 0
    for program in programs(range(1, 120)):
        try:
            exported = export(program)
            if not exported.ir["states"]:
                continue
            session = npusim.Session(npusim.compile(exported, dtype="float32", strict=True))
        except (npusim.UnsupportedError, torch_npusim.NotExported):
            continue
        model = torch_program.module(program, torch_program.made(program))
        made = torch_program.made(program)
        inputs = [made[name] for name in torch_program.names(program, torch_program.INPUT)]
        names = [value for kind, value in exported.leaves if kind == "output"]
        for _ in range(2):
            found = session.run(*copy.deepcopy(inputs))
            with torch.no_grad():
                expected = model(*copy.deepcopy(inputs))
            for name, value in zip(names, torch.utils._pytree.tree_leaves(expected), strict=True):
                a, b = found[name].astype("float64"), value.double().numpy()
                size = np.abs(np.where(np.isfinite(b), b, 0)).max(initial=1e-6)
                assert np.allclose(a, b, rtol=0.03, atol=0.03 * size, equal_nan=True), program.seed
        carried += 1
    assert carried >= 8
