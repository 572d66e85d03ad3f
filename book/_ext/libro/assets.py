"""Los archivos que el libro sirve por sí mismo, y los que carga cada página.

Nada viene de fuera: MathJax, D3 y jQuery se copian de los paquetes instalados. Un script solo se carga en la página que
lleva su marca: `web/NOMBRE.js` (o `.css`) de nuestro módulo, donde haya `class="mc-NOMBRE…"` o `<mc-NOMBRE>`. Los de
`web/` viajan sin comentarios ni espacios de más.
"""

import re
import shutil
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.errors import ExtensionError

from multicabeza.scripts import compact

# Archivo que carga otra extensión → marca sin la cual sobra en la página.
NEEDED = {
    "clipboard.min.js": 'class="highlight',
    "copybutton.js": 'class="highlight',
    "copybutton.css": 'class="highlight',
    "design-tabs.js": "sd-tab-set",
    "sphinx-design.min.css": 'class="sd-',
    "tex-chtml.js": 'class="math',
}
# De MathJax, lo que usa una página: el programa, sus letras y las extensiones que carga al necesitarlas.
MATHJAX_PARTS = ("tex-chtml.js", "output/chtml/fonts", "input/tex/extensions")
MATHJAX_OPTIONS = {
    "options": {"enableMenu": False},  # el menú está en inglés
    "chtml": {"mtextInheritFont": True},
}
# Lo que los temas copian y ninguna página pide.
WASTE = ("**/*.map", "scripts/fontawesome.js*", "vendor/fontawesome/webfonts/*.ttf", "locales")


def package_folder(name: str) -> Path:
    """Carpeta de un paquete instalado, sin importarlo.

    Raises:
        ExtensionError: si el paquete no está instalado.
    """
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise ExtensionError(f"Falta el paquete «{name}»: instala requirements.txt en este entorno.")
    return Path(spec.origin).parent


def web_folders(root: Path) -> list[Path]:
    """Carpetas `web/` de los paquetes de `src/`."""
    return sorted(path for path in root.glob("src/*/web") if path.is_dir())


def marked_files(folders: Iterable[Path], body: str) -> list[str]:
    """Archivos de `web/` que una página necesita: `base.css` siempre; los demás, si el cuerpo lleva su marca.

    Args:
        folders: carpetas `web/`.
        body: HTML del cuerpo de la página.

    Returns:
        Nombres como `explore.js`, en orden, primero `base.css`.
    """
    wanted = []
    for folder in folders:
        for path in sorted(folder.glob("*.*s"), key=lambda path: (path.name != "base.css", path.name)):
            if path.suffix not in {".js", ".css"}:
                continue
            name = re.escape(path.stem)
            mark = rf'class="(?:[^"]*\s)?mc-{name}(?=[\s"_-])|<mc-{name}(?=[\s>])'
            if path.name == "base.css" or re.search(mark, body):
                wanted.append(path.name)
    return wanted


def _basename(file: object) -> str:
    return Path(str(getattr(file, "filename", file) or "")).name


def _configure(app: Sphinx, config: Config) -> None:
    root = Path(app.srcdir)
    static = [root / "book" / "_static", *web_folders(root)]
    libraries = [
        package_folder("mpld3") / "js" / "d3.v5.min.js",
        package_folder("sphinxcontrib.jquery") / "jquery.js",
    ]
    config.html_static_path.extend(str(path) for path in [*static, *libraries] if path.exists())
    # Se copia el código; una salida se lee, y su botón taparía el texto.
    config.copybutton_selector = "div:not(.output) > div.highlight > pre"
    config.mathjax_path = "mathjax/tex-chtml.js"
    config.mathjax3_config = {**MATHJAX_OPTIONS, **(config.mathjax3_config or {})}


def _choose(app: Sphinx, pagename: str, templatename: str, context: dict, doctree: nodes.document | None) -> None:
    """Añade a la página lo que su cuerpo necesita y quita lo que no usa."""
    body = context.get("body") or ""
    app.add_css_file("libro.css", priority=900)
    app.add_js_file("libro.js", loading_method="defer")
    for name in marked_files(web_folders(Path(app.srcdir)), body):
        if name.endswith(".css"):
            app.add_css_file(name, priority=910)
        else:
            app.add_js_file(name, loading_method="defer")
    for kind in ("script_files", "css_files"):
        context[kind] = [file for file in context[kind] if NEEDED.get(_basename(file), "") in body]


def copy_newer(source: Path, target: Path) -> None:
    """Copia un archivo o una carpeta, sin tocar lo que ya está igual."""
    if source.is_dir():
        for path in sorted(source.rglob("*")):
            if path.is_file():
                copy_newer(path, target / path.relative_to(source))
        return
    if not target.exists() or target.stat().st_size != source.stat().st_size:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)


def _finish(app: Sphinx, exception: Exception | None) -> None:
    if exception is not None or app.builder.format != "html":
        return
    static = Path(app.outdir) / "_static"
    mathjax = package_folder("sphinx-mathjax-offline") / "static" / "mathjax"
    for part in MATHJAX_PARTS:
        copy_newer(mathjax / part, static / "mathjax" / part)
    for folder in web_folders(Path(app.srcdir)):
        for path in folder.glob("*.js"):
            (static / path.name).write_text(compact(path.read_text("utf-8")), "utf-8")
    for pattern in WASTE:
        for path in static.glob(pattern):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def setup(app: Sphinx) -> None:
    """Registra los archivos del libro y los de cada página."""
    app.connect("config-inited", _configure, priority=2)
    app.connect("html-page-context", _choose, priority=900)
    app.connect("build-finished", _finish, priority=890)
