"""Comprobaciones del capítulo 04: dimensión por cabeza, dividir y juntar, la capa entera, coste y contribuciones."""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from itertools import combinations

import numpy as np
import torch

from .compare import difference, number
from .framework import Call, Case, Check, KnownMistake, out_of_reach

# 4.1 · La dimensión de cada cabeza --------------------------------------------------------------------------------


@out_of_reach
def head_dims():
    """d_model / h con d_model = 1024, para h = 16 y h = 8. Vaswani et al. (2017), §3.2.2 y tabla 3."""
    return 1024 // 16, 1024 // 8


def _pair_of_text(value):
    return isinstance(value, str) or (isinstance(value, tuple | list) and any(isinstance(item, str) for item in value))


def _not_in_order(value):
    return isinstance(value, dict | set | frozenset)


def _one_number(value):
    return isinstance(value, int | float) and not isinstance(value, bool)


def _numbers(value) -> list:
    """Los números que llegan; [] si lo que llega no son números, uno detrás de otro."""
    items = value.tolist() if isinstance(value, torch.Tensor | np.ndarray) and value.ndim == 1 else value
    items = [number(item) for item in items] if isinstance(items, list | tuple) else []
    return [] if None in items else items


def _another_count(value) -> bool:
    return len(_numbers(value)) not in (0, 2)


def _right_only_at(position: int):
    """Condición: de los dos números, solo está bien el de ese sitio."""

    def seen(value):
        mine = _numbers(value)
        finite = len(mine) == 2 and all(map(math.isfinite, mine))
        return finite and [mine[0] == 64, mine[1] == 128] == [position == 0, position == 1]

    return seen


def _both_wrong(value) -> bool:
    mine = _numbers(value)
    return len(mine) == 2 and all(map(math.isfinite, mine)) and mine[0] != 64 and mine[1] != 128


HEAD_DIMS = Check(
    id="4.1",
    reference=head_dims,
    value=True,
    cases=(Case("d_model = 1024", lambda generator: Call(())),),
    mistakes=(
        KnownMistake(
            "orden cambiado",
            lambda: (128, 64),
            "Los dos números son los que hay que dar, en el orden contrario. Con más cabezas, cada una es más "
            "estrecha: el primero es el de 16 cabezas.",
        ),
        KnownMistake(
            "cabezas entre dimensión",
            lambda: (16 / 1024, 8 / 1024),
            "Salen dos números menores que 1: la división está al revés. Se reparten las columnas entre las cabezas, y "
            "no las cabezas entre las columnas.",
        ),
        KnownMistake(
            "por el número de cabezas",
            lambda: (1024 * 16, 1024 * 8),
            "Cada cabeza sale más ancha que el modelo entero: has multiplicado. Las cabezas se reparten d_model: "
            "divide.",
        ),
        KnownMistake(
            "la concatenación",
            lambda: (1024, 1024),
            "Es la anchura de todas las cabezas juntas, que es la misma con 16 que con 8. Se pide la de una sola.",
        ),
        KnownMistake(
            "el número de cabezas",
            lambda: (16, 8),
            "Son los números de cabezas del enunciado. Se pide lo que le toca a cada una: cuántas columnas de d_model.",
        ),
        KnownMistake(
            "el modelo base",
            lambda: (32, 64),
            "Has partido de d_model = 512, el del transformer original «base». Aquí d_model es otro: el del enunciado.",
        ),
        KnownMistake(
            "siempre la misma",
            lambda: (64, 64),
            "Las dos dimensiones te salen iguales, como si d_k fuera una constante de los transformers. Con d_model "
            "fijo depende de cuántas cabezas haya: haz la cuenta para cada una.",
        ),
        KnownMistake(
            "siempre la misma, la otra",
            lambda: (128, 128),
            "Das el mismo d_k a las dos, y solo acierta una. d_model es el mismo y las cabezas no: a doble número de "
            "cabezas, la mitad de columnas.",
        ),
        KnownMistake(
            "el resto",
            lambda: (1024 % 16, 1024 % 8),
            "Son los restos de las divisiones: dicen que el reparto es exacto, que es buena señal. Ahora falta el "
            "cociente: «//» en lugar de «%».",
        ),
        KnownMistake(
            "la raíz",
            lambda: ((1024 / 16) ** 0.5, (1024 / 8) ** 0.5),
            "Das √d_k, lo que divide a las puntuaciones. Se pide d_k, antes de hacer la raíz.",
        ),
        KnownMistake(
            "la raíz de d_model",
            lambda: (1024**0.5 / 16, 1024**0.5 / 8),
            "Repartes la raíz de d_model. La raíz es para escalar las puntuaciones; lo que se reparte es d_model.",
        ),
        KnownMistake(
            "entre el cuadrado",
            lambda: (1024 // 16**2, 1024 // 8**2),
            "Divides dos veces entre el número de cabezas. Una basta: h·d_k tiene que volver a dar d_model.",
        ),
        KnownMistake(
            "consultas, claves y valores juntos",
            lambda: (3 * 1024 // 16, 3 * 1024 // 8),
            "Has sumado las columnas de consultas, claves y valores. d_k es la anchura de una consulta de una cabeza, "
            "que es la misma que la de una clave.",
        ),
        KnownMistake(
            "un tercio para cada cosa",
            lambda: (1024 / 16 / 3, 1024 / 8 / 3),
            "Repartes cada cabeza entre consultas, claves y valores. No se la reparten: cada una tiene su propia "
            "matriz y sale con d_k columnas.",
        ),
        KnownMistake(
            "resta",
            lambda: (1024 - 16, 1024 - 8),
            "Has restado las cabezas a d_model. Las cabezas se lo reparten a partes iguales: divide.",
        ),
        KnownMistake(
            "parámetros por cabeza",
            lambda: (1024 * 1024 // 16, 1024 * 1024 // 8),
            "Es el número de parámetros de la matriz W^Q de una cabeza, d_model por d_k. Se pide solo d_k: cuántas "
            "columnas tiene.",
        ),
        KnownMistake(
            "formas de las matrices",
            lambda: ((1024, 64), (1024, 128)),
            "Das dos formas, las de las matrices de una cabeza. Se pide un número por cada una: la última dimensión, "
            "que es d_k.",
        ),
        KnownMistake(
            "un diccionario",
            lambda: {16: 64, 8: 128},
            "Llega un diccionario o un conjunto, que no se leen por orden. Se piden dos números separados por una "
            "coma: primero el de 16 cabezas y después el de 8.",
            seen=_not_in_order,
        ),
        KnownMistake(
            "textos",
            lambda: ("64", "128"),
            "Llega un texto, y con un texto no se puede seguir calculando. Escribe los números sin comillas.",
            seen=_pair_of_text,
        ),
        KnownMistake(
            "un solo número",
            lambda: 64,
            "Llega un número y se piden dos, uno por cada reparto. Sepáralos con una coma: primero el de 16 cabezas.",
            seen=_one_number,
        ),
        KnownMistake(
            "otra cantidad",
            lambda: (64,),
            "Se piden dos números y no es eso lo que llega. Escribe dos, separados por una coma: el de 16 cabezas y el "
            "de 8.",
            seen=_another_count,
        ),
        KnownMistake(
            "el primero mal",
            lambda: (60, 128),
            "El segundo está bien y el primero no. Haz la misma cuenta con 16 cabezas.",
            seen=_right_only_at(1),
        ),
        KnownMistake(
            "el segundo mal",
            lambda: (64, 120),
            "El primero está bien y el segundo no. Haz la misma cuenta con 8 cabezas.",
            seen=_right_only_at(0),
        ),
        KnownMistake(
            "ninguno de los dos",
            lambda: (256, 512),
            "Ninguno de los dos cumple h·d_k = d_model. Multiplica cada uno por su número de cabezas y mira cuánto se "
            "aleja.",
            seen=_both_wrong,
        ),
    ),
)

# 4.2 · Dividir en cabezas -----------------------------------------------------------------------------------------


@out_of_reach
def split_heads(x, num_heads):
    """(..., n, h·d) → (..., h, n, d); la cabeza i recibe las columnas i·d … (i+1)·d − 1. Vaswani et al., §3.2.2."""
    *lead, n, width = x.shape
    if width % num_heads:
        raise ValueError("el número de cabezas no divide a la última dimensión")
    return x.reshape(*lead, n, num_heads, width // num_heads).transpose(-3, -2)


def _normal(generator, *shape):
    return torch.randn(*shape, generator=generator)


def _check_division(x, num_heads):
    if x.shape[-1] % num_heads:
        raise ValueError("no divide")


def _split(x, num_heads):
    """Lo mismo que la referencia, sin comprobar nada."""
    return x.reshape(*x.shape[:-1], num_heads, -1).transpose(-3, -2)


def _only_view(x, num_heads):
    _check_division(x, num_heads)
    return x.reshape(*x.shape[:-2], num_heads, x.shape[-2], -1)


def _without_transpose(x, num_heads):
    _check_division(x, num_heads)
    return x.reshape(*x.shape[:-1], num_heads, -1)


def _interleaved_heads(x, num_heads):
    _check_division(x, num_heads)
    return x.reshape(*x.shape[:-1], -1, num_heads).movedim(-1, -3)


def _interleaved_without_transpose(x, num_heads):
    _check_division(x, num_heads)
    return x.reshape(*x.shape[:-1], -1, num_heads)


def _heads_last_reshaped(x, num_heads):
    _check_division(x, num_heads)
    *lead, n, width = x.shape
    return x.reshape(*lead, n, width // num_heads, num_heads).transpose(-3, -2).reshape(*lead, num_heads, n, -1)


def _split_positions_and_width(x, num_heads):
    _check_division(x, num_heads)
    return _split(x, num_heads).mT


def _heads_first(x, num_heads):
    _check_division(x, num_heads)
    return _split(x, num_heads).movedim(-3, 0)


def _reversed_heads(x, num_heads):
    _check_division(x, num_heads)
    return _split(x, num_heads).flip(-3)


def _as_a_list(x, num_heads):
    _check_division(x, num_heads)
    return list(x.split(x.shape[-1] // num_heads, dim=-1))


def _without_batch(x, num_heads):
    _check_division(x, num_heads)
    flat = x.reshape(-1, x.shape[-2], num_heads, x.shape[-1] // num_heads).transpose(1, 2)
    return flat


def _batch_and_heads_together(x, num_heads):
    _check_division(x, num_heads)
    return _split(x, num_heads).flatten(0, -3)


def _one_batch_dimension(x, num_heads):
    batch, n, width = x.shape
    if width % num_heads:
        raise ValueError("no divide")
    return x.reshape(batch, n, num_heads, width // num_heads).transpose(1, 2)


def _one_batch_dimension_unchecked(x, num_heads):
    batch, n, width = x.shape
    return x.view(batch, n, num_heads, width // num_heads).transpose(1, 2)


def _batch_or_not(x, num_heads):
    _check_division(x, num_heads)
    if x.dim() == 2:
        return _split(x, num_heads)
    batch, n, width = x.shape
    return x.reshape(batch, n, num_heads, width // num_heads).transpose(1, 2)


def _transpose_1_2(x, num_heads):
    _check_division(x, num_heads)
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)


def _transpose_0_1(x, num_heads):
    _check_division(x, num_heads)
    return x.unflatten(-1, (num_heads, -1)).transpose(0, 1)


def _batch_required(x, num_heads):
    _check_division(x, num_heads)
    heads = [_split(one, num_heads) for one in x.flatten(0, -3)]
    return torch.stack(heads).reshape(*x.shape[:-2], num_heads, x.shape[-2], -1)


def _copies(x, num_heads):
    _check_division(x, num_heads)
    return x.unsqueeze(-3).repeat_interleave(num_heads, dim=-3)


def _splits_positions(x, num_heads):
    if x.shape[-2] % num_heads:
        raise ValueError("no divide")
    return x.reshape(*x.shape[:-2], num_heads, x.shape[-2] // num_heads, x.shape[-1])


def _checks_positions(x, num_heads):
    if x.shape[-2] % num_heads:
        raise ValueError("no divide")
    return _split(x, num_heads)


def _refuses_everything(x, num_heads):
    if x.shape[-1] % num_heads == 0:
        raise ValueError("no divide")
    return x


def _truncates(x, num_heads):
    width = x.shape[-1] // num_heads
    return x[..., : num_heads * width].unflatten(-1, (num_heads, width)).transpose(-3, -2)


def _pads(x, num_heads):
    return _split(torch.nn.functional.pad(x, (0, -x.shape[-1] % num_heads)), num_heads)


def _asserts(x, num_heads):
    assert x.shape[-1] % num_heads == 0
    return _split(x, num_heads)


def _returns_the_error(x, num_heads):
    if x.shape[-1] % num_heads:
        return ValueError("no divide")
    return _split(x, num_heads)


def _returns_nothing(x, num_heads):
    if x.shape[-1] % num_heads == 0:
        return _split(x, num_heads)
    return None


def _returns_the_input(x, num_heads):
    return x if x.shape[-1] % num_heads else _split(x, num_heads)


def _raises_another(x, num_heads):
    if x.shape[-1] % num_heads:
        raise TypeError("no divide")
    return _split(x, num_heads)


def _head_dim_instead(x, num_heads):
    _check_division(x, num_heads)
    return x.reshape(*x.shape[:-1], -1, num_heads).transpose(-3, -2)


def _first_as_batch(x, num_heads):
    _check_division(x, num_heads)
    return x.reshape(x.shape[0], -1, num_heads, x.shape[-1] // num_heads).transpose(1, 2)


def _first_as_batch_view(x, num_heads):
    _check_division(x, num_heads)
    return x.reshape(x.shape[0], num_heads, -1, x.shape[-1] // num_heads)


def _by_index_unchecked(x, num_heads):
    return x.view(x.shape[0], x.shape[1], num_heads, x.shape[2] // num_heads).transpose(1, 2)


def _by_index(x, num_heads):
    _check_division(x, num_heads)
    return _by_index_unchecked(x, num_heads)


def _permute_unchecked(x, num_heads):
    return x.view(*x.shape[:-1], num_heads, x.shape[-1] // num_heads).permute(0, 2, 1, 3)


def _permute(x, num_heads):
    _check_division(x, num_heads)
    return _permute_unchecked(x, num_heads)


def _stack_at_1(x, num_heads):
    _check_division(x, num_heads)
    return torch.stack(x.chunk(num_heads, -1), 1)


def _swap_last_two(x, num_heads):
    _check_division(x, num_heads)
    return x.unflatten(-1, (num_heads, -1)).mT


def _split_by_heads(x, num_heads):
    _check_division(x, num_heads)
    return list(x.split(num_heads, dim=-1))


def _always_refuses(x, num_heads):
    raise ValueError("no divide")


def _checks_dimension_1(x, num_heads):
    if x.shape[1] % num_heads:
        raise ValueError("no divide")
    return _split(x, num_heads)


def _raises_text(x, num_heads):
    if x.shape[-1] % num_heads:
        raise "no divide"  # noqa: B016  (es lo que se imita)
    return _split(x, num_heads)


SPLIT = Check(
    id="4.2",
    reference=split_heads,
    cases=(
        Case("sin lote", lambda generator: Call((_normal(generator, 5, 12), 3))),
        Case("con dos dimensiones de lote", lambda generator: Call((_normal(generator, 2, 3, 7, 20), 4))),
        Case("las cabezas no dividen a la anchura", lambda generator: Call((_normal(generator, 3, 8, 14), 4))),
    ),
    mistakes=(
        KnownMistake(
            "view sin trasponer",
            _only_view,
            "La forma es correcta, pero cada cabeza mezcla trozos de varios tokens: `view` y `reshape` no mueven nada, "
            "vuelven a leer los números en fila. Separa la última dimensión en (h, d) y *después* intercambia las de "
            "posición y cabeza.",
        ),
        KnownMistake(
            "sin trasponer",
            _without_transpose,
            "Cada token tiene ya sus cabezas, en la forma (..., n, h, d): falta poner las cabezas delante de las "
            "posiciones. Intercambia las dimensiones -3 y -2.",
        ),
        KnownMistake(
            "columnas salteadas",
            _interleaved_heads,
            "Las columnas van repartidas como los naipes, una a cada cabeza: separas la última dimensión en (d, h). La "
            "cabeza 0 se queda con las *primeras* d seguidas: sepárala en (h, d).",
        ),
        KnownMistake(
            "columnas salteadas, sin llevarlas delante",
            _interleaved_without_transpose,
            "La última dimensión queda separada en (d, h), con las cabezas al final y salteadas. Sepárala en (h, d) y "
            "lleva después las cabezas delante de las posiciones.",
        ),
        KnownMistake(
            "(d, h) y otra vez la forma",
            _heads_last_reshaped,
            "La forma es la pedida, pero le has dado dos vueltas a los números: separas en (d, h), intercambias y "
            "vuelves a dar forma con `reshape`. Con (h, d) desde el principio basta un intercambio.",
        ),
        KnownMistake(
            "(d, n, h)",
            _head_dim_instead,
            "Queda delante la dimensión de cada cabeza, y las cabezas al final: los dos tamaños están cambiados al "
            "separar. El primero es h, `num_heads`, y el segundo, d.",
        ),
        KnownMistake(
            "cabeza y anchura cambiadas",
            _swap_last_two,
            "Después de separar en (h, d) intercambias esas dos entre sí. Las que se intercambian son posición y "
            "cabeza, -3 y -2.",
        ),
        KnownMistake(
            "split con el número de cabezas",
            _split_by_heads,
            "Salen d trozos de h columnas: `split` recibe el tamaño de cada trozo, no cuántos. Dale d, o usa `chunk`, "
            "que sí recibe cuántos.",
        ),
        KnownMistake(
            "posiciones al final",
            _split_positions_and_width,
            "Cada cabeza llega traspuesta, (d, n). Dentro de una cabeza va una fila por token: intercambia posiciones "
            "con cabezas, y deja d la última.",
        ),
        KnownMistake(
            "cabezas delante del lote",
            _heads_first,
            "Las cabezas van delante de todo, también del lote. Su sitio es justo antes de las posiciones: "
            "(..., h, n, d).",
        ),
        KnownMistake(
            "cabezas en orden inverso",
            _reversed_heads,
            "Las cabezas salen en orden inverso: la 0 tiene las últimas columnas. Las primeras d columnas son para la "
            "cabeza 0.",
        ),
        KnownMistake(
            "una lista",
            _as_a_list,
            "Devuelves una lista con un tensor por cabeza. Júntalos con `torch.stack` en una dimensión nueva, la de "
            "las cabezas, delante de las posiciones.",
        ),
        KnownMistake(
            "lote aplanado",
            _without_batch,
            "Todas las dimensiones de lote quedan fundidas en una. Las de delante, las que haya, salen como entraron: "
            "cópialas de `x.shape[:-2]`.",
        ),
        KnownMistake(
            "lote y cabezas fundidos",
            _batch_and_heads_together,
            "Las cabezas están fundidas con el lote en una sola dimensión. Así se hace a veces para usar `bmm`, pero "
            "aquí se piden separadas: (..., h, n, d).",
        ),
        KnownMistake(
            "un lote exacto",
            _one_batch_dimension,
            "Tu función reparte la forma en tres nombres, y solo vale con una dimensión de lote. Cuenta desde el "
            "final: las de delante, sean las que sean, no se tocan.",
            error="values to unpack",
        ),
        KnownMistake(
            "un lote exacto y sin comprobar",
            _one_batch_dimension_unchecked,
            "Tu función solo vale con una dimensión de lote, y tampoco lanza ValueError cuando el reparto no es "
            "exacto. Lee las dimensiones desde el final y comprueba el resto de la división antes de cambiar la forma.",
            error="values to unpack|is invalid for input of size",
        ),
        KnownMistake(
            "sin lote o con uno",
            _batch_or_not,
            "Sin lote funciona, y con dos dimensiones de lote no. No distingas casos: `x.shape[:-2]` son las de "
            "delante, haya las que haya.",
            error="values to unpack",
        ),
        KnownMistake(
            "la primera dimensión, como lote",
            _first_as_batch,
            "Tomas la primera dimensión por la de lote y dejas las demás en un -1: sin lote es la de los tokens, y con "
            "dos se funden. Copia las de delante, con `x.shape[:-1]`, y añade detrás h y d.",
        ),
        KnownMistake(
            "la primera como lote, y view",
            _first_as_batch_view,
            "Tomas la primera dimensión por la de lote, y además pides la forma final de una vez, que mezcla trozos de "
            "tokens. Separa solo la última dimensión, con `x.shape[:-1]` delante, e intercambia después.",
        ),
        KnownMistake(
            "dimensiones por su número",
            _by_index,
            "Lees las dimensiones contando desde el principio, y sin lote no hay tantas. Cuenta desde el final: -1 es "
            "la anchura y -2 los tokens.",
            error="^IndexError|is invalid for input of size",
        ),
        KnownMistake(
            "dimensiones por su número, sin comprobar",
            _by_index_unchecked,
            "Cuentas las dimensiones desde el principio, que solo vale con una de lote, y falta el ValueError. Cuenta "
            "desde el final y comprueba el resto antes de cambiar la forma.",
            error="^IndexError|is invalid for input of size",
        ),
        KnownMistake(
            "permute con posiciones fijas",
            _permute,
            "`permute` con posiciones fijas exige un número fijo de dimensiones, y aquí cambia. `transpose(-3, -2)` "
            "intercambia dos contando desde el final y vale con todas.",
            error="permute.*number of dimensions",
        ),
        KnownMistake(
            "permute con posiciones fijas, sin comprobar",
            _permute_unchecked,
            "`permute` pide un número fijo de dimensiones, y falta además el ValueError cuando el reparto no es "
            "exacto. Intercambia con `transpose(-3, -2)` y comprueba el resto de la división.",
            error="permute.*number of dimensions|is invalid for input of size",
        ),
        KnownMistake(
            "apilar en la dimensión 1",
            _stack_at_1,
            "Apilas las cabezas en la dimensión 1, que solo es su sitio con una de lote. Contando desde el final vale "
            "siempre: la nueva es la -3.",
        ),
        KnownMistake(
            "transpose(1, 2)",
            _transpose_1_2,
            "Intercambias las dimensiones 1 y 2, que son posición y cabeza solo si hay exactamente una de lote. Cuenta "
            "desde el final: son la -3 y la -2.",
        ),
        KnownMistake(
            "transpose(0, 1)",
            _transpose_0_1,
            "Intercambias las dimensiones 0 y 1: sin lote son posición y cabeza, y con lote no. Cuéntalas desde el "
            "final, con -3 y -2.",
        ),
        KnownMistake(
            "hace falta un lote",
            _batch_required,
            "Con lote va bien, y sin lote tu función falla: recorre una dimensión que entonces no está. No hace falta "
            "recorrerlas: cambiar la forma y trasponer ya respetan las de delante.",
            error="Dimension out of range|not enough values|flatten",
        ),
        KnownMistake(
            "una copia por cabeza",
            _copies,
            "Cada cabeza recibe todas las columnas: son copias. Aquí `x` ya está proyectado, y cada cabeza se queda "
            "solo con las d suyas.",
        ),
        KnownMistake(
            "dividir las posiciones",
            _splits_positions,
            "Repartes los tokens entre las cabezas. Toda cabeza ve todos los tokens; lo que se divide es la última "
            "dimensión, la anchura.",
            error="^ValueError(?!.*to unpack)",
        ),
        KnownMistake(
            "siempre ValueError",
            _always_refuses,
            "Lanzas ValueError con todas las entradas. Mira la condición: es el resto, con «%», de la anchura entre el "
            "número de cabezas, en ese orden.",
            error="^ValueError(?!.*to unpack)",
        ),
        KnownMistake(
            "comprobar la dimensión 1",
            _checks_dimension_1,
            "Miras la dimensión 1 para saber si el reparto es exacto: sin lote es la anchura, y con lote, otra cosa. "
            "La anchura es siempre la última, la -1.",
            error="^ValueError(?!.*to unpack)|^RuntimeError",
        ),
        KnownMistake(
            "comprobar las posiciones",
            _checks_positions,
            "Lanzas ValueError según el número de tokens, y ese no se reparte. La condición mira la última dimensión "
            "de `x`: su resto al dividir entre `num_heads`.",
            error="^ValueError(?!.*to unpack)|is invalid for input of size",
        ),
        KnownMistake(
            "condición al revés",
            _refuses_everything,
            "Lanzas ValueError justo cuando el reparto es exacto: la condición está al revés. El resto de la división "
            "es 0 cuando todo va bien.",
            error="^ValueError(?!.*to unpack)",
        ),
        KnownMistake(
            "sin comprobar",
            _split,
            "Las cabezas están bien divididas, pero cuando el reparto no es exacto el error que sale no es el "
            "ValueError que se pide. Comprueba el resto de la división antes de cambiar la forma, y lánzalo tú.",
            error="^RuntimeError|^EinopsError",
        ),
        KnownMistake(
            "assert",
            _asserts,
            "La condición está bien, pero `assert` lanza AssertionError, y además desaparece si Python se ejecuta con "
            "-O. Para rechazar un argumento, usa `if` y `raise ValueError`.",
            error="^AssertionError",
        ),
        KnownMistake(
            "raise de un texto",
            _raises_text,
            "En Python no se puede lanzar un texto: `raise` necesita un error, y el texto va dentro. Escribe `raise "
            "ValueError(…)`.",
            error="exceptions must derive",
        ),
        KnownMistake(
            "otro error",
            _raises_another,
            "La condición está bien y el error es de otra clase. Un argumento del tipo debido con un valor imposible "
            "es un ValueError.",
            error="^(TypeError|Exception|ArithmeticError|KeyError|IndexError|ZeroDivisionError)\\b",
        ),
        KnownMistake(
            "devolver el error",
            _returns_the_error,
            "Creas el ValueError y lo devuelves como si fuera un resultado: nadie se entera de que algo va mal. Cambia "
            "`return` por `raise`.",
            seen=lambda value, *_: (
                isinstance(value, BaseException) or (isinstance(value, type) and issubclass(value, BaseException))
            ),
        ),
        KnownMistake(
            "None si no divide",
            _returns_nothing,
            "Cuando el reparto no es exacto devuelves None, y el fallo aparecerá lejos, en otra línea. Lanza "
            "ValueError ahí mismo.",
        ),
        KnownMistake(
            "la entrada si no divide",
            _returns_the_input,
            "Cuando el reparto no es exacto devuelves `x` tal cual, sin dividir, y quien te llama no lo sabe. Lanza "
            "ValueError.",
        ),
        KnownMistake(
            "se deja columnas",
            _truncates,
            "Cuando el reparto no es exacto, las columnas que sobran se pierden sin avisar. No las tires: lanza "
            "ValueError.",
        ),
        KnownMistake(
            "rellena con ceros",
            _pads,
            "Cuando el reparto no es exacto añades columnas de ceros hasta que cuadra. Es una manera de seguir, pero "
            "no la que se pide: lanza ValueError.",
        ),
    ),
)

# 4.3 · Juntar las cabezas -----------------------------------------------------------------------------------------


@out_of_reach
def merge_heads(x):
    """(..., h, n, d) → (..., n, h·d): la concatenación de las cabezas, en orden. Vaswani et al. (2017), §3.2.2."""
    return x.transpose(-3, -2).flatten(-2)


def _just_divided(generator):
    """Como sale de dividir en cabezas: una vista traspuesta, que no está seguida en memoria."""
    return Call((_normal(generator, 2, 3, 7, 5, 4).transpose(-3, -2),))


def _merge(x):
    return x.transpose(-3, -2).flatten(-2)


def _view(x):
    moved = x.transpose(-3, -2)
    return moved.view(*moved.shape[:-2], -1)


def _one_batch_merged(x):
    batch, heads, n, d = x.shape
    return x.transpose(1, 2).reshape(batch, n, heads * d)


def _merge_batch_required(x):
    return torch.stack([_merge(one) for one in x.flatten(0, -4)]).reshape(*x.shape[:-3], x.shape[-2], -1)


def _merge_batch_or_not(x):
    if x.dim() == 3:
        return _merge(x)
    batch, heads, n, d = x.shape
    return x.transpose(1, 2).reshape(batch, n, heads * d)


MERGE = Check(
    id="4.3",
    reference=merge_heads,
    cases=(
        Case("sin lote", lambda generator: Call((_normal(generator, 3, 5, 4),))),
        Case("con dos dimensiones de lote, recién dividido", _just_divided),
    ),
    mistakes=(
        KnownMistake(
            "reshape directo",
            lambda x: x.reshape(*x.shape[:-3], x.shape[-2], -1),
            "La forma es correcta, pero cada fila junta varios tokens de una misma cabeza: das la forma final de una "
            "vez. Lleva antes las cabezas detrás de las posiciones, y funde después las dos últimas.",
        ),
        KnownMistake(
            "view de algo traspuesto",
            _view,
            "El camino es el bueno, pero `view` exige que los números estén seguidos en memoria y después de trasponer "
            "no lo están. Usa `reshape`, o `.contiguous()` antes de `view`.",
            error="view size is not compatible|not compatible with input tensor's size and stride",
        ),
        KnownMistake(
            "columnas salteadas",
            lambda x: x.movedim(-3, -1).flatten(-2),
            "Las columnas de las cabezas salen alternadas: la dimensión de las cabezas queda la última. Tiene que "
            "quedar justo antes de d, para que cada cabeza vaya entera y seguida.",
        ),
        KnownMistake(
            "cabezas sumadas",
            lambda x: x.sum(-3),
            "Sumas las cabezas, y ya no hay manera de saber qué puso cada una. Ponlas una al lado de otra: h·d "
            "columnas.",
        ),
        KnownMistake(
            "el máximo",
            lambda x: x.amax(-3),
            "Te quedas con el mayor valor de las cabezas en cada componente. Concatenar no elige: ponlas todas, una al "
            "lado de otra.",
        ),
        KnownMistake(
            "el producto",
            lambda x: x.prod(-3),
            "Multiplicas las cabezas componente a componente. Concatenar no las mezcla: ponlas todas, una al lado de "
            "otra.",
        ),
        KnownMistake(
            "media de las cabezas",
            lambda x: x.mean(-3),
            "Haces la media de las cabezas: con eso da igual tener varias. Ponlas una al lado de otra: h·d columnas.",
        ),
        KnownMistake(
            "orden inverso",
            lambda x: _merge(x.flip(-3)),
            "Las cabezas salen en orden inverso. La 0 va a las primeras d columnas, como al dividir.",
        ),
        KnownMistake(
            "solo trasponer",
            lambda x: x.transpose(-3, -2),
            "Has puesto las cabezas detrás de las posiciones, y falta fundirlas con d: son dos dimensiones y se pide "
            "una de h·d.",
        ),
        KnownMistake(
            "una fila por cabeza y token",
            lambda x: x.flatten(-3, -2),
            "Fundes cabezas y posiciones: quedan h·n filas de anchura d. Es al revés: n filas, cada una con las h "
            "cabezas de su token.",
        ),
        KnownMistake(
            "una fila por token y cabeza",
            lambda x: x.transpose(-3, -2).flatten(-3, -2),
            "Después de trasponer fundes las dos primeras dimensiones, posición y cabeza. Funde las dos últimas, "
            "cabeza y d, y quedará una fila por token.",
        ),
        KnownMistake(
            "una fila por cabeza",
            lambda x: x.flatten(-2),
            "Fundes posiciones y d, y queda una fila por cabeza. Se pide una fila por token: intercambia antes cabezas "
            "y posiciones.",
        ),
        KnownMistake(
            "trasponer las dos últimas",
            lambda x: x.mT.reshape(*x.shape[:-3], x.shape[-2], -1),
            "Traspones las dos últimas dimensiones, posición y d. Las que se intercambian son cabeza y posición, -3 y "
            "-2.",
        ),
        KnownMistake(
            "resultado traspuesto",
            lambda x: _merge(x).mT,
            "Las cabezas están bien unidas, pero los tokens quedan en columnas. Quita la última trasposición: una fila "
            "por token.",
        ),
        KnownMistake(
            "la primera cabeza",
            lambda x: x[..., 0, :, :],
            "Devuelves una sola cabeza. Faltan las demás, a su derecha y en orden.",
        ),
        KnownMistake(
            "permute con posiciones fijas",
            lambda x: x.permute(0, 2, 1, 3).flatten(2),
            "`permute` necesita nombrar todas las dimensiones, y aquí no siempre hay las mismas. Intercambia solo las "
            "que importan: `transpose(-3, -2)`.",
            error="permute.*number of dimensions",
        ),
        KnownMistake(
            "permute sin lote",
            lambda x: x.permute(1, 0, 2).flatten(1),
            "Sin lote va bien, pero `permute(1, 0, 2)` no admite ninguna dimensión más. Intercambia contando desde el "
            "final, con `transpose(-3, -2)`.",
            error="permute.*number of dimensions",
        ),
        KnownMistake(
            "recorrer la primera dimensión",
            lambda x: torch.cat(list(x), -1),
            "Concatenas lo que hay en la primera dimensión, que sin lote son las cabezas y con lote no. Las cabezas "
            "están en la -3: `x.unbind(-3)` las separa.",
        ),
        KnownMistake(
            "sin dimensiones de lote",
            lambda x: _merge(x).reshape(x.shape[-2], -1),
            "Sin lote va bien, y con lote pierdes las dimensiones de delante: la forma final es siempre de dos. Pon "
            "`*x.shape[:-3]` por delante.",
        ),
        KnownMistake(
            "dimensiones por su número",
            lambda x: x.transpose(1, 2).reshape(x.shape[0], x.shape[2], -1),
            "Lees las dimensiones contando desde el principio, que solo vale con una de lote. Cuenta desde el final: "
            "-3 cabezas, -2 posiciones, -1 d.",
        ),
        KnownMistake(
            "transpose(1, 2)",
            lambda x: x.transpose(1, 2).flatten(-2),
            "Intercambias las dimensiones 1 y 2, que son cabeza y posición solo con una dimensión de lote. Cuéntalas "
            "desde el final, -3 y -2, y dará igual cuántas haya delante.",
        ),
        KnownMistake(
            "transpose(0, 1)",
            lambda x: x.transpose(0, 1).flatten(-2),
            "Sin lote va bien; con lote intercambias dos dimensiones que no son cabeza y posición. Son la -3 y la -2, "
            "contando desde el final.",
        ),
        KnownMistake(
            "un lote exacto",
            _one_batch_merged,
            "Lees la forma en cuatro nombres, y solo vale con una dimensión de lote. Lee las tres últimas desde el "
            "final y deja las de delante como están.",
            error="values to unpack",
        ),
        KnownMistake(
            "sin lote o con uno",
            _merge_batch_or_not,
            "Sin lote funciona, y con dos dimensiones de lote no. No hace falta distinguir: `x.shape[:-3]` son las de "
            "delante, haya las que haya.",
            error="values to unpack",
        ),
        KnownMistake(
            "hace falta un lote",
            _merge_batch_required,
            "Con lote va bien, y sin lote tu función falla: recorre una dimensión que entonces no está. Trasponer y "
            "fundir ya respetan las de delante: no las recorras.",
            error="Dimension out of range|not enough values|flatten",
        ),
        KnownMistake(
            "lote fundido",
            lambda x: _merge(x).flatten(0, -3) if x.dim() > 3 else _merge(x)[None],
            "Las dimensiones de lote salen fundidas en una (o sale una que no había). Las de delante no se tocan: "
            "cópialas de `x.shape[:-3]`.",
        ),
        KnownMistake(
            "una lista",
            lambda x: list(x.unbind(-3)),
            "Devuelves una lista con las cabezas. Júntalas por la última dimensión, con `torch.cat`.",
        ),
    ),
)

# 4.4 · Atención multicabeza ---------------------------------------------------------------------------------------


@out_of_reach
def multi_head_attention(x, w_q, w_k, w_v, w_o, num_heads, mask=None):
    """Concat(head_1 … head_h)·W^O, con head_i = softmax(Q_i K_iᵀ/√d_k)·V_i. Vaswani et al. (2017), §3.2.2."""
    query, key, value = ((x @ w).unflatten(-1, (num_heads, -1)).transpose(1, 2) for w in (w_q, w_k, w_v))
    scores = query @ key.mT / query.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    return (torch.softmax(scores, dim=-1) @ value).transpose(1, 2).flatten(2) @ w_o


def _random_mask(generator, n):
    """Booleana (n, n), ni causal ni simétrica; en cada fila y en cada columna hay algo permitido y algo prohibido."""
    places = torch.arange(n)
    while True:
        mask = torch.rand(n, n, generator=generator) < 0.5
        shift = int(torch.randint(n, (1,), generator=generator))
        mask[places, (places + shift) % n] = True
        mask[places, (places + shift + 1) % n] = False
        if mask.triu(1).any() and (~mask).tril().any() and not torch.equal(mask, mask.mT):
            return mask


def _layer_call(batch, n, num_heads, d_k, *, masked=False, size=1.0):
    """Un caso: una entrada de tamaño típico `size`, y cuatro matrices de varianza 1/d_model."""

    def make(generator):
        d_model = num_heads * d_k
        x = size * torch.randn(batch, n, d_model, generator=generator)
        weights = torch.randn(4, d_model, d_model, generator=generator) / d_model**0.5
        return Call((x, *weights, num_heads), {"mask": _random_mask(generator, n)} if masked else {})

    return make


def _project(x, w_q, w_k, w_v, num_heads):
    return x @ w_q, x @ w_k, x @ w_v


def _each(split):
    """La misma división, `split(z, num_heads)`, para consultas, claves y valores."""
    return lambda query, key, value, num_heads: tuple(split(z, num_heads) for z in (query, key, value))


def _columns_by_head(z, num_heads):
    return z.unflatten(-1, (num_heads, -1)).transpose(1, 2)


def _by_view(z, num_heads):
    return z.reshape(z.shape[0], num_heads, z.shape[1], -1)


_all_by_columns = _each(_columns_by_head)


def _hidden(value):
    """Pone `value` en las puntuaciones prohibidas."""
    return lambda scores, mask: scores if mask is None else scores.masked_fill(~mask, value)


def _unless_none(function):
    """Aplica `function(puntuaciones o pesos, máscara)` solo si hay máscara."""
    return lambda scores, mask: scores if mask is None else function(scores, mask)


_minus_infinity = _hidden(float("-inf"))


def _heads_in_a_row(heads):
    return heads.transpose(1, 2).flatten(2)


@dataclass(frozen=True)
class _Layer:
    """La capa entera, paso a paso. Un error conocido es esta misma capa con uno de los pasos cambiado.

    (batch, n, d_model) → proyectar → dividir → puntuar → tapar → normalizar → mezclar → juntar → escribir
    """

    project: Callable = _project
    split: Callable = _all_by_columns
    compare: Callable = lambda query, key: query @ key.mT
    scale: Callable = lambda query, num_heads: query.shape[-1] ** 0.5
    hide: Callable = _minus_infinity
    normalise: Callable = lambda scores: scores.softmax(-1)
    hide_late: Callable = lambda weights, mask: weights
    mix: Callable = lambda weights, value: weights @ value
    merge: Callable = _heads_in_a_row
    write: Callable = lambda concat, w_o, x: concat @ w_o

    def __call__(self, x, w_q, w_k, w_v, w_o, num_heads, mask=None):
        query, key, value = self.split(*self.project(x, w_q, w_k, w_v, num_heads), num_heads)
        scores = self.hide(self.compare(query, key) / self.scale(query, num_heads), mask)
        weights = self.hide_late(self.normalise(scores), mask)
        return self.write(self.merge(self.mix(weights, value)), w_o, x)


def _is_one_wide_head(value, x, w_q, w_k, w_v, w_o, num_heads, mask=None):
    """¿Es una sola cabeza sin dividir, con la raíz de d_model o con la de d_k?"""
    whole = _each(lambda z, h: z[:, None])
    scales = (lambda query, h: query.shape[-1] ** 0.5, lambda query, h: (query.shape[-1] / h) ** 0.5)
    answers = (_Layer(split=whole, scale=scale)(x, w_q, w_k, w_v, w_o, num_heads, mask) for scale in scales)
    return any(difference(value, answer, like_mistake=True) is None for answer in answers)


def _changed(answer):
    """De una función hecha de pasos, los que no son los de la función correcta."""
    return {f.name: getattr(answer, f.name) for f in fields(answer) if getattr(answer, f.name) is not f.default}


def _together(group):
    """El primer error del grupo y la función que los tiene todos; nada si dos cambian el mismo paso."""
    changes = [_changed(mistake.answer) for mistake in group]
    merged = {name: step for change in changes for name, step in change.items()}
    return [(group[0], replace(group[0].answer, **merged))] if len(merged) == sum(map(len, changes)) else []


def _transposed(x, w_q, w_k, w_v, num_heads):
    return x @ w_q.mT, x @ w_k.mT, x @ w_v.mT


def _slices_first(x, w_q, w_k, w_v, num_heads):
    """Cada cabeza recibe su trozo de x y lo multiplica por su bloque de la diagonal."""
    blocks = torch.eye(num_heads).repeat_interleave(x.shape[-1] // num_heads, 0)
    inside = blocks @ blocks.mT
    return x @ (w_q * inside), x @ (w_k * inside), x @ (w_v * inside)


def _slices_with_one_block(x, w_q, w_k, w_v, num_heads):
    """Cada cabeza recibe su trozo de x, y todas usan el primer bloque de cada matriz."""
    d_k = x.shape[-1] // num_heads
    return tuple((x.unflatten(-1, (num_heads, -1)) @ w[:d_k, :d_k]).flatten(2) for w in (w_q, w_k, w_v))


def _slices_with_first_rows(x, w_q, w_k, w_v, num_heads):
    """Cada cabeza recibe su trozo de x, y lo multiplica por las primeras filas de sus columnas."""
    d_k = x.shape[-1] // num_heads
    slices = x.unflatten(-1, (num_heads, d_k))
    by_head = (w[:d_k].unflatten(-1, (num_heads, d_k)) for w in (w_q, w_k, w_v))
    return tuple(torch.einsum("bnhi,ihj->bnhj", slices, w).flatten(2) for w in by_head)


def _overlapping_columns(x, w_q, w_k, w_v, num_heads):
    d_k = x.shape[-1] // num_heads
    columns = (torch.arange(num_heads)[:, None] + torch.arange(d_k)).flatten()
    return x @ w_q[:, columns], x @ w_k[:, columns], x @ w_v[:, columns]


def _first_head_for_all(x, w_q, w_k, w_v, num_heads):
    d_k = x.shape[-1] // num_heads
    return tuple((x @ w[:, :d_k]).repeat(1, 1, num_heads) for w in (w_q, w_k, w_v))


def _always_causal(scores, mask):
    return scores.masked_fill(~torch.ones(scores.shape[-2:], dtype=torch.bool).tril(), float("-inf"))


def _as_condition(scores, mask):
    return scores.masked_fill(~mask, float("-inf")) if mask else scores


def _by_index(scores, mask):
    scores = scores.clone()
    scores[~mask] = float("-inf")
    return scores


def _batch_as_sequence(x, w_q, w_k, w_v, w_o, num_heads, mask=None):
    return _Layer()(x.transpose(0, 1), w_q, w_k, w_v, w_o, num_heads, mask).transpose(0, 1)


def _one_long_sequence(x, w_q, w_k, w_v, w_o, num_heads, mask=None):
    return _Layer()(x.flatten(0, 1)[None], w_q, w_k, w_v, w_o, num_heads, mask).reshape(x.shape)


def _heads_lost(keep):
    """El error de quien, al acabar el bucle, solo conserva una cabeza: `keep` hace cero las demás."""
    return lambda heads: _heads_in_a_row(heads * keep(torch.arange(heads.shape[1]))[:, None, None])


def _first_rows_for_all(heads, w_o, x):
    return heads.sum(1) @ w_o[: heads.shape[-1]]


def _diagonal_blocks(heads, w_o, x):
    d_k = heads.shape[-1]
    tiles = [slice(i * d_k, (i + 1) * d_k) for i in range(heads.shape[1])]
    return torch.cat([heads[:, i] @ w_o[tile, tile] for i, tile in enumerate(tiles)], dim=-1)


def _as_is(heads):
    return heads


LAYER_MISTAKES = (
    # Proyectar.
    KnownMistake(
        "trozos de la entrada",
        _Layer(project=_slices_first),
        "Cada cabeza ve solo su trozo de `x`: divides la entrada antes de proyectar. Proyecta el vector entero con la "
        "matriz entera, y divide después lo que sale.",
    ),
    KnownMistake(
        "trozos de la entrada, un solo bloque",
        _Layer(project=_slices_with_one_block),
        "Cada cabeza recibe un trozo de `x` y todas usan la misma esquina de cada matriz. Multiplica `x` entera por la "
        "matriz entera: a cada cabeza le tocan unas columnas, con todas sus filas.",
    ),
    KnownMistake(
        "trozos de la entrada, con las primeras filas",
        _Layer(project=_slices_with_first_rows),
        "Las columnas de cada cabeza están bien elegidas, pero se multiplican por un trozo de `x` y solo por las "
        "primeras filas. Cada cabeza usa todas las filas, con `x` entera.",
    ),
    KnownMistake(
        "columnas que se solapan",
        _Layer(project=_overlapping_columns),
        "Las columnas de las cabezas se solapan: las de la cabeza i empiezan en la columna i. Empiezan en i·d_k.",
    ),
    KnownMistake(
        "las columnas de la primera cabeza",
        _Layer(project=_first_head_for_all),
        "Todas las cabezas hacen lo mismo: usan las columnas de la primera. A la cabeza i le tocan sus propias d_k "
        "columnas, las que empiezan en i·d_k.",
    ),
    KnownMistake(
        "matrices traspuestas",
        _Layer(project=_transposed, write=lambda concat, w_o, x: concat @ w_o.mT),
        "Usas las cuatro matrices traspuestas, como las guarda `nn.Linear`. Aquí se multiplica x @ w, tal como llegan.",
    ),
    KnownMistake(
        "w_q, w_k y w_v traspuestas",
        _Layer(project=_transposed),
        "`w_q`, `w_k` y `w_v` entran traspuestas (o tomas filas suyas donde son columnas). Se usan así: x @ w, sin "
        "trasponer.",
    ),
    KnownMistake(
        "w_q y w_k cambiadas",
        _Layer(project=lambda x, w_q, w_k, w_v, h: (x @ w_k, x @ w_q, x @ w_v)),
        "Cada token ocupa el sitio de aquel a quien mira: consultas y claves están cambiadas entre sí. Pregunta "
        "x @ w_q, en las filas, y responde x @ w_k, en las columnas.",
    ),
    KnownMistake(
        "claves como valores",
        _Layer(project=lambda x, w_q, w_k, w_v, h: (x @ w_q, x @ w_k, x @ w_k)),
        "Lo que mezclas son las claves, y `w_v` no se usa. Los pesos salen de consultas y claves; lo que se mezcla con "
        "ellos son los valores.",
    ),
    KnownMistake(
        "w_k y w_v cambiadas",
        _Layer(project=lambda x, w_q, w_k, w_v, h: (x @ w_q, x @ w_v, x @ w_k)),
        "Claves y valores tienen las matrices cambiadas entre sí. `w_k` sirve para comparar y `w_v` para lo que se "
        "mezcla.",
    ),
    KnownMistake(
        "w_q y w_v cambiadas",
        _Layer(project=lambda x, w_q, w_k, w_v, h: (x @ w_v, x @ w_k, x @ w_q)),
        "Consultas y valores tienen las matrices cambiadas entre sí. `w_q` es la de quien pregunta y `w_v` la de lo "
        "que se mezcla.",
    ),
    KnownMistake(
        "w_q para las claves",
        _Layer(project=lambda x, w_q, w_k, w_v, h: (x @ w_q, x @ w_q, x @ w_v)),
        "Consultas y claves son el mismo vector, y `w_k` no se usa. Proyecta las claves con la suya.",
    ),
    KnownMistake(
        "w_k para las consultas",
        _Layer(project=lambda x, w_q, w_k, w_v, h: (x @ w_k, x @ w_k, x @ w_v)),
        "Consultas y claves son el mismo vector, y `w_q` no se usa. Proyecta las consultas con la suya.",
    ),
    KnownMistake(
        "w_q para los valores",
        _Layer(project=lambda x, w_q, w_k, w_v, h: (x @ w_q, x @ w_k, x @ w_q)),
        "Lo que mezclas son las consultas, y `w_v` no se usa. Proyecta los valores con su matriz.",
    ),
    KnownMistake(
        "una matriz para las tres",
        _Layer(project=lambda x, w_q, w_k, w_v, h: (x @ w_q, x @ w_q, x @ w_q)),
        "Consultas, claves y valores son iguales: todo sale de `w_q`. Usa las tres matrices, una para cada cosa.",
    ),
    KnownMistake(
        "valores sin proyectar",
        _Layer(project=lambda x, w_q, w_k, w_v, h: (x @ w_q, x @ w_k, x)),
        "Mezclas `x` sin proyectar, y `w_v` no se usa. Multiplica antes por `w_v` y divide en cabezas lo que salga.",
    ),
    KnownMistake(
        "sin proyectar nada",
        _Layer(project=lambda x, w_q, w_k, w_v, h: (x, x, x)),
        "Divides `x` en cabezas tal como llega, y ni `w_q` ni `w_k` ni `w_v` se usan. Primero se proyecta y después se "
        "divide.",
    ),
    # Dividir.
    KnownMistake(
        "view sin trasponer al dividir",
        _Layer(split=_each(_by_view)),
        "Las cabezas tienen la forma debida y reciben trozos de varios tokens: al dividir, pasas de golpe a (batch, h, "
        "n, d_k). Separa la última dimensión en (h, d_k) y *después* intercambia la de posición y la de cabeza.",
    ),
    KnownMistake(
        "view solo en los valores",
        _Layer(split=lambda q, k, v, h: (_columns_by_head(q, h), _columns_by_head(k, h), _by_view(v, h))),
        "Consultas y claves están bien divididas y los valores no: con ellos pasas de golpe a (batch, h, n, d_k). "
        "Divide los tres de la misma manera.",
    ),
    KnownMistake(
        "view solo en las consultas",
        _Layer(split=lambda q, k, v, h: (_by_view(q, h), _columns_by_head(k, h), _columns_by_head(v, h))),
        "Claves y valores están bien divididos, y las consultas mezclan trozos de varios tokens. Divide los tres de la "
        "misma manera, intercambiando posición y cabeza.",
    ),
    KnownMistake(
        "view solo en las claves",
        _Layer(split=lambda q, k, v, h: (_columns_by_head(q, h), _by_view(k, h), _columns_by_head(v, h))),
        "Las claves son las únicas mal divididas: mezclan trozos de varios tokens. Haz con ellas lo mismo que con las "
        "consultas y los valores.",
    ),
    KnownMistake(
        "cabezas entre sí",
        _Layer(split=_each(lambda z, h: z.unflatten(-1, (h, -1))), merge=lambda heads: heads.flatten(2)),
        "Dentro de cada token, unas cabezas atienden a otras: falta llevar la dimensión de cabezas delante de la de "
        "posición. El producto de matrices trabaja con las dos últimas, que deben ser (n, d_k).",
        error="must match|expand|broadcast",
    ),
    KnownMistake(
        "cabezas entre sí, y trasponer al juntar",
        _Layer(
            split=_each(lambda z, h: z.unflatten(-1, (h, -1))),
            merge=lambda heads: heads.transpose(1, 2).reshape(heads.shape[0], heads.shape[1], -1),
        ),
        "Intercambias posición y cabeza al juntar y no al dividir, así que son las cabezas las que se atienden unas a "
        "otras. Intercámbialas también al dividir: las dos últimas dimensiones deben ser (n, d_k).",
        error="must match|expand|broadcast",
    ),
    KnownMistake(
        "columnas salteadas",
        _Layer(split=_each(lambda z, h: z.unflatten(-1, (-1, h)).permute(0, 3, 1, 2))),
        "Las columnas de una cabeza van salteadas, de h en h: separaste la última dimensión en (d_k, h). Es (h, d_k): "
        "la cabeza 0 se queda con las primeras d_k columnas, seguidas.",
    ),
    KnownMistake(
        "columnas salteadas, ida y vuelta",
        _Layer(
            split=_each(lambda z, h: z.unflatten(-1, (-1, h)).permute(0, 3, 1, 2)),
            merge=lambda heads: heads.permute(0, 2, 3, 1).flatten(2),
        ),
        "Divides y juntas con las columnas salteadas, de h en h. Se podría entrenar así, pero es otro orden: aquí la "
        "cabeza 0 tiene las primeras d_k columnas, seguidas.",
    ),
    KnownMistake(
        "h y d_k cambiados",
        _Layer(split=_each(lambda z, h: z.unflatten(-1, (-1, h)).transpose(1, 2))),
        "Salen d_k cabezas de anchura h, y se piden h de anchura d_k. Al separar la última dimensión, el número de "
        "cabezas va primero.",
    ),
    KnownMistake(
        "una sola cabeza",
        _Layer(split=_each(lambda z, h: z[:, None])),
        "No hay división: es una sola cabeza tan ancha como el modelo. Divide consultas, claves y valores en h cabezas "
        "antes de compararlas.",
        seen=_is_one_wide_head,
    ),
    # Puntuar.
    KnownMistake(
        "otras dimensiones de las claves",
        _Layer(compare=lambda query, key: query @ key.transpose(1, 2)),
        "Al puntuar las formas no encajan: en las claves no intercambias las dos últimas dimensiones (`.T` les da la "
        "vuelta a todas; `transpose(1, 2)` cambia cabeza y posición). Usa `.mT` o `transpose(-2, -1)`.",
    ),
    KnownMistake(
        "claves sin trasponer",
        _Layer(compare=lambda query, key: query @ key),
        "Al puntuar las formas no encajan: multiplicas las consultas por las claves sin trasponer. Así no salen "
        "productos escalares de una consulta con una clave: traspón las dos últimas dimensiones.",
    ),
    KnownMistake(
        "escala con d_model",
        _Layer(scale=lambda query, h: (query.shape[-1] * h) ** 0.5),
        "Los pesos salen demasiado parecidos entre sí: divides entre la raíz de d_model. Cada producto escalar tiene "
        "d_k sumandos, los de una sola cabeza: usa la raíz de d_k.",
    ),
    KnownMistake(
        "sin escala",
        _Layer(scale=lambda query, h: 1.0),
        "Los pesos salen demasiado concentrados: las puntuaciones no están divididas. Divídelas entre √d_k.",
    ),
    KnownMistake(
        "entre d_k",
        _Layer(scale=lambda query, h: query.shape[-1]),
        "La escala es d_k: o te falta la raíz, o divides dos veces entre ella (la función de torch ya lo hace). Divide "
        "una sola vez entre √d_k.",
    ),
    KnownMistake(
        "entre d_model",
        _Layer(scale=lambda query, h: query.shape[-1] * h),
        "La escala es d_model, sin raíz: los pesos salen casi iguales. Es la raíz, y de la anchura de una cabeza.",
    ),
    KnownMistake(
        "por √d_k",
        _Layer(scale=lambda query, h: query.shape[-1] ** -0.5),
        "Una clave se lleva casi todo el peso: multiplicas por √d_k. Hay que dividir.",
    ),
    KnownMistake(
        "d_k ** 1 / 2",
        _Layer(scale=lambda query, h: query.shape[-1] / 2),
        "La escala es la mitad de d_k: en `d_k ** 1 / 2` se eleva primero y se divide después. Encierra el exponente "
        "entre paréntesis.",
    ),
    KnownMistake(
        "raíz truncada",
        _Layer(scale=lambda query, h: int(query.shape[-1] ** 0.5)),
        "La raíz de d_k está redondeada a un entero: solo acierta si d_k es un cuadrado. Divide entre la raíz con sus "
        "decimales.",
    ),
    KnownMistake(
        "raíz del número de cabezas",
        _Layer(scale=lambda query, h: h**0.5),
        "La escala crece con el número de cabezas, no con su anchura. Divide entre √d_k, con d_k la última dimensión "
        "de las consultas ya divididas.",
    ),
    KnownMistake(
        "raíz de la longitud",
        _Layer(scale=lambda query, h: query.shape[-2] ** 0.5),
        "La escala crece con la longitud de la secuencia: tomas d_k de la penúltima dimensión. Tómalo de la última.",
    ),
    KnownMistake(
        "escala en la salida",
        _Layer(
            scale=lambda query, h: 1.0,
            mix=lambda weights, value: weights @ value / value.shape[-1] ** 0.5,
        ),
        "Divides entre √d_k lo que sale de la mezcla. Divide las puntuaciones, antes de la softmax: después ya no "
        "cambia el reparto.",
    ),
    # Tapar.
    KnownMistake(
        "polaridad al revés",
        _Layer(hide=_unless_none(lambda scores, mask: scores.masked_fill(mask, float("-inf")))),
        "Cada token atiende justo a lo que la máscara prohíbe. Aquí True es «puede atender» (en "
        "`nn.MultiheadAttention` es lo contrario): el −∞ va donde la máscara es False.",
    ),
    KnownMistake(
        "cero en las puntuaciones",
        _Layer(hide=_hidden(0.0)),
        "Lo prohibido sigue pesando: su puntuación es 0 (o la multiplicas por la máscara), y la exponencial de 0 es 1. "
        "Pon −∞.",
    ),
    KnownMistake(
        "máscara booleana sumada",
        _Layer(hide=_unless_none(lambda scores, mask: scores + mask)),
        "Sumas la máscara tal cual: True vale 1 y False vale 0, así que no prohíbe nada. Sustituye por −∞ las "
        "puntuaciones prohibidas.",
    ),
    KnownMistake(
        "máscara ignorada",
        _Layer(hide=lambda scores, mask: scores),
        "Con máscara y sin ella sale lo mismo: o no la usas, o no guardas lo que devuelve `masked_fill`, que no "
        "modifica el tensor. Antes de la softmax, pon −∞ en las puntuaciones donde la máscara sea False.",
    ),
    KnownMistake(
        "máscara después de la softmax",
        _Layer(
            hide=lambda scores, mask: scores,
            hide_late=_unless_none(lambda weights, mask: weights * mask),
        ),
        "Lo prohibido pesa 0 y lo permitido ya no suma 1: tapas los pesos cuando la softmax ya ha repartido. Tapa "
        "antes, en las puntuaciones.",
    ),
    KnownMistake(
        "infinitos mal puestos",
        _Layer(hide=_hidden(float("inf"))),
        "Con máscara salen NaN: hay un +∞ en las puntuaciones, un −∞ puesto después de la softmax, o un cero "
        "multiplicado por infinito. Escribe −∞ antes de la softmax y solo donde la máscara es False, con `masked_fill` "
        "o `torch.where`.",
    ),
    KnownMistake(
        "sin el signo menos",
        _Layer(hide=_hidden(1e9)),
        "Lo prohibido se lleva todo el peso, a partes iguales: el número grande con que lo tapas es positivo. Cámbiale "
        "el signo, o usa −∞.",
    ),
    KnownMistake(
        "número poco negativo",
        _Layer(hide=_hidden(-15.0)),
        "Lo prohibido pesa algo cuando las demás puntuaciones son muy bajas: lo tapas con un número que no es lo "
        "bastante negativo. Usa −∞.",
    ),
    KnownMistake(
        "máscara traspuesta",
        _Layer(hide=_unless_none(lambda scores, mask: scores.masked_fill(~mask.mT, float("-inf")))),
        "La máscara está puesta del revés: sus filas son las consultas y sus columnas las claves. Úsala sin trasponer, "
        "o revisa si son tus puntuaciones las que tienen las claves en las filas.",
    ),
    KnownMistake(
        "causal, llegue lo que llegue",
        _Layer(hide=_always_causal),
        "Tapas siempre el futuro, sin mirar `mask`. Aquí no se pide que sea causal: usa la máscara que llega, y "
        "ninguna si es None.",
    ),
    KnownMistake(
        "causal si hay máscara",
        _Layer(hide=_unless_none(_always_causal)),
        "Cuando hay máscara la cambias por la causal. La que llega puede prohibir cualquier pareja: usa sus valores.",
    ),
    KnownMistake(
        "sin mirar si hay máscara",
        _Layer(hide=lambda scores, mask: scores.masked_fill(~mask, float("-inf"))),
        "Cuando no hay máscara tu función falla, porque la usa igualmente. Tapa solo si `mask` no es None.",
        error="NoneType|must be Tensor, not bool|masked_fill",
    ),
    KnownMistake(
        "if mask",
        _Layer(hide=_as_condition),
        "Con máscara tu función falla: «if mask» pide un solo verdadero o falso, y hay n·n. Pregunta por «is not "
        "None».",
        error="ambiguous",
    ),
    KnownMistake(
        "índice booleano",
        _Layer(hide=_unless_none(_by_index)),
        "Con máscara tu función falla: los corchetes buscan la máscara (n, n) en las dos primeras dimensiones, el lote "
        "y las cabezas. Usa `masked_fill` o `torch.where`, que la extienden.",
        error="shape of the mask|too many indices",
    ),
    # Normalizar y mezclar.
    KnownMistake(
        "softmax sobre las consultas",
        _Layer(normalise=lambda scores: scores.softmax(-2)),
        "La softmax recorre las consultas, y cada columna de pesos suma 1. Debe sumar 1 cada fila: normaliza sobre las "
        "claves, la última dimensión.",
    ),
    KnownMistake(
        "softmax sobre las cabezas",
        _Layer(normalise=lambda scores: scores.softmax(1)),
        "La softmax recorre las cabezas, que están en la dimensión 1: se reparten el peso unas con otras. Cada una "
        "reparte el suyo entre las claves, que van en la última.",
    ),
    KnownMistake(
        "softmax sobre el lote",
        _Layer(normalise=lambda scores: scores.softmax(0)),
        "La softmax recorre el lote: unas frases le quitan peso a otras. Se normaliza dentro de cada fila, sobre las "
        "claves.",
    ),
    KnownMistake(
        "sin softmax",
        _Layer(hide=_hidden(0.0), normalise=lambda scores: scores),
        "Mezclas los valores con las puntuaciones en bruto. Falta la softmax, que las convierte en pesos.",
    ),
    KnownMistake(
        "exponencial sin normalizar",
        _Layer(normalise=lambda scores: scores.exp()),
        "Los pesos no suman 1: te quedas en la exponencial. Divide cada fila entre su suma, o usa `torch.softmax`.",
    ),
    KnownMistake(
        "dos softmax",
        _Layer(normalise=lambda scores: scores.softmax(-1).softmax(-1)),
        "Los pesos pasan dos veces por la softmax y salen casi iguales. Con una basta.",
    ),
    KnownMistake(
        "pesos traspuestos",
        _Layer(mix=lambda weights, value: weights.mT @ value),
        "Los pesos llegan traspuestos a la mezcla: cada valor se reparte, en vez de que cada consulta recoja. "
        "Multiplica los pesos por los valores sin trasponerlos.",
    ),
    # Juntar.
    KnownMistake(
        "reshape sin trasponer al juntar",
        _Layer(merge=lambda heads: heads.reshape(heads.shape[0], heads.shape[2], -1)),
        "Las cabezas están bien, y al juntarlas cada token se lleva trozos de otros: vas directamente de (batch, h, n, "
        "d_k) a (batch, n, h·d_k). Antes de aplanar hay que devolver la posición a su sitio, delante de la cabeza.",
    ),
    KnownMistake(
        "cabezas entrelazadas al juntar",
        _Layer(merge=lambda heads: heads.permute(0, 2, 3, 1).flatten(2)),
        "Al juntar, los números de las cabezas quedan alternados: uno de cada una. Concatenar es poner la cabeza 0 "
        "entera, después la 1 entera, y así.",
    ),
    KnownMistake(
        "view después de transpose",
        _Layer(merge=lambda heads: heads.transpose(1, 2).view(heads.shape[0], heads.shape[2], -1)),
        "Después de `transpose` los números ya no están seguidos en memoria, y `view` se niega a releerlos. Usa "
        "`reshape` ahí, o `.contiguous()` antes.",
        error="view size is not compatible",
    ),
    KnownMistake(
        "solo la última cabeza",
        _Layer(merge=_heads_lost(lambda i: (i == i.max()).float())),
        "Solo llega a la salida la última cabeza: en el bucle, cada una borra a la anterior. Acumúlalas todas.",
    ),
    KnownMistake(
        "solo la primera cabeza",
        _Layer(merge=_heads_lost(lambda i: (i == 0).float())),
        "Solo llega a la salida la primera cabeza. Recórrelas todas antes de devolver nada (mira dónde está el "
        "`return`).",
    ),
    KnownMistake(
        "una cabeza suelta",
        _Layer(merge=lambda heads: heads[:, 0], write=lambda head, w_o, x: head),
        "Devuelves una sola cabeza, con sus d_k columnas. Reúne las h antes del `return`, y multiplica por `w_o`.",
    ),
    KnownMistake(
        "suma de cabezas",
        _Layer(merge=lambda heads: heads.sum(1)),
        "Sumas las cabezas (o haces su media) y quedan d_k columnas, que no encajan con `w_o`. Se concatenan: una al "
        "lado de otra.",
    ),
    KnownMistake(
        "cabezas divididas entre h",
        _Layer(merge=lambda heads: _heads_in_a_row(heads) / heads.shape[1]),
        "La salida está dividida entre el número de cabezas. Concatenar no es hacer la media: quita esa división.",
    ),
    KnownMistake(
        "cabezas sin juntar",
        _Layer(merge=_as_is, write=lambda heads, w_o, x: heads),
        "Devuelves las cabezas por separado. Falta concatenarlas, para volver a (batch, n, d_model), y multiplicar por "
        "`w_o`.",
    ),
    # Escribir.
    KnownMistake(
        "sin W^O",
        _Layer(write=lambda concat, w_o, x: concat),
        "Devuelves las cabezas concatenadas, y `w_o` no se usa. Multiplica por ella al final: es la que mezcla lo que "
        "trae cada cabeza.",
    ),
    KnownMistake(
        "w_o traspuesta",
        _Layer(write=lambda concat, w_o, x: concat @ w_o.mT),
        "Todo va bien hasta el final: `w_o` entra traspuesta (o le tomas columnas donde son filas). Multiplica la "
        "concatenación por `w_o`, tal como llega.",
    ),
    KnownMistake(
        "w_o antes de juntar",
        _Layer(merge=_as_is, write=lambda heads, w_o, x: heads @ w_o),
        "Lo que llega a `w_o` tiene d_k columnas y no d_model: las cabezas siguen separadas, o las has unido por otra "
        "dimensión. Concaténalas antes, por la última.",
    ),
    KnownMistake(
        "las primeras filas de w_o para todas",
        _Layer(merge=_as_is, write=_first_rows_for_all),
        "Todas las cabezas pasan por las mismas filas de `w_o` (o las sumas antes de multiplicar). A cada una le "
        "corresponden las suyas: concatena, o toma las d_k filas que empiezan en i·d_k.",
    ),
    KnownMistake(
        "bloques de la diagonal de w_o",
        _Layer(merge=_as_is, write=_diagonal_blocks),
        "Cada cabeza escribe solo en sus propias d_k columnas de la salida. Usa todas las columnas de `w_o`: cada "
        "cabeza escribe en el vector entero.",
    ),
    KnownMistake(
        "con la suma residual y normalización",
        _Layer(write=lambda concat, w_o, x: torch.nn.functional.layer_norm(x + concat @ w_o, x.shape[-1:])),
        "La salida lleva la suma residual y la normalización del bloque. Devuelve solo lo que calcula la atención.",
    ),
    KnownMistake(
        "con la suma residual",
        _Layer(write=lambda concat, w_o, x: x + concat @ w_o),
        "A la salida le has sumado `x`. Esa suma la hace el bloque que rodea a la atención; aquí se pide solo la "
        "atención.",
    ),
    # El lote.
    KnownMistake(
        "el lote como secuencia",
        _batch_as_sequence,
        "Las frases del lote se atienden unas a otras: tratas la primera dimensión como la secuencia, que es lo que "
        "espera torch si no se le dice `batch_first`. Aquí la primera es el lote.",
        error="must match|expand|broadcast|shape of the (2D )?(attn_)?mask|should be",
    ),
    KnownMistake(
        "todas las frases en una",
        _one_long_sequence,
        "Aplanas el lote y la secuencia en una sola dimensión, y las frases se atienden unas a otras. Cada frase se "
        "atiende a sí misma: conserva el lote aparte.",
        error="must match|expand|broadcast|shape of the mask|indices",
    ),
)

LAYER_CASES = (
    Case("sin máscara", _layer_call(2, 7, 5, 3)),
    Case("con máscara y puntuaciones altas y bajas", _layer_call(5, 4, 3, 6, masked=True, size=4.0)),
)

# Los cuatro fallos que el cuaderno planta en 4.6: la tabla conoce también todas sus combinaciones.
PLANTED = (
    "view sin trasponer al dividir",
    "escala con d_model",
    "polaridad al revés",
    "reshape sin trasponer al juntar",
)


# Los que más se dan, y por eso los que más a menudo van acompañados.
FREQUENT = (
    *PLANTED,
    "trozos de la entrada",
    "matrices traspuestas",
    "claves como valores",
    "cabezas entre sí",
    "una sola cabeza",
    "sin escala",
    "entre d_k",
    "cero en las puntuaciones",
    "máscara booleana sumada",
    "máscara ignorada",
    "máscara después de la softmax",
    "softmax sobre las consultas",
    "softmax sobre las cabezas",
    "sin W^O",
    "w_o traspuesta",
    "con la suma residual",
)


def _layer_combinations():
    """Un error frecuente con otro cualquiera, y los plantados que queden, solos o con otro que añada quien repara.

    En cada grupo va primero el que se encuentra antes al leer la función, que es el orden de la tabla.
    """
    stepped = [mistake for mistake in LAYER_MISTAKES if isinstance(mistake.answer, _Layer)]
    planted = [mistake for mistake in stepped if mistake.name in PLANTED]
    frequent = [mistake for mistake in stepped if mistake.name in FREQUENT]
    for group in combinations(stepped, 2):
        if any(mistake in frequent for mistake in group):
            yield from _together(group)
    for size in range(2, len(planted) + 1):
        for some in combinations(planted, size):
            yield from _together(some)
            for other in frequent:
                if other not in planted:
                    yield from _together(sorted((*some, other), key=stepped.index))


LAYER = Check(
    id="4.4",
    reference=multi_head_attention,
    cases=LAYER_CASES,
    mistakes=LAYER_MISTAKES,
    combined=_layer_combinations,
)

# 4.5 · Lo que cuesta una capa -------------------------------------------------------------------------------------


@out_of_reach
def mha_cost(d_model, num_heads, n):
    """Parámetros, FLOPs (2 por cada multiplicación y suma) y puntuaciones de una capa, sin sesgos ni softmax."""
    projections, products = 4 * 2 * n * d_model * d_model, 2 * 2 * n * n * d_model
    return {
        "params": 4 * d_model * d_model,
        "flops": projections + products,
        "score_elements": num_heads * n * n,
    }


@dataclass(frozen=True)
class _Cost:
    """Las tres cuentas, de d = d_model, h y n. Un error conocido cambia una de ellas."""

    params: Callable = lambda d, h, n: 4 * d * d
    flops: Callable = lambda d, h, n: 8 * n * d * d + 4 * n * n * d
    score_elements: Callable = lambda d, h, n: h * n * n

    def __call__(self, d_model, num_heads, n):
        return {f.name: getattr(self, f.name)(d_model, num_heads, n) for f in fields(self)}


COST_MISTAKES = (
    KnownMistake(
        "parámetros sin W^O",
        _Cost(params=lambda d, h, n: 3 * d * d),
        "En `params` falta una matriz: cuentas las de consultas, claves y valores. La de salida también se aprende.",
    ),
    KnownMistake(
        "parámetros con sesgos",
        _Cost(params=lambda d, h, n: 4 * d * d + 4 * d),
        "En `params` hay sesgos: uno por cada salida de cada proyección. Aquí las proyecciones no llevan: deja solo "
        "las matrices.",
    ),
    KnownMistake(
        "parámetros con tres sesgos",
        _Cost(params=lambda d, h, n: 4 * d * d + 3 * d),
        "En `params` hay tres vectores de sesgos. Ninguna proyección los lleva aquí.",
    ),
    KnownMistake(
        "parámetros con la red feed-forward",
        _Cost(params=lambda d, h, n: 12 * d * d),
        "En `params` has sumado la red *feed-forward* del bloque. Se pide solo la atención.",
    ),
    KnownMistake(
        "parámetros por token",
        _Cost(params=lambda d, h, n: 4 * d * d * n),
        "En `params` multiplicas por la longitud. Las matrices son las mismas para todos los tokens.",
    ),
    KnownMistake(
        "parámetros sin W^O y con sesgos",
        _Cost(params=lambda d, h, n: 3 * d * d + 3 * d),
        "En `params` cuentas tres proyecciones, y con sesgos. Son cuatro, y sin ellos.",
    ),
    KnownMistake(
        "parámetros por cabeza entera",
        _Cost(params=lambda d, h, n: 4 * d * d * h),
        "En `params` cada cabeza tiene matrices cuadradas, como si fuera tan ancha como el modelo. Proyecta a d_k "
        "dimensiones: su parte de la matriz es más estrecha.",
    ),
    KnownMistake(
        "parámetros: tres por cabeza entera y W^O",
        _Cost(params=lambda d, h, n: 3 * d * d * h + d * d),
        "En `params` multiplicas por el número de cabezas tres matrices que ya son las de todas. Cada cabeza añade "
        "solo d_k columnas.",
    ),
    KnownMistake(
        "parámetros: tres por cabeza entera",
        _Cost(params=lambda d, h, n: 3 * d * d * h),
        "En `params` hay tres matrices cuadradas por cabeza. Cada cabeza usa una tira de d_k columnas, y además falta "
        "la matriz de salida.",
    ),
    KnownMistake(
        "parámetros de una cabeza",
        _Cost(params=lambda d, h, n: 4 * d * (d // h)),
        "En `params` todas las matrices salen h veces más pequeñas: o es la cuenta de una sola cabeza, o cada una "
        "proyecta solo su trozo de la entrada. Son h cabezas, y cada una recibe el vector entero.",
    ),
    KnownMistake(
        "parámetros: una cabeza y W^O",
        _Cost(params=lambda d, h, n: 3 * d * (d // h) + d * d),
        "En `params` la matriz de salida está entera, y las otras tres salen h veces más pequeñas. Hay h cabezas, y "
        "cada una proyecta el vector entero a d_k dimensiones.",
    ),
    KnownMistake(
        "parámetros: W^O de una cabeza",
        _Cost(params=lambda d, h, n: 3 * d * d + d * (d // h)),
        "En `params` la matriz de salida es más pequeña de lo que debe: tiene una fila por cada número de la "
        "concatenación. Ahí llegan todas las cabezas, no una.",
    ),
    KnownMistake(
        "parámetros de una matriz",
        _Cost(params=lambda d, h, n: d * d),
        "En `params` hay una sola matriz. Cuenta todas las proyecciones de la capa.",
    ),
    KnownMistake(
        "d_k fija en 64",
        _Cost(params=lambda d, h, n: 4 * d * h * 64),
        "En `params` das por hecho que d_k es la del artículo, y solo acierta con ella. Calcúlala con d_model y "
        "num_heads.",
    ),
    KnownMistake(
        "FLOPs: multiplicaciones",
        _Cost(flops=lambda d, h, n: 4 * n * d * d + 2 * n * n * d),
        "En `flops` sale la mitad: cuentas cada multiplicación con su suma como una sola operación (un MAC). Aquí son "
        "dos.",
    ),
    KnownMistake(
        "FLOPs: proyecciones en MAC",
        _Cost(flops=lambda d, h, n: 4 * n * d * d + 4 * n * n * d),
        "En `flops` las proyecciones cuentan la mitad que los productos de la atención. Usa el mismo factor para todas "
        "las multiplicaciones de matrices.",
    ),
    KnownMistake(
        "FLOPs: atención en MAC",
        _Cost(flops=lambda d, h, n: 8 * n * d * d + 2 * n * n * d),
        "En `flops` la parte de la atención se queda en la mitad: o falta el producto de los pesos por los valores, o "
        "ahí no cuentas las sumas. Son dos productos, con el mismo factor que las proyecciones.",
    ),
    KnownMistake(
        "FLOPs sin W^O",
        _Cost(flops=lambda d, h, n: 6 * n * d * d + 4 * n * n * d),
        "En `flops` faltan las operaciones de la última proyección. Son cuatro: consultas, claves, valores y salida.",
    ),
    KnownMistake(
        "FLOPs sin W^O ni A·V",
        _Cost(flops=lambda d, h, n: 6 * n * d * d + 2 * n * n * d),
        "En `flops` faltan dos productos: el de los pesos por los valores y el de la salida. Recorre la capa de "
        "principio a fin y apunta cada uno.",
    ),
    KnownMistake(
        "FLOPs: multiplicaciones, sin W^O",
        _Cost(flops=lambda d, h, n: 3 * n * d * d + 2 * n * n * d),
        "En `flops` cuentas solo las multiplicaciones, y de tres proyecciones. Cada una va con su suma, y las "
        "proyecciones son cuatro.",
    ),
    KnownMistake(
        "FLOPs: una suma menos",
        _Cost(flops=lambda d, h, n: 4 * n * d * (2 * d - 1) + h * n * n * (2 * (d // h) - 1) + n * d * (2 * n - 1)),
        "En `flops` cuentas una suma menos por cada número, que es la cuenta exacta. Aquí se usa el convenio redondo "
        "del enunciado.",
    ),
    KnownMistake(
        "FLOPs con la red feed-forward",
        _Cost(flops=lambda d, h, n: 24 * n * d * d + 4 * n * n * d),
        "En `flops` has sumado la red *feed-forward* del bloque. Cuenta solo la capa de atención.",
    ),
    KnownMistake(
        "FLOPs: todo con n al cuadrado",
        _Cost(flops=lambda d, h, n: 8 * n * n * d * d + 4 * n * n * d),
        "En `flops` las proyecciones crecen con n². Cada token se proyecta una vez, sin mirar a los demás.",
    ),
    KnownMistake(
        "FLOPs sin proyecciones",
        _Cost(flops=lambda d, h, n: 4 * n * n * d),
        "En `flops` solo están los dos productos de la atención. Suma las cuatro proyecciones.",
    ),
    KnownMistake(
        "FLOPs de las proyecciones",
        _Cost(flops=lambda d, h, n: 8 * n * d * d),
        "En `flops` solo están las proyecciones. Suma los dos productos de la atención, los que crecen con n².",
    ),
    KnownMistake(
        "FLOPs: proyecciones de un token",
        _Cost(flops=lambda d, h, n: 8 * d * d + 4 * n * n * d),
        "En `flops` las proyecciones son las de un solo token. Se proyectan los n.",
    ),
    KnownMistake(
        "FLOPs: atención por cabeza entera",
        _Cost(flops=lambda d, h, n: 8 * n * d * d + 4 * n * n * d * h),
        "En `flops` la atención está multiplicada por h de más: cada cabeza trabaja con d_k dimensiones, no con "
        "d_model. Al sumar las h, el producto vuelve a ser d_model.",
    ),
    KnownMistake(
        "FLOPs: proyecciones por cabeza entera",
        _Cost(flops=lambda d, h, n: 8 * n * d * d * h + 4 * n * n * d),
        "En `flops` las proyecciones están multiplicadas por h de más. Cada cabeza proyecta a d_k columnas, y entre "
        "todas hacen una matriz cuadrada.",
    ),
    KnownMistake(
        "FLOPs por cabeza entera",
        _Cost(flops=lambda d, h, n: h * (8 * n * d * d + 4 * n * n * d)),
        "En `flops` todo está multiplicado por h, como si cada cabeza fuera tan ancha como el modelo. Su anchura es "
        "d_model/h.",
    ),
    KnownMistake(
        "FLOPs: atención de una cabeza",
        _Cost(flops=lambda d, h, n: 8 * n * d * d + 4 * n * n * (d // h)),
        "En `flops` la atención es la de una sola cabeza. Haz la cuenta de las h.",
    ),
    KnownMistake(
        "FLOPs: proyecciones de una cabeza",
        _Cost(flops=lambda d, h, n: 8 * n * d * (d // h) + 4 * n * n * d),
        "En `flops` las proyecciones son las de una sola cabeza. Haz la cuenta con las columnas de todas.",
    ),
    KnownMistake(
        "FLOPs de una cabeza",
        _Cost(flops=lambda d, h, n: 8 * n * d * (d // h) + 4 * n * n * (d // h)),
        "En `flops` has contado una cabeza de las h. Cuéntalas todas: las proyecciones y la atención.",
    ),
    KnownMistake(
        "FLOPs: n sin elevar",
        _Cost(flops=lambda d, h, n: 8 * n * d * d + 4 * n * d),
        "En `flops` la atención crece con n. Cada token se compara con los n: son n² productos escalares.",
    ),
    KnownMistake(
        "FLOPs con la softmax",
        _Cost(flops=lambda d, h, n: 8 * n * d * d + 4 * n * n * d + 3 * h * n * n),
        "En `flops` hay operaciones de la softmax. El enunciado la deja fuera: solo productos de matrices.",
    ),
    KnownMistake(
        "FLOPs con la escala",
        _Cost(flops=lambda d, h, n: 8 * n * d * d + 4 * n * n * d + h * n * n),
        "En `flops` hay una operación de más por cada puntuación, como la de dividir entre √d_k. Cuenta solo los "
        "productos de matrices.",
    ),
    KnownMistake(
        "FLOPs con sesgos",
        _Cost(flops=lambda d, h, n: 8 * n * d * d + 4 * n * n * d + 4 * n * d),
        "En `flops` están las sumas de los sesgos. Aquí las proyecciones no llevan.",
    ),
    KnownMistake(
        "FLOPs de una capa bidireccional a medias",
        _Cost(flops=lambda d, h, n: 8 * n * d * d + 2 * n * (n + 1) * d),
        "En `flops` la atención cuenta solo el pasado de cada token, como con máscara causal. No hay máscara, y el "
        "producto de matrices se hace entero.",
    ),
    KnownMistake(
        "puntuaciones de una cabeza",
        _Cost(score_elements=lambda d, h, n: n * n),
        "En `score_elements` hay una sola matriz n×n. Cada cabeza tiene la suya.",
    ),
    KnownMistake(
        "puntuaciones sin elevar",
        _Cost(score_elements=lambda d, h, n: h * n),
        "En `score_elements` hay un número por token y cabeza. Cada token se compara con todos, también consigo mismo.",
    ),
    KnownMistake(
        "puntuaciones por d_model",
        _Cost(score_elements=lambda d, h, n: n * n * d),
        "En `score_elements` aparece d_model. Cada producto escalar deja un solo número, por muchos sumandos que "
        "tenga, y hay tantos como parejas de tokens en cada cabeza.",
    ),
    KnownMistake(
        "puntuaciones por d_k",
        _Cost(score_elements=lambda d, h, n: n * n * (d // h)),
        "En `score_elements` aparece d_k donde debía estar el número de cabezas. Lo que se guarda es una puntuación "
        "por cada pareja de tokens, y eso en cada cabeza.",
    ),
    KnownMistake(
        "tamaño de los vectores",
        _Cost(score_elements=lambda d, h, n: n * d),
        "En `score_elements` está el tamaño de las consultas. Cuenta las puntuaciones: las parejas de tokens.",
    ),
    KnownMistake(
        "puntuaciones y pesos",
        _Cost(score_elements=lambda d, h, n: 2 * h * n * n),
        "En `score_elements` sale el doble: cuentas también los pesos, o los bytes en media precisión. Se pide cuántas "
        "puntuaciones hay.",
    ),
    KnownMistake(
        "bytes de las puntuaciones",
        _Cost(score_elements=lambda d, h, n: 4 * h * n * n),
        "En `score_elements` has puesto los bytes que ocupan. Se pide cuántos números son.",
    ),
    KnownMistake(
        "puntuaciones causales",
        _Cost(score_elements=lambda d, h, n: h * n * (n + 1) // 2),
        "En `score_elements` hay solo medio cuadrado, el del pasado. Aquí no hay máscara: cuenta todas las parejas.",
    ),
    KnownMistake(
        "cada token consigo mismo",
        _Cost(score_elements=lambda d, h, n: h * n * (n - 1)),
        "En `score_elements` falta la puntuación de cada token consigo mismo. También se calcula.",
    ),
    KnownMistake(
        "h al cuadrado",
        _Cost(score_elements=lambda d, h, n: (h * n) ** 2),
        "En `score_elements` el número de cabezas está elevado al cuadrado. Las cabezas no se comparan entre sí.",
    ),
    KnownMistake(
        "ocho cabezas fijas",
        _Cost(score_elements=lambda d, h, n: 8 * n * n),
        "En `score_elements` das por hecho que las cabezas son las del artículo, y solo acierta con ellas. Usa "
        "`num_heads`.",
    ),
)


def _cost_combinations():
    """Un error en dos de las cuentas, o en las tres."""
    for size in (2, 3):
        for group in combinations(COST_MISTAKES, size):
            yield from _together(group)


COST = Check(
    id="4.5",
    reference=mha_cost,
    cases=(
        Case("cabezas de 64", lambda generator: Call((320, 5, 50))),
        Case("secuencia larga y cabezas estrechas", lambda generator: Call((176, 8, 400))),
    ),
    mistakes=COST_MISTAKES,
    combined=_cost_combinations,
)

# 4.6 · Repara la capa ---------------------------------------------------------------------------------------------


@out_of_reach
def repaired_attention(x, w_q, w_k, w_v, w_o, num_heads, mask=None):
    """La misma función que se pide en 4.4."""
    return multi_head_attention(x, w_q, w_k, w_v, w_o, num_heads, mask)


REPAIR = Check(
    id="4.6",
    reference=repaired_attention,
    cases=LAYER_CASES,
    mistakes=LAYER_MISTAKES,
    combined=_layer_combinations,
)

# 4.7 · Lo que escribe cada cabeza ---------------------------------------------------------------------------------


@out_of_reach
def head_contributions(heads, w_o):
    """head_i · W^O_i, con W^O_i las filas i·d … (i+1)·d − 1: su suma es Concat(head_1 … head_h)·W^O."""
    return heads @ w_o.unflatten(0, (heads.shape[1], heads.shape[3]))


def _heads(batch, num_heads, n, d, d_model):
    """Un caso: la salida de las cabezas y una W^O de varianza 1/(h·d)."""

    def make(generator):
        heads = torch.randn(batch, num_heads, n, d, generator=generator)
        return Call((heads, torch.randn(num_heads * d, d_model, generator=generator) / (num_heads * d) ** 0.5))

    return make


def _blocks(w_o, heads):
    return w_o.unflatten(0, (heads.shape[1], heads.shape[3]))


def _right(heads, w_o):
    return heads @ _blocks(w_o, heads)


def _layer_output(heads, w_o):
    return _right(heads, w_o).sum(1)


def _for_every_head(value, heads):
    return value[:, None].expand(-1, heads.shape[1], -1, -1)


def _overlapping_blocks(heads, w_o):
    d = heads.shape[3]
    return torch.stack([heads[:, i] @ w_o[i : i + d] for i in range(heads.shape[1])], dim=1)


def _columns_instead_of_rows(heads, w_o):
    d = heads.shape[3]
    return torch.stack([heads[:, i] @ w_o[:, i * d : (i + 1) * d] for i in range(heads.shape[1])], dim=1)


def _concatenated_without_transposing(heads, w_o):
    """Cada cabeza sola en una concatenación hecha sin trasponer, y por la matriz entera."""
    batch, num_heads, n, d = heads.shape
    alone = torch.eye(num_heads)[:, None, :, None, None] * heads  # (h, batch, h, n, d): en la i, las demás a cero
    return (alone.reshape(num_heads, batch, n, num_heads * d) @ w_o).transpose(0, 1)


def _placed_without_w_o(heads, w_o):
    return torch.einsum("bhnd,hk->bhnkd", heads, torch.eye(heads.shape[1])).flatten(3)


CONTRIBUTIONS = Check(
    id="4.7",
    reference=head_contributions,
    cases=(
        Case("ocho cabezas", lambda generator: _heads(2, 8, 5, 3, 10)(generator)),
        Case("cabezas de 64", lambda generator: _heads(4, 3, 6, 64, 20)(generator)),
    ),
    mistakes=(
        KnownMistake(
            "las primeras filas para todas",
            lambda heads, w_o: heads @ w_o[: heads.shape[3]],
            "Todas las cabezas pasan por las mismas filas de `w_o`, las primeras. A la cabeza i le tocan las d filas "
            "que empiezan en i·d.",
        ),
        KnownMistake(
            "tiras que se solapan",
            _overlapping_blocks,
            "Las tiras de filas se solapan: la de la cabeza i empieza en la fila i. Empieza en i·d, donde acaba la "
            "anterior.",
        ),
        KnownMistake(
            "filas salteadas",
            lambda heads, w_o: heads @ w_o.unflatten(0, (heads.shape[3], heads.shape[1])).transpose(0, 1),
            "A cada cabeza le das filas de `w_o` salteadas, de h en h. Son seguidas, en el mismo orden en que se "
            "concatenan las cabezas.",
        ),
        KnownMistake(
            "filas al revés",
            lambda heads, w_o: heads @ _blocks(w_o, heads).flip(0),
            "Las tiras de filas van en orden contrario al de las cabezas. La primera cabeza usa las primeras filas.",
        ),
        KnownMistake(
            "ya sumadas",
            _layer_output,
            "Has sumado las cabezas: eso es la salida de la capa, con una dimensión menos. Se pide por separado lo que "
            "escribe cada una.",
        ),
        KnownMistake(
            "solo la última cabeza",
            lambda heads, w_o: _right(heads, w_o)[:, -1],
            "Devuelves lo que escribe la última cabeza: en el bucle, cada una borra a la anterior. Guárdalas todas en "
            "una dimensión propia.",
        ),
        KnownMistake(
            "solo la primera cabeza",
            lambda heads, w_o: _right(heads, w_o)[:, 0],
            "Devuelves lo que escribe la primera cabeza. Recórrelas todas antes del `return`.",
        ),
        KnownMistake(
            "la salida de la capa, repetida",
            lambda heads, w_o: _for_every_head(_layer_output(heads, w_o), heads),
            "Todas las cabezas escriben lo mismo, la salida entera de la capa. Lo de cada una sale solo de su cabeza y "
            "de sus filas (si usas un acumulador, guardas cada vez el mismo tensor).",
        ),
        KnownMistake(
            "sumas parciales",
            lambda heads, w_o: _right(heads, w_o).cumsum(1),
            "A lo de cada cabeza le has sumado lo de las anteriores. No acumules: cada una por separado.",
        ),
        KnownMistake(
            "a partes iguales",
            lambda heads, w_o: _for_every_head(_layer_output(heads, w_o), heads) / heads.shape[1],
            "Repartes la salida de la capa a partes iguales. La suma sale bien, pero cada cabeza escribe algo "
            "distinto: usa sus propias filas de `w_o`.",
        ),
        KnownMistake(
            "entre el número de cabezas",
            lambda heads, w_o: _right(heads, w_o) / heads.shape[1],
            "Cada contribución está dividida entre el número de cabezas, y su suma ya no da la salida de la capa. No "
            "es una media: quita la división.",
        ),
        KnownMistake(
            "sin el peso de las demás",
            lambda heads, w_o: _for_every_head(_layer_output(heads, w_o), heads) - _right(heads, w_o),
            "Das lo que queda de la salida al quitar cada cabeza, es decir, lo que escriben las demás. Se pide lo "
            "contrario.",
        ),
        KnownMistake(
            "como la guarda nn.Linear",
            lambda heads, w_o: heads @ _blocks(w_o.reshape(w_o.shape[::-1]).mT, heads),
            "Lees `w_o` con la forma (d_model, h·d), como la guarda `nn.Linear`, y los números caen en otro sitio. "
            "Aquí tiene h·d filas y d_model columnas.",
        ),
        KnownMistake(
            "traspuesta y releída",
            lambda heads, w_o: heads @ w_o.mT.reshape(heads.shape[1], heads.shape[3], -1),
            "Trasponer `w_o` y releerla con `reshape` mezcla sus filas con sus columnas. No hace falta trasponer: las "
            "tiras son de filas.",
        ),
        KnownMistake(
            "columnas de w_o",
            _columns_instead_of_rows,
            "Tomas columnas de `w_o`, y las formas no encajan. Lo que entra en `w_o` son sus filas: la cabeza i ocupa "
            "una tira de ellas.",
        ),
        KnownMistake(
            "concatenar sin trasponer",
            _concatenated_without_transposing,
            "Al concatenar, los tokens se mezclan: aplanas (batch, h, n, d) sin devolver antes la posición a su sitio. "
            "Intercambia cabezas y posiciones primero.",
        ),
        KnownMistake(
            "cabezas después de la posición",
            lambda heads, w_o: _right(heads, w_o).transpose(1, 2),
            "Los números están bien y las dimensiones no: pones la posición delante de la cabeza. Se pide (batch, h, "
            "n, d_model).",
        ),
        KnownMistake(
            "cabezas delante del lote",
            lambda heads, w_o: _right(heads, w_o).transpose(0, 1),
            "Los números están bien, pero la dimensión de cabezas ha quedado delante del lote. Al apilar con "
            "`torch.stack`, di en qué dimensión: la 1.",
        ),
        KnownMistake(
            "cabezas al final",
            lambda heads, w_o: _right(heads, w_o).movedim(1, -1),
            "Los números están bien, pero la dimensión de cabezas ha quedado la última. Apílalas en la 1, justo "
            "después del lote.",
        ),
        KnownMistake(
            "sin w_o",
            lambda heads, w_o: heads,
            "Devuelves las cabezas tal como llegan, con d columnas, y `w_o` no se usa. Lo que se escribe en el flujo "
            "residual sale de multiplicar por ella.",
        ),
        KnownMistake(
            "cada una en su sitio, sin w_o",
            _placed_without_w_o,
            "Pones cada cabeza en su sitio de la concatenación, con ceros en el de las demás. Falta multiplicar eso "
            "por `w_o`.",
        ),
        KnownMistake(
            "la tira según el lote",
            lambda heads, w_o: heads @ _blocks(w_o, heads)[: heads.shape[0], None],
            "La tira de `w_o` depende de la frase del lote y no de la cabeza. El lote es la dimensión 0 y las cabezas, "
            "la 1: recorre las cabezas.",
        ),
        KnownMistake(
            "norma de cada contribución",
            lambda heads, w_o: _right(heads, w_o).norm(dim=-1),
            "Devuelves un número por cabeza y token, el tamaño de lo que escribe. Se pide el vector entero.",
        ),
        KnownMistake(
            "con todas las filas",
            lambda heads, w_o: heads @ w_o,
            "Multiplicas cada cabeza por `w_o` entera, y las formas no encajan: tiene filas para todas. Divide sus "
            "filas en h tiras de d.",
        ),
        KnownMistake(
            "ocho cabezas fijas",
            lambda heads, w_o: heads @ w_o.reshape(8, -1, w_o.shape[1]),
            "Divides `w_o` entre un número fijo de cabezas, y solo sirve cuando coincide. Lee cuántas hay en la forma "
            "de `heads`.",
            error="must match|invalid for input|size",
        ),
        KnownMistake(
            "d fija en 64",
            lambda heads, w_o: heads @ w_o.reshape(-1, 64, w_o.shape[1]),
            "Divides `w_o` en tiras de una altura fija, y solo sirve cuando coincide con d. Lee d en la última "
            "dimensión de `heads`.",
            error="must match|invalid for input|size",
        ),
    ),
)

CHECKS = (HEAD_DIMS, SPLIT, MERGE, LAYER, COST, REPAIR, CONTRIBUTIONS)
