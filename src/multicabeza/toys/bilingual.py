"""Frases en español con su traducción al inglés: los datos del mini traductor (capítulo 07).

Salen de una gramática propia, sin texto de nadie. Cada frase española tiene una sola traducción, y para acertarla hace
falta mirar lejos:

| fenómeno | ejemplo | qué hay que saber |
|---|---|---|
| `clitic` | Pedro vio la mesa y Ana **lo** tocó → … touched **him** | con qué nombre concuerda, y si es persona |
| `attribute` | Ana perdió el libro porque **era** viejo → … **it** was old | con quién concuerda el adjetivo |
| `dropped` | Ana llevó la caja porque **perdió** el tren → … **she** missed … | quién es el sujeto omitido |
| `possessive` | los niños a los que vio Ana perdieron **su** llave → … **their** key | de quién es (1) |
| `far_adjective` | la llave del piano **nueva** → the **new** key of the piano | a qué nombre modifica el adjetivo |
| `far_object` | la guitarra que **tocó** Ana → … that Ana **played** | qué se toca: *touch* o *play* |
| `relative` | el médico **al que** vio Ana → the doctor **whom** Ana saw | quién hace qué a quién |
| `negation` | Ana **no** ve → Ana **does not see** | el tiempo del verbo, que se muda al auxiliar |
| `ambiguous_noun` | **el** cometa, **la** cometa → the comet, the kite | el género del artículo |
| `ser_estar` | **era** lista, **estaba** lista → was smart, was ready | qué verbo lleva el adjetivo |

(1) Por convenio, «su» es siempre del sujeto de su oración. Una frase que admita dos lecturas se tira: el clítico, el
adjetivo y el verbo concuerdan con un solo nombre de los anteriores. Lo que dicen las frases suele ser raro («Ana lleva
las faldas del piano nuevas»): el sentido no ayuda, solo la gramática.

La primera oración de cada frase decide en qué parte cae: ninguna primera oración de prueba, y por tanto ninguna frase,
sale en el entrenamiento. Todo depende de una semilla fija, la misma para todos los modelos.
"""

import hashlib
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

Pair = tuple[int, int]

# --- El léxico -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Noun:
    """Un nombre: formas española e inglesa, en singular y plural, género y clase.

    Clases: «name» (nombre propio), «person», «thing»; y, entre las cosas, las que cambian la traducción de un verbo:
    «instrument» (tocar), «garment» (llevar) y «transport» (perder).
    """

    spanish: tuple[str, str]
    english: tuple[str, str]
    gender: str
    kind: str


def _nouns(kind: str, table: str) -> list[Noun]:
    """Lee «español español_plural inglés inglés_plural género» por líneas."""
    rows = [line.split() for line in table.strip().splitlines()]
    return [Noun((es, es_plural), (en, en_plural), gender, kind) for es, es_plural, en, en_plural, gender in rows]


NAMES = [Noun((name, name), (name, name), "f", "name") for name in ("Ana", "Marta", "Elena", "Carmen")] + [
    Noun((name, name), (name, name), "m", "name") for name in ("Luis", "Pedro", "Juan", "Carlos")
]
PEOPLE = _nouns(
    "person",
    """
    médico médicos doctor doctors m
    médica médicas doctor doctors f
    profesor profesores teacher teachers m
    profesora profesoras teacher teachers f
    vecino vecinos neighbor neighbors m
    vecina vecinas neighbor neighbors f
    abogado abogados lawyer lawyers m
    abogada abogadas lawyer lawyers f
    cocinero cocineros cook cooks m
    cocinera cocineras cook cooks f
    niño niños boy boys m
    niña niñas girl girls f
    """,
)
THINGS = (
    _nouns(
        "thing",
        """
        mesa mesas table tables f
        libro libros book books m
        carta cartas letter letters f
        cuadro cuadros painting paintings m
        silla sillas chair chairs f
        espejo espejos mirror mirrors m
        maleta maletas suitcase suitcases f
        reloj relojes watch watches m
        llave llaves key keys f
        jarrón jarrones vase vases m
        caja cajas box boxes f
        cuchillo cuchillos knife knives m
        cometa cometas kite kites f
        cometa cometas comet comets m
        pendiente pendientes slope slopes f
        pendiente pendientes earring earrings m
        parte partes part parts f
        parte partes report reports m
        """,
    )
    + _nouns(
        "instrument",
        """
        guitarra guitarras guitar guitars f
        piano pianos piano pianos m
        flauta flautas flute flutes f
        violín violines violin violins m
        """,
    )
    + _nouns(
        "garment",
        """
        camisa camisas shirt shirts f
        vestido vestidos dress dresses m
        falda faldas skirt skirts f
        sombrero sombreros hat hats m
        """,
    )
    + _nouns(
        "transport",
        """
        tren trenes train trains m
        avión aviones plane planes m
        barca barcas boat boats f
        """,
    )
)
AMBIGUOUS = frozenset({"cometa", "pendiente", "parte"})


@dataclass(frozen=True)
class Verb:
    """Un verbo transitivo, en tercera persona.

    Attributes:
        spanish: tiempo → (singular, plural).
        senses: clase del objeto → (forma base, tercera persona, pasado) en inglés; «any» es la general, y «_» separa
            las palabras de un verbo de dos.
    """

    spanish: dict[str, tuple[str, str]]
    senses: dict[str, tuple[str, str, str]]

    def english(self, kind: str) -> tuple[str, str, str]:
        """Las tres formas inglesas que pide esa clase de objeto."""
        return self.senses.get(kind, self.senses["any"])


TENSES = ("present", "past", "future")


def _verb(forms: str, **senses: str) -> Verb:
    words = forms.split()
    spanish = {tense: (words[2 * i], words[2 * i + 1]) for i, tense in enumerate(TENSES)}
    return Verb(spanish, {kind: tuple(english.split()) for kind, english in senses.items()})


VERBS = [
    _verb("ve ven vio vieron verá verán", any="see sees saw"),
    _verb("busca buscan buscó buscaron buscará buscarán", any="look_for looks_for looked_for"),
    _verb("dibuja dibujan dibujó dibujaron dibujará dibujarán", any="draw draws drew"),
    _verb("recuerda recuerdan recordó recordaron recordará recordarán", any="remember remembers remembered"),
    _verb("olvida olvidan olvidó olvidaron olvidará olvidarán", any="forget forgets forgot"),
    _verb("describe describen describió describieron describirá describirán", any="describe describes described"),
    _verb("encuentra encuentran encontró encontraron encontrará encontrarán", any="find finds found"),
    # Los que cambian de traducción con el objeto.
    _verb("toca tocan tocó tocaron tocará tocarán", any="touch touches touched", instrument="play plays played"),
    _verb("pierde pierden perdió perdieron perderá perderán", any="lose loses lost", transport="miss misses missed"),
    _verb("lleva llevan llevó llevaron llevará llevarán", any="carry carries carried", garment="wear wears wore"),
    _verb(
        "quiere quieren quería querían querrá querrán",
        any="want wants wanted",
        name="love loves loved",
        person="love loves loved",
    ),
]
OWN = _verb("tiene tienen tenía tenían tendrá tendrán", any="have has had")


@dataclass(frozen=True)
class Adjective:
    """Un adjetivo: raíz española (con «o» final si cambia de género), inglés y a qué clase de nombres se aplica."""

    spanish: str
    english: str
    scope: str  # «person», «thing» o «both»
    estar: str = ""  # su traducción con «estar», si es otra; con «=» solo va con «estar»

    def form(self, gender: str, plural: bool) -> str:
        """La forma que concuerda."""
        word = self.spanish[:-1] + ("a" if gender == "f" else "o") if self.spanish.endswith("o") else self.spanish
        if not plural:
            return word
        if word == "joven":
            return "jóvenes"
        return word + ("s" if word[-1] in "aeo" else "es")


ADJECTIVES = [
    Adjective("viejo", "old", "both"),
    Adjective("pequeño", "small", "both"),
    Adjective("bonito", "pretty", "thing"),
    Adjective("grande", "big", "both"),
    Adjective("nuevo", "new", "thing"),
    Adjective("blanco", "white", "thing"),
    Adjective("negro", "black", "thing"),
    Adjective("rojo", "red", "thing"),
    Adjective("azul", "blue", "thing"),
    Adjective("caro", "expensive", "thing"),
    Adjective("alto", "tall", "person"),
    Adjective("joven", "young", "person"),
    Adjective("famoso", "famous", "person"),
]
STATES = [  # solo como atributo, tras «ser» o «estar»
    Adjective("listo", "smart", "person", estar="ready"),
    Adjective("aburrido", "boring", "person", estar="bored"),
    Adjective("malo", "bad", "person", estar="sick"),
    Adjective("sucio", "dirty", "both", estar="="),
    Adjective("roto", "broken", "thing", estar="="),
    Adjective("cansado", "tired", "person", estar="="),
]

ARTICLES = {"m": ("el", "los"), "f": ("la", "las")}
INDEFINITE = {"m": "un", "f": "una"}
CLITICS = {("m", False): "lo", ("f", False): "la", ("m", True): "los", ("f", True): "las"}
COPULA = {
    "ser": {"present": ("es", "son"), "past": ("era", "eran"), "future": ("será", "serán")},
    "estar": {"present": ("está", "están"), "past": ("estaba", "estaban"), "future": ("estará", "estarán")},
}
TIMES = {"past": ("ayer", "yesterday"), "present": ("hoy", "today"), "future": ("mañana", "tomorrow")}

# --- La gramática ----------------------------------------------------------------------------------------------------


class Word:
    """Una palabra española de una frase a medio hacer; se compara por identidad, para anotar relaciones."""

    __slots__ = ("text",)

    def __init__(self, text: str):
        self.text = text


@dataclass
class Phrase:
    """Un sintagma nominal: sus palabras, su traducción y lo que hace falta para concordar con él."""

    spanish: list[Word]
    english: list[str]
    head: Word
    noun: Noun
    plural: bool
    mentioned: list["Phrase"] = field(default_factory=list)  # los demás nombres que contiene

    @property
    def person(self) -> bool:
        return self.noun.kind in ("name", "person")

    @property
    def agreement(self) -> tuple[str, bool]:
        return self.noun.gender, self.plural

    @property
    def subject_pronoun(self) -> str:
        return "they" if self.plural else self._pick("he", "she", "it")

    @property
    def object_pronoun(self) -> str:
        return "them" if self.plural else self._pick("him", "her", "it")

    @property
    def possessive(self) -> str:
        return "their" if self.plural else self._pick("his", "her", "its")

    def _pick(self, masculine: str, feminine: str, neuter: str) -> str:
        return neuter if not self.person else masculine if self.noun.gender == "m" else feminine

    def everyone(self) -> list["Phrase"]:
        return [self, *self.mentioned]


class Sentence(NamedTuple):
    """Una frase con su traducción.

    Attributes:
        spanish: palabras.
        english: palabras.
        first: la primera oración española, sin «ayer», «hoy» o «mañana»: decide la parte del corpus.
        phenomena: cuáles contiene.
        relations: nombre → parejas (dependiente, núcleo) de posiciones en `spanish`.
    """

    spanish: tuple[str, ...]
    english: tuple[str, ...]
    first: tuple[str, ...]
    phenomena: frozenset[str]
    relations: dict[str, list[Pair]]


class _Writer:
    """Escribe una frase: guarda los fenómenos y las relaciones que van saliendo."""

    def __init__(self, rng: random.Random):
        self.rng = rng
        self.phenomena: set[str] = set()
        self.relations: list[tuple[str, Word, Word]] = []

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def adjective(self, noun: Noun) -> Adjective:
        scope = "person" if noun.kind == "person" else "thing"
        return self.rng.choice([adjective for adjective in ADJECTIVES if adjective.scope in (scope, "both")])

    def simple(self, noun: Noun, plural: bool, adjectives: Sequence[Adjective] = ()) -> Phrase:
        """Artículo definido y nombre: «la llave», «the key»; los adjetivos van delante en inglés."""
        head = Word(noun.spanish[plural])
        english = [adjective.english for adjective in adjectives] + [noun.english[plural]]
        if noun.kind == "name":
            return Phrase([head], english, head, noun, plural)
        if noun.spanish[0] in AMBIGUOUS:
            self.phenomena.add("ambiguous_noun")
        article = Word(ARTICLES[noun.gender][plural])
        return Phrase([article, head], ["the", *english], head, noun, plural)

    def person(self, *, names: float = 0.5, modified: float = 0.0) -> Phrase:
        """Una persona: un nombre propio o «la médica joven», y a veces con una oración de relativo."""
        if self.chance(names):
            return self.simple(self.rng.choice(NAMES), False)
        noun, plural = self.rng.choice(PEOPLE), self.chance(0.35)
        if not self.chance(modified):
            return self.simple(noun, plural)
        if self.chance(0.4):
            adjective = self.adjective(noun)
            phrase = self.simple(noun, plural, [adjective])
            word = Word(adjective.form(noun.gender, plural))
            phrase.spanish.append(word)
            self.relations.append(("adjective", word, phrase.head))
            return phrase
        return self.relative(self.simple(noun, plural))

    def thing(self, *, kinds: Sequence[Noun] = THINGS, owner: Phrase | None = None, modified: float = 0.4) -> Phrase:
        """Una cosa: «la mesa», «una mesa roja», «su mesa», «la llave del coche nueva», «la mesa que vio Ana»."""
        if owner is not None:  # «su cometa» no deja ver el género
            kinds = [noun for noun in kinds if noun.spanish[0] not in AMBIGUOUS]
        noun, plural = self.rng.choice(kinds), self.chance(0.3)
        if owner is not None:
            return self.owned(noun, plural, owner)
        if not self.chance(modified):
            return self.simple(noun, plural)
        way = self.rng.random()
        if way < 0.25:
            return self.described(noun, plural)
        if way < 0.6:
            return self.compound(noun, plural)
        return self.relative(self.simple(noun, plural))

    def owned(self, noun: Noun, plural: bool, owner: Phrase) -> Phrase:
        """«su llave»: el posesivo inglés depende del dueño."""
        head, possessive = Word(noun.spanish[plural]), Word("sus" if plural else "su")
        self.phenomena.add("possessive")
        self.relations.append(("possessive", possessive, owner.head))
        return Phrase([possessive, head], [owner.possessive, noun.english[plural]], head, noun, plural)

    def described(self, noun: Noun, plural: bool) -> Phrase:
        """«la mesa roja» o «una mesa roja»."""
        adjective = self.adjective(noun)
        phrase = self.simple(noun, plural, [adjective])
        word = Word(adjective.form(noun.gender, plural))
        phrase.spanish.append(word)
        self.relations.append(("adjective", word, phrase.head))
        if not plural and self.chance(0.5):
            phrase.spanish[0].text = INDEFINITE[noun.gender]
            phrase.english[0] = "an" if phrase.english[1][0] in "aeiou" else "a"
        return phrase

    def compound(self, noun: Noun, plural: bool) -> Phrase:
        """«la llave del piano nueva»: la concordancia dice a cuál de los dos nombres modifica el adjetivo."""
        others = [other for other in THINGS if other.gender != noun.gender and other.spanish != noun.spanish]
        other, other_plural = self.rng.choice(others), self.chance(0.25)
        far = self.chance(0.5)
        adjective = self.adjective(noun)
        while adjective.form(noun.gender, plural) == adjective.form(other.gender, other_plural):
            adjective = self.adjective(noun)  # «la llave del piano azul» valdría para los dos
        outer = self.simple(noun, plural, [adjective] if far else [])
        inner = self.simple(other, other_plural, [] if far else [adjective])
        modified = outer if far else inner
        word = Word(adjective.form(*modified.agreement))
        self.relations.append(("far_adjective" if far else "adjective", word, modified.head))
        if far:
            self.phenomena.add("far_adjective")
        spanish = [*outer.spanish, Word("de"), *inner.spanish, word]
        return Phrase(spanish, [*outer.english, "of", *inner.english], outer.head, noun, plural, [inner])

    def relative(self, phrase: Phrase) -> Phrase:
        """Añade una oración de relativo: de sujeto («que vio a Ana») o de objeto («que vio Ana», «al que vio Ana»)."""
        self.phenomena.add("relative")
        verb, tense = self.verb(phrase.noun.kind), self.rng.choice(("past", "present"))
        if phrase.person and self.chance(0.5):
            if self.chance(0.5):
                other = self.person(names=0.7)
            else:
                other = self.thing(kinds=self.fitting(verb), modified=0)
            spoken = Word(verb.spanish[tense][phrase.plural])
            self.relations += [("verb_object", spoken, other.head), ("verb_subject", spoken, phrase.head)]
            spanish = [Word("que"), spoken, *_personal(other)]
            english = ["who", *_conjugated(verb.english(other.noun.kind), tense, phrase.plural), *other.english]
        else:
            other = self.person(names=0.7)
            spoken = Word(verb.spanish[tense][other.plural])
            self.relations += [("verb_object", spoken, phrase.head), ("verb_subject", spoken, other.head)]
            if len(verb.senses) > 1:
                self.phenomena.add("far_object")
            link = [Word("que")]
            if phrase.person:
                article = ARTICLES[phrase.noun.gender][phrase.plural]
                link = [Word("al"), *link] if article == "el" else [Word("a"), Word(article), *link]
            spanish = [*link, spoken, *other.spanish]
            english = [
                "whom" if phrase.person else "that",
                *other.english,
                *_conjugated(verb.english(phrase.noun.kind), tense, other.plural),
            ]
        return Phrase(
            phrase.spanish + spanish,
            phrase.english + english,
            phrase.head,
            phrase.noun,
            phrase.plural,
            [*phrase.mentioned, *other.everyone()],
        )

    def couple(self) -> Phrase:
        """«Ana y Luis»: plural, y masculino si lo es alguno."""
        one, two = self.rng.sample(NAMES, 2)
        head = Word(one.spanish[0])
        gender = "f" if one.gender == two.gender == "f" else "m"
        noun = Noun((one.spanish[0],) * 2, (one.english[0],) * 2, gender, "name")
        spanish, english = [head, Word("y"), Word(two.spanish[0])], [one.english[0], "and", two.english[0]]
        members = [Phrase([], [], head, member, False) for member in (one, two)]
        return Phrase(spanish, english, head, noun, True, members)

    def verb(self, kind: str | None = None) -> Verb:
        """Un verbo; si se sabe la clase del objeto, a menudo uno que cambia de traducción con ella."""
        special = [verb for verb in VERBS if kind in verb.senses]
        return self.rng.choice(special if special and self.chance(0.35) else VERBS)

    def fitting(self, verb: Verb) -> list[Noun]:
        """Las cosas entre las que elegir el objeto de un verbo: a menudo, las que le cambian la traducción."""
        special = [noun for noun in THINGS if noun.kind in verb.senses]
        return special if special and self.chance(0.5) else THINGS

    def predicate(self, subject: Phrase, verb: Verb, tense: str, target: Phrase) -> tuple[list[Word], list[str]]:
        """«no vio a Luis», «did not see Luis»."""
        negated = self.chance(0.25)
        spoken = Word(verb.spanish[tense][subject.plural])
        self.relations += [("verb_object", spoken, target.head), ("verb_subject", spoken, subject.head)]
        if negated:
            self.phenomena.add("negation")
        spanish = [*([Word("no")] if negated else []), spoken, *_personal(target)]
        english = _verb_group(verb.english(target.noun.kind), tense, subject.plural, negated)
        return spanish, [*english, *target.english]


def _personal(phrase: Phrase) -> list[Word]:
    """El objeto, con la «a» de persona si la lleva: «a Luis», «al médico»."""
    if not phrase.person:
        return _contracted(phrase.spanish)
    if phrase.spanish[0].text == "el":
        return [Word("al"), *_contracted(phrase.spanish[1:])]
    return [Word("a"), *_contracted(phrase.spanish)]


def _contracted(words: list[Word]) -> list[Word]:
    """«de el» → «del»."""
    kept: list[Word] = []
    for word in words:
        if word.text == "el" and kept and kept[-1].text == "de":
            kept[-1] = Word("del")
        else:
            kept.append(word)
    return kept


def _conjugated(forms: tuple[str, str, str], tense: str, plural: bool) -> list[str]:
    base, third, past = forms
    return (past if tense == "past" else base if plural else third).split("_")


def _verb_group(forms: tuple[str, str, str], tense: str, plural: bool, negated: bool) -> list[str]:
    """El verbo inglés con sus auxiliares: «did not see», «will see»."""
    if tense == "future":
        return ["will", *(["not"] if negated else []), *forms[0].split("_")]
    if negated:
        return ["did" if tense == "past" else "do" if plural else "does", "not", *forms[0].split("_")]
    return _conjugated(forms, tense, plural)


def write_sentence(rng: random.Random) -> Sentence | None:
    """Escribe una frase al azar.

    Args:
        rng: de donde salen las decisiones.

    Returns:
        La frase, o None si la que salió era ambigua: se tira y se hace otra.
    """
    writer = _Writer(rng)
    tense = rng.choices(TENSES, (4, 8, 3))[0]
    owned = writer.chance(0.04)
    if owned:  # «la caja tendrá su llave»: el único sujeto que no es persona
        subject = writer.simple(rng.choice(THINGS), writer.chance(0.3))
        target = writer.thing(owner=subject)
        verb = OWN
    else:
        subject = writer.couple() if writer.chance(0.12) else writer.person(names=0.4, modified=0.65)
        verb = rng.choice(VERBS)
        if writer.chance(0.35):
            target = writer.person(names=0.4, modified=0.3)
        else:
            owner = subject if writer.chance(0.3) else None
            target = writer.thing(kinds=writer.fitting(verb), owner=owner, modified=0.6)
    action, english_action = writer.predicate(subject, verb, tense, target)
    spanish = [*_contracted(subject.spanish), *action]
    english = [*subject.english, *english_action]
    first = tuple(word.text for word in spanish)
    if writer.chance(0.3):
        spanish, english = [Word(TIMES[tense][0]), *spanish], [TIMES[tense][1], *english]
    nouns = subject.everyone() + target.everyone()
    if len({phrase.noun for phrase in nouns}) < len(nouns):
        return None  # «Ana vio a Ana»
    if not writer.chance(0.15):
        second = None if owned else _second_clause(writer, tense, subject, target, nouns)
        if second is None:
            return None
        spanish, english = spanish + second[0], english + second[1]
    place = {id(word): position for position, word in enumerate(spanish)}
    relations: dict[str, list[Pair]] = {}
    for name, dependent, governor in writer.relations:
        relations.setdefault(name, []).append((place[id(dependent)], place[id(governor)]))
    words = tuple(word.text for word in spanish)
    return Sentence(words, tuple(english), first, frozenset(writer.phenomena), relations)


def _second_clause(
    writer: _Writer, tense: str, subject: Phrase, target: Phrase, nouns: list[Phrase]
) -> tuple[list[Word], list[str]] | None:
    """La segunda oración: con clítico, con atributo, con sujeto omitido, o con los dos últimos a la vez."""
    rng = writer.rng
    way = rng.choices(("clitic", "attribute", "dropped", "both"), (3, 3, 2, 2))[0]
    rivals = [phrase for phrase in nouns if phrase is not subject and phrase.person and phrase.plural == subject.plural]
    if way in ("dropped", "both") and rivals:
        return None  # el verbo no dice quién de los dos es el sujeto
    if way == "attribute":
        return _attribute(writer, tense, rng.choice([subject, target]), nouns)
    if way == "dropped":
        verb = rng.choice(VERBS)
        owner = subject if writer.chance(0.5) else None
        other = writer.thing(kinds=writer.fitting(verb), owner=owner, modified=0.25)
        if {phrase.noun for phrase in other.everyone()} & {phrase.noun for phrase in nouns}:
            return None
        spanish, english = writer.predicate(subject, verb, tense, other)
        writer.phenomena.add("dropped")
        return [Word("porque"), *spanish], ["because", subject.subject_pronoun, *english]
    antecedent = target if way == "both" else rng.choice([subject, target])
    if sum(phrase.agreement == antecedent.agreement for phrase in nouns) != 1:
        return None  # el clítico podría ser de otro
    verb = writer.verb(antecedent.noun.kind)
    clitic = Word(CLITICS[antecedent.agreement])
    writer.phenomena.add("clitic")
    writer.relations.append(("clitic", clitic, antecedent.head))
    if way == "both":
        agent, before, after = subject, [Word("y"), Word("después")], ["and", "then", subject.subject_pronoun]
        writer.phenomena.add("dropped")
    else:
        agent = writer.person(names=0.7)
        if agent.noun in {phrase.noun for phrase in nouns}:
            return None
        before, after = [Word("y"), *agent.spanish], ["and", *agent.english]
    negated = writer.chance(0.25)
    if negated:
        writer.phenomena.add("negation")
    spoken = Word(verb.spanish[tense][agent.plural])
    writer.relations.append(("verb_subject", spoken, agent.head))
    if len(verb.senses) > 1:
        writer.phenomena.add("far_object")
    spanish = [*before, *([Word("no")] if negated else []), clitic, spoken]
    group = _verb_group(verb.english(antecedent.noun.kind), tense, agent.plural, negated)
    return spanish, [*after, *group, antecedent.object_pronoun]


def _attribute(
    writer: _Writer, tense: str, antecedent: Phrase, nouns: list[Phrase]
) -> tuple[list[Word], list[str]] | None:
    """«porque era vieja»: el adjetivo concuerda con un solo nombre de la primera oración."""
    scopes = ("both", "person" if antecedent.person else "thing")
    adjective = writer.rng.choice([adjective for adjective in ADJECTIVES + STATES if adjective.scope in scopes])
    form = adjective.form(*antecedent.agreement)
    if sum(adjective.form(*phrase.agreement) == form for phrase in nouns) != 1:
        return None
    verb, word = "ser", adjective.english
    if adjective.estar and (adjective.estar == "=" or writer.chance(0.5)):
        verb, word = "estar", adjective.english if adjective.estar == "=" else adjective.estar
    if adjective.estar not in ("", "="):
        writer.phenomena.add("ser_estar")
    writer.phenomena.add("attribute")
    tense = "present" if tense == "future" else tense
    spoken, attribute = Word(COPULA[verb][tense][antecedent.plural]), Word(form)
    writer.relations.append(("attribute", attribute, antecedent.head))
    plural = antecedent.plural
    copula = ("were" if plural else "was") if tense == "past" else ("are" if plural else "is")
    return [Word("porque"), spoken, attribute], ["because", antecedent.subject_pronoun, copula, word]


# --- El corpus -------------------------------------------------------------------------------------------------------

DATA_SEED = 7
SIZES = {"train": 40_000, "validation": 1_000, "test": 2_000}
PAD, BOS, EOS = 0, 1, 2
SPECIAL = ("<pad>", "<s>", "</s>")


def part_of(first: Sequence[str]) -> str:
    """En qué parte del corpus cae una primera oración: lo dice una huella de sus palabras, no el azar de cada vez.

    Args:
        first: palabras españolas.

    Returns:
        «train» (85 %), «validation» (5 %) o «test» (10 %).
    """
    digest = hashlib.blake2b(" ".join(first).encode(), digest_size=4).digest()
    share = int.from_bytes(digest, "big") % 100
    return "test" if share < 10 else "validation" if share < 15 else "train"


@cache
def _stream(part: str) -> tuple[list[Sentence], Iterator[Sentence]]:
    """Las frases de una parte que ya se han escrito, y el generador de las que faltan."""

    def write() -> Iterator[Sentence]:
        rng, seen = random.Random(f"{DATA_SEED} {part}"), set()
        while True:
            sentence = write_sentence(rng)
            if sentence is not None and sentence.spanish not in seen and part_of(sentence.first) == part:
                seen.add(sentence.spanish)
                yield sentence

    return [], write()


def corpus(part: str = "test", n: int | None = None) -> list[Sentence]:
    """Las primeras n frases de una parte del corpus, siempre las mismas y todas distintas.

    Args:
        part: «train», «validation» o «test».
        n: cuántas; si falta, todas las de la parte (`SIZES`).

    Returns:
        Lista de frases.

    Raises:
        ValueError: si la parte no existe o no hay tantas.
    """
    if part not in SIZES:
        raise ValueError(f"Se esperaba una parte de {', '.join(SIZES)}; llegó {part!r}.")
    n = SIZES[part] if n is None else n
    if not 1 <= n <= SIZES[part]:
        raise ValueError(f"Se esperaban entre 1 y {SIZES[part]} frases de «{part}» y se pidieron {n}.")
    written, rest = _stream(part)
    while len(written) < n:
        written.append(next(rest))
    return written[:n]


def _spanish_words() -> set[str]:
    words = {"y", "no", "que", "de", "del", "a", "al", "su", "sus", "porque", "después", "un", "una"}
    words |= {form for forms in ARTICLES.values() for form in forms} | set(CLITICS.values())
    words |= {time for time, _ in TIMES.values()}
    words |= {form for tenses in COPULA.values() for forms in tenses.values() for form in forms}
    words -= set(COPULA["ser"]["future"]) | set(COPULA["estar"]["future"])
    for verb in (*VERBS, OWN):
        words |= {form for forms in verb.spanish.values() for form in forms}
    for noun in (*NAMES, *PEOPLE, *THINGS):
        words |= set(noun.spanish)
    for adjective in ADJECTIVES + STATES:
        words |= {adjective.form(gender, plural) for gender in "mf" for plural in (False, True)}
    return words


def _english_words() -> set[str]:
    words = set("the a an and not did do does will because then who whom that of his her its their".split())
    words |= set("he she it they him them is are was were".split()) | {time for _, time in TIMES.values()}
    for verb in (*VERBS, OWN):
        words |= {word for forms in verb.senses.values() for form in forms for word in form.split("_")}
    for noun in (*NAMES, *PEOPLE, *THINGS):
        words |= set(noun.english)
    for adjective in ADJECTIVES + STATES:
        words |= {adjective.english, adjective.estar} - {"", "="}
    return words


SPANISH = (*SPECIAL, *sorted(_spanish_words()))  # el número de una palabra es su puesto en la lista
ENGLISH = (*SPECIAL, *sorted(_english_words()))
_SPANISH_ID = {word: i for i, word in enumerate(SPANISH)}
_ENGLISH_ID = {word: i for i, word in enumerate(ENGLISH)}


def encode_spanish(words: str | Sequence[str]) -> list[int]:
    """Los números de una frase española, con `</s>` al final.

    Args:
        words: la frase, o sus palabras.

    Returns:
        Lista de enteros.

    Raises:
        ValueError: si alguna palabra no está en el vocabulario.
    """
    words = words.strip(" .").split() if isinstance(words, str) else words
    words = [word if word in _SPANISH_ID else word.lower() for word in words]
    unknown = [word for word in words if word not in _SPANISH_ID]
    if unknown:
        raise ValueError(
            f"El traductor no conoce {', '.join(f'«{word}»' for word in unknown)}. Su vocabulario, de "
            f"{len(SPANISH) - len(SPECIAL)} palabras, está en `bilingual.SPANISH`; sus frases, en `corpus()`."
        )
    return [_SPANISH_ID[word] for word in words] + [EOS]


def encode_english(words: Sequence[str]) -> list[int]:
    """Los números de una frase inglesa, entre `<s>` y `</s>`."""
    return [BOS, *(_ENGLISH_ID[word] for word in words), EOS]
