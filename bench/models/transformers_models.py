"""Architectures of transformers: every entry of its model mapping, with a configuration made small by its own names."""

import inspect
import itertools
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
import torch
import transformers
import transformers_arguments
import transformers_special
from case import Case, Made
from transformers.models.auto import configuration_auto, modeling_auto

transformers.logging.set_verbosity_error()
TEXT, IMAGE, PATCH = 12, 64, 16  # tokens, pixels, pixels

# What a configuration's fields become, wherever they stand in it.
SMALL: dict[str, Any] = {
    **dict.fromkeys(
        ("hidden_size", "d_model", "n_embd", "dim", "embed_dim", "projection_dim", "encoder_hidden_size"), 64
    ),
    **dict.fromkeys(("decoder_hidden_size", "text_hidden_size", "vision_hidden_size", "audio_hidden_size"), 64),
    **dict.fromkeys(("intermediate_size", "ffn_dim", "encoder_ffn_dim", "decoder_ffn_dim", "d_ff", "n_inner"), 96),
    **dict.fromkeys(("moe_intermediate_size", "shared_expert_intermediate_size", "dim_feedforward"), 48),
    **dict.fromkeys(("num_hidden_layers", "encoder_layers", "decoder_layers", "n_layer", "n_layers", "num_layers"), 2),
    **dict.fromkeys(("num_encoder_layers", "num_decoder_layers", "depth", "num_hidden_groups"), 2),
    **dict.fromkeys(
        ("num_attention_heads", "encoder_attention_heads", "decoder_attention_heads", "n_head", "n_heads"), 4
    ),
    **dict.fromkeys(("num_heads", "decoder_num_attention_heads", "encoder_num_attention_heads"), 4),
    **dict.fromkeys(("n_groups",), 2),
    **dict.fromkeys(
        ("head_dim", "d_kv", "attention_head_size", "qk_rope_head_dim", "v_head_dim", "qk_nope_head_dim"), 16
    ),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"), 4),
    **dict.fromkeys(("num_experts_per_tok", "moe_k", "moe_topk", "top_k_experts"), 2),
    **dict.fromkeys(("vocab_size", "vocab_size_per_layer_input", "n_words", "entity_vocab_size"), 120),
    **dict.fromkeys(("expert_ffn_hidden_size", "ffn_hidden_size"), 48),
    **dict.fromkeys(("emb_dim", "entity_emb_size"), 64),
    "max_position_embeddings": 64,
    "image_size": IMAGE,
    "patch_size": PATCH,
    "q_lora_rank": 32,
    "kv_lora_rank": 32,
    "use_cache": False,
    "return_dict": True,
}


def cases() -> dict[str, Case]:
    fixed = transformers_special.FIXED
    return {
        name: Case(group_of(name), lambda name=name: make(name), fixed.get(name, ()))
        for name in modeling_auto.MODEL_MAPPING_NAMES
    }


def group_of(name: str) -> str:
    """By its name, or the first of transformers' own mappings that has it."""
    if any(
        part in name for part in ("mamba", "rwkv", "xlstm", "recurrent", "jamba", "bamba", "falcon_h1", "nemotron_h")
    ):
        return "state space"
    for group, mapping in GROUPS:
        if any(name in getattr(modeling_auto, f"MODEL_FOR_{m}_MAPPING_NAMES", ()) for m in mapping):
            return group
    return "part, or other"


GROUPS = (
    ("audio", ("CTC", "AUDIO_CLASSIFICATION", "SPEECH_SEQ_2_SEQ", "TEXT_TO_WAVEFORM", "AUDIO_TOKENIZATION")),
    (
        "multimodal",
        ("IMAGE_TEXT_TO_TEXT", "VISUAL_QUESTION_ANSWERING", "MULTIMODAL_LM", "ZERO_SHOT_IMAGE_CLASSIFICATION"),
    ),
    ("encoder-decoder", ("SEQ_TO_SEQ_CAUSAL_LM",)),
    ("encoder", ("MASKED_LM",)),
    ("decoder", ("CAUSAL_LM",)),
    ("vision", ("IMAGE_CLASSIFICATION", "OBJECT_DETECTION", "BACKBONE", "DEPTH_ESTIMATION", "IMAGE")),
    ("encoder", ("SEQUENCE_CLASSIFICATION", "TEXT_ENCODING")),
)


# ---- configurations


def small_config(name: str, keys: frozenset[str] | None = None) -> Any:
    """Of `keys` alone, if there are any: what they do not name stays as wide as it is."""
    kind = configuration_auto.CONFIG_MAPPING[name]
    special = transformers_special.CONFIGS.get(name, {})
    return kind(**shrunk(kind(**special), special, keys))


def shrunk(config: Any, special: Mapping[str, Any], keys: frozenset[str] | None) -> dict[str, Any]:
    """Arguments for a configuration like this one, small; those of `special` stay as they are."""
    values: dict[str, Any] = {}
    for key, value in vars(config).items():
        if isinstance(value, transformers.PretrainedConfig):
            inner = special.get(key, {})
            if isinstance(inner, Mapping):
                values[key] = type(value)(**shrunk(value, inner, keys))
        elif key not in special and (keys is None or key in keys or is_token(key)):
            if (small := small_value(key, value, config)) is not None:
                values[key] = small
    return values | {k: v for k, v in special.items() if k not in values}


def small_value(key: str, value: Any, config: Any) -> Any:
    """A smaller one of a field, or None to leave it."""
    if key in HEADS and isinstance(value, int):  # as many as there are for queries, or fewer
        heads = next((n for k in QUERY_HEADS if isinstance(n := of_all_layers(config, k), int)), value)
        return SMALL_HEADS if value >= heads else 1 if value == 1 else SMALL_HEADS // 2
    if key == "patch_size" and not (isinstance(value, int) and value >= 8):
        return None
    if key in LISTS and isinstance(value, (list, tuple)) and all(isinstance(v, int) for v in value):
        return [LISTS[key](v) for v in value]
    of_images = "mrope_section" in value if isinstance(value, dict) else False
    if key == "rope_parameters" and (of_images or config.model_type.startswith(MROPE)):
        half = int(SMALL["head_dim"] * value.get("partial_rotary_factor", 1)) // 2
        rest = half - half // 4
        return {**value, "mrope_section": [half // 4, rest // 2, rest - rest // 2]}
    if key in SMALL and (isinstance(value, (int, float)) or (value is None and key == "vocab_size")):
        return SMALL[key]
    if is_token(key) and isinstance(value, int) and value >= SMALL["vocab_size"]:
        return 91 + sum(map(ord, key)) % 29
    return None


def of_all_layers(config: Any, key: str) -> Any:
    """None where it differs from layer to layer, or is not there."""
    try:
        return getattr(config, key, None)
    except AttributeError:
        return None
    except ValueError:
        return None


def is_token(key: str) -> bool:
    return key.endswith(("_token_id", "_token_index"))


MROPE = ("qwen2_vl", "qwen2_5_vl", "qwen2_5_omni", "glm4v", "glm_image", "glm_ocr", "glm46v", "paddleocr")
# What makes a model shallow and leaves its widths as they fit each other.
SHALLOW = frozenset(
    key
    for key, value in SMALL.items()
    if value in (2, 120) and not key.startswith(("num_experts_per", "moe_", "n_groups"))
) | {"depths", "num_blocks"}
HEADS = ("num_key_value_heads", "num_query_groups", "num_kv_heads", "decoder_num_key_value_heads")
QUERY_HEADS = ("num_attention_heads", "n_head", "num_heads", "decoder_num_attention_heads")
SMALL_HEADS = 4
LISTS = {
    "depths": lambda v: min(v, 2),
    "hidden_sizes": lambda v: max(v // 4 // 16 * 16, 16),
    "num_blocks": lambda v: min(v, 2),
}


# ---- arguments


def make(name: str) -> Made:
    """Small in all its fields, else of few layers as wide as its authors made them."""
    try:
        return made(name, small_config(name), 120e6)
    except Exception as error:
        try:
            return made(name, small_config(name, SHALLOW), 120e6)
        except Exception:
            raise error from None


def made(name: str, config: Any, most: float) -> Made:
    if config.architectures is None:
        config.architectures = []  # which AutoModel looks through where an architecture has several models
    with torch.device("meta"):
        size = sum(p.numel() for p in bare(name, config).parameters())
    if size > most:
        raise ValueError(f"{size / 1e6:.0f} million parameters")
    model = bare(name, config)
    return model, (), accepted(model.eval(), config, transformers_arguments.ARGUMENTS.get(name))


def bare(name: str, config: Any) -> torch.nn.Module:
    kind, part = transformers_special.MODELS.get(name, ("", ""))
    if not kind:
        return transformers.AutoModel.from_config(config)
    return getattr(transformers, kind)(getattr(config, part) if part else config)


def accepted(model: torch.nn.Module, config: Any, special: Any) -> dict[str, Any]:
    """The first of the possible arguments that the model takes: names do not say in which order audio has its
    dimensions, nor how many tokens stand for an image."""
    first: Exception | None = None
    state = torch.get_rng_state()
    for choice in choices(inspect.signature(model.forward).parameters):
        torch.set_rng_state(state)
        given = arguments(model, config, choice)
        given = special(given, config) if special else given
        for _ in range(2):
            try:
                with torch.no_grad():
                    model(**given)
                return given
            except Exception as error:
                first = first or error
                count = re.search(r"tokens: \d+, features:? (\d+)", str(error))
                if not count or "input_ids" not in given:
                    break
                given = with_image_tokens(given, model, config, int(count[1]))
    raise first or ValueError("no arguments")


def choices(takes: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """What names leave open: the order of audio's dimensions and its length; whether images are videos, or patches with
    their grid; at last no images."""
    kinds = ("plain", "video", "grid", "none") if "pixel_values" in takes else ("none",)
    orders, lengths = ((False, True), (64, 100, 3000)) if "input_features" in takes else ((False,), (64,))
    shapes = (False, True) if "input_values" in takes else (False,)
    for images, time_first, frames, channels in itertools.product(kinds, orders, lengths, shapes):
        yield {"time_first": time_first, "frames": frames, "channels": channels, "images": images}


def with_image_tokens(given: dict[str, Any], model: torch.nn.Module, config: Any, count: int) -> dict[str, Any]:
    """With as many tokens as there are features, half of them in each row, between other tokens."""
    token = field(config, "image_token_id", "image_token_index", "audio_token_id", "audio_token_index")
    ids = given["input_ids"]
    image = torch.full((len(ids), count // len(ids)), token)
    ids = torch.cat([ids[:, :2], image, ids[:, 2:]], 1)
    given = {**given, "input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if "mm_token_type_ids" in inspect.signature(model.forward).parameters:
        given["mm_token_type_ids"] = (ids == token).int()
    return given


def parts(config: Any) -> Iterator[Any]:
    """The configuration and those in it."""
    yield config
    for value in vars(config).values():
        if isinstance(value, transformers.PretrainedConfig):
            yield from parts(value)


def field(config: Any, *names: str, default: Any = None) -> Any:
    """The first of these fields that the configuration, or a part of it, has."""
    found = (getattr(part, name, None) for name in names for part in parts(config))
    return next((value for value in found if value is not None), default)


def arguments(model: torch.nn.Module, config: Any, choice: Mapping[str, Any]) -> dict[str, Any]:
    """What forward() needs, by the names of its parameters."""
    takes = inspect.signature(model.forward).parameters
    needed = {name for name, p in takes.items() if p.default is p.empty and p.kind == p.POSITIONAL_OR_KEYWORD}
    given: dict[str, Any] = {}
    vocabulary = field(config, "vocab_size", default=100)

    def tokens(length: int = TEXT) -> torch.Tensor:
        return torch.randint(3, min(vocabulary, 90), (2, length))

    mask = torch.ones(2, TEXT, dtype=torch.long)
    mask[1, TEXT - 3 :] = 0
    if "input_ids" in takes:
        given["input_ids"] = tokens()
        if "attention_mask" in takes:
            given["attention_mask"] = mask
    if "decoder_input_ids" in takes:
        given["decoder_input_ids"] = tokens(7)
    if "pixel_values" in takes:
        size = field(config, "image_size", default=IMAGE)
        height, width = size if isinstance(size, (list, tuple)) else (size, size)
        shape = (2, field(config, "num_channels", "in_channels", default=3), height, width)
        if choice["images"] == "plain":
            given["pixel_values"] = torch.randn(shape)
        elif choice["images"] == "video":
            given["pixel_values"] = torch.randn(2, field(config, "num_frames", default=2), *shape[1:])
        elif choice["images"] == "grid" and "image_grid_thw" in takes:
            given |= {"pixel_values": patches(config), "image_grid_thw": torch.tensor([[1, 4, 4], [1, 4, 4]])}
    if "bbox" in takes:
        corners = torch.randint(0, 60, (2, TEXT, 4))
        given["bbox"] = torch.cat([corners[..., :2], corners[..., :2] + corners[..., 2:] // 2], -1)
    if "input_values" in takes and ("input_ids" not in takes or "input_values" in needed):
        shape = (2, 1, 1600) if choice["channels"] else (2, 1600)
        given["input_values"] = torch.randn(shape)
    if "input_features" in takes:
        bins = field(config, "num_mel_bins", "feature_size", "input_feat_per_channel", "num_mel_features", default=80)
        shape = (2, choice["frames"], bins) if choice["time_first"] else (2, bins, choice["frames"])
        given["input_features"] = torch.randn(shape)
        for name in needed & {"input_features_mask", "attention_mask"}:
            given[name] = torch.ones(2, choice["frames"], dtype=torch.long)
    if "pixel_values_videos" in needed:
        size = field(config, "image_size", "crop_size", default=IMAGE)
        given["pixel_values_videos"] = torch.randn(2, 4, 3, size, size)
    for name in needed & {"grid_thw", "image_grid_thw"}:
        given["hidden_states" if "hidden_states" in needed else "pixel_values"] = patches(config)
        given[name] = torch.tensor([[1, 4, 4], [1, 4, 4]])
    if "use_cache" in takes:
        given["use_cache"] = False
    return given


def patches(config: Any) -> torch.Tensor:
    """Two images of 4 x 4 patches each, a row for each patch."""
    patch, time = field(config, "patch_size"), field(config, "temporal_patch_size", default=1)
    return torch.randn(32, field(config, "in_channels", "in_chans", "num_channels", default=3) * time * patch * patch)
