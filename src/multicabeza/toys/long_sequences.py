"""Lo que cuesta una secuencia larga: tiempo y memoria de la atención, medidos, según su longitud (capítulo 09).

El archivo se lee de arriba abajo: las formas de calcular la atención que se comparan, su tiempo en vueltas alternas y
su memoria, que es el máximo de un proceso aparte. Las medidas son las del Transformer «base» de 2017 (d_model = 512,
h = 8), una secuencia, float32 y un solo hilo.

    python -m multicabeza.toys.long_sequences explicit 2048 forward     # lo que ejecuta cada proceso de la memoria

Letras de las formas: h cabezas, n tokens, d_k dimensión de una cabeza, w ventana.
"""

import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

D_MODEL, NUM_HEADS, WINDOW = 512, 8, 256
LENGTHS = (128, 256, 512, 1024, 2048, 4096, 8192)
LONGEST = {"explicit": 4096}
"""Hasta dónde se mide cada forma; las que faltan, hasta el final. La explícita pediría 4 GiB con n = 8192."""
ROUNDS, WARM_UP = 15, 2
MEMORY_LENGTHS = (512, 1024, 2048, 4096, 8192)
MEMORY_WAYS = ("projections", "explicit", "fused", "blocks")
MEMORY_RUNS = 3
MODES = ("forward", "training")


# --- Las formas de calcularla ----------------------------------------------------------------------------------------


def explicit_attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """La fórmula tal cual, con la matriz de n×n entera y dos veces: puntuaciones y pesos.

    Args:
        query: (1, h, n, d_k), como `key` y `value`.
        key: claves.
        value: valores.

    Returns:
        Tensor (1, h, n, d_k).
    """
    scores = query @ key.mT * query.shape[-1] ** -0.5  # (1, h, n, n)
    return scores.softmax(dim=-1) @ value


def fused_attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """El núcleo fusionado de PyTorch: mismas cuentas, por trozos, sin guardar la matriz."""
    return F.scaled_dot_product_attention(query, key, value)


def causal_fused_attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """El núcleo fusionado con máscara causal: se ahorra los trozos que caen enteros en el futuro."""
    return F.scaled_dot_product_attention(query, key, value, is_causal=True)


def masked_window_attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    """La ventana como máscara: se calcula la matriz entera y se tapa lo que cae fuera."""
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)


def block_window_attention(query: Tensor, key: Tensor, value: Tensor, window: int) -> Tensor:
    """La ventana por bloques: cada w consultas miran solo a su bloque y al anterior, y lo demás no se calcula.

    Da lo mismo que `sliding_window_mask(n, window)`: la ventana de una consulta cabe siempre en esos dos bloques. Se
    calculan 2·w puntuaciones por consulta y se usan w.

    Args:
        query: (batch, h, n, d_k), como `key` y `value`.
        key: claves.
        value: valores.
        window: posiciones que ve cada consulta, ella incluida.

    Returns:
        Tensor (batch, h, n, d_k).

    Fuente:
        Beltagy et al. (2020), §3.1 y apéndice A (la versión por trozos).
    """
    batch, h, n, d_k = query.shape
    blocks = math.ceil(n / window)
    extra = blocks * window - n
    query = F.pad(query, (0, 0, 0, extra)).view(batch * h, blocks, window, d_k)
    # Un bloque vacío delante, para que el primero también tenga anterior; (batch·h, blocks + 1, w, d_k).
    key, value = (F.pad(x, (0, 0, window, extra)).view(batch * h, blocks + 1, window, d_k) for x in (key, value))
    key, value = (torch.cat([x[:, :-1], x[:, 1:]], dim=2) for x in (key, value))  # (batch·h, blocks, 2·w, d_k)
    mask = block_window_mask(window, query.device)
    first = mask & (torch.arange(2 * window, device=mask.device) >= window)  # el primer bloque no tiene anterior
    output = F.scaled_dot_product_attention(query[:, 1:], key[:, 1:], value[:, 1:], attn_mask=mask)
    start = F.scaled_dot_product_attention(query[:, :1], key[:, :1], value[:, :1], attn_mask=first)
    return torch.cat([start, output], dim=1).view(batch, h, blocks * window, d_k)[:, :, :n]


def block_window_mask(window: int, device: torch.device | str | None = None) -> Tensor:
    """Qué ve cada consulta de un bloque, entre las 2·w claves del anterior y del suyo: (w, 2·w).

    La consulta i de un bloque está en la columna w + i: ve desde la i + 1 hasta la w + i.
    """
    column, row = torch.arange(2 * window, device=device), torch.arange(window, device=device)[:, None]
    return (column > row) & (column <= row + window)


def project(x: Tensor, w_in: Tensor, w_out: Tensor) -> Tensor:
    """La parte lineal de una capa: las cuatro proyecciones, sin la atención que va en medio.

    Args:
        x: (n, d_model).
        w_in: (3·d_model, d_model), Q, K y V juntas.
        w_out: (d_model, d_model).

    Returns:
        Tensor (n, d_model).
    """
    return F.linear(F.linear(x, w_in)[:, : x.shape[1]], w_out)


def build(n: int, seed: int, requires_grad: bool = False) -> dict[str, Callable[[], Tensor]]:
    """Lo que se compara con n tokens: nombre → una función sin argumentos que lo calcula.

    Args:
        n: tokens.
        seed: semilla de los datos.
        requires_grad: si se va a pedir el gradiente.

    Returns:
        Las formas que llegan hasta n. Crear la máscara no entra en el tiempo de «mask».
    """
    generator = torch.Generator().manual_seed(seed)

    def random(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator).requires_grad_(requires_grad)

    d_k = D_MODEL // NUM_HEADS
    x, query, key, value = random(n, D_MODEL), *(random(1, NUM_HEADS, n, d_k) for _ in range(3))
    w_in, w_out = random(3 * D_MODEL, D_MODEL), random(D_MODEL, D_MODEL)
    mask = torch.ones(n, n, dtype=torch.bool).tril().triu(1 - WINDOW)  # sliding_window_mask(n, WINDOW)
    ways = {
        "projections": lambda: project(x, w_in, w_out),
        "explicit": lambda: explicit_attention(query, key, value),
        "fused": lambda: fused_attention(query, key, value),
        "causal": lambda: causal_fused_attention(query, key, value),
        "mask": lambda: masked_window_attention(query, key, value, mask),
        "blocks": lambda: block_window_attention(query, key, value, WINDOW),
    }
    return {name: way for name, way in ways.items() if n <= LONGEST.get(name, n)}


# --- El tiempo -------------------------------------------------------------------------------------------------------


def alternate(ways: Mapping[str, Callable[[], Tensor]], rounds: int, warm_up: int = WARM_UP) -> dict[str, list[float]]:
    """Segundos de cada forma en vueltas alternas, en orden rotatorio, sin gradiente y con un hilo.

    Las que duran poco se repiten dentro de la vuelta hasta unos 3 ms, para que el reloj no cuente.

    Args:
        ways: nombre → función sin argumentos.
        rounds: vueltas que cuentan.
        warm_up: vueltas que no.

    Returns:
        Nombre → segundos por llamada, uno por vuelta.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    repeats = dict.fromkeys(ways, 1)
    names = list(ways)
    try:
        with torch.no_grad():
            for turn in range(warm_up + rounds):
                for name in names[turn % len(names) :] + names[: turn % len(names)]:
                    start = time.perf_counter()
                    for _ in range(repeats[name]):
                        ways[name]()
                    passed = (time.perf_counter() - start) / repeats[name]
                    if turn >= warm_up:
                        seconds[name].append(passed)
                    else:
                        repeats[name] = max(1, round(3e-3 / passed))
    finally:
        torch.set_num_threads(threads)
    return seconds


def quartiles(values: Sequence[float]) -> list[float]:
    """Primer cuartil, mediana y tercero."""
    return statistics.quantiles(values, n=4, method="inclusive")


def crossing(lengths: Sequence[int], ratios: Sequence[float]) -> float:
    """Desde qué n una razón pasa de 1, entre dos longitudes medidas: interpola en escala logarítmica.

    Args:
        lengths: longitudes, en orden.
        ratios: la razón en cada una.

    Returns:
        La longitud; infinito si nunca pasa de 1.
    """
    for i, (n, ratio) in enumerate(zip(lengths, ratios, strict=True)):
        if ratio >= 1:
            if i == 0:
                return float(n)
            before, previous = math.log(ratios[i - 1]), lengths[i - 1]
            share = -before / (math.log(ratio) - before)
            return float(previous * (n / previous) ** share)
    return math.inf


def slope(lengths: Sequence[int], values: Sequence[float]) -> float:
    """Exponente con que crece una medida: la pendiente de la recta en escala log–log (mínimos cuadrados)."""
    x, y = ([math.log(v) for v in series] for series in (lengths, values))
    return statistics.linear_regression(x, y).slope


# --- La memoria: el máximo de un proceso aparte ----------------------------------------------------------------------


def resident_bytes() -> int:
    """Máximo de memoria residente de este proceso, en bytes. Windows no lo ofrece así: allí no se puede rehacer."""
    import resource

    unit = 1 if sys.platform == "darwin" else 1024  # ru_maxrss: bytes en macOS, KiB en Linux
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def extra_bytes(way: str, n: int, mode: str) -> int:
    """Lo que sube el máximo de este proceso al calcular una forma: se llama en un proceso recién creado.

    Los datos de entrada se crean antes y no cuentan. Importar deja el máximo por encima de lo que queda ocupado: esa
    diferencia se rellena primero, para que no tape nada.

    Args:
        way: una de `MEMORY_WAYS`, o «nothing» para la medida en vacío.
        n: tokens.
        mode: «forward», sin gradiente, o «training», ida y vuelta.

    Returns:
        Bytes.
    """
    torch.set_num_threads(1)

    def run(call: Callable[[], Tensor]) -> None:
        with torch.set_grad_enabled(mode == "training"):
            output = call()
        if mode == "training":
            output.backward(torch.ones_like(output))

    run(build(16, 0, mode == "training")[MEMORY_WAYS[0] if way == "nothing" else way])  # lo que se reserva una vez
    call = (lambda: torch.zeros(1, requires_grad=True)) if way == "nothing" else build(n, 0, mode == "training")[way]
    filler = []
    before = resident_bytes()
    while resident_bytes() <= before + 2**20:
        filler.append(bytearray(b"\1") * 2**20)
    before = resident_bytes()
    run(call)
    return resident_bytes() - before


def peak_bytes(way: str, n: int, mode: str) -> int:
    """`extra_bytes` en un proceso nuevo: el máximo de un proceso no baja, así que cada medida necesita el suyo."""
    command = [sys.executable, "-m", "multicabeza.toys.long_sequences", way, str(n), mode]
    folder = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")])}
    answer = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
    return int(json.loads(answer)["bytes"])


def formula_bytes(way: str, n: int, mode: str) -> int | None:
    """Lo que dice la cuenta, para ponerlo al lado de lo medido; None si no hay una sencilla.

    La explícita tiene a la vez dos matrices de n×n por cabeza (puntuaciones y pesos); al volver, tres (los pesos, su
    gradiente y el de las puntuaciones). El núcleo fusionado, la salida y un número por consulta y cabeza.
    """
    scores = 4 * NUM_HEADS * n * n
    if way == "explicit":
        return (2 if mode == "forward" else 3) * scores
    if way == "fused" and mode == "forward":
        return 4 * n * D_MODEL + 4 * NUM_HEADS * n
    return None


# --- El registro -----------------------------------------------------------------------------------------------------


def record(seeds: list[int]) -> dict:
    """Tiempo, con un hilo y en vueltas alternas, y memoria máxima, de cada forma y longitud."""
    times: dict[str, dict] = {"ms": {}, "ratio": {}}
    for n in LENGTHS:
        seconds = alternate(build(n, seeds[0]), ROUNDS)
        base = seconds["projections"]
        times["ms"][str(n)] = {way: [round(1000 * q, 4) for q in quartiles(s)] for way, s in seconds.items()}
        times["ratio"][str(n)] = {
            way: [round(q, 4) for q in quartiles([mine / own for mine, own in zip(s, base, strict=True)])]
            for way, s in seconds.items()
        }
    memory: dict[str, dict] = {}
    for mode in MODES:
        empty = statistics.median(peak_bytes("nothing", 16, mode) for _ in range(MEMORY_RUNS))
        memory[mode] = {"nothing": empty}
        for n in MEMORY_LENGTHS:
            memory[mode][str(n)] = {
                way: [peak_bytes(way, n, mode) for _ in range(MEMORY_RUNS)]
                for way in MEMORY_WAYS
                if n <= LONGEST.get(way, n)
            }
    return {
        "d_model": D_MODEL, "num_heads": NUM_HEADS, "window": WINDOW, "threads": 1, "rounds": ROUNDS,
        "lengths": list(LENGTHS), "times": times, "memory": memory,
    }  # fmt: skip


if __name__ == "__main__":
    print(json.dumps({"bytes": extra_bytes(sys.argv[1], int(sys.argv[2]), sys.argv[3])}))
