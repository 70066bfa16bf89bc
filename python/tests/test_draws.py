"""Models that draw random numbers: what they draw, by which seed, and that they are exported and compiled whole."""

import npusim
import numpy as np
import pytest
from test_export import Function

torch = pytest.importorskip("torch")
import npusim.torch_compile
from torch import nn
from torch.nn import functional as F

MASK = 2**32 - 1


def words(seed, call, count):
    """Philox4x32-10 of `count` elements of the generator's n-th call: uint64[4, count]."""
    element = np.arange(count, dtype=np.uint64)
    counter = [np.full(count, call & MASK, np.uint64), np.full(count, call >> 32, np.uint64), element, 0 * element]
    key = [seed & MASK, seed >> 32]
    for turn in range(10):
        if turn:
            key = [(key[0] + 0x9E3779B9) & MASK, (key[1] + 0xBB67AE85) & MASK]
        a, b = counter[0] * np.uint64(0xD2511F53), counter[2] * np.uint64(0xCD9E8D57)
        high, low, k = np.uint64(32), np.uint64(MASK), [np.uint64(x) for x in key]
        counter = [(b >> high) ^ counter[1] ^ k[0], b & low, (a >> high) ^ counter[3] ^ k[1], a & low]
    return np.stack(counter)


def uniform(seed, call, count, word=0):
    return words(seed, call, count)[word].astype("float32") * np.float32(2**-32) + np.float32(2**-33)


def normal(seed, call, count):
    u, v = (uniform(seed, call, count, word).astype("float64") for word in (0, 1))
    return np.sqrt(-2 * np.log(u)) * np.sin(2 * np.pi * v)


def session(function, *args):
    exported = npusim.export(Function(function), args)
    return npusim.Session(npusim.compile(exported, dtype="float32"))


def only(found):
    (value,) = found.values()
    return value


def test_no_generator_is_the_session_s():
    x = torch.zeros(3, 4)
    run = session(lambda m, x: x + torch.randn(3, 4, generator=None) + torch.randint(2, 9, (3, 4), generator=None), x)
    plain = session(lambda m, x: x + torch.randn(3, 4) + torch.randint(2, 9, (3, 4)), x)
    assert np.array_equal(only(run.run(x)), only(plain.run(x)))


def test_noise_is_drawn_by_the_seed_and_goes_on():
    x = torch.zeros(3, 4)
    run = session(lambda m, x: x + torch.randn(3, 4), x)
    first = only(run.run(x))
    assert np.allclose(first.reshape(-1), normal(0, 0, 12), rtol=1e-5, atol=1e-6)
    assert np.allclose(only(run.run(x)).reshape(-1), normal(0, 1, 12), rtol=1e-5, atol=1e-6)
    run.seed(2**63 + 7)
    assert np.allclose(only(run.run(x)).reshape(-1), normal(2**63 + 7, 0, 12), rtol=1e-5, atol=1e-6)
    run.seed(0)
    assert np.array_equal(only(run.run(x)), first)
    with pytest.raises(npusim.UsageError):
        run.seed(-1)


def test_uniform_numbers_and_coins_are_exact():
    x = torch.zeros(50)
    run = session(lambda m, x: (torch.rand_like(x), torch.bernoulli(x + 0.3), F.dropout(x + 1, 0.25, True)), x)
    run.seed(9)
    flat, coins, dropped = run.run(x).values()
    assert np.array_equal(flat, uniform(9, 0, 50))
    assert np.array_equal(coins, uniform(9, 1, 50) <= np.float32(0.3))
    assert np.array_equal(dropped != 0, uniform(9, 2, 50) <= 0.75)
    assert np.allclose(dropped[dropped != 0], 4 / 3)


class Variational(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(6, 8), nn.Linear(4, 6)

    def forward(self, x):
        mean, log_variance = self.encoder(x).chunk(2, -1)
        z = mean + torch.exp(0.5 * log_variance) * torch.randn_like(mean)
        return self.decoder(z), mean, log_variance


def test_a_variational_autoencoder():
    torch.manual_seed(1)
    model, x = Variational(), torch.randn(5, 6)
    run = npusim.Session(npusim.compile(npusim.export(model, (x,)), dtype="float32"))
    run.seed(3)
    found, mean, log_variance = run.run(x).values()
    noise = torch.from_numpy(normal(3, 0, 20).reshape(5, 4)).float()
    with torch.no_grad():
        expected = model.decoder(torch.from_numpy(mean) + torch.exp(0.5 * torch.from_numpy(log_variance)) * noise)
    assert np.allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_distributions_and_choices():
    def function(m, logits):
        choice = F.gumbel_softmax(logits, hard=True)
        sample = torch.distributions.Normal(logits, 0.5, validate_args=False).rsample()
        return choice, sample, torch.multinomial(logits.softmax(-1), 1), torch.randperm(6), torch.randint(3, 8, (4,))

    logits = torch.tensor([[0.0, 2.0, -1.0]]).repeat(4000, 1)
    run = session(function, logits)
    run.seed(4)
    choice, sample, index, order, whole = run.run(logits).values()
    chances = logits[0].softmax(-1).numpy()
    for share in (choice.mean(0), np.bincount(index[:, 0], minlength=3) / 4000):
        assert np.abs(share - chances).max() < 5 * 0.5 / 4000**0.5
    deviation = (sample - logits.numpy()) / 0.5
    assert abs(deviation.mean()) < 0.05 and abs(deviation.std() - 1) < 0.05
    assert sorted(order) == list(range(6)) and whole.min() >= 3 and whole.max() < 8


@pytest.mark.parametrize("inner", ["given", "computed"])
def test_arguments_stand_in_their_order_whatever_is_drawn(inner):
    """Also those that the program writes into, which are states as the random numbers are."""
    calls = [
        lambda k, x, i: (k.index_copy(0, i, x), F.dropout(x, 0.5, True)),
        lambda k, x, i: (k.index_add(0, i, x), torch.rand(2)),
        lambda x, i, k: (k.index_copy(0, i, x), x[0:].bernoulli_(1.0)),
        lambda x, k, i: (k.scatter(0, i.unsqueeze(0).expand(1, 2), x), torch.rand_like(k), k[:1].add_(1)),
    ]
    for place, call in enumerate(calls):
        values = {"k": torch.zeros(3, 2), "x": torch.ones(1, 2), "i": torch.tensor([1])}
        names = call.__code__.co_varnames[:3]
        given = [values[name] for name in names]
        model = Function(lambda m, *a: call(*(v * 1 if inner == "computed" else v for v in a)))
        program = npusim.compile(model, tuple(v.clone() for v in given), dtype="float32")
        found = npusim.Session(program).run(*(v.clone() for v in given))
        assert np.array_equal(found["output_0"], call(*(v.clone() for v in given))[0]), place


def test_torch_compile_draws_by_manual_seed():
    def function(x):
        return x + torch.randn(64), torch.rand(64)

    compiled = torch.compile(function, backend="npusim")
    x = torch.zeros(64)
    with torch.no_grad():
        torch.manual_seed(5)
        first, second = compiled(x), compiled(x)
        torch.manual_seed(5)
        again = compiled(x)
    assert torch.equal(first[0], again[0]) and torch.equal(first[1], again[1])
    assert not torch.equal(first[0], second[0]) and not torch.equal(first[1], second[1])
    assert abs(first[0].std() - 1) < 0.5


def test_a_generator_of_ones_own_is_refused():
    generator = torch.Generator()
    with pytest.raises(npusim.UnsupportedError, match="draws from a generator of its own, which is no part of a program"):
        session(lambda m, x: x + torch.randn(3, generator=generator), torch.zeros(3))


@pytest.mark.parametrize(
    "draw, dtype",
    [
        (lambda x: x.clone().cauchy_(1.0, 2.0), torch.float32),
        (lambda x: x.clone().cauchy_(1.0, 2.0), torch.float64),
        (lambda x: x.clone().log_normal_(0.3, 0.5), torch.float32),
        (lambda x: x.clone().log_normal_(0.3, 0.5), torch.bfloat16),
        (lambda x: x.clone().geometric_(0.3), torch.float32),
        (lambda x: x.clone().geometric_(0.05), torch.int64),
        (lambda x: F.rrelu(x, 0.1, 0.5, training=True), torch.float32),
        (lambda x: F.rrelu(x.clone(), 0.1, 0.5, training=True, inplace=True), torch.float32),
        (lambda x: torch.distributions.Cauchy(x, x.abs() + 1).sample(), torch.float32),
    ],
)
def test_composed_distributions(draw, dtype):
    """The share of numbers below each of some bounds is that of eager PyTorch's, within five standard deviations."""
    count = 40000
    torch.manual_seed(1)
    x = torch.randn(count).to(dtype)
    run = session(lambda _, x: draw(x), x)
    first, found = (run.run(x)["output"].astype("float64") for _ in range(2))
    assert not np.array_equal(first, found)
    expected = draw(x).double().numpy()
    for bound in np.quantile(expected, [0.02, 0.2, 0.4, 0.5, 0.7, 0.9, 0.98]):
        for below in (np.less, np.less_equal):
            assert abs(below(found, bound).mean() - below(expected, bound).mean()) < 5 * (0.5 / count) ** 0.5


@pytest.mark.parametrize("dtype, unit", [(torch.float32, 1.0), (torch.float32, 3e38), (torch.float32, 1e-37), (torch.float64, 1e308), (torch.float64, 1e-305)])
@pytest.mark.parametrize("categories", [1, 3, 33, 500])
def test_categories_with_replacement(dtype, unit, categories):
    """As often as the weights say, of any size and sum; those of no weight never."""
    samples = 40000
    weights = torch.rand(2, categories, generator=torch.Generator().manual_seed(categories), dtype=torch.float64)
    weights[:, 1 : categories - 1 : 3] = 0
    weights[:, 0] = 0 if categories > 1 else 1
    x = (weights * unit).to(dtype)
    program = npusim.compile(Function(lambda m, x: torch.multinomial(x, samples, True)), (x,), dtype="float32")
    chosen = torch.from_numpy(npusim.Session(program).run(x)["output"])
    for row, share in zip(chosen, weights / weights.sum(-1, keepdim=True), strict=True):
        counts = torch.bincount(row, minlength=categories).double()
        assert (counts[share == 0] == 0).all()
        assert ((counts - samples * share).abs() <= 6 * (samples * share).sqrt() + 3).all()
