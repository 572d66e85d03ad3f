"""La fuente de iconos del tema, reducida a los iconos que el libro usa.

El tema dibuja una docena de iconos con una fuente de 156 KB. Aquí se recorta a esos signos y se declara con el mismo
nombre y solo para ellos (`unicode-range`): el navegador ya no pide la grande, que sigue ahí por si falta alguno.
"""

import logging
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from docutils import nodes
from fontTools import subset
from sphinx.application import Sphinx

from libro.assets import package_folder

STYLE_FILE = "iconos.css"
# Estilo de la fuente → iconos que usan las plantillas de los temas y las nuestras.
ICONS = {
    "fa-solid-900": (
        "angle-left angle-right arrow-up bars chevron-down circle-half-stroke code download expand file file-lines "
        "file-pdf home lightbulb list magnifying-glass moon pencil play rocket sun xmark"
    ).split(),
    "fa-brands-400": ["github", "gitlab"],
}
# Signos de los veredictos de `mc.check`: no todos los equipos tienen letras con ellos.
VERDICTS = {"✓": "check", "✗": "xmark", "⏳": "hourglass-half"}
VERDICTS_FONT = ("signos", "Signos del libro")
FAMILIES = {"fa-solid-900": ("Font Awesome 6 Free", 900), "fa-brands-400": ("Font Awesome 6 Brands", 400)}


def theme_static() -> Path:
    """Carpeta `static` del tema pydata."""
    return package_folder("pydata_sphinx_theme") / "theme" / "pydata_sphinx_theme" / "static"


def code_points(css: str, names: Iterable[str]) -> dict[str, int]:
    """Signo de cada icono según la hoja de estilo del tema.

    Args:
        css: hoja de estilo, con reglas como `.fa-bars:before{content:"\\f0c9"}`.
        names: iconos, sin el prefijo `fa-`.

    Raises:
        KeyError: si el tema no tiene un icono.
    """
    found = {}
    for selectors, sign in re.findall(r'((?:\.fa-[\w-]+:before,?)+)\{content:"(\\[0-9a-f]+|.)"\}', css):
        code = int(sign[1:], 16) if sign.startswith("\\") else ord(sign)
        found |= dict.fromkeys(re.findall(r"\.fa-([\w-]+):before", selectors), code)
    return {name: found[name] for name in names}


def admonition_signs(css: str) -> set[int]:
    """Signos de las variables `--pst-icon-…`: los que el tema pone en avisos, enlaces y resaltados."""
    return {ord(sign) for sign in re.findall(r'--pst-icon-[a-z-]+:"([\ue000-\uf8ff])"', css)}


def write_subset(source: Path, codes: Mapping[int, int], target: Path) -> set[int]:
    """Escribe en formato WOFF los signos pedidos de una fuente.

    Args:
        source: fuente completa.
        codes: {signo con el que se escribe: signo que tiene en la fuente}.
        target: archivo que se escribe.

    Returns:
        Los signos con los que se escribe, de los que la fuente tiene.
    """
    font = subset.load_font(str(source), subset.Options())
    glyphs = font.getBestCmap()
    present = {code: glyphs[inside] for code, inside in codes.items() if inside in glyphs}
    for table in font["cmap"].tables:
        if table.isUnicode():
            table.cmap.update(present)
    options = subset.Options(flavor="woff", layout_features=[], notdef_outline=True)
    worker = subset.Subsetter(options)
    worker.populate(unicodes=present)
    worker.subset(font)
    subset.save_font(font, str(target), options)
    return set(present)


def font_face(family: str, weight: int, name: str, codes: set[int]) -> str:
    """Regla que declara una fuente de `NAME.woff` solo para unos signos."""
    signs = ",".join(f"U+{code:x}" for code in sorted(codes))
    return (
        f'@font-face{{font-family:"{family}";font-style:normal;font-weight:{weight};font-display:block;'
        f'src:url({name}.woff) format("woff");unicode-range:{signs}}}\n'
    )


def _load(app: Sphinx, pagename: str, templatename: str, context: dict, doctree: nodes.document | None) -> None:
    app.add_css_file(STYLE_FILE, priority=890)


def _write(app: Sphinx, exception: Exception | None) -> None:
    style = Path(app.outdir) / "_static" / STYLE_FILE
    if exception is not None or app.builder.format != "html":
        return
    css = (theme_static() / "styles" / "pydata-sphinx-theme.css").read_text("utf-8")
    fonts = theme_static() / "vendor" / "fontawesome" / "webfonts"
    rules = []
    for name, icons in ICONS.items():
        codes = set(code_points(css, icons).values()) | admonition_signs(css)
        present = write_subset(fonts / f"{name}.ttf", {code: code for code in codes}, style.with_name(f"{name}.woff"))
        rules.append(font_face(*FAMILIES[name], name, present))
    name, family = VERDICTS_FONT
    inside = code_points(css, VERDICTS.values())
    codes = {ord(sign): inside[icon] for sign, icon in VERDICTS.items()}
    present = write_subset(fonts / "fa-solid-900.ttf", codes, style.with_name(f"{name}.woff"))
    rules.append(font_face(family, 400, name, present))
    style.write_text("".join(rules), "utf-8")


def setup(app: Sphinx) -> None:
    """Registra la fuente de iconos reducida."""
    logging.getLogger("fontTools").setLevel(logging.WARNING)
    app.connect("html-page-context", _load, priority=889)
    app.connect("build-finished", _write, priority=888)
