"""La portada guardada es la que dibuja su programa con los pesos y los colores de hoy."""

import re
import runpy
from pathlib import Path

import pytest

BOOK = Path(__file__).resolve().parents[2] / "book"
NUMBER = re.compile(r"\d+(?:[.,]\d+)?")


def test_cover_is_up_to_date() -> None:
    """Mismo dibujo y mismas lecturas, salvo lo que cambia de un equipo a otro (centésimas de píxel o de peso).

    Si falla: `python book/portada.py`.
    """
    saved = (BOOK / "portada.html").read_text("utf8")
    drawn = runpy.run_path(str(BOOK / "portada.py"))["fragment"]()
    assert re.findall(r"#[0-9a-f]{6}", saved) == re.findall(r"#[0-9a-f]{6}", drawn), "los colores han cambiado"
    assert NUMBER.sub("0", saved) == NUMBER.sub("0", drawn), "el dibujo ha cambiado"
    numbers = [[float(x.replace(",", ".")) for x in NUMBER.findall(text)] for text in (saved, drawn)]
    assert numbers[0] == pytest.approx(numbers[1], abs=0.11)


def test_cover_reads_its_own_arrows() -> None:
    """Las lecturas dicen las dos flechas más anchas y lo que va a [CLS], calculados aquí de otra forma."""
    import multicabeza as mc

    cover = runpy.run_path(str(BOOK / "portada.py"))
    tokens, weights = mc.load_bert().attend(cover["SENTENCE"])
    saved = (BOOK / "portada.html").read_text("utf8")
    for head, matrix in enumerate(weights[cover["LAYER"]].numpy()):
        text = re.search(rf'<p class="l-{head}">(.*?)</p>', saved)[1]
        inner = matrix[1:-1, 1:-1]
        best = max(inner.flatten())
        shown = [float(x.replace(",", ".")) for x in re.findall(r"</b> (\d,\d\d)", text)]
        if best < 0.1:
            assert not shown
        else:
            assert shown[0] == pytest.approx(best, abs=0.006)
            q, k = divmod(int(inner.argmax()), inner.shape[1])
            assert text.startswith(f"<b>{tokens[q + 1]}")
            assert f"<b>{tokens[k + 1]}" in text.split(" · ")[0].split("→")[1]
        share = matrix[1:-1, 0].mean()
        assert int(re.search(r"el (\d+)", text)[1]) == pytest.approx(100 * share, abs=0.6)
