"""Lo que hacen en el navegador las salidas de `views`: controles, vistas de BertViz y predicciones, sin el libro.

Cada página se hace aquí con las salidas de las funciones, en una carpeta con su `_static`, como en el libro; y otra,
con todo dentro de la salida, como en Jupyter y Colab.
"""

import json
import math
import shutil
from importlib import import_module
from pathlib import Path

import pytest
import torch
from playwright.sync_api import expect

from multicabeza import plots, views
from tests.browser.detectors import axe, english, lines
from tests.browser.standalone import make_page

TOKENS = ["[CLS]", "the", "cat", "</script><b>x", '"><img src=x onerror="top.hacked=1">', "[SEP]"]
N_LAYERS, N_HEADS, N = 3, 12, len(TOKENS)
GAP = '<div style="height:4000px">hueco</div>'


def attention_weights():
    random = torch.Generator().manual_seed(3)
    return torch.softmax(torch.randn(N_LAYERS, N_HEADS, N, N, generator=random) * 2, -1)


def draw(angle, keys):
    query = (2 * math.cos(math.radians(angle)), 2 * math.sin(math.radians(angle)))
    return plots.vectors2d({"q": query, "k": (1, 1)} if keys else {"q": query}, limit=2.5)


def alt(angle, keys):
    return f"Una consulta a {angle} grados, {'con' if keys else 'sin'} claves"


def show(blocks):
    views.explore(
        draw, {"ángulo": [0, 30, 60, 90], "claves": [("con", True), ("sin", False)]}, alt=alt, caption="Gira."
    )
    views.predict("02-a", "¿Qué `pasa`?", ["Nada", "Se <b>satura</b>", "Otra"], 1, "Porque sí.\n\nY <i>más</i>.")
    views.predict("02-b", "¿Y ahora?", ["Sí", "No"], 0, "Está claro.")
    blocks.append(GAP)
    views.head_view(attention_weights(), TOKENS, title="Vista de prueba")
    blocks.append(GAP)
    views.model_view(attention_weights(), TOKENS, title="Modelo de prueba", layers=[0, 2], heads=[0, 3, 7])


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    root = tmp_path_factory.mktemp("vistas")
    kinds = {"libro": True, "cuaderno": False, "sin D3": True}
    scripts = ("explore", "predict", "view")
    made = {name: make_page(root / name, show, scripts, in_book=in_book) for name, in_book in kinds.items()}
    for package, file in (("mpld3", "js/d3.v5.min.js"), ("sphinxcontrib.jquery", "jquery.js")):
        source = Path(import_module(package).__file__).parent / file
        for name in [name for name, in_book in kinds.items() if in_book and (name, package) != ("sin D3", "mpld3")]:
            shutil.copy(source, root / name / "_static" / source.name)
    return made


@pytest.fixture(scope="module")
def urls(pages, serve):
    return {name: serve(page.parent.parent) + "cap/prueba.html" for name, page in pages.items()}


def opened(page, selector_text):
    """El marco de la vista con ese título, después de acercarla a la pantalla."""
    block = page.locator(f'.mc-view[data-title="{selector_text}"]')
    block.scroll_into_view_if_needed()
    block.locator("iframe").wait_for()
    frame = block.locator("iframe").element_handle().content_frame()
    frame.wait_for_selector("svg line", state="attached")
    return frame


LINES = """() => [...document.querySelectorAll('#attention line')].map((line) => [
  Number(line.closest('.headAttention').getAttribute('head-index')), Number(line.getAttribute('left-token-index')),
  Number(line.getAttribute('right-token-index')), Number(line.getAttribute('stroke-opacity'))])"""
SHOWN = (
    "() => [...document.querySelectorAll('[role=checkbox]')].map((box) => box.getAttribute('aria-checked') === 'true')"
)


def check_lines(frame, layer, on):
    """Una línea por par y cabeza, y su opacidad × cabezas encendidas es el peso redondeado (0 en las apagadas)."""
    found = frame.evaluate(LINES)
    assert len(found) == N_HEADS * N * N
    assert {tuple(place) for *place, _ in found} == {
        (h, i, j) for h in range(N_HEADS) for i in range(N) for j in range(N)
    }
    weights = attention_weights()[layer]
    for head, i, j, opacity in found:
        expected = round(float(weights[head, i, j]), 4) if on[head] else 0
        assert opacity * sum(on) == pytest.approx(expected, abs=1e-9)
    assert frame.evaluate(SHOWN) == on


# --- Vista por cabezas ---


def test_no_frame_exists_until_it_is_near(visit, urls):
    page, record = visit(urls["libro"])
    page.wait_for_timeout(300)
    assert page.locator("iframe").count() == 0
    opened(page, "Vista de prueba")
    assert page.locator("iframe").count() == 1
    assert page.locator("iframe").get_attribute("title") == "Vista de prueba"
    assert page.locator("iframe").get_attribute("sandbox") == "allow-scripts"
    assert not record.faults


@pytest.mark.parametrize("kind", ["libro", "cuaderno"])
def test_lines_tell_the_weights(visit, urls, kind):
    page, record = visit(urls[kind])
    frame = opened(page, "Vista de prueba")
    everyone = [True] * N_HEADS
    check_lines(frame, 0, everyone)
    frame.locator("#layer").select_option("2")
    check_lines(frame, 2, everyone)
    frame.locator("[role=checkbox]").nth(4).click()
    check_lines(frame, 2, [head != 4 for head in range(N_HEADS)])
    frame.locator("[role=checkbox]").nth(1).dblclick()
    check_lines(frame, 2, [head == 1 for head in range(N_HEADS)])
    assert not record.faults


def test_everything_works_by_keyboard(visit, urls):
    page, _ = visit(urls["libro"])
    frame = opened(page, "Vista de prueba")
    frame.locator("#layer").focus()
    page.keyboard.press("ArrowDown")
    check_lines(frame, 1, [True] * N_HEADS)
    page.keyboard.press("Tab")
    assert frame.evaluate("document.activeElement.getAttribute('aria-label')") == "Cabeza 1.0"
    page.keyboard.press("Space")
    check_lines(frame, 1, [head != 0 for head in range(N_HEADS)])
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    check_lines(frame, 1, [head > 1 for head in range(N_HEADS)])
    page.keyboard.press("Tab")
    page.keyboard.press("Shift+Enter")
    check_lines(frame, 1, [head == 2 for head in range(N_HEADS)])
    page.keyboard.press("Space")  # la única encendida no se apaga
    check_lines(frame, 1, [head == 2 for head in range(N_HEADS)])
    page.keyboard.press("Shift+Enter")  # sola y otra vez: vuelven todas
    check_lines(frame, 1, [True] * N_HEADS)


def test_focus_of_the_squares_is_visible(visit, urls):
    page, _ = visit(urls["libro"])
    frame = opened(page, "Vista de prueba")
    box = frame.locator("[role=checkbox]").first
    width = "(box) => getComputedStyle(box).strokeWidth"
    before = box.evaluate(width)
    frame.locator("#layer").focus()
    page.keyboard.press("Tab")
    assert box.evaluate(width) != before


def test_arrows_move_through_the_tokens(visit, urls):
    page, _ = visit(urls["libro"])
    frame = opened(page, "Vista de prueba")
    frame.locator("[role=checkbox]").last.focus()
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowDown")
    assert frame.evaluate("document.activeElement.getAttribute('aria-label')").startswith("«the»")
    visible = (
        "() => [...document.querySelectorAll('line[visibility=visible]')]"
        ".map((line) => line.getAttribute('left-token-index'))"
    )
    assert set(frame.evaluate(visible)) == {"1"}
    page.keyboard.press("Tab")
    assert frame.evaluate(visible) == []


def test_colors_are_those_of_the_heads(visit, urls):
    page, _ = visit(urls["libro"])
    frame = opened(page, "Vista de prueba")
    strokes = frame.evaluate(
        "() => [...document.querySelectorAll('.headAttention')].map((g) => g.querySelector('line'))"
        ".map((line) => line.getAttribute('stroke'))"
    )
    assert strokes == list(plots.HEAD_COLORS)
    boxes = frame.evaluate("() => [...document.querySelectorAll('[role=checkbox]')].map((b) => b.getAttribute('fill'))")
    assert boxes == list(plots.HEAD_COLORS)


def test_description_follows_what_is_seen(visit, urls):
    page, _ = visit(urls["libro"])
    frame = opened(page, "Vista de prueba")
    frame.locator("summary").click()
    frame.locator("#layer").select_option("1")
    frame.locator("[role=checkbox]").nth(5).dblclick()
    assert frame.locator("#which").inner_text() == "Cabeza 1.5"
    values, keys = attention_weights()[1, 5].max(-1)
    rows = frame.locator("#words tbody tr").all()
    assert len(rows) == N
    for i, row in enumerate(rows):
        token, target, weight = row.locator("th, td").all_inner_texts()
        assert (token, target) == (TOKENS[i], TOKENS[int(keys[i])])
        assert float(weight.replace(",", ".")) == pytest.approx(float(values[i]), abs=0.0051)


def test_token_text_is_not_interpreted(visit, urls):
    page, record = visit(urls["libro"])
    for title in ("Vista de prueba", "Modelo de prueba"):
        frame = opened(page, title)
        assert frame.locator("img, b").count() == 0
        assert page.evaluate("window.hacked") is None
    assert not record.faults


def test_frame_fits_its_content(visit, urls):
    for width in (390, 1280):
        page, _ = visit(urls["libro"], width=width)
        for title in ("Vista de prueba", "Modelo de prueba"):
            frame = opened(page, title)
            for _ in range(2):
                page.wait_for_timeout(250)
                inner, content, across, wide = frame.evaluate(
                    "() => { const all = document.documentElement;"
                    " return [innerHeight, all.scrollHeight, innerWidth, all.scrollWidth]; }"
                )
                assert content == inner
                assert wide <= across
                assert inner - frame.evaluate("document.querySelector('main').offsetHeight") < 30
                frame.locator("summary").click()


def test_without_d3_the_text_remains(visit, urls):
    page, _ = visit(urls["sin D3"])
    block = page.locator(".mc-view").first
    block.scroll_into_view_if_needed()
    frame = block.locator("iframe").element_handle().content_frame()
    frame.wait_for_selector(".warn")
    frame.locator("summary").click()
    assert frame.locator("#words tbody tr").count() == N


@pytest.mark.parametrize(
    "script",
    [
        "delete window.IntersectionObserver;",
        "Object.defineProperty(navigator, 'connection', { value: { saveData: true } });",
    ],
    ids=["sin IntersectionObserver", "ahorro de datos"],
)
def test_there_is_a_button_if_it_does_not_open_by_itself(visit, urls, script):
    page, _ = visit("about:blank")
    page.add_init_script(script)
    page.goto(urls["libro"])
    block = page.locator(".mc-view").first
    block.scroll_into_view_if_needed()
    page.wait_for_timeout(300)
    assert page.locator("iframe").count() == 0
    assert block.locator("img").is_visible()
    block.get_by_role("button", name="Abrir la vista").focus()
    page.keyboard.press("Enter")
    assert block.locator("iframe").count() == 1
    assert not block.locator("img").is_visible()
    assert page.evaluate("document.activeElement.tagName") == "IFRAME"


def test_focus_is_not_lost_when_the_view_opens(visit, urls):
    page, _ = visit(urls["libro"])
    block = page.locator(".mc-view").first
    block.get_by_role("button").focus()  # al acercarse el foco, la vista se abre
    block.locator("iframe").wait_for()
    assert page.evaluate("document.activeElement.className") == "mc-button"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.tagName") == "IFRAME"
    assert not block.locator(".mc-button").is_visible()


def test_opens_as_file_too(visit, pages):
    page, record = visit(pages["libro"].as_uri())
    check_lines(opened(page, "Vista de prueba"), 0, [True] * N_HEADS)
    opened(page, "Modelo de prueba")
    assert not record.faults


# --- Vista del modelo ---


def test_model_view_draws_each_head_and_opens_it(visit, urls):
    page, record = visit(urls["libro"])
    frame = opened(page, "Modelo de prueba")
    thumbnails = frame.locator("[role=button]")
    names = thumbnails.evaluate_all("(all) => all.map((e) => e.getAttribute('aria-label'))")
    assert names == [f"Cabeza {layer}.{head}: ver en grande" for layer in (0, 2) for head in (0, 3, 7)]
    opacities = frame.evaluate(
        """() => [...document.querySelectorAll('.attn_background')].map((b) =>
          [...b.parentNode.querySelectorAll('line')].map((l) => Number(l.getAttribute('stroke-opacity'))))"""
    )
    shown = attention_weights()[[0, 2]][:, [0, 3, 7]].flatten(0, 1).flatten(1)
    assert torch.tensor(opacities).sub(shown).abs().max() < 1e-4
    colors = frame.evaluate(
        "() => [...document.querySelectorAll('.attn_background')]"
        ".map((b) => getComputedStyle(b.parentNode.querySelector('line')).stroke)"
    )
    rgb = [tuple(round(255 * c) for c in plots.to_rgb(plots.HEAD_COLORS[head])) for head in (0, 3, 7)] * 2
    assert colors == [f"rgb({r}, {g}, {b})" for r, g, b in rgb]
    thumbnails.nth(4).click()
    assert frame.locator("text.detail").text_content() == "Cabeza 2.3"
    assert thumbnails.nth(4).get_attribute("aria-pressed") == "true"
    assert not record.faults


def test_model_view_by_keyboard(visit, urls):
    page, _ = visit(urls["libro"], width=390)
    frame = opened(page, "Modelo de prueba")
    frame.locator("[role=button]").first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert frame.locator("text.detail").text_content() == "Cabeza 2.3"
    assert frame.locator("#which").text_content() == "Cabeza 2.3"
    box = frame.locator("rect.detail").bounding_box()
    frame_box = page.locator("iframe").last.bounding_box()
    assert frame_box["x"] <= box["x"] and box["x"] + box["width"] <= frame_box["x"] + frame_box["width"]  # noqa: PT018
    page.keyboard.press("Enter")
    assert frame.locator("text.detail").count() == 0


# --- Figuras con control ---


def test_each_control_changes_the_figure_by_keyboard(visit, urls, pages):
    page, record = visit(urls["libro"])
    block = page.locator(".mc-explore")
    data = json.loads(block.locator('script[type="application/json"]').text_content())
    image, slider, menu = block.locator("img"), block.locator("input"), block.locator("select")

    data["frames"][0] = image.get_attribute("src")

    def state():
        return image.get_attribute("src"), image.get_attribute("alt")

    def expected(i, j):
        return data["frames"][data["index"][2 * i + j]], alt([0, 30, 60, 90][i], j == 0)

    assert state() == expected(0, 0)
    page.get_by_label("ángulo").focus()
    page.keyboard.press("ArrowRight")
    assert state() == expected(1, 0)
    assert slider.get_attribute("aria-valuetext") == "30"
    assert block.locator("output").inner_text() == "30"
    page.keyboard.press("End")
    assert state() == expected(3, 0)
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowDown")
    assert menu.input_value() == "1"
    assert state() == expected(3, 1)
    live = block.locator("[aria-live=polite]")
    page.wait_for_function("() => document.querySelector('.mc-live').textContent !== ''")
    assert live.text_content() == alt(90, False)
    assert not record.faults


def test_figure_follows_the_control_the_browser_restores(visit, urls):
    page, _ = visit(urls["libro"])
    page.locator(".mc-explore input").evaluate("e => { e.value = '2'; dispatchEvent(new Event('pageshow')); }")
    assert page.locator(".mc-explore img").get_attribute("alt") == alt(60, True)
    assert page.locator(".mc-explore output").inner_text() == "60"


def test_controls_are_big_enough_to_touch(visit, urls):
    page, _ = visit(urls["libro"], width=390, has_touch=True)
    frame = opened(page, "Vista de prueba")
    boxes = frame.locator("[role=checkbox]")
    rows = frame.evaluate(
        "Math.min(...[...document.querySelectorAll('.token')].map((e) => e.getBoundingClientRect().top))"
    )
    sizes = [box.bounding_box() for box in [*boxes.all(), frame.locator("select")]]
    assert min(min(box["width"], box["height"]) for box in sizes) >= 24
    assert boxes.first.evaluate("e => e.getBoundingClientRect().bottom") < rows
    controls = page.locator(".mc-explore select, .mc-explore input, .mc-predict button:visible, .mc-predict label")
    assert min(box.bounding_box()["height"] for box in controls.all()) >= 39.5


def test_without_javascript_the_first_state_is_seen_and_not_the_control(visit, urls):
    page, _ = visit(urls["libro"], java_script_enabled=False)
    assert page.locator(".mc-explore img").is_visible()
    assert not page.locator(".mc-explore input").is_visible()
    assert "Aquí se ve un estado de 8" in page.locator(".mc-explore").inner_text()
    view = page.locator(".mc-view").first
    assert view.locator("img").is_visible()
    assert "necesita JavaScript" in view.inner_text()
    question = page.locator(".mc-predict").first
    assert "Se <b>satura</b>" in question.locator("li").nth(1).inner_text()
    assert not question.get_by_text("Porque sí.").is_visible()
    question.locator("summary").click()
    assert question.get_by_text("Porque sí.").is_visible()


def test_paper_shows_the_first_state_without_control_and_still_views(visit, urls):
    page, _ = visit(urls["libro"])
    opened(page, "Vista de prueba")
    page.locator(".mc-explore input").press("End")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    assert page.locator(".mc-explore img").get_attribute("alt") == alt(0, True)
    assert not page.locator(".mc-explore input").is_visible()
    assert page.locator(".mc-explore .mc-still").is_visible()
    assert page.locator(".mc-view").first.locator("img").is_visible()
    assert not page.locator("iframe").first.is_visible()
    page.emulate_media(media="screen")
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert page.locator(".mc-explore img").get_attribute("alt") == alt(90, True)


# --- Predicciones ---


def test_explanation_waits_for_an_answer(visit, urls):
    page, record = visit(urls["libro"])
    block = page.locator(".mc-predict").first
    assert page.get_by_text("Porque sí.").count() == 0
    block.get_by_role("button", name="Esta es mi predicción").click()
    assert page.get_by_text("Porque sí.").count() == 0
    block.get_by_role("radio", name="Nada").check()
    assert page.get_by_text("Porque sí.").count() == 0
    block.get_by_role("button", name="Esta es mi predicción").click()
    feedback = block.locator("[aria-live=polite]")
    assert "No es lo que ocurre." in feedback.inner_text()
    assert "Porque sí." in feedback.inner_text()
    assert "Y <i>más</i>." in feedback.inner_text()
    assert "Se <b>satura</b> ✓ (lo que ocurre)" in block.locator("label").nth(1).inner_text()
    assert block.get_by_role("radio").first.is_disabled()
    assert not record.faults


def test_answer_is_saved_and_can_be_changed(visit, urls):
    page, _ = visit(urls["libro"])
    first, second = page.locator(".mc-predict").all()
    first.get_by_role("radio").nth(1).focus()
    page.keyboard.press("Space")
    page.keyboard.press("Enter")
    assert "Tu predicción se cumple." in first.inner_text()
    page.reload()
    assert "Tu predicción se cumple." in first.inner_text()
    assert first.get_by_role("radio").nth(1).is_checked()
    assert "Está claro." not in second.inner_text()
    change = first.get_by_role("button", name="Cambiar mi respuesta")
    change.focus()
    page.keyboard.press("Enter")
    assert "Porque sí." not in first.inner_text()
    assert page.evaluate("document.activeElement.type") == "radio"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert "No es lo que ocurre." in first.inner_text()
    page.reload()
    assert first.get_by_role("radio").nth(2).is_checked()


def test_answers_to_another_version_of_the_question_do_not_count(visit, urls):
    page, _ = visit(urls["libro"])
    page.evaluate('localStorage.setItem(\'multicabeza.predict.02-a\', \'{"version":"otra","choice":1}\')')
    page.evaluate("localStorage.setItem('multicabeza.predict.02-b', 'esto no es JSON')")
    page.reload()
    assert page.get_by_role("button", name="Esta es mi predicción").count() == 2


def test_two_tabs_with_the_same_prediction(visit, urls):
    """Lo que se predice, se cambia o se borra en una pestaña se ve en la otra."""
    page, record = visit(urls["libro"])
    other = page.context.new_page()
    other.goto(urls["libro"])
    one, two = page.locator(".mc-predict").first, other.locator(".mc-predict").first
    one.locator("input").first.check()
    one.get_by_role("button", name="Esta es mi predicción").click()
    said = one.locator(".mc-feedback").inner_text()
    expect(two.locator(".mc-feedback")).to_have_text(said, use_inner_text=True)
    assert two.locator(".mc-mark").count() == one.locator(".mc-mark").count() > 0
    two.get_by_role("button", name="Cambiar mi respuesta").click()
    expect(one.get_by_role("button", name="Esta es mi predicción")).to_be_visible()
    assert one.locator(".mc-mark").count() == 0
    assert one.locator(".mc-feedback").inner_text() == ""
    assert not record.faults


def test_without_storage_it_works_and_says_so(visit, urls):
    page, record = visit("about:blank")
    page.add_init_script(
        "Object.defineProperty(window, 'localStorage', { get() { throw new DOMException('no', 'SecurityError'); } });"
    )
    page.goto(urls["libro"])
    block = page.locator(".mc-predict").first
    block.get_by_role("radio").nth(1).check()
    block.get_by_role("button", name="Esta es mi predicción").click()
    assert "Tu predicción se cumple." in block.inner_text()
    assert "se olvidará al cerrar la página" in block.inner_text()
    assert not record.faults


# --- Accesibilidad e idioma ---


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_axe_finds_nothing_even_inside_the_frames(visit, urls, theme, width):
    page, _ = visit(urls["libro"], width=width, theme=theme)
    page.evaluate("(theme) => { document.documentElement.dataset.theme = theme; }", theme)
    faults = axe(page)
    head, model = opened(page, "Vista de prueba"), opened(page, "Modelo de prueba")
    head.locator("summary").click()
    model.locator("summary").click()
    model.locator("[role=button]").nth(2).click()
    head.locator("[role=checkbox]").nth(2).click()
    block = page.locator(".mc-predict").first
    block.get_by_role("radio").first.check()
    block.get_by_role("button").first.click()
    assert len(page.frames) == 3
    faults += axe(page)
    assert not faults, lines(faults)


def test_nothing_overflows_a_screen_of_320(visit, urls):
    page, _ = visit(urls["libro"], width=320)
    for title in ("Vista de prueba", "Modelo de prueba"):
        frame = opened(page, title)
        assert frame.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate("document.documentElement.scrollWidth") <= 320


def test_everything_is_in_spanish(visit, urls):
    page, _ = visit(urls["libro"])
    frame = opened(page, "Modelo de prueba")
    frame.locator("[role=button]").first.click()
    opened(page, "Vista de prueba")
    assert not english(page)


# --- En JupyterLab y Notebook, el teclado ---


def test_keys_pressed_in_an_output_are_not_notebook_commands(visit, urls):
    """Sin esto, con el foco en una opción, «x» corta la celda y las flechas se la llevan."""
    page, record = visit(urls["cuaderno"])
    page.evaluate(  # las órdenes que daría Jupyter, que escucha en `document`, al bajar (Notebook) o al subir (Lab)
        """() => { window.commands = []; for (const capture of [true, false]) document.addEventListener("keydown",
        ({ key, target }) => target.closest("[data-lm-suppress-shortcuts]") || commands.push(key), { capture }); }"""
    )
    option = page.locator(".mc-predict input").first
    option.focus()
    for key in ("x", "d", "ArrowDown", "b", "Escape", "Shift+M"):
        page.keyboard.press(key)
    expect(page.locator(".mc-predict input").nth(1)).to_be_checked()
    page.locator(".mc-explore input").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("z")
    assert page.evaluate("commands") == []
    # Ejecutar y guardar siguen siendo del cuaderno; pero en un texto, Mayús+Intro es un salto de línea.
    option.focus()
    for key in ("Shift+Enter", "Control+s", "x"):
        page.keyboard.press(key)
    assert page.evaluate("commands") == ["Enter", "Enter", "Control", "Control", "s", "s"]
    page.evaluate("document.querySelector('.mc-predict').append(document.createElement('textarea')); commands = []")
    page.locator("textarea").focus()
    page.keyboard.press("Shift+Enter")
    assert page.evaluate("commands") == []
    assert not record.faults
