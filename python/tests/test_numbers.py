"""Numbers that a program reads from tensors of its own, and calls that are mapped."""

import math
import warnings

import npusim
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from modules import CallsWithSelf

X = torch.linspace(-2, 2, 12).reshape(3, 4)


def check(function, *args):
    model = CallsWithSelf(function)
    exported = npusim.export(model, args)
    found = npusim.Session(npusim.compile(exported, dtype="float32")).run(*args)["output"]
    assert np.allclose(found, model(*args).numpy(), rtol=1e-5, atol=1e-6)
    return exported


def of_a_range(m, x):
    return x.repeat(torch.arange(5).max() + 1, 1)


def of_a_constant(m, x):
    height, width = torch.tensor([[2, 3], [4, 5]])[1].tolist()
    return torch.nn.functional.interpolate(x[None, None], (height, width), mode="bilinear") * (height * width)


def of_a_view(m, x):
    sizes = torch.tensor([1, 2])
    return torch.cat([part.sum(0, keepdim=True) for part in x.split(sizes.detach().tolist())])


NAMES = {0: 2.0, 1: 3.0, 2: 5.0, True: 7.0}
PLACES = torch.tensor([0, 2])


def keys(m, x):
    return sum(NAMES[place.item()] * x[place] for place in PLACES)


def keys_computed(m, x):
    return x * NAMES.get(torch.arange(3).max().item() - 1, 0.5) + len({place.item() + 1 for place in PLACES})


def members(m, x):
    return torch.stack([x[place] for place in PLACES if place.item() in {1, 2}])


def keys_in_tuples(m, x):
    last = PLACES[-1].item()
    return x * {(2, "a"): 0.5, (3, "a"): 0.25}[last, "a"]


@pytest.mark.parametrize("function", [of_a_range, of_a_constant, of_a_view, keys, keys_computed, members, keys_in_tuples])
def test_numbers_of_the_program_s_own_tensors(function):
    exported = check(function, X)
    assert not [node for node in exported.ir["nodes"] if "item" in node["op_type"]]


def test_the_program_that_is_given_stays_as_it_is():
    program = torch.export.export(CallsWithSelf(of_a_range), (X,))
    before = str(program.graph)
    npusim.export(program)
    assert str(program.graph) == before


def of_an_input(m, x, n):
    return x.repeat(n.max(), 1)


def of_a_buffer(m, x, n):
    return x.repeat(m.count.max(), 1)


def test_sizes_are_no_keys():
    """Libraries ask whether they are, and where not go a way that holds for every size."""

    def forward(m, x):
        rows = x[x[:, 0] > 0]
        with pytest.raises(TypeError, match="unhashable"):
            hash(rows.shape)
        return torch.zeros_like(x).index_put((x[:, 0] > 0,), rows * 2)

    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        npusim.export(CallsWithSelf(forward), (X,))


def of_a_draw(m, x, n):
    return x.repeat(torch.randint(1, 5, (3,)).max(), 1)


def of_what_changes(m, x, n):
    sizes = torch.arange(3)
    sizes[0] = n.max()
    return x.repeat(sizes.max(), 1)


def a_key_of_an_input(m, x, n):
    return x * {1: 2.0, 2: 3.0, 3: 4.0}[n.max().item()]


def a_key_of_a_buffer(m, x, n):
    return {3: x.sin, 4: x.cos}[m.count.max().item()]()


def a_key_that_is_a_truth(m, x, n):
    return x * {True: 2.0, False: 3.0}[(n.max() > 2).item()]


@pytest.mark.parametrize(
    "function",
    [of_an_input, of_a_buffer, of_what_changes, a_key_of_an_input, a_key_of_a_buffer, a_key_that_is_a_truth],
)
def test_numbers_that_something_else_decides_are_the_example_s(function):
    model, args = CallsWithSelf(function, count=torch.tensor([2, 3])), (X, torch.tensor([1, 2]))
    with pytest.warns(UserWarning, match="made for sizes"):
        exported = npusim.export(model, args)
    program = npusim.compile(exported, dtype="float32")
    assert np.array_equal(npusim.Session(program, exported.weights).run(*args)["output"], model(*args).numpy())
    other, weights = torch.tensor([1, 3]), dict(exported.weights)
    if "count" in weights:
        weights["count"] = torch.tensor([4, 3])
    with pytest.raises(npusim.BadInputError, match="an assertion does not hold"):
        npusim.Session(program, weights).run(X, other)


def test_a_number_that_is_drawn_is_the_example_s():
    with pytest.warns(UserWarning, match="made for sizes"):
        npusim.export(CallsWithSelf(of_a_draw), (X, torch.tensor([1, 2])))


def inner(m, x, y):
    return torch.vmap(lambda a, b: a * b.sum() + 1)(x, y)


def nested(m, x, y):
    return torch.vmap(torch.vmap(lambda a, b: torch.where(a > b, a, b), (None, 0)), (0, None))(x[:, 0], y[0])


def along_another(m, x, y):
    return torch.vmap(lambda a: a.softmax(0) - a[1], 1)(x)


@pytest.mark.parametrize("function", [inner, nested, along_another])
def test_mapped_calls(function):
    check(function, X, X.flip(0) / 2)


class Sized(torch.nn.Module):
    def forward(self, x, *, shapes, scale=None):
        parts = [
            torch.nn.functional.interpolate(x[None, i : i + 1], tuple(shape.tolist())).flatten()
            for i, shape in enumerate(shapes)
        ]
        return torch.cat(parts) * (1 if scale is None else scale)


def test_fixed_arguments_are_part_of_the_program():
    x, shapes, scale = torch.rand(2, 3, 4), torch.tensor([[2, 3], [4, 5]]), torch.tensor(3.0)
    model = Sized()
    exported = npusim.export(model, (x,), {"shapes": shapes, "scale": scale}, fixed=["shapes"])
    assert [tensor["name"] for tensor in exported.ir["graph_inputs"]] == ["x", "scale"]
    assert "forward" not in vars(model)
    expected = model(x, shapes=shapes, scale=scale).numpy()
    shapes.fill_(1)  # the caller's, no longer the program's
    found = npusim.Session(npusim.compile(exported, dtype="float32")).run(x, scale)["output"]
    assert np.allclose(found, expected, atol=1e-6)


def test_fixed_arguments_that_there_are_not():
    shapes = torch.tensor([[2, 3]])
    with pytest.raises(npusim.UsageError, match="no sizes"):
        npusim.export(Sized(), (torch.rand(1, 3, 4),), {"shapes": shapes}, fixed=["sizes"])
    with pytest.warns(UserWarning, match="made for sizes"):
        npusim.export(Sized(), (torch.rand(1, 3, 4),), {"shapes": shapes})


class OfKnown(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function
        self.weight = torch.nn.Parameter(torch.linspace(-1, 1, 12).reshape(3, 4))

    def forward(self, x, *, sizes):
        return self.function(self.weight, x, sizes)


def repeated(w, x, sizes):
    ends = torch.nn.functional.pad(torch.repeat_interleave(sizes[:, 0], sizes[:, 1]).cumsum(0), (1, 0))
    lengths = (ends[1:] - ends[:-1]).tolist()
    return torch.cat([part.softmax(0) for part in torch.split(x @ w, lengths)])


def chosen(w, x, sizes):
    rows = (sizes.flatten() > 1).nonzero().squeeze(1)
    table = torch.zeros_like(sizes).flatten()
    table[rows] = rows + 1
    if len(rows) > 2:
        x = x * 2
    return x[rows] + table[rows].unsqueeze(1)


def changed_before_it_is_read(w, x, sizes):
    sizes[0] += 1
    sizes.mul_(2)
    return x[: sizes[0, 0]] * sizes.sum()


def changed_after_it_is_read(w, x, sizes):
    y = x[:3, :2] * sizes
    sizes.mul_(2)
    return y + x[:3, 1:] * sizes


def of_windows(w, x, sizes):
    index = torch.nn.functional.pad(torch.arange(int(sizes[0].prod())), (1, 2), value=-100)
    ends = torch.unique_consecutive(torch.tensor([0, *sizes[:, 1].cumsum(0).tolist(), 4]))
    return x[index[index != -100]] + ends.max()


@pytest.mark.parametrize(
    "function", [repeated, chosen, changed_before_it_is_read, changed_after_it_is_read, of_windows]
)
def test_what_is_computed_of_fixed_arguments_decides_shapes(function):
    x, sizes = torch.rand(7, 3), torch.tensor([[1, 2], [2, 1], [3, 1]])
    model = OfKnown(function)
    exported = npusim.export(model, (x,), {"sizes": sizes}, fixed=["sizes"])
    found = npusim.Session(npusim.compile(exported, dtype="float32")).run(x)["output"]
    assert np.allclose(found, model(x, sizes=sizes.clone()).detach().numpy(), atol=1e-6)


def drawn(w, x, sizes):
    return x * torch.rand_like(sizes.float()).sum()


def test_what_is_drawn_is_no_part_of_the_program():
    x, sizes = torch.rand(7, 3), torch.tensor([[1, 2], [2, 1], [3, 1]])
    exported = npusim.export(OfKnown(drawn), (x,), {"sizes": sizes}, fixed=["sizes"])
    session = npusim.Session(npusim.compile(exported, dtype="float32"))
    assert not np.allclose(session.run(x)["output"], session.run(x)["output"])


def written(w, x, sizes):
    table = torch.zeros_like(sizes, dtype=torch.float32)
    table[0] = x[0, :2]
    return table + 1


def written_and_read_before(w, x, sizes):
    table = sizes.float()
    before = x[:3, :2] * table
    table[x[:, 0].argmax() % 3] = x[0, :2]
    table.mul_(2)
    return before + table, table


def added(w, x, sizes):
    return sizes.float().add_(x[:3, :2])


def written_numbers(w, x, sizes):
    table = torch.as_tensor(0.5).to(x.dtype).repeat(6, 2)
    table[torch.tensor([4, 1, 5])] = x[:3, :2]
    rows = table.view(3, 4)
    rows[1].zero_()
    return table, rows.sum(0) * sizes.sum()


@pytest.mark.parametrize("function", [written, written_and_read_before, added, written_numbers])
def test_what_is_fixed_is_traced_from_the_first_write_of_what_is_not(function):
    sizes = torch.tensor([[1, 2], [2, 1], [3, 1]])
    exported = npusim.export(OfKnown(function), (torch.rand(7, 3),), {"sizes": sizes}, fixed=["sizes"])
    session = npusim.Session(npusim.compile(exported, dtype="float32"))
    for _ in range(3):
        x = torch.rand(7, 3)
        expected = OfKnown(function)(x, sizes=sizes.clone())
        expected = expected if isinstance(expected, tuple) else (expected,)
        for found, tensor in zip(session.run(x).values(), expected, strict=True):
            assert np.allclose(found, tensor.detach().numpy(), atol=1e-6)


def written_while_another_shows_it(w, x, sizes):
    table = sizes.float()
    row = table[0]
    table.add_(x[:3, :2])
    return row


def changed_while_another_shows_it(w, x, sizes):
    shown = sizes.expand_as(x[:3, :2])
    sizes.zero_()
    return x[:3, :2] * shown


@pytest.mark.parametrize("function", [written_while_another_shows_it, changed_while_another_shows_it])
def test_writes_into_what_is_fixed_are_refused(function):
    with pytest.raises(npusim.UnsupportedError, match="computed of fixed arguments"):
        npusim.export(OfKnown(function), (torch.rand(7, 3),), {"sizes": torch.ones(3, 2).long()}, fixed=["sizes"])


# What Python computes of numbers that tensors hold, whatever the tensors' dtypes; of other values than the example's.
OF_NUMBERS = {
    "-i": lambda i, j: -i,
    "i + j": lambda i, j: i + j,
    "i - j": lambda i, j: i - j,
    "i * j": lambda i, j: i * j,
    "i * 1000000": lambda i, j: i * 1000000,
    "i // j": lambda i, j: i // j,
    "i % j": lambda i, j: i % j,
    "i / j": lambda i, j: i / j,
    "i / 3": lambda i, j: i / 3,
}
OF_INTEGERS = {
    "i & j": lambda i, j: i & j,
    "i | j": lambda i, j: i | j,
    "i & 1": lambda i, j: i & 1,
    "(i & 6) + j": lambda i, j: (i & 6) + j,
    "i & (i - 1)": lambda i, j: i & (i - 1),
}
WHOLE = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]


@pytest.mark.parametrize("dtype", [*WHOLE, torch.float32, torch.float64])
def test_numbers_are_pythons_whatever_the_dtype(dtype):
    forms = {**OF_NUMBERS, **(OF_INTEGERS if dtype in WHOLE else {})}
    ones = torch.tensor([1, -1, 3])

    def function(m, x, y):
        i, j = x.item(), y.item()
        return tuple((ones if isinstance(i, int) else ones.double()) * form(i, j) for form in forms.values())

    model = CallsWithSelf(function)
    largest = torch.iinfo(dtype).max if dtype in WHOLE else 1e30

    def pair(i, j):
        return torch.tensor(i).to(dtype), torch.tensor(j).to(dtype)

    pairs = [pair(7, 3), pair(min(largest, 10**9), min(largest, 10**9)), pair(100, 120), pair(1, 5), pair(6, 1)]
    session = npusim.Session(npusim.compile(model, pairs[0], dtype="float32"))
    for given in pairs:
        results = zip(forms, session.run(*given).values(), model(*given), strict=True)
        for name, found, wanted in results:
            if wanted.dtype.is_floating_point:
                assert np.allclose(found, wanted.numpy(), rtol=1e-6, atol=0), (name, given)
            else:
                assert np.array_equal(found, wanted.numpy()), (name, given)


def test_what_a_program_is_made_for_is_asked_of_zeros_too():
    """A value that is a constant in the example, 0 above all, keeps what the program checks before it is given."""

    def reset(m, x, p):
        m.h.zero_()
        return x * 2 if p.item() > 0 else x * 3

    functions = [
        lambda m, x, p: torch.full_like(x, p.item() - 2),
        lambda m, x, p: x.clone().fill_(p.item() - 2),
        lambda m, x, p: x.new_full((2,), p.item() - 2),
        lambda m, x, p: torch.zeros_like(x) if p.item() > 0 else torch.ones_like(x),
        lambda m, x, p: (torch.zeros_like(x), x * 2 if p.item() > 0 else x),
        lambda m, x, p: (torch.zeros_like(x), x[x > p] * 2)[0],
        reset,
    ]
    x, example, other = torch.arange(1.0, 5.0), torch.tensor(2), torch.tensor(-1)
    for function in functions:
        model = CallsWithSelf(function, h=torch.zeros(4))
        for fused in (True, False):
            exported = npusim.export(model, (x, example))
            options = {} if fused else {"disable_fusion": ["all"]}
            session = npusim.Session(npusim.compile(exported, dtype="float32", **options), exported.weights)
            wanted = model(x, example)
            wanted = wanted[0] if isinstance(wanted, tuple) else wanted
            assert np.array_equal(next(iter(session.run(x, example).values())), wanted.numpy())
            try:
                found = next(iter(session.run(x, other).values()))
            except npusim.BadInputError:
                continue
            wanted = model(x, other)
            wanted = wanted[0] if isinstance(wanted, tuple) else wanted
            assert np.array_equal(found, wanted.numpy())


def test_assertions_without_a_message():
    def function(m, x, p):
        torch._assert_async(p > 0)
        return x * 2

    session = npusim.Session(npusim.compile(CallsWithSelf(function), (X, torch.tensor(1)), dtype="float32"))
    assert np.array_equal(session.run(X, torch.tensor(3))["output"], (X * 2).numpy())
    with pytest.raises(npusim.BadInputError):
        session.run(X, torch.tensor(-1))


def whole_of(m, x, p):
    return x - int(-p.item())


def whole_of_a_product(m, x, p):
    return x * 2 if int(p.item() * 2) % 2 else x * 3


def whole_as_a_size(m, x, p):
    return torch.ones(int(p.item())).sum() * x


def whole_of_a_step(m, x, p):
    return torch.arange(0, int(torch.ceil(p / 0.5).item()), dtype=torch.float32).sum() * x


def whole_among_values(m, x, p):
    return torch.isin(x.round(), int(p.item())) * x


def real(m, x, p):
    return x * float(p.item() * 2)


def floors(m, x, p):
    return x + math.floor(p.item()) - math.ceil(p.item())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
@pytest.mark.parametrize(
    "function", [whole_of, whole_of_a_product, whole_as_a_size, whole_of_a_step, whole_among_values, real, floors]
)
def test_what_python_makes_of_a_fraction_is_checked(function, dtype):
    """A run gives what the model gives, or ends by name."""
    x, example = X.clone(), torch.tensor(2.25, dtype=dtype)
    model = CallsWithSelf(function)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session = npusim.Session(npusim.compile(npusim.export(model, (x, example)), dtype="float32"))
    assert np.allclose(session.run(x, example)["output"], model(x, example).numpy())
    right = 0
    for number in (2.0, 2.3, 2.4, 2.5, 2.75, 3.25, 7.0, 0.0, -0.5, -1.5, -2.25):
        p = torch.tensor(number, dtype=dtype)
        try:
            found = session.run(x, p)["output"]
        except npusim.BadInputError as error:
            assert "an assertion does not hold" in str(error)
            continue
        assert np.allclose(found, model(x, p).numpy(), rtol=1e-3)
        right += 1
    assert right or function is real


@pytest.mark.parametrize("beta", [0.5, 0])
@pytest.mark.parametrize("of", [(0, 1, 1), (1, 0, 1), (1, 1, 0), (2, 0, 0), (0, 2, 1)])
def test_fractions_of_whole_numbers_beside_others(of, beta):
    dtypes = [(torch.float32, torch.int64, torch.bool)[at] for at in of]
    args = [torch.tensor(v).to(d) for v, d in zip(([[0, 1], [0, 1]], [1, 3], [2, 1]), dtypes, strict=True)]
    check(lambda m, *operands: torch.addr(*operands, beta=beta, alpha=0.5), *args)
