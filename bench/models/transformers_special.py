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

SWIN = {"embed_dim": 48, "hidden_size": 384, "depths": [1, 1, 2, 1], "num_heads": [3, 6, 12, 24], "window_size": 4,
        "image_size": 128, "patch_size": 4}  # fmt: skip
SERIES = {
    "prediction_length": 4,
    "context_length": 8,
    "lags_sequence": [1, 2],
    "num_time_features": 1,
    "static_categorical_features": 0,
}

# By architecture; of parts of a configuration as dicts.
CONFIGS: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("detr", "conditional_detr", "dab-detr", "deformable_detr", "table-transformer"), BACKBONE),
    **dict.fromkeys(("swin", "swinv2", "donut-swin", "maskformer-swin"), SWIN),
    **dict.fromkeys(("autoformer", "informer", "time_series_transformer"), SERIES),
    **dict.fromkeys(("gptj", "codegen"), {"rotary_dim": 8}),
    **dict.fromkeys(("gemma3", "paligemma"), {"mm_tokens_per_image": 4}),
    **dict.fromkeys(("gemma3n_text",), {"num_kv_shared_layers": 0}),
    "deepseek_v2": {"num_experts_per_tok": 2, "n_group": 1, "topk_group": 1},
    "esm": {"pad_token_id": 1, "mask_token_id": 2},
    "layoutlmv3": {"coordinate_size": 12, "shape_size": 8},
    "reformer": {"axial_pos_embds_dim": (16, 48), "axial_pos_shape": (4, 16), "attn_layers": ["local", "lsh"]},
    "squeezebert": {"embedding_size": 64},
    "swin2sr": {"embed_dim": 48, "hidden_size": 48, "depths": [2, 2], "num_heads": [3, 3], "window_size": 4},
    "xmod": {"default_language": "en_XX"},
    "efficientnet": {"width_coefficient": 0.25, "depth_coefficient": 0.3, "hidden_dim": 320},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]], "num_layers": 2},
    "mamba2": {"hidden_size": 64, "num_heads": 8, "head_dim": 16, "n_groups": 2},
    "clap": {"projection_dim": 64},
    "audio-spectrogram-transformer": {"max_length": 128},
    "blip-2": {"image_token_index": 99},
    "csm": {"codec_config": {"num_filters": 16, "hidden_size": 64, "upsample_groups": 64}},
    "gemma3n": {"text_config": {"num_kv_shared_layers": 0}},
    "whisper": {"max_source_positions": 50},
}


def series(given: Arguments, config: Any) -> Arguments:
    past, future = config.context_length + max(config.lags_sequence), config.prediction_length
    return {
        "past_values": torch.randn(2, past),
        "past_time_features": torch.randn(2, past, 1),
        "past_observed_mask": torch.ones(2, past),
        "future_values": torch.randn(2, future),
        "future_time_features": torch.randn(2, future, 1),
    }


def decisions(given: Arguments, config: Any) -> Arguments:
    return {
        "states": torch.randn(2, 5, config.state_dim),
        "actions": torch.randn(2, 5, config.act_dim),
        "rewards": torch.randn(2, 5, 1),
        "returns_to_go": torch.randn(2, 5, 1),
        "timesteps": torch.arange(5).repeat(2, 1),
        "attention_mask": torch.ones(2, 5, dtype=torch.long),
    }


def visual(given: Arguments, config: Any) -> Arguments:
    return {
        **given,
        "visual_feats": torch.randn(2, 6, config.visual_feat_dim),
        "visual_pos": torch.rand(2, 6, config.visual_pos_dim),
    }


def series_rows(given: Arguments, config: Any) -> Arguments:
    return {"past_values": torch.randn(2, config.context_length, config.num_input_channels)}


# From the arguments that there are to those that it needs.
ARGUMENTS: dict[str, Callable[[Arguments, Any], Arguments]] = {
    **dict.fromkeys(("autoformer", "informer", "time_series_transformer"), series),
    **dict.fromkeys(("patchtst", "patchtsmixer"), series_rows),
    "audio-spectrogram-transformer": lambda given, config: {
        "input_values": torch.randn(2, config.max_length, config.num_mel_bins)
    },
    "blip_2_qformer": lambda given, config: {
        "query_embeds": torch.randn(2, 8, config.hidden_size),
        "encoder_hidden_states": torch.randn(2, 5, config.encoder_hidden_size),
    },
    "clap": lambda given, config: {
        **given,
        "input_features": torch.randn(2, 1, 1001, config.audio_config.num_mel_bins),
        "is_longer": torch.zeros(2, 1, dtype=torch.bool),
    },
    "decision_transformer": decisions,
    "lxmert": visual,
    "visual_bert": lambda given, config: {**given, "visual_embeds": torch.randn(2, 5, config.visual_embedding_dim)},
}
