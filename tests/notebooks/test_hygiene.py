"""Los cuadernos cumplen sus reglas, y cada regla caza el cuaderno que la rompe."""

import copy
from pathlib import Path

import hygiene
import pytest
from hygiene import FOLDED, KERNEL, RULES, SETUP, Notebook

NOTEBOOKS = hygiene.notebooks()


def name_of(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("path", NOTEBOOKS, ids=name_of)
def test_notebook(path, rule):
    """Cada cuaderno cumple cada regla."""
    faults = RULES[rule](Notebook.read(path))
    assert not faults, "\n".join(faults)


def test_there_are_notebooks():
    """La búsqueda encuentra los capítulos 00 a 02 y los ejercicios 01 y 02."""
    assert {name_of(path) for path in NOTEBOOKS} >= {
        "notebooks/00_antes_de_empezar",
        "notebooks/01_de_texto_a_vectores",
        "notebooks/02_atencion",
        "exercises/01_de_texto_a_vectores",
        "exercises/02_atencion",
    }


def test_setup_is_identical_everywhere():
    """La misma celda de preparación, dirección incluida, en todos."""
    cells = {dict(Notebook.read(path).cells("code")).get("preparacion") for path in NOTEBOOKS}
    assert len(cells) == 1


def test_ids_of_predictions_and_claims_are_unique():
    """Los identificadores de mc.predict y mc.claim no se repiten en el libro: guardan respuestas y valores."""
    for function in ("mc.predict", "mc.claim"):
        seen = [
            hygiene.ast.literal_eval(call.args[0])
            for path in NOTEBOOKS
            for _, code in Notebook.read(path).cells("code")
            for call in hygiene.calls(hygiene.safe_parse(code), function)
            if call.args and isinstance(call.args[0], hygiene.ast.Constant)
        ]
        assert len(seen) == len(set(seen)), sorted({id_ for id_ in seen if seen.count(id_) > 1})


# --- Cada regla, con un cuaderno que la rompe ------------------------------------------------------------------------


def markdown(id_: str, text: str) -> dict:
    return {"cell_type": "markdown", "id": id_, "metadata": {}, "source": text}


def code(id_: str, text: str, metadata: dict | None = None) -> dict:
    cell = {"cell_type": "code", "id": id_, "metadata": metadata or {}, "execution_count": None, "outputs": []}
    return cell | {"source": text}


CHAPTER = [
    markdown("titulo", "# 02 · Prueba\n\n## Dónde estamos\n\nAquí.\n\n## La idea en una frase\n\nUna."),
    markdown("conceptos", "| Término | Definición | Para qué sirve en un transformer |\n|---|---|---|\n| a | b | c |"),
    code("preparacion", SETUP),
    code("predice", 'mc.predict("a", "¿Sí?", ["sí", "no"], 0, "Porque sí.")', FOLDED),
    markdown(
        "uno", "## Uno\n\nUna fórmula, $\\operatorname{softmax}(QK^\\top/\\sqrt{d_k})$, y otra:\n\n$$a = b \\tag{1}$$"
    ),
    code(
        "figura",
        "fig = plots.lines(x, y)\n"
        'mc.show(fig, alt="Dos líneas que bajan y se cruzan en el centro.")\n'
        'mc.explore(draw, {"h": [1, 2]}, alt=describe)',
    ),
    markdown("dos", '## Dos\n\n<div class="mc-note" data-kind="ojo">\n\n**Ojo.** Cuidado con `a[i]`.\n\n</div>'),
    markdown(
        "tres",
        "## Tres\n\nBuen sitio para una pausa.\n\n"
        '<div class="mc-note" data-kind="analogia">\n\n**Analogía.** Es así. *Dónde falla:* no del todo.\n\n</div>',
    ),
    markdown("cuatro", "## Cuatro\n\nVer [ejercicios](../exercises/02_atencion.ipynb) y [fuera](https://arxiv.org)."),
    markdown(
        "piensa",
        "## Piensa como quien investiga\n\n¿Cómo?\n\n<details><summary>Qué se hizo</summary>\n\nEsto.\n\n</details>",
    ),
    markdown("final", "## Resumen\n\nFin.\n\n## Errores frecuentes\n\nNinguno."),
    markdown("repaso", "## Repaso\n\nPara ti."),
    code("repaso-actividad", 'mc.activity("02")', FOLDED),
]

EXERCISE = [
    markdown("titulo", "# Ejercicios 01"),
    code("preparacion", SETUP),
    *(
        cell
        for i in (1, 2)
        for cell in (
            markdown(f"enunciado-{i}", f"## 1.{i} · Algo\n\n*Dificultad 2 de 5 · 10 minutos*\n\nEscribe `f{i}`."),
            code(f"respuesta-{i}", f"def f{i}():\n    raise NotImplementedError"),
            code(f"check-{i}", f'mc.check("1.{i}", f{i})'),
            markdown(
                f"ayuda-{i}",
                "<details><summary>Pista</summary>\n\nPiensa.\n\n</details>\n\n"
                f"<details><summary>Solución</summary>\n\n```python\ndef f{i}(): ...\n```\n\n</details>",
            ),
        )
    ),
]


def notebook(cells: list[dict], folder: str = "notebooks", name: str = "02_atencion") -> Notebook:
    data = {"nbformat": 4, "nbformat_minor": 5, "metadata": KERNEL, "cells": cells}
    return Notebook(hygiene.ROOT / folder / f"{name}.ipynb", copy.deepcopy(data))


def chapter() -> Notebook:
    return notebook(CHAPTER)


def exercise() -> Notebook:
    return notebook(EXERCISE, "exercises", "01_de_texto_a_vectores")


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("good", [chapter, exercise])
def test_a_good_notebook_passes(good, rule):
    """El cuaderno del que parten los malos cumple todas las reglas."""
    if rule == "links_resolve":
        assert (hygiene.ROOT / "exercises/02_atencion.ipynb").exists()
    assert RULES[rule](good()) == []


def cell_of(book: Notebook, id_: str) -> dict:
    return next(cell for cell in book.data["cells"] if cell["id"] == id_)


def edit(id_: str, old: str, new: str):
    def change(book: Notebook):
        cell = cell_of(book, id_)
        assert old in cell["source"]
        cell["source"] = cell["source"].replace(old, new)

    return change


def replace(id_: str, text: str):
    return lambda book: cell_of(book, id_).update(source=text)


def put(id_: str, **fields):
    return lambda book: cell_of(book, id_).update(fields)


def drop(id_: str):
    return lambda book: book.data["cells"].remove(cell_of(book, id_))


def repeat(id_: str):
    return lambda book: book.data["cells"].append(copy.deepcopy(cell_of(book, id_)))


def fill(id_: str, total: int):
    """Copia una celda hasta que el cuaderno tiene `total` de código, además de la del repaso."""

    def change(book: Notebook):
        missing = total + 1 - len(list(book.cells("code")))
        book.data["cells"] += [copy.deepcopy(cell_of(book, id_)) for _ in range(missing)]

    return change


def top(**fields):
    return lambda book: book.data.update(fields)


SHOW = 'mc.show(fig, alt="Dos líneas que bajan y se cruzan en el centro.")'

BREAKERS = {
    "valid_format": [
        (chapter, top(nbformat_minor=4), "no 4.5"),
        (chapter, put("uno", cell_type="texto"), "no es un cuaderno válido"),
        (chapter, lambda book: cell_of(book, "uno").pop("id"), "no es un cuaderno válido"),
    ],
    "no_traces": [
        (chapter, put("figura", execution_count=3), "número de ejecución"),
        (chapter, put("figura", outputs=[{"output_type": "stream", "name": "stdout", "text": "a"}]), "salidas"),
        (chapter, put("figura", metadata={"scrolled": True}), "metadatos"),
        (chapter, put("figura", metadata=FOLDED), "metadatos"),
        (chapter, put("uno", metadata=FOLDED), "metadatos"),
        (chapter, top(metadata=KERNEL | {"language_info": {"version": "3.13.1"}}), "metadatos del cuaderno"),
        (chapter, put("uno", attachments={"a.png": {}}), "adjuntos"),
    ],
    "folded_questions": [
        (chapter, put("predice", metadata={}), "metadatos"),
        (chapter, put("predice", metadata={"cellView": "form"}), "metadatos"),
        (chapter, put("predice", metadata={"jupyter": {"source_hidden": True}}), "metadatos"),
        (chapter, put("predice", metadata=FOLDED | {"tags": ["hide-input"]}), "metadatos"),
        (chapter, put("predice", metadata=FOLDED | {"cellView": "code"}), "metadatos"),
        (chapter, edit("predice", "mc.predict", "x = 1\nmc.predict"), "sola en su celda"),
        (chapter, edit("predice", 'Porque sí.")', 'Porque sí.")\nx = 1'), "sola en su celda"),
        (chapter, put("repaso-actividad", metadata={}), "metadatos"),
        (chapter, edit("repaso-actividad", "mc.activity", "x = 1\nmc.activity"), "sola en su celda"),
    ],
    "review_activity": [
        (chapter, drop("repaso-actividad"), "hay 0"),
        (chapter, edit("repaso-actividad", "02", "03"), 'mc.activity("02")'),
        (chapter, edit("repaso", "Repaso", "Otra cosa"), "«## Repaso»"),
        (chapter, edit("final", "Errores frecuentes", "Otra cosa"), "después de «Errores"),
        (exercise, edit("check-1", "mc.check(", 'mc.activity("01")\nmc.check('), "va en los capítulos"),
    ],
    "stable_ids": [
        (chapter, repeat("uno"), "repetido"),
        (chapter, put("uno", id="a1b2c3d4"), "al azar"),
        (chapter, put("uno", id="0d0c1e6a-12f3-4d5e-8a9b-0123456789ab"), "al azar"),
        (chapter, put("uno", id="Uno_dos"), "minúsculas"),
    ],
    "same_setup": [
        (chapter, edit("preparacion", "%pip install -q", "%pip install -qU"), "no es la de todos"),
        (chapter, drop("preparacion"), "no es «preparacion»"),
        (exercise, lambda book: book.data["cells"].insert(0, code("antes", "import torch")), "no es «preparacion»"),
    ],
    "short_cells": [
        (chapter, replace("figura", "\n".join(["x = 1"] * 16)), "16 líneas"),
        (chapter, replace("figura", " \n"), "vacía"),
    ],
    "few_cells": [(chapter, fill("figura", 36), "36 celdas de código")],
    "portable_code": [
        (chapter, replace("figura", "for"), "línea 1"),
        (chapter, replace("figura", "%pip install otro"), "orden de IPython"),
        (chapter, replace("figura", "!ls"), "orden de IPython"),
        (chapter, replace("figura", 'open("/home/ana/datos.txt")'), "carpeta de una máquina"),
    ],
    "figures_are_shown": [
        (chapter, replace("figura", "plt.plot(x)\nplt.show()"), "en vez de mc.show"),
        (chapter, replace("figura", "fig = plots.lines(x, y)\nfig.show()"), "en vez de mc.show"),
        (chapter, replace("figura", "fig = plots.lines(x, y)\ndisplay(fig)"), "display"),
        (chapter, replace("figura", "plots.lines(x, y)"), "figura suelta"),
        (chapter, replace("figura", "fig, ax = plt.subplots()\nax.plot(x)\nfig"), "figura suelta"),
        (chapter, replace("figura", "from multicabeza.plots import lines\nlines(x, y)"), "figura suelta"),
        (chapter, replace("figura", "fig, ax = plt.subplots()\nax.plot(x)"), "no enseña la figura"),
        (chapter, replace("figura", "mc.show(plots.lines(x, y))"), "sin alt="),
        (chapter, replace("figura", 'mc.explore(draw, {"h": [1, 2]})'), "sin alt="),
        (chapter, replace("figura", 'mc.show(fig, alt="  ")'), "vacío o demasiado corto"),
        (chapter, replace("figura", 'mc.show(fig, alt="Gráfico de las pérdidas del modelo.")'), "di qué se ve"),
    ],
    "plain_markdown": [
        (chapter, replace("uno", "```{note}\nHola\n```"), "directiva"),
        (chapter, replace("uno", ":::{tip}\nHola\n:::"), "directiva"),
        (chapter, replace("uno", "Ver {ref}`algo`."), "rol"),
        (chapter, replace("uno", "(ancla)=\n## Uno"), "etiqueta"),
        (chapter, replace("uno", "Vale {{ razon }}."), "sustitución"),
        (chapter, replace("uno", "Dicho[^1]."), "nota al pie"),
        (chapter, replace("uno", "uno\n+++\ndos"), "separador"),
    ],
    "standard_math": [
        (chapter, replace("uno", "Con $\\softmax(x)$."), "\\softmax"),
        (chapter, replace("uno", "$$\\begin{tikzpicture}a\\end{tikzpicture}$$"), "tikzpicture"),
        (chapter, replace("uno", "Así: $$a = b$$ y ya."), "párrafo propio"),
        (chapter, replace("uno", "Así:\n$$a = b$$\n\nY ya."), "párrafo propio"),
        (chapter, replace("uno", "$$a = b"), "sin pareja"),
        (chapter, replace("uno", "\\begin{aligned}a\\end{aligned}"), "sin $$"),
        (chapter, replace("dos", "$$c = d \\tag{1}$$"), "repetida"),
        (chapter, replace("uno", "Con W^K y $W^V$."), "$W^K$"),
    ],
    "folded_blocks": [
        (chapter, edit("piensa", "</summary>\n\n", "</summary>\n"), "después de <summary>"),
        (chapter, edit("piensa", "¿Cómo?\n\n", "¿Cómo?\n"), "antes de <details>"),
        (chapter, edit("piensa", "Esto.\n\n", "Esto.\n"), "</details> va solo"),
        (chapter, edit("piensa", "</details>", ""), "sin cerrar"),
        (chapter, edit("piensa", "<details><summary>", "<details>\n<summary>"), "en una línea"),
    ],
    "notes_and_html": [
        (chapter, edit("dos", 'data-kind="ojo"', 'data-kind="aviso"'), "no existe"),
        (chapter, edit("dos", "**Ojo.**", "Atención:"), "empieza por"),
        (chapter, edit("dos", '"ojo">\n\n', '"ojo">\n'), "fuera de la forma"),
        (chapter, edit("dos", "\n\n</div>", "\n</div>"), "fuera de la forma"),
        (chapter, edit("tres", "*Dónde falla:* no del todo.", ""), "dónde falla"),
        (chapter, replace("uno", "<span style='color:red'>rojo</span>"), "<span>"),
        (chapter, replace("uno", "<script>alert(1)</script>"), "<script>"),
        (chapter, replace("uno", "![](https://a.org/b.png)"), "sin texto alternativo"),
    ],
    "links_resolve": [
        (chapter, replace("uno", "[a](99_no_existe.ipynb)"), "no lleva"),
        (chapter, replace("uno", "[a](/home/ana/libro.ipynb)"), "una máquina"),
        (chapter, replace("uno", "[a](file:///libro.ipynb)"), "una máquina"),
    ],
    "finished": [
        (chapter, replace("uno", "TODO: acabar"), "TODO"),
        (chapter, replace("figura", "x = 1  # FIXME"), "FIXME"),
        (chapter, replace("uno", "Lorem: lorem ipsum"), "lorem ipsum"),
    ],
    "one_title": [
        (chapter, drop("titulo"), "no es el título"),
        (chapter, edit("uno", "## Uno", "# Uno"), "solo uno"),
        (chapter, edit("uno", "## Uno", "#### Uno"), "salta del nivel"),
    ],
    "chapter_shape": [
        (chapter, edit("titulo", "## Dónde estamos", "## Introducción"), "Dónde estamos"),
        (chapter, edit("titulo", "## La idea en una frase", "## La idea"), "La idea en una frase"),
        (chapter, drop("conceptos"), "tabla de conceptos"),
        (chapter, drop("preparacion"), "«preparacion»"),
        (chapter, drop("predice"), "predice"),
        (chapter, drop("piensa"), "Piensa como quien investiga"),
        (chapter, edit("piensa", "<details><summary>Qué se hizo</summary>\n\nEsto.\n\n</details>", ""), "desplegable"),
        (chapter, edit("tres", "Buen sitio para una pausa.", ""), "pausa"),
        (chapter, edit("final", "## Resumen", "## Fin"), "Resumen"),
        (chapter, edit("final", "## Errores frecuentes", "## Otros"), "Errores frecuentes"),
        (chapter, edit("cuatro", "02_atencion", "01_de_texto_a_vectores"), "el enlace a sus ejercicios"),
        (chapter, drop("dos"), "hay 3"),
    ],
    "exercise_shape": [
        (exercise, drop("check-2"), "debía comprobar"),
        (exercise, edit("check-2", '"1.2"', '"1.3"'), "debía comprobar"),
        (exercise, edit("enunciado-1", "## 1.1 ·", "## Otro ·"), "falta el enunciado"),
        (exercise, edit("enunciado-1", "Dificultad 2 de 5", "Fácil"), "la dificultad"),
        (exercise, edit("enunciado-1", "10 minutos", "un rato"), "los minutos"),
        (exercise, edit("ayuda-1", "<summary>Pista", "<summary>Ayuda"), "la pista"),
        (exercise, edit("ayuda-2", "```python\n", "```\n"), "la solución"),
        (exercise, edit("respuesta-2", "raise NotImplementedError", "return 3"), "celdas de respuesta"),
    ],
}

CASES = [(rule, *case) for rule, cases in BREAKERS.items() for case in cases]


@pytest.mark.parametrize(("rule", "good", "spoil", "message"), CASES)
def test_a_bad_notebook_is_caught(rule, good, spoil, message):
    """Cada cuaderno malo incumple su regla, y la falta dice cuál es."""
    book = good()
    spoil(book)
    faults = RULES[rule](book)
    assert any(message in fault for fault in faults), faults


def test_every_rule_has_a_bad_notebook():
    """No hay regla sin un cuaderno que la rompa."""
    assert set(BREAKERS) == set(RULES)


FINE = [
    ("plain_markdown", "Un conjunto `{a}`, una `f{x}` y `dict{…}`; \\{a\\}; y $\\text{abc}$."),
    ("plain_markdown", "```python\nx = {{1: 2}}\n```"),
    ("standard_math", "De $W^Q$ y `W^K` sale\n\n$$\nW^O\n$$"),
    ("standard_math", "Cuesta `$5` y `\\softmax`; con $x$ y $\\frac{a}{b}$.\n\n$$\na = b\n$$\n\nY ya."),
    ("standard_math", "<details><summary>Respuesta</summary>\n\n$$a = b \\tag{7}$$\n\n</details>"),
    ("notes_and_html", "Si `x < 3` y `y > 2`, o $a < b$ y $c > d$; H<sub>2</sub>O; `<div>` en código."),
    ("links_resolve", "[x](https://a.org/b(c)) y `[a](b)` y [ejercicios](../exercises/02_atencion.ipynb#a)"),
    ("finished", "Todo está hecho, todos lo saben y nada queda pendiente."),
]


@pytest.mark.parametrize(("rule", "text"), FINE)
def test_legitimate_text_is_not_caught(rule, text):
    """Lo que se parece a una falta y no lo es."""
    book = chapter()
    cell_of(book, "dos")["source"] = text
    assert RULES[rule](book) == []


def test_thirty_five_cells_are_not_too_many():
    """Con 35 celdas y el repaso se cumple; los ejercicios no tienen ese límite."""
    full, long_exercise = chapter(), exercise()
    fill("figura", 35)(full)
    fill("check-1", 50)(long_exercise)
    assert RULES["few_cells"](full) == RULES["few_cells"](long_exercise) == []


def test_thinking_may_be_a_paragraph():
    """«Piensa como quien investiga» puede ser un apartado o el comienzo de un párrafo en negrita."""
    book = chapter()
    edit("piensa", "## Piensa como quien investiga\n\n", "**Piensa como quien investiga.** ")(book)
    assert RULES["chapter_shape"](book) == []


def test_before_starting_needs_less():
    """A «Antes de empezar» no se le pide lo que el temario no le pide."""
    cells = [markdown("titulo", "# 00\n\n## Dónde estamos\n\nAquí."), code("preparacion", SETUP)]
    assert RULES["chapter_shape"](notebook(cells, name="00_antes_de_empezar")) == []
    assert RULES["chapter_shape"](notebook(cells[:1], name="00_antes_de_empezar")) != []
