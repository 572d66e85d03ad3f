"""Los registros de results/: se leen, se rehacen y dicen cuándo el código ya no es el que los hizo."""

import json
import math
import os
from dataclasses import replace
from pathlib import Path

import pytest

from multicabeza.toys import records
from multicabeza.toys.records import Record, code_hash, essential_code, is_current, load_record, write_record

ROOT = Path(__file__).resolve().parents[2]


def example(**changes) -> Record:
    base = Record("ejemplo", "python -m …", {"torch": "2"}, [1, 2], ["a.py"], "0" * 64, {"media": [0.25, 0.5]})
    return replace(base, **changes)


# --- Los registros del repositorio -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", records.RECIPES)
def test_record_is_current(name):
    """Cada receta tiene su registro, y lo hizo el código de hoy; si no: python -m multicabeza.toys.records NOMBRE."""
    record = load_record(name)
    assert is_current(record), f"El código de «{name}» cambió. Rehazlo: {record.command}"
    assert record.code == list(records.RECIPES[name].code)
    assert set(record.versions) == {"python", "torch"}


def test_every_file_has_a_recipe():
    """No queda en results/ un registro que nadie sepa rehacer."""
    files = {path.stem for path in (ROOT / "results").glob("*.json") if "seeds" in path.read_text(encoding="utf-8")}
    assert files <= set(records.RECIPES)


def assert_close(new, old, where=""):
    if isinstance(old, dict):
        assert new.keys() == old.keys(), where
        for key in old:
            assert_close(new[key], old[key], f"{where}/{key}")
    elif isinstance(old, list):
        assert len(new) == len(old), where
        for i, (a, b) in enumerate(zip(new, old, strict=True)):
            assert_close(a, b, f"{where}[{i}]")
    else:
        assert math.isclose(new, old, rel_tol=1e-2, abs_tol=3e-3), f"{where}: {new} ≠ {old}"


@pytest.mark.slow
def test_small_record_can_be_remade():
    """Rehacer el registro más corto da los mismos números; y la comparación nota un cambio pequeño."""
    old, new = load_record("02_saturation"), records.make_record("02_saturation")
    assert_close(new.values, old.values)
    assert new.code_hash == old.code_hash
    changed = json.loads(json.dumps(old.values))
    changed["raw"]["512"]["score_std"][0] *= 1.05
    with pytest.raises(AssertionError):
        assert_close(new.values, changed)


def test_files_of_a_record_are_written_whole(tmp_path, monkeypatch):
    """Los puntos de control se escriben junto al registro, en su carpeta, sin dejar borradores."""
    recipe = replace(records.RECIPES["02_saturation"], files="inventado:archivos")
    monkeypatch.setitem(records.RECIPES, "con_archivos", recipe)
    monkeypatch.setattr(records, "_call", lambda reference, seeds: {"carpeta/a.bin": bytes(seeds), "b.bin": b"\x00"})
    paths = records.write_files("con_archivos", tmp_path)
    assert [path.relative_to(tmp_path).as_posix() for path in paths] == ["carpeta/a.bin", "b.bin"]
    assert (tmp_path / "carpeta/a.bin").read_bytes() == bytes(recipe.seeds)
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == ["a.bin", "b.bin"]
    assert records.write_files("02_saturation", tmp_path) == []


# --- La huella del código --------------------------------------------------------------------------------------------

SOURCE = '''"""Módulo."""

import math  # un comentario


def area(radius):
    """Área.

    En varias líneas.
    """
    text = "# esto no es un comentario"
    return math.pi * radius**2, text  # otro
'''


def test_essential_code_drops_words_and_keeps_code():
    code = essential_code(SOURCE)
    assert "Área" not in code
    assert "otro" not in code
    assert '"# esto no es un comentario"' in code
    assert code == essential_code(
        SOURCE.replace("Área", "Superficie").replace("# otro", "# y otro").replace("\n\n", "\n")
    )
    assert code != essential_code(SOURCE.replace("**2", "**3"))
    assert code != essential_code(SOURCE.replace("no es", "sí es"))


def test_hash_follows_one_definition(tmp_path, monkeypatch):
    """«archivo:nombre» solo nota los cambios de esa definición; el archivo entero, los de todas."""
    monkeypatch.setattr(records, "PACKAGE", tmp_path)
    file = tmp_path / "codigo.py"
    file.write_text("def one():\n    return 1\n\n\ndef two():\n    return 2\n", encoding="utf-8")
    whole, one = code_hash(["codigo.py"]), code_hash(["codigo.py:one"])
    file.write_text(file.read_text(encoding="utf-8").replace("return 2", "return 3"), encoding="utf-8")
    assert code_hash(["codigo.py:one"]) == one
    assert code_hash(["codigo.py"]) != whole
    file.write_text(file.read_text(encoding="utf-8").replace("return 1", "return 0"), encoding="utf-8")
    assert code_hash(["codigo.py:one"]) != one
    with pytest.raises(ValueError, match="ya no define «three»"):
        code_hash(["codigo.py:three"])


def test_hash_follows_one_constant(tmp_path, monkeypatch):
    """También una constante: los textos de una medida son parte de lo que la hizo."""
    monkeypatch.setattr(records, "PACKAGE", tmp_path)
    file = tmp_path / "codigo.py"
    file.write_text('TEXTS = (\n    "uno",\n    "dos",\n)\nOTHER = 1\n', encoding="utf-8")
    texts = code_hash(["codigo.py:TEXTS"])
    file.write_text(file.read_text(encoding="utf-8").replace("OTHER = 1", "OTHER = 2"), encoding="utf-8")
    assert code_hash(["codigo.py:TEXTS"]) == texts
    file.write_text(file.read_text(encoding="utf-8").replace("dos", "tres"), encoding="utf-8")
    assert code_hash(["codigo.py:TEXTS"]) != texts


def test_stale_record_is_noticed():
    record = load_record("02_saturation")
    assert is_current(record)
    assert not is_current(replace(record, code_hash="0" * 64))
    assert not is_current(replace(record, seeds=[1]))
    assert not is_current(replace(record, id="otro"))


# --- Leer ------------------------------------------------------------------------------------------------------------


def test_round_trip(tmp_path):
    path = write_record(example(), tmp_path)
    assert load_record("ejemplo", [tmp_path]) == example()
    assert "[ 0.25, 0.5 ]" in path.read_text(encoding="utf-8")  # las listas de números, en una línea


def test_interval_follows_the_path():
    record = example(values={"raw": {"512": {"norm": [1, 2, 3, 4, 5]}}})
    assert record.interval("raw", 512, "norm") == pytest.approx((3, 1.0368, 4.9632), abs=1e-3)
    with pytest.raises(KeyError, match="hay 512"):
        record.interval("raw", 64, "norm")
    with pytest.raises(KeyError, match="una lista de medidas"):
        record.interval("raw", 512, "norm", "media")


def test_installed_package_goes_first(tmp_path, monkeypatch):
    """Dentro del paquete instalado los registros están en multicabeza/results; en un clon, en results/."""
    package = tmp_path / "lib" / "multicabeza"
    (package / "results").mkdir(parents=True)
    monkeypatch.setattr(records, "PACKAGE", package)
    write_record(example(), package / "results")
    assert load_record("ejemplo") == example()


def test_missing_record_says_what_there_is(tmp_path):
    write_record(example(), tmp_path)
    with pytest.raises(FileNotFoundError, match=r"«otro».*Los que hay: ejemplo.*records otro"):
        load_record("otro", [tmp_path])
    with pytest.raises(FileNotFoundError, match="ninguno"):
        load_record("otro", [tmp_path / "nada"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"id": "ejemplo", "valu', "dañado"),
        ("", "dañado"),
        ('{"id": "ejemplo"}', r"le falta command, versions"),
        ("[]", "incompleto"),
    ],
)
def test_broken_record_says_how_to_remake_it(tmp_path, text, message):
    (tmp_path / "ejemplo.json").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=rf"{message}.*Rehazlo con: python -m multicabeza.toys.records ejemplo"):
        load_record("ejemplo", [tmp_path])


def test_renamed_record_is_refused(tmp_path):
    write_record(example(), tmp_path).rename(tmp_path / "otro.json")
    with pytest.raises(ValueError, match="lo renombraron"):
        load_record("otro", [tmp_path])


# --- Escribir --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_interrupted_write_keeps_the_old_record(tmp_path, monkeypatch, step):
    """Una interrupción a medias deja el registro anterior intacto y ningún resto."""
    write_record(example(), tmp_path)

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, step, interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_record(example(values={"media": [9.0]}), tmp_path)
    assert load_record("ejemplo", [tmp_path]) == example()
    assert [path.name for path in tmp_path.iterdir()] == ["ejemplo.json"]


def test_nan_is_refused_before_touching_the_file(tmp_path):
    write_record(example(), tmp_path)
    with pytest.raises(ValueError, match="JSON"):
        write_record(example(values={"media": [float("nan")]}), tmp_path)
    assert load_record("ejemplo", [tmp_path]) == example()


def test_unknown_names_stop_before_working():
    with pytest.raises(SystemExit, match="No sé hacer nada"):
        records.main(["nada"])
    with pytest.raises(ValueError, match="No sé hacer el registro «nada»"):
        records.make_record("nada")
