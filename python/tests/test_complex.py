"""Complex numbers: two real values each."""

import npusim
import numpy as np
import pytest

torch = pytest.importorskip("torch")
from modules import CallsWithSelf
from torch import fft, nn

torch.manual_seed(0)
X, Y = torch.randn(3, 6), torch.randn(3, 6)


def check(function, *args, tolerance=1e-5, **tensors):
    model = CallsWithSelf(function, **tensors)
    expected = model(*args).detach().numpy()
    found = npusim.Session(npusim.compile(model, args, dtype="float32")).run(*args)["output"]
    assert found.shape == expected.shape
    assert np.allclose(found, expected, rtol=tolerance, atol=tolerance * 10)


def flat(z):
    return torch.view_as_real(z.resolve_conj())


def pair(x):
    return torch.view_as_complex(x.reshape(3, 3, 2))


@pytest.mark.parametrize(
    "function",
    [
        lambda m, x, y: flat(pair(x) * pair(y)),
        lambda m, x, y: flat(pair(x) * y[:, :3] + y[:, 3:]),
        lambda m, x, y: flat(x[:, :3] * pair(y) - pair(x)),
        lambda m, x, y: flat(x[:, :3] - pair(y)),
        lambda m, x, y: flat(pair(x) / pair(y)),
        lambda m, x, y: flat(pair(x) / x[:, :3] / 2),
        lambda m, x, y: flat(1 / pair(x)) + flat((2 + 1j) / pair(y)) + flat(pair(y) / (2 - 1j)),
        lambda m, x, y: flat(pair(x) * (1 + 2j) + 1j - 2),
        lambda m, x, y: flat(x * 1j + (2 - 1j) * y),
        lambda m, x, y: flat(torch.polar(x.abs(), y)),
        lambda m, x, y: flat(torch.complex(x, y)).sum(-1),
        lambda m, x, y: flat(torch.exp(torch.complex(x, y))),
        lambda m, x, y: flat(pair(x) @ pair(y)) + flat(torch.conj(pair(x)) @ y[:, :3].to(torch.complex64)),
        lambda m, x, y: pair(x).abs() + pair(y).angle() + pair(x).imag * pair(y).real,
        lambda m, x, y: flat(-pair(x).conj().resolve_conj().mT),
        lambda m, x, y: flat(torch.cat([pair(x), pair(y)], -1).unsqueeze(0).expand(2, -1, -1).flatten(0, 1)[1:, ::2]),
        lambda m, x, y: flat(torch.stack(pair(x).split(1, -1), 1).squeeze(-1).sum(0) + pair(y).mean(-1, keepdim=True)),
        lambda m, x, y: flat(torch.where(x[:, :3] > 0, pair(x), pair(y))),
        lambda m, x, y: flat(torch.where(x[:, :3] > 0, pair(x), 0.5)),
        lambda m, x, y: flat(torch.cat([pair(x), y[:, :3].to(torch.complex64)])),
        lambda m, x, y: flat(torch.zeros(3, 3, dtype=torch.complex64) + torch.full((3, 3), 2 + 1j) * pair(x)),
        lambda m, x, y: flat(pair(x)[torch.tensor([2, 0])].index_select(1, torch.tensor([1, 1]))),
        lambda m, x, y: pair(x).real.clone(),
    ],
)
def test_arithmetic_and_views(function):
    check(function, X, Y)


@pytest.mark.parametrize("norm", [None, "ortho", "forward"])
@pytest.mark.parametrize("size", [None, 5, 8, 1])
def test_transforms(norm, size):
    check(lambda m, x: flat(fft.fft(x, size, norm=norm)), X)
    check(lambda m, x: flat(fft.ifft(x, size, dim=0, norm=norm)), X)
    check(lambda m, x: flat(fft.fft(torch.complex(x, x * 2), size, 0, norm)), X)
    check(lambda m, x: flat(fft.ifft(torch.complex(x, x * 2), size, norm=norm)), X)
    check(lambda m, x: flat(fft.rfft(x, size, norm=norm)), X)
    check(lambda m, x: fft.irfft(pair(x), size, norm=norm), X)
    check(lambda m, x: fft.irfft(x, size, dim=0, norm=norm), X)


def test_transforms_of_several_dimensions():
    x = torch.randn(2, 4, 5, 6)
    check(lambda m, x: fft.fftn(x).real, x)
    check(lambda m, x: fft.fft2(x).imag, x)
    check(lambda m, x: flat(fft.fftn(x, dim=(1, 2))), x)
    check(lambda m, x: flat(fft.ifftn(torch.complex(x, -x), s=(3, 7), dim=(0, 3))), x)
    check(lambda m, x: fft.irfft2(fft.rfft2(x, norm="ortho"), s=(5, 6), norm="ortho"), x)
    check(lambda m, x: fft.irfftn(fft.rfftn(x, dim=(1, 3)), dim=(1, 3)), x)
    check(lambda m, x: fft.fft(fft.fft(x, dim=-1), dim=-2).real, x)
    check(lambda m, x: fft.rfft(x).abs(), torch.arange(10).reshape(2, 5))


def test_transforms_in_parts():
    """As torch.compile and run_decompositions() have them."""

    def forward(m, x):
        return fft.irfft2(fft.fft(fft.rfft2(x, norm="ortho"), norm="forward"), s=(5, 6)) + fft.ifft(x, dim=1).real

    x = torch.randn(2, 5, 6)
    program = torch.export.export(CallsWithSelf(forward), (x,)).run_decompositions()
    assert "_fft_c2r" in str(program.graph)
    found = npusim.Session(npusim.compile(program, dtype="float32")).run(x)["output"]
    assert np.allclose(found, forward(None, x).numpy(), atol=1e-5)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"length": 90},
        {"length": 130},
        {"center": False},
        {"center": False, "length": 50},
        {"normalized": True},
        {"onesided": False},
        {"win_length": 11},
        {"hop_length": 5, "win_length": 14},
        {"n_fft": 10, "hop_length": 2},
    ],
    ids=str,
)
def test_signals_of_short_spectra(given):
    sizes = {"n_fft": 16, "hop_length": 6} | {
        k: v for k, v in given.items() if k in ("n_fft", "hop_length", "win_length")
    }
    back = sizes | given
    spectrum = back | {"return_complex": True}
    spectrum.pop("length", None)
    x, window = torch.randn(2, 112), torch.hann_window(sizes.get("win_length", sizes["n_fft"])) + 0.1

    def forward(m, x):
        z = torch.stft(x, window=m.window, **spectrum)
        return torch.istft(z * torch.tanh(z.abs()), window=m.window, **back)

    check(forward, x, window=window)
    check(forward, x[0], window=window)
    if not back.keys() & {"win_length"}:
        check(lambda m, x: torch.istft(torch.stft(x, **spectrum), **back), x)


@pytest.mark.parametrize("length", [None, 40, 90])
@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("complex_window", [True, False])
def test_complex_signals_of_spectra(complex_window, center, length):
    both = {"n_fft": 16, "hop_length": 6, "normalized": length is None, "onesided": False, "return_complex": True}
    window = torch.hann_window(16) + 0.1
    if complex_window:
        window = torch.polar(window, torch.linspace(0, 1, 16))

    def forward(m, x):
        z = torch.stft(torch.complex(x, x.flip(-1)), window=m.window, center=center, **both)
        return flat(torch.istft(z * torch.tanh(z.abs()), window=m.window, center=center, length=length, **both))

    check(forward, torch.randn(2, 112), window=window)


def test_weights():
    z = torch.view_as_complex(torch.randn(3, 3, 2))
    check(lambda m, x: flat(pair(x) * m.z + m.z), X, z=z)


def test_rotary():
    def forward(m, x, positions):
        angles = torch.outer(positions, m.frequencies)
        turns = torch.polar(torch.ones_like(angles), angles)
        z = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(z * turns[None, :, None, :]).flatten(3).type_as(x)

    check(forward, torch.randn(2, 5, 4, 8), torch.arange(5.0), frequencies=torch.rand(4))


def write_modes(m, x):
    """As Fourier neural operators keep the lowest modes."""
    z = fft.rfft2(x)
    out = torch.zeros(3, 4, dtype=torch.complex64)
    out[:, :2] = torch.einsum("bx,xy->by", z[:, :2], m.z[:2, :2])
    out[-1:, 2:] = z[-1:, 2:] * 1j
    return fft.irfft2(out, s=(3, 6))


def write_real_part(m, x):
    z = pair(x)
    z.real.add_(1)
    return flat(z), x


def write_pairs(m, x):
    z = pair(x) * 1
    torch.view_as_real(z).mul_(2)
    return flat(z)


def write_pairs_backwards(m, x):
    pairs = x.reshape(3, 3, 2) * 1
    pair(pairs)[1] *= 1 - 2j
    return pairs


def write_rows(m, x):
    z = pair(x) * 1
    z[1] = m.z[0]
    z[:, 0] = 5
    z[0].fill_(2 - 3j)
    z[2, 1:].copy_(x[0, :2])
    z.diagonal()[1:] = 1j
    z.T[2].mul_(1j)
    return flat(z)


def write_by_index(m, x):
    z = pair(x) * 1
    z[torch.tensor([0, 2]), torch.tensor([1, 1])] = m.z[0, :2]
    z.index_put_((torch.tensor([0, 0]),), m.z[:2], accumulate=True)
    z.masked_fill_(x[:, :3] > 0.5, 0.5)
    z[x[:, :3] < -0.5] = 2j
    return flat(z)


def write_into_reals(m, x):
    y = x * 1
    y[:, :3] = pair(x) * 1j
    return y.abs() - y


def write_scattered(m, x):
    z, index = pair(x) * 1, torch.tensor([[0, 2], [1, 0], [2, 1]])
    z.scatter_(1, index[:, :1], 2.0)
    z.scatter_(1, index[:, 1:], 1 - 3j)
    z.scatter_(0, index.T, m.z[:2] * 2)
    return flat(z), flat(z.scatter(1, index, x[:, 4:].to(torch.complex64)))


@pytest.mark.parametrize(
    "function",
    [
        write_into_reals,
        write_scattered,
        write_modes,
        write_real_part,
        write_pairs,
        write_pairs_backwards,
        write_rows,
        write_by_index,
    ],
)
def test_writes(function):
    """By PyTorch's own functional form: also through views, of complex numbers as pairs and of pairs as complex numbers."""
    z = torch.view_as_complex(torch.randn(3, 3, 2))
    model = CallsWithSelf(function, z=z)
    expected = function(model, X.clone())
    session = npusim.Session(npusim.compile(model, (X.clone(),), dtype="float32"))
    found = session.run(X.clone())
    expected = dict(enumerate(expected)) if isinstance(expected, tuple) else {"output": expected}
    for name, value in expected.items():
        key = name if name == "output" else f"output_{name}"
        assert np.allclose(found[key], value.numpy(), atol=1e-5), key


def test_what_is_refused():
    z = torch.view_as_complex(torch.randn(3, 2))
    for function, args, why in (
        (lambda m, z: z.real, (z,), "complex64"),
        (lambda m, x: pair(x), (X,), "complex64"),
        (lambda m, x: flat(torch.linalg.inv(pair(x))), (X,), "complex"),
    ):
        with pytest.raises(npusim.UnsupportedError, match=why):
            npusim.export(CallsWithSelf(function), args)



N = torch.tensor([[1, 0, -2], [3, 4, 5], [0, 7, 8]])


@pytest.mark.parametrize(
    "function",
    [
        lambda m, n: flat(n + 1.5j),
        lambda m, n: flat(2j - n),
        lambda m, n: flat(n * (0.5 - 1j)) + flat(n.bool() * 2j),
        lambda m, n: flat((n > 0) / (2 + 1j)),
        lambda m, n: flat(torch.cat([n, n * 0.5j, n.float()])),
        lambda m, n: flat(torch.where(n > 0, n, 1.5j)),
        lambda m, n: flat(torch.stack([n[0] + 0j, n[1].double()])),
        lambda m, n: flat(nn.functional.pad(n * 1j, (1, 1), value=2)),
        lambda m, n: flat((n * 1j).index_fill(0, torch.tensor([1]), 3)),
        lambda m, n: flat((n * 1j).masked_fill(n > 0, 3)),
        lambda m, n: (n * 1j).bool() & (n == n * (1 + 0j)),
        lambda m, n: flat((n * 1j + 1) ** n + (n + 9) ** (0.5j + n * 0)),
    ],
)
def test_numbers_beside_complex(function):
    check(function, N)


@pytest.mark.parametrize("size", [1e-30, 1e-25, 1.0, 1e25, 1e30])
def test_quotients_are_scaled(size):
    x = torch.tensor([1.0, 2.0, -3.0]) * size
    check(lambda m, x: flat(torch.complex(x, x) / torch.complex(x, -x)), x)
    check(lambda m, x: flat(torch.complex(x, -x).sgn()) + flat(torch.complex(x, x).sqrt() / size**0.5), x)
    check(lambda m, x: flat(torch.complex(x, x * 2).reciprocal() * size), x)
    check(lambda m, x: flat(torch.complex(x, x * 2).log()) + torch.complex(x, x).abs()[:, None] / size, x)


def test_comparisons():
    x = torch.tensor([[1.0, 2.0], [1.0, 3.0], [0.0, -0.0]])
    z = lambda x: torch.view_as_complex(x)
    check(lambda m, x: (z(x) == 1 + 2j) ^ (z(x) != z(x).conj()) ^ (z(x) == x[:, 0]), x)
    model = CallsWithSelf(lambda m, x: x + 1 if torch.equal(z(x), z(x) * 1) else x)
    assert torch.equal(torch.from_numpy(npusim.Session(npusim.compile(model, (x,), dtype="float32")).run(x)["output"]), x + 1)


def same(function, x, floor=1e-300):
    """Runs in the dtype of x; infinities and NaN stand where PyTorch has them, and the rest is near."""
    expected = function(None, x).numpy()
    model = CallsWithSelf(function)
    found = npusim.Session(npusim.compile(npusim.export(model, (x,)), dtype="float32")).run(x)["output"]
    tolerance, floor = (1e-10, floor) if x.dtype == torch.float64 else (1e-4, 1e-4)
    assert found.shape == expected.shape and found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=floor)


INF, NAN = float("inf"), float("nan")
ENDLESS = [[INF, 1.0], [INF, 0.0], [0.0, INF], [INF, INF], [0.0, -INF], [NAN, 0.0], [1.0, NAN]]


@pytest.mark.parametrize("size", [1, 2, 3, 17, 40])
def test_reductions_of_what_is_infinite(size):
    x = torch.randn(size, len(ENDLESS), 5, 2)
    for i, value in enumerate(ENDLESS):
        for j, place in enumerate((0, size // 2, size - 1)):
            x[place, i, j] = torch.tensor(value)
        x[size // 2 :, i, 3] = torch.tensor(value)
    z = torch.view_as_complex
    same(lambda m, x: flat(z(x).mean(0)), x)
    same(lambda m, x: flat(z(x).mean((0, 2), keepdim=True)), x)
    same(lambda m, x: flat(z(x).mean()), x[:, :1])
    same(lambda m, x: flat(z(x).cumprod(0)), x)
    same(lambda m, x: flat(z(x).cumprod(1)), x.transpose(0, 1).contiguous())
    same(lambda m, x: flat(z(x)[0, 0, 0].cumprod(0)), x)
    same(lambda m, x: flat(z(x)[:1].prod(0)), x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sums_of_exponentials(dtype):
    ends = (-INF, -7.2, 0.0, 1.5, 800.0, INF, NAN)
    x = torch.tensor([[a, b] for a in ends for b in ends], dtype=dtype)
    z = torch.view_as_complex
    same(lambda m, x: flat(torch.logaddexp(z(x)[:, None], z(x))), x)


@pytest.mark.parametrize("name", ["atan", "atanh", "asin", "acos", "asinh", "acosh", "log", "log1p", "sqrt", "tan", "tanh"])
def test_functions_beside_their_poles_and_at_the_ends_of_float64(name):
    sizes = [s * v for v in (0.0, 1e-300, 1e-200, 1e-160, 1e-20, 1e-9, 0.5, 1 - 1e-9, 1.0, 1 + 1e-9, 2.0) for s in (1, -1)]
    sizes += [s * v for v in (1e8, 1e150, 1e160, 1e300, 1.7e308) for s in (1, -1)]
    x = torch.tensor([[a, b] for a in sizes for b in sizes], dtype=torch.float64)
    floor = 1e-4 if name in ("acos", "acosh") else 1e-300  # beside 1 PyTorch loses the small part
    same(lambda m, x: flat(getattr(torch, name)(torch.view_as_complex(x))), x, floor)


LIKE = {
    **{f"{name}_like": getattr(torch, f"{name}_like") for name in ("ones", "zeros", "empty", "rand", "randn")},
    "full_like": lambda z, dtype: torch.full_like(z, 3, dtype=dtype),
    "randint_like": lambda z, dtype: torch.randint_like(z, 5, dtype=dtype),
    "randint_like, between": lambda z, dtype: torch.randint_like(z, 2, 5, dtype=dtype),
    **{f"new_{name}": lambda z, dtype, name=name: getattr(z, f"new_{name}")((4,), dtype=dtype) for name in ("ones", "zeros", "empty")},
    "new_full": lambda z, dtype: z.new_full((4,), 3, dtype=dtype),
    "new_empty_strided": lambda z, dtype: z.new_empty_strided((2, 3), (1, 2), dtype=dtype),
    "prod": lambda z, dtype: z.prod(dtype=dtype),
    "prod, a dimension": lambda z, dtype: z.prod(0, True, dtype=dtype),
    "cumprod": lambda z, dtype: z.cumprod(1, dtype=dtype),
}


@pytest.mark.parametrize("name", LIKE)
def test_real_numbers_in_the_shape_of_complex_ones(name):
    for dtype in (torch.float32, torch.float64, torch.int64):
        if name in ("rand_like", "randn_like") and not dtype.is_floating_point:
            continue
        unknown = 0 if "rand" in name or "empty" in name else 1
        same(lambda m, x, d=dtype, u=unknown: LIKE[name](torch.view_as_complex(x), dtype=d) * u, torch.randn(3, 4, 2))
