"""Intervalos de confianza: t de Student entre semillas y Wilson para proporciones.

Los dos son del 95 % si no se pide otra cosa. El primero responde «¿cuánto cambiaría la media con otras semillas?»;
el segundo, «¿cuánto cambiaría la proporción con otros ejemplos?». No se sustituyen uno a otro.
"""

import math
from collections.abc import Sequence
from statistics import NormalDist, fmean, stdev
from typing import NamedTuple

import numpy as np


class Interval(NamedTuple):
    """Valor central y extremos de un intervalo."""

    mean: float
    low: float
    high: float

    def __format__(self, spec: str) -> str:
        """Escribe «media [inferior, superior]» con el formato numérico que se pida."""
        return f"{self.mean:{spec}} [{self.low:{spec}}, {self.high:{spec}}]"


def t_quantile(probability: float, degrees: int) -> float:
    """Cuantil de la t de Student: el valor que deja por debajo esa probabilidad (≥ 0,5).

    Integra la densidad por trapecios, con t = tan(u) para que las colas quepan en un intervalo finito.

    Args:
        probability: entre 0,5 y 1, sin llegar a 1.
        degrees: grados de libertad, ≥ 1.

    Returns:
        El cuantil, con unas cuatro cifras exactas.

    Raises:
        ValueError: si la probabilidad o los grados de libertad no valen.
    """
    if not 0.5 <= probability < 1 or degrees < 1:
        raise ValueError(f"Se esperaba 0,5 ≤ probabilidad < 1 y grados ≥ 1; llegaron {probability} y {degrees}.")
    angle = np.linspace(0, math.pi / 2, 200_001)[:-1]
    log_norm = math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2) - 0.5 * math.log(degrees * math.pi)
    value = np.tan(angle)
    density = np.exp(log_norm - (degrees + 1) / 2 * np.log1p(value**2 / degrees)) * (1 + value**2)
    below = 0.5 + np.concatenate([[0], np.cumsum((density[1:] + density[:-1]) / 2) * angle[1]])
    return float(np.interp(probability, below, value))


def t_interval(values: Sequence[float], confidence: float = 0.95) -> Interval:
    """Intervalo de la media entre semillas: media ± t · s / √n.

    Supone que las semillas son independientes y su reparto, más o menos normal; con pocas semillas, t lo ensancha.

    Args:
        values: una medida por semilla, al menos dos.
        confidence: nivel de confianza.

    Returns:
        Media y extremos.

    Raises:
        ValueError: con menos de dos valores, o si alguno no es un número finito.
    """
    try:
        numbers = [float(value) for value in values]
    except (TypeError, ValueError):
        raise ValueError(f"Se esperaba una lista de números, uno por semilla; llegó {values!r}.") from None
    values = numbers
    if len(values) < 2:
        raise ValueError(f"Un intervalo entre semillas necesita al menos 2 valores; llegó {len(values)}.")
    if not all(map(math.isfinite, values)):
        raise ValueError(f"Se esperaban números finitos y llegó {values}. Lo habitual: una semilla que se desbordó.")
    mean = fmean(values)
    half = t_quantile((1 + confidence) / 2, len(values) - 1) * stdev(values) / math.sqrt(len(values))
    return Interval(mean, mean - half, mean + half)


def wilson_interval(hits: int, n: int, confidence: float = 0.95) -> Interval:
    """Intervalo de Wilson para una proporción: no se sale de [0, 1] ni se anula con 0 o n aciertos.

    Fuente: Wilson (1927), «Probable Inference, the Law of Succession, and Statistical Inference».

    Args:
        hits: aciertos, entre 0 y n.
        n: casos, ≥ 1.
        confidence: nivel de confianza.

    Returns:
        Proporción observada y extremos.

    Raises:
        ValueError: si los aciertos no están entre 0 y n.
    """
    try:
        fits = math.isfinite(n) and n >= 1 and 0 <= hits <= n
    except (TypeError, ValueError, RuntimeError):
        fits = False
    if not fits:
        raise ValueError(
            f"Se esperaban entre 0 y n aciertos con n ≥ 1; llegaron {hits} de {n}. Lo habitual: los dos al revés, o "
            "pasar la lista de aciertos en vez de cuántos son."
        )
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    share = hits / n
    center = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * math.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    return Interval(share, max(0.0, center - half), min(1.0, center + half))
