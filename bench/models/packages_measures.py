"""Models of small packages: filters of images, and what metrics compute."""

import importlib
from collections.abc import Callable
from typing import Any

import torch
from case import Made
from packages_making import ids, of
from torch import nn


def kornia(path: str, *shape: int, **kwargs: Any) -> Callable[[], Made]:
    return lambda: (of(f"kornia.{path}", **kwargs), (torch.rand(shape or (2, 3, 16, 16)),), {})


def metric(name: str, *tensors: Callable[[], torch.Tensor], **kwargs: Any) -> Callable[[], Made]:
    class Metric(nn.Module):
        def forward(self, *args: torch.Tensor) -> Any:
            return getattr(importlib.import_module("torchmetrics.functional"), name)(*args, **kwargs)

    return lambda: (Metric(), tuple(t() for t in tensors), {})


MODELS: dict[str, dict[str, Callable[[], Made]]] = {
    "kornia": {
        "gaussian": kornia("filters.GaussianBlur2d", kernel_size=(5, 5), sigma=(1.5, 1.5)),
        "sobel": kornia("filters.Sobel"),
        "median": kornia("filters.MedianBlur", kernel_size=(3, 3)),
        "laplacian": kornia("filters.Laplacian", kernel_size=3),
        "bilateral": kornia("filters.BilateralBlur", kernel_size=(3, 3), sigma_color=0.1, sigma_space=(1.5, 1.5)),
        "canny": kornia("filters.Canny", 2, 1, 16, 16, hysteresis=False),
        "harris": kornia("feature.CornerHarris", 2, 1, 16, 16, k=0.04),
        "sift": kornia("feature.SIFTDescriptor", 3, 1, 16, 16, patch_size=16),
        "hardnet": kornia("feature.HardNet", 3, 1, 32, 32, pretrained=False),
        "hsv": kornia("color.RgbToHsv"),
        "lab": kornia("color.RgbToLab"),
        "yuv": kornia("color.RgbToYuv420"),
        "ssim": lambda: (of("kornia.losses.SSIMLoss", 5), (torch.rand(2, 3, 16, 16), torch.rand(2, 3, 16, 16)), {}),
        "whitening": lambda: (of("kornia.enhance.ZCAWhitening"), (torch.rand(6, 8),), {"include_fit": True}),
        "invert": kornia("enhance.Invert"),
        "pyramid": kornia("geometry.PyrDown"),
    },
    "torchmetrics": {
        "psnr": metric(
            "peak_signal_noise_ratio", lambda: torch.rand(2, 3, 8, 8), lambda: torch.rand(2, 3, 8, 8), data_range=1.0
        ),
        "r2": metric("r2_score", lambda: torch.randn(20), lambda: torch.randn(20)),
        "pearson": metric("pearson_corrcoef", lambda: torch.randn(20), lambda: torch.randn(20)),
        "spearman": metric("spearman_corrcoef", lambda: torch.randn(20), lambda: torch.randn(20)),
        "cosine": metric("pairwise_cosine_similarity", lambda: torch.randn(6, 5), lambda: torch.randn(4, 5)),
        "f1": metric(
            "f1_score",
            lambda: torch.randn(20, 4),
            lambda: ids(20, below=4),
            task="multiclass",
            num_classes=4,
            validate_args=False,
        ),
        "accuracy": metric(
            "accuracy",
            lambda: torch.randn(20, 4),
            lambda: ids(20, below=4),
            task="multiclass",
            num_classes=4,
            average="macro",
            validate_args=False,
        ),
        "calibration": metric(
            "calibration_error", lambda: torch.rand(20), lambda: ids(20, below=2), task="binary", validate_args=False
        ),
        "auroc": metric(
            "auroc", lambda: torch.rand(20), lambda: ids(20, below=2), task="binary", thresholds=5, validate_args=False
        ),
        "confusion": metric(
            "confusion_matrix",
            lambda: torch.randn(20, 4),
            lambda: ids(20, below=4),
            task="multiclass",
            num_classes=4,
            validate_args=False,
        ),
        "si_sdr": metric(
            "scale_invariant_signal_distortion_ratio", lambda: torch.randn(2, 50), lambda: torch.randn(2, 50)
        ),
        "ssim_metric": metric(
            "structural_similarity_index_measure",
            lambda: torch.rand(2, 3, 16, 16),
            lambda: torch.rand(2, 3, 16, 16),
            data_range=1.0,
        ),
    },
}
