"""El gemelo de Colab: un entorno, `.venv-colab`, con las versiones de su imagen y sin nada del libro.

`python tests/notebooks/colab_twin.py` lo crea, o lo deja como recién creado. Solo se rehace cuando cambian los ficheros
de versiones o el Python. Con `TORCH_INDEX` se elige de dónde sale torch, como en el Makefile.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from filelock import FileLock

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".venv-colab"
PINS = Path(__file__).with_name("requirements-colab.txt")
MODELS = ROOT / "requirements-models.txt"
PYTHON = FOLDER / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
READY = FOLDER / ".ready"

Packages = dict[str, str]


def stamp() -> str:
    """Huella de aquello de lo que depende el entorno."""
    parts = [PINS.read_bytes(), MODELS.read_bytes(), sys.version.encode(), str(FOLDER).encode()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def clean_environment(**extra: str) -> dict[str, str]:
    """Las variables de este proceso, sin las que meterían en el gemelo algo de fuera."""
    mine = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "MULTICABEZA_BOOK", "MULTICABEZA_STRICT", "MPLBACKEND")
    return {name: value for name, value in os.environ.items() if name not in mine} | extra


def pip(*arguments: str) -> str:
    """Ejecuta pip en el gemelo; si falla, el error trae lo que dijo."""
    command = [str(PYTHON), "-m", "pip", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, env=clean_environment(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"pip {' '.join(arguments[:2])} ha fallado en el gemelo de Colab:\n{done.stderr[-2000:]}")
    return done.stdout


def packages() -> Packages:
    """Todo lo instalado en el gemelo: {nombre: versión}."""
    listed = json.loads(pip("list", "--format=json"))
    return {package["name"].lower().replace("_", "-"): package["version"] for package in listed}


def recorded() -> Packages | None:
    """Lo que había recién creado, o None si no está hecho o se hizo con otras versiones."""
    try:
        record = json.loads(READY.read_text("utf-8"))
        return record["packages"] if record["stamp"] == stamp() else None
    except (OSError, ValueError, KeyError):
        return None


def create() -> Packages:
    """Lo crea desde cero. La marca se escribe al final: a medias no cuenta como hecho."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", str(FOLDER)], check=True, env=clean_environment())
    if index := os.environ.get("TORCH_INDEX"):
        torch = next(line for line in PINS.read_text("utf-8").splitlines() if line.startswith("torch=="))
        pip("install", "--quiet", "--index-url", index, torch)
    pip("install", "--quiet", "-r", str(PINS))
    pip("install", "--quiet", "--no-deps", "-r", str(MODELS))
    found = packages()
    partial = READY.with_suffix(".partial")
    partial.write_text(json.dumps({"stamp": stamp(), "packages": found}, indent=1), "utf-8")
    partial.replace(READY)
    return found


def pristine() -> Packages:
    """Deja el gemelo como recién creado: quita lo que le añadió una prueba anterior, o lo rehace si cambió algo más."""
    with FileLock(Path(tempfile.gettempdir()) / f"colab-{hashlib.sha256(str(FOLDER).encode()).hexdigest()[:16]}.lock"):
        base = recorded()
        if base is None or not PYTHON.exists():
            return create()
        found = packages()
        if added := sorted(set(found) - set(base)):
            pip("uninstall", "--quiet", "--yes", *added)
            found = packages()
        if found != base:
            return create()
        READY.touch()
        return base


if __name__ == "__main__":
    print(f"{FOLDER.name}: {len(pristine())} paquetes")
