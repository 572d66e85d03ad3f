"""La última mano a cada página, y la portada de la carpeta."""

import html
import re
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.jinja2glue import BuiltinTemplateLoader

from libro.sharing import own_tags
from libro.spanish import translate_page

SEARCH_SCRIPTS = re.compile(r'\s*<script src="[^"]*(?:searchtools|language_data|searchindex)\.js[^"]*"></script>')
ICON_SCRIPT = re.compile(r'\s*<script defer src="[^"]*fontawesome\.js[^"]*"></script>')

# Con el almacenamiento prohibido, el tema y la búsqueda de Sphinx fallarían al pedirlo: se les da uno que se olvida.
STORAGE_FALLBACK = """<script>
for (const name of ["localStorage", "sessionStorage"]) {
  try { window[name].length; } catch {
    const kept = new Map();
    const value = {
      forgetful: true,
      getItem: (key) => kept.get(String(key)) ?? null,
      setItem: (key, text) => { kept.set(String(key), String(text)); },
      removeItem: (key) => { kept.delete(String(key)); },
      clear: () => { kept.clear(); },
    };
    Object.defineProperty(window, name, { value });
  }
}
</script>"""

# El tema deja «auto», que ninguna regla viste, hasta que llega su programa: en la primera visita, la página saldría
# antes en blanco y negro, y las fórmulas se medirían con otra letra. Sin programas, se queda en claro.
UNDRESSED = 'localStorage.getItem("theme") || "auto"'
DRESSED = (
    '(document.documentElement.dataset.mode !== "auto" && localStorage.getItem("theme"))'
    ' || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")'
)


def polish(page: str, pagename: str) -> str:
    """Retoca el HTML terminado de una página: traduce, aligera y corrige faltas de accesibilidad de las plantillas.

    Args:
        page: HTML de la página.
        pagename: nombre de la página («search» es la de búsqueda).
    """
    page = translate_page(page)
    page = re.sub(r"(<title>[^<]*?) - ", r"\1 — ", page)  # la de búsqueda, como las demás
    page = ICON_SCRIPT.sub("", page)
    page = re.sub(r"<head>", f"<head>\n{STORAGE_FALLBACK}", page, count=1)
    page = page.replace(UNDRESSED, DRESSED).replace(' data-theme="auto">', ' data-theme="light">', 1)
    # theme.css solo importa basic.css: mejor pedirla sin rodeos.
    page = re.sub(r"(_static/)styles/theme\.css\?digest=\w+", r"\1basic.css", page)
    if pagename != "search":
        page = SEARCH_SCRIPTS.sub("", page)
    # El nombre accesible del botón es el texto que se ve («Buscar Ctrl+K»).
    page = re.sub(r'(search-button-field[^>]*?) aria-label="[^"]*"', r"\1", page)
    # El botón que despliega los apartados de un capítulo no tiene texto: toma el del capítulo.
    page = re.sub(
        r"(<a [^>]*>([^<]+)</a><details[^>]*><summary)>",
        lambda found: f'{found[1]} aria-label="Apartados de «{found[2].strip()}»">',
        page,
    )
    # Los iconos adornan: el nombre está en el texto o en la etiqueta de su botón.
    return re.sub(r'<i class="(fa[ -]|fas |fab |theme-switch)', r'<i aria-hidden="true" class="\1', page)


class Templates(BuiltinTemplateLoader):
    """Las plantillas de Sphinx, con la última mano del libro."""

    def render(self, template: str, context: dict) -> str:
        """Escribe una página."""
        page = super().render(template, context)
        return polish(page, context.get("pagename", "")) if template.endswith(".html") else page


def front_door(title: str, start: str, tags: str = "") -> str:
    """HTML de `index.html`: lleva a la portada del libro.

    Args:
        title: título del libro.
        start: dirección de la portada.
        tags: las etiquetas con que se presenta: la dirección que se comparte suele ser la de la carpeta.
    """
    title = html.escape(title)
    return f"""<!doctype html>
<html lang="es">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
{tags}
<meta http-equiv="refresh" content="0; url={start}">
<link rel="icon" href="data:,">
</head>
<body><main><h1>{title}</h1><p><a href="{start}">Abrir el libro</a></p></main></body>
</html>
"""


def _name_front_page(
    app: Sphinx, pagename: str, templatename: str, context: dict, doctree: nodes.document | None
) -> None:
    context["root_title"] = "Portada"
    if pagename == app.config.root_doc:
        context["title"] = "Portada"


# Celdas cuyo código se lee plegado: cómo empieza y qué dice el pliegue.
FOLDED = {
    "mc.predict(": "Código de la pregunta (da la respuesta)",
    "mc.activity(": "Código del repaso",
    "# Preparación, igual en todos los cuadernos": "Código de preparación, igual en todos los cuadernos",
}


def fold_sources(doctree: nodes.document) -> None:
    """Pliega el código de las preguntas, que leído antes da la respuesta, y el de preparación, que es siempre el mismo.

    El pliegue va detrás de lo que la celda enseña.

    Args:
        doctree: página con celdas de MyST-NB; se modifica.
    """
    for cell in list(doctree.findall(nodes.container)):
        source = next((child for child in cell.children if "cell_input" in child.get("classes", ())), None)
        if "cell" not in cell.get("classes", ()) or source is None:
            continue
        code = source.astext().lstrip()
        summary = next((text for start, text in FOLDED.items() if code.startswith(start)), None)
        if summary:
            cell.remove(source)
            cell += nodes.raw("", f'<details class="mc-source"><summary>{summary}</summary>', format="html")
            cell += [source, nodes.raw("", "</details>", format="html")]


def _fold_sources(app: Sphinx, doctree: nodes.document) -> None:
    fold_sources(doctree)


def _configure(app: Sphinx, config: Config) -> None:
    config.template_bridge = "libro.pages.Templates"


def _finish(app: Sphinx, exception: Exception | None) -> None:
    start = f"{app.config.root_doc}.html"
    if exception is None and app.builder.name == "html" and start != "index.html":
        folder = Path(app.outdir)
        tags = own_tags((folder / start).read_text("utf-8"))
        (folder / "index.html").write_text(front_door(app.config.html_title, start, tags), "utf-8")


def setup(app: Sphinx) -> None:
    """Registra la última mano."""
    app.connect("config-inited", _configure, priority=1)
    app.connect("doctree-read", _fold_sources)
    app.connect("html-page-context", _name_front_page, priority=900)
    app.connect("build-finished", _finish, priority=900)
