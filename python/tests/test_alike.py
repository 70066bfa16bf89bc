"""What values decide: questions of tensors in branches, and assertions, which end a run where they do not hold."""

import npusim
import numpy as np
import pytest

torch = pytest.importorskip("torch")
from test_export import Function

X = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
REFUSED = "an assertion does not hold"


def agree(function, *args):
    """As eager PyTorch. Gives the session."""
    session = npusim.Session(npusim.compile(Function(lambda m, *given: function(*given)), args, dtype="float32"))
    expected = function(*args)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for found, value in zip(session.run(*args).values(), expected, strict=True):
        torch.testing.assert_close(torch.from_numpy(found), value, rtol=1e-4, atol=1e-5, equal_nan=True)
    return session


ASKED = {
    "equal": lambda x, y: x + 1 if torch.equal(x, y) else x - 1,
    "not equal": lambda x, y: x + 1 if not x.equal(y) else x - 1,
    "of other shapes": lambda x, y: x + 1 if torch.equal(x, y[:2]) else x - 1,
    "close": lambda x, y: x * y if torch.allclose(x, y, atol=1e-3) else x - y,
    "all true": lambda x, y: x + 1 if torch._is_all_true(x == y) else x - y,
    "any true": lambda x, y: x + 1 if torch._is_any_true(x == y) else x - y,
    "complex": lambda x, y: x + 1 if torch.equal(torch.complex(x, y), torch.complex(y, x)) else x - y,
}


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool])
def test_integers_that_are_close(dtype):
    """Up to the ends of the dtype, whose differences wrap."""
    ends = torch.tensor([0, 1, 2, 5, 100, 101]) if dtype == torch.bool else torch.tensor(
        [at + by for at in (torch.iinfo(dtype).min, torch.iinfo(dtype).max, torch.iinfo(dtype).max // 2, 100) for by in
         (0, 1, -1, 7, 2000, -(2**40)) if torch.iinfo(dtype).min <= at + by <= torch.iinfo(dtype).max])
    x, y = (part.to(dtype).contiguous() for part in (ends[:, None].expand(-1, len(ends)), ends[None].expand(len(ends), -1)))
    for rtol, atol in ((1e-5, 1e-8), (0, 0), (0, 8), (0.3, 0), (1e-12, 0.5)):
        agree(lambda a, b: torch.isclose(a, b, rtol, atol), x, y)


@pytest.mark.filterwarnings("ignore:the program is made for")
@pytest.mark.parametrize("kind", ASKED)
def test_a_branch_holds_for_what_it_asked(kind):
    """The branch of the example is checked: values that ask for the other one end the run."""
    for other in (X.clone(), X + 1):
        session = agree(ASKED[kind], X, other)
        again = X.clone() if torch.equal(X, other) else X + 1
        session.run(X, again)
        if kind != "of other shapes":
            with pytest.raises(npusim.BadInputError, match=REFUSED):
                session.run(X, X + 1 if torch.equal(X, other) else X.clone())


@pytest.mark.filterwarnings("ignore")
def test_covariances():
    weights, counts = torch.rand(4), torch.tensor([1, 2, 1, 3])
    z = lambda x: torch.complex(x, x.flip(0))
    agree(lambda x: (torch.cov(x), torch.corrcoef(x), torch.cov(x[0]), torch.cov(x, correction=0), torch.corrcoef(x[1])), X)
    agree(lambda x, w: (x.cov(aweights=w), torch.cov(x, fweights=counts), torch.cov(x, fweights=counts, aweights=w)), X, weights)
    agree(lambda x: (torch.view_as_real(torch.cov(z(x))), torch.view_as_real(torch.corrcoef(z(x)))), X)
    agree(lambda x: torch.cov(x[:, :1]), X)
    session = agree(lambda x, w: x.cov(aweights=w), X, weights)
    with pytest.raises(npusim.BadInputError, match="cov_aweights_cannot_be_negative"):
        session.run(X, weights - 2)


D = torch.distributions
DISTRIBUTIONS = {
    "normal": (lambda x, p: D.Normal(x, p + 0.5).log_prob(x * 2), -1.0),
    "categorical": (lambda x, p: D.Categorical(probs=p + 0.1).log_prob(torch.tensor([1, 2, 3])), float("nan")),
    "bernoulli": (lambda x, p: D.Bernoulli(probs=p).log_prob((x > 0).float()), 2.0),
    "beta": (lambda x, p: D.Beta(p + 1, p + 2).log_prob(x.sigmoid()), -3.0),
    "divergence": (lambda x, p: D.kl_divergence(D.Normal(x, p + 1), D.Normal(0.0, 1.0)), -3.0),
    "independent": (lambda x, p: D.Independent(D.Normal(x, p + 1), 1).log_prob(x), -3.0),
    "exponential": (lambda x, p: D.Exponential(p + 0.1).log_prob(x.abs()), -3.0),
    "of what is no value": (lambda x, p: D.Uniform(torch.zeros(4), torch.ones(4) * 2).log_prob(p), 9.0),
}


@pytest.mark.parametrize("kind", DISTRIBUTIONS)
def test_distributions_validate(kind):
    """What torch.distributions checks holds in each run, not only in the example's."""
    D.Distribution.set_default_validate_args(True)  # dynamo, in another test, turns it off
    function, bad = DISTRIBUTIONS[kind]
    good = torch.rand(3, 4)
    session = agree(function, X, good)
    with pytest.raises(npusim.BadInputError, match="Expected_.*_distribution.*" + REFUSED):
        session.run(X, torch.full_like(good, bad))
    session.run(X, good)


def test_an_assertion_of_the_model():
    def forward(x):
        torch._assert_async((x < 10).all(), "numbers are small")
        return x * 2, x.sum()

    session = agree(forward, X)
    with pytest.raises(npusim.BadInputError, match="numbers_are_small"):
        session.run(X + 10)


def test_under_torch_compile():
    """An assertion that does not hold is eager PyTorch's to tell."""
    torch.compiler.reset()


    def forward(x):
        torch._assert_async((x < 10).all(), "numbers are small")
        return x * 2

    run = torch.compile(forward, backend="npusim")
    with torch.no_grad():
        torch.testing.assert_close(run(X), X * 2)
        with pytest.raises(RuntimeError, match="numbers are small"):
            run(X + 10)


@pytest.mark.parametrize(
    "function",
    [
        torch.vmap(torch.vmap(lambda v: v * 2 + 1)),
        torch.vmap(torch.vmap(torch.vmap(lambda v: v**2 / 3 + True))),
        lambda x: torch.vmap(torch.vmap(lambda a, b: a * b.sum() + 3.5, in_dims=(0, None)), in_dims=(0, None))(x, x),
        torch.vmap(torch.vmap(lambda v: torch.where(v > 0, v, 0.5).clamp(max=1.0) / 2)),
    ],
)
def test_vmap_in_vmap(function):
    agree(function, X[None])


def _writes_number(row):
    y = row.clone()
    y[0] = y[0] + 1
    y[1] = 5
    y[-1] = TEN
    return y


def _writes_rows(row):
    y = row.clone()
    y[1:3] = row[:2]
    y[3:] = row[0]
    row.flip(0).copy_(y)
    return y + row


def _fills_both(row):
    y, z, double = row.clone(), row.clone(), row * 2
    y.copy_(double)
    z.copy_(double)
    return y.add_(1) + z


def _converts(row):
    y = row.clone()
    y[0] = (row * 9).long()[1]
    y[1:3] = row.double()[:1]
    return y


def _writes_diagonal(row):
    y = torch.zeros(3, 3) + row[0]
    y.fill_diagonal_(2.0)
    y[0].copy_(row[1])
    return y


def _writes_turned(row):
    y = row[:4].reshape(2, 2).clone()
    y.t().masked_fill_(y > 0, 0.0)
    return y.view(-1)


TEN = torch.tensor(10.0)
WRITING = [_writes_number, _writes_rows, _fills_both, _converts, _writes_diagonal, _writes_turned]


@pytest.mark.parametrize("function", WRITING, ids=lambda function: function.__name__)
def test_writes_in_vmap(function):
    agree(lambda x: torch.vmap(function)(x.clone()), torch.randn(3, 5))
    if function is not _writes_rows:  # which torch.export does not trace in two
        agree(lambda x: torch.vmap(torch.vmap(function))(x.clone()), torch.randn(2, 3, 5))


def test_vmap_fills_arguments_alike():
    def forward(a, b, x):
        def fill(a, b, row):
            double = row * 2
            return a.copy_(double) + b.copy_(double)

        return torch.vmap(fill)(a.clone(), b.clone(), x)

    agree(forward, *torch.randn(3, 3, 5).unbind())


@pytest.mark.parametrize("dims", [(1, 0), (-1, 1), (0, -2), (None, 1)])
def test_vmap_puts_its_dimension_where_it_is_told(dims):
    def of_row(row):
        return (TEN if dims[0] is None else row.cumsum(0)), row.outer(row).sin()

    agree(lambda x: torch.vmap(of_row, out_dims=dims)(x), torch.randn(3, 5))
    agree(lambda x: torch.vmap(lambda y: torch.vmap(torch.sin, out_dims=1)(y) * 2, out_dims=-1)(x), torch.randn(2, 3, 5))
    agree(lambda x: torch.vmap(torch.sum, in_dims=-1, out_dims=0)(x), torch.randn(3, 5))


B = torch.nn.Parameter(torch.randn(6, 4))


@pytest.mark.parametrize(
    "product",
    [
        lambda u: B @ u,
        lambda u: u @ B.t(),
        lambda u: torch.nn.functional.linear(u, B, B[:, 0]),
        lambda u: torch.einsum("ij,j->i", B, u),
    ],
)
def test_products_in_vmap(product):
    agree(torch.vmap(torch.vmap(product)), torch.randn(2, 5, 4))
    agree(torch.vmap(torch.vmap(torch.vmap(product))), torch.randn(2, 3, 5, 4))


def test_constants_that_nobody_reads():
    constant = torch.randn(6, 4)

    def forward(x):
        constant.sum()
        constant.t().exp()
        torch._check(constant.abs().max().item() >= 0)
        return x + 1

    agree(forward, X)


def test_indices_from_the_end():
    places = torch.tensor([[-1, 0], [1, -4], [0, 3]])
    agree(lambda x, i: (torch.take_along_dim(x, i, 1), torch.take_along_dim(x, i[:, :1], -1)), X, places)
    agree(lambda x, i: torch.take_along_dim(x[:1], i[:2] % 2 - 1, 0), X[:, :2], places)
    session = agree(lambda x, i: torch.take_along_dim(x, i, 1), X, places)
    found = session.run(X, places - 1)["output"]  # which go around
    assert np.array_equal(found, torch.take_along_dim(X, places - 1, 1).numpy())
    session = agree(lambda x, i: torch.take_along_dim(x, i), X, places.abs())
    for outside in (places, places + X.numel()):  # of all elements none goes around
        with pytest.raises(npusim.BadInputError, match="index"):
            session.run(X, outside)


NUMBERS = [0.0, -0.0, 1.0, -1.5, 3.14159, 1e-42, -3e-45, 1e38, float("inf"), float("-inf"), 65504.0, 6e-5, -7e-8]


@pytest.mark.parametrize(
    "dtype,whole",
    [(torch.float32, torch.int32), (torch.float64, torch.int64), (torch.float16, torch.int16), (torch.bfloat16, torch.int16)],
    ids=str,
)
def test_memory_in_another_dtype(dtype, whole):
    """view(dtype) of one size: every bit but the payload of a NaN."""
    x = torch.cat([torch.tensor(NUMBERS), torch.randn(100) * 10 ** torch.randn(100)]).to(dtype)
    bits = x.view(whole)
    agree(lambda x: (x.view(whole), x.view(whole).view(dtype).double(), x.view(dtype).double() * 2), x)
    agree(lambda i: (i.view(dtype).double(), i.view(whole) + 1), bits)
    agree(lambda i: (i.view(torch.uint8), i.view(torch.int8)), torch.arange(256).to(torch.uint8))


BYTES = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64)


@pytest.mark.parametrize("dtype", BYTES, ids=str)
def test_memory_in_another_dtype_of_any_size(dtype):
    """The last dimension has more elements or fewer, the lowest bytes first."""
    x = torch.randint(0, 256, (3, 16), dtype=torch.uint8).view(dtype)
    x = x.nan_to_num() if dtype.is_floating_point else x
    others = [other for other in BYTES if other.is_floating_point]
    agree(lambda x: tuple(x.view(other) for other in BYTES if not other.is_floating_point), x)
    agree(lambda x: tuple(x.view(other).double() for other in others), x)


@pytest.mark.parametrize("strides", [(3, 1), (1, 4)], ids=str)
def test_strides_of_a_reshaped_alias(strides):
    """PyTorch's functionalisation drops them."""
    alias = torch.ops.aten._reshape_alias

    def written(x):
        y = x + 1
        alias(y, [4, 3], strides).mul_(torch.arange(3))
        return y

    for call in (lambda x: alias(x, [4, 3], strides) + 1, lambda x: alias(x.t() * 2, [4, 3], (1, 4)), written):
        x = torch.arange(12.0).reshape(3, 4)
        agree(call, x)
        with torch.no_grad():
            assert torch.equal(torch.compile(call, backend="npusim")(x), call(x))


def test_an_inverse_root_by_bits():
    def forward(x):
        y = (0x5F3759DF - (x.view(torch.int32) >> 1)).view(torch.float32)
        return y * (1.5 - 0.5 * x * y * y)

    agree(forward, X.abs() + 0.1)
