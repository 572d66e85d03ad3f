"""El README: su imagen, sus enlaces y lo que dice del libro son de verdad."""

import json
import re
import runpy
import sys

import pytest
import yaml
from PIL import Image

from tests.unit.minilibro import REPO

sys.path.insert(0, str(REPO / "book" / "_ext"))

from libro import verified

README = (REPO / "README.md").read_text("utf-8")
LINKS = re.findall(r"\]\(([^)\s]+)\)", README)


def test_length():
    """Cabe en una lectura."""
    assert len(README.splitlines()) <= 150


def test_picture():
    """Abre con una imagen que existe, pesa poco, se dibuja con el programa de hoy y dice lo que se ve."""
    alt, path = re.search(r"^!\[([^\]]+)\]\(([^)]+)\)$", README, re.MULTILINE).groups()
    drawings = runpy.run_path(str(REPO / "book" / "imagenes.py"))
    target = REPO / path
    assert target == drawings["PRESENTATION"]
    image = Image.open(target)
    assert (image.format, image.size) == ("PNG", drawings["PRESENTATION_SIZE"])
    assert target.stat().st_size <= 200_000
    document = drawings["presentation"](dict.fromkeys(drawings["SHOTS"], ""))
    assert image.text[drawings["MARK"]] == drawings["fingerprint"](document), "rehazla: python book/imagenes.py CARPETA"
    assert 60 < len(alt) < 500
    assert not alt.startswith(("Imagen", "Captura"))
    assert README.index("![") < README.index("\n## ")


@pytest.mark.parametrize("link", sorted({link for link in LINKS if "://" not in link}))
def test_links_inside(link: str):
    """Los enlaces a archivos del repositorio llevan a archivos que existen."""
    assert (REPO / link.partition("#")[0]).is_file()


def test_links_outside():
    """Los enlaces de fuera van por https, y ninguno se repite."""
    outside = [link for link in LINKS if "://" in link]
    assert all(link.startswith("https://") for link in outside)
    assert len(set(outside)) == len(outside) >= 8


def test_titles_of_the_chapters():
    """Los capítulos que nombra son los del libro, con su título."""
    for path in sorted((REPO / "notebooks").glob("*.ipynb")):
        cells = json.loads(path.read_text("utf-8"))["cells"]
        title = "".join(cells[0]["source"]).splitlines()[0].removeprefix("# ")
        assert f"**{title}**" in README.replace("\n", " "), title


def test_claims_it_announces():
    """«Más de setenta afirmaciones»; una de cada cuatro no se reproduce, y otra de cada cuatro, en parte."""
    chapters = verified.load(REPO / "book" / "afirmaciones.yml")
    verdicts = [claim.veredicto for chapter in chapters for claim in chapter.afirmaciones]
    assert "Más de setenta afirmaciones" in README
    assert len(verdicts) > 70
    assert 0.2 < verdicts.count("no se reproduce") / len(verdicts) < 0.32
    assert 0.2 < verdicts.count("en parte") / len(verdicts) < 0.32


def test_paths_agree_with_the_book():
    """Los tres caminos del README pasan por los mismos cuadernos que los de «Cómo usar este libro»."""
    guide = (REPO / "book" / "como_usarlo.md").read_text("utf-8")
    guide = re.split(r"^## ", guide, flags=re.MULTILINE)
    guide = next(part for part in guide if part.startswith("Tres caminos")).split("\n### ")[1:]
    items = re.findall(r"^- \*\*(.+?):\*\*(.*?)(?=^- |\n\n)", README, re.MULTILINE | re.DOTALL)
    assert len(guide) == len(items) == 3
    for section, (name, text) in zip(guide, items, strict=True):
        assert section.startswith(name)
        there, here = (set(re.findall(r"\d\d_\w+(?=\.ipynb)", part)) for part in (section, text))
        assert here <= there
        assert here >= there - {"02_atencion"}, name


def test_commands_exist():
    """Cada orden de make que nombra está en el Makefile."""
    makefile = (REPO / "Makefile").read_text("utf-8")
    for name in set(re.findall(r"\bmake ([a-z]+(?:-[a-z]+)?)", README)):
        assert re.search(rf"^{name}:", makefile, re.MULTILINE), name


def test_citation_lists_its_sources():
    """CITATION.cff y los avisos nombran las mismas licencias que LICENSE."""
    citation = yaml.safe_load((REPO / "CITATION.cff").read_text("utf-8"))
    license_text = (REPO / "LICENSE").read_text("utf-8")
    assert "MIT" in license_text
    assert "CC BY 4.0" in license_text
    assert citation["authors"][0]["name"] in license_text
    book = citation["preferred-citation"]
    assert (book["type"], book["title"], book["authors"]) == ("book", citation["title"], citation["authors"])
