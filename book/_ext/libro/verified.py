"""La página de afirmaciones comprobadas: lo que se afirma, de dónde viene y lo que ha medido cada capítulo.

La directiva `{claims}` toma un archivo de datos (`book/afirmaciones.yml`) con las frases, las fuentes y los veredictos,
que se escriben a mano. Nuestras cifras no están en él: salen de lo que `mc.claim` guardó al ejecutarse los capítulos, y
por eso no pueden quedarse viejas. Un capítulo que no está en el índice del libro no sale, ni él ni sus afirmaciones.

Detienen la construcción un archivo con fallos, una afirmación que su capítulo no ha medido y una medida de la que el
archivo no dice nada. Y como la página depende de los cuadernos, se rehace con ellos.
"""

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import MISSING, dataclass, field, fields, replace
from html import escape
from pathlib import Path

import yaml
from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.errors import ExtensionError

# Veredicto → la clase con que se filtra y se colorea.
VERDICTS = {"se reproduce": "yes", "en parte": "partly", "no se reproduce": "no"}
OWN_PLACE = "celda-"  # lo que se pone delante del identificador de una celda para enlazarla
EXPONENTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


class ClaimsError(ValueError):
    """Un fallo del archivo de afirmaciones, con su línea."""


# — Los datos —


@dataclass(frozen=True)
class Measure:
    """Una medida: el id que le dio `mc.claim` y cómo se lee.

    Los campos con valor por omisión se pueden decir una vez, en la afirmación, para todas sus medidas.
    """

    id: str
    mide: str
    formato: str
    unidad: str = ""
    por: float = 1  # factor: 100 para leer una proporción en puntos
    n: str = ""  # qué se cuenta
    semillas: str = "semillas"  # qué son; vacío si ya lo dice n
    intervalo: str = "intervalo del 95 %"
    control: str = ""  # cuál es el control
    formato_control: str = ""  # si no es el mismo


@dataclass(frozen=True)
class Claim:
    """Una afirmación, con sus medidas y su veredicto."""

    ancla: str
    afirma: str
    fuente: str
    veredicto: str
    lectura: str
    celda: str
    medidas: list[Measure]
    cifra: str = ""  # la de la fuente
    registro: str = ""  # archivo de results/; vacío si se mide en vivo
    line: int = 0


@dataclass(frozen=True)
class Chapter:
    """Las afirmaciones de un cuaderno, y las medidas que la página deja aparte, con el motivo."""

    cuaderno: str
    afirmaciones: list[Claim]
    aparte: dict[str, str] = field(default_factory=dict)
    line: int = 0

    def ids(self) -> list[str]:
        """Identificadores de los que dice algo."""
        return [measure.id for claim in self.afirmaciones for measure in claim.medidas] + list(self.aparte)


class _Loader(yaml.SafeLoader):
    """YAML que recuerda la línea de cada bloque."""


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict:
    loader.flatten_mapping(node)
    pairs = [(loader.construct_object(key), loader.construct_object(value, deep=True)) for key, value in node.value]
    repeated = {str(key) for key, _ in pairs if [other for other, _ in pairs].count(key) > 1}
    if repeated:
        raise ClaimsError(f"línea {node.start_mark.line + 1}: se repite «{'», «'.join(sorted(repeated))}»")
    return dict(pairs) | {"line": node.start_mark.line + 1}


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)

MEASURE_FIELDS = {one.name for one in fields(Measure)}
SHARED_FIELDS = MEASURE_FIELDS - {"id", "mide"}
PLAIN_FIELDS = ("unidad", "n", "semillas", "intervalo", "control")  # van junto a una cifra, tal cual: sin fórmulas
CLAIM_FIELDS = {one.name for one in fields(Claim)}


def _build(kind: type, entry: object, what: str, allowed: set[str], given: dict) -> object:
    """Crea `kind` con lo escrito en el archivo, o dice qué falta o qué sobra."""
    if not isinstance(entry, dict):
        raise ClaimsError(f"{what}: se esperaba una lista de campos «nombre: valor»; llegó {entry!r}")
    where = f"línea {entry['line']}: {what}"
    unknown = sorted(set(entry) - allowed - {"line"})
    if unknown:
        raise ClaimsError(f"{where} no tiene un campo «{unknown[0]}»; los que hay son {', '.join(sorted(allowed))}")
    for one in fields(kind):
        value = given.get(one.name)
        if one.default is MISSING and one.default_factory is MISSING and not value:
            raise ClaimsError(f"{where}: falta «{one.name}»")
        if one.type is str and value is not None and not isinstance(value, str):
            raise ClaimsError(f"{where}: «{one.name}» debe ser un texto (entre comillas si es un número); es {value!r}")
    return kind(**given)


def _measure(entry: object, shared: dict) -> Measure:
    given = shared | (entry if isinstance(entry, dict) else {})
    given.pop("line", None)
    measure = _build(Measure, entry, "la medida", MEASURE_FIELDS, given)
    for name in PLAIN_FIELDS:
        text = getattr(measure, name)
        if re.search(r"[$`*\\]", text):
            where = f"línea {entry['line']}: «{name}»"
            raise ClaimsError(f"{where} es texto corrido, sin fórmulas ni Markdown; es «{text}»")
    return measure


def _claim(entry: object) -> Claim:
    given = dict(entry) if isinstance(entry, dict) else {}
    shared = {name: given.pop(name) for name in SHARED_FIELDS & set(given)}
    given["medidas"] = [_measure(one, shared) for one in given.get("medidas") or []]
    claim = _build(Claim, entry, "la afirmación", CLAIM_FIELDS | SHARED_FIELDS, given)
    where = f"línea {claim.line}: la afirmación «{claim.ancla}»"
    if claim.veredicto not in VERDICTS:
        raise ClaimsError(f"{where}: el veredicto es «{claim.veredicto}»; puede ser {', '.join(VERDICTS)}")
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", claim.ancla):
        raise ClaimsError(f"{where}: el ancla lleva minúsculas sin acento, cifras y guiones")
    return claim


def load(path: Path) -> list[Chapter]:
    """Lee un archivo de afirmaciones.

    Raises:
        ClaimsError: con el archivo, la línea y lo que se esperaba.
    """
    try:
        chapters = []
        for entry in yaml.load(path.read_text("utf-8"), _Loader) or []:
            given = dict(entry) if isinstance(entry, dict) else {}
            given["afirmaciones"] = [_claim(one) for one in given.get("afirmaciones") or []]
            given["aparte"] = {key: why for key, why in (given.get("aparte") or {}).items() if key != "line"}
            chapters.append(_build(Chapter, entry, "el capítulo", {"cuaderno", "afirmaciones", "aparte"}, given))
        for name, written in (
            ("el ancla", [claim.ancla for chapter in chapters for claim in chapter.afirmaciones]),
            ("la medida", [key for chapter in chapters for key in chapter.ids()]),
        ):
            repeated = sorted({one for one in written if written.count(one) > 1})
            if repeated:
                raise ClaimsError(f"{name} «{repeated[0]}» está dos veces")
    except (ClaimsError, yaml.YAMLError) as error:
        raise ClaimsError(f"{path.name}, {error}") from None
    return chapters


# — Lo que guardan los cuadernos —


def cells(notebook: Path) -> dict[str, str]:
    """El código de un cuaderno: {identificador de la celda: texto}, en orden."""
    found = json.loads(notebook.read_text("utf-8"))["cells"]
    return {cell.get("id", str(i)): "".join(cell["source"]) for i, cell in enumerate(found)}


def title(notebook: Path) -> str:
    """El título de un cuaderno: su primer «# …»."""
    lines = (line for text in cells(notebook).values() for line in text.splitlines())
    return next((line[2:].strip() for line in lines if line.startswith("# ")), notebook.stem)


def glued(env: BuildEnvironment, notebook: str) -> dict[str, object]:
    """Lo que un cuaderno guardó con `mc.claim`: {clave: valor}. Solo lo que ha guardado en su última ejecución."""
    keys = getattr(env, "nb_metadata", {}).get(notebook, {}).get("glue", ())
    path = Path(env.mystnb_config.output_folder) / f"{notebook}.glue.json"
    stored = json.loads(path.read_text("utf-8")) if keys and path.is_file() else {}
    return {key: ast.literal_eval(stored[key]["data"]["text/plain"]) for key in keys if key in stored}


def faults(chapter: Chapter, recorded: set[str], sources: dict[str, str]) -> Iterator[str]:
    """Lo que no casa entre el archivo y lo que un capítulo ha guardado.

    Args:
        chapter: lo que dice el archivo.
        recorded: claves que el cuaderno guardó: «id», «id.n», «id.seeds», «id.low», «id.high», «id.control».
        sources: celdas del cuaderno.
    """
    for claim in chapter.afirmaciones:
        if "mc.claim(" not in sources.get(claim.celda, ""):
            yield f"línea {claim.line}: la celda «{claim.celda}» de {chapter.cuaderno} no existe o no llama a mc.claim"
        for measure in claim.medidas:
            where = f"línea {claim.line}: «{measure.id}»"
            if measure.id not in recorded:
                yield f"{where} falta: {chapter.cuaderno} no la registra con mc.claim"
                continue
            for name in ("n", "control"):
                said, kept = bool(getattr(measure, name)), f"{measure.id}.{name}" in recorded
                if kept and not said:
                    yield f"{where}: {chapter.cuaderno} registra «{name}» y el archivo no dice qué es"
                elif said and not kept:
                    yield f"{where}: el archivo dice qué es «{name}» y {chapter.cuaderno} no lo registra"
    for key in chapter.aparte:
        if key not in recorded:
            yield f"línea {chapter.line}: «{key}», que va aparte, no la registra {chapter.cuaderno}"
    for key in sorted(recorded):
        if "." not in key and key not in chapter.ids():
            yield f"«{key}», de {chapter.cuaderno}, no está: añádela, o ponla en «aparte» con el motivo"


# — Cómo se escribe una cifra —


def written(value: object, measure: Measure) -> str:
    """Escribe un valor en español: coma decimal, signo menos, espacio antes de % y en los millares, y la unidad.

    Args:
        value: número, texto o booleano.
        measure: dice el formato (de Python: «.2f», «.0%», «+.3f», «.0e»), el factor y la unidad.
    """
    if isinstance(value, (bool, str)):
        return value if isinstance(value, str) else "sí" if value else "no"
    spec = re.sub(r"^[+]?", lambda sign: f"{sign[0]}z", measure.formato)  # «z»: nunca «−0»
    text = f"{float(value) * measure.por:{spec}}"
    if "e" in text:
        mantissa, exponent = text.split("e")
        text = f"{mantissa}·10{str(int(exponent)).translate(EXPONENTS)}"
    whole, point, rest = text.partition(".")
    digits = re.search(r"\d+", whole)[0]
    if len(digits) > 4:
        whole = whole.replace(digits, f"{int(digits):,}".replace(",", "\u00a0"))
    text = f"{whole}{',' if point else ''}{rest}".replace("-", "−").replace("%", "\u00a0%")
    text = text if re.search("[1-9]", text) else text.lstrip("+")
    return f"{text}\u00a0{measure.unidad}" if measure.unidad else text


COUNT = Measure("", "", ".0f")


def details(values: dict[str, object], measure: Measure) -> list[str]:
    """Lo que acompaña a una medida: intervalo, cuántos casos, cuántas semillas y control; solo lo que se guardó."""
    get = {name: values.get(f"{measure.id}.{name}") for name in ("low", "high", "n", "seeds", "control")}
    pieces = []
    if get["low"] is not None:
        bare = replace(measure, unidad="")
        pieces.append(f"{measure.intervalo}: de {written(get['low'], bare)} a {written(get['high'], bare)}")
    if get["n"] is not None:
        pieces.append(f"n\u00a0=\u00a0{written(get['n'], COUNT)} {measure.n}")
    if get["seeds"] is not None and measure.semillas:
        pieces.append(f"{written(get['seeds'], COUNT)} {measure.semillas}")
    if get["control"] is not None:
        other = replace(measure, formato=measure.formato_control or measure.formato)
        pieces.append(f"control: {written(get['control'], other)} ({measure.control})")
    return [piece.replace(" %", "\u00a0%") for piece in pieces]


# — La página —


class Measured(nodes.Inline, nodes.Element):
    """El sitio de una cifra, que se llena cuando todos los capítulos se han ejecutado."""


def _pages(env: BuildEnvironment) -> dict[str, tuple[str, list[Chapter]]]:
    """Páginas con afirmaciones: {página: (archivo de datos, capítulos que están en el libro)}."""
    if not hasattr(env, "libro_verified"):
        env.libro_verified = {}
    return env.libro_verified


def filter_html(counts: dict[str, int]) -> str:
    """El filtro por veredicto: botones de opción que el estilo de la página entiende, sin programa."""
    total = sum(counts.values())
    options = [("all", "todas", total), *((VERDICTS[name], name, count) for name, count in counts.items())]
    labels = "".join(
        f'<label><input type="radio" name="mc-claims" value="{value}"{" checked" if value == "all" else ""}> '
        f"{escape(name.capitalize())} ({count})</label>"
        for value, name, count in options
    )
    return f'<fieldset class="mc-claims mc-claims-filter"><legend>Mostrar</legend>{labels}</fieldset>'


class ClaimsDirective(Directive):
    """`{claims} archivo.yml`: el filtro y un apartado por capítulo."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Escribe la página, con sitio para las cifras."""
        env: BuildEnvironment = self.state.document.settings.env
        relative, path = env.relfn2path(self.arguments[0], env.docname)
        try:
            chapters = load(Path(path))
        except (ClaimsError, OSError) as error:
            raise ExtensionError(f"Afirmaciones comprobadas: {error}") from None
        for name in (relative, "_toc.yml", *(f"{chapter.cuaderno}.ipynb" for chapter in chapters)):
            if (Path(env.srcdir) / name).is_file():
                env.note_dependency(name)
        chapters = [chapter for chapter in chapters if chapter.cuaderno in env.found_docs]
        _pages(env)[env.docname] = (relative, chapters)
        verdicts = [claim.veredicto for chapter in chapters for claim in chapter.afirmaciones]
        counts = {name: verdicts.count(name) for name in VERDICTS}
        return [nodes.raw("", filter_html(counts), format="html"), *map(self.section, chapters)]

    def section(self, chapter: Chapter) -> nodes.section:
        """El apartado de un capítulo."""
        env = self.state.document.settings.env
        name = title(Path(env.srcdir) / f"{chapter.cuaderno}.ipynb")
        kinds = sorted({VERDICTS[claim.veredicto] for claim in chapter.afirmaciones})
        classes = ["mc-claims-chapter", *(f"mc-claims-{kind}" for kind in kinds)]
        section = nodes.section(names=[nodes.fully_normalize_name(name)], classes=classes)
        section += nodes.title(name, name)
        self.state.document.note_implicit_target(section, section)
        section += [self.item(chapter, claim) for claim in chapter.afirmaciones]
        return section

    def item(self, chapter: Chapter, claim: Claim) -> nodes.container:
        """Una afirmación: se ven el veredicto y la frase, y se despliega lo demás."""
        kind = VERDICTS[claim.veredicto]
        item = nodes.container(classes=["mc-claims-item", f"mc-claims-{kind}"], ids=[claim.ancla])
        verdict = nodes.inline("", claim.veredicto.capitalize(), classes=["mc-claims-verdict"])
        says = nodes.inline("", "", nodes.strong("", "", *self.inline(claim.afirma)), classes=["mc-claims-says"])
        source = nodes.paragraph("", "", *self.inline(f"**Fuente:** {claim.fuente}."), classes=["mc-claims-source"])
        if claim.cifra:
            source += self.inline(f" **Su cifra:** {claim.cifra}.")
        measures = nodes.bullet_list(classes=["mc-claims-measures"])
        for measure in claim.medidas:
            place = {"notebook": chapter.cuaderno, "measure": measure}
            value = nodes.strong("", "", Measured(part="value", **place))
            line = nodes.paragraph("", "", *self.inline(f"{measure.mide[0].upper()}{measure.mide[1:]}: "), value)
            data = nodes.paragraph("", "", Measured(part="details", **place), classes=["mc-claims-data"])
            measures += nodes.list_item("", line, data)
        link = nodes.reference("", "la celda que lo mide", refuri="", cell=(chapter.cuaderno, claim.celda))
        made = f". Está registrado; se rehace con `python -m multicabeza.toys.records {claim.registro}`."
        live = ". Se mide en vivo, cada vez que se construye el libro."
        where = nodes.paragraph("", "Dónde: ", link, classes=["mc-claims-where"])
        where += self.inline(made if claim.registro else live)
        item += nodes.raw("", '<details class="libro-pliegue"><summary>', format="html")
        item += [verdict, nodes.inline("", " "), says, nodes.raw("", "</summary>", format="html")]
        item += [source, measures, nodes.paragraph("", "", *self.inline(claim.lectura)), where]
        item += nodes.raw("", "</details>", format="html")
        return item

    def inline(self, text: str) -> list[nodes.Node]:
        """Markdown de una línea."""
        return self.state.inline_text(text, self.lineno)[0]


def _purge(app: Sphinx, env: BuildEnvironment, docname: str) -> None:
    _pages(env).pop(docname, None)


def _merge(app: Sphinx, env: BuildEnvironment, docnames: set[str], other: BuildEnvironment) -> None:
    _pages(env).update({name: value for name, value in _pages(other).items() if name in docnames})


def check(app: Sphinx, env: BuildEnvironment) -> None:
    """Detiene la construcción si la página y los capítulos no dicen lo mismo.

    Raises:
        ExtensionError: con el archivo, la línea, el identificador y el cuaderno de cada fallo.
    """
    found = [
        f"{name}, {fault}"
        for name, chapters in _pages(env).values()
        for chapter in chapters
        for fault in faults(
            chapter,
            set(getattr(env, "nb_metadata", {}).get(chapter.cuaderno, {}).get("glue", ())),
            cells(Path(env.srcdir) / f"{chapter.cuaderno}.ipynb"),
        )
    ]
    if found:
        raise ExtensionError("Afirmaciones comprobadas:\n" + "\n".join(found))


def name_cells(doctree: nodes.document, sources: dict[str, str]) -> None:
    """Da un sitio al que enlazar a cada celda que registra una afirmación.

    Args:
        doctree: página de un cuaderno; se modifica.
        sources: celdas del cuaderno, en orden.
    """
    names = list(sources)
    for cell in doctree.findall(nodes.container):
        name = names[cell["cell_index"]] if "cell_index" in cell else None
        if name and "mc.claim(" in sources[name]:
            cell["ids"].append(OWN_PLACE + name)


def _name_cells(app: Sphinx, doctree: nodes.document) -> None:
    path = Path(app.env.doc2path(app.env.docname))
    if path.suffix == ".ipynb":
        name_cells(doctree, cells(path))


def _fill(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    values: dict[str, dict] = {}
    for node in list(doctree.findall(Measured)):
        measure, notebook = node["measure"], node["notebook"]
        if notebook not in values:
            values[notebook] = glued(app.env, notebook)
        if node["part"] == "value":
            node.replace_self(nodes.Text(written(values[notebook][measure.id], measure)))
        else:
            node.replace_self(nodes.Text("\u00a0· ".join(details(values[notebook], measure))))
    for link in doctree.findall(lambda node: isinstance(node, nodes.reference) and "cell" in node):
        notebook, cell = link["cell"]
        link["refuri"] = f"{app.builder.get_relative_uri(docname, notebook)}#{OWN_PLACE}{cell}"


def setup(app: Sphinx) -> None:
    """Registra la directiva, la comprobación y las cifras."""
    app.add_directive("claims", ClaimsDirective)
    app.connect("env-purge-doc", _purge)
    app.connect("env-merge-info", _merge)
    app.connect("env-updated", check)
    app.connect("doctree-read", _name_cells)
    app.connect("doctree-resolved", _fill)
