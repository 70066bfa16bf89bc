"""What holds while torch.export traces a model, besides the model."""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Iterator
from typing import Any

import torch

from .torch_alike import Alike


@contextlib.contextmanager
def tracing() -> Iterator[None]:
    """Without what the tracer says of itself, without nn.MultiheadAttention's one operator for all it does, and without
    nn.Transformer's look at the numbers of a mask: it only chooses between the mask and a name for it."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    look = torch.nn.modules.transformer._detect_is_causal_mask
    torch.nn.modules.transformer._detect_is_causal_mask = _is_told_causal
    loggers = [logging.getLogger(name) for name in ("torch.export", "torch.fx.experimental.symbolic_shapes")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(action="ignore"), _ctc_loss_known(), Alike():
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
        torch.nn.modules.transformer._detect_is_causal_mask = look
        torch.backends.mha.set_fastpath_enabled(fast)


@contextlib.contextmanager
def following_example() -> Iterator[None]:
    """Where a Python branch or a size depends on values the tracer takes those of the example, and puts the condition into
    the graph. What it cannot know of a tensor is the example's; whether an offset is it need not compare."""
    fake = torch._subclasses.fake_utils
    compare = fake._check_fake_real_tensors
    fake._check_fake_real_tensors = lambda *_, **__: None
    try:
        with torch._functorch.config.patch(
            fake_tensor_propagate_real_tensors=True, generate_fake_kernels_from_real_mismatches=True
        ):
            yield
    finally:
        fake._check_fake_real_tensors = compare


def _is_told_causal(mask: Any, is_causal: bool | None = None, size: int | None = None) -> bool:
    return is_causal is True


@contextlib.contextmanager
def _ctc_loss_known() -> Iterator[None]:
    """With a shape for what PyTorch gives beside the CTC loss, which nobody reads there, and lengths in tensors: of others
    it does not trace the mean."""
    ctc_loss = torch.ctc_loss

    def of_tensors(log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, *args: Any, **kw: Any) -> Any:
        lengths = (x if isinstance(x, torch.Tensor) else torch.tensor(x) for x in (input_lengths, target_lengths))
        return ctc_loss(log_probs, targets, *lengths, *args, **kw)

    with torch.library._scoped_library("aten", "FRAGMENT") as library:
        torch.library.register_fake("aten::_ctc_loss.Tensor", _fake_ctc_loss, lib=library)
        torch.ctc_loss = of_tensors
        try:
            yield
        finally:
            torch.ctc_loss = ctc_loss


def _fake_ctc_loss(log_probs: Any, targets: Any, *_: Any) -> tuple[Any, Any]:
    steps, batch, _labels = log_probs.shape
    return log_probs.new_empty(batch), log_probs.new_empty(batch, steps, 2 * targets.shape[-1] + 1)
