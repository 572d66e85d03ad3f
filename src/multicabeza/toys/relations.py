"""Frases inglesas con su sintaxis anotada, para ver qué cabezas siguen una relación (capítulo 05).

Las escribe una gramática pequeña, así que las relaciones se saben, no se estiman. Hay dos conjuntos: con las frases de
desarrollo se elige una cabeza y con las de prueba se puntúa. No comparten plantillas ni más palabras que «the» y la
puntuación: cada semilla reparte las listas de abajo en dos mitades. Son frases de laboratorio, en pasado y sin dobles
sentidos; lo que se mida en ellas vale para frases así.

Cada relación es una lista de parejas (dependiente, núcleo), en palabras:

- nsubj: sujeto y verbo. dobj: objeto directo y verbo.
- amod: adjetivo y nombre (un nombre lleva de 0 a 2). det: determinante y nombre.
- advmod: adverbio y verbo de la oración principal.

En una oración de relativo falta un argumento: en «the box that the girl opened» el objeto de «opened» es «that», o
«box», según quien anote. Esas parejas no se cuentan; se guardan aparte, en `gaps`.
"""

import copy
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ..heads import (
    Pair,
    best_offset_baseline,
    confidence,
    positional_score,
    rare_token_score,
    relation_accuracy,
    word_attention,
)

# --- Las palabras ----------------------------------------------------------------------------------------------------

WORDS = {
    "person": "boy girl teacher doctor farmer student soldier artist nurse driver lawyer singer baker sailor "
    "writer actor judge guard priest painter dancer captain banker hunter waiter engineer gardener "
    "neighbor uncle cousin",
    "thing": "box door letter window book table chair car lamp picture bag bottle clock coat hat piano radio "
    "basket mirror carpet ladder bicycle engine map ticket blanket cup plate knife shirt camera phone "
    "fence statue drum coin",
    "place": "garden house river bridge park church station school forest kitchen hotel market museum harbor "
    "tower office library castle lake hospital",
    "to thing": "opened painted cleaned moved carried dropped repaired copied covered touched borrowed returned "
    "packed lifted examined admired destroyed purchased ordered wanted wrapped grabbed collected "
    "photographed delivered removed",
    "to person": "watched followed helped called visited noticed greeted ignored thanked trusted invited remembered "
    "loved hated interviewed warned kissed pushed",
    "alone": "slept waited worked arrived smiled danced cried stayed rested laughed shouted jumped",
    "person adjective": "tall old young tired happy angry kind rich poor quiet lonely brave famous clever honest "
    "nervous proud polite",
    "thing adjective": "red small heavy broken new cheap wooden green dirty expensive strange blue empty ancient "
    "beautiful black yellow large simple rusty",
    "adverb": "quickly slowly quietly carefully suddenly happily secretly gently easily finally calmly eagerly "
    "nervously silently politely recently",
    "giving": "handed offered showed sent gave lent brought sold",
}  # fmt: skip

# Las palabras de función no se reparten al azar: son pocas. Solo «the» está en los dos conjuntos.
FUNCTION_WORDS = {
    "development": {
        "det": "the this every", "prep": "in near under", "aux": "had", "that": "that", "who": "that",
    },
    "test": {
        "det": "the some each another", "prep": "behind beside outside", "aux": "has", "that": "which", "who": "who",
    },
}  # fmt: skip

# S sujeto · V verbo con objeto · I verbo sin objeto · O objeto · P preposición y nombre · ~ sitio para un adverbio.
# +P, +RS y +RO cuelgan de un nombre: preposición y nombre, relativo de sujeto y relativo de objeto.
TEMPLATES = {
    "development": (
        "S ~V O ~", "S ~V O P", "S+P ~V O ~", "S+RS V O ~", "S+RO V O ~", "~ S V O P", "S ~I P",
    ),
    "test": (
        "P , S ~V O ~", "S+P ~V O P", "S ~V O+RS", "S ~V O+RO", "S ~V O and S ~V O", "S ~I because S V O ~",
        "S+RS ~I P ~", "S+RO V O P",
    ),
}  # fmt: skip

RELATIONS = {
    "verbo → sujeto": ("nsubj", True), "sujeto → verbo": ("nsubj", False),
    "verbo → objeto": ("dobj", True), "objeto → verbo": ("dobj", False),
    "nombre → adjetivo": ("amod", True), "adjetivo → nombre": ("amod", False),
    "verbo → adverbio": ("advmod", True), "adverbio → verbo": ("advmod", False),
    "nombre → determinante": ("det", True), "determinante → nombre": ("det", False),
}  # fmt: skip
"""Nombre de la relación dirigida → (relación, si se mira del núcleo al dependiente). Primero, quien mira."""


@dataclass(frozen=True)
class Sentence:
    """Una frase con sus relaciones.

    Attributes:
        words: las palabras y los signos de puntuación, en orden.
        template: la plantilla de la que salió.
        edges: relación → parejas (dependiente, núcleo), posiciones en `words`.
        gaps: parejas (argumento que falta en una oración de relativo, su verbo), por relación; no están en `edges`.
    """

    words: tuple[str, ...]
    template: str
    edges: dict[str, tuple[Pair, ...]]
    gaps: dict[str, tuple[Pair, ...]] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """La frase como se escribe."""
        return " ".join(self.words).replace(" ,", ",").replace(" .", ".").capitalize()

    def pairs(self, relation: str) -> list[Pair]:
        """Parejas (quien mira, a quién debe mirar) de una de las `RELATIONS`."""
        name, reverse = RELATIONS[relation]
        return [pair[::-1] if reverse else pair for pair in self.edges.get(name, ())]


# --- La gramática ----------------------------------------------------------------------------------------------------


class _Writer:
    """Escribe una frase palabra a palabra y apunta las relaciones."""

    def __init__(self, rng: random.Random, vocabulary: dict[str, list[str]]):
        self.rng, self.vocabulary = rng, vocabulary
        self.words: list[str] = []
        self.edges: dict[str, list[Pair]] = {name: [] for name in ("nsubj", "dobj", "amod", "advmod", "det")}
        self.gaps: dict[str, list[Pair]] = {"nsubj": [], "dobj": []}

    def add(self, kind: str) -> int:
        """Añade una palabra de esa clase, que no haya salido aún si es de contenido, y devuelve su posición."""
        options = self.vocabulary.get(kind, [kind])
        fresh = [word for word in options if word not in self.words]
        self.words.append(self.rng.choice(fresh or options))
        return len(self.words) - 1

    def noun(self, kind: str) -> int:
        """Determinante, de 0 a 2 adjetivos y nombre; devuelve la posición del nombre."""
        determiner = self.add("det")
        adjective = "person adjective" if kind == "person" else "thing adjective"
        adjectives = [self.add(adjective) for _ in range(self.rng.choices((0, 1, 2), (50, 35, 15))[0])]
        noun = self.add(kind)
        self.edges["det"].append((determiner, noun))
        self.edges["amod"] += [(i, noun) for i in adjectives]
        return noun

    def place(self) -> None:
        self.add("prep")
        self.noun("place")

    def relative(self, kind: str, antecedent: int, antecedent_kind: str) -> None:
        """Oración de relativo de sujeto (RS, «that opened the box») o de objeto (RO, «that the girl opened»)."""
        self.add("who" if antecedent_kind == "person" else "that")
        if kind == "RS":
            verb = self.add("to thing")
            self.edges["dobj"].append((self.noun("thing"), verb))
            self.gaps["nsubj"].append((antecedent, verb))
        else:
            subject = self.noun("person")
            verb = self.add("to person" if antecedent_kind == "person" else "to thing")
            self.edges["nsubj"].append((subject, verb))
            self.gaps["dobj"].append((antecedent, verb))

    def clause(self, symbols: Sequence[str]) -> None:
        """Una oración con su verbo; como mucho un adverbio, en uno de los sitios que deja la plantilla."""
        sites = [i for i, symbol in enumerate(symbols) if "~" in symbol]
        chosen = self.rng.choice(sites) if sites and self.rng.random() < 0.6 else None
        subject = verb = adverb = None
        object_kind = "thing" if "O+RO" in symbols or ("O" in symbols and self.rng.random() < 0.7) else "person"
        for i, symbol in enumerate(symbols):
            base, _, tail = symbol.strip("~").partition("+")
            if base in ("V", "I"):
                if self.rng.random() < 0.3:
                    self.add("aux")
                adverb = self.add("adverb") if i == chosen else adverb
                verb = self.add("alone" if base == "I" else f"to {object_kind}")
                self.edges["nsubj"].append((subject, verb))
            elif base in ("S", "O"):
                kind = "person" if base == "S" else object_kind
                noun = self.noun(kind)
                if base == "S":
                    subject = noun
                else:
                    self.edges["dobj"].append((noun, verb))
                if tail == "P":
                    self.place()
                elif tail:
                    self.relative(tail, noun, kind)
            elif base == "P":
                self.place()
            elif base == "":
                adverb = self.add("adverb") if i == chosen else adverb
            else:
                self.words.append(base)
        if adverb is not None:
            self.edges["advmod"].append((adverb, verb))

    def sentence(self, template: str) -> Sentence:
        clause: list[str] = []
        for symbol in template.split():
            if symbol in ("and", "because"):
                self.clause(clause)
                self.words.append(symbol)
                clause = []
            else:
                clause.append(symbol)
        self.clause(clause)
        self.words.append(".")
        edges, gaps = ({k: tuple(sorted(v)) for k, v in found.items()} for found in (self.edges, self.gaps))
        return Sentence(tuple(self.words), template, edges, gaps)


def vocabulary(split: str, seed: int) -> dict[str, list[str]]:
    """Las palabras de uno de los dos conjuntos: la mitad de cada lista, a suertes, y sus palabras de función.

    Args:
        split: "development" o "test".
        seed: la misma para los dos conjuntos da mitades complementarias.

    Returns:
        Clase de palabra → palabras.
    """
    halves = {}
    rng = random.Random(f"palabras {seed}")
    for kind, words in WORDS.items():
        shuffled = rng.sample(words.split(), len(words.split()))
        halves[kind] = shuffled[::2] if split == "development" else shuffled[1::2]
    return halves | {kind: words.split() for kind, words in FUNCTION_WORDS[split].items()}


def sentences(split: str, n: int, seed: int) -> list[Sentence]:
    """Frases distintas de un conjunto, las mismas siempre con la misma semilla; las plantillas van por turnos.

    Args:
        split: "development" (para elegir) o "test" (para puntuar): otras palabras y otras plantillas.
        n: cuántas.
        seed: semilla de las frases y del reparto de palabras.

    Returns:
        Lista de n `Sentence`.

    Raises:
        ValueError: si el conjunto no es uno de los dos.
    """
    if split not in TEMPLATES:
        raise ValueError(f"Se esperaba split = «development» o «test» y llegó {split!r}.")
    words, rng = vocabulary(split, seed), random.Random(f"{split} {seed}")
    made: dict[tuple[str, ...], Sentence] = {}
    while len(made) < n:
        sentence = _Writer(rng, words).sentence(TEMPLATES[split][len(made) % len(TEMPLATES[split])])
        made.setdefault(sentence.words, sentence)
    return list(made.values())


PROBES = ("dos objetos", "relativo", "sin objeto")


@dataclass(frozen=True)
class Probe:
    """Una frase para una pregunta concreta: desde `query`, ¿a cuál de los candidatos mira la cabeza?"""

    words: tuple[str, ...]
    query: int
    candidates: dict[str, int]


def probes(kind: str, n: int, seed: int) -> list[Probe]:
    """Frases en las que «el objeto» y «el primer nombre a la derecha» no son lo mismo. Con palabras de prueba.

    - "dos objetos": «the nurse handed the sailor the letter.»; el primer nombre es a quién, el segundo es el objeto.
    - "relativo": «the letter which the sailor copied was near …»; el objeto está detrás, antes del verbo.
    - "sin objeto": «the nurse slept behind the church.»; el primer nombre no es objeto.

    Args:
        kind: una de las tres.
        n: cuántas.
        seed: semilla de las frases y del reparto de palabras.

    Returns:
        Lista de n `Probe`, distintas, con el verbo como consulta.

    Raises:
        ValueError: si la clase no es ninguna de las tres.
    """
    if kind not in PROBES:
        raise ValueError(f"Se esperaba «dos objetos», «relativo» o «sin objeto» y llegó {kind!r}.")
    words, rng = vocabulary("test", seed), random.Random(f"{kind} {seed}")
    made: dict[tuple[str, ...], Probe] = {}
    while len(made) < n:
        writer = _Writer(rng, words)
        if kind == "dos objetos":
            subject, verb = writer.noun("person"), writer.add("giving")
            receiver, thing = writer.noun("person"), writer.noun("thing")
            places = {"objeto": thing, "primer nombre a la derecha": receiver, "sujeto": subject}
        elif kind == "relativo":
            thing = writer.noun("thing")
            writer.add("that")
            subject, verb = writer.noun("person"), writer.add("to thing")
            writer.words.append("was")
            writer.add("prep")
            places = {"objeto": thing, "primer nombre a la derecha": writer.noun("place"), "sujeto": subject}
        else:
            subject, verb = writer.noun("person"), writer.add("alone")
            writer.add("prep")
            places = {"primer nombre a la derecha": writer.noun("place"), "sujeto": subject}
        writer.words.append(".")
        made.setdefault(tuple(writer.words), Probe(tuple(writer.words), verb, places))
    return list(made.values())


# --- Frases corrientes -----------------------------------------------------------------------------------------------

NATURAL = tuple(
    line.strip()
    for line in """
    My neighbour reads the newspaper in the garden every morning.
    Scientists measured the temperature of the water near the bottom of the lake.
    The train to the coast leaves at noon, but nobody is waiting on the platform.
    When the rain stopped, the children ran outside to look for snails.
    He forgot his umbrella, so he walked home under the trees.
    The museum bought a painting that nobody had seen for a century.
    Bread tastes better when it comes straight out of the oven.
    Our teacher asked us to write a short story about a lighthouse.
    They were surprised to find that the shop had already closed.
    A small boat crossed the harbour while the fishermen mended their nets.
    The judge listened to both sides and then asked a single question.
    If you heat the mixture slowly, the sugar dissolves without burning.
    Two of the windows on the top floor were left open all night.
    She had never tasted an artichoke before, and she did not like it.
    The committee will publish its report before the end of the year.
    Nothing in the letter explained why he had left the country.
    The violinist tuned her instrument and waited for the conductor.
    Most of the passengers were asleep when the ferry reached the island.
    I would rather stay here than travel for nine hours by bus.
    The engineers tested the bridge by driving ten trucks across it.
    Wolves hunt in packs, but a lynx usually hunts alone.
    You can borrow the ladder as long as you bring it back tomorrow.
    The recipe says to add the saffron at the very end.
    After the war, the factory was turned into a theatre.
    Her grandfather kept bees behind the old railway station.
    The price of coffee has doubled since the frost in March.
    We took the wrong road and ended up in a village without a name.
    The astronomer pointed the telescope at a faint cloud of gas.
    It is easier to learn a song than to remember a list of numbers.
    The carpenter measured the door twice and cut it once.
    Although the test was difficult, every student finished on time.
    A parrot in the corner of the room repeated everything we said.
    The river froze so quickly that the ducks were trapped in the ice.
    Few people know that the tower was built without any nails.
    He sold his bicycle in order to pay for the guitar lessons.
    The nurse who works at night speaks four languages.
    Volcanic ash covered the fields, and the harvest was lost.
    Please turn off the lights before you lock the door.
    The orchestra played the final movement faster than usual.
    What the witness remembered did not match the photographs.
    The baker wraps each loaf in paper and ties it with string.
    On Sundays the whole family gathers around a huge wooden table.
    The new law protects the wetlands along the northern border.
    She whispered the password, and the heavy gate swung open.
    Their dog refuses to cross the bridge when it is windy.
    The lecture was about glaciers, but the audience wanted penguins.
    He counted the coins again because the total seemed too small.
    The tailor shortened the sleeves and replaced a missing button.
    The potter left the clay under a wet cloth until the following day.
    Snow had covered the road signs, so the driver asked a farmer for directions.
    The library lends board games as well as books.
    Our plane circled the airport twice because of the fog.
    The chemist labelled every flask with the date and her initials.
    He painted the fence green, although his wife preferred yellow.
    The children built a raft out of barrels and old rope.
    Sharks have existed for longer than trees.
    The mayor promised to repair the fountain before the summer festival.
    An owl nests in the roof of the abandoned chapel.
    We could hear the waves from the kitchen when the wind was right.
    The tenant complained about the noise, and the landlord apologised.
    Her first novel sold badly, but the second one won a prize.
    Cinnamon was once more expensive than silver.
    The referee stopped the match when lightning struck the stadium.
    They keep the spare key inside a blue teapot.
    The surgeon explained the risks of the operation in plain words.
    A long queue had formed outside the cinema by noon.
    The miners sang on their way home from the pit.
    My sister studies insects that live under the bark of dead trees.
    The ambassador declined the invitation without giving a reason.
    If the milk smells sour, pour it down the sink.
    The map showed a path that no longer existed.
    Every autumn the storks fly south over the strait.
    The detective noticed that the clock in the hall had stopped.
    Potatoes arrived in Europe during the sixteenth century.
    She tied her horse to a post and entered the inn.
    The elevator was out of order, so we climbed eleven floors.
    The archive contains letters written by prisoners of the castle.
    Nobody wanted the last slice of pie.
    The sculptor worked with marble until his eyesight failed.
    A faulty cable caused the fire in the warehouse.
    The students measured how far the frog could jump.
    Our guide warned us about the loose stones near the edge.
    The bakery on the corner opens at five in the morning.
    He learned Portuguese by listening to songs on the radio.
    The volcano had been silent for two hundred years.
    Dry leaves blocked the gutter, and water ran down the wall.
    The company plans to move its offices to a smaller city.
    Bats use echoes to find moths in the dark.
    The pianist forgot the ending and invented a new one.
    You should let the soup cool before you taste it.
    The sailors repaired the torn sail with a thick needle.
    A rainbow appeared over the valley after the storm.
    The thief left muddy footprints on the carpet.
    Honey never spoils if the jar is well sealed.
    The village celebrates the harvest with music and roasted chestnuts.
    Several witnesses described a tall man with a limp.
    """.strip().splitlines()
)
"""Frases sueltas escritas para el libro; las pares (desde 0) son de desarrollo y las impares, de prueba."""

NATURAL_MEASURES = (
    "anterior", "siguiente", "anterior, con especiales", "siguiente, con especiales",
    "la más rara", "una de las dos más raras",
)  # fmt: skip

FIRST_WORD_ID = 1996
"""Identificador de «the», la primera palabra del vocabulario de BERT, que va más o menos por frecuencia."""


def natural(split: str) -> list[str]:
    """La mitad de las frases corrientes que toca a ese conjunto."""
    return list(NATURAL[0::2] if split == "development" else NATURAL[1::2])


# --- Los mapas -------------------------------------------------------------------------------------------------------


def word_maps(loaded_model, examples: Sequence[Sentence | Probe], batch_size: int = 50) -> list[Tensor]:
    """Los pesos entre palabras de cada frase, sin [CLS] ni [SEP] y con los trozos de una palabra juntos.

    Args:
        loaded_model: lo que devuelve `mc.load_bert()`.
        examples: frases con su lista de palabras.
        batch_size: cuántas van juntas en una pasada.

    Returns:
        Un tensor (n_layers, h, W, W) por frase, con W palabras.
    """
    maps = []
    for start in range(0, len(examples), batch_size):
        words = [list(example.words) for example in examples[start : start + batch_size]]
        batch = loaded_model.tokenizer(words, is_split_into_words=True, padding=True, return_tensors="pt")
        with torch.no_grad():
            attentions = loaded_model.model(**batch, output_attentions=True).attentions
        weights = torch.stack(attentions, dim=1)  # (lote, n_layers, h, n, n)
        for i, own in enumerate(weights):
            n = int(batch["attention_mask"][i].sum())
            maps.append(word_attention(own[..., :n, :n], batch.word_ids(i)[:n]))
    return maps


def token_maps(loaded_model, texts: Sequence[str]) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Pesos entre tokens de cada frase: (pesos (n_layers, h, n, n), identificadores (n,), cuáles no son especiales)."""
    found = []
    for text in texts:
        _, weights = loaded_model.attend(text)
        ids = torch.tensor(loaded_model.tokenizer(text)["input_ids"])
        special = torch.tensor(loaded_model.tokenizer.all_special_ids)
        found.append((weights, ids, ~torch.isin(ids, special)))
    return found


def permuted(loaded_model, seed: int):
    """Una copia con los números de cada matriz barajados: los mismos valores, sin lo aprendido."""
    generator = torch.Generator().manual_seed(seed)
    return _changed(loaded_model, lambda p: p.flatten()[torch.randperm(p.numel(), generator=generator)].view_as(p))


def initialised(loaded_model, seed: int):
    """Una copia sin entrenar: matrices nuevas, normales con la desviación de BERT (0,02)."""
    generator = torch.Generator().manual_seed(seed)
    std = loaded_model.model.config.initializer_range
    return _changed(loaded_model, lambda p: torch.randn(p.shape, generator=generator) * std)


def _changed(loaded_model, change):
    """Copia de un modelo con otras matrices; sesgos y ganancias (de una dimensión) quedan como estaban."""
    model = copy.deepcopy(loaded_model.model)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.copy_(change(parameter))
    return type(loaded_model)(model, loaded_model.tokenizer, loaded_model.source)


# --- La medida -------------------------------------------------------------------------------------------------------

MARGIN = 0.1
"""Cuánto hay que superar la referencia: diez puntos (Voita dice «10 %» y no aclara si puntos o parte)."""


@dataclass(frozen=True)
class Hits:
    """Aciertos de cada cabeza en cada frase, para poder remuestrear frases.

    Attributes:
        hits: (frases, n_layers, h) aciertos.
        totals: (frases,) casos.
        pairs: parejas de cada frase, para la referencia; vacía si no es una relación.
    """

    hits: Tensor
    totals: Tensor
    pairs: list[list[Pair]] = field(default_factory=list)

    def accuracy(self) -> Tensor:
        """Acierto de cada cabeza, (n_layers, h)."""
        return self.hits.sum(0) / self.totals.sum()

    def baseline(self) -> float:
        """Acierto del mejor desplazamiento fijo, elegido en estas mismas frases: lo más que puede dar uno."""
        return best_offset_baseline(self.pairs, self.pairs).accuracy if self.pairs else 0.0


def relation_hits(maps: Sequence[Tensor], examples: Sequence[Sentence], relation: str) -> Hits:
    """Aciertos en una relación, frase a frase (`relation_accuracy` de cada una por su número de parejas)."""
    pairs = [example.pairs(relation) for example in examples]
    none = torch.zeros(maps[0].shape[:2])
    hits = [relation_accuracy(m, p) * len(p) if p else none for m, p in zip(maps, pairs, strict=True)]
    return Hits(torch.stack(hits), torch.tensor([float(len(p)) for p in pairs]), pairs)


def all_relations(loaded_model, split: str, n: int, seed: int) -> dict[str, Hits]:
    """Las diez relaciones de `RELATIONS` en n frases nuevas de un conjunto."""
    examples = sentences(split, n, seed)
    maps = word_maps(loaded_model, examples)
    return {relation: relation_hits(maps, examples, relation) for relation in RELATIONS}


def natural_hits(loaded_model, split: str, shuffle: int | None = None) -> dict[str, Hits]:
    """Índices posicionales y de palabras raras en las frases corrientes: una proporción por frase.

    Entre tokens, sin [CLS] ni [SEP]; donde se dice «con especiales», contándolos. La rareza es el identificador: el
    vocabulario de BERT va más o menos por frecuencia. Como en Voita, no cuentan las frases cuya palabra más rara está
    entre las 500 más frecuentes.

    Args:
        loaded_model: lo que devuelve `mc.load_bert()`.
        split: "development" o "test".
        shuffle: si se da, la semilla con que se baraja la rareza de las palabras que no están entre las 250 más
            frecuentes. Es el control de quien mira a las palabras con contenido, raras o no.

    Returns:
        Medida → aciertos (frases, n_layers, h).
    """
    found: dict[str, list[Tensor]] = {name: [] for name in NATURAL_MEASURES}
    generator = torch.Generator().manual_seed(shuffle or 0)
    for weights, ids, keep in token_maps(loaded_model, natural(split)):
        if ids[keep].max() < FIRST_WORD_ID + 500:
            continue
        if shuffle is not None:
            content = ids >= FIRST_WORD_ID + 250
            order = torch.randperm(int(content.sum()), generator=generator)
            ids = ids.masked_scatter(content, ids[content][order])
        scores = [positional_score(weights, offset, keep=keep) for offset in (-1, 1)]
        scores += [positional_score(weights, offset) for offset in (-1, 1)]
        scores += [rare_token_score(weights, -ids, num_rarest=count, keep=keep) for count in (1, 2)]
        for name, score in zip(NATURAL_MEASURES, scores, strict=True):
            found[name].append(score)
    return {name: Hits(torch.stack(shares), torch.ones(len(shares))) for name, shares in found.items()}


def mean_confidence(loaded_model, split: str) -> Tensor:
    """Peso mayor medio de cada cabeza en las frases corrientes, sin contar [CLS] ni [SEP]: (n_layers, h)."""
    maps = token_maps(loaded_model, natural(split))
    return torch.stack([confidence(weights, keep=keep) for weights, _, keep in maps]).mean(0)


def choose(development: Hits, test: Hits) -> tuple[tuple[int, int], float]:
    """La mejor cabeza en desarrollo y lo que acierta en prueba."""
    head = divmod(int(development.accuracy().argmax()), development.hits.shape[-1])
    return head, float(test.accuracy()[head])


def passing(development: Hits, test: Hits) -> list[tuple[int, int]]:
    """Las cabezas que superan la referencia en `MARGIN` en los dos conjuntos."""
    above = [found.accuracy() >= found.baseline() + MARGIN for found in (development, test)]
    return [tuple(head) for head in (above[0] & above[1]).nonzero().tolist()]


def bootstrap(development: Hits, test: Hits, draws: int = 1000, seed: int = 0) -> dict[str, tuple[float, float]]:
    """Intervalos del 95 % remuestreando frases, con la elección de la cabeza y de la referencia dentro de cada sorteo.

    Args:
        development: con qué se elige la cabeza, entre todas.
        test: con qué se puntúa, y donde se elige la mejor distancia fija.
        draws: remuestreos.
        seed: semilla.

    Returns:
        Extremos de «accuracy» (acierto en prueba) y «gain» (acierto menos referencia).
    """
    generator = torch.Generator().manual_seed(seed)
    accuracies = []
    for found in (development, test):
        n = len(found.totals)
        drawn = torch.randint(n, (draws, n), generator=generator)
        counts = torch.zeros(draws, n).scatter_add_(1, drawn, torch.ones(draws, n))  # (sorteos, frases)
        totals = (counts @ found.totals).clamp_min(1)
        accuracies.append(counts @ found.hits.flatten(1) / totals[:, None])  # (sorteos, cabezas)
    best = accuracies[0].argmax(1, keepdim=True)
    accuracy = accuracies[1].gather(1, best).squeeze(1)
    fixed = torch.zeros(1)
    if test.pairs:
        distance = [[governor - dependent for dependent, governor in pairs] for pairs in test.pairs]
        reach = max(abs(d) for row in distance for d in row)
        table = torch.tensor([[row.count(d) for d in range(-reach, reach + 1)] for row in distance])
        fixed = (counts @ table.float() / totals[:, None]).amax(1)
    edges = torch.tensor([0.025, 0.975])
    ends = {"accuracy": accuracy.quantile(edges), "gain": (accuracy - fixed).quantile(edges)}
    return {name: (round(low, 4), round(high, 4)) for name, (low, high) in ((k, v.tolist()) for k, v in ends.items())}


def pooled(found: Sequence[Hits]) -> Hits:
    """Las frases de varias semillas, juntas."""
    pairs = [pairs for one in found for pairs in one.pairs]
    return Hits(torch.cat([one.hits for one in found]), torch.cat([one.totals for one in found]), pairs)


def by_distance(
    maps: Sequence[Tensor], examples: Sequence[Sentence], relation: str, head: tuple[int, int]
) -> dict[int, tuple[int, int]]:
    """Aciertos de una cabeza según lo lejos que está a quien debe mirar: distancia → (aciertos, casos).

    Quien mirase siempre a la misma distancia acertaría todo en una y nada en las demás.
    """
    layer, number = head
    counts: dict[int, list[int]] = {}
    for weights, example in zip(maps, examples, strict=True):
        strongest = weights[layer, number].argmax(-1).tolist()
        for query, target in example.pairs(relation):
            cell = counts.setdefault(target - query, [0, 0])
            cell[0] += strongest[query] == target
            cell[1] += 1
    return {distance: tuple(counts[distance]) for distance in sorted(counts)}


def looks(loaded_model, head: tuple[int, int], kind: str, n: int, seed: int) -> dict[str, float]:
    """En qué proporción de las `probes` mira la cabeza, desde el verbo, a cada candidato."""
    examples = probes(kind, n, seed)
    layer, number = head
    seen = [
        m[layer, number, e.query].argmax().item()
        for m, e in zip(word_maps(loaded_model, examples), examples, strict=True)
    ]
    return {
        name: sum(place == e.candidates[name] for place, e in zip(seen, examples, strict=True)) / n
        for name in examples[0].candidates
    }  # fmt: skip


# --- El registro -----------------------------------------------------------------------------------------------------

PERMUTED, INITIALISED, SHUFFLED = 10, 4, 20  # controles: por semilla, por semilla y en total
SIZE = 200  # frases de cada conjunto y semilla


def record(
    seeds: Sequence[int], size: int = SIZE, permuted_copies: int = PERMUTED, fresh_copies: int = INITIALISED,
    shuffles: int = SHUFFLED,
) -> dict:  # fmt: skip
    """Las diez relaciones, las posiciones y las palabras raras en las 72 cabezas de MiniLM, con sus controles.

    Cada semilla reparte las palabras y escribe frases nuevas; las corrientes son siempre las mismas. Los controles
    pasan por lo mismo, la mejor de 72 elegida en desarrollo: copias con los pesos permutados y copias sin entrenar.

    Args:
        seeds: semillas de las frases y de los controles.
        size: frases de desarrollo, y otras tantas de prueba, por semilla.
        permuted_copies: copias con los pesos permutados por semilla.
        fresh_copies: copias sin entrenar por semilla.
        shuffles: veces que se baraja la rareza de las palabras.

    Returns:
        Por medida: la cabeza elegida con las frases de todas las semillas, su acierto en prueba, la referencia, los
        intervalos, lo mismo semilla a semilla, las cabezas que pasan el listón en todas y los controles. Y, aparte,
        los aciertos por distancia, las `probes` de la cabeza de objeto y la confianza de cada cabeza.
    """
    from ..models import load_bert

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    model = load_bert()
    real = [_both(model, size, seed) for seed in seeds]
    controls: dict[str, list] = {"permuted": [], "initialised": []}
    for seed in seeds:
        for arm, change, copies in (
            ("permuted", permuted, permuted_copies),
            ("initialised", initialised, fresh_copies),
        ):
            controls[arm] += [_both(change(model, 1000 * seed + i), size, seed) for i in range(copies)]
    measures = {
        name: _summary(
            [one[name] for one in real], {arm: [one[name] for one in found] for arm, found in controls.items()}
        )
        for name in real[0]
    }
    for name in NATURAL_MEASURES[4:]:
        shuffled = [
            [natural_hits(model, split, 1000 * seeds[0] + i)[name] for split in ("development", "test")]
            for i in range(shuffles)
        ]
        measures[name]["shuffled"] = [round(choose(*pair)[1], 4) for pair in shuffled]
    distances: dict[str, dict[int, tuple[int, int]]] = {name: {} for name in RELATIONS}
    for seed in seeds:
        examples = sentences("test", size, seed)
        maps = word_maps(model, examples)
        for name, total in distances.items():
            for distance, counts in by_distance(maps, examples, name, measures[name]["head"]).items():
                total[distance] = tuple(a + b for a, b in zip(total.get(distance, (0, 0)), counts, strict=True))
    head = measures["verbo → objeto"]["head"]
    probed = {kind: [looks(model, head, kind, size, seed) for seed in seeds] for kind in PROBES}
    sure = mean_confidence(model, "test")
    torch.set_num_threads(threads)
    return {
        "measures": measures,
        "distances": {name: {str(d): list(total[d]) for d in sorted(total)} for name, total in distances.items()},
        "probes": {kind: {c: [one[c] for one in found] for c in found[0]} for kind, found in probed.items()},
        "confidence": [[round(value, 4) for value in row] for row in sure.tolist()],
        "sizes": {"sentences": size, "natural": len(natural("test"))},
    }


def _both(model, size: int, seed: int) -> dict[str, tuple[Hits, Hits]]:
    """Todas las medidas en los dos conjuntos: nombre → (desarrollo, prueba)."""
    development, test = (
        all_relations(model, split, size, seed) | natural_hits(model, split) for split in ("development", "test")
    )
    return {name: (development[name], test[name]) for name in development}


def _summary(sets: list[tuple[Hits, Hits]], controls: dict[str, list[tuple[Hits, Hits]]]) -> dict:
    """Lo que el registro guarda de una medida: `sets`, una pareja (desarrollo, prueba) por semilla."""
    is_relation = bool(sets[0][1].pairs)
    development, test = (pooled([pair[i] for pair in sets]) for i in (0, 1)) if is_relation else sets[0]
    head, accuracy = choose(development, test)
    values = {
        "head": head, "accuracy": round(accuracy, 4), "baseline": round(test.baseline(), 4),
        "n": int(test.totals.sum()), "intervals": bootstrap(development, test),
        "heads_by_seed": [choose(*pair)[0] for pair in sets],
        "accuracy_by_seed": [round(choose(*pair)[1], 4) for pair in sets],
        "baseline_by_seed": [round(pair[1].baseline(), 4) for pair in sets],
        **{arm: [round(choose(*pair)[1], 4) for pair in found] for arm, found in controls.items()},
    }  # fmt: skip
    if is_relation:
        values["passing"] = sorted(set.intersection(*(set(passing(*pair)) for pair in sets)))
        values |= {f"passing_{arm}": [len(passing(*pair)) for pair in found] for arm, found in controls.items()}
    else:
        values["passing"] = [
            tuple(head) for head in (torch.minimum(development.accuracy(), test.accuracy()) >= 0.9).nonzero().tolist()
        ]
    return values
