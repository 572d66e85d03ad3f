"""Dibuja la portada del libro con pesos de atención medidos: `python book/portada.py`.

Las doce cabezas de una capa de MiniLM sobre una frase. El resultado, `book/portada.html`, es un fragmento
con dos SVG (apaisado y vertical, para el teléfono) y una casilla por cabeza; se ve y se mueve sin JavaScript.
"""

import html
from collections.abc import Callable
from functools import partial
from pathlib import Path

from torch import Tensor

import multicabeza as mc
from multicabeza.plots import HEAD_COLORS

SENTENCE = "She drank her tea because she was thirsty."
LAYER = 2
THRESHOLD = 0.08  # por debajo, el arco apenas se vería
TARGET = Path(__file__).with_suffix(".html")
WIDTHS = {"she": 62, "drank": 86, "her": 58, "tea": 54, "because": 124, "was": 62, "thirsty": 106, ".": 26}


def comma(x: float) -> str:
    """Dos decimales con coma."""
    return f"{x:.2f}".replace(".", ",")


def percent(x: float) -> str:
    """Tanto por ciento sin decimales, con espacio fino de no separación."""
    return f"{100 * x:.0f}\u202f%"


def ribbon(query: float, key: float, weight: float, lift: float, place: Callable[[float, float], str]) -> str:
    """Cinta de la consulta (punta) a la clave (base ancha, proporcional al peso), levantada `lift` sobre la frase.

    Args:
        query: abscisa de la palabra que mira.
        key: abscisa de la palabra mirada.
        weight: peso de atención, entre 0 y 1.
        lift: altura de los puntos de control; su signo elige el lado de la frase.
        place: lleva (a lo largo, a lo ancho) a las coordenadas del dibujo.

    Returns:
        El atributo `d` de un trazado cerrado.
    """
    half = 1 + 6 * weight
    near, far = key - half, key + half
    tip = (place(query - 0.6, 0), place(query - 0.6, lift), place(near, lift), place(near, 0))
    back = (place(far, 0), place(far, lift * 0.94), place(query + 0.6, lift * 0.94), place(query + 0.6, 0))
    return f"M{tip[0]}C{tip[1]} {tip[2]} {tip[3]}L{back[0]}C{back[1]} {back[2]} {back[3]}Z"


def loop(at: float, weight: float, side: float, place: Callable[[float, float], str]) -> str:
    """Lazo de una palabra que se mira a sí misma."""
    wide, tall = 9 + 9 * weight, side * (22 + 30 * weight)
    start, end = place(at - 3, 0), place(at + 3, 0)
    return f"M{start}C{place(at - wide, tall)} {place(at + wide, tall)} {end}"


def drawing(tokens: list[str], weights: Tensor, *, tall: bool) -> str:
    """Un SVG con la frase y los arcos de todas las cabezas: (h, n, n) pesos → texto.

    Los arcos hacia atrás van a un lado de la frase; los arcos hacia delante, al otro. Los pesos mayores se pintan
    los últimos.
    """
    if tall:
        step, gap, slope = 52, 56, 0.31
        centers, spread = [30 + step * i for i in range(len(tokens))], [2.6] * len(tokens)
        width, height, middle = 360, 60 + step * (len(tokens) - 1), 180
    else:
        gap, slope, x, centers, spread = 24, 0.32, 24, [], []
        for token in tokens:
            centers.append(x + WIDTHS[token] / 2)
            spread.append(WIDTHS[token] / 15)  # cada cabeza sale de un punto de la palabra y no tapa a las demás
            x += WIDTHS[token] + 19
        width, height, middle = x + 5, 430, 220

    def place(side: int, along: float, across: float) -> str:
        start = middle + side * gap + across
        return f"{start:.1f},{along:.1f}" if tall else f"{along:.1f},{start:.1f}"

    pairs = [
        (weight, head, q, k)
        for head, matrix in enumerate(weights.tolist())
        for q, row in enumerate(matrix)
        for k, weight in enumerate(row)
        if weight >= THRESHOLD
    ]
    paths = []
    for weight, head, q, k in sorted(pairs):
        side = -1 if k <= q else 1
        query, key = (centers[i] + spread[i] * (head - 5.5) for i in (q, k))
        opacity = f"{0.38 + 0.6 * weight:.2f}"
        if q == k:
            line = loop(query, weight, side, partial(place, side))
            paths.append(
                f'<path class="c{head} lazo" d="{line}" stroke-width="{1 + 5 * weight:.1f}" opacity="{opacity}"/>'
            )
        else:
            lift = side * (20 + slope * abs(query - key))
            line = ribbon(query, key, weight, lift, partial(place, side))
            paths.append(f'<path class="c{head}" d="{line}" opacity="{opacity}"/>')
    places = [(middle, c) if tall else (c, middle) for c in centers]
    words = "".join(
        f'<text x="{x:.0f}" y="{y:.0f}" dy=".34em">{html.escape(token)}</text>'
        for token, (x, y) in zip(tokens, places, strict=True)
    )
    kind = "vertical" if tall else "apaisada"
    return (
        f'<svg class="{kind}" viewBox="0 0 {width:.0f} {height}" aria-hidden="true" focusable="false">'
        f"<g>{''.join(paths)}</g>{words}</svg>"
    )


def reading(tokens: list[str], matrix: Tensor, sink: float) -> str:
    """Las dos flechas más anchas de una cabeza y lo que se va a [CLS], en palabras."""
    n = len(tokens)
    names = [
        f"{t} ({'1.º' if tokens.index(t) == i else '2.º'})" if tokens.count(t) > 1 else t for i, t in enumerate(tokens)
    ]
    top = sorted(((float(matrix[q, k]), q, k) for q in range(n) for k in range(n)), reverse=True)[:2]
    arrows = [f"<b>{names[q]}</b> → <b>{names[k]}</b> {comma(w)}" for w, q, k in top if w >= 0.1]
    said = " · ".join(arrows) if arrows else "ningún arco llega a 0,10"
    return f"{said} · a [CLS] se va el {percent(sink)}"


def fragment() -> str:
    """Casillas, dibujos y lecturas, con el estilo que los une."""
    tokens, weights = mc.load_bert().attend(SENTENCE)
    layer = weights[LAYER]
    sinks = layer[:, 1:-1, 0].mean(-1)
    tokens, inner = tokens[1:-1], layer[:, 1:-1, 1:-1]
    heads = range(len(layer))
    controls = ['<label><input type="radio" name="portada" id="portada-todas" checked><span>todas</span></label>']
    controls += [
        f'<label><input type="radio" name="portada" id="portada-{i}">'
        f'<span><i class="c{i}"></i>{LAYER}.{i}</span></label>'
        for i in heads
    ]
    readings = ['<p class="l-todas">Elige una cabeza y quédate solo con sus arcos.</p>']
    readings += [f'<p class="l-{i}">{reading(tokens, inner[i], float(sinks[i]))}</p>' for i in heads]
    rules = [f".portada .c{i}{{--c:{HEAD_COLORS[i]}}}" for i in heads]
    rules += [f".portada:has(#portada-{i}:checked) path:not(.c{i}){{opacity:0}}" for i in heads]
    rules += [f".portada:has(#portada-{i}:checked) .l-{i}{{display:block}}" for i in ["todas", *heads]]
    style = Path(__file__).with_suffix(".css").read_text("utf8")
    return (
        "<!-- Lo escribe book/portada.py: no lo edites a mano. -->\n"
        f"<style>{' '.join(style.split())}{''.join(rules)}</style>\n"
        '<figure class="portada">\n'
        f'<div role="img" aria-label="{ALT}">{drawing(tokens, inner, tall=False)}\n'
        f"{drawing(tokens, inner, tall=True)}</div>\n"
        f"<fieldset><legend>Las doce cabezas de la capa {LAYER}</legend>{''.join(controls)}</fieldset>\n"
        f'<div class="lectura" aria-live="polite">{"".join(readings)}</div>\n'
        f"<figcaption>{CAPTION}</figcaption>\n</figure>\n"
    )


ALT = (
    "La frase «she drank her tea because she was thirsty» y, alrededor, arcos de doce colores, uno por cabeza de "
    "atención. Van de la palabra que mira a la palabra mirada, más anchos cuanto mayor es el peso: por un lado los que "
    "miran hacia atrás y por el otro los que miran hacia delante. Cada color dibuja un tejido distinto."
)
CAPTION = (
    "Pesos medidos, no un dibujo: la capa 2 de MiniLM (un BERT de 6 capas, entrenado en inglés) al leer «She drank "
    "her tea because she was thirsty.». El arco se ensancha hacia la palabra mirada; el peso que va a los tokens "
    "especiales [CLS] y [SEP] no se dibuja."
)

if __name__ == "__main__":
    TARGET.write_text(fragment(), encoding="utf8")
    print(f"{TARGET.name}: {TARGET.stat().st_size / 1024:.0f} KiB")
