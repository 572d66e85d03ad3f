"""Extensión de Sphinx del libro: sin red, en español, ligera y siempre al día.

Cada módulo se ocupa de una cosa y la registra en su `setup`:

- `freshness`: huellas de lo que decide el resultado de un cuaderno, y la caché de ejecución que depende de ellas;
- `assets`: qué scripts y estilos viajan con el libro, y cuáles carga cada página;
- `formulas`: las fórmulas numeradas de los cuadernos, sin la envoltura de Sphinx;
- `icons`: la fuente de iconos, reducida a los que el libro usa;
- `spanish`: los textos de la interfaz, y los espacios que no se parten;
- `search`: búsqueda sin tildes, ordenada por títulos y con resúmenes en prosa;
- `claims`: las afirmaciones medidas que una página toma de otra;
- `verified`: la página de afirmaciones comprobadas;
- `reference`: la referencia del módulo, escrita a partir de sus docstrings;
- `citations`: las citas del texto, enlazadas con la bibliografía;
- `glossary`: los términos del glosario, enlazados donde se usan por primera vez;
- `laboratory`: los pesos de los modelos de la página, que se piden aparte;
- `progress`: las actividades de repaso, comprobadas, y «Mi progreso»;
- `address`: la dirección pública del libro, y los enlaces de los cuadernos que salen de ella;
- `publishing`: descargas, y los botones que solo existen cuando el libro tiene dirección;
- `sharing`: la descripción de cada página y la tarjeta de sus enlaces;
- `pages`: la última mano a cada página, y la portada de la carpeta.
"""

from sphinx.application import Sphinx

from libro import (
    address,
    assets,
    citations,
    claims,
    formulas,
    freshness,
    glossary,
    icons,
    laboratory,
    pages,
    progress,
    publishing,
    reference,
    search,
    sharing,
    spanish,
    verified,
)

MODULES = (
    freshness,
    assets,
    formulas,
    icons,
    spanish,
    search,
    claims,
    verified,
    reference,
    citations,
    glossary,
    laboratory,
    progress,
    address,
    publishing,
    sharing,
    pages,
)


def setup(app: Sphinx) -> dict[str, bool]:
    """Registra todos los módulos de la extensión."""
    # Jupyter Book define esta opción aunque no se cargue su extensión de comentarios.
    app.add_config_value("comments_config", {}, "html")
    for module in MODULES:
        module.setup(app)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
