"""Un mini traductor del español al inglés, hecho para podarlo (capítulo 07).

El archivo se lee de arriba abajo: los lotes, el modelo, cómo se mide, cómo se entrena, cómo se poda, qué miran las
cabezas y el registro. Las frases son de `bilingual.py`.

Se podan las 32 cabezas del codificador (4 capas × 8). El decodificador, de una sola capa, no se toca: así lo que cuesta
quitar cabezas lo paga el codificador.
"""

import copy
import hashlib
import math
import random
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..attention import KVCache, MultiHeadAttention
from ..heads import ablate, best_offset_baseline, positional_score, relation_accuracy
from ..pruning import HardConcrete, gate_heads, head_importance, prune_heads
from .bilingual import BOS, ENGLISH, EOS, PAD, SIZES, SPANISH, Pair, Sentence, corpus, encode_english, encode_spanish
from .training import steps

# --- Los lotes -------------------------------------------------------------------------------------------------------


class Batch(NamedTuple):
    """Frases con la misma longitud en español.

    Attributes:
        index: qué frases son, (batch,).
        source: español con `</s>` al final, (batch, n_s), sin relleno.
        target: inglés entre `<s>` y `</s>`, (batch, n_t), con relleno a la derecha.
    """

    index: Tensor
    source: Tensor
    target: Tensor


def batches(
    sentences: Sequence[Sentence], size: int = 512, generator: torch.Generator | None = None
) -> Iterator[Batch]:
    """Reparte frases en lotes de igual longitud en español: así el codificador no necesita máscara de relleno.

    Args:
        sentences: las frases.
        size: frases por lote, como mucho.
        generator: baraja las frases y los lotes; sin él, van por orden.

    Yields:
        Lotes.
    """
    by_length: dict[int, list[int]] = {}
    for i, sentence in enumerate(sentences):
        by_length.setdefault(len(sentence.spanish), []).append(i)
    groups: list[Tensor] = []
    for length in sorted(by_length):
        index = torch.tensor(by_length[length])
        if generator is not None:
            index = index[torch.randperm(len(index), generator=generator)]
        groups += index.split(size)
    order = range(len(groups)) if generator is None else torch.randperm(len(groups), generator=generator).tolist()
    for number in order:
        index = groups[number]
        chosen = [sentences[i] for i in index.tolist()]
        source = torch.tensor([encode_spanish(sentence.spanish) for sentence in chosen])
        target = [encode_english(sentence.english) for sentence in chosen]
        longest = max(map(len, target))
        yield Batch(index, source, torch.tensor([row + [PAD] * (longest - len(row)) for row in target]))


def _shuffled(sentences: Sequence[Sentence], seed: int) -> Iterator[Batch]:
    """Lotes de entrenamiento, vuelta tras vuelta."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        yield from batches(sentences, BATCH, generator)


# --- El modelo -------------------------------------------------------------------------------------------------------

D_MODEL, D_FF = 64, 128
N_LAYERS, NUM_HEADS, DECODER_HEADS = 4, 8, 4
MAX_LENGTH = 40


def _sinusoidal(n: int, d_model: int) -> Tensor:
    """Posiciones sinusoidales (n, d_model): columnas pares seno, impares coseno (Vaswani et al., 2017, §3.5)."""
    angle = torch.arange(n)[:, None] / 10_000 ** (torch.arange(0, d_model, 2) / d_model)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2)


class FeedForward(nn.Module):
    """Red por posición: W_2 ReLU(W_1 x + b_1) + b_2."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(D_MODEL, D_FF)
        self.outer = nn.Linear(D_FF, D_MODEL)

    def forward(self, x: Tensor) -> Tensor:
        """(…, d_model) → (…, d_model)."""
        return self.outer(self.inner(x).relu())


class Encoder(nn.Module):
    """Cuatro capas de ocho cabezas: las 32 que se podan.

    x = √d · tokens[t] + posiciones;  por cada capa l:  x ← x + attention[l](attention_norms[l](x)),
    x ← x + feed_forward[l](feed_forward_norms[l](x));  salida: final_norm(x).
    """

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(len(SPANISH), D_MODEL)
        self.attention = nn.ModuleList(MultiHeadAttention(D_MODEL, NUM_HEADS, bias=False) for _ in range(N_LAYERS))
        self.attention_norms = nn.ModuleList(nn.LayerNorm(D_MODEL) for _ in range(N_LAYERS))
        self.feed_forward = nn.ModuleList(FeedForward() for _ in range(N_LAYERS))
        self.feed_forward_norms = nn.ModuleList(nn.LayerNorm(D_MODEL) for _ in range(N_LAYERS))
        self.final_norm = nn.LayerNorm(D_MODEL)
        self.register_buffer("positions", _sinusoidal(MAX_LENGTH, D_MODEL), persistent=False)

    def forward(
        self, source: Tensor, *, mask: Tensor | None = None, need_weights: bool = False
    ) -> Tensor | tuple[Tensor, list[Tensor]]:
        """Lee la frase española.

        Args:
            source: (batch, n_s).
            mask: de relleno, (batch, 1, 1, n_s); None si todas las frases miden lo mismo.
            need_weights: devuelve también los pesos.

        Returns:
            (batch, n_s, d_model), o la pareja con los pesos de cada capa, (batch, h, n_s, n_s).
        """
        x = self.tokens(source) * math.sqrt(D_MODEL) + self.positions[: source.shape[1]]
        maps = []
        for layer in range(N_LAYERS):
            attention = self.attention[layer]
            if attention.num_heads:
                written = attention(self.attention_norms[layer](x), mask=mask, need_weights=need_weights)
                if need_weights:
                    written, weights = written
                    maps.append(weights)
                x = x + written
            x = x + self.feed_forward[layer](self.feed_forward_norms[layer](x))
        x = self.final_norm(x)
        return (x, maps) if need_weights else x


class Decoder(nn.Module):
    """Una capa: autoatención causal, atención cruzada y red por posición; la salida usa la tabla `tokens`, traspuesta.

    x = √d · tokens[t] + posiciones;  x ← x + attention(norms[0](x));  x ← x + cross_attention(norms[1](x), memoria);
    x ← x + feed_forward(norms[2](x));  *logits* = final_norm(x) tokensᵀ.
    """

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(len(ENGLISH), D_MODEL)
        self.attention = MultiHeadAttention(D_MODEL, DECODER_HEADS, bias=False)
        self.cross_attention = MultiHeadAttention(D_MODEL, DECODER_HEADS, bias=False)
        self.feed_forward = FeedForward()
        self.norms = nn.ModuleList(nn.LayerNorm(D_MODEL) for _ in range(3))
        self.final_norm = nn.LayerNorm(D_MODEL)
        self.register_buffer("positions", _sinusoidal(MAX_LENGTH, D_MODEL), persistent=False)

    def forward(
        self, target: Tensor, memory: Tensor, *, mask: Tensor | None = None, cache: KVCache | None = None
    ) -> Tensor:
        """Predice el token inglés siguiente en cada posición.

        Args:
            target: (batch, n_t), desde `<s>`.
            memory: lo que dejó el codificador, (batch, n_s, d_model).
            mask: de relleno de la memoria, (batch, 1, 1, n_s).
            cache: para generar token a token.

        Returns:
            *Logits* (batch, n_t, V).
        """
        first = 0 if cache is None else cache.num_seen
        x = self.tokens(target) * math.sqrt(D_MODEL) + self.positions[first : first + target.shape[1]]
        x = x + self.attention(self.norms[0](x), is_causal=True, cache=cache)
        x = x + self.cross_attention(self.norms[1](x), memory, mask=mask)
        x = x + self.feed_forward(self.norms[2](x))
        return F.linear(self.final_norm(x), self.tokens.weight)


class Translator(nn.Module):
    """El traductor: codificador de 4 × 8 cabezas (d_k = 8) y decodificador de una capa con 4."""

    def __init__(self):
        super().__init__()
        self.encoder = Encoder()
        self.decoder = Decoder()
        for table in (self.encoder.tokens, self.decoder.tokens):
            nn.init.normal_(table.weight, std=D_MODEL**-0.5)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """*Logits* (batch, n_t, V) de cada token siguiente, con la traducción buena delante.

        Args:
            source: (batch, n_s), sin relleno.
            target: (batch, n_t), desde `<s>`; el relleno a la derecha no estorba, porque el decodificador es causal.
        """
        return self.decoder(target, self.encoder(source))


def new_model(seed: int = 0) -> Translator:
    """Un traductor recién nacido.

    Args:
        seed: fija los pesos.

    Returns:
        El modelo.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Translator()


# --- Medir -----------------------------------------------------------------------------------------------------------


@torch.no_grad()
def exact_matches(model: Translator, sentences: Sequence[Sentence]) -> Tensor:
    """Qué frases salen exactas, palabra por palabra.

    No hace falta generar: la traducción voraz coincide con la buena si, con la buena delante, cada token más probable
    es el bueno. Una sola pasada por frase.

    Args:
        model: el traductor, quizá con cabezas apagadas.
        sentences: las frases.

    Returns:
        Tensor booleano (frases,).
    """
    right = torch.zeros(len(sentences), dtype=torch.bool)
    for batch in batches(sentences):
        best = model(batch.source, batch.target[:, :-1]).argmax(-1)
        wanted = batch.target[:, 1:]
        right[batch.index] = ((best == wanted) | (wanted == PAD)).all(1)
    return right


@torch.no_grad()
def translate(model: Translator, sentences: Sequence[str | Sequence[str]]) -> list[str]:
    """Traduce generando token a token, con caché, quedándose siempre con el más probable.

    Args:
        model: el traductor.
        sentences: frases españolas, o sus listas de palabras.

    Returns:
        Las traducciones, sin `</s>`.

    Raises:
        ValueError: si alguna palabra no está en el vocabulario.
    """
    encoded = [encode_spanish(sentence) for sentence in sentences]
    by_length: dict[int, list[int]] = {}
    for i, ids in enumerate(encoded):
        by_length.setdefault(len(ids), []).append(i)
    texts = [""] * len(encoded)
    for index in by_length.values():
        memory = model.encoder(torch.tensor([encoded[i] for i in index]))
        cache, token, written = KVCache(), torch.full((len(index), 1), BOS), []
        for _ in range(MAX_LENGTH - 1):
            token = model.decoder(token, memory, cache=cache).argmax(-1)
            written.append(token)
            if (torch.cat(written, 1) == EOS).any(1).all():
                break
        for i, row in zip(index, torch.cat(written, 1).tolist(), strict=True):
            texts[i] = " ".join(ENGLISH[word] for word in (row[: row.index(EOS)] if EOS in row else row))
    return texts


def bleu(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """BLEU del conjunto, de 0 a 100, con sacrebleu y sin volver a dividir en tokens (`tokenize="none"`).

    Args:
        hypotheses: traducciones.
        references: la buena de cada una.

    Returns:
        BLEU.
    """
    from sacrebleu import corpus_bleu

    return corpus_bleu(list(hypotheses), [list(references)], tokenize="none").score


def translation_bleu(model: Translator, sentences: Sequence[Sentence]) -> float:
    """BLEU de un traductor, generando de verdad.

    Args:
        model: el traductor.
        sentences: las frases.

    Returns:
        BLEU.
    """
    hypotheses = translate(model, [sentence.spanish for sentence in sentences])
    return bleu(hypotheses, [" ".join(sentence.english) for sentence in sentences])


# --- Entrenar --------------------------------------------------------------------------------------------------------

BATCH = 128
BASE_STEPS, LEARNING_RATE = 1_500, 3e-3


def translation_loss(model: Translator, batch: Batch) -> Tensor:
    """Entropía cruzada media por token, en nats; el relleno no cuenta."""
    logits = model(batch.source, batch.target[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), batch.target[:, 1:].flatten(), ignore_index=PAD)


def _warm_cosine(step: int, total: int, warmup: int) -> float:
    """Tasa relativa: sube recta en `warmup` pasos y baja como un coseno hasta 0."""
    if step < warmup:
        return (step + 1) / warmup
    return 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, total - warmup)))


def train(
    model: Translator,
    *,
    seed: int = 0,
    num_steps: int = BASE_STEPS,
    label: str = "traductor",
    progress: Callable[[int], None] | None = None,
) -> Translator:
    """Entrena todo el traductor, con Adam.

    Args:
        model: cambia en el sitio.
        seed: fija el orden de los lotes.
        num_steps: pasos.
        label: lo que se lee junto a la barra.
        progress: se llama con cada paso ya dado.

    Returns:
        El mismo modelo.
    """
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE, betas=(0.9, 0.98), fused=True)
    stream = _shuffled(corpus("train"), 1_000 + seed)
    for step in steps(num_steps, label):
        optimizer.param_groups[0]["lr"] = LEARNING_RATE * _warm_cosine(step, num_steps, 100)
        loss = translation_loss(model, next(stream))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if progress is not None:
            progress(step + 1)
    return model.eval()


# --- Podar -----------------------------------------------------------------------------------------------------------

ALL_HEADS: tuple[Pair, ...] = tuple((layer, head) for layer in range(N_LAYERS) for head in range(NUM_HEADS))
GATED_STEPS, FIXED_STEPS = 250, 100  # fase 1, con las puertas (o la máscara fija); fase 2, con la máscara ya fija
TUNING_RATE, GATE_RATE = 1e-3, 0.05


def copy_of(model: Translator) -> Translator:
    """Una copia del traductor, para cambiarla sin tocar el original."""
    return copy.deepcopy(model)


def others(heads: Iterable[Pair]) -> list[Pair]:
    """Las cabezas del codificador que no están en la lista."""
    return sorted(set(ALL_HEADS) - set(heads))


def keep_only(model: Translator, kept: Iterable[Pair]) -> Translator:
    """Poda de verdad: deja en el codificador solo esas cabezas.

    Args:
        model: un traductor con sus 32 cabezas; cambia en el sitio.
        kept: parejas (capa, cabeza) que se quedan.

    Returns:
        El mismo modelo.
    """
    prune_heads(model.encoder, others(kept))
    return model


def tune(
    model: Translator,
    kept: Iterable[Pair] | None = None,
    *,
    strength: float | None = None,
    seed: int = 0,
    gated_steps: int = GATED_STEPS,
    fixed_steps: int = FIXED_STEPS,
    progress: Callable[[int, HardConcrete], None] | None = None,
) -> tuple[Translator, list[Pair]]:
    """Ajusta el codificador con menos cabezas y el decodificador congelado.

    Con `strength` (λ), las puertas eligen: fase 1, se entrenan a la vez el codificador y una puerta Hard Concrete por
    cabeza, con un sorteo por frase y la pérdida L = L_xent + λ Σ P(g ≠ 0); fase 2, cada puerta queda en 0 o en 1, se
    podan las cerradas y se sigue con lo que queda. Sin `strength`, la máscara es `kept` en las dos fases: mismos pasos,
    mismos lotes, mismas tasas.

    Args:
        model: el traductor entrenado; no cambia.
        kept: las cabezas que se quedan, si no eligen las puertas.
        strength: λ ≥ 0.
        seed: fija los lotes y los sorteos de las puertas.
        gated_steps: pasos de la fase 1.
        fixed_steps: pasos de la fase 2.
        progress: se llama con cada paso de la fase 1 y las puertas.

    Returns:
        El traductor podado y ajustado, y sus cabezas.

    Raises:
        ValueError: si no se da una de las dos cosas, o se dan las dos.

    Fuente:
        Voita et al. (2019), §6.1 y §6.2.
    """
    if (kept is None) == (strength is None):
        raise ValueError("Se esperaba o bien kept (la máscara) o bien strength (λ), y solo una de las dos.")
    model = copy_of(model).train()
    model.decoder.requires_grad_(False)
    stream = _shuffled(corpus("train"), 2_000 + seed)
    if strength is not None:
        kept = _choose_by_gates(model, stream, strength, seed, gated_steps, progress)
        keep_only(model, kept)
    else:
        kept = sorted(kept)
        keep_only(model, kept)
        _tune_encoder(model, stream, gated_steps, decay=False)
    _tune_encoder(model, stream, fixed_steps, decay=True)
    return model.eval(), kept


def _tune_encoder(model: Translator, stream: Iterator[Batch], num_steps: int, *, decay: bool) -> None:
    """Unos pasos del codificador, con el decodificador congelado."""
    optimizer = _encoder_optimizer(model)
    for step in steps(num_steps, "ajuste"):
        if decay:
            optimizer.param_groups[0]["lr"] = TUNING_RATE * _warm_cosine(step, num_steps, 1)
        _encoder_step(model, translation_loss(model, next(stream)), optimizer)


def _encoder_optimizer(model: Translator) -> torch.optim.Optimizer:
    return torch.optim.Adam(model.encoder.parameters(), lr=TUNING_RATE, betas=(0.9, 0.98), fused=True)


def _encoder_step(model: Translator, loss: Tensor, *optimizers: torch.optim.Optimizer) -> None:
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.encoder.parameters(), 1.0)
    for optimizer in optimizers:
        optimizer.step()


def _choose_by_gates(
    model: Translator,
    stream: Iterator[Batch],
    strength: float,
    seed: int,
    num_steps: int,
    progress: Callable[[int, HardConcrete], None] | None,
) -> list[Pair]:
    """Fase 1: entrena las puertas y devuelve las cabezas cuyas puertas quedan abiertas."""
    gates = HardConcrete(N_LAYERS, NUM_HEADS)
    generator = torch.Generator().manual_seed(3_000 + seed)
    tuning, opening = _encoder_optimizer(model), torch.optim.Adam(gates.parameters(), lr=GATE_RATE)
    for step in steps(num_steps, f"puertas, λ = {strength:g}"):
        batch = next(stream)
        drawn = gates.sample(len(batch.index), generator=generator)  # (n_layers, batch, h)
        with gate_heads(model.encoder, drawn):
            loss = translation_loss(model, batch) + strength * gates.penalty()
        _encoder_step(model, loss, tuning, opening)
        if progress is not None:
            progress(step + 1, gates)
    return [pair for pair in ALL_HEADS if gates.binary()[pair] > 0]


def from_scratch(kept: Iterable[Pair], *, seed: int = 0, num_steps: int = BASE_STEPS) -> Translator:
    """Entrena desde cero un traductor que nunca tuvo más cabezas que esas.

    Args:
        kept: parejas (capa, cabeza).
        seed: fija los pesos y los lotes, como en el traductor entero de la misma semilla.
        num_steps: pasos.

    Returns:
        El modelo.
    """
    return train(keep_only(new_model(seed), kept), seed=seed, num_steps=num_steps, label="desde cero")


def importance(model: Translator, sentences: Sequence[Sentence], removed: Iterable[Pair] = ()) -> Tensor:
    """Importancia de Michel de las 32 cabezas del codificador, normalizada por capa.

    Args:
        model: el traductor entero.
        sentences: con qué frases se estima.
        removed: cabezas que ya se han apagado.

    Returns:
        Tensor (4, 8).
    """

    def loss(model: Translator, batch: Batch) -> Tensor:
        logits = model(batch.source, batch.target[:, :-1])
        return F.cross_entropy(logits.flatten(0, 1), batch.target[:, 1:].flatten(), ignore_index=PAD, reduction="sum")

    with ablate(model.encoder, removed):
        return head_importance(model, list(batches(sentences, 128)), loss, layers=range(N_LAYERS), normalize="l2")


def michel_order(model: Translator, sentences: Sequence[Sentence], *, iterative: bool) -> list[Pair]:
    """El orden en que se quitan las cabezas, de la menos a la más importante.

    Args:
        model: el traductor entero.
        sentences: con qué frases se estima; nunca las de prueba.
        iterative: vuelve a medir tras quitar cada dos; si no, una sola medida las ordena todas.

    Returns:
        Las 32 parejas.

    Fuente:
        Michel et al. (2019), §4.1.
    """
    order: list[Pair] = []
    while len(order) < len(ALL_HEADS):
        scores = importance(model, sentences, order)
        left = sorted(others(order), key=lambda pair: scores[pair].item())
        order += left[:2] if iterative else left
    return order


def random_masks(k: int, n: int, seed: int) -> list[list[Pair]]:
    """Sortea n conjuntos de k cabezas, todas con la misma probabilidad.

    Args:
        k: cabezas que se quedan.
        n: cuántos sorteos.
        seed: fija los sorteos.

    Returns:
        Lista de listas ordenadas de parejas.
    """
    rng = random.Random(f"máscaras {seed} {k}")
    return [sorted(rng.sample(ALL_HEADS, k)) for _ in range(n)]


# --- Qué miran las cabezas -------------------------------------------------------------------------------------------

RELATIONS = ("possessive", "clitic", "attribute", "far_adjective", "verb_subject", "verb_object")
OFFSETS = (-2, -1, 1, 2)
MARGIN = 0.10  # lo que una cabeza debe sacar al mejor desplazamiento fijo (Voita et al., 2019, §5.2)


@torch.no_grad()
def encoder_maps(model: Translator, sentences: Sequence[Sentence]) -> list[Tensor]:
    """Los mapas de atención del codificador en cada frase, sin `</s>`.

    Args:
        model: el traductor, entero o podado.
        sentences: las frases.

    Returns:
        Un tensor (cabezas, n, n) por frase, con las cabezas de todas las capas seguidas.
    """
    found: list[Tensor] = [torch.empty(0)] * len(sentences)
    for batch in batches(sentences):
        _, maps = model.encoder(batch.source, need_weights=True)
        joined = torch.cat(maps, 1)[..., :-1, :-1]  # (batch, cabezas, n, n)
        for i, weights in zip(batch.index.tolist(), joined, strict=True):
            found[i] = weights
    return found


def positional(maps: Sequence[Tensor]) -> Tensor:
    """El mejor índice posicional de cada cabeza, en media sobre las frases: (cabezas,)."""
    shares = [
        torch.stack([positional_score(weights, offset) for weights in maps if weights.shape[-1] > abs(offset)]).mean(0)
        for offset in OFFSETS
    ]
    return torch.stack(shares).amax(0)


def relation_pairs(sentences: Sequence[Sentence], name: str) -> list[list[Pair]]:
    """Las parejas de una relación en cada frase; con «~» delante del nombre, en la dirección contraria."""
    reverse = name.startswith("~")
    pairs = [sentence.relations.get(name.removeprefix("~"), []) for sentence in sentences]
    return [[(b, a) for a, b in row] if reverse else row for row in pairs]


def roles(model: Translator, choose_on: Sequence[Sentence], score_on: Sequence[Sentence]) -> dict:
    """Qué relación sigue cada cabeza del codificador, si sigue alguna.

    Una cabeza sigue una relación si, en las dos mitades, acierta al menos 10 puntos más que el mejor desplazamiento
    fijo, que se elige en la primera.

    Args:
        model: el traductor, entero o podado.
        choose_on: frases con las que se elige.
        score_on: frases con las que se mide.

    Returns:
        «positional» → el mejor índice posicional de cada cabeza; «relations» → relación → acierto de cada cabeza, nivel
        del desplazamiento fijo y qué cabezas la siguen (por su puesto).
    """
    chosen, scored = encoder_maps(model, choose_on), encoder_maps(model, score_on)
    table = {}
    for name in (name for relation in RELATIONS for name in (relation, f"~{relation}")):
        first, second = relation_pairs(choose_on, name), relation_pairs(score_on, name)
        level = best_offset_baseline(first, second).accuracy
        level_first = best_offset_baseline(first, first).accuracy
        accuracy_first, accuracy = relation_accuracy(chosen, first), relation_accuracy(scored, second)
        passes = (accuracy_first >= level_first + MARGIN) & (accuracy >= level + MARGIN)
        table[name] = {
            "baseline": round(level, 3),
            "accuracy": _round(accuracy.tolist()),
            "passes": passes.nonzero().flatten().tolist(),
        }
    return {"positional": _round(positional(scored).tolist()), "relations": table}


# --- El registro -----------------------------------------------------------------------------------------------------

STRENGTHS = (0.001, 0.003, 0.01, 0.03)
TOLERANCE = 0.03  # se elige la λ más fuerte que, en validación, pierde como mucho esto de frases exactas
NUM_MASKS, NUM_OTHER_MASKS, NUM_ORDERS = 10, 3, 10
CURVE = (32, 30, 28, 26, 24, 20, 16, 12, 8, 6, 4, 2, 1, 0)
IMPORTANCE_SENTENCES = 1_000


def choose_strength(validation: dict[float, float], whole: float, tolerance: float = TOLERANCE) -> float:
    """La regla con que se elige λ, fijada antes de mirar la prueba.

    Args:
        validation: λ → frases exactas en validación, de 0 a 1.
        whole: las del traductor con todas sus cabezas y el mismo ajuste.
        tolerance: cuánto se acepta perder.

    Returns:
        La mayor λ que no pierde más; si todas pierden más, la menor.
    """
    fitting = [strength for strength, exact in validation.items() if exact >= whole - tolerance]
    return max(fitting, default=min(validation))


def _label(pairs: Iterable[Pair]) -> list[str]:
    return [f"{layer}.{head}" for layer, head in pairs]


def _pairs(labels: Iterable[str]) -> list[Pair]:
    return [(int(layer), int(head)) for layer, head in (label.split(".") for label in labels)]


def _round(values: Iterable[float], digits: int = 3) -> list[float]:
    return [round(value, digits) for value in values]


class _Exam:
    """Mide traductores con las frases de prueba y recuerda qué frases acertó cada uno."""

    def __init__(self):
        self.sentences = corpus("test")
        self.hits: dict[str, Tensor] = {}

    def __call__(self, name: str, model: Translator, *, with_bleu: bool = True) -> dict:
        hits = self.hits[name] = exact_matches(model, self.sentences)
        scores = {"exact": round(hits.float().mean().item(), 4)}
        if with_bleu:
            scores["bleu"] = round(translation_bleu(model, self.sentences), 2)
        return scores

    def by_phenomenon(self, name: str) -> dict[str, float]:
        """Frases exactas entre las que contienen cada fenómeno."""
        hits = self.hits[name].tolist()
        table: dict[str, list[bool]] = {}
        for sentence, hit in zip(self.sentences, hits, strict=True):
            for phenomenon in sentence.phenomena:
                table.setdefault(phenomenon, []).append(hit)
        return {phenomenon: round(sum(row) / len(row), 4) for phenomenon, row in sorted(table.items())}


def _study(seed: int) -> tuple[dict, dict[str, Tensor], dict[str, tuple[Translator, list[Pair]]]]:
    """Todo lo que se hace con una semilla: medidas, aciertos frase a frase y los dos modelos que se guardan."""
    exam, validation, seen = _Exam(), corpus("validation"), corpus("train", IMPORTANCE_SENTENCES)
    base = train(new_model(seed), seed=seed)
    out: dict = {"base": exam("base", base) | {"validation": _exact(base, validation)}}

    # La base que cuenta: las 32 cabezas, con el mismo ajuste que los demás.
    whole, _ = tune(base, ALL_HEADS, seed=seed)
    out["whole"] = exam("whole", whole) | {"validation": _exact(whole, validation)}
    out["gates"], tuned = {}, {}
    for strength in STRENGTHS:
        model, kept = tune(base, strength=strength, seed=seed)
        tuned[strength] = model, kept
        scores = exam(f"gates {strength}", model) | {"validation": _exact(model, validation)}
        out["gates"][str(strength)] = {"k": len(kept), "heads": _label(kept), **scores}
    chosen = choose_strength(
        {strength: out["gates"][str(strength)]["validation"] for strength in STRENGTHS}, out["whole"]["validation"]
    )
    model, kept = tuned[chosen]
    k = len(kept)
    out["chosen"] = {"strength": chosen, "k": k}
    exam.hits["gates"] = exam.hits[f"gates {chosen}"]

    # Los controles, con los mismos pasos: al azar, por importancia, desde cero y sin ninguna cabeza.
    out["random"] = {}
    for size in sorted({k} | {len(heads) for _, heads in tuned.values()} - {0}):
        masks = random_masks(size, NUM_MASKS if size == k else NUM_OTHER_MASKS, seed)
        rows = []
        for number, mask in enumerate(masks):
            name = f"random {number}" if size == k else f"random {size} {number}"
            rows.append({"heads": _label(mask), **exam(name, tune(base, mask, seed=seed)[0], with_bleu=size == k)})
        out["random"][str(size)] = rows
    orders = {way: michel_order(base, seen, iterative=way == "iterative") for way in ("one_shot", "iterative")}
    out["michel"] = {}
    for way, order in orders.items():
        mask = others(order[: len(ALL_HEADS) - k])
        out["michel"][way] = {"heads": _label(mask), **exam(f"michel {way}", tune(base, mask, seed=seed)[0])}
    out["scratch"] = {
        "gates": exam("scratch gates", from_scratch(kept, seed=seed)),
        "random": exam("scratch random", from_scratch(random_masks(k, 1, seed)[0], seed=seed)),
        "none": exam("scratch none", from_scratch((), seed=seed)),
    }
    out["none"] = exam("none", tune(base, (), seed=seed)[0])

    out["curves"] = _untrained_curves(base, orders, seed)
    out["phenomena"] = {
        name: exam.by_phenomenon(name) for name in ("base", "whole", "gates", "random 0", "none", "scratch none")
    }
    half = corpus("validation", 500), exam.sentences[:500]
    out["roles"] = {"base": roles(base, *half), "pruned": {"heads": _label(kept), **roles(model, *half)}}
    out["importance"] = [_round(row) for row in importance(base, seen).tolist()]
    halved = {"base": (base, list(ALL_HEADS)), "pruned": (model, kept)}
    out["float16"] = {name: exam(f"half {name}", _halved(*pair))["exact"] for name, pair in halved.items()}
    return out, exam.hits, halved


def _exact(model: Translator, sentences: Sequence[Sentence]) -> float:
    return round(exact_matches(model, sentences).float().mean().item(), 4)


def _untrained_curves(base: Translator, orders: dict[str, list[Pair]], seed: int) -> dict:
    """Frases exactas y BLEU al apagar cada vez más cabezas, sin tocar nada más."""
    sentences, shorter = corpus("test"), corpus("test", 1_000)
    curves: dict = {"kept": list(CURVE)}

    def off(order: Sequence[Pair], kept: int, measure: Callable) -> float:
        with ablate(base.encoder, order[: len(ALL_HEADS) - kept]):
            return measure()

    for way, order in orders.items():
        curves[way] = {
            "exact": [off(order, kept, lambda: _exact(base, sentences)) for kept in CURVE],
            "bleu": [round(off(order, kept, lambda: translation_bleu(base, sentences)), 2) for kept in CURVE],
            "order": _label(order),
        }
    rng = random.Random(f"órdenes {seed}")
    draws = [rng.sample(ALL_HEADS, len(ALL_HEADS)) for _ in range(NUM_ORDERS)]
    curves["random"] = {"exact": [[off(d, kept, lambda: _exact(base, shorter)) for kept in CURVE] for d in draws]}
    single = [off([pair], 31, lambda: _exact(base, sentences)) for pair in ALL_HEADS]
    curves["single"] = _round(single, 4)
    return curves


def _paired(hits: Sequence[dict[str, Tensor]], one: Sequence[str], two: Sequence[str], seed: int = 0) -> dict:
    """Diferencia de frases exactas entre dos grupos de modelos, en puntos, con su intervalo pareado.

    Los modelos de un grupo se promedian. El intervalo sale de 2000 remuestreos de las frases, las mismas para los dos
    grupos y para todas las semillas, y de los modelos de cada grupo (las máscaras al azar). Las semillas quedan fijas:
    lo que cambia de una a otra se ve en «seeds».
    """
    rng = torch.Generator().manual_seed(seed)
    tables = [[torch.stack([run[name] for name in group]).double() for group in (one, two)] for run in hits]
    means = [100 * (first.mean() - second.mean()).item() for first, second in tables]
    n = tables[0][0].shape[1]
    draws = []
    for _ in range(2_000):
        index, total = torch.randint(n, (n,), generator=rng), 0.0
        for groups in tables:
            first, second = (rows[torch.randint(len(rows), (len(rows),), generator=rng)] for rows in groups)
            total += (first[:, index].mean() - second[:, index].mean()).item()
        draws.append(100 * total / len(tables))
    low, high = torch.tensor(draws).quantile(torch.tensor([0.025, 0.975])).tolist()
    return {"mean": round(sum(means) / len(means), 2), "interval": _round([low, high], 2), "seeds": _round(means, 2)}


def _partial(seed: int) -> tuple[dict, dict[str, Tensor], dict[str, bytes]]:
    """El estudio de una semilla; si ya se hizo con este mismo código, lo lee de la carpeta temporal.

    Así un corte no pierde las semillas acabadas, y se pueden hacer varias a la vez, cada una en su proceso:

        python -c "from multicabeza.toys import translator; translator._partial(11)"
    """
    from .records import RECIPES, code_hash

    folder = Path(tempfile.gettempdir()) / f"multicabeza-traductor-{code_hash(RECIPES['07_translation'].code)[:16]}"
    path = folder / f"{seed}.pt"
    if not path.is_file():
        values, hits, models = _study(seed)
        content = values, hits, {name: _packed(*pair) for name, pair in models.items()}
        folder.mkdir(exist_ok=True)
        torch.save(content, path.with_suffix(".tmp"))
        path.with_suffix(".tmp").rename(path)
    return torch.load(path, weights_only=True)


def record(seeds: list[int]) -> dict:
    """Las medidas del capítulo 07."""
    values: dict = {"sizes": SIZES, "parameters": sum(p.numel() for p in new_model().parameters())}
    values["steps"] = {"base": BASE_STEPS, "gated": GATED_STEPS, "fixed": FIXED_STEPS}
    values["phenomena"] = {
        name: sum(name in sentence.phenomena for sentence in corpus("test"))
        for name in sorted({name for sentence in corpus("test") for name in sentence.phenomena})
    }
    parts = [_partial(seed) for seed in seeds]
    values["runs"] = {str(seed): run for seed, (run, _, _) in zip(seeds, parts, strict=True)}
    hits = [found for _, found, _ in parts]
    random_names = [f"random {number}" for number in range(NUM_MASKS)]
    comparisons = {
        "gates_whole": (["gates"], ["whole"]),
        "random_whole": (random_names, ["whole"]),
        "gates_random": (["gates"], random_names),
        "gates_michel": (["gates"], ["michel one_shot"]),
        "gates_scratch": (["gates"], ["scratch gates"]),
        "gates_scratch_random": (["gates"], ["scratch random"]),
        "gates_none": (["gates"], ["none"]),
        "random_none": (random_names, ["none"]),
        "whole_scratch_none": (["whole"], ["scratch none"]),
    }
    values["differences"] = {name: _paired(hits, *groups) for name, groups in comparisons.items()}
    values["checkpoints"] = {
        "seed": seeds[0],
        "heads": {"base": _label(ALL_HEADS), "pruned": parts[0][0]["roles"]["pruned"]["heads"]},
        "sha256": {checkpoint_path(name): hashlib.sha256(data).hexdigest() for name, data in parts[0][2].items()},
    }
    return values


# --- Puntos de control -----------------------------------------------------------------------------------------------

CHECKPOINTS = ("base", "pruned")


def checkpoint_path(name: str) -> str:
    """Dónde está, dentro de `results/`, un punto de control."""
    return f"translation/{name}.safetensors"


def _packed(model: Translator, kept: Sequence[Pair]) -> bytes:
    from safetensors.torch import save

    tensors = {name: weight.half().contiguous() for name, weight in model.state_dict().items() if weight.numel()}
    return save(tensors, metadata={"heads": " ".join(_label(kept))})


def _halved(model: Translator, kept: Sequence[Pair]) -> Translator:
    """El mismo traductor tras guardarlo en float16 y leerlo."""
    from safetensors.torch import load

    return _unpacked(load(_packed(model, kept)), kept)


def _unpacked(tensors: dict[str, Tensor], kept: Sequence[Pair]) -> Translator:
    model = keep_only(new_model(), kept)
    model.load_state_dict({name: weight.float() for name, weight in tensors.items()}, strict=False)
    return model.eval()


def checkpoint_files(seeds: Sequence[int]) -> dict[str, bytes]:
    """Los dos puntos de control de la primera semilla, en float16: el traductor entero y el que podaron las puertas.

    Args:
        seeds: las del registro.

    Returns:
        Ruta dentro de `results/` → contenido en formato safetensors.
    """
    return {checkpoint_path(name): data for name, data in _partial(seeds[0])[2].items()}


def load_checkpoint(name: str = "base") -> Translator:
    """Un traductor ya entrenado, de los que hay en `results/translation/`.

    Los pesos se guardan en float16 y se usan en float32. Los nombres son los del `state_dict`. En las formas, V_e y V_i
    son los tamaños de `SPANISH` y `ENGLISH` (el número de una palabra es su puesto en esas listas; 0 `<pad>`, 1 `<s>`,
    2 `</s>`), y k_l las cabezas que le quedan a la capa l (8 en «base»):

    | nombre | forma | qué es |
    |---|---|---|
    | `encoder.tokens.weight` | (V_e, 64) | el vector de cada palabra española; se multiplica por √64 |
    | `encoder.attention_norms.l.weight`, `.bias` | (64,) | LayerNorm antes de la atención de la capa l, de 0 a 3 |
    | `encoder.attention.l.qkv_proj.weight` | (3·8·k_l, 64) | filas de Q, de K y de V, por tercios; 8 por cabeza |
    | `encoder.attention.l.out_proj.weight` | (64, 8·k_l) | W^O traspuesta: 8 columnas por cabeza |
    | `encoder.feed_forward_norms.l.weight`, `.bias` | (64,) | LayerNorm antes de la red por posición |
    | `encoder.feed_forward.l.inner.weight`, `.bias` | (128, 64), (128,) | primera matriz; después, ReLU |
    | `encoder.feed_forward.l.outer.weight`, `.bias` | (64, 128), (64,) | segunda matriz |
    | `encoder.final_norm.weight`, `.bias` | (64,) | LayerNorm de salida del codificador |
    | `decoder.tokens.weight` | (V_i, 64) | palabras inglesas: entrada (por √64) y, traspuesta, salida (sin √64) |
    | `decoder.norms.i.weight`, `.bias` | (64,) | 0 antes de la autoatención, 1 de la cruzada, 2 de la red |
    | `decoder.attention.qkv_proj.weight` | (192, 64) | autoatención causal, 4 cabezas de 16 |
    | `decoder.attention.out_proj.weight` | (64, 64) | |
    | `decoder.cross_attention.qkv_proj.weight` | (192, 64) | 4 cabezas de 16: Q sale del inglés; K y V, del español |
    | `decoder.cross_attention.out_proj.weight` | (64, 64) | |
    | `decoder.feed_forward.inner…`, `.outer…` | como arriba | |
    | `decoder.final_norm.weight`, `.bias` | (64,) | LayerNorm antes de los *logits* |

    Las posiciones no se guardan: son sinusoidales, columnas pares seno e impares coseno. Ninguna proyección de atención
    lleva sesgo, y las LayerNorm usan eps = 1e-5. Una capa que se queda sin cabezas no tiene `qkv_proj` ni `out_proj`.
    Los metadatos del archivo dicen, en `heads`, qué cabezas quedan.

    Args:
        name: «base», con sus 32 cabezas, o «pruned», el que podaron las puertas.

    Returns:
        El modelo.

    Raises:
        ValueError: si no hay punto de control con ese nombre.
        FileNotFoundError: si falta el archivo.
    """
    from safetensors import safe_open

    from .records import results_folders

    if name not in CHECKPOINTS:
        raise ValueError(f"Se esperaba un punto de control de {', '.join(CHECKPOINTS)}; llegó {name!r}.")
    found = [folder / checkpoint_path(name) for folder in results_folders()]
    path = next((path for path in found if path.is_file()), None)
    if path is None:
        raise FileNotFoundError(
            f"Falta {checkpoint_path(name)} en results/. Rehazlo con: python -m multicabeza.toys.records 07_translation"
        )
    with safe_open(path, "pt") as file:
        tensors = {key: file.get_tensor(key) for key in file.keys()}
        kept = _pairs(file.metadata()["heads"].split())
    return _unpacked(tensors, kept)
