"""Sessions among threads, processes and signals: forks, re-entry, Ctrl-C, cancel(), counts and budgets."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time

import npusim
import numpy as np
import pytest
from test_session import add_ir, counter_ir, tensor

WIDTH, LENGTH = 256, 400  # a run takes some tenths of a second, each of its steps far less


def chain_ir(length=LENGTH, width=WIDTH):
    """x multiplied by w again and again."""
    given = [tensor("x", [width, width]), tensor("w", [width, width])]
    nodes, last = [], "x"
    for n in range(length):
        reads = [
            tensor(name, [width, width], producer_node=name, producer_output_idx=0) for name in (last, "w")
        ]
        last = f"m{n}"
        nodes.append(
            {"name": last, "op_type": "aten.matmul.default", "inputs": reads, "attrs": {}}
            | {"outputs": [tensor(last, [width, width])]}
        )
    return {"graph_inputs": given, "graph_outputs": [tensor(last, [width, width])], "weights": [], "nodes": nodes}


@pytest.fixture(scope="module")
def chain():
    return npusim.compile(chain_ir(), dtype="float32")


ARRAYS = (np.eye(WIDTH, dtype="float32"), np.eye(WIDTH, dtype="float32"))


def later(seconds, call):
    timer = threading.Timer(seconds, call)
    timer.start()
    return timer


def in_child(work):
    """What `work` returns in a forked process that has a minute for it: true or false."""
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        try:
            os._exit(0 if work() else 1)
        except BaseException:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("threads", [0, 1, 3])
def test_fork(digits, threads):
    program = npusim.compile(digits / "ir.json", dtype="float32")
    weights = digits / "model.safetensors"
    x = np.linspace(-1, 1, 1024, dtype="float32").reshape(1, 1, 32, 32)
    session = npusim.Session(program, weights, threads=threads)
    expected = session.run(x)["linear"]

    def right(s):
        return np.array_equal(s.run(x)["linear"], expected)

    def everything():
        return right(session) and right(session.sibling()) and right(npusim.Session(program, weights, threads=threads))

    assert in_child(everything)
    assert in_child(lambda: in_child(everything) and right(session))
    assert right(session)
    _inherited[:] = [session]
    with multiprocessing.get_context("fork").Pool(2) as pool:
        found = pool.map(_run_inherited, [x] * 4)
    assert len(found) == 4 and all(np.array_equal(f, expected) for f in found)


_inherited = []


def _run_inherited(x):
    return _inherited[0].run(x)["linear"]


def test_fork_while_another_thread_runs(chain):
    busy, idle = npusim.Session(chain), npusim.Session(chain)
    expected = idle.run(*ARRAYS)["m399"]
    worker = threading.Thread(target=busy.run, args=ARRAYS)
    worker.start()
    time.sleep(0.1)
    assert in_child(lambda: np.array_equal(idle.run(*ARRAYS)["m399"], expected))

    def refused():
        with pytest.raises(npusim.UsageError, match="forked"):
            busy.run(*ARRAYS)
        return True

    assert not worker.is_alive() or in_child(refused)
    worker.join()
    assert np.array_equal(busy.run(*ARRAYS)["m399"], expected)


X, Y = np.arange(6, dtype="float32").reshape(2, 3), np.ones((2, 3), "float32")


def test_an_input_may_run_the_session():
    session = npusim.Session(npusim.compile(add_ir(), dtype="float32"))

    class Computed:
        def __array__(self, dtype=None, copy=None):
            return session.run(X, Y)["add"]

    assert np.array_equal(session.run(Computed(), Y)["add"], X + 2 * Y)
    assert np.array_equal(session.run({"x": Computed(), "y": Computed()})["add"], 2 * (X + Y))


def test_a_signal_handler_may_not_run_the_session_it_interrupts(chain):
    session, other = npusim.Session(chain), npusim.Session(npusim.compile(add_ir(), dtype="float32"))
    found = []

    def handler(number, frame):
        with pytest.raises(npusim.UsageError, match="this thread is at work with this session"):
            session.run(*ARRAYS)
        found.append(other.run(X, Y)["add"])

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        timer = later(0.05, lambda: os.kill(os.getpid(), signal.SIGUSR1))
        assert np.array_equal(session.run(*ARRAYS)["m399"], ARRAYS[0])  # goes on
        timer.join()
        time.sleep(0.01)
        assert len(found) == 1 and np.array_equal(found[0], X + Y)
        signal.signal(signal.SIGUSR1, lambda number, frame: session.run(*ARRAYS))
        timer = later(0.05, lambda: os.kill(os.getpid(), signal.SIGUSR1))
        with pytest.raises(npusim.UsageError, match="sibling"):
            session.run(*ARRAYS)
            time.sleep(1)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert np.array_equal(session.run(*ARRAYS)["m399"], ARRAYS[0])


def text_session(tinyqwen, **options):
    sources = {"prefill": str(tinyqwen / "prefill_ir.json"), "decode": str(tinyqwen / "decode_ir.json")}
    program = npusim.compile(sources, kv_map=tinyqwen / "kv_mapping.json", **options)
    return npusim.Session(program, tinyqwen / "model.safetensors")


def test_generate(tinyqwen):
    session = text_session(tinyqwen)
    expected = npusim.generate(session, [1, 2, 3], max_new_tokens=20).tokens

    def again(token):
        npusim.generate(session, [1], max_new_tokens=1)

    with pytest.raises(npusim.UsageError, match="sibling"):
        npusim.generate(session, [1, 2, 3], max_new_tokens=20, on_token=again)
    seen = []

    def cancel(token):
        seen.append(token)
        if len(seen) == 5:
            assert session.cancel()

    with pytest.raises(npusim.CancelledError):
        npusim.generate(session, [1, 2, 3], max_new_tokens=20, on_token=cancel)
    assert seen == expected[:5]
    assert npusim.generate(session, [1, 2, 3], max_new_tokens=20).tokens == expected

    def interrupt(token):
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        npusim.generate(session, [1, 2, 3], max_new_tokens=20, on_token=interrupt)
    assert npusim.generate(session, [1, 2, 3], max_new_tokens=20).tokens == expected


def test_cancel(chain):
    session = npusim.Session(chain)
    assert not session.cancel()
    errors = []

    def run():
        try:
            session.run(*ARRAYS)
        except npusim.Error as error:
            errors.append(error)

    for _ in range(2):
        worker = threading.Thread(target=run)
        worker.start()
        while not session.cancel():
            time.sleep(0.001)
        worker.join(10)
        assert not worker.is_alive()
    assert [type(e) for e in errors] == [npusim.CancelledError] * 2
    assert errors[0].kind == "cancelled"
    assert np.array_equal(session.run(*ARRAYS)["m399"], ARRAYS[0])


def test_ctrl_c(chain):
    session = npusim.Session(chain)
    session.run(*ARRAYS)
    begin = time.perf_counter()
    timer = later(0.1, lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        for _ in range(1000):
            session.run(*ARRAYS)
    timer.join()
    assert time.perf_counter() - begin < 5
    assert np.array_equal(session.run(*ARRAYS)["m399"], ARRAYS[0])
    ir = chain_ir(8000, 8)
    timer = later(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        for _ in range(100):
            npusim.compile(ir)
    timer.join()


def test_counts_are_bounded():
    program = npusim.compile(add_ir(), dtype="float32")
    for threads in (-1, 4097, 50000, 100000, 2**31, 2**40, 10**30, -(10**30)):
        with pytest.raises(npusim.UsageError, match="threads: expected 1 to 4096, or 0 for npusim's choice, found"):
            npusim.Session(program, threads=threads)
    for threads in (1.5, "2", None):
        with pytest.raises(npusim.UsageError, match="threads: expected an integer"):
            npusim.Session(program, threads=threads)
    assert np.array_equal(npusim.Session(program, threads=np.int64(2)).run(X, Y)["add"], X + Y)
    assert np.array_equal(npusim.Session(program, threads=64).run(X, Y)["add"], X + Y)


def test_budgets(tmp_path):
    program = npusim.compile(chain_ir(3, 64), dtype="float32")
    needs = program.needs
    assert needs.flops >= 3 * 2 * 64**3 and needs.bytes >= 3 * 4 * 64**2
    program.save(tmp_path / "p.npubin")
    for call in (
        lambda **limits: npusim.compile(chain_ir(3, 64), dtype="float32", **limits),
        lambda **limits: npusim.load(tmp_path / "p.npubin", **limits),
        lambda **limits: npusim.load(program.to_bytes(), **limits),
        lambda **limits: npusim.Session(program, **limits),
    ):
        call(max_bytes=needs.bytes, max_flops=needs.flops)
        with pytest.raises(npusim.UnsupportedError, match=f"{needs.bytes} bytes.*allows {needs.bytes - 1}"):
            call(max_bytes=needs.bytes - 1)
        with pytest.raises(npusim.UnsupportedError, match=f"{needs.flops} operations.*allows 1000000"):
            call(max_flops=1e6)
        for wrong in (-1, 2**64, float("nan"), float("inf"), "1", None):
            with pytest.raises(npusim.UsageError, match="max_bytes: expected"):
                call(max_bytes=wrong)


def test_a_failed_run_leaves_states_or_says_so():
    session = npusim.Session(npusim.compile(counter_ir(), dtype="float32"))
    row = np.ones((1, 2), "float32")
    session.run(np.array([1]), row)
    with pytest.raises(npusim.BadInputError, match="index"):
        session.run(np.array([4]), row)
    for _ in range(2):
        with pytest.raises(npusim.UsageError, match="'state'.*partly updated.*reset"):
            session.run(np.array([2]), row)
    given = session.run({"state": np.full((4, 2), 3, "float32"), "at": np.array([2]), "row": row})["index_copy"]
    assert given[:, 0].tolist() == [3, 3, 1, 3]
    with pytest.raises(npusim.BadInputError):
        session.run(np.array([-9]), row)
    session.reset_states()
    assert session.run(np.array([0]), row)["index_copy"][:, 0].tolist() == [1, 0, 0, 0]


def test_threads_wait_for_a_bounded_time():
    """What OpenMP reads when it is loaded, and nothing of it for other processes."""
    script = "import os, npusim; print('GOMP_SPINCOUNT' in os.environ)"
    environment = {k: v for k, v in os.environ.items() if k not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")}
    environment["OMP_DISPLAY_ENV"] = "verbose"
    found = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"
    assert "GOMP_SPINCOUNT = '2000'" in found.stderr
    environment["OMP_WAIT_POLICY"] = "active"
    found = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert "GOMP_SPINCOUNT = '2000'" not in found.stderr
