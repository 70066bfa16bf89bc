"""Models of small packages: losses over embeddings and labels (pytorch-metric-learning), sparse softmaxes, transforms
(entmax, torch-dct, ptwt), points (kornia and what pytorch3d has)."""

from collections.abc import Callable
from typing import Any

import torch
from case import Made
from packages_making import Function, of

COUNT, CLASSES = 12, 3


def labels() -> torch.Tensor:
    return torch.arange(COUNT) % CLASSES


def metric_loss(name: str, *, classes: bool = False, **kwargs: Any) -> Callable[[], Made]:
    """classes: whether it has a weight for each of them."""
    more = {"num_classes": CLASSES, "embedding_size": 16} if classes else {}
    path = f"pytorch_metric_learning.losses.{name}"
    return lambda: (of(path, **more, **kwargs), (torch.randn(COUNT, 16), labels()), {})


def mined() -> Made:
    from pytorch_metric_learning import losses, miners

    miner, loss = miners.MultiSimilarityMiner(), losses.TripletMarginLoss()
    return Function(lambda x, y: loss(x, y, miner(x, y))), (torch.randn(COUNT, 16), labels()), {}


def chamfer(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """As pytorch3d's: the mean of each point's squared distance to the nearest of the other cloud, both ways."""
    apart = torch.cdist(a, b).square()
    return apart.amin(2).mean() + apart.amin(1).mean()


def sampled_farthest(points: torch.Tensor) -> torch.Tensor:
    """As pytorch3d's: each next point is the farthest from those that were taken."""
    taken = [torch.zeros(points.shape[0], dtype=torch.int64)]
    least = torch.full(points.shape[:2], float("inf"))
    for _ in range(7):
        at = points.gather(1, taken[-1][:, None, None].expand(-1, 1, 3))
        least = torch.minimum(least, (points - at).square().sum(-1).to(least.dtype))
        taken.append(least.argmax(1))
    return torch.stack(taken, 1)


def nearest(points: torch.Tensor, other: torch.Tensor) -> Any:
    found = torch.cdist(points, other).topk(4, largest=False)
    return other[torch.arange(2)[:, None, None], found.indices], found.values


def sinkhorn(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Entropic transport between two clouds."""
    cost = torch.cdist(a, b).square()
    f, g = torch.zeros(cost.shape[:2], dtype=cost.dtype), torch.zeros(cost.shape[0], cost.shape[2], dtype=cost.dtype)
    for _ in range(10):
        f = -0.1 * torch.logsumexp((g.unsqueeze(1) - cost) / 0.1, 2)
        g = -0.1 * torch.logsumexp((f.unsqueeze(2) - cost) / 0.1, 1)
    return ((f.unsqueeze(2) + g.unsqueeze(1) - cost) / 0.1).exp().mul(cost).sum((1, 2))


def of_points(function: Callable[..., Any], count: int = 2, points: int = 20) -> Callable[[], Made]:
    return lambda: (Function(function), tuple(torch.randn(2, points, 3) for _ in range(count)), {})


def kornia(path: str, *shapes: tuple[int, ...], **kwargs: Any) -> Callable[[], Made]:
    """A function of kornia."""
    return lambda: (Function(lambda *g: of(f"kornia.{path}", *g, **kwargs)), tuple(torch.rand(s) for s in shapes), {})


def homography() -> Made:
    from kornia import geometry

    at = torch.eye(3) + torch.randn(2, 3, 3) * 0.02
    return Function(lambda x, m: geometry.warp_perspective(x, m, (16, 16))), (torch.rand(2, 3, 16, 16), at), {}


def direct_linear() -> Made:
    points = torch.rand(2, 8, 2)
    from kornia.geometry.homography import find_homography_dlt

    return Function(find_homography_dlt), (points, points + torch.rand(2, 8, 2) * 0.05), {}


def loftr() -> Made:
    from kornia.feature.loftr.loftr_module import LocalFeatureTransformer

    made = LocalFeatureTransformer({"d_model": 16, "nhead": 2, "layer_names": ["self", "cross"], "attention": "linear"})
    return made, (torch.randn(2, 20, 16), torch.randn(2, 16, 16)), {}


MODELS: dict[str, dict[str, Callable[[], Made]]] = {
    "losses over labels": {
        "contrastive": metric_loss("ContrastiveLoss"),
        "triplet": metric_loss("TripletMarginLoss"),
        "multi_similarity": metric_loss("MultiSimilarityLoss"),
        "circle": metric_loss("CircleLoss"),
        "supcon": metric_loss("SupConLoss"),
        "nt_xent_labels": metric_loss("NTXentLoss"),
        "n_pairs": metric_loss("NPairsLoss"),
        "nca": metric_loss("NCALoss"),
        "lifted": metric_loss("GeneralizedLiftedStructureLoss"),
        "fast_ap": metric_loss("FastAPLoss"),
        "smooth_ap": metric_loss("SmoothAPLoss"),
        "angular": metric_loss("AngularLoss"),
        "tuplet": metric_loss("TupletMarginLoss"),
        "intra_pair": metric_loss("IntraPairVarianceLoss"),
        "signal_to_noise": metric_loss("SignalToNoiseRatioContrastiveLoss"),
        "histogram": metric_loss("HistogramLoss", n_bins=10),
        "arc_face": metric_loss("ArcFaceLoss", classes=True),
        "cos_face": metric_loss("CosFaceLoss", classes=True),
        "sphere_face": metric_loss("SphereFaceLoss", classes=True),
        "sub_center": metric_loss("SubCenterArcFaceLoss", classes=True),
        "proxy_anchor": metric_loss("ProxyAnchorLoss", classes=True),
        "proxy_nca": metric_loss("ProxyNCALoss", classes=True),
        "soft_triple": metric_loss("SoftTripleLoss", classes=True),
        "normalised_softmax": metric_loss("NormalizedSoftmaxLoss", classes=True),
        "large_margin": metric_loss("LargeMarginSoftmaxLoss", classes=True),
        "mined": mined,
    },
    "points, transforms": {
        "chamfer": of_points(chamfer),
        "farthest": of_points(sampled_farthest, 1),
        "nearest_points": of_points(nearest),
        "sinkhorn": of_points(sinkhorn),
        "entmax": lambda: (of("entmax.Entmax15", dim=-1), (torch.randn(3, 9),), {}),
        "sparsemax": lambda: (of("entmax.Sparsemax", dim=-1), (torch.randn(3, 9),), {}),
        "entmax_bisect": lambda: (of("entmax.EntmaxBisect", alpha=1.3), (torch.randn(3, 9),), {}),
        "dct": lambda: (Function(lambda x: of("torch_dct.dct_2d", x)), (torch.randn(2, 8, 12),), {}),
        "idct": lambda: (Function(lambda x: of("torch_dct.idct", x)), (torch.randn(2, 12),), {}),
        "wavelets": lambda: (Function(lambda x: of("ptwt.wavedec", x, "db2", level=2)), (torch.randn(2, 64),), {}),
        "wavelets_2d": lambda: (
            Function(lambda x: of("ptwt.wavedec2", x, "haar", level=2)),
            (torch.randn(2, 16, 16),),
            {},
        ),
        "wavelet_packets": lambda: (
            Function(lambda x: of("ptwt.waverec", of("ptwt.wavedec", x, "sym3", level=2), "sym3")),
            (torch.randn(2, 64),),
            {},
        ),
        "warp_perspective": homography,
        "find_homography": direct_linear,
        "rotate": lambda: (
            Function(lambda x, a: of("kornia.geometry.rotate", x, a)),
            (torch.rand(2, 3, 16, 16), torch.tensor([30.0, -10.0])),
            {},
        ),
        "elastic": kornia(
            "geometry.elastic_transform2d", (2, 1, 16, 16), (2, 2, 16, 16), kernel_size=(5, 5), sigma=(2.0, 2.0)
        ),
        "clahe": kornia("enhance.equalize_clahe", (1, 1, 32, 32), grid_size=(4, 4)),
        "equalise": kornia("enhance.equalize", (2, 1, 16, 16)),
        "guided": kornia("filters.guided_blur", (1, 3, 16, 16), (1, 3, 16, 16), kernel_size=3, eps=0.1),
        "unsharp": kornia("filters.unsharp_mask", (2, 3, 16, 16), kernel_size=(5, 5), sigma=(1.5, 1.5)),
        "morphology": kornia("morphology.opening", (2, 1, 16, 16), (3, 3)),
        "distance_transform": kornia("contrib.distance_transform", (1, 1, 16, 16)),
        "image_histogram": kornia("enhance.image_histogram2d", (2, 1, 8, 8), n_bins=16),
        "loftr_layers": loftr,
        "sosnet": lambda: (of("kornia.feature.SOSNet", pretrained=False), (torch.rand(3, 1, 32, 32),), {}),
        "key_net": lambda: (of("kornia.feature.KeyNet", pretrained=False), (torch.rand(1, 1, 32, 32),), {}),
        "ssim_3d": kornia("losses.ssim3d_loss", (1, 1, 8, 12, 12), (1, 1, 8, 12, 12), window_size=3),
    },
}
