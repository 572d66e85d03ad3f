"""Comprobaciones del capítulo 08: la caché, repetir claves y valores, GQA, convertir una capa y un paso al generar."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch

from .ch04 import _always_causal, _as_condition, _by_index, _hidden, _minus_infinity, _random_mask, _unless_none
from .ch05 import _pairs_of
from .compare import number
from .framework import Call, Case, Check, KnownMistake, out_of_reach

# 8.1 · Lo que ocupa la caché --------------------------------------------------------------------------------------


@out_of_reach
def kv_cache_bytes(n_layers, num_kv_heads, head_dim, n_tokens, batch=1, bytes_per_element=2):
    """2·L·g·d_k·n·batch·bytes: claves y valores. Shazeer (2019), §2.4."""
    return 2 * n_layers * num_kv_heads * head_dim * n_tokens * batch * bytes_per_element


class _Size(NamedTuple):
    """Los argumentos de 8.1."""

    layers: int
    heads: int
    dim: int
    tokens: int
    batch: int
    width: int


@dataclass(frozen=True)
class _CacheSize:
    """La cuenta, factor a factor. Un error conocido cambia uno de ellos, o lo que se hace al final."""

    kinds: Callable = lambda s: 2
    layers: Callable = lambda s: s.layers
    heads: Callable = lambda s: s.heads
    dim: Callable = lambda s: s.dim
    tokens: Callable = lambda s: s.tokens
    batch: Callable = lambda s: s.batch
    width: Callable = lambda s: s.width
    after: Callable = lambda total, s: total

    def __call__(self, n_layers, num_kv_heads, head_dim, n_tokens, batch=1, bytes_per_element=2):
        s = _Size(n_layers, num_kv_heads, head_dim, n_tokens, batch, bytes_per_element)
        factors = (self.kinds, self.layers, self.heads, self.dim, self.tokens, self.batch, self.width)
        return self.after(math.prod(factor(s) for factor in factors), s)


def _four_bytes_by_default(n_layers, num_kv_heads, head_dim, n_tokens, batch=1, bytes_per_element=4):
    return _CacheSize()(n_layers, num_kv_heads, head_dim, n_tokens, batch, bytes_per_element)


def _one_byte_by_default(n_layers, num_kv_heads, head_dim, n_tokens, batch=1, bytes_per_element=1):
    return _CacheSize()(n_layers, num_kv_heads, head_dim, n_tokens, batch, bytes_per_element)


def _rounded_unit(value, *args, **kwargs):
    """¿Es la cuenta buena, pasada a otra unidad y redondeada?"""
    mine, total = number(value), _CacheSize()(*args, **kwargs)
    units = [base**power for base in (1024, 1000) for power in (1, 2, 3)]
    return mine is not None and any(mine == round(total / unit, digits) for unit in units for digits in range(4))


CACHE_MISTAKES = (
    KnownMistake(
        "solo las claves",
        _CacheSize(kinds=lambda s: 1),
        "Sale la mitad: guardas las claves y no los valores, o al revés. Para atender hacen falta las dos cosas: "
        "cuenta ambas.",
    ),
    KnownMistake(
        "también las consultas",
        _CacheSize(kinds=lambda s: 3),
        "Guardas tres vectores por token y cabeza: sobra la consulta. La de un token pasado no se vuelve a usar; sus "
        "claves y sus valores, sí.",
    ),
    KnownMistake(
        "el doble",
        _CacheSize(kinds=lambda s: 4),
        "Sale el doble: cuentas dos veces las claves y los valores, o cuatro cosas por token. Hay un vector de clave y "
        "otro de valor.",
    ),
    KnownMistake(
        "sin las capas",
        _CacheSize(layers=lambda s: 1),
        "Es la caché de una sola capa. Cada capa tiene sus claves y sus valores: multiplica por `n_layers`.",
    ),
    KnownMistake(
        "sin las cabezas",
        _CacheSize(heads=lambda s: 1),
        "Es la caché de una sola cabeza, como si todo fuese MQA. Cada cabeza de claves y valores guarda los suyos: usa "
        "`num_kv_heads`.",
    ),
    KnownMistake(
        "sin la dimensión de la cabeza",
        _CacheSize(dim=lambda s: 1),
        "Guardas un número por token y cabeza. Es un vector entero: multiplica por `head_dim`.",
    ),
    KnownMistake(
        "sin los tokens",
        _CacheSize(tokens=lambda s: 1),
        "Es lo que ocupa cada token. La caché los guarda todos: multiplica por `n_tokens`.",
    ),
    KnownMistake(
        "sin el lote",
        _CacheSize(batch=lambda s: 1),
        "Es la caché de una secuencia, y con más de una sale lo mismo. Cada secuencia del lote tiene la suya: usa "
        "`batch`.",
    ),
    KnownMistake(
        "elementos en vez de bytes",
        _CacheSize(width=lambda s: 1),
        "Cuentas números, no bytes. Cada número ocupa `bytes_per_element`: multiplica por ellos.",
    ),
    KnownMistake(
        "dos bytes siempre",
        _CacheSize(width=lambda s: 2),
        "`bytes_per_element` no cambia nada: das por hecho que cada número ocupa lo mismo que en float16. Usa el "
        "argumento.",
    ),
    KnownMistake(
        "cuatro bytes siempre",
        _CacheSize(width=lambda s: 4),
        "Das por hecho que los números son float32, se pida lo que se pida. El tamaño llega como argumento.",
    ),
    KnownMistake(
        "cuatro bytes por omisión",
        _four_bytes_by_default,
        "Aciertas cuando se dan los bytes, y no cuando faltan: el valor por omisión de `bytes_per_element` no es el "
        "del enunciado. Copia la línea del `def`.",
    ),
    KnownMistake(
        "un byte por omisión",
        _one_byte_by_default,
        "Cuando no se dan los bytes, cuentas elementos: has puesto un 1 por omisión en `bytes_per_element`. Copia la "
        "línea del `def` tal como está.",
    ),
    KnownMistake(
        "en bits",
        _CacheSize(after=lambda total, s: 8 * total),
        "Sale ocho veces lo debido: está en bits. Se piden bytes.",
    ),
    KnownMistake(
        "bytes por bits",
        _CacheSize(after=lambda total, s: total / 8),
        "Divides entre ocho, como si los elementos llegasen medidos en bits. `bytes_per_element` ya son bytes.",
    ),
    KnownMistake(
        "en KiB",
        _CacheSize(after=lambda total, s: total / 1024),
        "El resultado está en KiB. Se piden bytes, sin pasar a otra unidad.",
    ),
    KnownMistake(
        "en MiB",
        _CacheSize(after=lambda total, s: total / 1024**2),
        "El resultado está en MiB. Quita las divisiones entre 1024: se piden bytes.",
    ),
    KnownMistake(
        "en GiB",
        _CacheSize(after=lambda total, s: total / 1024**3),
        "El resultado está en GiB. Devuelve los bytes sin convertir.",
    ),
    KnownMistake(
        "en kB",
        _CacheSize(after=lambda total, s: total / 1000),
        "Divides entre mil, y el resultado está en kB. Se piden bytes: deja la cuenta como sale.",
    ),
    KnownMistake(
        "en MB",
        _CacheSize(after=lambda total, s: total / 10**6),
        "El resultado está en millones de bytes. Se piden bytes sueltos.",
    ),
    KnownMistake(
        "en GB",
        _CacheSize(after=lambda total, s: total / 10**9),
        "El resultado está en miles de millones de bytes. Quita la conversión: se piden bytes.",
    ),
    KnownMistake(
        "redondeado en otra unidad",
        lambda *args, **kwargs: round(_CacheSize()(*args, **kwargs) / 2**20, 2),
        "El resultado está en otra unidad, y redondeado. Se piden bytes, todos: no dividas ni redondees.",
        seen=_rounded_unit,
    ),
    KnownMistake(
        "tokens al cuadrado",
        _CacheSize(tokens=lambda s: s.tokens**2),
        "La caché crece con el cuadrado de los tokens. Eso les pasa a las puntuaciones; aquí cada token guarda una vez "
        "lo suyo.",
    ),
    KnownMistake(
        "suma de todos los pasos",
        _CacheSize(tokens=lambda s: s.tokens * (s.tokens + 1) // 2),
        "Sumas lo que ocupaba la caché en cada paso. Es siempre la misma, que crece: cuenta cómo está al final.",
    ),
    KnownMistake(
        "las puntuaciones",
        _CacheSize(kinds=lambda s: 1, dim=lambda s: 1, tokens=lambda s: s.tokens**2),
        "Has contado las matrices de puntuaciones, una por cabeza y capa. La caché guarda otra cosa: las claves y los "
        "valores.",
    ),
    KnownMistake(
        "los parámetros",
        _CacheSize(heads=lambda s: s.heads**2, dim=lambda s: s.dim**2, tokens=lambda s: 1, batch=lambda s: 1),
        "Has contado los pesos de W^K y W^V, que no dependen de los tokens. La caché guarda lo que esas matrices "
        "producen: un vector por token y cabeza.",
    ),
    KnownMistake(
        "dimensión al cuadrado",
        _CacheSize(dim=lambda s: s.dim**2),
        "`head_dim` entra dos veces. Lo que se guarda de cada token es un vector, no una matriz.",
    ),
    KnownMistake(
        "cabezas al cuadrado",
        _CacheSize(heads=lambda s: s.heads**2),
        "`num_kv_heads` entra dos veces. `head_dim` ya es la anchura de una sola cabeza: multiplícala por las cabezas "
        "una vez.",
    ),
    KnownMistake(
        "entre las cabezas",
        _CacheSize(heads=lambda s: 1 / s.heads),
        "Divides entre el número de cabezas, como si `head_dim` fuese la anchura de todas. Es la de una: cuantas más "
        "hay, más se guarda.",
    ),
    KnownMistake(
        "capas al cuadrado",
        _CacheSize(layers=lambda s: s.layers**2),
        "`n_layers` entra dos veces. Cada capa guarda lo suyo una vez.",
    ),
    KnownMistake(
        "lote al cuadrado",
        _CacheSize(batch=lambda s: s.batch**2),
        "`batch` entra dos veces: el lote ya multiplica a todo lo demás. Déjalo una vez.",
    ),
    KnownMistake(
        "bytes al cuadrado",
        _CacheSize(width=lambda s: s.width**2),
        "`bytes_per_element` entra dos veces. Cada número ocupa esos bytes, y ya está.",
    ),
    KnownMistake(
        "lote sumado a los tokens",
        _CacheSize(tokens=lambda s: s.tokens + s.batch, batch=lambda s: 1),
        "Sumas el lote a los tokens. Son `batch` secuencias de `n_tokens` cada una: se multiplican.",
    ),
    KnownMistake(
        "el lote comparte las claves",
        _CacheSize(after=lambda total, s: total // 2 + total // (2 * s.batch)),
        "El lote multiplica a una de las dos cosas y a la otra no: falta un paréntesis. Claves y valores son de cada "
        "secuencia.",
    ),
    KnownMistake(
        "bytes solo en los valores",
        _CacheSize(after=lambda total, s: total // 2 + total // (2 * s.width)),
        "Los bytes multiplican a una de las dos cosas y a la otra no. Claves y valores ocupan lo mismo: pon la suma "
        "entre paréntesis.",
    ),
    KnownMistake(
        "un token de más",
        _CacheSize(tokens=lambda s: s.tokens + 1),
        "Cuentas un token de más. Son los `n_tokens` guardados, ni uno más.",
    ),
    KnownMistake(
        "un token de menos",
        _CacheSize(tokens=lambda s: s.tokens - 1),
        "Cuentas un token de menos. El último también se guarda: son `n_tokens`.",
    ),
    KnownMistake(
        "factores sumados",
        lambda n_layers, num_kv_heads, head_dim, n_tokens, batch=1, bytes_per_element=2: (
            2 * (n_layers + num_kv_heads + head_dim + n_tokens + batch) * bytes_per_element
        ),
        "Sumas los tamaños. Por cada capa hay varias cabezas, por cada cabeza varios tokens, por cada token un vector: "
        "todo se multiplica.",
    ),
    KnownMistake(
        "claves y valores por separado",
        lambda *args, **kwargs: (_CacheSize(kinds=lambda s: 1)(*args, **kwargs),) * 2,
        "Devuelves dos cuentas, la de las claves y la de los valores. Se pide un solo número: súmalas.",
    ),
    KnownMistake(
        "la cuenta en texto",
        lambda *args, **kwargs: f"{_CacheSize()(*args, **kwargs)} B",
        "Devuelves un texto. Se pide el número de bytes, sin formato ni unidades.",
        seen=lambda value, *_, **__: isinstance(value, str),
    ),
)

CACHE = Check(
    id="8.1",
    reference=kv_cache_bytes,
    cases=(
        Case("con los valores por omisión", lambda generator: Call((12, 5, 64, 50))),
        Case(
            "con lote y otros bytes",
            lambda generator: Call((30, 3, 96, 700), {"batch": 6, "bytes_per_element": 8}),
        ),
    ),
    mistakes=CACHE_MISTAKES,
    combined=_pairs_of(CACHE_MISTAKES, _CacheSize),
)

# 8.2 · Repetir claves y valores -----------------------------------------------------------------------------------


@out_of_reach
def repeat_kv(x, n_rep):
    """Cada cabeza, n_rep veces seguidas: (batch, g, n, d) → (batch, g·n_rep, n, d). Ainslie et al. (2023), §2.2."""
    return x.repeat_interleave(n_rep, dim=1)


def _heads_to_repeat(batch, g, n, d, n_rep):
    """Un caso: x llega como sale de dividir en cabezas, una vista traspuesta."""

    def make(generator):
        return Call((torch.randn(batch, n, g, d, generator=generator).transpose(1, 2), n_rep))

    return make


def _gathered(index):
    """El error de quien elige mal la cabeza KV de cada cabeza de consulta: `index(i, g, n_rep)`."""
    return lambda x, n_rep: torch.stack([x[:, index(i, x.shape[1], n_rep)] for i in range(x.shape[1] * n_rep)], dim=1)


def _expanded_last(x, n_rep):
    batch, g, n, d = x.shape
    return x[:, :, :, None].expand(batch, g, n, n_rep, d).reshape(batch, g * n_rep, n, d)


def _numbers_repeated(x, n_rep):
    batch, g, n, d = x.shape
    return x[..., None].expand(batch, g, n, d, n_rep).reshape(batch, g * n_rep, n, d)


def _batch_repeated_and_read(x, n_rep):
    batch, g, n, d = x.shape
    return x.repeat(n_rep, 1, 1, 1).reshape(batch, g * n_rep, n, d)


def _batch_interleaved_and_read(x, n_rep):
    batch, g, n, d = x.shape
    return x.repeat_interleave(n_rep, 0).reshape(batch, g * n_rep, n, d)


def _view_of_expanded(x, n_rep):
    batch, g, n, d = x.shape
    return x[:, :, None].expand(batch, g, n_rep, n, d).view(batch, g * n_rep, n, d)


def _only_first_copy(x, n_rep):
    kept = torch.zeros(n_rep)
    kept[0] = 1
    return x.repeat_interleave(n_rep, 1) * kept.repeat(x.shape[1])[:, None, None]


REPEAT_MISTAKES = (
    KnownMistake(
        "repeat en vez de repeat_interleave",
        lambda x, n_rep: x.repeat(1, n_rep, 1, 1),
        "La forma es correcta, pero las cabezas van en ciclo: 0, 1, …, 0, 1, … Las copias de una misma van seguidas: "
        "así es como las cabezas de consulta vecinas comparten la suya.",
    ),
    KnownMistake(
        "posiciones repetidas",
        lambda x, n_rep: x.repeat_interleave(n_rep, 2),
        "Repites las posiciones, y la secuencia sale más larga. Se repiten las cabezas, que están en la dimensión 1.",
    ),
    KnownMistake(
        "secuencia entera repetida",
        lambda x, n_rep: x.repeat(1, 1, n_rep, 1),
        "Pones las copias de cada cabeza una detrás de otra en la misma secuencia. Cada copia es otra cabeza: la "
        "dimensión que crece es la 1.",
    ),
    KnownMistake(
        "columnas repetidas",
        lambda x, n_rep: x.repeat_interleave(n_rep, -1),
        "Repites cada columna, y las cabezas salen más anchas. La anchura no cambia: crece la dimensión de cabezas, "
        "la 1.",
    ),
    KnownMistake(
        "vectores repetidos",
        lambda x, n_rep: x.repeat(1, 1, 1, n_rep),
        "Pones las copias una al lado de otra, y las cabezas salen más anchas. Cada copia es una cabeza aparte: "
        "repite en la dimensión 1.",
    ),
    KnownMistake(
        "lote repetido",
        lambda x, n_rep: x.repeat_interleave(n_rep, 0),
        "Repites cada secuencia: lo que crece es el lote, la dimensión 0. Las cabezas están en la 1.",
    ),
    KnownMistake(
        "lote repetido en ciclo",
        lambda x, n_rep: x.repeat(n_rep, 1, 1, 1),
        "Repites el lote entero varias veces. El primer número de `repeat` es el de la dimensión 0, y las cabezas no "
        "están ahí.",
    ),
    KnownMistake(
        "tal como llega",
        lambda x, n_rep: x,
        "Devuelves `x` sin repetir nada. Tienen que salir n_rep cabezas por cada una que entra.",
    ),
    KnownMistake(
        "dimensión de más",
        lambda x, n_rep: x[:, :, None].expand(-1, -1, n_rep, -1, -1),
        "Las copias están bien y quedan en una dimensión aparte, la 2. Fúndela con la de las cabezas: el resultado "
        "tiene cuatro dimensiones.",
    ),
    KnownMistake(
        "dimensión de más, delante de las cabezas",
        lambda x, n_rep: x[:, None].expand(-1, n_rep, -1, -1, -1),
        "Las copias quedan en una dimensión aparte, delante de la de las cabezas. Ponla detrás, para que al fundirlas "
        "las copias de una cabeza vayan seguidas, y fúndelas.",
    ),
    KnownMistake(
        "copias delante del lote",
        lambda x, n_rep: x[None].expand(n_rep, -1, -1, -1, -1),
        "Las copias quedan en una dimensión nueva delante de todo. Son cabezas: van en la dimensión 1, fundidas con "
        "las que había.",
    ),
    KnownMistake(
        "copias tras la posición",
        _expanded_last,
        "La forma es correcta y cada cabeza mezcla trozos de otras: repites detrás de la posición y vuelves a leer con "
        "`reshape`. La dimensión de las copias va justo detrás de la de las cabezas.",
    ),
    KnownMistake(
        "números repetidos y releídos",
        _numbers_repeated,
        "La forma es correcta, pero se repite cada número suelto, porque no dices en qué dimensión. Repite cabezas "
        "enteras: `dim=1`.",
    ),
    KnownMistake(
        "lote repetido y releído",
        _batch_repeated_and_read,
        "Repites el lote y das la forma final con `reshape`: cada secuencia se lleva cabezas de otras. Repite dentro "
        "de cada secuencia, en la dimensión 1.",
    ),
    KnownMistake(
        "sin dimensión",
        lambda x, n_rep: x.repeat_interleave(n_rep),
        "Sin decir la dimensión, `repeat_interleave` aplana el tensor y repite cada número. Dile cuál es la de las "
        "cabezas.",
    ),
    KnownMistake(
        "una sola para todas",
        _gathered(lambda i, g, n_rep: 0),
        "Todas las cabezas usan la KV número 0: eso sería MQA con lo demás tirado. Cada grupo tiene la suya.",
    ),
    KnownMistake(
        "en orden inverso",
        _gathered(lambda i, g, n_rep: g - 1 - i // n_rep),
        "Los grupos salen en orden inverso. Las primeras cabezas de consulta usan la KV número 0.",
    ),
    KnownMistake(
        "entre g",
        _gathered(lambda i, g, n_rep: i // g),
        "Eliges la cabeza KV dividiendo entre cuántas hay de ellas. Lo que mide cada grupo es n_rep: divide entre eso.",
        error="^IndexError",
    ),
    KnownMistake(
        "el resto en vez del cociente",
        _gathered(lambda i, g, n_rep: i % n_rep),
        "Para saber qué cabeza copia cada una tomas el resto de dividir entre n_rep, y las seguidas salen distintas. "
        "Hace falta el cociente, `//`.",
        error="^IndexError",
    ),
    KnownMistake(
        "una copia de más",
        lambda x, n_rep: x.repeat_interleave(n_rep + 1, 1),
        "Sale una copia de más por cabeza: cuentas la original aparte. n_rep son las que hay en total.",
    ),
    KnownMistake(
        "una copia de menos",
        lambda x, n_rep: x.repeat_interleave(n_rep - 1, 1),
        "Sale una copia de menos por cabeza. n_rep son las que tiene que haber, la original incluida.",
    ),
    KnownMistake(
        "n_rep al cuadrado",
        lambda x, n_rep: x.repeat_interleave(n_rep**2, 1),
        "Repites dos veces seguidas, y salen demasiadas cabezas. Con una basta: g·n_rep.",
    ),
    KnownMistake(
        "repartidas",
        lambda x, n_rep: x.repeat_interleave(n_rep, 1) / n_rep,
        "Divides los números entre las copias. Las claves no se reparten: cada copia es igual a la original.",
    ),
    KnownMistake(
        "copias a cero",
        _only_first_copy,
        "Solo la primera copia de cada cabeza lleva números; las demás son ceros. Tienen que ser todas iguales.",
    ),
    KnownMistake(
        "posición delante",
        lambda x, n_rep: x.repeat_interleave(n_rep, 1).transpose(1, 2),
        "Las copias están bien y las dimensiones no: dejas la posición delante de la cabeza. Devuelve (batch, "
        "g·n_rep, n, d).",
    ),
    KnownMistake(
        "traspuestas",
        lambda x, n_rep: x.repeat_interleave(n_rep, 1).mT,
        "Las dos últimas dimensiones salen cambiadas, como para multiplicar por las consultas. Aquí solo se repite: "
        "déjalas en su orden.",
    ),
    KnownMistake(
        "cabezas delante del lote",
        lambda x, n_rep: x.repeat_interleave(n_rep, 1).transpose(0, 1),
        "Las cabezas quedan delante del lote: al apilar, di en qué dimensión. Van en la 1.",
    ),
    KnownMistake(
        "unidas por la posición",
        lambda x, n_rep: torch.cat(x.repeat_interleave(n_rep, 1).unbind(1), dim=1),
        "Unes las copias por la posición y se pierde la dimensión de cabezas. Apílalas, con `torch.stack`, en la 1.",
    ),
    KnownMistake(
        "expand sin dimensión nueva",
        lambda x, n_rep: x.expand(x.shape[0], x.shape[1] * n_rep, *x.shape[2:]),
        "`expand` solo agranda dimensiones que miden 1. Abre primero una, detrás de la de las cabezas, y fúndela "
        "después.",
        error="expanded size",
    ),
    KnownMistake(
        "view de lo repetido",
        _view_of_expanded,
        "El camino es bueno, pero los números no están seguidos en memoria y `view` se niega a releerlos: pasa después "
        "de `expand` y de trasponer. Usa `reshape` o `flatten`.",
        error="view size is not compatible|size and stride",
    ),
    KnownMistake(
        "repeat con un solo número",
        lambda x, n_rep: x.repeat(n_rep),
        "`repeat` pide un número por dimensión, cuatro aquí, y así repetiría el bloque entero. Lo que necesitas es "
        "`repeat_interleave`, que repite cada cabeza.",
        error="repeat dims",
    ),
    KnownMistake(
        "tres copias fijas",
        lambda x, n_rep: x.repeat_interleave(3, 1),
        "Salen siempre tres copias, como en SmolLM2. Usa `n_rep`.",
    ),
    KnownMistake(
        "dos copias fijas",
        lambda x, n_rep: x.repeat_interleave(2, 1),
        "Salen siempre dos copias de cada cabeza. Cuántas son lo dice `n_rep`.",
    ),
    KnownMistake(
        "dos copias fijas, en ciclo",
        lambda x, n_rep: torch.cat([x, x], 1),
        "Pones `x` dos veces seguidas, sea cual sea `n_rep`, y además en ciclo. Repite cada cabeza n_rep veces, con "
        "las copias juntas.",
    ),
    KnownMistake(
        "tantas copias como cabezas",
        lambda x, n_rep: x.repeat_interleave(x.shape[1], 1),
        "Repites cada cabeza tantas veces como cabezas hay. Son `n_rep` veces.",
    ),
    KnownMistake(
        "la media de todas",
        lambda x, n_rep: x.mean(1, keepdim=True).expand(-1, x.shape[1] * n_rep, -1, -1),
        "Todas las cabezas salen iguales: son la media de las que llegan. Repetir no promedia: cada copia es una de "
        "ellas.",
    ),
    KnownMistake(
        "cuatro copias fijas",
        lambda x, n_rep: x.repeat_interleave(4, 1),
        "Salen siempre cuatro copias, las de Llama 3. El número llega en `n_rep`.",
    ),
)

REPEAT = Check(
    id="8.2",
    reference=repeat_kv,
    cases=(
        Case("tres consultas por grupo", _heads_to_repeat(2, 5, 7, 4, 3)),
        Case("cuatro consultas por grupo", _heads_to_repeat(5, 3, 6, 8, 4)),
    ),
    mistakes=REPEAT_MISTAKES,
)

# 8.3 · Atención de consultas agrupadas ----------------------------------------------------------------------------


@out_of_reach
def grouped_query_attention(query, key, value, mask=None):
    """softmax(Q_i K_jᵀ/√d)·V_j, con j = i // (h/g). Ainslie et al. (2023), §2.2."""
    per_group = query.shape[1] // key.shape[1]
    key, value = (x.repeat_interleave(per_group, dim=1) for x in (key, value))
    scores = query @ key.mT / query.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    return torch.softmax(scores, dim=-1) @ value


def _grouped_call(batch, h, g, n, d, *, masked=False, size=1.0):
    """Un caso: consultas de tamaño típico `size`, y claves y valores de tamaño 1."""

    def make(generator):
        query = size * torch.randn(batch, h, n, d, generator=generator)
        key, value = torch.randn(2, batch, g, n, d, generator=generator)
        return Call((query, key, value), {"mask": _random_mask(generator, n)} if masked else {})

    return make


def _shared(x, h):
    return x.repeat_interleave(h // x.shape[1], 1)


def _in_cycle(x, h):
    return x.repeat(1, h // x.shape[1], 1, 1)


def _first_for_all(x, h):
    return x[:, :1].expand(-1, h, -1, -1)


def _mean_for_all(x, h):
    return x.mean(1, keepdim=True).expand(-1, h, -1, -1)


def _groups_reversed(x, h):
    return _shared(x.flip(1), h)


def _by_number_of_groups(x, h):
    return x[:, [i // x.shape[1] for i in range(h)]]


def _not_shared(x, h):
    return x


def _numbers_shared(x, h):
    return _numbers_repeated(x, h // x.shape[1])


def _after_position(x, h):
    return _expanded_last(x, h // x.shape[1])


@dataclass(frozen=True)
class _Grouped:
    """La atención agrupada, paso a paso. Un error conocido cambia uno de los pasos."""

    roles: Callable = lambda query, key, value: (query, key, value)
    share_keys: Callable = _shared
    share_values: Callable = _shared
    compare: Callable = lambda query, key: query @ key.mT
    scale: Callable = lambda query, key: query.shape[-1] ** 0.5
    hide: Callable = _minus_infinity
    normalise: Callable = lambda scores: scores.softmax(-1)
    hide_late: Callable = lambda weights, mask: weights
    mix: Callable = lambda weights, value: weights @ value
    after: Callable = lambda output, g: output

    def __call__(self, query, key, value, mask=None):
        h, g = query.shape[1], key.shape[1]
        query, key, value = self.roles(query, key, value)
        scale = self.scale(query, key)
        key, value = self.share_keys(key, h), self.share_values(value, h)
        scores = self.hide(self.compare(query, key) / scale, mask)
        weights = self.hide_late(self.normalise(scores), mask)
        return self.after(self.mix(weights, value), g)


def _query_rows(query, key, value, mask=None, repeat=lambda mask, times: mask.repeat(times, 1)):
    """Las consultas de un grupo, como filas de una sola cabeza; la máscara se repite con `repeat`."""
    batch, h, n, d = query.shape
    g = key.shape[1]
    scores = query.reshape(batch, g, h // g * n, d) @ key.mT / d**0.5
    if mask is not None:
        scores = scores.masked_fill(~repeat(mask, h // g), float("-inf"))
    return (scores.softmax(-1) @ value).reshape(query.shape)


def _mask_row_by_row(query, key, value, mask=None):
    return _query_rows(query, key, value, mask, lambda mask, times: mask.repeat_interleave(times, 0))


def _mask_not_repeated(query, key, value, mask=None):
    return _query_rows(query, key, value, mask, lambda mask, times: mask)


def _mean_queries(query, key, value, mask=None):
    return _Grouped()(query.unflatten(1, (key.shape[1], -1)).mean(2), key, value, mask)


def _first_queries(query, key, value, mask=None):
    return _Grouped()(query[:, : key.shape[1]], key, value, mask)


def _first_query_of_each(query, key, value, mask=None):
    return _Grouped()(query.unflatten(1, (key.shape[1], -1))[:, :, 0], key, value, mask)


def _weights_only(query, key, value, mask=None):
    return _Grouped(share_values=lambda x, h: None, mix=lambda weights, value: weights)(query, key, value, mask)


def _with_weights(query, key, value, mask=None):
    return _Grouped()(query, key, value, mask), _weights_only(query, key, value, mask)


GROUPED_MISTAKES = (
    # Compartir.
    KnownMistake(
        "en ciclo",
        _Grouped(share_keys=_in_cycle, share_values=_in_cycle),
        "Cada cabeza de consulta usa la KV de otro grupo: las repartes en ciclo, 0, 1, 0, 1 (es lo que hace `repeat`). "
        "Los grupos son de cabezas vecinas: usa `repeat_interleave` o, si separas las consultas, hazlo en (g, h/g).",
    ),
    KnownMistake(
        "claves en ciclo",
        _Grouped(share_keys=_in_cycle),
        "Los valores están bien repartidos y las claves no: van en ciclo. Repítelas igual, cada una tantas veces "
        "seguidas como consultas tiene su grupo.",
    ),
    KnownMistake(
        "valores en ciclo",
        _Grouped(share_values=_in_cycle),
        "Las claves están bien repartidas y los valores no: van en ciclo. Haz con ellos lo mismo que con las claves.",
    ),
    KnownMistake(
        "la primera para todas",
        _Grouped(share_keys=_first_for_all, share_values=_first_for_all),
        "Todas las cabezas usan la KV número 0, y las demás se quedan sin usar. Eso es MQA: aquí cada grupo tiene la "
        "suya.",
    ),
    KnownMistake(
        "la media para todas",
        _Grouped(share_keys=_mean_for_all, share_values=_mean_for_all),
        "Haces la media de las cabezas KV y todas las consultas usan la misma. No se promedia nada: cada grupo usa la "
        "suya, entera.",
    ),
    KnownMistake(
        "grupos al revés",
        _Grouped(share_keys=_groups_reversed, share_values=_groups_reversed),
        "Los grupos van en orden inverso: las primeras consultas usan la última KV. Empieza por la 0.",
    ),
    KnownMistake(
        "entre g",
        _Grouped(share_keys=_by_number_of_groups, share_values=_by_number_of_groups),
        "Para saber qué KV le toca a la cabeza i, divides i entre g. Divide entre lo que mide un grupo, h/g.",
        error="^IndexError",
    ),
    KnownMistake(
        "números repetidos",
        _Grouped(share_keys=_numbers_shared, share_values=_numbers_shared),
        "Al repetir claves y valores repites números sueltos y los vuelves a leer en fila. Repite cabezas enteras, en "
        "la dimensión 1.",
    ),
    KnownMistake(
        "repetir tras la posición",
        _Grouped(share_keys=_after_position, share_values=_after_position),
        "Repites cada token dentro de su cabeza y relees con `reshape`: las cabezas acaban con trozos de otras. La "
        "dimensión nueva va detrás de la de las cabezas, no de la posición.",
    ),
    KnownMistake(
        "sin compartir",
        _Grouped(share_keys=_not_shared, share_values=_not_shared),
        "Las formas no encajan: no hay tantas cabezas de claves o de valores como de consulta. Repite cada una h/g "
        "veces, en la dimensión de las cabezas, junta las consultas de cada grupo, o usa `enable_gqa`.",
        error="non-singleton dimension 1|does not broadcast",
    ),
    KnownMistake(
        "siempre dos veces",
        _Grouped(
            share_keys=lambda x, h: x.repeat_interleave(2, 1), share_values=lambda x, h: x.repeat_interleave(2, 1)
        ),
        "Repites cada KV siempre dos veces, y solo encaja si los grupos son de dos. Cuántas son sale de las "
        "formas: h/g.",
        error="non-singleton dimension 1|does not broadcast",
    ),
    KnownMistake(
        "siempre tres veces",
        _Grouped(
            share_keys=lambda x, h: x.repeat_interleave(3, 1), share_values=lambda x, h: x.repeat_interleave(3, 1)
        ),
        "Repites cada KV siempre tres veces, como en SmolLM2, y con otros grupos no encaja. Divide h entre g.",
        error="non-singleton dimension 1|does not broadcast",
    ),
    KnownMistake(
        "media de las consultas",
        _mean_queries,
        "Haces la media de las consultas de cada grupo y salen g cabezas. Lo que se comparte son claves y valores: "
        "cada consulta sigue preguntando por su cuenta, y salen h.",
    ),
    KnownMistake(
        "las primeras consultas",
        _first_queries,
        "Te quedas con las g primeras cabezas de consulta y tiras las demás. Todas atienden: tienen que salir h.",
    ),
    KnownMistake(
        "una consulta por grupo",
        _first_query_of_each,
        "Solo atiende la primera cabeza de consulta de cada grupo, y salen g. Las demás comparten sus claves: también "
        "atienden.",
    ),
    KnownMistake(
        "media de la salida de cada grupo",
        _Grouped(after=lambda output, g: output.unflatten(1, (g, -1)).mean(2)),
        "Promedias lo que sale de las cabezas de un grupo y quedan g. Compartir claves no junta las salidas: devuelve "
        "las h.",
    ),
    KnownMistake(
        "solo la primera cabeza",
        _Grouped(after=lambda output, g: output[:, :1]),
        "Solo sale la primera cabeza de consulta: el `return` está dentro del bucle. Recórrelas todas.",
    ),
    KnownMistake(
        "solo la última cabeza",
        _Grouped(after=lambda output, g: output[:, -1:]),
        "Solo sale la última cabeza de consulta: en el bucle, cada una borra a la anterior. Guárdalas todas.",
    ),
    KnownMistake(
        "suma de la salida de cada grupo",
        _Grouped(after=lambda output, g: output.unflatten(1, (g, -1)).sum(2)),
        "Sumas lo que sale de las cabezas de un grupo. Devuelve cada una por separado, h en total.",
    ),
    KnownMistake(
        "salida en otro orden",
        _Grouped(after=lambda output, g: output.unflatten(1, (g, -1)).transpose(1, 2).flatten(1, 2)),
        "Las cabezas están bien calculadas y salen en otro orden: primero la primera de cada grupo, luego la segunda. "
        "Funde (g, h/g) en ese orden, sin trasponer.",
    ),
    KnownMistake(
        "grupos sin fundir",
        _Grouped(after=lambda output, g: output.unflatten(1, (g, -1))),
        "El resultado tiene cinco dimensiones, con los grupos aparte. Funde grupo y consulta en una: (batch, h, n, d).",
    ),
    KnownMistake(
        "máscara repetida fila a fila",
        _mask_row_by_row,
        "Al poner las consultas del grupo como filas, la máscara se repite entera tantas veces como consultas. Tú "
        "repites cada fila por separado: usa `repeat`, y no `repeat_interleave`.",
    ),
    KnownMistake(
        "máscara sin repetir",
        _mask_not_repeated,
        "Con máscara tu función falla: las filas son las de todo el grupo y la máscara solo tiene n. Repítela una vez "
        "por consulta del grupo, o separa las dimensiones antes de tapar.",
        error="non-singleton dimension [23]",
    ),
    # Los papeles.
    KnownMistake(
        "claves como valores",
        _Grouped(roles=lambda query, key, value: (query, key, key)),
        "Mezclas las claves, y `value` no se usa. Los pesos salen de consultas y claves; con ellos se mezclan los "
        "valores.",
    ),
    KnownMistake(
        "valores como claves",
        _Grouped(roles=lambda query, key, value: (query, value, value)),
        "Comparas las consultas con los valores, y `key` no se usa. Las puntuaciones son consultas por claves.",
    ),
    KnownMistake(
        "claves y valores cambiados",
        _Grouped(roles=lambda query, key, value: (query, value, key)),
        "Claves y valores están cambiados entre sí. Se compara con `key` y se mezcla `value`.",
    ),
    # Puntuar.
    KnownMistake(
        "claves sin trasponer",
        _Grouped(compare=lambda query, key: query @ key),
        "Al puntuar no encajan las formas: faltó trasponer las claves. Intercambia sus dos últimas dimensiones.",
        error="Expected size for first two dimensions",
    ),
    KnownMistake(
        "sin escala",
        _Grouped(scale=lambda query, key: 1.0),
        "Las puntuaciones llegan a la softmax sin dividir. Divídelas entre √d, con d la anchura de una cabeza.",
    ),
    KnownMistake(
        "entre d",
        _Grouped(scale=lambda query, key: query.shape[-1]),
        "Divides entre d (o dos veces entre su raíz, porque la función de torch ya lo hace). Es √d, una vez.",
    ),
    KnownMistake(
        "por √d",
        _Grouped(scale=lambda query, key: query.shape[-1] ** -0.5),
        "Multiplicas las puntuaciones por √d, y una clave se lo lleva casi todo. Divide.",
    ),
    KnownMistake(
        "d ** 1 / 2",
        _Grouped(scale=lambda query, key: query.shape[-1] / 2),
        "La escala es la mitad de d: Python eleva antes de dividir. Encierra el exponente, `d ** (1 / 2)`.",
    ),
    KnownMistake(
        "raíz truncada",
        _Grouped(scale=lambda query, key: int(query.shape[-1] ** 0.5)),
        "La raíz de d está redondeada a un entero. Déjala con decimales.",
    ),
    KnownMistake(
        "raíz de d_model",
        _Grouped(scale=lambda query, key: (query.shape[1] * query.shape[-1]) ** 0.5),
        "Divides entre la raíz de h·d, la anchura de todas las cabezas juntas. Cada puntuación suma d productos.",
    ),
    KnownMistake(
        "raíz de g·d",
        _Grouped(scale=lambda query, key: (key.shape[1] * key.shape[-1]) ** 0.5),
        "Divides entre la raíz de g·d. Compartir claves no cambia la escala: cada producto escalar tiene d sumandos.",
    ),
    KnownMistake(
        "raíz de la longitud",
        _Grouped(scale=lambda query, key: query.shape[-2] ** 0.5),
        "La escala depende de cuántos tokens hay: lees d en la penúltima dimensión. Es la última.",
    ),
    KnownMistake(
        "raíz del número de cabezas",
        _Grouped(scale=lambda query, key: query.shape[1] ** 0.5),
        "La escala depende de cuántas cabezas hay: lees d en la dimensión 1. Tómala de la última.",
    ),
    KnownMistake(
        "raíz de g",
        _Grouped(scale=lambda query, key: key.shape[1] ** 0.5),
        "Lees d en la dimensión 1 de las claves, y ahí están sus g cabezas. Es la última dimensión.",
    ),
    # Tapar.
    KnownMistake(
        "polaridad al revés",
        _Grouped(hide=_unless_none(lambda scores, mask: scores.masked_fill(mask, float("-inf")))),
        "Con máscara, cada token atiende justo a lo que no puede. True es «puede atender»: tapa donde sea False.",
    ),
    KnownMistake(
        "cero en las puntuaciones",
        _Grouped(hide=_hidden(0.0)),
        "Lo prohibido queda con puntuación 0 y sigue llevándose peso, porque su exponencial es 1. Tiene que ser −∞.",
    ),
    KnownMistake(
        "máscara sumada",
        _Grouped(hide=_unless_none(lambda scores, mask: scores + mask)),
        "Sumas la máscara booleana a las puntuaciones, y solo favoreces un poco lo permitido. Sustituye por −∞ lo "
        "prohibido.",
    ),
    KnownMistake(
        "máscara ignorada",
        _Grouped(hide=lambda scores, mask: scores),
        "La máscara no cambia nada: o no la usas, o haces `masked_fill` y no guardas lo que devuelve. Pon −∞ donde sea "
        "False, antes de la softmax.",
    ),
    KnownMistake(
        "máscara tras la softmax",
        _Grouped(hide=lambda scores, mask: scores, hide_late=_unless_none(lambda weights, mask: weights * mask)),
        "Tapas los pesos cuando la softmax ya ha repartido, y lo permitido suma menos de 1. Tapa las puntuaciones.",
    ),
    KnownMistake(
        "infinito tras la softmax",
        _Grouped(
            hide=lambda scores, mask: scores,
            hide_late=_unless_none(lambda weights, mask: weights.masked_fill(~mask, float("-inf"))),
        ),
        "Con máscara salen infinitos y NaN: el −∞ llega cuando la softmax ya ha repartido. Va antes, en las "
        "puntuaciones.",
    ),
    KnownMistake(
        "infinitos mal puestos",
        _Grouped(hide=_hidden(float("inf"))),
        "Con máscara salen NaN: hay un infinito con el signo cambiado o multiplicado por cero. Usa `masked_fill` con "
        "−∞, solo donde la máscara es False.",
    ),
    KnownMistake(
        "sin el signo menos",
        _Grouped(hide=_hidden(1e9)),
        "Lo prohibido se lleva todo el peso: el número con que lo tapas es enorme y positivo. Cámbiale el signo.",
    ),
    KnownMistake(
        "número poco negativo",
        _Grouped(hide=_hidden(-10.0)),
        "Lo prohibido pesa algo cuando lo permitido puntúa muy bajo: el número con que lo tapas se "
        "queda corto. Usa −∞.",
    ),
    KnownMistake(
        "máscara traspuesta",
        _Grouped(hide=_unless_none(lambda scores, mask: scores.masked_fill(~mask.mT, float("-inf")))),
        "La máscara está traspuesta: sus filas son las consultas. Úsala como llega.",
    ),
    KnownMistake(
        "causal siempre",
        _Grouped(hide=_always_causal),
        "Tapas el futuro haya máscara o no. Usa la que llega, y ninguna si es None: aquí no se pide causal.",
    ),
    KnownMistake(
        "causal si hay máscara",
        _Grouped(hide=_unless_none(_always_causal)),
        "Si llega una máscara, pones la causal en su lugar. Puede prohibir cualquier pareja: usa sus valores.",
    ),
    KnownMistake(
        "sin mirar si hay máscara",
        _Grouped(hide=lambda scores, mask: scores.masked_fill(~mask, float("-inf"))),
        "Sin máscara tu función falla: la usas aunque sea None. Pregunta antes con «is not None».",
        error="NoneType|must be Tensor, not bool|masked_fill",
    ),
    KnownMistake(
        "if mask",
        _Grouped(hide=_as_condition),
        "Con máscara tu función falla: un tensor con varios valores no es verdadero ni falso. Escribe «if mask is not "
        "None».",
        error="ambiguous",
    ),
    KnownMistake(
        "índice booleano",
        _Grouped(hide=_unless_none(_by_index)),
        "Con máscara tu función falla: como índice, (n, n) se busca en el lote y las cabezas. `masked_fill` la "
        "extiende sola.",
        error="shape of the mask|too many indices",
    ),
    # Normalizar, mezclar y devolver.
    KnownMistake(
        "softmax sobre las consultas",
        _Grouped(normalise=lambda scores: scores.softmax(-2)),
        "Normalizas cada columna, sobre las consultas. Cada fila reparte un peso de 1 entre las claves: la softmax va "
        "en la última dimensión.",
    ),
    KnownMistake(
        "softmax sobre las cabezas",
        _Grouped(normalise=lambda scores: scores.softmax(1)),
        "La softmax recorre la dimensión 1 y las cabezas se quitan peso. Normaliza sobre las claves.",
    ),
    KnownMistake(
        "softmax sobre el lote",
        _Grouped(normalise=lambda scores: scores.softmax(0)),
        "La softmax recorre la dimensión 0 y unas secuencias le quitan peso a otras. Normaliza sobre las claves.",
    ),
    KnownMistake(
        "sin softmax",
        _Grouped(hide=_hidden(0.0), normalise=lambda scores: scores),
        "Mezclas los valores con puntuaciones en bruto, también negativas. Falta la softmax entre las dos cosas.",
    ),
    KnownMistake(
        "exponencial sin normalizar",
        _Grouped(normalise=lambda scores: scores.exp()),
        "Los pesos son exponenciales sin dividir, y no suman 1. Divide cada fila entre su suma.",
    ),
    KnownMistake(
        "dos softmax",
        _Grouped(normalise=lambda scores: scores.softmax(-1).softmax(-1)),
        "Aplicas la softmax dos veces y los pesos salen casi iguales. Una es suficiente.",
    ),
    KnownMistake(
        "pesos traspuestos",
        _Grouped(mix=lambda weights, value: weights.mT @ value),
        "Traspones los pesos antes de mezclar. Cada consulta es una fila: pesos por valores, sin más.",
    ),
    KnownMistake(
        "entre las consultas del grupo",
        _Grouped(after=lambda output, g: output / (output.shape[1] // g)),
        "La salida está dividida entre las consultas del grupo. Compartir claves no es repartirlas: quita la división.",
    ),
    KnownMistake(
        "posición delante",
        _Grouped(after=lambda output, g: output.transpose(1, 2)),
        "Los números están bien y devuelves (batch, n, h, d). Deja las cabezas en la dimensión 1.",
    ),
    KnownMistake(
        "cabezas delante del lote",
        _Grouped(after=lambda output, g: output.transpose(0, 1)),
        "Los números están bien y la dimensión de cabezas ha quedado delante del lote. Al apilarlas, hazlo en la 1.",
    ),
    KnownMistake(
        "cabezas concatenadas",
        _Grouped(after=lambda output, g: output.transpose(1, 2).flatten(2)),
        "Devuelves las cabezas ya concatenadas, con h·d columnas. Aquí se piden por separado: (batch, h, n, d).",
    ),
    KnownMistake(
        "solo los pesos",
        _weights_only,
        "Devuelves los pesos, (batch, h, n, n). Falta mezclar con ellos los valores.",
    ),
    KnownMistake(
        "con los pesos",
        _with_weights,
        "Devuelves la salida y los pesos. Se pide solo la salida.",
    ),
)

GROUPED = Check(
    id="8.3",
    reference=grouped_query_attention,
    cases=(
        Case("sin máscara", _grouped_call(4, 6, 2, 7, 5)),
        Case("con máscara y puntuaciones altas y bajas", _grouped_call(3, 8, 4, 5, 6, masked=True, size=12.0)),
    ),
    mistakes=GROUPED_MISTAKES,
    combined=_pairs_of(GROUPED_MISTAKES, _Grouped),
)

# 8.4 · De MHA a GQA -----------------------------------------------------------------------------------------------


@out_of_reach
def mean_pool_kv(w, num_heads, num_kv_heads):
    """Media de las columnas de cada grupo de cabezas: (d_model, h·d) → (d_model, g·d). Ainslie et al. (2023), §2.1."""
    per_group, head_dim = num_heads // num_kv_heads, w.shape[1] // num_heads
    return w.reshape(len(w), num_kv_heads, per_group, head_dim).mean(dim=2).flatten(1)


def _projection(d_model, h, g, d):
    """Un caso: una matriz de varianza 1/d_model."""
    return lambda generator: Call((torch.randn(d_model, h * d, generator=generator) / d_model**0.5, h, g))


def _neighbours(w, h, g):
    """(d_model, g, h/g, d): los grupos de cabezas seguidas."""
    return w.unflatten(1, (g, h // g, -1))


def _strided_groups(w, h, g):
    return w.unflatten(1, (h // g, g, -1)).transpose(1, 2)


def _strided_columns(w, h, g):
    return w.unflatten(1, (-1, h)).transpose(1, 2).unflatten(1, (g, h // g))


def _groups_of_g(w, h, g):
    return w.unflatten(1, (h // g, g, -1))


def _neighbouring_columns(w, h, g):
    d = w.shape[1] // h
    return w.unflatten(1, (g * d, h // g)).unflatten(1, (g, d)).transpose(2, 3)


def _overlapping(w, h, g):
    heads = w.unflatten(1, (h, -1))
    return torch.stack([heads[:, i : i + h // g] for i in range(g)], dim=1)


def _groups_of(size):
    """El error de quien da por hecho cuántas cabezas lleva un grupo."""
    return lambda w, h, g: w.unflatten(1, (-1, size, w.shape[1] // h))


def _halving(groups):
    total = groups[:, :, 0]
    for i in range(1, groups.shape[2]):
        total = (total + groups[:, :, i]) / 2
    return total


@dataclass(frozen=True)
class _Pool:
    """Agrupar, resumir y juntar. Un error conocido cambia uno de los pasos."""

    split: Callable = _neighbours
    pool: Callable = lambda groups: groups.mean(2)
    join: Callable = lambda pooled, h: pooled.flatten(1)

    def __call__(self, w, num_heads, num_kv_heads):
        return self.join(self.pool(self.split(w, num_heads, num_kv_heads)), num_heads)


def _read_by_rows(w, num_heads, num_kv_heads):
    """Como si fuese (h·d, d_model), la de nn.Linear."""
    d = w.shape[1] // num_heads
    return w.reshape(num_kv_heads, num_heads // num_kv_heads, d, -1).mean(1).flatten(0, 1)


def _rows_of_heads(w, num_heads, num_kv_heads):
    """Las cabezas, buscadas en las filas."""
    d = w.shape[1] // num_heads
    return w.unflatten(0, (num_kv_heads, num_heads // num_kv_heads, d)).mean(1).flatten(0, 1)


def _view_without_moving(w, num_heads, num_kv_heads):
    d = w.shape[1] // num_heads
    heads = w.reshape(num_kv_heads, num_heads // num_kv_heads, len(w), d).mean(1)
    return heads.transpose(0, 1).flatten(1)


def _pool_rows(w, num_heads, num_kv_heads):
    size = num_heads // num_kv_heads
    return torch.stack([w[i * size : (i + 1) * size].mean(0) for i in range(-(-len(w) // size))])


def _last_group_only(w, num_heads, num_kv_heads):
    return _neighbours(w, num_heads, num_kv_heads).mean(2)[:, -1]


POOL_MISTAKES = (
    KnownMistake(
        "la suma",
        _Pool(pool=lambda groups: groups.sum(2)),
        "Sumas las cabezas del grupo y las claves salen demasiado grandes. Es la media: divide entre las que hay en "
        "el grupo.",
    ),
    KnownMistake(
        "la primera de cada grupo",
        _Pool(pool=lambda groups: groups[:, :, 0]),
        "Te quedas con la primera cabeza de cada grupo. Es otra manera de convertir, y el artículo la prueba; aquí se "
        "pide la media.",
    ),
    KnownMistake(
        "la última de cada grupo",
        _Pool(pool=lambda groups: groups[:, :, -1]),
        "Te quedas con la última cabeza de cada grupo: en el bucle, cada una borra a la anterior. Acumula y divide.",
    ),
    KnownMistake(
        "la última, ya dividida",
        _Pool(pool=lambda groups: groups[:, :, -1] / groups.shape[2]),
        "De cada grupo queda la última cabeza, dividida: asignas donde había que sumar. Acumula con `+=`.",
    ),
    KnownMistake(
        "la mediana",
        _Pool(pool=lambda groups: groups.median(2).values),
        "Tomas la mediana de las cabezas del grupo. Se pide la media.",
    ),
    KnownMistake(
        "el máximo",
        _Pool(pool=lambda groups: groups.amax(2)),
        "Tomas el mayor de cada columna del grupo, como en una red de convolución. Aquí se promedia.",
    ),
    KnownMistake(
        "raíz de la media de los cuadrados",
        _Pool(pool=lambda groups: groups.square().mean(2).sqrt()),
        "Haces la raíz de la media de los cuadrados, y todos los números salen positivos. Es la media corriente.",
    ),
    KnownMistake(
        "entre la raíz",
        _Pool(pool=lambda groups: groups.sum(2) / groups.shape[2] ** 0.5),
        "Divides la suma entre la raíz de las cabezas del grupo. Para la media se divide entre cuántas son.",
    ),
    KnownMistake(
        "entre todas las cabezas",
        _Pool(pool=lambda groups: groups.sum(2) / (groups.shape[1] * groups.shape[2])),
        "Divides entre las h cabezas. Cada grupo tiene h/g: divide entre esas.",
    ),
    KnownMistake(
        "entre g",
        _Pool(pool=lambda groups: groups.sum(2) / groups.shape[1]),
        "Divides entre el número de grupos. La media es de las cabezas de un grupo, que son h/g.",
    ),
    KnownMistake(
        "sin la última",
        _Pool(pool=lambda groups: groups[:, :, :-1].mean(2)),
        "Te dejas la última cabeza de cada grupo. El final de un recorte no se incluye: llega hasta (i + 1)·h/g.",
    ),
    KnownMistake(
        "sin la primera",
        _Pool(pool=lambda groups: groups[:, :, 1:].mean(2)),
        "Te dejas la primera cabeza de cada grupo. Todas entran en la media.",
    ),
    KnownMistake(
        "las dos primeras",
        _Pool(pool=lambda groups: groups[:, :, :2].mean(2)),
        "Promedias solo dos cabezas de cada grupo, y hay grupos con más. Son h/g.",
    ),
    KnownMistake(
        "los extremos",
        _Pool(pool=lambda groups: (groups[:, :, 0] + groups[:, :, -1]) / 2),
        "Promedias la primera y la última de cada grupo. Las de en medio también cuentan.",
    ),
    KnownMistake(
        "media de dos en dos",
        _Pool(pool=_halving),
        "Promedias lo que llevas con cada cabeza nueva, y la última cuenta la mitad. Suma todas y divide una vez.",
    ),
    KnownMistake(
        "el mínimo",
        _Pool(pool=lambda groups: groups.amin(2)),
        "Tomas el menor de cada columna del grupo. Aquí todas las cabezas cuentan: se promedian.",
    ),
    KnownMistake(
        "la norma",
        _Pool(pool=lambda groups: groups.norm(dim=2)),
        "Tomas la norma de las cabezas del grupo: la raíz de la suma de los cuadrados. Es la suma, entre cuántas son.",
    ),
    KnownMistake(
        "media entre grupos",
        _Pool(pool=lambda groups: groups.mean(1)),
        "Promedias unos grupos con otros, y quedan h/g cabezas. Se promedia *dentro* de cada grupo, y quedan g.",
    ),
    KnownMistake(
        "grupos salteados",
        _Pool(split=_strided_groups),
        "Juntas cabezas salteadas, de g en g. Los grupos son de cabezas seguidas, que son las que después comparten "
        "la misma KV.",
    ),
    KnownMistake(
        "columnas salteadas",
        _Pool(split=_strided_columns),
        "Lees las columnas de una cabeza salteadas, de h en h. Van seguidas: la cabeza 0 son las d primeras.",
    ),
    KnownMistake(
        "columnas vecinas",
        _Pool(split=_neighbouring_columns),
        "Promedias columnas vecinas, que son de una misma cabeza. Se promedia la columna c de una cabeza con la c de "
        "las otras de su grupo.",
    ),
    KnownMistake(
        "grupos de g",
        _Pool(split=_groups_of_g),
        "Los grupos te salen de g cabezas, y hay h/g de ellos. Es al revés: g grupos de h/g cabezas.",
    ),
    KnownMistake(
        "grupos que se solapan",
        _Pool(split=_overlapping),
        "Los grupos se solapan: el número i empieza en la cabeza i. Empieza en i·h/g, donde acaba el anterior.",
    ),
    KnownMistake(
        "grupos de dos",
        _Pool(split=_groups_of(2)),
        "Los grupos son siempre de dos cabezas. Cuántas lleva cada uno depende de h y de g: h/g.",
        error="multiply up|invalid for input",
    ),
    KnownMistake(
        "grupos de cuatro",
        _Pool(split=_groups_of(4)),
        "Das por hecho que cada grupo tiene cuatro cabezas, como en Llama 3. Calcula h/g con los argumentos.",
        error="multiply up|invalid for input",
    ),
    KnownMistake(
        "orden inverso",
        _Pool(join=lambda pooled, h: pooled.flip(1).flatten(1)),
        "Los grupos salen en orden inverso. El primero es el de las primeras cabezas.",
    ),
    KnownMistake(
        "grupos entrelazados al juntar",
        _Pool(join=lambda pooled, h: pooled.transpose(1, 2).flatten(1)),
        "Las medias están bien y al juntarlas quedan alternadas: una columna de cada grupo. Cada uno va entero y "
        "seguido.",
    ),
    KnownMistake(
        "sin juntar",
        _Pool(join=lambda pooled, h: pooled),
        "Devuelves tres dimensiones, (d_model, g, d). Funde las dos últimas: g·d columnas.",
    ),
    KnownMistake(
        "apiladas delante",
        _Pool(join=lambda pooled, h: pooled.transpose(0, 1)),
        "Apilas las medias en una dimensión nueva, delante. Concaténalas por columnas: `torch.cat(…, dim=1)`.",
    ),
    KnownMistake(
        "unidas por filas",
        _Pool(join=lambda pooled, h: pooled.transpose(0, 1).flatten(0, 1)),
        "Pones unas medias debajo de otras, y salen g·d_model filas. Van una al lado de otra: `dim=1`.",
    ),
    KnownMistake(
        "traspuesta",
        _Pool(join=lambda pooled, h: pooled.flatten(1).T),
        "El resultado está traspuesto, como lo guarda `nn.Linear`. Aquí las columnas son de las cabezas y las filas, "
        "d_model.",
    ),
    KnownMistake(
        "releída al final",
        _Pool(join=lambda pooled, h: pooled.flatten(1).T.reshape(pooled.shape[0], -1)),
        "La forma es la debida y los números no están en su sitio: al final relees con `reshape` una matriz que estaba "
        "traspuesta. Deshazlo con `.T`.",
    ),
    KnownMistake(
        "repetida hasta h",
        _Pool(join=lambda pooled, h: pooled.repeat_interleave(h // pooled.shape[1], 1).flatten(1)),
        "Devuelves h·d columnas: has repetido cada media para todas las cabezas del grupo. Lo que se ahorra está en no "
        "repetirla: g·d.",
    ),
    KnownMistake(
        "media de todas, repetida",
        _Pool(pool=lambda groups: groups.mean((1, 2))[:, None].expand(-1, groups.shape[1], -1)),
        "Todos los grupos salen iguales: promedias las h cabezas. Cada grupo tiene su media.",
    ),
    KnownMistake(
        "una sola cabeza",
        _Pool(pool=lambda groups: groups.mean((1, 2)), join=lambda pooled, h: pooled),
        "Sale una sola cabeza, la media de todas: eso es MQA. Se piden `num_kv_heads`.",
    ),
    KnownMistake(
        "solo el último grupo",
        _last_group_only,
        "Solo devuelves el último grupo: en el bucle, cada uno borra al anterior. Guárdalos todos y concaténalos.",
    ),
    KnownMistake(
        "un número por grupo",
        _Pool(pool=lambda groups: groups.mean((2, 3)), join=lambda pooled, h: pooled),
        "Promedias también las columnas y queda un número por grupo y fila. Cada grupo conserva sus d columnas.",
    ),
    KnownMistake(
        "una cabeza por fila",
        _Pool(pool=lambda groups: groups.mean(3), join=lambda pooled, h: pooled.flatten(1)),
        "Promedias las columnas de cada cabeza y quedan h números por fila. Se promedian cabezas, no columnas: g·d.",
    ),
    KnownMistake(
        "cabezas en las filas",
        _rows_of_heads,
        "Buscas las cabezas, o sacas d, en las filas, que son d_model. `w` se usa como x @ w: cada cabeza son d "
        "columnas.",
        error="multiply up|invalid for input|must match",
    ),
    KnownMistake(
        "leída por filas",
        _read_by_rows,
        "Relees `w` como si tuviese h·d filas, y los números caen en otro sitio. Tiene d_model filas: separa solo las "
        "columnas.",
    ),
    KnownMistake(
        "view sin mover",
        _view_without_moving,
        "Pones las cabezas delante con `reshape`, que no mueve nada: cada una se lleva filas enteras. Separa solo la "
        "última dimensión.",
    ),
    KnownMistake(
        "filas promediadas",
        _pool_rows,
        "Promedias filas, y salen menos de d_model. Las filas se quedan como están: se promedian columnas de cabezas.",
    ),
    KnownMistake(
        "las columnas de las primeras",
        lambda w, num_heads, num_kv_heads: w[:, : w.shape[1] // num_heads * num_kv_heads],
        "Te quedas con las g primeras cabezas y tiras las demás. Cada grupo se resume con la media de las suyas.",
    ),
    KnownMistake(
        "sin convertir",
        lambda w, num_heads, num_kv_heads: w,
        "Devuelves `w` con sus h cabezas. Tienen que quedar g·d columnas.",
    ),
)

POOL = Check(
    id="8.4",
    reference=mean_pool_kv,
    cases=(
        Case("grupos de dos", _projection(10, 6, 3, 4)),
        Case("grupos de cuatro", _projection(15, 8, 2, 5)),
    ),
    mistakes=POOL_MISTAKES,
    combined=_pairs_of(POOL_MISTAKES, _Pool),
)

# 8.5 · Un paso de generación --------------------------------------------------------------------------------------


@out_of_reach
def decode_step(query, key, value, cache):
    """Añade el token nuevo a la caché y lo atiende con ella. Shazeer (2019), §2.4."""
    if cache is not None:
        key, value = torch.cat([cache[0], key], dim=2), torch.cat([cache[1], value], dim=2)
    weights = torch.softmax(query @ key.mT / query.shape[-1] ** 0.5, dim=-1)
    return weights @ value, (key, value)


def _step(batch, h, d, n_cached):
    """Un caso: el token nuevo y una caché de `n_cached` tokens (None si no hay ninguno)."""

    def make(generator):
        query, key, value = torch.randn(3, batch, h, 1, d, generator=generator)
        cache = tuple(torch.randn(2, batch, h, n_cached, d, generator=generator)) if n_cached else None
        return Call((2 * query, key, value, cache))

    return make


def _appended(cache, key, value):
    if cache is None:
        return key, value
    return torch.cat([cache[0], key], 2), torch.cat([cache[1], value], 2)


def _appended_first(cache, key, value):
    return (key, value) if cache is None else (torch.cat([key, cache[0]], 2), torch.cat([value, cache[1]], 2))


def _appended_twice(cache, key, value):
    return _appended(_appended(cache, key, value), key, value)


def _appended_in(dim):
    return lambda cache, key, value: (
        (key, value) if cache is None else (torch.cat([cache[0], key], dim), torch.cat([cache[1], value], dim))
    )


def _read_swapped(cache, key, value):
    return _appended(None if cache is None else cache[::-1], key, value)


def _crossed(cache, key, value):
    return _appended(cache, value, key)


def _key_in_both(cache, key, value):
    return _appended(cache, key, key)


def _only_keys(cache, key, value):
    return (key, value) if cache is None else (torch.cat([cache[0], key], 2), cache[1])


def _fixed_size(cache, key, value):
    return (key, value) if cache is None else tuple(x[:, :, 1:] for x in _appended(cache, key, value))


def _last_replaced(cache, key, value):
    return (key, value) if cache is None else _appended(tuple(x[:, :, :-1] for x in cache), key, value)


def _zeros_at_first(cache, key, value):
    return _appended((torch.zeros_like(key), torch.zeros_like(value)) if cache is None else cache, key, value)


def _without_none(cache, key, value):
    keys, values = cache
    return torch.cat([keys, key], 2), torch.cat([values, value], 2)


def _written_in_pair(cache, key, value):
    if cache is None:
        return key, value
    cache[0] = torch.cat([cache[0], key], 2)
    cache[1] = torch.cat([cache[1], value], 2)
    return cache


def _everything(cache, grown, key, value):
    return grown


def _only_the_past(cache, grown, key, value):
    return grown if cache is None else cache


def _attend(query, keys, values):
    return torch.softmax(query @ keys.mT / query.shape[-1] ** 0.5, -1) @ values


def _attend_scaled(scale):
    return lambda query, keys, values: torch.softmax(query @ keys.mT / scale(query, keys), -1) @ values


def _top_left(query, keys, values):
    hidden = torch.ones(1, keys.shape[2], dtype=torch.bool).triu(1)
    return torch.softmax((query @ keys.mT).masked_fill(hidden, float("-inf")), -1) @ values


@dataclass(frozen=True)
class _Step:
    """Añadir, elegir a qué se atiende, atender y devolver. Un error conocido cambia uno de los pasos."""

    grow: Callable = _appended
    visible: Callable = _everything
    attend: Callable = _attend
    keep: Callable = lambda cache, grown, key, value, query: grown
    give: Callable = lambda output, kept: (output, kept)

    def __call__(self, query, key, value, cache):
        grown = self.grow(cache, key, value)
        output = self.attend(query, *self.visible(cache, grown, key, value))
        return self.give(output, self.keep(cache, grown, key, value, query))


def _is_one_tensor(value) -> bool:
    return (
        isinstance(value, tuple | list)
        and len(value) == 2
        and isinstance(value[0], torch.Tensor)
        and isinstance(value[1], torch.Tensor)
    )


STEP_MISTAKES = (
    # Añadir.
    KnownMistake(
        "al principio",
        _Step(grow=_appended_first),
        "La salida está bien, pero el token nuevo queda delante en la caché. El orden es el de la secuencia: los "
        "viejos primero.",
    ),
    KnownMistake(
        "dos veces",
        _Step(grow=_appended_twice),
        "El token nuevo entra dos veces en la caché, y se lleva el doble de peso. Añádelo una.",
    ),
    KnownMistake(
        "por la dimensión de cabezas",
        _Step(grow=_appended_in(1)),
        "Al concatenar no encajan las formas: unes por una dimensión que no es la de los tokens. Las de la caché son "
        "(batch, h, n, d): crece la 2.",
        error="Sizes of tensors must match",
    ),
    KnownMistake(
        "leída al revés",
        _Step(grow=_read_swapped),
        "Lees la caché al revés: tomas los valores viejos por claves. Va primero la de las claves.",
    ),
    KnownMistake(
        "clave y valor cambiados",
        _Step(grow=_crossed),
        "La clave nueva va a parar a los valores, y el valor a las claves. Cada uno con los suyos.",
    ),
    KnownMistake(
        "la clave en los dos sitios",
        _Step(grow=_key_in_both),
        "Añades la clave nueva también a los valores, y `value` no se usa. A los valores les toca `value`.",
    ),
    KnownMistake(
        "el valor en los dos sitios",
        _Step(grow=lambda cache, key, value: _appended(cache, value, value)),
        "Añades el valor nuevo también a las claves, y `key` no se usa. A las claves les toca `key`.",
    ),
    KnownMistake(
        "la consulta en las claves",
        lambda query, key, value, cache: _Step()(query, query, value, cache),
        "A las claves les añades la consulta nueva. La consulta solo se usa en este paso: se guarda la clave.",
    ),
    KnownMistake(
        "la clave como consulta",
        lambda query, key, value, cache: _Step()(key, key, value, cache),
        "Preguntas con la clave nueva, y `query` no se usa. La consulta es quien reparte el peso.",
    ),
    KnownMistake(
        "crece solo una",
        _Step(grow=_only_keys),
        "Crecen las claves y los valores no, o al revés: al mezclar no hay tantos pesos como valores. Añade los dos.",
        error="Expected size for first two dimensions|must match|shapes cannot be multiplied",
    ),
    KnownMistake(
        "de tamaño fijo",
        _Step(grow=_fixed_size),
        "La caché no crece: al entrar el token nuevo sale el más viejo, como en una ventana. Aquí se guardan todos.",
    ),
    KnownMistake(
        "en lugar del último",
        _Step(grow=_last_replaced),
        "El token nuevo ocupa el sitio del último, que se pierde. Añádelo detrás.",
    ),
    KnownMistake(
        "ceros al empezar",
        _Step(grow=_zeros_at_first),
        "Con `cache` None empiezas con un token de ceros, que se queda en la caché y se lleva peso. Empieza sin "
        "ninguno: la caché es la clave y el valor nuevos.",
    ),
    KnownMistake(
        "solo ceros al empezar",
        _Step(grow=lambda cache, key, value: _appended(cache, *((key, value) if cache else (key * 0, value * 0)))),
        "En el primer paso devuelves ceros y el token nuevo no entra en la caché. Ya hay uno que guardar: el nuevo.",
    ),
    KnownMistake(
        "sin prever None",
        _Step(grow=_without_none),
        "En el primer paso `cache` es None y no se puede repartir en dos ni leer. Trátalo aparte: la caché serán la "
        "clave y el valor nuevos.",
        error="NoneType",
    ),
    KnownMistake(
        "escribir en la pareja",
        _Step(grow=_written_in_pair),
        "Intentas sustituir un elemento de `cache`, y una tupla no se puede cambiar; además, la caché que llega no se "
        "modifica. Haz una pareja nueva con lo que salga de `torch.cat`.",
        error="item assignment",
    ),
    # A qué se atiende.
    KnownMistake(
        "solo al pasado",
        _Step(visible=_only_the_past),
        "Atiendes a la caché de antes, sin el token nuevo. Un token también se atiende a sí mismo: añade primero y "
        "atiende después.",
    ),
    KnownMistake(
        "solo a sí mismo",
        _Step(visible=lambda cache, grown, key, value: (key, value)),
        "El token nuevo solo se atiende a sí mismo, y lo viejo no cuenta. Atiende a la caché entera.",
    ),
    KnownMistake(
        "todo menos el primero",
        _Step(visible=lambda cache, grown, key, value: tuple(x[:, :, -max(1, x.shape[2] - 1) :] for x in grown)),
        "El primer token de la caché no recibe peso. También se le atiende: usa todas las claves.",
    ),
    # Atender.
    KnownMistake(
        "causal desde arriba",
        _Step(attend=_top_left),
        "La salida es el valor del token más viejo: la máscara causal se alinea arriba a la izquierda (así lo hace "
        "`is_causal`), y la única consulta no ve más. Es la última y lo ve todo: aquí sobra la máscara.",
    ),
    KnownMistake(
        "sin escala",
        _Step(attend=_attend_scaled(lambda query, keys: 1.0)),
        "Con un token da igual, y con más el reparto sale demasiado concentrado: falta la escala. Divide las "
        "puntuaciones entre √d.",
    ),
    KnownMistake(
        "entre d",
        _Step(attend=_attend_scaled(lambda query, keys: query.shape[-1])),
        "El reparto sale demasiado igualado: divides entre d, o dos veces entre √d. Es √d, una sola vez.",
    ),
    KnownMistake(
        "por √d",
        _Step(attend=_attend_scaled(lambda query, keys: query.shape[-1] ** -0.5)),
        "Multiplicas por √d en vez de dividir, y un token se queda con casi todo. Cambia la operación.",
    ),
    KnownMistake(
        "raíz de los tokens",
        _Step(attend=_attend_scaled(lambda query, keys: keys.shape[2] ** 0.5)),
        "La escala crece con la caché: usas la raíz de cuántos tokens hay. Es la de d, que no cambia.",
    ),
    KnownMistake(
        "raíz de d_model",
        _Step(attend=_attend_scaled(lambda query, keys: (query.shape[1] * query.shape[-1]) ** 0.5)),
        "Divides entre la raíz de h·d. Cada cabeza compara d números: √d.",
    ),
    KnownMistake(
        "d ** 1 / 2",
        _Step(attend=_attend_scaled(lambda query, keys: query.shape[-1] / 2)),
        "Divides entre la mitad de d: `d ** 1 / 2` eleva y luego divide. Falta un paréntesis.",
    ),
    KnownMistake(
        "raíz truncada",
        _Step(attend=_attend_scaled(lambda query, keys: int(query.shape[-1] ** 0.5))),
        "Redondeas la raíz de d a un entero. La escala lleva decimales.",
    ),
    KnownMistake(
        "softmax sobre la consulta",
        _Step(attend=lambda query, keys, values: torch.softmax(query @ keys.mT, -2) @ values),
        "La salida es la suma de los valores: normalizas sobre las consultas, y como hay una, todos los pesos son 1. "
        "Normaliza sobre las claves.",
    ),
    KnownMistake(
        "softmax sobre las cabezas",
        _Step(attend=lambda query, keys, values: torch.softmax(query @ keys.mT / query.shape[-1] ** 0.5, 1) @ values),
        "La softmax recorre las cabezas, y ya el primer paso sale mal. Recorre las claves, la última dimensión.",
    ),
    KnownMistake(
        "softmax sobre el lote",
        _Step(attend=lambda query, keys, values: torch.softmax(query @ keys.mT / query.shape[-1] ** 0.5, 0) @ values),
        "La softmax recorre el lote, la dimensión 0. Las claves están en la última.",
    ),
    KnownMistake(
        "sin softmax",
        _Step(attend=lambda query, keys, values: query @ keys.mT / query.shape[-1] ** 0.5 @ values),
        "Mezclas los valores con las puntuaciones, sin softmax: ni con un solo token sale su valor. Normaliza antes.",
    ),
    KnownMistake(
        "exponencial sin normalizar",
        _Step(attend=lambda query, keys, values: (query @ keys.mT / query.shape[-1] ** 0.5).exp() @ values),
        "Los pesos son exponenciales que nadie divide. Con un solo token el peso tiene que ser 1: divide entre la "
        "suma.",
    ),
    KnownMistake(
        "reparto uniforme",
        _Step(attend=lambda query, keys, values: values.mean(2, keepdim=True)),
        "La salida es la media de los valores, y la consulta no interviene. Pesa cada valor con la softmax de su "
        "puntuación.",
    ),
    KnownMistake(
        "claves en vez de valores",
        _Step(attend=lambda query, keys, values: _attend(query, keys, keys)),
        "La salida mezcla claves. Los pesos salen de ellas; lo que se mezcla son los valores.",
    ),
    KnownMistake(
        "valores como claves",
        _Step(attend=lambda query, keys, values: _attend(query, values, values)),
        "Las puntuaciones salen de los valores, y las claves no se usan. Compara la consulta con las claves.",
    ),
    KnownMistake(
        "claves y valores cambiados al atender",
        _Step(attend=lambda query, keys, values: _attend(query, values, keys)),
        "Al atender, claves y valores están cambiados: mezclas claves con pesos sacados de los valores. Dales la "
        "vuelta.",
    ),
    KnownMistake(
        "los pesos",
        _Step(attend=lambda query, keys, values: torch.softmax(query @ keys.mT / query.shape[-1] ** 0.5, -1)),
        "La primera cosa que devuelves son los pesos, uno por token. Se pide la salida: mezcla con ellos los valores.",
    ),
    KnownMistake(
        "sin la dimensión del token",
        _Step(attend=lambda query, keys, values: _attend(query, keys, values).squeeze(2)),
        "A la salida le falta la dimensión del token, que mide 1. Déjala: (batch, h, 1, d).",
    ),
    KnownMistake(
        "cabezas concatenadas",
        _Step(attend=lambda query, keys, values: _attend(query, keys, values).transpose(1, 2).flatten(2)),
        "La salida lleva las cabezas ya concatenadas. Se piden aparte: (batch, h, 1, d).",
    ),
    KnownMistake(
        "con la suma residual",
        lambda query, key, value, cache: (
            (step := _Step()(query, key, value, cache))[0] + query,
            step[1],
        ),
        "A la salida le sumas la consulta. Esa suma la hace el bloque, con otra cosa y en otro sitio: quítala.",
    ),
    # La caché que se devuelve.
    KnownMistake(
        "la de antes",
        _Step(keep=lambda cache, grown, key, value, query: cache),
        "La salida está bien y devuelves la caché de antes: el próximo paso no sabrá que este token existió. Devuelve "
        "la que lo incluye.",
    ),
    KnownMistake(
        "solo lo nuevo",
        _Step(keep=lambda cache, grown, key, value, query: (key, value)),
        "La caché que devuelves solo lleva el token nuevo, y lo anterior se pierde. Devuelve todo lo acumulado.",
    ),
    KnownMistake(
        "None en vez de la caché",
        _Step(keep=lambda cache, grown, key, value, query: None),
        "En el sitio de la caché devuelves None. El paso siguiente la necesita: devuelve (claves, valores).",
    ),
    KnownMistake(
        "en un diccionario",
        _Step(keep=lambda cache, grown, key, value, query: {"keys": grown[0], "values": grown[1]}),
        "Devuelves la caché en un diccionario. Se pide una pareja, (claves, valores), como la que recibes.",
        seen=lambda value, *_: isinstance(value, tuple | list) and len(value) == 2 and isinstance(value[1], dict),
    ),
    KnownMistake(
        "posición delante en la caché",
        _Step(keep=lambda cache, grown, key, value, query: tuple(x.transpose(1, 2) for x in grown)),
        "Guardas la caché con la posición delante de las cabezas. Déjala como llega: (batch, h, n, d).",
    ),
    KnownMistake(
        "devuelta al revés",
        _Step(keep=lambda cache, grown, key, value, query: grown[::-1]),
        "Devuelves la caché con los valores delante. El orden es (claves, valores), el mismo en que se recibe.",
    ),
    KnownMistake(
        "claves traspuestas",
        _Step(keep=lambda cache, grown, key, value, query: (grown[0].mT, grown[1])),
        "Guardas las claves ya traspuestas, y el paso siguiente no podrá añadirles otra. Guárdalas como llegan y "
        "traspón al multiplicar.",
    ),
    KnownMistake(
        "claves escaladas",
        _Step(keep=lambda cache, grown, key, value, query: (grown[0] / key.shape[-1] ** 0.5, grown[1])),
        "Guardas las claves divididas entre √d, y en cada paso se dividirán otra vez. La escala es de las "
        "puntuaciones: no toques lo que se guarda.",
    ),
    KnownMistake(
        "un solo tensor",
        _Step(keep=lambda cache, grown, key, value, query: torch.stack(grown)),
        "La caché que devuelves es un solo tensor. Se pide una pareja: claves y valores, cada uno en el suyo.",
        seen=lambda value, *_: _is_one_tensor(value),
    ),
    KnownMistake(
        "con la consulta",
        _Step(keep=lambda cache, grown, key, value, query: (query, *grown)),
        "Guardas también la consulta. No se vuelve a usar: la caché son dos tensores.",
        seen=lambda value, *_: (
            isinstance(value, tuple | list)
            and len(value) == 2
            and isinstance(value[1], tuple | list)
            and len(value[1]) == 3
        ),
    ),
    KnownMistake(
        "tres cosas",
        _Step(give=lambda output, kept: (output, *kept)),
        "Devuelves tres cosas sueltas: salida, claves y valores. Se piden dos, y la segunda es la pareja.",
        seen=lambda value, *_: isinstance(value, tuple | list) and len(value) == 3,
    ),
    KnownMistake(
        "la caché delante",
        _Step(give=lambda output, kept: (kept, output)),
        "Devuelves primero la caché. Va la salida delante.",
        seen=lambda value, *_: (
            isinstance(value, tuple | list)
            and len(value) == 2
            and isinstance(value[0], tuple | list)
            and isinstance(value[1], torch.Tensor)
        ),
    ),
    KnownMistake(
        "solo la salida",
        _Step(give=lambda output, kept: output),
        "Solo devuelves la salida, y sin la caché el paso siguiente no puede seguir. Devuelve las dos cosas.",
        seen=lambda value, *_: isinstance(value, torch.Tensor),
    ),
)

STEP = Check(
    id="8.5",
    reference=decode_step,
    cases=(
        Case("primer token, sin caché", _step(2, 4, 5, 0)),
        Case("con tokens en la caché", _step(3, 5, 8, 6)),
    ),
    mistakes=STEP_MISTAKES,
    combined=_pairs_of(STEP_MISTAKES, _Step),
)

CHECKS = (CACHE, REPEAT, GROUPED, POOL, STEP)
