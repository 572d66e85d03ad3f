"""Páginas sueltas con las salidas de `views`, para probarlas sin construir el libro.

Hay dos clases: como en el libro, con los programas y estilos aparte, en `_static`; y como en un cuaderno, con todo
dentro de cada salida. Los colores son los del tema del libro.
"""

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from multicabeza import views
from multicabeza.scripts import compact

WEB = Path(views.__file__).parent / "web"
THEME = """
body { font: 16px/1.6 sans-serif; margin: 0; padding: 16px; max-width: 740px; background: #fff; color: #1f2933; }
html[data-theme=light] { --pst-color-text-base: #1f2933; --pst-color-text-muted: #51606c; --pst-color-border: #d3dce3;
  --pst-color-surface: #f4f7f9; --pst-color-background: #fff; --pst-color-link: #0b6e99;
  --pst-color-secondary: #a8420a; }
html[data-theme=dark] { --pst-color-text-base: #d5dde4; --pst-color-text-muted: #a3b0bb; --pst-color-border: #33434f;
  --pst-color-surface: #1a252e; --pst-color-background: #10171d; --pst-color-link: #6fc0e6;
  --pst-color-secondary: #f3ab6d; color-scheme: dark; }
html[data-theme=dark] body { background: #10171d; color: #d5dde4; }
"""


def make_page(folder: Path, show: Callable[[list[str]], None], scripts: Iterable[str], *, in_book: bool) -> Path:
    """Escribe `cap/prueba.html` en una carpeta nueva, con su `_static`.

    Args:
        folder: la carpeta; no debe existir.
        show: llama a funciones de `views`; recibe la lista de bloques, por si quiere añadir HTML suyo entre ellas.
        scripts: los programas de `web/` que carga la página si es como la del libro.
        in_book: si es como en el libro.

    Returns:
        La página.
    """
    blocks: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MULTICABEZA_BOOK", "1" if in_book else "0")
        patch.setattr(views, "display", lambda item: blocks.append(item.data))
        show(blocks)
    shutil.copytree(WEB, folder / "_static")
    head = ""
    if in_book:
        for script in (folder / "_static").glob("*.js"):  # aligerados, como los sirve el libro
            script.write_text(compact(script.read_text("utf8")), "utf8")
        styles = (f"{name}.css" for name in ("base", *scripts) if (WEB / f"{name}.css").is_file())
        head = "".join(f'<link rel="stylesheet" href="../_static/{name}">' for name in styles)
        head += "".join(f'<script defer src="../_static/{name}.js"></script>' for name in scripts)
    page = folder / "cap" / "prueba.html"
    page.parent.mkdir()
    page.write_text(
        '<!doctype html><html lang="es" data-theme="light" data-content_root="../"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width"><title>Prueba</title><link rel="icon" href="data:,">'
        f"<style>{THEME}</style>{head}</head><body><main><article><h1>Prueba</h1>{''.join(blocks)}</article></main>"
        "</body></html>",
        "utf8",
    )
    return page
