"""Models of small packages: volumes of medicine (monai): networks, losses, metrics, what finishes a prediction."""

from collections.abc import Callable
from typing import Any

import torch
from case import Made
from packages_making import Function, ids, of, plain, rows

VOLUME, IMAGES = (2, 1, 32, 32, 32), (2, 1, 32, 32)


def net(name: str, *shape: int, **kwargs: Any) -> Callable[[], Made]:
    return plain(f"monai.networks.nets.{name}", rows(*(shape or VOLUME)), **kwargs)


def segmented(path: str, *shape: int, classes: int = 3, **kwargs: Any) -> Callable[[], Made]:
    """A loss or metric of scores and a mask of one class a voxel."""
    size = shape or (12, 12, 12)
    return lambda: (
        of(f"monai.{path}", **kwargs),
        (torch.randn(2, classes, *size), ids(2, 1, *size, below=classes)),
        {},
    )


def one_hot(*size: int, classes: int = 3) -> torch.Tensor:
    return torch.nn.functional.one_hot(ids(2, *size, below=classes), classes).movedim(-1, 1).float()


def masks(path: str, **kwargs: Any) -> Callable[[], Made]:
    """A metric of two masks, one channel a class."""
    made = lambda: of(f"monai.metrics.{path}", **kwargs)
    return lambda: (Function(made()), (one_hot(10, 10, 10), one_hot(10, 10, 10)), {})


def diffusion() -> Made:
    sizes = {"channels": [8, 16], "attention_levels": [False, True], "num_res_blocks": 1, "num_head_channels": 8}
    made = of("monai.networks.nets.DiffusionModelUNet", 2, 1, 1, norm_num_groups=4, **sizes)
    return made, (torch.randn(IMAGES), torch.tensor([3, 700])), {}


def autoencoder() -> Made:
    sizes = {"channels": [8, 16], "attention_levels": [False, False], "num_res_blocks": 1, "norm_num_groups": 4}
    made = of(
        "monai.networks.nets.AutoencoderKL", 2, 1, 1, latent_channels=2, with_encoder_nonlocal_attn=False, **sizes
    )
    return Function(made.reconstruct, made), (torch.randn(IMAGES),), {}


def voxel_morph() -> Made:
    made = of("monai.networks.nets.VoxelMorph")
    return made, (torch.rand(1, 1, 32, 32, 32), torch.rand(1, 1, 32, 32, 32)), {}


def sliding_windows() -> Made:
    from monai.inferers import sliding_window_inference

    made = of("monai.networks.nets.UNet", spatial_dims=2, in_channels=1, out_channels=2, channels=(4, 8), strides=(2,))

    def forward(x: torch.Tensor) -> Any:
        return sliding_window_inference(x, (16, 16), 4, made, overlap=0.25, mode="gaussian")

    return Function(forward, made), (torch.randn(2, 1, 40, 36),), {}


def warp() -> Made:
    from monai.networks.blocks import Warp

    return Warp("bilinear", "border"), (torch.rand(2, 1, 12, 12, 12), torch.randn(2, 3, 12, 12, 12)), {}


MODELS: dict[str, dict[str, Callable[[], Made]]] = {
    "medicine": {
        "monai_unet": net(
            "UNet", spatial_dims=3, in_channels=1, out_channels=2, channels=(4, 8, 16), strides=(2, 2), num_res_units=2
        ),
        "basic_unet": net("BasicUNet", 1, 1, 32, 32, 32, spatial_dims=3, out_channels=2, features=(4, 4, 8, 8, 16, 4)),
        "basic_unet_plus": net(
            "BasicUNetPlusPlus", *IMAGES, spatial_dims=2, out_channels=2, features=(4, 4, 8, 8, 16, 4)
        ),
        "swin_unetr": net(
            "SwinUNETR",
            1,
            1,
            64,
            64,
            in_channels=1,
            out_channels=2,
            feature_size=12,
            spatial_dims=2,
            depths=(1, 1, 1, 1),
            num_heads=(1, 2, 2, 4),
        ),
        "swin_unetr_3d": net(
            "SwinUNETR",
            1,
            1,
            64,
            64,
            64,
            in_channels=1,
            out_channels=2,
            feature_size=12,
            depths=(1, 1, 1, 1),
            num_heads=(1, 2, 2, 4),
            use_v2=True,
        ),
        "unetr": net(
            "UNETR",
            in_channels=1,
            out_channels=2,
            img_size=(32, 32, 32),
            feature_size=4,
            hidden_size=24,
            mlp_dim=32,
            num_heads=4,
        ),
        "seg_res_net": net("SegResNet", init_filters=8, blocks_down=(1, 1, 1), blocks_up=(1, 1)),
        "seg_res_net_vae": net("SegResNetDS", init_filters=8, blocks_down=(1, 1, 1), dsdepth=2),
        "dyn_unet": net(
            "DynUNet",
            spatial_dims=3,
            in_channels=1,
            out_channels=2,
            kernel_size=[3, 3, 3],
            strides=[1, 2, 2],
            upsample_kernel_size=[2, 2],
            filters=[4, 8, 8],
            res_block=True,
        ),
        "attention_unet": net(
            "AttentionUnet", spatial_dims=3, in_channels=1, out_channels=2, channels=(4, 8, 16), strides=(2, 2)
        ),
        "v_net": net("VNet", 1, 1, 32, 32, 32, act=("relu", {"inplace": False})),
        "high_res_net": net("HighResNet", 1, 1, 16, 16, 16),
        "medical_dense_net": net(
            "DenseNet",
            *IMAGES,
            spatial_dims=2,
            in_channels=1,
            out_channels=3,
            init_features=8,
            growth_rate=4,
            block_config=(2, 2),
        ),
        "medical_vit": net(
            "ViT",
            *IMAGES,
            in_channels=1,
            img_size=32,
            patch_size=8,
            hidden_size=24,
            mlp_dim=32,
            num_layers=2,
            num_heads=4,
            spatial_dims=2,
            classification=True,
        ),
        "medical_restormer": plain(
            "monai.networks.nets.restormer.Restormer",
            rows(*IMAGES),
            spatial_dims=2,
            in_channels=1,
            out_channels=1,
            dim=8,
            num_blocks=(1, 1),
            heads=(1, 2),
            num_refinement_blocks=1,
        ),
        "med_next": net(
            "MedNeXt",
            init_filters=4,
            out_channels=2,
            encoder_expansion_ratio=(2, 2, 2, 2),
            decoder_expansion_ratio=(2, 2, 2, 2),
            bottleneck_expansion_ratio=2,
            blocks_down=(1, 1, 1, 1),
            blocks_up=(1, 1, 1, 1),
            blocks_bottleneck=1,
        ),
        "medical_diffusion": diffusion,
        "medical_autoencoder": autoencoder,
        "voxel_morph": voxel_morph,
        "flexible_unet": net("FlexibleUNet", 1, 3, 64, 64, in_channels=3, out_channels=2, backbone="efficientnet-b0"),
        "vqvae": net(
            "VQVAE",
            *IMAGES,
            spatial_dims=2,
            in_channels=1,
            out_channels=1,
            channels=(8, 8),
            num_res_channels=(8, 8),
            num_res_layers=1,
            downsample_parameters=((2, 4, 1, 1),) * 2,
            upsample_parameters=((2, 4, 1, 1, 0),) * 2,
            num_embeddings=16,
            embedding_dim=8,
        ),
        "sliding_windows": sliding_windows,
        "warp": warp,
        "medical_dice": segmented("losses.DiceLoss", to_onehot_y=True, softmax=True),
        "dice_ce": segmented("losses.DiceCELoss", to_onehot_y=True, softmax=True),
        "generalised_dice": segmented("losses.GeneralizedDiceLoss", to_onehot_y=True, softmax=True),
        "tversky": segmented("losses.TverskyLoss", to_onehot_y=True, softmax=True),
        "focal_dice": segmented("losses.DiceFocalLoss", to_onehot_y=True, softmax=True),
        "soft_cl_dice": lambda: (of("monai.losses.SoftclDiceLoss"), (one_hot(12, 12), one_hot(12, 12)), {}),
        "local_correlation": lambda: (
            of("monai.losses.LocalNormalizedCrossCorrelationLoss"),
            (torch.rand(2, 1, 12, 12, 12), torch.rand(2, 1, 12, 12, 12)),
            {},
        ),
        "mutual_information": lambda: (
            of("monai.losses.GlobalMutualInformationLoss"),
            (torch.rand(2, 1, 12, 12), torch.rand(2, 1, 12, 12)),
            {},
        ),
        "bending_energy": lambda: (of("monai.losses.BendingEnergyLoss"), (torch.rand(2, 3, 8, 8, 8),), {}),
        "dice_metric": masks("DiceHelper", softmax=False, sigmoid=False),
        "generalised_dice_score": lambda: (
            Function(lambda a, b: of("monai.metrics.compute_generalized_dice", a, b)),
            (one_hot(10, 10), one_hot(10, 10)),
            {},
        ),
        "mean_iou": lambda: (
            Function(lambda a, b: of("monai.metrics.compute_iou", a, b)),
            (one_hot(10, 10), one_hot(10, 10)),
            {},
        ),
        "medical_confusion": lambda: (
            Function(lambda a, b: of("monai.metrics.get_confusion_matrix", a, b)),
            (one_hot(10, 10), one_hot(10, 10)),
            {},
        ),
    },
}
