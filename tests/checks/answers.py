"""Respuestas poco corrientes que deben pasar, e impostoras que no."""

import functools
import gc
import inspect
import itertools
import math
import sys
from collections import namedtuple
from decimal import Decimal
from fractions import Fraction

import numpy as np
import torch
import torch.nn.functional as F

from tests.checks import answers_08_09

# --- Correctas, escritas de otra manera ---------------------------------------------------------------------------


def positions_by_loops(n, d_model):
    table = torch.zeros(n, d_model)
    for position in range(n):
        for i in range(d_model // 2):
            angle = position / 10000 ** (2 * i / d_model)
            table[position, 2 * i], table[position, 2 * i + 1] = math.sin(angle), math.cos(angle)
    return table


def positions_by_logarithms(n, d_model):
    rate = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
    table = torch.empty(n, d_model)
    table[:, ::2], table[:, 1::2] = (
        torch.sin(torch.outer(torch.arange(n), rate)),
        torch.cos(torch.outer(torch.arange(n), rate)),
    )
    return table


def positions_by_phase(n, d_model):
    column = torch.arange(d_model)
    angle = torch.arange(n)[:, None] / 10000 ** (2 * (column // 2) / d_model)
    return torch.sin(angle + (column % 2) * torch.pi / 2)


def positions_by_complex_numbers(n, d_model):
    rate = 10000 ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    turns = torch.polar(torch.ones(n, d_model // 2, dtype=torch.float64), torch.arange(n)[:, None] * rate)
    return torch.view_as_real(turns).flip(-1).reshape(n, d_model)


def positions_from_numpy(n, d_model):
    angle = np.arange(n)[:, None] / 10000 ** (np.arange(0, d_model, 2) / d_model)
    return torch.from_numpy(np.stack([np.sin(angle), np.cos(angle)], -1).reshape(n, d_model))


def embed_by_one_hot(ids, table, positions):
    return F.one_hot(ids, len(table)).to(table.dtype) @ table + positions


def embed_by_layer(ids, table, positions):
    return torch.nn.Embedding.from_pretrained(table, freeze=False)(ids) + positions  # con gradiente


def embed_by_loop(ids, table, positions):
    n = ids.shape[-1]
    rows = [table[t] + positions[i % n] for i, t in enumerate(ids.flatten().tolist())]
    return torch.stack(rows).reshape(*ids.shape, -1)


def embed_by_gather(ids, table, positions):
    index = ids.reshape(-1, 1).expand(-1, table.shape[1])
    return table.gather(0, index).view(*ids.shape, -1).add(positions)


def weights_by_triple_loop(query, key):
    lead, (n_q, d), n_k = query.shape[:-2], query.shape[-2:], key.shape[-2]
    q, k = query.reshape(-1, n_q, d), key.reshape(-1, n_k, d)
    weights = torch.zeros(len(q), n_q, n_k)
    for b in range(len(q)):
        for i in range(n_q):
            scores = [sum(float(q[b, i, c]) * float(k[b, j, c]) for c in range(d)) / math.sqrt(d) for j in range(n_k)]
            exps = [math.exp(score - max(scores)) for score in scores]
            for j in range(n_k):
                weights[b, i, j] = exps[j] / sum(exps)
    return weights.reshape(*lead, n_q, n_k)


def weights_by_identity(query, key):
    eye = torch.eye(key.shape[-2]).expand(*key.shape[:-2], -1, -1)
    return F.scaled_dot_product_attention(query, key, eye)


def weights_quarter_power(query, key):
    d = query.shape[-1]
    return torch.softmax((query / d**0.25) @ (key / d**0.25).transpose(-1, -2), -1)


def weights_not_contiguous(query, key):
    scores = torch.einsum("...qd,...kd->...kq", query * query.shape[-1] ** -0.5, key)
    return F.softmax(scores, dim=-2).transpose(-1, -2)


def weights_by_log(query, key):
    return (query.double() @ key.double().mT / query.shape[-1] ** 0.5).log_softmax(-1).exp()


class Labelled(torch.Tensor):
    """Una subclase de Tensor sin nada más."""


def attend_fused(query, key, value, mask=None):
    eye = torch.eye(key.shape[-2]).expand(*key.shape[:-2], -1, -1)
    return (
        F.scaled_dot_product_attention(query, key, value, attn_mask=mask),
        F.scaled_dot_product_attention(query, key, eye, attn_mask=mask),
    )


def attend_additive(query, key, value, mask=None):
    bias = 0.0 if mask is None else torch.zeros(mask.shape).masked_fill(mask.logical_not(), -1e9)
    weights = torch.softmax((query @ key.mT + bias) / query.shape[-1] ** 0.5, -1)
    return weights @ value, weights


def attend_renormalising(query, key, value, mask=None):
    weights = torch.softmax(query @ key.mT / query.shape[-1] ** 0.5, -1)
    if mask is not None:
        weights = weights * mask
        weights = weights / weights.sum(-1, keepdim=True)
    return [torch.einsum("...qk,...kd->...qd", weights, value), weights]


def attend_where(query, key, value, mask=None):
    mask = torch.ones((), dtype=torch.bool) if mask is None else mask
    scores = torch.where(mask, query @ key.mT / math.sqrt(query.size(-1)), -torch.inf)
    weights = torch.nan_to_num(scores.softmax(-1)).requires_grad_()
    return weights @ value, weights


def attend_in_half_at_the_end(query, key, value, mask=None):
    output, weights = attend_fused(query, key, value, mask)
    return output.half(), weights.bfloat16()


def padding_by_lists(lengths, n):
    return torch.tensor([[[[j < int(length) for j in range(n)]]] for length in lengths])


def padding_by_cumsum(lengths, n):
    ones = torch.ones(len(lengths), n, dtype=torch.int64)
    return (ones.cumsum(-1) <= torch.tensor([int(x) for x in lengths]).unsqueeze(-1)).view(-1, 1, 1, n)


def padding_by_filling(lengths, n):
    mask = torch.zeros(len(lengths), 1, 1, n, dtype=torch.bool)
    for row, length in zip(mask, lengths, strict=True):
        row[..., :length] = True
    return mask


def cross_by_linear(x_decoder, x_encoder, w_q, w_k, w_v):
    query, key, value = F.linear(x_decoder, w_q.T), F.linear(x_encoder, w_k.T), F.linear(x_encoder, w_v.T)
    return F.scaled_dot_product_attention(query, key, value)


def cross_regrouped(x_decoder, x_encoder, w_q, w_k, w_v):
    scores = x_decoder @ (w_q @ w_k.mT / w_q.shape[-1] ** 0.5) @ x_encoder.mT
    return (scores.softmax(-1) @ x_encoder) @ w_v


class CrossAttention(torch.nn.Module):
    """Un módulo también es una función."""

    def forward(self, x_decoder, x_encoder, w_q, w_k, w_v):
        query, key, value = x_decoder @ w_q, x_encoder @ w_k, x_encoder @ w_v
        weights = torch.einsum("...id,...jd->...ij", query, key).div(w_q.shape[1] ** 0.5).softmax(-1)
        return torch.einsum("...ij,...jd->...id", weights, value)


def heads_by_block_diagonal(value, weights_1, weights_2):
    return torch.cat([weights_1, weights_2], dim=1) @ torch.block_diag(value, value)


def heads_by_loops(value, weights_1, weights_2):
    n, d = value.shape
    output = torch.zeros(n, 2 * d)
    for head, weights in enumerate([weights_1, weights_2]):
        for i in range(n):
            for j in range(n):
                output[i, head * d : (head + 1) * d] += weights[i, j] * value[j]
    return output


def blended_from_the_larger(weights_1, weights_2):
    return torch.maximum(weights_1, weights_2) - (weights_1 - weights_2).abs() / 2


def swapped_pairs():
    a, b = torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])
    return (a, b), (b, a)


def random_pairs(dtype=torch.float32):
    a, b, shift = torch.randn(3, 50).to(dtype)
    return [[a, b], [a + shift, b - shift]]


Pairs = namedtuple("Pairs", ["first", "second"])


class NotDivisible(ValueError):
    """Un error propio que también es un ValueError."""


def split_or_complain(x, num_heads):
    try:
        return x.unflatten(-1, (num_heads, -1)).transpose(-3, -2)
    except RuntimeError as error:
        raise NotDivisible("el reparto no es exacto") from error


def split_by_chunks(x, num_heads):
    if x.shape[-1] // num_heads * num_heads != x.shape[-1]:
        raise ValueError
    return torch.stack(x.chunk(num_heads, dim=-1), dim=-3)


def split_by_slices(x, num_heads):
    d, rest = divmod(x.shape[-1], num_heads)
    if rest > 0:
        raise ValueError(f"sobran {rest} columnas")
    return torch.stack([x[..., i * d : (i + 1) * d] for i in range(num_heads)], dim=x.dim() - 2)


def split_by_numpy(x, num_heads):
    return torch.from_numpy(np.stack(np.split(x.numpy(), num_heads, axis=-1), axis=-3))  # NumPy lanza el ValueError


def merge_by_slices(x):
    *lead, h, n, d = x.shape
    output = x.new_zeros(*lead, n, h * d)
    for i in range(h):
        output[..., i * d : (i + 1) * d] = x[..., i, :, :]
    return output


def layer_by_einsum(x, w_q, w_k, w_v, w_o, num_heads, mask=None):
    query, key, value = (torch.einsum("bnd,dhk->bhnk", x, w.unflatten(1, (num_heads, -1))) for w in (w_q, w_k, w_v))
    scores = torch.einsum("bhqk,bhtk->bhqt", query, key) * query.shape[-1] ** -0.5
    if mask is not None:
        scores = torch.where(mask, scores, -torch.inf)
    weights = scores.log_softmax(3).exp()
    return torch.einsum("bhqt,bhtk,hkd->bqd", weights, value, w_o.unflatten(0, (num_heads, -1)))


def layer_by_loop(x, w_q, w_k, w_v, w_o, num_heads, mask=None):
    d_k = x.size(2) // num_heads
    output = torch.zeros_like(x)
    for tile in (slice(i * d_k, (i + 1) * d_k) for i in range(num_heads)):
        scores = (x @ w_q[:, tile]) @ (x @ w_k[:, tile]).transpose(1, 2) / math.sqrt(d_k)
        if mask is not None:
            scores[:, ~mask] = float("-inf")
        output += scores.softmax(-1) @ (x @ w_v[:, tile]) @ w_o[tile]
    return output


def layer_fused(x, w_q, w_k, w_v, w_o, num_heads, mask=None):
    batch, n, d_model = x.shape
    query, key, value = (x @ torch.cat([w_q, w_k, w_v], 1)).view(batch, n, 3, num_heads, -1).permute(2, 0, 3, 1, 4)
    heads = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    return F.linear(heads.transpose(1, 2).reshape(batch, n, d_model), w_o.T)


def layer_of_torch(x, w_q, w_k, w_v, w_o, num_heads, mask=None):
    x, d_model = x.transpose(0, 1), x.shape[-1]
    output, _ = F.multi_head_attention_forward(
        x, x, x, d_model, num_heads, torch.cat([w_q, w_k, w_v], 1).T, None, None, None, False, 0.0, w_o.T, None,
        training=False, attn_mask=None if mask is None else ~mask,
    )  # fmt: skip
    return output.transpose(0, 1)


def layer_with_module(x, w_q, w_k, w_v, w_o, num_heads, mask=None):
    module = torch.nn.MultiheadAttention(x.shape[-1], num_heads, bias=False, batch_first=True)
    with torch.no_grad():
        module.in_proj_weight.copy_(torch.cat([w_q, w_k, w_v], 1).T)
        module.out_proj.weight.copy_(w_o.T)
    return module(x, x, x, attn_mask=None if mask is None else ~mask, need_weights=False)[0]


def layer_in_double(x, w_q, w_k, w_v, w_o, num_heads, mask=None):
    bias = 0.0 if mask is None else torch.zeros(mask.shape).masked_fill(~mask, float("-inf"))
    x, *weights = (tensor.double() for tensor in (x, w_q, w_k, w_v, w_o))
    query, key, value = ((x @ w).unflatten(2, (num_heads, -1)).transpose(1, 2) for w in weights[:3])
    weights_ = torch.softmax(query @ key.mT / query.shape[-1] ** 0.5 + bias, dim=-1)
    return (weights_ @ value).transpose(1, 2).flatten(2) @ weights[3]


def layer_in_place(x, w_q, w_k, w_v, w_o, num_heads, mask=None):
    x, w_q = x.clone(), w_q.clone().div_(math.sqrt(x.shape[-1] // num_heads))
    query, key, value = ((x @ w).unflatten(-1, (num_heads, -1)).transpose(1, 2) for w in (w_q, w_k, w_v))
    scores = query @ key.mT
    if mask is not None:
        scores.add_((1 - mask.float()).mul_(-1e9))
    return x.copy_(scores.softmax(-1).matmul(value).transpose(1, 2).flatten(2)).matmul(w_o)


def layer_by_circuits(x, w_q, w_k, w_v, w_o, num_heads, mask=None):
    """Por cabeza, una matriz QK y una OV: no se divide nada."""
    by_columns = [w.unflatten(1, (num_heads, -1)) for w in (w_q, w_k, w_v)]
    qk = torch.einsum("dhk,ehk->hde", by_columns[0], by_columns[1])
    ov = torch.einsum("dhk,hke->hde", by_columns[2], w_o.unflatten(0, (num_heads, -1)))
    scores = torch.einsum("bnd,hde,bme->bhnm", x, qk, x) / math.sqrt(x.shape[-1] / num_heads)
    if mask is not None:
        scores = scores + mask.float().log()
    return torch.einsum("bhnm,bmd,hde->bne", scores.softmax(-1), x, ov)


def layer_with_heads_as_batch(x, w_q, w_k, w_v, w_o, num_heads, mask=None):
    query, key, value = (torch.cat((x @ w).chunk(num_heads, -1)) for w in (w_q, w_k, w_v))
    weights = torch.bmm(query, key.mT).div(query.shape[-1] ** 0.5).softmax(-1)
    if mask is not None:
        weights = weights * mask
        weights = weights / weights.sum(-1, keepdim=True).clamp_min(1e-30)
    return torch.cat(torch.bmm(weights, value).chunk(num_heads), -1) @ w_o


class MultiHead(torch.nn.Module):
    """Un módulo también es una función, y su resultado puede llevar gradiente."""

    def forward(self, x, w_q, w_k, w_v, w_o, num_heads, mask=None):
        return layer_fused(torch.nn.Parameter(x), w_q, w_k, w_v, w_o, num_heads, mask)


LAYERS = [
    layer_by_einsum,
    layer_by_loop,
    layer_fused,
    layer_of_torch,
    layer_with_module,
    layer_in_double,
    layer_in_place,
    layer_by_circuits,
    MultiHead(),
    lambda *args, **kwargs: layer_fused(*args, **kwargs).half(),
]


def cost_by_formula(d_model, num_heads, n):
    return {
        "params": 4 * d_model**2,
        "flops": 8 * n * d_model**2 + 4 * n**2 * d_model,
        "score_elements": num_heads * n**2,
    }


def cost_head_by_head(d_model, num_heads, n):
    d_k, cost = d_model / num_heads, dict.fromkeys(("score_elements", "flops", "params"), 0)
    for _ in range(num_heads):
        cost["params"] += 3 * d_model * d_k + d_k * d_model
        cost["flops"] += 4 * 2 * n * d_model * d_k + 2 * n * d_k * n + 2 * n * n * d_k
        cost["score_elements"] += n * n
    return cost


def cost_by_counting(d_model, num_heads, n):
    module = torch.nn.MultiheadAttention(d_model, num_heads, bias=False)
    products = [(n, d_model, d_model)] * 4 + [(n, d_model // num_heads, n), (n, n, d_model // num_heads)] * num_heads
    return {
        "params": torch.tensor(sum(p.numel() for p in module.parameters())),
        "flops": np.float32(sum(2 * m * k * p for m, k, p in products)),
        "score_elements": np.int32(torch.empty(num_heads, n, n).numel()),
    }


def contributions_by_slices(heads, w_o):
    d = heads.shape[-1]
    return torch.stack([heads[:, i] @ w_o[i * d : (i + 1) * d] for i in range(heads.shape[1])], dim=1)


def contributions_by_zeroing(heads, w_o):
    """La concatenación con las demás cabezas a cero, por W^O entera."""
    batch, h, n, d = heads.shape
    output = torch.zeros(batch, h, n, w_o.shape[1])
    for i in range(h):
        concat = torch.zeros(batch, n, h * d)
        concat[..., i * d : (i + 1) * d] = heads[:, i]
        output[:, i] = concat @ w_o
    return output


def contributions_by_difference(heads, w_o):
    """La salida de la capa menos la salida sin esa cabeza (que se anula y se repone)."""
    output = lambda: heads.double().transpose(1, 2).flatten(2) @ w_o.double()  # noqa: E731
    whole, found = output(), []
    for i in range(heads.shape[1]):
        kept = heads[:, i].clone()
        heads[:, i] = 0
        found.append(whole - output())
        heads[:, i] = kept
    return torch.stack(found, dim=1)


def positional_by_loops(weights, offset):
    h, n, _ = weights.shape
    score = []
    for head in range(h):
        queries = [i for i in range(n) if 0 <= i + offset < n]
        score.append(
            sum(max(range(n), key=lambda j: weights[head, i, j]) == i + offset for i in queries) / len(queries)
        )
    return torch.tensor(score)


def positional_by_diagonals(weights, offset):
    """La diagonal del desplazamiento, comparada con el máximo de su fila."""
    there = weights.diagonal(offset, -2, -1)
    first = max(0, -offset)
    return (there == weights.max(-1).values[:, first : first + there.shape[-1]]).double().mean(-1)


def positional_by_one_hot(weights, offset):
    n = weights.shape[-1]
    wanted = torch.ones(n, n).tril(offset).triu(offset)
    return torch.einsum("hqk,qk->h", F.one_hot(weights.argmax(2), n).float(), wanted) / wanted.sum()


def positional_with_nan(weights, offset):
    target = torch.arange(weights.shape[-1]) + offset
    hits = (weights.argmax(-1) == target).float()
    hits[:, (target < 0) | (target >= len(target))] = torch.nan
    return hits.nanmean(-1)


def positional_overwriting(weights, offset):
    """Cambia sus entradas: deja solo el máximo de cada fila."""
    weights.copy_(weights == weights.amax(-1, keepdim=True))
    return weights.diagonal(offset, -2, -1).mean(-1)


def positional_by_shifting(weights, offset):
    n = weights.shape[-1]
    padded = F.pad(weights.argmax(-1) - torch.arange(n), (0, n), value=n + 1)
    return (padded == offset).sum(1).true_divide(n - abs(offset))


def positional_by_numpy(weights, offset):
    strongest = np.argmax(weights.numpy(), axis=-1)
    there = [i for i in range(strongest.shape[1]) if i + offset in range(strongest.shape[1])]
    return torch.from_numpy(np.mean(strongest[:, there] - np.array(there) == offset, axis=1))


def entropy_by_loops(weights):
    n_q, n_k = weights.shape[-2:]
    found = []
    for one in weights.reshape(-1, n_q, n_k).tolist():
        found.append(sum(-p * math.log(p) for row in one for p in row if p > 0) / n_q)
    return torch.tensor(found).reshape(weights.shape[:-2])


def entropy_recursive(weights):
    if weights.dim() > 2:
        return torch.stack([entropy_recursive(one) for one in weights])
    return torch.distributions.Categorical(probs=weights).entropy().mean()


def entropy_in_bits_and_back(weights):
    return -(weights * weights.clamp_min(1e-30).log2()).sum((-1, -2)) * math.log(2) / weights.size(-2)


def entropy_by_sorting(weights):
    """La entropía no depende del orden de las claves, ni de las consultas."""
    shuffled = weights[..., torch.randperm(weights.shape[-2]), :].sort(-1).values
    return torch.nansum(-shuffled * shuffled.log(), dim=-1).mean(-1)


def entropy_from_uniform(weights):
    """log n_k menos la divergencia con el reparto uniforme."""
    n_k = weights.shape[-1]
    return math.log(n_k) - torch.special.xlogy(weights, weights * n_k).sum(-1).mean(-1)


def accuracy_by_dictionary(weights, pairs):
    governor_of = dict(pairs)
    hits = torch.zeros(len(weights))
    for dependent, row in enumerate(weights.argmax(2).T):
        if dependent in governor_of:
            hits += row == governor_of[dependent]
    return hits / len(governor_of)


def accuracy_by_loops(weights, pairs):
    return torch.tensor(
        [sum(int(head[d].argmax()) == g for d, g in pairs) / len(pairs) for head in weights], dtype=torch.float64
    )


def accuracy_by_table(weights, pairs):
    """Una tabla de parejas (n, n) y los máximos de cada fila."""
    table = torch.zeros(weights.shape[1:])
    for pair in pairs:
        table[pair] = 1
    return ((weights == weights.amax(-1, keepdim=True)) * table).sum((1, 2)) / table.sum()


def accuracy_by_comparing(weights, pairs):
    """Ninguna otra clave pesa más."""
    found = [(weights[:, d] > weights[:, d, g, None]).any(-1).logical_not() for d, g in pairs]
    return torch.stack(found, -1).float().mean(-1)


def accuracy_emptying_the_list(weights, pairs):
    """Gasta la lista: cambia sus entradas."""
    total, hits = len(pairs), 0
    while pairs:
        dependent, governor = pairs.pop()
        hits = hits + weights[:, dependent].topk(1).indices.eq(governor).squeeze(-1)
    return hits / total


def prediction_by_reversing(tokens):
    *earlier, asked = tokens
    if asked not in earlier:
        return None
    return tokens[len(earlier) - earlier[::-1].index(asked)]


def prediction_by_dictionary(tokens):
    """Lo que siguió a cada token la última vez."""
    followed_by = {}
    for token, following in itertools.pairwise(tokens):
        followed_by[token] = following
    return followed_by.get(tokens[-1])


def prediction_recursive(tokens):
    if len(tokens) < 2:
        return None
    return tokens[-1] if tokens[-2] == tokens[-1] else prediction_recursive_from(tokens[:-1], tokens[-1])


def prediction_recursive_from(tokens, asked):
    if len(tokens) < 2:
        return None
    return tokens[-1] if tokens[-2] == asked else prediction_recursive_from(tokens[:-1], asked)


def prediction_emptying_the_list(tokens):
    """Gasta la lista: cambia sus entradas."""
    asked = following = tokens.pop()
    while tokens:
        token = tokens.pop()
        if token == asked:
            return following
        following = token
    return None


def prediction_with_numpy(tokens):
    places = np.flatnonzero(np.array(tokens[:-1]) == tokens[-1])
    return tokens[places.max() + 1] if places.size else None


def index_by_loops(weights, period):
    n, found = weights.shape[1], []
    for head in weights.tolist():
        found.append(sum(head[i][i - period + 1] for i in range(period, n)) / (n - period))
    return torch.tensor(found)


def index_by_mask(weights, period):
    n = weights.shape[-1]
    places = torch.arange(n)
    wanted = (places == places[:, None] - period + 1) & (places[:, None] >= period)
    return (weights * wanted).sum((-2, -1)) / wanted.sum()


def index_by_gather(weights, period):
    queries = torch.arange(period, weights.shape[-1])
    keys = (queries - period + 1).expand(len(weights), -1)[..., None]
    return weights[:, period:].gather(-1, keys).mean((-1, -2))


def index_by_tokens(weights, period):
    """Con la secuencia a la vista: lo que siguió a la aparición más cercana."""
    tokens = [i % period for i in range(weights.shape[-1])]
    scores = []
    for i in range(period, len(tokens)):
        last = max(j for j in range(i) if tokens[j] == tokens[i])
        scores.append(weights[:, i, last + 1])
    return torch.stack(scores, -1).double().mean(-1)


def ablate_by_mask(concat, heads, head_dim):
    kept = torch.ones(concat.shape[-1] // head_dim)
    kept[heads] = 0
    return concat * kept.repeat_interleave(head_dim)


def ablate_by_split(concat, heads, head_dim):
    parts = concat.split(head_dim, dim=-1)
    return torch.cat([torch.zeros_like(part) if i in heads else part for i, part in enumerate(parts)], dim=-1)


def ablate_by_unflatten(concat, heads, head_dim):
    by_head = concat.unflatten(-1, (-1, head_dim)).clone()
    by_head[..., heads, :] = 0
    return by_head.flatten(-2)


def ablate_in_place(concat, heads, head_dim):
    for head in heads:
        concat[..., head * head_dim : (head + 1) * head_dim].zero_()
    return concat


def ablate_by_product(concat, heads, head_dim):
    diagonal = torch.eye(concat.shape[-1])
    for head in heads:
        diagonal[head * head_dim : (head + 1) * head_dim] = 0
    return concat @ diagonal


def retrieval_by_loops(steps, needle, context):
    found = 0
    for place in needle:
        for position, token in steps:
            if position == place and token == context[place]:
                found += 1
                break
    return found / len(needle)


def retrieval_by_sets(steps, needle, context):
    return len(set(steps) & {(place, context[place]) for place in needle}) / len(set(needle))


def retrieval_by_any(steps, needle, context):
    return sum(any(step == (place, context[place]) for step in steps) for place in needle) / len(needle)


def previous_head_in_the_keys(positions):
    """La consulta se queda como está; la clave j se disfraza de j + 1."""
    w_k = sum(torch.outer(positions[j], positions[j + 1]) for j in range(len(positions) - 1))
    return torch.eye(positions.shape[1]) * 60 * math.sqrt(positions.shape[1]), w_k


def previous_head_rotated(positions):
    """Las dos giradas: solo importa el producto."""
    d = positions.shape[1]
    turn, _ = torch.linalg.qr(torch.randn(d, d))
    w_q = 50 * d**0.5 * positions[1:].mT @ positions[:-1]
    return [w_q @ turn, turn]


def previous_head_by_pinv(positions):
    return torch.linalg.pinv(positions.double()) @ (40 * positions.shape[1] * positions.double().roll(1, 0)), torch.eye(
        positions.shape[1]
    )


def previous_head_shared_factor(positions):
    """El factor, repartido entre las dos."""
    d = positions.shape[1]
    factor = math.sqrt(30 * math.sqrt(d))
    return factor * torch.einsum("nd,ne->de", positions[1:], positions[:-1]), factor * torch.eye(d)


def importance_by_loops(head_output, gradient):
    batch, h, _, _ = gradient.shape
    found = torch.zeros(h, dtype=torch.float64)
    for b in range(batch):
        for i in range(h):
            found[i] += abs(float(torch.dot(head_output[b, i].flatten(), gradient[b, i].flatten()))) / batch
    return found


def importance_by_gates(head_output, gradient):
    """La derivada respecto a una puerta por ejemplo y cabeza, calculada por torch."""
    gates = torch.ones(head_output.shape[:2], requires_grad=True)
    written = head_output * gates[..., None, None]
    (derivative,) = torch.autograd.grad(written, gates, gradient)
    return derivative.abs().mean(0)


def importance_by_trace(head_output, gradient):
    """La traza de salida · gradienteᵀ."""
    traces = (head_output @ gradient.mT).diagonal(dim1=-2, dim2=-1).sum(-1)
    return torch.linalg.vector_norm(traces, ord=1, dim=0) / len(traces)


def importance_by_differences(head_output, gradient):
    """Lo que cambia una pérdida lineal al cerrar un poco la puerta."""
    loss = lambda gate: (gate * head_output.double() * gradient.double()).sum((-2, -1))  # noqa: E731
    return ((loss(1.0) - loss(0.5)) / 0.5).abs().mean(0).float()


def importance_in_place(head_output, gradient):
    return head_output.mul_(gradient).flatten(2).sum(2).abs_().mean(0)


def gate_by_loops(log_alpha, u, beta=2 / 3, gamma=-0.1, zeta=1.1):
    found = []
    for a, p in zip(log_alpha.double().flatten().tolist(), u.double().flatten().tolist(), strict=True):
        s = 1 / (1 + math.exp(-(math.log(p) - math.log1p(-p) + a) / beta))
        found.append(min(1, max(0, s * (zeta - gamma) + gamma)))
    return torch.tensor(found).reshape(u.shape)


def gate_by_tanh(log_alpha, u, beta=2 / 3, gamma=-0.1, zeta=1.1):
    s = (1 + torch.tanh((torch.logit(u) + log_alpha) / beta / 2)) / 2
    return F.hardtanh(torch.lerp(torch.tensor(float(gamma)), torch.tensor(float(zeta)), s), 0.0, 1.0)


def gate_by_powers(log_alpha, u, beta=2 / 3, gamma=-0.1, zeta=1.1):
    """Con α en vez de log α, y sin sigmoide."""
    odds = log_alpha.double().exp() * u / (1 - u)
    s = 1 / (1 + odds ** (-1 / beta))
    stretched = s * zeta + (1 - s) * gamma
    return stretched.relu() - (stretched - 1).relu()


def gate_by_where(log_alpha, u, beta=2 / 3, gamma=-0.1, zeta=1.1):
    stretched = gamma + (zeta - gamma) * torch.exp(F.logsigmoid((u.log() - (1 - u).log() + log_alpha) / beta))
    return torch.where(stretched > 1, 1.0, torch.where(stretched < 0, 0.0, stretched)).requires_grad_()


def gate_by_numpy(log_alpha, u, beta=2 / 3, gamma=-0.1, zeta=1.1):
    a, p = log_alpha.numpy().astype(float), u.numpy().astype(float)
    s = np.exp(-np.logaddexp(0, -(np.log(p / (1 - p)) + a) / beta))
    return torch.from_numpy(np.clip(s * (zeta - gamma) + gamma, 0, 1))


def gate_of_torch(log_alpha, u, beta=2 / 3, gamma=-0.1, zeta=1.1):
    """La concreta es la sigmoide de una logística, y la logística se saca de una uniforme."""
    uniform = torch.distributions.Uniform(torch.zeros(()), torch.ones(()), validate_args=False)
    parts = [torch.distributions.SigmoidTransform().inv, torch.distributions.AffineTransform(log_alpha, 1.0)]
    parts += [torch.distributions.AffineTransform(0.0, 1 / beta), torch.distributions.SigmoidTransform()]
    s = torch.distributions.TransformedDistribution(uniform, parts)
    for transform in s.transforms:
        u = transform(u)
    return torch.clip(torch.add(gamma, u, alpha=zeta - gamma), min=0, max=1)


def open_by_loops(log_alpha, beta=2 / 3, gamma=-0.1, zeta=1.1):
    found = [1 / (1 + math.exp(beta * math.log(-gamma / zeta) - a)) for a in log_alpha.flatten().tolist()]
    return torch.tensor(found).view_as(log_alpha)


def open_by_powers(log_alpha, beta=2 / 3, gamma=-0.1, zeta=1.1):
    odds = log_alpha.double().exp() * (zeta / abs(gamma)) ** beta
    return odds / (1 + odds)


def open_from_closed(log_alpha, beta=2 / 3, gamma=-0.1, zeta=1.1):
    """Uno menos la función de distribución de s en el valor que se estira hasta 0."""
    threshold = torch.tensor(-gamma / (zeta - gamma))
    return 1 - torch.sigmoid(beta * torch.logit(threshold) - log_alpha)


def open_by_bisection(log_alpha, beta=2 / 3, gamma=-0.1, zeta=1.1):
    """La u a partir de la cual la puerta se abre; por encima queda 1 − u."""
    low, high = torch.zeros_like(log_alpha).double(), torch.ones_like(log_alpha).double()
    for _ in range(60):
        u = (low + high) / 2
        stretched = torch.sigmoid((torch.logit(u) + log_alpha.double()) / beta) * (zeta - gamma) + gamma
        low, high = torch.where(stretched > 0, low, u), torch.where(stretched > 0, u, high)
    return 1 - high


def open_by_softmax(log_alpha, beta=2 / 3, gamma=-0.1, zeta=1.1):
    shift = torch.full_like(log_alpha, beta * (math.log(-gamma) - math.log(zeta)))
    return torch.stack([log_alpha, shift]).softmax(0)[0]


def prune_by_tiles(w_q, w_k, w_v, w_o, heads, head_dim):
    tiles = [slice(i * head_dim, (i + 1) * head_dim) for i in range(len(w_o) // head_dim) if i not in heads]
    inputs = (torch.cat([w[:, tile] for tile in tiles], dim=1) for w in (w_q, w_k, w_v))
    return (*inputs, torch.cat([w_o[tile] for tile in tiles]))


def prune_by_mask(w_q, w_k, w_v, w_o, heads, head_dim):
    kept = torch.ones(len(w_o) // head_dim, dtype=torch.bool)
    kept[heads] = False
    kept = kept.repeat_interleave(head_dim)
    return [w_q[:, kept], w_k[:, kept], w_v[:, kept], w_o[kept]]


def prune_by_reshape(w_q, w_k, w_v, w_o, heads, head_dim):
    kept = sorted(set(range(w_o.shape[0] // head_dim)) - set(heads))
    by_head = [w.unflatten(1, (-1, head_dim))[:, kept].flatten(1) for w in (w_q, w_k, w_v)]
    return (*by_head, w_o.unflatten(0, (-1, head_dim))[kept].flatten(0, 1))


def prune_from_the_last(w_q, w_k, w_v, w_o, heads, head_dim):
    """De una en una, empezando por la última para que las demás no se corran; gasta la lista."""
    heads.sort()
    while heads:
        start = heads.pop() * head_dim
        w_q, w_k, w_v = (torch.cat([w[:, :start], w[:, start + head_dim :]], 1) for w in (w_q, w_k, w_v))
        w_o = torch.vstack([w_o[:start], w_o[start + head_dim :]])
    return w_q, w_k, w_v, w_o


def prune_by_product(w_q, w_k, w_v, w_o, heads, head_dim):
    """Una matriz que elige columnas, y su traspuesta para las filas."""
    columns = [c for c in range(w_q.shape[1]) if c // head_dim not in heads]
    choose = torch.eye(w_q.shape[1])[:, columns]
    return w_q @ choose, w_k @ choose, w_v @ choose, choose.T @ w_o


def prune_by_numpy(w_q, w_k, w_v, w_o, heads, head_dim):
    gone = np.concatenate([np.arange(head * head_dim, (head + 1) * head_dim) for head in heads])
    *inputs, output = (w.numpy() for w in (w_q, w_k, w_v, w_o))
    return (
        *(torch.from_numpy(np.delete(w, gone, axis=1)) for w in inputs),
        torch.from_numpy(np.delete(output, gone, axis=0)),
    )


def closing_by_bisection(gamma=-0.1, zeta=1.1):
    low, high = -40.0, 40.0
    while high - low > 1e-7:
        middle = (low + high) / 2
        open_ = 1 / (1 + math.exp(-middle)) * (zeta - gamma) + gamma > 0
        low, high = (low, middle) if open_ else (middle, high)
    return high


def closing_by_newton(gamma=-0.1, zeta=1.1):
    x = torch.zeros((), dtype=torch.float64)
    for _ in range(60):
        s = torch.sigmoid(x)
        x = x - (s * (zeta - gamma) + gamma) / (s * (1 - s) * (zeta - gamma)).clamp_min(0.05)
    return x


def closing_on_a_fine_grid(gamma=-0.1, zeta=1.1):
    grid = torch.linspace(-6, 6, 2_000_001, dtype=torch.float64)
    return grid[(torch.sigmoid(grid) * (zeta - gamma) + gamma > 0).int().argmax()]


UNUSUAL = {
    "1.1": [
        positions_by_loops,
        positions_by_logarithms,
        positions_by_phase,
        positions_by_complex_numbers,
        positions_from_numpy,
        lambda n, d_model: positions_by_phase(n, d_model).half(),
    ],
    "1.2": [
        embed_by_one_hot,
        embed_by_layer,
        embed_by_loop,
        embed_by_gather,
        lambda ids, table, positions: F.embedding(ids, table.double()) + positions,
        lambda i, E, P: P + torch.index_select(E, 0, i.flatten()).unflatten(0, i.shape),
    ],
    "2.1": [
        weights_by_triple_loop,
        weights_by_identity,
        weights_quarter_power,
        weights_not_contiguous,
        weights_by_log,
        lambda query, key: weights_by_log(query, key).as_subclass(Labelled),
        lambda query, key: torch.nn.Parameter(weights_by_log(query, key)),
        lambda query, key: weights_by_log(query, key).to_sparse(),
        functools.partial(lambda scale, query, key: torch.softmax(query @ key.mT / query.shape[-1] ** scale, -1), 0.5),
    ],
    "2.2": [
        lambda n: ~torch.triu(torch.ones(n, n), 1).bool(),
        lambda n: torch.arange(n) <= torch.arange(n)[:, None],
        lambda n: torch.tensor([[j <= i for j in range(n)] for i in range(n)]),
        lambda n: torch.nn.Transformer.generate_square_subsequent_mask(n) == 0,
        functools.lru_cache(lambda n: torch.tril(torch.ones((n, n), dtype=torch.bool))),
        lambda n: torch.ones(n, n).cumsum(0) >= torch.ones(n, n).cumsum(1),
    ],
    "2.3": [attend_fused, attend_additive, attend_renormalising, attend_where, attend_in_half_at_the_end],
    "2.4": [padding_by_lists, padding_by_cumsum, padding_by_filling],
    "2.5": [cross_by_linear, cross_regrouped, CrossAttention()],
    "3.1": [
        heads_by_loops,
        heads_by_block_diagonal,
        lambda value, weights_1, weights_2: torch.hstack([weights_1.mm(value), weights_2.mm(value)]).half(),
        lambda v, a, b: torch.einsum("hij,jd->ihd", torch.stack([a, b]), v).flatten(1),
        lambda v, a, b: F.pad(a @ v, (0, v.shape[1])) + F.pad(b @ v, (v.shape[1], 0)),
    ],
    "3.2": [
        lambda weights_1, weights_2: torch.lerp(weights_1, weights_2, 0.5),
        blended_from_the_larger,
        lambda weights_1, weights_2: torch.stack([weights_1, weights_2]).mean(0),
        lambda weights_1, weights_2: F.normalize(weights_1 + weights_2, p=1, dim=-1),
        lambda weights_1, weights_2: torch.logaddexp(weights_1.log(), weights_2.log()).exp() / 2,
        lambda weights_1, weights_2: ((weights_1 + weights_2) / 2).log().softmax(-1),
    ],
    "3.3": [
        swapped_pairs,
        random_pairs,
        lambda: random_pairs(torch.bfloat16),
        swapped_pairs(),
        [[torch.tensor([1]), torch.tensor([3])], [torch.tensor([2]), torch.tensor([2])]],
        torch.stack([torch.eye(3)[:2], torch.eye(3)[:2].flip(0)]),
        Pairs((torch.zeros(2), torch.zeros(2)), (torch.ones(2).double(), torch.nn.Parameter(-torch.ones(2)))),
        ((torch.tensor([1e6, 1.0]), torch.tensor([1e6, 3.0])), (torch.tensor([1e6, 0.0]), torch.tensor([1e6, 4.0]))),
        ((torch.tensor([0.1 + 0.2]), torch.tensor([0.3])), (torch.tensor([0.6]), torch.tensor([0.0]))),
    ],
    "4.1": [
        lambda: [1024 // h for h in (16, 8)],
        (64, 128),
        (64.0, 128.0),
        torch.tensor([64, 128]),
        (torch.tensor(64), torch.tensor([128.0])),
        np.array([64, 128]),
        (np.int64(64), np.float32(128)),
        (Fraction(1024, 16), Decimal(128)),
    ],
    "4.2": [
        split_by_slices,
        split_or_complain,
        split_by_chunks,
        split_by_numpy,
        lambda x, h: x.mT.unflatten(-2, (h, -1)).mT if x.shape[-1] % h == 0 else [].index(h),
    ],
    "4.3": [
        merge_by_slices,
        lambda x: torch.cat(x.unbind(-3), dim=-1),
        lambda x: x.mT.flatten(-3, -2).mT,
        lambda x: torch.einsum("...hnd->...nhd", x).reshape(*x.shape[:-3], x.shape[-2], -1),
        lambda x: x.transpose(-3, -2).contiguous().view(*x.shape[:-3], x.shape[-2], -1),
    ],
    "4.4": LAYERS,
    "4.5": [
        cost_by_formula,
        cost_head_by_head,
        cost_by_counting,
        lambda d, h, n: {k: Fraction(v) for k, v in reversed(cost_by_formula(d, h, n).items())},
    ],
    "4.6": LAYERS,
    "4.7": [
        contributions_by_slices,
        contributions_by_zeroing,
        contributions_by_difference,
        lambda heads, w_o: torch.einsum("bhnd,hdm->bhnm", heads, w_o.view(heads.shape[1], heads.shape[3], -1)),
        lambda heads, w_o: (heads[..., None] * w_o.unflatten(0, (heads.size(1), 1, -1))).sum(-2).bfloat16(),
        lambda x, w: torch.stack([h @ rows for h, rows in zip(x.unbind(1), w.split(x.shape[-1]), strict=True)], 1),
    ],
    "5.1": [
        positional_by_loops,
        positional_by_diagonals,
        positional_by_one_hot,
        positional_with_nan,
        positional_overwriting,
        positional_by_shifting,
        positional_by_numpy,
        lambda weights, offset: positional_by_loops(weights.flip(-1, -2), -offset).half(),
    ],
    "5.2": [
        entropy_by_loops,
        entropy_recursive,
        entropy_in_bits_and_back,
        entropy_by_sorting,
        entropy_from_uniform,
        lambda weights: torch.special.entr(weights).mean((-2, -1)) * weights.shape[-1],
        lambda weights: -(weights * (weights + 1e-9).log()).sum(-1).mean(-1),
        lambda weights: -(weights * weights.log().nan_to_num()).sum(-1).mean(-1).bfloat16(),
        lambda weights: -torch.where(weights == 0, 1, weights).log().mul(weights).sum(-1).mean(-1),
    ],
    "5.3": [
        accuracy_by_dictionary,
        accuracy_by_loops,
        accuracy_by_table,
        accuracy_by_comparing,
        accuracy_emptying_the_list,
        lambda weights, pairs: (
            (weights.argmax(-1)[:, [d for d, _ in pairs]] == torch.tensor(pairs)[:, 1]).float().mean(1)
        ),
    ],
    "6.1": [
        prediction_by_reversing,
        prediction_by_dictionary,
        prediction_recursive,
        prediction_emptying_the_list,
        prediction_with_numpy,
        lambda tokens: next((tokens[i + 1] for i in range(len(tokens) - 2, -1, -1) if tokens[i] == tokens[-1]), None),
    ],
    "6.2": [
        index_by_loops,
        index_by_mask,
        index_by_gather,
        index_by_tokens,
        lambda weights, period: weights.diagonal(1 - period, -2, -1)[:, 1:].mean(-1),
        lambda weights, period: torch.stack([head[period:].diagonal(1).mean() for head in weights]).half(),
    ],
    "6.3": [
        ablate_by_mask,
        ablate_by_split,
        ablate_by_unflatten,
        ablate_in_place,
        ablate_by_product,
        lambda x, heads, d: x.masked_fill(torch.isin(torch.arange(x.shape[-1]) // d, torch.tensor(heads)), 0),
        lambda x, heads, d: ablate_by_mask(x.double(), heads, d).requires_grad_(),
    ],
    "6.4": [
        retrieval_by_loops,
        retrieval_by_sets,
        retrieval_by_any,
        lambda steps, needle, context: torch.tensor(retrieval_by_sets(steps, needle, context)),
        lambda steps, needle, context: Fraction(retrieval_by_loops(steps, needle, context)),
        lambda steps, needle, context: np.float32(retrieval_by_any(steps, needle, context)),
    ],
    "6.5": [
        previous_head_in_the_keys,
        previous_head_rotated,
        previous_head_by_pinv,
        previous_head_shared_factor,
        lambda p: (1e4 * p[1:].T @ p[:-1], torch.eye(p.shape[1])),
        lambda p: (300 * p[1:].T.half() @ p[:-1].half(), torch.eye(p.shape[1]).half()),
    ],
    "7.1": [
        importance_by_loops,
        importance_by_gates,
        importance_by_trace,
        importance_by_differences,
        importance_in_place,
        lambda o, g: torch.einsum("bhnd,bhnd->bh", o, g).abs().mean(0),
        lambda o, g: (o.flatten(2).unsqueeze(2) @ g.flatten(2).unsqueeze(3)).flatten(1).norm(p=1, dim=0) / o.size(0),
        lambda o, g: torch.stack([(o[:, i] * g[:, i]).sum((1, 2)).square().sqrt().mean() for i in range(o.shape[1])]),
    ],
    "7.2": [
        gate_by_loops,
        gate_by_tanh,
        gate_by_powers,
        gate_by_where,
        gate_by_numpy,
        gate_of_torch,
        lambda a, u, beta=2 / 3, gamma=-0.1, zeta=1.1: gate_by_powers(a, u, beta, gamma, zeta).half(),
        functools.partial(gate_by_tanh, beta=2 / 3),
    ],
    "7.3": [
        open_by_loops,
        open_by_powers,
        open_from_closed,
        open_by_bisection,
        open_by_softmax,
        lambda a, beta=2 / 3, gamma=-0.1, zeta=1.1: F.logsigmoid(a - beta * math.log(-gamma / zeta)).exp(),
        lambda a, beta=2 / 3, gamma=-0.1, zeta=1.1: (1 + ((a - beta * math.log(-gamma / zeta)) / 2).tanh()) / 2,
    ],
    "7.4": [
        prune_by_tiles,
        prune_by_mask,
        prune_by_reshape,
        prune_from_the_last,
        prune_by_product,
        prune_by_numpy,
        lambda q, k, v, o, heads, d: tuple(w.double() for w in prune_by_mask(q, k, v, o, heads, d)),
    ],
    "7.5": [
        closing_by_bisection,
        closing_by_newton,
        closing_on_a_fine_grid,
        lambda gamma=-0.1, zeta=1.1: torch.logit(torch.tensor(-gamma / (zeta - gamma))),
        lambda gamma=-0.1, zeta=1.1: np.log(np.float64(-gamma)) - np.log(zeta),
        lambda gamma=-0.1, zeta=1.1: -2 * math.atanh(1 + 2 * gamma / (zeta - gamma)),
    ],
    **answers_08_09.UNUSUAL,
}

# --- Equivocadas, escritas de otra manera -------------------------------------------------------------------------


def _weights(query, key, mask=None, fill=float("-inf")):
    scores = query @ key.mT / query.shape[-1] ** 0.5
    return torch.softmax(scores if mask is None else scores.masked_fill(~mask, fill), -1)


def _attend(query, key, value, mask=None):
    weights = _weights(query, key, mask)
    return weights @ value, weights


def _zero_times_infinity(query, key, value, mask=None):
    scores = query @ key.mT / query.shape[-1] ** 0.5
    weights = torch.softmax(scores if mask is None else scores + (~mask).float() * -torch.inf, -1)
    return weights @ value, weights


def _weak_fill(query, key, value, mask=None):
    weights = _weights(query, key, mask, -1.0)
    return weights @ value, weights


def _return_inside_the_loop(n, d_model):
    table = torch.zeros(n, d_model)
    for position in range(n):
        for i in range(0, d_model, 2):
            angle = position / 10000 ** (i / d_model)
            table[position, i], table[position, i + 1] = math.sin(angle), math.cos(angle)
        return table


def _t(*numbers):
    return torch.tensor([float(x) for x in numbers])


def _module_with_mask_as_it_comes(x, w_q, w_k, w_v, w_o, num_heads, mask=None):
    return layer_with_module(x, w_q, w_k, w_v, w_o, num_heads, None if mask is None else ~mask)


def _scaled_twice(x, w_q, w_k, w_v, w_o, num_heads, mask=None):
    return layer_fused(x, w_q / math.sqrt(x.shape[-1] // num_heads), w_k, w_v, w_o, num_heads, mask)


def _fused_before_transposing(x, w_q, w_k, w_v, w_o, num_heads, mask=None):
    query, key, value = ((x @ w).unflatten(-1, (num_heads, -1)) for w in (w_q, w_k, w_v))
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask).flatten(2) @ w_o


def _two_views(x, w_q, w_k, w_v, w_o, num_heads, mask=None):
    """Dos fallos: divide y junta sin trasponer."""
    batch, n, d_model = x.shape
    query, key, value = ((x @ w).view(batch, num_heads, n, -1) for w in (w_q, w_k, w_v))
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask).reshape(batch, n, d_model) @ w_o


def _heads_of(x, w_q, w_k, w_v, num_heads, mask):
    query, key, value = ((x @ w).unflatten(-1, (num_heads, -1)).transpose(1, 2) for w in (w_q, w_k, w_v))
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)


# El error conocido que hay detrás de cada una.
def _waves(angles):
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)


def _without_the_minus_sign(n, d):
    """La receta de la exponencial, muy copiada, sin su signo menos."""
    return _waves(torch.arange(n)[:, None] * torch.exp(torch.arange(0, d, 2) * (math.log(10000.0) / d)))


def _fill_and_forget(query, key, value, mask=None):
    """`masked_fill` sin guardar lo que devuelve."""
    scores = query @ key.mT / query.shape[-1] ** 0.5
    if mask is not None:
        scores.masked_fill(~mask, float("-inf"))
    weights = torch.softmax(scores, -1)
    return weights @ value, weights


def _undivided(x, w_q, w_k, w_v, w_o, num_heads, mask=None):
    """Una cabeza tan ancha como el modelo, con la escala de una de las h."""
    scores = x @ w_q @ (x @ w_k).mT / (x.shape[-1] // num_heads) ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    return torch.softmax(scores, -1) @ (x @ w_v) @ w_o


VARIANTS = [
    ("1.1", _return_inside_the_loop, "return dentro del bucle"),
    ("1.1", _without_the_minus_sign, "frecuencias al revés"),
    ("1.1", lambda n, d: _waves(torch.arange(n)[:, None] * 1e4 ** (torch.arange(0, d, 2) / d)), "frecuencias al revés"),
    (
        "1.1",
        lambda n, d: torch.view_as_real(
            torch.polar(torch.ones(n, d // 2), torch.arange(n)[:, None] / 10000 ** (torch.arange(0, d, 2) / d))
        ).flatten(1),
        "seno y coseno cambiados",
    ),
    ("1.2", lambda ids, table, positions: F.embedding(ids.view(-1), table) + positions, "frase aplanada"),
    ("2.1", lambda q, k: torch.softmax(q @ k.T / q.shape[-1] ** 0.5, -1), ".T"),
    ("2.1", lambda q, k: torch.softmax(q @ k.mT / math.isqrt(q.shape[-1]), -1), "raíz truncada"),
    ("2.1", lambda q, k: F.softmax(q / q.shape[-1] ** 0.5 @ k.mT / q.shape[-1] ** 0.5, -1), "entre d"),
    ("2.3", _zero_times_infinity, "más infinito"),
    ("2.3", _fill_and_forget, "máscara ignorada"),
    ("2.3", lambda q, k, v, mask=None: _attend(q, k, v, mask if mask.any() else None), "sin máscara no funciona"),
    ("2.3", lambda q, k, v, mask=None: _attend(q, k, v, mask if mask == True else None), "if mask"),  # noqa: E712
    ("2.3", lambda q, k, v, mask=None: F.scaled_dot_product_attention(q, k, v, mask), "solo la salida"),
    ("2.4", lambda lengths, n: (torch.arange(n) < lengths.unsqueeze(1))[:, None, None], "no admite listas"),
    ("2.4", lambda lengths, n: torch.tensor([[j < x for j in range(n)] for x in lengths]), "forma (lote, n)"),
    (
        "2.5",
        lambda xd, xe, wq, wk, wv: torch.softmax(xd @ wq @ (xe @ wk).T / wq.shape[1] ** 0.5, -1) @ (xe @ wv),
        ".T",
    ),
    ("3.1", lambda v, a, b: torch.stack((a @ v, b @ v)).reshape(len(v), -1), "reshape que mezcla tokens"),
    ("3.1", lambda v, a, b: torch.cat([a, b]) @ v, "una debajo de otra"),
    ("3.1", lambda v, a, b: torch.cat([(v.mT @ a).mT, (v.mT @ b).mT], -1), "pesos traspuestos"),
    ("3.1", lambda v, a, b: [a @ v, b @ v], "dos resultados"),
    ("3.2", lambda a, b: torch.softmax((a.log() + b.log()) / 2, -1), "media geométrica normalizada"),
    ("3.2", lambda a, b: torch.where(a > b, a, b), "máximo"),
    ("3.2", lambda a, b: F.normalize(a + b, dim=-1), "filas que no suman 1"),
    ("3.2", lambda a, b: a @ b.mT / 3, "filas que no suman 1"),
    ("3.3", ((1, 3), (2, 2)), "números"),
    ("3.3", ((torch.tensor(1.0), torch.tensor(3.0)), (torch.tensor(2.0), torch.tensor(2.0))), "números"),
    ("3.3", torch.ones(2, 2), "una sola pareja"),
    ("3.3", torch.ones(2, 2, 3), "la misma pareja"),
    ("3.3", ((_t(1, 2), _t(3, 4)), (_t(1, 2) + 1e-6, _t(3, 4))), "la misma pareja"),
    ("3.3", ((_t(1, 2), _t(3, 4)), (_t(1, 2) + 1e-6, _t(3, 4) - 1e-6)), "la misma pareja"),
    ("3.3", ((_t(1, 2), _t(3, 4)), (_t(1, 2) + 2e-4, _t(3, 4))), "medias distintas"),
    ("3.3", ((_t(1, 2), _t(3, 4)), (_t(1, 2, 3), _t(3, 4))), "longitudes distintas"),
    ("3.3", ((_t(1, 2), _t(3, 4)), (_t(1, math.nan), _t(3, 4))), "no finitos"),
    ("3.3", ((_t(1, 2)[None], _t(3, 4)), (_t(3, 4), _t(1, 2)[None])), "más de una dimensión"),
    ("3.3", swapped_pairs()[:1], "otra estructura"),
    ("3.3", {"a": 1}, "otra estructura"),
    ("3.3", tuple, "otra estructura"),
    ("4.1", torch.tensor([128, 64]), "orden cambiado"),
    ("4.1", lambda: 1024 / 16 and 1024 / 8, "un solo número"),
    ("4.1", "64, 128", "textos"),
    ("4.1", {64, 128}, "un diccionario"),
    ("4.1", (64, 128, 256), "otra cantidad"),
    ("4.1", np.array([64, 127]), "el segundo mal"),
    ("4.1", (1024 // 12, 128), "el primero mal"),
    ("4.2", lambda x, h: torch.stack(x.chunk(h, -1), -3), "sin comprobar"),
    ("4.2", lambda x, h: x.view(*x.shape[:-2], h, x.shape[-2], x.shape[-1] // h), "view sin trasponer"),
    ("4.2", lambda x, h: torch.stack([x[..., i::h] for i in range(h)], -3), "columnas salteadas"),
    ("4.3", lambda x: torch.cat(x.unbind(-3), -2), "una fila por cabeza y token"),
    ("4.3", lambda x: x.view(*x.shape[:-3], x.shape[-2], -1), "reshape directo"),
    ("4.3", lambda x: torch.stack(x.unbind(-3), -1).flatten(-2), "columnas salteadas"),
    ("4.4", _module_with_mask_as_it_comes, "polaridad al revés"),
    ("4.4", lambda x, *w, mask=None: layer_with_module(x, *w), "máscara ignorada"),
    ("4.4", lambda x, q, k, v, o, h, mask=None: layer_fused(x, q.T, k.T, v.T, o.T, h, mask), "matrices traspuestas"),
    ("4.4", _scaled_twice, "entre d_k"),
    ("4.4", _undivided, "una sola cabeza"),
    ("4.4", _fused_before_transposing, "cabezas entre sí"),
    ("4.4", _two_views, "view sin trasponer al dividir"),
    (
        "4.4",
        lambda x, q, k, v, o, h, mask=None: torch.stack([*_heads_of(x, q, k, v, h, mask).unbind(1)], -1).flatten(2) @ o,
        "cabezas entrelazadas al juntar",
    ),
    (
        "4.4",
        lambda x, q, k, v, o, h, mask=None: torch.cat(_heads_of(x, q, k, v, h, mask).unbind(1), 1) @ o,
        "w_o antes de juntar",
    ),
    (
        "4.5",
        lambda d, h, n: {**cost_by_formula(d, h, n), "params": 12 * h * d * d // 3},
        "parámetros por cabeza entera",
    ),
    (
        "4.5",
        lambda d, h, n: {**cost_by_formula(d, 1, n), "flops": 4 * n * d * d + 2 * n * n * d},
        "FLOPs: multiplicaciones",
    ),
    ("4.7", lambda heads, w_o: heads.transpose(1, 2).flatten(2) @ w_o, "ya sumadas"),
    ("4.7", lambda heads, w_o: torch.stack(contributions_by_slices(heads, w_o).unbind(1)), "cabezas delante del lote"),
    ("5.1", lambda w, o: (w.argmax(-1) - torch.arange(w.shape[-1]) == o).float().mean(-1), "entre todas las consultas"),
    ("5.1", lambda w, o: positional_by_loops(w.mT, o), "argmax sobre las consultas"),
    ("5.1", lambda w, o: positional_by_diagonals(w, -o), "signo al revés"),
    ("5.1", lambda w, o: torch.stack([m.diagonal(o).mean() for m in w]), "peso medio"),
    (
        "5.1",
        lambda w, o: torch.stack([(m.argmax() == torch.arange(len(m)) + o).sum() / (len(m) - abs(o)) for m in w]),
        "argmax de todo el mapa",
    ),
    ("5.1", lambda w, o: (w.argmax(-1) == torch.arange(w.shape[-1]).roll(-o)).float().mean(-1), "da la vuelta"),
    ("5.1", lambda w, o: positional_by_loops(w, o) > 0.9, "¿pasa del umbral?"),
    (
        "5.1",
        lambda w, o: (w.mT.argmax(-1) == torch.arange(w.shape[-1]) + o).float().mean(-1),  # y entre todas
        "entre todas las consultas",
    ),
    ("5.2", lambda w: -(w * torch.log(w)).sum(-1).mean(-1), "ceros que dan NaN"),
    ("5.2", lambda w: -(w * (w + 1e-12).log2()).sum(-1).mean(-1), "en bits"),
    ("5.2", lambda w: torch.special.entr(w).sum((-1, -2)), "suma de las consultas"),
    ("5.2", lambda w: torch.special.entr(w.mT).sum(-1).mean(-1), "sobre las consultas"),
    ("5.2", lambda w: torch.special.entr(w).mean((-1, -2)), "media también de las claves"),
    ("5.2", lambda w: torch.special.entr(w).sum() / w.shape[:-1].numel(), "también sobre las cabezas"),
    ("5.2", lambda w: torch.special.xlogy(w, w).sum((-1, -2)), "sin el signo"),
    ("5.3", lambda w, pairs: accuracy_by_loops(w, [(g, d) for d, g in pairs]), "orden de la pareja cambiado"),
    ("5.3", lambda w, pairs: sum(w[:, d, g] for d, g in pairs) / len(pairs), "peso en vez de argmax"),
    ("5.3", lambda w, pairs: accuracy_by_loops(w.mT, pairs), "argmax sobre las consultas, en el dependiente"),
    ("5.3", lambda w, pairs: accuracy_by_loops(w, [tuple(sorted(p)) for p in pairs]), "núcleo siempre a la derecha"),
    ("5.3", lambda w, pairs: sum((w.argmax(-1)[:, d] == g).float() for d, g in pairs), "aciertos sin dividir"),
    ("5.3", lambda w, pairs: accuracy_by_loops(w, [(d - 1, g - 1) for d, g in pairs]), "posiciones desde 1"),
    ("6.1", lambda t: next((b for a, b in itertools.pairwise(t) if a == t[-1]), None), "primera aparición"),
    ("6.1", lambda t: t[-1] if t[-1] in t[:-1] else None, "el propio token"),
    ("6.1", lambda t: t[len(t) - 1 - t[::-1].index(t[-1]) + 1], "se encuentra a sí mismo"),
    ("6.1", lambda t: dict(itertools.pairwise(t)).get(t[-1], -1), "menos uno si no hay"),
    ("6.1", lambda t: dict(itertools.pairwise(t)).get(t[-1]) or None, "cero es nada"),
    ("6.1", lambda t: dict(itertools.pairwise(t))[t[-1]] if t[-1] in t[:-1] else t[-1], "último si no hay"),
    ("6.1", lambda t: next((t[i + 1] for i in range(len(t)) if t[i] == t[-1]), None), "index"),
    ("6.2", lambda w, p: w.diagonal(-p, -2, -1).mean(-1), "token duplicado"),
    ("6.2", lambda w, p: w.diagonal(-p - 1, -2, -1).mean(-1), "uno de menos"),
    ("6.2", lambda w, p: sum(w[:, i, i - p - 1] for i in range(p, w.shape[-1])) / (w.shape[-1] - p), "uno de menos"),
    ("6.2", lambda w, p: w.diagonal(1 - p, -2, -1).mean(-1), "diagonal entera"),
    ("6.2", lambda w, p: index_by_mask(w, p).mean(), "media de las cabezas"),
    ("6.2", lambda w, p: w[:, p:].diagonal(1, -2, -1), "sin promediar"),
    ("6.2", lambda w, p: w.diagonal(1 - p, -2, -1)[:, 1:].sum(-1), "sin dividir"),
    ("6.3", lambda x, heads, d: x * torch.ones(x.shape[-1]), "sin apagar nada"),
    ("6.3", lambda x, heads, d: x - ablate_by_split(x, heads, d), "las demás"),
    ("6.3", lambda x, heads, d: torch.cat([p for i, p in enumerate(x.split(d, -1)) if i not in heads], -1), "quitadas"),
    (
        "6.3",
        lambda x, heads, d: ablate_by_split(x, [h - 1 for h in heads], d),
        "desde uno",
    ),
    ("6.4", lambda s, k, c: sum(p in k and t == c[p] for p, t in s) / len(k), "pasos en vez de posiciones"),
    ("6.4", lambda s, k, c: len({p for p, _ in s} & set(k)) / len(k), "sin mirar el token"),
    ("6.4", lambda s, k, c: len({p for p, t in s if p in k and t == c[p]}) / len(s), "entre los pasos"),
    ("6.5", lambda p: (p[1:].T @ p[:-1], torch.eye(p.shape[1])), "sin factor"),
    ("6.5", lambda p: previous_head_in_the_keys(p)[::-1], "la siguiente"),
    ("6.5", lambda p: (1000 * torch.eye(p.shape[1]), torch.eye(p.shape[1])), "a sí misma"),
    ("6.5", lambda p: (p.roll(1, 0) * 1000, p), "proyectadas"),
    ("6.5", lambda p: torch.ones(2, p.shape[1], p.shape[1]).mul(0).unbind(0), "reparto igual"),
    ("6.5", lambda p: (p[1:].T @ p[:-1] * 1e400, torch.eye(p.shape[1])), "desbordado"),
    ("7.1", lambda o, g: torch.einsum("bhnd,bhnd->h", o, g).abs() / len(o), "valor absoluto después de la media"),
    ("7.1", lambda o, g: torch.einsum("bhnd,bhnd->h", o, g).abs(), "valor absoluto de todo el lote"),
    ("7.1", lambda o, g: (o.abs() * g.abs()).sum((2, 3)).mean(0), "valor absoluto de cada número"),
    ("7.1", lambda o, g: (o @ g.mT).diagonal(dim1=2, dim2=3).abs().sum(2).mean(0), "valor absoluto por posición"),
    ("7.1", lambda o, g: importance_by_loops(o, g) * len(o), "suma del lote"),
    ("7.1", lambda o, g: F.normalize(importance_by_loops(o, g), dim=0), "normalizada con la norma ℓ2"),
    ("7.1", lambda o, g: torch.einsum("bhnd,bhmd->bh", o, g).abs().mean(0), "todas las parejas de tokens"),
    ("7.1", lambda o, g: torch.einsum("bnhd,bnhd->bh", o, g).abs().mean(0), "un número por posición"),
    ("7.1", lambda o, g: (o * g).mean((0, 2, 3)).abs(), "valor absoluto después de la media"),  # y más medias
    ("7.1", lambda o, g: (o * g).mean((2, 3)).abs().sum(0), "suma del lote"),  # y la media de lo demás
    ("7.2", lambda a, u, beta=2 / 3, gamma=-0.1, zeta=1.1: torch.sigmoid((u.logit() + a) / beta), "sin estirar"),
    (
        "7.2",
        lambda a, u, beta=2 / 3, gamma=-0.1, zeta=1.1: (
            ((u.logit() + a) / beta).sigmoid().clamp(0, 1) * (zeta - gamma) + gamma
        ),
        "sin recortar",
    ),
    (
        "7.2",
        lambda a, u, beta=2 / 3, gamma=-0.1, zeta=1.1: gate_by_tanh(a, 1 - u, beta, gamma, zeta),
        "u al revés",
    ),
    ("7.2", lambda a, u, beta=2 / 3, gamma=-0.1, zeta=1.1: gate_by_tanh(-a, u, beta, gamma, zeta), "signo de log α"),
    ("7.2", lambda a, u, beta=2 / 3, gamma=-0.1, zeta=1.1: gate_by_tanh(a, u, 1 / beta, gamma, zeta), "β multiplica"),
    (
        "7.2",
        lambda a, u, beta=2 / 3, gamma=-0.1, zeta=1.1: gate_by_tanh(a, u, beta, zeta, gamma),
        "extremos cambiados",
    ),
    ("7.2", lambda a, u, beta=2 / 3, gamma=-0.1, zeta=1.1: gate_by_tanh(a, u), "β, γ y ζ fijas"),
    (
        "7.2",
        lambda a, u, beta=2 / 3, gamma=-0.1, zeta=1.1: torch.minimum(torch.maximum(a, 0), 1),
        "min y max de Python",
    ),
    (
        "7.3",
        lambda a, beta=2 / 3, gamma=-0.1, zeta=1.1: 1 - open_by_loops(a, beta, gamma, zeta),
        "probabilidad de cerrada",
    ),
    ("7.3", lambda a, beta=2 / 3, gamma=-0.1, zeta=1.1: open_by_loops(a, beta, -zeta, -gamma), "signo del logaritmo"),
    (
        "7.3",
        lambda a, beta=2 / 3, gamma=-0.1, zeta=1.1: open_by_loops(a, beta, gamma - 1, zeta - 1),
        "probabilidad de uno",
    ),
    (
        "7.3",
        lambda a, beta=2 / 3, gamma=-0.1, zeta=1.1: torch.sigmoid(a - beta * math.log(gamma / zeta)),
        "logaritmo de un negativo",
    ),
    (
        "7.3",
        lambda a, beta=2 / 3, gamma=-0.1, zeta=1.1: torch.sigmoid(a - beta * torch.log(torch.tensor(gamma / zeta))),
        "NaN",
    ),
    ("7.3", lambda a, beta=2 / 3, gamma=-0.1, zeta=1.1: open_by_loops(a), "β, γ y ζ fijas"),
    (
        "7.3",
        lambda a, beta=2 / 3, gamma=-0.1, zeta=1.1: (
            (gate_by_tanh(a, torch.rand(4000, *a.shape).clamp(1e-6, 1 - 1e-6), beta, gamma, zeta) > 0).float().mean(0)
        ),
        "un sorteo",
    ),
    ("7.4", lambda q, k, v, o, heads, d: (q, k, v, o), "sin quitar nada"),
    ("7.4", lambda q, k, v, o, heads, d: [w.T for w in prune_by_mask(q, k, v, o, heads, d)], "traspuestas"),
    (
        "7.4",
        lambda q, k, v, o, heads, d: prune_by_mask(q, k, v, o, [i for i in range(len(o) // d) if i not in heads], d),
        "se quedan las de la lista",
    ),
    ("7.4", lambda q, k, v, o, heads, d: (*prune_by_mask(q, k, v, o, heads, d)[:3], o), "w_o entera"),
    (
        "7.4",
        lambda q, k, v, o, heads, d: (
            *prune_by_mask(q, k, v, o, heads, d)[:3],
            o[:, [c for c in range(len(o)) if c // d not in heads]],  # a veces se sale
        ),
        "columnas de w_o",
    ),
    (
        "7.4",
        lambda q, k, v, o, heads, d: prune_by_mask(q.T, k.T, v.T, o, heads, d),
        "la máscara en la otra dimensión",
    ),
    (
        "7.4",
        lambda q, k, v, o, heads, d: [w.T for w in prune_by_tiles(q.T, k.T, v.T, o.T, heads, d)],
        "columnas y filas cambiadas",
    ),
    ("7.5", lambda gamma=-0.1, zeta=1.1: -closing_by_bisection(gamma, zeta), "signo"),
    ("7.5", lambda gamma=-0.1, zeta=1.1: torch.tensor(gamma / zeta).log(), "NaN"),
    ("7.5", lambda gamma=-0.1, zeta=1.1: torch.logit(torch.tensor(gamma / (zeta - gamma))), "NaN"),
    ("7.5", lambda gamma=-0.1, zeta=1.1: round(closing_by_bisection(gamma, zeta), 1) + 0.01, "una búsqueda gruesa"),
    (
        "7.5",
        lambda gamma=-0.1, zeta=1.1: torch.sigmoid(torch.tensor(closing_by_bisection(gamma, zeta))),
        "valor de la sigmoide",
    ),
    ("7.5", lambda gamma=-0.1, zeta=1.1: math.exp(closing_by_bisection(gamma, zeta)), "α en vez de log α"),
    ("7.5", lambda gamma=-0.1, zeta=1.1: -2.3979, "γ y ζ fijas"),
    *answers_08_09.VARIANTS,
]

# Se parecen a un error conocido en alguna entrada, o fallan con un error de la misma clase, y son otra cosa: pista
# general, con estas palabras.
LOOKALIKES = [
    ("1.2", lambda ids, table, positions: [table[t] + p for t, p in zip(ids, positions, strict=False)], "lista de"),
    ("1.2", lambda ids, table, positions: table[ids.unique()] + positions, "formas que no encajan"),
    ("2.1", lambda q, k: q.softmax(-1) @ k.softmax(-1).mT, "no suman 1"),
    ("2.1", lambda q, k: torch.softmax(q @ k.mT / torch.sqrt(q.shape[-1]), -1), "esperan un tensor"),
    ("2.1", lambda q, k: math.exp(q @ k.mT), "un solo número"),
    ("2.3", lambda q, k, v, mask=None: _attend(q, k, v, mask if mask is None else mask.mT), "no encajan"),
    ("2.3", lambda q, k, v, mask=None: _attend(q, k.T, v), "no encajan"),
    ("2.3", lambda q, k, v, mask=None: _attend(q, k, v, mask if mask is None else -mask), "se niega con «~»"),
    ("2.3", _weak_fill, "no los valores"),
    (
        "2.3",
        lambda q, k, v, mask=None: (F.scaled_dot_product_attention(q, k, v, mask), None),
        "El segundo resultado es None",
    ),
    ("2.3", lambda q, k, v, mask=None: (lambda b, n, d: v)(*q.shape), "Llámala tú"),
    ("2.4", lambda lengths, n: 1 - UNUSUAL["2.4"][0](lengths, n), "se niega con «~»"),
    ("3.1", lambda v, a, b: torch.cat([a @ v, b @ v], -1).relu(), "no los valores"),
    ("3.1", lambda v, a, b: torch.cat([a @ v, b @ v], -1)[None], "tiene la forma"),
    ("3.1", lambda v, a, b: torch.cat([a @ v, (a + b) / 2 @ v], -1), "no los valores"),
    ("3.2", lambda a, b: 0.6 * a + 0.4 * b, "no los valores"),
    ("3.2", lambda a, b: ((a + b) / 2).tolist(), "lista de Python"),
    ("4.1", (True, False), "un booleano"),
    ("4.1", lambda: (64, math.nan), "es nan"),
    ("4.1", lambda: [1024 // h for h in 16], "not iterable"),
    ("4.2", lambda x, h: x.unflatten(-1, (h, -1)).transpose(-3, -2).roll(1, -1), "no los valores"),
    ("4.2", lambda x, h: "no" if x.shape[-1] % h else split_by_chunks(x, h), "devuelve un resultado"),
    ("4.2", lambda x, h: x.reshape(*x.shape[:-1], h, x.shape[-1] / h).transpose(-3, -2), "la entera es «//»"),
    ("4.2", lambda x, h: (lambda a, b, c, d, e: x)(*x.shape), "Llámala tú"),
    ("4.3", lambda x: merge_by_slices(x).roll(1, -1), "no los valores"),
    ("4.3", lambda x: x.flatten(-3), "tiene la forma"),
    ("4.4", lambda x, *w, mask=None: layer_fused(x.relu(), *w, mask), "no los valores"),
    ("4.4", lambda x, *w, mask=None: (layer_fused(x, *w, mask), x), "devuelve 2 cosas"),
    ("4.4", lambda x, *w, mask=None: w[3] @ layer_fused(x, *w, mask), "formas que no encajan"),
    ("4.4", lambda x, q, k, v, o, h, mask=None: (x @ q).unflatten(-1, (8, -1)), "formas que no encajan"),
    ("4.5", lambda d, h, n: tuple(cost_by_formula(d, h, n).values()), "es una tupla y se esperaba un diccionario"),
    ("4.5", lambda d, h, n: {"params": 4 * d * d, "flops": 0}, "se piden params, flops, score_elements"),
    ("4.5", lambda d, h, n: {**cost_by_formula(d, h, n), "d_k": d // h}, "tiene las claves"),
    ("4.5", lambda d, h, n: {**cost_by_formula(d, h, n), "flops": True}, "«flops» es un booleano"),
    ("4.5", lambda d, h, n: {**cost_by_formula(d, h, n), "params": "4d²"}, "«params» es un texto"),
    ("4.5", lambda d, h, n: {**cost_by_formula(d, h, n), "flops": n**3}, "«flops» no es el número"),
    ("4.7", lambda heads, w_o: contributions_by_slices(heads, w_o).softmax(1), "no los valores"),
    ("4.7", lambda heads, w_o: list(contributions_by_slices(heads, w_o).unbind(1)), "lista de Python"),
    ("4.7", lambda heads, w_o: heads @ w_o.T.view(heads.shape[1], heads.shape[3], -1), "`reshape`"),
    ("5.1", lambda w, o: positional_by_loops(w, o).tolist(), "lista de Python"),
    ("5.1", lambda w, o: positional_by_loops(w, o).sqrt(), "no los valores"),
    ("5.1", lambda w, o: positional_by_loops(w, o)[:, None], "tiene la forma"),
    ("5.1", lambda w, o: (w.argmax(-1) == torch.arange(w.shape[0]) + o).float().mean(-1), "formas que no encajan"),
    ("5.1", lambda w, o: w.argmax(-1).diagonal(o).mean(), "dtype"),
    ("5.2", lambda w: entropy_by_loops(w)[None], "tiene la forma"),
    ("5.2", lambda w: entropy_by_loops(w) * 0.9, "no los valores"),
    ("5.2", lambda w: -w @ w.log(), "formas que no encajan"),
    ("5.2", lambda w: math.log(w), "un solo número"),
    ("5.3", lambda w, pairs: w[:, pairs[:, 0]], "es una lista de Python"),
    ("5.3", lambda w, pairs: accuracy_by_loops(w, pairs).square(), "no los valores"),
    ("5.3", lambda w, pairs: [(head.argmax(-1)[0] == pairs[0][1]).item() for head in w], "lista de Python"),
    ("6.1", lambda tokens: type(tokens[0])(77), "no es"),
    ("6.2", lambda w, p: index_by_mask(w, p).tolist(), "lista de Python"),
    ("6.2", lambda w, p: index_by_mask(w, p).sqrt(), "no los valores"),
    ("6.2", lambda w, p: index_by_mask(w, p)[:, None], "tiene la forma"),
    ("6.3", lambda x, heads, d: ablate_by_split(x, heads, d).relu() * 2, "no los valores"),
    ("6.3", lambda x, heads, d: ablate_by_split(x, heads, d)[None], "tiene la forma"),
    ("6.4", lambda s, k, c: 0.123, "no es el número"),
    ("6.4", lambda s, k, c: "0,6", "texto"),
    ("6.5", lambda p: (torch.randn(p.shape[1], p.shape[1]), torch.eye(p.shape[1])), "no los valores"),
    ("6.5", lambda p: (1000 * p[1:].T @ p[:-1])[None].expand(3, -1, -1), "2"),
    ("7.1", lambda o, g: (o * g).sum((2, 3)).abs().mean(0).sqrt(), "no los valores"),
    ("7.1", lambda o, g: (o * g).sum((2, 3)).abs().mean(0, keepdim=True), "tiene la forma"),
    ("7.1", lambda o, g: importance_by_loops(o, g).tolist(), "lista de Python"),
    ("7.1", lambda o, g: (o @ g).sum((2, 3)).abs().mean(0), "formas que no encajan"),
    ("7.1", lambda o, g: importance_by_loops(o, g) > 3, "booleanos"),
    ("7.1", lambda o, g: (o * g).backward(), "Llámala tú"),
    (
        "7.2",
        lambda a, u, beta=2 / 3, gamma=-0.1, zeta=1.1: gate_by_tanh(a, u, beta, gamma, zeta) ** 2,
        "no los valores",
    ),
    ("7.2", lambda a, u, beta=2 / 3, gamma=-0.1, zeta=1.1: gate_by_tanh(a, torch.rand(u.shape)), "no los valores"),
    ("7.2", lambda a, u, beta=2 / 3, gamma=-0.1, zeta=1.1: gate_by_tanh(a, u).flatten()[1:], "tiene la forma"),
    ("7.2", lambda a, u, beta=2 / 3, gamma=-0.1, zeta=1.1: gate_by_tanh(a, u) > 0, "booleanos"),
    ("7.2", lambda a, u, beta=2 / 3, gamma=-0.1, zeta=1.1: math.log(u), "un solo número"),
    ("7.3", lambda a, beta=2 / 3, gamma=-0.1, zeta=1.1: a.clamp(0, 1) * 0.9, "no los valores"),
    ("7.3", lambda a, beta=2 / 3, gamma=-0.1, zeta=1.1: math.exp(a), "un solo número"),
    ("7.3", lambda a, beta=2 / 3, gamma=-0.1, zeta=1.1: a - torch.log(gamma), "esperan un tensor"),
    ("7.3", lambda a, beta=2 / 3, gamma=-0.1, zeta=1.1: open_by_loops(a, beta, gamma, zeta)[None], "tiene la forma"),
    ("7.4", lambda q, k, v, o, heads, d: torch.cat([q, k, v], 1), "Se piden 4 resultados"),
    ("7.4", lambda q, k, v, o, heads, d: dict(zip("qkvo", (q, k, v, o), strict=True)), "Se piden 4 resultados"),
    ("7.4", lambda q, k, v, o, heads, d: None, "llegó None"),
    ("7.4", lambda q, k, v, o, heads, d: (*prune_by_mask(q, k, v, o, heads, d)[:3], None), "El cuarto resultado"),
    (
        "7.4",
        lambda q, k, v, o, heads, d: (prune_by_mask(q, k, v, o, heads, d)[1], *prune_by_mask(q, k, v, o, heads, d)[1:]),
        "no los valores",
    ),
    ("7.5", lambda gamma=-0.1, zeta=1.1: 0.123, "no es el número"),
    ("7.5", lambda gamma=-0.1, zeta=1.1: "−2,4", "texto"),
    ("7.5", lambda gamma=-0.1, zeta=1.1: (-2.398, 0.5), "una tupla"),
    ("7.5", lambda gamma=-0.1, zeta=1.1: -math.inf, "es -inf"),
    ("7.5", lambda gamma=-0.1, zeta=1.1: None, "None"),
    *answers_08_09.LOOKALIKES,
]

# --- Impostoras ---------------------------------------------------------------------------------------------------


def right_answer(id):
    """Una función correcta del ejercicio `id`, para construir impostoras que solo lo son a medias."""
    return UNUSUAL[id][0]


def same_shape(id, fill):
    """Un resultado de la forma y del tipo debidos, con otro contenido."""

    def answer(*args, **kwargs):
        result = right_answer(id)(*args, **kwargs)
        if isinstance(result, dict):
            return {key: fill(torch.tensor(float(item))) for key, item in result.items()}
        return tuple(fill(r) for r in result) if isinstance(result, tuple) else fill(result)

    return answer


def pasted(id, *args):
    """El resultado de una sola entrada, copiado en el cuaderno."""
    table = right_answer(id)(*args)
    return lambda *anything, **more: table


def remember_by_shape(id):
    """Guarda lo que calculó la primera vez con cada forma."""
    seen = {}

    def answer(*args, **kwargs):
        key = tuple(getattr(a, "shape", repr(a)) for a in [*args, *kwargs.values()])
        if key not in seen:
            seen[key] = right_answer(id)(*args, **kwargs)
        return seen[key]

    return answer


def remember_by_sizes(id):
    """Lo mismo, cuando hay listas: de ellas solo recuerda cuántas cosas llevan."""
    seen = {}

    def answer(*args):
        key = tuple(tuple(a.shape) if isinstance(a, torch.Tensor) else len(a) for a in args)
        if key not in seen:
            seen[key] = right_answer(id)(*args)
        return seen[key]

    return answer


def look_up_the_stack(*args, **kwargs):
    """Busca una referencia en las variables de quien la llama, y de los demás hilos."""
    for frame in [*sys._current_frames().values(), *(step.frame for step in inspect.stack())]:
        while frame is not None:
            for value in frame.f_locals.values():
                for name in ("reference", "expected"):
                    if hasattr(value, name) and callable(getattr(value, name)):
                        return getattr(value, name)(*args, **kwargs)
                if isinstance(value, list) and value and isinstance(value[0], torch.Tensor):
                    return value[0]
            frame = frame.f_back
    return None


def look_in_memory(*args, **kwargs):
    """Busca la tabla de la corrección entre los objetos vivos."""
    for thing in gc.get_objects():
        if type(thing).__name__ == "Check":
            return thing.reference(*args, **kwargs)
    return None


class EqualToEverything:
    """Dice que sí a cualquier comparación."""

    shape, dtype = torch.Size([]), torch.float32

    def __eq__(self, other):
        return True

    __hash__ = None


class Liar(torch.Tensor):
    """Un tensor que responde a toda operación de torch con un sí."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return torch.tensor(True)


def patch_the_comparison(id):
    """Devuelve ceros y cambia las funciones con las que se compara."""

    def answer(*args, **kwargs):
        torch.allclose = torch.equal = lambda *a, **k: True
        torch.Tensor.softmax = torch.Tensor.sin = torch.Tensor.masked_fill = lambda self, *a, **k: self * 0
        return same_shape(id, torch.zeros_like)(*args, **kwargs)

    return answer


def generic_impostors(id):
    """Las que se prueban con todos los ejercicios."""
    return {
        "la primera entrada": lambda first, *rest, **more: first,
        "la última entrada": lambda *args, **more: args[-1],
        "ceros": same_shape(id, torch.zeros_like),
        "unos": same_shape(id, torch.ones_like),
        "NaN": same_shape(id, lambda r: torch.full(r.shape, torch.nan)),
        "una constante que se difunde": lambda *args, **more: torch.ones(1),
        "True": lambda *args, **more: True,
        "nada": lambda *args, **more: None,
        "igual a todo": lambda *args, **more: EqualToEverything(),
        "un tensor que miente": lambda *args, **more: torch.zeros(2, 3).as_subclass(Liar),
        "mira la pila": look_up_the_stack,
        "mira la memoria": look_in_memory,
        "cambia la comparación": patch_the_comparison(id),
    }


def by_memory(id):
    return {"recuerda por formas": remember_by_shape(id)}


def on_alternate_calls(first, second):
    """Una función que no devuelve siempre lo mismo."""
    turns = itertools.cycle([first, second])
    return lambda: next(turns)()


IMPOSTORS = {
    "1.1": {
        "tabla copiada, corta": pasted("1.1", 5, 14),
        "tabla copiada, larga": pasted("1.1", 600, 8),
        "al azar": lambda n, d_model: torch.rand(n, d_model) * 2 - 1,
    },
    "1.2": {**by_memory("1.2"), "la tabla entera": lambda ids, table, positions: table},
    "2.1": {
        **by_memory("2.1"),
        "uniforme": lambda query, key: torch.full((*query.shape[:-1], key.shape[-2]), 1 / key.shape[-2]),
        "otros pesos": lambda query, key: torch.randn(*query.shape[:-1], key.shape[-2]).softmax(-1),
        "solo el mayor": lambda query, key: (query @ key.mT == (query @ key.mT).amax(-1, keepdim=True)).float(),
    },
    "2.2": {
        "máscara copiada, corta": pasted("2.2", 7),
        "máscara copiada, larga": pasted("2.2", 40),
        "máscara del cuaderno": pasted("2.2", 3),
    },
    "2.3": {
        **by_memory("2.3"),
        "media de los valores": lambda query, key, value, mask=None: (
            value.mean(-2, keepdim=True).expand(*query.shape[:-1], -1),
            torch.full((*query.shape[:-1], key.shape[-2]), 1 / key.shape[-2]),
        ),
    },
    "2.4": {"todo de verdad": lambda lengths, n: torch.ones(len(lengths), 1, 1, n, dtype=torch.bool)},
    "2.5": {
        **by_memory("2.5"),
        "media del origen": lambda x_decoder, x_encoder, w_q, w_k, w_v: (
            (x_encoder @ w_v).mean(-2, keepdim=True).expand(*x_decoder.shape[:-1], -1)
        ),
    },
    "3.1": {
        **by_memory("3.1"),
        "los valores, dos veces": lambda value, weights_1, weights_2: value.repeat(1, 2),
        "media de los valores": lambda value, weights_1, weights_2: value.mean(0).repeat(len(value), 2),
    },
    "3.2": {
        **by_memory("3.2"),
        "uniforme": lambda weights_1, weights_2: torch.full_like(weights_1, 1 / len(weights_1)),
        "identidad": lambda weights_1, weights_2: torch.eye(len(weights_1)),
    },
    "3.3": {
        "unas veces sí y otras no": on_alternate_calls(swapped_pairs, lambda: (swapped_pairs()[0],) * 2),
        "listas que lo parecen": lambda: [[[1.0], [2.0]], [[2.0], [1.0]]],
        "infinitos iguales": lambda: ((_t(math.inf), _t(0)), (_t(0), _t(math.inf))),
    },
    "4.1": {
        "números sueltos": lambda: 64,
        "iguala a todo": lambda: (EqualToEverything(), EqualToEverything()),
        "tensor que miente": lambda: torch.tensor([1, 2]).as_subclass(Liar),
    },
    "4.2": {
        **by_memory("4.2"),
        "siempre ValueError": lambda x, num_heads: [].index(x),
    },
    "4.3": {**by_memory("4.3"), "media repetida": lambda x: x.mean(-3).repeat(*[1] * (x.dim() - 2), x.shape[-3])},
    "4.4": {
        **by_memory("4.4"),
        "x por w_o": lambda x, w_q, w_k, w_v, w_o, num_heads, mask=None: x @ w_o,
        "pesos uniformes": lambda x, w_q, w_k, w_v, w_o, num_heads, mask=None: (
            (x @ w_v @ w_o).mean(1, keepdim=True).expand_as(x)
        ),
        "al azar": lambda x, w_q, w_k, w_v, w_o, num_heads, mask=None: torch.randn(x.shape),
    },
    "4.5": {
        "cuenta copiada, corta": pasted("4.5", 320, 5, 50),
        "cuenta copiada, larga": pasted("4.5", 176, 8, 400),
        "ceros con sus claves": lambda d_model, num_heads, n: dict.fromkeys(cost_by_formula(1, 1, 1), 0),
        "iguala a todo, con sus claves": lambda d_model, num_heads, n: dict.fromkeys(
            cost_by_formula(1, 1, 1), EqualToEverything()
        ),
    },
    "4.6": {**by_memory("4.6"), "x por w_v y w_o": lambda x, w_q, w_k, w_v, w_o, num_heads, mask=None: x @ w_v @ w_o},
    "4.7": {
        **by_memory("4.7"),
        "solo la forma": lambda heads, w_o: torch.randn(*heads.shape[:3], w_o.shape[1]),
    },
    "5.1": {
        **by_memory("5.1"),
        "la mitad": lambda weights, offset: torch.full(weights.shape[:1], 0.5),
        "al azar": lambda weights, offset: torch.rand(len(weights)),
    },
    "5.2": {
        **by_memory("5.2"),
        "la de un reparto uniforme": lambda weights: torch.full(weights.shape[:-2], math.log(weights.shape[-1])),
    },
    "5.3": {
        "recuerda por formas": remember_by_sizes("5.3"),
        "siempre acierta": lambda weights, pairs: torch.ones(len(weights)),
        "al azar": lambda weights, pairs: torch.rand(len(weights)),
    },
    "6.1": {
        "siempre el primero": lambda tokens: tokens[0],
        "siempre el penúltimo": lambda tokens: tokens[-2],
        "recuerda por formas": remember_by_sizes("6.1"),
    },
    "6.2": {**by_memory("6.2"), "al azar": lambda weights, period: torch.rand(len(weights))},
    "6.3": {**by_memory("6.3"), "ruido": lambda concat, heads, head_dim: torch.rand(concat.shape)},
    "6.4": {
        "siempre todo": lambda steps, needle, context: 1.0,
        "siempre la mitad": lambda steps, needle, context: 0.5,
    },
    "6.5": {
        "matrices al azar": lambda positions: torch.randn(2, *[positions.shape[1]] * 2).unbind(0),
        "recuerda por formas": remember_by_shape("6.5"),
    },
    "7.1": {**by_memory("7.1"), "al azar": lambda head_output, gradient: torch.rand(head_output.shape[1])},
    "7.2": {
        **by_memory("7.2"),
        "siempre la mitad": lambda log_alpha, u, beta=2 / 3, gamma=-0.1, zeta=1.1: torch.full_like(u, 0.5),
        "la propia u": lambda log_alpha, u, beta=2 / 3, gamma=-0.1, zeta=1.1: u,
    },
    "7.3": {
        **by_memory("7.3"),
        "siempre abiertas": lambda log_alpha, beta=2 / 3, gamma=-0.1, zeta=1.1: torch.ones_like(log_alpha),
    },
    "7.4": {
        **by_memory("7.4"),
        "las primeras columnas": lambda w_q, w_k, w_v, w_o, heads, head_dim: (
            *(w[:, : -len(heads) * head_dim] for w in (w_q, w_k, w_v)),
            w_o[: -len(heads) * head_dim],
        ),
    },
    "7.5": {
        "número copiado": lambda gamma=-0.1, zeta=1.1: math.log(0.1 / 1.1),
        "igual a todo, con sus nombres": lambda gamma=-0.1, zeta=1.1: EqualToEverything(),
    },
    "8.1": {
        "cuenta copiada, corta": pasted("8.1", 12, 5, 64, 50),
        "cuenta copiada, larga": pasted("8.1", 30, 3, 96, 700, 6, 8),
    },
    "8.2": {**by_memory("8.2"), "al azar": lambda x, n_rep: torch.randn(len(x), x.shape[1] * n_rep, *x.shape[2:])},
    "8.3": {
        **by_memory("8.3"),
        "media de los valores": lambda query, key, value, mask=None: value.mean((1, 2), keepdim=True).expand_as(query),
    },
    "8.4": {
        **by_memory("8.4"),
        "al azar": lambda w, num_heads, num_kv_heads: torch.randn(len(w), w.shape[1] // num_heads * num_kv_heads),
    },
    "8.5": {
        **by_memory("8.5"),
        "el valor y la caché": lambda query, key, value, cache: (value, cache or (key, value)),
    },
    "9.1": {
        "máscara copiada, corta": pasted("9.1", 9, 4),
        "máscara copiada, larga": pasted("9.1", 40, 12),
        "máscara copiada, ancha": pasted("9.1", 6, 10),
    },
    "9.2": {
        "cuenta copiada, corta": pasted("9.2", 50, 3),
        "cuenta copiada, larga": pasted("9.2", 390, 7, 8, 5),
    },
    "9.3": {
        "recuerda por formas": remember_by_sizes("9.3"),
        "reparto igual": lambda chunks: torch.full_like(torch.cat(chunks, -1), 1 / sum(c.shape[-1] for c in chunks)),
    },
    "9.4": {
        "recuerda por formas": remember_by_sizes("9.4"),
        "valores al azar": lambda score_chunks, value_chunks: torch.randn(
            *score_chunks[0].shape[:-1], value_chunks[0].shape[-1]
        ),
    },
}
