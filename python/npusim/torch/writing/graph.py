"""The calls of a torch.fx graph as nodes of IR."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._subclasses import FakeTensor, FakeTensorMode
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.utils import _pytree as pytree

from ...errors import Problem
from ..forms.complex import call_complex, concerns_complex, without_complex
from ..forms.compositions import COMPOSITIONS
from ..forms.ref import Complex, Parts, Ref, Refused
from ..forms.scalars import arguments, arguments_of
from ..functional.decompose import shows_operand, trace
from .higher import spell_out

# What gives the first result alone, where that is all that is read.
FIRST_RESULT = {"aten.max_pool2d_with_indices.default": "aten.max_pool2d.default"}
# Overloads that take a generator, by those that take none: with None they are these.
WITHOUT_GENERATOR = {"generator": "default", "low_generator": "low"}
# What the ATen operator of the same arguments does.
SAME_AS = {
    torch.ops.prims.convert_element_type.default: torch.ops.aten.to.dtype,  # of numbers that dynamo made tensors
    torch.ops.aten.view.default: torch.ops.aten.reshape.default,  # of values: strides are no matter where nothing is written
    torch.ops.aten._unsafe_view.default: torch.ops.aten.reshape.default,
}


@dataclass
class Graph:
    """IR nodes, and what each node of the fx graph is in IR."""

    problems: list[Problem]
    nodes: list[dict[str, Any]] = field(default_factory=list)
    of: dict[torch.fx.Node, Any] = field(default_factory=dict)  # Ref, a tuple of them and others, or None
    names: set[str] = field(default_factory=set)
    counts: dict[str, int] = field(default_factory=dict)  # by name: up to here ones like it are taken
    constants: dict[str, torch.Tensor] = field(default_factory=dict)  # what decomposed calls bring along, by name

    def free_name(self, name: str) -> str:
        """The name, or one like it that nothing has."""
        found, count = name, self.counts.get(name, 0)
        while found in self.names:
            count += 1
            found = f"{name}_{count}"
        self.names.add(found)
        self.counts[name] = max(count - 1, 0)
        return found

    def define(self, node: torch.fx.Node, value: Any) -> None:
        self.of[node] = value

    def tensor(self, name: str, value: torch.Tensor, where: str) -> dict[str, Any]:
        """What the IR says of a tensor."""
        if not all(isinstance(extent, int) for extent in value.shape):
            self.problems.append(Problem(where, _why_not_static(value.shape)))
        return {
            "name": name,
            "shape": [int(e) if isinstance(e, int) else 0 for e in value.shape],
            "dtype": str(value.dtype).removeprefix("torch."),
        }

    def add(self, node: torch.fx.Node, module: torch.fx.GraphModule) -> None:
        """The IR of a node, whose operands were added before; what is refused becomes a problem."""
        try:
            self.of[node] = self.value(node, module)
        except Refused as error:
            self.problems.append(Problem(f"node '{node.name}' ({node.target})", str(error)))
            self.of[node] = _broken(node)

    def value(self, node: torch.fx.Node, module: torch.fx.GraphModule) -> Any:
        if node.op == "get_attr":
            found = module.get_submodule("") if not node.target else attribute(module, str(node.target))
            if isinstance(found, FakeTensor):
                raise Refused("is a tensor without values")
            return self.constant(found) if isinstance(found, torch.Tensor) else found  # no call writes into it here
        if node.op != "call_function":
            raise Refused(f"is a {node.op}")
        if node.target is operator.getitem:
            return self.operand(node.args[0])[node.args[1]]
        if not isinstance(node.target, torch._ops.OpOverload):
            return spell_out(self, node)
        return self.call(node, node.target)

    def operand(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return self.constant(value)
        if isinstance(value, torch.fx.Node) and value not in self.of:
            raise Refused(f"takes '{value.name}', which is no tensor")
        return self.of[value] if isinstance(value, torch.fx.Node) else value

    def constant(self, value: torch.Tensor) -> Any:
        """A value that no weight of the model is."""
        if value.is_complex():
            return Complex(self.constant(value.real), self.constant(value.imag))
        name = self.free_name("constant")
        self.constants[name] = value
        return Ref(name, 0, self.tensor(name, value, f"constant '{name}'"), is_weight=True)

    def insert(self, body: torch.fx.GraphModule, operands: Sequence[Any]) -> Any:
        """The nodes of a graph, and what it gives."""
        inputs = [inner for inner in body.graph.nodes if inner.op == "placeholder"]
        for inner, operand in zip(inputs, operands, strict=True):
            self.of[inner] = self.operand(operand)
        for inner in body.graph.nodes:
            if inner.op == "output":
                return torch.fx.node.map_aggregate(inner.args[0], lambda v: self.operand(v))
            if inner.op != "placeholder":
                self.add(inner, body)
        return None

    def apply(self, name: str, function: Callable[..., Any], operands: Any) -> Any:
        """What a function of tensors gives for these operands, by the calls that it makes."""
        operands = pytree.tree_map(lambda v: Parts(v.re, v.im) if isinstance(v, Complex) else v, operands)
        leaves, spec = pytree.tree_flatten(operands)
        at = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Ref)]

        def call(*tensors: torch.Tensor) -> Any:
            given = list(leaves)
            for i, tensor in zip(at, tensors, strict=True):
                given[i] = tensor
            return function(*pytree.tree_unflatten(given, spec))

        with torch._guards.detect_fake_mode() or FakeTensorMode():
            tensors = [
                torch.empty(leaves[i].tensor["shape"], dtype=getattr(torch, leaves[i].tensor["dtype"])) for i in at
            ]
        body, constants = trace(call, tensors)
        for node in body.graph.nodes:
            if node.op == "call_function":
                node._rename(name)
        return self.insert(body, [*(leaves[i] for i in at), *constants])

    # ---- one call

    def call(self, node: torch.fx.Node, op: torch._ops.OpOverload) -> Any:
        op = SAME_AS.get(op, op)
        args = torch.fx.node.map_aggregate(node.args, self.operand)
        kwargs = torch.fx.node.map_aggregate(node.kwargs, self.operand)
        if op._overloadname in WITHOUT_GENERATOR and kwargs.get("generator") is None:
            op = getattr(op._overloadpacket, WITHOUT_GENERATOR[op._overloadname])
            kwargs = {name: value for name, value in kwargs.items() if name != "generator"}
        if op is torch.ops.aten._to_copy.default and isinstance(args[0], (bool, int, float, complex)):
            op, args = torch.ops.aten.full.default, ([], args[0])  # a number that vmap made a tensor of
            kwargs = {"dtype": node.meta["val"].dtype}
        args, kwargs = self.numbers_as_tensors(op, args, kwargs)
        value = node.meta.get("val")
        args = without_complex(op, args, value)
        if concerns_complex(op, args, kwargs, value):
            return call_complex(self, node, op, args, kwargs)
        if shows_operand(op):
            try:
                return self.apply(node.name, COMPOSITIONS[str(op)], args)
            except (NotImplementedError, ValueError) as error:
                raise Refused(str(error)) from error
        first = FIRST_RESULT.get(str(op))
        inputs, attrs = self.bind(op, args, kwargs)
        if first and all(user.target is operator.getitem and user.args[1] == 0 for user in node.users):
            return [self.append(node.name, first, inputs, attrs, value[0])]
        return self.append(node.name, str(op), inputs, attrs, value)

    def numbers_as_tensors(self, op: torch._ops.OpOverload, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """Arguments in which no number stands for a first operand, `torch.add(2, 3)`: IR has numbers for second ones alone.
        Where all are numbers, each has the dtype that PyTorch gives it, and else that of the tensor beside it as far as it
        has room."""
        given = arguments(op, args, kwargs)
        takes = [arg.name for arg in op._schema.arguments if _is_tensor(arg.type) and given.get(arg.name) is not None]
        if not takes or not isinstance(given[takes[0]], (bool, int, float)):
            return args, kwargs
        if any(isinstance(given[name], complex) or isinstance(given[name], Complex) for name in takes):
            return args, kwargs
        beside = next((given[name] for name in takes if isinstance(given[name], Ref)), None)
        for name in takes:
            if isinstance(given[name], (bool, int, float)):
                like = torch.result_type(_as_meta(beside), given[name]) if beside else torch.tensor(given[name]).dtype
                given[name] = self.constant(torch.tensor(given[name]).to(like))  # integers that do not fit wrap
        return arguments_of(op, given)

    def emit(self, name: str, op: torch._ops.OpOverload, *args: Any, **kwargs: Any) -> Any:
        """A call that the graph does not have, of values of the IR."""
        inputs, attrs = self.bind(op, args, kwargs)
        shapes = torch.utils._pytree.tree_map(_as_meta, (args, kwargs))
        return self.append(name, str(op), inputs, attrs, op(*shapes[0], **shapes[1]))

    def bind(self, op: torch._ops.OpOverload, args: Any, kwargs: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """The inputs and attributes of a call."""
        inputs: list[dict[str, Any]] = []
        attrs: dict[str, Any] = {}
        sizes: list[int] = []
        masks: list[list[bool]] = []
        for i, arg in enumerate(op._schema.arguments):
            kind = arg.type
            while isinstance(kind, torch._C.OptionalType):
                kind = kind.getElementType()
            if arg.name in kwargs:
                value = kwargs[arg.name]
            elif i < len(args) and not arg.kwarg_only:
                value = args[i]
            elif _is_tensor(kind):
                value = None  # said, for `inputs` have no slot for it
            else:
                continue  # the schema's default
            if isinstance(kind, torch._C.ListType) and _is_tensor(kind.getElementType()) and value is not None:
                self.add_list(list(value), inputs, sizes, masks)
            elif isinstance(value, Ref):
                inputs.append(value.reading())
            else:
                attrs[arg.name] = _attribute_value(arg.name, value)
        if sizes:
            attrs["_tensor_list_sizes"] = sizes
        if masks:
            attrs["_tensor_list_none_masks"] = masks
        return inputs, attrs

    def add_list(self, values: list[Any], inputs: list[Any], sizes: list[int], masks: list[list[bool]]) -> None:
        present = [value for value in values if value is not None]
        if not all(isinstance(value, Ref) for value in present):
            raise Refused("takes a list with something else than tensors")
        inputs += [value.reading() for value in present]
        sizes.append(len(present))
        if len(present) < len(values):
            masks.append([value is None for value in values])

    def append(self, name: str, op_type: str, inputs: list[Any], attrs: dict[str, Any], value: Any) -> Any:
        """The node and its results: `value` is what they were when it was traced."""
        name = self.free_name(name)
        where = f"node '{name}' ({op_type})"
        results: Any
        if isinstance(value, torch.Tensor):
            results = Ref(name, 0, self.tensor(name, value, where))
            outputs = [results.tensor]
        elif isinstance(value, (list, tuple)):
            outputs = []

            def result(element: Any, called: str) -> Any:
                if isinstance(element, (list, tuple)):  # of which there may be one among other results
                    return [result(part, f"{called}_{i}") for i, part in enumerate(element)]
                if not isinstance(element, torch.Tensor):
                    return None
                outputs.append(self.tensor(called, element, where))
                return Ref(name, len(outputs) - 1, outputs[-1])

            results = result(value, name)
        elif value is None:
            results, outputs = None, []
        else:
            raise Refused(f"gives a {type(value).__name__}, whose value depends on data or on a dynamic dimension")
        self.nodes.append({"name": name, "op_type": op_type, "inputs": inputs, "outputs": outputs, "attrs": attrs})
        return results


def _why_not_static(shape: torch.Size) -> str:
    if free_unbacked_symbols(shape):
        return f"has a shape that depends on values: {list(shape)}"
    return f"has a dynamic dimension: {list(shape)}; what helps: an export without dynamic_shapes, one for each size"


def _as_meta(value: Any) -> Any:
    """A tensor of a value's shape and dtype."""
    if not isinstance(value, Ref):
        return value
    return torch.empty(value.tensor["shape"], dtype=getattr(torch, value.tensor["dtype"]), device="meta")


def _is_tensor(kind: Any) -> bool:
    while isinstance(kind, torch._C.OptionalType):
        kind = kind.getElementType()
    return isinstance(kind, torch._C.TensorType)


def attribute(module: torch.nn.Module, path: str) -> Any:
    """What a get_attr node is of."""
    for name in path.split("."):
        module = getattr(module, name)
    return module


def _broken(node: torch.fx.Node) -> Any:
    """In place of what a refused node gives, of its shape and dtype: enough for the nodes after it to be looked at."""

    def stands_for(value: Any, index: int = 0) -> Any:
        if isinstance(value, (list, tuple)):
            return [stands_for(element, i) for i, element in enumerate(value)]
        if not isinstance(value, torch.Tensor):
            return None
        shape = [extent if isinstance(extent, int) else 0 for extent in value.shape]
        dtype = value.dtype.to_real() if value.is_complex() else value.dtype
        ref = Ref(node.name, index, {"name": node.name, "shape": shape, "dtype": str(dtype).removeprefix("torch.")})
        return Complex(ref, ref) if value.is_complex() else ref

    return stands_for(node.meta.get("val"))


def _attribute_value(name: str, value: Any) -> Any:
    """As JSON has it."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (torch.dtype, torch.device, torch.layout, torch.memory_format)):
        return str(value)
    if isinstance(value, (list, tuple)):
        return [_attribute_value(name, element) for element in value]
    if isinstance(value, complex):
        raise Refused(f"argument '{name}' is complex")
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool, Ref)):
        raise Refused(f"argument '{name}' depends on values")
    raise Refused(f"argument '{name}' is a {type(value).__name__}")
