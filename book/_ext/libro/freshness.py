"""Una página caduca es un libro equivocado: huellas y caché de ejecución.

La caché de ejecución vive en `.jupyter_cache/<huella>`, junto a la salida. La huella cambia cuando cambia cualquier
cosa que decide el resultado de un cuaderno: los archivos del módulo, los registros de `results/`, las versiones pedidas
y las instaladas. Con la huella cambian también las páginas: `libro_stamp` obliga a Sphinx a leerlas todas otra vez.
"""

import hashlib
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.util import logging

logger = logging.getLogger(__name__)

EXECUTION = ("src/**/*", "results/**/*", "requirements*.txt", "pyproject.toml")
MACHINERY = ("book/_ext/**/*",)
APPEARANCE = ("book/_static/**/*", "src/*/web/**/*")
# Se guarda también la caché anterior: al volver atrás en la historia no hay que ejecutar de nuevo.
CACHES_KEPT = 2
# El entorno con el que se ejecutan los cuadernos del libro: sin barras de progreso ni avisos en la página.
ENVIRONMENT = {
    "MULTICABEZA_BOOK": "1",
    "TQDM_DISABLE": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "TRANSFORMERS_VERBOSITY": "error",
    "TOKENIZERS_PARALLELISM": "false",
    # Los hilos de torch esperan sin gastar CPU: con otro proceso al lado se tarda la tercera parte.
    "OMP_WAIT_POLICY": "passive",
}


def tracked_files(root: Path, patterns: Iterable[str]) -> Iterator[Path]:
    """Recorre en orden los archivos que cumplen algún patrón, sin los que generan las herramientas.

    Args:
        root: carpeta del proyecto.
        patterns: patrones relativos a `root`, como en `Path.glob`.
    """
    found = {path for pattern in patterns for path in root.glob(pattern) if path.is_file()}
    for path in sorted(found):
        parts = path.relative_to(root).parts
        if not any(part == "__pycache__" or part.endswith(".egg-info") or part.startswith(".") for part in parts):
            yield path


def fingerprint(root: Path, patterns: Iterable[str], extra: Iterable[str] = ()) -> str:
    """Huella de los nombres y del contenido de unos archivos, y de unos textos más.

    Args:
        root: carpeta del proyecto.
        patterns: patrones relativos a `root`.
        extra: textos que también cuentan, en orden.

    Returns:
        Doce cifras hexadecimales: cambian si se añade, borra, renombra o modifica un archivo.
    """
    digest = hashlib.sha256()
    for path in tracked_files(root, patterns):
        digest.update(f"{path.relative_to(root).as_posix()}\0{path.stat().st_size}\0".encode())
        digest.update(path.read_bytes())
    for text in extra:
        digest.update(f"{text}\0".encode())
    return digest.hexdigest()[:12]


def installed_versions(root: Path) -> list[str]:
    """Versión de Python y de cada paquete que nombran los `requirements*.txt`, tal como están instalados."""
    versions = [sys.version]
    for path in sorted(root.glob("requirements*.txt")):
        for name in re.findall(r"^([\w.-]+)==", path.read_text("utf-8"), flags=re.MULTILINE):
            try:
                versions.append(f"{name} {metadata.version(name)}")
            except metadata.PackageNotFoundError:
                versions.append(f"{name} -")
    return versions


def prune_caches(folder: Path, current: str, keep: int = CACHES_KEPT) -> None:
    """Borra las cachés de ejecución más antiguas; conserva `keep`, contando la actual."""
    others = [path for path in folder.iterdir() if path.is_dir() and path.name != current] if folder.is_dir() else []
    others.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    for path in others[keep - 1 :]:
        shutil.rmtree(path, ignore_errors=True)


def _prepare(app: Sphinx, config: Config) -> None:
    os.environ.update(ENVIRONMENT)
    root = Path(app.srcdir)
    execution = fingerprint(root, EXECUTION, installed_versions(root))
    config.libro_stamp = f"{execution} {fingerprint(root, MACHINERY)}"
    config.libro_look = fingerprint(root, APPEARANCE, [config.html_theme_options.get("repository_url", "")])
    caches = Path(app.outdir).parent / ".jupyter_cache"
    current = caches / execution
    current.mkdir(parents=True, exist_ok=True)
    os.utime(current)
    config.nb_execution_cache_path = str(current)
    prune_caches(caches, execution)


def _forget_after_warnings(app: Sphinx, exception: Exception | None) -> None:
    """Un aviso no se olvida en la construcción siguiente: sin el entorno guardado, Sphinx lee todo otra vez."""
    if exception is not None or app._warncount:
        (Path(app.doctreedir) / "environment.pickle").unlink(missing_ok=True)


def setup(app: Sphinx) -> None:
    """Registra las huellas y la caché de ejecución."""
    app.add_config_value("libro_stamp", "", "env")
    app.add_config_value("libro_look", "", "html")
    app.connect("config-inited", _prepare, priority=1)
    app.connect("build-finished", _forget_after_warnings, priority=999)
