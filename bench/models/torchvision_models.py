"""Architectures of torchvision: classification, segmentation, video, optical flow, detection with and without boxes."""

from collections.abc import Callable
from functools import partial
from typing import Any
from unittest.mock import patch

import torch
from case import Case, Made
from shorten import shallow
from torch import nn
from torchvision import models
from torchvision.models import detection, optical_flow, video
from torchvision.models.video import mvit
from torchvision.ops import MultiScaleRoIAlign

CLASSES = 10
SIZES = {"alexnet": 96, "inception_v3": 128, "googlenet": 96, "maxvit_t": 224, "swin": 128, "vit": 224}
# More than 60 million parameters at any depth; what is theirs alone is width.
LARGE = """
    regnet_y_128gf regnet_y_32gf regnet_x_32gf regnet_y_16gf regnet_x_16gf regnet_x_8gf regnet_y_8gf convnext_large
    convnext_base vit_h_14 vit_l_16 vit_l_32 efficientnet_v2_l efficientnet_b7 efficientnet_b6 swin_b swin_v2_b swin3d_b
    resnext101_64x4d wide_resnet101_2 densenet161
""".split()


def cases() -> dict[str, Case]:
    names = models.list_models(models)
    classifiers = {name: Case("classification", partial(classifier, name)) for name in names if name not in LARGE}
    return classifiers | SEGMENTATION | VIDEO | FLOW | DETECTION


# ---- images


def image(size: int = 64, batch: int = 2) -> torch.Tensor:
    return torch.randn(batch, 3, size, size)


def classifier(name: str) -> Made:
    size = next((size for start, size in SIZES.items() if name.startswith(start)), 64)
    extra: dict[str, Any] = {"init_weights": False} if name in ("googlenet", "inception_v3") else {}
    x = image(size, 1 if size == 224 else 2)

    def make() -> nn.Module:
        model = models.get_model(name, weights=None, num_classes=CLASSES, **extra)
        if name.startswith(("vgg", "alexnet")):
            narrow(model.classifier)
        return model

    return shallow(make, x), (x,), {}


def narrow(layers: nn.Sequential) -> None:
    """With layers of 64 channels, not 4096."""
    places = [i for i, layer in enumerate(layers) if isinstance(layer, nn.Linear)]
    for i in places:
        layers[i] = nn.Linear(layers[i].in_features if i == places[0] else 64, CLASSES if i == places[-1] else 64)


def segmentation(name: str, aux: bool) -> Made:
    extra = {"aux_loss": True} if aux else {}
    x = image(96)
    make = partial(models.get_model, name, weights=None, weights_backbone=None, num_classes=CLASSES, **extra)
    return shallow(make, x), (x,), {}


SEGMENTATION = {
    name: Case("segmentation", partial(segmentation, name, "lraspp" not in name))
    for name in models.list_models(models.segmentation)
}


# ---- video


def clip(name: str, *shape: int) -> Made:
    x = torch.randn(*shape)
    build = mvit._mvit
    smaller = {"spatial_size": shape[-2:], "temporal_size": shape[-3]}
    with patch.object(mvit, "_mvit", lambda **kwargs: build(**{**kwargs, **smaller})):
        return shallow(partial(models.get_model, name, weights=None, num_classes=CLASSES), x), (x,), {}


SHAPES = {"s3d": (1, 3, 16, 224, 224)}  # pools 7 by 7
VIDEO = {
    name: Case("video", partial(clip, name, *SHAPES.get(name, (1, 3, 8, 64, 64))))
    for name in models.list_models(video)
    if name not in LARGE
}


# ---- optical flow


def flow(name: str) -> Made:
    model = models.get_model(name, weights=None).eval()
    return model, (torch.randn(1, 3, 128, 128), torch.randn(1, 3, 128, 128)), {"num_flow_updates": 2}


FLOW = {name: Case("optical flow", partial(flow, name)) for name in models.list_models(optical_flow)}


# ---- detection


class Dense(nn.Module):
    """A backbone and the head over all its positions."""

    def __init__(self, backbone: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.backbone, self.head = backbone, head

    def forward(self, x: torch.Tensor) -> Any:
        features = self.backbone(x)
        return features, self.head(list(features.values()))


class Regions(nn.Module):
    """The heads of the second stage over regions that are given: their features, and what is said of them."""

    def __init__(self, *heads: nn.Module) -> None:
        super().__init__()
        self.heads = nn.ModuleList(heads)

    def forward(self, regions: torch.Tensor) -> Any:
        for head in self.heads:
            regions = head(regions)
        return regions


class Aligned(nn.Module):
    """A pyramid, and the parts of its finest level where boxes are: which level suits a box depends on values."""

    def __init__(self, backbone: nn.Module) -> None:
        super().__init__()
        self.backbone = backbone
        self.align = MultiScaleRoIAlign(["0"], 7, 2)

    def forward(self, x: torch.Tensor, boxes: torch.Tensor) -> torch.Tensor:
        return self.align(self.backbone(x), [boxes], [(96, 96)])


def whole(name: str) -> nn.Module:
    return models.get_model(name, weights=None, weights_backbone=None, num_classes=CLASSES)


def dense(name: str) -> Made:
    x = image(300, 1) if name == "ssd300_vgg16" else image(96)

    def make() -> nn.Module:
        model = whole(name)
        return Dense(model.backbone, model.rpn.head if hasattr(model, "rpn") else model.head)

    return shallow(make, x), (x,), {}


def regions(name: str, channels: int, size: int, pick: Callable[[Any], list[nn.Module]]) -> Made:
    model = Regions(*pick(whole(name).roi_heads)).eval()
    return model, (torch.randn(3, channels, size, size),), {}


def aligned() -> Made:
    corners = torch.rand(5, 2) * 40
    boxes = torch.cat([corners, corners + 5 + torch.rand(5, 2) * 50], 1)
    return Aligned(whole("fasterrcnn_resnet50_fpn").backbone).eval(), (image(96, 1), boxes), {}


def detector(name: str) -> Made:
    """All of it, with the boxes chosen: as many as the values say."""
    size = 320 if "320" in name else 300 if "300" in name else 96
    extra = {} if size != 96 else {"min_size": size, "max_size": size}
    model = models.get_model(name, weights=None, weights_backbone=None, num_classes=CLASSES, **extra).eval()
    return model, ([torch.rand(3, size, size)],), {}


def box_head(heads: Any) -> list[nn.Module]:
    return [heads.box_head, heads.box_predictor]


REGIONS = {
    "fasterrcnn_resnet50_fpn": (256, 7, box_head),
    "fasterrcnn_resnet50_fpn_v2": (256, 7, box_head),
    "maskrcnn_resnet50_fpn": (256, 14, lambda heads: [heads.mask_head, heads.mask_predictor]),
    "maskrcnn_resnet50_fpn_v2": (256, 14, lambda heads: [heads.mask_head, heads.mask_predictor]),
    "keypointrcnn_resnet50_fpn": (256, 14, lambda heads: [heads.keypoint_head, heads.keypoint_predictor]),
}
DETECTORS = models.list_models(detection)
DETECTION = {
    **{f"{name} dense": Case("detection, dense", partial(dense, name)) for name in DETECTORS},
    **{f"{name} regions": Case("detection, regions", partial(regions, name, *of)) for name, of in REGIONS.items()},
    "fasterrcnn_resnet50_fpn align": Case("detection, regions", aligned),
    **{name: Case("detection, whole", partial(detector, name)) for name in DETECTORS},
}
