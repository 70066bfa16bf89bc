#!/usr/bin/env python3
"""Writes tests/ops/golden_memory.json: where eager PyTorch puts the results of the golden samples.

For each op and some of its samples, with operands that are row-major ("rows"), with every operand of two or more
dimensions stored with its dimensions reversed ("columns"), and, where one has four or five, with those' channels innermost
("channels"): the operands' strides, and per result [operand, offset, strides], where operand is the position of the tensor
whose memory it shares, or -1.
"""
import importlib
import json
import os
import pkgutil

import torch

import golden_families
import golden_samples
import make_goldens
from golden_samples.core import REG

HERE = os.path.dirname(os.path.abspath(__file__))


def reverse_memory(t):
    reverse = tuple(reversed(range(t.dim())))
    return t.permute(reverse).contiguous().permute(reverse)


def channels_innermost(t):
    last = {4: torch.channels_last, 5: torch.channels_last_3d}
    return t.contiguous(memory_format=last[t.dim()]) if t.dim() in last else t


STORED = {"rows": lambda t: t, "columns": reverse_memory, "channels": channels_innermost}


def place(fn, sample, op, mode):
    tensors, inputs, _, args = make_goldens.encode(fn, sample, op)
    if mode == "channels" and all(t.dim() not in (4, 5) for t in tensors.values()):
        return None
    tensors = {n: STORED[mode](t) for n, t in tensors.items()}
    real = [tensors[v] if k == "t" else [None if n is None else tensors[n] for n in v] if k == "l" else v
            for k, v in args]
    out = fn(*real, **sample.kwargs)
    outs = [out] if isinstance(out, torch.Tensor) else [t for t in out if isinstance(t, torch.Tensor)]
    if any(t.is_complex() for t in outs) or any(t.numel() == 0 for t in outs):
        return None
    pointers = [tensors[n].untyped_storage().data_ptr() for n in inputs]
    entries = []
    for t in outs:
        at = t.untyped_storage().data_ptr()
        entries.append([pointers.index(at) if at in pointers else -1, t.storage_offset(), list(t.stride())])
    return {"in": [list(tensors[n].stride()) for n in inputs], "out": entries}


def main():
    for module in sorted(m.name for m in pkgutil.iter_modules(golden_samples.__path__) if m.name != "core"):
        importlib.import_module("golden_samples." + module)
    result = {}
    for op, samples in sorted(REG.items()):
        fn = make_goldens.overload(op)
        written = {s["name"] for s in golden_families.read_samples(op)}
        if fn is None or fn._schema.is_mutable or not written:
            continue
        seen = {}
        for s in samples:
            if s.name not in written or len(seen) == (30 if "pad" in op else 6):
                continue
            try:
                entry = {mode: place(fn, s, op, mode) for mode in STORED}
            except RuntimeError:  # a view these strides do not allow
                entry = {"rows": place(fn, s, op, "rows")}
            entry = {mode: e for mode, e in entry.items() if e}
            if entry:
                seen[s.name] = entry
        if seen:
            result[op] = seen
    lines = [f"{json.dumps(op)}: {json.dumps(seen, separators=(',', ':'))}" for op, seen in result.items()]
    with open(os.path.join(HERE, "golden_memory.json"), "w") as fh:
        fh.write("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
