"""Makes random programs: statements drawn from families, each tried on real tensors before it is taken."""

import random
import re
import warnings

import torch
import torch.nn.functional as F

from torch_complex_statements import MAKERS
from torch_program import INPUT, WEIGHT, Program, Value, defined, make
from torch_templates import TEMPLATES

FLOATS = (torch.float32, torch.float16, torch.bfloat16)
SIZES = [1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17, 31, 33, 64]
NUMBERS = ["0", "1", "-1", "2", "0.5", "-0.25", "3.5", "1e-3", "-2.5", "6", "1e3"]
MOST_ELEMENTS = 60000
FAMILIES = [*TEMPLATES, *MAKERS]
# What the values of a program may be like, besides float32 numbers around 1 in small shapes.
FEATURES = ["narrow", "special", "large", "zero"]  # 16-bit floats, infinities and NaN, hundreds in a dimension, none


class Unfit(Exception):
    """No statement of this template fits the program."""


class Draw:
    """A program in the making, its tensors, and the holes of templates."""

    def __init__(self, seed: int, features: list[str], unwanted: str) -> None:
        self.rng = random.Random(seed)
        self.program = Program(seed)
        self.tensors: dict[str, torch.Tensor] = {}
        self.contractions: list[str] = []
        self.unwanted = unwanted  # a regular expression
        rng = self.rng
        self.sizes = [rng.choice(SIZES) for _ in range(3)]
        if "large" in features and self.chance(0.06):
            self.sizes[0] = rng.choice([150, 200, 300])
        if "zero" in features and self.chance(0.03):
            self.sizes[1] = 0
        self.dtype = rng.choice(FLOATS) if "narrow" in features and self.chance(0.3) else torch.float32
        self.kinds = rng.choice([["normal"]] * 6 + [["normal", "halves"], ["wide", "normal"], ["positive", "small"]])
        if "special" in features and self.chance(0.1):
            self.kinds = ["normal", "special"]

    def value(self, role: str, shape, dtype=None, kind: str | None = None) -> str:
        """A new tensor from outside."""
        dtype, index = dtype or self.dtype, len(self.program.values)
        value = Value(
            f"{'w' if role == WEIGHT else 'x'}{index}",
            role,
            list(shape),
            str(dtype)[6:],
            kind or self.rng.choice(self.kinds),
            self.program.seed * 1000 + index,
        )
        self.program.values.append(value)
        self.tensors[value.name] = make(value.seed, value.shape, dtype, value.kind)
        return value.name

    def outside(self, shape, dtype=None, kind: str | None = None) -> str:
        return self.value(self.rng.choice([WEIGHT, INPUT]), shape, dtype, kind)

    def shape(self, rank: int) -> list[int]:
        return [self.rng.choice(self.sizes) for _ in range(rank)]

    def pick(self, fits) -> str:
        """A tensor that is there, the later ones rather."""
        found = [name for name, t in self.tensors.items() if fits(t)]
        if not found:
            raise Unfit
        if self.rng.random() < 0.4:
            return found[-1]
        return found[min(self.rng.randrange(len(found)), self.rng.randrange(len(found))) * -1 - 1]

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability


class Holes:
    """What the holes of one template are filled with."""

    def __init__(self, draw: Draw) -> None:
        self.draw, self.rng = draw, draw.rng
        self.subject = ""
        self.filled: dict[str, str] = {}

    @property
    def t(self) -> torch.Tensor:
        return self.draw.tensors[self.subject]

    def fill(self, match: re.Match) -> str:
        hole = match[1]
        if hole in self.filled:
            return self.filled[hole]
        letter, rank = hole[0], hole[1:]
        if letter in "xfib" and (rank in ("", "+") or rank.isdigit()):
            text = self.subject = self.draw.pick(self.kind(letter, rank))
        elif letter in "cw" and not rank:
            text = self.subject = self.special(letter)
        else:
            if not self.subject:
                self.subject = self.draw.pick(lambda t: True)
            text = getattr(self, "hole_" + hole.replace("+", "_"))()
        if hole not in ("n", "p", "k", "y"):
            self.filled[hole] = text
        return text

    def kind(self, letter: str, rank: str):
        def fits(t: torch.Tensor) -> bool:
            right = {
                "x": True,
                "f": t.is_floating_point(),
                "b": t.dtype == torch.bool,
                "i": not t.is_floating_point() and t.dtype != torch.bool,
            }[letter]
            return right and (t.dim() >= 1 if rank == "+" else not rank or t.dim() == int(rank))

        return fits

    def special(self, letter: str) -> str:
        d = self.draw
        if letter == "w":
            weights = [
                v.name
                for v in d.program.values
                if v.role == WEIGHT and d.tensors[v.name].is_floating_point() and d.tensors[v.name].dim()
            ]
            return self.rng.choice(weights) if weights and d.chance(0.7) else d.value(WEIGHT, d.shape(2))
        alive = [c for c in d.contractions if c in d.tensors]
        if not alive:
            raise Unfit
        return alive[-1] if d.chance(0.7) else self.rng.choice(alive)

    def fitting(self, shape, dtype) -> str:
        """A tensor of this shape, there or new."""
        there = [
            n
            for n, t in self.draw.tensors.items()
            if list(t.shape) == list(shape) and t.dtype == dtype and n != self.subject
        ]
        return self.rng.choice(there) if there and self.draw.chance(0.7) else self.draw.outside(shape, dtype)

    def hole_y(self) -> str:
        shape = list(self.t.shape)
        if self.draw.chance(0.35):
            shape = [1 if self.draw.chance(0.4) else n for n in shape][self.rng.randrange(len(shape) + 1) :]
        dtype = self.t.dtype
        if self.draw.chance(0.08):
            dtype = self.rng.choice([torch.float32, torch.int64, torch.bool])
        return self.fitting(shape, dtype)

    def hole_same(self) -> str:
        return self.fitting(self.t.shape, self.t.dtype)

    def hole_mask(self) -> str:
        return self.fitting(
            self.t.shape[self.rng.randrange(self.t.dim() + 1) if self.draw.chance(0.3) else 0 :], torch.bool
        )

    def hole_mask_last(self) -> str:
        return self.draw.outside([1], torch.bool)

    def hole_i_scalar(self) -> str:
        return self.draw.outside(self.rng.choice([[], [1]]), self.rng.choice([torch.int64, torch.bool]))

    def hole_n(self) -> str:
        return self.rng.choice(NUMBERS)

    def hole_p(self) -> str:
        return self.rng.choice(["1", "0.5", "2", "6", "1.25"])

    def hole_k(self) -> str:
        return str(self.rng.choice([-1, 1, 2, 3]))

    def number(self, key: str, low: int, high: int) -> int:
        if key not in self.filled:
            if high <= low:
                raise Unfit
            self.filled[key] = str(self.rng.randrange(low, high))
        return int(self.filled[key])

    def hole_dim(self) -> str:
        return str(self.number("dim", 0, self.t.dim()))

    def hole_dim2(self) -> str:
        return str(self.number("dim2", 0, self.t.dim()))

    def hole_size(self) -> str:
        return str(self.t.shape[self.number("dim", 0, self.t.dim())])

    def hole_size0(self) -> str:
        return str(self.t.shape[0])

    def hole_size_(self) -> str:
        return str(self.rng.choice([s for s in self.draw.sizes if s] or [3]))

    def hole_lo(self) -> str:
        return str(self.number("lo", 0, max(self.t.shape[0], 1)))

    def hole_hi(self) -> str:
        return str(self.number("hi", self.number("lo", 0, max(self.t.shape[0], 1)), self.t.shape[0] + 1))

    def hole_shape(self) -> str:
        count, shape = self.t.numel(), []
        if count == 0:
            return repr(tuple(reversed(self.t.shape)))
        for _ in range(self.rng.randrange(3)):
            part = self.rng.choice([n for n in range(1, min(count, 70) + 1) if count % n == 0])
            shape.append(part)
            count //= part
        return repr((*shape, count))

    def hole_strided(self) -> str:
        sizes = [self.rng.randrange(1, 5) for _ in range(self.rng.randrange(1, 4))]
        return f"{tuple(sizes)}, {tuple(self.rng.randrange(0, 8) for _ in sizes)}, {self.rng.randrange(3)}"

    def hole_perm(self) -> str:
        return repr(tuple(self.rng.sample(range(self.t.dim()), self.t.dim())))

    def indices(self, size: int, different: bool) -> str:
        if size == 0:
            raise Unfit
        count = self.rng.randrange(1, size + 1)
        return self.draw.outside([count], torch.int64, f"{'order' if different else 'below'} {size}")

    def hole_order(self) -> str:
        return self.indices(int(self.hole_size()), True)

    def hole_below(self) -> str:
        return self.indices(int(self.hole_size()), False)

    def hole_order0(self) -> str:
        return self.indices(self.t.shape[0], True)

    def hole_order1(self) -> str:
        return self.indices(self.t.shape[1], True)

    def hole_order0w(self) -> str:
        return self.draw.value(WEIGHT, [min(2, self.t.shape[0])], torch.int64, f"order {self.t.shape[0]}")

    def hole_n_order(self) -> str:
        return str(min(2, self.t.shape[0]))

    def hole_below0(self) -> str:
        return self.indices(self.t.shape[0], False)

    def along(self, index: str) -> str:
        shape = list(self.t.shape)
        shape[int(self.filled["dim"])] = len(self.draw.tensors[self.filled[index]])
        return self.fitting(shape, self.t.dtype)

    def hole_rows(self) -> str:
        return self.along("order")

    def hole_rows_below(self) -> str:
        return self.along("below")

    def hole_gather(self) -> str:
        if self.t.numel() == 0:
            raise Unfit
        return self.draw.outside(self.t.shape, torch.int64, f"below {self.hole_size()}")

    def hole_gather_once(self) -> str:
        """Indices that say no place twice: the same order for all, along dim."""
        order = self.draw.value(INPUT, [int(self.hole_size())], torch.int64, f"order {self.hole_size()}")
        at = int(self.hole_dim())
        view = f"{order}.view({', '.join('-1' if i == at else '1' for i in range(self.t.dim()))})"
        return f"{view}.expand({self.subject}.shape)"

    def last(self) -> int:
        if self.t.dim() == 0:
            raise Unfit
        return self.t.shape[-1]

    def hole_row(self) -> str:
        return self.fitting([self.last()], self.t.dtype)

    def hole_channels(self) -> str:
        return self.fitting([self.t.shape[1]], self.t.dtype)

    def hole_mat(self) -> str:
        return self.fitting([self.last(), *self.draw.shape(1)], self.t.dtype)

    def outs(self) -> int:
        if "outs_size" not in self.filled:
            self.filled["outs_size"] = str(self.draw.shape(1)[0])
        return int(self.filled["outs_size"])

    def hole_tam(self) -> str:
        return self.fitting([self.outs(), self.last()], self.t.dtype)

    def hole_bias(self) -> str:
        return self.fitting([self.outs()], self.t.dtype)

    def hole_outs(self) -> str:
        mat = self.hole_mat()
        self.filled["mat"] = mat
        columns = self.draw.tensors[mat].shape[1]
        return self.fitting(self.rng.choice([[columns], [self.t.shape[0], columns], [1, columns]]), self.t.dtype)


def statements(draw: Draw, family: str) -> list[str]:
    """Lines of one family; new names are where the templates say {new}."""
    if family in MAKERS:
        return MAKERS[family](draw)
    template = draw.rng.choice(TEMPLATES[family])
    holes = Holes(draw)
    text = re.sub(r"\{([a-z]+[0-9+]?[a-z_]*)\}", holes.fill, template.removeprefix("!"))
    return [text if template.startswith("!") else "{new} = " + text]


CONTRACTING = {"matmul", "conv", "attention"}


def add(draw: Draw, family: str) -> bool:
    """Tries one statement (or a few that belong together); False if it does not fit."""
    before, count = dict(draw.tensors), len(draw.program.values)
    taken: list[str] = []
    try:
        for line in statements(draw, family):
            if line.startswith("{new} = "):
                line = line.replace("{new}", f"v{len(draw.program.statements) + len(taken)}")
            for i, name in enumerate(reversed([n for n in map(defined, taken) if n])):
                line = line.replace("{last%s}" % (i or ""), name)
            with warnings.catch_warnings(action="ignore"), torch.no_grad():
                exec(line, {"torch": torch, "F": F}, draw.tensors)
            taken.append(line)
            if draw.unwanted and re.search(draw.unwanted, line):
                raise Unfit
            name = defined(line)
            if name:
                result = draw.tensors[name]
                if not isinstance(result, torch.Tensor) or not sensible(result):
                    raise Unfit
    except (
        Unfit,
        RuntimeError,
        TypeError,
        ValueError,
        IndexError,
        AttributeError,
        NotImplementedError,
        AssertionError,
        SyntaxError,
    ):
        draw.tensors = before
        del draw.program.values[count:]
        return False
    draw.program.statements += taken
    if family in CONTRACTING or (family == "module"):
        draw.contractions += [name for name in map(defined, taken) if name]
    return True


def sensible(t: torch.Tensor) -> bool:
    return (
        t.numel() <= MOST_ELEMENTS
        and t.dim() <= 6
        and t.dtype in (*FLOATS, torch.int64, torch.int32, torch.bool, torch.uint8)
    )


def generate(seed: int, families: list[str], features: list[str], unwanted: str = "") -> Program:
    """The program of a seed: a few families, mixed, so that their statements meet each other."""
    draw = Draw(seed, features, unwanted)
    rng = draw.rng
    for _ in range(rng.randrange(1, 4)):
        draw.value(INPUT, draw.shape(rng.choice([1, 2, 2, 2, 3, 3, 4])))
    if draw.chance(0.15):
        draw.value(INPUT, draw.shape(2), rng.choice([torch.int64, torch.int32, torch.bool]), "normal")
    if draw.chance(0.4):
        draw.value(WEIGHT, draw.shape(rng.choice([1, 2, 3])))
    mix = rng.sample(families, min(len(families), rng.randrange(2, 6)))
    if CONTRACTING & set(mix) and "epilogue" in families:
        mix += ["epilogue", "epilogue"]
    length = rng.choice([1, 2, 3, 4, 5, 6, 8, 10, 14])
    for _ in range(60):
        if len(draw.program.statements) >= length:
            break
        add(draw, rng.choice(mix))
    choose_outputs(draw)
    return draw.program


def choose_outputs(draw: Draw) -> None:
    """The last results, some others, and often what was changed from outside."""
    text = "\n".join(draw.program.statements)
    used = [v for v in draw.program.values if re.search(rf"\b{v.name}\b", text)]
    draw.program.values = used or draw.program.values[:1]
    results = [n for n in draw.tensors if n.startswith("v")]
    outputs = results[-1:]
    outputs += [n for n in results[:-1] if draw.chance(0.4)]
    outputs += [v.name for v in used if f"!{v.name}" in text or draw.chance(0.35)]
    outputs = [n for n in dict.fromkeys(outputs) if sensible(draw.tensors[n])]
    draw.rng.shuffle(outputs)
    draw.program.outputs = outputs or [draw.program.values[0].name]
