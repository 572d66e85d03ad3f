"""El cuadro de interruptores en el navegador: las mismas cuentas que torch, con teclado, con el dedo y con errores.

Como en `test_lab.py`, cada página se hace aquí: una como en el libro, con los pesos aparte; otra como en un cuaderno,
con todo dentro de cada salida, y dos cuadros.
"""

import json
import random

import pytest
import torch
from playwright.sync_api import Page, expect

from multicabeza import switches
from multicabeza.heads import ablate
from multicabeza.toys import translator
from multicabeza.toys.bilingual import corpus, encode_english, encode_spanish
from multicabeza.toys.intervals import wilson_interval
from tests.browser.detectors import axe, english, lines, sideways, structure
from tests.browser.standalone import WEB, make_page

NAMES = [f"{layer}.{head}" for layer, head in translator.ALL_HEADS]
SENTENCES = corpus("test", switches.NUM_SENTENCES)


def show_two(blocks):
    switches.switchboard()
    switches.switchboard()


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    root = tmp_path_factory.mktemp("interruptores")
    # Como en el libro, por orden alfabético: «switchboard» va delante de «tensor».
    scripts = ["switchboard", "tensor"]
    book = make_page(root / "libro", lambda blocks: switches.switchboard(), scripts, in_book=True)
    for name, text in switches.weight_files().items():
        (root / "libro" / "_static" / name).write_text(text, "utf8")
    return {"libro": book, "cuaderno": make_page(root / "cuaderno", show_two, [], in_book=False)}


@pytest.fixture(scope="module")
def urls(pages, serve):
    return {name: serve(page.parent.parent) + "cap/prueba.html" for name, page in pages.items()}


@pytest.fixture(scope="module")
def model():
    return translator.load_checkpoint("base")


@pytest.fixture
def board(visit, urls):
    """Una página del libro, lista para usarla."""
    page, record = visit(urls["libro"])
    ready(page)
    return page, record


def ready(page: Page) -> None:
    expect(page.locator(".mc-switchboard .panel").first).to_be_visible()


def counted(page: Page) -> None:
    """Espera a que acabe de traducir."""
    expect(page.locator(".mc-switchboard").first).not_to_have_attribute("aria-busy", "true")


def head(page: Page, name: str):
    return page.locator(f"[data-head='{name}']").first


def off(page: Page) -> list[str]:
    return page.locator("[data-head][aria-pressed=false]").evaluate_all("all => all.map((e) => e.dataset.head)")


def pairs(names) -> list[tuple[int, int]]:
    return [tuple(map(int, name.split("."))) for name in names]


def hits(model, names) -> int:
    """Cuántas frases salen exactas, con torch."""
    with ablate(model.encoder, pairs(names)):
        return int(translator.exact_matches(model, SENTENCES).sum())


# --- Las mismas cuentas que torch ---


def cases(seed: int, count: int) -> list[tuple[int, list[str]]]:
    """Frases y cabezas apagadas: ninguna, una capa entera, todas y al azar."""
    rng = random.Random(seed)
    sets = [[], NAMES[:8], NAMES, *(rng.sample(NAMES, rng.randint(1, 31)) for _ in range(count - 3))]
    return [(rng.randrange(len(SENTENCES)), names) for names in sets]


@torch.no_grad()
def test_logits_are_those_of_torch(board, model):
    page, record = board
    wholes = 0
    for index, names in cases(1, 20):
        source = encode_spanish(SENTENCES[index].spanish)
        target = encode_english(SENTENCES[index].english)[:-1]
        with ablate(model.encoder, pairs(names)):
            expected = model(torch.tensor([source]), torch.tensor([target]))[0]
        found = page.evaluate(
            "([example, off]) => document.querySelector('.mc-switchboard').mcSwitchboard.logits(example, off)",
            [{"source": source, "target": target}, names],
        )
        assert torch.tensor(found).view_as(expected).sub(expected).abs().max() < 1e-4
        whole = model(torch.tensor([source]), torch.tensor([target]))[0]
        wholes += (whole - expected).abs().max().item() > 0.1
    assert wholes >= 18  # apagar se nota: la prueba distingue
    assert not record.faults


def test_translates_like_torch(board, model):
    page, _ = board
    for index, names in cases(2, 12):
        with ablate(model.encoder, pairs(names)):
            (expected,) = translator.translate(model, [SENTENCES[index].spanish])
        found = page.evaluate(
            "([source, off]) => document.querySelector('.mc-switchboard').mcSwitchboard.translate(source, off)",
            [encode_spanish(SENTENCES[index].spanish), names],
        )
        assert " ".join(translator.ENGLISH[word] for word in found) == expected


@pytest.mark.parametrize("names", [["1.2"], NAMES[8:16], ["0.0", "1.3", "2.2", "3.7", "3.6"], NAMES])
def test_counts_the_hits_that_torch_counts(board, model, names):
    page, record = board
    for name in names:
        head(page, name).click()
    counted(page)
    right = hits(model, names)
    assert page.locator(".detail").inner_text().startswith(f"{right} de 200 frases de prueba")
    assert page.locator(".score").inner_text() == f"{right / 2:.1f}\u00a0%".replace(".", ",")
    assert page.locator(".kept").inner_text() == f"Quedan {32 - len(names)} de 32"
    expect(page.locator(".mc-live")).to_contain_text(f"{right} de 200 frases exactas")
    assert not record.faults


def test_interval_is_that_of_wilson(board):
    page, _ = board
    for right in (0, 1, 100, 187, 200):
        found = page.evaluate(
            "(right) => document.querySelector('.mc-switchboard').mcSwitchboard.wilson(right, 200)", right
        )
        expected = wilson_interval(right, 200)
        assert found == pytest.approx([100 * expected.low, 100 * expected.high], abs=1e-3)


def test_what_a_translation_has_in_excess(board):
    page, _ = board
    for said, good, expected in [
        ("a b c", "a b c", []),
        ("a x c", "a b c", [1]),
        ("a c", "a b c", []),
        ("b a b", "a b", [0]),
        ("", "a", []),
        ("a b c d", "d", [0, 1, 2]),
    ]:
        found = page.evaluate(
            "([said, good]) => document.querySelector('.mc-switchboard').mcSwitchboard.misplaced(said, good)",
            [said.split(), good.split()],
        )
        assert found == expected, said


# --- Uso ---


def test_opens_with_what_was_measured_and_requests_no_weights(board, model):
    page, record = board
    assert page.locator(".detail").inner_text().startswith(f"{hits(model, [])} de 200")
    assert not any(switches.WEIGHTS in url for url in record.requests)
    wrong = page.locator(".sentences li").first
    assert wrong.locator("mark").count() >= 1
    assert wrong.locator(".good").is_visible()
    assert not record.faults


def test_weights_are_requested_once(board, urls):
    page, record = board
    for name in ("0.0", "0.1", "0.0"):
        head(page, name).click()
        counted(page)
    asked = [url for url in record.requests if switches.WEIGHTS in url]
    assert asked == [urls["libro"].replace("cap/prueba.html", f"_static/{switches.WEIGHTS}")]
    assert off(page) == ["0.1"]


def test_buttons(board, model):
    page, record = board
    data = page.locator(".mc-switchboard script[type='application/json']").text_content()
    order = json.loads(data)["order"]
    for _ in range(3):
        page.get_by_role("button", name="Apagar la menos importante").click()
    assert sorted(off(page)) == sorted(order[:3])
    page.get_by_role("button", name="Apagar una al azar").click()
    assert len(off(page)) == 4
    counted(page)
    page.get_by_role("button", name="Toda la capa 2").click()
    assert {name for name in NAMES if name.startswith("2.")} <= set(off(page))
    page.get_by_role("button", name="Toda la capa 2").click()  # y otra vez, la enciende
    assert not any(name.startswith("2.") for name in off(page))
    page.get_by_role("button", name="Encender todas").click()
    counted(page)
    assert off(page) == []
    assert page.evaluate("document.activeElement.dataset.do") == "all"  # el foco no se pierde
    assert page.locator(".detail").inner_text().startswith(f"{hits(model, [])} de 200")
    assert not record.faults


def test_with_every_head_off_there_is_nothing_left_to_switch_off(board):
    page, record = board
    for layer in range(4):
        page.get_by_role("button", name=f"Toda la capa {layer}").click()
    counted(page)
    assert len(off(page)) == 32
    for name in ("Apagar la menos importante", "Apagar una al azar"):
        button = page.get_by_role("button", name=name)
        assert button.get_attribute("aria-disabled") == "true"
        button.click(force=True)
    assert page.locator(".kept").inner_text() == "Quedan 0 de 32"
    shown = page.locator(".panel").inner_text()
    assert not any(word in shown for word in ("NaN", "undefined", "Infinity", "null"))
    assert not record.faults


def test_touching_fast_leaves_the_last(board, model):
    page, record = board
    page.evaluate(
        "() => ['0.0', '1.2', '2.0', '1.2', '3.1'].forEach((n) => document.querySelector(`[data-head='${n}']`).click())"
    )
    counted(page)
    assert page.locator(".detail").inner_text().startswith(f"{hits(model, ['0.0', '2.0', '3.1'])} de 200")
    assert not record.faults


def test_by_keyboard_alone(board):
    page, _ = board
    head(page, "0.0").focus()
    for key in ("ArrowRight", "ArrowDown", "ArrowDown", "ArrowLeft", "Enter"):
        page.keyboard.press(key)
    assert off(page) == ["2.0"]
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Space")
    assert off(page) == ["1.7", "2.0"]
    for _ in range(3):
        page.keyboard.press("ArrowUp")
    assert page.evaluate("document.activeElement.dataset.head") == "0.7"  # en el borde, se queda


def test_without_the_weights_says_so_and_can_be_retried(visit, urls):
    page, _ = visit(urls["libro"])
    ready(page)
    page.route(f"**/{switches.WEIGHTS}", lambda route: route.abort())
    head(page, "0.0").click()
    expect(page.locator(".trouble")).to_contain_text("No se puede traducir: el libro no ha podido leer ese archivo")
    expect(page.locator(".mc-live")).to_contain_text("No se puede traducir")
    page.unroute(f"**/{switches.WEIGHTS}")
    head(page, "0.1").click()
    counted(page)
    expect(page.locator(".trouble")).to_be_empty()
    assert "de 200" in page.locator(".detail").inner_text()


def test_old_browser_says_so(visit, urls):
    page, record = visit("about:blank")
    page.add_init_script("delete window.DecompressionStream;")
    page.goto(urls["libro"])
    ready(page)
    head(page, "0.0").click()
    expect(page.locator(".trouble")).to_contain_text("este navegador es demasiado antiguo")
    assert not record.faults


def test_two_in_a_notebook_do_not_mix(visit, urls, model):
    page, record = visit(urls["cuaderno"])
    ready(page)
    first, second = page.locator(".mc-switchboard").all()
    second.locator("[data-head='1.2']").click()
    expect(second).not_to_have_attribute("aria-busy", "true")
    assert second.locator(".detail").inner_text().startswith(f"{hits(model, ['1.2'])} de 200")
    assert first.locator(".detail").inner_text().startswith(f"{hits(model, [])} de 200")
    assert len(record.requests) == 1  # la página y nada más
    assert not record.faults


# --- Sin JavaScript, en papel, accesible y en pantallas pequeñas ---


def test_without_javascript_the_figure_remains(visit, urls):
    page, record = visit(urls["libro"], java_script_enabled=False, width=320)
    assert not page.locator(".panel").is_visible()
    assert page.locator(".mc-switchboard img").is_visible()
    text = page.locator(".mc-switchboard").inner_text()
    assert "hace falta JavaScript" in text
    assert "la que más, la 1.2" in text
    assert page.locator(".mc-switchboard button:visible").count() == 0
    assert not sideways(page)
    assert not record.faults


def test_on_paper(board):
    page, _ = board
    page.emulate_media(media="print")
    assert not page.locator(".panel").is_visible()
    assert page.locator(".mc-switchboard img").is_visible()


STATES = {
    "al abrir": lambda page: None,
    "una apagada": lambda page: head(page, "1.2").click(),
    "dos capas": lambda page: [page.get_by_role("button", name=f"Toda la capa {layer}").click() for layer in (0, 3)],
    "ninguna": lambda page: [page.get_by_role("button", name=f"Toda la capa {layer}").click() for layer in range(4)],
    "sin pesos": lambda page: (
        page.route(f"**/{switches.WEIGHTS}", lambda route: route.abort()),
        head(page, "0.0").click(),
        expect(page.locator(".trouble")).not_to_be_empty(),
    ),
}  # fmt: skip


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("state", STATES)
def test_axe_finds_nothing(visit, urls, theme, state):
    faults = []
    for width in (390, 1280):
        page, _ = visit(urls["libro"], width=width, theme=theme, reduced_motion="reduce")
        ready(page)
        page.evaluate("(theme) => { document.documentElement.dataset.theme = theme; }", theme)
        STATES[state](page)
        counted(page)
        faults += axe(page) + structure(page)
    assert not faults, lines(faults)


@pytest.mark.parametrize("state", STATES)
def test_nothing_overflows_the_screen(visit, urls, state):
    for width in (320, 390, 768):
        page, _ = visit(urls["libro"], width=width)
        ready(page)
        STATES[state](page)
        counted(page)
        assert not sideways(page), width
        over = page.locator(".mc-switchboard").evaluate(
            """(block) => { const edge = block.getBoundingClientRect().right;
              return [...block.querySelectorAll('button, p, li, svg, .score')]
                .filter((e) => e.checkVisibility() && !e.matches('.mc-live')
                  && (e.scrollWidth > e.clientWidth + 1 || e.getBoundingClientRect().right > edge))
                .map((e) => `${e.className} ${e.textContent.slice(0, 40)}`); }"""
        )
        assert over == [], width
        page.add_style_tag(
            content="* { line-height: 1.5 !important; letter-spacing: .12em !important;"
            " word-spacing: .16em !important; } p { margin-bottom: 2em !important; }"
        )
        page.wait_for_timeout(200)
        assert not sideways(page), f"{width}, con el texto espaciado"


def test_switches_have_name_and_state(board):
    page, _ = board
    for name in NAMES:
        toggle = page.get_by_role("button", name=f"Cabeza {name} encendida", exact=True)
        assert toggle.get_attribute("aria-pressed") == "true"
    assert page.get_by_role("img", name="frases exactas según las cabezas que quedan").count() == 1


def test_in_spanish_except_what_is_translated(board):
    page, _ = board
    head(page, "1.2").click()
    counted(page)
    page.locator("[lang=en]").evaluate_all("all => all.forEach((e) => e.remove())")
    faults = english(page)
    assert not faults, lines(faults)


def test_scripts_are_light():
    assert sum((WEB / name).stat().st_size for name in ("switchboard.js", "tensor.js")) <= 40_000
