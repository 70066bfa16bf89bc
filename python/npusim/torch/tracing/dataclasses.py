"""Classes among a model's arguments and results which torch.export takes apart where they are registered with PyTorch: while a
model is exported, and around its forward(), npusim tells of those that nobody has."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, NamedTuple

import torch
from torch.utils import _pytree as pytree


class Entry(NamedTuple):
    """What PyTorch knows of a class: how it is taken apart, and what it is called in files."""

    node: pytree.NodeDef
    named: Any


class Registered:
    """The classes of one export that are known otherwise to PyTorch than its user has it. They stand in its registries but
    while forward() runs: a class may register itself there, and is refused where it is registered."""

    def __init__(self, strict: bool) -> None:
        self.strict = strict
        self.entries: dict[type, Entry] = {}
        self.below: dict[type, Entry | None] = {}  # what its user has of them, while they stand
        self.is_apart = False  # while forward() runs
        self.paths: list[Any] = []  # of what was registered last, in this structure
        self.structure: pytree.TreeSpec | None = None

    def stand(self) -> None:
        for kind, entry in self.entries.items():
            self.put(kind, entry)

    def put(self, kind: type, entry: Entry) -> None:
        self.entries[kind] = entry = entry if self.strict else _made_apart(entry)
        if kind not in self.below:
            self.below[kind] = _registered(kind)
            _register(kind, entry)

    def withdraw(self) -> None:
        for kind, before in self.below.items():
            if pytree.SUPPORTED_NODES.get(kind) is self.entries[kind].node:  # else another has registered it meanwhile
                _register(kind, before)
        self.below.clear()

    def users(self) -> set[type]:
        """The classes that are registered by others."""
        return {kind for kind in [*pytree.SUPPORTED_NODES] if kind not in self.below or self.below[kind] is not None}

    def adopt(self, kind: type) -> None:
        """Makes a class that its user has registered one of this export's."""
        before = self.below.pop(kind) if kind in self.below else _registered(kind)
        _forget(kind)
        entry = self.entries.get(kind, before)
        assert entry is not None
        self.put(kind, entry)


REGISTERED: ContextVar[Registered | None] = ContextVar("REGISTERED", default=None)


@contextlib.contextmanager
def classes_registered(values: Any, strict: bool = False) -> Iterator[None]:
    """Registers with PyTorch the classes among these values and, within, of those that tell() is called with.
    strict: dynamo, which does not follow what _made_apart() does, makes objects of them."""
    known = Registered(strict)
    before = REGISTERED.set(known)
    try:
        tell(values)
        yield
    finally:
        REGISTERED.reset(before)
        known.withdraw()


@contextlib.contextmanager
def as_registered() -> Iterator[None]:
    """While forward() runs: PyTorch's registries as their user has them."""
    known = REGISTERED.get()
    if known is None or known.is_apart:  # forward() within forward()
        yield
        return
    known.withdraw()
    known.is_apart = True
    try:
        yield
    finally:
        known.is_apart = False
        known.stand()


def tell(values: Any) -> None:
    """Registers every dataclass among these values, and of what is in them; and of classes that are registered without keys,
    whose parts have their places for names."""
    known = REGISTERED.get()
    if known is None or known.is_apart:
        return
    for leaf in pytree.tree_leaves(values):
        if dataclasses.is_dataclass(leaf) and not isinstance(leaf, type):
            _register_dataclass(known, type(leaf))
            tell(leaf)
    _register_structure(known, pytree.tree_structure(values))
    found, known.structure = pytree.tree_flatten_with_path(values)
    known.paths = [path for path, _ in found]


def paths_of(structure: pytree.TreeSpec) -> list[Any]:
    """Where the leaves of a structure stand. Numbers in their places may be nothing that a class can be made of: what the
    model has returned says it, if it is known."""
    known = REGISTERED.get()
    if known is not None and known.structure == structure:
        return known.paths
    dummy = pytree.tree_unflatten(list(range(structure.num_leaves)), structure)
    return [path for path, _ in pytree.tree_flatten_with_path(dummy)[0]]


def register_structures(program: torch.export.ExportedProgram) -> None:
    """Tells of the classes in what a program is given and returns."""
    known = REGISTERED.get()
    for structure in (program.call_spec.in_spec, program.call_spec.out_spec):
        if known is not None and structure is not None:
            _register_structure(known, structure)


def _register_structure(known: Registered, structure: pytree.TreeSpec) -> None:
    if structure.is_leaf():
        return
    entry = _registered(structure.type)
    if entry is not None and entry.node.flatten_with_keys_fn is None:
        node = entry.node._replace(flatten_with_keys_fn=functools.partial(_with_places, entry.node.flatten_fn))
        known.put(structure.type, entry._replace(node=node))
    for child in structure.children():
        _register_structure(known, child)


def _register_dataclass(known: Registered, kind: type) -> None:
    if kind in pytree.SUPPORTED_NODES:
        return
    nameless = _nameless()
    torch.export.register_dataclass(kind)
    entry = _registered(kind)
    assert entry is not None
    _register(kind, None)
    _set_nameless(nameless)
    known.put(kind, entry)


@contextlib.contextmanager
def results_registered(model: torch.nn.Module, strict: bool) -> Iterator[None]:
    """Registers with PyTorch, as it traces, the classes of what the model returns. strict: dynamo takes
    it or does not before a model has returned, and follows no such calls: check_assigned() has reported it."""
    if strict:
        yield
        return
    before, forward = vars(model).get("forward"), model.forward
    model.forward = functools.wraps(forward)(functools.partial(called, forward))
    hook = model.register_forward_hook(lambda _model, _args, result: tell(result))  # others may have made another of it
    try:
        yield
    finally:
        hook.remove()
        if before is None:
            del model.forward
        else:
            model.forward = before


def called(call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """What this call of a model gives, whose classes are registered with PyTorch."""
    with as_registered():
        result = call(*args, **kwargs)
    tell(result)
    return result


@contextlib.contextmanager
def registrations_kept(is_put_back: Callable[[], bool]) -> Iterator[None]:
    """What forward() registers is forgotten again where what it has set is put back: it may ask that whether it has
    registered a class. Within this export it stands on."""
    known = REGISTERED.get()
    before, nameless = known.users() if known is not None else set(), _nameless()
    try:
        yield
    finally:
        if known is not None and (made := known.users() - before) and is_put_back():
            for kind in made:
                known.adopt(kind)
            _set_nameless(nameless)


def _made_apart(entry: Entry) -> Entry:
    """The same, whose objects are made as in forward(): a class may register itself where one is."""
    made = entry.node.unflatten_fn
    if isinstance(made, functools.partial) and made.func is _apart:
        return entry
    return entry._replace(node=entry.node._replace(unflatten_fn=functools.partial(_apart, made)))


def _apart(make: Any, values: Any, context: Any) -> Any:
    with as_registered():
        return make(values, context)


def _with_places(flatten: Any, value: Any) -> tuple[list[Any], Any]:
    parts, context = flatten(value)
    return [(pytree.SequenceKey(place), part) for place, part in enumerate(parts)], context


def _registered(kind: type) -> Entry | None:
    node = pytree.SUPPORTED_NODES.get(kind)
    return None if node is None else Entry(node, pytree.SUPPORTED_SERIALIZED_TYPES.get(kind))


def _register(kind: type, entry: Entry | None) -> None:
    """Has PyTorch know this of a class; None: nothing."""
    types = pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE
    with pytree._NODE_REGISTRY_LOCK:
        named = pytree.SUPPORTED_SERIALIZED_TYPES.get(kind)
        name = pytree.NO_SERIALIZED_TYPE_NAME_FOUND if named is None else named.serialized_type_name
        if name != pytree.NO_SERIALIZED_TYPE_NAME_FOUND and types.get(name) is kind:
            del types[name]
        if entry is None:
            pytree.SUPPORTED_NODES.pop(kind, None)
            pytree.SUPPORTED_SERIALIZED_TYPES.pop(kind, None)
            return
        pytree.SUPPORTED_NODES[kind] = entry.node
        if entry.named is not None:
            pytree.SUPPORTED_SERIALIZED_TYPES[kind] = entry.named
            if entry.named.serialized_type_name != pytree.NO_SERIALIZED_TYPE_NAME_FOUND:
                types.setdefault(entry.named.serialized_type_name, kind)


def _nameless() -> type | None:
    """Of all classes without a name in files PyTorch knows one by that."""
    return pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE.get(pytree.NO_SERIALIZED_TYPE_NAME_FOUND)


def _set_nameless(kind: type | None) -> None:
    pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE.pop(pytree.NO_SERIALIZED_TYPE_NAME_FOUND, None)
    if kind is not None:
        pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE[pytree.NO_SERIALIZED_TYPE_NAME_FOUND] = kind


def _forget(kind: type) -> None:
    """Has PyTorch know nothing of a class that was registered for all of its trees."""
    _register(kind, None)
    pending = pytree._cxx_pytree_pending_imports
    pending[:] = [one for one in pending if one[0][0] is not kind]
    if pytree._cxx_pytree_imported:
        torch.utils._cxx_pytree.optree.unregister_pytree_node(kind, namespace="torch")
