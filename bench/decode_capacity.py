#!/usr/bin/env python3
"""What the capacity of the states costs a decode step: tokens of the same text, written with states of 256 positions
and of 32768. A method that feeds itself (greedy) reads no key behind its position; decode reads a mask of them all."""
import argparse
import json
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MODEL = ROOT / "examples/models/tinyqwen"
CAPACITY = 256
# About 110 tokens: the new ones stand around position 128.
PROMPT = "def main(arguments):\n    for i in range(10):\n        print(arguments[i])\n" * 4


def with_capacity(value: object, before: int, after: int) -> object:
    """A graph whose states have so many positions. Only states, scores and masks have four dimensions or more; tinyqwen's
    hidden size is its capacity, too."""
    if isinstance(value, dict):
        return {key: with_capacity(item, before, after) for key, item in value.items()}
    if isinstance(value, list):
        if len(value) >= 4 and all(isinstance(item, int) for item in value):
            return [after if item == before else item for item in value]
        return [with_capacity(item, before, after) for item in value]
    return value


def run(*command: object) -> str:
    return subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True).stdout


def compiled(npusim: Path, folder: Path, capacity: int, text: bool) -> Path:
    graph = json.loads((MODEL / "decode_ir.json").read_text())
    ir = folder / f"decode{capacity}.json"
    ir.write_text(json.dumps(with_capacity(graph, CAPACITY, capacity)))
    program = folder / f"{capacity}{text}.npubin"
    run(npusim, "compile", "--method", f"decode={ir}", "--text" if text else "--no-text", "-o", program)
    return program


def ms_per_token(npusim: Path, program: Path, repeat: int) -> float:
    times = []
    for _ in range(repeat):
        report = json.loads(
            run(npusim, "generate", program, "--weights", MODEL / "model.safetensors", "--tokenizer",
                MODEL / "tokenizer.json", "--prompt", PROMPT, "--max-new-tokens", 40, "--json")
        )  # fmt: skip
        times.append(report["decode_ms_per_token"])
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--npusim", type=Path, default=ROOT / "build/ci/npusim")
    parser.add_argument("--repeat", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        for text in (True, False):
            times = [
                ms_per_token(arguments.npusim, compiled(arguments.npusim, Path(name), capacity, text), arguments.repeat)
                for capacity in (CAPACITY, 32768)
            ]
            print(
                f"{'greedy' if text else 'decode'}: {times[0]:.3f} ms at {CAPACITY}, {times[1]:.3f} ms at 32768: "
                f"{times[1] / times[0]:.2f} times"
            )


if __name__ == "__main__":
    main()
