#!/usr/bin/env python3
"""npusim beside PyTorch on one NVIDIA GPU: the same random weights and inputs, in half precision or, when asked for, wider.

    compare.py prepare FOLDER [--npusim FILE]    anywhere: exports and compiles the models, a few MB to carry
    compare.py run FOLDER [--npusim FILE] [--seconds S] [--models A,B] [--autotune]    on the machine with the GPU

`run` makes the weights from seeds, checks every answer against PyTorch's float32 and only then measures: medians of CUDA
events for PyTorch, of the host's clock around a whole run for npusim; inputs and outputs are on the GPU for both. Decode
steps are measured as a graph of launches and as one launch. A row is printed as soon as it is there, the table last, and
the same as JSON into FOLDER/compare.json, with the slowest launches. Peers that the time limit does not leave room for are
left out. The table has what an H200 must take, the part of the time that the floor is, and of each peer how many times
npusim's time it takes and its distance from float32. Exit status 1: an answer is wrong, or npusim failed.
"""

import argparse
import copy
import json
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import torch  # noqa: E402
import torchvision  # noqa: E402
import transformers  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402

sys.path.insert(0, str(HERE))

import decode  # noqa: E402
import decode_capacity  # noqa: E402
import models  # noqa: E402
import texts  # noqa: E402
from whole import write_whole  # noqa: E402

models.MODELS |= {
    "resnet18-b1": lambda: (torchvision.models.resnet18(), models.images(1)),
    "resnet18-b64": lambda: (torchvision.models.resnet18(), models.images(64)),
    "resnet50-b64": lambda: (torchvision.models.resnet50(), models.images(64)),
    "convnext_tiny-b1": lambda: (torchvision.models.convnext_tiny(), models.images(1)),
}
NAMES = ["minilm_l6-s128", "bert_base-s128", "resnet50-b1", "resnet18-b1", "vit_b_16-b1", "resnet50-b64"]
NAMES += ["resnet18-b64"]
# Measured when they are asked for. What ends in -f32 stays float32, for PyTorch too: no tf32.
MORE = ["mobilenet_v2-b1", "convnext_tiny-b1", "vit_b_16-b1-f32", "resnet50-b1-f32", "resnet50-b64-f32"]
DECODE = "qwen2.5_1.5b-decode"
# Qwen2.5-1.5B: the graph of the zoo, and the position of a step. Rows that are measured when they are asked for, but
# for the first.
TEXTS = {
    DECODE: ("qwen2.5_1.5b_decode2048", 2047),
    "qwen2.5_1.5b-decode32768": ("qwen2.5_1.5b_decode32768", 128),
    "qwen2.5_1.5b-decode32768-full": ("qwen2.5_1.5b_decode32768", 32767),
    "qwen2.5_1.5b-decode256": ("qwen2.5_1.5b_decode2048", 128),
    "qwen2.5_1.5b-prefill128": ("qwen2.5_1.5b_prefill128", 0),
    "qwen2.5_1.5b-prefill2048": ("qwen2.5_1.5b_prefill2048", 0),
}
CAPACITIES = {"qwen2.5_1.5b-decode256": 256}  # positions of its states, in place of the graph's
# A decode step of other shapes, at the last position: measured when they are asked for.
SHAPED = {
    "llama3.2_1b-decode": "llama3.2_1b",
    "qwen3_0.6b-decode": "qwen3_0.6b",
    "gemma2_2b-decode": "gemma2_2b",
    "mistral_7b_8-decode": "mistral_7b_8",
}
TARGET = "cuda:sm_90a"
STREAM = "stream"  # where the programs are that are one launch
# On an H200, ms: what each must take at most, and its floor, what its bytes take at 4.62 TB/s or its operations at
# 790 TFLOP/s.
GOALS = {
    DECODE: (0.85, 0.68),
    "qwen2.5_1.5b-decode32768": (0.83, 0.67),
    "qwen2.5_1.5b-decode32768-full": (1.10, 0.87),
    "qwen2.5_1.5b-prefill128": (1.9, 0.77),
    "qwen2.5_1.5b-prefill2048": (10, 7.25),
    "resnet50-b1": (0.30, 0.026),
    "resnet50-b64": (1.8, 1.08),
    "resnet18-b1": (0.20, 0.009),
    "resnet18-b64": (0.9, 0.35),
    "bert_base-s128": (0.40, 0.040),
    "minilm_l6-s128": (0.13, 0.005),
    "vit_b_16-b1": (0.42, 0.044),
}
OWN = {"npusim": "error", "stream": "stream_error"}  # ways to run a program, and what their distance is called in a row
PEERS = ["eager", "reduce-overhead", "max-autotune"]
MOST_R = {torch.float32: 1e-8, torch.float16: 1e-3, torch.bfloat16: 2e-2}
MOST_ERROR = {torch.float32: 1e-4, torch.float16: 4e-2, torch.bfloat16: 0.2}


def narrow(tensors: tuple[torch.Tensor, ...], dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    return tuple(t.to(dtype) if t.is_floating_point() else t for t in tensors)


def own(npusim: str, *arguments: object) -> str:
    done = subprocess.run([npusim, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    return done.stdout


def text_graph(name: str) -> dict:
    """A prefill computes the logits of its last token only."""
    graph = json.loads((HERE.parent.parent / "examples/zoo" / TEXTS[name][0] / "ir.json").read_text())
    if name in CAPACITIES:
        graph = decode_capacity.with_capacity(graph, decode.CAPACITY, CAPACITIES[name])
    logits = graph["graph_outputs"][0]
    head = next(node for node in graph["nodes"] if node["name"] == logits["name"])
    rows = head["inputs"][0]
    tokens = rows["shape"][1]
    if tokens > 1:
        last = {"name": "last_token", "shape": [1, 1, rows["shape"][2]], "dtype": rows["dtype"]}
        bounds = {"dim": 1, "start": tokens - 1, "end": tokens}
        cut = {"name": "last_token", "op_type": "aten.slice.Tensor", "inputs": [rows], "outputs": [last]}
        graph["nodes"].insert(graph["nodes"].index(head), cut | {"attrs": bounds})
        head["inputs"][0] = last | {"producer_node": "last_token", "producer_output_idx": 0}
        logits["shape"][1] = head["outputs"][0]["shape"][1] = 1
    return graph


def prepare(folder: Path, npusim: str) -> None:
    (folder / STREAM).mkdir(parents=True, exist_ok=True)
    for name in NAMES + MORE:
        model, inputs = models.build(name.removesuffix("-f32"))
        dtype = dtype_of(name)
        with tempfile.TemporaryDirectory() as made:
            models.export_ir(name, model.to(dtype), narrow(inputs, dtype), Path(made))
            graph = json.loads((Path(made) / "ir.json").read_text())
            (folder / f"{name}.json").write_text(json.dumps([t["name"] for t in graph["graph_inputs"]]))
            compile_to(folder / f"{name}.npubin", npusim, Path(made), TARGET, str(dtype).removeprefix("torch."))
    for name in TEXTS:
        with tempfile.TemporaryDirectory() as made:
            (Path(made) / "ir.json").write_text(json.dumps(text_graph(name)))
            compile_to(folder / f"{name}.npubin", npusim, Path(made), f"{TARGET},graph")
            if "decode" in name:
                compile_to(folder / STREAM / f"{name}.npubin", npusim, Path(made), f"{TARGET},stream")
    for shape in SHAPED.values():
        texts.prepare(shape, folder, f"{TARGET},graph")
        texts.prepare(shape, folder / STREAM, f"{TARGET},stream")


def compile_to(program: Path, npusim: str, made: Path, target: str, dtype: str = "auto") -> None:
    print(own(npusim, "compile", made / "ir.json", "--target", target, "--dtype", dtype, "-o", program))


def distance(found: torch.Tensor, expected: torch.Tensor) -> tuple[float, float]:
    a, b = found.double().flatten().cpu(), expected.double().flatten().cpu()
    r = torch.corrcoef(torch.stack([a, b]))[0, 1].item()
    return 1 - r, ((a - b).norm() / b.norm()).item()


def measured(run: Callable[[], object], seconds: float = 1.0) -> float:
    """The median of single runs, in milliseconds."""
    for _ in range(5):
        run()
    torch.cuda.synchronize()
    times, end = [], time.monotonic() + seconds
    while len(times) < 20 or (time.monotonic() < end and len(times) < 2000):
        begin, done = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        run()
        done.record()
        done.synchronize()
        times.append(begin.elapsed_time(done))
    return statistics.median(times)


def probes() -> dict[str, float]:
    gigabytes = 4
    x = torch.randint(0, 127, (gigabytes << 30,), dtype=torch.int8, device="cuda")
    y = torch.empty_like(x)
    copy = measured(lambda: y.copy_(x), 0.2)
    del x, y
    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    product = measured(lambda: a @ b, 0.2)
    return {"copy_gb_s": 2 * gigabytes * 2**30 / copy / 1e6, "bf16_tflop_s": 2 * 8192**3 / product / 1e9}


class Rows:
    def __init__(self, file: Path) -> None:
        self.file, self.all, self.failed = file, [], False

    def show(self, row: dict) -> None:
        if row not in self.all:
            self.all.append(row)
        print(json.dumps(row), flush=True)
        write_whole(self.file, json.dumps(self.all, indent=1))


def dtype_of(name: str) -> torch.dtype:
    if name.endswith("-f32"):
        return torch.float32
    return torch.bfloat16 if name in TEXTS or name in SHAPED else torch.float16


def make(name: str, folder: Path, work: Path) -> tuple[torch.nn.Module, tuple, torch.Tensor]:
    """The model and its inputs on the GPU and the wide answer; weights and inputs as files for npusim."""
    weights, given = work / "model.safetensors", work / "inputs.safetensors"
    if name in TEXTS:
        graph, position = text_graph(name), TEXTS[name][1]
        decode.write_weights(graph, weights)
        decode.write_inputs(graph, given, position)
        model, inputs = decode.load(work, position)
        model, inputs = model.cuda(), tuple(t.cuda() for t in inputs)
        for layer in states_of(model):  # keys, values, and counters
            vars(layer).update({k: v.cuda() for k, v in vars(layer).items() if isinstance(v, torch.Tensor)})
            layer.device = torch.device("cuda")
        return model, inputs, widely(model, inputs)
    if name in SHAPED:
        model, inputs = make_shaped(SHAPED[name], folder, weights, given)
        return model, inputs, widely(model, inputs)
    model, inputs = models.build(name.removesuffix("-f32"))
    model, inputs = model.to(dtype_of(name)), narrow(inputs, dtype_of(name))
    state = dict(model.named_parameters(remove_duplicate=False)) | dict(model.named_buffers(remove_duplicate=False))
    save_file({k: v.detach().clone().contiguous() for k, v in state.items()}, weights)
    names = json.loads((folder / f"{name}.json").read_text())
    save_file({k: v.contiguous() for k, v in zip(names, inputs, strict=True)}, given)
    model, inputs = model.cuda(), tuple(t.cuda() for t in inputs)
    return model, inputs, widely(model, inputs)


def states_of(model: torch.nn.Module) -> list:
    """The layers of a step's cache; a prefill has none."""
    return model.cache.layers if isinstance(model, decode.Step) else []


def widely(model: torch.nn.Module, inputs: tuple) -> torch.Tensor:
    """The answer of the same weights and states in float32."""
    wide = copy.deepcopy(model).float()
    for layer in states_of(wide):
        layer.keys, layer.values = layer.keys.float(), layer.values.float()
    return wide(*narrow(inputs, torch.float32))


def make_shaped(shape: str, folder: Path, weights: Path, given: Path) -> tuple[torch.nn.Module, tuple]:
    """The step at the cache's last position, over random keys and values."""
    inner = texts.build(shape, "cuda")
    save_file(texts.weights(shape, folder, inner), weights)
    position, config = texts.CAPACITY - 1, inner.config
    cache = transformers.StaticCache(config, max_cache_len=texts.CAPACITY)
    mask, positions = texts.arguments(1, position, texts.CAPACITY)
    named = {"input_ids": torch.tensor([[1234]]), "attention_mask": mask, "position_ids": positions}
    torch.manual_seed(0)
    for i, layer in enumerate(cache.layers):
        state = (1, config.num_key_value_heads, texts.CAPACITY, config.head_dim)
        keys, values = (torch.randn(state).to(torch.bfloat16) for _ in range(2))
        named |= {f"kv_{2 * i}": keys, f"kv_{2 * i + 1}": values}
        layer.lazy_initialization(keys.cuda(), values.cuda())
        layer.keys.copy_(keys)
        layer.values.copy_(values)
    save_file(named, given)
    inputs = tuple(named[key].cuda() for key in ("input_ids", "attention_mask", "position_ids"))
    return decode.Step(inner, cache, position), inputs


def check(
    npusim: str, session: list, work: Path, expected: torch.Tensor, dtype: torch.dtype
) -> tuple[float, float, bool]:
    """Runs a program once: how far its answer is from the expected one, and whether that is near enough. What came out is in
    out.safetensors."""
    own(npusim, "run", *session, "-o", work / "out.safetensors")
    answer = next(t for t in load_file(work / "out.safetensors").values() if t.numel() == expected.numel())
    r, error = distance(answer, expected)
    return r, error, is_near(r, error, dtype)


def is_near(r: float, error: float, dtype: torch.dtype) -> bool:
    return r <= MOST_R[dtype] and error <= MOST_ERROR[dtype]


def each(names: str, told: Callable[[str, Path], str]) -> bool:
    """Prints what is told of each of the models, which is given a folder in memory. Whether something of it is WRONG."""
    if not torch.cuda.is_available():
        print("SKIP: no CUDA device")
        return False
    failed = False
    for name in names.split(","):
        with tempfile.TemporaryDirectory(dir="/dev/shm") as work:
            try:
                lines = told(name, Path(work))
            except (RuntimeError, StopIteration) as problem:
                lines = f"{name:26s} {str(problem)[-600:]} WRONG"
        failed |= "WRONG" in lines
        print(lines, flush=True)
        torch.cuda.empty_cache()
    return failed


def run_own(name: str, folder: Path, npusim: str, work: Path, expected: torch.Tensor, row: dict) -> bool:
    """Whether the answers are right: of the program and, where it was compiled as one launch too, of that."""
    program = f"{SHAPED.get(name, name)}.npubin"
    good = True
    for prefix, file in (("", folder / program), ("stream_", folder / STREAM / program)):
        if prefix and not file.exists():
            continue
        session = [file, "--weights", work / "model.safetensors", "--inputs", work / "inputs.safetensors"]
        if name in SHAPED:
            session += ["--method", "decode"]
        try:
            r, error, right = check(npusim, session, work, expected, dtype_of(name))
            good &= right
            row |= {f"{prefix}one_minus_r": r, f"{prefix}error": error, f"{prefix}answer": "ok" if right else "WRONG"}
            report = json.loads(own(npusim, "bench", *session, "--seconds", 1, "--json", "--on-device", "--steps", 12))
            row[f"{prefix or 'npusim_'}ms"] = report["median_ms"]
            row |= {"probe_read_gb_s": report["probe_read_gb_s"], "probe_gflop_s": report["probe_gflop_s"]}
            row[f"{prefix}slowest"] = [f"{s['min_ms']:.4f} {s['how']}" for s in report["slowest_steps"]]
        except (RuntimeError, StopIteration) as problem:
            row[f"{prefix}problem"] = str(problem)[-600:]
            good = False
    return good


@torch.inference_mode()
def run_all(names: list[str], folder: Path, npusim: str, rows: Rows, limit: float, modes: list[str]) -> None:
    """First everybody's plain runs; then, while there is time, what torch.compile makes of the models."""
    by_name = {name: {"model": name} for name in names}
    for mode in ["", *modes]:
        for name, row in by_name.items():
            if mode and (time.monotonic() > limit or "peer_problem" in row):
                continue
            with tempfile.TemporaryDirectory(dir="/dev/shm") as work:
                try:
                    model, inputs, expected = make(name, folder, Path(work))
                    if not mode:
                        rows.failed |= not run_own(name, folder, npusim, Path(work), expected, row)
                        row["eager_error"] = distance(model(*inputs), expected)[1]
                        row["eager_ms"] = measured(lambda: model(*inputs), 0.5)
                    else:
                        torch._dynamo.reset()
                        compiled = torch.compile(model, mode=mode)
                        row[f"{mode}_error"] = distance(compiled(*inputs), expected)[1]
                        row[f"{mode}_ms"] = measured(lambda: compiled(*inputs), 0.5)
                except Exception as problem:  # a peer's own failure
                    row["peer_problem"] = str(problem)[-300:]
                    rows.failed |= "answer" not in row
                model = inputs = expected = compiled = None
            rows.show(row)
            torch.cuda.empty_cache()


def table(rows: list[dict]) -> str:
    """A line for each model, of npusim's faster way."""
    peers = [title for peer in PEERS for title in (f"{peer} ms", "times", "error")]
    titles = ["model", "answer", "npusim ms", "must", "floor %", "error", *peers]
    lines = [titles, ["---"] * len(titles)]
    own_ms = {}
    for row in rows:
        ways = [(row[f"{way}_ms"], row.get(error)) for way, error in OWN.items() if f"{way}_ms" in row]
        ms, error = min(ways, default=(None, None))
        own_ms[row["model"]] = ms
        answers = {row[answer] for answer in ("answer", "stream_answer") if answer in row}
        must, floor = GOALS.get(row["model"], (None, None))
        cells = [row["model"], " and ".join(sorted(answers)) or "none", ms and f"{ms:.4g}", must]
        cells += [floor and ms and 100 * floor / ms, error]
        for peer in PEERS:
            theirs = row.get(f"{peer}_ms")
            cells += [theirs, theirs and ms and theirs / ms, row.get(f"{peer}_error")]
        lines.append(["" if c is None else f"{c:.3g}" if isinstance(c, float) else str(c) for c in cells])
    text = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    few, many = own_ms.get("qwen2.5_1.5b-decode256"), own_ms.get("qwen2.5_1.5b-decode32768")
    if few and many:
        text += f"\n\nposition 128 of 32768: {100 * (many / few - 1):.1f} % longer than of 256"
    return text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=["prepare", "run"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--npusim", default="build/ci/npusim")
    parser.add_argument("--seconds", type=float, default=270)
    parser.add_argument("--models", default=",".join([DECODE, *NAMES]))
    parser.add_argument("--autotune", action="store_true", help="torch.compile's max-autotune too, which takes minutes")
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    if given.verb == "prepare":
        prepare(given.folder, given.npusim)
        return 0
    limit = time.monotonic() + given.seconds
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    rows = Rows(given.folder / "compare.json")
    rows.show({"device": torch.cuda.get_device_name()} | probes())
    modes = ["reduce-overhead"] + ["max-autotune"] * given.autotune
    run_all(given.models.split(","), given.folder, given.npusim, rows, limit, modes)
    print("\n" + table(rows.all[1:]))
    return int(rows.failed)


if __name__ == "__main__":
    sys.exit(main())
