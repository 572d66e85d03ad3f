"""La interfaz en español: lo que los catálogos no traducen, o traducen mal."""

import gettext

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


def _install(app: Sphinx, config: Config) -> None:
    for key, catalog in list(translators.items()):
        texts = SpanishTexts()
        texts.add_fallback(catalog)
        translators[key] = texts
    app.translator = translators["general", "sphinx"]


def setup(app: Sphinx) -> None:
    """Registra los textos en español."""
    app.connect("config-inited", _install, priority=3)
