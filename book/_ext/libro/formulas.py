"""Las fórmulas de los cuadernos, tal como se escriben."""

import re

from docutils import nodes
from sphinx.application import Sphinx

OPENING = re.compile(r"[(\[«¿]+$")
CLOSING = re.compile(r"^[)\]».,;:?]+")
LONGEST = 30  # signos de TeX: una fórmula más larga se puede salir de un teléfono, y entonces mejor que se parta
TOGETHER = "libro-junto"


def keep_tags(app: Sphinx, doctree: nodes.document) -> None:
    r"""Deja sin envolver las fórmulas con `\tag`: Sphinx mete en `split` las que llevan `\\`, y ahí no cabe."""
    for formula in doctree.findall(nodes.math_block):
        if r"\tag" in formula.astext() and not formula.get("nowrap"):
            formula["nowrap"] = True
            formula[:] = [nodes.Text(rf"\[{formula.astext()}\]")]


def keep_signs(app: Sphinx, doctree: nodes.document, docname: str = "") -> None:
    """Ata cada fórmula corta a su paréntesis y a su coma: los navegadores parten la línea antes y después de ella."""
    for formula in list(doctree.findall(nodes.math)):
        parent = formula.parent
        place = parent.index(formula)
        before, after = parent[place - 1] if place else None, parent[place + 1] if place + 1 < len(parent) else None
        opening = OPENING.search(before) if isinstance(before, nodes.Text) else None
        closing = CLOSING.search(after) if isinstance(after, nodes.Text) else None
        if not (opening or closing) or len(formula.astext()) > LONGEST:
            continue
        together = nodes.inline(classes=[TOGETHER])
        parent.replace(formula, together)
        if opening:
            together += nodes.Text(opening[0])
            parent.replace(before, nodes.Text(before[: opening.start()]))
        together += formula
        if closing:
            together += nodes.Text(closing[0])
            parent.replace(after, nodes.Text(after[closing.end() :]))


def setup(app: Sphinx) -> None:
    """Registra los arreglos; el segundo, cuando todo lo que lee la página ya la ha leído."""
    app.connect("doctree-read", keep_tags)
    app.connect("doctree-resolved", keep_signs, priority=950)
