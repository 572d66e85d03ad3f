"""Un libro diminuto, construido con la configuración y la extensión del libro de verdad."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]

TOC = """\
format: jb-book
root: book/index
chapters:
- file: notebooks/01_vectores
- file: notebooks/02_atencion
  sections:
  - file: exercises/02_atencion
- file: book/afirmaciones
"""
PYPROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "minimodulo"
version = "0.0.1"
requires-python = ">=3.11"

[tool.hatch.build.targets.wheel]
packages = ["src/minimodulo"]
"""
SETUP = 'import json, sys\nsys.path.insert(0, "../src")\nimport minimodulo'
CLAIM = 'from myst_nb import glue\nglue("razon", json.load(open("../results/medida.json"))["razon"], display=False)'
PAGES = {
    "book/index.md": (
        "# Atención multicabeza\n\nUna frase de la portada sobre la atención.\n\n"
        '<div class="mc-note" data-kind="ojo">\n\n**Ojo.** Esto es un aviso.\n\n</div>\n'
    ),
    "book/afirmaciones.md": (
        "# Afirmaciones\n\nLa razón medida es {glue:text}`/notebooks/02_atencion.ipynb::razon:.2f`.\n\n"
        "(otra)=\n## Otro apartado\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
    ),
}
NOTEBOOKS = {
    "notebooks/01_vectores": [
        "# De texto a vectores\n\nLa palabra atención sale aquí, pero el capítulo trata de vectores.",
        ("code", SETUP),
        ("code", 'print("constante:", minimodulo.CONSTANT)'),
    ],
    "notebooks/02_atencion": [
        "# Atención\n\nCon $\\sqrt{d_k}$ y $d_k$, cada consulta reparte su atención entre las claves.\n\n"
        "$$\\operatorname{softmax}(QK^\\top)\\tag{1}$$",
        ("code", SETUP),
        ("code", CLAIM),
        (
            "code",
            "from IPython.display import HTML\n"
            'HTML(\'<div class="mc-marca" role="group" aria-label="Prueba">interactivo</div>\')',
        ),
        "## La atención por dentro\n\nUn apartado con más prosa.",
    ],
    "exercises/02_atencion": ["# Ejercicios de atención\n\nEscribe tu atención.", ("code", "1 + 1")],
}


def notebook(cells: list) -> str:
    """JSON de un cuaderno: un texto es una celda de Markdown; ("code", texto), una de código."""
    written = []
    for number, cell in enumerate(cells):
        kind, source = cell if isinstance(cell, tuple) else ("markdown", cell)
        entry = {"cell_type": kind, "id": f"celda-{number}", "metadata": {}, "source": source}
        written.append(entry | ({"outputs": [], "execution_count": None} if kind == "code" else {}))
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return json.dumps({"cells": written, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5})


class MiniBook:
    """Un libro de cinco páginas en una carpeta, con su módulo, sus registros y su salida."""

    def __init__(self, root: Path):
        self.root = root
        self.html = root / "_build" / "html"
        shutil.copytree(REPO / "book" / "_ext", root / "book" / "_ext", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copytree(REPO / "book" / "_static", root / "book" / "_static")
        # Sin dirección pública, la tenga o no el libro de verdad.
        config = (REPO / "_config.yml").read_text("utf-8")
        self.write("_config.yml", re.sub(r'(?m)^  url: ".*"$', '  url: ""', config))
        self.write("_toc.yml", TOC)
        self.write("pyproject.toml", PYPROJECT)
        self.write("requirements.txt", "numpy==0\n")
        self.write("results/medida.json", '{"razon": 1.0123}')
        self.write("src/minimodulo/__init__.py", "CONSTANT = 41\n")
        self.write("src/minimodulo/web/base.css", ".mc-marca { color: inherit; }\n")
        self.write("src/minimodulo/web/marca.js", '"use strict";\n')
        self.write("src/minimodulo/web/marca.css", ".mc-marca { margin: 0; }\n")
        for name, text in PAGES.items():
            self.write(name, text)
        for name, cells in NOTEBOOKS.items():
            self.write(f"{name}.ipynb", notebook(cells))

    def write(self, name: str, text: str) -> None:
        """Escribe un archivo del libro."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")

    def replace(self, name: str, old: str, new: str) -> None:
        """Cambia un texto de un archivo; falla si no está."""
        text = (self.root / name).read_text("utf-8")
        assert old in text, f"«{old}» no está en {name}"
        self.write(name, text.replace(old, new))

    def build(self) -> subprocess.CompletedProcess:
        """Construye el libro y devuelve lo que dijo la orden."""
        command = [str(Path(sys.executable).with_name("jupyter-book")), "build", ".", "-W", "-n", "--keep-going"]
        return subprocess.run(
            command, cwd=self.root, capture_output=True, text=True, env=os.environ | {"NO_COLOR": "1"}
        )

    def page(self, name: str) -> str:
        """HTML de una página construida."""
        return (self.html / f"{name}.html").read_text("utf-8")
