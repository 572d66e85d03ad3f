"""La atención del módulo frente a PyTorch, a transformers y a la fórmula escrita de otra manera.

Todos los tamaños son distintos y ninguno vale 1, las proyecciones tienen sesgos no nulos y las comparaciones exactas
van en float64: con cabezas iguales, sesgos nulos o pesos pequeños, varios errores clásicos pasan sin verse.
"""

import copy
import re

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from multicabeza.attention import (
    KVCache,
    MultiHeadAttention,
    RotaryEmbedding,
    causal_mask,
    merge_heads,
    padding_mask,
    scaled_dot_product_attention,
    sliding_window_mask,
    split_heads,
)

BATCH, N, H, D_K = 2, 7, 3, 4
D_MODEL = H * D_K
LENGTHS = [7, 4]
EXACT = {"atol": 1e-10, "rtol": 0}


def randn(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def make_layer(d_model=D_MODEL, num_heads=H, **options):
    """Capa con pesos de varianza 1/d y sesgos no nulos, en float64."""
    torch.manual_seed(1)
    layer = MultiHeadAttention(d_model, num_heads, **options).double()
    with torch.no_grad():
        for name, parameter in layer.named_parameters():
            parameter.normal_(std=0.5 if name.endswith("bias") else d_model**-0.5)
    return layer


def make_torch(d_model=D_MODEL, num_heads=H, **options):
    torch.manual_seed(2)
    module = nn.MultiheadAttention(d_model, num_heads, batch_first=True, **options).double()
    if module.in_proj_bias is not None:
        nn.init.normal_(module.in_proj_bias, std=0.5)
        nn.init.normal_(module.out_proj.bias, std=0.5)
    return module


def formula(query, key, value, mask=None):
    """La ecuación 1 fila a fila: para cada consulta, solo sobre las claves que puede ver."""
    batch, h, n_q, d_k = query.shape
    n_rep = h // key.shape[1]
    output, weights = query.new_zeros(batch, h, n_q, value.shape[-1]), query.new_zeros(batch, h, n_q, key.shape[-2])
    mask = torch.ones_like(weights, dtype=torch.bool) if mask is None else mask.expand_as(weights)
    for b in range(batch):
        for i in range(h):
            for q in range(n_q):
                visible = mask[b, i, q].nonzero().flatten()
                if len(visible):
                    scores = key[b, i // n_rep, visible] @ query[b, i, q] / d_k**0.5
                    weights[b, i, q, visible] = scores.exp() / scores.exp().sum()
                    output[b, i, q] = weights[b, i, q, visible] @ value[b, i // n_rep, visible]
    return output, weights


def random_mask(*shape, seed=5):
    """Máscara al azar que deja al menos una clave por fila."""
    mask = torch.rand(*shape, generator=torch.Generator().manual_seed(seed)) < 0.5
    mask[..., 0] |= ~mask.any(-1)
    return mask


# --- Dividir y concatenar --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("leading", [(), (BATCH,), (2, 3)])
def test_split_heads_gives_each_head_its_columns(leading):
    """La cabeza i recibe las columnas i·d_k … (i+1)·d_k − 1, sea cual sea el lote."""
    x = randn(*leading, N, D_MODEL)
    heads = split_heads(x, H)
    assert heads.shape == (*leading, H, N, D_K)
    for i in range(H):
        assert torch.equal(heads[..., i, :, :], x[..., i * D_K : (i + 1) * D_K])
    assert heads.data_ptr() == x.data_ptr(), "dividir no debe copiar"


def test_merge_heads_is_the_inverse_of_split_heads():
    x = randn(BATCH, N, D_MODEL)
    assert torch.equal(merge_heads(split_heads(x, H)), x)
    heads = randn(BATCH, H, N, D_K)
    assert torch.equal(merge_heads(heads), torch.cat(list(heads.unbind(1)), dim=-1))


# --- Máscaras --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n_q", "n_k"), [(5, None), (1, 4), (2, 5), (5, 2)])
def test_causal_mask_is_aligned_lower_right(n_q, n_k):
    mask = causal_mask(n_q, n_k)
    n_k = n_k or n_q
    assert mask.dtype == torch.bool
    assert mask.tolist() == [[j <= i + n_k - n_q for j in range(n_k)] for i in range(n_q)]


@pytest.mark.parametrize("lengths", [[3, 5, 0], torch.tensor([3, 5, 0]), torch.tensor([3, 5, 0], dtype=torch.int32)])
def test_padding_mask_hides_the_keys_past_the_end(lengths):
    mask = padding_mask(lengths, 5)
    assert mask.shape == (3, 1, 1, 5)
    assert mask.dtype == torch.bool
    assert mask[:, 0, 0].tolist() == [[True] * k + [False] * (5 - k) for k in (3, 5, 0)]


@pytest.mark.parametrize(("n_q", "n_k"), [(8, None), (3, 8), (1, 8)])
@pytest.mark.parametrize("window", [1, 3, 20])
@pytest.mark.parametrize("num_sinks", [0, 2])
def test_sliding_window_mask(n_q, n_k, window, num_sinks):
    mask = sliding_window_mask(n_q, window, n_k, num_sinks=num_sinks)
    n_k = n_k or n_q
    expected = [[j <= p and (j > p - window or j < num_sinks) for j in range(n_k)] for p in range(n_k - n_q, n_k)]
    assert mask.tolist() == expected


def test_masks_go_to_the_device_asked_for():
    """El dispositivo «meta» sirve para comprobarlo sin GPU; sin pedirlo, padding_mask sigue a sus longitudes."""
    assert causal_mask(3, device="meta").is_meta
    assert sliding_window_mask(3, 2, num_sinks=1, device="meta").is_meta


# --- scaled_dot_product_attention ------------------------------------------------------------------------------------

MASKS = {
    "sin máscara": None,
    "(n_q, n_k)": random_mask(5, N),
    "(batch, 1, n_q, n_k)": random_mask(BATCH, 1, 5, N),
    "(batch, 1, 1, n_k)": padding_mask(LENGTHS, N),
    "(batch, h, n_q, n_k)": random_mask(BATCH, 6, 5, N),
}


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("num_kv_heads", [6, 2, 1])
@pytest.mark.parametrize("d_v", [D_K, D_K + 1])
def test_attention_equals_the_formula(need_weights, is_causal, mask, num_kv_heads, d_v):
    """Más claves que consultas, MHA, GQA y MQA, con y sin causalidad, por las dos vías."""
    query, key, value = randn(BATCH, 6, 5, D_K), randn(BATCH, num_kv_heads, N, D_K, seed=1), None
    value = randn(BATCH, num_kv_heads, N, d_v, seed=2)
    visible = torch.ones(5, N, dtype=torch.bool) if mask is None else mask
    if is_causal:
        visible = visible & torch.ones(5, N, dtype=torch.bool).tril(N - 5)
    expected_output, expected_weights = formula(query, key, value, visible)
    result = scaled_dot_product_attention(query, key, value, mask, is_causal=is_causal, need_weights=need_weights)
    output = result[0] if need_weights else result
    torch.testing.assert_close(output, expected_output, **EXACT)
    if need_weights:
        torch.testing.assert_close(result[1], expected_weights, **EXACT)


@pytest.mark.parametrize("leading", [(), (3,), (2, 3), (2, 3, 4)])
def test_attention_accepts_any_leading_dimensions(leading):
    query, key, value = (randn(*leading, n, D_K, seed=n) for n in (5, 6, 6))
    value = randn(*leading, 6, D_K, seed=9)
    weights = torch.softmax(query @ key.mT / D_K**0.5, dim=-1)
    torch.testing.assert_close(scaled_dot_product_attention(query, key, value), weights @ value, **EXACT)
    output, our_weights = scaled_dot_product_attention(query, key, value, need_weights=True)
    torch.testing.assert_close(output, weights @ value, **EXACT)
    torch.testing.assert_close(our_weights, weights, **EXACT)


def test_large_scores_stay_finite():
    output, weights = scaled_dot_product_attention(
        *(1e3 * randn(2, 3, 5, 4, seed=s) for s in range(3)), need_weights=True
    )
    assert output.isfinite().all()
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 3, 5, dtype=torch.float64), **EXACT)


def test_causal_attention_does_not_leak_the_future():
    """Cambiar el último token cambia la última salida y ninguna anterior."""
    x = randn(BATCH, H, N, D_K)
    changed = x.clone()
    changed[:, :, -1] += 1
    before, after = (scaled_dot_product_attention(t, t, t, is_causal=True) for t in (x, changed))
    assert torch.equal(before[:, :, :-1], after[:, :, :-1])
    assert (before[:, :, -1] - after[:, :, -1]).abs().min() > 1e-6


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("per_head", [False, True])
def test_a_query_without_keys_gives_zeros_and_finite_gradients(need_weights, per_head):
    mask = random_mask(BATCH, H if per_head else 1, 5, N)
    mask[0, -1, 2] = False
    inputs = [randn(BATCH, H, n, D_K, seed=s).requires_grad_() for s, n in enumerate((5, N, N))]
    result = scaled_dot_product_attention(*inputs, mask, need_weights=need_weights)
    output = result[0] if need_weights else result
    expected_output, expected_weights = formula(*inputs, mask)
    assert torch.equal(output[0, -1, 2], torch.zeros(D_K, dtype=torch.float64))
    torch.testing.assert_close(output, expected_output, **EXACT)
    if need_weights:
        assert torch.equal(result[1][0, -1, 2], torch.zeros(N, dtype=torch.float64))
        torch.testing.assert_close(result[1], expected_weights, **EXACT)
    with torch.autograd.detect_anomaly():  # ni siquiera un NaN intermedio que luego se borre
        gradients = torch.autograd.grad(output.square().sum(), inputs)
    expected = torch.autograd.grad(expected_output.square().sum(), inputs)
    for gradient, reference in zip(gradients, expected, strict=True):
        assert gradient.isfinite().all()
        torch.testing.assert_close(gradient, reference, **EXACT)


@pytest.mark.parametrize("need_weights", [False, True])
def test_causal_with_more_queries_than_keys_leaves_the_first_ones_empty(need_weights):
    query, key, value = randn(BATCH, H, 5, D_K), randn(BATCH, H, 2, D_K, seed=1), randn(BATCH, H, 2, D_K, seed=2)
    result = scaled_dot_product_attention(query, key, value, is_causal=True, need_weights=need_weights)
    output = result[0] if need_weights else result
    torch.testing.assert_close(output, formula(query, key, value, causal_mask(5, 2))[0], **EXACT)
    assert not output[:, :, :3].any()


# --- Igual que nn.MultiheadAttention ---------------------------------------------------------------------------------

FORBIDDEN_FUTURE = torch.ones(N, N, dtype=torch.bool).triu(1)  # en nn.MultiheadAttention, True = NO atiende
FORBIDDEN_PADDING = torch.arange(N) >= torch.tensor(LENGTHS)[:, None]
CASES = {  # nuestros argumentos, los de PyTorch
    "sin máscara": ({}, {}),
    "causal": ({"is_causal": True}, {"attn_mask": FORBIDDEN_FUTURE}),
    "causal con máscara": ({"mask": causal_mask(N)}, {"attn_mask": FORBIDDEN_FUTURE}),
    "relleno": ({"mask": padding_mask(LENGTHS, N)}, {"key_padding_mask": FORBIDDEN_PADDING}),
    "relleno y causal": (
        {"mask": padding_mask(LENGTHS, N), "is_causal": True},
        {"key_padding_mask": FORBIDDEN_PADDING, "attn_mask": FORBIDDEN_FUTURE},
    ),
    "ventana y relleno": (
        {"mask": sliding_window_mask(N, 3, num_sinks=1) & padding_mask(LENGTHS, N)},
        {"key_padding_mask": FORBIDDEN_PADDING, "attn_mask": ~sliding_window_mask(N, 3, num_sinks=1)},
    ),
    "por cabeza": (
        {"mask": random_mask(BATCH, H, N, N)},
        {"attn_mask": ~random_mask(BATCH, H, N, N).flatten(0, 1)},
    ),
}


def gradients(output, x, module):
    """Gradientes de una función no lineal de la salida: respecto a la entrada y a las cuatro familias de pesos."""
    weights = (output * randn(*output.shape, seed=8)).sum() + output.square().sum()
    if isinstance(module, MultiHeadAttention):
        parameters = [module.qkv_proj.weight, module.qkv_proj.bias, module.out_proj.weight, module.out_proj.bias]
    else:
        parameters = [module.in_proj_weight, module.in_proj_bias, module.out_proj.weight, module.out_proj.bias]
    return torch.autograd.grad(weights, [*x, *parameters])


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize(("ours", "theirs"), CASES.values(), ids=CASES)
def test_equals_torch_outputs_and_gradients(need_weights, ours, theirs):
    module = make_torch()
    layer = MultiHeadAttention.from_torch(module)
    x = randn(BATCH, N, D_MODEL).requires_grad_()
    expected, expected_weights = module(x, x, x, average_attn_weights=False, **theirs)
    result = layer(x, need_weights=need_weights, **ours)
    output = result[0] if need_weights else result
    torch.testing.assert_close(output, expected, **EXACT)
    if need_weights:
        torch.testing.assert_close(result[1], expected_weights, **EXACT)
    for ours_, theirs_ in zip(gradients(output, [x], layer), gradients(expected, [x], module), strict=True):
        torch.testing.assert_close(ours_, theirs_, **EXACT)


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("padded", [False, True])
def test_cross_attention_equals_torch(need_weights, padded):
    """Fuente más larga que la consulta, con y sin relleno en la fuente."""
    module = make_torch()
    layer = MultiHeadAttention.from_torch(module)
    x, context = randn(BATCH, 5, D_MODEL).requires_grad_(), randn(BATCH, N, D_MODEL, seed=3).requires_grad_()
    expected, expected_weights = module(
        x, context, context, key_padding_mask=FORBIDDEN_PADDING if padded else None, average_attn_weights=False
    )
    result = layer(x, context, mask=padding_mask(LENGTHS, N) if padded else None, need_weights=need_weights)
    output = result[0] if need_weights else result
    torch.testing.assert_close(output, expected, **EXACT)
    if need_weights:
        torch.testing.assert_close(result[1], expected_weights, **EXACT)
    ours, theirs = gradients(output, [x, context], layer), gradients(expected, [x, context], module)
    for ours_, theirs_ in zip(ours, theirs, strict=True):
        torch.testing.assert_close(ours_, theirs_, **EXACT)


def test_causal_cross_attention_is_aligned_lower_right():
    layer, x, context = make_layer(), randn(BATCH, 5, D_MODEL), randn(BATCH, N, D_MODEL, seed=3)
    expected = layer(x, context, mask=torch.ones(5, N, dtype=torch.bool).tril(N - 5))
    torch.testing.assert_close(layer(x, context, is_causal=True), expected, **EXACT)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("batch_first", [True, False])
def test_from_torch_copies_weights_and_settings(bias, batch_first):
    module = nn.MultiheadAttention(D_MODEL, H, dropout=0.25, bias=bias, batch_first=batch_first).eval()
    state, before = torch.get_rng_state(), copy.deepcopy(module.state_dict())
    layer = MultiHeadAttention.from_torch(module)
    assert torch.equal(torch.get_rng_state(), state), "copiar pesos no debe gastar números aleatorios"
    assert (layer.dropout, layer.training, layer.qkv_proj.weight.dtype) == (0.25, False, torch.float32)
    x = randn(BATCH, N, D_MODEL, dtype=torch.float32)
    expected = module(*(x if batch_first else x.transpose(0, 1),) * 3, need_weights=False)[0]
    torch.testing.assert_close(layer(x), expected if batch_first else expected.transpose(0, 1), atol=1e-6, rtol=0)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.zero_()
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items()), "comparte pesos"


def test_from_torch_keeps_dtype_and_device():
    layer = MultiHeadAttention.from_torch(nn.MultiheadAttention(D_MODEL, H, dtype=torch.bfloat16, device="meta"))
    assert {(p.dtype, p.device.type) for p in layer.parameters()} == {(torch.bfloat16, "meta")}


def test_initialisation_is_that_of_torch():
    """Xavier uniforme sobre las proyecciones de entrada juntas, y sesgos nulos."""
    layer, module = MultiHeadAttention(48, 4), nn.MultiheadAttention(48, 4)
    assert layer.qkv_proj.weight.std().item() == pytest.approx(module.in_proj_weight.std().item(), rel=0.05)
    assert layer.out_proj.weight.std().item() == pytest.approx(module.out_proj.weight.std().item(), rel=0.1)
    bound = (6 / (48 + 3 * 48)) ** 0.5
    assert 0.95 * bound < layer.qkv_proj.weight.abs().max() <= bound
    assert not layer.qkv_proj.bias.any()
    assert not layer.out_proj.bias.any()


# --- La capa: GQA, head_dim, tipos, dropout, filas vacías ------------------------------------------------------------


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("num_kv_heads", [1, 2, 3])
@pytest.mark.parametrize("n", [1, N])
@pytest.mark.parametrize("masked", [False, True])
def test_grouped_queries_equal_explicit_repetition(need_weights, num_kv_heads, n, masked):
    """Las h/g primeras cabezas de consulta comparten la primera de claves: repeat_interleave, no repeat."""
    d_model, h = 12, 6
    d_k, rep = d_model // h, h // num_kv_heads
    grouped = make_layer(d_model, h, num_kv_heads=num_kv_heads)
    full = make_layer(d_model, h)
    q, k, v = grouped.qkv_proj.weight.split([h * d_k, num_kv_heads * d_k, num_kv_heads * d_k])
    q_bias, k_bias, v_bias = grouped.qkv_proj.bias.split([h * d_k, num_kv_heads * d_k, num_kv_heads * d_k])
    with torch.no_grad():
        spread = [w.view(num_kv_heads, d_k, d_model).repeat_interleave(rep, 0).flatten(0, 1) for w in (k, v)]
        full.qkv_proj.weight.copy_(torch.cat([q, *spread]))
        spread = [b.view(num_kv_heads, d_k).repeat_interleave(rep, 0).flatten() for b in (k_bias, v_bias)]
        full.qkv_proj.bias.copy_(torch.cat([q_bias, *spread]))
        full.out_proj.load_state_dict(grouped.out_proj.state_dict())
    x, context = randn(BATCH, n, d_model), randn(BATCH, N, d_model, seed=4)
    mask = random_mask(BATCH, h, n, N) if masked else None
    for arguments in ((x,), (x, context)):
        options = {"mask": mask[..., : arguments[-1].shape[1]] if masked else None, "is_causal": True}
        if masked:
            options["mask"] = options["mask"].clone()
            options["mask"][..., 0] = True
        ours, reference = (
            grouped(*arguments, need_weights=need_weights, **options),
            full(*arguments, need_weights=need_weights, **options),
        )
        torch.testing.assert_close(ours, reference, **EXACT)


@pytest.mark.parametrize("shape", ["entrenar", "generar"])
def test_grouped_queries_never_repeat_the_keys(shape):
    """PyTorch repite claves en su vía matemática (la del dropout en CPU); aquí no pasa por ella nunca."""
    layer = make_layer(24, 6, num_kv_heads=2, dropout=0.5 if shape == "entrenar" else 0.0)
    x = randn(BATCH, N if shape == "entrenar" else 1, 24)
    with torch.profiler.profile() as profile:
        layer(x, is_causal=True)
        layer(x, need_weights=True)
    operations = {event.key for event in profile.key_averages()}
    assert "aten::bmm" in operations
    assert not operations & {"aten::repeat_interleave", "aten::repeat", "aten::_scaled_dot_product_attention_math"}


@pytest.mark.parametrize("head_dim", [5, 2])
@pytest.mark.parametrize("bias", [True, False])
def test_head_dim_is_free(head_dim, bias):
    """d_k = d_model / h es una convención: W^O va de h·d_k a d_model."""
    layer = make_layer(head_dim=head_dim, bias=bias)
    x = randn(BATCH, N, D_MODEL)
    q, k, v = layer.qkv_proj(x).chunk(3, dim=-1)
    heads = [
        formula(*(t[..., i * head_dim : (i + 1) * head_dim][:, None] for t in (q, k, v)))[0][:, 0] for i in range(H)
    ]
    expected = torch.cat(heads, dim=-1) @ layer.out_proj.weight.T + (layer.out_proj.bias if bias else 0)
    torch.testing.assert_close(layer(x), expected, **EXACT)
    assert layer.out_proj.weight.shape == (D_MODEL, H * head_dim)


@pytest.mark.parametrize("num_kv_heads", [H, 1])
@pytest.mark.parametrize(("dtype", "atol"), [(torch.float64, 1e-10), (torch.float32, 1e-5), (torch.bfloat16, 4e-2)])
def test_dtypes(num_kv_heads, dtype, atol):
    """La capa en otro tipo da lo mismo que en float64, salvo su redondeo, por las dos vías y con caché."""
    reference = make_layer(num_kv_heads=num_kv_heads, rotary=RotaryEmbedding(D_K))
    x = randn(BATCH, N, D_MODEL)
    expected, expected_weights = reference(x, is_causal=True, need_weights=True)
    layer = copy.deepcopy(reference).to(dtype)
    output, weights = layer(x.to(dtype), is_causal=True, need_weights=True)
    cache = KVCache()
    decoded = torch.cat([layer(x[:, i : i + 1].to(dtype), cache=cache) for i in range(N)], dim=1)
    for result, target in (
        (output, expected),
        (weights, expected_weights),
        (layer(x.to(dtype), is_causal=True), expected),
    ):
        assert result.dtype == dtype
        torch.testing.assert_close(result.double(), target, atol=atol, rtol=0)
    torch.testing.assert_close(decoded.double(), expected, atol=atol, rtol=0)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no hay GPU")
def test_on_a_gpu():
    layer, x = make_layer(num_kv_heads=1, rotary=RotaryEmbedding(D_K)), randn(BATCH, N, D_MODEL)
    mask = padding_mask(LENGTHS, N)
    expected = layer(x, mask=mask, is_causal=True)
    result = layer.cuda()(x.cuda(), mask=mask.cuda(), is_causal=True)
    torch.testing.assert_close(result.cpu(), expected, atol=1e-8, rtol=0)


@pytest.mark.parametrize("need_weights", [False, True])
def test_dropout_only_when_training(need_weights):
    """En eval no cambia nada; al entrenar anula pesos y, de media, no cambia la salida."""
    layer, x = make_layer(dropout=0.4), randn(BATCH, N, D_MODEL)

    def run():
        result = layer(x, need_weights=need_weights)
        return result[0] if need_weights else result

    plain = make_layer()(x)
    layer.eval()
    torch.testing.assert_close(run(), plain, **EXACT)
    layer.train()
    torch.manual_seed(0)
    first, second = run(), run()
    assert not torch.allclose(first, second)
    mean = torch.stack([run() for _ in range(4000)]).mean(0)
    torch.testing.assert_close(mean, plain, atol=0.1, rtol=0)


def test_dropout_zeroes_the_right_share_of_the_weights():
    """Con valores identidad, la salida SON los pesos tras el dropout: se ve cuántos anula y cómo reescala el resto."""
    n = 16
    layer = MultiHeadAttention(n, 1, dropout=0.25, bias=False).double()
    with torch.no_grad():
        layer.qkv_proj.weight[: 2 * n].zero_()  # puntuaciones nulas: pesos 1/n
        layer.qkv_proj.weight[2 * n :].copy_(torch.eye(n))
        layer.out_proj.weight.copy_(torch.eye(n))
    torch.manual_seed(0)
    dropped, weights = layer(torch.eye(n, dtype=torch.float64).expand(50, n, n), need_weights=True)
    assert torch.allclose(weights, torch.full_like(weights, 1 / n)), "los pesos devueltos son los de antes del dropout"
    assert (dropped == 0).double().mean().item() == pytest.approx(0.25, abs=0.02)
    assert torch.allclose(dropped[dropped != 0], torch.tensor(1 / n / 0.75, dtype=torch.float64))


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("bias", [True, False])
def test_silent_queries_write_nothing(need_weights, bias):
    """Una consulta sin claves da ceros también tras W^O, aunque tenga sesgo; las demás no se enteran."""
    layer = make_layer(bias=bias)
    x = randn(BATCH, N, D_MODEL).requires_grad_()
    mask = causal_mask(N).expand(BATCH, 1, N, N).clone()
    mask[0, 0, 3] = False
    result = layer(x, mask=mask, need_weights=need_weights)
    output = result[0] if need_weights else result
    assert torch.equal(output[0, 3], torch.zeros(D_MODEL, dtype=torch.float64))
    others = torch.ones(BATCH, N, dtype=torch.bool)
    others[0, 3] = False
    torch.testing.assert_close(output[others], layer(x, is_causal=True)[others], **EXACT)
    if need_weights:
        assert not result[1][0, :, 3].any()
    (gradient,) = torch.autograd.grad(output.square().sum(), x)
    assert gradient.isfinite().all()


def test_a_query_silent_in_one_head_keeps_the_others():
    """Con máscara por cabeza, solo calla quien no ve nada en ninguna: aquí la cabeza 1 no aporta y el resto sí."""
    layer, x = make_layer(), randn(BATCH, N, D_MODEL)
    mask = torch.ones(BATCH, H, N, N, dtype=torch.bool)
    mask[:, 1] = False
    heads, _ = formula(*(split_heads(t, H) for t in layer.qkv_proj(x).chunk(3, dim=-1)), mask)
    expected = layer.out_proj(merge_heads(heads))
    torch.testing.assert_close(layer(x, mask=mask), expected, **EXACT)


def test_a_whole_empty_sequence_gives_zeros():
    """Longitud 0 en un lote con relleno: ni NaN ni contagio a las demás secuencias."""
    layer, x = make_layer(), randn(BATCH, N, D_MODEL)
    output = layer(x, mask=padding_mask([0, N], N))
    assert not output[0].any()
    torch.testing.assert_close(output[1], layer(x)[1], **EXACT)


def test_layer_runs_under_autocast():
    layer, x = make_layer().float(), randn(BATCH, N, D_MODEL, dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = layer(x, is_causal=True)
    torch.testing.assert_close(output.float(), layer(x, is_causal=True), atol=5e-2, rtol=0)


# --- Caché -----------------------------------------------------------------------------------------------------------

CHUNKS = {"de uno en uno": [1] * 11, "varios a la vez": [4, 1, 3, 3], "primero todo": [9, 1, 1]}
LONG = 11


def decode(layer, x, cache, chunks, **options):
    pieces = [layer(piece, cache=cache, is_causal=True, **options) for piece in x.split(chunks, dim=1)]
    return torch.cat(pieces, dim=1)


@pytest.mark.parametrize("chunks", CHUNKS.values(), ids=CHUNKS)
@pytest.mark.parametrize("num_kv_heads", [H, 1])
@pytest.mark.parametrize("rotary", [None, RotaryEmbedding(D_K)], ids=["sin rotar", "rotatorias"])
@pytest.mark.parametrize("grad", [False, True])
def test_cached_decoding_equals_the_full_pass(chunks, num_kv_heads, rotary, grad):
    layer, x = make_layer(num_kv_heads=num_kv_heads, rotary=rotary), randn(BATCH, LONG, D_MODEL)
    cache = KVCache()
    with torch.set_grad_enabled(grad):
        torch.testing.assert_close(decode(layer, x, cache, chunks), layer(x, is_causal=True), **EXACT)
    assert len(cache) == cache.num_seen == LONG
    assert cache.keys.shape == cache.values.shape == (BATCH, num_kv_heads, LONG, D_K)


@pytest.mark.parametrize("chunks", CHUNKS.values(), ids=CHUNKS)
@pytest.mark.parametrize(("window", "num_sinks"), [(1, 0), (3, 0), (3, 2), (4, 1), (20, 2)])
@pytest.mark.parametrize("rotary", [None, RotaryEmbedding(D_K)], ids=["sin rotar", "rotatorias"])
@pytest.mark.parametrize("is_causal", [False, True])
def test_windowed_cache_equals_the_same_mask(chunks, window, num_sinks, rotary, is_causal):
    layer, x = make_layer(num_kv_heads=1, rotary=rotary), randn(BATCH, LONG, D_MODEL)
    cache = KVCache(window, num_sinks)
    expected = layer(x, mask=sliding_window_mask(LONG, window, num_sinks=num_sinks))
    pieces = [layer(piece, cache=cache, is_causal=is_causal) for piece in x.split(chunks, dim=1)]
    torch.testing.assert_close(torch.cat(pieces, dim=1), expected, **EXACT)
    kept = sorted({*range(num_sinks), *range(LONG - window, LONG)} & set(range(LONG)))
    assert cache.positions().tolist() == kept
    assert cache.keys.shape[2] == cache.values.shape[2] == len(cache) == len(kept)


@pytest.mark.parametrize("chunks", CHUNKS.values(), ids=CHUNKS)
@pytest.mark.parametrize("window", [None, 3])
@pytest.mark.parametrize("need_weights", [False, True])
def test_masks_with_a_cache_count_its_keys(chunks, window, need_weights):
    """`cache.positions` elige, de una máscara para toda la secuencia, las columnas que quedan."""
    layer, x = make_layer(), randn(BATCH, LONG, D_MODEL)
    hidden = torch.ones(BATCH, 1, 1, LONG, dtype=torch.bool)
    hidden[0, ..., 2], hidden[1, ..., 5] = False, False
    visible = causal_mask(LONG) if window is None else sliding_window_mask(LONG, window, num_sinks=1)
    expected, expected_weights = layer(x, mask=hidden & visible, need_weights=True)
    cache, pieces, start = KVCache(window, num_sinks=1), [], 0
    for piece in x.split(chunks, dim=1):
        columns = cache.positions(piece.shape[1])
        assert len(columns) == cache.num_keys(piece.shape[1])
        result = layer(piece, mask=hidden[..., columns], cache=cache, is_causal=True, need_weights=need_weights)
        if need_weights:
            result, weights = result
            rows = expected_weights[:, :, start : start + piece.shape[1]]
            torch.testing.assert_close(weights, rows[..., columns], **EXACT)
        pieces.append(result)
        start += piece.shape[1]
    torch.testing.assert_close(torch.cat(pieces, dim=1), expected, **EXACT)


def test_gradients_flow_through_the_cache():
    """Con gradientes, decodificar por trozos da los mismos que la pasada completa."""
    layer = make_layer()
    x = randn(BATCH, LONG, D_MODEL).requires_grad_()
    ours = gradients(decode(layer, x, KVCache(), [3, 1, 1, 6]), [x], layer)
    theirs = gradients(layer(x, is_causal=True), [x], layer)
    for mine, reference in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, reference, **EXACT)


def test_cache_survives_a_change_of_gradient_mode():
    """Empezar en inference_mode y seguir fuera (o al revés) es corriente al experimentar."""
    layer, x = make_layer(), randn(BATCH, LONG, D_MODEL)
    expected = layer(x, is_causal=True)
    cache, pieces = KVCache(), []
    inference, no_grad, grad = torch.inference_mode, torch.no_grad, torch.enable_grad
    modes = [inference, inference, no_grad, no_grad, inference, grad, no_grad]
    for mode, piece in zip(modes, x.split([2, 1, 1, 2, 1, 2, 2], dim=1), strict=True):
        with mode():
            pieces.append(layer(piece, cache=cache, is_causal=True).detach().clone())
    torch.testing.assert_close(torch.cat(pieces, dim=1), expected, **EXACT)


def test_cache_does_not_copy_everything_at_each_step():
    """Tras crecer, el búfer aguanta muchos tokens en el mismo sitio."""
    cache, places = KVCache(), []
    with torch.no_grad():
        for step in range(64):
            keys, values = cache.update(randn(1, 2, 1, 3, seed=step), randn(1, 2, 1, 3, seed=step + 100))
            places.append(keys.data_ptr())
            assert keys.shape == values.shape == (1, 2, step + 1, 3)
    assert len(set(places)) < 10
    assert torch.equal(cache.keys, torch.cat([randn(1, 2, 1, 3, seed=step) for step in range(64)], dim=2))


def test_a_failed_call_leaves_the_cache_as_it_was():
    layer, x, cache = make_layer(), randn(BATCH, 3, D_MODEL), KVCache()
    layer(x, cache=cache, is_causal=True)
    with pytest.raises(ValueError, match="3 claves anteriores"):
        layer(x, cache=cache, mask=causal_mask(3))
    assert len(cache) == cache.num_seen == 3


# --- Posiciones rotatorias -------------------------------------------------------------------------------------------


def test_rotary_equals_complex_rotation():
    """Cada pareja (i, i + d_k/2) es un número complejo que se multiplica por e^{ipθ_i}."""
    query, key, positions = randn(2, 3, 5, 8), randn(2, 1, 5, 8, seed=1), torch.tensor([0, 1, 7, 30, 4])
    rotated = RotaryEmbedding(8, base=100.0)(query, key, positions)
    turn = torch.exp(1j * positions[:, None] * 100.0 ** (-torch.arange(4, dtype=torch.float64) / 4))
    for x, result in zip((query, key), rotated, strict=True):
        expected = torch.complex(x[..., :4], x[..., 4:]) * turn
        torch.testing.assert_close(result, torch.cat([expected.real, expected.imag], dim=-1), **EXACT)


def test_rotary_scores_depend_only_on_the_distance():
    rotary, (query, key) = RotaryEmbedding(8), (randn(1, 1, 1, 8), randn(1, 1, 1, 8, seed=1))
    scores = []
    for shift in (0, 5, 123):
        rotated_query, _ = rotary(query, query, torch.tensor([9 + shift]))
        _, rotated_key = rotary(key, key, torch.tensor([4 + shift]))
        scores.append((rotated_query * rotated_key).sum())
    torch.testing.assert_close(scores[1], scores[0], **EXACT)
    torch.testing.assert_close(scores[2], scores[0], **EXACT)
    assert abs((query * key).sum() - scores[0]) > 1e-3


def test_rotary_angles_survive_a_cast_of_the_layer():
    """En bfloat16 las posiciones 256 y 257 serían la misma si se redondearan los ángulos."""
    rotary = RotaryEmbedding(8).to(torch.bfloat16)
    exact, _ = RotaryEmbedding(8)(*[torch.ones(1, 1, 1, 8, dtype=torch.float64)] * 2, torch.tensor([257]))
    ours, _ = rotary(*[torch.ones(1, 1, 1, 8, dtype=torch.bfloat16)] * 2, torch.tensor([257]))
    assert ours.dtype == torch.bfloat16
    torch.testing.assert_close(ours.double(), exact, atol=2e-2, rtol=0)


def test_rotary_receives_absolute_positions_and_goes_before_the_cache():
    seen = []

    def rotary(query, key, positions):
        seen.append((query.shape[1], key.shape[1], positions.tolist()))
        return query, key + 1

    layer, cache = make_layer(num_kv_heads=1, rotary=rotary), KVCache(window=2)
    for piece in randn(BATCH, 6, D_MODEL).split([3, 1, 2], dim=1):
        layer(piece, cache=cache)
    assert seen == [(H, 1, [0, 1, 2]), (H, 1, [3]), (H, 1, [4, 5])]
    plain, plain_cache = make_layer(num_kv_heads=1), KVCache(window=2)
    plain(randn(BATCH, 6, D_MODEL), cache=plain_cache)
    torch.testing.assert_close(cache.keys, plain_cache.keys + 1, **EXACT)


# --- Capas de transformers -------------------------------------------------------------------------------------------

transformers = pytest.importorskip("transformers")


def randomise(model):
    """Pesos de varianza 1/d y sesgos no nulos: con la inicialización de serie (0,02) casi cualquier error pasa."""
    torch.manual_seed(4)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" not in name.lower() and "ln_" not in name:
                parameter.normal_(std=0.3)
    return model.eval()


def run_transformers(model, attention, **inputs):
    """Ejecuta el modelo y captura lo que entra y sale de su módulo de atención, y los pesos."""
    seen = {}

    def hook(_, args, kwargs, output):
        seen["input"] = args[0] if args else kwargs["hidden_states"]
        seen["output"] = output[0]

    handle = attention.register_forward_hook(hook, with_kwargs=True)
    with torch.no_grad():
        seen["weights"] = model(**inputs, output_attentions=True).attentions
    handle.remove()
    return seen


IDS = torch.randint(0, 50, (BATCH, N), generator=torch.Generator().manual_seed(0))
TOKENIZER_MASK = (torch.arange(N) < torch.tensor(LENGTHS)[:, None]).long()


@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.parametrize(
    "options", [{}, {"scale_attn_by_inverse_layer_idx": True}, {"scale_attn_weights": False}], ids=str
)
@pytest.mark.parametrize("whole_block", [False, True])
def test_from_transformers_gpt2(index, options, whole_block):
    config = transformers.GPT2Config(vocab_size=50, n_positions=16, n_embd=24, n_layer=2, n_head=3, **options)
    config._attn_implementation = "eager"
    model = randomise(transformers.GPT2Model(config))
    block = model.h[index]
    seen = run_transformers(model, block.attn, input_ids=IDS)
    layer = MultiHeadAttention.from_transformers(block if whole_block else block.attn)
    output, weights = layer(seen["input"], is_causal=True, need_weights=True)
    torch.testing.assert_close(output, seen["output"], atol=1e-5, rtol=0)
    torch.testing.assert_close(weights, seen["weights"][index], atol=1e-5, rtol=0)
    torch.testing.assert_close(layer(seen["input"], is_causal=True), seen["output"], atol=1e-5, rtol=0)


def test_from_transformers_gpt2_cross_attention():
    config = transformers.GPT2Config(vocab_size=50, n_embd=24, n_layer=1, n_head=3, add_cross_attention=True)
    config._attn_implementation = "eager"
    block = randomise(transformers.GPT2Model(config)).h[0]
    x, context = randn(BATCH, 5, 24, dtype=torch.float32), randn(BATCH, N, 24, seed=1, dtype=torch.float32)
    layer = MultiHeadAttention.from_transformers(block.crossattention)
    with torch.no_grad():
        expected = block.crossattention(x, encoder_hidden_states=context)[0]
    torch.testing.assert_close(layer(x, context), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("part", ["BertLayer", "BertAttention", "BertSelfAttention"])
def test_from_transformers_bert(part):
    """Con relleno; la copia llega hasta W^O, y con BertSelfAttention (que no lo tiene) hasta la concatenación."""
    config = transformers.BertConfig(
        vocab_size=50, hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=32
    )
    config._attn_implementation = "eager"
    model = randomise(transformers.BertModel(config))
    block = model.encoder.layer[1]
    seen = run_transformers(model, block.attention.self, input_ids=IDS, attention_mask=TOKENIZER_MASK)
    source = {"BertLayer": block, "BertAttention": block.attention, "BertSelfAttention": block.attention.self}[part]
    layer = MultiHeadAttention.from_transformers(source)
    expected = seen["output"] if part == "BertSelfAttention" else block.attention.output.dense(seen["output"])
    output, weights = layer(seen["input"], mask=padding_mask(LENGTHS, N), need_weights=True)
    torch.testing.assert_close(output, expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(weights, seen["weights"][1], atol=1e-5, rtol=0)
    if part != "BertSelfAttention":
        normed = block.attention.output.LayerNorm(output + seen["input"])
        whole = run_transformers(model, block.attention, input_ids=IDS, attention_mask=TOKENIZER_MASK)["output"]
        torch.testing.assert_close(normed, whole, atol=1e-5, rtol=0)


ROPES = {
    "corriente": {"rope_type": "default", "rope_theta": 1000.0},
    "llama3": {
        "rope_type": "llama3",
        "rope_theta": 10000.0,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8,
    },
    "yarn": {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 16},
}


def make_llama(rope="corriente", **options):
    config = transformers.LlamaConfig(
        vocab_size=50,
        hidden_size=36,
        intermediate_size=40,
        num_hidden_layers=2,
        num_attention_heads=6,
        num_key_value_heads=2,
        max_position_embeddings=64,
        rope_parameters=dict(ROPES[rope]),
        **options,
    )
    config._attn_implementation = "eager"
    return randomise(transformers.LlamaModel(config))


@pytest.mark.parametrize("rope", ROPES)
@pytest.mark.parametrize("options", [{}, {"attention_bias": True}, {"head_dim": 10}], ids=str)
@pytest.mark.parametrize("whole_block", [False, True])
def test_from_transformers_llama(rope, options, whole_block):
    """GQA de 6 y 2, posiciones rotatorias de varias clases, y la decodificación con caché de los dos."""
    model = make_llama(rope, **options)
    block = model.layers[1]
    seen = run_transformers(model, block.self_attn, input_ids=IDS)
    layer = MultiHeadAttention.from_transformers(block if whole_block else block.self_attn)
    assert (layer.num_heads, layer.num_kv_heads) == (6, 2)
    output, weights = layer(seen["input"], is_causal=True, need_weights=True)
    torch.testing.assert_close(output, seen["output"], atol=1e-5, rtol=0)
    torch.testing.assert_close(weights, seen["weights"][1], atol=1e-5, rtol=0)
    cache = KVCache()
    with torch.no_grad():
        decoded = decode(layer, seen["input"], cache, [3, 1, 1, 2])
    torch.testing.assert_close(decoded, seen["output"], atol=1e-5, rtol=0)


def test_from_transformers_keeps_dtype_mode_and_dropout():
    layer = make_llama(attention_dropout=0.2).to(torch.bfloat16).train().layers[0]
    copied = MultiHeadAttention.from_transformers(layer)
    assert copied.training
    assert copied.dropout == 0.2
    assert {p.dtype for p in copied.parameters()} == {torch.bfloat16}
    assert not {p.data_ptr() for p in copied.parameters()} & {p.data_ptr() for p in layer.parameters()}


# --- Errores: qué se esperaba, qué llegó y la causa habitual ---------------------------------------------------------

X = randn(BATCH, N, D_MODEL)
Q = randn(BATCH, H, N, D_K)


def sdpa(query=Q, key=Q, value=Q, mask=None):
    return lambda: scaled_dot_product_attention(query, key, value, mask)


def call(*args, layer=None, **options):
    return lambda: (layer or make_layer())(*args, **options)


def used_cache(layer=None, x=X):
    cache = KVCache()
    (layer or make_layer())(x, cache=cache)
    return cache


SHARED = make_layer()
ERRORS = {
    "split_heads: no divide": (
        lambda: split_heads(randn(N, 512), 12),
        "512 no se puede repartir entre 12 cabezas (512 / 12 = 42,67)",
    ),
    "split_heads: qué elegir": (lambda: split_heads(randn(N, 512), 12), "1, 2, 4, 8, 16…"),
    "split_heads: 1-D": (lambda: split_heads(randn(6), 3), "llegó (6,): falta la dimensión de posiciones"),
    "split_heads: lista": (lambda: split_heads([1.0], 1), "tensor de PyTorch y llegó list"),
    "split_heads: cero cabezas": (lambda: split_heads(X, 0), "num_heads entero ≥ 1 y llegó 0"),
    "merge_heads: 2-D": (lambda: merge_heads(randn(3, 4)), "llegó (3, 4): falta la dimensión de cabezas"),
    "causal_mask: decimal": (lambda: causal_mask(4 / 2), "n_q entero ≥ 1 y llegó 2.0"),
    "causal_mask: negativo": (lambda: causal_mask(3, -1), "n_k entero ≥ 1 y llegó -1"),
    "padding_mask: larga": (lambda: padding_mask([3, 9], 5), "entre 0 y n = 5 y llegó 9"),
    "padding_mask: negativa": (lambda: padding_mask([-1, 3], 5), "entre 0 y n = 5 y llegó -1"),
    "padding_mask: del tokenizador": (
        lambda: padding_mask(TOKENIZER_MASK, N),
        "attention_mask.bool()[:, None, None, :]",
    ),
    "padding_mask: decimales": (lambda: padding_mask([1.5], 5), "con enteros, y llegó (1,) de tipo torch.float32"),
    "padding_mask: booleanos": (lambda: padding_mask([True], 5), "de tipo torch.bool"),
    "ventana: cero": (lambda: sliding_window_mask(5, 0), "window entero ≥ 1 y llegó 0"),
    "ventana: sumideros": (lambda: sliding_window_mask(5, 2, num_sinks=-1), "num_sinks entero ≥ 0 y llegó -1"),
    "sdpa: lista": (sdpa(query=[[1.0]]), "query como tensor de PyTorch y llegó list"),
    "sdpa: enteros": (
        sdpa(key=torch.ones_like(Q, dtype=torch.long)),
        "key de números con decimales y llegó torch.int64",
    ),
    "sdpa: dimensiones": (sdpa(key=Q[0]), "dividir en cabezas solo alguno de los tres"),
    "sdpa: 1-D": (sdpa(*[randn(4)] * 3), "dos o más"),
    "sdpa: tipos": (sdpa(value=Q.float()), "mezclar float32 y float64"),
    "sdpa: dispositivos": (sdpa(value=Q.to("meta")), "value torch.float64 en meta"),
    "sdpa: d_k": (sdpa(key=Q.mT, value=Q.mT), "la misma última dimensión d_k"),
    "sdpa: n_k": (sdpa(value=Q[:, :, :3]), "un valor por clave"),
    "sdpa: sin claves": (sdpa(key=Q[:, :, :0], value=Q[:, :, :0]), "al menos una clave"),
    "sdpa: cabezas de value": (sdpa(value=Q[:, :1]), "key y value con las mismas dimensiones"),
    "sdpa: lotes": (sdpa(key=Q[:1], value=Q[:1]), "las mismas dimensiones de lote"),
    "sdpa: grupos": (
        sdpa(key=Q[:, :2], value=Q[:, :2]),
        "3 cabezas de consulta no se reparten por igual entre num_kv_heads = 2",
    ),
    "máscara: 3-D": (
        sdpa(mask=torch.ones(BATCH, N, N, dtype=torch.bool)),
        "con tres dimensiones no se sabe si la primera es batch o h",
    ),
    "máscara: entera": (sdpa(mask=torch.ones(N, N, dtype=torch.long)), "usa mask.bool()"),
    "máscara: aditiva": (sdpa(mask=torch.zeros(N, N)), "usa mask == 0"),
    "máscara: no es tensor": (sdpa(mask=[[True]]), "mask como tensor de PyTorch y llegó list"),
    "máscara: dispositivo": (
        sdpa(mask=causal_mask(N, device="meta")),
        "mask en cpu, con las consultas, y llegó en meta",
    ),
    "máscara: (batch, n_k)": (sdpa(mask=TOKENIZER_MASK.bool()), "parece la máscara de relleno del tokenizador"),
    "máscara: traspuesta": (sdpa(query=Q[:, :, :4], mask=torch.ones(N, 4, dtype=torch.bool)), "está traspuesta"),
    "máscara: otra longitud": (sdpa(mask=causal_mask(N + 1)), f"({N}, {N})"),
    "máscara: 1-D": (sdpa(mask=torch.ones(N, dtype=torch.bool)), f"llegó ({N},)"),
    "máscara: otras cabezas": (
        sdpa(mask=torch.ones(BATCH, 2, N, N, dtype=torch.bool)),
        f"llegó ({BATCH}, 2, {N}, {N})",
    ),
    "máscara: 4-D sin cabezas": (sdpa(Q[0], Q[0], Q[0], padding_mask([N], N)), "divide antes en cabezas"),
    "crear: no divide": (lambda: MultiHeadAttention(512, 12), "d_model = 512 no se puede repartir entre 12 cabezas"),
    "crear: grupos": (lambda: MultiHeadAttention(36, 6, num_kv_heads=4), "1, 2, 3, 6 (1 es MQA, 6 es MHA)"),
    "crear: más kv que consultas": (lambda: MultiHeadAttention(36, 6, num_kv_heads=12), "num_kv_heads = 12"),
    "crear: d_model": (lambda: MultiHeadAttention(512.0, 8), "d_model entero ≥ 1 y llegó 512.0"),
    "crear: head_dim": (lambda: MultiHeadAttention(512, 8, head_dim=512 / 8), "«/» en vez de «//»"),
    "crear: num_heads": (lambda: MultiHeadAttention(512, True), "num_heads entero ≥ 1 y llegó True"),
    "crear: num_kv_heads": (lambda: MultiHeadAttention(512, 8, num_kv_heads=0), "num_kv_heads entero ≥ 1 y llegó 0"),
    "crear: dropout": (lambda: MultiHeadAttention(12, 3, dropout=10), "dropout en [0, 1) y llegó 10"),
    "crear: rotary": (lambda: MultiHeadAttention(12, 3, rotary=True), "rotary como función (query, key, positions)"),
    "x: sin batch": (call(X[0]), "usa x.unsqueeze(0)"),
    "x: otra anchura": (call(randn(BATCH, N, 10)), "d_model = 12) y llegó (2, 7, 10)"),
    "x: vacía": (call(X[:, :0]), "no hay ningún token"),
    "x: lista": (call([1.0]), "x como tensor de PyTorch y llegó list"),
    "x: ids": (call(torch.zeros(BATCH, N, D_MODEL, dtype=torch.long)), "identificadores de tokens sin su embedding"),
    "x: float32": (call(X.float()), "torch.float64, el de la capa, y llegó torch.float32"),
    "x: dispositivo": (call(X.to("meta")), "en cpu, donde está la capa, y llegó en meta"),
    "context: otro lote": (call(X, X[:1]), "(batch_first)"),
    "context: otra anchura": (call(X, randn(BATCH, 3, 5)), "context de forma (batch, n_k, d_model = 12)"),
    "context: con caché": (call(X, X, cache=KVCache()), "cache es para la autoatención"),
    "context: con rotary": (
        call(X, X, layer=make_layer(rotary=RotaryEmbedding(D_K))),
        "rotary es para la autoatención",
    ),
    "capa: máscara 3-D": (call(X, mask=torch.ones(BATCH, N, N, dtype=torch.bool)), "mask[:, None]"),
    "capa: máscara y contexto": (call(X, X[:, :4], mask=causal_mask(N)), f"(n_q, n_k) = ({N}, 4)"),
    "rotary: devuelve uno": (call(X, layer=make_layer(rotary=lambda q, k, p: q)), "devolvió Tensor"),
    "rotary: cambia la forma": (
        call(X, layer=make_layer(rotary=lambda q, k, p: (q, k[..., :2]))),
        "Lo habitual: devolver solo uno",
    ),
    "rotary: impar": (lambda: RotaryEmbedding(5), "head_dim par"),
    "rotary: base": (lambda: RotaryEmbedding(4, base=0), "base > 0"),
    "caché: ventana": (lambda: KVCache(window=0), "window entero ≥ 1 y llegó 0"),
    "caché: sumideros": (lambda: KVCache(window=4, num_sinks=-1), "num_sinks entero ≥ 0 y llegó -1"),
    "caché: no lo es": (call(X, cache=True), "cache de tipo KVCache y llegó bool"),
    "caché: de otra capa": (call(X, cache=used_cache(SHARED)), "guarda las claves de otra capa"),
    "caché: otro lote": (call(X[:1], layer=SHARED, cache=used_cache(SHARED)), "reutilizar la caché con otro lote"),
    "caché: sin dividir": (lambda: KVCache().update(X, X), "falta dividir en cabezas"),
    "caché: key y value": (lambda: KVCache().update(Q, Q[:, :, :2]), "con los mismos batch, g y m"),
    "from_torch: otra cosa": (
        lambda: MultiHeadAttention.from_torch(nn.Linear(3, 3)),
        "MultiheadAttention y llegó Linear",
    ),
    "from_torch: kdim": (lambda: MultiHeadAttention.from_torch(nn.MultiheadAttention(12, 3, kdim=5)), "kdim o vdim"),
    "from_torch: bias_k": (
        lambda: MultiHeadAttention.from_torch(nn.MultiheadAttention(12, 3, add_bias_kv=True)),
        "bias_k y bias_v",
    ),
    "from_torch: zero_attn": (
        lambda: MultiHeadAttention.from_torch(nn.MultiheadAttention(12, 3, add_zero_attn=True)),
        "add_zero_attn=True",
    ),
    "from_transformers: el modelo": (
        lambda: MultiHeadAttention.from_transformers(make_llama()),
        "pasar el modelo entero",
    ),
    "from_transformers: otra": (lambda: MultiHeadAttention.from_transformers(nn.Linear(3, 3)), "GPT-2, BERT o LLaMA"),
}


@pytest.mark.parametrize(("action", "message"), ERRORS.values(), ids=ERRORS)
def test_errors_say_what_was_expected_and_why(action, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        action()


def test_dynamic_rope_is_refused():
    model = make_llama()
    model.config.rope_parameters = {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}
    with pytest.raises(ValueError, match="rope_type = 'dynamic'"):
        MultiHeadAttention.from_transformers(model.layers[0])


def test_public_names_come_from_the_package():
    import multicabeza as mc

    assert mc.MultiHeadAttention is MultiHeadAttention
    assert mc.scaled_dot_product_attention is scaled_dot_product_attention
    assert F.scaled_dot_product_attention is not scaled_dot_product_attention
