"""Tokenizers and generation."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from . import _core
from .arguments import flag, function, instance, integer, integers, number
from .arguments import path as _path
from .arguments import text as _text
from .session import Session

_INT64 = (-(2**63), 2**63 - 1)


class Tokenizer:
    """A Hugging Face tokenizer.json of byte-level BPE (GPT-2, Qwen2, Llama 3 and their kin). Raises UnsupportedError,
    naming the part, for others."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        name = _path("path", path)
        self._handle = _core.open_tokenizer(name)
        self.stop_tokens = _core.read_stop_tokens(name)  # of the generation_config.json beside it

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        """The ids of a text."""
        special = flag("add_special_tokens", add_special_tokens)
        return _core.encode(self._handle, _text("text", text), special)

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """The text of ids; bytes that are not UTF-8 become U+FFFD."""
        return _core.decode(self._handle, integers("ids", ids, *_INT64), flag("skip_special_tokens", skip_special_tokens))

    def token_id(self, content: str) -> int | None:
        """The id of an added token, such as "<|im_end|>"."""
        return _core.added_token_id(self._handle, _text("content", content))


@dataclass
class Generation:
    """New tokens, a stop token included."""

    tokens: list[int]
    prefill_ms: float  # until the first new token
    decode_ms_per_token: float  # mean of the others


def generate(
    session: Session,
    prompt: Sequence[int],
    *,
    max_new_tokens: int = 64,
    temperature: float | None = None,
    top_p: float | None = None,
    seed: int | None = None,
    stop_tokens: Sequence[int] = (),
    on_token: Callable[[int], None] | None = None,
) -> Generation:
    """Continues a prompt of token ids with a program that has a method for one token and usually one for many.

    temperature: 0 takes the likeliest token; above it, up to 100, samples. None: 1 where top_p or seed is given, which
        asks to sample, else 0.
    top_p: samples from the likeliest tokens that have this probability together, above 0 and at most 1. None: 1.
    seed: of the sampling, from 0 to 2**64 - 1. None: 0.
    on_token: called with each new token.

    Ends at a stop token, after max_new_tokens, or when the states are full. Raises UsageError for an argument out of its
    range, UnsupportedError when the program is no language model, BadInputError for a prompt that is empty or does not
    fit, and for tokens that are not in the vocabulary."""
    instance("session", session, Session, "a Session")
    arguments = (
        integers("prompt", prompt, *_INT64),
        integer("max_new_tokens", max_new_tokens, 1, 2**40),
        None if temperature is None else number("temperature", temperature),
        None if top_p is None else number("top_p", top_p),
        None if seed is None else integer("seed", seed, 0, 2**64 - 1),
        integers("stop_tokens", stop_tokens, *_INT64),
        function("on_token", on_token),
    )
    session._written.check()
    found: list[Any] = []
    session._generate(lambda handle: found.extend(_core.generate(handle, *arguments)))
    return Generation(*found)
