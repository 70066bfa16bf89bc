"""Inputs in lists, tuples, dicts and dataclasses: a session takes them as forward() does."""

from __future__ import annotations

import dataclasses
import re

import npusim
import numpy as np
import pytest

torch = pytest.importorskip("torch")
from modules import Calls

A, B, C = torch.randn(3, 2, 3).unbind()


@dataclasses.dataclass
class Pair:
    first: torch.Tensor
    second: list[torch.Tensor]


def of_lists(images):
    return torch.stack([sum(group) * (i + 1) for i, group in enumerate(images)])


def of_dicts(given, x):
    return given["a"] - given["b"][0] * given["b"][1] + x


def of_dataclasses(pair):
    return pair.first - pair.second[0] * 2 + pair.second[1] * 3


def with_numbers(x, scale, images):
    return x * scale["by"] + images[0] * scale["and"] - images[1]


def plain(a, b):
    return a - b


NESTED = {
    "lists": (of_lists, ([[A, B], [C]],), ([[C, A], [B]],)),
    "tuples": (of_lists, ([(A, B), (C,)],), ([[C, A], (B,)],)),
    "dicts": (of_dicts, ({"a": A, "b": [B, C]}, A), ({"b": (A, C), "a": B}, C)),
    "dataclasses": (of_dataclasses, (Pair(A, [B, C]),), (Pair(B, [C, A]),)),
    "numbers": (with_numbers, (A, {"by": 2.0, "and": 3}, [B, C]), (B, {"by": 2.0, "and": 3}, [C, A])),
    "none": (plain, (A, B), (B, C)),
}


@pytest.mark.parametrize("kind", NESTED)
def test_as_forward_takes_them(kind):
    function, example, other = NESTED[kind]
    program = npusim.compile(Calls(function), example, dtype="float32")
    session = npusim.Session(program)
    for given in (example, other):
        expected = function(*given)
        flat = flat_in_order(kind, given)
        for found in (
            session.run(*given),
            session.run(*flat),
            session.run({info.name: value for info, value in zip(program.inputs(), flat, strict=True)}),
            npusim.Session(program.recompile()).run(*given),
        ):
            torch.testing.assert_close(torch.from_numpy(found["output"]), expected)


def flat_in_order(kind, given):
    if kind == "dicts":  # in the order of the example's keys
        return [given[0]["a"], *given[0]["b"], given[1]]
    if kind == "dataclasses":
        return [given[0].first, *given[0].second]
    return [leaf for leaf in torch.utils._pytree.tree_leaves(given) if isinstance(leaf, torch.Tensor)]


class WithKeywords(torch.nn.Module):
    def forward(self, x, *, masks, names=None):
        return x + masks[0] - masks[1] * names["n"]


def test_keywords_stand_behind_the_others():
    kwargs = {"masks": (B, C), "names": {"n": A}}
    session = npusim.Session(npusim.compile(WithKeywords(), (A,), kwargs, dtype="float32"))
    found = session.run(A, [B, C], {"n": A})["output"]
    torch.testing.assert_close(torch.from_numpy(found), WithKeywords()(A, **kwargs))


@pytest.mark.parametrize(
    ("kind", "given", "what"),
    [
        ("lists", ([[A, B]],), "argument 0: expected a list or tuple of 2 as in the example, found a list of 1"),
        ("lists", ([[A, B], [C, C]],), "argument 0[1]: expected a list or tuple of 1 as in the example, found a list of 2"),
        ("lists", ([[A, B], C],), "argument 0[1]: expected a list or tuple of 1 as in the example, found a Tensor"),
        ("lists", ([[A, B], [C]], A), "expected 1 arguments, as forward() takes them, found 2"),
        ("dicts", ({"a": A, "c": [B, C]}, A), "argument 0: expected a dict of 'a', 'b' as in the example, found a dict of 'a', 'c'"),
        ("dicts", ([A, B], A), "argument 0: expected a dict of 'a', 'b' as in the example, found a list of 2"),
        ("numbers", (A, {"by": 2.5, "and": 3}, [B, C]), "argument 1['by']: is part of the program: expected 2.0, found 2.5"),
    ],
)
def test_another_structure_is_refused(kind, given, what):
    function, example, _ = NESTED[kind]
    session = npusim.Session(npusim.compile(Calls(function), example, dtype="float32"))
    with pytest.raises(npusim.UsageError, match=re.escape(what)):
        session.run(*given)


def test_a_program_from_a_file_takes_arrays(tmp_path):
    """It says nothing of forward()'s arguments."""
    npusim.compile(Calls(of_lists), ([[A, B], [C]],), dtype="float32").save(tmp_path / "a.npubin")
    session = npusim.Session(npusim.load(tmp_path / "a.npubin"))
    torch.testing.assert_close(torch.from_numpy(session.run(A, B, C)["output"]), of_lists([[A, B], [C]]))
    with pytest.raises(npusim.UsageError, match="expected 3 inputs"):
        session.run([[A, B], [C]])


@pytest.mark.parametrize("others", [(3, None), (2.5, None), (2, torch.ones(3)), (True, torch.ones(3))])
def test_numbers_stand_where_forward_has_them(others):
    """And may be left out, since they are part of the program."""

    class Scaled(torch.nn.Module):
        def forward(self, x, n, y=None):
            return x * n if y is None else x * n + y

    args = (torch.randn(3), *others)
    session = npusim.Session(npusim.compile(Scaled(), args, dtype="float32"))
    wanted = Scaled()(*args).numpy()
    assert np.allclose(session.run(*args)["output"], wanted)
    assert np.allclose(session.run(*[arg for arg in args if isinstance(arg, torch.Tensor)])["output"], wanted)
    with pytest.raises(npusim.UsageError, match=r"argument 1 \(n\): is part of the program: expected"):
        session.run(args[0], type(others[0])(0), others[1])


def test_containers_that_are_empty():
    x = torch.randn(3)
    cases = [
        (lambda d: d["x"] * 2 + len(d["e"]), ({"x": x, "e": []},)),
        (lambda given: given[1] * 2, ([[], x],)),
        (lambda given: given[0] * 2, ((x, {}),)),
        (lambda given, x: x * 2 + len(given), ([], x)),
        (lambda x, given: x * 2 + len(given), (x, {})),
    ]
    for function, args in cases:
        session = npusim.Session(npusim.compile(Calls(function), args, dtype="float32"))
        assert np.allclose(session.run(*args)["output"], 2 * x)
        assert np.allclose(session.run(x)["output"], 2 * x)
    with pytest.raises(npusim.UsageError, match=r"argument 1: is part of the program: expected \{\}, found \{'y': 1\}"):
        session.run(x, {"y": 1})


@pytest.mark.parametrize("keywords", [False, True])
@pytest.mark.parametrize("constants", [(None, 3), (None, 1), (True, 2.0), ("a", 0)])
def test_what_is_part_of_the_program_is_named(constants, keywords):
    """A tensor in the place of None, and an equal number of another type, say what was expected there."""

    class Takes(torch.nn.Module):
        def forward(self, x, t, n):
            return x * n + 1

    x, given = torch.randn(3), dict(zip(("t", "n"), constants, strict=True))
    args = (x,) if keywords else (x, *constants)
    session = npusim.Session(npusim.compile(Takes(), args, given if keywords else None, dtype="float32"))
    wanted = Takes()(x, *constants).numpy()
    for one in ((x, *constants), (x,), ({"x": x},), ({"x": x} | given,), ({"x": x, "n": constants[1]},)):
        assert np.allclose(session.run(*one)["output"], wanted)
    t, n = constants
    others = [(x, n), (torch.ones(5), n), (3, n), (t, None), (t, torch.ones(()))]
    others += [(t, other) for other in (int(n), float(n), bool(n), n + 1) if (type(other), other) != (type(n), n)]
    for other in others:
        wrong = "t" if other[0] is not t else "n"
        where = f"argument '{wrong}'" if keywords else f"argument {1 + (wrong == 'n')} ({wrong})"
        for one in ((x, *other), ({"x": x, "t": other[0], "n": other[1]},)):
            with pytest.raises(npusim.UsageError, match=re.escape(f"{where}: is part of the program: expected {given[wrong]!r}")):
                session.run(*one)
    for one in ((x, x), (x, 3.0), (x, x, x, x, x)):
        with pytest.raises(npusim.UsageError, match=re.escape(f"of which t={t!r}, n={n!r} are part of the program: found {len(one)}")):
            session.run(*one)
