#!/usr/bin/env python3
"""Write tests/ops/golden/<family>.json and .safetensors: PyTorch truth for the C++ op tests.

  make_goldens.py                 everything, then the self check
  make_goldens.py unary conv      only the ops of those sample tables (modules of golden_samples)
  make_goldens.py aten.add.Tensor only those ops; the others of their families stay as they are
  make_goldens.py --where OP...   only says which family each op is in
The format is described in golden/README.md.
"""
import argparse
import hashlib
import importlib
import json
import os
import pkgutil
import sys
import time
import warnings

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import golden_families                                   # noqa: E402
import golden_samples                                    # noqa: E402
from golden_samples.core import FLOATS, REG, T           # noqa: E402


def overload(op):
    space, name, ov = op.split(".")
    try:
        return getattr(getattr(getattr(torch.ops, space), name), ov)
    except AttributeError:
        return None


def dtype_name(t):
    return str(t).removeprefix("torch.")


def is_list_of_tensors(arg):
    ty = str(arg.type)
    return ty.startswith("List[") and "Tensor" in ty or ty.startswith("Optional[List") and "Tensor" in ty


def json_value(v):
    """Section 5 of the IR format, for anything that is not a tensor."""
    if isinstance(v, (torch.dtype, torch.memory_format, torch.layout, torch.device)):
        return str(v)
    if isinstance(v, (list, tuple)):
        return [json_value(x) for x in v]
    return v


def encode(fn, sample, op):
    """-> (tensors by name, node inputs [name], attrs, resolved args). The encoder rule of section 5."""
    tensors, inputs, attrs, seen = {}, [], {}, {}
    sizes, masks, args = [], [], []
    schema = fn._schema.arguments

    def add(spec, name):
        if id(spec) not in seen:
            seed = int(hashlib.sha256(f"{op}|{sample.name}|{name}".encode()).hexdigest()[:8], 16)
            tensors[name] = spec.make(seed)
            seen[id(spec)] = name
        inputs.append(seen[id(spec)])
        return seen[id(spec)]

    for k, v in sample.kwargs.items():
        assert not isinstance(v, T), "tensors go positionally"
        attrs[k] = json_value(v)
    for arg, v in zip(schema, sample.args):
        if isinstance(v, T):
            args.append(("t", add(v, arg.name)))
        elif isinstance(v, (list, tuple)) and any(isinstance(x, T) for x in v):
            args.append(("l", [None if x is None else add(x, f"{arg.name}_{k}") for k, x in enumerate(v)]))
            sizes.append(sum(x is not None for x in v))
            if any(x is None for x in v):
                masks.append([x is None for x in v])
        else:
            args.append(("v", v))
            if v is None and "Tensor" in str(arg.type):
                continue
            attrs[arg.name] = json_value(v)
    if sizes:
        attrs["_tensor_list_sizes"] = sizes
    if masks:
        attrs["_tensor_list_none_masks"] = masks
    return tensors, inputs, attrs, args


def call(fn, args, kwargs, tensors, wide=False):
    """Run the op. wide: float inputs and dtype attributes become float64."""
    def tensor(name):
        t = tensors[name]
        return (t.double() if wide and t.dtype in FLOATS else t).clone()

    def value(v):
        return torch.float64 if wide and isinstance(v, torch.dtype) and v in FLOATS else v

    made = {n: tensor(n) for n in tensors}
    real = []
    for kind, v in args:
        real.append(made[v] if kind == "t" else [None if n is None else made[n] for n in v] if kind == "l"
                    else value(v))
    torch.set_default_dtype(torch.float64 if wide else torch.float32)
    try:
        return fn(*real, **{k: value(v) for k, v in kwargs.items()})
    finally:
        torch.set_default_dtype(torch.float32)


def flat(result, node):
    if isinstance(result, torch.Tensor):
        return [(node, result)]
    return [(f"{node}_{k}", t) for k, t in enumerate(result) if isinstance(t, torch.Tensor)]


def tensor_obj(name, t, producer=False):
    o = {"name": name, "shape": list(t.shape), "dtype": dtype_name(t.dtype)}
    if producer:
        o["producer_node"], o["producer_output_idx"] = name, 0
    return o


def far(out, ref):
    """Does the float64 answer disagree by more than rounding? Such samples are dropped."""
    tol = {torch.float32: 2e-4, torch.float16: 2e-2, torch.bfloat16: 8e-2, torch.float64: 1e-9}[out.dtype]
    a, r = out.double(), ref.to(out.dtype).double()
    same = (a == r) | (a.isnan() & r.isnan()) | ((a - r).abs() <= tol * (1 + r.abs()))
    return not bool(same.all())


def make_op(op, samples, report):
    """-> (line by sample, tensors by "op/sample/name"), or None and why in the report."""
    if golden_families.family_of(op) is None:
        report["no record in src/ops"].append(op)
        return None
    fn = overload(op)
    if fn is None:
        report["missing"].append(op)
        return None
    node = op.split(".")[1].strip("_") or op.split(".")[1]
    entries, store = [], {}
    for s in samples:
        try:
            tensors, inputs, attrs, args = encode(fn, s, op)
            result = call(fn, args, s.kwargs, tensors)
        except Exception as e:  # noqa: BLE001 -- ATen's refusal, of any kind
            report["refused" if not s.need else "failed"].append((op, s.name, str(e).splitlines()[0][:150]))
            continue
        name = node if node not in tensors else node + "_1"
        outs = flat(result, name)
        if any(t.is_complex() for _, t in outs):
            report["failed"].append((op, s.name, "complex output"))
            continue
        ir = {"graph_inputs": [tensor_obj(n, t) for n, t in tensors.items()],
              "graph_outputs": [tensor_obj(n, t) for n, t in outs], "weights": [],
              "nodes": [{"name": name, "op_type": op, "inputs": [tensor_obj(n, tensors[n], True) for n in inputs],
                         "outputs": [tensor_obj(n, t) for n, t in outs], "attrs": attrs}]}
        mine = {n: t for n, t in list(tensors.items()) + outs}
        if s.f64 and any(t.dtype in FLOATS for _, t in outs):
            try:
                wide = flat(call(fn, args, s.kwargs, tensors, wide=True), name)
            except Exception as e:  # noqa: BLE001
                report["no_f64"].append((op, s.name, str(e).splitlines()[0][:100]))
                wide = []
            for (n, t), (_, w) in zip(outs, wide):
                if t.dtype in FLOATS:
                    if w.dtype != torch.float64 or w.shape != t.shape:
                        report["no_f64"].append((op, s.name, f"f64 run gave {w.dtype}"))
                        continue
                    mine[n + ".f64"] = w
                    if far(t, w):
                        mine = None
                        report["far"].append((op, s.name))
                        break
        if mine is None:  # ATen's own kernels disagree: no truth to hold others to
            continue
        entries.append(json.dumps({"name": s.name, "ir": ir}, separators=(",", ":")))
        for n, t in mine.items():
            store[f"{op}/{s.name}/{n}"] = t.detach().clone(memory_format=torch.contiguous_format)
    if not entries:
        report["empty"].append(op)
        return None
    return entries, store


def rebuild(fn, node, tensors):
    """The reverse of encode, from the JSON alone."""
    attrs, left = dict(node["attrs"]), [t["name"] for t in node["inputs"]]
    sizes, masks = list(attrs.pop("_tensor_list_sizes", [])), list(attrs.pop("_tensor_list_none_masks", []))

    def value(v, ty):
        if isinstance(v, str) and ty in ("Optional[int]", "int", "Optional[Device]", "Device"):
            return getattr(torch, v.removeprefix("torch.")) if v.startswith("torch.") else torch.device(v)
        return v

    pos, kw = [], {}
    for arg in fn._schema.arguments:
        ty, name = str(arg.type), arg.name
        if name in attrs:
            v = value(attrs[name], ty)
        elif is_list_of_tensors(arg):
            if not sizes:
                continue
            k, v = sizes.pop(0), []
            mask = masks.pop(0) if masks and "Optional" in ty else [False] * k
            v = [None if m else tensors[left.pop(0)] for m in mask]
        elif "Tensor" in ty:
            optional = ty.startswith("Optional")
            if left and (not optional or left[0] == name or left[0] not in {a.name for a in fn._schema.arguments}):
                v = tensors[left.pop(0)]
            elif optional:
                v = None
            else:
                raise AssertionError(f"no input for {name}")
            if v is None and arg.kwarg_only:
                continue
        else:
            v = arg.default_value
            if arg.kwarg_only or not arg.has_default_value():
                continue
        if arg.kwarg_only:
            kw[name] = v
        else:
            pos.append(v)
    assert not left, left
    return fn(*pos, **kw)


def self_check(ops):
    """Read back, run ATen from the JSON, compare bit for bit (NaN equal NaN)."""
    done, bad = 0, []
    stored = {family: (golden_families.read_lines(family), golden_families.read_tensors(family))
              for family in {golden_families.family_of(op) for op in ops}}
    for op in ops:
        fn = overload(op)
        lines, st = stored[golden_families.family_of(op)]
        for s in map(json.loads, lines[op]):
            node = s["ir"]["nodes"][0]
            ins = {t["name"]: st[f"{op}/{s['name']}/{t['name']}"].clone() for t in s["ir"]["graph_inputs"]}
            for t in s["ir"]["graph_inputs"]:
                x = ins[t["name"]]
                assert list(x.shape) == t["shape"] and dtype_name(x.dtype) == t["dtype"]
            try:
                outs = flat(rebuild(fn, node, ins), node["name"])
                for (n, t), decl in zip(outs, s["ir"]["graph_outputs"], strict=True):
                    want = st[f"{op}/{s['name']}/{n}"]
                    ok = (n == decl["name"] and list(want.shape) == decl["shape"] == list(t.shape)
                          and dtype_name(want.dtype) == decl["dtype"] == dtype_name(t.dtype)
                          and bool(((want == t) | ((want != want) & (t != t))).all()))
                    if not ok:
                        bad.append((op, s["name"], "differs"))
            except Exception as e:  # noqa: BLE001
                bad.append((op, s["name"], repr(e)[:150]))
            done += 1
    return done, bad


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("what", nargs="*", help="sample tables or op names; none: all")
    ap.add_argument("--where", action="store_true", help="make nothing, say which family each is in")
    ap.add_argument("-v", "--verbose", action="store_true", help="also list what ATen refused")
    ap.add_argument("--no-check", action="store_true")
    a = ap.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    tables = {}
    for m in sorted(x.name for x in pkgutil.iter_modules(golden_samples.__path__) if x.name != "core"):
        before = {op: len(v) for op, v in REG.items()}
        importlib.import_module("golden_samples." + m)
        tables[m] = [op for op, v in REG.items() if len(v) != before.get(op, 0)]
    ops = sorted(REG)
    if a.what:
        ops = sorted({op for w in a.what for op in tables.get(w, [w])})
    if a.where:
        for op in ops:
            print(op, golden_families.family_of(op) or "has no record in src/ops")
        return 0
    report = {k: [] for k in ("missing", "failed", "refused", "no_f64", "far", "empty", "no record in src/ops")}
    t0 = time.time()
    made = {op: one for op in ops if (one := make_op(op, REG[op], report))}
    size = golden_families.update(made, only=bool(a.what))
    for key in ("failed", "empty", "no record in src/ops") + (("refused", "no_f64", "far") if a.verbose else ()):
        for row in report[key]:
            print(key + ":", *(row if isinstance(row, tuple) else (row,)), sep="  ")
    print(f"{len(made)} ops, {sum(len(lines) for lines, _ in made.values())} samples in {time.time() - t0:.0f}s; "
          f"refused by ATen {len(report['refused'])}, without f64 {len(report['no_f64'])}, "
          f"dropped as f64 disagrees {len(report['far'])}; folder {size / 1e6:.2f} MB")
    bad = []
    if not a.no_check:
        done, bad = self_check(sorted(made))
        print(f"self check: {done} samples, {len(bad)} bad")
        for row in bad[:40]:
            print("BAD:", *row, sep="  ")
    if report["missing"]:
        print("overloads this torch does not have:", " ".join(report["missing"]))
    return 1 if bad or report["failed"] or report["no record in src/ops"] else 0


if __name__ == "__main__":
    sys.exit(main())
