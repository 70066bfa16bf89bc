"""Random programs of views, of calls that write through them, and of buffers that they write; many make one module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

Step = Callable[[list[torch.Tensor]], torch.Tensor]  # of the tensors so far: another, or one of them
SHAPES = [(3, 3), (2, 2), (4, 4), (2, 2, 2), (3, 3, 3), (2, 3), (1, 2, 2), (2, 2, 3, 3), (1, 3, 2, 2), (3, 1)]
FORMATS = ["row-major", "row-major", "transposed", "strided", "channels_last", "offset"]


def laid_out(value: torch.Tensor, how: str) -> torch.Tensor:
    """The same numbers in memory of another order."""
    if how == "transposed":
        return value.transpose(0, -1).contiguous().transpose(0, -1)
    if how == "strided":
        return torch.stack((value, value * 0), -1)[..., 0]
    if how == "channels_last" and value.dim() == 4:
        return value.contiguous(memory_format=torch.channels_last)
    if how == "offset":
        return torch.cat((torch.zeros(3), value.flatten()))[3:].view(value.shape)
    return value


class Program:
    """One program: what it is given, what it keeps, and its steps. Its results are all that it computed."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.seed = seed
        shapes = [self.pick(SHAPES) for _ in range(2)]
        self.inputs = [laid_out(self.numbers(shape), self.pick(FORMATS)) for shape in shapes]
        self.buffers = [self.numbers(self.pick(SHAPES)) for _ in range(self.integer(0, 2))]
        self.steps: list[tuple[str, Step]] = []
        self.grow()

    def pick(self, choices: Any) -> Any:
        return choices[self.integer(0, len(choices) - 1)]

    def integer(self, low: int, high: int) -> int:
        return int(self.random.integers(low, high + 1))

    def numbers(self, shape: tuple[int, ...]) -> torch.Tensor:
        return torch.from_numpy(self.random.integers(-8, 9, shape).astype("float32") / 4)

    def grow(self) -> None:
        """Adds steps that PyTorch takes."""
        values = self.begin()
        for _ in range(self.integer(3, 8)):
            at = self.integer(0, len(values) - 1)
            kind = self.pick([VIEWS, VIEWS, WRITES, WRITES, WRITES, RESHAPES, OUTS, READS])
            text, step = self.pick(kind)(self, at, values[at])
            if kind in (WRITES, OUTS) and shows_twice(values[at]):
                continue  # what is left there is not defined
            given = [n for n, value in enumerate(values[: len(self.inputs) + len(self.buffers)]) if value is values[at]]
            if kind is RESHAPES and given and (given[0] >= len(self.inputs) or "squeeze" in text):
                continue  # a buffer would have another shape in the next run; torch.export takes no other rank of inputs
            try:
                value = step([*values])
            except (RuntimeError, IndexError, TypeError, ValueError):
                value = None
            if value is not None and all(bool(((v.abs() < 1e3) | (v == 0)).all()) for v in (value, *values)):
                self.steps.append((text, step))
            values = self.run(self.begin())

    def begin(self) -> list[torch.Tensor]:
        return [copied(value) for value in (*self.inputs, *self.buffers)]

    def run(self, values: list[torch.Tensor]) -> list[torch.Tensor]:
        values = [*values, values[0] * 1.5]
        for _, step in self.steps:
            values.append(step(values))
        return values

    def results(self, values: list[torch.Tensor]) -> list[torch.Tensor]:
        return [value.clone() for value in self.run(values)]

    def __repr__(self) -> str:
        names = [*(f"x{i}" for i in range(len(self.inputs))), *(f"self.h{i}" for i in range(len(self.buffers))), "x0 * 1.5"]
        given = [f"{name}: {list(v.shape)} {v.stride()}" for name, v in zip(names, (*self.inputs, *self.buffers))]
        lines = [f"v{len(names) + i} = {text}" for i, (text, _) in enumerate(self.steps)]
        names = [f"v{i} = {name}" for i, name in enumerate(names)]
        return "\n".join([f"program {self.seed}: {'; '.join(given)}", *names, *lines])


def shows_twice(value: torch.Tensor) -> bool:
    """Whether an element of memory is several of its elements."""
    at = torch.zeros(value.shape, dtype=torch.int64)
    for d, (extent, stride) in enumerate(zip(value.shape, value.stride())):
        at += (torch.arange(extent) * stride).reshape([-1, *[1] * (value.dim() - d - 1)])
    return at.unique().numel() < at.numel()


def copied(value: torch.Tensor) -> torch.Tensor:
    """With the same strides, in memory of its own."""
    other = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype)
    return other.copy_(value)


def method(name: str, *args: Any) -> Callable[[Program, int, torch.Tensor], tuple[str, Step]]:
    return lambda program, at, value: (f"v{at}.{name}{args}", lambda values: getattr(values[at], name)(*args))


def viewed(make: Callable[[Program, torch.Tensor], tuple[str, tuple[Any, ...]]]) -> Any:
    def kind(program: Program, at: int, value: torch.Tensor) -> tuple[str, Step]:
        name, args = make(program, value)
        return f"v{at}.{name}{args}", lambda values: getattr(values[at], name)(*args)

    return kind


def dims(program: Program, value: torch.Tensor) -> tuple[int, int]:
    rank = max(value.dim(), 1)
    return program.integer(-rank, rank - 1), program.integer(-rank, rank - 1)


def sliced(program: Program, at: int, value: torch.Tensor) -> tuple[str, Step]:
    key = tuple(
        program.pick([slice(None), slice(0, 1), slice(1, None), slice(None, None, 2), 0, -1, None, slice(0, 2)])
        for _ in range(program.integer(1, max(value.dim(), 1)))
    )
    return f"v{at}[{key}]", lambda values: values[at][key]


VIEWS = [
    sliced,
    sliced,
    method("t"),
    viewed(lambda p, v: ("transpose", dims(p, v))),
    viewed(lambda p, v: ("permute", tuple(p.random.permutation(v.dim()).tolist()))),
    viewed(lambda p, v: ("view", (-1,))),
    viewed(lambda p, v: ("reshape", p.pick([(-1,), (v.numel(), 1), (-1, 2), (1, -1)]))),
    viewed(lambda p, v: ("unsqueeze", (p.integer(-v.dim() - 1, v.dim()),))),
    method("squeeze"),
    method("flatten"),
    method("diagonal"),
    method("detach"),
    method("contiguous"),
    viewed(lambda p, v: ("movedim", dims(p, v))),
    viewed(lambda p, v: ("narrow", (0, 0, 1))),
    viewed(lambda p, v: ("unfold", (0, 2, 1))),
    lambda p, at, v: (f"v{at}.unbind()[-1]", lambda values: values[at].unbind()[-1]),
    lambda p, at, v: (f"v{at}.chunk(2)[-1]", lambda values: values[at].chunk(2)[-1]),
    lambda p, at, v: (f"v{at}.expand(2, …)", lambda values: values[at].expand(2, *values[at].shape)),
    lambda p, at, v: (f"v{at}.data", lambda values: values[at].data),
]
RESHAPES = [  # in place
    method("t_"),
    viewed(lambda p, v: ("transpose_", dims(p, v))),
    viewed(lambda p, v: ("swapaxes_", dims(p, v))),
    viewed(lambda p, v: ("unsqueeze_", (0,))),
    method("squeeze_"),
]


def with_other(name: str, *more: Any) -> Any:
    """A call with another tensor so far, or a number."""

    def kind(program: Program, at: int, value: torch.Tensor) -> tuple[str, Step]:
        number, other = program.pick([2.0, -0.5, 1.0]), at if program.pick([0, 1, 1]) else None
        if program.pick([True, False]):
            return f"v{at}.{name}({number})", lambda values: getattr(values[at], name)(number, *more)
        there = program.integer(0, 2) if other is None else at

        def step(values: list[torch.Tensor]) -> torch.Tensor:
            return getattr(values[at], name)(values[there] * 0.5, *more)

        return f"v{at}.{name}(v{there} * 0.5)", step

    return kind


def masked(program: Program, at: int, value: torch.Tensor) -> tuple[str, Step]:
    def step(values: list[torch.Tensor]) -> torch.Tensor:
        values[at][values[at] > 0] = 0.25
        return values[at]

    return f"v{at}[v{at} > 0] = 0.25", step


def assigned(program: Program, at: int, value: torch.Tensor) -> tuple[str, Step]:
    key, number = program.pick([0, -1, slice(0, 1), slice(1, None), (slice(None), 0), ...]), program.pick([3.0, -1.0])

    def step(values: list[torch.Tensor]) -> torch.Tensor:
        values[at][key] = number
        return values[at]

    return f"v{at}[{key}] = {number}", step


def flipped(program: Program, at: int, value: torch.Tensor) -> tuple[str, Step]:
    return f"v{at}.copy_(v{at}.flip(0))", lambda values: values[at].copy_(values[at].flip(0))


def gathered(program: Program, at: int, value: torch.Tensor) -> tuple[str, Step]:
    def step(values: list[torch.Tensor]) -> torch.Tensor:
        return values[at].index_add_(0, torch.tensor([0, 0]), values[at][:1].expand(2, *values[at].shape[1:]) * 0.5)

    return f"v{at}.index_add_(0, [0, 0], v{at}[:1] * 0.5)", step


WRITES = [
    *map(with_other, ("add_", "sub_", "mul_", "copy_", "pow_", "xlogy_", "__iadd__", "__imul__", "clamp_")),
    *map(method, ("neg_", "abs_", "relu_", "zero_", "tanh_", "sin_", "square_", "erf_", "deg2rad_", "logit_", "sinc_")),
    *(method("fill_", 1.5), method("clamp_", -1.0, 1.0), method("fill_diagonal_", 2.0), method("tril_")),
    *(method("cumsum_", 0), method("lerp_", torch.ones(()), 0.5), method("renorm_", 2, 0, 1.0), method("float_power_", 2)),
    *(masked, assigned, flipped, gathered),
]


def written_out(name: str, *args: Any) -> Any:
    def kind(program: Program, at: int, value: torch.Tensor) -> tuple[str, Step]:
        def step(values: list[torch.Tensor]) -> torch.Tensor:
            source = values[at] * 1
            return getattr(torch, name)(source, *args, out=values[at])

        return f"torch.{name}(v{at} * 1, *{args}, out=v{at})", step

    return kind


OUTS = [
    *(written_out("add", 1.0), written_out("sin"), written_out("clamp", -1.0, 1.0), written_out("mul", 0.5)),
    *(written_out("cumsum", 0), written_out("neg"), written_out("tril"), written_out("erfc"), written_out("softmax", 0)),
]
READS = [
    method("clone"),
    lambda p, at, v: (f"v{at} * 2 + 1", lambda values: values[at] * 2 + 1),
    lambda p, at, v: (f"v{at}.sum()", lambda values: values[at].sum()),
    lambda p, at, v: (f"v{at}.to(float64).to(float32)", lambda values: values[at].double().float()),
]


class Module(torch.nn.Module):
    """Several programs as one model: their inputs one after the other, their buffers by number."""

    def __init__(self, programs: list[Program]) -> None:
        super().__init__()
        self.programs = programs
        for n, program in enumerate(programs):
            for i, value in enumerate(program.buffers):
                self.register_buffer(f"p{n}_h{i}", copied(value))

    def forward(self, *inputs: torch.Tensor) -> list[list[torch.Tensor]]:
        given, results = iter(inputs), []
        for n, program in enumerate(self.programs):
            own = [next(given) for _ in program.inputs]
            results.append(program.results(own + [getattr(self, f"p{n}_h{i}") for i in range(len(program.buffers))]))
        return results
