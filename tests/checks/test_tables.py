"""Las tablas de los ejercicios, recorridas enteras: lo que debe pasar pasa, y lo demás recibe su pista."""

import re
from dataclasses import replace
from itertools import combinations

import pytest
import torch

import multicabeza as mc
from multicabeza.checks import CHECKS
from multicabeza.checks.framework import examine, make_calls
from tests.checks.answers import IMPOSTORS, LOOKALIKES, UNUSUAL, VARIANTS, generic_impostors
from tests.checks.solutions import EXERCISES, load, read

EXERCISE = read()
MISTAKES = [(id, mistake) for id, check in CHECKS.items() for mistake in check.mistakes]
CASES = [(id, i) for id, check in CHECKS.items() for i in range(len(check.cases))]


def test_every_exercise_has_its_check_and_every_check_its_exercise():
    """Cuadernos y tablas hablan de los mismos ejercicios, con los números del programa."""
    numbers = {1: 2, 2: 5, 3: 3, 4: 7, 5: 3, 6: 5, 7: 5, 8: 5, 9: 4}
    ids = [f"{chapter}.{i}" for chapter, count in numbers.items() for i in range(1, count + 1)]
    assert list(EXERCISE) == list(CHECKS) == ids


@pytest.mark.parametrize("id", CHECKS)
def test_solution_of_the_notebook_passes(id, capsys):
    """La solución plegada, puesta en la celda de respuesta, pasa con la celda de comprobación del cuaderno."""
    exercise = EXERCISE[id]
    assert len(exercise.solutions) == 1
    variables = exercise.run(exercise.solutions[0])
    result = eval(exercise.check, {**variables, "mc": mc})
    assert (result.passed, result.pending, result.hint, result.score) == (True, False, "", 1.0)
    assert capsys.readouterr().out == f"✓ {id} · Correcto.\n"


@pytest.mark.parametrize("id", CHECKS)
def test_stub_of_the_notebook_is_pending(id, capsys):
    """La celda sin contestar queda pendiente, con el nombre y los parámetros que pide la corrección."""
    exercise = EXERCISE[id]
    assert f"def {CHECKS[id].signature}:" in exercise.stub
    assert f"`{CHECKS[id].signature}`" in exercise.statement
    result = eval(exercise.check, {**exercise.run(exercise.stub), "mc": mc})
    assert (result.passed, result.pending, result.score) == (False, True, 0.0)
    line = f"⏳ {id} · Pendiente: cuando tengas tu función, vuelve a ejecutar esta celda.\n"
    assert capsys.readouterr().out == line


@pytest.mark.parametrize("id", CHECKS)
def test_shape_of_an_exercise(id):
    """Dificultad, minutos, de una a tres pistas plegadas y una solución plegada; las pistas no llevan la solución."""
    exercise = EXERCISE[id]
    assert re.search(
        r"^## " + re.escape(id) + r" · .+\n\n\*Dificultad [1-5] de 5 · \d+ minutos\*$", exercise.statement, re.M
    )
    assert 1 <= exercise.hints.count("<details><summary>Pista") <= 3
    assert exercise.folded_solution.startswith("<details><summary>Solución</summary>\n\n```python\ndef ")
    body = [line.strip() for line in exercise.solutions[0].splitlines()[1:] if line.strip().startswith("return")]
    assert not any(line in exercise.hints + exercise.statement for line in body)


@pytest.mark.parametrize("path", sorted(EXERCISES.glob("*.ipynb")), ids=lambda path: path.stem)
def test_notebook_explains_how_to_work_and_links_back(path):
    """Cada cuaderno dice cómo se trabaja, vuelve a su capítulo y tiene los ejercicios sin número."""
    cells = load(path)
    assert cells["como-se-trabaja"].startswith("## Cómo se trabaja aquí\n")
    assert f"](../notebooks/{path.name})" in cells["titulo"]
    assert "mc.predict(" in cells["predice-pregunta"]
    for part in ("lapiz-solucion", "critica-respuesta"):
        assert cells[part].startswith("<details><summary>")
    assert cells["si-te-ha-sobrado-tiempo"].startswith("## Si te ha sobrado tiempo")


@pytest.mark.parametrize(("id", "mistake"), MISTAKES, ids=[f"{id}-{m.name}" for id, m in MISTAKES])
def test_known_mistake_gets_its_own_hint(id, mistake):
    """Cada error conocido se rechaza con su pista y no con otra."""
    result = examine(CHECKS[id], mistake.answer)
    assert (result.passed, result.pending) == (False, False)
    assert result.hint.startswith(mistake.hint)
    assert 0 <= result.score < 1


@pytest.mark.slow
@pytest.mark.parametrize(("id", "answer", "name"), VARIANTS)
def test_mistake_written_another_way_gets_its_hint(id, answer, name):
    """Un error conocido se reconoce por lo que hace, no por cómo está escrito."""
    (hint,) = [mistake.hint for mistake in CHECKS[id].mistakes if mistake.name == name]
    for seed in range(3):
        assert examine(CHECKS[id], answer, seed=seed).hint.startswith(hint)


@pytest.mark.slow
@pytest.mark.parametrize(("id", "answer", "words"), LOOKALIKES)
def test_lookalike_of_a_mistake_does_not_get_its_hint(id, answer, words):
    """Una pista que no es verdad es peor que una general."""
    for seed in range(3):
        result = examine(CHECKS[id], answer, seed=seed)
        assert not result.passed
        assert words in result.hint
        assert not any(result.hint.startswith(mistake.hint) for mistake in CHECKS[id].mistakes)


def test_hints_are_pairwise_different():
    """No hay dos errores con la misma pista, ni una pista que empiece como otra."""
    for (one, first), (two, second) in combinations(MISTAKES, 2):
        if first is second:  # 4.6 se corrige con la tabla de 4.4
            continue
        assert first.hint != second.hint, f"{one}-{first.name} y {two}-{second.name}"
        assert not first.hint.startswith(second.hint)
        assert not second.hint.startswith(first.hint)


@pytest.mark.parametrize(("id", "mistake"), MISTAKES, ids=[f"{id}-{m.name}" for id, m in MISTAKES])
def test_hint_is_two_sentences_without_numbers_of_the_solution(id, mistake):
    """Lo que se ve y lo que hay que hacer; en una línea, y sin cuentas hechas."""
    assert "\n" not in mistake.hint
    assert 40 < len(mistake.hint) < 330
    assert len(re.findall(r"[.:](?:\s|$)", mistake.hint)) >= 2
    assert not re.search(r"\d[.,]\d", mistake.hint)


@pytest.mark.parametrize("id", CHECKS)
def test_unusual_right_answers_pass(id):
    """Todo lo que es matemáticamente correcto pasa, se escriba como se escriba, y con cualquier sorteo."""
    assert len(UNUSUAL[id]) >= 2
    for answer in UNUSUAL[id]:
        for seed in range(5):
            result = examine(CHECKS[id], answer, seed=seed)
            assert result.passed, (getattr(answer, "__name__", answer), seed, result.line)


@pytest.mark.slow
@pytest.mark.parametrize("id", CHECKS)
def test_impostors_are_refused(id):
    """Devolver la entrada, ceros, números copiados, lo recordado o lo que se encuentre por ahí no pasa."""
    for name, answer in {**generic_impostors(id), **IMPOSTORS[id]}.items():
        result = examine(CHECKS[id], answer)
        assert not result.passed, name
        assert not result.pending, name
        assert result.hint, name
    assert not torch.allclose(torch.ones(2), torch.zeros(2)), "quedó sustituida una función de torch"
    assert "softmax" not in vars(torch.Tensor), "quedó sustituido un método de los tensores"


@pytest.mark.slow
@pytest.mark.parametrize(("id", "i"), CASES, ids=[f"{id}-{CHECKS[id].cases[i].label}" for id, i in CASES])
def test_each_case_is_needed(id, i):
    """Sin ese caso pasaría algún error conocido o alguna impostora que con él se rechaza."""
    check = CHECKS[id]
    without = replace(check, cases=check.cases[:i] + check.cases[i + 1 :])
    wrong = [mistake.answer for mistake in check.mistakes] + [a for n, a in IMPOSTORS[id].items() if "copiada" in n]
    escaped = next((answer for answer in reversed(wrong) if examine(without, answer, seed=3).passed), None)
    assert escaped is not None
    assert not examine(check, escaped, seed=3).passed


@pytest.mark.parametrize("id", CHECKS)
def test_inputs_tell_mistakes_apart(id):
    """Las dimensiones de cada caso son distintas (salvo matrices cuadradas), ninguna es 1 y los números cambian."""
    first, second = make_calls(CHECKS[id], 0), make_calls(CHECKS[id], 1)
    sizes = set()
    for call in first:
        tensors = [x for x in [*call.args, *call.kwargs.values()] if isinstance(x, torch.Tensor)]
        numbers = [x for x in call.args if isinstance(x, int)]
        lists = [len(x) for x in call.args if isinstance(x, list)]
        sizes.add(str([tuple(x.shape) for x in tensors] + numbers + lists + sorted(call.kwargs)))
        for tensor in tensors:
            assert tensor.dtype in {torch.float32, torch.int64, torch.int32, torch.bool}
            size = [n for n in tensor.shape if not (tensor.dtype is torch.bool and n == 1)]
            if id == "8.5":  # (batch, h, 1, d): el token nuevo
                size.remove(1)
            if id in {"5.1", "5.3", "6.2"}:  # (h, n, n)
                assert size.pop() == size[-1]
            assert 1 not in size
            assert len(set(size)) == len(size) or (
                id in {"2.5", "3.1", "3.2", "4.4", "4.6", "6.5", "8.3"} and len(size) == 2
            )
    assert len(sizes) == len(CHECKS[id].cases)
    if any(isinstance(x, torch.Tensor | list) for call in first for x in call.args):
        assert str(first) != str(second)


@pytest.mark.parametrize("id", CHECKS)
def test_reference_uses_torch_alone(id):
    """La referencia no llama a nuestras funciones: un fallo nuestro no se daría por bueno a sí mismo."""
    code = CHECKS[id].reference.__wrapped__.__code__
    assert not set(code.co_names) & set(mc.__all__)
    assert "multicabeza" not in code.co_names
