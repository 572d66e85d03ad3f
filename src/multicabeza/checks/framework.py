"""Qué es una comprobación y cómo se corrige una respuesta.

Una comprobación (`Check`) es una tabla: casos de entrada, una referencia y los errores que se conocen, cada uno con su
pista. La respuesta se ejecuta sobre copias de los casos; lo que devuelve se compara primero con la referencia y después
con cada error conocido, de modo que la pista nombra el fallo. Si no es ninguno de ellos, `hints.py` dice lo que se ve.
"""

import inspect
import re
import secrets
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, wraps

import torch

from . import compare, hints, sandbox
from .compare import copy, difference, equal, in_double, snapshot, torch_is_sane

sandbox.WATCHED += [compare, hints, sandbox, sys.modules[__name__]]  # una respuesta tampoco cambia esto

ROUNDS = 2  # cada caso se sortea dos veces: quien recuerda la respuesta de unas formas falla con otros números


def out_of_reach(reference: Callable) -> Callable:
    """Decorador: la referencia no se deja llamar desde el hilo que ejecuta una respuesta."""

    @wraps(reference)
    def guarded(*args, **kwargs):
        if sandbox.answering():
            raise PermissionError("la corrección no se puede usar como respuesta: escribe tu propia función")
        return reference(*args, **kwargs)

    return guarded


@dataclass(frozen=True)
class Call:
    """Una llamada: argumentos por posición y, los que tienen valor por omisión, por nombre."""

    args: tuple
    kwargs: dict = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """Una entrada de prueba.

    Args:
        label: cómo se la describe en una pista («sin lote, con 5 consultas y 7 claves»).
        make: de un generador de números al azar, la llamada.
    """

    label: str
    make: Callable[[torch.Generator], Call]


@dataclass(frozen=True)
class KnownMistake:
    """Una función equivocada que alguien escribiría, y la pista que la nombra: una frase sobre lo que se ve y otra
    sobre lo que hay que hacer, sin los números de la solución.

    Args:
        name: nombre, para las pruebas.
        answer: la función equivocada.
        hint: la pista.
        error: si `answer` falla en algún caso, qué otros errores delatan el mismo fallo (expresión regular sobre «tipo:
            mensaje»). Vacío: solo el mismo tipo con el mismo mensaje.
        seen: de lo devuelto y de los argumentos de la llamada, si es ese fallo, cuando son muchas las respuestas que lo
            tienen (`answer` es un ejemplo). Sin ella se reconoce por dar lo mismo que `answer`.
    """

    name: str
    answer: Callable
    hint: str
    error: str = ""
    seen: Callable[..., bool] | None = None


@dataclass(frozen=True)
class Check:
    """La comprobación de un ejercicio.

    Args:
        id: número del ejercicio.
        reference: la función correcta, con el nombre y los parámetros del enunciado. Si en algún caso lanza ValueError,
            ahí se pide ese error.
        cases: entradas; cada una caza algún error que las demás dejan pasar.
        mistakes: errores conocidos, los más frecuentes primero.
        weights: de lo devuelto, los pesos cuyas filas deben sumar 1 (None si no los hay).
        value: la respuesta es un valor; también se admite una función sin argumentos que lo devuelve.
        combined: da parejas (error conocido, función equivocada en la que ese error va con otros): quien tiene varios a
            la vez recibe la pista de ese, y que hay más.
        right: cuando hay muchas respuestas buenas, decide, de lo devuelto y de los argumentos de la llamada, si es una
            de ellas (`reference` da un ejemplo). Si no, da False, o qué le pasa: «tipo», «forma» o «finito».
    """

    id: str
    reference: Callable
    cases: tuple[Case, ...]
    mistakes: tuple[KnownMistake, ...]
    weights: Callable | None = None
    value: bool = False
    combined: Callable[[], Iterable[tuple[KnownMistake, Callable]]] = tuple
    right: Callable[..., bool | str] | None = None

    @property
    def signature(self) -> str:
        """Nombre y parámetros, como en el enunciado."""
        parameters = str(inspect.signature(self.reference)).replace(repr(2 / 3), "2 / 3")
        return f"{self.reference.__name__}{parameters}"

    @property
    def parameters(self) -> list[str]:
        return list(inspect.signature(self.reference).parameters)


@dataclass(frozen=True)
class Result:
    """Lo que devuelve una comprobación; vale lo mismo que `passed` en una condición."""

    id: str
    passed: bool
    pending: bool
    hint: str
    score: float

    @property
    def line(self) -> str:
        """La línea que se escribe."""
        if self.passed:
            return f"✓ {self.id} · Correcto." + (f" {self.hint}" if self.hint else "")
        return f"{'⏳' if self.pending else '✗'} {self.id} · {self.hint}"

    def __bool__(self) -> bool:
        return self.passed

    def _ipython_display_(self) -> None:
        """Nada: la línea ya está escrita, y así la celda no la repite."""


@dataclass(frozen=True)
class Returned:
    """La respuesta devolvió `value` (tensores ya copiados) y cambió los argumentos `mutated`."""

    value: object
    mutated: tuple[str, ...] = ()


def examine(check: Check, answer: object, *, seed: int | None = None, seconds: float | None = None) -> Result:
    """Corrige `answer` con la tabla `check`. Nunca lanza un error por culpa de la respuesta.

    Args:
        check: la comprobación.
        answer: la función que se corrige, o el valor si el ejercicio pide un valor.
        seed: semilla de los casos (por omisión, otra cada vez).
        seconds: plazo (por omisión, `sandbox.SECONDS`).
    """
    if sandbox.answering():
        raise RuntimeError("una respuesta no puede llamar a mc.check: comprueba tu función desde otra celda")
    if not callable(answer) or inspect.isclass(answer):
        if check.value:
            return examine(check, lambda: answer, seed=seed, seconds=seconds)
        return Result(check.id, False, False, hints.not_a_function(check, answer), 0.0)
    with sandbox.LOCK, sandbox.untouched():
        if not sandbox.run_isolated(torch_is_sane):
            return Result(check.id, False, False, hints.TORCH_CHANGED, 0.0)
        seed = secrets.randbits(62) if seed is None else seed
        calls = sandbox.run_isolated(lambda: make_calls(check, seed))
        arity = hints.wrong_arity(check, answer, calls)
        if arity:
            return Result(check.id, False, False, arity, 0.0)
        try:
            with sandbox.guarded() as replaced:
                outcomes = sandbox.run_limited(
                    [lambda call=call: attempt(check, answer, call) for call in calls], seconds=seconds
                )
        except Exception:  # la respuesta quitó algo que también usa el vigilante
            if not replaced:
                raise
            outcomes = [sandbox.Stopped("tiempo")] * len(calls)
        return sandbox.run_isolated(lambda: grade(check, calls, outcomes, replaced))


def make_calls(check: Check, seed: int) -> list[Call]:
    """Las llamadas de todos los casos, ronda tras ronda, con un generador propio."""
    generator = torch.Generator(device="cpu").manual_seed(seed)
    return [case.make(generator) for _ in range(ROUNDS) for case in check.cases]


def attempt(check: Check, answer: Callable, call: Call) -> "Returned | hints.Raised":
    """Llama a `answer` con copias y anota qué hizo: qué devolvió, o qué error lanzó y en qué línea."""
    args, kwargs = copy(call.args), copy(call.kwargs)
    try:
        value = snapshot(awaited(answer(*args, **kwargs)))
    except sandbox.Interrupted:
        raise
    except BaseException as error:  # también SystemExit y KeyboardInterrupt: son de la respuesta, no de quien lee
        return hints.Raised.describe(error, answer)
    given = [*zip(args, call.args, strict=True), *((kwargs[name], call.kwargs[name]) for name in call.kwargs)]
    names = [*check.parameters[: len(args)], *call.kwargs]
    return Returned(value, tuple(n for n, (mine, kept) in zip(names, given, strict=True) if not equal(mine, kept)))


def awaited(value: object) -> object:
    """Lo devuelto; si es de una función `async`, cerrado, para que Python no avise de que nadie lo espera."""
    if inspect.iscoroutine(value):
        value.close()
    return value


def grade(check: Check, calls: Sequence[Call], outcomes: Sequence, replaced: Sequence[str]) -> Result:
    """El veredicto, cuando la respuesta ya ha terminado (la referencia se calcula aquí, no antes)."""
    expected = [expectation(check, call) for call in calls]
    problems = [problem_with(check, *each) for each in zip(outcomes, expected, calls, strict=True)]
    n = len(check.cases)
    score = sum(not any(problems[i::n]) for i in range(n)) / max(n, 1)
    if replaced:
        return Result(check.id, False, False, hints.replaced(replaced), 0.0)
    pending = [o for o in outcomes if isinstance(o, hints.Raised) and o.pending]
    if pending:
        return Result(check.id, False, True, hints.pending(pending[0]), 0.0)
    if not any(problems):
        mutated = sorted({name for o in outcomes if isinstance(o, Returned) for name in o.mutated})
        return Result(check.id, True, False, hints.mutated(mutated), 1.0)
    first = next(i for i, problem in enumerate(problems) if problem)
    at = hints.entry(check, calls[first], check.cases[first % n].label)
    stopped = next((o for o in outcomes if isinstance(o, sandbox.Stopped)), None)
    if stopped:
        return Result(check.id, False, False, hints.stopped(stopped, check), score)
    mistake = recognise(check, calls, outcomes, expected, problems)
    if mistake:
        hint = mistake.hint + hints.where(outcomes[first])
    else:
        hint = hints.what_is_seen(check, outcomes[first], expected[first], problems[first], at)
    return Result(check.id, False, False, hint, score)


def expectation(check: Check, call: Call):
    """Lo que se espera de una llamada: el resultado de la referencia, o el ValueError que lanza."""
    try:
        return snapshot(check.reference(*map(in_double, call.args), **in_double(call.kwargs)))
    except ValueError as error:
        return hints.Raised.describe(error, check.reference)


def problem_with(check: Check, outcome, expected, call: Call) -> str | None:
    """Qué le pasa a un resultado (None si está bien)."""
    if isinstance(expected, hints.Raised):
        return None if isinstance(outcome, hints.Raised) and ValueError in outcome.kinds else "error"
    if not isinstance(outcome, Returned):
        return "error"
    if check.right is not None:
        verdict = check.right(outcome.value, *call.args)
        return None if verdict is True else verdict or "valores"
    return difference(outcome.value, expected)


def recognise(check: Check, calls, outcomes, expected, problems) -> KnownMistake | None:
    """El error conocido que hace lo mismo que la respuesta, si lo hay.

    Primero, el que coincide en todos los casos, solo o con otros de la tabla. Si no, el que explica la mayor parte de
    los resultados equivocados (más de la mitad: con menos puede ser casualidad).
    """

    @cache
    def same(k: int, i: int) -> bool:
        """¿Hace la respuesta lo mismo que el error k en la llamada i? Si acierta uno solo, no; si los dos, sí."""
        theirs = attempt(check, check.mistakes[k].answer, calls[i])
        fails = problem_with(check, theirs, expected[i], calls[i]) is not None
        if problems[i] and fails:
            return matches(outcomes[i], theirs, check.mistakes[k], calls[i])
        return not problems[i] and not fails

    for k, mistake in enumerate(check.mistakes):
        if all(same(k, i) for i in range(len(calls))):
            return mistake
    wrong = [i for i, problem in enumerate(problems) if problem and isinstance(outcomes[i], Returned)]
    for mistake, answer in check.combined() if wrong else ():
        if all(does_the_same(o, answer, call) for o, call in zip(outcomes, calls, strict=True)):
            return replace(mistake, hint=f"{mistake.hint} {hints.NOT_ALONE}")
    explained = [sum(same(k, i) for i in wrong) for k in range(len(check.mistakes))]
    best = max(explained, default=0)
    return check.mistakes[explained.index(best)] if 2 * best > len(wrong) else None


def does_the_same(outcome, answer: Callable, call: Call) -> bool:
    """¿Hace la respuesta lo mismo que `answer`, que es de la tabla y no cambia sus entradas? Son miles: sin copias."""
    try:
        theirs = answer(*call.args, **call.kwargs)
    except Exception as error:
        return isinstance(outcome, hints.Raised) and outcome.text == hints.Raised.describe(error, answer).text
    return isinstance(outcome, Returned) and difference(outcome.value, theirs, like_mistake=True) is None


def matches(outcome, theirs, mistake: KnownMistake, call: Call) -> bool:
    """¿Hace la respuesta lo mismo que el error conocido en este caso?"""
    if isinstance(outcome, Returned) and mistake.seen is not None:
        return mistake.seen(outcome.value, *call.args, **call.kwargs)
    if isinstance(outcome, Returned) and isinstance(theirs, Returned):
        return difference(outcome.value, theirs.value, like_mistake=True) is None
    if isinstance(outcome, hints.Raised) and isinstance(theirs, hints.Raised):
        if mistake.error:
            return re.search(mistake.error, outcome.text) is not None
        return outcome.text == theirs.text
    return False
