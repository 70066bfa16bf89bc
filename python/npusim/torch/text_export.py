"""From a causal language model of transformers to prefill and decode with a static cache."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM
from transformers.cache_utils import Cache, CacheLayerMixin

from ..arguments import integer, integers
from ..arguments import path as _path
from ..checks import compare
from ..errors import BadInputError, UnsupportedError, UsageError
from ..exported import Exported, ExportedText
from ..writes import Held
from .export import export

TEXT_FILES = ("tokenizer.json", "generation_config.json", "config.json")


def export_llm(model: Any, capacity: int, prefill: Sequence[int] | int | None = None) -> ExportedText:
    """IR and weights of a causal language model: a prefill for each length, and a decode that takes one token.

    model: a causal language model of transformers, or the path of a folder with one, whose tokenizer.json comes along.
    capacity: how many tokens the cache holds.
    prefill: lengths of prompts that are read at once. Shorter ones are padded to them; what is longer than all of them
        goes on token by token. None: 128, or the capacity where that is less.

    The methods are "prefill" for the first length, "prefill_N" for others, and "decode". Keys and values of layer i are
    the states kv_2i and kv_2i+1 of [1, heads, capacity, size]. Where the model attends to a window or a chunk that is
    shorter than the capacity, or makes its biases by distance of a mask (Bloom), it makes its masks itself; else the mask
    is an input, and a step costs what the text is long, not what the cache holds.

    The methods are tried in eager PyTorch first: their logits must be those of the model without a cache. Raises
    UnsupportedError where they are not, and for models without a cache of keys and values by position."""
    capacity = integer("capacity", capacity, 2, 2**31 - 1)
    chosen = [min(128, capacity)] if prefill is None else [prefill] if isinstance(prefill, int) else prefill
    lengths = integers("prefill", chosen, 2, capacity)
    if not lengths or len({*lengths}) < len(lengths):
        raise UsageError(f"prefill: expected different lengths, found {lengths}")
    files: tuple[str, ...] = ()
    if isinstance(model, (str, os.PathLike)):
        folder = Path(_path("model", model))
        if not os.path.isdir(folder):  # which transformers would look for elsewhere
            raise BadInputError(f"model: expected the path of a folder with a causal language model, found none at {folder}")
        files = tuple(str(folder / name) for name in TEXT_FILES if os.path.isfile(folder / name))
        try:
            model = AutoModelForCausalLM.from_pretrained(folder, dtype="auto")
        except (OSError, ValueError) as error:
            raise BadInputError(f"{folder}: transformers finds no causal language model: {error}") from error
    if not isinstance(model, torch.nn.Module) or not hasattr(model, "config"):
        raise UsageError(f"model: expected a causal language model of transformers, or its folder, found {type(model).__name__}")
    model.eval()
    config = model.config.get_text_config(decoder=True)
    if not _cache_argument(model) or getattr(model.config, "is_encoder_decoder", False):
        raise UnsupportedError(f"{type(model).__name__} is no decoder with a cache of keys and values")
    _check_frequencies(model, config, capacity)
    _check(model, config, lengths[0], capacity)
    exported: dict[str, Exported] = {}
    for n in lengths:
        exported["prefill" if n == lengths[0] else f"prefill_{n}"] = _prefill(model, config, n, capacity)
    layers = (len(next(iter(exported.values())).ir["graph_outputs"]) - 1) // 2
    exported["decode"] = _decode(model, config, layers, next(iter(exported.values())), capacity)
    kv_map = {
        "num_layers": layers,
        "prefill_seq_len": lengths[0],
        "max_cache_len": capacity,
        "layers": [_layer(i) for i in range(layers)],
    }
    irs = {name: one.ir for name, one in exported.items()}
    held = sum((one.held for one in exported.values()), Held())
    return ExportedText(irs, kv_map, capacity, _all_weights(exported), files, held)


def _layer(i: int) -> dict[str, Any]:
    names: dict[str, Any] = {"layer": i}
    for which, at in (("key", 2 * i), ("value", 2 * i + 1)):
        names[f"prefill_{which}_output"] = names[f"decode_{which}_output"] = f"kv_next.{at}"
        names[f"decode_{which}_input"] = f"kv_{at}"
    return names


class _Layer(CacheLayerMixin):
    """One layer's keys and values: in a prefill those of the prompt, in a decode a state with one position more."""

    is_compileable = True
    is_sliding = False

    def __init__(self, state: tuple[torch.Tensor, torch.Tensor] | None = None, position: Any = None) -> None:
        super().__init__()
        self.position = position  # [1], of a decode
        if state:
            self.keys, self.values = state
        self.is_initialized = True

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        pass

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        keys, values = key_states, value_states
        if self.keys is not None and self.values is not None:
            keys = self.keys.index_copy(2, self.position, key_states)
            values = self.values.index_copy(2, self.position, value_states)
        self.keys, self.values = keys, values
        return keys, values

    def get_seq_length(self) -> Any:
        return 0 if self.position is None else self.position[0]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return (query_length if self.keys is None else self.keys.shape[2]), 0

    def get_max_length(self) -> int:
        return -1 if self.keys is None else self.keys.shape[2]


class _Method(torch.nn.Module):
    """The model over a cache that goes in and comes out."""

    def __init__(self, model: torch.nn.Module, layers: int) -> None:
        super().__init__()
        self.model = model
        self.layers = layers
        self.cache_argument = _cache_argument(model)

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None,
        position_ids: torch.Tensor,
        *kv: torch.Tensor,
    ) -> dict[str, Any]:
        if kv:
            layers = [_Layer((kv[2 * i], kv[2 * i + 1]), position_ids[0]) for i in range(self.layers)]
        else:
            layers = [_Layer() for _ in range(self.layers)]
        cache = Cache(layers=list(layers))
        if attention_mask is None and _makes_alibi(self.model):
            attention_mask = torch.ones((1, kv[0].shape[2] if kv else input_ids.shape[1]), dtype=torch.long)
        found = self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            position_ids=position_ids,
            use_cache=True,
            **{self.cache_argument: cache},
        )
        return {
            "logits": found.logits,
            "kv_next": [tensor for layer in layers for tensor in (layer.keys, layer.values)],
        }


def _cache_argument(model: Any) -> str:
    """By which name the model takes its cache, which transformers 5.24 renamed; "": by none."""
    takes = inspect.signature(model.forward).parameters
    return next((name for name in ("past_key_values", "cache") if name in takes), "")


def _makes_alibi(model: Any) -> bool:
    """Whether biases by distance are made of a mask of two dimensions, [batch, keys], which must then be the argument."""
    written = sys.modules[type(model).__module__]
    return hasattr(written, "build_alibi_tensor") and getattr(model.config, "alibi", True)


def _arguments(model: Any, config: Any, length: int, capacity: int, first: int = 0) -> tuple[Any, ...]:
    """Tokens, mask and positions of a prefill or, of one token at `first`, a decode. The mask is None where the model's
    windows or chunks matter and where it makes biases of one."""
    tokens = torch.arange(first, first + length)[None] % config.vocab_size
    positions = torch.arange(first, first + length)[None]
    spans = [getattr(config, name, None) for name in ("sliding_window", "attention_chunk_size")]
    if any(span is not None and span < capacity for span in spans) or _makes_alibi(model):
        return tokens, None, positions
    keys = length if length > 1 else capacity
    unseen = torch.arange(keys)[None, :] > positions[0][:, None]
    mask = torch.zeros((1, 1, length, keys), dtype=model.dtype)
    return tokens, mask.masked_fill_(unseen, torch.finfo(model.dtype).min), positions


def _ropes(config: Any) -> list[dict[str, Any]]:
    """What the config says of rotary embeddings, of all layers or of each kind of them."""
    for name in ("rope_parameters", "rope_scaling"):
        found = getattr(config, name, None)
        if isinstance(found, dict):
            inner = [value for value in found.values() if isinstance(value, dict)]
            return inner or [found]
    return []


def _check_frequencies(model: Any, config: Any, capacity: int) -> None:
    """Refuses rotary frequencies that are chosen anew for each length of a text, where the cache is long enough for it:
    a method is compiled once."""
    for rope in _ropes(config):
        kind = rope.get("rope_type", rope.get("type"))
        if kind not in ("dynamic", "longrope"):
            continue
        own = getattr(config, "original_max_position_embeddings", None) if kind == "longrope" else None
        own = rope.get("original_max_position_embeddings") or own or config.max_position_embeddings
        if capacity > own:
            problem = f"its rotary frequencies ({kind}) are chosen anew for each text of more than {own} tokens"
            raise UnsupportedError(f"{type(model).__name__}: {problem}: expected a capacity of at most {own}")


def _check(model: Any, config: Any, length: int, capacity: int) -> None:
    """The methods against the model without a cache, all in eager PyTorch: a prefill, and a decode of its last token."""
    method = _Method(model, config.num_hidden_layers)
    tokens, mask, positions = _arguments(model, config, length, capacity)
    with torch.no_grad():
        try:
            expected = model(input_ids=tokens, use_cache=False).logits
        except AttributeError as error:
            problem = f"{type(model).__name__} gives no logits: expected a causal language model (AutoModelForCausalLM)"
            raise UnsupportedError(problem) from error
        except IndexError as error:
            raise _no_position(model, length) from error
        try:
            found = method(tokens, mask, positions)
        except (AttributeError, TypeError, ValueError) as error:  # what a layer of another kind asks of the cache
            problem = f"{type(model).__name__} does not run over a cache of keys and values alone: {error}"
            raise UnsupportedError(problem) from error
        states = []
        for kept in found["kv_next"]:
            if not isinstance(kept, torch.Tensor) or kept.dim() != 4 or kept.shape[2] != length:
                raise UnsupportedError(f"{type(model).__name__} does not keep a row of keys and values for each token")
            states.append(torch.nn.functional.pad(kept[:, :, : length - 1], (0, 0, 0, capacity - length + 1)))
        last = method(*_arguments(model, config, 1, capacity, length - 1), *states)
        try:
            method(*_arguments(model, config, 1, capacity, capacity - 1), *states)
        except IndexError as error:
            raise _no_position(model, capacity) from error
    bar = 1e-3 if model.dtype == torch.float32 else 5e-2
    for name, a, b in (("prefill", found["logits"], expected), ("decode", last["logits"], expected[:, -1:])):
        distance = compare(a.float(), b.float()).relative_l2
        if not distance <= bar:
            problem = f"the logits of {name} are {distance:.2g} (relative L2) from those without a cache"
            window = getattr(config, "window_size", None)  # which GPT-Neo counts from the end of what the cache may hold
            if isinstance(window, int) and window < capacity:
                problem += f"; its layers attend to {window} tokens: expected a capacity of at most {window}"
            raise UnsupportedError(f"{type(model).__name__}: {problem}")


def _no_position(model: Any, count: int) -> UnsupportedError:
    known = getattr(model.config.get_text_config(decoder=True), "max_position_embeddings", None)
    fewer = f"a capacity of at most {known}" if known and known < count else "a smaller capacity"
    return UnsupportedError(f"{type(model).__name__} has learned no position for token {count}: expected {fewer}")


def _export(model: Any, layers: int, arguments: tuple[Any, ...]) -> Exported:
    """A method, without the states that a run writes and none reads, as rotary frequencies that are chosen for each text:
    they carry nothing from run to run."""
    found = export(_Method(model, layers), arguments)
    ir = found.ir
    read = {operand["name"] for node in ir["nodes"] for operand in node["inputs"]}
    read |= {output["producer_node"] for output in ir["graph_outputs"]}
    for name, output in [*ir["states"].items()]:
        if name in read:
            continue
        del ir["states"][name]
        ir.get("aliases", {}).pop(name, None)
        ir["graph_inputs"] = [tensor for tensor in ir["graph_inputs"] if tensor["name"] != name]
        ir["graph_outputs"] = [tensor for tensor in ir["graph_outputs"] if tensor["name"] != output]
        if isinstance(found.weights, Mapping):
            found.weights = {key: value for key, value in found.weights.items() if key != name}
    return found


def _prefill(model: Any, config: Any, length: int, capacity: int) -> Exported:
    found = _export(model, config.num_hidden_layers, _arguments(model, config, length, capacity))
    names = [output["name"] for output in found.ir["graph_outputs"]]
    others = [name for name in names if name != "logits" and not name.startswith("kv_next.")]
    if others:  # rotary frequencies that are chosen anew for each length
        raise UnsupportedError(f"{type(model).__name__} keeps from run to run what is no cache: {', '.join(others)}")
    return found


def _decode(model: Any, config: Any, layers: int, prefill: Exported, capacity: int) -> Exported:
    states = []
    for output in prefill.ir["graph_outputs"][1:]:
        batch, heads, _, size = output["shape"]
        states.append(torch.zeros((batch, heads, capacity, size), dtype=getattr(torch, output["dtype"])))
    return _export(model, layers, (*_arguments(model, config, 1, capacity), *states))


def _all_weights(exported: Mapping[str, Exported]) -> dict[str, Any]:
    weights: dict[str, Any] = {}
    for method, one in exported.items():
        assert isinstance(one.weights, Mapping)
        for name, value in one.weights.items():
            known: Any = weights.setdefault(name, value)
            if known.shape != value.shape or (known.data_ptr() != value.data_ptr() and not torch.equal(known, value)):
                raise UnsupportedError(f"constant {name} of {method} has another value in another method")
    return weights
