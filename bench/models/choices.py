"""What a program chooses by rank (argmax, topk, sort), and PyTorch's run that chooses the same: where scores lie nearer than
a dtype resolves, or are the same integers, both choices are right, and what follows is to be compared with a run that made
the same one."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

# By an operator's overload: its name here, and which of its results has the places that were chosen.
CHOICES = {
    **{f"aten.{name}.default": (name, 0) for name in ("argmax", "argmin")},
    **{f"aten.{name}.dim": (name, 1) for name in ("max", "min")},
    **{f"aten.{name}": ("sort", 1) for name in ("sort.default", "sort.stable")},
    **{f"aten.{name}": ("sort", 0) for name in ("argsort.default", "argsort.stable")},
    "aten.topk.default": ("topk", 1),
}
# How far two scores, each off by one step of the dtype at the largest of those that were chosen, can change their order.
STEPS = 2.0
Choice = tuple[str, torch.Tensor]  # an operator and places


def with_choices(exported: Any) -> tuple[Any, list[tuple[str, str]]]:
    """The export with the places that calls choose among its outputs; their operators and names there."""
    shown = copy.copy(exported)
    shown.ir = {**exported.ir, "graph_outputs": list(exported.ir["graph_outputs"])}
    found = []
    for node in exported.ir["nodes"]:
        if node["op_type"] in CHOICES:
            name, place = CHOICES[node["op_type"]]
            tensor = {**node["outputs"][place], "producer_node": node["name"], "producer_output_idx": place}
            tensor["name"] = f"choice {len(found)}"
            shown.ir["graph_outputs"].append(tensor)
            found.append((name, tensor["name"]))
    return shown, found


class Choosing(TorchDispatchMode):
    """Calls that choose give what they are told to, in their order. `ties` is how many places are others than PyTorch's
    own, of `places`, `steps` the most that such a place has lost: by how much its score is worse, in steps of the dtype at
    the largest score that the call could choose; of integers without limit, where it is worse at all."""

    def __init__(self, told: Sequence[Choice], dtype: torch.dtype) -> None:
        super().__init__()
        self.told = list(told)
        self.dtype = dtype
        self.places, self.ties, self.steps = 0, 0, 0.0

    def __torch_dispatch__(
        self, op: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        result = op(*args, **kwargs)
        if str(op) not in CHOICES:
            return result
        name, _ = CHOICES[str(op)]
        own = result[1] if isinstance(result, (tuple, list)) else result
        if not self.told:
            raise ValueError(f"{name}: the program chooses less often")
        told, places = self.told.pop(0)
        if told != name or places.shape != own.shape:
            raise ValueError(f"expected {name} of {list(own.shape)}, the program has {told} of {list(places.shape)}")
        scores, dim = args[0], _argument(op, args, kwargs, "dim")
        if dim is None:
            scores, dim = scores.reshape(-1), 0
        values = self.look(scores, dim, own, places, op, args, kwargs)
        return (values, places) if isinstance(result, (tuple, list)) else places

    def look(
        self, scores: torch.Tensor, dim: int, own: torch.Tensor, places: torch.Tensor, op: Any, args: Any, kwargs: Any
    ) -> torch.Tensor:
        """The scores at the places that were told. Counts what they lose."""
        flat = own.dim() < scores.dim()
        mine, theirs = (p.unsqueeze(dim) if flat else p for p in (own, places))
        if (
            not ((0 <= theirs) & (theirs < scores.shape[dim])).all()
            or (theirs.sort(dim).values.diff(dim=dim) == 0).any()
        ):
            raise ValueError("places that there are not, or one of them twice")
        best, found = scores.gather(dim, mine), scores.gather(dim, theirs)
        a, b = best.double(), found.double()
        size = torch.where(a.isfinite() & (a.abs() < 1e4), a.abs(), 0).amax(dim, keepdim=True)
        step = size * (torch.finfo(self.dtype).eps if scores.is_floating_point() else 0)
        if _argument(op, args, kwargs, "sorted") is False:
            a, b = a.sort(dim).values, b.sort(dim).values
        steps = torch.where(a == b, 0, (a - b).abs() / step)  # where both are -inf too
        self.steps = max(self.steps, float(steps.nan_to_num(nan=torch.inf).max()) if steps.numel() else 0)
        other = mine != theirs
        self.places += mine.numel()
        self.ties += int(other.sum())
        return found.squeeze(dim) if flat else found


def _argument(op: Any, args: Sequence[Any], kwargs: Mapping[str, Any], name: str) -> Any:
    for i, argument in enumerate(op._schema.arguments):
        if argument.name == name:
            return kwargs.get(name, args[i] if i < len(args) else argument.default_value)
    return None
