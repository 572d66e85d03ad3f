"""El glosario en el libro construido: cada capítulo enlaza sus términos, una vez y solo en la prosa. Sin navegador."""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.browser.conftest import built_pages
from tests.browser.detectors import ENGLISH, QUOTED, lines
from tests.unit.minilibro import REPO

sys.path.insert(0, str(REPO / "book" / "_ext"))

from libro.glossary import MARK, MOST, Entry, annotations, matcher, spellings, uses

GLOSSARY = "book/glosario.html"
CHAPTERS = [p for p in built_pages() if p.startswith("notebooks/")] or ["(sin libro)"]
LINKING = [p for p in built_pages() if p.startswith(("notebooks/", "exercises/"))] or ["(sin libro)"]
# Dentro de esto no se enlaza ningún término; en una tabla, solo en la primera columna de los conceptos clave.
OUTSIDE = {"h1", "h2", "h3", "h4", "pre", "code", "figure", "figcaption", "nav", "header", "button", "label", "summary"}
VOID = {"area", "base", "br", "col", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}


class Reading(HTMLParser):
    """Los enlaces al glosario de una página, dónde está cada uno, y la primera columna de sus conceptos clave."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[tuple[str, str, str]] = []  # destino, texto y definición
        self.misplaced: list[str] = []
        self.crowd: dict[int, int] = {}  # párrafo → enlaces
        self.concepts: list[str] = []
        self._open: list[tuple[str, int]] = []
        self._concepts, self._column, self._count = 0, 0, 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag not in VOID:
            self._count += 1
            self._open.append((tag, self._count))
        if tag == "section" and given.get("id") == "conceptos-clave":
            self._concepts = len(self._open)
        elif tag == "tr":
            self._column = 0
        elif tag == "td":
            self._column += 1
            if self._concepts and self._column == 1:
                self.concepts.append("")
        elif tag == "a" and MARK in (given.get("class") or "").split():
            around = {name for name, _ in self._open[:-1]}
            first = self._concepts and self._column == 1
            if around & (OUTSIDE | {"a"}) or ("td" in around and not first) or "article" not in around:
                self.misplaced.append(f"{given['href']} dentro de {sorted(around)}")
            paragraph = next((place for name, place in reversed(self._open) if name in {"p", "li", "td"}), 0)
            self.crowd[paragraph] = self.crowd.get(paragraph, 0) + 1
            self.links.append((given["href"], "", given.get("title") or ""))

    def handle_endtag(self, tag: str) -> None:
        while self._open and tag not in VOID and tag in {name for name, _ in self._open}:
            if self._open.pop()[0] == tag:
                break
        if len(self._open) < self._concepts:
            self._concepts = 0

    def handle_data(self, data: str) -> None:
        inside = [name for name, _ in self._open]
        if self._concepts and self._column == 1 and "td" in inside:
            self.concepts[-1] += data
        if self.links and inside[-1:] == ["a"]:
            href, text, hint = self.links[-1]
            self.links[-1] = href, text + data, hint


def plain(html: str) -> str:
    """El texto de un trozo de HTML."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", html)).strip()


@pytest.fixture(scope="module")
def terms(book: Path) -> tuple[Entry, ...]:
    """Los términos, como se leen en la página del glosario, con las formas que su texto añade."""
    notes = annotations((REPO / "book" / "glosario.md").read_text("utf8"))
    notes = {re.sub(r"[*$^\\]", "", line): note for line, note in notes.items()}
    found = []
    for anchor, name, english in re.findall(
        r'<dt id="([^"]+)">(.*?)<a class="headerlink".*?<em>(.*?)\.</em>',
        (book / GLOSSARY).read_text("utf8"),
        re.DOTALL,
    ):
        note = notes.get(plain(name), {})
        forms = [form for one in english.split(",") for form in spellings(one.strip())]
        names = (*spellings(plain(name)), *forms, *note.get("formas", ()))
        found.append(Entry(anchor, plain(name), "", names, note.get("solo") or names, note.get("salvo", ())))
    return tuple(found)


def test_every_term_has_its_own_stable_anchor(terms: tuple[Entry, ...], book: Path) -> None:
    """El ancla de cada término sale de su nombre, y no se repite."""
    page = (book / GLOSSARY).read_text("utf8")
    assert len(terms) == page.count("<dt ") > 80
    anchors = [term.anchor for term in terms]
    assert len(set(anchors)) == len(anchors)
    assert [anchor for anchor in anchors if not re.fullmatch(r"term-[A-Za-z][\w-]*", anchor)] == []
    assert MARK not in page
    assert matcher(terms, concepts=True)


@pytest.mark.parametrize("page", LINKING)
def test_terms_are_linked_once_and_only_in_prose(page: str, book: Path, terms: tuple[Entry, ...]) -> None:
    """Cada término se enlaza una vez por página como mucho, en la prosa, con su ancla y su definición en español."""
    reading = Reading((book / page).read_text("utf8"))
    assert len(reading.links) >= 10, f"{page} enlaza {len(reading.links)} términos"
    targets = [href for href, *_ in reading.links]
    assert len(set(targets)) == len(targets), sorted(targets)
    assert not reading.misplaced, lines(reading.misplaced)
    assert max(reading.crowd.values()) <= MOST
    known = {f"../{GLOSSARY}#{term.anchor}" for term in terms}
    assert set(targets) <= known, set(targets) - known
    short = [
        hint for *_, hint in reading.links if len(hint) < 20 or "Capítulo" in hint or not hint.endswith((".", "]"))
    ]
    assert not short, lines(short)
    foreign = [hint for *_, hint in reading.links if ENGLISH.search(QUOTED.sub(" ", hint))]
    assert not foreign, lines(foreign)


@pytest.mark.parametrize("page", CHAPTERS)
def test_every_key_concept_is_in_the_glossary_and_linked(page: str, book: Path, terms: tuple[Entry, ...]) -> None:
    """Cada concepto clave de un capítulo tiene su entrada en el glosario, y el capítulo la enlaza."""
    reading = Reading((book / page).read_text("utf8"))
    assert len(reading.concepts) >= 6, f"{page}: {len(reading.concepts)} conceptos clave"
    linked = {href.partition("#")[2] for href, *_ in reading.links}
    faults = []
    for cell in reading.concepts:
        defined = {term.anchor for term, *_ in uses(cell, terms, concepts=True)}
        if not defined:
            faults.append(f"«{plain(cell)}» no está en el glosario")
        elif not defined <= linked:
            faults.append(f"«{plain(cell)}» no está enlazado: {sorted(defined - linked)}")
    assert not faults, f"{page}:{lines(faults)}"


def test_reading_sees_what_is_misplaced_or_repeated() -> None:
    """Un enlace en un título, en el código o en otra tabla se ve; en la prosa y en los conceptos clave, está bien."""
    link = f'<a class="{MARK} reference internal" href="g#t" title="Algo.">token</a>'
    good = f"<p>{link}</p><section id='conceptos-clave'><table><tr><td>{link} x</td><td>y</td></tr></table></section>"
    reading = Reading(f"<article>{good}</article>")
    assert not reading.misplaced
    assert reading.concepts == ["token x"]
    assert [text for _, text, _ in reading.links] == ["token", "token"]
    for bad in (f"<h2>{link}</h2>", f"<pre>{link}</pre>", f"<table><tr><td>{link}</td></tr></table>"):
        assert Reading(f"<article>{good}{bad}</article>").misplaced, bad
    assert Reading(f"<nav>{link}</nav>").misplaced
    second = good.replace("<td>y</td>", f"<td>{link}</td>")
    assert Reading(f"<article>{second}</article>").misplaced
