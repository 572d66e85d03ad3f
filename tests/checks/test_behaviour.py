"""Cómo se porta la corrección con respuestas que fallan, no acaban, molestan o hacen trampa."""

import bdb
import builtins
import functools
import gc
import linecache
import os
import random
import sys
import threading
import time
import warnings
from fractions import Fraction

import numpy as np
import pytest
import torch

import multicabeza as mc
from multicabeza.checks import CHECKS, compare, framework, sandbox
from tests.checks.answers import UNUSUAL, Labelled, NotDivisible

right = UNUSUAL["2.1"][4]


class Unspeakable(Exception):
    """Un error que ni siquiera se deja leer."""

    def __str__(self):
        raise RuntimeError


def checked(id, answer, capsys):
    """Resultado y líneas escritas."""
    capsys.readouterr()
    result = mc.check(id, answer)
    lines = capsys.readouterr().out.splitlines()
    assert lines == [result.line]
    assert result.passed is (lines[0][0] == "✓")
    assert result.pending is (lines[0][0] == "⏳")
    assert result.hint in lines[0]
    return result


def in_cell(source, number=3, **variables):
    """Ejecuta `source` como la celda `number` de un cuaderno y devuelve sus variables."""
    name = f"/tmp/ipykernel_1/{number}.py"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    variables = {"torch": torch, **variables}
    exec(compile(source, name, "exec"), variables)
    return variables


# --- Lo que se devuelve -------------------------------------------------------------------------------------------


async def wait_for(query, key):
    """Una respuesta que no se ejecuta al llamarla."""
    return right(query, key)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda query, key: None, "no devuelve nada"),
        (lambda query, key: right(query, key).numpy(), "NumPy"),
        (lambda query, key: right(query, key).tolist(), "lista de Python"),
        (lambda query, key: (right(query, key), key), "devuelve 2 cosas"),
        (lambda query, key: "0.5", "es un texto"),
        (lambda query, key: right(query, key) > 0.2, "booleanos"),
        (lambda query, key: right(query, key).to(torch.complex64), "complejos"),
        (lambda query, key: right(query, key)[..., :-1], "tiene la forma"),
        (lambda query, key: right(query, key) / 0, "infinitos"),
        (lambda query, key: right(query, key) * torch.nan, "NaN"),
        (lambda query, key: right(query, key) * 0.7, "no suman 1"),
        (lambda query, key: right(query, key).flip(-1), "no los valores"),
        (lambda query, key: (yield right(query, key)), "«yield». Cámbialo por `return`"),
        (wait_for, "«async». Quita esa palabra"),
        (lambda query, key: NotImplementedError, "devuelve el error NotImplementedError en vez de lanzarlo"),
        (lambda query, key: torch.nn.Linear, "es la clase Linear"),
        (lambda query, key: right, "es la función weights_by_log"),
        (lambda query, key: list(right(query, key)), "lista de Python"),
        (lambda query, key: torch.empty(query.shape[-2], key.shape[-2], device="meta"), "sin números"),
        (lambda query, key: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]), "sin números"),
        (lambda query, key: torch.quantize_per_tensor(query, 0.1, 0, torch.quint8), "tiene la forma"),
    ],
)
def test_generic_hint_says_what_is_seen(answer, words, capsys):
    """Lo que no es un error conocido se explica por el tipo, la forma, los NaN, las filas o los valores."""
    result = checked("2.1", answer, capsys)
    assert not result.passed
    assert words in result.hint


def test_order_of_comparison(capsys):
    """Un resultado con NaN y de otra forma se explica por la forma; con NaN y otros valores, por los NaN."""
    assert "forma" in checked("2.1", lambda query, key: torch.full((3,), torch.nan), capsys).hint
    spoiled = lambda query, key: torch.where(right(query, key) > 1 / key.shape[-2], torch.nan, 0.0)  # noqa: E731
    assert "NaN" in checked("2.1", spoiled, capsys).hint


def test_results_in_pairs(capsys):
    """Con dos resultados se dice cuál falla."""
    attend = UNUSUAL["2.3"][0]
    spoil = lambda q, k, v, mask=None: (attend(q, k, v, mask)[0] + 1, attend(q, k, v, mask)[1])  # noqa: E731
    assert "El primer resultado" in checked("2.3", spoil, capsys).hint
    assert "llegaron 3" in checked("2.3", lambda q, k, v, mask=None: (v, v, v), capsys).hint


def test_score_is_the_share_of_right_cases(capsys):
    """La puntuación es la proporción de casos bien."""
    only_without_batch = lambda query, key: right(query, key) if query.dim() == 2 else query  # noqa: E731
    assert checked("2.1", only_without_batch, capsys).score == pytest.approx(1 / 3)


def in_half(value):
    """Lo mismo con los tensores, estén donde estén, en 16 bits."""
    if isinstance(value, torch.Tensor):
        return value.bfloat16() if value.is_floating_point() else value
    if isinstance(value, tuple | list):
        return type(value)(map(in_half, value))
    return value


@pytest.mark.slow
def test_half_precision_does_not_hide_mistakes():
    """La anchura del resultado no se juzga, pero tampoco sirve para colar un error."""
    for id, check in CHECKS.items():
        for mistake in check.mistakes:

            def narrow(*args, _answer=mistake.answer, **kwargs):
                return in_half(_answer(*args, **kwargs))

            if mistake.name not in {"base 1000", "base 100000"} and not mistake.name.startswith("épsilon"):
                assert not framework.examine(check, narrow).passed, (id, mistake.name)


def test_mutating_the_inputs_passes_with_advice(capsys):
    """Quien modifica sus entradas aprueba, con un consejo que dice cuáles."""

    def in_place(ids, table, positions):
        return positions.add_(table[ids]) if ids.dim() == 1 else table[ids] + positions

    result = checked("1.2", in_place, capsys)
    assert result.passed
    assert "`positions`" in result.hint
    assert "`table`" not in result.hint

    def sorting(lengths, n):
        answer = UNUSUAL["2.4"][0](lengths, n)
        if isinstance(lengths, list):
            lengths.sort()
        return answer

    assert "`lengths`" in checked("2.4", sorting, capsys).hint


def test_reused_output_buffer_passes(capsys):
    """Lo devuelto se copia enseguida: escribir siempre en el mismo tensor no estropea los casos anteriores."""
    buffer = torch.zeros(1000)

    def reuse(query, key):
        weights = right(query, key)
        view = buffer[: weights.numel()].view(weights.shape)
        return view.copy_(weights)

    assert checked("2.1", reuse, capsys).passed


# --- Números, diccionarios, valores y errores pedidos -------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "expected", "problem"),
    [
        (64.0, 64, None),
        (torch.tensor(64), 64, None),
        (torch.tensor([64.0]), 64, None),
        (np.float32(301989888), 301989888, None),
        (Fraction(1, 3), 1 / 3, None),
        (64 * (1 + 1e-5), 64, "valores"),
        (10**9 + 1, 10**9, "valores"),
        (True, 1, "tipo"),
        (np.bool_(True), 1, "tipo"),
        (torch.tensor(True), 1, "tipo"),
        (1, True, "tipo"),
        ("64", 64, "tipo"),
        (None, 64, "tipo"),
        (64 + 0j, 64, "tipo"),
        (torch.tensor([64, 64]), 64, "tipo"),
        (float("nan"), 64, "finito"),
        (float("inf"), 1.5, "finito"),
        ({"a": 1.0, "b": torch.tensor(2)}, {"a": 1, "b": 2}, None),
        ({"b": 2, "a": 1}, {"a": 1, "b": 2}, None),
        ({"a": 1}, {"a": 1, "b": 2}, "claves"),
        ({"a": 1, "b": 2, "c": 3}, {"a": 1, "b": 2}, "claves"),
        ({"a": 1, "b": 3}, {"a": 1, "b": 2}, "valores"),
        ([("a", 1), ("b", 2)], {"a": 1, "b": 2}, "tipo"),
        (np.array([1, 2]), (1, 2), None),
        (torch.tensor([2, 1]), (1, 2), "valores"),
        (torch.tensor([[1, 2]]), (1, 2), "tipo"),
        ([1, 2, 3], (1, 2), "tipo"),
    ],
)
def test_numbers_and_dictionaries(value, expected, problem):
    """De un número no se juzga la clase, salvo que sea un booleano; de un diccionario, tampoco el orden."""
    assert compare.difference(compare.snapshot(value), expected) == problem


def test_value_or_function_that_returns_it(capsys):
    """Si el ejercicio pide un valor, vale el valor y vale una función sin argumentos que lo devuelve."""
    for answer in [(64, 128), lambda: (64, 128), functools.partial(tuple, [64, 128])]:
        assert checked("4.1", answer, capsys).passed
    assert "un texto" in checked("4.1", "64, 128", capsys).hint
    assert "pide head_dims()" in checked("4.1", lambda d_model: (64, 128), capsys).hint
    assert not checked("4.1", tuple, capsys).passed


def test_value_that_changes_is_not_right_by_chance(capsys):
    """El valor se pide dos veces, y las dos tiene que estar bien."""
    turns = iter([(64, 128), (128, 64)])
    assert not checked("4.1", lambda: next(turns), capsys).passed


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ValueError, None),
        (NotDivisible, None),
        (UnicodeError, None),
        (AssertionError, "desaparece si Python"),
        (TypeError, "de otra clase"),
        (RuntimeError, "no es el ValueError"),
        (OSError, "se pide lanzar ValueError, y tu función se para"),
    ],
)
def test_requested_error(error, words, capsys):
    """Donde se pide un ValueError vale cualquiera de su clase, con cualquier mensaje; otro error se explica."""

    def answer(x, num_heads):
        if x.shape[-1] % num_heads:
            raise error("no cabe")
        return UNUSUAL["4.2"][0](x, num_heads)

    result = checked("4.2", answer, capsys)
    assert result.passed is (words is None)
    assert result.score == pytest.approx(1 if words is None else 2 / 3)
    assert words is None or words in result.hint


def test_an_error_by_accident_is_not_the_requested_one(capsys):
    """Un ValueError donde se pide un resultado es un fallo como los demás."""

    def answer(x, num_heads):
        batch, n, _ = x.shape
        return UNUSUAL["4.2"][0](x, num_heads).reshape(batch, num_heads, n, -1)

    result = checked("4.2", answer, capsys)
    assert not result.passed
    assert "tres nombres" in result.hint


# --- Lo que se pasa a check ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, "llegó None"),
        (torch.ones(2, 2), "llegó un tensor: quizá la llamaste"),
        (3, "llegó un número entero: quizá la llamaste"),
        (torch, "el módulo torch: dentro está la función"),
        ("attention_weights", "sin comillas"),
        (Labelled, "la clase Labelled"),
    ],
)
def test_not_a_function(answer, words, capsys):
    """Pasar otra cosa se explica, y se dice cómo pasarla."""
    hint = checked("2.1", answer, capsys).hint
    assert words in hint
    assert 'mc.check("2.1", attention_weights)' in hint


@pytest.mark.parametrize("id", [" 2.1", "2.1\n", 2.1])
def test_id_as_it_comes(id, capsys):
    """Los espacios alrededor del número, o el número sin comillas, no estorban."""
    assert checked(id, right, capsys).id == "2.1"


def test_wrong_parameters(capsys):
    """Los parámetros que no son los del enunciado se explican con los dos puestos juntos."""
    hint = checked("2.1", lambda query: query, capsys).hint
    assert "(query)" in hint
    assert "attention_weights(query, key)" in hint
    assert "mask=None" in checked("2.3", lambda query, key, value, mask: (value, key), capsys).hint
    assert "mask=None" in checked("2.3", lambda query, key, value, mascara=None: (value, key), capsys).hint


@pytest.mark.parametrize("id", ["2.99", "12.1", "", None, right, 3.0, torch.randn(50, 50)])
def test_unknown_id_is_the_teachers_error(id):
    """Un número de ejercicio que no existe es una celda mal escrita: ValueError, con los que hay, y corto."""
    with pytest.raises(ValueError, match=r"No hay ningún ejercicio .*1\.1 a 1\.2, 2\.1 a 2\.5") as caught:
        mc.check(id, right)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("id", ["2,1", "21", 21, "2·1", "2-1", "02.1", "Ejercicio 2.1", "2.1."])
def test_misspelt_id_is_recognised(id):
    """Si se ve cuál se quería, se dice."""
    with pytest.raises(ValueError, match=r"¿Querías decir «2\.1»\?"):
        mc.check(id, right)


def test_swapped_or_missing_arguments():
    """Los dos argumentos al revés, o el segundo olvidado, se explican con la llamada escrita."""
    with pytest.raises(ValueError, match=r'al revés: primero el número, mc\.check\("2\.1", tu_funcion\)'):
        mc.check(right, "2.1")
    with pytest.raises(ValueError, match=r'Falta tu respuesta.*mc\.check\("2\.1", attention_weights\)'):
        mc.check("2.1")


def test_nobody_waits_for_async_answers(capsys):
    """Una función `async` no deja un aviso de Python en el cuaderno."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not checked("2.1", wait_for, capsys).passed
        gc.collect()


def test_result_is_quiet_in_a_cell():
    """Si la comprobación es la última línea de la celda, Jupyter no repite el resultado."""
    ipython = pytest.importorskip("IPython.core.interactiveshell").InteractiveShell.instance()
    data, _ = ipython.display_formatter.format(framework.examine(CHECKS["2.1"], right))
    assert data == {}


def test_console_without_unicode(monkeypatch):
    """Una consola que no conoce «✓» recibe la línea con lo que sepa escribir."""
    written = []

    class Old:
        encoding = "cp1252"

        def write(self, text):
            written.append(text.encode("cp1252"))

        def flush(self):
            pass

    monkeypatch.setattr(sys, "stdout", Old())
    assert mc.check("2.1", right).passed
    assert b"".join(written) == b"? 2.1 \xb7 Correcto.\n"


# --- Errores ------------------------------------------------------------------------------------------------------


def test_exception_gives_the_line_of_their_code(capsys):
    """Un error se resume en una línea: tipo, mensaje, línea de la celda y su texto."""
    cell = in_cell("def attention_weights(query, key):\n    scores = query @ key\n    return scores\n")
    hint = checked("2.1", cell["attention_weights"], capsys).hint
    assert "línea 2 de tu celda, «scores = query @ key»" in hint
    assert "RuntimeError" in hint
    assert "query (5, 6), key (7, 6)" in hint


def test_exception_in_a_helper_from_another_cell(capsys):
    """La línea es la de su código más cercana al error, aunque esté en otra celda."""
    helper = in_cell("def scores(q, k):\n    return q.no_such(k)\n", number=1)["scores"]
    answer = in_cell("def weights(query, key):\n    return scores(query, key)\n", scores=helper)["weights"]
    assert "línea 2 de tu celda, «return q.no_such(k)»" in checked("2.1", answer, capsys).hint


def test_error_inside_torch_points_to_their_line(capsys):
    """Si el error salta dentro de una biblioteca, se señala su llamada."""
    source = "def weights(query, key):\n    return torch.nn.functional.linear(query, key, 1, 2)\n"
    assert "línea 2" in checked("2.1", in_cell(source)["weights"], capsys).hint
    source = "def weights(query, key):\n    return torch.nn.Linear(6, 7)(key.mT)\n"
    assert "línea 2" in checked("2.1", in_cell(source)["weights"], capsys).hint


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (SystemExit(0), "termina el programa"),
        (KeyboardInterrupt(), "termina el programa"),
        (GeneratorExit(), "GeneratorExit"),
        (ValueError("una\nlarga " + "x" * 500), "ValueError: una ("),
        (MemoryError(), "más memoria"),
        (StopIteration(), "StopIteration"),
        (Unspeakable(), "Unspeakable"),
        (AssertionError(), "con AssertionError ("),
        (bdb.BdbQuit(), "punto de parada"),
        (EOFError("EOF when reading a line"), "por el teclado"),
        (ValueError("\x1b[31m\x00rojo\r"), "ValueError: [31m rojo ("),
    ],
)
def test_any_exception_becomes_a_hint(error, words, capsys):
    """Ni `sys.exit` ni un error de ninguna clase sale de la corrección."""

    def answer(query, key):
        raise error

    result = checked("2.1", answer, capsys)
    assert words in result.hint
    assert len(result.line) < 500


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("query @ key", "formas que no encajan"),
        ("query + key", "formas que no encajan"),
        ("torch.einsum('ij,jd->id', query, key)", "formas que no encajan"),
        ("query.reshape(2, 2)", "formas que no encajan"),
        ("query.softmax(7)", "se sale"),
        ("query[99]", "se sale"),
        ("query[key]", "tienen que ser enteros"),
        ("query(key)", "usa corchetes"),
        ("query.double() @ query.mT", "tipos de número"),
        ("query if query else key", "is None"),
        ("no_existe(query)", "ese nombre no existe aquí"),
        ("torch.empty(10**15)", "más memoria"),
        ("query.foo", "Llámala tú en otra celda"),
    ],
)
def test_advice_fits_the_error(line, words, capsys):
    """Cada error corriente de Python o de torch lleva su consejo."""
    answer = in_cell(f"def weights(query, key):\n    return {line}\n")["weights"]
    assert words.lower() in checked("2.1", answer, capsys).hint.lower()


def test_an_answer_without_a_readable_name(capsys):
    """Un objeto que no deja leer su nombre falla con su propio error."""

    class Nameless:
        __name__ = property(lambda self: 1 / 0)

        def __call__(self, query, key):
            raise ValueError("el mío")

    assert "ValueError: el mío" in checked("2.1", Nameless(), capsys).hint


def test_endless_recursion(capsys):
    """Una función que se llama a sí misma sin fin recibe su pista."""

    def answer(query, key):
        return answer(query, key)

    assert "se llama a sí misma" in checked("2.1", answer, capsys).hint


@pytest.mark.parametrize(
    ("line", "shadow", "name"),
    [
        ("sum([query, key])", {"sum": 0}, "sum"),
        ("list(query)", {"list": [1]}, "list"),
        ("torch.softmax(query, -1)", {"torch": None}, "torch"),
        ("F.softmax(query, -1)", {"F": "x"}, "F"),
    ],
)
def test_shadowed_names_are_named(line, shadow, name, capsys):
    """Un nombre corriente tapado por una variable del cuaderno se dice por su nombre."""
    answer = in_cell(f"def weights(query, key):\n    return {line}\n", **shadow)["weights"]
    hint = checked("2.1", answer, capsys).hint
    assert f"«{name}» ya no es lo que era" in hint
    assert "Reinicia el kernel" in hint


def test_notebook_variables_do_not_matter(capsys):
    """Las variables del cuaderno, se llamen como se llamen, ni estorban ni cambian."""
    names = {"T": 99, "F": "x", "x": None, "sum": 0, "list": [1], "query": 1, "key": 2, "check": 3, "mc": 4, "t": 5}
    source = "def weights(query, key):\n    return torch.softmax(query @ key.mT / query.shape[-1] ** 0.5, -1)\n"
    variables = in_cell(source, **names)
    before = dict(variables)
    assert checked("2.1", variables["weights"], capsys).passed
    assert variables == before


# --- Pendiente y modo estricto ------------------------------------------------------------------------------------


def test_pending_names_the_missing_function(capsys):
    """Si la respuesta usa otra función sin escribir, se dice cuál."""
    cell = in_cell(
        "def attention_weights(query, key):\n    raise NotImplementedError\n"
        "def attend(query, key, value, mask=None):\n    return attention_weights(query, key) @ value, key\n"
    )
    assert "«attention_weights»" in checked("2.3", cell["attend"], capsys).hint


def test_pending_in_one_branch_is_pending(capsys):
    """Lo escrito a medias sigue pendiente."""

    def half(query, key, value, mask=None):
        if mask is not None:
            raise NotImplementedError("la máscara, mañana")
        return UNUSUAL["2.3"][0](query, key, value)

    assert checked("2.3", half, capsys).pending


def test_pending_with_code_below_the_raise_says_so(capsys):
    """Quien escribe debajo del `raise` y no lo borra sabe por qué sigue pendiente; en una rama es otra cosa."""

    def forgotten(query, key):
        """Pesos de atención."""
        raise NotImplementedError
        return UNUSUAL["2.1"][0](query, key)

    def unwritten(query, key):
        scores = query @ key.mT
        raise NotImplementedError(f"falta lo que va detrás de {scores.shape}")

    def in_a_branch(query, key):
        if query.dim() > 2:
            raise NotImplementedError
        return UNUSUAL["2.1"][0](query, key)

    results = {answer.__name__: checked("2.1", answer, capsys) for answer in (forgotten, unwritten, in_a_branch)}
    assert all(result.pending for result in results.values())
    assert {name: "Borra esa línea" in result.hint for name, result in results.items()} == {
        "forgotten": True, "unwritten": False, "in_a_branch": False,
    }  # fmt: skip


def test_not_implemented_raised_by_torch_is_an_error(capsys):
    """torch también lanza NotImplementedError; eso no es «pendiente»."""
    result = checked("2.1", lambda query, key: torch.softmax(query.long(), -1, dtype=torch.int64), capsys)
    assert (result.passed, result.pending) == (False, False)


def test_strict_mode(monkeypatch, capsys):
    """Con MULTICABEZA_STRICT=1, lo equivocado y lo pendiente lanzan AssertionError tras escribir la línea."""

    def stub(query, key):
        raise NotImplementedError

    monkeypatch.setenv("MULTICABEZA_STRICT", "1")
    assert mc.check("2.1", right).passed
    for answer, sign in [(stub, "⏳"), (lambda query, key: query, "✗"), (None, "✗")]:
        capsys.readouterr()
        with pytest.raises(AssertionError, match=f"^{sign} 2.1 · "):
            mc.check("2.1", answer)
        assert capsys.readouterr().out.startswith(sign)
    monkeypatch.setenv("MULTICABEZA_STRICT", "0")
    assert not mc.check("2.1", stub)


# --- Lo que no acaba ----------------------------------------------------------------------------------------------


def forever(*args):
    while True:
        pass


def forever_swallowing(*args):
    while True:
        try:
            len(args)
        except BaseException:
            len(args)


def forever_in_nested_handlers(*args):
    while True:
        try:
            try:
                while True:
                    len(args)
            finally:
                forever_swallowing()
        except BaseException:
            continue


def forever_starting_again(*args):
    """Vuelve a empezar dentro de cada excepción: solo se la puede aparcar."""
    try:
        forever()
    except BaseException:
        forever_starting_again()


def forever_returning_when_told(query, key):
    try:
        forever()
    except BaseException:
        return right(query, key)


def sleeping(*args):
    time.sleep(3600)


def waiting(*args):
    threading.Event().wait()


@pytest.mark.slow
@pytest.mark.parametrize(
    "answer",
    [
        forever,
        forever_swallowing,
        forever_in_nested_handlers,
        forever_starting_again,
        forever_returning_when_told,
        sleeping,
        waiting,
    ],
    ids=lambda answer: answer.__name__,
)
def test_endless_answers_are_stopped(answer, monkeypatch, capsys):
    """Lo que no acaba se corta en el plazo, también si se traga las excepciones, y deja de gastar procesador."""
    monkeypatch.setattr(sandbox, "SECONDS", 0.3)
    start = time.monotonic()
    result = checked("2.1", lambda query, key: answer(query, key), capsys)
    assert time.monotonic() - start < 6
    assert not result.passed
    assert "no terminaba" in result.hint
    assert "attention_weights" in result.hint
    before = time.process_time()
    time.sleep(0.3)
    assert time.process_time() - before < 0.2, "quedó un hilo dando vueltas"


def test_default_limit_is_a_few_seconds():
    """El plazo de verdad (las pruebas lo acortan) da tiempo a un bucle lento y no aburre a quien espera."""
    assert 3 <= sandbox.SECONDS <= 8


def test_gigantic_results_are_not_copied(capsys):
    """De un resultado enorme (o que dice serlo) solo se mira la forma."""
    hint = checked("2.1", lambda query, key: torch.zeros(()).expand(10**5, 10**6), capsys).hint
    assert "tiene la forma (100000, 1000000)" in hint


@pytest.mark.slow
@pytest.mark.parametrize("item", [lambda: 0, lambda: torch.ones(100_000), lambda: bytearray(100_000)])
def test_memory_hogs_are_stopped(item, monkeypatch, capsys):
    """Una lista que crece sin fin se corta antes de comerse la memoria, y la devuelve."""
    monkeypatch.setattr(sandbox, "MEGABYTES", 100)
    before = sandbox._resident_bytes()

    def hog(query, key):
        kept = []
        while True:
            kept.append(item())

    assert "memoria" in checked("2.1", hog, capsys).hint
    assert sandbox._resident_bytes() - before < 300 * 2**20


def test_interrupting_the_check_works(monkeypatch):
    """Si quien lee pulsa «detener», la interrupción llega y su código también se detiene."""
    started = threading.Event()

    def answer(query, key):
        started.set()
        forever()

    real = threading.Event.wait

    def interrupted(self, timeout=None):
        if started.is_set() and threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt
        return real(self, timeout)

    monkeypatch.setattr(threading.Event, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        mc.check("2.1", answer)
    monkeypatch.undo()
    assert not sandbox.LOCK.locked()
    before = time.process_time()
    time.sleep(0.3)
    assert time.process_time() - before < 0.2
    assert mc.check("2.1", right).passed


# --- El cuaderno queda como estaba --------------------------------------------------------------------------------


def messy(query, key):
    """Acierta, pero lo cambia todo."""
    torch.manual_seed(1)
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002
    torch.set_default_dtype(torch.float64)
    torch.use_deterministic_algorithms(True)
    torch.set_grad_enabled(False)
    sys.setrecursionlimit(5000)
    sys.stdout = None
    print("hola")
    return right(query, key)


def state():
    return (
        torch.get_rng_state().tolist(),
        random.getstate(),
        str(np.random.get_state()),  # noqa: NPY002
        torch.get_default_dtype(),
        torch.are_deterministic_algorithms_enabled(),
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.get_num_threads(),
        torch.tensor(1.0).device,
        sys.getrecursionlimit(),
        sys.stdout,
        sys.stderr,
        os.getcwd(),
        sorted(set(vars(builtins)) - {"_"}),
    )


def test_what_torch_wraps_by_itself_is_not_a_replacement(monkeypatch, capsys):
    """Partes de torch que se cargan tarde envuelven funciones suyas; quien las usa no ha sustituido nada."""
    monkeypatch.setattr(torch, "manual_seed", torch.manual_seed)
    wrapped, other = torch._disable_dynamo(torch.manual_seed), torch._disable_dynamo(torch.initial_seed)

    def answer(query, key):
        torch.manual_seed = wrapped
        return right(query, key)

    def another(query, key):
        torch.manual_seed = other
        return right(query, key)

    assert checked("2.1", answer, capsys).passed
    assert "sustituye torch.manual_seed" in checked("2.1", another, capsys).hint


@pytest.mark.parametrize(
    "answer", [right, messy, lambda query, key: query, forever], ids=["bien", "revoltosa", "mal", "sin fin"]
)
def test_state_is_left_as_it_was(answer, monkeypatch):
    """Ni acertar ni fallar cambia el azar, los modos de torch ni las salidas del cuaderno."""
    torch.use_deterministic_algorithms(False)  # la primera llamada carga módulos durante segundos
    monkeypatch.setattr(sandbox, "SECONDS", 0.3)
    before = state()
    mc.check("2.1", answer)
    assert state() == before


@pytest.mark.parametrize("id", CHECKS)
def test_modes_of_the_notebook_do_not_matter(id):
    """Con otro tipo por omisión, sin gradiente, en otro dispositivo o con autocast, el veredicto es el mismo."""
    answer, mistake = UNUSUAL[id][0], CHECKS[id].mistakes[0]
    torch.set_default_dtype(torch.float64)
    try:
        with torch.inference_mode(), torch.device("meta"), torch.autocast("cpu"):
            assert mc.check(id, answer).passed
            assert mc.check(id, mistake.answer).hint.startswith(mistake.hint)
        torch.use_deterministic_algorithms(True)
        with torch.no_grad():
            assert mc.check(id, answer).passed
    finally:
        torch.set_default_dtype(torch.float32)
        torch.use_deterministic_algorithms(False)


def test_printing_inside_the_answer_is_silent(capfd):
    """Solo se escribe una línea, aunque la respuesta escriba por su cuenta o torch avise."""

    def talkative(query, key):
        print("formas:", query.shape)
        sys.stdout.writelines(["una\n", "dos\n"])
        sys.stderr.write("aviso\n")
        sys.stdout.flush()
        _ = torch.ones(2, 3, 4).T  # torch avisa de que está anticuado
        return right(query, key)

    mc.check("2.1", talkative)
    captured = capfd.readouterr()
    assert captured.out == "✓ 2.1 · Correcto.\n"
    assert captured.err == ""


def test_threads_of_the_answer_are_silent_too(capsys):
    """Una respuesta que calcula en otro hilo pasa, y lo que ese hilo escribe tampoco se ve."""

    def threaded(query, key):
        box = []
        thread = threading.Thread(target=lambda: (print("hola"), box.append(right(query, key))))
        thread.start()
        thread.join()
        return box[0]

    assert checked("2.1", threaded, capsys).passed


def test_closing_the_output_does_not_close_it(capsys):
    """La salida es del cuaderno: una respuesta no la puede cerrar."""

    def closing(query, key):
        sys.stdout.close()
        return right(query, key)

    assert checked("2.1", closing, capsys).passed


def test_usual_mode_is_not_set_again(monkeypatch):
    """Con los modos corrientes no se llama a lo que carga medio compilador: la primera comprobación es rápida."""
    torch.use_deterministic_algorithms(False)
    monkeypatch.setattr(torch, "use_deterministic_algorithms", lambda *a, **k: pytest.fail("no hacía falta"))
    assert mc.check("2.1", right).passed


def test_other_threads_can_print_meanwhile(capsys):
    """Mientras se comprueba, lo que escriben otros hilos sí sale."""
    said = threading.Event()

    def answer(query, key):
        said.wait(2)
        return right(query, key)

    def speak():
        time.sleep(0.1)
        print("desde otro hilo")
        said.set()

    thread = threading.Thread(target=speak)
    thread.start()
    mc.check("2.1", answer)
    thread.join()
    assert sorted(capsys.readouterr().out.splitlines()) == ["desde otro hilo", "✓ 2.1 · Correcto."]


def test_from_several_threads_at_once():
    """Comprobar desde varios hilos a la vez da a cada uno su veredicto."""
    results = {}

    def work(number):
        answer = right if number % 2 else (lambda query, key: query)
        results[number] = mc.check("2.1", answer).passed

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {number: bool(number % 2) for number in range(8)}


# --- Trampas ------------------------------------------------------------------------------------------------------


def test_reference_is_out_of_reach_of_an_answer(capsys):
    """Usar la corrección como respuesta se rechaza, también si se importa o se la llama por su nombre."""
    from multicabeza.checks import ch02

    for cheat in (CHECKS["2.1"].reference, ch02.attention_weights, lambda q, k: CHECKS["2.1"].reference(q, k)):
        result = checked("2.1", cheat, capsys)
        assert not result.passed
        assert "escribe tu propia función" in result.hint


def test_check_inside_an_answer(capsys):
    """Una respuesta que llama a la corrección no la bloquea."""
    result = checked("2.1", lambda query, key: mc.check("2.1", right), capsys)
    assert "no puede llamar a mc.check" in result.hint


def test_patching_during_the_answer_is_refused_and_undone(capsys):
    """Cambiar torch, o la propia corrección, mientras se responde se rechaza y se deshace."""
    real = torch.softmax, torch.allclose, framework.difference, builtins.sum

    def tamper(query, key):
        torch.allclose = lambda *a, **k: True
        framework.difference = lambda *a, **k: None
        builtins.sum = lambda *a: 1
        torch.Tensor.double = lambda self: torch.zeros(())
        return right(query, key)

    result = checked("2.1", tamper, capsys)
    assert not result.passed
    assert "sustituye" in result.hint
    assert (torch.softmax, torch.allclose, framework.difference, builtins.sum) == real
    assert "double" not in vars(torch.Tensor)
    assert checked("2.1", right, capsys).passed


def test_removing_what_the_watcher_uses_is_refused_and_undone(capsys):
    """Quitar una función de Python no rompe la corrección."""

    real = builtins.open

    def vandal(query, key):
        del builtins.open
        time.sleep(0.2)  # da tiempo a que el vigilante lo eche en falta
        return right(query, key)

    assert "sustituye builtins.open" in checked("2.1", vandal, capsys).hint
    assert builtins.open is real


@pytest.mark.parametrize("name", ["softmax", "allclose", "arange", "stack", "randn", "rand", "randint", "ones"])
def test_patched_torch_is_noticed(name, monkeypatch, capsys):
    """Si el cuaderno ya había sustituido una función de torch, se dice, en vez de corregir con ella."""
    monkeypatch.setattr(torch, name, lambda *a, **k: torch.ones(()))
    result = checked("2.2", UNUSUAL["2.2"][2], capsys)
    assert not result.passed
    assert "Reinicia el kernel" in result.hint


def test_harmless_wrapping_of_torch_is_accepted(monkeypatch, capsys):
    """Envolver una función de torch sin cambiar lo que calcula no molesta."""
    monkeypatch.setattr(torch, "softmax", functools.wraps(torch.softmax)(lambda *a, _f=torch.softmax, **k: _f(*a, **k)))
    assert checked("2.1", right, capsys).passed


def test_a_right_answer_made_of_our_module_passes(capsys):
    """Usar la función del libro también es una respuesta correcta."""
    from multicabeza import scaled_dot_product_attention

    answer = lambda query, key: scaled_dot_product_attention(query, key, key, need_weights=True)[1]  # noqa: E731
    assert checked("2.1", answer, capsys).passed
