"""Comprobaciones del capítulo 06: la regla de la inducción, su índice, apagar cabezas, el índice de recuperación y una
cabeza de token anterior hecha a mano.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from .compare import difference
from .framework import Call, Case, Check, KnownMistake, out_of_reach


def _one_of(generator, options):
    return options[int(torch.randint(len(options), (), generator=generator))]


def _sample(generator, options, size):
    return [options[i] for i in torch.randperm(len(options), generator=generator)[:size].tolist()]


# 6.1 · La regla de la inducción -----------------------------------------------------------------------------------

WORDS = ("gato", "perro", "sol", "luna", "mar", "pan", "tren", "flor", "casa", "nube", "río", "voz")


@out_of_reach
def induction_prediction(tokens):
    """Lo que siguió a la última aparición anterior del último token; None si no la hay. Elhage et al. (2021)."""
    earlier = [i for i in range(len(tokens) - 1) if tokens[i] == tokens[-1]]
    return tokens[earlier[-1] + 1] if earlier else None


def _sequence(vocabulary, places, n):
    """Un caso: el último token sale también en `places`, con un token distinto detrás de cada una; lo demás no lo es.

    Lo que va justo delante de esas apariciones es distinto de lo que va detrás, y el token que no se repite, otro.
    """

    def make(generator):
        asked, *others = _sample(generator, vocabulary, len(vocabulary))
        tokens = [others[i % len(others)] for i in range(n)]
        for place in (*places, n - 1):
            tokens[place] = asked
        for place in places[1:-1]:  # lo que más veces siguió no es lo que siguió la última vez
            tokens[place + 1] = others[-1]
        return Call((tokens,))

    return make


def _found(tokens, places, shift=1, default=None):
    return tokens[places[-1] + shift] if places else default


def _before(tokens):
    return [i for i in range(len(tokens) - 1) if tokens[i] == tokens[-1]]


def _first_occurrence(tokens):
    return _found(tokens, _before(tokens)[:1])


def _counts_itself(tokens):
    place = max(i for i, token in enumerate(tokens) if token == tokens[-1])
    return tokens[place + 1]


def _circular(tokens):
    place = max(i for i, token in enumerate(tokens) if token == tokens[-1])
    return tokens[(place + 1) % len(tokens)]


def _not_adjacent(tokens):
    return _found(tokens, [i for i in _before(tokens) if i < len(tokens) - 2])


def _index_of_first(tokens):
    return tokens[tokens.index(tokens[-1]) + 1]


def _most_common_follower(tokens):
    followers = [tokens[i + 1] for i in _before(tokens)]
    return max(followers[::-1], key=followers.count) if followers else None


def _zero_is_nothing(tokens):
    return induction_prediction.__wrapped__(tokens) or None


PREDICTION_MISTAKES = (
    KnownMistake(
        "primera aparición",
        _first_occurrence,
        "Usas la primera aparición del token. Si hay varias anteriores, vale la última: recorre la lista desde el "
        "final.",
    ),
    KnownMistake(
        "index",
        _index_of_first,
        "Te quedas con la primera aparición (es la que da `index`), y puede ser la del propio final. Busca la última "
        "entre las anteriores: recorre desde el final hacia atrás, sin contar el último token.",
        error="^IndexError",
    ),
    KnownMistake(
        "se encuentra a sí mismo",
        _counts_itself,
        "Encuentras el último token consigo mismo, y detrás no hay nada: el índice se sale. Busca solo entre los "
        "anteriores.",
        error="^IndexError",
    ),
    KnownMistake(
        "primero si no hay",
        lambda tokens: _found(tokens, _before(tokens), default=tokens[0]),
        "Cuando el token no había salido, devuelves el primero de la lista. No hay nada que copiar: devuelve None.",
    ),
    KnownMistake(
        "cero si no hay",
        lambda tokens: _found(tokens, _before(tokens), default=0),
        "Cuando el token no había salido, devuelves un cero, que también es un token. Para decir que no hay, None.",
    ),
    KnownMistake(
        "no mira el primero",
        lambda tokens: _found(tokens, [i for i in _before(tokens) if i]),
        "Te dejas la posición 0, y el token puede haber salido ahí. El final de un `range` no se incluye: hacia atrás, "
        "acaba en −1.",
    ),
    KnownMistake(
        "solo mira un token",
        lambda tokens: tokens[-1] if tokens[-2] == tokens[-1] else None,
        "Solo comparas con el penúltimo y te rindes: el `return None` está dentro del bucle. Recórrelo entero, y "
        "devuelve None cuando haya acabado.",
    ),
    KnownMistake(
        "da la vuelta",
        _circular,
        "Encuentras el último token consigo mismo, y su siguiente da la vuelta hasta el primero. La búsqueda se queda "
        "en los anteriores.",
    ),
    KnownMistake(
        "el propio token",
        lambda tokens: _found(tokens, _before(tokens), 0),
        "Devuelves el mismo token que preguntas: es lo que haría una cabeza de token duplicado. Falta un paso: el que "
        "lo *siguió*.",
    ),
    KnownMistake(
        "el de delante",
        lambda tokens: _found(tokens, [i for i in _before(tokens) if i], -1),
        "Devuelves lo que iba delante de la aparición anterior. Se pide lo que vino detrás.",
    ),
    KnownMistake(
        "dos más allá",
        lambda tokens: _found(tokens, [i for i in _before(tokens) if i + 2 < len(tokens)], 2),
        "Te pasas de largo: devuelves lo que vino dos puestos después. Se pide el siguiente.",
    ),
    KnownMistake(
        "no mira al vecino",
        _not_adjacent,
        "Dejas fuera el penúltimo token, y también es anterior: si se repite dos veces seguidas, lo que siguió es él "
        "mismo. El rango llega hasta ahí.",
    ),
    KnownMistake(
        "la posición",
        lambda tokens: _before(tokens)[-1] + 1 if _before(tokens) else None,
        "Devuelves una posición. Se pide el token que hay en ella.",
    ),
    KnownMistake(
        "lo que más veces siguió",
        _most_common_follower,
        "Devuelves lo que más veces vino detrás. La regla no cuenta: mira solo la última aparición anterior.",
    ),
    KnownMistake(
        "último si no hay",
        lambda tokens: _found(tokens, _before(tokens), default=tokens[-1]),
        "Cuando el token no había salido, devuelves el propio token. No hay nada que copiar: devuelve None.",
    ),
    KnownMistake(
        "menos uno si no hay",
        lambda tokens: _found(tokens, _before(tokens), default=-1),
        "Cuando el token no había salido, devuelves un menos uno, que podría ser un token. Para decir que no hay, "
        "None.",
    ),
    KnownMistake(
        "texto vacío si no hay",
        lambda tokens: _found(tokens, _before(tokens), default=""),
        "Cuando el token no había salido, devuelves un texto vacío. Se pide None: así no se confunde con un token.",
    ),
    KnownMistake(
        "error si no hay",
        lambda tokens: tokens[_before(tokens)[-1] + 1],
        "Cuando el token no había salido, tu función falla con un índice: no has previsto ese caso. Devuelve None.",
        error="^(IndexError|ValueError)",
    ),
    KnownMistake(
        "cero es nada",
        _zero_is_nothing,
        "Cuando lo que siguió es el token 0, devuelves None: en Python, 0 cuenta como falso. Compara con `is None` en "
        "vez de fiarte de `if` u `or`.",
    ),
    KnownMistake(
        "lista",
        lambda tokens: [tokens[i + 1] for i in _before(tokens)][-1:],
        "Devuelves una lista con el token dentro. Se pide el token, suelto.",
    ),
    KnownMistake(
        "todos los que siguieron",
        lambda tokens: [tokens[i + 1] for i in _before(tokens)],
        "Devuelves todo lo que siguió a las apariciones anteriores. Se pide solo lo de la última.",
    ),
    KnownMistake(
        "probabilidades",
        lambda tokens: {tokens[i + 1]: 1 / len(_before(tokens)) for i in _before(tokens)},
        "Devuelves un diccionario con lo que siguió cada vez. La regla da un solo token: el de la última aparición.",
    ),
    KnownMistake(
        "siempre None",
        lambda tokens: None,
        "Devuelves None también cuando el token sí había salido: falta un `return`, o te quedas con la aparición del "
        "final, que no tiene nada detrás. Busca entre las anteriores.",
    ),
)


def _zero_follows(generator):
    """El token 0 detrás de la última aparición, y otro detrás de la primera."""
    asked, *others = _sample(generator, range(1, 9), 8)
    return Call(([others[0], asked, others[1], others[2], asked, 0, others[3], asked],))


def _twice_in_a_row(generator):
    asked, *others = _sample(generator, WORDS, len(WORDS))
    return Call(([others[0], asked, others[1], others[2], others[3], asked, asked],))


PREDICTION = Check(
    id="6.1",
    reference=induction_prediction,
    cases=(
        Case("palabras, con varias apariciones anteriores", _sequence(WORDS, (1, 3, 5, 8), 11)),
        Case("números, y el que siguió es el 0", _zero_follows),
        Case("el último token, dos veces seguidas", _twice_in_a_row),
        Case("un token que no había salido", _sequence(range(3, 12), (), 6)),
        Case("la única aparición anterior, en la posición 0", _sequence(WORDS, (0,), 9)),
    ),
    mistakes=PREDICTION_MISTAKES,
)

# 6.2 · Índice de inducción ----------------------------------------------------------------------------------------


@out_of_reach
def prefix_matching_score(weights, period):
    """Media, para i de period a n − 1, del peso de i a i − period + 1. Olsson et al. (2022)."""
    n = weights.shape[-1]
    return torch.stack([weights[:, i, i - period + 1] for i in range(period, n)]).mean(0)


def _repeated_maps(num_heads, n, period):
    """Pesos causales; cada cabeza favorece, en distinta medida, las claves con que se confunde la debida."""

    def make(generator):
        scores = torch.randn(num_heads, n, n, generator=generator)
        for offset in (1 - period, -period, -1, 2 - period, 1 - 2 * period):
            if -offset < n:
                length = n - abs(offset)
                taste = 3 * torch.rand(num_heads, 1, generator=generator)
                noise = torch.rand(num_heads, length, generator=generator)
                scores.diagonal(offset, -2, -1).add_(taste * noise)
        scores[-1].diagonal(1 - period).add_(4)  # y una cabeza, mucho: dividir mal también se nota
        for head, query in enumerate((period, n - 1, period - 1)):  # contar una consulta de más o de menos se nota
            scores[head, query, query - period + 1] += 6
        scores = scores.masked_fill(torch.ones(n, n, dtype=torch.bool).triu(1), float("-inf"))
        return Call((torch.softmax(scores, dim=-1), period))

    return make


def _diagonal(weights, offset, first=0):
    """Lo que ponen en i + offset las consultas desde `first`, (h, consultas)."""
    n = weights.shape[-1]
    places = [i for i in range(max(first, 0), n) if 0 <= i + offset < n]
    return torch.stack([weights[:, i, i + offset] for i in places], dim=-1)


@dataclass(frozen=True)
class _Index:
    """Una diagonal desde una consulta, y lo que se haga con ella. Un error conocido cambia una de las cosas."""

    offset: Callable = lambda n, period: 1 - period
    first: Callable = lambda n, period: period
    reduce: Callable = lambda found, n, period: found.mean(-1)

    def __call__(self, weights, period):
        n = weights.shape[-1]
        return self.reduce(_diagonal(weights, self.offset(n, period), self.first(n, period)), n, period)


def _all_copies(weights, period):
    n = weights.shape[-1]
    found = [weights[:, i, [i - k * period + 1 for k in range(1, i // period + 1)]].sum(-1) for i in range(period, n)]
    return torch.stack(found).mean(0)


def _share_of_argmax(weights, period):
    n = weights.shape[-1]
    strongest = weights.argmax(-1)
    return torch.stack([strongest[:, i] == i - period + 1 for i in range(period, n)]).float().mean(0)


def _only_second_round(weights, period):
    return _diagonal(weights, 1 - period, period)[:, :period].mean(-1)


def _is_the_one_before(value, weights, period):
    """¿Mide lo que iba delante de la aparición anterior? La consulta `period` no lo tiene: se aparta o da la vuelta."""
    n, before = weights.shape[-1], -period - 1
    apart = _diagonal(weights, before, period + 1).mean(-1)
    around = torch.stack([weights[:, i, i + before] for i in range(period, n)]).mean(0)
    return any(difference(value, answer, like_mistake=True) is None for answer in (apart, around))


def _first_round(weights, period):
    n = weights.shape[-1]
    return torch.stack([weights[:, i, i % period + 1] for i in range(period, n)]).mean(0)


INDEX_MISTAKES = (
    KnownMistake(
        "token duplicado",
        _Index(offset=lambda n, period: -period),
        "Mides el peso que va a la aparición anterior del mismo token: es el índice de token duplicado. La de "
        "inducción mira al que la *siguió*, un puesto más acá.",
    ),
    KnownMistake(
        "dos más acá",
        _Index(offset=lambda n, period: 2 - period),
        "Te pasas: mides el peso que va dos puestos detrás de la aparición anterior. Es el de justo detrás.",
    ),
    KnownMistake(
        "uno de menos",
        _Index(offset=lambda n, period: -period - 1, first=lambda n, period: period + 1),
        "Mides el peso que va a lo que iba *delante* de la aparición anterior: el signo del 1 está cambiado. Es i − "
        "period + 1.",
        seen=_is_the_one_before,
    ),
    KnownMistake(
        "la primera vuelta",
        _first_round,
        "Comparas siempre con la primera vuelta, y cuando hay más de dos queda lejos. Cuenta la más cercana: una "
        "vuelta atrás, más uno.",
    ),
    KnownMistake(
        "token anterior",
        _Index(offset=lambda n, period: -1),
        "Mides el peso que va al token de al lado, y `period` no interviene en la clave. La clave está una vuelta "
        "atrás, más uno.",
    ),
    KnownMistake(
        "diagonal entera",
        _Index(first=lambda n, period: 0),
        "Cuentas una consulta de más: la última de la primera vuelta, que aún no tiene ninguna aparición anterior. "
        "Empieza en i = period.",
    ),
    KnownMistake(
        "sin la primera",
        _Index(first=lambda n, period: period + 1),
        "Te dejas la consulta i = period, que es la primera que repite un token. Empieza ahí.",
    ),
    KnownMistake(
        "sin la última",
        _Index(reduce=lambda found, n, period: found[:, :-1].mean(-1)),
        "Te dejas la última consulta. El rango llega hasta n − 1, incluido: en Python, `range(period, n)`.",
    ),
    KnownMistake(
        "entre n",
        _Index(reduce=lambda found, n, period: found.sum(-1) / n),
        "Divides entre todos los tokens. Los de la primera vuelta no cuentan: divide entre las consultas que sumas.",
    ),
    KnownMistake(
        "entre el periodo",
        _Index(reduce=lambda found, n, period: found.sum(-1) / period),
        "Divides entre el periodo, y eso solo vale si hay dos vueltas justas. Cuenta las consultas que sumas.",
    ),
    KnownMistake(
        "sin dividir",
        _Index(reduce=lambda found, n, period: found.sum(-1)),
        "Devuelves la suma de los pesos. Se pide la media: divide entre las consultas que cuentas.",
    ),
    KnownMistake(
        "solo la segunda vuelta",
        _only_second_round,
        "Solo mides la segunda vuelta. Puede haber más: todas las consultas desde i = period cuentan.",
    ),
    KnownMistake(
        "todas las vueltas anteriores",
        _all_copies,
        "Sumas el peso que va a todas las vueltas anteriores. Aquí cuenta solo la más cercana: una clave por consulta.",
    ),
    KnownMistake(
        "cuenta de máximos",
        _share_of_argmax,
        "Cuentas en cuántas consultas esa clave es la más atendida. Este índice mide el peso que recibe: no hace falta "
        "`argmax`.",
    ),
    KnownMistake(
        "una consulta adelantado",
        lambda weights, period: _diagonal(weights, 1 - period, 0)[:, :-1].mean(-1),
        "Vas una consulta adelantado: cuentas la última de la primera vuelta y te dejas la última de todas. Los dos "
        "extremos del rango están corridos.",
    ),
    KnownMistake(
        "todas, con índices negativos",
        lambda weights, period: torch.stack([weights[:, i, i - period + 1] for i in range(weights.shape[-1])]).mean(0),
        "Recorres también la primera vuelta, donde i − period + 1 es negativo y Python cuenta desde el final sin "
        "avisar. Empieza en i = period.",
    ),
    KnownMistake(
        "solo vueltas enteras",
        lambda weights, period: _diagonal(weights, 1 - period, period)[
            :, : weights.shape[-1] // period * period - period
        ].mean(-1),
        "Dejas fuera la última vuelta cuando está a medias. Sus consultas también cuentan: llega hasta n − 1.",
    ),
    KnownMistake(
        "una de más al dividir",
        _Index(reduce=lambda found, n, period: found.sum(-1) / (n - period + 1)),
        "Sumas las consultas debidas y divides entre una más. De period a n − 1, los dos incluidos, cuéntalas con los "
        "dedos en un caso pequeño.",
    ),
    KnownMistake(
        "una de menos al dividir",
        _Index(reduce=lambda found, n, period: found.sum(-1) / (n - period - 1)),
        "Sumas las consultas debidas y divides entre una menos: la última también cuenta. Divide entre las que sumas.",
    ),
    KnownMistake(
        "mediana",
        _Index(reduce=lambda found, n, period: found.median(-1).values),
        "Te quedas con la mediana de los pesos. Se pide la media: suma y divide entre las que sumas.",
    ),
    KnownMistake(
        "por encima de la diagonal",
        lambda weights, period: weights.diagonal(period - 1, -2, -1)[..., 1:].mean(-1),
        "La diagonal que tomas está por encima de la principal, donde una máscara causal deja ceros. Las claves van "
        "detrás: el desplazamiento es negativo.",
    ),
    KnownMistake(
        "sin promediar",
        _Index(reduce=lambda found, n, period: found),
        "Devuelves un peso por consulta. Falta la media sobre ellas: queda un número por cabeza.",
    ),
    KnownMistake(
        "media de las cabezas",
        _Index(reduce=lambda found, n, period: found.mean()),
        "Un solo número para todas las cabezas: has promediado también sobre ellas. Deja su dimensión y promedia las "
        "consultas.",
    ),
    KnownMistake(
        "la mejor",
        _Index(reduce=lambda found, n, period: found.mean(-1).amax()),
        "Das solo el índice de la cabeza que más tiene. Se pide el de cada una, en su orden.",
    ),
    KnownMistake(
        "solo la primera cabeza",
        _Index(reduce=lambda found, n, period: found.mean(-1)[0]),
        "Das solo el índice de la cabeza 0. Faltan las demás: deja su dimensión delante.",
    ),
    KnownMistake(
        "media por consulta",
        _Index(reduce=lambda found, n, period: found.mean(0)),
        "Promedias sobre las cabezas y queda un número por consulta. Es al revés: la media recorre las consultas.",
    ),
    KnownMistake(
        "máximo",
        _Index(reduce=lambda found, n, period: found.amax(-1)),
        "Te quedas con el mayor peso de la diagonal. Una sola consulta afortunada no hace una cabeza: promedia.",
    ),
    KnownMistake(
        "¿pasa de la mitad?",
        _Index(reduce=lambda found, n, period: found.mean(-1) > 0.5),
        "Dices qué cabezas pasan de un umbral. El umbral viene después: devuelve el índice.",
    ),
    KnownMistake(
        "siempre el mismo periodo",
        lambda weights, period: _Index()(weights, 5),
        "Usas siempre el periodo del ejemplo. Es un argumento: la clave depende de él.",
    ),
    KnownMistake(
        "la mitad de la secuencia",
        lambda weights, period: _Index()(weights, weights.shape[-1] // 2),
        "Supones que la secuencia son dos vueltas y tomas la mitad como periodo. Puede haber más de dos, o una última "
        "a medias: usa `period`.",
    ),
)

INDEX = Check(
    id="6.2",
    reference=prefix_matching_score,
    cases=(
        Case("tres vueltas y pico", _repeated_maps(4, 17, 5)),
        Case("dos vueltas justas", _repeated_maps(3, 14, 7)),
    ),
    mistakes=INDEX_MISTAKES,
)

# 6.3 · Apagar cabezas ---------------------------------------------------------------------------------------------


@out_of_reach
def ablate_heads(concat, heads, head_dim):
    """Las cabezas concatenadas, con las de `heads` a cero. Michel et al. (2019), §2.3."""
    result = concat.clone()
    for head in heads:
        result[..., head * head_dim : (head + 1) * head_dim] = 0
    return result


def _concatenated(heads, head_dim, *shape):
    def make(generator):
        return Call((1 + torch.rand(*shape, generator=generator), list(heads), head_dim))

    return make


def _masked(concat, off, fill=0.0):
    return torch.where(off, torch.as_tensor(fill, dtype=concat.dtype), concat)


def _off(concat, heads, head_dim):
    """Qué columnas son de esas cabezas."""
    return torch.isin(torch.arange(concat.shape[-1]) // head_dim, torch.tensor(heads))


def _whole_rows(concat, heads, head_dim):
    result = concat.clone()
    result[..., heads, :] = 0
    return result


def _from_one(concat, heads, head_dim):
    return _masked(concat, _off(concat, [head - 1 for head in heads], head_dim))


def _as_number_of_heads(concat, heads, head_dim):
    return _masked(concat, _off(concat, heads, concat.shape[-1] // head_dim))


def _cut_with(index):
    """Pone a cero el recorte de cada cabeza; `index` dice en qué dimensión lo usa."""

    def answer(concat, heads, head_dim):
        result = concat.clone()
        for head in heads:
            result[index(slice(head * head_dim, (head + 1) * head_dim))] = 0
        return result

    return answer


ABLATION_MISTAKES = (
    KnownMistake(
        "columnas salteadas",
        lambda concat, heads, head_dim: _masked(
            concat, torch.isin(torch.arange(concat.shape[-1]) % (concat.shape[-1] // head_dim), torch.tensor(heads))
        ),
        "Apagas columnas salteadas. Las de una cabeza van seguidas: head_dim columnas, una detrás de otra.",
    ),
    KnownMistake(
        "una sola columna",
        lambda concat, heads, head_dim: _masked(
            concat, torch.isin(torch.arange(concat.shape[-1]), torch.tensor(heads) * head_dim)
        ),
        "Apagas solo la primera columna de cada cabeza. Son head_dim: falta el final del recorte.",
    ),
    KnownMistake(
        "el número como columna",
        lambda concat, heads, head_dim: _masked(
            concat, torch.isin(torch.arange(concat.shape[-1]), torch.tensor(heads))
        ),
        "Usas el número de la cabeza como si fuera una columna. La cabeza i ocupa las columnas desde i·head_dim.",
    ),
    KnownMistake(
        "final sin multiplicar",
        lambda concat, heads, head_dim: _masked(
            concat,
            torch.isin(
                torch.arange(concat.shape[-1]),
                torch.tensor([c for head in heads for c in range(head * head_dim, head + 1)], dtype=torch.long),
            ),
        ),
        "El recorte empieza bien y acaba en i + 1, así que casi siempre está vacío. Los dos extremos van por head_dim: "
        "pon el paréntesis antes de multiplicar.",
    ),
    KnownMistake(
        "principio sin multiplicar",
        lambda concat, heads, head_dim: _masked(
            concat,
            torch.isin(
                torch.arange(concat.shape[-1]),
                torch.tensor([head + c for head in heads for c in range(head_dim)]),
            ),
        ),
        "Apagas head_dim columnas, pero desde la número i. La cabeza i empieza en la columna i·head_dim.",
    ),
    KnownMistake(
        "desde el final",
        lambda concat, heads, head_dim: _masked(
            concat, _off(concat, [concat.shape[-1] // head_dim - 1 - head for head in heads], head_dim)
        ),
        "Cuentas las cabezas desde el final. La 0 es la de las primeras columnas.",
    ),
    KnownMistake(
        "una más allá",
        lambda concat, heads, head_dim: _masked(concat, _off(concat, [head + 1 for head in heads], head_dim)),
        "Apagas la cabeza que va detrás de cada una. Los números de `heads` ya empiezan en 0: no les sumes nada.",
    ),
    KnownMistake(
        "forma sin trasponer",
        lambda concat, heads, head_dim: torch.where(
            torch.isin(torch.arange(concat.shape[-1] // head_dim), torch.tensor(heads))[:, None, None],
            0,
            concat.reshape(*concat.shape[:-2], -1, concat.shape[-2], head_dim),
        ).reshape(concat.shape),
        "Cambias la forma a cabezas por tokens sin intercambiar dimensiones, y cada «cabeza» mezcla trozos de varios "
        "tokens. Divide solo la última dimensión.",
    ),
    KnownMistake(
        "la media de lote y tokens",
        lambda concat, heads, head_dim: torch.where(
            _off(concat, heads, head_dim), concat.mean(dim=tuple(range(concat.dim() - 1)), keepdim=True), concat
        ),
        "Pones lo que la cabeza escribe en promedio. Es la ablación por la media; aquí se pide la de cero.",
    ),
    KnownMistake(
        "las demás",
        lambda concat, heads, head_dim: _masked(concat, ~_off(concat, heads, head_dim)),
        "Es al revés: apagas las que no están en la lista y dejas las que sí. A cero van las de `heads`.",
    ),
    KnownMistake(
        "desde uno",
        _from_one,
        "Cuentas las cabezas desde 1. Aquí, como en todo el libro, la primera es la 0.",
    ),
    KnownMistake(
        "head_dim como número de cabezas",
        _as_number_of_heads,
        "Tomas head_dim por el número de cabezas. Es cuántas columnas tiene cada una.",
    ),
    KnownMistake(
        "solo la primera",
        lambda concat, heads, head_dim: _masked(concat, _off(concat, heads[:1], head_dim)),
        "Apagas solo la primera de la lista: mira si el `return` está dentro del bucle. Recórrela entera.",
    ),
    KnownMistake(
        "solo la última",
        lambda concat, heads, head_dim: _masked(concat, _off(concat, heads[-1:], head_dim)),
        "Queda apagada solo la última de la lista: en cada vuelta empiezas con una copia nueva. Copia una vez, antes "
        "del bucle.",
    ),
    KnownMistake(
        "de la primera a la última",
        lambda concat, heads, head_dim: _masked(concat, _off(concat, [*range(min(heads), max(heads) + 1)], head_dim)),
        "Apagas también las cabezas que hay entre las de la lista. Cada una se apaga por separado.",
    ),
    KnownMistake(
        "desde ahí hasta el final",
        lambda concat, heads, head_dim: _masked(
            concat, _off(concat, [*range(min(heads), concat.shape[-1] // head_dim)], head_dim)
        ),
        "Apagas desde una cabeza hasta el final. El recorte tiene que acabar donde empieza la cabeza siguiente.",
    ),
    KnownMistake(
        "una columna de más",
        lambda concat, heads, head_dim: _masked(
            concat, _off(concat, heads, head_dim) | _off(concat, heads, head_dim).roll(1)
        ),
        "Apagas una columna de más, que ya es de la cabeza siguiente. El final de un recorte no se incluye: no le "
        "sumes uno.",
    ),
    KnownMistake(
        "una columna de menos",
        lambda concat, heads, head_dim: _masked(
            concat, _off(concat, heads, head_dim) & _off(concat, heads, head_dim).roll(-1)
        ),
        "Te dejas encendida la última columna de cada cabeza. El final del recorte no se incluye: es (i + 1)·head_dim.",
    ),
    KnownMistake(
        "filas",
        _whole_rows,
        "Apagas tokens enteros. Las cabezas son columnas: la última dimensión.",
        error="^IndexError",
    ),
    KnownMistake(
        "la primera dimensión",
        _cut_with(lambda cut: cut),
        "El recorte va a la primera dimensión, que es la de los ejemplos o la de los tokens. Con `...` delante llega a "
        "la última.",
    ),
    KnownMistake(
        "siempre la tercera dimensión",
        _cut_with(lambda cut: (slice(None), slice(None), cut)),
        "Cuentas con tres dimensiones, y puede no haber lote delante: sobran índices. Con `...` no hace falta saber "
        "cuántas son.",
        error="^IndexError",
    ),
    KnownMistake(
        "siempre la segunda dimensión",
        _cut_with(lambda cut: (slice(None), cut)),
        "El recorte va a la segunda dimensión, que no siempre es la última: delante puede haber más. Usa `...`.",
    ),
    KnownMistake(
        "quitadas",
        lambda concat, heads, head_dim: concat[..., ~_off(concat, heads, head_dim)],
        "Quitas las columnas y el resultado es más estrecho. Apagar no es podar: la forma no cambia, y esas columnas "
        "valen 0.",
    ),
    KnownMistake(
        "solo lo apagado",
        lambda concat, heads, head_dim: concat[..., _off(concat, heads, head_dim)] * 0,
        "Devuelves solo las columnas apagadas. Se piden todas: las demás, tal como llegaron.",
    ),
    KnownMistake(
        "la media",
        lambda concat, heads, head_dim: torch.where(
            _off(concat, heads, head_dim), concat.mean(dim=-2, keepdim=True), concat
        ),
        "Pones la media de cada columna en vez de cero. Es otra ablación, y a veces mejor; aquí se pide la de cero.",
    ),
    KnownMistake(
        "menos infinito",
        lambda concat, heads, head_dim: _masked(concat, _off(concat, heads, head_dim), float("-inf")),
        "Pones menos infinito, que es lo que se hace con las puntuaciones antes de la softmax. Aquí ya no hay softmax: "
        "lo que no escribe vale 0.",
    ),
    KnownMistake(
        "reescaladas",
        lambda concat, heads, head_dim: (
            _masked(concat, _off(concat, heads, head_dim))
            * (concat.shape[-1] / (concat.shape[-1] - len(heads) * head_dim))
        ),
        "Agrandas las cabezas que quedan para compensar, como hace el dropout. Aquí se dejan tal como están.",
    ),
    KnownMistake(
        "sin apagar nada",
        lambda concat, heads, head_dim: concat.clone(),
        "Devuelves lo mismo que llegó: lo que cambias es una copia que se pierde, o el recorte está vacío. Escribe en "
        "la que devuelves.",
    ),
    KnownMistake(
        "todo apagado",
        lambda concat, heads, head_dim: torch.zeros_like(concat),
        "Lo apagas todo. Solo van a cero las columnas de las cabezas de la lista.",
    ),
    KnownMistake(
        "sin devolver",
        lambda concat, heads, head_dim: None,
        "No devuelves nada: falta el `return`. Devuelve el tensor entero.",
    ),
)

ABLATION = Check(
    id="6.3",
    reference=ablate_heads,
    cases=(
        Case("sin lote, 5 cabezas de 4 columnas", _concatenated((3, 0), 4, 7, 20)),
        Case("con lote, 4 cabezas de 6 columnas", _concatenated((1, 3), 6, 3, 9, 24)),
    ),
    mistakes=ABLATION_MISTAKES,
)

# 6.4 · Índice de recuperación -------------------------------------------------------------------------------------


@out_of_reach
def retrieval_score(steps, needle, context):
    """Parte de las posiciones de la aguja atendidas al generar su propio token. Wu et al. (2024), §2."""
    copied = {position for position, token in steps if position in needle and token == context[position]}
    return len(copied) / len(needle)


def _haystack(vocabulary, needle, hits_between, num_copies, n):
    """Un caso: se copian unas posiciones de la aguja (cuántas, al azar entre dos números), la primera varias veces,
    hasta `num_copies` pasos buenos, y se falla de muchas maneras.

    Falla quien mira a la aguja y escribe otro token; quien escribe un token de la aguja mirando a otra posición que
    también lo lleva (fuera de ella), o a la de otro token suyo; y quien copia un token que no es de la aguja.
    """

    def make(generator):
        tokens = _sample(generator, vocabulary, len(vocabulary))
        own, rest = tokens[: len(needle)], tokens[len(needle) :]
        own[1] = own[0]  # el mismo token en dos posiciones de la aguja: son dos posiciones
        context = [_one_of(generator, rest) for _ in range(n)]
        for position, token in zip(needle, own, strict=True):
            context[position] = token
        outside = [position for position in range(n) if position not in needle]
        between = [position for position in outside if needle[0] < position < needle[-1]]
        decoy, *others = _sample(generator, [position for position in outside if position not in between[:1]], 3)
        context[decoy] = own[-1]
        num_hits = _one_of(generator, range(hits_between[0], hits_between[1] + 1))
        hits, missed = needle[:num_hits], needle[num_hits:]
        steps = [(position, context[position]) for position in (*hits, *[hits[0]] * (num_copies - num_hits))]
        if missed:
            steps += [(missed[0], rest[0]), (missed[-1], context[hits[-1]])]
        steps += [(decoy, own[-1]), *((position, context[position]) for position in (*others, *between[:1]))]
        # A unas las miran escribiendo otra cosa antes de copiarlas; a otras, después. Así no se
        # confunde con contar por tokens, ni lo uno con lo otro.
        before = [(position, rest[0]) for position in hits[2:4]]
        after = [(position, rest[0]) for position in hits[:3]]
        steps = [*steps[:2], *before, *_sample(generator, steps[2:], len(steps) - 2), *after]
        return Call((steps, needle, context))

    return make


@dataclass(frozen=True)
class _Copied:
    """Qué pasos cuentan y cómo se cuentan. Un error conocido cambia una de las cosas."""

    counts: Callable = lambda position, token, needle, context: position in needle and token == context[position]
    total: Callable = lambda hits, steps, needle, context: len({position for position, _ in hits}) / len(needle)

    def __call__(self, steps, needle, context):
        hits = [(position, token) for position, token in steps if self.counts(position, token, needle, context)]
        return self.total(hits, steps, needle, context)


def _distinct(hits):
    return len({position for position, _ in hits})


def _by_types(steps, needle, context):
    wanted = {context[position] for position in needle}
    found = {token for position, token in steps if position in needle and token == context[position]}
    return len(found & wanted) / len(wanted)


def _in_step_with_the_needle(steps, needle, context):
    pairs = zip(steps, needle, strict=False)
    return sum(position == wanted and token == context[wanted] for (position, token), wanted in pairs) / len(needle)


RETRIEVAL_MISTAKES = (
    KnownMistake(
        "sin mirar el token",
        _Copied(counts=lambda position, token, needle, context: position in needle),
        "Cuentas las posiciones de la aguja que se miran, se escriba lo que se escriba. Además, el token generado "
        "tiene que ser el de esa posición.",
    ),
    KnownMistake(
        "sin mirar la posición",
        _Copied(
            counts=lambda position, token, needle, context: token in {context[place] for place in needle},
            total=lambda hits, steps, needle, context: (
                len({token for _, token in hits}) / len({context[place] for place in needle})
            ),
        ),
        "Cuentas los tokens de la aguja que se escriben, mire a donde mire la cabeza. Acertar la respuesta es del "
        "modelo; la cabeza cuenta si en ese paso miraba ahí.",
    ),
    KnownMistake(
        "token de la aguja y posición de la aguja",
        _Copied(
            counts=lambda position, token, needle, context: (
                position in needle and token in {context[place] for place in needle}
            )
        ),
        "Das por bueno un token de la aguja mientras se mira a otra posición de ella. Tiene que ser el token de esa "
        "misma posición.",
    ),
    KnownMistake(
        "también fuera de la aguja",
        _Copied(counts=lambda position, token, needle, context: token == context[position]),
        "Cuentas también lo que se copia de fuera de la aguja. Solo valen las posiciones de `needle`.",
    ),
    KnownMistake(
        "entre la primera y la última",
        _Copied(
            counts=lambda position, token, needle, context: (
                needle[0] <= position <= needle[-1] and token == context[position]
            )
        ),
        "Cuentas también posiciones que caen entre la primera y la última de la aguja sin ser de ella. Pueden ir "
        "salteadas: mira si la posición está en `needle`.",
    ),
    KnownMistake(
        "pasos en vez de posiciones",
        _Copied(total=lambda hits, steps, needle, context: len(hits) / len(needle)),
        "Una posición copiada dos veces te cuenta dos. Son posiciones distintas: usa un conjunto, y el índice no "
        "pasará de 1.",
    ),
    KnownMistake(
        "recortado a uno",
        _Copied(total=lambda hits, steps, needle, context: min(1.0, len(hits) / len(needle))),
        "Recortas a 1 una cuenta que repite posiciones. Si cuentas posiciones distintas no hay nada que recortar.",
    ),
    KnownMistake(
        "entre los pasos",
        _Copied(total=lambda hits, steps, needle, context: _distinct(hits) / len(steps)),
        "Divides entre los pasos. La pregunta es qué parte de la *aguja* se copia: divide entre sus posiciones.",
    ),
    KnownMistake(
        "pasos entre pasos",
        _Copied(total=lambda hits, steps, needle, context: len(hits) / len(steps)),
        "Das la proporción de pasos en que se copia. Se pide la proporción de la aguja que queda copiada.",
    ),
    KnownMistake(
        "entre el contexto",
        _Copied(total=lambda hits, steps, needle, context: _distinct(hits) / len(context)),
        "Divides entre todo el contexto, y el índice se hunde con la longitud. Divide entre las posiciones de la "
        "aguja.",
    ),
    KnownMistake(
        "por tokens",
        _by_types,
        "Cuentas tokens distintos, y un token que está dos veces en la aguja te vale por uno. Se cuentan posiciones.",
    ),
    KnownMistake(
        "tokens copiados entre posiciones",
        _Copied(total=lambda hits, steps, needle, context: len({token for _, token in hits}) / len(needle)),
        "Arriba cuentas tokens distintos y abajo posiciones: con un token repetido en la aguja no se llega nunca a 1. "
        "Cuenta posiciones en los dos sitios.",
    ),
    KnownMistake(
        "en orden",
        _in_step_with_the_needle,
        "Emparejas el primer paso con la primera posición de la aguja, el segundo con la segunda, y así. El orden no "
        "importa: en cada paso, mira qué posición es.",
    ),
    KnownMistake(
        "solo la primera mirada",
        lambda steps, needle, context: (
            sum(next((token == context[j] for i, token in steps if i == j), False) for j in needle) / len(needle)
        ),
        "De cada posición solo cuentas la primera vez que se mira. Basta con que acierte en algún paso.",
    ),
    KnownMistake(
        "solo la última mirada",
        lambda steps, needle, context: sum(dict(steps).get(j) == context[j] for j in needle) / len(needle),
        "De cada posición solo cuentas la última vez que se mira: un diccionario pisa las anteriores. Basta con que "
        "acierte en algún paso.",
    ),
    KnownMistake(
        "todas las miradas",
        lambda steps, needle, context: (
            sum(
                any(i == j for i, _ in steps) and all(token == context[j] for i, token in steps if i == j)
                for j in needle
            )
            / len(needle)
        ),
        "Exiges que cada posición acierte siempre que se la mira. Basta con que acierte en algún paso.",
    ),
    KnownMistake(
        "media de las miradas",
        lambda steps, needle, context: (
            sum(
                sum(token == context[j] for i, token in steps if i == j) / max(1, sum(i == j for i, _ in steps))
                for j in needle
            )
            / len(needle)
        ),
        "De cada posición haces la media de las veces que acierta. Una posición está copiada o no lo está: basta con "
        "un paso.",
    ),
    KnownMistake(
        "pareja al revés",
        lambda steps, needle, context: _Copied()([(token, position) for position, token in steps], needle, context),
        "Te sale siempre 0: ¿desempaquetas la pareja al revés, o comparas una posición con un token? Cada paso es "
        "(posición atendida, token generado), y `needle` lleva posiciones.",
        error="^(IndexError|TypeError)",
    ),
    KnownMistake(
        "uno más allá",
        _Copied(
            counts=lambda position, token, needle, context: (
                position + 1 in needle and token == context[min(position + 1, len(context) - 1)]
            )
        ),
        "Sale como si se copiara una sola posición: te vas del bucle en el primer acierto, o comparas con el token "
        "vecino del atendido. Recorre todos los pasos y compara con el de la misma posición.",
    ),
    KnownMistake(
        "cuenta sin dividir",
        _Copied(total=lambda hits, steps, needle, context: _distinct(hits)),
        "Devuelves cuántas posiciones se copian. Se pide la proporción: divide entre las de la aguja.",
    ),
    KnownMistake(
        "en tanto por ciento",
        _Copied(total=lambda hits, steps, needle, context: 100 * _distinct(hits) / len(needle)),
        "Devuelves un tanto por ciento. Se pide una proporción, entre 0 y 1.",
    ),
    KnownMistake(
        "división entera",
        _Copied(total=lambda hits, steps, needle, context: _distinct(hits) // len(needle)),
        "Solo te salen 0 y 1: divides con «//» o quitas los decimales con `int`. Usa «/» y no redondees.",
    ),
    KnownMistake(
        "todas o nada",
        _Copied(total=lambda hits, steps, needle, context: _distinct(hits) == len(needle)),
        "Devuelves si se copia la aguja entera. Se pide qué parte: un número entre 0 y 1.",
    ),
    KnownMistake(
        "lo que falta",
        _Copied(total=lambda hits, steps, needle, context: 1 - _distinct(hits) / len(needle)),
        "Das la parte que no se copia. Es la contraria.",
    ),
    KnownMistake(
        "las posiciones",
        _Copied(total=lambda hits, steps, needle, context: sorted({position for position, _ in hits})),
        "Devuelves las posiciones copiadas. Se pide qué proporción son de las de la aguja.",
    ),
)

RETRIEVAL = Check(
    id="6.4",
    reference=retrieval_score,
    cases=(
        Case("tokens enteros, copiada en parte", _haystack(tuple(range(100, 130)), [*range(6, 15)], (5, 6), 11, 24)),
        Case("palabras, posiciones salteadas, copiada entera", _haystack(WORDS, [2, 3, 9, 12], (4, 4), 7, 15)),
    ),
    mistakes=RETRIEVAL_MISTAKES,
)

# 6.5 · Una cabeza de token anterior, a mano -----------------------------------------------------------------------

ENOUGH = 0.99


@out_of_reach
def previous_token_head(positions):
    """Un ejemplo: W^Q lleva la posición i a la i − 1, con un factor grande; W^K, cada una a sí misma."""
    d = positions.shape[1]
    w_q = 100 * d**0.5 * positions[1:].T @ positions[:-1]
    return w_q, torch.eye(d, dtype=positions.dtype)


def _orthonormal(n, d):
    def make(generator):
        basis, _ = torch.linalg.qr(torch.randn(d, d, generator=generator))
        return Call((basis[:n].contiguous(),))

    return make


def _pair(value, positions):
    """Las dos matrices devueltas, en double, o None si no son dos matrices (d, d) de números finitos."""
    d = positions.shape[1]
    if not isinstance(value, tuple | list) or len(value) != 2:
        return None
    for w in value:
        if not isinstance(w, torch.Tensor) or w.shape != (d, d) or w.dtype is torch.bool or w.is_complex():
            return None
        if not torch.isfinite(w.double()).all():
            return None
    return [w.double() for w in value]


def _attention_of(value, positions, causal=False):
    """Los pesos de la cabeza devuelta, (n, n); None si no es una pareja de matrices."""
    pair = _pair(value, positions)
    if pair is None:
        return None
    n, d = positions.shape
    x = positions.double()
    scores = (x @ pair[0]) @ (x @ pair[1]).T / math.sqrt(d)
    if causal:
        scores = scores.masked_fill(torch.ones(n, n, dtype=torch.bool).triu(1), float("-inf"))
    return torch.softmax(scores, dim=-1)


def _previous(weights):
    return weights.diagonal(-1)


def _is_previous_token_head(value, positions):
    """¿Pone cada consulta, desde la segunda, al menos 0,99 en la anterior? Si no son dos matrices, qué les pasa."""
    if _pair(value, positions) is None:
        d = positions.shape[1]
        if not isinstance(value, tuple | list) or len(value) != 2:
            return "tipo"
        if not all(isinstance(w, torch.Tensor) and w.dtype is not torch.bool and not w.is_complex() for w in value):
            return "tipo"
        return "forma" if any(w.shape != (d, d) for w in value) else "finito"
    return bool((_previous(_attention_of(value, positions)) >= ENOUGH - 1e-4).all())


def _seen(test):
    """Reconoce un fallo por los pesos que salen."""

    def seen(value, positions):
        weights = _attention_of(value, positions)
        return weights is not None and bool(test(weights, value, positions))

    return seen


def _mostly(weights, offset):
    """¿Es i + offset la clave más atendida en casi todas las consultas que la tienen?"""
    places = torch.arange(len(weights))
    there = (places + offset >= 0) & (places + offset < len(weights))
    return (weights.argmax(-1) == places + offset)[there].double().mean() > 0.9


def _uniform(weights, value, positions):
    return weights.max() - weights.min() < 0.5 / len(weights)


def _with(factor):
    """El ejemplo, con otro factor en W^Q."""

    def answer(positions):
        w_q, w_k = previous_token_head.__wrapped__(positions)
        return w_q / (100 * positions.shape[1] ** 0.5) * factor(positions), w_k

    return answer


def _moved(positions, offset):
    n = len(positions)
    rows = torch.arange(n)
    kept = rows[(rows + offset >= 0) & (rows + offset < n)]
    w_q = 100 * positions.shape[1] ** 0.5 * positions[kept].T @ positions[kept + offset]
    return w_q, torch.eye(positions.shape[1])


def _circles(positions):
    return 1000 * positions.T @ positions.roll(1, 0), torch.eye(positions.shape[1])


def _by_inverse(positions):
    return 1000 * torch.linalg.inv(positions) @ positions.roll(1, 0), torch.eye(positions.shape[1])


def _row_shift(positions):
    d = positions.shape[1]
    return 1000 * torch.eye(d).roll(1, 1), torch.eye(d)


HEAD_MISTAKES = (
    KnownMistake(
        "sin factor",
        _with(lambda positions: 1),
        "Cada consulta mira sobre todo a la anterior, pero por poco: las puntuaciones van de 0 a 1 y, divididas entre "
        "√d, la softmax casi las iguala. Multiplica una de las matrices por un número grande.",
        seen=_seen(lambda weights, value, positions: _mostly(weights, -1) and _previous(weights).max() < 0.5),
    ),
    KnownMistake(
        "factor que se queda corto",
        _with(lambda positions: 10),
        "La clave más atendida es la anterior, pero no llega al 99 % del peso en todos los casos: con más tokens y más "
        "dimensiones hace falta un factor mayor. Que dependa de √d, o que sobre.",
        seen=_seen(lambda weights, value, positions: (weights.argmax(-1)[1:] == torch.arange(len(weights) - 1)).all()),
    ),
    KnownMistake(
        "factor justo para pocos tokens",
        _with(lambda positions: 30),
        "Con pocos tokens basta tu factor, y con más ya no llega al 99 %: la diferencia debida crece con n, y se "
        "divide entre √d. Que dependa de los dos, o que sobre.",
        seen=_seen(lambda weights, value, positions: _mostly(weights, -1) and _previous(weights).min() > 0.5),
    ),
    KnownMistake(
        "una consulta sin su pareja",
        lambda positions: (
            100 * positions.shape[1] ** 0.5 * positions[2:].T @ positions[1:-1],
            torch.eye(positions.shape[1]),
        ),
        "Casi todas las consultas miran a la anterior, pero a alguna le falta su sumando. Van de la segunda a la "
        "última: repasa los dos extremos de tus recortes.",
        seen=_seen(lambda weights, value, positions: 0.7 <= (_previous(weights) >= ENOUGH).double().mean() < 1),
    ),
    KnownMistake(
        "signo cambiado",
        lambda positions: tuple(
            s * w for s, w in zip((-1, 1), previous_token_head.__wrapped__(positions), strict=True)
        ),
        "Cada consulta huye justo de la anterior: es la clave a la que menos peso da. Cambia el signo de una de las "
        "dos matrices.",
        seen=_seen(lambda weights, value, positions: (weights.argmin(-1)[1:] == torch.arange(len(weights) - 1)).all()),
    ),
    KnownMistake(
        "la siguiente",
        lambda positions: _moved(positions, 1),
        "Cada consulta mira a la *siguiente*: has cambiado el sentido, o devuelves w_k delante de w_q. La pregunta de "
        "i es «¿quién es i − 1?».",
        seen=_seen(lambda weights, value, positions: _mostly(weights, 1)),
    ),
    KnownMistake(
        "a sí misma",
        lambda positions: _moved(positions, 0),
        "Cada consulta se encuentra a sí misma: consultas y claves hacen lo mismo con las posiciones. A una de las dos "
        "le falta moverlas un puesto.",
        seen=_seen(lambda weights, value, positions: _mostly(weights, 0)),
    ),
    KnownMistake(
        "dos atrás",
        lambda positions: _moved(positions, -2),
        "Cada consulta mira dos puestos atrás: mueves a la vez las consultas y las claves. Basta con mover unas.",
        seen=_seen(lambda weights, value, positions: _mostly(weights, -2)),
    ),
    KnownMistake(
        "reparto igual",
        lambda positions: (torch.zeros(2, *[positions.shape[1]] * 2)).unbind(0),
        "Todas las puntuaciones salen iguales, y cada consulta reparte por igual. w_q tiene que llevar la posición i a "
        "algo que se parezca a la i − 1.",
        seen=_seen(_uniform),
    ),
    KnownMistake(
        "cuadrada a la fuerza",
        _by_inverse,
        "Inviertes `positions`, que solo es cuadrada si hay tantos tokens como dimensiones. Con filas ortonormales no "
        "hace falta: la traspuesta hace el mismo papel.",
        error="square|cuadrad|singular",
    ),
    KnownMistake(
        "mueve dimensiones",
        _row_shift,
        "Mueves las dimensiones del vector, no las posiciones: solo valdría si cada posición fuese un eje. Escribe la "
        "matriz con las filas de `positions`, una suma de productos de una columna por una fila.",
        seen=_seen(
            lambda weights, value, positions: any(
                torch.allclose(w / w.abs().max(), torch.eye(len(w), dtype=w.dtype).roll(shift, 1), atol=1e-3)
                for w in _pair(value, positions)
                for shift in (1, -1)
                if w.abs().max() > 0
            )
        ),
    ),
    KnownMistake(
        "proyectadas",
        lambda positions: (positions.roll(1, 0), positions),
        "Devuelves consultas y claves ya hechas, con una fila por token, y se piden las matrices que las hacen, (d, "
        "d). Después, las consultas serán x por w_q.",
        seen=lambda value, positions: (
            isinstance(value, tuple | list)
            and len(value) == 2
            and all(isinstance(w, torch.Tensor) and w.shape == positions.shape and not w.is_complex() for w in value)
            and (
                positions.shape[0] != positions.shape[1]
                or any(torch.allclose(w.double(), positions.double(), atol=1e-3) for w in value)
            )
        ),
    ),
    KnownMistake(
        "una sola matriz",
        lambda positions: 1000 * positions[1:].T @ positions[:-1],
        "Devuelves una matriz. Se piden dos, la de las consultas y la de las claves; una de ellas puede ser la "
        "identidad.",
        seen=lambda value, positions: isinstance(value, torch.Tensor) and value.shape == (positions.shape[1],) * 2,
    ),
    KnownMistake(
        "desbordado",
        _with(lambda positions: float("inf")),
        "Hay infinitos o NaN en las matrices. El factor tiene que ser grande, pero finito: con unas decenas por √d "
        "sobra.",
        seen=lambda value, positions: (
            isinstance(value, tuple | list)
            and len(value) == 2
            and all(isinstance(w, torch.Tensor) and w.is_floating_point() for w in value)
            and not all(torch.isfinite(w).all() for w in value)
        ),
    ),
)

HEAD = Check(
    id="6.5",
    reference=previous_token_head,
    cases=(
        Case("6 tokens en 16 dimensiones", _orthonormal(6, 16)),
        Case("20 tokens en 20 dimensiones", _orthonormal(20, 20)),
    ),
    mistakes=HEAD_MISTAKES,
    right=_is_previous_token_head,
)

CHECKS = (PREDICTION, INDEX, ABLATION, RETRIEVAL, HEAD)
