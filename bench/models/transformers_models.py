"""Architectures of transformers: every entry of its model mapping, with a configuration made small by its own names."""
import inspect
import os
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
import torch
import transformers
from transformers.models.auto import configuration_auto, modeling_auto

from case import Case, Made

transformers.logging.set_verbosity_error()
TEXT, IMAGE, PATCH = 12, 64, 16  # tokens, pixels, pixels

# What a configuration's fields become, wherever they stand in it.
SMALL: dict[str, Any] = {
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "dim", "embed_dim", "projection_dim", "encoder_hidden_size"), 64),
    **dict.fromkeys(("decoder_hidden_size", "text_hidden_size", "vision_hidden_size", "audio_hidden_size"), 64),
    **dict.fromkeys(("intermediate_size", "ffn_dim", "encoder_ffn_dim", "decoder_ffn_dim", "d_ff", "n_inner"), 96),
    **dict.fromkeys(("moe_intermediate_size", "shared_expert_intermediate_size", "dim_feedforward"), 48),
    **dict.fromkeys(("num_hidden_layers", "encoder_layers", "decoder_layers", "n_layer", "n_layers", "num_layers"), 2),
    **dict.fromkeys(("num_encoder_layers", "num_decoder_layers", "depth", "num_hidden_groups"), 2),
    **dict.fromkeys(("num_attention_heads", "encoder_attention_heads", "decoder_attention_heads", "n_head", "n_heads"), 4),
    **dict.fromkeys(("num_heads", "decoder_num_attention_heads", "encoder_num_attention_heads"), 4),
    **dict.fromkeys(("num_key_value_heads", "num_query_groups", "n_groups", "num_kv_heads"), 2),
    **dict.fromkeys(("head_dim", "d_kv", "attention_head_size", "qk_rope_head_dim", "v_head_dim", "qk_nope_head_dim"), 16),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"), 4),
    **dict.fromkeys(("num_experts_per_tok", "moe_k", "moe_topk", "top_k_experts"), 2),
    "vocab_size": 120,
    "max_position_embeddings": 64,
    "image_size": IMAGE,
    "patch_size": PATCH,
    "q_lora_rank": 32,
    "kv_lora_rank": 32,
    "use_cache": False,
    "return_dict": True,
}


def cases() -> dict[str, Case]:
    return {name: Case(group_of(name), lambda name=name: make(name)) for name in modeling_auto.MODEL_MAPPING_NAMES}


def group_of(name: str) -> str:
    """By the first of transformers' own mappings that has it."""
    for group, mapping in GROUPS.items():
        if any(name in getattr(modeling_auto, f"MODEL_FOR_{m}_MAPPING_NAMES", ()) for m in mapping):
            return group
    return "other"


GROUPS = {
    "multimodal": ("IMAGE_TEXT_TO_TEXT", "VISUAL_QUESTION_ANSWERING", "MULTIMODAL_LM", "ZERO_SHOT_IMAGE_CLASSIFICATION"),
    "audio": ("CTC", "AUDIO_CLASSIFICATION", "SPEECH_SEQ_2_SEQ", "TEXT_TO_WAVEFORM", "AUDIO_TOKENIZATION"),
    "encoder-decoder": ("SEQ_TO_SEQ_CAUSAL_LM",),
    "decoder": ("CAUSAL_LM",),
    "vision": ("IMAGE_CLASSIFICATION", "OBJECT_DETECTION", "BACKBONE", "DEPTH_ESTIMATION", "IMAGE"),
    "encoder": ("MASKED_LM", "SEQUENCE_CLASSIFICATION", "TEXT_ENCODING"),
}


# ---- configurations


def small_config(name: str) -> Any:
    kind = configuration_auto.CONFIG_MAPPING[name]
    config = kind(**shrunk(kind()))
    return config


def shrunk(config: Any) -> dict[str, Any]:
    """Arguments for a configuration like this one, small."""
    values: dict[str, Any] = {}
    parts = getattr(type(config), "sub_configs", {})
    for key, value in vars(config).items():
        if key in parts or isinstance(value, transformers.PretrainedConfig):
            if isinstance(value, transformers.PretrainedConfig):
                values[key] = type(value)(**shrunk(value)) if type(value) is not transformers.PretrainedConfig else value
        elif key in SMALL and value is not None and not isinstance(value, (list, tuple)):
            values[key] = SMALL[key]
        elif key.endswith("_token_id") and isinstance(value, int) and value >= SMALL["vocab_size"]:
            values[key] = 100 + sum(map(ord, key)) % 20
    return values


# ---- arguments


def make(name: str) -> Made:
    config = small_config(name)
    model = transformers.AutoModel.from_config(config)
    size = sum(p.numel() for p in model.parameters())
    if size > 30e6:
        raise ValueError(f"{size / 1e6:.0f} million parameters")
    return model, (), arguments(model, config)


def field(config: Any, *names: str, default: Any = None) -> Any:
    """The first of these fields that the configuration, or a part of it, has."""
    parts = [config, *(v for v in vars(config).values() if isinstance(v, transformers.PretrainedConfig))]
    for name in names:
        for part in parts:
            if getattr(part, name, None) is not None:
                return getattr(part, name)
    return default


def arguments(model: torch.nn.Module, config: Any) -> dict[str, Any]:
    """What forward() needs, by the names of its parameters."""
    takes = inspect.signature(model.forward).parameters
    given: dict[str, Any] = {}
    vocabulary = field(config, "vocab_size", default=100)

    def tokens(length: int = TEXT) -> torch.Tensor:
        return torch.randint(3, min(vocabulary, 90), (2, length))

    def mask() -> torch.Tensor:
        ones = torch.ones(2, TEXT, dtype=torch.long)
        ones[1, TEXT - 3 :] = 0
        return ones

    if "input_ids" in takes:
        given["input_ids"] = tokens()
        if "attention_mask" in takes:
            given["attention_mask"] = mask()
    if "decoder_input_ids" in takes:
        given["decoder_input_ids"] = tokens(7)
    if "pixel_values" in takes:
        size = field(config, "image_size", default=IMAGE)
        height, width = size if isinstance(size, (list, tuple)) else (size, size)
        given["pixel_values"] = torch.randn(2, field(config, "num_channels", default=3), height, width)
    if "input_values" in takes and "input_ids" not in takes:
        given["input_values"] = torch.randn(2, 1600)
    if "input_features" in takes and "input_ids" not in takes:
        bins = field(config, "num_mel_bins", "feature_size", "input_feat_per_channel", default=80)
        given["input_features"] = torch.randn(2, bins, 64)
    if "use_cache" in takes:
        given["use_cache"] = False
    return given
