"""Los ejercicios se corrigen solos: `mc.check("2.1", attention_weights)`.

Cómo está hecho, de abajo arriba:

- `sandbox.py` ejecuta la respuesta en un hilo aparte, con límites, y deja el cuaderno como estaba;
- `compare.py` copia y compara tensores;
- `hints.py` convierte en una frase lo que se ve mal cuando no hay una pista mejor;
- `framework.py` define qué es una comprobación (casos, referencia, errores conocidos) y la corrige;
- `ch01.py`, `ch02.py`…: una tabla por capítulo. Aquí solo hay datos.

La referencia de cada ejercicio usa solo torch, nunca las funciones de este módulo: un fallo nuestro no puede darse por
bueno a sí mismo.
"""

import os
import sys

from . import ch01, ch02, ch03, ch04, ch05, ch06, ch07, ch08, ch09, hints
from .framework import Check, Result, examine

CHECKS: dict[str, Check] = {
    check.id: check for chapter in (ch01, ch02, ch03, ch04, ch05, ch06, ch07, ch08, ch09) for check in chapter.CHECKS
}


MISSING = object()


def check(id: str, answer: object = MISSING) -> Result:
    """Corrige una respuesta: escribe una línea (✓, ✗ o ⏳) y devuelve el resultado.

    Una respuesta equivocada nunca lanza un error: la línea dice qué se ve y qué hacer. `NotImplementedError` es
    «pendiente». Con la variable de entorno `MULTICABEZA_STRICT=1`, para quien corrige en serie, lo equivocado y lo
    pendiente lanzan `AssertionError` (después de escribir la línea).

    Args:
        id: el número del ejercicio, como «2.1».
        answer: tu función, sin paréntesis. Si el ejercicio pide un valor, el valor o la función que lo devuelve.

    Returns:
        Result con `.passed`, `.pending`, `.hint` (texto, o vacío) y `.score` (proporción de casos bien, de 0 a 1).

    Raises:
        ValueError: si no hay ningún ejercicio con ese número, o falta la respuesta. No es una respuesta equivocada,
            sino una celda mal escrita, y callarlo la daría por corregida.
        AssertionError: solo con `MULTICABEZA_STRICT=1`.
    """
    number = str(id).strip() if isinstance(id, str | int | float) else ""
    if number not in CHECKS:
        raise ValueError(_unknown(id, answer))
    if answer is MISSING:
        name = CHECKS[number].reference.__name__
        raise ValueError(f'Falta tu respuesta, que va detrás del número: mc.check("{number}", {name}).')
    result = examine(CHECKS[number], answer)
    _say(result.line)
    if os.environ.get("MULTICABEZA_STRICT") == "1" and not result.passed:
        raise AssertionError(result.line)
    return result


def _unknown(id: object, answer: object) -> str:
    """Qué decir de un número que no es de ningún ejercicio, y cuál parece que se quería."""
    came = hints.brief(id)
    if isinstance(answer, str) and answer.strip() in CHECKS:
        return f'Los dos argumentos están al revés: primero el número, mc.check("{answer.strip()}", tu_funcion).'
    digits = "".join(c for c in str(id) if c.isdecimal()) if isinstance(id, str | int | float) else ""
    meant = ".".join(digits.lstrip("0"))
    if meant in CHECKS:
        return f'No hay ningún ejercicio «{came}». ¿Querías decir «{meant}»? Se escribe así: mc.check("{meant}", …).'
    chapters = {number.partition(".")[0]: 0 for number in CHECKS}
    for number in CHECKS:
        chapters[number.partition(".")[0]] += 1
    listed = ", ".join(f"{chapter}.1 a {chapter}.{count}" for chapter, count in chapters.items())
    return (
        f"No hay ningún ejercicio «{came}». Los que hay: {listed}. "
        'Lo habitual es un número mal copiado: mc.check("2.1", tu_funcion).'
    )


def _say(line: str) -> None:
    try:
        print(f"{line}\n", end="")  # de una vez: así el kernel no la manda en dos trozos
    except UnicodeEncodeError:  # consolas que no conocen «✓» ni «√»
        encoding = sys.stdout.encoding or "ascii"
        print(line.encode(encoding, errors="replace").decode(encoding))
