"""Architectures of diffusers: what removes noise (convolutional and transformers, of images, video and sound), what codes
images, what controls either."""

from collections.abc import Callable
from functools import partial
from typing import Any

import diffusers
import torch
from case import Case, Made

Inputs = dict[str, Any]
Model = tuple[dict[str, Any], Callable[[], Inputs]]  # the constructor's fields, forward()'s arguments


def cases() -> dict[str, Case]:
    return {
        name: Case(group, partial(make, name, fields, inputs))
        for group, models in GROUPS.items()
        for name, (fields, inputs) in models.items()
    }


def make(name: str, fields: dict[str, Any], inputs: Callable[[], Inputs]) -> Made:
    return getattr(diffusers, name)(**fields), (), inputs()


def noisy(
    channels: int = 4, size: int = 8, batch: int = 2, frames: int | None = None, key: str = "hidden_states"
) -> Inputs:
    """What noise is in, and the step it is of."""
    shape = (batch, channels, size, size) if frames is None else (batch, channels, frames, size, size)
    return {key: torch.randn(shape), "timestep": torch.tensor([3, 7])[:batch], "return_dict": False}


def text(channels: int, tokens: int = 5, batch: int = 2) -> Inputs:
    return {"encoder_hidden_states": torch.randn(batch, tokens, channels)}


def image(size: int = 16) -> Inputs:
    return {"sample": torch.randn(2, 3, size, size), "return_dict": False}


BLOCKS = {"block_out_channels": (32, 64), "layers_per_block": 1, "norm_num_groups": 8, "attention_head_dim": 8}
CROSSED = {
    **BLOCKS,
    "in_channels": 4,
    "out_channels": 4,
    "cross_attention_dim": 24,
    "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
    "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D"),
}
HEADS = {"num_attention_heads": 2, "attention_head_dim": 8, "in_channels": 4, "num_layers": 2}
PATCHES = {"sample_size": 8, "patch_size": 2}
CODER = {
    "in_channels": 3,
    "out_channels": 3,
    "block_out_channels": (16, 32),
    "down_block_types": ("DownEncoderBlock2D",) * 2,
    "up_block_types": ("UpDecoderBlock2D",) * 2,
    "norm_num_groups": 8,
}
CASCADE = ["SDCascadeResBlock", "SDCascadeTimestepBlock", "SDCascadeAttnBlock"]

UNETS: dict[str, Model] = {
    "UNet1DModel": (
        {
            "block_out_channels": (32, 64),
            "layers_per_block": 1,
            "norm_num_groups": 8,
            "sample_size": 32,
            "in_channels": 2,
            "out_channels": 2,
            "down_block_types": ("DownResnetBlock1D",) * 2,
            "up_block_types": ("UpResnetBlock1D",) * 2,
            "mid_block_type": "MidResTemporalBlock1D",
            "out_block_type": "OutConv1DBlock",
            "use_timestep_embedding": True,
            "act_fn": "swish",
            "flip_sin_to_cos": False,
            "freq_shift": 1.0,
        },
        lambda: {"sample": torch.randn(2, 2, 32), "timestep": torch.tensor([3, 7]), "return_dict": False},
    ),
    "UNet2DModel": (
        BLOCKS
        | {
            "in_channels": 3,
            "out_channels": 3,
            "down_block_types": ("DownBlock2D", "AttnDownBlock2D"),
            "up_block_types": ("AttnUpBlock2D", "UpBlock2D"),
        },
        lambda: noisy(3, 16, key="sample"),
    ),
    "UNet2DConditionModel": (CROSSED, lambda: noisy(size=16, key="sample") | text(24)),
    "UNet3DConditionModel": (
        CROSSED
        | {
            "down_block_types": ("CrossAttnDownBlock3D", "DownBlock3D"),
            "up_block_types": ("UpBlock3D", "CrossAttnUpBlock3D"),
        },
        lambda: noisy(frames=3, key="sample") | text(24),
    ),
    "UVit2DModel": (
        {
            "hidden_size": 32,
            "cond_embed_dim": 16,
            "encoder_hidden_size": 16,
            "micro_cond_encode_dim": 8,
            "micro_cond_embed_dim": 40,
            "block_out_channels": 32,
            "in_channels": 32,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "intermediate_size": 64,
            "vocab_size": 20,
            "codebook_size": 16,
            "block_num_heads": 2,
            "num_res_blocks": 1,
            "sample_size": 8,
            "downsample": True,
            "upsample": True,
        },
        lambda: (
            text(16)
            | {
                "input_ids": torch.randint(0, 16, (2, 8, 8)),
                "pooled_text_emb": torch.randn(2, 16),
                "micro_conds": torch.randn(2, 5),
            }
        ),
    ),
    "StableCascadeUNet": (
        {
            "block_out_channels": (32, 64),
            "conditioning_dim": 32,
            "down_num_layers_per_block": [1, 1],
            "up_num_layers_per_block": [1, 1],
            "down_blocks_repeat_mappers": [1, 1],
            "up_blocks_repeat_mappers": [1, 1],
            "block_types_per_layer": [CASCADE, CASCADE],
            "in_channels": 4,
            "out_channels": 4,
            "num_attention_heads": [2, 2],
            "clip_image_in_channels": 16,
            "clip_text_in_channels": 16,
            "clip_text_pooled_in_channels": 16,
            "clip_seq": 2,
            "timestep_ratio_embedding_dim": 16,
        },
        lambda: {
            "sample": torch.randn(2, 4, 8, 8),
            "timestep_ratio": torch.rand(2),
            "clip_text_pooled": torch.randn(2, 1, 16),
            "return_dict": False,
        },
    ),
    "ControlNetModel": (
        {k: v for k, v in CROSSED.items() if k not in ("out_channels", "up_block_types")}
        | {"conditioning_embedding_out_channels": (16, 32)},
        lambda: noisy(key="sample") | text(24) | {"controlnet_cond": torch.randn(2, 3, 16, 16)},
    ),
}

TRANSFORMERS: dict[str, Model] = {
    "DiTTransformer2DModel": (
        HEADS | PATCHES | {"out_channels": 8, "num_embeds_ada_norm": 20, "norm_num_groups": 4},
        lambda: noisy() | {"class_labels": torch.tensor([1, 2])},
    ),
    "PixArtTransformer2DModel": (
        HEADS
        | PATCHES
        | {"out_channels": 8, "cross_attention_dim": 16, "caption_channels": 12, "use_additional_conditions": False},
        lambda: noisy() | text(12) | {"added_cond_kwargs": {"resolution": None, "aspect_ratio": None}},
    ),
    "SD3Transformer2DModel": (
        HEADS
        | PATCHES
        | {
            "joint_attention_dim": 24,
            "caption_projection_dim": 16,
            "pooled_projection_dim": 20,
            "out_channels": 4,
            "pos_embed_max_size": 8,
        },
        lambda: noisy() | text(24) | {"pooled_projections": torch.randn(2, 20)},
    ),
    "FluxTransformer2DModel": (
        {
            "patch_size": 1,
            "in_channels": 4,
            "num_layers": 1,
            "num_single_layers": 1,
            "attention_head_dim": 16,
            "num_attention_heads": 2,
            "joint_attention_dim": 32,
            "pooled_projection_dim": 32,
            "axes_dims_rope": (4, 4, 8),
        },
        lambda: (
            text(32, 6, 1)
            | {
                "hidden_states": torch.randn(1, 16, 4),
                "pooled_projections": torch.randn(1, 32),
                "timestep": torch.tensor([0.5]),
                "img_ids": torch.randint(0, 4, (16, 3)),
                "txt_ids": torch.zeros(6, 3),
                "return_dict": False,
            }
        ),
    ),
    "AuraFlowTransformer2DModel": (
        {k: v for k, v in HEADS.items() if k != "num_layers"}
        | PATCHES
        | {
            "num_mmdit_layers": 1,
            "num_single_dit_layers": 1,
            "caption_projection_dim": 16,
            "joint_attention_dim": 16,
            "out_channels": 4,
            "pos_embed_max_size": 64,
        },
        lambda: noisy() | text(16),
    ),
    "SanaTransformer2DModel": (
        HEADS
        | {
            "patch_size": 1,
            "out_channels": 4,
            "num_cross_attention_heads": 2,
            "cross_attention_head_dim": 8,
            "cross_attention_dim": 16,
            "caption_channels": 8,
            "sample_size": 8,
        },
        lambda: noisy() | text(8),
    ),
    "LuminaNextDiT2DModel": (
        PATCHES
        | {
            "in_channels": 4,
            "hidden_size": 24,
            "num_layers": 2,
            "num_attention_heads": 3,
            "num_kv_heads": 1,
            "multiple_of": 16,
            "learn_sigma": False,
            "cross_attention_dim": 32,
            "scaling_factor": 1.0,
        },
        lambda: (
            noisy(batch=1)
            | text(32, batch=1)
            | {
                "timestep": torch.rand(1),
                "encoder_mask": torch.ones(1, 5),
                "image_rotary_emb": torch.randn(16, 16, 4),
                "cross_attention_kwargs": {},
            }
        ),
    ),
    "LatteTransformer3DModel": (
        HEADS
        | PATCHES
        | {
            "out_channels": 8,
            "cross_attention_dim": 16,
            "caption_channels": 8,
            "norm_type": "ada_norm_single",
            "norm_elementwise_affine": False,
            "num_embeds_ada_norm": 100,
            "video_length": 1,
        },
        lambda: noisy(frames=1) | text(8) | {"enable_temporal_attentions": False},
    ),
    "CogVideoXTransformer3DModel": (
        HEADS
        | {
            "out_channels": 4,
            "time_embed_dim": 2,
            "text_embed_dim": 8,
            "sample_width": 8,
            "sample_height": 8,
            "sample_frames": 8,
            "patch_size": 2,
            "max_text_seq_length": 8,
        },
        lambda: {
            "hidden_states": torch.randn(1, 2, 4, 8, 8),
            "encoder_hidden_states": torch.randn(1, 8, 8),
            "timestep": torch.tensor([3]),
            "return_dict": False,
        },
    ),
    "WanTransformer3DModel": (
        HEADS
        | {
            "patch_size": (1, 2, 2),
            "attention_head_dim": 12,
            "out_channels": 4,
            "text_dim": 16,
            "freq_dim": 16,
            "ffn_dim": 32,
            "rope_max_seq_len": 32,
        },
        lambda: noisy(batch=1, frames=2) | text(16, 6, 1),
    ),
    "MochiTransformer3DModel": (
        HEADS
        | {
            "patch_size": 2,
            "pooled_projection_dim": 16,
            "text_embed_dim": 16,
            "time_embed_dim": 4,
            "max_sequence_length": 8,
        },
        lambda: (
            noisy(batch=1, frames=2) | text(16, 6, 1) | {"encoder_attention_mask": torch.ones(1, 6, dtype=torch.bool)}
        ),
    ),
    "LTXVideoTransformer3DModel": (
        {
            "in_channels": 8,
            "out_channels": 8,
            "num_attention_heads": 2,
            "attention_head_dim": 8,
            "cross_attention_dim": 16,
            "num_layers": 1,
            "caption_channels": 16,
        },
        lambda: (
            text(16, 6, 1)
            | {
                "hidden_states": torch.randn(1, 32, 8),
                "timestep": torch.tensor([3]),
                "encoder_attention_mask": torch.ones(1, 6),
                "num_frames": 2,
                "height": 4,
                "width": 4,
                "return_dict": False,
            }
        ),
    ),
    "PriorTransformer": (
        {
            "num_attention_heads": 2,
            "attention_head_dim": 4,
            "num_layers": 2,
            "embedding_dim": 8,
            "num_embeddings": 7,
            "additional_embeddings": 4,
        },
        lambda: (
            text(8, 7)
            | {
                "hidden_states": torch.randn(2, 8),
                "timestep": torch.tensor(2),
                "proj_embedding": torch.randn(2, 8),
                "return_dict": False,
            }
        ),
    ),
}

AUTOENCODERS: dict[str, Model] = {
    "AutoencoderKL": (CODER | {"latent_channels": 4}, image),
    "VQModel": (CODER | {"latent_channels": 3, "num_vq_embeddings": 16}, image),
    "AutoencoderTiny": (
        {
            "encoder_block_out_channels": (16, 16),
            "decoder_block_out_channels": (16, 16),
            "num_encoder_blocks": (1, 1),
            "num_decoder_blocks": (1, 1),
        },
        image,
    ),
    "AutoencoderDC": (
        {
            "in_channels": 3,
            "latent_channels": 4,
            "attention_head_dim": 2,
            **{
                f"{half}_{field}": value
                for half in ("encoder", "decoder")
                for field, value in (
                    ("block_types", ("ResBlock", "EfficientViTBlock")),
                    ("block_out_channels", (8, 8)),
                    ("qkv_multiscales", ((), (5,))),
                    ("layers_per_block", (1, 1)),
                )
            },
            "downsample_block_type": "conv",
            "upsample_block_type": "interpolate",
        },
        image,
    ),
}

GROUPS = {"UNet": UNETS, "transformer": TRANSFORMERS, "autoencoder": AUTOENCODERS}
