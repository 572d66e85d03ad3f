"""La dirección pública: se escribe una vez, y de ella salen botones, celdas de preparación y enlaces."""

import json
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.unit.minilibro import REPO, MiniBook, notebook

sys.path.insert(0, str(REPO / "book" / "_ext"))

from libro import address, publishing

OWN = "https://github.com/DUENA/libro"
NOTEBOOKS = sorted(path for folder in address.FOLDERS for path in (REPO / folder).glob("*.ipynb"))


@pytest.fixture(scope="module")
def unpublished(tmp_path_factory) -> Path:
    """Lo que la orden lee y escribe, sin dirección: las pruebas valen igual cuando el libro ya la tiene."""
    root = tmp_path_factory.mktemp("sin_direccion")
    (root / "book").mkdir()
    shutil.copytree(REPO / "book" / "_ext", root / "book" / "_ext", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("_config.yml", "book/publish.py", "notebooks", "exercises"):
        copy = shutil.copytree if (REPO / name).is_dir() else shutil.copyfile
        copy(REPO / name, root / name)
    address.publish(root, "")
    return root


@pytest.fixture
def project(unpublished, tmp_path) -> Path:
    """Una copia, para cambiarla."""
    return shutil.copytree(unpublished, tmp_path / "libro")


@pytest.fixture
def order(project, capsys) -> Callable[..., tuple[int, str, str]]:
    """La orden, sin arrancar otro Python: código de salida y lo que escribe en cada sitio."""

    def run(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        return address.main(list(arguments), project), *capsys.readouterr()

    return run


def content(project: Path) -> dict[str, bytes]:
    files = [project / "_config.yml", *project.glob("*/*.ipynb")]
    return {path.relative_to(project).as_posix(): path.read_bytes() for path in files}


def links(path: Path) -> list[str]:
    cells = json.loads(path.read_text("utf-8"))["cells"]
    return [link for c in cells if c["cell_type"] == "markdown" for link in address.LINK.findall("".join(c["source"]))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (OWN, OWN),
        (f" {OWN}/ ", OWN),
        (f"{OWN}.git", OWN),
        ("", ""),
        ("https://github.com/a-b/c.d_e-f", "https://github.com/a-b/c.d_e-f"),
    ],
)
def test_address_is_normalized(text, expected):
    """Con barra, con «.git» o con espacios, es la misma."""
    assert address.normalized(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "github.com/DUENA/libro",
        "http://github.com/DUENA/libro",
        "https://github.com/DUENA",
        f"{OWN}/tree/main",
        "https://example.org/DUENA/libro",
        "https://github.com/DUENA/li bro",
        'https://github.com/DUENA/libro"',
        "https://github.com/-x/libro",
        "https://github.com/DUENA/..",
    ],
)
def test_wrong_address_is_refused(project, order, text):
    """Lo que no es un repositorio se rechaza con un mensaje, y nada se escribe."""
    before = content(project)
    code, said, error = order(text)
    assert (code, said) == (2, "")
    assert "https://github.com/DUEÑO/NOMBRE" in error
    assert content(project) == before


@pytest.mark.slow
def test_the_command_of_make(project):
    """`make publish-config` ejecuta este archivo, con la dirección entre comillas."""
    assert '$(BIN)/python book/publish.py "$(REPO)"' in (REPO / "Makefile").read_text("utf-8")
    for text, code in {OWN: 0, "libro": 2}.items():
        command = [sys.executable, "book/publish.py", text]
        done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("repository", "expected"),
    [
        (OWN, "https://duena.github.io/libro/"),
        ("https://github.com/Ana/ana.github.io", "https://ana.github.io/"),
        ("", ""),
    ],
)
def test_site_of_a_repository(repository, expected):
    """El libro sale en GitHub Pages, en su carpeta o en la raíz de quien la tiene."""
    assert address.site(repository) == expected


def test_address_reaches_every_place(project, order):
    """La configuración, todas las celdas de preparación y todos los enlaces entre páginas."""
    code, said, error = order(f"{OWN}/")
    assert code == 0, error
    assert "https://duena.github.io/libro/" in said
    assert yaml.safe_load((project / "_config.yml").read_text("utf-8"))["repository"]["url"] == OWN
    outside = 0
    for path in project.glob("*/*.ipynb"):
        book = json.loads(path.read_text("utf-8"))
        code = ["".join(cell["source"]) for cell in book["cells"] if cell["cell_type"] == "code"]
        assert sum(f'REPO = "{OWN}"' in source for source in code) == 1, path
        assert not [link for link in links(path) if not re.match(r"https?://|#", link)], path
        for link in links(path):
            if link.startswith(address.COLAB):
                target = link.removeprefix(f"{address.COLAB}/github/DUENA/libro/blob/main/").partition("#")[0]
                assert (project / target).is_file(), link
                outside += 1
            elif link.startswith("https://duena.github.io/libro/"):
                target = link.removeprefix("https://duena.github.io/libro/").partition("#")[0]
                assert (REPO / target).with_suffix(".md").is_file(), link
                outside += 1
    assert outside > 50


def test_address_moves_and_goes_away(project, order):
    """Otra dirección sustituye a la primera; repetirla no cambia nada; vacía, todo vuelve byte a byte."""
    before = content(project)
    order(OWN)
    first = content(project)
    assert first != before
    assert "0 archivos" in order(OWN)[1]
    other = "https://github.com/otra-persona/atencion"
    order(other)
    moved = content(project)
    assert not [name for name, text in moved.items() if b"DUENA" in text or b"duena" in text]
    order("")
    assert content(project) == before


def test_notebook_without_setup_stops_everything(project, order):
    """Si un cuaderno no lleva la celda, se dice cuál y no se escribe ninguno."""
    path = project / "notebooks" / "02_atencion.ipynb"
    path.write_text(path.read_text("utf-8").replace('REPO = \\"\\"', "REPO = None"), "utf-8")
    before = content(project)
    code, _, error = order(OWN)
    assert code == 2
    assert "notebooks/02_atencion.ipynb tiene 0 celdas" in error
    assert content(project) == before


def test_check_says_whose_book_it_is(order):
    """`--check` distingue el repositorio de la dirección de una copia suya; sin dirección no es de nadie."""
    assert order("--check", OWN)[0] == 1
    order(OWN)
    assert order("--check", "https://github.com/duena/libro")[0] == 0
    code, said, _ = order("--check", "https://github.com/OTRA/libro")
    assert code == 1
    assert OWN in said


@pytest.mark.parametrize(
    ("link", "public"),
    [
        ("02_atencion.ipynb", f"{address.COLAB}/github/DUENA/libro/blob/main/notebooks/02_atencion.ipynb"),
        ("../exercises/02_a.ipynb#uno", f"{address.COLAB}/github/DUENA/libro/blob/main/exercises/02_a.ipynb#uno"),
        ("../book/notacion.md#formas", "https://duena.github.io/libro/book/notacion.html#formas"),
    ],
)
def test_link_goes_and_returns(link, public):
    """Un enlace relativo tiene su dirección pública, y de ella se vuelve al mismo."""
    assert address.absolute(link, "notebooks", OWN) == public
    assert address.relative(public, "notebooks", OWN) == link


@pytest.mark.parametrize(
    "link", ["https://arxiv.org/abs/1706.03762", "#resumen", "mailto:a@b.c", "../README.md", "/a.md"]
)
def test_other_links_stay(link):
    """Lo de fuera, las anclas y lo que no es del libro quedan como están, a la ida y a la vuelta."""
    assert address.absolute(link, "notebooks", OWN) == link
    assert address.relative(link, "notebooks", OWN) == link


def test_today_nothing_leads_to_an_address_nobody_owns(project, order):
    """El repositorio dice la misma dirección en todas partes; sin ella, ningún cuaderno enlaza a Colab."""
    published = {name: (REPO / name).read_bytes() for name in content(project)}
    mine, _ = address.current((REPO / "_config.yml").read_text("utf-8"))
    for path in NOTEBOOKS:
        text = path.read_text("utf-8")
        assert re.findall(r'REPO = \\"([^"\\]*)\\"', text) == [mine], path
        if not mine:
            assert address.COLAB not in text, path
    order(mine)
    assert content(project) == published


@pytest.mark.slow
def test_published_links_are_internal_in_the_book(tmp_path):
    """En el libro construido, los enlaces públicos de un cuaderno vuelven a sus páginas; en el descargado, no."""
    book = MiniBook(tmp_path / "libro")
    setup = ("code", 'REPO = ""\n1 + 1')
    text = "# Uno\n\n[A](02_atencion.ipynb), [b](../exercises/02_atencion.ipynb), [c](../book/afirmaciones.md)."
    for name, cells in {
        "notebooks/01_vectores": [text, setup],
        "notebooks/02_atencion": ["# Dos\n\n[Uno](01_vectores.ipynb)", setup],
        "exercises/02_atencion": ["# Ejercicios\n\n[Dos](../notebooks/02_atencion.ipynb)", setup],
    }.items():
        book.write(f"{name}.ipynb", notebook(cells))
    book.write("book/afirmaciones.md", '# Afirmaciones\n\nNada.\n\n<div class="libro-descargas"></div>\n')
    changed = address.publish(book.root, OWN)
    assert len(changed) == 4
    done = book.build()
    assert done.returncode == 0, done.stdout + done.stderr
    page = book.page("notebooks/01_vectores")
    article = page[page.index("<article") : page.index("</article>")]
    for target in ("02_atencion.html", "../exercises/02_atencion.html", "../book/afirmaciones.html"):
        assert f'href="{target}"' in article
    assert "github.io" not in article
    assert '<link rel="canonical" href="https://duena.github.io/libro/notebooks/01_vectores.html"' in page
    claims = book.page("book/afirmaciones")
    for name in (publishing.ARCHIVE, "minimodulo-0.0.1-py3-none-any.whl"):
        assert f'href="../_downloads/{name}" download' in claims
        assert (book.html / "_downloads" / name).is_file()
    assert address.COLAB in (book.html / "_sources" / "notebooks" / "01_vectores.ipynb").read_text("utf-8")


def test_whole_book_in_one_file(tmp_path):
    """El .zip lleva las páginas, los cuadernos y la rueda a su lado; si nada cambia, es el mismo byte a byte."""
    outdir, root = tmp_path / "html", tmp_path / "libro"
    files = {
        outdir / "index.html": "uno",
        outdir / "_static" / "a.css": "dos",
        root / "notebooks" / "01_a.ipynb": "{}",
        root / "exercises" / "01_a.ipynb": "{}",
        root / "book" / "notacion.md": "# N",
        root / "book" / "secreto.py": "",
        tmp_path / "m-1-py3-none-any.whl": "rueda",
    }
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    target = outdir / "_downloads" / publishing.ARCHIVE
    publishing.pack(root, outdir, tmp_path / "m-1-py3-none-any.whl", target)
    first = target.read_bytes()
    publishing.pack(root, outdir, tmp_path / "m-1-py3-none-any.whl", target)
    assert target.read_bytes() == first
    with zipfile.ZipFile(target) as archive:
        assert set(archive.namelist()) == {
            "LEEME.txt",
            "html/index.html",
            "html/_static/a.css",
            "notebooks/01_a.ipynb",
            "notebooks/m-1-py3-none-any.whl",
            "exercises/01_a.ipynb",
            "exercises/m-1-py3-none-any.whl",
            "book/notacion.md",
        }
        assert archive.testzip() is None
    assert [path.name for path in target.parent.iterdir()] == [publishing.ARCHIVE]


def test_workflow_publishes_what_was_tested():
    """La acción de Pages prueba, mira si la dirección es suya y publica ese mismo libro."""
    workflow = yaml.safe_load((REPO / ".github" / "workflows" / "libro.yml").read_text("utf-8"))
    steps = workflow["jobs"]["libro"]["steps"]
    runs = " ".join(step.get("run", "") for step in steps)
    assert "make test" in runs
    assert 'book/publish.py --check "https://github.com/$GITHUB_REPOSITORY"' in runs
    upload = next(step for step in steps if step.get("uses", "").startswith("actions/upload-pages-artifact"))
    assert upload["if"] == "steps.address.outputs.publish == 'true'"
    makefile = (REPO / "Makefile").read_text("utf-8")
    assert "MULTICABEZA_HTML=" + upload["with"]["path"] in makefile
    assert workflow["jobs"]["pages"]["needs"] == "libro"
    assert workflow["jobs"]["pages"]["permissions"] == {"pages": "write", "id-token": "write"}
