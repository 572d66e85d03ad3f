"""Los pesos del laboratorio que no van dentro de su página: un archivo por punto de control, en `_static`.

La página los pide al mover el control del entrenamiento. Solo se escriben si alguna página lleva el laboratorio.
"""

import re
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx

MARK = re.compile(r'class="mc-lab[\s"]')


def write_weights(folder: Path) -> None:
    """Escribe los archivos que falten o hayan cambiado.

    Args:
        folder: la carpeta `_static` del libro construido.
    """
    from multicabeza import laboratory

    folder.mkdir(parents=True, exist_ok=True)
    for name, text in laboratory.weight_files().items():
        path = folder / name
        if not path.is_file() or path.read_text("utf8") != text:
            path.write_text(text, "utf8")


def _write(app: Sphinx, pagename: str, templatename: str, context: dict, doctree: nodes.document | None) -> None:
    if app.builder.format == "html" and MARK.search(context.get("body") or ""):
        write_weights(Path(app.outdir) / "_static")


def setup(app: Sphinx) -> None:
    """Registra la escritura de los pesos."""
    app.connect("html-page-context", _write)
