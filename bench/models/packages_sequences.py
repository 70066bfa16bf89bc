"""Models of small packages: attention and its kin over sequences."""

from collections.abc import Callable
from typing import Any

import torch
from case import Made
from packages_making import Method, ids, of, plain, rows

SEQUENCE = (2, 16, 32)


def x_transformers(**layers: Any) -> Callable[[], Made]:
    def make() -> Made:
        from x_transformers import Decoder, TransformerWrapper

        layers_ = Decoder(dim=32, depth=2, heads=4, attn_dim_head=8, **layers)
        return TransformerWrapper(num_tokens=64, max_seq_len=32, attn_layers=layers_), (ids(2, 16),), {}

    return make


MODELS: dict[str, dict[str, Callable[[], Made]]] = {
    "x-transformers": {
        "x_plain": x_transformers(),
        "x_rotary": x_transformers(rotary_pos_emb=True, ff_glu=True, use_rmsnorm=True),
        "x_alibi": x_transformers(alibi_pos_bias=True, alibi_num_heads=2),
        "x_t5_bias": x_transformers(rel_pos_bias=True),
        "x_dynamic_bias": x_transformers(dynamic_pos_bias=True, dynamic_pos_bias_log_distance=False),
        "x_talking": x_transformers(attn_pre_talking_heads=True, attn_head_scale=True),
        "x_topk": x_transformers(attn_sparse_topk=4),
        "x_qk_norm": x_transformers(attn_qk_norm=True, attn_qk_norm_dim_scale=True),
        "x_sandwich": x_transformers(sandwich_norm=True, residual_attn=True, ff_swish=True),
        "x_memory": x_transformers(attn_num_mem_kv=4, attn_one_kv_head=True),
        "x_shift": x_transformers(shift_tokens=1, gate_residual=True),
        "x_xpos": x_transformers(rotary_xpos=True),
        "x_macaron": x_transformers(macaron=True, scale_residual=True),
        "x_values_gate": x_transformers(attn_gate_values=True, use_scalenorm=True),
        "x_softclamp": x_transformers(attn_softclamp_logits=True, softclamp_output=True),
    },
    "sequences": {
        "conformer": plain("conformer.Conformer", rows(*SEQUENCE), 32, depth=2, dim_head=8, heads=4),
        "linear_attention": plain(
            "linear_attention_transformer.LinearAttentionTransformer",
            rows(*SEQUENCE),
            dim=32,
            heads=4,
            depth=2,
            max_seq_len=16,
        ),
        "linear_attention_lm": plain(
            "linear_attention_transformer.LinearAttentionTransformerLM",
            lambda: (ids(2, 16),),
            num_tokens=64,
            dim=32,
            heads=4,
            depth=2,
            max_seq_len=16,
            causal=True,
        ),
        "local_attention": plain(
            "local_attention.LocalTransformer",
            lambda: (ids(2, 16),),
            num_tokens=64,
            dim=32,
            depth=2,
            causal=True,
            local_attn_window_size=8,
            max_seq_len=32,
            heads=4,
            dim_head=8,
        ),
        "perceiver": plain(
            "perceiver_pytorch.Perceiver",
            rows(2, 8, 8, 3),
            input_channels=3,
            num_freq_bands=4,
            max_freq=8.0,
            depth=2,
            num_latents=8,
            latent_dim=16,
            cross_dim_head=8,
            latent_dim_head=8,
            latent_heads=2,
            num_classes=5,
        ),
        "perceiver_io": plain(
            "perceiver_pytorch.PerceiverIO",
            lambda: (torch.randn(2, 10, 16), None, torch.randn(6, 8)),
            dim=16,
            queries_dim=8,
            num_latents=8,
            latent_dim=16,
            latent_heads=2,
            latent_dim_head=8,
            cross_dim_head=8,
            depth=2,
            logits_dim=5,
        ),
        "performer": plain("performer_pytorch.Performer", rows(*SEQUENCE), dim=32, depth=2, heads=4, dim_head=8),
        "nystrom": plain(
            "nystrom_attention.Nystromformer", rows(*SEQUENCE), dim=32, dim_head=8, heads=4, depth=1, num_landmarks=4
        ),
        "gmlp": plain(
            "g_mlp_pytorch.gMLP", lambda: (ids(2, 16),), num_tokens=64, dim=32, depth=2, seq_len=16, attn_dim=8
        ),
        "gmlp_causal": plain(
            "g_mlp_pytorch.gMLP", lambda: (ids(2, 16),), num_tokens=64, dim=32, depth=2, seq_len=16, causal=True
        ),
        "token_shift": plain(
            "token_shift_gpt.TokenShiftGPT",
            lambda: (ids(2, 16),),
            num_tokens=64,
            dim=32,
            max_seq_len=16,
            depth=2,
            ff_mult=2,
        ),
        "product_keys": plain("product_key_memory.PKM", rows(*SEQUENCE), 32, heads=2, num_keys=8, topk=4, dim_head=16),
        "colt5": plain("colt5_attention.ConditionalRoutedFeedForward", rows(*SEQUENCE), 32, num_heavy_tokens=4),
        "memory_efficient": plain(
            "memory_efficient_attention_pytorch.Attention",
            rows(*SEQUENCE),
            dim=32,
            dim_head=8,
            heads=4,
            memory_efficient=True,
            q_bucket_size=4,
            k_bucket_size=8,
        ),
        "block_recurrent": plain(
            "block_recurrent_transformer_pytorch.BlockRecurrentTransformer",
            lambda: (ids(2, 16),),
            num_tokens=64,
            dim=32,
            depth=2,
            dim_head=8,
            heads=4,
            max_seq_len=16,
            block_width=8,
            num_state_vectors=8,
            recurrent_layers=(2,),
        ),
        "axial": plain(
            "axial_attention.AxialAttention", rows(2, 6, 5, 16), dim=16, dim_index=-1, heads=2, num_dimensions=2
        ),
        "rotary_pixels": lambda: (
            Method(of("rotary_embedding_torch.RotaryEmbedding", dim=16), "rotate_queries_or_keys"),
            (torch.randn(2, 4, 16, 16),),
            {},
        ),
    },
}
