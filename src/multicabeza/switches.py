"""El cuadro de interruptores: las 32 cabezas del traductor del capítulo 07, que se apagan y se encienden en la página.

Es el modelo de `toys/translator.py`, con los pesos de su punto de control «base», y traduce en el navegador: las
cuentas las hace `web/tensor.js`; lo demás, `web/switchboard.js`. En el libro, los pesos van en un archivo aparte, que
se pide al tocar la primera cabeza (`weight_files`); en un cuaderno, dentro de la salida.
"""

import html
from functools import cache

from IPython.display import HTML
from torch import Tensor

from multicabeza import laboratory, plots, views
from multicabeza.toys import translator
from multicabeza.toys.bilingual import ENGLISH, SPANISH, corpus, encode_english, encode_spanish
from multicabeza.toys.intervals import wilson_interval
from multicabeza.toys.records import load_record

NUM_SENTENCES = 200
"""Frases de prueba, las primeras: las que caben en un segundo de cuentas."""
WEIGHTS = "switchboard-weights.js"


def _tensors() -> dict[str, Tensor]:
    """Los pesos del traductor, por orden de nombre."""
    return dict(sorted(translator.load_checkpoint("base").state_dict().items()))


@cache
def _packed() -> str:
    return laboratory.pack(_tensors())


def weight_files() -> dict[str, str]:
    """Los pesos que la página pide aparte: nombre del archivo dentro de `_static` → programa que los trae."""
    return {WEIGHTS: f'window.mcSwitchboardWeights = "{_packed()}";\n'}


def switchboard() -> None:
    """Las 32 cabezas del codificador: se apaga la que se quiera y se ve qué frases siguen saliendo exactas.

    Se mide con 200 frases de prueba que se vuelven a traducir en el navegador, sin servidor y sin ajustar nada. Al
    lado, lo que el registro `07_translation` dice de apagarlas por orden de importancia y al azar. Vale con el dedo,
    con el ratón y con el teclado. Sin JavaScript y en papel queda una figura con lo que cuesta apagar cada una.
    """
    model, sentences = translator.load_checkpoint("base"), corpus("test", NUM_SENTENCES)
    record = load_record("07_translation")
    run = record.values["runs"][str(record.seeds[0])]  # la semilla del punto de control
    curves, hits = run["curves"], translator.exact_matches(model, sentences)
    wrong = (~hits).nonzero().flatten().tolist()
    said = translator.translate(model, [sentences[i].spanish for i in wrong])
    draws = [[round(100 * value, 2) for value in row] for row in curves["random"]["exact"]]
    data = {
        "spanish": SPANISH,
        "english": ENGLISH,
        "sentences": [
            {"source": encode_spanish(sentence.spanish), "target": encode_english(sentence.english)}
            for sentence in sentences
        ],
        "wrong": wrong,
        "said": {i: encode_english(text.split())[1:-1] for i, text in zip(wrong, said, strict=True)},
        "order": curves["one_shot"]["order"],
        "whole": 100 * hits.float().mean().item(),
        "curves": {
            "kept": curves["kept"],
            "michel": [round(100 * value, 2) for value in curves["one_shot"]["exact"]],
            "random": draws,
            "mean": [round(sum(column) / len(draws), 2) for column in zip(*draws, strict=True)],
        },
        "shapes": {name: list(weight.shape) for name, weight in _tensors().items()},
        **({} if views.in_book() else {"weights": _packed()}),
    }
    style, script = laboratory.assets("switchboard")
    block = views._identifier("switchboard", str(wrong))
    views.display(
        HTML(
            f'<figure class="mc-switchboard mc-tensor mc-fig" id="{block}" aria-labelledby="{block}-t">{style}'
            f'<p class="mc-title" id="{block}-t">Apaga cabezas y mira qué traduce</p>{_panel(block, int(hits.sum()))}'
            f"{_still(run)}"
            f'<script type="application/json">{views._script_json(data)}</script>{script}</figure>'
        )
    )


def _still(run: dict) -> str:
    """Lo que queda sin JavaScript y en papel: cuánto cuesta apagar cada una."""
    whole, alone = 100 * run["base"]["exact"], [100 * value for value in run["curves"]["single"]]
    lost = [whole - value for value in alone]
    worst = max(range(len(lost)), key=lost.__getitem__)
    rows = [lost[8 * layer : 8 * layer + 8] for layer in range(translator.N_LAYERS)]
    figure = plots.heatmap(
        rows, [f"capa {i}" for i in range(4)], xlabel="cabeza", ylabel=None, signed=True, annotate=True, digits=0
    )
    words = (
        f"Con las 32 cabezas, {plots.spanish_number(whole, 1)} frases exactas de cada cien. En cada casilla, cuántas "
        f"se pierden al apagar solo esa; la que más, la {worst // 8}.{worst % 8}, "
        f"{plots.spanish_number(max(lost), 0)}."
    )
    alt = f"Cuatro capas por ocho cabezas. {words} Casi todas las demás están cerca de cero."
    return (
        f'<div class="mc-still">{views._img(*views._png(figure), alt)}'
        f'<p class="mc-small">{html.escape(words)} Se miden en las 2000 frases de prueba.</p>'
        f"<noscript><p>Para apagar cabezas y volver a traducir hace falta {views._needed()}.</p></noscript></div>"
    )


def _panel(block: str, hits: int) -> str:
    """Interruptores, cuenta, gráfica y frases; lo rellena el guion."""
    layers = "".join(
        f'<div class="layer" role="group" aria-label="Capa {layer}"><button type="button" class="whole" '
        f'data-layer="{layer}" aria-pressed="true"><span class="mc-hidden">Toda la </span>capa {layer}</button>'
        + "".join(
            f'<button type="button" class="head" data-head="{layer}.{head}" aria-pressed="true" '
            f'style="--head:{plots.HEAD_COLORS[head]}"><span class="mc-hidden">Cabeza </span><b>{layer}.{head}</b>'
            '<span class="mc-hidden"> encendida</span><i aria-hidden="true"></i></button>'
            for head in range(translator.NUM_HEADS)
        )
        + "</div>"
        for layer in range(translator.N_LAYERS)
    )
    whole = wilson_interval(hits, NUM_SENTENCES)
    return (
        f'<div class="panel" hidden="hidden"><div class="board" role="group" aria-labelledby="{block}-k">'
        f'<p class="part kept" id="{block}-k">Quedan 32 de 32</p>{layers}'
        '<div class="buttons"><button type="button" data-do="least">Apagar la menos importante</button>'
        '<button type="button" data-do="random">Apagar una al azar</button>'
        '<button type="button" data-do="all">Encender todas</button></div></div>'
        f'<div class="two"><div class="result" role="group" aria-labelledby="{block}-r"><p class="part" id="{block}-r">'
        "Frases exactas, sin ajustar nada</p>"
        f'<p class="score">{plots.spanish_number(100 * whole.mean, 1)}\u00a0%</p><p class="detail mc-small"></p>'
        '<p class="compare"></p><p class="trouble"></p></div>'
        f'<div class="chart"><p class="mc-small" id="{block}-c">% de frases exactas según las cabezas que quedan. '
        '<span class="key michel">Por importancia</span>, <span class="key random">diez órdenes al azar</span> '
        f'(registro <code>07_translation</code>) y <span class="key dot">lo tuyo</span>.</p></div></div>'
        f'<div class="translations" role="group" aria-labelledby="{block}-s"><p class="part list" id="{block}-s"></p>'
        '<ol class="sentences"></ol></div><p class="mc-live" aria-live="polite"></p></div>'
    )
