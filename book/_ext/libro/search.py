"""Búsqueda: sin tildes, primero los títulos, y resúmenes de prosa.

El índice es el de Sphinx con las palabras sin tildes. El resumen de cada resultado no se saca de la página (pesa, y
desde `file://` no se puede pedir): `_static/busca-texto.js` lleva la prosa de todo el libro, sin código ni fórmulas, y
solo lo carga la página de búsqueda.
"""

import json
import re
import unicodedata
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.search.es import SearchSpanish

PROSE_FILE = "busca-texto.js"


def without_accents(text: str) -> str:
    """Quita tildes y diéresis, pero no la de la eñe: «atención» → «atencion», «año» → «año»."""
    decomposed = re.sub(r"(?!\u0303)[\u0300-\u036f]", "", unicodedata.normalize("NFD", text))
    return unicodedata.normalize("NFC", decomposed)


class AccentlessSpanish(SearchSpanish):
    """El español de Sphinx, que indexa «atención» y «atencion» como la misma palabra."""

    def stem(self, word: str) -> str:
        """Raíz de una palabra, sin tildes."""
        return super().stem(without_accents(word.lower()))


def readable_math(source: str) -> str:
    """Una fórmula corta, legible como texto («d_k»); si necesita órdenes de LaTeX, puntos suspensivos."""
    plain = source.replace(r"\,", "").replace("{", "").replace("}", "")
    return plain if "\\" not in plain and len(plain) <= 24 else "…"


def prose(node: nodes.Node) -> str:
    """Texto corrido de un nodo: sin código, sin HTML incrustado y sin LaTeX."""
    if isinstance(node, nodes.Text):
        return node.astext()
    if isinstance(node, nodes.math):
        return readable_math(node.astext())
    if isinstance(node, (nodes.raw, nodes.literal_block, nodes.math_block, nodes.comment, nodes.system_message)):
        return " "
    block = not isinstance(node, (nodes.Inline, nodes.Text))
    return "".join(prose(child) for child in node.children) + (" " if block else "")


def section_texts(doctree: nodes.document) -> list[list[str]]:
    """Prosa de una página, cada párrafo una vez: [[identificador, texto], …], sus apartados y sus definiciones."""
    pieces: dict[str, list[str]] = {}
    for part in doctree.findall(lambda part: isinstance(part, (nodes.paragraph, nodes.term))):
        pieces.setdefault(_place(part), []).append(prose(part))
    return [[name, _joined(texts)] for name, texts in pieces.items()]


def _joined(texts: list[str]) -> str:
    """Une párrafos; lo que no acaba en puntuación (una celda, un término, un pie) no se pega a lo que sigue."""
    flat = [text for text in map(_flat, texts) if text]
    parts = [text if re.search(r"[.:;,?!…»)]$", text) else f"{text} ·" for text in flat[:-1]]
    return " ".join([*parts, *flat[-1:]])


def _flat(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def _place(node: nodes.Node) -> str:
    """El identificador con que se llega a un párrafo: el de su definición o el de su apartado; si no, ninguno."""
    while node is not None:
        if isinstance(node, nodes.definition_list_item):
            names = [name for term in node.findall(nodes.term) for name in term["ids"]]
        else:
            names = node["ids"] if isinstance(node, nodes.section) else []
        if names:
            return names[0]
        node = node.parent
    return ""


def _prose_of(env: BuildEnvironment) -> dict[str, list[list[str]]]:
    if not hasattr(env, "libro_prose"):
        env.libro_prose = {}
    return env.libro_prose


def _collect(app: Sphinx, doctree: nodes.document) -> None:
    _prose_of(app.env)[app.env.docname] = section_texts(doctree)


def _purge(app: Sphinx, env: BuildEnvironment, docname: str) -> None:
    _prose_of(env).pop(docname, None)


def _merge(app: Sphinx, env: BuildEnvironment, docnames: set[str], other: BuildEnvironment) -> None:
    _prose_of(env).update({name: value for name, value in _prose_of(other).items() if name in docnames})


def _load(app: Sphinx, pagename: str, templatename: str, context: dict, doctree: nodes.document | None) -> None:
    if pagename == "search":
        # Antes que la búsqueda de Sphinx: define cómo se puntúa cada resultado. Después: el resto.
        app.add_js_file("busca-orden.js", priority=100)
        app.add_js_file(PROSE_FILE, loading_method="defer")
        app.add_js_file("busca.js", loading_method="defer")


def _write(app: Sphinx, exception: Exception | None) -> None:
    if exception is None and app.builder.format == "html":
        texts = json.dumps(_prose_of(app.env), ensure_ascii=False, separators=(",", ":"))
        target = Path(app.outdir) / "_static" / PROSE_FILE
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(f"globalThis.PROSA_DEL_LIBRO = {texts};\n", "utf-8")


def setup(app: Sphinx) -> None:
    """Registra la búsqueda del libro."""
    app.add_search_language(AccentlessSpanish)
    app.connect("doctree-read", _collect)
    app.connect("env-purge-doc", _purge)
    app.connect("env-merge-info", _merge)
    app.connect("html-page-context", _load, priority=890)
    app.connect("build-finished", _write, priority=880)
