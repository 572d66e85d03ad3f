"""Las actividades de repaso: los datos de cada capítulo (`NN.yml`), su comprobación y su HTML.

Un archivo es una lista de preguntas. Todas llevan `id`, `kind`, `title` y `prompt`; lo demás depende de la clase:

| `kind` | lo demás |
|---|---|
| `flashcards` | `cards`: lista de `front` y `back` |
| `ordering` | `steps`, en orden; `loose`: grupos de pasos seguidos que pueden ir en cualquier orden; `why` |
| `sorting` | `categories`; `cards`: lista de `text`, `category` (su posición) y `why`; `why` |
| `matching` | `pairs`: lista de `left` y `right`; `extra`: parejas que sobran; `why` |
| `choice` | `options`: lista de `text` y `why`; `answer` (la posición de la correcta) |
| `truefalse` | `answer` (`true` o `false`); `why` |
| `numeric` | `answer`; `tolerance`; `unit`; `mistakes`: lista de `value` y `why`; `why` |
| `open` | `model`: la respuesta modelo; `rubric`: lo que se mira en la propia, un punto cada cosa |

Las posiciones se cuentan desde 0. Del texto se interpretan `` `código` ``, `**negrita**`, `*cursiva*` y los exponentes
de las matrices (`W^O`); una línea en blanco separa párrafos. Lo que está mal se dice con el archivo, la línea y lo que
se esperaba. `web/activity.js` toma de este HTML las piezas de cada pregunta; sin él quedan la pregunta y la respuesta,
plegada.
"""

import hashlib
import html
import json
import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import yaml

FOLDER = Path(__file__).parent

LABELS = {
    "flashcards": "Tarjetas",
    "ordering": "Ordena",
    "sorting": "Clasifica",
    "matching": "Empareja",
    "choice": "Elige",
    "truefalse": "¿Verdadero o falso?",
    "numeric": "Calcula",
    "open": "Con tus palabras",
}


class Item(NamedTuple):
    """Una pregunta, ya comprobada; `data` son los campos de su clase."""

    id: str
    kind: str
    title: str
    prompt: str
    data: dict
    line: int


class ActivityError(ValueError):
    """Un archivo de actividades con fallos: uno por línea, con su sitio y lo que se esperaba."""


# --- Leer y comprobar --------------------------------------------------------------------------------------------

_TYPES = {"str": "un texto", "int": "un número entero", "float": "un número", "bool": "`true` o `false`"}
_TYPES |= {"null": "nada", "seq": "una lista", "map": "unos campos"}


def _found(node: yaml.Node) -> str:
    kind = _TYPES.get(node.tag.rpartition(":")[2], node.tag)
    if not isinstance(node, yaml.ScalarNode) or node.tag.endswith(":null"):
        return kind
    return f"{kind}, {node.value!r}"


class _Reader:
    """Recorre el árbol de un archivo y apunta lo que está mal, sin parar en lo primero."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.faults: list[tuple[int, str]] = []

    def fault(self, node: yaml.Node | int, text: str) -> None:
        line = node if isinstance(node, int) else node.start_mark.line + 1
        self.faults.append((line, text))

    def stop(self) -> None:
        if self.faults:
            raise ActivityError("\n".join(f"{self.name}, línea {line}: {text}" for line, text in sorted(self.faults)))

    def fields(self, node: yaml.Node, what: str, needed: Sequence[str], optional: Sequence[str] = ()) -> dict | None:
        """Los campos de un bloque, o None si falta alguno o no es un bloque."""
        if not isinstance(node, yaml.MappingNode):
            self.fault(node, f"{what}: se esperaban los campos {_names(needed)}; hay {_found(node)}.")
            return None
        found: dict[str, yaml.Node] = {}
        for key, value in node.value:
            if key.value in found:
                self.fault(key, f"{what}: «{key.value}» está dos veces.")
            elif key.value not in (*needed, *optional):
                self.fault(key, f"{what}: «{key.value}» sobra; se esperaba {_names((*needed, *optional))}.")
            found[key.value] = value
        missing = [name for name in needed if name not in found]
        for name in missing:
            self.fault(node, f"{what}: falta «{name}».")
        return None if missing else found

    def text(self, node: yaml.Node, what: str) -> str:
        if not isinstance(node, yaml.ScalarNode) or not node.tag.endswith(":str"):
            hint = " Ponlo entre comillas." if isinstance(node, yaml.ScalarNode) and node.value else ""
            self.fault(node, f"{what}: se esperaba un texto; hay {_found(node)}.{hint}")
            return ""
        if not node.value.strip():
            self.fault(node, f"{what}: está vacío.")
        return node.value.strip()

    def whole(self, node: yaml.Node, what: str, below: int) -> int:
        """Una posición, de 0 a `below` − 1."""
        value = yaml.safe_load(node.value) if _is(node, "int") else None
        if value is None or not 0 <= value < below:
            self.fault(node, f"{what}: se esperaba una posición de 0 a {below - 1}; hay {_found(node)}.")
            return 0
        return value

    def number(self, node: yaml.Node, what: str) -> float:
        if _is(node, "int") or _is(node, "float"):
            return yaml.safe_load(node.value)
        self.fault(node, f"{what}: se esperaba un número, con punto decimal; hay {_found(node)}.")
        return 0.0

    def several(self, node: yaml.Node, what: str, least: int, most: int) -> list[yaml.Node]:
        """Los elementos de una lista de `least` a `most`."""
        if not isinstance(node, yaml.SequenceNode):
            self.fault(node, f"{what}: se esperaba una lista; hay {_found(node)}.")
            return []
        if not least <= len(node.value) <= most:
            self.fault(node, f"{what}: se esperaban de {least} a {most} elementos; hay {len(node.value)}.")
        return node.value

    def texts(self, node: yaml.Node, what: str, least: int, most: int) -> list[str]:
        """Textos distintos."""
        found: list[str] = []
        for part in self.several(node, what, least, most):
            text = self.text(part, f"{what}, el {len(found)}")
            if text and text in found:
                self.fault(part, f"{what}: «{text}» está repetido.")
            found.append(text)
        return found

    def blocks(
        self, node: yaml.Node, what: str, least: int, most: int, needed: Sequence[str], optional: Sequence[str] = ()
    ) -> list[dict[str, yaml.Node]]:
        parts = enumerate(self.several(node, what, least, most))
        found = [self.fields(part, f"{what}, el {i}", needed, optional) for i, part in parts]
        return [fields for fields in found if fields is not None]

    def distinct(self, nodes: Sequence[yaml.Node], what: str) -> list[str]:
        found: list[str] = []
        for node in nodes:
            text = self.text(node, what)
            if text and text in found:
                self.fault(node, f"{what}: «{text}» está repetido.")
            found.append(text)
        return found


def _is(node: yaml.Node, kind: str) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag.endswith(f":{kind}")


def _names(names: Sequence[str]) -> str:
    return ", ".join(f"«{name}»" for name in names)


def _flashcards(read: _Reader, f: dict) -> dict:
    cards = read.blocks(f["cards"], "cards", 2, 12, ("front", "back"))
    fronts = read.distinct([card["front"] for card in cards], "front")
    return {"cards": [(front, read.text(card["back"], "back")) for front, card in zip(fronts, cards, strict=True)]}


def _ordering(read: _Reader, f: dict) -> dict:
    steps = read.texts(f["steps"], "steps", 3, 14)
    rank = list(range(len(steps)))
    groups = read.several(f["loose"], "loose", 1, 5) if "loose" in f else []
    for group in groups:
        before = len(read.faults)
        places = [read.whole(place, "loose", len(steps)) for place in read.several(group, "loose", 2, len(steps))]
        if len(read.faults) > before:
            continue
        if places != list(range(places[0], places[0] + len(places)) if places else []):
            read.fault(group, f"loose: se esperaban pasos seguidos, como [4, 5]; hay {places}.")
        elif any(rank[place] != place for place in places):
            read.fault(group, f"loose: un paso de {places} ya está en otro grupo.")
        else:
            rank[places[0] : places[-1] + 1] = [places[0]] * len(places)
    return {"steps": steps, "rank": rank, "why": _why(read, f)}


def _sorting(read: _Reader, f: dict) -> dict:
    categories = read.texts(f["categories"], "categories", 2, 5)
    cards = read.blocks(f["cards"], "cards", 3, 12, ("text", "category"), ("why",))
    texts = read.distinct([card["text"] for card in cards], "text")
    places = [read.whole(card["category"], "category", len(categories)) for card in cards]
    for place, category in enumerate(categories):
        if place not in places:
            read.fault(f["categories"], f"categories: ninguna tarjeta va en «{category}».")
    whys = [_why(read, card) for card in cards]
    return {"categories": categories, "cards": list(zip(texts, places, whys, strict=True)), "why": _why(read, f)}


def _matching(read: _Reader, f: dict) -> dict:
    pairs = read.blocks(f["pairs"], "pairs", 3, 9, ("left", "right"))
    lefts = read.distinct([pair["left"] for pair in pairs], "left")
    extra = read.several(f["extra"], "extra", 1, 4) if "extra" in f else []
    rights = read.distinct([*(pair["right"] for pair in pairs), *extra], "right o extra")
    return {"lefts": lefts, "rights": rights, "why": _why(read, f)}


def _choice(read: _Reader, f: dict) -> dict:
    before = len(read.faults)
    options = read.blocks(f["options"], "options", 2, 6, ("text", "why"))
    texts = read.distinct([option["text"] for option in options], "text")
    whys = [read.text(option["why"], "why") for option in options]
    answer = read.whole(f["answer"], "answer", len(options)) if len(read.faults) == before else 0
    return {"options": list(zip(texts, whys, strict=True)), "answer": answer}


def _truefalse(read: _Reader, f: dict) -> dict:
    if not _is(f["answer"], "bool"):
        read.fault(f["answer"], f"answer: se esperaba `true` o `false`; hay {_found(f['answer'])}.")
    return {"answer": f["answer"].value in ("true", "True"), "why": _why(read, f)}


def _numeric(read: _Reader, f: dict) -> dict:
    answer = read.number(f["answer"], "answer")
    tolerance = read.number(f["tolerance"], "tolerance") if "tolerance" in f else 0
    if tolerance < 0:
        read.fault(f["tolerance"], f"tolerance: se esperaba un número positivo; hay {tolerance}.")
    mistakes = read.blocks(f["mistakes"], "mistakes", 1, 6, ("value", "why")) if "mistakes" in f else []
    values = [read.number(mistake["value"], "value") for mistake in mistakes]
    for value, mistake in zip(values, mistakes, strict=True):
        if abs(value - answer) <= tolerance:
            read.fault(mistake["value"], f"value: {value} se daría por bueno; no puede ser un error.")
    return {
        "answer": answer,
        "tolerance": tolerance,
        "unit": read.text(f["unit"], "unit") if "unit" in f else "",
        "mistakes": [(value, read.text(m["why"], "why")) for value, m in zip(values, mistakes, strict=True)],
        "why": _why(read, f),
    }


def _open(read: _Reader, f: dict) -> dict:
    return {"model": read.text(f["model"], "model"), "rubric": read.texts(f["rubric"], "rubric", 2, 8)}


def _why(read: _Reader, f: dict) -> str:
    return read.text(f["why"], "why") if "why" in f else ""


class _Kind(NamedTuple):
    read: Callable[[_Reader, dict], dict]
    needed: tuple[str, ...]
    optional: tuple[str, ...] = ()


_KINDS = {
    "flashcards": _Kind(_flashcards, ("cards",)),
    "ordering": _Kind(_ordering, ("steps", "why"), ("loose",)),
    "sorting": _Kind(_sorting, ("categories", "cards"), ("why",)),
    "matching": _Kind(_matching, ("pairs",), ("extra", "why")),
    "choice": _Kind(_choice, ("options", "answer")),
    "truefalse": _Kind(_truefalse, ("answer", "why")),
    "numeric": _Kind(_numeric, ("answer", "why"), ("tolerance", "unit", "mistakes")),
    "open": _Kind(_open, ("model", "rubric")),
}
_COMMON = ("id", "kind", "title", "prompt")


def parse(text: str, name: str) -> list[Item]:
    """Las preguntas de un archivo.

    Args:
        text: su contenido.
        name: cómo nombrarlo en los mensajes, por ejemplo «activities/04.yml».

    Raises:
        ActivityError: con cada fallo, su línea y lo que se esperaba.
    """
    read = _Reader(name)
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        read.fault(mark.line + 1 if mark else 1, f"no es YAML válido ({error.problem}). ¿Falta una comilla o un guion?")
        read.stop()
    if root is None:
        read.fault(1, "está vacío; se esperaba una lista de preguntas.")
        read.stop()
    items: list[Item] = []
    for node in read.several(root, "el archivo", 1, 30):
        item = _item(read, node)
        if item is not None:
            twin = next((other for other in items if other.id == item.id), None)
            if twin:
                read.fault(node, f"el id «{item.id}» ya es el de la pregunta de la línea {twin.line}.")
            items.append(item)
    read.stop()
    return items


def _item(read: _Reader, node: yaml.Node) -> Item | None:
    kinds = dict(node.value and [(key.value, value) for key, value in node.value]) if _is_map(node) else {}
    kind = getattr(kinds.get("kind"), "value", None)
    spec = _KINDS.get(kind) if isinstance(kind, str) else None
    if spec is None and "kind" in kinds:
        read.fault(kinds["kind"], f"kind: se esperaba uno de {_names(list(_KINDS))}; hay {_found(kinds['kind'])}.")
        return None
    if spec is None and kinds:
        read.fault(node, f"la pregunta: falta «kind», que es uno de {_names(list(_KINDS))}.")
        return None
    fields = read.fields(
        node, "la pregunta", (*_COMMON, *spec.needed) if spec else _COMMON, spec.optional if spec else ()
    )
    if fields is None or spec is None:
        return None
    id, _, title, prompt = (read.text(fields[name], name) for name in _COMMON)
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", id):
        read.fault(fields["id"], f"id: se esperaban minúsculas sin acento, cifras y guiones; hay {id!r}.")
    if len(title) > 60:
        read.fault(fields["title"], f"title: se esperaban 60 letras como mucho; hay {len(title)}.")
    return Item(id, kind, title, prompt, spec.read(read, fields), node.start_mark.line + 1)


def _is_map(node: yaml.Node) -> bool:
    return isinstance(node, yaml.MappingNode)


def chapters(folder: Path = FOLDER) -> list[str]:
    """Los capítulos que tienen actividades: «00», «01»…"""
    return sorted(path.stem for path in folder.glob("*.yml"))


def load(chapter: str, folder: Path = FOLDER) -> list[Item]:
    """Las preguntas de un capítulo.

    Args:
        chapter: «04».
        folder: la carpeta de los archivos.

    Raises:
        ActivityError: si el archivo tiene fallos; el mensaje dice la línea de cada uno.
        ValueError: si ese capítulo no tiene actividades.
    """
    known = chapters(folder)
    if not isinstance(chapter, str) or chapter not in known:
        digits = re.sub(r"\.0$|\D", "", str(chapter))
        meant = digits.lstrip("0").zfill(2) if digits else ""
        hint = f" ¿Querías decir «{meant}»? El capítulo se escribe con dos cifras, entre comillas." * (meant in known)
        raise ValueError(f"No hay actividades del capítulo {chapter!r}.{hint} Las que hay: {_names(known)}.")
    return parse((folder / f"{chapter}.yml").read_text("utf8"), f"{folder.name}/{chapter}.yml")


# --- Escribir el HTML --------------------------------------------------------------------------------------------


def markup(text: str) -> str:
    """Un texto con código, negritas, cursivas y exponentes; lo demás se escapa."""
    parts = re.split(r"`([^`]+)`", text)
    return "".join(
        f"<code>{html.escape(part)}</code>" if i % 2 else _emphasis(html.escape(part)) for i, part in enumerate(parts)
    )


def _emphasis(text: str) -> str:
    text = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", text)
    text = re.sub(r"(?<!\w)\*(\S(?:.*?\S)?)\*(?!\w)", r"<em>\1</em>", text)
    return re.sub(r"\b(W)(_i)?\^([QKVO])\b", lambda m: f"W{'<sub>i</sub>' if m[2] else ''}<sup>{m[3]}</sup>", text)


def _paragraphs(text: str) -> str:
    blocks = [" ".join(block.split()) for block in re.split(r"\n[ \t]*\n", text) if block.strip()]
    return "".join(f"<p>{markup(block)}</p>" for block in blocks)


def _because(data: dict) -> str:
    """La explicación, que también sale al acertar."""
    return f'<div class="mc-because">{_paragraphs(data["why"])}</div>' if data["why"] else ""


def _list(parts: Sequence[str], tag: str = "ul", extra: str = "") -> str:
    return f"<{tag}{extra}>" + "".join(f"<li>{part}</li>" for part in parts) + f"</{tag}>"


def _shuffled(size: int, seed: str) -> list[int]:
    """Un orden al azar, siempre el mismo para la misma pregunta, y nunca el de partida."""
    order = list(range(size))
    source = random.Random(seed)
    while order == sorted(order):
        source.shuffle(order)
    return order


def _numbered(texts: Sequence[str], seed: str, kind: str = "mc-parts") -> str:
    """Las piezas barajadas; `data-k` dice cuál es cada una."""
    pieces = "".join(f'<li data-k="{k}">{markup(texts[k])}</li>' for k in _shuffled(len(texts), seed))
    return f'<ul class="{kind}">{pieces}</ul>'


def _number(value: float) -> str:
    """Con coma y, desde diez mil, en grupos de tres."""
    whole, _, decimals = f"{value:.15g}".partition(".")
    grouped = f"{int(whole):,}".replace(",", "\u202f") if abs(value) >= 10_000 else whole
    return (grouped + ("," + decimals if decimals else "")).replace("-", "−")


def _html_flashcards(data: dict, seed: str) -> tuple[str, str]:
    cards = [
        f"<details><summary>{markup(front)}</summary><div>{_paragraphs(back)}</div></details>"
        for front, back in data["cards"]
    ]
    return f'<div class="mc-cards">{"".join(cards)}</div>', ""


def _html_ordering(data: dict, seed: str) -> tuple[str, str]:
    return _numbered(data["steps"], seed), _list(map(markup, data["steps"]), "ol") + _because(data)


def _html_sorting(data: dict, seed: str) -> tuple[str, str]:
    cards = _numbered([text for text, _, _ in data["cards"]], seed)
    places = _list(map(markup, data["categories"]), extra=' class="mc-names"')
    answer = ""
    for place, category in enumerate(data["categories"]):
        own = [
            f"{markup(text)}{f'. <span>{markup(why)}</span>' if why else ''}"
            for text, where, why in data["cards"]
            if where == place
        ]
        answer += f"<p><strong>{markup(category)}</strong></p>{_list(own)}"
    return f"{places}{cards}", answer + _because(data)


def _html_matching(data: dict, seed: str) -> tuple[str, str]:
    lefts, rights = data["lefts"], data["rights"]
    pairs = [f"{markup(left)} <strong>→</strong> {markup(right)}" for left, right in zip(lefts, rights, strict=False)]
    names = _list(map(markup, lefts), extra=' class="mc-names"')
    return names + _numbered(rights, seed), _list(pairs) + _because(data)


def _html_choice(data: dict, seed: str) -> tuple[str, str]:
    options, answer = data["options"], data["answer"]
    texts = _list([markup(text) for text, _ in options], "ol", ' class="mc-options" type="a"')
    whys = [f"<strong>{'Sí' if i == answer else 'No'}.</strong> {markup(why)}" for i, (_, why) in enumerate(options)]
    return texts, _list(whys, "ol", ' type="a"')


def _html_truefalse(data: dict, seed: str) -> tuple[str, str]:
    word = "Verdadero" if data["answer"] else "Falso"
    options = _list(["Verdadero", "Falso"], "ol", ' class="mc-options" type="a"')
    return options, f"<p><strong>{word}.</strong></p>{_because(data)}"


def _html_numeric(data: dict, seed: str) -> tuple[str, str]:
    unit = f" {markup(data['unit'])}" if data["unit"] else ""
    about = "≈ " if data["tolerance"] else ""
    slips = [
        f'<li data-value="{value!r}">Si te sale {_number(value)}: <span>{markup(why)}</span></li>'
        for value, why in data["mistakes"]
    ]
    slips = f'<ul class="mc-slips">{"".join(slips)}</ul>' if slips else ""
    return "", f"<p><strong>{about}{_number(data['answer'])}{unit}.</strong></p>{_because(data)}{slips}"


def _html_open(data: dict, seed: str) -> tuple[str, str]:
    rubric = _list(map(markup, data["rubric"]), extra=' class="mc-rubric"')
    return "", f"{_paragraphs(data['model'])}<p><strong>Qué mirar en la tuya</strong></p>{rubric}"


_HTML: dict[str, Callable[[dict, str], tuple[str, str]]] = {
    "flashcards": _html_flashcards,
    "ordering": _html_ordering,
    "sorting": _html_sorting,
    "matching": _html_matching,
    "choice": _html_choice,
    "truefalse": _html_truefalse,
    "numeric": _html_numeric,
    "open": _html_open,
}


def _key(item: Item) -> dict:
    """Lo que hace falta para corregir, además de lo que ya está en el HTML."""
    data = item.data
    if item.kind == "ordering":
        return {"rank": data["rank"]}
    if item.kind == "sorting":
        return {"places": [place for _, place, _ in data["cards"]]}
    if item.kind == "matching":
        pairs = len(data["lefts"])
        return {"places": [k if k < pairs else -1 for k in range(len(data["rights"]))]}
    if item.kind == "choice":
        return {"answer": data["answer"]}
    if item.kind == "truefalse":
        return {"answer": 0 if data["answer"] else 1}
    if item.kind == "numeric":
        return {"answer": data["answer"], "tolerance": data["tolerance"], "unit": data["unit"]}
    return {}


def _version(item: Item) -> str:
    """Cambia si lo respondido antes ya no se puede leer igual; corregir una explicación no la cambia."""
    data = item.data
    kept = {
        "flashcards": lambda: [front for front, _ in data["cards"]],
        "ordering": lambda: data["steps"],
        "sorting": lambda: [data["categories"], [text for text, _, _ in data["cards"]]],
        "matching": lambda: [data["lefts"], data["rights"]],
        "choice": lambda: [text for text, _ in data["options"]],
        "open": lambda: len(data["rubric"]),
    }.get(item.kind, lambda: 0)()
    return hashlib.sha256(json.dumps([item.kind, kept]).encode()).hexdigest()[:8]


def item_html(chapter: str, item: Item, number: int, name: str) -> str:
    """Una pregunta, tal como se ve sin JavaScript.

    Args:
        chapter: «04».
        item: la pregunta.
        number: su número en la actividad, desde 1.
        name: id del bloque, único en la página.
    """
    body, answer = _HTML[item.kind](item.data, f"{chapter}-{item.id}")
    folded = f'<details class="mc-answer"><summary>Ver la respuesta</summary>{answer}</details>' if answer else ""
    key = html.escape(json.dumps(_key(item), ensure_ascii=False))
    return (
        f'<div class="mc-item" role="group" aria-labelledby="{name}-{number}" data-id="{chapter}-{item.id}" '
        f'data-kind="{item.kind}" data-version="{_version(item)}" data-key="{key}">'
        f'<p class="mc-item-title" id="{name}-{number}"><span class="mc-number">{number}</span> '
        f'<span class="mc-kind">{LABELS[item.kind]}</span> <strong>{markup(item.title)}</strong></p>'
        f'<div class="mc-prompt">{_paragraphs(item.prompt)}</div>{body}{folded}</div>'
    )


def activity_html(chapter: str, name: str, style: str = "", script: str = "", folder: Path = FOLDER) -> str:
    """La actividad de un capítulo: `<mc-activity>` con sus preguntas, y detrás su guion si ha de llevarlo.

    Args:
        chapter: «04».
        name: id del bloque, único en la página.
        style: `<style>`, si la página no lo trae.
        script: `<script>`, si la página no lo trae.
        folder: la carpeta de los archivos.

    Raises:
        ActivityError: si el archivo tiene fallos.
        ValueError: si ese capítulo no tiene actividades.
    """
    items = load(chapter, folder)
    written = "".join(item_html(chapter, item, number, name) for number, item in enumerate(items, 1))
    return (
        f'<mc-activity class="mc-activity mc-fig" id="{name}" data-chapter="{chapter}">{style}'
        f'<p class="mc-noscript">Sin JavaScript, las preguntas se responden en papel; la respuesta está plegada debajo '
        f"de cada una.</p>{written}</mc-activity>{script}"
    )


def progress_html(chapters: Sequence[dict]) -> str:
    """«Mi progreso»: `<mc-progress>`, con las preguntas que hay en el libro.

    Args:
        chapters: los de `catalogue`, con `title`, `href` y `predictions` (cuántas «predice» lleva el capítulo).
    """
    data = json.dumps(list(chapters), ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    return (
        '<mc-progress class="mc-activity mc-fig"><p>Aquí se reúne lo que has respondido, y hace falta JavaScript: '
        "las respuestas solo están en tu dispositivo.</p>"
        f'<script type="application/json">{data}</script></mc-progress>'
    )


def catalogue(folder: Path = FOLDER) -> list[dict]:
    """Las preguntas de todos los capítulos, para «Mi progreso»: capítulo, y de cada una id, clase y título."""
    return [
        {
            "chapter": chapter,
            "items": [
                {"id": f"{chapter}-{item.id}", "kind": LABELS[item.kind], "title": item.title}
                for item in load(chapter, folder)
            ],
        }
        for chapter in chapters(folder)
    ]
