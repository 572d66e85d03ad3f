"""Velocidad al generar: con menos cabezas de claves y valores, y con caché frente a recalcular el prefijo.

    python -m benchmarks.decoding               todo: lo que ejecuta «make bench», con benchmarks.attention
    python -m benchmarks.decoding --runs 31

Float32, un solo hilo (que se dice en la salida). En cada vuelta corren todas las variantes, en un mismo proceso y en
orden rotatorio, y lo que cuenta es la razón entre tiempos de la misma vuelta. Antes de medir se comprueba que generar
con caché da lo mismo que sin ella. Con lote 1, lo que tarda un token es leer los pesos, que no dependen de la caché:
ahí la razón tiene un techo bajo; con más secuencias a la vez, los mismos pesos sirven para todas. Escribe
benchmarks/out/decoding.json, con todos los tiempos.
"""

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from multicabeza import KVCache, MultiHeadAttention

from .attention import decimal, environment

OUT = Path(__file__).parent / "out" / "decoding.json"
D_MODEL, NUM_HEADS = 1024, 16
KV_HEADS = (16, 8, 4, 2, 1)
BATCHES, CONTEXTS = (8, 32), (512, 2048)
TOKENS = 256  # los que se generan con caché y sin ella
GENERATIONS = ((256, 4, 1), (512, 8, 1), (256, 4, 4))  # d_model, cabezas y lote; cuatro bloques
RUNS, WARM_UP = 15, 2


class Block(nn.Module):
    """Un bloque Pre-LN con su red feed-forward: lo que rodea a la atención también se recalcula sin caché."""

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        self.norm, self.other = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.mlp = nn.Sequential(nn.Linear(d_model, 4 * d_model), nn.GELU(), nn.Linear(4 * d_model, d_model))

    def forward(self, x: Tensor, cache: KVCache | None = None) -> Tensor:
        x = x + self.attention(self.norm(x), is_causal=True, cache=cache)
        return x + self.mlp(self.other(x))


def full_cache(layer: MultiHeadAttention, batch: int, context: int) -> KVCache:
    """Una caché con `context` tokens al azar."""
    cache = KVCache()
    cache.update(*(torch.randn(batch, layer.num_kv_heads, context, layer.head_dim) for _ in range(2)))
    return cache


def alternate(calls: dict[str, Callable[[], object]], runs: int, warm_up: int = WARM_UP) -> dict[str, list[float]]:
    """Segundos de cada variante en vueltas alternas, en orden rotatorio."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    names = list(calls)
    for turn in range(warm_up + runs):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            start = time.perf_counter()
            calls[name]()
            if turn >= warm_up:
                times[name].append(time.perf_counter() - start)
    return times


def summary(slow: list[float], fast: list[float]) -> dict[str, float]:
    """Razón lento / rápido, vuelta a vuelta: mediana y cuartiles."""
    low, middle, high = statistics.quantiles([a / b for a, b in zip(slow, fast, strict=True)], n=4, method="inclusive")
    return {"median": middle, "q1": low, "q3": high}


def decode_times(batch: int, context: int, runs: int) -> dict[str, list[float]]:
    """Segundos de un token nuevo por secuencia, con cada número de cabezas de claves y valores."""
    torch.manual_seed(0)
    x = torch.randn(batch, 1, D_MODEL)
    calls = {}
    for g in KV_HEADS:
        layer = MultiHeadAttention(D_MODEL, NUM_HEADS, num_kv_heads=g).eval()
        cache = full_cache(layer, batch, context)
        calls[str(g)] = lambda layer=layer, cache=cache: layer(x, is_causal=True, cache=cache)
    return alternate(calls, runs)


def generation_times(d_model: int, num_heads: int, batch: int, runs: int, n_layers: int = 4) -> dict[str, list[float]]:
    """Segundos de leer `TOKENS` tokens de uno en uno, con caché y recalculando cada vez todo el prefijo."""
    torch.manual_seed(0)
    blocks = [Block(d_model, num_heads).eval() for _ in range(n_layers)]
    x = torch.randn(batch, TOKENS, d_model)

    def step(x: Tensor, caches: list[KVCache | None]) -> Tensor:
        for block, cache in zip(blocks, caches, strict=True):
            x = block(x, cache)
        return x[:, -1:]

    def cached() -> Tensor:
        caches = [KVCache() for _ in blocks]
        return torch.cat([step(x[:, i : i + 1], caches) for i in range(TOKENS)], dim=1)

    def recomputed() -> Tensor:
        return torch.cat([step(x[:, : i + 1], [None] * n_layers) for i in range(TOKENS)], dim=1)

    torch.testing.assert_close(cached(), recomputed(), atol=1e-4, rtol=1e-4)
    return alternate({"caché": cached, "recalcular": recomputed}, runs, warm_up=1)


def main() -> None:
    parser = argparse.ArgumentParser(description="Mide la generación con caché y con menos cabezas KV.")
    parser.add_argument("--runs", type=int, default=RUNS, help=f"vueltas por medida (por defecto, {RUNS})")
    options = parser.parse_args()
    if options.runs < 2:
        parser.error("pide dos vueltas o más")
    torch.set_num_threads(1)
    report = {"environment": environment(), "runs": options.runs, "load_before": os.getloadavg()}
    print(", ".join(f"{key} {value}" for key, value in report["environment"].items()))

    print(f"\nUn token nuevo, d_model {D_MODEL}, h {NUM_HEADS}: razón MHA / menos cabezas KV (mediana [cuartiles])\n")
    print(f"{'lote':>5} {'contexto':>9} {'MHA, ms':>9}", *(f"{f'n_kv = {g}':>20}" for g in KV_HEADS[1:]))
    worst = float("inf")
    with torch.inference_mode():
        report["decoding"] = []
        for batch in BATCHES:
            for context in CONTEXTS:
                times = decode_times(batch, context, options.runs)
                ratios = {g: summary(times[str(KV_HEADS[0])], times[str(g)]) for g in KV_HEADS[1:]}
                worst = min(worst, *(ratio["median"] for ratio in ratios.values()))
                cells = [f"{decimal(r['median'])} [{decimal(r['q1'])}–{decimal(r['q3'])}]" for r in ratios.values()]
                whole = decimal(1000 * statistics.median(times[str(KV_HEADS[0])]), 1)
                print(f"{batch:>5} {context:>9} {whole:>9}", *(f"{cell:>20}" for cell in cells))
                report["decoding"].append({"batch": batch, "context": context, "ratios": ratios, "seconds": times})
        print(f"\n{TOKENS} tokens de uno en uno, cuatro bloques: razón recalcular el prefijo / con caché\n")
        report["generation"] = []
        slowest = float("inf")
        for d_model, num_heads, batch in GENERATIONS:
            times = generation_times(d_model, num_heads, batch, max(3, options.runs // 5))
            ratio = summary(times["recalcular"], times["caché"])
            slowest = min(slowest, ratio["median"])
            spread = f"{decimal(ratio['median'], 1)} [{decimal(ratio['q1'], 1)}–{decimal(ratio['q3'], 1)}]"
            print(f"  d_model {d_model}, lote {batch}: {spread}")
            report["generation"].append({"d_model": d_model, "batch": batch, "ratio": ratio, "seconds": times})

    print("\nPresupuesto (se informa, no se exige: una medida con carga no es una prueba):")
    goals = [
        ("menos cabezas KV frente a MHA, la peor", worst, 1.0),
        ("caché frente a recalcular, la peor", slowest, 10.0),
    ]
    for what, value, goal in goals:
        print(f"  {what}: {decimal(value)} (≥ {decimal(goal)}) {'✓' if value >= goal else '✗'}")
    report["load_after"] = os.getloadavg()
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    before, after = (decimal(report[moment][0], 1) for moment in ("load_before", "load_after"))
    print(f"\nCarga de la máquina: {before} al empezar, {after} al acabar.")
    print(f"Todos los tiempos: {OUT.relative_to(Path(__file__).parent.parent)}")


if __name__ == "__main__":
    main()
