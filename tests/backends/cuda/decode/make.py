#!/usr/bin/env python3
"""Makes the decode methods beside it: two layers of architectures whose steps differ, small, without weights. Needs the
Python package, PyTorch and transformers.

llama: frequencies by parts, heads of 64. qwen3: norms on heads of 128. gemma2: capped scores and logits, norms behind
the attention and the products, heads of 256, a window beyond the capacity. mistral: an output matrix of its own."""

import json
from pathlib import Path

import torch
import transformers

import npusim

COMMON = {
    "vocab_size": 512, "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2,
    "max_position_embeddings": 512,
}  # fmt: skip
HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2}
LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 5e5, "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 256,
}  # fmt: skip
CONFIGS = {
    "llama": transformers.LlamaConfig(
        **COMMON, **HEADS, head_dim=64, tie_word_embeddings=True, rope_parameters=LLAMA3
    ),
    "qwen3": transformers.Qwen3Config(**COMMON, **HEADS, head_dim=128, tie_word_embeddings=True),
    "gemma2": transformers.Gemma2Config(
        **COMMON, num_attention_heads=2, num_key_value_heads=1, head_dim=256, query_pre_attn_scalar=256,
        sliding_window=4096,
    ),
    "mistral": transformers.MistralConfig(
        **COMMON, **HEADS, head_dim=64, sliding_window=None, tie_word_embeddings=False
    ),
}  # fmt: skip

for name, config in CONFIGS.items():
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16, attn_implementation="eager")
    exported = npusim.export_llm(model.eval(), capacity=64, prefill=8)
    (Path(__file__).parent / f"{name}.json").write_text(json.dumps(exported.methods["decode"]))
