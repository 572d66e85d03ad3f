"""Los programas de la página se aligeran sin cambiar lo que hacen."""

import re

import pytest

from multicabeza import views
from multicabeza.scripts import compact

PROGRAMS = sorted(views.WEB.glob("*.js"))


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("const a = 1;  // uno\nconst b = 2; /* dos\n */\n", "const a=1;const b=2;\n"),
        ("let a = b\n  let c = (d)\n", "let a=b\nlet c=(d)\n"),
        ("a = b\n[1].map(f)\n(g)()", "a=b\n[1].map(f)\n(g)()\n"),
        ("if (x) {\n  y();\n}\nz()", "if(x){y();}\nz()\n"),
        ("f(\n  a,\n  b\n)\n  .then(c)", "f(a,b).then(c)\n"),
        ("a + ++b - -c + d", "a+ ++b- -c+d\n"),
        ("x = a / b / c; y = a / /r/.exec(b)", "x=a/b/c;y=a/ /r/.exec(b)\n"),
        ('t = "a // b  \\" c" + \'d /* e */ f\'', 't="a // b  \\" c"+\'d /* e */ f\'\n'),
        ("t = `hola,  ${x + 1} // y ${ {a: 1}.a }`", "t=`hola,  ${x+1} // y ${{a:1}.a}`\n"),
        ("`a ${b.map((c) => `- ${c}, d`).join( ' ' )}  e`", "`a ${b.map((c)=>`- ${c}, d`).join(' ')}  e`\n"),
        ("s.replace(/[/\"'] +\\//g, ' ')", "s.replace(/[/\"'] +\\//g,' ')\n"),
        ("return /a  b/.test(c)", "return/a  b/.test(c)\n"),
        ("x = typeof y in z", "x=typeof y in z\n"),
        ("for (const [a, b] of c) d", "for(const[a,b]of c)d\n"),
        ("'uno'\n// dos\n'tres'", "'uno'\n'tres'\n"),
        ("a\n++b\nreturn\nc", "a\n++b\nreturn\nc\n"),
        ("t = `\\`\\${no} $ ${1}`", "t=`\\`\\${no} $ ${1}`\n"),
    ],
)
def test_compact_keeps_what_matters(code: str, expected: str):
    """Se quitan comentarios y espacios; los textos, las plantillas, las expresiones regulares y los saltos, no."""
    assert compact(code) == expected
    assert compact(expected) == expected


@pytest.mark.parametrize("code", ["a = `b", "a = `b ${c", "`${`x`"])
def test_open_template_is_an_error(code: str):
    """Una plantilla sin cerrar se dice, en vez de escribir un programa roto."""
    with pytest.raises(ValueError, match="sin cerrar"):
        compact(code)


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.name)
def test_our_programs_are_lighter_and_the_same(path):
    """Cada programa de `web/` pesa menos, y fuera de comentarios y espacios es el mismo, letra por letra."""
    code = path.read_text("utf8")
    light = compact(code)
    assert len(light) < 0.9 * len(code)
    comments = re.sub(
        r"^\s*//[^\n]*$|/\*\*?\s.*?\*/|(?<=[;{},\])]) //[^\n]*$", "", code, flags=re.MULTILINE | re.DOTALL
    )
    assert re.sub(r"\s", "", light) == re.sub(r"\s", "", comments)
