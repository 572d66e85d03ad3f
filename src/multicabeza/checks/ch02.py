"""Comprobaciones del capítulo 02: pesos, máscaras y atención por producto escalar."""

import torch

from .framework import Call, Case, Check, KnownMistake, out_of_reach


def _normal(generator, *shape):
    return torch.randn(*shape, generator=generator)


def _scores(query, key):
    return query @ key.mT / query.shape[-1] ** 0.5


def _softmax(scores):
    return torch.softmax(scores, dim=-1)


def _exp_over_sum(scores):
    return scores.exp() / scores.exp().sum(-1, keepdim=True)


# 2.1 · Pesos de atención ------------------------------------------------------------------------------------------


@out_of_reach
def attention_weights(query, key):
    """softmax(QKᵀ/√d), por filas. Vaswani et al. (2017), ec. 1."""
    return torch.softmax(query @ key.mT / query.shape[-1] ** 0.5, dim=-1)


def _large_scores(generator):
    """Filas de puntuaciones cercanas a +850, a −850 y a las dos cosas: ni en float64 cabe su exponencial.

    Los números son múltiplos de 1/8 y √d es una potencia de 2, así que las puntuaciones son exactas en float32, se
    calculen en el orden que se calculen.
    """
    query, key = (torch.randint(-8, 9, (3, n, 16), generator=generator) / 8 for n in (4, 5))
    key[..., 0] = 40.0
    key[..., 1] = 40.0 * (-1.0) ** torch.randperm(5, generator=generator)
    query[..., :2] = torch.tensor([[85.0, 0.0], [-85.0, 0.0], [0.0, 85.0], [0.0, -85.0]])
    return Call((query, key))


def _query_by_query(query, key):
    return torch.stack([_softmax(_scores(q, k)) for q, k in zip(query, key, strict=False)])


def _one_batch_dimension(query, key):
    if query.dim() == 2:
        return _softmax(_scores(query, key))
    return _softmax(torch.bmm(query, key.transpose(1, 2)) / query.shape[-1] ** 0.5)


def _softmax_over_everything(query, key):
    scores = _scores(query, key)
    return scores.flatten(-2).softmax(-1).reshape(scores.shape)


WEIGHTS = Check(
    id="2.1",
    reference=attention_weights,
    weights=lambda value: value,
    cases=(
        Case("sin lote", lambda generator: Call((_normal(generator, 5, 6), _normal(generator, 7, 6)))),
        Case("con lote", lambda generator: Call((_normal(generator, 2, 3, 7, 8), _normal(generator, 2, 3, 5, 8)))),
        Case("puntuaciones muy grandes", _large_scores),
    ),
    mistakes=(
        KnownMistake(
            "softmax sobre las consultas",
            lambda query, key: torch.softmax(_scores(query, key), -2),
            "Las columnas suman 1 y las filas no: aplicaste la softmax sobre las consultas. Cada fila (una consulta) "
            "reparte su peso entre las claves: normaliza sobre ellas.",
        ),
        KnownMistake(
            "sin escala",
            lambda query, key: _softmax(query @ key.mT),
            "Los pesos salen demasiado concentrados: las puntuaciones no están escaladas. Divídelas entre √d antes de "
            "la softmax.",
        ),
        KnownMistake(
            "entre d",
            lambda query, key: _softmax(query @ key.mT / query.shape[-1]),
            "Los pesos salen demasiado parecidos entre sí: las puntuaciones acaban divididas entre d. O te falta la "
            "raíz, o divides dos veces entre ella.",
        ),
        KnownMistake(
            "por √d",
            lambda query, key: _softmax(query @ key.mT * query.shape[-1] ** 0.5),
            "Casi todo el peso cae en una clave: multiplicas por √d. Se divide, para que las puntuaciones no crezcan "
            "con la dimensión.",
        ),
        KnownMistake(
            "d ** 1 / 2",
            lambda query, key: _softmax(query @ key.mT / (query.shape[-1] / 2)),
            "Las puntuaciones quedan divididas entre d/2: en Python, `d ** 1 / 2` eleva antes de dividir. Usa "
            "`math.sqrt(d)`, o pon el exponente entre paréntesis.",
        ),
        KnownMistake(
            "entre d ** 1 / 2",
            lambda query, key: _softmax(query @ key.mT / query.shape[-1] ** 1 / 2),
            "Las puntuaciones quedan divididas entre d y otra vez entre 2: sin paréntesis, el exponente es solo el 1. "
            "Encierra el 1/2, o usa `math.sqrt`.",
        ),
        KnownMistake(
            "raíz truncada",
            lambda query, key: _softmax(query @ key.mT / int(query.shape[-1] ** 0.5)),
            "La escala solo acierta cuando d es un cuadrado: redondeas la raíz a un entero. Quita el `int` y usa la "
            "raíz con sus decimales.",
        ),
        KnownMistake(
            "división entera",
            lambda query, key: _softmax(query @ key.mT // query.shape[-1] ** 0.5),
            "Las puntuaciones llegan redondeadas a la softmax: «//» se queda con la parte entera. Divide con «/».",
        ),
        KnownMistake(
            "entre la raíz del número de claves",
            lambda query, key: _softmax(query @ key.mT / key.shape[-2] ** 0.5),
            "La escala depende de cuántas claves hay. Usa la raíz de d, la última dimensión de `query`: son d los "
            "sumandos de cada producto escalar.",
        ),
        KnownMistake(
            "entre la raíz del número de consultas",
            lambda query, key: _softmax(query @ key.mT / query.shape[-2] ** 0.5),
            "La escala depende de cuántas consultas hay. Toma d de la última dimensión de `query`, no de la penúltima.",
        ),
        KnownMistake(
            "d leída en la segunda dimensión",
            lambda query, key: _softmax(query @ key.mT / query.shape[1] ** 0.5),
            "Sin lote todo va bien, pero con lote la escala es otra: lees d en la dimensión 1. Cuenta desde el final, "
            "con -1, y valdrá con cualquier lote.",
        ),
        KnownMistake(
            "d leída en la segunda dimensión de key",
            lambda query, key: _softmax(query @ key.mT / key.shape[1] ** 0.5),
            "Lees d en la dimensión 1 de `key`, que con lote son las claves o las cabezas. Es la última de todas: "
            "cuenta desde el final.",
        ),
        KnownMistake(
            "softmax en la dimensión 1",
            lambda query, key: torch.softmax(_scores(query, key), 1),
            "Sin lote todo va bien, pero con lote normalizas otra dimensión: fijaste la softmax en la 1. Las claves "
            "están en la última: dim=-1.",
        ),
        KnownMistake(
            "softmax en la dimensión 0",
            lambda query, key: torch.softmax(_scores(query, key), 0),
            "La softmax recorre la primera dimensión, que son las consultas o, con lote, las frases. Las claves están "
            "en la última.",
        ),
        KnownMistake(
            "softmax de toda la matriz",
            _softmax_over_everything,
            "Toda la matriz suma 1, y debería sumar 1 cada fila. Cada consulta tiene un reparto propio: aplica la "
            "softmax a una sola dimensión.",
        ),
        KnownMistake(
            "consultas y claves cambiadas",
            lambda query, key: _softmax(_scores(key, query)),
            "La matriz tiene las claves en las filas. Pon las consultas: Q por K traspuesta, en ese orden.",
        ),
        KnownMistake(
            "traspuesta al final",
            lambda query, key: _softmax(_scores(query, key)).mT,
            "Los pesos están bien calculados y el resultado llega traspuesto. Quita la última trasposición: una "
            "consulta por fila.",
        ),
        KnownMistake(
            "escala después de la softmax",
            lambda query, key: _softmax(query @ key.mT) / query.shape[-1] ** 0.5,
            "Las filas suman menos de 1: divides entre √d cuando la softmax ya está hecha. Escala las puntuaciones, "
            "no los pesos.",
        ),
        KnownMistake(
            "sin softmax",
            lambda query, key: _scores(query, key),
            "Hay pesos negativos: devuelves las puntuaciones. Falta la softmax, que las convierte en un reparto.",
        ),
        KnownMistake(
            "logaritmo de los pesos",
            lambda query, key: torch.log_softmax(_scores(query, key), -1),
            "Todos los valores son negativos: devuelves el logaritmo de los pesos. Usa la softmax, o deshaz el "
            "logaritmo con la exponencial.",
        ),
        KnownMistake(
            "sigmoide",
            lambda query, key: torch.sigmoid(_scores(query, key)),
            "Cada peso se calcula sin mirar a los demás: aplicas una sigmoide. En la atención las claves compiten: usa "
            "la softmax.",
        ),
        KnownMistake(
            "exponencial sin normalizar",
            lambda query, key: _scores(query, key).exp(),
            "Los pesos son positivos, pero no suman 1: te quedas en la exponencial. Divide cada fila entre su suma.",
        ),
        KnownMistake(
            "dividir sin exponencial",
            lambda query, key: _scores(query, key) / _scores(query, key).sum(-1, keepdim=True),
            "Las filas suman 1, pero hay pesos negativos o enormes: divides las puntuaciones entre su suma. Aplica "
            "antes la exponencial.",
        ),
        KnownMistake(
            "exponencial que se desborda",
            lambda query, key: _exp_over_sum(_scores(query, key)),
            "Con puntuaciones grandes salen NaN: la exponencial se desborda, o todas las de la fila se quedan en cero. "
            "Resta a cada fila su máximo antes de la exponencial (el resultado no cambia) o usa `torch.softmax`.",
        ),
        KnownMistake(
            "resta del máximo global",
            lambda query, key: _exp_over_sum(_scores(query, key) - _scores(query, key).max()),
            "Restas el máximo de toda la matriz, y a las filas de puntuaciones muy bajas no les queda nada que "
            "repartir. Resta a cada fila su propio máximo.",
        ),
        KnownMistake(
            "resta de la media",
            lambda query, key: _exp_over_sum(_scores(query, key) - _scores(query, key).mean(-1, keepdim=True)),
            "Restas a cada fila su media, y si la fila mezcla puntuaciones muy altas y muy bajas la exponencial se "
            "desborda igual. Resta el máximo: así ningún exponente pasa de 0.",
        ),
        KnownMistake(
            "dos softmax",
            lambda query, key: _softmax(_softmax(_scores(query, key))),
            "Los pesos salen casi iguales entre sí, aunque sumen 1: aplicas la softmax dos veces. Aplícala una, sobre "
            "las puntuaciones.",
        ),
        KnownMistake(
            "la más parecida pesa menos",
            lambda query, key: _softmax(-_scores(query, key)),
            "Las claves que más se parecen a la consulta son las que menos pesan: las puntuaciones llevan el signo "
            "cambiado. Quita ese menos.",
        ),
        KnownMistake(
            "reshape en vez de trasponer",
            lambda query, key: _softmax(
                query @ key.reshape(*key.shape[:-2], *key.mT.shape[-2:]) / query.shape[-1] ** 0.5
            ),
            "La forma es correcta, pero cada puntuación mezcla trozos de varias claves: `reshape` y `view` no "
            "trasponen, vuelven a leer los mismos números en fila. Usa `.mT` o `transpose(-2, -1)`.",
        ),
        KnownMistake(
            "máscara causal",
            lambda query, key: _softmax(
                _scores(query, key).masked_fill(_scores(query, key).isfinite().triu(1), float("-inf"))
            ),
            "Hay una máscara causal: cada consulta deja a cero las claves que van detrás. Aquí no se pide ninguna "
            "máscara.",
        ),
        KnownMistake(
            "similitud del coseno",
            lambda query, key: _softmax(
                torch.nn.functional.normalize(query, dim=-1) @ torch.nn.functional.normalize(key, dim=-1).mT
            ),
            "Divides cada vector entre su longitud: eso es el coseno del ángulo, y aquí la longitud cuenta. Usa el "
            "producto escalar y divide entre √d.",
        ),
        KnownMistake(
            "solo dos dimensiones",
            lambda query, key: _softmax(query @ key.t() / query.shape[-1] ** 0.5),
            "Con lote tu función falla: esa trasposición solo admite matrices sueltas. Intercambia las dos últimas "
            "dimensiones de `key` y deja quietas las demás.",
        ),
        KnownMistake(
            ".T",
            lambda query, key: _softmax(query @ key.permute(*range(key.dim() - 1, -1, -1)) / query.shape[-1] ** 0.5),
            "Con lote tu función falla: `.T` da la vuelta a todas las dimensiones, también a las de lote. Usa `.mT`, "
            "que intercambia solo las dos últimas.",
        ),
        KnownMistake(
            "transpose(0, 1)",
            lambda query, key: _softmax(query @ key.transpose(0, 1) / query.shape[-1] ** 0.5),
            "Con lote tu función falla: intercambias las dimensiones 0 y 1, que entonces son de lote. Cuéntalas desde "
            "el final: las dos últimas son -2 y -1.",
        ),
        KnownMistake(
            "transpose(1, 2)",
            lambda query, key: _softmax(query @ key.transpose(1, 2) / query.shape[-1] ** 0.5),
            "Intercambias las dimensiones 1 y 2, que solo son las últimas si hay exactamente una de lote. Cuenta desde "
            "el final, con -2 y -1, y dará igual cuántas haya.",
        ),
        KnownMistake(
            "consulta a consulta",
            _query_by_query,
            "Sin lote tu función falla: recorres la primera dimensión como si siempre hubiera lote, y entonces son las "
            "consultas. No hace falta recorrerla: el producto de matrices ya respeta las dimensiones de delante.",
        ),
        KnownMistake(
            "una sola dimensión de lote",
            _one_batch_dimension,
            "Con dos dimensiones de lote tu función falla: `bmm` admite exactamente una. El operador @ admite las que "
            "haya.",
            error="3D tensor",
        ),
    ),
)

# 2.2 · Máscara causal ---------------------------------------------------------------------------------------------


@out_of_reach
def causal_mask(n):
    """True en (i, j) si j ≤ i: cada posición se ve a sí misma y a las anteriores."""
    return torch.ones(n, n, dtype=torch.bool).tril()


def _ones(n):
    return torch.ones(n, n, dtype=torch.bool)


CAUSAL = Check(
    id="2.2",
    reference=causal_mask,
    cases=(
        Case("secuencia corta", lambda generator: Call((7,))),
        Case("secuencia larga", lambda generator: Call((40,))),
    ),
    mistakes=(
        KnownMistake(
            "sin la diagonal",
            lambda n: _ones(n).tril(-1),
            "Ningún token se ve a sí mismo, y el primero se queda sin nada que mirar. Incluye la diagonal.",
        ),
        KnownMistake(
            "polaridad al revés",
            lambda n: _ones(n).triu(1),
            "La máscara tiene True en lo prohibido, como en `nn.MultiheadAttention`. Aquí True es «puede atender»: "
            "niega el resultado.",
        ),
        KnownMistake(
            "triángulo de arriba",
            lambda n: _ones(n).triu(),
            "Cada token ve los que vienen después y no los de antes: es el triángulo de arriba. Fila es quien mira y "
            "columna a quién mira: quédate con el de abajo.",
        ),
        KnownMistake(
            "un token de más",
            lambda n: _ones(n).tril(1),
            "Cada token ve también el siguiente, que es el que debe adivinar. La diagonal es el último permitido.",
        ),
        KnownMistake(
            "números en vez de booleanos",
            lambda n: _ones(n).tril().float(),
            "El triángulo está bien, pero son unos y ceros: sumados a las puntuaciones, por ejemplo, no prohíben nada. "
            "Conviértelos en booleanos.",
        ),
        KnownMistake(
            "números y polaridad al revés",
            lambda n: _ones(n).triu(1).float(),
            "Son unos y ceros, con los unos en el futuro: dos cosas que cambiar. Pasa a booleanos y niega: así "
            "True será lo que se puede ver.",
        ),
        KnownMistake(
            "máscara aditiva",
            lambda n: torch.zeros(n, n).masked_fill(~_ones(n).tril(), float("-inf")),
            "Es la máscara aditiva, de ceros y −∞, la que se suma a las puntuaciones. Aquí se pide la booleana, con "
            "True donde se puede atender.",
        ),
        KnownMistake(
            "máscara aditiva con un número grande",
            lambda n: torch.zeros(n, n).masked_fill(~_ones(n).tril(), -1e9),
            "Es una máscara para sumar, de ceros y números muy negativos. Aquí se pide una booleana: di qué se puede "
            "ver, no cuánto se resta.",
        ),
        KnownMistake(
            "todo permitido",
            _ones,
            "Todo está permitido, también el futuro. Deja en False las columnas posteriores a la fila.",
        ),
        KnownMistake(
            "solo la diagonal",
            lambda n: torch.eye(n, dtype=torch.bool),
            "Cada token solo se ve a sí mismo. Añade todos los anteriores.",
        ),
        KnownMistake(
            "nada permitido",
            lambda n: ~_ones(n),
            "Nadie puede mirar a nadie: todo es False. Pon True en la diagonal y debajo de ella.",
        ),
        KnownMistake(
            "la otra diagonal",
            lambda n: _ones(n).tril().flip(-1),
            "El triángulo está apoyado en la otra diagonal: el primer token ve solo el último. Para cada fila i, las "
            "columnas permitidas empiezan en la 0 y acaban en la i.",
        ),
        KnownMistake(
            "solo el anterior y él mismo",
            lambda n: _ones(n).tril() & _ones(n).triu(-1),
            "Cada token ve el anterior y a sí mismo, y nada más atrás. Un token causal ve *todos* los anteriores.",
        ),
        KnownMistake(
            "sin la primera dimensión",
            lambda n: _ones(n).tril()[None],
            "Hay una dimensión de más delante. Se pide la matriz (n, n): ya se repetirá sola para cada frase y cabeza.",
        ),
        KnownMistake(
            "con dos dimensiones de más",
            lambda n: _ones(n).tril()[None, None],
            "Hay dos dimensiones de más delante, las del lote y las cabezas. Devuelve solo (n, n).",
        ),
        KnownMistake(
            "una fila y una columna de más",
            lambda n: _ones(n + 1).tril(),
            "Sobra una fila y una columna. Para n tokens la máscara es de n por n.",
        ),
        KnownMistake(
            "tabla de 32",
            lambda n: _ones(32).tril()[:n, :n],
            "Con secuencias largas la máscara se queda corta: la recortas de una de tamaño fijo. Constrúyela del "
            "tamaño n que te piden.",
        ),
    ),
)

# 2.3 · Atención por producto escalar ------------------------------------------------------------------------------


@out_of_reach
def scaled_dot_product_attention(query, key, value, mask=None):
    """softmax(QKᵀ/√d + máscara)·V y sus pesos. Vaswani et al. (2017), ec. 1 y §3.2.3."""
    scores = query @ key.mT / query.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = torch.softmax(scores, dim=-1)
    return weights @ value, weights


def _random_mask(generator, n_q, n_k):
    """Cada consulta puede mirar a algunas claves: nunca a todas, y siempre a una por lo menos."""
    mask = torch.rand(n_q, n_k, generator=generator) < 0.6
    rows, allowed = torch.arange(n_q), torch.randint(n_k, (n_q,), generator=generator)
    mask[rows, allowed] = True
    mask[rows, (allowed + 1) % n_k] = False
    return mask


def _no_mask(generator):
    return Call((_normal(generator, 5, 6), _normal(generator, 7, 6), _normal(generator, 7, 4)))


def _batch(generator):
    return _normal(generator, 2, 3, 6, 8), _normal(generator, 2, 3, 5, 8), _normal(generator, 2, 3, 5, 4)


def _matrix_mask(generator):
    return Call(_batch(generator), {"mask": _random_mask(generator, 6, 5)})


def _padding(generator):
    """Máscara (lote, 1, 1, n_k): la misma para todas las cabezas y consultas de una frase.

    Hay filas con puntuaciones cercanas a −25 y a +25: tapar con −10 no es tapar.
    """
    query, key, value = _batch(generator)
    key[..., 0] = 5.0
    query[..., 0] = 14.0 * (-1.0) ** torch.arange(query.shape[-2])
    return Call((query, key, value), {"mask": _random_mask(generator, 2, 5)[:, None, None, :]})


def _fill(scores, mask, value=float("-inf")):
    return scores if mask is None else scores.masked_fill(~mask, value)


def _both(weights, value):
    return weights @ value, weights


def _attend(query, key, value, mask=None):
    return _both(_softmax(_fill(_scores(query, key), mask)), value)


def _inverted(query, key, value, mask=None):
    return _attend(query, key, value, None if mask is None else ~mask)


def _mask_after_softmax(query, key, value, mask=None):
    weights = _softmax(_scores(query, key))
    return _both(weights if mask is None else weights * mask, value)


def _infinity_after_softmax(query, key, value, mask=None):
    return _both(_fill(_softmax(_scores(query, key)), mask), value)


def _boolean_added(query, key, value, mask=None):
    scores = _scores(query, key)
    return _both(_softmax(scores if mask is None else scores + mask), value)


def _mask_always_there(query, key, value, mask=None):
    return _both(_softmax(_scores(query, key).masked_fill(~mask, float("-inf"))), value)


def _mask_as_condition(query, key, value, mask=None):
    scores = _scores(query, key)
    if mask:
        scores = scores.masked_fill(~mask, float("-inf"))
    return _both(_softmax(scores), value)


def _indexed_without_broadcasting(query, key, value, mask=None):
    scores = _scores(query, key)
    if mask is not None:
        scores[~mask] = float("-inf")
    return _both(_softmax(scores), value)


def _indexed_at_the_end(query, key, value, mask=None):
    scores = _scores(query, key)
    if mask is not None:
        scores[..., ~mask] = float("-inf")
    return _both(_softmax(scores), value)


def _four_dimensional_mask(query, key, value, mask=None):
    if mask is not None:
        batch, _, _, n_k = mask.shape
        mask = mask.reshape(batch, 1, -1, n_k)
    return _attend(query, key, value, mask)


def _four_dimensional_query(query, key, value, mask=None):
    batch, heads, n_q, d = query.shape
    return _attend(query.reshape(batch, heads, n_q, d), key, value, mask)


def _first_row_for_all(query, key, value, mask=None):
    return _attend(query, key, value, None if mask is None else mask[..., :1, :])


def _scaled_output(query, key, value, mask=None):
    weights = _softmax(_fill(query @ key.mT, mask))
    return weights @ value / query.shape[-1] ** 0.5, weights


def _masked_values(query, key, value, mask=None):
    output, weights = _both(_softmax(_scores(query, key)), value)
    return output if mask is None else (weights * mask) @ value, weights


SDPA = Check(
    id="2.3",
    reference=scaled_dot_product_attention,
    weights=lambda value: value[1],
    cases=(
        Case("sin máscara ni lote", _no_mask),
        Case("con lote y una máscara (n_q, n_k)", _matrix_mask),
        Case("con lote y una máscara (lote, 1, 1, n_k)", _padding),
    ),
    mistakes=(
        KnownMistake(
            "polaridad al revés",
            _inverted,
            "Cada consulta atiende justo a lo que la máscara prohíbe. True es «puede atender»: pon −∞ donde la máscara "
            "es False.",
        ),
        KnownMistake(
            "máscara después de la softmax",
            _mask_after_softmax,
            "Lo prohibido pesa 0, pero las filas ya no suman 1: enmascaras después de la softmax. Hazlo antes, sobre "
            "las puntuaciones, y el peso se repartirá entre las claves permitidas.",
        ),
        KnownMistake(
            "infinito después de la softmax",
            _infinity_after_softmax,
            "Hay infinitos entre los pesos: el −∞ llega después de la softmax. Va en las puntuaciones, antes de ella.",
        ),
        KnownMistake(
            "cero en las puntuaciones",
            lambda query, key, value, mask=None: _both(_softmax(_fill(_scores(query, key), mask, 0.0)), value),
            "Las claves prohibidas siguen recibiendo peso: pusiste su puntuación a 0 (o multiplicaste por la máscara), "
            "y la exponencial de 0 es 1. Para que no pese nada, la puntuación debe ser −∞.",
        ),
        KnownMistake(
            "número poco negativo",
            lambda query, key, value, mask=None: _both(_softmax(_fill(_scores(query, key), mask, -10.0)), value),
            "Las claves prohibidas pesan algo, y a veces mucho: las tapas con un número que no es lo bastante bajo, y "
            "hay puntuaciones más bajas todavía. Usa −∞, que está por debajo de todas.",
        ),
        KnownMistake(
            "booleana sumada",
            _boolean_added,
            "Sumas la máscara booleana a las puntuaciones: lo permitido gana 1 y lo prohibido se queda como estaba. "
            "Sustituye por −∞ las puntuaciones prohibidas.",
        ),
        KnownMistake(
            "más infinito",
            lambda query, key, value, mask=None: _both(_softmax(_fill(_scores(query, key), mask, float("inf"))), value),
            "Salen NaN en cuanto hay máscara: o has puesto +∞ en lo prohibido, o multiplicas la máscara por −∞, y cero "
            "por infinito no es un número. Escribe −∞ en esas puntuaciones con `masked_fill` o `torch.where`.",
        ),
        KnownMistake(
            "sin el signo menos",
            lambda query, key, value, mask=None: _both(_softmax(_fill(_scores(query, key), mask, 1e9)), value),
            "Las claves prohibidas se llevan todo el peso, a partes iguales: el número grande que les pones es "
            "positivo. Tiene que ser muy negativo, o −∞.",
        ),
        KnownMistake(
            "máscara ignorada",
            lambda query, key, value, mask=None: _attend(query, key, value),
            "La máscara no cambia nada: o no la usas, o no guardas lo que devuelve `masked_fill`, que no modifica el "
            "tensor. Antes de la softmax, pon −∞ donde sea False.",
        ),
        KnownMistake(
            "máscara solo en la salida",
            _masked_values,
            "La salida tiene en cuenta la máscara y los pesos que devuelves no. Enmascara las puntuaciones una vez, y "
            "saldrán bien los dos.",
        ),
        KnownMistake(
            "la primera fila para todas",
            _first_row_for_all,
            "Aplicas a todas las consultas la primera fila de la máscara. Cada consulta tiene la suya: usa la máscara "
            "entera.",
        ),
        KnownMistake(
            "sin máscara no funciona",
            _mask_always_there,
            "Cuando no hay máscara tu función falla: la usas sin mirar si ha llegado. Comprueba antes que no es None.",
            error="NoneType|must be Tensor, not bool|masked_fill",
        ),
        KnownMistake(
            "if mask",
            _mask_as_condition,
            "Preguntas «if mask», y un tensor con varios valores no es ni verdadero ni falso. Pregunta si la máscara "
            "«is not None».",
            error="ambiguous",
        ),
        KnownMistake(
            "índice booleano sin difusión",
            _indexed_without_broadcasting,
            "Con lote tu función falla: los corchetes exigen una máscara de la misma forma que las puntuaciones. "
            "`masked_fill` y `torch.where` la extienden solas al lote y a las cabezas.",
            error="shape of the mask",
        ),
        KnownMistake(
            "índice booleano al final",
            _indexed_at_the_end,
            "Con una máscara (n_q, n_k) va bien, y con una (lote, 1, 1, n_k) falla: los corchetes la encajan en las "
            "últimas dimensiones. Usa `masked_fill` o `torch.where`, que la extienden donde vale 1.",
            error="too many indices|shape of the mask",
        ),
        KnownMistake(
            "máscara de cuatro dimensiones",
            _four_dimensional_mask,
            "Exiges una máscara de cuatro dimensiones, y una (n_q, n_k) también vale. No la desmontes: torch la "
            "extiende solo hasta la forma de las puntuaciones.",
            error="values to unpack",
        ),
        KnownMistake(
            "lote obligatorio",
            _four_dimensional_query,
            "Sin lote tu función falla: repartes la forma de `query` en cuatro nombres. Solo te hace falta la última "
            "dimensión; léela con -1.",
            error="values to unpack",
        ),
        KnownMistake(
            "solo la salida",
            lambda query, key, value, mask=None: _attend(query, key, value, mask)[0],
            "Devuelves solo la salida. Se piden dos cosas, en este orden: la salida y los pesos.",
        ),
        KnownMistake(
            "solo los pesos",
            lambda query, key, value, mask=None: _attend(query, key, value, mask)[1],
            "Devuelves solo los pesos. Se piden dos cosas: la salida (los pesos por los valores) y después los pesos.",
        ),
        KnownMistake(
            "orden cambiado",
            lambda query, key, value, mask=None: _attend(query, key, value, mask)[::-1],
            "Las dos cosas están bien calculadas, pero en el orden contrario. Primero la salida y después los pesos.",
        ),
        KnownMistake(
            "sin escala",
            lambda query, key, value, mask=None: _both(_softmax(_fill(query @ key.mT, mask)), value),
            "Los pesos están más concentrados de lo que deben: falta la escala. Divide las puntuaciones entre la raíz "
            "de la anchura de `query`.",
        ),
        KnownMistake(
            "entre d",
            lambda query, key, value, mask=None: _both(_softmax(_fill(query @ key.mT / query.shape[-1], mask)), value),
            "Los pesos están demasiado igualados: la escala es d y no su raíz. Divide entre √d.",
        ),
        KnownMistake(
            "por √d",
            lambda query, key, value, mask=None: _both(
                _softmax(_fill(query @ key.mT * query.shape[-1] ** 0.5, mask)), value
            ),
            "Una clave se lleva casi todo el peso: la escala multiplica. Cámbiala por una división.",
        ),
        KnownMistake(
            "anchura de los valores",
            lambda query, key, value, mask=None: _both(
                _softmax(_fill(query @ key.mT / value.shape[-1] ** 0.5, mask)), value
            ),
            "La escala usa la anchura de `value`, que aquí es otra. La que cuenta es la de `query` y `key`: de ahí "
            "salen los sumandos.",
        ),
        KnownMistake(
            "escala en la salida",
            _scaled_output,
            "La escala está aplicada a la salida. Aplícala a las puntuaciones, antes de la softmax: en otro sitio no "
            "hace lo mismo.",
        ),
        KnownMistake(
            "softmax sobre las consultas",
            lambda query, key, value, mask=None: _both(_fill(_scores(query, key), mask).softmax(-2), value),
            "Las filas de los pesos no suman 1; las columnas, sí: la softmax recorre las consultas. Haz que recorra "
            "las claves, la última dimensión.",
        ),
        KnownMistake(
            "softmax en la dimensión 1",
            lambda query, key, value, mask=None: _both(_fill(_scores(query, key), mask).softmax(1), value),
            "Sin lote todo va bien, y con lote la softmax recorre las cabezas: la fijaste en la dimensión 1. Aplícala "
            "a la última, la de las claves.",
        ),
        KnownMistake(
            "d ** 1 / 2",
            lambda query, key, value, mask=None: _both(
                _softmax(_fill(query @ key.mT / (query.shape[-1] / 2), mask)), value
            ),
            "La escala es d/2: `d ** 1 / 2` eleva primero y divide después. Pon el exponente entre paréntesis, o usa "
            "`math.sqrt`.",
        ),
        KnownMistake(
            "pesos sin enmascarar",
            lambda query, key, value, mask=None: (
                _attend(query, key, value, mask)[0],
                _attend(query, key, value)[1],
            ),
            "La salida está bien, pero los pesos que devuelves son los de antes de la máscara. Devuelve los mismos con "
            "los que has mezclado los valores.",
        ),
        KnownMistake(
            "puntuaciones en lugar de pesos",
            lambda query, key, value, mask=None: (
                _attend(query, key, value, mask)[0],
                _fill(_scores(query, key), mask),
            ),
            "La salida está bien, pero lo segundo que devuelves son las puntuaciones. Devuelve lo que sale de la "
            "softmax.",
        ),
    ),
)

# 2.4 · Máscara de relleno -----------------------------------------------------------------------------------------


@out_of_reach
def padding_mask(lengths, n):
    """True en (frase, 0, 0, j) si j < longitud de la frase: enmascara claves de relleno, a la derecha."""
    return (torch.arange(n) < torch.as_tensor(lengths)[:, None])[:, None, None, :]


def _lengths(generator, batch, longest):
    """Longitudes barajadas, entre 1 y la mayor, que aparece."""
    lengths = torch.randint(1, longest + 1, (batch,), generator=generator)
    lengths[:2] = torch.tensor([longest, 1])
    return lengths[torch.randperm(batch, generator=generator)]


def _real(lengths, n):
    return torch.arange(n) < torch.as_tensor(lengths)[:, None]


def _as_keys(mask):
    return mask[:, None, None, :]


def _queries_too(lengths, n):
    mask = _real(lengths, n)
    return (mask[:, :, None] & mask[:, None, :])[:, None]


PADDING = Check(
    id="2.4",
    reference=padding_mask,
    cases=(
        Case(
            "longitudes en un tensor de int32",
            lambda generator: Call((_lengths(generator, 4, 7).to(torch.int32), 7)),
        ),
        Case("longitudes en una lista", lambda generator: Call((_lengths(generator, 6, 5).tolist(), 5))),
        Case("relleno en todas las frases", lambda generator: Call((_lengths(generator, 5, 6), 9))),
    ),
    mistakes=(
        KnownMistake(
            "polaridad al revés",
            lambda lengths, n: ~_as_keys(_real(lengths, n)),
            "La máscara marca el relleno con True. Aquí True es «se puede atender»: los tokens de verdad van a True y "
            "el relleno a False.",
        ),
        KnownMistake(
            "máscara de consultas",
            lambda lengths, n: _real(lengths, n)[:, None, :, None],
            "La máscara apaga filas (consultas de relleno) y deja que todas atiendan al relleno. Se apagan las claves: "
            "la longitud n va en la última dimensión.",
        ),
        KnownMistake(
            "consultas y claves",
            _queries_too,
            "Apagas las claves de relleno y también las consultas: sus filas se quedan sin ninguna clave y la softmax "
            "dará NaN. Apaga solo las claves.",
        ),
        KnownMistake(
            "repetida por consultas",
            lambda lengths, n: _as_keys(_real(lengths, n)).expand(-1, -1, n, -1),
            "El contenido está bien, pero repites la misma fila para cada consulta. Deja un 1 en esa dimensión: torch "
            "la extiende cuando haga falta.",
        ),
        KnownMistake(
            "forma (lote, n)",
            _real,
            "El contenido está bien, pero faltan las dimensiones de las cabezas y las consultas. Inserta dos "
            "dimensiones de tamaño 1 entre el lote y las claves.",
        ),
        KnownMistake(
            "forma (lote, 1, n)",
            lambda lengths, n: _real(lengths, n)[:, None],
            "El contenido está bien, pero solo hay una dimensión de tamaño 1 en medio. Hacen falta dos: una por las "
            "cabezas y otra por las consultas.",
        ),
        KnownMistake(
            "forma (1, 1, lote, n)",
            lambda lengths, n: _real(lengths, n)[None, None],
            "Las dimensiones de tamaño 1 están delante, y el lote ocupa el sitio de las consultas. El lote va primero "
            "y los unos en medio.",
        ),
        KnownMistake(
            "forma (lote, n, 1, 1)",
            lambda lengths, n: _real(lengths, n)[:, :, None, None],
            "Los unos están al final, y la longitud n ocupa el sitio de las cabezas. Las claves van en la última "
            "dimensión: mete los unos entre el lote y ellas.",
        ),
        KnownMistake(
            "uno de más",
            lambda lengths, n: _as_keys(torch.arange(n) <= torch.as_tensor(lengths)[:, None]),
            "En cada frase se cuela un token de relleno. Las posiciones empiezan en 0: una frase de longitud L ocupa "
            "las posiciones menores que L.",
        ),
        KnownMistake(
            "uno de menos",
            lambda lengths, n: _as_keys(torch.arange(n) < torch.as_tensor(lengths)[:, None] - 1),
            "A cada frase le falta su último token. No restes 1 a la longitud: la comparación estricta ya lo tiene en "
            "cuenta.",
        ),
        KnownMistake(
            "relleno a la izquierda",
            lambda lengths, n: _as_keys(_real(lengths, n).flip(-1)),
            "El relleno está a la izquierda. En este ejercicio las frases empiezan en la posición 0 y el relleno va "
            "detrás.",
        ),
        KnownMistake(
            "números en vez de booleanos",
            lambda lengths, n: _as_keys(_real(lengths, n)).float(),
            "La máscara lleva unos y ceros. Devuelve booleanos: basta con no convertir el resultado de la comparación.",
        ),
        KnownMistake(
            "máscara aditiva",
            lambda lengths, n: torch.zeros(len(lengths), 1, 1, n).masked_fill(
                ~_as_keys(_real(lengths, n)), float("-inf")
            ),
            "Es una máscara aditiva, con −∞ en el relleno. Se pide la booleana: el −∞ lo pondrá quien la use.",
        ),
        KnownMistake(
            "una posición por frase",
            lambda lengths, n: _as_keys(torch.arange(n) == torch.as_tensor(lengths)[:, None] - 1),
            "Solo queda visible el último token de cada frase. Deja visibles también todos los que van delante: "
            "compara con «<», no con «==».",
        ),
        KnownMistake(
            "no admite listas",
            lambda lengths, n: _as_keys(torch.arange(n) < lengths[:, None]),
            "Con un tensor va bien, y con una lista de Python falla. Convierte `lengths` en tensor al empezar, venga "
            "como venga.",
            error="'list'|list indices|must be Tensor, not list",
        ),
        KnownMistake(
            "no admite otros enteros",
            lambda lengths, n: _as_keys(torch.arange(n) < torch.LongTensor(lengths)[:, None]),
            "`torch.LongTensor` no acepta un tensor de enteros de otra anchura. Usa `torch.as_tensor`, que admite "
            "listas y tensores de cualquier tipo.",
            error="TensorOptions|expected Long",
        ),
        KnownMistake(
            "anchura de la frase más larga",
            lambda lengths, n: _as_keys(_real(lengths, int(max(lengths)))),
            "La máscara mide lo que la frase más larga, y n puede ser mayor. Construye siempre n columnas.",
        ),
    ),
)

# 2.5 · Atención cruzada -------------------------------------------------------------------------------------------


@out_of_reach
def cross_attention(x_decoder, x_encoder, w_q, w_k, w_v):
    """softmax(QKᵀ/√d)·V, con Q del decodificador y K, V del codificador. Vaswani et al. (2017), §3.2.3."""
    query, key, value = x_decoder @ w_q, x_encoder @ w_k, x_encoder @ w_v
    return torch.softmax(query @ key.mT / query.shape[-1] ** 0.5, dim=-1) @ value


def _matrices(generator, d_model, d):
    return tuple(_normal(generator, d_model, d) / d_model**0.5 for _ in range(3))


def _narrow(generator):
    return Call((_normal(generator, 5, 10), _normal(generator, 7, 10), *_matrices(generator, 10, 6)))


def _square(generator):
    return Call((_normal(generator, 2, 3, 6, 9), _normal(generator, 2, 3, 4, 9), *_matrices(generator, 9, 9)))


def _mix(query, key, value):
    return _softmax(_scores(query, key)) @ value


def _scaled_by_model(x_decoder, x_encoder, w_q, w_k, w_v):
    scores = (x_decoder @ w_q) @ (x_encoder @ w_k).mT
    return _softmax(scores / x_decoder.shape[-1] ** 0.5) @ (x_encoder @ w_v)


def _causal(x_decoder, x_encoder, w_q, w_k, w_v):
    scores = _scores(x_decoder @ w_q, x_encoder @ w_k)
    return _softmax(scores.masked_fill(~torch.ones_like(scores, dtype=torch.bool).tril(), float("-inf"))) @ (
        x_encoder @ w_v
    )


def _only_weights(x_decoder, x_encoder, w_q, w_k, w_v):
    return _softmax(_scores(x_decoder @ w_q, x_encoder @ w_k))


def _two_results(x_decoder, x_encoder, w_q, w_k, w_v):
    weights = _only_weights(x_decoder, x_encoder, w_q, w_k, w_v)
    return weights @ (x_encoder @ w_v), weights


CROSS = Check(
    id="2.5",
    reference=cross_attention,
    cases=(
        Case("sin lote, con matrices rectangulares", _narrow),
        Case("con lote, con matrices cuadradas", _square),
    ),
    mistakes=(
        KnownMistake(
            "codificador y decodificador cambiados",
            lambda x_decoder, x_encoder, w_q, w_k, w_v: _mix(x_encoder @ w_q, x_decoder @ w_k, x_decoder @ w_v),
            "Sale un vector por token del codificador: las consultas vienen del lado equivocado. Pregunta el "
            "decodificador; claves y valores son del codificador.",
        ),
        KnownMistake(
            "valores del decodificador",
            lambda x_decoder, x_encoder, w_q, w_k, w_v: _mix(x_decoder @ w_q, x_encoder @ w_k, x_decoder @ w_v),
            "Los valores salen del decodificador, y hay un peso por token del codificador: no encajan. Lo que se "
            "recoge es del codificador, como las claves.",
        ),
        KnownMistake(
            "claves del decodificador",
            lambda x_decoder, x_encoder, w_q, w_k, w_v: _mix(x_decoder @ w_q, x_decoder @ w_k, x_encoder @ w_v),
            "Las claves salen del decodificador, y los pesos no encajan con los valores. Claves y valores van juntos, "
            "los dos del codificador.",
        ),
        KnownMistake(
            "todo del decodificador",
            lambda x_decoder, x_encoder, w_q, w_k, w_v: _mix(x_decoder @ w_q, x_decoder @ w_k, x_decoder @ w_v),
            "La salida no depende del codificador: es la autoatención del decodificador. Calcula claves y valores con "
            "`x_encoder`.",
        ),
        KnownMistake(
            "todo del codificador",
            lambda x_decoder, x_encoder, w_q, w_k, w_v: _mix(x_encoder @ w_q, x_encoder @ w_k, x_encoder @ w_v),
            "La salida no depende del decodificador: es la autoatención del codificador. Las consultas salen de "
            "`x_decoder`.",
        ),
        KnownMistake(
            "matrices traspuestas",
            lambda x_decoder, x_encoder, w_q, w_k, w_v: _mix(
                x_decoder @ w_q.mT, x_encoder @ w_k.mT, x_encoder @ w_v.mT
            ),
            "Usas las matrices traspuestas, como las guarda `nn.Linear`. Aquí se multiplica x @ w, tal como llegan.",
        ),
        KnownMistake(
            "w_q y w_k cambiadas",
            lambda x_decoder, x_encoder, w_q, w_k, w_v: _mix(x_decoder @ w_k, x_encoder @ w_q, x_encoder @ w_v),
            "Las matrices de consultas y claves están cambiadas entre sí. `w_q` va con el decodificador y `w_k` con el "
            "codificador.",
        ),
        KnownMistake(
            "w_k y w_v cambiadas",
            lambda x_decoder, x_encoder, w_q, w_k, w_v: _mix(x_decoder @ w_q, x_encoder @ w_v, x_encoder @ w_k),
            "Las matrices de claves y valores están cambiadas entre sí. Las claves deciden los pesos (`w_k`); los "
            "valores son lo que se mezcla (`w_v`).",
        ),
        KnownMistake(
            "la misma matriz para consultas y claves",
            lambda x_decoder, x_encoder, w_q, w_k, w_v: _mix(x_decoder @ w_q, x_encoder @ w_q, x_encoder @ w_v),
            "Proyectas las claves con `w_q`, y `w_k` no se usa. Cada cosa tiene su matriz.",
        ),
        KnownMistake(
            "w_q también para los valores",
            lambda x_decoder, x_encoder, w_q, w_k, w_v: _mix(x_decoder @ w_q, x_encoder @ w_k, x_encoder @ w_q),
            "Los valores están proyectados con `w_q`. Proyéctalos con `w_v`, que es la suya.",
        ),
        KnownMistake(
            "claves como valores",
            lambda x_decoder, x_encoder, w_q, w_k, w_v: _mix(x_decoder @ w_q, x_encoder @ w_k, x_encoder @ w_k),
            "Mezclas las claves y `w_v` no se usa. Proyecta el codificador otra vez, con `w_v`, y mezcla eso.",
        ),
        KnownMistake(
            "valores sin proyectar",
            lambda x_decoder, x_encoder, w_q, w_k, w_v: _mix(x_decoder @ w_q, x_encoder @ w_k, x_encoder),
            "Mezclas los vectores del codificador sin proyectar. Antes hay que multiplicarlos por `w_v`.",
        ),
        KnownMistake(
            "sin ninguna proyección",
            lambda x_decoder, x_encoder, w_q, w_k, w_v: _mix(x_decoder, x_encoder, x_encoder),
            "Comparas y mezclas los vectores tal como llegan. Proyéctalos antes: consultas, claves y valores tienen "
            "cada uno su matriz.",
        ),
        KnownMistake(
            "sin escala",
            lambda x_decoder, x_encoder, w_q, w_k, w_v: (
                _softmax((x_decoder @ w_q) @ (x_encoder @ w_k).mT) @ (x_encoder @ w_v)
            ),
            "Todo viene del lado correcto, pero las puntuaciones no están escaladas. Divídelas entre √d, con d la "
            "anchura de las consultas ya proyectadas.",
        ),
        KnownMistake(
            "escala con d_model",
            _scaled_by_model,
            "Divides entre la raíz de la anchura de la entrada. Se usa la de las consultas ya proyectadas, que es la "
            "que tiene el producto escalar.",
        ),
        KnownMistake(
            "entre d",
            lambda x_decoder, x_encoder, w_q, w_k, w_v: (
                _softmax((x_decoder @ w_q) @ (x_encoder @ w_k).mT / w_q.shape[-1]) @ (x_encoder @ w_v)
            ),
            "Todo viene del lado correcto, pero la escala es d. Divide entre su raíz.",
        ),
        KnownMistake(
            "d ** 1 / 2",
            lambda x_decoder, x_encoder, w_q, w_k, w_v: (
                _softmax((x_decoder @ w_q) @ (x_encoder @ w_k).mT / (w_q.shape[-1] / 2)) @ (x_encoder @ w_v)
            ),
            "Divides entre d/2: `d ** 1 / 2` es d elevado a 1, partido por 2. Encierra el exponente entre paréntesis.",
        ),
        KnownMistake(
            "por √d",
            lambda x_decoder, x_encoder, w_q, w_k, w_v: (
                _softmax((x_decoder @ w_q) @ (x_encoder @ w_k).mT * w_q.shape[-1] ** 0.5) @ (x_encoder @ w_v)
            ),
            "Casi todo el peso cae en un solo token del codificador: multiplicas por √d. La escala divide.",
        ),
        KnownMistake(
            "escala en la salida",
            lambda x_decoder, x_encoder, w_q, w_k, w_v: (
                _softmax((x_decoder @ w_q) @ (x_encoder @ w_k).mT) @ (x_encoder @ w_v) / w_q.shape[-1] ** 0.5
            ),
            "La división entre √d llega al final, cuando los pesos ya están hechos. Hazla antes de la softmax, sobre "
            "las puntuaciones.",
        ),
        KnownMistake(
            "con la suma residual",
            lambda x_decoder, x_encoder, w_q, w_k, w_v: (
                (x_decoder if w_q.shape[0] == w_q.shape[1] else 0)
                + _mix(x_decoder @ w_q, x_encoder @ w_k, x_encoder @ w_v)
            ),
            "A la salida le has sumado `x_decoder`, como hace la capa que rodea a la atención. Aquí se pide solo la "
            "atención.",
        ),
        KnownMistake(
            "softmax sobre las consultas",
            lambda x_decoder, x_encoder, w_q, w_k, w_v: (
                _scores(x_decoder @ w_q, x_encoder @ w_k).softmax(-2) @ (x_encoder @ w_v)
            ),
            "La softmax reparte cada token del codificador entre los del decodificador. Es al revés: cada token del "
            "decodificador reparte su peso entre los del codificador.",
        ),
        KnownMistake(
            "sin softmax",
            lambda x_decoder, x_encoder, w_q, w_k, w_v: _scores(x_decoder @ w_q, x_encoder @ w_k) @ (x_encoder @ w_v),
            "Mezclas los valores con las puntuaciones en bruto. Pásalas antes por la softmax.",
        ),
        KnownMistake(
            "máscara causal",
            _causal,
            "Has puesto una máscara causal. La frase de origen se conoce entera antes de empezar: aquí no hay futuro "
            "que tapar.",
        ),
        KnownMistake(
            "solo los pesos",
            _only_weights,
            "Devuelves los pesos. Falta mezclar con ellos los valores del codificador.",
        ),
        KnownMistake(
            "dos resultados",
            _two_results,
            "Devuelves la salida y los pesos. Aquí se pide solo la salida.",
        ),
        KnownMistake(
            ".T",
            lambda x_decoder, x_encoder, w_q, w_k, w_v: (
                _softmax(
                    (x_decoder @ w_q)
                    @ (x_encoder @ w_k).permute(*range(x_encoder.dim() - 1, -1, -1))
                    / w_q.shape[-1] ** 0.5
                )
                @ (x_encoder @ w_v)
            ),
            "Sin lote va bien, y con lote falla: `.T` invierte el orden de todas las dimensiones. `.mT` cambia solo "
            "las dos últimas.",
        ),
        KnownMistake(
            "sin lote",
            lambda x_decoder, x_encoder, w_q, w_k, w_v: (
                _softmax((x_decoder @ w_q) @ (x_encoder @ w_k).t() / w_q.shape[-1] ** 0.5) @ (x_encoder @ w_v)
            ),
            "Sin lote va bien, y con lote falla: esa trasposición es solo para matrices. Intercambia las dos últimas "
            "dimensiones.",
        ),
    ),
)

CHECKS = (WEIGHTS, CAUSAL, SDPA, PADDING, CROSS)
