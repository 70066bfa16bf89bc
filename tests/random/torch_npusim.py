"""Hands a program to npusim: exports it, writes IR, weights and inputs, compiles, runs, reads the outputs."""

import json
import struct
import subprocess
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch_ir

import torch_program
from torch_program import INPUT, WEIGHT, Program

CODES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
DTYPES = {dtype: code for code, dtype in CODES.items()}
REFUSED = 4
SECONDS = 60


class NotExported(Exception):
    """torch.export or pytorch-ir gave no graph for the program."""


@dataclass
class Outcome:
    """status: done, refused or failed; text: why."""

    status: str
    text: str = ""
    outputs: list[torch.Tensor] | None = None


def save_safetensors(path: Path, tensors: dict[str, torch.Tensor]) -> None:
    header, blobs, offset = {}, [], 0
    for name, tensor in tensors.items():
        blob = tensor.detach().flatten().clone().view(torch.uint8).numpy().tobytes()
        end = offset + len(blob)
        header[name] = {"dtype": DTYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [offset, end]}
        blobs.append(blob)
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def load_safetensors(path: Path) -> dict[str, torch.Tensor]:
    data = path.read_bytes()
    start = 8 + struct.unpack("<Q", data[:8])[0]
    tensors = {}
    for name, entry in json.loads(data[8:start]).items():
        if name != "__metadata__":
            begin, end = (start + o for o in entry["data_offsets"])
            tensor = torch.empty(entry["shape"], dtype=CODES[entry["dtype"]])
            tensor.reshape(-1).view(torch.uint8).copy_(
                torch.from_numpy(np.frombuffer(data[begin:end], np.uint8).copy())
            )
            tensors[name] = tensor
    return tensors


def export(program: Program, folder: Path) -> dict:
    """Writes ir.json and weights.safetensors; returns the IR."""
    values = torch_program.made(program)
    module = torch_program.module(program, values)
    inputs = tuple(values[name] for name in torch_program.names(program, INPUT))
    try:
        with warnings.catch_warnings(action="ignore"), torch.no_grad():
            ir = torch_ir.extract_ir(module, inputs, model_name="random", strict=False).to_dict()
    except Exception as error:  # whatever PyTorch's exporter stumbles over
        raise NotExported(f"{type(error).__name__}: {str(error).strip().splitlines()[0][:200]}") from error
    if len(ir["graph_inputs"]) != len(inputs):
        raise NotExported("the IR has other inputs")
    if len(ir["graph_outputs"]) != len(program.outputs):
        raise NotExported("the IR has other outputs")
    (folder / "ir.json").write_text(json.dumps(ir, default=str))
    weights = {name: values[name] for name in torch_program.names(program, WEIGHT)}
    if any(w["name"] not in weights for w in ir["weights"]):
        raise NotExported("a number lifted out of the code, whose value the IR does not have")
    save_safetensors(folder / "weights.safetensors", weights)
    return ir


def call(command: list[str]) -> tuple[int, str]:
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return -1, f"not done in {SECONDS} s"
    return done.returncode, done.stderr.strip() or done.stdout.strip()


def simulate(program: Program, ir: dict, folder: Path, npusim: str, flags: list[str], threads: int) -> Outcome:
    """Compiles the exported program with the flags and runs it."""
    code, text = call([npusim, "compile", str(folder / "ir.json"), "-o", str(folder / "p.npubin"), *flags])
    if code == REFUSED:
        return Outcome("refused", text)
    if code != 0:
        return Outcome("failed", f"compile ends with {code}: {text}")
    values = torch_program.made(program)
    wide = "float32" in flags and "--strict" not in flags  # then 16-bit inputs are float32 too
    inputs = {}
    for name, tensor in zip(torch_program.names(program, INPUT), ir["graph_inputs"], strict=True):
        short = wide and values[name].dtype in (torch.float16, torch.bfloat16)
        inputs[tensor["name"]] = values[name].float() if short else values[name]
    save_safetensors(folder / "inputs.safetensors", inputs)
    command = [npusim, "run", str(folder / "p.npubin"), "-o", str(folder / "out.safetensors"), "--repeat", "2"]
    command += ["--threads", str(threads), "--inputs", str(folder / "inputs.safetensors")]
    if ir["weights"]:
        command += ["--weights", str(folder / "weights.safetensors")]
    code, text = call(command)
    if code == REFUSED:
        return Outcome("refused", text)
    if code != 0:
        return Outcome("failed", f"run ends with {code}: {text}")
    outputs = load_safetensors(folder / "out.safetensors")
    missing = [t["name"] for t in ir["graph_outputs"] if t["name"] not in outputs]
    if missing:
        return Outcome("failed", f"no output {missing[0]}")
    return Outcome("done", outputs=[outputs[t["name"]] for t in ir["graph_outputs"]])
