"""La extensión del libro: construye un libro diminuto y mira lo que sale."""

import html
import io
import itertools
import json
import re
import runpy
import shutil
import sys
import zipfile
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import pytest
from fontTools.ttLib import TTFont
from PIL import Image

from tests.unit.minilibro import NOTEBOOKS, REPO, SETUP, MiniBook, notebook

sys.path.insert(0, str(REPO / "book" / "_ext"))

from docutils import nodes
from docutils.utils import new_document
from libro import assets, claims, freshness, icons, pages, progress, publishing, search, sharing

REPOSITORY = "https://github.com/DUENA/libro"
PAGES = ("book/index", "book/afirmaciones", "notebooks/01_vectores", "notebooks/02_atencion", "exercises/02_atencion")

# Textos en inglés que se han visto en Sphinx, en los temas o en MyST-NB.
ENGLISH = (
    "Link to this",
    "Descarga esta pagina",
    "Launch on",
    "Launch interactive content",
    "Toggle primary sidebar",
    "Toggle secondary sidebar",
    'aria-label="Main"',
    'aria-label="Page"',
    "Search this book",
    "Show code cell",
    "Hide code cell",
    "Toggle hidden content",
    "System Settings",
    "Color mode",
    "Skip to main content",
    "Back to top",
    "Print to PDF",
    "Fullscreen mode",
    "Download source file",
    "Download notebook file",
    "Section Navigation",
    "Please activate JavaScript",
)


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> MiniBook:
    """Un libro construido, que no se cambia."""
    book = MiniBook(tmp_path_factory.mktemp("libro") / "libro")
    done = book.build()
    assert done.returncode == 0, done.stdout + done.stderr
    return book


@pytest.fixture
def book(built: MiniBook, tmp_path: Path) -> MiniBook:
    """Una copia del libro construido, con su caché, para cambiarla."""
    copy = MiniBook.__new__(MiniBook)
    copy.root = tmp_path / "libro"
    copy.html = copy.root / "_build" / "html"
    shutil.copytree(built.root, copy.root, symlinks=True, copy_function=shutil.copy2)
    return copy


def built_again(book: MiniBook) -> str:
    """Construye otra vez, con éxito, y devuelve lo que dijo la orden."""
    done = book.build()
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def executed(output: str) -> set[str]:
    """Cuadernos que una construcción ha ejecutado."""
    return set(re.findall(r"(\w+)\.ipynb: Executed notebook", output))


class Addresses(HTMLParser):
    """Direcciones que una página carga por su cuenta, y todas las demás que nombra."""

    def __init__(self, page: str):
        super().__init__()
        self.loaded: list[str] = []
        self.linked: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list) -> None:
        """Separa lo que se carga (src, hojas de estilo, icono) de lo que se enlaza."""
        loads = dict(attributes).get("rel") in {"stylesheet", "preload", "icon"}
        for name, value in attributes:
            if name in {"src", "srcset", "poster", "data"} or (name == "href" and loads):
                self.loaded.append(value or "")
            elif name == "href":
                self.linked.append(value or "")


# — Lo construido —


@pytest.mark.slow
@pytest.mark.parametrize("name", [*PAGES, "search", "genindex", "index"])
def test_no_page_loads_from_elsewhere(built: MiniBook, name: str):
    """Ninguna página pide nada fuera del libro, ni enlaza fuera mientras no haya dirección; lo que pide, existe."""
    addresses = Addresses(built.page(name))
    assert not [url for url in addresses.loaded + addresses.linked if re.match(r"(https?:)?//", url)]
    folder = (built.html / f"{name}.html").parent
    for url in addresses.loaded:
        if not url.startswith("data:"):
            assert (folder / url.split("?")[0]).exists(), url


@pytest.mark.slow
@pytest.mark.parametrize("name", [*PAGES, "search", "genindex", "index"])
def test_interface_is_spanish(built: MiniBook, name: str):
    """No queda ninguno de los textos en inglés que se han visto en Sphinx, en los temas o en MyST-NB."""
    page = built.page(name)
    assert [text for text in ENGLISH if text in page] == []
    assert '<html lang="es"' in page


@pytest.mark.slow
def test_scripts_only_where_marked(built: MiniBook):
    """Un script de `web/` está solo en la página que lleva su marca; `base.css`, en todas."""
    for name in PAGES:
        page = built.page(name)
        assert ("marca.js" in page) == (name == "notebooks/02_atencion"), name
        assert ("marca.css" in page) == (name == "notebooks/02_atencion"), name
        assert "base.css" in page
        assert ("copybutton.js" in page) == name.startswith(("notebooks", "exercises")), name
        assert ("mathjax/" in page) == (name == "notebooks/02_atencion"), name


@pytest.mark.slow
def test_search_scripts_only_on_search(built: MiniBook):
    """El índice de búsqueda y los iconos en JavaScript no viajan en cada página."""
    for name in PAGES:
        assert not re.search(r"searchtools|language_data|searchindex|busca|fontawesome\.js", built.page(name)), name
    page = built.page("search")
    order = ["busca-orden.js", "searchtools.js", "busca-texto.js", "busca.js"]
    assert sorted(order, key=page.index)[0] == "busca-orden.js"
    assert all(name in page for name in [*order, "sphinx_highlight.js", "searchindex.js"])


@pytest.mark.slow
def test_search_prose_is_written_once(built: MiniBook):
    """La prosa que lee la búsqueda está una sola vez, y está toda: la página entera no repite sus apartados."""
    text = (built.html / "_static" / "busca-texto.js").read_text("utf-8")
    pages = json.loads(text.removeprefix("globalThis.PROSA_DEL_LIBRO = ").rstrip().removesuffix(";"))
    assert set(PAGES) <= set(pages)
    for name, entries in pages.items():
        assert len({place for place, _ in entries}) == len(entries), name
        for (_, one), (_, other) in itertools.permutations(entries, 2):
            assert len(one) < 20 or one not in other, f"{name}: se repite «{one[:60]}»"
    assert "Una frase de la portada sobre la atención." in pages["book/index"][0][1]


@pytest.mark.slow
def test_libraries_come_from_packages(built: MiniBook):
    """D3, jQuery y MathJax están en el libro; lo que nadie pide, no."""
    static = built.html / "_static"
    assert "5.7.0" in (static / "d3.v5.min.js").read_text("utf-8")[:200]
    assert "jQuery" in (static / "jquery.js").read_text("utf-8")[:200]
    assert (static / "mathjax" / "tex-chtml.js").stat().st_size > 1_000_000
    assert list((static / "mathjax" / "output" / "chtml" / "fonts").rglob("*.woff"))
    assert not list(static.rglob("*.map")) + list(static.rglob("fontawesome.js")) + list(static.rglob("*.ttf"))
    assert "thebe" not in "".join(path.name for path in static.rglob("*"))


@pytest.mark.slow
def test_icon_font_is_small(built: MiniBook):
    """La fuente de iconos pesa menos de 8 KB y lleva los iconos de todas las páginas."""
    static = built.html / "_static"
    assert (static / "fa-solid-900.woff").stat().st_size < 8_000
    used = {name for page in PAGES for name in re.findall(r"\bfa[sbr]? fa-([a-z-]+)", built.page(page))}
    used |= {name for page in PAGES for name in re.findall(r"\bfa-solid fa-([a-z-]+)", built.page(page))}
    css = (icons.theme_static() / "styles" / "pydata-sphinx-theme.css").read_text("utf-8")
    style = (static / icons.STYLE_FILE).read_text("utf-8")
    assert len(used) > 5
    for name in used:
        assert f"U+{icons.code_points(css, [name])[name]:x}" in style, name


@pytest.mark.slow
def test_verdict_signs_travel_with_the_book(built: MiniBook):
    """La letra de los veredictos lleva justo sus tres signos, con un dibujo distinto para cada uno."""
    glyphs = TTFont(built.html / "_static" / "signos.woff").getBestCmap()
    assert {chr(code) for code in glyphs} == set("✓✗⏳")
    assert len(set(glyphs.values())) == 3


@pytest.mark.slow
def test_front_door(built: MiniBook):
    """`index.html` de la carpeta tiene idioma y título, y lleva a la portada."""
    page = (built.html / "index.html").read_text("utf-8")
    assert 'lang="es"' in page
    assert "url=book/index.html" in page
    assert "<title>Atención multicabeza</title>" in page


def metas(page: str) -> dict[str, str]:
    """Etiquetas `<meta>` de una página con nombre o propiedad: {nombre: contenido}; ninguna se repite."""
    found = re.findall(r'<meta (?:name|property)="((?:og|twitter):[\w:]+|description)" content="([^"]*)"', page)
    assert len(dict(found)) == len(found)
    return {name: html.unescape(content) for name, content in found}


@pytest.mark.slow
def test_pages_describe_themselves(built: MiniBook):
    """Cada página lleva su descripción, sacada de su texto, y los datos de su tarjeta que no piden una dirección."""
    found = {name: metas(built.page(name)) for name in [*PAGES, "search", "index"]}
    front, chapter = found["book/index"], found["notebooks/02_atencion"]
    assert front["description"] == front["og:description"] == "Una frase de la portada sobre la atención."
    assert front["og:title"] == front["og:site_name"] == "Atención multicabeza"
    assert (front["og:type"], chapter["og:type"], chapter["og:title"]) == ("website", "article", "Atención")
    assert chapter["description"] == "Con … y d_k, cada consulta reparte su atención entre las claves."
    assert found["index"] == front
    assert "description" not in found["search"]
    for name, tags in found.items():
        assert tags["og:locale"] == "es_ES", name
        assert tags["twitter:card"] == "summary", name
        assert not {"og:url", "og:image"} & set(tags), name
    assert built.page("book/index").count('<meta name="theme-color"') == 2
    icon = re.search(r'<link rel="apple-touch-icon" href="\.\./([^"]+)">', built.page("book/index"))[1]
    assert (built.html / icon).is_file()


@pytest.mark.slow
def test_claims_page_writes_decimal_comma(built: MiniBook):
    """Una página muestra el valor que midió otra, con coma decimal."""
    assert "La razón medida es" in built.page("book/afirmaciones")
    assert ">1,01<" in built.page("book/afirmaciones")


@pytest.mark.slow
def test_downloads_without_address(built: MiniBook):
    """Sin dirección, cada cuaderno ofrece su archivo y la rueda, que se puede abrir y lleva el módulo."""
    for name in PAGES:
        page = built.page(name)
        assert ("libro-cuaderno" in page) == name.startswith(("notebooks", "exercises")), name
        assert "colab.research" not in page
        assert "libro-comentarios" not in page
    page = built.page("notebooks/02_atencion")
    assert 'href="../_sources/notebooks/02_atencion.ipynb" download' in page
    assert 'href="../_downloads/minimodulo-0.0.1-py3-none-any.whl" download' in page
    assert (built.html / "_sources" / "notebooks" / "02_atencion.ipynb").exists()
    wheel = (built.html / "_downloads" / "minimodulo-0.0.1-py3-none-any.whl").read_bytes()
    assert "minimodulo/__init__.py" in zipfile.ZipFile(io.BytesIO(wheel)).namelist()


@pytest.mark.slow
def test_prose_for_search(built: MiniBook):
    """El texto de los resúmenes es prosa: sin LaTeX, sin código y sin el HTML de las salidas."""
    text = (built.html / "_static" / search.PROSE_FILE).read_text("utf-8")
    assert "Con … y d_k, cada consulta reparte su atención entre las claves." in text
    assert "\\\\" not in text
    assert "interactivo" not in text
    assert "import" not in text
    assert '"1 · 2"' in text.replace("a · b · ", "")


# — Lo que se rehace —


@pytest.mark.slow
def test_sentence_and_style_change(built: MiniBook):
    """Una frase nueva rehace su página y un estilo nuevo llega al libro, sin leer ni ejecutar nada más."""
    # Sobre el libro de todos: una copia en otra carpeta se lee entera, porque cambian las rutas de la configuración.
    index, style = (built.root / name for name in ("book/index.md", "book/_static/libro.css"))
    before = index.read_text("utf-8"), style.read_text("utf-8")
    try:
        index.write_text(before[0].replace("Una frase de la portada", "Otra frase"), "utf-8")
        style.write_text(before[1] + "\n.nueva { color: red; }\n", "utf-8")
        output = built_again(built)
    finally:
        index.write_text(before[0], "utf-8")
        style.write_text(before[1], "utf-8")
    assert executed(output) == set()
    assert "0 added, 1 changed, 0 removed" in output
    assert "Otra frase sobre la atención" in built.page("book/index")
    assert ".nueva" in (built.html / "_static" / "libro.css").read_text("utf-8")


@pytest.mark.slow
def test_module_and_record_changes(book: MiniBook):
    """Otra constante del módulo y otro registro cambian sus páginas, aunque no cambie ningún cuaderno."""
    assert "constante: 41" in book.page("notebooks/01_vectores")
    book.replace("src/minimodulo/__init__.py", "41", "43")
    book.write("results/medida.json", '{"razon": 2.5}')
    assert executed(built_again(book)) == {"01_vectores", "02_atencion"}
    assert "constante: 43" in book.page("notebooks/01_vectores")
    assert ">2,50<" in book.page("book/afirmaciones")


@pytest.mark.slow
def test_notebook_change_reaches_the_claims_page(book: MiniBook):
    """Si solo cambia el cuaderno, la página que muestra su valor también se rehace."""
    cells = list(NOTEBOOKS["notebooks/02_atencion"])
    cells[2] = ("code", "from myst_nb import glue\nglue('razon', 7.25, display=False)")
    book.write("notebooks/02_atencion.ipynb", notebook(cells))
    assert executed(built_again(book)) == {"02_atencion"}
    assert ">7,25<" in book.page("book/afirmaciones")


# — Lo que detiene la construcción —


@pytest.mark.slow
def test_failing_cell_fails_the_build(book: MiniBook):
    """Una celda con `1/0` hace fallar la construcción, y se ve cuál."""
    book.write("notebooks/01_vectores.ipynb", notebook(["# De texto a vectores", ("code", SETUP), ("code", "1/0")]))
    done = book.build()
    assert done.returncode != 0
    assert "ZeroDivisionError" in done.stdout + done.stderr


@pytest.mark.slow
def test_missing_claim_fails_the_build(book: MiniBook):
    """Una afirmación que ningún cuaderno registra hace fallar la construcción, y el error dice cuál."""
    book.replace("book/afirmaciones.md", "::razon:", "::perdida:")
    done = book.build()
    assert done.returncode != 0
    assert "«book/afirmaciones» muestra «perdida», pero «notebooks/02_atencion» no la registra" in done.stderr


@pytest.mark.parametrize("recorded", [{}, {"notebooks/02": {}}, {"notebooks/02": {"glue": ["otra"]}}])
def test_removed_claim_is_missed(recorded: dict):
    """Una afirmación que el cuaderno deja de medir no se da por buena con el valor que guardó antes."""
    env = SimpleNamespace(libro_claims={"book/p": {("notebooks/02", "razon")}}, nb_metadata=recorded)
    with pytest.raises(claims.ExtensionError, match="«book/p» muestra «razon»"):
        claims.check_claims(None, env)
    env.nb_metadata = {"notebooks/02": {"glue": ["otra", "razon"]}}
    claims.check_claims(None, env)


@pytest.mark.slow
def test_warning_is_not_forgotten(book: MiniBook):
    """Un enlace roto falla la primera vez y también la segunda, sin cambiar nada."""
    book.replace("book/index.md", "Una frase", "[Un enlace](no_existe.md) y una frase")
    assert book.build().returncode != 0
    assert book.build().returncode != 0


# — Con dirección pública —


@pytest.mark.slow
def test_buttons_with_address(book: MiniBook):
    """Con dirección hay botón de Colab y de comentarios en los cuadernos, y del repositorio en todas; nada se carga."""
    book.replace("_config.yml", 'url: ""', f"url: {REPOSITORY}")
    assert executed(built_again(book)) == set()
    for name in PAGES:
        page = book.page(name)
        in_notebook = name.startswith(("notebooks", "exercises"))
        colab = f"https://colab.research.google.com/github/DUENA/libro/blob/main/{name}.ipynb"
        assert page.count(f'href="{colab}"') == (2 if in_notebook else 0), name
        assert REPOSITORY in page
        assert ('data-repo="DUENA/libro"' in page) == in_notebook
        assert ("Mostrar comentarios" in page) == in_notebook
        assert not [url for url in Addresses(page).loaded if re.match(r"(https?:)?//", url)]
        assert [text for text in ENGLISH if text in page] == []
        # La tarjeta de un enlace necesita direcciones absolutas.
        tags = metas(page)
        assert tags["og:url"] == f"https://duena.github.io/libro/{name}.html"
        assert tags["og:image"] == f"https://duena.github.io/libro/_static/{sharing.CARD}"
        assert tags["twitter:card"] == "summary_large_image"
        assert tags["og:image:alt"]
    assert (book.html / "_static" / sharing.CARD).is_file()
    assert metas(book.page("index")) == metas(book.page("book/index"))


# — Piezas —


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("Una frase de más de setenta letras, que basta para decir de qué trata la página. Otra.", 80),
        ("En la puerta. Este libro abre la atención multicabeza por dentro, y hace falta poco. Más.", 84),
        ("¿Vale? Sí. Con «comillas.» Y $3 más, o 2.5, que no acaba la frase aquí sino bastante después.", None),
        (f"Corta. Una {'muy ' * 20}larga, con {'otra ' * 30}parte al final.", f"Corta. Una {'muy ' * 20}larga…"),
        ("palabra " * 60, f"{'palabra ' * 24}palabra".rstrip()[:-8] + "…"),
    ],
)
def test_descriptions_are_short(text: str, expected: str | int | None):
    """Frases enteras hasta que digan algo; la que no cabe se corta donde respira o entre palabras."""
    found = sharing.shortened(text)
    assert found == (text if expected is None else text[:expected] if isinstance(expected, int) else expected)
    assert len(found) <= sharing.MOST


def test_description_prefers_the_idea():
    """De un capítulo, «La idea en una frase»; de una página, su primer párrafo fuera de celdas y listas."""
    page = new_document("página")
    first = nodes.section(
        "", nodes.title("", "Uno"), nodes.container("", nodes.paragraph("", "Salida."), classes=["cell"])
    )
    first += nodes.bullet_list("", nodes.list_item("", nodes.paragraph("", "Una lista.")))
    first += nodes.paragraph("", "El primer párrafo, con ", nodes.math("", "d_k"), nodes.Text("."))
    page += first
    assert sharing.description(page) == "El primer párrafo, con d_k."
    first += nodes.section("", nodes.title("", sharing.IDEA), nodes.paragraph("", "La idea."))
    assert sharing.description(page) == "La idea."
    assert sharing.description(new_document("vacía")) == ""


def test_card_texts_are_escaped():
    """Un título con comillas o ángulos no rompe la etiqueta."""
    written = sharing.tags('«a» < "b"', "x & y", book="Libro", front=False)
    assert '<meta property="og:title" content="«a» &lt; &quot;b&quot;">' in written
    assert sharing.own_tags(f"<head>\n{written}\n</head>").count("x &amp; y") == 2


def test_card_and_icon_are_up_to_date():
    """Las imágenes guardadas son las que dibuja su programa hoy, miden lo que dicen y pesan poco.

    Si falla: `python book/imagenes.py`.
    """
    drawings = runpy.run_path(str(REPO / "book" / "imagenes.py"))
    for name, document, size, budget in (
        ("CARD", drawings["card"](), sharing.CARD_SIZE, 150_000),
        ("ICON", drawings["icon"](), (180, 180), 20_000),
    ):
        path = drawings[name]
        image = Image.open(path)
        assert (image.format, image.size) == ("PNG", size), path.name
        assert path.stat().st_size <= budget, path.name
        assert image.text[drawings["MARK"]] == drawings["fingerprint"](document), f"{path.name} no está al día"
        assert len(image.convert("RGB").getcolors(maxcolors=1 << 24)) > 50, f"{path.name} está casi en blanco"
    assert drawings["CARD"].name == sharing.CARD
    assert drawings["ICON"].name == sharing.ICON


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("<p>nada</p>", ["base.css"]),
        ('<div class="mc-figura">', ["base.css", "figura.css", "figura.js"]),
        ('<div class="otra mc-figura--grande">', ["base.css", "figura.css", "figura.js"]),
        ("<mc-figura >", ["base.css", "figura.css", "figura.js"]),
        ('<div class="mc-figuras">', ["base.css"]),
        ("class=&quot;mc-figura&quot;", ["base.css"]),
    ],
)
def test_marked_files(tmp_path: Path, body: str, expected: list[str]):
    """La marca de un archivo es su nombre entero, al principio de una clase o como etiqueta."""
    for name in ("figura.js", "figura.css", "base.css", "figura.txt"):
        (tmp_path / name).write_text("", "utf-8")
    assert assets.marked_files([tmp_path], body) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1.50", "1,50"),
        ("-0.25 de 3", "-0,25 de 3"),
        ("1.2.3", "1.2.3"),
        ("42", "42"),
        ("0.5 y 10.25.", "0,5 y 10,25."),
    ],
)
def test_decimal_comma(text: str, expected: str):
    """Los decimales llevan coma; las versiones, no."""
    assert claims.decimal_comma(text) == expected


def test_without_accents():
    """Se quitan las tildes, no la eñe."""
    assert search.without_accents("atención pingüino año") == "atencion pinguino año"


@pytest.mark.parametrize(("source", "expected"), [("d_k", "d_k"), ("d_{k}", "d_k"), (r"\sqrt{d_k}", "…")])
def test_readable_math(source: str, expected: str):
    """Una fórmula corta se lee como texto; la que necesita órdenes de LaTeX se abrevia."""
    assert search.readable_math(source) == expected


def change(path: str, text: str) -> Callable[[Path], None]:
    """Escribe un archivo."""

    def apply(root: Path) -> None:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, "utf-8")

    return apply


@pytest.mark.parametrize(
    ("apply", "differs"),
    [
        (change("src/m/__init__.py", "A = 2"), True),
        (change("src/m/web/nuevo.js", ""), True),
        (change("results/r.json", "{}"), True),
        (change("requirements-models.txt", "modelo==2"), True),
        (lambda root: (root / "src/m/__init__.py").rename(root / "src/m/otro.py"), True),
        (lambda root: (root / "src/m/__init__.py").touch(), False),
        (change("src/m/__pycache__/m.pyc", "x"), False),
        (change("src/m.egg-info/PKG-INFO", "x"), False),
        (change("README.md", "x"), False),
    ],
)
def test_fingerprint(tmp_path: Path, apply: Callable[[Path], None], differs: bool):
    """La huella cambia con lo que decide un resultado y no con lo que generan las herramientas."""
    change("src/m/__init__.py", "A = 1")(tmp_path)
    before = freshness.fingerprint(tmp_path, freshness.EXECUTION)
    apply(tmp_path)
    assert (freshness.fingerprint(tmp_path, freshness.EXECUTION) != before) == differs


def test_fingerprint_counts_installed_versions(tmp_path: Path):
    """Otra versión instalada de un paquete pedido es otra huella."""
    change("requirements.txt", "pytest==0\nno-existe-tal-paquete==1\n# torch==3\n")(tmp_path)
    versions = freshness.installed_versions(tmp_path)
    assert versions[1:] == [f"pytest {pytest.__version__}", "no-existe-tal-paquete -"]
    assert freshness.fingerprint(tmp_path, [], ["a 1"]) != freshness.fingerprint(tmp_path, [], ["a 2"])


def test_old_caches_are_pruned(tmp_path: Path):
    """Quedan la caché actual y la anterior."""
    for age, name in enumerate(["actual", "anterior", "vieja", "antigua"]):
        (tmp_path / name).mkdir()
        freshness.os.utime(tmp_path / name, (1_000_000 - age, 1_000_000 - age))
    freshness.prune_caches(tmp_path, "actual")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["actual", "anterior"]


def test_polish_dresses_the_page_at_once():
    """La página nace con el tema que toca, y no con el «auto» que ninguna regla viste."""
    script = '<script>document.documentElement.dataset.theme = localStorage.getItem("theme") || "auto";</script>'
    page = pages.polish(f'<html lang="es" data-theme="auto">\n<head>{script}</head>', "p")
    assert '<html lang="es" data-theme="light">' in page
    assert '"auto";' not in page
    assert "prefers-color-scheme: dark" in page


def test_polish_names_the_folding_button():
    """El botón que despliega los apartados de un capítulo toma el nombre del capítulo."""
    page = pages.polish('<a class="x" href="#">Atención</a><details><summary><span></span></summary>', "p")
    assert '<summary aria-label="Apartados de «Atención»">' in page


@pytest.mark.parametrize(
    ("code", "folded"),
    [
        ("mc.predict(\n    'a', '¿?', [1, 2], 1, 'b')", True),
        ('mc.activity("04")', True),
        ("# Preparación, igual en todos los cuadernos: en tu ordenador no hace nada\nREPO = ''", True),
        ("x = 1  # mc.predict(", False),
    ],
)
def test_the_code_of_a_question_and_of_the_setup_comes_folded_after_it(code: str, folded: bool):
    """El código que da la respuesta o que se repite va plegado y detrás; el de las demás celdas no se toca."""
    source = nodes.container("", nodes.literal_block(code, code), classes=["cell_input"])
    shown = nodes.container("", nodes.raw("", "<div>", format="html"), classes=["cell_output"])
    cell = nodes.container("", source, shown, classes=["cell"])
    document = new_document("prueba")
    document += cell
    pages.fold_sources(document)
    if folded:
        assert cell.children[0] is shown
        assert cell.children[2] is source
        assert cell.children[1].astext().startswith("<details")
        assert "open" not in cell.children[1].astext()
        assert cell.children[3].astext() == "</details>"
    else:
        assert cell.children == [source, shown]


QUESTION = "- id: uno\n  kind: truefalse\n  title: Una\n  prompt: ¿Sí?\n  answer: {}\n  why: Porque sí.\n"


def test_a_wrong_activity_stops_the_build_with_its_file_and_line(tmp_path: Path):
    """Se dicen los fallos de todos los archivos, aunque ningún cuaderno los enseñe."""
    folder = tmp_path / "src" / "modulo" / "activities"
    folder.mkdir(parents=True)
    (folder / "01.yml").write_text(QUESTION.format("true"), "utf-8")
    progress.check_activities(tmp_path)
    (folder / "02.yml").write_text(QUESTION.format("quizá"), "utf-8")
    (folder / "03.yml").write_text(QUESTION.format("true") * 2, "utf-8")
    with pytest.raises(progress.ExtensionError) as error:
        progress.check_activities(tmp_path)
    assert "activities/02.yml, línea 5: answer: se esperaba `true` o `false`" in str(error.value)
    assert "activities/03.yml, línea 7: el id «uno» ya es el de la pregunta de la línea 1" in str(error.value)


def test_my_progress_knows_the_questions_of_the_chapters_in_the_book(tmp_path: Path):
    """Un capítulo que no está en el libro no sale; los demás, con su título, su dirección y sus predicciones."""
    folder = tmp_path / "src" / "modulo" / "activities"
    folder.mkdir(parents=True)
    for chapter in ("01", "09"):
        (folder / f"{chapter}.yml").write_text(QUESTION.format("true"), "utf-8")
    sources = ["x = 1", "mc.predict('a')", "# mc.predict('b')", "mc.predict('c')"]
    cells = [{"cell_type": "code", "source": [source]} for source in sources]
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "notebooks" / "01_uno.ipynb").write_text(json.dumps({"cells": cells}), "utf-8")
    app = SimpleNamespace(
        srcdir=tmp_path,
        env=SimpleNamespace(
            found_docs={"notebooks/01_uno", "book/progreso"}, titles={"notebooks/01_uno": nodes.title("", "01 · Uno")}
        ),
        builder=SimpleNamespace(get_relative_uri=lambda here, there: f"../{there}.html"),
    )
    (one,) = progress.book_catalogue(app, "book/progreso")
    assert one["title"] == "01 · Uno"
    assert one["href"] == "../notebooks/01_uno.html#repaso"
    assert one["predictions"] == 2
    assert [item["id"] for item in one["items"]] == ["01-uno"]
    context = {"body": f"<h1>Mi progreso</h1>{progress.PLACE}<p>Fin</p>"}
    progress._fill(app, "book/progreso", "", context, None)
    assert assets.marked_files([REPO / "src" / "multicabeza" / "web"], context["body"])[1:] == [
        "activity.css",
        "activity.js",
        "progress.css",
        "progress.js",
    ]


def test_missing_package_is_explained():
    """Si falta un paquete, el error dice cuál y qué hacer."""
    with pytest.raises(assets.ExtensionError, match=r"Falta el paquete «no_existe_tal_paquete»"):
        assets.package_folder("no_existe_tal_paquete")


def test_broken_wheel_is_explained(tmp_path: Path):
    """Si la rueda no se puede construir, la construcción se detiene y muestra lo que dijo la herramienta."""
    change("pyproject.toml", '[project]\nname = "m"\nversion = "1"\n')(tmp_path)
    with pytest.raises(publishing.ExtensionError, match=r"No se ha podido construir m-1-py3-none-any\.whl"):
        publishing.build_wheel(tmp_path, tmp_path / "rueda")
