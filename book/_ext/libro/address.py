"""La dirección pública del libro: se escribe una vez y de ella salen todas las demás.

`make publish-config REPO=https://github.com/DUEÑO/NOMBRE` la escribe en `_config.yml`, en la celda de preparación de
cada cuaderno y en sus enlaces a otras páginas: fuera del libro (en Colab solo viaja un archivo) uno relativo
no lleva a ninguna parte. En el libro construido esos enlaces vuelven a ser internos. Con `REPO=` vacío todo queda como
antes de publicar.
"""

import argparse
import json
import posixpath
import re
import sys
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[3]
COLAB = "https://colab.research.google.com"
FOLDERS = ("notebooks", "exercises")
BRANCH = "main"
SETTING = re.compile(r'(?m)^(  url: )(".*?"|\S*)$')
SETUP = re.compile(r'(?m)^REPO = "[^"\n]*"')
LINK = re.compile(r"\]\(([^()\s]+)\)")
REPOSITORY = re.compile(r"https://github\.com/([A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)/([A-Za-z0-9._-]+)")


def normalized(text: str) -> str:
    """Dirección del repositorio sin barra final ni «.git»; vacía si el texto lo está.

    Raises:
        ValueError: si no es la de un repositorio de GitHub.
    """
    address = text.strip().rstrip("/").removesuffix(".git")
    found = REPOSITORY.fullmatch(address)
    if address and (not found or found[2] in {".", ".."}):
        raise ValueError(
            f"Se esperaba la dirección de un repositorio, como https://github.com/DUEÑO/NOMBRE, y ha llegado «{text}». "
            "Lo habitual es que falte «https://» o que sobre la página de dentro (…/tree/main)."
        )
    return address


def site(address: str) -> str:
    """Dirección del libro en GitHub Pages, con barra final; vacía si no hay repositorio."""
    if not address:
        return ""
    owner, name = REPOSITORY.fullmatch(address).groups()
    host = f"{owner.lower()}.github.io"
    return f"https://{host}/" if name.lower() == host else f"https://{host}/{name}/"


def colab(address: str, branch: str = BRANCH) -> str:
    """Comienzo de las direcciones con las que Colab abre los cuadernos, con barra final."""
    return f"{COLAB}/github/{address.removeprefix('https://github.com/')}/blob/{branch}/"


def current(config: str) -> tuple[str, str]:
    """Dirección y rama que dice `_config.yml`.

    Raises:
        ValueError: si no tiene el apartado `repository` con su `url`.
    """
    section = re.search(r"(?ms)^repository:\n(?:  .*\n)+", config)
    found = SETTING.search(section[0]) if section else None
    if not found:
        raise ValueError("En _config.yml falta «repository:» con su «url»: sin él no hay dónde escribir la dirección.")
    branch = re.search(r"(?m)^  branch: (\S+)$", section[0])
    return found[2].strip('"'), branch[1] if branch else BRANCH


def absolute(link: str, folder: str, address: str, branch: str = BRANCH) -> str:
    """Un enlace relativo de un cuaderno, con la dirección pública de su destino.

    Args:
        link: lo que hay entre los paréntesis, como `../book/notacion.md#formas`.
        folder: carpeta del cuaderno.
        address: dirección del repositorio.
        branch: rama publicada.

    Returns:
        Otro cuaderno, en Colab; una página, en el libro publicado; lo demás queda igual.
    """
    path, mark, anchor = link.partition("#")
    if not path or re.match(r"[\w+.-]+:|/", path):
        return link
    target = posixpath.normpath(posixpath.join(folder, path))
    if target.endswith(".ipynb") and target.startswith(FOLDERS):
        return colab(address, branch) + target + mark + anchor
    if target.endswith(".md") and target.startswith("book/"):
        return f"{site(address)}{target.removesuffix('.md')}.html{mark}{anchor}"
    return link


def relative(link: str, folder: str, address: str, branch: str = BRANCH) -> str:
    """Lo contrario de `absolute`: un enlace a la dirección pública del libro, relativo a la carpeta del cuaderno."""
    path, mark, anchor = link.partition("#")
    if path.startswith(colab(address, branch)):
        target = path.removeprefix(colab(address, branch))
    elif path.startswith(site(address)) and path.endswith(".html"):
        target = path.removeprefix(site(address)).removesuffix(".html") + ".md"
    else:
        return link
    return posixpath.relpath(target, folder) + mark + anchor


def rewritten(text: str, folder: str, old: tuple[str, str], new: tuple[str, str]) -> str:
    """Un texto de Markdown con sus enlaces pasados de una dirección a otra; cada una es (repositorio, rama)."""

    def move(found: re.Match) -> str:
        link = relative(found[1], folder, *old) if old[0] else found[1]
        return f"]({absolute(link, folder, *new) if new[0] else link})"

    return LINK.sub(move, text)


def publish(root: Path, address: str) -> list[str]:
    """Escribe la dirección en `_config.yml` y en los cuadernos, o la quita si es vacía.

    Args:
        root: carpeta del proyecto.
        address: dirección del repositorio.

    Returns:
        Archivos que han cambiado, relativos a `root`.

    Raises:
        ValueError: si la dirección no vale, o un cuaderno no lleva la preparación. No queda nada a medias.
    """
    address = normalized(address)
    config = (root / "_config.yml").read_text("utf-8")
    old, branch = current(config)
    start = config.index("repository:\n")
    written = {
        root / "_config.yml": config[:start] + SETTING.sub(rf'\g<1>"{address}"', config[start:], count=1),
    }
    for path in sorted(path for folder in FOLDERS for path in (root / folder).glob("*.ipynb")):
        book = json.loads(path.read_text("utf-8"))
        setups = 0
        for cell in book["cells"]:
            source = cell["source"] if isinstance(cell["source"], str) else "".join(cell["source"])
            if cell["cell_type"] == "markdown":
                new = rewritten(source, path.parent.name, (old, branch), (address, branch))
            elif cell["cell_type"] == "code" and SETUP.search(source):
                setups += 1
                new = SETUP.sub(f'REPO = "{address}"', source)
            else:
                continue
            cell["source"] = new if isinstance(cell["source"], str) else new.splitlines(keepends=True)
        if setups != 1:
            raise ValueError(
                f"{path.parent.name}/{path.name} tiene {setups} celdas con «REPO = …» y se esperaba una: "
                "cópiala de otro cuaderno."
            )
        written[path] = json.dumps(book, indent=1, ensure_ascii=False) + "\n"
    changed = {path: text for path, text in written.items() if path.read_text("utf-8") != text}
    for path, text in changed.items():
        path.write_text(text, "utf-8")
    return [path.relative_to(root).as_posix() for path in changed]


# — En el libro construido —


def _make_internal(app: Sphinx, docname: str, source: list[str]) -> None:
    """Los enlaces públicos de un cuaderno vuelven a ser internos antes de leerlo."""
    address = (app.config.html_theme_options.get("repository_url") or "").rstrip("/")
    folder = posixpath.dirname(docname)
    if not address or folder not in FOLDERS:
        return
    branch = app.config.html_theme_options.get("repository_branch") or BRANCH
    source[0] = rewritten(source[0], folder, (address, branch), ("", branch))


def setup(app: Sphinx) -> None:
    """Registra la vuelta de los enlaces públicos a internos."""
    app.connect("source-read", _make_internal)


# — Desde la línea de órdenes —


def main(arguments: list[str], root: Path = ROOT) -> int:
    """`python book/publish.py DIRECCIÓN`; con `--check`, solo dice si el libro está publicado en ella.

    Args:
        arguments: los de la orden.
        root: carpeta del libro.

    Returns:
        0 si todo va bien; 1 si `--check` dice que no; 2 si la dirección o un cuaderno no valen.
    """
    parser = argparse.ArgumentParser(prog="make publish-config", add_help=False)
    parser.add_argument("address", nargs="?", default="")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args(arguments)
    try:
        if options.check:
            mine, _ = current((root / "_config.yml").read_text("utf-8"))
            same = bool(mine) and mine.lower() == normalized(options.address).lower()
            print(f"_config.yml dice «{mine}»" + ("." if same else f", no «{options.address}»."))
            return 0 if same else 1
        changed = publish(root, options.address)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    if not options.address.strip():
        print(f"Sin dirección pública: {len(changed)} archivos cambiados.")
    else:
        address = normalized(options.address)
        print(f"{address}: {len(changed)} archivos cambiados.")
        print(f"Revísalos, guárdalos en un commit y súbelos; el libro saldrá en {site(address)}")
    return 0
