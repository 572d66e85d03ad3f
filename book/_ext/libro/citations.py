"""Las citas del texto («Vaswani et al. (2017)») llevan a la bibliografía.

`book/bibliografia` es la única copia de cada referencia: un párrafo que empieza por su etiqueta en negrita, con su
destino de enlaces delante. Aquí se reconocen las citas de las demás páginas y se enlazan; la que no está en la
bibliografía es un aviso, que con `-W` detiene la construcción.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging

PAGE = "book/bibliografia"
LOGGER = logging.getLogger(__name__)

YEAR = r"(?:19\d\d|20[0-3]\d)(?![\d.]\d)"
NAME = r"[A-ZÁÉÍÓÚÑÜ][\w’'-]+(?: Team)?"
# «Jain y Wallace (2019)», «Michel et al., 2019, §4.1)», «Voita y sus coautores (2019, §5)», «Wilson (1927)».
CITATION = re.compile(
    rf"(?P<authors>{NAME}(?:(?:, {NAME})*,? (?:y|e) {NAME})?(?: et al\.| y (?:sus coautores|los suyos|otros))?)"
    rf"(?: \((?P<inside>{YEAR})|, (?P<after>{YEAR})(?=[),;]))"
)
ENTRY = re.compile(
    r"^\((?P<anchor>[\w-]+)\)=\n\*\*(?P<label>.+?) \((?P<years>[^)]+)\)\.\*\* (?P<text>.+)$", re.MULTILINE
)


@dataclass(frozen=True)
class Reference:
    """Una obra de la bibliografía."""

    anchor: str
    label: str
    years: tuple[str, ...]
    text: str

    @property
    def names(self) -> tuple[str, str]:
        """Por qué nombres se la cita: su primer autor, o lo que su título dice antes de los dos puntos."""
        title = self.text.partition("«")[2].partition("»")[0]
        return re.match(NAME, self.label)[0], title.partition(":")[0]


@dataclass(frozen=True)
class Citation:
    """Una cita del texto: quiénes, cuándo, y dónde está lo que se enlaza."""

    authors: str
    year: str
    start: int
    end: int

    @property
    def names(self) -> list[str]:
        """Los apellidos que nombra."""
        return re.findall(NAME, self.authors)


def references(markdown: str) -> list[Reference]:
    """Las obras de la bibliografía, en su orden.

    Args:
        markdown: texto de `book/bibliografia.md`.
    """
    return [
        Reference(found["anchor"], found["label"], tuple(re.findall(YEAR, found["years"])), found["text"])
        for found in ENTRY.finditer(markdown)
    ]


def citations(text: str) -> Iterator[Citation]:
    """Las citas de un texto, en orden."""
    for found in CITATION.finditer(text):
        yield Citation(found["authors"], found["inside"] or found["after"], *found.span("authors"))


def resolve(citation: Citation, works: list[Reference]) -> Reference | None:
    """La obra citada: coinciden el primer apellido y el año, y la obra nombra a todos los autores de la cita."""
    first, *others = citation.names
    for work in works:
        if first in work.names and citation.year in work.years and all(name in work.text for name in others):
            return work
    return None


def _linkable(node: nodes.Text) -> bool:
    parent = node.parent
    while parent is not None:
        if isinstance(
            parent, nodes.reference | nodes.literal | nodes.literal_block | nodes.title | nodes.raw | nodes.math
        ):
            return False
        parent = parent.parent
    return True


def link_citations(doctree: nodes.document, works: list[Reference], address: str) -> list[Citation]:
    """Enlaza las citas de una página.

    Args:
        doctree: la página; se modifica.
        works: la bibliografía.
        address: dirección relativa de la bibliografía.

    Returns:
        Las citas que no están en ella.
    """
    missing = []
    for node in list(doctree.findall(nodes.Text)):
        text, pieces, done = str(node), [], 0
        for citation in citations(text) if _linkable(node) else ():
            work = resolve(citation, works)
            if work is None:
                missing.append(citation)
                continue
            link = nodes.reference("", citation.authors, internal=True, refuri=f"{address}#{work.anchor}")
            pieces += [nodes.Text(text[done : citation.start]), link]
            done = citation.end
        if pieces:
            node.parent.replace(node, [*pieces, nodes.Text(text[done:])])
    return missing


def _link(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    if docname == PAGE or PAGE not in app.env.found_docs or app.builder.format != "html":
        return
    works = references(Path(app.env.doc2path(PAGE)).read_text("utf-8"))
    for citation in link_citations(doctree, works, app.builder.get_relative_uri(docname, PAGE)):
        LOGGER.warning(
            "«%s (%s)» no está en la bibliografía (book/bibliografia.md).",
            citation.authors,
            citation.year,
            location=docname,
        )


def _rewrite(app: Sphinx, env: BuildEnvironment) -> Iterable[str]:
    """Si cambian las obras o sus destinos, se escriben otra vez todas las páginas: ninguna lee de nuevo."""
    works = references(Path(env.doc2path(PAGE)).read_text("utf-8")) if PAGE in env.found_docs else []
    current = [(work.label, work.years, work.anchor) for work in works]
    before, env.libro_works = getattr(env, "libro_works", current), current
    return () if before == current else sorted(env.found_docs)


def setup(app: Sphinx) -> None:
    """Registra los enlaces de las citas."""
    app.connect("env-updated", _rewrite)
    app.connect("doctree-resolved", _link)
