"""Architectures of timm: of each family its small members, those of every kind of layer first."""

from functools import partial
from typing import Any

import timm
import torch
from case import Case, Made
from shorten import shallow
from torch import nn

SIZES = (96, 128, 112, 224, 240, 256)  # pixels: the first that a model takes
LIMIT = 85e6  # parameters
NARROW: dict[str, dict[str, int]] = {
    "nasnetalarge": {"num_features": 1152, "stem_size": 24},
    "deepseek_vit_412m": {"embed_dim": 256, "num_heads": 4},
}

NAMES = {
    "convolution": """
        resnet10t ecaresnet26t resnet50_gn resnet50c resnetblur18 resnetaa34d resnetrs50 resnext50_32x4d seresnext26d_32x4d
        ecaresnext26t_32x4d seresnextaa101d_32x8d test_resnet resnetv2_18 resnetv2_50d_evos resnetv2_50d_frn
        resnetv2_50d_gn resnetv2_50x1_bit resnest14d resnest50d_4s2x40d res2net50_14w_8s res2net50d res2next50 skresnet18
        skresnext50_32x4d legacy_seresnet18 legacy_seresnext26_32x4d legacy_xception xception41 xception41p selecsls42b
        densenet121 densenetblur121d dla34 dla46x_c dla60_res2net dpn48b dpn68b vgg11_bn vovnet39a ese_vovnet19b_dw
        ese_vovnet39b_evos eca_vovnet39b cspresnet50 cspresnext50 cspdarknet53 cs3darknet_focus_s cs3sedarknet_l
        cs3edgenet_x darknet17 darknetaa53 sedarknet21 cspnext_tiny hrnet_w18_small hgnet_tiny hgnetv2_b0 inception_v3
        inception_v4 inception_resnet_v2 nasnetalarge pnasnet5large tresnet_m regnetx_002 regnety_002 regnety_040_sgn
        regnetv_040 regnetz_005 regnetz_040_h regnetz_b16_evos regnetz_d8 repvgg_a0 repvgg_d2se mobileone_s0 mobileone_s4
        gernet_s gcresnet33ts gcresnext26ts bat_resnext26ts eca_resnext26ts resnet32ts resnet51q resnet50_clip
        resnet50_clip_gap resnet50_mlp nf_resnet26 nf_ecaresnet26 nf_seresnet26 nf_regnet_b0 eca_nfnet_l0 nfnet_f0
        dm_nfnet_f0 nfnet_l0 test_nfnet convnext_atto convnext_atto_ols convnext_atto_rms convnext_tiny_hnf
        convnext_zepto_rms convnextv2_atto test_convnext test_convnext2 test_convnext3 inception_next_atto rdnet_tiny
        convmixer_768_32 starnet_s050 starnet_s1 fasternet_t0 shvit_s1 mambaout_femto mambaout_small_rw lcnetv2_small
    """,
    "convolution, mobile": """
        efficientnet_b0 efficientnet_b0_gn efficientnet_b0_g8_gn efficientnet_b0_g16_evos efficientnet_blur_b0
        efficientnet_cc_b0_4e efficientnet_cc_b1_8e efficientnet_es efficientnet_lite0 efficientnet_x_b3 efficientnet_h_b5
        efficientnet_b1_pruned efficientnetv2_rw_t gc_efficientnetv2_rw_t efficientnetv2_s tf_efficientnet_b0
        tf_efficientnet_cc_b0_8e tf_efficientnet_lite0 tf_efficientnetv2_b0 tf_mixnet_s mixnet_s mixnet_xl fbnetc_100
        mnasnet_small semnasnet_050 spnasnet_100 mobilenet_edgetpu_100 mobilenet_edgetpu_v2_xs mobilenetv1_100
        mobilenetv1_100h mobilenetv2_035 mobilenetv2_110d tinynet_e test_efficientnet test_efficientnet_evos
        test_efficientnet_gn test_efficientnet_ln fbnetv3_b lcnet_050 mobilenetv3_small_050 mobilenetv3_rw
        tf_mobilenetv3_small_minimal_100 tf_mobilenetv3_large_100 mobilenetv4_conv_small mobilenetv4_conv_aa_medium
        mobilenetv4_conv_blur_medium mobilenetv4_hybrid_medium mobilenetv5_base ghostnet_050 ghostnetv2_100 ghostnetv3_050
        hardcorenas_a repghostnet_050 repvit_m0_9 rexnet_100 rexnetr_100
    """,
    "transformer": """
        vit_tiny_patch16_224 vit_small_patch8_224 vit_base_patch16_clip_quickgelu_224 vit_base_patch16_siglip_224
        vit_base_patch16_siglip_gap_224 vit_base_patch16_rpn_224 vit_base_patch16_xp_224 vit_base_patch16_224_miil
        vit_small_patch14_dinov2 vit_small_patch14_reg4_dinov2 vit_small_patch16_18x2_224 vit_small_patch16_36x1_224
        vit_medium_patch16_gap_240 vit_dlittle_patch16_reg1_gap_256 vit_dpwee_patch16_reg1_gap_256
        vit_dwee_patch16_reg1_gap_256 vit_pwee_patch16_reg1_gap_256 vit_wee_patch16_reg1_gap_256
        vit_xsmall_patch16_clip_224 vit_base_patch14_reg1_tipsv2 vit_base_patch16_radio_v3 beit3_base_patch16_224
        flexivit_small aimv2_large_patch14_224 test_vit test_vit2 test_vit3 test_vit4 vit_relpos_small_patch16_224
        vit_relpos_base_patch16_cls_224 vit_relpos_small_patch16_rpn_224 vit_srelpos_small_patch16_224 test_vit_relpos
        samvit_base_patch16_224 deit_tiny_patch16_224 deit_tiny_distilled_patch16_224 deit3_small_patch16_224
        beit_base_patch16_224 beitv2_base_patch16_224 eva02_tiny_patch14_224 eva02_base_patch16_clip_224
        vit_small_patch16_dinov3 vit_small_patch16_dinov3_qkvb vit_small_plus_patch16_dinov3 vit_small_patch16_lingbot
        vit_small_patch16_rope_224 vit_small_patch16_rope_ape_224 vit_small_patch16_rope_mixed_224
        vit_medium_patch16_rope_reg1_gap_256 vit_pe_core_tiny_patch16_384 vit_base_patch16_sapiens2
        naflexvit_base_patch16_gap naflexvit_base_patch16_map naflexvit_base_patch16_parfac_gap
        naflexvit_base_patch16_siglip qwen3_vit_88m qwen3_vit_88m_merge gemma4_vit_167m gemma4_vit_167m_enc
        deepseek_vit_412m cait_xxs24_224 crossvit_tiny_240 crossvit_9_dagger_240 swin_tiny_patch4_window7_224
        swin_s3_tiny_224 swinv2_tiny_window8_256 swinv2_cr_tiny_224 swinv2_cr_tiny_ns_224 tnt_s_patch16_224
        tnt_s_legacy_patch16_224 twins_pcpvt_small twins_svt_small xcit_nano_12_p8_224 xcit_tiny_12_p16_224
        pit_ti_224 pit_ti_distilled_224 volo_d1_224 nest_tiny nest_tiny_jx hiera_tiny_224 hiera_small_abswin_256
        sam2_hiera_tiny hieradet_small davit_tiny davit_base_fl gcvit_xxtiny mvitv2_tiny mvitv2_small_cls pvt_v2_b0 pvt_v2_b2_li
        focalnet_tiny_srf focalnet_tiny_lrf tiny_vit_5m_224 convit_tiny
    """,
    "hybrid": """
        botnet26t_256 eca_botnext26ts_256 halonet26t eca_halonext26ts haloregnetz_b lambda_resnet26t
        lambda_resnet26rpt_256 lamhalobotnet50ts_256 sebotnet33ts_256 halo2botnet50ts_256 coat_tiny coat_lite_tiny
        coat_lite_medium coatnet_pico_rw_224 coatnet_nano_cc_224 coatnet_rmlp_nano_rw_224 coatnet_bn_0_rw_224
        coatnext_nano_rw_224 coatnet_0_224 maxvit_pico_rw_256 maxvit_rmlp_pico_rw_256 maxvit_tiny_pm_256 maxvit_tiny_tf_224
        maxxvit_rmlp_nano_rw_256 maxxvitv2_nano_rw_256 test_coatnet test_maxvit convformer_s18 caformer_s18 poolformer_s12
        poolformerv2_s12 edgenext_xx_small edgenext_small_rw efficientformer_l1 efficientformerv2_s0 efficientvim_m1
        efficientvim_m1_dist efficientvit_b0 efficientvit_l1 efficientvit_m0 fastvit_t8 fastvit_sa12 fastvit_mci0 iformer_t
        iformer_l_distilled lowformer_b0 lowformer_e1 levit_128s levit_conv_128s levit_256d mobilevit_xxs mobilevitv2_050 nextvit_small
        swiftformer_xs visformer_tiny vit_tiny_r_s16_p8_224 vit_small_resnet26d_224 vit_base_mci_224 vitamin_small_224
        csatv2 cpubone_nano cpubone_b0_bfrobust cpubone_b1_dwnorm sequencer2d_s
    """,
    "mixer": "mixer_s16_224 gmixer_12_224 gmlp_ti16_224 resmlp_12_224",
}


def cases() -> dict[str, Case]:
    return {name: Case(group, partial(make, name)) for group, names in NAMES.items() for name in names.split()}


def make(name: str) -> Made:
    model, x = sized(name)
    parameters = sum(p.numel() for p in model.parameters())
    if parameters > LIMIT:
        raise ValueError(f"{parameters / 1e6:.0f} million parameters")
    return model, (x,), {}


def sized(name: str) -> tuple[nn.Module, torch.Tensor]:
    """With the smallest images that it takes."""
    first: Exception | None = None
    for size in SIZES:
        try:
            build = partial(timm.create_model, name, num_classes=10, **given(name, size), **NARROW.get(name, {}))
            channels = timm.get_pretrained_cfg(name).input_size[0]
            x = torch.randn(2, channels, size, size)
            model = shallow(build, x)
            with torch.no_grad():
                model(x)
            return model, x
        except Exception as error:
            first = first or error
    raise first or ValueError("takes no size")


def given(name: str, size: int) -> dict[str, Any]:
    """The size too, for those that are built for one."""
    try:
        with torch.device("meta"):
            timm.create_model(name, num_classes=10, img_size=size)
    except TypeError as error:
        if "img_size" in str(error):
            return {}
    except Exception:  # not all can be made without memory; they take it
        pass
    return {"img_size": size}
