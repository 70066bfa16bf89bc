"""What some architectures of transformers need beside small_config() and arguments(): fields, and arguments."""

from collections.abc import Callable
from typing import Any

import torch
import transformers

Arguments = dict[str, Any]
IMAGE = 64  # pixels


def resnet() -> Any:
    return transformers.ResNetConfig(
        embedding_size=16, hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 1, 1], layer_type="basic",
        out_features=["stage2", "stage3", "stage4"],
    )  # fmt: skip


BACKBONE = {"backbone_config": resnet(), "use_timm_backbone": False, "use_pretrained_backbone": False, "backbone": None}

SWIN = {"embed_dim": 48, "hidden_size": 384, "depths": [1, 1, 2, 1], "num_heads": [3, 6, 12, 24], "window_size": 4,
        "image_size": 128, "patch_size": 4}  # fmt: skip
QUERIES = {"num_queries": 20}  # fewer than places in the smallest image


def swin(first: int = 2) -> Any:
    return transformers.SwinConfig(**SWIN, out_features=[f"stage{i}" for i in range(first, 5)])


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
    **dict.fromkeys(("informer", "time_series_transformer"), SERIES),
    "autoformer": {**SERIES, "label_length": 4, "moving_average": 5},
    **dict.fromkeys(
        ("d_fine", "deimv2", "rt_detr", "rt_detr_v2", "pp_doclayout_v3", "pp_doclayout_v4"),
        {**QUERIES, "backbone_config": resnet(), "encoder_in_channels": [32, 48, 64]},
    ),
    **dict.fromkeys(("rf_detr", "lw_detr"), QUERIES),
    **dict.fromkeys(("grounding-dino", "mm-grounding-dino", "omdet-turbo"), {"backbone_config": swin(), **QUERIES}),
    **dict.fromkeys(("mask2former", "maskformer"), {"backbone_config": swin(1)}),
    **dict.fromkeys(("mimi", "pocket_tts_audio_tokenizer"), {"upsample_groups": 64}),
    **dict.fromkeys(("gptj", "codegen"), {"rotary_dim": 8}),
    **dict.fromkeys(("gemma3", "paligemma"), {"mm_tokens_per_image": 4}),
    **dict.fromkeys(("gemma3n_text",), {"num_kv_shared_layers": 0}),
    **dict.fromkeys(("deepseek_v2", "axk1"), {"num_experts_per_tok": 2, "n_group": 1, "topk_group": 1}),
    "dots1": {
        **{"n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2, "moe_intermediate_size": 48},
        **{"n_group": 1, "topk_group": 1, "first_k_dense_replace": 1},
    },
    **dict.fromkeys(("glm5_next_text",), {"qk_rope_head_dim": 0}),
    "glm5_next": {"text_config": {"qk_rope_head_dim": 0}},
    **dict.fromkeys(("hunyuan_v1_dense", "hunyuan_v1_moe", "ministral"), {"head_dim": 16}),
    "chameleon": {"vocabulary_map": {"<image>": 99}},
    "clvp": {name: {"num_attention_heads": 2} for name in ("text_config", "speech_config", "decoder_config")},
    "dbrx": {"attn_config": {"rope_theta": 10000.0, "clip_qkv": 8.0}},
    "dia": {
        "decoder_config": {"cross_hidden_size": 64, "cross_num_attention_heads": 4, "cross_num_key_value_heads": 4}
    },
    "fun_asr_nano": {
        "adaptor_config": {"hidden_size": 64, "intermediate_size": 16},
        "text_config": {"hidden_size": 64},
    },
    "kimi_linear": {"num_experts_per_token": 2},
    "lilt": {"hidden_size": 96},
    "nemotron": {"num_key_value_heads": 2},
    "zaya": {"num_experts_per_tok": 1},
    "granite4_vision": {"deepstack_layer_map": [[1, 0]], "downsample_rate": "4/8"},
    "granite_docling": {"vision_config": {"out_hidden_size": 64}, "text_config": {"hidden_size": 64}},
    "granite_speech5_ctc": {"encoder_config": {"context_size": 32}},
    "granite_speech5_encoder": {"context_size": 32},
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
    "zamba": {"num_hidden_layers": 4, "layer_types": ["mamba", "mamba", "hybrid", "hybrid"]},
    "zamba2": {
        "num_hidden_layers": 4,
        "layer_types": ["mamba", "mamba", "hybrid", "hybrid"],
        "hybrid_layer_ids": [2, 3],
    },
    "lfm2_moe": {"num_hidden_layers": 2, "layer_types": ["conv", "full_attention"], "num_dense_layers": 1},
    "voxtral": {"audio_token_id": 24},
    "instructblip": {"image_token_index": 99},
    "oneformer": {"backbone_config": swin(1), "backbone": None},
    "vits": {"noise_scale": 0.0, "noise_scale_duration": 0.0},  # noise decides lengths
    "xclip": {"vision_config": {"mit_hidden_size": 64}},
    "seggpt": {"image_size": [128, 64]},
}


# Arguments that decide shapes: they are exported as part of the program.
FIXED: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("siglip2", "siglip2_vision_model"), ("spatial_shapes",)),
    **dict.fromkeys(("lfm3_vl", "hyperclovax_vision_v2", "minimax_m3_vl"), ("image_grid_thw",)),
    **dict.fromkeys(
        (
            *("lfm3_vl_vision", "cohere_compass_vision", "cosmos3_edge_vision", "exaone4_5_vision", "glm4v_vision"),
            *("glm4v_moe_vision", "glm5_next_vision", "glm_image_vision", "glm_ocr_vision", "hunyuan_vl_vision"),
            *("qwen2_5_vl_vision", "qwen3_vl_vision", "qwen3_vl_moe_vision", "qwen3_5_vision", "qwen3_5_moe_vision"),
            *("qwen4_exp_vision", "kimi_k25_vision", "muse_glimmer_vision"),
        ),
        ("grid_thw",),
    ),
    "video_llama_3_vision": ("grid_thw", "merge_sizes"),
    "qwen3_asr_encoder": ("input_features_mask",),
    "led": ("attention_mask",),  # which tokens are padding decides what is computed
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


def masked(given: Arguments, config: Any) -> Arguments:
    return {**given, "input_features_mask": torch.ones(2, given["input_features"].shape[-1], dtype=torch.long)}


def rows_of_features(given: Arguments, config: Any) -> Arguments:
    config = getattr(config, "encoder_config", config)
    stacked = getattr(config, "num_stacked_frames", 4)
    return {"input_features": torch.randn(2, 64, config.num_mel_bins * stacked)}


def rows_of_patches(given: Arguments, config: Any) -> Arguments:
    return {
        **given,
        "pixel_values": torch.randn(2, 16, 3 * 16 * 16),
        "pixel_attention_mask": torch.ones(2, 16, dtype=torch.long),
        "spatial_shapes": torch.tensor([[4, 4], [4, 4]]),
    }


def prompted(given: Arguments, config: Any) -> Arguments:
    ids = torch.randint(3, 90, (2, 6))
    return {**given, "qformer_input_ids": ids, "qformer_attention_mask": torch.ones_like(ids)}


def lines_of_text(given: Arguments, config: Any) -> Arguments:
    return {**given, "pixel_values": torch.randn(2, 3, 96, 160)}


def speech(given: Arguments, config: Any) -> Arguments:
    size = config.feature_projection_input_dim
    return {
        "input_features": torch.randn(2, 48, size),
        "attention_mask": torch.ones(2, 48, dtype=torch.long),
        "decoder_input_ids": torch.randint(3, 90, (2, 7)),
        "use_cache": False,
    }


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
    "dia": lambda given, config: {**given, "decoder_input_ids": torch.randint(3, 90, (2, 7, 9))},
    "gemma3n_audio": lambda given, config: {
        "audio_mel": torch.randn(2, 64, config.input_feat_size),
        "audio_mel_mask": torch.arange(64) >= torch.tensor([[64], [48]]),
    },
    "gemma4_audio": lambda given, config: {"input_features": torch.randn(2, 64, 128)},
    "gemma4_vision": lambda given, config: {
        "pixel_values": torch.rand(2, 36, 3 * config.patch_size**2),
        "pixel_position_ids": torch.cartesian_prod(torch.arange(6), torch.arange(6)).repeat(2, 1, 1),
    },
    "audioflamingo3_encoder": masked,
    "kyutai_speech_to_text": lambda given, config: {
        "input_ids": torch.randint(3, 90, (2, 12, config.num_codebooks + 1)),
        "use_cache": False,
    },
    "wav2vec2-bert": lambda given, config: {**given, "input_features": torch.randn(2, 64, 160)},
    **dict.fromkeys(("siglip2", "siglip2_vision_model"), rows_of_patches),
    **dict.fromkeys(("granite_speech5_ctc", "granite_speech5_encoder"), rows_of_features),
    "fun_asr_nano_encoder": lambda given, config: {
        **rows_of_features(given, config),
        "input_features_mask": torch.ones(2, 64, dtype=torch.long),
    },
    **dict.fromkeys(("instructblip",), prompted),
    **dict.fromkeys(("pp_ocrv5_mobile_rec", "pp_ocrv5_server_rec"), lines_of_text),
    **dict.fromkeys(("seamless_m4t", "seamless_m4t_v2"), speech),
    "video_llama_3_vision": lambda given, config: {**given, "merge_sizes": torch.tensor([2, 2])},
    "kimi_k25_vision": lambda given, config: {
        **given,
        "pixel_values": torch.randn(32, 3, config.patch_size, config.patch_size),
    },
    "voxtral": lambda given, config: {**given, "input_features": torch.randn(2, 128, 3000)},
    "videoprism_vision_model": lambda given, config: {
        "pixel_values_videos": torch.randn(2, config.num_frames, 3, config.image_size, config.image_size)
    },
    "muse_glimmer_vision": lambda given, config: {**given, "pixel_values": torch.randn(32, 1536)},
    "xclip": lambda given, config: {**given, "pixel_values": torch.randn(2, 8, 3, IMAGE, IMAGE)},
    "seggpt": lambda given, config: {
        name: torch.randn(2, 3, IMAGE, IMAGE) for name in ("pixel_values", "prompt_pixel_values", "prompt_masks")
    },
    "oneformer": lambda given, config: {**given, "task_inputs": torch.randint(3, 90, (2, 77))},
    "univnet": lambda given, config: {**given, "noise_sequence": torch.randn(2, 100, config.model_in_channels)},
    "lxmert": visual,
    "vit_mae": lambda given, config: {**given, "noise": torch.rand(2, 16)},
    "visual_bert": lambda given, config: {**given, "visual_embeds": torch.randn(2, 5, config.visual_embedding_dim)},
}
