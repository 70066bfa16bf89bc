"""Partitions: what goes where, by the target, by the caller's word and by a plan."""

import json

import npusim
import numpy as np
import pytest
from test_profiling import INPUTS, WEIGHTS, chain_ir


@pytest.mark.parametrize(
    "forced, expected_nodes",
    [((), ["epst"]), (("linear",), ["e", "p", "st"]), (("exp", "tanh"), ["e", "ps", "t"])],
)
def test_partition_by_partition(forced, expected_nodes):
    program = npusim.compile(chain_ir(), dtype="float32", force_cpu=forced)
    expected = npusim.Session(program, WEIGHTS).run(INPUTS)
    executor = npusim.DAGExecutor(program, WEIGHTS)
    partitions = executor.partitions()
    assert ["".join(partition.nodes) for partition in partitions] == expected_nodes
    assert [i for p in partitions for i in p.steps] == list(range(len(program.steps())))
    watched = []
    for _ in range(2):
        found = executor.run(INPUTS, watch=lambda partition, ms: watched.append((partition, ms)))
        assert np.array_equal(found["t"], expected["t"])
    assert [p for p, _ in watched] == [*partitions, *partitions] and all(ms > 0 for _, ms in watched)
    if forced:
        moved = sum(
            step.bytes for step in npusim.profile(executor.session, INPUTS, times=1).steps if step.kernel == "transfer"
        )
        assert sum(p.bytes for p in partitions) == moved == program.partition()["methods"]["main"]["transfer_bytes"]


@pytest.mark.parametrize("as_file", [False, True])
def test_a_partition_by_the_callers_word(as_file, tmp_path):
    ir = chain_ir()
    ir["nodes"][1]["attrs"] = {}
    asked = []

    def is_supported(op_type, attrs):
        asked.append((op_type, dict(attrs)))
        return op_type not in ("aten.exp.default", "aten.tanh.default")

    model = ir
    if as_file:
        model = tmp_path / "ir.json"
        model.write_text(json.dumps(ir))
    plan = npusim.partition(model, is_supported=is_supported, dtype="float32")
    assert asked == [(node["op_type"], node["attrs"]) for node in ir["nodes"]]
    assert plan.nodes()["methods"]["main"]["cpu"] == {
        "e": "is_supported() says no",
        "t": "is_supported() says no",
    }
    assert [part.nodes for part in plan.partitions()] == [("e",), ("p", "s"), ("t",)]
    assert "is_supported() says no" in str(plan) and plan.picture().startswith("<svg")
    assert plan.details()["methods"]["main"]["segments"]
    expected = npusim.Session(npusim.compile(ir, dtype="float32"), WEIGHTS).run(INPUTS)
    again = npusim.compile(ir, dtype="float32", plan=plan.nodes())
    for program in (plan.program, again):
        assert np.array_equal(npusim.DAGExecutor(program, WEIGHTS).run(INPUTS)["t"], expected["t"])


def test_a_partition_adds_to_what_is_forced():
    plan = npusim.partition(
        chain_ir(), dtype="float32", force_cpu="linear", is_supported=lambda op, attrs: "exp" not in op
    )
    reasons = plan.nodes()["methods"]["main"]["cpu"]
    assert set(reasons) == {"e", "p"} and "force" in reasons["p"]
    assert plan.nodes() != npusim.partition(chain_ir(), dtype="float32", force_cpu="linear").nodes()


def test_a_partition_of_a_model():
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(
        torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Dropout(), torch.nn.Linear(8, 4)
    ).eval()
    x = torch.randn(3, 8)
    plan = npusim.partition(model, (x,), is_supported=lambda op, attrs: op != "aten.relu.default", dtype="float32")
    assert [part.transfers for part in plan.partitions()] == [(), ("linear",), ("relu",)]
    found = npusim.Session(plan.program).run(x)
    assert np.allclose(found["output"], model(x).detach().numpy(), atol=1e-5)
    # Nothing left for the target, and every node refused, those that vanish in passes too.
    nothing = npusim.partition(model, (x,), is_supported=lambda op, attrs: False, dtype="float32")
    assert np.allclose(npusim.Session(nothing.program).run(x)["output"], model(x).detach().numpy(), atol=1e-5)
