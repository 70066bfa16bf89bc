#!/usr/bin/env python3
"""Every operator alone, at three sizes, in npusim beside eager PyTorch, in one process: the same answers, and how fast.

    PYTHONPATH=build/release/python bench/ops/sweep.py [--only REGEX] [--sizes small,medium,large] [--threads 1,2]
        [--device cuda] [--jobs N] [--budget SECONDS] [--json FILE] [--markdown FILE]

Runs of the two take turns and the fastest of each counts; rows that look slow are measured again at the end. Operands and
results of both stay where they are: no array goes to or from a session. An operator that gives a view of its operand is timed
with a copy of it, since a program's outputs are its own. With --jobs, N processes share the operators: on the CPU each has
cores of its own, on a GPU they compile side by side and time one at a time. Exit status 1: an answer is not PyTorch's, or an
operator was not run."""

import argparse
import contextlib
import fcntl
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch is there: the two have threads of their own
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import npusim
import npusim.torch.forms.fourier  # whose operators PyTorch then knows
import torch
from calls import SIZES, SizedCall, Unfit, call_of
from record import machine, table, today
from whole import write_whole

MAX_RELATIVE_L2 = 1e-4
MAX_OTHER_INTEGERS = 1e-3  # which of nearly equal elements is the largest
SLOW = 1.1  # of eager's time: measured again
# Nothing to time: checks, and what only CUDA has.
EXCLUDED = re.compile(r"assert|sym_constrain|efficient_attention|grouped_mm|\.empty|new_empty|(mm|bmm)\.dtype$|\.to\.device$")
OVERHEAD_MS = 0.005  # of either side's Python; what is below is noise


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--only", type=re.compile, default=re.compile(""), metavar="REGEX", help="operators whose name has this")
    add("--sizes", type=lambda text: text.split(","), default=list(SIZES), help="of small, medium, large")
    add("--threads", type=lambda text: [int(n) for n in text.split(",")], default=[1, 2], help="default 1,2")
    add("--device", choices=("cpu", "cuda"), default="cpu")
    add("--jobs", type=int, default=1, metavar="N", help="processes (default 1)")
    add("--part", type=int, metavar="I", help="of the jobs, only this one")
    add("--turns", type=Path, metavar="FILE", help="a file that whoever times holds")
    add("--seconds", type=float, default=0.15, help="of each row (default 0.15)")
    add("--budget", type=float, default=float("inf"), help="seconds in all, after which no row is begun")
    add("--cpu-time", action="store_true", help="of the calling thread, on a busy machine; with --threads 1")
    add("--above", type=float, default=0.0, metavar="RATIO", help="rows of at least this much of eager's time")
    add("--of", type=Path, metavar="FILE", help="print this record; nothing is run")
    add("--json", type=Path, metavar="FILE", help="write the record")
    add("--markdown", type=Path, metavar="FILE", help="write what is printed")
    return parser.parse_args()


class Eager:
    """The call in PyTorch."""

    def __init__(self, call: SizedCall, device: str) -> None:
        def made(arg):
            if isinstance(arg, (list, tuple)):
                return [made(one) for one in arg]
            return arg.base.clone().to(device) if hasattr(arg, "base") else arg

        schema = call.op._schema.arguments
        self.rest = [made(v) for a, v in zip(schema, call.args) if not a.kwarg_only]
        self.named = {a.name: made(v) for a, v in zip(schema, call.args) if a.kwarg_only}
        if device != "cpu" and "device" in self.named:
            self.named["device"] = torch.device(device)
        self.op, self.device = call.op, device
        self.copies = False
        given = {t.untyped_storage().data_ptr() for t in self.tensors(self.rest)}
        self.copies = any(t.untyped_storage().data_ptr() in given for t in self.tensors(self.run()))

    @staticmethod
    def tensors(value) -> list[torch.Tensor]:
        if isinstance(value, torch.Tensor):
            return [value]
        return [t for one in value for t in Eager.tensors(one)] if isinstance(value, (list, tuple)) else []

    def run(self):
        result = self.op(*self.rest, **self.named)
        # As an output of a program is: row-major. A plain clone of a transposed view would keep its strides.
        if self.copies:
            return [t.clone(memory_format=torch.contiguous_format) for t in self.tensors(result)]
        return [t.contiguous() for t in self.tensors(result)]

    def ms(self, clock: Callable[[], float]) -> float:
        begin = clock()
        self.run()
        if self.device != "cpu":
            torch.cuda.synchronize()
        return (clock() - begin) * 1e3


class Compiled:
    """The call as a program."""

    def __init__(self, ir, given, device: str, threads: int) -> None:
        program = npusim.compile(ir, target=device, dtype="float32")
        self.session = npusim.Session(program, device=device, threads=threads)
        self.inputs = [t.contiguous().numpy() for t in given.values()]
        self.results = self.session.run(*self.inputs)  # which stay where it took them

    def ms(self, clock: Callable[[], float]) -> float:
        begin = clock()
        self.session.run_on_device()
        return (clock() - begin) * 1e3

    def how(self) -> str:
        steps = npusim.profile(self.session, *self.inputs, times=1).steps
        return "; ".join(f"{step.kernel} {step.ms:.3f} ({step.how})" for step in sorted(steps, key=lambda s: -s.ms)[:3])


def difference(found, wanted: torch.Tensor) -> tuple[float, bool]:
    """Relative L2 of floats, the share of other elements else; and whether that is near enough."""
    got, want = torch.from_numpy(found), wanted.cpu()
    if got.shape != want.shape:
        return float("inf"), False
    if not want.dtype.is_floating_point:
        other = (got != want).double().mean().item() if want.numel() else 0.0
        return other, other <= MAX_OTHER_INTEGERS
    near = max(MAX_RELATIVE_L2, torch.finfo(want.dtype).eps)
    got, want = got.double(), want.double()
    finite = want.isfinite()
    if not torch.equal(finite, got.isfinite()):
        return float("inf"), False
    got, want = got[finite], want[finite]
    error = ((got - want).norm() / want.norm().clamp_min(1e-30)).item() if want.numel() else 0.0
    return error, error <= near


def turns(row: dict, eager: Eager, own: Compiled, seconds: float, clock: Callable[[], float]) -> None:
    end = time.perf_counter() + seconds
    runs = 0
    while runs < 3 or time.perf_counter() < end:
        row["eager_ms"] = min(row.get("eager_ms", float("inf")), eager.ms(clock))
        row["npusim_ms"] = min(row.get("npusim_ms", float("inf")), own.ms(clock))
        runs += 1
    row["ratio"] = max(row["npusim_ms"], OVERHEAD_MS) / max(row["eager_ms"], OVERHEAD_MS)


@contextlib.contextmanager
def alone(turns_file: Path | None) -> Iterator[None]:
    """While no other process that was given this file times."""
    if turns_file is None:
        yield
        return
    with turns_file.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@torch.inference_mode()
def measure(name: str, row: dict, args: argparse.Namespace, seconds: float) -> None:
    size, threads, device = row["size"], row["threads"], args.device
    space, packet, overload = name.split(".")
    op = getattr(getattr(getattr(torch.ops, space), packet), overload)
    torch.set_num_threads(threads)
    call, results = call_of(op, SIZES.index(size))
    ir, given = call.ir(results)
    eager, own = Eager(call, device), Compiled(ir, given, device, threads)
    if torch.Tag.nondeterministic_seeded not in op.tags or "attention" in packet:
        near = [difference(found, want) for found, want in zip(own.results.values(), results)]
        row["error"], row["wrong"] = max(error for error, _ in near), not all(good for _, good in near)
    row["shape"] = " ".join("x".join(map(str, t.shape)) or "1" for t in given.values())
    with alone(args.turns):
        turns(row, eager, own, seconds, time.thread_time if args.cpu_time else time.perf_counter)
    if row["ratio"] > SLOW:
        row["how"] = own.how()


def line_of(row: dict) -> list[str]:
    note = "WRONG " if row.get("wrong") else ""
    times = [f"{row[key]:.4f}" for key in ("eager_ms", "npusim_ms")]
    error = f"{row['error']:.0e}" if "error" in row else ""
    ratio = f"{row['ratio']:.2f}"
    return [row["op"], row["size"], str(row["threads"]), *times, ratio, error, note + row["shape"], row.get("how", "")]


def markdown(record: dict, above: float) -> str:
    rows = sorted((row for row in record["rows"] if "ratio" in row), key=lambda row: -row["ratio"])
    slow, wrong = sum(row["ratio"] > SLOW for row in rows), sum(bool(row.get("wrong")) for row in rows)
    m = record["machine"]
    parts = [
        f"# Operators one by one, {record['date']}\n",
        f"{m['cpu']}, {m['cores']} cores; on {record['device']}; PyTorch {record['torch']}, npusim {record['npusim']}. Made by "
        f"`bench/ops/sweep.py`: the fastest run of each side, in ms. {len(rows)} rows: {slow} above {SLOW} of eager's "
        f"time, {wrong} wrong.{f' Those of {above} and more:' if above else ''}\n",
        table(["operator", "size", "threads", "eager", "npusim", "ratio", "error", "operands", "steps"], [line_of(row) for row in rows if row["ratio"] >= above]),
    ]  # fmt: skip
    others = {row["op"]: row["why"] for row in record["rows"] if "why" in row}
    if others:
        parts.append("Not run:\n")
        parts += [f"- {name}: {why}" for name, why in others.items()]
    return "\n".join(parts) + "\n"


def rows_of(args: argparse.Namespace) -> list[dict]:
    names = [op.name for op in npusim.ops() if op.name.startswith(("aten.", "npusim.")) and args.only.search(op.name)]
    names = [name for name in names if not EXCLUDED.search(name)][args.part or 0 :: args.jobs]
    rows, end = [], time.perf_counter() + args.budget
    for name in names:
        for size in args.sizes:
            for threads in args.threads:
                if time.perf_counter() > end:
                    break
                row = {"op": name.removeprefix("aten."), "size": size, "threads": threads}
                rows.append(row)
                try:
                    measure(name, row, args, args.seconds)
                    print(" ".join(line_of(row)), file=sys.stderr, flush=True)
                except (Unfit, npusim.Error, RuntimeError) as error:
                    row["why"] = (str(error).splitlines() or [type(error).__name__])[0]
    for row in [row for row in rows if row.get("ratio", 0) > SLOW]:  # a neighbour's work, or ours
        if time.perf_counter() < end:
            measure(row["op"] if row["op"].startswith("npusim.") else "aten." + row["op"], row, args, 2 * args.seconds)
    return rows


def rows_of_jobs(args: argparse.Namespace) -> list[dict]:
    """Of as many processes as there are jobs; the rows of one that dies are missing, and it is said."""
    cores = sorted(os.sched_getaffinity(0))
    each = max(args.threads)
    if args.device == "cpu" and args.jobs * each > len(cores):
        raise SystemExit(f"{args.jobs} jobs of {each} threads need {args.jobs * each} cores; found {len(cores)}")
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"{part}.json" for part in range(args.jobs)]
        children = []
        for part, file in enumerate(files):
            command = [sys.executable, __file__, *sys.argv[1:], "--part", str(part), "--json", str(file), "--markdown", os.devnull]
            if args.device == "cpu":
                own = ",".join(map(str, cores[part * each : (part + 1) * each]))
                command = ["taskset", "-c", own, *command]
            else:
                command += ["--turns", str(Path(folder) / "turns")]
            children.append(subprocess.Popen(command, stdout=subprocess.DEVNULL))
        for part, child in enumerate(children):
            if child.wait() not in (0, 1):
                print(f"part {part} of the operators died: exit status {child.returncode}", file=sys.stderr)
        return [row for file in files if file.exists() for row in json.loads(file.read_text())["rows"]]


def main() -> int:
    args = arguments()
    if args.of:
        print(markdown(json.loads(args.of.read_text()), args.above))
        return 0
    whole = args.jobs == 1 or args.part is not None
    rows = rows_of(args) if whole else rows_of_jobs(args)
    record = {"date": today(), "machine": machine(), "device": args.device, "torch": torch.__version__}
    record |= {"npusim": npusim.__version__, "rows": rows}
    text = markdown(record, args.above)
    print(text)
    for file, content in ((args.markdown, text), (args.json, json.dumps(record, indent=1) + "\n")):
        if file:
            write_whole(file, content)
    return int(any(row.get("wrong") or "why" in row for row in rows))


if __name__ == "__main__":
    sys.exit(main())
