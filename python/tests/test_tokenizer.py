"""Tokenizers against Hugging Face's own and Python's unicodedata, on random text of all scripts."""

import json
import random
import unicodedata

import pytest

import npusim

ASSIGNED = [c for c in range(0x110000) if unicodedata.category(chr(c)) not in ("Cn", "Cs", "Co")]
MARKS = [c for c in ASSIGNED if unicodedata.combining(chr(c))]
DECOMPOSED = [c for c in ASSIGNED if unicodedata.decomposition(chr(c))[:1] not in ("", "<")]


def texts(count, seed):
    """Starters, composed ones and their parts, Hangul, and marks in any order."""
    draw = random.Random(seed)
    for _ in range(count):
        parts = []
        for _ in range(draw.randrange(1, 14)):
            kind = draw.randrange(6)
            if kind == 0:
                parts.append(chr(draw.choice(ASSIGNED)))
            elif kind == 1:
                parts.append(chr(draw.choice(DECOMPOSED)))
            elif kind == 2:
                parts.append(unicodedata.normalize("NFD", chr(draw.choice(DECOMPOSED))))
            elif kind == 3:
                parts.append(chr(draw.choice(MARKS)))
            elif kind == 4:
                parts.append(chr(draw.choice([draw.randrange(0x1100, 0x11FF), draw.randrange(0xAC00, 0xD7A4)])))
            else:
                parts.append(draw.choice("ab 19\n."))
        yield "".join(parts)


def document(normalizer, pre_tokenizer=None):
    """A tokenizer.json whose tokens are the bytes."""
    characters, free = [], 256
    for byte in range(256):
        printable = 33 <= byte <= 126 or 161 <= byte <= 172 or byte >= 174
        characters.append(chr(byte) if printable else chr(free))
        free += not printable
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    steps = [*([pre_tokenizer] if pre_tokenizer else []), byte_level]
    return {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": normalizer,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": steps},
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "vocab": {c: i for i, c in enumerate(characters)}, "merges": []},
    }


def made(tmp_path, *arguments):
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(document(*arguments)))
    return npusim.Tokenizer(path)


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_normal_forms_are_those_of_unicodedata(form, tmp_path):
    tokenizer = made(tmp_path, {"type": form})
    for text in texts(4000, seed=11):
        expected = unicodedata.normalize(form, text)
        assert bytes(tokenizer.encode(text)).decode() == expected, ascii(text)
    for first in range(0, len(ASSIGNED), 500):  # each code point by itself
        text = "\n".join(map(chr, ASSIGNED[first : first + 500]))
        assert bytes(tokenizer.encode(text)).decode() == unicodedata.normalize(form, text)


def test_sequences_of_normalizers(tmp_path):
    text = "cafe\u0301 \u212b"
    for list_, form in (([], None), (["NFC"], "NFC"), (["NFD"], "NFD"), (["NFD", "NFC"], "NFC"), (["NFC", "NFD"], "NFD")):
        sequence = {"type": "Sequence", "normalizers": [{"type": one} for one in list_]}
        expected = unicodedata.normalize(form, text) if form else text
        assert bytes(made(tmp_path, sequence).encode(text)).decode() == expected
    nested = {"type": "Sequence", "normalizers": [{"type": "Sequence", "normalizers": [{"type": "NFC"}]}]}
    assert bytes(made(tmp_path, nested).encode("e\u0301")).decode() == "\u00e9"


PATTERNS = [
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|\p{N}{1,3}|[\P{L}]",
    r"\w+|\d|[\W]",
    r"\p{Han}+|\p{Hiragana}|[\p{Cyrillic}\p{Greek}]+|\p{^L}",
]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_cuts_are_those_of_hugging_face(pattern, tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    # Two merges would hide cuts: with pairs of bytes as tokens, a pair stands only where nothing cuts it.
    step = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    content = document(None, step)  # its normal forms are those of an older Unicode
    vocab = content["model"]["vocab"]
    letters = list(vocab)
    draw = random.Random(5)
    for a in letters:
        for b in draw.sample(letters, 12):
            if a + b not in vocab:
                vocab[a + b] = len(vocab)
                content["model"]["merges"].append([a, b])
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(content))
    theirs = tokenizers.Tokenizer.from_file(str(path))
    ours = npusim.Tokenizer(path)
    for text in texts(1500, seed=17):
        assert ours.encode(text) == theirs.encode(text).ids, ascii(text)
    # Letters of Unicode 15 to 16, which PCRE2 may be too old for and theirs knows.
    for text in ("a\U00031350b", "\U0002ebf0\U0002ebf1 x", "\u1c89\u1c8a1", "1\U000105c0\U000105c12"):
        assert ours.encode(text) == theirs.encode(text).ids, ascii(text)


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_normal_forms_are_those_of_hugging_face(form, tmp_path):
    normalizers = pytest.importorskip("tokenizers.normalizers")
    theirs = getattr(normalizers, form)()
    tokenizer = made(tmp_path, {"type": form})
    old = unicodedata.ucd_3_2_0  # what every version of theirs knows
    for text in texts(3000, seed=23):
        text = "".join(c for c in text if old.category(c) != "Cn")
        assert bytes(tokenizer.encode(text)).decode() == theirs.normalize_str(text), ascii(text)
