"""El libro en español: la interfaz que los catálogos no traducen, o traducen mal, y los espacios que no se parten."""

import gettext
import re

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.locale import translators

# Mensajes que pasan por los catálogos de Sphinx y de los temas.
TEXTS = {
    "Link to this heading": "Enlace a este apartado",
    "Link to this term": "Enlace a este término",
    "Link to this equation": "Enlace a esta ecuación",
    "Link to this image": "Enlace a esta imagen",
    "Link to this code": "Enlace a este código",
    "Link to this table": "Enlace a esta tabla",
    "Link to this definition": "Enlace a esta definición",
    "Link to this toctree": "Enlace a este índice",
    "Permalink to this headline": "Enlace a este apartado",
    "Download this page": "Descargar esta página",
    "Download source file": "Descargar el original de esta página",
    "Download notebook file": "Descargar el cuaderno",
    "Print to PDF": "Imprimir o guardar en PDF",
    "Fullscreen mode": "Pantalla completa",
    "previous page": "página anterior",
    "next page": "página siguiente",
    "previous": "anterior",
    "next": "siguiente",
    "Launch interactive content": "Abrir en la nube",
    "Launch on": "Abrir en",
    "Source repository": "Repositorio",
    "Source repositories": "Repositorio",
    "Repository": "Repositorio",
    "logo": "",
    "Contents": "En esta página",
    "By": "Por",
    "Search": "Buscar",
    "Search Results": "Resultados de la búsqueda",
    "Searching": "Buscando",
    "Preparing search...": "Preparando la búsqueda…",
    "Please activate JavaScript to enable the search functionality.": "Para buscar hace falta JavaScript: actívalo.",
    "Error": "Sin JavaScript",
    "Color mode": "Modo claro u oscuro",
    "Light": "Claro",
    "Dark": "Oscuro",
    "System Settings": "Según el sistema",
    "Section Navigation": "Navegación de la sección",
    "Skip to main content": "Ir al contenido",
    "Back to top": "Volver arriba",
    "Index": "Índice alfabético",
    "General Index": "Índice alfabético",
    "Copyright": "©",
    "Hide Search Matches": "Quitar el resaltado de la búsqueda",
}
# Textos escritos directamente en las plantillas de los temas o de las extensiones.
LITERALS = {
    'title="Toggle primary sidebar"': 'title="Mostrar u ocultar el índice" aria-label="Mostrar u ocultar el índice"',
    'title="Toggle secondary sidebar"': (
        'title="Mostrar u ocultar los apartados" aria-label="Mostrar u ocultar los apartados"'
    ),
    'bd-docs-nav" aria-label="Main"': 'bd-docs-nav" aria-label="Capítulos"',
    '<nav aria-label="Page">': '<nav aria-label="Apartados">',
    ' aria-label="Toggle hidden content"': "",
    'aria-label="Download this page"': 'aria-label="Descargar esta página"',
    " - Home": "",
}

# «90 %», «49 152» y «0,15 nats» no se parten al final de una línea. En los cuadernos se teclea un espacio corriente.
# Tampoco se quedan solos el punto de «06 · Inducción» ni un lado de una igualdad corta, como «d_k = 64» o «1 < g < h».
UNBREAKABLE = re.compile(r"(?<=\d) (?=%|\d{3}(?!\d)|(?:nats?|bits?|bytes?|[KMG]iB|BLEU)\b)|(?<=\d\d) (?=· )")
FORMULA = re.compile(r"(?<!\S)[^\s=]{1,9}(?: [=≈≠<>≤≥+−×/] [^\s=]{1,9})+(?!\S)")
LONGEST_FORMULA = 20  # más larga, en un teléfono dejaría media línea en blanco


class SpanishTexts(gettext.NullTranslations):
    """Catálogo con nuestros textos delante; el resto lo responde el catálogo original."""

    def gettext(self, message: str) -> str:
        """Traduce un mensaje."""
        return TEXTS[message] if message in TEXTS else super().gettext(message)


def translate_page(page: str) -> str:
    """Traduce lo que las plantillas llevan escrito en inglés."""
    for english, spanish in LITERALS.items():
        page = page.replace(english, spanish)
    return page


def _whole(found: re.Match) -> str:
    return found[0].replace(" ", "\N{NO-BREAK SPACE}") if len(found[0]) <= LONGEST_FORMULA else found[0]


def keep_together(doctree: nodes.document) -> None:
    """Cambia por uno de no separación el espacio entre una cifra y lo que no se separa de ella; en el código, no.

    Args:
        doctree: la página; se modifica.
    """
    apart = nodes.literal | nodes.literal_block | nodes.raw | nodes.math | nodes.math_block
    for node in list(doctree.findall(nodes.Text)):
        parent = node.parent
        while parent is not None and not isinstance(parent, apart):
            parent = parent.parent
        text = FORMULA.sub(_whole, UNBREAKABLE.sub("\N{NO-BREAK SPACE}", node.astext()))
        if parent is None and text != node.astext():
            node.parent.replace(node, nodes.Text(text))


def _together(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    if app.builder.format == "html":
        keep_together(doctree)


def _install(app: Sphinx, config: Config) -> None:
    for key, catalog in list(translators.items()):
        texts = SpanishTexts()
        texts.add_fallback(catalog)
        translators[key] = texts
    app.translator = translators["general", "sphinx"]


def setup(app: Sphinx) -> None:
    """Registra los textos en español."""
    app.connect("config-inited", _install, priority=3)
    app.connect("doctree-resolved", _together, priority=900)  # lo último: las citas y los enlaces ya están
