"""The models of compare.py: built by torchvision and transformers from seeds, exported for every contender.

A prepared model is a folder of the cache:
    ir.json             the graph, as pytorch-ir writes it
    model.safetensors   parameters and buffers, under the names that ir.json has
    inputs.safetensors  the inputs, under their names in ir.json
    golden.safetensors  what PyTorch answers, as out0
    model.onnx          the same module through torch.onnx
    stamp.json          what all that was made from; when it differs, the folder is made again
"""
import hashlib
import importlib.metadata
import json
import math
import shutil
import sys
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path

import torch
import torchvision
import transformers
from safetensors.torch import load_file, save_file
from torch import nn

import decode
from record import DECODE

Inputs = tuple[torch.Tensor, ...]
MAKERS = ("torch", "torchvision", "transformers", "pytorch-ir", "onnx")


class Encoder(nn.Module):
    """A text encoder as a function of token ids and mask."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return self.model(input_ids=ids, attention_mask=mask).last_hidden_state


def images(count: int) -> Inputs:
    return (torch.rand(count, 3, 224, 224) * 4 - 2,)


def bert(tokens: int = 128, **shape: int) -> tuple[nn.Module, Inputs]:
    config = transformers.BertConfig(attn_implementation="sdpa", **shape)
    ids = torch.randint(1, config.vocab_size, (1, tokens))
    return Encoder(transformers.BertModel(config, add_pooling_layer=False)), (ids, torch.ones_like(ids))


MODELS: dict[str, Callable[[], tuple[nn.Module, Inputs]]] = {
    "resnet50-b1": lambda: (torchvision.models.resnet50(), images(1)),
    "resnet50-b8": lambda: (torchvision.models.resnet50(), images(8)),
    "mobilenet_v2-b1": lambda: (torchvision.models.mobilenet_v2(), images(1)),
    "mobilenet_v3-b1": lambda: (torchvision.models.mobilenet_v3_large(), images(1)),
    "efficientnet_b0-b1": lambda: (torchvision.models.efficientnet_b0(), images(1)),
    "mnasnet-b1": lambda: (torchvision.models.mnasnet1_0(), images(1)),
    "shufflenet_v2-b1": lambda: (torchvision.models.shufflenet_v2_x1_0(), images(1)),
    "vit_b_16-b1": lambda: (torchvision.models.vit_b_16(), images(1)),
    "bert_base-s128": lambda: bert(),
    "minilm_l6-s128": lambda: bert(hidden_size=384, num_hidden_layers=6, intermediate_size=1536),
}


def randomise(model: nn.Module) -> None:
    """No weight stays at an initial 0 or 1, and signals keep their size through the layers."""
    for module in model.modules():
        for name, p in module.named_parameters(recurse=False):
            if isinstance(module, nn.modules.batchnorm._BatchNorm | nn.LayerNorm):
                p.uniform_(0.5, 1.5) if name == "weight" else p.normal_(std=0.2)
            elif isinstance(module, nn.Embedding) or p.dim() == 1:
                p.normal_(std=0.1)
            elif isinstance(module, nn.modules.conv._ConvNd):
                p.normal_(std=math.sqrt(2 / p[0].numel()))
            elif p.dim() == 2:
                p.normal_(std=1 / math.sqrt(p.shape[1]))
            else:  # class tokens, positions
                p.normal_(std=0.2)


def calibrate(model: nn.Module) -> None:
    """Gives batch norms the running statistics of a random batch."""
    norms = [m for m in model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    if not norms:
        return
    for norm in norms:
        norm.train()
        norm.momentum = 1.0
    model(*images(4))
    model.eval()


def build(name: str) -> tuple[nn.Module, Inputs]:
    """The same module and inputs every time."""
    torch.manual_seed(zlib.crc32(name.encode()))
    with torch.no_grad():
        model, inputs = MODELS[name]()
        model.eval().requires_grad_(False)
        randomise(model)
        calibrate(model)
    return model, inputs


def load(name: str, folder: Path) -> tuple[nn.Module, Inputs]:
    """A prepared model, for PyTorch."""
    if name == DECODE:
        return decode.load(folder)
    model, inputs = build(name)
    state = load_file(folder / "model.safetensors")
    model.load_state_dict({key: state[key] for key in model.state_dict()})
    return model, tuple(load_file(folder / "inputs.safetensors")[key] for key in input_names(folder))


def input_names(folder: Path) -> list[str]:
    return [tensor["name"] for tensor in json.loads((folder / "ir.json").read_text())["graph_inputs"]]


def stamp() -> dict[str, str]:
    versions = {package: importlib.metadata.version(package) for package in MAKERS}
    return versions | {"models.py": hashlib.sha256(Path(__file__).read_bytes()).hexdigest()}


def prepare(name: str, folder: Path) -> None:
    """Makes the folder, unless it is there and made from the same versions."""
    if name == DECODE:
        return decode.prepare(folder)
    file = folder / "stamp.json"
    if file.exists() and json.loads(file.read_text()) == stamp():
        return
    print(f"{name}: building and exporting", file=sys.stderr)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    model, inputs = build(name)
    with torch.inference_mode():
        golden = model(*inputs)
    export_ir(name, model, inputs, folder)
    torch.onnx.export(model, inputs, folder / "model.onnx", input_names=input_names(folder), dynamo=True)
    save_file({"out0": golden.contiguous()}, folder / "golden.safetensors")
    file.write_text(json.dumps(stamp(), indent=1))


def export_ir(name: str, model: nn.Module, inputs: Inputs, folder: Path) -> None:
    import torch_ir

    with warnings.catch_warnings(action="ignore"):
        ir = torch_ir.extract_ir(model, inputs, model_name=name, strict=False)
    (folder / "ir.json").write_text(json.dumps(ir.to_dict(), default=str))
    state = dict(model.named_parameters(remove_duplicate=False)) | dict(model.named_buffers(remove_duplicate=False))
    save_file({key: value.detach().clone().contiguous() for key, value in state.items()}, folder / "model.safetensors")
    named = zip(input_names(folder), inputs, strict=True)
    save_file({key: value.contiguous() for key, value in named}, folder / "inputs.safetensors")


if __name__ == "__main__":
    prepare(sys.argv[1], Path(sys.argv[2]))
