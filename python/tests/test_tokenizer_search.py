"""Random tokenizer.json files and texts: what npusim takes cuts and names text as Hugging Face's `tokenizers` does."""

import json
import random

import npusim
import pytest
from test_tokenizer import document

tokenizers = pytest.importorskip("tokenizers")

# Letters of several cases, ligatures, white space of all kinds, marks, numbers that are no digits, joiners.
NASTY = [
    *"abcsSkKtTfFiIlLxX 19_-.'!<>\t\n\r\v\f\0\x1c\x1f\x7f\x85\xa0\xad\u1680\u2003\u2028\u2029\u202f\u205f\u3000",
    *"\u180e\u200b\u200c\u200d\u2060\ufeff\xb9\xb2\xb3\xbc\xbd\xbe\xaa\xba\u2167\u2177\u24b6\u24d0\u2460\u3007",
    *"\u203f\u2040\uff3f\u0301\u0345\u20dd\u0903\xdf\u1e9e\u017f\u212a\xc5\u0130\u0131\u0149\u01f0\u02bc\ufb00\ufb01",
    *"\ufb05\u03a3\u03c3\u03c2\u03bc\xb5\u03b9\xe9\xc9\u65e5\ud55c\u1112\u1161\u0928\u0e01\u05d0\u2019\xb7\u2126",
    *"\U0001f600\U0001f1e6\U0001d7d9\ud7ff\ue000\ufffd\U0010ffff\u3005\u30fc\uff71",
]
LITERALS = [*"abcsSkftilx1_'. -<\xe9\u65e5\u2019&#~/=]}", r"\.", r"\-", r"\n", r"\t", r"\x{17f}", r"\x{b2}", r"\{"]
PROPERTIES = "L Lu Ll Lo Lm M Mn N Nd Nl No P Pc S Z C LC Han Latin Greek Hiragana Cf Zs ^L so Arabic".split()
CLASSES = [*(rf"\{c}" for c in "sSwWdD"), *(rf"\p{{{p}}}" for p in PROPERTIES), *(rf"\P{{{p}}}" for p in PROPERTIES)]
RANGES = ["a-c", "0-9", "A-Z", r"\x{0}-\x{7f}", "\u4e00-\u9fff", r"\x{80}-\x{ff}", "s-t", r"\t-\r", "--/", "\xe0-\xfc"]
GROUPS = ["(?:", "(", "(?=", "(?!", "(?>", "(?<=", "(?<!", "(?i:", "(?i:", "(?-i:"]
REPEATS = ["*", "+", "?", "*?", "+?", "*+", "++", "?+", "{1}", "{2}", "{1,2}", "{0,2}", "{1,}"]
BEHAVIORS = ["Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"]


def text_of(draw, length=14):
    return "".join(draw.choice(NASTY if draw.random() < 0.6 else "ab s1 \nm<>") for _ in range(draw.randrange(length)))


def set_of(draw):
    kinds = [LITERALS, LITERALS, CLASSES, RANGES]
    parts = [draw.choice(draw.choice(kinds)).replace("]", r"\]") for _ in range(draw.randrange(1, 5))]
    return f"[{'^' * draw.randrange(2)}{''.join(parts)}]"


def pattern_of(draw, depth=0):
    def atom():
        kind = draw.choice(["literal"] * 4 + ["class", "class", "set", "sign", "group", "group"])
        if kind == "group" and depth < 3:
            return draw.choice(GROUPS) + pattern_of(draw, depth + 1) + ")"
        if kind == "set":
            return set_of(draw)
        return draw.choice({"class": CLASSES, "sign": [".", "^", "$", r"\A", r"\z"]}.get(kind, LITERALS))

    def repeated(part):
        may = not part.startswith(("(?=", "(?!", "(?<", "^", "$", r"\A", r"\z")) and draw.random() < 0.3
        return part + draw.choice(REPEATS) if may else part

    parts = ["".join(repeated(atom()) for _ in range(draw.randrange(4))) for _ in range(draw.randrange(1, 4))]
    return "(?i)" * (depth == 0 and draw.random() < 0.1) + "|".join(parts)


def with_pairs(draw, **model):
    """A document of bytes and of many pairs of them: a pair stands only where nothing cuts it."""
    content = document(None)
    vocab = content["model"]["vocab"]
    letters = list(vocab)
    for a in letters:
        for b in draw.sample(letters, 3):
            if a + b not in vocab:
                vocab[a + b] = len(vocab)
                content["model"]["merges"].append([a, b])
    content["model"] |= model
    return content


def both(content, path):
    """Ours and theirs; None where one of them refuses."""
    path.write_text(json.dumps(content))
    try:
        ours = npusim.Tokenizer(path)
    except (npusim.UnsupportedError, npusim.BadInputError):
        return None
    try:
        return ours, tokenizers.Tokenizer.from_file(str(path))
    except Exception:  # a pattern that Oniguruma does not take
        return None


def test_split_patterns(tmp_path):
    taken = 0
    for seed in range(1500):
        draw = random.Random(seed)
        content = with_pairs(random.Random(0))
        steps = [
            {
                "type": "Split",
                "pattern": {"Regex": pattern_of(draw)},
                "behavior": draw.choice(BEHAVIORS),
                "invert": draw.random() < 0.25,
            }
            for _ in range(draw.choice([1, 1, 1, 2]))
        ]
        last = content["pre_tokenizer"]["pretokenizers"]
        nested = {"type": "Sequence", "pretokenizers": steps}
        content["pre_tokenizer"]["pretokenizers"] = [nested, *last] if draw.random() < 0.2 else [*steps, *last]
        if (pair := both(content, tmp_path / "tokenizer.json")) is None:
            continue
        taken += 1
        for _ in range(10):
            text = text_of(draw)
            try:
                found = pair[0].encode(text)
            except npusim.UnsupportedError:  # takes too long
                continue
            assert found == pair[1].encode(text).ids, (seed, steps, ascii(text))
    assert taken > 700


def test_added_tokens(tmp_path):
    """Tokens that begin, end and hold each other, with every combination of flags, beside white space and words."""
    flags = ("special", "single_word", "lstrip", "rstrip", "normalized")
    for seed in range(600):
        draw = random.Random(seed)
        content = with_pairs(random.Random(0))
        names = draw.sample(["<a>", "<ab>", "a", "ab", " a", "a ", "<", "<a", "b>", " ", "\n", "\xb2", "\xe9", "e"], 4)
        first = len(content["model"]["vocab"])
        new = [name for name in names if name not in content["model"]["vocab"]]
        content["added_tokens"] = [
            {
                "id": first + new.index(name) if name in new else content["model"]["vocab"][name],
                "content": name,
                **{flag: draw.random() < 0.4 for flag in flags},
            }
            for name in names
        ]
        content["normalizer"] = draw.choice([None, {"type": "NFC"}, {"type": "NFD"}])
        if (pair := both(content, tmp_path / "tokenizer.json")) is None:
            continue
        for _ in range(20):
            parts = [*names, *names, " ", "  ", "\n", "\xa0", "\u3000", "a", "b", "_", "\xb2", "\u0301", "e", "."]
            text = "".join(draw.choice(parts) for _ in range(draw.randrange(12)))
            try:
                ids = pair[1].encode(text).ids
            except BaseException as error:  # theirs panics where a token lies in white space that two others take
                assert type(error).__name__ == "PanicException"
                continue
            assert pair[0].encode(text) == ids, (seed, content["added_tokens"], ascii(text))
            shown = pair[0].decode(ids, skip_special_tokens=False)
            assert shown == pair[1].decode(ids, skip_special_tokens=False), (seed, ids)


def test_words_that_are_taken_whole(tmp_path):
    for seed in range(300):
        draw = random.Random(seed)
        content = with_pairs(random.Random(0), ignore_merges=True)
        vocab = content["model"]["vocab"]
        letters = list(vocab)[:256]
        for word in ("ab", "abc", "\u0120a", " a", "a b", "\xe9", "\u65e5", *("".join(draw.choices(letters, k=3)) for _ in range(9))):
            vocab.setdefault(word, len(vocab))
        steps = [{"type": "Split", "pattern": {"String": " "}, "behavior": draw.choice(BEHAVIORS), "invert": False}]
        content["pre_tokenizer"]["pretokenizers"][:0] = steps
        ours, theirs = both(content, tmp_path / "tokenizer.json")
        for _ in range(20):
            text = draw.choice([text_of(draw, 5), "".join(draw.choices(["ab", "abc", " a", "a b", "\xe9", "\u65e5", " "], k=3))])
            assert ours.encode(text) == theirs.encode(text).ids, (seed, ascii(text))
