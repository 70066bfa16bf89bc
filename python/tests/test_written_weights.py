"""IR of other exporters, whose nodes write into weights in place: what a run left is what the next one begins with."""

import random

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import npusim
from safetensors.torch import save_file

SHAPE = (4, 3)


class Writer:
    """Random calls on a weight and on views of it, as IR and as PyTorch does them."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.nodes, self.calls, self.shapes = [], [], {"b_w": SHAPE, "u": SHAPE, "x": SHAPE}
        self.views = ["b_w"]
        for _ in range(self.random.randint(2, 7)):
            self.random.choice([self.view, self.write, self.read])()
        if not any(call[0] == "write" for call in self.calls):
            self.write()

    def add(self, kind, op, operands, shape, attrs, run):
        name = f"{kind}_{len(self.nodes)}"
        tensors = [{"name": o, "shape": list(self.shapes[o]), "dtype": "float32"} for o in operands]
        result = {"name": name, "shape": list(shape), "dtype": "float32"}
        self.nodes.append({"name": name, "op_type": op, "inputs": tensors, "outputs": [result], "attrs": attrs})
        self.calls.append((kind, name, operands, run))
        self.shapes[name] = tuple(shape)
        return name

    def view(self):
        of = self.random.choice(self.views)
        shape = self.shapes[of]
        if self.random.random() < 0.1:
            return self.views.append(self.add("view", "aten.detach_.default", [of], shape, {}, lambda t: t))
        if len(shape) == 2 and self.random.random() < 0.4:
            swapped = self.add("view", "aten.transpose.int", [of], shape[::-1], {"dim0": 0, "dim1": 1}, lambda t: t.t())
            return self.views.append(swapped)
        dim = self.random.randrange(len(shape))
        begin = self.random.randrange(shape[dim])
        end = self.random.randint(begin + 1, shape[dim])
        cut = [end - begin if d == dim else extent for d, extent in enumerate(shape)]
        attrs = {"dim": dim, "start": begin, "end": end}
        self.views.append(self.add("view", "aten.slice.Tensor", [of], cut, attrs, lambda t: t.narrow(dim, begin, end - begin)))

    def write(self):
        of = self.random.choice(self.views)
        name, run, attrs = self.random.choice(
            [
                ("aten.add_.Scalar", lambda t: t.add_(1.5), {"other": 1.5}),
                ("aten.mul_.Scalar", lambda t: t.mul_(0.5), {"other": 0.5}),
                ("aten.fill_.Scalar", lambda t: t.fill_(2.0), {"value": 2.0}),
                ("aten.sin_.default", lambda t: t.sin_(), {}),
            ]
        )
        self.views.append(self.add("write", name, [of], self.shapes[of], attrs, run))

    def read(self):
        of = self.random.choice(self.views)
        self.add("read", "aten.mul.Scalar", [of], self.shapes[of], {"other": 3.0}, lambda t: t * 3.0)

    def ir(self, outputs):
        named = lambda name: {"name": name, "shape": list(self.shapes[name]), "dtype": "float32"}  # noqa: E731
        last = {"name": "whole", "op_type": "aten.add.Tensor", "inputs": [named("b_w"), named("x")], "attrs": {}}
        last["outputs"] = [{"name": "whole", "shape": list(SHAPE), "dtype": "float32"}]
        self.shapes["whole"] = SHAPE
        weights = [{**named("b_w"), "name": "part.w"}, {**named("u"), "name": "u"}]
        return {
            "model_name": "written",
            "graph_inputs": [named("x")],
            "graph_outputs": [named(name) for name in [*outputs, "whole"]],
            "weights": weights,
            "weight_name_mapping": {"b_w": "part.w"},
            "nodes": [*self.nodes, last],
        }

    def run(self, weight, x):
        values = {"b_w": weight}
        for _, name, operands, call in self.calls:
            values[name] = call(*(values[o] for o in operands))
        values["whole"] = weight + x
        return values


@pytest.mark.parametrize("seed", range(60))
def test_as_pytorch_writes_them(seed, tmp_path):
    program = Writer(seed)
    outputs = [name for kind, name, *_ in program.calls if kind == "read" or program.random.random() < 0.3]
    ir = program.ir(outputs)
    torch.manual_seed(seed)
    weight = torch.randn(SHAPE)
    weights = {"part.w": weight.clone(), "u": torch.zeros(SHAPE)}
    compiled = npusim.compile(ir, dtype="float32")
    compiled.save(tmp_path / "p.npubin")
    save_file(weights, tmp_path / "w.safetensors")
    sessions = [npusim.Session(compiled, weights), npusim.Session(npusim.load(tmp_path / "p.npubin"), tmp_path / "w.safetensors")]
    for turn in range(3):
        x = torch.full(SHAPE, float(turn))
        with torch.no_grad():
            values = program.run(weight, x)
        # What a name of the memory holds is what it holds at the end.
        for session in sessions:
            found = session.run(x)
            for name in [*outputs, "whole"]:
                np.testing.assert_allclose(found[name], values[name].numpy(), rtol=1e-5, atol=1e-6, err_msg=f"{name} {turn}")
            np.testing.assert_allclose(found["part.w_next"], weight.numpy(), rtol=1e-5, atol=1e-6)
        if turn == 1:
            for session in sessions:
                session.reset_states()
            weight = weights["part.w"].clone()


def node(name, op, operands, shape=(3,), **attrs):
    tensors = [{"name": o, "shape": [3], "dtype": "float32"} for o in operands]
    outputs = [{"name": name, "shape": list(shape), "dtype": "float32"}]
    return {"name": name, "op_type": op, "inputs": tensors, "outputs": outputs, "attrs": attrs}


def model(nodes, outputs, **more):
    tensor = lambda name: {"name": name, "shape": [3], "dtype": "float32"}  # noqa: E731
    ir = {"graph_inputs": [tensor("x")], "graph_outputs": [tensor(name) for name in outputs], "nodes": nodes}
    return {"weights": [tensor("w")], **ir, **more}


WRITES = model([node("add_", "aten.add_.Tensor", ["w", "x"]), node("twice", "aten.mul.Scalar", ["w"], other=2)], ["twice"])
READS = model([node("more", "aten.add.Tensor", ["w", "x"])], ["more"])


@pytest.mark.parametrize("order", [("write", "read"), ("read", "write")])
def test_another_method_reads_it(order):
    irs = {"write": WRITES, "read": READS}
    program = npusim.compile({name: irs[name] for name in order}, dtype="float32")
    w, x = np.float32([1, 2, 3]), np.ones(3, np.float32)
    session = npusim.Session(program, {"w": w})
    for turn in range(1, 4):
        np.testing.assert_array_equal(session.run(x, method="write")["twice"], 2 * (w + turn))
        np.testing.assert_array_equal(session.run(x, method="read")["more"], w + turn + 1)


@pytest.mark.parametrize("given", [{}, {"w": np.float32([4, 5, 6])}])
def test_verify_and_bisect_of_it(given, tmp_path):
    inputs, weights = {"x": np.ones(3, np.float32)}, {"w": np.float32([1, 2, 3])}
    program = npusim.compile(WRITES, dtype="float32")
    verified = npusim.verify(program, inputs | given, weights)
    assert verified.ok and set(verified.outputs) == {"twice", "w_next"}
    found = npusim.bisect(program, inputs | weights | given, weights, folder=tmp_path / "part")
    assert found.culprit is None and found.outputs == 0


def test_arguments_by_position_beside_it():
    part = [
        node("row", "aten.select.int", ["y"], (), dim=0, index=0),
        node("put", "aten.fill_.Scalar", ["row"], (), value=7.0),
        node("sum", "aten.add.Tensor", ["y", "add_"]),
    ]
    part[1]["inputs"][0]["shape"] = []
    ir = model([node("add_", "aten.add_.Tensor", ["w", "x"]), *part], ["sum", "y"])
    ir["graph_inputs"].append({"name": "y", "shape": [3], "dtype": "float32"})
    session = npusim.Session(npusim.compile(ir, dtype="float32"), {"w": np.zeros(3, np.float32)})
    for turn in range(1, 3):
        found = session.run(np.ones(3, np.float32), np.zeros(3, np.float32))
        np.testing.assert_array_equal(found["sum"], np.float32([7, 0, 0]) + turn)


@pytest.mark.parametrize("name", ["aten.add_.Tensor", "add_", "aten.add_", "aten.add.Tensor", "add"])
def test_calls_in_place_are_sent_to_the_cpu_by_name(name):
    npusim.compile(WRITES, dtype="float32", force_cpu=[name])
    with pytest.raises(npusim.Error, match="no node of the model is of this operator"):
        npusim.compile(WRITES, dtype="float32", force_cpu=["sub_"])


def test_names_that_are_taken():
    nodes = [node("w_next", "aten.add_.Tensor", ["b_w", "x"]), node("w", "aten.mul.Scalar", ["x"], other=2)]
    ir = model(nodes, ["w_next", "w"], weight_name_mapping={"b_w": "w"})
    session = npusim.Session(npusim.compile(ir, dtype="float32"), {"w": np.zeros(3, np.float32)})
    for turn in range(1, 3):
        found = session.run(np.ones(3, np.float32))
        assert list(found) == ["w_next", "w", "w_next_"]
        np.testing.assert_array_equal(found["w_next_"], np.full(3, turn, np.float32))
        np.testing.assert_array_equal(found["w"], np.full(3, 2, np.float32))


def test_a_constant_is_refused():
    ir = model([node("add_", "aten.add_.Tensor", ["w", "x"])], ["add_"], constants={"w": {"data": [1, 2, 3], "dtype": "float32"}})
    with pytest.raises(npusim.Error, match="constant 'w': nodes write into it in place"):
        npusim.compile(ir, dtype="float32")
