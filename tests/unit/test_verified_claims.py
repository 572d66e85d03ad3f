"""La página de afirmaciones comprobadas: el archivo de datos, su acuerdo con los capítulos y lo que se construye."""

import ast
import re
import shutil
import sys
from pathlib import Path

import pytest
import yaml

from tests.unit.minilibro import NOTEBOOKS, REPO, MiniBook, notebook

sys.path.insert(0, str(REPO / "book" / "_ext"))

from docutils import nodes
from docutils.utils import new_document
from libro import verified

DATA = REPO / "book" / "afirmaciones.yml"
CHAPTERS = verified.load(DATA)
# Los que están en el libro: un capítulo a medio escribir puede estar en el archivo y todavía no en el índice.
TOC = yaml.safe_load((REPO / "_toc.yml").read_text("utf-8"))
IN_BOOK = {chapter["file"] for part in TOC["parts"] for chapter in part["chapters"]}
WRITTEN = [chapter for chapter in CHAPTERS if chapter.cuaderno in IN_BOOK]


def names(chapters: list) -> list[str]:
    """Los cuadernos, para nombrar las pruebas."""
    return [Path(chapter.cuaderno).name for chapter in chapters]


def claim_patterns(source: str) -> list[str]:
    """Los identificadores que puede registrar una celda, como expresiones regulares.

    Son los textos que empiezan por el número de un capítulo. Lo que se calcula dentro («f"04-claves-dk-{d_k}"») vale
    cualquier cosa; de los que faltan entre esos se encarga la construcción, que ve lo que se guardó de verdad.
    """
    if "mc.claim(" not in source:
        return []
    found = []
    for node in ast.walk(ast.parse(source)):
        pieces = node.values if isinstance(node, ast.JoinedStr) else [node]
        texts = [re.escape(one.value) if isinstance(one, ast.Constant) else ".+" for one in pieces if is_text(one)]
        pattern = "".join(texts)
        if re.match(r"\d\d\\-", pattern):
            found.append(pattern + (".+" if pattern.endswith(r"\-") else ""))
    return found


def is_text(node: ast.AST) -> bool:
    """Un trozo de texto, o algo que se calcula dentro de él."""
    return isinstance(node, ast.FormattedValue) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


# — El archivo del libro —


def test_the_book_lists_thirty_claims_from_its_nine_chapters():
    """Hay treinta afirmaciones o más, de los nueve capítulos con medidas, y no todas salen bien."""
    assert [Path(chapter.cuaderno).name[:2] for chapter in CHAPTERS] == [f"{i:02}" for i in range(1, 10)]
    verdicts = [claim.veredicto for chapter in CHAPTERS for claim in chapter.afirmaciones]
    assert len(verdicts) >= 30
    assert min(verdicts.count(verdict) for verdict in verified.VERDICTS) >= 10
    assert all(len(chapter.afirmaciones) >= 3 for chapter in CHAPTERS)


def test_every_chapter_with_claims_is_in_the_file():
    """Un cuaderno del libro que llama a mc.claim tiene su apartado."""
    claiming = {
        name
        for name in IN_BOOK
        if name.startswith("notebooks/") and any(map(claim_patterns, verified.cells(REPO / f"{name}.ipynb").values()))
    }
    assert claiming == {chapter.cuaderno for chapter in WRITTEN}


@pytest.mark.parametrize("chapter", WRITTEN, ids=names(WRITTEN))
def test_no_measure_is_forgotten(chapter: verified.Chapter):
    """Todo lo que registra un capítulo está en la página, o aparte con su motivo; la lista dice lo que falta."""
    cells = verified.cells(REPO / f"{chapter.cuaderno}.ipynb")
    patterns = {pattern for source in cells.values() for pattern in claim_patterns(source)}
    forgotten = [pattern for pattern in patterns if not any(re.fullmatch(pattern, key) for key in chapter.ids())]
    assert forgotten == []
    invented = [key for key in chapter.ids() if not any(re.fullmatch(pattern, key) for pattern in patterns)]
    assert invented == []


@pytest.mark.parametrize("chapter", WRITTEN, ids=names(WRITTEN))
def test_cells_and_records_exist(chapter: verified.Chapter):
    """La celda de cada afirmación registra alguna de sus medidas, y el cuaderno lee el registro que se nombra."""
    cells = verified.cells(REPO / f"{chapter.cuaderno}.ipynb")
    for claim in chapter.afirmaciones:
        patterns = claim_patterns(cells[claim.celda])
        measured = [measure.id for measure in claim.medidas]
        assert any(re.fullmatch(pattern, key) for pattern in patterns for key in measured), claim.ancla
        if claim.registro:
            assert (REPO / "results" / f"{claim.registro}.json").is_file(), claim.ancla
            assert any(f'load_record("{claim.registro}")' in source for source in cells.values()), claim.ancla


def test_prose_has_no_figures_of_ours():
    """Nuestras cifras no se escriben a mano: los decimales de «lectura» son solo umbrales o cifras de la fuente."""
    for chapter in CHAPTERS:
        for claim in chapter.afirmaciones:
            assert set(re.findall(r"\d+,\d+", claim.lectura)) <= {"0,1", "0,9"}, claim.ancla
            assert claim.lectura.endswith("."), claim.ancla


# — Los fallos del archivo —

GOOD = """\
- cuaderno: notebooks/02_atencion
  afirmaciones:
    - ancla: una
      afirma: Una cosa.
      fuente: alguien
      veredicto: se reproduce
      lectura: Porque sí.
      celda: celda-2
      formato: .2f
      control: lo otro
      medidas:
        - {id: 02-razon, mide: la razón, n: casos}
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("      fuente: alguien\n", "", "línea 3: la afirmación: falta «fuente»"),
        ("fuente:", "fuentes:", "línea 3: la afirmación no tiene un campo «fuentes»"),
        ("veredicto: se reproduce", "veredicto: sí", "línea 3: la afirmación «una»: el veredicto es «sí»"),
        ("ancla: una", "ancla: Una cosa", "línea 3: la afirmación «Una cosa»: el ancla lleva minúsculas"),
        ("mide: la razón, ", "", "línea 12: la medida: falta «mide»"),
        ("      formato: .2f\n", "", "línea 11: la medida: falta «formato»"),
        ("formato: .2f", "formato: 2", "«formato» debe ser un texto"),
        ("n: casos}", "n: casos, n: otros}", "línea 12: se repite «n»"),
        ("n: casos}", "n: casos de $W^Q$}", "línea 12: «n» es texto corrido, sin fórmulas ni Markdown"),
        ("control: lo otro", "control: con `torch`", "línea 12: «control» es texto corrido"),
        ("n: casos}", "n: casos}\n        - {id: 02-razon, mide: otra}", "la medida «02-razon» está dos veces"),
        ("        - {id: 02-razon, mide: la razón, n: casos}\n", "", "línea 3: la afirmación: falta «medidas»"),
    ],
)
def test_a_wrong_file_says_where(tmp_path: Path, old: str, new: str, message: str):
    """Cada fallo dice el archivo, la línea y lo que se esperaba."""
    path = tmp_path / "datos.yml"
    path.write_text(GOOD, "utf-8")
    assert verified.load(path)[0].ids() == ["02-razon"]
    assert GOOD.replace(old, new) != GOOD
    path.write_text(GOOD.replace(old, new), "utf-8")
    with pytest.raises(verified.ClaimsError) as error:
        verified.load(path)
    assert "datos.yml" in str(error.value)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("recorded", "message"),
    [
        ({"02-razon", "02-razon.n", "02-razon.control"}, None),
        (set(), "línea 3: «02-razon» falta: notebooks/02_atencion no la registra con mc.claim"),
        ({"02-razon", "02-razon.control"}, "el archivo dice qué es «n» y notebooks/02_atencion no lo registra"),
        ({"02-razon", "02-razon.n"}, "el archivo dice qué es «control» y notebooks/02_atencion no lo registra"),
        (
            {"02-razon", "02-razon.n", "02-razon.control", "02-nueva", "02-nueva.n"},
            "«02-nueva», de notebooks/02_atencion, no está: añádela, o ponla en «aparte» con el motivo",
        ),
    ],
)
def test_page_and_chapter_must_agree(tmp_path: Path, recorded: set[str], message: str | None):
    """Lo que falta, lo que sobra y lo que no se explica se dice de uno en uno, con su línea."""
    path = tmp_path / "datos.yml"
    path.write_text(GOOD, "utf-8")
    found = list(verified.faults(verified.load(path)[0], recorded, {"celda-2": 'mc.claim("02-razon", 1)'}))
    assert len(found) == (message is not None)
    assert all(message in fault for fault in found)


def test_a_cell_without_claims_and_a_control_without_name_are_faults(tmp_path: Path):
    """Enlazar a otra celda, y enseñar un control sin decir cuál es, son fallos."""
    path = tmp_path / "datos.yml"
    path.write_text(GOOD.replace("      control: lo otro\n", ""), "utf-8")
    recorded = {"02-razon", "02-razon.n", "02-razon.control"}
    cell, control = verified.faults(verified.load(path)[0], recorded, {"celda-2": "x = 1"})
    assert cell == "línea 3: la celda «celda-2» de notebooks/02_atencion no existe o no llama a mc.claim"
    assert control.endswith("registra «control» y el archivo no dice qué es")


# — Las cifras —


@pytest.mark.parametrize(
    ("value", "given", "expected"),
    [
        (1.0123, {"formato": ".2f"}, "1,01"),
        (-0.25, {"formato": "+.1f", "por": 100, "unidad": "puntos"}, "−25,0\u00a0puntos"),
        (0.25, {"formato": "+.0f", "por": 100}, "+25"),
        (-0.0001, {"formato": "+.2f"}, "0,00"),
        (-0.0001, {"formato": ".0%"}, "0\u00a0%"),
        (0.0741, {"formato": ".1%"}, "7,4\u00a0%"),
        (2.4e-7, {"formato": ".0e"}, "2·10⁻⁷"),
        (2_211_840, {"formato": ".0f", "unidad": "bytes"}, "2\u00a0211\u00a0840\u00a0bytes"),
        (1280, {"formato": ".0f"}, "1280"),
        (12_345.678, {"formato": ".2f"}, "12\u00a0345,68"),
        (True, {"formato": ".0f"}, "sí"),
        ("la 16.0", {"formato": ".0f"}, "la 16.0"),
    ],
)
def test_written(value: object, given: dict, expected: str):
    """Coma decimal, signo menos, espacios que no parten y ningún «−0»."""
    assert verified.written(value, verified.Measure("a", "b", **given)) == expected


def test_details_say_only_what_was_kept():
    """El control puede llevar otro formato; de lo que no se guardó no se dice nada."""
    measure = verified.Measure("a", "b", ".1f", unidad="nats", n="textos", control="el otro", formato_control=".0e")
    assert verified.details({"a": 1.0}, measure) == []
    values = {"a": 1.0, "a.low": 0.5, "a.high": 1.5, "a.n": 20_000, "a.seeds": 5, "a.control": 3e-16}
    assert verified.details(values, measure) == [
        "intervalo del 95\u00a0%: de 0,5 a 1,5",
        "n\u00a0=\u00a020\u00a0000 textos",
        "5 semillas",
        "control: 3·10⁻¹⁶\u00a0nats (el otro)",
    ]


def test_only_cells_with_claims_get_an_anchor():
    """Se puede enlazar a la celda que mide, y a ninguna otra."""
    document = new_document("prueba")
    document += [nodes.container("", cell_index=0), nodes.container("", cell_index=1), nodes.container("")]
    verified.name_cells(document, {"texto": "# Título", "medida": "mc.claim('02-a', 1)"})
    assert [node["ids"] for node in document.findall(nodes.container)] == [[], ["celda-medida"], []]


# — Un libro diminuto —

PAGE = "# Afirmaciones comprobadas\n\nUna introducción.\n\n```{claims} afirmaciones.yml\n```\n"
DATA_FILE = """\
- cuaderno: notebooks/02_atencion
  afirmaciones:
    - ancla: la-razon
      afirma: La razón es *uno*.
      fuente: Alguien (2017), §3
      cifra: 1,00
      veredicto: no se reproduce
      lectura: No siempre.
      celda: celda-2
      registro: medida
      medidas:
        - {id: 02-razon, mide: la razón, formato: .2f, n: casos, control: sin nada}
  aparte:
    02-otra: es un detalle
- cuaderno: notebooks/09_por_escribir
  afirmaciones:
    - ancla: por-escribir
      afirma: Aún no.
      fuente: nadie
      veredicto: en parte
      lectura: Nada.
      celda: ninguna
      medidas:
        - {id: 09-nada, mide: nada, formato: .2f}
"""
CLAIM = """\
import multicabeza as mc
ratio = json.load(open("../results/medida.json"))["razon"]
mc.claim("02-razon", ratio, n=12_000, seeds=5, interval=(ratio - 0.1, ratio + 0.1), control=0.5)
mc.claim("02-otra", 1)
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> MiniBook:
    """Un libro construido con su página de afirmaciones, que no se cambia."""
    book = MiniBook(tmp_path_factory.mktemp("libro") / "libro")
    cells = list(NOTEBOOKS["notebooks/02_atencion"])
    cells[2] = ("code", CLAIM)
    book.write("notebooks/02_atencion.ipynb", notebook(cells))
    book.write("book/afirmaciones.md", PAGE)
    book.write("book/afirmaciones.yml", DATA_FILE)
    shutil.copy(REPO / "src" / "multicabeza" / "web" / "claims.css", book.root / "src" / "minimodulo" / "web")
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


@pytest.mark.slow
def test_the_page_shows_what_the_chapter_measured(built: MiniBook):
    """Está la frase, la fuente, la cifra medida con todo lo que la acompaña, el veredicto y el enlace a la celda."""
    page = re.sub(r"<[^>]*>", "", built.page("book/afirmaciones")).replace("\u00a0", " ")
    for text in (
        "No se reproduce",
        "La razón es uno.",
        "Fuente: Alguien (2017), §3. Su cifra: 1,00.",
        "La razón: 1,01",
        "intervalo del 95 %: de 0,91 a 1,11 · n = 12 000 casos · 5 semillas · control: 0,50 (sin nada)",
        "se rehace con python -m multicabeza.toys.records medida.",
    ):
        assert text in page, text
    assert "Aún no." not in page  # su capítulo no está en el índice
    assert 'href="../notebooks/02_atencion.html#celda-celda-2"' in built.page("book/afirmaciones")
    assert built.page("notebooks/02_atencion").count('id="celda-celda-2"') == 1
    assert 'id="la-razon"' in built.page("book/afirmaciones")


@pytest.mark.slow
def test_a_claim_folds_under_its_sentence(built: MiniBook):
    """Se ven el veredicto y la frase; la fuente, las medidas y la lectura se despliegan."""
    page = built.page("book/afirmaciones")
    fold = re.search(r'<details class="libro-pliegue">(.*?)</details>', page, re.DOTALL)[1]
    summary, _, rest = fold.partition("</summary>")
    assert "No se reproduce" in summary
    assert "La razón es" in summary
    assert "<p" not in summary
    assert "Fuente:" in rest
    assert "la celda que lo mide" in rest


@pytest.mark.slow
def test_the_filter_needs_no_program(built: MiniBook):
    """El filtro son botones de opción con su cuenta, y su estilo viaja solo con esta página."""
    page = built.page("book/afirmaciones")
    assert re.findall(r'name="mc-claims" value="(\w+)"', page) == ["all", "yes", "partly", "no"]
    assert "No se reproduce (1)" in page
    assert "Todas (1)" in page
    assert [name for name in ("book/index", "book/afirmaciones") if "claims.css" in built.page(name)] == [
        "book/afirmaciones"
    ]


@pytest.mark.slow
def test_another_record_and_another_sentence_change_the_page(book: MiniBook):
    """Con otro valor registrado la página cambia sin tocar nada más; con otra frase, sin ejecutar nada."""
    book.write("results/medida.json", '{"razon": 2.5}')
    done = book.build()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "<strong>2,50</strong>" in book.page("book/afirmaciones")
    book.replace("book/afirmaciones.yml", "No siempre.", "Casi nunca.")
    done = book.build()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Executed notebook" not in done.stdout
    assert "Casi nunca." in book.page("book/afirmaciones")


@pytest.mark.slow
def test_a_missing_claim_stops_the_build(book: MiniBook):
    """Si el capítulo deja de medirla, el libro no se construye, y se dice el archivo, la línea, el id y el cuaderno."""
    book.replace("notebooks/02_atencion.ipynb", "02-razon", "02-razones")
    done = book.build()
    assert done.returncode != 0
    assert (
        "book/afirmaciones.yml, línea 3: «02-razon» falta: notebooks/02_atencion no la registra con mc.claim"
        in done.stderr
    )
    assert "«02-razones», de notebooks/02_atencion, no está" in done.stderr
