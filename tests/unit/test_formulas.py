"""Una fórmula corta no se separa de su paréntesis ni de su coma."""

import sys

from docutils import nodes
from docutils.utils import new_document

from tests.unit.minilibro import REPO

sys.path.insert(0, str(REPO / "book" / "_ext"))
from libro.formulas import LONGEST, keep_signs, keep_tags
from libro.spanish import keep_together


def page(*pieces: nodes.Node) -> nodes.paragraph:
    """Un párrafo con esas piezas, ya pasado por el arreglo."""
    document, paragraph = new_document("página"), nodes.paragraph("", "", *pieces)
    document += paragraph
    keep_signs(None, document)
    return paragraph


def math(text: str) -> nodes.math:
    """Una fórmula."""
    return nodes.math(text, text)


def test_signs_stay_with_their_formula():
    """Paréntesis y coma van con su fórmula, el resto del texto no, y nada se pierde ni cambia de orden."""
    paragraph = page(nodes.Text("cabezas ("), math("d_k"), nodes.Text(", "), math("W^O"), nodes.Text("), y"))
    together = [node.astext() for node in paragraph.findall(nodes.inline)]
    assert together == ["(d_k,", "W^O),"]
    assert paragraph.astext() == "cabezas (d_k, W^O), y"


def test_what_needs_no_tie_is_left_alone():
    """Sin signos al lado, o si es larga, la fórmula queda como estaba."""
    for pieces in (
        [nodes.Text("con "), math("d_k"), nodes.Text(" y")],
        [math("x")],
        [nodes.Text("("), math("x" * (LONGEST + 1)), nodes.Text(")")],
    ):
        paragraph = page(*pieces)
        assert not list(paragraph.findall(nodes.inline))


def test_numbered_formula_goes_through_every_mend():
    """Lo que un arreglo cambia lo pueden leer los siguientes: el texto nuevo sabe dónde está, y el TeX no se toca."""
    document, formula = new_document("página"), nodes.math_block("", r"d_k = 64 \tag{1}")
    document += formula
    keep_tags(None, document)
    keep_together(document)
    assert formula.astext() == r"\[d_k = 64 \tag{1}\]"
    assert formula.children[0].parent is formula
