#!/usr/bin/env python3
"""Makes the logits of test.npz again: PyTorch's, of the images as that file holds them, which is in float16.

    golden.py

`logits` are computed in float32, `half` in float16. Needs torch and safetensors.
"""
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from torch import nn

FOLDER = Path(__file__).parent


class Block(nn.Module):
    def __init__(self, inputs: int, channels: int) -> None:
        super().__init__()
        stride = channels // inputs
        self.conv1 = nn.Conv2d(inputs, channels, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        if stride > 1:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, channels, 1, stride, bias=False), nn.BatchNorm2d(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(y + (self.downsample(x) if hasattr(self, "downsample") else x))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.layer1, self.layer2, self.layer3 = Block(16, 16), Block(16, 32), Block(32, 64)
        self.fc = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = nn.functional.max_pool2d(torch.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        return self.fc(self.layer3(self.layer2(self.layer1(x))).mean((2, 3)))


def logits(images: np.ndarray, dtype: torch.dtype) -> np.ndarray:
    net = Net()
    net.load_state_dict(load_file(FOLDER / "model.safetensors"))
    with torch.inference_mode():
        return net.to(dtype).eval()(torch.from_numpy(images).to(dtype)).float().numpy()


if __name__ == "__main__":
    test = dict(np.load(FOLDER / "test.npz"))
    test["logits"], test["half"] = logits(test["images"], torch.float32), logits(test["images"], torch.float16)
    np.savez_compressed(FOLDER / "test.npz", **test)
