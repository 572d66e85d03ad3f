"""Figuras: paleta legible para todos, coma decimal, tamaños de teléfono y errores que enseñan."""

import io
import warnings

import matplotlib as mpl
import numpy as np
import pytest
import torch
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from multicabeza import plots

# Machado, Oliveira y Fernandes (2009), severidad 1: cómo llega cada color con cada tipo de daltonismo.
VISION = {
    "tricromática": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
# Diferencia mínima exigida (CIEDE2000) entre dos cabezas cualesquiera.
MINIMUM = {"tricromática": 19, "protanopia": 11.5, "deuteranopia": 11.5, "tritanopia": 14}
TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)

TOKENS = ["the", "cat", "sat", "on", "the", "mat"]


def linear(colors):
    rgb = np.array([to_rgb(color) for color in colors])
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def lab(linear_rgb):
    xyz = np.clip(linear_rgb, 0, 1) @ TO_XYZ.T / np.array([0.95047, 1, 1.08883])
    f = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    return np.stack([116 * f[..., 1] - 16, 500 * (f[..., 0] - f[..., 1]), 200 * (f[..., 1] - f[..., 2])], -1)


def ciede2000(first, second):
    """Diferencia de color CIEDE2000 (Sharma, Wu y Dalal, 2005)."""
    (l1, a1, b1), (l2, a2, b2) = np.moveaxis(first, -1, 0), np.moveaxis(second, -1, 0)
    chroma = (np.hypot(a1, b1) + np.hypot(a2, b2)) / 2
    g = 0.5 * (1 - np.sqrt(chroma**7 / (chroma**7 + 25**7)))
    a1, a2 = a1 * (1 + g), a2 * (1 + g)
    c1, c2 = np.hypot(a1, b1), np.hypot(a2, b2)
    h1, h2 = np.degrees(np.arctan2(b1, a1)) % 360, np.degrees(np.arctan2(b2, a2)) % 360
    dh = (h2 - h1 + 180) % 360 - 180
    dl, dc, dhh = l2 - l1, c2 - c1, 2 * np.sqrt(c1 * c2) * np.sin(np.radians(dh) / 2)
    lm, cm = (l1 + l2) / 2, (c1 + c2) / 2
    hm = np.where(np.abs(h1 - h2) <= 180, (h1 + h2) / 2, (h1 + h2 + np.where(h1 + h2 < 360, 360, -360)) / 2)
    t = (
        1
        - 0.17 * np.cos(np.radians(hm - 30))
        + 0.24 * np.cos(np.radians(2 * hm))
        + 0.32 * np.cos(np.radians(3 * hm + 6))
        - 0.20 * np.cos(np.radians(4 * hm - 63))
    )
    sl = 1 + 0.015 * (lm - 50) ** 2 / np.sqrt(20 + (lm - 50) ** 2)
    sc, sh = 1 + 0.045 * cm, 1 + 0.015 * cm * t
    rt = -2 * np.sqrt(cm**7 / (cm**7 + 25**7)) * np.sin(np.radians(60 * np.exp(-(((hm - 275) / 25) ** 2))))
    return np.sqrt((dl / sl) ** 2 + (dc / sc) ** 2 + (dhh / sh) ** 2 + rt * dc / sc * dhh / sh)


def contrast(color, other="#ffffff"):
    """Contraste de WCAG 2.1 entre dos colores."""
    low, high = sorted(float(linear([c])[0] @ TO_XYZ[1]) for c in (color, other))
    return (high + 0.05) / (low + 0.05)


def smallest_difference(colors, vision):
    seen = lab(linear(colors) @ np.array(VISION[vision]).T)
    i, j = np.triu_indices(len(colors), 1)
    return ciede2000(seen[i], seen[j]).min()


def drawn(figure):
    """Dibuja la figura sin dejar pasar ningún aviso y la devuelve."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure.savefig(io.BytesIO())
        figure.draw_without_rendering()
    return figure


def texts(figure):
    return [text.get_text() for text in figure.findobj(mpl.text.Text)]


def weights(n=6, seed=0):
    return torch.softmax(torch.randn(n, n, generator=torch.Generator().manual_seed(seed)) * 2, -1)


def layer_trace(n=4, head_dim=2):
    """Todos los pasos de una capa al azar con dos cabezas y máscara causal."""
    generator = torch.Generator().manual_seed(0)
    d_model = 2 * head_dim
    x, *matrices = (torch.randn(rows, d_model, generator=generator) for rows in (n, *[d_model] * 4))
    query, key, value = ((x @ w).view(n, 2, head_dim).transpose(0, 1) for w in matrices[:3])
    scores, mask = query @ key.mT / head_dim**0.5, torch.ones(n, n).tril().bool()
    weights = scores.masked_fill(~mask, float("-inf")).softmax(-1)
    heads = weights @ value
    concat = heads.transpose(0, 1).reshape(n, d_model)
    trace = dict(zip(("w_q", "w_k", "w_v", "w_o"), matrices, strict=True), x=x, query=query, key=key, value=value)
    return trace | dict(
        scores=scores, mask=mask, weights=weights, heads=heads, concat=concat, output=concat @ matrices[3]
    )


def splits(n=4, num_heads=2, head_dim=2):
    """La división correcta y la del fallo clásico, aplicadas a los lugares de las entradas."""
    places = torch.arange(n * num_heads * head_dim)
    right = places.view(n, num_heads, head_dim).transpose(0, 1)
    return {"Bien": right, "Mal: view directo": places.view(num_heads, n, head_dim)}


# --- Paleta ---


def test_ciede2000_reproduces_a_published_pair():
    """Primer par de la tabla de Sharma, Wu y Dalal (2005): 2,0425."""
    assert ciede2000(np.array([50, 2.6772, -79.7751]), np.array([50, 0, -82.7485])) == pytest.approx(2.0425, abs=1e-4)


def test_there_are_twelve_different_head_colors():
    assert len(set(plots.HEAD_COLORS)) >= 12


@pytest.mark.parametrize("vision", VISION)
def test_heads_are_told_apart_with_any_vision(vision):
    assert smallest_difference(plots.HEAD_COLORS, vision) >= MINIMUM[vision]


def test_usual_palette_would_not_pass():
    """El control: los diez colores de matplotlib (los de BertViz) no se distinguen con deuteranopia."""
    assert smallest_difference([f"C{i}" for i in range(10)], "deuteranopia") < MINIMUM["deuteranopia"]


@pytest.mark.parametrize("color", plots.HEAD_COLORS)
def test_head_colors_contrast_with_the_paper(color):
    assert contrast(color) >= 3


@pytest.mark.parametrize("color", [plots.INK, plots.MUTED, plots.ACCENT, plots.ACCENT_2])
def test_text_colors_are_readable(color):
    assert contrast(color, plots.PAPER) >= 4.5


@pytest.mark.parametrize("color", plots.HEAD_COLORS)
def test_text_color_darkens_just_enough(color):
    assert contrast(plots.text_color(color)) >= 4.5
    assert plots.text_color("#000000") == (0, 0, 0)


# --- Estilo ---


PAIR = [[-0.9, 0.9], [0.85, -0.5]]
PHRASE = "María aprobó el examen porque lo estudió a fondo".split()


def looks(num_heads):
    """Pesos de dos consultas: la cabeza i, todo a la palabra i."""
    return np.eye(len(PHRASE))[:num_heads, None].repeat(2, axis=1)


FIGURES = {
    "heatmap": lambda: plots.heatmap(weights(), TOKENS, TOKENS, title="Pesos"),
    "heatmap grande": lambda: plots.heatmap(weights(30), signed=True, annotate=False),
    "posiciones": lambda: plots.heatmap(
        np.sin(np.outer(np.arange(30), np.linspace(0.1, 2, 48))), signed=True, title="Posiciones sinusoidales"
    ),
    "lines": lambda: plots.lines([1, 2, 4], {"a": [0.1, 0.2, 0.3]}, xlabel="x", ylabel="y"),
    "bars": lambda: plots.bars(["a", "b"], [0.25, -0.5], xlabel="x"),
    "arcs": lambda: plots.arcs(TOKENS, weights()[2], query=2),
    "vectors2d": lambda: plots.vectors2d({"q": (0.5, 1.5)}),
    "matrix_map": lambda: plots.matrix_map(np.outer([1, 2, 3], [0.1, 0.2]), xlabel="dimensión", ylabel="posición"),
    "paired_dots": lambda: plots.paired_dots(["a", "b"], [0.1, 0.2], [0.3, 0.1], names=("con", "sin"), xlabel="x"),
    "transformer_map": lambda: plots.transformer_map(6),
    "panels": lambda: plots.panels([1, 2], {"a": {"b": [1, 2]}, "c": {"b": [2, 1]}}, xlabel="x", reference=1),
    "head_grid": lambda: plots.head_grid(torch.stack([torch.stack([weights()] * 4)] * 3)),
    "convex_pair": lambda: plots.convex_pair(PAIR, [[0.6, 0.4], [0.2, 0.8]], start=[[-1, 0.5], [1, 0.1]]),
    "seed_panels": lambda: plots.seed_panels(
        [1, 2, 4],
        {"acierto": [[0.1], [0.9, 1], []], "BLEU": [24.9, float("nan"), 25.5]},
        xlabel="cabezas",
        references={"acierto": {"azar": 0.1}},
    ),
    "query_stems": lambda: plots.query_stems(torch.rand(2, 48).softmax(-1), marks={"anterior": 9, "señalada": 46}),
    "query_stems juntas": lambda: plots.query_stems(torch.eye(48)[:1], marks={"anterior": 20, "señalada": 22}),
    "neuron_view": lambda: plots.neuron_view(torch.randn(4, 32), TOKENS[:4], [0.6, 0.3, 0.1, 0], query=1, title="2.8"),
    "head_split": lambda: plots.head_split(8, 4),
    "head_split de una cabeza": lambda: plots.head_split(8, 1),
    "head_split de muchas": lambda: plots.head_split(12, 12),
    "head_split troceada": lambda: plots.head_split(8, 4, sliced=True),
    **{
        f"layer_step {name}": lambda step=step: plots.layer_step(
            step, layer_trace(), TOKENS[:4], note="Una nota que ocupa\ndos líneas de la figura."
        )
        for step, (name, _) in enumerate(plots.LAYER_STEPS)
    },
    "contributions": lambda: plots.contributions(
        {"x": [0.0, 1], "cabeza 0": [0.5, -0.25]}, ["animado", "nombre"], xlabel="flujo residual"
    ),
    "head_entries": lambda: plots.head_entries(splits(), TOKENS[:4]),
    "head_rows": lambda: plots.head_rows(
        PHRASE, {"Un modelo de una cabeza": looks(1), "Otro, de dos": looks(2)}, ["lo", "estudió"], title="Semilla 10"
    ),
    "seed_rows": lambda: plots.seed_rows(
        {"un nombre de fila que ocupa dos líneas": [0.1, 0.9], "otra": [1, 1, 1]},
        xlabel="acierto",
        kinds={"otra": ["se reparten los papeles", "se los cambian", "se reparten los papeles"]},
        limits=(0, 1.02),
    ),
    "verdict_rows": lambda: plots.verdict_rows(
        {"verbo → objeto": (0.8, 0.7, 0.9), "nombre → determinante": (0.6, 0.5, 0.7), "otra": (0.4, 0.3, 0.5)},
        bars={"verbo → objeto": 0.6, "nombre → determinante": 0.6, "otra": 0.9},
        controls={"verbo → objeto": [0.1, 0.2], "nombre → determinante": [0.1], "otra": []},
        verdicts={"verbo → objeto": "sí", "nombre → determinante": "dudoso", "otra": "no"},
        xlabel="acierto",
    ),
    "stacked": lambda: plots.stacked(
        [0, 1, 2], {"pérdida": {"a": [3, 2, 1], "b": [3, 3, 3]}, "índice": {"c": [0, 0.5, 1]}}, xlabel="paso",
        references={"pérdida": {"azar": 2.5}}, limits={"índice": (0, 1)}, shade=(0.5, 1.5),
    ),
    "seed_curves": lambda: plots.seed_curves(
        {"dos capas": ([0, 1, 10], [[4, 3, 0], [4, 4, 1]]), "una capa": ([0, 5], [[4, 3]])},
        xlabel="paso", ylabel="pérdida", references={"uno del periodo": 2.7},
    ),
    "induction_circuit": lambda: plots.induction_circuit(),
    "running_softmax": lambda: plots.running_softmax([1, 0.5, 2.5, -1, 0.3], [2, 2, 1], 2),
    "score_tiles": lambda: plots.score_tiles(4, 6),
    "score_tiles, al acabar": lambda: plots.score_tiles(4, 16),
    "shared_heads": lambda: plots.shared_heads(9, {"MHA": 9, "GQA (SmolLM2)": 3, "MQA": 1}),
    "cache_growth": lambda: plots.cache_growth(
        ["The", " extraordinarily", " cat", "."], 2, 1, num_kv_heads=3, weights=[0.7, 0.2, 0.1],
        lines=["Guardado: 3 tokens", "Se calcula 1"],
    ),
    "latent_attention": lambda: plots.latent_attention(
        128, 512, 64, {"DeepSeek 67B\n(GQA, 16 bits)": 380, "V2 (MLA, 6 bits)": 25.3125}
    ),
    "speed_rows": lambda: plots.speed_rows({"repetir": (0.1, 0.05, 0.2), "filas": (5, 4, 30)}, xlabel="veces"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", FIGURES)
def test_each_figure_is_drawn_without_warnings_and_leaves_the_style_alone(name):
    before = dict(mpl.rcParams)
    figure = drawn(FIGURES[name]())
    assert isinstance(figure, Figure)
    assert dict(mpl.rcParams) == before
    assert mpl.colors.to_hex(figure.get_facecolor()) == "#ffffff"
    assert figure.get_facecolor()[3] == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", FIGURES)
def test_letters_are_readable_on_a_390_px_phone(name):
    """358 px útiles: ningún texto por debajo de 8,5 px, y lo normal por encima de 10."""
    figure = drawn(FIGURES[name]())
    scale = 358 / figure.get_figwidth() / 72
    sizes = [
        t.get_fontsize() * scale for t in figure.findobj(mpl.text.Text) if t.get_text().strip() and t.get_visible()
    ]
    assert min(sizes) >= 8.5
    assert np.median(sizes) >= 10


@pytest.mark.parametrize("name", ["lines", "bars", "vectors2d"])
def test_axes_have_decimal_comma(name):
    figure = drawn(FIGURES[name]())
    (axes,) = figure.axes
    labels = [t.get_text() for axis in (axes.xaxis, axes.yaxis) for t in axis.get_ticklabels()]
    assert any("," in label for label in labels)
    assert not any("." in label.replace("{,}", ",") for label in labels if any(c.isdigit() for c in label))


def test_logarithmic_axes_have_plain_numbers():
    figure = drawn(plots.lines([1, 10, 100], {"a": [0.01, 0.1, 1]}, xlabel="x", ylabel="y", xscale="log", yscale="log"))
    labels = {t.get_text() for t in figure.axes[0].get_yticklabels()}
    assert {"0,01", "0,1", "1"} <= labels


@pytest.mark.slow
def test_figures_do_not_stay_in_pyplot():
    import matplotlib.pyplot as plt

    plt.close("all")
    for draw in FIGURES.values():
        draw()
    assert plt.get_fignums() == []


# --- Contenido ---


def test_heatmap_writes_each_weight_with_comma():
    matrix = torch.tensor([[0.25, 0.75], [1.0, 0.0]])
    assert {"0,25", "0,75", "1,00", "0,00"} <= set(texts(plots.heatmap(matrix)))


def test_heatmap_writes_no_number_on_what_is_masked():
    matrix = torch.tensor([[1.0, float("nan")], [0.4, 0.6]])
    mask = torch.tensor([[True, False], [True, True]])
    shown = texts(plots.heatmap(matrix, mask=mask))
    assert sum("," in text for text in shown) == 3


def test_arcs_draws_one_arrow_per_weight_thicker_if_larger():
    from matplotlib.patches import FancyArrowPatch

    row = [0.7, 0.2, 0.1, 0.0, 0.0, 0.0]
    figure = plots.arcs(TOKENS, row, query=2)
    arrows = figure.findobj(FancyArrowPatch)
    assert len(arrows) == 3
    widths = [arrow.get_linewidth() for arrow in arrows]
    opacities = [arrow.get_alpha() for arrow in arrows]
    assert widths == sorted(widths, reverse=True)
    assert opacities == sorted(opacities, reverse=True)
    assert len(plots.arcs(TOKENS, torch.eye(6)).findobj(FancyArrowPatch)) == 6


def test_lines_draws_band_and_reference():
    figure = plots.lines(
        [1, 2], {"a": [1, 2]}, xlabel="x", ylabel="y", intervals={"a": ([0, 1], [2, 3])}, references={"azar": 0.5}
    )
    assert figure.axes[0].collections
    assert {"a", "azar"} <= set(texts(figure))


def test_panels_share_axes_and_color_by_name():
    """La misma serie en dos paneles lleva el mismo color; el que sobra de la última fila queda en blanco."""
    series = {"sube": {"a": [1, 2], "b": [1, 4]}, "baja": {"b": [1, 0.5]}, "quieto": {"c": [1, 1]}}
    figure = plots.panels([1, 64], series, xlabel="h", xscale="log2", yscale="log2", intervals={"b": ([1, 3], [1, 5])})
    first, second, third, spare = drawn(figure).axes
    color = {name: line.get_color() for axes in (first, third) for line in axes.lines for name in [line.get_label()]}
    assert len(set(color.values())) == 3
    assert second.lines[0].get_color() == color["b"]
    assert first.get_ylim() == second.get_ylim() == third.get_ylim()
    assert first.collections and not spare.axison  # noqa: PT018


def test_verdict_rows_paints_the_threshold_and_marks_each_verdict():
    figure = FIGURES["verdict_rows"]()
    (axes,) = figure.axes
    bars = [line.get_xdata()[0] for line in axes.lines if len(line.get_xdata()) == 2 and line.get_linewidth() == 2]
    assert bars == [0.6, 0.6, 0.9]
    markers = {line.get_ydata()[0]: line.get_marker() for line in axes.lines if len(line.get_xdata()) == 1
               and line.get_marker() in "oDs"}  # fmt: skip
    assert markers == {0: "o", 1: "D", 2: "s"}
    labels = {text.get_text() for text in figure.legends[0].get_texts()}
    assert {"supera el listón", "no se puede decir", "no lo supera", "listón", "control"} == labels


def test_vectors_do_not_move_the_axes():
    """Con el mismo límite, los ejes caen en el mismo sitio aunque los nombres cambien de lugar."""
    places = []
    for vector in ((1, 0), (-1, 0), (0, 1)):
        figure = drawn(plots.vectors2d({"una consulta de nombre largo": vector}, limit=1.2))
        places.append(figure.axes[0].get_position().bounds)
    assert np.allclose(places, places[0])


def faces(figure):
    """Los colores de las celdas, sin los recuadros vacíos."""
    patches = [p for p in figure.findobj(mpl.patches.Rectangle) if p.get_fill() and p.get_width() < 1]
    return [mpl.colors.to_hex(p.get_facecolor()) for p in patches]


def test_convex_pair_puts_each_mixture_in_its_place_and_keeps_the_axes_still():
    figures = [plots.convex_pair(pair, [[0.6, 0.4], [0.2, 0.8]]) for pair in (PAIR, [[1, 1], [-1, -1]])]
    stars = [line for line in figures[0].axes[0].lines if line.get_marker() == "*"]
    assert [star.get_color() for star in stars] == list(plots.HEAD_COLORS[:2])
    assert np.allclose([star.get_xydata()[0] for star in stars], [[-0.2, 0.34], [0.5, -0.22]])
    assert figures[0].axes[0].get_xlim() == figures[1].axes[0].get_xlim()


def test_seed_panels_draws_each_seed_and_joins_the_medians():
    values = [[0.1, 0.2, 0.9], [1, 0.5], []]
    axes = plots.seed_panels([1, 2, 4], {"acierto": values}, xlabel="h").axes[0]
    line, *dots = axes.lines
    assert line.get_xydata().tolist() == [[1, 0.2], [2, 0.75]]
    assert [dot.get_ydata().tolist() for dot in dots] == values


def test_head_rows_paints_each_weight_in_the_color_of_its_head():
    figure = plots.head_rows(PHRASE, {"a": looks(2), "b": looks(1) / 2}, ["lo", "estudió"])
    cells = np.array(faces(figure)).reshape(-1, len(PHRASE))
    assert len(cells) == 2 * 2 + 2
    assert [list(row).index(color) for row, color in zip(cells[:2], plots.HEAD_COLORS, strict=False)] == [0, 1]
    assert (cells[:4] == "#ffffff").sum() == 4 * 8
    assert cells[4][0] not in ("#ffffff", plots.HEAD_COLORS[0])  # medio peso, medio color
    assert texts(figure).count("1,0") == 4
    assert texts(figure).count("0,5") == 2


def test_seed_rows_has_one_dot_per_seed_and_one_shape_per_event():
    rows, kinds = {"a": [0.2, 0.4, 0.4], "b": [1, 0]}, {"a": ["sí", "no", "sí"]}
    figure = plots.seed_rows(rows, xlabel="acierto", kinds=kinds)
    dots = [line for line in figure.axes[0].lines if line.get_linestyle() == "None" and len(line.get_xdata())]
    assert sorted(float(dot.get_xdata()[0]) for dot in dots) == [0, 0.2, 0.4, 0.4, 1]
    assert len({float(dot.get_ydata()[0]) for dot in dots}) >= 3  # los iguales no se tapan
    assert {round(float(dot.get_ydata()[0])) for dot in dots} == {0, 1}
    assert len({dot.get_marker() for dot in dots[:3]}) == 2
    assert [text.get_text() for text in figure.legends[0].texts] == ["sí", "no"]


def test_query_stems_raises_one_stem_per_weight():
    rows = torch.tensor([[0.9, 0.1, 0.0], [0.0, 0.3, 0.7]])
    axes = plots.query_stems(rows, marks={"anterior": 0}).axes[0]
    sticks = [[path.vertices[1, 1] for path in lines.get_paths()] for lines in axes.collections]
    assert np.allclose(sticks, rows)
    assert [text.get_text() for text in axes.texts] == ["anterior"]


def test_neuron_view_shows_the_products_and_the_weights():
    products = torch.arange(12.0).view(3, 4) - 6
    figure = plots.neuron_view(products, TOKENS[:3], [0.7, 0.2, 0.1], query=2, limit=10)
    cells, bars = figure.axes[:2]
    assert np.allclose(cells.images[0].get_array(), products)
    assert cells.images[0].get_clim() == (-10, 10)
    assert [bar.get_width() for bar in bars.patches] == [0.7, 0.2, 0.1]
    assert [text.get_text() for text in bars.texts] == ["0,70", "0,20", "0,10"]
    assert [label.get_fontweight() for label in cells.get_yticklabels()] == ["normal", "normal", "bold"]


def test_stacked_marks_the_same_band_and_each_measure_has_its_color():
    figure = FIGURES["stacked"]()
    loss, index = figure.axes
    assert [list(line.get_ydata()) for line in loss.lines] == [[3, 2, 1], [3, 3, 3], [2.5, 2.5]]
    assert index.get_ylim() == (0, 1)
    colors = [line.get_color() for line in [*loss.lines[:2], *index.lines]]
    assert len({*colors}) == 3
    for axes in figure.axes:
        band = axes.patches[0].get_extents().transformed(axes.transData.inverted())
        assert list(band.intervalx) == pytest.approx([0.5, 1.5])


def test_seed_curves_draws_each_seed_on_both_scales():
    """En la logarítmica no cabe el paso 0; en la otra, sí."""
    linear_axes, log_axes = FIGURES["seed_curves"]().axes
    assert (linear_axes.get_xscale(), log_axes.get_xscale()) == ("linear", "log")
    assert [list(line.get_xdata()) for line in linear_axes.lines[:3]] == [[0, 1, 10], [0, 1, 10], [0, 5]]
    assert [list(line.get_xdata()) for line in log_axes.lines[:3]] == [[1, 10], [1, 10], [5]]
    assert [list(line.get_ydata()) for line in log_axes.lines[:2]] == [[3, 0], [4, 1]]
    assert len({line.get_color() for line in linear_axes.lines[:3]}) == 2


def test_induction_circuit_says_who_reads_whom():
    texts = " ".join(text.get_text().replace("\n", " ") for text in plots.induction_circuit("sol", "mar").axes[0].texts)
    for piece in ("clave: «iba tras sol»", "consulta: «¿quién iba tras sol?»", "escribe «mar»", "el siguiente: «mar»"):
        assert piece in texts


def test_head_split_does_not_change_size_with_h():
    """Las matrices son las mismas con cualquier h: solo cambian sus colores."""
    sizes, painted = set(), set()
    for num_heads in (1, 2, 4, 8):
        figure = plots.head_split(8, num_heads)
        sizes.add(tuple(figure.get_size_inches()))
        squares = [color for color in faces(figure) if color in plots.HEAD_COLORS]
        painted.add(len(squares) - 8 - 8 - 8)  # quita las filas elegidas de Q, Concat y las miniaturas
        assert set(squares) == set(plots.HEAD_COLORS[:num_heads])
    assert len(sizes) == 1
    assert painted == {2 * 64}  # W^Q y W^O


@pytest.mark.parametrize("num_heads", [2, 4, 8])
def test_sliced_head_split_keeps_one_input_in_h(num_heads):
    whole, sliced = (
        sum(color in plots.HEAD_COLORS for color in faces(plots.head_split(8, num_heads, sliced=sliced)))
        for sliced in (False, True)
    )
    # La x troceada gana una fila de color; W^Q pierde las entradas de fuera de los bloques.
    assert whole - sliced == 64 - 64 // num_heads - 8


def test_layer_step_writes_the_numbers_of_its_step():
    trace = layer_trace()
    shown = {name: texts(plots.layer_step(i, trace, TOKENS[:4])) for i, (name, _) in enumerate(plots.LAYER_STEPS)}
    new = trace["x"] + trace["output"]
    for name, tensor in {"A·V": trace["heads"], "concatenar": trace["concat"], "+ x": new}.items():
        assert {plots.spanish_number(float(v)) for v in tensor.flatten()} <= set(shown[name]), name
    assert shown["máscara"].count("−∞") == 2 * 6
    assert "−∞" not in shown["puntuar"]


def test_layer_step_does_not_change_size():
    sizes = {
        tuple(plots.layer_step(i, layer_trace(), TOKENS[:4]).get_size_inches()) for i in range(len(plots.LAYER_STEPS))
    }
    assert len(sizes) == 1


def test_contributions_stacks_and_adds():
    parts = {"x": [1.0, 0.5], "cabeza 0": [0.5, -2.0], "cabeza 1": [0.25, -1.0]}
    axes = plots.contributions(parts, ["a", "b"], xlabel="x").axes[0]
    (total,) = [line for line in axes.lines if line.get_label() == "suma"]
    assert total.get_xdata() == pytest.approx([1.75, -2.5])
    bars = {(round(p.get_x(), 2), round(p.get_width(), 2)) for p in axes.patches}
    assert {(0.0, 1.0), (1.0, 0.5), (1.5, 0.25)} <= bars  # hacia la derecha
    assert {(0.0, 0.5), (0.0, -2.0), (-2.0, -1.0)} <= bars  # lo negativo, hacia la izquierda


def test_head_entries_shows_the_mixture():
    right, wrong = (texts(plots.head_entries({"una": split}, TOKENS[:4])) for split in splits().values())
    assert right.count("cabeza 0") == wrong.count("cabeza 0") == 1
    entries = [t for t in right if " · " in t]
    assert sorted(entries) == sorted(t for t in wrong if " · " in t)
    assert entries[:8] == [f"{token} · {c}" for token in TOKENS[:4] for c in (0, 1)]  # cabeza 0: de todos, sus columnas
    assert [t for t in wrong if " · " in t][:4] == ["the · 0", "the · 1", "the · 2", "the · 3"]


@pytest.mark.slow
@pytest.mark.parametrize("name", FIGURES)
def test_nothing_overflows_the_figure(name):
    figure = drawn(FIGURES[name]())
    page = figure.bbox
    outside = set()  # las marcas que quedan fuera del eje no se dibujan
    for axis in figure.findobj(mpl.axis.Axis):
        low, high = sorted(axis.get_view_interval())
        outside |= {tick.label1 for tick in axis.get_major_ticks() if not low <= tick.get_loc() <= high}
    for text in figure.findobj(mpl.text.Text):
        if text.get_text().strip() and text.get_visible() and text not in outside:
            box = text.get_window_extent()
            assert box.x0 >= page.x0 - 1, text
            assert box.x1 <= page.x1 + 1, text
            assert box.y0 >= page.y0 - 1, text
            assert box.y1 <= page.y1 + 1, text


@pytest.mark.slow
@pytest.mark.parametrize("angle", range(0, 360, 15))
def test_vector_names_do_not_overlap(angle):
    vectors = {"consulta": (2 * np.cos(np.radians(angle)), 2 * np.sin(np.radians(angle)))}
    figure = drawn(plots.vectors2d({**vectors, "clave 1": (1, 1), "clave 2": (-1, 0.3)}, limit=2.6))
    boxes = [t.get_window_extent() for t in figure.axes[0].texts]
    assert len(boxes) == 3
    for i, box in enumerate(boxes):
        assert not any(box.shrunk(0.9, 0.8).overlaps(other.shrunk(0.9, 0.8)) for other in boxes[i + 1 :])


@pytest.mark.parametrize(
    ("token", "shown"), [(" ", "␣"), ("\n", "↵"), ("", "␣"), ("a$b$", r"a\$b\$"), ("\x07", "�"), ("niño", "niño")]
)
def test_printable(token, shown):
    assert plots.printable(token) == shown


def test_token_with_dollars_is_not_taken_for_a_formula():
    figure = plots.heatmap([[1.0]], ["$\\frac$"], ["$x$"])
    drawn(figure)


@pytest.mark.parametrize(("value", "text"), [(-0.001, "0,00"), (-1.5, "−1,50"), (12, "12,00")])
def test_spanish_number(value, text):
    assert plots.spanish_number(value) == text


# --- Errores ---


def test_scatter_marks_and_names_its_points():
    figure = plots.scatter(
        [0, 1, 2, 3], [3, 2, 1, 0], xlabel="x", ylabel="y", marked={"las dos": [1, 2]}, names={2: "1.2"},
        thresholds=(0.5, 1.5),
    )  # fmt: skip
    axes = figure.axes[0]
    drawn = {line.get_label(): line for line in axes.lines}
    assert drawn["las dos"].get_xydata().tolist() == [[1, 2], [2, 1]]
    assert axes.lines[0].get_xydata().tolist() == [[0, 3], [3, 0]]
    assert [text.get_text() for text in axes.texts] == ["1.2"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["las dos"]


def test_pruning_story_goes_from_all_to_none():
    """El eje x empieza con todas las cabezas y acaba sin ninguna; cada grupo tiene su entrada en la leyenda."""
    lines = {"sin ajuste": ([8, 4, 0], [[95, 50, 5], [95, 60, 3]])}
    dots = {"puertas": [(4, 94), (1, 88)], "al azar": [(4, 93)]}
    figure = plots.pruning_story(8, lines, dots, ylabel="%", floor=("suelo", 60), ceiling=("techo", 96))
    whole, near = figure.axes
    assert near.get_xlim()[0] > 8 > 0 > near.get_xlim()[1]
    assert near.get_ylim() == (85, 100)
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert texts == ["sin ajuste", "puertas", "al azar"]
    assert [text.get_text() for text in whole.texts] == ["suelo"]
    assert [text.get_text() for text in near.texts] == ["techo"]
    means = [line.get_ydata().tolist() for line in whole.lines if line.get_label() == "sin ajuste"]
    assert means == [[95, 55, 4]]


def test_running_softmax_carries_the_maximum_and_the_sum():
    """La suma que escribe es la de las puntuaciones leídas, y el hueco, lo que valían con el máximo anterior."""
    scores = [1, 0.5, 2.5, -1, 0.3]
    figure = plots.running_softmax(scores, [2, 2, 1], 2)
    above, below = figure.axes
    total = sum(np.exp(np.array(scores[:4]) - 2.5))
    assert plots.spanish_number(total) in below.get_title(loc="left")
    assert [text.get_text() for text in above.texts] == ["m = 2,5"]
    heights = [bar.get_height() for bar in below.patches]
    assert heights == pytest.approx([*np.exp([0, -0.5]), *np.exp(np.array(scores[:4]) - 2.5)])
    assert plots.spanish_number(np.exp(1 - 2.5)) in figure.get_suptitle()
    assert "lo anterior" not in plots.running_softmax(scores, [2, 2, 1], 1).get_suptitle()


def test_score_tiles_only_has_one_tile_at_a_time():
    for step in (0, 6, 15):
        shown = [color for color in faces(plots.score_tiles(4, step)) if color == mpl.colors.to_hex(plots.ACCENT)]
        assert len(shown) == 3  # la baldosa, su bloque de claves y su bloque de consultas
    assert mpl.colors.to_hex(plots.ACCENT) not in faces(plots.score_tiles(4, 16))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: plots.running_softmax([1, 2, 3], [2, 2], 1), "deben sumar 3"),
        (lambda: plots.running_softmax([1, 2, 3], [2, 1], 3), "de 1 a 2"),
        (lambda: plots.score_tiles(3, 10), "entre 0 y 9"),
        (lambda: plots.heatmap(torch.ones(2, 3, 3)), "una matriz"),
        (lambda: plots.heatmap([[float("nan")]]), "NaN"),
        (lambda: plots.heatmap(torch.ones(2, 2), ["a"]), "1 etiquetas"),
        (lambda: plots.heatmap(torch.ones(2, 2), "ab"), "lista de textos"),
        (lambda: plots.heatmap("hola"), "números"),
        (lambda: plots.heatmap(torch.ones(2, 2), mask=torch.ones(2, 3)), "coincidir"),
        (lambda: plots.heatmap(torch.ones(0, 2)), "vacía"),
        (lambda: plots.lines([1, 2], {"a": [1]}, xlabel="x", ylabel="y"), "1 valores"),
        (lambda: plots.lines([1], {}, xlabel="x", ylabel="y"), "vacío"),
        (lambda: plots.lines([1], {"a": [1]}, xlabel="x", ylabel="y", xscale="raro"), "Escala"),
        (lambda: plots.lines([1], {"a": [1]}, xlabel="x", ylabel="y", intervals={"b": ([0], [1])}), "«b»"),
        (lambda: plots.bars(["a"], [1, 2], xlabel="x"), "1 etiquetas"),
        (lambda: plots.arcs(TOKENS, torch.ones(5)), "otra frase"),
        (lambda: plots.arcs(TOKENS, torch.ones(6)), "query"),
        (lambda: plots.arcs(TOKENS, -torch.ones(6), query=0), "softmax"),
        (lambda: plots.arcs(TOKENS, weights()[0], query=9), "entre 0 y 5"),
        (lambda: plots.vectors2d({}), "vacío"),
        (lambda: plots.vectors2d({"q": (1, 2, 3)}), "dos componentes"),
        (lambda: plots.head_grid(weights()), "n_layers"),
        (lambda: plots.convex_pair(PAIR, [[0.6, 0.6]]), "sumar 1"),
        (lambda: plots.convex_pair([[1, 2]], [[0.6, 0.4]]), "values"),
        (lambda: plots.seed_panels([1, 2], {"a": [1]}, xlabel="h"), "1 entradas"),
        (lambda: plots.seed_panels([1], {"a": [1]}, xlabel="h", limits={"b": (0, 1)}), "'b'"),
        (lambda: plots.seed_panels([1], {"a": [1]}, xlabel="h", xscale="raro"), "Escala"),
        (lambda: plots.panels([1, 2], {}, xlabel="x"), "vacío"),
        (lambda: plots.panels([1, 2], {"a": {}}, xlabel="x"), "vacío"),
        (lambda: plots.panels([1, 2], {"a": {"b": [1]}}, xlabel="x"), "1 valores"),
        (lambda: plots.panels([1], {"a": {"b": [1]}}, xlabel="x", intervals={"c": ([0], [1])}), "«c»"),
        (lambda: plots.query_stems(torch.ones(2, 3)), "sumen 1"),
        (lambda: plots.query_stems(torch.eye(3)[:1], marks={"otra": 3}), "entre 0 y 2"),
        (lambda: plots.neuron_view(torch.ones(3, 4), TOKENS[:3], [1, 0], query=0), "2 pesos"),
        (lambda: plots.neuron_view(torch.ones(3, 4), TOKENS[:3], [1, 0, 0], query=3), "query 3"),
        (lambda: plots.head_split(8, 3), "h que lo divida"),
        (lambda: plots.layer_step(0, {"x": [[1.0]]}, ["a"]), "falta w_q"),
        (lambda: plots.layer_step(99, layer_trace(), TOKENS[:4]), "va de 0 a"),
        (lambda: plots.layer_step(0, layer_trace(n=5), TOKENS[:5]), "hasta 4 tokens"),
        (lambda: plots.contributions({}, [], xlabel="x"), "vacío"),
        (lambda: plots.contributions({"x": [1.0]}, ["a", "b"], xlabel="x"), "hay 2 componentes"),
        (lambda: plots.head_entries({"a": torch.arange(16).view(4, 4)}, TOKENS[:4]), "debe ser"),
        (lambda: plots.head_rows(PHRASE, {"a": looks(1)}, ["lo"]), "cabezas, consultas y palabras"),
        (lambda: plots.head_rows(PHRASE, {}, ["lo"]), "vacío"),
        (lambda: plots.seed_rows({}, xlabel="x"), "vacío"),
        (lambda: plots.seed_rows({"a": [1]}, xlabel="x", kinds={"b": ["sí"]}), "no hay: b"),
        (lambda: plots.seed_rows({"a": [1]}, xlabel="x", kinds={"a": ["sí", "no"]}), "2 señales"),
        (lambda: plots.stacked([1, 2], {"a": {"b": [1]}}, xlabel="x"), "1 valores"),
        (lambda: plots.stacked([1], {"a": {"b": [1]}}, xlabel="x", limits={"c": (0, 1)}), "'c'"),
        (lambda: plots.seed_curves({}, xlabel="x", ylabel="y"), "al menos un experimento"),
        (lambda: plots.seed_curves({"a": ([1], [[1]])}, xlabel="x", ylabel="y", xscales=["log2"]), "una escala"),
        (lambda: plots.seed_curves({"a": ([1, 2], [[1]])}, xlabel="x", ylabel="y"), "1 valores"),
        (lambda: plots.scatter([1, 2], [1], xlabel="x", ylabel="y"), "tantos x como y"),
        (lambda: plots.scatter([1, 2], [1, 2], xlabel="x", ylabel="y", marked={"a": [2]}), "del 0 al 1"),
        (lambda: plots.pruning_story(8, {}, {}, ylabel="y"), "No hay nada"),
        (lambda: plots.pruning_story(8, {"a": ([9], [[1]])}, {}, ylabel="y"), "de 0 a 8"),
        (lambda: plots.pruning_story(8, {"a": ([8, 1], [[1]])}, {}, ylabel="y"), "no tienen 2 valores"),
        (lambda: plots.verdict_rows({}, bars={}, controls={}, verdicts={}, xlabel="x"), "vacío"),
        (
            lambda: plots.verdict_rows(
                {"a": (1, 0, 1)}, bars={"a": 1}, controls={"a": []}, verdicts={"a": "quizá"}, xlabel="x"
            ),
            "un veredicto de los conocidos",
        ),
    ],
)
def test_errors_say_what_was_expected(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# --- Compartir claves y valores ---


def face(patch):
    return tuple(round(channel, 3) for channel in patch.get_facecolor()[:3])


def test_shared_heads_joins_each_query_to_its_group():
    figure = plots.shared_heads(6, {"MHA": 6, "GQA": 2})
    axes = figure.axes[0]
    links = sorted(line.get_xdata()[0] for line in axes.lines if line.get_ydata()[0] > 1.5)
    groups = sorted((p.get_x(), p.get_width()) for p in axes.patches if 2.5 < p.get_y() < 2.6)
    assert len(links) == 6
    assert len(groups) == 2
    assert [sum(x < link < x + width for link in links) for x, width in groups] == [3, 3]
    assert texts(figure).count("0") == 4  # consulta y claves, en los dos dibujos


def test_cache_growth_paints_what_is_stored_new_and_missing():
    tokens = ["a", "b", "c", "d"]
    for step, kinds in {0: "nn..", 1: "oon.", 2: "ooon"}.items():
        axes = plots.cache_growth(tokens, 2, step, num_kv_heads=3).axes[0]
        columns = {}
        for patch in axes.patches:
            columns.setdefault(round(patch.get_y(), 2), []).append(patch)
        rows = [[face(p) for p in sorted(row, key=lambda p: p.get_x())] for _, row in sorted(columns.items())]
        new, empty = tuple(round(c, 3) for c in mpl.colors.to_rgb(plots.ACCENT_2)), (1.0, 1.0, 1.0)
        seen = ["".join("n" if c == new else "." if c == empty else "o" for c in row) for row in rows]
        query = "".join("n" if j == 1 + step else "." for j in range(4))
        assert seen == [*[kinds] * 6, query]


def test_cache_growth_shows_the_weights_of_the_query():
    axes = plots.cache_growth(["a", "b", "c"], 1, 1, num_kv_heads=1, weights=[1.0, 0.0]).axes[0]
    shades = [face(p) for p in axes.patches]
    assert tuple(round(c, 3) for c in plots.WEIGHT_CMAP(1.0)[:3]) in shades


def test_latent_attention_writes_the_sizes():
    written = texts(plots.latent_attention(16, 32, 8, {"uno": 380, "dos": 25.3125}))
    assert {"380", "25,3", "16 claves\n(se rehacen)", "comprimido\n32 números"} <= set(written)


def test_speed_rows_separates_gains_from_losses():
    axes = plots.speed_rows({"a": (0.5, 0.4, 0.6), "b": (3, 2, 4)}, xlabel="veces").axes[0]
    marks = {line.get_ydata()[0]: line.get_color() for line in axes.lines if line.get_marker() in "os"}
    assert marks == {0: plots.ACCENT_2, 1: plots.ACCENT}
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1/4", "1/2", "1", "2", "4"]
    assert [text.get_text() for text in axes.texts] == ["0,50", "3,0"]


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: plots.shared_heads(9, {"GQA": 2}), "repartos que lo dividan"),
        (lambda: plots.shared_heads(9, {}), "repartos que lo dividan"),
        (lambda: plots.cache_growth(["a", "b"], 1, 2, num_kv_heads=1), "los pasos van de 0 a 1"),
        (lambda: plots.cache_growth(["a", "b"], 1, 1, num_kv_heads=1, weights=[1]), "hay 2 tokens guardados"),
        (lambda: plots.latent_attention(1, 1, 1, {}), "vacío"),
        (lambda: plots.speed_rows({"a": (1, 0, 2)}, xlabel="veces"), "mayores que 0"),
    ],
)
def test_sharing_explains_what_is_not_valid(draw, message):
    with pytest.raises(ValueError, match=message):
        draw()
