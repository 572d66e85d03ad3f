"""Un cuaderno de ejercicios en un kernel de verdad, resuelto con la solución que lleva plegada."""

import inspect
import json

import nbformat
import pytest
from nbclient import NotebookClient

from multicabeza.checks import CHECKS
from tests.checks.solutions import EXERCISES, read

EXERCISE = read()


@pytest.mark.slow
def test_solved_notebook_runs_and_prints_one_line_per_check(tmp_path):
    """Con cada solución en su celda, «ejecutar todo» llega al final y cada comprobación escribe solo su línea."""
    name = "02_atencion.ipynb"
    notebook = nbformat.read(EXERCISES / name, as_version=4)
    cells = {cell["id"]: cell for cell in notebook.cells}
    exercises = [exercise for exercise in EXERCISE.values() if exercise.notebook == name]
    for exercise in exercises:
        cells[f"respuesta-{exercise.id.replace('.', '-')}"]["source"] = exercise.solutions[0]
    broken = exercises[0]  # y, al final, una respuesta con un error: la pista lleva su línea
    parameters = str(inspect.signature(CHECKS[broken.id].reference))
    source = f"def broken{parameters}:\n    total = 1\n    return total / 'x'\n\n\nmc.check('{broken.id}', broken)"
    notebook.cells.append(nbformat.v4.new_code_cell(source))
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    for exercise in exercises:
        outputs = cells[f"check-{exercise.id.replace('.', '-')}"]["outputs"]
        assert [o["output_type"] for o in outputs] == ["stream"], json.dumps(outputs)
        assert outputs[0]["text"] == f"✓ {exercise.id} · Correcto.\n"
    hint = notebook.cells[-1]["outputs"][0]["text"]
    assert hint.count("\n") == 1
    assert "TypeError" in hint
    assert "línea 3 de tu celda, «return total / 'x'»" in hint
