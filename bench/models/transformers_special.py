"""What some architectures of transformers need beside small_config() and arguments(): fields, and arguments."""

from collections.abc import Callable
from typing import Any

import torch
import transformers

Arguments = dict[str, Any]


def resnet() -> Any:
    return transformers.ResNetConfig(
        embedding_size=16, hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 1, 1], layer_type="basic",
        out_features=["stage2", "stage3", "stage4"],
    )  # fmt: skip


BACKBONE = {"backbone_config": resnet(), "use_timm_backbone": False, "use_pretrained_backbone": False, "backbone": None}

# By architecture; of parts of a configuration as dicts.
CONFIGS: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("detr", "conditional_detr", "dab-detr", "deformable_detr", "table-transformer"), BACKBONE),
}

# From the arguments that there are to those that it needs.
ARGUMENTS: dict[str, Callable[[Arguments, Any], Arguments]] = {}
