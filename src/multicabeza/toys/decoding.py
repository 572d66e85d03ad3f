"""Cuánto tarda una capa al generar, según cómo se compartan las claves y los valores (capítulo 08).

Tres formas de atender con g cabezas de claves y valores y h de consulta, con el mismo resultado:

    «repetir»      se copian las claves y los valores h/g veces y se atiende como en MHA
    «enable_gqa»   se le dice al núcleo de PyTorch que las comparta
    «filas»        las h/g consultas de un grupo son filas de un solo producto con sus claves, como en `attention.py`

Los tiempos son de procesador, con un solo hilo, y se toman en vueltas dentro de un proceso: en cada vuelta corren
todas, en un orden al azar, y lo que cuenta es la razón entre tiempos de la misma vuelta. Así la carga de la máquina
afecta a todas por igual.

Letras de las formas: h cabezas de consulta, g de claves y valores, n tokens guardados.

Fuente: Shazeer (2019), §2.4 y §3: al generar, lo que cuesta es leer la caché.
"""

import random
import statistics
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ..attention import KVCache, MultiHeadAttention

NUM_HEADS, HEAD_DIM = 16, 64
KV_HEADS = (16, 8, 4, 2, 1)
SIZES = ((8, 32), (1, 512), (8, 512), (8, 2048), (32, 512))
"""Lote y tokens guardados de cada medida."""
PREFILL = (1, 512)
"""Lote y tokens que se leen de una vez."""
ROUNDS, WARM_UP = 15, 2


class Ratio(NamedTuple):
    """Cuántas veces más rápido: mediana y cuartiles de las razones, vuelta a vuelta."""

    median: float
    low: float
    high: float

    def __format__(self, spec: str) -> str:
        """Escribe «mediana [cuartiles]» con el formato que se pida."""
        return f"{self.median:{spec}} [{self.low:{spec}}, {self.high:{spec}}]"


# --- Las tres formas -------------------------------------------------------------------------------------------------


def repeat(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Atiende con las claves y los valores copiados: 0, 0, 0, 1, 1, 1…

    Args:
        query: (batch, h, n_q, d_k).
        key: (batch, g, n, d_k).
        value: (batch, g, n, d_k).

    Returns:
        (batch, h, n_q, d_k).
    """
    times = query.shape[1] // key.shape[1]
    key, value = (x.repeat_interleave(times, dim=1) for x in (key, value))  # (batch, h, n, d_k)
    return F.scaled_dot_product_attention(query, key, value)


def enable_gqa(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Lo mismo, con el núcleo de PyTorch que comparte las claves sin copiarlas."""
    return F.scaled_dot_product_attention(query, key, value, enable_gqa=True)


def rows(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Lo mismo con una sola consulta por cabeza: las de un grupo, como filas."""
    grouped = query.unflatten(1, (key.shape[1], -1)).flatten(2, 3)  # (batch, g, h/g, d_k)
    return F.scaled_dot_product_attention(grouped, key, value).flatten(1, 2)[:, :, None]


WAYS = {"repetir": repeat, "enable_gqa": enable_gqa, "filas": rows}


# --- Los tiempos -----------------------------------------------------------------------------------------------------


@torch.no_grad()
def alternate(calls: dict[object, Callable[[], object]], rounds: int = ROUNDS) -> dict[object, list[float]]:
    """Segundos de procesador de cada llamada, en vueltas: en cada una corren todas, en un orden al azar.

    Antes de cada llamada, y sin contarlo, se recorre un bloque de 64 MiB: la memoria rápida del procesador queda llena
    de otra cosa, como la dejan al generar las demás capas, y ninguna llamada aprovecha lo que dejó la anterior.

    Args:
        calls: nombre → función sin argumentos.
        rounds: vueltas que cuentan, tras dos de calentamiento; con un solo hilo de PyTorch, que luego se devuelve.

    Returns:
        Nombre → un tiempo por vuelta.
    """
    times: dict[object, list[float]] = {name: [] for name in calls}
    other, order = torch.zeros(2**24), random.Random(0)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for turn in range(rounds + WARM_UP):
            for name in order.sample(list(calls), len(calls)):
                other.add_(1)
                start = time.process_time()
                calls[name]()
                if turn >= WARM_UP:
                    times[name].append(time.process_time() - start)
    finally:
        torch.set_num_threads(threads)
    return times


def faster(base: Sequence[float], other: Sequence[float]) -> Ratio:
    """Cuántas veces más rápido va `other` que `base`, vuelta a vuelta."""
    ratios = [a / b for a, b in zip(base, other, strict=True)]
    low, _, high = statistics.quantiles(ratios, n=4, method="inclusive")
    return Ratio(statistics.median(ratios), low, high)


def step_calls(batch: int, n: int, seed: int = 0) -> dict[tuple[str, int], Callable[[], Tensor]]:
    """Un paso de generación, solo la atención: (forma, g) → llamada.

    Con g = h las tres son la misma cuenta; de ahí sale la de referencia, («filas», h).

    Args:
        batch: secuencias.
        n: tokens guardados.
        seed: de los números.

    Returns:
        Las llamadas, con sus tensores ya hechos.
    """
    generator = torch.Generator().manual_seed(seed)
    query = torch.randn(batch, NUM_HEADS, 1, HEAD_DIM, generator=generator)
    calls: dict[tuple[str, int], Callable[[], Tensor]] = {}
    for g in KV_HEADS:
        key, value = (torch.randn(batch, g, n, HEAD_DIM, generator=generator) for _ in range(2))
        for name, way in WAYS.items():
            if g < NUM_HEADS or way is rows:
                calls[name, g] = lambda way=way, key=key, value=value: way(query, key, value)
    return calls


def layer_calls(batch: int, n: int, seed: int = 0) -> dict[int, Callable[[], Tensor]]:
    """Un paso de generación de una capa entera, con sus proyecciones y su caché de n tokens: g → llamada."""
    torch.manual_seed(seed)
    x = torch.randn(batch, 1, NUM_HEADS * HEAD_DIM)
    calls: dict[int, Callable[[], Tensor]] = {}
    for g in KV_HEADS:
        layer, cache = _filled(g, batch, n)
        calls[g] = lambda layer=layer, cache=cache: layer(x, is_causal=True, cache=cache)
    return calls


def prefill_calls(batch: int, n: int, seed: int = 0) -> dict[int, Callable[[], Tensor]]:
    """Leer de una vez n tokens con una capa entera: g → llamada."""
    torch.manual_seed(seed)
    x = torch.randn(batch, n, NUM_HEADS * HEAD_DIM)
    layers = {g: _layer(g) for g in KV_HEADS}
    return {g: lambda layer=layer: layer(x, is_causal=True, cache=KVCache()) for g, layer in layers.items()}


def reading_calls(batch: int, n: int, seed: int = 0) -> dict[int, Callable[[], Tensor]]:
    """Leer de una vez n tokens, solo la atención causal con `enable_gqa`: g → llamada."""
    generator = torch.Generator().manual_seed(seed)
    query = torch.randn(batch, NUM_HEADS, n, HEAD_DIM, generator=generator)
    calls: dict[int, Callable[[], Tensor]] = {}
    for g in KV_HEADS:
        pair = [torch.randn(batch, g, n, HEAD_DIM, generator=generator) for _ in range(2)]
        calls[g] = lambda pair=pair: F.scaled_dot_product_attention(query, *pair, is_causal=True, enable_gqa=True)
    return calls


def _layer(g: int) -> MultiHeadAttention:
    return MultiHeadAttention(NUM_HEADS * HEAD_DIM, NUM_HEADS, num_kv_heads=g, bias=False).eval()


@torch.no_grad()
def _filled(g: int, batch: int, n: int) -> tuple[MultiHeadAttention, KVCache]:
    """Una capa y una caché suya con n tokens y sitio para los que vengan."""
    layer, cache = _layer(g), KVCache()
    layer(torch.randn(batch, 1, NUM_HEADS * HEAD_DIM), cache=cache)
    shape = (batch, g, n - 1, HEAD_DIM)
    cache.update(torch.randn(shape), torch.randn(shape))
    return layer, cache


# --- El registro -----------------------------------------------------------------------------------------------------


def record(seeds: list[int]) -> dict:
    """Lo que el capítulo 08 cuenta de la velocidad: con un hilo, en float32; cada semilla, otra tanda de vueltas."""
    kernel, layer = {}, {}
    for batch, n in SIZES:
        times = _pooled(lambda seed, batch=batch, n=n: step_calls(batch, n, seed), seeds)
        whole = times["filas", NUM_HEADS]
        found = {
            way: {str(g): _round(faster(whole, times[way, g])) for g in KV_HEADS[1:] if (way, g) in times}
            for way in WAYS
        }
        kernel[f"{batch} {n}"] = {"ms": _milliseconds(whole), **found}
        layer[f"{batch} {n}"] = _by_group(_pooled(lambda seed, b=batch, n=n: layer_calls(b, n, seed), seeds))
    prefill = {
        name: _by_group(_pooled(lambda seed, calls=calls: calls(*PREFILL, seed), seeds))
        for name, calls in {"layer": prefill_calls, "kernel": reading_calls}.items()
    }
    return {
        "threads": 1,
        "rounds": ROUNDS * len(seeds),
        "heads": NUM_HEADS,
        "head_dim": HEAD_DIM,
        "kernel": kernel,
        "layer": layer,
        "prefill": prefill,
    }


def _pooled(make: Callable[[int], dict], seeds: Sequence[int]) -> dict:
    """Los tiempos de todas las semillas, seguidos."""
    pooled: dict = {}
    for seed in seeds:
        for name, times in alternate(make(seed)).items():
            pooled.setdefault(name, []).extend(times)
    return pooled


def _by_group(times: dict[int, list[float]]) -> dict:
    """El tiempo de MHA y, por cada g menor, cuántas veces más rápido."""
    whole = times[NUM_HEADS]
    return {"ms": _milliseconds(whole)} | {str(g): _round(faster(whole, times[g])) for g in KV_HEADS[1:]}


def _milliseconds(times: Sequence[float]) -> float:
    return round(1e3 * statistics.median(times), 3)


def _round(ratio: Ratio) -> list[float]:
    return [round(x, 3) for x in ratio]
