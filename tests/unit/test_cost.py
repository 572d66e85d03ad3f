"""Las cuentas de `cost`: contra módulos reales, contra el contador de FLOPs de PyTorch y contra lo publicado."""

import subprocess
import sys
from functools import cache

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode
from transformers import BertConfig, FalconConfig, Gemma2Config, GPT2Config, LlamaConfig, MistralConfig

import multicabeza as mc
from multicabeza import cost
from multicabeza.cost import MODELS

# (d_model, h, g, d_k): MHA, GQA y MQA; d_k según la convención, menor y mayor; tamaños primos entre sí.
SHAPES = [
    (12, 1, 1, None),
    (12, 4, 4, None),
    (12, 12, 12, None),
    (24, 6, 3, None),
    (24, 6, 2, None),
    (24, 6, 1, None),
    (30, 5, 5, 7),
    (30, 6, 2, 11),
    (18, 4, 1, 3),
]


def layer(d_model, h, g, d_k, *, bias=False):
    return mc.MultiHeadAttention(d_model, h, num_kv_heads=g, head_dim=d_k, bias=bias)


def counted(*modules):
    return sum(p.numel() for module in modules for p in module.parameters())


# --- Parámetros ---


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("d_model", "h", "g", "d_k"), SHAPES)
def test_parameters_are_those_of_our_class(d_model, h, g, d_k, bias):
    expected = counted(layer(d_model, h, g, d_k, bias=bias))
    assert cost.attention_params(d_model, h, num_kv_heads=g, head_dim=d_k, bias=bias) == expected


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("d_model", "h"), [(12, 1), (12, 3), (40, 5), (64, 64)])
def test_parameters_are_those_of_pytorch(d_model, h, bias):
    module = nn.MultiheadAttention(d_model, h, bias=bias)
    assert cost.attention_params(d_model, h, bias=bias) == counted(module)


@pytest.mark.parametrize(("d_model", "h", "g", "d_k"), SHAPES)
def test_shapes_are_those_of_the_weights(d_model, h, g, d_k):
    shapes = cost.weight_shapes(d_model, h, num_kv_heads=g, head_dim=d_k)
    module = layer(d_model, h, g, d_k)
    columns = [shapes[name][1] for name in ("W_Q", "W_K", "W_V")]
    assert {shapes[name][0] for name in ("W_Q", "W_K", "W_V")} == {d_model}
    assert module.qkv_proj.weight.split(columns)[0].T.shape == shapes["W_Q"]
    assert module.qkv_proj.weight.shape[0] == sum(columns)
    assert module.out_proj.weight.T.shape == shapes["W_O"]


def test_parameters_of_pretrained_models():
    bert, llama = mc.load_bert().model, mc.load_smollm2().model
    for block in bert.encoder.layer:
        attention = block.attention
        linears = attention.self.query, attention.self.key, attention.self.value, attention.output.dense
        assert cost.attention_params(384, 12, bias=True) == counted(*linears)
    shape = MODELS["SmolLM2-135M"]
    assert len(llama.model.layers) == shape.n_layers
    for block in llama.model.layers:
        expected = cost.attention_params(
            shape.d_model, shape.num_heads, num_kv_heads=shape.num_kv_heads, head_dim=shape.head_dim
        )
        assert expected == counted(block.self_attn)


@pytest.mark.parametrize(
    ("d_model", "expected"), [(512, 1_048_576), (768, 2_359_296), (1024, 4_194_304), (4096, 67_108_864)]
)
def test_parameters_of_known_sizes(d_model, expected):
    assert {cost.attention_params(d_model, h) for h in (1, 2, 8, 16, 64, 256)} == {expected}


def test_biases_are_four_times_d_model():
    assert cost.attention_params(768, 12, bias=True) == 2_362_368


# --- FLOPs ---


@cache
def measured_flops(d_model, h, g, d_k, n, batch):
    """FLOPs que cuenta PyTorch en la fórmula paso a paso: (productos con pesos, productos entre activaciones)."""
    module = layer(d_model, h, g, d_k).eval()
    x = torch.randn(batch, n, d_model)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        module(x, need_weights=True)
    by_operation = {str(name): flops for name, flops in counter.get_flop_counts()["Global"].items()}
    attention = by_operation.pop("aten.bmm", 0)
    return sum(by_operation.values()), attention, counter.get_total_flops()


@pytest.mark.parametrize(("n", "batch"), [(1, 1), (7, 1), (7, 3), (50, 2)])
@pytest.mark.parametrize(("d_model", "h", "g", "d_k"), SHAPES)
def test_flops_are_those_counted_by_pytorch(d_model, h, g, d_k, n, batch):
    flops = cost.attention_flops(d_model, h, n, num_kv_heads=g, head_dim=d_k, batch=batch)
    projections, attention, total = measured_flops(d_model, h, g, d_k, n, batch)
    assert flops == (projections, attention)
    assert flops.total == total


@pytest.mark.parametrize("h", [1, 4, 8, 16, 32])
def test_flops_do_not_depend_on_h(h):
    flops = cost.attention_flops(512, h, 128)
    assert flops == (268_435_456, 33_554_432)
    assert flops.total == 301_989_888


@pytest.mark.parametrize(("d_model", "h"), [(512, 8), (768, 12), (768, 1)])
def test_attention_equals_the_projections_at_twice_d_model(d_model, h):
    below, at, above = (cost.attention_flops(d_model, h, n) for n in (2 * d_model - 1, 2 * d_model, 2 * d_model + 1))
    assert below.attention < below.projections
    assert at.attention == at.projections
    assert above.attention > above.projections


def test_with_the_mlp_the_crossing_is_at_six_times_d_model():
    n, d_model = 4608, 768
    flops = cost.attention_flops(d_model, 12, n)
    assert flops.attention == flops.projections + 2 * n * 2 * d_model * 4 * d_model


def test_sharing_keys_and_values_saves_projections_and_not_attention():
    full, grouped = cost.attention_flops(512, 8, 64), cost.attention_flops(512, 8, 64, num_kv_heads=2)
    assert grouped.attention == full.attention
    assert grouped.projections * 8 == full.projections * 5


# --- Puntuaciones ---


@pytest.mark.parametrize(("h", "n", "batch"), [(1, 5, 1), (4, 5, 1), (4, 9, 3)])
def test_scores_are_those_of_real_weights(h, n, batch):
    _, weights = layer(12, h, h, None)(torch.randn(batch, n, 12), need_weights=True)
    assert cost.score_elements(h, n, batch=batch) == weights.numel()
    assert cost.score_bytes(h, n, batch=batch) == weights.nbytes
    assert cost.score_bytes(h, n, batch=batch, bytes_per_element=2) == weights.half().nbytes


def test_scores_grow_with_h():
    assert [cost.score_elements(h, 128) for h in (1, 32)] == [16_384, 524_288]


def test_scores_of_bert_with_1024_tokens_take_48_mib():
    assert cost.score_bytes(12, 1024) == 48 * 2**20


# --- Caché ---


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize(("h", "g"), [(6, 6), (6, 2), (6, 1)])
def test_cache_is_that_of_a_full_cache(h, g, dtype):
    n_layers, d_k, n, batch = 3, 5, 11, 2
    layers = [layer(24, h, g, d_k).to(dtype) for _ in range(n_layers)]
    caches = [mc.KVCache() for _ in layers]
    x = torch.randn(batch, n, 24, dtype=dtype)
    for step in x.split([4, 6, 1], dim=1):
        for module, stored in zip(layers, caches, strict=True):
            module(step, cache=stored)
    expected = sum(stored.keys.nbytes + stored.values.nbytes for stored in caches)
    assert cost.kv_cache_bytes(n_layers, g, d_k, n, batch, dtype.itemsize) == expected


def test_a_layer_with_a_window_keeps_the_window():
    """`cache_bytes` de Mistral, frente a una caché de verdad con ventana, a escala."""
    tiny = cost.ModelShape(
        name="", n_layers=5, num_heads=4, num_kv_heads=2, head_dim=3, d_model=12, source="", window=6, n_local_layers=2
    )
    for n in (1, 6, 7, 20):
        caches = [mc.KVCache(window=6 if i < 2 else None) for i in range(5)]
        for stored in caches:
            for _ in range(n):
                stored.update(torch.zeros(1, 2, 1, 3), torch.zeros(1, 2, 1, 3))
        expected = sum(stored.keys.nbytes + stored.values.nbytes for stored in caches)
        assert tiny.cache_bytes(n, bytes_per_element=4) == expected


def test_cache_along_the_context():
    two, three = MODELS["LLaMA-2-7B"], MODELS["Llama-3-8B"]
    assert (two.cache_bytes(4096), three.cache_bytes(4096)) == (2 * 2**30, 512 * 2**20)
    assert (two.cache_bytes(32_768), three.cache_bytes(32_768)) == (16 * 2**30, 4 * 2**30)


def test_in_mha_the_cache_does_not_depend_on_h():
    assert {cost.kv_cache_bytes(12, h, 768 // h, 100) for h in (1, 4, 12, 48)} == {2 * 12 * 768 * 100 * 2}


# --- Modelos ---

# facts: nombre, L, h, g, d_k, d_model, tipo, bytes por token, KiB, KiB que haría falta en MHA (None: no procede).
PUBLISHED = [
    ("GPT-2 small", 12, 12, 12, 64, 768, "MHA", 36_864, 36, 36),
    ("BERT-base", 12, 12, 12, 64, 768, "MHA", 36_864, 36, None),
    ("SmolLM2-135M", 30, 9, 3, 64, 576, "GQA", 23_040, 22.5, 67.5),
    ("LLaMA-2-7B", 32, 32, 32, 128, 4096, "MHA", 524_288, 512, 512),
    ("LLaMA-2-70B", 80, 64, 8, 128, 8192, "GQA", 327_680, 320, 2560),
    ("Llama-3-8B", 32, 32, 8, 128, 4096, "GQA", 131_072, 128, 512),
    ("Llama-3-70B", 80, 64, 8, 128, 8192, "GQA", 327_680, 320, 2560),
    ("Mistral-7B", 32, 32, 8, 128, 4096, "GQA", 131_072, 128, 512),
    ("Qwen2.5-7B", 28, 28, 4, 128, 3584, "GQA", 57_344, 56, 392),
    ("Gemma-2-2B", 26, 8, 4, 256, 2304, "GQA", 106_496, 104, 208),
    ("Gemma-2-9B", 42, 16, 8, 256, 3584, "GQA", 344_064, 336, 672),
    ("Gemma-2-27B", 46, 32, 16, 128, 4608, "GQA", 376_832, 368, 736),
    ("Falcon-7B", 32, 71, 1, 64, 4544, "MQA", 8192, 8, 568),
    ("DeepSeek-V2", 60, 128, 128, 128, 5120, "MLA", 69_120, 67.5, 3840),
]


def test_every_model_and_both_originals_are_there():
    assert set(MODELS) == {row[0] for row in PUBLISHED} | {"Transformer base", "Transformer big"}
    for name, shape in MODELS.items():
        assert shape.name == name
        assert len(shape.source) > 15


@pytest.mark.parametrize("row", PUBLISHED, ids=[row[0] for row in PUBLISHED])
def test_each_model_takes_what_was_published(row):
    name, n_layers, h, g, d_k, d_model, kind, per_token, kib, mha_kib = row
    shape = MODELS[name]
    assert (shape.n_layers, shape.num_heads, shape.num_kv_heads) == (n_layers, h, g)
    assert (shape.head_dim, shape.d_model, shape.kind) == (d_k, d_model, kind)
    assert shape.cache_bytes() == per_token == kib * 1024
    if kind != "MLA":
        assert cost.kv_cache_bytes(n_layers, g, d_k, 1) == per_token
    if mha_kib is not None:
        assert shape.mha_cache_bytes() == mha_kib * 1024
    assert shape.has_cache == (name != "BERT-base")


def test_both_transformers_of_2017():
    base, big = MODELS["Transformer base"], MODELS["Transformer big"]
    assert (base.n_layers, base.num_heads, base.head_dim, base.d_model) == (6, 8, 64, 512)
    assert (big.n_layers, big.num_heads, big.head_dim, big.d_model) == (6, 16, 64, 1024)


CONFIGS = {
    "GPT-2 small": GPT2Config,
    "BERT-base": BertConfig,
    "LLaMA-2-7B": LlamaConfig,
    "Mistral-7B": MistralConfig,
    "Gemma-2-2B": Gemma2Config,
    "Falcon-7B": FalconConfig,
}


@pytest.mark.parametrize("name", CONFIGS)
def test_sizes_are_those_of_the_transformers_configuration(name):
    """La configuración por defecto de cada arquitectura es la de ese modelo."""
    config, shape = CONFIGS[name](), MODELS[name]
    d_model, h = config.hidden_size, config.num_attention_heads
    assert (config.num_hidden_layers, h, d_model) == (shape.n_layers, shape.num_heads, shape.d_model)
    g = 1 if getattr(config, "multi_query", False) else getattr(config, "num_key_value_heads", None) or h
    assert g == shape.num_kv_heads
    assert (getattr(config, "head_dim", None) or d_model // h) == shape.head_dim
    if shape.window is not None:
        assert config.sliding_window == shape.window
    if hasattr(config, "layer_types"):
        assert config.layer_types.count("sliding_attention") == shape.n_local_layers


def test_exceptions_to_the_rule_have_a_note():
    for shape in MODELS.values():
        unusual = (
            shape.num_heads * shape.head_dim != shape.d_model and shape.kind != "MLA",
            shape.window is not None,
            not shape.has_cache,
            shape.kind == "MLA",
        )
        assert shape.note or not any(unusual), shape.name
    assert {name for name, m in MODELS.items() if m.window} == {"Mistral-7B", "Gemma-2-2B", "Gemma-2-9B", "Gemma-2-27B"}


@pytest.mark.parametrize(
    ("name", "factor"),
    [("SmolLM2-135M", 3), ("Llama-3-8B", 4), ("Llama-3-70B", 8), ("Qwen2.5-7B", 7), ("Falcon-7B", 71)],
)
def test_factor_saved_by_sharing(name, factor):
    shape = MODELS[name]
    assert shape.mha_cache_bytes(100, 3) == factor * shape.cache_bytes(100, 3)


def test_mla_is_like_two_groups_and_a_quarter():
    shape = MODELS["DeepSeek-V2"]
    assert shape.cached_elements == 576 == 2.25 * 2 * shape.head_dim
    assert shape.n_layers * shape.cached_elements == 34_560
    assert round(100 * (1 - shape.cache_bytes() / shape.mha_cache_bytes()), 1) == 98.2


@pytest.mark.parametrize(("name", "d_k"), [("GPT-2 small", 64), ("BERT-base", 64), ("LLaMA-2-7B", 128)])
def test_convention_of_d_k(name, d_k):
    shape = MODELS[name]
    assert shape.d_model // shape.num_heads == shape.head_dim == d_k


# --- Divisores y errores ---


def test_nearest_divisors():
    for size in range(1, 61):
        divisors = [k for k in range(1, size + 1) if size % k == 0]
        for wanted in range(1, 70):
            below, above = [k for k in divisors if k <= wanted][-1:], [k for k in divisors if k > wanted][:1]
            expected = [wanted] if wanted in divisors else below + above
            assert cost.nearest_divisors(size, wanted) == expected


CALLS = {
    "d_model": lambda bad: cost.attention_params(bad, 1),
    "num_heads": lambda bad: cost.attention_flops(12, bad, 3),
    "num_kv_heads": lambda bad: cost.attention_params(12, 4, num_kv_heads=bad),
    "head_dim": lambda bad: cost.weight_shapes(12, 4, head_dim=bad),
    "n": lambda bad: cost.attention_flops(12, 4, bad),
    "batch": lambda bad: cost.attention_flops(12, 4, 3, batch=bad),
    "num_heads ": lambda bad: cost.score_elements(bad, 3),
    "n ": lambda bad: cost.score_bytes(2, bad),
    "batch ": lambda bad: cost.score_elements(2, 3, batch=bad),
    "bytes_per_element": lambda bad: cost.score_bytes(2, 3, bytes_per_element=bad),
    "n_layers": lambda bad: cost.kv_cache_bytes(bad, 2, 3, 4),
    "num_kv_heads ": lambda bad: cost.kv_cache_bytes(1, bad, 3, 4),
    "head_dim ": lambda bad: cost.kv_cache_bytes(1, 2, bad, 4),
    "n_tokens": lambda bad: cost.kv_cache_bytes(1, 2, 3, bad),
    "batch  ": lambda bad: cost.kv_cache_bytes(1, 2, 3, 4, bad),
    "bytes_per_element ": lambda bad: cost.kv_cache_bytes(1, 2, 3, 4, 1, bad),
    "n_tokens ": lambda bad: MODELS["Mistral-7B"].cache_bytes(bad),
}


@pytest.mark.parametrize("bad", [0, -3, 2.0, 0.5, "8", True, [2], torch.ones(2)], ids=repr)
@pytest.mark.parametrize("name", CALLS)
def test_bad_size_says_which_and_why(name, bad):
    with pytest.raises(ValueError, match=rf"^Se esperaba {name.strip()} entero ≥ 1 y llegó .*Lo habitual: "):
        CALLS[name](bad)


def test_h_that_does_not_divide_d_model():
    with pytest.raises(
        ValueError, match=r"d_model = 512 .* 12 cabezas \(512 / 12 = 42,67\).* \(8 o 16\) o da head_dim"
    ):
        cost.attention_params(512, 12)
    with pytest.raises(ValueError, match=r"divida a 8 \(8\)"):
        cost.attention_flops(8, 9, 1)
    assert cost.attention_params(512, 12, head_dim=64) == 4 * 512 * 12 * 64


def test_g_that_does_not_divide_h():
    with pytest.raises(ValueError, match=r"8 cabezas de consulta .* num_kv_heads = 3 .*\(2 o 4\).*h/g"):
        cost.attention_params(512, 8, num_kv_heads=3)
    with pytest.raises(ValueError, match=r"8 cabezas de consulta .* num_kv_heads = 16 "):
        cost.attention_flops(512, 8, 4, num_kv_heads=16)


def test_numpy_integers_are_accepted_and_do_not_overflow():
    n = np.int32(100_000)
    made = cost.score_bytes(np.int32(64), n)
    assert made == 64 * 100_000**2 * 4
    assert type(made) is int


def test_importing_it_does_not_load_torch():
    code = "import sys; from multicabeza import cost; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
