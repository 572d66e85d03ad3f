"""Velocidad y memoria de `MultiHeadAttention` frente a lo que se usaría en su lugar.

    python -m benchmarks.attention               todo: lo que ejecuta «make bench»
    python -m benchmarks.attention --lengths 128 512 --runs 31
    python -m benchmarks.attention --no-memory

Autoatención causal en float32, con los mismos pesos en las cuatro capas, que antes de medir tienen que dar la misma
salida. En cada vuelta corren todas, en un mismo proceso y en orden rotatorio, y lo que cuenta es la razón entre
tiempos de la misma vuelta: así la carga de la máquina afecta a todas por igual. La memoria se mide en procesos aparte,
porque el máximo de un proceso no baja. Escribe benchmarks/out/attention.json, con todos los tiempos.
"""

import argparse
import json
import math
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import torch
from torch import Tensor, nn

from multicabeza import MultiHeadAttention

OUT = Path(__file__).parent / "out" / "attention.json"
SIZES = [(8, 128, 512, 8), (2, 512, 768, 12), (1, 1024, 768, 12), (1, 2048, 768, 12), (1, 4096, 768, 12)]
RUNS, WARM_UP = 15, 2
RIVALS = {
    "torch": "torch.nn.MultiheadAttention(need_weights=False), is_causal=True con la máscara que pide",
    "ingenua": "la fórmula tal cual: tres proyecciones, pesos explícitos, máscara en cada llamada",
    "gpt2": "GPT2Attention de transformers, attn_implementation='sdpa'",
}
MODES = {"forward": "ida", "forward+backward": "ida y vuelta"}
MEMORY_PATHS = {"fusionada": False, "explícita": True}


class NaiveAttention(nn.Module):
    """La atención multicabeza que escribiría cualquiera a partir de la fórmula."""

    def __init__(self, original: nn.MultiheadAttention) -> None:
        super().__init__()
        d_model, self.num_heads = original.embed_dim, original.num_heads
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(d_model, d_model) for _ in range(4))
        with torch.no_grad():
            weights, biases = original.in_proj_weight.chunk(3), original.in_proj_bias.chunk(3)
            for layer, weight, bias in zip((self.q_proj, self.k_proj, self.v_proj), weights, biases, strict=True):
                layer.weight.copy_(weight)
                layer.bias.copy_(bias)
        self.out_proj.load_state_dict(original.out_proj.state_dict())

    def forward(self, x: Tensor) -> Tensor:
        batch, n, d_model = x.shape
        query, key, value = (
            layer(x).view(batch, n, self.num_heads, -1).transpose(1, 2)
            for layer in (self.q_proj, self.k_proj, self.v_proj)
        )
        scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
        future = torch.triu(torch.ones(n, n, dtype=torch.bool), diagonal=1)
        weights = torch.softmax(scores.masked_fill(future, float("-inf")), dim=-1)
        return self.out_proj((weights @ value).transpose(1, 2).reshape(batch, n, d_model))


def gpt2_attention(original: nn.MultiheadAttention) -> nn.Module:
    """La atención de GPT-2 de transformers, con los mismos pesos."""
    from transformers import GPT2Config
    from transformers.models.gpt2.modeling_gpt2 import GPT2Attention

    config = GPT2Config(
        n_embd=original.embed_dim, n_head=original.num_heads, attn_pdrop=0.0, resid_pdrop=0.0, n_positions=8
    )
    config._attn_implementation = "sdpa"
    layer = GPT2Attention(config, layer_idx=0)
    with torch.no_grad():
        layer.c_attn.weight.copy_(original.in_proj_weight.T)  # Conv1D guarda la traspuesta
        layer.c_attn.bias.copy_(original.in_proj_bias)
        layer.c_proj.weight.copy_(original.out_proj.weight.T)
        layer.c_proj.bias.copy_(original.out_proj.bias)
    return layer


def contenders(n: int, d_model: int, num_heads: int) -> dict[str, tuple[nn.Module, Callable[[Tensor], Tensor]]]:
    """Las cuatro capas con los mismos pesos, y cómo se llama a cada una: x → salida."""
    original = nn.MultiheadAttention(d_model, num_heads, batch_first=True)
    nn.init.normal_(original.in_proj_bias, std=0.02)
    nn.init.normal_(original.out_proj.bias, std=0.02)
    ours, naive, gpt2 = MultiHeadAttention.from_torch(original), NaiveAttention(original), gpt2_attention(original)
    mask = nn.Transformer.generate_square_subsequent_mask(n)
    return {
        "multicabeza": (ours, lambda x: ours(x, is_causal=True)),
        "torch": (original, lambda x: original(x, x, x, need_weights=False, attn_mask=mask, is_causal=True)[0]),
        "ingenua": (naive, naive),
        "gpt2": (gpt2, lambda x: gpt2(x)[0]),
    }


def time_once(layer: nn.Module, call: Callable[[Tensor], Tensor], x: Tensor, gradient: Tensor | None) -> float:
    """Segundos de una pasada de ida o, con `gradient`, de ida y vuelta."""
    if gradient is None:
        with torch.no_grad():
            start = time.perf_counter()
            call(x)
            return time.perf_counter() - start
    layer.zero_grad(set_to_none=True)
    x.grad = None
    start = time.perf_counter()
    call(x).backward(gradient)
    return time.perf_counter() - start


def measure(size: tuple[int, int, int, int], mode: str, runs: int) -> dict[str, list[float]]:
    """Tiempos de cada capa en vueltas alternas, en segundos."""
    batch, n, d_model, num_heads = size
    torch.manual_seed(0)
    layers = contenders(n, d_model, num_heads)
    with_backward = mode == "forward+backward"
    x = torch.randn(batch, n, d_model, requires_grad=with_backward)
    gradient = torch.randn(batch, n, d_model) if with_backward else None
    with torch.no_grad():
        for layer, _ in layers.values():
            layer.train(with_backward)
        reference = layers["torch"][1](x)
        for name, (_, call) in layers.items():
            torch.testing.assert_close(call(x), reference, atol=1e-4, rtol=1e-3, msg=f"«{name}» no calcula lo mismo")
    times: dict[str, list[float]] = {name: [] for name in layers}
    names = list(layers)
    for turn in range(WARM_UP + runs):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            seconds = time_once(*layers[name], x, gradient)
            if turn >= WARM_UP:
                times[name].append(seconds)
    return times


def ratios(times: dict[str, list[float]], rival: str) -> dict[str, float]:
    """Razón tiempo del rival / tiempo nuestro, vuelta a vuelta: mediana, cuartiles y extremos (más de 1: ganamos)."""
    values = [theirs / ours for theirs, ours in zip(times[rival], times["multicabeza"], strict=True)]
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return {"median": statistics.median(values), "q1": low, "q3": high, "min": min(values), "max": max(values)}


def resident_mib() -> float:
    """Máximo de memoria residente de este proceso, en MiB."""
    unit = 2**20 if sys.platform == "darwin" else 2**10  # ru_maxrss: bytes en macOS, KiB en Linux
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def peak_memory(path: str, n: int, with_backward: bool) -> None:
    """Proceso aparte: imprime el máximo de memoria residente antes y después de una pasada, en MiB."""
    torch.manual_seed(0)
    layer = MultiHeadAttention(768, 12)

    def run(length: int) -> None:
        x = torch.randn(1, length, 768, requires_grad=with_backward)
        with torch.set_grad_enabled(with_backward):
            result = layer(x, is_causal=True, need_weights=MEMORY_PATHS[path])
        output = result[0] if MEMORY_PATHS[path] else result
        if with_backward:
            output.sum().backward()

    run(16)  # lo que PyTorch reserva la primera vez no es de la atención
    # Importar deja el máximo por encima de lo que queda ocupado: se rellena esa diferencia para que no tape nada.
    filler = []
    before = resident_mib()
    while resident_mib() <= before + 1:
        filler.append(bytearray(b"\1") * 2**20)
    before = resident_mib()
    run(n)
    print(json.dumps({"before": before, "peak": resident_mib()}))


def measure_memory(lengths: list[int]) -> list[dict]:
    rows = []
    for n in lengths:
        for mode in MODES:
            for path in MEMORY_PATHS:
                command = [sys.executable, __file__, "--memory-of", path, str(n), mode]
                answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout
                rows.append({"n": n, "mode": mode, "path": path, **json.loads(answer)})
    return rows


def decimal(x: float, digits: int = 2) -> str:
    return f"{x:.{digits}f}".replace(".", ",")


def print_times(rows: list[dict]) -> None:
    print("\nTiempo, en milisegundos (mediana), y razón rival / multicabeza (mediana [cuartiles]; más de 1: ganamos)\n")
    print(f"{'lote × n × d_model, h':<22}{'':<14}{'multicabeza':>12}", *(f"{name:>30}" for name in RIVALS))
    for row in rows:
        batch, n, d_model, num_heads = row["size"]
        cells = []
        for name in RIVALS:
            ratio = row["ratios"][name]
            cells.append(
                f"{decimal(row['median_ms'][name], 1):>10}  {decimal(ratio['median'])} "
                f"[{decimal(ratio['q1'])}–{decimal(ratio['q3'])}]".rjust(30)
            )
        label = f"{batch} × {n} × {d_model}, {num_heads}"
        ours = decimal(row["median_ms"]["multicabeza"], 1)
        print(f"{label:<22}{MODES[row['mode']]:<14}{ours:>12}", *cells)
    print()
    for name, what in RIVALS.items():
        print(f"  {name}: {what}")


def print_budget(rows: list[dict]) -> dict[str, float]:
    """Los dos presupuestos de velocidad: se informan, no se exigen (una medida con carga no es una prueba)."""
    trained = [row for row in rows if row["mode"] == "forward+backward"]
    against_torch = [row["ratios"]["torch"]["median"] for row in trained]
    against_naive = [row["ratios"]["ingenua"]["median"] for row in trained if row["size"][1] >= 2048]
    budget = {"worst_vs_torch": min(against_torch), "mean_vs_torch": statistics.mean(against_torch)}
    goals = [("frente a torch, la peor", budget["worst_vs_torch"], 0.97), ("de media", budget["mean_vs_torch"], 1.0)]
    if against_naive:
        budget["worst_vs_naive_from_2048"] = min(against_naive)
        goals.append(("frente a la ingenua desde n = 2048, la peor", budget["worst_vs_naive_from_2048"], 2.0))
    print("\nPresupuesto (ida y vuelta):")
    for what, value, goal in goals:
        print(f"  {what}: {decimal(value)} (≥ {decimal(goal)}) {'✓' if value >= goal else '✗'}")
    return budget


def print_memory(rows: list[dict]) -> None:
    print("\nMemoria máxima del proceso sobre la que ya ocupaba, en MiB (lote 1, d_model 768, h 12)\n")
    print(f"{'n':>6}  {'':<14}", *(f"{path:>12}" for path in MEMORY_PATHS), f"{'razón':>8}")
    extra = {(row["n"], row["mode"], row["path"]): row["peak"] - row["before"] for row in rows}
    for n, mode in dict.fromkeys((row["n"], row["mode"]) for row in rows):
        values = [extra[n, mode, path] for path in MEMORY_PATHS]
        ratio = decimal(values[1] / values[0], 1) if values[0] > 0 else "–"
        print(f"{n:>6}  {MODES[mode]:<14}", *(f"{decimal(value, 0):>12}" for value in values), f"{ratio:>8}")


def environment() -> dict:
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": version("transformers"),
        "multicabeza": version("multicabeza"),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "dtype": "float32",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Mide MultiHeadAttention frente a sus alternativas.")
    parser.add_argument("--runs", type=int, default=RUNS, help=f"vueltas por medida (por defecto, {RUNS})")
    parser.add_argument("--lengths", type=int, nargs="+", help="solo estas longitudes n")
    parser.add_argument("--no-memory", action="store_true", help="no mide la memoria")
    parser.add_argument("--memory-of", nargs=3, metavar=("VÍA", "N", "MODO"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory_of:
        path, n, mode = options.memory_of
        peak_memory(path, int(n), mode == "forward+backward")
        return

    sizes = [size for size in SIZES if not options.lengths or size[1] in options.lengths]
    if not sizes or options.runs < 2:
        parser.error(
            f"pide dos vueltas o más y alguna de estas longitudes: {', '.join(str(size[1]) for size in SIZES)}"
        )
    report = {"environment": environment(), "runs": options.runs, "load_before": os.getloadavg()}
    print(", ".join(f"{key} {value}" for key, value in report["environment"].items()))
    report["times"] = []
    for size in sizes:
        for mode in MODES:
            print(f"  midiendo {size}, {MODES[mode]}…", file=sys.stderr, flush=True)
            times = measure(size, mode, options.runs)
            report["times"].append(
                {
                    "size": size,
                    "mode": mode,
                    "median_ms": {name: 1000 * statistics.median(values) for name, values in times.items()},
                    "ratios": {name: ratios(times, name) for name in RIVALS},
                    "seconds": times,
                }
            )
    print_times(report["times"])
    report["budget"] = print_budget(report["times"])
    if not options.no_memory:
        report["memory_mib"] = measure_memory([size[1] for size in sizes if size[1] >= 512])
        print_memory(report["memory_mib"])
    report["load_after"] = os.getloadavg()
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    before, after = (decimal(report[moment][0], 1) for moment in ("load_before", "load_after"))
    print(f"\nCarga de la máquina: {before} al empezar, {after} al acabar.")
    print(f"Todos los tiempos: {OUT.relative_to(Path(__file__).parent.parent)}")


if __name__ == "__main__":
    main()
