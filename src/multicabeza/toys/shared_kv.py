"""Lo que SmolLM2 guarda en su caché, y en qué se parecen las cabezas que comparten claves y valores (capítulo 08).

SmolLM2 tiene en cada capa nueve cabezas de consulta y tres de claves y valores: las 0, 1 y 2 comparten la primera; las
3, 4 y 5, la segunda; las 6, 7 y 8, la tercera.

La pregunta «¿se parecen más las que comparten?» se responde con permutaciones: se barajan las etiquetas de grupo dentro
de cada capa, se vuelve a medir y se mira cuántas veces sale tanto como en el modelo.

Los pesos de SmolLM2 son una aproximación de 4 bits de los publicados: lo que salga vale para ese modelo.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ..attention import MultiHeadAttention


def cache_tensors(cache: Any) -> list[Tensor]:
    """Las claves y los valores de una caché de transformers: 2·L tensores (batch, g, n, d_k)."""
    return [tensor for layer in cache.layers for tensor in (layer.keys, layer.values)]


class Sharing(NamedTuple):
    """El parecido medio de las parejas de cabezas de una misma capa, según compartan o no, y lo que da barajar.

    Attributes:
        same: parejas que comparten claves y valores.
        other: las demás.
        p: proporción de barajas que dan tanto como `same` (la del modelo cuenta como una más).
        null: `same` en cada baraja.
    """

    same: float
    other: float
    p: float
    null: Tensor


def same_group(num_heads: int, num_kv_heads: int) -> Tensor:
    """Qué parejas de cabezas distintas comparten claves y valores: booleana (h, h)."""
    group = torch.arange(num_heads) // (num_heads // num_kv_heads)
    return (group[:, None] == group) & ~torch.eye(num_heads, dtype=torch.bool)


def sharing_test(similarity: Tensor, num_kv_heads: int, draws: int = 10_000, seed: int = 0) -> Sharing:
    """Compara el parecido de las cabezas que comparten con el de barajar las etiquetas dentro de cada capa.

    Args:
        similarity: (n_layers, h, h), simétrica; la diagonal no cuenta.
        num_kv_heads: cabezas de claves y valores g.
        draws: cuántas barajas.
        seed: semilla.

    Returns:
        `Sharing`.

    Raises:
        ValueError: si la forma no es esa o g no divide a h.
    """
    if similarity.ndim != 3 or similarity.shape[1] != similarity.shape[2] or similarity.shape[1] % num_kv_heads:
        raise ValueError(
            f"Se esperaba un parecido (n_layers, h, h), con h múltiplo de g = {num_kv_heads}; "
            f"llegó {tuple(similarity.shape)}."
        )
    n_layers, h, _ = similarity.shape
    same, layers = same_group(h, num_kv_heads), torch.arange(n_layers)[:, None, None]
    others = ~same & ~torch.eye(h, dtype=torch.bool)
    generator, null = torch.Generator().manual_seed(seed), []
    for _ in range(draws):
        order = torch.rand(n_layers, h, generator=generator).argsort(-1)
        shuffled = similarity[layers, order[:, :, None], order[:, None]]
        null.append(shuffled[:, same].mean())
    observed, null = similarity[:, same].mean(), torch.stack(null)
    p = (1 + (null >= observed - 1e-9).sum().item()) / (1 + draws)
    return Sharing(observed.item(), similarity[:, others].mean().item(), p, null)


def both(scores: Tensor, threshold: float) -> Tensor:
    """1 en las parejas en que las dos cabezas llegan al umbral: (n_layers, h) → (n_layers, h, h)."""
    high = scores >= threshold
    return (high[:, :, None] & high[:, None]).double()


def closeness(scores: Tensor) -> Tensor:
    """Parecido de dos cabezas por un índice: menos la diferencia, (n_layers, h) → (n_layers, h, h)."""
    return -(scores[:, :, None] - scores[:, None]).abs()


def map_correlation(maps: Tensor) -> Tensor:
    """Correlación entre los mapas de las cabezas de una capa, sin la columna del sumidero; media de las secuencias.

    Solo cuentan las casillas que una cabeza causal puede elegir: 1 ≤ j ≤ i, desde la consulta 2.

    Args:
        maps: pesos (n_layers, B, h, n, n).

    Returns:
        (n_layers, h, h).
    """
    n = maps.shape[-1]
    free = torch.ones(n, n, dtype=torch.bool).tril()
    free[:, 0] = False
    free[:2] = False
    entries = maps[..., free].double()  # (n_layers, B, h, casillas)
    entries = entries - entries.mean(-1, keepdim=True)
    entries = entries / entries.norm(dim=-1, keepdim=True)
    return (entries @ entries.mT).mean(1)


@torch.no_grad()
def regrouped_maps(model: nn.Module, tokens: Tensor, order: Tensor) -> Tensor:
    """Los pesos que saldrían si las consultas se repartiesen las claves de otra manera.

    Cada capa lee lo que lee en el modelo, y ninguna matriz cambia: solo, qué clave recibe cada consulta. Como lo que
    escribe una capa así no llega a la siguiente, lo que se ve es el reparto y no un modelo estropeado.

    Args:
        model: un LLaMA de transformers.
        tokens: (B, n).
        order: (h,) la consulta que ocupa cada sitio; los h/g primeros sitios leen la cabeza KV 0, los siguientes la 1…
            Con 0, 1, 2… son los mapas del modelo.

    Returns:
        (n_layers, B, h, n, n), con las cabezas en los sitios de `order`.
    """
    inputs = model.model(input_ids=tokens, output_hidden_states=True, use_cache=False).hidden_states
    maps = []
    for block, x in zip(model.model.layers, inputs, strict=False):  # sobra la última: lo que sale del modelo
        attention = MultiHeadAttention.from_transformers(block)
        query = attention.qkv_proj.weight.unflatten(0, (-1, attention.head_dim))[: len(order)]  # (h, d_k, d_model)
        query.copy_(query[order])
        maps.append(attention(block.input_layernorm(x), is_causal=True, need_weights=True)[1])
    return torch.stack(maps)
