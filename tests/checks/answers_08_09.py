"""Respuestas poco corrientes de los capítulos 08 y 09: las que deben pasar, y las que no con la pista que les toca."""

import functools
import itertools
import math
from fractions import Fraction

import numpy as np
import torch
import torch.nn.functional as F

# --- Correctas, escritas de otra manera ---------------------------------------------------------------------------


def cache_by_counting(n_layers, num_kv_heads, head_dim, n_tokens, batch=1, bytes_per_element=2):
    """Con tensores de mentira, sumando lo que ocupan."""
    shape = (batch, num_kv_heads, n_tokens, head_dim)
    return sum(torch.empty(shape, device="meta").numel() * bytes_per_element for _ in range(2 * n_layers))


def cache_by_loops(n_layers, num_kv_heads, head_dim, n_tokens, batch=1, bytes_per_element=2):
    total = 0
    for _ in range(n_layers):
        for _ in ("claves", "valores"):
            total += num_kv_heads * head_dim * n_tokens * batch * bytes_per_element
    return total


def cache_in_mebibytes_and_back(n_layers, num_kv_heads, head_dim, n_tokens, batch=1, bytes_per_element=2):
    mebibytes = Fraction(n_layers * num_kv_heads * head_dim * n_tokens * batch * bytes_per_element, 2**19)
    return mebibytes * 2**20


def repeat_by_expand(x, n_rep):
    batch, g, n, d = x.shape
    return x[:, :, None].expand(batch, g, n_rep, n, d).reshape(batch, g * n_rep, n, d)


def repeat_by_index(x, n_rep):
    return x[:, [i // n_rep for i in range(x.shape[1] * n_rep)]]


def repeat_by_kron(x, n_rep):
    """Una matriz de ceros y unos que reparte las cabezas."""
    g = x.shape[1]
    spread = torch.kron(torch.eye(g), torch.ones(n_rep, 1))  # (g·n_rep, g)
    return torch.einsum("hg,bgnd->bhnd", spread, x)


def repeat_by_loop(x, n_rep):
    heads = []
    for head in x.unbind(1):
        heads += [head] * n_rep
    return torch.stack(heads, 1)


def repeat_by_filling(x, n_rep):
    result = x.new_empty(x.shape[0], x.shape[1] * n_rep, *x.shape[2:])
    for i in range(n_rep):
        result[:, i::n_rep] = x
    return result


def repeat_in_the_sequence_and_read(x, n_rep):
    """Las copias, una tras otra dentro de cada cabeza; al releer salen como cabezas vecinas."""
    return x.repeat(1, 1, n_rep, 1).reshape(x.shape[0], -1, *x.shape[2:])


def grouped_by_flag(query, key, value, mask=None):
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, enable_gqa=True)


def grouped_by_rows(query, key, value, mask=None):
    """Las consultas de un grupo, como filas de una sola cabeza: ninguna clave se repite."""
    batch, h, n, d = query.shape
    g = key.shape[1]
    scores = query.reshape(batch, g, h // g * n, d) @ key.mT / d**0.5
    if mask is not None:
        scores = scores.masked_fill(~mask.repeat(h // g, 1), -torch.inf)
    return (scores.softmax(-1) @ value).reshape(query.shape)


def grouped_by_einsum(query, key, value, mask=None):
    grouped = query.unflatten(1, (key.shape[1], -1))
    scores = torch.einsum("bgrqd,bgkd->bgrqk", grouped, key) / math.sqrt(query.shape[-1])
    bias = torch.zeros(()) if mask is None else torch.zeros(mask.shape).masked_fill(~mask, -1e9)
    return torch.einsum("bgrqk,bgkd->bgrqd", (scores + bias).softmax(-1), value).flatten(1, 2)


def grouped_by_broadcast(query, key, value, mask=None):
    grouped = query.unflatten(1, (key.shape[1], -1)) * query.shape[-1] ** -0.5
    scores = grouped @ key.unsqueeze(2).transpose(-1, -2)
    scores = scores if mask is None else torch.where(mask, scores, float("-inf"))
    return (F.softmax(scores, dim=4) @ value.unsqueeze(2)).reshape(query.shape)


def grouped_by_loop(query, key, value, mask=None):
    size = query.shape[1] // key.shape[1]
    heads = [
        F.scaled_dot_product_attention(query[:, i], key[:, i // size], value[:, i // size], attn_mask=mask)
        for i in range(query.shape[1])
    ]
    return torch.stack(heads, dim=1)


def grouped_in_place(query, key, value, mask=None):
    """Modifica sus entradas."""
    key, value = (x.repeat_interleave(query.shape[1] // x.shape[1], 1) for x in (key, value))
    scores = query.div_(query.shape[-1] ** 0.5) @ key.mT
    if mask is not None:
        scores[..., ~mask] = -torch.inf
    return scores.softmax(-1) @ value


def pool_by_loop(w, num_heads, num_kv_heads):
    d, size = w.shape[1] // num_heads, num_heads // num_kv_heads
    columns = []
    for group in range(num_kv_heads):
        heads = [w[:, i * d : (i + 1) * d] for i in range(group * size, (group + 1) * size)]
        columns.append(sum(heads) / len(heads))
    return torch.cat(columns, 1)


def pool_by_product(w, num_heads, num_kv_heads):
    """Una matriz que promedia columnas: (h·d, g·d)."""
    d, size = w.shape[1] // num_heads, num_heads // num_kv_heads
    average = torch.kron(torch.eye(num_kv_heads), torch.ones(size, 1) / size)
    return w @ torch.kron(average, torch.eye(d))


def pool_by_convolution(w, num_heads, num_kv_heads):
    """Promediar cabezas vecinas es una reducción con ventana y paso h/g."""
    size = num_heads // num_kv_heads
    return F.avg_pool1d(w.unflatten(1, (num_heads, -1)).mT, size).mT.flatten(1)


def pool_by_chunks(w, num_heads, num_kv_heads):
    groups = w.chunk(num_kv_heads, dim=1)
    return torch.hstack([torch.stack(g.chunk(num_heads // num_kv_heads, 1)).mean(0) for g in groups])


def pool_by_strides(w, num_heads, num_kv_heads):
    size = num_heads // num_kv_heads
    heads = w.unflatten(1, (num_heads, -1))
    return (sum(heads[:, i::size] for i in range(size)) / size).flatten(1)


def pool_by_numpy(w, num_heads, num_kv_heads):
    heads = w.double().numpy().reshape(len(w), num_kv_heads, num_heads // num_kv_heads, -1)
    return torch.from_numpy(heads.mean(axis=2).reshape(len(w), -1))


def step_fused(query, key, value, cache):
    keys, values = (key, value) if cache is None else (torch.cat(pair, 2) for pair in zip(cache, (key, value)))  # noqa: B905
    return F.scaled_dot_product_attention(query, keys, values), (keys, values)


def step_with_list(query, key, value, cache):
    old = [key[:, :, :0], value[:, :, :0]] if cache is None else cache
    cache = [torch.cat([past, new], dim=-2) for past, new in zip(old, [key, value], strict=True)]
    weights = torch.einsum("bhqd,bhkd->bhqk", query, cache[0]).div(query.size(-1) ** 0.5).softmax(-1)
    return [weights @ cache[1], cache]


def step_one_head_at_a_time(query, key, value, cache):
    if cache:
        key, value = torch.cat((cache[0], key), -2), torch.cat((cache[1], value), -2)
    output = torch.zeros_like(query)
    for b, h in itertools.product(range(query.shape[0]), range(query.shape[1])):
        scores = key[b, h] @ query[b, h, 0] / math.sqrt(query.shape[-1])
        output[b, h, 0] = scores.softmax(0) @ value[b, h]
    return output, (key, value)


def step_lower_right(query, key, value, cache):
    """Con una máscara causal bien alineada, que para una consulta no tapa nada."""
    keys, values = (key, value) if cache is None else (torch.cat([cache[0], key], 2), torch.cat([cache[1], value], 2))
    mask = torch.ones(1, keys.shape[2], dtype=torch.bool).tril(keys.shape[2] - 1)
    return F.scaled_dot_product_attention(query, keys, values, attn_mask=mask), (keys, values)


def step_preallocated(query, key, value, cache):
    """La caché, en un tensor más grande del que se devuelve una vista."""
    n = 0 if cache is None else cache[0].shape[2]
    room = torch.full((2, *key.shape[:2], 64, key.shape[3]), torch.nan)
    if cache is not None:
        room[:, :, :, :n] = torch.stack(list(cache))
    room[0, :, :, n], room[1, :, :, n] = key.squeeze(2), value.squeeze(2)
    keys, values = room[:, :, :, : n + 1]
    return ((query @ keys.mT) * query.shape[-1] ** -0.5).softmax(-1) @ values, (keys, values)


def step_online(query, key, value, cache):
    """El token nuevo, combinado con lo que da la caché sola."""
    new = (query * key).sum(-1, keepdim=True) / query.shape[-1] ** 0.5
    if cache is None:
        return value.clone(), (key, value)
    scores = query @ cache[0].mT / query.shape[-1] ** 0.5
    share = torch.sigmoid(new - scores.logsumexp(-1, keepdim=True))  # lo que se lleva el nuevo
    output = (1 - share) * (scores.softmax(-1) @ cache[1]) + share * value
    return output, (torch.cat([cache[0], key], 2), torch.cat([cache[1], value], 2))


def window_by_loops(n, window):
    mask = torch.zeros(n, n, dtype=torch.bool)
    for i in range(n):
        mask[i, max(0, i - window + 1) : i + 1] = True
    return mask


def window_by_convolution(n, window):
    """Cada fila, la de la diagonal corrida y acumulada."""
    return torch.eye(n).cumsum(0).sub(F.pad(torch.eye(n), (0, 0, window, 0))[:n].cumsum(0)).bool()


def window_by_sorting(n, window):
    """De las claves visibles, las `window` más recientes."""
    places = torch.arange(n).expand(n, n).masked_fill(~torch.ones(n, n).tril().bool(), -1)
    recent = places.sort(-1, descending=True).values[:, : min(window, n)]
    return torch.zeros(n, n + 1, dtype=torch.bool).scatter(1, recent + 1, True)[:, 1:]


def memory_by_measuring(n, num_heads, bytes_per_element=2, batch=1):
    kinds = {1: torch.int8, 2: torch.float16, 4: torch.float32, 8: torch.float64}
    query = torch.empty(batch, num_heads, n, 3, dtype=kinds[bytes_per_element], device="meta")
    scores = torch.einsum("bhqd,bhkd->bhqk", query, query)
    return scores.nelement() * scores.element_size()


def memory_by_sums(n, num_heads, bytes_per_element=2, batch=1):
    return sum(n for _ in range(batch * num_heads) for _ in range(n)) * bytes_per_element


def softmax_running(chunks):
    largest = torch.full((*chunks[0].shape[:-1], 1), -torch.inf)
    total = torch.zeros_like(largest)
    for chunk in chunks:
        old, largest = largest, torch.maximum(largest, chunk.amax(-1, keepdim=True))
        total = total * (old - largest).exp() + (chunk - largest).exp().sum(-1, keepdim=True)
    return torch.cat([(chunk - largest).exp() / total for chunk in chunks], -1)


def softmax_one_by_one(chunks):
    """Puntuación a puntuación, y los pesos reescalados sobre la marcha."""
    done, largest, total = [], None, None
    for score in torch.cat(chunks, -1).unbind(-1):
        new = score if largest is None else torch.max(largest, score)
        factor = 1.0 if largest is None else (largest - new).exp()
        total = (0.0 if total is None else total) * factor + (score - new).exp()
        done = [weight * factor for weight in done] + [(score - new).exp()]
        largest = new
    return torch.stack(done, -1) / total.unsqueeze(-1)


def softmax_by_logsumexp(chunks):
    normaliser = functools.reduce(torch.logaddexp, [chunk.logsumexp(-1, keepdim=True) for chunk in chunks])
    return torch.cat([(chunk - normaliser).exp() for chunk in chunks], -1)


def softmax_of_each_reweighted(chunks):
    """La softmax de cada trozo, por lo que le toca a ese trozo."""
    sizes = torch.stack([chunk.logsumexp(-1) for chunk in chunks], -1).softmax(-1)
    return torch.cat([chunk.softmax(-1) * sizes[..., i : i + 1] for i, chunk in enumerate(chunks)], -1)


def softmax_in_place(chunks):
    """Modifica los trozos que recibe."""
    largest = torch.stack([chunk.amax(-1) for chunk in chunks]).amax(0).unsqueeze(-1)
    parts = [chunk.sub_(largest).exp_() for chunk in chunks]
    return torch.cat(parts, -1) / sum(part.sum(-1, keepdim=True) for part in parts)


def softmax_by_numpy(chunks):
    x = np.concatenate([chunk.numpy().astype(float) for chunk in chunks], axis=-1)
    x = np.exp(x - x.max(axis=-1, keepdims=True))
    return torch.from_numpy(x / x.sum(axis=-1, keepdims=True))


def attention_running(score_chunks, value_chunks):
    shape = (*score_chunks[0].shape[:-1], 1)
    largest, total, output = torch.full(shape, -torch.inf), torch.zeros(shape), 0.0
    for scores, values in zip(score_chunks, value_chunks, strict=True):
        new = torch.maximum(largest, scores.amax(-1, keepdim=True))
        factor, weights = (largest - new).exp(), (scores - new).exp()
        total = total * factor + weights.sum(-1, keepdim=True)
        output = output * factor + weights @ values
        largest = new
    return output / total


def attention_normalised_at_each_chunk(score_chunks, value_chunks):
    """Como en el primer FlashAttention: la salida va siempre dividida, y se deshace antes de acumular."""
    output, size = None, None
    for scores, values in zip(score_chunks, value_chunks, strict=True):
        mine = scores.logsumexp(-1, keepdim=True)
        if output is None:
            output, size = scores.softmax(-1) @ values, mine
            continue
        both = torch.logaddexp(size, mine)
        output = output * (size - both).exp() + (scores - both).exp() @ values
        size = both
    return output


def attention_as_a_tree(score_chunks, value_chunks):
    """Los trozos, combinados de dos en dos y en cualquier orden: la operación es asociativa."""
    parts = [
        (s.logsumexp(-1, keepdim=True), s.softmax(-1) @ v) for s, v in zip(score_chunks, value_chunks, strict=True)
    ]
    while len(parts) > 1:
        (a, x), (b, y) = parts.pop(), parts.pop(0)
        share = torch.sigmoid(a - b)
        parts.append((torch.logaddexp(a, b), share * x + (1 - share) * y))
    return parts[0][1]


def attention_with_a_column_of_ones(score_chunks, value_chunks):
    """La suma de exponenciales, como una columna más de la salida."""
    largest, output = None, None
    for scores, values in zip(score_chunks, value_chunks, strict=True):
        values = torch.cat([values, torch.ones_like(values[..., :1])], -1)
        new = scores.max(-1, keepdim=True)[0]
        new = new if largest is None else torch.max(new, largest)
        part = torch.exp(scores - new) @ values
        output = part if output is None else part + output * torch.exp(largest - new)
        largest = new
    return output[..., :-1] / output[..., -1:]


def attention_backwards(score_chunks, value_chunks):
    return attention_running(score_chunks[::-1], value_chunks[::-1])


def attention_key_by_key(score_chunks, value_chunks):
    scores, values = torch.cat(score_chunks, -1), torch.cat(value_chunks, -2)
    return attention_running(scores.split(1, -1), values.split(1, -2))


def attention_emptying_the_lists(score_chunks, value_chunks):
    """Gasta las listas que recibe."""
    scores, values = [], []
    while score_chunks:
        scores.append(score_chunks.pop())
        values.append(value_chunks.pop())
    return attention_running(scores, values)


UNUSUAL = {
    "8.1": [
        cache_by_loops,
        cache_by_counting,
        cache_in_mebibytes_and_back,
        lambda n, h, d, t, batch=1, bytes_per_element=2: math.prod([2, n, h, d, t, batch, bytes_per_element]),
        lambda n, h, d, t, batch=1, bytes_per_element=2: float(n * h * d * t * batch) * bytes_per_element * 2,
        lambda n, h, d, t, batch=1, bytes_per_element=2: torch.tensor([n, h, d, t, 2, batch, bytes_per_element]).prod(),
        lambda n, h, d, t, batch=1, bytes_per_element=2: np.int64(2 * n * h * d) * t * batch * bytes_per_element,
        lambda *args, **kwargs: cache_by_loops(*args, **kwargs),
    ],
    "8.2": [
        repeat_by_loop,
        repeat_by_expand,
        repeat_by_index,
        repeat_by_kron,
        repeat_by_filling,
        repeat_in_the_sequence_and_read,
        lambda x, r: torch.stack([x] * r, dim=2).flatten(1, 2),
        lambda x, r: x.unsqueeze(2).repeat(1, 1, r, 1, 1).flatten(1, 2),
        lambda x, r: x.transpose(0, 1).repeat_interleave(r, 0).transpose(0, 1),
        lambda x, r: torch.cat([head.expand(-1, r, -1, -1) for head in x.split(1, 1)], 1).double(),
    ],
    "8.3": [
        grouped_by_loop,
        grouped_by_flag,
        grouped_by_rows,
        grouped_by_einsum,
        grouped_by_broadcast,
        grouped_in_place,
        lambda q, k, v, mask=None: grouped_by_einsum(q.double(), k.double(), v.double(), mask),
        lambda q, k, v, mask=None: F.scaled_dot_product_attention(
            q, repeat_by_expand(k, q.shape[1] // k.shape[1]), repeat_by_index(v, q.shape[1] // v.shape[1]), mask
        ),
        lambda query, key, value, mask=None: torch.cat(
            [
                grouped_by_flag(q, k, v, mask)
                for q, k, v in zip(query.chunk(key.shape[1], 1), key.split(1, 1), value.split(1, 1), strict=True)
            ],
            dim=1,
        ),
    ],
    "8.4": [
        pool_by_loop,
        pool_by_product,
        pool_by_convolution,
        pool_by_chunks,
        pool_by_strides,
        pool_by_numpy,
        lambda w, h, g: torch.einsum("mgrd->mgd", w.unflatten(1, (g, h // g, -1))).flatten(1) * g / h,
        lambda w, h, g: w.T.reshape(g, h // g, -1, w.shape[0]).mean(1).flatten(0, 1).T,
    ],
    "8.5": [
        step_fused,
        step_with_list,
        step_one_head_at_a_time,
        step_lower_right,
        step_preallocated,
        step_online,
        lambda q, k, v, cache: step_fused(q.double(), k.double(), v.double(), cache and [x.double() for x in cache]),
        lambda q, k, v, cache: [*step_fused(q, k, v, cache)],
    ],
    "9.1": [
        window_by_loops,
        window_by_convolution,
        window_by_sorting,
        lambda n, w: torch.ones(n, n, dtype=torch.bool).tril().triu(1 - w),
        lambda n, w: torch.ones(n, n).tril().bool() ^ torch.ones(n, n).tril(-w).bool(),
        lambda n, w: torch.tensor([[0 <= i - j < w for j in range(n)] for i in range(n)]),
        lambda n, w: torch.from_numpy(np.tri(n, dtype=bool) & ~np.tri(n, k=-w, dtype=bool)),
        lambda n, w: (torch.arange(n) + w > torch.arange(n)[:, None]) & (torch.arange(n) <= torch.arange(n)[:, None]),
        lambda n, w: torch.stack([torch.eye(n).roll(k, 0).tril(-k) for k in range(min(n, w))]).any(0),
    ],
    "9.2": [
        memory_by_sums,
        memory_by_measuring,
        lambda n, h, bytes_per_element=2, batch=1: n**2.0 * h * bytes_per_element * batch,
        lambda n, h, bytes_per_element=2, batch=1: math.prod((batch, h, n, n, bytes_per_element)),
        lambda n, h, bytes_per_element=2, batch=1: torch.tensor(n * n).mul(h).mul(bytes_per_element * batch),
        lambda n, h, bytes_per_element=2, batch=1: np.square(n) * np.float64(h) * bytes_per_element * batch,
        lambda n, h, bytes_per_element=2, batch=1: Fraction(n * n * h * bytes_per_element * batch),
    ],
    "9.3": [
        softmax_running,
        softmax_one_by_one,
        softmax_by_logsumexp,
        softmax_of_each_reweighted,
        softmax_in_place,
        softmax_by_numpy,
        lambda chunks: torch.softmax(torch.cat(chunks, -1), -1),
        lambda chunks: torch.cat(chunks, -1).double().log_softmax(-1).exp(),
        lambda chunks: softmax_running(torch.cat(chunks, -1).split(2, -1)),
        lambda chunks: softmax_running([chunk.requires_grad_() for chunk in chunks]),
    ],
    "9.4": [
        attention_running,
        attention_normalised_at_each_chunk,
        attention_as_a_tree,
        attention_with_a_column_of_ones,
        attention_backwards,
        attention_key_by_key,
        attention_emptying_the_lists,
        lambda s, v: torch.softmax(torch.cat(s, -1), -1) @ torch.cat(v, -2),
        lambda s, v: torch.einsum("...qk,...kd->...qd", softmax_by_logsumexp(s), torch.cat(v, -2)),
        lambda s, v: sum(w @ x for w, x in zip(softmax_running(s).split([x.shape[-2] for x in v], -1), v, strict=True)),
    ],
}

# --- Equivocadas, escritas de otra manera: el error conocido que hay detrás de cada una ----------------------------


def _attend(query, key, value):
    return torch.softmax(query @ key.mT / query.shape[-1] ** 0.5, -1) @ value


def _grown(cache, key, value, dim=2):
    return (key, value) if cache is None else (torch.cat([cache[0], key], dim), torch.cat([cache[1], value], dim))


def step_causal_by_torch(query, key, value, cache):
    keys, values = _grown(cache, key, value)
    return F.scaled_dot_product_attention(query, keys, values, is_causal=True), (keys, values)


def step_that_attends_before_adding(query, key, value, cache):
    output = value if cache is None else _attend(query, *cache)
    return output, _grown(cache, key, value)


def step_growing_only_the_values(query, key, value, cache):
    if cache is None:
        return value, (key, value)
    values = torch.cat([cache[1], value], 2)
    return _attend(query, cache[0], values), (cache[0], values)


def running_without_rescaling(chunks):
    largest, total, parts = torch.full((*chunks[0].shape[:-1], 1), -torch.inf), 0.0, []
    for chunk in chunks:
        largest = torch.maximum(largest, chunk.amax(-1, keepdim=True))
        parts.append((chunk - largest).exp())
        total = total + parts[-1].sum(-1, keepdim=True)
    return torch.cat(parts, -1) / total


def running_with_a_fixed_none(score_chunks, value_chunks):
    largest = torch.stack([scores.amax(-1) for scores in score_chunks]).amax(0)
    total, output = 0, 0
    for scores, values in zip(score_chunks, value_chunks, strict=True):
        weights = (scores - largest[:, None]).exp()
        total, output = total + weights.sum(-1), output + weights @ values
    return output / total[:, None]


def running_sum_without_rescaling(chunks):
    largest, total = torch.full((*chunks[0].shape[:-1], 1), -torch.inf), 0.0
    for chunk in chunks:
        largest = torch.maximum(largest, chunk.amax(-1, keepdim=True))
        total = total + (chunk - largest).exp().sum(-1, keepdim=True)
    return (torch.cat(chunks, -1) - largest).exp() / total


def attention_forgetting_the_output(score_chunks, value_chunks):
    largest, total, output = None, 0.0, 0.0
    for scores, values in zip(score_chunks, value_chunks, strict=True):
        new = scores.amax(-1, keepdim=True) if largest is None else scores.amax(-1, keepdim=True).maximum(largest)
        total = total * (0.0 if largest is None else (largest - new).exp()) + (scores - new).exp().sum(-1, keepdim=True)
        output = output + (scores - new).exp() @ values
        largest = new
    return output / total


def _attend_scaled_again(score_chunks, value_chunks):
    return attention_running(
        [s / math.sqrt(v.shape[-1]) for s, v in zip(score_chunks, value_chunks, strict=True)], value_chunks
    )


VARIANTS = [
    (
        "8.1",
        lambda n, g, d, t, batch=1, bytes_per_element=2: n * g * d * t * batch * bytes_per_element,
        "solo las claves",
    ),
    ("8.1", lambda n, g, d, t, batch=1, bytes_per_element=2: 4 * n * g * d * t * batch, "dos bytes siempre"),
    (
        "8.1",
        lambda n, g, d, t, batch=1, bytes_per_element=2: 2 * n * g * d * t * batch * bytes_per_element / 2**20,
        "en MiB",
    ),
    (
        "8.1",
        lambda n, g, d, t, batch=1, bytes_per_element=2: sum(
            2 * n * g * d * (i + 1) * batch * bytes_per_element for i in range(t)
        ),
        "suma de todos los pasos",
    ),
    (
        "8.1",
        lambda n, g, d, t, batch=1, bytes_per_element=2: f"{2 * n * g * d * t / 2**20:.1f} MiB",
        "la cuenta en texto",
    ),
    ("8.2", lambda x, r: torch.cat([x] * r, 1), "repeat en vez de repeat_interleave"),
    ("8.2", lambda x, r: torch.stack([x] * r, 1).flatten(1, 2), "repeat en vez de repeat_interleave"),
    ("8.2", lambda x, r: x[:, [i % x.shape[1] for i in range(r * x.shape[1])]], "repeat en vez de repeat_interleave"),
    ("8.2", lambda x, r: x[:, None].expand(-1, r, -1, -1, -1).flatten(1, 2), "repeat en vez de repeat_interleave"),
    ("8.2", lambda x, r: torch.stack([x] * r, 2), "dimensión de más"),
    ("8.2", lambda x, r: x[:, :, None].expand(-1, -1, r, -1, -1).flatten(2, 3), "secuencia entera repetida"),
    ("8.2", lambda x, r: x.repeat_interleave(r, -2).reshape(x.shape[0], -1, *x.shape[2:]), "copias tras la posición"),
    ("8.2", lambda x, r: torch.stack([x[:, i // r] for i in range(r * x.shape[1])]), "cabezas delante del lote"),
    ("8.2", lambda x, r: x[:, torch.arange(r * x.shape[1]) % r], "el resto en vez del cociente"),
    (
        "8.3",
        lambda q, k, v, mask=None: F.scaled_dot_product_attention(
            q, *(x.repeat(1, q.shape[1] // x.shape[1], 1, 1) for x in (k, v)), attn_mask=mask
        ),
        "en ciclo",
    ),
    ("8.3", lambda q, k, v, mask=None: F.scaled_dot_product_attention(q, k, v, attn_mask=mask), "sin compartir"),
    ("8.3", lambda q, k, v, mask=None: grouped_by_flag(q, k, v), "máscara ignorada"),
    ("8.3", lambda q, k, v, mask=None: grouped_by_flag(q, k, v, None if mask is None else ~mask), "polaridad al revés"),
    (
        "8.3",
        lambda q, k, v, mask=None: grouped_by_flag(q, k, v, mask.mT if mask is not None else None),
        "máscara traspuesta",
    ),
    (
        "8.3",
        lambda q, k, v, mask=None: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True),
        "causal siempre",
    ),
    (
        "8.3",
        lambda q, k, v, mask=None: (
            grouped_by_einsum(q.unflatten(1, (-1, k.shape[1])).transpose(1, 2).flatten(1, 2), k, v, mask)
            .unflatten(1, (k.shape[1], -1))
            .transpose(1, 2)
            .flatten(1, 2)
        ),
        "en ciclo",
    ),
    ("8.3", lambda q, k, v, mask=None: grouped_by_flag(q / q.shape[-1] ** 0.5, k, v, mask), "entre d"),
    ("8.3", lambda q, k, v, mask=None: grouped_by_flag(q[:, : k.shape[1]], k, v, mask), "las primeras consultas"),
    ("8.4", lambda w, h, g: pool_by_loop(w, h, g) * (h // g), "la suma"),
    ("8.4", lambda w, h, g: pool_by_strides(w, h, 1).repeat(1, g), "media de todas, repetida"),
    ("8.4", lambda w, h, g: pool_by_loop(w, h, 1), "una sola cabeza"),
    ("8.4", lambda w, h, g: w.unflatten(1, (h, -1))[:, :: h // g].flatten(1), "la primera de cada grupo"),
    ("8.4", lambda w, h, g: torch.stack(w.chunk(h // g, 1)).mean(0), "grupos salteados"),
    ("8.4", lambda w, h, g: F.avg_pool1d(w, h // g), "columnas vecinas"),
    ("8.4", lambda w, h, g: pool_by_loop(w, h, h // g), "grupos de g"),
    ("8.4", lambda w, h, g: w[:, : g * w.shape[1] // h], "las columnas de las primeras"),
    ("8.5", step_causal_by_torch, "causal desde arriba"),
    ("8.5", step_that_attends_before_adding, "solo al pasado"),
    ("8.5", step_growing_only_the_values, "crece solo una"),
    ("8.5", lambda q, k, v, cache: (_attend(q, *_grown(cache, k, v)), cache), "la de antes"),
    ("8.5", lambda q, k, v, cache: (_attend(q, *_grown(cache, k, v)), *_grown(cache, k, v)), "tres cosas"),
    ("8.5", lambda q, k, v, cache: _attend(q, *_grown(cache, k, v)), "solo la salida"),
    (
        "8.5",
        lambda q, k, v, cache: (_attend(q, *_grown(cache, k, v, 1)), _grown(cache, k, v)),
        "por la dimensión de cabezas",
    ),
    (
        "8.5",
        lambda q, k, v, cache: (_attend(q, *_grown(cache, k, v, 3)), _grown(cache, k, v)),
        "por la dimensión de cabezas",
    ),
    ("8.5", lambda q, k, v, cache: (v, _grown(cache, k, v)), "solo a sí mismo"),
    (
        "8.5",
        lambda q, k, v, cache: (
            _attend(q, *(torch.cat([cache[i], x], 2) for i, x in enumerate([k, v]))),
            _grown(cache, k, v),
        ),
        "sin prever None",
    ),
    ("9.1", lambda n, w: torch.ones(n, n).bool().tril().triu(-w), "uno de más"),
    ("9.1", lambda n, w: torch.ones(n, n).bool().tril().triu(2 - w), "uno de menos"),
    ("9.1", lambda n, w: torch.ones(n, n).bool().triu(1 - w).tril(w - 1), "sin causalidad"),
    ("9.1", lambda n, w: torch.ones(n, n).bool().triu().tril(w - 1), "traspuesta"),
    ("9.1", lambda n, w: torch.ones(n, n).tril().triu(1 - w), "números en vez de booleanos"),
    ("9.1", lambda n, w: torch.ones(n, n).bool().tril(), "solo causal"),
    ("9.1", lambda n, w: torch.ones(n, n).bool().tril(-w), "lo que queda fuera por detrás"),
    ("9.1", lambda n, w: torch.stack([torch.eye(n).bool().roll(k, 0) for k in range(w)]).any(0), "en círculo"),
    ("9.2", lambda n, h, bytes_per_element=2, batch=1: n * h * bytes_per_element * batch, "n sin elevar"),
    ("9.2", lambda n, h, bytes_per_element=2, batch=1: batch * h * n ^ 2 * bytes_per_element, "^ en vez de **"),
    ("9.2", lambda n, h, bytes_per_element=2, batch=1: n ^ 2 * h * bytes_per_element * batch, "^ en vez de **"),
    ("9.2", lambda n, h, bytes_per_element=2, batch=1: n**2 * h * batch * 2, "dos bytes siempre"),
    ("9.2", lambda n, h, bytes_per_element=2, batch=1: n**2 * h * batch * bytes_per_element / 2**30, "en GiB"),
    (
        "9.2",
        lambda n, h, bytes_per_element=2, batch=1: 2 * n**2 * h * batch * bytes_per_element,
        "puntuaciones y pesos",
    ),
    ("9.2", lambda n, h, bytes_per_element=2, batch=1: n * n * h * batch, "elementos en vez de bytes"),
    ("9.3", lambda c: torch.cat([x.softmax(-1) for x in c], -1), "cada trozo por su cuenta"),
    ("9.3", lambda c: [x.softmax(-1) for x in c], "sin unir, cada trozo por su cuenta"),
    ("9.3", running_sum_without_rescaling, "suma sin reescalar"),
    ("9.3", running_without_rescaling, "exponenciales y suma con su máximo"),
    ("9.3", lambda c: torch.cat(c, -1).exp() / torch.cat(c, -1).exp().sum(-1, keepdim=True), "sin el máximo"),
    ("9.3", lambda c: [x for x in torch.cat(c, -1).softmax(-1).split([y.shape[-1] for y in c], -1)], "sin unir"),
    ("9.3", lambda c: torch.cat(c).softmax(-1), "unidos por la primera dimensión"),
    ("9.3", lambda c: F.softmax(torch.cat(c, -1), 0), "softmax sobre las filas"),
    ("9.4", running_with_a_fixed_none, "dimensión abierta en un sitio fijo"),
    ("9.4", lambda s, v: sum(F.softmax(a, -1) @ b for a, b in zip(s, v, strict=True)), "suma de las salidas"),
    (
        "9.4",
        lambda s, v: torch.stack([a.softmax(-1) @ b for a, b in zip(s, v, strict=True)]).mean(0),
        "media de las salidas",
    ),
    ("9.4", attention_forgetting_the_output, "salida sin reescalar"),
    (
        "9.4",
        lambda s, v: (torch.cat(s, -1) - torch.cat(s, -1).amax(-1, keepdim=True)).exp() @ torch.cat(v, -2),
        "sin dividir",
    ),
    ("9.4", lambda s, v: torch.cat(s, -1).softmax(-1), "los pesos"),
    ("9.4", lambda s, v: [a.softmax(-1) @ b for a, b in zip(s, v, strict=True)], "en una lista"),
    ("9.4", _attend_scaled_again, "escalar otra vez"),
]


# --- Se parecen a un error conocido y son otra cosa: pista general, con estas palabras ------------------------------

LOOKALIKES = [
    ("8.1", lambda n, g, d, t, batch=1, bytes_per_element=2: n * t, "no es el número"),
    ("8.1", lambda n, g, d, t, batch=1, bytes_per_element=2: {"bytes": n * t}, "es un diccionario"),
    ("8.1", lambda n, g, d, t, batch=1, bytes_per_element=2: torch.randn(n, g), "un tensor de forma"),
    ("8.2", lambda x, r: repeat_by_loop(x, r).roll(1, -1), "no los valores"),
    ("8.2", lambda x, r: [head for head in x.unbind(1) for _ in range(r)], "lista de"),
    ("8.2", lambda x, r: repeat_by_loop(x, r)[None], "tiene la forma"),
    ("8.3", lambda q, k, v, mask=None: grouped_by_flag(q.relu(), k, v, mask), "no los valores"),
    ("8.3", lambda q, k, v, mask=None: list(grouped_by_flag(q, k, v, mask).unbind(1)), "lista de"),
    ("8.3", lambda q, k, v, mask=None: grouped_by_flag(q, k, v, mask).mean(2), "tiene la forma"),
    ("8.4", lambda w, h, g: pool_by_loop(w, h, g).relu(), "no los valores"),
    ("8.4", lambda w, h, g: pool_by_loop(w, h, g)[None], "tiene la forma"),
    ("8.4", lambda w, h, g: w.view(w.shape[0], g, h / g, -1).mean(2), "la entera es «//»"),
    (
        "8.5",
        lambda q, k, v, cache: (_attend(q, *_grown(cache, k, v)).relu(), _grown(cache, k, v)),
        "El primer resultado",
    ),
    (
        "8.5",
        lambda q, k, v, cache: (_attend(q, *_grown(cache, k, v)), [x.relu() for x in _grown(cache, k, v)]),
        "El primer tensor del segundo resultado",
    ),
    ("8.5", lambda q, k, v, cache: (_attend(q, *_grown(cache, k, v)), ()), "El segundo resultado tiene longitud 0"),
    ("9.1", lambda n, w: torch.rand(n, n) > 0.5, "no los valores"),
    ("9.1", lambda n, w: window_by_loops(n, w).flatten(), "tiene la forma"),
    ("9.2", lambda n, h, bytes_per_element=2, batch=1: h * bytes_per_element, "no es el número"),
    ("9.2", lambda n, h, bytes_per_element=2, batch=1: None, "no devuelve nada"),
    ("9.3", lambda c: softmax_running(c).sqrt(), "no suman 1"),
    ("9.3", lambda c: softmax_running(c).tolist(), "lista de Python"),
    ("9.3", lambda c: softmax_running(c)[..., None], "tiene la forma"),
    ("9.4", lambda s, v: attention_running(s, v).relu(), "no los valores"),
    ("9.4", lambda s, v: attention_running(s, v)[None], "tiene la forma"),
    ("9.4", lambda s, v: attention_running(s, v).tolist(), "lista de Python"),
]
