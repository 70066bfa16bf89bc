"""export_llm(): the tokens are those that transformers finds."""

import json

import npusim
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

SIZES = {
    "vocab_size": 199,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 96,
    "max_position_embeddings": 256,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
}
WINDOW = {"sliding_window": 8}
GEMMA = {"head_dim": 16, "query_pre_attn_scalar": 16}
GPT2 = {"vocab_size": 199, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 256}
LONGROPE = {"rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1.5] * 8, "long_factor": [4.0] * 8}
CONFIGS = {
    "llama": lambda: transformers.LlamaConfig(**SIZES),
    "llama3 rope": lambda: transformers.LlamaConfig(
        **SIZES,
        rope_parameters={
            "rope_type": "llama3",
            "rope_theta": 10000.0,
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64,
        },
    ),
    "tied llama": lambda: transformers.LlamaConfig(**SIZES, tie_word_embeddings=True),
    "qwen2": lambda: transformers.Qwen2Config(**SIZES),
    "qwen3": lambda: transformers.Qwen3Config(**SIZES, head_dim=16),
    "mistral": lambda: transformers.MistralConfig(**SIZES),
    "mistral with a window": lambda: transformers.MistralConfig(**SIZES, **WINDOW),
    "gemma2": lambda: transformers.Gemma2Config(**SIZES, **GEMMA),
    "gemma2 with a window": lambda: transformers.Gemma2Config(**SIZES, **GEMMA, **WINDOW),
    "gemma3 with a window": lambda: transformers.Gemma3TextConfig(**SIZES, **GEMMA, **WINDOW),
    "gpt2": lambda: transformers.GPT2Config(**GPT2, bos_token_id=None, eos_token_id=None),
    "phi3": lambda: transformers.Phi3Config(**SIZES),
    "llama4 with chunks": lambda: transformers.Llama4TextConfig(
        **SIZES, head_dim=16, attention_chunk_size=20, num_local_experts=2, intermediate_size_mlp=96
    ),
    "bloom": lambda: transformers.BloomConfig(
        vocab_size=199, hidden_size=64, n_layer=2, n_head=4, initializer_range=0.2, bos_token_id=None, eos_token_id=None
    ),
    "falcon with alibi": lambda: transformers.FalconConfig(
        vocab_size=199,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        alibi=True,
        bos_token_id=None,
        eos_token_id=None,
    ),
    "phi3 with frequencies by length": lambda: transformers.Phi3Config(
        **SIZES, original_max_position_embeddings=48, rope_parameters=LONGROPE
    ),
}


def make(name):
    torch.manual_seed(1)
    model = transformers.AutoModelForCausalLM.from_config(CONFIGS[name]()).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)  # so that texts differ
    return model


def own_tokens(model, prompt, count):
    tokens = torch.tensor([prompt])
    with torch.no_grad():  # with a mask: else what is equal to the padding, in the prompt too, is taken for it
        found = model.generate(
            tokens, attention_mask=torch.ones_like(tokens), max_new_tokens=count, do_sample=False, pad_token_id=0
        )
    return found[0, len(prompt) :].tolist()


@pytest.mark.parametrize("name", CONFIGS)
def test_greedy_tokens(name):
    model = make(name)
    program = npusim.compile(npusim.export_llm(model, 48, prefill=[16, 8]), dtype="float32")
    assert {"prefill", "prefill_8", "decode", "greedy"} <= set(program.methods)
    session = npusim.Session(program)
    texts = []
    for length in (1, 8, 13, 20):  # shorter than a prefill, all of one, of the other, longer than both
        prompt = torch.randint(0, 199, (length,)).tolist()
        texts.append(npusim.generate(session, prompt, max_new_tokens=20).tokens)
        assert texts[-1] == own_tokens(model, prompt, 20)
    assert len({token for text in texts for token in text}) > 5


@pytest.mark.parametrize("off", [None, 7], ids=["no logits", "a token that is off"])
def test_logits_that_tell_nothing(off):
    """Zeros are zeros, and equal infinities agree."""
    model = make("llama")
    with torch.no_grad():
        if off is None:
            model.lm_head.weight.zero_()
        else:
            head = torch.nn.Linear(model.lm_head.in_features, model.lm_head.out_features)
            head.weight.copy_(model.lm_head.weight), head.bias.zero_()
            head.bias[off] = -torch.inf
            model.lm_head = head
    session = npusim.Session(npusim.compile(npusim.export_llm(model, 32, prefill=[16]), dtype="float32"))
    prompt = [1, 2, 3]
    assert npusim.generate(session, prompt, max_new_tokens=12).tokens == own_tokens(model, prompt, 12)


def test_folder(tmp_path):
    model = make("qwen2")
    model.save_pretrained(tmp_path / "model")
    (tmp_path / "model" / "tokenizer.json").write_text("{}")
    npusim.export_llm(tmp_path / "model", 32, prefill=8).save(tmp_path / "out")
    assert (tmp_path / "out" / "tokenizer.json").exists() and (tmp_path / "out" / "config.json").exists()
    kv_map = json.loads((tmp_path / "out" / "kv_map.json").read_text())
    assert kv_map["max_cache_len"] == 32 and len(kv_map["layers"]) == 2
    session = npusim.Session(npusim.compile(tmp_path / "out", dtype="float32"))
    prompt = [5, 6, 7]
    assert npusim.generate(session, prompt, max_new_tokens=12).tokens == own_tokens(model, prompt, 12)


def test_cache_is_full():
    session = npusim.Session(npusim.compile(npusim.export_llm(make("llama"), 12, prefill=[4]), dtype="float32"))
    assert len(npusim.generate(session, [1, 2, 3], max_new_tokens=100).tokens) == 10
    with pytest.raises(npusim.BadInputError):
        npusim.generate(session, list(range(13)))


def test_what_is_refused():
    sizes = {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 1}
    mamba = transformers.AutoModelForCausalLM.from_config(transformers.MambaConfig(**sizes))
    with pytest.raises(npusim.UnsupportedError, match="MambaForCausalLM"):
        npusim.export_llm(mamba, 32, prefill=8)
    convolution = transformers.Lfm2Config(**SIZES, layer_types=["conv", "full_attention"])
    with pytest.raises(npusim.UnsupportedError, match="Lfm2ForCausalLM does not run over a cache"):
        npusim.export_llm(transformers.AutoModelForCausalLM.from_config(convolution), 32, prefill=8)
    config = transformers.Phi3Config(**SIZES, original_max_position_embeddings=16, rope_parameters=LONGROPE)
    longer = transformers.AutoModelForCausalLM.from_config(config).eval()
    with pytest.raises(npusim.UnsupportedError, match=r"frequencies \(longrope\) .* expected a capacity of at most 16"):
        npusim.export_llm(longer, 32, prefill=8)
    dynamic = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0}
    config = transformers.LlamaConfig(**{**SIZES, "max_position_embeddings": 24}, rope_parameters=dynamic)
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    with pytest.raises(npusim.UnsupportedError, match=r"frequencies \(dynamic\) .* expected a capacity of at most 24"):
        npusim.export_llm(model, 25, prefill=8)
    for wrong in ([], [8, 8], [64], [1], ["8"], 1.5, {8, 4}):
        with pytest.raises(npusim.UsageError):
            npusim.export_llm(make("llama"), 32, prefill=wrong)
    text = npusim.export_llm(make("llama"), 12)  # of no length that was asked for: one that fits
    assert text.methods["prefill"]["graph_inputs"][0]["shape"] == [1, 12]


OPT = {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "ffn_dim": 32}


@pytest.mark.parametrize(
    "config",
    [
        transformers.GPT2Config(**{**GPT2, "n_positions": 24}),
        transformers.OPTConfig(**OPT, max_position_embeddings=24, word_embed_proj_dim=32),
    ],
    ids=lambda config: config.model_type,
)
def test_positions_that_were_not_learned_are_refused(config):
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    for capacity in (25, 300):
        with pytest.raises(npusim.UnsupportedError, match="has learned no position .* at most 24"):
            npusim.export_llm(model, capacity, prefill=8)
    session = npusim.Session(npusim.compile(npusim.export_llm(model, 24, prefill=8), dtype="float32"))
    assert len(npusim.generate(session, [5, 6, 7], max_new_tokens=100).tokens) == 22


def test_models_without_logits_are_refused():
    for config in (transformers.LlamaConfig(**SIZES), transformers.GPT2Config(**GPT2)):
        model = transformers.AutoModel.from_config(config).eval()
        with pytest.raises(npusim.UnsupportedError, match=f"{type(model).__name__} gives no logits"):
            npusim.export_llm(model, 32, prefill=8)
    for wrong in (None, 3, torch.nn.Linear(2, 2), "no such folder"):
        with pytest.raises(npusim.Error):
            npusim.export_llm(wrong, 32, prefill=8)
    for capacity in (0, 1, -5, "32", 2.5, None, 2**40):
        with pytest.raises(npusim.UsageError, match="capacity"):
            npusim.export_llm(make("llama"), capacity, prefill=8)


def test_a_model_that_does_not_take_its_cache_is_found_out(monkeypatch):
    model = make("llama")
    attention = type(model.model.layers[0].self_attn)
    forward = attention.forward

    def forgetful(self, hidden_states, **options):
        if any(options.get(name) is not None for name in ("past_key_values", "cache")):
            hidden_states = hidden_states * 1.1
        return forward(self, hidden_states, **options)

    monkeypatch.setattr(attention, "forward", forgetful)
    with pytest.raises(npusim.UnsupportedError, match="prefill"):
        npusim.export_llm(model, 32, prefill=8)
