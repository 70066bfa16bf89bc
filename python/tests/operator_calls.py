"""Calls of single operators, drawn from their schemas: arguments for PyTorch, and the same call as IR."""

import math
from dataclasses import dataclass, field

import numpy as np
import torch
from hypothesis import strategies as st

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTEGERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]
DTYPES = [torch.float32] * 4 + FLOATS + INTEGERS + [torch.int64, torch.bool]
EXTENTS = [0, 1, 1, 2, 2, 3, 3, 4, 5, 7, 17]
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, math.inf, -math.inf, math.nan, 1e-3, 100.0]
# Where PyTorch's own answer for infinities and NaN depends on the implementation that it takes: running means, zeros that
# are multiplied outside of an image, distances as differences of products.
NO_SPECIAL = [
    "attention",
    "_aa",
    "var_mean",
    "std_mean",
    "layer_norm",
    "group_norm",
    "batch_norm",
    "instance_norm",
    "rms_norm",
    "conv",
    "dist",
]


class Unfit(Exception):
    """No call with these arguments: draw others."""


@dataclass
class Operand:
    """A dense tensor, and the view of it that the operator is given: (operator, attributes)."""

    base: torch.Tensor
    views: list[tuple[str, dict]] = field(default_factory=list)

    def tensor(self, base: torch.Tensor | None = None) -> torch.Tensor:
        value = self.base if base is None else base
        for op, attrs in self.views:
            packet, overload = op.split(".")
            value = getattr(getattr(torch.ops.aten, packet), overload)(value, **attrs)
        return value


def values(shape, dtype, kind, seed) -> torch.Tensor:
    """As `kind` says: normal, special (infinities, NaN, zeros), whole, positive, below:N (indices)."""
    random = np.random.default_rng(seed)
    if kind.startswith("below:"):
        limit = int(kind[6:])
        drawn = random.integers(0, max(limit, 1), shape)
    elif dtype == torch.bool:
        return torch.from_numpy(np.asarray(random.random(shape) < 0.5))
    elif not dtype.is_floating_point:
        low, high = (0, 9) if dtype == torch.uint8 or kind == "positive" else (-8, 9)
        if kind == "special":  # the smallest divided by -1 ends PyTorch
            info = torch.iinfo(dtype)
            drawn = random.choice(np.array([info.min + 1, info.max, 0, 1, 2], "int64"), shape)
        else:
            drawn = random.integers(low, high, shape)
    elif kind == "special":
        drawn = random.choice(np.array(SPECIAL), shape)
    elif kind == "whole":
        drawn = random.integers(-3, 4, shape)
    elif kind == "positive":
        drawn = random.random(shape) * 0.98 + 0.01
    else:
        drawn = random.standard_normal(shape) * 2
    return torch.from_numpy(np.asarray(drawn)).to(dtype)


class Call:
    """One call: `args` has an Operand, a list of Operands and Nones, or a value for each of the schema's arguments."""

    def __init__(self, draw, op: torch._ops.OpOverload) -> None:
        self.draw, self.op = draw, op
        self.named: dict[str, object] = {}
        self.kind = draw(st.sampled_from(["normal", "normal", "positive", "special", "whole"]))
        self.dtype = draw(st.sampled_from(DTYPES))
        self.shape: tuple[int, ...] | None = None  # of the first tensor
        self.packet = op._schema.name.removeprefix("aten::").rstrip("_")
        if any(part in self.packet for part in NO_SPECIAL) and self.kind == "special":
            self.kind = "normal"
        special = SHAPES.get(self.packet)
        self.fixed = special(self) if special else {}
        self.args = [self.argument(arg) for arg in op._schema.arguments]

    def pick(self, choices):
        return self.draw(st.sampled_from(list(choices)))

    def integer(self, low, high):
        return self.draw(st.integers(low, high))

    def drawn_shape(self, low=0, high=6) -> tuple[int, ...]:
        shape = tuple(self.pick(EXTENTS) for _ in range(self.integer(low, high)))
        while math.prod(shape) > 3000:
            shape = tuple(extent if i != shape.index(max(shape)) else 2 for i, extent in enumerate(shape))
        return shape

    def operand(self, shape, dtype=None, kind=None) -> Operand:
        dtype, kind = dtype or self.dtype, kind or self.kind
        seed = self.integer(0, 1000)
        shape = tuple(shape)
        view = self.pick(["", "", "transpose", "slice", "expand"]) if shape else ""
        if view == "transpose" and len(shape) > 1:
            a, b = self.integer(0, len(shape) - 1), self.integer(-len(shape), -1)
            base = list(shape)
            base[a], base[b] = base[b], base[a]
            return Operand(values(base, dtype, kind, seed), [("transpose.int", {"dim0": a, "dim1": b})])
        if view == "slice":
            d = self.integer(0, len(shape) - 1)
            base = list(shape)
            base[d] = 2 * shape[d] + 1
            attrs = {"dim": d, "start": 1, "end": 2**63 - 1, "step": 2}
            return Operand(values(base, dtype, kind, seed), [("slice.Tensor", attrs)])
        if view == "expand":
            d = self.integer(0, len(shape) - 1)
            base = [*shape[:d], 1, *shape[d + 1 :]]
            return Operand(values(base, dtype, kind, seed), [("expand.default", {"size": list(shape)})])
        return Operand(values(shape, dtype, kind, seed))

    def argument(self, arg):
        if arg.name in self.fixed:
            value = self.fixed[arg.name]
        else:
            kind, optional = arg.type, False
            while isinstance(kind, torch._C.OptionalType):
                kind, optional = kind.getElementType(), True
            skip = optional and self.pick([True, False, False])
            if arg.has_default_value() and self.pick([True, False]):
                value = arg.default_value
                if arg.name == "dtype" and value is not None:
                    value = torch.int64  # a number in the schema
            elif skip or arg.name in ("layout", "device", "pin_memory", "generator", "memory_format"):
                value = None
            else:
                value = self.value(arg, kind)
        self.named[arg.name] = value
        return value

    def value(self, arg, kind):
        text = str(kind)
        if isinstance(kind, torch._C.TensorType):
            return self.tensor(arg.name)
        if isinstance(kind, torch._C.ListType):
            element = str(kind.getElementType())
            if "Tensor" in element:
                return self.tensors(arg.name)
            if element == "int":
                return self.integers(arg.name)
            return [self.pick([0.5, 1.0, 2.0]) for _ in range(self.integer(1, 2))]
        if arg.name in ("dtype", "out_dtype"):
            return self.pick(DTYPES)
        if text == "int":
            return self.one_integer(arg.name)
        if text == "bool":
            return self.pick([True, False])
        if text in ("number", "Scalar"):
            whole = self.pick([0, 1, 2, 3, -1, -2])
            return self.pick(
                [whole, whole, 0.5, -1.5, 2.0, math.inf, math.nan]
                if self.kind == "special"
                else [whole, 0.5, 2.5, -1.25]
            )
        if text == "float":
            if arg.name == "p":
                return self.pick([0.0, 0.5, 1.0, 2.0, 3.0])
            return self.pick([0.5, 1.0, 1e-5, 2.0, *([] if arg.name == "eps" else [0.0])])
        if text == "str":
            choices = {"rounding_mode": ["floor", "trunc"], "reduce": ["sum", "prod", "mean", "amax", "amin"]}
            return self.pick(choices.get(arg.name, ["none", "tanh", "ij", "xy", "same", "valid"]))
        raise Unfit(text)

    def tensor(self, name):
        if self.shape is None:
            self.shape = self.drawn_shape()
            return self.operand(self.shape)
        shape, rank = self.shape, len(self.shape)
        if name in ("index", "indices"):
            dim = self.named.get("dim", 0)
            dim = dim if isinstance(dim, int) else 0
            limit = shape[dim] if -rank <= dim < rank else 1
            if self.packet.startswith("index_"):
                extents = [self.pick(EXTENTS)]
            else:
                extents = [self.integer(0, e) if self.pick([0, 1]) else e for e in shape]
            if limit == 0 and math.prod(extents):
                raise Unfit("nothing to index")
            return self.operand(extents, torch.int64, f"below:{limit}")
        if name in ("mask", "condition"):
            return self.operand(self.broadcast(shape), torch.bool)
        if name in ("src", "source") and isinstance(self.named.get("index"), Operand):
            index = self.named["index"].tensor()
            dim = self.named.get("dim", 0)
            if self.packet.startswith("index_") and -rank <= dim < rank:
                shape = list(shape)
                shape[dim] = index.shape[0]
                return self.operand(shape)
            return self.operand(index.shape)
        if name in ("weight", "bias", "running_mean", "running_var"):
            channels = self.named.get("normalized_shape") or (shape[1:2] if rank > 1 else shape)
            return self.operand(channels, kind="positive" if name == "running_var" else "normal")
        dtype = self.dtype if self.pick([True, True, False]) else self.pick(DTYPES)
        return self.operand(self.broadcast(shape), dtype)

    def broadcast(self, shape):
        """A shape that broadcasts with this one."""
        how = self.pick(["same", "same", "ones", "fewer", "more"])
        if how == "ones":
            return tuple(1 if self.pick([0, 1]) else e for e in shape)
        if how == "fewer":
            return shape[self.integer(0, len(shape)) :]
        if how == "more" and len(shape) < 6:
            return (2, *(e for e in shape))
        return shape

    def tensors(self, name):
        if name == "indices":
            rank = len(self.shape or ())
            found, common = [], self.drawn_shape(0, 2)
            for d in range(self.integer(1, max(rank, 1))):
                if self.pick([0, 0, 1]):
                    found.append(None)
                elif self.packet.startswith("index_put") and self.pick([0, 0, 1]):
                    found.append(self.operand(self.shape[d : d + 1], torch.bool))
                else:
                    limit = self.shape[d] if d < rank else 1
                    if limit == 0 and math.prod(common):
                        raise Unfit("nothing to index")
                    found.append(self.operand(common, torch.int64, f"below:{limit}"))
            return found
        shape = self.drawn_shape(0, 4) if self.shape is None else self.shape
        self.shape = shape
        found = []
        for _ in range(self.integer(1, 3)):
            one = list(shape)
            if one and self.packet in ("cat", "concat", "concatenate", "hstack", "vstack", "dstack"):
                one[self.integer(0, len(one) - 1)] = self.pick(EXTENTS)
            found.append(self.operand(one, self.dtype if self.pick([1, 1, 0]) else self.pick(DTYPES)))
        return found

    def one_integer(self, name):
        rank = len(self.shape or ())
        if name.startswith("dim") or name in (
            "start_dim",
            "end_dim",
            "axis",
            "axis0",
            "axis1",
            "source",
            "destination",
        ):
            return self.integer(-max(rank, 1), max(rank, 1) - 1)
        if name in ("interpolation_mode", "padding_mode"):
            return self.integer(0, 2)
        if name in ("k", "n", "sections", "chunks", "split_size", "groups", "size", "steps", "repeats"):
            return self.integer(0, 4)
        return self.integer(-3, 5)

    def integers(self, name):
        rank, shape = len(self.shape or ()), self.shape or ()
        if name in ("dim", "dims", "axis"):
            many = rank if self.packet in ("permute", "flip") and self.pick([0, 1]) else self.integer(0, max(rank, 1))
            dims = self.draw(st.permutations(range(rank)))[:many] if rank else self.pick([[], [0], [-1]])
            return [d - rank if self.pick([0, 1]) and rank else d for d in dims]
        if name in ("size", "shape"):
            if self.packet in ("view", "reshape", "_unsafe_view", "view_copy", "_reshape_alias"):
                total = math.prod(shape)
                first = self.pick([d for d in range(1, total + 1) if total % d == 0] or [0])
                return self.pick([[total], [-1], [first, -1], [first, total // first if first else 1], [1, -1, 1]])
            if self.packet in ("expand", "broadcast_to", "expand_copy"):
                grown = [self.pick([2, 3]) if e == 1 and self.pick([0, 1]) else self.pick([e, -1]) for e in shape]
                return [*([2] if self.pick([0, 1]) else []), *grown]
            return list(self.drawn_shape(0, 4))
        if name == "normalized_shape":
            ends = list(shape[self.integer(0, max(rank - 1, 0)) :])
            if 0 in ends or not ends:
                raise Unfit("statistics of nothing")
            return ends
        if name in ("repeats", "shifts", "split_sizes", "indices"):
            return [self.integer(0 if name != "shifts" else -3, 3) for _ in range(self.integer(0, max(rank, 1)))]
        if name == "pad":
            return [self.integer(-1, 2) for _ in range(2 * self.integer(0, max(rank, 1)))]
        return [self.integer(1, 3) for _ in range(self.integer(1, 3))]

    # ---- the call in both worlds

    def operands(self):
        for arg in self.args:
            for one in arg if isinstance(arg, list) else [arg]:
                if isinstance(one, Operand):
                    yield one

    def eager(self, change=lambda tensor: tensor, wide=False):
        """What PyTorch answers, with the tensors changed; a list of tensors. wide: in float64."""

        def made(arg):
            if isinstance(arg, list):
                return [made(one) for one in arg]
            if isinstance(arg, torch.dtype) and wide and arg.is_floating_point:
                return torch.float64
            if not isinstance(arg, Operand):
                return arg
            base = change(arg.base.clone())
            return arg.tensor(base.double() if wide and base.is_floating_point() else base)

        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64 if wide else torch.float32)
        try:
            named = {a.name: made(v) for a, v in zip(self.op._schema.arguments, self.args) if a.kwarg_only}
            rest = [made(v) for a, v in zip(self.op._schema.arguments, self.args) if not a.kwarg_only]
            results = self.op(*rest, **named)
        finally:
            torch.set_default_dtype(before)
        results = [results] if isinstance(results, torch.Tensor) else list(results)
        if not all(isinstance(one, torch.Tensor) for one in results):
            raise Unfit("results that are no tensors")
        return [one.clone() for one in results]

    def ir(self, results):
        """The IR of the call, and its inputs."""
        nodes, inputs, given = [], [], {}

        def tensor(name, value, **more):
            return {"name": name, "shape": list(value.shape), "dtype": str(value.dtype).removeprefix("torch."), **more}

        def reading(operand):
            name = f"x{len(given)}"
            given[name] = operand.base
            inputs.append(tensor(name, operand.base))
            value, producer = operand.base, name
            for op, attrs in operand.views:
                taken = tensor(producer, value, producer_node=producer, producer_output_idx=0)
                value, producer = operand.tensor(), f"{name}_view"
                nodes.append({"name": producer, "op_type": f"aten.{op}", "inputs": [taken], "attrs": attrs})
                nodes[-1]["outputs"] = [tensor(producer, value)]
            return tensor(producer, value, producer_node=producer, producer_output_idx=0)

        taken, attrs, sizes, masks = [], {}, [], []
        for arg, value in zip(self.op._schema.arguments, self.args):
            if isinstance(value, Operand):
                taken.append(reading(value))
            elif isinstance(value, list) and "Tensor" in str(arg.type):
                present = [reading(one) for one in value if one is not None]
                taken += present
                sizes.append(len(present))
                if len(present) < len(value):
                    masks.append([one is None for one in value])
            else:
                attrs[arg.name] = str(value) if isinstance(value, torch.dtype) else value
        if sizes:
            attrs["_tensor_list_sizes"] = sizes
        if masks:
            attrs["_tensor_list_none_masks"] = masks
        name = f"aten.{self.packet_name()}"
        outputs = [tensor(f"y{i}" if len(results) > 1 else "y", one) for i, one in enumerate(results)]
        nodes.append({"name": "y", "op_type": name, "inputs": taken, "outputs": outputs, "attrs": attrs})
        ends = [{**o, "producer_node": "y", "producer_output_idx": i} for i, o in enumerate(outputs)]
        return {"graph_inputs": inputs, "graph_outputs": ends, "weights": [], "nodes": nodes}, given

    def packet_name(self):
        return str(self.op).removeprefix("aten.")

    def __repr__(self):
        def text(arg):
            if isinstance(arg, list):
                return "[" + ", ".join(text(one) for one in arg) + "]"
            if not isinstance(arg, Operand):
                return repr(arg)
            shown = arg.base.tolist() if arg.base.numel() <= 12 else "…"
            return f"{str(arg.base.dtype)[6:]}{list(arg.base.shape)}{shown}{arg.views or ''}"

        names = [a.name for a in self.op._schema.arguments]
        return f"{self.op}(" + ", ".join(f"{n}={text(a)}" for n, a in zip(names, self.args)) + ")"


# ---- operators whose operands' shapes depend on each other: by name, what of a call is fixed


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
        per = lambda low, high: [call.integer(low, high) for _ in range(dims)]  # noqa: E731
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


def _resize(dims):
    def fixed(call):
        call.dtype = call.pick(FLOATS)
        call.shape = (call.integer(1, 2), call.integer(1, 3), *(call.integer(1, 6) for _ in range(dims)))
        tensor = call.operand(call.shape)
        return {
            "self": tensor,
            "input": tensor,
            "output_size": [
                call.integer(2, 8) for _ in range(dims)
            ],  # antialiasing to a width of 1 is wrong in PyTorch 2.15
            "scale_factors": None,
            "scales": None,
            "scales_h": None,
            "scales_w": None,
            "scales_d": None,
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


def _attention(call):
    _floats(call)
    batch = [call.integer(1, 2) for _ in range(2 if call.packet.startswith("_") else call.integer(0, 2))]
    q, k, d, v = (call.integer(1, 6) for _ in range(4))
    call.shape = (*batch, q, d)
    causal = call.pick([True, False])
    mask = None
    if not causal and call.pick([True, False]):
        mask = call.operand(call.pick([(q, k), (1, k), (*batch, q, k)]), call.pick([torch.bool, call.dtype]))
    return {
        "query": call.operand(call.shape),
        "key": call.operand((*batch, k, d)),
        "value": call.operand((*batch, k, v)),
        "attn_mask": mask,
        "dropout_p": 0.0,
        "is_causal": causal,
        "enable_gqa": False,
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
    "_weight_norm": _weight_norm,
    "_weight_norm_interface": _weight_norm,
    "upsample_bicubic2d": _resize(2),
    "upsample_trilinear3d": _resize(3),
}
