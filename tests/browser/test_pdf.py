"""El libro en PDF: entero, numerado, con saltos que llevan a donde dicen y las respuestas desplegadas."""

import io
import re
import sys
from pathlib import Path

import pytest
import yaml
from bs4 import BeautifulSoup
from pypdf import PdfReader
from pypdf.generic import Destination

from tests.browser.conftest import ROOT

sys.path.insert(0, str(ROOT / "book"))

import pdf

TOC = (ROOT / "_toc.yml").read_text("utf-8")


@pytest.fixture(scope="module")
def document(book: Path) -> str:
    """El libro construido, en un solo documento."""
    return pdf.assemble(book, TOC, title="Atención multicabeza", version="0.0.0")


@pytest.fixture(scope="module")
def tree(document: str) -> BeautifulSoup:
    return BeautifulSoup(document, "html.parser")


@pytest.fixture(scope="module")
def printed(browser, book: Path, document: str) -> PdfReader:
    """El documento impreso."""
    return PdfReader(io.BytesIO(pdf.print_document(browser, book, document)))


@pytest.fixture(scope="module")
def bookmarks(printed: PdfReader) -> list[Destination]:
    """Los marcadores del PDF, de todos los niveles."""

    def walk(items):
        for item in items:
            yield from walk(item) if isinstance(item, list) else [item]

    return list(walk(printed.outline))


def plain(text: str) -> str:
    """Solo letras y cifras: el PDF parte las líneas y junta letras donde quiere."""
    return re.sub(r"\W", "", text.replace("ﬁ", "fi").replace("ﬂ", "fl"))


def test_every_page_in_order(tree):
    """Todas las páginas del índice, en su orden, cada una con su título."""
    names = [entry.name for entry in pdf.contents(TOC)]
    listed = re.findall(r"(?:file|root): (\S+)", TOC)
    assert len(listed) > 25
    assert names == [name for name in listed if name not in pdf.LEFT_OUT]
    assert [article["id"] for article in tree.select("article.bd-article")] == [
        pdf.Entry(name).anchor for name in names
    ]
    assert all(pdf.title_of(article) for article in tree.select("article.bd-article"))


def test_ids_and_links(tree):
    """Ningún identificador se repite, y todo salto interno lleva a uno que existe; lo demás sale a la red o no sale."""
    ids = [tag["id"] for tag in tree.find_all(id=True)]
    assert len(ids) == len(set(ids))
    inside = [link["href"] for link in tree.select("a[href]") if link["href"].startswith("#")]
    assert len(inside) > 300
    assert not [target for target in inside if target[1:] not in set(ids)]
    others = [link["href"] for link in tree.select("a[href]") if not link["href"].startswith("#")]
    assert not [link for link in others if not re.match(r"https?://|mailto:", link)]


def test_nothing_moves_and_nothing_is_folded(tree):
    """En papel no hay marcos, ni botones de la página, ni pliegues cerrados."""
    assert not tree.select("article iframe, article script, .libro-cuaderno, .libro-comentarios, .headerlink")
    assert len(tree.select("details")) > 100
    assert not tree.select("details:not([open])")


def test_summary_numbers_are_right(tree, printed):
    """Cada línea del índice dice la página en la que está su título, y el salto lleva a ella."""
    places = {name.lstrip("/"): place for name, place in printed.named_destinations.items()}
    lines = tree.select(".indice li:not(.parte)")
    assert len(lines) > 80
    first = "".join(page.extract_text() for page in printed.pages[1:5])
    for line in lines:
        anchor, title = line.a["href"][1:], line.a.get_text()
        number = printed.get_destination_page_number(places[anchor])
        assert plain(title) in plain(printed.pages[number].extract_text()), title
        assert plain(f"{title}{number + 1}") in plain(first), title


def test_bookmarks_name_every_page(tree, bookmarks):
    """Los marcadores del PDF llevan los títulos de todas las páginas del libro."""
    found = {mark.title for mark in bookmarks}
    titles_wanted = [pdf.title_of(article) for article in tree.select("article.bd-article")]
    assert [title for title in titles_wanted if title not in found] == []


def test_no_page_is_blank(printed):
    """Todas las páginas son A4 y ninguna sale en blanco: en cada una se escribe algo más que su número."""
    blank = []
    for number, page in enumerate(printed.pages, start=1):
        assert [round(float(side) / 72 * 25.4) for side in page.mediabox[2:]] == [210, 297]
        written = re.findall(rb"T[jJ]|\bDo\b", page.get_contents().get_data())
        if len(written) < 3:
            blank.append(number)
    assert not blank


def lowest(page) -> str:
    """Lo último que se lee en una página, por encima de su número."""
    rows: dict[int, str] = {}

    def note(text, cm, tm, *_):
        height = round(tm[4] * cm[1] + tm[5] * cm[3] + cm[5])
        rows[height] = rows.get(height, "") + text

    page.extract_text(visitor_text=note)
    return next(rows[height] for height in sorted(rows) if plain(rows[height]) and not rows[height].strip().isdigit())


def test_no_title_is_left_at_the_foot_of_a_page(bookmarks, printed):
    """Después de un título, y de la dificultad que lleva debajo, siempre viene algo en la misma página."""
    near_the_foot = {printed.get_destination_page_number(mark): mark.title for mark in bookmarks if mark.top < 170}
    assert len(near_the_foot) > 10
    last = {title: lowest(printed.pages[number]).strip() for number, title in near_the_foot.items()}
    left = [title for title, row in last.items() if plain(row) == plain(title) or row.startswith("Dificultad ")]
    assert not left


def test_verdict_signs_are_drawn(printed):
    """El ✓, el ✗ y el ⏳ de las comprobaciones viajan con su letra: sin ella son un recuadro vacío."""
    fonts = [font.get_object() for page in printed.pages for font in page["/Resources"].get("/Font", {}).values()]
    assert any("FontAwesome" in font.get("/BaseFont", "") for font in fonts)


def test_document_is_tagged_in_spanish(printed):
    """Va etiquetado, en español y con su título; cada figura conserva su texto alternativo."""
    root = printed.trailer["/Root"]
    assert root["/MarkInfo"]["/Marked"]
    assert root["/Lang"] == "es"
    assert printed.metadata.title == "Atención multicabeza"


def test_wide_things_fit_and_formulas_are_drawn(browser, book, document):
    """A lo ancho del papel nada se sale de la columna, y todas las fórmulas están compuestas y sin errores."""
    with pdf.served(book) as address:
        context = browser.new_context(viewport={"width": pdf.WIDTH, "height": 1000})
        page = context.new_page()
        page.set_default_timeout(300_000)
        page.route(
            f"**/{pdf.NAME}", lambda route: route.fulfill(body=document, content_type="text/html; charset=utf-8")
        )
        page.emulate_media(media="print")
        page.goto(address + pdf.NAME)
        page.evaluate(pdf.PREPARE)
        out, formulas, drawn, wrong = page.evaluate(
            """() => {
              const out = [...document.querySelectorAll("article :is(p, pre, td, img, svg, mjx-container, figure)")]
                .filter((e) => e.checkVisibility() && !e.closest("mjx-assistive-mml, .mc-hidden, .visually-hidden"))
                .filter((e) => e.getBoundingClientRect().right > innerWidth + 2)
                .map((e) => [e.closest("article").id, e.tagName, e.className, e.textContent.slice(0, 40)].join(" "));
              const count = (selector) => document.querySelectorAll(selector).length;
              return [out, count("article .math"), count("article .math mjx-container"), count("mjx-merror")];
            }"""
        )
        context.close()
    assert not out, "\n".join(out)
    assert wrong == 0
    assert drawn >= formulas > 100


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        ("02_atencion.html", "#p--notebooks-02_atencion"),
        ("../book/notacion.html#formas", "#p--book-notacion--formas"),
        ("#resumen", "#p--notebooks-01_a--resumen"),
        ("https://arxiv.org/abs/1706.03762", "https://arxiv.org/abs/1706.03762"),
        ("../_sources/notebooks/01_a.ipynb", None),
        ("../genindex.html", None),
    ],
)
def test_links_inside_the_document(link, expected):
    """Una página del libro es un salto; lo de fuera queda; un archivo que el papel no lleva deja de ser enlace."""
    entries = {name: pdf.Entry(name) for name in ("notebooks/01_a", "notebooks/02_atencion", "book/notacion")}
    assert pdf.inside(link, entries["notebooks/01_a"], entries) == expected


def test_missing_page_says_what_to_do(tmp_path):
    """Sin el libro construido, el error dice qué página falta y cómo hacerla."""
    with pytest.raises(FileNotFoundError, match=r"make book"):
        pdf.assemble(tmp_path, TOC, title="", version="")


def test_missing_file_stops_the_print(browser, tmp_path):
    """Una imagen que no está no se queda en un hueco."""
    with pytest.raises(RuntimeError, match=r"no_esta\.png"):
        pdf.print_document(
            browser, tmp_path, '<!DOCTYPE html><title>x</title><h1>Uno</h1><img src="no_esta.png" alt="x">'
        )


def test_toc_levels():
    """Del índice salen la raíz, las partes (en su primera página) y los ejercicios, un nivel más adentro."""
    toc = yaml.safe_dump(
        {"root": "book/index", "parts": [{"caption": "Una", "chapters": [{"file": "a", "sections": [{"file": "b"}]}]}]}
    )
    assert pdf.contents(toc) == [pdf.Entry("book/index"), pdf.Entry("a", "Una", 0), pdf.Entry("b", "", 1)]
