"""La referencia del módulo: sus nombres públicos, con lo que dicen sus docstrings.

Una página pide los de un paquete de `src/` con `<!-- referencia: multicabeza -->`, y las funciones públicas de uno de
sus archivos con `<!-- referencia: multicabeza.cost -->`. Se lee el código sin ejecutarlo, así que la página no puede
quedarse vieja ni cargar torch; y se escribe en Markdown, que es en lo que están los docstrings.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

PLACE = re.compile(r"<!-- referencia: ([\w.]+) -->")
# Sección del docstring (Google) → título en la página.
TITLES = {
    "Args": "Argumentos",
    "Attributes": "Atributos",
    "Returns": "Devuelve",
    "Yields": "Entrega",
    "Raises": "Errores",
    "Fuente": "Fuente",
    "Fuentes": "Fuentes",
}
LISTS = ("Args", "Attributes", "Raises")
SECTION = re.compile(rf"^({'|'.join(TITLES)}):[ ]*(.*)$")
ENTRY = re.compile(r"^(\*{0,2}[\w.]+):[ ]+(.*)$")
# Clase → cómo se llama aquí un objeto suyo en los ejemplos.
OBJECTS = {"MultiHeadAttention": "attention", "KVCache": "cache", "HardConcrete": "gates"}
# Anchura de una firma en una línea; más larga, un argumento por línea (en un teléfono caben unos 40 caracteres).
SIGNATURE_WIDTH = 40
# Con menos signos que estos detrás de la primera frase, un nombre no se pliega.
UNFOLDED = 160


@dataclass
class Docstring:
    """Un docstring de Google, por partes."""

    text: str = ""
    sections: dict[str, str | dict[str, str]] = field(default_factory=dict)


@dataclass
class Entry:
    """Un nombre público: cómo se llama, qué parámetros tiene y qué dice de sí mismo."""

    name: str
    kind: str
    signature: str
    parameters: list[str]
    docstring: Docstring
    methods: list["Entry"] = field(default_factory=list)


def _dedent(lines: list[str]) -> list[str]:
    margin = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    return [line[margin:] for line in lines]


def _entries(lines: list[str]) -> dict[str, str]:
    """«nombre: descripción» con sus líneas de continuación, más sangradas."""
    found: dict[str, list[str]] = {}
    current = None
    for line in _dedent(lines):
        match = ENTRY.match(line)
        if match:
            current = found.setdefault(match[1], [])
            current.append(match[2])
        elif current is not None:
            current.append(line.strip())
    return {name: "\n".join(rest).strip() for name, rest in found.items()}


def parse(docstring: str) -> Docstring:
    """Separa un docstring (ya sin sangría) en texto y secciones.

    Args:
        docstring: lo que devuelve `ast.get_docstring`.

    Returns:
        El texto, y cada sección de `TITLES` que tenga: un diccionario nombre → descripción en las de `LISTS`.
    """
    parts: list[tuple[str | None, list[str]]] = [(None, [])]
    for line in docstring.splitlines():
        match = SECTION.match(line)
        if match:
            parts.append((match[1], [match[2]] if match[2] else []))
        elif parts[-1][0] and line and not line.startswith(" "):
            parts.append((None, [line]))  # la sección acaba donde acaba la sangría
        else:
            parts[-1][1].append(line)
    result = Docstring()
    for title, lines in parts:
        if title is None:
            result.text = f"{result.text}\n\n{chr(10).join(lines)}".strip()
        elif title in LISTS:
            result.sections[title] = _entries(lines)
        else:
            result.sections[title] = "\n".join(_dedent(lines)).strip()
    return result


def _parameters(arguments: ast.arguments) -> list[tuple[str, str]]:
    """Parejas (nombre, como se escribe) de una firma, sin anotaciones."""
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(positional) - len(arguments.defaults)) + list(arguments.defaults)
    written = []
    for argument, default in zip(positional, defaults, strict=True):
        text = argument.arg if default is None else f"{argument.arg}={ast.unparse(default)}"
        written.append((argument.arg, text))
    if arguments.vararg:
        written.append((f"*{arguments.vararg.arg}", f"*{arguments.vararg.arg}"))
    elif arguments.kwonlyargs:
        written.append(("", "*"))
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        text = argument.arg if default is None else f"{argument.arg}={ast.unparse(default)}"
        written.append((argument.arg, text))
    if arguments.kwarg:
        written.append((f"**{arguments.kwarg.arg}", f"**{arguments.kwarg.arg}"))
    return [(name, text) for name, text in written if name not in {"self", "cls"}]


def _signature(name: str, arguments: ast.arguments) -> tuple[str, list[str]]:
    written = _parameters(arguments)
    line = f"{name}({', '.join(text for _, text in written)})"
    if len(line) > SIGNATURE_WIDTH:
        line = f"{name}(\n" + "".join(f"    {text},\n" for _, text in written) + ")"
    return line, [name for name, _ in written if name]


def _decorators(node: ast.FunctionDef) -> set[str]:
    return {ast.unparse(decorator).split("(")[0].split(".")[-1] for decorator in node.decorator_list}


def _function(node: ast.FunctionDef, name: str, kind: str) -> Entry:
    if kind == "propiedad":
        signature, parameters = name, []
    else:
        signature, parameters = _signature(name, node.args)
    return Entry(node.name, kind, signature, parameters, parse(ast.get_docstring(node) or ""))


def _class(node: ast.ClassDef, name: str) -> Entry:
    functions = [child for child in node.body if isinstance(child, ast.FunctionDef)]
    thing = OBJECTS.get(node.name, node.name.lower())
    entry = Entry(node.name, "clase", name, [], parse(ast.get_docstring(node) or ""))
    for function in functions:
        if function.name == "__init__":
            entry.signature, entry.parameters = _signature(name, function.args)
            for title, section in parse(ast.get_docstring(function) or "").sections.items():
                entry.docstring.sections.setdefault(title, section)
        elif not function.name.startswith("_") and ast.get_docstring(function) and function.name != "extra_repr":
            marks = _decorators(function)
            kind = "propiedad" if "property" in marks else "método"
            owner = name if marks & {"classmethod", "staticmethod"} else thing
            shown = thing if function.name == "forward" else f"{owner}.{function.name}"
            entry.methods.append(_function(function, shown, kind))
    return entry


def definitions(path: Path, prefix: str) -> dict[str, Entry]:
    """Funciones y clases públicas de un archivo, en el orden en que están.

    Args:
        path: archivo de Python; no se ejecuta.
        prefix: lo que va delante del nombre en la firma, como `mc.`.
    """
    found = {}
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            found[node.name] = _function(node, prefix + node.name, "función")
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            found[node.name] = _class(node, prefix + node.name)
    return found


def public_names(package: Path) -> dict[str, tuple[str, ...]]:
    """Los nombres públicos de un paquete, por el archivo en que viven: su tabla `_HOME`, leída sin importarlo.

    Raises:
        ExtensionError: si `__init__.py` no tiene la tabla.
    """
    for node in ast.parse((package / "__init__.py").read_text("utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_HOME":
            return ast.literal_eval(node.value)
    raise ExtensionError(f"{package}/__init__.py no tiene la tabla «_HOME» de nombres públicos.")


def source_file(package: Path, module: str) -> Path:
    """Archivo de un módulo: `NOMBRE.py`, o `NOMBRE/__init__.py` si es una carpeta."""
    path = package / f"{module}.py"
    return path if path.exists() else package / module / "__init__.py"


def _summary(path: Path) -> str:
    text = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    return text.split("\n\n")[0].replace("\n", " ")


def show_literals(text: str) -> str:
    """Escribe como código las cadenas de Python («"zero"») de un texto: sin eso, saldrían entre comillas angulares."""
    pieces = re.split(r"(``.*?``|`[^`]*`)", text, flags=re.DOTALL)
    return "".join(piece if i % 2 else re.sub(r'"(\w+)"', r'`"\1"`', piece) for i, piece in enumerate(pieces))


def _sections(docstring: Docstring) -> Iterator[str]:
    for title in TITLES:
        section = docstring.sections.get(title)
        if section is None:
            continue
        if title == "Raises":
            yield f"**{TITLES[title]}.** " + "\n\n".join(f"`{name}`: {text}" for name, text in section.items())
        elif isinstance(section, dict):
            yield f"**{TITLES[title]}**"
            for name, text in section.items():
                yield f"`{name}`\n: " + text.replace("\n", "\n  ")
        else:
            yield f"**{TITLES[title]}.** {section}"


def _folded(entry: Entry, texts: list[str]) -> list[str]:
    """Lo que sigue a la primera frase de un nombre: plegado, salvo si es tan corto que no merece un botón."""
    if len("".join(texts)) < UNFOLDED:
        return texts
    what = "Argumentos y detalles" if "Args" in entry.docstring.sections else "Detalles"
    return [f'<details class="libro-pliegue">\n<summary>{what}</summary>', *texts, "</details>"]


def _index(names: list[str], prefix: str) -> str:
    """Enlaces a los nombres de un apartado."""
    links = " ".join(f"[`{name}`](#{prefix}{name})" for name in names)
    return f'<div class="libro-nombres">\n\n{links}\n\n</div>'


def render(entry: Entry, level: int, anchor: str) -> str:
    """Un nombre público en Markdown, con su título y su destino de enlaces.

    Args:
        entry: el nombre.
        level: nivel del título.
        anchor: destino de los enlaces a él.
    """
    first, *rest = [*entry.docstring.text.split("\n\n"), *_sections(entry.docstring)]
    methods = [render(method, level + 1, f"{anchor}.{method.name}") for method in entry.methods]
    return "\n\n".join(
        [
            f"({anchor})=\n{'#' * level} {entry.name}",
            f"```python\n{entry.signature}\n```",
            show_literals(first),
            *_folded(entry, [show_literals(text) for text in rest if text]),
            *methods,
        ]
    )


def write_reference(root: Path, target: str) -> tuple[str, list[Path]]:
    """Markdown de un paquete (sus nombres públicos) o de uno de sus archivos (los que no salen ya en el paquete).

    Args:
        root: carpeta del proyecto.
        target: `PAQUETE` o `PAQUETE.ARCHIVO`.

    Returns:
        El texto y los archivos de los que sale.

    Raises:
        ExtensionError: si falta el archivo, un nombre público no está en él o no tiene docstring.
    """
    package_name, _, module = target.partition(".")
    package = root / "src" / package_name
    if not source_file(package, module or "__init__").exists():
        raise ExtensionError(f"No hay referencia de «{target}»: no está en {package}.")
    homes = public_names(package)
    files, blocks = [package / "__init__.py"], []
    if module:
        path = source_file(package, module)
        shown = {name: entry for name, entry in definitions(path, f"mc.{module}.").items()}
        wanted = [name for name in shown if name not in homes.get(module, ()) and shown[name].kind == "función"]
        groups = [(None, path, shown, wanted)]
    else:
        groups = [
            (name, path, definitions(path, "mc."), names)
            for name, names in homes.items()
            for path in [source_file(package, name)]
        ]
    for title, path, found, names in groups:
        files.append(path)
        if title:
            summary = _summary(path).rstrip(".")
            heading = re.split("[,:]", summary)[0]
            blocks.append(f"## {heading}\n\n{summary}. Está en `{package_name}.{title}`.")
        if len(names) > 1:
            blocks.append(_index(names, "mc." if title else f"mc.{module}."))
        for name in names:
            if name not in found or not found[name].docstring.text:
                raise ExtensionError(f"«{name}» es público y no está documentado en {path.relative_to(root)}.")
            prefix = "mc." if title else f"mc.{module}."
            blocks.append(render(found[name], 3, prefix + name))
    return "\n\n".join(blocks), files


def _write(app: Sphinx, docname: str, source: list[str]) -> None:
    root = Path(app.srcdir)

    def replace(found: re.Match) -> str:
        text, files = write_reference(root, found[1])
        for path in files:
            app.env.note_dependency(str(path))
        return text

    source[0] = PLACE.sub(replace, source[0])


def _quiet_copies(app: Sphinx, doctree: nodes.document) -> None:
    """Una firma no se copia: sobra el botón."""
    if PLACE.search(Path(app.env.doc2path(app.env.docname)).read_text("utf-8", errors="ignore")):
        for block in doctree.findall(nodes.literal_block):
            block["classes"].append("libro-firma")


def setup(app: Sphinx) -> None:
    """Registra la referencia."""
    app.connect("source-read", _write)
    app.connect("doctree-read", _quiet_copies)
