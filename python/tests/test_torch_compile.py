"""torch.compile with npusim behind it."""

import logging
import os
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
from npusim.torch import compile as torch_compile
from torch import nn

X = torch.linspace(-2, 2, 12).reshape(3, 4)


@pytest.fixture(autouse=True)
def fresh(caplog):
    torch.manual_seed(0)
    torch.compiler.reset()
    caplog.set_level(logging.INFO, "npusim")


def said(caplog, level=logging.WARNING):
    return [r.getMessage() for r in caplog.records if r.name == "npusim" and r.levelno == level]


def compiled(model, **options):
    return torch.compile(model, backend=torch_compile.backend, options=options or None)


def check(model, *args, tolerance=1e-5, **kwargs):
    with torch.no_grad():
        found, expected = compiled(model)(*args, **kwargs), model(*args, **kwargs)
    for a, b in zip(torch.utils._pytree.tree_leaves(found), torch.utils._pytree.tree_leaves(expected), strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape and a.stride() == b.stride()
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)
    return found


def test_a_net_with_convolutions(caplog):
    layers = [nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5)]
    check(nn.Sequential(*layers).eval(), torch.randn(2, 3, 9, 9), tolerance=1e-4)
    assert not said(caplog) and len(said(caplog, logging.INFO)) == 1


def test_attention_layer(caplog):
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32, "num_hidden_layers": 1}
    bert = transformers.BertModel(transformers.BertConfig(vocab_size=50, **sizes)).eval()
    check(bert, torch.arange(8)[None], tolerance=1e-4)
    assert not said(caplog) and said(caplog, logging.INFO)


@pytest.mark.parametrize("key_heads", [4, 2])
def test_a_language_model_with_its_cache(caplog, key_heads):
    transformers = pytest.importorskip("transformers")
    torch.compiler.reset()
    sizes = {"hidden_size": 16, "num_attention_heads": 4, "intermediate_size": 32, "num_hidden_layers": 2}
    sizes["num_key_value_heads"] = key_heads
    llama = transformers.LlamaForCausalLM(transformers.LlamaConfig(vocab_size=50, **sizes)).eval()
    compiled = torch.compile(llama, backend=torch_compile.backend)
    for tokens in (torch.arange(8)[None], torch.arange(3, 11)[None]):
        with torch.no_grad():
            found, expected = compiled(tokens), llama(tokens)
        torch.testing.assert_close(found.logits, expected.logits, rtol=1e-4, atol=1e-5)
        for one, other in zip(found.past_key_values.layers, expected.past_key_values.layers, strict=True):
            torch.testing.assert_close(one.keys, other.keys, rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(one.values, other.values, rtol=1e-4, atol=1e-5)
    assert not said(caplog) and said(caplog, logging.INFO)


def test_constants_in_the_graph(caplog):
    check(lambda x: (x * torch.tensor([1.5, 2, 3, 4]), torch.cat([torch.tensor([]), x[0]])), X)
    assert not said(caplog) and said(caplog, logging.INFO)


def test_only_results_that_are_read_are_computed(caplog):
    both = check(lambda x: nn.functional.max_pool2d(x, 2, return_indices=True), torch.randn(1, 2, 4, 4))
    assert both[1].dtype == torch.int64
    programs = []
    compile_ir = torch_compile._Compiled.compile
    torch_compile._Compiled.compile = lambda self, ir: programs.append(ir) or compile_ir(self, ir)
    try:
        check(lambda x: nn.functional.max_pool2d(x, 2) + 1, torch.randn(1, 2, 4, 4))
    finally:
        torch_compile._Compiled.compile = compile_ir
    assert [node["op_type"] for node in programs[0]["nodes"]] == ["aten.max_pool2d.default", "aten.add.Tensor"]


def test_sixteen_bits():
    check(nn.Linear(4, 4).to(torch.bfloat16), X.to(torch.bfloat16), tolerance=0.02)


def test_each_shape_has_its_program(caplog):
    model, base = nn.Linear(4, 2), torch.randn(12, 4)
    run = compiled(model)
    with torch.no_grad():
        for rows in (2, 3, 5, 2):
            torch.testing.assert_close(run(base[:rows]), model(base[:rows]))
        programs = len(said(caplog, logging.INFO))
        for rows in (2, 3, 5):
            torch.testing.assert_close(run(base[:rows]), model(base[:rows]))
    assert not said(caplog) and 3 <= programs == len(said(caplog, logging.INFO))


def test_weights_that_change():
    model = nn.Linear(4, 2)
    run = compiled(model)
    with torch.no_grad():
        run(X)
        model.weight.add_(1)
        torch.testing.assert_close(run(X), model(X))
        model.load_state_dict({k: v * 2 for k, v in model.state_dict().items()})
        torch.testing.assert_close(run(X), model(X))
        model.weight = nn.Parameter(torch.ones(2, 4))
        torch.testing.assert_close(run(X), model(X))
        again = compiled(model, constant_weights=False)
        again(X)
        model.weight.data.mul_(3)
        torch.testing.assert_close(again(X), model(X))


def test_changes_in_place_and_views():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(4))

        def forward(self, x):
            self.count.add_(1)
            x.mul_(2)
            return x + self.count, x.t(), x[1:]

    model, other, x, y = Model(), Model(), X.clone(), X.clone()
    run = compiled(model)
    with torch.no_grad():
        for _ in range(3):
            found, expected = run(x), other(y)
            for a, b in zip(found, expected, strict=True):
                torch.testing.assert_close(a, b)
            assert torch.equal(x, y) and torch.equal(model.count, other.count)
            found[1].zero_(), expected[1].zero_()
            assert torch.equal(x, y)
            x.add_(X), y.add_(X)


@pytest.mark.parametrize("parts", [("unsafe_chunk", 2), ("unsafe_split", 2), ("unsafe_split_with_sizes", [1, 2])])
@pytest.mark.parametrize("way", ["method", "function", "operator"])
def test_parts_that_are_views_without_saying_so(parts, way):
    name, sizes = parts
    call = {"method": getattr(torch.Tensor, name), "function": getattr(torch, name)}.get(way, getattr(torch.ops.aten, name))

    def function(x):
        y = x + 1
        call(x, sizes)[0].mul_(3)
        call(y, sizes)[1].add_(x[0])
        return y, x * 1

    x = torch.arange(3.0) + 1
    other = x.clone()
    for a, b in zip(compiled(function)(x), function(other), strict=True):
        assert torch.equal(a, b)
    assert torch.equal(x, other)


def test_what_npusim_refuses_is_left_to_eager(caplog):
    def forward(x):
        return torch.linalg.eigvalsh(x @ x.T) + 1

    torch.testing.assert_close(check(forward, X), forward(X))
    assert len(said(caplog)) == 1 and "left to eager" in said(caplog)[0] and "aten." in said(caplog)[0]


def test_gradients_are_left_to_eager(caplog):
    model = nn.Linear(4, 2)
    compiled(model)(X).sum().backward()
    assert torch.equal(model.bias.grad, torch.full((2,), 3.0))
    assert "gradients" in said(caplog)[0]


def test_breaks_and_control_flow(caplog):
    def forward(x):
        y = x * 2
        if y.sum() > 0:
            return y + 1
        return y - 1

    check(forward, X + 1)
    check(forward, X - 1)
    assert not said(caplog)


def test_outputs_are_not_written_again():
    run = compiled(lambda x: x + 1)
    first = run(X)
    kept = first.clone()
    run(X * 3)
    assert torch.equal(first, kept)


def test_numbers_that_change_are_inputs(caplog):
    def scaled(x, factor):
        return x * factor + factor

    torch.compiler.reset()
    function = torch.compile(scaled, backend="npusim", dynamic=True)
    with torch.no_grad(), caplog.at_level("INFO", logger="npusim"):
        for factor in (0.5, 1.5, -2.25):
            torch.testing.assert_close(function(X, factor), scaled(X, factor))
    assert [record.levelname for record in caplog.records] == ["INFO"]  # compiled once, nothing left to eager


def test_inference_mode():
    with torch.inference_mode():
        model = nn.Linear(4, 2)
        torch.testing.assert_close(compiled(model)(X), model(X))


def test_options():
    with pytest.raises(Exception, match="no option"):
        compiled(nn.Linear(4, 2), speed=11)(X)


def test_a_process_that_knows_the_backend_by_its_name_ends_quietly():
    code = (
        "import torch\n"
        "with torch.no_grad(): print(torch.compile(lambda x: x + 1, backend='npusim')(torch.ones(2)).tolist())"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, env=env)
    assert done.stdout == "[2.0, 2.0]\n" and "nanobind" not in done.stderr, done.stderr


SEEN = {
    "conj": lambda z: (lambda w: (w, w.conj()))(z * 2),
    "conj first": lambda z: (lambda w: (w.conj(), w))(z * 2),
    "turned": lambda z: (lambda w: (w, w.mH))(z * 2),
    "negated": lambda z: (lambda w: (w, torch._neg_view(w.real)))(z * 2),
    "imag of conj": lambda z: (lambda w: (w, w.conj().imag))(z * 2),
    "parts": lambda z: (lambda w: (torch.view_as_real(w), w.conj()))(z * 2),
    "rows": lambda z: (lambda w: (w.conj(), w[1:], w.conj()[1:]))(z * 2),
    "of an argument": lambda z: z.mul_(2).conj(),
    "of an argument's part": lambda z: (z[0].add_(1), z.conj()[1:]),
    "negated argument": lambda z: torch._neg_view(z.mul_(1j)),
}


@pytest.mark.parametrize("kind", SEEN)
def test_views_that_show_other_numbers_than_memory_has(kind):
    torch.compiler.reset()
    z = torch.randn(3, 3, dtype=torch.complex64)
    other = z.clone()
    with torch.no_grad():
        found, expected = torch.compile(SEEN[kind], backend=torch_compile.backend)(z), SEEN[kind](other)
    pairs = zip(torch.utils._pytree.tree_leaves((found, z)), torch.utils._pytree.tree_leaves((expected, other)), strict=True)
    for a, b in pairs:
        torch.testing.assert_close(a.resolve_conj().resolve_neg(), b.resolve_conj().resolve_neg())
