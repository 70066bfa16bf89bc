#!/usr/bin/env python3
"""Exports, compiles and runs the architectures of a family of models, and says of each whether its answers are right.

A model is judged in a process of its own, within a time and a memory limit; what was found goes to
build/sweep/FAMILY.jsonl, one line a model, so that a sweep that was stopped goes on. --report writes docs/models/FAMILY.md
from these lines."""

import argparse
import fnmatch
import importlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
FAMILIES = ("transformers", "torchvision", "timm", "diffusers", "written", "packages")
PACKAGES = (
    "timm==1.0.31",
    "diffusers==0.42.1",
    "scipy==1.17.1",
    "einops==0.8.2",
    "nanobind==3.1.0",
    "ml_dtypes==0.6.0",
)


def main() -> int:
    flags = arguments()
    if flags.venv:
        import environment

        environment.enter(flags.venv, make=flags.make, packages=(*environment.PACKAGES, *PACKAGES))
    find_package()
    folder = ROOT / "build" / "sweep"
    (folder / "logs").mkdir(parents=True, exist_ok=True)
    for family in flags.family:
        lines = folder / f"{family}.jsonl"
        if flags.report:
            import report

            cases = importlib.import_module(f"{family}_models").cases()
            found = {name: line | {"group": cases[name].group} for name, line in read(lines).items() if name in cases}
            report.write(family, found, len(cases), ROOT / "docs" / "models" / f"{family}.md")
            continue
        sweep(family, flags, lines, folder / "logs")
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("family", nargs="*", default=list(FAMILIES), help=", ".join(FAMILIES))
    parser.add_argument("--models", default="*", help="names or patterns, with commas")
    parser.add_argument("--list", action="store_true", help="what there is, and what was found")
    parser.add_argument("--report", action="store_true", help="writes docs/models/FAMILY.md")
    parser.add_argument(
        "--again", default="", help="judges those with these states again: wrong,refused,failed,… or all"
    )
    parser.add_argument("--seconds", type=float, default=240, help="limit for one model")
    parser.add_argument("--gigabytes", type=float, default=6, help="limit for one model")
    parser.add_argument("--share", default="0/1", help="I/N: every Nth model, beginning with the Ith")
    parser.add_argument("--verbose", action="store_true", help="what the model says goes to the terminal")
    parser.add_argument("--venv", type=Path, help="a virtual environment; default: the Python this is run with")
    parser.add_argument("--make", action="store_true", help="makes it, with pinned packages")
    flags = parser.parse_args()
    for family in flags.family:
        if family not in FAMILIES:
            parser.error(f"there is no family {family}: expected {', '.join(FAMILIES)}")
    return flags


def find_package() -> None:
    """npusim as it is installed, else as one of the build folders has it."""
    if importlib.util.find_spec("npusim") is None:
        built = sorted(ROOT.glob("build/*/python/npusim/_core*.so"), key=lambda file: file.stat().st_mtime)
        if not built:
            sys.exit("error: there is no npusim: pip install ., or configure with -DNPUSIM_PYTHON_PACKAGE=ON")
        sys.path.insert(0, str(built[-1].parent.parent))


def read(lines: Path) -> dict[str, dict[str, Any]]:
    """The last line of each model."""
    if not lines.exists():
        return {}
    found = map(json.loads, lines.read_text().splitlines())
    return {line["model"]: line for line in found}


def sweep(family: str, flags: argparse.Namespace, lines: Path, logs: Path) -> None:
    import torch

    torch.set_num_threads(1)
    cases = importlib.import_module(f"{family}_models").cases()
    import judge

    patterns = flags.models.split(",")
    names = [name for name in cases if any(fnmatch.fnmatch(name, pattern) for pattern in patterns)]
    known = read(lines)
    again = set(flags.again.split(","))
    first, step = map(int, flags.share.split("/"))
    git = ["git", "-C", str(ROOT), "describe", "--always", "--exclude=*", "--dirty=+"]
    commit = subprocess.run(git, check=False, capture_output=True, text=True).stdout.strip()
    for name in names[first::step]:
        found = known.get(name)
        if flags.list:
            print(name, cases[name].group, found["state"] if found else "-")
            continue
        if found and "all" not in again and found["state"] not in again:
            continue
        log = Path("/dev/stderr") if flags.verbose else logs / f"{family}.{name}.log"
        found = {"family": family, "model": name, "group": cases[name].group, "commit": commit}
        found |= judge_apart(lambda: judge.judge(family, name, cases[name]), flags, log)
        with lines.open("a") as file:
            file.write(json.dumps(found) + "\n")
        print(judge.one_line(found), flush=True)


def judge_apart(judge: Any, flags: argparse.Namespace, log: Path) -> dict[str, Any]:
    """In a process of its own: this one has imported everything, and computes nothing."""
    reading, writing = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        os.close(reading)
        if not flags.verbose:
            to = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(to, 1)
            os.dup2(to, 2)
        with os.fdopen(writing, "w") as pipe:
            json.dump(judge(), pipe)
        sys.stdout.flush()
        os._exit(0)
    os.close(writing)
    why = watch(child, flags.seconds, flags.gigabytes)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    return json.loads(text) if text and not why else {"state": "failed", "why": why or "the process died"}


def watch(child: int, seconds: float, gigabytes: float) -> str:
    """Waits for the child. Returns why it was ended or how it died, or nothing. Its seconds are those of a processor, for
    others may use the machine; ten times as many may pass."""
    end = time.monotonic() + 10 * seconds
    for pause in pauses():
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return f"died of {signal.Signals(os.WTERMSIG(status)).name}" if os.WIFSIGNALED(status) else ""
        why = ""
        if used(child) > seconds or time.monotonic() > end:
            why = f"took more than {seconds:.0f} s"
        elif resident(child) > gigabytes * 2**30:
            why = f"took more than {gigabytes:g} GiB"
        if why:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return why
        time.sleep(pause)
    return ""


def pauses() -> Iterator[float]:
    while True:
        yield 0.05


def used(process: int) -> float:
    """Seconds of a processor that a process has taken."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError):
        return 0


def resident(process: int) -> int:
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


if __name__ == "__main__":
    sys.exit(main())
