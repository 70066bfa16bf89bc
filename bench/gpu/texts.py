"""Language models of known shapes with random bfloat16 weights: for PyTorch, and for npusim as it exports them."""

import json
from pathlib import Path

import torch
import transformers

CAPACITY, PROMPT = 2048, 128
SHAPES = {
    "qwen2.5_1.5b": lambda: transformers.Qwen2Config(
        vocab_size=151936, hidden_size=1536, intermediate_size=8960, num_hidden_layers=28, num_attention_heads=12,
        num_key_value_heads=2, max_position_embeddings=131072, tie_word_embeddings=True, use_sliding_window=False,
        rope_parameters={"rope_type": "default", "rope_theta": 1e6},
    ),
    "llama3.2_1b": lambda: transformers.LlamaConfig(
        vocab_size=128256, hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32,
        num_key_value_heads=8, head_dim=64, max_position_embeddings=131072, tie_word_embeddings=True, rms_norm_eps=1e-5,
        rope_parameters={
            "rope_type": "llama3", "rope_theta": 5e5, "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192,
        },
    ),
    "qwen3_0.6b": lambda: transformers.Qwen3Config(
        vocab_size=151936, hidden_size=1024, intermediate_size=3072, num_hidden_layers=28, num_attention_heads=16,
        num_key_value_heads=8, head_dim=128, max_position_embeddings=40960, tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 1e6},
    ),
    "gemma2_2b": lambda: transformers.Gemma2Config(
        vocab_size=256000, hidden_size=2304, intermediate_size=9216, num_hidden_layers=26, num_attention_heads=8,
        num_key_value_heads=4, head_dim=256, query_pre_attn_scalar=256, sliding_window=4096, max_position_embeddings=8192,
        rope_parameters={"rope_type": "default", "rope_theta": 1e4},
    ),
    # A quarter of its 32 layers.
    "mistral_7b_8": lambda: transformers.MistralConfig(
        vocab_size=32768, hidden_size=4096, intermediate_size=14336, num_hidden_layers=8, num_attention_heads=32,
        num_key_value_heads=8, head_dim=128, sliding_window=None, max_position_embeddings=32768,
        rope_parameters={"rope_type": "default", "rope_theta": 1e6},
    ),
}  # fmt: skip


def build(name: str, device: str) -> torch.nn.Module:
    """Weights are normal, of 0.02; those of norms lie around one."""
    config = SHAPES[name]()
    caps = getattr(config, "attn_logit_softcapping", None)  # of scores, which PyTorch's own attention has not
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(
            config, dtype=torch.bfloat16, attn_implementation="eager" if caps else "sdpa"
        )
    model.to_empty(device=device)
    inner = model.model
    inner.rotary_emb = type(inner.rotary_emb)(config=config).to(device)
    if hasattr(inner.embed_tokens, "embed_scale"):  # Gemma's
        inner.embed_tokens.embed_scale.fill_(config.hidden_size**0.5)
    model.tie_weights()
    generator = torch.Generator().manual_seed(0)
    noise = (torch.randn((1 << 22) + 3, generator=generator) * 0.02).to(torch.bfloat16).to(device)
    for key, parameter in model.named_parameters():
        flat = parameter.data.view(-1)
        for begin in range(0, len(flat), len(noise)):
            part = flat[begin : begin + len(noise)]
            part.copy_(noise[: len(part)] + ("norm" in key))
    return model.eval().requires_grad_(False)


def prepare(name: str, folder: Path, target: str) -> None:
    """Writes NAME.npubin with the methods prefill and decode (and what npusim adds), and the constants that are not the
    model's own weights."""
    import npusim

    model = build(name, "cpu")
    exported = npusim.export_llm(model, capacity=CAPACITY, prefill=PROMPT)
    own = dict(model.named_parameters(remove_duplicate=False))
    names = {key: _parameter(key, own) for key in exported.weights}
    torch.save({key: exported.weights[key] for key, found in names.items() if not found}, folder / f"{name}.constants")
    (folder / f"{name}.json").write_text(json.dumps({key: found for key, found in names.items() if found}))
    npusim.compile(exported, target=target, dtype="bfloat16").save(folder / f"{name}.npubin")


def _parameter(key: str, own: dict[str, torch.Tensor]) -> str:
    """The model's name of an exported weight, or nothing."""
    return next((name for name in own if key == name or key.endswith(f".{name}")), "")


def weights(name: str, folder: Path, model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """By the names that the program knows them under, in the host's memory."""
    own = dict(model.named_parameters(remove_duplicate=False))
    names = json.loads((folder / f"{name}.json").read_text())
    made = {key: own[found].detach().cpu().contiguous() for key, found in names.items()}
    return made | torch.load(folder / f"{name}.constants", weights_only=True)


def arguments(length: int, first: int, capacity: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Mask and positions of `length` tokens from the position `first` on, as export_llm has them: a prefill sees
    itself, a step what the cache holds."""
    positions = torch.arange(first, first + length)[None]
    keys = length if length > 1 else capacity
    unseen = torch.arange(keys)[None, :] > positions[0][:, None]
    mask = torch.zeros((1, 1, length, keys), dtype=torch.bfloat16)
    return mask.masked_fill_(unseen, torch.finfo(torch.bfloat16).min), positions
