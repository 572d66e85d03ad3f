"""El libro entero en un PDF: `make pdf`, o `python book/pdf.py CARPETA_DEL_LIBRO ARCHIVO.pdf`.

Toma las páginas ya construidas, en el orden del índice, y las pone en un solo documento sin los scripts de las figuras:
queda lo que se ve sin ellos (la figura quieta, las preguntas y las respuestas desplegadas). Los enlaces entre páginas
pasan a ser saltos dentro del documento. Se imprime dos veces: la primera dice en qué página cae cada apartado.
"""

import html
import io
import logging
import os
import posixpath
import re
import sys
import threading
import tomllib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

import yaml
from bs4 import BeautifulSoup, Tag
from pypdf import PdfReader, PdfWriter
from pypdf.generic import NameObject, TextStringObject

ROOT = Path(__file__).resolve().parents[1]
NAME = "libro-impreso.html"
STYLE = Path(__file__).with_suffix(".css")
# Páginas que solo son lo que se mueve en ellas: en papel no dirían nada.
LEFT_OUT = frozenset({"book/progreso"})
# De las páginas se conservan estos scripts; los demás mueven cosas que en papel no se mueven.
SCRIPTS = re.compile(r"mathjax/")
# Estilos del sitio que en papel sobran.
SKIPPED_STYLES = re.compile(r"copybutton")
REMOVED = (
    "script, iframe, template, noscript, link, .headerlink, .libro-cuaderno, .libro-comentarios, .mc-source, "
    ".d-print-none"
)
IDS = ("for", "headers", "aria-labelledby", "aria-describedby", "aria-controls", "aria-owns", "aria-details")


@dataclass(frozen=True)
class Entry:
    """Una página del libro: su nombre sin extensión, la parte que empieza en ella y su profundidad en el índice."""

    name: str
    part: str = ""
    depth: int = 0

    @property
    def anchor(self) -> str:
        return "p--" + re.sub(r"[^\w-]", "-", self.name)


def contents(toc: str) -> list[Entry]:
    """Las páginas que se imprimen, en orden, según `_toc.yml`; su parte la lleva la primera de cada una."""
    tree = yaml.safe_load(toc)
    found = [Entry(tree["root"])]

    def walk(files: list[dict], part: str, depth: int) -> None:
        printed = [file for file in files if file["file"] not in LEFT_OUT]
        for place, file in enumerate(printed):
            found.append(Entry(file["file"], part if depth == 0 and place == 0 else "", depth))
            walk(file.get("sections", []), "", depth + 1)

    for part in tree.get("parts", [{"chapters": tree.get("chapters", [])}]):
        walk(part["chapters"], part.get("caption", ""), 0)
    return found


def article_of(page: BeautifulSoup, entry: Entry, entries: dict[str, Entry]) -> Tag:
    """El cuerpo de una página, listo para convivir con los demás.

    Args:
        page: página construida.
        entry: cuál es.
        entries: todas las del documento, por nombre.

    Returns:
        Su `<article>`: identificadores con el nombre de la página delante, enlaces internos, pliegues abiertos.

    Raises:
        ValueError: si la página no tiene cuerpo.
    """
    article = page.select_one("article.bd-article")
    if article is None:
        raise ValueError(f"{entry.name}.html no tiene <article class=«bd-article»>: ¿es una página del libro?")
    for extra in article.select(REMOVED):
        extra.decompose()
    prefix = f"{entry.anchor}--"
    for tag in article.find_all(True):
        if tag.get("id"):
            tag["id"] = prefix + tag["id"]
        for name in IDS:
            if tag.get(name):
                value = tag[name] if isinstance(tag[name], str) else " ".join(tag[name])
                tag[name] = " ".join(prefix + part for part in value.split())
        for name, value in tag.attrs.items():
            if isinstance(value, str) and "url(#" in value:
                tag[name] = value.replace("url(#", f"url(#{prefix}")
    for link in article.find_all(["a", "use"], href=True):
        target = inside(link["href"], entry, entries)
        if target is None:
            del link["href"]
        else:
            link["href"] = target
    for image in article.find_all("img", src=True):
        del image["loading"]
        if not re.match(r"[\w+.-]+:|/", image["src"]):
            image["src"] = posixpath.normpath(posixpath.join(posixpath.dirname(entry.name), image["src"]))
    for fold in article.find_all("details"):
        fold["open"] = ""
    article["id"] = entry.anchor
    return article


def inside(link: str, entry: Entry, entries: dict[str, Entry]) -> str | None:
    """A dónde lleva un enlace dentro del documento.

    Returns:
        Un ancla del documento, o la dirección de fuera tal cual; None si apunta a un archivo que el papel no lleva.
    """
    if re.match(r"[\w+.-]+:|//", link):
        return link
    path, _, anchor = link.partition("#")
    name = posixpath.normpath(posixpath.join(posixpath.dirname(entry.name), unquote(path))) if path else entry.name
    target = entries.get(name.removesuffix(".html"))
    if target is None:
        return None
    return f"#{target.anchor}--{anchor}" if anchor else f"#{target.anchor}"


def title_of(article: Tag) -> str:
    """El título de una página, sin marcas."""
    return " ".join(article.find("h1").get_text().split())


def sections_of(articles: list[tuple[Entry, Tag]]) -> dict[str, list[tuple[str, str]]]:
    """Los apartados propios de cada capítulo: (ancla, título). Los que se repiten («Resumen») no ayudan a buscar."""
    found = {
        entry.name: [
            (section["id"], " ".join(heading.get_text().split()))
            for heading in article.find_all("h2")
            if (section := heading.find_parent("section", id=True)) is not None
        ]
        for entry, article in articles
        if entry.name.startswith("notebooks/")
    }
    times = Counter(title for sections in found.values() for _, title in sections)
    return {name: [one for one in sections if times[one[1]] < 3] for name, sections in found.items()}


def summary(articles: list[tuple[Entry, Tag]]) -> str:
    """El índice del documento: partes, páginas y apartados de los capítulos, con el hueco de su número de página."""
    lines = []
    sections = sections_of(articles)
    for entry, article in articles:
        if entry.part:
            lines.append(f'<li class="parte">{html.escape(entry.part)}</li>')
        lines.append(_line(entry.anchor, title_of(article), f"nivel-{entry.depth}"))
        lines += [_line(anchor, text, "apartado") for anchor, text in sections.get(entry.name, ())]
    return f'<nav class="indice" id="indice"><h1>Índice</h1><ol>{"".join(lines)}</ol></nav>'


def _line(anchor: str, text: str, kind: str) -> str:
    return (
        f'<li class="{kind}"><a href="#{html.escape(anchor)}">{html.escape(text)}</a>'
        f'<span class="pagina" data-anchor="{html.escape(anchor)}"></span></li>'
    )


def cover(title: str, version: str, logo: str) -> str:
    """La cubierta del documento."""
    mark = f'<img src="{logo}" alt="">' if logo else ""
    return (
        f'<div class="cubierta">{mark}<p class="titulo">{html.escape(title)}</p>'
        "<p>Un libro interactivo que mide lo que cuenta</p>"
        f'<p class="pie">Versión {html.escape(version)}, impresa. Las figuras que se mueven muestran aquí una de sus '
        "posiciones, y las respuestas van desplegadas.<br>Texto y figuras: CC BY 4.0. Código: MIT.</p></div>"
    )


def assemble(folder: Path, toc: str, *, title: str, version: str) -> str:
    """El libro construido, en un solo documento.

    Args:
        folder: carpeta del libro construido.
        toc: texto de `_toc.yml`.
        title: título del libro.
        version: versión que dice la cubierta.

    Raises:
        FileNotFoundError: si falta una página del índice.
    """
    listed = contents(toc)
    entries = {entry.name: entry for entry in listed}
    styles: dict[str, None] = {}
    scripts: dict[str, None] = {}
    articles = []
    for entry in listed:
        path = folder / f"{entry.name}.html"
        if not path.is_file():
            raise FileNotFoundError(f"Falta {path}: construye antes el libro con «make book».")
        page = BeautifulSoup(path.read_text("utf-8"), "html.parser")
        base = posixpath.dirname(entry.name)
        for link in page.head.find_all("link", rel="stylesheet"):
            styles[posixpath.normpath(posixpath.join(base, link["href"].partition("?")[0]))] = None
        for script in page.find_all("script"):
            source = script.get("src", "").partition("?")[0]
            if SCRIPTS.search(source):
                scripts[f'<script defer src="{posixpath.normpath(posixpath.join(base, source))}"></script>'] = None
            elif not source and "window.MathJax" in script.get_text():
                scripts[str(script)] = None
        articles.append((entry, article_of(page, entry, entries)))
    sheets = "".join(f'<link rel="stylesheet" href="{name}">' for name in styles if not SKIPPED_STYLES.search(name))
    logo = "_static/logo.svg" if (folder / "_static" / "logo.svg").exists() else ""
    body = "\n".join(str(article) for _, article in articles)
    return (
        f'<!DOCTYPE html>\n<html lang="es" data-content_root="./" data-theme="light" data-mode="light"><head>'
        f'<meta charset="utf-8"><title>{html.escape(title)}</title>{sheets}'
        f"<style>{STYLE.read_text('utf-8')}</style>{''.join(scripts)}</head>\n<body>"
        f"{cover(title, version, logo)}{summary(articles)}"
        f'<main class="bd-main"><div class="bd-content"><div class="bd-article-container">{body}</div></div></main>'
        "</body></html>"
    )


# Espera a las fórmulas y a las imágenes, y encoge lo que no cabe a lo ancho.
PREPARE = """async () => {
  await globalThis.MathJax?.startup?.promise;
  await document.fonts.ready;
  await Promise.all([...document.images].map((image) => image.decode().catch(() => null)));
  for (const box of document.querySelectorAll("div.math")) {
    const formula = box.querySelector("mjx-container");
    const ratio = box.clientWidth / (formula?.scrollWidth || 1);
    if (ratio < 1) formula.style.fontSize = `${ratio * parseFloat(getComputedStyle(formula).fontSize)}px`;
  }
  for (const table of document.querySelectorAll("article table")) {
    const ratio = table.parentElement.clientWidth / table.scrollWidth;
    if (ratio < 1) table.style.zoom = Math.max(0.6, Math.floor(ratio * 100) / 100);
  }
}"""
NUMBER = """(pages) => {
  for (const place of document.querySelectorAll("[data-anchor]")) place.textContent = pages[place.dataset.anchor] ?? "";
}"""
TITLES = """() => [...document.querySelectorAll("h1, h2, h3, h4, h5, h6")].map(
  (title) => title.textContent.trim().replace(/\\s+/g, " "))"""
FOOTER = (
    '<div style="width:100%;font:8pt sans-serif;color:#555;text-align:center"><span class="pageNumber"></span></div>'
)
MARGIN = {"top": "16mm", "bottom": "18mm", "left": "17mm", "right": "17mm"}
WIDTH = round((210 - 34) / 25.4 * 96)


def page_numbers(pdf: bytes) -> dict[str, int]:
    """En qué página del PDF, desde 1, cae cada ancla a la que lleva un enlace."""
    reader = PdfReader(io.BytesIO(pdf))
    return {
        unquote(name.lstrip("/")): reader.get_destination_page_number(place) + 1
        for name, place in reader.named_destinations.items()
    }


def name_bookmarks(pdf: bytes, titles: list[str]) -> bytes:
    """El PDF con los títulos de sus marcadores bien escritos.

    Chromium pierde el espacio donde un título cambia de línea y repite alguno que cambia de columna.

    Args:
        pdf: lo que imprime Chromium.
        titles: los títulos del documento.
    """
    logging.getLogger("pypdf").setLevel(logging.ERROR)  # avisa, en inglés, de lo que al copiar se arregla
    letters = re.compile(r"\W")
    known = {letters.sub("", title): title for title in titles}
    writer = PdfWriter(clone_from=io.BytesIO(pdf))

    def mend(place: object) -> None:
        while place is not None:
            item = place.get_object()
            found = letters.sub("", item["/Title"])
            half = found[: len(found) // 2]
            title = known.get(found) or (known.get(half) if found == half * 2 else None)
            if title:
                item[NameObject("/Title")] = TextStringObject(title)
            if "/First" in item:
                mend(item["/First"])
            place = item.get("/Next")

    mend(writer.root_object["/Outlines"].get_object()["/First"])
    written = io.BytesIO()
    writer.write(written)
    return written.getvalue()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        pass


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Sirve una carpeta en un puerto libre de este equipo mientras dura el bloque."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()


def print_document(browser, folder: Path, document: str) -> bytes:
    """Imprime el documento con un navegador de Playwright ya abierto.

    Args:
        browser: navegador de Playwright.
        folder: carpeta del libro construido, de donde salen estilos, letras e imágenes.
        document: lo que devuelve `assemble`.

    Returns:
        El PDF, con índice numerado, marcadores y etiquetas.

    Raises:
        RuntimeError: si falta una hoja de estilo, una letra o una imagen.
    """
    missing = []
    with served(folder) as address:
        context = browser.new_context(viewport={"width": WIDTH, "height": 1000}, color_scheme="light", locale="es-ES")
        try:
            page = context.new_page()
            page.set_default_timeout(600_000)
            page.route(
                f"**/{NAME}", lambda route: route.fulfill(body=document, content_type="text/html; charset=utf-8")
            )
            page.on("requestfailed", lambda request: missing.append(request.url))
            page.on("response", lambda answer: missing.append(answer.url) if answer.status >= 400 else None)
            page.emulate_media(media="print")
            page.goto(f"{address}{NAME}", wait_until="load")
            page.evaluate(PREPARE)
            options = {
                "format": "A4",
                "margin": MARGIN,
                "print_background": True,
                "display_header_footer": True,
                "header_template": "<span></span>",
                "footer_template": FOOTER,
                "outline": True,
                "tagged": True,
            }
            page.evaluate(NUMBER, page_numbers(page.pdf(**options)))
            pdf = page.pdf(**options)
            titles = page.evaluate(TITLES)
        finally:
            context.close()
    if missing:
        raise RuntimeError("El documento pide archivos que no están: " + ", ".join(sorted(set(missing))))
    return name_bookmarks(pdf, titles)


def main(arguments: list[str]) -> int:
    """Imprime el libro de una carpeta en un archivo."""
    from playwright.sync_api import sync_playwright

    sys.path.insert(0, str(ROOT))
    from tests.browser.chromium import WAYS, find

    folder, target = Path(arguments[0]), Path(arguments[1])
    executable = find()
    if executable is None:
        print(WAYS.replace("para las pruebas", "con el que imprimir"), file=sys.stderr)
        return 2
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    title = yaml.safe_load((ROOT / "_config.yml").read_text("utf-8"))["title"]
    try:
        document = assemble(folder, (ROOT / "_toc.yml").read_text("utf-8"), title=title, version=version)
    except FileNotFoundError as error:
        print(error, file=sys.stderr)
        return 2
    flags = ["--disable-gpu", "--no-first-run", "--disable-background-networking"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        flags.append("--no-sandbox")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=flags)
        pdf = print_document(browser, folder, document)
        browser.close()
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(pdf)
    print(f"{target}: {len(pdf) / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
