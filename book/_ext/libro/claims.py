"""Afirmaciones medidas: una página muestra los valores que otra ha medido.

`mc.claim("id", valor)` guarda el valor en el cuaderno, y una página lo muestra con
`` {glue:text}`/notebooks/02_atencion.ipynb::id:.2f` ``. Aquí se asegura que la página se rehace cuando el valor cambia,
que el número lleva coma decimal y que una afirmación que falta detiene la construcción.
"""

import re

from docutils import nodes
from myst_nb.ext.glue.utils import PendingGlueReference
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.errors import ExtensionError


def decimal_comma(text: str) -> str:
    """Escribe con coma los decimales de un texto: «1.50» → «1,50». Las versiones («1.2.3») quedan igual."""
    return re.sub(r"(?<![\d.])(\d+)\.(\d+)(?![\d.]*\d)", r"\1,\2", text)


def _wanted(env: BuildEnvironment) -> dict[str, set[tuple[str, str]]]:
    """Lo que pide cada página: {página: {(cuaderno, identificador)}}."""
    if not hasattr(env, "libro_claims"):
        env.libro_claims = {}
    return env.libro_claims


def _note(app: Sphinx, doctree: nodes.document) -> None:
    env = app.env
    references = list(doctree.findall(PendingGlueReference))
    for reference in references:
        env.note_dependency(env.doc2path(reference.refdoc))
    if references:
        _wanted(env)[env.docname] = {(reference.refdoc, reference.key) for reference in references}


def _purge(app: Sphinx, env: BuildEnvironment, docname: str) -> None:
    _wanted(env).pop(docname, None)


def _merge(app: Sphinx, env: BuildEnvironment, docnames: set[str], other: BuildEnvironment) -> None:
    _wanted(env).update({name: value for name, value in _wanted(other).items() if name in docnames})


def check_claims(app: Sphinx, env: BuildEnvironment) -> None:
    """Detiene la construcción si un cuaderno no ha medido lo que otra página quiere mostrar.

    Raises:
        ExtensionError: con la página, el cuaderno y el identificador de cada afirmación que falta.
    """
    recorded = getattr(env, "nb_metadata", {})
    missing = [
        f"«{page}» muestra «{key}», pero «{notebook}» no la registra"
        for page, wanted in sorted(_wanted(env).items())
        for notebook, key in sorted(wanted)
        if key not in recorded.get(notebook, {}).get("glue", ())
    ]
    if missing:
        raise ExtensionError(
            "Faltan afirmaciones: " + "; ".join(missing) + ". Comprueba el identificador de mc.claim en ese cuaderno."
        )


def _write_commas(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    for node in doctree.findall(nodes.inline):
        if "pasted-text" in node.get("classes", ()):
            node[:] = [nodes.Text(decimal_comma(node.astext()))]


def setup(app: Sphinx) -> None:
    """Registra la comprobación de afirmaciones y la coma decimal."""
    app.connect("doctree-read", _note)
    app.connect("env-purge-doc", _purge)
    app.connect("env-merge-info", _merge)
    app.connect("env-updated", check_claims)
    app.connect("doctree-resolved", _write_commas)
