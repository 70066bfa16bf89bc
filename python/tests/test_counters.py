"""Numbers that are read from a buffer or an argument which forward() changes afterwards: a program is made for the example's, or
for all, and each run gives what eager PyTorch gives or ends by name."""

from __future__ import annotations

import itertools
import random
import warnings

import npusim
import pytest

torch = pytest.importorskip("torch")
from test_sizes import REFUSED
from torch import nn

READS = {
    "item": "self.n.item()",
    "int": "int(self.n)",
    "element": "int(self.at[0])",
    "list": "self.at.tolist()[0]",
    "sum": "int(self.at.sum())",
    "tensor": "self.n",
    "index": "self.at[0].item()",
    "argument": "int(t)",
}
USES = {
    "branch": "y = x + 1 if p == 0 else x - 1",
    "branch of more": "y = x * 2 if p < 2 else x * 3",
    "slice": "y = x.cumsum(0); y = y[p : p + 2] * 2",
    "ring": "self.queue[p : p + 2] = x[:2]; y = self.queue * 1",
    "head": "y = x[: p + 1].sum(0)",
    "range": "y = x\nfor _ in range(p): y = y + 1",
    "arithmetic": "y = x * p + p",
    "row": "self.queue[p] = x[0]; y = self.queue.sum(0)",
    "shape": "y = torch.zeros(int(p) + 1, 2) + x[0]",
    "truth": "y = x if p else -x",
}
WRITES = {
    "n": "self.n += 1",
    "add": "self.n.add_(1); self.at.add_(1)",
    "assigned": "self.n = self.n + 1; self.at = (self.at + 2) % 4",
    "element": "self.at[0] = (p + 2) % 4; self.n.fill_(p + 1)",
    "copy": "self.at.copy_(self.at + 1); self.n.copy_(self.at[0])",
    "argument": "t.add_(1)",
    "before": "self.n += 1; self.at += 1; self.n -= 1; self.at -= 1",
    "nothing": "pass",
}


class Counts(nn.Module):
    def __init__(self, read, use, write):
        super().__init__()
        self.register_buffer("n", torch.tensor(0))
        self.register_buffer("at", torch.tensor([0]))
        self.register_buffer("queue", torch.zeros(6, 2))
        names = {"torch": torch}
        lines = [f"p = {READS[read]}", *USES[use].split("\n"), WRITES[write], "return y"]
        exec("def forward(self, x, t):\n" + "".join(f"    {line}\n" for line in lines), names)
        self.function = names["forward"]

    def forward(self, x, t):
        return self.function(self, x, t)


def takes_a_tensor(read, use):
    """Whether eager PyTorch and its tracer take a tensor there."""
    return read != "tensor" or use in ("branch", "branch of more", "truth", "arithmetic")


ALL = [case for case in itertools.product(READS, USES, WRITES) if takes_a_tensor(*case[:2])]


@pytest.mark.parametrize("seed", range(8))
def test_numbers_of_what_changes(seed):
    for case in random.Random(seed).sample(ALL, 9):
        check(case)


def check(case):
    x, t = torch.randn(4, 2), torch.tensor(0)
    model = Counts(*case)
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        one = npusim.export(model, (x, t))
    assert int(model.n) == 0 and int(model.at) == 0, case
    session = npusim.Session(npusim.compile(one, dtype="float32"))
    for _ in range(2):  # the second time from the beginning
        eager = Counts(*case)
        for at in range(3):
            given = {info.name for info in session.program.inputs()}
            inputs = {name: value for name, value in {"x": x + at, "t": t}.items() if name in given}
            wanted = eager(x + at, t.clone())
            try:
                found = session.run(inputs)["output"]
            except npusim.Error as error:
                assert at > 0 and one.made_for and REFUSED in str(error), (case, error)
                break
            torch.testing.assert_close(torch.from_numpy(found), wanted, msg=str(case))
        session.reset_states()
