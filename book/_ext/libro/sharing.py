"""Lo que una página dice de sí misma fuera del libro: la descripción de los buscadores y la tarjeta de un enlace.

La descripción sale de la propia página: «La idea en una frase» de los capítulos y, en las demás, su primer párrafo. La
imagen y la dirección de la tarjeta tienen que ser absolutas: solo se escriben cuando el libro tiene dirección pública
(`repository.url` de `_config.yml`).
"""

import html
import re
from collections.abc import Iterator

from docutils import nodes
from sphinx.application import Sphinx

from libro.search import prose

IDEA = "La idea en una frase"
ENOUGH, MOST = 70, 200  # letras: con menos, se añade la frase siguiente; con más, se corta
CARD, CARD_SIZE = "tarjeta.png", (1200, 630)
CARD_ALT = (
    "Atención multicabeza: un libro interactivo que mide lo que cuenta. Debajo, los arcos de doce cabezas de atención "
    "sobre la frase «she drank her tea because she was thirsty»."
)
ICON = "icono.png"
# Colores de fondo de libro.css: los que toma la barra del navegador en un teléfono.
THEME_COLORS = {"light": "#ffffff", "dark": "#10171d"}


def sentences(text: str) -> list[str]:
    """Las frases de un párrafo."""
    return re.split(r"(?<=[.?!…»])\s+(?=[¿¡«A-ZÁÉÍÓÚÑÜ0-9])", text) if text else []


def shortened(text: str) -> str:
    """Las primeras frases de un texto, hasta que digan algo; si son muy largas, cortadas entre palabras.

    Args:
        text: texto corrido.
    """
    text = re.sub(r"\s+", " ", text).replace(" :", ":").strip()
    kept = ""
    for sentence in sentences(text):
        if len(kept) >= ENOUGH:
            break
        kept = f"{kept} {sentence}".strip()
    if len(kept) <= MOST:
        return kept
    start = kept[: MOST - 1]
    # Mejor donde el texto respira; si no hay dónde, entre dos palabras.
    clause = re.match(rf"(.{{{ENOUGH},}})(?=[,;:.] )", start)
    return (clause[1] if clause else re.sub(r"[\s(«]+\S*$", "", start)) + "…"


def _paragraphs(node: nodes.Node) -> Iterator[str]:
    """Los párrafos de un apartado y de los que tiene dentro, en orden; no los de tablas, listas o avisos."""
    for child in node.children:
        if isinstance(child, nodes.paragraph):
            yield prose(child)
        elif isinstance(child, nodes.section) or (
            isinstance(child, nodes.container) and "cell" not in child["classes"]
        ):
            yield from _paragraphs(child)


def description(doctree: nodes.document) -> str:
    """Descripción de una página; vacía si no tiene texto corrido.

    Args:
        doctree: la página.
    """
    for section in doctree.findall(nodes.section):
        if section.next_node(nodes.title).astext() == IDEA:
            return shortened(next(_paragraphs(section), ""))
    return shortened(next((text for text in _paragraphs(doctree) if text.strip()), ""))


def tags(title: str, about: str, *, book: str, front: bool, url: str = "", image: str = "") -> str:
    """Las etiquetas `<meta>` de una página.

    Args:
        title: título de la página, sin marcas.
        about: su descripción; vacía si no la hay.
        book: título del libro.
        front: si es la portada.
        url: dirección absoluta de la página; vacía si el libro no tiene.
        image: dirección absoluta de la tarjeta; vacía si el libro no tiene.
    """
    names = {"description": about, "twitter:card": "summary_large_image" if image else "summary"}
    properties = {
        "og:title": book if front else title,
        "og:description": about,
        "og:type": "website" if front else "article",
        "og:locale": "es_ES",
        "og:site_name": book,
        "og:url": url,
    }
    if image:
        width, height = CARD_SIZE
        properties |= {"og:image": image, "og:image:width": str(width), "og:image:height": str(height)}
        properties |= {"og:image:type": "image/png", "og:image:alt": CARD_ALT}
    lines = [_meta("name", *pair) for pair in names.items()] + [_meta("property", *pair) for pair in properties.items()]
    lines += [
        f'<meta name="theme-color" content="{color}" media="(prefers-color-scheme: {scheme})">'
        for scheme, color in THEME_COLORS.items()
    ]
    return "\n".join(line for line in lines if line)


def own_tags(page: str) -> str:
    """Las etiquetas que `tags` escribió en una página construida: las lleva también la puerta de la carpeta.

    Args:
        page: HTML de la página.
    """
    return "\n".join(
        re.findall(r'<meta (?:name="(?:description|twitter:\w+)"|property="og:[\w:]+") content="[^"]*">', page)
    )


def _meta(kind: str, name: str, value: str) -> str:
    return f'<meta {kind}="{name}" content="{html.escape(value)}">' if value else ""


def _complete(app: Sphinx, pagename: str, templatename: str, context: dict, doctree: nodes.document | None) -> None:
    front, home = pagename == app.config.root_doc, app.config.html_baseurl
    title = html.unescape(re.sub(r"<[^>]+>", "", context.get("title") or app.config.html_title))
    about = description(doctree) if doctree is not None else ""
    url = context.get("pageurl") or "" if home else ""
    image = f"{home.rstrip('/')}/_static/{CARD}" if home else ""
    written = tags(title, about, book=app.config.html_title, front=front, url=url, image=image)
    icon = f'<link rel="apple-touch-icon" href="{html.escape(context["pathto"](f"_static/{ICON}", 1))}">'
    context["metatags"] = f"{context.get('metatags') or ''}\n{written}\n{icon}\n"


def setup(app: Sphinx) -> None:
    """Registra las etiquetas de cada página."""
    app.connect("html-page-context", _complete, priority=910)
