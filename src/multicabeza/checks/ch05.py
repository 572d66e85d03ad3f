"""Comprobaciones del capítulo 05: a qué distancia mira una cabeza, cómo de repartida y qué relación sigue."""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from itertools import combinations

import torch

from .framework import Call, Case, Check, KnownMistake, out_of_reach

# Pesos de los que se sabe a quién mira cada consulta ---------------------------------------------------------------


def _maps(generator, strongest, second):
    """Pesos (h, n, n) cuya clave más atendida es `strongest` (h, n), y la siguiente, `second` (otra al azar si es la
    misma). Nunca empatan: la primera saca a la segunda un 15 % o más; en unas filas pasa de la mitad del peso y en
    otras no.
    """
    h, n = strongest.shape
    order = torch.rand(h, n, n, generator=generator)
    order.scatter_(-1, second[..., None], 2.0)
    order.scatter_(-1, strongest[..., None], 3.0)
    order = order.argsort(dim=-1, descending=True)  # de la clave más atendida a la menos
    spread = 0.3 + 1.5 * torch.rand(h, n, 1, generator=generator)
    weights = torch.softmax(spread * torch.randn(h, n, n, generator=generator), dim=-1)
    weights = weights.sort(dim=-1, descending=True).values
    weights[..., 0] *= 1.3225
    weights[..., 1] *= 1.15
    return torch.zeros(h, n, n).scatter(-1, order, weights / weights.sum(-1, keepdim=True))


def _one_of(generator, options):
    return options[int(torch.randint(len(options), (), generator=generator))]


def _shuffled(generator, items):
    return [items[i] for i in torch.randperm(len(items), generator=generator).tolist()]


def _chance(generator) -> float:
    return torch.rand((), generator=generator).item()


def _another(generator, n, choice, than):
    """`choice`, o una clave al azar si resulta ser `than`."""
    return choice % n if choice % n != than else (than + 1 + _one_of(generator, range(n - 1))) % n


# 5.1 · Índice posicional ------------------------------------------------------------------------------------------


@out_of_reach
def positional_score(weights, offset):
    """Proporción de las consultas i, entre las que tienen clave i + offset, cuya clave más atendida es esa.

    Voita et al. (2019), §5.1.
    """
    n = weights.shape[-1]
    strongest = weights.argmax(dim=-1)  # (h, n)
    hits = [strongest[:, i] == i + offset for i in range(n) if 0 <= i + offset < n]
    return torch.stack(hits).double().mean(dim=0)


def _positional(num_heads, n, offset):
    """Un caso: una cabeza acierta siempre; las demás, la mitad de las veces o menos, y fallan de todas las maneras.

    Las consultas que no tienen clave i + offset miran a menudo a donde las llevaría un descuido: al otro extremo (un
    índice negativo) o al borde.
    """

    def make(generator):
        queries = [i for i in range(n) if 0 <= i + offset < n]
        perfect = 1 + _one_of(generator, range(num_heads - 1))
        strongest, second = torch.randint(n, (2, num_heads, n), generator=generator)
        for head in range(num_heads):
            for i in set(range(n)) - set(queries):
                around = (i + offset) % n
                strongest[head, i] = _one_of(generator, (around, around, 0, n - 1, strongest[head, i]))
            hits = len(queries) if head == perfect else 2 + _one_of(generator, range(len(queries) // 2 - 1))
            for place, i in enumerate(_shuffled(generator, queries)):
                target = i + offset
                misses = (i - offset, i, i + 1, i - 1, target + 1, target - 1)
                miss = _another(generator, n, misses[place % len(misses)], target)
                strongest[head, i] = target if place < hits else miss
                second[head, i] = target if _chance(generator) < 0.6 else second[head, i]
        return Call((_maps(generator, strongest, second), offset))

    return make


def _places(weights):
    return torch.arange(weights.shape[-1])


@dataclass(frozen=True)
class _Share:
    """Aciertos entre consultas. Un error conocido cambia una de las cosas, y quien tiene dos, dos."""

    hits: Callable = lambda weights, offset: weights.argmax(-1) == _places(weights) + offset  # (h, n)
    count: Callable = lambda n, offset: n - abs(offset)
    after: Callable = lambda scores: scores

    def __call__(self, weights, offset):
        return self.after(self.hits(weights, offset).float().sum(-1) / self.count(weights.shape[-1], offset))


def _along_keys(weights, offset):
    """Para cada clave, quién la mira más: ¿es j + offset?"""
    return weights.argmax(-2) == _places(weights) + offset


def _most_faithful_query(weights, offset):
    """Para cada clave j, ¿es j − offset la consulta que más la mira?"""
    return weights.argmax(-2) == _places(weights) - offset


def _own_key_hidden(weights, offset):
    hidden = weights.masked_fill(torch.eye(weights.shape[-1], dtype=torch.bool), -1.0)
    return hidden.argmax(-1) == _places(weights) + offset


def _only_the_past(weights, offset):
    return weights.tril().argmax(-1) == _places(weights) + offset


def _among_two(weights, offset):
    return (weights.topk(2, dim=-1).indices == (_places(weights) + offset)[:, None]).any(-1)


def _weight_there(weights, offset):
    """El peso en i + offset, en las consultas que la tienen."""
    return weights.diagonal(offset=offset, dim1=-2, dim2=-1)


def _strongest_of_the_map(weights, offset):
    """El máximo de cada mapa entero, contado como si fuera una clave."""
    return weights.flatten(1).argmax(-1, keepdim=True) == _places(weights) + offset


def _without_ends(weights, offset):
    inner = weights[:, 1:-1, 1:-1]
    return _Share()(inner, offset)


def _by_slices(weights, offset):
    strongest, places = weights.argmax(-1), _places(weights)
    if offset < 0:
        hits = strongest[:, -offset:] == places[:offset]
    else:
        hits = strongest[:, :-offset] == places[offset:]
    return hits.float().mean(-1)


def _only_forwards(weights, offset):
    n = weights.shape[-1]
    return (weights.argmax(-1)[:, : n - offset] == torch.arange(offset, n)).float().mean(-1)


def _only_backwards(weights, offset):
    return _over_queries(weights, offset, range(-offset, weights.shape[-1]))


def _over_queries(weights, offset, queries):
    strongest = weights.argmax(-1)
    return torch.stack([strongest[:, i] == i + offset for i in queries]).float().mean(0)


def _stops_at_the_first_without_key(weights, offset):
    n = weights.shape[-1]
    hits = torch.zeros(weights.shape[0])
    for i in range(n):
        if not 0 <= i + offset < n:
            break
        hits += weights[:, i].argmax(-1) == i + offset
    return hits / (n - abs(offset))


def _every_query_indexed(weights, offset):
    hits = [weights[:, i, i + offset] == weights[:, i].amax(-1) for i in range(weights.shape[-1])]
    return torch.stack(hits).float().mean(0)


def _most_common_offset(weights, offset):
    distance = weights.argmax(-1) - _places(weights)
    return distance.mode(-1).values.float()


POSITIONAL_MISTAKES = (
    KnownMistake(
        "entre todas las consultas",
        _Share(count=lambda n, offset: n),
        "Divides entre todas las consultas, también entre las que no tienen a nadie en i + offset, y una cabeza "
        "perfecta no llega a 1. Cuenta solo las consultas cuya clave existe.",
    ),
    KnownMistake(
        "signo al revés",
        _Share(hits=lambda weights, offset: weights.argmax(-1) == _places(weights) - offset),
        "Buscas al otro lado: en i − offset. Con un desplazamiento negativo la clave está antes que la consulta, y con "
        "uno positivo, después.",
    ),
    KnownMistake(
        "argmax sobre las consultas",
        _Share(hits=_along_keys),
        "El máximo recorre las consultas: para cada clave buscas quién la mira más. La fila es quien mira; recorre las "
        "claves, que son la última dimensión.",
    ),
    KnownMistake(
        "quién mira a cada clave",
        _Share(hits=_most_faithful_query),
        "Cuentas claves, no consultas: en cuántas la que más las mira está a la distancia pedida. La pregunta es la "
        "contraria, a quién mira cada consulta: el máximo va por filas.",
    ),
    KnownMistake(
        "da la vuelta",
        _Share(
            hits=lambda weights, offset: weights.argmax(-1) == (_places(weights) + offset) % weights.shape[-1],
            count=lambda n, offset: n,
        ),
        "La secuencia se te cierra en círculo: cuando i + offset se sale por un extremo, cuentas la clave del otro "
        "(un índice negativo hace lo mismo sin avisar). Esas consultas no cuentan.",
    ),
    KnownMistake(
        "da la vuelta y solo divide entre las que existen",
        _Share(hits=lambda weights, offset: weights.argmax(-1) == (_places(weights) + offset) % weights.shape[-1]),
        "Divides bien, entre las consultas cuya clave existe, pero entre los aciertos cuelas los de las otras, que dan "
        "la vuelta por el extremo. Deja las mismas consultas arriba y abajo.",
    ),
    KnownMistake(
        "recortado al borde",
        _Share(
            hits=lambda weights, offset: (
                weights.argmax(-1) == (_places(weights) + offset).clamp(0, weights.shape[-1] - 1)
            ),
            count=lambda n, offset: n,
        ),
        "Cuando i + offset se sale, lo recortas al borde y cuentas esa consulta con una clave que no es la suya. Si no "
        "existe, la consulta se queda fuera.",
    ),
    KnownMistake(
        "argmax de todo el mapa",
        _Share(hits=_strongest_of_the_map),
        "Casi ninguna cabeza acierta: ¿buscas la clave con `argmax()`, sin decir la dimensión? Así da un solo número "
        "por mapa; sobre la última dimensión da uno por consulta.",
    ),
    KnownMistake(
        "peso medio",
        _Share(hits=_weight_there),
        "Haces la media del peso que recibe i + offset. Eso mide cuánto la mira; aquí se cuenta en cuántas consultas "
        "es la más mirada, por poco que sea.",
    ),
    KnownMistake(
        "peso medio al otro lado",
        lambda weights, offset: _weight_there(weights, -offset).mean(-1),
        "Haces la media de un peso, y además el del otro lado, i − offset. Cuenta en cuántas consultas la clave i + "
        "offset es la más mirada.",
    ),
    KnownMistake(
        "más de la mitad del peso",
        _Share(hits=lambda weights, offset: _weight_there(weights, offset) > 0.5),
        "Exiges que la clave se lleve más de la mitad del peso, y puede ser la más mirada con menos. Compárala con las "
        "demás de su fila, no con un umbral.",
    ),
    KnownMistake(
        "entre las dos primeras",
        _Share(hits=_among_two),
        "Das por buena la segunda clave de la fila. Solo cuenta la primera: la de mayor peso.",
    ),
    KnownMistake(
        "a los dos lados",
        _Share(
            hits=lambda weights, offset: (weights.argmax(-1) - _places(weights)).abs() == abs(offset),
            count=lambda n, offset: n,
        ),
        "Cuentas las claves a esa distancia por los dos lados. El signo importa: la anterior y la siguiente son dos "
        "desplazamientos distintos.",
    ),
    KnownMistake(
        "sin signo",
        _Share(hits=lambda weights, offset: weights.argmax(-1) == _places(weights) + abs(offset)),
        "Le quitas el signo a offset, y solo miras hacia delante. La clave es i + offset, tal cual, aunque offset sea "
        "negativo.",
    ),
    KnownMistake(
        "siempre la anterior",
        lambda weights, offset: _Share()(weights, -1),
        "Mides siempre el token anterior, sea cual sea `offset`. Usa el argumento.",
    ),
    KnownMistake(
        "siempre la siguiente",
        lambda weights, offset: _Share()(weights, 1),
        "Mides siempre el token siguiente y `offset` no interviene. Es un argumento: la clave buscada depende de él.",
    ),
    KnownMistake(
        "siempre él mismo",
        lambda weights, offset: _Share()(weights, 0),
        "Comparas la clave más atendida con la propia consulta: falta sumarle `offset`. La buscada es i + offset.",
    ),
    KnownMistake(
        "uno de más",
        _Share(hits=lambda weights, offset: weights.argmax(-1) == _places(weights) + offset + 1),
        "Estás un puesto más allá: i + offset + 1. Consultas y claves se cuentan desde 0: no hay nada que sumar.",
    ),
    KnownMistake(
        "uno de menos",
        _Share(hits=lambda weights, offset: weights.argmax(-1) == _places(weights) + offset - 1),
        "Estás un puesto más acá: i + offset − 1. No restes nada, que las posiciones empiezan en 0 en los dos lados.",
    ),
    KnownMistake(
        "sin la propia clave",
        _Share(hits=_own_key_hidden),
        "Apartas la diagonal antes de buscar el máximo, y quien se mira sobre todo a sí mismo parece mirar a otro. "
        "Deja la fila entera.",
    ),
    KnownMistake(
        "solo el pasado",
        _Share(hits=_only_the_past),
        "Solo miras las claves que no van detrás de la consulta. No hay máscara causal: busca el máximo en toda la "
        "fila.",
    ),
    KnownMistake(
        "sin los extremos",
        _without_ends,
        "Quitas el primer token y el último, quizá por si son especiales. Aquí cuentan todos: usa los pesos tal como "
        "llegan.",
    ),
    KnownMistake(
        "la menos mirada",
        _Share(hits=lambda weights, offset: weights.argmin(-1) == _places(weights) + offset),
        "Buscas la clave que menos pesa de cada fila. Es la que más: `argmax`.",
    ),
    KnownMistake(
        "entre n − 1",
        _Share(count=lambda n, offset: n - 1),
        "Divides siempre entre n − 1, que solo es lo debido para la anterior y la siguiente. Cuantas más posiciones "
        "salta offset, menos consultas tienen esa clave.",
    ),
    KnownMistake(
        "entre n − offset",
        _Share(count=lambda n, offset: n - offset),
        "Divides entre n − offset, y con offset negativo salen más consultas que tokens. Las que se quedan sin clave "
        "son tantas como posiciones salta, hacia donde sea.",
    ),
    KnownMistake(
        "entre n + offset",
        _Share(count=lambda n, offset: n + offset),
        "Divides entre n + offset: va bien hacia atrás, y hacia delante salen más consultas que tokens. Cuenta las que "
        "quedan dentro en cada sentido.",
    ),
    KnownMistake(
        "una consulta de menos",
        _Share(count=lambda n, offset: max(n - abs(offset) - 1, 1)),
        "Divides entre una consulta menos de las que cuentas. Comprueba el último índice del rango: con offset 0 "
        "entran todas.",
    ),
    KnownMistake(
        "aciertos sin dividir",
        _Share(count=lambda n, offset: 1),
        "Devuelves cuántas consultas aciertan. Se pide la proporción: divide entre las que tienen esa clave.",
    ),
    KnownMistake(
        "división entera",
        _Share(after=lambda scores: (scores + 1e-6).floor()),
        "Solo te sale 1 o 0: o exiges que acierten todas las consultas, o divides con «//», que tira los decimales. Se "
        "pide la proporción.",
    ),
    KnownMistake(
        "en tanto por ciento",
        _Share(after=lambda scores: 100 * scores),
        "Devuelves un tanto por ciento. Se pide una proporción, entre 0 y 1: quita el factor.",
    ),
    KnownMistake(
        "proporción de fallos",
        _Share(after=lambda scores: 1 - scores),
        "Das la proporción de consultas que miran a otra parte. Cuenta las que sí miran ahí.",
    ),
    KnownMistake(
        "¿pasa del umbral?",
        _Share(after=lambda scores: scores >= 0.9),
        "Dices qué cabezas pasan el umbral de Voita y sus coautores. El umbral viene después: devuelve la proporción.",
    ),
    KnownMistake(
        "sin promediar",
        lambda weights, offset: (weights.argmax(-1) == _places(weights) + offset)[
            :, (_places(weights) + offset >= 0) & (_places(weights) + offset < weights.shape[-1])
        ].float(),
        "Devuelves un acierto o un fallo por consulta. Falta el último paso: la media sobre las consultas de cada "
        "cabeza.",
    ),
    KnownMistake(
        "aciertos por posición",
        lambda weights, offset: (
            _Share()
            .hits(weights, offset)
            .float()
            .mean(0)[(_places(weights) + offset >= 0) & (_places(weights) + offset < weights.shape[-1])]
        ),
        "Promedias sobre las cabezas y queda un número por consulta. Es al revés: la media recorre las consultas y "
        "queda un número por cabeza.",
    ),
    KnownMistake(
        "media de las cabezas",
        _Share(after=lambda scores: scores.mean()),
        "Sale un solo número, la media de todas las cabezas. Cada una tiene su índice: promedia solo sobre las "
        "consultas.",
    ),
    KnownMistake(
        "cabeza media",
        lambda weights, offset: _Share()(weights.mean(0, keepdim=True), offset)[0],
        "Promedias los mapas de las cabezas y mides el mapa medio, que no es el de ninguna. Mide cada cabeza por "
        "separado.",
    ),
    KnownMistake(
        "la mejor cabeza",
        _Share(after=lambda scores: scores.amax()),
        "Te quedas con la mejor cabeza. Se piden todas, una detrás de otra.",
    ),
    KnownMistake(
        "solo la primera cabeza",
        _Share(after=lambda scores: scores[0]),
        "Sale solo el número de la primera cabeza: o el `return` está dentro del bucle, o has tomado `weights[0]`. "
        "Recórrelas todas.",
    ),
    KnownMistake(
        "desplazamiento más frecuente",
        _most_common_offset,
        "Devuelves a qué distancia mira más a menudo cada cabeza. La distancia ya te la dan en `offset`: di en qué "
        "proporción de las consultas mira ahí.",
    ),
    KnownMistake(
        "confianza",
        lambda weights, offset: weights.amax(-1).mean(-1),
        "Haces la media del mayor peso de cada fila: mide lo segura que está la cabeza, mire a donde mire. Lo que "
        "importa es dónde cae ese máximo.",
    ),
    KnownMistake(
        "confianza en los aciertos",
        _Share(hits=lambda weights, offset: _Share().hits(weights, offset) * weights.amax(-1)),
        "Cada acierto suma su peso en vez de 1. Un acierto es un acierto, pese lo que pese la clave.",
    ),
    KnownMistake(
        "recortes con offset 0",
        _by_slices,
        "Con offset 0 los recortes se quedan vacíos: «:-0» es «:0», que no toma nada. Calcula el índice final, n − "
        "offset, en vez de contar desde el final.",
        error="must match",
    ),
    KnownMistake(
        "solo hacia delante",
        _only_forwards,
        "Con un offset negativo el rango de consultas no es el que crees: empieza en `offset` o acaba en `n - offset`. "
        "Hacia atrás, las que se quedan fuera son las primeras.",
        error="must match",
    ),
    KnownMistake(
        "solo hacia atrás",
        _only_backwards,
        "Tu rango empieza en `-offset`, que hacia delante es un índice negativo y cuenta desde el final sin avisar. "
        "Hacia delante, las consultas que se quedan fuera son las últimas.",
    ),
    KnownMistake(
        "rango de ir hacia atrás",
        lambda weights, offset: _over_queries(weights, offset, range(abs(offset), weights.shape[-1])),
        "Dejas fuera siempre las primeras consultas, vaya offset hacia donde vaya. Hacia delante, las que no tienen "
        "clave son las últimas.",
    ),
    KnownMistake(
        "rango de ir hacia delante",
        lambda weights, offset: _over_queries(weights, offset, range(weights.shape[-1] - abs(offset))),
        "Dejas fuera siempre las últimas consultas, vaya offset hacia donde vaya. Hacia atrás, las que no tienen clave "
        "son las primeras.",
    ),
    KnownMistake(
        "siempre sin la primera",
        lambda weights, offset: _over_queries(weights, offset, range(1, weights.shape[-1])),
        "Quitas siempre la primera consulta y ninguna más, como pide el token anterior. Cuántas se quedan fuera, y por "
        "qué extremo, depende de offset.",
    ),
    KnownMistake(
        "deja de recorrer",
        _stops_at_the_first_without_key,
        "En cuanto una consulta no tiene clave dejas de recorrer, y hacia atrás es la primera de todas. Sáltala y "
        "sigue: `continue`, y no `break`.",
    ),
    KnownMistake(
        "entre las cabezas",
        lambda weights, offset: _Share().hits(weights, offset).float().sum(-1) / weights.shape[0],
        "Divides entre el número de cabezas. La proporción es de consultas: divide entre las que tienen esa clave.",
    ),
    KnownMistake(
        "índice que se sale",
        _every_query_indexed,
        "Recorres todas las consultas: hacia delante el índice se sale, y hacia atrás el negativo cuenta desde el "
        "final sin avisar. Salta las que no tienen clave en i + offset.",
        error="^IndexError",
    ),
)


def _together(group):
    """El primer error del grupo, y una función que los tiene todos (si cada uno cambia una cosa distinta)."""
    changes = {}
    for mistake in group:
        default = type(mistake.answer)()
        own = {f.name: getattr(mistake.answer, f.name) for f in fields(default)}
        own = {name: change for name, change in own.items() if change is not getattr(default, name)}
        if own.keys() & changes.keys():
            return
        changes |= own
    yield group[0], replace(type(group[0].answer)(), **changes)


def _pairs_of(mistakes, kind):
    """Parejas de errores conocidos que cambian cosas distintas."""

    def combined():
        for group in combinations([mistake for mistake in mistakes if isinstance(mistake.answer, kind)], 2):
            yield from _together(group)

    return combined


POSITIONAL = Check(
    id="5.1",
    reference=positional_score,
    cases=(
        Case("hacia atrás", lambda generator: _positional(6, 13, -2)(generator)),
        Case("hacia delante", lambda generator: _positional(5, 16, 3)(generator)),
        Case("a sí mismo", lambda generator: _positional(7, 11, 0)(generator)),
    ),
    mistakes=POSITIONAL_MISTAKES,
    combined=_pairs_of(POSITIONAL_MISTAKES, _Share),
)

# 5.2 · Entropía de la atención ------------------------------------------------------------------------------------


@out_of_reach
def attention_entropy(weights):
    """Media sobre las consultas de −Σ_j A[i, j]·log A[i, j], en nats y con 0·log 0 = 0. Clark et al. (2019), §3.3."""
    return torch.special.entr(weights).sum(dim=-1).mean(dim=-1)


def _soft_weights(*shape):
    """Un caso de pesos positivos: unas filas repartidas y otras muy seguras."""

    def make(generator):
        spread = 0.5 + 2.5 * torch.rand(*shape[:-1], 1, generator=generator)
        return Call((torch.softmax(spread * torch.randn(*shape, generator=generator), dim=-1),))

    return make


def _weights_with_zeros(*shape):
    """Un caso con ceros exactos: la primera consulta mira a una sola clave, la última a todas y las demás a algunas."""

    def make(generator):
        scores = torch.randn(*shape, generator=generator)
        kept = torch.rand(*shape, generator=generator) < 0.5
        first = torch.randint(shape[-1], (*shape[:-1], 1), generator=generator)
        kept[..., 0, :] = False
        kept.scatter_(-1, first, True)
        kept[..., 1, :] = torch.arange(shape[-1]) < 2  # al menos una consulta con ceros y con reparto
        kept[..., -1, :] = True
        return Call((torch.softmax(scores.masked_fill(~kept, float("-inf")), dim=-1),))

    return make


def _terms(weights, log):
    """A·log A, con 0 donde A es 0."""
    return torch.where(weights > 0, weights * log(weights), 0.0)


@dataclass(frozen=True)
class _Entropy:
    """signo · Σ A·log A sobre un eje, y lo que se haga con las consultas. Un error conocido cambia una de las cosas."""

    terms: Callable = lambda weights: _terms(weights, torch.log)
    sign: float = -1.0
    axis: int = -1
    reduce: Callable = lambda rows: rows.mean(-1)

    def __call__(self, weights):
        return self.reduce(self.sign * self.terms(weights).sum(self.axis))


def _log_of_keys(weights):
    return _Entropy()(weights) / math.log(weights.shape[-1])


def _first_dimension_is_heads(weights):
    return torch.stack([(-_terms(head, torch.log).sum(-1)).mean(-1) for head in weights])


def _one_batch_dimension(weights):
    if weights.dim() == 2:
        return _Entropy()(weights)
    return torch.stack([-_terms(head, torch.log).sum() / head.shape[-2] for head in weights])


def _only_positive(weights):
    positive = weights[weights > 0]
    return -(positive * positive.log()).sum() / weights.shape[-2]


def _rows_with_nan(weights):
    return -(weights * weights.log()).sum(-1)


def _binary(weights):
    return -_terms(weights, torch.log) - _terms(1 - weights, torch.log)


def _clamped(weights):
    clamped = weights.clamp_min(0.01)
    return -(clamped * clamped.log()).sum(-1).mean(-1)


ENTROPY_MISTAKES = (
    KnownMistake(
        "ceros que dan NaN",
        lambda weights: -(weights * weights.log()).sum(-1).mean(-1),
        "Donde un peso es 0 sale NaN: 0 por menos infinito. Por convenio ese término vale 0: trátalo aparte o usa una "
        "función de torch que lo sepa.",
    ),
    KnownMistake(
        "en bits",
        _Entropy(terms=lambda weights: _terms(weights, torch.log2)),
        "Está en bits: has usado el logaritmo en base 2. Se pide en nats, con el natural, `torch.log`.",
    ),
    KnownMistake(
        "logaritmo decimal",
        _Entropy(terms=lambda weights: _terms(weights, torch.log10)),
        "Has usado el logaritmo decimal. Los nats son del natural, que en torch es `log` a secas.",
    ),
    KnownMistake(
        "logaritmo de uno más el peso",
        _Entropy(terms=lambda weights: weights * torch.log1p(weights)),
        "Usas el logaritmo de 1 más el peso, que no da NaN pero es otra función. El término es A·log A, y 0 donde A es "
        "0.",
    ),
    KnownMistake(
        "sin el signo",
        _Entropy(sign=1.0),
        "Te sale negativa, y una entropía no lo es. El logaritmo de un peso menor que 1 es negativo: falta el menos de "
        "delante.",
    ),
    KnownMistake(
        "suma de las consultas",
        _Entropy(reduce=lambda rows: rows.sum(-1)),
        "Sumas las entropías de las consultas, y una frase larga parece más repartida que una corta. Haz la media.",
    ),
    KnownMistake(
        "sobre las consultas",
        _Entropy(axis=-2),
        "Has cambiado las dos dimensiones: sumas sobre las consultas y promedias sobre las claves. El reparto es la "
        "fila: suma sobre las claves, que son la última, y promedia sobre la anterior.",
    ),
    KnownMistake(
        "también sobre las cabezas",
        _Entropy(reduce=lambda rows: rows.mean()),
        "Promedias todo, también las dimensiones de delante, y queda un solo número. La media es solo sobre las "
        "consultas.",
    ),
    KnownMistake(
        "sin promediar las consultas",
        _Entropy(reduce=lambda rows: rows),
        "Devuelves la entropía de cada consulta. Falta la media sobre ellas, para que quede un número por mapa.",
    ),
    KnownMistake(
        "media también de las claves",
        lambda weights: _Entropy()(weights) / weights.shape[-1],
        "Promedias sobre las claves en vez de sumar, y el resultado sale dividido entre n_k. La entropía de una fila "
        "es una suma; la media es de las filas.",
    ),
    KnownMistake(
        "en el orden contrario de las dimensiones",
        _Entropy(reduce=lambda rows: rows.mean(0)),
        "La media recorre la primera dimensión, que no siempre es la de las consultas. Cuenta desde el final: después "
        "de sumar las claves, las consultas son la última.",
    ),
    KnownMistake(
        "falta el peso",
        _Entropy(terms=lambda weights: torch.where(weights > 0, weights.log(), 0.0)),
        "Sumas los logaritmos sin multiplicar cada uno por su peso. Una clave a la que apenas se mira tiene que contar "
        "muy poco.",
    ),
    KnownMistake(
        "falta el peso, con ceros",
        _Entropy(terms=torch.log),
        "Sumas logaritmos a secas, y con un peso 0 salen infinitos. Cada logaritmo va multiplicado por su peso, y el "
        "término de un 0 vale 0.",
    ),
    KnownMistake(
        "peso al cuadrado",
        _Entropy(terms=lambda weights: weights * _terms(weights, torch.log)),
        "Cada logaritmo va multiplicado dos veces por su peso. Una basta.",
    ),
    KnownMistake(
        "perplejidad",
        lambda weights: _Entropy(reduce=lambda rows: rows.exp().mean(-1))(weights),
        "Devuelves la exponencial de la entropía: el número efectivo de claves. Es interesante, pero se pide la "
        "entropía: quita la exponencial.",
    ),
    KnownMistake(
        "perplejidad de la media",
        lambda weights: _Entropy()(weights).exp(),
        "La media está bien, y después le aplicas una exponencial, que la convierte en perplejidad. Quítala.",
    ),
    KnownMistake(
        "normalizada",
        _log_of_keys,
        "Divides entre log n_k, o usas n_k como base, y el máximo pasa a ser 1. Se pide en nats, sin normalizar.",
    ),
    KnownMistake(
        "lo que falta hasta el máximo",
        lambda weights: math.log(weights.shape[-1]) - _Entropy()(weights),
        "Das lo que le falta a la entropía para ser máxima: crece con lo concentrada que está la cabeza. Se pide lo "
        "contrario, lo repartida que está.",
    ),
    KnownMistake(
        "entropía de la fila media",
        lambda weights: _Entropy(reduce=lambda rows: rows)(weights.mean(-2)),
        "Promedias primero las filas y mides la fila media, que está más repartida que ninguna. Primero la entropía de "
        "cada consulta; después la media.",
    ),
    KnownMistake(
        "otra softmax",
        lambda weights: _Entropy()(weights.softmax(-1)),
        "Aplicas una softmax a lo que ya son pesos, y todas las filas parecen casi uniformes. Úsalos tal cual.",
    ),
    KnownMistake(
        "log_softmax de los pesos",
        lambda weights: -(weights * weights.log_softmax(-1)).sum(-1).mean(-1),
        "Tomas `log_softmax` de los pesos, que ya la llevan hecha. Aquí basta su logaritmo.",
    ),
    KnownMistake(
        "épsilon de una centésima",
        _Entropy(terms=lambda weights: weights * (weights + 1e-2).log()),
        "El épsilon que sumas dentro del logaritmo es del tamaño de los pesos, y los cambia. Que sea minúsculo, o "
        "trata el 0 aparte.",
    ),
    KnownMistake(
        "épsilon de una milésima",
        _Entropy(terms=lambda weights: weights * (weights + 1e-3).log()),
        "Casi: el resultado sale algo bajo, porque el épsilon que sumas dentro del logaritmo aún se nota en los pesos "
        "pequeños. Redúcelo mucho, o prescinde de él.",
    ),
    KnownMistake(
        "épsilon de una diezmilésima",
        _Entropy(terms=lambda weights: weights * (weights + 1e-4).log()),
        "Muy cerca, pero no: el épsilon de dentro del logaritmo aún baja algo el resultado. Basta con uno mucho menor, "
        "de los que no se notan en 32 bits.",
    ),
    KnownMistake(
        "pesos recortados",
        _clamped,
        "Recortas por abajo los pesos y cuentas los recortados: los que valían 0 ya suman algo. Recorta solo dentro "
        "del logaritmo, si acaso, y el peso de delante déjalo como está.",
    ),
    KnownMistake(
        "filas con ceros a cero",
        lambda weights: _rows_with_nan(weights).nan_to_num(0).mean(-1),
        "Quitas el NaN después de sumar, y una consulta con un solo peso 0 se queda entera sin entropía. Arregla cada "
        "término antes de la suma.",
    ),
    KnownMistake(
        "filas con ceros fuera",
        lambda weights: _rows_with_nan(weights).nanmean(-1),
        "Dejas fuera de la media las consultas en las que hay algún peso 0. Cuentan como las demás: lo que vale 0 es "
        "ese término, no la fila.",
    ),
    KnownMistake(
        "NaN a cero al final",
        lambda weights: _rows_with_nan(weights).mean(-1).nan_to_num(0),
        "El NaN lo quitas al final, cuando ya ha borrado la cabeza entera. Tiene que desaparecer término a término.",
    ),
    KnownMistake(
        "solo los positivos",
        _only_positive,
        "Al elegir los pesos positivos con corchetes se pierden las dimensiones, y los sumas todos juntos. Usa "
        "`torch.where`, que conserva la forma.",
    ),
    KnownMistake(
        "binaria",
        lambda weights: _binary(weights).sum(-1).mean(-1),
        "A cada peso le sumas el término de su complementario, como si cada clave fuera una moneda aparte. Una fila es "
        "un solo reparto entre todas: sobra esa parte.",
    ),
    KnownMistake(
        "uno menos el mayor",
        lambda weights: (1 - weights.amax(-1)).mean(-1),
        "Mides cuánto peso no se lleva la clave mayor. También habla de reparto, pero no es la entropía, que cuenta "
        "todas las claves con su logaritmo.",
    ),
    KnownMistake(
        "índice de Gini",
        lambda weights: (1 - weights.square().sum(-1)).mean(-1),
        "Restas a 1 la suma de los cuadrados: es otra medida de reparto, la de Gini y Simpson. La entropía lleva "
        "logaritmos.",
    ),
    KnownMistake(
        "la consulta más repartida",
        _Entropy(reduce=lambda rows: rows.amax(-1)),
        "Te quedas con la consulta más repartida. Se pide la media de todas.",
    ),
    KnownMistake(
        "la mediana",
        _Entropy(reduce=lambda rows: rows.median(-1).values),
        "Tomas la mediana de las consultas. Aquí se pide la media.",
    ),
    KnownMistake(
        "solo la primera consulta",
        _Entropy(reduce=lambda rows: rows[..., 0]),
        "Solo mides la primera consulta. Haz la media de todas.",
    ),
    KnownMistake(
        "una sola cabeza",
        lambda weights: _Entropy()(weights) if weights.dim() == 2 else _Entropy()(weights)[0],
        "Devuelves solo la primera de las dimensiones de delante: o el `return` está dentro del bucle, o has tomado "
        "`weights[0]`. Conserva las demás.",
    ),
    KnownMistake(
        "suma por lotes",
        _one_batch_dimension,
        "Con más de una dimensión delante, sumas juntas varias cabezas. Suma por la última dimensión y promedia por la "
        "siguiente, contando desde el final: las de delante ni se tocan.",
    ),
    KnownMistake(
        "la primera dimensión, siempre cabezas",
        _first_dimension_is_heads,
        "Recorres la primera dimensión como si fuera la de las cabezas, y cuando solo hay (n_q, n_k) recorres las "
        "consultas. Cuenta las dimensiones desde el final.",
    ),
    KnownMistake(
        "dimensiones contadas desde delante",
        lambda weights: -_terms(weights, torch.log).sum(2).mean(1),
        "Cuentas las dimensiones desde delante, como si siempre fueran (h, n_q, n_k), y pueden ser dos, tres o más. "
        "Las claves son la -1 y, una vez sumadas, las consultas también.",
        error="^IndexError: Dimension out of range",
    ),
    KnownMistake(
        "tres dimensiones fijas",
        lambda weights: torch.einsum("hqk->h", -_terms(weights, torch.log)) / weights.shape[1],
        "Tu función da por hecho que hay exactamente tres dimensiones, y pueden ser dos, tres o más. Lee solo las dos "
        "últimas, con -1 y -2.",
        error="einsum|values to unpack|positional arguments",
    ),
    KnownMistake(
        "una dimensión de más",
        lambda weights: -_terms(weights, torch.log).sum(-1, keepdim=True).mean(-2),
        "Sobra una dimensión de tamaño 1 al final, la que conserva `keepdim`. Quítalo y deja solo las dimensiones de "
        "delante.",
    ),
    KnownMistake(
        "un número de Python",
        lambda weights: _Entropy()(weights).item(),
        "Conviertes el resultado en un número de Python, y con varias cabezas no se puede. Devuelve el tensor: con "
        "(n_q, n_k), uno sin dimensiones.",
        error="cannot be converted to Scalar|only one element tensors",
    ),
)

ENTROPY = Check(
    id="5.2",
    reference=attention_entropy,
    cases=(
        Case("un solo mapa", lambda generator: _soft_weights(5, 8)(generator)),
        Case("cabezas con ceros", lambda generator: _weights_with_zeros(3, 6, 4)(generator)),
        Case("capas y cabezas", lambda generator: _soft_weights(2, 3, 4, 7)(generator)),
    ),
    mistakes=ENTROPY_MISTAKES,
    combined=_pairs_of(ENTROPY_MISTAKES, _Entropy),
)

# 5.3 · Acierto en una relación ------------------------------------------------------------------------------------


@out_of_reach
def relation_accuracy(weights, pairs):
    """Proporción de parejas cuyo dependiente tiene a su núcleo como clave más atendida. Voita et al. (2019), §5.2."""
    hits = [weights[:, dependent].argmax(dim=-1) == governor for dependent, governor in pairs]
    return torch.stack(hits).double().mean(dim=0)


def _relation(num_heads, n, num_pairs, *, governor_first):
    """Un caso: cada dependiente tiene un núcleo, siempre al mismo lado, y dos de ellos comparten el suyo.

    Una cabeza acierta siempre; las demás, la mitad de las veces o menos. Fallan de todas las maneras, y hay una pareja
    en la que fallan todas igual (y la media de los mapas, con ellas).
    """

    def make(generator):
        dependents = torch.randperm(n - 1, generator=generator)[:num_pairs].sort().values.tolist()
        governors = [_one_of(generator, range(dependent + 1, n)) for dependent in dependents]
        governors[0] = governors[1]
        pairs = list(zip(dependents, governors, strict=True))
        if governor_first:
            pairs = [(n - 1 - dependent, n - 1 - governor) for dependent, governor in pairs]
        pairs = _shuffled(generator, pairs)
        perfect = 1 + _one_of(generator, range(num_heads - 1))
        strongest, second = torch.randint(n, (2, num_heads, n), generator=generator)
        for head in range(num_heads):
            hits = num_pairs if head == perfect else 2 + _one_of(generator, range(num_pairs // 2 - 1))
            order = [*_shuffled(generator, [pairs[0], *pairs[2:]]), pairs[1]]
            for place, (i, governor) in enumerate(order):
                opposite = 2 * i - governor  # igual de lejos, por el otro lado
                misses = (i, opposite, 0, n - 1, governor + 1, governor - 1, _one_of(generator, governors))
                miss = _another(generator, n, misses[place % len(misses)], governor)
                strongest[head, i] = governor if place < hits else miss
                second[head, i] = governor if _chance(generator) < 0.6 else second[head, i]
            for i in set(range(n)) - {dependent for dependent, _ in pairs}:
                theirs = [dependent for dependent, governor in pairs if governor == i] or [i]
                strongest[head, i] = _one_of(generator, (*theirs, i, strongest[head, i]))
        return Call((_maps(generator, strongest, second), pairs))

    return make


def _ends(pairs):
    """Dependientes y núcleos, cada uno (parejas,)."""
    return torch.tensor(pairs).T


@dataclass(frozen=True)
class _Accuracy:
    """Aciertos por cabeza y pareja, y entre cuántas se divide. Un error conocido cambia una de las cosas."""

    hits: Callable = lambda weights, d, g: weights.argmax(-1)[:, d] == g  # (h, parejas)
    count: Callable = lambda weights, pairs: len(pairs)
    after: Callable = lambda scores: scores

    def __call__(self, weights, pairs):
        return self.after(self.hits(weights, *_ends(pairs)).float().sum(-1) / self.count(weights, pairs))


def _right(weights, pairs):
    return _Accuracy()(weights, pairs)


def _only_between_governors(weights, d, g):
    others = g.unique()
    return others[weights[:, d][..., others].argmax(-1)] == g


def _between_pairs(weights, d, g):
    """Las claves posibles, las de la lista: el núcleo de la pareja k tiene que ser el k-ésimo."""
    return weights[:, d][..., g].argmax(-1) == torch.arange(len(g))


def _last_pair_of_each_governor(weights, pairs):
    return _right(weights, [(dependent, governor) for governor, dependent in {g: d for d, g in pairs}.items()])


def _without_self(weights, d, g):
    hidden = weights.masked_fill(torch.eye(weights.shape[-1], dtype=torch.bool), -1.0)
    return _Accuracy().hits(hidden, d, g)


def _without_special(weights, d, g):
    hidden = weights.clone()
    hidden[..., [0, -1]] = -1.0
    return _Accuracy().hits(hidden, d, g)


def _fixed_offset(weights, pairs):
    d, g = _ends(pairs)
    usual = (g - d).mode().values
    return ((g - d) == usual).float().mean().expand(weights.shape[0])


def _head_by_dependent(weights, pairs):
    strongest = weights.argmax(-1)
    return torch.stack([(strongest[dependent] == governor).float().mean() for dependent, governor in pairs])


RELATION_MISTAKES = (
    KnownMistake(
        "orden de la pareja cambiado",
        _Accuracy(hits=lambda weights, d, g: weights.argmax(-1)[:, g] == d),
        "Preguntas si el núcleo mira a su dependiente. En cada pareja va primero el dependiente, que es quien mira, y "
        "después el núcleo.",
    ),
    KnownMistake(
        "peso en vez de argmax",
        _Accuracy(hits=lambda weights, d, g: weights[:, d, g]),
        "Promedias el peso que el dependiente da a su núcleo. Aquí se cuenta: acierta si el núcleo es su clave más "
        "atendida, y si no, no.",
    ),
    KnownMistake(
        "peso del núcleo a su dependiente",
        _Accuracy(hits=lambda weights, d, g: weights[:, g, d]),
        "Promedias pesos, y además al revés: los que el núcleo da a su dependiente. Mira la fila del dependiente y "
        "cuenta en cuántas parejas gana el núcleo.",
    ),
    KnownMistake(
        "media de las cabezas",
        _Accuracy(after=lambda scores: scores.mean()),
        "Sale un solo número, la media de todas las cabezas. Se pide el acierto de cada una: promedia solo sobre las "
        "parejas.",
    ),
    KnownMistake(
        "cabeza media",
        lambda weights, pairs: _right(weights.mean(0, keepdim=True), pairs)[0],
        "Promedias los mapas y mides el mapa medio, que no es de ninguna cabeza. Mide cada una por su lado.",
    ),
    KnownMistake(
        "una media por pareja",
        lambda weights, pairs: _Accuracy().hits(weights, *_ends(pairs)).float().mean(0),
        "Sale un número por pareja: en qué parte de las cabezas acierta. Promedia sobre las parejas, y queda uno por "
        "cabeza.",
    ),
    KnownMistake(
        "sin promediar",
        lambda weights, pairs: _Accuracy().hits(weights, *_ends(pairs)),
        "Devuelves si acierta cada cabeza en cada pareja, en booleanos. Pásalos a números y haz la media sobre las "
        "parejas.",
    ),
    KnownMistake(
        "sin promediar, en números",
        lambda weights, pairs: _Accuracy().hits(weights, *_ends(pairs)).float(),
        "Devuelves un 1 o un 0 por cabeza y pareja. Falta el último paso: la media sobre las parejas.",
    ),
    KnownMistake(
        "aciertos sin dividir",
        _Accuracy(count=lambda weights, pairs: 1),
        "Devuelves cuántas parejas acierta cada cabeza. Se pide la proporción: divide entre las parejas que hay.",
    ),
    KnownMistake(
        "entre los tokens",
        _Accuracy(count=lambda weights, pairs: weights.shape[-1]),
        "Divides entre el número de tokens, y no todos tienen pareja. Divide entre las parejas de la lista.",
    ),
    KnownMistake(
        "entre las cabezas",
        _Accuracy(count=lambda weights, pairs: weights.shape[0]),
        "Divides entre el número de cabezas. La proporción es de parejas acertadas: divide entre cuántas hay.",
    ),
    KnownMistake(
        "entre los núcleos distintos",
        _Accuracy(count=lambda weights, pairs: len({governor for _, governor in pairs})),
        "Divides entre los núcleos distintos, y un núcleo puede tener varios dependientes. Cada pareja cuenta una vez.",
    ),
    KnownMistake(
        "un dependiente por núcleo",
        _last_pair_of_each_governor,
        "Guardas las parejas en un diccionario por núcleo, y un núcleo con dos dependientes se queda con el último. "
        "Recorre la lista tal como llega.",
    ),
    KnownMistake(
        "en tanto por ciento",
        _Accuracy(after=lambda scores: 100 * scores),
        "Devuelves un tanto por ciento. Se pide una proporción entre 0 y 1.",
    ),
    KnownMistake(
        "proporción de fallos",
        _Accuracy(after=lambda scores: 1 - scores),
        "Das la proporción de parejas falladas. Cuenta las acertadas.",
    ),
    KnownMistake(
        "solo la primera pareja",
        lambda weights, pairs: _right(weights, pairs[:1]),
        "Solo cuenta la primera pareja: el `return` está dentro del bucle. Sácalo, a la altura del `for`.",
    ),
    KnownMistake(
        "solo la última pareja",
        lambda weights, pairs: _right(weights, pairs[-1:]),
        "Solo queda la última pareja: en cada vuelta del bucle pisas lo anterior con «=». Acumula los aciertos.",
    ),
    KnownMistake(
        "sin la última pareja",
        lambda weights, pairs: _right(weights, pairs[:-1]),
        "La última pareja no entra en la cuenta. Revisa dónde acaba el recorrido: cuentan todas las de la lista.",
    ),
    KnownMistake(
        "sin la primera pareja",
        lambda weights, pairs: _right(weights, pairs[1:]),
        "La primera pareja no entra en la cuenta. Empieza a recorrer la lista desde 0.",
    ),
    KnownMistake(
        "última pareja entre todas",
        lambda weights, pairs: _right(weights, pairs[-1:]) / len(pairs),
        "Divides entre todas las parejas lo que solo es de la última: dentro del bucle asignas en vez de sumar. Usa "
        "«+=».",
    ),
    KnownMistake(
        "todas o nada",
        lambda weights, pairs: _Accuracy().hits(weights, *_ends(pairs)).all(-1).float(),
        "Solo das 1 a la cabeza que acierta todas las parejas, y 0 a las demás: o lo exiges, o divides con «//», que "
        "tira los decimales. Se pide la proporción.",
    ),
    KnownMistake(
        "al menos una",
        lambda weights, pairs: _Accuracy().hits(weights, *_ends(pairs)).any(-1).float(),
        "Das 1 a la cabeza que acierta en alguna pareja. Cuenta en cuántas, y divide.",
    ),
    KnownMistake(
        "más de la mitad del peso",
        _Accuracy(hits=lambda weights, d, g: weights[:, d, g] > 0.5),
        "Exiges que el núcleo se lleve más de la mitad del peso. Basta con que sea la clave más atendida de su fila, "
        "aunque sea con menos.",
    ),
    KnownMistake(
        "entre las dos primeras",
        _Accuracy(hits=lambda weights, d, g: (weights[:, d].topk(2, dim=-1).indices == g[:, None]).any(-1)),
        "Das por acierto que el núcleo sea la segunda clave más atendida. Solo vale la primera.",
    ),
    KnownMistake(
        "la fila del núcleo",
        _Accuracy(hits=lambda weights, d, g: weights.argmax(-1)[:, g] == g),
        "Miras la fila del núcleo, y si se atiende a sí mismo. Quien mira es el dependiente: la fila es la suya.",
    ),
    KnownMistake(
        "el dependiente se mira a sí mismo",
        _Accuracy(hits=lambda weights, d, g: weights.argmax(-1)[:, d] == d),
        "Comparas la clave más atendida del dependiente con el propio dependiente. Compárala con su núcleo.",
    ),
    KnownMistake(
        "argmax sobre las consultas, en el dependiente",
        _Accuracy(hits=lambda weights, d, g: weights.argmax(-2)[:, d] == g),
        "El máximo recorre las consultas: buscas quién mira más al dependiente. Se pide a quién mira él: el máximo va "
        "por filas, sobre las claves.",
    ),
    KnownMistake(
        "argmax sobre las consultas, en el núcleo",
        _Accuracy(hits=lambda weights, d, g: weights.argmax(-2)[:, g] == d),
        "Buscas quién mira más al núcleo, y un núcleo puede tener varios dependientes. Ve fila a fila: a quién mira "
        "más cada dependiente.",
    ),
    KnownMistake(
        "argmax sin dimensión",
        lambda weights, pairs: torch.stack([weights[:, d].argmax() == g for d, g in pairs]).float().mean(),
        "Llamas a `argmax` sin decir la dimensión, y te da un solo índice para todas las cabezas. Pídelo sobre la "
        "última, la de las claves.",
    ),
    KnownMistake(
        "argmax sobre las cabezas",
        lambda weights, pairs: torch.stack([weights[:, d].argmax(0) == g for d, g in pairs]).float().mean(0),
        "El máximo recorre las cabezas: para cada clave, qué cabeza la mira más. Dentro de cada cabeza, busca la "
        "clave: la última dimensión.",
    ),
    KnownMistake(
        "en cualquiera de los dos sentidos",
        _Accuracy(hits=lambda weights, d, g: (weights.argmax(-1)[:, d] == g) | (weights.argmax(-1)[:, g] == d)),
        "Das por acierto que se miren en cualquiera de los dos sentidos. Solo cuenta uno: del dependiente a su núcleo.",
    ),
    KnownMistake(
        "núcleo siempre a la izquierda",
        _Accuracy(
            hits=lambda weights, d, g: weights.argmax(-1)[:, torch.maximum(d, g)] == torch.minimum(d, g),
        ),
        "Das por hecho que el núcleo va antes que el dependiente. Puede ir detrás: lo que dice quién es quién es el "
        "orden de la pareja.",
    ),
    KnownMistake(
        "núcleo siempre a la derecha",
        _Accuracy(
            hits=lambda weights, d, g: weights.argmax(-1)[:, torch.minimum(d, g)] == torch.maximum(d, g),
        ),
        "Ordenas las posiciones de cada pareja, como si el núcleo fuera siempre detrás. No las ordenes: la primera es "
        "la del dependiente.",
    ),
    KnownMistake(
        "posiciones desde 1",
        _Accuracy(hits=lambda weights, d, g: weights.argmax(-1)[:, d - 1] == g - 1),
        "Restas 1 a las posiciones, como si se contaran desde 1. Ya vienen desde 0, igual que filas y columnas.",
    ),
    KnownMistake(
        "posiciones desde 1, solo la clave",
        _Accuracy(hits=lambda weights, d, g: weights.argmax(-1)[:, d] == g - 1),
        "Comparas con la posición de justo antes del núcleo. El `argmax` ya cuenta desde 0, como las parejas: no "
        "restes nada.",
    ),
    KnownMistake(
        "una posición de más",
        _Accuracy(hits=lambda weights, d, g: weights.argmax(-1)[:, d] == g + 1),
        "Comparas con la posición de justo después del núcleo. No hay que sumar nada: todo se cuenta desde 0.",
    ),
    KnownMistake(
        "una posición de más en las dos",
        _Accuracy(hits=lambda weights, d, g: weights.argmax(-1)[:, (d + 1) % weights.shape[-1]] == g + 1),
        "Sumas 1 a las dos posiciones, como si delante hubiera un token especial. Las parejas ya son posiciones de "
        "`weights`.",
    ),
    KnownMistake(
        "sin sí mismo",
        _Accuracy(hits=_without_self),
        "Apartas la diagonal, y un dependiente que se mira sobre todo a sí mismo parece mirar a su núcleo. Busca el "
        "máximo en toda la fila.",
    ),
    KnownMistake(
        "sin los extremos",
        _Accuracy(hits=_without_special),
        "Apartas la primera y la última clave, como si fueran tokens especiales. Aquí no se excluye nada: usa la fila "
        "entera.",
    ),
    KnownMistake(
        "solo el pasado",
        _Accuracy(hits=lambda weights, d, g: _Accuracy().hits(weights.tril(), d, g)),
        "Apartas las claves que van detrás, como con una máscara causal, y el núcleo puede ir detrás. Busca en la fila "
        "entera.",
    ),
    KnownMistake(
        "solo entre núcleos",
        _Accuracy(hits=_only_between_governors),
        "Buscas el máximo solo entre los núcleos de la lista, y así se acierta más. La cabeza puede mirar a cualquier "
        "token: compara toda la fila.",
    ),
    KnownMistake(
        "solo entre las claves de la lista",
        _Accuracy(hits=_between_pairs),
        "Recortas las claves a las de la lista y comparas con el número de pareja. El máximo es de toda la fila, y se "
        "compara con la posición del núcleo.",
    ),
    KnownMistake(
        "a la misma distancia",
        _Accuracy(hits=lambda weights, d, g: (weights.argmax(-1)[:, d] - d).abs() == (g - d).abs()),
        "Comparas distancias sin signo, y mirar a otro token que está igual de lejos te vale. Compara posiciones.",
    ),
    KnownMistake(
        "la referencia de posición fija",
        _fixed_offset,
        "Todas las cabezas te dan lo mismo: mides cuántas parejas están a la distancia más frecuente, sin mirar los "
        "pesos. Eso es la referencia con la que se compara, no el acierto.",
    ),
    KnownMistake(
        "la mejor cabeza",
        _Accuracy(after=lambda scores: scores.amax()),
        "Te quedas con la cabeza que más acierta. Se piden todas: elegir viene después.",
    ),
    KnownMistake(
        "solo la primera cabeza",
        _Accuracy(after=lambda scores: scores[0]),
        "Solo mides la primera cabeza. Conserva la dimensión de cabezas: un número para cada una.",
    ),
    KnownMistake(
        "la menos mirada",
        _Accuracy(hits=lambda weights, d, g: weights.argmin(-1)[:, d] == g),
        "Buscas la clave que menos pesa. Es la que más: `argmax`.",
    ),
    KnownMistake(
        "el dependiente como cabeza",
        _head_by_dependent,
        "Usas la posición del dependiente para elegir una cabeza: la primera dimensión de `weights` es la de las "
        "cabezas. Las consultas son la segunda.",
        error="^IndexError: index .* out of bounds for dimension 0",
    ),
)

RELATION = Check(
    id="5.3",
    reference=relation_accuracy,
    cases=(
        Case("núcleos a la derecha", lambda generator: _relation(12, 14, 10, governor_first=False)(generator)),
        Case("núcleos a la izquierda", lambda generator: _relation(7, 17, 13, governor_first=True)(generator)),
    ),
    mistakes=RELATION_MISTAKES,
    combined=_pairs_of(RELATION_MISTAKES, _Accuracy),
)

CHECKS = (POSITIONAL, ENTROPY, RELATION)
