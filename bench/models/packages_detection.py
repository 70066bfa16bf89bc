"""Models of small packages: objects, masks and poses in images, and what learns without labels (ultralytics, effdet,
segment-anything, facenet, pytorchcv, lightly)."""

from collections.abc import Callable
from typing import Any

import torch
from case import Made
from packages_making import Function, ids, of, plain, rows

IMAGES = (2, 3, 64, 64)


def yolo(config: str, side: int = 64, batch: int = 2, **kwargs: Any) -> Callable[[], Made]:
    """A model of a file of ultralytics, as predict() runs it: boxes and scores of all places."""

    def make() -> Made:
        from ultralytics.nn import tasks

        kind = {"cls": "ClassificationModel", "seg": "SegmentationModel", "pose": "PoseModel", "obb": "OBBModel"}
        named = kind.get(config.removesuffix(".yaml").rpartition("-")[2], "DetectionModel")
        if config.startswith("rtdetr"):
            named = "RTDETRDetectionModel"
        made = getattr(tasks, named)(config, ch=3, verbose=False, **kwargs)
        return made, (torch.rand(batch, 3, side, side),), {}

    return make


def yolo_boxes() -> Made:
    """With the suppression of what overlaps."""
    from ultralytics.utils.nms import non_max_suppression

    def forward(found: torch.Tensor) -> Any:
        return non_max_suppression(found, 0.3, 0.5, max_det=20)

    scores = torch.rand(1, 4 + 3, 40)
    scores[:, :2] *= 60
    scores[:, 2:4] = scores[:, 2:4] * 16 + 8
    return Function(forward), (scores,), {}


def efficient_det() -> Made:
    from effdet import EfficientDet, get_efficientdet_config

    config = get_efficientdet_config("tf_efficientdet_lite0")
    config.update(
        {"image_size": (128, 128), "fpn_channels": 16, "fpn_cell_repeats": 1, "box_class_repeats": 1, "num_classes": 4}
    )
    return EfficientDet(config, pretrained_backbone=False), (torch.randn(1, 3, 128, 128),), {}


def segment_anything() -> Made:
    from segment_anything.modeling import ImageEncoderViT, MaskDecoder, PromptEncoder, TwoWayTransformer

    sizes = {"img_size": 64, "patch_size": 8, "embed_dim": 32, "depth": 2, "num_heads": 4, "out_chans": 16}
    image = ImageEncoderViT(**sizes, use_rel_pos=True, window_size=4, global_attn_indexes=(1,))
    prompt = PromptEncoder(16, (8, 8), (64, 64), 8)
    layers = TwoWayTransformer(depth=2, embedding_dim=16, mlp_dim=32, num_heads=2)
    masks = MaskDecoder(
        transformer_dim=16, transformer=layers, num_multimask_outputs=3, iou_head_depth=2, iou_head_hidden_dim=16
    )

    def forward(pixels: torch.Tensor, at: torch.Tensor, labels: torch.Tensor) -> Any:
        sparse, dense = prompt((at, labels), None, None)
        given = {"image_embeddings": image(pixels), "image_pe": prompt.get_dense_pe()}
        return masks(**given, sparse_prompt_embeddings=sparse, dense_prompt_embeddings=dense, multimask_output=True)

    made = Function(forward, image, prompt, masks)
    return made, (torch.randn(1, 3, 64, 64), torch.rand(2, 3, 2) * 64, ids(2, 3, below=2)), {}


def heads(path: str, *args: Any, **kwargs: Any) -> Callable[[], Made]:
    """A head of lightly over features."""
    return plain(f"lightly.models.modules.{path}", rows(6, 16), *args, **kwargs)


def contrast(name: str, *shape: int, **kwargs: Any) -> Callable[[], Made]:
    size = shape or (8, 16)
    return lambda: (of(f"lightly.loss.{name}", **kwargs), (torch.randn(size), torch.randn(size)), {})


def dino_loss() -> Made:
    made = of("lightly.loss.DINOLoss", output_dim=16)
    return (
        Function(lambda t, s: made([t, t * 0.5], [s, s + 0.1], epoch=1), made),
        (torch.randn(6, 16), torch.randn(6, 16)),
        {},
    )


def tokens_at() -> Made:
    from lightly.models import utils

    def forward(tokens: torch.Tensor, kept: torch.Tensor, given: torch.Tensor) -> Any:
        return utils.get_at_index(tokens, kept), utils.set_at_index(tokens, kept, given)

    kept = torch.stack([torch.randperm(16)[:8] for _ in range(4)])
    return Function(forward), (torch.randn(4, 16, 8), kept, torch.randn(4, 8, 8)), {}


def zoo(name: str, *shape: int, **kwargs: Any) -> Callable[[], Made]:
    def make() -> Made:
        from pytorchcv.model_provider import get_model

        return get_model(name, pretrained=False, **kwargs), (torch.randn(shape or (1, 3, 64, 64)),), {}

    return make


def faces(name: str) -> Callable[[], Made]:
    from_files = {"PNet": (2, 3, 24, 24), "RNet": (4, 3, 24, 24), "ONet": (4, 3, 48, 48)}
    return plain(f"facenet_pytorch.models.mtcnn.{name}", rows(*from_files[name]), pretrained=False)


MODELS: dict[str, dict[str, Callable[[], Made]]] = {
    "detection": {
        "yolov8n": yolo("yolov8n.yaml"),
        "yolov8n_seg": yolo("yolov8n-seg.yaml"),
        "yolov8n_pose": yolo("yolov8n-pose.yaml"),
        "yolov8n_cls": yolo("yolov8n-cls.yaml"),
        "yolov8n_obb": yolo("yolov8n-obb.yaml"),
        "yolov5n": yolo("yolov5n.yaml"),
        "yolov9t": yolo("yolov9t.yaml"),
        "yolov10n": yolo("yolov10n.yaml"),
        "yolo11n": yolo("yolo11n.yaml"),
        "yolo12n": yolo("yolo12n.yaml"),
        "yolo26n": yolo("yolo26n.yaml"),
        "yolov6n": yolo("yolov6n.yaml"),
        "rt_detr": yolo("rtdetr-l.yaml"),
        "yolo_boxes": yolo_boxes,
        "efficient_det": efficient_det,
        "segment_anything": segment_anything,
        "face_proposals": faces("PNet"),
        "face_refinement": faces("RNet"),
        "face_points": faces("ONet"),
        "face_embedding": plain("facenet_pytorch.InceptionResnetV1", rows(2, 3, 160, 160), pretrained=None),
    },
    "image nets": {
        "igcv3": zoo("igcv3_wd4", 1, 3, 224, 224),
        "bagnet": zoo("bagnet9", 1, 3, 224, 224),
        "diracnet": zoo("diracnet18v2", 1, 3, 224, 224),
        "hrnet": zoo("hrnet_w18_small_v1", 1, 3, 224, 224),
        "menet": zoo("menet108_8x1_g3", 1, 3, 224, 224),
        "fdmobilenet": zoo("fdmobilenet_wd4", 1, 3, 224, 224),
        "spnasnet": zoo("spnasnet", 1, 3, 224, 224),
        "airnext": zoo("airnext50_32x4d_r2", 1, 3, 224, 224),
        "dabnet": zoo("dabnet_cityscapes", 1, 3, 64, 128),
        "lednet": zoo("lednet_cityscapes", 1, 3, 64, 128),
        "center_net": zoo("centernet_resnet18_coco", 1, 3, 128, 128),
        "alpha_pose": zoo("alphapose_fastseresnet101b_coco", 1, 3, 64, 64),
        "light_openpose": zoo("lwopenpose2d_mobilenet_cmupan_coco", 1, 3, 64, 64),
    },
    "without labels": {
        "simclr_head": heads("SimCLRProjectionHead", 16, 16, 8),
        "byol_head": heads("BYOLProjectionHead", 16, 24, 8),
        "dino_head": heads("DINOProjectionHead", 16, 24, 8, 12),
        "swav_prototypes": heads("SwaVPrototypes", 16, 12),
        "nt_xent": contrast("NTXentLoss"),
        "barlow_twins": contrast("BarlowTwinsLoss"),
        "vicreg": contrast("VICRegLoss"),
        "dcl": contrast("DCLLoss"),
        "tico": contrast("TiCoLoss"),
        "koleo": lambda: (of("lightly.loss.KoLeoLoss"), (torch.randn(8, 16),), {}),
        "negative_cosine": contrast("NegativeCosineSimilarity"),
        "dino_loss": dino_loss,
        "mmcr": lambda: (of("lightly.loss.MMCRLoss"), (torch.randn(4, 3, 16), torch.randn(4, 3, 16)), {}),
        "tokens_at": tokens_at,
    },
}
