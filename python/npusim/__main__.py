"""The command `npusim`: `export` is Python's, all other verbs are the command line's own (docs/cli.md)."""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from . import _core
from .errors import CLASSES, BadInputError, Error, UnsupportedError, UsageError, readable
from .parts import torch_part

EXIT_CODES = {"usage": 2, "bad_input": 3, "unsupported": 4, "device": 5, "internal": 1, "cancelled": 130}
assert EXIT_CODES.keys() == CLASSES.keys()


def load_name(where: str) -> Any:
    """What "file.py:name" names. Raises UsageError."""
    path, colon, name = where.rpartition(":")
    if not colon or not path.endswith(".py") or not name.isidentifier():
        raise UsageError(f"expected FILE.py:NAME, found '{where}'")
    if not os.path.isfile(path):
        raise UsageError(f"there is no file {path}")
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, os.path.dirname(os.path.realpath(path)))
    sys.modules[spec.name] = module
    loader = spec.loader
    _done(where, BadInputError, lambda: loader.exec_module(module))
    if not hasattr(module, name):
        raise UsageError(f"{path} has no {name}")
    return getattr(module, name)


def _done(what: str, kind: type[Error], call: Callable[[], Any]) -> Any:
    """What a call of a model's own code gives; what it raises is an error of this kind, an end of Python too."""
    try:
        return call()
    except Error:
        raise
    except (SystemExit, GeneratorExit) as error:
        raise kind(f"{what}: {type(error).__name__}: expected a result, found the end of Python ({error})") from error
    except Exception as error:
        text = str(error).strip().partition("\n\n")[0]
        raise kind(f"{what}: {type(error).__name__}: {text}") from error


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message)


class _Once(argparse.Action):
    """An option that is given at most once, as those of the other verbs."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option: str | None = None) -> None:
        given = namespace.__dict__.setdefault("given", set())
        if self.dest in given:
            parser.error(f"{'/'.join(self.option_strings)}: expected once, found twice")
        given.add(self.dest)
        setattr(namespace, self.dest, True if self.nargs == 0 else values)


def export_verb(arguments: list[str]) -> None:
    """`npusim export FILE.py:NAME -o DIR`."""
    parser = _Parser(
        prog="npusim export",
        allow_abbrev=False,
        description="A PyTorch model as IR and weights. NAME is a function that takes nothing and returns the model and "
        "its example arguments: (model, args) or (model, args, kwargs).",
    )
    parser.add_argument("source", metavar="FILE.py:NAME")
    output = "gets ir.json and model.safetensors"
    parser.add_argument("-o", "--output", action=_Once, required=True, metavar="DIR", help=output)
    strict = "trace with torch.export's strict=True"
    parser.add_argument("--strict", action=_Once, nargs=0, default=False, help=strict)
    parser.add_argument(
        "--fixed",
        action="append",
        default=[],
        metavar="KEYWORD",
        help="one of kwargs whose value is part of the program, and no input; it may decide shapes. Repeatable",
    )
    flags = parser.parse_args(arguments)
    if not flags.output:
        raise UsageError("-o/--output: expected the name of a folder, found nothing")
    folder = os.path.abspath(flags.output)  # whatever the working directory is after the model's own code
    made = _done(flags.source, BadInputError, load_name(flags.source))
    if not isinstance(made, tuple) or len(made) not in (2, 3):
        raise UsageError(
            f"{flags.source}: expected (model, args) or (model, args, kwargs), found {type(made).__name__}"
        )
    torch_export = torch_part("export")
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        how = {"strict": flags.strict, "fixed": flags.fixed}
        exported = _done(f"{flags.source}: torch.export", UnsupportedError, lambda: torch_export.export(*made, **how))
    for text in exported.notes:
        print(f"warning: {readable(text)}", file=sys.stderr)
    exported.save(folder)
    text = f"{flags.output}: {len(exported.ir['nodes'])} nodes, {len(exported.ir['weights'])} weights"
    try:
        print(_core.printable(readable(text)), flush=True)
    except OSError as error:
        sys.stdout = open(os.devnull, "w")  # what is left in it would fail once more at the end
        raise BadInputError(f"cannot write to standard output: {error.strerror}") from None


def main() -> int:
    """The command line: exit codes are those of docs/cli.md."""
    if sys.argv[1:2] == ["export"]:
        try:
            export_verb(sys.argv[2:])
        except Error as error:
            for problem in error.problems:
                print(f"error: {problem}", file=sys.stderr)
            return EXIT_CODES[error.kind]
        except KeyboardInterrupt:
            return EXIT_CODES["cancelled"]
        return 0
    binary = Path(__file__).parent / "bin" / "npusim"
    if not binary.exists():
        print(f"error: there is no {binary}: this npusim is no installed one", file=sys.stderr)
        return 1
    sys.stdout.flush()
    os.execv(binary, [str(binary), *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
