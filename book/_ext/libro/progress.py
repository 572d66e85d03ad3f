"""Las actividades de repaso: se comprueban antes de nada, y «Mi progreso» sabe cuáles hay.

Una página con `<div class="mc-progress"></div>` recibe la lista de preguntas de cada capítulo del libro. Un archivo de
actividades con fallos detiene la construcción, aunque ningún cuaderno lo enseñe.
"""

import json
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.errors import ExtensionError

from multicabeza import activities

PLACE = '<div class="mc-progress"></div>'


def activity_folders(root: Path) -> list[Path]:
    """Carpetas `activities/` de los paquetes de `src/`."""
    return sorted(path for path in root.glob("src/*/activities") if path.is_dir())


def check_activities(root: Path) -> None:
    """Lee todas las actividades.

    Raises:
        ExtensionError: con el archivo, la línea y lo que se esperaba de cada fallo.
    """
    faults = []
    for folder in activity_folders(root):
        for chapter in activities.chapters(folder):
            try:
                activities.load(chapter, folder)
            except activities.ActivityError as error:
                faults.append(str(error))
    if faults:
        raise ExtensionError("Actividades con fallos:\n" + "\n".join(faults))


def predictions(notebook: Path) -> int:
    """Cuántas preguntas «predice» lleva un cuaderno."""
    cells = json.loads(notebook.read_text("utf-8"))["cells"] if notebook.is_file() else []
    return sum(cell["cell_type"] == "code" and "".join(cell["source"]).startswith("mc.predict(") for cell in cells)


def book_catalogue(app: Sphinx, pagename: str) -> list[dict]:
    """Los capítulos del libro que tienen repaso, con su título, su dirección desde una página y sus preguntas."""
    root, found = Path(app.srcdir), []
    for folder in activity_folders(root):
        for one in activities.catalogue(folder):
            start = f"notebooks/{one['chapter']}_"
            page = next((doc for doc in sorted(app.env.found_docs) if doc.startswith(start)), None)
            if page:
                title, href = app.env.titles[page].astext(), app.builder.get_relative_uri(pagename, page) + "#repaso"
                count = predictions(root / f"{page}.ipynb")
                found.append(one | {"title": title, "href": href, "predictions": count})
    return found


def _check(app: Sphinx, config: Config) -> None:
    check_activities(Path(app.srcdir))


def _note(app: Sphinx, doctree: nodes.document) -> None:
    """«Mi progreso» se rehace cuando cambian las actividades o los cuadernos que cuenta."""
    if any(PLACE in node.astext() for node in doctree.findall(nodes.raw)):
        root = Path(app.srcdir)
        for pattern in ("src/*/activities/*.yml", "notebooks/*.ipynb"):
            for path in sorted(root.glob(pattern)):
                app.env.note_dependency(str(path))


def _fill(app: Sphinx, pagename: str, templatename: str, context: dict, doctree: nodes.document | None) -> None:
    body = context.get("body") or ""
    if PLACE in body:
        context["body"] = body.replace(PLACE, activities.progress_html(book_catalogue(app, pagename)))


def setup(app: Sphinx) -> None:
    """Registra la comprobación y «Mi progreso»; antes de que se elijan los programas de la página."""
    app.connect("config-inited", _check, priority=1)
    app.connect("doctree-read", _note)
    app.connect("html-page-context", _fill, priority=800)
