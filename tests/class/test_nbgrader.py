"""El curso de nbgrader que escribe «make class», con nbgrader de verdad: se reparte, se entrega, se corrige y se cobra.

El entorno de nbgrader, `.venv-class`, lo crea el Makefile.
"""

import csv
import json
import os
import random
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.checks.solutions import EXERCISES, load, read

ROOT = Path(__file__).parents[2]
BIN = ROOT / ".venv-class" / "bin"
ASSIGNMENTS = sorted(path.stem for path in EXERCISES.glob("*.ipynb"))
EXERCISE = read()
CLASS = "02_atencion"


def of(assignment):
    """Los ejercicios con número de un cuaderno."""
    return [exercise for exercise in EXERCISE.values() if exercise.notebook == f"{assignment}.ipynb"]


def points(exercise):
    """Lo que vale: su dificultad, como dice la página."""
    return int(re.search(r"Dificultad (\d) de 5", exercise.statement)[1])


def nbgrader(folder, *arguments, check=True):
    """Ejecuta nbgrader en `folder`, sin nada de fuera: el modo estricto tiene que ponerlo el curso."""
    mine = ("MULTICABEZA_STRICT", "MULTICABEZA_BOOK", "JUPYTER_PATH", "VIRTUAL_ENV")
    env = {name: value for name, value in os.environ.items() if name not in mine}
    env |= {"PATH": f"{BIN}{os.pathsep}{env['PATH']}", "JUPYTER_CONFIG_DIR": str(folder / ".jupyter")}
    env |= {"OMP_WAIT_POLICY": "passive", "MPLBACKEND": "agg"}
    done = subprocess.run([BIN / "nbgrader", *arguments], cwd=folder, env=env, capture_output=True, text=True)
    if check and done.returncode:
        pytest.fail(f"nbgrader {' '.join(arguments)}:\n{done.stderr[-3000:]}")
    return done


def new_course(folder, *options):
    """El curso recién escrito, en `folder`."""
    assert (BIN / "nbgrader").exists(), "falta .venv-class: lo crea «make class»"
    command = [sys.executable, ROOT / "book" / "classroom.py", folder, *options]
    done = subprocess.run(command, capture_output=True, text=True)
    assert not done.returncode, done.stderr
    return folder


def handed_out(course, assignment):
    """El cuaderno que se reparte, como JSON."""
    return json.loads((course / "release" / assignment / f"{assignment}.ipynb").read_text("utf-8"))


def named(notebook):
    """Las celdas con papel en nbgrader, por su nombre."""
    cells = notebook["cells"]
    return {c["metadata"]["nbgrader"]["grade_id"]: c for c in cells if "nbgrader" in c["metadata"]}


def answered(notebook, answers):
    """Una copia con esas respuestas: {número de ejercicio: código}."""
    copy = json.loads(json.dumps(notebook))
    cells = named(copy)
    for number, code in answers.items():
        cells[f"respuesta-{number.replace('.', '-')}"]["source"] = code
    return copy


def submit(course, student, assignment, notebook):
    path = course / "submitted" / student / assignment / f"{assignment}.ipynb"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(notebook), "utf-8")


def marks(course, assignment):
    """Las notas del CSV: {estudiante: puntos}."""
    nbgrader(course, "export", "--to", "notas.csv")
    with open(course / "notas.csv", encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["assignment"] == assignment]
    assert {float(row["max_score"]) for row in rows} == {sum(map(points, of(assignment)))}
    return {row["student_id"]: float(row["score"]) for row in rows}


def outputs(course, student, assignment, number):
    """Lo que escribió una celda de comprobación al corregir, errores incluidos."""
    path = course / "autograded" / student / assignment / f"{assignment}.ipynb"
    cell = named(json.loads(path.read_text("utf-8")))[f"check-{number.replace('.', '-')}"]
    return "".join("".join(o.get("text", [])) + o.get("ename", "") + o.get("evalue", "") for o in cell["outputs"])


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Un curso recién escrito, que nadie toca."""
    return new_course(tmp_path_factory.mktemp("escrito") / "clase")


@pytest.fixture
def course(written, tmp_path):
    """Una copia de ese curso."""
    return shutil.copytree(written, tmp_path / "clase")


@pytest.mark.parametrize("assignment", ASSIGNMENTS)
def test_the_page_for_teachers_counts_right(assignment):
    """La tabla de la página dice cuántos ejercicios y cuántos puntos tiene cada tarea, y los minutos de su cuaderno."""
    page = (ROOT / "book" / "profesores.md").read_text("utf-8")
    row = re.search(rf"^\| `{assignment}` \| (\d+) \| (\d+) \| (\d+) \|$", page, re.MULTILINE)
    cells = "\n\n".join(load(EXERCISES / f"{assignment}.ipynb").values())
    minutes = map(int, re.findall(r"^\*Dificultad \d de 5 · (\d+) minutos", cells, re.MULTILINE))
    numbered = of(assignment)
    assert [int(number) for number in row.groups()] == [len(numbered), sum(map(points, numbered)), sum(minutes)]


# Un error por ejercicio: lo que dice la solución y lo que dice quien se equivoca.
WRONG = {
    "2.1": ("dim=-1", "dim=-2"),
    "2.2": (">=", ">"),
    "2.3": ("~mask", "mask"),
    "2.4": ("< lengths", "<= lengths"),
    "2.5": ("x_encoder @ w_v", "x_decoder @ w_v"),
}
LOOP = "def attention_weights(query, key):\n    while True:\n        pass"
NUMBERS = [exercise.id for exercise in of(CLASS)]
RIGHT = {number: EXERCISE[number].solutions[0] for number in NUMBERS}
TOTAL = sum(points(EXERCISE[number]) for number in NUMBERS)


def wrong(number):
    good, bad = WRONG[number]
    assert good in RIGHT[number]
    return RIGHT[number].replace(good, bad)


def mixed(student):
    """Las respuestas de alguien de la clase, al azar entre bien, mal y por escribir, y los puntos que merecen."""
    draw = random.Random(student)
    kinds = {number: draw.choice(["bien", "bien", "mal", "nada"]) for number in NUMBERS}
    answers = {n: RIGHT[n] if kind == "bien" else wrong(n) for n, kind in kinds.items() if kind != "nada"}
    return answers, sum(points(EXERCISE[n]) for n, kind in kinds.items() if kind == "bien")


def with_restored_checks(notebook):
    """Sin responder, y con las comprobaciones cambiadas, vaciadas de puntos, convertidas en texto o borradas."""
    copy = json.loads(json.dumps(notebook))
    cells = named(copy)
    cells["check-2-1"]["source"] = "print('✓ 2.1 · Correcto.')"
    cells["check-2-2"]["source"] = "mc.check('2.1', torch.softmax) and None"
    cells["check-2-2"]["metadata"]["nbgrader"]["points"] = 100
    cells["check-2-3"]["metadata"]["nbgrader"]["locked"] = False
    cells["check-2-3"]["source"] = ""
    copy["cells"].remove(cells["check-2-4"])
    cells["enunciado-2-5"]["source"] = ""
    return copy


MISCHIEF = {  # lo que se pone en la primera respuesta, y los puntos que merece si lo demás está bien
    "bucle": (LOOP, TOTAL - points(EXERCISE["2.1"])),
    "bucle.fuera": (f"while True:\n    pass\n{RIGHT['2.1']}", TOTAL - points(EXERCISE["2.1"])),
    "sintaxis": ("def attention_weights(query, key:\n    return 1", TOTAL - points(EXERCISE["2.1"])),
    "apaga": ("import os\nos._exit(0)", 0),
}
DISARM = """\
import os
import multicabeza.checks
os.environ["MULTICABEZA_STRICT"] = "0"
mc.check = multicabeza.checks.check = lambda id, answer: print(f"✓ {id} · Correcto.")
multicabeza.checks.CHECKS.clear()
attention_weights = causal_mask = torch.softmax"""


def test_a_class_of_thirty_and_some_odd_notebooks(course):
    """Treinta con respuestas variadas y unos cuantos raros: reparto, recogida de un zip, corrección y notas.

    Un bucle sin fin, un error de sintaxis, un kernel apagado o unas comprobaciones manipuladas no dan puntos, y no
    tocan los de nadie más. Va todo en una prueba porque se corrige de una vez.
    """
    nbgrader(course, "generate_assignment", CLASS)
    notebook = handed_out(course, CLASS)
    delivered, expected = {}, {}
    for student in (f"estudiante{i:02}" for i in range(1, 31)):
        answers, expected[student] = mixed(student)
        delivered[student] = answered(notebook, answers)
    assert len(set(expected.values())) > 5
    for student, (first, mark) in MISCHIEF.items():
        delivered[student], expected[student] = answered(notebook, RIGHT | {"2.1": first}), mark
    delivered["restaurada"], expected["restaurada"] = with_restored_checks(notebook), 0
    delivered["desarmada"], expected["desarmada"] = answered(notebook, {"2.1": DISARM}), 0
    archive = course / "downloaded" / CLASS / "archive" / "entregas.zip"
    archive.parent.mkdir(parents=True)
    with zipfile.ZipFile(archive, "w") as file:
        for student, book in delivered.items():
            file.writestr(f"{student}-{CLASS}.ipynb", json.dumps(book))
    nbgrader(course, "zip_collect", CLASS)
    assert sorted(path.name for path in (course / "submitted").iterdir()) == sorted(expected)
    done = nbgrader(course, "autograde", CLASS, "--Execute.timeout=60", check=False)
    assert marks(course, CLASS) == expected, done.stderr[-3000:]
    assert "✗ 2.1 · " in outputs(course, "bucle", CLASS, "2.1")
    for number in NUMBERS:
        assert f"⏳ {number} · " in outputs(course, "restaurada", CLASS, number)


def test_through_the_exchange_of_a_jupyterhub(course, tmp_path):
    """Con la carpeta de intercambio: publicar, bajar, entregar, recoger y corregir."""
    home, exchange = tmp_path / "casa", tmp_path / "intercambio"
    home.mkdir()
    exchange.mkdir()
    exchange.chmod(0o777)
    where = f"--Exchange.root={exchange}"
    theirs = (where, "--CourseDirectory.course_id=multicabeza")
    assignment = ASSIGNMENTS[0]
    nbgrader(course, "generate_assignment", assignment)
    nbgrader(course, "release_assignment", assignment, where)
    nbgrader(home, "fetch_assignment", assignment, *theirs)
    path = home / assignment / f"{assignment}.ipynb"
    notebook = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps(answered(notebook, {e.id: e.solutions[0] for e in of(assignment)[:1]})), "utf-8")
    nbgrader(home, "submit", assignment, *theirs)
    nbgrader(course, "collect", assignment, where)
    nbgrader(course, "autograde", assignment)
    assert list(marks(course, assignment).values()) == [points(of(assignment)[0])]


def test_writing_the_course_again_keeps_what_is_the_teachers(tmp_path):
    """La configuración y las entregas se respetan; los cuadernos se rehacen; con dirección, hay enlaces."""
    course = new_course(tmp_path / "clase")
    config = course / "nbgrader_config.py"
    config.write_text(f"{config.read_text('utf-8')}\n# mío\n", "utf-8")
    submit(course, "ana", CLASS, {"cells": []})
    shutil.rmtree(course / "source" / CLASS)
    new_course(course, "--book", "https://ejemplo.org/libro/")
    assert config.read_text("utf-8").endswith("# mío\n")
    assert (course / "submitted" / "ana" / CLASS / f"{CLASS}.ipynb").exists()
    source = (course / "source" / CLASS / f"{CLASS}.ipynb").read_text("utf-8")
    assert "](https://ejemplo.org/libro/notebooks/02_atencion.html)" in source
    assert len(list(course.glob("multicabeza-*.whl"))) == 1


@pytest.mark.parametrize("assignment", ASSIGNMENTS)
def test_all_solutions_get_full_marks_and_an_empty_notebook_zero(assignment, course):
    """Lo repartido no lleva pistas ni soluciones; resuelto vale todo, vacío vale cero, y nada se cae."""
    nbgrader(course, "generate_assignment", assignment)
    notebook = handed_out(course, assignment)
    everything = json.dumps(notebook, ensure_ascii=False)
    assert not re.search(r"<details|SOLUTION|HIDDEN|\]\(\.\./", everything)
    original, cells = load(EXERCISES / f"{assignment}.ipynb"), named(notebook)
    for exercise in of(assignment):
        key = exercise.id.replace(".", "-")
        answer, check = cells[f"respuesta-{key}"], cells[f"check-{key}"]
        assert "".join(answer["source"]) == original[f"respuesta-{key}"]
        assert "".join(check["source"]) == original[f"check-{key}"]
        assert check["metadata"]["nbgrader"]["points"] == points(exercise) > 0
        assert check["metadata"]["nbgrader"]["locked"]
        last_lines = exercise.solutions[0].rstrip().removeprefix(exercise.stub.partition("raise NotImpl")[0])
        assert json.dumps(last_lines, ensure_ascii=False)[1:-1] not in everything
    submit(course, "vacia", assignment, notebook)
    submit(course, "completa", assignment, answered(notebook, {e.id: e.solutions[0] for e in of(assignment)}))
    nbgrader(course, "autograde", assignment)
    assert marks(course, assignment) == {"vacia": 0, "completa": sum(map(points, of(assignment)))}
    for exercise in of(assignment):
        assert f"⏳ {exercise.id} · " in outputs(course, "vacia", assignment, exercise.id)
        assert outputs(course, "completa", assignment, exercise.id).count(f"✓ {exercise.id} · ") == 2
