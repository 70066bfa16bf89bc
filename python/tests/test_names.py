"""Weights whose names PyTorch's own module has, or Python's grammar: exported under these names, from a module and a program."""

from __future__ import annotations

import copy
from typing import Any

import npusim
import numpy as np
import pytest

torch = pytest.importorskip("torch")

# Of a module that PyTorch makes of a program; of Python; of neither.
OWN = ["code", "graph", "meta", "recompile", "print_readable", "_graph", "_code", "to_folder", "delete_submodule"]
OWN += ["_in_spec", "_out_spec", "validate_inputs", "_guards_fn"]
WORDS = ["in", "class", "None", "from", "lambda"]
OTHERS = ["code_", "in_", "a b", "x", "plain"]


class Named(torch.nn.Module):
    """A buffer that is read, one that is written, a parameter and two modules of a name, one of them deeper."""

    def __init__(self, names: list[str], kind: str) -> None:
        super().__init__()
        self.names, self.kind = names, kind
        self.inner = torch.nn.ModuleDict({f"n{i}": torch.nn.Module() for i in range(len(names))})
        for i, name in enumerate(names):
            value = torch.arange(3.0) + i
            at = self.inner[f"n{i}"] if kind == "deep" else self
            if kind == "module":
                self.add_module(name, torch.nn.Linear(3, 3))
            elif kind == "parameter":
                self.register_parameter(name, torch.nn.Parameter(value))
            else:
                at.register_buffer(name, value)

    def forward(self, x: Any) -> Any:
        for i, name in enumerate(self.names):
            if self.kind == "module":
                x = self._modules[name](x)
                continue
            held = getattr(self.inner[f"n{i}"] if self.kind == "deep" else self, name)
            if self.kind == "written":
                held.add_(1)
            x = x + held * (i + 1)
        return x


@pytest.mark.parametrize("of", ["module", "strict", "program"])
@pytest.mark.parametrize("kind", ["read", "written", "parameter", "module", "deep"])
def test_names_of_weights(kind: str, of: str, tmp_path: Any) -> None:
    torch.manual_seed(0)
    model = Named([name for name in OWN + WORDS + OTHERS if not hasattr(torch.nn.Module(), name)], kind)
    eager, x = copy.deepcopy(model), torch.randn(2, 3)
    if of == "program":
        exported = npusim.export(torch.export.export(model, (x,)))
    else:
        exported = npusim.export(model, (x,), strict=of == "strict")
    assert set(exported.weights) == set(eager.state_dict())
    exported.save(tmp_path)
    session = npusim.Session(npusim.compile(exported, dtype="float32"), tmp_path / "model.safetensors")
    for _ in range(2):
        with torch.no_grad():
            assert np.allclose(session.run(x)["output"], eager(x).numpy(), atol=1e-4)


def test_an_argument_of_a_weight_s_name() -> None:
    """Both are written."""

    class Both(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("code", torch.ones(3))

        def forward(self, code: Any) -> Any:
            code.add_(1)
            self.code.add_(1)
            return code * self.code

    eager, x = Both(), torch.randn(2, 3)
    session = npusim.Session(npusim.compile(Both(), (x.clone(),), dtype="float32"))
    for _ in range(2):
        assert np.allclose(session.run(x.clone())["output"], eager(x.clone()).numpy())
