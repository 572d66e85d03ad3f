"""Ejercicios cuyos argumentos o resultados llevan tensores dentro de listas y parejas: copias, consejos y pistas."""

import torch

from multicabeza.checks import CHECKS
from multicabeza.checks.framework import examine, expectation, make_calls
from tests.checks.answers import UNUSUAL


def test_a_cache_that_is_modified_passes_with_advice():
    """Quien escribe encima de la caché acierta, y la línea se lo dice; la comprobación no se queda con lo cambiado."""

    def spoiling(query, key, value, cache):
        result = UNUSUAL["8.5"][0](query, key, value, cache)
        if cache is not None:
            cache[1].zero_()
        return result

    result = examine(CHECKS["8.5"], spoiling, seed=0)
    assert result.passed
    assert "`cache`" in result.hint


def test_lists_that_are_modified_pass_with_advice():
    """También quien gasta las listas o escribe en sus tensores."""
    for id, answer, names in (
        ("9.3", UNUSUAL["9.3"][4], ["chunks"]),
        ("9.4", UNUSUAL["9.4"][6], ["score_chunks", "value_chunks"]),
    ):
        result = examine(CHECKS[id], answer, seed=0)
        assert result.passed
        assert all(f"`{name}`" in result.hint for name in names)
    assert examine(CHECKS["9.3"], UNUSUAL["9.3"][0], seed=0).hint == ""


def test_hint_says_which_tensor_of_the_pair():
    """Si lo que falla está dentro de la pareja, la pista dice qué tensor es."""

    def answer(query, key, value, cache):
        output, (keys, values) = UNUSUAL["8.5"][0](query, key, value, cache)
        return output, (keys, values[..., :-1])

    hint = examine(CHECKS["8.5"], answer, seed=0).hint
    assert hint.startswith("El segundo tensor del segundo resultado tiene la forma (2, 4, 1, 4)")


def test_hint_gives_shapes_and_not_numbers():
    """Lo que entra se describe con formas, también lo que va dentro de una lista o de una pareja."""
    hint = examine(CHECKS["8.5"], lambda q, k, v, cache: (q * 0 if cache else v, (k, v)), seed=0).hint
    assert "tensor(" not in hint
    hint = examine(CHECKS["9.3"], lambda chunks: torch.cat(chunks, -1).sin(), seed=0).hint
    assert "chunks = (6,), (4,), (9,), (3,)" in hint


def test_reference_does_not_round():
    """La referencia se calcula en doble precisión, también con lo que llega en listas."""
    for id in ("9.3", "9.4"):
        for call in make_calls(CHECKS[id], 0):
            assert expectation(CHECKS[id], call).dtype is torch.float64
    first, second = (expectation(CHECKS["8.5"], call) for call in make_calls(CHECKS["8.5"], 0)[:2])
    assert {first[0].dtype, second[0].dtype, second[1][0].dtype} == {torch.float64}
