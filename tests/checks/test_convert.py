"""Ejercicios 08: la celda que comprueba la conversión de una capa, sin número, acepta lo bueno y nombra lo malo."""

import re

import pytest

import multicabeza as mc
from tests.checks.solutions import EXERCISES, load

CELLS = load(EXERCISES / "08_mqa_gqa.ipynb")


def verdict(answer: str | None, capsys) -> list[str]:
    """Lo que escribe la celda de comprobación con esa respuesta (None: la celda sin contestar)."""
    variables = {"__name__": "cuaderno", "mc": mc}
    for code in (CELLS["herramientas"], answer or CELLS["convierte-respuesta"], CELLS["convierte-prueba"]):
        exec(code, variables)
    capsys.readouterr()
    exec(CELLS["convierte-comprueba"], variables)
    return capsys.readouterr().out.splitlines()


def solution() -> str:
    (code,) = re.findall(r"^```python\n(.*?)^```", CELLS["convierte-solucion"], re.DOTALL | re.MULTILINE)
    return code


def test_pending_until_written(capsys):
    """Sin contestar, la celda dice que está pendiente y no falla."""
    (line,) = verdict(None, capsys)
    assert line.startswith("⏳ Pendiente")


def test_solution_passes(capsys):
    """La solución plegada recupera la capa de partida, y no toca la que recibe."""
    assert [line[0] for line in verdict(solution(), capsys)] == ["✓"] * 5


@pytest.mark.parametrize(
    ("before", "after", "failing"),
    [
        ("(num_kv_heads, -1)", "(-1, num_kv_heads)).transpose(1, 2", {0, 1}),
        (".mean(dim=2)", ".sum(dim=2)", {0, 1}),
        ('("weight", "bias")', '("weight",)', {1}),
        ("new.out_proj.load_state_dict(layer.out_proj.state_dict())", "pass", {2, 3}),
        ("rows[1:]", "rows[1:].flip(0)", {0, 1}),
        ("reshape(3, h, layer.head_dim, -1)", "reshape(3, layer.head_dim, h, -1).transpose(1, 2)", {0, 1}),
        ("    return new", "    layer.out_proj.weight.data.zero_()\n    return new", {4}),
    ],
)
def test_each_mistake_fails_where_it_is(before, after, failing, capsys):
    """Cada error se ve en las líneas que le tocan, y solo en ellas."""
    assert solution().count(before) == 1
    lines = [line for line in verdict(solution().replace(before, after), capsys) if line[0] in "✓✗"]
    assert {i for i, line in enumerate(lines) if line.startswith("✗")} == failing


def test_lines_fit_a_phone(capsys):
    """Lo que escribe la celda cabe en 39 columnas."""
    wrong = solution().replace(".mean(dim=2)", ".sum(dim=2)")
    for answer in (None, solution(), wrong):
        assert all(len(line) <= 39 for line in verdict(answer, capsys))
