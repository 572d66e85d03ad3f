"""La calculadora de la caché KV en el navegador: las mismas cuentas que `cost`, con teclado y sin JavaScript.

Lo común a todas las calculadoras se prueba en `test_calculators.py`.
"""

import itertools
import re

import pytest
from playwright.sync_api import expect

from multicabeza import cost, views
from tests.browser.detectors import axe, english, lines, sideways
from tests.browser.standalone import make_page

NAMES = [shape.name for shape in views._CACHED]
DEFAULT = (NAMES.index("Llama-3-8B"), 4096, 1, 2)
# Por debajo, justo y por encima de la ventana de Mistral y Gemma, y los límites.
CASES = [
    (model, n, batch, size)
    for (model, n), (batch, size) in zip(
        itertools.product(range(len(NAMES)), (1, 999, 4095, 4096, 4097, 131_072, views.MAX_CONTEXT)),
        itertools.cycle(((1, 2), (3, 4), (64, 1), (views.MAX_BATCH, 4), (7, 2))),
    )
]


@pytest.fixture(scope="module")
def url(tmp_path_factory, serve):
    root = tmp_path_factory.mktemp("cache")
    page = make_page(root / "libro", lambda blocks: views.calculator("kv_cache"), ["calculator"], in_book=True)
    return serve(page.parent.parent) + "cap/prueba.html"


def results(page):
    return page.locator(".mc-calculator").evaluate(
        """(block) => [
          Object.fromEntries([...block.querySelectorAll('[data-out]')].map((e) => [e.dataset.out, e.textContent])),
          [...block.querySelectorAll('[data-rows] tr')].map((row) => [row.getAttribute('aria-current') === 'true',
            ...[...row.children].map((cell) => cell.textContent)])]"""
    )


def expected(*case):
    rows = [[chosen, head, *(cell[0] for cell in cells)] for chosen, head, *cells in views._kv_rows(*case)]
    return [views._kv_texts(*case), rows]


def test_formulas_give_the_integers_of_cost(visit, url):
    page, _ = visit(url)
    found = page.evaluate(
        """(cases) => { const models = JSON.parse(document.querySelector('.mc-calculator').dataset.given);
          const { cost } = mcCalculator; return cases.map(([k, n, batch, bytes]) =>
            [cost.cache, cost.wholeCache].map((count) => String(count(models[k], n, batch, bytes)))); }""",
        CASES,
    )
    for (model, *sizes), numbers in zip(CASES, found, strict=True):
        shape = views._CACHED[model]
        exact = [shape.cache_bytes(*sizes), shape.mha_cache_bytes(*sizes)]
        assert numbers == list(map(str, exact)), (shape.name, sizes)
        assert max(exact) < 2**53
        if shape.kind != "MLA" and shape.window is None:
            assert exact[0] == cost.kv_cache_bytes(shape.n_layers, shape.num_kv_heads, shape.head_dim, *sizes)


def test_texts_and_rows_are_those_of_python(visit, url):
    page, _ = visit(url)
    found = page.evaluate(
        """(cases) => { const models = JSON.parse(document.querySelector('.mc-calculator').dataset.given);
          const { texts, rows } = mcCalculator.specs.kv_cache;
          return cases.map(([modelo, n, lote, bytes]) => { const v = { modelo, n, lote, bytes };
            return [texts(v, models), rows(v, models)]; }); }""",
        CASES,
    )
    for case, (texts, rows) in zip(CASES, found, strict=True):
        assert texts == views._kv_texts(*case), case
        for row, made in itertools.zip_longest(rows, views._kv_rows(*case)):
            assert row[:2] == made[:2], case
            for cell, other in zip(row[2:], made[2:], strict=True):
                assert cell[0] == other[0], case
                assert cell[1:] == pytest.approx(other[1:]), case


def test_script_changes_nothing_written_by_python(visit, url):
    shown = []
    for javascript in (False, True):
        page, record = visit(url, java_script_enabled=javascript, width=390)
        assert page.locator(".mc-calculator[data-ready]").count() == javascript
        assert results(page) == expected(*DEFAULT)
        shown.append([bar.bounding_box()["width"] for bar in page.locator(".mc-bar").all()])
        assert not record.faults
        if not javascript:
            text = page.locator(".mc-calculator").inner_text()
            assert "Llama-3-8B, n = 4096, lote = 1, 2 bytes por número" in text
            assert "necesitan JavaScript" in text
            assert not sideways(page)
    assert shown[0] == shown[1]


def test_everything_follows_the_chosen_data(visit, url):
    page, record = visit(url)
    for case in CASES[::9]:
        model, n, batch, size = case
        page.locator("[data-field=modelo]").select_option(NAMES[model])
        page.locator("[data-field=n]").fill(str(n))
        page.locator("[data-field=lote]").fill(str(batch))
        page.locator("[data-field=bytes]").select_option(str(size))
        assert results(page) == expected(*case)
    assert not record.faults


def test_everything_works_by_keyboard(visit, url):
    page, record = visit(url)
    page.locator("[data-field=modelo]").focus()
    page.keyboard.type("SmolLM2")
    page.keyboard.press("Tab")
    page.keyboard.press("Control+A")
    page.keyboard.type("8192")
    page.keyboard.press("Tab")  # la barra de n
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowUp")  # lote = 2
    assert results(page) == expected(NAMES.index("SmolLM2-135M"), 16_384, 2, 2)
    assert not record.faults


def test_changes_are_announced(visit, url):
    page, _ = visit(url)
    page.locator("[data-field=n]").fill("32768")
    expect(page.locator(".mc-live")).to_have_text(
        "Llama-3-8B: la caché ocupa 4 GiB, y 128 KiB por token. Sin compartir, 16 GiB."
    )


@pytest.mark.parametrize(("key", "limit"), [("n", "1\u202f048\u202f576"), ("lote", "1024")])
def test_bad_data_is_explained_and_nothing_breaks(visit, url, key, limit):
    page, record = visit(url)
    field = page.locator(f"[data-field={key}]")
    before = field.input_value()
    for typed in ("", "0", "-3", "2.5", "99999999999", "1e999"):
        field.fill("")
        field.focus()
        page.keyboard.type(typed)
        message = page.locator(f"#{field.get_attribute('aria-describedby')}")
        assert f"un número entero de 1 a {limit}." in message.inner_text()
        assert not re.search(r"NaN|undefined|Infinity|null", page.locator(".mc-calculator").inner_text())
        texts, rows = results(page)
        assert set(texts.values()) == {"—"}
        assert rows == []
    field.fill(before)
    assert results(page) == expected(*DEFAULT)
    assert not record.faults


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 390, 1280])
def test_all_of_it_is_seen_and_axe_finds_nothing(visit, url, theme, width):
    page, _ = visit(url, width=width, theme=theme)
    page.evaluate("(theme) => { document.documentElement.dataset.theme = theme; }", theme)
    faults = axe(page)
    for model in ("Gemma-2-27B", "DeepSeek-V2"):
        page.locator("[data-field=modelo]").select_option(model)
        page.locator("[data-field=n]").fill(str(views.MAX_CONTEXT))
        page.locator("[data-field=lote]").fill(str(views.MAX_BATCH))
        assert not sideways(page)
        over = page.locator(".mc-calculator").evaluate(
            """(block) => { const edge = block.getBoundingClientRect().right;
              return [...block.querySelectorAll('table, td, th, dd, p')].filter((e) => e.checkVisibility()
                && !e.matches('.mc-live')
                && (e.scrollWidth > e.clientWidth + 1 || e.getBoundingClientRect().right > edge))
                .map((e) => e.textContent.slice(0, 40)); }"""
        )
        assert over == []
    page.locator("[data-field=n]").fill("")
    faults += axe(page)
    assert not faults, lines(faults)
    assert not english(page)


def test_controls_are_big_enough_to_touch(visit, url):
    page, _ = visit(url, width=390, has_touch=True)
    controls = page.locator(".mc-calculator").locator("input, select")
    assert controls.count() == 6
    assert min(control.bounding_box()["height"] for control in controls.all()) >= 39.5
