"""Tokenizers and generation."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from . import _core
from .session import Session


class Tokenizer:
    """A Hugging Face tokenizer.json of byte-level BPE (GPT-2, Qwen2, Llama 3 and their kin). Raises UnsupportedError,
    naming the part, for others."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._handle = _core.open_tokenizer(os.fspath(path))
        self.stop_tokens = _core.read_stop_tokens(os.fspath(path))  # of the generation_config.json beside it

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        """The ids of a text."""
        return _core.encode(self._handle, text, add_special_tokens)

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """The text of ids; bytes that are not UTF-8 become U+FFFD."""
        return _core.decode(self._handle, list(ids), skip_special_tokens)

    def token_id(self, content: str) -> int | None:
        """The id of an added token, such as "<|im_end|>"."""
        return _core.added_token_id(self._handle, content)


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
    temperature: float = 0,
    top_p: float = 1,
    seed: int = 0,
    stop_tokens: Sequence[int] = (),
    on_token: Callable[[int], None] | None = None,
) -> Generation:
    """Continues a prompt of token ids with a program that has a method for one token and usually one for many.

    temperature: 0 takes the likeliest token; above it samples, from the likeliest that have probability top_p together.
    on_token: called with each new token.

    Ends at a stop token, after max_new_tokens, or when the states are full. Raises UnsupportedError when the program is
    no language model, BadInputError for a prompt that is empty or does not fit."""
    with session._turns.take():
        found = _core.generate(
            session._handle, list(prompt), max_new_tokens, temperature, top_p, seed, list(stop_tokens), on_token
        )
    return Generation(*found)
