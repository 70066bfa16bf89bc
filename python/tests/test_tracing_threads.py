"""What other threads find of PyTorch and Python while one exports, and what all find behind it."""

import builtins
import contextlib
import io
import logging
import math
import operator
import random
import sys
import threading
import warnings

import npusim
import pytest

torch = pytest.importorskip("torch")
from npusim.torch.facts.threads import alone, is_tracing, replaced, without_logs, without_warnings
from torch import nn
from torch.export import _trace, exported_program

F = nn.functional


class Asks(nn.Module):
    """A bit of what an export replaces functions for."""

    def __init__(self):
        super().__init__()
        self.linear, self.norm = nn.Linear(4, 4), nn.BatchNorm1d(4)
        self.layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x, n):
        total = x.sum().item()
        y = self.linear(x) * max(total, 1.5) + math.sqrt(abs(total))
        if isinstance(total, float) and x.max() > 0:
            y = y + float(n) + int(n)
        mask = y > 0
        y[mask] = y[mask] * 2
        self.seen = self.seen + 1
        warnings.warn("of the model", stacklevel=1)
        y = y + F.l1_loss(x, y, weight=x.abs()) + F.huber_loss(x, y)
        return self.layer(y[None]), torch.chain_matmul(x, x, x), x[: int(n)]


X, N = torch.rand(4, 4), torch.tensor(3)


def export():
    with warnings.catch_warnings(action="ignore"):
        return npusim.export(Asks().eval(), (X, N))


MODULES = (
    *(builtins, math, operator, warnings, logging, sys, random),
    *(torch, torch.random, torch.backends.mha, torch.functional, torch.nn.functional, torch.nn.modules.transformer),
    *(torch._functorch.vmap, torch._library.utils, torch._subclasses.fake_utils, torch._subclasses.fake_impls),
    *(exported_program, _trace, torch.fx.experimental.proxy_tensor),
)
CLASSES = (
    *(torch.SymInt, torch.SymFloat, torch.SymBool, torch.Tensor, nn.Module, torch.fx.Tracer),
    *(torch._subclasses.fake_tensor.FakeTensorMode, torch.fx.experimental.symbolic_shapes.ShapeEnv),
    *(torch.fx.experimental.sym_node.SymNode, torch.fx.experimental.proxy_tensor._ModuleStackTracer),
)
OPS = (torch.ops.aten.huber_loss.default, torch.ops.aten.multi_margin_loss.default, torch.ops.aten.upsample_bicubic2d.default)
COUNTS = {"_EXPORT_FLAGS", "_EXPORT_MODULE_HIERARCHY", "cache", "cache_hits", "cache_misses", "cache_bypasses"}  # of PyTorch's own


def everything():
    """What stands under each name, and in each table."""
    found = {(of, name): value for of in (*MODULES, *CLASSES) for name, value in vars(of).items()}
    found |= {(op, key): kernel for op in OPS for key, kernel in op.py_kernels.items()}
    found |= {("shapes", str(op)): form for op, form in torch._subclasses.fake_impls.op_implementations_dict.items()}
    found |= {("code", f): f.__code__ for f in (F.l1_loss, F.ctc_loss, torch.chain_matmul)}
    loggers = [one for one in logging.root.manager.loggerDict.values() if isinstance(one, logging.Logger)]
    found |= {("logger", one.name): (one.level, tuple(one.filters), one.disabled) for one in loggers}
    return found | {"filters": tuple(warnings.filters), "fast": torch.backends.mha.get_fastpath_enabled()}


def differences(before, after):
    """The names of what is another one now, but for what Python and PyTorch note of themselves, and loggers that are new."""
    plain = (int, str, float, tuple)

    def is_same(name):
        if name not in before or name not in after:
            return name[0] == "logger"
        return before[name] is after[name] or (isinstance(before[name], plain) and before[name] == after[name])

    changed = [name for name in before.keys() | after.keys() if not is_same(name)]
    return [name for name in changed if not (name[1] in COUNTS or str(name[1]).startswith("__"))]


@pytest.mark.parametrize("strict", [False, True])
def test_everything_is_as_it_was(strict):
    export()  # modules that PyTorch loads
    before = everything()
    for model in (Asks(), nn.Linear(4, 4), nn.Linear(5, 5)):  # the last one fails
        with contextlib.suppress(npusim.Error), warnings.catch_warnings(action="ignore"):
            npusim.export(model, (X, N) if isinstance(model, Asks) else (X,), strict=strict)
        found = differences(before, everything())
        assert not found, found


def conversions():
    t, two = torch.tensor(2.75), torch.tensor([1.0, 2.0])
    yield float(t), 2.75
    yield int(t), 2
    yield bool(t), True
    yield t.item(), 2.75
    yield len(two), 2
    yield math.floor(t), 2
    yield math.sqrt(4.0), 2.0
    yield math.pow(2.0, 3.0), 8.0
    yield math.atan2(0.0, 1.0), 0.0
    yield max(1, 2), 2
    yield min(two).item(), 1.0
    yield max(t, torch.tensor(1.0)) is t, True
    yield isinstance(1, float), False
    yield operator.index(torch.tensor(3)), 3
    yield str(t.item()), "2.75"
    yield type(float(t)) is float and type(int(t)) is int, True
    yield torch.equal(two, two), True
    yield torch.allclose(two, two), True


LAYER = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).eval()
LINEAR, NORM, NEST = nn.Linear(4, 2), nn.BatchNorm1d(4).eval(), nn.Sequential(nn.Sequential(nn.Linear(4, 2)), nn.ReLU())
Y, LABELS = torch.rand(4, 4), torch.tensor([0, 1, 2, 3])


def operators():
    """Operators whose traced form, or whose function, is another while a model is traced."""
    yield lambda: F.l1_loss(Y, Y + 1, weight=Y)
    yield lambda: F.huber_loss(Y.half(), Y)
    yield lambda: F.multi_margin_loss(Y[0], LABELS[0])
    yield lambda: F.interpolate((Y[None, None] * 255).to(torch.uint8), scale_factor=2, mode="bilinear")
    yield lambda: torch.masked_select(Y, Y > 0.5)
    yield lambda: torch.chain_matmul(Y, Y, Y)
    yield lambda: torch.vmap(lambda row: row * 2)(Y)
    yield lambda: torch.cov(Y)
    yield lambda: F.pad(Y, (1, 1), value=2.0)
    yield lambda: Y.float_power(2)
    yield lambda: F.ctc_loss(Y[:, None].log_softmax(2), LABELS[None, 1:3], torch.tensor([4]), torch.tensor([2]))
    yield lambda: LAYER(Y[None])
    yield lambda: LINEAR(Y)
    yield lambda: NORM(Y)
    yield lambda: NEST(Y)
    yield lambda: nn.Linear(4, 4, dtype=torch.float32).to(torch.float64).weight.sum() * 0
    yield lambda: torch.zeros(3).requires_grad_().sum()


class Elsewhere(threading.Thread):
    """Runs eager PyTorch again and again, and notes what is not as it is when nothing is exported."""

    def __init__(self):
        super().__init__()
        self.stop, self.wrong, self.rounds = threading.Event(), [], 0
        self.heard, self.logged = 0, 0
        with torch.no_grad():
            self.expected = [call() for call in operators()]

    def run(self):
        logger = logging.getLogger("torch.export")
        while not self.stop.is_set():
            self.rounds += 1
            try:
                self.once(logger)
            except Exception as error:
                self.wrong.append(repr(error))

    def once(self, logger):
        for number, (found, expected) in enumerate(conversions()):
            if found != expected or type(found) is not type(expected):
                self.wrong.append(f"conversion {number}: {found!r}")
        with torch.no_grad():
            for number, (call, expected) in enumerate(zip(operators(), self.expected, strict=True)):
                found = call()
                if type(found) is not torch.Tensor or not torch.equal(found, expected):
                    self.wrong.append(f"operator {number}: {found}")
        if is_tracing() or torch._C._len_torch_function_stack() or torch._C._len_torch_dispatch_stack():
            self.wrong.append("is within a mode")
        if not torch.backends.mha.get_fastpath_enabled():
            self.wrong.append("has no fast path")
        warnings.warn(f"of round {self.rounds}", stacklevel=1)
        logger.error("of round %d", self.rounds)
        print("of a round", file=sys.stderr)


class Counted(logging.Handler):
    def __init__(self):
        super().__init__()
        self.by: dict[int, int] = {}

    def emit(self, record):
        self.by[record.thread] = self.by.get(record.thread, 0) + 1


def test_another_thread_is_eager(monkeypatch):
    export()
    lines, logged, shown = io.StringIO(), Counted(), []
    monkeypatch.setattr(sys, "stderr", lines)
    monkeypatch.setattr(warnings, "showwarning", lambda message, *_, **__: shown.append((threading.get_ident(), str(message))))
    logging.getLogger("torch.export").addHandler(logged)
    other = Elsewhere()
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = lambda message, *_, **__: shown.append((threading.get_ident(), str(message)))
        other.start()
        try:
            for _ in range(2):
                npusim.export(Asks().eval(), (X, N))
        finally:
            other.stop.set()
            other.join()
            logging.getLogger("torch.export").removeHandler(logged)
    assert other.rounds > 1
    assert not other.wrong, (other.rounds, other.wrong[:10])
    assert lines.getvalue().count("of a round") == other.rounds
    # PyTorch's own catch_warnings() in its tracer are for all threads, for a moment each.
    lost = other.rounds - sum("of round" in text for by, text in shown if by == other.ident)
    assert lost <= 5 + other.rounds // 20
    assert not any(text == "of the model" for _, text in shown)
    assert logged.by == {other.ident: other.rounds}


def test_two_threads_export(caplog):
    """One after the other, with the answers of one alone."""
    models = [Asks().eval() for _ in range(3)]
    expected = [npusim.export(model, (X, N)).ir for model in models]
    found, failed = {}, []

    def one(number):
        try:
            found[number] = npusim.export(models[number], (X, N)).ir
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(len(models))]
    with warnings.catch_warnings(action="ignore"):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not failed, failed
    assert [found[number] for number in range(len(models))] == expected


def test_what_is_replaced_is_so_for_one_thread():
    class Of:
        def method(self):
            return "plain"

    def elsewhere(call):
        found = []
        thread = threading.Thread(target=lambda: found.append(call()))
        thread.start()
        thread.join()
        return found[0]

    before = vars(Of)["method"]
    with alone(), replaced(Of, "method", lambda self: "ours"), replaced(Of, "new", lambda self: 1):
        assert Of().method() == "ours" and Of().new() == 1
        assert elsewhere(Of().method) == "plain" and elsewhere(Of().new) is NotImplemented
        with replaced(Of, "method", lambda self: "inner", others=lambda self: "other"):
            assert (Of().method(), elsewhere(Of().method)) == ("inner", "other")
        assert elsewhere(is_tracing) is False and is_tracing()
    assert vars(Of)["method"] is before and "new" not in vars(Of) and not is_tracing()


def test_filters_that_others_set_meanwhile_stay():
    before = list(warnings.filters)
    with alone(), without_warnings():
        context = warnings.catch_warnings()
        context.__enter__()  # as of a thread that leaves it later
    context.__exit__(None, None, None)
    assert list(warnings.filters) == before
    with alone(), without_warnings():
        warnings.filterwarnings("ignore", message="set meanwhile")
    assert len(warnings.filters) == len(before) + 1
    warnings.filters.pop(0)


def test_loggers_keep_their_levels(caplog):
    with alone(), without_logs("a_library"):
        logging.getLogger("a_library").error("not said")
        logging.getLogger("a_library").critical("said")
        assert logging.getLogger("a_library").level == logging.NOTSET
    assert [r.getMessage() for r in caplog.records] == ["said"]
