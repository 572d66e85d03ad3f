"""Los términos del glosario se enlazan donde un capítulo, o sus ejercicios, los usa por primera vez.

`book/glosario` es la única copia de cada término. De su nombre salen las formas con que se reconoce en la prosa: sin lo
que va entre paréntesis, con sus siglas, en singular y en plural, y en inglés. Lo que de ahí no sale se escribe en el
glosario, en un comentario encima del término:

    .. formas: poda, podar                  también se escribe así
    .. solo: vista traspuesta               se escribe así, y su nombre solo cuenta en los «Conceptos clave»
    .. salvo: valor absoluto                con estas palabras no es el término

Gana siempre la forma más larga («atención multicabeza» antes que «atención»), y lo que va entre comillas se cita, no se
usa. Un párrafo no lleva más de cinco enlaces. Nada se enlaza en títulos, código, fórmulas, otros enlaces ni tablas,
salvo la primera columna de los «Conceptos clave».
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.errors import ExtensionError

from libro.search import readable_math

PAGE = "book/glosario"
LINKED = ("notebooks/", "exercises/")
KEY_CONCEPTS = "Conceptos clave"
MARK = "libro-termino"
MOST = 5  # enlaces en un mismo párrafo: los términos que sobran esperan a su uso siguiente

# Desde estas palabras, un nombre ya no cambia en plural: «cabezas de inducción».
INVARIABLE = {"de", "del", "por", "en", "a", "y", "sin", "con"}
COMMENT = re.compile(r"^\.\. (?P<kind>formas|solo|salvo): (?P<forms>.+)$")
QUOTED = "«[^»]*»"
# Lo que no es texto corrido. Las salidas de los cuadernos van en una celda.
OUTSIDE = (
    nodes.title,
    nodes.rubric,
    nodes.reference,
    nodes.literal,
    nodes.FixedTextElement,
    nodes.math,
    nodes.figure,
    nodes.comment,
    nodes.system_message,
    nodes.table,
    addnodes.pending_xref,
    addnodes.glossary,
)


class Entry(NamedTuple):
    """Un término del glosario.

    Attributes:
        anchor: dónde está en el glosario.
        name: como se lee allí.
        hint: su definición, en una frase.
        names: formas de su nombre, que cuentan en los «Conceptos clave».
        forms: formas con que se reconoce en la prosa.
        excluded: palabras con que no es el término.
    """

    anchor: str
    name: str
    hint: str
    names: tuple[str, ...]
    forms: tuple[str, ...]
    excluded: tuple[str, ...]


def inflected(word: str) -> str:
    """Patrón de una palabra en singular y en plural: «proyección» y «proyecciones», «FLOP» y «FLOPs»."""
    for singular, plural in (("ión", "iones"), ("z", "ces"), ("ón", "ones")):
        for ending in (singular, plural):
            if word.endswith(ending):
                return f"{re.escape(word.removesuffix(ending))}(?:{singular}|{plural})"
    word = word if word.endswith("ss") else word.removesuffix("s")
    return re.escape(word) + ("s?" if word[-1:].lower() in "aeiouáéíóú" else "(?:e?s)?")


def pattern(form: str) -> str:
    """Patrón de una forma: cambia de número hasta la primera preposición, y un espacio puede ser un salto de línea."""
    words, fixed = [], False
    for word in form.split():
        fixed = fixed or word in INVARIABLE
        words.append(re.escape(word) if fixed else inflected(word))
    return r"\s+".join(words)


def spellings(name: str) -> tuple[str, ...]:
    """Formas que salen de un nombre: sin el paréntesis, con él si sigue la frase, y las siglas que lleve dentro."""
    base, _, inside = name.partition(" (")
    inside = inside.removesuffix(")")
    found = [base]
    if inside.startswith("de "):
        found.append(f"{base} {inside}")
    elif re.fullmatch(r"[A-Z]{2,}", inside):
        found.append(inside)
    return tuple(found)


def annotations(markdown: str) -> dict[str, dict[str, tuple[str, ...]]]:
    """Lo que dicen los comentarios del glosario: {línea del término: {«formas», «solo» o «salvo»: formas}}."""
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    pending: dict[str, tuple[str, ...]] = {}
    for line in markdown.splitlines():
        if comment := COMMENT.match(line):
            pending[comment["kind"]] = tuple(form.strip() for form in comment["forms"].split(","))
        elif pending:
            found[line], pending = pending, {}
    return found


def _hint(definition: nodes.definition) -> tuple[tuple[str, ...], str]:
    """Los nombres en inglés, que abren la definición en cursiva, y su primera frase."""
    paragraph = next(definition.findall(nodes.paragraph))
    children = list(paragraph.children)
    english: tuple[str, ...] = ()
    if isinstance(children[0], nodes.emphasis):
        names = children.pop(0).astext().rstrip(".").split(",")
        english = tuple(form for name in names for form in spellings(name.strip()))
    text = ""
    for child in children:
        if isinstance(child, nodes.reference | addnodes.pending_xref):
            break
        text += readable_math(child.astext()) if isinstance(child, nodes.math) else child.astext()
    text = re.sub(r"\s+", " ", text).strip()
    return english, re.split(r"(?<=\.) (?=[A-ZÁÉÍÓÚ])", text)[0]


def entries(doctree: nodes.document, markdown: str) -> tuple[Entry, ...]:
    """Los términos del glosario, en su orden.

    Args:
        doctree: la página del glosario.
        markdown: su texto, con los comentarios que la página no enseña.
    """
    notes, found = annotations(markdown), []
    for item in doctree.findall(nodes.definition_list_item):
        english, hint = _hint(next(item.findall(nodes.definition)))
        for term in item.findall(nodes.term):
            note = notes.get(term.rawsource, {})
            name = re.sub(r"\s+", " ", term.astext())
            names = (*spellings(name), *english, *note.get("formas", ()))
            found.append(Entry(term["ids"][0], name, hint, names, note.get("solo") or names, note.get("salvo", ())))
    return tuple(found)


@cache
def matcher(glossary: tuple[Entry, ...], concepts: bool = False) -> tuple[re.Pattern, tuple[Entry | None, ...]]:
    """El patrón que reconoce todos los términos, y el término de cada uno de sus grupos.

    Args:
        glossary: los términos.
        concepts: si es para los «Conceptos clave», donde cuenta también el nombre de un término que solo vale en parte.

    Raises:
        ExtensionError: si una forma es de dos términos.
    """
    owners: dict[str, Entry | None] = {}
    for entry in glossary:
        for form in (*entry.forms, *(entry.names if concepts else ())):
            other = owners.setdefault(form.lower(), entry)
            if other is not entry:
                raise ExtensionError(
                    f"book/glosario.md: «{form}» es a la vez de «{other.name}» y de «{entry.name}». "
                    "Quítala de uno de los dos (comentarios «formas» y «solo»)."
                )
    excluded = {form.lower() for entry in glossary for form in entry.excluded} - owners.keys()
    owners |= dict.fromkeys(() if concepts else excluded)
    longest = sorted(owners, key=lambda form: (-len(form), form))
    choices = "|".join(f"({pattern(form)})" for form in longest)
    return re.compile(rf"{QUOTED}|(?<![\w-])(?:{choices})(?![\w-])", re.IGNORECASE), tuple(owners[f] for f in longest)


def prose(doctree: nodes.document) -> list[tuple[nodes.Text, bool]]:
    """Los textos de una página que se pueden enlazar: en orden, los que están a la vista y después los plegados.

    Returns:
        Cada texto, y si es de los «Conceptos clave».
    """
    seen: list[tuple[nodes.Text, bool]] = []
    folded: list[tuple[nodes.Text, bool]] = []
    depth = 0

    def walk(node: nodes.Node, in_concepts: bool) -> None:
        nonlocal depth
        if isinstance(node, nodes.Text):
            (folded if depth else seen).append((node, in_concepts))
        elif isinstance(node, nodes.raw):
            html = node.astext()
            depth += html.count("<details") - html.count("</details")
        elif isinstance(node, nodes.table) and _title(node.parent) == KEY_CONCEPTS:
            for body in node.findall(nodes.tbody):
                for row in body.findall(nodes.row):
                    for child in row.children[0].children:
                        walk(child, True)
        elif not isinstance(node, OUTSIDE) and "cell" not in node.get("classes", ()):
            for child in node.children:
                walk(child, in_concepts)

    walk(doctree, False)
    return seen + folded


def _paragraph(node: nodes.Node) -> nodes.Node:
    while isinstance(node.parent, nodes.Inline | nodes.paragraph):
        node = node.parent
    return node


def _title(node: nodes.Node) -> str:
    return node.children[0].astext() if isinstance(node, nodes.section) else ""


def uses(text: str, glossary: tuple[Entry, ...], concepts: bool = False) -> Iterator[tuple[Entry, int, int]]:
    """Los términos que usa un texto, con dónde empieza y dónde acaba cada uno, también los que se repiten."""
    found, owners = matcher(glossary, concepts)
    for match in found.finditer(text):
        if match.lastindex and (entry := owners[match.lastindex - 1]):
            yield entry, *match.span()


def link_terms(doctree: nodes.document, glossary: tuple[Entry, ...], address: str) -> list[str]:
    """Enlaza el primer uso de cada término: a la vista o, si solo se usa en lo plegado, allí.

    Args:
        doctree: la página; se modifica.
        glossary: los términos.
        address: dirección relativa del glosario.

    Returns:
        Los destinos enlazados, en orden.
    """
    linked: list[str] = []
    crowd: Counter[nodes.Element] = Counter()
    for node, in_concepts in prose(doctree):
        text, pieces, done, paragraph = str(node), [], 0, _paragraph(node)
        for entry, start, end in uses(text, glossary, in_concepts):
            if entry.anchor in linked or crowd[paragraph] == MOST:
                continue
            linked.append(entry.anchor)
            crowd[paragraph] += 1
            link = nodes.reference(
                "",
                text[start:end],
                internal=True,
                refuri=f"{address}#{entry.anchor}",
                reftitle=entry.hint,
                classes=[MARK],
            )
            pieces += [nodes.Text(text[done:start]), link]
            done = end
        if pieces:
            node.parent.replace(node, [*pieces, nodes.Text(text[done:])])
    return linked


def letters(doctree: nodes.document) -> nodes.paragraph:
    """Una fila con las iniciales de los términos, cada una con su enlace al primero que empieza por ella."""
    first: dict[str, str] = {}
    for term in doctree.findall(nodes.term):
        initial = unicodedata.normalize("NFD", term.astext())[0].upper()
        first.setdefault(initial, term["ids"][0])
    row = nodes.paragraph(classes=["libro-letras"])
    for initial in sorted(first):
        row += [nodes.reference("", initial, internal=True, refid=first[initial]), nodes.Text(" ")]
    return row


def _glossary(env: BuildEnvironment) -> tuple[Entry, ...]:
    return getattr(env, "libro_glossary", ())


def _collect(app: Sphinx, doctree: nodes.document) -> None:
    if app.env.docname == PAGE:
        app.env.libro_glossary = entries(doctree, Path(app.env.doc2path(PAGE)).read_text("utf-8"))


def _purge(app: Sphinx, env: BuildEnvironment, docname: str) -> None:
    if docname == PAGE:
        env.libro_glossary = ()


def _merge(app: Sphinx, env: BuildEnvironment, docnames: set[str], other: BuildEnvironment) -> None:
    if PAGE in docnames:
        env.libro_glossary = _glossary(other)


def _rewrite(app: Sphinx, env: BuildEnvironment) -> Iterable[str]:
    """Si cambia un término, se escriben otra vez los capítulos y los ejercicios: ninguno se lee ni se ejecuta."""
    matcher(_glossary(env))  # una forma de dos términos se dice antes de escribir nada
    before, env.libro_glossary_written = getattr(env, "libro_glossary_written", _glossary(env)), _glossary(env)
    return () if before == _glossary(env) else sorted(name for name in env.found_docs if name.startswith(LINKED))


def _link(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    if docname == PAGE and app.builder.format == "html":
        for glossary in list(doctree.findall(addnodes.glossary)):
            glossary.parent.insert(glossary.parent.index(glossary), letters(doctree))
    if docname.startswith(LINKED) and PAGE in app.env.found_docs and app.builder.format == "html":
        link_terms(doctree, _glossary(app.env), app.builder.get_relative_uri(docname, PAGE))


def setup(app: Sphinx) -> None:
    """Registra los enlaces al glosario, después de los de las citas."""
    app.connect("doctree-read", _collect)
    app.connect("env-purge-doc", _purge)
    app.connect("env-merge-info", _merge)
    app.connect("env-updated", _rewrite)
    app.connect("doctree-resolved", _link)
