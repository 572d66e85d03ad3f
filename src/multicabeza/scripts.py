"""Los programas de la página, sin comentarios ni espacios de más: se escriben para leerse y viajan para pesar poco."""

import re

# Lo que se copia tal cual, lo que se quita, y lo demás, de carácter en carácter.
PIECE = re.compile(
    r"""(?P<text>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')"""
    r"|(?P<comment>//[^\n]*|/\*.*?\*/)"
    r"|(?P<word>[\w$]+)"
    r"|(?P<space>\s+)"
    r"|(?P<sign>.)",
    re.DOTALL,
)
PATTERN = re.compile(r"/(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\[\n])+/\w*")
TEMPLATE = re.compile(r"(?:\\.|\$(?!\{)|[^\\`$])*(?P<end>`|\$\{)", re.DOTALL)
# Una barra detrás de esto empieza una expresión regular; detrás de lo demás, divide.
BEFORE_PATTERN = re.compile(r"(?:^|[=(,:\[!&|?{};+\-*%~^<>]|\b(?:return|typeof|case|in|of|yield|await))$")
# Detrás de unos y delante de otros, un salto de línea no separa instrucciones.
TIGHT_AFTER = set("{(,;[:=?&|<>*%!")
TIGHT_BEFORE = set("})],;:=?&|<>.")


def compact(code: str) -> str:
    """Quita los comentarios y los espacios que no cambian nada de un programa en JavaScript.

    Los textos, las plantillas (también una dentro de otra) y las expresiones regulares se copian tal cual. Un salto de
    línea se queda si sin él dos instrucciones podrían unirse.

    Args:
        code: el programa.

    Raises:
        ValueError: si una plantilla se queda sin cerrar.
    """
    out: list[str] = []
    gap = ""  # lo que separa lo último escrito de lo siguiente: nada, un espacio o un salto
    nested: list[int] = []  # llaves abiertas en cada `${…}` en que estamos
    place = 0

    def write(piece: str) -> None:
        nonlocal gap
        if gap and out:
            before, after = out[-1][-1], piece[0]
            if gap == "\n" and before not in TIGHT_AFTER and after not in TIGHT_BEFORE:
                out.append("\n")
            elif re.fullmatch(r"[\w$]{2}|[-+/]{2}", before + after):
                out.append(" ")
        gap = ""
        out.append(piece)

    def template(start: int) -> int:
        """Copia lo que sigue de una plantilla, hasta que acaba o hasta su próximo `${`; devuelve dónde está eso."""
        found = TEMPLATE.match(code, start)
        if found is None:
            raise ValueError("Una plantilla de JavaScript (`…`) se queda sin cerrar.")
        out.append(found[0])
        if found["end"] == "${":
            nested.append(0)
        return found.end()

    while place < len(code):
        piece = PIECE.match(code, place)
        sign = piece["sign"]
        if piece["space"] or piece["comment"]:
            line = "\n" in piece[0] or (piece["comment"] or "").startswith("//")
            gap = "\n" if line or gap == "\n" else " "
        elif sign == "`":
            write(sign)
            place = template(place + 1)
            continue
        elif sign == "}" and nested and nested[-1] == 0:
            nested.pop()
            gap = ""
            out.append(sign)
            place = template(place + 1)
            continue
        elif sign == "/" and BEFORE_PATTERN.search("".join(out[-2:])) and (found := PATTERN.match(code, place)):
            write(found[0])
            place = found.end()
            continue
        else:
            if nested and sign in {"{", "}"}:
                nested[-1] += 1 if sign == "{" else -1
            write(piece[0])
        place = piece.end()
    if nested:
        raise ValueError("Una plantilla de JavaScript (`…`) se queda sin cerrar.")
    return "".join(out) + "\n"
