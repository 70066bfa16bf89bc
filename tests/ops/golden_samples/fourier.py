"""Fourier transforms of pairs: operators of npusim, which its Python package registers."""
import npusim.torch.forms.fourier  # noqa: F401 -- for what it registers
from .core import S, d, f

for mk in (f, d):
    for shape, dim in (((2,), 0), ((7,), 0), ((3, 8), 1), ((3, 8), -2), ((2, 3, 31), -1), ((20, 3), 0), ((1, 60), 1), ((1, 97), 1), ((17, 5), 1)):
        x, y, n = mk(*shape), mk(*shape), shape[dim]
        for inverse in (False, True):
            S("npusim.fourier", x, y, dim, inverse, n, 1.0)
            S("npusim.fourier", x, y, dim, inverse, max(1, n - 2), -0.25)
        S("npusim.fourier", x, None, dim, False, n // 2 + 1, 1.0)
        S("npusim.fourier", x, None, dim, False, n, 0.5)
        S("npusim.fourier", x, None, dim, True, n, 0.5)
        for size in (2 * n - 2, 2 * n - 1):
            S("npusim.fourier_signal", x, y, dim, size, 1 / size)
    S("npusim.fourier", mk(3, 1), mk(3, 1), 1, True, 1, 2.0)
    S("npusim.fourier", mk(3, 1), None, 1, False, 1, 2.0)
    S("npusim.fourier_signal", mk(3, 1), mk(3, 1), 1, 1, 2.0)
