#!/usr/bin/env python3
"""Times npusim on this CPU beside PyTorch eager, torch.compile, ONNX Runtime and OpenVINO; bench/README.md says how.

Everybody has the same cores and the same weights and inputs; rounds are interleaved and the fastest run counts. Exit
status 1 when an answer is not PyTorch's or a peer fails.
"""
import argparse
import json
import os
import sys
from pathlib import Path

import environment
import record as records
from environment import Problem, say
from record import DECODE, MODELS, PEERS, STEP
from whole import write_whole

ROOT = Path(__file__).resolve().parent.parent


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)

    def names(known: tuple[str, ...]):
        def parse(text: str) -> list[str]:
            chosen = text.split(",") if text else []
            if unknown := [name for name in chosen if name not in known]:
                raise argparse.ArgumentTypeError(f"no {', '.join(unknown)}; there are {', '.join(known)}")
            return chosen

        return parse

    add = parser.add_argument
    work = (*MODELS, DECODE, STEP)
    add("--models", type=names(work), default=list(work), metavar="A,B", help=f"of {', '.join(work)}")
    add("--peers", type=names(PEERS), default=list(PEERS), metavar="A,B", help=f"of {', '.join(PEERS)}")
    add("--rounds", type=int, default=5, help="how often each is measured (default 5)")
    add("--seconds", type=float, default=1.0, help="of one round (default 1)")
    add("--quick", action="store_true", help="two rounds of 0.3 s")
    add("--threads", type=int, default=min(2, os.cpu_count() or 1), help="of each contender (default 2)")
    add("--isa", choices=("", "avx2"), default="", help="of all that have a switch for it; default: all the machine has")
    add("--npusim", type=Path, default=ROOT / "build/release/npusim", help="default build/release/npusim")
    add("--cache", type=Path, default=ROOT / "build/bench-cache", help="models, default build/bench-cache")
    add("--venv", type=Path, help="an environment that has the packages; default: build/bench-venv, made when missing")
    add("--json", type=Path, metavar="FILE", help="write the record")
    add("--markdown", type=Path, metavar="FILE", help="write what is printed")
    args = parser.parse_args()
    if args.quick:
        args.rounds, args.seconds = 2, 0.3
    return args


def check_binary(binary: Path) -> None:
    if not os.access(binary, os.X_OK):
        raise Problem(f"there is no {binary}; build it: cmake --preset release && cmake --build --preset release")


def use_cores(count: int) -> None:
    """Keeps this process and its children on as many processors, of different cores where there are enough."""
    allowed = sorted(os.sched_getaffinity(0))
    if count > len(allowed):
        raise Problem(f"--threads {count}: this process may use {len(allowed)} processors")

    def siblings(cpu: int) -> str:
        file = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        return file.read_text() if file.exists() else str(cpu)

    first = {siblings(cpu): cpu for cpu in reversed(allowed)}
    ordered = sorted(allowed, key=lambda cpu: (cpu not in first.values(), cpu))
    os.sched_setaffinity(0, ordered[:count])


def main() -> int:
    args = arguments()
    check_binary(args.npusim)
    environment.enter(args.venv or ROOT / "build/bench-venv", make=args.venv is None)
    use_cores(args.threads)

    import comparison  # which needs the environment

    record = comparison.compare(args)
    text = records.markdown(record)
    print(text)
    for file, content in ((args.markdown, text), (args.json, json.dumps(record.as_json(), indent=1) + "\n")):
        if file:
            write_whole(file, content)
    if not record.sound:
        say("error: an answer is wrong or a peer failed, see the table")
    return 0 if record.sound else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Problem as problem:
        sys.exit(f"error: {problem}")
