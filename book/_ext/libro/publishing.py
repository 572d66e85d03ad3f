"""Lo que depende de si el libro tiene dirección pública, y lo que se descarga de él.

Sin dirección, ningún botón lleva fuera: cada cuaderno ofrece su archivo y la rueda del módulo, que se construye aquí.
Con ella o sin ella, el libro entero se descarga en un archivo: las páginas, los cuadernos y el módulo.
Con ella (`repository.url` de `_config.yml`), aparecen los botones del repositorio y de Colab, y el de los comentarios,
que no pide nada a nadie hasta que se pulsa.
"""

import html
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.errors import ExtensionError

from libro.address import COLAB, colab, site
from libro.freshness import fingerprint

NOTEBOOKS = ("notebooks/", "exercises/")
WHEEL_SOURCES = ("src/**/*", "results/**/*", "pyproject.toml", "README.md", "LICENSE")
DOWNLOADS = "_downloads"
ARCHIVE = "atencion-multicabeza.zip"
# Donde una página pone este hueco, van los archivos que valen para todo el libro.
SLOT = re.compile(r'<div class="libro-descargas"></div>')
READ_ME = """\
Atención multicabeza: el libro entero.

- html/index.html: ábrelo con el navegador. No hace falta red.
- notebooks/ y exercises/: los cuadernos. Cada carpeta lleva también el módulo (multicabeza-….whl): con abrirlos en
  Jupyter basta, porque la primera celda lo instala.
- book/: el original de las demás páginas, a las que enlazan los cuadernos.
"""
# Texto de cada botón del menú de descargas → lo que se lee.
MENU = {
    ".ipynb": "Cuaderno (.ipynb)",
    ".md": "Original (.md)",
    ".pdf": "Imprimir o guardar en PDF",
}


def repository(config: Config) -> str:
    """Dirección pública del libro, sin barra final; vacía si no la hay."""
    return (config.html_theme_options.get("repository_url") or "").rstrip("/")


def wheel_name(root: Path) -> str | None:
    """Nombre de la rueda del módulo según `pyproject.toml`; None si el proyecto no tiene."""
    path = root / "pyproject.toml"
    if not path.exists():
        return None
    project = tomllib.loads(path.read_text("utf-8"))["project"]
    return f"{re.sub('[-_.]+', '_', project['name'])}-{project['version']}-py3-none-any.whl"


def build_wheel(root: Path, folder: Path) -> Path:
    """Construye la rueda del módulo si sus fuentes han cambiado.

    Args:
        root: carpeta del proyecto.
        folder: carpeta de trabajo; guarda la rueda y la huella de sus fuentes.

    Returns:
        Ruta de la rueda.

    Raises:
        ExtensionError: si la herramienta que la construye falla.
    """
    wheel, mark = folder / wheel_name(root), folder / "huella.txt"
    current = fingerprint(root, WHEEL_SOURCES)
    if wheel.exists() and mark.exists() and mark.read_text("utf-8") == current:
        return wheel
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder.resolve())]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    if done.returncode or not wheel.exists():
        raise ExtensionError(f"No se ha podido construir {wheel.name}:\n{done.stdout}{done.stderr}")
    mark.write_text(current, "utf-8")
    return wheel


def notebook_box(pathto, docname: str, wheel: str | None, address: str, branch: str) -> str:
    """Recuadro bajo el título de un cuaderno: cómo tenerlo y ejecutarlo.

    Args:
        pathto: función de Sphinx que da la dirección relativa de un archivo del sitio.
        docname: página, como `notebooks/02_atencion`.
        wheel: nombre de la rueda, si la hay.
        address: dirección pública del libro, o vacía.
        branch: rama del repositorio.
    """
    kind = "Estos ejercicios son" if docname.startswith("exercises/") else "Este capítulo es"
    source = html.escape(pathto(f"_sources/{docname}.ipynb", 1))
    links = [f'<a href="{source}" download>Descargar el cuaderno</a>']
    if address:
        target = f"{colab(address, branch)}{docname}.ipynb"
        links.insert(0, f'<a href="{html.escape(target)}" rel="noopener">Abrir en Colab</a>')
        advice = "En Colab, guarda tu copia: «Archivo», «Guardar una copia en Drive»."
    else:
        if wheel:
            links.append(f'<a href="{html.escape(pathto(f"{DOWNLOADS}/{wheel}", 1))}" download>Descargar el módulo</a>')
        advice = "Pon los dos archivos en la misma carpeta, de tu ordenador o de Colab, y abre el cuaderno."
    items = "".join(f"<li>{link}</li>" for link in links)
    return (
        '<aside class="libro-cuaderno d-print-none" aria-label="Ejecutar este cuaderno">'
        f"<p>{kind} un cuaderno que puedes ejecutar y cambiar.</p><ul>{items}</ul><p>{advice}</p></aside>"
    )


def downloads_box(pathto, wheel: str | None) -> str:
    """Lista de lo que se descarga de una vez: el libro entero y el módulo.

    Args:
        pathto: función de Sphinx que da la dirección relativa de un archivo del sitio.
        wheel: nombre de la rueda, si la hay.
    """
    files = {ARCHIVE: "El libro entero (.zip)"} | ({wheel: "El módulo (.whl)"} if wheel else {})
    items = "".join(
        f'<li><a href="{html.escape(pathto(f"{DOWNLOADS}/{name}", 1))}" download>{text}</a></li>'
        for name, text in files.items()
    )
    return f'<ul class="libro-descargas d-print-none">{items}</ul>'


def pack(root: Path, outdir: Path, wheel: Path | None, target: Path) -> None:
    """Escribe el libro entero en un archivo, siempre igual si no ha cambiado nada.

    Args:
        root: carpeta del proyecto, de donde salen los cuadernos y las páginas en Markdown.
        outdir: el libro construido.
        wheel: la rueda del módulo, si la hay; va al lado de los cuadernos.
        target: archivo que se escribe.
    """
    files = {
        f"html/{path.relative_to(outdir).as_posix()}": path
        for path in outdir.rglob("*")
        if path.is_file() and path.suffix != ".zip" and path.name not in {".buildinfo", "objects.inv"}
    }
    for folder, ending in (("notebooks", "ipynb"), ("exercises", "ipynb"), ("book", "md")):
        files |= {f"{folder}/{path.name}": path for path in (root / folder).glob(f"*.{ending}")}
        if wheel and ending == "ipynb":
            files[f"{folder}/{wheel.name}"] = wheel
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_suffix(".partial")
    with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        # La fecha es fija: el mismo libro da el mismo archivo, byte a byte.
        archive.writestr(zipfile.ZipInfo("LEEME.txt"), READ_ME, zipfile.ZIP_DEFLATED)
        for name in sorted(files):
            archive.writestr(zipfile.ZipInfo(name), files[name].read_bytes(), zipfile.ZIP_DEFLATED)
    partial.replace(target)


def comments_box(address: str) -> str:
    """Botón de los comentarios: hasta que se pulsa, la página no pide nada fuera."""
    owner = html.escape(address.split("github.com/")[-1])
    return (
        f'<div class="libro-comentarios d-print-none" data-repo="{owner}">'
        '<button type="button" class="libro-boton">Mostrar comentarios</button>'
        "<p>Se cargan de utteranc.es y se guardan en GitHub.</p></div>"
    )


def _name_menu(context: dict) -> None:
    """Escribe en palabras el menú de descargas, que solo dice «.md» o «.pdf»."""
    for group in context.get("header_buttons", ()):
        for button in group.get("buttons", ()):
            button["text"] = MENU.get(button["text"], button["text"])


def _configure(app: Sphinx, config: Config) -> None:
    options = config.html_theme_options
    if repository(config):
        options.update(use_repository_button=True, launch_buttons={"colab_url": COLAB})
        config.html_baseurl = site(repository(config))
    else:
        options.update(repository_url="", use_repository_button=False, launch_buttons={})


def _complete(app: Sphinx, pagename: str, templatename: str, context: dict, doctree: nodes.document | None) -> None:
    _name_menu(context)
    if doctree is None:
        return
    wheel = wheel_name(Path(app.srcdir))
    if not pagename.startswith(NOTEBOOKS):
        context["body"] = SLOT.sub(lambda _: downloads_box(context["pathto"], wheel), context["body"])
        return
    address = repository(app.config)
    branch = app.config.html_theme_options.get("repository_branch") or "main"
    box = notebook_box(context["pathto"], pagename, wheel, address, branch)
    body = context["body"].replace("</h1>", f"</h1>\n{box}", 1)
    if address:
        body += comments_box(address)
        app.add_js_file("comentarios.js", loading_method="defer")
    context["body"] = body


def _finish(app: Sphinx, exception: Exception | None) -> None:
    root = Path(app.srcdir)
    if exception is None and app.builder.format == "html" and wheel_name(root):
        wheel = build_wheel(root, Path(app.outdir).parent / ".libro" / "rueda")
        target = Path(app.outdir) / DOWNLOADS / wheel.name
        target.parent.mkdir(parents=True, exist_ok=True)
        for old in target.parent.glob("*.whl"):
            old.unlink()
        shutil.copyfile(wheel, target)


def _pack(app: Sphinx, exception: Exception | None) -> None:
    if exception is None and app.builder.name == "html":
        folder = Path(app.outdir) / DOWNLOADS
        pack(Path(app.srcdir), Path(app.outdir), next(folder.glob("*.whl"), None), folder / ARCHIVE)


def setup(app: Sphinx) -> None:
    """Registra descargas, botones y comentarios."""
    app.connect("config-inited", _configure, priority=1)
    app.connect("html-page-context", _complete, priority=880)
    app.connect("build-finished", _finish, priority=885)
    app.connect("build-finished", _pack, priority=990)  # lo último: lleva las páginas ya acabadas
