"""First values of states: a buffer's, in the dtype that the program computes in."""

from __future__ import annotations

import copy

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import npusim
from modules import CallsWithSelf

FLOATS = [torch.float16, torch.bfloat16, torch.float32]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("of", FLOATS, ids=str)
@pytest.mark.parametrize("how", ["whole", "part", "assigned"])
def test_states_of_every_dtype(of, dtype, how):
    def step(m, x):
        if how == "part":
            m.a[1:] = m.a[1:] * 0.5 + x[1:]
        elif how == "whole":
            m.a.mul_(0.5).add_(x)
        else:
            m.a = m.a * 0.5 + x
        m.n += 1
        return m.a * 2, m.n * 1

    model = CallsWithSelf(step, a=torch.full((2, 3), 1.5, dtype=of), n=torch.tensor([3]))
    eager = copy.deepcopy(model)
    exported = npusim.export(model, (torch.ones(2, 3, dtype=of),))
    session = npusim.Session(npusim.compile(exported, dtype=dtype))
    for _ in range(2):
        fresh = copy.deepcopy(eager)
        for run in range(3):
            x = torch.full((2, 3), run + 0.25, dtype=of)  # exact in all of them
            found, want = session.run(x), fresh(x)
            assert np.array_equal(found["output_0"].astype("float32"), want[0].float().numpy()), run
            assert np.array_equal(found["output_1"], want[1].numpy()), run
        session.reset_states()


def counts(m, x):
    m.a += x
    return m.a * 1


def test_first_values_that_are_no_states():
    exported = npusim.export(CallsWithSelf(counts, a=torch.ones(2, 3)), (torch.ones(2, 3),))
    program = npusim.compile(exported, dtype="float32")
    said = r"weight 'a': is the first value of a state: expected float32\[2, 3\], found float32\[6\]"
    with pytest.raises(npusim.BadInputError, match=said):
        npusim.Session(program, {"a": np.ones(6, "float32")})
    with pytest.raises(npusim.BadInputError, match=r"weight 'a': .* found int64\[2, 3\]"):
        npusim.Session(program, {"a": np.ones((2, 3), "int64")})
