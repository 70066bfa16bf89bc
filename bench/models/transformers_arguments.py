"""What some architectures of transformers are called with beside arguments()."""

from collections.abc import Callable
from typing import Any

import torch
from transformers_special import IMAGE

Arguments = dict[str, Any]


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
    config = getattr(config, "encoder_config", getattr(config, "audio_config", config))
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


def words(given: Arguments, config: Any) -> Arguments:
    """Of a model of text and images, the text alone."""
    return {name: value for name, value in given.items() if name in ("input_ids", "attention_mask", "use_cache")}


def in_windows(given: Arguments, config: Any) -> Arguments:
    """Two images of 4 x 4 patches, one behind the other."""
    return {"pixel_values": torch.randn(1, 3, 16, 32 * 16), "target_sizes": torch.tensor([[4, 4], [4, 4]])}


def spoken(given: Arguments, config: Any) -> Arguments:
    """Features of one recording for two texts of three tokens each that stand for it."""
    ids = torch.randint(3, 90, (1, 12))
    ids[0, 2:5] = config.audio_token_index if hasattr(config, "audio_token_index") else config.audio_token_id
    return {
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids),
        "input_features": torch.randn(1, 15, 160),
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
    **dict.fromkeys(
        (
            *(
                "embedding_gemma2",
                "gemma4",
                "gemma4_unified",
                "ernie4_5_vl_moe",
                "emu3",
                "deepseek_ocr2",
                "hunyuan_vl",
                "molmo2",
            ),
            *(
                "muse_spark",
                "qwen2_5_omni_thinker",
                "qwen3_omni_moe_thinker",
                "step3p7",
                "evolla",
                "cohere_compass",
                "perception_lm",
            ),
            *(
                "nemo_speechlm",
                "granite_speech",
                "granite_speech_plus",
                "fun_asr_nano",
                "voxtral_realtime",
                "vibevoice",
                "vibevoice_asr",
            ),
            "diffusion_gemma",
        ),
        words,
    ),
    **dict.fromkeys(
        ("musicgen", "musicgen_melody"),
        lambda given, config: {
            "input_ids": torch.randint(3, 90, (2 * config.decoder.num_codebooks, 12)),
            "use_cache": False,
        },
    ),
    "depth_pro": lambda given, config: {"pixel_values": torch.randn(1, 3, 256, 256)},
    "kosmos-2": lambda given, config: {
        "pixel_values": torch.randn(2, 3, IMAGE, IMAGE),
        "input_ids": torch.randint(3, 90, (2, config.latent_query_num + 8)),
        "image_embeds_position_mask": (torch.arange(config.latent_query_num + 8) < config.latent_query_num).repeat(
            2, 1
        ),
        "use_cache": False,
    },
    "idefics": lambda given, config: {
        **given,
        "pixel_values": torch.randn(2, 1, 3, IMAGE, IMAGE),
        "image_attention_mask": torch.ones(2, 12, 1, dtype=torch.long),
    },
    "instructblipvideo": lambda given, config: {
        **prompted(given, config),
        "pixel_values": torch.randn(2, 2, 3, IMAGE, IMAGE),
        "input_ids": torch.cat([torch.full((2, 2 * config.num_query_tokens), 99), given["input_ids"]], 1),
        "attention_mask": torch.ones(2, 2 * config.num_query_tokens + 12, dtype=torch.long),
    },
    **dict.fromkeys(("minicpm_ocr_vision", "minicpmv4_7_vision"), in_windows),
    "mimi_decoder": lambda given, config: {"latents": torch.randn(1, config.hidden_size, 6)},
    "pocket_tts_audio_tokenizer_decoder": lambda given, config: {"latents": torch.randn(1, config.latent_dim, 6)},
    "muse_glimmer_assistant": lambda given, config: {
        "noise_embeds": torch.randn(2, 4, 64),
        "context_hidden_states": torch.randn(2, 6, 64 * len(config.target_layer_ids)),
        "use_cache": False,
    },
    "muse_spark_audio": lambda given, config: {"input_values": torch.randn(1, 1920)},
    "muse_spark_vision": lambda given, config: {**given, "pixel_values": torch.randn(32, 1536)},
    "nemotron3_5_transcribe_word_timestamp": lambda given, config: {
        **given,
        "inputs_embeds": torch.randn(2, 12, config.hidden_size),
    },
    **dict.fromkeys(
        ("neucodec", "xcodec2"),
        lambda given, config: {"input_values": torch.randn(1, 1, 3200), "input_features": torch.randn(1, 10, 160)},
    ),
    "xcodec": lambda given, config: {"input_values": torch.randn(1, 1, 1600)},
    "pe_audio_video_encoder": lambda given, config: {
        "input_values": torch.randn(2, 1, 3840),
        "pixel_values_videos": torch.randn(2, 2, 3, 336, 336),
    },
    "perceiver": lambda given, config: {"inputs": torch.randn(2, 20, config.d_model)},
    "pi0": lambda given, config: {**given, "action_embeds": torch.randn(2, 4, config.dit_config.hidden_size)},
    "speecht5": lambda given, config: {
        "input_values": torch.randn(2, 11, 64),
        "decoder_input_values": torch.randn(2, 5, 64),
        "use_cache": False,
    },
    "timesfm": lambda given, config: {
        "past_values": torch.randn(2, 64),
        "past_values_padding": torch.zeros(2, 64, dtype=torch.long),
        "freq": torch.zeros(2, 1, dtype=torch.long),
    },
    "timesfm2_5": lambda given, config: {
        "past_values": torch.randn(2, 64),
        "past_values_padding": torch.zeros(2, 64, dtype=torch.long),
    },
    "tvp": lambda given, config: {**given, "pixel_values": torch.randn(2, 2, 3, 448, 448)},
    "moonshine_streaming": lambda given, config: {
        "input_values": torch.randn(2, 1600),
        "decoder_input_ids": torch.randint(3, 90, (2, 7)),
        "use_cache": False,
    },
    "vit_mae": lambda given, config: {**given, "noise": torch.rand(2, 16)},
    "visual_bert": lambda given, config: {**given, "visual_embeds": torch.randn(2, 5, config.visual_embedding_dim)},
}
