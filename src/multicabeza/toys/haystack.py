"""Agujas en un pajar: encontrar un dato dentro de un texto, y qué cabezas lo traen (capítulo 06).

Entre frases corrientes hay una con un dato inventado (la aguja), y al final una pregunta que no repite sus palabras. Si
las repitiera, la respuesta sería la continuación de algo ya visto, y recuperar sería inducción. El archivo se lee de
arriba abajo: agujas y preguntas, el texto de una medida exacta, lo que responde el modelo, el índice de recuperación de
sus 270 cabezas y qué pasa al apagarlas.

Las cabezas se eligen con unas plantillas y unas palabras (`CHOICE`) y se miden con otras (`TEST`).

Letras de las formas: h cabezas, n tokens, B ejemplos.
"""

import random
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..heads import Pair, ablate, retrieval_score
from ..models import LoadedModel, forward_with_cache, load_smollm2
from .relations import permuted
from .smollm_heads import (
    PARAGRAPHS,
    Tail,
    attention_maps,
    choose,
    copy_loss,
    matched_draws,
    repeated_tokens,
    text_losses,
    text_tokens,
    top_heads,
)

NEW_TOKENS = 10
LENGTHS = (128, 224, 320)
DEPTHS = (0.1, 0.5, 0.9)
PER_TEMPLATE = 2  # datos distintos de cada plantilla
LEAD = "The answer is:"
"""Cómo empieza la respuesta. El modelo no tiene que repetir la aguja para llegar al dato."""


class Template(NamedTuple):
    """Una aguja con un hueco para el dato, su pregunta y la clase de dato (una clave de las palabras de la mitad)."""

    needle: str
    question: str
    kind: str


class Part(NamedTuple):
    """Plantillas, datos y párrafos de relleno de una de las dos mitades del experimento."""

    templates: tuple[Template, ...]
    data: dict[str, tuple[str, ...]]
    paragraphs: tuple[str, ...]


CHOICE = Part(
    (
        Template("Marta opens her safe with the code {}.", "Which secret number does Marta use?", "number"),
        Template("The train to {} leaves at noon.", "Where does the train go?", "city"),
        Template("The company sold {} bicycles last year.", "How many bikes did the firm sell?", "number"),
        Template("The prize went to {}.", "Who is the winner?", "name"),
    ),
    {
        "number": ("3201", "4867", "2594", "1738"),
        "city": ("Oslo", "Lima", "Cairo", "Prague"),
        "name": ("Felix Novak", "Simon Rivers", "Leo Baker", "Oscar Stone"),
    },
    PARAGRAPHS[:5],
)
TEST = Part(
    (
        Template("Doctor Klein can be reached at {}.", "What is the telephone number of Doctor Klein?", "number"),
        Template("For her birthday Laura got a {}.", "What present did Laura receive?", "thing"),
        Template("The pilot landed the plane in {}.", "In which city did the aircraft touch down?", "city"),
        Template("Hugo lives in {}.", "Where is Hugo's house?", "city"),
    ),
    {
        "number": ("7045", "9162", "5380", "6829"),
        "thing": ("golden violin", "wooden bicycle", "purple lamp", "silver guitar"),
        "city": ("Lisbon", "Tokyo", "Dublin", "Vienna"),
    },
    PARAGRAPHS[5:],
)


# --- El texto --------------------------------------------------------------------------------------------------------


class Haystack(NamedTuple):
    """Un texto con su aguja, en tokens.

    Attributes:
        tokens: (n,), con el de comienzo, el texto, la pregunta y el principio de la respuesta.
        needle: posiciones del dato en el texto.
        answer: el dato, como texto.
    """

    tokens: Tensor
    needle: list[int]
    answer: str


def filler(seed: int, paragraphs: Sequence[str] = PARAGRAPHS) -> list[str]:
    """Las frases corrientes de los párrafos del capítulo, en un orden al azar."""
    sentences = [sentence for text in paragraphs for sentence in re.split(r"(?<=[.?!]) ", text)]
    return random.Random(f"pajar {seed}").sample(sentences, len(sentences))


def build(
    loaded: LoadedModel,
    needle: str,
    answer: str,
    question: str,
    *,
    length: int = 224,
    depth: float = 0.5,
    seed: int = 0,
    lead: str = LEAD,
    paragraphs: Sequence[str] = PARAGRAPHS,
) -> Haystack:
    """Esconde una frase en un texto de `length` tokens exactos y pregunta por ella.

    Args:
        loaded: SmolLM2.
        needle: la frase, con el dato dentro.
        answer: el dato, tal como aparece en la frase.
        question: la pregunta.
        length: tokens de todo. Si el relleno no cae justo, se le corta el comienzo.
        depth: dónde va la aguja, de 0 (al principio) a 1 (al final del texto).
        seed: fija las frases de relleno.
        lead: cómo empieza la respuesta.
        paragraphs: de dónde salen las frases de relleno.

    Returns:
        `Haystack`.

    Raises:
        ValueError: si el dato no está una sola vez en la frase, la profundidad no está entre 0 y 1, o en la longitud
            no caben la aguja y la pregunta, o sobra sitio para todo el relleno.
    """

    def encode(text: str) -> list[int]:
        return loaded.tokenizer(text, add_special_tokens=False)["input_ids"]

    if not answer.strip() or needle.count(answer) != 1:
        raise ValueError(
            f"Se esperaba que el dato «{answer}» saliera una vez en la frase «{needle}» y sale "
            f"{needle.count(answer) if answer else 0} veces. Lo habitual: cambiar uno de los dos textos y no el otro."
        )
    if not 0 <= depth <= 1:
        raise ValueError(f"Se esperaba una profundidad entre 0 y 1 y llegó {depth}. Lo habitual: darla en tokens.")
    before, after = needle.split(answer)
    head, data = encode(f" {before.rstrip()}") if before.strip() else [], encode(f" {answer}")
    sentence = head + data + encode(after)
    opening = encode("<|im_start|>user\nRead this text:")
    closing = encode(f"\n\nAnswer briefly, with words of the text. {question}<|im_end|>\n<|im_start|>assistant\n{lead}")
    pieces = [encode(f" {text}") for text in filler(seed, paragraphs)]
    fixed = len(opening) + len(sentence) + len(closing)
    most = fixed + sum(map(len, pieces))
    if not fixed <= length <= most:
        raise ValueError(
            f"Se esperaba una longitud entre {fixed} y {most} tokens y llegó {length}. "
            "Lo habitual: contar solo el relleno; la longitud incluye la aguja y la pregunta."
        )
    used: list[list[int]] = []
    while sum(map(len, used)) < length - fixed:
        used.append(pieces[len(used)])
    place = round(depth * len(used))
    excess = sum(map(len, used)) - (length - fixed)
    for i, piece in enumerate(used):  # el comienzo del texto, cortado para que la cuenta salga
        used[i], excess = piece[excess:], max(0, excess - len(piece))
    start = len(opening) + sum(map(len, used[:place])) + len(head)
    body = [token for piece in [*used[:place], sentence, *used[place:]] for token in piece]
    return Haystack(torch.tensor([*opening, *body, *closing]), list(range(start, start + len(data))), answer)


def examples(
    loaded: LoadedModel,
    part: Part,
    length: int,
    *,
    per_template: int = PER_TEMPLATE,
    seed: int = 0,
    literal: bool = False,
) -> list[Haystack]:
    """Agujas × profundidades de una longitud, ordenadas por aguja.

    Args:
        loaded: SmolLM2.
        part: `CHOICE` o `TEST`.
        length: tokens de cada texto.
        per_template: datos distintos de cada plantilla; cada aguja se esconde en las tres profundidades.
        seed: fija los datos y el relleno.
        literal: si la respuesta empieza con las palabras de la aguja que preceden al dato.

    Returns:
        len(part.templates) × per_template × 3 textos.
    """
    rng = random.Random(f"agujas {seed}")
    found = []
    for i, template in enumerate(part.templates):
        for j, answer in enumerate(rng.sample(part.data[template.kind], per_template)):
            for depth in DEPTHS:
                lead = f"{LEAD} {template.needle.split(' {}')[0]}" if literal else LEAD
                options = dict(length=length, depth=depth, lead=lead, paragraphs=part.paragraphs)
                needle = template.needle.format(answer)
                filler_seed = 100 * seed + 10 * i + j  # la misma aguja, siempre entre las mismas frases
                found.append(build(loaded, needle, answer, template.question, seed=filler_seed, **options))
    return found


def shared_words(template: Template) -> set[str]:
    """Palabras que la pregunta repite de la aguja, en minúsculas."""
    needle, question = (set(re.findall(r"[a-z]+", text.lower())) for text in (template.needle, template.question))
    return needle & question


# --- Lo que responde el modelo ---------------------------------------------------------------------------------------


def generate(model: nn.Module, tokens: Tensor, num_new: int = NEW_TOKENS) -> Tensor:
    """Continúa unos textos de igual longitud, siempre con el token más probable.

    Args:
        model: un LLaMA de transformers.
        tokens: (B, n).
        num_new: tokens que se generan.

    Returns:
        Los generados, (B, num_new).
    """
    made, cache, new = [], None, tokens
    with torch.no_grad():
        for _ in range(num_new):
            output, cache = forward_with_cache(model, new, cache, logits_to_keep=1)
            new = output.logits[:, -1].argmax(-1, keepdim=True)
            made.append(new)
    return torch.cat(made, dim=1)


def reply(loaded: LoadedModel, generated: Tensor) -> str:
    """La respuesta: lo generado, hasta el token de fin o el primer salto de línea."""
    text = loaded.tokenizer.decode(generated)
    return re.split(r"<\|im_end\|>|\n", text)[0].strip()


def is_right(text: str, answer: str) -> bool:
    """Si la respuesta contiene el dato, sin mirar mayúsculas."""
    return answer.lower() in text.lower()


class AnswerLoss:
    """La pérdida del dato como respuesta, en nats, medida muchas veces con distintas cabezas apagadas.

    Args:
        model: un LLaMA de transformers.
        stacks: textos de igual longitud.
        first: la primera capa que se recalcula; por debajo no se puede apagar nada.
    """

    def __init__(self, model: nn.Module, stacks: Sequence[Haystack], first: int = 0):
        longest = max(len(stack.needle) for stack in stacks)
        rows = [torch.cat([s.tokens, s.tokens[s.needle], s.tokens.new_zeros(longest - len(s.needle))]) for s in stacks]
        self.tokens = torch.stack(rows)
        self.start = len(stacks[0].tokens) - 1
        sizes = torch.tensor([len(stack.needle) for stack in stacks])
        self.counted = torch.arange(longest) < sizes[:, None]  # (B, longest)
        self.tail = Tail(model, self.tokens, first)

    def __call__(self, heads: Sequence[Pair] = (), how: str = "zero") -> tuple[Tensor, Tensor]:
        """Mide con esas cabezas apagadas.

        Args:
            heads: parejas (capa, cabeza), de la capa `first` en adelante.
            how: como en `ablate`.

        Returns:
            La pérdida del primer token del dato, (B,), y la media de los demás, (B,), NaN donde no hay.
        """
        losses = self.tail.losses(heads, how, self.start)  # (B, el dato más largo)
        counted = self.counted[:, 1:]
        return losses[:, 0], (losses[:, 1:] * counted).sum(1) / counted.sum(1)


# --- El índice -------------------------------------------------------------------------------------------------------


class Index(NamedTuple):
    """El índice de recuperación de cada cabeza, (n_layers, h): del dato entero, de su primer token y de los demás.

    Escrito el primer token, los siguientes son la continuación de algo que ya salió: para copiarlos basta la inducción.
    El primero es el que hay que ir a buscar. `rest` es NaN si el dato tiene un solo token.
    """

    whole: Tensor
    first: Tensor
    rest: Tensor


def retrieval_index(model: nn.Module, stack: Haystack, generated: Tensor) -> Index:
    """Índice de recuperación de todas las cabezas en un texto.

    Una sola pasada sobre el texto y lo generado da los mismos pesos que generar de uno en uno.

    Args:
        model: un LLaMA de transformers con `attn_implementation="eager"`.
        stack: el texto.
        generated: (num_new,), de `generate`.

    Returns:
        `Index`, de `heads.retrieval_score`.
    """
    maps = attention_maps(model, torch.cat([stack.tokens, generated])[None])[:, 0]  # (n_layers, h, n, n)
    query = len(stack.tokens) - 1  # la consulta que genera el primer token
    attended = maps[:, :, query : query + len(generated)].argmax(-1).permute(2, 0, 1)  # (pasos, n_layers, h)
    first, rest = stack.needle[:1], stack.needle[1:]
    whole, start = (retrieval_score(attended, generated, part, stack.tokens) for part in (stack.needle, first))
    end = retrieval_score(attended, generated, rest, stack.tokens) if rest else torch.full_like(start, torch.nan)
    return Index(whole, start, end)


def share_above(
    indices: Tensor, needles: Tensor, threshold: float, num_resamples: int = 2_000
) -> tuple[float, float, float]:
    """Qué proporción de las cabezas pasa del umbral, con un intervalo del 95 % por remuestreo de las agujas.

    Se remuestrean agujas enteras, con todas sus profundidades y longitudes: lo que se mide con la misma aguja no es
    independiente.

    Args:
        indices: índice de cada cabeza en cada texto, (B, n_layers, h).
        needles: qué aguja lleva cada texto, (B,).
        threshold: el umbral.
        num_resamples: cuántas veces.

    Returns:
        (proporción, extremo inferior, extremo superior).
    """
    generator = torch.Generator().manual_seed(0)
    groups = [indices[needles == needle].flatten(1) for needle in needles.unique()]
    sums, sizes = torch.stack([g.sum(0) for g in groups]), torch.tensor([len(g) for g in groups])
    picks = torch.randint(len(groups), (num_resamples, len(groups)), generator=generator)
    counts = F.one_hot(picks, len(groups)).sum(1)  # (num_resamples, agujas)
    means = (counts.float() @ sums) / (counts @ sizes)[:, None]
    shares = (means > threshold).float().mean(1)
    whole = (indices.flatten(1).mean(0) > threshold).float().mean()
    return float(whole), *(float(x) for x in shares.quantile(torch.tensor([0.025, 0.975])))


# --- El registro -----------------------------------------------------------------------------------------------------

NUM_CHOSEN, NUM_DRAWS, NUM_ONLY_DRAWS, NUM_GENERATED_DRAWS, NUM_PERMUTED = 5, 50, 20, 5, 3
LENGTH = 224  # la longitud de las ablaciones


def scan(
    loaded: LoadedModel, part: Part, lengths: Sequence[int] = LENGTHS, *, seed: int = 0, literal: bool = False
) -> dict:
    """Pregunta todas las agujas de una mitad y mide el índice en las respuestas correctas, como en el artículo.

    Args:
        loaded: SmolLM2.
        part: `CHOICE` o `TEST`.
        lengths: longitudes.
        seed: como en `examples`.
        literal: como en `examples`.

    Returns:
        «rows» (plantilla, longitud, profundidad, dato, respuesta y si acierta); «indices», «first» y «rest», los de
        `Index`, (aciertos, n_layers, h); y «needles» (aciertos,), qué aguja es cada uno.
    """
    rows, indices, needles = [], [], []
    for length in lengths:
        stacks = examples(loaded, part, length, seed=seed, literal=literal)
        generated = generate(loaded.model, torch.stack([stack.tokens for stack in stacks]))
        for i, (stack, new) in enumerate(zip(stacks, generated, strict=True)):
            needle, depth = divmod(i, len(DEPTHS))
            text = reply(loaded, new)
            right = is_right(text, stack.answer)
            place = {"template": needle // PER_TEMPLATE, "length": length, "depth": DEPTHS[depth]}
            rows.append(place | {"answer": stack.answer, "reply": text, "right": right})
            if right:
                indices.append(retrieval_index(loaded.model, stack, new))
                needles.append(needle)
    whole, first, rest = (torch.stack(part) for part in zip(*indices, strict=True))
    return {"rows": rows, "indices": whole, "first": first, "rest": rest, "needles": torch.tensor(needles)}


def record(seeds: list[int]) -> dict:
    """Todas las medidas de recuperación del capítulo 06.

    Args:
        seeds: una sola, que fija los datos y el relleno; lo que varía de una medida a otra son las agujas.
    """
    (seed,) = seeds
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        loaded = load_smollm2()
        found = {name: scan(loaded, part, seed=seed) for name, part in (("choice", CHOICE), ("test", TEST))}
        literal = scan(loaded, CHOICE, (LENGTH,), seed=seed, literal=True)
        induction = choose(loaded)
        means = {name: half["indices"].mean(0) for name, half in found.items()}
        groups = head_groups(means["choice"], induction)
        values: dict = {name: _half(half) for name, half in found.items()}
        values["literal"] = {
            "right": [row["right"] for row in literal["rows"]],
            "induction": _correlation(literal["indices"].mean(0), induction),
            "free": _correlation(means["choice"], induction),
        }
        values["halves"] = _correlation(means["choice"], means["test"])
        parts = {name: torch.cat([half[name] for half in found.values()]).nanmean(0) for name in ("first", "rest")}
        values["parts"] = {name: _correlation(part, induction) for name, part in parts.items()}
        values["permuted"] = _permuted(loaded)
        values["indices"] = {
            "retrieval": _table((means["choice"] + means["test"]) / 2),
            "choice": _table(means["choice"]),
            "test": _table(means["test"]),
            "induction": _table(induction),
        }
        values["groups"] = {name: [list(pair) for pair in heads] for name, heads in groups.items()}
        values["ablation"] = _ablation(loaded, groups, seed)
        return values
    finally:
        torch.set_num_threads(threads)


def _permuted(loaded: LoadedModel) -> list[float]:
    """El mejor índice de 270 en copias con los pesos permutados, con la respuesta correcta escrita a la fuerza."""
    best = []
    for seed in range(NUM_PERMUTED):
        model = permuted(loaded, seed).model
        stacks = examples(loaded, TEST, LENGTHS[0], per_template=1)
        scores = [retrieval_index(model, stack, stack.tokens[stack.needle]).whole for stack in stacks]
        best.append(round(float(torch.stack(scores).mean(0).max()), 3))
    return best


def head_groups(retrieval: Tensor, induction: Tensor) -> dict[str, list[Pair]]:
    """Las cinco de más índice de cada cosa, y las cinco que son solo una: las de más índice con menos de 0,1 del otro.

    Args:
        retrieval: (n_layers, h), medido en la mitad de elegir.
        induction: (n_layers, h), medido con las semillas de elegir.

    Returns:
        «retrieval», «induction», «only_retrieval» y «only_induction» → parejas (capa, cabeza).
    """
    return {
        "retrieval": top_heads(retrieval, NUM_CHOSEN),
        "induction": top_heads(induction, NUM_CHOSEN),
        "only_retrieval": top_heads(torch.where(induction < 0.1, retrieval, 0), NUM_CHOSEN),
        "only_induction": top_heads(torch.where(retrieval < 0.1, induction, 0), NUM_CHOSEN),
    }


def _half(half: dict) -> dict:
    """Lo que se guarda de una mitad: respuestas, intervalos de las diez primeras y proporción sobre cada umbral."""
    indices, needles = half["indices"], half["needles"]
    by_needle = torch.stack([indices[needles == needle].mean(0) for needle in needles.unique()])  # (agujas, L, h)
    return {
        "rows": half["rows"],
        "num_needles": len(by_needle),
        "top": {
            f"{layer}.{head}": [round(float(x), 3) for x in by_needle[:, layer, head]]
            for layer, head in top_heads(indices.mean(0), 10)
        },
        "above": {str(t): [round(x, 4) for x in share_above(indices, needles, t)] for t in (0.1, 0.5)},
        "zero": round(float((indices.amax(0) == 0).float().mean()), 4),
    }


def _ablation(loaded: LoadedModel, groups: dict[str, list[Pair]], seed: int) -> dict:
    """Apagar cada grupo: la pérdida del dato, por partes; lo que responde; la repetición y el texto corriente."""
    model = loaded.model
    groups = {"none": [], **groups, "previous": [(16, 0)]}
    stacks = examples(loaded, TEST, LENGTH, seed=seed)
    repeats, text = repeated_tokens(seed), text_tokens(loaded)[:4]
    prompts = torch.stack([stack.tokens for stack in stacks])
    values: dict = {"n": len(stacks)}
    whole = AnswerLoss(model, stacks)
    for name, heads in groups.items():
        values[name] = {
            "first": [],
            "rest": [],
            "replies": _replies(loaded, heads, stacks, prompts),
            "repeats": round(copy_loss(model, repeats, heads), 3),
            "text": round(float(text_losses(model, text, heads).mean()), 3),
        }
        _note_parts(values[name], whole, heads)
    for name, count in {"retrieval": NUM_DRAWS, "only_retrieval": NUM_ONLY_DRAWS}.items():
        drawn = matched_draws(groups[name], 9, count)
        fast = AnswerLoss(model, stacks, min(layer for layer, _ in groups[name]))
        values[f"{name}_draws"] = {"heads": drawn, "first": [], "rest": []}
        for draw in drawn:
            _note_parts(values[f"{name}_draws"], fast, draw)
    first_draws = values["retrieval_draws"]["heads"][:NUM_GENERATED_DRAWS]
    values["retrieval_draws"]["replies"] = [_replies(loaded, draw, stacks, prompts) for draw in first_draws]
    return values


def _note_parts(place: dict, answer_loss: AnswerLoss, heads: Sequence[Pair]) -> None:
    """Añade la pérdida media del primer token del dato y la de los demás."""
    first, rest = answer_loss(heads)
    place["first"].append(round(float(first.mean()), 3))
    place["rest"].append(round(float(rest.nanmean()), 3))


def _replies(loaded: LoadedModel, heads: Sequence[Pair], stacks: Sequence[Haystack], prompts: Tensor) -> list[str]:
    with ablate(loaded.model, heads):
        generated = generate(loaded.model, prompts)
    return [reply(loaded, new) for new in generated]


def count_right(replies: Iterable[str], rows: Iterable[dict]) -> int:
    """Cuántas respuestas contienen su dato, sin mirar mayúsculas."""
    return sum(is_right(text, row["answer"]) for text, row in zip(replies, rows, strict=True))


def _correlation(first: Tensor, second: Tensor) -> float:
    return round(float(torch.corrcoef(torch.stack([first.flatten(), second.flatten()]))[0, 1]), 3)


def _table(scores: Tensor) -> list[list[float]]:
    return [[round(float(x), 3) for x in row] for row in scores]
