"""Models of small packages: forecasts of series and rows of tables (gluonts, tsai, pytorch-forecasting, chronos, pytorch-tcn,
pytorch-tabnet, deepctr)."""

from collections.abc import Callable
from typing import Any

import torch
from case import Made
from packages_making import Function, ids, of, plain, rows

BATCH, PAST, AHEAD = 3, 24, 6


def series(*more: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """What was, and where it was seen."""
    return torch.rand(BATCH, PAST) * 4 + 1, torch.ones(BATCH, PAST), *more


def gluon(path: str, **kwargs: Any) -> Callable[[], Made]:
    """The parameters of a distribution over what comes."""
    sizes = {"prediction_length": AHEAD, "context_length": PAST}
    return lambda: (of(f"gluonts.torch.model.{path}", **(sizes | kwargs)), series(), {})


def tide() -> Made:
    made = of(
        "gluonts.torch.model.tide.module.TiDEModel", context_length=PAST, prediction_length=AHEAD, num_feat_dynamic_real=2,
        num_feat_dynamic_proj=2, num_feat_static_real=1, num_feat_static_cat=1, cardinality=[3], embedding_dimension=[4],
        feat_proj_hidden_dim=4, encoder_hidden_dim=8, decoder_hidden_dim=8, temporal_hidden_dim=8, distr_hidden_dim=4,
        num_layers_encoder=1, num_layers_decoder=1, decoder_output_dim=4, dropout_rate=0.0, layer_norm=True, scaling="mean",
        distr_output=of("gluonts.torch.distributions.StudentTOutput"),
    )  # fmt: skip
    given = (torch.rand(BATCH, 1), ids(BATCH, 1, below=3), torch.randn(BATCH, PAST, 2))
    return made, (*given, *series(), torch.randn(BATCH, AHEAD, 2)), {}


def fusion() -> Made:
    made = of(
        "gluonts.torch.model.tft.module.TemporalFusionTransformerModel", context_length=PAST, prediction_length=AHEAD,
        d_feat_static_real=[1], c_feat_static_cat=[3], d_feat_dynamic_real=[2], d_hidden=8, d_var=8, num_heads=2,
    )  # fmt: skip
    given = (torch.rand(BATCH, 1), ids(BATCH, 1, below=3), torch.randn(BATCH, PAST + AHEAD, 2))
    return made, series(*given), {}


def deep_ar() -> Made:
    """The loss of what was, which its training computes: its forecasts are drawn."""
    made = of(
        "gluonts.torch.model.deepar.module.DeepARModel", freq="D", context_length=PAST, prediction_length=AHEAD, num_feat_dynamic_real=2,
        num_feat_static_real=1, num_feat_static_cat=1, cardinality=[3], hidden_size=8, lags_seq=[1, 2, 7],
    )  # fmt: skip
    past = PAST + 7

    def forward(*given: torch.Tensor) -> Any:
        return made.log_prob(*given[:6], given[6])

    given = (ids(BATCH, 1, below=3), torch.rand(BATCH, 1), torch.randn(BATCH, past, 2), torch.rand(BATCH, past) + 1)
    later = (torch.ones(BATCH, past), torch.randn(BATCH, 1, 2), torch.rand(BATCH, 1) + 1)
    return Function(forward, made), (*given, *later), {}


def n_hits() -> Made:
    made = of(
        "pytorch_forecasting.models.nhits.sub_modules.NHiTS", context_length=PAST, prediction_length=AHEAD, output_size=[1],
        static_size=0, encoder_covariate_size=0, decoder_covariate_size=0, static_hidden_size=0, n_blocks=[1, 1],
        n_layers=[2, 2], hidden_size=[[16, 16], [16, 16]], pooling_sizes=[4, 2], downsample_frequencies=[3, 2],
        pooling_mode="max", interpolation_mode="linear", dropout=0.0, activation="ReLU", initialization="lecun_normal",
        batch_normalization=False, shared_weights=False, naive_level=True,
    )  # fmt: skip

    def forward(x: torch.Tensor) -> Any:
        empty = [torch.zeros(BATCH, steps, 0) for steps in (PAST, AHEAD)]
        return made(x, torch.ones(BATCH, PAST), *empty, torch.zeros(BATCH, 0))

    return Function(forward, made), (torch.randn(BATCH, PAST, 1),), {}


def n_beats(kind: str) -> Callable[[], Made]:
    blocks = {"NBEATSGenericBlock": {"units": 16, "thetas_dim": 8}, "NBEATSSeasonalBlock": {"units": 16}}
    blocks["NBEATSTrendBlock"] = {"units": 16, "thetas_dim": 3}
    sizes = {"backcast_length": PAST, "forecast_length": AHEAD, "num_block_layers": 2}
    return plain(f"pytorch_forecasting.layers._nbeats._blocks.{kind}", rows(BATCH, PAST), **sizes, **blocks[kind])


def attention(name: str, *shape: int, **kwargs: Any) -> Callable[[], Made]:
    return plain(f"pytorch_forecasting.models.temporal_fusion_transformer.sub_modules.{name}", rows(*shape), **kwargs)


def series_net(path: str, *args: Any, **kwargs: Any) -> Callable[[], Made]:
    """A classifier of tsai: 3 channels, 4 classes."""
    return plain(f"tsai.models.{path}", rows(2, 3, 40), *args, **kwargs)


def chronos() -> Made:
    from chronos.chronos_bolt import ChronosBoltModelForForecasting
    from transformers import T5Config

    sizes = {
        "vocab_size": 2,
        "d_model": 32,
        "d_kv": 8,
        "d_ff": 64,
        "num_layers": 2,
        "num_heads": 4,
        "dropout_rate": 0.0,
    }
    own = {"context_length": 32, "prediction_length": 8, "input_patch_size": 8, "input_patch_stride": 8}
    own |= {"quantiles": [0.1, 0.5, 0.9], "use_reg_token": True}
    made = ChronosBoltModelForForecasting(
        T5Config(**sizes, chronos_config=own, decoder_start_token_id=0, pad_token_id=0)
    )
    context = torch.rand(2, 32)
    context[0, :5] = float("nan")
    return Function(lambda x: made(x).quantile_preds, made), (context,), {}


def columns() -> list[Any]:
    from deepctr_torch.inputs import DenseFeat, SparseFeat

    return [SparseFeat("user", 5, 4), SparseFeat("item", 7, 4), DenseFeat("age", 2)]


def clicks(name: str, *, linear: bool = True, **kwargs: Any) -> Callable[[], Made]:
    def make() -> Made:
        from deepctr_torch import models

        given = [columns()] * 2 if linear else [columns()]
        made = getattr(models, name)(*given, **({} if name == "AFN" else {"dnn_hidden_units": (8, 8)}), **kwargs)
        x = torch.cat([ids(6, 1, below=5).float(), ids(6, 1, below=7).float(), torch.randn(6, 2)], 1)
        return made, (x,), {}

    return make


def tab_net() -> Made:
    sizes = {"input_dim": 6, "output_dim": 3, "n_d": 8, "n_a": 8, "n_steps": 2, "group_attention_matrix": torch.eye(6)}
    return of("pytorch_tabnet.tab_network.TabNetNoEmbeddings", **sizes), (torch.randn(8, 6),), {}


def sizes_of(kind: str, **kwargs: Any) -> Callable[[], Made]:
    """A model of pytorch-tcn."""
    return plain(f"pytorch_tcn.{kind}", rows(2, 3, 40), num_inputs=3, num_channels=[8, 8], **kwargs)


MODELS: dict[str, dict[str, Callable[[], Made]]] = {
    "forecasts": {
        "d_linear": gluon("d_linear.module.DLinearModel", hidden_dimension=8, kernel_size=5, scaling="mean"),
        "patch_tst": gluon(
            "patch_tst.module.PatchTSTModel",
            patch_len=6,
            stride=3,
            padding_patch="end",
            d_model=16,
            nhead=2,
            dim_feedforward=24,
            num_feat_dynamic_real=0,
            dropout=0.0,
            activation="gelu",
            norm_first=False,
            num_encoder_layers=1,
            scaling="std",
        ),
        "i_transformer": lambda: (
            of(
                "gluonts.torch.model.i_transformer.module.ITransformerModel",
                prediction_length=AHEAD,
                context_length=PAST,
                d_model=16,
                nhead=2,
                dim_feedforward=24,
                dropout=0.0,
                activation="gelu",
                norm_first=False,
                num_encoder_layers=1,
                scaling="mean",
            ),
            (torch.rand(BATCH, PAST, 4), torch.ones(BATCH, PAST, 4)),
            {},
        ),
        "tide": tide,
        "temporal_fusion": fusion,
        "deep_ar": deep_ar,
        "n_hits": n_hits,
        "n_beats_generic": n_beats("NBEATSGenericBlock"),
        "n_beats_trend": n_beats("NBEATSTrendBlock"),
        "n_beats_seasonal": n_beats("NBEATSSeasonalBlock"),
        "gated_residual": attention("GatedResidualNetwork", 2, 7, 12, input_size=12, hidden_size=8, output_size=6),
        "chronos_bolt": chronos,
        "tcn": sizes_of("TCN", use_skip_connections=True, input_shape="NCL"),
        "tcn_norm": sizes_of("TCN", use_norm="weight_norm", causal=False),
    },
    "series": {
        "series_patch_tst": series_net(
            "PatchTST.PatchTST", 3, None, 40, 8, n_layers=1, n_heads=2, d_model=16, d_ff=24, patch_len=8, stride=4
        ),
        "inception_time": series_net("InceptionTime.InceptionTime", 3, 4, nf=8),
        "xception_time": series_net("XceptionTime.XceptionTime", 3, 4, nf=4),
        "omni_scale": series_net("OmniScaleCNN.OmniScaleCNN", 3, 4, 40),
        "series_transformer": series_net("TST.TST", 3, 4, 40, n_layers=1, d_model=16, n_heads=2, d_ff=24),
        "lstm_fcn": series_net("RNN_FCN.LSTM_FCN", 3, 4, 40, hidden_size=8),
        "gru_attention": series_net("RNNAttention.GRUAttention", 3, 4, 40, hidden_size=8, n_heads=2, d_ff=16),
        "res_cnn": series_net("ResCNN.ResCNN", 3, 4),
        "xcm": series_net("XCM.XCM", 3, 4, 40, nf=8),
        "series_gmlp": series_net("gMLP.gMLP", 3, 4, 40, patch_size=4, d_model=16, d_ffn=24, depth=2),
        "wavelet_net": series_net("mWDN.mWDN", 3, 4, 40, levels=2),
        "series_x_res": series_net("XResNet1d.xresnet1d18", 3, 4),
        "mini_rocket": series_net("MINIROCKET_Pytorch.MiniRocketFeatures", 3, 40, num_features=84),
        "sequencer": series_net("TSSequencerPlus.TSSequencerPlus", 3, 4, 40, d_model=16, depth=1),
    },
    "clicks": {
        "deep_fm": clicks("DeepFM"),
        "x_deep_fm": clicks("xDeepFM", cin_layer_size=(6, 4)),
        "wide_deep": clicks("WDL"),
        "dcn": clicks("DCN"),
        "dcn_mix": clicks("DCNMix"),
        "auto_int": clicks("AutoInt"),
        "fi_bi_net": clicks("FiBiNET"),
        "nfm": clicks("NFM"),
        "afn": clicks("AFN", afn_dnn_hidden_units=(8, 8)),
        "onn": clicks("ONN"),
        "pnn": clicks("PNN", linear=False, use_outter=True),
        "tab_net": tab_net,
    },
}
