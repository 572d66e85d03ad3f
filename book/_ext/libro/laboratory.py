"""Los pesos de los modelos que funcionan en la página y no van dentro de ella: archivos de programa, en `_static`.

El laboratorio pide uno al mover el control del entrenamiento; el cuadro de interruptores, el suyo, al tocar la primera
cabeza. Solo se escriben si alguna página los lleva.
"""

import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx

# La marca de la página y el módulo de `multicabeza` que sabe qué archivos hacen falta.
MARKS = {"mc-lab": "laboratory", "mc-switchboard": "switches"}


def weight_files(body: str) -> list[Callable[[], dict[str, str]]]:
    """Quién hace los archivos que una página pide.

    Args:
        body: HTML del cuerpo de la página.

    Returns:
        Las funciones `weight_files` de los módulos que aparecen en ella.
    """
    found = [module for mark, module in MARKS.items() if re.search(rf'class="{mark}[\s"]', body)]
    return [import_module(f"multicabeza.{module}").weight_files for module in found]


def write_weights(folder: Path, files: dict[str, str]) -> None:
    """Escribe los archivos que falten o hayan cambiado.

    Args:
        folder: la carpeta `_static` del libro construido.
        files: nombre → contenido.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        path = folder / name
        if not path.is_file() or path.read_text("utf8") != text:
            path.write_text(text, "utf8")


def _write(app: Sphinx, pagename: str, templatename: str, context: dict, doctree: nodes.document | None) -> None:
    if app.builder.format == "html":
        for make in weight_files(context.get("body") or ""):
            write_weights(Path(app.outdir) / "_static", make())


def setup(app: Sphinx) -> None:
    """Registra la escritura de los pesos."""
    app.connect("html-page-context", _write)
