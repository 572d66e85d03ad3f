"""Lo que las pruebas miran en una página: cada función devuelve la lista de fallos que ve.

`test_detectors.py` enseña a cada una una página con el fallo puesto, para que ninguna pase por no mirar.
"""

import io
import json
import re
from html.parser import HTMLParser
from importlib.resources import files
from itertools import accumulate
from pathlib import Path
from urllib.parse import unquote, urlsplit

from PIL import Image
from playwright.sync_api import ConsoleMessage, Frame, Page, Request, Response

import multicabeza

AXE = (files("axe_playwright_python") / "axe.min.js").read_text("utf8")
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]

# Palabras de la interfaz de Sphinx, el tema, MyST-NB, BertViz y Jupyter que se quedan en inglés si nadie las traduce.
ENGLISH = re.compile(
    r"\b(search|contents|next|previous|copy|copied|toggle|show|hide|hidden|download|theme|link to|launch|layers?|heads?"
    r"|attention|main|page|print|close|open|skip to|back to top|light|dark|color mode|system settings|navigation"
    r"|results?|please|loading|source|edit|suggest|permalink|symbols|table of|index|settings|fullscreen|file|issue"
    r"|repository|click|select|expand|collapse|breadcrumbs?|sidebar|made with|by the|copyright|last updated|theme by"
    r"|preparing|did not match|matching|this|your|you|and|with|for)\b|^logo$",
    re.IGNORECASE,
)
# Citas, archivos, tokens especiales y parejas «token → token» no son interfaz.
QUOTED = re.compile(r"«[^»]*»|“[^”]*”|`[^`]*`|\w+\.(?:ipynb|whl|py|md)\b|\[\w+\]|\S+ → [^\s;]+")

LOCAL = ("http://127.0.0.1:", "data:", "blob:", "about:", "file:")

# Rutas de un equipo, nunca de una página: carpetas personales, temporales y lo instalado en un entorno.
PATHS = re.compile(
    r"(?<![\w.])/(?:root|home|tmp|work|Users|private|opt|mnt)/\w|[A-Z]:\\\\?Users|site-packages|\.venv[\w-]*/lib|ipykernel_\d"
)
NOISE = re.compile(
    r"Traceback \(most recent|\b\w*Warning\b|IPKernelApp|\d+%\|[█▏▎▍▌▋▊▉ ]|it/s\]|s/it\]|<Figure size|<IPython\."
)


class Record:
    """Anota lo que pide una página y lo que falla en ella.

    Args:
        page: página recién creada, antes de ir a ninguna parte.
    """

    def __init__(self, page: Page) -> None:
        self.requests: list[str] = []
        self._faults: list[str] = []
        self.scripts: dict[str, str] = {}
        self._visits = 0
        self._cut: list[tuple[int, str]] = []
        self._asked: dict[Request, int] = {}
        page.on("request", self._request)
        page.on("requestfailed", self._failed)
        page.on("response", self._response)
        page.on("console", self._console)
        page.on("pageerror", lambda e: self._faults.append(f"error de la página: {e}"))

    def _request(self, request: Request) -> None:
        self.requests.append(request.url)
        self._visits += request.is_navigation_request()
        self._asked[request] = self._visits
        if request.resource_type == "script":
            self.scripts[urlsplit(request.url).path] = request.url
        if not request.url.startswith(LOCAL):
            self._faults.append(f"petición que sale del libro: {request.url}")

    def _failed(self, request: Request) -> None:
        fault = f"petición fallida: {request.url} ({request.failure})"
        if request.failure == "net::ERR_ABORTED":
            self._cut.append((self._asked.get(request, self._visits), fault))
        else:
            self._faults.append(fault)

    @property
    def faults(self) -> list[str]:
        """Lo que ha fallado. Lo que el navegador corta al irse a otra página no es un fallo del libro."""
        return self._faults + [fault for visit, fault in self._cut if visit == self._visits]

    def _response(self, response: Response) -> None:
        if response.status >= 400:
            self._faults.append(f"respuesta {response.status}: {response.url}")

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self._faults.append(f"consola ({message.type}): {message.text}")


def settle(page: Page) -> None:
    """Espera a que la página quede quieta: fórmulas compuestas, tipos de letra e imágenes cargados."""
    page.wait_for_load_state("networkidle")
    page.evaluate(
        """async () => {
          if (window.MathJax?.startup?.promise) await MathJax.startup.promise;
          await document.fonts.ready;
        }"""
    )


def axe(page: Page) -> list[str]:
    """Infracciones de WCAG 2.1 A y AA, en la página y dentro de cada marco.

    Casi todo el tiempo se iría en miles de trozos de código: de los que llevan las mismas clases, dentro de lo mismo,
    se deja uno, y los demás pasan a ser texto de su bloque (la página queda así). Las letras de una fórmula
    (`mjx-math`, oculta a los lectores de pantalla) no llevan texto que medir.
    """
    found = []
    for frame in page.frames:
        if frame.is_detached() or not _shown(frame):
            continue
        if not frame.evaluate("() => typeof axe !== 'undefined'"):
            frame.evaluate(AXE)
        violations = frame.evaluate(
            """async (tags) => {
              const seen = new Set();
              for (const e of document.querySelectorAll('pre span[class]:not(:has(*))')) {
                let look = '';
                for (let up = e; up && !up.matches('article, body'); up = up.parentElement) look += `${up.className}|`;
                if (seen.has(look)) e.replaceWith(...e.childNodes);
                seen.add(look);
              }
              for (const block of document.querySelectorAll('pre')) block.normalize();
              const run = await axe.run({include: [document], exclude: [['mjx-math']]}, {
                runOnly: {type: 'tag', values: tags}, resultTypes: ['violations'], iframes: false, preload: false,
              });
              return run.violations.flatMap((v) => v.nodes.map((n) => [v.id, n.target.join(' '), n.failureSummary]));
            }""",
            TAGS,
        )
        where = "" if frame is page.main_frame else f" [marco {frame.name or frame.url[-40:]}]"
        found += [f"{rule}{where}: {target} · {' '.join(why.split())[:200]}" for rule, target, why in violations]
    return found


def _shown(frame: Frame) -> bool:
    return frame.parent_frame is None or frame.frame_element().is_visible()


def sideways(page: Page) -> list[str]:
    """Lo que obliga a desplazarse de lado fuera de un bloque de código, una tabla, una fórmula o una vista."""
    return page.evaluate(
        """() => {
          const found = [], limit = document.documentElement.clientWidth;
          const name = (e) => [e.tagName.toLowerCase() + (e.id && '#' + e.id), ...e.classList].join('.');
          const wide = document.scrollingElement.scrollWidth;
          if (wide > limit) found.push(`el documento mide ${wide} px y la pantalla ${limit}`);
          const allowed = 'pre, table, .math, mjx-container, .pst-scrollable-table-container, .table-wrapper, iframe';
          for (const e of document.querySelectorAll('body *')) {
            const style = getComputedStyle(e), box = e.getBoundingClientRect();
            if (!box.width || !box.height || style.visibility === 'hidden') continue;
            if (['auto', 'scroll'].includes(style.overflowX) && e.scrollWidth > e.clientWidth + 1
                && !e.matches(allowed) && !e.closest('pre, .math, mjx-container')
                && !e.querySelector(':scope > table, :scope > pre, :scope > .math, :scope > mjx-container'))
              found.push(`${name(e)} se desplaza de lado (${e.scrollWidth} > ${e.clientWidth})`);
          }
          const article = document.querySelector('article') ?? document.body;
          for (const e of article.querySelectorAll('*')) {
            const box = e.getBoundingClientRect();
            const start = box.left + scrollX, scroller = e.closest('.math') ?? e;
            if (box.width > 1 && start < -1 && !scroller.scrollLeft && getComputedStyle(e).visibility !== 'hidden'
                && !e.closest('pre, table, mjx-assistive-mml, .visually-hidden, .sr-only, .skip-link')) {
              found.push(`${name(e)} empieza en ${Math.round(start)} px: no se puede alcanzar`);
              break;
            }
            if (box.width > 1 && box.right > limit + 1 && getComputedStyle(e).visibility !== 'hidden'
                && !e.closest('pre, table, .math, mjx-container, mjx-assistive-mml')
                && !e.closest('.visually-hidden, .sr-only')) {
              found.push(`${name(e)} llega a ${Math.round(box.right)} px`);
              break;
            }
          }
          return found;
        }"""
    )


def english(page: Page) -> list[str]:
    """Textos de la interfaz en inglés: rótulos, nombres accesibles y lo que se ve fuera de la prosa y del código."""
    found = []
    for frame in page.frames:
        texts = frame.evaluate(
            """() => {
              const texts = [];
              const names = ['title', 'aria-label', 'alt', 'placeholder', 'aria-description', 'data-bs-title',
                             'data-tooltip', 'aria-roledescription', 'aria-valuetext', 'label'];
              for (const e of document.querySelectorAll('*')) {
                if (e.closest('pre, code, mjx-container, head > link, head > script')) continue;
                for (const n of names) if (e.getAttribute(n)) texts.push([n, e.getAttribute(n)]);
              }
              if (document.title) texts.push(['título', document.title]);
              const article = document.querySelector('article') ?? document.createElement('article');
              const interface_ = 'summary, button, label, legend, option, output, .admonition-title';
              const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
              while (walk.nextNode()) {
                const e = walk.currentNode.parentElement, text = walk.currentNode.data.trim();
                const skip = 'script, style, noscript, template, pre, code, bdi, mjx-container, .math, .libro-resumen';
                if (!text || e.closest(skip)) continue;
                const prose = article.contains(e) && !e.closest(interface_);
                if (!prose) texts.push([e.tagName.toLowerCase(), text]);
              }
              return texts;
            }"""
        )
        # Las palabras que la vista dibuja son las de la frase, no las de la interfaz.
        tokens = frame.evaluate("() => window.mcParams?.tokens ?? []")
        for where, text in texts:
            if text in multicabeza.__all__:  # en el índice de la referencia
                continue
            bare = QUOTED.sub(" ", text)
            for token in sorted(tokens, key=len, reverse=True):
                bare = re.sub(rf"(?<!\w){re.escape(token)}(?!\w)", " ", bare)
            if match := ENGLISH.search(bare):
                found.append(f"{where}: «{text[:80]}» ({match[0]})")
    return sorted(set(found))


def structure(page: Page) -> list[str]:
    """Un h1 visible, títulos en orden, imágenes con texto alternativo, ids sin repetir y lang=es."""
    return page.evaluate(
        """() => {
          const found = [], ids = {};
          if (document.documentElement.lang !== 'es') found.push(`lang=${document.documentElement.lang}`);
          for (const e of document.querySelectorAll('[id]')) ids[e.id] = (ids[e.id] ?? 0) + 1;
          for (const [id, n] of Object.entries(ids)) if (n > 1) found.push(`el id «${id}» está ${n} veces`);
          const seen = [...document.querySelectorAll('h1,h2,h3,h4,h5,h6')].filter((e) => e.checkVisibility());
          const tops = seen.filter((e) => e.tagName === 'H1');
          if (tops.length !== 1) found.push(`${tops.length} títulos h1`);
          let last = 0;
          for (const e of seen.filter((e) => e.closest('article, main'))) {
            const level = Number(e.tagName[1]);
            if (level > last + 1) found.push(`h${level} «${e.textContent.trim().slice(0, 40)}» tras h${last}`);
            last = level;
          }
          for (const e of document.querySelectorAll('img')) {
            const alt = e.getAttribute('alt');
            if (alt === null) found.push(`imagen sin alt: ${e.src.slice(0, 60)}`);
            else if (e.closest('article') && alt.trim().length < 20) found.push(`alt demasiado corto: «${alt}»`);
            else if (/\\.(png|svg|jpe?g)\\b/.test(alt)) found.push(`alt que es un archivo: «${alt}»`);
          }
          return found;
        }"""
    )


def formulas(page: Page) -> list[str]:
    """Fórmulas sin componer o con error."""
    return page.evaluate(
        r"""() => {
          const found = [];
          for (const e of document.querySelectorAll('.math'))
            if (!e.querySelector('mjx-container')) found.push(`sin componer: ${e.textContent.slice(0, 60)}`);
          for (const e of document.querySelectorAll('mjx-merror, [data-mjx-error]'))
            found.push(`con error: ${e.getAttribute('data-mjx-error') ?? e.textContent}`);
          const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
          while (walk.nextNode()) {
            const e = walk.currentNode.parentElement, text = walk.currentNode.data;
            if (e.closest('script, style, noscript, template, pre, code, mjx-container, .math')) continue;
            if (/\\[([]|\$\$|\\(frac|sqrt|text|mathbb|operatorname|tag)\b|\$[^$\s][^$]*\$/.test(text))
              found.push(`LaTeX a la vista: ${text.trim().slice(0, 60)}`);
          }
          return found;
        }"""
    )


def outputs(page: Page) -> list[str]:
    """Avisos, trazas, barras de progreso y rutas en lo que se ve de la página."""
    found = page.evaluate(
        """() => [...document.querySelectorAll('.cell_output .stderr, .cell_output .traceback, .output.stderr')]
          .map((e) => `salida de error: ${e.textContent.trim().slice(0, 80)}`)"""
    )
    for text in page.locator(".cell_output").all_inner_texts():
        if match := NOISE.search(text):
            found.append(f"salida: «{text[max(0, match.start() - 20) : match.end() + 40]}»")
    return found + leaks(page.content())


def leaks(text: str) -> list[str]:
    """Rutas de un equipo en el texto de una página."""
    return sorted({f"ruta local: …{text[max(0, m.start() - 30) : m.end() + 30]}…" for m in PATHS.finditer(text)})


def faint(png: bytes, least: float = 3.0) -> str | None:
    """Dice por qué no se ve una figura: el contraste entre lo más oscuro y lo más claro no llega a `least`."""
    counts = list(accumulate(Image.open(io.BytesIO(png)).convert("L").histogram()))
    dark, light = (_linear(next(i for i, n in enumerate(counts) if n >= q * counts[-1])) for q in (0.005, 0.995))
    ratio = (light + 0.05) / (dark + 0.05)
    return None if ratio >= least else f"contraste {ratio:.2f}"


def _linear(value: int) -> float:
    v = value / 255
    return v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4


# Presupuesto de una página: su HTML, y los programas que no son del tema, de Sphinx ni de MathJax.
HTML_LIMIT = 1_500_000
SCRIPT_LIMIT = 400_000
THEME = re.compile(
    r"/(?:mathjax/|scripts/)|/(?:documentation_options|doctools|sphinx_highlight|searchtools|language_data|searchindex"
    r"|translations|clipboard\.min|copybutton|copybutton_funcs|design-tabs|sphinx-book-theme)\.js$"
)
# Datos con forma de programa, para que se puedan cargar también con el libro abierto como archivo: la prosa del libro,
# que solo pide la búsqueda, y los pesos de los modelos, que se piden al usarlos. Tienen su propio límite.
DATA = re.compile(r"/(?:busca-texto|lab-\d+|switchboard-weights)\.js$")
DATA_LIMIT = 600_000
# Programas y estilos de `web/`: cada uno, solo en las páginas con algo de clase `mc-NOMBRE…` o con `<mc-NOMBRE>`. El de
# los marcos va escrito dentro de ellos.
WEB = sorted(p for p in (Path(multicabeza.__file__).parent / "web").glob("*.*s") if p.stem not in {"base", "frame"})
# Los demás que no van en todas las páginas: qué clase los pide, o que no los pide ninguna (van en los marcos).
WANTED = {
    "comentarios.js": "libro-comentarios",
    "clipboard.min.js": "highlight",
    "copybutton.js": "highlight",
    "design-tabs.js": "sd-tab-set",
    "tex-chtml.js": "math",
    "d3.v5.min.js": None,
    "jquery.js": None,
}
SEARCH_ONLY = {"busca-orden.js", "busca-texto.js", "busca.js", "searchtools.js", "language_data.js", "searchindex.js"}

FRAMED = re.compile(r"%STATIC%([\w.-]+\.js)")


class Parts(HTMLParser):
    """Lo que una página carga y escribe: programas, estilos, clases y etiquetas, sin abrirla."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.files: list[str] = []
        self.inline: list[str] = []
        self.data: list[str] = []  # también los documentos de los marcos, que viajan como datos
        self.names: set[str] = set()
        self._into: list[str] | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.names |= {tag, *(given.get("class") or "").split()}
        if tag == "script" and given.get("src"):
            self.files.append(urlsplit(given["src"]).path)
        elif tag == "script":
            self._into = self.data if "json" in (given.get("type") or "") else self.inline
            self._into.append("")
        elif tag == "link" and given.get("rel") == "stylesheet" and given.get("href"):
            self.files.append(urlsplit(given["href"]).path)

    def handle_data(self, data: str) -> None:
        if self._into is not None:
            self._into[-1] += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "script":
            self._into = None

    def marked(self, mark: str) -> bool:
        """Si la página lleva la marca: una clase que es ella o que empieza por ella, o una etiqueta."""
        return any(name == mark or name.startswith((f"{mark}-", f"{mark}_")) for name in self.names)


def overweight(folder: Path) -> list[str]:
    """Páginas que pasan de su presupuesto, o que cargan programas que no usan o no cargan los que usan."""
    found = []
    for path in sorted(p for p in folder.rglob("*.html") if "_static" not in p.relative_to(folder).parts):
        where, text = path.relative_to(folder).as_posix(), path.read_text("utf8")
        if len(text.encode()) > HTML_LIMIT:
            found.append(f"{where}: {len(text.encode()) / 1e6:.2f} MB de HTML")
        parts = Parts(text)
        # Un marco carga lo suyo de `_static`. Lo que comparten dos marcos, o la página y un marco, cuenta una vez.
        frames = [json.loads(view) for view in parts.data if "%STATIC%" in view]
        own = {(path.parent / name).resolve() for name in parts.files if name.endswith(".js")}
        own |= {folder.resolve() / "_static" / name for view in frames for name in FRAMED.findall(view)}
        own = {file for file in own if not THEME.search(file.as_posix()) and not DATA.search(file.as_posix())}
        weights = {file.name: file.stat().st_size for file in own}
        written = {*parts.inline, *(code for view in frames for code in Parts(view).inline)}
        total = sum(weights.values()) + sum(len(code) for code in written if not code.startswith("window.mcParams"))
        if total > SCRIPT_LIMIT:
            found.append(f"{where}: {total / 1e3:.0f} KB de programas: {weights}")
        found += [f"{where}: {fault}" for fault in _misused(parts, search=where == "search.html")]
    for file in sorted(folder.rglob("*.js")):
        if DATA.search(file.as_posix()) and file.stat().st_size > DATA_LIMIT:
            found.append(f"{file.name}: {file.stat().st_size / 1e3:.0f} KB de datos")
    return found


def _misused(parts: Parts, search: bool) -> list[str]:
    """Lo que la página carga sin usarlo, y lo que usa sin cargarlo."""
    loaded = {name.rpartition("/")[2] for name in parts.files}
    used = {file.name: parts.marked(f"mc-{file.stem}") for file in WEB}
    used |= {name: mark in parts.names for name, mark in WANTED.items()}
    used |= dict.fromkeys(SEARCH_ONLY, search)
    found = [f"carga {name} y no lo usa" for name in sorted(loaded) if not used.get(name, True)]
    return found + [f"usa {name} y no lo carga" for name in sorted(used) if used[name] and name not in loaded]


class Links(HTMLParser):
    """Enlaces y anclas de una página, sin abrirla."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = {""}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.anchors |= {v for n in ("id", "name") if (v := given.get(n))}
        for name in ("href", "src"):
            if tag != "base" and given.get(name):
                self.links.append(given[name])


def broken_links(folder: Path) -> list[str]:
    """Enlaces internos de todas las páginas que no llevan a un archivo o a un ancla que exista."""
    pages = {p.resolve(): Links(p.read_text("utf8")) for p in folder.rglob("*.html") if "_static" not in p.parts}
    found = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or link.startswith(("data:", "javascript:", "mailto:")):
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            where = f"{path.relative_to(folder.resolve())} → {link}"
            if not target.is_file():
                found.append(f"{where}: no existe")
            elif target in pages and unquote(parts.fragment) not in pages[target].anchors | {"top"}:
                found.append(f"{where}: sin esa ancla")
    return sorted(set(found))


def lines(faults: list[str]) -> str:
    """Los fallos, uno por línea y sin repetir, para el mensaje de la prueba."""
    return "\n" + "\n".join(json.dumps(f, ensure_ascii=False) for f in dict.fromkeys(faults))
