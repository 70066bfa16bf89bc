"""Tensors that are given other memory under any of their names, in chains by chance: what a call gives back as it was given,
copies of what has gaps, out=, views, writes. Outputs, arguments and buffers are what eager PyTorch makes them, run after run.
NPUSIM_GIVEN=1000 tries as many programs, from NPUSIM_GIVEN_FIRST on, and other dtypes."""

from __future__ import annotations

import contextlib
import os
import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import npusim
from modules import CallsWithSelf

MANY = int(os.environ.get("NPUSIM_GIVEN", "0"))
FIRST = int(os.environ.get("NPUSIM_GIVEN_FIRST", "0"))
RUNS = 3


def laid_out(value: Any, how: str) -> Any:
    """The same numbers in memory of another order, or with gaps."""
    if how == "turned":
        return value.t().contiguous().t()
    if how == "columns":
        return torch.stack((value, value * 0 - 1), -1)[..., 0]
    if how == "rows":
        return torch.stack((value, value * 0 - 1), 1)[:, 0]
    if how == "gaps, turned":
        return torch.stack((value.t(), value.t() * 0 - 1), -1)[..., 0].t()
    if how == "offset":
        return torch.cat((value[:1], value))[1:]
    return value.clone()


LAYOUTS = ["row-major", "row-major", "turned", "columns", "rows", "gaps, turned", "offset"]


def like(value: Any) -> Any:
    """A copy in memory of the same order."""
    memory = torch.full((value.untyped_storage().nbytes() // value.itemsize,), -9, dtype=value.dtype)
    return memory.as_strided(value.shape, value.stride(), value.storage_offset()).copy_(value)


NAMED = {torch.float32: "float", torch.int32: "int", torch.float16: "half"}
# What gives a tensor back, or a view or a copy of it, by its layout.
SAME: dict[str, Callable[[Any], Any]] = {
    "named": lambda v: getattr(v, NAMED[v.dtype])(),
    "to": lambda v: v.to(v.dtype),
    "to, copied": lambda v: v.to(v.dtype, copy=True),
    "to itself": lambda v: v.to(v),
    "to cpu": lambda v: v.cpu(),
    "type": lambda v: v.type(v.dtype),
    "type_as": lambda v: v.type_as(v),
    "contiguous": lambda v: v.contiguous(),
    "row-major": lambda v: v.to(memory_format=torch.contiguous_format),
    "positive": lambda v: +v,
    "resolve_conj": lambda v: v.resolve_conj(),
    "real": lambda v: torch.real(v),
    "at least": lambda v: torch.atleast_2d(v),
    "dropout": lambda v: torch.nn.functional.dropout(v, 0.5, training=False),
    "sum_to_size": lambda v: v.sum_to_size(4, 4),
    "reshape": lambda v: v.reshape(4, 4),
    "flat and back": lambda v: v.flatten().view(4, 4),
    "detach": lambda v: v.detach(),
    "data": lambda v: v.data,
    "all": lambda v: v[:],
    "turned": lambda v: v.t(),
    "turned twice": lambda v: v.t().t(),
    "clone": lambda v: v.clone(),
    "double": lambda v: v.double().to(v.dtype),
    "expanded": lambda v: v.expand_as(v),
    "addressed": lambda v: v.as_strided((4, 4), v.stride()),
    "addressed, turned": lambda v: v.as_strided((4, 4), v.stride()[::-1]),
    "a list": lambda v: torch.broadcast_tensors(v, v)[0],
}
WRITES: dict[str, Callable[[Any, Any], Any]] = {
    "add_": lambda v, w: v.add_(1),
    "mul_": lambda v, w: v.mul_(w),
    "copy_": lambda v, w: v.copy_(w),
    "[:] =": lambda v, w: v.__setitem__(slice(None), w),
    "a row": lambda v, w: v[1].copy_(w[2] * 1),
    "a column": lambda v, w: v[:, 1].add_(w[0] * 1),
    "lerp_": lambda v, w: v.lerp_(w, 0.25),
    "out": lambda v, w: torch.add(v, 1, out=v),
    "out of another": lambda v, w: torch.sub(w, 1, out=v),
    "out of both": lambda v, w: torch.maximum(v, w, out=v),
    "outs": lambda v, w: torch.sort(w, out=(v, torch.empty(4, 4, dtype=torch.int64))),
    "addressed": lambda v, w: v.as_strided((2, 4), (v.stride(0) * 2, v.stride(1))).add_(1),
    "flat": lambda v, w: v.contiguous().view(-1)[3:7].add_(2),
}
GIVES: dict[str, Callable[[Any, Any], Any]] = {
    "data": lambda v, w: setattr(v, "data", w),
    "set_": lambda v, w: v.set_(w),
    "data of a result": lambda v, w: setattr(v, "data", w * 2 + 1),
    "set_ of its own": lambda v, w: v.set_(v + 10),
    "data of a view": lambda v, w: setattr(v, "data", torch.cat((w, w))[2:6]),
}
REGIONS: dict[str, Callable[[], Any]] = {
    "": contextlib.nullcontext,
    "gradients": torch.enable_grad,
    "none": torch.no_grad,
    "autocast": lambda: torch.autocast("cpu", enabled=False),
}


class Chain:
    """A program by chance, of two arguments and two buffers."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.layouts = [self.pick(LAYOUTS) for _ in range(4)]
        self.dtype = self.pick([torch.float32, torch.float32, torch.int32, torch.float16])
        self.steps: list[tuple[Any, ...]] = []
        for count in range(4, 4 + self.random.integers(2, 9)):
            kind = self.pick(["same", "same", "same", "write", "write", "give", "give", "show"])
            of = {"same": SAME, "write": WRITES, "give": GIVES, "show": {"": None}}[kind]
            at, other = (int(self.random.integers(0, 4 + sum(step[0] == "same" for step in self.steps))) for _ in range(2))
            region = self.pick(list(REGIONS)) if kind != "give" and not self.random.integers(0, 8) else ""
            self.steps.append((kind, self.pick(list(of)), at, other, region))
        self.shared: dict[int, bool] = {}  # by step: whether it writes memory that it reads, of which eager PyTorch says nothing
        self.returned = [int(at) for at in self.random.integers(0, 20, 2)]

    def pick(self, choices: list[Any]) -> Any:
        return choices[int(self.random.integers(0, len(choices)))]

    def inputs(self) -> list[Any]:
        values = [(torch.arange(16.0).reshape(4, 4) / 4 - i).to(self.dtype) for i in range(4)]
        return [laid_out(value, how) for value, how in zip(values, self.layouts, strict=True)]

    def __call__(self, m: Any, x: Any, y: Any) -> Any:
        values, shown = [x, y, m.a, m.b], []
        for i, (kind, name, at, other, region) in enumerate(self.steps):
            with REGIONS[region]():
                if kind == "same":
                    values.append(SAME[name](values[at]))
                elif kind == "write":
                    v, w = values[at], values[other]
                    one = v.untyped_storage()._cdata == w.untyped_storage()._cdata
                    shared = self.shared.setdefault(i, v is not w and one)
                    WRITES[name](v, w.clone() if shared else w)
                elif kind == "give":
                    GIVES[name](values[at], values[other])
                else:
                    shown.append(values[at] * 1)
        return [*shown, *(value * 1 for value in values), *(values[at % len(values)] for at in self.returned)]

    def __str__(self) -> str:
        return f"{self.dtype}, {self.layouts}, {self.steps}, {self.returned}"


def made(function: Callable[..., Any], states: dict[str, Any], parameters: bool) -> Any:
    model = CallsWithSelf(function, **{} if parameters else {name: like(value) for name, value in states.items()})
    for name, value in states.items() if parameters else ():
        model.register_parameter(name, torch.nn.Parameter(like(value), requires_grad=False))
    return model


def exported_by(model: Any, given: list[Any], how: str) -> Any:
    if how == "program":  # of torch.export, with regions of gradients
        return npusim.export(torch.export.export(model, tuple(map(like, given)), strict=True))
    return npusim.export(model, tuple(map(like, given)), strict=how == "strict")


def wrong(
    function: Callable[..., Any], given: list[Any], states: dict[str, Any], parameters: bool = False, how: str = ""
) -> str:
    """What is not as in eager PyTorch in one of some runs; "" where nothing is."""
    model, eager = (made(function, states, parameters) for _ in range(2))
    with warnings.catch_warnings(action="ignore"):
        exported = exported_by(model, given, how)
    for name, before in states.items():
        if not torch.equal(getattr(model, name), before):
            return f"'{name}' of the model is not as it was"
    session = npusim.Session(npusim.compile(exported, dtype="float32"))
    kept = exported.ir["states"]
    names = [tensor["name"] for tensor in exported.ir["graph_inputs"] if tensor["name"] not in kept]
    for run in range(RUNS):
        changed = list(map(like, given))
        with torch.no_grad(), warnings.catch_warnings(action="ignore"):
            expected = torch.utils._pytree.tree_leaves(eager(*changed))
        found = session.run(dict(zip(names, map(like, given), strict=True)))
        outputs = [name for kind, name in exported.leaves if kind == "output"]
        pairs = [(name, found[name], value) for name, value in zip(outputs, expected, strict=True)]
        pairs += [
            (f"argument {name}", found.get(f"{name}_next", before), after)
            for name, before, after in zip(names, given, changed, strict=True)
        ]
        pairs += [
            (f"'{name}'", found[kept[name]] if name in kept else getattr(model, name), value)
            for name, value in (*eager.named_buffers(), *eager.named_parameters())
        ]
        for name, one, other in pairs:
            if not np.allclose(one, other, rtol=1e-5 if other.dtype != torch.float16 else 5e-3, equal_nan=True):
                return f"run {run}: {name}: {one}, expected {other}"
    return ""


# The last one says that something is written in memory that was left.
REFUSED = "is given the memory of|is given memory of another layout|shares memory with|addresses memory|frozen storage"


def of_chains(seeds: range) -> tuple[list[str], int]:
    failed, refused = [], 0
    for seed in seeds:
        chain = Chain(seed)
        try:
            *given, a, b = chain.inputs()
            with torch.no_grad(), warnings.catch_warnings(action="ignore"):
                chain(CallsWithSelf(chain, a=like(a), b=like(b)), *map(like, given))
        except RuntimeError:
            continue  # eager PyTorch refuses it
        try:
            text = wrong(chain, given, {"a": a, "b": b})
        except npusim.UnsupportedError as error:
            refused += 1
            text = "" if re.search(REFUSED, str(error)) else str(error)
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
        failed += [f"{seed}: {chain}\n{text}"] if text else []
    return failed, refused


@pytest.mark.parametrize("first", range(FIRST, FIRST + (MANY or 20), 20))
def test_chains(first: int) -> None:
    failed, refused = of_chains(range(first, first + 20))
    assert not failed, "\n".join(failed)
    assert refused < 6


# Of an argument: what it is under another name, and what is done to it then.
NAMES = {name: SAME[name] for name in SAME if name not in ("turned", "flat and back", "clone", "to, copied", "double")}
NAMES |= {
    "out": lambda v: torch.add(v, 1, out=v),
    "outs": lambda v: torch.sort(v, out=(v, torch.empty(4, 4, dtype=torch.int64)))[0],
    "twice": lambda v: v.type_as(v).contiguous().to(v.dtype),
    "in place": lambda v: v.add_(1),
    "in place, named": lambda v: getattr(v.mul_(2), NAMED[v.dtype])(),
    "in a region": lambda v: in_a_region(v, lambda v: v.to(v.dtype)),
    "out in a region": lambda v: in_a_region(v, lambda v: torch.add(v.contiguous(), 1, out=v)),
}


def in_a_region(v: Any, call: Callable[[Any], Any]) -> Any:
    with torch.autocast("cpu", enabled=False):
        return call(v)


@pytest.mark.parametrize("dtype", [torch.float32, *([torch.int32, torch.float16] if MANY else [])], ids=str)
@pytest.mark.parametrize(
    "of, how",
    [*(("argument", how) for how in dict.fromkeys(LAYOUTS)), *(("buffer", how) for how in ("row-major", "offset"))],
)
def test_names(of: str, how: str, dtype: Any) -> None:
    """Each by itself, what is given by its own name or by the other one; all of them are one program. Buffers keep their layout:
    the next run would ask for another one."""
    value = laid_out((torch.arange(16.0).reshape(4, 4) - 5).to(dtype), how)

    def function(m: Any, *given: Any) -> Any:
        results = []
        for i, (call, own) in enumerate((call, own) for call in NAMES.values() for own in (False, True)):
            v = given[i] if of == "argument" else getattr(m, f"b{i}")
            other = call(v)
            (v if own else other).data = other + 10
            results += [v * 1, other * 1, other]
            (v if own else other).add_(1)
            results += [v * 1, other * 1]
        return results

    count = 2 * len(NAMES)
    if of == "argument":
        text = wrong(function, [value] * count, {})
    else:
        text = wrong(function, [], {f"b{i}": value for i in range(count)})
    assert not text, text


def addressed_gaps(m: Any, x: Any, y: Any) -> Any:
    shown = x.as_strided((4, 4), (1, 4))
    x.data = y
    return shown * 1


def moved_and_asked(m: Any, x: Any, y: Any) -> Any:
    m.a.contiguous().view(-1)[3:7].add_(2)
    m.a.data = m.a * 2 + 1
    return m.a * 1


def assigned_and_asked(m: Any, x: Any, y: Any) -> Any:
    m.a.contiguous().view(-1)[3:7].add_(2)
    m.a = m.a * 2 + 1
    return m.a * 1


def turned_by_name(m: Any, x: Any, y: Any) -> Any:
    m.a.to(m.a.dtype).t_()
    return m.a * 1


def given_by_name_in_a_region(m: Any, x: Any, y: Any) -> Any:
    with torch.autocast("cpu"):
        x.float().contiguous().set_(y)
    return x * 1


@pytest.mark.parametrize(
    "function, said",
    [
        (addressed_gaps, "addresses memory that the argument does not show"),
        (moved_and_asked, "'a': is given memory of another layout by forward.*, whose next run asks for it"),
        (assigned_and_asked, "buffer 'a': is assigned by forward.*, whose next run asks for more than its values: a layout"),
        (turned_by_name, "gives 'b_a' another shape or order in place"),
        (given_by_name_in_a_region, "from outside its region"),
    ],
)
def test_refused_by_name(function: Callable[..., Any], said: str) -> None:
    value = torch.arange(16.0).reshape(4, 4)
    with pytest.raises(npusim.UnsupportedError, match=said):
        wrong(function, [laid_out(value, "rows" if "region" not in said else ""), value], {"a": laid_out(value, "rows")})


def in_gradients(call: Callable[[], Any]) -> Any:
    with torch.enable_grad():
        return call()


# Buffers that end with one value, with that of an argument, or with what another one was.
ENDS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "multiplied": lambda m, x, y: (m.a.mul_(2), m.b.copy_(m.a)),
    "counted": lambda m, x, y: (m.a.add_(1), m.b.copy_(m.a)),
    "lerp_": lambda m, x, y: (m.a.lerp_(x, 0.25), m.b.copy_(m.a)),
    "an element": lambda m, x, y: (m.a.__setitem__(0, 1), m.b.copy_(m.a)),
    "a slice": lambda m, x, y: (m.a.mul_(2), m.b.__setitem__(slice(None), m.a)),
    "of before": lambda m, x, y: (m.b.__setitem__(slice(None), m.a), m.a.mul_(2)),
    "an argument": lambda m, x, y: (x.mul_(2), m.b.copy_(x)),
    "an argument, twice": lambda m, x, y: (m.b.copy_(x), m.a.copy_(x)),
    "two arguments": lambda m, x, y: (x.mul_(2), y.copy_(x), m.a.copy_(y)),
    "a result": lambda m, x, y: (m.b.copy_(x * 2), m.a.copy_(m.b)),
    "exchanged": lambda m, x, y: (t := m.a.clone(), m.a.copy_(m.b), m.b.copy_(t)),
    "in turn": lambda m, x, y: (m.b.copy_(m.a), m.a.copy_(x), x.copy_(m.b)),
    "data": lambda m, x, y: (m.b.mul_(2), setattr(m.a, "data", m.b * 1), x.copy_(m.a)),
    "assigned": lambda m, x, y: (setattr(m, "b", m.b * 2), setattr(m, "a", m.b)),
    "out": lambda m, x, y: (torch.add(m.a, 1, out=m.a), m.b.copy_(m.a)),
    "a list": lambda m, x, y: (torch._foreach_mul_([m.a], 2), torch._foreach_copy_([m.b], [m.a])),
    "in a region": lambda m, x, y: in_gradients(lambda: (m.a.mul_(2), m.b.copy_(m.a))),
    "before a region": lambda m, x, y: (m.b.copy_(m.a), in_gradients(lambda: m.a.view(4, 4)).add_(1)),
    "of before in a region": lambda m, x, y: (in_gradients(lambda: m.b.copy_(m.a)), m.a.add_(1)),
    "a view of before": lambda m, x, y: (in_gradients(lambda: m.b.copy_(m.a.t())), m.a.add_(1)),
}


@pytest.mark.parametrize("parameters, how", [(False, "row-major"), (False, "columns"), (True, "turned")])
@pytest.mark.parametrize("name", ENDS)
def test_states_that_end_alike(name: str, parameters: bool, how: str) -> None:
    if parameters and name == "assigned":
        return  # a module takes no tensor for a parameter
    value = laid_out(torch.arange(16.0).reshape(4, 4) / 4, how)
    states = {"a": value - 2, "b": value * 3}

    def function(m: Any, x: Any, y: Any) -> Any:
        ENDS[name](m, x, y)
        return x + m.a + m.b * y

    text = wrong(function, [value, value + 1], states, parameters)
    assert not text, text


# What `.data =` is given.
DATA: dict[str, Callable[[Any, Any], Any]] = {
    "turned": lambda v, w: v.T,
    "turned, detached": lambda v, w: v.view(4, 4).T.detach(),
    "another": lambda v, w: w,
    "another, turned": lambda v, w: w.t(),
    "a result": lambda v, w: v * 2 + w,
    "a result, turned": lambda v, w: (v - w).t(),
    "a view": lambda v, w: torch.cat((v, w))[2:6],
    "a column": lambda v, w: v[:, 1:2].expand(4, 4).clone(),
}


def data_set(kind: str, of: str, before: bool, after: bool) -> Callable[..., Any]:
    def function(m: Any, x: Any, y: Any) -> Any:
        v = m.a if of == "buffer" else x
        if before:
            v.add_(1)
        v.data = DATA[kind](v, y)
        if after:
            v[1].mul_(2)
        return v * 1 + m.b

    return function


@pytest.mark.parametrize("how", ["", "strict", "program"])
@pytest.mark.parametrize("of", ["buffer", "argument"])
def test_data_that_is_set(of: str, how: str) -> None:
    """Strict export has that in a region of gradients, by a name that PyTorch's passes drop."""
    value = torch.arange(16.0).reshape(4, 4)
    failed, refused = {}, 0
    places = [(False, False), (True, False), (False, True)]
    calls = [(kind, *place) for i, kind in enumerate(DATA) for place in (places if MANY else places[i % 3 : i % 3 + 1])]
    for kind, before, after in calls:
        torch._dynamo.reset()
        function = data_set(kind, of, before, after)
        try:
            text = wrong(function, [value, value * 3], {"a": value - 2, "b": value + 1}, how=how)
        except npusim.UnsupportedError as error:
            refused += 1
            text = "" if re.search(f"{REFUSED}|not npusim, does not trace it", str(error)) else str(error)
        failed.update({(kind, before, after): text} if text else {})
    assert not failed, failed
    assert refused <= 2
