"""Las reglas de los cuadernos: cada una recibe un cuaderno y devuelve sus faltas, una frase por falta.

Un cuaderno es su JSON más el camino del que salió (`Notebook`). Las reglas de `RULES` se aplican a todos; cada una sabe
a quién no le toca (los ejercicios no tienen la forma de un capítulo).
"""

import ast
import copy
import itertools
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import nbformat

ROOT = Path(__file__).parents[2]

SETUP = """\
# Preparación, igual en todos los cuadernos: en tu ordenador no hace nada; en Colab instala el módulo.
REPO = ""  # dirección del libro; la escribe «make publish-config»
try:
    import multicabeza as mc
except ModuleNotFoundError:
    from pathlib import Path

    source = f"git+{REPO}" if REPO else max(map(str, Path().glob("multicabeza-*.whl")), default="")
    if not source:
        raise ImportError(
            "Falta el módulo «multicabeza». Descarga «multicabeza-….whl» de la página de este cuaderno en el libro, "
            "ponlo en la carpeta del cuaderno (en Colab: icono de la carpeta, «Subir») y vuelve a ejecutar esta celda."
        ) from None
    %pip install -q {source}
    import multicabeza as mc"""

KERNEL = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
# Con esto, JupyterLab y Colab pliegan el código de una pregunta, que da la respuesta (el libro lo hace por su cuenta).
FOLDED = {"jupyter": {"source_hidden": True}, "cellView": "form"}
MAX_LINES = 15
MAX_CELLS = 35

CHECKS_PER_CHAPTER = {1: 2, 2: 5, 3: 3, 4: 7, 5: 3, 6: 5, 7: 5, 8: 5, 9: 4}


@dataclass
class Notebook:
    """Un cuaderno leído como JSON, con su camino."""

    path: Path
    data: dict

    @classmethod
    def read(cls, path: Path) -> "Notebook":
        return cls(path, json.loads(path.read_text("utf-8")))

    @property
    def chapter(self) -> int:
        return int(self.path.name[:2])

    @property
    def is_chapter(self) -> bool:
        return self.path.parent.name == "notebooks"

    def cells(self, kind: str) -> Iterator[tuple[str, str]]:
        """Las celdas de un tipo: (id, texto)."""
        for cell in self.data["cells"]:
            if cell["cell_type"] == kind:
                yield cell.get("id", "?"), source_of(cell)

    def markdown(self) -> str:
        return "\n\n".join(text for _, text in self.cells("markdown"))


def source_of(cell: dict) -> str:
    source = cell["source"]
    return source if isinstance(source, str) else "".join(source)


def parse(code: str) -> ast.Module:
    """El árbol de una celda de código; las órdenes de IPython (`%pip`, `!ls`) cuentan como `pass`."""
    return ast.parse(re.sub(r"^(\s*)[%!].*", r"\1pass", code, flags=re.M))


def without_code(text: str) -> str:
    """El Markdown sin bloques ni trozos de código."""
    text = re.sub(r"^(```|~~~).*?^\1\s*$", "", text, flags=re.M | re.S)
    return re.sub(r"(`+)(?!`).+?(?<!`)\1(?!`)", "", text, flags=re.S)


def dotted(node: ast.expr) -> str:
    """`mc.plots.lines` de una llamada o un atributo; «» si no es un nombre con puntos."""
    if isinstance(node, ast.Call):
        return dotted(node.func)
    if isinstance(node, ast.Attribute):
        base = dotted(node.value)
        return f"{base}.{node.attr}" if base else ""
    return node.id if isinstance(node, ast.Name) else ""


def calls(tree: ast.AST, name: str) -> list[ast.Call]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call) and dotted(node) == name]


# --- Formato ---------------------------------------------------------------------------------------------------------


def valid_format(book: Notebook) -> list[str]:
    """nbformat 4.5 válido."""
    if (book.data.get("nbformat"), book.data.get("nbformat_minor")) != (4, 5):
        return [f"es nbformat {book.data.get('nbformat')}.{book.data.get('nbformat_minor')}, no 4.5"]
    if not all("id" in cell for cell in book.data["cells"]):  # nbformat se lo pondría, y solo avisa
        return ["no es un cuaderno válido: hay celdas sin identificador"]
    try:
        nbformat.validate(copy.deepcopy(book.data), relax_add_props=False)
    except nbformat.ValidationError as error:
        return [f"no es un cuaderno válido: {error.message[:120]}"]
    return []


def no_traces(book: Notebook) -> list[str]:
    """Sin salidas, números de ejecución ni metadatos, salvo el núcleo «python3» y el pliegue de las preguntas."""
    faults = [] if book.data["metadata"] == KERNEL else [f"metadatos del cuaderno: {book.data['metadata']}"]
    for cell in book.data["cells"]:
        if cell["metadata"] and not is_question(cell):
            faults.append(f"celda «{cell.get('id')}»: metadatos {cell['metadata']}")
        if cell.get("outputs") or cell.get("execution_count") is not None:
            faults.append(f"celda «{cell.get('id')}»: tiene salidas o número de ejecución")
        if cell.get("attachments"):
            faults.append(f"celda «{cell.get('id')}»: tiene ficheros adjuntos")
    return faults


def is_question(cell: dict) -> bool:
    """Si es una celda de código que llama a `mc.predict` o a `mc.activity`."""
    if cell["cell_type"] != "code":
        return False
    tree = safe_parse(source_of(cell))
    return bool(calls(tree, "mc.predict") or calls(tree, "mc.activity"))


def folded_questions(book: Notebook) -> list[str]:
    """El código de una pregunta da la respuesta o no dice nada: su celda lo lleva plegado y no contiene nada más."""
    faults = []
    for cell in filter(is_question, book.data["cells"]):
        if cell["metadata"] != FOLDED:
            faults.append(f"celda «{cell.get('id')}»: una pregunta lleva los metadatos {FOLDED}")
        body = safe_parse(source_of(cell)).body
        if len(body) > 1 or not source_of(cell).startswith(("mc.predict(", "mc.activity(")):
            faults.append(f"celda «{cell.get('id')}»: la pregunta va sola en su celda; lo demás quedaría escondido")
    return faults


def review_activity(book: Notebook) -> list[str]:
    """Un capítulo lleva su repaso, y solo el suyo, tras «## Repaso» y después de «Errores frecuentes»."""
    cells = [(i, code) for i, (_, code) in enumerate(book.cells("code")) if calls(safe_parse(code), "mc.activity")]
    wanted = f'mc.activity("{book.chapter:02}")' if book.is_chapter else ""
    if [code for _, code in cells] != [wanted] * book.is_chapter:
        return [
            f"debía tener una celda con {wanted}; hay {len(cells)}" if wanted else "mc.activity va en los capítulos"
        ]
    if not wanted:
        return []
    text = [source_of(cell) for cell in book.data["cells"]]
    place = text.index(wanted)
    faults = [] if text[place - 1].startswith("## Repaso\n") else ["antes del repaso va una celda con «## Repaso»"]
    if not any("## Errores frecuentes" in before for before in text[:place]):
        faults.append("el repaso va después de «Errores frecuentes»")
    return faults


def stable_ids(book: Notebook) -> list[str]:
    """Identificadores únicos y con sentido: los que pone un editor al azar cambian a cada copia."""
    ids = [cell.get("id", "") for cell in book.data["cells"]]
    faults = [f"identificador repetido «{id_}»" for id_ in sorted({id_ for id_ in ids if ids.count(id_) > 1})]
    for id_ in ids:
        if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", id_):
            faults.append(f"identificador «{id_}»: minúsculas, cifras y guiones")
        elif re.fullmatch(r"[0-9a-f]{8}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", id_):
            faults.append(f"identificador «{id_}»: parece puesto al azar")
    return faults


def same_setup(book: Notebook) -> list[str]:
    """La celda «preparacion» es la primera de código y es la de todos."""
    code = list(book.cells("code"))
    if not code or code[0][0] != "preparacion":
        return ["la primera celda de código no es «preparacion»"]
    if re.sub(r'(?m)^REPO = "[^"\n]*"', 'REPO = ""', code[0][1]) != SETUP:
        return ["la celda «preparacion» no es la de todos los cuadernos"]
    return []


# --- Código ----------------------------------------------------------------------------------------------------------


def short_cells(book: Notebook) -> list[str]:
    """Ninguna celda de código pasa de 15 líneas, y ninguna está vacía."""
    faults = []
    for id_, code in book.cells("code"):
        lines = len(code.splitlines())
        if lines > MAX_LINES:
            faults.append(f"celda «{id_}»: {lines} líneas, más de {MAX_LINES}")
        if not code.strip():
            faults.append(f"celda «{id_}»: vacía")
    return faults


def few_cells(book: Notebook) -> list[str]:
    """Un capítulo no pasa de 35 celdas de código, sin contar la del repaso, que es un formulario."""
    count = sum(not calls(safe_parse(code), "mc.activity") for _, code in book.cells("code"))
    if book.is_chapter and count > MAX_CELLS:
        return [f"{count} celdas de código, más de {MAX_CELLS}: junta las que hacen una sola cosa"]
    return []


def portable_code(book: Notebook) -> list[str]:
    """El código se puede leer, no instala nada por su cuenta y no nombra carpetas de una máquina."""
    faults = []
    for id_, code in book.cells("code"):
        try:
            parse(code)
        except SyntaxError as error:
            faults.append(f"celda «{id_}»: {error.msg} (línea {error.lineno})")
        if id_ != "preparacion" and re.search(r"^\s*[%!]", code, re.M):
            faults.append(f"celda «{id_}»: usa una orden de IPython (% o !)")
        if re.search(r"(/(home|Users|root|tmp|content)/|[A-Z]:\\\\)", code):
            faults.append(f"celda «{id_}»: nombra una carpeta de una máquina")
    return faults


FIGURE_MAKERS = r"((mc\.)?plots\.\w+|plt\.(figure|subplots|subplot_mosaic)|(\w+\.)?Figure)"


def figures_are_shown(book: Notebook) -> list[str]:
    """Las figuras salen por `mc.show` o `mc.explore`, siempre con texto alternativo."""
    faults, figures = [], set()
    makers = {
        alias.asname or alias.name
        for _, code in book.cells("code")
        for node in ast.walk(safe_parse(code))
        if isinstance(node, ast.ImportFrom) and node.module == "multicabeza.plots"
        for alias in node.names
    }

    def makes_figure(node: ast.expr) -> bool:
        if isinstance(node, ast.Name):
            return node.id in figures
        name = dotted(node) if isinstance(node, ast.Call) else ""
        return bool(re.fullmatch(FIGURE_MAKERS, name)) or name in makers

    for id_, code in book.cells("code"):
        tree = safe_parse(code)
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and makes_figure(node.value):
                target = node.targets[0]
                target = target.elts[0] if isinstance(target, ast.Tuple) else target
                figures.add(dotted(target))
            if isinstance(node, ast.Call) and re.fullmatch(r"(plt|\w*fig\w*)\.show", dotted(node)):
                faults.append(f"celda «{id_}»: {dotted(node)}() en vez de mc.show")
            if isinstance(node, ast.Call) and dotted(node) == "display" and any(map(makes_figure, node.args)):
                faults.append(f"celda «{id_}»: display(figura) en vez de mc.show")
        last = tree.body[-1] if tree.body else None
        if isinstance(last, ast.Expr) and makes_figure(last.value):
            faults.append(f"celda «{id_}»: acaba en una figura suelta; pásala por mc.show")
        shown = calls(tree, "mc.show") + calls(tree, "mc.explore")
        loose = [s for s in tree.body if not isinstance(s, ast.FunctionDef | ast.Import | ast.ImportFrom)]
        if not shown and any(dotted(n).startswith("plt.") for s in loose for n in ast.walk(s) if is_call(n)):
            faults.append(f"celda «{id_}»: pinta con plt y no enseña la figura con mc.show")
        for call in shown:
            faults += [f"celda «{id_}»: {fault}" for fault in alt_faults(call)]
    return faults


def is_call(node: ast.AST) -> bool:
    return isinstance(node, ast.Call)


def safe_parse(code: str) -> ast.Module:
    try:
        return parse(code)
    except SyntaxError:  # ya lo dice portable_code
        return ast.Module(body=[], type_ignores=[])


def alt_faults(call: ast.Call) -> list[str]:
    """Lo que le falta al texto alternativo de una llamada a mc.show o mc.explore."""
    alt = next((keyword.value for keyword in call.keywords if keyword.arg == "alt"), None)
    if alt is None:
        return [f"{dotted(call)} sin alt="]
    if isinstance(alt, ast.Constant):
        if not isinstance(alt.value, str) or len(alt.value.strip()) < 20:
            return [f"{dotted(call)} con un texto alternativo vacío o demasiado corto"]
        if re.match(r"\s*(imagen|gráfic[oa]|figura)\b", alt.value, re.I):
            return [f"{dotted(call)}: el texto alternativo empieza por «{alt.value.split()[0]}»; di qué se ve"]
    return []


# --- Markdown --------------------------------------------------------------------------------------------------------


def plain_markdown(book: Notebook) -> list[str]:
    """Nada de MyST: Colab lo enseñaría tal cual."""
    patterns = {
        r"^\s*(```+|~~~+|:::+)\s*\{": "directiva",
        r"^\s*:::": "bloque con :::",
        r"(?<![`\w\\])\{[a-z][\w:+-]*\}`[^`]": "rol",
        r"^\([\w-]+\)=\s*$": "etiqueta (nombre)=",
        r"^\+\+\+": "separador +++",
        r"\{\{.*?\}\}": "sustitución {{ }}",
        r"\[\^[\w-]+\]": "nota al pie",
    }
    faults = []
    for id_, text in book.cells("markdown"):
        plain = re.sub(r"^```python\s*$.*?^```\s*$", "", text, flags=re.M | re.S)
        plain = re.sub(r"\$\$.*?\$\$|\$[^$\n]+\$", "", plain, flags=re.S)
        faults += [
            f"celda «{id_}»: {what} de MyST" for pattern, what in patterns.items() if re.search(pattern, plain, re.M)
        ]
    return faults


STANDARD_MACROS = set(
    """
    alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu xi pi rho sigma tau
    upsilon phi varphi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega ell hbar nabla partial
    infty forall exists in notin ni subset subseteq supset cup cap setminus emptyset neg land lor to mapsto gets
    rightarrow leftarrow Rightarrow Leftarrow Leftrightarrow leftrightarrow longrightarrow Longrightarrow uparrow
    downarrow implies iff cdot times div pm mp ast star circ bullet odot otimes oplus le ge leq geq neq ne ll gg lt gt
    equiv approx sim simeq cong propto perp parallel mid top bot prime dots ldots cdots vdots ddots frac dfrac tfrac
    sqrt binom sum prod int lim sup inf max min arg exp log ln lg sin cos tan tanh det dim ker Pr operatorname text
    textbf textit textrm mathrm mathbf mathbb mathcal mathsf mathtt mathit boldsymbol hat widehat bar overline tilde
    widetilde vec dot underline underbrace overbrace underset overset stackrel left right middle big Big bigg Bigg bigl
    bigr Bigl Bigr langle rangle lfloor rfloor lceil rceil lvert rvert lVert rVert vert Vert quad qquad begin end tag
    displaystyle textstyle scriptstyle limits nolimits not phantom substack boxed
    """.split()
)
STANDARD_ENVIRONMENTS = {"aligned", "cases", "matrix", "pmatrix", "bmatrix", "vmatrix", "array", "gathered", "split"}


def standard_math(book: Notebook) -> list[str]:
    """Fórmulas que entiende cualquier MathJax: `$…$`, o `$$…$$` en un párrafo propio, con etiquetas sin repetir."""
    faults, tags = [], []
    for id_, text in book.cells("markdown"):
        plain = without_code(text)
        if plain.count("$$") % 2:
            faults.append(f"celda «{id_}»: un $$ sin pareja")
            continue
        formulas = re.findall(r"\$\$(.*?)\$\$", plain, re.S)
        for block in re.finditer(r"\$\$.*?\$\$", plain, re.S):
            before, after = plain[: block.start()], plain[block.end() :]
            if not re.search(r"(\A|\n[ \t]*\n)[ \t]*\Z", before) or not re.match(r"[ \t]*(\Z|\n[ \t]*(\n|\Z))", after):
                faults.append(f"celda «{id_}»: $${block[0][2:30]}… no está en un párrafo propio")
        formulas += re.findall(r"(?<!\\)\$([^$\n]+?)\$", re.sub(r"\$\$.*?\$\$", "", plain, flags=re.S))
        for formula in formulas:
            macros = set(re.findall(r"\\([A-Za-z]+)", formula)) - STANDARD_MACROS
            macros |= set(re.findall(r"\\begin\{(\w+\*?)\}", formula)) - STANDARD_ENVIRONMENTS
            faults += [f"celda «{id_}»: \\{macro} no es de las corrientes" for macro in sorted(macros)]
            tags += re.findall(r"\\tag\{(.*?)\}", formula)
        outside = re.sub(r"\$\$.*?\$\$|(?<!\\)\$[^$\n]+?\$", "", plain, flags=re.S)
        faults += [
            f"celda «{id_}»: {name} fuera de una fórmula: ${name}$" for name in re.findall(r"W\^[QKVO]", outside)
        ]
        if re.search(r"^\s*\\begin\{", plain, re.M) and not formulas:
            faults.append(f"celda «{id_}»: \\begin sin $$")
    return faults + [f"etiqueta ({tag}) repetida" for tag in sorted({tag for tag in tags if tags.count(tag) > 1})]


def folded_blocks(book: Notebook) -> list[str]:
    """`<details><summary>…</summary>`, línea en blanco, Markdown, línea en blanco, `</details>`."""
    faults = []
    for id_, text in book.cells("markdown"):
        lines = text.splitlines()
        if len(re.findall(r"<details\b", text)) != text.count("</details>"):
            faults.append(f"celda «{id_}»: <details> sin cerrar")
        for number, line in enumerate(lines):
            if "<details" in line:
                if not re.fullmatch(r"<details><summary>[^<>]+</summary>", line.strip()):
                    faults.append(f"celda «{id_}»: escribe <details><summary>…</summary> en una línea")
                elif number + 1 < len(lines) and lines[number + 1].strip():
                    faults.append(f"celda «{id_}»: falta la línea en blanco después de <summary>")
                if number and lines[number - 1].strip():
                    faults.append(f"celda «{id_}»: falta la línea en blanco antes de <details>")
            if "</details>" in line and (line.strip() != "</details>" or lines[number - 1].strip()):
                faults.append(f"celda «{id_}»: </details> va solo, tras una línea en blanco")
    return faults


NOTE_LABELS = {"analogia": "**Analogía.**", "ojo": "**Ojo.**", "mas": "**Para saber más.**"}


def notes_and_html(book: Notebook) -> list[str]:
    """Los avisos tienen una sola forma, y fuera de ellos no hay más HTML que <details>."""
    faults = []
    note = re.compile(r'^<div class="mc-note" data-kind="(\w+)">\n\n(.*?)\n\n</div>$', re.M | re.S)
    for id_, text in book.cells("markdown"):
        for kind, body in note.findall(text):
            label = NOTE_LABELS.get(kind)
            if label is None:
                faults.append(f"celda «{id_}»: data-kind «{kind}» no existe")
            elif not body.startswith(label):
                faults.append(f"celda «{id_}»: un aviso «{kind}» empieza por {label}")
            if kind == "analogia" and not re.search(r"[Dd]ónde (falla|se rompe|deja de)", body):
                faults.append(f"celda «{id_}»: la analogía no dice dónde falla")
        rest = without_code(note.sub("", text))
        tags = set(re.findall(r"</?([a-zA-Z][\w-]*)[ >/]", re.sub(r"\$[^$]*\$", "", rest)))
        for tag in sorted(tags - {"details", "summary", "br", "sub", "sup", "kbd"}):
            faults.append(f"celda «{id_}»: <{tag}> fuera de la forma de los avisos")
        if re.search(r"!\[\s*\]\(", text):
            faults.append(f"celda «{id_}»: imagen sin texto alternativo")
    return faults


def links_resolve(book: Notebook) -> list[str]:
    """Los enlaces locales llevan a un fichero del libro."""
    faults = []
    for id_, text in book.cells("markdown"):
        for target in re.findall(r"\]\(<?([^)\s>]+)>?[^)]*\)", without_code(text)):
            if re.match(r"(https?|mailto):", target) or target.startswith("#"):
                continue
            if target.startswith("/") or ":" in target:
                faults.append(f"celda «{id_}»: enlace «{target}» que solo vale en una máquina")
            elif not (book.path.parent / target.split("#")[0]).resolve().is_file():
                faults.append(f"celda «{id_}»: el enlace «{target}» no lleva a ningún fichero")
    return faults


def finished(book: Notebook) -> list[str]:
    """Sin tareas a medias."""
    faults = []
    for cell in book.data["cells"]:
        if found := re.search(r"\b(TODO|FIXME|XXX|TBD)\b|lorem ipsum", source_of(cell)):
            faults.append(f"celda «{cell.get('id')}»: «{found[0]}»")
    return faults


# --- La forma de un capítulo y de unos ejercicios --------------------------------------------------------------------


def headings(book: Notebook) -> list[tuple[int, str]]:
    found = re.findall(r"^(#{1,6}) +(.+?)\s*$", without_code(book.markdown()), re.M)
    return [(len(marks), title) for marks, title in found]


def one_title(book: Notebook) -> list[str]:
    """Un solo título, al principio, y ningún nivel saltado."""
    titles = headings(book)
    faults = []
    first = book.data["cells"][0]
    if first["cell_type"] != "markdown" or not source_of(first).startswith("# "):
        faults.append("la primera celda no es el título")
    if [level for level, _ in titles].count(1) != 1:
        faults.append("debe haber un título (#), y solo uno")
    for (level, _), (following, title) in itertools.pairwise(titles):
        if following > level + 1:
            faults.append(f"«{title}» salta del nivel {level} al {following}")
    return faults


def chapter_shape(book: Notebook) -> list[str]:
    """Las partes que tiene todo capítulo; a «Antes de empezar» le bastan las primeras."""
    if not book.is_chapter:
        return []
    text, titles = book.markdown(), [title for _, title in headings(book)]
    code = [safe_parse(code) for _, code in book.cells("code")]
    faults = []

    def wanted(condition: bool, what: str):
        if not condition:
            faults.append(f"falta {what}")

    def has_heading(words: str) -> bool:
        return any(words.lower() in title.lower() for title in titles)

    wanted(has_heading("Dónde estamos"), "«Dónde estamos»")
    order = [cell.get("id") for cell in book.data["cells"]]
    wanted("preparacion" in order[:8], "la celda «preparacion» entre las primeras")
    if book.chapter == 0:
        return faults
    wanted(has_heading("La idea en una frase"), "«La idea en una frase»")
    wanted(
        re.search(r"^\|[^\n]*(término|concepto)[^\n]*\|[^\n]*para qué[^\n]*\|\s*\n\|[ :|-]+\|", text, re.I | re.M),
        "la tabla de conceptos clave (término, definición, para qué sirve)",
    )
    wanted(any(calls(tree, "mc.predict") for tree in code), "un «Antes de ejecutar, predice» (mc.predict)")
    think = re.search(r"^(#+ [^\n]*|\*\*)Piensa como quien investiga.*?(?=^## |\Z)", text, re.M | re.S | re.I)
    wanted(think, "«Piensa como quien investiga»")
    if think:
        wanted("<details>" in think[0], "el desplegable de «Piensa como quien investiga»")
    wanted(re.search(r"buen sitio para una pausa", text, re.I), "«Buen sitio para una pausa»")
    wanted(has_heading("Resumen"), "«Resumen»")
    wanted(has_heading("Errores frecuentes"), "«Errores frecuentes»")
    wanted(f"/exercises/{book.path.name}" in text, "el enlace a sus ejercicios")
    own = (
        "dónde estamos",
        "la idea en",
        "conceptos",
        "piensa como",
        "resumen",
        "errores frec",
        "ejercicios",
        "repaso",
        "para practicar",
    )
    sections = [t for level, t in headings(book) if level == 2 and not t.lower().startswith(own)]
    wanted(4 <= len(sections) <= 8, f"un número de secciones entre 4 y 8: hay {len(sections)}")
    return faults


def exercise_shape(book: Notebook) -> list[str]:
    """Cada ejercicio: enunciado con dificultad y minutos, celda de respuesta, comprobación, pista y solución."""
    if book.is_chapter:
        return []
    code = [safe_parse(code) for _, code in book.cells("code")]
    checks = [call for tree in code for call in calls(tree, "mc.check")]
    found = [call.args[0].value for call in checks if call.args and isinstance(call.args[0], ast.Constant)]
    expected = [f"{book.chapter}.{i}" for i in range(1, CHECKS_PER_CHAPTER.get(book.chapter, 0) + 1)]
    faults = [] if found == expected else [f"comprueba {found} y debía comprobar {expected}"]
    text = book.markdown()
    for id_ in expected:
        section = re.search(rf"^## {re.escape(id_)} ·.*?(?=^## |\Z)", text, re.M | re.S)
        if not section:
            faults.append(f"falta el enunciado «## {id_} · …»")
            continue
        for pattern, what in {
            r"[Dd]ificultad \d de 5": "la dificultad",
            r"\d+ minutos": "los minutos",
            r"<details><summary>Pista": "la pista",
            r"<details><summary>Solución</summary>\n\n(?:.*?\n)??```python\n": "la solución plegada, con su código",
        }.items():
            if not re.search(pattern, section[0], re.S):
                faults.append(f"ejercicio {id_}: falta {what}")
    pending = sum("NotImplementedError" in ast.dump(tree) for tree in code)
    if pending < len(expected):
        faults.append(f"{pending} celdas de respuesta con NotImplementedError para {len(expected)} ejercicios")
    return faults


RULES: dict[str, Callable[[Notebook], list[str]]] = {
    rule.__name__: rule
    for rule in (
        valid_format,
        no_traces,
        folded_questions,
        review_activity,
        stable_ids,
        same_setup,
        short_cells,
        few_cells,
        portable_code,
        figures_are_shown,
        plain_markdown,
        standard_math,
        folded_blocks,
        notes_and_html,
        links_resolve,
        finished,
        one_title,
        chapter_shape,
        exercise_shape,
    )
}


def notebooks() -> list[Path]:
    """Todos los cuadernos del libro."""
    return sorted([*ROOT.glob("notebooks/*.ipynb"), *ROOT.glob("exercises/*.ipynb")])
