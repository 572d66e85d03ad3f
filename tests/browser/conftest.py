"""Libro construido, servidor local y navegador para las pruebas de las páginas.

`MULTICABEZA_HTML` dice dónde está el libro (por defecto, `_build/html`). Aquí nada se salta: sin libro o sin
navegador, las pruebas fallan y dicen qué falta.
"""

import os
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.browser.chromium import WAYS, find
from tests.browser.detectors import Record

expect.set_options(timeout=20_000)  # un equipo cargado tarda; lo que falla, falla igual

ROOT = Path(__file__).resolve().parents[2]
HTML = (ROOT / os.environ.get("MULTICABEZA_HTML", "_build/html")).resolve()
FLAGS = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # Ningún nombre se resuelve salvo este equipo: lo que pida otra dirección falla y queda anotado.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)


def built_pages() -> list[str]:
    """Rutas de las páginas del libro, relativas a su raíz; vacía si no está construido."""
    return sorted(p.relative_to(HTML).as_posix() for p in HTML.rglob("*.html") if "_static" not in p.parts)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Una prueba por página construida; sin libro, una sola, que falla al pedirlo."""
    if "path" in metafunc.fixturenames:
        pages = [p for p in built_pages() if p != "index.html"] or ["(sin libro)"]
        metafunc.parametrize("path", pages, scope="module")


@pytest.fixture(scope="session")
def book() -> Path:
    """Carpeta del libro construido."""
    if not (HTML / "index.html").is_file():
        pytest.fail(f"No hay libro en {HTML}: constrúyelo con «make book» o indica otro con MULTICABEZA_HTML.")
    return HTML


class Quiet(SimpleHTTPRequestHandler):
    """Servidor de archivos que no escribe un registro por petición."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture(scope="session")
def serve() -> Iterator[Callable[[Path], str]]:
    """Función que sirve una carpeta en un puerto libre de este equipo y devuelve su dirección."""
    servers: dict[Path, ThreadingHTTPServer] = {}

    def start(folder: Path) -> str:
        if folder not in servers:
            server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
            threading.Thread(target=server.serve_forever, daemon=True).start()
            servers[folder] = server
        return f"http://127.0.0.1:{servers[folder].server_address[1]}/"

    yield start
    for server in servers.values():
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="session")
def site(book: Path, serve: Callable[[Path], str]) -> str:
    """Dirección del libro servido."""
    return serve(book)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Un Chromium para todas las pruebas."""
    executable = find()
    if executable is None:
        pytest.fail(WAYS)
    root = hasattr(os, "geteuid") and os.geteuid() == 0
    with sync_playwright() as p:
        browser = p.chromium.launch(executable_path=executable, args=[*FLAGS, *(["--no-sandbox"] if root else [])])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def visit(browser: Browser) -> Iterator[Callable[..., tuple[Page, Record]]]:
    """Abre una dirección en un contexto limpio, con todo lo que pase anotado; cierra la visita anterior."""
    contexts = []

    def go(url: str, *, width: int = 1280, theme: str = "light", **options: object) -> tuple[Page, Record]:
        while contexts:
            contexts.pop().close()
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=theme, locale="es-ES", **options
        )
        contexts.append(context)
        context.set_default_timeout(60_000)
        page = context.new_page()
        record = Record(page)
        page.goto(url, wait_until="load")
        return page, record

    yield go
    for context in contexts:
        context.close()
