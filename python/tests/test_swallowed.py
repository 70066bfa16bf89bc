"""Models that catch: what only tracing them raises they do not take, and the answer is eager PyTorch's or there is none."""

from __future__ import annotations

import importlib.util
import inspect
import itertools
import warnings
from pathlib import Path
from types import ModuleType

import npusim
import pytest

torch = pytest.importorskip("torch")

ASKS = {
    "float": "float(t)",
    "int": "int(k)",
    "float of item": "abs(float(t.item()))",
    "branch": "(2.0 if t > 1 else -1.0)",
    "branch of item": "(2.0 if k.item() > 2 else -1.0)",
    "place": "[1.0, 2.0, 3.0, 4.0][int(k)]",
    "by another name": "C(t)",
    "largest": "float(x.abs().max())",
    "clamp": "x.clamp(max=float(t))",
    "text": "float(f'{t.item():.2f}')",
}
FOLLOWED = ("float", "int", "float of item", "largest", "clamp")  # by every run; of the others runs may end
TAKES = {
    "except": ["try: y = {}", "except: y = 9.0"],
    "except BaseException": ["try: y = {}", "except BaseException: y = 9.0"],
    "except Exception": ["try: y = {}", "except Exception: y = 9.0"],
    "except some": ["try: y = {}", "except (TypeError, ValueError, RuntimeError): y = 9.0"],
    "suppress": ["y = 9.0", "with contextlib.suppress(BaseException): y = {}"],
    "exit": ["y = 9.0", "with Takes(): y = {}"],
    "again": ["y = None", "while y is None:", "    try: y = {}", "    except Exception: y = 9.0"],
    "generator": ["def each():", "    try: yield {}", "    except: yield 9.0", "y = next(each())"],
    "raises another": ["try: y = {}", "except Exception as e: raise KeyError('other') from e"],
    "finally": ["try: y = {}", "finally: z = 1"],
}
HEAD = """import contextlib
import torch

C = float
class Takes:
    def __enter__(self): return self
    def __exit__(self, *what): return True

class Model(torch.nn.Module):
    def forward(self, x, t, k):
"""


def module_of(lines: list[str], path: Path) -> ModuleType:
    path.write_text(HEAD + "".join(f"        {line}\n" for line in [*lines, "return x * y + 1"]))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("take", TAKES)
@pytest.mark.parametrize("ask", ASKS)
def test_the_model_takes_nothing_of_the_trace(ask: str, take: str, tmp_path: Path):
    model = module_of([line.format(ASKS[ask]) for line in TAKES[take]], tmp_path / "caught.py").Model()
    values = [(torch.tensor(t), torch.tensor(k)) for t, k in itertools.product((2.75, 0.25), (3, 1))]
    x = torch.tensor([0.5, -1.25, 3.0])
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        try:
            program = npusim.compile(model, (x, *values[0]), dtype="float32")
        except npusim.UnsupportedError:
            assert ask == "text", "only a fraction's text is refused"
            return
    session = npusim.Session(program)
    for i, (t, k) in enumerate(values):
        expected = model(x, t, k)
        try:
            got = torch.tensor(next(iter(session.run(x, t, k).values())))
        except npusim.Error:
            assert i > 0 and ask not in FOLLOWED, "the run of values that the program has to follow"
            continue
        torch.testing.assert_close(got, expected)


# A warning is of the line that called npusim, whatever was called.
@pytest.mark.parametrize("call", ["export", "compile", "compile of methods", "partition"])
def test_a_warning_names_the_callers_line(call: str):
    class Branch(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1 if x.sum() > 0 else x - 1

    model, x = Branch(), torch.ones(3)
    calls = {
        "export": lambda: npusim.export(model, (x,)),
        "compile": lambda: npusim.compile(model, (x,), dtype="float32"),
        "compile of methods": lambda: npusim.compile({"f": npusim.export(model, (x,))}, dtype="float32"),
        "partition": lambda: npusim.partition(model, (x,)),
    }
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        calls[call]()
    first = inspect.getsourcelines(test_a_warning_names_the_callers_line)[1]
    made_for = [one for one in found if "made for" in str(one.message)]
    assert made_for and all(one.filename == __file__ and one.lineno > first for one in made_for)
