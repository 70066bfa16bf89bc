"""Resizes that depend on how eager PyTorch has an image in memory, which IR does not say."""

from __future__ import annotations

import torch

ATEN = torch.ops.aten
NEAREST = {  # and the form that has a factor of each dimension
    op: packet.default
    for packet in (ATEN.upsample_nearest2d, ATEN.upsample_nearest3d)
    for op in (packet.default, packet.vec)
}


def follow_extents(graph: torch.fx.Graph) -> None:
    """Leaves factors out of nearest resizes of channels-last images: for more than three channels PyTorch's kernel takes
    the same element where an extent stays, and the half where it doubles, whatever the factor of that dimension."""
    for node in graph.nodes:
        if node.target not in NEAREST or not _channels_last(node.args[0].meta["val"]):
            continue
        image = node.args[0].meta["val"]
        before, after = ([int(extent) for extent in value.shape[2:]] for value in (image, node.meta["val"]))
        factors = _factors(node, len(after))
        kept = [None if out in (n, 2 * n) else f for n, out, f in zip(before, after, factors, strict=True)]
        node.target = NEAREST[node.target]
        node.args, node.kwargs = (node.args[0], after, *kept), {}


def _factors(node: torch.fx.Node, dims: int) -> list[float | None]:
    named = dict(zip((arg.name for arg in node.target._schema.arguments), node.args)) | node.kwargs
    if node.target._overloadname == "vec":
        return list(named.get("scale_factors") or [None] * dims)
    return [named.get(name) for name in ("scales_d", "scales_h", "scales_w")[3 - dims :]]


def _channels_last(image: torch.Tensor) -> bool:
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    return image.shape[1] > 3 and image.is_contiguous(memory_format=formats[image.dim()])
