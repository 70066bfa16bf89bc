"""The measuring itself: prepares a model, starts the contenders, checks their answers, and times them in rounds."""
import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import numpy as np
from safetensors.torch import load_file

import record as records
from contenders import HERE, Contender, Npusim, Peer, own_name
from environment import Problem, say
from record import BF16, BF16_MODEL, BF16_PEERS, DECODE, HALF, OWN, STEP, Entry, Record, Row

T = TypeVar("T")
# Of 1 - r, which sees neither a scale nor a shift, and of relative L2; in float32, half precision and bfloat16.
MAX_ONE_MINUS_R = {OWN: 1e-5, HALF: 1e-3, BF16: 2e-2}
MAX_RELATIVE_L2 = {OWN: 1e-4, HALF: 4e-2, BF16: 2e-1}
STEPS = 10_000
DECODE_MEMORY_GB = {"eager": 7, "compile": 16}


def prepare(model: str, folder: Path) -> None:
    """In a process of its own, whose memory and threads then are gone."""
    if subprocess.run([sys.executable, str(HERE / "models.py"), model, str(folder)], stdout=sys.stderr).returncode:
        raise Problem(f"{model} could not be exported, see above")


def difference(answer: np.ndarray, golden: np.ndarray) -> tuple[float, float, float]:
    """1 - Pearson's r, the norm of the error by that of the golden, and the largest error."""
    if answer.size != golden.size:
        raise Problem(f"an answer has {answer.size} elements, PyTorch's {golden.size}")
    r = np.corrcoef(answer, golden)[0, 1]
    error = np.abs(answer - golden)
    distance = np.linalg.norm(error) / np.linalg.norm(golden)
    return float(np.nan_to_num(1 - r, nan=1)), *(float(np.nan_to_num(x, nan=np.inf)) for x in (distance, error.max()))


def answer(contender: Contender, folder: Path) -> np.ndarray:
    """The model's first output; a peer calls it out0, npusim as the graph does."""
    file = folder / "answer.safetensors"
    contender.save(file)
    tensors = load_file(file)
    file.unlink()
    name = json.loads((folder / "ir.json").read_text())["graph_outputs"][0]["name"]
    return tensors["out0" if "out0" in tensors else name].double().numpy().ravel()


def attempt(row: Row, name: str, action: Callable[[], T]) -> T | None:
    """A contender that fails is out of this row, and the row says why."""
    entry = row.entries.setdefault(name, Entry())
    if entry.failure:
        return None
    try:
        return action()
    except Problem as problem:
        say(f"  {name} failed: {problem}")
        entry.failure = str(problem)
        return None


def start(
    args: argparse.Namespace, peers: list[str], dtypes: list[str], row: Row, peers_dtype: str = "float32"
) -> Iterator[Contender]:
    folder = args.cache / row.work
    for name in peers:
        say(f"  starting {name}")
        if peer := attempt(row, name, lambda: Peer(name, row.work, folder, args.threads, peers_dtype, args.isa)):
            row.entries[name].setting = peer.setting
            yield peer
    for dtype in dtypes:
        name = own_name(dtype)
        if own := attempt(row, name, lambda: Npusim(args.npusim, dtype, folder, args.threads, args.isa)):
            row.entries[name].setting = own.setting
            yield own


def check(contenders: list[Contender], row: Row, folder: Path, golden: np.ndarray, exact: str) -> None:
    """`exact`: whose tolerance is that of all but half precision."""
    for contender in contenders:
        found = attempt(row, contender.name, lambda: difference(answer(contender, folder), golden))
        if found is None:
            continue
        entry = row.entries[contender.name]
        entry.one_minus_r, entry.relative_l2, entry.max_error = found
        precision = HALF if contender.name == HALF else exact
        near = entry.one_minus_r <= MAX_ONE_MINUS_R[precision] and entry.relative_l2 <= MAX_RELATIVE_L2[precision]
        entry.wrong = not near
        if entry.wrong:
            say(f"  {contender.name}: WRONG, 1 - r = {entry.one_minus_r:.1e}, relative L2 {entry.relative_l2:.1e}, "
                f"largest error {entry.max_error:.1e}")  # fmt: skip


def run_rounds(args: argparse.Namespace, contenders: list[Contender], row: Row, record: Record) -> None:
    """Every round begins with another contender."""
    for i in range(args.rounds):
        first = i % len(contenders)
        times = []
        for contender in contenders[first:] + contenders[:first]:
            ms = attempt(row, contender.name, lambda: contender.measure(args.seconds))
            if ms is None:
                continue
            row.entries[contender.name].rounds_ms.append(ms)
            times.append(f"{contender.name} {ms:.2f}")
            if isinstance(contender, Npusim):
                note(contender.report, row, record)
        say(f"  round {i + 1}: {', '.join(times)}")


def note(report: dict, row: Row, record: Record) -> None:
    if row in record.rows:  # the others' programs are in bfloat16, and so may be the probe of multiply-adds
        record.probes.append({"gflop_s": report["probe_gflop_s"], "read_gb_s": report["probe_read_gb_s"]})
    row.probe_read_gb_s = max(row.probe_read_gb_s, report["probe_read_gb_s"])
    row.probe_gflop_s = max(row.probe_gflop_s, report["probe_gflop_s"])
    row.read_bytes = report["read_gb_s"] * report["median_ms"] * 1e6
    row.flops = report["flops"]


@contextmanager
def closing(contenders: list[Contender]) -> Iterator[list[Contender]]:
    try:
        yield contenders
    finally:
        for contender in contenders:
            contender.close()


def compare_model(args: argparse.Namespace, model: str, record: Record) -> None:
    folder = args.cache / model
    prepare(model, folder)
    say(model)
    row = Row(model)
    record.rows.append(row)
    with closing([]) as contenders:
        contenders += start(args, args.peers, ["float32", "auto"], row)
        golden = load_file(folder / "golden.safetensors")["out0"].double().numpy().ravel()
        check(contenders, row, folder, golden, OWN)
        run_rounds(args, contenders, row, record)


def compare_bfloat16(args: argparse.Namespace, record: Record) -> None:
    """What machines with AMX are for: everybody's bfloat16."""
    folder = args.cache / BF16_MODEL
    prepare(BF16_MODEL, folder)
    say(f"{BF16_MODEL}, bfloat16")
    row = record.bfloat16 = Row(BF16_MODEL)
    with closing([]) as contenders:
        contenders += start(args, [p for p in args.peers if p in BF16_PEERS], ["bfloat16"], row, "bfloat16")
        golden = load_file(folder / "golden.safetensors")["out0"].double().numpy().ravel()
        check(contenders, row, folder, golden, BF16)
        run_rounds(args, contenders, row, record)


def available_gb() -> float:
    lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    return int(lines["MemAvailable"].split()[0]) / 1e6


def compare_decode(args: argparse.Namespace, record: Record) -> None:
    """Its weights are bfloat16 for all. Only PyTorch's peers have a program for it."""
    folder = args.cache / DECODE
    prepare(DECODE, folder)
    say(DECODE)
    row = record.decode = Row(DECODE)
    with closing([]) as contenders:
        for name in [name for name in args.peers if name in DECODE_MEMORY_GB]:
            if (available := available_gb()) >= DECODE_MEMORY_GB[name]:
                contenders += start(args, [name], [], row)
            else:
                say(f"  no {name}: it needs {DECODE_MEMORY_GB[name]} GB of memory, {available:.0f} are available")
        contenders += start(args, [], ["auto"], row)
        if contenders and contenders[0].name == "eager":
            golden = attempt(row, "eager", lambda: answer(contenders[0], folder))
            if golden is not None:
                check(contenders, row, folder, golden, HALF)
        run_rounds(args, contenders, row, record)


def write_chain(file: Path) -> None:
    """IR of a chain of one-element negations."""

    def tensor(name: str) -> dict:
        return {"name": name, "shape": [1], "dtype": "float32"}

    names = ["x", *(f"neg_{i}" for i in range(STEPS))]
    nodes = [
        {"name": name, "op_type": "aten.neg.default", "inputs": [tensor(before)], "outputs": [tensor(name)]}
        for before, name in zip(names, names[1:])
    ]
    graph = {"graph_inputs": [tensor("x")], "graph_outputs": [tensor(names[-1])], "weights": [], "nodes": nodes}
    file.write_text(json.dumps(graph))


def compare_step(args: argparse.Namespace, record: Record) -> None:
    """What a step costs that has next to nothing to do."""
    say(STEP)
    folder = args.cache / STEP
    folder.mkdir(parents=True, exist_ok=True)
    write_chain(folder / "ir.json")
    chain = Npusim(args.npusim, "float32", folder, args.threads, args.isa, flags=("--disable-fusion", "all"))
    steps = chain.compiled["methods"]["main"]["steps"]
    if steps != STEPS:
        raise Problem(f"{STEP}: {STEPS} operators became {steps} steps, although --disable-fusion all was given")
    record.step_ns = min(chain.measure(args.seconds) for _ in range(args.rounds)) / steps * 1e6
    chain.close()


def compare(args: argparse.Namespace) -> Record:
    settings = {"threads": args.threads, "rounds": args.rounds, "seconds": args.seconds}
    if args.isa:
        settings["instructions limited to"] = f"{args.isa}, but not ONNX Runtime's and OpenVINO's matrix products"
    record = Record(records.today(), records.machine(), records.versions(args.npusim, HERE), settings)
    for model in args.models:
        if model == DECODE:
            compare_decode(args, record)
        elif model == STEP:
            compare_step(args, record)
        else:
            compare_model(args, model, record)
    if BF16_MODEL in args.models:
        if "amx_bf16" in record.machine["flags"] and not args.isa:
            compare_bfloat16(args, record)
        else:
            say(f"no {BF16_MODEL} in bfloat16: AMX is not in use")
    return record
