"""`token_view` en el navegador: elegir cabezas y tokens con el ratón, el dedo y el teclado, y que el color sea el peso.

Como en `test_views.py`, cada página se hace aquí: una como en el libro, con los archivos aparte; otra como en un
cuaderno, con todo dentro de cada salida. En las dos hay dos vistas: una con papeles y tokens hostiles, y otra causal
con tantas capas que el mapa las pone en columnas.
"""

import re

import pytest
import torch
from playwright.sync_api import expect

from multicabeza import plots, views
from tests.browser.detectors import axe, english, lines, sideways
from tests.browser.standalone import WEB, make_page

HOSTILE = '"><img src=x onerror="hacked=1">'
TOKENS = ["[CLS]", "El", "perro", "ve", "el", "gato", "</script><b>x", HOSTILE, "\u202egato", "gato", "[SEP]"]
SHOWN = views.readable_tokens(TOKENS)
ROLES = {"token anterior": [(0, 2), (3, 1)], "objeto": [(3, 1)], "sujeto": []}
LAYERS, HEADS, N = 4, 12, len(TOKENS)
MANY_LAYERS, MANY_HEADS, MANY = 30, 9, 24
MANY_ROLES = {"inducción": [(17, 4), (18, 6)], "token anterior": [(16, 0)]}


def first_weights():
    random = torch.Generator().manual_seed(5)
    made = torch.softmax(torch.randn(LAYERS, HEADS, N, N, generator=random) * 3, -1)
    made[2, 5, 4] = 0  # una consulta sin ninguna clave
    made[1, 7] = torch.eye(N)  # cada uno se mira a sí mismo
    return made


def second_weights():
    random = torch.Generator().manual_seed(6)
    scores = torch.randn(MANY_LAYERS, MANY_HEADS, MANY, MANY, generator=random) * 3
    return torch.softmax(scores.masked_fill(torch.ones(MANY, MANY).triu(1).bool(), -torch.inf), -1)


def show(blocks):
    views.token_view(
        first_weights(), TOKENS, title="Las cabezas <b>de</b> prueba", roles=ROLES, layer=3, head=1, caption="Un pie."
    )
    views.token_view(second_weights(), [f"t{i}" for i in range(MANY)], title="Muchas capas", roles=MANY_ROLES, layer=17)


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    root = tmp_path_factory.mktemp("tokens")
    kinds = {"libro": True, "cuaderno": False}
    return {name: make_page(root / name, show, ["tokens"], in_book=in_book) for name, in_book in kinds.items()}


@pytest.fixture(scope="module")
def urls(pages, serve):
    return {name: serve(page.parent.parent) + "cap/prueba.html" for name, page in pages.items()}


def block(page, which=0):
    return page.locator(".mc-tokens").nth(which)


def square(page, layer, head, which=0):
    return block(page, which).get_by_role("gridcell", name=re.compile(rf"^Cabeza {layer}\.{head}( |$)"))


def words(page, which=0):
    return block(page, which).locator(".sentence button")


def written(weight):
    """Dos decimales de las milésimas, con el medio hacia arriba, como los escribe el guion."""
    return plots.spanish_number((round(weight * 1000) + 5) // 10 / 100)


def thousandths(weights):
    return weights.double().mul(1000).round().div(1000)


ALPHA = """(nodes) => nodes.map((e) => { const c = getComputedStyle(e);
  const parts = c.backgroundColor.match(/[\\d.]+/g).map(Number); return parts.length > 3 ? parts[3] : 1; })"""
STILL = "() => !document.getAnimations().length"  # ningún color está cambiando
ROUNDED = 0.0055  # el navegador dice la opacidad de un color con dos decimales
OPACITY = "(nodes) => nodes.map((e) => [Number(e.dataset.k), Number(getComputedStyle(e).fillOpacity)])"


def check(page, weights, tokens, layer, head, query, *, which=0, to=False):
    """Todo lo que se ve de una cabeza y un token sale de sus pesos."""
    matrix = thousandths(weights)[layer, head]
    row = matrix[:, query] if to else matrix[query]
    n = len(tokens)
    page.wait_for_function(STILL)
    assert block(page, which).locator(".head").inner_text().split(" · ")[0] == f"Cabeza {layer}.{head}"
    asked = words(page, which).evaluate_all("(nodes) => nodes.map((e) => Number(e.style.getPropertyValue('--w')))")
    assert asked == pytest.approx(row.tolist(), abs=1e-6)
    assert words(page, which).evaluate_all(ALPHA) == pytest.approx(row.tolist(), abs=ROUNDED)
    best = int(row.argmax())
    shown = words(page, which).evaluate_all(
        "(nodes) => nodes.map((e) => [...e.children].map((part) => part.textContent))"
    )
    assert shown == [
        [tokens[k], written(float(row[k])), "el mayor" if k == best and row[best] > 0 else ""] for k in range(n)
    ]
    classes = [name.split() for name in words(page, which).evaluate_all("(nodes) => nodes.map((e) => e.className)")]
    assert [k for k in range(n) if "best" in classes[k]] == ([best] if row[best] > 0 else [])
    assert [k for k in range(n) if "query" in classes[k]] == [query]
    for k, opacity in block(page, which).locator("rect.weight").evaluate_all(OPACITY):
        assert opacity == pytest.approx(float(matrix[k // n, k % n]), abs=1e-4)
    selected = block(page, which).locator("[role=gridcell][aria-selected=true]")
    assert selected.count() == 1
    assert selected.get_attribute("aria-label").split(" · ")[0] == f"Cabeza {layer}.{head}"
    lists = block(page, which).locator("select")
    assert [lists.nth(k).input_value() for k in (0, 1)] == [str(layer), str(head)]


# --- El color es el peso ---


@pytest.mark.parametrize("kind", ["libro", "cuaderno"])
def test_each_head_shades_the_sentence_with_its_weights(visit, urls, kind):
    page, record = visit(urls[kind])
    for layer, head, query in [(3, 1, 2), (0, 2, 0), (1, 7, 3), (2, 5, 4), (0, 11, N - 1)]:
        square(page, layer, head).click()
        words(page).nth(query).click()
        page.mouse.move(0, 0)
        check(page, first_weights(), SHOWN, layer, head, query)
    for layer, head, query in [(17, 4, 23), (0, 0, 0), (29, 8, 12)]:
        square(page, layer, head, 1).click()
        words(page, 1).nth(query).click()
        page.mouse.move(0, 0)
        check(page, second_weights(), [f"t{i}" for i in range(MANY)], layer, head, query, which=1)
    assert not record.faults


def test_who_looks_at_it_shows_the_column(visit, urls):
    page, _ = visit(urls["libro"])
    words(page).nth(5).click()
    block(page).get_by_text("Quién lo mira").click()
    page.mouse.move(0, 0)
    check(page, first_weights(), SHOWN, 3, 1, 5, to=True)
    assert block(page).locator(".summary").inner_text().startswith("A «gato» lo mira sobre todo ")
    # La otra vista sigue como estaba.
    check(page, second_weights(), [f"t{i}" for i in range(MANY)], 17, 0, query_of(page, 1), which=1)


def query_of(page, which):
    pressed = words(page, which).evaluate_all("(nodes) => nodes.map((e) => e.getAttribute('aria-pressed') === 'true')")
    assert sum(pressed) == 1
    return pressed.index(True)


def test_what_is_said_of_odd_cases(visit, urls):
    page, _ = visit(urls["libro"])
    summary = block(page).locator(".summary")
    square(page, 1, 7).click()
    words(page).nth(2).click()
    assert summary.inner_text() == "«perro» se mira sobre todo a sí mismo: 1,00."
    block(page).get_by_text("Quién lo mira").click()
    assert summary.inner_text() == "A «perro» lo mira sobre todo él mismo: 1,00."
    block(page).get_by_text("A quién mira").click()
    square(page, 2, 5).click()
    words(page).nth(4).click()
    assert summary.inner_text() == "«el» no mira a ningún token."
    assert block(page).locator("rect.ring").is_hidden()
    # Un token repetido dice cuál es.
    words(page).nth(9).click()
    assert summary.inner_text().startswith("«gato» (2.ª vez) mira sobre todo a ")


def test_what_a_causal_model_cannot_see_is_not_drawn(visit, urls):
    page, _ = visit(urls["libro"])
    assert block(page, 1).locator("rect.weight").count() == MANY * (MANY + 1) // 2
    words(page, 1).nth(10).click()
    never = words(page, 1).evaluate_all("(nodes) => nodes.map((e) => e.classList.contains('never'))")
    assert never == [k > 10 for k in range(MANY)]


def test_map_grey_is_the_mean_of_the_largest_weights(visit, urls):
    page, _ = visit(urls["libro"])
    means = thousandths(first_weights()).max(-1).values.mean(-1)
    for layer, head in [(0, 0), (2, 11), (1, 7), (2, 5)]:
        cell = square(page, layer, head)
        assert cell.evaluate_all(ALPHA)[0] == pytest.approx(float(means[layer, head]), abs=ROUNDED)
        assert cell.get_attribute("aria-label").endswith(
            f"concentración {plots.spanish_number(float(means[layer, head]))}"
        )


# --- Papeles ---


def test_roles_have_letter_color_and_name(visit, urls):
    page, _ = visit(urls["libro"])
    marked = (
        block(page)
        .locator(".square")
        .evaluate_all(
            "(nodes) => nodes.map((e) => [e.getAttribute('aria-label'), e.textContent]).filter(([, text]) => text)"
        )
    )
    assert marked == [["Cabeza 0.2 · token anterior", "A"], ["Cabeza 3.1 · token anterior, objeto", "AB"]]
    assert block(page).locator(".head").inner_text() == "Cabeza 3.1 · token anterior, objeto"
    legend = block(page).locator(".roles li")
    assert legend.locator("b").all_inner_texts() == ["A", "B", "C"]
    assert "(ninguna)" in legend.nth(2).inner_text()
    assert legend.nth(2).locator("button").count() == 0
    colors = legend.locator("b").evaluate_all("(nodes) => nodes.map((e) => getComputedStyle(e).backgroundColor)")
    paint = square(page, 3, 1).evaluate("(e) => getComputedStyle(e).backgroundImage")
    assert colors[0] in paint
    assert colors[1] in paint
    assert len(set(colors)) == 3


def test_a_role_opens_its_heads_one_after_another(visit, urls):
    page, _ = visit(urls["libro"])
    role = block(page).get_by_role("button", name="token anterior")
    seen = []
    for _ in range(3):
        role.click()
        seen.append(block(page).locator(".head").inner_text().split(" · ")[0])
    assert seen == ["Cabeza 0.2", "Cabeza 3.1", "Cabeza 0.2"]


# --- Teclado, ratón y dedo ---


def focused(page):
    return page.evaluate(
        "() => document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent"
    )


def test_everything_works_by_keyboard_alone(visit, urls):
    page, record = visit(urls["libro"])
    page.keyboard.press("Tab")  # un papel
    page.keyboard.press("Enter")
    assert block(page).locator(".head").inner_text().startswith("Cabeza 0.2")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")  # el mapa, en la cabeza elegida
    assert focused(page).startswith("Cabeza 0.2")
    for key, head in [
        ("ArrowRight", "0.3"), ("ArrowDown", "1.3"), ("ArrowLeft", "1.2"), ("Home", "1.0"), ("ArrowLeft", "1.0"),
        ("End", "1.11"), ("ArrowRight", "1.11"), ("ArrowUp", "0.11"), ("ArrowUp", "0.11"),
    ]:  # fmt: skip
        page.keyboard.press(key)
        assert focused(page).startswith(f"Cabeza {head} "), key
        assert block(page).locator(".head").inner_text() == f"Cabeza {head}"
    page.keyboard.press("Tab")  # la lista de capas
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Tab")
    page.keyboard.press("Home")
    assert block(page).locator(".head").inner_text() == "Cabeza 1.0"
    page.keyboard.press("Tab")  # a quién mira
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Tab")  # la frase: un solo paso de tabulador
    page.keyboard.press("Home")
    assert focused(page).startswith("[CLS]")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert focused(page).startswith("perro")
    page.keyboard.press("Enter")
    check(page, first_weights(), SHOWN, 1, 0, 2, to=True)
    page.keyboard.press("End")
    page.keyboard.press("Space")
    check(page, first_weights(), SHOWN, 1, 0, N - 1, to=True)
    page.keyboard.press("Tab")  # y se sale: lo siguiente es la otra vista
    assert not block(page).evaluate("(e) => e.contains(document.activeElement)")
    assert not record.faults


def test_arrows_go_as_seen_when_layers_are_columns(visit, urls):
    page, _ = visit(urls["libro"])
    square(page, 17, 4, 1).click()
    for key, head in [("ArrowRight", "18.4"), ("ArrowDown", "18.5"), ("End", "29.5"), ("Home", "0.5")]:
        page.keyboard.press(key)
        assert focused(page).startswith(f"Cabeza {head} ")


def test_choices_are_announced(visit, urls):
    page, _ = visit(urls["libro"])
    live = block(page).locator(".mc-live")
    assert live.get_attribute("aria-live") == "polite"
    page.wait_for_timeout(700)
    assert live.text_content() == ""  # al abrir la página no se anuncia nada
    square(page, 0, 2).click()
    expect(live).to_have_text(re.compile(r"^Cabeza 0\.2 · token anterior\. «.*» mira sobre todo a «.*»: \d,\d\d\.$"))
    words(page).nth(3).click()
    expect(live).to_contain_text("«ve» mira sobre todo a")


def test_hovering_shows_and_clicking_keeps(visit, urls):
    page, _ = visit(urls["libro"])
    words(page).nth(3).click()
    words(page).nth(5).hover()
    page.wait_for_function(STILL)
    row = thousandths(first_weights())[3, 1, 5].tolist()
    assert words(page).evaluate_all(ALPHA) == pytest.approx(row, abs=ROUNDED)
    assert query_of(page, 0) == 3
    page.mouse.move(0, 0)
    check(page, first_weights(), SHOWN, 3, 1, 3)


def test_a_map_cell_says_its_weight_and_chooses_its_row(visit, urls):
    page, _ = visit(urls["libro"])
    block(page).locator('rect[data-k="25"]').click()  # fila 2, columna 3
    weight = thousandths(first_weights())[3, 1, 2, 3]
    assert block(page).locator(".axis").inner_text() == f"«perro» → «ve»: {written(float(weight))}"
    assert query_of(page, 0) == 2
    page.mouse.move(0, 0)
    assert block(page).locator(".axis").inner_text() == "Fila: quién mira. Columna: a quién."


def test_by_touch(visit, urls):
    page, record = visit(urls["libro"], width=390, has_touch=True)
    square(page, 0, 2).tap()
    words(page).nth(5).tap()
    check(page, first_weights(), SHOWN, 0, 2, 5)
    words(page, 1).nth(20).tap()
    # El dedo recorre el mapa de lado a lado, aunque los cuadros sean estrechos.
    grid = block(page, 1).locator("[role=grid]")
    grid.scroll_into_view_if_needed()
    box, target = grid.bounding_box(), square(page, 28, 3, 1).bounding_box()
    y = target["y"] + target["height"] / 2
    touch = page.context.new_cdp_session(page)
    touch.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [{"x": box["x"] + 60, "y": y}]})
    for x in (box["x"] + 120, box["x"] + 200, target["x"] + target["width"] / 2):
        touch.send("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": [{"x": x, "y": y}]})
    touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    expect(block(page, 1).locator(".head")).to_have_text("Cabeza 28.3")
    assert not record.faults


def test_targets_are_big_enough_to_touch(visit, urls):
    """24 px, o las listas de capa y cabeza, que llegan a las mismas cabezas y son mayores."""
    page, _ = visit(urls["libro"], width=390, has_touch=True)
    for control in block(page).locator("button, select, .square, fieldset label").all():
        box = control.bounding_box()
        assert min(box["width"], box["height"]) >= 24, control.inner_text()
    for control in block(page, 1).locator("select").all():
        assert control.bounding_box()["height"] >= 36


# --- Texto que viene de fuera ---


@pytest.mark.parametrize("kind", ["libro", "cuaderno"])
def test_tokens_are_text_and_nothing_more(visit, urls, kind):
    page, record = visit(urls[kind])
    for i in (6, 7, 8):
        words(page).nth(i).click()
    assert words(page).locator("bdi").all_inner_texts() == SHOWN
    assert SHOWN[7] == HOSTILE
    assert SHOWN[8] == "�gato"
    assert page.evaluate("() => window.hacked") is None
    assert page.locator(".mc-tokens img").count() == 2  # las figuras quietas
    assert page.locator(".sentence b").count() == 0
    assert block(page).locator(".mc-tokens-title").inner_text() == "Las cabezas <b>de</b> prueba"
    assert not record.faults


# --- Varias vistas, sin JavaScript y en papel ---


@pytest.mark.parametrize("kind", ["libro", "cuaderno"])
def test_two_views_do_not_mix(visit, urls, kind):
    page, record = visit(urls[kind])
    assert page.locator(".mc-tokens[data-ready]").count() == 2
    before = block(page, 1).inner_html()
    square(page, 0, 0).click()
    words(page).nth(1).click()
    block(page).get_by_text("Quién lo mira").click()
    assert block(page, 1).inner_html() == before
    assert block(page, 1).get_by_label("A quién mira").is_checked()
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map((e) => e.id)")
    assert len(ids) == len(set(ids)) >= 4
    assert not record.faults


def test_without_javascript_the_figure_and_the_words_remain(visit, urls):
    page, _ = visit(urls["libro"], java_script_enabled=False, width=390)
    assert block(page).locator("img").is_visible()
    assert not block(page).locator(".panel").is_visible()
    text = block(page).inner_text()
    assert "El enlace más fuerte de cada token en la cabeza 3.1" in text
    assert "Token anterior: 0.2, 3.1. Objeto: 3.1. Sujeto: ninguna cabeza." in text
    assert "JavaScript" in text
    assert not sideways(page)


def test_paper_shows_the_figure(visit, urls):
    page, _ = visit(urls["libro"])
    square(page, 0, 0).click()
    page.emulate_media(media="print")
    assert block(page).locator("img").is_visible()
    assert not block(page).locator(".panel").is_visible()
    assert "El enlace más fuerte" in block(page).inner_text()


def test_works_as_file_too(visit, pages):
    page, record = visit(pages["libro"].as_uri())
    square(page, 0, 2).click()
    words(page).nth(5).click()
    page.mouse.move(0, 0)
    check(page, first_weights(), SHOWN, 0, 2, 5)
    assert not record.faults


# --- Accesibilidad, idioma y pantallas pequeñas ---


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_axe_finds_nothing(visit, urls, theme, width):
    page, _ = visit(urls["libro"], width=width, theme=theme, reduced_motion="reduce")
    page.evaluate("(theme) => { document.documentElement.dataset.theme = theme; }", theme)
    faults = axe(page)
    square(page, 1, 7).click()
    words(page).nth(5).click()
    words(page, 1).nth(20).click()
    faults += axe(page)
    block(page).get_by_text("Quién lo mira").click()
    faults += axe(page)
    assert not faults, lines(faults)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_is_readable_over_any_shade(visit, urls, theme):
    page, _ = visit(urls["libro"], theme=theme, reduced_motion="reduce")
    page.evaluate("(theme) => { document.documentElement.dataset.theme = theme; }", theme)
    strong = float(re.search(r"STRONG = ([\d.]+)", (WEB / "tokens.js").read_text("utf8"))[1])
    seen = page.evaluate(
        """(strong) => {
          const parts = (color) => color.match(/[\\d.]+/g).map(Number);
          const word = document.querySelector('.word'), panel = document.querySelector('.mc-tokens');
          const paper = parts(getComputedStyle(panel).backgroundColor), found = [];
          for (let k = 0; k <= 1000; k++) {
            word.style.setProperty('--w', k / 1000);
            word.classList.toggle('strong', k / 1000 > strong);
            const style = getComputedStyle(word), [r, g, b] = parts(style.backgroundColor), a = k / 1000;
            found.push([[r, g, b].map((c, i) => (a ? c : 0) * a + paper[i] * (1 - a)), parts(style.color).slice(0, 3)]);
          }
          return found;
        }""",
        strong,
    )
    for k, (back, ink) in enumerate(seen):
        light, dark = sorted((plots._luminance([c / 255 for c in color]) for color in (back, ink)), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5, (k, back, ink)
    assert seen[0][1] != seen[-1][1]


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_nothing_overflows_the_screen(visit, urls, width):
    page, _ = visit(urls["libro"], width=width)
    assert not sideways(page)
    for which in (0, 1):
        over = block(page, which).evaluate(
            """(block) => { const edge = block.getBoundingClientRect().right;
              return [...block.querySelectorAll('.panel *')].filter((e) => e.checkVisibility()
                && e.getBoundingClientRect().width > 1.5 && e.getBoundingClientRect().right > edge)
                .map((e) => e.outerHTML.slice(0, 80)); }"""
        )
        assert over == []


def test_map_labels_are_readable_on_a_phone(visit, urls):
    page, _ = visit(urls["libro"], width=390)
    for which in (0, 1):
        sizes = (
            block(page, which)
            .locator("svg text")
            .evaluate_all(
                """(nodes) => nodes.filter((e) => e.checkVisibility()).map((e) =>
              parseFloat(getComputedStyle(e).fontSize) * e.ownerSVGElement.getBoundingClientRect().width
                / e.ownerSVGElement.viewBox.baseVal.width)"""
            )
        )
        assert len(sizes) >= 2 * (N, MANY)[which] - 2
        assert min(sizes) >= 9


def test_no_motion_for_those_who_do_not_want_it(visit, urls):
    page, _ = visit(urls["libro"], reduced_motion="reduce")
    assert words(page).first.evaluate("(e) => getComputedStyle(e).transitionDuration") == "0s"


def test_dark_mode_of_each_site(visit, urls):
    """En Jupyter y en Colab el modo oscuro se dice de otras maneras."""
    page, _ = visit(urls["cuaderno"])
    paper = "() => getComputedStyle(document.querySelector('.mc-tokens')).backgroundColor"
    light = page.evaluate(paper)
    page.evaluate("() => { document.documentElement.removeAttribute('data-theme'); }")
    assert page.evaluate(paper) == light
    page.evaluate("() => { document.body.dataset.jpThemeLight = 'false'; }")
    dark = page.evaluate(paper)
    assert dark != light
    page.evaluate(
        "() => { delete document.body.dataset.jpThemeLight; document.documentElement.setAttribute('theme', 'dark'); }"
    )
    assert page.evaluate(paper) == dark


def test_everything_is_in_spanish(visit, urls):
    page, _ = visit(urls["libro"])
    assert not english(page)
    square(page, 0, 2).click()
    words(page).nth(5).click()
    assert not english(page)
