"""Lo que se enseña: figuras, figuras que se mueven, vistas de BertViz, predicciones, actividades y afirmaciones.

Todo sale como un solo bloque de HTML que vale en el libro, en Jupyter y en Colab. En el libro
(`MULTICABEZA_BOOK=1`) los guiones y estilos de `web/` los carga la página una vez; fuera de él viajan dentro de
cada salida. Lo que solo vale con guiones lleva `hidden="hidden"`: JupyterLab, si no se confía en el cuaderno, quita un
`hidden` a secas. Cualquier texto que venga de fuera (tokens, títulos, preguntas) se escapa antes de escribirse.
"""

import base64
import hashlib
import html
import inspect
import io
import itertools
import json
import math
import numbers
import operator
import os
import re
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from IPython import get_ipython
from IPython.display import HTML, display
from matplotlib.figure import Figure
from PIL import Image

from multicabeza import activities, cost, plots
from multicabeza.models import BYTE_OF, byte_piece_text
from multicabeza.scripts import compact

WEB = Path(__file__).parent / "web"
DPI = 160  # puntos por pulgada de las imágenes quietas
FRAME_DPI = 144  # y de los estados de `explore`, que son muchos
PIXELS_PER_INCH = 110  # a qué tamaño se ven: 4,8 pulgadas son 528 px
PALETTE_SIZE = 128

MAX_EXPLORE_BYTES = 400_000  # lo que puede pesar un bloque de `explore` en la página
MAX_VIEW_TOKENS = 40  # más no se leen, y el número de líneas crece con el cuadrado
MAX_VIEW_BYTES = 450_000  # lo que puede pesar una vista en la página
MAX_LABEL = 20  # letras de un token en los ejes de la figura quieta
MAX_LINES = 40_000  # líneas de SVG que una vista dibuja a la vez
MAX_TOKENS_BYTES = 165_000  # lo que pueden pesar los números de `token_view`; con la figura quieta, unos 200 KB
ROLE_LETTERS = "ABCDEF"  # y otros tantos colores en `tokens.css`
MAX_MAP_ROWS = 16  # con más capas, el mapa de `token_view` las pone en columnas y cabe en un teléfono

D3_URL = "https://cdnjs.cloudflare.com/ajax/libs/d3/5.7.0/d3.min.js"
JQUERY_URL = "https://cdnjs.cloudflare.com/ajax/libs/jquery/3.6.0/jquery.min.js"

_serial = itertools.count(1)


def in_book() -> bool:
    """Si se está construyendo el libro (`MULTICABEZA_BOOK=1`)."""
    return os.environ.get("MULTICABEZA_BOOK") == "1"


# --- Piezas comunes ----------------------------------------------------------------------------------------------


def _web(name: str) -> str:
    path = WEB / name
    return path.read_text("utf8") if path.exists() else ""


def _assets(name: str | None = None) -> tuple[str, str]:
    """Estilo y guion que la salida lleva consigo: nada en el libro, donde los pone la página."""
    if in_book():
        return "", ""
    style = _web("base.css") + (_web(f"{name}.css") if name else "") + _web("jupyter.css")
    script = _web(f"{name}.js") + _web("keys.js") if name else ""
    return f"<style>{style}</style>", f"<script>{script}</script>" if script else ""


def _needed() -> str:
    """Lo que hace falta para que funcione lo que se mueve, para la nota de quien solo ve la figura quieta."""
    return "JavaScript" if in_book() else "JavaScript y, en Jupyter, ejecutar la celda o confiar en el cuaderno"


def _text(value, name: str, *, required: bool = True) -> str:
    """Un texto no vacío y sin espacios sobrantes, o un `ValueError` en español."""
    if value is None and not required:
        return ""
    if not isinstance(value, str):
        raise ValueError(f"«{name}» debe ser un texto; llegó {type(value).__name__}.")
    if required and not value.strip():
        raise ValueError(f"«{name}» está vacío.")
    return value.strip()


def _alt(value) -> str:
    """El texto alternativo, que es obligatorio y dice lo que se ve."""
    if value is None or (isinstance(value, str) and not value.strip()):
        raise ValueError(
            "Falta el texto alternativo: escribe en «alt» lo que se ve en la figura, para quien no la ve. Por ejemplo: "
            'alt="Mapa de calor 6×6: casi todo el peso de cada fila está en el token anterior."'
        )
    text = _text(value, "alt")
    if len(text) < 20:
        raise ValueError(f"El texto alternativo es demasiado corto para decir qué se ve: {text!r}. Describe la figura.")
    return text


def _identifier(kind: str, content: str) -> str:
    """Un id único en la página y estable entre construcciones."""
    return f"mc-{kind}-{next(_serial)}-{hashlib.sha256(content.encode()).hexdigest()[:6]}"


def _script_json(value) -> str:
    """JSON que se puede meter dentro de `<script>`: ningún «<» puede cerrarlo ni abrir un comentario."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def _png(figure: Figure, dpi: int = DPI) -> tuple[str, int, int]:
    """La figura como PNG de paleta en una dirección `data:`, y el tamaño al que se ve (ancho, alto en px)."""
    if not isinstance(figure, Figure):
        hint = " Pasa la figura, no los ejes: axes.figure." if hasattr(figure, "figure") else ""
        if figure is None:
            hint = " Lo habitual: falta el `return`, o `plt.show()` no devuelve nada; usa plots o plt.gcf()."
        raise ValueError(f"Se esperaba una figura de matplotlib (`Figure`); llegó {type(figure).__name__}.{hint}")
    raw = io.BytesIO()
    with warnings.catch_warnings():
        # Un token puede traer signos que la letra no tiene: se dibuja el hueco, sin aviso en la página.
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from")
        figure.savefig(raw, format="png", dpi=dpi, facecolor="white")
    image = Image.open(raw).convert("RGB")
    # «Cobertura máxima»: el blanco queda blanco y ningún color de línea se pierde por ocupar poco.
    palette = image.quantize(PALETTE_SIZE, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    out = io.BytesIO()
    palette.save(out, format="PNG", optimize=True)
    width, height = (round(side * PIXELS_PER_INCH) for side in figure.get_size_inches())
    if "matplotlib.pyplot" in sys.modules:  # si la hizo pyplot, que no salga otra vez al final de la celda
        sys.modules["matplotlib.pyplot"].close(figure)
    return "data:image/png;base64," + base64.b64encode(out.getvalue()).decode(), width, height


def _img(source: str, width: int, height: int, alt: str, extra: str = "") -> str:
    return f'<img src="{source}" width="{width}" height="{height}" alt="{html.escape(alt)}" decoding="async"{extra}>'


def _figcaption(caption) -> str:
    text = _text(caption, "caption", required=False)
    return f"<figcaption>{html.escape(text)}</figcaption>" if text else ""


# --- Figuras -----------------------------------------------------------------------------------------------------


def show(fig: Figure, alt: str | None = None, caption: str | None = None) -> None:
    """Enseña una figura con su texto alternativo y su pie, una sola vez, y la cierra.

    Args:
        fig: figura de matplotlib.
        alt: lo que se ve en ella, para quien no la ve; obligatorio.
        caption: pie de figura.

    Raises:
        ValueError: si falta el texto alternativo o no es una figura.
    """
    alt = _alt(alt)
    source, width, height = _png(fig)
    style, _ = _assets()
    display(HTML(f'<figure class="mc-fig">{style}{_img(source, width, height, alt)}{_figcaption(caption)}</figure>'))


def _option(value) -> tuple[str, object]:
    """(etiqueta, valor) de un estado: un par («con máscara», True), un número, un texto o un booleano."""
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str):
        return value
    if isinstance(value, bool):
        return ("sí" if value else "no"), value
    if isinstance(value, numbers.Real):
        return f"{value:g}".replace("-", "−").replace(".", ","), value
    return str(value), value


def _options(controls: Mapping[str, Sequence]) -> dict[str, list[tuple[str, object]]]:
    if not isinstance(controls, Mapping) or not 1 <= len(controls) <= 2:
        raise ValueError(
            "«controls» debe ser un diccionario con uno o dos controles, por ejemplo "
            '{"ángulo (grados)": range(0, 181, 15)}.'
        )
    options = {}
    for label, values in controls.items():
        _text(label, "nombre del control")
        if isinstance(values, str) or not isinstance(values, Sequence | range):
            came, values = type(values).__name__, values.tolist() if hasattr(values, "tolist") else None
            if not isinstance(values, list):
                raise ValueError(f"Los valores de «{label}» deben ser una lista; llegó {came}.")
        options[label] = [_option(value) for value in values]
        texts = [text for text, _ in options[label]]
        if len(texts) < 2:
            raise ValueError(f"«{label}» necesita al menos dos valores; tiene {len(texts)}.")
        if len(set(texts)) < len(texts):
            raise ValueError(f"«{label}» tiene valores que se leen igual: {', '.join(texts)}.")
    return options


def _is_slider(values: list[tuple[str, object]]) -> bool:
    return len(values) > 2 and all(
        isinstance(value, numbers.Real) and not isinstance(value, bool) for _, value in values
    )


def _check_takes(name: str, function: Callable, labels: Sequence[str]) -> None:
    """Que la función admita un valor por control; de las que no dicen lo que reciben, nada."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*labels)
    except TypeError:
        raise ValueError(
            f"«{name}» debe recibir {len(labels)} {'valor' if len(labels) == 1 else 'valores'}, uno por control "
            f"({', '.join(labels)}), y es {name}{signature}."
        ) from None


def _state_alt(alt, labels: list[str], texts: Sequence[str], values: Sequence) -> str:
    if callable(alt):
        return _alt(alt(*values))
    state = "; ".join(f"{label}: {text}" for label, text in zip(labels, texts, strict=True))
    return f"{_alt(alt)} ({state})"


def explore(
    draw: Callable[..., Figure],
    controls: Mapping[str, Sequence],
    *,
    alt: str | Callable[..., str],
    caption: str | None = None,
) -> None:
    """Una figura que cambia con uno o dos controles: vivos en un cuaderno, ya dibujados en el libro.

    Con un kernel, cada control es de ipywidgets y `draw` se llama al moverlo. En el libro se dibujan antes todos los
    estados y un control del propio navegador elige cuál se ve; el primero se ve también sin JavaScript y en papel.
    Tres o más números dan una barra deslizante; dos valores, o textos, una lista.

    Args:
        draw: función (valor_1, …) → `Figure`; un argumento por control, en orden.
        controls: nombre del control → sus valores: números, textos o pares (etiqueta, valor).
        alt: texto alternativo, o función de los mismos valores que lo da (mejor: dice qué se ve en cada estado).
        caption: pie de figura.

    Raises:
        ValueError: si falta el texto alternativo, los controles no valen, o los estados pesan más de
            `MAX_EXPLORE_BYTES`.
    """
    options = _options(controls)
    if not callable(draw):
        raise ValueError(f"«draw» debe ser una función que devuelva una figura; llegó {type(draw).__name__}.")
    _check_takes("draw", draw, list(options))
    if callable(alt):
        _check_takes("alt", alt, list(options))
    else:
        _alt(alt)
    caption_html = _figcaption(caption)
    if not in_book() and get_ipython() is not None:
        try:
            widgets = import_module("ipywidgets")
        except ImportError:
            widgets = None
        if widgets is not None:
            _explore_live(widgets, draw, options, alt, caption_html)
            return
    display(HTML(_explore_html(draw, options, alt, caption_html)))


def _explore_live(widgets, draw, options, alt, caption_html) -> None:
    labels = list(options)
    made = {}
    picture = widgets.HTML()

    def control(label, values):
        kind = widgets.SelectionSlider if _is_slider(values) else widgets.Dropdown
        return kind(
            options=[(text, i) for i, (text, _) in enumerate(values)], value=0, description=label,
            style={"description_width": "initial"}, layout={"width": "min(32rem, 96%)"},
        )  # fmt: skip

    boxes = [control(label, values) for label, values in options.items()]

    def update():
        state = tuple(box.value for box in boxes)
        if state not in made:
            chosen = [options[label][i] for label, i in zip(labels, state, strict=True)]
            values = [value for _, value in chosen]
            text = _state_alt(alt, labels, [text for text, _ in chosen], values)
            made[state] = (
                f'<figure class="mc-fig">{_assets()[0]}{_img(*_png(draw(*values)), text)}{caption_html}</figure>'
            )
        picture.value = made[state]

    def move(_change):
        """Al mover un control nadie ve los errores de Python, y la figura de antes pasaría por la de ahora."""
        try:
            update()
        except Exception as error:
            state = "; ".join(f"{box.description}: {box.options[box.value][0]}" for box in boxes)
            words = html.escape(f"No se ha podido dibujar este estado ({state}). {type(error).__name__}: {error}")
            picture.value = f'<p role="alert">{words}</p>'

    class Live(widgets.VBox):
        def __repr__(self):  # lo que se lee donde no hay controles: sin confiar en el cuaderno, o en otro programa
            return "Figura con controles: para moverla, ejecuta la celda."

    update()
    for box in boxes:
        box.observe(move, names="value")
    block = _identifier("saved", json.dumps([labels, picture.value]))
    live = Live([*boxes, picture])
    live.add_class(f"{block}-live")
    display(live)
    first = "; ".join(f"{label}: {values[0][0]}" for label, values in options.items())
    display(HTML(_explore_saved(block, picture.value, first)))


def _explore_saved(block: str, figure: str, first: str) -> str:
    """Lo que queda de `explore` en un cuaderno guardado, donde no hay kernel que mueva sus controles.

    Si los controles llegan a aparecer, no se ve; y si no, no se ve el aviso en inglés de que faltan. Si el kernel se va
    con ellos puestos, un aviso lo dice debajo.
    """
    output = ".jp-OutputArea-child"
    style = (
        f"#{block} {{ display: none; }} :root:not(:has(.{block}-live)) #{block} "
        "{ display: block; animation: mc-saved 1ms 1.5s backwards; } "
        "@keyframes mc-saved { from { position: absolute; visibility: hidden; } } "
        f":root:not(:has(.{block}-live)) {output}:has(+ {output} #{block}) {{ display: none; }} "
        f".{block}-live.jupyter-widgets-disconnected::after "
        '{ content: "Se ha ido el kernel: para mover la figura, ejecuta la celda."; }'
    )
    return (
        f'<div class="mc-saved" id="{block}"><style>{style}</style>{figure}<p>Aquí se ve un estado '
        f"({html.escape(first)}). Para mover la figura, ejecuta la celda.</p><script>{_web('keys.js')}</script></div>"
    )


def _explore_html(draw, options, alt, caption_html) -> str:
    labels = list(options)
    frames: dict[str, int] = {}
    index, alts, size, spent = [], [], None, 0
    states = list(itertools.product(*options.values()))
    for done, state in enumerate(states, 1):
        values = [value for _, value in state]
        alts.append(_state_alt(alt, labels, [text for text, _ in state], values))
        source, *now = _png(draw(*values), FRAME_DPI)
        size = size or now
        if now != size:
            raise ValueError(
                f"Todos los estados deben medir lo mismo (si no, la página salta): el primero mide {size} px y otro "
                f"{now} px. Fija el tamaño de la figura dentro de «draw»."
            )
        if source not in frames:
            frames[source] = len(frames)
            spent += len(source)
        index.append(frames[source])
        if spent > MAX_EXPLORE_BYTES:
            raise ValueError(
                f"La figura pesa demasiado para la página: con {done} de {len(states)} estados ya son "
                f"{spent / 1000:.0f} KB ({spent / len(frames) / 1000:.0f} KB por imagen) y el límite es "
                f"{MAX_EXPLORE_BYTES / 1000:.0f} KB. Pon menos estados, una figura más pequeña o menos puntos."
            )
    block = _identifier("explore", json.dumps([labels, alts]))
    rows = []
    for k, (label, values) in enumerate(options.items()):
        texts = [text for text, _ in values]
        name = f"{block}-{k}"
        if _is_slider(values):
            spoken, first = html.escape(json.dumps(texts, ensure_ascii=False)), html.escape(texts[0])
            control = (
                f'<input type="range" id="{name}" min="0" max="{len(texts) - 1}" step="1" value="0" '
                f'aria-valuetext="{first}" data-texts="{spoken}" autocomplete="off">'
                f'<output for="{name}" aria-live="off">{first}</output>'
            )
        else:
            items = "".join(f'<option value="{i}">{html.escape(text)}</option>' for i, text in enumerate(texts))
            control = f'<select id="{name}" autocomplete="off">{items}</select>'
        rows.append(f'<p class="mc-control"><label for="{name}">{html.escape(label)}</label>{control}</p>')
    style, script = _assets("explore")
    sizes = [len(values) for values in options.values()]
    first_frame, *others = frames
    # La primera imagen ya está en la página: no se escribe dos veces.
    data = _script_json({"frames": ["", *others], "index": index, "alts": alts, "sizes": sizes})
    first = "; ".join(f"{label}: {values[0][0]}" for label, values in options.items())
    return (
        f'<figure class="mc-explore" id="{block}">{style}<div class="mc-controls" hidden="hidden">{"".join(rows)}'
        f'</div>{_img(first_frame, *size, alts[0])}<p class="mc-live" aria-live="polite"></p>'
        f'<p class="mc-still">Aquí se ve un estado de {len(states)} ({html.escape(first)}); los demás se eligen con un '
        f'control<span class="mc-noscript"> que necesita JavaScript</span>.</p>{caption_html}'
        f'<script type="application/json">{data}</script>{script}</figure>'
    )


# --- Vistas de BertViz -------------------------------------------------------------------------------------------


def readable_tokens(tokens: Sequence[str]) -> list[str]:
    """Tokens que una persona puede leer: sin «Ġ» ni «▁», con las letras acentuadas en su sitio y los blancos visibles.

    Args:
        tokens: textos, como salen del tokenizador o ya descifrados.

    Returns:
        Tantos textos como tokens, ninguno vacío.
    """
    byte_level = any(t.startswith(("Ġ", "Ċ")) for t in tokens)
    out = []
    for token in tokens:
        if byte_level and all(letter in BYTE_OF for letter in token):
            token = byte_piece_text(token)
        token = token.replace("▁", " ").replace("</w>", "")
        word = token.strip(" ") or "␣" * max(len(token), 1)
        word = word.replace("\r", "").replace("\n", "↵").replace("\t", "⇥")
        out.append("".join(c if c.isprintable() else "�" for c in word) or "␣")
    return out


def _shorten(token: str, length: int) -> str:
    return token if len(token) <= length else token[: length - 1] + "…"


def _attention(attentions, tokens, *, slices: bool = True):
    """Pesos (n_layers, h, n, n) en float64 y tokens legibles, comprobados; o un error que dice qué pasa.

    Con `slices` valen los de un trozo de la frase, cuyas filas no llegan a sumar 1.
    """
    import torch

    if hasattr(attentions, "attend"):
        text = _text(tokens, "texto")
        tokens, attentions = attentions.attend(text)
    elif hasattr(attentions, "attentions"):
        attentions = attentions.attentions
    if attentions is None or (isinstance(attentions, tuple | list) and (not attentions or attentions[0] is None)):
        raise ValueError(
            "El modelo no ha devuelto atenciones. Causa habitual: usa una implementación que no las guarda (SDPA). "
            'Cárgalo con attn_implementation="eager" y llámalo con output_attentions=True; mc.load_bert() y '
            "mc.load_smollm2() ya lo hacen."
        )
    if isinstance(attentions, tuple | list):
        if not all(torch.is_tensor(layer) and layer.ndim == 4 for layer in attentions):
            came = [f"{tuple(a.shape)}" if torch.is_tensor(a) else type(a).__name__ for a in attentions[:3]]
            raise ValueError(
                "Se esperaba, por cada capa, un tensor (1, h, n, n), como en `outputs.attentions` de transformers; "
                f"llegó {', '.join(came)}."
            )
        shapes = {tuple(layer.shape) for layer in attentions}
        if len(shapes) > 1:
            raise ValueError(f"Las capas no tienen la misma forma: {', '.join(map(str, sorted(shapes)))}.")
        if attentions[0].shape[0] != 1:
            raise ValueError(
                f"Hay {attentions[0].shape[0]} frases en el lote y la vista enseña una. Elige la primera: "
                "[a[:1] for a in attentions]."
            )
        weights = torch.stack([layer[0] for layer in attentions])
    elif torch.is_tensor(attentions):
        weights = attentions
    else:
        raise ValueError(
            "Se esperaban las atenciones (un tensor (n_layers, h, n, n), o la tupla de transformers) o un modelo de "
            f"mc.load_bert() o mc.load_smollm2(); llegó {type(attentions).__name__}."
        )
    if weights.ndim != 4 or weights.shape[-1] != weights.shape[-2]:
        hint = " Con una sola capa, pásala como weights[None]." if weights.ndim == 3 else ""
        raise ValueError(f"Los pesos deben ser (n_layers, h, n, n); llegaron con forma {tuple(weights.shape)}.{hint}")
    if 0 in weights.shape:
        raise ValueError(f"Los pesos están vacíos: forma {tuple(weights.shape)}.")
    if weights.is_complex() or weights.layout is not torch.strided or weights.is_meta:
        raise ValueError(
            f"Los pesos deben ser un tensor corriente de números reales; llegó uno de tipo {weights.dtype} "
            f"({weights.layout}, en {weights.device})."
        )
    if isinstance(tokens, str) or not isinstance(tokens, Sequence) or not all(isinstance(t, str) for t in tokens):
        raise ValueError(
            "«tokens» debe ser una lista de textos, uno por posición; llegó "
            f"{type(tokens).__name__}. Con ids: tokenizer.convert_ids_to_tokens(ids)."
        )
    n = weights.shape[-1]
    if len(tokens) != n:
        raise ValueError(
            f"Hay {len(tokens)} tokens y los pesos son de {n} posiciones. Causa habitual: los tokens especiales "
            "([CLS], [SEP], inicio de texto) están en unos y no en los otros."
        )
    weights = weights.detach().to("cpu", torch.float64)
    if not torch.isfinite(weights).all():
        raise ValueError(
            "Los pesos tienen NaN o infinitos. Causa habitual: una fila de la máscara que no deja ninguna clave."
        )
    if weights.min() < -1e-4 or weights.max() > 1 + 1e-3:
        raise ValueError(
            f"Los pesos deben estar entre 0 y 1 y van de {weights.min():.2f} a {weights.max():.2f}: parecen "
            "puntuaciones. Aplica antes la softmax."
        )
    if n > MAX_VIEW_TOKENS:
        how = "Acorta la frase o quédate con un trozo: weights[..., i:j, i:j], tokens[i:j]."
        raise ValueError(
            f"La frase tiene {n} tokens y la vista admite {MAX_VIEW_TOKENS}: con más no se distinguen las líneas y el "
            f"navegador se atasca. {how if slices else 'Acorta la frase.'}"
        )
    _check_rows(weights, slices=slices)
    return weights.clamp(0, 1), readable_tokens(tokens)


def _choice(values, size: int, name: str) -> list[int]:
    """Una selección de capas o cabezas: enteros distintos de 0 a size − 1; None es todas."""
    if values is None:
        return list(range(size))
    try:
        given = list(values)
    except TypeError:  # un solo número
        given = [values]
    if not given:
        raise ValueError(f"«{name}» está vacío: elige al menos una, o no lo pases para verlas todas.")
    chosen = [_position(value, size) for value in given]
    if None in chosen or len(set(chosen)) < len(chosen):
        raise ValueError(f"«{name}» debe tener números distintos de 0 a {size - 1}; llegó {given}.")
    return chosen


def _position(value, size: int) -> int | None:
    """El entero de 0 a size − 1 que es `value` (de Python, de NumPy o un tensor de un elemento); None si no lo es."""
    try:
        number = -1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        return None
    return number if 0 <= number < size else None


def _one(value, size: int, name: str) -> int:
    """Una sola capa o cabeza."""
    number = _position(value, size)
    if number is None:
        raise ValueError(
            f"«{name}» debe ser un número de 0 a {size - 1}; llegó {value!r}. Lo habitual: contar desde 1 o desde el "
            "final; aquí se cuenta desde 0."
        )
    return number


def _package_file(package: str, relative: str) -> str | None:
    """El texto de un archivo de un paquete instalado, o None."""
    try:
        return (Path(import_module(package).__file__).parent / relative).read_text("utf8")
    except (ImportError, OSError):
        return None


def _libraries() -> str:
    """Las etiquetas que cargan jQuery y D3 dentro del marco: del libro, de lo instalado o de su dirección habitual."""
    if in_book():
        return '<script src="%STATIC%jquery.js"></script><script src="%STATIC%d3.v5.min.js"></script>'
    jquery = _package_file("sphinxcontrib.jquery", "jquery.js")
    d3 = _package_file("mpld3", "js/d3.v5.min.js")
    tags = []
    for code, url in ((jquery, JQUERY_URL), (d3, D3_URL)):
        if code is None or "</script" in code.lower():
            tags.append(f'<script src="{url}"></script>')
        else:
            tags.append(f"<script>{code}</script>")
    return "".join(tags)


# Lo que se cambia en el código de BertViz 1.4.1: textos, ruido en la consola y el ancho, que era fijo.
BERTVIZ_PATCHES = {
    "head": (
        ('console.log("d3 version", d3.version)', ""),
    ),
    "model": (
        ('console.log("x", x, y)', ""),
        ('.text("Heads")', '.text("Cabezas")'),
        ('.text("Layers")', '.text("Capas")'),
        ("""'Layer ' + config.layers[layerIndex] + ", Head " + config.heads[headIndex]""",
         """'Cabeza ' + config.layers[layerIndex] + "." + config.heads[headIndex]"""),
        ("const DIV_WIDTH = 970;",
         "const DIV_WIDTH = Math.min(970, Math.max(innerWidth - 22, 38 + 23 * params.include_heads.length, 312));"),
        ("7 * (12 / config.totalHeads)", "Math.min(9, 7 * (12 / config.totalHeads))"),
        ("x = leftPos + THUMBNAIL_PADDING - DETAIL_WIDTH + 8;",
         "x = Math.max(MIN_X, leftPos + THUMBNAIL_PADDING - DETAIL_WIDTH + 8);"),
    ),
}  # fmt: skip


def _bertviz_call(name: str) -> Callable:
    """La función de BertViz con ese nombre, o un error que dice cómo instalarlo."""
    try:
        return getattr(import_module("bertviz"), name)
    except ImportError:
        raise ImportError(
            "Falta BertViz, que dibuja esta vista. Instálalo con «%pip install bertviz==1.4.1»."
        ) from None


def _bertviz(kind: str, page: str) -> tuple[str, str, dict]:
    """Separa lo que devuelve BertViz: el id de su raíz, su código sin datos, y los datos (que escribe dos veces)."""
    marker = "const params = "
    code = page[page.rindex('<script type="text/javascript">') + len('<script type="text/javascript">') :]
    code = code[: code.rindex("</script>")]
    start = code.find(marker)
    if start < 0:
        raise ValueError("Esta versión de BertViz no se entiende: instala bertviz==1.4.1.")
    params, end = json.JSONDecoder().raw_decode(code, start + len(marker))
    rest = code[end:]
    rest = rest[rest.index("\n") :] if "\n" in rest else ""  # el comentario con la segunda copia de los datos
    code = code[:start] + "const params = window.mcParams;" + rest
    for old, new in BERTVIZ_PATCHES[kind]:
        code = code.replace(old, new)
    return params["root_div_id"], code, params


def _frame(kind: str, title: str, page: str, tokens: list[str], length: int) -> str:
    """El documento completo que va dentro del marco."""
    root, code, params = _bertviz(kind, page)
    (data,) = params["attention"]
    # Diezmilésimas enteras: la mitad de peso que los decimales, y el navegador recupera el mismo número.
    data["attn"] = [[[[round(10_000 * w) for w in row] for row in head] for head in layer] for layer in data["attn"]]
    data["left_text"] = data["right_text"] = [_shorten(token, length) for token in tokens]
    params["tokens"] = tokens
    params["colors"] = list(plots.HEAD_COLORS)
    params["kind"] = kind
    controls = (
        '<p class="bar"><label for="layer">Capa:</label> <select id="layer" aria-label="Capa"></select>'
        '<span class="hint">Cada cuadro es una cabeza: púlsalo para apagarla o encenderla; con doble clic '
        "(o Mayús + Intro) se queda sola. Señala una palabra para ver solo sus líneas.</span></p>"
        if kind == "head"
        else '<p class="bar"><span class="hint">Cada miniatura es una cabeza: púlsala para verla en grande. Con el '
        "teclado: flechas e Intro.</span></p>"
    )
    return (
        f'<!doctype html><html lang="es"><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_web("frame.css")}</style></head>'
        f'<body class="{kind}"><main><article><h1>{html.escape(title)}</h1><div id="{root}">{controls}'
        f'<div id="vis" class="scroll"></div></div><p id="status" class="hidden" role="status"></p>'
        f'<details id="words"><summary>En palabras: el enlace más fuerte de cada token</summary>'
        f'<p id="which"></p><div class="scroll" tabindex="0" role="group" aria-labelledby="which"><table>'
        f'<thead><tr><th scope="col">Token</th><th scope="col">Mira sobre todo a</th><th scope="col">Peso</th></tr>'
        f"</thead>"
        f"<tbody></tbody></table></div></details></article></main>"
        f"<script>window.mcParams = {_script_json(params)};</script>{_libraries()}"
        f"<script>{compact(_web('frame.js'))}</script><script>mcBefore();</script>"
        f"<script>{compact(code)}</script><script>mcAfter();</script></body></html>"
    )


def _strongest(weights, tokens: list[str]) -> str:
    """«the» → «sat» (0,41); …: de cada token, a quién mira más, con la media de unos pesos (n, n)."""
    values, keys = weights.max(-1)
    return "; ".join(
        f"«{tokens[i]}» → «{tokens[int(j)]}» ({plots.spanish_number(float(v))})"
        for i, (v, j) in enumerate(zip(values, keys, strict=True))
    )


def _still(weights, tokens: list[str], which: str) -> tuple[Figure, str, str]:
    """La figura quieta de unos pesos (n, n), su texto alternativo y lo que dice en palabras."""
    words = f"El enlace más fuerte de cada token en {which}: {_strongest(weights, tokens)}."
    alt = f"Mapa de calor de {len(tokens)}×{len(tokens)} pesos: {which}. {words}"
    labels = [_shorten(token, MAX_LABEL) for token in tokens]  # una etiqueta más larga no deja sitio al mapa
    return plots.heatmap(weights, labels, labels, annotate=False), alt, words


def _view(kind: str, title: str, frame: str, still: Figure, alt: str, words: str, height: int) -> None:
    """El bloque de la página: la figura quieta, el texto, y el documento del marco guardado hasta que haga falta."""
    data = _script_json(frame)
    budget = MAX_VIEW_BYTES if in_book() else MAX_VIEW_BYTES + 700_000  # fuera del libro lleva dentro D3 y jQuery
    if len(data.encode()) > budget:
        raise ValueError(
            f"La vista pesa {len(data.encode()) / 1000:.0f} KB y el límite es {budget / 1000:.0f} KB: son demasiadas "
            "capas, cabezas o tokens a la vez. Acorta la frase o elige capas: layers=[0, 5]."
        )
    style, script = _assets("view")
    block = _identifier("view", title + words)
    display(
        HTML(
            f'<figure class="mc-view" id="{block}" data-title="{html.escape(title)}" '
            f'style="--mc-view-height:{height}px">{style}<figcaption>{html.escape(title)}</figcaption>'
            f'<div class="mc-view-still">{_img(*_png(still), alt)}'
            f'<p class="mc-view-words">{html.escape(words)}</p><noscript><p>La vista interactiva necesita '
            f"{_needed()}; la figura y el texto dicen lo principal.</p></noscript></div>"
            f'<button type="button" class="mc-button" hidden="hidden">Abrir la vista</button>'
            f'<script type="application/json">{data}</script>{script}</figure>'
        )
    )


def head_view(
    attentions, tokens, *, title: str, layer: int = 0, heads: Sequence[int] | None = None,
    layers: Sequence[int] | None = None,
) -> None:  # fmt: skip
    """Vista por cabezas de BertViz: una línea de cada token a los que mira, con el color de cada cabeza.

    Acepta también un modelo cargado y una frase: `mc.head_view(mc.load_bert(), "The cat sat.", title="…")`.
    Los pesos se redondean a cuatro decimales. Opacidad de una línea = peso ÷ número de cabezas encendidas.

    Args:
        attentions: (n_layers, h, n, n), la tupla (1, h, n, n) × n_layers de transformers, o un modelo de `mc.load_…`.
        tokens: n textos, o la frase si se da un modelo.
        title: título de la vista (nombre del marco).
        layer: capa que se ve al abrir, desde 0.
        heads: cabezas encendidas al abrir; por defecto todas.
        layers: capas que se pueden elegir; por defecto todas.

    Raises:
        ValueError: si no hay atenciones, las formas no casan, hay NaN, o la frase es demasiado larga
            (`MAX_VIEW_TOKENS` tokens, `MAX_VIEW_BYTES` en la página).
    """
    title = _text(title, "title")
    weights, tokens = _attention(attentions, tokens)
    n_layers, n_heads, n, _ = weights.shape
    layers = _choice(layers, n_layers, "layers")
    heads = _choice(heads, n_heads, "heads")
    layer = _one(layer, n_layers, "layer")
    if layer not in layers:
        raise ValueError(f"La capa {layer} no está entre las que se pueden elegir: {layers}.")
    _check_lines(n_heads * n * n)
    page = _bertviz_call("head_view")(
        attention=[w[None] for w in weights.mul(1e4).round().div(1e4)], tokens=list(tokens), prettify_tokens=False,
        layer=layer, heads=heads, include_layers=layers, html_action="return",
    ).data  # fmt: skip
    mean = weights[layer][heads].mean(0)
    which = (
        f"la cabeza {layer}.{heads[0]}" if len(heads) == 1 else f"la media de {len(heads)} cabezas de la capa {layer}"
    )
    still, alt, words = _still(mean, tokens, which)
    _view("head", title, _frame("head", title, page, tokens, 12), still, alt, words, round(22.5 * n) + 150)


def model_view(
    attentions, tokens, *, title: str, layers: Sequence[int] | None = None, heads: Sequence[int] | None = None
) -> None:
    """Vista del modelo de BertViz: una miniatura por cabeza; al pulsarla se ve en grande.

    Args:
        attentions: (n_layers, h, n, n), la tupla (1, h, n, n) × n_layers de transformers, o un modelo de `mc.load_…`.
        tokens: n textos, o la frase si se da un modelo.
        title: título de la vista (nombre del marco).
        layers: capas que se dibujan; por defecto todas.
        heads: cabezas que se dibujan; por defecto todas.

    Raises:
        ValueError: como `head_view`.
    """
    title = _text(title, "title")
    weights, tokens = _attention(attentions, tokens)
    n_layers, n_heads, n, _ = weights.shape
    layers = _choice(layers, n_layers, "layers")
    heads = _choice(heads, n_heads, "heads")
    _check_lines(len(layers) * len(heads) * n * n)
    page = _bertviz_call("model_view")(
        attention=[w[None] for w in weights.mul(1e4).round().div(1e4)], tokens=list(tokens), prettify_tokens=False,
        display_mode="light", include_layers=layers, include_heads=heads, html_action="return",
    ).data  # fmt: skip
    page = page.replace(f'"total_heads": {n_heads}', f'"total_heads": {len(heads)}')
    shown = weights[layers][:, heads]
    flat = shown.flatten(0, 1)
    sharp = int(flat.max(-1).values.mean(-1).argmax())
    name = f"{layers[sharp // len(heads)]}.{heads[sharp % len(heads)]}"
    words = (
        f"{len(layers)} capas y {len(heads)} cabezas por capa. La cabeza más concentrada es la {name}; su enlace más "
        f"fuerte por token: {_strongest(flat[sharp], tokens)}."
    )
    still = plots.head_grid(shown, layers=layers, heads=heads)
    height = max(round(len(layers) * (n * min(9, 84 / len(heads)) + 10)), 18 * n + 60) + 190
    alt = f"Cuadrícula de mapas de calor, una fila por capa y una columna por cabeza. {words}"
    _view("model", title, _frame("model", title, page, tokens, 10), still, alt, words, height)


def _check_lines(lines: int) -> None:
    if lines > MAX_LINES:
        raise ValueError(
            f"La vista dibujaría {lines:,} líneas y el límite es {MAX_LINES:,}".replace(",", ".")
            + ": el navegador se atascaría. Elige capas o cabezas (layers=…, heads=…) o acorta la frase."
        )


# --- Los pesos de todas las cabezas, sobre la frase --------------------------------------------------------------

_BASE_36 = "0123456789abcdefghijklmnopqrstuvwxyz"
_PAIRS = [a + b for a in _BASE_36 for b in _BASE_36]  # dos cifras: de 0 a 1295


def token_view(
    attentions, tokens, *, title: str, roles: Mapping[str, Sequence[tuple[int, int]]] | None = None,
    layer: int = 0, head: int = 0, caption: str | None = None,
) -> None:  # fmt: skip
    """Todas las cabezas en un mapa; la que se elige tiñe la frase con sus pesos y enseña su mapa n × n.

    El mapa tiene un cuadro por cabeza. Se elige una, y después un token: los demás se tiñen con lo que ese token mira
    (o con lo que lo miran a él). Vale con el dedo, con el ratón y con el teclado. Sin JavaScript y en papel queda la
    figura de la cabeza elegida, con sus enlaces en palabras. Los pesos se redondean a milésimas.

    Acepta también un modelo cargado y una frase: `mc.token_view(mc.load_bert(), "The cat sat.", title="…")`.

    Args:
        attentions: (n_layers, h, n, n), la tupla (1, h, n, n) × n_layers de transformers, o un modelo de `mc.load_…`.
        tokens: n textos, o la frase si se da un modelo.
        title: título de la vista.
        roles: papel → sus cabezas (capa, cabeza), como mucho seis; cada papel lleva un color y una letra. Una
            lista vacía dice que ninguna cabeza lo tiene.
        layer: capa de la cabeza que se ve al abrir, desde 0.
        head: esa cabeza, desde 0.
        caption: pie de figura.

    Raises:
        ValueError: como `head_view`; además, si alguna fila de pesos no suma 1 (ni es toda ceros), si un papel nombra
            una cabeza que no existe, o si los números pesan más de `MAX_TOKENS_BYTES`.
    """
    title, caption_html = _text(title, "title"), _figcaption(caption)
    weights, tokens = _attention(attentions, tokens, slices=False)
    n_layers, n_heads, n, _ = weights.shape
    layer, head = _one(layer, n_layers, "layer"), _one(head, n_heads, "head")
    roles = _roles(roles, n_layers, n_heads)
    causal = not weights.triu(1).any()
    data = _script_json(
        {"tokens": tokens, "layers": n_layers, "heads": n_heads, "layer": layer, "head": head, "roles": roles,
         "wide": n_layers > MAX_MAP_ROWS, "query": _first_query(weights[layer, head], tokens, causal), "causal": causal,
         "weights": _pack(weights, causal)}
    )  # fmt: skip
    if len(data.encode()) > MAX_TOKENS_BYTES:
        spent = len(data.encode()) / 1000
        fit = max((k for k in range(1, n) if 2 * n_layers * n_heads * _kept(k, causal) < MAX_TOKENS_BYTES), default=0)
        raise ValueError(
            f"La vista pesa {spent:.0f} KB y el límite es {MAX_TOKENS_BYTES / 1000:.0f} KB: son los pesos de "
            f"{n_layers * n_heads} cabezas y {n} tokens. Con estas cabezas caben unos {fit} tokens: acorta la frase o "
            "quédate con las primeras capas, weights[:6]."
        )
    still, alt, words = _still(weights[layer, head], tokens, f"la cabeza {layer}.{head}")
    for name, found in roles:
        words += f" {name[0].upper()}{name[1:]}: {', '.join(f'{a}.{b}' for a, b in found) or 'ninguna cabeza'}."
    style, script = _assets("tokens")
    block = _identifier("tokens", title + words)
    display(
        HTML(
            f'<figure class="mc-tokens mc-fig" id="{block}" aria-labelledby="{block}-t">{style}'
            f'<p class="mc-tokens-title" id="{block}-t">{html.escape(title)}</p>'
            f"{_tokens_panel(block, n_layers, n_heads, roles)}"
            f'<div class="mc-tokens-still">{_img(*_png(still), alt)}<p class="mc-tokens-words">{html.escape(words)}</p>'
            f"<noscript><p>Para ver las demás cabezas hace falta {_needed()}.</p></noscript></div>{caption_html}"
            f'<script type="application/json">{data}</script>{script}</figure>'
        )
    )


def _tokens_panel(block: str, n_layers: int, n_heads: int, roles) -> str:
    """Lo que no cambia con la cabeza; el guion pone los cuadros del mapa, las palabras y el mapa n × n."""
    legend = []
    for k, (name, found) in enumerate(roles):
        count = f"({len(found) or 'ninguna'})"
        mark = f'<b style="background:var(--r{k})">{ROLE_LETTERS[k]}</b>'
        text = f"{mark}<span>{html.escape(name)} <small>{count}</small></span>"
        more = '<span class="mc-hidden">: abrir la siguiente cabeza</span>'
        button = f'<button type="button" value="{k}">{text}{more}</button>'
        legend.append(f"<li>{button if found else f'<span>{text}</span>'}</li>")
    if legend:
        legend = ['<ul class="roles">', *legend, "</ul>"]
    wide = n_layers > MAX_MAP_ROWS
    down, across = ("cabeza", "capa") if wide else ("capa", "cabeza")
    lists = "".join(
        f'<label>{label} <select autocomplete="off">'
        f"{''.join(f'<option>{i}</option>' for i in range(count))}</select></label>"
        for label, count in (("Capa", n_layers), ("Cabeza", n_heads))
    )
    sides = "".join(
        f'<label><input type="radio" name="{block}" value="{value}" autocomplete="off"{checked}>'
        f"<span>{text}</span></label>"
        for value, checked, text in (("from", " checked", "A quién mira"), ("to", "", "Quién lo mira"))
    )
    return (
        f'<div class="panel{" plain" * (not roles)}" hidden="hidden"><p class="mc-small">Elige una cabeza en el mapa y '
        f"un token en la frase: los demás se tiñen con sus pesos.</p>{''.join(legend)}"
        f'<div class="map{" wide" * wide}" style="--columns:{n_layers if wide else n_heads}">'
        f'<p class="axes" aria-hidden="true"><span>{down} ↓</span> <span>{across} →</span></p><div class="heads" '
        f'role="grid" aria-label="Mapa de {n_layers * n_heads} cabezas: una fila por {down} y una columna por '
        f'{across}"></div></div>'
        f'<p class="mc-small note">{"Gris" if roles else "Color"}: peso mayor de cada token, en media. '
        '<span class="scale">0 <i></i> 1</span></p>'
        f'<div class="bar"><p class="head"></p><div class="lists">{lists}</div></div>'
        f'<div class="views"><div><fieldset><legend class="mc-hidden">Qué pesos se ven</legend>{sides}</fieldset>'
        '<div class="sentence" role="toolbar" aria-label="Frase: elige el token del que se ven los pesos"></div>'
        '<p class="summary"></p></div><div><p class="mc-small axis">Fila: quién mira. Columna: a quién.</p></div></div>'
        '<p class="mc-live" aria-live="polite"></p></div>'
    )


def _kept(n: int, causal: bool) -> int:
    """Cuántos pesos de un mapa n × n se guardan: si ningún token mira a los de después, solo medio triángulo."""
    return n * (n + 1) // 2 if causal else n * n


def _pack(weights, causal: bool) -> str:
    """Los pesos en milésimas, dos cifras en base 36 cada uno, por capa, cabeza y fila."""
    import torch

    n = weights.shape[-1]
    kept = weights[..., *torch.tril_indices(n, n)] if causal else weights
    return "".join(_PAIRS[w] for w in kept.mul(1000).round().int().flatten().tolist())


def _check_rows(weights, *, slices: bool) -> None:
    """Cada fila suma 1, o es toda ceros (una consulta sin ninguna clave); con `slices`, 1 como mucho."""
    sums = weights.sum(-1)
    wrong = sums > 1.01 if slices else ((sums - 1).abs() > 0.01) & (sums > 0)
    if wrong.any():
        a, b, i = wrong.nonzero()[0].tolist()
        raise ValueError(
            f"Cada fila de pesos debe sumar 1; la fila {i} de la cabeza {a}.{b} suma "
            f"{plots.spanish_number(float(sums[a, b, i]))}. Causa habitual: la softmax en otro eje (usa dim=-1), pesos "
            f"con dropout, o {'la máscara en vez de los pesos' if slices else 'un trozo cortado de otros mayores'}."
        )


def _roles(roles, n_layers: int, n_heads: int) -> list[tuple[str, list[tuple[int, int]]]]:
    """Los papeles y sus cabezas, comprobados."""
    if roles is None:
        return []
    if not isinstance(roles, Mapping) or len(roles) > len(ROLE_LETTERS):
        came = f"{len(roles)} papeles" if isinstance(roles, Mapping) else type(roles).__name__
        raise ValueError(
            f"«roles» debe ser un diccionario de papel a cabezas, {len(ROLE_LETTERS)} papeles como mucho, por ejemplo "
            f'{{"objeto": [(3, 1)]}}; llegó {came}.'
        )
    checked = []
    for name, found in roles.items():
        name = _text(name, "nombre del papel")
        heads = []
        try:
            for a, b in found:
                heads.append((_one(a, n_layers, "capa"), _one(b, n_heads, "cabeza")))
        except (TypeError, ValueError):
            raise ValueError(
                f"«roles[{name!r}]» debe ser una lista de pares (capa, cabeza), de (0, 0) a "
                f"({n_layers - 1}, {n_heads - 1}); llegó {found!r}."
            ) from None
        checked.append((name, list(dict.fromkeys(heads))))
    return checked


def _first_query(weights, tokens: list[str], causal: bool) -> int:
    """El token que mira con más fuerza a otro, sin contar los especiales ([CLS]…) ni el primero de un modelo causal."""
    ordinary = [not (t.startswith(("[", "<|")) and t.endswith(("]", "|>")) and len(t) > 2) for t in tokens]
    if causal:
        ordinary[0] = False
    n = len(tokens)
    pairs = [(i, j) for i in range(n) for j in range(n) if i != j and ordinary[i] and ordinary[j]]
    return max(pairs, key=lambda pair: float(weights[pair]), default=(n - 1, 0))[0]


# --- Predicciones ------------------------------------------------------------------------------------------------


def _prose(text: str) -> str:
    """Párrafos de texto escapado; lo único que se interpreta es `código` entre acentos graves."""
    paragraphs = [html.escape(p.strip()) for p in re.split(r"\n\s*\n", text.strip())]
    return "".join(f"<p>{_inline(p)}</p>" for p in paragraphs)


def _inline(escaped: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escaped)


def predict(id: str, question: str, options: Sequence[str], answer: int | str, explanation: str) -> None:
    """«Antes de ejecutar, predice»: quien lee se compromete con una opción y solo entonces ve la explicación.

    La respuesta se guarda en el dispositivo (localStorage) y se puede cambiar. Sin JavaScript y en papel quedan la
    pregunta, las opciones y la respuesta plegada. Del texto solo se interpreta `código` entre acentos graves.

    Args:
        id: nombre único, por ejemplo «02-escala» (letras sin acento, cifras y guiones).
        question: la pregunta.
        options: de 2 a 6 opciones distintas.
        answer: posición de la correcta (desde 0), o su texto.
        explanation: por qué; párrafos separados por una línea en blanco.

    Raises:
        ValueError: si algo falta, las opciones se repiten o la respuesta no está entre ellas.
    """
    _text(id, "id")
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", id):
        raise ValueError(f"«id» debe ser como «02-escala»: minúsculas sin acento, cifras y guiones; llegó {id!r}.")
    question, explanation = _text(question, "question"), _text(explanation, "explanation")
    if isinstance(options, str) or not isinstance(options, Sequence) or not 2 <= len(options) <= 6:
        raise ValueError("«options» debe ser una lista de 2 a 6 textos.")
    options = [_text(option, f"options[{i}]") for i, option in enumerate(options)]
    if len(set(options)) < len(options):
        raise ValueError("Hay opciones repetidas en «options».")
    if isinstance(answer, str) and answer.strip() in options:
        answer = options.index(answer.strip())
    if isinstance(answer, bool) or not isinstance(answer, numbers.Integral) or not 0 <= answer < len(options):
        raise ValueError(
            f"«answer» debe ser la posición de la opción correcta (0 a {len(options) - 1}) o su texto; "
            f"llegó {answer!r}."
        )
    version = hashlib.sha256(json.dumps([question, options]).encode()).hexdigest()[:8]
    style, script = _assets("predict")
    items = "".join(f"<li>{_inline(html.escape(option))}</li>" for option in options)
    display(
        HTML(
            f'<div class="mc-predict" role="group" aria-label="Antes de ejecutar, predice" data-id="{id}" '
            f'data-version="{version}" data-answer="{int(answer)}">{style}'
            f'<p class="mc-predict-title">Antes de ejecutar, predice</p>'
            f'<div class="mc-predict-question">{_prose(question)}</div>'
            f'<ol class="mc-predict-options" type="a">{items}</ol>'
            f'<details class="mc-predict-answer"><summary>Ver la respuesta</summary>'
            f"<p><strong>{_inline(html.escape(options[int(answer)]))}</strong></p>{_prose(explanation)}</details>"
            f"{script}</div>"
        )
    )


# --- Actividades de repaso ---------------------------------------------------------------------------------------


def activity(chapter: str) -> None:
    """El repaso de un capítulo: tarjetas, ordenar, clasificar, emparejar, elegir, calcular y responder con palabras.

    Las preguntas están en `activities/NN.yml` (la forma, en `activities`). Lo respondido se guarda en el dispositivo
    (localStorage); si no se puede, lo dice. Sin JavaScript y en papel quedan las preguntas y las respuestas plegadas.

    Args:
        chapter: el capítulo, con dos cifras: «04».

    Raises:
        ActivityError: si su archivo tiene fallos; el mensaje dice la línea de cada uno y lo que se esperaba.
        ValueError: si ese capítulo no tiene actividades.
    """
    style, script = _assets("activity")
    display(HTML(activities.activity_html(chapter, _identifier("activity", str(chapter)), style, script)))


# --- Calculadoras ------------------------------------------------------------------------------------------------

# Aquí se escribe el primer caso, con las cuentas de `cost`, y `calculator.js` rehace los resultados en las mismas
# casillas (`data-out`, `data-rows`). Sin JavaScript queda la tabla.


class _Field(NamedTuple):
    """Un dato que se elige: un número con su barra (que pasa por `stops`, o por lo que diga el guion) o una lista."""

    key: str
    help: str
    value: int
    maximum: int = 0
    stops: Sequence[int] | None = None
    options: Mapping[int, str] | None = None


class _Calculator(NamedTuple):
    """Lo que distingue a una calculadora de otra."""

    title: str
    fields: list[_Field]
    texts: dict[str, str]  # lo que va en cada casilla; «state» dice el caso
    style: str
    results: str
    notes: str
    given: object = None  # lo que el guion necesita y solo sabe Python


def calculator(name: str) -> None:
    """Una calculadora en la página: se cambian los datos y los resultados se rehacen, sin kernel.

    «heads»: se eligen d_model, h y n, y se ven d_k, las formas de las matrices, los parámetros, los FLOPs y la memoria
    de las puntuaciones de una capa, y qué cambia con h. Las cuentas son las de `cost`. Sin JavaScript queda el caso de
    partida (d_model = 512, h = 8, n = 128); en papel, el que se haya elegido.

    «kv_cache»: se eligen un modelo de `cost.MODELS`, los tokens, las secuencias y los bytes por número, y se ve lo que
    ocupa su caché de claves y valores, lo que ocuparía sin compartir, y la de los demás modelos.

    Args:
        name: «heads» o «kv_cache».

    Raises:
        ValueError: si no hay ninguna calculadora con ese nombre.
    """
    if not isinstance(name, str) or name not in _CALCULATORS:
        known = ", ".join(f"«{known}»" for known in _CALCULATORS)
        raise ValueError(f"No hay ninguna calculadora {name!r}. Las que hay: {known}.")
    made = _CALCULATORS[name]()
    block = _identifier("calculator", name)
    style, script = _assets("calculator")
    given = "" if made.given is None else f' data-given="{html.escape(json.dumps(made.given, ensure_ascii=False))}"'
    controls = "".join(_field_html(f"{block}-{field.key}", field) for field in made.fields)
    display(
        HTML(
            f'<div class="mc-calculator mc-fig" id="{block}" role="group" aria-labelledby="{block}-t" '
            f'data-calculator="{name}" style="{made.style}"{given}>{style}'
            f'<p class="mc-calculator-title" id="{block}-t">{made.title}</p><div class="mc-controls" hidden="hidden">'
            f'{controls}</div><p class="mc-still">Caso: <span data-out="state">{made.texts["state"]}</span>.<span '
            f'class="mc-noscript"> Los demás se eligen con unos controles que necesitan JavaScript.</span></p>'
            f'{made.results}<p class="mc-small">{made.notes}</p>'
            f'<p class="mc-live" aria-live="polite"></p>{script}</div>'
        )
    )


def _field_html(name: str, field: _Field) -> str:
    label = f'<label for="{name}"><strong>{field.key}</strong> <span>{field.help}</span></label>'
    common = f'id="{name}" data-field="{field.key}" autocomplete="off"'
    if field.options:
        items = "".join(
            f'<option value="{value}"{" selected" * (value == field.value)}>{text}</option>'
            for value, text in field.options.items()
        )
        return f'<div class="mc-field">{label}<select {common}>{items}</select></div>'
    stops = f' data-stops="{json.dumps(list(field.stops), separators=(",", ":"))}"' if field.stops else ""
    return (
        f'<div class="mc-field">{label}<input type="number" {common} min="1" max="{field.maximum}" '
        f'value="{field.value}" inputmode="numeric" aria-describedby="{name}-m"><input type="range" '
        f'data-slides="{field.key}"{stops} aria-label="{field.key}, con una barra" autocomplete="off">'
        f'<p class="mc-message" id="{name}-m" hidden="hidden"></p></div>'
    )


def _rows_html(rows: Sequence[Sequence]) -> str:
    """Filas [es la elegida, cabecera, [texto, tanto por ciento de la barra (si lleva)]…]."""
    out = []
    for chosen, head, *cells in rows:
        current = ' aria-current="true"' if chosen else ""
        out.append(f'<tr{current}><th scope="row">{head}</th>')
        for text, *share in cells:
            bar = f'<span class="mc-bar" style="--share: {share[0]:g}%;"></span>' if share else ""
            out.append(f"<td><span>{text}</span>{bar}</td>")
        out.append("</tr>")
    return "".join(out)


def _whole(n: int) -> str:
    """Las cifras en grupos de tres, con un espacio fino, desde diez mil: 1 048 576."""
    return f"{n:,}".replace(",", "\u202f") if n >= 10_000 else str(n)


def _fixed(x: float, digits: int) -> str:
    """Con coma y `digits` decimales; el medio justo, hacia arriba, como `toFixed` de JavaScript."""
    return str(Decimal(x).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)).replace(".", ",")


def _rounded(x: float) -> str:
    """Tres cifras y prefijo: 302 M."""
    if x < 1000:
        return str(x)
    power = 0
    while x >= 999.5 and power < 5:
        x, power = x / 1000, power + 1
    return f"{_fixed(x, 2 if x < 9.995 else 1 if x < 99.95 else 0)} {' kMGTP'[power]}"


def _bytes(b: float) -> str:
    """En la mayor unidad de 1024 que no deja menos de uno, con dos decimales como mucho: 1,5 MiB."""
    power = 0
    while b >= 1024 and power < 5:
        b, power = b / 1024, power + 1
    unit = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")[power]
    return f"{_fixed(b, 2).rstrip('0').rstrip(',')} {unit}"


# Con estos máximos ninguna cuenta llega a 2^53, y los números de JavaScript son exactos.
MAX_D_MODEL = 2**14
MAX_TOKENS = 2**17


def _heads_texts(d_model: int, h: int, n: int, size: int) -> dict[str, str]:
    """Lo que va en cada casilla de «heads»."""
    flops, d_k = cost.attention_flops(d_model, h, n), d_model // h
    memory = cost.score_bytes(h, n, bytes_per_element=size)

    def shape(*sizes: int) -> str:
        return " × ".join(map(_whole, sizes))

    return {
        "state": f"d_model = {_whole(d_model)}, h = {_whole(h)}, n = {_whole(n)}, {size} bytes por número",
        "split": f"{_whole(d_model)} columnas = {_whole(h)} {'cabezas' if h > 1 else 'cabeza'} × {_whole(d_k)}",
        "d_k": _whole(d_k),
        "params": _whole(cost.attention_params(d_model, h)),
        "total": _whole(flops.total),
        "projections": _whole(flops.projections),
        "attention": _whole(flops.attention),
        "projectionsShare": f"{_fixed(100 * (flops.projections / flops.total), 1)} %",
        "attentionShare": f"{_fixed(100 * (flops.attention / flops.total), 1)} %",
        "crossing": _whole(2 * d_model),
        "elements": _whole(cost.score_elements(h, n)),
        "memory": _bytes(memory),
        "bytes": f"{_whole(memory)} bytes",
        "tokens": shape(n, d_model),
        "tokensCount": _whole(n * d_model),
        "matrix": shape(*cost.weight_shapes(d_model, h)["W_Q"]),
        "matrixCount": _whole(d_model * d_model),
        "perHead": shape(h, n, d_k),
        "scores": shape(h, n, n),
    }


def _heads_rows(d_model: int, h: int, n: int, size: int) -> list[list]:
    """La comparación de «heads»: hasta ocho números de cabezas, y el elegido."""
    every = [k for k in range(1, d_model + 1) if d_model % k == 0]
    powers = [k for k in every if k <= 128 and k.bit_count() == 1]
    heads = sorted({h, *(every if len(every) <= 8 else powers if len(powers) > 3 else every[:8])})
    return [
        [
            k == h,
            _whole(k),
            [_whole(d_model // k)],
            [_rounded(cost.attention_params(d_model, k)), 100],
            [_rounded(cost.attention_flops(d_model, k, n).total), 100],
            [_bytes(cost.score_bytes(k, n, bytes_per_element=size)), 100 * k / heads[-1]],
        ]
        for k in heads
    ]


# Tensor, su forma en letras, casillas de su forma y de cuántos números tiene, y si la forma cambia con h.
_HEADS_SHAPES = (
    ("X", "(n, d_model)", "tokens", "tokensCount", False),
    ("W<sup>Q</sup>, W<sup>K</sup>, W<sup>V</sup>", "cada una (d_model, h·d_k)", "matrix", "matrixCount", False),
    ("Q, K, V", "cada una (h,\u00a0n,\u00a0d_k)", "perHead", "tokensCount", True),
    ("QKᵀ y pesos A", "cada uno (h,\u00a0n,\u00a0n)", "scores", "elements", True),
    ("A·V", "(h, n, d_k)", "perHead", "tokensCount", True),
    ("Concat", "(n, h·d_k)", "tokens", "tokensCount", False),
    ("W<sup>O</sup>", "(h·d_k, d_model)", "matrix", "matrixCount", False),
    ("Salida", "(n, d_model)", "tokens", "tokensCount", False),
)


def _heads_calculator() -> _Calculator:
    """La calculadora de d_model y h."""
    first = d_model, h, n, size = 512, 8, 128, 4
    widths = [64, 128, 256, 384, 512, 576, 768, 1024, 1536, 2048, 3072, 4096, 5120, 8192, 12288, MAX_D_MODEL]
    fields = [
        _Field("d_model", "dimensión del modelo", d_model, MAX_D_MODEL, widths),
        _Field("h", "número de cabezas", h, MAX_D_MODEL),
        _Field("n", "tokens de la secuencia", n, MAX_TOKENS, [2**k for k in range(3, 18)]),
        _Field("bytes", "de cada número", size, options={4: "4 (float32)", 2: "2 (float16, bfloat16)"}),
    ]
    texts = _heads_texts(*first)

    def out(key: str) -> str:
        return f'<span data-out="{key}">{texts[key]}</span>'

    def term(name: str, value: str) -> str:
        return f"<div><dt>{name}</dt><dd>{value}</dd></div>"

    mark, spoken = ' class="mc-changes"', '<span class="mc-hidden">, cambia con h</span>'
    shapes = "".join(
        f'<tr{mark * changes}><th scope="row">{symbol} <small>{letters}</small>{spoken * changes}</th>'
        f"<td>{out(sizes)}</td><td>{out(count)}</td></tr>"
        for symbol, letters, sizes, count, changes in _HEADS_SHAPES
    )
    colors = ",".join(f"{c} calc({k}*var(--w)) calc({k + 1}*var(--w))" for k, c in enumerate(plots.HEAD_COLORS))
    results = (
        f'<div class="mc-strip" aria-hidden="true" style="--colors:{colors}"></div>'
        f'<p class="mc-small">W<sup>Q</sup>: {out("split")}. Cada color es una cabeza; a todas les llega X entera.</p>'
        '<div class="mc-groups"><div class="mc-changes"><p class="mc-group">Cambia con h</p><dl>'
        + term("d_k = d_model / h", out("d_k"))
        + term("Puntuaciones: h·n² números", out("elements"))
        + term("Su memoria", f"{out('memory')} <small>{out('bytes')}</small>")
        + '</dl></div><div><p class="mc-group">No cambia con h</p><dl>'
        + term("Parámetros: 4·d_model²", out("params"))
        + term("FLOPs: proyecciones y atención", out("total"))
        + '</dl></div></div><div class="mc-split" aria-hidden="true"></div><ul class="mc-legend">'
        f"<li>Proyecciones, 8·n·d_model²: {out('projections')} FLOPs ({out('projectionsShare')})</li>"
        f"<li>Atención, 4·n²·d_model: {out('attention')} FLOPs ({out('attentionShare')})</li></ul>"
        f'<p class="mc-small">Se igualan con n = 2·d_model = {out("crossing")} tokens.</p>'
        '<table class="mc-compared"><caption>Las mismas d_model y n con otras h (redondeado)</caption><thead><tr>'
        '<th scope="col">h</th><th scope="col">d_k</th><th scope="col">Pará&shy;metros</th><th scope="col">FLOPs</th>'
        '<th scope="col">Memo&shy;ria de QKᵀ</th></tr></thead>'
        f"<tbody data-rows>{_rows_html(_heads_rows(*first))}</tbody></table>"
        '<table class="mc-shapes"><caption>Formas de los tensores (con marca, las que cambian con h)</caption>'
        '<thead><tr><th scope="col">Tensor</th>'
        f'<th scope="col">Forma</th><th scope="col">Números</th></tr></thead><tbody>{shapes}</tbody></table>'
    )
    notes = (
        "Una capa de autoatención, una secuencia, sin sesgos. Un producto (m×k)(k×p) son 2·m·k·p FLOPs; la softmax no "
        "se cuenta. 1 KiB son 1024 bytes, y 1 MiB, 1024 KiB. Un núcleo fusionado no guarda las puntuaciones. "
        f"d_model llega a {_whole(MAX_D_MODEL)} y n a {_whole(MAX_TOKENS)}: así cada cuenta es exacta."
    )
    share = f"{100 * n / (2 * d_model + n):g}%"
    return _Calculator(
        "Reparte d_model entre las cabezas", fields, texts, f"--h:{h};--attention:{share}", results, notes
    )


# Con estos, la mayor caché de la tabla, sin compartir y con 4 bytes, tampoco llega a 2^53.
MAX_CONTEXT = 2**20
MAX_BATCH = 2**10
# Los que generan token a token, de los que menos guardan por token a los que más.
_CACHED = sorted((shape for shape in cost.MODELS.values() if shape.has_cache), key=lambda shape: shape.cache_bytes())


def _kv_factors(shape: cost.ModelShape, n: int, batch: int, size: int) -> str:
    """La cuenta, factor a factor."""
    if shape.latent_dim is None:
        saved = f"2 × {_whole(shape.num_kv_heads)} × {_whole(shape.head_dim)}"
    else:
        saved = _whole(shape.latent_dim)
    full, kept = shape.n_layers - shape.n_local_layers, min(n, shape.window or n)
    tokens = ((full, n), (shape.n_local_layers, kept))
    parts = [f"{_whole(layers)} × {_whole(each)}" for layers, each in tokens if layers]
    over = parts[0] if len(parts) == 1 else f"({' + '.join(parts)})"
    return f"{saved} × {over} × {_whole(batch)} × {size}"


def _kv_texts(model: int, n: int, batch: int, size: int) -> dict[str, str]:
    """Lo que va en cada casilla de «kv_cache»."""
    shape = _CACHED[model]
    memory, whole = (count(n, batch, size) for count in (shape.cache_bytes, shape.mha_cache_bytes))
    g = shape.num_kv_heads
    pairs = "1 clave y 1 valor" if g == 1 else f"{_whole(g)} claves y {_whole(g)} valores"
    shared = f"{_whole(shape.latent_dim)} números" if shape.latent_dim else f"{pairs} de {_whole(shape.head_dim)}"
    return {
        "state": f"{shape.name}, n = {_whole(n)}, lote = {_whole(batch)}, {size} bytes por número",
        "name": shape.name,
        "kind": shape.kind,
        "shared": shared,
        "memory": _bytes(memory),
        "bytes": f"{_whole(memory)} bytes",
        "token": _bytes(shape.cache_bytes(1, 1, size)),
        "factors": _kv_factors(shape, n, batch, size),
        "whole": _bytes(whole),
        "times": f"{_fixed(whole / memory, 1)} veces",
        "note": f"{shape.note} Fuente: {shape.source}.".strip(),
    }


def _kv_rows(model: int, n: int, batch: int, size: int) -> list[list]:
    """La comparación de «kv_cache»: todos los modelos, con los mismos tokens, secuencias y bytes."""
    sizes = [shape.cache_bytes(n, batch, size) for shape in _CACHED]
    return [
        [k == model, shape.name, [shape.kind], [_bytes(memory), 100 * memory / max(sizes)]]
        for k, (shape, memory) in enumerate(zip(_CACHED, sizes, strict=True))
    ]


def _kv_calculator() -> _Calculator:
    """La calculadora de la caché de claves y valores."""
    model = next(k for k, shape in enumerate(_CACHED) if shape.name == "Llama-3-8B")
    first = model, n, batch, size = model, 4096, 1, 2
    fields = [
        _Field("modelo", "medidas publicadas", model, options={k: shape.name for k, shape in enumerate(_CACHED)}),
        _Field("n", "tokens guardados", n, MAX_CONTEXT, [2**k for k in range(7, 21)]),
        _Field("lote", "secuencias a la vez", batch, MAX_BATCH, [2**k for k in range(11)]),
        _Field("bytes", "de cada número", size, options={4: "4 (float32)", 2: "2 (float16, bfloat16)", 1: "1 (int8)"}),
    ]
    texts = _kv_texts(*first)

    def out(key: str) -> str:
        return f'<span data-out="{key}">{texts[key]}</span>'

    def term(name: str, value: str) -> str:
        return f"<div><dt>{name}</dt><dd>{value}</dd></div>"

    results = (
        '<div class="mc-groups"><div class="mc-changes"><p class="mc-group">Su caché</p><dl>'
        + term(f"{out('name')}, {out('kind')}", f"{out('memory')} <small>{out('bytes')}</small>")
        + term("Por token", out("token"))
        + term("Guarda, por token y capa", f"<small>{out('shared')}</small>")
        + '</dl></div><div><p class="mc-group">Sin compartir (MHA)</p><dl>'
        + term("Una pareja por cabeza de consulta", out("whole"))
        + term("Frente a su caché", out("times"))
        + f'</dl></div></div><p class="mc-small">Cuenta: {out("factors")} bytes.</p>'
        f'<p class="mc-small">{out("note")}</p>'
        '<table class="mc-compared"><caption>Los demás, con los mismos tokens, lote y bytes</caption><thead><tr>'
        '<th scope="col">Modelo</th><th scope="col">Tipo</th><th scope="col">Caché</th></tr></thead>'
        f"<tbody data-rows>{_rows_html(_kv_rows(*first))}</tbody></table>"
    )
    notes = (
        "La cuenta va en este orden: 2 (claves y valores) × cabezas KV × d_k, o los números que guarda MLA; × capas × "
        "tokens (una capa con ventana no pasa de ella); × lote × bytes. 1 KiB son 1024 bytes. Los pesos del modelo van "
        f"aparte. n llega a {_whole(MAX_CONTEXT)}, aunque ningún modelo de la lista lee tanto."
    )
    given = [
        {
            "name": shape.name, "kind": shape.kind, "layers": shape.n_layers, "h": shape.num_heads,
            "g": shape.num_kv_heads, "dK": shape.head_dim, "latent": shape.latent_dim, "window": shape.window,
            "local": shape.n_local_layers, "note": f"{shape.note} Fuente: {shape.source}.".strip(),
        }
        for shape in _CACHED
    ]  # fmt: skip
    return _Calculator("¿Cuánto ocupa la caché KV?", fields, texts, "", results, notes, given)


_CALCULATORS: dict[str, Callable[[], _Calculator]] = {"heads": _heads_calculator, "kv_cache": _kv_calculator}


# --- Afirmaciones ------------------------------------------------------------------------------------------------

_claims: dict[str, str] = {}  # id → celda que lo registró
_CLAIM_PARTS = ("n", "seeds", "low", "high", "control")


def _plain(value, name: str):
    """Un número, texto o booleano de Python; lo demás (y NaN) se rechaza."""
    if hasattr(value, "item") and not isinstance(value, str):
        try:
            value = value.item()
        except (ValueError, RuntimeError):
            raise ValueError(f"«{name}» debe ser un solo número; llegó con forma {tuple(value.shape)}.") from None
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _text(value, name)
    if not isinstance(value, numbers.Real):
        raise ValueError(f"«{name}» debe ser un número, un texto o un booleano; llegó {type(value).__name__}.")
    if not math.isfinite(value):
        raise ValueError(f"«{name}» no es un número finito: {value}. Una afirmación no puede quedar sin medida.")
    return int(value) if isinstance(value, numbers.Integral) else float(value)


def claim(
    id: str, value, *, n: int | None = None, seeds: int | Sequence[int] | None = None,
    interval: tuple[float, float] | None = None, control=None,
) -> None:  # fmt: skip
    """Registra una afirmación medida, para la página de afirmaciones comprobadas. Fuera del libro solo comprueba.

    En el libro guarda con «glue» de MyST-NB una clave por dato: `ID` (el valor), `ID.n`, `ID.seeds` (cuántas), `ID.low`
    e `ID.high` (el intervalo) e `ID.control`. `book/afirmaciones` los lee con
    `` {glue:text}`/notebooks/02_atencion.ipynb::ID:.2f` ``; el formato del final hace falta siempre (`:.0f` para los
    enteros). Solo existen las claves de lo que se ha dado: pedir una que falta hace fallar la construcción con -W.

    Args:
        id: nombre único en el cuaderno, por ejemplo «02-saturacion» (minúsculas sin acento, cifras y guiones).
        value: lo medido: un número (o tensor de un elemento), un texto o un booleano.
        n: cuántos casos (muestras, frases, sorteos).
        seeds: cuántas semillas, o la lista de ellas.
        interval: (inferior, superior).
        control: lo medido en el control.

    Raises:
        ValueError: si el id no vale o ya lo usa otra celda, un valor no es finito, o el intervalo está al revés.
    """
    _text(id, "id")
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", id):
        raise ValueError(f"«id» debe ser como «02-saturacion»: minúsculas sin acento, cifras y guiones; llegó {id!r}.")
    record = {id: _plain(value, "value")}
    listed = isinstance(seeds, Sequence) and not isinstance(seeds, str | bytes)
    for name, count in (("n", n), ("seeds", len(seeds) if listed else seeds)):
        if count is not None:
            if isinstance(count, bool) or not isinstance(count, numbers.Integral) or count < 1:
                raise ValueError(f"«{name}» debe ser un entero positivo; llegó {count!r}.")
            record[f"{id}.{name}"] = int(count)
    if interval is not None:
        try:
            low, high = interval
        except (TypeError, ValueError):
            raise ValueError(f"«interval» debe ser (inferior, superior); llegó {interval!r}.") from None
        low, high = _plain(low, "interval[0]"), _plain(high, "interval[1]")
        if not all(isinstance(end, int | float) and not isinstance(end, bool) for end in (low, high)):
            raise ValueError(f"«interval» debe tener dos números; llegó {interval!r}.")
        if low > high:
            raise ValueError(f"El intervalo está al revés: {low} > {high}.")
        record[f"{id}.low"], record[f"{id}.high"] = low, high
    if control is not None:
        record[f"{id}.control"] = _plain(control, "control")
    if not in_book():
        return
    shell = get_ipython()
    cell = shell.user_ns.get("In", [""])[-1] if shell is not None else ""
    if _claims.setdefault(id, cell) != cell:
        raise ValueError(f"La afirmación «{id}» ya la registra otra celda de este cuaderno: cada una necesita su id.")
    from myst_nb import glue

    for key, item in record.items():
        glue(key, item, display=False)
