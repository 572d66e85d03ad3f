"""Comprobaciones del capítulo 03: dos cabezas, la cabeza que hace la media y lo que esa cabeza no distingue."""

import numpy as np
import torch
from torch import Tensor

from .compare import kind, number
from .framework import Call, Case, Check, KnownMistake, out_of_reach

# 3.1 · Dos cabezas ------------------------------------------------------------------------------------------------


@out_of_reach
def two_heads(value, weights_1, weights_2):
    """Concat(A₁V, A₂V): (n, d), (n, n), (n, n) → (n, 2·d). Vaswani et al. (2017), §3.2.2."""
    return torch.cat([weights_1 @ value, weights_2 @ value], dim=-1)


def _weights(generator, n, *, causal=False):
    """Pesos de atención de n tokens: filas positivas que suman 1, o con ceros en el futuro si son causales."""
    scores = torch.randn(n, n, generator=generator)
    if causal:
        scores = scores.masked_fill(~torch.ones(n, n, dtype=torch.bool).tril(), float("-inf"))
    return torch.softmax(scores, dim=-1)


def _values_and_weights(n, d, *, causal=False):
    def make(generator):
        value = torch.randn(n, d, generator=generator)
        return Call((value, _weights(generator, n, causal=causal), _weights(generator, n, causal=causal)))

    return make


def _interleaved(first, second):
    return torch.stack([first, second], dim=-1).flatten(-2)


def _half_each(value, weights_1, weights_2):
    half = value.shape[-1] // 2
    return torch.cat([weights_1 @ value[:, :half], weights_2 @ value[:, half:]], dim=-1)


def _six_tokens(value, weights_1, weights_2):
    output = torch.zeros(6, 8)
    output[:, :4], output[:, 4:] = weights_1 @ value, weights_2 @ value
    return output


def _triangle(weights):
    kept = weights.tril()
    return kept / kept.sum(-1, keepdim=True)


def _scaled(value, weights_1, weights_2):
    return torch.cat([weights_1 @ value, weights_2 @ value], dim=-1) / value.shape[-1] ** 0.5


TWO_HEADS = Check(
    id="3.1",
    reference=two_heads,
    cases=(
        Case("seis tokens", _values_and_weights(6, 4)),
        Case("pesos causales", _values_and_weights(3, 5, causal=True)),
    ),
    mistakes=(
        KnownMistake(
            "orden cambiado",
            lambda value, weights_1, weights_2: torch.cat([weights_2 @ value, weights_1 @ value], -1),
            "Están las dos cabezas, y en el orden contrario. La de `weights_1` va a la izquierda: el orden decide qué "
            "filas de W^O leen a cada una.",
        ),
        KnownMistake(
            "una debajo de otra",
            lambda value, weights_1, weights_2: torch.cat([weights_1 @ value, weights_2 @ value]),
            "Las cabezas van una debajo de otra y salen el doble de tokens. Únelas por la última dimensión: cada token "
            "sigue teniendo una fila, más ancha.",
        ),
        KnownMistake(
            "dimensión nueva delante",
            lambda value, weights_1, weights_2: torch.stack([weights_1 @ value, weights_2 @ value]),
            "Hay una dimensión nueva, la de las cabezas, delante de todo: es lo que hace `stack`. Aquí se pide una "
            "sola fila por token: usa `cat` sobre la última dimensión.",
        ),
        KnownMistake(
            "dimensión nueva en medio",
            lambda value, weights_1, weights_2: torch.stack([weights_1 @ value, weights_2 @ value], 1),
            "Cada token tiene sus dos cabezas, pero separadas en una dimensión aparte. Fúndela con la última, o usa "
            "`cat` en vez de `stack`.",
        ),
        KnownMistake(
            "columna y token cambiados",
            lambda value, weights_1, weights_2: torch.stack([weights_1 @ value, weights_2 @ value]).mT.reshape(
                len(value), -1
            ),
            "La forma es correcta, pero cada fila mezcla tokens: traspones cada cabeza antes de cambiar la forma. Sin "
            "trasponer ni cambiar la forma, `cat` sobre la última dimensión basta.",
        ),
        KnownMistake(
            "dimensión nueva al final",
            lambda value, weights_1, weights_2: torch.stack([weights_1 @ value, weights_2 @ value], -1),
            "Las dos cabezas quedan emparejadas componente a componente, en una dimensión nueva al final. No hace "
            "falta ninguna nueva: usa `cat` sobre la última.",
        ),
        KnownMistake(
            "columnas alternadas",
            lambda value, weights_1, weights_2: _interleaved(weights_1 @ value, weights_2 @ value),
            "Las columnas de las dos cabezas se alternan, una y una. Cada cabeza va entera y seguida: primero todas "
            "las de la 1, después todas las de la 2.",
        ),
        KnownMistake(
            "reshape que mezcla tokens",
            lambda value, weights_1, weights_2: torch.cat([weights_1 @ value, weights_2 @ value]).reshape(
                len(value), -1
            ),
            "La forma es correcta, pero cada fila junta dos tokens de una misma cabeza: pones las cabezas una debajo "
            "de otra y después cambias la forma. Únelas por la última dimensión y no hará falta `reshape`.",
        ),
        KnownMistake(
            "suma",
            lambda value, weights_1, weights_2: weights_1 @ value + weights_2 @ value,
            "Sumas las dos salidas, y quien venga después ya no puede separarlas. Ponlas una al lado de otra.",
        ),
        KnownMistake(
            "media",
            lambda value, weights_1, weights_2: (weights_1 @ value + weights_2 @ value) / 2,
            "Haces la media de las dos salidas: es justo lo que tener dos cabezas evita. Ponlas una al lado de otra.",
        ),
        KnownMistake(
            "media repetida",
            lambda value, weights_1, weights_2: ((weights_1 + weights_2) / 2 @ value).repeat(1, 2),
            "Las dos mitades son iguales: las dos cabezas usan la media de los pesos. Cada una usa los suyos.",
        ),
        KnownMistake(
            "producto elemento a elemento de las salidas",
            lambda value, weights_1, weights_2: (weights_1 @ value) * (weights_2 @ value),
            "Multiplicas las dos salidas componente a componente. Las cabezas no se mezclan: van una al lado de otra.",
        ),
        KnownMistake(
            "pesos traspuestos",
            lambda value, weights_1, weights_2: torch.cat([weights_1.mT @ value, weights_2.mT @ value], -1),
            "Usas los pesos traspuestos: cada token recibe según lo que los demás le miran a él. La fila es quien "
            "mira: multiplica `weights @ value` sin trasponer.",
        ),
        KnownMistake(
            "otra softmax",
            lambda value, weights_1, weights_2: torch.cat(
                [weights_1.softmax(-1) @ value, weights_2.softmax(-1) @ value], -1
            ),
            "Las salidas se parecen todas a la media de los valores: has aplicado la softmax a algo que ya son pesos. "
            "Úsalos tal cual.",
        ),
        KnownMistake(
            "otra softmax, por columnas",
            lambda value, weights_1, weights_2: torch.cat(
                [weights_1.softmax(0) @ value, weights_2.softmax(0) @ value], -1
            ),
            "Aplicas una softmax por columnas a los pesos, que ya la llevan hecha por filas. Quítala.",
        ),
        KnownMistake(
            "la mitad de los valores para cada una",
            _half_each,
            "La primera cabeza ve unas columnas de `value` y la segunda las otras. Aquí las dos leen el vector entero, "
            "y por eso la salida es el doble de ancha.",
        ),
        KnownMistake(
            "la mitad de los tokens para cada una",
            lambda value, weights_1, weights_2: torch.cat(
                [
                    weights_1[:, : len(value) // 2] @ value[: len(value) // 2],
                    weights_2[:, len(value) // 2 :] @ value[len(value) // 2 :],
                ],
                -1,
            ),
            "La primera cabeza mira unos tokens y la segunda los otros. Las dos miran toda la secuencia: lo que cambia "
            "son los pesos.",
        ),
        KnownMistake(
            "la misma cabeza dos veces",
            lambda value, weights_1, weights_2: torch.cat([weights_1 @ value, weights_1 @ value], -1),
            "Las dos mitades salen de `weights_1`. La segunda usa `weights_2`.",
        ),
        KnownMistake(
            "solo la segunda",
            lambda value, weights_1, weights_2: torch.cat([weights_2 @ value, weights_2 @ value], -1),
            "Las dos mitades salen de `weights_2`, y los pesos de la primera cabeza no se usan. Mira los subíndices.",
        ),
        KnownMistake(
            "una sola cabeza",
            lambda value, weights_1, weights_2: weights_1 @ value,
            "La salida tiene d columnas: es la de la primera cabeza sola. Falta la segunda, a su derecha.",
        ),
        KnownMistake(
            "dos resultados",
            lambda value, weights_1, weights_2: (weights_1 @ value, weights_2 @ value),
            "Devuelves las dos salidas por separado. Únelas en un solo tensor con `torch.cat`, por la última "
            "dimensión.",
        ),
        KnownMistake(
            "una cabeza tras otra",
            lambda value, weights_1, weights_2: torch.cat([weights_1 @ value, weights_2 @ (weights_1 @ value)], -1),
            "La segunda cabeza lee la salida de la primera: eso son dos capas. Las cabezas de una capa trabajan en "
            "paralelo, las dos sobre `value`.",
        ),
        KnownMistake(
            "pesos uno a uno con valores",
            lambda value, weights_1, weights_2: torch.cat([value, value], -1),
            "Devuelves los valores dos veces, sin mezclar: los pesos no intervienen. Multiplica por ellos, cada cabeza "
            "con los suyos.",
        ),
        KnownMistake(
            "los valores junto a una cabeza",
            lambda value, weights_1, weights_2: torch.cat([value, weights_2 @ (weights_1 @ value)], -1),
            "La primera mitad son los valores sin tocar. Las dos mitades son medias ponderadas: una con cada matriz.",
        ),
        KnownMistake(
            "con escala",
            _scaled,
            "Todo sale dividido entre √d. La escala es para las puntuaciones, antes de la softmax; los pesos ya la "
            "llevan.",
        ),
        KnownMistake(
            "traspuesta al final",
            lambda value, weights_1, weights_2: torch.cat([weights_1 @ value, weights_2 @ value], -1).mT,
            "La cuenta está bien y llega traspuesta, con los tokens en columnas. Quita la última trasposición.",
        ),
        KnownMistake(
            "dividida entre dos",
            lambda value, weights_1, weights_2: torch.cat([weights_1 @ value, weights_2 @ value], -1) / 2,
            "Divides entre 2, como en una media. Aquí nada se promedia: las dos salidas se guardan enteras.",
        ),
        KnownMistake(
            "solo el que más pesa",
            lambda value, weights_1, weights_2: torch.cat(
                [value[weights_1.argmax(-1)], value[weights_2.argmax(-1)]], -1
            ),
            "Copias el valor del token que más pesa y olvidas los demás. Una cabeza hace la media de todos los "
            "valores, cada uno con su peso.",
        ),
        KnownMistake(
            "softmax al final",
            lambda value, weights_1, weights_2: torch.cat(
                [(weights_1 @ value).softmax(-1), (weights_2 @ value).softmax(-1)], -1
            ),
            "Aplicas una softmax a las salidas, que no son un reparto sino vectores. La softmax ya está hecha, en los "
            "pesos.",
        ),
        KnownMistake(
            "el bucle machaca",
            lambda value, weights_1, weights_2: torch.cat(
                [weights_1[:, -1:] * value[-1], weights_2[:, -1:] * value[-1]], -1
            ),
            "Solo queda lo que aporta el último token: dentro del bucle asignas con «=» en vez de acumular con «+=». "
            "Suma lo de todos.",
        ),
        KnownMistake(
            "return dentro del bucle",
            lambda value, weights_1, weights_2: torch.cat([weights_1 @ value, weights_2 @ value], -1)[:1],
            "Sale solo la fila del primer token: el `return` está dentro del bucle. Sácalo, a la altura del `for`.",
        ),
        KnownMistake(
            "máscara causal",
            lambda value, weights_1, weights_2: torch.cat(
                [_triangle(weights_1) @ value, _triangle(weights_2) @ value], -1
            ),
            "Anulas los pesos de los tokens que van detrás. Aquí no se pide ninguna máscara: si los pesos son "
            "causales, los ceros ya vienen puestos.",
        ),
        KnownMistake(
            "tamaño fijo",
            _six_tokens,
            "Escribes en un tensor de tamaño fijo, el de un ejemplo, y con otros tamaños no cabe. Toma n y d de "
            "`value.shape`, o concatena sin reservar sitio.",
            error="^RuntimeError: (The expanded size|shape mismatch)",
        ),
        KnownMistake(
            "elemento a elemento",
            lambda value, weights_1, weights_2: torch.cat([weights_1 * value, weights_2 * value], -1),
            "Combinas pesos y valores elemento a elemento, y las formas no encajan. El producto de matrices es «@», no "
            "«*».",
            error="^RuntimeError: The size of tensor a .* must match",
        ),
        KnownMistake(
            "concatenar los pesos",
            lambda value, weights_1, weights_2: torch.cat([weights_1, weights_2], -1) @ value,
            "Concatenas los pesos y después multiplicas: (n, 2·n) por (n, d) no encaja. Calcula la salida de cada "
            "cabeza aparte y concatena las salidas.",
        ),
        KnownMistake(
            "valores por pesos",
            lambda value, weights_1, weights_2: torch.cat([value @ weights_1, value @ weights_2], -1),
            "Pones los valores delante, y las formas no encajan: (n, d) no se puede multiplicar por (n, n). Los pesos "
            "van delante: cada fila suya es una media de filas de `value`.",
        ),
    ),
)

# 3.2 · La cabeza que mezcla ---------------------------------------------------------------------------------------


@out_of_reach
def blended_head(weights_1, weights_2):
    """(A₁ + A₂)/2: la media aritmética, elemento a elemento; sus filas vuelven a sumar 1."""
    return (weights_1 + weights_2) / 2


def _two_weights(n, *, causal=False):
    return lambda generator: Call((_weights(generator, n, causal=causal), _weights(generator, n, causal=causal)))


def _normalised(positive):
    return positive / positive.sum(-1, keepdim=True)


def _rows_do_not_add_up(value, *_) -> bool:
    """Una matriz cuadrada de números en la que alguna fila no suma 1."""
    if not isinstance(value, Tensor) or value.dim() != 2 or kind(value) != "number" or len(value) != len(value.mT):
        return False
    return bool(torch.isfinite(value).all() and ((value.double().sum(-1) - 1).abs() > 1e-2).any())


BLENDED = Check(
    id="3.2",
    reference=blended_head,
    cases=(
        Case("dos tokens", _two_weights(2)),
        Case("seis tokens, con pesos causales", _two_weights(6, causal=True)),
    ),
    mistakes=(
        KnownMistake(
            "media geométrica normalizada",
            lambda weights_1, weights_2: _normalised((weights_1 * weights_2).sqrt()),
            "Es la media geométrica, normalizada: lo que sale de promediar las puntuaciones (o los logaritmos) y hacer "
            "la softmax. Donde una cabeza no mira, tampoco miras tú. Promedia los pesos mismos.",
        ),
        KnownMistake(
            "media geométrica",
            lambda weights_1, weights_2: (weights_1 * weights_2).sqrt(),
            "Es la media geométrica, y las filas suman menos de 1. La aritmética suma y divide: no multiplica.",
        ),
        KnownMistake(
            "suma",
            lambda weights_1, weights_2: weights_1 + weights_2,
            "Las filas suman 2: has sumado las dos cabezas. Una cabeza solo tiene un peso total de 1 que repartir: "
            "falta dividir.",
        ),
        KnownMistake(
            "softmax de la suma",
            lambda weights_1, weights_2: (weights_1 + weights_2).softmax(-1),
            "Las filas suman 1, pero casi todos los pesos se parecen: haces la softmax de la suma de unos pesos. Para "
            "que una suma de dos repartos vuelva a ser un reparto basta con dividir entre cuántos son.",
        ),
        KnownMistake(
            "softmax de la media",
            lambda weights_1, weights_2: ((weights_1 + weights_2) / 2).softmax(-1),
            "Haces bien la media y después le aplicas una softmax, que iguala los pesos. Quítala: la media de dos "
            "filas que suman 1 ya suma 1.",
        ),
        KnownMistake(
            "media de las softmax",
            lambda weights_1, weights_2: (weights_1.softmax(-1) + weights_2.softmax(-1)) / 2,
            "Pasas cada matriz por una softmax antes de promediar, y ya son pesos. Promédialas tal como llegan.",
        ),
        KnownMistake(
            "producto",
            lambda weights_1, weights_2: weights_1 * weights_2,
            "Multiplicas elemento a elemento: donde una cabeza no mira se pierde también lo que miraba la otra, y las "
            "filas no suman 1. Haz la media.",
        ),
        KnownMistake(
            "producto normalizado",
            lambda weights_1, weights_2: _normalised(weights_1 * weights_2),
            "Multiplicas los pesos y los normalizas: queda lo que miran las dos a la vez, no lo que mira cada una. Haz "
            "la media, que conserva las dos cosas a medias.",
        ),
        KnownMistake(
            "composición",
            lambda weights_1, weights_2: weights_1 @ weights_2,
            "Es el producto de matrices: una cabeza leyendo lo que escribió la otra, como en dos capas. Aquí las dos "
            "se funden en una sola: haz la media, elemento a elemento.",
        ),
        KnownMistake(
            "composición al revés",
            lambda weights_1, weights_2: weights_2 @ weights_1,
            "Multiplicas la segunda matriz por la primera: eso encadena dos cabezas, y no las mezcla. La media se hace "
            "elemento a elemento, sin «@».",
        ),
        KnownMistake(
            "media de la composición",
            lambda weights_1, weights_2: weights_1 @ weights_2 / 2,
            "Divides entre 2 un producto de matrices. Lo que se divide es una suma.",
        ),
        KnownMistake(
            "máximo",
            lambda weights_1, weights_2: torch.maximum(weights_1, weights_2),
            "Te quedas con el mayor de los dos pesos, y las filas suman más de 1. La cabeza no puede dar a los dos "
            "todo lo que piden: haz la media.",
        ),
        KnownMistake(
            "máximo normalizado",
            lambda weights_1, weights_2: _normalised(torch.maximum(weights_1, weights_2)),
            "Te quedas con el mayor de los dos pesos y después normalizas. Ya es un reparto, pero no la media: súmalos "
            "y divide entre 2.",
        ),
        KnownMistake(
            "mínimo",
            lambda weights_1, weights_2: torch.minimum(weights_1, weights_2),
            "Te quedas con el menor de los dos pesos, que es en lo que coinciden las dos cabezas. Haz la media.",
        ),
        KnownMistake(
            "mínimo normalizado",
            lambda weights_1, weights_2: _normalised(torch.minimum(weights_1, weights_2)),
            "Normalizas el menor de los dos pesos: lo que mira una sola cabeza desaparece. En la media se queda en la "
            "mitad.",
        ),
        KnownMistake(
            "media armónica",
            lambda weights_1, weights_2: 2 / (1 / weights_1 + 1 / weights_2),
            "Es la media armónica: promedias los inversos. Suma los pesos y divide entre 2.",
        ),
        KnownMistake(
            "media cuadrática",
            lambda weights_1, weights_2: ((weights_1**2 + weights_2**2) / 2).sqrt(),
            "Es la media cuadrática, y las filas suman más de 1. Promedia los pesos sin elevarlos.",
        ),
        KnownMistake(
            "por columnas",
            lambda weights_1, weights_2: (weights_1 + weights_2) / (weights_1 + weights_2).sum(0),
            "Divides cada columna entre su suma. Quien reparte es la consulta, que es la fila; y ahí basta con dividir "
            "entre 2.",
        ),
        KnownMistake(
            "entre el total",
            lambda weights_1, weights_2: (weights_1 + weights_2) / (weights_1 + weights_2).sum(),
            "Divides entre la suma de toda la matriz, y ninguna fila llega a 1. Cada fila es una media de dos: divide "
            "entre 2.",
        ),
        KnownMistake(
            "entre n",
            lambda weights_1, weights_2: (weights_1 + weights_2) / weights_1.shape[0],
            "Divides entre el número de tokens. Se promedian dos matrices: divide entre cuántas son, no entre su "
            "tamaño.",
        ),
        KnownMistake(
            "precedencia",
            lambda weights_1, weights_2: weights_1 + weights_2 / 2,
            "Solo la segunda matriz va dividida: la división se hace antes que la suma. Pon la suma entre paréntesis.",
        ),
        KnownMistake(
            "media cuarta",
            lambda weights_1, weights_2: (weights_1 + weights_2) / 4,
            "Las filas suman la mitad de lo debido: divides dos veces. Son dos matrices, y se divide entre 2 una vez.",
        ),
        KnownMistake(
            "división entera",
            lambda weights_1, weights_2: (weights_1 + weights_2) // 2,
            "Casi todo sale 0: «//» se queda con la parte entera. Divide con «/».",
        ),
        KnownMistake(
            "la segunda traspuesta",
            lambda weights_1, weights_2: (weights_1 + weights_2.mT) / 2,
            "Una de las dos entra traspuesta, y sus filas ya no suman 1. Fila con fila: no traspongas ninguna.",
        ),
        KnownMistake(
            "la primera traspuesta",
            lambda weights_1, weights_2: (weights_1.mT + weights_2) / 2,
            "Traspones `weights_1` y no `weights_2`. En las dos la fila es quien mira: deja ambas como llegan.",
        ),
        KnownMistake(
            "traspuesta",
            lambda weights_1, weights_2: ((weights_1 + weights_2) / 2).mT,
            "La media está bien y llega traspuesta: suman 1 las columnas. Quita la última trasposición.",
        ),
        KnownMistake(
            "la primera",
            lambda weights_1, weights_2: weights_1,
            "Es la primera cabeza tal cual; de la segunda no queda nada. Pon la mitad de cada una.",
        ),
        KnownMistake(
            "la segunda",
            lambda weights_1, weights_2: weights_2,
            "Es la segunda cabeza tal cual; de la primera no queda nada. Pon la mitad de cada una.",
        ),
        KnownMistake(
            "diferencia",
            lambda weights_1, weights_2: (weights_1 - weights_2) / 2,
            "Hay pesos negativos y las filas suman 0: restas. La media suma.",
        ),
        KnownMistake(
            "mitad y mitad de las columnas",
            lambda weights_1, weights_2: torch.cat(
                [weights_1[:, : len(weights_1) // 2], weights_2[:, len(weights_1) // 2 :]], -1
            ),
            "Las primeras columnas son de una cabeza y las demás de la otra. La media se hace en cada elemento, con "
            "los dos pesos de ese sitio.",
        ),
        KnownMistake(
            "filas alternas",
            lambda weights_1, weights_2: torch.cat(
                [weights_1[: len(weights_1) // 2], weights_2[len(weights_1) // 2 :]]
            ),
            "Unas filas son de una cabeza y otras de la otra: eso también lo puede hacer una cabeza, pero es otra "
            "cosa, porque atiende a consultas distintas. Aquí cada fila mezcla las dos.",
        ),
        KnownMistake(
            "concatenación",
            lambda weights_1, weights_2: torch.cat([weights_1, weights_2], -1),
            "Pones una matriz al lado de otra, como dos cabezas. Esta es una sola: el resultado tiene la forma (n, n).",
        ),
        KnownMistake(
            "una debajo de otra",
            lambda weights_1, weights_2: torch.cat([weights_1, weights_2]),
            "Pones una matriz debajo de otra y salen 2·n filas. Se pide una sola matriz de pesos, (n, n).",
        ),
        KnownMistake(
            "apiladas",
            lambda weights_1, weights_2: torch.stack([weights_1, weights_2]),
            "Apilas las dos matrices y falta promediar: haz la media sobre esa dimensión nueva, la primera.",
        ),
        KnownMistake(
            "apiladas y media por filas",
            lambda weights_1, weights_2: torch.stack([weights_1, weights_2]).mean(-1),
            "Promedias sobre las claves, y de cada fila queda un número. La dimensión que se promedia es la de las "
            "cabezas.",
        ),
        KnownMistake(
            "apiladas y media por consultas",
            lambda weights_1, weights_2: torch.stack([weights_1, weights_2]).mean(1),
            "Promedias sobre las consultas, y cada cabeza se queda con una fila. La dimensión que se promedia es la de "
            "las cabezas, la que ha creado `stack`.",
        ),
        KnownMistake(
            "media de todo",
            lambda weights_1, weights_2: torch.stack([weights_1, weights_2]).mean(),
            "Sale un solo número: la media de todos los pesos, que no dice a quién se mira. Indica la dimensión sobre "
            "la que promediar.",
        ),
        KnownMistake(
            "máscara causal",
            lambda weights_1, weights_2: _triangle(weights_1 + weights_2),
            "Anulas el triángulo de arriba. No se pide ninguna máscara: si los pesos son causales, la media lo será "
            "también, ella sola.",
        ),
        KnownMistake(
            "máscara causal sin normalizar",
            lambda weights_1, weights_2: ((weights_1 + weights_2) / 2).tril(),
            "La media está bien, y después pones a 0 el triángulo de arriba, con lo que las filas pierden peso. Quita "
            "esa máscara.",
        ),
        KnownMistake(
            "filas que no suman 1",
            lambda weights_1, weights_2: weights_1 + weights_2 - weights_1 * weights_2,
            "Hay filas que no suman 1, y una cabeza reparte siempre un peso total de 1. La media de dos filas que "
            "suman 1 suma 1: comprueba entre cuánto divides, y que no haya otra operación.",
            seen=_rows_do_not_add_up,
        ),
    ),
)

# 3.3 · Lo que la media no distingue -------------------------------------------------------------------------------

# Hasta dónde se consideran iguales dos números, relativo al mayor de los que están en juego en esa componente.
ROUNDING = {torch.float16: 2e-3, torch.bfloat16: 1e-2}
DEFAULT_ROUNDING = 1e-5


@out_of_reach
def indistinguishable_pairs():
    """((a, b), (c, d)) con (a, b) ≠ (c, d) y (a + b)/2 = (c + d)/2."""
    return (torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])), (torch.tensor([0.0, 1.0]), torch.tensor([1.0, 0.0]))


def _items(value) -> list:
    """Lo que sale de desempaquetar: lista, tupla o un tensor de una o más dimensiones; [] si no se puede."""
    if isinstance(value, list | tuple):
        return list(value)
    return list(value) if isinstance(value, Tensor) and value.dim() > 0 else []


def _leaves(value) -> list:
    """Las cuatro cosas que hay en el sitio de a, b, c y d; [] si no son dos parejas."""
    pairs = [_items(pair) for pair in _items(value)]
    return [item for pair in pairs for item in pair] if [len(pair) for pair in pairs] == [2, 2] else []


def _is_vector(thing) -> bool:
    return isinstance(thing, Tensor) and thing.dim() == 1


def _some_leaf(condition):
    return lambda value: any(condition(leaf) for leaf in _leaves(value))


def _is_list_of_numbers(thing) -> bool:
    return isinstance(thing, list | tuple) and len(thing) > 0 and all(number(item) is not None for item in thing)


def _single_pair(value) -> bool:
    """(a, b): una pareja de vectores, sin la otra."""
    items = _items(value)
    return len(items) == 2 and all(map(_is_vector, items))


def _four_in_a_row(value) -> bool:
    items = _items(value)
    return len(items) == 4 and all(_is_vector(item) or _is_list_of_numbers(item) for item in items)


def _vectors(value) -> list[Tensor]:
    """a, b, c y d en doble precisión, si son cuatro vectores de números reales de la misma longitud; si no, []."""
    leaves = _leaves(value)
    good = leaves and all(_is_vector(leaf) and kind(leaf) == "number" for leaf in leaves)
    if not good or len({len(leaf) for leaf in leaves}) > 1 or not len(leaves[0]):
        return []
    vectors = [leaf.double() for leaf in leaves]
    return vectors if all(torch.isfinite(vector).all() for vector in vectors) else []


def _margin(value) -> Tensor:
    """Cuánto puede deberse al redondeo en cada componente."""
    leaves = _leaves(value)
    rounding = max(ROUNDING.get(leaf.dtype, DEFAULT_ROUNDING) for leaf in leaves)
    return rounding * torch.stack(_vectors(value)).abs().amax(0)


def _same_pair(value) -> bool:
    a, b, c, d = _vectors(value)
    margin = 4 * _margin(value)  # una diferencia de un solo lado, aun la menor, mueve la media más que el redondeo
    return bool(((a - c).abs() <= margin).all() and ((b - d).abs() <= margin).all())


def _means_agree(value) -> Tensor:
    """En qué componentes coinciden las dos medias."""
    a, b, c, d = _vectors(value)
    return ((a + b) / 2 - (c + d) / 2).abs() <= _margin(value)


def _are_indistinguishable(value) -> bool:
    return bool(_vectors(value)) and not _same_pair(value) and bool(_means_agree(value).all())


def _different(condition):
    """Condición sobre a, b, c y d, cuando son cuatro vectores y las medias no coinciden."""

    def seen(value):
        vectors = _vectors(value)
        if not vectors or _same_pair(value) or _means_agree(value).all():
            return False
        return bool(condition(*vectors))

    return seen


def _close(x, y):
    return torch.allclose(x, y, rtol=1e-5, atol=1e-6)


def _t(*numbers):
    return torch.tensor([float(x) for x in numbers])


PAIRS = Check(
    id="3.3",
    reference=indistinguishable_pairs,
    value=True,
    right=_are_indistinguishable,
    cases=(Case("tus dos parejas", lambda generator: Call(())),),
    mistakes=(
        KnownMistake(
            "cuatro seguidos",
            lambda: (_t(1, 0), _t(0, 1), _t(0, 1), _t(1, 0)),
            "Hay cuatro vectores seguidos, sin agrupar. Escríbelos de dos en dos, con paréntesis: ((a, b), (c, d)).",
            seen=_four_in_a_row,
        ),
        KnownMistake(
            "una sola pareja",
            lambda: (_t(1, 0), _t(0, 1)),
            "Llega una sola pareja de vectores. Falta la otra, la que la cabeza confunde con ella: ((a, b), (c, d)).",
            seen=_single_pair,
        ),
        KnownMistake(
            "números",
            lambda: ((1.0, 3.0), (2.0, 2.0)),
            "Son parejas de números, y los valores de una cabeza son vectores. Pon tensores de una dimensión: "
            "`torch.tensor([…])`.",
            seen=_some_leaf(lambda leaf: number(leaf) is not None and not _is_vector(leaf)),
        ),
        KnownMistake(
            "listas",
            lambda: (([1.0, 0.0], [0.0, 1.0]), ([0.0, 1.0], [1.0, 0.0])),
            "Los vectores son listas de Python: con ellas «+» concatena en vez de sumar. Conviértelas con "
            "`torch.tensor(…)`.",
            seen=_some_leaf(_is_list_of_numbers),
        ),
        KnownMistake(
            "de NumPy",
            lambda: ((np.ones(2), np.zeros(2)), (np.zeros(2), np.ones(2))),
            "Los vectores son de NumPy y se piden tensores. Conviértelos con `torch.from_numpy(…)`.",
            seen=_some_leaf(lambda leaf: isinstance(leaf, np.ndarray)),
        ),
        KnownMistake(
            "textos",
            lambda: (("a", "b"), ("c", "d")),
            "Hay textos donde van los vectores. Escribe los tensores mismos, o sus nombres sin comillas.",
            seen=_some_leaf(lambda leaf: isinstance(leaf, str)),
        ),
        KnownMistake(
            "más de una dimensión",
            lambda: ((torch.eye(2), 1 - torch.eye(2)), (1 - torch.eye(2), torch.eye(2))),
            "Hay matrices donde van vectores. Pon tensores de una sola dimensión: con unos corchetes sobra.",
            seen=_some_leaf(lambda leaf: isinstance(leaf, Tensor) and leaf.dim() > 1),
        ),
        KnownMistake(
            "booleanos",
            lambda: ((_t(1, 0) > 0, _t(0, 1) > 0), (_t(0, 1) > 0, _t(1, 0) > 0)),
            "Los vectores son de booleanos, que no se promedian. Usa números.",
            seen=_some_leaf(lambda leaf: isinstance(leaf, Tensor) and kind(leaf) == "bool"),
        ),
        KnownMistake(
            "complejos",
            lambda: ((_t(1, 0) * 1j, _t(0, 1) * 1j), (_t(0, 1) * 1j, _t(1, 0) * 1j)),
            "Los vectores tienen números complejos. Los valores de una cabeza son reales: quita la parte imaginaria.",
            seen=_some_leaf(lambda leaf: isinstance(leaf, Tensor) and kind(leaf) == "complex"),
        ),
        KnownMistake(
            "vacíos",
            lambda: ((torch.empty(0), torch.empty(0)), (torch.empty(0), torch.empty(0))),
            "Hay vectores vacíos, y sin componentes no hay nada que distinguir. Ponles números: uno o más.",
            seen=_some_leaf(lambda leaf: _is_vector(leaf) and len(leaf) == 0),
        ),
        KnownMistake(
            "longitudes distintas",
            lambda: ((_t(1, 0), _t(0, 1)), (_t(1, 0, 0), _t(0, 1, 0))),
            "Los vectores no tienen todos la misma longitud, y en una cabeza todos los valores tienen la misma "
            "anchura. Iguala los cuatro.",
            seen=lambda value: len({len(leaf) for leaf in _leaves(value) if _is_vector(leaf)}) > 1,
        ),
        KnownMistake(
            "no finitos",
            lambda: ((_t("inf", 0), _t(0, 1)), (_t(0, 1), _t("inf", 0))),
            "Hay NaN o infinitos, y con ellos la media ya no es un punto. Usa números corrientes.",
            seen=_some_leaf(lambda leaf: _is_vector(leaf) and not torch.isfinite(leaf).all()),
        ),
        KnownMistake(
            "otra estructura",
            lambda: None,
            "No son dos parejas de vectores. La respuesta tiene esta forma: ((a, b), (c, d)), con cuatro tensores de "
            "una dimensión.",
            seen=lambda value: not _vectors(value),
        ),
        KnownMistake(
            "la misma pareja",
            lambda: ((_t(1, 0), _t(0, 1)), (_t(1, 0), _t(0, 1))),
            "Las dos parejas son la misma: ahí no hay nada que confundir. Busca otra, con a distinto de c o b distinto "
            "de d, que dé la misma media.",
            seen=lambda value: bool(_vectors(value)) and _same_pair(value),
        ),
        KnownMistake(
            "medias opuestas",
            lambda: ((_t(1, 0), _t(2, 3)), (_t(-1, 0), _t(-2, -3))),
            "La segunda media es la primera con el signo cambiado: son dos puntos distintos, y la cabeza los "
            "distingue. Tienen que ser el mismo.",
            seen=_different(lambda a, b, c, d: _close(a + b, -c - d)),
        ),
        KnownMistake(
            "agrupados por lugares",
            lambda: ((_t(1, 0), _t(3, 1)), (_t(5, 6), _t(3, 5))),
            "Agrupas los dos valores del primer lugar y los dos del segundo. Cada pareja es una situación: lo que hay "
            "en un lugar y lo que hay en el otro.",
            seen=_different(lambda a, b, c, d: _close(a + c, b + d)),
        ),
        KnownMistake(
            "misma diferencia",
            lambda: ((_t(1, 0), _t(0, 1)), (_t(3, 1), _t(2, 2))),
            "En las dos parejas coincide la diferencia entre los valores, y la cabeza no resta. Con pesos ½ y ½ da la "
            "media: lo que tiene que coincidir es la suma.",
            seen=_different(lambda a, b, c, d: _close(a - b, c - d)),
        ),
        KnownMistake(
            "proporcionales",
            lambda: ((_t(1, 0), _t(0, 1)), (_t(2, 0), _t(0, 2))),
            "Una pareja es la otra multiplicada por un número, y la media queda multiplicada también. Busca un cambio "
            "que se compense: lo que sumes a un valor, quítaselo al otro.",
            seen=_different(lambda a, b, c, d: _proportional(torch.cat([a, b]), torch.cat([c, d]))),
        ),
        KnownMistake(
            "mismo producto",
            lambda: ((_t(1, 6), _t(6, 1)), (_t(2, 3), _t(3, 2))),
            "Coincide el producto de los valores, componente a componente. La cabeza los suma con sus pesos: lo que "
            "tiene que coincidir es la media.",
            seen=_different(lambda a, b, c, d: (a * b).all() and _close(a * b, c * d)),
        ),
        KnownMistake(
            "media de los números",
            lambda: ((_t(1, 2), _t(3, 4)), (_t(2, 1), _t(5, 2))),
            "Coincide la media de todos los números de cada pareja, pero no la media como vector. La cabeza promedia "
            "componente a componente: mira cada una.",
            seen=_different(lambda a, b, c, d: _close((a + b).sum(), (c + d).sum())),
        ),
        KnownMistake(
            "coinciden solo unas componentes",
            lambda: ((_t(1, 2), _t(3, 4)), (_t(2, 1), _t(2, 7))),
            "Las medias coinciden en unas componentes y en otras no, y con una que cambie la cabeza ya las distingue. "
            "Iguala todas.",
            seen=lambda value: bool(_vectors(value)) and bool(_means_agree(value).any()) and not _same_pair(value),
        ),
        KnownMistake(
            "medias distintas",
            lambda: ((_t(1, 0), _t(0, 1)), (_t(3, 2), _t(1, 5))),
            "La cabeza sí distingue esas dos parejas: sus medias son puntos distintos. Súmale algo a un valor de la "
            "primera pareja y réstaselo al otro: ¿qué le pasa a la media?",
            seen=lambda value: bool(_vectors(value)) and not _same_pair(value),
        ),
    ),
)


def _proportional(x, y) -> bool:
    scale = (x @ y) / (x @ x) if x.any() else x.new_zeros(())
    return bool(scale != 0) and _close(scale * x, y)


CHECKS = (TWO_HEADS, BLENDED, PAIRS)
