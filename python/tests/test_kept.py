"""What forward() sets in Python, wherever it is held: an export puts it back, and a warning names it where it is something else
than before."""

import array
import collections
import random
import types
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import npusim
from torch import nn

X = torch.ones(2)


class Slotted:
    __slots__ = ("held", "later")

    def __init__(self, held):
        self.held = held


class Listed(list):
    held = None


def named(held):
    found = Listed([0])
    found.held = held
    return found


def closure(held):
    """Gives and takes what it has from around it."""

    def at(*given):
        nonlocal held
        held = given[0] if given else held
        return held

    return at


def with_class(held):
    return type("Own", (), {"held": held})()


def set_of_class(holder, value):
    type(holder).held = value


def by_attribute(holder, *given):
    return setattr(holder, "held", *given) if given else holder.held


def by_key(key):
    return lambda holder, *given: holder.__setitem__(key, *given) if given else holder[key]


# How a value is held: what holds it, and how it is read and set there (None: it is not).
HOLDERS = {
    "list": (lambda held: [0, held], by_key(1)),
    "dict": (lambda held: {"a": held, 3: 0}, by_key("a")),
    "ordered": (lambda held: collections.OrderedDict(k=held), by_key("k")),
    "deque": (lambda held: collections.deque([held, 1]), by_key(0)),
    "tuple": (lambda held: (0, held), None),
    "namespace": (lambda held: types.SimpleNamespace(held=held), by_attribute),
    "slots": (Slotted, by_attribute),
    "subclass": (named, by_attribute),
    "closure": (closure, lambda holder, *given: holder(*given)),
    "class": (with_class, lambda holder, *given: set_of_class(holder, *given) if given else holder.held),
    "module": (lambda held: add_attribute(nn.Linear(2, 2), held), by_attribute),
    "objects": (lambda held: np.array([None, held, None], dtype=object)[:2], by_key(1)),
}


def add_attribute(module, held):
    module.held = held
    return module


# What is held at the end: how it is made, and ways to change it in place; nothing: by another in its place.
ENDS = {
    "number": (lambda: 1, []),
    "truth": (lambda: True, []),
    "text": (lambda: "a", []),
    "nothing": (lambda: None, []),
    "fraction": (lambda: 0.5, []),
    "list": (lambda: [3, 1, 2], ["append(1)", "pop()", "reverse()", "sort()", "clear()", "__setitem__(0, 9)", "insert(0, 0)"]),
    "set": (lambda: {1, 2}, ["add(3)", "discard(1)", "clear()", "add(2)"]),
    "dict": (lambda: {"a": 1, "b": 2}, ["update(a=2)", "pop('a')", "setdefault('c', 1)", "update(a=1)", "popitem()"]),
    "deque": (lambda: collections.deque([1, 2], maxlen=2), ["append(3)", "rotate()", "popleft()"]),
    "counter": (lambda: collections.Counter("ab"), ["update('a')", "subtract('b')"]),
    "array": (lambda: np.arange(4.0).reshape(2, 2), ["__iadd__(1)", "fill(0)", "sort(0)", "__setitem__(0, 9)"]),
    "columns": (lambda: np.arange(6)[::2], ["__iadd__(1)", "__setitem__(1, 7)"]),
    "bytes": (lambda: bytearray(b"ab"), ["append(1)", "reverse()", "__setitem__(0, 9)"]),
    "numbers": (lambda: array.array("d", [1, 2]), ["append(1)", "reverse()", "__setitem__(0, 9)"]),
}
OTHERS = {"number": 2, "truth": False, "text": "b", "nothing": 0, "fraction": float("nan")}


def shown(value):
    """All that a value holds, to compare."""
    if isinstance(value, np.ndarray):
        return [value.dtype.str, value.shape, [shown(one) for one in value.ravel().tolist()]]
    if isinstance(value, (list, tuple, collections.deque)):
        more = [shown(value.held)] if isinstance(value, Listed) else []
        return [type(value).__name__, *more, *map(shown, value)]
    if isinstance(value, dict):
        return [type(value).__name__, *[(key, shown(one)) for key, one in value.items()]]
    if isinstance(value, types.FunctionType):
        return ["function", shown(value())]
    if isinstance(value, (types.SimpleNamespace, Slotted, nn.Module)) or type(value).__name__ == "Own":
        return [type(value).__name__, shown(value.held)]
    return [type(value).__name__, repr(value)]


class Sets(nn.Module):
    """Holds something, deep in other things, and changes it."""

    def __init__(self, holders, end, change):
        super().__init__()
        self.path, self.change, self.other = [HOLDERS[name][1] for name in holders], change, OTHERS.get(end)
        held = ENDS[end][0]()
        for name in reversed(holders):
            held = HOLDERS[name][0](held)
        self.tree = held

    def forward(self, x):
        chain = [self.tree]
        for at in self.path:
            chain.append(chain[-1][1] if at is None else at(chain[-1]))
        if self.change:
            eval(f"value.{self.change}", {"value": chain[-1]})
        elif not self.path:
            self.tree = self.other
        else:
            self.path[-1](chain[-2], self.other)
        return x + 1


def one_of_all(rng):
    """Where something is held, what, and how it is changed. In a tuple something is changed in place alone."""
    end = rng.choice([*ENDS])
    holders = [rng.choice([*HOLDERS]) for _ in range(rng.randrange(4))]
    if not ENDS[end][1] and holders and holders[-1] == "tuple":
        holders[-1] = "list"
    return holders, end, rng.choice(ENDS[end][1] or [""])


def told(model, strict=False):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        npusim.export(model, (X,), strict=strict)
    return [str(one.message) for one in found if "forward() sets" in str(one.message)]


@pytest.mark.parametrize("seed", range(12))
def test_what_forward_changes(seed):
    rng = random.Random(seed)
    for _ in range(10):
        case = one_of_all(rng)
        model, eager = Sets(*case), Sets(*case)
        before = shown(model.tree)
        assert shown(eager.tree) == before
        texts = told(model)
        assert shown(model.tree) == before, case
        eager(X)
        assert len(texts) == (shown(eager.tree) != before), case


@pytest.mark.parametrize("strict", [False, True])
def test_attributes_that_are_new(strict):
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.part = nn.Linear(2, 2)

        def forward(self, x):
            self.scale = getattr(self, "scale", 0) + 1
            self.part.seen = {"n": self.scale}
            del self.gone
            Counts.runs = getattr(Counts, "runs", 0) + 1
            return x * self.scale

    model = Counts()
    model.gone = 1
    (text,) = told(model, strict)
    assert all(name in text for name in ("scale", "part.seen", "gone", "Counts.runs"))
    assert not hasattr(model, "scale") and not hasattr(model.part, "seen") and model.gone == 1 and not hasattr(Counts, "runs")


def test_what_is_made_anew_alike_is_no_change():
    class Sets(nn.Module):
        def __init__(self):
            super().__init__()
            self.forward(X)

        def forward(self, x):
            self.shape, self.table, self.state = tuple(x.shape), {"a": [1, {2}]}, types.SimpleNamespace(n=float("nan"))
            self.places = np.arange(3)
            self.state.itself = [self.state]
            return x + 1

    assert told(Sets()) == []


def test_hooks_that_forward_registers():
    class Hooks(nn.Module):
        def __init__(self):
            super().__init__()
            self.part = nn.Linear(2, 2)

        def forward(self, x):
            self.part.register_forward_hook(lambda _part, _args, y: y + 1)
            return self.part(x)

    model = Hooks()
    (text,) = told(model)
    assert "part._forward_hooks" in text and not model.part._forward_hooks


TURNS, SEEN, FOUND, ROWS, ONE = 0, [], {}, np.zeros(2, "f"), np.array(1.0, "f")


def counted(x):
    global TURNS
    TURNS += 1
    return x * TURNS


def made_later(x):
    global LATER
    LATER = 3
    return x * LATER


def listed(x):
    SEEN.append(1)
    return x * len(SEEN)


def remembered(x):
    if "k" not in FOUND:
        FOUND["k"] = x.new_ones(2) * 2
    return x * FOUND["k"]


def summed(x):
    ROWS[0] += 1
    return x + torch.from_numpy(ROWS)


def of_no_dimensions(x):
    ONE[()] += 1
    return x * float(ONE)


@pytest.mark.parametrize(
    ("function", "name"),
    [(counted, "TURNS"), (made_later, "LATER"), (listed, "SEEN"), (remembered, "FOUND"), (summed, "ROWS"), (of_no_dimensions, "ONE")],
)
def test_names_of_a_module(function, name):
    class Model(nn.Module):
        def forward(self, x):
            return function(x)

    class Own(nn.Module):
        forward = staticmethod(function)

    for model in (Model(), Own()):
        with pytest.warns(UserWarning, match=f"forward\\(\\) sets {name} of test_kept"):
            npusim.export(model, (X,))
        assert TURNS == 0 and "LATER" not in globals() and not SEEN and not FOUND and not ROWS.any() and ONE == 1


def test_names_of_a_module_that_are_read_are_nobodys_business():
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        npusim.export(nn.Sequential(nn.Linear(2, 2)), (X,))
        npusim.export(type("Reads", (nn.Module,), {"forward": lambda self, x: x * (TURNS + len(SEEN) + 1)})(), (X,))
