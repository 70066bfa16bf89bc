"""A value of the IR while it is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple


class Refused(Exception):
    """A call that has no place in IR."""


@dataclass
class Ref:
    """A value of the IR: a node's result, an input or a weight."""

    node: str
    index: int
    tensor: dict[str, Any]  # name, shape, dtype
    is_weight: bool = False

    def reading(self) -> dict[str, Any]:
        """As an input of a node."""
        if self.is_weight:
            return self.tensor
        return {**self.tensor, "producer_node": self.node, "producer_output_idx": self.index}


@dataclass
class Complex:
    """A complex value."""

    re: Ref
    im: Ref


class Parts(NamedTuple):
    """A complex value where a function of tensors is given it."""

    re: Any
    im: Any
