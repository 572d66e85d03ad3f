"""Los programas y los estilos del libro, en los navegadores que no son Chromium.

Las pruebas de las páginas usan Chromium. Aquí se prohíbe lo que Chromium entiende y otros, en la versión más antigua
que el libro admite, no: Safari 16.4, Firefox 121 y Chromium 120.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("src/multicabeza/web", "book/_static")
STYLES = sorted(path for folder in FOLDERS for path in (ROOT / folder).glob("*.css"))
SCRIPTS = sorted(path for folder in FOLDERS for path in (ROOT / folder).glob("*.js"))

# Lo que falta en alguno → cómo se reconoce.
STYLE_FAULTS = {
    "anidar reglas": r"\{[^{}@]*[;{]\s*&|\{\s*&",
    "text-decoration con grosor o estilo: Safari solo admite la línea": r"text-decoration:\s*[a-z-]+\s+[^;}!]",
    "@starting-style, @scope o @view-transition": r"@(?:starting-style|scope|view-transition)\b",
    "field-sizing, interpolate-size o anclas": r"(?:field-sizing|interpolate-size|anchor-name|position-anchor)\s*:",
    "light-dark()": r"light-dark\(",
    "colores relativos": r"(?:rgba?|hsla?|oklch|lab|color)\(\s*from\b",
    "consultas de estilo": r"@container\s+style\(",
    "animación por desplazamiento": r"(?:animation|scroll|view)-timeline",
    ":open y ::details-content": r":open\b|::details-content",
}
SCRIPT_FAULTS = {
    "expresiones regulares con v": r"/[a-z]*v[a-z]*[,;.)\]]\s*(?:$|\n)|RegExp\([^)]*,\s*[\"'][a-z]*v[a-z]*[\"']\)",
    "import … with": r"\bimport\b[^;\n]*\bwith\s*\{",
    "elementos de serie ampliados (is=)": r"extends:\s*[\"']|\bis:\s*[\"']",
    "CSS.highlights": r"CSS\.highlights",
    "scrollend y requestIdleCallback": r"[\"']scrollend[\"']|requestIdleCallback",
    "agrupar": r"\b(?:Object|Map)\.groupBy\(",
    "Promise.withResolvers y Promise.try": r"Promise\.(?:withResolvers|try)\(",
    "conjuntos": r"\.(?:isSubsetOf|isSupersetOf|isDisjointFrom|symmetricDifference|intersection|difference|union)\(",
    "iteradores con map…": r"\.(?:values|keys|entries)\(\)\.(?:map|filter|take|drop|reduce|toArray|some|every|find)\(",
    "popover y transiciones de vista": r"\.(?:show|hide|toggle)Popover\(|startViewTransition",
    "URL.canParse, RegExp.escape y checkVisibility": r"URL\.(?:canParse|parse)\(|RegExp\.escape\(|\.checkVisibility\(",
}


def plain(code: str) -> str:
    """El código sin sus comentarios."""
    return re.sub(r"/\*.*?\*/|(?<![:\"'`\\])//[^\n]*", "", code, flags=re.DOTALL)


def faults(code: str, rules: dict[str, str]) -> list[str]:
    """Nombres de las reglas que un código incumple, con lo que las incumple."""
    return [f"{name}: {found[0]!r}" for name, rule in rules.items() if (found := re.search(rule, plain(code)))]


@pytest.mark.parametrize("path", STYLES, ids=lambda path: path.name)
def test_styles_work_in_every_engine(path: Path):
    """Ni lo que falta en Safari o Firefox, ni lo que allí necesita además su propia forma."""
    code = plain(path.read_text("utf-8"))
    assert not faults(code, STYLE_FAULTS)
    for selectors, block in re.findall(r"([^{}]*)(\{[^{}]*\})", code):
        assert ("user-select" in block) == ("-webkit-user-select" in block), block
        # Hasta Safari 18, la punta de un pliegue no se quita con `list-style` ni con otra caja.
        if re.search(r"summary\s*$", selectors) and re.search(r"list-style: none|display: (?:flex|grid)", block):
            assert "summary::-webkit-details-marker { display: none; }" in code, selectors


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_scripts_work_in_every_engine(path: Path):
    """Nada de lo que falta en Safari o Firefox."""
    assert not faults(path.read_text("utf-8"), SCRIPT_FAULTS)


@pytest.mark.parametrize(
    ("code", "rules"),
    [
        ("a { color: red; & b { color: blue } }", STYLE_FAULTS),
        ("a { text-decoration: underline dotted 0.09em; }", STYLE_FAULTS),
        ("textarea { field-sizing: content }", STYLE_FAULTS),
        ("const a = /[\\p{L}--[a-z]]/v;\n", SCRIPT_FAULTS),
        ('customElements.define("x-y", Z, { extends: "ul" });', SCRIPT_FAULTS),
        ("const b = a.union(c);", SCRIPT_FAULTS),
        ("map.values().map((x) => x);", SCRIPT_FAULTS),
    ],
)
def test_rules_find_what_they_forbid(code: str, rules: dict[str, str]):
    """Cada regla encuentra lo suyo."""
    assert faults(code, rules)


def test_first_letter_of_the_text_is_a_whole_one():
    """La primera letra de la lista del texto tiene espacio y x.

    WebKit toma de ella lo que miden `ex` y `ch`, y MathJax, el tamaño de las fórmulas: con la de los signos delante, en
    Safari salían una quinta parte mayores que el texto.
    """
    style = (ROOT / "book/_static/libro.css").read_text("utf-8")
    family = re.search(r"--pst-font-family-base:([^;]+);", style)
    assert family
    assert [name.strip() for name in family[1].split(",")].index('"Signos del libro"') > 0
