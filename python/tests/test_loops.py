"""while_loop: as many iterations as with the example, and a run whose values ask for others fails by name."""

import re
import warnings

import npusim
import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch._higher_order_ops import while_loop

REFUSED = "an assertion does not hold"


class Model(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.function = function

    def forward(self, *inputs):
        return self.function(self.linear, *inputs)


def check(function, example, *others, refused=(), iterations=(), dtype="float32"):
    """What is compiled gives eager's results for the example and for others, and refuses those with other iterations."""
    torch.manual_seed(0)
    model = Model(function).eval()
    for strict in (False, True):
        with warnings.catch_warnings(action="ignore"):
            exported = npusim.export(model, example, strict=strict)
        found = sorted(int(number) for made in exported.made_for for number in re.findall(r"(\d+) iterations", made))
        assert found == sorted(iterations) and len(exported.made_for) == len(found)
        session = npusim.Session(npusim.compile(exported, dtype=dtype))
        for given in (example, *others):
            with torch.no_grad():
                expected = torch.utils._pytree.tree_leaves(model(*given))
            results = session.run(*given)
            for one, other in zip(results.values(), expected, strict=True):
                assert one.shape == tuple(other.shape) and one.dtype == other.numpy().dtype
                np.testing.assert_allclose(one, other.numpy(), rtol=1e-5, atol=1e-5)
        for given in refused:
            with pytest.raises(npusim.Error, match=REFUSED):
                session.run(*given)


X = torch.tensor([[0.5, 1.0, -1.0, 2.0], [0.1, 0.2, 0.3, 0.4]])


def doubled(linear, x):
    return while_loop(lambda x: x.abs().sum() < 20, lambda x: (x * 2,), (x,))[0]


def newton(linear, x):
    """A root by Newton's method, until it is found, and how many steps it took."""

    def body(n, y):
        return n + 1, y - (y * y - x) / (2 * y)

    return while_loop(
        lambda n, y: ((y * y - x).abs() > 1e-4).any(), body, (torch.zeros((), dtype=torch.int64), x.clone())
    )


def nested(linear, x):
    def body(x):
        return (while_loop(lambda v: v.sum() < 3, lambda v: (v + 1,), (x - 0.1,))[0] * 2,)

    return linear(while_loop(lambda x: x.sum() < 40, body, (x,))[0])


def counted(linear, x):
    zero = torch.tensor(0)
    return while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, linear(x) * 0.5), (zero, x))


def counted_by_numbers(linear, x):
    return while_loop(lambda i, x: i < 4, lambda i, x: (i + 1, x * 0.5 + i), (0, x))[1]


def with_a_branch(linear, x):
    def body(x):
        return (torch.cond(x.sum() > 5, lambda x: x * 1.5, lambda x: x + 1, (x,)),)

    return while_loop(lambda x: x.sum() < 30, body, (x,))[0]


def two(linear, x, y):
    return doubled(linear, x) + while_loop(lambda y: y.max() < 5, lambda y: (y + 1,), (y,))[0]


def test_iterations_are_the_examples():
    check(doubled, (X,), (X * 1.01,), (-X,), refused=((X * 3,), (X * 0.2,)), iterations=[2])
    check(doubled, (X * 30,), (X * 40,), refused=((X,),), iterations=[0])
    check(newton, (X.abs() + 2,), refused=((X.abs() * 1e6,),), iterations=[4])
    check(two, (X, X + 0), refused=((X, X - 1), (X * 3, X)), iterations=[2, 3])


def test_loops_in_loops_and_branches_in_them():
    check(nested, (X,), iterations=[0, 1, 2], refused=((X * 9,),))
    check(with_a_branch, (X,), iterations=[4], refused=((X + 3,),))


def test_iterations_that_are_always_the_same_are_no_warning():
    check(counted, (X,), (X * 100,))
    check(counted_by_numbers, (X,), (X - 100,))


def test_a_warning_says_how_many():
    with pytest.warns(UserWarning, match=r"while_loop \(while_loop\): 2 iterations"):
        npusim.export(Model(doubled).eval(), (X,))


def test_what_is_refused():
    with pytest.raises(npusim.UnsupportedError, match="more than 1000 iterations"):
        npusim.export(Model(lambda _, x: while_loop(lambda x: x.sum() < 1e9, lambda x: (x + 1e-3,), (x,))[0]), (X,))

    def in_a_branch(linear, x):
        return torch.cond(x.sum() > 0, lambda x: doubled(linear, x), lambda x: x + 1, (x,))

    with pytest.raises(npusim.UnsupportedError, match="as often as values say"):
        npusim.export(Model(in_a_branch), (X,))
