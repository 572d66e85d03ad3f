"""Las actividades en el navegador: cada clase con ratón, con el dedo y con el teclado; lo guardado, y «Mi progreso».

Las preguntas son las de `actividades/98.yml`, una de cada clase. Hay tres páginas: como en el libro; «Mi progreso», en
el mismo sitio; y como en un cuaderno, con todo dentro de cada salida, y dos actividades.
"""

import json
from pathlib import Path

import pytest
from playwright.sync_api import expect

from multicabeza import activities, views
from tests.browser.detectors import axe, english, lines, sideways
from tests.browser.standalone import make_page

FOLDER = Path(__file__).parent / "actividades"
HOSTILE = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script> & «comillas»'
PREFIX = "multicabeza.activity.98-"
KINDS = ["choice", "truefalse", "numeric", "ordering", "sorting", "matching", "flashcards", "open"]
STEPS, CARDS = activities.load("98", FOLDER)[3].data["steps"], activities.load("98", FOLDER)[4].data["cards"]
PAIRS = list(zip(*(activities.load("98", FOLDER)[5].data[side] for side in ("lefts", "rights")), strict=False))


def show_one(blocks):
    name = f"mc-activity-{len(blocks)}"
    blocks.append("<h2>Repaso</h2>" + activities.activity_html("98", name, *views._assets("activity"), FOLDER))


def show_two(blocks):
    show_one(blocks)
    show_one(blocks)


def show_progress(blocks):
    chapters = [one | {"title": "98 · Prueba", "href": "prueba.html#repaso", "predictions": 2} for one in catalogue()]
    blocks.append(activities.progress_html(chapters))


def catalogue():
    return activities.catalogue(FOLDER)


@pytest.fixture(scope="module")
def urls(tmp_path_factory, serve):
    root = tmp_path_factory.mktemp("actividades")
    book = make_page(root / "libro", show_one, ["activity"], in_book=True)
    progress = make_page(root / "progreso", show_progress, ["activity", "progress"], in_book=True)
    (book.parent / "progreso.html").write_bytes(progress.read_bytes())
    notebook = make_page(root / "cuaderno", show_two, [], in_book=False)
    site = serve(book.parent.parent)
    return {
        "libro": site + "cap/prueba.html",
        "progreso": site + "cap/progreso.html",
        "cuaderno": serve(notebook.parent.parent) + "cap/prueba.html",
    }


def item(page, kind, which=0):
    return page.locator(f".mc-item[data-kind={kind}]").nth(which)


def check(page, kind, which=0):
    item(page, kind, which).locator(".mc-main").click()


def feedback(page, kind, which=0):
    return item(page, kind, which).locator(".mc-feedback")


def saved(page, id):
    return json.loads(page.evaluate("(key) => localStorage.getItem(key)", PREFIX + id) or "null")


def everything(page):
    return page.evaluate("({ ...localStorage })")


def order(page):
    return item(page, "ordering").locator(".mc-text").all_inner_texts()


def shown_as(text):
    """Como se lee en la página: los exponentes de las matrices van sin «^»."""
    return text.replace("W^O", "WO")


def sort_rows(page, press):
    """Deja los pasos en su orden, subiendo cada uno con su flecha; `press` la acciona."""
    for place, text in enumerate(STEPS):
        while order(page).index(text) > place:
            press(item(page, "ordering").get_by_role("button", name=f"Subir «{text}»"))


def place(page, kind, card, where, press):
    """Coge una tarjeta y la pone en su sitio; `press` acciona cada botón."""
    press(item(page, kind).locator(".mc-face", has_text=card))
    press(item(page, kind).get_by_role("button", name=f"Poner aquí, en «{where}»"))


def solve_places(page, press):
    for text, category, _ in CARDS:
        place(page, "sorting", text, ["Autoatención", "Atención cruzada"][category], press)
    for left, right in PAIRS:
        place(page, "matching", right, shown_as(left), press)


def answer_everything(page):
    """Todas las clases, por el camino más corto, con alguna mal."""
    item(page, "choice").get_by_label("Las 512 componentes").check()
    item(page, "truefalse").get_by_label("Verdadero").check()
    item(page, "numeric").get_by_role("textbox").fill("4")
    solve_places(page, lambda node: node.click())
    item(page, "open").get_by_role("textbox").fill(HOSTILE)
    for kind in KINDS[:6] + KINDS[7:]:
        check(page, kind)
    item(page, "open").get_by_role("checkbox").first.check()
    for name in ("Dar la vuelta", "No la sabía", "Dar la vuelta"):
        item(page, "flashcards").get_by_role("button", name=name, exact=True).click()


# --- Con el ratón ---


def test_choosing_and_true_or_false(visit, urls):
    page, record = visit(urls["libro"])
    check(page, "choice")
    expect(feedback(page, "choice")).to_have_text("Elige antes una opción.")
    item(page, "choice").get_by_label("Las componentes 192 a 255").check()
    check(page, "choice")
    expect(feedback(page, "choice")).to_have_text(
        "Todavía no. Eso sería trocear la entrada; cada columna de W_Q tiene 512 filas."
    )
    assert item(page, "choice").locator(".mc-mark:visible").all_inner_texts() == ["✗ no"]
    assert item(page, "choice").locator(".mc-why:visible").count() == 0  # las demás, cuando se acierte
    item(page, "choice").get_by_label("Las 512 componentes").check()
    assert feedback(page, "choice").inner_text() == ""  # lo dicho antes ya no vale
    check(page, "choice")
    expect(feedback(page, "choice")).to_contain_text("Correcto. Lo que es suyo es un trozo de la consulta")
    assert item(page, "choice").locator(".mc-why:visible").count() == 2
    item(page, "truefalse").get_by_label("Verdadero").check()
    check(page, "truefalse")
    expect(feedback(page, "truefalse")).to_contain_text("Todavía no.")
    item(page, "truefalse").get_by_label("Falso").check()
    check(page, "truefalse")
    expect(feedback(page, "truefalse")).to_contain_text("Correcto. El factor e¹⁰⁰ se cancela")
    expect(page.locator(".mc-head")).to_contain_text("Resueltas: 2 de 8.")
    assert not record.faults


@pytest.mark.parametrize(
    ("written", "said"),
    [
        *((text, "Correcto.") for text in ("0,25", " 0.25 ", "1/4", ",25", "0,253 del total")),
        ("0,26", "Todavía no. Repasa la cuenta"),
        ("4", "Todavía no. Ese es el número de claves"),
        ("−0,25", "Todavía no."),
        *((text, "Escribe un número") for text in ("mucho", "", "1/0", "0,2,5")),
    ],
)
def test_a_number_typed_by_hand(visit, urls, written, said):
    page, record = visit(urls["libro"])
    box = item(page, "numeric").get_by_role("textbox")
    box.fill(written)
    box.press("Enter")
    expect(feedback(page, "numeric")).to_contain_text(said)
    assert (box.get_attribute("aria-invalid") == "true") == said.startswith("Escribe")
    assert not record.faults


def test_what_a_number_may_mean(visit, urls):
    page, _ = visit(urls["libro"])
    cases = {"1.024": [1024, 1.024], "2 359 296": [2359296], "2.359.296": [2359296], "1,5": [1.5], "1e3": [1000]}
    cases |= {"0,500": [0.5], "−3": [-3], "12,": [12], "1..2": [], "x": [], "1.0245": [1.0245], "3/4": [0.75]}
    found = page.evaluate("(texts) => texts.map((text) => mcActivity.readings(text, ''))", list(cases))
    assert dict(zip(cases, map(sorted, found), strict=True)) == {text: sorted(values) for text, values in cases.items()}
    assert page.evaluate("mcActivity.readings('16 GiB', 'GiB')") == [16]


def test_ordering_with_arrows_accepts_both_orders(visit, urls):
    page, record = visit(urls["libro"])
    assert sorted(order(page)) == sorted(STEPS) != order(page)
    check(page, "ordering")
    expect(feedback(page, "ordering")).to_contain_text("Todavía no.")
    assert item(page, "ordering").locator(".mc-mark", has_text="✗ aquí no").count() > 0
    sort_rows(page, lambda node: node.click())
    assert order(page) == STEPS
    check(page, "ordering")
    expect(feedback(page, "ordering")).to_contain_text("Correcto. La máscara puede ir antes o después")
    item(page, "ordering").get_by_role("button", name=f"Bajar «{STEPS[2]}»").click()  # la máscara, antes de dividir
    check(page, "ordering")
    expect(feedback(page, "ordering")).to_contain_text("Correcto.")
    item(page, "ordering").get_by_role("button", name=f"Bajar «{STEPS[2]}»").click()  # después de la softmax, no
    check(page, "ordering")
    expect(feedback(page, "ordering")).to_contain_text("Hay un paso fuera de su sitio; lo tienes marcado.")
    assert item(page, "ordering").locator(".mc-mark", has_text="✗").count() == 1
    assert not record.faults


def test_misplaced_steps_are_those_to_move(visit, urls):
    page, _ = visit(urls["libro"])
    cases = [[0, 1, 2, 3], [3, 0, 1, 2], [0, 2, 2, 2, 5], [2, 1, 0], [1, 0, 2]]
    found = page.evaluate("(cases) => cases.map((ranks) => mcActivity.misplaced(ranks).filter(Boolean).length)", cases)
    assert found == [0, 1, 0, 2, 1]


def test_dragging_with_the_mouse(visit, urls):
    page, record = visit(urls["libro"])
    rows = item(page, "ordering").locator(".mc-card")
    rows.first.scroll_into_view_if_needed()
    first, last = rows.first.bounding_box(), rows.last.bounding_box()
    moved = order(page)
    page.mouse.move(first["x"] + 60, first["y"] + 20)
    page.mouse.down()
    page.mouse.move(first["x"] + 60, last["y"] + last["height"] - 4, steps=8)
    assert item(page, "ordering").locator(".mc-after").count() == 1
    page.mouse.up()
    assert order(page) == [*moved[1:], moved[0]]
    for kind, target in (("sorting", 1), ("matching", 2)):
        card = item(page, kind).locator(".mc-bank .mc-card").first
        name = card.locator(".mc-face").inner_text()
        spot = item(page, kind).locator(".mc-place:not(.mc-bank)").nth(target)
        card.scroll_into_view_if_needed()
        a, b = card.bounding_box(), spot.bounding_box()
        page.mouse.move(a["x"] + 60, a["y"] + 15)
        page.mouse.down()
        page.mouse.move(b["x"] + 80, b["y"] + b["height"] / 2, steps=8)
        page.mouse.up()
        assert spot.locator(".mc-face").inner_text() == name
        assert item(page, kind).locator("[aria-pressed=true]").count() == 0  # soltarla no la vuelve a coger
    assert not record.faults


def test_sorting_and_matching(visit, urls):
    page, record = visit(urls["libro"])
    check(page, "sorting")
    expect(feedback(page, "sorting")).to_have_text("Te faltan 4 tarjetas por colocar.")
    check(page, "matching")
    expect(feedback(page, "matching")).to_have_text("Te faltan 3 parejas por colocar.")
    for text, category, _ in CARDS:
        place(page, "sorting", text, ["Atención cruzada", "Autoatención"][category], lambda node: node.click())
    check(page, "sorting")
    expect(feedback(page, "sorting")).to_contain_text("0 de 4 en su sitio")
    solve_places(page, lambda node: node.click())
    for kind in ("sorting", "matching"):
        check(page, kind)
        expect(feedback(page, kind)).to_contain_text("Correcto.")
    # En emparejar cabe una: la que llega echa a la que estaba.
    place(page, "matching", "(h, h)", "Q de una cabeza", lambda node: node.click())
    assert item(page, "matching").locator(".mc-bank .mc-face").all_inner_texts() == ["(n, d_k)"]
    check(page, "matching")
    expect(feedback(page, "matching")).to_contain_text("2 de 3 en su sitio")
    item(page, "matching").locator(".mc-face", has_text="(h, h)").click()
    item(page, "matching").get_by_role("button", name="Dejar sin colocar").click()
    assert item(page, "matching").locator(".mc-bank .mc-face").count() == 2
    item(page, "sorting").get_by_role("button", name="Empezar de nuevo").click()
    assert item(page, "sorting").locator(".mc-bank .mc-face").count() == 4
    assert not record.faults


def test_flashcards(visit, urls):
    page, record = visit(urls["libro"])
    deck = item(page, "flashcards")
    for answer in ("La sabía", "No la sabía", "La sabía"):
        deck.get_by_role("button", name="Dar la vuelta").click()
        deck.get_by_role("button", name=answer, exact=True).click()
    expect(deck).to_contain_text("Sabías 2 de 3.")
    assert not saved(page, "tarjetas")["solved"]
    deck.get_by_role("button", name="Repasar las que no").click()
    expect(deck.locator(".mc-front")).to_have_text("peso")
    deck.get_by_role("button", name="Dar la vuelta").click()
    expect(deck).to_contain_text("Lo que sale de la softmax.")
    deck.get_by_role("button", name="La sabía", exact=True).click()
    expect(deck).to_contain_text("Sabías 3 de 3.")
    assert saved(page, "tarjetas")["solved"]
    assert not record.faults


def test_open_answer_is_text(visit, urls):
    page, record = visit(urls["libro"])
    check(page, "open")
    expect(feedback(page, "open")).to_contain_text("Escribe antes tu respuesta")
    item(page, "open").get_by_role("textbox").fill(HOSTILE)
    check(page, "open")
    expect(item(page, "open").get_by_text("la softmax no nace saturada")).to_be_visible()
    item(page, "open").get_by_role("checkbox").first.check()
    expect(feedback(page, "open")).to_have_text("Te das 1 de 2.")
    page.reload()
    assert item(page, "open").get_by_role("textbox").input_value() == HOSTILE
    assert item(page, "open").get_by_role("checkbox").first.is_checked()
    page.goto(urls["progreso"])
    page.locator(".mc-chapter > summary").click()
    page.get_by_text("Tu respuesta").click()
    assert page.locator(".mc-own").inner_text() == HOSTILE
    assert page.locator("mc-progress img").count() == 0
    assert page.evaluate("window.hacked") is None
    assert not record.faults


# --- Con el teclado y con el dedo ---


def test_everything_works_by_keyboard(visit, urls):
    page, record = visit(urls["libro"])

    def press(node):
        """Llega al botón con el tabulador, desde donde esté el foco, y lo acciona."""
        node.scroll_into_view_if_needed()
        wanted = node.element_handle()
        for key, most in (("Tab", 30), ("Shift+Tab", 80)):
            for _ in range(most):
                if page.evaluate("(node) => document.activeElement === node", wanted):
                    page.keyboard.press("Enter")
                    assert page.evaluate("document.activeElement !== document.body"), "el foco se pierde"
                    return
                page.keyboard.press(key)
        raise AssertionError(f"no se llega con el tabulador a «{node.inner_text()}»")

    item(page, "choice").get_by_role("radio").first.focus()
    page.keyboard.press("ArrowDown")
    press(item(page, "choice").locator(".mc-main"))
    expect(feedback(page, "choice")).to_contain_text("Correcto.")
    item(page, "truefalse").get_by_role("radio").first.focus()
    page.keyboard.press("Space")
    page.keyboard.press("ArrowDown")
    press(item(page, "truefalse").locator(".mc-main"))
    expect(feedback(page, "truefalse")).to_contain_text("Correcto.")
    item(page, "numeric").get_by_role("textbox").focus()
    page.keyboard.type("0,25")
    page.keyboard.press("Enter")
    expect(feedback(page, "numeric")).to_contain_text("Correcto.")
    item(page, "ordering").locator(".mc-arrow").first.focus()
    sort_rows(page, press)
    expect(item(page, "ordering").locator("[role=status]").last).to_contain_text("en el lugar")
    press(item(page, "ordering").locator(".mc-main"))
    expect(feedback(page, "ordering")).to_contain_text("Correcto.")
    face = item(page, "sorting").locator(".mc-face").first
    face.focus()
    page.keyboard.press("Enter")
    assert face.get_attribute("aria-pressed") == "true"
    assert page.evaluate("document.activeElement.className") == "mc-put"  # en el primer sitio donde cabe
    expect(item(page, "sorting").locator("[role=status]").last).to_contain_text("con Escape la sueltas")
    page.keyboard.press("Escape")
    assert face.get_attribute("aria-pressed") == "false"
    assert page.evaluate("document.activeElement.className") == "mc-face"
    solve_places(page, press)
    for kind in ("sorting", "matching"):
        press(item(page, kind).locator(".mc-main"))
        expect(feedback(page, kind)).to_contain_text("Correcto.")
    deck = item(page, "flashcards")
    for _ in range(3):
        press(deck.get_by_role("button", name="Dar la vuelta"))
        assert page.evaluate("document.activeElement.textContent") == "La sabía"
        page.keyboard.press("Enter")
    expect(deck).to_contain_text("Sabías 3 de 3.")
    item(page, "open").get_by_role("textbox").focus()
    page.keyboard.type("Porque crecen.")
    press(item(page, "open").locator(".mc-main"))
    item(page, "open").get_by_role("checkbox").first.focus()
    page.keyboard.press("Space")
    expect(feedback(page, "open")).to_have_text("Te das 1 de 2.")
    expect(page.locator(".mc-head")).to_contain_text("Resueltas: 8 de 8.")
    press(item(page, "sorting").get_by_role("button", name="Empezar de nuevo"))
    assert page.evaluate("document.activeElement.className") == "mc-face"
    assert not record.faults


def test_everything_works_by_touch(visit, urls):
    page, record = visit(urls["libro"], width=390, has_touch=True, is_mobile=True)

    def tap(node):
        node.scroll_into_view_if_needed()
        node.tap()

    tap(item(page, "choice").get_by_text("Las 512 componentes"))
    tap(item(page, "truefalse").get_by_text("Falso", exact=True))
    tap(item(page, "numeric").get_by_role("textbox"))
    page.keyboard.type("0,25")
    sort_rows(page, tap)
    solve_places(page, tap)
    for kind in KINDS[:6]:
        tap(item(page, kind).locator(".mc-main"))
        expect(feedback(page, kind)).to_contain_text("Correcto.")
    for _ in range(3):
        tap(item(page, "flashcards").get_by_role("button", name="Dar la vuelta"))
        tap(item(page, "flashcards").get_by_role("button", name="La sabía", exact=True))
    tap(item(page, "open").get_by_role("textbox"))
    page.keyboard.type("Porque crecen.")
    tap(item(page, "open").locator(".mc-main"))
    tap(item(page, "open").get_by_role("checkbox").first)
    expect(page.locator(".mc-head")).to_contain_text("Resueltas: 8 de 8.")
    assert not record.faults


def test_dragging_by_touch(visit, urls):
    page, record = visit(urls["libro"], width=390, has_touch=True, is_mobile=True)
    cdp = page.context.new_cdp_session(page)

    def touch(kind, *points):
        cdp.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": x, "y": y} for x, y in points]})

    def drag(start, end):
        touch("touchStart", start)
        for step in range(1, 9):
            touch("touchMove", tuple(a + (b - a) * step / 8 for a, b in zip(start, end, strict=True)))
        touch("touchEnd")

    def middle(node):
        box = node.bounding_box()
        return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

    rows = item(page, "ordering").locator(".mc-card")
    rows.nth(1).evaluate("(node) => node.scrollIntoView({ block: 'center' })")
    before = order(page)
    x, y = middle(rows.nth(2))
    drag(middle(rows.nth(0).locator(".mc-grip")), (x, y + 12))
    assert order(page) == [before[1], before[2], before[0], *before[3:]]
    card = item(page, "sorting").locator(".mc-bank .mc-card").first
    name = card.locator(".mc-face").inner_text()
    spot = item(page, "sorting").locator(".mc-place:not(.mc-bank)").first
    spot.evaluate("(node) => node.scrollIntoView({ block: 'center' })")
    drag(middle(card.locator(".mc-grip")), middle(spot))
    assert spot.locator(".mc-face").inner_text() == name
    # Desde el texto, el dedo desplaza la página y la tarjeta se queda.
    other = item(page, "sorting").locator(".mc-bank .mc-face").first
    drag(middle(other), middle(spot))
    assert spot.locator(".mc-face").count() == 1
    assert not record.faults


# --- Lo que se guarda ---


def test_answers_are_kept_on_return(visit, urls):
    page, record = visit(urls["libro"])
    answer_everything(page)
    before = page.locator("mc-activity").inner_text()
    values = page.locator("input, textarea").evaluate_all("(nodes) => nodes.map((e) => [e.value, e.checked])")
    page.reload()
    deck = item(page, "flashcards").get_by_role("button", name="Dar la vuelta")
    deck.click()  # la tarjeta a medio mirar vuelve de cara
    assert page.locator("mc-activity").inner_text() == before
    assert page.locator("input, textarea").evaluate_all("(nodes) => nodes.map((e) => [e.value, e.checked])") == values
    assert not record.faults


def test_starting_again_forgets(visit, urls):
    page, _ = visit(urls["libro"])
    item(page, "choice").get_by_label("Las 512 componentes").check()
    check(page, "choice")
    assert saved(page, "elige")["solved"]
    item(page, "choice").get_by_role("button", name="Empezar de nuevo").click()
    assert saved(page, "elige") is None
    assert page.evaluate("document.activeElement.type") == "radio"


def test_bad_saved_data_breaks_nothing(visit, urls):
    page, record = visit(urls["libro"])
    answer_everything(page)
    good = {key: json.loads(value) for key, value in everything(page).items()}
    assert len(good) == 8
    bad = ["no es JSON", "null", "3", "[]", "{}", '{"v":1}', '{"v":2,"version":"x","state":{}}']
    states = [
        {},
        {"choice": 9},
        {"order": [0, 0]},
        {"places": [7] * 4},
        {"places": [0] * 4},
        {"text": 3},
        {"known": "no"},
    ]
    texts = [lambda entry, text=text: text for text in bad]
    texts += [lambda entry, state=state: json.dumps(entry | {"state": state}) for state in states]
    for turn in range(0, len(texts), 3):  # cada reparto, con otra cosa en cada pregunta
        wrong = {key: texts[(turn + 5 * i) % len(texts)](entry) for i, (key, entry) in enumerate(good.items())}
        page.evaluate(
            "(wrong) => Object.entries(wrong).forEach(([key, text]) => localStorage.setItem(key, text))", wrong
        )
        page.reload()
        assert page.locator("mc-activity[data-ready]").count() == 1
        assert item(page, "ordering").locator(".mc-card").count() == len(STEPS)
        assert "undefined" not in page.locator("mc-activity").inner_text()
    assert not record.faults


def test_another_version_of_the_question_starts_blank(visit, urls):
    page, _ = visit(urls["libro"])
    item(page, "choice").get_by_label("Las 512 componentes").check()
    check(page, "choice")
    page.evaluate(
        """(key) => { const entry = JSON.parse(localStorage.getItem(key));
          localStorage.setItem(key, JSON.stringify({ ...entry, version: 'otra' })); }""",
        PREFIX + "elige",
    )
    page.reload()
    assert item(page, "choice").locator("input:checked").count() == 0
    expect(page.locator(".mc-head")).to_contain_text("Resueltas: 0 de 8.")


def test_two_tabs_do_not_overwrite_each_other(visit, urls):
    """Lo respondido en una se ve en la otra, que al responder no lo borra; y lo borrado también se borra allí."""
    first, record = visit(urls["libro"])
    second = first.context.new_page()
    second.goto(urls["libro"])
    first.bring_to_front()  # en una pestaña de detrás, cada toque espera un dibujo que no llega
    answer_everything(first)
    expect(second.locator(".mc-head")).to_contain_text("Resueltas: 4 de 8.")
    expect(feedback(second, "choice")).to_contain_text("Correcto.")
    assert item(second, "open").get_by_role("textbox").input_value() == HOSTILE
    second.bring_to_front()
    item(second, "choice").locator("input:not(:checked)").first.check()
    check(second, "choice")
    expect(feedback(first, "choice")).to_contain_text("Todavía no.")
    assert saved(first, "elige")["solved"]  # se resolvió, aunque después se haya probado otra
    expect(first.locator(".mc-head")).to_contain_text("Resueltas: 4 de 8.")
    second.evaluate("localStorage.clear()")
    expect(first.locator(".mc-head")).to_contain_text("Resueltas: 0 de 8.")
    assert item(first, "choice").locator("input:checked").count() == 0
    assert item(first, "open").get_by_role("textbox").input_value() == ""
    assert not record.faults


NO_STORAGE = (
    "Object.defineProperty(window, 'localStorage', { get() { throw new DOMException('no', 'SecurityError'); } })"
)
FULL = "Storage.prototype.setItem = () => { throw new DOMException('lleno', 'QuotaExceededError'); }"


@pytest.mark.parametrize("broken", [NO_STORAGE, FULL], ids=["sin almacenamiento", "lleno"])
def test_without_storage_it_works_and_says_so(visit, urls, broken):
    page, record = visit("about:blank")
    page.add_init_script(broken)
    page.goto(urls["libro"])
    expect(page.locator(".mc-notice")).to_contain_text("se olvidarán al cerrar la página")
    answer_everything(page)
    expect(feedback(page, "choice")).to_contain_text("Correcto.")
    expect(page.locator(".mc-head")).to_contain_text("Resueltas: 4 de 8.")
    page.reload()
    assert item(page, "choice").locator("input:checked").count() == 0
    page.goto(urls["progreso"])
    expect(page.locator(".mc-notice")).to_contain_text("no deja guardar")
    assert not record.faults


# --- «Mi progreso» ---


@pytest.fixture(scope="module")
def answered(browser, urls):
    """Lo que queda guardado al responder todo, y una predicción."""
    page = browser.new_page()
    page.goto(urls["libro"])
    answer_everything(page)
    kept = everything(page)
    page.close()
    return kept | {"multicabeza.predict.98-a": '{"version":"x","choice":1,"right":true}'}


@pytest.fixture
def progress(visit, urls, answered, tmp_path):
    """«Mi progreso» con todo respondido, y lo exportado."""
    page, record = visit(urls["progreso"])
    page.evaluate("(kept) => Object.entries(kept).forEach(([key, text]) => localStorage.setItem(key, text))", answered)
    page.reload()
    with page.expect_download() as download:
        page.get_by_role("button", name="Exportar").click()
    path = tmp_path / download.value.suggested_filename
    download.value.save_as(path)
    return page, record, path


def bring(page, path):
    page.locator("input[type=file]").set_input_files(path)


STATUS = ".mc-feedback"


def test_export_erase_and_import(progress):
    page, record, path = progress
    assert path.name.startswith("multicabeza-progreso-")
    expect(page.locator(".mc-total")).to_have_text("Llevas 4 de 8 preguntas resueltas.")
    expect(page.locator(".mc-chapter summary").first).to_contain_text(
        "4 de 8 resueltas · Predicciones: 1 de 2, 1 cumplida"
    )
    before, text = everything(page), page.locator("mc-progress").inner_text()
    erase = page.get_by_role("button", name="Borrar todo")
    erase.click()
    assert page.evaluate("document.activeElement.textContent") == "No, dejarlo"
    expect(page.get_by_role("group", name="Se borrarán 9 respuestas")).to_be_visible()
    page.keyboard.press("Escape")
    assert everything(page) == before
    assert page.evaluate("document.activeElement.textContent") == "Borrar todo"
    erase.click()
    page.get_by_role("button", name="Sí, borrar").click()
    expect(page.locator(STATUS)).to_have_text("Borrado: 9 respuestas.")
    assert everything(page) == {}
    expect(page.locator(".mc-total")).to_have_text("Llevas 0 de 8 preguntas resueltas.")
    erase.click()
    expect(page.locator(STATUS)).to_have_text("No hay nada que borrar.")
    bring(page, path)
    expect(page.locator(STATUS)).to_have_text("Importado: 9 respuestas.")
    assert {k: json.loads(v) for k, v in everything(page).items()} == {k: json.loads(v) for k, v in before.items()}
    assert page.locator("mc-progress").inner_text().split("Exportar")[0] == text.split("Exportar")[0]
    bring(page, path)
    expect(page.locator(STATUS)).to_contain_text("Importado: 0 respuestas. Otras 9 se quedan como estaban")
    assert not record.faults


def damaged(data):
    """Archivos que no valen, con lo que debe decirse de cada uno."""
    entry = next(key for key in data["entries"] if "activity" in key)
    foreign = data["entries"] | {"otra.clave": {"a": 1}}
    hostile = data["entries"] | {"multicabeza.activity.<img src=x>": data["entries"][entry]}
    good, text = data["entries"][entry], json.dumps(data)
    return {
        "enorme": (text + " " * 10_000_000, "demasiado grande"),
        "con prototipo": (text.replace('"entries": {', '"entries": {"__proto__": {"v": 1}, ', 1), "no se entiende"),
        "clave de objeto": (
            json.dumps(data | {"entries": data["entries"] | {"multicabeza.activity.__proto__": good}}),
            "no se entiende",
        ),
        "más de lo que hay": (json.dumps(data | {"entries": {entry: good | {"right": 99}}}), "no se entiende"),
        "número imposible": (text.replace('"tries": ', '"tries": -', 1), "no se entiende"),
        "número enorme": (text.replace('"tries": ', '"tries": 1e999, "x": ', 1), "no se entiende"),
        "cortado": (json.dumps(data)[:200], "dañado, cortado"),
        "vacío": ("", "dañado, cortado"),
        "binario": ("\x00\x01PNG", "dañado, cortado"),
        "ajeno": ('{"nombre": "otra cosa"}', "no es un progreso de este libro"),
        "lista": ("[1, 2]", "no es un progreso de este libro"),
        "nulo": ("null", "no es un progreso de este libro"),
        "futuro": (json.dumps(data | {"version": 2}), "más nueva"),
        "sin respuestas": (json.dumps(data | {"entries": None}), "faltan las respuestas"),
        "clave ajena": (json.dumps(data | {"entries": foreign}), "no se entiende"),
        "clave hostil": (json.dumps(data | {"entries": hostile}), "no se entiende"),
        "respuesta rota": (json.dumps(data | {"entries": data["entries"] | {entry: {"v": 1}}}), "no se entiende"),
    }


def test_damaged_or_foreign_file_changes_nothing(progress, tmp_path):
    page, record, path = progress
    before = everything(page)
    for name, (text, said) in damaged(json.loads(path.read_text("utf8"))).items():
        bad = tmp_path / "malo.json"
        bad.write_text(text, "utf8")
        bring(page, bad)
        expect(page.locator(STATUS), name).to_contain_text(said)
        expect(page.locator(STATUS)).to_contain_text("No se ha cambiado nada.")
        assert everything(page) == before, name
        page.locator(STATUS).evaluate("(node) => { node.textContent = ''; }")
    assert not record.faults


def test_newest_wins_on_import(progress, tmp_path):
    page, _, path = progress
    data = json.loads(path.read_text("utf8"))
    key = PREFIX + "abierta"
    for shift, text in ((-1000, "antigua"), (+1000, "nueva")):
        entry = data["entries"][key]
        changed = entry | {"at": entry["at"] + shift, "state": entry["state"] | {"text": text}}
        file = tmp_path / "otro.json"
        file.write_text(json.dumps(data | {"entries": {key: changed}}), "utf8")
        bring(page, file)
        expect(page.locator(STATUS)).to_contain_text("Importado: 0" if shift < 0 else "Importado: 1 respuesta.")
    assert saved(page, "abierta")["state"]["text"] == "nueva"


def test_what_does_not_fit_leaves_all_as_it_was(progress):
    page, _, path = progress
    page.evaluate(
        'localStorage.clear(); localStorage.setItem(\'multicabeza.predict.98-z\', \'{"version":"x","choice":0}\')'
    )
    page.evaluate(
        """() => { const set = Storage.prototype.setItem; let left = 3;
          Storage.prototype.setItem = function (...given) {
            if (left === 0) throw new DOMException('', 'QuotaExceededError');
            left -= 1;
            set.apply(this, given); }; }"""
    )
    bring(page, path)
    expect(page.locator(STATUS)).to_contain_text("no le cabe. No se ha cambiado nada.")
    assert list(everything(page)) == ["multicabeza.predict.98-z"]


# --- Accesibilidad, pantallas pequeñas, papel y sin JavaScript ---


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_in_any_state(visit, urls, theme):
    page, _ = visit(urls["libro"], width=390, theme=theme)
    dress = "(theme) => { document.documentElement.dataset.theme = theme; }"
    page.evaluate(dress, theme)
    faults = axe(page)
    answer_everything(page)
    item(page, "sorting").locator(".mc-face").first.click()  # una tarjeta cogida
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    faults += axe(page)
    item(page, "sorting").locator(".mc-face").first.click()
    sort_rows(page, lambda node: node.click())
    item(page, "truefalse").get_by_label("Falso").check()
    item(page, "numeric").get_by_role("textbox").fill("nada")
    for kind in KINDS[:6]:
        check(page, kind)
    faults += axe(page)
    page.goto(urls["progreso"])
    page.evaluate(dress, theme)
    page.get_by_role("button", name="Borrar todo").click()
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    faults += axe(page)
    assert not faults, lines(faults)


@pytest.mark.parametrize("width", [320, 640])
def test_nothing_overflows_the_screen(visit, urls, width):
    """640 px son también los de una pantalla de 1280 ampliada al doble."""
    page, _ = visit(urls["libro"], width=width)
    assert not sideways(page)
    answer_everything(page)
    item(page, "matching").locator(".mc-face").first.click()
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert not sideways(page)
    buttons = page.locator("mc-activity button:visible")
    assert min(box["height"] for box in (button.bounding_box() for button in buttons.all())) >= 40
    page.goto(urls["progreso"])
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert not sideways(page)


def test_names_roles_and_states(visit, urls):
    page, _ = visit(urls["libro"])
    assert page.locator("mc-activity").get_by_role("group", name="Lo que ve una cabeza").count() == 1
    assert item(page, "choice").get_by_role("group", name="Una capa con d_model = 512").count() == 1
    assert item(page, "numeric").get_by_role("textbox", name="Tu número").count() == 1
    assert item(page, "open").get_by_role("textbox", name="Tu respuesta").count() == 1
    assert item(page, "sorting").get_by_role("group", name="Atención cruzada").count() == 1
    assert item(page, "sorting").locator("button[aria-pressed=false]").count() == 4
    first = item(page, "ordering").get_by_role("button", name="Subir").first
    assert first.get_attribute("aria-disabled") == "true"
    for node in page.locator(".mc-item .mc-feedback").all():
        assert node.get_attribute("role") == "status"
    assert not english(page)


def test_without_javascript_questions_and_folded_answers_remain(visit, urls):
    page, _ = visit(urls["libro"], java_script_enabled=False, width=320)
    assert page.locator(".mc-item").count() == 8
    assert page.locator("mc-activity button").count() == 0
    expect(page.get_by_text("Sin JavaScript, las preguntas se responden en papel")).to_be_visible()
    for text in ("Las componentes 192 a 255", STEPS[0], CARDS[0][0], "(h·d_k, d_model)", "puntuación"):
        expect(page.get_by_text(text).first).to_be_visible()
    assert not page.get_by_text("Eso sería trocear la entrada").is_visible()
    page.get_by_text("Ver la respuesta").first.click()
    expect(page.get_by_text("Eso sería trocear la entrada")).to_be_visible()
    page.goto(urls["progreso"])
    expect(page.get_by_text("hace falta JavaScript")).to_be_visible()


def test_paper_has_no_buttons_and_every_flashcard(visit, urls):
    page, _ = visit(urls["libro"])
    page.emulate_media(media="print")
    assert page.locator("mc-activity button:not(.mc-face):visible").count() == 0
    assert item(page, "flashcards").locator(".mc-cards details:visible").count() == 3


def test_no_motion_if_asked(visit, urls):
    page, _ = visit(urls["libro"], reduced_motion="reduce")
    moves = """(nodes) => nodes.map((e) => getComputedStyle(e))
      .filter(({ transitionDuration: t, animationName: a }) => t !== '0s' || a !== 'none').length"""
    assert page.locator("mc-activity, mc-activity *").evaluate_all(moves) == 0


# --- Una sola copia ---


def test_two_activities_in_a_notebook_do_not_mix(visit, urls):
    page, record = visit(urls["cuaderno"])
    assert page.locator("mc-activity[data-ready]").count() == 2
    item(page, "choice", 1).get_by_label("Las 512 componentes").check()
    check(page, "choice", 1)
    expect(feedback(page, "choice", 1)).to_contain_text("Correcto.")
    assert feedback(page, "choice", 0).inner_text() == ""
    assert item(page, "choice", 0).locator("input:checked").count() == 0
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map((e) => e.id)")
    assert len(ids) == len(set(ids))
    assert not record.faults


def test_an_output_that_comes_later_starts(visit, urls):
    """Como en JupyterLab: el HTML entra de golpe y sus guiones se ejecutan detrás, aunque ya se hubieran ejecutado."""
    page, record = visit("about:blank")
    source = page.request.get(urls["cuaderno"]).text()
    output = source[source.index("<mc-activity") :].split("<h2>")[0]
    page.goto(urls["progreso"])
    page.evaluate(
        """(output) => { for (const k of [1, 2]) {
          const cell = document.createElement('div');
          cell.innerHTML = output.replaceAll('mc-activity-0', `mc-activity-${k}`);
          document.querySelector('article').append(cell);
          for (const old of cell.querySelectorAll('script')) {
            const again = document.createElement('script');
            again.textContent = old.textContent;
            old.replaceWith(again); } } }""",
        output,
    )
    assert page.locator("mc-activity[data-ready]").count() == 2
    assert page.locator("mc-activity .mc-main").count() == 14
    item(page, "choice", 1).get_by_label("Las 512 componentes").check()
    check(page, "choice", 1)
    expect(feedback(page, "choice", 1)).to_contain_text("Correcto.")
    assert not record.faults


def test_colab_warns_that_answers_may_be_lost(visit, urls):
    page, _ = visit("about:blank")
    page.add_init_script("window.google = { colab: {} };")
    page.goto(urls["cuaderno"])
    expect(page.locator(".mc-notice").first).to_contain_text("En Colab tus respuestas pueden perderse")
