"""What a random program is: values from outside, statements on tensors, outputs; and how PyTorch runs it."""

import re
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F

WEIGHT, INPUT = "weight", "input"


@dataclass
class Value:
    """A tensor from outside. kind says what its numbers are like: see make()."""

    name: str
    role: str
    shape: list[int]
    dtype: str
    kind: str
    seed: int


@dataclass
class Program:
    seed: int
    values: list[Value] = field(default_factory=list)
    statements: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)


def make(seed, shape, dtype, kind):
    """A tensor of a kind from a seed. "order N": different indices below N; "below N": any of them."""
    g = torch.Generator().manual_seed(seed)
    if kind.startswith("order "):  # in memory of its own
        return torch.randperm(int(kind[6:]), generator=g)[: shape[0]].clone().to(dtype)
    if kind.startswith("below "):
        return torch.randint(0, int(kind[6:]), shape, generator=g).to(dtype)
    if dtype == torch.bool:
        return torch.rand(shape, generator=g) < 0.6
    if not dtype.is_floating_point:
        return torch.randint(0 if dtype == torch.uint8 else -4, 9, shape, generator=g).to(dtype)
    z = torch.randn(shape, generator=g)
    if kind == "wide":
        z = z * 30
    elif kind == "halves":
        z = (z * 4).round() / 2
    elif kind == "positive":
        z = z.abs() + 0.25
    elif kind == "small":
        z = z * 0.1
    elif kind == "special":
        z = torch.where(torch.rand(shape, generator=g) < 0.15, z * float("inf"), z)
        z = torch.where(torch.rand(shape, generator=g) < 0.1, float("nan"), z)
        z = torch.where(torch.rand(shape, generator=g) < 0.1, z * 0.0, z)
    elif kind == "masked":
        z = torch.where(torch.rand(shape, generator=g) < 0.4, float("-inf"), z)
    return z.to(dtype)


def defined(statement: str) -> str | None:
    """The name that a statement gives to a result."""
    match = re.match(r"(v\d+) = ", statement)
    return match[1] if match else None


def made(program: Program) -> dict[str, torch.Tensor]:
    return {v.name: make(v.seed, v.shape, getattr(torch, v.dtype), v.kind) for v in program.values}


def names(program: Program, role: str) -> list[str]:
    return [v.name for v in program.values if v.role == role]


def source(program: Program) -> str:
    """The program as a module whose parameters and buffers are its weights."""
    lines = ["class Program(torch.nn.Module):", "    def __init__(self, values):", "        super().__init__()"]
    for i, name in enumerate(names(program, WEIGHT)):
        parameter = f"torch.nn.Parameter(values['{name}'], requires_grad=False)"
        store = f"self.{name} = {parameter}" if i % 2 else f"self.register_buffer('{name}', values['{name}'])"
        lines.append("        " + store)
    lines.append(f"    def forward(self{''.join(', ' + name for name in names(program, INPUT))}):")
    lines += [f"        {name} = self.{name}" for name in names(program, WEIGHT)]
    lines += ["        " + statement for statement in program.statements]
    lines.append(f"        return ({', '.join(program.outputs)},)")
    return "\n".join(lines)


def module(program: Program, values: dict[str, torch.Tensor], text: str | None = None) -> torch.nn.Module:
    room = {"torch": torch, "F": F}
    exec(text or source(program), room)
    return room["Program"](values).eval()


def run(program: Program, values: dict[str, torch.Tensor], text: str | None = None) -> list[torch.Tensor]:
    """What PyTorch answers; the values stay as they are."""
    values = {name: value.clone() for name, value in values.items()}
    with torch.no_grad():
        outputs = module(program, values, text)(*(values[name] for name in names(program, INPUT)))
    return [output.detach().clone() for output in outputs]
