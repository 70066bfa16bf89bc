"""The templates that statements of random programs are made from, by family.

A statement is a template. Its first hole is its subject, a tensor that is there; the others are made to fit it: {x}
any subject, {f} floating, {i} integer, {b} boolean, with a digit for its rank ({f4}) or a + for at least one ({x+});
{y} what broadcasts with the subject, {same} of its shape, {mask} a boolean one, {n} a number, {p} one above 0, {k} a
small integer, {dim} and {dim2} two of its dimensions, {size} the extent of dim, {lo} < {hi} within it, {shape}
another shape of as many elements, {perm} a permutation, {order} different indices of dim, {below} any indices of it,
{rows} a tensor like the subject with as many entries in dim as {order}, {mat} a matrix for its last dimension, {row}
a vector of that length, {channels} one of dimension 1's length. A template that starts with ! is a statement and
defines nothing.
"""

TABLE = {
    "activation": """F.relu({f})|{f}.relu_()|F.relu6({f})|F.gelu({f})|F.gelu({f}, approximate='tanh')|F.silu({f})
        F.mish({f})|F.hardswish({f})|F.hardsigmoid({f})|F.hardtanh({f}, -{p}, {p})|F.leaky_relu({f}, {n})
        F.elu({f}, {p})|F.selu({f})|F.celu({f}, {p})|F.softplus({f}, {p}, {p})|F.logsigmoid({f})|F.softsign({f})
        F.tanhshrink({f})|F.hardshrink({f}, {p})|F.softshrink({f}, {p})|F.threshold({f}, {n}, {n})|{f}.sigmoid()
        {f}.tanh()|F.prelu({f2}, {channels})|F.glu({f+}, {dim})|{f}.clamp({n}, {p})|{f}.clamp(min={n})
        {f}.clamp(max={n})|{f}.clamp(-1e6, 1e6)|{f}.nan_to_num()|{f}.nan_to_num(nan={n}, posinf={n})
        F.hardshrink({f}, 5e-4)|F.threshold({f}, 5e-4, 0)|torch.round({f} * 1e-6)""",
    "pointwise": """{f}.exp()|{f}.log()|{f}.sqrt()|{f}.rsqrt()|{f}.sin()|{f}.cos()|{f}.erf()|{x}.abs()|-{f}
        {x}.square()|{f}.reciprocal()|{f}.floor()|{f}.round()|{f}.frac()|{f}.trunc()|{f}.sign()|{f}.log1p()|{f}.expm1()
        {f}.atan()|{f}.exp2()|{x} + {y}|{x} - {y}|{x} * {y}|{x} * {x}|{x} - {x}|{x} + {x}|{f} / {y}|{x} * {n}|{f} + {n}
        {n} - {f}|{f} ** 2|{f} ** {n}|torch.maximum({x}, {y})|torch.minimum({x}, {same})|torch.where({mask}, {x}, {y})
        torch.where({mask}, {f}, {n})|torch.addcmul({f}, {y}, {y})|torch.lerp({f}, {y}, {n})
        torch.addcdiv({f}, {y}, {y})|torch.add({x}, {y}, alpha={k})|torch.sub({f}, {y}, alpha={n})|torch.rsub({f}, {y})
        torch.atan2({f}, {y})|torch.copysign({f}, {y})|torch.fmod({f}, {y})|torch.remainder({f}, {p})
        torch.div({f}, {p}, rounding_mode='floor')|torch.div({f}, {y}, rounding_mode='trunc')|torch.hypot({f}, {y})
        torch.logaddexp({f}, {y})|torch.fmax({f}, {y})|{x}.clamp(max={y})|{f}.clone() * {f}
        torch.addcmul({f}, {same}, {f})|torch.lerp({f}, {same}, {f})|{f} == {f}|{x}.to(torch.float32) * {f}""",
    "logic": """{x} > {y}|{x} <= {n}|{x} == {y}|{x} != 0|{b} & {mask}|torch.bitwise_or({b}, {mask})|~{b}|{b} ^ {mask}
        {i} & {k}|{i} << 1|{i} // 2|{i} % 3|{i} + {k}|{i} * {y}|{i} - {i}|{f}.isnan()|{f}.isinf()|{f}.isfinite()
        torch.logical_and({x}, {y})|torch.logical_not({x})|{b}.any()|{b}.all()|{b}.sum()|{x+}.any({dim})
        {b}.to(torch.int64)|{f} * {mask}|torch.isin({i}, {i})|{f}.signbit()""",
    "cast": """{x}.to(torch.float32)|{x}.to(torch.float16)|{x}.to(torch.bfloat16)
        {f}.nan_to_num().clamp(-99, 99).to(torch.int64)|{f}.nan_to_num().clamp(-99, 99).to(torch.int32)
        {i}.to(torch.int64)|{x}.to(torch.bool)|{i}.to(torch.int32)|{x}.float()|{x}.half()|{f}.type_as({y})
        {f}.clamp(-99, 99).nan_to_num().long()|{f}.nan_to_num().clamp(0, 99).to(torch.uint8)""",
    "view": """{x2}.t()|{x+}.transpose({dim}, {dim2})|{x+}.permute({perm})|{x+}[{lo}:{hi}]
        {x+}.narrow({dim}, 0, {size})|{x+}.select({dim}, -1)|{x+}.unsqueeze({dim})|{x}.unsqueeze(0)|{x}.squeeze()
        {x+}.squeeze({dim})|{x+}.view(-1)|{x}.view({shape})|{x+}.unflatten({dim}, (-1, 1))|{x+}.movedim({dim}, {dim2})
        {x+}[..., ::2]|{x+}[..., 1:]|{x+}.unfold({dim}, 2, 1)|{x2}.diagonal()|{x+}.expand(2, *{x+}.shape)
        {x+}.chunk(2, {dim})[-1]|{x+}.split(2, {dim})[0]|{x+}.unbind({dim})[0]|{x+}.mT|{x}.detach()|{x}.view_as({x})
        {x+}[0]|{x+}[-1:]|{x+}[..., None]|{x+}.tensor_split(3, {dim})[1]|{x}.expand_as({same})
        {x+}.swapaxes({dim}, {dim2})|{x+}.split([1, {size} - 1], {dim})[1]|{x+}[{lo}:{hi}, ..., 0]""",
    "reshape": """{x}.reshape({shape})|{x}.reshape(-1)|{x}.flatten()|{x+}.flatten(0, {dim})|{x}.ravel()
        {x}.contiguous()|{x}.clone()|{x2}.t().reshape(-1)|{x+}.transpose({dim}, {dim2}).flatten()
        {x+}.permute({perm}).reshape({shape})|{x2}.t().ravel()|{x+}.transpose({dim}, {dim2}).contiguous()
        {x}.reshape_as({same})|{x2}.t().reshape_as({x2}.t())|{x+}[..., ::2].reshape(-1)
        torch._unsafe_view({x}, {shape})|{x+}.expand(2, *{x+}.shape).reshape(-1)|{x}.unsqueeze(0).reshape(-1)""",
    "strided": """{x}.as_strided({strided})|{x+}[1:].as_strided({strided})|{x2}.t().as_strided({strided})
        ({x2}.t() + 1).as_strided({strided})|!{x}.as_strided({strided}).mul_(2)|{x+}[..., 1:].as_strided({strided})
        !{x+}[1:].as_strided({strided}).add_({n})|{x}.clone().as_strided({strided})""",
    "inplace": """!{f}.add_({y})|!{f}.mul_({y})|!{x}.mul_({k})|!{f}.sub_({y})|!{x}.copy_({y})|!{x}.fill_({k})
        !{x}.zero_()|!{f}.clamp_({n}, {p})|!{f}.relu_()|!{f}.exp_()|!{x}.masked_fill_({mask}, {k})
        !{x+}[{lo}:{hi}].mul_(2)|!{x+}[{lo}:{hi}].copy_({x+}[{lo}:{hi}] * 2)|!{x+}[0] = {k}|!{x+}[..., {lo}:] = {n}
        !{x+}[{lo}:{hi}] = {x+}[{lo}:{hi}] + {k}|!{f+}.select({dim}, 0).add_({n})|!{x2}.t().mul_({k})
        !{x+}.transpose({dim}, {dim2}).add_({k})|!{x2}.diagonal().fill_({k})|!{f}.view(-1).mul_({n})
        !{f}.reshape(-1).mul_({n})|!{f}.flatten().add_({n})|!{f}.div_({p})|{f}.add_({n})|{f}.mul_({y})|!{f}.sigmoid_()
        !{f}.tanh_()|!{f}.neg_()|!{f+}.mT.mul_({n})|!{f}.lerp_({same}, {n})|!{f}.addcmul_({same}, {same})
        !{x+}[-1] = {x+}[0]|!{f}.pow_(2)|!{f}.mul_({f})|!{x+}.unbind({dim})[0].mul_(2)|!{f}.squeeze().mul_({n})
        !{x}.unsqueeze(0).add_({k})|!{x+}.chunk(2, {dim})[0].add_({k})|!{x+}[{lo}:{hi}][..., ::2] = {k}
        !{f}.hardtanh_()|F.relu({f}, inplace=True)|F.silu({f}, inplace=True)|!{x+}[1:].t_().add_({k})
        !{x+}.masked_scatter_({mask}, {same})""",
    "shift": """!{x+}[1:].copy_({x+}[:-1].clone())|!{x+}[1:].copy_({x+}[:-1] * 2)|!{x+}[1:] = {x+}[:-1] + {k}
        !{x+}[..., 1:] = {x+}[..., :-1] * 1|!{x+}.copy_({x+}.roll(1, {dim}))|!{x+}.copy_({x+}.flip({dim}))
        !{x+}[{lo}:{hi}].copy_({x+}[{lo}:{hi}].flip(0))|!{x2}.copy_({x2}[{order0}])
        !{x+}.index_copy_({dim}, {order}, {x+}.index_select({dim}, {order}))
        !{x+}.index_add_({dim}, {order}, {x+}.index_select({dim}, {order}))|!{x+}[:-1] += {x+}[1:].clone()
        !{x+}[1:].add_({x+}[:-1].clone())
        !{x+}.narrow({dim}, 1, {size} - 1).copy_({x+}.narrow({dim}, 0, {size} - 1) * 1)|!{x2}.copy_({x2}.t())
        !{x2}.add_({x2}.t().clone())|!{x+}[1:].copy_({x+}[:-1].roll(1, 0))|!{f+}.copy_({f+}.cumsum({dim}))
        !{x+}.mul_({x+}.flip({dim}))|!{f+}.sub_({f+}.mean({dim}, keepdim=True))
        !{f+}.div_({f+}.abs().sum({dim}, keepdim=True) + 1)|!{x2}[:, 1:].copy_({x2}[:, :-1].clone())
        !{f+}.copy_({f+}.softmax({dim}))|!{x+}[0].copy_({x+}.sum(0))""",
    "metadata": """!{x2}.t_()|!{x+}.transpose_({dim}, {dim2})|!{x}.unsqueeze_(0)|!{x}.squeeze_()|!{x+}.squeeze_({dim})
        !{x+}.swapaxes_({dim}, {dim2})|!{x+}.unsqueeze_({dim})|!{x2}.t().t_().add_({k})
        !{x+}.swapdims_({dim}, {dim2})""",
    "index": """{x+}.index_select({dim}, {below})|{x+}[{below0}]|torch.gather({x+}, {dim}, {gather})
        F.embedding({below0}, {f2})|{x+}.take_along_dim({gather}, {dim})|{x+}.index_copy({dim}, {order}, {rows})
        {x+}.index_add({dim}, {below}, {rows_below})|{x+}.index_fill({dim}, {order}, {k})
        {x+}.scatter({dim}, {gather_once}, {same})|{x+}.scatter({dim}, {gather_once}, {x+})
        {x+}.scatter_add({dim}, {gather}, {same})|{x}.masked_fill({mask}, {n})|{x2}.tril()|{x2}.triu(1)
        {x+}.masked_scatter({mask}, {same})|{x+}.roll(1, {dim})|{x+}.flip({dim})
        !{x+}.index_copy_({dim}, {order}, {rows})|!{x+}.index_add_({dim}, {below}, {rows_below})
        !{x+}.index_fill_({dim}, {order}, {k})|!{x+}.scatter_({dim}, {gather_once}, {same})
        !{x+}.scatter_add_({dim}, {gather}, {same})|!{x+}[{order0}] = {k}|!{x2}[:, {order1}] = {k}
        {x+}.index_copy({dim}, {order}, {x+}.index_select({dim}, {order}))|{x2}[{below0}, 0]
        !{x2}[{order0}] = {x2}[{order0}] * 2|torch.slice_scatter({x+}, {x+}[{lo}:{hi}] * 2, 0, {lo}, {hi})
        torch.select_scatter({x+}, {x+}[0] * 2, 0, -1)|{x+}.sort({dim}, stable=True)[0]
        !{x+}.index_put_(({order0},), {x+}[{order0}] * 3)
        !{x+}.index_put_(({below0},), {x+}[{below0}], accumulate=True)|{f+}.topk(1, {dim})[0]
        torch.repeat_interleave({x+}, 2, {dim})|{f+}.argmax({dim})|{x+}.repeat(2, *[1] * {x+}.dim())""",
    "reduce": """{f}.sum()|{f+}.sum({dim})|{f+}.mean({dim})|{f+}.mean(({dim},), keepdim=True)|{x+}.amax({dim})
        {f}.mean()|{x+}.sum({dim}, keepdim=True)|{f+}.var({dim})|{f+}.std({dim}, unbiased=False)|{f+}.max({dim})[0]
        {f+}.logsumexp({dim})|{f+}.norm(dim={dim})|{f+}.cumsum({dim})|{f+}.prod({dim})|{f+}.cumprod({dim})
        ({f} * {f}).mean(-1)|{f}.amin()|{x+}.cumsum({dim})|{f+}.max({dim})[1]|{f+}.var_mean({dim})[1]
        {f+}.cummax({dim})[0]|{f+}.logcumsumexp({dim})|{f}.max()|{f+}.flatten().cumsum(0)|{f+}.diff(dim={dim})
        {x+}.count_nonzero({dim})|{f+}.softmax({dim})|F.log_softmax({f+}, {dim})|F.softmin({f+}, {dim})
        F.normalize({f+}, dim={dim})|F.layer_norm({f+}, {f+}.shape[-1:], {row}, {row})
        F.layer_norm({f+}, {f+}.shape[-1:])|F.rms_norm({f+}, {f+}.shape[-1:], {row})
        {f+} * torch.rsqrt({f+}.square().mean(-1, keepdim=True) + 1e-5)""",
    "weights": """{w} + 1|{w} * 2|{w}.cumsum(0)|{w}.cosh()|{w}.t()|{w}.softmax(-1)|torch.zeros({x+}.shape) + {w}
        !{w}.mul_(2)|!{w}[0] = {k}|!{w}[1:].copy_({w}[:-1].clone())|{w} + {x}|{x} * {w}|{w}.clone()
        !{w}.index_copy_(0, {order0w}, {w}[{order0w}] * 2)|{w}.index_add(0, {order0w}, {w}[:{n_order}])|!{w}.add_({x})
        {w}.sum(0)|{w}.flip(0)|torch.cat([{w}, {w}])|{w}.exp()""",
    "create": """torch.zeros({shape})|torch.ones({shape}) * 2|torch.full({shape}, {n})|torch.arange({size+})
        torch.zeros_like({x})|torch.full_like({f}, {n})|torch.eye(4)|{x}.new_zeros({shape})
        torch.arange({size+}, dtype=torch.float32)|torch.ones_like({x}) + {x}|torch.linspace(0, {p}, {size+})
        {x}.new_full({shape}, {k})""",
    "join": """torch.cat([{x+}, {x+}], {dim})|torch.stack([{x}, {same}])|torch.cat([{x+}, {same}, {x+}], {dim})
        F.pad({f+}, (1, 2))|F.pad({f+}, (1, 0), value={n})|F.pad({f+}, (-1, 1))|torch.cat([{x+}[1:], {x+}[:1]])
        F.pad({f3}, (1, 1), mode='reflect')|F.pad({f4}, (1, 1, 1, 1), mode='replicate')|torch.stack([{f}, {f}], -1)
        torch.hstack([{f+}, {f+}])|torch.cat([{x+}[:0], {x+}])|F.pad({f3}, (1, 1), mode='circular')
        torch.broadcast_tensors({x}, {y})[0]""",
    "empty": """{x+}[:0]|!{x+}[:0].add_(1)|!{x+}[{size0}:].fill_(1)|!{x+}[{size0}:].mul_(2)|{x+}[:0].sum(0)
        torch.cat([{x+}[{size0}:], {x+}])|!{x+}[:0] = {k}|!{x+}[..., :0].copy_({x+}[..., :0])|{f+}[:0] * 2
        !{x+}[:0].zero_()|{f2}[:0] @ {mat}|{f+}[:0].softmax(-1)|{x+}[1:1].reshape(-1)""",
    "matmul": """{f+} @ {mat}|{f+} @ {mat}|F.linear({f+}, {tam}, {bias})|F.linear({f+}, {tam})|{f2} @ {f2}.t()
        torch.matmul({f3}, {f3}.mT)|torch.addmm({outs}, {f2}, {mat})
        torch.addmm({outs}, {f2}, {mat}, beta=0.5, alpha=2)|torch.bmm({f3}, {f3}.mT)
        torch.einsum('ij,jk->ik', {f2}, {mat})|{f2} @ {row}|torch.outer({f1}, {row})|torch.mv({f2}, {row})|{f+} @ {row}
        torch.einsum('ij,kj->ki', {f2}, {f2})|torch.dot({f1}, {f1})|torch.tensordot({f2}, {mat}, 1)|{f2}.t() @ {f2}
        ({f+} @ {mat}) * {mask_last}|({f+} @ {mat}) * 3|F.linear({f+}, {tam}, {bias}).relu()
        torch.baddbmm({f3} @ {f3}.mT, {f3}, {f3}.mT)|{f+}.mT.contiguous().mT @ {mat}""",
    "epilogue": """{c} * {c}|{c} + {c}|{c} - {c}|torch.maximum({c}, {c})|{c} == {c}|torch.addcmul({c}, {c}, {c})
        torch.lerp({c}, {y}, {c})|{c}.clone() * {c}|!{c}.mul_({c})|({c} * {c}).mean(-1)|{c} + {y}|{c} * {y}|{c} * 2
        {c}.relu()|F.gelu({c})|F.silu({c})|{c}.sigmoid() * {c}|{c}.tanh()|{c} + {same}|{c} * {mask}
        torch.where({mask}, {c}, {n})|{c}.clamp({n}, {p})|{c}.softmax(-1)|{c}.flatten().cumsum(0)
        {c}.masked_scatter({mask}, {same})|!{c}[1:].copy_({c}[:-1] * 2)|!{c}.add_({same})|!{c}[0] = 1.0|{c}.sum(-1)
        {c}.t()|{c}.reshape(-1)|{c}.to(torch.float16)|{c} * {i_scalar}|F.hardswish({c})|F.leaky_relu({c}, 0.1)
        F.elu({c})|F.hardsigmoid({c})|F.hardtanh({c})|F.relu6({c})|F.mish({c})|F.softplus({c})|{c}.nan_to_num()
        F.layer_norm({c}, {c}.shape[-1:])|{c}.abs()|{c}.exp()|{c}.sqrt()|{c}.square()|-{c}|{c}.round()|{c} > 0
        {c} / {p}|{c} ** 2|{c}.pow(3)|F.hardshrink({c}, 5e-4)|F.threshold({c}, 5e-4, 0)|torch.round({c} * 1e-6)
        {c}.clamp(-1e6, 1e6)""",
}
TEMPLATES = {
    name: [t.strip() for line in text.splitlines() for t in line.split("|") if t.strip()]
    for name, text in TABLE.items()
}
