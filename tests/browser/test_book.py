"""Las páginas del libro construido, en un navegador sin más red que este equipo."""

import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest
from playwright.sync_api import Browser, Frame, Locator, Page, expect

from tests.browser.conftest import built_pages
from tests.browser.detectors import (
    DATA,
    DATA_LIMIT,
    HTML_LIMIT,
    SCRIPT_LIMIT,
    THEME,
    WEB,
    Record,
    axe,
    broken_links,
    english,
    faint,
    formulas,
    leaks,
    lines,
    outputs,
    overweight,
    settle,
    sideways,
    structure,
)

Visit = Callable[..., tuple[Page, Record]]

CHAPTER = "notebooks/02_atencion.html"
PAPER_WIDTH = 688  # un A4 con márgenes de 14 mm


def address(site: str, path: str) -> str:
    """Dirección de una página; la de búsqueda, con una consulta hecha."""
    return site + path + ("?q=atencion" if path == "search.html" else "")


def ready(page: Page) -> None:
    """Espera a que la página esté completa; en la de búsqueda, a que haya resultados."""
    settle(page)
    if urlsplit(page.url).path.endswith("/search.html"):
        page.locator("#search-results li").first.wait_for()
        settle(page)


def approach(page: Page) -> None:
    """Recorre la página como quien lee: crea las vistas que esperan a que alguien se acerque."""
    for view in page.locator(".mc-view").all():
        view.scroll_into_view_if_needed()
        expect(view.locator("iframe")).to_have_count(1)
    for frame in page.frames[1:]:
        frame.wait_for_load_state("load")
        frame.locator("svg line, svg path").first.wait_for(state="attached")


def press_everything(page: Page) -> None:
    """Abre cada `<details>`, crea cada vista, mueve cada control y responde cada pregunta, con el teclado."""
    page.evaluate("() => document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    approach(page)
    for control in page.locator(".mc-explore, .mc-calculator").locator("input:visible, select:visible").all():
        control.focus()
        page.keyboard.press("ArrowRight")
    for view in page.locator(".mc-tokens").all():
        for place in (view.get_by_role("gridcell").last, view.locator(".sentence button").last):
            if place.count() and place.is_visible():
                place.focus()
                page.keyboard.press("Enter")
    for lab in page.locator(".mc-lab").all():
        lab.locator("[data-head]").nth(1).press("Enter")
        lab.get_by_role("slider").press("ArrowLeft")
        expect(lab.locator("output")).to_have_text("paso 1000")
        lab.locator("textarea").press("End")
        lab.locator("textarea").press("x")
        expect(lab.locator(".message")).to_be_visible()
    for question in page.locator(".mc-predict").all():
        answer(page, question)
    for activity in page.locator("mc-activity").all():
        expect(activity).to_have_attribute("data-ready", "1")
        for text in activity.locator("textarea, input[type=text]").all():
            text.fill("12")
        for control in activity.locator("input[type=radio], .mc-face, .mc-arrow").all()[::3]:
            control.focus()
            page.keyboard.press("Space")
        for check in activity.locator(".mc-main").all():
            check.focus()
            page.keyboard.press("Enter")
    for radio in page.locator(".portada input").all()[:3]:
        radio.focus()
        page.keyboard.press("Space")
    settle(page)


def answer(page: Page, question: Locator) -> None:
    """Responde una pregunta de predicción con el teclado: la primera opción, y a ver qué pasa."""
    option = question.locator("input[type=radio], button").first
    option.focus()
    page.keyboard.press("Space")
    if option.evaluate("e => e.tagName") == "INPUT":
        question.get_by_role("button").first.focus()
        page.keyboard.press("Enter")


def narrow(page: Page, width: int = 390) -> None:
    """Cambia el ancho y espera a que la página se acomode: el tema y el libro revisan sus cajas al rato."""
    page.set_viewport_size({"width": width, "height": 900})
    page.wait_for_timeout(500)


def repaint(page: Page, theme: str) -> None:
    """Cambia el modo del sistema, claro u oscuro, y espera a que la página lo siga."""
    page.emulate_media(color_scheme=theme)
    expect(page.locator("html")).to_have_attribute("data-theme", theme)
    # Las transiciones se dan por acabadas: las de lo que está plegado no avanzan, y esperarlas no acaba nunca.
    page.evaluate(
        "() => document.getAnimations().filter((one) => one instanceof CSSTransition).forEach((one) => one.finish())"
    )


@pytest.fixture(scope="module")
def opened(path: str, book: Path, site: str, visit: Visit) -> tuple[Page, Record]:
    """Una página recién abierta, clara y a 1280 px, que comparten las pruebas que solo miran."""
    page, record = visit(address(site, path))
    ready(page)
    return page, record


def test_structure(opened: tuple[Page, Record]) -> None:
    """Un h1, títulos en orden, imágenes con alternativa, ids únicos y lengua española."""
    faults = structure(opened[0])
    assert not faults, lines(faults)


def test_formulas(opened: tuple[Page, Record]) -> None:
    """Todas las fórmulas están compuestas y no queda LaTeX a la vista."""
    faults = formulas(opened[0])
    assert not faults, lines(faults)


def test_outputs(opened: tuple[Page, Record]) -> None:
    """Ni avisos, ni trazas, ni barras de progreso, ni rutas de un equipo."""
    faults = outputs(opened[0])
    assert not faults, lines(faults)


def test_weight(opened: tuple[Page, Record], path: str, book: Path) -> None:
    """Lo que la página pide de verdad pesa poco, y nuestros programas se piden solo donde se usan.

    Lo que piden los marcos de BertViz, encerrados, no se ve desde la página: lo cuenta `test_budgets`.
    """
    page, record = opened
    approach(page)
    size = (book / path).stat().st_size
    assert size <= HTML_LIMIT, f"{path}: {size / 1e6:.2f} MB de HTML"
    own = [p for p in record.scripts if not THEME.search(p)]
    weights = {p: len(page.request.get(record.scripts[p]).body()) for p in own}
    # Los programas escritos en la página y en las vistas cuentan una vez cada uno.
    written = {
        text
        for frame in page.frames
        for text in frame.locator("script:not([src]):not([type='application/json'])").all_text_contents()
        if not text.startswith("window.mcParams")  # datos, no programa
    }
    inline = sum(map(len, written))
    data = {p: weights.pop(p) for p in own if DATA.search(p)}
    assert max(data.values(), default=0) <= DATA_LIMIT, f"{path}: {data}"
    total = sum(weights.values()) + inline
    assert total <= SCRIPT_LIMIT, f"{path}: {total / 1e3:.0f} KB de programas: {weights}, y {inline} en la página"
    body = page.content()
    marks = {file.stem: f"mc-{file.stem}" for file in WEB if file.suffix == ".js"}
    for script, mark in marks.items():
        loaded = any(p.endswith(f"/{script}.js") for p in own)
        used = re.search(rf'class="(?:[^"]*\s)?{mark}|<{mark}', body)
        assert loaded <= bool(used), f"{path} carga {script} y no lo usa"
    if path != "search.html":
        heavy = [p for p in record.scripts if re.search(r"searchindex|searchtools|busca-texto", p)]
        assert not heavy, f"{path} carga la búsqueda: {heavy}"


def test_interface_in_spanish(opened: tuple[Page, Record]) -> None:
    """Ningún rótulo, nombre accesible ni texto de la interfaz está en inglés, tampoco dentro de las vistas."""
    page, _ = opened
    approach(page)
    faults = english(page)
    assert not faults, lines(faults)


def test_figures_in_dark(opened: tuple[Page, Record], path: str) -> None:
    """En modo oscuro cada figura se ve, con sus colores."""
    page, _ = opened
    repaint(page, "dark")
    faults = []
    for figure in page.locator("article img, article figure svg:visible").all():
        if not figure.is_visible():
            continue
        # Las imágenes se descodifican aparte: sin esperar, la captura puede salir antes que la figura.
        loaded = figure.evaluate("async e => e.tagName !== 'IMG' || (await e.decode(), e.naturalWidth > 0)")
        style = figure.evaluate("e => getComputedStyle(e).filter")
        name = figure.get_attribute("alt") or figure.get_attribute("class")
        if not loaded:
            faults.append(f"sin cargar: {name}")
        elif style != "none":
            faults.append(f"el tema le cambia los colores ({style}): {name}")
        elif problem := faint(figure.screenshot()):
            faults.append(f"{problem}: {name}")
    repaint(page, "light")
    assert not faults, f"{path}:{lines(faults)}"


BOTH = ("light", "dark")
LOOKS = (("antes", 1280, BOTH[:1]), ("antes", 390, BOTH[1:]), ("después", 1280, BOTH), ("después", 390, BOTH))


def test_clean_and_accessible(path: str, book: Path, site: str, visit: Visit) -> None:
    """Sin peticiones fuera ni fallos, y sin infracciones de WCAG 2.1 A/AA, antes y después de tocarlo todo.

    Después, en los dos anchos y los dos modos; antes, cuando casi todo lo que se ve es lo mismo, cada uno una vez.
    """
    page, record = visit(address(site, path))
    ready(page)
    faults = []
    for when, width, themes in LOOKS:
        narrow(page, width)
        if when == "después" and width == 1280:
            press_everything(page)
        for theme in themes:
            repaint(page, theme)
            faults += [f"{when}, {width} px, {theme}: {fault}" for fault in axe(page)]
    faults += record.faults
    assert not faults, f"{path}:{lines(faults)}"


def test_narrow(path: str, book: Path, site: str, visit: Visit) -> None:
    """A 320 px solo se desplazan de lado el código, las tablas, las fórmulas y las vistas, cada uno en su caja.

    También con el texto espaciado como pide WCAG 1.4.12.
    """
    page, _ = visit(address(site, path), width=320)
    ready(page)
    faults = sideways(page)
    press_everything(page)
    faults += [f"tras abrirlo todo: {fault}" for fault in sideways(page)]
    page.add_style_tag(
        content="* { line-height: 1.5 !important; letter-spacing: .12em !important; word-spacing: .16em !important; }"
        "p { margin-bottom: 2em !important; }"
    )
    narrow(page, 320)
    faults += [f"con el texto espaciado: {fault}" for fault in sideways(page)]
    assert not faults, f"{path}:{lines(faults)}"


def test_opened_as_file(path: str, book: Path, visit: Visit) -> None:
    """La misma página, abierta como archivo, no falla."""
    page, record = visit(address(book.as_uri() + "/", path))
    ready(page)
    press_everything(page)
    assert not record.faults, f"{path}:{lines(record.faults)}"


def test_front_door(book: Path, site: str, visit: Visit) -> None:
    """La carpeta del libro lleva a la portada, y esa página de paso también está en español."""
    text = (book / "index.html").read_text("utf8")
    page, record = visit(site)
    page.wait_for_url("**/book/index.html")
    settle(page)
    assert not record.faults, lines(record.faults)
    page.set_content(re.sub(r"<meta http-equiv=\"refresh\"[^>]*>", "", text))
    faults = axe(page) + structure(page) + english(page)
    assert not faults, lines(faults)


@pytest.mark.parametrize("words", ["atencion", "atención"])
@pytest.mark.parametrize("protocol", ["http", "file"])
def test_search(words: str, protocol: str, book: Path, site: str, visit: Visit) -> None:
    """Con tilde o sin ella, lo primero que sale es el capítulo de la atención, con un resumen en prosa."""
    base = site if protocol == "http" else book.as_uri() + "/"
    page, record = visit(base + CHAPTER)
    settle(page)
    page.keyboard.press("Control+k")
    page.keyboard.type(words)
    page.keyboard.press("Enter")
    page.wait_for_url("**/search.html*")
    first = page.locator("#search-results li").first
    first.wait_for()
    assert urlsplit(first.locator("a").first.get_attribute("href")).path.endswith(CHAPTER)
    page.wait_for_function("() => document.querySelectorAll('#search-results li p').length > 0")
    snippets = page.locator("#search-results li").all_inner_texts()
    assert "atención" in snippets[0].lower()
    assert len(snippets[0].split()) > 12, f"el resumen es corto: {snippets[0]}"
    bad = [s for s in snippets if ".ipynb" in s or "\\" in s or "$" in s]
    assert not bad, lines(bad)
    assert not record.faults, lines(record.faults)


@pytest.mark.parametrize(("accented", "plain"), [("atención", "atencion"), ("Máscara causal", "mascara causal")])
def test_search_is_the_same_with_and_without_accent(accented: str, plain: str, site: str, visit: Visit) -> None:
    """Con tilde o sin ella sale la misma lista, en el mismo orden y con los mismos títulos, bien escritos."""
    found = []
    for words in (accented, plain):
        page, record = visit(f"{site}search.html?q={words}")
        ready(page)
        found.append([(a.get_attribute("href"), a.inner_text()) for a in page.locator("#search-results li > a").all()])
        assert not record.faults, lines(record.faults)
    assert found[0] == found[1]
    titles = [title for _, title in found[0]]
    assert any(title.startswith("Glosario > ") for title in titles), titles
    assert "02 · Atención: Q, K y V" in titles
    definition = page.locator("#search-results li", has_text="Glosario > ").first.locator(".libro-resumen")
    expect(definition).to_contain_text(re.compile(r"Self-attention|Causal mask"))


def test_strange_searches(site: str, visit: Visit) -> None:
    """Ninguna consulta rompe la búsqueda ni se interpreta como HTML; sin resultados, la página lo dice."""
    page, record = visit(site + "search.html")
    empty = ("<img src=x onerror=top.hacked=1>", "√", "([a-z]*", "__proto__", "constructor", "toString", "a" * 3000)
    for words in (*empty, "q·k", "d_k"):
        page.goto(f"{site}search.html?q={quote(words)}")
        summary = page.locator("#search-results .search-summary")
        expect(summary).to_contain_text(re.compile("No hay ninguna página|Resultados encontrados"))
        assert words in empty or page.locator("#search-results li").count(), words
        assert page.evaluate("window.hacked") is None
        assert not page.locator("#search-results img").count()
    page.goto(f"{site}search.html?q=")
    settle(page)
    assert not record.faults, lines(record.faults)


def test_without_storage(site: str, visit: Visit) -> None:
    """Con el almacenamiento prohibido nada falla: cambia el tema, se busca, y la predicción avisa de que se olvida."""
    page, record = visit("about:blank")
    for name in ("localStorage", "sessionStorage"):
        page.add_init_script(
            f"Object.defineProperty(window, '{name}', {{ configurable: true,"
            " get() { throw new DOMException('no', 'SecurityError'); } });"
        )
    page.goto(site + CHAPTER)
    settle(page)
    page.locator("button.theme-switch-button:visible").first.click()
    expect(page.locator("html")).to_have_attribute("data-mode", re.compile("light|dark"))
    question = page.locator(".mc-predict").first
    answer(page, question)
    expect(question).to_contain_text("se olvidará al cerrar la página")
    settle(page)
    page.goto(site + "search.html?q=atencion")
    ready(page)
    assert not record.faults, lines(record.faults)


# Dónde está el foco: cómo se llama, si lleva marca y si se ve; nulo, si la página lo ha soltado.
STOP = """() => {
  const e = document.activeElement;
  if (e === document.body) return null;
  const marked = (part) => {
    const style = getComputedStyle(part);
    const outlined = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2;
    return outlined || style.boxShadow !== 'none';
  };
  const part = e.querySelector(':scope > .toctree-toggle') ?? e, box = part.getBoundingClientRect();
  return {
    name: `${e.tagName} ${e.className} «${e.textContent.trim().slice(0, 40)}»`,
    marked: marked(part) || e.tagName === 'IFRAME',
    seen: box.width > 8 && box.height > 8 && box.bottom > 0 && box.top < innerHeight,
    skip: e.matches('.skip-link a'),
  };
}"""


@pytest.mark.parametrize("width", [390, 1280])
def test_focus_is_always_visible(width: int, site: str, visit: Visit) -> None:
    """Con el tabulador se recorre un capítulo entero: cada parada se ve, lleva su marca y no atrapa."""
    page, _ = visit(site + CHAPTER, width=width)
    settle(page)
    approach(page)  # un marco que aún se carga no puede recibir el foco
    page.evaluate("scrollTo(0, 0)")
    faults, names = [], []
    while len(names) < 400:
        page.keyboard.press("Tab")
        # Al entrar en un marco, que es otro proceso, el foco tarda un instante en saberse.
        stop = page.evaluate(STOP)
        if stop is None or not stop["seen"]:  # y en llegar a la pantalla
            page.wait_for_timeout(300)
            stop = page.evaluate(STOP)
        if stop is None:
            break
        names.append(stop["name"])
        if not stop["marked"]:
            faults.append(f"sin marca: {stop['name']}")
        if not stop["seen"] and not stop["skip"]:
            faults.append(f"fuera de la pantalla: {stop['name']}")
    assert 60 < len(names) < 400, f"{len(names)} paradas: {names[-3:]}"
    assert not faults, lines(faults)


def test_theme_does_not_wait_for_its_script(browser: Browser, site: str) -> None:
    """En la primera visita la página ya sale vestida, aunque el programa del tema tarde (o no llegue)."""
    context = browser.new_context(color_scheme="dark")
    page = context.new_page()
    page.route("**/pydata-sphinx-theme.js*", lambda route: route.abort())
    page.goto(site + "book/glosario.html", wait_until="load")
    assert page.evaluate("() => document.documentElement.dataset.theme") == "dark"
    assert page.evaluate("() => getComputedStyle(document.body).backgroundColor") == "rgb(16, 23, 29)"
    context.close()


def test_verdict_signs_have_their_font(site: str, visit: Visit) -> None:
    """Los signos de `mc.check` se pintan con la letra del libro, haya las que haya en el equipo."""
    page, _ = visit(site + "exercises/02_atencion.html")
    settle(page)
    output = page.locator(".cell_output pre", has_text="⏳").first
    assert "Signos del libro" in output.evaluate("e => getComputedStyle(e).fontFamily")
    assert page.evaluate("async () => (await document.fonts.load('16px \"Signos del libro\"', '✓✗⏳')).length") == 1


def test_paper_shows_folded_answers(site: str, visit: Visit) -> None:
    """En papel las respuestas salen abiertas, el código de las preguntas no, y después todo vuelve a su sitio."""
    page, _ = visit(site + CHAPTER)
    settle(page)
    folded = page.locator("article details:not(.mc-source)")
    assert folded.count() > 1
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    assert folded.evaluate_all("all => all.every((e) => e.open)")
    expect(page.locator(".mc-source").first).to_be_hidden()
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert folded.evaluate_all("all => all.every((e) => !e.open)")


def test_paper_is_white(site: str, visit: Visit) -> None:
    """Quien lee en oscuro imprime en claro, y al acabar sigue en oscuro."""
    page, _ = visit(site + CHAPTER, theme="dark")
    settle(page)
    colors = """() => [document.body, document.querySelector("article p"), document.querySelector("article pre")]
        .map((e, i) => getComputedStyle(e)[i === 1 ? "color" : "backgroundColor"].match(/\\d+/g).slice(0, 3)
        .reduce((sum, part) => sum + Number(part) / 765, 0))"""
    assert page.evaluate(colors)[0] < 0.3
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print", color_scheme="dark")
    paper, ink, code = page.evaluate(colors)
    assert (paper, code > 0.9, ink < 0.3) == (1, True, True)
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    page.emulate_media(media="screen", color_scheme="dark")
    assert page.evaluate(colors)[0] < 0.3


def test_paper_fits(path: str, site: str, visit: Visit) -> None:
    """En un A4 nada se sale ni queda tras una barra, ni sale un control: las fichas llevan texto."""
    page, _ = visit(address(site, path), width=PAPER_WIDTH)
    ready(page)
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    faults = page.evaluate(
        """() => {
          const article = document.querySelector("article");
          if (!article) return [];
          const seen = (e) => e.checkVisibility({ checkVisibilityCSS: true, checkOpacity: true });
          const name = (e) => `<${e.localName} class="${e.getAttribute("class") ?? ""}">`;
          const hidden = "mjx-assistive-mml, .mc-hidden, .mc-live, svg";
          const gutters = ".sd-row, .sd-col"; // sus márgenes son huecos entre tarjetas
          const edge = article.getBoundingClientRect().right + 2;
          const faults = [];
          for (const e of article.querySelectorAll("*")) {
            if (e.closest(hidden) || !seen(e)) continue;
            const box = e.getBoundingClientRect();
            const drawn = box.width > 2 && box.height > 2 && !e.matches(gutters);
            if (drawn && box.right > edge) faults.push(`se sale ${name(e)}`);
            const hides = /auto|scroll|hidden/.test(getComputedStyle(e).overflowX) && e.clientWidth > 2;
            if (hides && e.scrollWidth > e.clientWidth + 2) faults.push(`se corta ${name(e)}`);
            const control = e.matches("button, select, iframe, [type=range], .mc-controls, .headerlink, .copybtn");
            if (control && !e.matches(".mc-face")) faults.push(`sobra ${name(e)}`);
          }
          if (!seen(article.querySelector("h1"))) faults.push("no se ve el título");
          return faults;
        }"""
    )
    assert not faults, f"{path}:{lines(faults)}"


def test_links(book: Path) -> None:
    """Cada enlace interno lleva a un archivo que existe y, si nombra un ancla, a un ancla que existe."""
    faults = broken_links(book)
    assert not faults, lines(faults)


def test_budgets(book: Path) -> None:
    """Ninguna página pasa de su presupuesto, y cada una carga los programas que usa y no más."""
    faults = overweight(book)
    assert not faults, lines(faults)


def test_no_paths_in_files(book: Path) -> None:
    """Ningún archivo de texto del libro, cuadernos descargables incluidos, lleva la ruta de un equipo."""
    faults = []
    for file in book.rglob("*"):
        if file.suffix in {".html", ".ipynb", ".md", ".json", ".txt"} and "mathjax" not in file.parts:
            faults += [f"{file.relative_to(book)}: {fault}" for fault in leaks(file.read_text("utf8"))]
    assert not faults, lines(faults)


def test_views_wait_until_the_reader_comes(book: Path, site: str, visit: Visit) -> None:
    """Ninguna vista de BertViz existe antes de acercarse; cada una aparece al llegar a ella."""
    pages = [p for p in built_pages() if 'class="mc-view' in (book / p).read_text("utf8")]
    assert pages, "ninguna página tiene vistas de BertViz"
    for path in pages:
        page, record = visit(address(site, path))
        ready(page)
        views = page.locator(".mc-view")
        below = views.evaluate_all("all => all.filter((e) => e.getBoundingClientRect().top > 2 * innerHeight).length")
        assert below, f"{path}: todas las vistas están ya cerca"
        assert len(page.frames) - 1 == views.count() - below, f"{path}: hay marcos creados antes de tiempo"
        approach(page)
        assert len(page.frames) - 1 == views.count()
        assert not record.faults, lines(record.faults)


def lines_of(frame: Frame) -> list[list[list[list[float]]]]:
    """Opacidad de cada línea de la vista por cabezas: [cabeza][token que mira][token mirado]."""
    return frame.evaluate(
        """() => [...document.querySelectorAll('#attention > g')].map((head) => [...head.children].map((token) =>
          [...token.querySelectorAll('line')].map((line) => Number(line.getAttribute('stroke-opacity')))))"""
    )


def weights_of(frame: Frame, layer: int) -> list[list[list[float]]]:
    """Pesos de una capa, tal como viajan en la página: [cabeza][token que mira][token mirado]."""
    return frame.evaluate("(i) => mcParams.attention[0].attn[mcParams.include_layers.indexOf(i)]", layer)


def check_lines(frame: Frame, layer: int, active: list[int]) -> None:
    """Hay una línea por pareja de tokens y cabeza, y su opacidad × cabezas encendidas es el peso redondeado."""
    weights, shown = weights_of(frame, layer), lines_of(frame)
    n = len(weights[0])
    assert [[len(row) for row in head] for head in shown] == [[n] * n] * len(weights)
    for head, matrix in enumerate(weights):
        for drawn, row in zip(shown[head], matrix, strict=True):
            assert sum(row) == pytest.approx(1, abs=2e-3), "las filas de pesos no suman 1"
            expected = [round(w, 4) if head in active else 0 for w in row]
            assert [o * len(active) for o in drawn] == pytest.approx(expected, abs=1e-6)


def framed(page: Page, kind: str) -> list[Frame]:
    """Los marcos abiertos de una clase de vista («head» o «model»)."""
    return [f for f in page.frames[1:] if f.locator("body").get_attribute("class") == kind]


def test_head_views_by_keyboard(book: Path, site: str, visit: Visit) -> None:
    """Una línea por pareja y cabeza, con la opacidad de su peso; cambian con la capa y con las cabezas encendidas."""
    pages = [p for p in built_pages() if 'class="mc-view' in (book / p).read_text("utf8")]
    seen = 0
    for path in pages:
        page, record = visit(address(site, path))
        ready(page)
        approach(page)
        for frame in framed(page, "head"):
            seen += 1
            layer = frame.locator("#layer")
            first = int(layer.input_value())
            heads = frame.get_by_role("checkbox")
            active = [i for i, box in enumerate(heads.all()) if box.get_attribute("aria-checked") == "true"]
            assert active
            check_lines(frame, first, active)
            # Una cabeza se apaga con la barra espaciadora; con una sola encendida, se enciende otra.
            other = active[0] if len(active) > 1 else next(i for i in range(heads.count()) if i not in active)
            heads.nth(other).press("Space")
            toggled = sorted(set(active) ^ {other})
            expect(heads.nth(other)).to_have_attribute("aria-checked", str(other in toggled).lower())
            check_lines(frame, first, toggled)
            if layer.locator("option").count() > 1:
                layer.press(
                    "ArrowDown" if first < int(layer.locator("option").last.get_attribute("value")) else "ArrowUp"
                )
                second = int(layer.input_value())
                assert second != first
                check_lines(frame, second, toggled)
        assert not record.faults, lines(record.faults)
    assert seen, "ninguna página tiene una vista por cabezas"


def test_model_views_by_keyboard(book: Path, site: str, visit: Visit) -> None:
    """Cada miniatura lleva una línea por pareja, y la que se elige con Intro se ve en grande."""
    pages = [p for p in built_pages() if 'class="mc-view' in (book / p).read_text("utf8")]
    for path in pages:
        page, record = visit(address(site, path))
        ready(page)
        approach(page)
        for frame in framed(page, "model"):
            layers, heads, n = frame.evaluate(
                "() => [mcParams.include_layers.length, mcParams.include_heads.length, mcParams.tokens.length]"
            )
            count = frame.locator("svg line").count()
            assert count == layers * heads * n * n
            thumbnail = frame.get_by_role("button", name=re.compile("ver en grande")).first
            thumbnail.press("Enter")
            expect(frame.locator("[aria-pressed=true]")).to_have_count(1)
            assert frame.locator("svg line").count() == count + n * n, "la cabeza elegida no se ve en grande"
        assert not record.faults, lines(record.faults)


def test_explore_by_keyboard(book: Path, site: str, visit: Visit) -> None:
    """Cada control mueve su figura con la flecha: otra imagen, con otra alternativa, y el lector ve el valor."""
    pages = [p for p in built_pages() if 'class="mc-explore' in (book / p).read_text("utf8")]
    assert pages, "ninguna página tiene figuras que se mueven"
    for path in pages:
        page, record = visit(address(site, path))
        ready(page)
        for figure in page.locator(".mc-explore").all():
            for control in figure.locator("input, select").all():
                before = shown(figure)
                control.focus()
                page.keyboard.press("ArrowRight")
                if shown(figure) == before:
                    page.keyboard.press("ArrowLeft")
                after = shown(figure)
                assert after[0] != before[0], f"{path}: la figura no cambia ({before[1]})"
                assert after[1] != before[1], f"{path}: la alternativa no cambia ({before[1]})"
        assert not record.faults, lines(record.faults)


def shown(figure: Locator) -> tuple[str, str]:
    """Imagen y alternativa que ve quien lee; exactamente una."""
    seen = figure.locator("img:visible")
    expect(seen).to_have_count(1)
    return seen.get_attribute("src"), seen.get_attribute("alt")


def test_predict_by_keyboard(book: Path, site: str, visit: Visit) -> None:
    """Se responde con el teclado, la explicación no está antes y aparece después, y la respuesta sigue al volver."""
    pages = [p for p in built_pages() if 'class="mc-predict' in (book / p).read_text("utf8")]
    assert pages, "ninguna página pide predecir"
    for path in pages:
        page, record = visit(address(site, path))
        ready(page)
        # La explicación, tal como está escrita en el archivo de la página.
        hidden = page.evaluate(
            """async () => {
              const text = await (await fetch(location.href)).text();
              const page = new DOMParser().parseFromString(text, 'text/html');
              return [...page.querySelectorAll('.mc-predict-answer')].map((e) => e.lastElementChild.textContent.trim());
            }"""
        )
        questions = page.locator(".mc-predict").all()
        assert len(questions) == len(hidden)
        for question, explanation in zip(questions, hidden, strict=True):
            assert explanation not in question.text_content(), f"{path}: la explicación se lee antes de responder"
            answer(page, question)
            expect(question).to_contain_text(explanation)
        texts = page.locator(".mc-predict").all_inner_texts()
        page.reload()
        ready(page)
        assert page.locator(".mc-predict").all_inner_texts() == texts, f"{path}: la respuesta no se guarda"
        assert not record.faults, lines(record.faults)


def test_without_javascript(book: Path, site: str, visit: Visit) -> None:
    """Sin JavaScript se lee todo: una imagen por figura que se mueve, y las respuestas plegadas."""
    for path in built_pages():
        text = (book / path).read_text("utf8")
        if not re.search('class="mc-(explore|predict|calculator)', text):
            continue
        page, _ = visit(address(site, path), java_script_enabled=False)
        for figure in page.locator(".mc-explore").all():
            expect(figure.locator("img:visible")).to_have_count(1)
        for question in page.locator(".mc-predict").all():
            expect(question.locator("details")).to_have_count(1)
        for calculator in page.locator(".mc-calculator").all():
            expect(calculator.locator("table:visible").first).to_be_visible()


def test_cover_shows_one_head_at_a_time(site: str, visit: Visit) -> None:
    """La portada deja una sola cabeza a la vista, con el teclado, y dice lo que mide."""
    page, record = visit(site + "book/index.html")
    settle(page)
    figure = page.locator(".portada")
    page.locator("#portada-todas").focus()
    seen = set()
    for head in range(12):
        page.keyboard.press("ArrowRight")
        expect(page.locator(f"#portada-{head}")).to_be_checked()
        page.wait_for_timeout(300)
        classes = figure.locator("svg:visible path").evaluate_all(
            "all => [...new Set(all.filter((e) => getComputedStyle(e).opacity !== '0').map((e) => e.classList[0]))]"
        )
        assert classes in ([f"c{head}"], []), f"con la cabeza {head} se ven {classes}"
        seen |= set(classes)
        assert "[CLS]" in figure.locator(".lectura p:visible").inner_text()
    assert len(seen) >= 10, "casi ninguna cabeza dibuja arcos"
    assert not record.faults, lines(record.faults)


def test_theme_button(site: str, visit: Visit) -> None:
    """El botón del tema cambia la página y la elección se recuerda al pasar a otra."""
    page, record = visit(site + "book/index.html")
    settle(page)
    button = page.locator("button.theme-switch-button:visible").first
    seen = set()
    for _ in range(3):
        button.focus()
        page.keyboard.press("Enter")
        seen.add((page.locator("html").get_attribute("data-mode"), page.locator("html").get_attribute("data-theme")))
    assert {theme for _, theme in seen} == {"light", "dark"}
    last = page.locator("html").get_attribute("data-mode")
    page.goto(site + "book/notacion.html")
    assert page.locator("html").get_attribute("data-mode") == last
    assert not record.faults, lines(record.faults)


def test_menu_on_the_phone(site: str, visit: Visit) -> None:
    """En el teléfono, el índice se abre con su botón, es accesible abierto y se cierra con Escape."""
    page, record = visit(site + "book/index.html", width=390)
    settle(page)
    page.locator(".primary-toggle:visible").first.click()
    page.wait_for_timeout(500)
    expect(page.get_by_role("link", name=re.compile("Glosario")).first).to_be_visible()
    faults = axe(page) + english(page)
    page.keyboard.press("Escape")
    page.wait_for_timeout(500)
    expect(page.locator("article h1")).to_be_visible()
    assert not faults + record.faults, lines(faults + record.faults)


def test_motion_respects_the_reader(site: str, visit: Visit) -> None:
    """Con «reducir el movimiento», nada se anima al tocarlo."""
    page, _ = visit(site + "book/index.html", reduced_motion="reduce")
    settle(page)
    page.locator("#portada-3").focus()
    page.keyboard.press("Space")
    assert page.evaluate("() => document.getAnimations().filter((a) => a.playState === 'running').length") == 0
