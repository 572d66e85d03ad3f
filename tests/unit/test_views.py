"""Lo que se enseña: estructura del HTML, texto escapado, pesos de los bloques y errores que enseñan."""

import base64
import io
import json
import math
import re
import sys
import warnings
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell
from PIL import Image, ImageChops

from multicabeza import cost, plots, switches, views

TOKENS = ["the", "cat", "</script><b>", '"><img src=x onerror=alert(1)>', "mat", "`${x}`"]
ALT = "Figura de prueba con una línea que sube"


class Tree(HTMLParser):
    """Etiquetas y atributos de un bloque, tal como los lee un navegador."""

    def __init__(self, text):
        super().__init__()
        self.tags = []
        self.scripts = []
        self.text = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        if self.tags and self.tags[-1][0] == "script":
            self.scripts.append(data)
        self.text.append(data)

    def all(self, tag):
        return [attrs for name, attrs in self.tags if name == tag]

    def data(self):
        (found,) = re.findall(r'<script type="application/json">(.*?)</script>', self.rawdata_all, re.S)
        return json.loads(found)


def tree(text):
    made = Tree(text)
    made.rawdata_all = text
    return made


def figure(height=1.0):
    return plots.vectors2d({"q": (height, 1)}, limit=4)


def weights(n_layers=2, heads=3, n=6, seed=0):
    random = torch.Generator().manual_seed(seed)
    return torch.softmax(torch.randn(n_layers, heads, n, n, generator=random) * 2, -1)


@pytest.fixture
def shown(monkeypatch):
    """Lo que se ha enseñado, en orden."""
    out = []
    monkeypatch.setattr(views, "display", out.append)
    return out


@pytest.fixture
def book(monkeypatch):
    monkeypatch.setenv("MULTICABEZA_BOOK", "1")


@pytest.fixture
def notebook(monkeypatch):
    monkeypatch.delenv("MULTICABEZA_BOOK", raising=False)


def only(shown):
    assert len(shown) == 1
    return tree(shown[0].data)


# --- show ---


def test_show_displays_once_with_alt_and_caption(shown, book):
    assert views.show(figure(), alt='Un vector «q» & <otro> "más"', caption="Pie <b>") is None
    block = only(shown)
    (image,) = block.all("img")
    assert image["alt"] == 'Un vector «q» & <otro> "más"'
    assert block.tags[0] == ("figure", {"class": "mc-fig"})
    assert "Pie <b>" in block.text
    assert not block.all("b")


@pytest.mark.parametrize("alt", [None, "", "   ", "figura"])
def test_show_requires_saying_what_is_seen(shown, alt):
    with pytest.raises(ValueError, match="alternativo"):
        views.show(figure(), alt=alt)
    assert not shown


def test_show_wants_a_figure(shown):
    with pytest.raises(ValueError, match=r"axes\.figure"):
        views.show(figure().axes[0], alt=ALT)


def test_image_is_a_light_opaque_palette_png(shown, book):
    views.show(figure(), alt=ALT)
    (attrs,) = only(shown).all("img")
    raw = base64.b64decode(attrs["src"].removeprefix("data:image/png;base64,"))
    image = Image.open(io.BytesIO(raw))
    assert image.mode == "P"
    assert "transparency" not in image.info
    assert image.convert("RGB").getpixel((0, 0)) == (255, 255, 255)
    assert len(image.getcolors()) <= 128
    assert len(raw) < 20_000
    assert abs(image.width / image.height - int(attrs["width"]) / int(attrs["height"])) < 0.01


def test_palette_does_not_change_the_colors():
    """Con doce líneas de doce colores, ningún punto se aleja mucho de su color."""
    made = plots.lines(
        range(20),
        {f"cabeza {k}": [k + math.sin(x) for x in range(20)] for k in range(12)},
        xlabel="x",
        ylabel="y",
    )
    raw = io.BytesIO()
    made.savefig(raw, dpi=views.DPI, facecolor="white")
    source, *_ = views._png(made)
    shown = Image.open(io.BytesIO(base64.b64decode(source.split(",")[1]))).convert("RGB")
    difference = ImageChops.difference(Image.open(raw).convert("RGB"), shown)
    assert max(high for _, high in difference.getextrema()) <= 40


def test_show_closes_pyplot_figures(shown):
    import matplotlib.pyplot as plt

    made, axes = plt.subplots()
    axes.plot([1, 2])
    views.show(made, alt=ALT)
    assert plt.get_fignums() == []


def test_sign_missing_from_the_font_does_not_warn(shown):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        views.show(plots.heatmap([[1.0]], ["猫"], ["😀"]), alt=ALT)


def test_styles_go_inside_only_outside_the_book(shown, monkeypatch):
    for value in ("0", "1"):
        monkeypatch.setenv("MULTICABEZA_BOOK", value)
        views.show(figure(), alt=ALT)
    outside, inside = (tree(item.data) for item in shown)
    assert len(outside.all("style")) == 1
    assert not inside.all("style")


def test_every_output_with_controls_keeps_its_keys_outside_the_book(shown, notebook, monkeypatch):
    views.predict("02-a", "¿Qué pasa?", ["Nada", "Todo"], 1, "Porque sí.")
    views.activity("02")
    views.calculator("heads")
    views.token_view(weights(), TOKENS, title="Vista")
    views.head_view(weights(), TOKENS, title="Vista")
    switches.switchboard()
    views.explore(figure, {"a": [1, 2, 3]}, alt=ALT)  # sin kernel, ya dibujada
    monkeypatch.setattr(views, "get_ipython", lambda: object())
    views.explore(figure, {"a": [1, 2, 3]}, alt=ALT)
    shown.pop(-2)  # los controles de ipywidgets, que son de la misma salida
    guard = (views.WEB / "keys.js").read_text("utf8")
    assert all(guard in tree(item.data).scripts[-1] for item in shown)


def test_what_needs_scripts_is_hidden_even_if_the_notebook_is_not_trusted(shown, notebook):
    """JupyterLab quita de las salidas en las que no confía los atributos vacíos: `hidden` a secas no esconde."""
    views.calculator("heads")
    views.token_view(weights(), TOKENS, title="Vista")
    views.head_view(weights(), TOKENS, title="Vista")
    views.explore(figure, {"a": [1, 2, 3]}, alt=ALT)
    switches.switchboard()
    for item in shown:
        found = [attrs["hidden"] for _, attrs in tree(item.data).tags if "hidden" in attrs]
        assert found
        assert set(found) == {"hidden"}


@pytest.mark.parametrize("path", sorted(views.WEB.glob("*.js")), ids=lambda path: path.name)
def test_no_script_can_close_its_tag(path):
    assert "</script" not in path.read_text("utf8").lower()


# --- explore en el libro ---


def test_explore_draws_every_state_and_shows_the_first(shown, book):
    calls = []

    def draw(a, on):
        calls.append((a, on))
        return figure(a if on else -a)

    controls = {"altura <h>": [1, 2, 3.5], "signo": [("más", True), ("menos", False)]}
    views.explore(draw, controls, alt=lambda a, on: f"Vector de altura {a} con signo {on}", caption="Muévelo.")
    block = only(shown)
    data = block.data()
    assert calls == [(1, True), (1, False), (2, True), (2, False), (3.5, True), (3.5, False)]
    assert data["sizes"] == [3, 2]
    assert data["alts"][3] == "Vector de altura 2 con signo False"
    (image,) = block.all("img")
    assert data["index"] == [0, 1, 2, 3, 4, 5]
    assert data["frames"][0] == ""  # la primera va solo en la imagen
    assert len({image["src"], *data["frames"][1:]}) == 6
    assert all(frame.startswith("data:image/png;base64,") for frame in [image["src"], *data["frames"][1:]])
    assert image["alt"] == data["alts"][0]
    (slider,) = block.all("input")
    assert (slider["type"], slider["min"], slider["max"], slider["aria-valuetext"]) == ("range", "0", "2", "1")
    assert json.loads(slider["data-texts"]) == ["1", "2", "3,5"]
    (select,) = block.all("select")
    labels = [attrs["for"] for attrs in block.all("label")]
    assert labels == [slider["id"], select["id"]]
    assert "altura <h>" in block.text
    assert {"class": "mc-controls", "hidden": "hidden"} in block.all("div")
    assert {"class": "mc-live", "aria-live": "polite"} in block.all("p")


def test_explore_stores_each_image_once(shown, book):
    views.explore(lambda a: figure(min(a, 2)), {"a": [1, 2, 3, 4]}, alt=ALT)
    data = only(shown).data()
    assert data["index"] == [0, 1, 1, 1]
    assert len(data["frames"]) == 2


def test_explore_with_fixed_alt_says_the_state(shown, book):
    views.explore(figure, {"altura": [1, 2.5, 3]}, alt=ALT)
    assert only(shown).data()["alts"][1] == f"{ALT} (altura: 2,5)"


def test_explore_refuses_to_weigh_too_much(shown, book, monkeypatch):
    monkeypatch.setattr(views, "MAX_EXPLORE_BYTES", 20_000)
    with pytest.raises(ValueError, match=r"pesa demasiado.*de 9 estados.*límite es 20 KB"):
        views.explore(figure, {"a": list(range(1, 10))}, alt=ALT)
    assert not shown


def test_explore_requires_states_of_the_same_size(book):
    with pytest.raises(ValueError, match="medir lo mismo"):
        views.explore(lambda a: plots.bars(["a"] * a, [1] * a, xlabel="x"), {"a": [1, 2]}, alt=ALT)


@pytest.mark.parametrize(
    ("controls", "message"),
    [
        ({}, "uno o dos controles"),
        ({"a": [1, 2], "b": [1, 2], "c": [1, 2]}, "uno o dos controles"),
        ([1, 2], "uno o dos controles"),
        ({"a": [1]}, "al menos dos"),
        ({"a": "hola"}, "lista"),
        ({"a": [1, 1.0]}, "se leen igual"),
        ({"": [1, 2]}, "vacío"),
    ],
)
def test_explore_explains_bad_controls(controls, message):
    with pytest.raises(ValueError, match=message):
        views.explore(figure, controls, alt=ALT)


def test_explore_requires_alt(book):
    with pytest.raises(ValueError, match="alternativo"):
        views.explore(figure, {"a": [1, 2]}, alt="")


# --- explore en un cuaderno vivo ---


def test_live_explore_changes_the_image_with_the_control(shown, notebook, monkeypatch):
    import ipywidgets

    monkeypatch.setattr(views, "get_ipython", lambda: object())
    calls = []

    def draw(a, on):
        calls.append((a, on))
        return figure(a if on else -a)

    views.explore(draw, {"a": [1, 2, 3], "b": [True, False]}, alt=lambda a, on: f"Vector de altura {a} y {on}")
    box, _saved = shown
    slider, menu, picture = box.children
    assert isinstance(slider, ipywidgets.SelectionSlider)
    assert isinstance(menu, ipywidgets.Dropdown)
    assert (slider.description, menu.description) == ("a", "b")
    assert [label for label, _ in menu.options] == ["sí", "no"]
    first = picture.value
    assert "Vector de altura 1 y True" in first
    slider.value = 2
    assert "Vector de altura 3 y True" in picture.value
    menu.value = 1
    assert "Vector de altura 3 y False" in picture.value
    slider.value, menu.value = 0, 0
    assert picture.value == first
    assert calls.count((1, True)) == 1


def test_live_explore_leaves_its_first_state_for_a_saved_notebook(shown, notebook, monkeypatch):
    monkeypatch.setattr(views, "get_ipython", lambda: object())
    views.explore(
        figure, {"a": [1, 2, 3]}, alt=lambda a: f"Un vector de altura {a}, hacia arriba", caption="Un vector."
    )
    live, saved = shown
    assert "ejecuta la celda" in live._repr_mimebundle_()["text/plain"]
    block = tree(saved.data)
    (image,) = block.all("img")
    assert image["alt"] == "Un vector de altura 1, hacia arriba"
    assert "Aquí se ve un estado (a: 1). Para mover la figura, ejecuta la celda." in block.text
    (name,) = live._dom_classes
    assert f":root:not(:has(.{name})) #{block.all('div')[0]['id']} {{ display: block;" in saved.data


def test_without_ipywidgets_explore_comes_drawn(shown, notebook, monkeypatch):
    monkeypatch.setattr(views, "get_ipython", lambda: object())
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    views.explore(figure, {"a": [1, 2, 3]}, alt=ALT)
    block = only(shown)
    assert block.all("input")
    assert any("mc-explore" in script for script in block.scripts)


# --- Vistas ---


def frame_of(block):
    return block.data()


def params_of(document):
    start = document.index("window.mcParams = ") + len("window.mcParams = ")
    return json.JSONDecoder().raw_decode(document, start)[0]


def test_head_view_stores_the_frame_without_creating_it(shown, book):
    views.head_view(weights(), TOKENS, title="Vista <de> prueba", layer=1, heads=[0, 2])
    block = only(shown)
    assert block.tags[0][1]["class"] == "mc-view"
    assert block.tags[0][1]["data-title"] == "Vista <de> prueba"
    assert not block.all("iframe")
    assert len(block.all("noscript")) == 1
    (button,) = block.all("button")
    assert "hidden" in button
    assert "Abrir la vista" in block.text
    document = frame_of(block)
    assert document.startswith('<!doctype html><html lang="es">')
    assert "<title>Vista &lt;de&gt; prueba</title>" in document
    params = params_of(document)
    assert (params["layer"], params["heads"]) == (1, [0, 2])
    assert params["colors"] == list(plots.HEAD_COLORS)


def test_weights_travel_once_and_in_ten_thousandths(shown, book):
    w = weights()
    views.head_view(w, TOKENS, title="Vista")
    document = frame_of(only(shown))
    (data,) = params_of(document)["attention"]
    assert data["attn"] == w.double().mul(1e4).round().int().tolist()
    assert document.count('"attn"') == 1
    assert document.count('"left_text"') == 1
    assert "HACK" not in document
    assert not re.search(r"\d\.\d{5}", json.dumps(params_of(document)))


@pytest.mark.parametrize("view", [views.head_view, views.model_view])
def test_tokens_cannot_escape_the_text(shown, book, view):
    view(weights(), TOKENS, title="</script><script>alert(1)</script>")
    block = only(shown)
    page = block.rawdata_all
    assert page.count("<script") == 1
    assert not [attrs for attrs in block.all("img") if "onerror" in attrs]
    document = frame_of(block)
    inner = tree(document)
    assert [attrs.get("src") for attrs in inner.all("img")] == []
    assert not inner.all("b")
    assert params_of(document)["tokens"] == TOKENS
    assert all("alert(1)" not in script for script in inner.scripts if "mcParams =" not in script)


def test_every_change_to_bertviz_still_applies():
    from pathlib import Path

    import bertviz

    for kind, patches in views.BERTVIZ_PATCHES.items():
        code = (Path(bertviz.__file__).parent / f"{kind}_view.js").read_text("utf8")
        for old, _ in patches:
            assert code.count(old) == 1, (kind, old)


def test_views_are_in_spanish(shown, book):
    views.head_view(weights(), TOKENS, title="Vista")
    views.model_view(weights(), TOKENS, title="Modelo")
    head, model = (frame_of(tree(item.data)) for item in shown)
    assert '<label for="layer">Capa:</label> <select id="layer" aria-label="Capa">' in head
    for english in ("Layer:", '"Heads"', '"Layers"', "Layer '", ", Head "):
        assert english not in head + model
    assert '"Cabezas"' in model


def test_in_the_book_d3_and_jquery_come_from_static(shown, book):
    views.head_view(weights(), TOKENS, title="Vista")
    document = frame_of(only(shown))
    assert [a["src"] for a in tree(document).all("script") if "src" in a] == [
        "%STATIC%jquery.js",
        "%STATIC%d3.v5.min.js",
    ]
    assert not re.search(r"(src|href)=.https?:", document)


def test_outside_the_book_d3_travels_inside_or_goes_to_its_address(shown, notebook, monkeypatch):
    views.head_view(weights(), TOKENS, title="Vista")
    monkeypatch.setattr(views, "_package_file", lambda *_: None)
    views.head_view(weights(), TOKENS, title="Vista")
    inside, address = (frame_of(tree(item.data)) for item in shown)
    assert not [a for a in tree(inside).all("script") if "src" in a]
    assert "https://d3js.org v5" in inside
    sources = [a["src"] for a in tree(address).all("script") if "src" in a]
    assert sources == [views.JQUERY_URL, views.D3_URL]
    assert all(url.startswith("https://cdnjs.cloudflare.com/") for url in sources)


def test_view_says_in_words_what_is_seen(shown, book):
    w = torch.zeros(1, 2, 2, 2)
    w[0, :, 0] = torch.tensor([0.2, 0.8])
    w[0, :, 1] = torch.tensor([0.7, 0.3])
    views.head_view(w, ["el", "gato"], title="Vista")
    text = "".join(only(shown).text)
    assert "«el» → «gato» (0,80); «gato» → «el» (0,70)" in text
    assert "media de 2 cabezas de la capa 0" in text


def test_model_view_with_some_layers_and_heads(shown, book):
    w = weights(n_layers=4, heads=5)
    views.model_view(w, TOKENS, title="Modelo", layers=[1, 3], heads=[0, 4])
    params = params_of(frame_of(only(shown)))
    (data,) = params["attention"]
    assert (params["include_layers"], params["include_heads"], params["total_heads"]) == ([1, 3], [0, 4], 2)
    assert params["display_mode"] == "light"
    assert data["attn"] == w[[1, 3]][:, [0, 4]].double().mul(1e4).round().int().tolist()


def test_accepts_the_transformers_tuple_and_a_model(shown, book):
    w = weights()
    asked = []

    class Loaded:
        def attend(self, text):
            asked.append(text)
            return TOKENS, w

    views.head_view(w, TOKENS, title="Vista")
    views.head_view(tuple(layer[None] for layer in w), TOKENS, title="Vista")
    views.head_view(SimpleNamespace(attentions=tuple(layer[None] for layer in w)), TOKENS, title="Vista")
    views.head_view(Loaded(), "una frase", title="Vista")
    assert asked == ["una frase"]
    data = [params_of(frame_of(tree(item.data)))["attention"] for item in shown]
    assert data[0] == data[1] == data[2] == data[3]


BAD = {
    "sin atenciones": (lambda w: ((), TOKENS), "eager"),
    "atenciones None": (lambda w: (None, TOKENS), "eager"),
    "tupla de None": (lambda w: ((None, None), TOKENS), "eager"),
    "salida sin atenciones": (lambda w: (SimpleNamespace(attentions=()), TOKENS), "eager"),
    "tipo": (lambda w: ("hola", TOKENS), "llegó str"),
    "tupla de otra cosa": (lambda w: ((1, 2), TOKENS), "por cada capa"),
    "capas distintas": (lambda w: ((w[:1], w[:1, :2]), TOKENS), "misma forma"),
    "lote": (lambda w: ((w, w), TOKENS), "lote"),
    "una capa": (lambda w: (w[0], TOKENS), r"weights\[None\]"),
    "no cuadrada": (lambda w: (w[..., :4], TOKENS), "n, n"),
    "vacía": (lambda w: (w[:0], TOKENS), "vacíos"),
    "tokens de menos": (lambda w: (w, TOKENS[1:]), "5 tokens y los pesos son de 6"),
    "tokens en un texto": (lambda w: (w, "abcdef"), "lista de textos"),
    "ids": (lambda w: (w, [1, 2, 3, 4, 5, 6]), "convert_ids_to_tokens"),
    "NaN": (lambda w: (w * float("nan"), TOKENS), "NaN"),
    "puntuaciones": (lambda w: (w * 7 - 3, TOKENS), "softmax"),
}


@pytest.mark.parametrize("view", [views.head_view, views.model_view, views.token_view])
@pytest.mark.parametrize("case", BAD)
def test_views_explain_what_is_not_valid(shown, case, view):
    make, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        view(*make(weights()), title="Vista")
    assert not shown


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layer": 2}, "0 a 1"),
        ({"layer": -1}, "0 a 1"),
        ({"layer": True}, "layer"),
        ({"heads": []}, "vacío"),
        ({"heads": [0, 0]}, "distintos"),
        ({"heads": [3]}, "0 a 2"),
        ({"layers": [0], "layer": 1}, "no está entre"),
        ({"title": " "}, "title"),
    ],
)
def test_head_view_checks_what_is_chosen(options, message):
    with pytest.raises(ValueError, match=message):
        views.head_view(weights(), TOKENS, **{"title": "Vista", **options})


def test_long_sentence_is_refused_with_the_limit():
    n = views.MAX_VIEW_TOKENS + 1
    with pytest.raises(ValueError, match=rf"{n} tokens y la vista admite {views.MAX_VIEW_TOKENS}"):
        views.head_view(weights(1, 1, n), ["a"] * n, title="Vista")


def test_too_many_lines_are_refused(shown):
    with pytest.raises(ValueError, match="líneas"):
        views.model_view(weights(30, 9, 16), ["a"] * 16, title="Vista")
    views.model_view(weights(30, 9, 16), ["a"] * 16, title="Vista", layers=[0, 1])
    assert len(shown) == 1


def test_too_heavy_a_view_is_refused(shown, book):
    with pytest.raises(ValueError, match="450 KB"):
        views.head_view(weights(30, 9, 22), ["a"] * 22, title="Vista")
    assert not shown


def test_what_is_shown_of_bert_fits_easily(shown, book):
    """6 capas × 12 cabezas y 12 tokens: como en los capítulos."""
    views.head_view(weights(6, 12, 12), ["token"] * 12, title="Vista")
    assert len(only(shown).rawdata_all) < 110_000


def test_without_bertviz_it_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "bertviz", None)
    with pytest.raises(ImportError, match="pip install bertviz"):
        views.head_view(weights(), TOKENS, title="Vista")


def test_output_does_not_make_ipython_warn(shown, book):
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        views.head_view(weights(), TOKENS, title="Vista")
        views.model_view(weights(), TOKENS, title="Vista")
    assert all(item.data.startswith("<figure") for item in shown)


@pytest.mark.parametrize(
    ("tokens", "readable"),
    [
        (["The", "Ġcat", "Ċ"], ["The", "cat", "↵"]),
        (["El", "Ġni", "Ã±o"], ["El", "ni", "ño"]),
        (["▁the", "</w>a", " x "], ["the", "a", "x"]),
        (["[CLS]", "un", "##believ", ""], ["[CLS]", "un", "##believ", "␣"]),
        ([" ", "  ", "\t", "\x00"], ["␣", "␣␣", "⇥", "�"]),
    ],
)
def test_readable_tokens(tokens, readable):
    assert views.readable_tokens(tokens) == readable


# --- Los pesos de todas las cabezas ---


def unpack(data):
    """Los pesos que viajan, deshechos por otro camino: (n_layers, h, n, n), en milésimas."""
    n, text = len(data["tokens"]), data["weights"]
    values = [int(text[k : k + 2], 36) for k in range(0, len(text), 2)]
    made = torch.zeros(data["layers"], data["heads"], n, n, dtype=torch.int64)
    places = [(i, j) for i in range(n) for j in range(n) if not data["causal"] or j <= i]
    assert len(values) == data["layers"] * data["heads"] * len(places)
    for k, value in enumerate(values):
        made.view(-1, n, n)[k // len(places)][places[k % len(places)]] = value
    return made


def causal_weights(n_layers=2, heads=3, n=6):
    return torch.softmax(torch.randn(n_layers, heads, n, n).masked_fill(torch.ones(n, n).triu(1).bool(), -1e9), -1)


@pytest.mark.parametrize(("w", "causal"), [(weights(), False), (causal_weights(), True)], ids=["entera", "causal"])
def test_token_view_carries_only_needed_weights_in_thousandths(shown, book, w, causal):
    views.token_view(w, TOKENS, title="Vista")
    data = only(shown).data()
    assert data["causal"] is causal
    assert torch.equal(unpack(data), w.double().mul(1000).round().long())
    assert len(data["weights"]) == 2 * 6 * (21 if causal else 36)


def test_token_view_accepts_the_transformers_tuple_and_a_model(shown, book):
    w = weights()
    loaded = SimpleNamespace(attend=lambda text: (TOKENS, w))
    views.token_view(w, TOKENS, title="Vista")
    views.token_view(tuple(layer[None] for layer in w), TOKENS, title="Vista")
    views.token_view(loaded, "una frase", title="Vista")
    data = [tree(item.data).data() for item in shown]
    assert data[0] == data[1] == data[2]


def test_token_view_lets_nothing_escape_the_text(shown, book):
    hostile = '</script><img src=x onerror="alert(1)">\u202e'
    views.token_view(
        weights(), [*TOKENS[:5], hostile], title=hostile, roles={hostile: [(0, 0)]}, caption=hostile, layer=1, head=2
    )
    block = only(shown)
    (image,) = block.all("img")
    assert image["src"].startswith("data:")
    assert not any("onerror" in attrs for _, attrs in block.tags)
    assert block.rawdata_all.count("</script") == 1
    data = block.data()
    assert data["tokens"][5] == hostile.replace("\u202e", "�")  # lo que cambia el orden de lectura se hace visible
    assert data["roles"] == [[hostile, [[0, 0]]]]


def test_token_view_makes_blanks_visible(shown, book):
    views.token_view(weights(1, 1, 4), ["\n", " ", "\t", "Ġa"], title="Vista")
    assert only(shown).data()["tokens"] == ["↵", "␣", "⇥", "a"]


def test_token_view_without_javascript_has_figure_words_and_roles(shown, book):
    w = weights()
    views.token_view(
        w, list("abcdef"), title="Vista", layer=1, head=2, roles={"objeto": [(1, 2), (0, 1)], "sujeto": []}
    )
    block = only(shown)
    text = " ".join(block.text)
    j = int(w[1, 2, 0].argmax())
    link = f"«a» → «{'abcdef'[j]}» ({plots.spanish_number(float(w[1, 2, 0, j]))})"
    (image,) = block.all("img")
    for said in (text, image["alt"]):
        assert f"El enlace más fuerte de cada token en la cabeza 1.2: {link}" in said
    assert "Objeto: 1.2, 0.1. Sujeto: ninguna cabeza." in text
    assert "hidden" in next(attrs for tag, attrs in block.tags if attrs.get("class", "").startswith("panel"))
    assert block.tags[0][1]["aria-labelledby"] in {attrs.get("id") for _, attrs in block.tags}


def test_token_view_and_head_view_say_the_same_of_a_head(shown, book):
    views.token_view(weights(), list("abcdef"), title="Vista", layer=1, head=2)
    views.head_view(weights(), list("abcdef"), title="Vista", layer=1, heads=[2])
    mine, other = (tree(item.data).all("img")[0] for item in shown)
    assert mine == other


def test_token_view_opens_with_the_token_that_looks_most_at_another(shown, book):
    w = torch.full((1, 1, 5, 5), 0.1)
    w[0, 0].fill_diagonal_(0.6)
    w[0, 0, 3] = torch.tensor([0.0, 0.0, 0.7, 0.3, 0.0])
    w[0, 0, 1] = torch.tensor([0.9, 0.0, 0.0, 0.1, 0.0])  # a [CLS], que no cuenta
    views.token_view(w, ["[CLS]", "a", "b", "c", "[SEP]"], title="Vista")
    assert only(shown).data()["query"] == 3


@pytest.mark.parametrize(
    ("made", "n"), [(weights(12, 12, 16), 16), (causal_weights(30, 9, 24), 24), (weights(12, 12, 23), 23)]
)
def test_token_view_of_the_book_models_fits(shown, book, made, n):
    views.token_view(
        made, ["palabra"] * n, title="Vista", roles={f"papel {k}": [(i, k) for i in range(12)] for k in range(6)}
    )
    assert len(only(shown).rawdata_all.encode()) <= 200_000


@pytest.mark.parametrize("make", [weights, causal_weights])
def test_token_view_says_how_many_tokens_fit(shown, book, make):
    with pytest.raises(ValueError, match="KB y el límite es 165 KB: son los pesos de 480 cabezas y 28 tokens") as error:
        views.token_view(make(40, 12, 28), ["a"] * 28, title="Vista")
    fit = int(re.search(r"caben unos (\d+) tokens", str(error.value))[1])
    views.token_view(make(40, 12, fit - 1), ["a"] * (fit - 1), title="Vista")
    with pytest.raises(ValueError, match="KB"):
        views.token_view(make(40, 12, fit + 1), ["a"] * (fit + 1), title="Vista")


def test_token_view_checks_that_rows_add_up_to_one(shown):
    w = weights()
    halved = w.clone()
    halved[1, 0, 2] /= 2
    with pytest.raises(ValueError, match=r"la fila 2 de la cabeza 1\.0 suma 0,50"):
        views.token_view(halved, TOKENS, title="V")
    with pytest.raises(ValueError, match="dim=-1"):
        views.token_view(w.mT, TOKENS, title="V")
    assert not shown
    w[0, 0, 3] = 0  # una consulta sin ninguna clave
    views.token_view(w, TOKENS, title="V")
    views.token_view(weights().half(), TOKENS, title="V")
    views.token_view(weights().bfloat16(), TOKENS, title="V")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layer": 2}, "«layer».* 0 a 1"),
        ({"layer": [0, 1]}, "«layer».* 0 a 1"),
        ({"head": 3}, "«head».* 0 a 2"),
        ({"head": 0.5}, "«head».* 0 a 2"),
        ({"head": True}, "«head»"),
        ({"title": " "}, "title"),
        ({"roles": [(0, 1)]}, "diccionario.*llegó list"),
        ({"roles": {str(k): [] for k in range(7)}}, "6 papeles como mucho.*llegó 7"),
        ({"roles": {"objeto": [(2, 0)]}}, r"«roles\['objeto'\]».*\(0, 0\) a \(1, 2\); llegó \[\(2, 0\)\]"),
        ({"roles": {"objeto": [(0, -1)]}}, "pares"),
        ({"roles": {"objeto": (0, 1)}}, "pares"),
        ({"roles": {"objeto": [(0, 1, 2)]}}, "pares"),
        ({"roles": {"objeto": None}}, "pares"),
        ({"roles": {"objeto": "0.1"}}, "pares"),
        ({"roles": {" ": [(0, 1)]}}, "vacío"),
    ],
)
def test_token_view_explains_what_is_not_valid(shown, options, message):
    with pytest.raises(ValueError, match=message):
        views.token_view(weights(), TOKENS, **{"title": "Vista", **options})
    assert not shown


def test_token_view_puts_many_layers_in_columns(shown, book):
    for n_layers in (views.MAX_MAP_ROWS, views.MAX_MAP_ROWS + 1):
        views.token_view(weights(n_layers, 3, 4), list("abcd"), title="Vista")
    few, many = (tree(item.data) for item in shown)
    assert [block.data()["wide"] for block in (few, many)] == [False, True]
    for block, columns in ((few, 3), (many, views.MAX_MAP_ROWS + 1)):
        assert f'style="--columns:{columns}"' in block.rawdata_all


def test_token_view_carries_its_files_only_outside_the_book(shown, monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "book" / "_ext")
    marked_files = import_module("libro.assets").marked_files

    for where in "10":
        monkeypatch.setenv("MULTICABEZA_BOOK", where)
        views.token_view(weights(), TOKENS, title="Vista")
    inside, outside = (tree(item.data) for item in shown)
    assert len(inside.all("script")) == 1  # los datos
    assert not inside.all("style")
    assert outside.scripts[1].startswith((views.WEB / "tokens.js").read_text("utf8"))
    assert (views.WEB / "tokens.css").read_text("utf8") in outside.rawdata_all
    assert marked_files([views.WEB], inside.rawdata_all) == ["base.css", "tokens.css", "tokens.js"]
    ids = [attrs["id"] for block in (inside, outside) for _, attrs in block.tags if "id" in attrs]
    assert len(ids) == len(set(ids))


def test_script_of_token_view_is_light():
    assert (views.WEB / "tokens.js").stat().st_size <= 12 * 1024


def test_one_color_per_letter_and_white_is_readable_on_it():
    css = (views.WEB / "tokens.css").read_text("utf8")
    colors = re.findall(r"--r\d: (#\w{6});", css)
    assert len(colors) == len(views.ROLE_LETTERS) == len(set(colors))
    for color in colors:
        assert 1.05 / (plots._luminance(color) + 0.05) >= 4.5, color


# --- predict ---


QUESTION = dict(
    id="02-escala",
    question="¿Qué pasa con <b>`d_k = 512`</b>?",
    options=["Nada", "Se satura & punto", "<i>Otra</i>"],
    answer=1,
    explanation="Primer párrafo.\n\nSegundo <script>alert(1)</script>.",
)


def test_predict_without_javascript_has_question_options_and_folded_answer(shown, book):
    views.predict(**QUESTION)
    block = only(shown)
    assert block.tags[0][1]["class"] == "mc-predict"
    assert block.tags[0][1]["data-answer"] == "1"
    assert len(block.all("li")) == 3
    assert len(block.all("details")) == 1
    assert not block.all("script")
    assert not block.all("i")
    assert not block.all("b")
    assert len(block.all("code")) == 1
    text = "".join(block.text)
    assert "Se satura & punto" in text
    assert "<script>alert(1)</script>" in text


def test_predict_outside_the_book_carries_its_script(shown, notebook):
    views.predict(**QUESTION)
    assert len(only(shown).all("script")) == 1


def test_predict_accepts_the_answer_by_its_text(shown, book):
    views.predict(**{**QUESTION, "answer": "Se satura & punto"})
    assert only(shown).tags[0][1]["data-answer"] == "1"


def test_predict_changes_version_if_the_options_change(shown, book):
    views.predict(**QUESTION)
    views.predict(**QUESTION)
    views.predict(**{**QUESTION, "options": ["Nada", "Se satura", "Otra"]})
    first, again, other = (tree(item.data).tags[0][1]["data-version"] for item in shown)
    assert first == again != other


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": "Con espacios"}, "minúsculas"),
        ({"id": '"><b>'}, "minúsculas"),
        ({"question": ""}, "question"),
        ({"options": ["una"]}, "2 a 6"),
        ({"options": "ab"}, "2 a 6"),
        ({"options": ["a", "a"]}, "repetidas"),
        ({"options": ["a", " "]}, "vacío"),
        ({"answer": 3}, "posición"),
        ({"answer": -1}, "posición"),
        ({"answer": "no está"}, "posición"),
        ({"answer": True}, "posición"),
        ({"explanation": None}, "explanation"),
    ],
)
def test_predict_explains_what_is_not_valid(change, message):
    with pytest.raises(ValueError, match=message):
        views.predict(**{**QUESTION, **change})


# --- calculator ---


def boxes_of(block):
    """Lo escrito en cada casilla de una calculadora."""
    return re.findall(r'data-out="(\w+)">([^<]*)<', block.rawdata_all)


def test_calculator_shows_the_first_case_with_the_numbers_of_cost(shown, book):
    assert views.calculator("heads") is None
    block = only(shown)
    filled = boxes_of(block)
    assert set(filled) == set(views._heads_texts(512, 8, 128, 4).items())
    assert {("d_k", "64"), ("total", "301\u202f989\u202f888"), ("memory", "512 KiB")} < set(filled)
    assert [row.count("<tr") for row in re.findall(r"<tbody.*?</tbody>", block.rawdata_all)] == [8, 8]
    assert block.rawdata_all.count('aria-current="true"') == 1


def test_calculator_names_each_control(shown, book):
    views.calculator("heads")
    block = only(shown)
    labels = {label["for"] for label in block.all("label")}
    fields = [field for field in block.all("input") + block.all("select") if "data-field" in field]
    assert {field["id"] for field in fields} == labels
    assert len(labels) == 4
    for field in block.all("input"):
        if field["type"] == "range":
            assert field["aria-label"]
        else:
            assert f'id="{field["aria-describedby"]}"' in block.rawdata_all
            assert 1 <= int(field["value"]) <= int(field["max"])
    root = block.tags[0][1]
    assert root["role"] == "group"
    assert f'id="{root["aria-labelledby"]}"' in block.rawdata_all


def test_calculator_carries_its_files_only_outside_the_book(shown, monkeypatch):
    for where in "10":
        monkeypatch.setenv("MULTICABEZA_BOOK", where)
        views.calculator("heads")
    inside, outside = (tree(item.data) for item in shown)
    assert not inside.all("script")
    assert not inside.all("style")
    (script,) = outside.scripts
    assert script.startswith((views.WEB / "calculator.js").read_text("utf8"))
    assert (views.WEB / "calculator.css").read_text("utf8") in outside.rawdata_all
    assert inside.tags[0][1]["id"] != outside.tags[0][1]["id"]


def test_calculator_asks_the_book_page_for_its_files(shown, book, monkeypatch):
    """La extensión del libro los carga donde hay una calculadora, y solo ahí."""
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "book" / "_ext")
    marked_files = import_module("libro.assets").marked_files

    views.calculator("heads")
    views.show(figure(), alt=ALT)
    calculator, picture = (item.data for item in shown)
    assert marked_files([views.WEB], calculator) == ["base.css", "calculator.css", "calculator.js"]
    assert marked_files([views.WEB], picture) == ["base.css"]


def test_cache_calculator_shows_the_numbers_of_cost(shown, book):
    assert views.calculator("kv_cache") is None
    block = only(shown)
    filled = boxes_of(block)
    names = [shape.name for shape in views._CACHED]
    assert set(filled) == set(views._kv_texts(names.index("Llama-3-8B"), 4096, 1, 2).items())
    assert {("memory", "512 MiB"), ("token", "128 KiB"), ("whole", "2 GiB"), ("times", "4,0 veces")} < set(filled)
    assert block.rawdata_all.count("<tr") == 1 + len(names)
    assert block.rawdata_all.count('aria-current="true"') == 1
    labels = {label["for"] for label in block.all("label")}
    assert {f["id"] for f in block.all("input") + block.all("select") if "data-field" in f} == labels


def test_cache_calculator_has_every_model_that_uses_it():
    assert {shape.name for shape in views._CACHED} == {n for n, shape in cost.MODELS.items() if shape.has_cache}
    for k, shape in enumerate(views._CACHED):
        for n, batch, size in ((1, 1, 2), (5000, 3, 4), (views.MAX_CONTEXT, views.MAX_BATCH, 1)):
            texts = views._kv_texts(k, n, batch, size)
            assert texts["bytes"] == f"{views._whole(shape.cache_bytes(n, batch, size))} bytes"
            assert texts["memory"] == views._kv_rows(k, n, batch, size)[k][3][0]
            assert shape.mha_cache_bytes(n, batch, 4) < 2**53


def test_script_of_the_calculators_is_light():
    assert (views.WEB / "calculator.js").stat().st_size <= 13 * 1024


@pytest.mark.parametrize("name", ["", "Heads", "kv", None])
def test_calculator_says_which_there_are(shown, name):
    with pytest.raises(ValueError, match="«heads»"):
        views.calculator(name)
    assert not shown


@pytest.mark.parametrize(
    ("write", "number", "text"),
    [
        (views._whole, 9999, "9999"),
        (views._whole, 10_000, "10\u202f000"),
        (views._whole, 1_407_374_883_553_280, "1\u202f407\u202f374\u202f883\u202f553\u202f280"),
        (views._rounded, 999, "999"),
        (views._rounded, 1000, "1,00 k"),
        (views._rounded, 999_600, "1,00 M"),
        (views._rounded, 301_989_888, "302 M"),
        (views._bytes, 1023, "1023 bytes"),
        (views._bytes, 1024, "1 KiB"),
        (views._bytes, 1152, "1,13 KiB"),
        (views._bytes, 23_040, "22,5 KiB"),
        (views._bytes, 48 * 2**20, "48 MiB"),
        (views._bytes, 100 * 2**30, "100 GiB"),
    ],
)
def test_how_calculators_write_numbers(write, number, text):
    assert write(number) == text


def test_limits_keep_every_count_exact():
    d_model, n = views.MAX_D_MODEL, views.MAX_TOKENS
    assert cost.attention_flops(d_model, 1, n).total < 2**53
    assert cost.score_bytes(d_model, n, bytes_per_element=4) < 2**53


# --- claim ---


@pytest.fixture
def glued(monkeypatch):
    """Lo que se guarda con glue, y las afirmaciones de un cuaderno recién abierto."""
    import myst_nb

    out = {}
    monkeypatch.setattr(views, "_claims", {})
    monkeypatch.setattr(myst_nb, "glue", lambda key, value, display: out.__setitem__(key, (value, display)))
    return out


def test_claim_stores_the_whole_record(book, glued):
    views.claim("02-saturacion", torch.tensor(0.25), n=1000, seeds=[0, 1, 2], interval=(0.2, 0.3), control=0.9)
    assert glued == {
        "02-saturacion": (0.25, False),
        "02-saturacion.n": (1000, False),
        "02-saturacion.seeds": (3, False),
        "02-saturacion.low": (0.2, False),
        "02-saturacion.high": (0.3, False),
        "02-saturacion.control": (0.9, False),
    }
    assert all(type(value) in (int, float) for value, _ in glued.values())


def test_claim_stores_only_what_is_given(book, glued):
    views.claim("02-a", True)
    assert glued == {"02-a": (True, False)}


def test_claim_outside_the_book_stores_nothing(notebook, glued):
    views.claim("02-a", 1)
    assert glued == {}


def test_claim_is_not_recorded_twice_but_its_cell_can_be_repeated(book, glued, monkeypatch):
    shell = SimpleNamespace(user_ns={"In": ["", "celda 1"]})
    monkeypatch.setattr(views, "get_ipython", lambda: shell)
    views.claim("02-a", 1)
    views.claim("02-a", 2)
    assert glued["02-a"] == (2, False)
    shell.user_ns["In"].append("celda 2")
    with pytest.raises(ValueError, match="otra celda"):
        views.claim("02-a", 3)


@pytest.mark.parametrize("where", ["0", "1"])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"id": "Á"}, "minúsculas"),
        ({"id": "02.a"}, "minúsculas"),
        ({"value": float("nan")}, "finito"),
        ({"value": torch.ones(2)}, "un solo número"),
        ({"value": [1]}, "llegó list"),
        ({"n": 0}, "entero positivo"),
        ({"seeds": 2.5}, "entero positivo"),
        ({"interval": (2, 1)}, "al revés"),
        ({"interval": 3}, "inferior"),
        ({"control": float("inf")}, "finito"),
    ],
)
def test_claim_explains_what_is_not_valid(monkeypatch, glued, where, options, message):
    monkeypatch.setenv("MULTICABEZA_BOOK", where)
    with pytest.raises(ValueError, match=message):
        views.claim(**{"id": "02-a", "value": 1, **options})
    assert glued == {}


# --- En un kernel de verdad ---


def test_a_cell_shows_the_figure_exactly_once(monkeypatch, book):
    """La celda entera, en un intérprete de IPython: ni la figura ni el valor devuelto salen otra vez."""
    shell = InteractiveShell.instance()
    from IPython.utils.capture import capture_output

    with capture_output() as captured:
        result = shell.run_cell(
            "import multicabeza as mc\n"
            "from multicabeza import plots\n"
            'mc.show(plots.bars(["a", "b"], [1, 2], xlabel="x"), alt="Dos barras: la segunda es el doble")'
        )
    InteractiveShell.clear_instance()
    assert result.success
    assert result.result is None
    assert len(captured.outputs) == 1
    assert "<figure" in captured.outputs[0].data["text/html"]
    assert captured.stderr == ""
