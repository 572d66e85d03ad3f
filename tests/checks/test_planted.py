"""4.6: los fallos plantados en el cuaderno, solos y en todas sus combinaciones, y los errores que van juntos en 4.4."""

import random
from itertools import combinations

import pytest

from multicabeza.checks import CHECKS
from multicabeza.checks.ch04 import FREQUENT, PLANTED, _changed, _Layer
from multicabeza.checks.framework import examine
from multicabeza.checks.hints import NOT_ALONE
from tests.checks.solutions import read

EXERCISE = read().get("4.6")
CHECK = CHECKS["4.6"]
HINTS = {mistake.name: mistake.hint for mistake in CHECK.mistakes}

# Nombre del fallo en la tabla → lo que hay en la celda y lo que debería haber.
REPAIRS = {
    "view sin trasponer al dividir": (
        ".view(batch, num_heads, n, d_k)",
        ".view(batch, n, num_heads, d_k).transpose(1, 2)",
    ),
    "escala con d_model": ("math.sqrt(d_model)", "math.sqrt(d_k)"),
    "polaridad al revés": ("masked_fill(mask,", "masked_fill(~mask,"),
    "reshape sin trasponer al juntar": ("heads.reshape(", "heads.transpose(1, 2).reshape("),
}
SUBSETS = [left for size in range(1, 5) for left in combinations(REPAIRS, size)]


def function_with(left):
    """La función de la celda, con los fallos de `left` todavía sin reparar."""
    first, *lines = EXERCISE.stub.splitlines(keepends=True)
    code = first + "".join(line for line in lines if "NotImplementedError" not in line)
    for name, (planted, repaired) in REPAIRS.items():
        assert code.count(planted) == 1
        code = code if name in left else code.replace(planted, repaired)
    return EXERCISE.run(code)["repaired_attention"]


def named(hint):
    """El fallo que nombra una pista."""
    (name,) = [name for name, text in HINTS.items() if hint.startswith(text)]
    return name


def test_the_four_are_in_the_table_in_reading_order():
    """Los nombres son los de la tabla, y la celda está pendiente mientras no se borra su primera línea."""
    assert list(REPAIRS) == list(PLANTED)
    assert [name for name in HINTS if name in PLANTED] == list(PLANTED)
    assert examine(CHECK, EXERCISE.run(EXERCISE.stub)["repaired_attention"]).pending


@pytest.mark.slow
@pytest.mark.parametrize("left", SUBSETS, ids=lambda left: " + ".join(left))
@pytest.mark.parametrize("seed", range(3))
def test_every_subset_gets_a_hint_that_names_a_bug_still_there(left, seed):
    """De las 15 combinaciones, ninguna pasa, y la pista es la del primer fallo que queda; si hay más, se dice."""
    result = examine(CHECK, function_with(left), seed=seed)
    assert (result.passed, result.pending) == (False, False)
    assert named(result.hint) == left[0]
    assert (NOT_ALONE in result.hint) is (len(left) > 1)
    assert result.score == (0 if set(left) != {"polaridad al revés"} else 1 / 2)


def test_following_the_hints_repairs_everything():
    """Quien arregla cada vez lo que la pista nombra acaba en cuatro pasos."""
    left = list(REPAIRS)
    for _ in range(4):
        left.remove(named(examine(CHECK, function_with(left)).hint))
    assert examine(CHECK, function_with(left)).passed


def grouped():
    """Las combinaciones de la tabla, con los nombres de los errores que lleva cada una."""
    steps = {m.name: _changed(m.answer) for m in CHECK.mistakes if isinstance(m.answer, _Layer)}
    for first, answer in CHECK.combined():
        changes = _changed(answer)
        yield first, [name for name, own in steps.items() if own.items() <= changes.items()], answer


@pytest.mark.slow
def test_combinations_name_a_mistake_that_is_there():
    """Los errores frecuentes de 4.4, con otro cualquiera o con los plantados: la pista nombra uno de los que hay."""
    assert set(PLANTED) < set(FREQUENT) < set(HINTS)
    for first, names, answer in random.Random(2).sample(list(grouped()), 25):
        assert first.name in names
        hint = examine(CHECK, answer, seed=0).hint
        # Cuando dos se tapan (con un error de formas, el otro no se ve), basta con que el nombrado explique lo visto.
        assert any(hint.startswith(HINTS[name]) for name in names), (names, hint)


@pytest.mark.slow
def test_combinations_of_the_cost_name_one_that_is_there():
    """En 4.5, con dos o tres cuentas mal, la pista es la de la primera."""
    combined = list(CHECKS["4.5"].combined())
    for first, answer in random.Random(1).sample(combined, 40):
        assert examine(CHECKS["4.5"], answer, seed=0).hint == f"{first.hint} {NOT_ALONE}"
