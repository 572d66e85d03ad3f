"""Escribe un curso de nbgrader con los ejercicios del libro: es lo que hace «make class».

`python book/classroom.py CARPETA` deja en ella la configuración, la rueda del módulo y, en `source/`, un cuaderno por
capítulo: la versión de quien enseña, con la solución entre marcas y la comprobación entera. De ahí
`nbgrader generate_assignment` saca la que se reparte, sin soluciones. Los cuadernos del libro no cambian y son la única
copia: al volver a ejecutarlo se rehacen los de `source/`; las notas, las entregas y la configuración se respetan.
"""

import argparse
import json
import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
STUB = "raise NotImplementedError"

# La segunda comprobación, que solo está en la versión de quien enseña. Lee el módulo de nuevo del disco, con el modo
# estricto puesto: da igual lo que el cuaderno haya hecho con `mc.check`, con sus tablas o con la variable de entorno.
HIDDEN = """
### BEGIN HIDDEN TESTS
import importlib, os, sys

os.environ["MULTICABEZA_STRICT"] = "1"
_mine = {{name: sys.modules.pop(name) for name in list(sys.modules) if name.split(".")[0] == "multicabeza"}}
try:
    importlib.import_module("multicabeza").check({arguments})
finally:
    for _name in [name for name in sys.modules if name.split(".")[0] == "multicabeza"]:
        del sys.modules[_name]
    sys.modules.update(_mine)
### END HIDDEN TESTS"""

HANDING_IN = (
    "Tus funciones se volverán a comprobar al corregir, con el cuaderno ejecutado entero y en orden: antes de "
    "entregar, reinicia el kernel y ejecuta todas las celdas. Entrega este archivo sin borrar ni duplicar celdas; "
    "puedes añadir las tuyas. Los ejercicios sin número no puntúan."
)

CONFIG = '''\
"""Configuración del curso. «make class» la escribe la primera vez y después no la toca: es tuya."""

import os
from pathlib import Path

from nbformat.v4 import new_output
from nbgrader import preprocessors as steps
from nbgrader import utils

# Con esto, mc.check lanza un error si la respuesta está mal o por escribir, y nbgrader pone un cero a esa celda.
os.environ["MULTICABEZA_STRICT"] = "1"

c = get_config()  # noqa: F821
c.CourseDirectory.course_id = "multicabeza"
c.CourseDirectory.root = str(Path(__file__).parent)
# En JupyterHub, la carpeta de intercambio, con permiso de escritura para todos:
# c.Exchange.root = "/srv/nbgrader/exchange"

# Lo que queda en la celda de respuesta cuando se quita la solución.
c.ClearSolutions.code_stub = {"python": "raise NotImplementedError"}
# La celda de comprobación que alguien borró vuelve a su sitio.
c.OverwriteCells.add_missing_cells = True
# Segundos por celda. Una función que no acaba la detiene mc.check en cinco; esto es para lo que no acaba fuera de ella.
c.Execute.timeout = 120
# Al recoger archivos descargados: «ana.perez-02_atencion.ipynb» es la entrega de ana.perez.
c.FileNameCollectorPlugin.named_regexp = r"(.*[/\\\\])?(?P<student_id>[^/\\\\-]+)-(?P<file_id>\\d\\d_\\w+)\\.ipynb$"


class Verdict(steps.NbGraderPreprocessor):
    """Una comprobación sin su «✓» vale cero: nbgrader daría por buena la celda que no llegó a ejecutarse."""

    def preprocess_cell(self, cell, resources, cell_index):
        if cell.cell_type == "code" and utils.is_grade(cell) and "mc.check(" in cell.source:
            failed = any(output.output_type == "error" for output in cell.outputs)
            if not failed and not any("✓" in output.get("text", "") for output in cell.outputs):
                text = "La comprobación no llegó a decir que la respuesta está bien."
                cell.outputs.append(new_output("error", ename="SinVeredicto", evalue=text, traceback=[text]))
        return cell, resources


c.Autograde.autograde_preprocessors = [
    steps.Execute,
    Verdict,
    steps.IgnorePattern,
    "nbconvert.preprocessors.ClearMetadataPreprocessor",
    steps.LimitOutput,
    steps.SaveAutoGrades,
    steps.AssignLatePenalties,
    steps.CheckCellMetadata,
]
'''


def text(cell: dict) -> str:
    return "".join(cell["source"])


def solution_of(folded: str) -> str:
    """El código del bloque plegado de una solución."""
    return re.search(r"^```python\n(.*?)^```", folded, re.DOTALL | re.MULTILINE)[1].rstrip()


def with_marks(stub: str, solution: str) -> str:
    """La celda de respuesta resuelta: nbgrader cambia lo que va entre las marcas por `STUB`, y queda la del libro.

    Raises:
        ValueError: si la solución no empieza como la celda de respuesta; entonces no se podría volver a ella.
    """
    head, _, tail = stub.partition(STUB)
    indent = head.rpartition("\n")[2]
    if not solution.startswith(head) or (tail and not tail.startswith("\n")):
        raise ValueError(
            f"La solución no empieza como su celda de respuesta, o «{STUB}» no va solo en su línea:\n{stub}"
        )
    body = solution[len(head) :]
    return f"{head}### BEGIN SOLUTION\n{indent}{body}\n{indent}### END SOLUTION{tail}"


def without_links(source: str, book: str) -> str:
    """Los enlaces a otras páginas del libro, a su dirección si la hay; si no, se quedan en texto."""

    def link(match: re.Match) -> str:
        words, folder, name, anchor = match.groups()
        return f"[{words}]({book.rstrip('/')}/{folder}/{name}.html{anchor or ''})" if book else words

    return re.sub(r"\[([^\]]+)\]\(\.\./(notebooks|book|exercises)/([\w-]+)\.(?:ipynb|md)(#[\w-]+)?\)", link, source)


def nbgrader(name: str, **role) -> dict:
    """Los metadatos de nbgrader de una celda; si no se dice otra cosa, fija y sin puntos."""
    role = {"grade": False, "solution": False, "locked": True, "task": False} | role
    return {"nbgrader": {"grade_id": name, "schema_version": 3, **role}}


def class_cells(cells: list[dict], book: str):
    """Las celdas de un cuaderno del curso, una a una: sin pistas, sin respuestas plegadas y con los papeles puestos."""
    source = {cell["id"]: text(cell) for cell in cells}
    told = ""  # el ejercicio cuya respuesta acaba de quitarse: la celda que hace esa cuenta también se va
    for cell in cells:
        name, words, role = cell["id"], text(cell), None
        if "<details>" in words:
            told = name.rpartition("-")[0]
            continue
        if name == f"{told}-cuenta":
            continue
        kind, _, number = name.partition("-")
        if kind == "respuesta" and f"check-{number}" in source:
            words = with_marks(words, solution_of(source[f"solucion-{number}"]))
            role = {"solution": True, "locked": False}
        elif kind == "check":
            arguments = re.fullmatch(r"mc\.check\((.+)\)", words.strip())[1]
            points = int(re.search(r"Dificultad (\d) de 5", source[f"enunciado-{number}"])[1])
            words = words.rstrip() + HIDDEN.format(arguments=arguments)
            role = {"grade": True, "points": points}
        elif kind in ("preparacion", "herramientas", "enunciado"):
            role = {}
        elif name == "como-se-trabaja":
            kept = [part for part in words.split("\n\n") if not part.startswith("Las pistas están plegadas")]
            words = "\n\n".join([*kept[:-1], HANDING_IN, kept[-1]])
        if cell["cell_type"] == "markdown":
            words = without_links(words.replace(" Escríbelo antes de abrir la respuesta.", ""), book)
        metadata = dict(cell["metadata"]) if role is None else nbgrader(name, **role)
        yield {**cell, "source": words, "metadata": metadata}


def write_course(folder: Path, book: str = "") -> list[str]:
    """Escribe el curso en `folder` y devuelve los nombres de sus tareas."""
    names = []
    for path in sorted((ROOT / "exercises").glob("*.ipynb")):
        notebook = json.loads(path.read_text("utf-8"))
        notebook["cells"] = list(class_cells(notebook["cells"], book))
        target = folder / "source" / path.stem / path.name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps(notebook, ensure_ascii=False, indent=1) + "\n", "utf-8")
        names.append(path.stem)
    config = folder / "nbgrader_config.py"
    if not config.exists():
        config.write_text(CONFIG, "utf-8")
    return names


def write_wheel(folder: Path) -> Path:
    """Deja en `folder` la rueda del módulo, que es lo que instala quien no tiene el libro."""
    sys.path.insert(0, str(ROOT / "book" / "_ext"))
    from libro.publishing import build_wheel

    return Path(shutil.copy(build_wheel(ROOT, ROOT / "_build" / ".libro" / "rueda-curso"), folder))


def write_kernel(environment: Path) -> None:
    """El kernel «python3» de un entorno será este Python: nbgrader va en el suyo, y los cuadernos, en el del libro."""
    spec = {
        "argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": "Python 3",
        "language": "python",
    }
    folder = environment / "share" / "jupyter" / "kernels" / "python3"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "kernel.json").write_text(json.dumps(spec, indent=1), "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description="Escribe un curso de nbgrader con los ejercicios del libro.")
    parser.add_argument("folder", type=Path, help="carpeta del curso")
    parser.add_argument("--book", default="", help="dirección del libro publicado, para los enlaces")
    parser.add_argument("--kernel", action="store_true", help="solo pone este Python como kernel del entorno «folder»")
    given = parser.parse_args()
    if given.kernel:
        write_kernel(given.folder)
        return
    names = write_course(given.folder, given.book)
    wheel = write_wheel(given.folder)
    print(f"{len(names)} tareas en {given.folder / 'source'}: {', '.join(names)}\nmódulo: {wheel}")


if __name__ == "__main__":
    main()
