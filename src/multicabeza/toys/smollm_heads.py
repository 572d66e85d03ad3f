"""Qué cabezas de SmolLM2 completan repeticiones, y qué se rompe (y qué no) al apagarlas (capítulo 06).

El archivo se lee de arriba abajo: los textos con que se mide, los índices de las 270 cabezas, los sorteos de control,
la medida con y sin ablación, el corte por una sola vía y el índice de copia. Las cabezas se eligen con unas semillas
(`CHOICE_SEEDS`) y se miden con otras, las del registro.

Los pesos de SmolLM2 son una aproximación de 4 bits de los publicados: lo que salga vale para ese modelo.

Letras de las formas: h cabezas, n tokens, B ejemplos, T tokens por vuelta.
"""

import itertools
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..heads import (
    Pair,
    ablate,
    copying_score,
    duplicate_token_score,
    output_matrix,
    prefix_matching_score,
    previous_token_score,
    record_heads,
    sink_score,
)
from ..models import LoadedModel, load_smollm2
from .relations import initialised, permuted

CHOICE_SEEDS = (0, 1, 2)
PERIOD, BATCH = 32, 4  # tokens por vuelta, secuencias por semilla
NUM_CHOSEN, NUM_DRAWS = 5, 50
VOCABULARY = range(1000, 40_000)  # ni los tokens más corrientes ni los más raros
PREVIOUS: Pair = (16, 0)
COPIER: Pair = (23, 2)

THRESHOLDS = {"prefix": 0.4, "previous": 0.5, "duplicate": 0.4, "sink": 0.5}
"""Desde qué valor lleva nombre una cabeza. Son convenios de este libro; el azar queda muy por debajo de todos."""


# --- Los textos ------------------------------------------------------------------------------------------------------

# Escritos para este experimento: ningún modelo se ha entrenado con ellos.
PARAGRAPHS = (
    "The bakery on the corner opens before sunrise. Marta lights the oven at four, weighs the flour by hand and lets "
    "the dough rest while she drinks her first coffee. By six the smell has crossed the street, and the bus drivers "
    "who start early come in for a warm roll. Nobody talks much at that hour. They pay, nod, and step back into the "
    "cold with a paper bag under the arm. Later, when the school opens, the shop fills with children who only want "
    "the sweet ones.",
    "A glacier is not a block of ice that stands still. Snow falls on its upper part, is pressed by the snow of later "
    "years and slowly turns into ice, and that ice flows downhill under its own weight. At the lower end it melts or "
    "breaks off into a lake. If more ice is lost below than is gained above, the front of the glacier moves back, "
    "even though every single piece of ice inside it is still travelling forward. People who visit it every summer "
    "notice the difference.",
    "When the old theatre closed, the neighbours asked the council to turn it into a library. The council answered "
    "that there was no money. So they began on their own: a retired carpenter built the shelves, two teachers sorted "
    "the books that families gave away, and a student wrote a small program to lend them. Three years later the "
    "library has more readers than the theatre ever had spectators, and the council has finally offered to pay for "
    "the heating and one part of the roof.",
    "To repair a flat tyre you need little more than patience. Turn the bicycle upside down, take the wheel off and "
    "pull the inner tube out with two levers. Pump some air into it and hold it close to your cheek: you will feel "
    "the leak before you hear it. Clean the spot, spread a thin layer of glue, wait until it is almost dry, and press "
    "the patch hard. Before you put everything back, look inside the tyre for whatever made the hole.",
    "Nobody in the village remembered who had planted the walnut tree. It stood at the edge of the square, too wide "
    "for one person to embrace, and it dropped its leaves on the roof of the church every November. The priest "
    "complained, the children collected the nuts, and the old men moved their chairs around it as the shade moved. "
    "After the storm that split it in two, people who had never spoken of the tree stood in front of it for an hour "
    "without saying anything.",
    "The experiment was simple enough for a kitchen. Two pots held the same amount of water; one was covered and the "
    "other was not. Both were placed on equal burners, and a thermometer in each was read every minute. The covered "
    "pot boiled first, by almost two minutes, because less vapour escaped and less heat went with it. Then the girl "
    "did what careful people do: she exchanged the burners and tried again, in case one of them was stronger than the "
    "other.",
    "My grandfather kept a notebook for the weather. Each line had a date, a temperature and one or two words: fog, "
    "late frost, swallows. He never used it to predict anything. When I asked him why he wrote it, he said that "
    "without it all his winters would become the same winter. I have the notebooks now, forty of them, and last month "
    "I finally copied the numbers into a table. The winters are not the same at all; the first frost comes nearly "
    "three weeks later than it did.",
    "Ships that enter the canal have to wait for their turn. A pilot climbs on board, studies the draught and the "
    "wind, and takes command until the last lock is behind them. The gates close, the water rises slowly along the "
    "wet walls, and a vessel as long as three football fields is lifted as gently as a cup on a tray. From the deck "
    "there is hardly any sound. It takes a whole day to cross, and most sailors sleep through it.",
    "The court did not decide whether the painting was genuine. It only had to settle whether the dealer could have "
    "known that it was not. Two experts had warned him in writing; a third, paid by him, had said the opposite. The "
    "judge read the three letters aloud and asked why he had framed only one of them. There was no answer. The buyer "
    "will get her money back, and the painting, which nobody wants to own any more, will stay in a cellar of the "
    "court.",
    "Bats are not blind, but at night they trust their ears. A bat sends out short calls, too high for us to hear, "
    "and listens to what returns. From the delay it learns how far away a moth is, and from the change in pitch "
    "whether the moth is coming closer. Some moths have an answer to that: they hear the bat first, fold their wings "
    "and drop like a stone. A few even click back, and the clicks spoil the picture in the mind of the hunter.",
)  # fmt: skip
TEXT_LENGTH = 96  # tokens de cada párrafo, con el de comienzo: todos igual, para que la media y el remuestreo valgan

WORDS = (
    "apple river chair moon dog paper house bird train stone book fire cloud fish door snow glass tree road horse king "
    "milk clock ship garden bridge salt wheel lamp ring hand wood boat star rain cake leaf bell coin gold shoe hat box "
    "map song wall cat sun egg key bread table window flower sword island mountain letter farm soldier doctor music"
).split()
ANIMALS = "dog cat horse cow pig sheep lion tiger bear wolf fox rabbit mouse elephant monkey goat deer bird".split()
FRUITS = "apple banana orange grape lemon peach pear cherry plum strawberry mango berry lime coconut".split()

PATTERNS = {"A: x": ":", "A x": ""}
"""Lo que va entre las dos palabras de una pareja, en las dos clases de patrón."""

TASKS = {
    "animal / fruit": (" animal", " fruit"),
    "blue / green": (" blue", " green"),
    "foo / bar": (" foo", " bar"),
}
"""Etiquetas de las tareas con ejemplos: la primera, con sentido; las otras dos, puestas a dedo."""


def repeated_tokens(seed: int, batch: int = BATCH, period: int = PERIOD) -> Tensor:
    """Secuencias de tokens al azar que se repiten dos veces, con el de comienzo delante: (batch, 1 + 2·period).

    Dentro de una vuelta no se repite ningún token, así que de cada uno hay una sola aparición anterior.

    Args:
        seed: semilla.
        batch: cuántas secuencias.
        period: tokens por vuelta, T.

    Returns:
        Identificadores; el de comienzo es el 1, `<|im_start|>`.
    """
    generator = torch.Generator().manual_seed(seed)
    rows = [torch.randperm(len(VOCABULARY), generator=generator)[:period] + VOCABULARY.start for _ in range(batch)]
    once = torch.stack(rows)
    return torch.cat([torch.ones(batch, 1, dtype=torch.long), once, once], dim=1)


def text_tokens(loaded: LoadedModel) -> Tensor:
    """Los párrafos corrientes, con el token de comienzo y cortados a la misma longitud: (10, 96)."""
    rows = [loaded.tokenizer(text, add_special_tokens=False)["input_ids"][: TEXT_LENGTH - 1] for text in PARAGRAPHS]
    return torch.tensor([[loaded.tokenizer.bos_token_id, *row] for row in rows])


def completes_a_pair(tokens: Tensor) -> Tensor:
    """Qué tokens de un texto completan una pareja que ya había salido: [A][B] … [A] → [B].

    Args:
        tokens: (B, n).

    Returns:
        Booleana (B, n − 1): la casilla i habla del token i + 1, como la pérdida.
    """
    pairs = torch.stack([tokens[:, :-1], tokens[:, 1:]], dim=-1)  # (B, n − 1, 2)
    same = (pairs[:, :, None] == pairs[:, None]).all(-1)  # (B, n − 1, n − 1)
    return same.tril(-1).any(-1)


class Prompts(NamedTuple):
    """Preguntas de una palabra.

    Attributes:
        tokens: (B, n), con el de comienzo.
        answer: (B,), el token que completa bien.
        rivals: (B, r), los tokens que también podrían ser; el bueno, entre ellos.
    """

    tokens: Tensor
    answer: Tensor
    rivals: Tensor


def single_tokens(tokenizer, words: Iterable[str]) -> dict[str, int]:
    """Las palabras que, con su espacio delante, son un solo token → su identificador."""
    encoded = {word: tokenizer(f" {word.strip()}", add_special_tokens=False)["input_ids"] for word in words}
    return {word: ids[0] for word, ids in encoded.items() if len(ids) == 1}


def pattern_prompts(loaded: LoadedModel, n: int, seed: int, mark: str = ":", num_pairs: int = 4) -> Prompts:
    """Completar un patrón, al pie de la letra: « apple: river», « chair: moon»… « apple:» → « river».

    Las parejas son al azar: nada de lo aprendido al entrenar dice qué va con qué. La lista sale dos veces, en otro
    orden la segunda: con una sola, este modelo casi nunca acierta, y no hay nada que quitarle.

    Args:
        loaded: SmolLM2.
        n: cuántas preguntas.
        seed: semilla.
        mark: lo que va entre las dos palabras de una pareja; «» para que vayan seguidas.
        num_pairs: parejas de cada una; se pregunta una que no sea la última.

    Returns:
        `Prompts`; rivales, las segundas palabras de todas las parejas.
    """
    rng = random.Random(f"parejas {seed}")
    ids = single_tokens(loaded.tokenizer, WORDS)
    between, after = (loaded.tokenizer(text, add_special_tokens=False)["input_ids"] for text in (mark, "\n"))
    rows, answers, rivals = [], [], []
    for _ in range(n):
        words = rng.sample(list(ids), 2 * num_pairs)
        pairs = list(zip(words[::2], words[1::2], strict=True))
        again = rng.sample(pairs, num_pairs)
        key, value = rng.choice(again[:-1])
        row = [loaded.tokenizer.bos_token_id]
        for first, second in [*pairs, *again]:
            row += [ids[first], *between, ids[second], *after]
        rows.append([*row, ids[key], *between])
        answers.append(ids[value])
        rivals.append([ids[second] for _, second in pairs])
    return Prompts(*map(torch.tensor, (rows, answers, rivals)))


def task_prompts(loaded: LoadedModel, task: str, n: int, seed: int, num_shots: int = 6) -> Prompts:
    """Una tarea con ejemplos: « dog: animal, apple: fruit, … horse:»; la palabra que se pregunta es nueva.

    Args:
        loaded: SmolLM2.
        task: una de `TASKS`.
        n: cuántas preguntas.
        seed: semilla.
        num_shots: ejemplos de cada una, la mitad de cada clase.

    Returns:
        `Prompts`; rivales, las dos etiquetas.
    """
    rng = random.Random(f"{task} {seed}")
    kinds = [single_tokens(loaded.tokenizer, words) for words in (ANIMALS, FRUITS)]
    labels = [*single_tokens(loaded.tokenizer, TASKS[task]).values()]
    (colon,), (comma,) = (loaded.tokenizer(mark, add_special_tokens=False)["input_ids"] for mark in ":,")
    rows, answers = [], []
    for i in range(n):
        asked = i % 2
        picked = [rng.sample([*kind.values()], num_shots // 2 + 1) for kind in kinds]
        shots = [(word, labels[kind]) for kind in (0, 1) for word in picked[kind][1:]]
        rng.shuffle(shots)
        row = [loaded.tokenizer.bos_token_id]
        for word, label in shots:
            row += [word, colon, label, comma]
        rows.append([*row, picked[asked][0], colon])
        answers.append(labels[asked])
    return Prompts(torch.tensor(rows), torch.tensor(answers), torch.tensor([labels] * n))


# --- Los índices -----------------------------------------------------------------------------------------------------


def attention_maps(model: nn.Module, tokens: Tensor) -> Tensor:
    """Los pesos de todas las cabezas: (n_layers, B, h, n, n).

    Args:
        model: un LLaMA de transformers, con `attn_implementation="eager"`.
        tokens: (B, n).

    Returns:
        Tensor (n_layers, B, h, n, n).
    """
    with torch.no_grad():
        return torch.stack(model.model(input_ids=tokens, output_attentions=True, use_cache=False).attentions)


def head_indices(maps: Tensor, tokens: Tensor) -> dict[str, Tensor]:
    """Los cuatro índices de cada cabeza, en media sobre las secuencias.

    Args:
        maps: pesos (n_layers, B, h, n, n), de `attention_maps`.
        tokens: (B, n), secuencias repetidas.

    Returns:
        «prefix», «previous», «duplicate» y «sink» → (n_layers, h).
    """
    return {
        "prefix": prefix_matching_score(maps, tokens).mean(1),
        "previous": previous_token_score(maps).mean(1),
        "duplicate": duplicate_token_score(maps, tokens).mean(1),
        "sink": sink_score(maps).mean(1),
    }


def top_heads(scores: Tensor, k: int) -> list[Pair]:
    """Las k cabezas con más índice, de mayor a menor.

    Args:
        scores: (n_layers, h).
        k: cuántas.

    Returns:
        Parejas (capa, cabeza).
    """
    return [divmod(int(i), scores.shape[1]) for i in scores.flatten().topk(k).indices]


def above(scores: Tensor, threshold: float) -> list[Pair]:
    """Las cabezas que llegan al umbral, por orden de capa.

    Args:
        scores: (n_layers, h).
        threshold: el mínimo.

    Returns:
        Parejas (capa, cabeza).
    """
    return [tuple(pair) for pair in (scores >= threshold).nonzero().tolist()]


# --- Los sorteos de control ------------------------------------------------------------------------------------------


def matched_draws(chosen: Sequence[Pair], num_heads: int, n: int, seed: int = 0) -> list[list[Pair]]:
    """Cabezas al azar de las mismas capas: en cada capa, tantas como elegidas, y nunca una elegida.

    Args:
        chosen: las cabezas elegidas.
        num_heads: cabezas por capa.
        n: cuántos sorteos, todos distintos.
        seed: semilla.

    Returns:
        n listas de parejas.

    Raises:
        ValueError: si no hay tantas combinaciones.
    """
    options = []
    for layer in sorted({layer for layer, _ in chosen}):
        taken = [head for where, head in chosen if where == layer]
        free = [(layer, head) for head in range(num_heads) if head not in taken]
        options.append([list(group) for group in itertools.combinations(free, len(taken))])
    every = [list(itertools.chain(*groups)) for groups in itertools.product(*options)]
    if len(every) < n:
        raise ValueError(f"De esas capas solo salen {len(every)} sorteos distintos, y se pidieron {n}.")
    return random.Random(f"mismas capas {seed}").sample(every, n)


def free_draws(
    size: int,
    layers: range,
    num_heads: int,
    n: int,
    seed: int = 0,
    *,
    excluding: Sequence[Pair],
    including: Sequence[Pair] = (),
) -> list[list[Pair]]:
    """Cabezas al azar de unas capas cualesquiera.

    Args:
        size: cabezas de cada sorteo.
        layers: de qué capas.
        num_heads: cabezas por capa.
        n: cuántos sorteos.
        seed: semilla.
        excluding: cabezas que no pueden salir.
        including: cabezas que están en todos los sorteos; las demás se sacan a suertes.

    Returns:
        n listas de parejas.
    """
    rng = random.Random(f"otras capas {seed} {sorted(including)}")
    barred = {*excluding, *including}
    pool = [(layer, head) for layer in layers for head in range(num_heads) if (layer, head) not in barred]
    return [[*including, *rng.sample(pool, size - len(including))] for _ in range(n)]


# --- Medir con cabezas apagadas --------------------------------------------------------------------------------------


class Tail:
    """Un texto ya leído hasta cierta capa, para medirlo muchas veces con distintas cabezas apagadas más arriba.

    Lo que ocurre por debajo de la primera capa apagada no cambia: se calcula una vez. Da lo mismo que pasar el modelo
    entero, en menos de la mitad de tiempo si se apagan cabezas de la capa 17 en adelante.

    Args:
        model: un LLaMA de transformers.
        tokens: (B, n).
        first: la primera capa que se recalcula.
    """

    def __init__(self, model: nn.Module, tokens: Tensor, first: int):
        self.model, self.tokens, self.first = model, tokens, first
        with torch.no_grad():
            output = model.model(input_ids=tokens, output_hidden_states=True, use_cache=False)
        self.stream = output.hidden_states[first]  # (B, n, d_model)

    def hidden(self) -> Tensor:
        """Lo que sale de la última capa, ya normalizado: (B, n, d_model)."""
        with torch.no_grad(), _upper_layers(self.model, self.first):
            return self.model.model(inputs_embeds=self.stream, use_cache=False).last_hidden_state

    def losses(self, heads: Sequence[Pair] = (), how: str = "zero", start: int = 0) -> Tensor:
        """Pérdida de cada token a partir de `start`, en nats, con esas cabezas apagadas.

        Args:
            heads: parejas (capa, cabeza), de la capa `first` en adelante.
            how: como en `ablate`.
            start: posición del primer token que se predice, menos uno: 0 es el segundo del texto.

        Returns:
            Tensor (B, n − 1 − start).
        """
        self._check(heads)
        with ablate(self.model, heads, how=how):
            return _losses(self.model, self.hidden(), self.tokens, start)

    def last_logits(self, heads: Sequence[Pair] = (), how: str = "zero") -> Tensor:
        """Logits del token que sigue al último, (B, V), con esas cabezas apagadas.

        Args:
            heads: parejas (capa, cabeza), de la capa `first` en adelante.
            how: como en `ablate`.

        Returns:
            Tensor (B, V).
        """
        self._check(heads)
        with torch.no_grad(), ablate(self.model, heads, how=how):
            return self.model.lm_head(self.hidden()[:, -1])

    def _check(self, heads: Sequence[Pair]) -> None:
        below = [pair for pair in heads if pair[0] < self.first]
        if below:
            raise ValueError(
                f"La cabeza {below[0][0]}.{below[0][1]} está por debajo de la capa {self.first}, desde la que se "
                "recalcula: no tendría efecto. Haz un Tail que empiece más abajo."
            )


@contextmanager
def _upper_layers(model: nn.Module, first: int) -> Iterator[None]:
    """Deja en el modelo solo las capas desde `first` mientras dura el bloque."""
    layers = model.model.layers
    model.model.layers = layers[first:]
    try:
        yield
    finally:
        model.model.layers = layers


def _losses(model: nn.Module, hidden: Tensor, tokens: Tensor, start: int) -> Tensor:
    with torch.no_grad():
        logits = model.lm_head(hidden[:, start:-1])  # (B, n − 1 − start, V)
    return F.cross_entropy(logits.transpose(1, 2), tokens[:, start + 1 :], reduction="none")


def copy_loss(model: nn.Module, tokens: Tensor, heads: Sequence[Pair] = (), how: str = "zero") -> float:
    """Pérdida media, en nats, en la segunda vuelta de unas secuencias repetidas, con esas cabezas apagadas.

    No cuenta el primer token de la vuelta: hasta verlo nadie puede saber que es una repetición.

    Args:
        model: un LLaMA de transformers.
        tokens: (B, 1 + 2·T), de `repeated_tokens`.
        heads: parejas (capa, cabeza).
        how: como en `ablate`.

    Returns:
        La pérdida.
    """
    with torch.no_grad(), ablate(model, heads, how=how):
        hidden = model.model(input_ids=tokens, use_cache=False).last_hidden_state
    return float(_losses(model, hidden, tokens, _second_round(tokens)).mean())


def text_losses(model: nn.Module, tokens: Tensor, heads: Sequence[Pair] = (), how: str = "zero") -> Tensor:
    """Pérdida de cada token de unos textos, en nats, con esas cabezas apagadas: (B, n − 1).

    Args:
        model: un LLaMA de transformers.
        tokens: (B, n).
        heads: parejas (capa, cabeza).
        how: como en `ablate`.

    Returns:
        Tensor (B, n − 1).
    """
    with torch.no_grad(), ablate(model, heads, how=how):
        hidden = model.model(input_ids=tokens, use_cache=False).last_hidden_state
    return _losses(model, hidden, tokens, 0)


def _second_round(tokens: Tensor) -> int:
    """El primer token de la segunda vuelta: el que predice el segundo de ella."""
    return (tokens.shape[1] + 1) // 2


class Score(NamedTuple):
    """Cómo van unas preguntas: si acierta cada una, y la pérdida en nats, las dos (B,)."""

    right: Tensor
    loss: Tensor


def score_answers(logits: Tensor, prompts: Prompts, *, among_rivals: bool) -> Score:
    """Puntúa unas respuestas.

    Args:
        logits: (B, V), los del token que sigue a cada pregunta.
        prompts: las preguntas.
        among_rivals: si solo compiten los rivales (tareas de dos etiquetas) o todo el vocabulario.

    Returns:
        `Score`.
    """
    if among_rivals:
        logits = logits.gather(1, prompts.rivals)
        answer = (prompts.rivals == prompts.answer[:, None]).float().argmax(1)
    else:
        answer = prompts.answer
    return Score(logits.argmax(1) == answer, F.cross_entropy(logits, answer, reduction="none"))


# --- Por qué vía lee una capa ----------------------------------------------------------------------------------------

READERS = {"query": "q_proj", "key": "k_proj", "value": "v_proj"}


@contextmanager
def cut(model: nn.Module, tail: Tail, heads: Sequence[Pair], layers: Iterable[int], reader: str) -> Iterator[None]:
    """Impide a unas capas leer, por una sola vía, lo que cambia al apagar unas cabezas de más abajo.

    Primero pasa el texto con esas cabezas apagadas y apunta lo que entra en las proyecciones de la vía (consultas,
    claves o valores). Mientras dura el bloque las cabezas están encendidas, y esas proyecciones reciben lo apuntado.

    Fuente: Elhage et al. (2021), composición Q, K y V; Wang et al. (2023), «path patching», aquí con todas las capas
    intermedias dentro.

    Args:
        model: un LLaMA de transformers.
        tail: el texto.
        heads: las cabezas cuya escritura se oculta.
        layers: las capas que dejan de verla.
        reader: «query», «key» o «value».

    Raises:
        ValueError: si la vía no existe.
    """
    if reader not in READERS:
        raise ValueError(f"Se esperaba una vía de {', '.join(READERS)}; llegó «{reader}».")
    projections = {layer: getattr(model.model.layers[layer].self_attn, READERS[reader]) for layer in layers}
    silenced: dict[int, Tensor] = {}

    def note(layer: int) -> Callable:
        def hook(_projection: nn.Module, inputs: tuple[Tensor]) -> None:
            silenced[layer] = inputs[0]

        return hook

    def put(layer: int) -> Callable:
        def hook(_projection: nn.Module, _inputs: tuple[Tensor]) -> Tensor:
            return silenced[layer]

        return hook

    with ExitStack() as stack:
        for layer, projection in projections.items():
            stack.enter_context(projection.register_forward_pre_hook(note(layer)))
        with ablate(model, heads):
            tail.hidden()
    with ExitStack() as stack:
        for layer, projection in projections.items():
            stack.enter_context(projection.register_forward_pre_hook(put(layer)))
        yield


# --- Copiar ----------------------------------------------------------------------------------------------------------


def copying(model: nn.Module, tokens: Tensor, heads: Iterable[Pair]) -> dict[Pair, tuple[float, float]]:
    """Índice de copia directa de unas cabezas en la segunda vuelta (`heads.copying_score`).

    Args:
        model: un LLaMA de transformers.
        tokens: (B, 1 + 2·T), de `repeated_tokens`.
        heads: parejas (capa, cabeza).

    Returns:
        Cabeza → (proporción de consultas en que el token atendido queda entre los diez primeros, percentil medio).
    """
    unembedding = model.lm_head.weight.detach() * model.model.norm.weight.detach()  # (V, d_model)
    queries = torch.arange(tokens.shape[1]) >= _second_round(tokens)
    found = {}
    with record_heads(model) as record:
        maps = attention_maps(model, tokens)
        for layer, head in heads:
            written = record[layer][:, [head]] @ output_matrix(model, layer)[head]  # (B, 1, n, d_model)
            score = copying_score(written, maps[layer][:, [head]], tokens, unembedding, queries=queries)
            found[layer, head] = tuple(float(x.mean()) for x in score)
    return found


# --- El registro -----------------------------------------------------------------------------------------------------

HOWS = ("zero", "mean", "resample")
NUM_PATTERNS, NUM_TASKS, NUM_TASK_DRAWS, NUM_COPIERS = 16, 20, 12, 40  # las dos primeras, por semilla
NUM_FREE, NUM_WITH_PREVIOUS = 30, 15
UPPER = range(12, 30)  # capas de los sorteos libres
SIZES = (1, 3, 5, 10)
RIVALS: tuple[Pair, ...] = ((11, 1), (2, 1), (1, 2))  # otras que miran al token anterior


def choose(loaded: LoadedModel) -> Tensor:
    """Índice de inducción de cada cabeza con las semillas de elegir: (n_layers, h)."""
    scores = []
    for seed in CHOICE_SEEDS:
        tokens = repeated_tokens(seed)
        scores.append(head_indices(attention_maps(loaded.model, tokens), tokens)["prefix"])
    return torch.stack(scores).mean(0)


def record(seeds: list[int]) -> dict:
    """Todas las medidas del capítulo 06 sobre SmolLM2."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        loaded = load_smollm2()
        scores = choose(loaded)
        chosen = top_heads(scores, NUM_CHOSEN)
        ranking = top_heads(scores, max(SIZES))
        values: dict = {"choice": {"seeds": list(CHOICE_SEEDS), "heads": chosen, "ranking": ranking}}
        values["choice"]["scores"] = _round(scores[pair] for pair in ranking)
        values["indices"] = _indices(loaded, seeds)
        values["copying"] = _copying(loaded, seeds, chosen)
        values["circuit"] = _circuit(loaded, seeds, chosen)
        values["ablation"] = _ablation(loaded, seeds, ranking)
        values["text"] = _text(loaded, chosen)
        values["patterns"] = _patterns(loaded, seeds, chosen)
        values["tasks"] = _tasks(loaded, seeds, chosen)
        return values
    finally:
        torch.set_num_threads(threads)


def _indices(loaded: LoadedModel, seeds: list[int]) -> dict:
    """Los índices de las 270 cabezas por semilla; de los controles, el máximo de 270."""
    real = [head_indices(attention_maps(loaded.model, tokens), tokens) for tokens in map(repeated_tokens, seeds)]
    values: dict = {}
    for name, threshold in THRESHOLDS.items():
        stacked = torch.stack([found[name] for found in real])  # (semillas, n_layers, h)
        mean = stacked.mean(0)
        values[name] = {
            "mean": [_round(row) for row in mean],
            "always": above(stacked.amin(0), threshold),
            "top": {_label(pair): _round(stacked[:, pair[0], pair[1]]) for pair in top_heads(mean, 10)},
            "permuted": [],
            "initialised": [],
        }
    for kind, change in {"permuted": permuted, "initialised": initialised}.items():
        for seed in seeds:
            tokens = repeated_tokens(seed)
            found = head_indices(attention_maps(change(loaded, seed).model, tokens), tokens)
            for name in THRESHOLDS:
                values[name][kind].append(round(float(found[name].max()), 3))
    return values


def _copying(loaded: LoadedModel, seeds: list[int], chosen: list[Pair]) -> dict:
    """Copia directa: las elegidas, la 23.2 y cuarenta al azar."""
    pool = [(layer, head) for layer in range(30) for head in range(9) if (layer, head) not in {*chosen, COPIER}]
    drawn = sorted(random.Random("copiar").sample(pool, NUM_COPIERS))
    by_seed = [copying(loaded.model, repeated_tokens(seed, batch=1), [*chosen, COPIER, *drawn]) for seed in seeds]
    table = {
        pair: {part: _round(found[pair][i] for found in by_seed) for i, part in enumerate(("in_top", "percentile"))}
        for pair in by_seed[0]
    }
    random_means = {
        part: _round(sum(table[pair][part]) / len(seeds) for pair in drawn) for part in ("in_top", "percentile")
    }
    named = {_label(pair): table[pair] for pair in [*chosen, COPIER]}
    return {"heads": named, "random": random_means, "drawn": drawn, "queries": PERIOD}


def _circuit(loaded: LoadedModel, seeds: list[int], chosen: list[Pair]) -> dict:
    """Qué les pasa a las elegidas al apagar la 16.0, y por qué vía; al lado, las otras ocho de su capa."""
    layer = PREVIOUS[0]
    readers = sorted({where for where, _ in chosen})
    sources = [(layer, head) for head in range(9)]
    names = ("matching", "loss")
    values: dict = {"none": {name: [] for name in names}}
    ways = {pair: ("off", *(READERS if pair == PREVIOUS else ("key",))) for pair in sources}
    values |= {_label(pair): {way: {name: [] for name in names} for way in ways[pair]} for pair in sources}
    for seed in seeds:
        tokens = repeated_tokens(seed)
        tail = Tail(loaded.model, tokens, layer)

        def note(place: dict, tail: Tail = tail, tokens: Tensor = tokens) -> None:
            with torch.no_grad(), _upper_layers(loaded.model, layer):
                output = loaded.model.model(inputs_embeds=tail.stream, output_attentions=True, use_cache=False)
            maps = torch.stack([output.attentions[where - layer][:, head] for where, head in chosen], dim=1)
            loss = _losses(loaded.model, output.last_hidden_state, tokens, _second_round(tokens)).mean()
            place["matching"].append(round(float(prefix_matching_score(maps, tokens).mean()), 3))
            place["loss"].append(round(float(loss), 3))

        note(values["none"])
        for pair in sources:
            with ablate(loaded.model, [pair]):
                note(values[_label(pair)]["off"])
            for reader in ways[pair][1:]:
                with cut(loaded.model, tail, [pair], readers, reader):
                    note(values[_label(pair)][reader])
    return values


def _ablation(loaded: LoadedModel, seeds: list[int], ranking: list[Pair]) -> dict:
    """La pérdida en la segunda vuelta, con las tres maneras de apagar, y los sorteos."""
    chosen = ranking[:NUM_CHOSEN]
    first = min(layer for layer, _ in chosen)
    matched = matched_draws(chosen, 9, NUM_DRAWS)
    free = free_draws(NUM_CHOSEN, UPPER, 9, NUM_FREE, excluding=[*chosen, PREVIOUS])
    extra = free_draws(NUM_CHOSEN, UPPER, 9, NUM_WITH_PREVIOUS, excluding=chosen, including=[PREVIOUS])
    values: dict = {
        "matched_draws": matched,
        "free_draws": free,
        "previous_draws": extra,
        "first_round": [],
        "none": [],
        **{how: {"chosen": [], "previous": [], "matched": [[] for _ in matched]} for how in HOWS},
        "sizes": {str(size): [] for size in SIZES},
        "rivals": {_label(pair): [] for pair in RIVALS},
        "free": [[] for _ in free],
        "with_previous": [[] for _ in extra],
    }
    for seed in seeds:
        tokens = repeated_tokens(seed)
        tail, lower = Tail(loaded.model, tokens, first), Tail(loaded.model, tokens, UPPER.start)
        start = _second_round(tokens)
        every = lower.losses()
        values["first_round"].append(round(float(every[:, : start - 1].mean()), 3))
        values["none"].append(round(float(every[:, start:].mean()), 3))
        for how in HOWS:
            table = values[how]
            table["chosen"].append(round(float(tail.losses(chosen, how, start).mean()), 3))
            table["previous"].append(round(float(lower.losses([PREVIOUS], how, start).mean()), 3))
            for place, draw in zip(table["matched"], matched, strict=True):
                place.append(round(float(tail.losses(draw, how, start).mean()), 3))
        for size in SIZES:
            values["sizes"][str(size)].append(round(float(tail.losses(ranking[:size], "zero", start).mean()), 3))
        for pair in RIVALS:
            values["rivals"][_label(pair)].append(round(copy_loss(loaded.model, tokens, [pair]), 3))
        for name, draws in {"free": free, "with_previous": extra}.items():
            for place, draw in zip(values[name], draws, strict=True):
                place.append(round(float(lower.losses(draw, "zero", start).mean()), 3))
    return values


def _text(loaded: LoadedModel, chosen: list[Pair]) -> dict:
    """La pérdida en texto corriente, por párrafo; aparte, los tokens que completan una pareja ya vista."""
    tokens = text_tokens(loaded)
    pair = completes_a_pair(tokens)
    tail, lower = Tail(loaded.model, tokens, min(layer for layer, _ in chosen)), Tail(loaded.model, tokens, UPPER.start)

    def summary(losses: Tensor) -> dict:
        return {
            "paragraphs": _round(losses.mean(1)),
            "pairs": round(float(losses[pair].mean()), 3),
            "others": round(float(losses[~pair].mean()), 3),
        }

    values: dict = {"tokens": tokens[:, 1:].numel(), "num_pairs": int(pair.sum()), "none": summary(tail.losses())}
    for how in HOWS:
        values[how] = {"chosen": summary(tail.losses(chosen, how)), "previous": summary(lower.losses([PREVIOUS], how))}
    values["zero"]["matched"] = [summary(tail.losses(draw)) for draw in matched_draws(chosen, 9, NUM_DRAWS)]
    return values


def _patterns(loaded: LoadedModel, seeds: list[int], chosen: list[Pair]) -> dict:
    """Completar patrones al pie de la letra."""
    values = {}
    for name, mark in PATTERNS.items():
        prompts = _joined([pattern_prompts(loaded, NUM_PATTERNS, seed, mark) for seed in seeds])
        values[name] = _answers(loaded, prompts, chosen, NUM_DRAWS, among_rivals=False)
    return values


def _tasks(loaded: LoadedModel, seeds: list[int], chosen: list[Pair]) -> dict:
    """Tareas con ejemplos."""
    values = {}
    for task in TASKS:
        prompts = _joined([task_prompts(loaded, task, NUM_TASKS, seed) for seed in seeds])
        values[task] = _answers(loaded, prompts, chosen, NUM_TASK_DRAWS, among_rivals=True)
    return values


def _answers(loaded: LoadedModel, prompts: Prompts, chosen: list[Pair], draws: int, *, among_rivals: bool) -> dict:
    first = min(layer for layer, _ in chosen)
    tail, lower = Tail(loaded.model, prompts.tokens, first), Tail(loaded.model, prompts.tokens, PREVIOUS[0])
    scores = {
        "none": score_answers(tail.last_logits(), prompts, among_rivals=among_rivals),
        "chosen": score_answers(tail.last_logits(chosen), prompts, among_rivals=among_rivals),
        "previous": score_answers(lower.last_logits([PREVIOUS]), prompts, among_rivals=among_rivals),
    }
    values: dict = {"n": len(prompts.answer), "chance": round(1 / prompts.rivals.shape[1], 3)}
    for name, score in scores.items():
        values[name] = {"right": score.right.int().tolist(), "loss": round(float(score.loss.mean()), 3)}
    values["matched"] = {"right": [], "loss": []}
    for draw in matched_draws(chosen, 9, draws):
        score = score_answers(tail.last_logits(draw), prompts, among_rivals=among_rivals)
        values["matched"]["right"].append(int(score.right.sum()))
        values["matched"]["loss"].append(round(float(score.loss.mean()), 3))
    return values


def _joined(parts: Sequence[Prompts]) -> Prompts:
    return Prompts(*(torch.cat(column) for column in zip(*parts, strict=True)))


def _label(pair: Pair) -> str:
    return f"{pair[0]}.{pair[1]}"


def _round(values: Iterable[float]) -> list[float]:
    return [round(float(value), 3) for value in values]
