"""Las fórmulas de los cuadernos, tal como se escriben."""

from docutils import nodes
from sphinx.application import Sphinx


def keep_tags(app: Sphinx, doctree: nodes.document) -> None:
    r"""Deja sin envolver las fórmulas con `\tag`: Sphinx mete en `split` las que llevan `\\`, y ahí no cabe."""
    for formula in doctree.findall(nodes.math_block):
        if r"\tag" in formula.astext() and not formula.get("nowrap"):
            formula["nowrap"] = True
            formula.children = [nodes.Text(rf"\[{formula.astext()}\]")]


def setup(app: Sphinx) -> None:
    """Registra el arreglo."""
    app.connect("doctree-read", keep_tags)
