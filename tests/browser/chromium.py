"""Encuentra (y, con `--install`, instala) el navegador de las pruebas.

Orden: la variable CHROMIUM; el Chromium o Chrome del sistema; el que haya descargado Playwright; y, con
`--install`, la descarga de Playwright y, como root en Debian, `apt-get install chromium`. Si nada sirve,
una sola línea dice qué caminos hay.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
MACOS = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
)
WAYS = (
    "No hay navegador para las pruebas. Instala Chromium o Chrome, o ejecuta «.venv/bin/playwright install chromium», "
    "o «apt-get install chromium» como root en Debian, o indica uno con CHROMIUM=/ruta."
)


def find() -> str | None:
    """Ruta del ejecutable, o None si no hay ninguno."""
    given = os.environ.get("CHROMIUM")
    if given:
        return given if Path(given).is_file() else None
    found = next(filter(None, map(shutil.which, NAMES)), None) or next((p for p in MACOS if Path(p).is_file()), None)
    return found or _playwright()


def _playwright() -> str | None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as p:
        path = p.chromium.executable_path
    return path if Path(path).is_file() else None


def install() -> str | None:
    """Instala un navegador por el primer camino que funcione; devuelve su ruta o None."""
    attempts = [[sys.executable, "-m", "playwright", "install", "chromium"]]
    if hasattr(os, "geteuid") and os.geteuid() == 0 and shutil.which("apt-get"):
        attempts += [["apt-get", "update", "-qq"], ["apt-get", "install", "-y", "-qq", "chromium"]]
    for command in attempts:
        try:
            subprocess.run(
                command, timeout=600, capture_output=True, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
            )
        except subprocess.TimeoutExpired:
            continue
        if found := find():
            return found
    return None


if __name__ == "__main__":
    path = find() or ("--install" in sys.argv and not os.environ.get("CHROMIUM") and install())
    if not path:
        sys.exit(WAYS)
    print(f"Navegador de las pruebas: {path}")
