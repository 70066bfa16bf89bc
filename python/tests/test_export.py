"""export(): what a model computes with is in the IR, and the program gives what the model gives."""

import copy
import dataclasses
import subprocess
import sys
from collections import OrderedDict

import npusim
import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn


def answers(model, args, kwargs=None):
    """The model's own outputs, flat, from a copy: models change themselves."""
    model, args, kwargs = copy.deepcopy((model, args, kwargs or {}))
    with torch.no_grad():
        found = model(*args, **kwargs)
    return [v for v in torch.utils._pytree.tree_leaves(found) if isinstance(v, torch.Tensor)]


def close(found, expected, tolerance=1e-5):
    expected = expected.detach().double().numpy()
    assert found.shape == expected.shape
    assert np.allclose(np.asarray(found, dtype="float64"), expected, rtol=tolerance, atol=tolerance * 10)


def check(model, args, kwargs=None, tolerance=1e-5, dtype="float32"):
    """Compiles and runs; compares each output; returns the export and the names of the outputs."""
    exported = npusim.export(model, copy.deepcopy(args), copy.deepcopy(kwargs))
    session = npusim.Session(npusim.compile(exported, dtype=dtype))
    tensors = [t for t in torch.utils._pytree.tree_leaves((args, kwargs or {})) if isinstance(t, torch.Tensor)]
    found = session.run(*tensors)
    names = [value for kind, value in exported.leaves if kind == "output"]
    expected = answers(model, args, kwargs)
    assert len(names) == len(expected)
    for name, value in zip(names, expected, strict=True):
        close(found[name], value, tolerance)
    return exported, names


class Function(nn.Module):
    def __init__(self, function, **buffers):
        super().__init__()
        self.function = function
        for name, value in buffers.items():
            self.register_buffer(name, value, persistent=False)

    def forward(self, *args, **kwargs):
        return self.function(self, *args, **kwargs)


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


X = torch.linspace(-2, 2, 12).reshape(3, 4)


def test_a_convolution_net():
    layers = [
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(128, 5),
    ]
    model = nn.Sequential(*layers).eval()
    exported, names = check(model, (torch.randn(1, 3, 8, 8),))
    assert (
        names == ["output"] and "1.running_mean" in exported.weights and "1.num_batches_tracked" not in exported.weights
    )


def test_buffers_and_constants_that_no_checkpoint_has():
    table = torch.arange(5000.0).reshape(1250, 4)
    model = Function(lambda m, x: x * m.scale + torch.tensor([1.0, 2, 3, 4]) + m.table[1000], scale=X[:1], table=table)
    exported, _ = check(model, (X,))
    assert {"scale", "table"} <= exported.weights.keys()
    assert list(exported.ir["constants"].values()) == [{"data": [1.0, 2.0, 3.0, 4.0], "dtype": "float32"}]


def test_tied_weights_are_stored_once():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.head = nn.Embedding(7, 4), nn.Linear(4, 7, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, ids):
            return self.head(self.embed(ids))

    exported, _ = check(Tied(), (torch.tensor([[1, 2, 6]]),))
    assert len(exported.weights) == 1


def test_one_memory_as_two_weights():
    base = torch.arange(8.0)
    model = Function(lambda m, x: x + m.first - m.last, first=base[:4], last=base[4:])
    exported, _ = check(model, (X,))
    assert len(exported.weights) == 2


def test_weights_that_are_not_row_major():
    linear = nn.Linear(3, 4)
    linear.weight = nn.Parameter(torch.randn(3, 4).t())
    check(linear, (torch.randn(2, 3),))


@dataclasses.dataclass
class Pair:
    logits: torch.Tensor
    hidden: tuple


torch.export.register_dataclass(Pair, serialized_type_name="Pair")


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (lambda x: x + 1, ["output"]),
        (lambda x: (x + 1,), ["output"]),
        (lambda x: (x + 1, x + 2), ["output_0", "output_1"]),
        (lambda x: {"logits": x + 1, "hidden": [x, x * 2]}, ["logits", "hidden.0", "hidden.1"]),
        (lambda x: OrderedDict(loss=None, y=x * 3, n=3), ["y"]),
        (lambda x: Pair(x + 1, (x - 1, x)), ["logits", "hidden.0", "hidden.1"]),
        (lambda x: (x, x, x * 1), ["output_0", "output_1", "output_2"]),
    ],
)
def test_outputs_have_names(make, names):
    assert check(Function(lambda m, x: make(x)), (X,))[1] == names


def test_arguments_of_all_kinds():
    def forward(m, x, options, scale=2, *, mask=None, bias=None):
        return (x * scale + options["a"] - options["b"][0]).masked_fill(mask, 0) + (0 if bias is None else bias)

    options = {"a": X + 1, "b": [X * 2, "text"]}
    check(Function(forward), (X, options, 3), {"mask": X > 0, "bias": X[0]})
    exported, _ = check(Function(forward), (X, options), {"mask": X > 0})
    assert len(exported.ir["graph_inputs"]) == 4


def test_inputs_are_called_as_the_function_calls_them():
    class Named(nn.Module):
        def forward(self, pixels, mask):
            return pixels * mask

    exported = npusim.export(Named(), (X,), {"mask": X})
    assert [t["name"] for t in exported.ir["graph_inputs"]] == ["pixels", "mask"]


def test_names_that_clash():
    class Clash(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mul", torch.ones(4))
            self.register_buffer("add", torch.zeros(4))

        def forward(self, x, sub):
            self.add.add_(1)
            return x * self.mul + self.add - sub, (x - 1).mul(2)

    exported = npusim.export(Clash(), (X, X))
    session = npusim.Session(npusim.compile(exported, dtype="float32"))
    model = Clash()
    for _ in range(2):
        found, expected = session.run(X, X), model(X, X)
        close(found["output_0"], expected[0])
        close(found["output_1"], expected[1])


def test_optional_tensors_are_where_they_were():
    def forward(m, x):
        y = nn.functional.layer_norm(x, (4,), None, m.bias) + nn.functional.layer_norm(x, (4,), m.weight, None)
        return y + torch.diff(x, append=x[:, :1]) - torch.diff(x, prepend=x[:, :1]) + torch.clamp(x, max=m.weight)

    check(Function(forward, bias=X[0] + 1, weight=X[1]), (X,))


def test_optional_tensors_are_not_guessed_by_name():
    """`max_1` is a lower bound, `min_1` an upper one."""

    def forward(m, x):
        highest, lowest = x.amax(-1, True) / 2, torch.max(x, -1, True).values
        return x.abs().clamp(min=lowest), x.clamp(max=torch.min(x.abs(), -1, True).values), x.clamp(min=highest)

    check(Function(forward), (X,))


def test_indices_with_nones_and_lists():
    def forward(m, x):
        y = x.unsqueeze(-1)[:, torch.tensor([0, 2]), None]
        return torch.cat([y, y * 2]), torch.stack([x, x]), x[torch.tensor([0, 2]), :, None]

    check(Function(forward), (X,))


def test_results_that_are_tuples():
    def forward(m, x):
        values, indices = x.max(1)
        a, b, c = torch.split(x, [1, 2, 1], 1)
        normal, mean, rstd = torch.ops.aten.native_layer_norm(x, [4], None, None, 1e-5)
        return values, indices, a + c, b, normal, mean, x.topk(2).values, torch.var_mean(x)[1]

    check(Function(forward), (X,))


def test_bodies_of_higher_order_operators():
    def forward(m, x):
        with torch.set_grad_enabled(False):
            x = x * 2
            with torch.set_grad_enabled(True):
                y = x + 1
        with torch.autocast("cpu", enabled=False):
            return x + y

    check(Function(forward), (X,))
    with torch.enable_grad():
        program = torch.export.export(Function(forward), (X,), strict=False)
    assert "wrap_with_set_grad_enabled" in str(program.graph)
    ir = npusim.export(program).ir
    assert {n["op_type"].split(".")[0] for n in ir["nodes"]} == {"aten"}
    found = npusim.Session(npusim.compile(ir, dtype="float32")).run(X)["output"]
    assert np.array_equal(found, answers(Function(forward), (X,))[0].numpy())


def test_autocast_casts():
    linear = nn.Linear(4, 4)

    def forward(m, x):
        with torch.autocast("cpu", torch.bfloat16):
            return linear(x)

    exported = npusim.export(Function(forward), (X,))
    assert exported.ir["graph_outputs"][0]["dtype"] == "bfloat16"
    found = npusim.Session(npusim.compile(exported)).run(X)["output"].astype("float32")
    assert np.allclose(found, forward(None, X).detach().float().numpy(), atol=0.02)


@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize("layout", ["to_sparse", "to_sparse_csr", "to_sparse_csc", "to_mkldnn"])
def test_weights_without_memory_matter_where_they_are_read(layout, persistent):
    def forward(m, x):
        return m.held @ x if m.reads else x * 2

    model = Function(forward)
    model.register_buffer("held", getattr(torch.eye(4), layout)(), persistent=persistent)
    model.reads = False
    exported = npusim.export(model, (X,))
    assert not exported.weights
    assert np.array_equal(npusim.Session(npusim.compile(exported, dtype="float32")).run(X)["output"], (X * 2).numpy())
    model.reads = True
    with pytest.raises(npusim.UnsupportedError, match="weight 'held': is torch._?(sparse_co{2}|sparse_cs[rc]|mkldnn): expected a dense one"):
        npusim.export(model, (torch.ones(4, 3),))


def test_what_the_example_ends_with_is_said():
    linear = nn.Linear(3, 3)  # what forward() closes over is not cast with the model

    def forward(m, x):
        return linear(x.reshape(-1)[x.reshape(-1) > 0][:3])

    with pytest.raises(npusim.UnsupportedError, match="must have the same dtype"):
        npusim.export(Function(forward), (X.abs().add(1).bfloat16(),))


class Cache(nn.Module):
    """Keeps rows, and counts them."""

    def __init__(self):
        super().__init__()
        self.register_buffer("rows", torch.full((4, 2), 7.0))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64), persistent=False)

    def forward(self, at, row):
        self.rows.index_copy_(0, at, row)
        self.count += 1
        return self.rows.sum() + self.count


def test_buffers_that_change_are_states():
    model = Cache()
    program = npusim.compile(npusim.export(model, (torch.tensor([0]), torch.ones(1, 2))), dtype="float32")
    assert [t.name for t in program.inputs() if t.state] == ["rows", "count"]
    session = npusim.Session(program)
    for again in range(2):
        model = Cache()
        for step in range(3):
            row = torch.full((1, 2), float(step))
            found, expected = session.run(np.array([step]), row), model(torch.tensor([step]), row)
            close(found["output"], expected)
            assert np.array_equal(found["rows_next"], model.rows.numpy()) and found["count_next"] == step + 1
        session.reset_states()
        assert again or model.count == 3


@pytest.mark.parametrize("padding_idx, norm_type", [(None, 2.0), (0, 1.0)])
def test_rows_that_an_embedding_scales_stay_scaled(padding_idx, norm_type):
    model = nn.Sequential(nn.Embedding(10, 4, padding_idx, max_norm=0.7, norm_type=norm_type), nn.Linear(4, 3))
    exported = npusim.export(model, (torch.tensor([[1, 2, 1]]),))
    session = npusim.Session(npusim.compile(exported, dtype="float32"))
    assert [t.name for t in session.program.inputs() if t.state] == ["0.weight"]
    for tokens in ([[1, 2, 1]], [[0, 9, 2]], [[5, 5, 5]]):
        found, expected = session.run(torch.tensor(tokens)), model(torch.tensor(tokens))
        close(found["output"], expected)
        close(found["0.weight_next"], model[0].weight)
    model = nn.Sequential(nn.Embedding(10, 4, max_norm=0.7), nn.Linear(4, 10, bias=False))
    model[1].weight = model[0].weight  # one memory: both read what is scaled
    session = npusim.Session(npusim.compile(npusim.export(model, (torch.tensor([[1, 2]]),)), dtype="float32"))
    for tokens in ([[1, 2]], [[3, 2]]):
        close(session.run(torch.tensor(tokens))["output"], model(torch.tensor(tokens)))


@pytest.mark.parametrize("autocast", [False, True])
def test_states_are_in_the_program(autocast, tmp_path):
    class Sum(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", torch.ones(4))

        def forward(self, x):
            with torch.autocast("cpu", enabled=autocast):  # which makes the exported program functional
                old = self.total * 1
                self.total.add_(x)
                self.total.mul_(2)
                return old, self.total + 1, self.total

    exported, model, x = npusim.export(Sum(), (X[0],)), Sum(), X[0]
    npusim.compile(exported, dtype="float32").save(tmp_path / "p.npubin")
    session = npusim.Session(npusim.load(tmp_path / "p.npubin"), exported.weights)
    for _ in range(3):
        found, expected = session.run(x), model(x)
        for i in range(3):
            close(found[f"output_{i}"], expected[i])
        assert [t.state for t in session.program.inputs()] == [True, False]


def test_changed_buffers_of_a_folder(tmp_path):
    npusim.export(Cache(), (torch.tensor([0]), torch.ones(1, 2))).save(tmp_path)
    session = npusim.Session(npusim.compile(tmp_path, dtype="float32"))
    found = [session.run(np.array([0]), np.ones((1, 2), "float32"))["output"] for _ in range(2)]
    assert found == [2 + 42 + 1, 2 + 42 + 2]


def test_arguments_that_change():
    def forward(m, x, y):
        view = x[:, 1:3].t()
        view.mul_(2)
        return x + y

    exported = npusim.export(Function(forward), (X.clone(), X))
    found = npusim.Session(npusim.compile(exported, dtype="float32")).run(X, X)
    x = X.clone()
    close(found["output"], forward(None, x, X))
    changed = next(name for name in found if name.endswith("_next"))
    assert np.array_equal(found[changed], x.numpy())


def test_a_buffer_that_changes_in_shared_memory_is_refused():
    base = torch.zeros(8)

    def forward(m, x):
        m.first.add_(1)
        return x + m.all[:4]

    with pytest.raises(npusim.UnsupportedError, match="shares memory"):
        npusim.export(Function(forward, first=base[:4], all=base), (X,))


def test_what_has_no_form_is_refused_by_name():
    with pytest.raises(npusim.UnsupportedError, match="pack_padded_sequence.*lengths are not known"):
        npusim.export(Function(lambda m, x: torch._pack_padded_sequence(x[None], x.sum().long()[None], True)[1]), (X,))
    lengths = torch.tensor([2])
    packed = Function(lambda m, x: torch._pack_padded_sequence(x[None], lengths, True)[0])
    check(packed, (X,))
    with pytest.raises(npusim.UnsupportedError, match="addresses memory that 'args_0' does not show"):
        npusim.export(Function(lambda m, x: torch.as_strided(x, (2, 2), (1, 2), 1)), (torch.zeros(4, 4)[::2, ::2],))


@pytest.mark.parametrize("x", [X, X.t(), torch.randn(3, 8)[:, ::2], torch.randn(4, 4)[1:], X.t()[1:]])
def test_memory_that_a_call_addresses(x):
    def forward(m, x):
        y, z = x * 1, x.t() * 2
        y.fill_diagonal_(7)
        at = x.storage_offset()
        part = torch.as_strided(x, (2, 2), (x.stride(0), x.stride(1)), at + x.stride(1))
        z.as_strided((2,), (z.stride(0) + z.stride(1),)).neg_()
        return y, z, part, torch.as_strided_scatter(x, part[0] * 3, (2,), (x.stride(0),), at)

    check(Function(forward), (x,))


def test_calls_that_nobody_reads():
    class Made(nn.Module):
        def __init__(self):
            super().__init__()
            self.kept = nn.Linear(4, 4)

        def forward(self, x):
            layer = nn.Linear(4, 4)  # which draws random weights
            layer.weight, layer.bias = self.kept.weight, self.kept.bias
            noise = torch.empty(4)
            noise.view(2, 2).uniform_()
            return layer(x)

    check(Made(), (X,))
    assert {n["op_type"] for n in npusim.export(Made(), (X,)).ir["nodes"]} == {"aten.linear.default"}

    def written_later(m, x):
        whole = torch.zeros(2, 4)
        row = torch.nn.functional.dropout(whole, 0.5, False)[0]
        same = torch.atleast_1d(row)
        row.add_(x[0])
        whole[1].copy_(x[1])
        unread = torch.zeros(4)
        unread.copy_(same)
        return same * 1, whole

    check(Function(written_later), (X,))

    def drawn(m, x):
        return x + torch.poisson(x.abs())

    with pytest.raises(npusim.UnsupportedError, match="poisson"):
        npusim.compile(Function(drawn), (X,))


@pytest.mark.parametrize(
    "function",
    [
        lambda m, x: nn.functional.mse_loss(x, x.flip(0)),
        lambda m, x: nn.functional.l1_loss(x, x.flip(1), reduction="none"),
        lambda m, x: nn.functional.smooth_l1_loss(x, x.flip(1), reduction="sum"),
        lambda m, x: nn.functional.cross_entropy(x, torch.tensor([1, -100, 3]), ignore_index=-100),
        lambda m, x: nn.functional.binary_cross_entropy_with_logits(x, x.sigmoid(), weight=x.abs()),
        lambda m, x: nn.functional.kl_div(x.log_softmax(-1), x.softmax(0), reduction="batchmean"),
        lambda m, x: x.sum_to_size(1, 4) + x.sum_to_size(3, 4),
        lambda m, x: (x * 1).fill_diagonal_(7) + torch.zeros(6, 4).fill_diagonal_(2, wrap=True)[3:],
        lambda m, x: torch.trapezoid(x) + torch.cartesian_prod(x[0], x[1])[:3, 0],
        lambda m, x: torch.matrix_power(x @ x.t(), 3) + torch.stft(x.flatten(), 4, 2, return_complex=True).abs().sum(),
        lambda m, x: torch.special.erfc(x) + torch.nanmean(x, 0) + torch.ldexp(x, torch.tensor(2)),
        lambda m, x: torch.nn.utils.rnn.pad_sequence([x[0], x[1, :2]], batch_first=True),
        lambda m, x: m.cell(x),
    ],
)
def test_operators_that_are_others(function):
    model = Function(function)
    model.cell = nn.GRUCell(4, 5)
    check(model, (X,), tolerance=1e-4)


def test_another_shape_of_an_input_is_no_write():
    def forward(m, x):
        x.unsqueeze_(0).transpose_(1, 2)
        found = x.squeeze_(0) + 1
        x.t_()
        return found

    exported, _ = check(Function(forward), (X,))
    assert [o["name"] for o in exported.ir["graph_outputs"]] == ["output"]


def test_another_shape_of_an_input_comes_back():
    def forward(m, x):
        x.unsqueeze_(0).transpose_(1, 2)
        return x.squeeze_(0) + 1

    exported, _ = check(Function(forward), (X,))
    assert [(o["name"], o["shape"]) for o in exported.ir["graph_outputs"]] == [("output", [4, 3]), ("args_0_next", [4, 3])]


def test_results_written_to_out():
    def forward(m, x):
        sum_ = torch.empty(3, 4)
        torch.add(x, 1, out=sum_)
        torch.mul(x, sum_, out=sum_[:])
        return sum_, torch.cat([x, x], out=torch.empty(6, 4))

    check(Function(forward), (X,))


def test_conditions_on_values_are_the_caller_s():
    def forward(m, x, count):
        torch._check(count.item() >= 0)
        return x * 2

    def sums(m, x, mask):  # as torch._check has it of a tensor, and of numbers that are computed
        torch._check_tensor_all(mask.sum() == 3)
        torch._check(2 * mask.sum().item() + 1 > 0)
        return x * 2

    for function, other in ((forward, torch.tensor(3)), (sums, torch.tensor([True, False, True, True]))):
        exported = npusim.export(Function(function), (X, other))
        assert [n["op_type"] for n in exported.ir["nodes"]] == ["aten.mul.Tensor"]


def test_wrong_calls():
    with pytest.raises(npusim.UsageError):
        npusim.export(lambda x: x, (X,))
    with pytest.raises(npusim.UsageError):
        npusim.export(nn.Linear(4, 4))
    with pytest.raises(npusim.UsageError):
        npusim.export(torch.export.export(nn.Linear(4, 4), (X,)), (X,))


def test_train_and_eval_are_the_model_s():
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
    model.train()
    drawn = npusim.Session(npusim.compile(model, (X,), dtype="float32")).run(X)["output"]
    assert model.training
    whole = model[0](X).detach().numpy()
    kept = drawn != 0
    assert 0 < kept.sum() < kept.size
    np.testing.assert_allclose(drawn[kept], 2 * whole[kept], rtol=1e-5)
    check(model.eval(), (X,))


def test_layers_with_a_fast_path():
    check(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval(), (torch.randn(1, 6, 16),), tolerance=1e-4)


def test_sixteen_bits():
    for dtype, tolerance in ((torch.bfloat16, 0.05), (torch.float16, 0.01)):
        check(nn.Linear(4, 4).to(dtype), (X.to(dtype),), tolerance=tolerance, dtype="auto")


def test_special_numbers():
    check(Function(lambda m, x: torch.where(x > 0, x, float("-inf")).softmax(-1)[1:], c=X), (X,))


def test_folder_and_shell(tmp_path):
    source = tmp_path / "net.py"
    source.write_text(
        "import torch\ndef make():\n    torch.manual_seed(0)\n    model = torch.nn.Linear(4, 2)\n"
        "    return model, (torch.ones(1, 4),)\ndef wrong():\n    return 3\ndef fails():\n    return 1 / 0, ()\n"
        "class Branch(torch.nn.Module):\n    def forward(self, x):\n        raise KeyError('none')\n"
        "def untraced():\n    return Branch(), (torch.ones(2),)\n"
    )
    command = [sys.executable, "-m", "npusim", "export"]
    env = {"PYTHONPATH": ":".join(sys.path), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [*command, f"{source}:make", "-o", str(tmp_path / "out")], check=False, capture_output=True, text=True, env=env
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{tmp_path / 'out'}: 1 nodes, 2 weights\n"
    torch.manual_seed(0)
    found = npusim.Session(npusim.compile(tmp_path / "out", dtype="float32")).run(np.ones((1, 4), "float32"))
    close(found["output"], nn.Linear(4, 2)(torch.ones(1, 4)))
    (tmp_path / "broken.py").write_text("import no_such_module")
    calls = ((f"{source}:fails", 3), (f"{source}:untraced", 4), (f"{tmp_path}/broken.py:make", 3))
    for what, code in (*calls, (f"{source}:wrong", 2), (f"{source}:none", 2), ("none.py:make", 2), ("make", 2)):
        done = subprocess.run(
            [*command, what, "-o", str(tmp_path / "no")], check=False, capture_output=True, text=True, env=env
        )
        assert done.returncode == code and done.stderr.startswith("error: "), done.stderr
        assert done.stderr.count("\n") == 1 and not (tmp_path / "no").exists()
    (tmp_path / "file").write_text("")
    done = subprocess.run(
        [*command, f"{source}:make", "-o", str(tmp_path / "file")], check=False, capture_output=True, text=True, env=env
    )
    assert done.returncode == 3 and done.stderr.startswith(f"error: cannot write {tmp_path / 'file'}"), done.stderr


ENDINGS = ["sys.exit(0)", "sys.exit(7)", "sys.exit('bye')", "raise SystemExit", "raise GeneratorExit", "quit()"]


@pytest.mark.parametrize("within", [False, True], ids=["the file", "the function"])
@pytest.mark.parametrize("ending", ENDINGS)
def test_code_that_ends_python_is_refused_from_the_shell(ending, within, tmp_path):
    source, lines = tmp_path / "ends.py", ["import sys", ending]
    source.write_text("\n".join(["def make():", *(f"    {line}" for line in lines)] if within else lines))
    command = [sys.executable, "-m", "npusim", "export", f"{source}:make", "-o", str(tmp_path / "out")]
    env = {"PYTHONPATH": ":".join(sys.path), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=env)
    assert done.returncode == 3 and "expected a result, found the end of Python" in done.stderr, done.stderr
    assert done.stderr.count("\n") == 1 and not (tmp_path / "out").exists()


def test_the_folder_is_the_shells(tmp_path):
    source = tmp_path / "moves.py"
    source.write_text(
        "import os, torch\ndef make():\n    os.makedirs('sub', exist_ok=True)\n    os.chdir('sub')\n"
        "    return torch.nn.Linear(4, 2), (torch.ones(1, 4),)\n"
    )
    command = [sys.executable, "-m", "npusim", "export", f"{source}:make", "-o", "out"]
    env = {"PYTHONPATH": ":".join(sys.path), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=env, cwd=tmp_path)
    assert done.returncode == 0 and (tmp_path / "out" / "ir.json").exists(), done.stderr


def test_fixed_keywords_from_the_shell(tmp_path):
    source = tmp_path / "sized.py"
    source.write_text(
        "import torch\nclass Sized(torch.nn.Module):\n"
        "    def forward(self, x, *, rows, columns, scale):\n"
        "        return x[: rows.item(), : columns.item()] * scale\n"
        "def make():\n    rows, columns, scale = (torch.tensor(n) for n in (2, 3, 5.0))\n"
        "    return Sized(), (torch.ones(4, 4),), {'rows': rows, 'columns': columns, 'scale': scale}\n"
    )

    def export(*fixed):
        command = [sys.executable, "-m", "npusim", "export", f"{source}:make", "-o", str(tmp_path / "out"), *fixed]
        env = {"PYTHONPATH": ":".join(sys.path), "PATH": "/usr/bin:/bin"}
        return subprocess.run(command, check=False, capture_output=True, text=True, env=env)

    done = export("--fixed", "rows", "--fixed", "columns")
    assert done.returncode == 0, done.stderr
    program = npusim.compile(tmp_path / "out", dtype="float32")
    assert [tensor.name for tensor in program.inputs()] == ["x", "scale"]
    found = npusim.Session(program).run(np.ones((4, 4), "float32"), np.float32(5))["output"]
    assert found.shape == (2, 3) and (found == 5).all()
    assert "warning" not in done.stderr
    done = export("--fixed", "rows")
    assert done.returncode == 0 and done.stderr.splitlines()[-1].startswith("warning: the program is made for"), (
        done.stderr
    )
    done = export("--fixed", "rows", "--fixed", "height", "--fixed", "columns")
    assert done.returncode == 2 and "there is no height" in done.stderr, done.stderr


def test_what_pytorch_ir_writes_is_compiled_too():
    torch_ir = pytest.importorskip("torch_ir")
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU()).eval()
    with torch.no_grad():
        ir = torch_ir.extract_ir(model, (X,), model_name="model", strict=False).to_dict()
    session = npusim.Session(npusim.compile(ir, dtype="float32"), dict(model.state_dict()))
    close(next(iter(session.run(X).values())), model(X))


@pytest.mark.parametrize("bias, both", [(True, True), (False, False)])
def test_a_recurrent_layer_projects_its_state(bias, both):
    layer = nn.LSTM(5, 6, num_layers=2, proj_size=3, bias=bias, bidirectional=both, batch_first=True)
    check(layer, (torch.randn(2, 4, 5),))


def test_one_tensor_as_two_examples_is_two_inputs():
    def weighed(model, x, y, z):
        return x + 2 * y["y"] + 3 * z

    for strict in (False, True):
        exported = npusim.export(Function(weighed), (X, {"y": X}), {"z": X}, strict=strict)
        session = npusim.Session(npusim.compile(exported, dtype="float32"))
        given = [torch.randn(X.shape) for _ in range(3)]
        close(next(iter(session.run(*given).values())), given[0] + 2 * given[1] + 3 * given[2])


def test_a_conversion_is_written_and_its_operand_is_not():
    class Written(torch.nn.Module):
        def forward(self, x):
            y = x.to(torch.int64)
            y[0] = 5
            return y

    x = torch.randn(3, 4)
    assert list(npusim.Session(npusim.compile(Written(), (x,))).run(x)) == ["output"]
    same = torch.ones(3, 4, dtype=torch.int64)
    assert list(npusim.Session(npusim.compile(Written(), (same,))).run(same)) == ["output", "x_next"]
