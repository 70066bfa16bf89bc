"""Runs that are ended wherever Python is: what a program keeps on its device and what Python carries for it are those of
one run, or the session says that they are not."""

from __future__ import annotations

import random
import signal
import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import npusim
from modules import CallsWithSelf


def counts(m, x):
    m.n += 1
    y = torch.sin(x) + m.n
    m.k += 1
    m.f.mul_(0.5).add_(1)
    return y * 0 + m.n, m.k * 1, m.f * 1


def counting(**options) -> npusim.Program:
    model = CallsWithSelf(counts, n=torch.zeros(8), k=torch.zeros((), dtype=torch.int64), f=torch.zeros(3))
    return npusim.compile(model, (torch.zeros(8),), dtype="float32", **options)


X = np.zeros(8, "float32")


def runs_of(found) -> int:
    """After how many runs all of the outputs are these."""
    n, k, f = (found[f"output_{i}"] for i in range(3))
    assert (n == int(k)).all() and np.allclose(f, 2 - 2 * 0.5 ** int(k)), found
    return int(k)


@pytest.mark.parametrize("force_cpu", [[], ["sin"]], ids=["one part", "three parts"])
def test_a_caller_that_fails_among_the_parts(force_cpu):
    dag = npusim.DAGExecutor(counting(force_cpu=force_cpu))
    parts = len(dag.partitions())
    for failing in range(parts):
        dag.session.reset_states()
        assert runs_of(dag.run(X)) == 1
        seen = []

        def watch(partition, ms):
            seen.append(partition)
            if len(seen) == failing + 1:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            dag.run(X, watch=watch)
        try:
            assert runs_of(dag.run(X)) == 2, "nothing was begun"
        except npusim.UsageError as error:
            assert "reset the session's states" in str(error)
            dag.session.reset_states()
            assert runs_of(dag.run(X)) == 1


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers")
@pytest.mark.parametrize("how", ["run", "states that are given", "reset"])
def test_interrupts_anywhere(how):
    program = counting()
    session, draw = npusim.Session(program, threads=1), random.Random(7)
    given = {info.name: np.zeros(info.shape, info.dtype) for info in program.inputs("main")}
    settled = 0
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        for _ in range(300):
            try:
                signal.setitimer(signal.ITIMER_REAL, 1e-5 + draw.random() * 1e-3)
                while True:
                    session.run(X)
                    if how == "reset":
                        session.reset_states()
                    elif how != "run":
                        session.run(given)
            except KeyboardInterrupt:
                pass
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            try:
                runs_of(session.run(X))
                settled += 1
            except npusim.UsageError:
                session.reset_states()
                assert runs_of(session.run(X)) == 1
    except KeyboardInterrupt:  # of a timer that ran out beside its end
        pass
    finally:
        signal.signal(signal.SIGALRM, before)
    assert settled > 0


class Two(torch.nn.Module):
    def __init__(self, name: str, first: float) -> None:
        super().__init__()
        self.name = name
        self.register_buffer("n" + name, torch.tensor(0.0))
        self.register_buffer("c" + name, torch.full((4,), first))

    def forward(self, x):
        n, c = getattr(self, "n" + self.name), getattr(self, "c" + self.name)
        n.add_(1)
        c.add_(x * n)
        return c * 1, n * 1


ONES = torch.ones(4)


def two_methods():
    models = {"a": Two("a", 5.0), "b": Two("b", 7.0)}
    return models, npusim.compile({name: npusim.export(m, (ONES,)) for name, m in models.items()}, dtype="float32")


def test_a_reset_that_fails_tears_all_methods():
    models, program = two_methods()
    session = npusim.Session(program)
    session.run(ONES, method="b"), session.run(ONES, method="a")
    models["b"].cb.add_(1)
    with pytest.raises(npusim.UsageError, match="was changed"):
        session.reset_states()
    for method in "ab":
        with pytest.raises(npusim.UsageError, match="reset the session's states"):
            session.run(ONES, method=method)


def test_runs_of_several_methods_that_are_ended():
    _, program = two_methods()
    dag = npusim.DAGExecutor(program)
    for method in "ab":
        dag.run(ONES, method=method)

    def watch(partition, ms):
        raise KeyboardInterrupt

    for method in "ab":
        with pytest.raises(KeyboardInterrupt):
            dag.run(ONES, method=method, watch=watch)
    for method in "ab":
        for given in ({}, {"c" + method: np.full(4, 10, "float32")}):
            with pytest.raises(npusim.UsageError, match="reset the session's states"):
                dag.session.run({"x": ONES, **given}, method=method)
        # What is given stays, of a run that is refused too: with the other one there is nothing torn.
        dag.session.run({"x": ONES, "n" + method: np.array(0, "float32")}, method=method)


def looked_up(m, i):
    y = m.e[i]
    m.c.add_(y)
    m.d.add_(y * 2)
    m.k += 1
    return m.c + m.d, m.k * 1


def test_what_is_given_stays_when_the_run_fails():
    model = CallsWithSelf(looked_up, c=torch.zeros(4), d=torch.zeros(4), k=torch.tensor(0), e=torch.arange(8.0).reshape(2, 4))
    session = npusim.Session(npusim.compile(model, (torch.tensor(1),), dtype="float32"))
    one = session.run(torch.tensor(1))
    before = {name: one[name + "_next"] for name in "cdk"}
    for name in "cdk":
        given = np.full_like(before[name], 50)
        with pytest.raises(npusim.BadInputError, match="out of range"):
            session.run({"args_0": torch.tensor(9), name: given})
        found = session.run(torch.tensor(1))
        wanted = {**before, name: given}
        y = np.arange(4, 8)
        assert (found["c_next"] == wanted["c"] + y).all() and (found["d_next"] == wanted["d"] + 2 * y).all()
        assert found["k_next"] == wanted["k"] + 1
        before = {name: found[name + "_next"] for name in "cdk"}


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers")
def test_interrupts_leave_no_lock():
    session, draw, kept = npusim.Session(counting(), threads=1), random.Random(3), None
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        for _ in range(3000):
            try:
                signal.setitimer(signal.ITIMER_REAL, 1e-5 + draw.random() * 1e-4)
                while True:
                    session.seed(1)
            except KeyboardInterrupt as error:
                kept = error  # as a prompt keeps it
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert kept is not None
    session.seed(2)
    session.reset_states()
    assert runs_of(session.run(X)) == 1


def test_a_reset_that_fails_leaves_nothing_that_runs():
    model = CallsWithSelf(counts, n=torch.zeros(8), k=torch.zeros((), dtype=torch.int64), f=torch.zeros(3))
    session = npusim.Session(npusim.compile(model, (torch.zeros(8),), dtype="float32"))
    assert runs_of(session.run(X)) == 1
    with torch.no_grad():
        model.n.add_(1)
    with pytest.raises(npusim.UsageError, match="was changed"):
        session.reset_states()
    with pytest.raises(npusim.UsageError):
        session.run(X)


INTERRUPTED_IMPORT = """
import sys, torch, npusim
model, x, left = torch.nn.Linear(4, 4).eval(), torch.randn(1, 4), int(sys.argv[1])
torch.export.export(model, (x,))  # PyTorch's own lazy imports
def watch(frame, event, argument):
    global left
    if any("forms/fourier" in one.f_code.co_filename for one in (frame, frame.f_back)):
        left -= 1
        if left == 0:
            sys.setprofile(None)
            raise KeyboardInterrupt
sys.setprofile(watch)
try:
    npusim.compile(model, (x,), dtype="float32")
except KeyboardInterrupt as error:
    sys.last_exc = error  # as a console keeps it
sys.setprofile(None)
npusim.compile(model, (x,), dtype="float32")
class Back(torch.nn.Module):
    def forward(self, x):
        return torch.fft.irfft(torch.fft.rfft(x))
x = torch.randn(3, 8)
found = npusim.Session(npusim.compile(Back(), (x,), dtype="float32")).run(x)["output"]
assert torch.allclose(torch.from_numpy(found), x, atol=1e-5)
"""


@pytest.mark.parametrize("event", [1, 40, 90, 105, 112, 120])
def test_an_import_that_is_interrupted(event):
    """What PyTorch knows of npusim's operators by then is no reason to refuse the next import."""
    done = subprocess.run([sys.executable, "-c", INTERRUPTED_IMPORT, str(event)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
