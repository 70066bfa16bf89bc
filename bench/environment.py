"""The Python environment of compare.py and of models/sweep.py: a venv with pinned packages, in which they then run.
Standard library only."""
import os
import subprocess
import sys
from pathlib import Path

TORCH_INDEX = "https://download.pytorch.org/whl/cpu"
TORCH = ("torch==2.15.0", "torchvision==0.29.2")
PACKAGES = (
    "numpy==2.4.6",
    "onnx==1.23.2",
    "onnxruntime==1.31.1",
    "onnxscript==0.7.2",
    "openvino==2026.4.1",
    "pytorch-ir==0.2.3",
    "safetensors==0.8.0",
    "transformers==5.23.0",
)


class Problem(Exception):
    """What the user has to know, and to do."""


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def enter(venv: Path, make: bool, packages: tuple[str, ...] = PACKAGES) -> None:
    """Goes on in the venv: returns when this is its interpreter, else starts the command again with it."""
    if Path(sys.prefix).resolve() == venv.resolve():
        return
    if make:
        install(venv, packages)
    python = venv / "bin" / "python"
    if not python.exists():
        raise Problem(f"{venv} is no virtual environment: there is no {python}")
    os.execv(python, [str(python), *sys.argv])


def install(venv: Path, packages: tuple[str, ...]) -> None:
    """Makes the venv, unless it is complete and has these versions."""
    done = venv / "packages.txt"
    wanted = "\n".join((*TORCH, *packages))
    if done.exists() and done.read_text() == wanted:
        return
    say(f"making {venv}: torch, onnxruntime, openvino and others, several minutes")
    if not succeeds([sys.executable, "-m", "venv", "--clear", str(venv)]):
        raise Problem("no venv could be made; on Debian and Ubuntu: apt-get install python3-venv python3-dev g++")
    pip = [str(venv / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if not succeeds([*pip, "--index-url", TORCH_INDEX, *TORCH]):
        say(f"note: no torch from {TORCH_INDEX}; the one of PyPI does the same on the CPU and is larger")
    if not succeeds([*pip, *TORCH, *packages]):
        raise Problem("pip failed, see above; --venv DIR uses an environment that has the packages")
    done.write_text(wanted)


def succeeds(command: list[str]) -> bool:
    return subprocess.run(command, stdout=sys.stderr).returncode == 0
