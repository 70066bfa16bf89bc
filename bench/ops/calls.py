"""One call of each operator at a given size: arguments that a table gives where operands' shapes depend on each other,
and else matrices."""

import functools
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python/tests"))  # operands, and calls as IR

from operands import Operand, values
from operator_calls import Call, Unfit

SIZES = ("small", "medium", "large")
MATRIX = ((32, 32), (256, 256), (1024, 2048))  # large: 8 MB of float32
SIGNAL = ((1, 8, 128), (1, 32, 2048), (4, 64, 8192))
IMAGE = ((1, 3, 16, 16), (1, 32, 48, 48), (2, 64, 128, 128))
VOLUME = ((1, 2, 8, 8, 8), (1, 8, 20, 20, 20), (1, 16, 50, 50, 50))
IMAGES = {1: SIGNAL, 2: IMAGE, 3: VOLUME}
DTYPES = (torch.float32, torch.int64, torch.bool)


class SizedCall(Call):
    """A Call that draws nothing. `size` counts in SIZES."""

    def __init__(self, op: torch._ops.OpOverload, size: int, dtype: torch.dtype) -> None:
        self.op, self.size, self.dtype, self.kind = op, size, dtype, "normal"
        self.named: dict[str, Any] = {}
        self.packet = op._schema.name.split("::")[1].rstrip("_")
        self.seed = 0
        self.shape = MATRIX[size]
        self.fixed = TABLE.get(self.packet, lambda call: {})(self)
        self.args = [self.argument(arg) for arg in op._schema.arguments]

    def made(self, shape, dtype=None, kind="normal") -> Operand:
        self.seed += 1
        return Operand(values(tuple(shape), dtype or self.dtype, kind, self.seed))

    def argument(self, arg):
        value = self.fixed[arg.name] if arg.name in self.fixed else self.usual(arg)
        self.named[arg.name] = value
        return value

    def usual(self, arg):
        kind, optional = arg.type, False
        while isinstance(kind, torch._C.OptionalType):
            kind, optional = kind.getElementType(), True
        if arg.has_default_value():  # of a dtype its number
            return torch.int64 if arg.name == "dtype" and arg.default_value is not None else arg.default_value
        if optional or arg.name in ("layout", "device", "generator"):
            return None
        if arg.name in ("dtype", "out_dtype"):
            return torch.float32
        if isinstance(kind, torch._C.ListType):
            if "Tensor" in str(kind.getElementType()):
                return [self.made(self.shape), self.made(self.shape)]
            return self.usual_list(arg.name, str(kind.getElementType()))
        if isinstance(kind, torch._C.TensorType):
            return self.usual_tensor(arg.name)
        return self.usual_number(arg.name, str(kind))

    def usual_tensor(self, name):
        if name in ("index", "indices"):
            return self.made(self.shape, torch.int64, f"below:{self.shape[self.named.get('dim', 0)]}")
        if name in ("condition", "mask"):
            return self.made(self.shape, torch.bool)
        return self.made(self.shape)

    def usual_list(self, name, element):
        rank = len(self.shape)
        if name in ("dim", "dims") and self.packet not in ("permute", "permute_copy"):
            return [rank - 1]
        if name in ("dims", "dim"):
            return list(range(rank))[::-1]
        if name in ("size", "shape"):
            return list(self.shape)
        if name == "normalized_shape":
            return [self.shape[-1]]
        if name in ("split_sizes",):
            return [self.shape[0] // 2, self.shape[0] - self.shape[0] // 2]
        if name == "pad":
            return [1, 2, 1, 1]
        return [1.0] if element == "float" else [1]

    def usual_number(self, name, text):
        if text == "bool":
            return False
        if text in ("int", "SymInt"):
            if name.startswith("dim") or name == "axis":
                return {"dim0": 0, "dim1": 1, "dim2": 1}.get(name, len(self.shape) - 1)
            usual = {"k": 5, "sections": 2, "chunks": 2, "split_size": 7, "n": self.shape[0], "groups": 2, "index": 1}
            return usual.get(name, 1)
        if text in ("number", "Scalar", "float"):
            whole = not self.dtype.is_floating_point
            return 3 if whole else {"eps": 1e-5, "p": 0.5 if "dropout" in self.packet else 2.0}.get(name, 0.7)
        if text == "str":
            return {"reduce": "amax", "rounding_mode": "floor", "indexing": "ij"}.get(name, "none")
        raise Unfit(f"{name}: {text}")


def _like(**shapes) -> Callable:
    """Operands of these letters' extents: b batch, m rows, n columns, k summed."""

    def fixed(call):
        extents = dict(zip("bmnk", ((2, 16, 24, 32), (4, 128, 192, 256), (8, 512, 512, 512))[call.size]))
        if "b" not in "".join(shapes.values()):
            extents = dict(zip("mnk", ((32, 48, 64), (256, 256, 256), (1024, 1024, 1024))[call.size]))
        return {name: call.made([extents[letter] for letter in letters]) for name, letters in shapes.items()}

    return fixed


def _conv(dims, transposed=False):
    def fixed(call):
        batch, channels, *image = IMAGES[dims][call.size]
        image = [max(8, extent // 2) for extent in image] if transposed or dims == 3 else image
        out = 2 * channels if call.size < 2 else channels
        kernel = [(4, 4, 4)[call.size] if transposed else 3] * dims
        weight = (channels, out, *kernel) if transposed else (out, channels, *kernel)
        return {
            "input": call.made((batch, channels, *image)),
            "weight": call.made(weight),
            "bias": call.made((out,)),
            "stride": [2 if transposed else 1] * dims,
            "padding": "same" if call.op._overloadname == "padding" or "mode" in call.packet else [1] * dims,
            "dilation": [1] * dims,
            "output_padding": [0] * dims,
            "transposed": transposed,
            "groups": 1,
            "benchmark": False,
            "deterministic": False,
            "cudnn_enabled": True,
            "allow_tf32": True,
        }

    return fixed


def _pool(dims):
    def fixed(call):
        image = call.made(IMAGES[dims][call.size])
        names = {"kernel_size": [3] * dims, "stride": [2] * dims, "padding": [1] * dims, "output_size": [5] * dims}
        return {"self": image, "input": image, "dilation": [1] * dims, "ceil_mode": False, **names}

    return fixed


def _resize(dims, factor=2):
    def fixed(call):
        shape = IMAGES[dims][call.size]
        if call.size == 2:
            shape = (*shape[:2], *(extent // 2 for extent in shape[2:]))
        image = call.made(shape)
        return {
            "self": image,
            "input": image,
            "output_size": [factor * extent for extent in shape[2:]],
            "scale_factors": None,
            "align_corners": False,
        }

    return fixed


def _image(dims=2, **more):
    def fixed(call):
        call.shape = IMAGES[dims][call.size]
        image = call.made(call.shape)
        return {"self": image, "input": image} | {name: one(call) if callable(one) else one for name, one in more.items()}

    return fixed


def _pads(dims):
    return _image(dims, padding=[2, 1] * dims)


def _norm(call):
    call.shape = ((1, 4, 16, 16), (1, 32, 48, 48), (4, 32, 128, 128))[call.size]
    channels = call.shape[1]
    per = lambda kind="normal": call.made((channels,), kind=kind)
    image = call.made(call.shape)
    batch, _, *pixels = call.shape
    return {
        "input": image,
        "self": image,
        "weight": per(),
        "bias": per(),
        "running_mean": per(),
        "running_var": per("positive"),
        "training": False,
        "use_input_stats": True,
        "momentum": 0.1,
        "eps": 1e-5,
        "cudnn_enabled": False,
        "num_groups": 4,
        "group": 4,
        "N": batch,
        "C": channels,
        "HxW": math.prod(pixels),
    }


def _rows(call):
    """Normalization over rows."""
    columns = call.shape[-1]
    return {"weight": call.made((columns,)), "bias": call.made((columns,)), "normalized_shape": [columns], "eps": 1e-5}


def _recurrent(gates):
    def fixed(call):
        steps, batch, width = ((10, 1, 16), (100, 1, 64), (100, 16, 256))[call.size]
        state = lambda: call.made((1, batch, width))
        small = lambda *shape: Operand(call.made(shape).base * 0.1)
        return {
            "input": call.made((steps, batch, width)),
            "hx": [state(), state()] if gates == 4 else state(),
            "params": [small(gates * width, width), small(gates * width, width), small(gates * width), small(gates * width)],
            "has_biases": True,
            "num_layers": 1,
            "dropout": 0.0,
            "train": False,
            "bidirectional": False,
            "batch_first": False,
        }

    return fixed


def _attention(call):
    batch, heads, length, width = ((1, 2, 32, 16), (1, 8, 128, 64), (2, 12, 512, 64))[call.size]
    one = lambda: call.made((batch, heads, length, width))
    fixed = {"query": one(), "key": one(), "value": one(), "dropout_p": 0.0, "is_causal": False}
    return fixed | {"attn_bias": None, "compute_log_sumexp": False}


def _distinct(call, shape, count):
    """Places of which none comes twice along the first dimension: where one did, PyTorch says not which value stays."""
    drawn = torch.rand((count, *shape[1:]), generator=torch.Generator().manual_seed(5))
    return Operand(drawn.argsort(0)[: shape[0]])


def _indexed(distinct=False):
    """self, index and source along the first dimension."""

    def fixed(call):
        rows = call.shape[0]
        index = _distinct(call, (rows,), rows) if distinct else call.made((rows,), torch.int64, f"below:{rows}")
        fixed = {"dim": 0, "index": index, "source": call.made(call.shape), "reduce": "amax"}
        return fixed | {"value": call.made(()) if call.op._overloadname == "int_Tensor" else 0.7}

    return fixed


def _scattered(call):
    fixed = {"dim": 0, "value": 0.7, "reduce": "add"}
    return fixed | ({"index": _distinct(call, call.shape, call.shape[0])} if call.op._overloadname == "src" else {})


def _near_one(call):
    """What has a product that is a number."""
    return {"self": Operand(call.made(call.shape, torch.float32, "positive").base * 0.02 + 0.99)}


def _list_index(call):
    index = _distinct(call, call.shape[:1], call.shape[0])
    fixed = {"indices": [index], "values": call.made(call.shape), "accumulate": False, "unsafe": False}
    return fixed | {"mask": call.made((call.shape[0],), torch.bool), "fill": 0.0}


def _whole(call):
    """Elements picked and put by their place among all."""
    index = Operand(_distinct(call, (math.prod(call.shape),), math.prod(call.shape)).base.reshape(call.shape))
    return {"index": index, "indices": index, "source": call.made(call.shape)}


def _sorted(name, other):
    def fixed(call):
        ordered = values((((16, 256, 4096))[call.size],), torch.float32, "normal", 1).sort().values
        value = 0.5 if call.op._overloadname == "Scalar" else call.made(call.shape)
        return {name: Operand(ordered), other: value, "sorter": None}

    return fixed


def _embedding(call):
    rows, width, count = ((64, 16, 32), (1000, 64, 256), (30000, 768, 2048))[call.size]
    weight, indices = call.made((rows, width)), call.made((count,), torch.int64, f"below:{rows}")
    return {"weight": weight, "self": weight, "indices": indices, "max_norm": 1.0, "norm_type": 2.0}


def _grid(dims):
    def fixed(call):
        shape = IMAGES[dims][call.size]
        at = Operand(values((shape[0], *shape[2:], dims), torch.float32, "positive", 3) * 2 - 1)
        modes = {"interpolation_mode": 0, "padding_mode": 0, "align_corners": False}
        return {"input": call.made(shape), "grid": at} | modes

    return fixed


def _distances(call):
    rows, width = ((32, 8), (128, 32), (1024, 128))[call.size]
    fixed = {"x1": call.made((rows, width)), "x2": call.made((rows, width)), "p": 2.0, "compute_mode": None}
    return fixed | {"self": fixed["x1"], "other": fixed["x2"]}


def _columns(back):
    def fixed(call):
        batch, channels, high, wide = IMAGE[call.size]
        shape = (batch, channels * 9, high * wide) if back else (batch, channels, high, wide)
        more = {"dilation": [1, 1], "padding": [1, 1], "stride": [1, 1]}
        return {"self": call.made(shape), "output_size": [high, wide], "kernel_size": [3, 3]} | more

    return fixed


def _losses(call):
    steps, batch, classes = ((16, 1, 8), (50, 2, 32), (100, 8, 64))[call.size]
    scores = Operand(call.made((steps, batch, classes)).base.log_softmax(-1))
    targets = Operand(values((batch, steps // 4), torch.int64, f"below:{classes - 1}", 2) + 1)
    lengths = ([steps] * batch, [steps // 4] * batch)
    if call.op._overloadname == "Tensor":
        lengths = tuple(Operand(torch.tensor(one)) for one in lengths)
    return {"log_probs": scores, "targets": targets, "input_lengths": lengths[0], "target_lengths": lengths[1]}


def _view_of(call):
    rows, columns = call.shape
    return {
        "size": [columns, rows] if call.packet != "expand" else [2, rows, columns],
        "dim": [1, 0] if "permute" in call.packet else 1,
        "dims": [1, 0],
        "stride": [rows, 1],
        "sizes": [rows // 2, 2],
        "other": call.made((columns, rows)),
    }


def _other(**fixed):
    return lambda call: {name: one(call) if callable(one) else one for name, one in fixed.items()}


def _square(call):
    return {"self": call.made((MATRIX[call.size][0],) * 2)}


def _vector(*names, extent=math.prod):
    return lambda call: {name: call.made((extent(call.shape),)) for name in names}


@functools.cache
def _table() -> dict[str, Callable]:
    view = ("view", "reshape", "_unsafe_view", "view_copy", "permute", "permute_copy", "view_as", "reshape_as")
    triple = (1, 2, 3)
    table: dict[str, Callable] = {
        "mm": _like(self="mk", mat2="kn"),
        "bmm": _like(self="bmk", mat2="bkn"),
        "addmm": _like(self="mn", mat1="mk", mat2="kn"),
        "_addmm_activation": _like(self="n", mat1="mk", mat2="kn"),
        "baddbmm": _like(self="bmn", batch1="bmk", batch2="bkn"),
        "addbmm": _like(self="mn", batch1="bmk", batch2="bkn"),
        "mv": _like(self="mk", vec="k"),
        "addmv": _like(self="m", mat="mk", vec="k"),
        "addr": _like(self="mn", vec1="m", vec2="n"),
        "outer": _like(self="m", vec2="n"),
        "ger": _like(self="m", vec2="n"),
        "inner": _like(self="mk", other="nk"),
        "matmul": _like(self="bmk", other="kn"),
        "linalg_matmul": _like(self="bmk", other="kn"),
        "linear": _like(input="mk", weight="nk", bias="n"),
        "dot": _vector("self", "tensor"),
        "vdot": _vector("self", "other"),
        "bilinear": lambda call: _bilinear(call),
        "einsum": lambda call: {"equation": "ij,jk->ik", "tensors": list(_like(a="mk", b="kn")(call).values())},
        "chain_matmul": lambda call: {"matrices": list(_like(a="mk", b="kn")(call).values())},
        "linalg_multi_dot": lambda call: {"tensors": list(_like(a="mk", b="kn")(call).values())},
        "tensordot": lambda call: _like(self="mk", other="kn")(call) | {"dims_self": [1], "dims_other": [0]},
        "convolution": _conv(2),
        "_convolution": _conv(2),
        "_convolution_mode": _conv(2),
        "grid_sampler": _grid(2),
        "grid_sampler_2d": _grid(2),
        "grid_sampler_3d": _grid(3),
        "affine_grid_generator": _other(theta=lambda c: c.made((IMAGE[c.size][0], 2, 3)), size=lambda c: list(IMAGE[c.size])),
        "cdist": _distances,
        "_cdist_forward": _distances,
        "_euclidean_dist": _distances,
        "im2col": _columns(False),
        "col2im": _columns(True),
        "embedding": _embedding,
        "embedding_renorm": _embedding,
        "lstm": _recurrent(4),
        "gru": _recurrent(3),
        "rnn_tanh": _recurrent(1),
        "rnn_relu": _recurrent(1),
        "ctc_loss": _losses,
        "_ctc_loss": _losses,
        "scaled_dot_product_attention": _attention,
        "_scaled_dot_product_attention_math": _attention,
        "_scaled_dot_product_flash_attention_for_cpu": _attention,
        "_scaled_dot_product_efficient_attention": _attention,
        "batch_norm": _norm,
        "native_batch_norm": _norm,
        "_native_batch_norm_legit_no_training": _norm,
        "instance_norm": _norm,
        "group_norm": _norm,
        "native_group_norm": _norm,
        "layer_norm": _rows,
        "native_layer_norm": _rows,
        "rms_norm": _rows,
        "_fused_rms_norm": _rows,
        "prelu": _image(weight=lambda c: c.made((c.shape[1],))),
        "_prelu_kernel": _image(weight=lambda c: c.made((1, c.shape[1], 1, 1))),
        "pixel_shuffle": _other(self=lambda c: c.made(((1, 4, 16, 16), (1, 32, 48, 48), (2, 64, 128, 128))[c.size]), upscale_factor=2),
        "pixel_unshuffle": _image(downscale_factor=2),
        "channel_shuffle": _other(self=lambda c: c.made(((1, 4, 16, 16), (1, 32, 48, 48), (2, 64, 128, 128))[c.size]), groups=2),
        "native_channel_shuffle": _other(self=lambda c: c.made(((1, 4, 16, 16), (1, 32, 48, 48), (2, 64, 128, 128))[c.size]), groups=2),
        "prod": _near_one,
        "cumprod": _near_one,
        "index_select": _indexed(),
        "index_add": _indexed(),
        "index_copy": _indexed(distinct=True),
        "index_fill": _indexed(),
        "index_reduce": _indexed(),
        "take": _whole,
        "put": _whole,
        "index": _list_index,
        "_unsafe_index": _list_index,
        "index_put": _list_index,
        "_index_put_impl": _list_index,
        "_unsafe_index_put": _list_index,
        "_unsafe_masked_index": _list_index,
        "scatter_reduce": _other(reduce="amax", dim=0),
        "scatter": lambda c: _scattered(c),
        "scatter_add": _other(dim=0),
        "gather": _other(dim=0),
        "take_along_dim": _other(dim=0),
        "bucketize": _sorted("boundaries", "self"),
        "searchsorted": _sorted("sorted_sequence", "self"),
        "histc": _other(bins=100, min=-4.0, max=4.0),
        "bincount": _other(self=lambda c: c.made((math.prod(c.shape),), torch.int64, "below:100"), minlength=100),
        "one_hot": _other(self=lambda c: c.made((c.shape[0],), torch.int64, "below:100"), num_classes=100),
        "isin": _other(elements=lambda c: c.made(c.shape), test_elements=lambda c: c.made((100,)), element=0.7, test_element=0.7),
        "repeat_interleave": _other(repeats=2, dim=0),
        "repeat": _other(repeats=[2, 1]),
        "tile": _other(dims=[2, 1]),
        "roll": _other(shifts=[3], dims=[1]),
        "flip": _other(dims=[0, 1]),
        "unflatten": _other(dim=0, sizes=lambda c: [c.shape[0] // 2, 2]),
        "unfold": _other(dimension=1, size=8, step=4),
        "unfold_copy": _other(dimension=1, size=8, step=4),
        "select_scatter": _other(src=lambda c: c.made((c.shape[0],)), dim=1, index=1),
        "slice_scatter": _other(src=lambda c: c.made(c.shape)),
        "diagonal_scatter": _other(self=lambda c: c.made((c.shape[0],) * 2), src=lambda c: c.made((c.shape[0],))),
        "cross": _other(self=lambda c: c.made((*c.shape, 3)), other=lambda c: c.made((*c.shape, 3)), dim=2),
        "linalg_cross": _other(self=lambda c: c.made((*c.shape, 3)), other=lambda c: c.made((*c.shape, 3)), dim=2),
        "trace": _square,
        "diag_embed": _vector("self", extent=lambda s: s[0]),
        "diagflat": _vector("self", extent=lambda s: s[0]),
        "diag": _vector("self", extent=lambda s: s[0]),
        "_native_batch_norm_legit": lambda call: _norm(call) | {"training": True},
        "multinomial": _other(self=lambda c: c.made(c.shape, kind="positive"), num_samples=1),
        "bernoulli": lambda call: _chances(call),
        "logit": _other(self=lambda c: c.made(c.shape, kind="positive")),
        "constant_pad_nd": _other(pad=[1, 2, 1, 1]),
        "_weight_norm": _weight_norm,
        "_weight_norm_interface": _weight_norm,
        "tril_indices": _other(row=lambda c: c.shape[0], col=lambda c: c.shape[0]),
        "triu_indices": _other(row=lambda c: c.shape[0], col=lambda c: c.shape[0]),
        "arange": _other(end=lambda c: math.prod(c.shape), start=0, step=1),
        "linspace": _other(start=lambda c: c.made(()) if "Tensor_" in c.op._overloadname else 0.0, end=lambda c: c.made(()) if "_Tensor" in c.op._overloadname else 1.0, steps=lambda c: math.prod(c.shape)),
        "logspace": _other(start=0.0, end=1.0, steps=lambda c: math.prod(c.shape)),
        "randint": _other(low=0, high=100),
        "randint_like": _other(low=0, high=100),
        "randperm": _other(n=lambda c: min(math.prod(c.shape), 4096)),
        "full": _other(fill_value=0.7),
        "fill": lambda call: {"value": call.made(())} if call.op._overloadname == "Tensor" else {},
        "normal": _normal,
        "addcdiv": _other(tensor2=lambda c: c.made(c.shape, kind="positive")),
        "masked_fill": lambda call: {"value": call.made(()) if call.op._overloadname == "Tensor" else 0.7},
        "_safe_softmax": _other(dim=1),
        "clamp": _bounds,
        "clip": _bounds,
        "meshgrid": _other(tensors=lambda c: [c.made((c.shape[0],)), c.made((c.shape[1],))]),
        "split": _other(split_size=7, split_sizes=lambda c: [7, c.shape[0] - 7], split_size_int=7),
        "narrow": _other(start=lambda c: Operand(torch.tensor(1)) if c.op._overloadname == "Tensor" else 1, length=7),
        "dsplit": _image(sections=2, indices=[2]),
        "empty_permuted": _other(physical_layout=[1, 0]),
        "random": lambda call: {"from": 0, "to": 100},
        "_grouped_mm": lambda call: _unfit("bfloat16 on GPUs"),
        "fourier": _fourier,
        "fourier_signal": _fourier,
        **{name: _view_of for name in (*view, "expand", "as_strided", "as_strided_copy", "_reshape_alias", "transpose", "t")},
        **{name: _view_of for name in ("empty_strided", "new_empty_strided")},
        "as_strided_scatter": lambda call: _view_of(call) | {"src": call.made(call.shape[::-1])},
        **{name: _pads(1) for name in ("reflection_pad1d", "replication_pad1d")},
        **{name: _pads(2) for name in ("reflection_pad2d", "replication_pad2d")},
        **{name: _pads(3) for name in ("reflection_pad3d", "replication_pad3d")},
        **{name: _image(pad=[2, 1, 2, 1], mode="reflect") for name in ("pad",)},
        **{name: _image(pad=[2, 1, 2, 1], mode=1) for name in ("_pad_enum", "_pad_circular")},
    }  # fmt: skip
    for d in triple:
        table[f"conv{d}d"], table[f"conv_transpose{d}d"] = _conv(d), _conv(d, True)
        for kind in ("max_pool", "avg_pool", "adaptive_avg_pool", "adaptive_max_pool", "_adaptive_avg_pool"):
            table[f"{kind}{d}d"] = _pool(d)
        table[f"max_pool{d}d_with_indices"] = _pool(d)
        for kind in ("upsample_nearest", "_upsample_nearest_exact", "upsample_linear", "upsample_bilinear"):
            table[f"{kind}{d}d"] = _resize(d)
    for name in ("upsample_bicubic2d", "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa"):
        table[name] = _resize(2)
    table["upsample_trilinear3d"] = _resize(3)
    return table


def _fourier(call):
    rows, size = ((4, 240), (64, 1024), (2048, 1000))[call.size]
    if call.packet == "fourier":  # of real rows
        return {"re": call.made((rows, size)), "im": None, "dim": 1, "inverse": False, "bins": size // 2 + 1, "scale": 1.0}
    half = (rows, size // 2 + 1)
    return {"re": call.made(half), "im": call.made(half), "dim": 1, "size": size, "scale": 1.0}


def _unfit(why):
    raise Unfit(why)


def _bilinear(call):
    rows, width = ((8, 8), (32, 32), (128, 64))[call.size]
    return {"input1": call.made((rows, width)), "input2": call.made((rows, width)), "weight": call.made((width, width, width)), "bias": None}  # fmt: skip


def _chances(call):
    chances = call.made(call.shape, kind="positive")
    return {"self": chances, "p": chances if call.op._overloadname == "Tensor" else 0.3}


def _bounds(call):
    low, high = (-0.5, 0.5) if call.op._overloadname == "default" else (call.made(call.shape), call.made(call.shape))
    return {"min": low, "max": high}


def _weight_norm(call):
    return {"v": call.made(call.shape), "g": call.made((call.shape[0], 1)), "dim": 0}


def _normal(call):
    overload = call.op._overloadname
    mean = call.made(call.shape) if overload.startswith("Tensor") else 0.5
    deviation = call.made(call.shape, kind="positive") if overload.endswith("_Tensor") else 1.5
    return {"mean": mean, "std": deviation, "size": list(call.shape)}


TABLE = _table()


def call_of(op: torch._ops.OpOverload, size: int) -> tuple[SizedCall, list[torch.Tensor]]:
    """The call in the first dtype that PyTorch takes, and its results. Raises Unfit with what it says to the last."""
    why = ""
    for dtype in DTYPES:
        try:
            call = SizedCall(op, size, dtype)
            return call, call.eager()
        except (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError, AssertionError, KeyError) as error:
            why = why or str(error).splitlines()[0]
        except Unfit as error:
            why = str(error)
            break
    raise Unfit(why)
