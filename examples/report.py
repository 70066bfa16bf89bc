#!/usr/bin/env python3
"""What ./demo prints of the reports that npusim writes. Exits with 1 when an answer is not PyTorch's.

    report.py compiled REPORT.json
    report.py top5 OUTPUT.safetensors GOLDEN.safetensors RUN.json
    report.py text GOLDEN_GREEDY.json N GENERATED.json
"""
import json
import struct
import sys


def read_json(path):
    with open(path) as file:
        return json.load(file)


def compiled(path):
    """One line per method, and one on the whole: nodes -> kernels, fusions, memory, time."""
    report = read_json(path)
    for name, m in report["methods"].items():
        fusions = ", ".join(f"{count} {fusion}" for fusion, count in m["fusions"].items() if count)
        print(f"  {name}: {m['nodes']} nodes -> {m['kernels']} kernels, {m['steps']} steps; fused {fusions or 'nothing'}; "
              f"weights {m['weights_bytes'] / 1e6:.1f} MB, arena {m['arena_bytes'] / 1e6:.2f} MB")
    print(f"  compiled for {report['target']} in {report['dtype']}: {report['seconds']['total']:.2f} s")
    return True


def read_tensor(path, name=None):
    """The values of the tensor called `name`, or of the first, of a .safetensors file, flat."""
    with open(path, "rb") as file:
        data = file.read()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + size])
    entry = header[name or next(key for key in header if key != "__metadata__")]
    begin, end = (8 + size + offset for offset in entry["data_offsets"])
    letter, width = {"F32": ("f", 4), "F16": ("e", 2)}[entry["dtype"]]
    return struct.unpack(f"<{(end - begin) // width}{letter}", data[begin:end])


def top5(output, golden, run):
    rows = (("npusim ", read_tensor(output)), ("PyTorch", read_tensor(golden, "out0")))
    tops = []
    for name, logits in rows:
        tops.append(sorted(range(len(logits)), key=lambda c: (-logits[c], c))[:5])
        print(f"  {name}", "".join(f"  class {c:3d} ({logits[c]:.3f})" for c in tops[-1]))
    print(f"  {read_json(run)['min_ms']:.1f} ms per image")
    return tops[0] == tops[1]


def text(golden, nth, generated):
    """The prompt and its continuation. Equal to PyTorch's until two tokens are as likely as rounding can tell."""
    example, report = read_json(golden)[int(nth)], read_json(generated)
    sure = next((i for i, margin in enumerate(example["fp32_margin"]) if margin <= 0.1), len(example["fp32"]))
    print("  > " + (example["prompt"] + report["text"]).rstrip().replace("\n", "\n    "))
    tokens = report["tokens"]
    sure = min(sure, len(tokens))
    print(f"  {len(tokens)} tokens, {report['decode_ms_per_token']:.2f} ms each; the first {sure} must be PyTorch's")
    return tokens[:sure] == example["fp32"][:sure]


if __name__ == "__main__":
    reports = {"compiled": compiled, "top5": top5, "text": text}
    if len(sys.argv) < 3 or sys.argv[1] not in reports:
        sys.exit(__doc__)
    if not reports[sys.argv[1]](*sys.argv[2:]):
        print("  FAILED: not PyTorch's answer")
        sys.exit(1)
