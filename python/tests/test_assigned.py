"""Buffers that forward() assigns, of the model and of its parts: random programs are as in eager PyTorch run after run, and what
no program can keep is refused by name. NPUSIM_ASSIGNED=10000 tries as many new programs."""

from __future__ import annotations

import copy
import itertools
import os

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import npusim
from modules import CallsWithSelf
from test_in_place import wrong

MANY = int(os.environ.get("NPUSIM_ASSIGNED", "0"))
FIRST = int(os.environ.get("NPUSIM_ASSIGNED_FIRST", "0"))
TOGETHER = 40  # programs of one module


class Part(torch.nn.Module):
    def __init__(self, numbers) -> None:
        super().__init__()
        self.register_buffer("a", numbers())
        self.register_buffer("b", numbers())


class Assigns(Part):
    """A few statements, drawn: old values by a name of their own, assignments, writes."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        super().__init__(self.numbers)
        self.part = Part(self.numbers)
        self.statements = []
        self.text = [f"program {seed}"]
        for _ in range(self.integer(2, 6)):
            kind = [assigns, assigns, assigns, keeps, keeps, computes, writes][self.integer(0, 6)]
            text, statement = kind(self)
            self.text.append(text)
            self.statements.append(statement)

    def numbers(self) -> torch.Tensor:
        return torch.from_numpy(self.random.integers(-8, 9, (3, 3)).astype("float32") / 4)

    def integer(self, low: int, high: int) -> int:
        return int(self.random.integers(low, high + 1))

    def slot(self) -> tuple[str, str]:
        return ["", "part"][self.integer(0, 1)], "ab"[self.integer(0, 1)]

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        values = [x]
        for statement in self.statements:
            statement(self, values)
        return values[1:] or [x * 1]


def assigns(program: Assigns):
    (path, name), (other, source), at = program.slot(), program.slot(), program.integer(0, 9)
    if program.integer(0, 1):
        text = f"self.{path}.{name} = self.{other}.{source}"
        return text, lambda m, v: setattr(m.get_submodule(path), name, getattr(m.get_submodule(other), source))
    return f"self.{path}.{name} = v[{at}]", lambda m, v: setattr(m.get_submodule(path), name, v[at % len(v)])


def keeps(program: Assigns):
    (path, name), turned = program.slot(), program.integer(0, 2) == 0

    def keep(m, v):
        value = getattr(m.get_submodule(path), name)
        v.append(value.t() if turned else value)

    return f"v.append(self.{path}.{name}{'.t()' * turned})", keep


def computes(program: Assigns):
    (path, name), at = program.slot(), program.integer(0, 9)
    text = f"v.append(v[{at}] * 0.5 + self.{path}.{name})"
    return text, lambda m, v: v.append(v[at % len(v)] * 0.5 + getattr(m.get_submodule(path), name))


def writes(program: Assigns):
    (path, name), at, part = program.slot(), program.integer(0, 9), program.integer(0, 1)
    if program.integer(0, 1):
        return f"v[{at}][{part}:] *= 0.5", lambda m, v: v[at % len(v)][part:].mul_(0.5)
    return f"self.{path}.{name}[{part}:] += 1", lambda m, v: getattr(m.get_submodule(path), name)[part:].add_(1)


class All(torch.nn.Module):
    def __init__(self, programs: list[Assigns]) -> None:
        super().__init__()
        self.programs = torch.nn.ModuleList(programs)

    def forward(self, *inputs: torch.Tensor) -> list[list[torch.Tensor]]:
        return [program(x) for program, x in zip(self.programs, inputs)]


def becomes_one(program: Assigns) -> bool:
    """Whether two buffers end in the same memory, of which one is written before it gets there."""
    model = copy.deepcopy(program)
    before = dict(model.named_buffers())
    versions = {name: value._version for name, value in before.items()}
    model(torch.ones(3, 3))
    now = dict(model.named_buffers(remove_duplicate=False))
    written = {name for name, value in before.items() if value._version != versions[name]}
    return any(
        now[p].data_ptr() == now[q].data_ptr() and {p, q} & written for p, q in itertools.combinations(now, 2)
    )


def of_programs(programs: list[Assigns]) -> str:
    """The first program of some that is wrong by itself, and what is wrong; "" where none is."""
    try:
        text = wrong(All(programs), [torch.full((3, 3), 0.25 * i + 1) for i in range(len(programs))])
    except npusim.Error as error:
        text = str(error)
    if not text or len(programs) == 1:
        return text and "\n".join([*programs[0].text, text])
    half = len(programs) // 2
    return of_programs(programs[:half]) or of_programs(programs[half:]) or f"together only: {text}"


def test_programs():
    count = MANY or 2 * TOGETHER
    refused = 0
    for first in range(FIRST, FIRST + count, TOGETHER):
        programs = [Assigns(seed) for seed in range(first, min(first + TOGETHER, FIRST + count))]
        ones = [program for program in programs if becomes_one(program)]
        refused += len(ones)
        text = of_programs([program for program in programs if program not in ones])
        assert not text, text
        for program in ones[: None if MANY else 3]:
            with pytest.raises(npusim.UnsupportedError, match="buffer '.*': is assigned the memory of buffer '"):
                npusim.export(program, (torch.ones(3, 3),))
    assert 0 < refused < count / 3


# ---- each kind by name


def an_argument(m, x):
    m.a = x
    return m.a + 1


def exchanged(m, x):
    m.a, m.b = m.b, m.a
    return m.a * x


def a_delay_line(m, x):
    old = m.c
    m.c = m.b
    m.b = m.a
    m.a = x
    return old, m.c * 1


def behind_a_condition_of_shape(m, x):
    if x.shape[0] == 2:
        m.a = (m.a + x).detach()
    return m.a


def by_register_buffer(m, x):
    m.register_buffer("a", m.a * 0.5 + x)
    return m.a * 1


def itself(m, x):
    m.a = m.a.to(x.device).contiguous().view(2, 3)
    return m.a + x


def a_view_of_another(m, x):
    old = m.a
    m.a = m.b.t().contiguous().t()
    return old, m.a * x


def a_constant(m, x):
    old = m.a + x
    m.a = torch.arange(6.0).reshape(2, 3)
    return old


BUFFERS = {"a": torch.ones(2, 3), "b": torch.full((2, 3), 2.0), "c": torch.full((2, 3), 3.0)}
ASSIGNED = [an_argument, exchanged, a_delay_line, behind_a_condition_of_shape, by_register_buffer, itself, a_view_of_another]


class Around(torch.nn.Module):
    def __init__(self, part: torch.nn.Module, names: tuple[str, str] = ("part", "part")) -> None:
        super().__init__()
        self.names = names
        for name in names:
            setattr(self, name, part)

    def forward(self, x):
        return tuple(getattr(self, name)(x * 2) for name in self.names)


@pytest.mark.parametrize("function", [*ASSIGNED, a_constant])
@pytest.mark.parametrize("around", [False, True])
def test_by_name(function, around):
    model = CallsWithSelf(function, **copy.deepcopy(BUFFERS))
    text = wrong(Around(model) if around else model, [torch.randn(2, 3)])
    assert not text, text


@pytest.mark.parametrize("function", [*ASSIGNED, a_constant])
def test_a_part_of_two_names(function):
    model = Around(CallsWithSelf(function, **copy.deepcopy(BUFFERS)), ("part", "same"))
    session = npusim.Session(npusim.compile(model, (torch.ones(2, 3),), dtype="float32"))
    for run in range(3):
        x = torch.full((2, 3), run + 0.5)
        expected = torch.utils._pytree.tree_leaves(model(x))
        for found, want in zip(session.run(x).values(), expected):  # states are behind the outputs
            assert np.array_equal(found, want.numpy()), run


class CallsItself(torch.nn.Module):
    def __init__(self, raises: bool) -> None:
        super().__init__()
        self.raises = raises
        self.register_buffer("a", torch.ones(2, 3))

    def forward(self, x, depth=2):
        old = self.a
        self.a = self.a * 0.5 + x
        if depth == 0 and self.raises:
            raise KeyError
        try:
            return (old, *self(x + 1, depth - 1)) if depth else (old, self.a)
        except KeyError:
            return old, self.a


@pytest.mark.parametrize("raises", [False, True])
def test_a_model_that_calls_itself(raises):
    text = wrong(CallsItself(raises), [torch.ones(2, 3)])
    assert not text, text


def test_a_buffer_that_is_assigned_itself_is_no_state():
    exported = npusim.export(CallsWithSelf(itself, a=torch.ones(2, 3)), (torch.ones(2, 3),))
    assert not exported.ir["states"]


def test_a_parameter_is_assigned():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.ones(3))

        def forward(self, x):
            self.w = torch.nn.Parameter(self.w * 0.5 + x)
            return self.w * 1

    text = wrong(Model(), [torch.ones(3)])
    assert not text, text


def grows(m, x):
    m.a = torch.cat([m.a, x])
    return m.a.sum()


def half(m, x):
    m.a = m.a.half()
    return x


def nothing(m, x):
    m.a = None
    return x


def deleted(m, x):
    if hasattr(m, "a"):
        del m.a
    return x


def a_parameter(m, x):
    m.a = torch.nn.Parameter(x * 2)
    return x


def made(m, x):
    m.register_buffer("d", x * 2)
    return m.d


def a_tensor_for_nothing(m, x):
    m.n = x * 2
    return m.n


def once(m, x):
    m.n = x * 2 if m.n is None else m.n + x
    return m.n * 1


def if_of_another_shape(m, x):
    if m.a.shape != x[0].shape:
        m.a = torch.zeros_like(x[0])
    m.a = m.a * 0.5 + x[0]
    return m.a * 1


def by_its_length(m, x):
    count = len(m.a)
    m.a = x[0] * 2
    return m.a + count


def keeps_the_old_one(m, x):
    m.b.add_(m.a)
    m.a = x[0] * 2
    return x


def one_memory(m, x):
    m.b.add_(x)
    m.a = m.b
    return m.a * 1


@pytest.mark.parametrize(
    ("function", "what"),
    [
        (grows, r"a': is float32\[2, 3\] and is assigned float32\[[46], 3\] by forward\(\): expected the same shape"),
        (half, r"a': is float32\[2, 3\] and is assigned float16\[2, 3\]"),
        (nothing, r"a': is float32\[2, 3\] and nothing behind forward\(\)"),
        (deleted, r"a': is float32\[2, 3\] and nothing behind forward\(\)"),
        (a_parameter, "a': becomes a parameter"),
        (once, r"n': is no tensor and is assigned float32\[2, 3\] by forward\(\): expected one from the beginning"),
        (if_of_another_shape, r"a': is float32\[2, 3\] and is assigned float32\[3\] by forward\(\)"),
        (by_its_length, r"a': is float32\[2, 3\] and is assigned float32\[3\] by forward\(\)"),
        (keeps_the_old_one, r"a': is float32\[2, 3\] and is assigned float32\[3\] by forward\(\)"),
        (one_memory, r"a': is assigned the memory of buffer '(part\.)?b', .* assign a clone\(\)"),
    ],
)
@pytest.mark.parametrize("around", [False, True])
def test_refused_by_name(function, what, around):
    model = CallsWithSelf(function, **copy.deepcopy(BUFFERS), n=None)
    with pytest.raises(npusim.UnsupportedError, match=f"buffer '{'part.' * around}{what}"):
        npusim.export(Around(model) if around else model, (torch.ones(2, 3),))
    assert list(model._buffers) == ["a", "b", "c", "n"] and torch.equal(model.a, torch.ones(2, 3))


def sums_up(m, x):
    m.a = torch.zeros(3)
    for row in x:
        m.a = m.a * 0.5 + row
    return m.a


def begins_like_the_old_one(m, x):
    m.a = torch.zeros_like(m.a)
    if m.a.shape != x.shape:
        m.a = torch.zeros_like(x)
    m.a = m.a * 0.5 + x
    return m.a.abs()


def beside_a_state(m, x):
    m.a = x[0] * 2
    m.b = m.b + m.a
    m.c.add_(1)
    return m.b + m.c


def converted(m, x):
    m.a = x > 0
    return m.a


@pytest.mark.parametrize(
    "function", [sums_up, begins_like_the_old_one, beside_a_state, converted, a_tensor_for_nothing, made]
)
@pytest.mark.parametrize("before", [torch.zeros(0), torch.ones(5, 7, dtype=torch.int32), torch.ones(2, 2), None])
@pytest.mark.parametrize("around", [False, True])
def test_set_anew_before_it_is_read(function, before, around):
    """A buffer whose old value nobody reads is no state, whatever it was."""
    if function is begins_like_the_old_one and before is None:
        pytest.skip("eager PyTorch has nothing like it")
    model = CallsWithSelf(function, a=before, b=torch.ones(2, 3), c=torch.zeros(2, 3), n=None)
    model = Around(model) if around else model
    session = npusim.Session(npusim.compile(model, (torch.randn(2, 3),), dtype="float32"))
    eager = copy.deepcopy(model)
    for run in range(3):
        x = torch.randn(2, 3)
        expected = torch.utils._pytree.tree_leaves(eager(x))
        for found, value in zip(session.run(x).values(), expected, strict=False):  # states come behind them
            assert np.array_equal(found, value.numpy())
    again = npusim.export(model, (torch.zeros(2, 3),))  # the example says nothing of what is read
    assert not any(name.endswith("a") for name in again.ir["states"])


def shows_memory(m, x):
    shown = m.a.as_strided((4,), (1,)).clone()
    m.a = (x + m.a).t().contiguous().t()
    return shown


def asks_for_order(m, x):
    y = x * 2 if m.a.is_contiguous() else x
    m.a = torch.stack([x[:, 0], x[:, 1], x[:, 2]]).t()
    return y


def asks_which(m, x):
    y = x + 1 if m.a is m.b else x
    m.a = m.b
    return y


@pytest.mark.parametrize("function", [shows_memory, asks_for_order, asks_which])
def test_what_no_values_say(function):
    """Of a buffer the next run has values; what else it asks for is refused."""
    with pytest.raises(npusim.UnsupportedError, match="buffer 'a': is assigned by forward.., whose next run asks for more"):
        npusim.export(CallsWithSelf(function, a=torch.ones(2, 3), b=torch.zeros(2, 3)), (torch.randn(2, 3),))


class Converts(torch.nn.Module):
    def __init__(self, convert) -> None:
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3))
        self.rnn = torch.nn.LSTM(3, 3, batch_first=True)
        self.convert = convert

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.convert(self, x).body(x) + self.rnn(x)[0]


CONVERTED = {
    "to a device": lambda m, x: m.body.to(x.device) and m,
    "to a dtype": lambda m, x: m.body.to(x.dtype) and m,
    "to what a tensor has": lambda m, x: m.to(x),
    "of a layer": lambda m, x: m.body[0].to("cpu") and m,
    "of a recurrent layer": lambda m, x: m.rnn.to(x.device, x.dtype) and m,
    "by name": lambda m, x: m.cpu().float(),
    "to an order": lambda m, x: m.to(memory_format=torch.contiguous_format),
}


@pytest.mark.parametrize("kind", CONVERTED)
def test_conversions_that_change_nothing(kind):
    model = Converts(CONVERTED[kind]).eval()
    x = torch.randn(2, 3)
    session = npusim.Session(npusim.compile(model, (x,), dtype="float32"))
    assert not any(info.kept for info in session.program.inputs())
    with torch.no_grad():
        torch.testing.assert_close(torch.from_numpy(session.run(x)["output"]), model(x), rtol=1e-5, atol=1e-6)


def test_conversions_that_change_something():
    with pytest.raises(npusim.UnsupportedError, match=r"'body.0.weight': is float32\[3, 3\] and is assigned float64\[3, 3\]"):
        npusim.export(Converts(lambda m, x: m.body.double() and m).eval(), (torch.randn(2, 3),))
    doubled = CallsWithSelf(lambda m, x: m._apply(lambda value: value * 2).a + x, a=torch.ones(2, 3))
    text = wrong(doubled, [torch.ones(2, 3)])
    assert not text, text


def test_rows_that_values_choose():
    """Of another number in every run: refused where the example has another than the buffer, and else made for it."""

    def chosen(m, x):
        m.a = m.a[x > 0]
        return m.a * 1

    with pytest.raises(npusim.UnsupportedError, match="buffer 'a': is float32"):
        npusim.export(CallsWithSelf(chosen, a=torch.ones(3)), (torch.tensor([1.0, -1, 1]),))
    with pytest.warns(UserWarning, match="made for"):
        exported = npusim.export(CallsWithSelf(chosen, a=torch.ones(3)), (torch.ones(3),))
    session = npusim.Session(npusim.compile(exported, dtype="float32"))
    assert np.array_equal(session.run(np.ones(3, "float32"))["output"], np.ones(3))
    with pytest.raises(npusim.Error):
        session.run(np.array([1, -1, 1], "float32"))


def test_buffers_of_one_memory():
    shared = torch.ones(2, 3)
    with pytest.raises(npusim.UnsupportedError, match="shares memory"):
        npusim.export(CallsWithSelf(an_argument, a=shared, b=shared), (torch.ones(2, 3),))


@pytest.mark.parametrize("function", [a_tensor_for_nothing, a_parameter, made, exchanged])
def test_strict_tracing(function):
    with pytest.raises(npusim.UnsupportedError, match="is assigned by forward"):
        npusim.export(CallsWithSelf(function, **copy.deepcopy(BUFFERS), n=None), (torch.ones(2, 3),), strict=True)


def test_a_program_of_torch_export():
    """It has what PyTorch follows: assignments of the model's own buffers."""

    def step(m, x):
        old = m.a
        m.a = m.a * 0.5 + x
        return old

    model = CallsWithSelf(step, a=torch.ones(2, 3))
    program = torch.export.export(model, (torch.ones(2, 3),), strict=False)
    session = npusim.Session(npusim.compile(program, dtype="float32"))
    for run in range(3):
        x = torch.full((2, 3), run + 0.5)
        assert np.array_equal(session.run(x)["output"], model(x).numpy())


class Pool(torch.nn.Module):
    """Keys and values beside each other in one memory."""

    def __init__(self) -> None:
        super().__init__()
        pool = torch.zeros(2, 3)
        self.register_buffer("k", pool[0])
        self.register_buffer("v", pool[1])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.k.add_(x)
        self.v.mul_(0.5).add_(self.k)
        return self.k + self.v


def test_parts_of_one_memory():
    model = Pool()
    eager = copy.deepcopy(model)
    session = npusim.Session(npusim.compile(model, (torch.randn(3),), dtype="float32"))
    for _ in range(3):
        x = torch.randn(3)
        assert np.allclose(session.run(x)["output"], eager(x), atol=1e-6)
    pool = torch.zeros(5)
    model.k, model.v = pool[:3], pool[2:]
    with pytest.raises(npusim.UnsupportedError, match="weight '[kv]': is changed in place and shares memory with '[kv]'"):
        npusim.export(model, (torch.randn(3),))


def test_an_expanded_buffer():
    def halves(m, x):
        m.a = m.a * 0.5 + x
        return m.a.sum(0)

    with pytest.raises(npusim.UnsupportedError, match="buffer 'a': is expanded, .* expected a clone"):
        npusim.export(CallsWithSelf(halves, a=torch.arange(3.0).expand(2, 3)), (torch.randn(2, 3),))
