"""What compare.py found, as data, as Markdown, and as JSON."""
import datetime
import importlib.metadata
import os
import platform
import re
import subprocess
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

TITLES = {
    "eager": "PyTorch eager",
    "compile": "torch.compile",
    "onnxruntime": "ONNX Runtime",
    "openvino": "OpenVINO",
    "npusim float32": "npusim float32",
    "npusim auto": "npusim auto",
    "npusim bfloat16": "npusim bfloat16",
}
DEPTHWISE = ("mobilenet_v2-b1", "mobilenet_v3-b1", "efficientnet_b0-b1", "mnasnet-b1", "shufflenet_v2-b1")
MODELS = ("resnet50-b1", "resnet50-b8", *DEPTHWISE, "vit_b_16-b1", "bert_base-s128", "minilm_l6-s128")
DECODE, STEP = "qwen2.5_1.5b-decode2048", "step"
PEERS = ("eager", "compile", "onnxruntime", "openvino")
OWN, HALF, BF16 = "npusim float32", "npusim auto", "npusim bfloat16"
BF16_MODEL, BF16_PEERS = "resnet50-b8", ("eager", "compile", "openvino")
MUST_HALF = 1.15  # times our float32
MUST_SHARE = 0.80  # of the read probe
MUST_STEP_NS = 300
MUST_AMX = 0.30  # of the AMX probe
QUIET = 0.8  # of the fastest probe
FLAGS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_bf16", "amx_int8")
PACKAGES = ("torch", "torchvision", "transformers", "pytorch-ir", "onnx", "onnxruntime", "openvino")


@dataclass
class Entry:
    """One contender at one model."""

    setting: str = ""
    rounds_ms: list[float] = field(default_factory=list)
    one_minus_r: float | None = None  # Pearson's r against PyTorch eager
    relative_l2: float | None = None  # the norm of the error by that of PyTorch eager's answer
    max_error: float | None = None
    wrong: bool = False
    failure: str = ""

    @property
    def best_ms(self) -> float | None:
        return min(self.rounds_ms, default=None)


@dataclass
class Row:
    work: str
    entries: dict[str, Entry] = field(default_factory=dict)
    read_bytes: float = 0  # of one run of npusim
    flops: float = 0
    probe_read_gb_s: float = 0  # the best of npusim's rounds
    probe_gflop_s: float = 0

    def best(self, name: str) -> float | None:
        return self.entries[name].best_ms if name in self.entries else None

    @property
    def sound(self) -> bool:
        return not any(entry.wrong or entry.failure for entry in self.entries.values())

    @property
    def lead(self) -> float | None:
        """How many times faster than the fastest peer our float32 is."""
        peers = [ms for ms in map(self.best, PEERS) if ms]
        own = self.best(OWN)
        return min(peers) / own if peers and own else None

    @property
    def half(self) -> float | None:
        own, half = self.best(OWN), self.best(HALF)
        return half / own if own and half else None


@dataclass
class Record:
    date: str
    machine: dict[str, object]
    versions: dict[str, str]
    settings: dict[str, object]
    rows: list[Row] = field(default_factory=list)
    decode: Row | None = None
    bfloat16: Row | None = None  # where there is AMX
    step_ns: float | None = None
    probes: list[dict[str, float]] = field(default_factory=list)  # in the order of the rounds

    @property
    def sound(self) -> bool:
        return all(row.sound for row in self.all_rows)

    @property
    def all_rows(self) -> list[Row]:
        return [*self.rows, *(row for row in (self.decode, self.bfloat16) if row)]

    def as_json(self) -> dict:
        return asdict(self)


def machine() -> dict[str, object]:
    info = Path("/proc/cpuinfo").read_text()
    flags = set(next(iter(re.findall(r"^flags\s*: (.*)$", info, re.M)), "").split())
    model = next(iter(re.findall(r"^model name\s*: (.*)$", info, re.M)), platform.machine())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "memory_gb": round(memory, 1),
        "flags": [flag for flag in FLAGS if flag in flags],
        "system": platform.freedesktop_os_release().get("PRETTY_NAME", platform.platform()),
    }


def versions(npusim: Path, repository: Path) -> dict[str, str]:
    own = subprocess.run([npusim, "--version"], capture_output=True, text=True).stdout.strip()
    commit = subprocess.run(
        ["git", "-C", repository, "describe", "--always", "--dirty"], capture_output=True, text=True
    ).stdout.strip()
    found = {}
    for package in PACKAGES:
        with suppress(importlib.metadata.PackageNotFoundError):  # of a peer that is left out
            found[package] = importlib.metadata.version(package)
    return {"npusim": f"{own} {commit}".strip(), "python": platform.python_version()} | found


def today() -> str:
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")


def table(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def number(value: float | None, digits: int = 2) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def verdict(value: float | None, met: bool) -> str:
    return "" if value is None else "met" if met else "MISSED"


def cell(row: Row, name: str) -> str:
    entry = row.entries.get(name)
    if entry is None:
        return ""
    text = "failed" if entry.failure else number(entry.best_ms)
    return f"{text} WRONG" if entry.wrong else text


def models_table(record: Record) -> str:
    names = [name for name in TITLES if any(name in row.entries for row in record.rows)]
    lines = [
        [row.work, *(cell(row, name) for name in names)]
        + [number(row.lead, 3), verdict(row.lead, row.sound and (row.lead or 0) >= 1)]
        + [number(row.half, 3), verdict(row.half, row.sound and (row.half or 9) <= MUST_HALF)]
        for row in record.rows
    ]
    header = ["ms", *(TITLES[name] for name in names)]
    return table(header + ["best peer / float32", "must 1", "auto / float32", f"must {MUST_HALF}"], lines)


def decode_lines(row: Row) -> list[list[str]]:
    """How much of the read probe each reaches: a run reads all weights and the cache once."""
    lines = []
    for name, entry in row.entries.items():
        share = row.read_bytes / entry.best_ms / 1e6 / row.probe_read_gb_s if entry.best_ms else None
        must = f"{100 * MUST_SHARE:.0f} % {verdict(share, (share or 0) >= MUST_SHARE)}" if name == HALF else ""
        of_probe = f"{100 * share:.0f} % of the {row.probe_read_gb_s:.1f} GB/s read probe" if share else ""
        lines.append([f"{row.work}, {TITLES[name]}, bfloat16", f"{cell(row, name)} ms", of_probe, must])
    return lines


def bfloat16_lines(row: Row) -> list[list[str]]:
    """How much of what AMX multiplies each reaches."""
    lines = []
    for name, entry in row.entries.items():
        share = row.flops / entry.best_ms / 1e6 / row.probe_gflop_s if entry.best_ms and row.probe_gflop_s else None
        must = f"{100 * MUST_AMX:.0f} % {verdict(share, (share or 0) >= MUST_AMX)}" if name == BF16 else ""
        of_probe = f"{100 * share:.0f} % of the {row.probe_gflop_s:.0f} GFLOP/s AMX probe" if share else ""
        lines.append([f"{row.work}, {TITLES[name]}, bfloat16", f"{cell(row, name)} ms", of_probe, must])
    return lines


def others_table(record: Record) -> str:
    lines = decode_lines(record.decode) if record.decode else []
    lines += bfloat16_lines(record.bfloat16) if record.bfloat16 else []
    if record.step_ns is not None:
        met = verdict(record.step_ns, record.step_ns <= MUST_STEP_NS)
        lines.append(["executor, a step of 10,000", f"{record.step_ns:.0f} ns", "", f"{MUST_STEP_NS} ns {met}"])
    return table(["work", "best", "", "must"], lines) if lines else ""


def answers_table(record: Record) -> str:
    lines = []
    for row in record.all_rows:
        for name, entry in row.entries.items():
            line = [row.work, TITLES[name], entry.setting]
            if entry.failure:
                lines.append([*line, f"failed: {entry.failure}", "", ""])
            elif entry.one_minus_r is not None:
                measures = (entry.one_minus_r, entry.relative_l2, entry.max_error)
                lines.append([*line, *(f"{measure:.1e}" for measure in measures)])
    return table(["work", "", "setting", "1 - r", "relative L2", "largest error"], lines)


def probes_line(record: Record) -> str:
    """What the machine could do meanwhile, and whether others had a part of it."""
    if not record.probes:
        return ""

    def span(name: str, unit: str) -> str:
        values = [probe[name] for probe in record.probes]
        return f"{values[0]:.1f} before, {values[-1]:.1f} after, {min(values):.1f} to {max(values):.1f} {unit}"

    speeds = [probe["gflop_s"] for probe in record.probes]
    text = f"Probes: multiply-adds {span('gflop_s', 'GFLOP/s')}; reading {span('read_gb_s', 'GB/s')}.\n"
    if min(speeds) < QUIET * max(speeds):
        text += "The machine was busy with something else for a part of the time: repeat this when it is quiet.\n"
    return text


def markdown(record: Record) -> str:
    m = record.machine
    parts = [
        f"# CPU comparison, {record.date}\n",
        f"{m['cpu']}, {m['cores']} cores ({', '.join(m['flags'])}), {m['memory_gb']} GB, {m['system']}. "
        + ", ".join(f"{key} {value}" for key, value in record.settings.items()) + ".\n",
        probes_line(record),
        models_table(record) if record.rows else "",
        others_table(record),
        "Answers against PyTorch eager:\n",
        answers_table(record),
        ", ".join(f"{name} {version}" for name, version in record.versions.items()) + "\n",
    ]  # fmt: skip
    return "\n".join(part for part in parts if part)
