"""Random calls of every operator that has a form for complex numbers: mixed dtypes, numbers, 0-d tensors, of all sizes.

Eager PyTorch has several loops for one operator (with and without vectors), which differ in infinities and NaN: where they
agree npusim gives the same kind of number, signed zeros included, and where they give numbers, numbers as near to those of
complex128. NPUSIM_COMPLEX_CALLS=N draws N calls from a new seed, NPUSIM_COMPLEX_SEED=S from that one."""

import math
import os
import random

import npusim
import pytest

torch = pytest.importorskip("torch")
from npusim.torch.forms import pairs
from npusim.torch.forms.complex_rules import PART_BY_PART, RULES
from torch import nn

ROWS, COLUMNS = 3, 4
CALLS = int(os.environ.get("NPUSIM_COMPLEX_CALLS", "80"))
SEED = int(os.environ.get("NPUSIM_COMPLEX_SEED", "0" if CALLS == 80 else str(random.randrange(10**9))))
EACH = 40  # calls of one model

SPECIAL = [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 0.5, -2.0]
DTYPES = [torch.complex64, torch.complex128, torch.float32, torch.float64, torch.int64, torch.int32, torch.uint8, torch.bool]
SHAPES = [(ROWS, COLUMNS), (ROWS, COLUMNS), (ROWS, COLUMNS), (), (1, COLUMNS), (ROWS, 1), (COLUMNS,)]


# ---- what is called: by operator, calls of drawn values. z: a complex tensor, v: any value that broadcasts, n: a tensor of
# any dtype, s: a number, x: a real tensor, m: a matrix of ordinary numbers.


def of(letters, *functions):
    return [(letters, function) for function in functions]


INDEX, MASK = torch.tensor([2, 0]), torch.tensor([[True, False, True, False]] * ROWS)
PLACES = torch.tensor([[0, 2, 1, 0], [1, 1, 0, 2], [2, 0, 2, 1]])

CALLED = {
    **{name: of("z", getattr(torch, name)) for name in pairs.UNARY if not name.startswith("special_")},
    **{name: of("z", getattr(torch.special, name[8:])) for name in pairs.UNARY if name.startswith("special_")},
    **{f"_to {d}": of("z", lambda z, d=d: z.to(d)) for d in (torch.complex64, torch.complex128, torch.float32, torch.bool)},
    "_to": of("n", lambda x: x.to(torch.complex64), lambda x: x.to(torch.complex128)),
    "abs": of("z", torch.abs), "angle": of("z", torch.angle), "neg": of("z", torch.neg),
    "add": of("zv", torch.add, lambda a, b: torch.add(a, b, alpha=2), lambda a, b: torch.add(a, b, alpha=1 - 0.5j)) + of("vz", torch.add)
    + of("x", lambda x: x + 1.5j, lambda x: 2j + x) + of("zs", lambda a, b: a + b, lambda a, b: b + a),
    "sub": of("zv", torch.sub, lambda a, b: torch.sub(a, b, alpha=0.5)) + of("vz", torch.sub) + of("zs", lambda a, b: a - b, lambda a, b: b - a),
    "rsub": of("zs", torch.rsub) + of("zz", torch.rsub),
    "mul": of("zv", torch.mul) + of("vz", torch.mul) + of("x", lambda x: x * 2j) + of("zs", lambda a, b: a * b, lambda a, b: b * a),
    "div": of("zv", torch.div) + of("vz", torch.div) + of("x", lambda x: x / (2 - 1j), lambda x: 1j / x) + of("zs", lambda a, b: a / b, lambda a, b: b / a),
    "pow": of("zv", torch.pow) + of("vz", torch.pow) + of("zs", torch.pow) + of("sz", torch.pow)
    + [pair for p in (0, 1, 2, 3, 0.5, -0.5, -1, -2, 1.5, 2j) for pair in of("z", lambda z, p=p: z**p)],
    "addcmul": of("znn", torch.addcmul, lambda a, b, c: torch.addcmul(a, b, c, value=0.5)),
    "addcdiv": of("znn", torch.addcdiv, lambda a, b, c: torch.addcdiv(a, b, c, value=2)),
    "logaddexp": of("zz", lambda a, b: torch.logaddexp(a, b.to(a.dtype))),
    "lerp": of("zz", lambda a, b: torch.lerp(a, b.to(a.dtype), 0.3), lambda a, b: torch.lerp(a, b.to(a.dtype), 0.7 - 0.2j)),
    "eq": of("zv", torch.eq) + of("vz", torch.eq) + of("zs", lambda a, b: a == b), "ne": of("zv", torch.ne) + of("vz", torch.ne) + of("zs", lambda a, b: a != b),
    "isclose": of("zz", lambda a, b: torch.isclose(a, b.to(a.dtype)), lambda a, b: torch.isclose(a, a * (1 + 1e-6), equal_nan=True)),
    "isfinite": of("z", torch.isfinite), "isinf": of("z", torch.isinf), "isnan": of("z", torch.isnan), "isreal": of("z", torch.isreal),
    "logical_and": of("zv", torch.logical_and), "logical_or": of("zv", torch.logical_or), "logical_xor": of("zv", torch.logical_xor),
    "logical_not": of("z", torch.logical_not), "all": of("z", torch.all, lambda z: z.all(1)), "any": of("z", torch.any, lambda z: z.any(0)),
    "count_nonzero": of("z", torch.count_nonzero), "nan_to_num": of("z", torch.nan_to_num, lambda z: z.nan_to_num(1.0, 2.0, -3.0)),
    "where": of("zv", lambda a, b: torch.where(MASK, a, b)) + of("vz", lambda a, b: torch.where(MASK, a, b)),
    "masked_fill": of("zs", lambda z, s: z.masked_fill(MASK, s)), "masked_scatter": of("zz", lambda a, b: a.masked_scatter(MASK, b.to(a.dtype))),
    "complex": of("x", lambda x: torch.complex(x.float(), x.float() * 2)), "polar": of("x", lambda x: torch.polar(x.float().abs(), x.float())),
    "view_as_complex": of("x", lambda x: torch.view_as_complex(x.float().reshape(ROWS, 2, 2))), "view_as_real": of("z", torch.view_as_real),
    "real": of("z", lambda z: z.real * 1), "imag": of("z", lambda z: z.imag * 1), "conj": of("z", lambda z: z.conj() * 1, lambda z: z.conj().imag * 1),
    "cat": of("nn", lambda a, b: torch.cat([a, b, a + 1j])), "stack": of("nn", lambda a, b: torch.stack([a + 0j, b])),
    "copy": of("zv", lambda a, b: a.clone().copy_(torch.as_tensor(b))), "fill": of("zs", lambda z, s: z.clone().fill_(s)),
    "full": of("s", lambda s: torch.full((2, 3), complex(s)), lambda s: torch.full((2,), s, dtype=torch.complex128)) + of("zs", torch.full_like, lambda z, s: z.new_full((2,), s)),
    "zeros": of("z", torch.zeros_like, torch.ones_like, lambda z: z.new_zeros(2), lambda z: z.new_ones(2), lambda z: z * 1 + torch.ones(COLUMNS, dtype=z.dtype)),
    "eye": of("z", lambda z: torch.eye(3, 4, dtype=z.dtype) + z), "linspace": of("z", lambda z: torch.linspace(1 - 2j, 3j, 4, dtype=z.dtype) + z), "scalar_tensor": of("z", lambda z: torch.scalar_tensor(2.5, dtype=z.dtype) + z),
    "index_put": of("zz", lambda a, b: a.index_put((INDEX,), b.to(a.dtype)[:2])), "index_fill": of("zs", lambda z, s: z.index_fill(1, INDEX, s)),
    "index_add": of("mm", lambda a, b: a.index_add(0, INDEX, b.to(a.dtype)[:2])), "index_copy": of("zz", lambda a, b: a.index_copy(0, INDEX, b.to(a.dtype)[:2])),
    "index": of("z", lambda z: z[INDEX], lambda z: z[:, INDEX], lambda z: z.index_select(0, INDEX), lambda z: z.take(PLACES)),
    "gather": of("z", lambda z: z.gather(0, PLACES), lambda z: z.take_along_dim(PLACES, 0)),
    "scatter": of("zs", lambda z, s: z.scatter(0, PLACES[:1], s)) + of("zz", lambda a, b: a.scatter(0, PLACES[:, :1], b.to(a.dtype))), "scatter_add": of("mm", lambda a, b: a.scatter_add(0, PLACES, b.to(a.dtype))),
    "views": of("z", lambda z: z.mT.flip(0)[1:, ::2], lambda z: z.reshape(-1).roll(2).unflatten(0, (4, 3)), lambda z: z.expand(2, ROWS, COLUMNS).flatten(0, 1), lambda z: z.unfold(1, 2, 1),
                lambda z: z.tril(), lambda z: z.triu(1), lambda z: z.diagonal() + z[0, :3], lambda z: torch.diag_embed(z[0]), lambda z: z.repeat(2, 1).narrow(0, 1, 2), lambda z: z.repeat_interleave(2, 1),
                lambda z: torch.rot90(z), lambda z: z.movedim(0, 1).squeeze().unsqueeze(0), lambda z: torch.cat(z.split(2, 1)[::-1], 1), lambda z: torch.stack(z.unbind(0)), lambda z: torch.cat(z.chunk(2, 1)), lambda z: z.diag()),
    "pad": of("z", lambda z: nn.functional.pad(z, (1, 2)), lambda z: nn.functional.pad(z, (1, 0, 0, 1), value=2.5), lambda z: nn.functional.pad(z[None], (1, 1), mode="reflect"), lambda z: nn.functional.pad(z[None], (1, 1), mode="replicate"),
              lambda z: nn.functional.pad(z[None], (1, 1), mode="circular"), lambda z: nn.functional.pixel_unshuffle(z[:2].reshape(1, 1, 2, 4), 2)),
    "select_scatter": of("zz", lambda a, b: a.select_scatter(b.to(a.dtype)[0], 0, 1), lambda a, b: a.slice_scatter(b.to(a.dtype)[:2], 0, 1), lambda a, b: a.diagonal_scatter(b.to(a.dtype)[0, :3])),
    "view": of("m", lambda z: z.contiguous().view(z.dtype.to_real()), lambda z: z.contiguous().view(z.dtype.to_real()).view(z.dtype)),
    "sum": of("m", torch.sum, lambda z: z.sum(0), lambda z: z.mean(1, keepdim=True), lambda z: z.cumsum(1), lambda z: z.trace(), lambda z: z.sum(0, dtype=torch.complex128)),
    "prod": of("m", torch.prod, lambda z: z.prod(0), lambda z: z.prod(1, keepdim=True), lambda z: z.cumprod(1), lambda z: z[0, 0].prod()),
    "var": of("m", torch.var, torch.std, lambda z: z.var(0, keepdim=True), lambda z: torch.std_mean(z, 1)[1], lambda z: torch.var_mean(z, 1, correction=0)[0]),
    "norm": of("m", lambda z: z.norm(), lambda z: torch.linalg.vector_norm(z, 3, 0), lambda z: torch.linalg.vector_norm(z, math.inf), lambda z: z.norm(dim=1)),
    "mm": of("mm", lambda a, b: a @ b.mT.to(a.dtype), lambda a, b: torch.einsum("ij,kj->ik", a, b.to(a.dtype)), lambda a, b: torch.mv(a, b.to(a.dtype)[0]), lambda a, b: torch.dot(a[0], b.to(a.dtype)[0]), lambda a, b: torch.vdot(a[0], b.to(a.dtype)[0]),
             lambda a, b: torch.addmm(a[:, :3], a, b.mT.to(a.dtype), beta=0.5, alpha=1j), lambda a, b: nn.functional.linear(a, b.to(a.dtype), b.to(a.dtype)[:, 0]), lambda a, b: torch.bmm(a[None], b.to(a.dtype).mT[None]), lambda a, b: torch.outer(a[0], b.to(a.dtype)[1]), lambda a, b: torch.kron(a, b.to(a.dtype))),
    "convolution": of("mm", lambda a, b: nn.functional.conv1d(a[None], b.to(a.dtype)[None, :, :2], b.to(a.dtype)[0, :1]), lambda a, b: nn.functional.conv2d(a[None, None], b.to(a.dtype)[None, None, :2, :2], padding=1), lambda a, b: nn.functional.conv_transpose1d(a[None], b.to(a.dtype)[:, None, :2])),
}  # fmt: skip
# Rules that are called by the calls above under another name.
ALSO = {
    *("_conj", "_conj_physical", "_neg_view", "_to_copy", "absolute", "alias", "alias_copy", "as_strided", "bmm", "clone"),
    *("concat", "conj_physical", "constant_pad_nd", "contiguous", "cumprod", "cumsum", "detach", "detach_copy", "diag"),
    *("diag_embed", "diagonal", "diagonal_copy", "diagonal_scatter", "dot", "empty", "empty_like", "new_empty", "expand"),
    *("expand_as", "expand_copy", "flatten", "flip", "full_like", "im2col", "index_select", "lift_fresh", "lift_fresh_copy"),
    *("linalg_vector_norm", "mT", "matmul", "mean", "movedim", "mv", "narrow", "narrow_copy", "new_full", "new_ones"),
    *("new_zeros", "ones", "ones_like", "permute", "permute_copy", "pixel_shuffle", "pixel_unshuffle", "reflection_pad1d"),
    *("reflection_pad2d", "reflection_pad3d", "repeat", "repeat_interleave", "replication_pad1d", "replication_pad2d"),
    *("replication_pad3d", "reshape", "reshape_as", "resolve_conj", "resolve_neg", "roll", "rot90", "select", "select_copy"),
    *("slice", "slice_copy", "slice_scatter", "split", "split_with_sizes", "squeeze", "squeeze_copy", "std", "std_mean"),
    *("swapaxes", "swapdims", "t", "take", "to", "trace", "transpose", "transpose_copy", "tril", "triu", "type_as", "unbind"),
    *("unflatten", "unfold", "unfold_copy", "unsqueeze", "unsqueeze_copy", "var_mean", "view_as", "view_copy", "zero"),
    *("zeros_like", "chunk", "_fft_c2c", "_fft_c2r", "_fft_r2c", "conv1d", "conv2d", "conv3d", "conv_transpose1d"),
    *("conv_transpose2d", "conv_transpose3d", "linalg_vector_norm", "index_put", "_functional_assert_async"),
    "as_strided_scatter",
}


def test_every_rule_is_called():
    assert {*RULES, *PART_BY_PART} <= {name.split()[0] for name in CALLED} | ALSO


# ---- drawing


def numbers(rng, count, magnitude):
    if magnitude == "special":
        return [rng.choice(SPECIAL) for _ in range(count)]
    if magnitude == "mixed":
        return [rng.choice([rng.choice(SPECIAL), rng.gauss(0, 1), rng.gauss(0, 1e25), rng.gauss(0, 1e-25)]) for _ in range(count)]
    return [rng.gauss(0, 1) * float(magnitude) for _ in range(count)]


def tensor(rng, dtype, shape, magnitude):
    count = math.prod(shape)
    if dtype.is_complex or dtype.is_floating_point:
        real = torch.tensor(numbers(rng, count * (2 if dtype.is_complex else 1), magnitude), dtype=torch.float64)
        value = torch.view_as_complex(real.reshape(-1, 2)) if dtype.is_complex else real
    else:
        value = torch.tensor([rng.randrange(0, 5) for _ in range(count)])
    return value.to(dtype).reshape(shape)


def draw(rng, letter):
    """A value and, of a tensor, what stands for it in the model."""
    magnitude = rng.choice(["1", "1", "1e-25", "1e25", "special", "mixed"])
    complexes, whole = [torch.complex64, torch.complex64, torch.complex128], (ROWS, COLUMNS)
    if letter == "s":
        return rng.choice([rng.randrange(-3, 4), rng.gauss(0, 1), complex(rng.gauss(0, 1), rng.gauss(0, 1)), True, 1j])
    if letter == "m":
        return tensor(rng, rng.choice(complexes), whole, "1")
    if letter == "z":
        return tensor(rng, rng.choice(complexes), whole, magnitude)
    if letter == "x":
        return tensor(rng, rng.choice(DTYPES[2:]), whole, magnitude)
    if letter == "n":
        return tensor(rng, rng.choice(DTYPES), whole, magnitude)
    return tensor(rng, rng.choice(DTYPES), rng.choice(SHAPES), magnitude)


class Model(nn.Module):
    def __init__(self, calls):
        super().__init__()
        self.calls = calls  # (function, operands), of which tensors are positions among the inputs

    def forward(self, *given):
        def value(operand):
            if not isinstance(operand, tuple):
                return operand
            at, is_complex = operand
            return torch.view_as_complex(given[at]) if is_complex else given[at]

        found = [function(*map(value, operands)) for function, operands in self.calls]
        return [torch.view_as_real(v.resolve_conj().resolve_neg()) if v.is_complex() else v for v in found]


# ---- judging


def parts(value):
    return torch.view_as_real(value.resolve_conj().resolve_neg()) if value.is_complex() else value.unsqueeze(-1)


def kinds(value):
    """0: a number, and signs of infinities and zeros."""
    zero = torch.where(torch.signbit(value), -2, 2)
    return torch.where(value.isnan(), 9, torch.where(value.isinf(), value.sign(), torch.where(value == 0, zero, 0)))


def apart(value):
    """The same numbers where no vector can be loaded."""
    if not isinstance(value, torch.Tensor) or not value.dim():
        return value
    return torch.stack([value, value], -1)[..., 0]


def nudged(value):
    """A step of float32 off."""
    if isinstance(value, torch.Tensor):
        if value.is_complex():
            return torch.view_as_complex(torch.view_as_real(wide(value).contiguous()) * (1 + 1e-7))
        return wide(value) * (1 + 1e-7) if value.is_floating_point() else value
    return value * (1 + 1e-7) if isinstance(value, (float, complex)) else value


def repeat(value):
    """Each number sixteen times, where vectors are loaded."""
    if not isinstance(value, torch.Tensor) or not value.dim():
        return value
    return value.expand(ROWS, COLUMNS).repeat_interleave(16, -1)


def wide(value):
    if isinstance(value, torch.Tensor) and (value.is_complex() or value.is_floating_point()):
        return value.to(torch.complex128 if value.is_complex() else torch.float64)
    return value


def judge(name, function, operands, found):
    expected = function(*operands)
    if name == "view_as_complex":  # of no memory but dense
        return "" if torch.equal(found.nan_to_num(7), parts(expected).nan_to_num(7)) else f"{name}: {found} {expected}"
    assert found.dtype == (expected.dtype.to_real() if expected.is_complex() else expected.dtype), name
    found = found if expected.is_complex() else found.unsqueeze(-1)
    assert found.shape == parts(expected).shape, name
    if not found.is_floating_point():
        return "" if torch.equal(found, parts(expected)) else f"{name}: {found} {expected}"
    other = function(*map(apart, operands))
    repeated = function(*map(repeat, operands))[..., ::16] if name in POINTWISE else expected
    truth = function(*map(wide, operands))
    answers = [parts(v.to(expected.dtype)) for v in (expected, other, repeated)]
    exact = parts(truth).double()
    ways = [kinds(v) for v in answers]
    near = function(*map(nudged, operands))
    for other in (truth, near):  # what rounding changes is of no known kind
        ways.append(kinds(parts(other.to(expected.dtype))))
    agree = torch.stack([way == ways[0] for way in ways]).all(0)
    if name in UNDEFINED:
        agree = agree & (ways[0].abs() != 2) & (ways[0] != 9 if "log1p" in name else ~(ways[0] == 9).any(-1, keepdim=True))
    own = kinds(found)
    same = ways[0] == own
    small = (ways[0].abs() % 2 == 0) & (own.abs() % 2 == 0) & ~((ways[0].abs() == 2) & (own.abs() == 2))  # a number that vanishes
    wrong = agree & ~same & ~small
    eps = torch.finfo(found.dtype).eps
    off = (found.double() - exact).norm(dim=-1)
    allowed = torch.stack([(v.double() - exact).norm(dim=-1) for v in answers]).nan_to_num(0, 0, 0).amax(0) * 4
    allowed = allowed + 16 * eps * exact.norm(dim=-1) + torch.finfo(found.dtype).tiny * 4
    allowed = allowed + 4 * (parts(near).double() - exact).norm(dim=-1).nan_to_num(0, 0, 0)
    if name not in POINTWISE and not name.startswith(("_to", "abs", "angle")):
        allowed = allowed + 64 * eps * exact.nan_to_num(0, 0, 0).abs().amax()
    finite = found.isfinite().all(-1) & exact.isfinite().all(-1) & answers[0].isfinite().all(-1)
    wrong = wrong.any(-1) | (finite & (off > allowed))
    if not wrong.any():
        return ""
    where = tuple(wrong.nonzero()[0].tolist())
    return f"{name}: at {where} found {found[where].tolist()}, expected {[v[where].tolist() for v in answers]}, exactly {exact[where].tolist()} of {operands}"


POINTWISE = {*pairs.UNARY, "add", "sub", "rsub", "mul", "div", "pow", "addcmul", "addcdiv", "lerp"}
# Where the sign of a zero is what it happens to be: log1p gives NaN for infinities too, acos of complex128 +0 for −0, pow
# the sign of a NaN.
UNDEFINED = {"log1p", "special_log1p", "acos", "sinc", "special_sinc", "pow"}


def calls(seed, count):
    """Calls of operators in turn: (name, function, operands)."""
    rng, found = random.Random(seed), []
    names = sorted(CALLED)
    rng.shuffle(names)
    while len(found) < count:
        name = names[len(found) % len(names)]
        letters, function = rng.choice(CALLED[name])
        operands = [draw(rng, letter) for letter in letters]
        try:
            function(*operands)
        except (RuntimeError, TypeError, IndexError):
            names.append(name)
            names[len(found) % len(names)] = rng.choice(sorted(CALLED))
            continue
        found.append((name, function, operands))
    return found


def run(chosen):
    tensors, told = [], []
    for _, function, operands in chosen:
        places = []
        for value in operands:
            if isinstance(value, torch.Tensor):
                places.append((len(tensors), value.is_complex()))
                tensors.append(torch.view_as_real(value).clone() if value.is_complex() else value)
            else:
                places.append(value)
        told.append((function, places))
    program = npusim.compile(Model(told).eval(), tuple(tensors), dtype="float32")
    found = npusim.Session(program, threads=1).run(*tensors)
    return [torch.from_numpy(found["output" if len(chosen) == 1 else f"output_{i}"]) for i in range(len(chosen))]


# Every call that takes a number, of a matrix z, another one of its dtype and the number.
GIVEN = {
    "add": lambda z, w, s: torch.add(z, w, alpha=s), "sub": lambda z, w, s: torch.sub(z, w, alpha=s), "rsub": lambda z, w, s: torch.rsub(z, w, alpha=s),
    "add a number": lambda z, w, s: torch.add(z, s, alpha=s), "rsub a number": lambda z, w, s: torch.rsub(z, s, alpha=s),
    "add to a number": lambda z, w, s: torch.add(s, z, alpha=s), "of numbers": lambda z, w, s: (s - z) * s / (s + z),
    "addcmul": lambda z, w, s: torch.addcmul(z, w, z, value=s), "addcdiv": lambda z, w, s: torch.addcdiv(z, w, z + 3, value=s),
    "addmm": lambda z, w, s: torch.addmm(z[:, :3], z, w.mT, beta=s, alpha=s), "addmv": lambda z, w, s: torch.addmv(z[:, 0], z, w[0], beta=s, alpha=s),
    "addr": lambda z, w, s: torch.addr(z, z[:, 0], w[0], beta=s, alpha=s),
    "baddbmm": lambda z, w, s: torch.baddbmm(z[None, :, :3], z[None], w.mT[None], beta=s, alpha=s),
    "pad": lambda z, w, s: torch.constant_pad_nd(z, (1, 2), s), "fill": lambda z, w, s: torch.fill(z, s), "full_like": lambda z, w, s: torch.full_like(z, s),
    "fill_diagonal_": lambda z, w, s: z.clone().fill_diagonal_(s), "new_full": lambda z, w, s: z.new_full((2,), s), "full": lambda z, w, s: torch.full((2,), s, dtype=z.dtype) + z[0, 0],
    "index_add": lambda z, w, s: z.index_add(0, INDEX, w[:2], alpha=s), "index_add_": lambda z, w, s: z.clone().index_add_(1, INDEX, w[:, :2], alpha=s),
    "index_fill": lambda z, w, s: z.index_fill(1, INDEX, s), "masked_fill": lambda z, w, s: z.masked_fill(MASK, s), "scatter": lambda z, w, s: z.scatter(0, PLACES[:1], s),
    "lerp": lambda z, w, s: torch.lerp(z, w, s), "pow": lambda z, w, s: z**s, "a power": lambda z, w, s: torch.pow(s, z), "float_power": lambda z, w, s: torch.float_power(z, s),
    "eq": lambda z, w, s: (z == s, z != s), "linspace": lambda z, w, s: torch.linspace(s, 2, 3, dtype=z.dtype) + torch.linspace(1j, s, 3, dtype=z.dtype) + z[:, 0],
    "linspace of a tensor": lambda z, w, s: torch.linspace(z[0, 0], s, 3, dtype=z.dtype) + torch.linspace(s, z[0, 0], 3, dtype=z.dtype),
    "where": lambda z, w, s: torch.where(MASK, z, s) + torch.where(MASK, s, z), "where of numbers": lambda z, w, s: torch.where(MASK, s, 2) + z, "scalar_tensor": lambda z, w, s: torch.scalar_tensor(s, dtype=z.dtype) * z,
    "y[i] = s": lambda z, w, s: torch.cat([z, z]).index_put_((INDEX,), torch.as_tensor(s, dtype=z.dtype)), "writes": lambda z, w, s: z.clone().add_(w, alpha=s).sub_(w, alpha=s).addcmul_(z, w, value=s).mul_(s),
}  # fmt: skip
NUMBERS = [0, 1.5, True, 2 - 0.5j, 1j]


@pytest.mark.filterwarnings("ignore")
def test_numbers_that_an_operator_takes():
    """Complex ones too, where eager PyTorch takes them."""
    rng, chosen = random.Random(1), []
    for at, (name, function) in enumerate(GIVEN.items()):
        for number in NUMBERS:
            dtype = (torch.complex64, torch.complex128)[at % 2]
            operands = [tensor(rng, dtype, (ROWS, COLUMNS), "1"), tensor(rng, dtype, (ROWS, COLUMNS), "1"), number]
            try:
                function(*operands)
            except (RuntimeError, TypeError):
                continue
            one = lambda *of, function=function: sum(v + 0j for v in found) if isinstance(found := function(*of), tuple) else found
            chosen.append((f"{name} of {number}", one, operands))
    assert {name.rpartition(" of ")[0] for name, *_ in chosen} == {*GIVEN}
    for (name, function, operands), found in zip(chosen, run(chosen), strict=True):
        expected, wanted = (function(*map(form, operands)) for form in (lambda v: v, wide))
        assert found.dtype == expected.dtype.to_real(), name
        assert torch.allclose(found.double(), parts(wanted).double(), rtol=1e-4, atol=1e-5, equal_nan=True), name


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range((CALLS + EACH - 1) // EACH))
def test_calls(part):
    chosen = calls(SEED * 100003 + part, EACH)
    wrong = [judge(*call, found) for call, found in zip(chosen, run(chosen), strict=True)]
    assert not (wrong := list(filter(None, wrong))), f"seed {SEED}: " + "\n".join(wrong)
