"""Las páginas del libro: enlaces, citas, referencia del módulo y datos para citarlo."""

import ast
import inspect
import json
import re
import sys
from functools import cache
from pathlib import Path

import pytest
import yaml
from docutils import nodes
from docutils.utils import new_document

import multicabeza
from tests.unit.minilibro import REPO, MiniBook

sys.path.insert(0, str(REPO / "book" / "_ext"))

from libro import citations, reference, spanish
from sphinx.errors import ExtensionError

PAGES = sorted((REPO / "book").glob("*.md"))
NOTEBOOKS = sorted([*(REPO / "notebooks").glob("*.ipynb"), *(REPO / "exercises").glob("*.ipynb")])
CODE = sorted([*(REPO / "src").rglob("*.py"), *(REPO / "src").rglob("*.yml"), *(REPO / "benchmarks").glob("*.py")])
BIBLIOGRAPHY = REPO / "book" / "bibliografia.md"
WORKS = citations.references(BIBLIOGRAPHY.read_text("utf-8"))


def text_of(path: Path) -> str:
    """Texto de un archivo en una sola línea; de un cuaderno, el de sus celdas."""
    text = path.read_text("utf-8")
    if path.suffix == ".ipynb":
        text = "\n\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"])
    return " ".join(text.split())


def test_bibliography_reads_whole():
    """Cada párrafo en negrita es una obra con autores, título entre comillas y destino propio; van en orden."""
    text = BIBLIOGRAPHY.read_text("utf-8")
    assert len(WORKS) == text.count("\n**") >= 40
    assert len({work.anchor for work in WORKS}) == len(WORKS)
    assert len({(work.label, work.years) for work in WORKS}) == len(WORKS)
    for work in WORKS:
        assert re.search(r"«[^»]+»", work.text), work.label
        assert work.years, work.label
        assert work.anchor.endswith(work.years[0]), work.label
    labels = [(work.label.lower(), work.years) for work in WORKS]
    assert labels == sorted(labels)


def test_every_citation_resolves():
    """Una cita de un capítulo, un ejercicio, una página o un docstring está en la bibliografía."""
    missing = [
        f"{path.relative_to(REPO)}: {citation.authors} ({citation.year})"
        for path in [*NOTEBOOKS, *PAGES, *CODE]
        if path != BIBLIOGRAPHY
        for citation in citations.citations(text_of(path))
        if citations.resolve(citation, WORKS) is None
    ]
    assert not missing, "\n".join(missing)


def test_every_work_is_cited():
    """Cada obra se cita en algún sitio; las que solo se nombran sin año, por su primer autor."""
    texts = [text_of(path) for path in [*NOTEBOOKS, *PAGES, *CODE] if path != BIBLIOGRAPHY]
    cited = {
        work.anchor
        for text in texts
        for citation in citations.citations(text)
        if (work := citations.resolve(citation, WORKS))
    }
    names = {work.anchor: re.match(citations.NAME, work.label)[0] for work in WORKS}
    unused = [a for a, name in names.items() if a not in cited and not any(f"{name}," in text for text in texts)]
    assert not unused


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("como en Vaswani et al. (2017, §3.2.1), la raíz", [("Vaswani et al.", "2017")]),
        ("(Clark et al., 2019, entre otros)", [("Clark et al.", "2019")]),
        (
            "Jain y Wallace (2019) y Wiegreffe y Pinter (2019)",
            [("Jain y Wallace", "2019"), ("Wiegreffe y Pinter", "2019")],
        ),
        ("(Louizos, Welling y Kingma, 2018)", [("Louizos, Welling y Kingma", "2018")]),
        (
            "Olsson y los suyos (2022) y Voita y sus coautores (2019, §5)",
            [("Olsson y los suyos", "2022"), ("Voita y sus coautores", "2019")],
        ),
        ("Con MiniLM, Wang et al. (2020) destilan", [("Wang et al.", "2020")]),
        ("En 2017 era otra cosa; con 2048 tokens, también (n = 2000).", []),
        ("Una máscara (2017) y Shazeer, 2019.", []),
    ],
)
def test_citations_are_recognised(text, expected):
    """Las maneras de citar del libro, y lo que no es una cita."""
    assert [(found.authors, found.year) for found in citations.citations(text)] == expected


@pytest.mark.parametrize(
    "text", ["Vaswani et al. (2018)", "Nadie et al. (2017)", "Jain y Pinter (2019)", "Wang et al. (2021)"]
)
def test_wrong_citations_do_not_resolve(text):
    """Un año, un apellido o un coautor equivocado no está en la bibliografía."""
    (citation,) = citations.citations(text)
    assert citations.resolve(citation, WORKS) is None


def test_citations_become_links():
    """En una página, la cita enlaza con su obra; en un título o en código, no; la desconocida se devuelve."""
    page = new_document("página")
    title = nodes.title("", "Según Shazeer (2019)")
    code = nodes.paragraph("", "", nodes.literal("", "Shazeer (2019)"))
    text = nodes.paragraph("", "Lo dice Michel et al. (2019, §4.1), y Nadie et al. (2017) no.")
    page += [nodes.section("", title), code, text]
    missing = citations.link_citations(page, WORKS, "bibliografia.html")
    (link,) = page.findall(nodes.reference)
    assert (link.astext(), link["refuri"]) == ("Michel et al.", "bibliografia.html#bib-michel-2019")
    assert text.astext() == "Lo dice Michel et al. (2019, §4.1), y Nadie et al. (2017) no."
    assert [citation.authors for citation in missing] == ["Nadie et al."]


def test_figures_stay_with_their_unit():
    """El tanto por ciento, los millares y las unidades no se separan de su cifra; el código no se toca."""
    page = new_document("página")
    text = nodes.paragraph(
        "", "El 90 % de 49 152 tokens, 2 359 296 en total, 0,15 nats y 25,8 BLEU; en 2017 9000, 3 de 4."
    )
    code = nodes.paragraph("", "", nodes.literal("", "90 % 49 152"))
    page += [text, code]
    spanish.keep_together(page)
    assert text.astext().replace("\u00a0", "_") == (
        "El 90_% de 49_152 tokens, 2_359_296 en total, 0,15_nats y 25,8_BLEU; en 2017 9000, 3 de 4."
    )
    assert code.astext() == "90 % 49 152"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Con d_k = 64 y 1 < g < h.", "Con d_k_=_64 y 1_<_g_<_h."),
        ("Va de i − 1 a i + 1: 1 + 6 + 3 = 10.", "Va de i_−_1 a i_+_1: 1_+_6_+_3_=_10."),
        ("Ejercicios 06 · Inducción", "Ejercicios 06_· Inducción"),
        ("Está en multicabeza.attention = esto", "Está en multicabeza.attention = esto"),
        ("a + b + c + d + e + f + g = h", "a + b + c + d + e + f + g = h"),
    ],
)
def test_short_formulas_are_not_broken(text: str, expected: str):
    """Una igualdad corta no se parte ni el punto de un título empieza línea; una larga sí puede partirse."""
    page = new_document("página")
    paragraph = nodes.paragraph("", text)
    page += paragraph
    spanish.keep_together(page)
    assert paragraph.astext().replace(" d_k", " d§k").replace("\u00a0", "_").replace("§", "_") == expected


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_links_between_pages(page):
    """Los enlaces a otras páginas y cuadernos llevan a archivos que existen y que están en el índice."""
    toc = (REPO / "_toc.yml").read_text("utf-8")
    for target in re.findall(r"\]\(([^)\s#:]+)(?:#[^)]*)?\)", page.read_text("utf-8")):
        path = (page.parent / target).resolve()
        assert path.is_file(), f"{page.name} enlaza con {target}"
        assert str(path.relative_to(REPO).with_suffix("")) in toc, f"{target} no está en _toc.yml"


@cache
def documented() -> dict[str, reference.Entry]:
    """Los nombres públicos del módulo, como los lee la referencia."""
    package = REPO / "src" / "multicabeza"
    return {
        name: reference.definitions(reference.source_file(package, module), "mc.")[name]
        for module, names in reference.public_names(package).items()
        for name in names
    }


def test_reference_has_every_public_name():
    """La referencia tiene exactamente los nombres públicos, cada uno con su título y su destino."""
    text, files = reference.write_reference(REPO, "multicabeza")
    titles = re.findall(r"^### (\w+)$", text, re.MULTILINE)
    assert sorted(titles) == sorted(multicabeza.__all__)
    assert set(re.findall(r"^\(mc\.(\w+)\)=$", text, re.MULTILINE)) == set(multicabeza.__all__)
    assert {path.name for path in files} >= {"attention.py", "views.py"}


def test_reference_folds_all_but_the_first_paragraph():
    """De cada nombre se ven la firma y el primer párrafo; lo demás se despliega, salvo si apenas hay más."""
    text, _ = reference.write_reference(REPO, "multicabeza")
    entry = text.split("### scaled_dot_product_attention")[1].split("\n### ")[0]
    seen, _, folded = entry.partition('<details class="libro-pliegue">')
    assert "```python\nmc.scaled_dot_product_attention(" in seen
    assert "Atención de producto escalar escalado." in seen
    assert all(part in folded for part in ("**Argumentos**", "`is_causal`\n: ", "**Errores.**", "**Fuente.**"))
    assert text.count("<details") == text.count("</details>") > 30
    short = text.split("#### keys")[1].split("\n#### ")[0]
    assert "<details" not in short


def test_reference_lists_the_names_of_each_part():
    """Cada apartado con más de un nombre empieza por sus enlaces."""
    text, _ = reference.write_reference(REPO, "multicabeza")
    homes = reference.public_names(REPO / "src" / "multicabeza")
    lists = re.findall(r'<div class="libro-nombres">\n\n(.*?)\n\n</div>', text)
    assert [re.findall(r"\[`(\w+)`\]\(#mc\.\1\)", line) for line in lists] == [
        list(names) for names in homes.values() if len(names) > 1
    ]


@pytest.mark.parametrize("name", multicabeza.__all__)
def test_reference_documents_every_parameter(name):
    """Cada parámetro de un nombre público y de sus métodos está explicado, y no se explica ninguno que no exista.

    Un docstring sin lista de argumentos puede nombrarlos en el texto, y callar los que tienen un valor por defecto.
    """
    entry = documented()[name]
    for part in [entry, *entry.methods]:
        assert part.docstring.text, part.name
        if part.kind != "propiedad":
            parameters = {parameter.lstrip("*") for parameter in part.parameters}
            explained = {name.lstrip("*") for name in part.docstring.sections.get("Args", {})}
            if not explained:
                text, signature = part.docstring.text, part.signature
                explained = {name for name in parameters if f"`{name}`" in text or f"{name}=" in signature}
            assert explained == parameters, part.name


def test_reference_matches_the_code():
    """Una firma de la referencia tiene los parámetros y valores que ve Python."""
    for name in ("scaled_dot_product_attention", "head_importance", "claim"):
        entry = documented()[name]
        real = inspect.signature(getattr(multicabeza, name)).parameters
        assert entry.parameters == list(real)
        written = ast.parse(entry.signature.replace("mc.", "def ", 1) + ": pass").body[0].args
        defaults = [*written.defaults, *(value for value in written.kw_defaults if value)]
        assert [ast.literal_eval(value) for value in defaults] == [
            parameter.default for parameter in real.values() if parameter.default is not parameter.empty
        ]


def test_reference_sections():
    """Las secciones de Google se separan, con sus líneas de continuación; el texto de después no se pierde."""
    docstring = reference.parse(
        "Hace algo.\n\nFuente: Alguien (2000).\n\nArgs:\n    x: lo primero,\n        y más.\n    **rest: lo demás.\n\n"
        "Returns:\n    Un número.\n\nUn párrafo final."
    )
    assert docstring.text == "Hace algo.\n\nUn párrafo final."
    assert docstring.sections["Args"] == {"x": "lo primero,\ny más.", "**rest": "lo demás."}
    assert docstring.sections["Returns"] == "Un número."
    assert docstring.sections["Fuente"] == "Alguien (2000)."


def test_reference_shows_literals():
    """Una cadena de Python sale como código; la que ya lo es, y las comillas de una frase, quedan igual."""
    text = 'Con "zero" o `how="mean"`, ``"x"`` y "dos palabras".'
    assert reference.show_literals(text) == 'Con `"zero"` o `how="mean"`, ``"x"`` y "dos palabras".'


def test_reference_refuses_what_is_missing(tmp_path):
    """Un nombre público sin docstring, o un módulo que no existe, detienen la construcción."""
    package = tmp_path / "src" / "mini"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text('_HOME = {"uno": ("f",)}\n', "utf-8")
    (package / "uno.py").write_text('"""Uno."""\n\ndef f(x):\n    return x\n', "utf-8")
    with pytest.raises(ExtensionError, match="«f» es público y no está documentado"):
        reference.write_reference(tmp_path, "mini")
    with pytest.raises(ExtensionError, match=r"No hay referencia de «mini\.dos»"):
        reference.write_reference(tmp_path, "mini.dos")
    (package / "uno.py").write_text(
        '"""Uno."""\n\ndef f(x, *, y=2):\n    """Suma.\n\n    Args:\n        x: dato.\n    """\n'
    )
    text, _ = reference.write_reference(tmp_path, "mini")
    assert "mc.f(x, *, y=2)" in text
    assert "`x`\n: dato." in text


def test_citation_file():
    """CITATION.cff tiene lo que pide el formato, y la versión del módulo."""
    data = yaml.safe_load((REPO / "CITATION.cff").read_text("utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= set(data)
    assert data["version"] == multicabeza.__version__
    assert data["license"] == ["MIT", "CC-BY-4.0"]
    assert all("name" in author or "family-names" in author for author in data["authors"])


@pytest.fixture
def pages(tmp_path) -> MiniBook:
    """Un libro de tres páginas, sin cuadernos: portada, bibliografía y referencia."""
    book = MiniBook(tmp_path / "libro")
    book.write(
        "_toc.yml",
        "format: jb-book\nroot: book/index\nchapters:\n- file: book/bibliografia\n- file: book/referencia\n",
    )
    book.write("book/index.md", "# Portada\n\nSegún Wu et al. (2024, §2), pocas.\n")
    book.write(
        "book/bibliografia.md",
        "# Bibliografía\n\n(bib-wu-2024)=\n**Wu et al. (2024).** Wenhao Wu y otros. «Cabezas». Prepublicación.\n",
    )
    book.write("book/referencia.md", "# Referencia\n\n<!-- referencia: minimodulo -->\n")
    book.replace("src/minimodulo/__init__.py", "CONSTANT = 41\n", 'CONSTANT = 41\n_HOME = {"uno": ("f",)}\n')
    book.write(
        "src/minimodulo/uno.py",
        '"""Cuentas."""\n\n\ndef f(x, *, y=2):\n'
        '    """Suma en [0, 1): |x| < y_1.\n\n    Args:\n        x: un dato.\n    """\n',
    )
    return book


@pytest.mark.slow
def test_pages_are_built_and_kept_up_to_date(pages):
    """La referencia y las citas salen en el libro construido, y cambian con el código y con la bibliografía."""
    done = pages.build()
    assert done.returncode == 0, done.stdout + done.stderr
    text = re.sub(r"<[^>]+>", "", pages.page("book/referencia"))
    assert "mc.f(x, *, y=2)" in text
    assert "un dato." in text
    assert 'href="bibliografia.html#bib-wu-2024"' in pages.page("book/index")

    pages.replace("src/minimodulo/uno.py", "un dato.", "otro dato.")
    pages.replace("book/bibliografia.md", "(bib-wu-2024)=", "(bib-wu)=")
    done = pages.build()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "otro dato." in pages.page("book/referencia")
    assert 'href="bibliografia.html#bib-wu"' in pages.page("book/index")


@pytest.mark.slow
def test_unknown_citation_stops_the_build(pages):
    """Una cita que no está en la bibliografía detiene la construcción y dice en qué página está."""
    pages.replace("book/index.md", "Wu et al. (2024", "Nadie et al. (2024")
    done = pages.build()
    assert done.returncode != 0
    assert "«Nadie et al. (2024)» no está en la bibliografía" in done.stdout + done.stderr
