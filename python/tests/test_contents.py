"""What forward() leaves in containers among its arguments: a tensor in the place of one of its shape comes back as NAME_next, and
all else is told by its name."""

from __future__ import annotations

import collections
import copy
import dataclasses
import random
import warnings

import npusim
import pytest

torch = pytest.importorskip("torch")
from npusim.torch.tracing.dataclasses import classes_told
from torch import nn
from torch.utils import _pytree as pytree

X = torch.tensor([1.0, 2.0, 4.0])


@dataclasses.dataclass
class Pair:
    k: torch.Tensor
    v: torch.Tensor
    n: int = 1


class Cache:
    """A class that PyTorch is told of: it takes apart what `k` and `layers` hold, not how often it was asked."""

    def __init__(self, k, layers):
        self.k, self.layers, self.asked = k, layers, 0


pytree.register_pytree_node(
    Cache,
    lambda one: ([one.k, one.layers], None),
    lambda held, _: Cache(*held),
    serialized_type_name="test_contents.Cache",
    flatten_with_keys_fn=lambda one: ([(pytree.GetAttrKey("k"), one.k), (pytree.GetAttrKey("layers"), one.layers)], None),
)

# Containers, and statements that change them or do not (c: the container, x: a tensor of three).
CASES = {
    "dict": (
        lambda: {"k": X + 1, "v": X * 2, "w": torch.ones(2), "n": 3},
        [
            'c["k"] = torch.cat([c["k"][1:], x[:1]])',
            'c["v"] = c["k"]',
            'c["k"], c["v"] = c["v"], c["k"]',
            'c["k"].add_(1); c["k"] = c["k"] * 2',
            'c["k"] = c["k"].detach()',
            'c["v"] = x',
            'c["v"] = self.held; self.held = c["k"]',
            'c["v"] = self.plain',
            'c["w"] = c["k"]',
            'c["w"] = c.pop("k")[:2]',
            'c["v"] = c["v"].half()',
            'c["m"] = x + 1',
            'c["n"] += 1',
            'c.update(k=x * 3, n=c["n"])',
            'c.setdefault("k", x)',
            'c["w"] *= 2',
            "c.clear()",
            'del c["v"]',
            'c["v"] = x.sum().item()',
        ],
    ),
    "list": (
        lambda: [X + 1, X * 2, X - 1],
        [
            "c[0] = c[0] + x",
            "c.append(x)",
            "c.insert(0, x)",
            "c.reverse()",
            "c.pop()",
            "c += [c[0]]",
            "c.sort(key=id)",
            "c[:] = [c[2], c[0], c[1]]",
            "c[1] = c[1].view(1, 3)[0]",
            "c[1] = c[1].flip(0)",
            "c[2] = c[0][:2]",
            "c.clear()",
        ],
    ),
    "dataclass": (lambda: Pair(X + 1, X * 2), ["c.k = c.k + x", "c.n += 1", "c.k, c.v = c.v, c.k", "c.v = c.v[:1]", "c.n = 1", "c.v.mul_(2)"]),
    "class": (
        lambda: Cache(X + 1, [X * 2, X * 3]),
        ["c.k = c.k * x", "c.layers[1] = c.k", "c.layers.append(x)", "c.asked += 1", "c.layers = c.layers[::-1]", "c.k = c.k[None]"],
    ),
    "ordered": (lambda: collections.OrderedDict(a=X + 1, b=X / 2), ['c["a"] = c["a"] + x', 'c.move_to_end("a")', 'c["b"] = c.pop("a")', "c.popitem()"]),
}
WITHIN = {"itself": (lambda c: c, "given"), "list": (lambda c: [X, c], "given[1]"), "dict": (lambda c: {"in": c}, 'given["in"]'), "pair": (lambda c: Pair(X, c), "given.v")}
NEW_EACH_TIME = ("c.sort(key=id)",)  # in an order of its own each time


class Changes(nn.Module):
    def __init__(self, statements, within):
        super().__init__()
        self.register_buffer("held", X * 5)
        self.plain, self.statements, self.within = X * 7, compile("; ".join(statements), "case", "exec"), within

    def forward(self, x, given):
        c = eval(WITHIN[self.within][1])
        exec(self.statements, {"torch": torch}, {"self": self, "c": c, "x": x})
        leaves = [leaf for leaf in pytree.tree_leaves(c) if isinstance(leaf, torch.Tensor) and leaf.shape == x.shape]
        return sum(leaf * (i + 1) for i, leaf in enumerate(leaves)) + x


def places(given):
    with classes_told(given):
        return {pytree.keystr(path): leaf for path, leaf in pytree.tree_flatten_with_path(given)[0]}


def left(before, now):
    """By the places of tensors that are others, or were written, what is there then; and whether anything else is not as it was."""
    first, then, found, other = places(before), places(now), {}, False
    for place in {**first, **then}:
        a, b = first.get(place), then.get(place)
        if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) and a.shape == b.shape and a.dtype == b.dtype:
            found[place] = b
        else:
            other |= type(a) is not type(b) or isinstance(a, torch.Tensor) or a != b
    asked = [[leaf.asked for leaf in those(one, Cache)] for one in (before, now)]
    orders = [[[*leaf] for leaf in those(one, dict)] for one in (before, now)]
    return found, other or len({*asked[0], *asked[1]}) > 1 or len(orders[0]) != len(orders[1])


def those(given, kind):
    """The outermost objects of a kind."""
    with classes_told(given):
        leaves = pytree.tree_leaves(given, is_leaf=lambda value: isinstance(value, kind))
    return [leaf for leaf in leaves if isinstance(leaf, kind)]


def exported(model, given, strict=False):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        one = npusim.export(model, (X, given), strict=strict)
    return one, [str(warning.message) for warning in found if "forward() changes its arguments" in str(warning.message)]


@pytest.mark.parametrize("kind", CASES)
@pytest.mark.parametrize("seed", range(3))
def test_what_is_left(kind, seed):
    rng = random.Random(f"{kind}{seed}")
    make, statements = CASES[kind]
    for alone in statements if seed == 0 else [None] * 4:
        chosen = [alone] if alone else rng.sample(statements, 2)
        within = rng.choice([*WITHIN])
        check(make, [one for one in chosen if one not in NEW_EACH_TIME], within)


def check(make, statements, within):
    case = (statements, within)
    given = WITHIN[within][0](make())
    eager, began = Changes(*case), copy.deepcopy(given)
    try:
        eager(X, copy.deepcopy(given))
    except (KeyError, IndexError, TypeError, RuntimeError):  # one statement takes away what another one asks for
        return
    model = Changes(*case)
    one, texts = exported(model, given)
    assert str(places(given)) == str(places(began)) and torch.equal(model.held, X * 5), case
    session, eager = npusim.Session(npusim.compile(one, dtype="float32")), Changes(*case)
    names = {place_of(leaf): leaf.input for leaf in one.arguments if leaf.input}
    for _ in range(3):  # each with what the one before has left, where that has its shape
        now = copy.deepcopy(given)
        wanted = eager(X, now)
        leaves = places(given)
        arrays = {names[f"[1]{place}"]: leaf for place, leaf in leaves.items() if isinstance(leaf, torch.Tensor)}
        found = session.run(arrays | {"x": X})
        torch.testing.assert_close(torch.from_numpy(found["output"]), wanted, msg=str(case))
        tensors, other = left(given, now)
        assert bool(texts) == other, (case, texts)
        for place, value in tensors.items():
            name = f"{names[f'[1]{place}']}_next"
            changed = not torch.equal(value, places(given)[place])
            assert name in found or not changed, (case, name)
            if name in found:
                torch.testing.assert_close(torch.from_numpy(found[name]), value, msg=f"{case} {name}")
        with classes_told(given):
            structure = pytree.tree_structure(given)
            given = pytree.tree_unflatten([tensors.get(place, leaf) for place, leaf in leaves.items()], structure)


def place_of(leaf):
    return "".join(f".{key.of}" if key.kind == "name" else f"[{key.of!r}]" for key in leaf.path)


@pytest.mark.parametrize("kind", CASES)
def test_strict_tells_all(kind):
    make, statements = CASES[kind]
    for statement in statements:
        if any(name in statement for name in ("self.held", "self.plain", "id)", "item()")):
            continue
        torch._dynamo.reset()
        given = make()
        now = copy.deepcopy(given)
        Statement(statement)(X, now)
        anew = {place for place, value in left(given, now)[0].items() if not torch.equal(value, places(given)[place])}
        try:
            one, texts = exported(Statement(statement), given, strict=True)
        except npusim.UnsupportedError:  # dynamo takes not all of these
            continue
        returned = [output["name"] for output in one.ir["graph_outputs"]]
        assert texts or not left(given, now)[1], statement
        assert texts or len(anew) <= sum(name.endswith("_next") for name in returned), (statement, returned)


class Statement(nn.Module):
    def __init__(self, statement):
        super().__init__()
        names = {"torch": torch}
        exec(f"def forward(self, x, c):\n    {statement}\n    return x + 1", names)
        self.run = names["forward"].__get__(self)

    def forward(self, x, c):
        return self.run(x, c)


class Calls(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args, **kwargs):
        return self.function(*args, **kwargs)


def test_names_and_values_are_told():
    def change(x, cache):
        cache["layers"][0]["k"] = torch.cat([cache["layers"][0]["k"], x])
        cache["seen"] += 1
        return x + 1

    _, (text,) = exported(Calls(change), {"layers": [{"k": X}], "seen": 0})
    assert "['layers'][0]['k'] (was float32[3], is float32[6])" in text and "['seen'] (was 0, is 1)" in text and "return it" in text


def test_what_is_returned_is_not_told():
    def grow(x, cache):
        cache["k"] = torch.cat([cache["k"], x])
        cache["seen"] += 1
        return x + 1, cache

    def alone(x, cache):
        cache["k"] = torch.cat([cache["k"], x])
        return cache["k"]

    for function in (grow, alone):
        assert not exported(Calls(function), {"k": X, "seen": 0})[1]


def test_fixed_arguments():
    def change(x, sizes):
        sizes["n"] += 1
        return x + 1

    with pytest.warns(UserWarning, match=r"sizes\['n'\] \(was 1, is 2\)"):
        npusim.export(Calls(change), (X,), {"sizes": {"n": 1}}, fixed=["sizes"])


def test_one_container_in_two_places():
    def change(x, a, b):
        a["k"] = x
        return b["k"] + 1

    held = {"k": X + 1}
    with pytest.raises(npusim.UnsupportedError, match="two places"):
        npusim.export(Calls(change), (X, held, held))
    npusim.export(Calls(lambda x, a, b: a["k"] + b["k"]), (X, held, held))


def test_what_a_class_hands_on_is_put_back():
    """The tracer gives forward() what a container says of itself as it is."""

    class Counted(dict):
        pass

    pytree.register_pytree_node(
        Counted,
        lambda one: ([one["k"]], one["log"]),
        lambda held, log: Counted(k=held[0], log=log),
        flatten_with_keys_fn=lambda one: ([(pytree.MappingKey("k"), one["k"])], one["log"]),
    )

    def change(x, c):
        c["log"].append(1)
        return c["k"] + x

    given = Counted(k=X, log=[0])
    _, texts = exported(Calls(change), given)
    assert given["log"] == [0] and len(texts) == 1
