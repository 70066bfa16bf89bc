"""Operators that PyTorch gives no composition of, composed of others."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ..facts.bits import view_dtype
from .foreach import FOREACH
from .kernels import LOSSES
from .special import SPECIAL


def embedding_bag(
    weight: Tensor,  # [rows, channels]
    indices: Tensor,  # [n]
    offsets: Tensor,  # [bags], or [bags + 1] with include_last_offset: where each bag begins
    scale_grad_by_freq: bool = False,
    mode: int = 0,  # sum, mean, max
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> tuple[Tensor, ...]:
    if indices.dim() != 1:
        raise ValueError("bags are those that the offsets say")
    starts = offsets[:-1] if include_last_offset else offsets
    bags, count = starts.shape[0], indices.shape[0]
    padded = padding_idx is not None and padding_idx >= 0
    # What is behind the last offset: PyTorch leaves it out of sums and counts it in means; the largest, and bags with
    # padding, have it in the last bag. What is left out falls on a row that is no bag's.
    ends = include_last_offset and mode != 2 and not padded
    begun = torch.zeros(count + 1, dtype=torch.int64, device=indices.device)
    begins = offsets if ends else starts
    begun = begun.index_add(0, begins, torch.ones_like(begins, dtype=torch.int64))
    place = begun[:count].cumsum(0) - 1  # the last that begins here or before
    bag = place.clamp(max=bags - 1) if ends else place
    rows = weight.index_select(0, indices)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(1)
    if padded:
        kept = indices != padding_idx
        place = torch.where(kept, bag, bags)
        sizes = torch.zeros_like(starts).index_add(0, bag, kept.to(starts.dtype))
    else:
        sizes = torch.cat((starts[1:], starts.new_full((1,), count))) - starts
    shape = (bags + (ends or padded), weight.shape[1])
    if mode == 2:
        if not padded:  # PyTorch's largest is replaced by what is larger: NaN stays where it comes first, else it is none
            first = begun[:count].unsqueeze(1) > 0
            rows = torch.where(first | ~rows.isnan(), rows, float("-inf"))
        out = weight.new_full(shape, float("-inf")).index_reduce(0, place, rows, "amax")[:bags]
        out = torch.where(sizes.unsqueeze(1) > 0, out, 0.0)
    else:
        out = weight.new_zeros(shape).index_add(0, place, rows)[:bags]
    if mode == 1:
        out = out / sizes.clamp(min=1).unsqueeze(1).to(out.dtype)
    return out, bag, sizes, torch.zeros_like(starts)


def embedding_bag_padded(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: Tensor | None,
    include_last_offset: bool,
    padding_idx: int | None,
) -> tuple[Tensor, ...]:
    """With a padding that may count from the last row; below this overload -1 is none."""
    padding = None if padding_idx is None else padding_idx % weight.shape[0]
    return embedding_bag(weight, indices, offsets, False, mode, False, per_sample_weights, include_last_offset, padding)


def max_unpool2d(self: Tensor, indices: Tensor, output_size: list[int]) -> Tensor:
    """Each element where its index says within its own plane: any other fails the run."""
    planes = self.new_zeros(*self.shape[: -len(output_size)], math.prod(output_size))
    places, values = (x.flatten(-len(output_size)) for x in (indices, self))
    return planes.scatter(-1, places, values).unflatten(-1, output_size)


def max_unpool3d(self: Tensor, indices: Tensor, output_size: list[int], *_: Any) -> Tensor:
    return max_unpool2d(self, indices, output_size)


def cosine_window(*terms: float) -> Callable[..., Tensor]:
    """A window of these cosines: the first constant, the others once, twice, … around."""

    def window(
        length: int, periodic: bool = True, *given: float, dtype: Any = None, device: Any = None, **_: Any
    ) -> Tensor:
        if length < 2:
            return torch.ones(length, dtype=dtype, device=device)
        angle = torch.arange(length, dtype=torch.float64, device=device) * (2 * math.pi / (length - (not periodic)))
        found = sum((-1) ** k * a * torch.cos(angle * k) for k, a in enumerate((*given, *terms[len(given) :])))
        return found.to(dtype or torch.get_default_dtype())  # type: ignore[union-attr]

    return window


def istft(
    self: Tensor,  # [bins, frames] or [batch, bins, frames], complex
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor:
    """Frames that overlap are added, and divided by what their windows' squares add up to: NaN where that is 0, which
    PyTorch refuses."""
    if not return_complex and window is not None and window.is_complex():
        raise ValueError("the signal is real")
    hop, size, norm = hop_length or n_fft // 4, win_length or n_fft, "ortho" if normalized else "backward"
    if return_complex:
        frames = torch.fft.ifft(self, n_fft, -2, norm)
    else:
        frames = torch.fft.irfft(self[..., : n_fft // 2 + 1, :], n_fft, -2, norm)
    if window is None:
        window = torch.ones(size, dtype=frames.real.dtype, device=self.device)
    before = (n_fft - size) // 2
    window = torch.nn.functional.pad(window, (before, n_fft - size - before)).unsqueeze(1)
    whole = n_fft + hop * (self.shape[-1] - 1)
    first = n_fft // 2 if center else 0
    end = first + length if length is not None else whole - first

    def add(x: Tensor) -> Tensor:
        if x.is_complex():
            return torch.complex(add(x.real), add(x.imag))
        return torch.nn.functional.fold(x, (1, whole), (1, n_fft), stride=(1, hop)).flatten(-3)[..., first:end]

    signal = add(frames * window) / add((window * window).expand(n_fft, self.shape[-1]))
    return torch.nn.functional.pad(signal, (0, max(end - whole, 0)))


def rrelu_with_noise(
    self: Tensor, noise: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, generator: Any = None
) -> tuple[Tensor, Tensor]:
    """In training a slope is drawn for each element, and taken where that is not above 0; a model in eval() draws nothing."""
    if not training:
        return torch.nn.functional.leaky_relu(self, (lower + upper) / 2), noise.clone()
    slopes = torch.where(self <= 0, torch.ops.aten.uniform.default(noise, float(lower), float(upper)), 1.0)
    return self * slopes, slopes


def rrelu(
    self: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, generator: Any = None
) -> Tensor:
    return rrelu_with_noise(self, self, lower, upper, training)[0] if training else NotImplemented


def cauchy(self: Tensor, median: float = 0, sigma: float = 1, generator: Any = None) -> Tensor:
    """The tangent of an angle that is drawn evenly."""
    angles = torch.ops.aten.uniform.default(_to_draw(self), -math.pi / 2, math.pi / 2)
    return (median + sigma * torch.tan(angles)).to(self.dtype)


def log_normal(self: Tensor, mean: float = 1, std: float = 2, generator: Any = None) -> Tensor:
    return torch.exp(torch.ops.aten.normal_functional.default(_to_draw(self), float(mean), float(std))).to(self.dtype)


def geometric(self: Tensor, p: float, generator: Any = None) -> Tensor:
    """In which turn something with this probability happens first: what lies between two whole numbers of an exponential time."""
    times = torch.ops.aten.exponential.default(_to_draw(self), -math.log1p(-p))
    return torch.ceil(times).to(self.dtype)


def _to_draw(like: Tensor) -> Tensor:
    """What is drawn before it is computed with: whole numbers and float64 as float64, others as float32."""
    exact = like.dtype == torch.float64 or not like.is_floating_point()
    return torch.zeros_like(like, dtype=torch.float64 if exact else torch.float32)


def scalar_tensor(
    s: Any, *, dtype: torch.dtype | None = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """A number among the operands of an operator that PyTorch wrote for tensors."""
    return torch.scalar_tensor(s, dtype=dtype, device=device)


def fftfreq(n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None, **_: Any) -> Tensor:
    """The frequencies of a transform's bins: those that are below 0 come last."""
    places = [torch.arange(*ends, dtype=dtype or torch.get_default_dtype(), device=device) for ends in ((0, (n + 1) // 2), (-(n // 2), 0))]
    return torch.cat(places) * (1.0 / (n * d))


def rfftfreq(n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None, **_: Any) -> Tensor:
    return torch.arange(n // 2 + 1, dtype=dtype or torch.get_default_dtype(), device=device) * (1.0 / (n * d))


def repeat_interleave(repeats: Tensor, *, output_size: int | None = None) -> Tensor:
    """Each place as often as `repeats` says there, `output_size` in all: a run with another sum fails."""
    if output_size is None or not repeats.shape[0]:
        raise ValueError("has as many elements as values say")
    ends = torch.cumsum(repeats.to(torch.int64), 0)
    marks = torch.zeros(output_size + 1, dtype=torch.int64, device=repeats.device)
    marks = marks.index_add(0, ends.clamp(0, output_size), torch.ones_like(ends))
    places = torch.cumsum(marks, 0)[:output_size].clamp(0, repeats.shape[0] - 1).to(repeats.dtype)
    fits = torch.logical_and(ends[-1] == output_size, (repeats >= 0).all())
    return torch.ops.aten._functional_assert_async.msg(fits, "repeats_are_output_size", places)


def histc(self: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """Bins between the least and the largest element, where no range is given: as far as 1 to each side where these are one."""
    if min != max or not self.is_floating_point():
        return NotImplemented
    if not self.numel():
        return self.new_zeros(bins)
    low, high = self.amin(), self.amax()
    finite = torch.logical_and(low.isfinite(), high.isfinite())
    low = torch.ops.aten._functional_assert_async.msg(finite, "range_of_histc_is_finite", low)
    span = high - low
    at = (self - low) * bins / span
    inside = torch.logical_and(at.isfinite(), span.isfinite())  # what overflows is in none
    place = torch.where(inside, at, 0).to(torch.int64).clamp(0, bins - 1)
    place = torch.where(span == 0, bins // 2, place).flatten()
    counted = torch.logical_or(inside, span == 0).flatten().to(torch.int64)
    zeros = torch.zeros(bins, dtype=torch.int64, device=self.device)
    return zeros.index_add(0, place, counted).to(self.dtype)


def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """Between two numbers, which have no dimension to go along."""
    return (x1 - x2 + eps).abs() if x1.dim() == x2.dim() == 0 and p != 0 else NotImplemented


def ldexp(self: Tensor, other: Tensor) -> Tensor:
    """self · 2^other, rounded once, where 2^other itself is no number of the dtype; of other dtypes a power."""
    if not self.is_floating_point() or other.is_floating_point() or other.is_complex() or other.dtype == torch.bool:
        return self * torch.pow(2.0, other)
    computed = torch.float64 if self.dtype == torch.float64 else torch.float32
    low, high = (-1022, 1023) if computed == torch.float64 else (-126, 127)
    power = other.to(torch.int32).to(torch.int64)  # the C library's int
    x = self.to(computed)
    # The last factor alone may round: where one before it does, the result is 0.
    last = power.clamp(low, high)
    rest = power - last
    for part in (first := rest.clamp(low, high), (rest - first).clamp(low, high), last):
        x = x * torch.exp2(part.to(computed))
    return x.to(self.dtype)


# ---- torchvision


def roi_align(
    input: Tensor,  # [batch, channels, height, width]
    rois: Tensor,  # [regions, 5]: which of the batch, x and y of two corners
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
    aligned: bool,
) -> Tensor:
    """Bilinear samples, averaged over each bin, are a product from each side: [bins, height] of the region's own weights
    with its [height, width] image, with [width, bins]."""
    if sampling_ratio <= 0:
        raise ValueError("takes as many samples as the regions are large")
    corners = rois[:, 1:] * spatial_scale - (0.5 if aligned else 0.0)
    size = corners[:, 2:] - corners[:, :2]
    if not aligned:
        size = size.clamp(min=1.0)

    def weights(axis: int, bins: int, extent: int) -> Tensor:  # [regions, bins, extent]
        steps = (torch.arange(bins * sampling_ratio, device=rois.device) + 0.5) / (bins * sampling_ratio)
        at = corners[:, axis : axis + 1] + steps * size[:, axis : axis + 1]
        inside = (at >= -1.0) & (at <= extent)
        pixels = torch.arange(extent, device=rois.device)
        near = (1 - (at.clamp(0, extent - 1).unsqueeze(-1) - pixels).abs()).clamp(min=0) * inside.unsqueeze(-1)
        return near.reshape(-1, bins, sampling_ratio, extent).mean(2).to(input.dtype).unsqueeze(1)

    images = input.index_select(0, rois[:, 0].to(torch.int64))  # [regions, channels, height, width]
    rows = weights(1, pooled_height, input.shape[2]) @ images
    return rows @ weights(0, pooled_width, input.shape[3]).transpose(-1, -2)


def deform_conv2d(
    input: Tensor,  # [batch, channels, height, width]
    weight: Tensor,  # [out, channels / groups, *kernel]
    offset: Tensor,  # [batch, offset_groups * kernel * 2, *out]: y, x
    mask: Tensor,  # [batch, offset_groups * kernel, *out]
    bias: Tensor,
    stride_h: int,
    stride_w: int,
    pad_h: int,
    pad_w: int,
    dilation_h: int,
    dilation_w: int,
    groups: int,
    offset_groups: int,
    use_mask: bool,
) -> Tensor:
    """Four corners gathered for each place of the kernel, then a product."""
    batch, channels, height, width = input.shape
    kernel, area = weight.shape[2:], weight.shape[2] * weight.shape[3]
    high, wide = offset.shape[2:]
    offset = offset.reshape(batch, offset_groups, *kernel, 2, high, wide)

    def positions(axis: int, stride: int, pad: int, dilation: int) -> Tensor:  # [batch, groups, *kernel, *out]
        taps = torch.arange(kernel[axis], device=input.device) * dilation - pad
        places = torch.arange(offset.shape[5 + axis], device=input.device) * stride
        shape = [1] * 4
        shape[axis] = -1
        first = taps.reshape(shape)
        shape[axis], shape[2 + axis] = 1, -1
        return offset[:, :, :, :, axis] + (first + places.reshape(shape))

    y = positions(0, stride_h, pad_h, dilation_h)
    x = positions(1, stride_w, pad_w, dilation_w)
    top, left = y.floor(), x.floor()
    image = input.reshape(batch, offset_groups, channels // offset_groups, height * width)
    columns: Any = 0.0
    for down in (0, 1):
        for right in (0, 1):
            row, column = top + down, left + right
            inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
            near = (1 - (y - row).abs()) * (1 - (x - column).abs()) * inside
            if use_mask:
                near = near * mask.reshape(near.shape)
            at = row.clamp(0, height - 1).to(torch.int64) * width + column.clamp(0, width - 1).to(torch.int64)
            at = at.reshape(batch, offset_groups, 1, -1).expand(-1, -1, image.shape[2], -1)
            columns = columns + image.gather(3, at) * near.reshape(batch, offset_groups, 1, -1)
    columns = columns.reshape(batch, groups, channels // groups * area, high * wide)
    found = weight.reshape(1, groups, weight.shape[0] // groups, -1) @ columns
    return found.reshape(batch, -1, high, wide) + bias.reshape(1, -1, 1, 1)


HAMMING = ("periodic_alpha", "periodic_alpha_beta")
COMPOSITIONS: dict[str, Callable[..., Any]] = {
    "aten.embedding_bag.padding_idx": embedding_bag_padded,
    "aten.embedding_bag.default": embedding_bag,
    "aten._embedding_bag.default": embedding_bag,
    "aten._embedding_bag_forward_only.default": embedding_bag,
    **{f"aten.hamming_window.{o}": cosine_window(0.54, 0.46) for o in ("default", "periodic", *HAMMING)},
    **{f"aten.blackman_window.{o}": cosine_window(0.42, 0.5, 0.08) for o in ("default", "periodic")},
    "aten.istft.default": istft,
    "prims.scalar_tensor.default": scalar_tensor,
    "aten.rrelu_with_noise_functional.default": rrelu_with_noise,
    "aten.rrelu.default": rrelu,
    "aten.cauchy.default": cauchy,
    "aten.log_normal.default": log_normal,
    "aten.geometric.default": geometric,
    "aten.max_unpool2d.default": max_unpool2d,
    "aten.max_unpool3d.default": max_unpool3d,
    "aten.fft_fftfreq.default": fftfreq,
    "aten.fft_rfftfreq.default": rfftfreq,
    "aten.view.dtype": view_dtype,
    "aten._efficientzerotensor.default": torch.zeros,  # as memory that eager PyTorch saves
    "aten._neg_view.default": lambda self: self.neg(),
    "aten.repeat_interleave.Tensor": repeat_interleave,
    "aten.histc.default": histc,
    "aten.ldexp.Tensor": ldexp,
    "aten.pairwise_distance.default": pairwise_distance,
    "aten._is_all_true.default": lambda self: self.all(),
    "aten._is_any_true.default": lambda self: self.any(),
    "torchvision.roi_align.default": roi_align,
    "torchvision.deform_conv2d.default": deform_conv2d,
    **SPECIAL,
    **FOREACH,
    **LOSSES,
}
