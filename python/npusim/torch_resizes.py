"""Resizes that depend on how eager PyTorch has an image in memory, which IR does not say."""

from __future__ import annotations

import torch

ATEN = torch.ops.aten
NEAREST = {
    op: op._overloadname == "vec"
    for packet in (ATEN.upsample_nearest2d, ATEN.upsample_nearest3d)
    for op in (packet.default, packet.vec)
}


def follow_extents(graph: torch.fx.Graph) -> None:
    """Leaves the factors out of nearest resizes of channels-last images: for more than three channels PyTorch's kernel
    takes the same element where an extent stays, and the half where it doubles, whatever the factor."""
    for node in graph.nodes:
        if node.target not in NEAREST or not _channels_last(node.args[0].meta["val"]):
            continue
        sizes = [int(extent) for extent in node.meta["val"].shape[2:]]
        node.args = (node.args[0], sizes, None) if NEAREST[node.target] else (node.args[0], sizes)
        node.kwargs = {}


def _channels_last(image: torch.Tensor) -> bool:
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    return image.shape[1] > 3 and image.is_contiguous(memory_format=formats[image.dim()])
