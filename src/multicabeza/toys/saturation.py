"""Cuánto se satura la softmax con vectores al azar, con y sin dividir entre √d_k (capítulo 02).

Nada se entrena aquí: se sortean consultas y claves con componentes N(0, 1) y se mira qué queda del gradiente.
"""

import torch
from torch import Tensor

NUM_KEYS = 32
HEAD_DIMS = (4, 16, 64, 128, 256, 512)


def sample_scores(head_dim: int, num_queries: int = 1_000, seed: int = 0) -> Tensor:
    """Productos q·k sin escalar de consultas y claves N(0, 1); cada consulta tiene sus 32 claves.

    Args:
        head_dim: d_k.
        num_queries: número de consultas.
        seed: fija el sorteo.

    Returns:
        Tensor (num_queries, 32).
    """
    generator = torch.Generator().manual_seed(seed)
    scores = []
    for start in range(0, num_queries, 200):  # de 200 en 200, para no guardar todas las claves a la vez
        size = min(200, num_queries - start)
        query = torch.randn(size, head_dim, 1, generator=generator)
        key = torch.randn(size, NUM_KEYS, head_dim, generator=generator)
        scores.append((key @ query)[..., 0])
    return torch.cat(scores)


def jacobian_norm(weights: Tensor) -> Tensor:
    """Norma de Frobenius del jacobiano de la softmax: ‖diag(p) − p pᵀ‖ = √(Σp² − 2Σp³ + (Σp²)²).

    Es lo que responde la softmax: cuánto cambian los pesos cuando cambian un poco las puntuaciones.

    Args:
        weights: pesos p (..., n_k); cada fila suma 1.

    Returns:
        Tensor (...,), entre 0 (saturada) y algo más de 0,5.
    """
    squares, cubes = weights.pow(2).sum(-1), weights.pow(3).sum(-1)
    return (squares - 2 * cubes + squares.pow(2)).clamp_min(0).sqrt()


def sorted_weights(head_dim: int, scaled: bool) -> Tensor:
    """Reparto medio del peso: en cada consulta se ordenan sus 32 pesos de mayor a menor, y se promedia.

    Args:
        head_dim: d_k.
        scaled: si las puntuaciones se dividen entre √d_k.

    Returns:
        Tensor (32,), decreciente, que suma 1.
    """
    scores = sample_scores(head_dim) / (head_dim**0.5 if scaled else 1)
    return scores.softmax(-1).sort(descending=True).values.mean(0)


def measure(head_dim: int, scaled: bool, seed: int = 0) -> dict[str, float]:
    """Resume la saturación para una dimensión.

    Args:
        head_dim: d_k.
        scaled: si las puntuaciones se dividen entre √d_k.
        seed: fija el sorteo.

    Returns:
        Desviación típica de las puntuaciones, mediana y media de la norma del jacobiano, proporción de consultas con
        norma menor que 0,05 y media del peso mayor.
    """
    scores = sample_scores(head_dim, seed=seed) / (head_dim**0.5 if scaled else 1)
    weights = scores.softmax(-1)
    norm = jacobian_norm(weights)
    return {
        "score_std": scores.std().item(),
        "median_norm": norm.median().item(),
        "mean_norm": norm.mean().item(),
        "share_saturated": (norm < 0.05).float().mean().item(),
        "largest_weight": weights.amax(-1).mean().item(),
    }


def record(seeds: list[int]) -> dict:
    """Las medidas por d_k, con y sin escala, una cifra por semilla."""
    values: dict = {"num_queries": 1_000, "num_keys": NUM_KEYS}
    for arm, scaled in (("scaled", True), ("raw", False)):
        values[arm] = {}
        for head_dim in HEAD_DIMS:
            rows = [measure(head_dim, scaled, seed) for seed in seeds]
            values[arm][str(head_dim)] = {name: [round(row[name], 5) for row in rows] for name in rows[0]}
    return values
