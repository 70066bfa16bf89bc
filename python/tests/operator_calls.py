"""Calls of single operators, drawn from their schemas: arguments for PyTorch, and the same call as IR."""

import math

import torch
from hypothesis import strategies as st
from operands import DTYPES, EXTENTS, Operand, values
from operator_shapes import SHAPES

# Where PyTorch's own answer for infinities and NaN depends on the implementation that it takes: running means, zeros that
# are multiplied outside of an image or between its elements, distances as differences of products.
NO_SPECIAL = [
    "attention",
    "_aa",
    "linear1d",
    "linear2d",
    "linear3d",
    "bicubic2d",
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
        outputs = [tensor(f"y{i}" if len(results) > 1 else "y", one) for i, one in enumerate(results)]
        nodes.append({"name": "y", "op_type": str(self.op), "inputs": taken, "outputs": outputs, "attrs": attrs})
        ends = [{**o, "producer_node": "y", "producer_output_idx": i} for i, o in enumerate(outputs)]
        return {"graph_inputs": inputs, "graph_outputs": ends, "weights": [], "nodes": nodes}, given

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
