"""Los pasos de un entrenamiento, con barra de progreso solo si tarda y solo fuera del libro."""

import os
from collections.abc import Iterator

import torch
from tqdm.auto import tqdm


def steps(total: int, label: str) -> Iterator[int]:
    """Recorre 0 … total − 1; la barra aparece a los 3 segundos y nunca en la página del libro.

    Mientras dura, PyTorch usa un solo hilo: con modelos tan pequeños, repartir cada producto entre varios no ahorra
    tiempo, y lo multiplica si la máquina está ocupada. Al acabar, todo queda como estaba.

    Args:
        total: número de pasos.
        label: lo que se lee junto a la barra.

    Returns:
        Iterador sobre los pasos.
    """
    hidden = os.environ.get("MULTICABEZA_BOOK") == "1"
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield from tqdm(range(total), desc=label, delay=3, leave=False, disable=hidden)
    finally:
        torch.set_num_threads(threads)
