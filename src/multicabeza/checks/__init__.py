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

from . import ch01, ch02, ch03, ch04, ch05, ch06, ch07
from .framework import Check, Result, examine

CHECKS: dict[str, Check] = {
    check.id: check for chapter in (ch01, ch02, ch03, ch04, ch05, ch06, ch07) for check in chapter.CHECKS
}


def check(id: str, answer: object) -> Result:
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
        ValueError: si no hay ningún ejercicio con ese número. No es una respuesta equivocada, sino una celda mal
            escrita, y callarlo la daría por corregida.
        AssertionError: solo con `MULTICABEZA_STRICT=1`.
    """
    number = str(id).strip() if isinstance(id, str | int | float) else ""
    if number not in CHECKS:
        raise ValueError(
            f"No hay ningún ejercicio «{id}». Se esperaba uno de estos: {', '.join(CHECKS)}. "
            'Lo habitual es un número mal copiado, o los dos argumentos al revés: mc.check("2.1", tu_funcion).'
        )
    result = examine(CHECKS[number], answer)
    _say(result.line)
    if os.environ.get("MULTICABEZA_STRICT") == "1" and not result.passed:
        raise AssertionError(result.line)
    return result


def _say(line: str) -> None:
    try:
        print(line)
    except UnicodeEncodeError:  # consolas que no conocen «✓» ni «√»
        encoding = sys.stdout.encoding or "ascii"
        print(line.encode(encoding, errors="replace").decode(encoding))
