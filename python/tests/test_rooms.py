"""The package keeps the order of its rooms (npusim/torch/__init__.py): no import runs against it, and none in a circle."""

import ast
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import npusim
import pytest
from conftest import ROOT

SOURCE = ROOT / "python" / "npusim"
MOST = 30  # files of one folder


class Import(NamedTuple):
    where: str  # the line
    of: str  # module, as "npusim.torch.facts.rows"
    at_once: bool  # when the module is loaded: not in a function, nor for a checker of types


@cache
def modules() -> dict[str, Path]:
    files = sorted(SOURCE.rglob("*.py"))
    return {".".join(("npusim", *file.relative_to(SOURCE).with_suffix("").parts)): file for file in files}


@cache
def imports() -> dict[str, list[Import]]:
    """Of each module what it imports of the package; "npusim.__init__" where it imports a folder's own names."""
    return {module: list(_imports(module, ast.parse(file.read_text()), True)) for module, file in modules().items()}


def _imports(module: str, node: ast.AST, at_once: bool):
    names: list[str] = []
    if isinstance(node, ast.ImportFrom):
        folder = module.split(".")[: -node.level] if node.level else []
        base = ".".join([*folder, *([node.module] if node.module else [])])
        names = [f"{base}.{alias.name}" if _is_module(f"{base}.{alias.name}") else base for alias in node.names]
    elif isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    for name in names:
        if name.partition(".")[0] == "npusim":
            found = name if name in modules() or name == "npusim._core" else f"{name}.__init__"
            yield Import(f"{modules()[module].relative_to(SOURCE)}:{node.lineno}", found, at_once)
    later = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
    later = later or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test))
    for child in ast.iter_child_nodes(node):
        yield from _imports(module, child, at_once and not later)


def _is_module(name: str) -> bool:
    return name == "npusim._core" or name in modules() or f"{name}.__init__" in modules()


def rooms() -> list[str]:
    """In their order: the package without PyTorch, its rooms with it, what is called from outside, and names for users."""
    said = ast.get_docstring(ast.parse((SOURCE / "torch" / "__init__.py").read_text())) or ""
    (listed,) = re.findall(r"^    (\w+(?:, \w+)+)$", said, re.MULTILINE)
    return ["npusim", *(f"npusim.torch.{room}" for room in listed.split(", ")), "npusim.torch", "for users"]


def room_of(module: str) -> str:
    if module in ("npusim.__init__", "npusim.__main__", "npusim.torch_compile"):
        return "for users"
    return module.rpartition(".")[0]


def test_every_room_has_its_place():
    assert {room_of(module) for module in modules()} == set(rooms())


def test_no_import_runs_against_the_order():
    order = rooms()
    against = [
        f"{one.where}: {one.of}"
        for module, found in imports().items()
        for one in found
        if order.index(room_of(one.of)) > order.index(room_of(module))
    ]
    assert not against


def test_no_circle_of_modules():
    below: dict[str, bool] = {}  # modules that were looked at; False: what they import is not done yet

    def visit(module: str, way: tuple[str, ...]) -> None:
        assert below.get(module) is not False, " → ".join((*way[way.index(module) :], module))
        if module in modules() and module not in below:
            below[module] = False
            for one in imports()[module]:
                if one.at_once:
                    visit(one.of, (*way, module))
            below[module] = True

    for module in modules():
        visit(module, ())


@pytest.mark.parametrize("folder", sorted({file.parent for file in modules().values()}), ids=lambda folder: folder.name)
def test_a_folder_is_seen_at_a_glance(folder):
    assert len([file for file in folder.iterdir() if file.is_file()]) <= MOST


def test_a_file_in_a_folder_is_npusims_own():
    """Lines of a model are told from the package's by its folder."""
    pytest.importorskip("torch")
    from npusim.torch.facts.messages import is_of_a_library
    from npusim.torch.passes import sizes
    from npusim.torch.tracing.seeds import OUR_OWN

    assert is_of_a_library(npusim.__file__) and npusim.__file__.startswith(OUR_OWN)
    assert is_of_a_library(sizes.__file__) and sizes.__file__.startswith(OUR_OWN)
    assert not is_of_a_library(__file__) and not __file__.startswith(OUR_OWN)
