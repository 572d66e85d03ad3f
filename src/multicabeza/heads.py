"""Índices de las cabezas: qué mira cada una, qué escribe y qué pasa si se apaga.

El archivo se lee de arriba abajo: a qué distancia mira una cabeza, cómo de repartida, qué tokens busca (repetidos,
raros, sumideros), qué relación sigue, qué copia y, al final, cómo se interviene: `ablate`.

Un índice es una función pura de los pesos de atención, (..., h, n, n), y devuelve un número por cabeza, (..., h): las
dimensiones de delante (capas, lote) se conservan, y la media sobre el lote la hace quien llama. Un mapa dice dónde mira
una cabeza, no para qué sirve; y un valor alto no dice nada sin su control. El más sencillo sale de la misma función:
con pesos uniformes, `mask / mask.sum(-1, keepdim=True)`, cada índice da su nivel de azar.

Letras de las formas: h cabezas, n tokens (n_q consultas, n_k claves), d_k dimensión de una cabeza, d_model la del
modelo, V tamaño del vocabulario. Capas y cabezas se cuentan desde 0.
"""

import operator
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from numbers import Integral
from typing import NamedTuple

import torch
from torch import Tensor, nn

from . import attention
from .attention import MultiHeadAttention, _check_integer, _shape, causal_mask, merge_heads, split_heads

__all__ = [
    "Copying",
    "OffsetBaseline",
    "ablate",
    "attention_entropy",
    "best_offset_baseline",
    "confidence",
    "copying_score",
    "duplicate_token_score",
    "head_divergence",
    "induction_offset_score",
    "output_matrix",
    "positional_score",
    "prefix_matching_score",
    "previous_token_score",
    "rare_token_score",
    "record_heads",
    "relation_accuracy",
    "retrieval_score",
    "sink_score",
    "value_weighted_norm",
    "word_attention",
]

Pair = tuple[int, int]
Tokens = Tensor | Sequence[int] | Sequence[str]


# --- De tokens a palabras --------------------------------------------------------------------------------------------


def word_attention(weights: Tensor, word_ids: Sequence[int | None]) -> Tensor:
    """Pasa los mapas de tokens a palabras: (..., h, n, n) → (..., h, W, W).

    Lo que va HACIA una palabra es la suma sobre sus trozos; lo que sale DE ella, la media sobre sus trozos. Los tokens
    especiales ([CLS], [SEP]) desaparecen, así que las filas ya no suman 1: lo que falta es lo que se llevaban ellos.

    Args:
        weights: pesos (..., h, n, n).
        word_ids: la palabra de cada token, n enteros desde 0, o None en los especiales. Es lo que devuelve
            `tokenizer(text).word_ids()`.

    Returns:
        Tensor (..., h, W, W), con W palabras.

    Raises:
        ValueError: si no hay un número por token o se salta alguna palabra.

    Fuente:
        Clark et al. (2019), §4.1.
    """
    weights = _check_weights(weights)
    n = weights.shape[-1]
    words = sorted({word for word in word_ids if word is not None})
    if len(word_ids) != n or not words or words != list(range(len(words))):
        raise ValueError(
            f"Se esperaban {n} números de palabra seguidos, desde 0 (None en los tokens especiales), y llegaron "
            f"{len(word_ids)}: {list(word_ids)[:8]}… Lo habitual: word_ids() de otra frase, o sin [CLS] y [SEP]."
        )
    member = torch.tensor([[word == w for word in word_ids] for w in words]).to(weights)  # (W, n)
    return member / member.sum(-1, keepdim=True) @ weights @ member.T


# --- A qué distancia mira --------------------------------------------------------------------------------------------


def positional_score(weights: Tensor, offset: int, *, keep: Tensor | None = None) -> Tensor:
    """Índice posicional: en qué proporción de las consultas i la clave más atendida es i + offset.

    Solo cuentan las consultas para las que esa clave existe. Voita y sus coautores llaman posicional a la cabeza que
    llega a 0,9 con un desplazamiento fijo (en la práctica, −1 o +1).

    Args:
        weights: pesos (..., h, n, n).
        offset: desplazamiento, con |offset| < n: −1 es el token anterior, +1 el siguiente.
        keep: booleana (n,) o (..., n); los tokens en False no cuentan como consulta ni como clave (Voita excluye el de
            fin de frase). Los desplazamientos siguen contándose en la frase entera.

    Returns:
        Tensor (..., h), entre 0 y 1.

    Raises:
        ValueError: si las formas no casan, |offset| ≥ n o no queda ninguna consulta.

    Fuente:
        Voita et al. (2019), §5.1.
    """
    weights = _check_weights(weights)
    n = weights.shape[-1]
    if isinstance(offset, bool) or not isinstance(offset, int) or abs(offset) >= n:
        raise ValueError(
            f"Se esperaba offset entero entre {1 - n} y {n - 1} (la frase tiene {n} tokens) y llegó {offset!r}. "
            "Lo habitual: pasar una posición en vez de un desplazamiento; el token anterior es −1."
        )
    keep = _check_keep(keep, weights)  # (..., 1, n)
    target = torch.arange(n, device=weights.device) + offset  # (n,)
    exists = (target >= 0) & (target < n)
    counted = keep & exists & keep[..., target.clamp(0, n - 1)]
    return _mean_over_queries(_strongest_key(weights, keep) == target, counted, "cuya clave i + offset exista")


def previous_token_score(weights: Tensor) -> Tensor:
    """Índice de token anterior: peso medio que cada consulta da a la posición anterior.

    (1/(n−1)) Σ_{i ≥ 1} A[i, i−1]. Mide masa; para contar en cuántas consultas es la clave más atendida está
    `positional_score(weights, -1)`.

    Args:
        weights: pesos (..., h, n, n), con n ≥ 2.

    Returns:
        Tensor (..., h), entre 0 y 1.

    Raises:
        ValueError: si la forma no es esa.

    Fuente:
        Elhage et al. (2021), «Induction Heads»: la cabeza de la capa anterior en la que se apoya la inducción.
    """
    weights = _check_weights(weights)
    if weights.shape[-1] < 2:
        raise ValueError(f"Se esperaban al menos dos tokens y llegó {_shape(weights)}: con uno no hay anterior.")
    return weights.diagonal(offset=-1, dim1=-2, dim2=-1).mean(dim=-1)


# --- Cómo de repartida está ------------------------------------------------------------------------------------------


def confidence(weights: Tensor, *, keep: Tensor | None = None) -> Tensor:
    """Confianza de cada cabeza: la media, sobre las consultas, del mayor de sus pesos.

    Args:
        weights: pesos (..., h, n, n).
        keep: booleana (n,) o (..., n); los tokens en False no cuentan como consulta ni como clave (Voita excluye el de
            fin de frase).

    Returns:
        Tensor (..., h), entre 0 y 1.

    Raises:
        ValueError: si las formas no casan o no queda ninguna consulta.

    Fuente:
        Voita et al. (2019), §4: todas sus cabezas posicionales pasan de 0,8.
    """
    weights = _check_weights(weights)
    keep = _check_keep(keep, weights)
    return _mean_over_queries(weights.masked_fill(~keep[..., None, :], 0).amax(dim=-1), keep, "sin excluir")


def attention_entropy(weights: Tensor) -> Tensor:
    """Entropía media de las filas, en nats: −Σ_j A[i, j] log A[i, j], con 0·log 0 = 0, y media sobre las consultas.

    Vale 0 si cada consulta mira a una sola clave y log n_k si reparte por igual entre todas.

    Args:
        weights: pesos (..., n_q, n_k).

    Returns:
        Tensor (...,), en nats.

    Raises:
        ValueError: si no son pesos.

    Fuente:
        Clark et al. (2019), §3.3.
    """
    weights = _check_weights(weights, "(..., n_q, n_k)", minimum_ndim=2, square=False)
    return torch.special.entr(weights).sum(dim=-1).mean(dim=-1)


def head_divergence(weights: Tensor) -> Tensor:
    """Cuánto se diferencian los mapas de cada pareja de cabezas: divergencia de Jensen–Shannon media, en nats.

    JS(p, q) = H((p + q)/2) − (H(p) + H(q))/2, con H la entropía; una por consulta, y media sobre las consultas. Vale 0
    con mapas iguales y log 2 ≈ 0,69 si nunca coinciden en una clave. Clark y sus coautores suman sobre los tokens en
    vez de promediar. Dos cabezas que miran lo mismo aún pueden escribir cosas distintas: mirar igual no es sobrar.

    Args:
        weights: pesos (..., h, n_q, n_k). Para comparar cabezas de todas las capas: `weights.flatten(0, 1)`.

    Returns:
        Tensor (..., h, h), simétrico y con ceros en la diagonal.

    Raises:
        ValueError: si no son pesos.

    Fuente:
        Clark et al. (2019), §6.
    """
    weights = _check_weights(weights, "(..., h, n_q, n_k)", square=False)
    entropy = attention_entropy(weights)  # (..., h)
    rows = []
    for i in range(weights.shape[-3]):  # de una en una: todas las parejas a la vez no caben con 270 cabezas
        mixed = attention_entropy((weights[..., i : i + 1, :, :] + weights) / 2)
        rows.append(mixed - (entropy[..., i : i + 1] + entropy) / 2)
    return torch.stack(rows, dim=-2).clamp_min(0)


# --- Qué tokens busca ------------------------------------------------------------------------------------------------


def sink_score(weights: Tensor, position: int = 0) -> Tensor:
    """Índice de sumidero: peso medio que los demás tokens dan al de esa posición.

    (1/(n−1)) Σ_{i ≠ p} A[i, p]. La consulta p no cuenta: con máscara causal, el primer token no puede mirar a otro. Por
    lo mismo, p debería ser visible para todos: el primero, o cualquiera en un modelo bidireccional.

    Args:
        weights: pesos (..., h, n, n), con n ≥ 2.
        position: posición p del sumidero, de 0 a n − 1 (0 es [CLS] en BERT; n − 1, [SEP]).

    Returns:
        Tensor (..., h), entre 0 y 1.

    Raises:
        ValueError: si las formas no casan o no hay tal posición.

    Fuente:
        Xiao et al. (2024), §3.1; Clark et al. (2019), §3.2.
    """
    weights = _check_weights(weights)
    n = weights.shape[-1]
    if n < 2 or isinstance(position, bool) or not isinstance(position, int) or not 0 <= position < n:
        raise ValueError(
            f"Se esperaba una posición entre 0 y {n - 1}, con dos tokens o más, y llegó {position!r} con {n}. "
            "Lo habitual: un índice negativo (el último token es n − 1) o la posición en otra frase."
        )
    column = weights[..., :, position]  # (..., h, n)
    return (column.sum(dim=-1) - column[..., position]) / (n - 1)


def prefix_matching_score(weights: Tensor, tokens: Tokens) -> Tensor:
    """Índice de inducción por contenido: peso que va a lo que siguió a las apariciones anteriores del token actual.

    Para la consulta i son válidas TODAS las claves j ≤ i cuyo token anterior es igual al actual, x_{j−1} = x_i:

        (1/|C|) Σ_{i ∈ C} Σ_{1 ≤ j ≤ i, x_{j−1} = x_i} A[i, j],   C = consultas con alguna clave válida.

    Sumar sobre todas importa: con periodos cortos hay varias copias a la vista y la cabeza reparte su peso entre ellas.
    Un token de comienzo (BOS) no estorba: es un token más, que no se repite. Mide la mitad del mecanismo (emparejar el
    prefijo); la otra mitad, copiar, la mide `copying_score`.

    Args:
        weights: pesos (..., h, n, n).
        tokens: los n tokens, iguales para todo lo de delante (lista de enteros o de textos, o tensor (n,)), o un tensor
            (..., n) con una secuencia por elemento del lote.

    Returns:
        Tensor (..., h), entre 0 y 1.

    Raises:
        ValueError: si las formas no casan o en alguna secuencia no se repite ningún token.

    Fuente:
        Olsson et al. (2022), «prefix matching», que lo mide en secuencias al azar repetidas y con el desplazamiento del
        periodo (`induction_offset_score`).
    """
    weights = _check_weights(weights)
    same = _same_token(tokens, weights)  # (..., n, n): ¿es el token j igual al i?
    follows = torch.zeros_like(same)
    follows[..., 1:] = same[..., :-1]
    n = weights.shape[-1]
    return _mass_on(weights, follows & causal_mask(n, device=same.device), "cuyo token haya salido antes")


def induction_offset_score(weights: Tensor, period: int) -> Tensor:
    """Índice de inducción por desplazamiento: en una secuencia repetida, peso de i a i − periodo + 1.

    (1/(n − T)) Σ_{i = T}^{n−1} A[i, i − T + 1]. Es la versión más usada: mira una diagonal. Cuenta solo la copia más
    cercana: con más de dos repeticiones, o con tokens repetidos dentro del periodo, se queda corta; para eso está
    `prefix_matching_score`. Si la secuencia empieza por BOS, quítalo antes: `weights[..., 1:, 1:]`.

    Args:
        weights: pesos (..., h, n, n) sobre una secuencia en la que el token i es igual al i − T.
        period: el periodo T ≥ 1, con n ≥ 2·T.

    Returns:
        Tensor (..., h), entre 0 y 1.

    Raises:
        ValueError: si las formas no casan o no caben dos periodos.

    Fuente:
        Olsson et al. (2022), apéndice «Head Activation Evaluators».
    """
    weights = _check_weights(weights)
    _check_integer("period", period)
    n = weights.shape[-1]
    if n < 2 * period:
        raise ValueError(
            f"Se esperaba una secuencia de al menos dos periodos (2·{period} = {2 * period} tokens) y tiene {n}. "
            "Lo habitual: pasar la longitud de la secuencia en vez del periodo, o los mapas de una sola copia."
        )
    return weights.diagonal(offset=1 - period, dim1=-2, dim2=-1)[..., 1:].mean(dim=-1)


def duplicate_token_score(weights: Tensor, tokens: Tokens) -> Tensor:
    """Índice de token duplicado: peso que va a las apariciones anteriores del propio token.

    Como `prefix_matching_score`, con las claves j < i tales que x_j = x_i. Es el falso amigo de la inducción: la misma
    secuencia repetida, una diagonal más abajo.

    Args:
        weights: pesos (..., h, n, n).
        tokens: los n tokens, como en `prefix_matching_score`.

    Returns:
        Tensor (..., h), entre 0 y 1.

    Raises:
        ValueError: si las formas no casan o en alguna secuencia no se repite ningún token.

    Fuente:
        Wang et al. (2023), «Interpretability in the Wild» («duplicate token heads»).
    """
    weights = _check_weights(weights)
    earlier = _same_token(tokens, weights).tril(-1)
    return _mass_on(weights, earlier, "cuyo token haya salido antes")


def rare_token_score(
    weights: Tensor, frequencies: Tensor | Sequence[float], *, num_rarest: int = 1, keep: Tensor | None = None
) -> Tensor:
    """Índice de palabras raras: en qué proporción de las consultas la clave más atendida es de las más raras.

    «De las más raras» quiere decir: su frecuencia es una de las `num_rarest` menores de la frase. Si hay empates entran
    todos, así que conviene mirar también el nivel de azar.

    Args:
        weights: pesos (..., h, n, n).
        frequencies: frecuencia de cada token, n números o un tensor (..., n). Solo importa el orden: de un puesto en la
            lista de frecuencias (1 = el más frecuente), pasa el opuesto.
        num_rarest: 1, el más raro; 2, uno de los dos más raros.
        keep: booleana (n,) o (..., n); los tokens en False no cuentan como consulta ni como clave.

    Returns:
        Tensor (..., h), entre 0 y 1.

    Raises:
        ValueError: si las formas no casan o no queda ningún token.

    Fuente:
        Voita et al. (2019), §5.3; allí, solo en frases cuyo token más raro no está entre los 500 más frecuentes.
    """
    weights = _check_weights(weights)
    _check_integer("num_rarest", num_rarest)
    keep = _check_keep(keep, weights)  # (..., 1, n)
    frequencies = torch.as_tensor(frequencies, device=weights.device)
    frequency = _per_token("frequencies", frequencies, weights)  # (..., 1, n)
    # Cuántas frecuencias distintas hay por debajo: cada una se cuenta en su primer token.
    repeated = ((frequency[..., :, None] == frequency[..., None, :]) & keep[..., None, :]).tril(-1).any(dim=-1)
    lower = (keep & ~repeated)[..., None, :] & (frequency[..., None, :] < frequency[..., :, None])
    rarest = keep & (lower.sum(dim=-1) < num_rarest)  # (..., 1, n)
    strongest = _strongest_key(weights, keep)  # (..., h, n)
    return _mean_over_queries(rarest.expand_as(strongest).gather(-1, strongest), keep, "sin excluir")


# --- Qué relación sigue ----------------------------------------------------------------------------------------------


def relation_accuracy(weights: Tensor | Sequence[Tensor], pairs: Sequence[Pair] | Sequence[Sequence[Pair]]) -> Tensor:
    """Acierto en una relación: en qué proporción de las parejas la clave más atendida es la debida.

    Para cada pareja (dependiente, núcleo) se mira si argmax_j A[dependiente, j] = núcleo. Para la dirección contraria,
    da la vuelta a las parejas. Un acierto solo significa algo al lado de `best_offset_baseline`, y si la cabeza se
    eligió con unas frases y se mide en otras.

    Args:
        weights: pesos (..., h, n, n) de una frase, o una lista con los de varias, que pueden ser de distinta longitud.
            Voita excluye el token de fin de frase: los mapas de `word_attention` ya no tienen tokens especiales.
        pairs: lista de posiciones (dependiente, núcleo); con varias frases, una lista de esas por frase, y pueden estar
            vacías algunas.

    Returns:
        Tensor (..., h), entre 0 y 1. Con varias frases pesa igual cada pareja, no cada frase.

    Raises:
        ValueError: si las formas no casan, una posición no existe o no hay ninguna pareja.

    Fuente:
        Voita et al. (2019), §5.2; Clark et al. (2019), §4.2.
    """
    if isinstance(weights, Tensor):
        weights, pairs = [weights], [pairs]
    if len(weights) != len(pairs):
        raise ValueError(
            f"Se esperaba una lista de parejas por frase, y llegaron {len(weights)} frases y {len(pairs)} listas. "
            "Lo habitual: pasar todas las parejas seguidas, o los mapas de cada capa en vez de los de cada frase."
        )
    hits, total = 0, 0
    for maps, relation in zip(weights, pairs, strict=True):
        maps = _check_weights(maps)
        dependents, governors = _check_pairs(relation, maps.shape[-1]).to(maps.device).T
        hits = hits + (maps.argmax(dim=-1)[..., dependents] == governors).sum(dim=-1)  # (..., h)
        total += len(relation)
    if not total:
        raise ValueError("Se esperaba al menos una pareja (dependiente, núcleo) y no llegó ninguna.")
    return hits / total


class OffsetBaseline(NamedTuple):
    """La referencia de `relation_accuracy`: siempre la misma distancia."""

    offset: int
    accuracy: float


def best_offset_baseline(choose_on: Sequence[Sequence[Pair]], score_on: Sequence[Sequence[Pair]]) -> OffsetBaseline:
    """Referencia de desplazamiento fijo: la distancia más frecuente en unas frases, puntuada en otras.

    Es lo que acertaría una cabeza que mirase siempre a la misma distancia, sin saber nada de la relación. La distancia
    es núcleo − dependiente; si empatan varias, la más corta (y antes hacia atrás).

    Args:
        choose_on: parejas (dependiente, núcleo) de cada frase del conjunto con que se elige.
        score_on: las del conjunto con que se puntúa, con otras frases. Da igual en qué orden vengan las frases.

    Returns:
        `OffsetBaseline(offset, accuracy)`; la proporción se mide en `score_on`.

    Raises:
        ValueError: si en alguno de los dos conjuntos no hay parejas o no lo son.

    Fuente:
        Voita et al. (2019), §5.2: cuenta la cabeza que la supera en un 10 % al menos (no dice si puntos o parte).
    """
    chosen, scored = (
        [int(governor - dependent) for relation in pairs for dependent, governor in _check_pairs(relation)]
        for pairs in (choose_on, score_on)
    )
    if not chosen or not scored:
        raise ValueError(
            f"Se esperaban parejas en los dos conjuntos, y hay {len(chosen)} para elegir y {len(scored)} para puntuar."
        )
    counts = Counter(chosen)
    offset = min(counts, key=lambda distance: (-counts[distance], abs(distance), distance))
    return OffsetBaseline(offset, scored.count(offset) / len(scored))


# --- Qué escribe -----------------------------------------------------------------------------------------------------


def value_weighted_norm(weights: Tensor, values: Tensor, w_o: Tensor) -> Tensor:
    """Tamaño de lo que cada clave aporta a cada consulta: ‖A[i, j] · v_j W^O_cabeza‖₂ = A[i, j] · ‖v_j W^O_cabeza‖₂.

    Un peso grande sobre un valor diminuto no aporta nada: es lo que suele pasar en un sumidero.

    Args:
        weights: pesos (..., h, n_q, n_k).
        values: valores v = x W^V + b^V, (..., h, n_k, d_k); con GQA, (..., g, n_k, d_k) con g divisor de h.
        w_o: el trozo de W^O de cada cabeza, (h, d_k, d_model): lo da `output_matrix`.

    Returns:
        Tensor (..., h, n_q, n_k), en las unidades de la corriente residual. No suma 1 por filas.

    Raises:
        ValueError: si las formas no casan.

    Fuente:
        Kobayashi et al. (2020), «Attention is Not Only a Weight».
    """
    weights = _check_weights(weights, "(..., h, n_q, n_k)", square=False)
    _check_tensor("values", values)
    _check_tensor("w_o", w_o)
    h, n_k = weights.shape[-3], weights.shape[-1]
    fits = values.ndim >= 3 and values.shape[-2] == n_k and h % max(values.shape[-3], 1) == 0
    if not fits or w_o.ndim != 3 or w_o.shape[:2] != (h, values.shape[-1]):
        raise ValueError(
            f"Con weights {_shape(weights)} se esperaban values (..., {h} o un divisor, {n_k}, d_k) y w_o "
            f"({h}, d_k, d_model), y llegaron {_shape(values)} y {_shape(w_o)}. "
            "Lo habitual: falta dividir los valores en cabezas (split_heads), o w_o es la matriz entera."
        )
    values = values.repeat_interleave(h // values.shape[-3], dim=-3)
    return weights * torch.linalg.vector_norm(values @ w_o, dim=-1)[..., None, :]


class Copying(NamedTuple):
    """Los dos números de `copying_score`, cada uno (..., h)."""

    in_top: Tensor
    percentile: Tensor


def copying_score(
    written: Tensor,
    weights: Tensor,
    tokens: Tensor,
    unembedding: Tensor,
    *,
    queries: Tensor | None = None,
    top: int = 10,
) -> Copying:
    """Índice de copia: si lo que la cabeza escribe, llevado derecho a la salida, sube el token al que atiende.

    En cada consulta i, con a = argmax_j A[i, j], se miran los logits directos z = U w_i, donde w_i es lo que la cabeza
    escribe en la corriente residual y U la matriz de salida. Dos medidas del puesto de z[x_a] entre los V tokens:

    - `in_top`: en qué proporción de las consultas está entre los `top` mayores (azar: top / V);
    - `percentile`: qué parte de los demás tokens queda por debajo, en media (azar: 0,5; un empate cuenta medio).

    Es el efecto DIRECTO. Una cabeza que copia a través de capas posteriores puede dar poco aquí: un valor bajo no
    demuestra que no copie. Olsson y sus coautores usan otra cuenta (cuánto suben los logits de los tokens de la
    secuencia frente al resto), con la misma idea.

    Si el modelo normaliza antes de la salida, pliega la ganancia γ en U: `unembedding * gamma` con RMSNorm; con
    LayerNorm, además, resta a cada fila del resultado su media. El factor que falta es positivo e igual para todos los
    tokens: no cambia el puesto de ninguno.

    Args:
        written: lo que escribe cada cabeza, (..., h, n, d_model): `record[layer] @ output_matrix(model, layer)`.
        weights: sus pesos (..., h, n, n).
        tokens: identificadores, (n,) o (..., n).
        unembedding: matriz de salida U, (V, d_model).
        queries: booleana (n,) o (..., n) con las consultas que cuentan; si falta, todas. En una secuencia repetida,
            las de la segunda copia: en la primera la cabeza aún no tiene qué copiar.
        top: cuántos tokens forman el grupo de cabeza.

    Returns:
        `Copying(in_top, percentile)`, dos tensores (..., h) entre 0 y 1.

    Raises:
        ValueError: si las formas no casan, un token no está en el vocabulario o no queda ninguna consulta.

    Fuente:
        Olsson et al. (2022), «copying»; el puesto en los logits directos es definición de este libro.
    """
    weights = _check_weights(weights)
    for name, x in (("written", written), ("tokens", tokens), ("unembedding", unembedding)):
        _check_tensor(name, x)
    _check_integer("top", top)
    if written.shape[:-1] != weights.shape[:-1] or unembedding.ndim != 2 or unembedding.shape[1] != written.shape[-1]:
        raise ValueError(
            f"Con weights {_shape(weights)} se esperaban written {(*weights.shape[:-1], 'd_model')} y unembedding "
            f"(V, d_model), y llegaron {_shape(written)} y {_shape(unembedding)}. "
            "Lo habitual: pasar la cabeza antes de W^O (multiplica por output_matrix) o U traspuesta."
        )
    counted = _check_keep(queries, weights, name="queries")
    vocabulary = unembedding.shape[0]
    tokens = _token_ids(tokens).to(weights.device)
    if tokens.min() < 0 or tokens.max() >= vocabulary:
        raise ValueError(
            f"Se esperaban identificadores entre 0 y {vocabulary - 1} (las filas de unembedding) y los hay entre "
            f"{tokens.min()} y {tokens.max()}. Lo habitual: la matriz de otro modelo."
        )
    attended = weights.argmax(dim=-1)  # (..., h, n)
    wanted = _per_token("tokens", tokens, weights).expand_as(attended).gather(-1, attended)  # (..., h, n)
    above, tied = [], []
    for w, token in zip(written.flatten(0, -3), wanted.flatten(0, -2), strict=True):  # una cabeza: (n, d_model) y (n,)
        logits = w @ unembedding.T  # (n, V)
        own = logits.gather(-1, token[:, None])
        above.append((logits > own).sum(dim=-1))
        tied.append((logits == own).sum(dim=-1) - 1)
    above = torch.stack(above).view_as(attended)
    tied = torch.stack(tied).view_as(attended)
    percentile = 1 - (above + tied / 2) / (vocabulary - 1)
    in_top = above + tied < top  # quien empata con todo el vocabulario no ha subido nada
    return Copying(*(_mean_over_queries(x, counted, "en queries") for x in (in_top, percentile)))


def retrieval_score(attended: Tensor, generated: Tokens, needle: Sequence[int], context: Tokens) -> Tensor:
    """Índice de recuperación: qué parte de la aguja copia cada cabeza mientras el modelo la escribe.

    En un paso, la cabeza copia la posición j de la aguja si j es su clave más atendida y el token que se genera es el
    de j. El índice es |copiadas| / |aguja|, con conjuntos: copiar dos veces lo mismo cuenta una, y nunca pasa de 1 (en
    el código publicado por los autores sí puede). Se cuentan posiciones, no tipos de token. Un texto en que el modelo
    no acierta da índices bajos por otra razón: los autores solo promedian las respuestas correctas.

    Args:
        attended: la clave más atendida en cada paso, enteros (steps, ...); con todas las cabezas, (steps, n_layers, h).
            En cada paso es el argmax de la última consulta, la que predice el token.
        generated: el token generado en cada paso, (steps,).
        needle: posiciones de la aguja en el contexto, distintas.
        context: el token de cada posición del contexto, con los mismos identificadores o textos que `generated`.

    Returns:
        Tensor (...,), por ejemplo (n_layers, h), entre 0 y 1.

    Raises:
        ValueError: si las longitudes no casan o la aguja está vacía, repite posiciones o se sale del contexto.

    Fuente:
        Wu et al. (2025), §2; allí es cabeza de recuperación la que pasa de 0,1 en media.
    """
    _check_tensor("attended", attended)
    generated, context = (x.tolist() if isinstance(x, Tensor) else list(x) for x in (generated, context))
    if attended.is_floating_point() or attended.ndim < 1 or len(attended) != len(generated) or not generated:
        raise ValueError(
            f"Se esperaba attended con enteros (steps, ...) y un token generado por paso, y llegaron "
            f"{_shape(attended)} de tipo {attended.dtype} y {len(generated)} tokens. Lo habitual: pasar los pesos en "
            "vez de su argmax, u olvidar la primera pasada, cuya última consulta ya genera el primer token."
        )
    needle = [operator.index(position) for position in needle]
    if not needle or len(set(needle)) < len(needle) or not 0 <= min(needle) <= max(needle) < len(context):
        raise ValueError(
            f"Se esperaban posiciones distintas entre 0 y {len(context) - 1} (las del contexto) y llegó {needle}. "
            "Lo habitual: pasar los tokens de la aguja en vez de sus posiciones."
        )
    copied = []
    for position in needle:
        right = torch.tensor([token == context[position] for token in generated], device=attended.device)
        right = right.view(-1, *[1] * (attended.ndim - 1))  # (steps, 1, …)
        copied.append(((attended == position) & right).any(dim=0))
    return torch.stack(copied).float().mean(dim=0)


# --- Dónde está W^O en cada modelo -----------------------------------------------------------------------------------


class _Layer(NamedTuple):
    """La atención de una capa: su W^O, a la que entran las cabezas concatenadas, y cuántas son."""

    projection: nn.Module
    num_heads: int


_ATTENTIONS: dict[str, tuple[str, str]] = {
    "BertAttention": ("output.dense", "self.num_attention_heads"),
    "LlamaAttention": ("o_proj", "config.num_attention_heads"),
    "GPT2Attention": ("c_proj", "num_heads"),
}
"""En cada clase de transformers, dónde están W^O y el número de cabezas de consulta."""


def _attention_modules(model: object) -> list[nn.Module]:
    """Los módulos de atención de un modelo, en el orden en que están registrados. Ese orden numera las capas."""
    if not isinstance(model, nn.Module) and isinstance(getattr(model, "model", None), nn.Module):
        model = model.model  # lo que devuelven load_bert y load_smollm2
    found = []
    for module in model.modules() if isinstance(model, nn.Module) else ():
        known = isinstance(module, MultiHeadAttention) or _kind(module) in _ATTENTIONS
        if known and not getattr(module, "is_cross_attention", False):
            found.append(module)
    if not found:
        raise ValueError(
            "Se esperaba un modelo con capas de atención (lo que devuelven load_bert o load_smollm2, un modelo BERT, "
            f"LLaMA o GPT-2 de transformers, o módulos con MultiHeadAttention) y llegó {type(model).__name__}. Lo "
            "habitual: pasar los pesos en vez del modelo, o usar torch.nn.MultiheadAttention, que no deja entrar antes "
            "de W^O: cópiala con MultiHeadAttention.from_torch."
        )
    return found


def _kind(module: nn.Module) -> str:
    """La clase de un módulo de transformers; la original, si la poda lo dejó sin cabezas."""
    return getattr(module, "pruned_from", type(module).__name__)


def _attention_layers(model: object) -> list[_Layer]:
    """La W^O y el número de cabezas de cada capa."""
    layers = []
    for module in _attention_modules(model):
        if isinstance(module, MultiHeadAttention):
            projection, num_heads = module.out_proj, module.num_heads
        else:
            projection, num_heads = (operator.attrgetter(path)(module) for path in _ATTENTIONS[_kind(module)])
        # En una capa podada entera no hay dónde entrar: lo que se cuelgue de aquí no se ejecuta nunca.
        layers.append(_Layer(projection if num_heads else nn.Identity(), num_heads))
    return layers


def output_matrix(model: object, layer: int) -> Tensor:
    """El trozo de W^O de cada cabeza de una capa: (h, d_k, d_model), como `head @ w_o`.

    La salida de la capa es Σ_i head_i W^O_i, más el sesgo si lo hay: cada cabeza escribe por su cuenta y lo escrito se
    suma.

    Args:
        model: lo que acepta `ablate`.
        layer: la capa, desde 0.

    Returns:
        Tensor (h, d_k, d_model): una vista de los pesos del modelo.

    Raises:
        ValueError: si el modelo no vale o no tiene esa capa.

    Fuente:
        Elhage et al. (2021), «Attention Heads are Independent and Additive».
    """
    layers = _attention_layers(model)
    projection, num_heads = layers[_check_layer(layer, layers)]
    weight = projection.weight.detach()
    if type(projection).__name__ != "Conv1D":  # GPT-2 guarda la matriz como x @ W; nn.Linear, traspuesta
        weight = weight.T
    return weight.unflatten(0, (num_heads, -1))


@contextmanager
def record_heads(model: object) -> Iterator[dict[int, Tensor]]:
    """Mientras dura el bloque, apunta la salida de cada cabeza antes de W^O.

        with record_heads(model) as record:
            model(ids)
        written = record[layer] @ output_matrix(model, layer)   # (batch, h, n, d_model)

    Lo que apunta va sin gradiente y es de la última pasada. Dentro de un `ablate`, es lo que queda tras la ablación.

    Args:
        model: lo que acepta `ablate`.

    Yields:
        Diccionario capa → (batch, h, n, d_k).

    Raises:
        ValueError: si el modelo no vale.
    """
    record: dict[int, Tensor] = {}

    def note(number: int, num_heads: int) -> Callable:
        def hook(_projection: nn.Module, inputs: tuple[Tensor]) -> None:
            record[number] = split_heads(inputs[0].detach(), num_heads)

        return hook

    with ExitStack() as stack:
        for number, layer in enumerate(_attention_layers(model)):
            stack.enter_context(layer.projection.register_forward_pre_hook(note(number, layer.num_heads)))
        yield record


# --- Intervenir ------------------------------------------------------------------------------------------------------


def ablate(model: object, heads: Iterable[Pair], *, how: str = "zero") -> AbstractContextManager[None]:
    """Apaga cabezas mientras dura el bloque: `with ablate(model, [(18, 6)]): …`.

    Actúa sobre las cabezas concatenadas, antes de W^O: MultiHead = Concat(head_0, …, ĥ_i, …) W^O. Lo que la cabeza
    escribía se cambia por

    - "zero": nada. Equivale a poner a cero sus columnas de `out_proj.weight` (el sesgo de W^O no es de nadie y queda).
    - "mean": su media sobre el lote y las posiciones de esa misma pasada; quita lo que depende del token y deja el
      resto. Las posiciones de relleno entran en la media: usa frases de igual longitud. Al generar paso a paso, la
      pasada es el token nuevo: con una sola secuencia la media es ella misma, no se quita nada y salta un aviso.
    - "resample": lo que escribió en el siguiente ejemplo del lote, posición por posición (el último toma el del
      primero); deja valores corrientes, pero de otro texto. Pide dos ejemplos o más.

    Los tres responden preguntas distintas; una conclusión que solo sale con uno es sospechosa. Un daño al apagarla dice
    que aquí hacía falta, no qué función cumple: compáralo con cabezas al azar de las mismas capas.

    No cambia nada más: ni los parámetros, ni los pesos de atención de la capa (sí los de las siguientes, que leen otra
    entrada), ni el paso del gradiente. Al salir, también por una excepción, el modelo queda como estaba. Se puede
    anidar: el bloque interior actúa sobre lo que deja el exterior. Ojo: una copia del modelo hecha dentro del bloque se
    queda con la ablación puesta.

    Args:
        model: lo que devuelven `load_bert` y `load_smollm2`; un modelo BERT, LLaMA o GPT-2 de transformers; una
            `MultiHeadAttention` (la capa 0) o un `nn.Module` que contenga varias, numeradas en el orden en que están
            registradas.
        heads: parejas (capa, cabeza) desde 0; con GQA, cabezas de consulta. Repetir una no tiene efecto, y con una
            lista vacía no se apaga ninguna.
        how: "zero", "mean" o "resample".

    Returns:
        Un gestor de contexto: no hace nada hasta que entra en un `with`.

    Raises:
        ValueError: si el modelo no vale, no existe la capa o la cabeza, o `how` es otra cosa; y, ya dentro del bloque,
            si "resample" recibe un lote de un ejemplo.

    Fuente:
        Michel et al. (2019), §2.3 (una puerta por cabeza); Wang et al. (2023) (por qué la media y no cero).
    """
    if not isinstance(how, str) or how not in _REPLACEMENTS:
        raise ValueError(
            f"Se esperaba how = «zero», «mean» o «resample» y llegó {how!r}. "
            "Lo habitual: el nombre traducido o en mayúsculas."
        )
    layers = _attention_layers(model)
    chosen = _check_heads(heads, layers)
    return _replacing(layers, chosen, _REPLACEMENTS[how])


@contextmanager
def _replacing(
    layers: list[_Layer], chosen: dict[int, set[int]], replace: Callable[[Tensor], Tensor]
) -> Iterator[None]:
    """Cambia la entrada de W^O en las capas elegidas mientras dura el bloque."""

    def replacing(num_heads: int, ablated: set[int]) -> Callable:
        def hook(_projection: nn.Module, inputs: tuple[Tensor]) -> Tensor:
            written = split_heads(inputs[0], num_heads)  # (batch, h, n, d_k)
            off = torch.tensor([head in ablated for head in range(num_heads)], device=written.device)
            return merge_heads(torch.where(off[:, None, None], replace(written), written))

        return hook

    with ExitStack() as stack:
        for number, ablated in chosen.items():
            layer = layers[number]
            stack.enter_context(layer.projection.register_forward_pre_hook(replacing(layer.num_heads, ablated)))
        yield


def _zero(written: Tensor) -> Tensor:
    return torch.zeros_like(written)


def _mean(written: Tensor) -> Tensor:
    if written.shape[0] == written.shape[2] == 1:
        warnings.warn(
            "La media de una sola secuencia con un solo token es ella misma: la ablación «mean» no quita nada. "
            "Lo habitual: generar paso a paso con caché; usa «zero».",
            stacklevel=2,
        )
    return written.mean(dim=(0, 2), keepdim=True)


def _resample(written: Tensor) -> Tensor:
    if written.shape[0] == 1:
        raise ValueError(
            "La ablación «resample» toma lo que la cabeza escribió para el siguiente ejemplo del lote, y el lote tiene "
            "uno solo. Pasa dos o más a la vez, o usa «zero» o «mean»."
        )
    return written.roll(-1, dims=0)


_REPLACEMENTS: dict[str, Callable[[Tensor], Tensor]] = {"zero": _zero, "mean": _mean, "resample": _resample}


# --- Piezas comunes --------------------------------------------------------------------------------------------------


def _check_tensor(name: str, x: object) -> None:
    """Un tensor con números reales y finitos: un NaN no es mayor ni menor que nada, y pasaría por un acierto."""
    attention._check_tensor(name, x)
    if x.is_complex() or x.is_meta or (x.is_floating_point() and not attention._is_real(x)):
        raise ValueError(
            f"Se esperaba {name} con números reales y llegó de tipo {x.dtype} en {x.device}. "
            "Lo habitual: un modelo creado en «meta», sin pesos, o pesos de 8 bits; conviértelos con .float()."
        )
    if x.is_floating_point() and not x.detach().sum(dtype=torch.promote_types(x.dtype, torch.float32)).isfinite():
        raise ValueError(
            f"Se esperaba {name} con números finitos y llegó con NaN o infinitos. Lo habitual: una consulta a la que "
            "la máscara no deja ninguna clave, o un entrenamiento que se desbordó."
        )


def _strongest_key(weights: Tensor, keep: Tensor) -> Tensor:
    """La clave más atendida por cada consulta entre las que cuentan, (..., h, n); `keep` es (..., 1, n)."""
    return weights.masked_fill(~keep[..., None, :], -1).argmax(dim=-1)


def _mass_on(weights: Tensor, targets: Tensor, which: str) -> Tensor:
    """Peso que cae en las claves señaladas, (..., n, n), en media sobre las consultas que tienen alguna."""
    mass = (weights * targets[..., None, :, :]).sum(dim=-1)  # (..., h, n)
    return _mean_over_queries(mass, targets.any(dim=-1)[..., None, :], which)


def _mean_over_queries(x: Tensor, counted: Tensor, which: str) -> Tensor:
    """Media de x, (..., h, n), sobre las consultas que cuentan, (..., 1, n)."""
    number = counted.sum(dim=-1)
    if not number.all():
        raise ValueError(
            f"No hay ninguna consulta {which} en alguna de las secuencias: el índice no está definido. "
            "Lo habitual: una frase demasiado corta, sin repeticiones, o una máscara que lo excluye todo."
        )
    return (x * counted).sum(dim=-1) / number


def _same_token(tokens: Tokens, weights: Tensor) -> Tensor:
    """Qué parejas de posiciones llevan el mismo token: booleana (..., n, n)."""
    ids = _per_token("tokens", _token_ids(tokens).to(weights.device), weights).squeeze(-2)  # (..., n)
    return ids[..., :, None] == ids[..., None, :]


def _token_ids(tokens: Tokens) -> Tensor:
    """Los tokens como enteros; a los textos se les da uno por orden de aparición."""
    if isinstance(tokens, Tensor):
        if tokens.dtype == torch.bool or tokens.is_floating_point() or tokens.is_complex():
            raise ValueError(
                f"Se esperaban tokens enteros y llegó un tensor de tipo {tokens.dtype}. "
                "Lo habitual: pasar los embeddings, o la máscara, en vez de los identificadores."
            )
        return tokens
    given = [] if isinstance(tokens, str) or not isinstance(tokens, Iterable) else list(tokens)
    for kind in (Integral, str):
        if given and all(isinstance(token, kind) for token in given):
            number = {token: i for i, token in enumerate(dict.fromkeys(given))}
            return torch.tensor([int(token) if kind is Integral else number[token] for token in given])
    raise ValueError(
        "Se esperaba una lista de tokens (todos enteros o todos textos) o un tensor de enteros, y llegó "
        f"{type(tokens).__name__}. Lo habitual: pasar la frase sin dividir en tokens, o una lista de listas."
    )


def _per_token(name: str, x: Tensor, weights: Tensor) -> Tensor:
    """Un dato por token, (n,) o (..., n), listo para casar con (..., h, n): (..., 1, n)."""
    n, leading = weights.shape[-1], weights.shape[:-3]
    try:
        fits = x.ndim >= 1 and x.shape[-1] == n and torch.broadcast_shapes(x.shape[:-1], leading) == leading
    except RuntimeError:
        fits = False
    if not fits:
        raise ValueError(
            f"Se esperaba {name} de forma ({n},) o {(*leading, n)}, un dato por token, y llegó {_shape(x)} con weights "
            f"{_shape(weights)}. Lo habitual: los tokens de otra frase, o sin los especiales que sí están en el mapa."
        )
    _check_tensor(name, x)
    return x[..., None, :]


def _check_keep(keep: Tensor | None, weights: Tensor, name: str = "keep") -> Tensor:
    """La máscara de tokens que cuentan, (..., 1, n)."""
    if keep is None:
        keep = torch.ones(weights.shape[-1], dtype=torch.bool, device=weights.device)
    _check_tensor(name, keep)
    if keep.dtype != torch.bool:
        raise ValueError(
            f"Se esperaba {name} booleana (True = cuenta) y llegó {keep.dtype}. "
            "Lo habitual: la máscara del tokenizador; usa mask.bool()."
        )
    return _per_token(name, keep, weights)


def _check_weights(
    weights: Tensor, form: str = "(..., h, n, n)", *, minimum_ndim: int = 3, square: bool = True
) -> Tensor:
    """Comprueba que son pesos de atención y los devuelve en float32 al menos."""
    _check_tensor("weights", weights)
    wrong = weights.ndim < minimum_ndim or weights.numel() == 0 or (square and weights.shape[-1] != weights.shape[-2])
    if wrong:
        raise ValueError(
            f"Se esperaba weights de forma {form} y llegó {_shape(weights)}. Lo habitual: falta la dimensión de "
            "cabezas (weights[None]), o son los pesos de un paso con caché, con menos consultas que claves."
        )
    is_mask, weights = weights.dtype == torch.bool, weights.to(torch.promote_types(weights.dtype, torch.float32))
    low, high = weights.aminmax()
    if not (low >= 0 and high <= 1.01):
        raise ValueError(
            f"Se esperaban pesos entre 0 y 1 y los hay entre {low:.3g} y {high:.3g}. "
            "Lo habitual: pasar las puntuaciones, de antes de la softmax."
        )
    heaviest, columns = weights.sum(dim=-1).max(), weights.sum(dim=-2)
    if heaviest > 1.01 and (is_mask or ((columns - 1).abs() < 0.01).all()):
        raise ValueError(
            f"Se esperaban filas que suman 1 y alguna suma {heaviest:.3g}. Lo habitual: "
            + (
                "pasar la máscara en vez de los pesos."
                if is_mask
                else "la softmax en otro eje (usa dim=-1), o traspuestos."
            )
        )
    return weights


def _check_pairs(pairs: Sequence[Pair], n: int | None = None) -> Tensor:
    """Parejas de posiciones como tensor (p, 2); con n, comprueba además que existen."""
    try:
        pairs = [(operator.index(dependent), operator.index(governor)) for dependent, governor in pairs]
    except (TypeError, ValueError):
        raise ValueError(
            f"Se esperaba una lista de parejas de posiciones (dependiente, núcleo) y llegó {pairs!r}. "
            "Lo habitual: pasar las palabras en vez de sus posiciones, o no poner una lista de parejas por frase."
        ) from None
    outside = [pair for pair in pairs if min(pair) < 0 or (n is not None and max(pair) >= n)]
    if outside:
        where = "desde 0" if n is None else f"entre 0 y {n - 1}"
        raise ValueError(
            f"Se esperaban posiciones {where} y llegó la pareja {outside[0]}. "
            "Lo habitual: contar tokens en un sitio y palabras en otro, o desde 1."
        )
    return torch.tensor(pairs, dtype=torch.long).view(-1, 2)


def _check_layer(layer: object, layers: list[_Layer]) -> int:
    try:
        number = operator.index(layer)
    except TypeError:
        number = -1
    if isinstance(layer, bool) or not 0 <= number < len(layers):
        raise ValueError(
            f"Se esperaba una capa entre 0 y {len(layers) - 1} (el modelo tiene {len(layers)}) y llegó {layer!r}. "
            "Lo habitual: contar desde 1; aquí, como en todo el libro, se cuenta desde 0."
        )
    return number


def _check_heads(heads: Iterable[Pair], layers: list[_Layer]) -> dict[int, set[int]]:
    """Las cabezas elegidas, por capas."""
    chosen: dict[int, set[int]] = {}
    try:
        pairs = [(layer, head) for layer, head in heads]
    except (TypeError, ValueError):
        raise ValueError(
            f"Se esperaba una lista de parejas (capa, cabeza) y llegó {heads!r}. Lo habitual: una sola pareja sin su "
            "lista, o escribirla como en el texto: la cabeza 18.6 es [(18, 6)]."
        ) from None
    for layer, head in pairs:
        number = _check_layer(layer, layers)
        num_heads = layers[number].num_heads
        try:
            index = operator.index(head)
        except TypeError:
            index = -1
        if isinstance(head, bool) or not 0 <= index < num_heads:
            raise ValueError(
                f"Se esperaba una cabeza entre 0 y {num_heads - 1} (la capa {number} tiene {num_heads}) y llegó "
                f"{head!r}. Lo habitual: contar desde 1, o dar primero la cabeza y después la capa."
            )
        chosen.setdefault(number, set()).add(index)
    return chosen
