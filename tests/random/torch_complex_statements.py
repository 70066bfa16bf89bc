"""Statements whose parts have to fit each other: convolutions, normalisations, pooling, attention, blocks of models.

Each maker gives lines; {new} is the name a line defines, {last} the one that the line before it defined, {last1} the
one before that.
"""

import torch

from torch_program import INPUT, WEIGHT

ACTIVATIONS = [
    "F.relu({last})",
    "F.relu6({last})",
    "F.silu({last})",
    "F.gelu({last})",
    "F.hardswish({last})",
    "{last}.sigmoid()",
    "F.leaky_relu({last}, 0.1)",
    "F.hardsigmoid({last})",
    "{last}.tanh()",
    "F.elu({last})",
    "F.mish({last})",
    "{last}.clamp(-1, 1)",
    "F.hardtanh({last})",
    "F.softplus({last})",
    "{last} * {last}",
    "{last} + 1",
    "{last} * 0.5",
    "{last}.abs()",
    "F.relu_({last})",
    "{last}.square()",
    "{last}.exp()",
]


def activation(draw) -> str:
    return "{new} = " + draw.rng.choice(ACTIVATIONS)


def image(draw, rank: int) -> str:
    """A floating tensor [n, c, spatial…], there or new."""
    there = [n for n, t in draw.tensors.items() if t.dim() == rank + 2 and t.is_floating_point() and t.numel()]
    if there and draw.chance(0.7):
        return draw.rng.choice(there[-3:])
    rng = draw.rng
    channels = rng.choice([1, 2, 3, 4, 6, 8, 16, 24, 32])
    extent = {1: [5, 9, 16, 40], 2: [1, 4, 7, 8, 14, 20], 3: [3, 5, 6]}[rank]
    return draw.value(INPUT, [rng.choice([1, 1, 2, 3]), channels, *(rng.choice(extent) for _ in range(rank))])


def convolution(draw) -> list[str]:
    rng = draw.rng
    rank = rng.choice([1, 2, 2, 2, 2, 2, 3])
    x = image(draw, rank)
    t = draw.tensors[x]
    channels = t.shape[1]
    kernel = [
        rng.choice([1, 1, 2, 3, 3, 3, 3, 5, 7, 9, 11]) if rank < 3 else rng.choice([1, 2, 3]) for _ in range(rank)
    ]
    if draw.chance(0.7):
        kernel = kernel[:1] * rank
    dilation = rng.choice([1, 1, 1, 1, 2, 3, 6])
    stride = rng.choice([1, 1, 1, 2, 3])
    padding = rng.choice([0, dilation * (kernel[0] // 2), dilation * (kernel[0] // 2), 1, kernel[0]])
    groups = rng.choice([1, 1, 1, channels, *(g for g in (2, 3, 4, 8) if channels % g == 0)])
    out = groups * rng.choice([1, 2, 4, 8]) if groups > 1 else rng.choice([1, 3, 4, 8, 16, 32, channels])
    bias = draw.value(WEIGHT, [out], t.dtype) if draw.chance(0.6) else "None"
    kind = rng.choice(["small", "normal"])  # 0 of a padding times infinity: kernels differ
    if draw.chance(0.15):  # transposed
        weight = draw.value(WEIGHT, [channels, out // groups, *kernel], t.dtype, kind)
        padded = f"{min(padding, 1)}, {min(stride - 1, 1)}"
        call = f"F.conv_transpose{rank}d({x}, {weight}, {bias}, {stride}, {padded}, {groups}, {dilation})"
    else:
        weight = draw.value(WEIGHT, [out, channels // groups, *kernel], t.dtype, kind)
        padding = rng.choice(["'same'", "'valid'"]) if stride == 1 and draw.chance(0.1) else padding
        call = f"F.conv{rank}d({x}, {weight}, {bias}, {stride}, {padding}, {dilation}, {groups})"
    lines = ["{new} = " + call]
    if draw.chance(0.4):
        lines.append(normalise(draw, out, t.dtype))
    if draw.chance(0.5):
        lines.append(activation(draw))
    if draw.chance(0.4):
        lines.append(residual(draw, x, lines))
        if draw.chance(0.5):
            lines.append(activation(draw))
    return lines


def residual(draw, x: str, lines: list[str]) -> str:
    other = draw.rng.choice(
        [x, x, "{last}", "torch.ones_like({last})", "{last}.flip(-1)", "{last}.mean((-1,), keepdim=True)"]
    )
    return draw.rng.choice(
        [
            f"{{new}} = {{last}} + {other}",
            f"{{new}} = {{last}} + {other}",
            f"{{last}}.add_({other})",
            f"{{new}} = {other} * {{last}}",
            f"{{new}} = {{last}} - {other}",
            f"{{new}} = torch.add({other}, {{last}}, alpha=2)",
        ]
    )


def normalise(draw, channels: int, dtype) -> str:
    make = lambda kind: draw.value(WEIGHT, [channels], dtype, kind)  # noqa: E731
    affine = f"{make('normal')}, {make('normal')}" if draw.chance(0.8) else "None, None"
    statistics = f"{make('normal')}, {make('positive')}"
    return f"{{new}} = F.batch_norm({{last}}, {statistics}, {affine}, eps=1e-{draw.rng.choice([3, 5])})"


def norm(draw) -> list[str]:
    rng = draw.rng
    x = draw.pick(lambda t: t.is_floating_point() and t.dim() >= 2)
    t = draw.tensors[x]
    channels = t.shape[1]
    kind = rng.choice(["batch", "group", "instance", "layer", "rms", "scale"])
    vector = lambda n, kind="normal": draw.value(WEIGHT, [n], t.dtype, kind)  # noqa: E731
    if kind == "batch":
        return [normalise(draw, channels, t.dtype).replace("{last}", x)]
    if kind == "group":
        groups = rng.choice([g for g in (1, 2, 3, 4, channels) if g and channels % g == 0])
        return [f"{{new}} = F.group_norm({x}, {groups}, {vector(channels)}, {vector(channels)})"]
    if kind == "instance":
        return [f"{{new}} = F.instance_norm({x})"]
    if kind == "layer":
        return [f"{{new}} = F.layer_norm({x}, [{t.shape[-1]}], {vector(t.shape[-1])}, {vector(t.shape[-1])})"]
    if kind == "rms":
        return [
            f"{{new}} = {x}.float().pow(2).mean(-1, keepdim=True)",
            f"{{new}} = {x} * torch.rsqrt({{last}} + 1e-6)",
            f"{{new}} = {vector(t.shape[-1])} * {{last}}.to({x}.dtype)",
        ]
    return [f"{{new}} = {x} * {vector(t.shape[-1])} + {vector(t.shape[-1])}"]


def pool(draw) -> list[str]:
    rng = draw.rng
    rank = rng.choice([1, 2, 2, 2])
    x = image(draw, rank)
    kernel, stride = rng.choice([1, 2, 3]), rng.choice([1, 2, 3])
    padding = rng.randrange(kernel // 2 + 1)
    mode = {1: "linear", 2: rng.choice(["bilinear", "bicubic"])}[rank]
    smooth = draw.tensors[x].isfinite().all()  # PyTorch's own kernels differ in what a neighbour of weight 0 does
    align, count = rng.choice(["True", "False"]), rng.choice(["True", "False"])
    if smooth and draw.chance(0.3):
        size = rng.choice([f"size={(3, 5)[:rank]}", "scale_factor=2"])
        how = rng.choice(["", f", mode='{mode}'", f", mode='{mode}', align_corners={align}"])
        return [f"{{new}} = F.interpolate({x}, {size}{how})"]
    return [
        "{new} = "
        + rng.choice(
            [
                f"F.max_pool{rank}d({x}, {kernel}, {stride}, {padding}, ceil_mode={align})",
                f"F.avg_pool{rank}d({x}, {kernel}, {stride}, {padding}, ceil_mode={align}, count_include_pad={count})",
                f"F.adaptive_avg_pool{rank}d({x}, {rng.choice([1, 2, 3])})",
                f"F.adaptive_max_pool{rank}d({x}, {rng.choice([1, 2, 3])})",
                f"F.max_pool{rank}d({x}, {kernel}, {stride}, dilation=2)",
                f"{x}.mean({tuple(range(2, rank + 2))}, keepdim=True)",
                f"F.unfold({x}, 2)" if rank == 2 else f"F.pad({x}, (1, 1))",
            ]
        )
    ]


def attention(draw) -> list[str]:
    rng = draw.rng
    batch, heads, rows, keys, width = (
        rng.choice([1, 2]),
        rng.choice([1, 2, 4]),
        rng.choice([1, 3, 8, 17, 40]),
        rng.choice([1, 5, 8, 33]),
        rng.choice([1, 4, 8, 16]),
    )
    grouped = heads > 1 and draw.chance(0.2)
    dtype, value_width = draw.dtype, rng.choice([width, width, 6])
    kv = 1 if grouped else heads
    special = "special" if "special" in draw.kinds and draw.chance(0.5) else None
    q = draw.value(INPUT, [batch, heads, rows, width], dtype, "normal")
    k = draw.outside([batch, kv, keys, width], dtype, special or "normal")
    v = draw.outside([batch, kv, keys, value_width], dtype, special or "normal")
    mask_shape = rng.choice([[rows, keys], [1, 1, rows, keys], [batch, 1, 1, keys], [batch, heads, rows, keys]])
    mask = rng.choice(["None", "None", "float", "bool"])
    if mask == "float":
        mask = draw.outside(mask_shape, dtype, rng.choice(["masked", "normal"]))
    elif mask == "bool":
        mask = draw.outside(mask_shape, torch.bool, "normal")
    lines = []
    if draw.chance(0.6):
        flags = ", is_causal=True" if mask == "None" and draw.chance(0.4) else ""
        flags += rng.choice(["", "", ", scale=0.5"]) + (", enable_gqa=True" if grouped else "")
        by_name = "attn_mask=" if mask != "None" and draw.chance(0.5) else ""
        lines.append(f"{{new}} = F.scaled_dot_product_attention({q}, {k}, {v}, {by_name}{mask}{flags})")
    else:
        scale = rng.choice(["* 0.25", f"/ {width**0.5}", ""])
        lines.append(f"{{new}} = {q} @ {k}.transpose(-1, -2) {scale}".rstrip())
        if mask in draw.tensors and draw.tensors[mask].dtype == torch.bool:
            lines.append(
                rng.choice(
                    [
                        f"{{new}} = {{last}}.masked_fill({mask}, float('-inf'))",
                        f"{{new}} = torch.where({mask}, {{last}}, -1e9)",
                    ]
                )
            )
        elif mask in draw.tensors:
            lines.append(f"{{new}} = {{last}} + {mask}")
        lines.append(
            rng.choice(
                ["{new} = {last}.softmax(-1)", "{new} = F.softmax({last}, -1, dtype=torch.float32).to(%s.dtype)" % q]
            )
        )
        if draw.chance(0.15):
            lines.append("{new} = {last} * 2")
        lines.append(f"{{new}} = {{last}} @ {v}")
    if draw.chance(0.5):
        lines.append(
            rng.choice(
                [
                    "{new} = {last}.transpose(1, 2).flatten(2)",
                    "{new} = {last} * {last}",
                    "{new} = {last} + {last}",
                    "{new} = F.gelu({last})",
                    "{new} = {last}.transpose(1, 2).reshape(-1, %d)" % value_width,
                    "{last}.mul_(2)",
                ]
            )
        )
    return lines


def block(draw) -> list[str]:
    """A piece of a model: a cache that moves on, a gated MLP, a squeeze and excitation, rotary angles, a loop."""
    rng = draw.rng
    kind = rng.choice(["cache", "mlp", "squeeze", "rotary", "steps", "positions", "heads"])
    width = rng.choice([4, 8, 16, 32])
    if kind == "cache":
        size = rng.choice([8, 16])
        at = rng.randrange(1, size - 4)
        cache = draw.value(INPUT, [2, 3, size, width])
        position = draw.value(INPUT, [1], torch.int64, f"order {size}")
        new = draw.value(INPUT, [2, 3, 1, width])
        return [
            rng.choice(
                [
                    f"{cache}.index_copy_(2, {position}, {new} * 2)",
                    f"{cache}[:, :, {at}:{at + 4}] = {cache}[:, :, {at - 1}:{at + 3}] * 1.0",
                    f"{cache}[:, :, {at}:{at + 1}] = {new}",
                    f"{cache}.copy_(torch.cat([{cache}[:, :, 1:], {new}], 2))",
                    f"{cache}[:, :, :-1] = {cache}[:, :, 1:].clone()",
                ]
            ),
            f"{{new}} = F.scaled_dot_product_attention({new}, {cache}, {cache})",
        ]
    if kind == "positions":
        x, p = draw.value(INPUT, [3, 7], torch.int64, "below 20"), draw.value(WEIGHT, [20, width])
        return [
            f"{{new}} = F.embedding({x}, {p})",
            f"{{new}} = {{last}} + {p}[:7]",
            "{new} = F.layer_norm({last}, [%d])" % width,
            f"{{new}} = {{last}} @ {p}.t()",
        ]
    x = draw.value(INPUT, [2, 5, width])
    weight = lambda *shape: draw.value(WEIGHT, list(shape))  # noqa: E731
    if kind == "mlp":
        return [
            f"{{new}} = F.linear({x}, {weight(24, width)})",
            f"{{new}} = F.linear({x}, {weight(24, width)}) * F.silu({{last}})",
            f"{{new}} = F.linear({{last}}, {weight(width, 24)}, {weight(width)})",
            f"{{new}} = {x} + {{last}}",
        ]
    if kind == "squeeze":
        y = draw.value(INPUT, [2, width, 6, 6])
        return [
            f"{{new}} = F.conv2d({y}, {weight(width, width, 3, 3)}, None, 1, 1)",
            "{new} = F.adaptive_avg_pool2d({last}, 1)",
            f"{{new}} = F.conv2d({{last}}, {weight(width, width, 1, 1)}).sigmoid()",
            f"{{new}} = {{last}} * {{last2}} + {y}",
        ]
    if kind == "rotary":
        half = width // 2
        return [
            f"{{new}} = torch.cat([-{x}[..., {half}:], {x}[..., :{half}]], -1)",
            f"{{new}} = {x} * {weight(5, width)}.cos() + {{last}} * {weight(5, width)}.sin()",
        ]
    if kind == "heads":
        return [
            f"{{new}} = F.linear({x}, {weight(3 * width, width)}, {weight(3 * width)})",
            "{new} = {last}.view(2, 5, 3, 2, %d).permute(2, 0, 3, 1, 4)" % (width // 2),
            "{new} = F.scaled_dot_product_attention({last}[0], {last}[1], {last}[2])",
            "{new} = {last}.transpose(1, 2).reshape(2, 5, %d)" % width,
            f"{{new}} = {x} + F.linear({{last}}, {weight(width, width)})",
        ]
    state = draw.value(INPUT, [2, width])
    w = weight(width, width)
    lines = [f"{{new}} = torch.tanh({state} @ {w} + {x}[:, 0])"]
    for i in range(1, 4):
        lines.append(f"{{new}} = torch.tanh({{last}} @ {w} + {x}[:, {i}])")
    return lines + [
        rng.choice(
            ["{new} = torch.stack([{last}, {last1}, {last2}], 1)", f"{state}.copy_({{last}})", f"{x}[:, 1] = {{last}}"]
        )
    ]


MAKERS = {"conv": convolution, "norm": norm, "pool": pool, "attention": attention, "module": block}
