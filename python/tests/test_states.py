"""First values of states: a buffer's, in the dtype that the program computes in."""

from __future__ import annotations

import copy

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import npusim
from modules import CallsWithSelf

FLOATS = [torch.float16, torch.bfloat16, torch.float32]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("of", FLOATS, ids=str)
@pytest.mark.parametrize("how", ["whole", "part", "assigned"])
def test_states_of_every_dtype(of, dtype, how):
    def step(m, x):
        if how == "part":
            m.a[1:] = m.a[1:] * 0.5 + x[1:]
        elif how == "whole":
            m.a.mul_(0.5).add_(x)
        else:
            m.a = m.a * 0.5 + x
        m.n += 1
        return m.a * 2, m.n * 1

    model = CallsWithSelf(step, a=torch.full((2, 3), 1.5, dtype=of), n=torch.tensor([3]))
    eager = copy.deepcopy(model)
    exported = npusim.export(model, (torch.ones(2, 3, dtype=of),))
    session = npusim.Session(npusim.compile(exported, dtype=dtype))
    for _ in range(2):
        fresh = copy.deepcopy(eager)
        for run in range(3):
            x = torch.full((2, 3), run + 0.25, dtype=of)  # exact in all of them
            found, want = session.run(x), fresh(x)
            assert np.array_equal(found["output_0"].astype("float32"), want[0].float().numpy()), run
            assert np.array_equal(found["output_1"], want[1].numpy()), run
        session.reset_states()


def counts(m, x):
    m.a += x
    return m.a * 1


def test_first_values_that_are_no_states():
    exported = npusim.export(CallsWithSelf(counts, a=torch.ones(2, 3)), (torch.ones(2, 3),))
    program = npusim.compile(exported, dtype="float32")
    said = r"weight 'a': is the first value of a state: expected float32\[2, 3\], found float32\[6\]"
    with pytest.raises(npusim.BadInputError, match=said):
        npusim.Session(program, {"a": np.ones(6, "float32")})
    with pytest.raises(npusim.BadInputError, match=r"weight 'a': .* found int64\[2, 3\]"):
        npusim.Session(program, {"a": np.ones((2, 3), "int64")})


def test_changed_weights_are_refused():
    """In place, by whatever counts: a session has parts of the weights as they were. A buffer that a program carries is its
    own, and begins anew with nothing else."""

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 4)
            self.register_buffer("count", torch.zeros(3))
            self.register_buffer("n", torch.zeros(()))

        def forward(self, x):
            self.count.add_(1)
            self.n.add_(1)
            return self.layer(x) + self.count.sum() + self.n

    def step(model):
        torch.optim.SGD(model.layer.parameters(), 0.1).step()

    def set_gradients(model):
        for parameter in model.layer.parameters():
            parameter.grad = torch.ones_like(parameter)

    x = torch.randn(2, 4)
    for change in (
        lambda model: model.load_state_dict(model.state_dict()),
        lambda model: torch.nn.init.zeros_(model.layer.bias),
        lambda model: (set_gradients(model), step(model)),
    ):
        model = Net()
        program = npusim.compile(model, (x,), dtype="float32")
        session = npusim.Session(program)
        first = session.run(x)["output"]
        other = session.sibling()
        change(model)
        for one in (session, other):
            with pytest.raises(npusim.UsageError, match=r"weight 'layer\.\w+': was changed after .* make a new Session"):
                one.run(x)
        expected = model.layer(x).detach().numpy() + 4
        assert np.allclose(npusim.Session(program).run(x)["output"], expected, atol=1e-4)
        assert first.shape == expected.shape

    model = Net()
    session = npusim.Session(npusim.compile(model, (x,), dtype="float32"))
    with torch.no_grad():
        model(x)
        assert np.allclose(session.run(x)["output"], model.layer(x).numpy() + 4, atol=1e-4)
    with pytest.raises(npusim.UsageError, match="weight 'count': was changed after"):
        session.reset_states()


def test_a_session_is_not_copied():
    session = npusim.Session(npusim.compile(torch.nn.Linear(2, 2), (torch.zeros(1, 2),), dtype="float32"))
    with pytest.raises(TypeError, match=r"a Session is not copied or pickled: sibling\(\)"):
        copy.deepcopy(session)
    expected = r"expected an array of float32\[1, 2\], NumPy's, found torch.Tensor of float32\[1, 2\]"
    with pytest.raises(npusim.UsageError, match=expected):
        session.run(torch.zeros(1, 2), out={"output": torch.zeros(1, 2)})


TURNS = {
    "t_": lambda b: b.t_(),
    "transpose_": lambda b: b.transpose_(0, 0),
    "swapaxes_": lambda b: b.swapaxes_(0, -1),
    "swapdims_": lambda b: b.swapdims_(-1, -1),
    "squeeze_": lambda b: b.squeeze_(),
    "squeeze_ of one": lambda b: b.squeeze_(0),
}


@pytest.mark.parametrize("turn", TURNS)
@pytest.mark.parametrize("shape", [(), (4,), (1, 1), (3, 3), (2, 1, 3)])
@pytest.mark.parametrize("write", [None, "before", "after", "through"])
def test_turns_that_leave_a_state_as_it_lies(turn, shape, write):
    """All others are refused by name."""

    def step(m, x):
        if write == "before":
            m.a.mul_(0.5).add_(x)
        turned = TURNS[turn](m.a)
        if write in ("after", "through"):
            (m.a if write == "after" else turned).mul_(0.5).add_(x)
        return turned * x + m.a

    model = CallsWithSelf(step, a=torch.arange(1.0, 1 + np.prod(shape, dtype=int)).reshape(shape))
    eager, tried = copy.deepcopy(model), copy.deepcopy(model)
    try:
        TURNS[turn](tried.a)
    except (IndexError, RuntimeError):
        return
    if tried.a.shape != model.a.shape or tried.a.stride() != model.a.stride():
        with pytest.raises(npusim.UnsupportedError, match="gives 'b_a' another shape or order in place"):
            npusim.export(model, (torch.tensor(2.0),))
        return
    session = npusim.Session(npusim.compile(model, (torch.tensor(2.0),), dtype="float32"))
    for run in range(3):
        x = torch.tensor(run + 0.5)
        assert np.array_equal(session.run(x)["output"], eager(x).numpy()), run


@pytest.mark.parametrize("how", ["compiled", "loaded", "compiled anew"])
def test_a_program_says_which_states_are_kept(how):
    """Buffers of the model, of which its caller knows nothing; others are arguments that a run writes into."""

    def step(m, x, cache):
        m.total += x
        cache[1:] = x[1:]
        return m.total + cache

    model = CallsWithSelf(step, total=torch.ones(3))
    x, cache = torch.arange(3.0), torch.zeros(3)
    program = npusim.compile(copy.deepcopy(model), (x, cache.clone()), dtype="float32")
    if how == "loaded":
        program = npusim.load(program.to_bytes(), program.weights)
    elif how == "compiled anew":
        program = program.recompile()
    assert [info.state for info in program.inputs()].count(True) == 2
    assert [info.name for info in program.inputs() if info.kept] == ["total"]
    session = npusim.Session(program)
    for _ in range(3):
        found, want = session.run(x, cache.clone()), model(x, cache.clone())
        np.testing.assert_array_equal(next(iter(found.values())), want.numpy())
