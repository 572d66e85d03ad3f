"""Comprobaciones del capítulo 04: dimensión por cabeza, dividir y juntar, la capa entera, coste y contribuciones."""

import torch

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


def _only_view_unchecked(x, num_heads):
    return x.reshape(*x.shape[:-2], num_heads, x.shape[-2], x.shape[-1] // num_heads)


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
            "view sin trasponer ni comprobar",
            _only_view_unchecked,
            "Hay dos cosas: cada cabeza mezcla trozos de varios tokens, porque pides la forma final de una vez, y "
            "falta el ValueError cuando el reparto no es exacto. Empieza por separar la última dimensión en dos e "
            "intercambiar después.",
            error="is invalid for input of size",
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
            "Sin lote y con una dimensión de lote funciona, y con dos no. No distingas casos: `x.shape[:-2]` son las "
            "dimensiones de delante, haya las que haya.",
            error="values to unpack",
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
            error="no divide|ValueError",
        ),
        KnownMistake(
            "comprobar las posiciones",
            _checks_positions,
            "Lanzas ValueError según el número de tokens, y ese no se reparte. La condición mira la última dimensión "
            "de `x`: su resto al dividir entre `num_heads`.",
            error="^ValueError|is invalid for input of size",
        ),
        KnownMistake(
            "condición al revés",
            _refuses_everything,
            "Lanzas ValueError justo cuando el reparto es exacto: la condición está al revés. El resto de la división "
            "es 0 cuando todo va bien.",
            error="^ValueError",
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
            seen=lambda value: (
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
            "La cuenta está bien y llega traspuesta, con los tokens en columnas. Quita la última trasposición.",
        ),
        KnownMistake(
            "la primera cabeza",
            lambda x: x[..., 0, :, :],
            "Devuelves una sola cabeza. Faltan las demás, a su derecha y en orden.",
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
        KnownMistake(
            "unidas por las posiciones",
            lambda x: torch.cat(x.unbind(-3), dim=-2),
            "Unes las cabezas una debajo de otra, y salen h·n filas. Únelas por la última dimensión: cada token "
            "conserva una fila.",
        ),
    ),
)

CHECKS = (HEAD_DIMS, SPLIT, MERGE)
