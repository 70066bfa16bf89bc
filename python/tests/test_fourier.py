"""Fourier transforms of any length, as near to float64 as PyTorch's own, with the zeros that PyTorch has.
NPUSIM_FOURIER_PROGRAMS=N draws N of several dimensions, and takes more lengths."""

import itertools
import math
import os
import random

import npusim
import pytest

torch = pytest.importorskip("torch")
from test_export import Function
from torch import fft

SHORT = [1, 2, 3, 4, 5, 7, 8, 15, 16, 31, 60, 97]
LONG = [257, 400, 1031, 4097, 6000, 10007, 65536]
NORMS = [None, "ortho", "forward"]
PROGRAMS = int(os.environ.get("NPUSIM_FOURIER_PROGRAMS", "8"))
if PROGRAMS > 8:
    LONG = sorted([*LONG, 241, 256, 263, 512, 1000, 1023, 1024, 2048, 4096, 8192, 9973, 30030, 44100])
SEED = int(os.environ.get("NPUSIM_FOURIER_SEED", "0"))


def flat(z):
    return torch.view_as_real(z.resolve_conj()) if z.is_complex() else z


def found_of(function, *args):
    model = Function(lambda m, *given: flat(function(*given)))
    return torch.from_numpy(npusim.Session(npusim.compile(model, args, dtype="float32"), threads=1).run(*args)["output"])


def agree(function, *args, what=""):
    found, own = found_of(function, *args), flat(function(*args))
    exact = flat(function(*(x.double() for x in args)))
    assert found.shape == exact.shape and found.dtype == own.dtype, what

    def off(x):
        return ((x.double() - exact).norm() / exact.norm().clamp(min=1e-30)).item()

    assert off(found) <= 2 * off(own) + 3e-7, (what, off(found), off(own))


def noise(*shape):
    return torch.randn(*shape) + 0.1


@pytest.mark.parametrize("size", LONG)
def test_long(size):
    x = noise(2, size)

    def all_of(x):
        z = torch.complex(x, x.flip(0))
        spectra = [fft.rfft(x), fft.fft(z), fft.fft(x)]
        return torch.cat([*(flat(s).reshape(2, -1) / math.sqrt(size) for s in spectra), fft.irfft(z, size) * size, fft.ifft(z).real * size], 1)

    agree(all_of, x, what=size)


def drawn(rng):
    """A transform of several dimensions: (function, tensors, words)."""
    kind = rng.choice(["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
    suffix, count = rng.choice([("", 1), ("", 1), ("2", 2), ("n", rng.randrange(1, 4))])
    shape = [rng.choice(SHORT) for _ in range(max(count, rng.randrange(1, 4)))]
    if rng.random() < 0.3:
        shape[rng.randrange(len(shape))] = rng.choice([256, 263, 270, 512])
    while math.prod(shape) > 20000:
        shape[shape.index(max(shape))] = rng.choice(SHORT)
    dims = rng.sample(range(len(shape)), count)
    norm = rng.choice(NORMS)
    is_complex = kind in ("irfft", "hfft") or (kind in ("fft", "ifft") and rng.random() < 0.6)
    if kind in ("irfft", "hfft") and shape[dims[-1]] == 1:
        shape[dims[-1]] = 5
    sizes = [rng.choice([shape[d], shape[d], max(1, shape[d] - 1), shape[d] + 3]) for d in dims] if rng.random() < 0.5 else None
    if kind in ("irfft", "hfft") and sizes is not None:
        sizes[-1] = rng.choice([2 * shape[dims[-1]] - 2, 2 * shape[dims[-1]] - 1, 6])
    how = {"norm": norm, **({"n": sizes[0] if sizes else None, "dim": dims[0]} if count == 1 and not suffix else {"s": sizes, "dim": dims})}

    def function(x, y):
        return getattr(fft, kind + suffix)(torch.complex(x, y) if is_complex else x, **how)

    return function, (noise(*shape), noise(*shape)), f"{kind}{suffix} of {shape}{' complex' * is_complex}, {how}"


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_several_dimensions(seed):
    rng = random.Random(SEED * 100003 + seed)
    torch.manual_seed(seed)
    function, tensors, what = drawn(rng)
    agree(function, *tensors, what=what)


@pytest.mark.parametrize("size", [1, 2, 5, 8, 300, 1033])
def test_bins_that_are_real(size):
    """Of a real signal the first and, of an even size, the last has no imaginary part, with PyTorch's sign; so has its
    angle 0 or π, and no other."""
    x = noise(3, size) * torch.tensor([[1.0], [-1.0], [1.0]])
    for call in (fft.rfft, fft.fft, fft.ifft, fft.ihfft):
        expected = torch.view_as_real(call(x).resolve_conj())
        found = found_of(call, x)
        real = [0, size // 2] if size % 2 == 0 else [0]
        assert torch.equal(found[:, real, 1], expected[:, real, 1])
        assert torch.equal(found[:, real, 1].signbit(), expected[:, real, 1].signbit()), call
    angles = found_of(lambda x: fft.rfft(x).angle(), x)
    real = [0, -1] if size % 2 == 0 else [0]
    assert torch.allclose(angles[:, real], fft.rfft(x).angle()[:, real], atol=1e-6)
    both = fft.rfft(x)
    back = torch.complex(both.real, both.imag + 1.0)  # what is imaginary in those bins does not count
    assert torch.allclose(found_of(lambda a, b: fft.irfft(torch.complex(a, b), size), back.real, back.imag), fft.irfft(back, size), atol=1e-5)


def branching(function):
    def beside(*args):
        return function(*(x * 2 for x in args)) if args[0].max() > 0 else function(*args)

    return beside


@pytest.mark.filterwarnings("ignore:the program is made for")
@pytest.mark.parametrize("name", ["".join(parts) for parts in itertools.product(["", "i", "r", "ir", "h", "ih"], ["fft"], ["", "2", "n"])])
def test_beside_values(name):
    """Where a branch or a size depends on values, PyTorch runs every operator with the example's numbers."""
    function = getattr(fft, name)
    takes_complex = name.removesuffix("2").removesuffix("n") in ("fft", "ifft", "irfft", "hfft")
    x = noise(4, 6)
    agree(branching(function), x)
    agree(lambda x: function(x[x[:, 0] < 99]), x[:1, :3])
    if takes_complex:
        agree(branching(lambda x, y: function(torch.complex(x, y))), x[:2, :2], x[2:, :2])


def test_one_element_beside_a_branch():
    for of_one in (fft.fft, fft.rfft):
        agree(branching(of_one), noise(1, 1))


def test_no_rows():
    x = torch.zeros(0, 8)
    for call in (fft.rfft, fft.fft, lambda x: fft.irfft(torch.complex(x, x))):
        assert found_of(call, x).shape == flat(call(x)).shape


def test_infinities_stay_out_of_real_bins():
    x = noise(8)
    x[3] = math.inf
    found, expected = found_of(fft.rfft, x), flat(fft.rfft(x))
    assert torch.equal(found[[0, -1], 1], expected[[0, -1], 1])


def test_frequencies():
    for size in (1, 4, 7, 8):
        x = noise(3, size)
        assert torch.equal(found_of(lambda x, n=size: x + fft.fftfreq(n, 0.3), x), x + fft.fftfreq(size, 0.3))
        half = x[:, : size // 2 + 1].contiguous()
        assert torch.equal(found_of(lambda x, n=size: x + fft.rfftfreq(n), half), half + fft.rfftfreq(size))
        assert torch.equal(found_of(lambda x: fft.ifftshift(fft.fftshift(x) * 2), x), x * 2)


def test_angles_of_short_spectra():
    x = noise(2, 400)
    call = lambda x: torch.stft(x, 64, 16, window=torch.hann_window(64), center=False, return_complex=True).angle()
    assert torch.allclose(found_of(call, x), call(x), atol=1e-3)
