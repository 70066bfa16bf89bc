"""The files of tests/ops/golden: which pair an operator's answers are in, reading and writing of a pair.

A family is a file of src/ops with a table of records, and an operator is of the family that has its record.
"""
import functools
import json
import os
import re

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "golden")
RECORDS = os.path.join(HERE, "..", "..", "src", "ops")


@functools.cache
def recorded():
    """Family by operator, of every string literal in src/ops that begins like a schema: "add.Tensor(..."."""
    found = {}
    for file in sorted(os.listdir(RECORDS)):
        family, ext = os.path.splitext(file)
        if ext != ".cpp":
            continue
        with open(os.path.join(RECORDS, file)) as fh:
            text = fh.read()
        # As src/CMakeLists.txt finds the tables.
        if not re.search(rf"^std::span<const OpRecord> {family}_ops\(\)", text, re.M):
            continue
        for name in re.findall(r'"(\w+(?:\.\w+)*)\(', text):
            dots = name.count(".")
            op = name if dots == 2 else f"aten.{name}" + ("" if dots else ".default")
            other = found.setdefault(op, family)
            assert other == family, f"{op} is in both {other}.cpp and {family}.cpp of src/ops"
    return found


def family_of(op):
    """None without a record. In-place forms are where the operator is; some have overloads of another name."""
    if op in recorded():
        return recorded()[op]
    space, name, overload = op.split(".")
    name = "__" + name[3:] if name.startswith("__i") else name.removesuffix("_")
    if f"{space}.{name}.{overload}" in recorded():
        return recorded()[f"{space}.{name}.{overload}"]
    found = {family for other, family in recorded().items() if other.startswith(f"{space}.{name}.")}
    assert len(found) < 2, f"{op} could be of {sorted(found)}"
    return found.pop() if found else None


def families():
    return sorted(n.removesuffix(".json") for n in os.listdir(OUT) if n.endswith(".json"))


def path(family, ext):
    return os.path.join(OUT, f"{family}.{ext}")


def read_lines(family):
    """The samples by operator, each the text of its line."""
    ops = {}
    if not os.path.exists(path(family, "json")):
        return ops
    with open(path(family, "json")) as fh:
        for line in fh:
            if line.startswith('"'):
                mine = ops.setdefault(line[1:line.index('"', 1)], [])
            elif line.startswith('{"'):
                mine.append(line.rstrip(",\n"))
    return ops


def read_samples(op):
    """Of the JSON alone; empty where there are none."""
    family = family_of(op)
    return [json.loads(line) for line in read_lines(family).get(op, [])] if family else []


def read_tensors(family):
    from safetensors.torch import load_file
    return load_file(path(family, "safetensors")) if os.path.exists(path(family, "safetensors")) else {}


def write_family(family, ops, tensors):
    """Without operators there are no files."""
    from safetensors.torch import save_file
    if not ops:
        for ext in ("json", "safetensors"):
            if os.path.exists(path(family, ext)):
                os.remove(path(family, ext))
        return
    parts = ['"%s":[\n%s\n]' % (op, ",\n".join(lines)) for op, lines in sorted(ops.items())]
    with open(path(family, "json"), "w") as fh:
        fh.write("{\n" + ",\n".join(parts) + "\n}\n")
    save_file(tensors, path(family, "safetensors"))


def update(made, only):
    """Puts operators' (lines, tensors by "op/sample/tensor") into their families' files, and takes them from where
    their records were before. The other operators stay as they are where `only` these were made; else these are all.
    -> size of the folder in bytes."""
    homes = {op: family_of(op) for op in made}
    for family in sorted(set(families()) | set(homes.values())):
        old = read_lines(family) if only else {}
        ops = {op: lines for op, lines in old.items() if op not in made}
        mine = [op for op in made if homes[op] == family]
        if only and not mine and len(ops) == len(old):
            continue
        tensors = {n: t for n, t in read_tensors(family).items() if n.split("/")[0] in ops} if only else {}
        for op in mine:
            ops[op] = made[op][0]
            tensors.update(made[op][1])
        write_family(family, ops, tensors)
    return sum(os.path.getsize(os.path.join(OUT, n)) for n in os.listdir(OUT))
