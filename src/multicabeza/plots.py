"""Figuras del libro: cada función recibe números y devuelve una `Figure` de matplotlib.

Un solo estilo, aplicado dentro de cada función (nunca se tocan los `rcParams` del lector), una sola
paleta en la que la cabeza i conserva el color `HEAD_COLORS[i]` en todo el libro, coma decimal en los ejes
y fondo blanco opaco, para que se lean igual en modo oscuro y en papel. Las figuras miden poco más de
12 cm de ancho con letra de 11 puntos: en un teléfono de 390 px la letra queda en unos 10 px.

Las figuras no se registran en pyplot: no hay que cerrarlas y no salen dos veces. Enséñalas con `mc.show`.
"""

import inspect
import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from types import UnionType
from typing import ParamSpec, get_args, get_origin

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, Normalize, to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle
from matplotlib.ticker import Formatter, ScalarFormatter

INK = "#1f2933"  # texto y ejes
MUTED = "#5b6770"  # texto secundario y líneas de referencia
GRID = "#d9dee3"  # rejilla
PAPER = "#ffffff"  # fondo, siempre opaco
ACCENT = "#0b6e99"  # lo que hay que mirar
ACCENT_2 = "#c2410c"  # lo que se le compara

# Doce colores que se distinguen también con protanopia, deuteranopia y tritanopia, con contraste ≥ 3:1 sobre blanco
# (tests/unit/test_plots.py lo mide). La cabeza i lleva HEAD_COLORS[i % 12] en todo el libro.
HEAD_COLORS = (
    "#3586ff", "#6f5e16", "#1a0695", "#eb6378", "#125238", "#680602",
    "#ae2f6f", "#4d2045", "#8a9722", "#b07bad", "#6856ab", "#2e8d53",
)  # fmt: skip

WIDTH = 4.8  # pulgadas: el ancho de casi todas las figuras
HEIGHT = 3.2

STYLE = {
    "figure.facecolor": PAPER,
    "savefig.facecolor": PAPER,
    "figure.dpi": 100,
    "font.family": "DejaVu Sans",
    "font.size": 11,
    "axes.facecolor": PAPER,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.labelsize": 11,
    "axes.titlesize": 12,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlecolor": INK,
    "axes.titlepad": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.9,
    "axes.grid": False,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.labelsize": 10,
    "ytick.labelsize": 10,
    "text.color": INK,
    "legend.fontsize": 10,
    "legend.frameon": False,
    "lines.linewidth": 2.2,
    "lines.markersize": 5.5,
    "mathtext.fontset": "dejavusans",
}

# Blanco → azul oscuro, con luminosidad que baja de forma regular: se lee también en gris.
WEIGHT_CMAP = LinearSegmentedColormap.from_list("pesos", ["#ffffff", "#cfe3f1", "#7fb2d6", "#2f7bb0", "#08306b"])
# Naranja ← blanco → azul, para cantidades con signo (puntuaciones, diferencias).
SIGNED_CMAP = LinearSegmentedColormap.from_list(
    "con signo", ["#7f2704", "#d9762b", "#fbe3cf", "#ffffff", "#cfe3f1", "#2f7bb0", "#08306b"]
)

P = ParamSpec("P")


def with_style(draw: Callable[P, Figure]) -> Callable[P, Figure]:
    """Aplica el estilo del libro mientras se dibuja, y nada más: los `rcParams` de fuera no cambian."""

    signature = inspect.signature(draw)

    @wraps(draw)
    def styled(*args: P.args, **kwargs: P.kwargs) -> Figure:
        _check_words(signature, args, kwargs)
        with mpl.rc_context(STYLE):
            return draw(*args, **kwargs)

    return styled


# --- Texto -------------------------------------------------------------------------------------------------------


def spanish_number(value: float, digits: int = 2) -> str:
    """Escribe un número con coma decimal y signo menos tipográfico: −0,25.

    Args:
        value: el número.
        digits: decimales.

    Returns:
        El texto; «−0,00» se escribe «0,00».
    """
    try:
        text = f"{value:.{digits}f}"
        zero = float(text) == 0
    except (TypeError, ValueError):
        raise ValueError(
            f"Se esperaba un número y cuántos decimales, y llegaron {value!r} y {digits!r}. "
            "Lo habitual: un tensor con varios números; elige uno."
        ) from None
    if zero:
        text = text.lstrip("-")
    return text.replace("-", "−").replace(".", ",")


def _comma(label: str) -> str:
    """Coma decimal en una etiqueta; dentro de una fórmula va entre llaves, para que no deje un hueco detrás."""
    return label.replace(".", "{,}" if "$" in label else ",")


class CommaFormatter(ScalarFormatter):
    """Las etiquetas de un eje lineal, con coma decimal."""

    def __call__(self, x, pos=None):
        return _comma(super().__call__(x, pos))

    def get_offset(self):
        return _comma(super().get_offset())


class PlainLogFormatter(Formatter):
    """Las etiquetas de un eje logarítmico: 1, 10, 0,1 cuando caben; si no, potencias de la base."""

    def __init__(self, base: float = 10):
        self.base = base

    def __call__(self, x, pos=None):
        if x <= 0:
            return ""
        exponent = math.log(x, self.base)
        if abs(exponent - round(exponent)) > 1e-6:
            return ""
        if 1e-3 <= x < 1e5:
            return f"{x:g}".replace(".", ",")
        return f"${self.base:g}^{{{round(exponent)}}}$"


def new_figure(width: float = WIDTH, height: float = HEIGHT, **layout) -> Figure:
    """Una figura vacía con el fondo y el tamaño del libro, sin registrar en pyplot.

    Args:
        width: pulgadas (4,8 deja la letra legible en un teléfono).
        height: pulgadas.
        **layout: lo que acepte `Figure` (por ejemplo `layout="none"`).

    Returns:
        `Figure` con «constrained layout».
    """
    with mpl.rc_context(STYLE):
        return Figure(figsize=(width, height), facecolor=PAPER, **{"layout": "constrained", **layout})


def decimal_comma(axes: Axes) -> Axes:
    """Pone coma decimal en los ejes numéricos de `axes` (lineales o logarítmicos) y los devuelve."""
    for axis in (axes.xaxis, axes.yaxis):
        scale = axis.get_scale()
        if scale == "linear" and type(axis.get_major_formatter()) is ScalarFormatter:
            axis.set_major_formatter(CommaFormatter(useMathText=True))
        elif scale == "log":
            axis.set_major_formatter(PlainLogFormatter(axis.get_transform().base))
    return axes


def printable(token: str) -> str:
    """Un token tal como se puede dibujar: los blancos se ven (␣, ↵, ⇥) y nada se toma por fórmula.

    Args:
        token: texto cualquiera; puede venir de quien lee.

    Returns:
        Texto de una línea sin caracteres de control, con «$» protegido.
    """
    text = str(token).replace("\n", "↵").replace("\t", "⇥").replace("\r", "")
    if text.strip(" ") == "":
        text = "␣" * max(len(text), 1)
    text = "".join(character if character.isprintable() else "�" for character in text)
    return text.replace("$", r"\$")


# --- Comprobar lo que llega --------------------------------------------------------------------------------------


def _array(values, name: str, ndim: int | None = None, *, finite: bool = True) -> np.ndarray:
    """`values` como matriz de numpy float64, o un `ValueError` que dice qué se esperaba."""
    if hasattr(values, "detach"):
        values = values.detach().cpu().double().numpy()
    try:
        array = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"«{name}» debe contener números; llegó {type(values).__name__}.") from None
    if ndim is not None and array.ndim != ndim:
        kind = {1: "una lista de números", 2: "una matriz"}[ndim]
        hint = " ¿Falta elegir una capa o una cabeza, por ejemplo weights[0, 3]?" if array.ndim > ndim else ""
        raise ValueError(f"«{name}» debe ser {kind} ({ndim}-D); llegó con forma {tuple(array.shape)}.{hint}")
    if finite and not np.isfinite(array).all():
        raise ValueError(
            f"«{name}» tiene valores que no son números finitos (NaN o infinito). Causa habitual: una fila de la "
            "máscara que no deja ninguna clave."
        )
    return array


def _words_for(annotation) -> tuple[tuple[type, ...], str] | None:
    """Qué clases admite un parámetro que pide textos o diccionarios, y cómo decirlo; None si pide otra cosa."""
    options = get_args(annotation) if isinstance(annotation, UnionType) else (annotation,)
    kinds = tuple(get_origin(option) or option for option in options)
    names = {Mapping: "un diccionario de nombre a valor", str: "un texto", type(None): "None"}
    if not set(kinds) <= names.keys() or kinds == (type(None),):
        return None
    return kinds, " o ".join(names[kind] for kind in kinds if kind is not type(None))


def _check_words(signature: inspect.Signature, args: tuple, kwargs: dict) -> None:
    """Los textos y los diccionarios son lo que dicen ser, en todas las figuras; los números, cada una los mira."""
    try:
        given = signature.bind(*args, **kwargs).arguments
    except TypeError:  # faltan o sobran argumentos: ya lo dirá Python
        return
    for name, value in given.items():
        expected = _words_for(signature.parameters[name].annotation)
        if expected is not None and not isinstance(value, expected[0]):
            raise ValueError(f"«{name}» debe ser {expected[1]}; llegó {type(value).__name__}.")


def _labels(labels: Sequence[str] | None, size: int, name: str) -> list[str]:
    """Las etiquetas como texto dibujable, o un `ValueError` si no son `size`."""
    if labels is None:
        return [str(i) for i in range(size)]
    if isinstance(labels, str):
        raise ValueError(f"«{name}» debe ser una lista de textos; llegó un solo texto: {labels!r}.")
    if not hasattr(labels, "__len__"):
        raise ValueError(f"«{name}» debe ser una lista de textos; llegó {type(labels).__name__}.")
    if len(labels) != size:
        raise ValueError(f"«{name}» tiene {len(labels)} etiquetas y la figura necesita {size}.")
    return [printable(label) for label in labels]


def _wrap(title: str | None, width: float = WIDTH) -> str:
    """El título, partido en líneas que caben en `width` pulgadas."""
    return textwrap.fill(title, max(int(width * 9.2), 12)) if title else ""


def _put_title(figure: Figure, title: str | None) -> None:
    if title:
        figure.suptitle(_wrap(title, figure.get_figwidth()), x=0.01, ha="left", fontsize=12, fontweight="bold")


def _title_room(title: str | None) -> float:
    """Pulgadas que ocupa el título."""
    return 0.12 + 0.2 * (_wrap(title).count("\n") + 1) if title else 0.0


def _luminance(color) -> float:
    """Luminancia relativa de un color (WCAG 2.1)."""
    r, g, b = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(color))
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def text_color(color) -> tuple[float, float, float]:
    """El mismo color, oscurecido lo justo para que un texto se lea sobre blanco (contraste ≥ 4,5:1)."""
    rgb = np.array(to_rgb(color))
    while 1.05 / (_luminance(tuple(rgb)) + 0.05) < 4.5:
        rgb = rgb * 0.97
    return tuple(rgb)


def _ink_over(color) -> str:
    """Negro o blanco: el que mejor se lee sobre `color`."""
    return INK if _luminance(color[:3]) > 0.25 else PAPER


# --- Figuras -----------------------------------------------------------------------------------------------------


@with_style
def heatmap(
    weights,
    row_labels: Sequence[str] | None = None,
    column_labels: Sequence[str] | None = None,
    *,
    title: str | None = None,
    xlabel: str | None = "clave",
    ylabel: str | None = "consulta",
    signed: bool = False,
    limits: tuple[float, float] | None = None,
    annotate: bool | None = None,
    digits: int = 2,
    mask=None,
    colorbar: bool | None = None,
) -> Figure:
    """Mapa de calor de una matriz: filas, consultas; columnas, claves.

    Args:
        weights: (n_q, n_k), pesos o puntuaciones.
        row_labels: n_q textos; si faltan, números.
        column_labels: n_k textos; si faltan, números.
        title: título.
        xlabel: nombre de las columnas.
        ylabel: nombre de las filas.
        signed: escala naranja–blanco–azul centrada en 0, para puntuaciones o diferencias.
        limits: (mínimo, máximo) de la escala; por defecto 0–1 si todo cabe ahí, o ± el mayor valor si `signed`.
        annotate: escribe los números en las celdas; por defecto, si no pasan de 8 por lado.
        digits: decimales de los números escritos.
        mask: bool (n_q, n_k), `True` = puede atender; las celdas prohibidas salen rayadas, sin número.
        colorbar: dibuja la escala; por defecto, solo cuando no se escriben los números.

    Returns:
        `Figure`.

    Raises:
        ValueError: si `weights` no es una matriz de números finitos o las etiquetas no casan.
    """
    allowed = None
    if mask is not None:
        allowed = _array(mask, "mask", 2).astype(bool)
    matrix = _array(weights, "weights", 2, finite=allowed is None)
    if allowed is not None:
        if allowed.shape != matrix.shape:
            raise ValueError(f"«mask» tiene forma {allowed.shape} y «weights» {matrix.shape}: deben coincidir.")
        if not np.isfinite(matrix[allowed]).all():
            raise ValueError("«weights» tiene NaN o infinitos en celdas que la máscara permite.")
    if matrix.size == 0:
        raise ValueError(f"«weights» está vacía: forma {matrix.shape}.")
    rows, columns = matrix.shape
    numbered = row_labels is None, column_labels is None
    row_labels = _labels(row_labels, rows, "row_labels")
    column_labels = _labels(column_labels, columns, "column_labels")
    shown = matrix if allowed is None else np.where(allowed, matrix, np.nan)
    finite = shown[np.isfinite(shown)]
    if limits is None:
        if signed:
            bound = float(np.abs(finite).max(initial=0)) or 1.0
            limits = (-bound, bound)
        else:
            low, high = float(finite.min(initial=0)), float(finite.max(initial=1e-9))
            limits = (0.0, 1.0) if low >= 0 and high <= 1 + 1e-6 else (low, high)
    norm = Normalize(*limits)
    cmap = SIGNED_CMAP if signed else WEIGHT_CMAP
    if annotate is None:
        annotate = max(rows, columns) <= 8
    if colorbar is None:
        colorbar = not annotate

    longest = max(map(len, column_labels))
    rotate = longest * 0.105 > (WIDTH - 1.6) / (min(columns, 12) if numbered[1] else columns)
    row_room = 0.09 * max(map(len, row_labels)) + (0.3 if ylabel else 0.1)
    cell = min(0.62, (WIDTH - row_room - (0.7 if colorbar else 0.1)) / columns)
    height = cell * rows + (0.35 if xlabel else 0) + _title_room(title) + (0.085 * longest if rotate else 0.3) + 0.15
    figure = new_figure(WIDTH, max(height, 1.6))
    axes = figure.add_subplot()
    image = axes.imshow(np.ma.masked_invalid(shown), cmap=cmap, norm=norm, aspect="equal")
    # Los números de orden no se escriben todos cuando son muchos; las palabras sí.
    across = range(0, columns, math.ceil(columns / 12) if numbered[1] else 1)
    down = range(0, rows, math.ceil(rows / 12) if numbered[0] else 1)
    axes.set_xticks(across, [column_labels[j] for j in across], rotation=90 if rotate else 0)
    axes.set_yticks(down, [row_labels[i] for i in down])
    axes.xaxis.set_ticks_position("top")
    axes.xaxis.set_label_position("top")
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    if max(rows, columns) <= 24:  # con más, la rejilla taparía los colores
        axes.set_xticks(np.arange(-0.5, columns), minor=True)
        axes.set_yticks(np.arange(-0.5, rows), minor=True)
        axes.grid(which="minor", color=GRID, linewidth=0.8)
        axes.tick_params(which="minor", length=0)
    if allowed is not None:
        for i, j in np.argwhere(~allowed):
            axes.fill(
                [j - 0.5, j + 0.5, j + 0.5, j - 0.5], [i - 0.5, i - 0.5, i + 0.5, i + 0.5],
                facecolor="#f1f3f5", edgecolor="#aab2ba", hatch="////", linewidth=0,
            )  # fmt: skip
    if annotate:
        size = 10 if columns <= 6 else 8.5
        for (i, j), value in np.ndenumerate(shown):
            if np.isfinite(value):
                color = _ink_over(cmap(norm(value)))
                axes.text(j, i, spanish_number(value, digits), ha="center", va="center", color=color, fontsize=size)
    if xlabel:
        axes.set_xlabel(xlabel)
    if ylabel:
        axes.set_ylabel(ylabel)
    _put_title(figure, title)
    if colorbar:
        bar = figure.colorbar(image, cax=axes.inset_axes((1.03, 0, 0.045, 1)))
        figure.get_layout_engine().set(w_pad=0.14)  # los números de la escala caben siempre
        bar.ax.yaxis.set_major_formatter(CommaFormatter(useMathText=True))
        bar.outline.set_visible(False)
    return figure


@with_style
def lines(
    x,
    series: Mapping[str, object],
    *,
    xlabel: str,
    ylabel: str,
    title: str | None = None,
    intervals: Mapping[str, tuple] | None = None,
    references: Mapping[str, float] | None = None,
    vertical: Mapping[str, float] | None = None,
    xscale: str = "linear",
    yscale: str = "linear",
    ylim: tuple[float | None, float | None] | None = None,
    xticks: Sequence[float] | None = None,
    colors: Mapping[str, str] | None = None,
    markers: bool | None = None,
    height: float = HEIGHT,
) -> Figure:
    """Líneas con su leyenda, bandas de intervalo y líneas de referencia.

    Cada serie se distingue por color, por trazo y por marca (no solo por color).

    Args:
        x: (n,) abscisas comunes.
        series: nombre → (n,) ordenadas; NaN deja un hueco.
        xlabel: nombre del eje x, con su unidad.
        ylabel: nombre del eje y, con su unidad.
        title: título.
        intervals: nombre de una serie → (inferior, superior), cada uno (n,): banda alrededor de la línea.
        references: nombre → altura de una línea horizontal discontinua (azar, límite…).
        vertical: nombre → abscisa de una línea vertical discontinua.
        xscale: «linear», «log» (base 10) o «log2».
        yscale: igual, para el eje y.
        ylim: (inferior, superior); `None` deja que se ajuste.
        xticks: abscisas con marca.
        colors: nombre → color; por defecto `HEAD_COLORS` en orden.
        markers: dibuja los puntos; por defecto, si son 25 o menos.
        height: altura en pulgadas.

    Returns:
        `Figure`.

    Raises:
        ValueError: si una serie no tiene la longitud de `x`, un intervalo no tiene serie, o la escala no existe.
    """
    x = _array(x, "x", 1)
    if not series:
        raise ValueError('«series» está vacío: hace falta al menos una línea, por ejemplo {"pérdida": valores}.')
    for name in intervals or {}:
        if name not in series:
            raise ValueError(f"Hay un intervalo para «{name}», que no está en «series»: {', '.join(series)}.")
    for scale in (xscale, yscale):
        if scale not in ("linear", "log", "log2"):
            raise ValueError(f"Escala desconocida: {scale!r}. Usa «linear», «log» o «log2».")
    dashes = ["-", (0, (5, 1.6)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.2, 1.5)), (0, (3, 1, 1, 1, 1, 1))]
    shapes = "osD^vPX*"
    markers = len(x) <= 25 if markers is None else markers
    figure = new_figure(WIDTH, height)
    axes = figure.add_subplot()
    for scale, setter in ((xscale, axes.set_xscale), (yscale, axes.set_yscale)):
        if scale != "linear":
            setter("log", base=2 if scale == "log2" else 10)
    for i, (name, values) in enumerate(series.items()):
        values = _array(values, f"series[{name!r}]", 1, finite=False)
        if values.shape != x.shape:
            raise ValueError(f"La serie «{name}» tiene {len(values)} valores y «x» tiene {len(x)}.")
        color = (colors or {}).get(name, HEAD_COLORS[i % len(HEAD_COLORS)])
        shape = shapes[i % len(shapes)] if markers else None
        axes.plot(x, values, color=color, linestyle=dashes[i % len(dashes)], marker=shape, label=name)
        if intervals and name in intervals:
            low, high = (_array(edge, f"intervals[{name!r}]", 1, finite=False) for edge in intervals[name])
            if low.shape != x.shape or high.shape != x.shape:
                raise ValueError(
                    f"El intervalo de «{name}» debe ser (inferior, superior), con {len(x)} valores cada uno."
                )
            axes.fill_between(x, low, high, color=color, alpha=0.18, linewidth=0)
    for name, value in (references or {}).items():
        axes.axhline(value, color=MUTED, linewidth=1.4, linestyle=(0, (4, 3)), label=name, zorder=1)
    for name, value in (vertical or {}).items():
        axes.axvline(value, color=MUTED, linewidth=1.4, linestyle=(0, (1, 2)), label=name, zorder=1)
    axes.set_xlabel(xlabel)
    # El nombre del eje y va tumbado, encima: de pie se lee mal y no cabe en una figura baja.
    axes.set_title(_wrap(ylabel, 1.1 * WIDTH), loc="left", fontsize=10, fontweight="normal", color=MUTED)
    axes.grid(axis="y")
    axes.set_axisbelow(True)
    if ylim is not None:
        axes.set_ylim(*ylim)
    decimal_comma(axes)
    if xticks is not None:
        axes.set_xticks(list(xticks), [f"{tick:g}".replace(".", ",").replace("-", "−") for tick in xticks])
        axes.minorticks_off()
    _put_title(figure, title)
    if len(series) + len(references or {}) + len(vertical or {}) > 1:
        figure.legend(loc="outside lower center", ncols=2, handlelength=2.6, columnspacing=1.4)
    return figure


@with_style
def bars(
    labels: Sequence[str],
    values,
    *,
    xlabel: str,
    title: str | None = None,
    intervals: tuple | None = None,
    references: Mapping[str, float] | None = None,
    colors: Sequence[str] | None = None,
    digits: int = 2,
    limits: tuple[float, float] | None = None,
) -> Figure:
    """Barras horizontales, con el número escrito al final de cada una.

    Args:
        labels: n textos.
        values: (n,) longitudes.
        xlabel: qué se mide, con su unidad.
        title: título.
        intervals: (inferior, superior), cada uno (n,).
        references: nombre → valor de una línea vertical de referencia.
        colors: n colores; por defecto todas del mismo.
        digits: decimales de los números.
        limits: (mínimo, máximo) del eje.

    Returns:
        `Figure`.

    Raises:
        ValueError: si no hay tantos valores como etiquetas.
    """
    values = _array(values, "values", 1)
    labels = _labels(labels, len(values), "labels")
    colors = list(colors) if colors is not None else [ACCENT] * len(values)
    if len(colors) != len(values):
        raise ValueError(f"Hay {len(colors)} colores y {len(values)} barras.")
    figure = new_figure(WIDTH, 0.42 * len(values) + 0.85 + _title_room(title) + (0.3 if references else 0))
    axes = figure.add_subplot()
    places = np.arange(len(values))
    axes.barh(places, values, color=colors, height=0.66)
    ends = values
    if intervals is not None:
        low, high = (_array(edge, "intervals", 1) for edge in intervals)
        if low.shape != values.shape or high.shape != values.shape:
            raise ValueError(f"«intervals» debe ser (inferior, superior), con {len(values)} valores cada uno.")
        errors = np.clip([values - low, high - values], 0, None)
        axes.errorbar(values, places, xerr=errors, fmt="none", ecolor=INK, elinewidth=1.4, capsize=3)
        ends = np.where(values >= 0, np.maximum(values, high), np.minimum(values, low))
    for place, value, end in zip(places, values, ends, strict=True):
        axes.annotate(
            spanish_number(value, digits), (end, place), xytext=(5 if value >= 0 else -5, 0),
            textcoords="offset points", va="center", ha="left" if value >= 0 else "right", fontsize=10,
        )  # fmt: skip
    for name, value in (references or {}).items():
        axes.axvline(value, color=MUTED, linewidth=1.4, linestyle=(0, (4, 3)), label=name)
    axes.set_yticks(places, labels)
    axes.invert_yaxis()
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(xlabel)
    axes.margins(x=0.22 if ends.min(initial=0) < 0 else 0.16)
    if limits is not None:
        axes.set_xlim(*limits)
    if ends.min(initial=0) < 0:
        axes.axvline(0, color=INK, linewidth=0.9)
        axes.spines["left"].set_visible(False)
    decimal_comma(axes)
    _put_title(figure, title)
    if references:
        figure.legend(loc="outside lower center", ncols=2)
    return figure


@with_style
def arcs(
    tokens: Sequence[str],
    weights,
    *,
    query: int | None = None,
    title: str | None = None,
    color: str = ACCENT,
    threshold: float = 0.05,
    show_values: bool | None = None,
) -> Figure:
    """Una frase con flechas: de la palabra que mira a las que mira, más gruesas y opacas cuanto mayor es el peso.

    Args:
        tokens: n textos.
        weights: (n,) pesos de una consulta (hace falta `query`), o (n, n), fila = consulta.
        query: posición de la consulta (desde 0). Con una matriz, `None` dibuja las flechas de todas.
        title: título.
        color: color de las flechas (`HEAD_COLORS[i]` si son de la cabeza i).
        threshold: no se dibujan pesos menores.
        show_values: escribe cada peso bajo su palabra; por defecto, cuando hay una sola consulta.

    Returns:
        `Figure`: con una consulta, la frase en horizontal (o en vertical si no cabe).

    Raises:
        ValueError: si las formas no casan, un peso es negativo, o `query` está fuera de la frase.
    """
    array = _array(weights, "weights")
    n = len(tokens) if hasattr(tokens, "__len__") else 0
    labels = _labels(tokens, n, "tokens")
    if n == 0:
        raise ValueError("«tokens» está vacío.")
    if array.shape not in ((n,), (n, n)):
        raise ValueError(
            f"«weights» debe ser ({n},) o ({n}, {n}) para {n} tokens; llegó {tuple(array.shape)}. "
            "¿Falta elegir capa y cabeza, o son de otra frase?"
        )
    if (array < 0).any():
        raise ValueError("«weights» tiene valores negativos: son puntuaciones, no pesos. Aplica antes la softmax.")
    if query is not None and not 0 <= query < n:
        raise ValueError(f"«query» debe estar entre 0 y {n - 1}; llegó {query}.")
    if array.ndim == 1:
        if query is None:
            raise ValueError("Con los pesos de una sola consulta hace falta decir cuál es: query=posición.")
        rows = {query: array}
    else:
        rows = {query: array[query]} if query is not None else dict(enumerate(array))
    show_values = (len(rows) == 1) if show_values is None else show_values
    top = max(float(max(row.max() for row in rows.values())), 1e-9)

    # Dos columnas: a la izquierda quien mira, a la derecha lo mirado. Cabe igual en un teléfono y con frases largas.
    step = 0.34
    height = step * (n + 0.8) + _title_room(title)
    figure = new_figure(WIDTH, height, layout="none")
    axes = figure.add_axes((0.01, 0, 0.98, step * (n + 0.8) / height))
    axes.set_axis_off()
    axes.set_xlim(0, 10)
    axes.set_ylim(n - 0.4, -1.2)
    axes.text(3.2, -0.85, "consulta", ha="right", va="center", color=MUTED, fontsize=10)
    axes.text(6.6, -0.85, "clave", ha="left", va="center", color=MUTED, fontsize=10)
    for j, label in enumerate(labels):
        weight = max((row[j] for row in rows.values()), default=0)
        active = j in rows
        strong = len(rows) == 1 and weight >= threshold
        axes.text(
            3.2, j, label, ha="right", va="center", fontsize=11.5,
            color=INK if active else MUTED, fontweight="bold" if active and len(rows) == 1 else "normal",
        )  # fmt: skip
        axes.text(6.6, j, label, ha="left", va="center", fontsize=11.5, color=INK if strong or len(rows) > 1 else MUTED)
        if show_values and len(rows) == 1:
            axes.text(
                9.9, j, spanish_number(weight), ha="right", va="center", fontsize=10, color=INK if strong else MUTED
            )
    for i, row in rows.items():
        for j, weight in enumerate(row):
            if weight >= threshold:
                arrow = {"arrowstyle": "-|>", "mutation_scale": 7 + 7 * weight, "linewidth": 0.8 + 5 * weight}
                ends = {"posA": (3.4, i), "posB": (6.45, j), "shrinkA": 0, "shrinkB": 0}
                opacity = 0.25 + 0.7 * weight / top
                axes.add_patch(FancyArrowPatch(**ends, **arrow, color=color, alpha=opacity, zorder=2 + weight))
    if title:
        up = 1 - 0.04 / height
        figure.text(0.01, up, _wrap(title), ha="left", va="top", fontsize=12, fontweight="bold")
    return figure


@with_style
def vectors2d(
    vectors: Mapping[str, Sequence[float]],
    *,
    title: str | None = None,
    colors: Mapping[str, str] | None = None,
    points: Mapping[str, Sequence[float]] | None = None,
    limit: float | None = None,
    labels: bool = True,
) -> Figure:
    """Vectores del plano como flechas desde el origen, con su nombre en la punta.

    Args:
        vectors: nombre → (x, y).
        title: título.
        colors: nombre → color; por defecto `HEAD_COLORS` en orden.
        points: nombre → (x, y), puntos sin flecha (por ejemplo, los valores que se promedian).
        limit: los ejes van de −limit a limit (fíjalo al mover un control: así la escala no salta).
        labels: escribe los nombres.

    Returns:
        `Figure` con los dos ejes a la misma escala.

    Raises:
        ValueError: si no hay vectores o alguno no es de dos números finitos.
    """
    places = {name: _array(value, f"vectors[{name!r}]", 1) for name, value in vectors.items()}
    dots = {name: _array(value, f"points[{name!r}]", 1) for name, value in (points or {}).items()}
    if not places and not dots:
        raise ValueError("No hay nada que dibujar: «vectors» está vacío.")
    for name, value in {**places, **dots}.items():
        if value.shape != (2,):
            raise ValueError(
                f"«{name}» debe tener dos componentes para dibujarse en el plano; tiene forma {value.shape}."
            )
    if limit is None:
        limit = 1.25 * max(float(np.abs(value).max()) for value in (*places.values(), *dots.values())) or 1.0
    figure = new_figure(WIDTH, WIDTH * 0.88)
    axes = figure.add_subplot()
    axes.set_aspect("equal")
    axes.set_xlim(-limit, limit)
    axes.set_ylim(-limit, limit)
    axes.axhline(0, color=GRID, linewidth=1, zorder=0)
    axes.axvline(0, color=GRID, linewidth=1, zorder=0)
    axes.spines[:].set_color(GRID)
    axes.tick_params(color=GRID)

    # Los nombres van junto a la punta; el que caería sobre otro se aparta en vertical. Medidas en puntos, aproximadas.
    taken: list[tuple[float, float, float]] = []
    points_per_unit = 0.78 * WIDTH * 72 / (2 * limit)

    def name_at(name: str, value: np.ndarray, color: str) -> None:
        norm = float(np.hypot(*value)) or 1.0
        ux, uy = value / norm
        width = 7.5 * len(name)
        side = "left" if ux > 0.35 else "right" if ux < -0.35 else "center"
        x = value[0] * points_per_unit + 9 * ux + {"left": width / 2, "right": -width / 2, "center": 0}[side]
        y = value[1] * points_per_unit + 9 * uy + (7 if uy > 0.35 else -7 if uy < -0.35 else 0)
        shifts = (0, 14, -14, 28, -28)
        free = [
            shift for shift in shifts
            if all(abs(x - a) > (width + w) / 2 or abs(y + shift - b) > 13 for a, b, w in taken)
        ]  # fmt: skip
        shift = free[0] if free else 0
        taken.append((x, y + shift, width))
        axes.annotate(
            name, value, xytext=(9 * ux, 9 * uy + shift), textcoords="offset points",
            fontweight="bold", color=text_color(color), ha=side,
            va="bottom" if uy > 0.35 else "top" if uy < -0.35 else "center", annotation_clip=False,
        ).set_in_layout(False)  # fmt: skip

    for i, (name, value) in enumerate(places.items()):
        color = (colors or {}).get(name, HEAD_COLORS[i % len(HEAD_COLORS)])
        arrow = {"arrowstyle": "-|>", "mutation_scale": 15, "linewidth": 2.4, "shrinkA": 0, "shrinkB": 0}
        axes.add_patch(FancyArrowPatch((0, 0), tuple(value), color=color, zorder=3, **arrow))
        if labels:
            name_at(name, value, color)
    for i, (name, value) in enumerate(dots.items()):
        color = (colors or {}).get(name, HEAD_COLORS[(len(places) + i) % len(HEAD_COLORS)])
        axes.plot(*value, marker="o", color=color, markersize=7, zorder=4)
        if labels:
            name_at(name, value, color)
    decimal_comma(axes)
    _put_title(figure, title)
    return figure


@with_style
def head_grid(
    weights,
    *,
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    title: str | None = None,
) -> Figure:
    """Todas las cabezas de un vistazo: un mapa de calor pequeño por cabeza, una fila por capa.

    Args:
        weights: (n_layers, h, n, n) pesos.
        layers: números de las capas, para las etiquetas; por defecto desde 0.
        heads: números de las cabezas, igual.
        title: título.

    Returns:
        `Figure` de n_layers × h mapas.

    Raises:
        ValueError: si la forma no es (n_layers, h, n, n) o las etiquetas no casan.
    """
    array = _array(weights, "weights")
    if array.ndim != 4 or 0 in array.shape:
        raise ValueError(f"«weights» debe ser (n_layers, h, n, n); llegó con forma {tuple(array.shape)}.")
    n_layers, n_heads = array.shape[:2]
    layers = _labels(None if layers is None else [str(i) for i in layers], n_layers, "layers")
    heads = _labels(None if heads is None else [str(i) for i in heads], n_heads, "heads")
    left, top = 0.5, 0.5 + _title_room(title)
    cell = min((WIDTH - left - 0.05) / n_heads, 1.1)
    height = top + cell * n_layers + 0.05
    figure = new_figure(WIDTH, height, layout="none")
    gap = 0.06 * cell
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(0, WIDTH)
    axes.set_ylim(height, 0)
    for a in range(n_layers):
        for b in range(n_heads):
            x, y = left + b * cell, top + a * cell
            axes.imshow(
                array[a, b], cmap=WEIGHT_CMAP, norm=Normalize(0, 1), interpolation="nearest", aspect="auto",
                extent=(x, x + cell - gap, y + cell - gap, y),
            )  # fmt: skip
            axes.add_patch(
                Rectangle(
                    (x, y), cell - gap, cell - gap, fill=False, linewidth=1.2, edgecolor=HEAD_COLORS[int(heads[b]) % 12]
                )
            )
    axes.set_xlim(0, WIDTH)
    axes.set_ylim(height, 0)
    for b, name in enumerate(heads):
        axes.text(left + b * cell + (cell - gap) / 2, top - 0.08, name, ha="center", va="bottom", fontsize=10)
    for a, name in enumerate(layers):
        axes.text(left - 0.08, top + a * cell + (cell - gap) / 2, name, ha="right", va="center", fontsize=10)
    axes.text(left + cell * n_heads / 2, top - 0.27, "cabeza", ha="center", va="bottom", fontsize=10, color=MUTED)
    axes.text(0.1, top + cell * n_layers / 2, "capa", ha="center", va="center", rotation=90, fontsize=10, color=MUTED)
    if title:
        axes.text(0.04, 0.05, _wrap(title), ha="left", va="top", fontsize=12, fontweight="bold")
    return figure


@with_style
def matrix_map(
    matrix,
    *,
    xlabel: str,
    ylabel: str,
    title: str | None = None,
    signed: bool = False,
    limits: tuple[float, float] | None = None,
    marks: Mapping[str, tuple[float, float]] | None = None,
) -> Figure:
    """Una matriz grande como imagen, sin números ni etiquetas por celda (para matrices pequeñas, `heatmap`).

    Args:
        matrix: (filas, columnas), por ejemplo (n, d_model) vectores de posición.
        xlabel: qué son las columnas.
        ylabel: qué son las filas.
        title: título.
        signed: escala naranja–blanco–azul centrada en 0.
        limits: (mínimo, máximo) de la escala; por defecto, los de la matriz (simétricos si `signed`).
        marks: texto → (columna, fila) donde escribirlo, sobre fondo blanco.

    Returns:
        `Figure` con la escala a la derecha.

    Raises:
        ValueError: si `matrix` está vacía o no es una matriz de números finitos.
    """
    matrix = _array(matrix, "matrix", 2)
    if matrix.size == 0:
        raise ValueError(f"«matrix» está vacía: forma {matrix.shape}.")
    if limits is None:
        bound = float(np.abs(matrix).max()) or 1.0
        limits = (-bound, bound) if signed else (float(matrix.min()), float(matrix.max()))
    rows, columns = matrix.shape
    figure = new_figure(WIDTH, float(np.clip((WIDTH - 1.4) * rows / columns, 1.8, 3.6)) + 0.7 + (0.3 if title else 0))
    axes = figure.add_subplot()
    image = axes.imshow(
        matrix, cmap=SIGNED_CMAP if signed else WEIGHT_CMAP, norm=Normalize(*limits), aspect="auto",
        interpolation="nearest",
    )  # fmt: skip
    axes.set_xlabel(xlabel)
    axes.set_ylabel(ylabel)
    for axis in (axes.xaxis, axes.yaxis):
        axis.get_major_locator().set_params(integer=True)
    for text, (column, row) in (marks or {}).items():
        axes.text(
            column, row, text, ha="center", va="center", fontsize=10,
            bbox={"facecolor": PAPER, "edgecolor": GRID, "boxstyle": "round,pad=0.25"},
        )  # fmt: skip
    bar = figure.colorbar(image, ax=axes, fraction=0.045, pad=0.03)
    bar.ax.yaxis.set_major_formatter(CommaFormatter(useMathText=True))
    bar.outline.set_visible(False)
    if title:
        axes.set_title(title, wrap=True)
    return figure


@with_style
def paired_dots(
    labels: Sequence[str],
    first,
    second,
    *,
    names: tuple[str, str],
    xlabel: str,
    title: str | None = None,
    references: Mapping[str, float] | None = None,
) -> Figure:
    """Dos medidas de cada caso, unidas por una línea: se ve si la diferencia va siempre hacia el mismo lado.

    Args:
        labels: n textos.
        first: (n,) primera medida (círculo).
        second: (n,) segunda medida (cuadrado).
        names: nombre de cada medida, para la leyenda.
        xlabel: qué se mide, con su unidad.
        title: título.
        references: nombre → valor de una línea vertical de referencia.

    Returns:
        `Figure`.

    Raises:
        ValueError: si las dos medidas y las etiquetas no casan.
    """
    first, second = _array(first, "first", 1), _array(second, "second", 1)
    if first.shape != second.shape:
        raise ValueError(f"«first» tiene {len(first)} valores y «second» {len(second)}: deben ser parejas.")
    labels = _labels(labels, len(first), "labels")
    figure = new_figure(WIDTH, 0.34 * len(first) + 1.25 + (0.3 if title else 0))
    axes = figure.add_subplot()
    places = np.arange(len(first))
    axes.hlines(places, first, second, color=GRID, linewidth=3, zorder=1)
    axes.plot(first, places, "o", color=ACCENT, markersize=8, label=names[0], zorder=3)
    axes.plot(second, places, "s", color=ACCENT_2, markersize=7.5, label=names[1], zorder=3)
    for name, value in (references or {}).items():
        axes.axvline(value, color=MUTED, linewidth=1.4, linestyle=(0, (4, 3)), label=name, zorder=0)
    axes.set_yticks(places, labels)
    axes.invert_yaxis()
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(xlabel)
    axes.grid(axis="x")
    axes.set_axisbelow(True)
    decimal_comma(axes)
    if title:
        axes.set_title(title, wrap=True)
    figure.legend(loc="outside lower center", ncols=2)
    return figure


@with_style
def transformer_map(n_layers: int = 6) -> Figure:
    """Mapa de un transformer: de los tokens a la salida, con el flujo residual y lo que lee y escribe en él.

    Se lee de abajo arriba. Dibuja un bloque «Pre-LN» (la normalización, antes de cada pieza) con la atención resaltada.

    Args:
        n_layers: cuántas veces dice el dibujo que se repite el bloque.

    Returns:
        `Figure`.

    Raises:
        ValueError: si `n_layers` no es un entero positivo.
    """
    if not isinstance(n_layers, int) or n_layers < 1:
        raise ValueError(f"«n_layers» debe ser un entero positivo; llegó {n_layers!r}.")
    height = 6.4
    figure = new_figure(WIDTH, height, layout="none")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(0, WIDTH)
    axes.set_ylim(0, height)
    stream, pale, grey = 1.15, "#e6f0f6", "#f1f3f5"

    def box(x, y, width, tall, text, face=grey, ink=INK, weight="normal", size=10.5):
        shape = "round,pad=0,rounding_size=0.07"
        axes.add_patch(
            FancyBboxPatch((x, y - tall / 2), width, tall, shape, facecolor=face, edgecolor=INK, linewidth=1, zorder=3)
        )
        axes.text(x + width / 2, y, text, ha="center", va="center", color=ink, weight=weight, fontsize=size, zorder=4)

    def arrow(*points, color=INK, width=1.5):
        axes.plot(*np.transpose(points[:-1]), color=color, linewidth=width, solid_capstyle="round", zorder=2)
        style = {"arrowstyle": "-|>", "mutation_scale": 12, "shrinkA": 0, "shrinkB": 0}
        axes.add_patch(FancyArrowPatch(*points[-2:], linewidth=width, color=color, zorder=2, **style))

    # El bloque que se repite y el flujo residual que lo atraviesa.
    edge = {"edgecolor": MUTED, "linestyle": (0, (4, 3)), "linewidth": 1.1}
    shape = "round,pad=0,rounding_size=0.12"
    axes.add_patch(FancyBboxPatch((0.42, 1.36), 4.26, 3.08, shape, facecolor="#fafbfc", zorder=0, **edge))
    axes.text(4.58, 4.27, f"bloque × {n_layers}", ha="right", va="center", fontsize=10, color=MUTED)
    axes.add_patch(Rectangle((stream - 0.1, 1.2), 0.2, 3.62, facecolor=pale, edgecolor=ACCENT, linewidth=1, zorder=1))
    axes.text(0.66, 2.98, "flujo residual", rotation=90, ha="center", va="center", color=ACCENT, fontsize=10.5)
    axes.text(0.86, 2.98, "(n, d_model)", rotation=90, ha="center", va="center", color=MUTED, fontsize=9.5)

    for low, label, note, face, ink in (
        (1.78, "Atención multicabeza", "mezcla posiciones", ACCENT, PAPER),
        (3.14, "Red feed-forward", "cada posición, aparte", "#dfe4e8", INK),
    ):
        axes.plot(stream, low, "o", color=ACCENT, markersize=6, zorder=4)
        arrow((stream, low), (1.55, low))
        box(1.55, low, 0.98, 0.34, "LayerNorm", size=10)
        arrow((2.53, low), (3.35, low), (3.35, low + 0.3))
        box(2.1, low + 0.51, 2.45, 0.42, label, face, ink, "bold", 11)
        axes.text(4.55, low - 0.2, note, ha="right", va="center", fontsize=10, color=MUTED)
        arrow((2.1, low + 0.51), (stream + 0.17, low + 0.51))
        axes.plot(stream, low + 0.51, "o", color=PAPER, markeredgecolor=INK, markersize=15, zorder=4)
        axes.text(stream, low + 0.5, "+", ha="center", va="center", fontsize=13, fontweight="bold", zorder=5)

    # Entrada y salida.
    box(0.42, 0.95, 2.5, 0.4, "Embedding + posición", pale)
    axes.text(3.02, 0.95, "ids (n) → (n, d_model)", ha="left", va="center", fontsize=10, color=MUTED)
    arrow((stream, 0.5), (stream, 0.75))
    axes.text(0.42, 0.3, "the   cat   sat   on   the   mat", ha="left", va="center", fontsize=11, fontstyle="italic")
    arrow((stream, 4.82), (stream, 5.08))
    box(0.42, 5.28, 2.5, 0.4, "LayerNorm, matriz de salida", pale)
    axes.text(3.02, 5.28, "logits (n, vocabulario)", ha="left", va="center", fontsize=10, color=MUTED)
    arrow((stream, 5.48), (stream, 5.68))
    box(0.42, 5.88, 2.5, 0.4, "softmax", pale)
    axes.text(3.02, 5.88, "el token que sigue", ha="left", va="center", fontsize=10, color=MUTED)
    return figure


@with_style
def attention_plane(query, keys, values, weights, *, names: Sequence[str] | None = None) -> Figure:
    """Una consulta del plano, con lo que puntúa, lo que pesa y la salida que resulta.

    Arriba, a la izquierda la consulta y las claves; a la derecha los valores y la salida, que es su media ponderada y
    por eso no sale del polígono que forman. Abajo, una barra por clave con su peso y, al lado, su puntuación q·k.

    Args:
        query: (2,) la consulta.
        keys: (n_k, 2) las claves, hasta seis.
        values: (n_k, 2) los valores.
        weights: (n_k,) los pesos; suman 1.
        names: n_k nombres cortos; por defecto 1, 2, 3…

    Returns:
        `Figure` con los ejes siempre en los mismos límites.

    Raises:
        ValueError: si las formas no casan o los pesos no suman 1.
    """
    query, weights = _array(query, "query", 1), _array(weights, "weights", 1)
    keys, values = _array(keys, "keys", 2), _array(values, "values", 2)
    n_k = len(weights)
    if query.shape != (2,) or keys.shape != (n_k, 2) or values.shape != (n_k, 2) or not 1 <= n_k <= 6:
        raise ValueError(
            f"Se esperaban query (2,), keys y values (n_k, 2) y weights (n_k,), con n_k de 1 a 6; llegaron "
            f"{query.shape}, {keys.shape}, {values.shape} y {weights.shape}."
        )
    if abs(float(weights.sum()) - 1) > 1e-4 or (weights < 0).any():
        raise ValueError("Los pesos deben ser no negativos y sumar 1: ¿son puntuaciones sin softmax?")
    names = _labels(names, n_k, "names") if names is not None else [str(i + 1) for i in range(n_k)]
    figure = new_figure(WIDTH, 4.6)
    top, bottom = figure.subfigures(2, 1, height_ratios=(2.7, 0.5 + 0.42 * n_k))
    planes = top.subplots(1, 2)
    limit = 1.3 * max(1.0, float(np.abs(keys).max()), float(np.abs(values).max()))
    arrow = {"arrowstyle": "-|>", "mutation_scale": 13, "shrinkA": 0, "shrinkB": 0}
    for axes, title in zip(planes, ("consulta y claves", "valores y salida"), strict=True):
        axes.set_aspect("equal")
        axes.set(xlim=(-limit, limit), ylim=(-limit, limit), xticks=[], yticks=[])
        axes.axhline(0, color=GRID, linewidth=1, zorder=0)
        axes.axvline(0, color=GRID, linewidth=1, zorder=0)
        axes.spines[:].set_visible(True)
        axes.spines[:].set_color(GRID)
        axes.set_xlabel(title)
    for i, (key, value, name) in enumerate(zip(keys, values, names, strict=True)):
        color = HEAD_COLORS[i]
        planes[0].add_patch(FancyArrowPatch((0, 0), tuple(key), color=color, linewidth=2.2, **arrow))
        planes[0].text(*(1.16 * key), name, color=text_color(color), weight="bold", ha="center", va="center")
        planes[1].plot(*value, "o", color=color, markersize=8, zorder=3)
        planes[1].text(*(1.2 * value), name, color=text_color(color), weight="bold", ha="center", va="center")
    shown = query / max(1.0, float(np.hypot(*query)) / (0.98 * limit))  # una consulta larga se dibuja hasta el borde
    planes[0].add_patch(FancyArrowPatch((0, 0), tuple(shown), color=INK, linewidth=3, zorder=4, **arrow))
    order = np.argsort(np.arctan2(*(values - values.mean(0)).T))
    planes[1].fill(*values[order].T, facecolor=GRID, alpha=0.45, zorder=0)
    planes[1].plot(*(weights @ values), "*", color=INK, markersize=16, zorder=5)
    axes = bottom.subplots()
    axes.barh(range(n_k), weights, color=HEAD_COLORS[:n_k], height=0.6)
    for i, (score, weight) in enumerate(zip(keys @ query, weights, strict=True)):
        axes.text(weight + 0.02, i, spanish_number(float(weight)), va="center")
        axes.text(1.36, i, spanish_number(float(score)), va="center", ha="right", color=MUTED)
    axes.text(1.36, -0.85, "q·k", va="center", ha="right", color=MUTED)
    axes.set_yticks(range(n_k), names)
    axes.set(xlim=(0, 1.38), ylim=(n_k - 0.5, -1.2), xlabel="peso de cada clave", xticks=(0, 0.25, 0.5, 0.75, 1))
    axes.spines["bottom"].set_bounds(0, 1)
    axes.grid(False)
    decimal_comma(axes)
    return figure


# --- Cómo se divide una capa en cabezas ------------------------------------------------------------------------------


def _tint(color, strength: float = 0.3) -> tuple[float, float, float]:
    """El color, aclarado hacia el blanco: fondo sobre el que se lee un número."""
    return tuple(1 - strength * (1 - np.array(to_rgb(color))))


def _canvas(height: float) -> tuple[Figure, Axes]:
    """Una figura sin ejes en la que se dibuja en pulgadas, con el origen arriba a la izquierda."""
    figure = new_figure(WIDTH, height, layout="none")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set(xlim=(0, WIDTH), ylim=(height, 0))
    return figure, axes


def _cells(axes: Axes, left: float, top: float, faces, size: tuple[float, float], texts=None, **text) -> None:
    """Una cuadrícula de celdas de `size` pulgadas; `faces` es una matriz de colores (None = hueco)."""
    width, height = size
    for i, row in enumerate(faces):
        for j, face in enumerate(row):
            x, y = left + j * width, top + i * height
            shape = {"facecolor": face or PAPER, "edgecolor": PAPER if face else GRID, "linewidth": 0.9}
            axes.add_patch(Rectangle((x, y), width, height, zorder=2 if face else 1, antialiased=False, **shape))
            if texts is not None and texts[i][j]:
                ink = _ink_over(to_rgb(face)) if face else MUTED
                place = {"ha": "center", "va": "center", "zorder": 4}
                axes.text(x + width / 2, y + height / 2, texts[i][j], color=ink, **place, **{"fontsize": 10, **text})


def _arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], color=MUTED, width: float = 1.4) -> None:
    style = {"arrowstyle": "-|>", "mutation_scale": 11, "shrinkA": 0, "shrinkB": 0}
    axes.add_patch(FancyArrowPatch(start, end, color=color, linewidth=width, zorder=3, **style))


@with_style
def head_split(d_model: int, num_heads: int, *, n: int = 4, sliced: bool = False) -> Figure:
    """De x a la salida: qué columnas de W^Q y qué filas de W^O son de cada cabeza, y qué parte de x lee.

    Se lee de arriba abajo. Cada cabeza lleva su color. Un token (una fila) va resaltado, para seguirlo.

    Args:
        d_model: anchura del flujo residual; hasta 12.
        num_heads: número de cabezas h; divide a d_model.
        n: tokens.
        sliced: en vez de proyectar y dividir, trocea x y proyecta cada trozo (W^Q diagonal por bloques).

    Returns:
        `Figure`, del mismo tamaño para cualquier h.

    Raises:
        ValueError: si h no divide a d_model o no cabe.
    """
    if not 1 <= d_model <= 12 or num_heads < 1 or d_model % num_heads or not 1 <= n <= 6:
        raise ValueError(
            f"Se esperaba d_model hasta 12, h que lo divida y n hasta 6; llegaron d_model = {d_model}, h = {num_heads} "
            f"y n = {n}."
        )
    left, gap = 0.12, 0.3
    side = (WIDTH - 2 * left - 2 * gap) / 3
    cell, head_dim, chosen = side / d_model, d_model // num_heads, n // 2
    colors = [HEAD_COLORS[j // head_dim % len(HEAD_COLORS)] for j in range(d_model)]
    grey = [MUTED] * d_model
    figure, axes = _canvas(5.75)

    def label(x, y, text, color=INK, **font):
        axes.text(x, y, text, ha="center", va="center", color=color, **{"fontsize": 10, **font})

    def product(top, names, shapes, first, matrix, last):
        """Una línea de tres matrices: (n × ·) × (· × ·) = (n × ·), con la fila elegida intensa y recuadrada."""
        tall = top + (side - n * cell) / 2
        for k, (name, shape) in enumerate(zip(names, shapes, strict=True)):
            x = left + k * (side + gap)
            label(x + side / 2, top - 0.42, name, fontsize=12, weight="bold")
            label(x + side / 2, top - 0.17, shape, MUTED)
            row = (first, None, last)[k]
            if row is None:
                _cells(axes, x, top, matrix, (cell, cell))
                continue
            faces = [[color if i == chosen else _tint(color, 0.4) for color in row] for i in range(n)]
            _cells(axes, x, tall, faces, (cell, cell))
            edge = {"fill": False, "edgecolor": INK, "linewidth": 1.8, "zorder": 5}
            axes.add_patch(Rectangle((x, tall + chosen * cell), side, cell, **edge))
        for k, sign in enumerate("×="):
            label(left + (k + 1) * (side + gap) - gap / 2, top + side / 2, sign, fontsize=13)

    # 1. Proyectar. Las columnas de W^Q son de las cabezas; si se trocea, cada una solo tiene su bloque.
    blocks = [
        [colors[j] if not sliced or i // head_dim == j // head_dim else None for j in range(d_model)]
        for i in range(d_model)
    ]
    top = 0.6
    shapes = ("n × d_model", "d_model × h·$d_k$", "n × h·$d_k$")
    product(top, ("x", "$W^Q$", "Q"), shapes, colors if sliced else grey, blocks, colors)
    note = "cada columna lee solo su trozo de x" if sliced else "cada columna lee la fila entera de x"
    label(WIDTH / 2, top + side + 0.17, f"{note}; igual con $W^K$ y $W^V$", MUTED)

    # 2. Dividir: una atención por cabeza.
    space, tall, boxes = 0.08, 0.72, top + side + 0.5
    wide = (WIDTH - 2 * left - (num_heads - 1) * space) / num_heads
    mini = min(cell, 0.1)
    for i in range(num_heads):
        x, color = left + i * (wide + space), HEAD_COLORS[i % len(HEAD_COLORS)]
        edge = {"facecolor": PAPER, "edgecolor": color, "linewidth": 1.5, "zorder": 1}
        axes.add_patch(FancyBboxPatch((x, boxes), wide, tall, "round,pad=0,rounding_size=0.06", **edge))
        name = f"cabeza {i}" if wide > 0.9 else str(i)
        label(x + wide / 2, boxes + 0.15, name, text_color(color), weight="bold")
        faces = [[color if r == chosen else _tint(color, 0.4)] * head_dim for r in range(n)]
        _cells(axes, x + (wide - head_dim * mini) / 2, boxes + 0.27, faces, (mini, mini))
        for y in (boxes - 0.2, boxes + tall + 0.02):
            _arrow(axes, (x + wide / 2, y), (x + wide / 2, y + 0.19), color)
    count = "una atención" if num_heads == 1 else f"{num_heads} atenciones, cada una"
    text = f"h = {num_heads}: {count} de n × $d_k$, con $d_k$ = {d_model}/{num_heads} = {head_dim}"
    label(WIDTH / 2, boxes + tall + 0.35, text, MUTED)

    # 3. Concatenar y multiplicar por W^O, cuyas filas son de las cabezas.
    top = boxes + tall + 1.15
    shapes = ("n × h·$d_k$", "h·$d_k$ × d_model", "n × d_model")
    product(top, ("Concat", "$W^O$", "salida"), shapes, colors, [[color] * d_model for color in colors], grey)
    return figure


# Los pasos de `layer_step`: nombre corto y título.
LAYER_STEPS = (
    ("x", "El flujo residual"),
    ("proyectar", "Proyectar: Q, K y V"),
    ("dividir", "Dividir en cabezas"),
    ("puntuar", r"Puntuar: $QK^\top/\sqrt{d_k}$"),
    ("máscara", "Máscara causal"),
    ("softmax", "Softmax, por filas"),
    ("A·V", "Promediar los valores: A·V"),
    ("concatenar", "Concatenar"),
    ("W^O", "Multiplicar por $W^O$"),
    ("+ x", "Sumar al flujo residual"),
)


@with_style
def layer_step(step: int, trace: Mapping[str, object], tokens: Sequence[str], *, note: str = "") -> Figure:
    """Un paso de una capa de atención con dos cabezas, con todos sus números y sus formas.

    Args:
        step: qué paso, desde 0 (`LAYER_STEPS` los nombra).
        trace: los tensores de la capa: x (n, d_model), w_q, w_k, w_v, w_o (d_model, d_model), query, key, value, heads
            (2, n, d_k), scores y weights (2, n, n), mask (n, n), concat y output (n, d_model). Con n y d_model hasta 4.
        tokens: n textos; la fila del último va recuadrada.
        note: una o dos líneas que dicen qué mirar.

    Returns:
        `Figure`, del mismo tamaño en todos los pasos.

    Raises:
        ValueError: si el paso no existe o falta algún tensor.
    """
    needed = "x w_q w_k w_v query key value scores mask weights heads concat w_o output".split()
    if missing := [name for name in needed if name not in trace]:
        raise ValueError(f"En «trace» falta {', '.join(missing)}.")
    if not 0 <= step < len(LAYER_STEPS):
        raise ValueError(f"«step» va de 0 a {len(LAYER_STEPS) - 1}; llegó {step}.")
    data = {name: _array(trace[name], name) for name in needed}
    n, d_model = data["x"].shape
    head_dim = data["query"].shape[-1]
    if data["query"].shape != (2, n, d_model // 2) or n > 4 or d_model > 4 or len(tokens) != n:
        raise ValueError(
            "La figura es para dos cabezas, hasta 4 tokens y d_model hasta 4; llegaron query "
            f"{data['query'].shape}, x {data['x'].shape} y {len(tokens)} tokens."
        )
    tokens = _labels(tokens, n, "tokens")
    figure, axes = _canvas(4.75)
    row, label_room = 0.27, 0.46  # alto de una fila; sitio de los nombres de los tokens
    owner = [HEAD_COLORS[j // head_dim] for j in range(d_model)]
    grey = "#9aa5ae"

    def text(x, y, words, color=INK, ha="center", **font):
        axes.text(x, y, words, ha=ha, va="center", color=color, **{"fontsize": 10, **font})

    def matrix(x, y, values, name, cell, *, columns=None, rows=None, colors=grey, shaded=False, hidden=None, mark=True):
        """Una matriz con su nombre encima; devuelve dónde acaba. `colors`: uno, o uno por columna o por fila."""
        values = np.asarray(values)
        digits = 0 if np.allclose(values, values.round()) else 2
        height, width = values.shape
        text(x + width * cell / 2, y - (0.33 if columns else 0.15), name, fontsize=10.5, weight="bold")
        for j, word in enumerate(columns or ()):
            text(x + (j + 0.5) * cell, y - 0.12, word, MUTED, fontsize=9 if cell < 0.5 else 10)
        for i, word in enumerate(rows or ()):
            last = i == height - 1
            text(
                x - 0.07,
                y + (i + 0.5) * row,
                word,
                INK if last else MUTED,
                "right",
                weight="bold" if last else "normal",
            )
        for (i, j), value in np.ndenumerate(values):
            color = colors if isinstance(colors, str) else colors[i][j]
            place = (x + j * cell, y + i * row)
            if hidden is not None and not hidden[i, j]:
                style = {"facecolor": "#f1f3f5", "edgecolor": "#d5dbe0", "hatch": "////", "linewidth": 0}
                axes.add_patch(Rectangle(place, cell, row, zorder=2, **style))
                axes.text(
                    place[0] + cell / 2, place[1] + row / 2, "−∞" if not shaded else "0", ha="center", va="center",
                    fontsize=10, color=MUTED, zorder=4,
                    bbox={"facecolor": "#f1f3f5", "edgecolor": "none", "pad": 0.8},
                )  # fmt: skip
                continue
            face = _tint(color, 0.08 + 0.92 * min(value, 1) if shaded else 0.26)
            axes.add_patch(Rectangle(place, cell, row, facecolor=face, edgecolor=PAPER, linewidth=1, zorder=2))
            number = spanish_number(float(value), digits)
            axes.text(
                place[0] + cell / 2, place[1] + row / 2, number, ha="center", va="center", fontsize=10,
                color=_ink_over(face), zorder=4,
            )  # fmt: skip
        if mark and height == n:
            edge = {"fill": False, "edgecolor": INK, "linewidth": 1.5, "zorder": 5}
            axes.add_patch(Rectangle((x, y + (n - 1) * row), width * cell, row, **edge))
        return x + width * cell

    def sign(x, y, symbol):
        text(x, y + n * row / 2, symbol, fontsize=12)

    by_column = [owner] * n
    by_row = [[color] * d_model for color in owner]
    heads = HEAD_COLORS[:2]
    full = {name: np.concatenate(list(data[name]), -1) for name in ("query", "key", "value")}
    x = data["x"]
    left, top, low = label_room, 1.32, 2.95  # dos filas de matrices

    # Por dónde vamos, el título y la forma de lo que sale.
    places = np.linspace(0.22, WIDTH - 0.22, len(LAYER_STEPS))
    axes.plot(places, [0.17] * len(places), color=GRID, linewidth=2, zorder=1)
    for i, place in enumerate(places):
        face = ACCENT if i == step else INK if i < step else PAPER
        axes.plot(
            place,
            0.17,
            "o",
            color=face,
            markeredgecolor=ACCENT if i == step else INK,
            markersize=11 if i == step else 7,
        )
    shapes = (
        f"(n, d_model) = ({n}, {d_model})",
        f"Q, K y V: (n, h·$d_k$) = ({n}, {d_model})",
        f"(h, n, $d_k$) = (2, {n}, {head_dim})",
        *[f"(h, n, n) = (2, {n}, {n})"] * 3,
        f"(h, n, $d_k$) = (2, {n}, {head_dim})",
        f"(n, h·$d_k$) = ({n}, {d_model})",
        *[f"(n, d_model) = ({n}, {d_model})"] * 2,
    )
    text(0.12, 0.47, f"{step} · {LAYER_STEPS[step][1]}", ha="left", fontsize=12, weight="bold")
    text(0.12, 0.73, shapes[step], MUTED, "left")
    text(0.12, 4.42, textwrap.fill(note, 62), ha="left", linespacing=1.35)

    def pair(y, values, names, **options):
        """Las dos cabezas, una al lado de la otra."""
        cell = 0.46
        end = matrix(left, y, values[0], names[0], cell, rows=tokens, columns=tokens, colors=heads[0], **options)
        matrix(end + 0.36, y, values[1], names[1], cell, columns=tokens, colors=heads[1], **options)

    s_names = [rf"$Q_{i}K_{i}^\top/\sqrt{{{head_dim}}}$" for i in range(2)]
    if step == 0:
        matrix(0.95, 1.85, x, "x", 0.72, rows=tokens, columns=("animado", "nombre", "acción", "función")[:d_model])
    elif step == 1:
        end = matrix(left, top, x, "x", 0.29, rows=tokens)
        sign(end + 0.15, top, "×")
        end = matrix(end + 0.3, top, data["w_q"], "$W^Q$", 0.31, colors=by_column, mark=False)
        sign(end + 0.15, top, "=")
        matrix(end + 0.3, top, full["query"], "Q", 0.31, colors=by_column)
        end = matrix(left, low, full["key"], "K = x·$W^K$", 0.4, rows=tokens, colors=by_column)
        matrix(end + 0.5, low, full["value"], "V = x·$W^V$", 0.4, colors=by_column)
    elif step == 2:
        for i, y in enumerate((top, low)):
            end = left
            for k, name in enumerate(("query", "key", "value")):
                title = f"${'QKV'[k]}_{i}$"
                end = matrix(end, y, data[name][i], title, 0.42, rows=tokens if k == 0 else None, colors=heads[i])
                end += 0.5
    elif step == 3:
        for i, y in enumerate((top + 0.03, low + 0.1)):
            end = matrix(left, y, data["query"][i], f"$Q_{i}$", 0.29, rows=tokens, colors=heads[i])
            sign(end + 0.12, y, "×")
            shift = (n - head_dim) * row / 2
            end = matrix(
                end + 0.24,
                y + shift,
                data["key"][i].T,
                rf"$K_{i}^\top$",
                0.34,
                columns=tokens,
                colors=heads[i],
                mark=False,
            )
            sign(end + 0.12, y, "→")
            matrix(end + 0.24, y, data["scores"][i], s_names[i], 0.46, columns=tokens, colors=heads[i])
    elif step == 4:
        pair(top, data["scores"], s_names)
        pair(low + 0.1, data["scores"], ["con máscara"] * 2, hidden=data["mask"])
    elif step == 5:
        pair(top, data["scores"], ["con máscara"] * 2, hidden=data["mask"])
        pair(low + 0.1, data["weights"], ("$A_0$: pesos", "$A_1$: pesos"), shaded=True, hidden=data["mask"])
    elif step == 6:
        for i, y in enumerate((top, low + 0.1)):
            end = matrix(
                left, y, data["weights"][i], f"$A_{i}$", 0.43, rows=tokens, columns=tokens, colors=heads[i], shaded=True
            )
            sign(end + 0.15, y, "×")
            end = matrix(end + 0.3, y, data["value"][i], f"$V_{i}$", 0.32, colors=heads[i], mark=False)
            sign(end + 0.15, y, "=")
            matrix(end + 0.3, y, data["heads"][i], f"cabeza$_{i}$", 0.44, colors=heads[i])
    elif step == 7:
        end = matrix(left + 0.5, top, data["heads"][0], "cabeza$_0$", 0.48, rows=tokens, colors=heads[0])
        matrix(end + 0.7, top, data["heads"][1], "cabeza$_1$", 0.48, colors=heads[1])
        matrix(left + 0.85, low, data["concat"], "Concat", 0.48, rows=tokens, colors=by_column)
    elif step == 8:
        end = matrix(left, top, data["concat"], "Concat", 0.46, rows=tokens, colors=by_column)
        sign(end + 0.2, top, "×")
        matrix(end + 0.4, top, data["w_o"], "$W^O$", 0.36, colors=by_row, mark=False)
        matrix(left + 0.85, low, data["output"], "= salida", 0.54, rows=tokens)
    else:
        end = matrix(left, top, x, "x", 0.36, rows=tokens)
        sign(end + 0.2, top, "+")
        matrix(end + 0.4, top, data["output"], "salida", 0.54)
        matrix(left + 0.85, low, x + data["output"], "= x nuevo", 0.54, rows=tokens)
    return figure


@with_style
def contributions(
    parts: Mapping[str, object],
    components: Sequence[str],
    *,
    xlabel: str,
    colors: Mapping[str, str] | None = None,
    limits: tuple[float, float] | None = None,
) -> Figure:
    """Una suma, componente a componente: lo que pone cada parte, apilado, y el total.

    Lo positivo se apila hacia la derecha del cero y lo negativo hacia la izquierda; el rombo es la suma.

    Args:
        parts: nombre → (d,) lo que suma cada parte (lo que había, la cabeza 0, la cabeza 1…).
        components: d nombres.
        xlabel: qué se suma.
        colors: nombre → color; por defecto `HEAD_COLORS` en orden.
        limits: (mínimo, máximo) del eje; fíjalo si la figura se mueve.

    Returns:
        `Figure`.

    Raises:
        ValueError: si no hay partes o alguna no tiene tantos números como componentes.
    """
    if not parts:
        raise ValueError("«parts» está vacío: hace falta al menos una parte.")
    components = _labels(components, len(components), "components")
    arrays = {name: _array(part, f"parts[{name!r}]", 1) for name, part in parts.items()}
    for name, part in arrays.items():
        if len(part) != len(components):
            raise ValueError(f"La parte «{name}» tiene {len(part)} números y hay {len(components)} componentes.")
    figure = new_figure(WIDTH, 0.46 * len(components) + 1.15)
    axes = figure.add_subplot()
    places = np.arange(len(components))
    ends = {1: np.zeros(len(components)), -1: np.zeros(len(components))}  # hasta dónde llega la pila de cada signo
    total = np.sum(list(arrays.values()), axis=0)
    span = np.subtract(*limits[::-1]) if limits else max(np.abs(list(arrays.values())).sum(0).max(), 1e-9)
    for k, (name, part) in enumerate(arrays.items()):
        color = (colors or {}).get(name, HEAD_COLORS[k % len(HEAD_COLORS)])
        start = np.where(part >= 0, ends[1], ends[-1])
        axes.barh(places, part, left=start, height=0.6, color=color, edgecolor=PAPER, linewidth=1.2, label=name)
        for place, value, at in zip(places, part, start, strict=True):
            if abs(value) > 0.11 * span:  # el número, si cabe dentro
                ink = {"color": _ink_over(to_rgb(color)), "fontsize": 10, "ha": "center", "va": "center"}
                axes.text(at + value / 2, place, spanish_number(value), **ink)
        for sign, end in ends.items():
            end += np.where(np.sign(part) == sign, part, 0)
    diamond = {"color": PAPER, "markeredgecolor": INK, "markeredgewidth": 1.8, "markersize": 8, "linestyle": "none"}
    axes.plot(total, places, "D", **diamond, label="suma", clip_on=False, zorder=4)
    axes.margins(x=0.04)
    axes.axvline(0, color=INK, linewidth=0.9)
    axes.set_yticks(places, components)
    axes.set_ylim(len(components) - 0.45, -0.55)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_xlabel(xlabel)
    axes.grid(axis="x")
    axes.set_axisbelow(True)
    if limits is not None:
        axes.set_xlim(*limits)
    decimal_comma(axes)
    figure.legend(loc="outside lower center", ncols=4, handlelength=1.2, columnspacing=1.2)
    return figure


@with_style
def head_entries(splits: Mapping[str, object], tokens: Sequence[str]) -> Figure:
    """De qué token y de qué columna viene cada número que recibe cada cabeza.

    El color es el de la cabeza a la que pertenece esa columna; si la división está bien, cada cabeza es de su color y
    cada fila, de un token.

    Args:
        splits: título → (h, n, d_k) enteros: el lugar de cada entrada en la matriz (n, h·d_k) leída por filas; es lo
            que devuelve la división al aplicarla a `arange(n·h·d_k)`.
        tokens: n textos.

    Returns:
        `Figure`: una fila de matrices por división, una matriz por cabeza.

    Raises:
        ValueError: si una división no es (h, n, d_k) o las cabezas no caben (h·d_k hasta 6).
    """
    tokens = _labels(tokens, len(tokens), "tokens")
    arrays = {title: _array(split, f"splits[{title!r}]") for title, split in splits.items()}
    for title, array in arrays.items():
        if array.ndim != 3 or array.shape[1] != len(tokens) or array.shape[0] * array.shape[2] > 6:
            raise ValueError(
                f"«{title}» debe ser (h, {len(tokens)}, d_k), con h·d_k hasta 6; llegó con forma {array.shape}."
            )
    row, block = 0.29, 0.29 * len(tokens) + 0.98
    figure, axes = _canvas(block * len(arrays) + 0.1)
    for k, (title, array) in enumerate(arrays.items()):
        num_heads, n, head_dim = array.shape
        left, gap, top = 0.78, 0.3, k * block + 0.78
        cell = (WIDTH - left - 0.12 - gap * (num_heads - 1)) / (num_heads * head_dim)
        axes.text(0.12, top - 0.55, title, ha="left", va="center", fontsize=11.5, weight="bold")
        for i in range(n):
            axes.text(
                left - 0.08, top + (i + 0.5) * row, f"fila {i}", ha="right", va="center", fontsize=10, color=MUTED
            )
        for head in range(num_heads):
            x = left + head * (head_dim * cell + gap)
            color = HEAD_COLORS[head % len(HEAD_COLORS)]
            font = {"ha": "center", "va": "center", "fontsize": 10.5, "weight": "bold", "color": text_color(color)}
            axes.text(x + head_dim * cell / 2, top - 0.17, f"cabeza {head}", **font)
            token, column = np.divmod(array[head].astype(int), num_heads * head_dim)
            faces = [[_tint(HEAD_COLORS[c // head_dim], 0.3) for c in line] for line in column]
            words = [
                [f"{tokens[t]} · {c}" for t, c in zip(*line, strict=True)] for line in zip(token, column, strict=True)
            ]
            _cells(axes, x, top, faces, (cell, row), words)
    return figure


@with_style
def convex_pair(
    values,
    weights,
    *,
    start=None,
    limit: float = 1.6,
    title: str | None = None,
) -> Figure:
    """Dos valores en el plano y lo que cada cabeza hace con ellos: un punto del segmento que los une.

    Args:
        values: (2, 2) los dos valores.
        weights: (h, 2) los pesos de cada cabeza para una misma consulta; cada fila suma 1.
        start: (2, 2) otra pareja de valores con la que comparar; se dibuja hueca, con sus mezclas.
        limit: los ejes van de −limit a limit.
        title: título.

    Returns:
        `Figure`: la mezcla de la cabeza i es una estrella de color `HEAD_COLORS[i]`.

    Raises:
        ValueError: si las formas no casan o los pesos de una cabeza no suman 1.
    """
    values, weights = _array(values, "values", 2), _array(weights, "weights", 2)
    start = None if start is None else _array(start, "start", 2)
    if values.shape != (2, 2) or weights.shape[1:] != (2,) or (start is not None and start.shape != (2, 2)):
        raise ValueError(f"Se esperaban values (2, 2) y weights (h, 2); llegaron {values.shape} y {weights.shape}.")
    if (weights < 0).any() or np.abs(weights.sum(1) - 1).max() > 1e-4:
        raise ValueError("Los pesos de cada cabeza deben ser no negativos y sumar 1: ¿son puntuaciones sin softmax?")
    figure = new_figure(WIDTH, 3.9)
    axes = figure.add_subplot()
    axes.set_aspect("equal")
    axes.set(xlim=(-limit, limit), ylim=(-0.75 * limit, 0.75 * limit), xticks=[], yticks=[])
    axes.axhline(0, color=GRID, linewidth=1, zorder=0)
    axes.axvline(0, color=GRID, linewidth=1, zorder=0)
    axes.spines[:].set_visible(True)
    axes.spines[:].set_color(GRID)
    for pair, filled in ((start, False), (values, True)):
        if pair is None:
            continue
        axes.plot(*pair.T, color=INK if filled else MUTED, linewidth=1.6 if filled else 1, zorder=1,
                  linestyle="-" if filled else (0, (4, 3)))  # fmt: skip
        axes.plot(*pair.T, "o", markersize=10, color=INK, markerfacecolor=INK if filled else PAPER, zorder=3,
                  linestyle="none", label="los valores" if filled else "la pareja de partida")  # fmt: skip
        for i, mixture in enumerate(weights @ pair):
            color = HEAD_COLORS[i % len(HEAD_COLORS)]
            axes.plot(*mixture, "*", markersize=17 if filled else 23, color=color, zorder=5 if filled else 4,
                      markerfacecolor=color if filled else PAPER, linestyle="none",
                      label=f"lo que da la cabeza {i}" if filled else None)  # fmt: skip
    if start is None or not np.allclose(values, start):
        for value, mark in zip(values, "12", strict=True):
            away = (value - values.mean(0)) / max(float(np.hypot(*(value - values.mean(0)))), 1e-9)
            axes.text(*(value + 0.17 * away), f"v{mark}", ha="center", va="center", fontweight="bold", zorder=6)
    if title:
        axes.set_title(title, wrap=True)
    figure.legend(loc="outside lower center", ncols=2)
    return figure


@with_style
def seed_panels(
    x: Sequence[float],
    panels: Mapping[str, Sequence],
    *,
    xlabel: str,
    xscale: str = "log2",
    references: Mapping[str, Mapping[str, float]] | None = None,
    limits: Mapping[str, tuple[float, float]] | None = None,
    title: str | None = None,
    panel_height: float = 2.1,
) -> Figure:
    """Una medida por panel frente a la misma x: un punto por semilla y una línea por las medianas.

    Enseña las semillas que se salen, que una media con su intervalo esconde. Cada panel tiene su propio eje y: sirve
    para poner al lado medidas que no se pueden comparar punto por punto.

    Args:
        x: n abscisas; se marcan todas.
        panels: nombre del eje y → n entradas, cada una un número o la lista de los de sus semillas; con NaN o una
            lista vacía, ahí no hay punto y la línea pasa de largo.
        xlabel: nombre del eje x.
        xscale: «linear» o «log2».
        references: nombre de un panel → {nombre: altura} de una línea discontinua.
        limits: nombre de un panel → (inferior, superior) de su eje y.
        title: título.
        panel_height: altura de cada panel, en pulgadas.

    Returns:
        `Figure` con los paneles uno encima de otro.

    Raises:
        ValueError: si un panel no tiene n entradas, la escala no existe o hay nombres que no son de ningún panel.
    """
    x = _array(x, "x", 1)
    if xscale not in ("linear", "log2"):
        raise ValueError(f"Escala desconocida: {xscale!r}. Usa «linear» o «log2».")
    unknown = ({*(references or {})} | {*(limits or {})}) - {*panels}
    if unknown or not panels:
        raise ValueError(f"No hay ningún panel {', '.join(map(repr, sorted(unknown)))}: {', '.join(panels)}.")
    figure = new_figure(WIDTH, panel_height * len(panels) + 0.5 + _title_room(title))
    for row, (axes, (name, entries)) in enumerate(
        zip(figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0], panels.items(), strict=True)
    ):
        if len(entries) != len(x):
            raise ValueError(f"El panel «{name}» tiene {len(entries)} entradas y «x» tiene {len(x)}.")
        if xscale == "log2":
            axes.set_xscale("log", base=2)
        color = (ACCENT, ACCENT_2, HEAD_COLORS[1], HEAD_COLORS[6])[row % 4]
        seeds = [_array(np.atleast_1d(entry), f"panels[{name!r}]", 1, finite=False) for entry in entries]
        middle = {
            place: np.median(values)
            for place, values in zip(x, seeds, strict=True)
            if values.size and np.isfinite(values).all()
        }
        axes.plot(list(middle), list(middle.values()), color=color, linewidth=1.8, zorder=2)
        for place, values in zip(x, seeds, strict=True):
            axes.plot([place] * len(values), values, "o", color=color, markersize=6.5, alpha=0.75,
                      markeredgecolor=PAPER, markeredgewidth=0.7, zorder=3)  # fmt: skip
        for label, height in ((references or {}).get(name) or {}).items():
            axes.axhline(height, color=MUTED, linewidth=1.4, linestyle=(0, (4, 3)), zorder=1)
            axes.annotate(
                label, (0.5, height), xycoords=("axes fraction", "data"), xytext=(0, 4), textcoords="offset points",
                ha="center", va="bottom", fontsize=10, color=MUTED,
            )  # fmt: skip
        axes.set_title(_wrap(name, 1.1 * WIDTH), loc="left", fontsize=10, fontweight="normal", color=MUTED)
        axes.grid(axis="y")
        axes.set_axisbelow(True)
        axes.margins(y=0.12)
        if name in (limits or {}):
            axes.set_ylim(*limits[name])
        decimal_comma(axes)
        axes.set_xticks(list(x), [f"{value:g}".replace(".", ",") for value in x])
        axes.minorticks_off()
    axes.set_xlabel(xlabel)
    _put_title(figure, title)
    return figure


@with_style
def head_rows(
    tokens: Sequence[str], panels: Mapping[str, np.ndarray], queries: Sequence[str], *, title: str | None = None
) -> Figure:
    """Adónde mira cada cabeza en una misma frase: una fila por consulta y cabeza, del color de la cabeza.

    Sirve para comparar modelos: cada panel es uno, y las columnas son las mismas en todos.

    Args:
        tokens: n textos, las claves.
        panels: título de cada panel → pesos (h, n_q, n).
        queries: n_q textos, las consultas.
        title: título.

    Returns:
        `Figure` con los paneles uno encima de otro.

    Raises:
        ValueError: si no hay paneles o unos pesos no tienen la forma (h, n_q, n).
    """
    labels = [printable(token) for token in tokens]
    maps = {name: _array(weights, f"panels[{name!r}]", 3) for name, weights in panels.items()}
    for name, weights in maps.items():
        if weights.shape[1:] != (len(queries), len(labels)) or not weights.size:
            raise ValueError(
                f"«{name}» debe tener forma (h, {len(queries)}, {len(labels)}): cabezas, consultas y palabras; "
                f"llegó {weights.shape}."
            )
    if not maps:
        raise ValueError("«panels» está vacío: hace falta al menos un modelo.")
    left, row = 1.3, 0.27
    top = max(0.82, 0.066 * max(map(len, labels)) + 0.2) + _title_room(title)  # las palabras van inclinadas
    gap, heading = 0.07, 0.42  # entre consultas; para el título de un panel
    rows = sum(len(queries) * (row * len(weights) + gap) for weights in maps.values())
    height = top + rows + heading * len(maps)
    cell = (WIDTH - left - 0.33) / len(labels)
    figure = new_figure(WIDTH, height, layout="none")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(0, WIDTH)
    axes.set_ylim(height, 0)
    for j, label in enumerate(labels):
        axes.text(left + (j + 0.5) * cell, top - 0.06, label, rotation=45, ha="left", va="bottom", fontsize=10.5,
                  rotation_mode="anchor", fontweight="bold" if label in queries else "normal")  # fmt: skip
    y = top
    for name, weights in maps.items():
        axes.text(0.04, y + 0.25, name, ha="left", va="center", fontsize=11, fontweight="bold")
        y += heading
        for i, query in enumerate(queries):
            axes.text(0.04, y + row * len(weights) / 2, printable(query), ha="left", va="center", fontsize=10.5)
            for head, values in enumerate(weights[:, i]):
                color = HEAD_COLORS[head % len(HEAD_COLORS)]
                axes.text(left - 0.07, y + row / 2, f"c{head}", ha="right", va="center", fontsize=10,
                          color=text_color(color), fontweight="bold")  # fmt: skip
                for j, value in enumerate(values):
                    tint = 1 - (1 - np.array(to_rgb(color))) * float(np.clip(value, 0, 1))
                    axes.add_patch(
                        Rectangle((left + j * cell, y), cell - 0.02, row - 0.03, facecolor=tint, edgecolor=GRID, lw=0.6)
                    )
                    if value >= 0.095 and cell > 0.23:  # en frases más largas el número no cabe
                        style = {"fontsize": 10 if cell > 0.33 else 9, "color": _ink_over(tint), "va": "center"}
                        place = (left + (j + 0.5) * cell - 0.01, y + row / 2 - 0.012)
                        axes.text(*place, spanish_number(value, 1), ha="center", **style)
                y += row
            y += gap
    if title:
        axes.text(0.04, 0.05, _wrap(title), ha="left", va="top", fontsize=12, fontweight="bold")
    return figure


KIND_STYLES = (("o", ACCENT), ("D", ACCENT_2), ("s", HEAD_COLORS[8]), ("^", HEAD_COLORS[4]))


@with_style
def seed_rows(
    rows: Mapping[str, Sequence[float]],
    *,
    xlabel: str,
    kinds: Mapping[str, Sequence[str]] | None = None,
    limits: tuple[float, float] | None = None,
    title: str | None = None,
) -> Figure:
    """Una fila por experimento y un punto por semilla, con una señal según lo que pasó en ella.

    Args:
        rows: nombre → valores, uno por semilla.
        xlabel: qué se mide, con su unidad.
        kinds: nombre → qué pasó en cada semilla; cada cosa distinta lleva su forma y su color. Los nombres que falten
            llevan un punto liso.
        limits: (mínimo, máximo) del eje.
        title: título.

    Returns:
        `Figure`.

    Raises:
        ValueError: si no hay filas, o las señales no casan con los valores.
    """
    if not rows:
        raise ValueError("«rows» está vacío.")
    unknown = {*(kinds or {})} - {*rows}
    if unknown:
        raise ValueError(f"«kinds» nombra filas que no hay: {', '.join(sorted(unknown))}.")
    figure = new_figure(WIDTH, 0.5 * len(rows) + 0.95 + _title_room(title) + (0.55 if kinds else 0))
    axes = figure.add_subplot()
    seen: dict[str, int] = {}
    for place, (name, entries) in enumerate(rows.items()):
        values = _array(entries, f"rows[{name!r}]", 1)
        labels = list((kinds or {}).get(name, [""] * len(values)))
        if len(labels) != len(values):
            raise ValueError(f"«{name}» tiene {len(values)} valores y {len(labels)} señales.")
        axes.axhline(place, color=GRID, linewidth=0.9, zorder=0)
        # Los puntos vecinos se apartan arriba y abajo, por orden de valor, para que se vean todos.
        for rank, index in enumerate(np.argsort(values, kind="stable")):
            kind = seen.setdefault(labels[index], len(seen)) if labels[index] else None
            marker, color = ("o", MUTED) if kind is None else KIND_STYLES[kind % len(KIND_STYLES)]
            axes.plot(
                values[index], place + 0.6 * ((0.5 + 0.618 * rank) % 1 - 0.5), marker, color=color,
                markersize=6.5, markeredgecolor=PAPER, markeredgewidth=0.7, linestyle="none", zorder=3,
                clip_on=False,
            )  # fmt: skip
    for label, kind in seen.items():
        marker, color = KIND_STYLES[kind % len(KIND_STYLES)]
        axes.plot([], [], marker, color=color, markersize=7, label=label)
    axes.set_yticks(range(len(rows)), [_wrap(name, 2.2) for name in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x")
    axes.set_axisbelow(True)
    axes.set_xlabel(xlabel)
    if limits is not None:
        axes.set_xlim(*limits)
    decimal_comma(axes)
    _put_title(figure, title)
    if seen:
        figure.legend(loc="outside lower center", ncols=1 if max(map(len, seen)) > 24 else 2)
    return figure


@with_style
def panels(
    x,
    series: Mapping[str, Mapping[str, Sequence[float]]],
    *,
    xlabel: str,
    xscale: str = "linear",
    yscale: str = "linear",
    ylim: tuple[float, float] | None = None,
    xticks: Sequence[float] | None = None,
    yticks: Mapping[float, str] | None = None,
    intervals: Mapping[str, tuple] | None = None,
    reference: float | None = None,
    title: str | None = None,
) -> Figure:
    """Paneles pequeños, dos por fila, con los mismos ejes: lo que sube, lo que baja y lo que no se mueve, a la vez.

    Una serie con el mismo nombre en dos paneles lleva en los dos el mismo color, trazo y marca.

    Args:
        x: (n,) abscisas comunes.
        series: título del panel → nombre de la serie → (n,) ordenadas.
        xlabel: nombre del eje x.
        xscale: «linear», «log» (base 10) o «log2».
        yscale: igual, para el eje y.
        ylim: (inferior, superior), el mismo en todos.
        xticks: abscisas con marca.
        yticks: ordenada → lo que se escribe en ella.
        intervals: nombre de una serie → (inferior, superior), cada uno (n,): banda alrededor de la línea.
        reference: altura de una línea horizontal discontinua en todos los paneles.
        title: título.

    Returns:
        `Figure`.

    Raises:
        ValueError: si no hay paneles, una serie no tiene la longitud de `x`, o un intervalo no tiene serie.
    """
    x = _array(x, "x", 1)
    if not series or not all(series.values()):
        raise ValueError("«series» está vacío, o lo está alguno de sus paneles.")
    names = list(dict.fromkeys(name for panel in series.values() for name in panel))
    for name in intervals or {}:
        if name not in names:
            raise ValueError(f"Hay un intervalo para «{name}», que no está en «series»: {', '.join(names)}.")
    dashes = ("-", (0, (5, 1.6)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.2, 1.5)))
    rows = math.ceil(len(series) / 2)
    figure = new_figure(WIDTH, 1.95 * rows + 0.25 + _title_room(title))
    grid = figure.subplots(rows, 2, sharex=True, sharey=True, squeeze=False).flat
    for place, (axes, (heading, panel)) in enumerate(zip(grid, series.items(), strict=False)):
        for scale, setter in ((xscale, axes.set_xscale), (yscale, axes.set_yscale)):
            if scale != "linear":
                setter("log", base=2 if scale == "log2" else 10)
        if reference is not None:
            axes.axhline(reference, color=MUTED, linewidth=1.1, linestyle=(0, (4, 3)), zorder=1)
        for name, values in panel.items():
            values = _array(values, f"series[{name!r}]", 1)
            if values.shape != x.shape:
                raise ValueError(f"La serie «{name}» tiene {len(values)} valores y «x» tiene {len(x)}.")
            i = names.index(name)
            color = HEAD_COLORS[i % len(HEAD_COLORS)]
            axes.plot(x, values, color=color, marker="osD^vPX*"[i % 8], linestyle=dashes[i % 4], label=name)
            if intervals and name in intervals:
                low, high = (_array(edge, f"intervals[{name!r}]", 1) for edge in intervals[name])
                axes.fill_between(x, low, high, color=color, alpha=0.2, linewidth=0)
        axes.set_title(_wrap(heading, WIDTH / 2 - 0.2), fontsize=10.5)
        axes.legend(loc="best", fontsize=9, handlelength=1.8, handletextpad=0.5, borderaxespad=0.2, labelspacing=0.25)
        axes.grid(axis="y")
        axes.set_axisbelow(True)
        if ylim is not None:
            axes.set_ylim(*ylim)
        decimal_comma(axes)
        if xticks is not None:
            axes.set_xticks(list(xticks), [spanish_number(tick, 0 if tick == int(tick) else 2) for tick in xticks])
        if yticks is not None:
            axes.set_yticks(list(yticks), list(yticks.values()))
        axes.minorticks_off()
        if place >= len(series) - 2:
            axes.set_xlabel(xlabel)
            axes.tick_params(labelbottom=True)
    for axes in list(figure.axes)[len(series) :]:
        axes.set_axis_off()
    _put_title(figure, title)
    return figure


@with_style
def query_stems(
    weights,
    *,
    marks: Mapping[str, int] | None = None,
    xlabel: str = "posición mirada",
    title: str | None = None,
) -> Figure:
    """Una consulta y muchas claves: un palo por clave y cabeza, tan alto como su peso.

    Args:
        weights: (h, n) pesos de cada cabeza para la misma consulta, con h de 1 a 4; cada fila suma 1.
        marks: nombre → posición que se señala arriba con una raya de puntos.
        xlabel: nombre del eje x.
        title: título.

    Returns:
        `Figure`; la cabeza i lleva su color, `HEAD_COLORS[i]`, y su marca.

    Raises:
        ValueError: si no son de 1 a 4 cabezas, alguna no suma 1 o una posición señalada está fuera.
    """
    weights = _array(weights, "weights", 2)
    num_heads, n = weights.shape
    if not 1 <= num_heads <= 4 or np.abs(weights.sum(1) - 1).max() > 1e-3:
        raise ValueError(f"Se esperaban los pesos (h, n) de 1 a 4 cabezas, que sumen 1; llegó forma {weights.shape}.")
    for name, place in (marks or {}).items():
        if not 0 <= place < n:
            raise ValueError(f"La posición «{name}» debe estar entre 0 y {n - 1}; llegó {place}.")
    figure = new_figure(WIDTH, 2.9)
    axes = figure.add_subplot()
    for i, row in enumerate(weights):
        places = np.arange(n) + 0.24 * (i - (num_heads - 1) / 2)
        axes.vlines(places, 0, row, color=HEAD_COLORS[i], linewidth=2.4, zorder=3)
        tall = row >= 0.05
        axes.plot(places[tall], row[tall], "osD^"[i], color=HEAD_COLORS[i], markersize=7, zorder=4, clip_on=False)
        axes.plot([], [], "osD^"[i] + "-", color=HEAD_COLORS[i], label=f"cabeza {i}")
    level, last = 0, -n
    for name, place in sorted((marks or {}).items(), key=lambda mark: mark[1]):
        level, last = (1 - level if place - last < 0.3 * n else 0), place  # los nombres que se pisarían, a dos alturas
        axes.axvline(place, color=MUTED, linewidth=1.3, linestyle=(0, (1, 2)), zorder=1)
        side = "right" if place > 0.8 * n else "left" if place < 0.2 * n else "center"
        axes.annotate(
            name, (place, 1), xycoords=("data", "axes fraction"), xytext=(0, 4 + 13 * level),
            textcoords="offset points", ha=side, va="bottom", fontsize=10,
        )  # fmt: skip
    axes.set(xlim=(-1, n), ylim=(0, 1), xlabel=xlabel, ylabel="peso")
    axes.grid(axis="y")
    axes.set_axisbelow(True)
    decimal_comma(axes)
    _put_title(figure, title)
    figure.legend(loc="outside lower center", ncols=min(num_heads, 3))
    return figure


VERDICT_STYLES = {"sí": ("o", ACCENT, "supera el listón"), "dudoso": ("D", ACCENT_2, "no se puede decir"),
                  "no": ("s", MUTED, "no lo supera")}  # fmt: skip


@with_style
def verdict_rows(
    rows: Mapping[str, tuple[float, float, float]],
    *,
    bars: Mapping[str, float],
    controls: Mapping[str, Sequence[float]],
    verdicts: Mapping[str, str],
    xlabel: str,
    names: tuple[str, str] = ("listón", "control"),
    title: str | None = None,
) -> Figure:
    """Una medida por fila, con su intervalo, el listón que debía superar, los controles y el veredicto.

    Args:
        rows: nombre → (valor, inferior, superior).
        bars: nombre → listón de esa fila (raya vertical).
        controls: nombre → valores del control (puntos grises).
        verdicts: nombre → «sí», «dudoso» o «no»; cambia la forma y el color de la marca.
        xlabel: qué se mide, con su unidad.
        names: cómo se llaman en la leyenda el listón y el control.
        title: título.

    Returns:
        `Figure`.

    Raises:
        ValueError: si no hay filas, falta algo de alguna o el veredicto es otra palabra.
    """
    if not rows:
        raise ValueError("«rows» está vacío.")
    for name in rows:
        if name not in bars or name not in controls or verdicts.get(name) not in VERDICT_STYLES:
            raise ValueError(
                f"A «{name}» le falta el listón, los controles o un veredicto de los conocidos: "
                f"{', '.join(VERDICT_STYLES)}."
            )
    figure = new_figure(WIDTH, 0.36 * len(rows) + 1.45 + _title_room(title))
    axes = figure.add_subplot()
    for place, (name, (value, low, high)) in enumerate(rows.items()):
        marker, color, _ = VERDICT_STYLES[verdicts[name]]
        axes.axhline(place, color=GRID, linewidth=0.9, zorder=0)
        axes.plot(list(controls[name]), [place] * len(controls[name]), "|", color="#9aa5ae", markersize=8, zorder=1)
        axes.plot([bars[name]] * 2, [place - 0.38, place + 0.38], color=INK, linewidth=2, zorder=2)
        axes.hlines(place, low, high, color=color, linewidth=2.4, zorder=3)
        axes.plot(value, place, marker, color=color, markersize=8, zorder=4,
                  markerfacecolor=PAPER if verdicts[name] == "no" else color, markeredgewidth=1.8)  # fmt: skip
    for marker, color, label in (VERDICT_STYLES[kind] for kind in VERDICT_STYLES if kind in verdicts.values()):
        axes.plot([], [], marker, color=color, markersize=8, label=label, linestyle="none", markeredgewidth=1.8,
                  markerfacecolor=PAPER if marker == "s" else color)  # fmt: skip
    axes.plot([], [], "|", color=INK, markersize=11, markeredgewidth=2, label=names[0], linestyle="none")
    axes.plot([], [], "|", color="#9aa5ae", markersize=8, label=names[1], linestyle="none")
    axes.set_yticks(range(len(rows)), list(rows))
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlim(0, 1)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x")
    axes.set_axisbelow(True)
    axes.set_xlabel(xlabel)
    decimal_comma(axes)
    _put_title(figure, title)
    figure.legend(loc="outside lower center", ncols=2)
    return figure


@with_style
def neuron_view(
    products,
    tokens: Sequence[str],
    weights,
    *,
    query: int,
    limit: float | None = None,
    color: str = ACCENT,
    title: str | None = None,
) -> Figure:
    """Una cabeza por dentro: lo que cada dimensión pone en la puntuación de una consulta con cada clave.

    Args:
        products: (n, d_k), fila = clave; la fila suma la puntuación. Azul, a favor; naranja, en contra.
        tokens: n textos.
        weights: (n,) pesos que salen de esas puntuaciones.
        query: posición de la consulta, que se señala entre las claves.
        limit: fin de la escala de color (± limit); fíjalo si la figura se mueve.
        color: color de las barras de peso.
        title: título.

    Returns:
        `Figure`: a la izquierda las claves, en medio una casilla por dimensión, a la derecha el peso.

    Raises:
        ValueError: si las formas no casan o `query` está fuera de la frase.
    """
    products, weights = _array(products, "products", 2), _array(weights, "weights", 1)
    n, width = products.shape
    if len(tokens) != n or len(weights) != n or not 0 <= query < n:
        raise ValueError(
            f"Se esperaban products (n, d_k), n tokens, n pesos y query entre 0 y n − 1; llegaron {products.shape}, "
            f"{len(tokens)} tokens, {len(weights)} pesos y query {query}."
        )
    limit = limit or float(np.abs(products).max()) or 1.0
    figure = new_figure(WIDTH, 0.27 * n + 1.15 + _title_room(title))
    axes, bars = figure.subplots(1, 2, sharey=True, width_ratios=(3.1, 1))
    image = axes.imshow(products, cmap=SIGNED_CMAP, norm=Normalize(-limit, limit), aspect="auto",
                        interpolation="nearest")  # fmt: skip
    axes.set_yticks(range(n), [printable(token) for token in tokens])
    axes.tick_params(axis="y", length=0)
    label = axes.get_yticklabels()[query]
    label.set_fontweight("bold")
    label.set_color(ACCENT_2)
    axes.set_xlabel(f"dimensión, de 0 a {width - 1}")
    axes.set_xticks([0, *range(7, width, 8)])
    bars.barh(range(n), weights, color=color, height=0.66)
    for place, weight in enumerate(weights):
        inside = weight > 0.55  # el número, dentro de la barra si fuera no cabe
        bars.text(
            weight + (-0.04 if inside else 0.04), place, spanish_number(weight), va="center", fontsize=9.5,
            ha="right" if inside else "left", color=_ink_over(to_rgb(color)) if inside else INK,
        )  # fmt: skip
    bars.set_xlim(0, 1)
    bars.set_xticks([0, 1])
    bars.set_xlabel("peso")
    bars.tick_params(axis="y", length=0)
    scale = figure.colorbar(image, ax=[axes, bars], location="bottom", fraction=0.05, aspect=40, pad=0.03)
    scale.set_label("lo que suma a la puntuación")
    scale.formatter = CommaFormatter(useMathText=True)
    scale.update_ticks()
    scale.outline.set_visible(False)
    _put_title(figure, title)
    return figure


@with_style
def stacked(
    x,
    panels: Mapping[str, Mapping[str, Sequence[float]]],
    *,
    xlabel: str,
    xscale: str = "linear",
    references: Mapping[str, Mapping[str, float]] | None = None,
    limits: Mapping[str, tuple[float | None, float | None]] | None = None,
    shade: tuple[float, float] | None = None,
    title: str | None = None,
) -> Figure:
    """Varias medidas de un mismo proceso, un panel encima de otro con la misma x: qué cambia a la vez que qué.

    Args:
        x: (n,) abscisas comunes.
        panels: nombre del eje y → nombre de la serie → (n,) ordenadas.
        xlabel: nombre del eje x.
        xscale: «linear», «log» (base 10) o «log2».
        references: nombre de un panel → {nombre: altura} de una línea discontinua.
        limits: nombre de un panel → (inferior, superior) de su eje y.
        shade: (desde, hasta) de una franja que se señala en todos los paneles.
        title: título.

    Returns:
        `Figure`.

    Raises:
        ValueError: si una serie no tiene la longitud de `x` o hay nombres que no son de ningún panel.
    """
    x = _array(x, "x", 1)
    unknown = ({*(references or {})} | {*(limits or {})}) - {*panels}
    if unknown or not panels:
        raise ValueError(f"No hay ningún panel {', '.join(map(repr, sorted(unknown)))}: {', '.join(panels)}.")
    figure = new_figure(WIDTH, 2.45 * len(panels) + 0.2 + _title_room(title))
    dashes = ("-", (0, (5, 1.6)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.2, 1.5)))
    color = iter(HEAD_COLORS)
    stack = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    for axes, (name, series) in zip(stack, panels.items(), strict=True):
        if xscale != "linear":
            axes.set_xscale("log", base=2 if xscale == "log2" else 10)
        if shade is not None:
            axes.axvspan(*shade, color=GRID, alpha=0.75, linewidth=0, zorder=0)
        for place, (label, values) in enumerate(series.items()):
            values = _array(values, f"panels[{name!r}][{label!r}]", 1)
            if values.shape != x.shape:
                raise ValueError(f"La serie «{label}» tiene {len(values)} valores y «x» tiene {len(x)}.")
            axes.plot(x, values, color=next(color), linestyle=dashes[place % len(dashes)], label=label)
        for label, height in ((references or {}).get(name) or {}).items():
            _reference(axes, label, height)
        axes.set_title(_wrap(name, 1.1 * WIDTH), loc="left", fontsize=10, fontweight="normal", color=MUTED)
        axes.grid(axis="y")
        axes.set_axisbelow(True)
        axes.set_ylim(*(limits or {}).get(name, (None, None)))
        axes.margins(x=0.01)
        decimal_comma(axes)
        axes.legend(loc="best", handlelength=2.4)
    stack[-1].set_xlabel(xlabel)
    _put_title(figure, title)
    return figure


def _reference(axes: Axes, label: str, height: float, side: str = "left") -> None:
    """Una línea horizontal discontinua con su nombre debajo, a la izquierda o a la derecha."""
    axes.axhline(height, color=MUTED, linewidth=1.4, linestyle=(0, (4, 3)), zorder=1)
    place, shift = (0, 5) if side == "left" else (1, -5)
    axes.annotate(label, (place, height), xycoords=("axes fraction", "data"), xytext=(shift, -3),
                  textcoords="offset points", ha=side, va="top", fontsize=9.5, color=MUTED, zorder=4,
                  bbox={"facecolor": PAPER, "edgecolor": "none", "alpha": 0.8, "pad": 1})  # fmt: skip


@with_style
def seed_curves(
    curves: Mapping[str, tuple[Sequence[float], Sequence[Sequence[float]]]],
    *,
    xlabel: str,
    ylabel: str,
    xscales: Sequence[str] = ("linear", "log"),
    references: Mapping[str, float] | None = None,
    ylim: tuple[float | None, float | None] | None = None,
    title: str | None = None,
) -> Figure:
    """Una línea fina por semilla y un color por experimento, en un panel por cada escala del eje x.

    La escala es parte de la pregunta: una caída puede parecer brusca solo por cómo se dibuja el tiempo.

    Args:
        curves: nombre del experimento → (abscisas, una lista de ordenadas por semilla); cada uno con sus abscisas.
        xlabel: nombre del eje x.
        ylabel: nombre del eje y, con su unidad.
        xscales: «linear» o «log» (que deja fuera x = 0), un panel por cada una.
        references: nombre → altura de una línea discontinua.
        ylim: (inferior, superior).
        title: título.

    Returns:
        `Figure` con los paneles uno encima de otro.

    Raises:
        ValueError: si no hay curvas, una no casa con sus abscisas o la escala no existe.
    """
    if not curves or not xscales or {*xscales} - {"linear", "log"}:
        raise ValueError("Hace falta al menos un experimento y una escala, «linear» o «log».")
    figure = new_figure(WIDTH, 2.4 * len(xscales) + 0.27 * len(curves) + _title_room(title))
    dashes = ("-", (0, (5, 1.6)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.2, 1.5)))
    for row, (axes, scale) in enumerate(
        zip(figure.subplots(len(xscales), 1, squeeze=False)[:, 0], xscales, strict=True)
    ):
        axes.set_xscale(scale)
        for place, (name, (x, seeds)) in enumerate(curves.items()):
            x = _array(x, f"curves[{name!r}]", 1)
            seen = x > 0 if scale == "log" else x >= x.min()
            for rank, values in enumerate(seeds):
                values = _array(values, f"curves[{name!r}]", 1)
                if values.shape != x.shape:
                    raise ValueError(f"Una curva de «{name}» tiene {len(values)} valores y sus abscisas, {len(x)}.")
                axes.plot(x[seen], values[seen], color=HEAD_COLORS[place % len(HEAD_COLORS)], linewidth=1.5, alpha=0.85,
                          linestyle=dashes[place % len(dashes)], label=None if row or rank else name)  # fmt: skip
        for label, height in (references or {}).items():
            _reference(axes, label, height, "left" if scale == "log" else "right")
        axes.grid(axis="y")
        axes.set_axisbelow(True)
        axes.margins(x=0.02)
        if ylim is not None:
            axes.set_ylim(*ylim)
        decimal_comma(axes)
        axes.set_xlabel(xlabel + (", escala logarítmica" if scale == "log" else ""))
        if row == 0:
            axes.set_title(_wrap(ylabel, 1.1 * WIDTH), loc="left", fontsize=10, fontweight="normal", color=MUTED)
    _put_title(figure, title)
    columns = 1 if max(map(len, curves)) > 28 else 2
    legend = figure.legend(loc="outside lower center", ncols=columns, handlelength=2.6, columnspacing=1.4)
    for line in legend.get_lines():
        line.set_linewidth(2.2)
        line.set_alpha(1)
    return figure


@with_style
def induction_circuit(first: str = "gato", second: str = "perro") -> Figure:
    """El circuito de inducción: lo que la cabeza de token anterior escribe y lo que la de inducción lee.

    Se lee de abajo arriba; cada columna es el flujo residual de un token.

    Args:
        first: el token que se repite, [A].
        second: el que lo siguió, [B].

    Returns:
        `Figure`.
    """
    height = 5.5
    figure = new_figure(WIDTH, height, layout="none")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(0, WIDTH)
    axes.set_ylim(0, height)
    columns = (0.65, 2.1, 3.97)
    previous, induction = HEAD_COLORS[0], ACCENT_2

    def chip(x, y, text, color, width, tall=0.36):
        shape = "round,pad=0,rounding_size=0.08"
        axes.add_patch(
            FancyBboxPatch(
                (x - width / 2, y - tall / 2),
                width,
                tall,
                shape,
                facecolor=_tint(color, 0.2),
                edgecolor=color,
                linewidth=1.2,
                zorder=5,
            )
        )
        axes.text(x, y, text, ha="center", va="center", fontsize=10, linespacing=1.25, zorder=6)

    def arrow(start, end, color, bend=0.0, **style):
        style = {"arrowstyle": "-|>", "mutation_scale": 15, "linewidth": 2.4} | style
        curve = f"arc3,rad={bend}"
        axes.add_patch(
            FancyArrowPatch(start, end, connectionstyle=curve, color=color, shrinkA=0, shrinkB=0, zorder=4, **style)
        )

    def heading(y, text, color):
        axes.add_patch(Rectangle((0, y - 0.16), WIDTH, 0.32, facecolor=_tint(color, 0.12), linewidth=0, zorder=2))
        axes.text(0.08, y, text, ha="left", va="center", fontsize=10.5, color=text_color(color), fontweight="bold",
                  zorder=3)  # fmt: skip

    for x, token, place in zip(columns, (first, second, first), ("j − 1", "j", "i"), strict=True):
        axes.add_patch(
            Rectangle((x - 0.07, 0.62), 0.14, 4.2, facecolor="#e6f0f6", edgecolor=ACCENT, linewidth=0.8, zorder=1)
        )
        axes.text(x, 0.42, f"«{token}»", ha="center", va="center", fontsize=12, fontweight="bold")
        axes.text(x, 0.17, f"posición {place}", ha="center", va="center", fontsize=10, color=MUTED)
        chip(x, 0.95, f"soy «{token}»", MUTED, 1.16)
    axes.text(sum(columns[1:]) / 2, 0.42, "· · ·", ha="center", va="center", fontsize=12, color=MUTED)

    heading(1.44, "Capa 0 · token anterior: apunta quién iba delante", previous)
    arrow((columns[0], 1.75), (columns[1] - 0.76, 2.12), previous, -0.12)
    chip(columns[1], 2.15, f"iba tras «{first}»", previous, 1.5)

    heading(2.64, "Capa 1 · inducción: mira a quien siguió, y copia", induction)
    chip(columns[1], 3.16, f"clave: «iba\ntras {first}»", previous, 1.3, 0.52)
    chip(columns[2], 3.16, f"consulta: «¿quién\niba tras {first}?»", induction, 1.56, 0.52)
    arrow((columns[1] + 0.68, 3.16), (columns[2] - 0.81, 3.16), MUTED, arrowstyle="<|-|>", mutation_scale=10,
          linewidth=1.4)  # fmt: skip
    axes.text(columns[1] + 0.92, 3.47, "encajan", ha="center", va="bottom", fontsize=10, color=MUTED)
    arrow((columns[1], 3.72), (columns[2] - 0.78, 4.28), induction, -0.12)
    axes.text(columns[1] - 0.14, 3.88, f"valor: «{second}»", ha="right", va="center", fontsize=10, color=INK)
    chip(columns[2], 4.3, f"escribe «{second}»", induction, 1.5)
    arrow((columns[2], 4.82), (columns[2], 5.1), INK)
    axes.text(
        WIDTH - 0.04, 5.28, f"el siguiente: «{second}»", ha="right", va="center", fontsize=11.5, fontweight="bold"
    )
    return figure


@with_style
def scatter(
    x,
    y,
    *,
    xlabel: str,
    ylabel: str,
    marked: Mapping[str, Sequence[int]] | None = None,
    names: Mapping[int, str] | None = None,
    thresholds: tuple[float, float] | None = None,
    title: str | None = None,
) -> Figure:
    """Un punto por cabeza: un índice frente a otro.

    Args:
        x: k números.
        y: k números.
        xlabel: qué mide el eje horizontal.
        ylabel: qué mide el vertical.
        marked: nombre → qué puntos llevan esa señal, con su forma y su color; los demás salen en gris.
        names: punto → texto junto a él.
        thresholds: umbrales (de x, de y), con raya.
        title: título.

    Returns:
        `Figure`.

    Raises:
        ValueError: si x e y no tienen los mismos números, o se señala un punto que no existe.
    """
    x, y = _array(x, "x", 1), _array(y, "y", 1)
    if len(x) != len(y) or not len(x):
        raise ValueError(f"Se esperaban tantos x como y, y llegaron {len(x)} y {len(y)}.")
    pointed = {index for group in (marked or {}).values() for index in group} | {*(names or {})}
    if pointed and not 0 <= min(pointed) <= max(pointed) < len(x):
        raise ValueError(f"Hay {len(x)} puntos, del 0 al {len(x) - 1}, y se señalan {sorted(pointed)}.")
    figure = new_figure(WIDTH, 3.7 + _title_room(title) + 0.26 * len(marked or {}))
    axes = figure.add_subplot()
    plain = [index for index in range(len(x)) if not any(index in group for group in (marked or {}).values())]
    axes.plot(x[plain], y[plain], "o", color="#9aa5ae", markersize=4.5, alpha=0.75, linestyle="none")
    for kind, (name, group) in enumerate((marked or {}).items()):
        marker, color = KIND_STYLES[kind % len(KIND_STYLES)]
        axes.plot(x[list(group)], y[list(group)], marker, color=color, markersize=8, label=name, linestyle="none",
                  markeredgecolor=PAPER, markeredgewidth=0.7, zorder=3, clip_on=False)  # fmt: skip
    for index, text in (names or {}).items():
        right = x[index] < x.min() + 0.75 * (x.max() - x.min())
        axes.annotate(text, (x[index], y[index]), (6 if right else -6, 3), textcoords="offset points", fontsize=10,
                      ha="left" if right else "right", va="bottom", zorder=4)  # fmt: skip
    for line, place in zip((axes.axvline, axes.axhline), thresholds or (), strict=False):
        line(place, color=MUTED, linewidth=1, linestyle="--", zorder=0)
    axes.grid(True)
    axes.set_axisbelow(True)
    axes.set_xlabel(xlabel)
    axes.set_ylabel(ylabel)
    decimal_comma(axes)
    _put_title(figure, title)
    if marked:
        figure.legend(loc="outside lower center", ncols=1)
    return figure


@with_style
def pruning_story(
    total: int,
    lines: Mapping[str, tuple[Sequence[float], Sequence[Sequence[float]]]],
    dots: Mapping[str, Sequence[tuple[float, float]]],
    *,
    ylabel: str,
    floor: tuple[str, float] | None = None,
    ceiling: tuple[str, float] | None = None,
    zoom: float = 85,
    title: str | None = None,
) -> Figure:
    """La calidad frente a las cabezas que quedan: curvas de quien solo apaga y puntos de quien vuelve a ajustar.

    Dos paneles con el mismo eje x (las cabezas que quedan, de todas a ninguna, con las pocas más separadas): arriba,
    la escala entera; abajo, lo que pasa por encima de `zoom`.

    Args:
        total: cabezas que había.
        lines: nombre → (cabezas que quedan, una lista de ordenadas por repetición); la línea gruesa es su media.
        dots: nombre → parejas (cabezas que quedan, ordenada).
        ylabel: qué se mide, con su unidad.
        floor: nombre y altura del suelo, sin cabezas.
        ceiling: nombre y altura del techo, con todas.
        zoom: desde qué ordenada se amplía abajo.
        title: título.

    Returns:
        `Figure`.

    Raises:
        ValueError: si no hay nada que dibujar, una curva no casa con sus abscisas o se sale de 0 … total.
    """
    if not lines and not dots:
        raise ValueError("No hay nada que dibujar: hace falta alguna curva o algún punto.")
    places = [x for axis, _ in lines.values() for x in axis] + [x for group in dots.values() for x, _ in group]
    if min(places) < 0 or max(places) > total:
        raise ValueError(f"Las cabezas que quedan van de 0 a {total}; llegaron de {min(places):g} a {max(places):g}.")
    figure = new_figure(WIDTH, 5.9 + 0.24 * (len(lines) + len(dots)) + _title_room(title))
    whole, near = figure.subplots(2, 1, sharex=True, height_ratios=(1, 1.15))
    dashes = ((0, (5, 1.6)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.2, 1.5)))
    for axes in (whole, near):
        axes.set_xscale("function", functions=(lambda x: np.sqrt(np.maximum(x, 0)), np.square))
        for place, (name, (x, runs)) in enumerate(lines.items()):
            x, runs = _array(x, name, 1), [_array(run, name, 1) for run in runs]
            if any(run.shape != x.shape for run in runs) or not runs:
                raise ValueError(f"Las curvas de «{name}» no tienen {len(x)} valores, uno por abscisa.")
            color, style = (MUTED, ACCENT_2, "#8a6d00")[place % 3], dashes[place % 3]
            for run in runs if len(runs) > 1 else ():
                axes.plot(x, run, color=color, linewidth=0.7, alpha=0.3)
            label = name if axes is whole else None
            axes.plot(x, np.mean(runs, axis=0), color=color, linestyle=style, label=label)
        for place, (name, group) in enumerate(dots.items()):
            marker, color = KIND_STYLES[place % len(KIND_STYLES)]
            x, y = np.array(group, dtype=float).reshape(-1, 2).T
            aside = 0.1 * (place - (len(dots) - 1) / 2)  # los de cada grupo, en su columna: no se tapan
            axes.plot(np.maximum(np.sqrt(x) + aside, 0) ** 2, y, marker, color=color, markersize=6.5, alpha=0.85,
                      linestyle="none", zorder=3 + 0.01 * place,
                      markeredgecolor=PAPER, markeredgewidth=0.6, label=name if axes is whole else None)  # fmt: skip
        for label, height in filter(None, (floor, ceiling)):
            if (axes is near) == (height >= zoom):
                _reference(axes, label, height, "right")
        axes.grid(axis="y")
        axes.set_axisbelow(True)
        axes.set_xticks([x for x in (32, 24, 16, 10, 6, 3, 1, 0) if x <= total])
        axes.minorticks_off()
    near.set_xlim(total * 1.03, -0.03)
    whole.set_ylim(0, 103)
    near.set_ylim(zoom, 100)
    near.yaxis.get_major_locator().set_params(integer=True)
    near.set_xlabel(f"cabezas que quedan, de {total}")
    for axes, text in ((whole, ylabel), (near, f"lo mismo, de {zoom:g} a 100")):
        axes.set_title(text, loc="left", fontsize=10, fontweight="normal", color=MUTED)
        axes.xaxis.set_major_formatter(CommaFormatter())
        decimal_comma(axes)
    _put_title(figure, title)
    figure.legend(loc="outside lower center", ncols=1)
    return figure


# --- Compartir claves y valores --------------------------------------------------------------------------------------


@with_style
def shared_heads(num_heads: int, groups: Mapping[str, int]) -> Figure:
    """Qué cabezas de consulta comparten cada cabeza de claves y valores, con un dibujo por reparto.

    Args:
        num_heads: cabezas de consulta h, 12 como mucho.
        groups: nombre del reparto → cabezas de claves y valores g, divisor de h.

    Returns:
        `Figure`: arriba, las consultas, con el color de su cabeza; abajo, las claves y los valores.

    Raises:
        ValueError: si no hay repartos, h pasa de 12 o algún g no lo divide.
    """
    if not groups or not 1 <= num_heads <= 12 or any(g < 1 or num_heads % g for g in groups.values()):
        raise ValueError(f"Se esperaban h entre 1 y 12 y repartos que lo dividan; llegaron h = {num_heads} y {groups}.")
    tall = 1.5
    figure, axes = _canvas(tall * len(groups) + 0.05)
    left, width = 0.62, (WIDTH - 0.7) / num_heads
    for place, (name, g) in enumerate(groups.items()):
        top = place * tall
        axes.text(0.06, top + 0.14, f"{name}, g = {g}", fontweight="bold", va="center")
        axes.text(left - 0.1, top + 0.49, "Q", ha="right", va="center")
        axes.text(left - 0.1, top + 1.2, "K, V", ha="right", va="center")
        for i in range(num_heads):
            color = HEAD_COLORS[i]
            _cells(axes, left + i * width + 0.05, top + 0.32, [[color]], (width - 0.1, 0.34), [[str(i)]])
        each = num_heads // g
        for j in range(g):
            start, span = left + j * each * width, each * width
            shown = _tint(HEAD_COLORS[j * each], 0.25) if each == 1 else "#d3dce3"
            _cells(axes, start + 0.05, top + 1.03, [[shown]], (span - 0.1, 0.34), [[str(j)]])
            for i in range(each):
                x = start + (i + 0.5) * width
                axes.plot([x, x], [top + 0.68, top + 1.01], color=MUTED, linewidth=1.2, zorder=1)
    return figure


@with_style
def cache_growth(
    tokens: Sequence[str],
    prompt: int,
    step: int,
    *,
    num_kv_heads: int,
    weights: Sequence[float] | None = None,
    lines: Sequence[str] = (),
) -> Figure:
    """La caché de una capa en un paso de la generación: qué estaba, qué se añade y qué consulta la lee.

    Args:
        tokens: todos los tokens, los del comienzo y los generados.
        prompt: cuántos son del comienzo; entran juntos, en el paso 0.
        step: paso que se dibuja; el paso s añade el token prompt − 1 + s.
        num_kv_heads: cabezas de claves y valores g.
        weights: pesos de la última consulta sobre los tokens guardados, para una fila más.
        lines: frases debajo del dibujo.

    Returns:
        `Figure`.

    Raises:
        ValueError: si el paso no existe o los pesos no son uno por token guardado.
    """
    if not 1 <= prompt <= len(tokens) or not 0 <= step <= len(tokens) - prompt:
        raise ValueError(
            f"Con {len(tokens)} tokens, {prompt} de comienzo, los pasos van de 0 a {len(tokens) - prompt}."
        )
    kept = prompt + step
    if weights is not None and len(weights) != kept:
        raise ValueError(f"En el paso {step} hay {kept} tokens guardados y llegaron {len(weights)} pesos.")
    new = range(prompt) if step == 0 else range(kept - 1, kept)
    tall, left = 0.2, 0.98
    width = (WIDTH - left - 0.08) / len(tokens)
    rows = 2 * num_kv_heads + 1 + (weights is not None)
    head_room = 0.24 + 0.098 * max(len(printable(token)) for token in tokens)
    figure, axes = _canvas(head_room + tall * rows + 0.5 + 0.23 * len(lines) + 0.16)
    for j, token in enumerate(tokens):
        ink = ACCENT_2 if j in new else INK if j < kept else "#9aa5ae"
        axes.text(left + (j + 0.5) * width, head_room - 0.08, printable(token), rotation=90, ha="center", va="bottom",
                  fontsize=10, color=ink, fontweight="bold" if j in new else "normal")  # fmt: skip

    def row(name, y, colors):
        axes.text(left - 0.08, y + tall / 2, name, ha="right", va="center", fontsize=10)
        _cells(axes, left, y, [colors], (width, tall))

    y = head_room
    for symbol in ("claves", "valores"):
        for g in range(num_kv_heads):
            old, fresh = _tint(ACCENT, 0.45 if symbol == "claves" else 0.25), ACCENT_2
            colors = [fresh if j in new else old if j < kept else None for j in range(len(tokens))]
            row(f"{symbol} {g}", y, colors)
            y += tall
        y += 0.14
    row("consulta", y, [ACCENT_2 if j == kept - 1 else None for j in range(len(tokens))])
    y += tall
    if weights is not None:
        shades = [WEIGHT_CMAP(float(w))[:3] for w in weights]
        row("sus pesos", y, [*shades, *[None] * (len(tokens) - kept)])
        axes.add_patch(
            Rectangle((left, y), width * kept, tall, facecolor="none", edgecolor=MUTED, linewidth=0.8, zorder=5)
        )
        y += tall
    y += 0.22
    for line in lines:
        axes.text(0.06, y, line, va="center", fontsize=10)
        y += 0.23
    return figure


@with_style
def latent_attention(
    num_heads: int, latent: int, rope: int, sizes: Mapping[str, float], *, xlabel: str = "KiB por token"
) -> Figure:
    """MLA: qué se guarda y qué se rehace al leer; debajo, lo que ocupa frente a otras cosas.

    Args:
        num_heads: cabezas h.
        latent: números del vector comprimido.
        rope: números de la clave con posición.
        sizes: nombre → lo que ocupa.
        xlabel: la unidad de `sizes`.

    Returns:
        `Figure`.

    Raises:
        ValueError: si no hay tamaños.
    """
    if not sizes:
        raise ValueError("«sizes» está vacío: hace falta al menos un tamaño.")
    top, height = 2.55, 2.55 + 0.5 * len(sizes) + 0.75
    figure = new_figure(WIDTH, height, layout="none")
    draw = figure.add_axes((0, 1 - top / height, 1, top / height))
    draw.set_axis_off()
    draw.set(xlim=(0, WIDTH), ylim=(top, 0))

    def box(x, y, wide, text, face, dashed=False):
        edge = {"edgecolor": MUTED if dashed else INK, "linestyle": (0, (3, 2)) if dashed else "-", "linewidth": 1.2}
        draw.add_patch(Rectangle((x, y), wide, 0.56, facecolor=face, zorder=2, **edge))
        draw.text(x + wide / 2, y + 0.28, text, ha="center", va="center", fontsize=10, linespacing=1.25, zorder=4)

    shade = _tint(ACCENT_2, 0.25)
    draw.add_patch(Rectangle((1.2, 0.06), 1.62, top - 0.12, facecolor="#f4f7f9", linewidth=0, zorder=0))
    draw.text(2.01, 0.22, "se guarda", ha="center", va="center", fontweight="bold", color=text_color(ACCENT_2))
    draw.text(3.94, 0.22, "lo que se lee", ha="center", va="center", fontweight="bold", color=MUTED)
    box(0.06, 1.0, 0.78, "token", PAPER)
    box(1.3, 0.62, 1.42, f"comprimido\n{latent} números", shade)
    box(1.3, 1.72, 1.42, f"clave con\nposición: {rope}", shade)
    box(3.22, 0.42, 1.48, f"{num_heads} claves\n(se rehacen)", PAPER, dashed=True)
    box(3.22, 1.1, 1.48, f"{num_heads} valores\n(se rehacen)", PAPER, dashed=True)
    box(3.22, 1.8, 1.48, f"común a las\n{num_heads} cabezas", PAPER)
    for start, end in (
        ((0.84, 1.2), (1.28, 0.9)), ((0.84, 1.36), (1.28, 1.95)), ((2.72, 0.84), (3.2, 0.7)),
        ((2.72, 0.98), (3.2, 1.34)), ((2.72, 2.02), (3.2, 2.07)),
    ):  # fmt: skip
        _arrow(draw, start, end)
    axes = figure.add_axes((0.43, 0.62 / height, 0.46, 0.5 * len(sizes) / height))
    values = list(sizes.values())
    axes.barh(range(len(sizes)), values, height=0.62, color=[ACCENT if i == 0 else ACCENT_2 for i in range(len(sizes))])
    for place, value in enumerate(values):
        text = f"{value:g}" if value == int(value) else spanish_number(value, 1)
        axes.annotate(text, (value, place), xytext=(4, 0), textcoords="offset points", va="center", fontsize=10)
    axes.set_yticks(range(len(sizes)), list(sizes))
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(sizes) - 0.5, -0.5)
    axes.set_xlabel(xlabel)
    decimal_comma(axes)
    return figure


@with_style
def speed_rows(
    rows: Mapping[str, tuple[float, float, float]], *, xlabel: str, reference: float = 1.0, title: str | None = None
) -> Figure:
    """Razones de tiempo: una fila por caso, con la mediana (también escrita) y los cuartiles, en escala logarítmica.

    Args:
        rows: nombre → (mediana, primer cuartil, tercer cuartil).
        xlabel: qué razón es.
        reference: dónde va la raya de «igual de rápido».
        title: título.

    Returns:
        `Figure`.

    Raises:
        ValueError: si no hay filas o alguna razón no es positiva.
    """
    if not rows or min(min(values) for values in rows.values()) <= 0:
        raise ValueError("Hace falta al menos una fila, y todas las razones deben ser mayores que 0.")
    figure = new_figure(WIDTH, 0.36 * len(rows) + 1.0 + _title_room(title))
    axes = figure.add_subplot()
    axes.set_xscale("log", base=2)
    for place, (median, low, high) in enumerate(rows.values()):
        color = ACCENT if median >= reference else ACCENT_2
        axes.hlines(place, low, high, color=color, linewidth=4, alpha=0.45)
        axes.plot(median, place, "o" if median >= reference else "s", color=color, markersize=7, zorder=3)
        axes.annotate(
            spanish_number(median, 1 if median >= 1 else 2),
            (1.02, place),
            xycoords=axes.get_yaxis_transform(),
            va="center",
        )
    axes.axvline(reference, color=INK, linewidth=1, zorder=0)
    axes.set_yticks(range(len(rows)), list(rows))
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x")
    axes.set_axisbelow(True)
    axes.set_xlabel(xlabel)
    low, high = (edge(edge(values) for values in rows.values()) for edge in (min, max))
    ticks = [2.0**k for k in range(math.floor(math.log2(low)), math.ceil(math.log2(high)) + 1)]
    axes.set_xticks(ticks, [f"1/{1 / tick:g}" if tick < 1 else f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlim(min(low, reference) / 1.15, max(high, reference) * 1.15)
    _put_title(figure, title)
    return figure


@with_style
def running_softmax(scores: Sequence[float], sizes: Sequence[int], step: int) -> Figure:
    """La softmax en línea tras leer unos trozos: el máximo y la suma que se llevan, y cómo encoge lo ya sumado.

    Arriba, las puntuaciones y el máximo m de las leídas; abajo, lo que cada una aporta a la suma, exp(x − m). El hueco
    sobre una barra es lo que aportaba antes de que el máximo subiera.

    Args:
        scores: (n,) puntuaciones.
        sizes: cuántas hay en cada trozo; suman n.
        step: trozos leídos, de 1 a len(sizes).

    Returns:
        `Figure`.

    Raises:
        ValueError: si los trozos no suman n o el paso no existe.
    """
    scores = _array(scores, "scores", 1)
    if sum(sizes) != len(scores) or not 1 <= step <= len(sizes):
        raise ValueError(
            f"Los trozos {list(sizes)} deben sumar {len(scores)} puntuaciones, y el paso, ir de 1 a {len(sizes)}; "
            f"llegó {step}."
        )
    start, end = sum(sizes[: step - 1]), sum(sizes[:step])
    place, new = np.arange(len(scores)), scores[:end].max()
    old = scores[:start].max() if start else new
    parts, total = np.exp(scores[:end] - new), np.exp(scores[:end] - new).sum()
    figure = new_figure(WIDTH, 4.3)
    above, below = figure.subplots(2, 1, sharex=True)
    colors = [GRID if i >= end else ACCENT if i >= start else MUTED for i in place]
    above.bar(place, scores, color=colors, width=0.75)
    above.axhline(0, color=INK, linewidth=0.9)
    above.plot([-0.5, end - 0.5], [new, new], color=ACCENT_2, linewidth=1.8, linestyle=(0, (4, 2)))
    above.annotate(f"m = {spanish_number(new, 1)}", (len(scores) - 0.5, new), ha="right", va="bottom",
                   xytext=(0, 2), textcoords="offset points", color=text_color(ACCENT_2))  # fmt: skip
    above.set_ylim(min(0, scores.min()) - 0.4, scores.max() + 0.9)
    above.set_title("puntuación", loc="left", fontsize=10, fontweight="normal", color=MUTED)
    below.bar(place[:start], np.exp(scores[:start] - old), width=0.75, facecolor="none", edgecolor=MUTED,
              linewidth=0.9, linestyle=(0, (2, 2)))  # fmt: skip
    below.bar(place[:end], parts, color=colors[:end], width=0.75)
    below.set_ylim(0, 1.08)
    below.set_title(f"exp(x − m); su suma, ℓ = {spanish_number(total)}", loc="left", fontsize=10, fontweight="normal",
                    color=MUTED)  # fmt: skip
    below.set_xticks(place, [str(i) for i in place])
    below.set_xlabel("clave")
    for axes in (above, below):
        axes.tick_params(axis="x", length=0)
        for edge in np.cumsum(sizes)[:-1]:
            axes.axvline(edge - 0.5, color=GRID, linewidth=1.2, zorder=0)
        decimal_comma(axes)
    below.set_xticks(place, [str(i) for i in place])
    factor = f"; lo anterior, × {spanish_number(np.exp(old - new))}" if start else ""
    _put_title(figure, f"Trozo {step} de {len(sizes)}{factor}")
    return figure


@with_style
def score_tiles(num_blocks: int, step: int) -> Figure:
    """La matriz de puntuaciones por baldosas: solo existe la que se está calculando.

    Args:
        num_blocks: bloques por lado.
        step: baldosas ya calculadas antes de la actual, por filas; num_blocks² cuando se ha acabado.

    Returns:
        `Figure`.

    Raises:
        ValueError: si el paso no está entre 0 y num_blocks².
    """
    last = num_blocks * num_blocks
    if not 0 <= step <= last:
        raise ValueError(f"Se esperaba un paso entre 0 y {last} y llegó {step}.")
    side, left, top = 2.6 / num_blocks, 0.62, 0.78
    figure, axes = _canvas(4.3)
    row, column = divmod(step, num_blocks)
    done = _tint(ACCENT, 0.16)
    order = np.arange(last).reshape(num_blocks, num_blocks)
    colors = [[ACCENT if i == step else done if i < step else None for i in line] for line in order]
    _cells(axes, left, top, colors, (side, side))
    label = {"ha": "center", "va": "center", "fontsize": 10, "color": MUTED}
    axes.text(left + 1.3, top - 0.52, "claves y valores, por bloques", **label)
    axes.text(left - 0.45, top + 1.3, "consultas, por bloques", rotation=90, **label)
    wide = 0.36
    _cells(axes, left + 2.85, top, [[ACCENT_2 if i == row and step < last else _tint(ACCENT_2, 0.25) if i < row or
                                     step == last else None] for i in range(num_blocks)], (wide, side))  # fmt: skip
    axes.text(left + 2.85 + wide / 2, top - 0.52, "m, ℓ y\nsalida", **label)
    if step < last:
        _cells(axes, left + column * side, top - 0.26, [[ACCENT]], (side, 0.15))
        _cells(axes, left - 0.26, top + row * side, [[ACCENT]], (0.15, side))
    text = (
        f"Baldosa {step + 1} de {last}. Existen a la vez: un bloque de\nconsultas, uno de claves y valores, su baldosa "
        "y lo\nacumulado de esas consultas."
        if step < last
        else "Acabado: queda la salida. La matriz entera\nno ha existido nunca."
    )
    axes.text(0.17, top + 2.78, text, ha="left", va="top", fontsize=10.5, color=INK)
    return figure
