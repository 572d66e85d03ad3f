"""Los pasos de un entrenamiento, con barra de progreso solo si tarda y solo fuera del libro."""

import os
from collections.abc import Iterator

from tqdm.auto import tqdm


def steps(total: int, label: str) -> Iterator[int]:
    """Recorre 0 … total − 1; la barra aparece a los 3 segundos y nunca en la página del libro.

    Args:
        total: número de pasos.
        label: lo que se lee junto a la barra.

    Returns:
        Iterador sobre los pasos.
    """
    hidden = os.environ.get("MULTICABEZA_BOOK") == "1"
    return iter(tqdm(range(total), desc=label, delay=3, leave=False, disable=hidden))
