"""Models of small packages: images made better, coded and compared (spandrel, super-image, compressai, lpips, piq)."""

from collections.abc import Callable
from typing import Any

import torch
from case import Made
from packages_making import Function, of, plain, rows

IMAGES = (2, 3, 32, 32)


def restore(path: str, *shape: int, **kwargs: Any) -> Callable[[], Made]:
    """One of spandrel's architectures."""
    return plain(f"spandrel.architectures.{path}", rows(*(shape or IMAGES)), **kwargs)


def super_image(name: str, **kwargs: Any) -> Callable[[], Made]:
    def make() -> Made:
        config = of(f"super_image.{name}Config", scale=2, **kwargs)
        return of(f"super_image.{name}Model", config), (torch.rand(IMAGES),), {}

    return make


def coded(name: str, *sizes: int, side: int = 64) -> Callable[[], Made]:
    def make() -> Made:
        made = of(f"compressai.models.{name}", *sizes)
        return made, (torch.rand(1, 3, side, side),), {}

    return make


def compared(path: str, *shape: int, **kwargs: Any) -> Callable[[], Made]:
    size = shape or IMAGES
    return lambda: (of(path, **kwargs), (torch.rand(size), torch.rand(size)), {})


def function(path: str, *shape: int, **kwargs: Any) -> Callable[[], Made]:
    size = shape or IMAGES
    return lambda: (Function(lambda *given: of(path, *given, **kwargs)), (torch.rand(size), torch.rand(size)), {})


MODELS: dict[str, dict[str, Callable[[], Made]]] = {
    "restoration": {
        "esrgan": restore("ESRGAN.ESRGAN", num_filters=8, num_blocks=1),
        "compact": restore("Compact.Compact", num_feat=8, num_conv=2, upscale=2),
        "swin_ir": restore(
            "SwinIR.SwinIR",
            img_size=32,
            window_size=8,
            depths=[1, 1],
            embed_dim=12,
            num_heads=[2, 2],
            upscale=2,
            upsampler="pixelshuffle",
        ),
        "swin2_sr": restore(
            "Swin2SR.Swin2SR",
            img_size=32,
            window_size=8,
            depths=[1, 1],
            embed_dim=12,
            num_heads=[2, 2],
            upscale=2,
            upsampler="pixelshuffledirect",
        ),
        "hat": restore(
            "HAT.HAT",
            img_size=32,
            window_size=8,
            depths=(1, 1),
            embed_dim=12,
            num_heads=(2, 2),
            upscale=2,
            upsampler="pixelshuffle",
            compress_ratio=3,
            squeeze_factor=6,
        ),
        "dat": restore("DAT.DAT", img_size=32, split_size=[4, 8], depth=[2], embed_dim=16, num_heads=[2], upscale=2),
        "drct": restore(
            "DRCT.DRCT",
            img_size=32,
            window_size=8,
            depths=(1,),
            embed_dim=12,
            num_heads=(2,),
            gc=4,
            upscale=2,
            upsampler="pixelshuffle",
        ),
        "atd": restore(
            "ATD.ATD",
            img_size=32,
            window_size=8,
            depths=(1,),
            embed_dim=12,
            num_heads=(2,),
            upscale=2,
            category_size=32,
            num_tokens=8,
            reducted_dim=4,
            upsampler="pixelshuffledirect",
        ),
        "grl": restore(
            "GRL.GRL",
            img_size=32,
            embed_dim=12,
            depths=[1],
            num_heads_window=[2],
            num_heads_stripe=[2],
            window_size=8,
            stripe_size=[8, 8],
            upscale=2,
        ),
        "naf_net": restore("NAFNet.NAFNet", width=8, enc_blk_nums=[1, 1], dec_blk_nums=[1, 1]),
        "sc_unet": restore("SCUNet.SCUNet", 1, 3, 64, 64, config=[1] * 7, dim=64, input_resolution=64),
        "uformer": restore(
            "Uformer.Uformer", 1, 3, 128, 128, img_size=128, embed_dim=8, depths=[1] * 9, num_heads=[1] * 9
        ),
        "omni_sr": restore("OmniSR.OmniSR", num_feat=16, block_num=1, res_num=1, up_scale=2, window_size=8),
        "span": restore("SPAN.SPAN", num_in_ch=3, num_out_ch=3, feature_channels=12, upscale=2),
        "plksr": restore("PLKSR.PLKSR", dim=16, n_blocks=2, upscaling_factor=2, kernel_size=7),
        "rgt": restore("RGT.RGT", img_size=32, split_size=[4, 8], depth=[2], embed_dim=12, num_heads=[2], upscale=2),
        "craft": restore(
            "CRAFT.CRAFT",
            window_size=8,
            depths=[1],
            embed_dim=12,
            num_heads=[2],
            split_size_0=4,
            split_size_1=8,
            upscale=2,
        ),
        "rcan": restore("RCAN.RCAN", scale=2, n_resgroups=1, n_resblocks=2, n_feats=16, reduction=4),
        "dn_cnn": restore("DnCNN.DnCNN", in_nc=3, out_nc=3, nc=8, nb=3, mode="R"),
        "dru_net": restore("DRUNet.DRUNet", 2, 4, 32, 32, in_nc=4, out_nc=3, nc=[8, 8, 16, 16], nb=1),
        "kb_net": restore("KBNet.KBNet_s", width=8, enc_blk_nums=[1, 1], dec_blk_nums=[1, 1]),
        "retinex_former": restore("RetinexFormer.RetinexFormer", n_feat=8, stage=1, num_blocks=[1, 1, 1]),
        "fft_former": restore("FFTformer.FFTformer", dim=8, num_blocks=[1, 1, 1], num_refinement_blocks=1),
        "safmn": restore("SAFMN.SAFMN", dim=16, n_blocks=2, upscaling_factor=2),
        "ditn": restore("DITN.DITN", dim=12, ITL_blocks=1, SAL_blocks=1, UFONE_blocks=1, patch_size=8, upscale=2),
        "mosr": restore("MoSR.MoSR", n_block=2, dim=16, upscale=2),
        "mix_dehaze": restore("MixDehazeNet.MixDehazeNet", 1, 3, 64, 64, embed_dims=[8, 16, 32, 16, 8], depths=[1] * 5),
        "edsr": super_image("Edsr", n_resblocks=2, n_feats=16),
        "msrn": super_image("Msrn", n_blocks=2, n_feats=16),
        "a2n": super_image("A2n"),
        "carn": super_image("Carn"),
    },
    "codes of images, measures": {
        "factorised_prior": coded("FactorizedPrior", 8, 12),
        "scale_hyperprior": coded("ScaleHyperprior", 8, 12),
        "mean_scale_hyperprior": coded("MeanScaleHyperprior", 8, 12),
        "joint_priors": coded("JointAutoregressiveHierarchicalPriors", 8, 12),
        "cheng_attention": coded("Cheng2020Attention", 8),
        "elic": coded("Elic2022Chandelier", 16, 192),
        "lpips": compared("lpips.LPIPS", 2, 3, 64, 64, net="alex", pretrained=False, pnet_rand=True, verbose=False),
        "ms_ssim": compared("pytorch_msssim.MS_SSIM", 2, 3, 96, 96, data_range=1.0, win_size=5, channel=3),
        "piq_gmsd": function("piq.gmsd"),
        "piq_fsim": function("piq.fsim"),
        "piq_vif": function("piq.vif_p", 2, 3, 48, 48),
        "piq_vsi": function("piq.vsi"),
        "piq_haarpsi": function("piq.haarpsi"),
        "piq_mdsi": function("piq.mdsi"),
        "piq_iw_ssim": function("piq.information_weighted_ssim", 1, 1, 176, 176),
        "piq_tv": lambda: (Function(lambda x: of("piq.total_variation", x)), (torch.rand(IMAGES),), {}),
    },
}
