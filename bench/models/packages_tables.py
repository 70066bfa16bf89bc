"""Models of small packages: segmentation, tables, flows, codes, molecules."""

from collections.abc import Callable
from typing import Any

import torch
from case import Made
from packages_making import Method, ids, of, plain, rows


def smp(kind: str, encoder: str = "resnet18", side: int = 64, **kwargs: Any) -> Callable[[], Made]:
    path, images = f"segmentation_models_pytorch.{kind}", rows(2, 3, side, side)
    return plain(path, images, encoder, encoder_weights=None, classes=3, **kwargs)


def flow(name: str) -> Callable[[], Made]:
    def make() -> Made:
        from nflows import distributions, flows, transforms

        kinds = {
            "maf": lambda: transforms.MaskedAffineAutoregressiveTransform(4, 16),
            "rqs": lambda: transforms.MaskedPiecewiseRationalQuadraticAutoregressiveTransform(
                4, 16, num_bins=5, tails="linear"
            ),
            "lu": lambda: transforms.LULinear(4),
        }
        each = [kinds[name](), transforms.ReversePermutation(4)] * 2
        made = flows.Flow(transforms.CompositeTransform(each), distributions.StandardNormal([4]))
        return Method(made, "log_prob"), (torch.randn(5, 4),), {}

    return make


MODELS: dict[str, dict[str, Callable[[], Made]]] = {
    "segmentation": {
        "unet": smp("Unet"),
        "unet_plus_plus": smp("UnetPlusPlus"),
        "unet_scse": smp("Unet", decoder_attention_type="scse"),
        "manet": smp("MAnet"),
        "linknet": smp("Linknet"),
        "fpn": smp("FPN"),
        "pspnet": smp("PSPNet"),
        "pan": smp("PAN", side=128),
        "deeplab": smp("DeepLabV3"),
        "deeplab_plus": smp("DeepLabV3Plus"),
        "upernet": smp("UPerNet"),
        "segformer": smp("Segformer", "mit_b0"),
        "dice_loss": lambda: (
            of("segmentation_models_pytorch.losses.DiceLoss", "multiclass"),
            (torch.randn(2, 3, 8, 8), ids(2, 8, 8, below=3)),
            {},
        ),
        "lovasz_loss": lambda: (
            of("segmentation_models_pytorch.losses.LovaszLoss", "binary"),
            (torch.randn(2, 1, 8, 8), ids(2, 1, 8, 8, below=2)),
            {},
        ),
        "focal_loss": lambda: (
            of("segmentation_models_pytorch.losses.FocalLoss", "binary"),
            (torch.randn(2, 1, 8, 8), ids(2, 1, 8, 8, below=2)),
            {},
        ),
    },
    "tables, flows, codes": {
        "ft_transformer": lambda: (
            of(
                "rtdl_revisiting_models.FTTransformer",
                n_cont_features=4,
                cat_cardinalities=[3, 5],
                d_out=2,
                n_blocks=1,
                d_block=16,
                attention_n_heads=2,
                attention_dropout=0.0,
                ffn_d_hidden_multiplier=2.0,
                ffn_dropout=0.0,
                residual_dropout=0.0,
            ),
            (torch.randn(5, 4), ids(5, 2, below=3)),
            {},
        ),
        "tabular_resnet": plain(
            "rtdl_revisiting_models.ResNet",
            rows(5, 4),
            d_in=4,
            d_out=2,
            n_blocks=1,
            d_block=16,
            d_hidden=24,
            d_hidden_multiplier=None,
            dropout1=0.0,
            dropout2=0.0,
        ),
        "tab_transformer": lambda: (
            of(
                "tab_transformer_pytorch.TabTransformer",
                categories=(3, 5),
                num_continuous=4,
                dim=16,
                depth=1,
                heads=2,
                mlp_act=torch.nn.ReLU(),
            ),
            (ids(5, 2, below=3), torch.randn(5, 4)),
            {},
        ),
        "tab_ft": lambda: (
            of("tab_transformer_pytorch.FTTransformer", categories=(3, 5), num_continuous=4, dim=16, depth=1, heads=2),
            (ids(5, 2, below=3), torch.randn(5, 4)),
            {},
        ),
        "flow_maf": flow("maf"),
        "flow_spline": flow("rqs"),
        "flow_lu": flow("lu"),
        "vq": plain("vector_quantize_pytorch.VectorQuantize", rows(2, 10, 8), dim=8, codebook_size=16),
        "vq_cosine": plain(
            "vector_quantize_pytorch.VectorQuantize",
            rows(2, 10, 8),
            dim=8,
            codebook_size=16,
            use_cosine_sim=True,
            heads=2,
            separate_codebook_per_head=True,
        ),
        "residual_vq": plain(
            "vector_quantize_pytorch.ResidualVQ", rows(2, 10, 8), dim=8, codebook_size=16, num_quantizers=3
        ),
        "fsq": plain("vector_quantize_pytorch.FSQ", rows(2, 10, 8), [8, 5, 5], dim=8),
        "residual_fsq": plain(
            "vector_quantize_pytorch.ResidualFSQ", rows(2, 10, 8), levels=[8, 5], num_quantizers=2, dim=8
        ),
        "lfq": plain("vector_quantize_pytorch.LFQ", rows(2, 10, 8), codebook_size=16, dim=8),
        "latent_quantise": plain("vector_quantize_pytorch.LatentQuantize", rows(2, 8, 10), levels=[5, 5], dim=8),
        "sim_vq": plain("vector_quantize_pytorch.SimVQ", rows(2, 10, 8), dim=8, codebook_size=16),
        "random_quantise": plain(
            "vector_quantize_pytorch.RandomProjectionQuantizer",
            rows(2, 10, 8),
            dim=8,
            codebook_dim=4,
            codebook_size=16,
            num_codebooks=2,
        ),
        "egnn": lambda: (of("egnn_pytorch.EGNN", dim=8), (torch.randn(2, 6, 8), torch.randn(2, 6, 3)), {}),
        "egnn_neighbours": lambda: (
            of("egnn_pytorch.EGNN", dim=8, num_nearest_neighbors=3),
            (torch.randn(2, 6, 8), torch.randn(2, 6, 3)),
            {},
        ),
        "en_transformer": lambda: (
            of("en_transformer.EnTransformer", dim=8, depth=1, dim_head=40, heads=2, neighbors=3),
            (torch.randn(1, 6, 8), torch.randn(1, 6, 3)),
            {},
        ),
        "invariant_points": lambda: (
            of(
                "invariant_point_attention.IPABlock",
                dim=8,
                heads=2,
                scalar_key_dim=4,
                scalar_value_dim=4,
                point_key_dim=2,
                point_value_dim=2,
                require_pairwise_repr=False,
            ),
            (torch.randn(1, 6, 8),),
            {"rotations": torch.eye(3).repeat(1, 6, 1, 1), "translations": torch.randn(1, 6, 3)},
        ),
    },
}
