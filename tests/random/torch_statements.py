"""Makes random programs: statements drawn from families, each tried on real tensors before it is taken.

A statement is a template. Its first hole is its subject, a tensor that is there; the others are made to fit it:
{x} any subject, {f} floating, {i} integer, {b} boolean, with a digit for its rank ({f4}) or a + for at least one ({x+});
{y} what broadcasts with the subject, {same} of its shape, {mask} a boolean one, {n} a number, {p} one above 0, {k} a
small integer, {dim} and {dim2} two of its dimensions, {size} the extent of dim, {lo} < {hi} within it, {shape} another
shape of as many elements, {perm} a permutation, {order} different indices of dim, {below} any indices of it, {rows} a tensor
like the subject with as many entries in dim as {order}, {mat} a matrix for its last dimension, {row} a vector of that
length, {channels} one of dimension 1's length, {positive} such a vector above 0. A template that starts with ! is a
statement and defines nothing.
"""
import random
import re
import warnings

import torch
import torch.nn.functional as F

import torch_complex_statements
from torch_program import INPUT, WEIGHT, Program, Value, defined, make

FLOATS = (torch.float32, torch.float16, torch.bfloat16)
SIZES = [1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17, 31, 33, 64]
NUMBERS = ["0", "1", "-1", "2", "0.5", "-0.25", "3.5", "1e-3", "-2.5", "6", "1e3"]
MOST_ELEMENTS = 60000
TABLE = {
    "activation": """F.relu({f})|{f}.relu_()|F.relu6({f})|F.gelu({f})|F.gelu({f}, approximate='tanh')|F.silu({f})|F.mish({f})
        F.hardswish({f})|F.hardsigmoid({f})|F.hardtanh({f}, -{p}, {p})|F.leaky_relu({f}, {n})|F.elu({f}, {p})|F.selu({f})
        F.celu({f}, {p})|F.softplus({f}, {p}, {p})|F.logsigmoid({f})|F.softsign({f})|F.tanhshrink({f})|F.hardshrink({f}, {p})
        F.softshrink({f}, {p})|F.threshold({f}, {n}, {n})|{f}.sigmoid()|{f}.tanh()|F.prelu({f2}, {channels})|F.glu({f+}, {dim})
        {f}.clamp({n}, {p})|{f}.clamp(min={n})|{f}.clamp(max={n})|{f}.clamp(-1e6, 1e6)|{f}.nan_to_num()
        {f}.nan_to_num(nan={n}, posinf={n})|F.hardshrink({f}, 5e-4)|F.threshold({f}, 5e-4, 0)|torch.round({f} * 1e-6)""",
    "pointwise": """{f}.exp()|{f}.log()|{f}.sqrt()|{f}.rsqrt()|{f}.sin()|{f}.cos()|{f}.erf()|{x}.abs()|-{f}|{x}.square()|{f}.reciprocal()
        {f}.floor()|{f}.round()|{f}.frac()|{f}.trunc()|{f}.sign()|{f}.log1p()|{f}.expm1()|{f}.atan()|{f}.exp2()|{x} + {y}|{x} - {y}
        {x} * {y}|{x} * {x}|{x} - {x}|{x} + {x}|{f} / {y}|{x} * {n}|{f} + {n}|{n} - {f}|{f} ** 2|{f} ** {n}|torch.maximum({x}, {y})
        torch.minimum({x}, {same})|torch.where({mask}, {x}, {y})|torch.where({mask}, {f}, {n})|torch.addcmul({f}, {y}, {y})
        torch.lerp({f}, {y}, {n})|torch.addcdiv({f}, {y}, {y})|torch.add({x}, {y}, alpha={k})|torch.sub({f}, {y}, alpha={n})
        torch.rsub({f}, {y})|torch.atan2({f}, {y})|torch.copysign({f}, {y})|torch.fmod({f}, {y})|torch.remainder({f}, {p})
        torch.div({f}, {p}, rounding_mode='floor')|torch.div({f}, {y}, rounding_mode='trunc')|torch.hypot({f}, {y})
        torch.logaddexp({f}, {y})|torch.fmax({f}, {y})|{x}.clamp(max={y})|{f}.clone() * {f}|torch.addcmul({f}, {same}, {f})
        torch.lerp({f}, {same}, {f})|{f} == {f}|{x}.to(torch.float32) * {f}""",
    "logic": """{x} > {y}|{x} <= {n}|{x} == {y}|{x} != 0|{b} & {mask}|{b} | {mask}|~{b}|{b} ^ {mask}|{i} & {k}|{i} << 1|{i} // 2|{i} % 3
        {i} + {k}|{i} * {y}|{i} - {i}|{f}.isnan()|{f}.isinf()|{f}.isfinite()|torch.logical_and({x}, {y})|torch.logical_not({x})
        {b}.any()|{b}.all()|{b}.sum()|{x+}.any({dim})|{b}.to(torch.int64)|{f} * {mask}|torch.isin({i}, {i})|{f}.signbit()""",
    "cast": """{x}.to(torch.float32)|{x}.to(torch.float16)|{x}.to(torch.bfloat16)|{f}.nan_to_num().clamp(-99, 99).to(torch.int64)|{f}.nan_to_num().clamp(-99, 99).to(torch.int32)|{i}.to(torch.int64)|{x}.to(torch.bool)
        {i}.to(torch.int32)|{x}.float()|{x}.half()|{f}.type_as({y})|{f}.clamp(-99, 99).nan_to_num().long()|{f}.nan_to_num().clamp(0, 99).to(torch.uint8)""",
    "view": """{x2}.t()|{x+}.transpose({dim}, {dim2})|{x+}.permute({perm})|{x+}[{lo}:{hi}]|{x+}.narrow({dim}, 0, {size})|{x+}.select({dim}, -1)
        {x+}.unsqueeze({dim})|{x}.unsqueeze(0)|{x}.squeeze()|{x+}.squeeze({dim})|{x+}.view(-1)|{x}.view({shape})|{x+}.unflatten({dim}, (-1, 1))
        {x+}.movedim({dim}, {dim2})|{x+}[..., ::2]|{x+}[..., 1:]|{x+}.unfold({dim}, 2, 1)|{x2}.diagonal()|{x+}.expand(2, *{x+}.shape)
        {x+}.chunk(2, {dim})[-1]|{x+}.split(2, {dim})[0]|{x+}.unbind({dim})[0]|{x+}.mT|{x}.detach()|{x}.view_as({x})
        {x+}[0]|{x+}[-1:]|{x+}[..., None]|{x+}.tensor_split(3, {dim})[1]|{x}.expand_as({same})|{x+}.swapaxes({dim}, {dim2})
        {x+}.split([1, {size} - 1], {dim})[1]|{x+}[{lo}:{hi}, ..., 0]""",
    "reshape": """{x}.reshape({shape})|{x}.reshape(-1)|{x}.flatten()|{x+}.flatten(0, {dim})|{x}.ravel()|{x}.contiguous()|{x}.clone()
        {x2}.t().reshape(-1)|{x+}.transpose({dim}, {dim2}).flatten()|{x+}.permute({perm}).reshape({shape})|{x2}.t().ravel()
        {x+}.transpose({dim}, {dim2}).contiguous()|{x}.reshape_as({same})|{x2}.t().reshape_as({x2}.t())|{x+}[..., ::2].reshape(-1)
        torch._unsafe_view({x}, {shape})|{x+}.expand(2, *{x+}.shape).reshape(-1)|{x}.unsqueeze(0).reshape(-1)""",
    "strided": """{x}.as_strided({strided})|{x+}[1:].as_strided({strided})|{x2}.t().as_strided({strided})|({x2}.t() + 1).as_strided({strided})
        !{x}.as_strided({strided}).mul_(2)|{x+}[..., 1:].as_strided({strided})|!{x+}[1:].as_strided({strided}).add_({n})|{x}.clone().as_strided({strided})""",
    "inplace": """!{f}.add_({y})|!{f}.mul_({y})|!{x}.mul_({k})|!{f}.sub_({y})|!{x}.copy_({y})|!{x}.fill_({k})|!{x}.zero_()|!{f}.clamp_({n}, {p})
        !{f}.relu_()|!{f}.exp_()|!{x}.masked_fill_({mask}, {k})|!{x+}[{lo}:{hi}].mul_(2)|!{x+}[{lo}:{hi}].copy_({x+}[{lo}:{hi}] * 2)
        !{x+}[0] = {k}|!{x+}[..., {lo}:] = {n}|!{x+}[{lo}:{hi}] = {x+}[{lo}:{hi}] + {k}|!{f+}.select({dim}, 0).add_({n})|!{x2}.t().mul_({k})
        !{x+}.transpose({dim}, {dim2}).add_({k})|!{x2}.diagonal().fill_({k})|!{f}.view(-1).mul_({n})|!{f}.reshape(-1).mul_({n})
        !{f}.flatten().add_({n})|!{f}.div_({p})|{f}.add_({n})|{f}.mul_({y})|!{f}.sigmoid_()|!{f}.tanh_()|!{f}.neg_()|!{f+}.mT.mul_({n})
        !{f}.lerp_({same}, {n})|!{f}.addcmul_({same}, {same})|!{x+}[-1] = {x+}[0]|!{f}.pow_(2)|!{f}.mul_({f})|!{x+}.unbind({dim})[0].mul_(2)
        !{f}.squeeze().mul_({n})|!{x}.unsqueeze(0).add_({k})|!{x+}.chunk(2, {dim})[0].add_({k})|!{x+}[{lo}:{hi}][..., ::2] = {k}
        !{f}.hardtanh_()|F.relu({f}, inplace=True)|F.silu({f}, inplace=True)|!{x+}[1:].t_().add_({k})|!{x+}.masked_scatter_({mask}, {same})""",
    "shift": """!{x+}[1:].copy_({x+}[:-1].clone())|!{x+}[1:].copy_({x+}[:-1] * 2)|!{x+}[1:] = {x+}[:-1] + {k}|!{x+}[..., 1:] = {x+}[..., :-1] * 1
        !{x+}.copy_({x+}.roll(1, {dim}))|!{x+}.copy_({x+}.flip({dim}))|!{x+}[{lo}:{hi}].copy_({x+}[{lo}:{hi}].flip(0))|!{x2}.copy_({x2}[{order0}])
        !{x+}.index_copy_({dim}, {order}, {x+}.index_select({dim}, {order}))|!{x+}.index_add_({dim}, {order}, {x+}.index_select({dim}, {order}))
        !{x+}[:-1] += {x+}[1:].clone()|!{x+}[1:].add_({x+}[:-1].clone())|!{x+}.narrow({dim}, 1, {size} - 1).copy_({x+}.narrow({dim}, 0, {size} - 1) * 1)
        !{x2}.copy_({x2}.t())|!{x2}.add_({x2}.t().clone())|!{x+}[1:].copy_({x+}[:-1].roll(1, 0))|!{f+}.copy_({f+}.cumsum({dim}))
        !{x+}.mul_({x+}.flip({dim}))|!{f+}.sub_({f+}.mean({dim}, keepdim=True))|!{f+}.div_({f+}.abs().sum({dim}, keepdim=True) + 1)
        !{x2}[:, 1:].copy_({x2}[:, :-1].clone())|!{f+}.copy_({f+}.softmax({dim}))|!{x+}[0].copy_({x+}.sum(0))""",
    "metadata": """!{x2}.t_()|!{x+}.transpose_({dim}, {dim2})|!{x}.unsqueeze_(0)|!{x}.squeeze_()|!{x+}.squeeze_({dim})|!{x+}.swapaxes_({dim}, {dim2})
        !{x+}.unsqueeze_({dim})|!{x2}.t().t_().add_({k})|!{x+}.swapdims_({dim}, {dim2})""",
    "index": """{x+}.index_select({dim}, {below})|{x+}[{below0}]|torch.gather({x+}, {dim}, {gather})|F.embedding({below0}, {f2})|{x+}.take_along_dim({gather}, {dim})
        {x+}.index_copy({dim}, {order}, {rows})|{x+}.index_add({dim}, {below}, {rows_below})|{x+}.index_fill({dim}, {order}, {k})
        {x+}.scatter({dim}, {gather_once}, {same})|{x+}.scatter({dim}, {gather_once}, {x+})|{x+}.scatter_add({dim}, {gather}, {same})
        {x}.masked_fill({mask}, {n})|{x2}.tril()|{x2}.triu(1)|{x+}.masked_scatter({mask}, {same})|{x+}.roll(1, {dim})|{x+}.flip({dim})
        !{x+}.index_copy_({dim}, {order}, {rows})|!{x+}.index_add_({dim}, {below}, {rows_below})|!{x+}.index_fill_({dim}, {order}, {k})
        !{x+}.scatter_({dim}, {gather_once}, {same})|!{x+}.scatter_add_({dim}, {gather}, {same})|!{x+}[{order0}] = {k}|!{x2}[:, {order1}] = {k}
        {x+}.index_copy({dim}, {order}, {x+}.index_select({dim}, {order}))|{x2}[{below0}, 0]|!{x2}[{order0}] = {x2}[{order0}] * 2
        torch.slice_scatter({x+}, {x+}[{lo}:{hi}] * 2, 0, {lo}, {hi})|torch.select_scatter({x+}, {x+}[0] * 2, 0, -1)|{x+}.sort({dim}, stable=True)[0]
        !{x+}.index_put_(({order0},), {x+}[{order0}] * 3)|!{x+}.index_put_(({below0},), {x+}[{below0}], accumulate=True)|{f+}.topk(1, {dim})[0]
        torch.repeat_interleave({x+}, 2, {dim})|{f+}.argmax({dim})|{x+}.repeat(2, *[1] * {x+}.dim())""",
    "reduce": """{f}.sum()|{f+}.sum({dim})|{f+}.mean({dim})|{f+}.mean(({dim},), keepdim=True)|{x+}.amax({dim})|{f}.mean()|{x+}.sum({dim}, keepdim=True)
        {f+}.var({dim})|{f+}.std({dim}, unbiased=False)|{f+}.max({dim})[0]|{f+}.logsumexp({dim})|{f+}.norm(dim={dim})|{f+}.cumsum({dim})|{f+}.prod({dim})
        {f+}.cumprod({dim})|({f} * {f}).mean(-1)|{f}.amin()|{x+}.cumsum({dim})|{f+}.max({dim})[1]|{f+}.var_mean({dim})[1]|{f+}.cummax({dim})[0]
        {f+}.logcumsumexp({dim})|{f}.max()|{f+}.flatten().cumsum(0)|{f+}.diff(dim={dim})|{x+}.count_nonzero({dim})|{f+}.softmax({dim})
        F.log_softmax({f+}, {dim})|F.softmin({f+}, {dim})|F.normalize({f+}, dim={dim})|F.layer_norm({f+}, {f+}.shape[-1:], {row}, {row})
        F.layer_norm({f+}, {f+}.shape[-1:])|F.rms_norm({f+}, {f+}.shape[-1:], {row})|{f+} * torch.rsqrt({f+}.square().mean(-1, keepdim=True) + 1e-5)""",
    "weights": """{w} + 1|{w} * 2|{w}.cumsum(0)|{w}.cosh()|{w}.t()|{w}.softmax(-1)|torch.zeros({x+}.shape) + {w}|!{w}.mul_(2)|!{w}[0] = {k}|!{w}[1:].copy_({w}[:-1].clone())
        {w} + {x}|{x} * {w}|{w}.clone()|!{w}.index_copy_(0, {order0w}, {w}[{order0w}] * 2)|{w}.index_add(0, {order0w}, {w}[:{n_order}])
        !{w}.add_({x})|{w}.sum(0)|{w}.flip(0)|torch.cat([{w}, {w}])|{w}.exp()""",
    "create": """torch.zeros({shape})|torch.ones({shape}) * 2|torch.full({shape}, {n})|torch.arange({size+})|torch.zeros_like({x})|torch.full_like({f}, {n})|torch.eye(4)
        {x}.new_zeros({shape})|torch.arange({size+}, dtype=torch.float32)|torch.ones_like({x}) + {x}|torch.linspace(0, {p}, {size+})|{x}.new_full({shape}, {k})""",
    "join": """torch.cat([{x+}, {x+}], {dim})|torch.stack([{x}, {same}])|torch.cat([{x+}, {same}, {x+}], {dim})|F.pad({f+}, (1, 2))|F.pad({f+}, (1, 0), value={n})
        F.pad({f+}, (-1, 1))|torch.cat([{x+}[1:], {x+}[:1]])|F.pad({f3}, (1, 1), mode='reflect')|F.pad({f4}, (1, 1, 1, 1), mode='replicate')|torch.stack([{f}, {f}], -1)
        torch.hstack([{f+}, {f+}])|torch.cat([{x+}[:0], {x+}])|F.pad({f3}, (1, 1), mode='circular')|torch.broadcast_tensors({x}, {y})[0]""",
    "empty": """{x+}[:0]|!{x+}[:0].add_(1)|!{x+}[{size0}:].fill_(1)|!{x+}[{size0}:].mul_(2)|{x+}[:0].sum(0)|torch.cat([{x+}[{size0}:], {x+}])|!{x+}[:0] = {k}|!{x+}[..., :0].copy_({x+}[..., :0])
        {f+}[:0] * 2|!{x+}[:0].zero_()|{f2}[:0] @ {mat}|{f+}[:0].softmax(-1)|{x+}[1:1].reshape(-1)""",
    "matmul": """{f+} @ {mat}|{f+} @ {mat}|F.linear({f+}, {tam}, {bias})|F.linear({f+}, {tam})|{f2} @ {f2}.t()|torch.matmul({f3}, {f3}.mT)|torch.addmm({outs}, {f2}, {mat})
        torch.addmm({outs}, {f2}, {mat}, beta=0.5, alpha=2)|torch.bmm({f3}, {f3}.mT)|torch.einsum('ij,jk->ik', {f2}, {mat})|{f2} @ {row}|torch.outer({f1}, {row})
        torch.mv({f2}, {row})|{f+} @ {row}|torch.einsum('ij,kj->ki', {f2}, {f2})|torch.dot({f1}, {f1})|torch.tensordot({f2}, {mat}, 1)|{f2}.t() @ {f2}|({f+} @ {mat}) * {mask_last}
        ({f+} @ {mat}) * 3|F.linear({f+}, {tam}, {bias}).relu()|({f+} @ {mat}).gelu_fix|torch.baddbmm({f3} @ {f3}.mT, {f3}, {f3}.mT)|{f+}.mT.contiguous().mT @ {mat}""",
    "epilogue": """{c} * {c}|{c} + {c}|{c} - {c}|torch.maximum({c}, {c})|{c} == {c}|torch.addcmul({c}, {c}, {c})|torch.lerp({c}, {y}, {c})|{c}.clone() * {c}|!{c}.mul_({c})|({c} * {c}).mean(-1)
        {c} + {y}|{c} * {y}|{c} * 2|{c}.relu()|F.gelu({c})|F.silu({c})|{c}.sigmoid() * {c}|{c}.tanh()|{c} + {same}|{c} * {mask}|torch.where({mask}, {c}, {n})|{c}.clamp({n}, {p})|{c}.softmax(-1)
        {c}.flatten().cumsum(0)|{c}.masked_scatter({mask}, {same})|!{c}[1:].copy_({c}[:-1] * 2)|!{c}.add_({same})|!{c}[0] = 1.0|{c}.sum(-1)|{c}.t()|{c}.reshape(-1)|{c}.to(torch.float16)|{c} * {i_scalar}
        F.hardswish({c})|F.leaky_relu({c}, 0.1)|F.elu({c})|F.hardsigmoid({c})|F.hardtanh({c})|F.relu6({c})|F.mish({c})|F.softplus({c})|{c}.nan_to_num()|F.layer_norm({c}, {c}.shape[-1:])
        {c}.abs()|{c}.exp()|{c}.sqrt()|{c}.square()|-{c}|{c}.round()|{c} > 0|{c} / {p}|{c} ** 2|{c}.pow(3)|F.hardshrink({c}, 5e-4)|F.threshold({c}, 5e-4, 0)|torch.round({c} * 1e-6)|{c}.clamp(-1e6, 1e6)""",
    "conv": None,
    "norm": None,
    "pool": None,
    "attention": None,
    "module": None,
}
FAMILIES = {name: [t.strip() for line in (text or "").splitlines() for t in line.split("|") if t.strip() and "gelu_fix" not in t]
            for name, text in TABLE.items()}  # fmt: skip


# What the values of a program may be like, besides float32 numbers around 1 in small shapes.
FEATURES = ["narrow", "special", "large", "zero"]  # 16-bit floats, infinities and NaN, hundreds in a dimension, none


class Unfit(Exception):
    """No statement of this template fits the program."""


class Draw:
    """A program in the making, its tensors, and the holes of templates."""

    def __init__(self, seed: int, features: list[str], unwanted: str) -> None:
        self.rng = random.Random(seed)
        self.program = Program(seed)
        self.tensors: dict[str, torch.Tensor] = {}
        self.contractions: list[str] = []
        self.unwanted = unwanted  # a regular expression
        rng = self.rng
        self.sizes = [rng.choice(SIZES) for _ in range(3)]
        if "large" in features and self.chance(0.06):
            self.sizes[0] = rng.choice([150, 200, 300])
        if "zero" in features and self.chance(0.03):
            self.sizes[1] = 0
        self.dtype = rng.choice(FLOATS) if "narrow" in features and self.chance(0.3) else torch.float32
        self.kinds = rng.choice([["normal"]] * 6 + [["normal", "halves"], ["wide", "normal"], ["positive", "small"]])
        if "special" in features and self.chance(0.1):
            self.kinds = ["normal", "special"]

    def value(self, role: str, shape, dtype=None, kind: str | None = None) -> str:
        """A new tensor from outside."""
        dtype, index = dtype or self.dtype, len(self.program.values)
        value = Value(f"{'w' if role == WEIGHT else 'x'}{index}", role, list(shape), str(dtype)[6:],
                      kind or self.rng.choice(self.kinds), self.program.seed * 1000 + index)  # fmt: skip
        self.program.values.append(value)
        self.tensors[value.name] = make(value.seed, value.shape, dtype, value.kind)
        return value.name

    def outside(self, shape, dtype=None, kind: str | None = None) -> str:
        return self.value(self.rng.choice([WEIGHT, INPUT]), shape, dtype, kind)

    def shape(self, rank: int) -> list[int]:
        return [self.rng.choice(self.sizes) for _ in range(rank)]

    def pick(self, fits) -> str:
        """A tensor that is there, the later ones rather."""
        found = [name for name, t in self.tensors.items() if fits(t)]
        if not found:
            raise Unfit
        if self.rng.random() < 0.4:
            return found[-1]
        return found[min(self.rng.randrange(len(found)), self.rng.randrange(len(found))) * -1 - 1]

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability


class Holes:
    """What the holes of one template are filled with."""

    def __init__(self, draw: Draw) -> None:
        self.draw, self.rng = draw, draw.rng
        self.subject = ""
        self.filled: dict[str, str] = {}

    @property
    def t(self) -> torch.Tensor:
        return self.draw.tensors[self.subject]

    def fill(self, match: re.Match) -> str:
        hole = match[1]
        if hole in self.filled:
            return self.filled[hole]
        letter, rank = hole[0], hole[1:]
        if letter in "xfib" and (rank in ("", "+") or rank.isdigit()):
            text = self.subject = self.draw.pick(self.kind(letter, rank))
        elif letter in "cw" and not rank:
            text = self.subject = self.special(letter)
        else:
            if not self.subject:
                self.subject = self.draw.pick(lambda t: True)
            text = getattr(self, "hole_" + hole.replace("+", "_"))()
        if hole not in ("n", "p", "k", "y"):
            self.filled[hole] = text
        return text

    def kind(self, letter: str, rank: str):
        def fits(t: torch.Tensor) -> bool:
            right = {"x": True, "f": t.is_floating_point(), "b": t.dtype == torch.bool,
                     "i": not t.is_floating_point() and t.dtype != torch.bool}[letter]  # fmt: skip
            return right and (t.dim() >= 1 if rank == "+" else not rank or t.dim() == int(rank))

        return fits

    def special(self, letter: str) -> str:
        d = self.draw
        if letter == "w":
            weights = [v.name for v in d.program.values if v.role == WEIGHT and d.tensors[v.name].is_floating_point() and d.tensors[v.name].dim()]
            return self.rng.choice(weights) if weights and d.chance(0.7) else d.value(WEIGHT, d.shape(2))
        alive = [c for c in d.contractions if c in d.tensors]
        if not alive:
            raise Unfit
        return alive[-1] if d.chance(0.7) else self.rng.choice(alive)

    def fitting(self, shape, dtype) -> str:
        """A tensor of this shape, there or new."""
        there = [n for n, t in self.draw.tensors.items() if list(t.shape) == list(shape) and t.dtype == dtype and n != self.subject]
        return self.rng.choice(there) if there and self.draw.chance(0.7) else self.draw.outside(shape, dtype)

    def hole_y(self) -> str:
        shape = list(self.t.shape)
        if self.draw.chance(0.35):
            shape = [1 if self.draw.chance(0.4) else n for n in shape][self.rng.randrange(len(shape) + 1) :]
        dtype = self.t.dtype
        if self.draw.chance(0.08):
            dtype = self.rng.choice([torch.float32, torch.int64, torch.bool])
        return self.fitting(shape, dtype)

    def hole_same(self) -> str:
        return self.fitting(self.t.shape, self.t.dtype)

    def hole_mask(self) -> str:
        return self.fitting(self.t.shape[self.rng.randrange(self.t.dim() + 1) if self.draw.chance(0.3) else 0 :], torch.bool)

    def hole_mask_last(self) -> str:
        return self.draw.outside([1], torch.bool)

    def hole_i_scalar(self) -> str:
        return self.draw.outside(self.rng.choice([[], [1]]), self.rng.choice([torch.int64, torch.bool]))

    def hole_n(self) -> str:
        return self.rng.choice(NUMBERS)

    def hole_p(self) -> str:
        return self.rng.choice(["1", "0.5", "2", "6", "1.25"])

    def hole_k(self) -> str:
        return str(self.rng.choice([-1, 1, 2, 3]))

    def number(self, key: str, low: int, high: int) -> int:
        if key not in self.filled:
            if high <= low:
                raise Unfit
            self.filled[key] = str(self.rng.randrange(low, high))
        return int(self.filled[key])

    def hole_dim(self) -> str:
        return str(self.number("dim", 0, self.t.dim()))

    def hole_dim2(self) -> str:
        return str(self.number("dim2", 0, self.t.dim()))

    def hole_size(self) -> str:
        return str(self.t.shape[self.number("dim", 0, self.t.dim())])

    def hole_size0(self) -> str:
        return str(self.t.shape[0])

    def hole_size_(self) -> str:
        return str(self.rng.choice([s for s in self.draw.sizes if s] or [3]))

    def hole_lo(self) -> str:
        return str(self.number("lo", 0, max(self.t.shape[0], 1)))

    def hole_hi(self) -> str:
        return str(self.number("hi", self.number("lo", 0, max(self.t.shape[0], 1)), self.t.shape[0] + 1))

    def hole_shape(self) -> str:
        count, shape = self.t.numel(), []
        if count == 0:
            return repr(tuple(reversed(self.t.shape)))
        for _ in range(self.rng.randrange(3)):
            part = self.rng.choice([n for n in range(1, min(count, 70) + 1) if count % n == 0])
            shape.append(part)
            count //= part
        return repr((*shape, count))

    def hole_strided(self) -> str:
        sizes = [self.rng.randrange(1, 5) for _ in range(self.rng.randrange(1, 4))]
        return f"{tuple(sizes)}, {tuple(self.rng.randrange(0, 8) for _ in sizes)}, {self.rng.randrange(3)}"

    def hole_perm(self) -> str:
        return repr(tuple(self.rng.sample(range(self.t.dim()), self.t.dim())))

    def indices(self, size: int, different: bool) -> str:
        if size == 0:
            raise Unfit
        count = self.rng.randrange(1, size + 1)
        return self.draw.outside([count], torch.int64, f"{'order' if different else 'below'} {size}")

    def hole_order(self) -> str:
        return self.indices(int(self.hole_size()), True)

    def hole_below(self) -> str:
        return self.indices(int(self.hole_size()), False)

    def hole_order0(self) -> str:
        return self.indices(self.t.shape[0], True)

    def hole_order1(self) -> str:
        return self.indices(self.t.shape[1], True)

    def hole_order0w(self) -> str:
        return self.draw.value(WEIGHT, [min(2, self.t.shape[0])], torch.int64, f"order {self.t.shape[0]}")

    def hole_n_order(self) -> str:
        return str(min(2, self.t.shape[0]))

    def hole_below0(self) -> str:
        return self.indices(self.t.shape[0], False)

    def along(self, index: str) -> str:
        shape = list(self.t.shape)
        shape[int(self.filled["dim"])] = len(self.draw.tensors[self.filled[index]])
        return self.fitting(shape, self.t.dtype)

    def hole_rows(self) -> str:
        return self.along("order")

    def hole_rows_below(self) -> str:
        return self.along("below")

    def hole_gather(self) -> str:
        if self.t.numel() == 0:
            raise Unfit
        return self.draw.outside(self.t.shape, torch.int64, f"below {self.hole_size()}")

    def hole_gather_once(self) -> str:
        """Indices that say no place twice: the same order for all, along dim."""
        order = self.draw.value(INPUT, [int(self.hole_size())], torch.int64, f"order {self.hole_size()}")
        at = int(self.hole_dim())
        view = f"{order}.view({', '.join('-1' if i == at else '1' for i in range(self.t.dim()))})"
        return f"{view}.expand({self.subject}.shape)"

    def last(self) -> int:
        if self.t.dim() == 0:
            raise Unfit
        return self.t.shape[-1]

    def hole_row(self) -> str:
        return self.fitting([self.last()], self.t.dtype)

    def hole_channels(self) -> str:
        return self.fitting([self.t.shape[1]], self.t.dtype)

    def hole_mat(self) -> str:
        return self.fitting([self.last(), *self.draw.shape(1)], self.t.dtype)

    def outs(self) -> int:
        if "outs_size" not in self.filled:
            self.filled["outs_size"] = str(self.draw.shape(1)[0])
        return int(self.filled["outs_size"])

    def hole_tam(self) -> str:
        return self.fitting([self.outs(), self.last()], self.t.dtype)

    def hole_bias(self) -> str:
        return self.fitting([self.outs()], self.t.dtype)

    def hole_outs(self) -> str:
        mat = self.hole_mat()
        self.filled["mat"] = mat
        columns = self.draw.tensors[mat].shape[1]
        return self.fitting(self.rng.choice([[columns], [self.t.shape[0], columns], [1, columns]]), self.t.dtype)


def statements(draw: Draw, family: str) -> list[str]:
    """Lines of one family; new names are where the templates say {new}."""
    if not FAMILIES[family]:
        return torch_complex_statements.MAKERS[family](draw)
    template = draw.rng.choice(FAMILIES[family])
    holes = Holes(draw)
    text = re.sub(r"\{([a-z]+[0-9+]?[a-z_]*)\}", holes.fill, template.removeprefix("!"))
    return [text if template.startswith("!") else "{new} = " + text]


CONTRACTING = {"matmul", "conv", "attention"}


def add(draw: Draw, family: str) -> bool:
    """Tries one statement (or a few that belong together); False if it does not fit."""
    before, count = dict(draw.tensors), len(draw.program.values)
    taken: list[str] = []
    try:
        for line in statements(draw, family):
            if line.startswith("{new} = "):
                line = line.replace("{new}", f"v{len(draw.program.statements) + len(taken)}")
            for i, name in enumerate(reversed([n for n in map(defined, taken) if n])):
                line = line.replace("{last%s}" % (i or ""), name)
            with warnings.catch_warnings(action="ignore"), torch.no_grad():
                exec(line, {"torch": torch, "F": F}, draw.tensors)
            taken.append(line)
            if draw.unwanted and re.search(draw.unwanted, line):
                raise Unfit
            name = defined(line)
            if name:
                result = draw.tensors[name]
                if not isinstance(result, torch.Tensor) or not sensible(result):
                    raise Unfit
    except (Unfit, RuntimeError, TypeError, ValueError, IndexError, AttributeError, NotImplementedError, AssertionError, SyntaxError):
        draw.tensors = before
        del draw.program.values[count:]
        return False
    draw.program.statements += taken
    if family in CONTRACTING or (family == "module"):
        draw.contractions += [name for name in map(defined, taken) if name]
    return True


def sensible(t: torch.Tensor) -> bool:
    return t.numel() <= MOST_ELEMENTS and t.dim() <= 6 and t.dtype in (*FLOATS, torch.int64, torch.int32, torch.bool, torch.uint8)


def generate(seed: int, families: list[str], features: list[str], unwanted: str = "") -> Program:
    """The program of a seed: a few families, mixed, so that their statements meet each other."""
    draw = Draw(seed, features, unwanted)
    rng = draw.rng
    for _ in range(rng.randrange(1, 4)):
        draw.value(INPUT, draw.shape(rng.choice([1, 2, 2, 2, 3, 3, 4])))
    if draw.chance(0.15):
        draw.value(INPUT, draw.shape(2), rng.choice([torch.int64, torch.int32, torch.bool]), "normal")
    if draw.chance(0.4):
        draw.value(WEIGHT, draw.shape(rng.choice([1, 2, 3])))
    mix = rng.sample(families, min(len(families), rng.randrange(2, 6)))
    if CONTRACTING & set(mix) and "epilogue" in families:
        mix += ["epilogue", "epilogue"]
    length = rng.choice([1, 2, 3, 4, 5, 6, 8, 10, 14])
    for _ in range(60):
        if len(draw.program.statements) >= length:
            break
        add(draw, rng.choice(mix))
    choose_outputs(draw)
    return draw.program


def choose_outputs(draw: Draw) -> None:
    """The last results, some others, and often what was changed from outside."""
    text = "\n".join(draw.program.statements)
    used = [v for v in draw.program.values if re.search(rf"\b{v.name}\b", text)]
    draw.program.values = used or draw.program.values[:1]
    results = [n for n in draw.tensors if n.startswith("v")]
    outputs = results[-1:]
    outputs += [n for n in results[:-1] if draw.chance(0.4)]
    outputs += [v.name for v in used if f"!{v.name}" in text or draw.chance(0.35)]
    outputs = [n for n in dict.fromkeys(outputs) if sensible(draw.tensors[n])]
    draw.rng.shuffle(outputs)
    draw.program.outputs = outputs or [draw.program.values[0].name]
