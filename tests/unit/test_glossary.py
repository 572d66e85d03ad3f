"""Los enlaces al glosario: qué se reconoce, dónde, una vez por página, y al día en cada construcción."""

import json
import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.browser.detectors import broken_links
from tests.unit.minilibro import NOTEBOOKS, REPO, TOC, MiniBook, notebook

sys.path.insert(0, str(REPO / "book" / "_ext"))

from docutils import nodes
from docutils.utils import new_document
from libro import glossary
from libro.glossary import Entry
from sphinx.errors import ExtensionError

ADDRESS = "../book/glosario.html"


def entry(name: str, *more: str, only: tuple[str, ...] = (), excluded: tuple[str, ...] = ()) -> Entry:
    """Un término, con las formas que salen de su nombre y otras más."""
    names = (*glossary.spellings(name), *more)
    return Entry(f"term-{names[0].replace(' ', '-')}", name, f"Lo que es {names[0]}.", names, only or names, excluded)


SMALL = (
    entry("atención (de producto escalar)", "attention"),
    entry("atención multicabeza", "MHA"),
    entry("cabeza (de atención)"),
    entry("clave", excluded=("palabra clave",)),
    entry("proyección por cabeza"),
    entry("token"),
    entry("vista", only=("vista de un tensor",)),
)


def found(text: str, glossary_: tuple[Entry, ...] = SMALL, concepts: bool = False) -> list[str]:
    """Lo que se reconoce en un texto, tal como está escrito."""
    return [text[start:end] for _, start, end in glossary.uses(text, glossary_, concepts)]


def page(*blocks: nodes.Node) -> nodes.document:
    """Una página con esos bloques."""
    document = new_document("prueba")
    document.extend(blocks)
    return document


def paragraph(text: str) -> nodes.paragraph:
    """Un párrafo sin nada más que texto."""
    return nodes.paragraph("", text)


def html_block(html: str) -> nodes.raw:
    """Un trozo de HTML."""
    return nodes.raw("", html, format="html")


def table(*rows: tuple[str, ...]) -> nodes.table:
    """Una tabla; la primera fila es la cabecera."""
    written = [nodes.row("", *(nodes.entry("", paragraph(cell)) for cell in row)) for row in rows]
    return nodes.table("", nodes.tgroup("", nodes.thead("", written[0]), nodes.tbody("", *written[1:])))


def linked(document: nodes.document, glossary_: tuple[Entry, ...] = SMALL) -> list[str]:
    """Enlaza la página y devuelve el texto de cada enlace, en el orden en que se lee."""
    glossary.link_terms(document, glossary_, ADDRESS)
    return [link.astext() for link in document.findall(nodes.reference) if glossary.MARK in link["classes"]]


# — Qué se reconoce —


@pytest.mark.parametrize(
    ("form", "written", "not_written"),
    [
        ("clave", ("clave", "claves", "Clave"), ("clavel", "subclave")),
        ("token", ("token", "tokens"), ("tokenizador", "token_id", "token-a-token")),
        ("valor", ("valor", "valores"), ("valorar",)),
        ("proyección por cabeza", ("proyecciones por cabeza",), ("proyecciones por cabezas",)),
        ("cabeza de inducción", ("cabezas de inducción", "cabeza\nde inducción"), ("cabeza inducción",)),
        ("máscara causal", ("máscaras causales",), ("máscara casual",)),
        ("puntuaciones", ("puntuación", "puntuaciones"), ("puntuado",)),
        ("pesos", ("peso", "pesos"), ("pesado",)),
        ("logits", ("logit", "logits"), ()),
        ("Loss", ("loss",), ("los", "Los")),
        ("FLOP", ("FLOP", "FLOPs"), ("flopa",)),
        ("R²", ("R²",), ("R", "R²x")),
        ("FlashAttention", ("FlashAttention",), ("FlashAttention-2",)),
    ],
)
def test_a_form_is_found_whole_and_in_both_numbers(form: str, written: tuple[str, ...], not_written: tuple[str, ...]):
    """Se reconoce la palabra entera, en singular y en plural, con mayúscula o sin ella; otra palabra, no."""
    one = (Entry("a", form, "", (form,), (form,), ()),)
    assert [text for text in written if found(f"Mira: {text}.", one) != [text]] == []
    assert [text for text in not_written if found(f"Mira: {text}.", one)] == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("token", ("token",)),
        ("atención (de producto escalar escalado)", ("atención", "atención de producto escalar escalado")),
        ("atención latente (MLA)", ("atención latente", "MLA")),
        ("copiar (una cabeza)", ("copiar",)),
        ("dimensión por cabeza (d_k)", ("dimensión por cabeza",)),
    ],
)
def test_spellings_come_from_the_name(name: str, expected: tuple[str, ...]):
    """Un nombre vale sin su paréntesis, con él si sigue la frase, y por sus siglas."""
    assert glossary.spellings(name) == expected


def test_the_longest_form_wins():
    """«Atención multicabeza» no es «atención», ni la primera vez ni las demás."""
    text = "La atención multicabeza reparte la atención; la proyección por cabeza, no. Atención multicabeza."
    expected = ["atención multicabeza", "atención", "proyección por cabeza", "Atención multicabeza"]
    assert found(text) == expected


def test_quotes_and_excluded_words_are_not_uses():
    """Lo que va entre comillas se cita; «palabra clave» no es una clave; «vista» a secas, solo en los conceptos."""
    assert found("«Token» y «una atención cualquiera»: la palabra clave, a la vista.") == []
    assert found("Una vista de un tensor y su clave.") == ["vista de un tensor", "clave"]
    assert found("vista", concepts=True) == ["vista"]


def test_a_form_of_two_terms_is_an_error():
    """Si dos términos se escriben igual, se dice cuáles y qué hacer."""
    with pytest.raises(ExtensionError, match=r"«MHA» es a la vez de «atención multicabeza» y de «otra \(MHA\)»"):
        glossary.matcher((*SMALL, entry("otra (MHA)")))


# — Dónde se enlaza —


def test_first_use_is_linked_once_with_its_definition():
    """Se enlaza el primer uso, con su destino y su definición, y ninguno más."""
    document = page(paragraph("Un token y otro token."), paragraph("Más tokens, y una clave."))
    assert glossary.link_terms(document, SMALL, ADDRESS) == ["term-token", "term-clave"]
    first, second = document.findall(nodes.reference)
    assert (first.astext(), second.astext()) == ("token", "clave")
    assert first["refuri"] == f"{ADDRESS}#term-token"
    assert first["reftitle"] == "Lo que es token."
    assert document.astext() == "Un token y otro token.\n\nMás tokens, y una clave."


def test_only_running_prose_is_linked():
    """Ni en títulos, ni en código, fórmulas, enlaces, figuras, tablas, HTML o salidas; sí en negrita y cursiva."""
    outside = [
        nodes.section("", nodes.title("", "El token")),
        nodes.paragraph("", "", nodes.literal("", "token"), nodes.math("", "token")),
        nodes.paragraph("", "", nodes.reference("", "token", refuri="x.html")),
        nodes.literal_block("token", "token"),
        nodes.figure("", nodes.caption("", "Un token")),
        table(("a", "b"), ("token", "clave")),
        html_block("<p>token</p>"),
        nodes.container("", nodes.container("", paragraph("token"), classes=["cell_output"]), classes=["cell"]),
    ]
    assert linked(page(*outside)) == []
    prose = nodes.paragraph(
        "", "", nodes.strong("", "", nodes.Text("token")), nodes.emphasis("", "", nodes.Text("clave"))
    )
    assert linked(page(*outside, nodes.bullet_list("", nodes.list_item("", prose)))) == ["token", "clave"]


def test_key_concepts_count_in_their_first_column():
    """En los «Conceptos clave» cuenta la columna del término, si antes no se ha usado; lo de al lado, no."""
    rows = table(
        ("término", "definición"), ("vista", "leer un token"), ("clave", "lo que ofrece"), ("token", "un trozo")
    )
    concepts = nodes.section("", nodes.title("", "Conceptos clave"), rows)
    document = page(paragraph("Una clave."), concepts, paragraph("Otra vista, otro token."))
    assert linked(document) == ["clave", "vista", "token"]
    assert document[0].astext() == "Una clave."
    assert all(link.parent.parent.parent.index(link.parent.parent) == 0 for link in rows.findall(nodes.reference))


def test_folded_text_comes_last():
    """Lo plegado solo lleva el enlace de lo que no se usa a la vista."""
    details = [
        html_block("<details><summary>Pista</summary>"),
        paragraph("Un token y su clave."),
        html_block("</details>"),
    ]
    document = page(*details, paragraph("Otro token."))
    assert linked(document) == ["clave", "token"]
    assert len(list(document[1].findall(nodes.reference))) == 1


def test_a_paragraph_is_not_full_of_links():
    """De un párrafo con demasiados términos se enlazan cinco; los demás esperan a su uso siguiente."""
    terms = tuple(entry(name) for name in ("uno", "dos", "tres", "cuatro", "cinco", "seis"))
    crowded = nodes.paragraph("", "uno, dos, tres, ", nodes.strong("", "", nodes.Text("cuatro, cinco y seis")))
    document = page(crowded, paragraph("Y seis."))
    assert linked(document, terms) == ["uno", "dos", "tres", "cuatro", "cinco", "seis"]
    assert len(list(document[0].findall(nodes.reference))) == glossary.MOST


# — En un libro —

GLOSSARY = """\
# Glosario

```{glossary}
atención (de cabezas)
  *Attention.* Mirar una parte, con $d_k$ números. Y más cosas. [Capítulo 02](../notebooks/02_atencion.ipynb).

.. formas: consultar
.. salvo: a consulta
consulta
  *Query.* Vector que pregunta.

*vector*
  *Vector.* Lista de números.
```
"""


def test_initials_lead_to_their_first_term():
    """La fila de letras lleva al primer término de cada inicial, sin tildes y en orden."""
    document = new_document("glosario")
    for place, name in (("a", "ablación"), ("i", "índice"), ("i2", "inducción"), ("b", "BLEU")):
        document += nodes.term("", name, ids=[place])
    row = glossary.letters(document)
    assert row.astext().split() == ["A", "B", "I"]
    assert [link["refid"] for link in row.findall(nodes.reference)] == ["a", "b", "i"]


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> MiniBook:
    """Un libro con glosario, construido."""
    book = MiniBook(tmp_path_factory.mktemp("libro") / "libro")
    book.write("_toc.yml", TOC + "- file: book/glosario\n")
    book.write("book/glosario.md", GLOSSARY)
    done = book.build()
    assert done.returncode == 0, done.stdout + done.stderr
    return book


def links(book: MiniBook, name: str) -> list[tuple[str, str, str]]:
    """Los enlaces al glosario de una página construida: texto, destino y definición."""
    shape = rf'<a class="{glossary.MARK}[^"]*" href="([^"]*)" title="([^"]*)">(.*?)</a>'
    return [(re.sub("<[^>]+>", "", text), to, hint) for to, hint, text in re.findall(shape, book.page(name))]


@pytest.mark.slow
def test_chapters_and_exercises_link_their_terms(built: MiniBook):
    """Cada capítulo y cada página de ejercicios enlaza lo que usa; las demás páginas, nada."""
    attention = ("atención", f"{ADDRESS}#term-atencion-de-cabezas", "Mirar una parte, con d_k números.")
    query = ("consulta", f"{ADDRESS}#term-consulta", "Vector que pregunta.")
    vectors = ("vectores", f"{ADDRESS}#term-vector", "Lista de números.")
    assert links(built, "notebooks/01_vectores") == [attention, vectors]
    assert links(built, "notebooks/02_atencion") == [query, attention]
    assert links(built, "exercises/02_atencion") == [attention]
    assert links(built, "book/glosario") == links(built, "book/index") == []
    assert broken_links(built.html) == []
    # Los comentarios del glosario no se leen en él.
    assert "salvo" not in built.page("book/glosario")


@pytest.mark.slow
def test_downloads_and_search_do_not_change(built: MiniBook):
    """El cuaderno que se descarga es el original, y la búsqueda lee la prosa de siempre."""
    written = (built.html / "_sources" / "notebooks" / "02_atencion.ipynb").read_text("utf-8")
    assert json.loads(written) == json.loads(notebook(NOTEBOOKS["notebooks/02_atencion"]))
    text = (built.html / "_static" / "busca-texto.js").read_text("utf-8")
    assert "Con … y d_k, cada consulta reparte su atención entre las claves." in text


@pytest.mark.slow
def test_a_glossary_change_reaches_the_chapters(built: MiniBook):
    """Otra definición, otro nombre, un término menos y una forma más: los capítulos lo siguen, sin leerse."""
    path = built.root / "book" / "glosario.md"
    try:
        gone = GLOSSARY.replace("*vector*\n  *Vector.* Lista de números.\n", "")
        changed = gone.replace("que pregunta", "que busca").replace("atención (de", "atención (con")
        path.write_text(changed.replace("formas: consultar", "formas: apartado"), "utf-8")
        done = built.build()
        assert done.returncode == 0, done.stdout + done.stderr
        assert "0 added, 1 changed, 0 removed" in done.stdout
        assert "Executed notebook" not in done.stdout
        assert [text for text, *_ in links(built, "notebooks/01_vectores")] == ["atención"]
        assert ("consulta", f"{ADDRESS}#term-consulta", "Vector que busca.") in links(built, "notebooks/02_atencion")
        assert broken_links(built.html) == []
    finally:
        path.write_text(GLOSSARY, "utf-8")
        done = built.build()
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(links(built, "notebooks/01_vectores")) == 2


@pytest.mark.slow
def test_a_form_of_two_terms_stops_the_build(built: MiniBook, tmp_path: Path):
    """La construcción se detiene antes de escribir, y dice qué forma es de dos términos."""
    book = MiniBook.__new__(MiniBook)
    book.root, book.html = tmp_path / "libro", tmp_path / "libro" / "_build" / "html"
    shutil.copytree(built.root, book.root, copy_function=shutil.copy2)
    book.replace("book/glosario.md", "formas: consultar", "formas: vector")
    done = book.build()
    assert done.returncode != 0
    assert "«vector» es a la vez de «consulta» y de «vector»" in done.stderr
