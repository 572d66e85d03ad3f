"""¿A quién se refiere «lo» y quién «estudió»? Una o dos cabezas ante dos relaciones (capítulo 03).

Las frases salen de una gramática española pequeña: «María aprobó el examen porque lo estudió a fondo», «ayer Hugo llamó
a Ana y a Luis porque la quería mucho». En cada una se pregunta en dos sitios, el pronombre y el verbo que lo sigue, por
dos cosas: el **antecedente** (el nombre al que sustituye el pronombre, que concuerda con él en género) y el **sujeto**.

- Variante "one": cada sitio responde a una cosa; el pronombre, al antecedente, y el verbo, al sujeto.
- Variante "both": cada sitio responde a las dos.

Lo demás es igual: modelo, frases, lectura y pasos.
"""

import hashlib
import random
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..attention import merge_heads, scaled_dot_product_attention, split_heads
from .training import steps

PEOPLE = {
    "m": (
        "Juan", "Luis", "Hugo", "Pablo", "Diego", "Marcos", "Andrés", "Javier", "Óscar", "Raúl",
        "Carlos", "Daniel", "Mario", "Sergio", "Tomás", "Iván", "Jorge", "Martín", "Bruno", "Álvaro",
    ),
    "f": (
        "María", "Ana", "Laura", "Elena", "Lucía", "Carmen", "Julia", "Marta", "Paula", "Sara",
        "Irene", "Alba", "Clara", "Nuria", "Rosa", "Eva", "Inés", "Sofía", "Teresa", "Olga",
    ),
}  # fmt: skip
THINGS = {
    "m": (
        "examen", "trabajo", "proyecto", "ejercicio", "informe", "ensayo", "discurso", "guion", "capítulo", "resumen",
    ),
    "f": (
        "prueba", "memoria", "tarea", "práctica", "redacción", "ponencia", "tesis", "presentación", "traducción",
        "reseña",
    ),
}  # fmt: skip
OPENINGS = ("", "ayer", "por suerte", "aquel día", "esta vez")
ADJECTIVES = {"m": ("", "largo", "nuevo", "final", "difícil"), "f": ("", "larga", "nueva", "final", "difícil")}
ARTICLE, CLITIC = {"m": "el", "f": "la"}, {"m": "lo", "f": "la"}
# Por tipo de antecedente: verbo principal, verbo de la causal y su complemento.
FIRST_VERBS = {
    "thing": ("aprobó", "terminó", "preparó", "presentó", "entregó", "comentó"),
    "person": ("saludó", "llamó", "ayudó", "invitó", "visitó", "esperó"),
}
SECOND_VERBS = {
    "thing": ("estudió", "repasó", "revisó", "entendió", "leyó", "trabajó"),
    "person": ("quería", "admiraba", "apreciaba", "respetaba", "valoraba", "adoraba"),
}
MANNERS = {
    "thing": ("a fondo", "con calma", "con cuidado", "sin prisa", "muy bien"),
    "person": ("mucho", "de verdad", "desde siempre", "sin duda", "todavía"),
}

PAD = "<relleno>"
NOUNS = tuple(noun for table in (PEOPLE, THINGS) for gender in "mf" for noun in table[gender])
PERSONS = frozenset(NOUNS[:40])
_PHRASES = [*OPENINGS, *MANNERS["thing"], *MANNERS["person"], *ADJECTIVES["m"], *ADJECTIVES["f"]]
_PHRASES += [verb for table in (FIRST_VERBS, SECOND_VERBS) for verbs in table.values() for verb in verbs]
_OTHERS = {word for phrase in _PHRASES for word in phrase.split()} | {"el", "la", "lo", "a", "y", "porque"}
WORDS = (PAD, *NOUNS, *sorted(_OTHERS))
ID_OF = {word: index for index, word in enumerate(WORDS)}
MAX_WORDS = 16
VARIANTS = ("one", "both")
TARGET = "María aprobó el examen porque lo estudió a fondo"
QUERIES, ANSWERS = ("pronoun", "verb"), ("antecedent", "subject")


# --- Las frases ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sentence:
    """Una frase con sus posiciones señaladas (desde 0).

    Attributes:
        words: las palabras.
        pronoun: dónde está «lo» o «la».
        antecedent: dónde está el nombre al que sustituye.
        subject: dónde está el sujeto.
    """

    words: tuple[str, ...]
    pronoun: int
    antecedent: int
    subject: int

    @property
    def kind(self) -> str:
        """«thing» o «person», según el antecedente."""
        return "person" if self.words[self.antecedent] in PERSONS else "thing"

    @property
    def held_out(self) -> bool:
        """Si es de prueba: nadie entrena con ella.

        Lo decide la pareja (sujeto, antecedente), por su huella: de una de cada cinco parejas no se ve ninguna frase.
        También son de prueba todas las frases con «María» y «examen», en el papel que sea.
        """
        pair = f"{self.words[self.subject]} {self.words[self.antecedent]}"
        return {"María", "examen"} <= set(self.words) or hashlib.sha256(pair.encode()).digest()[0] % 5 == 0


def sample_sentence(rng: random.Random, *, subject: str | None = None, antecedent: str | None = None) -> Sentence:
    """Saca una frase: [entrada] SUJETO verbo OBJETO [y OBJETO del otro género] porque lo/la verbo manera.

    Los objetos son cosas («el examen difícil») o personas («a Juan»), mitad y mitad. Si hay dos, el antecedente es uno
    cualquiera, y solo el género de «lo» o «la» dice cuál.

    Args:
        rng: de donde salen las decisiones.
        subject: el sujeto; si falta, al azar.
        antecedent: el antecedente; si falta, al azar.

    Returns:
        La frase.
    """
    subject = subject or rng.choice(NOUNS[:40])
    if antecedent is None:
        table = THINGS if rng.random() < 0.5 else PEOPLE
        antecedent = rng.choice([noun for nouns in table.values() for noun in nouns if noun != subject])
    kind, table = ("person", PEOPLE) if antecedent in PERSONS else ("thing", THINGS)
    gender = "m" if antecedent in table["m"] else "f"

    def phrase(noun: str, gender: str) -> list[str]:
        if kind == "person":
            return ["a", noun]
        return [ARTICLE[gender], noun, *rng.choice(ADJECTIVES[gender]).split()]

    objects = [phrase(antecedent, gender)]
    if rng.random() < 0.5:
        other = "f" if gender == "m" else "m"
        objects.append(phrase(rng.choice([noun for noun in table[other] if noun != subject]), other))
        rng.shuffle(objects)
    words = [*rng.choice(OPENINGS).split(), subject]
    place = len(words) - 1
    words += [rng.choice(FIRST_VERBS[kind]), *objects[0]]
    for extra in objects[1:]:
        words += ["y", *extra]
    words += ["porque", CLITIC[gender], rng.choice(SECOND_VERBS[kind]), *rng.choice(MANNERS[kind]).split()]
    return Sentence(tuple(words), words.index("porque") + 1, words.index(antecedent, place + 1), place)


def sample_sentences(num: int, seed: int, *, held_out: bool, **fixed) -> list[Sentence]:
    """Saca frases de entrenamiento o de prueba.

    Args:
        num: cuántas.
        seed: fija el sorteo.
        held_out: True, solo de prueba; False, solo de entrenamiento.
        fixed: `subject` o `antecedent`, si han de ser unos concretos.

    Returns:
        Las frases; puede haber repetidas.
    """
    rng = random.Random(seed)
    found: list[Sentence] = []
    while len(found) < num:
        sentence = sample_sentence(rng, **fixed)
        if sentence.held_out == held_out:
            found.append(sentence)
    return found


def parse(text: str) -> Sentence:
    """Lee una frase escrita por quien lee, si tiene la forma y las palabras de la gramática.

    Args:
        text: la frase; sobran la coma, el punto y la mayúscula inicial.

    Returns:
        La frase, con sus posiciones.

    Raises:
        ValueError: si hay palabras desconocidas o la frase no tiene la forma que el modelo aprendió.
    """
    words = text.replace(",", " ").replace(".", " ").split()
    if words and words[0].lower() in ID_OF:
        words[0] = words[0].lower()
    unknown = [word for word in words if word not in ID_OF or word == PAD]
    if unknown:
        raise ValueError(
            f"El modelo no conoce {', '.join(f'«{word}»' for word in unknown)}. Sabe {len(WORDS) - 1} palabras, las de "
            f"«coreference.WORDS»; por ejemplo, los nombres {', '.join(NOUNS[18:24])} y las cosas "
            f"{', '.join(THINGS['m'][:3] + THINGS['f'][:3])}."
        )
    shape = (
        f"Se esperaba una frase como «{TARGET}»: sujeto, verbo, uno o dos objetos de distinto género, «porque», «lo» o "
        "«la», verbo y manera."
    )
    if len(words) > MAX_WORDS or words.count("porque") != 1:
        raise ValueError(f"{shape} Llegó «{text}».")
    pronoun = words.index("porque") + 1
    nouns = [i for i, word in enumerate(words[:pronoun]) if word in NOUNS]
    if len(nouns) < 2 or words[nouns[0]] not in PERSONS or words[pronoun : pronoun + 1] not in (["lo"], ["la"]):
        raise ValueError(f"{shape} Llegó «{text}».")
    gender = "m" if words[pronoun] == "lo" else "f"
    fits = [i for i in nouns[1:] if words[i] in PEOPLE[gender] + THINGS[gender]]
    if len(fits) != 1 or len(words) < pronoun + 2:
        raise ValueError(f"{shape} En «{text}» hay {len(fits)} objetos que concuerdan con «{words[pronoun]}».")
    return Sentence(tuple(words), pronoun, fits[0], nouns[0])


def encode(sentences: list[Sentence]) -> tuple[Tensor, Tensor, Tensor]:
    """Pasa las frases a tensores.

    Args:
        sentences: las frases.

    Returns:
        Identificadores (frases, 16), con relleno al final; posiciones de las dos consultas, pronombre y verbo
        (frases, 2); y respuestas, antecedente y sujeto, como índices de `NOUNS` (frases, 2).
    """
    ids = torch.zeros(len(sentences), MAX_WORDS, dtype=torch.long)
    for row, sentence in zip(ids, sentences, strict=True):
        row[: len(sentence.words)] = torch.tensor([ID_OF[word] for word in sentence.words])
    asked = torch.tensor([(s.pronoun, s.pronoun + 1) for s in sentences])
    answers = torch.tensor([[ID_OF[s.words[i]] - 1 for i in (s.antecedent, s.subject)] for s in sentences])
    return ids, asked, answers


# --- El modelo -------------------------------------------------------------------------------------------------------


class Reader(nn.Module):
    """Una o varias capas de atención, sin red *feed-forward*, y una lectura lineal en cada consulta.

    Las claves y los valores salen de palabra + posición; las consultas, además, de la palabra anterior, para que el
    verbo sepa si lleva delante «lo» o «la». Sin conexión residual, lo que se lee es solo lo que trae la atención.

    Args:
        num_heads: cabezas por capa.
        num_layers: capas.
        residual: si cada capa suma lo que trae a lo que había.
        d_model: anchura; cada cabeza tiene d_model / num_heads.
    """

    def __init__(self, num_heads: int, num_layers: int = 1, *, residual: bool = False, d_model: int = 32):
        super().__init__()
        self.num_heads, self.residual = num_heads, residual
        self.tokens = nn.Embedding(len(WORDS), d_model)
        self.previous = nn.Embedding(len(WORDS), d_model)
        self.positions = nn.Embedding(MAX_WORDS, d_model)
        self.query, self.key, self.value, self.write = (
            nn.ModuleList(nn.Linear(d_model, d_model, bias=False) for _ in range(num_layers)) for _ in range(4)
        )
        self.read = nn.Linear(d_model, 2 * len(NOUNS))
        for table in (self.tokens, self.previous, self.positions):
            nn.init.normal_(table.weight, std=d_model**-0.5)

    def forward(
        self, ids: Tensor, asked: Tensor, *, without: int | None = None, how: str = "zero"
    ) -> tuple[Tensor, Tensor]:
        """Responde en las dos consultas.

        Args:
            ids: (frases, n).
            asked: (frases, 2), posiciones del pronombre y del verbo.
            without: cabeza de la última capa que se apaga, si se apaga alguna.
            how: "zero" pone ceros en su salida; "mean", la media de su salida en estas frases, en cada consulta.

        Returns:
            *Logits* (frases, 2 consultas, 2 respuestas, nombres) y pesos de la última capa (frases, h, 2, n).

        Raises:
            ValueError: si `how` no es ninguna de las dos.
        """
        if how not in ("zero", "mean"):
            raise ValueError(f"Se esperaba «zero» o «mean» en how; llegó «{how}».")
        mask = (ids != ID_OF[PAD])[:, None, None]  # (frases, 1, 1, n)
        before = F.pad(ids, (1, 0))[:, :-1]
        stream = self.tokens(ids) + self.positions.weight[: ids.shape[1]]  # (frases, n, d_model)
        last = len(self.query) - 1
        for layer, (w_q, w_k, w_v, w_o) in enumerate(zip(self.query, self.key, self.value, self.write, strict=True)):
            origin, hint = stream, self.previous(before)
            if layer == last:  # solo hacen falta las dos consultas
                place = asked[..., None].expand(-1, -1, stream.shape[-1])
                origin, hint = origin.gather(1, place), hint.gather(1, place)
            query, key, value = (split_heads(x, self.num_heads) for x in (w_q(origin + hint), w_k(stream), w_v(stream)))
            output, weights = scaled_dot_product_attention(query, key, value, mask, need_weights=True)
            if layer == last and without is not None:
                output = output.clone()  # (frases, h, 2, d_k)
                output[:, without] = 0 if how == "zero" else output[:, without].mean(0)
            written = w_o(merge_heads(output))
            stream = origin + written if self.residual else written
        return self.read(stream).unflatten(-1, (2, len(NOUNS))), weights


def train(
    variant: str,
    num_heads: int,
    num_layers: int = 1,
    *,
    residual: bool = False,
    shuffled: bool = False,
    seed: int = 0,
    num_steps: int = 1_500,
    lr: float = 1e-2,
) -> Reader:
    """Entrena un modelo con 20 000 frases, en lotes de 128, con Adam y una tasa que sube y baja (OneCycle).

    Args:
        variant: "one" o "both".
        num_heads: cabezas por capa.
        num_layers: capas.
        residual: con conexión residual o sin ella.
        shuffled: el control; las respuestas se barajan entre las frases de entrenamiento.
        seed: fija los pesos iniciales y las frases; dos brazos con la misma semilla ven lo mismo.
        num_steps: pasos.
        lr: tasa de aprendizaje máxima.

    Returns:
        El modelo.

    Raises:
        ValueError: si la variante no existe.
    """
    if variant not in VARIANTS:
        raise ValueError(f"Se esperaba una variante de {', '.join(VARIANTS)}; llegó «{variant}».")
    ids, asked, answers = encode(sample_sentences(20_000, 1_000 + seed, held_out=False))
    generator = torch.Generator().manual_seed(2_000 + seed)
    if shuffled:
        answers = answers[torch.randperm(len(answers), generator=generator)]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Reader(num_heads, num_layers, residual=residual)
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, lr, total_steps=num_steps)
    for _ in steps(num_steps, f"{num_layers} capa(s) de {num_heads} cabeza(s)"):
        batch = torch.randint(len(ids), (128,), generator=generator)
        logits, _ = model(ids[batch], asked[batch])
        wanted = answers[batch][:, None].expand(-1, 2, -1)  # (frases, consulta, respuesta)
        losses = F.cross_entropy(logits.flatten(0, 2), wanted.flatten(), reduction="none").unflatten(0, (-1, 4))
        loss = (losses[:, [0, 3]] if variant == "one" else losses).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return model.eval()


# --- Qué hace cada cabeza --------------------------------------------------------------------------------------------

MAJORITY = 0.8  # una cabeza «atiende» a algo si su máximo está ahí en esta parte de las frases, o en más
LEARNED = 0.9  # y un modelo «aprende» si acierta entera esta parte de las frases de prueba, o más
DEMANDS = {
    "one": (("pronoun", "antecedent"), ("verb", "subject")),
    "both": tuple((query, answer) for query in QUERIES for answer in ANSWERS),
}


@torch.no_grad()
def respond(model: Reader, sentence: Sentence) -> tuple[dict[tuple[str, str], str], Tensor]:
    """Lo que un modelo contesta a una frase, y adónde mira para contestar.

    Args:
        model: el modelo.
        sentence: la frase.

    Returns:
        (consulta, respuesta) → palabra, y los pesos de la última capa (h, 2 consultas, palabras).
    """
    ids, asked, _ = encode([sentence])
    logits, weights = model(ids, asked)
    said = logits[0].argmax(-1).tolist()
    answers = {
        (query, answer): NOUNS[said[i][j]] for i, query in enumerate(QUERIES) for j, answer in enumerate(ANSWERS)
    }
    return answers, weights[0, :, :, : len(sentence.words)]


def roles(argmax: dict, variant: str) -> str:
    """Cómo se organizan las cabezas, según adónde va el máximo de sus pesos.

    Una cabeza atiende a algo si su máximo está ahí en `MAJORITY` de las frases, o más. Por orden:

    - "one head": una sola cabeza atiende a todo lo que pide la variante;
    - "divided": todo está atendido, cada cosa por su cabeza, sea el pronombre «lo» o «la»;
    - "swapped": también con «lo» y con «la» por separado, pero de uno a otra las cabezas se cambian los papeles;
    - "mixed": ni eso.

    Args:
        argmax: "all", "lo" y "la" (en qué frases) → consulta → respuesta → cabeza → parte de las frases en que su
            máximo está en esa palabra.
        variant: "one" o "both".

    Returns:
        Una de las cuatro palabras.
    """

    def attended(table: dict) -> list[set[str]]:
        return [
            {head for head, share in table[query][answer].items() if share >= MAJORITY}
            for query, answer in DEMANDS[variant]
        ]

    if set.intersection(*attended(argmax["all"])):
        return "one head"
    if all(attended(argmax["all"])):
        return "divided"
    return "swapped" if all(attended(argmax["lo"])) and all(attended(argmax["la"])) else "mixed"


def _named(values: Tensor) -> dict:
    """Pone nombres a una tabla (consulta, respuesta) o (consulta, respuesta, cabeza)."""
    return {
        query: {
            answer: {str(head): share for head, share in enumerate(cell)} if isinstance(cell, list) else cell
            for answer, cell in zip(ANSWERS, row, strict=True)
        }
        for query, row in zip(QUERIES, values.tolist(), strict=True)
    }


@torch.no_grad()
def attention_to_roles(model: Reader, sentences: list[Sentence]) -> tuple[dict, dict]:
    """Cuánto mira cada cabeza al antecedente y al sujeto.

    Args:
        model: el modelo.
        sentences: las frases.

    Returns:
        En "all" (todas), "lo" y "la" (las que llevan ese pronombre) → consulta → respuesta → cabeza: la parte de las
        frases en que el máximo está en esa palabra; y, en todas, con las mismas claves, el peso medio en ella.
    """
    says_lo = torch.tensor([sentence.words[sentence.pronoun] == "lo" for sentence in sentences])
    groups = {"all": torch.ones_like(says_lo), "lo": says_lo, "la": ~says_lo}
    ids, asked, _ = encode(sentences)
    weights = model(ids, asked)[1]  # (frases, h, consulta, n)
    places = torch.tensor([(s.antecedent, s.subject) for s in sentences])
    places = places[:, None, None].expand(*weights.shape[:3], -1)  # (frases, h, consulta, respuesta)
    found = (weights.argmax(-1, keepdim=True) == places).float().permute(0, 2, 3, 1)
    argmax = {name: _named(found[group].mean(0)) for name, group in groups.items()}
    return argmax, _named(weights.gather(-1, places).mean(0).permute(1, 2, 0))


@torch.no_grad()
def ablate_roles(model: Reader, sentences: list[Sentence], argmax: dict) -> dict:
    """Apaga la cabeza que más mira al antecedente, o la que más mira al sujeto, y cuenta qué se sigue acertando.

    Args:
        model: un modelo de varias cabezas.
        sentences: las frases.
        argmax: la primera parte de lo que da `attention_to_roles`.

    Returns:
        Cómo se apaga ("zero", "mean") → cuál ("antecedent", "subject") → acierto por respuesta, entre 0 y 1, media de
        las dos consultas.
    """
    ids, asked, answers = encode(sentences)

    def leaning(answer: str) -> int:
        shares = [sum(argmax["all"][query][answer][str(head)] for query in QUERIES) for head in range(model.num_heads)]
        return shares.index(max(shares))

    def accuracy(**options) -> dict[str, float]:
        hits = model(ids, asked, **options)[0].argmax(-1) == answers[:, None]
        return dict(zip(ANSWERS, hits.float().mean((0, 1)).tolist(), strict=True))

    return {how: {role: accuracy(without=leaning(role), how=how) for role in ANSWERS} for how in ("zero", "mean")}


@torch.no_grad()
def measure(model: Reader, variant: str, num_sentences: int = 2_000) -> dict:
    """Examina un modelo con frases que nadie vio al entrenar; son siempre las mismas.

    Args:
        model: el modelo.
        variant: "one" o "both": qué se le pide.
        num_sentences: frases de prueba.

    Returns:
        Un diccionario; las proporciones, entre 0 y 1:

        - "joint", "things", "people": frases con todo lo pedido bien; todas, las de cosas y las de personas;
        - "target", "sentence": lo mismo, en 500 frases de María y el examen, y en la del capítulo;
        - "accuracy": consulta → respuesta → acierto, se pida o no;
        - "argmax", "weight": lo que da `attention_to_roles`; "roles", lo que da `roles`;
        - "sentence_weights": los pesos en la frase del capítulo, h × 2 × 9;
        - "without", si hay varias cabezas y se piden las dos cosas: lo que da `ablate_roles`.
    """

    def right(sentences: list[Sentence]) -> Tensor:
        ids, asked, answers = encode(sentences)
        return model(ids, asked)[0].argmax(-1) == answers[:, None]  # (frases, consulta, respuesta)

    def whole(hits: Tensor) -> Tensor:
        wanted = [hits[:, QUERIES.index(query), ANSWERS.index(answer)] for query, answer in DEMANDS[variant]]
        return torch.stack(wanted).all(0).float()

    sentences = sample_sentences(num_sentences, 0, held_out=True)
    about_people = torch.tensor([sentence.kind == "person" for sentence in sentences])
    hits, target = right(sentences), parse(TARGET)
    about_target = sample_sentences(500, 0, held_out=True, subject="María", antecedent="examen")
    argmax, weight = attention_to_roles(model, sentences)
    values = {
        "joint": whole(hits).mean().item(),
        "things": whole(hits[~about_people]).mean().item(),
        "people": whole(hits[about_people]).mean().item(),
        "target": whole(right(about_target)).mean().item(),
        "sentence": whole(right([target])).item(),
        "accuracy": _named(hits.float().mean(0)),
        "argmax": argmax,
        "weight": weight,
        "roles": roles(argmax, variant),
        "sentence_weights": respond(model, target)[1].tolist(),
    }
    if variant == "both" and model.num_heads > 1:
        values["without"] = ablate_roles(model, sentences, argmax)
    return values


ARMS = {
    "one_1": {"variant": "one", "num_heads": 1},
    "one_2": {"variant": "one", "num_heads": 2},
    "both_1": {"variant": "both", "num_heads": 1},
    "both_2": {"variant": "both", "num_heads": 2},
    "both_1_residual": {"variant": "both", "num_heads": 1, "residual": True},
    "both_1_long": {"variant": "both", "num_heads": 1, "num_steps": 4_500},
    "both_layers": {"variant": "both", "num_heads": 1, "num_layers": 2},
    "both_layers_residual": {"variant": "both", "num_heads": 1, "num_layers": 2, "residual": True},
    "both_2_shuffled": {"variant": "both", "num_heads": 2, "shuffled": True},
}


def gather(rows: list) -> dict | list:
    """Junta las medidas de varias semillas: las mismas claves, con una lista de valores al final de cada camino."""
    if isinstance(rows[0], dict):
        return {key: gather([row[key] for row in rows]) for key in rows[0]}

    def short(value):
        if isinstance(value, list):
            return [short(part) for part in value]
        return round(value, 4) if isinstance(value, float) else value

    return short(rows)


def record(seeds: list[int]) -> dict:
    """Las medidas de cada brazo, una por semilla."""
    values = {"num_sentences": 2_000, "num_target": 500, "majority": MAJORITY, "learned": LEARNED}
    for arm, options in ARMS.items():
        values[arm] = gather([measure(train(**options, seed=seed), options["variant"]) for seed in seeds])
    return values
