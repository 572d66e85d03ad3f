"""Comprobaciones del capítulo 01: posiciones sinusoidales y vectores de entrada."""

import math

import torch

from .framework import Call, Case, Check, KnownMistake, out_of_reach

# 1.1 · Posiciones sinusoidales ------------------------------------------------------------------------------------


@out_of_reach
def sinusoidal_positions(n, d_model):
    """PE(pos, 2i) = sen(pos / 10000^(2i/d)), PE(pos, 2i+1) = cos(pos / 10000^(2i/d)). Vaswani et al. (2017), §3.5."""
    rates = 10000.0 ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    angles = torch.arange(n, dtype=torch.float64)[:, None] * rates
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)


def _angles(n, exponents, *, base=10000.0, first=0):
    """Ángulos (n, d/2) con un divisor base^exponente por cada pareja de columnas."""
    return torch.arange(first, first + n)[:, None] / base ** torch.as_tensor(exponents, dtype=torch.float32)


def _interleave(even, odd):
    return torch.stack([even, odd], dim=-1).flatten(-2)


def _waves(angles):
    return _interleave(angles.sin(), angles.cos())


def _exponents(d_model):
    return torch.arange(0, d_model, 2) / d_model


def _square_positions(n, d_model):
    return _waves(_angles(d_model, _exponents(d_model)))[:n]


def _frequencies_from_n(n, d_model):
    table = torch.zeros(n, d_model)
    angles = _angles(n, 2 * torch.arange(n)[: d_model // 2] / d_model)
    table[:, 0::2], table[:, 1::2] = angles.sin(), angles.cos()
    return table


def _own_exponent(n, d_model):
    angles = _angles(n, torch.arange(d_model) / d_model)
    return _interleave(angles[:, 0::2].sin(), angles[:, 1::2].cos())


def _speeds_up(table, n, d_model):
    """¿Se aceleran las ondas? Se mira donde el ángulo no es enorme: en lo demás, el seno depende del redondeo."""
    if not isinstance(table, torch.Tensor) or table.shape != (n, d_model) or table.is_complex():
        return False
    angles = _angles(n, -_exponents(d_model)).double()
    near = (angles < 1000).repeat_interleave(2, dim=-1)
    return torch.allclose(table.double()[near], _waves(angles)[near], atol=0.01)


def _column_as_pair(n, d_model):
    angles = _angles(n, 2 * torch.arange(d_model) / d_model)
    return _interleave(angles[:, 0::2].sin(), angles[:, 1::2].cos())


POSITIONS = Check(
    id="1.1",
    reference=sinusoidal_positions,
    cases=(
        Case("pocas posiciones y muchas columnas", lambda generator: Call((5, 14))),
        Case("muchas posiciones y pocas columnas", lambda generator: Call((600, 8))),
    ),
    mistakes=(
        KnownMistake(
            "senos y cosenos en bloques",
            lambda n, d_model: torch.cat([f(_angles(n, _exponents(d_model))) for f in (torch.sin, torch.cos)], -1),
            "Todos los senos van delante y todos los cosenos detrás. Altérnalos: el seno en las columnas pares y el "
            "coseno en las impares.",
        ),
        KnownMistake(
            "posiciones desde 1",
            lambda n, d_model: _waves(_angles(n, _exponents(d_model), first=1)),
            "La primera fila es la de la posición 1. Empieza a contar las posiciones en 0.",
        ),
        KnownMistake(
            "seno y coseno cambiados",
            lambda n, d_model: _waves(_angles(n, _exponents(d_model))).unflatten(-1, (-1, 2)).flip(-1).flatten(-2),
            "Las columnas pares llevan el coseno y las impares el seno. Cámbialos: la columna 0 es un seno.",
        ),
        KnownMistake(
            "exponente i/d",
            lambda n, d_model: _waves(_angles(n, torch.arange(d_model // 2) / d_model)),
            "Las ondas se frenan la mitad de lo debido al avanzar por las columnas. El exponente es 2i/d, con i el "
            "número de la pareja (seno y coseno): te falta el 2.",
        ),
        KnownMistake(
            "la columna en lugar de la pareja",
            lambda n, d_model: _waves(_angles(n, 2 * torch.arange(0, d_model, 2) / d_model)),
            "Las ondas se frenan el doble de lo debido. En la fórmula, i numera parejas de columnas: si recorres las "
            "columnas pares 0, 2, 4…, ese número ya es 2i.",
        ),
        KnownMistake(
            "cada columna como si fuera una pareja",
            _column_as_pair,
            "Cada columna tiene su propio divisor, y las ondas se frenan el doble de lo debido: pones en i el número "
            "de columna. Las columnas 2i y 2i + 1 forman la pareja i y llevan el mismo ángulo.",
        ),
        KnownMistake(
            "cada columna con su exponente",
            _own_exponent,
            "Los senos están bien, pero cada coseno usa un divisor distinto del de su seno. Las columnas 2i y 2i + 1 "
            "comparten el exponente 2i/d.",
        ),
        KnownMistake(
            "parejas numeradas desde 1",
            lambda n, d_model: _waves(_angles(n, _exponents(d_model) + 2 / d_model)),
            "Todas las ondas llevan el divisor de la pareja siguiente. Numera las parejas desde i = 0: la primera "
            "divide entre 1.",
        ),
        KnownMistake(
            "exponente hasta d/2 − 1",
            lambda n, d_model: _waves(_angles(n, torch.arange(d_model // 2) / (d_model // 2 - 1))),
            "La primera pareja está bien y las demás se van desviando: repartes los exponentes de 0 a 1 con los dos "
            "extremos incluidos. Así lo hacen algunas bibliotecas; el artículo divide 2i entre d_model.",
        ),
        KnownMistake(
            "división entera",
            lambda n, d_model: _waves(_angles(n, torch.arange(0, d_model, 2) // d_model)),
            "Todas las parejas de columnas son iguales: el exponente sale 0 en todas. Divide con «/», no con «//».",
        ),
        KnownMistake(
            "frecuencias al revés",
            lambda n, d_model: _waves(_angles(n, -_exponents(d_model))),
            "Las ondas se aceleran hacia la derecha. La posición se divide entre 10000^(2i/d), no se multiplica (con "
            "exponencial y logaritmo, el exponente es negativo).",
            seen=_speeds_up,
        ),
        KnownMistake(
            "multiplicar en vez de elevar",
            lambda n, d_model: _waves(torch.arange(n)[:, None] / (10000.0 * _exponents(d_model))),
            "En las primeras columnas hay divisiones entre cero: multiplicas 10000 por 2i/d. Es una potencia: "
            "10000 elevado a 2i/d.",
        ),
        KnownMistake(
            "potencia sin paréntesis",
            lambda n, d_model: _waves(torch.arange(n)[:, None] / (10000.0 ** torch.arange(0, d_model, 2) / d_model)),
            "La división entre d queda fuera de la potencia: Python eleva antes de dividir. Pon el exponente entero, "
            "2i/d, entre paréntesis.",
        ),
        KnownMistake(
            "cuadrado sin paréntesis",
            lambda n, d_model: _waves(torch.arange(n)[:, None] / (10000.0**2 * torch.arange(d_model // 2) / d_model)),
            "Elevas 10000 solo al 2, y lo demás multiplica y divide por fuera: Python calcula antes las potencias. "
            "Encierra 2i/d entre paréntesis.",
        ),
        KnownMistake(
            "exponencial sin logaritmo",
            lambda n, d_model: _waves(_angles(n, _exponents(d_model), base=math.e)),
            "Las ondas apenas se frenan: la base es e y no 10000. Si usas la exponencial, multiplica antes el "
            "exponente por el logaritmo de 10000.",
        ),
        KnownMistake(
            "base 1000",
            lambda n, d_model: _waves(_angles(n, _exponents(d_model), base=1000.0)),
            "La base de la potencia es 1000, y falta un cero. En el artículo es 10000.",
        ),
        KnownMistake(
            "base 100000",
            lambda n, d_model: _waves(_angles(n, _exponents(d_model), base=100000.0)),
            "La base de la potencia es 100000, y sobra un cero. En el artículo es 10000.",
        ),
        KnownMistake(
            "grados",
            lambda n, d_model: _waves(torch.deg2rad(_angles(n, _exponents(d_model)))),
            "Las ondas van muy despacio: tratas el ángulo como si fueran grados. `sin` y `cos` lo esperan en radianes, "
            "sin convertir nada.",
        ),
        KnownMistake(
            "vueltas",
            lambda n, d_model: _waves(2 * math.pi * _angles(n, _exponents(d_model))),
            "Hay un 2π de más: la primera columna sale casi nula en todas las posiciones. El ángulo es la posición "
            "entre su divisor, sin otro factor.",
        ),
        KnownMistake(
            "posición normalizada",
            lambda n, d_model: _waves(_angles(n, _exponents(d_model)) / n),
            "El vector de una posición cambia según la longitud de la secuencia. No dividas la posición entre n: "
            "la 3 es la 3 en una frase corta y en una larga.",
        ),
        KnownMistake(
            "solo senos",
            lambda n, d_model: _interleave(*[_angles(n, _exponents(d_model)).sin()] * 2),
            "Cada columna impar repite el seno de su pareja. Ahí va el coseno del mismo ángulo.",
        ),
        KnownMistake(
            "solo cosenos",
            lambda n, d_model: _interleave(*[_angles(n, _exponents(d_model)).cos()] * 2),
            "Cada columna par repite el coseno de su pareja. Ahí va el seno del mismo ángulo.",
        ),
        KnownMistake(
            "ángulos sin ondas",
            lambda n, d_model: _interleave(*[_angles(n, _exponents(d_model))] * 2),
            "Devuelves los ángulos. Falta pasarlos por el seno y el coseno.",
        ),
        KnownMistake(
            "return dentro del bucle",
            lambda n, d_model: torch.cat([_waves(_angles(1, _exponents(d_model))), torch.zeros(n - 1, d_model)]),
            "Solo está rellena la primera fila: tu función termina en la primera vuelta del bucle. Saca el `return` "
            "del bucle, a la altura del `for`.",
        ),
        KnownMistake(
            "apilar y desordenar",
            lambda n, d_model: torch.stack(
                [_angles(n, _exponents(d_model)).sin(), _angles(n, _exponents(d_model)).cos()]
            ).reshape(n, d_model),
            "La forma es correcta, pero cada fila junta trozos de varias posiciones: apilaste en la primera dimensión "
            "y `reshape` leyó los números por otro orden. Apila en la última dimensión antes de aplanar.",
        ),
        KnownMistake(
            "traspuesta",
            lambda n, d_model: _waves(_angles(n, _exponents(d_model))).mT,
            "La tabla está traspuesta: las posiciones van por columnas. Pon una posición en cada fila.",
        ),
        KnownMistake(
            "lote de más",
            lambda n, d_model: _waves(_angles(n, _exponents(d_model)))[None],
            "Sobra una dimensión delante, la del lote. Devuelve la tabla (n, d_model), sin `unsqueeze`.",
        ),
        KnownMistake(
            "tabla de 512 posiciones",
            lambda n, d_model: _waves(_angles(512, _exponents(d_model)))[:n],
            "Con secuencias largas faltan filas: recortas una tabla de tamaño fijo. Calcula las n posiciones que te "
            "piden; esa es la ventaja de tener una fórmula.",
        ),
        KnownMistake(
            "posiciones según d_model",
            _square_positions,
            "Cuando n es mayor que d_model faltan filas: el bucle de las posiciones recorre d_model. Las posiciones "
            "van de 0 a n − 1.",
        ),
        KnownMistake(
            "frecuencias según n",
            _frequencies_from_n,
            "Con frases cortas faltan frecuencias: las cuentas hasta n. Hay d_model/2 parejas de columnas, sea cual "
            "sea la longitud.",
        ),
    ),
)

# 1.2 · De números a vectores de entrada ---------------------------------------------------------------------------


@out_of_reach
def embed(ids, table, positions):
    """E[ids] + P. Vaswani et al. (2017), §3.4 y §3.5, sin su factor √d_model (como BERT y GPT-2)."""
    return table[ids] + positions


def _one_sentence(generator):
    """Más tokens que vocabulario: hay repetidos."""
    return Call(
        (
            torch.randint(5, (9,), generator=generator),
            torch.randn(5, 6, generator=generator),
            torch.randn(9, 6, generator=generator),
        )
    )


def _two_batch_dimensions(generator):
    """El último token del vocabulario no aparece."""
    return Call(
        (
            torch.randint(12, (2, 3, 4), generator=generator),
            torch.randn(13, 8, generator=generator),
            torch.randn(4, 8, generator=generator),
        )
    )


def _position_per_sentence(ids, table, positions):
    return torch.stack([table[ids[i]] + positions[i] for i in range(len(ids))])


def _batch_required(ids, table, positions):
    return torch.stack([table[sentence] + positions for sentence in ids])


def _one_batch_dimension(ids, table, positions):
    if ids.dim() == 1:
        return table[ids] + positions
    batch, n = ids.shape
    return table[ids.reshape(-1)].reshape(batch, n, -1) + positions


def _length_from_first_axis(ids, table, positions):
    return table[ids] + positions[: len(ids)]


EMBED = Check(
    id="1.2",
    reference=embed,
    cases=(
        Case("una frase sin lote", _one_sentence),
        Case("dos dimensiones de lote", _two_batch_dimensions),
    ),
    mistakes=(
        KnownMistake(
            "por √d_model",
            lambda ids, table, positions: table[ids] * table.shape[-1] ** 0.5 + positions,
            "Multiplicas los vectores de los tokens por √d_model, como el artículo de 2017. Aquí no se pide: suma sin "
            "más, como BERT y GPT-2.",
        ),
        KnownMistake(
            "sin posición",
            lambda ids, table, positions: table[ids],
            "Devuelves los vectores de los tokens y la posición no aparece. Súmale a cada token el vector de su "
            "puesto en la frase.",
        ),
        KnownMistake(
            "solo posición",
            lambda ids, table, positions: positions.expand(*ids.shape, positions.shape[-1]),
            "Devuelves solo las posiciones: dos frases distintas darían lo mismo. Busca en la tabla el vector de cada "
            "token y súmalo.",
        ),
        KnownMistake(
            "posición según el token",
            lambda ids, table, positions: table[ids] + positions[ids],
            "La posición se busca con el número del token: el mismo token en dos puestos daría el mismo vector. "
            "El vector i de `positions` es el del puesto i, diga lo que diga el token.",
        ),
        KnownMistake(
            "posición por frase",
            _position_per_sentence,
            "Con lote, todos los tokens de una frase reciben la misma posición: recorres el lote como si fuera la "
            "frase. La posición avanza por la última dimensión de `ids`.",
        ),
        KnownMistake(
            "lote obligatorio",
            _batch_required,
            "Con una frase sin lote la forma no sale: recorres la primera dimensión dando por hecho que son frases. "
            "Indexa la tabla con todo `ids` de una vez y deja que torch se ocupe de las dimensiones de delante.",
        ),
        KnownMistake(
            "una sola dimensión de lote",
            _one_batch_dimension,
            "Con más de una dimensión de lote tu función falla: solo prevés (lote, n). El enunciado dice (..., n): no "
            "des nombre a las dimensiones de delante, no te hacen falta.",
            error="values to unpack",
        ),
        KnownMistake(
            "longitud de la primera dimensión",
            _length_from_first_axis,
            "Recortas `positions` con la primera dimensión de `ids`, que con lote no es la longitud. `positions` ya "
            "trae una fila por puesto: no hay que recortarla.",
        ),
        KnownMistake(
            "producto",
            lambda ids, table, positions: table[ids] * positions,
            "Multiplicas el token por la posición. Súmalos.",
        ),
        KnownMistake(
            "resta",
            lambda ids, table, positions: table[ids] - positions,
            "La posición aparece con el signo cambiado. Súmala.",
        ),
        KnownMistake(
            "media",
            lambda ids, table, positions: (table[ids] + positions) / 2,
            "Sale la mitad de lo que debe: haces la media de los dos vectores. Deja la suma.",
        ),
        KnownMistake(
            "concatenación",
            lambda ids, table, positions: torch.cat(
                [table[ids], positions.expand(*ids.shape, positions.shape[-1])], -1
            ),
            "El vector sale el doble de ancho: pones la posición detrás del token. Se suman, y la anchura sigue "
            "siendo d_model.",
        ),
        KnownMistake(
            "posición 0 para todos",
            lambda ids, table, positions: table[ids] + positions[0],
            "Todos los tokens reciben la posición 0. Suma `positions` entera, una fila a cada puesto.",
        ),
        KnownMistake(
            "posición siguiente",
            lambda ids, table, positions: table[ids] + positions.roll(-1, 0),
            "Cada token recibe la posición del puesto siguiente. La fila 0 de `positions` es la del primer token.",
        ),
        KnownMistake(
            "posición siguiente, sin dar la vuelta",
            lambda ids, table, positions: table[ids] + positions[torch.arange(1, ids.shape[-1] + 1)],
            "Buscas una fila más allá del final de `positions`, porque cuentas los puestos desde 1. Cuéntalos desde 0.",
        ),
        KnownMistake(
            "senos propios",
            lambda ids, table, positions: table[ids] + _waves(_angles(len(positions), _exponents(positions.shape[-1]))),
            "Sumas senos y cosenos calculados dentro de la función y no usas `positions`. Ahí llegan ya los vectores "
            "de posición, que en BERT o GPT-2 son aprendidos: suma esos.",
        ),
        KnownMistake(
            "one-hot sin tamaño",
            lambda ids, table, positions: torch.nn.functional.one_hot(ids).to(table.dtype) @ table + positions,
            "El one-hot sale más estrecho que el vocabulario cuando su último token no aparece en la frase. Dile "
            "cuántas clases hay, o indexa la tabla, que hace lo mismo sin construirlo.",
        ),
        KnownMistake(
            "columnas de la tabla",
            lambda ids, table, positions: table[:, ids] + positions,
            "Buscas columnas de `table`. Cada token es una fila: la tabla tiene forma (vocab, d_model).",
        ),
        KnownMistake(
            "frase aplanada",
            lambda ids, table, positions: table[ids.flatten()] + positions,
            "Con lote tu función falla: al aplanar `ids` se juntan todas las frases en una fila. No lo aplanes: "
            "`table[ids]` conserva sus dimensiones.",
        ),
        KnownMistake(
            "una fila arriba",
            lambda ids, table, positions: table[ids - 1] + positions,
            "Cada token toma el vector del anterior en el vocabulario. Los números de token ya empiezan en 0: no "
            "restes nada.",
        ),
    ),
)

CHECKS = (POSITIONS, EMBED)
