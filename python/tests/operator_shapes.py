"""What is fixed of the calls of operators whose operands' shapes depend on each other: by the operator's name, a function
of the call (operator_calls.py) that gives some of its arguments."""

import torch
from operands import FLOATS, INTEGERS, Operand, values


def _floats(call):
    call.dtype = call.pick(FLOATS)
    return [call.pick([0, 1, 2, 3, 5, 8, 17]) for _ in range(5)]


def _products(*shapes, **more):
    """Operands of these letters' extents: b batch, m rows, n columns, k summed."""
    names = shapes

    def fixed(call):
        b, m, n, k, _ = _floats(call)
        extents = {"b": b, "m": m, "n": n, "k": k}
        found = {}
        for one in names:
            name, _, letters = one.partition(":")
            shape = [extents[letter] for letter in letters]
            found[name] = call.operand(shape if name != "self" or not more.get("added") else call.broadcast(shape))
        call.shape = (b, m, n)
        return found

    return fixed


def _convolution(dims, transposed=False):
    def fixed(call):
        _floats(call)
        groups = call.pick([1, 1, 2, 3])
        cin, cout = groups * call.integer(1, 3), groups * call.integer(1, 3)
        kernel = [call.integer(1, 3) for _ in range(dims)]
        image = [call.integer(1, 7) for _ in range(dims)]
        weight = (cin, cout // groups) if transposed else (cout, cin // groups)
        per = lambda low, high: [call.integer(low, high) for _ in range(dims)]
        call.shape = (call.integer(0, 2), cin, *image)
        fixed = {
            "input": call.operand(call.shape),
            "weight": call.operand((*weight, *kernel)),
            "bias": call.operand((cout,)) if call.pick([0, 1]) else None,
            "stride": per(1, 3),
            "padding": per(0, 2),
            "dilation": per(1, 2),
            "groups": groups,
        }
        if transposed:
            fixed["output_padding"] = [call.integer(0, 1) for _ in range(dims)]
        return fixed

    return fixed


def _pool(dims, **more):
    def fixed(call):
        call.dtype = call.pick(FLOATS)
        shape = [call.integer(0, 2), call.integer(1, 3)][call.integer(0, 1) :] + [
            call.integer(1, 7) for _ in range(dims)
        ]
        call.shape = tuple(shape)
        kernel = [call.integer(1, 3) for _ in range(dims)]
        return {
            "self": call.operand(shape),
            "input": call.operand(shape),
            "kernel_size": kernel,
            "stride": [call.integer(1, 3) for _ in range(dims)],
            "padding": [call.integer(0, k // 2) for k in kernel],
            "dilation": [1] * dims,  # a window wholly outside of the image has no largest element
            "ceil_mode": False,
            "output_size": [call.integer(1, 4) for _ in range(dims)],
        }

    return fixed


FACTORS = [0.3, 0.5, 0.9, 0.99, 1.0, 1.01, 1.1, 1.5, 2.0, 2.01, 2.2, 3.7]


def _resize(dims):
    """To a size, by factors, or both, as the exporter has it; some images are large enough for ATen's other kernel."""

    def fixed(call):
        call.dtype = call.pick(FLOATS)
        image = [call.integer(1, 6) for _ in range(dims)]
        if call.pick([True, False, False]):
            image[call.integer(0, dims - 1)] = call.pick([60, 64, 65, 124, 200])
        call.shape = (call.integer(1, 2), call.pick([1, 2, 3, 5]), *image)
        # Nearest goes by the memory format, which the IR does not say.
        tensor = (_dense(call) if "nearest" in call.packet else call.operand)(call.shape)
        factors = [call.pick(FACTORS) for _ in range(dims)]
        # Antialiasing to a width of 1 is wrong in PyTorch 2.15.
        sizes = [call.pick([call.integer(2, 8), extent, 2 * extent]) for extent in image]
        sizes = [max(size, 2) for size in sizes] if "_aa" in call.packet else sizes
        if by_factors := call.pick([True, False]):
            sizes = [int(extent * factor) for extent, factor in zip(image, factors)]
            if min(sizes) < (2 if "_aa" in call.packet else 1):
                factors, sizes = [2.0] * dims, [2 * extent for extent in image]
        vec = call.op._overloadname == "vec"
        names = {1: ["scales"], 2: ["scales_h", "scales_w"], 3: ["scales_d", "scales_h", "scales_w"]}[dims]
        return {
            "self": tensor,
            "input": tensor,
            "output_size": None if vec and by_factors else sizes,
            "scale_factors": factors if by_factors else None,
            **{name: factor if by_factors else None for name, factor in zip(names, factors)},
        }

    return fixed


def _distinct(call):
    """Elements that differ: which of equal ones comes first is not promised."""
    call.dtype = torch.float32
    call.shape = call.drawn_shape()
    seed = call.integer(0, 1000)
    return {"self": Operand(values(call.shape, call.dtype, "normal", seed)), "sorted": True}


def _sorted(name):
    def fixed(call):
        call.dtype = call.pick([torch.float32, torch.float64, torch.int64, torch.int32])
        call.shape = (call.pick([1, 2, 3, 7, 17]),)
        if call.kind == "special":
            call.kind = "whole"
        ordered = values(call.shape, call.dtype, call.kind, call.integer(0, 1000)).sort().values
        return {name: Operand(ordered), "side": None, "sorter": None}

    return fixed


def _weight_norm(call):
    call.dtype = call.pick(FLOATS)
    call.shape = tuple(call.integer(1, 4) for _ in range(call.integer(2, 4)))
    g = (call.shape[0], *(1 for _ in call.shape[1:]))  # PyTorch reads a view as if it were dense
    return {
        "v": Operand(values(call.shape, call.dtype, "normal", 2)),
        "g": Operand(values(g, call.dtype, "normal", 1)),
        "dim": 0,
    }


def _embedding(call):
    call.dtype = call.pick(FLOATS)
    rows = call.integer(1, 7)
    call.shape = (rows, call.integer(0, 5))
    return {
        "weight": call.operand(call.shape),
        "indices": call.operand(call.drawn_shape(0, 4), call.pick([torch.int64, torch.int32]), f"below:{rows}"),
        "scale_grad_by_freq": False,
        "sparse": False,
        "padding_idx": -1,
    }


def _renorm(call):
    call.dtype = call.pick(FLOATS)
    rows = call.integer(1, 7)
    call.shape = (rows, call.integer(0, 5))
    dtype = call.pick([torch.int64, torch.int32])
    return {
        "self": call.operand(call.shape, kind="normal"),
        "indices": call.operand(call.drawn_shape(0, 3), dtype, f"below:{rows}"),
        "norm_type": call.pick([1.0, 2.0, 2.5, float("inf")]),
    }


def _bins(call):
    """As many bins as minlength says."""
    count, bins = call.pick([0, 1, 7, 40]), call.integer(1, 9)
    call.shape = (count,)
    numbers = call.operand(call.shape, call.pick(INTEGERS), f"below:{bins}")
    weights = call.operand(call.shape) if call.pick([True, False]) else None
    return {"self": numbers, "weights": weights, "minlength": bins + call.integer(0, 2)}


def _ctc(call):
    call.dtype, call.kind = call.pick([torch.float32, torch.float64]), "normal"
    steps, batch, labels, longest = (call.integer(1, e) for e in (9, 3, 5, 4))
    call.shape = (steps, batch, labels)
    input_lengths = [call.integer(0, steps) for _ in range(batch)]
    target_lengths = [call.integer(0, longest) for _ in range(batch)]
    if call.packet == "_ctc_loss":  # what is beyond the lengths is nobody's
        input_lengths, target_lengths = [steps] * batch, [longest] * batch
    targets = (sum(target_lengths),) if call.pick([True, False]) else (batch, longest)
    tensors = call.op._overloadname == "Tensor"
    lengths = [Operand(torch.tensor(n)) if tensors else n for n in (input_lengths, target_lengths)]
    return {
        "log_probs": call.operand(call.shape),
        # PyTorch reads concatenated ones as if they were dense.
        "targets": Operand(
            values(targets, call.pick([torch.int64, torch.int32]), f"below:{labels}", call.integer(0, 9))
        ),
        "input_lengths": lengths[0],
        "target_lengths": lengths[1],
        "blank": call.integer(0, labels - 1),
    }


def _dense(call):
    """Operands that are no views."""
    return lambda shape, dtype=None: Operand(values(shape, dtype or call.dtype, call.kind, call.integer(0, 1000)))


def _attention(call):
    _floats(call)
    # PyTorch reads views as if they were dense where attention is not what users call.
    drawn = _dense(call) if call.packet.startswith("_") else call.operand
    batch = [call.integer(1, 2) for _ in range(2 if call.packet.startswith("_") else call.integer(0, 2))]
    q, k, d, v = (call.integer(1, 6) for _ in range(4))
    takes_groups = batch and "efficient" not in call.packet
    groups = call.pick([1, 2, 3]) if takes_groups else 1  # heads of queries for one of keys
    heads = [*batch[:-1], batch[-1] * groups] if batch else []
    call.shape = (*heads, q, d)
    causal = call.pick([True, False])
    mask = None
    if not causal and call.pick([True, False]):
        mask = drawn(call.pick([(q, k), (1, k), (*heads, q, k)]), call.pick([torch.bool, call.dtype]))
    return {
        "query": drawn(call.shape),
        "key": drawn((*batch, k, d)),
        "value": drawn((*batch, k, v)),
        "attn_mask": mask,
        "dropout_p": 0.0,
        "is_causal": causal,
        "enable_gqa": groups > 1,
        "scale": call.pick([None, 0.3, 2.0]),  # others make what a mask hides no number in some of ATen's kernels
    }


def _norm(call):
    call.dtype = call.pick(FLOATS)
    call.shape = tuple(call.integer(0 if i == 0 else 1, 4) for i in range(call.integer(2, 5)))
    groups = call.pick([g for g in range(1, call.shape[1] + 1) if call.shape[1] % g == 0])
    return {"num_groups": groups, "group": groups, "training": False, "train": False, "use_input_stats": True}


SHAPES = {
    "mm": _products("self:mk", "mat2:kn"),
    "bmm": _products("self:bmk", "mat2:bkn"),
    "addmm": _products("self:mn", "mat1:mk", "mat2:kn", added=True),
    "baddbmm": _products("self:bmn", "batch1:bmk", "batch2:bkn", added=True),
    "addbmm": _products("self:mn", "batch1:bmk", "batch2:bkn", added=True),
    "mv": _products("self:mk", "vec:k"),
    "addmv": _products("self:m", "mat:mk", "vec:k", added=True),
    "addr": _products("self:mn", "vec1:m", "vec2:n", added=True),
    "dot": _products("self:k", "tensor:k"),
    "vdot": _products("self:k", "other:k"),
    "inner": _products("self:mk", "other:nk"),
    "outer": _products("self:m", "vec2:n"),
    "matmul": _products("self:bmk", "other:kn"),
    "linear": _products("input:bmk", "weight:nk", "bias:n"),
    "embedding": _embedding,
    "embedding_renorm": _renorm,
    "bincount": _bins,
    "ctc_loss": _ctc,
    "_ctc_loss": _ctc,
    "scaled_dot_product_attention": _attention,
    "_scaled_dot_product_attention_math": _attention,
    "_scaled_dot_product_flash_attention_for_cpu": _attention,
    "_scaled_dot_product_efficient_attention": _attention,
    "group_norm": _norm,
    "native_group_norm": _norm,
    "batch_norm": _norm,
    "instance_norm": _norm,
    **{f"conv{d}d": _convolution(d) for d in (1, 2, 3)},
    **{f"conv_transpose{d}d": _convolution(d, True) for d in (1, 2, 3)},
    **{f"{kind}_pool{d}d": _pool(d) for d in (1, 2, 3) for kind in ("max", "avg", "adaptive_avg", "adaptive_max")},
    **{f"_adaptive_avg_pool{d}d": _pool(d) for d in (2, 3)},
    **{f"max_pool{d}d_with_indices": _pool(d) for d in (2, 3)},
    **{f"upsample_{kind}{d}d": _resize(d) for d in (1, 2, 3) for kind in ("nearest", "linear", "nearest_exact")},
    **{f"_upsample_nearest_exact{d}d": _resize(d) for d in (1, 2, 3)},
    "upsample_bilinear2d": _resize(2),
    "_upsample_bilinear2d_aa": _resize(2),
    "_upsample_bicubic2d_aa": _resize(2),
    **{name: _distinct for name in ("sort", "argsort", "topk", "kthvalue", "mode", "median", "nanmedian")},
    "bucketize": _sorted("boundaries"),
    "searchsorted": _sorted("sorted_sequence"),
    "isin": lambda call: {"assume_unique": False},  # else what is not unique has no defined answer
    "_weight_norm": _weight_norm,
    "_weight_norm_interface": _weight_norm,
    "upsample_bicubic2d": _resize(2),
    "upsample_trilinear3d": _resize(3),
}
