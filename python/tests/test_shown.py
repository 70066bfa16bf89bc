"""What operators give back that are their operand or views of it, and whose schema does not say so: writes before and
through them, of buffers and arguments, over several runs."""

from __future__ import annotations

import copy
import io

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import npusim

F = torch.nn.functional
THREE, TWO = torch.zeros(3), torch.ones(2)
OPERATORS = {
    "type_as": lambda t: t.type_as(THREE),
    "type_as of a view": lambda t: t[1:].type_as(THREE),
    "broadcast_tensors": lambda t: torch.broadcast_tensors(t, torch.zeros(2, 3))[0],
    "broadcast_tensors of one shape": lambda t: torch.broadcast_tensors(t, THREE)[0],
    "meshgrid": lambda t: torch.meshgrid(t, TWO, indexing="ij")[0],
    "meshgrid, columns first": lambda t: torch.meshgrid(t, TWO, indexing="xy")[0],
    "meshgrid of one": lambda t: torch.meshgrid(t, indexing="ij")[0],
    "atleast_1d": lambda t: torch.atleast_1d([t, t * 1])[0],
    "atleast_2d": lambda t: torch.atleast_2d([t, t * 1])[0],
    "atleast_3d": lambda t: torch.atleast_3d([t, t * 1])[0],
    "unsafe_chunk": lambda t: t.unsafe_chunk(2)[0],
    "unsafe_split": lambda t: t.unsafe_split(2)[1],
    "unsafe_split_with_sizes": lambda t: t.unsafe_split_with_sizes([1, 2])[1],
    "_cast_Float": lambda t: torch._cast_Float(t),
    "dropout": lambda t: F.dropout(t, 0.5, False),
    "alpha_dropout": lambda t: F.alpha_dropout(t, 0.3, False),
    "Normal": lambda t: torch.distributions.Normal(t, torch.ones(3)).loc,
    "contiguous": lambda t: t.contiguous(),
    "twice": lambda t: torch.broadcast_tensors(t.type_as(THREE), THREE)[0].type_as(THREE)[1:],
}


class Written(torch.nn.Module):
    def __init__(self, operator, how: str) -> None:
        super().__init__()
        self.operator, self.how = operator, how
        self.register_buffer("b", torch.arange(3.0) + 1)

    def forward(self, x):
        t = self.operator(self.b if "buffer" in self.how else x)
        if self.how == "buffer":
            self.b.add_(1)
        elif self.how == "argument":
            x.mul_(2)
        else:
            t.select(-1, 0).mul_(3)
        return t * 1, self.b * 1, x * 1


EXPANDED = {"broadcast_tensors", "meshgrid, columns first"}  # where what is written through them is refused
HOWS = ["buffer", "through it, a buffer", "argument", "through it, an argument"]


def read_from_a_file(program):
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    return torch.export.load(file)


@pytest.mark.parametrize(("how", "read"), [*((how, False) for how in HOWS), (HOWS[0], True), (HOWS[3], True)])
@pytest.mark.parametrize("name", OPERATORS)
def test_writes_beside_what_shows_memory(name, how, read):
    model = Written(OPERATORS[name], how).eval()
    eager = copy.deepcopy(model)
    given = (torch.ones(3),)
    exported = (read_from_a_file(torch.export.export(model, given)),) if read else (model, given)
    if "through" in how and name in EXPANDED:
        with pytest.raises(npusim.UnsupportedError, match="view that shows an element more than once"):
            npusim.compile(*exported, dtype="float32")
        return
    session = npusim.Session(npusim.compile(*exported, dtype="float32"))
    for run in range(3):
        x = torch.arange(3.0) + run
        changed = x.clone()
        wanted, found = eager(changed), session.run(x)
        for i, value in enumerate(wanted):
            np.testing.assert_array_equal(found[f"output_{i}"], value.numpy(), f"run {run}")
        if not torch.equal(changed, x):
            np.testing.assert_array_equal(found["x_next"], changed.numpy(), f"run {run}")
