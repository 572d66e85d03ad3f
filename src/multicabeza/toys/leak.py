"""Un modelo de lenguaje diminuto entrenado con y sin máscara causal (capítulo 02).

Los datos son frases de una gramática española pequeña, con concordancia de género. Como la gramática se conoce, se
sabe qué frases son correctas y cuál es la menor pérdida posible (su entropía), y eso permite juzgar lo generado.
"""

import math
import random
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..attention import causal_mask, scaled_dot_product_attention
from .training import steps

NOUNS = {
    "m": ("gato", "perro", "niño", "abuelo", "caballo", "vecino"),
    "f": ("gata", "perra", "niña", "abuela", "yegua", "vecina"),
}
ADJECTIVES = {"m": ("negro", "blanco", "pequeño", "viejo"), "f": ("negra", "blanca", "pequeña", "vieja")}
PLACES = {"m": ("sofá", "jardín", "tejado", "río"), "f": ("cama", "casa", "mesa", "playa")}
INTRANSITIVE = ("duerme", "salta", "canta", "descansa", "juega")
TRANSITIVE = ("mira", "sigue", "busca", "oye", "espera")
ADVERBS = ("siempre", "ahora", "también", "despacio")
ARTICLE = {"m": ("el",), "f": ("la",)}
TO_THE = {"m": ("al",), "f": ("a", "la")}

STOP = "."
WORDS = sorted(
    {word for table in (NOUNS, ADJECTIVES, PLACES, ARTICLE, TO_THE) for words in table.values() for word in words}
    | {*INTRANSITIVE, *TRANSITIVE, *ADVERBS, "en", "junto", STOP}
)
ID_OF = {word: index for index, word in enumerate(WORDS)}
WINDOW = 24


def sample_sentence(rng: random.Random) -> tuple[list[str], list[float]]:
    """Saca una frase de la gramática.

    Cada decisión se toma justo antes de la palabra que la delata; así se sabe cuánto sorprende cada palabra a quien
    conoce la gramática y ha leído las anteriores.

    Args:
        rng: de donde salen las decisiones.

    Returns:
        Las palabras, con el punto final, y −log p de cada una en nats.
    """
    words: list[str] = []
    surprises: list[float] = []
    pending = 0.0

    def choose(options):
        nonlocal pending
        pending += math.log(len(options))
        return rng.choice(options)

    def say(*chosen):
        nonlocal pending
        for word in chosen:
            words.append(word)
            surprises.append(pending)
            pending = 0.0

    gender = choose("mf")
    say(*ARTICLE[gender])
    say(choose(NOUNS[gender]))
    if choose((True, False)):
        say(choose(ADJECTIVES[gender]))
    if choose((True, False)):
        say(choose(INTRANSITIVE))
    else:
        say(choose(TRANSITIVE))
        other = choose("mf")
        say(*TO_THE[other])
        say(choose(NOUNS[other]))
    if choose((True, False)):
        say(choose(ADVERBS))
    if choose((True, False)):
        link, articles = choose((("en", ARTICLE), ("junto", TO_THE)))
        say(link)
        place = choose("mf")
        say(*articles[place])
        say(choose(PLACES[place]))
    say(STOP)
    return words, surprises


def is_grammatical(words: list[str]) -> bool:
    """Dice si la gramática puede producir esa frase (con su punto final).

    Args:
        words: las palabras.

    Returns:
        True si es una frase de la gramática, entera.
    """

    def after(options: list[list[str]], position: int) -> list[int]:
        """Posiciones a las que se llega leyendo alguna de las opciones desde aquí."""
        return [position + len(option) for option in options if words[position : position + len(option)] == option]

    def read(ends: list[int], options: list[list[str]], *, optional: bool = False) -> list[int]:
        reached = [end for position in ends for end in after(options, position)]
        return [*ends, *reached] if optional else reached

    ends = []
    for gender in "mf":
        start = read([0], [[*ARTICLE[gender], noun] for noun in NOUNS[gender]])
        ends += read(start, [[adjective] for adjective in ADJECTIVES[gender]], optional=True)
    complement = [[verb, *TO_THE[g], noun] for verb in TRANSITIVE for g in "mf" for noun in NOUNS[g]]
    ends = read(ends, [[verb] for verb in INTRANSITIVE] + complement)
    ends = read(ends, [[adverb] for adverb in ADVERBS], optional=True)
    links = [
        [*link, place] for g in "mf" for link in (("en", *ARTICLE[g]), ("junto", *TO_THE[g])) for place in PLACES[g]
    ]
    ends = read(ends, links, optional=True)
    return len(words) in read(ends, [[STOP]])


def sample_text(num_windows: int, seed: int) -> Tensor:
    """Ventanas de texto que empiezan en principio de frase, precedidas de un punto.

    Args:
        num_windows: número de ventanas.
        seed: fija el texto.

    Returns:
        Identificadores (num_windows, 25): 24 entradas y, desplazados un lugar, 24 objetivos.
    """
    rng = random.Random(seed)
    windows = []
    for _ in range(num_windows):
        window = [STOP]
        while len(window) <= WINDOW:
            window += sample_sentence(rng)[0]
        windows.append([ID_OF[word] for word in window[: WINDOW + 1]])
    return torch.tensor(windows)


def best_loss(num_windows: int = 20_000) -> float:
    """La menor pérdida posible por token (nats) en ventanas como las de `sample_text`.

    Es la media de −log p de los 24 objetivos de cada ventana para quien conoce la gramática, estimada con ventanas
    sorteadas. Sale algo mayor que la entropía por palabra de un texto largo, porque toda ventana empieza en principio
    de frase, que es donde menos se sabe.
    """
    rng = random.Random(0)
    total = 0.0
    for _ in range(num_windows):
        surprises: list[float] = []
        while len(surprises) < WINDOW:
            surprises += sample_sentence(rng)[1]
        total += sum(surprises[:WINDOW])
    return total / (num_windows * WINDOW)


class TinyLM(nn.Module):
    """Dos bloques de una cabeza sobre un flujo residual, con o sin máscara causal.

    Args:
        causal: si cada posición ve solo las anteriores y la suya.
        d_model: anchura del flujo residual.
        num_layers: número de bloques.
    """

    def __init__(self, causal: bool, d_model: int = 64, num_layers: int = 2):
        super().__init__()
        self.causal = causal
        self.tokens = nn.Embedding(len(WORDS), d_model)
        self.positions = nn.Embedding(WINDOW, d_model)
        self.norms = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(2 * num_layers + 1))
        self.qkv = nn.ModuleList(nn.Linear(d_model, 3 * d_model, bias=False) for _ in range(num_layers))
        self.write = nn.ModuleList(nn.Linear(d_model, d_model, bias=False) for _ in range(num_layers))
        self.mlps = nn.ModuleList(
            nn.Sequential(nn.Linear(d_model, 2 * d_model), nn.ReLU(), nn.Linear(2 * d_model, d_model))
            for _ in range(num_layers)
        )
        self.unembed = nn.Linear(d_model, len(WORDS))

    def forward(self, ids: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Predice el token siguiente en cada posición.

        Args:
            ids: (batch, n), con n ≤ 24.

        Returns:
            *Logits* (batch, n, vocabulario) y, por capa, los pesos de atención (batch, n, n).
        """
        n = ids.shape[1]
        mask = causal_mask(n, device=ids.device) if self.causal else None
        stream = self.tokens(ids) + self.positions.weight[:n]  # (batch, n, d_model)
        maps = []
        for layer, (qkv, write, mlp) in enumerate(zip(self.qkv, self.write, self.mlps, strict=True)):
            query, key, value = qkv(self.norms[2 * layer](stream)).chunk(3, dim=-1)
            output, weights = scaled_dot_product_attention(query, key, value, mask, need_weights=True)
            stream = stream + write(output)
            stream = stream + mlp(self.norms[2 * layer + 1](stream))
            maps.append(weights)
        return self.unembed(self.norms[-1](stream)), maps


def train(causal: bool, *, seed: int = 0, num_steps: int = 400) -> tuple[TinyLM, list[float]]:
    """Entrena con el objetivo de siempre, predecir el token siguiente en todas las posiciones a la vez.

    Args:
        causal: con o sin máscara causal; es lo único que cambia.
        seed: fija los pesos iniciales y el texto.
        num_steps: pasos, con lotes de 64 ventanas.

    Returns:
        El modelo y la pérdida de cada paso (nats por token).
    """
    text = sample_text(6_000, seed=10_000 + seed)
    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = TinyLM(causal)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=num_steps)
    losses = []
    for _ in steps(num_steps, f"{'con' if causal else 'sin'} máscara causal"):
        batch = text[torch.randint(len(text), (64,), generator=generator)]
        loss = F.cross_entropy(model(batch[:, :-1])[0].flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    return model.eval(), losses


@torch.no_grad()
def held_out_losses(model: TinyLM, num_windows: int = 300, seed: int = 1) -> tuple[Tensor, Tensor]:
    """Pérdida en frases nuevas, por posición y medida de dos maneras.

    Args:
        model: el modelo.
        num_windows: ventanas de prueba.
        seed: fija el texto de prueba, que ningún entrenamiento usa.

    Returns:
        Dos tensores (24,), en nats: con la ventana entera delante, como al entrenar, y con solo el principio delante,
        como al generar. En un modelo causal son iguales.
    """
    text = sample_text(num_windows, seed)
    logits = model(text[:, :-1])[0]
    whole = F.cross_entropy(logits.transpose(1, 2), text[:, 1:], reduction="none").mean(0)
    by_prefix = [F.cross_entropy(model(text[:, :n])[0][:, -1], text[:, n]) for n in range(1, WINDOW + 1)]
    return whole, torch.stack(by_prefix)


@torch.no_grad()
def generate(model: TinyLM, num_sentences: int = 200, seed: int = 0, *, max_words: int = 20) -> list[list[str]]:
    """Genera frases a partir de un punto, sorteando cada palabra según las probabilidades del modelo.

    Args:
        model: el modelo.
        num_sentences: cuántas.
        seed: fija el sorteo.
        max_words: a qué longitud se corta una frase que no termina (la más larga de la gramática, con su punto: 13).

    Returns:
        Las frases, con su punto si lo alcanzaron.
    """
    generator = torch.Generator().manual_seed(seed)
    ids = torch.full((num_sentences, 1), ID_OF[STOP])
    for _ in range(max_words):
        probabilities = model(ids)[0][:, -1].softmax(-1)
        ids = torch.cat([ids, torch.multinomial(probabilities, 1, generator=generator)], dim=1)
    sentences = [[WORDS[index] for index in row] for row in ids[:, 1:].tolist()]
    return [words[: words.index(STOP) + 1] if STOP in words else words for words in sentences]


@torch.no_grad()
def next_token_weight(model: TinyLM, num_windows: int = 100, seed: int = 1) -> float:
    """Peso medio que la capa que más lo hace pone en el token siguiente, el que hay que predecir.

    Args:
        model: el modelo.
        num_windows: ventanas de prueba.
        seed: fija el texto de prueba.

    Returns:
        Media sobre ventanas y posiciones (todas menos la última), entre 0 y 1.
    """
    maps = model(sample_text(num_windows, seed)[:, :-1])[1]
    return max(weights.diagonal(offset=1, dim1=-2, dim2=-1).mean().item() for weights in maps)


@dataclass
class LeakResult:
    """Las medidas de un modelo: pérdidas en nats por token; las demás, entre 0 y 1.

    Attributes:
        training: pérdida de entrenamiento, media de los 20 últimos pasos.
        held_out: pérdida en frases nuevas con la ventana entera delante.
        last_position: la misma, solo en la última posición, la única que no tiene delante la respuesta.
        by_prefix: pérdida en frases nuevas con solo el principio delante.
        grammatical: proporción de frases generadas que la gramática admite.
        next_token_weight: peso medio sobre el token siguiente en la capa que más lo mira.
    """

    training: float
    held_out: float
    last_position: float
    by_prefix: float
    grammatical: float
    next_token_weight: float


def measure(model: TinyLM, losses: list[float], seed: int = 0) -> LeakResult:
    """Reúne las medidas de un modelo entrenado.

    Args:
        model: el modelo.
        losses: las pérdidas de su entrenamiento.
        seed: fija el sorteo de las 200 frases generadas.

    Returns:
        Las seis medidas.
    """
    whole, by_prefix = held_out_losses(model)
    sentences = generate(model, seed=seed)
    return LeakResult(
        training=sum(losses[-20:]) / 20,
        held_out=whole.mean().item(),
        last_position=whole[-1].item(),
        by_prefix=by_prefix.mean().item(),
        grammatical=sum(map(is_grammatical, sentences)) / len(sentences),
        next_token_weight=next_token_weight(model),
    )


def record(seeds: list[int]) -> dict:
    """Las medidas con y sin máscara, una por semilla, y la pérdida mínima posible."""
    values: dict = {"best_loss": round(best_loss(), 4), "num_sentences": 200}
    for arm, causal in (("causal", True), ("unmasked", False)):
        results = [measure(*train(causal, seed=seed), seed=seed) for seed in seeds]
        values[arm] = {
            name: [round(getattr(result, name), 5) for result in results] for name in LeakResult.__dataclass_fields__
        }
    return values
