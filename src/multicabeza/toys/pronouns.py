"""Frases con un pronombre, para ver si una cabeza sigue a la persona o a la palabra repetida (capítulo 02).

Todas tienen la misma forma, «She painted her door because she was proud.», y por eso no distinguen a quien mira al
sujeto de quien mira al principio de la frase: esa limitación se dice en el capítulo.
"""

from collections.abc import Sequence
from itertools import product

import torch
from torch import Tensor

ACTIONS = (
    ("fixed", "bike"), ("painted", "door"), ("lost", "phone"), ("moved", "chair"),
    ("cleaned", "room"), ("hid", "letter"), ("broke", "cup"), ("burned", "toast"),
)  # fmt: skip
STATES = ("bored", "proud", "nervous", "lazy", "brave")
SUBJECT, PRONOUN = 1, 6  # posiciones, contando [CLS] como la 0


def looks_at_subject(loaded_model, subjects: Sequence[str], *, repeat: bool = False) -> Tensor:
    """Dice, por frase y cabeza, si la palabra a la que más mira «she» es el sujeto.

    Args:
        loaded_model: un modelo de `mc.load_bert()`.
        subjects: sujetos de una sola pieza («She», «Laura»); cada uno da 40 frases.
        repeat: si el sujeto se repite en el lugar de «she», que entonces es quien mira: «Laura … because Laura was …».

    Returns:
        Tensor booleano (frases, n_layers, h). [CLS] y [SEP] no entran en la comparación.

    Raises:
        ValueError: si una frase no se divide en los 11 tokens esperados.
    """
    hits = []
    for subject, (verb, thing), state in product(subjects, ACTIONS, STATES):
        again = subject if repeat else "she"
        text = f"{subject} {verb} her {thing} because {again} was {state}."
        tokens, weights = loaded_model.attend(text)
        if len(tokens) != 11 or tokens[PRONOUN] != again.lower():
            raise ValueError(f"«{text}» debería dar 11 tokens con «{again}» en la posición {PRONOUN}; dio {tokens}.")
        best = weights[:, :, PRONOUN, 1:-1].argmax(-1) + 1  # sin [CLS] ni [SEP]
        hits.append(best == SUBJECT)
    return torch.stack(hits)
