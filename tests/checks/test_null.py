"""Ejercicios 05: la celda que comprueba la distribución nula, que no lleva número, acepta lo bueno y nombra lo malo."""

import re

import pytest
import torch

import multicabeza as mc
from tests.checks.solutions import EXERCISES, load

CELLS = load(EXERCISES / "05_especializacion.ipynb")
NAMES = ("siempre al anterior", "siempre a sí misma", "siempre al primero", "solo desde el segundo")


def verdict(answer: str | None, capsys) -> str:
    """Lo que escribe la celda de comprobación con esa respuesta (None: la celda sin contestar)."""
    variables = {"__name__": "cuaderno", "mc": mc}
    for code in (CELLS["herramientas"], answer or CELLS["azar-respuesta"], CELLS["azar-mapas"]):
        exec(code, variables)
    capsys.readouterr()
    exec(CELLS["azar-comprueba"], variables)
    return capsys.readouterr().out


def solution() -> str:
    (code,) = re.findall(r"^```python\n(.*?)^```", CELLS["azar-solucion"], re.DOTALL | re.MULTILINE)
    return code


def test_pending_until_written(capsys):
    """Sin contestar, la celda dice que está pendiente y no falla."""
    assert verdict(None, capsys).startswith("⏳ Pendiente")


def test_solution_passes_with_any_seed(capsys):
    """La solución plegada acierta en las cuatro cabezas, también con otro sorteo."""
    assert [line[0] for line in verdict(solution(), capsys).splitlines()] == ["✓"] * 4
    variables = {"__name__": "cuaderno", "mc": mc}
    for code in (CELLS["herramientas"], solution(), CELLS["azar-mapas"]):
        exec(code, variables)
    low, high = torch.tensor([limits[:2] for limits in variables["expected"].values()]).T
    for seed in range(1, 9):
        generator = torch.Generator().manual_seed(seed)
        p_values = variables["permutation_p_value"](
            variables["previous_score"], variables["known_heads"], 999, generator
        )
        assert ((p_values >= low - 1e-6) & (p_values <= high + 1e-6)).all()


@pytest.mark.parametrize(
    ("before", "after", "failing"),
    [
        ("torch.ones_like(observed)", "torch.zeros_like(observed)", {0, 1}),
        ("/ (draws + 1)", "/ draws", {0, 1}),
        (">= observed", "> observed", {1, 2, 3}),
        (">= observed", "<= observed", {0, 1, 2, 3}),
        ("torch.rand(weights.shape,", "torch.rand(weights.shape[-1],", {2}),
        ("weights.gather(-1, order)", "weights", {0, 2, 3}),
        ("weights.gather(-1, order)", "weights.gather(-2, order.argsort(-2))", {2, 3}),
        ("weights.gather(-1, order)", "weights.flatten(1).gather(1, order.flatten(1).argsort()).view_as(weights)", {3}),
    ],
    ids=["sin el 1", "sin el 1 abajo", "sin empates", "al revés", "un solo orden", "sin barajar", "consultas", "todo"],
)
def test_wrong_answers_are_named(before, after, failing, capsys):
    """Cada descuido falla en la cabeza que lo delata, con su pregunta."""
    code = solution()
    assert before in code
    wrong = code.replace(before, after)
    if "shape[-1]" in after:
        wrong = wrong.replace("gather(-1, order)", "gather(-1, order.expand(weights.shape))")
    lines = verdict(wrong, capsys).splitlines()
    assert {i for i, line in enumerate(lines) if line.startswith("✗")} == failing
    for i, line in enumerate(lines):
        assert NAMES[i] in line
        assert line.endswith("?") == (i in failing)
