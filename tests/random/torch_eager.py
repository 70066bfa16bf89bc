"""What PyTorch answers, and how far from it a right answer may be: per element, by running again with rounding noise.

A program runs once as written and then several times with every arithmetic result multiplied by 1 ± a few rounding
steps. Where those runs differ much the problem is ill-conditioned there and a difference says little; where they agree
bit for bit (indices, copies, comparisons of exact numbers) an answer must too.
"""

import math
import re
from dataclasses import dataclass

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode

import torch_program
from torch_program import Program

# What moves, chooses or compares numbers, or rounds to integers: no noise of its own.
EXACT = set(
    """
    _index_put_impl _local_scalar_dense _to_copy _unsafe_view abs adaptive_max_pool2d all amax amin aminmax any
    arange argmax argmin as_strided_scatter bitwise_and bitwise_not bitwise_or bitwise_xor bucketize cat ceil
    channel_shuffle clamp clamp_max clamp_min clone constant_pad_nd copy copysign cummax cummin diag_embed
    diagonal_scatter embedding empty empty_like empty_strided eq eye fill flip floor fmax fmin full full_like
    gather ge gt hardshrink hardtanh heaviside index index_copy index_fill index_put index_select isfinite isin
    isinf isnan isneginf isposinf kthvalue le lift_fresh logical_and logical_not logical_or logical_xor lt
    masked_fill masked_scatter max max_pool2d_with_indices max_pool3d_with_indices maximum median min minimum
    movedim nan_to_num ne neg new_full new_ones new_zeros one_hot ones ones_like pixel_shuffle pixel_unshuffle
    positive reflection_pad1d reflection_pad2d relu relu6 repeat repeat_interleave replication_pad1d
    replication_pad2d resize roll rot90 round scalar_tensor scatter searchsorted select_scatter set_ sgn sign
    signbit slice_scatter sort stack threshold topk tril tril_indices triu triu_indices trunc unfold_copy
    upsample_nearest1d upsample_nearest2d where zero zeros zeros_like
    """.split()
)
STEPS = {torch.float64: 2.0**-53, torch.float32: 2.0**-24, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}


class Noise(TorchDispatchMode):
    """Runs operators with their results, and the operands of sums, changed by up to `steps` rounding steps of
    `unit` or of their dtype, whichever is larger, or a quarter as many of 16-bit ones. `exact`: what EXACT names is
    spared."""

    def __init__(self, unit: float, steps: float, exact: bool, seed: int) -> None:
        super().__init__()
        self.unit, self.steps, self.exact = unit, steps, exact
        self.generator = torch.Generator().manual_seed(seed)
        self.largest = 0.0  # of all finite numbers; infinite when a finite one left float16's range
        self.half = False  # some number was float16

    def shake(self, value: torch.Tensor) -> None:
        if not value.is_floating_point() or value.numel() == 0 or 0 in value.stride():
            return
        noise = torch.rand(value.shape, generator=self.generator) * 2 - 1
        unit = max(self.unit, STEPS[value.dtype])
        steps = self.steps if unit <= STEPS[torch.float32] else self.steps / 4  # approximations are of float32
        value.mul_((1 + steps * unit * noise).to(value.dtype))
        if STEPS[torch.float16] in (self.unit, STEPS[value.dtype]):  # its subnormal numbers, and what it makes 0
            value.add_(torch.where(value != 0, noise * 2.0**-23, 0.0).to(value.dtype))
            value.masked_fill_((value.abs() < 2.0**-22) & (noise < 0), 0.0)
        if value.dtype == torch.float16:  # a 0 may be what was too small
            value.masked_fill_((value == 0) & (noise > 0.5), 2.0**-24)

    def look(self, output: torch.Tensor, operands: list[torch.Tensor]) -> None:
        if not output.is_floating_point() or output.numel() == 0:
            return
        size = output.abs()
        self.largest = max(self.largest, torch.where(size.isfinite(), size, 0).max().item())
        if output.dtype == torch.float16:
            self.half = True
            if size.isinf().any() and not any(a.isinf().any() for a in operands):
                self.largest = float("inf")

    def shaken(self, value):
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            value = value.clone()
            self.shake(value)
        return value

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        schema = func._schema
        name = schema.name.removeprefix("aten::")
        written = [a.alias_info is not None and a.alias_info.is_write for a in schema.arguments]
        exact = (name.removesuffix("_") if any(written) else name) in EXACT
        exact = exact and not ("index_put" in name and len(args) > 3 and args[3])  # which accumulates
        if not exact and torch.Tag.pointwise not in func.tags and not func.is_view:
            args = [a if w else self.shaken(a) for a, w in zip(args, written, strict=False)]
        out = func(*args, **kwargs)
        outputs = [o for o in (out if isinstance(out, tuple | list) else [out]) if isinstance(o, torch.Tensor)]
        floats = [a for a in args if isinstance(a, torch.Tensor) and a.is_floating_point()]
        narrowed = any(o.is_floating_point() and STEPS[o.dtype] > STEPS[a.dtype] for o in outputs for a in floats)
        for output in outputs:
            self.look(output, floats)
        made = any(isinstance(a, torch.Tensor | list) for a in args)
        if not func.is_view and (not exact or narrowed or (not self.exact and made)):
            for output in outputs:
                self.shake(output)
        return out


class Unspecified(TorchDispatchMode):
    """Runs operators another way where PyTorch promises nothing: what is written from its own memory reads a copy
    first, a float that no integer holds becomes any integer."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        arguments = func._schema.arguments
        written = [
            a for a, s in zip(args, arguments, strict=False) if s.alias_info is not None and s.alias_info.is_write
        ]
        if written and isinstance(written[0], torch.Tensor):
            args = [a.clone() if isinstance(a, torch.Tensor) and a is not written[0] else a for a in args]
        out = func(*args, **(kwargs or {}))
        if (
            func._schema.name in ("aten::_to_copy", "aten::copy_")
            and not out.is_floating_point()
            and out.dtype != torch.bool
        ):
            source = (
                args[-1 if isinstance(args[-1], torch.Tensor) else -2]
                if func._schema.name == "aten::copy_"
                else args[0]
            )
            if source.is_floating_point():
                info = torch.iinfo(out.dtype)
                held = source.isfinite() & (source.trunc() >= info.min) & (source.trunc() <= info.max)
                out.copy_(torch.where(held, out, torch.randint_like(out, 100)))
        return out


@dataclass
class Answer:
    """Per output: PyTorch's numbers, how far they may be off, which of them nobody can tell, the rounding step of their
    dtype. Of all numbers on the way: the largest, and whether one was float16."""

    outputs: list[torch.Tensor]
    spread: list[torch.Tensor]
    unstable: list[torch.Tensor]
    steps: list[float]
    largest: float
    half: bool


def is_narrow(program: Program) -> bool:
    text = torch_program.source(program)
    return "float16" in text or ".half()" in text or any("float16" in v.dtype for v in program.values)


def widened(program: Program, values: dict[str, torch.Tensor]) -> list[torch.Tensor] | None:
    """The same in wider numbers: a program in float32 in float64, one with 16-bit dtypes in float32."""
    wide = "float32" if is_narrow(program) else "float64"
    text = torch_program.source(program).replace(".half()", ".float()")
    text = re.sub("bfloat16|float16|float32", wide, text)
    values = {n: v.to(getattr(torch, wide)) if v.is_floating_point() else v for n, v in values.items()}
    try:
        return torch_program.run(program, values, text)
    except (RuntimeError, TypeError, ValueError, IndexError):
        return None  # it makes a float32 tensor by itself


def same(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a == b) | (a.isnan() & b.isnan())


def measure(program: Program, unit: float, exact: bool, runs: list[float]) -> Answer:
    """runs: the noise of each run, in rounding steps."""
    values = torch_program.made(program)
    first = torch_program.run(program, values)
    samples = []
    try:
        with sdpa_kernel(SDPBackend.MATH), torch.backends.mkldnn.flags(enabled=False), Unspecified():
            samples.append(torch_program.run(program, values))
    except RuntimeError:
        pass  # other kernels may refuse what the first ones run, such as an empty transposed convolution
    largest = max(
        [0.0]
        + [v[v.isfinite()].abs().max().item() for v in values.values() if v.is_floating_point() and v.isfinite().any()]
    )
    half = any(v.dtype == torch.float16 for v in values.values())
    for i, steps in enumerate(runs):
        with Noise(unit, steps, exact, program.seed * 100 + i) as noise:
            samples.append(torch_program.run(program, values))
        largest, half = max(largest, noise.largest), half or noise.half
    wide = widened(program, values)
    if wide is not None and is_narrow(program):
        samples.append(wide)
        wide = None
    answer = Answer([], [], [], [], largest, half)
    for k, output in enumerate(first):
        value = output.double()
        spread, unstable = torch.zeros_like(value), torch.zeros(value.shape, dtype=torch.bool)
        if wide is not None:
            finite = value.isfinite() & wide[k].isfinite()
            value = torch.where(finite, wide[k].double(), value)
            spread = torch.where(finite, (value - output.double()).abs(), 0.0)
        for sample in samples:
            other = sample[k].double()
            both = value.isfinite() & other.isfinite()
            unstable |= ~both & ~same(value, other)
            spread = torch.where(both, torch.maximum(spread, (value - other).abs()), spread)
        largest_here = value[value.isfinite()].abs().max() if value.isfinite().any() else 0.0
        unstable |= spread > largest_here / (100 if exact else 20)  # a branch that noise may take
        answer.outputs.append(value)
        answer.steps.append(STEPS.get(output.dtype, 0.0))
        answer.spread.append(spread)
        answer.unstable.append(unstable)
    return answer


def differences(answer: Answer, found: list[torch.Tensor], unit: float) -> list[torch.Tensor]:
    """Per output, which elements are wrong."""
    tiny = 2.0**-22 if answer.half or unit == STEPS[torch.float16] else 1e-37
    wrong = []
    parts = zip(answer.outputs, answer.spread, answer.unstable, answer.steps, found, strict=True)
    for value, spread, unstable, step, output in parts:
        other = output.double()
        both = value.isfinite() & other.isfinite()
        allowed = 3 * spread
        if output.is_floating_point():
            allowed += 4 * max(unit, step) * value.abs() + tiny
        bad = torch.where(both, (value - other).abs() > allowed, ~same(value, other))
        wrong.append(bad & ~unstable)
    return wrong


def describe(wrong: torch.Tensor, value: torch.Tensor, found: torch.Tensor) -> str:
    where = wrong.nonzero()[0].tolist() if wrong.dim() else []
    a, b = value[tuple(where)].item(), found[tuple(where)].item()
    return f"{int(wrong.sum())} of {math.prod(wrong.shape)} elements, first at {where}: PyTorch {a:.8g}, npusim {b:.8g}"
