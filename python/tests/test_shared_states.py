"""Buffers of a module that several methods of one program change and read: each run of any of them sees what the last one
left, in programs from files too."""

import copy
import random

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import npusim

KINDS = {
    "vector": lambda: torch.randn(4),
    "scalar": lambda: torch.randn(()),
    "counter": lambda: torch.tensor(3),
    "flag": lambda: torch.tensor(True),
    "matrix": lambda: torch.randn(2, 4),
    "one": lambda: torch.randn(1),
    "nothing": lambda: torch.zeros(0, 4),
}


class Kept(torch.nn.Module):
    def __init__(self, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        for name, make in KINDS.items():
            self.register_buffer(name, make())
        for name in ("first", "second"):
            self.register_buffer(name, torch.randn(4))


def grow(s, x):
    s.vector.add_(x)
    s.matrix += x
    return x * 2


def count(s, x):
    s.counter += 1
    s.scalar = s.scalar * 0.5 + x.sum()
    s.flag = ~s.flag
    return s.counter * 1, s.scalar


def swap(s, x):
    was = s.first
    s.first, s.second = s.second, s.first.clone()
    return was, s.second + x


def put(s, x):
    before = s.matrix[1] * 1
    s.matrix[0] = x
    s.matrix[:, 1:3] *= 0.5
    s.vector[1:3] = x[:2]
    s.one.mul_(x[0])
    return before, s.matrix.t().contiguous()


def assign(s, x):
    s.vector = x * 2
    s.nothing = s.nothing + 1
    return s.vector.sum()


def read(s, x):
    return s.vector + x, s.scalar * 2, s.counter + 0, s.flag & True, s.matrix.sum(0), s.first - s.second


def look(s, x):
    return (s.matrix @ x + s.one) * s.scalar


def apart(s, x):
    return x * 10, torch.stack([x, x]), x.sum()


FORMS = [grow, count, swap, put, assign, read, look, apart]


class Method(torch.nn.Module):
    def __init__(self, s, form):
        super().__init__()
        self.s, self.form = s, form

    def forward(self, x):
        return self.form(self.s, x)


def check(forms, calls, seed):
    kept, x = Kept(seed), torch.randn(4)
    program = npusim.compile({f.__name__: npusim.export(Method(kept, f), (x,)) for f in forms}, dtype="float32")
    assert not program.notes
    loaded = npusim.load(program.to_bytes(), program.weights)
    sessions = [npusim.Session(p) for p in (program, loaded, loaded.recompile())]
    eager = copy.deepcopy(kept)
    for form in calls:
        x = torch.randn(4)
        wanted = form(eager, x.clone())
        wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        for session in sessions:
            found = session.run(x, method=form.__name__)
            values = [v for name, v in found.items() if name.startswith("output")]
            assert len(values) == len(wanted)
            for value, want in zip(values, wanted):
                np.testing.assert_allclose(value, want.numpy(), rtol=2e-5, atol=1e-5)
            for name, value in found.items():
                if name.endswith("_next"):
                    want = dict(eager.named_buffers(remove_duplicate=False))[name.removeprefix("s.").removesuffix("_next")]
                    np.testing.assert_allclose(value, want.numpy(), rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("seed", range(40))
def test_methods_in_any_order(seed):
    draw = random.Random(seed)
    forms = draw.sample(FORMS, draw.randint(2, 5))
    check(forms, [draw.choice(forms) for _ in range(12)], seed)


@pytest.mark.parametrize("form", FORMS)
def test_one_method(form):
    check([form], [form] * 4, 1)


def test_training_and_evaluation_share_statistics():
    norm, x = torch.nn.BatchNorm1d(3), torch.randn(5, 3)
    with pytest.warns(UserWarning, match="train"):
        methods = {"train": npusim.export(norm.train(), (x,))}
    methods["eval"] = npusim.export(norm.eval(), (x,))
    session, eager = npusim.Session(npusim.compile(methods, dtype="float32")), copy.deepcopy(norm)
    for run in range(4):
        given = torch.randn(5, 3) * (run + 1)
        for method in ("eval", "train", "eval"):
            wanted = eager.train(method == "train")(given).detach().numpy()
            np.testing.assert_allclose(session.run(given, method=method)["output"], wanted, rtol=1e-4, atol=1e-5)


def test_under_two_names():
    """What one method changes and another one has under another name is refused."""

    class Around(torch.nn.Module):
        def __init__(self, part):
            super().__init__()
            self.part = part

        def forward(self, x):
            return self.part(x)

    kept, x = Kept(), torch.randn(4)
    reader = Around(Method(kept, read))
    with pytest.raises(npusim.UsageError, match="same memory in another"):
        npusim.compile({"grow": npusim.export(Method(kept, grow), (x,)), "read": npusim.export(reader, (x,))})


def test_states_can_be_given_and_reset():
    kept, x = Kept(), torch.zeros(4)
    session = npusim.Session(npusim.compile({f.__name__: npusim.export(Method(kept, f), (x,)) for f in (count, read)}))
    first = session.run(x, method="count")
    assert first["output_0"] == 4
    assert session.run({"x": x, "s.counter": np.array(40)}, method="count")["output_0"] == 41
    assert session.run(x, method="read")["output_2"] == 41
    session.reset_states()
    assert session.run(x, method="read")["output_2"] == 3
    assert session.sibling().run(x, method="count")["output_0"] == 4


@pytest.mark.parametrize("given", [False, True], ids=["as it begins", "given"])
@pytest.mark.parametrize("form", [grow, count, read, look, apart])
def test_verify(form, given):
    kept, x = Kept(), torch.randn(4)
    forms = {grow, count, assign, form}
    program = npusim.compile({f.__name__: npusim.export(Method(kept, f), (x,)) for f in forms}, dtype="float32")
    inputs = {"x": x}
    if given:
        wanted = {info.name: info for info in program.inputs(form.__name__) if info.state}
        inputs |= {name: np.full(info.shape, 2, info.dtype) for name, info in wanted.items()}
    assert npusim.verify(program, inputs, method=form.__name__).ok


def become(s, x):
    s.first = s.second
    return x + 1


def both(s, x):
    s.first = s.second = x * 2
    return x + 1


def write_first(s, x):
    s.first.add_(x)
    return s.second * 1


def write_second(s, x):
    s.second[1:3] = 5
    return s.first * 1


def clone(s, x):
    s.first = s.second.clone()
    return x + 1


def copy_over(s, x):
    s.first.copy_(s.second)
    return x + 1


@pytest.mark.parametrize("writes", [write_first, write_second])
@pytest.mark.parametrize("gives", [become, both, clone, copy_over])
def test_two_buffers_that_become_one(gives, writes):
    """Whoever writes into one of them then writes into both."""
    if gives in (clone, copy_over):
        return check([gives, writes, read], [writes, gives, writes, read, gives, writes], 3)
    kept, x = Kept(), torch.randn(4)
    methods = {f.__name__: npusim.export(Method(kept, f), (x,)) for f in (gives, writes)}
    with pytest.raises(npusim.BadInputError, match="assign a clone"):
        npusim.compile(methods)
    check([gives, read, grow], [grow, gives, read, grow, read], 3)


def test_a_text_beside_a_method_with_a_state():
    """Whatever their order, with a mapping and without."""
    transformers = pytest.importorskip("transformers")
    sizes = {"vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4}
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes, intermediate_size=64)).eval()
    text = npusim.export_llm(model, capacity=32, prefill=[16])

    class Hits(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("hits", torch.tensor(0.0))

        def forward(self, x):
            self.hits.add_(1)
            return x * self.hits

    for given in (torch.ones(1, 3, 4), torch.ones(1, 3, dtype=torch.int64)):
        other = npusim.export(Hits(), (given,))
        texts = []
        for methods in ({**text.methods, "hits": other}, {"hits": other, **text.methods}):
            for how in ({"kv_map": text.kv_map}, {}):
                program = npusim.compile(methods, dtype="float32", **how)
                session = npusim.Session(program, {**text.weights, "hits": torch.tensor(0.0)})
                assert session.run(given, method="hits")["output"].max() == 1
                texts.append(npusim.generate(session, [1, 2, 3], max_new_tokens=8).tokens)
                assert session.run(given, method="hits")["output"].max() == 2
        assert all(one == texts[0] for one in texts)
