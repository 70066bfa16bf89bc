"""IR that nobody's exporter wrote: attributes, shapes and dtypes of single operators are changed, and what does not fit is
refused by name."""

import copy
import functools
import json
import random
from pathlib import Path

import npusim
import pytest

GOLDEN = Path(__file__).parents[2] / "tests" / "ops" / "golden"  # a file for each family: {operator: [sample]}
DTYPES = ["float16", "float32", "float64", "bfloat16", "int8", "uint8", "int16", "int32", "int64", "bool"]
VALUES = [0, 1, -1, 2, -3, 5, 100, True, False, 0.5, -1.5, float("inf"), None, 1 << 31, -(1 << 63), [], "mean"]


def changed_attribute(draw, ir):
    node = draw.choice(ir["nodes"])
    names = [name for name in node.get("attrs") or {} if not name.startswith("_tensor")]
    if not names:
        return ""
    name = draw.choice(names)
    value = node["attrs"][name]
    if isinstance(value, list):
        others = [[], value[::-1], value + value[:1], value[:1], [draw.choice([0, 1, -1, 2, 3, -2]) for _ in value]]
    else:
        others = VALUES
    node["attrs"][name] = draw.choice(others)
    return f"{name}={node['attrs'][name]}"


def changed_tensor(draw, ir):
    """Wherever the tensor is named."""
    node = draw.choice(ir["nodes"])
    if not node["inputs"]:
        return ""
    name = draw.choice(node["inputs"])["name"]
    shape = draw.choice([[], [0], [1], [2, 2], [1, 1, 1], [0, 0], [2, 1, 2, 1], [2] * 8])
    change = draw.choice([{"dtype": draw.choice(DTYPES)}, {"shape": shape}])
    lists = [ir["graph_inputs"], ir["weights"], *(node["inputs"] for node in ir["nodes"])]
    for tensor in (tensor for tensors in lists for tensor in tensors if tensor["name"] == name):
        tensor.update(change)
    return f"{name} {change}"


@functools.cache
def operators():
    return [item for path in sorted(GOLDEN.glob("*.json")) for item in json.loads(path.read_text()).items()]


@pytest.mark.parametrize("part", range(8))
def test_single_operators(part):
    """A crash ends the tests; npusim's own contradictions are InternalErrors."""
    found = []
    for seed, (op, samples) in enumerate(operators()[part::8]):
        draw = random.Random(seed)
        for _ in range(60):
            sample = draw.choice(samples)
            ir = copy.deepcopy(sample["ir"])
            changes = [draw.choice([changed_attribute, changed_tensor])(draw, ir) for _ in range(draw.choice([1, 1, 2]))]
            try:
                npusim.compile(ir, dtype="float32", max_bytes=1 << 26, max_flops=1 << 28)
            except npusim.InternalError as error:
                found.append(f"{op} {sample['name']}: {changes}: {error}")
            except npusim.Error:
                pass
            except Exception as error:
                found.append(f"{op} {sample['name']}: {changes}: {type(error).__name__}: {error}")
    assert len(operators()) > 500 and not found, "\n".join(found)
