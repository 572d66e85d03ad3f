"""Comprobaciones del capítulo 07: cuánto importa una cabeza, puertas que se cierran solas y cómo quitarlas del todo."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from .ch05 import _pairs_of
from .compare import difference, number
from .framework import Call, Case, Check, KnownMistake, out_of_reach

# 7.1 · Importancia de Michel --------------------------------------------------------------------------------------


@out_of_reach
def head_importance(head_output, gradient):
    """Media, sobre los ejemplos, de |Σ salida · gradiente|. Michel et al. (2019), §4.1, sin normalizar por capa."""
    return (head_output * gradient).sum(dim=(2, 3)).abs().mean(dim=0)


def _outputs(*shape):
    """Un caso: salidas y gradientes al azar, que unas veces apuntan al mismo lado y otras al contrario."""

    def make(generator):
        head_output, gradient = torch.randn(2, *shape, generator=generator)
        return Call((head_output, gradient))

    return make


@dataclass(frozen=True)
class _Importance:
    """Producto, suma en cada ejemplo, valor absoluto y media del lote. Un error conocido cambia una de las cosas."""

    product: Callable = lambda output, gradient: output * gradient
    example: Callable = lambda product: product.sum((2, 3))  # (batch, h)
    size: Callable = lambda derivative: derivative.abs()
    batch: Callable = lambda sizes: sizes.mean(0)
    after: Callable = lambda scores: scores

    def __call__(self, head_output, gradient):
        return self.after(self.batch(self.size(self.example(self.product(head_output, gradient)))))


def _norms(head_output, gradient):
    return (head_output.flatten(2).norm(dim=-1) * gradient.flatten(2).norm(dim=-1)).mean(0)


def _every_pair_of_tokens(head_output, gradient):
    return (head_output @ gradient.mT).sum((2, 3)).abs().mean(0)


def _separate_sums(head_output, gradient):
    return (head_output.sum((2, 3)) * gradient.sum((2, 3))).abs().mean(0)


def _mean_example(head_output, gradient):
    return (head_output.mean(0) * gradient.mean(0)).sum((1, 2)).abs()


def _counted_heads(count):
    """El error de quien recorre un número fijo de cabezas."""
    return lambda head_output, gradient: torch.stack(
        [(head_output[:, i] * gradient[:, i]).sum((1, 2)).abs().mean(0) for i in range(count)]
    )


IMPORTANCE_MISTAKES = (
    KnownMistake(
        "valor absoluto después de la media",
        _Importance(size=lambda derivative: derivative, batch=lambda sizes: sizes.mean(0).abs()),
        "El valor absoluto va después de la media: los ejemplos a los que la cabeza ayuda se compensan con los que "
        "estorba. Ponlo antes, en la suma de cada ejemplo.",
    ),
    KnownMistake(
        "sin valor absoluto",
        _Importance(size=lambda derivative: derivative),
        "Salen importancias negativas: falta el valor absoluto. Tómalo en cada ejemplo, antes de promediar el lote.",
    ),
    KnownMistake(
        "valor absoluto de cada número",
        _Importance(size=lambda derivative: derivative, example=lambda product: product.abs().sum((2, 3))),
        "Tomas el valor absoluto de cada producto, y así nada se compensa dentro de un ejemplo. La puerta mueve la "
        "cabeza entera: suma primero sobre posiciones y columnas, y el valor absoluto después.",
    ),
    KnownMistake(
        "valor absoluto por posición",
        _Importance(size=lambda derivative: derivative, example=lambda product: product.sum(3).abs().sum(2)),
        "Tomas el valor absoluto en cada posición y sumas después. La puerta es una sola para toda la frase: suma "
        "también las posiciones antes.",
    ),
    KnownMistake(
        "valor absoluto por columna",
        _Importance(size=lambda derivative: derivative, example=lambda product: product.sum(2).abs().sum(2)),
        "Tomas el valor absoluto en cada columna y sumas después. Primero la suma entera de cada cabeza en cada "
        "ejemplo; luego, el valor absoluto.",
    ),
    KnownMistake(
        "valor absoluto de todo el lote",
        _Importance(size=lambda derivative: derivative, batch=lambda sizes: sizes.sum(0).abs()),
        "Sumas el lote entero y tomas el valor absoluto al final, sin dividir. El orden es otro: valor absoluto en "
        "cada ejemplo y, después, la media.",
    ),
    KnownMistake(
        "suma del lote",
        _Importance(batch=lambda sizes: sizes.sum(0)),
        "Sumas los ejemplos, y el resultado crece con el lote. Se pide la media sobre los ejemplos.",
    ),
    KnownMistake(
        "media de las posiciones y las columnas",
        _Importance(example=lambda product: product.mean((2, 3))),
        "Dentro de cada ejemplo promedias, y ahí se suma: el producto escalar de dos tensores es una suma. La única "
        "media es la de los ejemplos.",
    ),
    KnownMistake(
        "media de las posiciones",
        _Importance(example=lambda product: product.sum(3).mean(2)),
        "Divides entre el número de posiciones. Dentro de un ejemplo se suma sobre n y sobre d; solo se promedia el "
        "lote.",
    ),
    KnownMistake(
        "media de las columnas",
        _Importance(example=lambda product: product.mean(3).sum(2)),
        "Divides entre el número de columnas de la cabeza. Dentro de un ejemplo se suma sobre n y sobre d; la media es "
        "la de los ejemplos, y ninguna más.",
    ),
    KnownMistake(
        "normalizada con la norma ℓ2",
        _Importance(after=lambda scores: scores / scores.norm()),
        "Divides entre la norma de la capa. Es un paso que da Michel después, para comparar capas; aquí se pide sin "
        "normalizar.",
    ),
    KnownMistake(
        "normalizada a suma uno",
        _Importance(after=lambda scores: scores / scores.sum()),
        "Repartes la importancia para que sume 1. No se pide: deja la media tal como sale.",
    ),
    KnownMistake(
        "dividida entre la mayor",
        _Importance(after=lambda scores: scores / scores.amax()),
        "Divides entre la de la cabeza más importante. No se pide ninguna normalización: quita ese paso.",
    ),
    KnownMistake(
        "normalizada en cada ejemplo",
        _Importance(batch=lambda sizes: (sizes / sizes.norm(dim=1, keepdim=True)).mean(0)),
        "Normalizas las cabezas dentro de cada ejemplo antes de promediar, y todos los ejemplos pesan lo mismo. Aquí "
        "no se normaliza nada.",
    ),
    KnownMistake(
        "softmax",
        _Importance(after=lambda scores: scores.softmax(-1)),
        "Pasas las importancias por una softmax. No son puntuaciones de atención: deja la media tal como sale.",
    ),
    KnownMistake(
        "solo la salida",
        _Importance(product=lambda output, gradient: output),
        "Solo usas la salida de la cabeza. Que escriba mucho no dice que la pérdida dependa de ello: multiplica por el "
        "gradiente.",
    ),
    KnownMistake(
        "solo el gradiente",
        _Importance(product=lambda output, gradient: gradient),
        "Solo usas el gradiente. La derivada respecto a la puerta lo multiplica por lo que la cabeza escribe: falta "
        "`head_output`.",
    ),
    KnownMistake(
        "suma de los dos",
        _Importance(product=lambda output, gradient: output + gradient),
        "Sumas la salida y el gradiente. Es un producto escalar: multiplícalos número a número y suma después.",
    ),
    KnownMistake(
        "diferencia de los dos",
        _Importance(product=lambda output, gradient: output - gradient),
        "Restas el gradiente a la salida, como en un paso de entrenamiento. Aquí se multiplican, número a número.",
    ),
    KnownMistake(
        "producto de normas",
        _norms,
        "Multiplicas el tamaño de la salida por el del gradiente, y eso no sabe si apuntan al mismo lado. Multiplica "
        "número a número y suma.",
    ),
    KnownMistake(
        "norma de la salida",
        lambda head_output, gradient: head_output.flatten(2).norm(dim=-1).mean(0),
        "Mides el tamaño de lo que escribe cada cabeza. Una cabeza puede escribir mucho donde a la pérdida le da "
        "igual: usa también `gradient`.",
    ),
    KnownMistake(
        "norma del gradiente",
        lambda head_output, gradient: gradient.flatten(2).norm(dim=-1).mean(0),
        "Mides el tamaño del gradiente, sin lo que la cabeza escribe. Si no escribe nada, su puerta no cambia nada: "
        "usa también `head_output`.",
    ),
    KnownMistake(
        "coseno",
        lambda head_output, gradient: (
            torch.cosine_similarity(head_output.flatten(2), gradient.flatten(2), dim=-1).abs().mean(0)
        ),
        "Das el coseno entre la salida y el gradiente: se pierde cuánto miden. Quita las normas y deja el producto "
        "escalar.",
    ),
    KnownMistake(
        "norma de los productos",
        _Importance(example=lambda product: product.flatten(2).norm(dim=-1)),
        "Sumas los cuadrados de los productos y tomas la raíz: todo cuenta como positivo. Es una suma corriente, y el "
        "valor absoluto, después.",
    ),
    KnownMistake(
        "al cuadrado",
        _Importance(size=lambda derivative: derivative.square()),
        "Elevas al cuadrado en vez de tomar el valor absoluto, y un ejemplo con mucha derivada manda sobre los demás. "
        "Usa `abs`.",
    ),
    KnownMistake(
        "raíz de la media de los cuadrados",
        _Importance(size=lambda derivative: derivative.square(), batch=lambda sizes: sizes.mean(0).sqrt()),
        "Haces la raíz de la media de los cuadrados. Se parece, pero se pide la media de los valores absolutos.",
    ),
    KnownMistake(
        "solo lo positivo",
        _Importance(size=lambda derivative: derivative.clamp_min(0)),
        "Los ejemplos con derivada negativa cuentan como cero. También ahí importa la cabeza: usa el valor absoluto.",
    ),
    KnownMistake(
        "signo cambiado",
        _Importance(size=lambda derivative: -derivative),
        "Cambias el signo, como si midieras qué pasa al quitar la cabeza, y falta el valor absoluto. Importa cuánto se "
        "mueve la pérdida, hacia donde sea.",
    ),
    KnownMistake(
        "sumas por separado",
        _separate_sums,
        "Sumas la salida por un lado y el gradiente por otro, y multiplicas las sumas. Primero se multiplica número a "
        "número; después se suma.",
    ),
    KnownMistake(
        "lote promediado antes",
        _mean_example,
        "Promedias el lote antes de multiplicar: es la importancia en una frase media que no existe. Haz la cuenta en "
        "cada ejemplo y promedia al final.",
    ),
    KnownMistake(
        "lote promediado y valores absolutos sumados",
        lambda head_output, gradient: (head_output * gradient).mean(0).abs().sum((1, 2)),
        "Promedias el lote número a número y después sumas valores absolutos. El orden es el contrario: suma en cada "
        "ejemplo, valor absoluto y, al final, la media del lote.",
    ),
    KnownMistake(
        "todas las parejas de tokens",
        _every_pair_of_tokens,
        "Un producto de matrices cruza la salida de cada token con el gradiente de los demás. Cada número va con el de "
        "su mismo sitio: usa `*` y no `@`.",
    ),
    KnownMistake(
        "un número por ejemplo",
        lambda head_output, gradient: (head_output * gradient).sum((1, 2, 3)).abs(),
        "Sale un número por ejemplo: has sumado también las cabezas. La dimensión 1, la de cabezas, es la única que "
        "queda.",
    ),
    KnownMistake(
        "un número por ejemplo y cabeza",
        lambda head_output, gradient: (head_output * gradient).sum((2, 3)).abs(),
        "Devuelves un número por ejemplo y cabeza. Falta el último paso: la media sobre los ejemplos, la dimensión 0.",
    ),
    KnownMistake(
        "media de las cabezas",
        lambda head_output, gradient: (head_output * gradient).sum((2, 3)).abs().mean(1),
        "Promedias las cabezas y dejas los ejemplos. Es al revés: la media recorre el lote, que es la dimensión 0.",
    ),
    KnownMistake(
        "un número por posición",
        lambda head_output, gradient: (head_output * gradient).sum((1, 3)).abs().mean(0),
        "Sale un número por posición: has leído las dimensiones como (batch, n, h, d). Aquí las cabezas son la 1 y las "
        "posiciones, la 2.",
    ),
    KnownMistake(
        "un número por columna",
        lambda head_output, gradient: (head_output * gradient).sum((1, 2)).abs().mean(0),
        "Sale un número por columna: has sumado las cabezas y dejado la última dimensión. Se suman las dos últimas; la "
        "de cabezas, la 1, se queda.",
    ),
    KnownMistake(
        "un número por posición y cabeza",
        lambda head_output, gradient: (head_output * gradient).sum(3).abs().mean(0),
        "Queda un número por cabeza y posición: falta sumar las posiciones. Suma las dos últimas dimensiones antes del "
        "valor absoluto.",
    ),
    KnownMistake(
        "un solo número",
        _Importance(after=lambda scores: scores.mean()),
        "Sale un solo número, la media de todas las cabezas. Cada una tiene su importancia: no promedies las cabezas.",
    ),
    KnownMistake(
        "suma de las cabezas",
        _Importance(after=lambda scores: scores.sum()),
        "Sale un solo número, la suma de todas las cabezas. Se pide una importancia para cada una.",
    ),
    KnownMistake(
        "entre las cabezas",
        _Importance(batch=lambda sizes: sizes.sum(0) / sizes.shape[1]),
        "Divides entre el número de cabezas. La media es de los ejemplos: divide entre cuántos hay en el lote.",
    ),
    KnownMistake(
        "solo el primer ejemplo",
        _Importance(batch=lambda sizes: sizes[0]),
        "Solo cuenta el primer ejemplo. Recorre todo el lote y promedia.",
    ),
    KnownMistake(
        "solo el último ejemplo",
        _Importance(batch=lambda sizes: sizes[-1]),
        "Solo cuenta el último ejemplo: en el bucle, cada uno borra al anterior. Acumula todos y divide entre cuántos "
        "son.",
    ),
    KnownMistake(
        "el ejemplo mayor",
        _Importance(batch=lambda sizes: sizes.amax(0)),
        "Te quedas con el ejemplo en que más importa. Se pide la media de todos.",
    ),
    KnownMistake(
        "mediana",
        _Importance(batch=lambda sizes: sizes.median(0).values),
        "Tomas la mediana de los ejemplos. Se pide la media, que también cuenta los raros.",
    ),
    KnownMistake(
        "desviación típica",
        _Importance(size=lambda derivative: derivative, batch=lambda sizes: sizes.std(0)),
        "Das la desviación típica de las derivadas: cuánto cambian de un ejemplo a otro, y no cuánto miden. Es la "
        "media de sus valores absolutos.",
    ),
    KnownMistake(
        "orden en vez de importancia",
        _Importance(after=lambda scores: scores.argsort()),
        "Devuelves el orden en que se podarían. Ese es el paso siguiente: devuelve las importancias.",
    ),
    KnownMistake(
        "ocho cabezas fijas",
        _counted_heads(8),
        "Recorres ocho cabezas, haya las que haya. Léelas de la forma: son la dimensión 1 de `head_output`.",
        error="^IndexError",
    ),
    KnownMistake(
        "doce cabezas fijas",
        _counted_heads(12),
        "Cuentas con doce cabezas, como en BERT, y no siempre las hay. Cuántas son lo dice la forma de `head_output`.",
        error="^IndexError",
    ),
)

IMPORTANCE = Check(
    id="7.1",
    reference=head_importance,
    cases=(
        Case("ocho cabezas", _outputs(5, 8, 6, 3)),
        Case("doce cabezas", _outputs(7, 12, 4, 5)),
    ),
    mistakes=IMPORTANCE_MISTAKES,
    combined=_pairs_of(IMPORTANCE_MISTAKES, _Importance),
)

# 7.2 · La puerta Hard Concrete ------------------------------------------------------------------------------------


@out_of_reach
def hard_concrete(log_alpha, u, beta=2 / 3, gamma=-0.1, zeta=1.1):
    """min(1, max(0, σ((log u − log(1 − u) + log α)/β)·(ζ − γ) + γ)). Louizos et al. (2018), ec. 10–11."""
    s = torch.sigmoid((torch.log(u) - torch.log(1 - u) + log_alpha) / beta)
    return (s * (zeta - gamma) + gamma).clamp(0, 1)


def _shuffled_range(generator, low, high, shape):
    """Números repartidos por igual entre los dos extremos, en cualquier orden."""
    count = math.prod(shape)
    return torch.linspace(low, high, count)[torch.randperm(count, generator=generator)].reshape(shape)


def _draws(*shape, **given):
    """Un caso: puertas cerradas, abiertas y a medias (log α y u recorren su margen, y se cruzan al azar)."""

    def make(generator):
        log_alpha = _shuffled_range(generator, -3.5, 3.5, shape)
        return Call((log_alpha, _shuffled_range(generator, 0.03, 0.97, shape)), given)

    return make


def _extreme_draws(*shape, **given):
    """Un caso con log α de ±50 y u muy cerca de 0 y de 1, además de puertas corrientes."""

    def make(generator):
        log_alpha = _shuffled_range(generator, -2.0, 2.0, shape)
        u = _shuffled_range(generator, 0.1, 0.9, shape)
        far = torch.randperm(len(log_alpha), generator=generator)
        for place, value in zip(far.tolist(), (50.0, -50.0, 50.0, -50.0), strict=False):
            log_alpha[place] = value
        for place, value in zip(far.tolist(), (1e-6, 1 - 1e-6, 1 - 1e-6, 1e-6), strict=False):
            u[place] = value
        return Call((log_alpha, u), given)

    return make


@dataclass(frozen=True)
class _Gate:
    """Ruido, sigmoide, estirado y recorte. Un error conocido cambia una de las cosas."""

    given: Callable = lambda beta, gamma, zeta: (beta, gamma, zeta)
    noise: Callable = lambda u: u.log() - (1 - u).log()
    soft: Callable = lambda noise, log_alpha, beta: torch.sigmoid((noise + log_alpha) / beta)
    stretch: Callable = lambda s, gamma, zeta: s * (zeta - gamma) + gamma
    clip: Callable = lambda stretched, gamma, zeta: stretched.clamp(0, 1)
    after: Callable = lambda gates: gates

    def __call__(self, log_alpha, u, beta=2 / 3, gamma=-0.1, zeta=1.1):
        beta, gamma, zeta = self.given(beta, gamma, zeta)
        s = self.soft(self.noise(u), log_alpha, beta)
        return self.after(self.clip(self.stretch(s, gamma, zeta), gamma, zeta))


def _third_as_default(log_alpha, u, beta=1 / 3, gamma=-0.1, zeta=1.1):
    return _Gate()(log_alpha, u, beta, gamma, zeta)


def _overflowing(noise, log_alpha, beta):
    power = ((noise + log_alpha) / beta).exp()
    return power / (1 + power)


def _python_min_max(log_alpha, u, beta=2 / 3, gamma=-0.1, zeta=1.1):
    s = torch.sigmoid((u.log() - (1 - u).log() + log_alpha) / beta)
    return min(1, max(0, s * (zeta - gamma) + gamma))


GATE_MISTAKES = (
    KnownMistake(
        "sin recortar",
        _Gate(clip=lambda stretched, gamma, zeta: stretched),
        "Salen puertas por debajo de 0 y por encima de 1: falta recortar, o recortas donde no hay nada que recortar "
        "(antes de estirar, o entre γ y ζ). El recorte a [0, 1] es lo último.",
    ),
    KnownMistake(
        "sin estirar",
        _Gate(stretch=lambda s, gamma, zeta: s),
        "Ninguna puerta llega a 0 ni a 1: falta estirar. Lleva s de (0, 1) a (γ, ζ) antes de recortar.",
    ),
    KnownMistake(
        "solo recortada por abajo",
        _Gate(clip=lambda stretched, gamma, zeta: stretched.clamp_min(0)),
        "Recortas por abajo y no por arriba: hay puertas mayores que 1. Falta el otro extremo.",
    ),
    KnownMistake(
        "solo recortada por arriba",
        _Gate(clip=lambda stretched, gamma, zeta: stretched.clamp_max(1)),
        "Recortas por arriba y no por abajo: hay puertas negativas, y ninguna se cierra. Falta el otro extremo.",
    ),
    KnownMistake(
        "β multiplica",
        _Gate(soft=lambda noise, log_alpha, beta: torch.sigmoid((noise + log_alpha) * beta)),
        "Multiplicas por β donde se divide. Una β pequeña tiene que empujar las puertas hacia los extremos, no hacia "
        "el centro.",
    ),
    KnownMistake(
        "sin β",
        _Gate(soft=lambda noise, log_alpha, beta: torch.sigmoid(noise + log_alpha)),
        "β no interviene. Divide entre ella la suma entera, ruido y log α, antes de la sigmoide.",
    ),
    KnownMistake(
        "log α sin dividir",
        _Gate(soft=lambda noise, log_alpha, beta: torch.sigmoid(noise / beta + log_alpha)),
        "Divides entre β el ruido y no log α. Faltan unos paréntesis: se divide la suma de los dos.",
    ),
    KnownMistake(
        "ruido sin dividir",
        _Gate(soft=lambda noise, log_alpha, beta: torch.sigmoid(noise + log_alpha / beta)),
        "Divides entre β solo log α, y el ruido se queda fuera: en Python la división va antes que la suma. Pon "
        "paréntesis alrededor de la suma.",
    ),
    KnownMistake(
        "signo de log α",
        _Gate(soft=lambda noise, log_alpha, beta: torch.sigmoid((noise - log_alpha) / beta)),
        "Restas log α: con un log α grande la puerta se cierra. Es al revés, cuanto mayor, más abierta: súmalo.",
    ),
    KnownMistake(
        "u al revés",
        _Gate(noise=lambda u: (1 - u).log() - u.log()),
        "El ruido tiene el signo cambiado: has puesto 1 − u donde va u. La distribución es la misma, pero con esa u la "
        "puerta es otra; va primero log u.",
    ),
    KnownMistake(
        "logaritmos sumados",
        _Gate(noise=lambda u: u.log() + (1 - u).log()),
        "Sumas los dos logaritmos del ruido, y así siempre es negativo. Se restan: log u menos log(1 − u).",
    ),
    KnownMistake(
        "solo log u",
        _Gate(noise=lambda u: u.log()),
        "El ruido es solo log u, que siempre cierra. Réstale log(1 − u) para que empuje por igual a los dos lados.",
    ),
    KnownMistake(
        "falta log u",
        _Gate(noise=lambda u: -(1 - u).log()),
        "En el ruido falta log u: lo que dejas siempre abre. Van los dos logaritmos, uno menos el otro.",
    ),
    KnownMistake(
        "u sin logaritmos",
        _Gate(noise=lambda u: u),
        "Sumas u tal cual. El ruido es log u − log(1 − u), que va de −∞ a ∞ y está centrado en 0.",
    ),
    KnownMistake(
        "odds sin logaritmo",
        _Gate(noise=lambda u: u / (1 - u)),
        "Sumas u/(1 − u) sin tomar el logaritmo, y el ruido siempre es positivo. Toma el logaritmo de ese cociente.",
    ),
    KnownMistake(
        "ruido de Gumbel",
        _Gate(noise=lambda u: -(-u.log()).log()),
        "Ese es el ruido de Gumbel, −log(−log u), el de elegir entre varias opciones. Aquí son dos, abierta o cerrada, "
        "y la diferencia de dos de ellos es el logístico: log u − log(1 − u).",
    ),
    KnownMistake(
        "sin ruido",
        _Gate(noise=lambda u: torch.zeros_like(u)),
        "`u` no interviene: das la puerta sin sorteo. Suma a log α el ruido que sale de `u`, antes de dividir entre β.",
    ),
    KnownMistake(
        "la puerta determinista",
        _Gate(soft=lambda noise, log_alpha, beta: torch.sigmoid(log_alpha)),
        "Esa es la puerta sin sorteo, σ(log α) estirada: no usa ni `u` ni `beta`. Aquí se pide la sorteada.",
    ),
    KnownMistake(
        "sin log α",
        _Gate(soft=lambda noise, log_alpha, beta: torch.sigmoid(noise / beta)),
        "`log_alpha` no interviene: todas las puertas se sortean igual. Súmalo al ruido antes de dividir.",
    ),
    KnownMistake(
        "α en vez de log α",
        _Gate(soft=lambda noise, log_alpha, beta: torch.sigmoid((noise + log_alpha.exp()) / beta)),
        "Sumas α y no log α: le has puesto una exponencial. `log_alpha` ya es el logaritmo; súmalo como llega.",
    ),
    KnownMistake(
        "logaritmo de log α",
        _Gate(soft=lambda noise, log_alpha, beta: torch.sigmoid((noise + log_alpha.log()) / beta)),
        "Tomas el logaritmo de `log_alpha`, que ya lo es, y de los negativos sale NaN. Súmalo como llega.",
    ),
    KnownMistake(
        "sin sigmoide",
        _Gate(soft=lambda noise, log_alpha, beta: (noise + log_alpha) / beta),
        "Falta la sigmoide: estiras un número que va de −∞ a ∞. Pásalo antes por σ.",
    ),
    KnownMistake(
        "tangente hiperbólica",
        _Gate(soft=lambda noise, log_alpha, beta: torch.tanh((noise + log_alpha) / beta)),
        "Usas la tangente hiperbólica, que va de −1 a 1. La sigmoide va de 0 a 1, que es lo que se estira.",
    ),
    KnownMistake(
        "extremos cambiados",
        _Gate(stretch=lambda s, gamma, zeta: s * (gamma - zeta) + zeta),
        "Has cambiado γ por ζ al estirar: s = 0 tiene que ir a γ y s = 1, a ζ. Así las puertas salen del revés.",
    ),
    KnownMistake(
        "estirada sin desplazar",
        _Gate(stretch=lambda s, gamma, zeta: s * (zeta - gamma)),
        "Multiplicas por el ancho del intervalo y no desplazas: ninguna puerta se cierra del todo. Falta sumar γ.",
    ),
    KnownMistake(
        "desplazada en ζ",
        _Gate(stretch=lambda s, gamma, zeta: s * (zeta - gamma) + zeta),
        "Al estirar sumas ζ, y casi todo queda abierto. Con s = 0 tiene que salir γ: esa es la que se suma.",
    ),
    KnownMistake(
        "desplazada sin estirar",
        _Gate(stretch=lambda s, gamma, zeta: s + gamma),
        "Desplazas s sin ensancharla: se cierran muchas y ninguna llega a 1. Multiplica antes por el ancho del "
        "intervalo, de γ a ζ.",
    ),
    KnownMistake(
        "estirada hasta uno",
        _Gate(stretch=lambda s, gamma, zeta: s * (1 - gamma) + gamma),
        "Estiras hasta 1, y no hasta ζ: ninguna puerta vale 1 exacto. El intervalo acaba en ζ, que pasa de 1.",
    ),
    KnownMistake(
        "solo por ζ",
        _Gate(stretch=lambda s, gamma, zeta: s * zeta),
        "`gamma` no interviene: estiras solo por arriba, y ninguna puerta se cierra. El intervalo empieza en γ, por "
        "debajo de 0.",
    ),
    KnownMistake(
        "ancho ζ",
        _Gate(stretch=lambda s, gamma, zeta: s * zeta + gamma),
        "Multiplicas por ζ, y el intervalo se queda corto por arriba. Su ancho va de γ a ζ: la diferencia de los dos.",
    ),
    KnownMistake(
        "ancho con γ de más",
        _Gate(stretch=lambda s, gamma, zeta: s * (zeta + gamma) + gamma),
        "El ancho del intervalo es ζ − γ, y has sumado γ. Como γ es negativa, al restarla el intervalo crece.",
    ),
    KnownMistake(
        "γ restada",
        _Gate(stretch=lambda s, gamma, zeta: s * (zeta - gamma) - gamma),
        "Restas γ al desplazar, y como es negativa todo sube. Se suma, con su signo: s = 0 tiene que caer por debajo "
        "de 0.",
    ),
    KnownMistake(
        "estirada al revés",
        _Gate(stretch=lambda s, gamma, zeta: (s - gamma) / (zeta - gamma)),
        "Encoges en vez de estirar: llevas (γ, ζ) a (0, 1). Se hace lo contrario, multiplicar por el ancho y sumar γ.",
    ),
    KnownMistake(
        "redondeada",
        _Gate(after=lambda gates: gates.round()),
        "Redondeas la puerta a 0 o 1, y deja de tener gradiente. Devuélvela tal como queda tras recortar, también si "
        "está a medias.",
    ),
    KnownMistake(
        "abierta o no",
        _Gate(after=lambda gates: (gates > 0).float()),
        "Devuelves 1 en cuanto la puerta no es 0. Se pide su valor, que puede quedar a medias.",
    ),
    KnownMistake(
        "puerta cerrada",
        _Gate(after=lambda gates: 1 - gates),
        "Devuelves 1 menos la puerta. La puerta multiplica a la cabeza: 1 es abierta.",
    ),
    KnownMistake(
        "logaritmo en base 2",
        _Gate(noise=lambda u: u.log2() - (1 - u).log2()),
        "El ruido usa logaritmos en base 2. Son naturales: `torch.log`.",
    ),
    KnownMistake(
        "logaritmo en base 10",
        _Gate(noise=lambda u: u.log10() - (1 - u).log10()),
        "El ruido usa logaritmos decimales y se queda corto. Son naturales: `torch.log`, sin cifras en el nombre.",
    ),
    KnownMistake(
        "β fija",
        _Gate(given=lambda beta, gamma, zeta: (2 / 3, gamma, zeta)),
        "Con otra `beta` no cambia nada: has escrito su valor por omisión dentro de la función. Usa el argumento.",
    ),
    KnownMistake(
        "γ y ζ fijas",
        _Gate(given=lambda beta, gamma, zeta: (beta, -0.1, 1.1)),
        "Con otras `gamma` y `zeta` no cambia nada: están escritas dentro de la función. Usa los argumentos.",
    ),
    KnownMistake(
        "β, γ y ζ fijas",
        _Gate(given=lambda beta, gamma, zeta: (2 / 3, -0.1, 1.1)),
        "`beta`, `gamma` y `zeta` no intervienen: sus valores por omisión están escritos dentro de la función, y solo "
        "acierta con ellos. Usa los tres argumentos.",
    ),
    KnownMistake(
        "ζ sacada de γ",
        _Gate(given=lambda beta, gamma, zeta: (beta, gamma, 1 - gamma)),
        "Das por hecho que el intervalo sobresale igual por los dos lados. γ y ζ son independientes: usa `zeta`.",
    ),
    KnownMistake(
        "otra β por omisión",
        _third_as_default,
        "Aciertas cuando `beta` se da, y no cuando falta: su valor por omisión no es el del enunciado. Copia la línea "
        "del `def`.",
    ),
    KnownMistake(
        "exponencial que se desborda",
        _Gate(soft=_overflowing),
        "Con log α muy grande salen NaN: la exponencial se desborda arriba y abajo, y ∞/∞ no es nada. Usa "
        "`torch.sigmoid`, o deja la exponencial solo en el denominador.",
    ),
    KnownMistake(
        "min y max de Python",
        _python_min_max,
        "`min` y `max` no recortan un tensor: los de Python comparan dos números, y los de torch quieren dos tensores. "
        "Usa `clamp(0, 1)`.",
        error=r"ambiguous|(max|min)(imum)?\(\)",
    ),
)

GATE = Check(
    id="7.2",
    reference=hard_concrete,
    cases=(
        Case("con los valores por omisión", _draws(6, 9)),
        Case("con otras β, γ y ζ", _draws(3, 5, 4, beta=0.5, gamma=-0.3, zeta=1.15)),
        Case("con log α de ±50 y otra β", _extreme_draws(14, beta=0.33)),
    ),
    mistakes=GATE_MISTAKES,
    combined=_pairs_of(GATE_MISTAKES, _Gate),
)

# 7.3 · Probabilidad de que esté abierta ---------------------------------------------------------------------------


@out_of_reach
def expected_open(log_alpha, beta=2 / 3, gamma=-0.1, zeta=1.1):
    """P(g ≠ 0) = σ(log α − β·log(−γ/ζ)). Louizos et al. (2018), ec. 12."""
    return torch.sigmoid(log_alpha - beta * math.log(-gamma / zeta))


def _gates(*shape, extremes=False, **given):
    """Un caso: log α de puertas casi siempre cerradas a casi siempre abiertas; con `extremes`, también ±50."""

    def make(generator):
        log_alpha = _shuffled_range(generator, -5.0, 4.0, shape)
        if extremes:
            log_alpha.view(-1)[:2] = torch.tensor([50.0, -50.0])
        return Call((log_alpha,), given)

    return make


@dataclass(frozen=True)
class _Open:
    """Umbral, su resta y la sigmoide. Un error conocido cambia una de las cosas."""

    given: Callable = lambda beta, gamma, zeta: (beta, gamma, zeta)
    ratio: Callable = lambda gamma, zeta: -gamma / zeta
    logit: Callable = lambda log_alpha, beta, log_ratio: log_alpha - beta * log_ratio
    squash: Callable = torch.sigmoid
    after: Callable = lambda probabilities: probabilities

    def __call__(self, log_alpha, beta=2 / 3, gamma=-0.1, zeta=1.1):
        beta, gamma, zeta = self.given(beta, gamma, zeta)
        log_ratio = torch.as_tensor(self.ratio(gamma, zeta), dtype=torch.float64).log().to(log_alpha.dtype)
        return self.after(self.squash(self.logit(log_alpha, beta, log_ratio)))


def _third_when_missing(log_alpha, beta=1 / 3, gamma=-0.1, zeta=1.1):
    return _Open()(log_alpha, beta, gamma, zeta)


def _neither_open_nor_closed(log_alpha, beta=2 / 3, gamma=-0.1, zeta=1.1):
    one = torch.sigmoid(log_alpha - beta * math.log((1 - gamma) / (zeta - 1)))
    return _Open()(log_alpha, beta, gamma, zeta) - one


def _deterministic(log_alpha, beta=2 / 3, gamma=-0.1, zeta=1.1):
    return (torch.sigmoid(log_alpha) * (zeta - gamma) + gamma).clamp(0, 1)


def _without_noise(log_alpha, beta=2 / 3, gamma=-0.1, zeta=1.1):
    return (torch.sigmoid(log_alpha / beta) * (zeta - gamma) + gamma).clamp(0, 1)


def _by_draws(value, log_alpha, beta=2 / 3, gamma=-0.1, zeta=1.1):
    """Probabilidades que se apartan de las debidas lo que se aparta un sorteo."""
    right = torch.sigmoid(log_alpha - beta * math.log(-gamma / zeta))
    if not isinstance(value, torch.Tensor) or value.shape != right.shape or difference(value, right) == "tipo":
        return False
    return bool(((value.double() - right).abs() < 0.07).all())


OPEN_MISTAKES = (
    KnownMistake(
        "probabilidad de cerrada",
        _Open(after=lambda probabilities: 1 - probabilities),
        "Es la probabilidad de que la puerta valga 0: baja cuando log α sube. Se pide la contraria, la de que *no* "
        "valga 0.",
    ),
    KnownMistake(
        "sin β",
        _Open(logit=lambda log_alpha, beta, log_ratio: log_alpha - log_ratio),
        "`beta` no interviene. Al despejar el ruido de la sigmoide multiplica al logaritmo del umbral.",
    ),
    KnownMistake(
        "signo del logaritmo",
        _Open(logit=lambda log_alpha, beta, log_ratio: log_alpha + beta * log_ratio),
        "El término del logaritmo tiene el signo cambiado, o el cociente está del revés. Compruébalo: con log α = 0 "
        "tiene que ser más fácil estar abierta que cerrada.",
    ),
    KnownMistake(
        "sin β y con el signo cambiado",
        _Open(logit=lambda log_alpha, beta, log_ratio: log_alpha + log_ratio),
        "Faltan dos cosas en el término del logaritmo: β, que lo multiplica, y el signo, que es el contrario. Despeja "
        "la desigualdad paso a paso.",
    ),
    KnownMistake(
        "signo de log α",
        _Open(logit=lambda log_alpha, beta, log_ratio: -log_alpha - beta * log_ratio),
        "log α tiene el signo cambiado: cuanto mayor es, más cerrada te sale. Súmalo.",
    ),
    KnownMistake(
        "probabilidad de uno",
        _Open(ratio=lambda gamma, zeta: (1 - gamma) / (zeta - 1)),
        "Esa es la probabilidad de que la puerta valga exactamente 1. Abierta es no valer 0: cuentan también las que "
        "quedan a medias. El umbral de la estirada es 0.",
    ),
    KnownMistake(
        "probabilidad de no ser uno",
        _Open(ratio=lambda gamma, zeta: (1 - gamma) / (zeta - 1), after=lambda probabilities: 1 - probabilities),
        "Das la probabilidad de que no valga 1, y ahí cuentas las cerradas. Se pide la de que no valga 0.",
    ),
    KnownMistake(
        "a medias",
        _neither_open_nor_closed,
        "Das la probabilidad de quedar a medias, ni 0 ni 1. Las que valen 1 también están abiertas: no las quites.",
    ),
    KnownMistake(
        "σ(log α)",
        _Open(logit=lambda log_alpha, beta, log_ratio: log_alpha),
        "Das σ(log α), sin `beta`, `gamma` ni `zeta`. Al estirar, la puerta deja de ser 0 bastante antes de la mitad: "
        "falta restar el término del umbral.",
    ),
    KnownMistake(
        "más de la mitad",
        _Open(ratio=lambda gamma, zeta: (0.5 - gamma) / (zeta - 0.5)),
        "Das la probabilidad de que la puerta pase de la mitad. Abierta es que pase de 0: cambia el umbral.",
    ),
    KnownMistake(
        "todo entre β",
        _Open(logit=lambda log_alpha, beta, log_ratio: (log_alpha - log_ratio) / beta),
        "Divides entre β, como al sortear la puerta. Aquí se despeja al revés: β multiplica, y solo al logaritmo del "
        "umbral.",
    ),
    KnownMistake(
        "log α entre β",
        _Open(logit=lambda log_alpha, beta, log_ratio: log_alpha / beta - log_ratio),
        "Divides log α entre β y dejas el umbral sin ella. Multiplica toda la desigualdad por β y volverás a tener "
        "log α sin dividir.",
    ),
    KnownMistake(
        "logaritmo entre β",
        _Open(logit=lambda log_alpha, beta, log_ratio: log_alpha - log_ratio / beta),
        "El logaritmo del umbral va dividido entre β. Al pasar al otro lado de la desigualdad, β multiplica.",
    ),
    KnownMistake(
        "β multiplica a todo",
        _Open(logit=lambda log_alpha, beta, log_ratio: beta * (log_alpha - log_ratio)),
        "β multiplica también a log α. Solo acompaña al logaritmo del umbral: revisa los paréntesis.",
    ),
    KnownMistake(
        "logaritmo de un negativo",
        lambda log_alpha, beta=2 / 3, gamma=-0.1, zeta=1.1: torch.sigmoid(log_alpha - beta * math.log(gamma / zeta)),
        "Tomas el logaritmo de un número negativo: γ lo es, y ζ no. El umbral es −γ entre ζ: falta un signo dentro del "
        "logaritmo.",
        error="math domain error|expected a positive input",
    ),
    KnownMistake(
        "NaN",
        _Open(ratio=lambda gamma, zeta: gamma / zeta),
        "Todo sale NaN: torch no avisa cuando tomas el logaritmo de un negativo, y γ lo es. Cámbiale el signo dentro "
        "del logaritmo.",
    ),
    KnownMistake(
        "umbral sin despejar la sigmoide",
        _Open(ratio=lambda gamma, zeta: -gamma / (zeta - gamma)),
        "Te quedas en el valor de s en que se abre, −γ entre ζ − γ, y tomas su logaritmo. Falta deshacer la sigmoide: "
        "es el logaritmo de ese valor entre lo que le falta para 1.",
    ),
    KnownMistake(
        "umbral −γ",
        _Open(ratio=lambda gamma, zeta: -gamma),
        "ζ no interviene: el logaritmo es solo el de −γ. Divide entre ζ dentro de él.",
    ),
    KnownMistake(
        "umbral ζ",
        _Open(ratio=lambda gamma, zeta: zeta),
        "γ no interviene: el logaritmo es solo el de ζ. El cociente lleva −γ arriba.",
    ),
    KnownMistake(
        "umbral por el ancho",
        _Open(ratio=lambda gamma, zeta: zeta - gamma),
        "Tomas el logaritmo del ancho del intervalo. Pregúntate con qué s la estirada vale 0, y deshaz la sigmoide.",
    ),
    KnownMistake(
        "umbral sin logaritmo",
        lambda log_alpha, beta=2 / 3, gamma=-0.1, zeta=1.1: torch.sigmoid(log_alpha + beta * gamma / zeta),
        "Restas el cociente sin tomar su logaritmo. La inversa de la sigmoide lo lleva.",
    ),
    KnownMistake(
        "sin sigmoide",
        _Open(squash=lambda logit: logit),
        "Salen números menores que 0 y mayores que 1: falta la sigmoide. Una probabilidad está entre los dos.",
    ),
    KnownMistake(
        "logaritmo de la probabilidad",
        _Open(after=lambda probabilities: probabilities.log()),
        "Devuelves el logaritmo de la probabilidad. Quita ese último paso.",
    ),
    KnownMistake(
        "α en vez de log α",
        _Open(logit=lambda log_alpha, beta, log_ratio: log_alpha.exp() - beta * log_ratio),
        "Le has puesto una exponencial a log α. Dentro de la sigmoide va el logaritmo, tal como llega.",
    ),
    KnownMistake(
        "la puerta sin sorteo",
        _deterministic,
        "Devuelves cuánto vale la puerta sin sorteo. Se pide una probabilidad: en qué parte de los sorteos no vale 0.",
    ),
    KnownMistake(
        "la puerta con ruido cero",
        _without_noise,
        "Devuelves la puerta que sale cuando el ruido es 0. Lo que se pide es con qué probabilidad el ruido la deja "
        "abierta.",
    ),
    KnownMistake(
        "¿más de la mitad de las veces?",
        _Open(after=lambda probabilities: (probabilities > 0.5).float()),
        "Devuelves 1 o 0 según lo más probable. Se pide la probabilidad misma.",
    ),
    KnownMistake(
        "suma",
        _Open(after=lambda probabilities: probabilities.sum()),
        "Sumas todas las puertas: eso es ya la penalización. Se pide una probabilidad por puerta.",
    ),
    KnownMistake(
        "media",
        _Open(after=lambda probabilities: probabilities.mean()),
        "Sale un solo número, la media de las puertas. Cada una tiene su probabilidad: quita la media.",
    ),
    KnownMistake(
        "base 2",
        _Open(logit=lambda log_alpha, beta, log_ratio: log_alpha - beta * log_ratio / math.log(2)),
        "El logaritmo del umbral está en base 2. Es el natural: `math.log`.",
    ),
    KnownMistake(
        "base 10",
        _Open(logit=lambda log_alpha, beta, log_ratio: log_alpha - beta * log_ratio / math.log(10)),
        "El logaritmo del umbral es decimal. Es el natural: `math.log`, sin cifras en el nombre.",
    ),
    KnownMistake(
        "β fija",
        _Open(given=lambda beta, gamma, zeta: (2 / 3, gamma, zeta)),
        "Cambie `beta` lo que cambie, usas su valor por omisión. Usa el que llega.",
    ),
    KnownMistake(
        "γ y ζ fijas",
        _Open(given=lambda beta, gamma, zeta: (beta, -0.1, 1.1)),
        "Cambien `gamma` y `zeta` lo que cambien, usas sus valores por omisión. Usa los que llegan.",
    ),
    KnownMistake(
        "β, γ y ζ fijas",
        _Open(given=lambda beta, gamma, zeta: (2 / 3, -0.1, 1.1)),
        "Solo aciertas con los valores por omisión: los tres números están escritos dentro de la función. Usa `beta`, "
        "`gamma` y `zeta`.",
    ),
    KnownMistake(
        "ζ sacada de γ",
        _Open(given=lambda beta, gamma, zeta: (beta, gamma, 1 - gamma)),
        "Supones que el intervalo sobresale lo mismo por abajo que por arriba. Puede no ser así: usa `zeta`.",
    ),
    KnownMistake(
        "otra β por omisión",
        _third_when_missing,
        "Solo fallas cuando no se da `beta`: su valor por omisión no es el del enunciado. Cópialo del `def`.",
    ),
    KnownMistake(
        "un sorteo",
        _Open(after=lambda probabilities: probabilities + torch.where(probabilities < 0.5, 0.065, -0.065)),
        "Te acercas, con la imprecisión de un sorteo. Los sorteos sirven para comprobar la fórmula, no para darla: "
        "despeja la desigualdad y usa la sigmoide.",
        seen=_by_draws,
    ),
)

OPEN = Check(
    id="7.3",
    reference=expected_open,
    cases=(
        Case("con los valores por omisión", _gates(4, 7)),
        Case("con otras β, γ y ζ, y log α de ±50", _gates(2, 6, 3, extremes=True, beta=0.95, gamma=-0.75, zeta=2.5)),
    ),
    mistakes=OPEN_MISTAKES,
    combined=_pairs_of(OPEN_MISTAKES, _Open),
)

# 7.4 · Quitar cabezas de verdad -----------------------------------------------------------------------------------


@out_of_reach
def prune(w_q, w_k, w_v, w_o, heads, head_dim):
    """Sin las columnas de W^Q, W^K y W^V, y sin las filas de W^O, de las cabezas de la lista."""
    kept = [column for column in range(w_q.shape[1]) if column // head_dim not in heads]
    return w_q[:, kept], w_k[:, kept], w_v[:, kept], w_o[kept]


def _matrices(d_model, num_heads, head_dim, heads):
    """Un caso: cuatro matrices de varianza 1/d y las cabezas que se quitan, en ese orden."""

    def make(generator):
        width = num_heads * head_dim
        w_q, w_k, w_v = torch.randn(3, d_model, width, generator=generator) / d_model**0.5
        w_o = torch.randn(width, d_model, generator=generator) / width**0.5
        return Call((w_q, w_k, w_v, w_o, list(heads), head_dim))

    return make


def _removed(w_q, heads, head_dim):
    """Qué columnas son de las cabezas que se quitan: (h·d,), bool."""
    return torch.isin(torch.arange(w_q.shape[1]) // head_dim, torch.tensor(heads))


def _kept(removed, size):
    """Las posiciones que quedan, si caben en una dimensión de otro tamaño."""
    return [i for i in range(min(len(removed), size)) if not removed[i]]


def _wrong_side(*which):
    """Reconoce a quien quita de la dimensión de d_model en esas matrices, y acierta en las demás."""

    def seen(value, w_q, w_k, w_v, w_o, heads, head_dim):
        whole, right = (w_q, w_k, w_v, w_o), _Pruning()(w_q, w_k, w_v, w_o, heads, head_dim)
        if not isinstance(value, tuple | list) or len(value) != 4:
            return False
        for i, (mine, given, due) in enumerate(zip(value, whole, right, strict=True)):
            width, d_model = (0, 1) if i == 3 else (1, 0)
            if not isinstance(mine, torch.Tensor) or mine.dim() != 2:
                return False
            if i not in which and difference(mine, due):
                return False
            if i in which and not (
                mine.shape[width] == given.shape[width] and mine.shape[d_model] < given.shape[d_model]
            ):
                return False
        return True

    return seen


@dataclass(frozen=True)
class _Pruning:
    """Qué se quita, y de dónde. Un error conocido cambia una de las cosas."""

    heads: Callable = lambda heads: heads
    columns: Callable = _removed
    inputs: Callable = lambda w, removed: w[:, ~removed]
    output: Callable = lambda w_o, removed: w_o[~removed]
    after: Callable = lambda matrices: matrices

    def __call__(self, w_q, w_k, w_v, w_o, heads, head_dim):
        removed = self.columns(w_q, self.heads(heads), head_dim)
        return self.after((*(self.inputs(w, removed) for w in (w_q, w_k, w_v)), self.output(w_o, removed)))


def _changing(*which):
    """El error de quien solo recorta algunas de las cuatro matrices."""

    def answer(w_q, w_k, w_v, w_o, heads, head_dim):
        whole = (w_q, w_k, w_v, w_o)
        pruned = _Pruning()(w_q, w_k, w_v, w_o, heads, head_dim)
        return tuple(new if i in which else old for i, (new, old) in enumerate(zip(pruned, whole, strict=True)))

    return answer


def _one_by_one(w_q, w_k, w_v, w_o, heads, head_dim):
    """Quita una cabeza tras otra, sin contar con que las siguientes se corren."""
    matrices = w_q, w_k, w_v, w_o
    for head in heads:
        matrices = _Pruning()(*matrices, [head], head_dim)
    return matrices


def _between(w, heads, head_dim):
    """Lo que hay entre una cabeza de la lista y la siguiente, como si vinieran en orden."""
    pieces, start = [], 0
    for head in heads:
        pieces.append(w[:, start : head * head_dim])
        start = (head + 1) * head_dim
    return torch.cat([*pieces, w[:, start:]], dim=1)


def _in_order_of_the_list(w_q, w_k, w_v, w_o, heads, head_dim):
    return (*(_between(w, heads, head_dim) for w in (w_q, w_k, w_v)), _between(w_o.T, heads, head_dim).T)


def _heads_from_d_model(w_q, w_k, w_v, w_o, heads, head_dim):
    kept = [i for i in range(w_q.shape[0] // head_dim) if i not in heads]
    tiles = [slice(i * head_dim, (i + 1) * head_dim) for i in kept]
    inputs = (torch.cat([w[:, tile] for tile in tiles], dim=1) for w in (w_q, w_k, w_v))
    return (*inputs, torch.cat([w_o[tile] for tile in tiles]))


def _by_head(matrices, head_dim, order):
    """Las cuatro matrices con las cabezas que quedan en otro orden."""
    *inputs, w_o = matrices
    kept = torch.arange(w_o.shape[0]).view(-1, head_dim)
    return (*(w[:, order(kept).flatten()] for w in inputs), w_o[order(kept).flatten()])


PRUNING_MISTAKES = (
    KnownMistake(
        "se quedan las de la lista",
        _Pruning(columns=lambda w_q, heads, head_dim: ~_removed(w_q, heads, head_dim)),
        "Es al revés: te quedas con las cabezas de la lista y quitas las demás. Las de `heads` son las que se van.",
    ),
    KnownMistake(
        "cabezas salteadas",
        _Pruning(
            columns=lambda w_q, heads, head_dim: torch.isin(
                torch.arange(w_q.shape[1]) % (w_q.shape[1] // head_dim), torch.tensor(heads)
            )
        ),
        "Quitas columnas salteadas, de h en h, y estropeas todas las cabezas. Las de una cabeza son seguidas: desde "
        "i·head_dim.",
    ),
    KnownMistake(
        "columnas de w_o",
        _Pruning(output=lambda w_o, removed: w_o[:, _kept(removed, w_o.shape[1])]),
        "De `w_o` quitas columnas, que son las de d_model. Lo que entra en `w_o` son sus filas: ahí está cada cabeza.",
        seen=_wrong_side(3),
    ),
    KnownMistake(
        "filas de las cuatro",
        _Pruning(inputs=lambda w, removed: w[_kept(removed, w.shape[0])]),
        "De `w_q`, `w_k` y `w_v` quitas filas, que son lo que entra, d_model. Lo que sale de ellas, cabeza a cabeza, "
        "son sus columnas.",
        seen=_wrong_side(0, 1, 2),
    ),
    KnownMistake(
        "columnas y filas cambiadas",
        _Pruning(
            inputs=lambda w, removed: w[_kept(removed, w.shape[0])],
            output=lambda w_o, removed: w_o[:, _kept(removed, w_o.shape[1])],
        ),
        "Lo tienes cambiado: quitas filas de las tres primeras y columnas de `w_o`. Las cabezas salen de `w_q`, `w_k` "
        "y `w_v`, por sus columnas, y entran en `w_o`, por sus filas.",
        seen=_wrong_side(0, 1, 2, 3),
    ),
    KnownMistake(
        "la máscara en la otra dimensión",
        _Pruning(output=lambda w_o, removed: w_o[:, ~removed]),
        "La máscara tiene h·head_dim números y la usas en una dimensión de d_model. Las columnas de `w_q`, `w_k` y "
        "`w_v` son h·head_dim; en `w_o` lo son las filas.",
        error="of the mask",
    ),
    KnownMistake(
        "w_o entera",
        _changing(0, 1, 2),
        "`w_o` sale entera, y ya no encaja con las cabezas que quedan. Quítale las filas de las que se van.",
    ),
    KnownMistake(
        "solo w_o",
        _changing(3),
        "Solo recortas `w_o`. Las cabezas que se van dejan también de proyectar: quita sus columnas de las otras tres.",
    ),
    KnownMistake(
        "solo w_q",
        _changing(0),
        "Solo recortas `w_q`, y las consultas se quedan sin claves con las que emparejarse. Cada cabeza está en las "
        "cuatro matrices.",
    ),
    KnownMistake(
        "w_q y w_o",
        _changing(0, 3),
        "`w_k` y `w_v` salen enteras, como si las claves y los valores se compartieran. En MHA cada cabeza tiene los "
        "suyos: recórtalas también.",
    ),
    KnownMistake(
        "w_v entera",
        _changing(0, 1, 3),
        "`w_v` sale entera. Una cabeza que se va se lleva también sus valores.",
    ),
    KnownMistake(
        "w_q y w_k",
        _changing(0, 1),
        "Recortas consultas y claves, y `w_v` y `w_o` salen enteras. Los valores y lo que se escribe también son de "
        "cada cabeza.",
    ),
    KnownMistake(
        "w_v y w_o",
        _changing(2, 3),
        "Recortas `w_v` y `w_o`, y las consultas y las claves siguen enteras. Sus columnas también se van.",
    ),
    KnownMistake(
        "a cero",
        _Pruning(
            inputs=lambda w, removed: w.masked_fill(removed, 0.0),
            output=lambda w_o, removed: w_o.masked_fill(removed[:, None], 0.0),
        ),
        "Pones ceros y las matrices miden lo mismo: eso es apagar. Podar es que desaparezcan, con la forma más "
        "pequeña.",
    ),
    KnownMistake(
        "w_o a cero",
        _Pruning(output=lambda w_o, removed: w_o.masked_fill(removed[:, None], 0.0)),
        "Las tres primeras se encogen, y en `w_o` pones ceros. También a ella se le quitan las filas.",
    ),
    KnownMistake(
        "lo que se va",
        _Pruning(
            inputs=lambda w, removed: w[:, removed],
            output=lambda w_o, removed: w_o[~removed],
        ),
        "De `w_q`, `w_k` y `w_v` devuelves lo que se quita, y de `w_o` lo que queda. Devuelve de las cuatro lo que "
        "queda.",
    ),
    KnownMistake(
        "w_o con lo que se va",
        _Pruning(output=lambda w_o, removed: w_o[removed]),
        "De `w_o` devuelves las filas que había que quitar. Las que quedan son las otras, las mismas que en las demás.",
    ),
    KnownMistake(
        "se corren al quitar",
        _one_by_one,
        "Quitas las cabezas de una en una, y al irse la primera las de detrás cambian de número. Decide antes qué "
        "columnas quedan y recorta una sola vez.",
    ),
    KnownMistake(
        "lista ordenada",
        _in_order_of_the_list,
        "Cuentas con que `heads` viene ordenada, y puede no venir. Recorre todas las cabezas en orden y pregunta si "
        "cada una está en la lista.",
    ),
    KnownMistake(
        "número de columna",
        _Pruning(columns=lambda w_q, heads, head_dim: torch.isin(torch.arange(w_q.shape[1]), torch.tensor(heads))),
        "Tomas el número de la cabeza por el de una columna, y quitas una por cabeza. Cada una ocupa head_dim, desde "
        "la i·head_dim.",
    ),
    KnownMistake(
        "una columna por cabeza",
        _Pruning(
            columns=lambda w_q, heads, head_dim: torch.isin(torch.arange(w_q.shape[1]), torch.tensor(heads) * head_dim)
        ),
        "Quitas solo la primera columna de cada cabeza. Son head_dim seguidas.",
    ),
    KnownMistake(
        "una columna de menos",
        _Pruning(
            columns=lambda w_q, heads, head_dim: (
                _removed(w_q, heads, head_dim) & (torch.arange(w_q.shape[1]) % head_dim < head_dim - 1)
            )
        ),
        "Se te queda la última columna de cada cabeza que quitas. El final de un recorte no se incluye: no le restes "
        "uno.",
    ),
    KnownMistake(
        "tiras que se solapan",
        _Pruning(
            columns=lambda w_q, heads, head_dim: torch.isin(
                torch.arange(w_q.shape[1]), (torch.tensor(heads)[:, None] + torch.arange(head_dim)).flatten()
            )
        ),
        "Empiezas cada cabeza en la columna i, y las tiras se solapan. La cabeza i empieza en i·head_dim.",
    ),
    KnownMistake(
        "desde uno",
        _Pruning(heads=lambda heads: [head - 1 for head in heads]),
        "Cuentas las cabezas desde 1, y quitas la anterior. Aquí la primera es la 0.",
    ),
    KnownMistake(
        "la siguiente",
        _Pruning(heads=lambda heads: [head + 1 for head in heads]),
        "Quitas la cabeza que va detrás de cada una de la lista. La cabeza i empieza en i·head_dim, sin sumar nada.",
    ),
    KnownMistake(
        "solo la primera de la lista",
        _Pruning(heads=lambda heads: heads[:1]),
        "Solo quitas la primera cabeza de la lista: mira si el `return` está dentro del bucle. Se van todas.",
    ),
    KnownMistake(
        "solo la última de la lista",
        _Pruning(heads=lambda heads: heads[-1:]),
        "Solo falta la última cabeza de la lista: en cada vuelta recortas otra vez la matriz entera. Lleva la cuenta "
        "de las que quedan y recorta al final.",
    ),
    KnownMistake(
        "de la menor a la mayor",
        _Pruning(heads=lambda heads: [*range(min(heads), max(heads) + 1)]),
        "Quitas también las cabezas que hay entre las de la lista. Se van solo las que están en ella.",
    ),
    KnownMistake(
        "las primeras",
        _Pruning(heads=lambda heads: [*range(len(heads))]),
        "Quitas tantas cabezas como hay en la lista, pero las primeras. Cuáles se van lo dice `heads`.",
    ),
    KnownMistake(
        "head_dim como número de cabezas",
        _Pruning(
            columns=lambda w_q, heads, head_dim: torch.isin(
                torch.arange(w_q.shape[1]) // (w_q.shape[1] // head_dim), torch.tensor(heads)
            )
        ),
        "Divides las columnas como si hubiera head_dim cabezas. Al revés: head_dim es lo que mide cada una, y "
        "cuántas hay sale de dividir.",
    ),
    KnownMistake(
        "cabezas contadas en d_model",
        _heads_from_d_model,
        "Cuentas cuántas cabezas hay a partir de d_model, las filas de `w_q`. h·head_dim es su número de columnas, que "
        "puede ser otro.",
    ),
    KnownMistake(
        "orden contrario",
        lambda w_q, w_k, w_v, w_o, heads, head_dim: _by_head(
            _Pruning()(w_q, w_k, w_v, w_o, heads, head_dim), head_dim, lambda kept: kept.flip(0)
        ),
        "Quedan las cabezas debidas, en orden contrario. Recórrelas de la primera a la última.",
    ),
    KnownMistake(
        "traspuestas",
        _Pruning(after=lambda matrices: tuple(matrix.T for matrix in matrices)),
        "Devuelves las matrices traspuestas, como las guarda `nn.Linear`. Aquí se usan así: `x @ w`.",
    ),
    KnownMistake(
        "w_o traspuesta",
        _Pruning(output=lambda w_o, removed: w_o[~removed].T),
        "`w_o` sale traspuesta. Devuélvela como llegó, (h·head_dim, d_model), con menos filas.",
    ),
    KnownMistake(
        "reescalada",
        _Pruning(output=lambda w_o, removed: w_o[~removed] * len(removed) / (~removed).sum()),
        "Agrandas `w_o` para compensar las cabezas que faltan, como el dropout. Al podar, lo que queda no cambia.",
    ),
    KnownMistake(
        "sin quitar nada",
        lambda w_q, w_k, w_v, w_o, heads, head_dim: (w_q, w_k, w_v, w_o),
        "Devuelves las cuatro matrices enteras. Un recorte no cambia la matriz original: guarda el resultado y "
        "devuélvelo.",
    ),
    KnownMistake(
        "en otro orden",
        _Pruning(after=lambda matrices: (*matrices[-1:], *matrices[:-1])),
        "Las cuatro están bien y en otro orden: `w_o` va la última. Devuélvelas como llegan.",
    ),
)

PRUNING = Check(
    id="7.4",
    reference=prune,
    cases=(
        Case("seis cabezas, dos menos", _matrices(31, 6, 4, (4, 1))),
        Case("siete cabezas, tres menos", _matrices(16, 7, 3, (0, 2, 5))),
    ),
    mistakes=PRUNING_MISTAKES,
    combined=_pairs_of(PRUNING_MISTAKES, _Pruning),
)

# 7.5 · Cuándo se cierra -------------------------------------------------------------------------------------------


@out_of_reach
def closing_log_alpha(gamma=-0.1, zeta=1.1):
    """log α con el que σ(log α)·(ζ − γ) + γ = 0: log(−γ/ζ)."""
    return math.log(-gamma / zeta)


def _stretches(generator):
    """Un caso: un intervalo que sobresale lo que quiera por cada lado."""
    low, high = torch.rand(2, generator=generator).tolist()
    return Call((), {"gamma": -0.3 - 0.15 * low, "zeta": 1.05 + 0.15 * high})


def _logit(p):
    return math.log(p / (1 - p))


def _nearly(value, gamma=-0.1, zeta=1.1):
    """A menos de una décima del número que se pide."""
    value = number(value)
    return value is not None and abs(value - math.log(-gamma / zeta)) < 0.1


CLOSING_MISTAKES = (
    KnownMistake(
        "signo",
        lambda gamma=-0.1, zeta=1.1: math.log(-zeta / gamma),
        "Es ese número con el signo cambiado, o el cociente está del revés. Una puerta que se cierra tiene σ(log α) "
        "menor que la mitad: su log α es negativo.",
    ),
    KnownMistake(
        "la mitad",
        lambda gamma=-0.1, zeta=1.1: math.log((0.5 - gamma) / (zeta - 0.5)),
        "Ese es el log α con el que la puerta vale la mitad. Se pide aquel con el que llega a 0.",
    ),
    KnownMistake(
        "abierta del todo",
        lambda gamma=-0.1, zeta=1.1: math.log((1 - gamma) / (zeta - 1)),
        "Ese es el log α a partir del cual la puerta vale 1. Se pide el otro extremo: iguala la estirada a 0.",
    ),
    KnownMistake(
        "con β",
        lambda gamma=-0.1, zeta=1.1: 2 / 3 * math.log(-gamma / zeta),
        "Has metido β: ese es el log α con el que una puerta sorteada se cierra la mitad de las veces. La puerta sin "
        "sorteo no la lleva.",
    ),
    KnownMistake(
        "entre β",
        lambda gamma=-0.1, zeta=1.1: math.log(-gamma / zeta) / (2 / 3),
        "Divides entre β, que en la puerta sin sorteo no aparece. Despeja de la fórmula del enunciado.",
    ),
    KnownMistake(
        "valor de la sigmoide",
        lambda gamma=-0.1, zeta=1.1: -gamma / (zeta - gamma),
        "Te quedas en lo que vale σ(log α). Falta un paso: deshacer la sigmoide.",
    ),
    KnownMistake(
        "logaritmo de la sigmoide",
        lambda gamma=-0.1, zeta=1.1: math.log(-gamma / (zeta - gamma)),
        "Despejas bien σ(log α), y después tomas su logaritmo. La inversa de la sigmoide es otra: el logaritmo de p "
        "entre 1 − p.",
    ),
    KnownMistake(
        "sigmoide en vez de su inversa",
        lambda gamma=-0.1, zeta=1.1: 1 / (1 + math.exp(gamma / (zeta - gamma))),
        "Despejas σ(log α) y le vuelves a aplicar la sigmoide. Hay que deshacerla: su inversa.",
    ),
    KnownMistake(
        "α en vez de log α",
        lambda gamma=-0.1, zeta=1.1: -gamma / zeta,
        "Te quedas en α: con él la puerta se cierra, pero lo que se pide es log α. Toma el logaritmo.",
    ),
    KnownMistake(
        "logaritmo de un negativo",
        lambda gamma=-0.1, zeta=1.1: math.log(gamma / zeta),
        "Tomas el logaritmo de un número negativo. γ ya lleva su signo: al pasarla al otro lado de la igualdad cambia.",
        error="math domain error|expected a positive input",
    ),
    KnownMistake(
        "NaN",
        lambda gamma=-0.1, zeta=1.1: math.nan,
        "Sale NaN: es el logaritmo de un número negativo, que torch no avisa. Mira qué signo tiene lo que hay dentro.",
    ),
    KnownMistake(
        "signo del ancho",
        lambda gamma=-0.1, zeta=1.1: _logit(-gamma / (zeta + gamma)),
        "Divides entre ζ + γ, y el ancho del intervalo es ζ − γ. Como γ es negativa, restarla lo agranda.",
    ),
    KnownMistake(
        "entre ζ antes de deshacer",
        lambda gamma=-0.1, zeta=1.1: _logit(-gamma / zeta),
        "Divides entre ζ, y no entre el ancho del intervalo, antes de deshacer la sigmoide. Despeja σ(log α) de la "
        "igualdad paso a paso.",
    ),
    KnownMistake(
        "sin γ sumada",
        lambda gamma=-0.1, zeta=1.1: _logit(1 / (zeta - gamma)),
        "Igualas a 1 la estirada sin sumarle γ. La igualdad es con 0, y con la γ del final.",
    ),
    KnownMistake(
        "logaritmo de −γ",
        lambda gamma=-0.1, zeta=1.1: math.log(-gamma),
        "ζ no interviene: es el logaritmo de −γ. Al deshacer la sigmoide queda un cociente: falta dividir.",
    ),
    KnownMistake(
        "inversa de −γ",
        lambda gamma=-0.1, zeta=1.1: _logit(-gamma),
        "Deshaces la sigmoide en −γ, sin dividir antes entre el ancho del intervalo. Despeja σ(log α) primero.",
    ),
    KnownMistake(
        "cero",
        lambda gamma=-0.1, zeta=1.1: 0.0,
        "Con log α = 0 la puerta está a medias. Sirve para saber si es más probable que valga 0 o 1, no para que la "
        "puerta sin sorteo se cierre.",
    ),
    KnownMistake(
        "γ",
        lambda gamma=-0.1, zeta=1.1: gamma,
        "Devuelves γ, que es adonde llega la estirada cuando log α baja sin fin. Busca el log α con que pasa por 0.",
    ),
    KnownMistake(
        "base 2",
        lambda gamma=-0.1, zeta=1.1: math.log2(-gamma / zeta),
        "El logaritmo está en base 2. La sigmoide usa el número e: su inversa lleva el natural.",
    ),
    KnownMistake(
        "base 10",
        lambda gamma=-0.1, zeta=1.1: math.log10(-gamma / zeta),
        "El logaritmo es decimal. Usa el natural, `math.log`, que es el que deshace una exponencial.",
    ),
    KnownMistake(
        "γ y ζ fijas",
        lambda gamma=-0.1, zeta=1.1: math.log(0.1 / 1.1),
        "Das siempre el mismo número, el de los valores por omisión. Usa `gamma` y `zeta`.",
    ),
    KnownMistake(
        "intervalo simétrico",
        lambda gamma=-0.1, zeta=1.1: math.log(-gamma / (1 - gamma)),
        "Das por hecho que ζ es 1 − γ. Por defecto lo es, pero llegan otras: usa `zeta`.",
    ),
    KnownMistake(
        "otros valores por omisión",
        lambda gamma=-0.05, zeta=1.05: math.log(-gamma / zeta),
        "Solo fallas cuando no se dan `gamma` ni `zeta`: sus valores por omisión no son los del enunciado. Copia la "
        "línea del `def`.",
    ),
    KnownMistake(
        "una búsqueda gruesa",
        lambda gamma=-0.1, zeta=1.1: math.log(-gamma / zeta) + 0.02,
        "Te quedas cerca, con más error del que se admite. Si buscas el número a tanteo, afina el paso; si lo has "
        "redondeado, no lo hagas.",
        seen=_nearly,
    ),
)

CLOSING = Check(
    id="7.5",
    reference=closing_log_alpha,
    cases=(
        Case("con los valores por omisión", lambda generator: Call(())),
        Case("con otras γ y ζ", _stretches),
    ),
    mistakes=CLOSING_MISTAKES,
)

CHECKS = (IMPORTANCE, GATE, OPEN, PRUNING, CLOSING)
