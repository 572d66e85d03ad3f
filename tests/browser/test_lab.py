"""El laboratorio en el navegador: las mismas cuentas que torch, con teclado, con el dedo, sin JavaScript y con errores.

Como en `test_calculators.py`, cada página se hace aquí: una como en el libro, con los pesos de cada paso aparte; otra
como en un cuaderno, con todo dentro de cada salida, y dos laboratorios.
"""

import base64
import random

import numpy as np
import pytest
import torch
from playwright.sync_api import Page, expect

from multicabeza import heads, laboratory
from multicabeza.toys import induction
from tests.browser.detectors import axe, english, lines, sideways, structure
from tests.browser.standalone import WEB, make_page

NAMES = [f"{layer}.{head}" for layer in range(2) for head in range(induction.NUM_HEADS)]
DEFAULT = laboratory.EXAMPLES[0][1]


def show_two(blocks):
    laboratory.lab()
    laboratory.lab()


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    root = tmp_path_factory.mktemp("laboratorio")
    # Como en el libro, «lab» va delante de «tensor»: el orden alfabético.
    book = make_page(root / "libro", lambda blocks: laboratory.lab(), ["lab", "tensor"], in_book=True)
    for name, text in laboratory.weight_files().items():
        (root / "libro" / "_static" / name).write_text(text, "utf8")
    return {"libro": book, "cuaderno": make_page(root / "cuaderno", show_two, [], in_book=False)}


@pytest.fixture(scope="module")
def urls(pages, serve):
    return {name: serve(page.parent.parent) + "cap/prueba.html" for name, page in pages.items()}


@pytest.fixture
def lab(visit, urls):
    """Una página del libro, lista para usarla."""
    page, record = visit(urls["libro"])
    ready(page)
    return page, record


def ready(page: Page) -> None:
    expect(page.locator(".mc-lab .panel").first).to_be_visible()


def text_box(page: Page):
    return page.locator(".mc-lab textarea").first


def head(page: Page, name: str):
    return page.locator(f"[data-head='{name}']").first


def sentence(page: Page) -> list[str]:
    return page.locator(".sentence").first.locator("bdi").all_text_contents()


def likely(page: Page) -> tuple[str, str]:
    """La palabra más probable y su tanto por ciento, como se leen."""
    row = page.locator(".candidates").first.locator("li").first
    return row.locator(".word").evaluate("e => e.firstChild.textContent"), row.locator(".value").evaluate(
        "e => e.firstChild.textContent"
    )


def chance(words, after, off=(), step=laboratory.LAST) -> float:
    """La probabilidad de una palabra, con torch."""
    ids = torch.tensor([[laboratory.WORDS.index(word) for word in words]])
    model = induction.load_checkpoint(step)
    pairs = [tuple(map(int, name.split("."))) for name in off]
    with torch.no_grad(), heads.ablate(model, pairs):
        return model(ids)[0, -1].softmax(-1)[laboratory.WORDS.index(after)].item()


def percent(probability: float) -> str:
    if 0 < probability < 0.01:
        return "< 1\u00a0%"
    return "> 99\u00a0%" if probability > 0.99 else f"{round(100 * probability)}\u00a0%"


# --- Las mismas cuentas que torch ---


def sequences(seed: int, count: int = 50) -> list[tuple[list[int], list[str]]]:
    """Secuencias al azar de todas las longitudes (de 1 a 64), con repeticiones o sin ellas, y cabezas apagadas."""
    rng = random.Random(seed)
    lengths = [1, 2, 64, *(rng.randint(2, 64) for _ in range(count - 3))]
    made = []
    for k, n in enumerate(lengths):
        base = [rng.randrange(64) for _ in range(rng.randint(4, 32))]
        ids = [base[i % len(base)] for i in range(n)] if k % 2 else [rng.randrange(64) for _ in range(n)]
        made.append((ids, sorted(rng.sample(NAMES, rng.randint(1, 8)))))
    return made


def in_page(page: Page, step: int, cases) -> list[tuple[np.ndarray, np.ndarray]]:
    """Lo que calcula la página: *logits* (n, 64) y pesos (2, 4, n, n) de cada caso."""
    found = page.evaluate(
        """async ([step, cases]) => {
          const { forward } = document.querySelector('.mc-lab').mcLab, out = [];
          const packed = (numbers) => {
            const bytes = new Uint8Array(Float32Array.from(numbers).buffer);
            let text = '';
            for (let k = 0; k < bytes.length; k += 8192) text += String.fromCharCode(...bytes.subarray(k, k + 8192));
            return btoa(text);
          };
          for (const [ids, off] of cases) {
            const { logits, weights } = await forward(ids, { step, off });
            out.push([packed(logits), packed(weights)]);
          }
          return out;
        }""",
        [step, cases],
    )
    return [
        (
            np.frombuffer(base64.b64decode(logits), "<f4").reshape(-1, 64),
            np.frombuffer(base64.b64decode(weights), "<f4").reshape(2, 4, len(ids), len(ids)),
        )
        for (logits, weights), (ids, _) in zip(found, cases, strict=True)
    ]


@torch.no_grad()
def with_torch(step: int, cases) -> list[tuple[np.ndarray, np.ndarray]]:
    model, out = induction.load_checkpoint(step), []
    for ids, off in cases:
        with heads.ablate(model, [tuple(map(int, name.split("."))) for name in off]):
            logits, weights = model(torch.tensor([ids]), need_weights=True)
        out.append((logits[0].numpy(), weights[:, 0].numpy()))
    return out


def worst(found, expected) -> float:
    return max(
        float(np.abs(mine - theirs).max())
        for pair, other in zip(found, expected, strict=True)
        for mine, theirs in zip(pair, other, strict=True)
    )


@pytest.mark.parametrize("step", induction.CHECKPOINT_STEPS)
def test_computes_the_same_as_torch(visit, urls, step):
    """*Logits* y pesos de 50 secuencias, enteras y con cabezas apagadas, en cada punto de control."""
    page, record = visit(urls["libro"])
    ready(page)
    off = sequences(step)
    whole = [(ids, []) for ids, _ in off]
    assert len(off) == 50
    for cases in (whole, off):
        expected = with_torch(step, cases)
        assert worst(in_page(page, step, cases), expected) < 1e-4
    # La prueba distingue: con otra cabeza apagada, o sin apagar, la diferencia se ve.
    assert worst(with_torch(step, whole), expected) > 1e-2
    assert not record.faults


def test_in_a_notebook_too(visit, urls):
    page, record = visit(urls["cuaderno"])
    ready(page)
    for step in induction.CHECKPOINT_STEPS:
        cases = sequences(7, 6)
        assert worst(in_page(page, step, cases), with_torch(step, cases)) < 1e-4
    assert len(record.requests) == 1  # la página y nada más
    assert not record.faults


def test_indices_are_those_of_heads(lab):
    page, _ = lab
    cases = [(ids, []) for ids, _ in sequences(3) if len(ids) > 1 and len(set(ids)) < len(ids)]
    for (ids, _), (_, weights) in zip(cases, with_torch(laboratory.LAST, cases), strict=True):
        tensor = torch.tensor(weights)
        found = page.evaluate(
            "([w, ids]) => document.querySelector('.mc-lab').mcLab.scores(w, ids)", [tensor.flatten().tolist(), ids]
        )
        assert found[:4] == pytest.approx(heads.previous_token_score(tensor[0]).tolist(), abs=1e-5)
        if len(set(ids[:-1])) < len(ids[:-1]) or ids[-1] in ids[:-1]:
            assert found[4:] == pytest.approx(heads.prefix_matching_score(tensor[1], ids).tolist(), abs=1e-5)


def test_softmax_and_mask_in_edge_cases(lab):
    """El núcleo sirve para otros modelos: atención cruzada, claves prohibidas y una consulta sin ninguna."""
    page, _ = lab
    torch.manual_seed(0)
    query, key, value = torch.randn(3, 8), torch.randn(5, 8), torch.randn(5, 8)
    allowed = torch.tensor([[1, 0, 1, 1, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1]]).bool()
    found = page.evaluate(
        """([q, k, v, allowed]) => { const run = (options) => {
            const tensors = [q, k, v].map((numbers) => Float64Array.from(numbers));
            const made = mcTensor.attention(...tensors, { nQ: 3, nK: 5, heads: 2, ...options });
            return [[...made.output], [...made.weights]]; };
          return [run({}), run({ allowed: (i, j) => allowed[i][j] }), run({ causal: true })]; }""",
        [query.flatten().tolist(), key.flatten().tolist(), value.flatten().tolist(), allowed.tolist()],
    )
    split = [x.view(-1, 2, 4).transpose(0, 1) for x in (query, key, value)]
    scores = split[0] @ split[1].mT / 2
    causal = torch.ones(3, 5).tril(2).bool()
    for (output, weights), mask in zip(found, (torch.ones(3, 5).bool(), allowed, causal), strict=True):
        expected = scores.masked_fill(~mask, -torch.inf).softmax(-1).nan_to_num(0)
        assert weights == pytest.approx(expected.flatten().tolist(), abs=1e-6)
        assert output == pytest.approx((expected @ split[2]).transpose(0, 1).flatten().tolist(), abs=1e-6)


# --- Peso ---


def test_scripts_and_weights_are_light():
    scripts = sum((WEB / name).stat().st_size for name in ("lab.js", "tensor.js"))
    assert scripts <= 40_000
    assert len(laboratory.weight_files()) == len(induction.CHECKPOINT_STEPS) - 1
    for text in (*laboratory.weight_files().values(), laboratory._packed(laboratory.LAST)):
        assert 90_000 < len(text.encode()) <= 100_000


def test_page_carries_a_single_checkpoint(pages):
    assert pages["libro"].stat().st_size < 150_000


def test_weights_of_another_step_are_requested_once_from_the_book(lab, urls):
    page, record = lab
    slider = page.get_by_role("slider")
    assert not any("lab-0" in url for url in record.requests)
    for _ in range(2):
        slider.fill("3")
        expect(page.locator("output")).to_have_text("paso 600")
        slider.fill("7")
        expect(page.locator("output")).to_have_text("paso 1600")
    asked = [url for url in record.requests if "/lab-" in url]
    assert asked == [urls["libro"].replace("cap/prueba.html", "_static/lab-0600.js")]
    assert not record.faults


# --- Uso ---


def test_completes_the_repetition_on_opening(lab):
    page, record = lab
    assert sentence(page) == DEFAULT
    assert likely(page) == ("perro", percent(chance(DEFAULT, "perro")))
    assert page.locator(".now").inner_text().startswith("Sigue: perro")
    assert page.locator(".candidates .copy .word").inner_text().startswith("perro")
    assert page.locator(".unit canvas").count() == 8
    assert not record.faults


def test_only_the_right_head_off_sinks_the_prediction(lab):
    page, _ = lab
    head(page, "0.1").click()
    assert head(page, "0.1").get_attribute("aria-pressed") == "false"
    copied = page.locator(".candidates .copy .value")
    assert copied.evaluate("e => e.firstChild.textContent") == percent(chance(DEFAULT, "perro", ["0.1"]))
    assert copied.locator("small").inner_text().strip() == f"antes {percent(chance(DEFAULT, 'perro'))}"
    assert chance(DEFAULT, "perro", ["0.1"]) < 0.05 < 0.8 < chance(DEFAULT, "perro", ["0.3"])
    expect(page.locator(".mc-live")).to_contain_text("Cabeza 0.1 apagada. Después de «gato» (3.ª vez)")
    page.get_by_role("button", name="Encender todas").click()
    assert page.evaluate("document.activeElement.dataset.do") == "all"  # el foco no se pierde
    head(page, "0.3").click()
    assert likely(page) == ("perro", percent(chance(DEFAULT, "perro", ["0.3"])))


def test_slider_visits_the_training(lab):
    page, record = lab
    slider = page.get_by_role("slider")
    for k, step in enumerate(induction.CHECKPOINT_STEPS):
        slider.fill(str(k))
        expect(page.locator("output")).to_have_text(f"paso {step}")
        assert slider.get_attribute("aria-valuetext") == f"paso {step}"
        probability = chance(DEFAULT, "perro", step=step)
        copied = page.locator(".candidates .copy .value").evaluate("e => e.firstChild.textContent")
        assert copied == percent(probability)
    assert not record.faults


def test_training_plays_by_itself_and_pauses(lab):
    page, _ = lab
    page.clock.install()
    page.get_by_role("button", name="Ver el entrenamiento").click()
    expect(page.locator("output")).to_have_text("paso 0")
    page.clock.run_for(1300)
    expect(page.locator("output")).to_have_text("paso 400")
    page.get_by_role("button", name="Parar").click()
    page.clock.run_for(5000)
    expect(page.locator("output")).to_have_text("paso 400")
    page.get_by_role("button", name="Ver el entrenamiento").click()
    for step in induction.CHECKPOINT_STEPS[2:]:
        expect(page.locator("output")).to_have_text(f"paso {step}")
        page.clock.run_for(1300)
    expect(page.get_by_role("button", name="Ver el entrenamiento")).to_be_visible()


def test_moving_fast_leaves_the_last(lab):
    page, record = lab
    page.get_by_role("slider").evaluate(
        "e => { for (const k of [0, 4, 2, 6, 1]) { e.value = k; e.dispatchEvent(new Event('input')); } }"
    )
    expect(page.locator("output")).to_have_text("paso 400")
    page.wait_for_timeout(500)
    assert page.locator("output").inner_text() == "paso 400"
    assert page.locator(".mc-lab").get_attribute("aria-busy") is None
    assert not record.faults


def test_without_the_weights_of_a_step_says_so_and_stays(visit, urls):
    page, _ = visit(urls["libro"])
    ready(page)
    page.route("**/lab-0500.js", lambda route: route.abort())
    page.get_by_role("slider").fill("2")
    expect(page.locator(".trouble")).to_contain_text("No se puede ver el paso 500")
    expect(page.locator(".trouble")).to_contain_text("Sigues en el paso 1600")
    assert page.get_by_role("slider").input_value() == "7"
    expect(page.locator(".mc-live")).to_contain_text("No se puede ver el paso 500")
    page.unroute("**/lab-0500.js")
    page.get_by_role("slider").fill("2")  # y se puede volver a intentar
    expect(page.locator("output")).to_have_text("paso 500")
    expect(page.locator(".trouble")).to_be_empty()


def test_everything_follows_what_is_typed(lab):
    page, _ = lab
    text_box(page).fill("")
    text_box(page).press_sequentially("mesa PAN Limon árbol, arbol. rio ")
    assert sentence(page) == ["mesa", "pan", "limón", "árbol", "árbol", "río"]
    assert not page.locator(".message").is_visible()
    words = sentence(page)
    first, shown = likely(page)
    assert shown == percent(chance(words, first))
    page.get_by_role("button", name="Añadir la que predice").click()
    assert sentence(page) == [*words, first]
    page.get_by_role("button", name="Quitar la última").click()
    assert sentence(page) == words


def test_lap_writes_itself(lab):
    page, _ = lab
    for _ in range(7):
        page.get_by_role("button", name="Añadir la que predice").click()
    assert sentence(page) == [*DEFAULT, *laboratory.FIRST[1:]]


def test_from_any_word(lab):
    page, _ = lab
    page.locator(".sentence button").nth(10).click()
    assert page.locator(".after .part").inner_text() == "Después de «sol» (2.ª vez)"
    assert likely(page) == ("luna", percent(chance(DEFAULT[:11], "luna")))
    small = page.locator(".candidates li").first.locator("small").first.inner_text()
    assert "ya la siguió" in small
    assert "la que viene" in small


def test_loss_is_that_of_torch(lab):
    page, _ = lab
    ids = [laboratory.WORDS.index(word) for word in DEFAULT]
    logits, _ = with_torch(laboratory.LAST, [(ids, [])])[0]
    losses = torch.nn.functional.cross_entropy(torch.tensor(logits[:-1]), torch.tensor(ids[1:]), reduction="none")
    shown = page.locator(".sentence .loss").all_text_contents()
    assert shown == ["—", *(f"{loss:.2f}".replace(".", ",") for loss in losses.tolist())]
    copied, fresh = losses[8:].mean().item(), losses[:8].mean().item()
    said = f"Pérdida media: {copied:.2f} en las 8 que se podían copiar; {fresh:.2f} en las 8 nuevas.".replace(".", ",")
    assert page.locator(".mean").inner_text().replace(".", ",").startswith(said)


def test_maps_are_the_weights(lab):
    page, _ = lab
    ids = [laboratory.WORDS.index(word) for word in DEFAULT]
    (_, weights), n = with_torch(laboratory.LAST, [(ids, [])])[0], len(ids)
    for k, color in enumerate([(0x35, 0x86, 0xFF), (0x6F, 0x5E, 0x16), (0x1A, 0x06, 0x95), (0xEB, 0x63, 0x78)] * 2):
        pixels = (
            page.locator(".unit canvas")
            .nth(k)
            .evaluate("e => [...e.getContext('2d').getImageData(0, 0, e.width, e.height).data]")
        )
        drawn = np.array(pixels).reshape(n, n, 4)[..., :3]
        expected = 255 + (np.array(color) - 255) * weights[k // 4, k % 4][..., None]
        assert np.abs(drawn - expected).max() <= 1


def test_touching_a_map_chooses_the_row(lab):
    page, _ = lab
    area = page.locator(".unit .map").nth(5)
    area.click(position={"x": 10, "y": area.bounding_box()["height"] * 10.5 / 17})
    assert page.locator(".sentence button[aria-pressed=true] bdi").inner_text() == "sol"


@pytest.mark.parametrize("which", range(len(laboratory.EXAMPLES)))
def test_examples(lab, which):
    page, _ = lab
    page.locator(".mc-lab summary").click()
    page.locator(f"[data-example='{which}']").click()
    words, example = sentence(page), laboratory.EXAMPLES[which][1]
    if isinstance(example, list):
        assert words == example
    else:
        period, turns = example
        assert len(set(words)) == period
        assert len(words) == period * turns + (turns > 1)
        assert words[period:] == words[: len(words) - period]


@pytest.mark.parametrize("which", range(len(laboratory.TRIES)))
def test_what_is_proposed_is_done(lab, which):
    page, record = lab
    head(page, "1.3").click()  # lo que hubiera no estorba
    for _ in range(which):
        page.get_by_role("button", name="Siguiente prueba").click()
    state, title, _ = laboratory.TRIES[which]
    assert page.locator(".count").inner_text() == f"Qué probar ({which + 1} de {len(laboratory.TRIES)})"
    page.get_by_role("button", name=f"Hazlo ({title})").click()
    expect(page.locator("output")).to_have_text(f"paso {state.get('step', laboratory.LAST)}")
    off = page.locator("[data-head][aria-pressed=false]").evaluate_all("all => all.map((e) => e.dataset.head)")
    assert off == state.get("off", [])
    example = laboratory.EXAMPLES[state.get("example", 0)][1]
    if isinstance(example, list):
        assert sentence(page) == example
    assert not record.faults


def test_everything_by_keyboard(lab):
    page, record = lab
    text_box(page).focus()
    page.keyboard.press("Control+A")
    page.keyboard.type(" ".join(DEFAULT))
    page.keyboard.press("Tab")  # añadir la que predice
    page.keyboard.press("Enter")
    assert sentence(page)[-1] == "perro"
    page.keyboard.press("Tab")  # quitar
    page.keyboard.press("Space")
    page.keyboard.press("Tab")  # vaciar
    page.keyboard.press("Tab")  # elegir
    page.keyboard.press("Enter")
    expect(page.locator(".words")).to_be_visible()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.dataset.example") == "0"
    page.keyboard.press("Enter")
    page.locator(".sentence button[aria-pressed=true]").focus()
    for key in ("ArrowLeft", "ArrowLeft", "Home", "ArrowRight"):
        page.keyboard.press(key)
    assert page.locator(".sentence button[aria-pressed=true] bdi").inner_text() == "perro"
    assert page.evaluate("document.activeElement.getAttribute('aria-pressed')") == "true"
    assert page.locator(".sentence button[tabindex='0']").count() == 1
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.type") == "range"
    page.keyboard.press("ArrowLeft")
    expect(page.locator("output")).to_have_text("paso 1000")
    page.keyboard.press("End")
    expect(page.locator("output")).to_have_text("paso 1600")
    page.keyboard.press("Tab")  # ver el entrenamiento
    for name in NAMES:
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.dataset.head") == name
    page.keyboard.press("Space")
    assert head(page, "1.3").get_attribute("aria-pressed") == "false"
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert head(page, "1.3").get_attribute("aria-pressed") == "true"
    assert not record.faults


def test_by_touch(visit, urls):
    page, record = visit(urls["libro"], width=390, has_touch=True)
    ready(page)
    head(page, "0.1").tap()
    assert likely(page)[0] != "perro"
    head(page, "0.1").tap()
    assert likely(page)[0] == "perro"
    page.locator(".mc-lab summary").tap()
    page.locator("[data-word='0']").tap()
    assert sentence(page)[-1] == laboratory.WORDS[0]
    page.locator(".sentence button").nth(3).tap()
    assert page.locator(".after .part").inner_text() == "Después de «luna»"
    page.locator(".unit .map").nth(0).tap()
    page.get_by_role("button", name="Siguiente prueba").tap()
    page.locator("[data-try]:visible").tap()
    assert head(page, "0.1").get_attribute("aria-pressed") == "false"
    assert not record.faults


def test_controls_are_big_enough_to_touch(visit, urls):
    page, _ = visit(urls["libro"], width=320, has_touch=True)
    ready(page)
    page.locator(".mc-lab summary").click()
    text_box(page).fill("gatto pe")
    small = [
        box
        for control in page.locator(".mc-lab").locator("button:visible, input:visible, textarea, summary").all()
        if (box := control.bounding_box())["height"] < 39.5 or box["width"] < 39.5
    ]
    assert not small


def test_changes_are_announced_only_once_when_still(lab):
    page, _ = lab
    assert page.locator(".mc-live").text_content() == ""
    page.evaluate(
        """() => { window.changes = 0;
          new MutationObserver((found) => { changes += found.length; })
            .observe(document.querySelector('.mc-live'), { childList: true });
          for (const name of ['0.1', '0.2', '0.1']) document.querySelector(`[data-head='${name}']`).click(); }"""
    )
    expect(page.locator(".mc-live")).to_contain_text("Cabeza 0.1 encendida.")
    assert page.evaluate("changes") == 1
    assert len(page.locator(".mc-live").text_content()) < 260


def test_two_labs_in_a_notebook_do_not_mix(visit, urls):
    page, record = visit(urls["cuaderno"])
    ready(page)
    expect(page.locator(".mc-lab .panel:visible")).to_have_count(2)
    second = page.locator(".mc-lab").nth(1)
    second.locator("[data-head='0.1']").click()
    second.get_by_role("slider").fill("0")
    expect(second.locator("output")).to_have_text("paso 0")
    assert head(page, "0.1").get_attribute("aria-pressed") == "true"
    assert page.locator("output").first.inner_text() == "paso 1600"
    assert not [fault for fault in structure(page) if "id «" in fault]
    assert not record.faults


def test_works_as_file_and_offline_too(visit, pages):
    for name in ("libro", "cuaderno"):
        page, record = visit(pages[name].as_uri())
        ready(page)
        page.context.set_offline(True)
        page.get_by_role("slider").first.fill("4")
        expect(page.locator("output").first).to_have_text("paso 700")
        cases = sequences(1, 4)
        assert worst(in_page(page, 700, cases), with_torch(700, cases)) < 1e-4
        assert all(url.startswith("file:") for url in record.requests)
        assert not record.faults


# --- Lo que no vale ---


def test_unknown_word(lab):
    page, _ = lab
    text_box(page).fill("gatto perro ")
    message = page.locator(".message")
    assert "«gatto» no está en la lista. ¿Querías decir…?" in message.inner_text()
    assert "El modelo lee la secuencia sin ellas." in message.inner_text()
    assert text_box(page).get_attribute("aria-invalid") == "true"
    assert message.get_attribute("id") in text_box(page).get_attribute("aria-describedby")
    assert sentence(page) == ["perro"]
    page.get_by_role("button", name="Cambiar «gatto» por «gato»").click()
    assert sentence(page) == ["gato", "perro"]
    assert page.evaluate("document.activeElement.tagName") == "TEXTAREA"
    assert not message.is_visible()
    text_box(page).fill("xilófono ")
    assert "elige otra palabra" in message.inner_text()


def test_half_a_word_is_not_an_error(lab):
    page, _ = lab
    text_box(page).fill("gato pe")
    assert text_box(page).get_attribute("aria-invalid") == "false"
    assert sentence(page) == ["gato"]
    page.get_by_role("button", name="Poner «pez»").click()
    assert sentence(page) == ["gato", "pez"]
    text_box(page).fill("p")
    assert "Sigue, o elige" in page.locator(".message").inner_text()


def test_what_is_typed_is_text_and_never_html(lab):
    page, record = lab
    text_box(page).fill('<img src=x onerror=window.hacked=1> gato <script>window.hacked=1</script> "><b>')
    page.wait_for_timeout(900)
    assert "«<img»" in page.locator(".message").inner_text()
    assert page.evaluate("window.hacked") is None
    assert not page.locator(".mc-lab .panel img, .message script, .message b").count()
    assert sentence(page) == ["gato"]
    assert not record.faults


def test_too_long(lab):
    page, record = lab
    text_box(page).fill("gato perro sol luna " * 20)
    assert (
        "Son 80 palabras y el modelo tiene 64 posiciones: lee las 64 primeras." in page.locator(".message").inner_text()
    )
    assert len(sentence(page)) == 64
    assert page.get_by_role("button", name="Añadir la que predice").get_attribute("aria-disabled") == "true"
    page.get_by_role("button", name="Añadir la que predice").click(force=True)
    assert len(sentence(page)) == 64
    text_box(page).evaluate("e => { e.value = 'gato '.repeat(200000); e.dispatchEvent(new Event('input')); }")
    assert len(sentence(page)) == 64
    assert not record.faults


def test_empty(lab):
    page, record = lab
    page.get_by_role("button", name="Vaciar").click()
    assert "Escribe una palabra" in page.locator(".message").inner_text()
    assert not page.locator(".results").is_visible()
    assert page.evaluate("document.activeElement.tagName") == "TEXTAREA"
    for name in ("Añadir la que predice", "Quitar la última", "Vaciar"):
        button = page.get_by_role("button", name=name)
        assert button.get_attribute("aria-disabled") == "true"
        button.click(force=True)
    page.locator(".mc-lab summary").click()
    page.get_by_role("button", name="gato", exact=True).click()
    assert sentence(page) == ["gato"]
    assert "nada que predecir todavía" in page.locator(".mean").inner_text()
    text_box(page).fill(" ,.; \n ")
    assert not page.locator(".results").is_visible()
    assert not record.faults


def test_no_broken_numbers(lab):
    page, _ = lab
    for text in ("gato ", "gato gato ", "gato " * 64, "gato perro ", "luna sol luna "):
        text_box(page).fill(text)
        for name in NAMES:
            head(page, name).click()
        shown = page.locator(".mc-lab .panel").inner_text()
        assert not any(word in shown for word in ("NaN", "undefined", "Infinity", "null", "-0,")), text
        page.get_by_role("button", name="Encender todas").click()


# --- Sin JavaScript, en papel y en un navegador antiguo ---


def test_without_javascript_the_figure_and_what_to_try_remain(visit, urls):
    page, record = visit(urls["libro"], java_script_enabled=False, width=320)
    assert not page.locator(".mc-lab .panel").is_visible()
    assert page.locator(".mc-lab img").is_visible()
    text = page.locator(".mc-lab").inner_text()
    assert all(title in text for _, title, _ in laboratory.TRIES)
    assert "hace falta JavaScript" in text
    assert "el modelo predice «perro»" in text
    assert page.locator(".mc-lab button:visible").count() == 0
    assert not sideways(page)
    assert not record.faults


def test_on_paper(lab):
    page, _ = lab
    page.emulate_media(media="print")
    assert not page.locator(".mc-lab .panel").is_visible()
    assert page.locator(".mc-lab img").is_visible()
    text = page.locator(".mc-lab").inner_text()
    assert all(title in text for _, title, _ in laboratory.TRIES)
    assert "JavaScript" not in text
    assert page.locator(".mc-lab button:visible").count() == 0


def test_old_browser_says_so(visit, urls):
    page, record = visit("about:blank")
    page.add_init_script("delete window.DecompressionStream;")
    page.goto(urls["libro"])
    expect(page.locator(".failure")).to_contain_text("este navegador es demasiado antiguo")
    assert page.locator(".mc-lab img").is_visible()
    assert not page.locator(".mc-lab .panel").is_visible()
    assert not record.faults


# --- Accesibilidad, idioma y pantallas pequeñas ---

STATES = {
    "al abrir": lambda page: None,
    "dos apagadas": lambda page: [head(page, name).click() for name in ("0.1", "1.2")],
    "otro paso": lambda page: (
        page.get_by_role("slider").fill("3"),
        expect(page.locator("output")).to_have_text("paso 600"),
    ),
    "error": lambda page: text_box(page).fill("gatto zzz <b> perro lu"),
    "larga": lambda page: text_box(page).fill("gato perro sol luna lluvia " * 14),
    "vacía": lambda page: text_box(page).fill(""),
    "lista abierta": lambda page: page.locator(".mc-lab summary").click(),
    "sin pesos": lambda page: (
        page.route("**/lab-0500.js", lambda route: route.abort()),
        page.get_by_role("slider").fill("2"),
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
        faults += axe(page) + english(page)
    assert not faults, lines(faults)


@pytest.mark.parametrize("width", [320, 390, 768, 1280])
def test_nothing_overflows_the_screen(visit, urls, width):
    for state, change in STATES.items():
        page, _ = visit(urls["libro"], width=width)
        ready(page)
        change(page)
        page.wait_for_timeout(100)
        assert not sideways(page), state
        over = page.locator(".mc-lab").evaluate(
            """(block) => { const edge = block.getBoundingClientRect().right;
              return [...block.querySelectorAll('button, p, li, .word, .value, .best, .name, textarea')]
                .filter((e) => e.checkVisibility() && !e.matches('.mc-live, .losses, .labels')
                  && (e.scrollWidth > e.clientWidth + 1 || e.getBoundingClientRect().right > edge)
                  && getComputedStyle(e).display !== 'inline' && !e.closest('.mc-hidden'))
                .map((e) => `${e.className} ${e.textContent.slice(0, 40)}`); }"""
        )
        assert over == [], state


@pytest.mark.parametrize("state", STATES)
def test_nothing_overflows_with_spaced_text(visit, urls, state):
    """Como pide WCAG 1.4.12."""
    page, _ = visit(urls["libro"], width=320)
    ready(page)
    STATES[state](page)
    page.add_style_tag(
        content="* { line-height: 1.5 !important; letter-spacing: .12em !important; word-spacing: .16em !important; }"
        "p { margin-bottom: 2em !important; }"
    )
    page.wait_for_timeout(300)
    assert page.locator(".mc-lab").evaluate("e => e.scrollWidth - e.clientWidth") <= 0
    assert not sideways(page)


def test_switches_have_name_and_state(lab):
    page, _ = lab
    for name in NAMES:
        toggle = page.get_by_role("button", name=f"Cabeza {name} encendida", exact=True)
        assert toggle.get_attribute("aria-pressed") == "true"
        toggle.click()
        assert toggle.get_attribute("aria-pressed") == "false"
    images = page.get_by_role("img").all()
    assert len(images) == 8
    for name, image in zip(NAMES, images, strict=True):
        assert image.get_attribute("aria-label").startswith(f"Mapa de 17 × 17 pesos de la cabeza {name}, apagada. Peso")


def test_no_motion_if_asked(visit, urls):
    page, _ = visit(urls["libro"], reduced_motion="reduce")
    ready(page)
    moving = page.locator(".mc-lab").evaluate(
        """(block) => [...block.querySelectorAll('*')].filter((e) => ['', '::before', '::after'].some((part) =>
          parseFloat(getComputedStyle(e, part || null).transitionDuration) > 0)).map((e) => e.className)"""
    )
    assert moving == []
