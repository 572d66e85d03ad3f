"""Respuestas poco corrientes que deben pasar, e impostoras que no."""

import functools
import gc
import inspect
import math
import sys

import numpy as np
import torch
import torch.nn.functional as F

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


# El error conocido que hay detrás de cada una.
VARIANTS = [
    ("1.1", _return_inside_the_loop, "return dentro del bucle"),
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
]

# --- Impostoras ---------------------------------------------------------------------------------------------------


def right_answer(id):
    """Una función correcta del ejercicio `id`, para construir impostoras que solo lo son a medias."""
    return UNUSUAL[id][0]


def same_shape(id, fill):
    """Un resultado de la forma y del tipo debidos, con otro contenido."""

    def answer(*args, **kwargs):
        result = right_answer(id)(*args, **kwargs)
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
}
