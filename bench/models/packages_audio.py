"""Models of small packages: speech, music, and what is computed of waves (torchaudio without its compiled extension,
speechbrain, demucs, asteroid, whisper, encodec, julius, auraloss)."""

from collections.abc import Callable
from typing import Any

import torch
from case import Made
from packages_making import Function, Method, ids, of, plain, rows
from torch import nn

WAVES = (2, 1600)


def transform(name: str, *shape: int, **kwargs: Any) -> Callable[[], Made]:
    """A transform of waves."""
    return plain(f"torchaudio.transforms.{name}", rows(*(shape or WAVES)), **kwargs)


def wav2vec(layer_norm: bool = False, mode: str = "group_norm", waves: int = 1600, **more: Any) -> Callable[[], Made]:
    def make() -> Made:
        sizes = {
            "extractor_mode": mode,
            "extractor_conv_layer_config": [(32, 10, 5), (32, 3, 2), (32, 2, 2)],
            "extractor_conv_bias": False,
            "encoder_embed_dim": 32,
            "encoder_projection_dropout": 0.0,
            "encoder_pos_conv_kernel": 16,
            "encoder_pos_conv_groups": 4,
            "encoder_num_layers": 2,
            "encoder_num_heads": 4,
            "encoder_attention_dropout": 0.0,
            "encoder_ff_interm_features": 64,
            "encoder_ff_interm_dropout": 0.0,
            "encoder_dropout": 0.0,
            "encoder_layer_norm_first": layer_norm,
            "encoder_layer_drop": 0.0,
            "aux_num_out": 12,
        }
        given = (torch.randn(2, waves), torch.tensor([waves, waves - 300]))
        return of("torchaudio.models.wav2vec2_model", **(sizes | more)), given, {}

    return make


def wavlm() -> Made:
    sizes = {
        "extractor_mode": "group_norm",
        "extractor_conv_layer_config": [(32, 10, 5), (32, 3, 2), (32, 2, 2)],
        "extractor_conv_bias": False,
        "encoder_embed_dim": 32,
        "encoder_projection_dropout": 0.0,
        "encoder_pos_conv_kernel": 16,
        "encoder_pos_conv_groups": 4,
        "encoder_num_layers": 2,
        "encoder_num_heads": 4,
        "encoder_num_buckets": 32,
        "encoder_max_distance": 80,
        "encoder_attention_dropout": 0.0,
        "encoder_ff_interm_features": 64,
        "encoder_ff_interm_dropout": 0.0,
        "encoder_dropout": 0.0,
        "encoder_layer_norm_first": False,
        "encoder_layer_drop": 0.0,
        "aux_num_out": None,
    }
    return of("torchaudio.models.wavlm_model", **sizes), (torch.randn(WAVES),), {}


def audio_conformer() -> Made:
    sizes = {"input_dim": 16, "num_heads": 4, "ffn_dim": 32, "num_layers": 2, "depthwise_conv_kernel_size": 7}
    return of("torchaudio.models.Conformer", **sizes), (torch.randn(2, 20, 16), torch.tensor([20, 13])), {}


def emformer(name: str = "forward") -> Callable[[], Made]:
    def make() -> Made:
        made = of(
            "torchaudio.models.Emformer", 16, 4, 32, 2, segment_length=4, right_context_length=1, max_memory_size=2
        )
        return Method(made, name), (torch.randn(2, 13 if name == "forward" else 5, 16), torch.tensor([12, 9])), {}

    return make


def wave_rnn() -> Made:
    sizes = {"upsample_scales": [2, 2], "n_classes": 16, "hop_length": 4, "n_res_block": 1, "n_rnn": 16, "n_fc": 16}
    sizes |= {"kernel_size": 5, "n_freq": 8, "n_hidden": 8, "n_output": 8}
    return of("torchaudio.models.WaveRNN", **sizes), (torch.randn(2, 1, 24), torch.randn(2, 1, 8, 10)), {}


def conv_tasnet() -> Made:
    sizes = {
        "num_sources": 2,
        "enc_kernel_size": 16,
        "enc_num_feats": 32,
        "msk_num_feats": 16,
        "msk_num_hidden_feats": 24,
    }
    sizes |= {"msk_num_layers": 2, "msk_num_stacks": 2}
    return of("torchaudio.models.ConvTasNet", **sizes), (torch.randn(2, 1, 800),), {}


def hdemucs() -> Made:
    made = of("torchaudio.models.HDemucs", ["drums", "voice"], channels=8, nfft=256, depth=4)
    return made, (torch.randn(1, 2, 4096),), {}


def rnnt() -> Made:
    sizes = {"input_dim": 8, "encoding_dim": 16, "num_symbols": 12, "segment_length": 4, "right_context_length": 1}
    sizes |= {"time_reduction_input_dim": 8, "time_reduction_stride": 2, "transformer_num_heads": 4}
    sizes |= {"transformer_ffn_dim": 32, "transformer_num_layers": 2, "transformer_dropout": 0.0, "lstm_dropout": 0.0}
    sizes |= {"transformer_activation": "gelu", "transformer_left_context_length": 4, "transformer_max_memory_size": 0}
    sizes |= {"transformer_weight_init_scale_strategy": "depthwise", "transformer_tanh_on_mem": True}
    sizes |= {
        "symbol_embedding_dim": 16,
        "num_lstm_layers": 1,
        "lstm_layer_norm": True,
        "lstm_layer_norm_epsilon": 1e-3,
    }
    made = of("torchaudio.models.emformer_rnnt_model", **sizes)
    given = (torch.randn(2, 18, 8), torch.tensor([16, 12]), ids(2, 5, below=12), torch.tensor([5, 4]))
    return made, given, {}


def squim() -> Made:
    made = of("torchaudio.models.squim_objective_base")
    return made, (torch.randn(1, 4000),), {}


def lfilter() -> Made:
    from torchaudio import functional

    a, b = torch.tensor([1.0, -0.6, 0.2]), torch.tensor([0.4, 0.2, 0.1])
    return Function(lambda x: functional.lfilter(x, a, b)), (torch.rand(2, 60) - 0.5,), {}


def phase_vocoder() -> Made:
    def forward(x: torch.Tensor) -> torch.Tensor:
        window = torch.hann_window(64)
        spectrum = torch.stft(x, 64, 16, window=window, return_complex=True)
        advance = torch.linspace(0, torch.pi * 16, 33)[:, None]
        return of("torchaudio.functional.phase_vocoder", spectrum, 1.25, advance).abs()

    return Function(forward), (torch.randn(2, 400),), {}


def speech(path: str, *given: Callable[[], torch.Tensor], **kwargs: Any) -> Callable[[], Made]:
    return lambda: (of(f"speechbrain.{path}", **kwargs), tuple(make() for make in given), {})


def speech_transformer() -> Made:
    from speechbrain.lobes.models.transformer.TransformerASR import TransformerASR

    made = TransformerASR(
        20, 16, d_model=32, nhead=4, num_encoder_layers=2, num_decoder_layers=2, d_ffn=48, dropout=0.0,
        encoder_module="conformer", attention_type="RelPosMHAXL", kernel_size=7, normalize_before=True,
    )  # fmt: skip
    return made, (torch.randn(2, 24, 16), ids(2, 7, below=20) + 0, torch.tensor([1.0, 0.75])), {}


def whisper() -> Made:
    from whisper.model import ModelDimensions, Whisper

    sizes = ModelDimensions(
        n_mels=16, n_audio_ctx=30, n_audio_state=32, n_audio_head=4, n_audio_layer=2, n_vocab=64, n_text_ctx=16,
        n_text_state=32, n_text_head=4, n_text_layer=2,
    )  # fmt: skip
    return Whisper(sizes), (torch.randn(2, 16, 60), ids(2, 9)), {}


def encodec() -> Made:
    from encodec.modules import SEANetDecoder, SEANetEncoder

    sizes = {"n_filters": 4, "ratios": [4, 2], "dimension": 16, "norm": "time_group_norm"}
    return nn.Sequential(SEANetEncoder(**sizes), SEANetDecoder(**sizes)), (torch.randn(2, 1, 320),), {}


def encodec_codes() -> Made:
    made = of("encodec.quantization.ResidualVectorQuantizer", dimension=8, n_q=3, bins=16)
    for layer in made.vq.layers:
        layer._codebook.inited.fill_(1)
        layer._codebook.embed.normal_()
    return Function(made.encode, made), (torch.randn(2, 8, 10), 50), {}


def demucs(path: str, **kwargs: Any) -> Callable[[], Made]:
    return lambda: (of(f"demucs.{path}", ["drums", "voice"], **kwargs), (torch.randn(1, 2, 2048),), {})


def separation(name: str, **kwargs: Any) -> Callable[[], Made]:
    return plain(f"asteroid.models.{name}", rows(2, 1600), **kwargs)


def wave_loss(path: str, **kwargs: Any) -> Callable[[], Made]:
    return lambda: (of(f"auraloss.{path}", **kwargs), (torch.randn(2, 1, 1024), torch.randn(2, 1, 1024)), {})


LENGTHS = lambda: torch.tensor([1.0, 0.7])
MELS = lambda: torch.randn(2, 40, 16)

MODELS: dict[str, dict[str, Callable[[], Made]]] = {
    "torchaudio": {
        "spectrogram": transform("Spectrogram", n_fft=128),
        "mel_spectrogram": transform("MelSpectrogram", n_fft=128, n_mels=20),
        "mfcc": transform("MFCC", n_mfcc=12, melkwargs={"n_fft": 128, "n_mels": 20}),
        "lfcc": transform("LFCC", n_lfcc=12, speckwargs={"n_fft": 128}),
        "resample": transform("Resample", orig_freq=16000, new_freq=11025),
        "spectral_centroid": transform("SpectralCentroid", sample_rate=16000, n_fft=128),
        "griffin_lim": lambda: (
            of("torchaudio.transforms.GriffinLim", n_fft=64, n_iter=4, rand_init=False),
            (torch.rand(1, 33, 12),),
            {},
        ),
        "deltas": transform("ComputeDeltas", 2, 12, 30),
        "cepstral_norm": transform("SlidingWindowCmn", 2, 30, 12, cmn_window=11),
        "mu_law": transform("MuLawEncoding"),
        "time_stretch": phase_vocoder,
        "lfilter": lfilter,
        "pitch_shift": lambda: (
            Function(lambda x: of("torchaudio.functional.pitch_shift", x, 16000, 12, n_fft=128)),
            (torch.randn(WAVES),),
            {},
        ),
        "wav2vec2": wav2vec(),
        "wav2vec2_large": wav2vec(True, "layer_norm"),
        "wavlm": wavlm,
        "audio_conformer": audio_conformer,
        "emformer": emformer(),
        "emformer_step": emformer("infer"),
        "wave_rnn": wave_rnn,
        "conv_tasnet": conv_tasnet,
        "hybrid_demucs": hdemucs,
        "rnnt": rnnt,
        "squim": squim,
        "deep_speech": plain("torchaudio.models.DeepSpeech", rows(2, 1, 20, 16), n_feature=16, n_hidden=24, n_class=8),
        "wav2letter": plain("torchaudio.models.Wav2Letter", rows(2, 1, 2400), num_classes=8),
    },
    "speech": {
        "ecapa": speech(
            "lobes.models.ECAPA_TDNN.ECAPA_TDNN",
            MELS,
            LENGTHS,
            input_size=16,
            channels=[16] * 5,
            lin_neurons=12,
            attention_channels=8,
            res2net_scale=4,
            se_channels=8,
        ),
        "xvector": speech(
            "lobes.models.Xvector.Xvector",
            MELS,
            LENGTHS,
            in_channels=16,
            tdnn_channels=[16, 16, 16, 16, 24],
            lin_neurons=12,
        ),
        "crdnn": speech(
            "lobes.models.CRDNN.CRDNN",
            MELS,
            input_shape=[None, None, 16],
            cnn_channels=[4, 4],
            rnn_neurons=12,
            rnn_layers=1,
            dnn_neurons=12,
            rnn_bidirectional=True,
        ),
        "hifigan": speech(
            "lobes.models.HifiGAN.HifiganGenerator",
            lambda: torch.randn(2, 8, 12),
            in_channels=8,
            out_channels=1,
            resblock_type="1",
            resblock_dilation_sizes=[[1, 3, 5]] * 2,
            resblock_kernel_sizes=[3, 5],
            upsample_kernel_sizes=[8, 4],
            upsample_initial_channel=16,
            upsample_factors=[4, 2],
        ),
        "cnn14": speech("lobes.models.Cnn14.Cnn14", lambda: torch.randn(2, 65, 32), mel_bins=32, emb_dim=16),
        "filter_bank": speech("lobes.features.Fbank", lambda: torch.randn(2, 3200), n_mels=20),
        "speech_features": speech("lobes.features.MFCC", lambda: torch.randn(2, 3200), n_mels=20, n_mfcc=10),
        "input_norm": speech("processing.features.InputNormalization", MELS, LENGTHS, norm_type="sentence"),
        "sinc_conv": speech(
            "nnet.CNN.SincConv", lambda: torch.randn(2, 400), out_channels=8, kernel_size=21, input_shape=[None, 400]
        ),
        "ligru": speech("nnet.RNN.LiGRU", MELS, hidden_size=12, input_shape=(2, 40, 16), num_layers=1),
        "speech_conformer": speech_transformer,
        "whisper": whisper,
        "encodec": encodec,
        "encodec_codes": encodec_codes,
    },
    "music and waves": {
        "demucs": demucs("demucs.Demucs", channels=8, depth=3, resample=False, lstm_layers=1),
        "demucs_hybrid": demucs("hdemucs.HDemucs", channels=8, nfft=256, depth=4),
        "demucs_transformer": demucs(
            "htdemucs.HTDemucs",
            channels=8,
            nfft=256,
            depth=3,
            t_layers=2,
            t_heads=4,
            bottom_channels=16,
            segment=0.05,
            use_train_segment=False,
        ),
        "dprnn": separation(
            "DPRNNTasNet", n_src=2, n_filters=16, kernel_size=16, bn_chan=16, hid_size=16, chunk_size=20, n_repeats=1
        ),
        "dptnet": separation("DPTNet", n_src=2, n_filters=16, kernel_size=16, chunk_size=20, n_repeats=1, ff_hid=16),
        "sudormrf": separation(
            "SuDORMRFNet",
            n_src=2,
            bn_chan=16,
            num_blocks=1,
            upsampling_depth=3,
            mask_act="softmax",
            in_chan=16,
            n_filters=16,
            kernel_size=21,
        ),
        "julius_bands": plain("julius.SplitBands", rows(2, 1, 1200), 16000, n_bands=3),
        "julius_lowpass": plain("julius.LowPassFilter", rows(2, 800), 0.2),
        "julius_resample": plain("julius.ResampleFrac", rows(2, 800), 4, 3),
        "stft_loss": wave_loss("freq.STFTLoss", fft_size=128, hop_size=32, win_length=128),
        "multi_stft_loss": wave_loss(
            "freq.MultiResolutionSTFTLoss", fft_sizes=[128, 256], hop_sizes=[32, 64], win_lengths=[128, 256]
        ),
        "esr_loss": wave_loss("time.ESRLoss"),
        "cqt": plain(
            "nnAudio.features.CQT1992v2", rows(2, 3000), sr=4000, hop_length=128, n_bins=24, fmin=200, verbose=False
        ),
        "gammatone": plain(
            "nnAudio.features.Gammatonegram", rows(2, 3000), sr=4000, n_fft=256, hop_length=64, n_bins=16, verbose=False
        ),
    },
}
