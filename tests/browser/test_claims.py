"""La página de afirmaciones comprobadas en el navegador: el filtro, sin programa y con el teclado, y sus enlaces."""

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

PAGE = "book/afirmaciones.html"


@pytest.mark.parametrize("javascript", [True, False])
def test_filter_shows_only_one_verdict(visit: Callable, site: str, javascript: bool):
    """Cada opción deja las afirmaciones que dice su número, con el teclado y también sin JavaScript."""
    page, _ = visit(site + PAGE, width=320, java_script_enabled=javascript)
    items = page.locator(".mc-claims-item")
    total = items.count()
    assert total >= 30
    page.locator(".mc-claims-filter input").first.focus()
    counts = []
    for verdict in ("Se reproduce", "En parte", "No se reproduce"):
        page.keyboard.press("ArrowRight")
        option = page.get_by_role("radio", name=verdict, exact=False).and_(page.locator(":checked"))
        counts.append(int(option.locator("xpath=..").inner_text().split("(")[1].rstrip(") ")))
        expect(items.filter(visible=True)).to_have_count(counts[-1])
        expect(page.locator(".mc-claims-verdict").filter(visible=True)).to_have_text([verdict] * counts[-1])
        assert all(
            section.locator(".mc-claims-item").filter(visible=True).count()
            for section in page.locator(".mc-claims-chapter").filter(visible=True).all()
        )
    assert sum(counts) == total
    page.keyboard.press("ArrowRight")
    expect(items.filter(visible=True)).to_have_count(total)


def test_every_claim_leads_to_its_cell(visit: Callable, site: str):
    """El enlace de cada afirmación llega a una celda del capítulo."""
    page, _ = visit(site + PAGE)
    links = page.locator(".mc-claims-where a").evaluate_all("links => links.map((link) => link.href)")
    assert len(links) == page.locator(".mc-claims-item").count()
    by_page: dict[str, set[str]] = {}
    for link in links:
        address, place = link.split("#")
        by_page.setdefault(address, set()).add(place)
    for address, places in by_page.items():
        page, _ = visit(address, java_script_enabled=False)
        found = page.locator("div.cell[id]").evaluate_all("cells => cells.map((cell) => cell.id)")
        assert places <= set(found), address


def test_a_link_opens_its_claim(visit: Callable, site: str):
    """Quien llega por el enlace de una afirmación la encuentra desplegada, y las demás no."""
    page, _ = visit(site + PAGE)
    place = page.locator(".mc-claims-item").nth(7).get_attribute("id")
    for address in (f"{site}{PAGE}#{place}", f"{site}book/referencia.html#mc-split-heads"):
        page, _ = visit(address, width=390)
        expect(page.locator("details.libro-pliegue[open]")).to_have_count(1)
        own = page.locator(":target details.libro-pliegue, :target ~ details.libro-pliegue")
        expect(own.first).to_have_attribute("open", "")


def test_everything_unfolds_at_once(visit: Callable, site: str):
    """El botón despliega y pliega todas, con el teclado, y dice lo que hará."""
    page, _ = visit(site + PAGE, width=390)
    folds = page.locator("details.libro-pliegue")
    button = page.get_by_role("button", name="Desplegar todo")
    button.focus()
    page.keyboard.press("Enter")
    assert folds.evaluate_all("all => all.length >= 30 && all.every((one) => one.open)")
    page.get_by_role("button", name="Plegar todo").press("Enter")
    assert folds.evaluate_all("all => all.every((one) => !one.open)")
