"""Un modelo de lenguaje pequeño que comparte claves y valores: calidad, memoria y velocidad a la vez (capítulo 08).

Dos textos, porque lo que cuesta compartir depende de lo que haya que leer:

    «made»       una lengua inventada de 32 símbolos. Cada uno depende de los cuatro anteriores, y lo que dice cada uno
                 de los cuatro es distinto (`tables`): p(x_i) ∝ exp Σ_k T_k[x_{i−k}, x_i]. Se sabe cuál es la menor
                 pérdida posible, la entropía, así que se mide lo que falta para llegar a ella.
    «english»    la documentación que Python trae dentro (`pydoc_data.topics`), letra a letra: inglés de verdad, en
                 cualquier ordenador y sin descargar nada. Unos temas son para entrenar y otros, enteros, para medir.
                 Con otra versión de Python el texto cambia un poco, y los números también.

El modelo tiene dos capas de ocho cabezas de consulta con d_k = 8. Lo que se compara (`ARMS`) es cuántas cabezas de
claves y valores hay, con dos controles: MQA con una red *feed-forward* más ancha, que devuelve los parámetros que se
ahorran, y una sola cabeza de consulta, cuya caché ocupa lo mismo que la de MQA.

Después, la conversión: un modelo MHA ya entrenado se convierte en GQA o MQA juntando las cabezas de cada grupo, y se
entrena un poco más.

Letras de las formas: n tokens, h cabezas de consulta, g cabezas de claves y valores.

Fuente: Shazeer (2019), §3 (MQA, con la *feed-forward* ensanchada); Ainslie et al. (2023), §2.1 (conversión) y §3.3.
"""

import re
import time
import zlib
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..attention import KVCache, MultiHeadAttention, RotaryEmbedding
from .training import steps

NUM_LAYERS, D_MODEL, NUM_HEADS, HEAD_DIM = 2, 64, 8, 8
NUM_STEPS, LEARNING_RATE = 400, 1e-2
MORE_STEPS, MORE_RATE = (20, 40), 3e-3  # reentrenamiento breve: el 5 y el 10 % de los pasos
SPEED_BATCH, SPEED_CONTEXT, SPEED_TOKENS, SPEED_ROUNDS = 64, 1024, 4, 15

SYMBOLS, ORDER, STRENGTH = 32, 4, 1.25  # de la lengua inventada: símbolos, cuántos anteriores cuentan y cuánto
ALPHABET = "\n" + "".join(map(chr, range(32, 127)))
HELD_OUT = 8  # uno de cada ocho temas, más o menos, es para medir


class Source(NamedTuple):
    """Un texto.

    Attributes:
        vocabulary: tokens distintos.
        length: predicciones de cada ventana.
        batch: ventanas de cada paso.
        exam: ventanas con que se mide, siempre las mismas.
        first: primera predicción que cuenta; en la lengua inventada, la que ya tiene cuatro símbolos delante.
    """

    vocabulary: int
    length: int
    batch: int
    exam: int
    first: int = 0


SOURCES = {
    "made": Source(SYMBOLS, 64, 32, 256, ORDER - 1),
    "english": Source(len(ALPHABET), 128, 16, 200),
}


class Shape(NamedTuple):
    """Lo que distingue a un modelo de otro: cabezas de consulta, de claves y valores, y anchura de la feed-forward."""

    num_heads: int
    num_kv_heads: int
    hidden: int = 4 * D_MODEL


# La feed-forward ancha tiene 2·d_model parámetros más por unidad; a MQA le faltan 2·d_model·(8 − 1)·d_k en cada capa.
ARMS = {
    "8": Shape(8, 8),
    "4": Shape(8, 4),
    "2": Shape(8, 2),
    "1": Shape(8, 1),
    "1 wide": Shape(8, 1, 4 * D_MODEL + 7 * HEAD_DIM),
    "one head": Shape(1, 1),
}
KV_HEADS = (8, 4, 2, 1)
METHODS = {
    "mean": "media del grupo",
    "first": "la primera del grupo",
    "pick": "una del grupo, al azar",
    "new": "pesos nuevos, al azar",
}


# --- La lengua inventada ---------------------------------------------------------------------------------------------


@cache
def tables() -> Tensor:
    """Lo que dice cada símbolo anterior del siguiente, según a qué distancia está: (4, 32, 32), siempre las mismas."""
    generator = torch.Generator().manual_seed(12_345)
    return STRENGTH * torch.randn(ORDER, SYMBOLS, SYMBOLS, generator=generator)


@torch.no_grad()
def sample_made(n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Escribe en la lengua inventada.

    Args:
        n: cuántas secuencias.
        generator: de donde sale el azar.

    Returns:
        Los símbolos (n, 65) y el logaritmo de la probabilidad que la lengua daba a cada uno, igual de grande.
    """
    total = ORDER + SOURCES["made"].length + 1  # los primeros son al azar y no se enseñan
    symbols = torch.randint(SYMBOLS, (n, total), generator=generator)
    chances = torch.zeros(n, total)
    for i in range(ORDER, total):
        votes = sum(table[symbols[:, i - 1 - k]] for k, table in enumerate(tables()))  # (n, 32)
        logs = votes.log_softmax(-1)
        symbols[:, i] = torch.multinomial(logs.exp(), 1, generator=generator)[:, 0]
        chances[:, i] = logs.gather(1, symbols[:, i : i + 1])[:, 0]
    return symbols[:, ORDER:], chances[:, ORDER:]


def floor() -> float:
    """La menor pérdida posible en las secuencias de medir: la de quien conoce la lengua."""
    _, chances = sample_made(SOURCES["made"].exam, torch.Generator().manual_seed(999))
    return -chances[:, ORDER:].mean().item()


# --- El inglés -------------------------------------------------------------------------------------------------------


@cache
def text() -> tuple[str, str]:
    """La documentación de Python, sin subrayados ni sangrías: (para entrenar, para medir), sin párrafos comunes."""
    from pydoc_data.topics import topics

    paragraphs: tuple[list[str], list[str]] = ([], [])
    for name in sorted(topics):
        plain = re.sub(r"[*=~^-]{3,}", "", topics[name])
        plain = "".join(c for c in re.sub(r" {2,}", " ", plain) if c in ALPHABET)
        paragraphs[zlib.crc32(name.encode()) % HELD_OUT == 0].extend(re.split(r"\n\s*\n", plain))
    # Hay párrafos que salen en varios temas: los que están en los de medir no se usan para entrenar.
    held = {" ".join(paragraph.split()) for paragraph in paragraphs[1]}
    train = [paragraph for paragraph in paragraphs[0] if " ".join(paragraph.split()) not in held]
    return "\n\n".join(train), "\n\n".join(paragraphs[1])


def encode(string: str) -> Tensor:
    """Caracteres → identificadores (n,)."""
    ids = {character: i for i, character in enumerate(ALPHABET)}
    return torch.tensor([ids[character] for character in string])


def decode(tokens: Sequence[int]) -> str:
    """Identificadores → caracteres."""
    return "".join(ALPHABET[int(token)] for token in tokens)


@cache
def _encoded() -> tuple[Tensor, Tensor]:
    return tuple(map(encode, text()))


# --- Los lotes -------------------------------------------------------------------------------------------------------


def batches(source: str, num_steps: int, seed: int) -> Iterator[Tensor]:
    """Lotes para entrenar: de la lengua inventada, siempre secuencias nuevas; del inglés, trozos al azar.

    Args:
        source: uno de `SOURCES`.
        num_steps: cuántos.
        seed: semilla.

    Yields:
        (batch, length + 1).
    """
    generator, (_, length, batch, *_) = torch.Generator().manual_seed(seed), SOURCES[source]
    if source == "made":
        yield from sample_made(batch * num_steps, generator)[0].split(batch)
        return
    train, _ = _encoded()
    for _ in range(num_steps):
        start = torch.randint(len(train) - length, (batch, 1), generator=generator)
        yield train[start + torch.arange(length + 1)]


@cache
def exam(source: str) -> Tensor:
    """Las ventanas con que se mide, que no salen al entrenar; las del inglés, seguidas y sin solaparse.

    Args:
        source: uno de `SOURCES`.

    Returns:
        (exam, length + 1).
    """
    _, length, _, n, _ = SOURCES[source]
    if source == "made":
        return sample_made(n, torch.Generator().manual_seed(999))[0]
    return _encoded()[1][: n * (length + 1)].view(n, length + 1)


# --- El modelo -------------------------------------------------------------------------------------------------------


class Block(nn.Module):
    """Un bloque Pre-LN: atención con posiciones rotatorias y red *feed-forward*."""

    def __init__(self, shape: Shape):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(D_MODEL) for _ in range(2))
        self.attention = MultiHeadAttention(
            D_MODEL,
            shape.num_heads,
            num_kv_heads=shape.num_kv_heads,
            head_dim=HEAD_DIM,
            bias=False,
            rotary=RotaryEmbedding(HEAD_DIM),
        )
        self.mlp = nn.Sequential(nn.Linear(D_MODEL, shape.hidden), nn.GELU(), nn.Linear(shape.hidden, D_MODEL))

    def forward(self, x: Tensor, cache: KVCache | None = None) -> Tensor:
        """(batch, n, 64) → (batch, n, 64)."""
        x = x + self.attention(self.norms[0](x), is_causal=True, cache=cache)
        return x + self.mlp(self.norms[1](x))


class LanguageModel(nn.Module):
    """Predice el token siguiente.

    Args:
        shape: cuántas cabezas de cada clase, y la anchura de la *feed-forward*.
        vocabulary: tokens distintos.
    """

    def __init__(self, shape: Shape, vocabulary: int):
        super().__init__()
        self.shape = shape
        self.tokens = nn.Embedding(vocabulary, D_MODEL)
        nn.init.normal_(self.tokens.weight, std=0.02)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(NUM_LAYERS))
        self.final_norm = nn.LayerNorm(D_MODEL)

    def forward(self, tokens: Tensor, caches: Sequence[KVCache] | None = None) -> Tensor:
        """Los *logits* del token siguiente, con las mismas matrices a la entrada y a la salida.

        Args:
            tokens: (batch, n); con caché, solo los nuevos.
            caches: una por capa, de `new_caches`; se amplían en el sitio.

        Returns:
            (batch, n, vocabulary).
        """
        x = self.tokens(tokens)
        for block, stored in zip(self.blocks, caches or [None] * NUM_LAYERS, strict=True):
            x = block(x, stored)
        return self.final_norm(x) @ self.tokens.weight.T

    def new_caches(self, window: int | None = None, num_sinks: int = 0) -> list[KVCache]:
        """Una caché vacía por capa."""
        return [KVCache(window, num_sinks) for _ in self.blocks]


def new_model(shape: Shape, vocabulary: int, seed: int = 0) -> LanguageModel:
    """Un modelo recién nacido; la semilla fija sus pesos y no toca el azar de quien llama."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return LanguageModel(shape, vocabulary)


def cache_bytes(caches: Sequence[KVCache]) -> int:
    """Lo que ocupan de verdad los tokens guardados en unas cachés."""
    return sum(stored.keys.nbytes + stored.values.nbytes for stored in caches)


@torch.no_grad()
def generate(model: LanguageModel, tokens: Tensor, num_new: int, caches: Sequence[KVCache] | None = None) -> Tensor:
    """Sigue un texto con el carácter más probable, uno a uno.

    Args:
        model: el modelo.
        tokens: (batch, n) el comienzo.
        num_new: cuántos caracteres escribir.
        caches: cachés vacías para guardar claves y valores; sin ellas, todo el texto se vuelve a pasar en cada paso.

    Returns:
        Los caracteres nuevos (batch, num_new).
    """
    whole, fresh = tokens, tokens
    for _ in range(num_new):
        following = model(whole if caches is None else fresh, caches)[:, -1:].argmax(-1)  # (batch, 1)
        whole, fresh = torch.cat([whole, following], dim=1), following
    return whole[:, tokens.shape[1] :]


# --- Entrenar y medir ------------------------------------------------------------------------------------------------


def train(arm: str, source: str = "made", seed: int = 0, num_steps: int = NUM_STEPS) -> LanguageModel:
    """Entrena un modelo; con la misma semilla, todos ven el mismo texto y en el mismo orden.

    Args:
        arm: una de `ARMS`.
        source: uno de `SOURCES`.
        seed: fija los pesos iniciales y el texto.
        num_steps: pasos.

    Returns:
        El modelo.

    Raises:
        ValueError: si la variante o el texto no existen.
    """
    for name, options in ((arm, ARMS), (source, SOURCES)):
        if name not in options:
            raise ValueError(f"Se esperaba uno de {', '.join(options)}; llegó «{name}».")
    model = new_model(ARMS[arm], SOURCES[source].vocabulary, seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, total_steps=num_steps)
    feed = batches(source, num_steps, 1_000 + seed)
    for _ in steps(num_steps, "entrenando"):
        _step(model, optimizer, next(feed))
        schedule.step()
    return model


def train_more(model: LanguageModel, source: str, seed: int, num_steps: Sequence[int] = MORE_STEPS) -> list[float]:
    """Reentrenamiento breve, a ritmo constante, con otro trozo del mismo texto. Cambia el modelo.

    Args:
        model: el modelo.
        source: uno de `SOURCES`.
        seed: fija el texto.
        num_steps: en qué pasos se mide, de menor a mayor.

    Returns:
        La pérdida en el texto de medir tras cada número de pasos.
    """
    optimizer = torch.optim.AdamW(model.parameters(), lr=MORE_RATE)
    feed, losses = batches(source, num_steps[-1], 2_000 + seed), []
    for done in steps(num_steps[-1], "reentrenando"):
        _step(model, optimizer, next(feed))
        if done + 1 in num_steps:
            losses.append(test_loss(model, source))
    return losses


def _step(model: LanguageModel, optimizer: torch.optim.Optimizer, windows: Tensor) -> None:
    loss = F.cross_entropy(model(windows[:, :-1]).flatten(0, 1), windows[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


@torch.no_grad()
def test_loss(model: LanguageModel, source: str) -> float:
    """Pérdida en el texto que no se usa para entrenar, en nats por token."""
    windows, first = exam(source), SOURCES[source].first
    logits = model(windows[:, :-1])[:, first:]
    return F.cross_entropy(logits.flatten(0, 1), windows[:, 1 + first :].flatten()).item()


# --- Convertir -------------------------------------------------------------------------------------------------------


@torch.no_grad()
def convert(model: LanguageModel, num_kv_heads: int, how: str = "mean", seed: int = 0) -> LanguageModel:
    """Hace un modelo GQA o MQA de uno MHA: cada grupo de cabezas seguidas se queda con una de claves y valores.

    Todo lo demás se copia. En las h/g cabezas de un grupo, W^K y W^V pasan a ser su media («mean»), las de la primera
    («first»), las de una al azar («pick»; las dos matrices, de la misma) o unas nuevas, como al nacer («new»).

    Args:
        model: un modelo MHA; no cambia.
        num_kv_heads: cabezas de claves y valores g del nuevo, divisor de h.
        how: una de `METHODS`.
        seed: para «pick» y «new».

    Returns:
        Otro modelo.

    Raises:
        ValueError: si el modelo ya comparte claves, g no divide a h o el modo no existe.

    Fuente: Ainslie et al. (2023), §2.1 y figura 4: media, primera y nuevas.
    """
    h, g = model.shape.num_heads, num_kv_heads
    if model.shape.num_kv_heads != h:
        raise ValueError(f"Se esperaba un modelo MHA y este ya comparte: {model.shape.num_kv_heads} de {h} cabezas.")
    if g < 1 or h % g:
        raise ValueError(f"Se esperaba un número de cabezas de claves y valores que divida a {h}; llegó {g}.")
    if how not in METHODS:
        raise ValueError(f"Se esperaba un modo de {', '.join(METHODS)}; llegó «{how}».")
    made = new_model(model.shape._replace(num_kv_heads=g), model.tokens.num_embeddings, 3_000 + seed)
    fresh = {name: weight.clone() for name, weight in made.state_dict().items()}
    generator = torch.Generator().manual_seed(seed)
    state = {}
    for name, weight in model.state_dict().items():
        if name.endswith("qkv_proj.weight"):
            query, *shared = weight.split(h * HEAD_DIM)  # W^Q; W^K y W^V (h·d_k, d_model)
            groups = [part.view(g, h // g, HEAD_DIM, D_MODEL) for part in shared]
            if how == "mean":
                shared = [part.mean(1) for part in groups]
            elif how == "new":
                shared = fresh[name][h * HEAD_DIM :].chunk(2)
            else:
                chosen = torch.randint(h // g, (g,), generator=generator) if how == "pick" else torch.zeros(g).long()
                shared = [part[torch.arange(g), chosen] for part in groups]
            weight = torch.cat([query, *(part.reshape(-1, D_MODEL) for part in shared)])
        state[name] = weight
    made.load_state_dict(state)
    return made


def copied(model: LanguageModel) -> LanguageModel:
    """Una copia, para reentrenar sin estropear el original."""
    return convert(model, model.shape.num_heads)


# --- Velocidad -------------------------------------------------------------------------------------------------------


@torch.no_grad()
def decoding_times(models: dict[str, LanguageModel], rounds: int = SPEED_ROUNDS) -> dict[str, list[float]]:
    """Segundos de procesador por paso de generación, en vueltas alternas: en cada una corren todos, por turno.

    Lote de 64 textos con 1024 tokens ya guardados: más de lo que se ve al entrenar, porque aquí solo se mide tiempo.

    Args:
        models: nombre → modelo.
        rounds: vueltas que cuentan; antes hay dos de calentamiento.

    Returns:
        Nombre → un tiempo por vuelta.
    """
    caches = {name: model.new_caches() for name, model in models.items()}
    context = torch.randint(SYMBOLS, (SPEED_BATCH, SPEED_CONTEXT), generator=torch.Generator().manual_seed(0))
    for name, model in models.items():
        for piece in context.split(128, dim=1):
            model(piece, caches[name])
    names, times = list(models), {name: [] for name in models}
    for turn in range(rounds + 2):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            start = time.process_time()
            for _ in range(SPEED_TOKENS):
                models[name](context[:, :1], caches[name])
            if turn >= 2:
                times[name].append((time.process_time() - start) / SPEED_TOKENS)
    return times


# --- El registro -----------------------------------------------------------------------------------------------------


def run(seed: int) -> dict:
    """Todo el experimento con una semilla: los modelos, lo que guardan, su velocidad y las conversiones."""
    models = {arm: train(arm, "made", seed) for arm in ARMS}
    loss = {"made": {arm: test_loss(model, "made") for arm, model in models.items()}}
    english = {arm: train(arm, "english", seed) for arm in ("8", "1")}
    loss["english"] = {arm: test_loss(model, "english") for arm, model in english.items()}
    whole, converted = english["8"], {}
    for g in map(str, KV_HEADS[1:]):
        converted[g] = {}
        for how in METHODS:
            made = convert(whole, int(g), how, seed)
            converted[g][how] = [test_loss(made, "english"), *train_more(made, "english", seed)]
    more = [loss["english"]["8"], *train_more(copied(whole), "english", seed)]
    speed = decoding_times({arm: models[arm] for arm in map(str, KV_HEADS)})
    sizes = {arm: measured_bytes(model) for arm, model in models.items()}
    return {"loss": loss, "converted": converted, "more": more, "speed": speed, "bytes": sizes}


@torch.no_grad()
def measured_bytes(model: LanguageModel) -> int:
    """Lo que ocupa cada token en la caché de un modelo, medido en una caché de verdad."""
    caches = model.new_caches()
    model(torch.zeros(1, 50, dtype=torch.long), caches)
    return cache_bytes(caches) // 50


def record(seeds: list[int]) -> dict:
    """Lo que el capítulo 08 cuenta del modelo pequeño."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        trials = [run(seed) for seed in seeds]
    finally:
        torch.set_num_threads(threads)

    def gather(*path: object) -> list[float]:
        values = []
        for node in trials:
            for key in path:
                node = node[key]
            values.append(round(node, 4))
        return values

    return {
        "characters": list(map(len, text())),
        "floor": round(floor(), 4),
        "params": {arm: sum(p.numel() for p in new_model(shape, SYMBOLS).parameters()) for arm, shape in ARMS.items()},
        "loss": {
            source: {arm: gather("loss", source, arm) for arm in arms} for source, arms in trials[0]["loss"].items()
        },
        "bytes": trials[0]["bytes"],
        "speed": {
            "batch": SPEED_BATCH,
            "context": SPEED_CONTEXT,
            "threads": 1,
            "ms": {
                arm: [round(1e3 * t, 3) for trial in trials for t in trial["speed"][arm]] for arm in trials[0]["speed"]
            },
        },
        "converted": {
            g: {how: [gather("converted", g, how, k) for k in range(1 + len(MORE_STEPS))] for how in METHODS}
            for g in trials[0]["converted"]
        },
        "more": [gather("more", k) for k in range(1 + len(MORE_STEPS))],
    }


def checkpoint_files(seeds: list[int]) -> dict[str, bytes]:
    """El modelo MHA del inglés, de la primera semilla y en float16, para convertirlo en el cuaderno."""
    from safetensors.torch import save

    model = train("8", "english", seeds[0])
    state = {name: weight.half().contiguous() for name, weight in model.state_dict().items()}
    return {f"gqa/{CHECKPOINT}": save(state)}


CHECKPOINT = "mha.safetensors"


def load_checkpoint(folders: Sequence[Path] | None = None) -> LanguageModel:
    """El modelo MHA del inglés, en float32.

    Args:
        folders: dónde buscar; si falta, donde los registros.

    Returns:
        El modelo.

    Raises:
        FileNotFoundError: si no está.
    """
    from safetensors.torch import load_file

    from .records import results_folders

    paths = [folder / "gqa" / CHECKPOINT for folder in folders or results_folders()]
    path = next((path for path in paths if path.is_file()), None)
    if path is None:
        raise FileNotFoundError(
            f"Falta el punto de control gqa/{CHECKPOINT}. Rehazlo con: python -m multicabeza.toys.records 08_gqa"
        )
    model = new_model(ARMS["8"], len(ALPHABET))
    model.load_state_dict({name: weight.float() for name, weight in load_file(path).items()})
    return model.eval()
