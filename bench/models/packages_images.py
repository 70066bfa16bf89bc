"""Models of small packages: images and videos."""

from collections.abc import Callable
from typing import Any

import torch
from case import Made
from packages_making import ids, of, plain, rows

IMAGE = (2, 3, 32, 32)


def vit(path: str, **more: Any) -> Callable[[], Made]:
    """A vision transformer of vit-pytorch."""
    sizes = {"image_size": 32, "patch_size": 8, "num_classes": 10, "dim": 32, "depth": 2, "heads": 4, "mlp_dim": 48}
    return lambda: (
        of(f"vit_pytorch.{path}", **(sizes | more)),
        (torch.randn(IMAGE),),
        {},
    )


def open_clip() -> Made:
    from open_clip.model import CLIP, CLIPTextCfg, CLIPVisionCfg

    vision = CLIPVisionCfg(layers=2, width=64, head_width=16, patch_size=8, image_size=32)
    text = CLIPTextCfg(context_length=12, vocab_size=64, width=32, heads=4, layers=2)
    return CLIP(16, vision, text), (torch.randn(IMAGE), ids(2, 12)), {}


def open_coca() -> Made:
    from open_clip.coca_model import CoCa, MultimodalCfg
    from open_clip.model import CLIPTextCfg, CLIPVisionCfg

    vision = CLIPVisionCfg(
        layers=2, width=32, head_width=16, patch_size=8, image_size=32, attentional_pool=True, output_tokens=True
    )
    text = CLIPTextCfg(
        context_length=12, vocab_size=64, width=32, heads=4, layers=2, embed_cls=True, output_tokens=True
    )
    return (
        CoCa(32, MultimodalCfg(width=32, heads=4, layers=1, context_length=12, vocab_size=64), text, vision),
        (torch.randn(IMAGE), ids(2, 12)),
        {},
    )


MODELS: dict[str, dict[str, Callable[[], Made]]] = {
    "images": {
        "open_clip": open_clip,
        "open_coca": open_coca,
        "vit": vit("ViT"),
        "simple_vit": vit("simple_vit.SimpleViT"),
        "vit_1d": lambda: (
            of(
                "vit_pytorch.vit_1d.ViT", seq_len=32, patch_size=4, num_classes=10, dim=32, depth=2, heads=4, mlp_dim=48
            ),
            (torch.randn(2, 3, 32),),
            {},
        ),
        "vit_3d": lambda: (
            of(
                "vit_pytorch.vit_3d.ViT",
                image_size=16,
                image_patch_size=8,
                frames=4,
                frame_patch_size=2,
                num_classes=10,
                dim=32,
                depth=2,
                heads=4,
                mlp_dim=48,
            ),
            (torch.randn(2, 3, 4, 16, 16),),
            {},
        ),
        "deepvit": vit("deepvit.DeepViT"),
        "cait": vit("cait.CaiT", cls_depth=1),
        "parallel_vit": vit("parallel_vit.ViT", num_parallel_branches=2),
        "small_dataset_vit": vit("vit_for_small_dataset.ViT"),
        "learnable_memory": vit("simple_vit_with_register_tokens.SimpleViT", num_register_tokens=2),
        "qk_norm_vit": vit("simple_vit_with_qk_norm.SimpleViT"),
        "fft_vit": vit("simple_vit_with_fft.SimpleViT", freq_patch_size=8),
        "normalised_vit": vit("normalized_vit.nViT"),
        "max_vit": plain(
            "vit_pytorch.max_vit.MaxViT",
            rows(2, 3, 64, 64),
            num_classes=10,
            dim_conv_stem=16,
            dim=16,
            dim_head=8,
            depth=(1, 1),
            window_size=4,
        ),
        "nest": plain(
            "vit_pytorch.nest.NesT",
            rows(2, 3, 32, 32),
            image_size=32,
            patch_size=4,
            dim=16,
            heads=2,
            num_hierarchies=2,
            block_repeats=(1, 1),
            num_classes=10,
        ),
        "regionvit": plain(
            "vit_pytorch.regionvit.RegionViT",
            rows(2, 3, 56, 56),
            dim=(16, 16, 32, 32),
            depth=(1, 1, 1, 1),
            window_size=1,
            num_classes=10,
        ),
        "twins": plain(
            "vit_pytorch.twins_svt.TwinsSVT",
            rows(2, 3, 64, 64),
            num_classes=10,
            s1_emb_dim=16,
            s2_emb_dim=16,
            s3_emb_dim=16,
            s4_emb_dim=16,
            s1_local_patch_size=4,
            s2_local_patch_size=4,
            s3_local_patch_size=2,
            s4_local_patch_size=2,
            s1_global_k=2,
            s2_global_k=2,
            s3_global_k=2,
            s4_global_k=2,
            s3_depth=1,
        ),
        "levit": plain(
            "vit_pytorch.levit.LeViT",
            rows(2, 3, 64, 64),
            image_size=64,
            num_classes=10,
            stages=2,
            dim=(16, 32),
            depth=1,
            heads=(2, 4),
            mlp_mult=2,
        ),
        "cct": plain(
            "vit_pytorch.cct.CCT",
            rows(2, 3, 32, 32),
            img_size=32,
            embedding_dim=32,
            n_conv_layers=1,
            num_layers=2,
            num_heads=4,
            mlp_ratio=2.0,
            num_classes=10,
            positional_embedding="learnable",
        ),
        "cross_vit": plain(
            "vit_pytorch.cross_vit.CrossViT",
            rows(2, 3, 32, 32),
            image_size=32,
            num_classes=10,
            depth=1,
            sm_dim=16,
            sm_patch_size=8,
            sm_enc_depth=1,
            sm_enc_heads=2,
            sm_enc_mlp_dim=24,
            lg_dim=24,
            lg_patch_size=16,
            lg_enc_depth=1,
            lg_enc_heads=2,
            lg_enc_mlp_dim=24,
            cross_attn_depth=1,
            cross_attn_heads=2,
        ),
        "pit": plain(
            "vit_pytorch.pit.PiT",
            rows(2, 3, 32, 32),
            image_size=32,
            patch_size=8,
            dim=16,
            num_classes=10,
            depth=(1, 1),
            heads=2,
            mlp_dim=24,
        ),
        "t2t": plain(
            "vit_pytorch.t2t.T2TViT",
            rows(2, 3, 32, 32),
            dim=32,
            image_size=32,
            depth=1,
            heads=2,
            mlp_dim=32,
            num_classes=10,
            t2t_layers=((7, 4), (3, 2)),
        ),
        "mobile_vit": plain(
            "vit_pytorch.mobile_vit.MobileViT",
            rows(2, 3, 64, 64),
            image_size=(64, 64),
            dims=[24, 32, 40],
            channels=[8, 8, 16, 16, 16, 16, 16, 16, 24, 24, 32],
            num_classes=10,
        ),
        "vivit": lambda: (
            of(
                "vit_pytorch.vivit.ViViT",
                image_size=16,
                frames=4,
                image_patch_size=8,
                frame_patch_size=2,
                num_classes=10,
                dim=16,
                spatial_depth=1,
                temporal_depth=1,
                heads=2,
                mlp_dim=24,
            ),
            (torch.randn(2, 3, 4, 16, 16),),
            {},
        ),
        "mlp_mixer": plain(
            "mlp_mixer_pytorch.MLPMixer",
            rows(2, 3, 32, 32),
            image_size=32,
            channels=3,
            patch_size=8,
            dim=32,
            depth=2,
            num_classes=10,
        ),
        "bottleneck": plain(
            "bottleneck_transformer_pytorch.BottleStack",
            rows(2, 16, 8, 8),
            dim=16,
            fmap_size=8,
            dim_out=32,
            heads=2,
            dim_head=8,
            num_layers=1,
            rel_pos_emb=True,
        ),
        "halonet": plain(
            "halonet_pytorch.HaloAttention", rows(2, 16, 8, 8), dim=16, block_size=4, halo_size=2, dim_head=8, heads=2
        ),
        "timesformer": plain(
            "timesformer_pytorch.TimeSformer",
            rows(2, 4, 3, 16, 16),
            dim=32,
            image_size=16,
            patch_size=8,
            num_frames=4,
            num_classes=10,
            depth=2,
            heads=2,
            dim_head=8,
        ),
        "diffusion_unet": lambda: (
            of(
                "denoising_diffusion_pytorch.Unet",
                dim=16,
                dim_mults=(1, 2),
                flash_attn=False,
                attn_dim_head=8,
                attn_heads=2,
            ),
            (torch.randn(2, 3, 16, 16), torch.tensor([3, 70])),
            {},
        ),
        "karras_unet": lambda: (
            of(
                "denoising_diffusion_pytorch.KarrasUnet",
                image_size=16,
                channels=3,
                dim=16,
                dim_max=32,
                num_downsamples=1,
                num_blocks_per_stage=1,
                attn_res=(8,),
                attn_dim_head=8,
                fourier_dim=8,
            ),
            (torch.randn(2, 3, 16, 16), torch.rand(2)),
            {},
        ),
    },
}
