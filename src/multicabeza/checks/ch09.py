"""Comprobaciones del capítulo 09: la ventana deslizante, la memoria de las puntuaciones, y la softmax y la atención por
trozos.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch

from .ch05 import _pairs_of
from .compare import number
from .framework import Call, Case, Check, KnownMistake, out_of_reach

# 9.1 · Ventana deslizante -----------------------------------------------------------------------------------------


@out_of_reach
def sliding_window_mask(n, window):
    """True en (i, j) si i − window < j ≤ i. Beltagy et al. (2020), §3.1, en su forma causal."""
    positions = torch.arange(n)
    behind = positions[:, None] - positions  # cuánto queda atrás la clave
    return (behind >= 0) & (behind < window)


def _behind(n):
    """(n, n): i − j, cuánto queda atrás la clave j de la consulta i."""
    return torch.arange(n)[:, None] - torch.arange(n)


def _where(condition):
    """La máscara que permite lo que cumpla `condition(i − j, window)`."""
    return lambda n, window: condition(_behind(n), window)


_right_window = _where(lambda behind, window: (behind >= 0) & (behind < window))


def _negative_start(n, window):
    mask = torch.zeros(n, n, dtype=torch.bool)
    for i in range(n):
        mask[i, i - window + 1 : i + 1] = True
    return mask


def _sum_of_diagonals(n, window):
    return sum(torch.diag(torch.ones(n - k), -k) for k in range(window)).bool()


def _rows_from_the_first_full(n, window):
    mask = torch.zeros(n, n, dtype=torch.bool)
    for i in range(window - 1, n):
        mask[i, i - window + 1 : i + 1] = True
    return mask


def _rows_after_the_first_full(n, window):
    mask = _right_window(n, window).clone()
    mask[:window] = False
    return mask


def _negative_start_and_one_more(n, window):
    mask = torch.zeros(n, n, dtype=torch.bool)
    for i in range(n):
        mask[i, i - window : i + 1] = True
    return mask


def _blocks(n, window):
    block = torch.arange(n) // window
    return block[:, None] == block


def _row_by_row_list(n, window):
    return [[0 <= i - j < window for j in range(n)] for i in range(n)]


WINDOW = Check(
    id="9.1",
    reference=sliding_window_mask,
    cases=(
        Case("secuencia corta", lambda generator: Call((9, 4))),
        Case("secuencia larga", lambda generator: Call((40, 12))),
        Case("ventana más ancha que la secuencia", lambda generator: Call((6, 10))),
    ),
    mistakes=(
        KnownMistake(
            "uno de más",
            _where(lambda behind, window: (behind >= 0) & (behind <= window)),
            "La ventana tiene un token de más: cuentas `window` anteriores y, aparte, el propio. Él también ocupa "
            "sitio.",
        ),
        KnownMistake(
            "uno de menos",
            _where(lambda behind, window: (behind >= 0) & (behind < window - 1)),
            "La ventana se queda corta en un token. Contándose a sí mismo, cada uno ve `window`.",
        ),
        KnownMistake(
            "sin la diagonal",
            _where(lambda behind, window: (behind > 0) & (behind < window)),
            "Ningún token se ve a sí mismo, y el primero se queda sin nada. La diagonal forma parte de la ventana.",
        ),
        KnownMistake(
            "los window anteriores",
            _where(lambda behind, window: (behind > 0) & (behind <= window)),
            "Cada token ve los `window` anteriores y no se ve a sí mismo. Corre la ventana un puesto: él es el último.",
        ),
        KnownMistake(
            "sin causalidad",
            _where(lambda behind, window: behind.abs() < window),
            "La ventana se extiende a los dos lados y deja ver el futuro. Quédate con la mitad de abajo.",
        ),
        KnownMistake(
            "a los dos lados, con uno de más",
            _where(lambda behind, window: behind.abs() <= window),
            "La ventana va a los dos lados y con un token de más en cada uno. Solo hacia atrás, y contando el propio.",
        ),
        KnownMistake(
            "centrada",
            _where(lambda behind, window: behind.abs() <= window // 2),
            "La ventana está centrada en cada token, como en Longformer: media hacia atrás y media hacia delante. Aquí "
            "es causal: entera hacia atrás.",
        ),
        KnownMistake(
            "polaridad al revés",
            lambda n, window: ~_right_window(n, window),
            "True está en lo que queda fuera de la ventana. True es «puede atender»: niega el resultado.",
        ),
        KnownMistake(
            "lo que queda fuera por detrás",
            _where(lambda behind, window: behind >= window),
            "Permites justo lo que la ventana deja atrás, lo más viejo. Es lo que hay que quitarle al triángulo.",
        ),
        KnownMistake(
            "números en vez de booleanos",
            lambda n, window: _right_window(n, window).float(),
            "La franja está bien, pero hecha de unos y ceros. Conviértela en booleanos.",
        ),
        KnownMistake(
            "números y polaridad al revés",
            lambda n, window: (~_right_window(n, window)).float(),
            "Son unos y ceros, con los unos fuera de la ventana. Pasa a booleanos y dales la vuelta.",
        ),
        KnownMistake(
            "máscara aditiva",
            lambda n, window: torch.zeros(n, n).masked_fill(~_right_window(n, window), float("-inf")),
            "Es una máscara para sumar a las puntuaciones, de ceros y −∞. Se pide la booleana: compara con cero.",
        ),
        KnownMistake(
            "máscara aditiva con un número grande",
            lambda n, window: torch.zeros(n, n).masked_fill(~_right_window(n, window), -1e9),
            "Es una máscara para sumar, con un número muy negativo fuera de la ventana. Se pide la booleana.",
        ),
        KnownMistake(
            "solo causal",
            _where(lambda behind, window: behind >= 0),
            "Cada token ve todo lo anterior: la ventana no limita nada. Quita lo que queda `window` puestos atrás o "
            "más.",
        ),
        KnownMistake(
            "solo el límite de atrás",
            _where(lambda behind, window: behind < window),
            "Limitas por detrás y dejas ver todo el futuro. Falta la otra condición, la causal.",
        ),
        KnownMistake(
            "traspuesta",
            _where(lambda behind, window: (behind <= 0) & (-behind < window)),
            "La ventana mira hacia delante: cada token se ve a sí mismo y a los siguientes. Fila es quien mira; "
            "traspón.",
        ),
        KnownMistake(
            "por bloques",
            lambda n, window: _blocks(n, window) & (_behind(n) >= 0),
            "Divides la secuencia en bloques y nadie ve el bloque anterior. La ventana se desliza: cada token tiene la "
            "suya, que empieza `window` − 1 puestos antes.",
        ),
        KnownMistake(
            "por bloques, sin causalidad",
            _blocks,
            "Divides la secuencia en bloques, y dentro de cada uno se ve también el futuro. La ventana es de cada "
            "token y va hacia atrás.",
        ),
        KnownMistake(
            "en círculo",
            _where(lambda behind, window: behind % len(behind) < window),
            "Los primeros tokens ven los últimos: la ventana da la vuelta, como hace `roll`. Al principio se ve lo que "
            "hay y nada más; añade la condición causal.",
        ),
        KnownMistake(
            "salteada",
            _where(lambda behind, window: (behind >= 0) & (behind % window == 0)),
            "Cada token ve uno de cada `window`: es una ventana salteada. Aquí los que ve son vecinos.",
        ),
        KnownMistake(
            "con sumidero",
            lambda n, window: _right_window(n, window) | (torch.arange(n) == 0),
            "El primer token queda siempre a la vista: le has dejado un sumidero. Es buena idea, pero aquí no se pide.",
        ),
        KnownMistake(
            "los primeros de la secuencia",
            lambda n, window: (_behind(n) >= 0) & (torch.arange(n) < window),
            "Todos ven los primeros `window` tokens de la secuencia. La ventana acompaña a cada token: lo que cuenta "
            "es i − j, no j.",
        ),
        KnownMistake(
            "los últimos de la secuencia",
            lambda n, window: (_behind(n) >= 0) & (torch.arange(n) >= n - window),
            "Solo se pueden ver los últimos `window` tokens de la secuencia, sea quien sea quien mira. Compara j con "
            "i, no con n.",
        ),
        KnownMistake(
            "primeras filas vacías",
            _rows_from_the_first_full,
            "Las primeras filas están vacías: empiezas en la primera ventana completa. Al principio se ve lo que hay, "
            "aunque sean menos de `window`.",
        ),
        KnownMistake(
            "índice negativo",
            _negative_start,
            "En las primeras filas el recorte empieza en un número negativo, que Python cuenta desde el final. No "
            "bajes de 0: `max(0, …)`.",
        ),
        KnownMistake(
            "índice negativo y uno de más",
            _negative_start_and_one_more,
            "El recorte de cada fila empieza en i − window: sobra un token, y en las primeras filas el índice es "
            "negativo y cuenta desde el final. Empieza en `max(0, i - window + 1)`.",
        ),
        KnownMistake(
            "primeras filas vacías, hasta la ventana",
            _rows_after_the_first_full,
            "Las primeras `window` filas están vacías: el bucle empieza en la fila `window`. Todas ven algo, "
            "desde la 0.",
        ),
        KnownMistake(
            "resta de booleanos",
            lambda n, window: (_behind(n) >= 0) - (_behind(n) >= window),
            "Restas dos máscaras de booleanos, y torch no los resta. Para quitar una de otra, `a & ~b`.",
            error="Subtraction",
        ),
        KnownMistake(
            "suma de diagonales",
            _sum_of_diagonals,
            "Cuando la ventana es más ancha que la secuencia, pides diagonales que no existen. Para antes: no hay más "
            "de n.",
            error="negative dimension|^ValueError|^IndexError|out of range|out of bounds",
        ),
        KnownMistake(
            "ventana fija en doce",
            lambda n, window: _right_window(n, 12),
            "La ventana mide siempre lo mismo: `window` no interviene. Usa el argumento.",
        ),
        KnownMistake(
            "ventana fija en cuatro",
            lambda n, window: _right_window(n, 4),
            "Das por hecho cuánto mide la ventana, y solo acierta en un caso. Lo dice `window`.",
        ),
        KnownMistake(
            "todo permitido",
            lambda n, window: torch.ones(n, n, dtype=torch.bool),
            "Todo queda permitido: faltan las dos condiciones, o las unes con un «o» en vez de un «y». Son no ver el "
            "futuro y no pasar de `window` hacia atrás, las dos a la vez.",
        ),
        KnownMistake(
            "comparaciones encadenadas",
            lambda n, window: 0 <= _behind(n) < window,
            "Encadenas dos comparaciones de tensores, o las unes con `and`, y Python pide un solo verdadero o falso. "
            "Escríbelas por separado, entre paréntesis, y únelas con `&`.",
            error="ambiguous",
        ),
        KnownMistake(
            "un trozo de futuro",
            _where(lambda behind, window: behind > -window),
            "Se ve todo el pasado y además un trozo de futuro, del tamaño de la ventana. El límite va al otro lado: "
            "hacia atrás.",
        ),
        KnownMistake(
            "lo viejo, desde el límite",
            _where(lambda behind, window: behind >= window - 1),
            "Permites lo que queda en el límite de la ventana y más atrás. Es lo contrario: de ahí hacia acá.",
        ),
        KnownMistake(
            "media ventana",
            _where(lambda behind, window: (behind >= 0) & (behind <= window // 2)),
            "Solo miras media ventana hacia atrás, como si la otra mitad fuese hacia delante. Entera, hacia atrás.",
        ),
        KnownMistake(
            "solo la diagonal",
            lambda n, window: torch.eye(n, dtype=torch.bool),
            "Cada token se ve solo a sí mismo. Añade los `window` − 1 anteriores.",
        ),
        KnownMistake(
            "solo el anterior y él mismo",
            _where(lambda behind, window: (behind >= 0) & (behind < 2)),
            "Cada token ve el anterior y a sí mismo, mida lo que mida la ventana. Usa `window`.",
        ),
        KnownMistake(
            "nada permitido",
            lambda n, window: torch.zeros(n, n, dtype=torch.bool),
            "Nadie ve nada: todo es False, porque dos condiciones no se cumplen a la vez. Prueba con n = 3 en un "
            "papel.",
        ),
        KnownMistake(
            "sin la primera dimensión",
            lambda n, window: _right_window(n, window)[None],
            "Sobra una dimensión delante. La máscara es (n, n): se extiende sola al lote y a las cabezas.",
        ),
        KnownMistake(
            "con dos dimensiones de más",
            lambda n, window: _right_window(n, window)[None, None],
            "Sobran dos dimensiones delante, las de lote y cabezas. Devuelve (n, n).",
        ),
        KnownMistake(
            "una fila y una columna de más",
            lambda n, window: _right_window(n + 1, window),
            "La máscara tiene una fila y una columna de más. Son n tokens.",
        ),
        KnownMistake(
            "n por window",
            lambda n, window: torch.ones(n, window, dtype=torch.bool),
            "La máscara es de n por `window`: una columna por hueco de la ventana. Se piden n columnas, una por clave.",
        ),
        KnownMistake(
            "tabla de 32",
            lambda n, window: _right_window(32, window)[:n, :n],
            "Con secuencias largas la máscara se queda corta: sale de una de tamaño fijo. Hazla de n por n.",
        ),
        KnownMistake(
            "una lista",
            _row_by_row_list,
            "Los valores son los que se piden, en una lista de listas de Python. Conviértela con `torch.tensor`.",
        ),
    ),
)

# 9.2 · La memoria de las puntuaciones -----------------------------------------------------------------------------


@out_of_reach
def score_memory(n, num_heads, bytes_per_element=2, batch=1):
    """batch·h·n²·bytes: las matrices QKᵀ de una capa. Vaswani et al. (2017), ec. 1."""
    return batch * num_heads * n * n * bytes_per_element


class _Size(NamedTuple):
    """Los argumentos de 9.2."""

    n: int
    heads: int
    width: int
    batch: int


@dataclass(frozen=True)
class _ScoreMemory:
    """La cuenta, factor a factor. Un error conocido cambia uno de ellos, o lo que se hace al final."""

    matrix: Callable = lambda s: s.n**2
    heads: Callable = lambda s: s.heads
    width: Callable = lambda s: s.width
    batch: Callable = lambda s: s.batch
    after: Callable = lambda total, s: total

    def __call__(self, n, num_heads, bytes_per_element=2, batch=1):
        s = _Size(n, num_heads, bytes_per_element, batch)
        return self.after(math.prod(factor(s) for factor in (self.matrix, self.heads, self.width, self.batch)), s)


def _scores_in_float32(n, num_heads, bytes_per_element=4, batch=1):
    return _ScoreMemory()(n, num_heads, bytes_per_element, batch)


def _scores_one_byte(n, num_heads, bytes_per_element=1, batch=1):
    return _ScoreMemory()(n, num_heads, bytes_per_element, batch)


def _times(factor):
    return lambda total, s: factor * total


def _xor_somewhere(value, n, num_heads, bytes_per_element=2, batch=1):
    """¿Es la cuenta con `n^2`, vayan donde vayan los otros factores? `^` se hace lo último: parte el producto."""
    others = (num_heads, bytes_per_element, batch)
    found = {(n ^ 2) * math.prod(others)}  # con paréntesis
    for before in itertools.product((0, 1), repeat=3):
        left = math.prod(x for x, is_left in zip(others, before, strict=True) if is_left)
        found.add((n * left) ^ (2 * (math.prod(others) // left)))
    return number(value) in found


def _rounded_unit(value, *args, **kwargs):
    """¿Es la cuenta buena, pasada a otra unidad y redondeada?"""
    mine, total = number(value), _ScoreMemory()(*args, **kwargs)
    units = [base**power for base in (1024, 1000) for power in (1, 2, 3)]
    return mine is not None and any(mine == round(total / unit, digits) for unit in units for digits in range(4))


MEMORY_MISTAKES = (
    KnownMistake(
        "n sin elevar",
        _ScoreMemory(matrix=lambda s: s.n),
        "La memoria te crece con n. Cada token se compara con los n: la matriz es de n por n.",
    ),
    KnownMistake(
        "2·n en vez de n²",
        _ScoreMemory(matrix=lambda s: 2 * s.n),
        "Duplicas n en vez de elevarlo al cuadrado. En Python, el cuadrado es `n ** 2` o `n * n`.",
    ),
    KnownMistake(
        "2 elevado a n",
        _ScoreMemory(matrix=lambda s: 2**s.n),
        "Elevas 2 a n, y sale un número inmenso. Es al revés: n elevado a 2.",
    ),
    KnownMistake(
        "n al cubo",
        _ScoreMemory(matrix=lambda s: s.n**3),
        "La memoria te crece con el cubo de n. Una matriz n por n tiene n² números, y hay una por cabeza.",
    ),
    KnownMistake(
        "^ en vez de **",
        _ScoreMemory(matrix=lambda s: s.n ^ 2),
        "En Python, `^` no eleva: compara los bits de los dos números. Usa `**`.",
        seen=_xor_somewhere,
    ),
    KnownMistake(
        "media matriz",
        _ScoreMemory(matrix=lambda s: s.n * (s.n + 1) // 2),
        "Cuentas solo la mitad de abajo, la del pasado. La matriz se guarda entera, aunque después se tape.",
    ),
    KnownMistake(
        "la mitad",
        _ScoreMemory(after=lambda total, s: total / 2),
        "Sale la mitad de lo debido. Cuenta la matriz entera, con todos sus bytes: la máscara no ahorra memoria.",
    ),
    KnownMistake(
        "sin la diagonal",
        _ScoreMemory(matrix=lambda s: s.n * (s.n - 1)),
        "Falta la puntuación de cada token consigo mismo. También ocupa: n por n.",
    ),
    KnownMistake(
        "una sola cabeza",
        _ScoreMemory(heads=lambda s: 1),
        "Es la matriz de una sola cabeza. Cada una tiene la suya: usa `num_heads`.",
    ),
    KnownMistake(
        "entre las cabezas",
        _ScoreMemory(heads=lambda s: 1 / s.heads),
        "Repartes la matriz entre las cabezas, y con más cabezas ocupa menos. Cada una tiene una matriz n por n "
        "entera: multiplica.",
    ),
    KnownMistake(
        "cabezas al cuadrado",
        _ScoreMemory(heads=lambda s: s.heads**2),
        "El número de cabezas entra dos veces, como si se comparasen unas con otras. Cada una compara tokens, por su "
        "cuenta.",
    ),
    KnownMistake(
        "doce cabezas",
        _ScoreMemory(heads=lambda s: 12),
        "Das por hecho cuántas cabezas hay, las de BERT o GPT-2. Lo dice `num_heads`.",
    ),
    KnownMistake(
        "elementos en vez de bytes",
        _ScoreMemory(width=lambda s: 1),
        "Cuentas puntuaciones, no lo que ocupan. Multiplica por los bytes de cada una.",
    ),
    KnownMistake(
        "dos bytes siempre",
        _ScoreMemory(width=lambda s: 2),
        "Con otros bytes por elemento sale lo mismo: los tienes escritos dentro. Usa `bytes_per_element`.",
    ),
    KnownMistake(
        "cuatro bytes siempre",
        _ScoreMemory(width=lambda s: 4),
        "Cuentas siempre en float32. Los bytes de cada número los dice `bytes_per_element`.",
    ),
    KnownMistake(
        "cuatro bytes por omisión",
        _scores_in_float32,
        "Si se dan los bytes aciertas, y si faltan no: has cambiado su valor por omisión. Déjalo como en el enunciado.",
    ),
    KnownMistake(
        "un byte por omisión",
        _scores_one_byte,
        "Si faltan los bytes cuentas elementos: el valor por omisión no puede ser 1. Copia el del enunciado.",
    ),
    KnownMistake(
        "bytes al cuadrado",
        _ScoreMemory(width=lambda s: s.width**2),
        "Los bytes entran dos veces en la cuenta. Cada número los ocupa una vez.",
    ),
    KnownMistake(
        "sin el lote",
        _ScoreMemory(batch=lambda s: 1),
        "El lote no cambia nada: es la memoria de una secuencia. Cada una tiene sus matrices; usa `batch`.",
    ),
    KnownMistake(
        "el lote como más tokens",
        _ScoreMemory(matrix=lambda s: (s.n * s.batch) ** 2, batch=lambda s: 1),
        "El lote queda elevado al cuadrado: lo tratas como una secuencia más larga. Las secuencias no se miran entre "
        "sí.",
    ),
    KnownMistake(
        "lote sumado",
        _ScoreMemory(batch=lambda s: 1, after=lambda total, s: total + s.batch - 1),
        "El lote se suma en vez de multiplicar. Son `batch` secuencias, cada una con todas sus matrices.",
    ),
    KnownMistake(
        "lote y cabezas sumados",
        _ScoreMemory(heads=lambda s: s.heads + s.batch - 1, batch=lambda s: 1),
        "Sumas cabezas y lote. En cada secuencia hay una matriz por cabeza: se multiplican.",
    ),
    KnownMistake(
        "puntuaciones y pesos",
        _ScoreMemory(after=_times(2)),
        "Sale el doble: cuentas también los pesos, o dos cosas como en la caché. Se piden solo las puntuaciones.",
    ),
    KnownMistake(
        "Q, K y V también",
        _ScoreMemory(after=_times(3)),
        "Sale el triple, como si consultas, claves y valores tuviesen cada cual su matriz n por n. Las puntuaciones "
        "son una sola por cabeza.",
    ),
    KnownMistake(
        "por d_k",
        _ScoreMemory(after=_times(64)),
        "Multiplicas por la dimensión de la cabeza. Un producto escalar suma d productos y deja un solo número.",
    ),
    KnownMistake(
        "todas las capas",
        _ScoreMemory(after=_times(32)),
        "Multiplicas por las capas de un modelo. Se pide una sola capa: las de otras no están en memoria a la vez.",
    ),
    KnownMistake(
        "doce capas",
        _ScoreMemory(after=_times(12)),
        "Multiplicas por doce capas. Se pide la memoria de una.",
    ),
    KnownMistake(
        "en bits",
        _ScoreMemory(after=_times(8)),
        "El resultado está en bits: ocho por cada byte. Se piden bytes.",
    ),
    KnownMistake(
        "bytes por bits",
        _ScoreMemory(after=lambda total, s: total / 8),
        "Divides entre ocho, como si `bytes_per_element` fuesen bits. Ya son bytes: no los conviertas.",
    ),
    KnownMistake(
        "en KiB",
        _ScoreMemory(after=lambda total, s: total / 1024),
        "Divides entre 1024: el resultado está en KiB. Deja los bytes.",
    ),
    KnownMistake(
        "en MiB",
        _ScoreMemory(after=lambda total, s: total / 1024**2),
        "El resultado está en MiB, y se piden bytes. Quita la conversión.",
    ),
    KnownMistake(
        "en GiB",
        _ScoreMemory(after=lambda total, s: total / 1024**3),
        "El resultado está en GiB, y se piden bytes. No conviertas: así se comparan tamaños pequeños y grandes.",
    ),
    KnownMistake(
        "en kB",
        _ScoreMemory(after=lambda total, s: total / 1000),
        "El resultado está en kB: divides entre mil. Se piden bytes.",
    ),
    KnownMistake(
        "en MB",
        _ScoreMemory(after=lambda total, s: total / 10**6),
        "El resultado está en MB, millones de bytes. Deja la cuenta en bytes.",
    ),
    KnownMistake(
        "en GB",
        _ScoreMemory(after=lambda total, s: total / 10**9),
        "El resultado está en GB. Se piden los bytes tal como salen de la cuenta.",
    ),
    KnownMistake(
        "redondeado en otra unidad",
        lambda *args, **kwargs: round(_ScoreMemory()(*args, **kwargs) / 2**20, 2),
        "Pasas el resultado a otra unidad y lo redondeas. Devuelve todos los bytes, sin dividir.",
        seen=_rounded_unit,
    ),
    KnownMistake(
        "la caché",
        _ScoreMemory(matrix=lambda s: 2 * 64 * s.n),
        "Has contado las claves y los valores, que crecen con n. Las puntuaciones son otra cosa: una por cada pareja "
        "de tokens.",
    ),
    KnownMistake(
        "factores sumados",
        lambda n, num_heads, bytes_per_element=2, batch=1: n**2 + num_heads + bytes_per_element + batch,
        "Sumas los tamaños. En cada secuencia hay varias cabezas, en cada cabeza n² números y en cada número varios "
        "bytes: se multiplican.",
    ),
    KnownMistake(
        "la cuenta en texto",
        lambda *args, **kwargs: f"{_ScoreMemory()(*args, **kwargs)} B",
        "Devuelves un texto con la cuenta. Se pide el número.",
        seen=lambda value, *_, **__: isinstance(value, str),
    ),
)

MEMORY = Check(
    id="9.2",
    reference=score_memory,
    cases=(
        Case("con los valores por omisión", lambda generator: Call((50, 3))),
        Case("con lote y otros bytes", lambda generator: Call((390, 7), {"bytes_per_element": 8, "batch": 5})),
    ),
    mistakes=MEMORY_MISTAKES,
    combined=_pairs_of(MEMORY_MISTAKES, _ScoreMemory),
)

# 9.3 · Softmax en línea -------------------------------------------------------------------------------------------


@out_of_reach
def online_softmax(chunks):
    """softmax de la concatenación de los trozos, por la última dimensión. Milakov y Gimelshein (2018)."""
    return torch.softmax(torch.cat(list(chunks), dim=-1), dim=-1)


def _moderate(lead, widths):
    """Trozos de tamaño corriente; el máximo sube en el segundo, más en el tercero y baja en el último."""

    def make(generator):
        levels = [0.0, 2.0, 4.0, 1.0][-len(widths) :]
        return [
            level + torch.randn(*lead, width, generator=generator) for level, width in zip(levels, widths, strict=True)
        ]

    return make


def _hundreds(lead, widths):
    """Filas cercanas a +850, a −850, a las dos cosas (trozo a trozo, o dentro de cada uno) y a 0.

    Ni en float64 cabe la exponencial de 850, y la de −850 es 0. En la tercera clase el máximo sube y después baja; en
    la última sube hasta el final. Son múltiplos de 1/8, exactos en float32: restar el máximo no redondea.
    """

    def make(generator):
        chunks = _moderate(lead, widths)(generator)
        kinds = (torch.arange(math.prod(lead)) % 5).reshape(*lead, 1)
        around = torch.tensor([850.0, -850.0, 0.0, 0.0, 0.0])[kinds]
        low = (torch.randperm(len(widths) - 1, generator=generator) - 1.0).tolist()  # −1 y 0, en cualquier orden
        jumps = [*low[:1], 1.0, *low[1:]]
        shifted = []
        for i, (jump, chunk) in enumerate(zip(jumps, chunks, strict=True)):
            inside = torch.where(torch.arange(chunk.shape[-1]) % 3 == 1, 850.0, -850.0)
            moved = (
                torch.where(kinds == 2, 850 * jump, 0.0) + torch.where(kinds == 3, inside, 0.0) + 4 * i * (kinds == 4)
            )
            shifted.append(around + moved + (8 * chunk).round() / 8)
        return shifted

    return make


def _listed(make):
    return lambda generator: Call((make(generator),))


_MINUS_INFINITY = float("-inf")


@dataclass(frozen=True)
class _Online:
    """El máximo y el normalizador, trozo a trozo; los pesos, después. Un error conocido cambia uno de los pasos."""

    first_max: float = _MINUS_INFINITY
    first_sum: float = 0.0
    largest: Callable = lambda chunk, old: torch.maximum(old, chunk.amax(-1, keepdim=True))
    rescale: Callable = lambda total, old, new: total * (old - new).exp()
    part: Callable = lambda chunk, new: (chunk - new).exp().sum(-1, keepdim=True)
    weigh: Callable = lambda chunk, own, last, total: (chunk - last).exp() / total
    join: Callable = lambda parts: torch.cat(parts, -1)

    def __call__(self, chunks):
        shape = (*chunks[0].shape[:-1], 1)
        old, total = torch.full(shape, self.first_max), torch.full(shape, self.first_sum)
        seen = []
        for chunk in chunks:
            new = self.largest(chunk, old)
            total = self.rescale(total, old, new) + self.part(chunk, new)
            seen.append(new)
            old = new
        return self.join([self.weigh(*each, old, total) for each in zip(chunks, seen, strict=True)])


def _joined(operation):
    """El error que es lo mismo haya trozos o no: `operation` de la concatenación."""
    return lambda chunks: operation(torch.cat(chunks, -1))


def _softmax_of_each(chunks):
    return [chunk.softmax(-1) for chunk in chunks]


def _exp_over_sum(x):
    return x.exp() / x.exp().sum(-1, keepdim=True)


def _global_max(x):
    return _exp_over_sum(x - x.max())


def _without_keepdim(chunks):
    largest = torch.stack([chunk.amax(-1) for chunk in chunks]).amax(0)
    total = sum((chunk - largest).exp().sum(-1) for chunk in chunks)
    return torch.cat([(chunk - largest).exp() / total for chunk in chunks], -1)


def _one_row(chunks):
    largest = max(max(chunk) for chunk in chunks)
    total = sum((chunk - largest).exp().sum() for chunk in chunks)
    return torch.cat([(chunk - largest).exp() / total for chunk in chunks])


def _weighted_by_width(chunks):
    width = sum(chunk.shape[-1] for chunk in chunks)
    return torch.cat([chunk.softmax(-1) * chunk.shape[-1] / width for chunk in chunks], -1)


def _everything_rescaled(chunks):
    old = torch.full((*chunks[0].shape[:-1], 1), _MINUS_INFINITY)
    total = torch.zeros_like(old)
    for i, chunk in enumerate(chunks):
        new = torch.maximum(old, chunk.amax(-1, keepdim=True))
        total = total + (chunk - new).exp().sum(-1, keepdim=True)
        total = total * (old - new).exp() if i else total
        old = new
    return torch.cat([(chunk - old).exp() / total for chunk in chunks], -1)


def _rescaled_after_adding(chunks):
    old = torch.full((*chunks[0].shape[:-1], 1), _MINUS_INFINITY)
    total = torch.zeros_like(old)
    for chunk in chunks:
        new = torch.maximum(old, chunk.amax(-1, keepdim=True))
        total = (total + (chunk - new).exp().sum(-1, keepdim=True)) * (old - new).exp()
        old = new
    return torch.cat([(chunk - old).exp() / total for chunk in chunks], -1)


def _tuple_of_max(chunks):
    largest = chunks[0].max(-1, keepdim=True)
    for chunk in chunks[1:]:
        largest = torch.maximum(largest, chunk.max(-1, keepdim=True))
    return largest


def _weights_in_the_first_pass(chunks):
    old = torch.full((*chunks[0].shape[:-1], 1), _MINUS_INFINITY)
    total, parts = torch.zeros_like(old), []
    for chunk in chunks:
        new = torch.maximum(old, chunk.amax(-1, keepdim=True))
        total = total * (old - new).exp() + (chunk - new).exp().sum(-1, keepdim=True)
        parts.append((chunk - new).exp() / total)
        old = new
    return torch.cat(parts, -1)


def _max_never_kept(chunks):
    """El máximo viejo se queda en −∞: la suma solo lleva el último trozo."""
    new = torch.stack([chunk.amax(-1, keepdim=True) for chunk in chunks[-1:]]).amax(0)
    total = (chunks[-1] - new).exp().sum(-1, keepdim=True)
    return (torch.cat(chunks, -1) - new).exp() / total


def _new_rescaled_instead(chunks):
    old = torch.full((*chunks[0].shape[:-1], 1), _MINUS_INFINITY)
    total = torch.zeros_like(old)
    for chunk in chunks:
        new = torch.maximum(old, chunk.amax(-1, keepdim=True))
        total = total + (chunk - new).exp().sum(-1, keepdim=True) * (old - new).exp()
        old = new
    return torch.cat([(chunk - old).exp() / total for chunk in chunks], -1)


def _sum_without_first(chunks):
    x = torch.cat(chunks, -1)
    largest = torch.cat(chunks[1:], -1).amax(-1, keepdim=True)
    return (x - largest).exp() / (torch.cat(chunks[1:], -1) - largest).exp().sum(-1, keepdim=True)


def _largest_only(scores):
    return (scores == scores.amax(-1, keepdim=True)).to(scores.dtype)


def _three_chunks(chunks):
    first, second, third = chunks
    return torch.cat([first, second, third], -1).softmax(-1)


ONLINE_MISTAKES = (
    KnownMistake(
        "cada trozo por su cuenta",
        lambda chunks: torch.cat(_softmax_of_each(chunks), -1),
        "Cada trozo suma 1 por su cuenta. El 1 es de toda la fila: los trozos comparten máximo y suma.",
    ),
    KnownMistake(
        "media de los trozos",
        lambda chunks: torch.cat(_softmax_of_each(chunks), -1) / len(chunks),
        "La fila suma 1, pero todos los trozos se llevan lo mismo. Cuánto le toca a cada uno depende de sus "
        "puntuaciones: acumula la suma de exponenciales de todos.",
    ),
    KnownMistake(
        "según la anchura",
        _weighted_by_width,
        "Repartes el peso entre los trozos según lo anchos que son. Lo que cuenta es la suma de sus exponenciales.",
    ),
    KnownMistake(
        "suma sin reescalar",
        _Online(rescale=lambda total, old, new: total),
        "Cuando el máximo sube, la suma que llevabas sigue hecha con el máximo viejo. Antes de añadir el trozo, "
        "multiplícala por la exponencial de (máximo viejo − nuevo): guarda el viejo hasta haberlo usado.",
    ),
    KnownMistake(
        "reescalada al revés",
        _Online(rescale=lambda total, old, new: total * (new - old).exp().nan_to_num(posinf=0.0)),
        "Reescalas la suma en el sentido contrario: crece cuando el máximo sube. El exponente es viejo − nuevo, que "
        "nunca es positivo.",
    ),
    KnownMistake(
        "reescalada con el máximo y no con su exponencial",
        _Online(rescale=lambda total, old, new: total * (old - new).nan_to_num(neginf=0.0)),
        "Reescalas la suma con la diferencia de los máximos. Falta su exponencial.",
    ),
    KnownMistake(
        "reescalar también lo nuevo",
        _everything_rescaled,
        "Reescalas la suma cuando ya le has añadido el trozo, y el trozo ya iba con el máximo nuevo. Primero "
        "reescala lo viejo; después, suma.",
    ),
    KnownMistake(
        "reescalar al acabar la vuelta",
        _rescaled_after_adding,
        "Reescalas la suma al acabar cada vuelta, con el trozo ya dentro, y al empezar el factor es 0: el primero se "
        "pierde. Reescala lo viejo y añade después.",
    ),
    KnownMistake(
        "max con dos resultados",
        _tuple_of_max,
        "`max` con una dimensión devuelve dos cosas, los valores y sus posiciones. Quédate con `.values`, o usa "
        "`amax`.",
        error="return_types|namedtuple|not tuple",
    ),
    KnownMistake(
        "reescalar solo lo nuevo",
        _new_rescaled_instead,
        "Multiplicas por el factor lo que añades y dejas lo viejo como estaba. Es al revés: lo que hay que corregir es "
        "lo que ya llevabas.",
    ),
    KnownMistake(
        "todo NaN",
        lambda chunks: torch.full_like(torch.cat(chunks, -1), torch.nan),
        "Todo sale NaN desde el primer trozo: con el máximo en −∞, una resta da ∞ (nuevo − viejo, o puntuación − "
        "viejo) y se multiplica por cero. El factor es la exponencial de (viejo − nuevo), y a las puntuaciones se les "
        "resta el nuevo.",
    ),
    KnownMistake(
        "pesos en la primera pasada",
        _weights_in_the_first_pass,
        "Calculas los pesos de cada trozo al pasar, con el máximo y la suma de ese momento, y después cambian. Espera "
        "a haber visto todos: los pesos necesitan una segunda vuelta.",
    ),
    KnownMistake(
        "el máximo no se guarda",
        _max_never_kept,
        "La suma solo lleva el último trozo: no guardas el máximo nuevo, y el viejo, que sigue en −∞, borra lo "
        "anterior. Acaba cada vuelta actualizándolo.",
    ),
    KnownMistake(
        "suma sin el primer trozo",
        _sum_without_first,
        "El primer trozo no entra en el máximo ni en la suma. Empieza por él.",
    ),
    KnownMistake(
        "media de cada trozo",
        _Online(part=lambda chunk, new: (chunk - new).exp().mean(-1, keepdim=True)),
        "De cada trozo sumas la media de las exponenciales, y los anchos cuentan de menos. Es la suma.",
    ),
    KnownMistake(
        "multiplicar al final",
        _Online(weigh=lambda chunk, own, last, total: (chunk - last).exp() * total),
        "En la segunda pasada multiplicas por la suma. Se divide.",
    ),
    KnownMistake(
        "exponenciales con su máximo",
        _Online(weigh=lambda chunk, own, last, total: (chunk - own).exp() / total),
        "Los pesos de los primeros trozos están hechos con el máximo que había entonces. Todos llevan el último: "
        "vuelve a calcular las exponenciales, o reescálalas.",
    ),
    KnownMistake(
        "exponenciales y suma con su máximo",
        _Online(
            rescale=lambda total, old, new: total, weigh=lambda chunk, own, last, total: (chunk - own).exp() / total
        ),
        "Cada trozo usa el máximo que había al llegar él, en la suma y en los pesos, y nada se reescala. Al final "
        "tiene que quedar todo respecto al mismo máximo.",
    ),
    KnownMistake(
        "máximo de cada trozo, sin memoria",
        _Online(largest=lambda chunk, old: chunk.amax(-1, keepdim=True), rescale=lambda total, old, new: total),
        "Tu máximo es el del trozo, sin memoria de los anteriores, y nada lo corrige. Quédate con el mayor de los dos "
        "y reescala.",
    ),
    KnownMistake(
        "máximo de cada trozo en todo",
        _Online(
            largest=lambda chunk, old: chunk.amax(-1, keepdim=True),
            rescale=lambda total, old, new: total,
            weigh=lambda chunk, own, last, total: (chunk - own).exp() / total,
        ),
        "Cada trozo resta su propio máximo, en la suma y en los pesos, y todos acaban pesando parecido. El máximo que "
        "se resta es el de la fila entera.",
    ),
    KnownMistake(
        "un máximo que baja",
        _Online(largest=lambda chunk, old: chunk.amax(-1, keepdim=True)),
        "El máximo que llevas puede bajar, porque es el del trozo, y entonces el factor se desborda. Quédate con el "
        "mayor de los dos, el viejo y el del trozo.",
    ),
    KnownMistake(
        "máximo sustituido por la media",
        _Online(largest=lambda chunk, old: torch.maximum(old, chunk.mean(-1, keepdim=True))),
        "Llevas la media de los trozos en vez del máximo, y lo que pasa mucho de ella se desborda. Usa `amax`.",
    ),
    KnownMistake(
        "sin el máximo",
        _joined(_exp_over_sum),
        "Con puntuaciones de cientos salen NaN: la exponencial se desborda, o toda la fila se queda en cero. Lleva la "
        "cuenta del máximo y réstalo antes.",
    ),
    KnownMistake(
        "máximo de todo",
        _joined(_global_max),
        "Restas el mayor de todas las filas, y a las de puntuaciones muy bajas no les queda nada: 0/0. Cada fila tiene "
        "su máximo: `amax(-1, keepdim=True)`.",
    ),
    KnownMistake(
        "máximo inicial cero",
        _Online(first_max=0.0),
        "Si todas las puntuaciones son muy negativas, sus exponenciales se quedan en cero y divides 0/0: el máximo "
        "empieza en 0, o en otro número, y no baja de ahí. Empieza en −∞, o en el del primer trozo.",
    ),
    KnownMistake(
        "suma inicial uno",
        _Online(
            first_sum=1.0,
            first_max=-1e9,
            rescale=lambda total, old, new: torch.where(old < -1e8, total, total * (old - new).exp()),
        ),
        "La fila suma menos de 1: la suma de exponenciales empieza en 1. Empieza en 0: aún no has visto nada.",
    ),
    KnownMistake(
        "resta de la media",
        _joined(lambda x: _exp_over_sum(x - x.mean(-1, keepdim=True))),
        "Restas la media de la fila, y lo que pasa mucho de ella se desborda igual. Resta el máximo.",
    ),
    KnownMistake(
        "softmax sobre las filas",
        _joined(lambda x: x.softmax(0)),
        "La softmax recorre la primera dimensión, que solo es la de las puntuaciones cuando no hay otra. Es la última.",
    ),
    KnownMistake(
        "softmax de todo",
        _joined(lambda x: x.flatten().softmax(0).reshape(x.shape)),
        "Todo junto suma 1, y debe sumarlo cada fila. Máximo y suma, por la última dimensión y con `keepdim=True`.",
    ),
    KnownMistake(
        "sin keepdim",
        _without_keepdim,
        "Con dimensiones delante no encajan las formas: al máximo y a la suma les falta la última, que se pierde al "
        "reducir. Añade `keepdim=True`.",
        error=r"tensor b \(6\)",
    ),
    KnownMistake(
        "solo una fila",
        _one_row,
        "Con dimensiones delante tu función falla: tratas cada trozo como una lista de números. Usa `amax(-1, "
        "keepdim=True)` y `sum(-1, keepdim=True)`.",
        error="ambiguous|only one element|cannot be converted to Scalar",
    ),
    KnownMistake(
        "unidos por la primera dimensión",
        lambda chunks: torch.cat(chunks, 0).softmax(-1),
        "Con dimensiones delante no puedes unir los trozos: son de distinta anchura y los unes por la primera. Únelos "
        "por la última.",
        error="Sizes of tensors must match",
    ),
    KnownMistake(
        "sin unir",
        lambda chunks: list(torch.cat(chunks, -1).softmax(-1).split([chunk.shape[-1] for chunk in chunks], -1)),
        "Los pesos son los que se piden y los devuelves en una lista, trozo a trozo. Únelos con `torch.cat`, por la "
        "última dimensión.",
    ),
    KnownMistake(
        "sin unir, cada trozo por su cuenta",
        lambda chunks: [chunk.softmax(-1) for chunk in chunks],
        "Devuelves una lista con la softmax de cada trozo, y cada uno suma 1. Se pide un solo tensor en el que todos "
        "compartan el máximo y la suma.",
    ),
    KnownMistake(
        "apilados",
        lambda chunks: torch.stack(chunks).softmax(-1),
        "Los trozos no miden lo mismo, y `torch.stack` no los junta. Concaténalos por la última dimensión.",
        error="stack expects each tensor",
    ),
    KnownMistake(
        "solo el último trozo",
        lambda chunks: chunks[-1].softmax(-1),
        "Solo devuelves el último trozo. Guarda los de todos y únelos.",
    ),
    KnownMistake(
        "solo el primer trozo",
        lambda chunks: chunks[0].softmax(-1),
        "Solo devuelves el primer trozo: hay un `return` dentro del bucle. Recórrelos todos antes.",
    ),
    KnownMistake(
        "en orden inverso",
        lambda chunks: torch.cat(chunks[::-1], -1).softmax(-1),
        "Los trozos salen en orden inverso. Al unirlos, respeta el orden en que llegan.",
    ),
    KnownMistake(
        "sin normalizar",
        _joined(lambda x: (x - x.amax(-1, keepdim=True)).exp()),
        "Devuelves las exponenciales sin dividir: el mayor de cada fila vale 1. Divide entre la suma.",
    ),
    KnownMistake(
        "sin exponencial",
        _joined(lambda x: x / x.sum(-1, keepdim=True)),
        "Divides las puntuaciones entre su suma, y salen pesos negativos. Falta la exponencial.",
    ),
    KnownMistake(
        "sigmoide",
        _joined(torch.sigmoid),
        "Cada puntuación pasa por una sigmoide, sin mirar a las demás. La softmax reparte un 1 entre todas.",
    ),
    KnownMistake(
        "NaN tapados",
        _joined(lambda x: _exp_over_sum(x).nan_to_num(0.0)),
        "Con puntuaciones de cientos, las filas que se desbordan salen a cero: tapas los NaN en vez de evitarlos. "
        "Resta el máximo antes de la exponencial.",
    ),
    KnownMistake(
        "recortadas",
        _joined(lambda x: x.clamp(-80, 80).softmax(-1)),
        "Recortas las puntuaciones para que no se desborden, y las grandes quedan todas iguales. Resta el máximo: no "
        "cambia el resultado.",
    ),
    KnownMistake(
        "solo la mayor",
        _joined(_largest_only),
        "Todo el peso va a la puntuación mayor de cada fila. Eso es un máximo; la softmax reparte también entre las "
        "demás.",
    ),
    KnownMistake(
        "logaritmo",
        _joined(lambda x: x.log_softmax(-1)),
        "Devuelves el logaritmo de los pesos: son números negativos. Falta la exponencial.",
    ),
    KnownMistake(
        "dos veces",
        _joined(lambda x: x.softmax(-1).softmax(-1)),
        "Aplicas la softmax dos veces, y los pesos salen casi iguales. Es una sola, sobre las puntuaciones.",
    ),
    KnownMistake(
        "softmax de las softmax",
        lambda chunks: torch.cat(_softmax_of_each(chunks), -1).softmax(-1),
        "Haces la softmax de cada trozo y otra de lo que sale. Las puntuaciones pasan por la exponencial una sola vez.",
    ),
    KnownMistake(
        "la mayor pesa menos",
        _joined(lambda x: (-x).softmax(-1)),
        "Cuanto mayor la puntuación, menos pesa: restas al revés, máximo menos puntuación. Es puntuación menos máximo.",
    ),
    KnownMistake(
        "en base dos",
        _joined(lambda x: (x * math.log(2)).softmax(-1)),
        "Usas potencias de dos. Es rápido, y hay núcleos que lo hacen, pero entonces hay que dividir antes las "
        "puntuaciones entre el logaritmo de 2: usa `exp`.",
    ),
    KnownMistake(
        "escalada",
        _joined(lambda x: (x / x.shape[-1] ** 0.5).softmax(-1)),
        "Divides las puntuaciones entre una raíz. Llegan ya escaladas: aquí solo se normalizan.",
    ),
    KnownMistake(
        "máximo y suma",
        lambda chunks: (
            torch.cat(chunks, -1).amax(-1, keepdim=True),
            (torch.cat(chunks, -1) - torch.cat(chunks, -1).amax(-1, keepdim=True)).exp().sum(-1, keepdim=True),
        ),
        "Devuelves el máximo y la suma, que es el primer paso. Con ellos, calcula los pesos en una segunda pasada.",
    ),
    KnownMistake(
        "las puntuaciones",
        _joined(lambda x: x),
        "Devuelves las puntuaciones concatenadas. Falta la softmax.",
    ),
    KnownMistake(
        "tres trozos",
        _three_chunks,
        "Repartes la lista en tres nombres, y puede haber otra cantidad de trozos. Recórrela con un bucle.",
        error="values to unpack",
    ),
    KnownMistake(
        "dimensión 2",
        lambda chunks: torch.cat(chunks, 2).softmax(2),
        "Sin dimensiones delante tu función falla: cuentas las puntuaciones en la dimensión 2, que entonces no existe. "
        "Son la última, -1, haya las que haya delante.",
        error="Dimension out of range|^IndexError",
    ),
)


ONLINE = Check(
    id="9.3",
    reference=online_softmax,
    weights=lambda value: value,
    cases=(
        Case("sin lote, cuatro trozos", _listed(_moderate((), (6, 4, 9, 3)))),
        Case("con lote y puntuaciones de cientos", _listed(_hundreds((2, 6), (5, 3, 7)))),
    ),
    mistakes=ONLINE_MISTAKES,
    combined=_pairs_of(ONLINE_MISTAKES, _Online),
)

# 9.4 · Atención en línea ------------------------------------------------------------------------------------------


@out_of_reach
def online_attention(score_chunks, value_chunks):
    """softmax de las puntuaciones por los valores, sin guardar los pesos. Dao et al. (2022), algoritmo 1."""
    return torch.softmax(torch.cat(list(score_chunks), dim=-1), dim=-1) @ torch.cat(list(value_chunks), dim=-2)


def _paired(make, lead, d):
    """Las puntuaciones de `make`, con la última dimensión de `lead` como consultas, y valores de anchura d."""

    def both(generator):
        scores = make(generator)
        values = [torch.randn(*lead[:-1], chunk.shape[-1], d, generator=generator) for chunk in scores]
        return Call((scores, values))

    return both


@dataclass(frozen=True)
class _OnlineAttention:
    """Máximo, suma y salida, trozo a trozo. Un error conocido cambia uno de los pasos."""

    first_max: float = _MINUS_INFINITY
    first_sum: float = 0.0
    scores: Callable = lambda scores, values: scores
    largest: Callable = lambda chunk, old: torch.maximum(old, chunk.amax(-1, keepdim=True))
    rescale: Callable = lambda total, old, new: total * (old - new).exp()
    rescale_output: Callable = lambda output, old, new: output * (old - new).exp()
    part: Callable = lambda weights: weights.sum(-1, keepdim=True)
    mix: Callable = lambda weights, values: weights @ values
    each: Callable = lambda output, total: output  # al final de cada trozo
    finish: Callable = lambda output, total, last: output / total

    def __call__(self, score_chunks, value_chunks):
        shape = (*score_chunks[0].shape[:-1], 1)
        old, total = torch.full(shape, self.first_max), torch.full(shape, self.first_sum)
        output = torch.zeros(*shape[:-1], value_chunks[0].shape[-1])
        for chunk, values in zip(score_chunks, value_chunks, strict=True):
            chunk = self.scores(chunk, values)
            new = self.largest(chunk, old)
            weights = (chunk - new).exp()
            total = self.rescale(total, old, new) + self.part(weights)
            output = self.each(self.rescale_output(output, old, new) + self.mix(weights, values), total)
            old = new
        return self.finish(output, total, old)


def _untouched(total, old, new):
    return total


def _backwards(total, old, new):
    return total * (new - old).exp().nan_to_num(posinf=0.0)


def _by_difference(total, old, new):
    return total * (old - new).nan_to_num(neginf=0.0)


def _all(score_chunks, value_chunks):
    return torch.cat(score_chunks, -1), torch.cat(value_chunks, -2)


def _whole(operation):
    """El error que es lo mismo haya trozos o no: `operation` de las puntuaciones y los valores juntos."""
    return lambda score_chunks, value_chunks: operation(*_all(score_chunks, value_chunks))


def _each_alone(join):
    """Cada trozo con su propia softmax, y las salidas unidas con `join(salidas, puntuaciones)`."""
    return lambda score_chunks, value_chunks: join(
        [s.softmax(-1) @ v for s, v in zip(score_chunks, value_chunks, strict=True)], score_chunks
    )


def _by_width(outputs, scores):
    width = sum(s.shape[-1] for s in scores)
    return sum(o * s.shape[-1] / width for o, s in zip(outputs, scores, strict=True))


def _by_maximum(outputs, scores):
    shares = torch.stack([s.amax(-1, keepdim=True) for s in scores]).softmax(0)
    return (shares * torch.stack(outputs)).sum(0)


def _averaged_pairwise(outputs, scores):
    result = outputs[0]
    for other in outputs[1:]:
        result = (result + other) / 2
    return result


def _attention_without_keepdim(score_chunks, value_chunks):
    scores, values = _all(score_chunks, value_chunks)
    weights = (scores - scores.amax(-1)).exp()
    return weights @ values / weights.sum(-1)


def _attention_with_a_fixed_none(score_chunks, value_chunks):
    scores, values = _all(score_chunks, value_chunks)
    weights = (scores - scores.amax(-1)[:, None]).exp()
    return weights @ values / weights.sum(-1)[:, None]


def _everything_rescaled_attention(first_max_known):
    """El error de quien reescala con el trozo ya sumado; el máximo empieza en el del primer trozo, o en −∞."""

    def answer(score_chunks, value_chunks):
        old = score_chunks[0].amax(-1, keepdim=True)
        old = old if first_max_known else torch.full_like(old, _MINUS_INFINITY)
        total, output = torch.zeros_like(old), 0.0
        for scores, values in zip(score_chunks, value_chunks, strict=True):
            new = torch.maximum(old, scores.amax(-1, keepdim=True))
            weights, factor = (scores - new).exp(), (old - new).exp()
            total, output = (total + weights.sum(-1, keepdim=True)) * factor, (output + weights @ values) * factor
            old = new
        return output / total

    return answer


def _parts_with_their_sum(score_chunks, value_chunks):
    old = torch.full((*score_chunks[0].shape[:-1], 1), _MINUS_INFINITY)
    total, output = torch.zeros_like(old), 0.0
    for scores, values in zip(score_chunks, value_chunks, strict=True):
        new = torch.maximum(old, scores.amax(-1, keepdim=True))
        weights, factor = (scores - new).exp(), (old - new).exp()
        total = total * factor + weights.sum(-1, keepdim=True)
        output, old = output * factor + weights / total @ values, new
    return output


def _new_part_rescaled(score_chunks, value_chunks):
    old = torch.full((*score_chunks[0].shape[:-1], 1), _MINUS_INFINITY)
    total, output = torch.zeros_like(old), 0.0
    for scores, values in zip(score_chunks, value_chunks, strict=True):
        new = torch.maximum(old, scores.amax(-1, keepdim=True))
        weights = (scores - new).exp() * (old - new).exp()
        total, output = total + weights.sum(-1, keepdim=True), output + weights @ values
        old = new
    return output / total


def _three_pairs(score_chunks, value_chunks):
    (s_1, s_2, s_3), (v_1, v_2, v_3) = score_chunks, value_chunks
    return torch.cat([s_1, s_2, s_3], -1).softmax(-1) @ torch.cat([v_1, v_2, v_3], -2)


ATTENTION_MISTAKES = (
    KnownMistake(
        "salida sin reescalar",
        _OnlineAttention(rescale_output=_untouched),
        "La suma se reescala cuando sube el máximo y la salida acumulada no: lo viejo pesa de más. Multiplica las dos "
        "por el mismo factor.",
    ),
    KnownMistake(
        "suma sin reescalar",
        _OnlineAttention(rescale=_untouched),
        "La salida se reescala cuando sube el máximo y la suma de exponenciales no. Las dos llevan el mismo factor.",
    ),
    KnownMistake(
        "nada reescalado",
        _OnlineAttention(rescale=_untouched, rescale_output=_untouched),
        "Cuando el máximo sube, lo acumulado sigue hecho con el viejo: ni la suma ni la salida se reescalan. "
        "Multiplica las dos por la exponencial de (viejo − nuevo).",
    ),
    KnownMistake(
        "reescalado al revés",
        _OnlineAttention(rescale=_backwards, rescale_output=_backwards),
        "El factor con que reescalas está al revés: crece cuando sube el máximo. El exponente es viejo − nuevo.",
    ),
    KnownMistake(
        "salida reescalada al revés",
        _OnlineAttention(rescale_output=_backwards),
        "La suma está bien reescalada y la salida, al revés. Usa con las dos el mismo factor.",
    ),
    KnownMistake(
        "reescalado sin exponencial",
        _OnlineAttention(rescale=_by_difference, rescale_output=_by_difference),
        "Reescalas con la diferencia de los máximos, y hace falta su exponencial. Escribe `(old - new).exp()`.",
    ),
    KnownMistake(
        "todo NaN",
        lambda score_chunks, value_chunks: torch.full_like(_OnlineAttention()(score_chunks, value_chunks), torch.nan),
        "La salida es NaN desde el primer trozo: el máximo empieza en −∞, y alguna resta lo lleva a ∞ por cero (nuevo "
        "− viejo, o puntuación − viejo). El factor es la exponencial de (viejo − nuevo); a las puntuaciones se les "
        "resta el nuevo.",
    ),
    KnownMistake(
        "un máximo que baja",
        _OnlineAttention(largest=lambda chunk, old: chunk.amax(-1, keepdim=True)),
        "Tu máximo es el del trozo y puede bajar: entonces el factor se desborda. No lo dejes bajar: el mayor del "
        "viejo y el del trozo.",
    ),
    KnownMistake(
        "máximo sustituido por la media",
        _OnlineAttention(largest=lambda chunk, old: torch.maximum(old, chunk.mean(-1, keepdim=True))),
        "Restas la media en vez del máximo, y con puntuaciones muy desiguales la exponencial se desborda. Usa `amax`.",
    ),
    KnownMistake(
        "reescalar solo lo nuevo",
        _new_part_rescaled,
        "El factor multiplica lo que añades y lo viejo se queda como estaba. Corrige lo que ya llevabas; lo nuevo ya "
        "va con el máximo nuevo.",
    ),
    KnownMistake(
        "reescalar también lo nuevo",
        _everything_rescaled_attention(True),
        "El factor multiplica también lo que acabas de añadir, que ya iba con el máximo nuevo. Reescala lo acumulado "
        "antes de sumar.",
    ),
    KnownMistake(
        "reescalar al acabar la vuelta",
        _everything_rescaled_attention(False),
        "Reescalas al acabar cada vuelta, con el trozo ya sumado; en la primera el factor es 0 y el trozo se pierde. "
        "Primero lo viejo por el factor, y luego la suma.",
    ),
    KnownMistake(
        "cada parte con su suma",
        _parts_with_their_sum,
        "Divides cada parte entre la suma que hay al llegar ella, y esa suma cambia después. Acumula sin dividir y "
        "divide una vez.",
    ),
    KnownMistake(
        "max con dos resultados",
        lambda score_chunks, value_chunks: torch.maximum(
            score_chunks[0].max(-1, keepdim=True), score_chunks[0].max(-1, keepdim=True)
        ),
        "`max` a lo largo de una dimensión da una pareja, valores y posiciones, y no un tensor. Usa `amax`, o su "
        "`.values`.",
        error="return_types|namedtuple|not tuple",
    ),
    KnownMistake(
        "máximo de cada trozo",
        _OnlineAttention(
            largest=lambda chunk, old: chunk.amax(-1, keepdim=True), rescale=_untouched, rescale_output=_untouched
        ),
        "Cada trozo se mide con su propio máximo y después se suma todo: son exponenciales que no se pueden comparar. "
        "Lleva un máximo común y reescala lo acumulado.",
    ),
    KnownMistake(
        "dividir en cada trozo",
        _OnlineAttention(each=lambda output, total: output / total, finish=lambda output, total, last: output),
        "Divides la salida entre la suma en cada trozo, y lo viejo queda dividido varias veces. Divide una sola vez, "
        "al final (o deshaz la división anterior antes de acumular).",
    ),
    KnownMistake(
        "dividir en cada trozo y al final",
        _OnlineAttention(each=lambda output, total: output / total),
        "Divides en cada trozo y otra vez al acabar. Basta con la última.",
    ),
    KnownMistake(
        "sin dividir",
        _OnlineAttention(finish=lambda output, total, last: output),
        "Devuelves la salida acumulada sin dividir: los pesos no suman 1. Divídela entre la suma de exponenciales.",
    ),
    KnownMistake(
        "multiplicar al final",
        _OnlineAttention(finish=lambda output, total, last: output * total),
        "Al final multiplicas por la suma de exponenciales. Se divide.",
    ),
    KnownMistake(
        "deshacer el máximo",
        _OnlineAttention(finish=lambda output, total, last: output / total * last.exp()),
        "Al final multiplicas por la exponencial del máximo, como para deshacer la resta. No hace falta: está arriba y "
        "abajo, y se va al dividir.",
    ),
    KnownMistake(
        "suma de las salidas",
        _each_alone(lambda outputs, scores: sum(outputs)),
        "Cada trozo aplica su propia softmax y después sumas las salidas: el peso total es el número de trozos. La "
        "softmax es de toda la fila.",
    ),
    KnownMistake(
        "media de las salidas",
        _each_alone(lambda outputs, scores: sum(outputs) / len(outputs)),
        "Promedias las salidas de los trozos, y todos cuentan igual. Cuánto cuenta cada uno depende de sus "
        "puntuaciones.",
    ),
    KnownMistake(
        "media de dos en dos",
        _each_alone(_averaged_pairwise),
        "Promedias lo que llevas con cada trozo nuevo, y el último cuenta la mitad. Pesa cada parte con su suma de "
        "exponenciales.",
    ),
    KnownMistake(
        "según la anchura",
        _each_alone(_by_width),
        "Juntas las salidas de los trozos según su anchura. Un trozo cuenta según sus puntuaciones, no según cuántas "
        "son.",
    ),
    KnownMistake(
        "según el máximo",
        _each_alone(_by_maximum),
        "Juntas las salidas de los trozos con una softmax de sus máximos. Falta cuántas puntuaciones hay cerca del "
        "máximo: usa la suma de exponenciales de cada uno.",
    ),
    KnownMistake(
        "en una lista",
        _each_alone(lambda outputs, scores: outputs),
        "Devuelves una lista con la salida de cada trozo. Se pide una sola salida: hay que combinarlas.",
    ),
    KnownMistake(
        "salidas concatenadas",
        _each_alone(lambda outputs, scores: torch.cat(outputs, -1)),
        "Pones las salidas de los trozos una al lado de otra. Se combinan en una sola, de anchura d.",
    ),
    KnownMistake(
        "solo el último trozo",
        _each_alone(lambda outputs, scores: outputs[-1]),
        "Solo cuenta el último trozo: en el bucle, cada uno borra lo anterior, o el máximo viejo se queda en −∞ y lo "
        "reescala a cero. Acumula, y guarda el máximo nuevo.",
    ),
    KnownMistake(
        "solo el primer trozo",
        _each_alone(lambda outputs, scores: outputs[0]),
        "Solo cuenta el primer trozo: el `return` está dentro del bucle. Sácalo.",
    ),
    KnownMistake(
        "sin el primer trozo",
        lambda score_chunks, value_chunks: _OnlineAttention()(score_chunks[1:], value_chunks[1:]),
        "El primer trozo no cuenta: empiezas por el segundo. Con m = −∞ y sumas a cero, el bucle vale también para él.",
    ),
    KnownMistake(
        "sin el último trozo",
        lambda score_chunks, value_chunks: _OnlineAttention()(score_chunks[:-1], value_chunks[:-1]),
        "El último trozo no cuenta: el bucle acaba antes. Recorre las dos listas hasta el final.",
    ),
    KnownMistake(
        "entre el número de trozos",
        lambda score_chunks, value_chunks: _OnlineAttention()(score_chunks, value_chunks) / len(score_chunks),
        "Divides la salida, además, entre el número de trozos. La suma de exponenciales ya los cuenta todos.",
    ),
    KnownMistake(
        "sin el máximo",
        _whole(lambda scores, values: scores.exp() @ values / scores.exp().sum(-1, keepdim=True)),
        "Con puntuaciones de cientos salen NaN: la exponencial se desborda o se queda en cero. Resta el máximo que "
        "lleves, y reescala cuando suba.",
    ),
    KnownMistake(
        "máximo de todo",
        _whole(
            lambda scores, values: (
                (scores - scores.max()).exp() @ values / (scores - scores.max()).exp().sum(-1, keepdim=True)
            )
        ),
        "Usas un solo máximo para todas las consultas, y a las de puntuaciones muy bajas les queda 0/0. Cada consulta "
        "lleva el suyo.",
    ),
    KnownMistake(
        "máximo inicial cero",
        _OnlineAttention(first_max=0.0),
        "Con puntuaciones muy negativas sale 0/0: el máximo empieza en 0, o en otro número, y ninguna lo supera. "
        "Empieza en −∞.",
    ),
    KnownMistake(
        "suma inicial uno",
        _OnlineAttention(
            first_sum=1.0,
            first_max=-1e9,
            rescale=lambda total, old, new: torch.where(old < -1e8, total, total * (old - new).exp()),
        ),
        "La suma de exponenciales empieza en 1, y la salida se queda corta. Al principio no has visto nada: 0.",
    ),
    KnownMistake(
        "escalar otra vez",
        _OnlineAttention(scores=lambda scores, values: scores / values.shape[-1] ** 0.5),
        "Divides las puntuaciones entre √d. Llegan ya escaladas, y d ni siquiera tiene por qué ser la de las claves.",
    ),
    KnownMistake(
        "suma de los valores",
        _whole(lambda scores, values: values.sum(-2, keepdim=True).expand(*scores.shape[:-1], -1)),
        "Sumas los valores sin peso ninguno. Cada uno entra con la exponencial de su puntuación.",
    ),
    KnownMistake(
        "media de los valores",
        _whole(lambda scores, values: values.mean(-2, keepdim=True).expand(*scores.shape[:-1], -1)),
        "Devuelves la media de los valores, la misma para todas las consultas. Las puntuaciones tienen que pesar.",
    ),
    KnownMistake(
        "sin softmax",
        _whole(lambda scores, values: scores @ values),
        "Mezclas los valores con las puntuaciones en bruto. Pásalas antes por la exponencial y divide.",
    ),
    KnownMistake(
        "solo la clave mayor",
        _whole(lambda scores, values: _largest_only(scores) @ values),
        "Cada consulta se lleva entero el valor de su clave de mayor puntuación. La softmax reparte: usa la "
        "exponencial.",
    ),
    KnownMistake(
        "dividir entre las puntuaciones",
        _whole(lambda scores, values: scores @ values / scores.sum(-1, keepdim=True)),
        "Divides las puntuaciones entre su suma, sin exponencial. Así hay pesos negativos: falta `exp`.",
    ),
    KnownMistake(
        "softmax sobre las consultas",
        _whole(lambda scores, values: scores.softmax(-2) @ values),
        "Normalizas sobre las consultas. El máximo y la suma van por la última dimensión, la de las claves.",
    ),
    KnownMistake(
        "softmax sobre el lote",
        _whole(lambda scores, values: scores.softmax(0) @ values),
        "Normalizas sobre la primera dimensión, y solo por casualidad es la debida. Las claves están en la última.",
    ),
    KnownMistake(
        "dos softmax",
        _whole(lambda scores, values: scores.softmax(-1).softmax(-1) @ values),
        "Los pesos pasan por dos softmax y salen casi iguales. Con una exponencial y una división basta.",
    ),
    KnownMistake(
        "la mayor pesa menos",
        _whole(lambda scores, values: (-scores).softmax(-1) @ values),
        "Las claves de mayor puntuación son las que menos cuentan: la resta del máximo está al revés. Es puntuación "
        "menos máximo.",
    ),
    KnownMistake(
        "en base dos",
        _whole(lambda scores, values: (scores * math.log(2)).softmax(-1) @ values),
        "Elevas 2, y no e, a las puntuaciones. Para que dé lo mismo habría que dividirlas antes entre el logaritmo de "
        "2; usa `exp`.",
    ),
    KnownMistake(
        "valores en otro orden",
        lambda score_chunks, value_chunks: torch.cat(score_chunks, -1).softmax(-1) @ torch.cat(value_chunks[::-1], -2),
        "Los trozos de valores van en orden contrario a los de puntuaciones. Recórrelos a la vez, con `zip`.",
    ),
    KnownMistake(
        "los pesos",
        _whole(lambda scores, values: scores.softmax(-1)),
        "Devuelves los pesos, y lo que se pide es no guardarlos nunca. Acumula la salida, (..., n_q, d).",
    ),
    KnownMistake(
        "salida y pesos",
        _whole(lambda scores, values: (scores.softmax(-1) @ values, scores.softmax(-1))),
        "Devuelves la salida y los pesos. Sobra la segunda cosa: se pide solo la salida.",
    ),
    KnownMistake(
        "salida, máximo y suma",
        lambda score_chunks, value_chunks: (
            _OnlineAttention()(score_chunks, value_chunks),
            torch.cat(score_chunks, -1).amax(-1, keepdim=True),
            torch.cat(score_chunks, -1).logsumexp(-1, keepdim=True),
        ),
        "Devuelves también el máximo y la suma, que son de la libreta. Se pide solo la salida.",
        seen=lambda value, *_: isinstance(value, tuple) and len(value) == 3,
    ),
    KnownMistake(
        "traspuesta",
        _whole(lambda scores, values: (scores.softmax(-1) @ values).mT),
        "La salida está traspuesta. Una consulta por fila: (..., n_q, d).",
    ),
    KnownMistake(
        "sin keepdim",
        _attention_without_keepdim,
        "Las formas no encajan: al máximo o a la suma les falta la última dimensión, que se pierde al reducir. Añade "
        "`keepdim=True`.",
        error=r"tensor b \([256]\)",
    ),
    KnownMistake(
        "dimensión abierta en un sitio fijo",
        _attention_with_a_fixed_none,
        "Sin dimensiones delante aciertas y con ellas no encajan las formas: `[:, None]` abre la segunda dimensión. La "
        "que falta es la última: `[..., None]`, o `keepdim=True` al reducir.",
        error=r"tensor b \([26]\)",
    ),
    KnownMistake(
        "valores por posición",
        _whole(lambda scores, values: scores.softmax(-1)[..., None, :] * values),
        "Multiplicas pesos y valores número a número. Es un producto de matrices, que suma sobre las claves: `@`.",
        error=r"tensor b \([48]\)",
    ),
    KnownMistake(
        "puntuaciones traspuestas",
        _whole(lambda scores, values: scores.mT.softmax(-1) @ values),
        "Traspones las puntuaciones, y no encajan con los valores. Ya llegan con una consulta por fila.",
        error=r"\((\d+)x5 and \1x8\)|to be: \[2, 6\]",
    ),
    KnownMistake(
        "trozos emparejados mal",
        lambda score_chunks, value_chunks: sum(
            s.softmax(-1) @ v for s, v in zip(score_chunks, value_chunks[::-1], strict=True)
        ),
        "Un trozo de puntuaciones se encuentra con los valores de otro, y no miden lo mismo. Recorre las dos listas a "
        "la vez y en el mismo orden.",
        error="Expected size for first two dimensions|shapes cannot be multiplied",
    ),
    KnownMistake(
        "valores unidos por la última",
        lambda score_chunks, value_chunks: torch.cat(score_chunks, -1).softmax(-1) @ torch.cat(value_chunks, -1),
        "Al concatenar no encajan las formas. Las puntuaciones se unen por la última dimensión y los valores por la "
        "penúltima, que son las claves.",
        error="Sizes of tensors must match",
    ),
    KnownMistake(
        "tres trozos",
        _three_pairs,
        "Das por hecho que hay tres trozos, y en la lista puede haber más o menos. Un bucle con `zip` los recorre "
        "todos.",
        error="values to unpack",
    ),
    KnownMistake(
        "hace falta un lote",
        lambda score_chunks, value_chunks: torch.bmm(
            torch.cat(score_chunks, -1).softmax(-1), torch.cat(value_chunks, -2)
        ),
        "Sin lote tu función falla: `bmm` exige exactamente tres dimensiones. El operador @ admite las que haya "
        "delante, también ninguna.",
        error="3D tensor|Dimension out of range|^IndexError",
    ),
)

ATTENTION = Check(
    id="9.4",
    reference=online_attention,
    cases=(
        Case("sin lote, cuatro trozos", _paired(_moderate((5,), (6, 4, 9, 3)), (5,), 8)),
        Case("con lote y puntuaciones de cientos", _paired(_hundreds((2, 6), (5, 3, 7)), (2, 6), 4)),
    ),
    mistakes=ATTENTION_MISTAKES,
    combined=_pairs_of(ATTENTION_MISTAKES, _OnlineAttention),
)

CHECKS = (WINDOW, MEMORY, ONLINE, ATTENTION)
