"""Los índices de las cabezas sobre mapas hechos a mano, y `ablate` frente a cambiar W^O con las manos.

Tres clases de mapas: construidos, cuyo índice se sabe; los de un circuito de inducción con los pesos escritos a mano; y
los de modelos al azar, que deben quedarse cerca del nivel de azar, calculado aparte.
"""

import copy
import math

import pytest
import torch
from torch import nn
from transformers import BertConfig, BertModel, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

import multicabeza as mc
from multicabeza import heads, models
from multicabeza.attention import MultiHeadAttention, RotaryEmbedding, causal_mask

CLOSE = {"atol": 1e-6, "rtol": 0}


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def randn(*shape, seed=0):
    return torch.randn(*shape, generator=generator(seed))


def one_hot_map(targets, n):
    """Mapa (n, n) en el que la consulta i mira solo a targets[i]."""
    weights = torch.zeros(n, n)
    for i, j in enumerate(targets):
        weights[i, j] = 1
    return weights


def random_maps(h, n, *, causal=True, scale=1.0, seed=0):
    """Mapas (h, n, n) con puntuaciones al azar."""
    scores = scale * randn(h, n, n, seed=seed)
    if causal:
        scores = scores.masked_fill(~causal_mask(n), -torch.inf)
    return scores.softmax(-1)


def uniform_map(n):
    mask = causal_mask(n).float()
    return (mask / mask.sum(-1, keepdim=True))[None]


# --- A qué distancia mira --------------------------------------------------------------------------------------------


def test_positional_score_counts_only_queries_whose_key_exists():
    previous = one_hot_map([3, 0, 1, 2, 3, 4], 6)  # la primera no tiene anterior, y da igual a quién mire
    half = one_hot_map([0, 0, 1, 0, 0, 4], 6)  # 3 de 5
    weights = torch.stack([previous, half])
    torch.testing.assert_close(heads.positional_score(weights, -1), torch.tensor([1.0, 0.6]))
    following = one_hot_map([1, 2, 3, 4, 0, 2], 6)  # falla la 4; la última no tiene siguiente
    assert heads.positional_score(following[None], 1).item() == pytest.approx(4 / 5)
    assert heads.positional_score(following[None], -4).item() == pytest.approx(1 / 2)  # acierta la 4, no la 5


def test_positional_score_does_not_need_all_the_weight():
    """Cuenta quién se lleva más, no cuánto."""
    weights = 0.3 * one_hot_map([0, 0, 1, 2], 4) + 0.7 / 4
    assert heads.positional_score(weights[None], -1).item() == 1
    assert heads.previous_token_score(weights[None]).item() == pytest.approx(0.3 + 0.7 / 4)


def test_positional_score_leaves_out_excluded_tokens_as_queries_and_as_keys():
    eos = 0.6 * one_hot_map([4] * 5, 5) + 0.4 * one_hot_map([0, 0, 1, 2, 0], 5)  # casi todo va al fin de frase
    keep = torch.tensor([True, True, True, True, False])
    assert heads.positional_score(eos[None], -1).item() == 0
    assert heads.positional_score(eos[None], -1, keep=keep).item() == 1
    assert heads.confidence(eos[None]).item() == pytest.approx(0.6)
    assert heads.confidence(eos[None], keep=keep).item() == pytest.approx(0.4)


def test_positional_score_keeps_the_distances_of_the_whole_sentence():
    """Al excluir un token no se acorta la frase: quien miraba a −2 por encima de él sigue mirando a −2."""
    weights = one_hot_map([0, 0, 0, 2, 3], 5)[None]
    keep = torch.tensor([True, False, True, True, True])
    assert heads.positional_score(weights, -1, keep=keep).item() == 1  # cuentan las consultas 3 y 4
    assert heads.positional_score(weights, -2, keep=keep).item() == 0.5  # la 2 sí; la 4 no


def test_leading_dimensions_and_masks_by_sentence():
    weights = random_maps(24, 7, causal=False).view(3, 2, 4, 7, 7)  # capas, lote, cabezas
    keep = torch.rand(2, 7, generator=generator(3)) < 0.7
    for function in (lambda w, k: heads.positional_score(w, -1, keep=k), lambda w, k: heads.confidence(w, keep=k)):
        scores = function(weights, keep)
        assert scores.shape == (3, 2, 4)
        for layer in range(3):
            for sentence in range(2):
                torch.testing.assert_close(
                    scores[layer, sentence], function(weights[layer, sentence], keep[sentence]), **CLOSE
                )


def test_previous_token_score_is_the_mean_of_the_diagonal():
    weights = random_maps(3, 6)
    expected = [sum(w[i, i - 1].item() for i in range(1, 6)) / 5 for w in weights]
    torch.testing.assert_close(heads.previous_token_score(weights), torch.tensor(expected), **CLOSE)


# --- Cómo de repartida está ------------------------------------------------------------------------------------------


def test_entropy_of_one_key_and_of_all_alike():
    weights = torch.stack([torch.eye(5, 8), torch.full((5, 8), 1 / 8)])
    torch.testing.assert_close(heads.attention_entropy(weights), torch.tensor([0.0, math.log(8)]))
    skewed = random_maps(3, 6)
    expected = [sum(-p * math.log(p) for p in w.flatten().tolist() if p > 0) / 6 for w in skewed]
    torch.testing.assert_close(heads.attention_entropy(skewed), torch.tensor(expected), **CLOSE)


def test_divergence_between_heads():
    maps = torch.stack([one_hot_map([0, 1, 2], 4)[:3], one_hot_map([0, 1, 2], 4)[:3], one_hot_map([1, 2, 3], 4)[:3]])
    log2 = math.log(2)
    expected = torch.tensor([[0, 0, log2], [0, 0, log2], [log2, log2, 0]])
    torch.testing.assert_close(heads.head_divergence(maps), expected)


def test_divergence_equals_the_mean_of_two_kullback_leibler():
    maps = random_maps(10, 6, causal=False).view(2, 5, 6, 6)
    p, q = maps[:, :, None], maps[:, None]
    m = (p + q) / 2
    expected = ((p * (p / m).log() + q * (q / m).log()).sum(-1) / 2).mean(-1)
    divergence = heads.head_divergence(maps)
    torch.testing.assert_close(divergence, expected, **CLOSE)
    assert divergence.shape == (2, 5, 5)


def test_divergence_of_almost_equal_maps_is_never_negative():
    """La entropía se resta de otra casi igual: sin cuidado, el redondeo da negativos, y su raíz, NaN."""
    maps = random_maps(1, 40, causal=False) * (1 + 1e-6 * randn(30, 40, 40, seed=1))
    assert heads.head_divergence(maps).min() >= 0


def test_half_precision_maps_are_averaged_in_float32():
    weights = random_maps(2, 300).bfloat16()
    scores = heads.previous_token_score(weights)
    assert scores.dtype == torch.float32
    torch.testing.assert_close(scores, heads.previous_token_score(weights.float()))


# --- Qué tokens busca ------------------------------------------------------------------------------------------------


def test_sink_score_leaves_out_the_sink_itself():
    weights = torch.full((4, 4), 0.1)
    weights[:, 2] = 0.7
    weights[2, 2] = 0.0
    assert heads.sink_score(weights[None], 2).item() == pytest.approx(0.7)
    assert heads.sink_score(weights[None]).item() == pytest.approx(0.1)
    assert heads.sink_score(uniform_map(5)).item() == pytest.approx(sum(1 / k for k in (2, 3, 4, 5)) / 4)


def targets_by_hand(tokens, kind):
    """Las claves válidas de cada consulta, con bucles."""
    keys = {}
    for i, token in enumerate(tokens):
        if kind == "prefijo":
            keys[i] = [j for j in range(1, i + 1) if tokens[j - 1] == token]
        else:
            keys[i] = [j for j in range(i) if tokens[j] == token]
    return {i: found for i, found in keys.items() if found}


SCORES = {"prefijo": heads.prefix_matching_score, "duplicado": heads.duplicate_token_score}
REPEATED = [9, 4, 7, 7, 2, 4, 7, 5, 2, 2, 4]


@pytest.mark.parametrize("kind", SCORES)
def test_repetition_scores_add_up_all_earlier_copies(kind):
    targets = targets_by_hand(REPEATED, kind)
    assert max(map(len, targets.values())) >= 2  # hay consultas con más de una copia a la vista
    weights = random_maps(3, len(REPEATED), causal=False)  # sin máscara: las copias posteriores no cuentan
    expected = [sum(w[i, js].sum().item() for i, js in targets.items()) / len(targets) for w in weights]
    torch.testing.assert_close(SCORES[kind](weights, REPEATED), torch.tensor(expected), **CLOSE)


@pytest.mark.parametrize("kind", SCORES)
def test_repetition_scores_reach_one_when_the_weight_is_shared_among_copies(kind):
    n, targets = len(REPEATED), targets_by_hand(REPEATED, kind)
    weights = uniform_map(n)[0]
    for i, keys in targets.items():
        weights[i] = 0
        weights[i, keys] = 1 / len(keys)
    assert SCORES[kind](weights[None], REPEATED).item() == pytest.approx(1)
    other = SCORES["duplicado" if kind == "prefijo" else "prefijo"](weights[None], REPEATED).item()
    assert other < 0.5  # la inducción y el token duplicado no se confunden


@pytest.mark.parametrize("kind", SCORES)
def test_repetition_scores_read_text_ids_and_batches(kind):
    weights = random_maps(24, len(REPEATED)).view(2, 3, 4, len(REPEATED), len(REPEATED))  # capas, lote, cabezas
    other = [1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1]
    third = [3, 3, 8, 6, 5, 4, 2, 1, 3, 9, 7]
    scores = SCORES[kind](weights, torch.tensor([REPEATED, other, third]))
    assert scores.shape == (2, 3, 4)
    for sentence, tokens in enumerate([REPEATED, other, third]):
        alone = SCORES[kind](weights[:, sentence], [f"t{token}" for token in tokens])
        torch.testing.assert_close(scores[:, sentence], alone, **CLOSE)


def test_induction_offset_score_is_the_diagonal_of_the_nearest_copy():
    period, n = 4, 12
    weights = random_maps(2, n)
    expected = [sum(w[i, i - period + 1].item() for i in range(period, n)) / (n - period) for w in weights]
    torch.testing.assert_close(heads.induction_offset_score(weights, period), torch.tensor(expected), **CLOSE)


def test_both_induction_scores_agree_on_two_copies_of_distinct_tokens():
    """Con BOS delante: al de contenido no le estorba; al de desplazamiento hay que quitárselo."""
    period = 6
    tokens = [99, *range(period), *range(period)]
    weights = random_maps(3, len(tokens))
    by_content = heads.prefix_matching_score(weights, tokens)
    by_offset = heads.induction_offset_score(weights[..., 1:, 1:], period)
    torch.testing.assert_close(by_content, by_offset, **CLOSE)


def test_offset_score_falls_short_when_the_weight_goes_to_a_farther_copy():
    period, n = 4, 12
    tokens = list(range(period)) * 3
    far = one_hot_map([i - 2 * period + 1 if i >= 2 * period else max(i - period + 1, 0) for i in range(n)], n)
    assert heads.prefix_matching_score(far[None], tokens).item() == 1
    assert heads.induction_offset_score(far[None], period).item() == 0.5


def test_rare_token_score_with_ties_and_exclusions():
    frequencies = [900, 3, 50, 3, 70, 1]
    weights = torch.stack(
        [one_hot_map([5] * 6, 6), one_hot_map([1, 3, 1, 3, 0, 2], 6), one_hot_map([0, 2, 4, 0, 2, 4], 6)]
    )
    torch.testing.assert_close(heads.rare_token_score(weights, frequencies), torch.tensor([1.0, 0.0, 0.0]))
    two = heads.rare_token_score(weights, frequencies, num_rarest=2)
    torch.testing.assert_close(two, torch.tensor([1.0, 4 / 6, 0.0]))
    keep = torch.tensor([True] * 5 + [False])  # sin el más raro, los raros pasan a ser los de frecuencia 3
    alone = heads.rare_token_score(weights[1:], torch.tensor(frequencies), keep=keep)
    torch.testing.assert_close(alone, torch.tensor([4 / 5, 0.0]))


def test_rare_token_score_counts_each_frequency_once_and_only_if_it_is_kept():
    to_fifty = one_hot_map([2, 2, 2], 3)[None]
    assert heads.rare_token_score(to_fifty, [3, 3, 50], num_rarest=2).item() == 1  # 3 y 50 son las dos menores
    keep = torch.tensor([False, True, True])
    assert heads.rare_token_score(to_fifty, [3, 3, 50], keep=keep).item() == 0  # aún queda un 3


# --- Qué relación sigue ----------------------------------------------------------------------------------------------


def test_word_attention_adds_keys_and_averages_queries():
    weights = random_maps(2, 6, causal=False)
    word_ids = [None, 0, 1, 1, 2, None]
    words = heads.word_attention(weights, word_ids)
    assert words.shape == (2, 3, 3)
    for w, m in zip(weights, words, strict=True):
        assert m[0, 1].item() == pytest.approx((w[1, 2] + w[1, 3]).item())
        assert m[1, 2].item() == pytest.approx(((w[2, 4] + w[3, 4]) / 2).item())
        assert m[1, 1].item() == pytest.approx((w[2:4, 2:4].sum() / 2).item())
    whole = heads.word_attention(weights, [0, 1, 2, 2, 3, 4])  # sin especiales, las filas siguen sumando 1
    torch.testing.assert_close(whole.sum(-1), torch.ones(2, 5), **CLOSE)


def test_relation_accuracy_of_one_sentence_and_of_several():
    first = torch.stack([one_hot_map([1, 1, 1, 2], 4), one_hot_map([3, 3, 3, 3], 4)])
    pairs = [(0, 1), (3, 2), (2, 0)]
    torch.testing.assert_close(heads.relation_accuracy(first, pairs), torch.tensor([2 / 3, 0]))
    second = torch.stack([one_hot_map([0, 0], 2), one_hot_map([1, 0], 2)])
    both = heads.relation_accuracy([first, second, second], [pairs, [(1, 0)], []])
    torch.testing.assert_close(both, torch.tensor([3 / 4, 1 / 4]))  # pesa igual cada pareja, no cada frase
    layers = torch.stack([first, first.flip(0)])
    assert heads.relation_accuracy(layers, pairs).shape == (2, 2)


def test_offset_baseline_is_chosen_on_one_set_and_scored_on_another():
    choose = [[(0, 1), (2, 3)], [(4, 2)], [(1, 4), (1, 2)]]  # +1, +1, −2, +3, +1
    score = [[(0, 1)], [(5, 3), (2, 1), (3, 4)]]  # +1, −2, −1, +1
    assert heads.best_offset_baseline(choose, score) == (1, 0.5)
    assert heads.best_offset_baseline([[(5, 3), (5, 3), (1, 2)]], score) == (-2, 0.25)
    assert heads.best_offset_baseline([[(5, 2), (5, 4), (1, 2)]], score).offset == -1  # empate: la más corta, y detrás


def test_a_fixed_offset_head_scores_exactly_the_baseline():
    lengths, generate = (5, 9, 7), generator(4)
    sentences = []
    for n in lengths:
        dependents = torch.randperm(n - 1, generator=generate)[:3].tolist()
        sentences.append([(i, int(torch.randint(n, (1,), generator=generate))) for i in dependents] + [(0, 1)])
    offset, accuracy = heads.best_offset_baseline(sentences, sentences)
    maps = [one_hot_map([min(max(i + offset, 0), n - 1) for i in range(n)], n)[None] for n in lengths]
    kept = [[p for p in pairs if 0 <= p[0] + offset < n] for pairs, n in zip(sentences, lengths, strict=True)]
    hits = heads.relation_accuracy(maps, kept).item() * sum(map(len, kept))
    assert hits == pytest.approx(accuracy * sum(map(len, sentences)))


# --- Qué escribe -----------------------------------------------------------------------------------------------------


def test_value_weighted_norm_is_the_size_of_each_term_of_the_sum():
    layer = MultiHeadAttention(12, 3, bias=True)
    nn.init.normal_(layer.qkv_proj.bias)
    x = randn(2, 5, 12)
    _, weights = layer(x, need_weights=True)
    values = mc.split_heads(x @ layer.qkv_proj.weight[24:].T + layer.qkv_proj.bias[24:], 3)
    norms = heads.value_weighted_norm(weights, values, heads.output_matrix(layer, 0))
    for head in range(3):
        columns = layer.out_proj.weight[:, 4 * head : 4 * head + 4]
        term = weights[1, head, 2, 4] * (columns @ values[1, head, 4])
        torch.testing.assert_close(norms[1, head, 2, 4], term.norm(), **CLOSE)


def test_value_weighted_norm_shows_a_big_weight_that_adds_nothing():
    weights = torch.tensor([[[0.9, 0.1]]])
    values = torch.tensor([[[0.0, 0.01], [3.0, 4.0]]])
    norms = heads.value_weighted_norm(weights, values, torch.eye(2)[None])
    torch.testing.assert_close(norms, torch.tensor([[[0.009, 0.5]]]))


def test_value_weighted_norm_shares_the_values_of_a_group():
    weights, values, w_o = random_maps(6, 5), randn(2, 5, 4), randn(6, 4, 7)
    expected = heads.value_weighted_norm(weights, torch.stack([values[i // 3] for i in range(6)]), w_o)
    torch.testing.assert_close(heads.value_weighted_norm(weights, values, w_o), expected)


def copying_case():
    tokens = torch.tensor([5, 2, 8, 2, 11, 0])
    attended = [0, 0, 1, 0, 2, 4]
    unembedding = randn(50, 32)
    right = torch.stack([unembedding[tokens[j]] for j in attended])
    written = torch.stack([right, -right, torch.zeros(6, 32)])
    weights = one_hot_map(attended, 6).expand(3, 6, 6)
    return written, weights, tokens, unembedding


def test_copying_score_of_a_copier_its_opposite_and_a_mute_head():
    score = heads.copying_score(*copying_case(), top=1)
    torch.testing.assert_close(score.in_top, torch.tensor([1.0, 0.0, 0.0]))
    torch.testing.assert_close(score.percentile, torch.tensor([1.0, 0.0, 0.5]))


def test_copying_score_counts_only_the_queries_asked_for():
    written, weights, tokens, unembedding = copying_case()
    written = torch.where(torch.arange(6)[:, None] < 4, written[:1], written[1:2])  # copia solo en las cuatro primeras
    case = (written, weights[:1], tokens, unembedding)
    assert heads.copying_score(*case, top=3).in_top.item() == pytest.approx(4 / 6)
    assert heads.copying_score(*case, top=3, queries=torch.arange(6) >= 4).in_top.item() == 0
    assert heads.copying_score(*case, top=3, queries=torch.arange(6) < 4).in_top.item() == 1


def test_copying_score_of_random_heads_is_chance():
    h, n, vocabulary, top = 40, 30, 100, 10
    weights, written = random_maps(h, n), randn(h, n, 24, seed=1)
    tokens = torch.randint(vocabulary, (n,), generator=generator(2))
    score = heads.copying_score(written, weights, tokens, randn(vocabulary, 24, seed=3), top=top)
    assert score.in_top.mean().item() == pytest.approx(top / vocabulary, abs=4 * math.sqrt(0.09 / (h * n)))
    assert score.percentile.mean().item() == pytest.approx(0.5, abs=4 / math.sqrt(12 * h * n))


@pytest.mark.parametrize("kind", ["rms", "layer"])
def test_folding_the_last_norm_keeps_every_rank(kind):
    """Lo que dice el docstring: normalizar de verdad con el tamaño de toda la corriente no cambia ningún puesto."""
    written, weights, tokens, unembedding = copying_case()
    written = written + 2 * randn(*written.shape, seed=5)
    gamma, stream = 1 + 0.5 * randn(32, seed=6), 3 * randn(6, 32, seed=7)
    if kind == "rms":
        direct = written / stream.pow(2).mean(-1, keepdim=True).sqrt() * gamma
        folded = unembedding * gamma
    else:
        direct = (written - written.mean(-1, keepdim=True)) / stream.std(-1, keepdim=True) * gamma
        folded = unembedding * gamma
        folded = folded - folded.mean(-1, keepdim=True)
    expected = heads.copying_score(direct, weights, tokens, unembedding)
    score = heads.copying_score(written, weights, tokens, folded)
    assert 0 < expected.percentile[0] < 1
    torch.testing.assert_close(score.in_top, expected.in_top)
    torch.testing.assert_close(score.percentile, expected.percentile)


def test_copying_score_of_a_batch():
    written, weights = randn(2, 3, 6, 8), random_maps(6, 6).view(2, 3, 6, 6)
    tokens, unembedding = torch.randint(20, (2, 6), generator=generator()), randn(20, 8, seed=4)
    score = heads.copying_score(written, weights, tokens, unembedding, top=5)
    for b in range(2):
        alone = heads.copying_score(written[b], weights[b], tokens[b], unembedding, top=5)
        torch.testing.assert_close(score.in_top[b], alone.in_top)
        torch.testing.assert_close(score.percentile[b], alone.percentile)


def test_retrieval_score_counts_each_needle_position_once():
    context = [7, 30, 31, 30, 8, 9]  # la aguja, 30 31 30, en 1, 2 y 3
    generated = [30, 31, 30, 5]
    attended = torch.tensor(
        [
            [1, 1, 4, 3],
            [2, 1, 2, 3],
            [3, 1, 4, 3],
            [5, 2, 4, 0],
        ]
    )  # (pasos, cabezas)
    score = heads.retrieval_score(attended, generated, [1, 2, 3], context)
    # la 0 copia las tres; la 1, la primera (dos veces); la 2, la del medio; la 3, la última (dos veces)
    torch.testing.assert_close(score, torch.tensor([1, 1 / 3, 1 / 3, 1 / 3]))


def test_retrieval_score_needs_the_right_token_and_a_needle_position():
    words = ["el", "código", "es", "Ávila", "4", "y"]
    attended = torch.tensor([[[3, 3], [4, 0]], [[4, 4], [3, 1]]])  # (pasos, capas, cabezas)
    score = heads.retrieval_score(attended, ["Ávila", "y"], [3, 4], words)
    torch.testing.assert_close(score, torch.tensor([[0.5, 0.5], [0.0, 0.0]]))
    outside = heads.retrieval_score(torch.tensor([[1], [5]]), ["código", "y"], [3, 4], words)
    assert outside.tolist() == [0]  # copia, pero no de la aguja


# --- El circuito hecho a mano ----------------------------------------------------------------------------------------


class HandMadeCircuit(nn.Module):
    """Dos capas de atención con residuo: la cabeza 0.0 escribe quién va delante; la 1.0 busca a quien lo tenga detrás.

    La corriente residual tiene cuatro tramos: token, posición, token anterior y salida, cada uno con su vector unitario
    por valor. Las cabezas 0.1 y 1.1 tienen los pesos a cero: miran a todos por igual y no escriben nada. El token 0 es
    BOS, y su valor no se copia.
    """

    def __init__(self, vocabulary, n, sharpness=40.0):
        super().__init__()
        self.vocabulary, self.n = vocabulary, n
        d_k, d_model = max(vocabulary, n), 3 * vocabulary + n
        self.layers = nn.ModuleList(MultiHeadAttention(d_model, 2, head_dim=d_k, bias=False) for _ in range(2))
        token, position = range(vocabulary), range(vocabulary, vocabulary + n)
        previous = range(vocabulary + n, 2 * vocabulary + n)
        self.output = range(2 * vocabulary + n, d_model)
        scale = sharpness * d_k**0.5
        with torch.no_grad():
            for layer, queries, keys, writes in (
                (self.layers[0], position[1:], position[:-1], previous),  # la consulta i lleva el número i − 1
                (self.layers[1], token, previous, self.output),
            ):
                for parameter in layer.parameters():
                    parameter.zero_()
                qkv = layer.qkv_proj.weight.unflatten(0, (3, 2, d_k))
                for k, (query, key) in enumerate(zip(queries, keys, strict=True)):
                    qkv[0, 0, k, query] = scale
                    qkv[1, 0, k, key] = 1
                for t in range(1, vocabulary):
                    qkv[2, 0, t, token[t]] = 1
                    layer.out_proj.weight[writes[t], t] = 1

    @torch.no_grad()
    def forward(self, tokens):
        x = torch.zeros(len(tokens), self.n, self.layers[0].d_model)
        x[..., : self.vocabulary] = nn.functional.one_hot(tokens, self.vocabulary)
        x[..., self.vocabulary : self.vocabulary + self.n] = torch.eye(self.n)
        maps = []
        for layer in self.layers:
            written, weights = layer(x, is_causal=True, need_weights=True)
            x = x + written
            maps.append(weights)
        return x[..., self.output], torch.stack(maps)  # logits (batch, n, V) y mapas (2, batch, h, n, n)


def repeated_sequences(batch, period, copies, vocabulary, *, distinct, seed=0):
    """BOS y `copies` copias de `period` tokens al azar, sin el 0."""
    draw = torch.stack([torch.randperm(vocabulary - 1, generator=generator(seed + b))[:period] for b in range(batch)])
    if not distinct:
        draw = torch.randint(vocabulary - 1, (batch, period), generator=generator(seed))
    return torch.cat([torch.zeros(batch, 1, dtype=torch.long), 1 + draw.repeat(1, copies)], dim=1)


def test_the_hand_made_circuit_scores_one_and_predicts_what_followed():
    period, vocabulary = 8, 13
    tokens = repeated_sequences(3, period, 3, vocabulary, distinct=True)
    logits, maps = HandMadeCircuit(vocabulary, tokens.shape[1])(tokens)
    previous = heads.previous_token_score(maps).mean(1)  # (capas, cabezas)
    prefix = heads.prefix_matching_score(maps, tokens).mean(1)
    assert previous[0, 0] == pytest.approx(1, abs=1e-5)
    assert heads.positional_score(maps, -1)[0, :, 0].tolist() == [1, 1, 1]
    assert prefix[1, 0] == pytest.approx(1, abs=1e-5)
    assert prefix.flatten()[:2].max() < 0.3  # la capa 0 no puede
    assert prefix[1, 1] < 0.3
    predicted = logits[:, period + 1 : -1].argmax(-1)
    assert torch.equal(predicted, tokens[:, period + 2 :])


def test_with_tokens_that_repeat_inside_the_period_only_the_sum_reaches_one():
    tokens = repeated_sequences(4, 9, 3, 6, distinct=False)
    _, maps = HandMadeCircuit(6, tokens.shape[1])(tokens)
    assert heads.prefix_matching_score(maps, tokens)[1, :, 0].tolist() == pytest.approx([1] * 4, abs=1e-5)
    assert heads.induction_offset_score(maps[..., 1:, 1:], 9)[1, :, 0].max() < 0.7
    assert heads.duplicate_token_score(maps, tokens)[1, :, 0].max() < 0.5


def test_the_induction_head_copies_and_the_previous_token_head_does_not_speak():
    """0.0 escribe en el tramo «anterior», que la salida no lee: su efecto directo es nulo, y sin ella no hay nada."""
    period, vocabulary = 8, 13
    tokens = repeated_sequences(3, period, 2, vocabulary, distinct=True)
    model = HandMadeCircuit(vocabulary, tokens.shape[1])
    with heads.record_heads(model) as record:
        _, maps = model(tokens)
    unembedding = torch.zeros(vocabulary, model.layers[0].d_model)
    unembedding[range(vocabulary), model.output] = 1
    second = torch.arange(tokens.shape[1]) > period
    scores = [
        heads.copying_score(
            record[layer] @ heads.output_matrix(model, layer), maps[layer], tokens, unembedding, queries=second, top=1
        )
        for layer in range(2)
    ]
    assert scores[1].in_top[:, 0].tolist() == [1, 1, 1]
    assert scores[1].percentile[:, 0].tolist() == [1, 1, 1]
    assert scores[0].in_top.max() == 0
    assert scores[0].percentile.mean() == 0.5


def test_ablating_either_half_of_the_circuit_breaks_it():
    period, vocabulary = 8, 13
    tokens = repeated_sequences(3, period, 2, vocabulary, distinct=True)
    model = HandMadeCircuit(vocabulary, tokens.shape[1])
    uniform = heads.prefix_matching_score(uniform_map(tokens.shape[1]), tokens[0]).item()
    with mc.ablate(model, [(0, 0)]):
        logits, maps = model(tokens)
    assert heads.previous_token_score(maps)[0, :, 0].min() == pytest.approx(1, abs=1e-5)  # sigue mirando…
    assert heads.prefix_matching_score(maps, tokens)[1, :, 0].tolist() == pytest.approx([uniform] * 3)  # …y no escribe
    assert (logits[:, period + 1 : -1].argmax(-1) == tokens[:, period + 2 :]).float().mean() < 0.5
    with mc.ablate(model, [(1, 0)]):
        logits, maps = model(tokens)
    assert heads.prefix_matching_score(maps, tokens)[1, :, 0].min() == pytest.approx(1, abs=1e-5)
    assert not logits.any()
    with mc.ablate(model, [(0, 1), (1, 1)]):
        logits, _ = model(tokens)
    assert torch.equal(logits[:, period + 1 : -1].argmax(-1), tokens[:, period + 2 :])


# --- Nivel de azar ---------------------------------------------------------------------------------------------------


def test_random_maps_score_their_chance_level():
    """Con puntuaciones al azar, la clave más atendida es cualquiera de las visibles, y el peso se reparte por igual."""
    h, n = 400, 16
    weights = random_maps(h, n)
    tokens = [0, *torch.randint(1, 6, (n - 1,), generator=generator(1)).tolist()]
    harmonic = sum(1 / (i + 1) for i in range(1, n)) / (n - 1)

    def chance(targets):
        return sum(len(keys) / (i + 1) for i, keys in targets.items()) / len(targets)

    expected = {
        "posicional": (heads.positional_score(weights, -1), harmonic),
        "anterior": (heads.previous_token_score(weights), harmonic),
        "sumidero": (heads.sink_score(weights), harmonic),
        "prefijo": (heads.prefix_matching_score(weights, tokens), chance(targets_by_hand(tokens, "prefijo"))),
        "duplicado": (heads.duplicate_token_score(weights, tokens), chance(targets_by_hand(tokens, "duplicado"))),
        "relación": (heads.relation_accuracy(weights, [(9, 4), (15, 2), (5, 5)]), (1 / 10 + 1 / 16 + 1 / 6) / 3),
        "raras": (
            heads.rare_token_score(weights, list(range(n, 0, -1)), num_rarest=3),  # las tres últimas posiciones
            sum(max(0, i - n + 4) / (i + 1) for i in range(n)) / n,
        ),
    }
    for name, (scores, level) in expected.items():
        error = scores.std().item() / math.sqrt(h)
        assert scores.mean().item() == pytest.approx(level, abs=4 * error), name


def test_a_random_model_stays_near_chance():
    period = 12
    tokens = torch.cat([torch.tensor([0]), torch.randint(1, 60, (period,), generator=generator()).repeat(2)])
    model = tiny_llama()
    weights = models.stack_attentions(model(tokens[None], output_attentions=True).attentions)
    uniform = uniform_map(len(tokens))
    for name, score in {
        "prefijo": lambda w: heads.prefix_matching_score(w, tokens),
        "duplicado": lambda w: heads.duplicate_token_score(w, tokens),
        "anterior": heads.previous_token_score,
        "sumidero": heads.sink_score,
        "desplazamiento": lambda w: heads.induction_offset_score(w[..., 1:, 1:], period),
    }.items():
        scores, level = score(weights), score(uniform).item()
        assert scores.shape == (3, 4)
        assert scores.tolist() == [pytest.approx([level] * 4, abs=0.05)] * 3, name


# --- Modelos diminutos para `ablate` ---------------------------------------------------------------------------------


def tiny_llama(attention="eager"):
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=60,
        hidden_size=24,
        intermediate_size=40,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=10,  # h·d_k = 40 ≠ d_model
        attn_implementation=attention,
    )
    return LlamaForCausalLM(config).eval()


def tiny_bert(attention="eager"):
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=60,
        hidden_size=24,
        intermediate_size=40,
        num_hidden_layers=3,
        num_attention_heads=4,
        attn_implementation=attention,
    )
    return BertModel(config).eval()


def tiny_gpt2(attention="eager"):
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=60, n_embd=24, n_layer=3, n_head=4, n_positions=32, attn_implementation=attention)
    return GPT2LMHeadModel(config).eval()


class OurStack(nn.Module):
    """Tres capas de las nuestras, la del medio con otro número de cabezas."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(60, 24)
        self.first = MultiHeadAttention(24, 4, num_kv_heads=2, rotary=RotaryEmbedding(6))
        self.blocks = nn.ModuleList([MultiHeadAttention(24, 6, head_dim=5), MultiHeadAttention(24, 4)])
        for layer in (self.first, *self.blocks):
            nn.init.normal_(layer.out_proj.bias)

    def forward(self, ids):
        x = self.embedding(ids)
        for layer in (self.first, *self.blocks):
            x = x + layer(x, is_causal=True)
        return x


class OneLayer(nn.Module):
    """Una `MultiHeadAttention` suelta, con la misma manera de llamarla que los modelos."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = MultiHeadAttention(24, 4)
        self.embedding = nn.Embedding(60, 24)

    def forward(self, ids):
        return self.layer(self.embedding(ids), is_causal=True)


MODELS = {
    "LLaMA eager": tiny_llama,
    "LLaMA sdpa": lambda: tiny_llama("sdpa"),
    "BERT eager": tiny_bert,
    "BERT sdpa": lambda: tiny_bert("sdpa"),
    "GPT-2 eager": tiny_gpt2,
    "GPT-2 sdpa": lambda: tiny_gpt2("sdpa"),
    "nuestras": OurStack,
    "una suelta": OneLayer,
}
every_model = pytest.mark.parametrize("name", MODELS)


def output_projections(model):
    """(nombre del módulo de W^O, cabezas) de cada capa, escrito a mano para cada modelo."""
    if isinstance(model, LlamaForCausalLM):
        return [(f"model.layers.{i}.self_attn.o_proj", 4) for i in range(3)]
    if isinstance(model, BertModel):
        count, num_heads = model.config.num_hidden_layers, model.config.num_attention_heads
        return [(f"encoder.layer.{i}.attention.output.dense", num_heads) for i in range(count)]
    if isinstance(model, GPT2LMHeadModel):
        return [(f"transformer.h.{i}.attn.c_proj", 4) for i in range(3)]
    if isinstance(model, OurStack):
        return [("first.out_proj", 4), ("blocks.0.out_proj", 6), ("blocks.1.out_proj", 4)]
    return [("layer.out_proj", 4)]


def columns_of(model, layer, head):
    """Los pesos de W^O que leen esa cabeza: filas en GPT-2, columnas en los demás."""
    name, num_heads = output_projections(model)[layer]
    weight = model.get_submodule(name).weight
    weight = weight if isinstance(model, GPT2LMHeadModel) else weight.T  # (h·d_k, d_model)
    size = weight.shape[0] // num_heads
    return weight[size * head : size * (head + 1)]


class Patched(nn.Module):
    """Otra manera de intervenir, sin ganchos: una W^O que antes cambia las columnas de unas cabezas."""

    def __init__(self, projection, num_heads, changes):
        super().__init__()
        self.projection, self.num_heads, self.changes = projection, num_heads, changes

    def forward(self, x):
        x = x.clone()
        size = x.shape[-1] // self.num_heads
        for head, how in self.changes:
            part = x[..., size * head : size * (head + 1)]
            if how == "zero":
                part[:] = 0
            elif how == "mean":
                part[:] = part.flatten(0, 1).mean(0).clone()
            else:
                part[:] = torch.stack([part[(b + 1) % len(part)] for b in range(len(part))])
        return self.projection(x)


def patched(model, changes):
    """Copia del modelo con esos cambios, {capa: [(cabeza, how), …]}."""
    model = copy.deepcopy(model)
    for layer, (name, num_heads) in enumerate(output_projections(model)):
        if layer in changes:
            parent, _, last = name.rpartition(".")
            projection = model.get_submodule(name)
            setattr(model.get_submodule(parent), last, Patched(projection, num_heads, changes[layer]))
    return model


def run(model, ids):
    output = model(ids)
    return output if isinstance(output, torch.Tensor) else output[0]


def ids(batch=3, n=7, seed=0):
    return torch.randint(60, (batch, n), generator=generator(seed))


def chosen_heads(model):
    """La última cabeza de la última capa y alguna más: todas las capas del modelo menos la del medio."""
    last = len(output_projections(model)) - 1
    return [(0, 0), (0, 2), (last, 3)]


def hooks(model):
    return [module for module in model.modules() if module._forward_pre_hooks or module._forward_hooks]


# --- ablate ----------------------------------------------------------------------------------------------------------


@every_model
def test_zeroing_equals_zeroed_columns_of_w_o(name):
    model = MODELS[name]()
    reference = copy.deepcopy(model)
    with torch.no_grad():
        for layer, head in chosen_heads(model):
            columns_of(reference, layer, head).zero_()
    whole, expected = run(model, ids()), run(reference, ids())
    assert (whole - expected).abs().max() > 1e-3
    with mc.ablate(model, chosen_heads(model)):
        torch.testing.assert_close(run(model, ids()), expected, **CLOSE)
    assert torch.equal(run(model, ids()), whole)


@every_model
def test_gradients_flow_as_with_zeroed_columns(name):
    """Las demás cabezas reciben el mismo gradiente; las columnas apagadas, ninguno."""
    model = MODELS[name]()
    reference = copy.deepcopy(model)
    with torch.no_grad():
        for layer, head in chosen_heads(model):
            columns_of(reference, layer, head).zero_()
    with mc.ablate(model, chosen_heads(model)):
        run(model, ids()).pow(2).sum().backward()
    run(reference, ids()).pow(2).sum().backward()
    projections = {f"{path}.weight" for path, _ in output_projections(model)}
    for (path, ours), theirs in zip(model.named_parameters(), reference.parameters(), strict=True):
        if theirs.grad is not None and path not in projections:
            torch.testing.assert_close(ours.grad, theirs.grad, atol=1e-4, rtol=1e-4)
    for layer, head in chosen_heads(model):
        weight = model.get_submodule(output_projections(model)[layer][0]).weight
        with_grad = copy.deepcopy(model)
        with_grad.get_submodule(output_projections(model)[layer][0]).weight.data = weight.grad
        assert not columns_of(with_grad, layer, head).any()


@every_model
@pytest.mark.parametrize("how", ["zero", "mean", "resample"])
def test_each_ablation_equals_the_one_by_hand(name, how):
    model = MODELS[name]()
    changes = {}
    for layer, head in chosen_heads(model):
        changes.setdefault(layer, []).append((head, how))
    expected = run(patched(model, changes), ids())
    with mc.ablate(model, chosen_heads(model), how=how):
        ablated = run(model, ids())
    torch.testing.assert_close(ablated, expected, **CLOSE)
    assert (ablated - run(model, ids())).abs().max() > 1e-3


@pytest.mark.parametrize("how", ["mean", "resample"])
def test_the_gradient_also_flows_through_the_replacement(how):
    model = OurStack()
    reference = patched(model, {1: [(2, how)]})
    with mc.ablate(model, [(1, 2)], how=how):
        run(model, ids()).pow(2).sum().backward()
    run(reference, ids()).pow(2).sum().backward()
    for ours, theirs in zip(model.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", ["LLaMA eager", "BERT eager", "GPT-2 eager"])
def test_nothing_else_changes(name):
    """Ni parámetros, ni los pesos de atención hasta esa capa, ni lo que escriben las demás cabezas de ella."""
    model = MODELS[name]()
    before = {path: parameter.clone() for path, parameter in model.named_parameters()}
    with heads.record_heads(model) as whole:
        attentions = model(ids(), output_attentions=True).attentions
    with mc.ablate(model, [(1, 2)]), heads.record_heads(model) as ablated:
        others = model(ids(), output_attentions=True).attentions
    assert torch.equal(attentions[0], others[0])
    assert torch.equal(attentions[1], others[1])
    assert not torch.equal(attentions[2], others[2])  # la capa siguiente lee otra cosa
    assert torch.equal(whole[0], ablated[0])
    assert torch.equal(whole[1][:, [0, 1, 3]], ablated[1][:, [0, 1, 3]])
    assert not ablated[1][:, 2].any()
    assert all(torch.equal(parameter, before[path]) for path, parameter in model.named_parameters())


@every_model
def test_the_model_is_restored_after_an_exception(name):
    model = MODELS[name]()
    whole = run(model, ids())
    with pytest.raises(KeyError), mc.ablate(model, chosen_heads(model)):
        raise KeyError
    with pytest.raises(ValueError, match="uno solo"), mc.ablate(model, chosen_heads(model), how="resample"):
        run(model, ids(batch=1))
    assert not hooks(model)
    assert torch.equal(run(model, ids()), whole)


def test_nothing_happens_until_the_block_is_entered():
    model = tiny_llama()
    waiting = mc.ablate(model, [(0, 0)])
    assert not hooks(model)
    with waiting:
        assert len(hooks(model)) == 1
    with mc.ablate(model, []):
        assert not hooks(model)


@every_model
def test_blocks_nest(name):
    model = MODELS[name]()
    first, *others = chosen_heads(model)
    with mc.ablate(model, [first, *others]):
        both = run(model, ids())
    with mc.ablate(model, [first]):
        one = run(model, ids())
        with mc.ablate(model, others):
            torch.testing.assert_close(run(model, ids()), both, **CLOSE)
        torch.testing.assert_close(run(model, ids()), one, **CLOSE)
        with mc.ablate(model, [first, first]):  # la misma, otra vez
            torch.testing.assert_close(run(model, ids()), one, **CLOSE)
        torch.testing.assert_close(run(model, ids()), one, **CLOSE)
    assert not hooks(model)


@pytest.mark.parametrize("outer", ["zero", "mean", "resample"])
@pytest.mark.parametrize("inner", ["zero", "mean", "resample"])
def test_blocks_nest_with_different_ways(outer, inner):
    """El interior actúa sobre lo que deja el exterior, en la misma cabeza y en otra de la misma capa."""
    model = OurStack()
    both = run(patched(model, {1: [(2, outer), (2, inner), (4, inner)]}), ids())
    alone = run(patched(model, {1: [(2, outer)]}), ids())
    with mc.ablate(model, [(1, 2)], how=outer):
        with mc.ablate(model, [(1, 2), (1, 4)], how=inner):
            torch.testing.assert_close(run(model, ids()), both, **CLOSE)
        torch.testing.assert_close(run(model, ids()), alone, **CLOSE)


def test_every_head_off_leaves_only_the_bias():
    layer = OneLayer().layer
    nn.init.normal_(layer.out_proj.bias)
    x = randn(2, 5, 24)
    with mc.ablate(layer, [(0, head) for head in range(4)]):
        torch.testing.assert_close(layer(x), layer.out_proj.bias.expand(2, 5, 24))
        _, weights = layer(x, need_weights=True)
    torch.testing.assert_close(weights, layer(x, need_weights=True)[1])


@pytest.mark.parametrize("how", ["zero", "resample"])
def test_generating_with_a_cache_equals_the_whole_pass(how):
    model, tokens = tiny_llama(), ids(batch=2)
    with torch.no_grad(), mc.ablate(model, [(0, 1), (2, 3)], how=how):
        whole = model(tokens).logits
        output, cache = models.forward_with_cache(model, tokens[:, :3])
        pieces = [output.logits]
        for i in range(3, tokens.shape[1]):
            output, cache = models.forward_with_cache(model, tokens[:, i : i + 1], cache)
            pieces.append(output.logits)
    torch.testing.assert_close(torch.cat(pieces, dim=1), whole, atol=1e-5, rtol=0)


def test_the_mean_of_a_single_token_warns_that_it_removes_nothing():
    model = tiny_llama()
    with mc.ablate(model, [(0, 1)], how="mean"), pytest.warns(UserWarning, match="no quita nada"):
        model(ids(batch=1, n=1))


def test_it_works_in_half_precision_and_inference_mode():
    model = OurStack().bfloat16()
    with torch.inference_mode(), mc.ablate(model, [(1, 5)], how="mean"):
        assert run(model, ids()).dtype == torch.bfloat16


def test_cross_attention_does_not_shift_the_layers():
    """En un decodificador con atención cruzada, la capa 1 es la autoatención del segundo bloque."""
    config = GPT2Config(vocab_size=60, n_embd=24, n_layer=2, n_head=4, n_positions=32, add_cross_attention=True)
    model = GPT2LMHeadModel(config).eval()
    with heads.record_heads(model) as record:
        model(ids(), encoder_hidden_states=randn(3, 5, 24))
    assert set(record) == {0, 1}
    with pytest.raises(ValueError, match="entre 0 y 1"):
        mc.ablate(model, [(2, 0)])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ([(3, 0)], "capa entre 0 y 2 .*llegó 3.*contar desde 1"),
        ([(-1, 0)], "capa entre 0 y 2 .*llegó -1"),
        ([(0, 4)], r"cabeza entre 0 y 3 \(la capa 0 tiene 4\) y llegó 4.*contar desde 1"),
        ([(0, -1)], "cabeza entre 0 y 3 .*llegó -1"),
        ([(0, 1), (2, 9)], r"cabeza entre 0 y 3 \(la capa 2 "),
        ((0, 1), r"lista de parejas \(capa, cabeza\) y llegó \(0, 1\)"),
        ([0, 1], "lista de parejas"),
        ("0.1", "lista de parejas"),
        ([0.1], "lista de parejas"),
        ([(0, 1.0)], "llegó 1.0"),
        ([("0", 1)], "llegó '0'"),
        ([(True, 1)], "llegó True"),
        ([(0, True)], "llegó True"),
        (None, "lista de parejas"),
    ],
)
def test_heads_that_do_not_exist_are_refused_before_touching_anything(wrong, message):
    model = tiny_llama()
    with pytest.raises(ValueError, match=message):
        mc.ablate(model, wrong)
    assert not hooks(model)


@pytest.mark.parametrize("how", ["ceros", "Zero", None, ["zero"]])
def test_other_ways_are_refused(how):
    with pytest.raises(ValueError, match="«zero», «mean» o «resample»"):
        mc.ablate(tiny_llama(), [(0, 0)], how=how)


@pytest.mark.parametrize(
    "model", [nn.Linear(2, 2), torch.zeros(3), None, nn.TransformerEncoderLayer(8, 2), nn.MultiheadAttention(8, 2)]
)
def test_models_without_a_place_to_intervene_are_refused(model):
    with pytest.raises(ValueError, match=r"capas de atención.*from_torch"):
        mc.ablate(model, [(0, 0)])


def test_heads_may_come_as_a_set_or_as_a_tensor():
    model = OurStack()
    with mc.ablate(model, {(0, 1), (1, 5)}):
        expected = run(model, ids())
    with mc.ablate(model, torch.tensor([[0, 1], [1, 5]])):
        torch.testing.assert_close(run(model, ids()), expected)


@every_model
def test_what_the_heads_write_adds_up_to_the_output_of_the_layer(name):
    model = MODELS[name]()
    seen = {}
    for layer, (path, _) in enumerate(output_projections(model)):
        projection = model.get_submodule(path)
        projection.register_forward_hook(lambda _module, _inputs, output, layer=layer: seen.update({layer: output}))
    with heads.record_heads(model) as record:
        run(model, ids())
    assert set(record) == set(seen)
    for layer, (path, num_heads) in enumerate(output_projections(model)):
        written = record[layer] @ heads.output_matrix(model, layer)
        assert written.shape[:3] == (3, num_heads, 7)
        bias = model.get_submodule(path).bias
        total = written.sum(1) + (0 if bias is None else bias)
        torch.testing.assert_close(total, seen[layer], atol=1e-5, rtol=0)


# --- Los modelos del libro -------------------------------------------------------------------------------------------


def test_minilm_from_load_bert():
    loaded = mc.load_bert()
    batch = loaded.tokenizer(
        ["The cat sat on the mat.", "The dog barked very loudly."], padding=True, return_tensors="pt"
    )
    reference = copy.deepcopy(loaded.model)
    with torch.no_grad():
        columns_of(reference, 5, 11).zero_()
        columns_of(reference, 0, 2).zero_()
        expected = reference(**batch).last_hidden_state
        whole = loaded.model(**batch).last_hidden_state
        with mc.ablate(loaded, [(0, 2), (5, 11)]):
            torch.testing.assert_close(loaded.model(**batch).last_hidden_state, expected, atol=1e-5, rtol=0)
            tokens, weights = loaded.attend("The cat sat on the mat.")
        assert torch.equal(loaded.model(**batch).last_hidden_state, whole)
    assert (whole - expected).abs().max() > 0.01
    assert weights.shape == (6, 12, len(tokens), len(tokens))
    with pytest.raises(ValueError, match="capa entre 0 y 5"):
        mc.ablate(loaded, [(6, 0)])


def test_the_previous_token_head_of_minilm_is_found_among_all():
    """La cabeza 0.2 mira siempre al token anterior; con los parámetros al azar, ninguna."""
    loaded = mc.load_bert()
    _, weights = loaded.attend("The quick brown fox jumps over the lazy dog while the old farmer watches.")
    assert heads.positional_score(weights, -1)[0, 2] > 0.9
    torch.manual_seed(0)
    random = models.LoadedModel(BertModel(loaded.model.config).eval(), loaded.tokenizer, "al azar")
    random.model.set_attn_implementation("eager")
    _, weights = random.attend("The quick brown fox jumps over the lazy dog while the old farmer watches.")
    assert heads.positional_score(weights, -1).max() < 0.5


# --- Errores de los índices ------------------------------------------------------------------------------------------

MAPS = random_maps(2, 5)
ERRORS = {
    "puntuaciones": (lambda: heads.previous_token_score(0.1 * randn(2, 5, 5)), "puntuaciones"),
    "puntuaciones positivas": (lambda: heads.previous_token_score(1.1 * torch.ones(2, 5, 5)), "puntuaciones"),
    "NaN": (lambda: heads.attention_entropy(torch.full((2, 2), torch.nan)), "NaN o infinitos"),
    "no es un tensor": (lambda: heads.sink_score([[1.0]]), "tensor de PyTorch"),
    "sin cabezas": (lambda: heads.previous_token_score(MAPS[0]), r"weights\[None\]"),
    "con caché": (lambda: heads.positional_score(MAPS[:, -1:], -1), "menos consultas que claves"),
    "un token": (lambda: heads.previous_token_score(torch.ones(2, 1, 1)), "no hay anterior"),
    "desplazamiento": (lambda: heads.positional_score(MAPS, 5), "entre -4 y 4"),
    "desplazamiento decimal": (lambda: heads.positional_score(MAPS, 1.0), "entero"),
    "sin consultas": (
        lambda: heads.positional_score(MAPS, -1, keep=torch.tensor([True, False, True, False, True])),
        r"cuya clave i \+ offset exista",
    ),
    "keep sin booleanos": (lambda: heads.confidence(MAPS, keep=torch.ones(5)), "booleana"),
    "keep de otra frase": (lambda: heads.confidence(MAPS, keep=torch.ones(4, dtype=torch.bool)), "keep de forma"),
    "sumidero": (lambda: heads.sink_score(MAPS, -1), "entre 0 y 4"),
    "sin repeticiones": (lambda: heads.prefix_matching_score(MAPS, [1, 2, 3, 4, 5]), "haya salido antes"),
    "una del lote sin repeticiones": (
        lambda: heads.duplicate_token_score(
            torch.stack([MAPS, MAPS]), torch.tensor([[1, 1, 2, 2, 2], [1, 2, 3, 4, 5]])
        ),
        "alguna de las secuencias",
    ),
    "tokens de otra frase": (lambda: heads.prefix_matching_score(MAPS, [1, 1]), "un dato por token"),
    "una frase sin dividir": (lambda: heads.prefix_matching_score(MAPS, "la la"), "sin dividir"),
    "embeddings": (lambda: heads.prefix_matching_score(MAPS, randn(5)), "embeddings"),
    "un lote que no casa": (
        lambda: heads.prefix_matching_score(MAPS, torch.ones(3, 5, dtype=torch.long)),
        "un dato por token",
    ),
    "periodo": (lambda: heads.induction_offset_score(MAPS, 3), "dos periodos"),
    "frecuencias": (lambda: heads.rare_token_score(MAPS, [1, 2]), "frequencies de forma"),
    "palabras": (lambda: heads.word_attention(MAPS, [None, 0, 2, 2, None]), "seguidos"),
    "palabras de otra frase": (lambda: heads.word_attention(MAPS, [None, 0, None]), "llegaron 3"),
    "pareja fuera": (lambda: heads.relation_accuracy(MAPS, [(0, 5)]), "entre 0 y 4"),
    "pareja negativa": (lambda: heads.relation_accuracy(MAPS, [(0, -1)]), "entre 0 y 4"),
    "sin parejas": (lambda: heads.relation_accuracy(MAPS, []), "al menos una pareja"),
    "parejas sin agrupar": (lambda: heads.relation_accuracy([MAPS, MAPS], [(0, 1), (1, 2)]), "por frase"),
    "frases de más": (lambda: heads.relation_accuracy([MAPS, MAPS], [[(0, 1)]]), "2 frases y 1 listas"),
    "palabras por posiciones": (lambda: heads.relation_accuracy(MAPS, [("gato", "come")]), "posiciones"),
    "referencia sin parejas": (lambda: heads.best_offset_baseline([[(0, 1)]], [[]]), "1 para elegir y 0"),
    "valores enteros": (lambda: heads.value_weighted_norm(MAPS, randn(5, 8), randn(2, 4, 8)), "split_heads"),
    "W^O entera": (lambda: heads.value_weighted_norm(MAPS, randn(2, 5, 4), randn(8, 8)), "matriz entera"),
    "antes de W^O": (
        lambda: heads.copying_score(randn(2, 5, 4), MAPS, torch.ones(5, dtype=torch.long), randn(9, 8)),
        "output_matrix",
    ),
    "textos por identificadores": (
        lambda: heads.copying_score(randn(2, 5, 8), MAPS, ["la", "la", "la", "la", "la"], randn(9, 8)),
        "tokens como tensor",
    ),
    "token fuera": (
        lambda: heads.copying_score(randn(2, 5, 8), MAPS, torch.tensor([0, 1, 2, 3, 9]), randn(9, 8)),
        "entre 0 y 8",
    ),
    "pesos y no argmax": (lambda: heads.retrieval_score(randn(2, 3), [1, 2], [0], [1, 2]), "argmax"),
    "pasos de menos": (lambda: heads.retrieval_score(torch.zeros(2, 3).long(), [1], [0], [1, 2]), "primera pasada"),
    "aguja repetida": (lambda: heads.retrieval_score(torch.zeros(1, 3).long(), [1], [0, 0], [1, 2]), "distintas"),
    "aguja fuera": (lambda: heads.retrieval_score(torch.zeros(1, 3).long(), [1], [2], [1, 2]), "entre 0 y 1"),
    "aguja vacía": (lambda: heads.retrieval_score(torch.zeros(1, 3).long(), [1], [], [1, 2]), "distintas"),
    "capa": (lambda: heads.output_matrix(OurStack(), 3), "capa entre 0 y 2"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors_say_what_was_expected(case):
    call, message = ERRORS[case]
    with pytest.raises(ValueError, match=message):
        call()
