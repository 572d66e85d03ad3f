"""Lo que se dice cuando una respuesta no cuadra y no es ninguno de los errores conocidos.

Una frase sobre lo que se ve y otra sobre qué hacer; nunca los números de la solución.
"""

import ast
import builtins
import dis
import inspect
import linecache
import re
import sysconfig
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, TracebackType

import torch
from torch import Tensor

from .compare import UNREADABLE, difference, kind, unpacked

TORCH_CHANGED = (
    "En esta sesión las funciones de torch ya no calculan lo que deben: alguna celda ha sustituido una de ellas. "
    "Reinicia el kernel y ejecuta solo las celdas que necesitas."
)
NOT_ALONE = "No es el único fallo: arregla este y vuelve a comprobar."
PENDING = "Pendiente: cuando tengas tu función, vuelve a ejecutar esta celda."
STILL_RAISES = (
    "Pendiente: hay código debajo de `raise NotImplementedError`, y a él no se llega. Borra esa línea y ejecuta otra "
    "vez las dos celdas."
)

# Qué hacer ante un error de Python o de torch: tipo (o texto) que lo delata → consejo.
ADVICE = (
    (r"^NameError", "Ese nombre no existe aquí: ejecuta antes la celda de los «import» y las que definen lo que usas."),
    (r"^RecursionError", "Tu función se llama a sí misma sin fin: dale un caso en el que ya no se llame."),
    (
        r"^(SystemExit|KeyboardInterrupt)",
        "Tu función termina el programa en vez de devolver un valor: quita esa línea.",
    ),
    (r"^MemoryError|allocate memory", "Tu función pide más memoria de la que hay: revisa los tamaños que construyes."),
    (
        r"shapes cannot be multiplied|size mismatch|must match|doesn't match|Expected size|cannot be broadcast|"
        r"does not broadcast|expanded size|is invalid for input of size|dot : expected|at least 2 dimensions|"
        r"[1-9]-?D tensor|of the mask|only supported on matrices|don't multiply up to",
        "Hay dos formas que no encajan: escribe junto a cada línea la forma de cada tensor y busca la que falla.",
    ),
    (
        r"must be tuple of ints|but got float|'float' object cannot be interpreted|must be .*ints?, not float",
        "Ahí hace falta un entero y llega un número real: la división «/» siempre da un real; la entera es «//».",
    ),
    (
        r"size and stride",
        "Después de trasponer, los números ya no están seguidos en memoria y `view` no puede releerlos: usa `reshape`.",
    ),
    (
        r"used as indices",
        "Los índices de una tabla tienen que ser enteros: mira qué operación los ha convertido en reales.",
    ),
    (
        r"'Tensor' object is not callable",
        "Un tensor no se llama con paréntesis: para sacar filas suyas usa corchetes. Si ese nombre era de una función, "
        "alguna celda lo ha tapado con un resultado.",
    ),
    (
        r"values to unpack",
        "Repartes la forma en un número fijo de nombres, y aquí tiene otro número de dimensiones: lee solo las que te "
        "hacen falta, contando desde el final con -1 y -2.",
    ),
    (
        r"only one element tensors can be converted|cannot be converted to Scalar|only 0-dim|only integer tensors of a",
        "Ahí hace falta un solo número y llega un tensor con varios: `math` trabaja con números sueltos (`torch` tiene "
        "las mismas funciones para tensores), y para juntar tensores está `torch.stack`.",
    ),
    (
        r"must be Tensor, not",
        "Las funciones de torch esperan un tensor, y ahí les llega otra cosa: para un número suelto usa `math` o `**`.",
    ),
    (
        r"invert.*only implemented|(with|on) a bool tensor is not supported",
        "Una máscara se niega con «~», y tiene que ser de booleanos: conviértela antes con `.bool()` si son números.",
    ),
    (r"NoneType", "Ahí llega None en vez de un valor: mira si es un argumento que faltaba o una función sin `return`."),
    (r"'list' object has no|list indices", "Es una lista de Python y la tratas como un tensor: conviértela antes."),
    (
        r"^BdbQuit",
        "Queda un punto de parada (`breakpoint` o `pdb`) en tu función: quítalo, o llámala tú para depurarla.",
    ),
    (r"^(EOFError|StdinNot)", "Tu función pide algo por el teclado: todo lo que necesita le llega como argumento."),
    (
        r"list index out of range",
        "Un índice se sale de la lista: imprime, antes de esa línea, el índice y cuántos elementos hay.",
    ),
    (r"^IndexError|out of (range|bounds)", "Un índice o una dimensión se sale: imprime las formas antes de esa línea."),
    (
        r"dtype|scalar type|not implemented for",
        "Se mezclan tipos de número que torch no combina: mira el dtype de cada tensor antes de esa línea.",
    ),
    (
        r"ambiguous",
        "Un tensor con varios valores no es verdadero ni falso: para saber si te lo han pasado, compara con «is None».",
    ),
    (r"", "Llámala tú en otra celda con esas mismas entradas y lee el error completo."),
)

_LIBRARIES = tuple(
    {
        *(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")),
        str(Path(torch.__file__).parents[1]),
        str(Path(__file__).parents[1]),
        "<frozen",
    }
)
_USUAL_MODULES = {"torch", "F", "math", "np", "nn", "mc"}
_ORDINALS = ("primer", "segundo", "tercer", "cuarto")


@dataclass(frozen=True)
class Raised:
    """El error que lanzó una respuesta, y dónde (en el código de quien la escribió)."""

    type: str
    message: str
    pending: bool = False
    place: str = ""
    function: str = ""
    answer: str = ""
    shadowed: tuple[tuple[str, str], ...] = ()
    kinds: tuple[type, ...] = ()  # la clase del error y las que están por encima
    unreached: bool = False  # pendiente, y con código debajo del `raise`

    @property
    def text(self) -> str:
        """Tipo y mensaje, como los escribe Python."""
        return f"{self.type}: {self.message}" if self.message else self.type

    @classmethod
    def describe(cls, error: BaseException, answer: Callable) -> "Raised":
        """Resume `error` sin quedarse con él (retendría las variables de la respuesta)."""
        try:
            message = next(iter(str(error).strip().splitlines()), "")
        except Exception:
            message = ""
        steps = list(_walk(error.__traceback__))
        theirs = [step for step in steps if not step.tb_frame.f_code.co_filename.startswith(_LIBRARIES)]
        try:
            name = getattr(answer, "__name__", type(answer).__name__)
        except Exception:
            name = type(answer).__name__
        if not theirs:
            return cls(type(error).__name__, message, answer=name, kinds=type(error).__mro__)
        last = theirs[-1]
        pending = isinstance(error, NotImplementedError) and last is steps[-1] and _is_raise(last)
        return cls(
            type(error).__name__,
            message,
            pending,
            _place(last),
            last.tb_frame.f_code.co_name,
            name,
            _shadowed(last) if isinstance(error, TypeError | AttributeError) else (),
            type(error).__mro__,
            pending and _code_below(last),
        )


def _walk(step: TracebackType | None):
    while step is not None:
        yield step
        step = step.tb_next


def _is_raise(step: TracebackType) -> bool:
    """¿Lo lanzó un `raise` escrito ahí? (torch también lanza NotImplementedError, desde C.)"""
    return step.tb_frame.f_code.co_code[step.tb_lasti] == dis.opmap["RAISE_VARARGS"]


def _code_below(step: TracebackType) -> bool:
    """¿Sigue algo al `raise`, en su mismo bloque? (El código compilado ya no lo lleva: se mira el texto, si lo hay.)"""
    try:
        lines, first = inspect.getsourcelines(step.tb_frame.f_code)
        (function,) = ast.parse(textwrap.dedent("".join(lines))).body
    except Exception:
        return False
    body = getattr(function, "body", ())
    line = step.tb_lineno - max(first, 1) + 1
    return isinstance(body, list) and any(statement.lineno == line for statement in body[:-1])


def _place(step: TracebackType) -> str:
    filename, line = step.tb_frame.f_code.co_filename, step.tb_lineno
    source = linecache.getline(filename, line, step.tb_frame.f_globals).strip()
    cell = filename.startswith("<") or "ipykernel" in filename
    return f"línea {line} de {'tu celda' if cell else Path(filename).name}" + (
        f", «{_short(source)}»" if source else ""
    )


def _shadowed(step: TracebackType) -> tuple[tuple[str, str], ...]:
    """Nombres de Python o módulos corrientes que el cuaderno ha tapado con otra cosa, y qué son ahora."""
    names, variables = step.tb_frame.f_code.co_names, step.tb_frame.f_globals
    return tuple(
        (name, type(variables[name]).__name__)
        for name in names
        if name in variables
        and (
            (
                hasattr(builtins, name)
                and variables[name] is not getattr(builtins, name)
                and not callable(variables[name])
            )
            or (name in _USUAL_MODULES and not isinstance(variables[name], ModuleType))
        )
    )


def _short(text: str, width: int = 90) -> str:
    text = " ".join("".join(c if c.isprintable() else " " for c in text[: 4 * width]).split())
    return text if len(text) <= width else text[: width - 1] + "…"


def brief(value: object) -> str:
    """Cómo se lee un valor cualquiera, en pocas letras."""
    try:
        return _short(str(value), 40)
    except Exception:
        return type(value).__name__


def shape(tensor: Tensor) -> str:
    """La forma, entre paréntesis."""
    return str(tuple(tensor.shape))


def entry(check, call, label: str) -> str:
    """El caso en que se vio el fallo: «sin lote: query (5, 6), key (7, 6)»."""
    pairs = [*zip(check.parameters, call.args, strict=False), *call.kwargs.items()]
    if not pairs:
        return label
    return f"{label}: {', '.join(f'{name} {_entry(value)}' for name, value in pairs)}"


def _entry(value) -> str:
    if isinstance(value, Tensor):
        return shape(value)
    if isinstance(value, list | tuple) and value and all(isinstance(item, Tensor) for item in value):
        return f"= {' y '.join(map(shape, value)) if len(value) == 2 else ', '.join(map(shape, value))}"
    return f"= lista de {len(value)}" if isinstance(value, list) else f"= {value}"


def not_a_function(check, answer) -> str:
    """Se pasó otra cosa en vez de la función."""
    came, why = _kind(answer), "quizá la llamaste al pasarla"
    if isinstance(answer, Tensor):
        came = "un tensor"
    elif isinstance(answer, ModuleType):
        came, why = f"el módulo {answer.__name__}", "dentro está la función"
    elif isinstance(answer, str):
        came, why = "un texto", "el nombre de la función va sin comillas"
    elif inspect.isclass(answer):
        came, why = f"la clase {answer.__name__}", "si escribiste una clase, pasa un objeto suyo"
    elif answer is None:
        why = "quizá la llamaste al pasarla, o la celda que la define no le da ese nombre"
    return (
        f"Se esperaba una función y llegó {came}: {why}. "
        f'Pásala por su nombre, sin paréntesis: mc.check("{check.id}", {check.reference.__name__}).'
    )


def wrong_arity(check, answer: Callable, calls: Sequence) -> str:
    """Los parámetros no son los del enunciado (vacío si lo son)."""
    try:
        signature = inspect.signature(answer)
    except Exception:  # algunas funciones escritas en C no la declaran
        return ""
    for call in calls:
        try:
            signature.bind(*call.args, **call.kwargs)
        except TypeError:
            return (
                f"Tu función recibe {_short(str(signature))} y el enunciado pide {check.signature}. "
                "Deja los mismos parámetros y en el mismo orden, con sus valores por omisión."
            )
    return ""


def pending(raised: Raised) -> str:
    """Falta por escribir; si lo que falta es otra función a la que se llama, se dice cuál."""
    if raised.function and raised.function not in (raised.answer, "__call__", "forward", "<lambda>"):
        return f"Pendiente: tu función llama a «{raised.function}», que aún no está escrita."
    return STILL_RAISES if raised.unreached else PENDING


def mutated(names: Sequence[str]) -> str:
    """Consejo para quien acierta cambiando sus entradas (vacío si no las cambia)."""
    if not names:
        return ""
    which = " y ".join(f"`{name}`" for name in names)
    return (
        f"Un consejo: tu función modifica {which} al calcular, y quien la llame encontrará cambiados sus datos; "
        "trabaja sobre un tensor nuevo (las operaciones que acaban en «_» y las asignaciones con corchetes escriben "
        "encima)."
    )


def replaced(names: Sequence[str]) -> str:
    """La respuesta sustituyó funciones ajenas."""
    return (
        f"Tu función sustituye {_short(', '.join(names), 60)}, que no es suyo (ya está repuesto). "
        "Calcula el resultado sin cambiar lo que usan los demás."
    )


def stopped(what, check) -> str:
    """Se agotó el plazo o la memoria."""
    if what.reason == "memoria":
        return (
            f"Detuve {check.reference.__name__} porque no dejaba de pedir memoria. "
            "Busca una lista o un tensor que crece dentro de un bucle que no acaba."
        )
    return (
        f"Detuve {check.reference.__name__} porque no terminaba. Busca un bucle que no acaba: "
        "un `while` cuya condición no cambia, o un `for` sobre algo que crece."
    )


def where(outcome) -> str:
    """El error y su línea, si la respuesta lanzó uno."""
    if not isinstance(outcome, Raised) or not outcome.place:
        return ""
    return f" ({outcome.type} en la {outcome.place}.)"


def what_is_seen(check, outcome, expected, problem: str, at: str) -> str:
    """La pista general, en este orden: error, tipo, forma, números no finitos, filas que no suman 1, valores."""
    if isinstance(expected, Raised):
        return another_error(outcome, expected, at)
    if isinstance(outcome, Raised):
        return error(outcome, at)
    value, which = unpacked(outcome.value, expected), "El resultado"
    while isinstance(expected, tuple):
        if not isinstance(value, tuple | list) or len(value) != len(expected):
            return not_a_tuple(value, len(expected), which)
        index = next(i for i, pair in enumerate(zip(value, expected, strict=True)) if difference(*pair))
        value, expected, which = value[index], expected[index], _item(index, which)
        problem = difference(value, expected)
    if isinstance(expected, dict) and isinstance(value, dict):
        if problem == "claves":
            return wrong_keys(value, expected, which)
        key = next(key for key, item in expected.items() if difference(value[key], item))
        value, expected, which = value[key], expected[key], f"«{key}»"
        problem = difference(value, expected)
    if problem == "tipo":
        return wrong_type(value, expected, which)
    if problem == "forma":
        return (
            f"{which} tiene la forma {shape(value)} y se esperaba {shape(expected)} ({at}). "
            "Sigue la forma línea a línea y busca dónde se separa de la del enunciado."
        )
    if problem == "finito" and not isinstance(value, Tensor | tuple | list):
        return f"{which} es {value} ({at}). Busca una división entre cero o un número que se desborda."
    if isinstance(expected, str):
        return f"{which} no es el texto que se pide ({at}). Sigue tu función paso a paso con una entrada corta."
    if not isinstance(expected, Tensor):
        return (
            f"{which} no es el número que se pide ({at}). "
            "Haz la cuenta con números pequeños en un papel y compárala, paso a paso, con la tuya."
        )
    if problem == "finito":
        bad = "NaN" if value.isnan().any() else "infinitos"
        return (
            f"{which} contiene {bad} ({at}). Suelen salir de la exponencial de un número grande, de 0/0 o de una fila "
            "entera a −∞: busca la primera operación en la que aparecen."
        )
    weights = None if check.weights is None or value.dtype is torch.bool else check.weights(outcome.value)
    if weights is not None and not torch.allclose(
        weights.double().sum(-1), torch.ones((), dtype=torch.float64), atol=1e-2
    ):
        return (
            f"Las filas de los pesos no suman 1 ({at}). Cada consulta reparte un peso total de 1 entre las claves: "
            "la softmax recorre la última dimensión, y después nada toca los pesos."
        )
    return (
        f"{which} tiene la forma correcta, pero no los valores ({at}). "
        "Haz la cuenta a mano con dos o tres números y compárala, paso a paso, con lo que calcula tu función."
    )


def error(raised: Raised, at: str) -> str:
    """La respuesta lanzó un error."""
    place = f" en la {raised.place}" if raised.place else ""
    if raised.shadowed:
        name, what = raised.shadowed[0]
        return (
            f"Tu función falla{place}, porque en este cuaderno «{name}» ya no es lo que era: ahora es una variable de "
            f"tipo {what}. "
            "Reinicia el kernel (o vuelve a importarlo, si era un módulo) y no uses ese nombre para una variable."
        )
    advice = next(what for pattern, what in ADVICE if re.search(pattern, raised.text))
    return f"Tu función se para{place} con {_short(raised.text, 140)} ({at}). {advice}"


def another_error(outcome, expected: Raised, at: str) -> str:
    """Se pedía lanzar un error."""
    if isinstance(outcome, Raised):
        place = f" en la {outcome.place}" if outcome.place else ""
        return (
            f"Con esa entrada se pide lanzar {expected.type}, y tu función se para{place} con "
            f"{_short(outcome.text, 140)} ({at}). Comprueba la condición antes de operar y lanza tú ese error."
        )
    return (
        f"Con esa entrada se pide lanzar {expected.type}, y tu función devuelve un resultado ({at}). "
        "Comprueba la condición antes de calcular, y lanza el error con `raise`."
    )


def wrong_keys(value: dict, expected: dict, which: str) -> str:
    """Un diccionario con otras claves."""
    came = _short(", ".join(map(str, value)), 80) or "ninguna"
    return (
        f"{which} tiene las claves {came}, y se piden {', '.join(expected)}. "
        "Escribe esas, como textos y con las mismas letras."
    )


def _item(index: int, which: str) -> str:
    """«El segundo resultado»; dentro de él, «El primer tensor del segundo resultado»."""
    if which == "El resultado":
        return f"El {_ORDINALS[index]} resultado"
    return f"El {_ORDINALS[index]} tensor {which.replace('El', 'del', 1)}"


def not_a_tuple(value, count: int, which: str = "El resultado") -> str:
    """Se pedían varios resultados."""
    if which != "El resultado":
        came = f"tiene longitud {len(value)}" if isinstance(value, tuple | list) else f"es {_kind(value)}"
        return f"{which} {came}, y se piden {count} tensores en una pareja. Ponlos entre paréntesis, en su orden."
    came = "llegó None" if value is None else "llegó uno solo"
    if isinstance(value, tuple | list):
        came = f"llegaron {len(value)}"
    return f"Se piden {count} resultados, separados por una coma tras `return`, y {came}. Devuelve esos {count}."


def wrong_type(value, expected, which: str) -> str:
    """Llegó otra clase de cosa."""
    if isinstance(value, Tensor) and isinstance(expected, Tensor):
        if kind(expected) == "bool":
            came = f"números ({value.dtype})"
            return f"{which} contiene {came} y se esperaban booleanos. Devuelve una comparación, o usa `.bool()`."
        came = "booleanos" if kind(value) == "bool" else "números complejos"
        return f"{which} contiene {came} y se esperaban números reales. Busca la operación que cambia el tipo."
    if value is UNREADABLE:
        return (
            f"{which} es un tensor especial (de «meta», ficticio o anidado), sin números que se puedan mirar. "
            "Devuelve un tensor corriente, con lo que has calculado."
        )
    if inspect.iscoroutine(value) or inspect.isgenerator(value) or inspect.isasyncgen(value):
        word = "yield" if inspect.isgenerator(value) else "async"
        how = "Cámbialo por `return`." if word == "yield" else "Quita esa palabra: aquí no hay nada que esperar."
        return f"Tu función no calcula nada al llamarla, porque es de las que llevan «{word}». {how}"
    if isinstance(value, type) and issubclass(value, BaseException):
        return f"Tu función devuelve el error {value.__name__} en vez de lanzarlo. Si es lo que querías, usa `raise`."
    if value is None and which != "El resultado":
        return f"{which} es None. Pon en su lugar lo que pide el enunciado; si la función que usas no lo da, calcúlalo."
    if value is None:
        return "Tu función no devuelve nada (None). Termina con `return` y lo que has calculado."
    if isinstance(expected, dict):
        return f"{which} es {_kind(value)} y se esperaba un diccionario. Sus claves son: {', '.join(expected)}."
    if not isinstance(expected, Tensor):
        wanted = "None" if expected is None else "un texto" if isinstance(expected, str) else "un número"
        return f"{which} es {_kind(value)} y se esperaba {wanted}. Mira qué escribes tras `return`."
    if isinstance(value, tuple) and any(isinstance(item, Tensor) for item in value):
        return (
            f"Tu función devuelve {len(value)} cosas y se pide un solo tensor. Deja tras `return` solo la que se pide."
        )
    if type(value).__module__.partition(".")[0] == "numpy":
        return (
            f"{which} es de NumPy ({type(value).__name__}) y se esperaba un tensor. "
            "Haz la cuenta con torch, o convierte el final con `torch.as_tensor(…)`."
        )
    if isinstance(value, list | tuple):
        came = "una lista" if isinstance(value, list) else "una tupla"
        how = "Conviértela con `torch.tensor(…)` o `torch.stack(…)`."
        return f"{which} es {came} de Python y se esperaba un tensor. {how}"
    return f"{which} es {_kind(value)} y se esperaba un tensor. Mira qué escribes tras `return`."


def _kind(value) -> str:
    """Qué clase de cosa es, en palabras."""
    if isinstance(value, Tensor):
        return f"un tensor de forma {shape(value)}"
    names = {
        type(None): "None",
        bool: "un booleano",
        str: "un texto",
        list: "una lista",
        tuple: "una tupla",
        dict: "un diccionario",
        set: "un conjunto",
        int: "un número entero",
        float: "un número",
        complex: "un número complejo",
    }
    if inspect.isclass(value):
        return f"la clase {value.__name__}"
    if inspect.isroutine(value):
        return f"la función {getattr(value, '__name__', '')}".rstrip()
    return names.get(type(value), type(value).__name__)
