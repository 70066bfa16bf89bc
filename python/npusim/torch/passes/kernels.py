"""Operators that PyTorch's dispatcher leaves of one of its kernels for a GPU, as the operators that they are for every device."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch

ATEN = torch.ops.aten
Call = tuple[Any, tuple[Any, ...], dict[str, Any]]  # operator, arguments


def _extents(node: Any) -> tuple[int, int]:
    """Heads and rows."""
    shape = node.meta["val"].shape
    return shape[-3], shape[-2]


def _attention(query: Any, key: Any, value: Any, mask: Any, drop: float, causal: bool, scale: float | None) -> Call | None:
    (heads, rows), (key_heads, keys) = _extents(query), _extents(key)
    if drop or (causal and rows != keys):  # kernels do not agree on which keys the first rows then see
        return None
    more = {"scale": scale, "enable_gqa": heads != key_heads}
    return ATEN.scaled_dot_product_attention.default, (query, key, value, mask, 0.0, causal), more


def _with_bias(
    query: Any, key: Any, value: Any, attn_bias: Any, compute_log_sumexp: bool, dropout_p: float = 0.0,
    is_causal: bool = False, return_debug_mask: bool = False, *, scale: float | None = None,
) -> Call | None:  # fmt: skip
    return _attention(query, key, value, attn_bias, dropout_p, is_causal, scale)


def _flash(
    query: Any, key: Any, value: Any, dropout_p: float = 0.0, is_causal: bool = False, return_debug_mask: bool = False,
    *, scale: float | None = None,
) -> Call | None:  # fmt: skip
    return _attention(query, key, value, None, dropout_p, is_causal, scale)


def _batch_norm(image: Any, weight: Any, bias: Any, mean: Any, variance: Any, momentum: float, eps: float) -> Call:
    return ATEN.batch_norm.default, (image, weight, bias, mean, variance, False, momentum, eps, False), {}


# What the first result of a call is, whose others nobody reads; None: no such operator.
FIRST_RESULT: dict[Any, Callable[..., Call | None]] = {
    ATEN._scaled_dot_product_cudnn_attention.default: _with_bias,
    ATEN._scaled_dot_product_efficient_attention.default: _with_bias,
    ATEN._scaled_dot_product_flash_attention.default: _flash,
    ATEN._native_batch_norm_legit_no_training.default: _batch_norm,
    ATEN._batch_norm_no_update.default: _batch_norm,
}


def spell_out_kernels(graph: torch.fx.Graph) -> None:
    for node in [node for node in graph.nodes if node.target in FIRST_RESULT]:
        if any(user.target is not operator.getitem or user.args[1] != 0 for user in node.users):
            continue
        call = FIRST_RESULT[node.target](*node.args, **node.kwargs)
        if call is None:
            continue
        for user in list(node.users):
            with graph.inserting_before(user):
                made = graph.call_function(*call)
            made.meta = user.meta
            user.replace_all_uses_with(made)
            graph.erase_node(user)
        graph.erase_node(node)
