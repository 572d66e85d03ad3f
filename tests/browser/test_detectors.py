"""Cada detector ve el fallo que busca: páginas pequeñas con el fallo puesto, y la misma página sin él."""

import io
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import Page

from tests.browser.detectors import (
    Record,
    axe,
    broken_links,
    english,
    faint,
    formulas,
    leaks,
    outputs,
    overweight,
    sideways,
    structure,
)

GOOD = """<!doctype html><html lang="es"><head><meta charset="utf-8"><title>Prueba</title>
<meta name="viewport" content="width=device-width"><link rel="icon" href="data:,"></head>
<body><main><article><h1>Título</h1><h2>Apartado</h2><p>Texto con <code>the code</code> y una cita, «the cat sat».</p>
<div class="cell_output">0.34</div>
<pre tabindex="0" style="overflow-x:auto">WIDE</pre></article></main></body></html>""".replace("WIDE", "código " * 80)

# Detector → lo que se añade al artículo y un trozo de lo que debe decir.
FAULTS = [
    (axe, '<img src="data:image/gif;base64,R0lGODlhAQABAAAAACw=">', "image-alt"),
    (axe, '<p style="color:#aaa;background:#fff">Apenas se lee</p>', "color-contrast"),
    (
        axe,
        "<iframe title='Vista' srcdoc='<html lang=es><title>Vista</title><select><option>1</select>'></iframe>",
        "marco",
    ),
    (sideways, '<div style="width:1500px">ancho</div>', "el documento mide"),
    (sideways, '<div style="overflow-x:auto"><p style="width:1500px">ancho</p></div>', "se desplaza de lado"),
    (sideways, '<div style="overflow:hidden"><p style="width:1500px">cortado</p></div>', "llega a"),
    (
        sideways,
        '<div class="math" style="display:flex;justify-content:center;overflow:auto"><b style="flex:none;width:2500px">'
        "fórmula</b></div>",
        "empieza en",
    ),
    (axe, '<pre><span style="color:#000">bien</span> <span style="color:#bbb">pálido</span></pre>', "color-contrast"),
    (english, '<a href="#" aria-label="Next page">→</a>', "aria-label"),
    (english, '<button type="button">Copy</button>', "button"),
    (english, "<details><summary>Show code cell source</summary></details>", "summary"),
    (english, '<iframe title="Vista" srcdoc="<label>Layer: <select></select></label>"></iframe>', "Layer"),
    (structure, "<h1>Otro</h1>", "2 títulos h1"),
    (structure, "<h5>Salto</h5>", "tras h2"),
    (structure, '<p id="a"></p><p id="a"></p>', "está 2 veces"),
    (structure, '<img alt="../_images/abc.png" src="data:,">', "alt"),
    (formulas, '<span class="math">\\(x\\)</span>', "sin componer"),
    (formulas, "<p>El peso es $\\frac{1}{2}$.</p>", "a la vista"),
    (outputs, '<div class="cell_output">UserWarning: cuidado</div>', "UserWarning"),
    (outputs, '<div class="cell_output">Loading: 40%|████      | 4/10</div>', "salida"),
    (outputs, '<div class="cell_output"><div class="stderr">algo</div></div>', "salida de error"),
    (outputs, "<p>/home/ana/libro</p>", "ruta local"),
]


@pytest.fixture
def show(tmp_path: Path, serve: Callable[[Path], str], visit: Callable[..., tuple[Page, Record]]) -> Callable:
    """Abre la página buena con algo añadido al artículo."""

    def open_page(extra: str, width: int = 320) -> tuple[Page, Record]:
        (tmp_path / "p.html").write_text(GOOD.replace("</article>", f"{extra}</article>"), encoding="utf8")
        page, record = visit(serve(tmp_path) + "p.html", width=width)
        page.wait_for_timeout(50)
        return page, record

    return open_page


def test_good_page_passes(show: Callable) -> None:
    """Una página sin fallos pasa por todos los detectores."""
    page, record = show("")
    found = {d.__name__: d(page) for d in (axe, sideways, english, structure, formulas, outputs)}
    assert not any(found.values()), found
    assert not record.faults


@pytest.mark.parametrize(("detector", "extra", "said"), FAULTS)
def test_fault_is_seen(detector: Callable, extra: str, said: str, show: Callable) -> None:
    """El detector dice el fallo."""
    found = detector(show(extra)[0])
    assert any(said in fault for fault in found), found


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        ('<script src="https://cdn.example.org/a.js"></script>', "sale del libro"),
        ("<img alt='Una figura que no está' src='nada.png'>", "respuesta 404"),
        ("<script>throw new Error('roto')</script>", "error de la página"),
        ("<script>console.warn('ojo')</script>", "consola (warning)"),
        ("<script>fetch('https://example.org/x').catch(() => 0)</script>", "sale del libro"),
        (
            "<iframe title='Vista' srcdoc='<script src=\"https://cdn.example.org/d3.js\"></script>'></iframe>",
            "sale del libro",
        ),
    ],
)
def test_network_and_console_are_recorded(extra: str, said: str, show: Callable) -> None:
    """Lo que sale del libro, lo que falta y lo que falla queda anotado, también dentro de un marco."""
    record = show(extra)[1]
    assert any(said in fault for fault in record.faults), record.faults


def test_broken_links_are_seen(tmp_path: Path) -> None:
    """Un archivo o un ancla que no existen se dicen; lo que existe, no."""
    (tmp_path / "a.html").write_text(
        '<h2 id="uno"></h2><a href="#uno"></a><a href="b.html#dos"></a><a href="b.html#tres"></a><a href="c.html"></a>',
        encoding="utf8",
    )
    (tmp_path / "b.html").write_text('<h2 id="dos"></h2>', encoding="utf8")
    assert broken_links(tmp_path) == ["a.html → b.html#tres: sin esa ancla", "a.html → c.html: no existe"]


@pytest.fixture
def light(tmp_path: Path) -> Callable[..., list[str]]:
    """Un libro de una página ligera, con algo añadido a su artículo; devuelve lo que pesa de más."""
    static = tmp_path / "_static"
    static.mkdir()
    for name, size in {"libro.js": 2_000, "predict.js": 5_000, "explore.js": 5_000, "view.js": 3_000}.items():
        (static / name).write_text("x" * size, encoding="utf8")
    for name, size in {"d3.v5.min.js": 250_000, "jquery.js": 90_000, "busca-texto.js": 590_000}.items():
        (static / name).write_text("x" * size, encoding="utf8")
    for name in ("predict.css", "explore.css", "view.css", "libro.css"):
        (static / name).write_text("", encoding="utf8")
    (static / "doctools.js").write_text("x" * 500_000, encoding="utf8")  # del tema: no cuenta

    def look(extra: str) -> list[str]:
        head = '<script src="../_static/doctools.js?v=1"></script>' + tags("libro")
        path = tmp_path / "notebooks" / "p.html"
        path.parent.mkdir(exist_ok=True)
        page_text = f"<html><head>{head}</head><body><article>{extra}</article></body></html>"
        path.write_text(page_text, encoding="utf8")
        return overweight(tmp_path)

    return look


def tags(*names: str) -> str:
    """Las etiquetas que cargan el programa y el estilo de esos nombres."""
    return "".join(
        f'<script defer src="../_static/{name}.js?v=1"></script><link rel="stylesheet" href="../_static/{name}.css">'
        for name in names
    )


VIEW = (
    '<figure class="mc-view"><script type="application/json">"<script>window.mcParams = 1<\\/script>'
    '<script src=%STATIC%d3.v5.min.js><\\/script><script src=%STATIC%jquery.js><\\/script>SIZE"</script></figure>'
)


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        ("x" * 1_500_001, "1.50 MB de HTML"),
        (f"<script>{'x' * 398_001}</script>", "400 KB de programas"),
        ('<script src="../_static/d3.v5.min.js"></script>', "carga d3.v5.min.js y no lo usa"),
        (tags("predict"), "carga predict.js y no lo usa"),
        (tags("predict"), "carga predict.css y no lo usa"),
        ('<div class="otra mc-explore">', "usa explore.js y no lo carga"),
        (tags("explore") + "<p>mc-explore</p>", "carga explore.js y no lo usa"),
        ('<script src="../_static/busca-texto.js"></script>', "carga busca-texto.js y no lo usa"),
        ('<p class="math">x</p>', "usa tex-chtml.js y no lo carga"),
    ],
)
def test_overweight_page_is_seen(extra: str, said: str, light: Callable[..., list[str]]) -> None:
    """Lo que pesa de más, lo que se carga sin usarlo y lo que se usa sin cargarlo se dice."""
    found = light(extra)
    assert any(said in fault for fault in found), found


def test_light_page_passes(light: Callable[..., list[str]]) -> None:
    """Una página que cumple no se acusa, y lo que comparten dos vistas cuenta una sola vez."""
    assert light("") == []
    assert light('<div class="mc-explore-caja"></div><mc-predict></mc-predict>' + tags("explore", "predict")) == []
    view = tags("view") + VIEW.replace("SIZE", "") * 2
    assert light(view) == []
    code = "<script>" + "x" * 60_000 + "<\\/script>"
    assert any("405 KB de programas" in fault for fault in light(tags("view") + VIEW.replace("SIZE", code) * 2))


def test_heavy_data_is_seen(tmp_path: Path) -> None:
    """Los datos con forma de programa tienen su propio límite."""
    for size, faults in ((600_000, 0), (600_001, 1)):
        (tmp_path / "busca-texto.js").write_text("x" * size, encoding="utf8")
        assert len(overweight(tmp_path)) == faults


def test_faint_figure_is_seen() -> None:
    """Una figura gris sobre gris no se ve; una con tinta, sí."""

    def figure(ink: int) -> bytes:
        image = Image.new("L", (200, 100), 60)
        image.paste(ink, (20, 20, 120, 60))
        file = io.BytesIO()
        image.save(file, "PNG")
        return file.getvalue()

    assert "contraste" in faint(figure(80))
    assert faint(figure(230)) is None


def test_leaks_reads_paths_and_not_prose() -> None:
    """Una ruta de un equipo se ve; una fracción, un enlace, una carpeta relativa o cómo entrar en un entorno, no."""
    assert leaks('File "/home/ana/.venv/lib/python3.11/x.py"')
    assert leaks('File ".venv-class/lib/python3.11/x.py"')
    assert not leaks("entra en el entorno: . .venv-class/bin/activate")
    assert leaks("/tmp/ipykernel_123/456.py:3")
    assert not leaks('<a href="../notebooks/01.html">y/o</a> https://pytorch.org/home/x work/tmp')


def test_a_request_cut_by_leaving_is_no_fault() -> None:
    """Lo que se corta al cambiar de página no cuenta; lo que se corta sin cambiar, sí."""

    class Fake:
        def __init__(self, url: str, navigation: bool = False) -> None:
            self.url, self.failure, self.resource_type = url, "net::ERR_ABORTED", "image"
            self.is_navigation_request = lambda: navigation

    handlers = {}
    record = Record(type("Page", (), {"on": lambda self, event, call: handlers.update({event: call})})())
    icon, later = Fake("http://127.0.0.1:1/a.svg"), Fake("http://127.0.0.1:1/b.svg")
    for request in (Fake("http://127.0.0.1:1/", True), icon, Fake("http://127.0.0.1:1/otra", True), later):
        handlers["request"](request)
    handlers["requestfailed"](icon)
    assert not record.faults
    handlers["requestfailed"](later)
    assert "b.svg" in record.faults[0]
