#!/usr/bin/env python3
"""Writes programs.json: random programs of views, writes in place and addresses, with what eager PyTorch gives.

Each program is graph text (graph/text.h), its inputs' values and its outputs'; all are small whole numbers, so that
float32 is exact. A write whose meaning eager PyTorch leaves open (operands that overlap what is written, elements that
are one in memory) is not made.
"""
import json
import random
import sys
from pathlib import Path

import torch

aten = torch.ops.aten


def overlaps(t):
    """Whether two elements are at one address."""
    at = torch.zeros(1, dtype=torch.int64)
    for n, s in zip(t.shape, t.stride()):
        at = (at[:, None] + torch.arange(n)[None, :] * s).reshape(-1)
    return at.unique().numel() != at.numel()


def same_memory(a, b):
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


class Program:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.lines, self.values, self.count = [], {}, 0
        self.inputs = {}
        for name in ("x", "y")[: self.random.choice((1, 2))]:
            shape = self.random.choice(((4, 6), (6, 4), (2, 3, 4), (3, 4), (5,), (1, 4), (2, 1, 3), (4, 4)))
            values = torch.randint(-4, 5, shape, generator=torch.Generator().manual_seed(seed)).float()
            self.inputs[name] = values.reshape(-1).tolist()
            self.values[name] = values
            self.lines.append(f"input %{name}: float32{list(shape)}")

    def pick(self, fits=lambda t: True):
        names = [n for n, t in self.values.items() if fits(t)]
        return self.random.choice(names) if names else None

    def call(self, op, operands, *, given=(), **attrs):
        """Runs torch.ops.aten.<op> and writes its line; `given` are numbers in tensors' places."""
        name, overload = op.rsplit(".", 1)
        arguments = [self.values[o] for o in operands] + list(given)
        result = getattr(getattr(aten, name), overload)(*arguments, **attrs)
        results = [result] if isinstance(result, torch.Tensor) else list(result)
        names = []
        for r in results:
            names.append(f"v{self.count}")
            self.count += 1
        parts = [f"%{o}" for o in operands] + [repr(float(g)) for g in given]
        parts += [f"{k}={self.attr(v)}" for k, v in attrs.items()]
        left = ", ".join(f"%{n}: float32{list(r.shape)}" for n, r in zip(names, results))
        self.lines.append(f"{left} = aten.{op}({', '.join(parts)})")
        self.values.update(zip(names, results))
        return names

    @staticmethod
    def attr(v):
        if isinstance(v, bool):
            return "true" if v else "false"
        if isinstance(v, torch.memory_format):
            return f'"{v}"'
        return str(list(v)) if isinstance(v, (list, tuple, torch.Size)) else str(v)

    # Every step returns False where it does not apply.
    def view(self):
        r = self.random
        o = self.pick(lambda t: t.dim() > 0)
        t = self.values[o]
        d = r.randrange(t.dim())
        kind = r.randrange(20)
        if kind == 0:
            self.call("transpose.int", [o], dim0=d, dim1=r.randrange(t.dim()))
        elif kind == 1:
            dims = list(range(t.dim()))
            r.shuffle(dims)
            self.call("permute.default", [o], dims=dims)
        elif kind in (2, 3):
            start = r.randrange(t.shape[d] + 1)
            self.call("slice.Tensor", [o], dim=d, start=start, end=r.randint(start, t.shape[d]), step=r.choice((1, 1, 2)))
        elif kind == 4 and t.shape[d]:
            self.call("select.int", [o], dim=d, index=r.randrange(t.shape[d]))
        elif kind == 5:
            self.call("squeeze.default", [o])
        elif kind == 6 and t.dim() < 4:
            self.call("unsqueeze.default", [o], dim=r.randrange(t.dim() + 1))
        elif kind == 7 and 1 in t.shape:
            self.call("expand.default", [o], size=[n if n != 1 else r.choice((1, 2, 3)) for n in t.shape])
        elif kind == 8 and t.dim() >= 2:
            self.call("diagonal.default", [o], offset=r.choice((0, 0, 1, -1)), dim1=0, dim2=1)
        elif kind == 9 and t.shape[d] >= 2 and t.dim() < 4:
            self.call("unfold.default", [o], dimension=d, size=r.choice((1, 2)), step=r.choice((1, 2)))
        elif kind == 10 and t.shape[d]:
            self.call("split.Tensor", [o], split_size=max(1, t.shape[d] // 2), dim=d)
        elif kind == 11 and t.dim() <= 2:
            self.call("t.default", [o])
        elif kind == 12:
            self.call(r.choice(("detach.default", "alias.default", "contiguous.default", "ravel.default",
                                "lift_fresh.default", "positive.default")), [o])
        elif kind == 13:
            begin = r.randrange(t.dim())
            self.call("flatten.using_ints", [o], start_dim=begin, end_dim=r.randrange(begin, t.dim()))
        elif kind in (14, 15, 16):
            self.call("reshape.default", [o], shape=self.other_shape(t))
        elif kind == 17:
            shape = self.other_shape(t)
            try:
                t.view(shape)
            except RuntimeError:
                return False
            self.call(r.choice(("view.default", "_unsafe_view.default")), [o], size=shape)
        else:
            return self.address(o)
        return True

    def other_shape(self, t):
        shapes = [[t.numel()], [1, t.numel()], list(reversed(t.shape))]
        for a in range(2, t.numel()):
            if t.numel() % a == 0:
                shapes += [[a, t.numel() // a]]
                shapes += [[b, a // b, t.numel() // a] for b in range(2, a) if a % b == 0]
        return self.random.choice(shapes)

    def address(self, o):
        r = self.random
        t = self.values[o]
        room = t.untyped_storage().nbytes() // 4
        size = [r.randint(1, 3) for _ in range(r.randint(1, 2))]
        stride = [r.randint(0, 4) for _ in size]
        reach = sum((n - 1) * s for n, s in zip(size, stride))
        if reach >= room:
            return False
        offset = {"storage_offset": r.randrange(room - reach)} if r.random() < 0.8 else {}
        if not offset and t.storage_offset() + reach >= room:
            return False
        kind = r.choice(("as_strided.default",) * 4 + ("as_strided_copy.default", "as_strided_scatter.default"))
        if kind == "as_strided_scatter.default":
            if overlaps(t) or overlaps(torch.empty(room).as_strided(size, stride)):
                return False
            source = self.call("full.default", [], size=size, fill_value=float(r.randint(-3, 3)))[0]
            self.call(kind, [o, source], size=size, stride=stride, **offset)
        else:
            self.call(kind, [o], size=size, stride=stride, **offset)
        return True

    def compute(self):
        r = self.random
        o = self.pick()
        t = self.values[o]
        kind = r.randrange(12)
        if kind < 3:
            self.call("add.Tensor", [o], given=[r.randint(-2, 2)])
        elif kind < 6:
            other = self.pick(lambda u: self.broadcast(t, u))
            self.call(r.choice(("add.Tensor", "sub.Tensor", "maximum.default")), [o, other])
        elif kind == 6:
            self.call(r.choice(("neg.default", "relu.default", "zeros_like.default", "abs.default")), [o])
        elif kind == 7:
            self.call("clone.default", [o])
        elif kind == 8:
            self.call("clone.default", [o], memory_format=torch.contiguous_format)
        elif kind == 9 and t.dim():
            self.call("flip.default", [o], dims=[r.randrange(t.dim())])
        elif kind == 10 and t.dim():
            self.call("sum.dim_IntList", [o], dim=[r.randrange(t.dim())])
        elif kind == 11 and t.dim():
            self.call("cumsum.default", [o], dim=r.randrange(t.dim()))
        return True

    @staticmethod
    def broadcast(t, u):
        try:
            return torch.broadcast_shapes(t.shape, u.shape).numel() < 200
        except RuntimeError:
            return False

    def write(self):
        r = self.random
        o = self.pick(lambda t: not overlaps(t))
        if o is None:
            return False
        t = self.values[o]
        kind = r.randrange(9)
        if kind == 0:
            self.call("fill_.Scalar", [o], value=float(r.randint(-3, 3)))
        elif kind in (1, 2):
            self.call(r.choice(("mul_.Tensor", "add_.Tensor")), [o], given=[r.randint(-2, 2)])
        elif kind in (3, 4, 5):
            other = self.pick(lambda u: not same_memory(t, u) and self.fits(t, u))
            if other is None:
                return False
            self.call(r.choice(("copy_.default", "add_.Tensor", "sub_.Tensor")), [o, other])
        elif kind == 6:
            self.call(r.choice(("neg_.default", "relu_.default", "zero_.default")), [o])
        else:
            if kind == 7 and t.dim() == 2:
                made = self.call("t_.default", [o])
            elif kind == 7 and t.dim() > 2:
                made = self.call("transpose_.default", [o], dim0=0, dim1=2)
            elif t.dim() < 4:
                made = self.call("unsqueeze_.default", [o], dim=0) if r.random() < 0.5 else self.call("squeeze_.default",
                                                                                                  [o])
            else:
                return False
            # A name of the same tensor goes where its shape is no longer the declared one.
            self.values = {n: v for n, v in self.values.items()
                           if v is not t or n in made or self.declared(n) == list(v.shape)}
        return True

    def declared(self, name):
        for line in self.lines:
            at = line.find(f"%{name}: float32[")
            if at >= 0:
                text = line[at + len(f"%{name}: float32["):]
                return [int(n) for n in text[: text.index("]")].split(",") if n.strip()]
        raise AssertionError(name)

    @staticmethod
    def fits(t, u):
        try:
            return torch.broadcast_shapes(t.shape, u.shape) == t.shape
        except RuntimeError:
            return False

    def finish(self):
        names = [n for n in self.values if n in self.inputs]
        others = [n for n in self.values if n not in self.inputs]
        self.random.shuffle(others)
        outputs = names + others[:5]
        self.lines += [f"output %{n}" for n in outputs]
        return {"text": "\n".join(self.lines) + "\n", "inputs": self.inputs,
                "outputs": [self.values[n].reshape(-1).tolist() for n in outputs]}


def main():
    programs, seed = [], 0
    while len(programs) < 400:
        seed += 1
        p = Program(seed)
        steps = p.random.randint(4, 14)
        writes = 0
        while steps > 0:
            step = p.random.choice((p.view, p.view, p.view, p.compute, p.write, p.write))
            steps -= 1
            if step() and step == p.write:
                writes += 1
        if writes:
            programs.append(p.finish())
    where = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    (where / "programs.json").write_text("[\n" + ",\n".join(json.dumps(p) for p in programs) + "\n]\n")


if __name__ == "__main__":
    main()
