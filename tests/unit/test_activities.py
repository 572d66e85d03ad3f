"""Las actividades: los fallos de un archivo con su línea, el HTML escapado, y las del libro, todas válidas."""

import json
import re
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

from multicabeza import activities, views

ROOT = Path(__file__).resolve().parents[2]
ALL = activities.chapters()

GOOD = {
    "choice": "options: [{text: a, why: b}, {text: c, why: d}]\n  answer: 1",
    "truefalse": "answer: true\n  why: porque sí",
    "numeric": "answer: 0.5\n  tolerance: 0.1\n  why: porque sí\n  mistakes: [{value: 2, why: no}]",
    "ordering": "steps: [a, b, c, d]\n  loose: [[1, 2]]\n  why: porque sí",
    "sorting": "categories: [x, z]\n  cards: [{text: a, category: 0}, {text: b, category: 1}, {text: c, category: 1}]",
    "matching": "pairs: [{left: a, right: b}, {left: c, right: d}, {left: e, right: f}]\n  extra: [g]",
    "flashcards": "cards: [{front: a, back: b}, {front: c, back: d}]",
    "open": "model: Así.\n  rubric: [una, otra]",
}
GOOD = {kind: text.replace("why: no}", 'why: "no"}') for kind, text in GOOD.items()}  # «no» a secas sería `false`


def page(kind, body=None, id="uno"):
    """Un archivo con una pregunta; lo suyo empieza en la línea 5."""
    return f"- id: {id}\n  kind: {kind}\n  title: Título\n  prompt: Pregunta\n  {body or GOOD[kind]}\n"


def faults(text):
    with pytest.raises(activities.ActivityError) as error:
        activities.parse(text, "activities/99.yml")
    return str(error.value).splitlines()


@pytest.mark.parametrize("kind", activities.LABELS)
def test_each_kind_is_read_and_written(kind):
    (item,) = activities.parse(page(kind), "99.yml")
    assert item.kind == kind
    html = activities.item_html("99", item, 1, "bloque")
    assert f'data-kind="{kind}"' in html
    assert 'data-id="99-uno"' in html
    assert html.count("<details") == (2 if kind == "flashcards" else 1)


@pytest.mark.parametrize(
    ("kind", "old", "new", "line", "said"),
    [
        ("choice", "kind: choice", "kind: elige", 2, "kind: se esperaba uno de «flashcards», «ordering»"),
        ("choice", "kind: choice", "kind: [choice]", 2, "kind: se esperaba uno de"),
        ("choice", "  kind: choice\n", "", 1, "falta «kind»"),
        ("choice", "answer: 1", "answer: 2", 6, "answer: se esperaba una posición de 0 a 1; hay un número entero, '2'"),
        ("choice", "answer: 1", "answer: -1", 6, "posición de 0 a 1"),
        ("choice", "answer: 1", "answer: c", 6, "posición de 0 a 1; hay un texto, 'c'"),
        ("choice", "answer: 1", "answer: true", 6, "posición de 0 a 1"),
        ("choice", "  answer: 1\n", "", 1, "falta «answer»"),
        ("choice", "answer: 1", "answer: 1\n  answer: 0", 7, "«answer» está dos veces"),
        ("choice", "answer: 1", "answer: 1\n  hint: x", 7, "«hint» sobra; se esperaba"),
        ("choice", "{text: c, why: d}", "{text: a, why: d}", 5, "«a» está repetido"),
        ("choice", "{text: c, why: d}", "{text: c}", 5, "options, el 1: falta «why»"),
        ("choice", "[{text: a, why: b}, {text: c, why: d}]", "[{text: a, why: b}]", 5, "de 2 a 6 elementos; hay 1"),
        ("choice", "[{text: a, why: b}, {text: c, why: d}]", "una", 5, "se esperaba una lista; hay un texto"),
        ("choice", "text: c", "text: no", 5, "se esperaba un texto; hay `true` o `false`, 'no'. Ponlo entre comillas."),
        ("choice", "prompt: Pregunta", "prompt: ''", 4, "prompt: está vacío"),
        ("choice", "prompt: Pregunta", "prompt: 3", 4, "prompt: se esperaba un texto"),
        ("choice", "id: uno", "id: Uno dos", 1, "id: se esperaban minúsculas"),
        ("choice", "title: Título", "title: " + "x" * 61, 3, "60 letras como mucho; hay 61"),
        ("truefalse", "answer: true", "answer: verdadero", 5, "answer: se esperaba `true` o `false`; hay un texto"),
        ("numeric", "answer: 0.5", "answer: 0,5", 5, "un número, con punto decimal; hay un texto, '0,5'"),
        ("numeric", "tolerance: 0.1", "tolerance: -1", 6, "número positivo"),
        ("numeric", "value: 2", "value: 0.55", 8, "se daría por bueno"),
        ("ordering", "[[1, 2]]", "[[1, 3]]", 6, "loose: se esperaban pasos seguidos, como [4, 5]; hay [1, 3]"),
        ("ordering", "[[1, 2]]", "[[3, 4]]", 6, "posición de 0 a 3"),
        ("ordering", "[[1, 2]]", "[[1, 2], [2, 3]]", 6, "ya está en otro grupo"),
        ("ordering", "[a, b, c, d]", "[a, b, a, d]", 5, "«a» está repetido"),
        ("sorting", "category: 1}]", "category: 2}]", 6, "category: se esperaba una posición de 0 a 1"),
        ("sorting", "categories: [x, z]", "categories: [x, z, w]", 5, "ninguna tarjeta va en «w»"),
        ("matching", "right: d", "right: b", 5, "«b» está repetido"),
        ("matching", "extra: [g]", "extra: [b]", 6, "«b» está repetido"),
        ("flashcards", "{front: c, back: d}", "{front: a, back: d}", 5, "«a» está repetido"),
        ("open", "[una, otra]", "[una]", 6, "rubric: se esperaban de 2 a 8 elementos; hay 1"),
        ("open", "  model: Así.\n", "", 1, "falta «model»"),
    ],
)
def test_a_fault_says_file_line_and_what_was_expected(kind, old, new, line, said):
    text = page(kind)
    assert old in text
    (fault,) = faults(text.replace(old, new, 1) if old != "category: 1}]" else text.replace(old, new))
    assert fault.startswith(f"activities/99.yml, línea {line}: ")
    assert said in fault


def test_repeated_id_says_both_lines():
    text = page("truefalse") + page("open")
    assert faults(text) == ["activities/99.yml, línea 7: el id «uno» ya es el de la pregunta de la línea 1."]


def test_every_fault_comes_out_in_order():
    text = page("truefalse", "answer: quizá\n  why: x") + page("choice", id="dos").replace("answer: 1", "answer: 8")
    assert [re.search(r"línea (\d+)", fault)[1] for fault in faults(text)] == ["5", "12"]


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("", 1, "está vacío"),
        ("id: uno", 1, "se esperaba una lista"),
        ("- solo texto", 1, "se esperaban los campos"),
        ("- id: [uno\n  kind: choice", 2, "no es YAML válido"),
        ("- id: uno\n  kind: 'choice\n", 3, "no es YAML válido"),
    ],
)
def test_not_a_list_of_questions(text, line, said):
    fault = faults(text)[0]
    assert fault.startswith(f"activities/99.yml, línea {line}: ")
    assert said in fault


def test_nothing_in_the_file_is_executed():
    (fault,) = faults(page("open").replace("Así.", "!!python/object/apply:os.getcwd []"))
    assert "se esperaba un texto" in fault


def test_text_is_escaped_and_only_its_own_marks_are_interpreted():
    written = activities.markup('<b>`a<b` **sí** *no* 2*3*4 W^O W_i^Q "x" & `*`')
    assert written == (
        "&lt;b&gt;<code>a&lt;b</code> <strong>sí</strong> <em>no</em> 2*3*4 W<sup>O</sup> W<sub>i</sub><sup>Q</sup> "
        "&quot;x&quot; &amp; <code>*</code>"
    )


def test_shuffled_things_are_out_of_order_and_always_the_same():
    for size in range(2, 12):
        order = activities._shuffled(size, "semilla")
        assert sorted(order) == list(range(size)) != order
        assert order == activities._shuffled(size, "semilla")


def test_loose_order_gives_the_same_rank():
    (item,) = activities.parse(page("ordering"), "99.yml")
    assert item.data["rank"] == [0, 1, 1, 3]


def test_correcting_an_explanation_keeps_the_version():
    first, same, other = (
        activities._version(activities.parse(text, "99.yml")[0])
        for text in (
            page("choice"),
            page("choice").replace("why: b", "why: z"),
            page("choice").replace("text: a", "text: z"),
        )
    )
    assert first == same != other


# --- Las del libro ---


@pytest.mark.parametrize("chapter", ALL)
def test_those_of_the_book_are_valid(chapter):
    items = activities.load(chapter)
    texts = activities.activity_html(chapter, "x")
    assert not re.search(r"\b(TODO|FIXME)\b|[!¡]|\bsólo\b|\d\.\d\d", re.sub(r"<[^>]*>", " ", texts)), (
        "coma decimal y tono"
    )
    for item in items:
        if item.kind == "choice":
            assert len(item.data["options"]) >= 3


@pytest.mark.parametrize("notebook", sorted(path.stem for path in ROOT.glob("notebooks/*.ipynb")))
def test_each_chapter_has_enough_and_varied_ones(notebook):
    items = activities.load(notebook[:2])
    assert len(items) >= 6
    assert len({item.kind for item in items}) >= 4


def test_the_book_repeats_no_id_and_has_every_kind():
    found = [(chapter, item) for chapter in ALL for item in activities.load(chapter)]
    ids = [f"{chapter}-{item.id}" for chapter, item in found]
    assert len(ids) == len(set(ids))
    assert {item.kind for _, item in found} == set(activities.LABELS)


def test_answers_are_not_always_in_the_same_place():
    items = list(chain.from_iterable(map(activities.load, ALL)))
    choices = [item.data["answer"] for item in items if item.kind == "choice"]
    assert all(choices.count(place) < 0.7 * len(choices) for place in range(6))
    assert {item.data["answer"] for item in items if item.kind == "truefalse"} == {True, False}


def test_layer_flow_accepts_the_mask_before_or_after_dividing():
    flow = next(item for item in activities.load("04") if item.kind == "ordering").data
    scale, mask, softmax = (
        next(i for i, step in enumerate(flow["steps"]) if word in step) for word in ("√d_k", "máscara", "Softmax")
    )
    assert flow["rank"][scale] == flow["rank"][mask] < flow["rank"][softmax]


# --- Las llamadas ---


@pytest.fixture
def shown(monkeypatch):
    out = []
    monkeypatch.setattr(views, "display", lambda item: out.append(item.data))
    return out


def test_carries_its_script_only_outside_the_book(shown, monkeypatch):
    monkeypatch.setenv("MULTICABEZA_BOOK", "1")
    assert views.activity("04") is None
    monkeypatch.setenv("MULTICABEZA_BOOK", "0")
    views.activity("04")
    inside, outside = shown
    assert "<script" not in inside
    assert "<style" not in inside
    assert (views.WEB / "activity.js").read_text("utf8") in outside
    assert (views.WEB / "activity.css").read_text("utf8") in outside


@pytest.mark.parametrize("chapter", ["4", 4, 4.0, "004", "04.yml", "../04", " 04"])
def test_misspelt_chapter_is_recognised(shown, chapter):
    with pytest.raises(ValueError, match=r"No hay actividades .* ¿Querías decir «04»\? .*Las que hay: «00»"):
        views.activity(chapter)
    assert not shown


@pytest.mark.parametrize("chapter", ["99", None, True, [], {}, "", "atención", np.ones(3), "4.5"])
def test_chapter_without_activities_is_explained(shown, chapter):
    with pytest.raises(ValueError, match=r"No hay actividades del capítulo [^¿]*\. Las que hay: «00»"):
        views.activity(chapter)
    assert not shown


def test_scripts_are_light():
    size = {path.name: path.stat().st_size for path in views.WEB.glob("*") if path.stem in ("activity", "progress")}
    assert size["activity.js"] + size["activity.css"] <= 40 * 1024
    assert size["activity.js"] + size["progress.js"] <= 40 * 1024


def test_my_progress_carries_the_list_without_breaking_the_page():
    written = activities.progress_html([{"chapter": "99", "title": "</script><b>", "href": "x", "items": []}])
    data = re.search(r'<script type="application/json">(.*?)</script>', written, re.S)[1]
    assert json.loads(data)[0]["title"] == "</script><b>"
    assert all(set(one) == {"chapter", "items"} for one in activities.catalogue())
