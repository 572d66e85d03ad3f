"""Los ejercicios tal como están en los cuadernos: enunciado, respuesta por escribir, pistas y solución."""

import json
import re
from dataclasses import dataclass
from pathlib import Path

EXERCISES = Path(__file__).parents[2] / "exercises"


@dataclass(frozen=True)
class Exercise:
    """Las celdas de un ejercicio, y la solución sacada de su bloque plegado (la única copia que hay)."""

    id: str
    notebook: str
    tools: str
    statement: str
    stub: str
    check: str
    hints: str
    folded_solution: str

    @property
    def solutions(self) -> list[str]:
        return re.findall(r"^```python\n(.*?)^```", self.folded_solution, re.DOTALL | re.MULTILINE)

    def run(self, answer: str) -> dict:
        """Ejecuta la celda de los import y `answer` en un cuaderno vacío; devuelve sus variables."""
        variables: dict = {"__name__": "cuaderno"}
        exec(compile(self.tools, "<herramientas>", "exec"), variables)
        exec(compile(answer, "<respuesta>", "exec"), variables)
        return variables


def load(path: Path) -> dict[str, str]:
    """Texto de cada celda, por su identificador."""
    return {cell["id"]: "".join(cell["source"]) for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]}


def read() -> dict[str, Exercise]:
    """Todos los ejercicios con número, de todos los cuadernos."""
    found = {}
    for path in sorted(EXERCISES.glob("*.ipynb")):
        cells = load(path)
        for key in [id.removeprefix("respuesta-") for id in cells if id.startswith("respuesta-")]:
            parts = [cells[f"{part}-{key}"] for part in ("enunciado", "respuesta", "check", "pistas", "solucion")]
            number = key.replace("-", ".")
            found[number] = Exercise(number, path.name, cells["herramientas"], *parts)
    return found
