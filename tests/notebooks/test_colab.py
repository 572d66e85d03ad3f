"""Los cuadernos en el gemelo de Colab: cada uno solo, en una carpeta vacía, con sus versiones y hasta el final.

Las pruebas van en orden: primero sin el módulo; luego un cuaderno publicado lo instala desde su dirección; después la
celda de preparación lo instala desde la rueda que tiene al lado, y se ejecutan todos. El gemelo se deja como recién
creado al empezar.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from datetime import datetime
from pathlib import Path

import colab_twin
import hygiene
import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

NOTEBOOKS = hygiene.notebooks()
CELL_LIMIT = 600  # segundos: solo para que una celda que no acaba no pare las pruebas


@pytest.fixture(scope="module")
def before() -> colab_twin.Packages:
    """Los paquetes del gemelo, recién creado."""
    return colab_twin.pristine()


@pytest.fixture(scope="module")
def kernel(before, tmp_path_factory) -> str:
    """Un núcleo de Jupyter que arranca el Python del gemelo."""
    home = tmp_path_factory.mktemp("jupyter")
    folder = home / "kernels" / "gemelo"
    folder.mkdir(parents=True)
    argv = [str(colab_twin.PYTHON), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (folder / "kernel.json").write_text(json.dumps({"argv": argv, "display_name": "Gemelo", "language": "python"}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_PATH", str(home))
        for name in ("PYTHONPATH", "MULTICABEZA_BOOK", "MULTICABEZA_STRICT", "MPLBACKEND"):
            patch.delenv(name, raising=False)
        yield "gemelo"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """La rueda del módulo, hecha con lo que ya está instalado (sin red)."""
    folder = tmp_path_factory.mktemp("rueda")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder)]
    done = subprocess.run(command, cwd=colab_twin.ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-2000:]
    (path,) = folder.glob("multicabeza-*.whl")
    return path


def run(book: nbformat.NotebookNode, kernel: str, folder: Path) -> nbformat.NotebookNode:
    """Ejecuta un cuaderno entero en esa carpeta y devuelve sus celdas con salidas y tiempos."""
    resources = {"metadata": {"path": str(folder)}}
    client = NotebookClient(book, kernel_name=kernel, resources=resources, timeout=CELL_LIMIT, record_timing=True)
    return client.execute()


def cells_of(*sources: str) -> nbformat.NotebookNode:
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])


def without_address(source: str) -> str:
    """La celda de preparación como antes de publicar: solo mira si tiene la rueda al lado."""
    return re.sub(r'(?m)^REPO = "[^"\n]*"', 'REPO = ""', source)


def setup_of(path: Path) -> str:
    return without_address(dict(hygiene.Notebook.read(path).cells("code"))["preparacion"])


def seconds(cell: nbformat.NotebookNode) -> float:
    """Lo que tardó una celda."""
    times = cell.metadata.get("execution", {})
    start, end = (times.get(f"iopub.status.{state}") for state in ("busy", "idle"))
    return (parse_time(end) - parse_time(start)).total_seconds() if start and end else 0.0


def parse_time(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


@pytest.fixture(scope="module")
def installed(before, kernel, wheel, tmp_path_factory) -> tuple[nbformat.NotebookNode, colab_twin.Packages]:
    """Ejecuta la celda de preparación con la rueda al lado: el cuaderno ejecutado y los paquetes de después."""
    folder = tmp_path_factory.mktemp("con_rueda")
    (folder / wheel.name).write_bytes(wheel.read_bytes())
    probe = "print(mc.causal_mask(2).tolist(), 'site-packages' in mc.__file__)"
    book = run(cells_of(setup_of(NOTEBOOKS[0]), probe), kernel, folder)
    return book, colab_twin.packages()


# --- El entorno ---


def test_twin_has_the_versions_of_colab(before):
    """Las versiones son las fijadas, y no está nada de lo que debe traer la instalación."""
    pins = re.findall(r"^([\w.-]+)==(\S+)", colab_twin.PINS.read_text("utf-8"), re.M)
    assert {"ipywidgets", "ipython", "ipykernel", "numpy", "matplotlib", "transformers", "torch"} <= dict(pins).keys()
    for name, version in pins:
        assert before[name].split("+")[0] == version, name
    assert not {"multicabeza", "bertviz"} & before.keys()


def test_wheel_carries_everything(wheel):
    """La rueda lleva todos los ficheros del módulo, y los registros y puntos de control de results/."""
    packed = set(zipfile.ZipFile(wheel).namelist())
    source = colab_twin.ROOT / "src"
    tracked = [path for path in source.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert {path.relative_to(source).as_posix() for path in tracked} <= packed
    records = [path for path in (colab_twin.ROOT / "results").rglob("*") if path.is_file()]
    assert {f"multicabeza/results/{p.relative_to(colab_twin.ROOT / 'results').as_posix()}" for p in records} <= packed


# --- Sin el módulo ---


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_setup_without_the_module_says_what_to_do(kernel, tmp_path, path):
    """Sin módulo ni rueda, el primer mensaje (y el único) dice qué descargar y dónde ponerlo."""
    book = nbformat.read(path, 4)
    for cell in book.cells:
        cell.source = without_address(cell.source)
    with pytest.raises(CellExecutionError) as caught:
        run(book, kernel, tmp_path)
    assert caught.value.ename == "ImportError"
    for words in ("Falta el módulo «multicabeza»", "multicabeza-….whl", "Colab", "vuelve a ejecutar esta celda"):
        assert words in caught.value.evalue
    assert "No module named" not in caught.value.traceback, "el error de debajo también se enseña"


# --- Con dirección pública ---


OWN = "https://github.com/DUENA/libro"


@pytest.fixture(scope="module")
def published(tmp_path_factory) -> Path:
    """El libro publicado en una dirección que no existe: un repositorio de esta máquina, y git, que los confunde.

    Devuelve el fichero de configuración de git que pone uno en lugar del otro.
    """
    home = tmp_path_factory.mktemp("publicado")
    project = home / "libro"
    skipped = shutil.ignore_patterns(".git", ".venv*", "_build", "dist", "out", "__pycache__", "*.egg-info", ".*_cache")
    shutil.copytree(colab_twin.ROOT, project, ignore=skipped)
    order = [sys.executable, "book/publish.py", OWN]
    done = subprocess.run(order, cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    config = home / "gitconfig"
    config.write_text(
        f'[url "{project.as_uri()}"]\n\tinsteadOf = {OWN}\n'
        f"[safe]\n\tdirectory = *\n[user]\n\tname = Libro\n\temail = libro@localhost\n"
    )
    environment = colab_twin.clean_environment(GIT_CONFIG_GLOBAL=str(config), GIT_CONFIG_SYSTEM=os.devnull)
    for command in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-qm", "publica el libro"]):
        subprocess.run(["git", *command], cwd=project, check=True, env=environment, capture_output=True)
    return config


@pytest.fixture(scope="module")
def from_address(before, kernel, published, tmp_path_factory) -> tuple[nbformat.NotebookNode, list[str]]:
    """Un cuaderno publicado, solo en una carpeta vacía; al acabar, de dónde vino el módulo y qué queda en ella."""
    folder = tmp_path_factory.mktemp("desde_la_direccion")
    path = published.parent / "libro" / "notebooks" / "02_atencion.ipynb"
    (folder / path.name).write_bytes(path.read_bytes())
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("GIT_CONFIG_GLOBAL", str(published))
            patch.setenv("GIT_CONFIG_SYSTEM", os.devnull)
            patch.setenv("GIT_TERMINAL_PROMPT", "0")
            book = run(nbformat.read(folder / path.name, 4), kernel, folder)
        origin = subprocess.run(
            [str(colab_twin.PYTHON), "-c", ORIGIN],
            env=colab_twin.clean_environment(),
            cwd=folder,
            capture_output=True,
            text=True,
            check=True,
        )
    finally:
        colab_twin.pristine()  # las pruebas siguientes parten del gemelo sin el módulo
    return book, [origin.stdout.strip(), *sorted(path.name for path in folder.iterdir())]


ORIGIN = (
    "from importlib.metadata import distribution as d; import json; "
    "print(json.loads(d('multicabeza').read_text('direct_url.json'))['url'])"
)


def test_published_notebook_runs_from_its_address(from_address):
    """De una dirección a un cuaderno que funciona: la preparación instala el módulo y todo llega al final."""
    book, (origin, *left) = from_address
    assert origin == OWN
    assert left == ["02_atencion.ipynb"], "no hacía falta nada al lado, y nada queda"
    code = [cell for cell in book.cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in code), "hay celdas sin ejecutar"
    setup = next(cell for cell in code if cell.id == "preparacion")
    assert f'REPO = "{OWN}"' in setup.source
    assert "ERROR" not in "".join(str(output) for output in setup.outputs)


def test_published_notebook_leads_to_colab(from_address):
    """Sus enlaces a otros cuadernos los abren en Colab, que es donde está quien lo lee."""
    book, _ = from_address
    text = "".join(cell.source for cell in book.cells if cell.cell_type == "markdown")
    assert "](https://colab.research.google.com/github/DUENA/libro/blob/main/exercises/02_atencion.ipynb)" in text
    assert not re.search(r"\]\((?!https?://|#)", text)


# --- Con la rueda al lado ---


def test_setup_installs_the_wheel_beside_it(installed):
    """La celda de preparación instala la rueda que tiene al lado y el módulo funciona sin reiniciar."""
    book, after = installed
    assert {"multicabeza", "bertviz"} <= after.keys()
    (output,) = book.cells[1].outputs
    assert output.text == "[[True, False], [True, True]] True\n"
    assert "ERROR" not in "".join(str(output) for output in book.cells[0].outputs)


def test_install_replaces_nothing(before, installed):
    """La instalación solo añade paquetes: los de Colab se quedan como estaban."""
    _, after = installed
    changed = {name: (version, after.get(name)) for name, version in before.items() if after.get(name) != version}
    assert not changed


# --- Todos los cuadernos ---


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_notebook_runs_alone(installed, kernel, tmp_path, path, capsys):
    """Solo, en una carpeta vacía, llega al final; se imprime cuánto tardó y su celda más lenta."""
    (tmp_path / path.name).write_bytes(path.read_bytes())
    book = run(nbformat.read(tmp_path / path.name, 4), kernel, tmp_path)
    code = [cell for cell in book.cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in code), "hay celdas sin ejecutar"
    assert not code[0].outputs, "con el módulo instalado, la preparación no dice nada"
    slowest = max(code, key=seconds)
    with capsys.disabled():
        print(
            f"\n{path.parent.name}/{path.stem}: {sum(map(seconds, code)):.1f} s en {len(code)} celdas; "
            f"la más lenta, «{slowest.id}», {seconds(slowest):.1f} s"
        )


def test_failing_cell_is_a_failure(installed, kernel, tmp_path):
    """Un cuaderno con `1/0` no pasa por bueno."""
    with pytest.raises(CellExecutionError, match="ZeroDivisionError"):
        run(cells_of("import multicabeza", "1/0"), kernel, tmp_path)


def test_both_models_load_in_the_twin(installed, kernel, tmp_path):
    """Con las versiones de Colab, los modelos se cargan de la rueda o de la caché y dan pesos; la caché crece."""
    source = (
        "import multicabeza as mc\n"
        "from multicabeza.models import forward_with_cache\n"
        "bert, smol = mc.load_bert(), mc.load_smollm2()\n"
        "print(bert.attend('the cat')[1].shape, smol.attend('the cat')[1].shape)\n"
        "ids = smol.tokenizer('the cat', return_tensors='pt')['input_ids']\n"
        "print(forward_with_cache(smol.model, ids)[1].get_seq_length())"
    )
    book = run(cells_of(source), kernel, tmp_path)
    printed = "".join(o.text for o in book.cells[0].outputs if o.output_type == "stream" and o.name == "stdout")
    assert printed == "torch.Size([6, 12, 4, 4]) torch.Size([30, 9, 2, 2])\n2\n"


# --- El propio gemelo ---------------------------------------------------------------


@pytest.fixture
def fake_twin(monkeypatch, tmp_path):
    """Un gemelo de mentira: `state["now"]` es lo instalado; pip y la creación solo anotan lo que se les pide."""
    state = {"now": {"numpy": "2.1.3"}, "asked": []}

    def fake_pip(*arguments):
        state["asked"].append(arguments)
        if arguments[0] == "uninstall":
            state["now"] = {name: v for name, v in state["now"].items() if name not in arguments}
        return ""

    def fake_create():
        state["asked"].append("create")
        return {"numpy": "2.1.3"}

    monkeypatch.setattr(colab_twin, "FOLDER", tmp_path)
    monkeypatch.setattr(colab_twin, "READY", tmp_path / ".ready")
    monkeypatch.setattr(colab_twin, "PYTHON", Path(sys.executable))
    monkeypatch.setattr(colab_twin, "packages", lambda: dict(state["now"]))
    monkeypatch.setattr(colab_twin, "pip", fake_pip)
    monkeypatch.setattr(colab_twin, "create", fake_create)
    record = {"stamp": colab_twin.stamp(), "packages": {"numpy": "2.1.3"}}
    colab_twin.READY.write_text(json.dumps(record))
    return state


def test_untouched_twin_is_reused(fake_twin):
    """Si nada cambió, no se toca."""
    assert colab_twin.pristine() == {"numpy": "2.1.3"}
    assert fake_twin["asked"] == []


def test_additions_are_removed(fake_twin):
    """Lo que añadió una prueba anterior se desinstala."""
    fake_twin["now"] |= {"bertviz": "1.4.1", "multicabeza": "0.1.0"}
    assert colab_twin.pristine() == {"numpy": "2.1.3"}
    assert fake_twin["asked"] == [("uninstall", "--quiet", "--yes", "bertviz", "multicabeza")]


def test_replaced_package_rebuilds(fake_twin):
    """Si algo cambió de versión o falta, se rehace entero."""
    fake_twin["now"] = {"numpy": "2.4.6"}
    colab_twin.pristine()
    assert fake_twin["asked"] == ["create"]


@pytest.mark.parametrize("content", ["", "{}", '{"stamp": "otra", "packages": {}}'])
def test_other_pins_or_half_made_rebuild(fake_twin, content):
    """Con otras versiones fijadas, o a medio hacer, se rehace."""
    colab_twin.READY.write_text(content)
    colab_twin.pristine()
    assert fake_twin["asked"] == ["create"]
