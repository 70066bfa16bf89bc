"""What some architectures of transformers need beside small_config(): fields, classes, arguments that are fixed."""

from typing import Any

import transformers

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

BY_LAYERS = {"rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 1e4}}}
DINO = {
    "model_type": "dinov2", "image_size": IMAGE, "patch_size": 16, "hidden_size": 64, "num_hidden_layers": 2,
    "num_attention_heads": 4, "mlp_ratio": 2, "layer_norm_eps": 1e-6, "use_mask_token": False,
}  # fmt: skip
IN_SECTIONS = {
    "head_dim": 16,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 2, 2, 2]},
}
EXPERTS = {"num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": 48}
SMALL_AUDIO = {"num_filters": 8, "hidden_size": 16}

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
    "cohere_compass_text": BY_LAYERS,
    "cohere_compass": {"text_config": BY_LAYERS},
    "depth_pro": {
        "patch_size": IMAGE,
        "intermediate_hook_ids": [1, 0],
        **dict.fromkeys(("image_model_config", "patch_model_config", "fov_model_config"), DINO),
    },
    "diffusion_gemma": {"text_config": EXPERTS},
    "hunyuan_vl_text": IN_SECTIONS,
    "hunyuan_vl": {"text_config": IN_SECTIONS},
    "ernie4_5_vl_moe": {
        "text_config": {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [3, 3, 2]}}
    },
    "emu3": {"vocabulary_map": {"<image>": 99, "<|extra_200|>": 98}, "vq_config": {"base_channels": 32}},
    "instructblipvideo": {"video_token_index": 99},
    "lw_detr": {"projector_scale_factors": [1.0], "projector_in_channels": [64], "num_feature_levels": 1, **QUERIES},
    **dict.fromkeys(("mimi_decoder", "pocket_tts_audio_tokenizer_decoder"), {"upsample_groups": 64}),
    **dict.fromkeys(("minicpm_ocr_vision", "minicpmv4_7_vision"), {"insert_layer_id": 0}),
    "mistral4": {
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 1e4,
            "partial_rotary_factor": 0.5,
            "llama_4_scaling_beta": 0.1,
            "original_max_position_embeddings": 64,
        }
    },
    "molmo2": {"adapter_config": {"vision_feature_layer": [1, 0], "text_hidden_size": 64}},
    "moonshine_streaming": {"num_key_value_heads": 4},
    **dict.fromkeys(
        ("muse_spark_audio",), {"num_hidden_layers": 4, "hidden_sizes": (16, 32, 32, 64), "depths": (1, 1, 1, 1)}
    ),
    "muse_spark": {"audio_config": {"num_hidden_layers": 4, "hidden_sizes": (16, 32, 32, 64), "depths": (1, 1, 1, 1)}},
    "perceiver": {"num_latents": 16, "d_latents": 64, "d_model": 48, "num_self_attends_per_block": 2},
    "pp_doclayout_v3": {
        "encode_proj_layers": [2],
        **QUERIES,
        "backbone_config": resnet(),
        "encoder_in_channels": [32, 48, 64],
    },
    "pp_ocrv6_small_det": {"layer_list_out_channels": (96, 96, 192, 384)},
    "videoprism": {"image_size": IMAGE},
    "blt": {"encoder_hash_byte_group_vocab": 50},
    "t5gemma2_encoder": {"dropout_rate": 0.0, "text_config": {"dropout_rate": 0.0}},
    "vibevoice_acoustic_tokenizer_encoder": SMALL_AUDIO,
    "vibevoice_acoustic_tokenizer_decoder": SMALL_AUDIO,
    "vibevoice_acoustic_tokenizer": {"encoder_config": SMALL_AUDIO, "decoder_config": SMALL_AUDIO},
}

# What AutoModel does not make: the class, and the part of the configuration that it takes.
MODELS: dict[str, tuple[str, str]] = {
    "evolla": ("EvollaModel", ""),
    "musicgen": ("MusicgenModel", "decoder"),
    "musicgen_melody": ("MusicgenMelodyModel", "decoder"),
}


# Arguments that decide shapes: they are exported as part of the program.
FIXED: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("siglip2", "siglip2_vision_model"), ("spatial_shapes",)),
    **dict.fromkeys(("minicpm_ocr_vision", "minicpmv4_7_vision"), ("target_sizes",)),
    **dict.fromkeys(("inkling2_vision",), ("image_grid_thw",)),
    **dict.fromkeys(("muse_spark_vision",), ("grid_thw",)),
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
