"""Los comentarios: hasta que se pulsa el botón, la página no pide nada fuera."""

import shutil
import sys

from tests.browser.conftest import ROOT

sys.path.insert(0, str(ROOT / "book" / "_ext"))

from libro.publishing import comments_box

PAGE = """<!DOCTYPE html><html lang="es" data-theme="{theme}"><title>Prueba</title>
<link rel="icon" href="data:,"><body>{box}<script src="comentarios.js"></script></body></html>"""


def test_comments_load_only_when_asked(browser, serve, tmp_path):
    """Antes de pulsar, ninguna petición fuera; después, una: la de utteranc.es, con el repositorio del libro."""
    shutil.copyfile(ROOT / "book" / "_static" / "comentarios.js", tmp_path / "comentarios.js")
    box = comments_box("https://github.com/DUENA/libro")
    (tmp_path / "pagina.html").write_text(PAGE.format(theme="dark", box=box), "utf-8")
    address = serve(tmp_path)
    asked = []
    context = browser.new_context()
    page = context.new_page()
    page.route(
        lambda url: not url.startswith((address, "data:")),
        lambda route: (asked.append(route.request.url), route.fulfill(body="", content_type="text/javascript")),
    )
    page.goto(f"{address}pagina.html", wait_until="networkidle")
    button = page.get_by_role("button", name="Mostrar comentarios")
    assert button.is_visible()
    assert asked == []
    button.focus()
    page.keyboard.press("Enter")
    script = page.locator(".libro-comentarios script")
    script.wait_for(state="attached")
    page.wait_for_load_state("networkidle")
    assert asked == ["https://utteranc.es/client.js"]
    assert script.get_attribute("repo") == "DUENA/libro"
    assert script.get_attribute("issue-term") == "pathname"
    assert script.get_attribute("theme") == "github-dark"
    context.close()
