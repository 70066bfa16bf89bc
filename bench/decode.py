"""A decode step of Qwen2.5-1.5B with random bfloat16 weights: bound by memory, it is judged by its reading rate."""
import json
import shutil
import struct
import sys
from pathlib import Path

import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import nn

from record import DECODE

IR = Path(__file__).resolve().parent.parent / "examples/zoo/qwen2.5_1.5b_decode2048/ir.json"
CAPACITY, LAYERS = 2048, 28
TIED = "model.model.embed_tokens.weight"  # the same numbers as model.lm_head.weight
BLOCK = 1 << 22


class Step(nn.Module):
    """The step at a position of the cache: the last one, so that every key counts, unless it is given."""

    def __init__(self, model: nn.Module, cache: transformers.StaticCache, position: int) -> None:
        super().__init__()
        self.model = model
        self.cache = cache
        self.position = position

    def forward(self, ids: torch.Tensor, mask: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        for layer in self.cache.layers:  # each run would move on by a token and leave the cache
            layer.cumulative_length.fill_(self.position)
            if hasattr(layer, "cumulative_length_int"):  # of a layer with a window
                layer.cumulative_length_int = self.position
        given = {"input_ids": ids, "attention_mask": mask, "position_ids": position}
        return self.model(**given, past_key_values=self.cache, use_cache=True).logits


def bfloat16_bits(values: np.ndarray) -> np.ndarray:
    return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def weight(name: str, count: int, noise: np.ndarray) -> np.ndarray:
    if "inv_freq" in name:
        return bfloat16_bits(1e6 ** -(np.arange(count) / count))
    if "norm" in name:
        return bfloat16_bits(np.ones(count))
    return np.resize(noise, count)


def write_weights(graph: dict, file: Path) -> None:
    """Tensor by tensor: all are 3.1 GB."""
    tensors = [t for t in graph["weights"] if t["name"] != TIED]
    header, end = {}, 0
    for tensor in tensors:
        begin, end = end, end + 2 * int(np.prod(tensor["shape"]))
        header[tensor["name"]] = {"dtype": "BF16", "shape": tensor["shape"], "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    noise = bfloat16_bits(np.random.default_rng(0).standard_normal(BLOCK + 3) * 0.02)
    with file.open("wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for tensor in tensors:
            out.write(weight(tensor["name"], int(np.prod(tensor["shape"])), noise).tobytes())


class Prefill(nn.Module):
    """A text at once, and the logits behind its last token."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor, mask: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        return self.model(input_ids=ids, position_ids=position, use_cache=False, logits_to_keep=1).logits


def write_inputs(graph: dict, file: Path, position: int = CAPACITY - 1) -> None:
    """Of a step at `position`; of a text of several tokens, which are all there are."""
    torch.manual_seed(0)
    shapes = {t["name"]: t["shape"] for t in graph["graph_inputs"]}
    tokens, keys = shapes["attention_mask"][-2:]
    at = torch.arange(tokens) if tokens > 1 else torch.tensor([position])
    mask = torch.where(torch.arange(keys) <= at[:, None], 0.0, -torch.inf)
    given = {
        "input_ids": torch.randint(0, 150000, (1, tokens)) if tokens > 1 else torch.tensor([[1234]]),
        "attention_mask": mask[None, None].to(torch.bfloat16),
        "position_ids": at[None],
        "cache_position": at.clone(),
    }
    save_file(
        {
            t["name"]: given.get(t["name"], torch.randn(t["shape"]).to(torch.bfloat16))
            for t in graph["graph_inputs"]
        },
        file,
    )


def prepare(folder: Path) -> None:
    if (folder / "ir.json").exists():
        return
    print(f"{DECODE}: writing 3.1 GB of weights", file=sys.stderr)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    graph = json.loads(IR.read_text())
    write_weights(graph, folder / "model.safetensors")
    write_inputs(graph, folder / "inputs.safetensors")
    shutil.copy(IR, folder / "ir.json")


def load(folder: Path, position: int = CAPACITY - 1) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """For PyTorch, with the files' own memory as the weights; a text or a step, as the inputs are."""
    config = transformers.Qwen2Config(
        vocab_size=151936, hidden_size=1536, intermediate_size=8960, num_hidden_layers=LAYERS, num_attention_heads=12,
        num_key_value_heads=2, max_position_embeddings=131072, tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 1e6},
    )  # fmt: skip
    with torch.device("meta"):
        model = transformers.Qwen2ForCausalLM(config)
    state = {name.removeprefix("model."): value for name, value in load_file(folder / "model.safetensors").items()}
    state["model.embed_tokens.weight"] = state["lm_head.weight"]
    model.load_state_dict(state, strict=False, assign=True)
    rotary = model.model.rotary_emb
    rotary.inv_freq = rotary.original_inv_freq = state["model.rotary_emb.inv_freq"]
    inputs = load_file(folder / "inputs.safetensors")
    given = tuple(inputs[name] for name in ("input_ids", "attention_mask", "position_ids"))
    if given[0].shape[1] > 1:
        return Prefill(model.eval().requires_grad_(False)), given
    cache = transformers.StaticCache(config, max_cache_len=given[1].shape[-1])
    for i, layer in enumerate(cache.layers):
        keys, values = inputs[f"kv_{2 * i}"], inputs[f"kv_{2 * i + 1}"]
        layer.lazy_initialization(keys, values)
        layer.keys.copy_(keys)
        layer.values.copy_(values)
    return Step(model.eval().requires_grad_(False), cache, position), given
