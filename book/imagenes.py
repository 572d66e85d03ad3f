"""Dibuja las imágenes con las que el libro se presenta fuera de sus páginas, con los pesos de la portada y su paleta.

- `python book/imagenes.py` dibuja `_static/tarjeta.png`, lo que se ve al compartir un enlace, y `_static/icono.png`, el
  icono en la pantalla de un teléfono.
- `python book/imagenes.py _build/html` compone además `presentacion.png`, la imagen del README, con páginas del libro
  construido.

Las dibuja el Chromium de las pruebas. Cada archivo lleva dentro la huella de su dibujo (en la del README, sin los
retratos): si cambia y la imagen no se rehace, una prueba lo dice.
"""

import base64
import hashlib
import io
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from PIL import Image
from PIL.PngImagePlugin import PngInfo

BOOK = Path(__file__).resolve().parent
STATIC = BOOK / "_static"
COVER = BOOK / "portada.html"
CARD, ICON, PRESENTATION = STATIC / "tarjeta.png", STATIC / "icono.png", BOOK / "presentacion.png"
CARD_SIZE, ICON_SIZE, PRESENTATION_SIZE = (1200, 630), (180, 180), (1600, 900)
TITLE, MOTTO = "Atención multicabeza", "Un libro interactivo que mide lo que cuenta"
MARK = "huella"  # nombre con el que la imagen guarda la huella de su dibujo
INK, ACCENT, PAPER, SURFACE, LINE = "#14344a", "#0b6e99", "#ffffff", "#f4f7f9", "#d3dce3"
BASE = (
    "*{margin:0;box-sizing:border-box}"
    f'body{{background:{PAPER};color:{INK};font-family:"Noto Sans","Liberation Sans","DejaVu Sans",sans-serif}}'
)
# Lo que se retrata del libro construido: página, elemento, ancho de la ventana, alto del recorte y margen.
SHOTS = {
    "laboratorio": ("book/laboratorio.html", ".mc-lab .results", 1280, 740, 14),
    "cabezas": ("notebooks/05_especializacion.html", ".mc-tokens", 390, 960, 18),
}


def weave() -> str:
    """El dibujo apaisado de la portada y los colores de sus cabezas, tomados de `portada.html`.

    Raises:
        ValueError: si la portada no lleva el dibujo.
    """
    text = COVER.read_text("utf-8")
    drawing = re.search(r'<svg class="apaisada".*?</svg>', text, re.DOTALL)
    colors = "".join(re.findall(r"\.portada \.c\d+\{--c:#[0-9a-f]{6}\}", text))
    if not drawing or not colors:
        raise ValueError(f"En {COVER.name} falta el dibujo: rehazlo con «python book/portada.py».")
    style = colors.replace(".portada ", "") + (
        "path{fill:var(--c)}path.lazo{fill:none;stroke:var(--c)}"
        f"svg.apaisada text{{fill:{INK};font-size:27px;font-weight:600;text-anchor:middle;letter-spacing:-.01em}}"
    )
    return f"<style>{style}</style>{drawing[0]}"


def mark() -> str:
    """El dibujo del logotipo."""
    return (STATIC / "logo.svg").read_text("utf-8")


def card() -> str:
    """La tarjeta: título, que se lee también con un cuarto de su ancho, y el tejido de las doce cabezas."""
    style = (
        "body{width:1200px;height:630px;overflow:hidden;padding:52px 64px 0;position:relative}"
        "header{display:flex;align-items:center;gap:30px}header>svg{width:104px;height:104px;flex:none}"
        "h1{font-size:94px;line-height:1;font-weight:700;letter-spacing:-.035em;white-space:nowrap}"
        f"p{{font-size:39px;line-height:1.2;margin-top:20px;color:{ACCENT};font-weight:600;letter-spacing:-.01em}}"
        "svg.apaisada{position:absolute;left:110px;top:226px;width:980px;height:auto}"
        # Los arcos de abajo se desvanecen: la tarjeta es más ancha que el dibujo.
        f"i{{position:absolute;left:0;right:0;bottom:0;height:90px;background:linear-gradient(#fff0,{PAPER})}}"
    )
    return page(style, f"<header>{mark()}<h1>{TITLE}</h1></header><p>{MOTTO}</p>{weave()}<i></i>")


def icon() -> str:
    """El logotipo sobre blanco: el teléfono recorta él las esquinas."""
    return page("body{width:180px;height:180px;padding:14px}svg{width:152px;height:152px}", mark())


def presentation(shots: dict[str, str]) -> str:
    """La imagen del README: dos trozos vivos del libro, uno como en el portátil y otro como en el teléfono.

    Args:
        shots: imagen de cada trozo de `SHOTS`, como `data:`.
    """
    style = (
        f"body{{width:1600px;height:900px;overflow:hidden;position:relative;background:{SURFACE}}}"
        f"figure{{position:absolute;background:{PAPER};border:2px solid {LINE};overflow:hidden}}"
        "figure img{display:block;width:100%}"
        ".ancha{left:500px;top:64px;width:694px;border-radius:18px}"
        f".movil{{left:1226px;top:64px;width:332px;height:772px;border-radius:40px;border:11px solid {INK}}}"
        ".texto{position:absolute;left:56px;top:72px;width:420px}.texto>svg{width:92px;height:92px}"
        "h1{font-size:66px;line-height:1.04;letter-spacing:-.035em;margin-top:28px}"
        f".texto p{{font-size:30px;line-height:1.3;margin-top:22px;color:{ACCENT};font-weight:600}}"
        "svg.apaisada{position:absolute;left:28px;top:590px;width:440px;height:auto}"
    )
    motto = MOTTO.replace(" que mide", "<br>que mide")
    return page(
        style,
        f'<div class="texto">{mark()}<h1>{TITLE.replace(" ", "<br>")}</h1><p>{motto}</p></div>{weave()}'
        f'<figure class="ancha"><img src="{shots["laboratorio"]}" alt=""></figure>'
        f'<figure class="movil"><img src="{shots["cabezas"]}" alt=""></figure>',
    )


def page(style: str, body: str) -> str:
    """Un documento con su estilo."""
    return (
        f'<!doctype html><html lang="es"><meta charset="utf-8"><style>{BASE}{style}</style><body>{body}</body></html>'
    )


def fingerprint(document: str) -> str:
    """Huella de un dibujo: doce cifras hexadecimales."""
    return hashlib.sha256(document.encode()).hexdigest()[:12]


def write(data: bytes, target: Path, document: str, colors: int) -> None:
    """Guarda una captura con pocos colores, que pesa la cuarta parte, y con la huella de su dibujo.

    Args:
        data: la captura, en PNG.
        target: archivo que se escribe.
        document: lo que se ha dibujado.
        colors: colores de la paleta.
    """
    image = Image.open(io.BytesIO(data)).convert("RGB").quantize(colors, kmeans=2, dither=Image.Dither.NONE)
    info = PngInfo()
    info.add_text(MARK, fingerprint(document))
    image.save(target, optimize=True, pnginfo=info)
    print(f"{target.relative_to(BOOK.parent)}: {image.width}×{image.height}, {target.stat().st_size / 1000:.0f} KB")


@contextmanager
def chromium() -> Iterator[object]:
    """Un Chromium de Playwright; es el de las pruebas.

    Raises:
        SystemExit: si no hay ninguno; dice qué caminos hay.
    """
    from playwright.sync_api import sync_playwright

    sys.path.insert(0, str(BOOK.parent))
    from tests.browser.chromium import WAYS, find

    executable = find()
    if executable is None:
        raise SystemExit(WAYS.replace("para las pruebas", "con el que dibujar"))
    flags = ["--disable-gpu", "--no-first-run", "--disable-background-networking"]
    flags += ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=flags)
        yield browser
        browser.close()


def draw(browser, document: str, size: tuple[int, int]) -> bytes:
    """Captura de un documento, en PNG."""
    place = browser.new_page(viewport={"width": size[0], "height": size[1]})
    place.set_content(document, wait_until="load")
    place.evaluate("document.fonts.ready")
    data = place.screenshot()
    place.close()
    return data


def shoot(browser, folder: Path) -> dict[str, str]:
    """Retrata los trozos de `SHOTS` en el libro construido, ya en marcha: {nombre: imagen como `data:`}."""
    from pdf import served

    taken = {}
    with served(folder) as address:
        for name, (path, selector, width, height, margin) in SHOTS.items():
            place = browser.new_page(viewport={"width": width, "height": 1200}, device_scale_factor=2, locale="es-ES")
            place.goto(address + path, wait_until="load")
            place.add_style_tag(content=".bd-header-article, .bd-header { display: none !important }")
            target = place.locator(selector).first
            target.scroll_into_view_if_needed()
            place.wait_for_timeout(4000)
            box, down = target.bounding_box(), place.evaluate("scrollY")
            left = max(0, box["x"] - margin)
            clip = {"x": left, "y": box["y"] + down - margin, "width": box["width"] + 2 * margin, "height": height}
            data = place.screenshot(clip=clip, full_page=True)
            taken[name] = f"data:image/png;base64,{base64.b64encode(data).decode()}"
            place.close()
    return taken


def main(arguments: list[str]) -> int:
    """Dibuja las imágenes; con la carpeta del libro construido, también la del README."""
    with chromium() as browser:
        write(draw(browser, card(), CARD_SIZE), CARD, card(), 256)
        write(draw(browser, icon(), ICON_SIZE), ICON, icon(), 128)
        if arguments:
            document = presentation(shoot(browser, Path(arguments[0])))
            write(draw(browser, document, PRESENTATION_SIZE), PRESENTATION, presentation(dict.fromkeys(SHOTS, "")), 256)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
