#!/usr/bin/env python3
"""Makes golden.npz of this folder: the logits of transformers' Qwen2 on the weights as model.safetensors has them.

    golden.py MODEL_FOLDER    (that materialize.py made)

out0 is float32 arithmetic on the bfloat16 numbers of the file, half0 bfloat16 arithmetic. Needs torch, transformers and
safetensors.
"""
import sys
from pathlib import Path

import numpy as np
import torch
import transformers
from safetensors.torch import load_file

KEPT = 65536  # elements of an output that are stored


def logits(weights: dict[str, torch.Tensor], ids: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    config = transformers.Qwen2Config(vocab_size=8192, hidden_size=1536, intermediate_size=8960, num_hidden_layers=2,
                                      num_attention_heads=12, num_key_value_heads=2, tie_word_embeddings=True,
                                      rope_parameters={"rope_type": "default", "rope_theta": 1e6},
                                      rms_norm_eps=1e-6, attn_implementation="eager", use_cache=False)  # fmt: skip
    model = transformers.Qwen2ForCausalLM(config).to(dtype).eval()
    names = {key: weights["model." + key] for key in model.state_dict()}
    names["model.embed_tokens.weight"] = weights["model.lm_head.weight"]  # tied: the graph reads this one
    model.load_state_dict(names)
    model.model.rotary_emb.inv_freq = weights["model.model.rotary_emb.inv_freq"].to(dtype)
    with torch.inference_mode():
        return model(input_ids=ids).logits


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    weights, ids = load_file(folder / "model.safetensors"), load_file(folder / "inputs.safetensors")["ids"]
    out, half = logits(weights, ids, torch.float32), logits(weights, ids, torch.bfloat16)
    np.savez_compressed(Path(__file__).parent / "golden.npz", out0=out.flatten()[:KEPT].numpy(),
                        shape0=np.array(out.shape), half0=half.flatten()[:KEPT].float().numpy())  # fmt: skip
