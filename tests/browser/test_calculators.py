"""Las calculadoras en el navegador: las mismas cuentas que `cost`, con teclado, sin JavaScript, en papel y con errores.

Como en `test_views.py`, cada página se hace aquí: una como en el libro, con los archivos aparte; otra como en un
cuaderno, con todo dentro de cada salida, y dos calculadoras, para que el guion se cargue dos veces.
"""

import itertools
import re

import pytest
from playwright.sync_api import expect

from multicabeza import cost, views
from tests.browser.detectors import axe, english, lines, sideways
from tests.browser.standalone import make_page

DEFAULT = {"d_model": 512, "h": 8, "n": 128, "bytes": 4}

# Anchuras con muchos divisores, con pocos, impares y primas; cabezas que las dividen y que no; hasta los límites.
D_MODELS = (1, 7, 12, 30, 64, 75, 512, 576, 768, 4096, 4544, 15120, views.MAX_D_MODEL)
HEADS = (1, 2, 3, 7, 8, 12, 64, 71, 128, 512, views.MAX_D_MODEL)
TOKENS = (1, 17, 128, 1024, views.MAX_TOKENS)
GRID = [
    (d_model, h, n, size)
    for (d_model, h, n), size in zip(itertools.product(D_MODELS, HEADS, TOKENS), itertools.cycle((4, 2)))
]  # fmt: skip
DIVISIBLE = [case for case in GRID if case[0] % case[1] == 0]
INDIVISIBLE = sorted({(d_model, h) for d_model, h, _, _ in GRID if d_model % h})


def show_one(blocks):
    views.calculator("heads")


def show_two(blocks):
    show_one(blocks)
    show_one(blocks)


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    root = tmp_path_factory.mktemp("calculadoras")
    return {
        "libro": make_page(root / "libro", show_one, ["calculator"], in_book=True),
        "cuaderno": make_page(root / "cuaderno", show_two, [], in_book=False),
    }


@pytest.fixture(scope="module")
def urls(pages, serve):
    return {name: serve(page.parent.parent) + "cap/prueba.html" for name, page in pages.items()}


def results(page, which=0):
    """Lo que dicen las casillas y la comparación de una calculadora."""
    return (
        page.locator(".mc-calculator")
        .nth(which)
        .evaluate(
            """(block) => [
          Object.fromEntries([...block.querySelectorAll('[data-out]')].map((e) => [e.dataset.out, e.textContent])),
          [...block.querySelectorAll('[data-rows] tr')].map((row) => [row.getAttribute('aria-current') === 'true',
            ...[...row.children].map((cell) => cell.textContent)])]"""
        )
    )


def expected(d_model, h, n, size):
    """Lo mismo, calculado con `cost`."""
    texts = views._heads_texts(d_model, h, n, size)
    rows = [
        [chosen, head, *(cell[0] for cell in cells)] for chosen, head, *cells in views._heads_rows(d_model, h, n, size)
    ]
    return [texts, rows]


def fill(page, which=0, **values):
    for key, value in values.items():
        page.locator(".mc-calculator").nth(which).locator(f"[data-field={key}]").fill(str(value))


# --- Las mismas cuentas que cost.py ---


def test_there_are_enough_cases_of_both_kinds():
    assert len(DIVISIBLE) > 150
    assert len(INDIVISIBLE) > 60


def test_formulas_give_the_integers_of_cost(visit, urls):
    page, _ = visit(urls["libro"])
    found = page.evaluate(
        """(cases) => { const { cost } = mcCalculator; return cases.map(([d, h, n, size]) => [
          cost.params(d, h), cost.projections(d, h, n), cost.attention(d, h, n), cost.scores(h, n),
          cost.scores(h, n) * size].map(String)); }""",
        DIVISIBLE,
    )
    for (d_model, h, n, size), numbers in zip(DIVISIBLE, found, strict=True):
        flops = cost.attention_flops(d_model, h, n)
        memory = cost.score_bytes(h, n, bytes_per_element=size)
        exact = [cost.attention_params(d_model, h), *flops, cost.score_elements(h, n), memory]
        assert numbers == [str(number) for number in exact], (d_model, h, n, size)
        assert max(*exact, flops.total) < 2**53


def test_texts_and_rows_are_those_of_python(visit, urls):
    page, _ = visit(urls["libro"])
    found = page.evaluate(
        """(cases) => cases.map(([d_model, h, n, bytes]) => { const v = { d_model, h, n, bytes };
          const { texts, rows, check } = mcCalculator.specs.heads; return [texts(v), rows(v), check(v)]; })""",
        DIVISIBLE,
    )
    for case, (texts, rows, fault) in zip(DIVISIBLE, found, strict=True):
        assert fault == {}, case
        assert texts == views._heads_texts(*case), case
        for row, made in itertools.zip_longest(rows, views._heads_rows(*case)):
            assert row[:2] == made[:2], case
            for cell, other in zip(row[2:], made[2:], strict=True):
                assert cell[0] == other[0], case
                assert cell[1:] == pytest.approx(other[1:]), case


def test_an_h_that_does_not_divide_gives_the_nearest(visit, urls):
    page, _ = visit(urls["libro"])
    found = page.evaluate(
        "(cases) => cases.map(([d_model, h]) => mcCalculator.specs.heads.check({ d_model, h, n: 5, bytes: 4 }))",
        INDIVISIBLE,
    )
    for (d_model, h), fault in zip(INDIVISIBLE, found, strict=True):
        text, near = fault["h"]
        assert near == cost.nearest_divisors(d_model, h)
        assert "NaN" not in text
        with pytest.raises(
            ValueError, match=rf"no se puede repartir entre {h} cabezas .*\({' o '.join(map(str, near))}\)"
        ):
            cost.attention_params(d_model, h)


def test_numbers_are_written_alike(visit, urls):
    """Los que caen justo en medio, los que cambian de unidad y los de los límites."""
    page, _ = visit(urls["libro"])
    numbers = [*range(1, 1200, 7), 9999, 10_000, 999_499, 999_500, 1_000_000, 9_995_000, 99_950_000, 2**50, 2**53 - 1]
    sizes = [*range(1, 3000, 8), 1152, 1147, 1024**2 - 1, 1024**2, 1024**2 * 3 // 2, 2**50, 5 * 2**50]
    found = page.evaluate(
        """([numbers, sizes]) => { const { whole, rounded, bytes } = mcCalculator.format;
          return [numbers.map(whole), numbers.map(rounded), sizes.map(bytes)]; }""",
        [numbers, sizes],
    )
    assert found == [
        list(map(views._whole, numbers)),
        list(map(views._rounded, numbers)),
        list(map(views._bytes, sizes)),
    ]


# --- El primer caso, y sin JavaScript ---


def test_script_changes_nothing_written_by_python(visit, urls):
    shown = []
    for javascript in (False, True):
        page, record = visit(urls["libro"], java_script_enabled=javascript)
        assert page.locator(".mc-calculator[data-ready]").count() == javascript
        block = page.locator(".mc-calculator")
        html = [
            node.evaluate("e => e.outerHTML")
            for node in block.locator(".mc-groups, .mc-legend, table, .mc-strip").all()
        ]
        widths = [bar.bounding_box()["width"] for bar in block.locator(".mc-bar").all()]
        shown.append(
            (
                html,
                widths,
                block.evaluate("e => [e.style.getPropertyValue('--h'), e.style.getPropertyValue('--attention')]"),
            )
        )
        assert not record.faults
    (before, _, properties), (after, _, now) = shown
    assert before == after
    assert properties[0] == now[0]
    assert float(properties[1].rstrip("%")) == pytest.approx(float(now[1].rstrip("%")), abs=1e-3)


def test_without_javascript_the_table_of_the_first_case_remains(visit, urls):
    page, _ = visit(urls["libro"], java_script_enabled=False, width=390)
    block = page.locator(".mc-calculator")
    assert not block.locator("input, select").first.is_visible()
    assert results(page) == expected(*DEFAULT.values())
    text = block.inner_text()
    assert "d_model = 512, h = 8, n = 128, 4 bytes por número" in text
    assert "necesitan JavaScript" in text
    assert "301\u202f989\u202f888" in text
    assert not sideways(page)


def test_paper_keeps_the_chosen_case(visit, urls):
    page, _ = visit(urls["libro"])
    fill(page, h=16, n=256)
    page.emulate_media(media="print")
    block = page.locator(".mc-calculator")
    assert not block.locator("input, select").first.is_visible()
    assert "Caso: d_model = 512, h = 16, n = 256, 4 bytes por número." in block.inner_text()
    assert "necesitan JavaScript" not in block.inner_text()


# --- Uso ---


def test_everything_follows_the_chosen_data(visit, urls):
    page, record = visit(urls["libro"])
    assert results(page) == expected(*DEFAULT.values())
    for case in [(768, 12, 1024, 4), (4096, 32, 2048, 2), (75, 5, 3, 2), (views.MAX_D_MODEL, 128, views.MAX_TOKENS, 4)]:
        d_model, h, n, size = case
        fill(page, d_model=d_model, h=h, n=n)
        page.get_by_label("bytes").select_option(str(size))
        assert results(page) == expected(*case)
        strip = page.locator(".mc-strip").evaluate("e => getComputedStyle(e).getPropertyValue('--w')")
        assert re.sub(r"\s", "", strip) == f"calc(100%/{h})"
    assert not record.faults


def test_everything_works_by_keyboard(visit, urls):
    page, record = visit(urls["libro"])
    page.get_by_label("d_model dimensión").focus()
    page.keyboard.press("Control+A")
    page.keyboard.type("768")
    page.keyboard.press("Tab")  # la barra de d_model
    page.keyboard.press("ArrowRight")
    assert results(page)[0]["state"].startswith("d_model = 1024, h = 8,")
    page.keyboard.press("Tab")  # h
    page.keyboard.press("ArrowUp")
    assert page.locator("[aria-invalid=true]").get_attribute("data-field") == "h"
    page.keyboard.press("Tab")  # su barra
    page.keyboard.press("Tab")  # el primer remedio
    assert page.evaluate("document.activeElement.textContent") == "h = 8"
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.dataset.field") == "h"  # el foco no se pierde con el botón
    assert results(page) == expected(1024, 16, 128, 4)
    slider = page.get_by_label("h, con una barra")
    slider.focus()
    assert slider.get_attribute("aria-valuetext") == "16"
    page.keyboard.press("Home")
    assert slider.get_attribute("aria-valuetext") == "1"
    assert results(page) == expected(1024, 1, 128, 4)
    page.keyboard.press("End")
    assert results(page) == expected(1024, 1024, 128, 4)
    page.get_by_label("n, con una barra").focus()
    page.keyboard.press("ArrowRight")
    page.get_by_label("bytes").focus()
    page.keyboard.press("ArrowDown")
    assert results(page) == expected(1024, 1024, 256, 2)
    assert not record.faults


def test_slider_of_h_only_visits_divisors(visit, urls):
    page, _ = visit(urls["libro"])
    fill(page, d_model=576)
    slider = page.get_by_label("h, con una barra")
    slider.focus()
    page.keyboard.press("Home")
    seen = [1]
    for _ in range(40):
        page.keyboard.press("ArrowRight")
        seen.append(int(page.locator("[data-field=h]").input_value()))
        assert page.locator("[aria-invalid=true]").count() == 0
    assert sorted(set(seen)) == [k for k in range(1, 577) if 576 % k == 0]


def test_changes_are_announced_once_still(visit, urls):
    page, _ = visit(urls["libro"])
    live = page.locator(".mc-live")
    assert live.text_content() == ""
    fill(page, h=16)
    expect(live).to_have_text(
        "d_k = 32. 1\u202f048\u202f576 parámetros y 301\u202f989\u202f888 FLOPs. "
        "Puntuaciones: 262\u202f144 números, 1 MiB."
    )
    fill(page, h=12)
    expect(live).to_contain_text("12 no divide a 512")
    expect(live).to_contain_text("8 o 16")
    page.evaluate(
        """() => { window.changes = 0;
          const live = document.querySelector('.mc-live'), field = document.querySelector('[data-field=h]');
          new MutationObserver((found) => { changes += found.length; }).observe(live, { childList: true });
          for (const h of ['1', '12', '128']) { field.value = h; field.dispatchEvent(new Event('input')); } }"""
    )
    expect(live).to_contain_text("d_k = 4.")
    assert page.evaluate("changes") == 1  # una vez, y no una por tecla


def test_page_follows_what_the_browser_restores(visit, urls):
    page, _ = visit(urls["libro"])
    page.locator("[data-field=h]").evaluate("e => { e.value = '4'; dispatchEvent(new Event('pageshow')); }")
    assert results(page) == expected(512, 4, 128, 4)


def test_two_calculators_in_a_notebook_do_not_mix(visit, urls):
    page, record = visit(urls["cuaderno"])
    assert page.locator(".mc-calculator[data-ready]").count() == 2
    fill(page, which=1, h=64)
    assert results(page, 0) == expected(*DEFAULT.values())
    assert results(page, 1) == expected(512, 64, 128, 4)
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map((e) => e.id)")
    assert len(ids) == len(set(ids))
    page.evaluate(
        """() => { const again = document.createElement('script');
          again.textContent = document.querySelector('.mc-calculator script').textContent;
          document.body.append(again);
          window.changes = 0;
          const table = document.querySelector('[data-rows]');
          new MutationObserver((found) => { changes += found.length; }).observe(table, { childList: true }); }"""
    )
    fill(page, which=0, h=2)
    assert results(page, 0) == expected(512, 2, 128, 4)
    assert page.evaluate("changes") == 1  # cargado otra vez, el guion no vuelve a poner en marcha lo que ya lo estaba
    assert not record.faults


def test_works_as_file_too(visit, pages):
    page, record = visit(pages["libro"].as_uri())
    fill(page, h=32)
    assert results(page) == expected(512, 32, 128, 4)
    assert not record.faults


# --- Lo que no vale ---

LIMITS = {"d_model": "1 a 16\u202f384", "h": "1 a 16\u202f384", "n": "1 a 131\u202f072"}
BAD = ["", "0", "-3", "2.5", "1e-3", "131073", "99999999999999999999", "1e308", "1e999", "-", "e", "+-.", "1e"]


@pytest.mark.parametrize("key", LIMITS)
def test_bad_data_is_explained_and_nothing_breaks(visit, urls, key):
    page, record = visit(urls["libro"])
    field = page.locator(f"[data-field={key}]")
    for typed in BAD:
        field.fill("")
        field.focus()
        page.keyboard.type(typed)
        message = page.locator(f"#{field.get_attribute('aria-describedby')}")
        expect(message).to_be_visible()
        text = message.inner_text()
        assert f"un número entero de {LIMITS[key]}." in text
        assert key in text
        assert field.get_attribute("aria-invalid") == "true"
        everything = page.locator(".mc-calculator").inner_text()
        assert not re.search(r"NaN|undefined|Infinity|null|−?∞", everything)
        texts, rows = results(page)
        assert set(texts.values()) == {"—"}
        assert (rows == []) == (key != "h")
        assert not any(row[0] for row in rows)
    field.fill(str(DEFAULT[key]))
    assert results(page) == expected(*DEFAULT.values())
    assert not message.is_visible()
    assert not record.faults


@pytest.mark.parametrize(
    ("typed", "why"),
    [
        ("2.5", "h = 2,5 no es entero."),
        ("-3", "h = −3 no vale aquí."),
        ("", "Escribe en h un número"),
        ("12", "12 no divide a 512: tocarían 42,67 dimensiones por cabeza."),
        ("1000", "h = 1000 es más que d_model = 512"),
    ],
)
def test_message_says_what_happened(visit, urls, typed, why):
    page, _ = visit(urls["libro"])
    field = page.locator("[data-field=h]")
    field.fill(typed)
    assert page.locator(f"#{field.get_attribute('aria-describedby')}").inner_text().startswith(why)


def test_one_press_remedy(visit, urls):
    page, _ = visit(urls["libro"])
    fill(page, h=600)
    assert page.locator(".mc-message button").all_inner_texts() == ["h = 512"]
    fill(page, h=12)
    page.get_by_role("button", name="h = 16").click()
    assert results(page) == expected(512, 16, 128, 4)
    assert page.locator(".mc-message:visible").count() == 0


def test_several_bad_values_at_once(visit, urls):
    page, record = visit(urls["libro"])
    fill(page, d_model="", h=0, n="1.5")
    assert page.locator(".mc-message:visible").count() == 3
    fill(page, d_model=64, h=8)
    assert page.locator(".mc-message:visible").count() == 1
    fill(page, n=10)
    assert results(page) == expected(64, 8, 10, 4)
    assert not record.faults


# --- Accesibilidad, idioma y pantallas pequeñas ---


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_axe_finds_nothing(visit, urls, theme, width):
    page, _ = visit(urls["libro"], width=width, theme=theme)
    page.evaluate("(theme) => { document.documentElement.dataset.theme = theme; }", theme)
    faults = axe(page)
    fill(page, h=12)
    faults += axe(page)
    fill(page, n="")
    faults += axe(page)
    assert not faults, lines(faults)


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_nothing_overflows_the_screen(visit, urls, width):
    page, _ = visit(urls["libro"], width=width)
    for values in (
        DEFAULT,
        {"d_model": views.MAX_D_MODEL, "h": 12, "n": 3},
        {"h": views.MAX_D_MODEL, "n": views.MAX_TOKENS},
    ):
        fill(page, **{key: value for key, value in values.items() if key != "bytes"})
        assert not sideways(page)
        over = page.locator(".mc-calculator").evaluate(
            """(block) => { const edge = block.getBoundingClientRect().right;
              return [...block.querySelectorAll('table, td, th, dd, button, p')].filter((e) => e.checkVisibility()
                && !e.matches('.mc-live')
                && (e.scrollWidth > e.clientWidth + 1 || e.getBoundingClientRect().right > edge))
                .map((e) => e.textContent.slice(0, 40)); }"""
        )
        assert over == []


def test_controls_are_big_enough_to_touch(visit, urls):
    page, _ = visit(urls["libro"], width=390, has_touch=True)
    fill(page, h=12)
    controls = page.locator(".mc-calculator").locator("input, select, button")
    assert controls.count() == 9
    assert min(control.bounding_box()["height"] for control in controls.all()) >= 39.5


def test_everything_is_in_spanish(visit, urls):
    page, _ = visit(urls["libro"])
    assert not english(page)
    fill(page, h=12)
    assert not english(page)
