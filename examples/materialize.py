#!/usr/bin/env python3
"""Makes the files that a model of this folder is run with: OUT/NAME/*.safetensors for each MODEL folder.

    materialize.py OUT MODEL...

A zoo model's weights are not stored: each is a function of its seed string (FNV-1a 64 of the string starts a
splitmix64 counter; the top 24 bits of element i give u in [0,1); z = sqrt(3)(2u-1) has unit variance). weights.json
says per weight: normal z*std | scale 1+0.1z | bias 0.05z | var 1+0.5u | zeros | file (the value is in buffers.npz).

    model.safetensors   the weights
    inputs.safetensors  the inputs, under their names in ir.json
    golden.safetensors  per output i of the model run by PyTorch on those weights and inputs: out{i} (float32 math) and
                        half{i} (float16 math, bfloat16 where the weights are), both flattened and cut at 65536
                        elements, and shape{i}

A trained model has its weights beside its IR; its other .npz files become .safetensors files of the same name.
A model that is there already, made from the same files, is left as it is. Needs numpy only.
"""
import hashlib
import json
import os
import struct
import sys
import tempfile

import numpy as np

DTYPES = {"float32": "F32", "float16": "F16", "bfloat16": "BF16", "int64": "I64", "int32": "I32", "bool": "BOOL"}


def fnv1a64(text):
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value


def uniform01(seed, count):
    """count float32 values in [0, 1) from the seed string."""
    with np.errstate(over="ignore"):
        x = np.uint64(fnv1a64(seed)) + np.arange(count, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        x ^= x >> np.uint64(31)
    return (x >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-24)


def weight(spec):
    count = int(np.prod(spec["shape"])) if spec["shape"] else 1
    u = uniform01(spec.get("seed", spec["name"]), count)
    z = (u * 2 - 1) * np.float32(3**0.5)
    value = {
        "normal": lambda: z * np.float32(spec["std"]),
        "scale": lambda: 1 + np.float32(0.1) * z,
        "bias": lambda: np.float32(0.05) * z,
        "var": lambda: np.float32(1) + np.float32(0.5) * u,
        "zeros": lambda: np.zeros(count, np.float32),
    }[spec["rule"]]()
    return value.reshape(spec["shape"]).astype(np.float32)


def model_input(spec):
    count, shape = int(np.prod(spec["shape"])), spec["shape"]
    if spec["kind"] == "img":
        return (uniform01("input:" + spec["seed"], count) * 4 - 2).reshape(shape).astype(np.float32)
    if spec["kind"] == "ids":
        return (uniform01("ids:" + spec["seed"], count) * spec["arg"]).astype(np.int64).reshape(shape)
    if spec["kind"] == "ones":
        return np.ones(shape, np.int64)
    raise ValueError(spec["kind"])


def encode(array, dtype):
    if dtype == "bfloat16":  # round to nearest even
        bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
        return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16).tobytes()
    return np.ascontiguousarray(array, dtype).tobytes()


def save_safetensors(path, tensors):
    """tensors: {name: (array, dtype name)}"""
    header, blobs, offset = {}, [], 0
    for name, (array, dtype) in tensors.items():
        blob = encode(array, dtype)
        end = offset + len(blob)
        header[name] = {"dtype": DTYPES[dtype], "shape": list(np.shape(array)), "data_offsets": [offset, end]}
        offset = end
        blobs.append(blob)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.writelines(blobs)


def load_npz(path):
    return dict(np.load(path)) if os.path.exists(path) else {}


def read_json(path):
    with open(path) as file:
        return json.load(file)


def make_zoo_model(source, out):
    meta = read_json(os.path.join(source, "weights.json"))
    graph = read_json(os.path.join(source, "ir.json"))
    stored = load_npz(os.path.join(source, "buffers.npz"))
    weights = {}
    for spec in meta["weights"]:
        value = stored[spec["name"]] if spec["rule"] == "file" else weight(spec)
        weights[spec["name"]] = (value, spec["dtype"])
    save_safetensors(os.path.join(out, "model.safetensors"), weights)
    inputs = {}
    for spec, tensor in zip(meta["inputs"], graph["graph_inputs"]):
        inputs[tensor["name"]] = (model_input(spec), tensor["dtype"])
    save_safetensors(os.path.join(out, "inputs.safetensors"), inputs)
    golden = load_npz(os.path.join(source, "golden.npz"))
    if golden:
        typed = {name: (value, "int64" if name.startswith("shape") else "float32") for name, value in golden.items()}
        save_safetensors(os.path.join(out, "golden.safetensors"), typed)


def convert_arrays(source, out):
    for name in sorted(os.listdir(source)):
        if name.endswith(".npz"):
            arrays = {key: (value, value.dtype.name) for key, value in np.load(os.path.join(source, name)).items()}
            save_safetensors(os.path.join(out, name[:-4] + ".safetensors"), arrays)


def source_hash(source):
    digest = hashlib.sha256()
    files = [os.path.join(source, name) for name in sorted(os.listdir(source))]
    for path in files + [os.path.abspath(__file__)]:
        with open(path, "rb") as file:
            digest.update(file.read())
    return digest.hexdigest()


def materialize(source, root):
    out = os.path.join(root, os.path.basename(os.path.normpath(source)))
    stamp, made_from = os.path.join(out, "made_from"), source_hash(source)
    if os.path.exists(stamp) and open(stamp).read() == made_from:
        return
    print("making", out, file=sys.stderr)
    os.makedirs(root, exist_ok=True)
    # Made aside and moved, so that what is there is whole, whoever else makes it at the same time.
    with tempfile.TemporaryDirectory(dir=root, prefix=".making.") as aside:
        made = os.path.join(aside, "model")
        os.mkdir(made)
        if os.path.exists(os.path.join(source, "weights.json")):
            make_zoo_model(source, made)
        else:
            convert_arrays(source, made)
        with open(os.path.join(made, "made_from"), "w") as file:
            file.write(made_from)
        if os.path.exists(out):
            os.rename(out, os.path.join(aside, "old"))
        try:
            os.rename(made, out)
        except OSError:
            if not os.path.exists(stamp):
                raise


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    for model in sys.argv[2:]:
        materialize(model, sys.argv[1])
