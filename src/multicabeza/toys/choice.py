"""Un modelo en el que importa qué cabezas se dejan: el de inducción, con dos de ocho (capítulo 07).

En el traductor, seis cabezas al azar y un ajuste breve valen casi lo que seis escogidas. Aquí se hace lo mismo donde
nada puede suplir a las cabezas: un modelo de solo atención, el del capítulo 06, cuya tarea pide dos en cadena, una en
cada capa. Son tan pocas que se prueban TODAS las maneras de dejar dos de ocho: 28.

Cada manera se poda de verdad (`prune_heads`) y se ajusta con los mismos lotes y los mismos pasos, de dos modos: con
todos los parámetros libres, o con las cabezas congeladas y lo demás libre (embeddings, normalizaciones y salida). La
elección se hace aparte, con otros lotes, y de varias formas; después solo se mira qué sacó la pareja elegida.
"""

import copy
from collections.abc import Iterator, Sequence
from itertools import combinations, product

import torch
import torch.nn.functional as F
from torch import Tensor

from ..heads import Pair
from ..pruning import HardConcrete, gate_heads, head_importance, prune_heads
from . import induction
from .induction import BATCH, LEARNING_RATE, NUM_HEADS, NUM_STEPS, InductionModel
from .training import steps

HEADS: list[Pair] = list(product(range(2), range(NUM_HEADS)))
MASKS: list[tuple[Pair, Pair]] = list(combinations(HEADS, 2))
"""Las 28 maneras de dejar dos cabezas: 16 con una en cada capa y 12 con las dos en la misma."""

BUDGETS = (0, 25, 50, 100, 200)
FROZEN_BUDGETS = (0, 50, 100)
LONG_BUDGETS = (0, 100, 200, 400, 800)
NUM_CHOICE_BATCHES = 8
GATE_STEPS, GATE_RATE, PENALTY = 250, 0.1, 1.0
"""Con λ = 1 se cierran la mitad de las puertas o más; con 0,1 casi ninguna, y su orden no dice nada."""


def across(mask: Sequence[Pair]) -> bool:
    """Si quedan cabezas en las dos capas.

    Args:
        mask: las cabezas que se dejan.

    Returns:
        Verdadero o falso.
    """
    return len({layer for layer, _ in mask}) == 2


def batches(seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Lotes de secuencias que se repiten, sin fin.

    Args:
        seed: semilla.

    Yields:
        Tokens (32, 64) y periodos (32, 1).
    """
    generator = torch.Generator().manual_seed(seed)
    while True:
        yield induction.sample_sequences(BATCH, generator)


def example_losses(model: InductionModel, batch: tuple[Tensor, Tensor]) -> Tensor:
    """Pérdida de cada secuencia en su parte repetida, en nats por token.

    Args:
        model: el modelo.
        batch: tokens (B, 64) y periodos (B, 1).

    Returns:
        Tensor (B,).
    """
    tokens, period = batch
    repeated, _ = induction.parts(period)
    losses = F.cross_entropy(model(tokens)[:, :-1].transpose(1, 2), tokens[:, 1:], reduction="none")
    return (losses * repeated).sum(1) / repeated.sum(1)


@torch.no_grad()
def accuracy(model: InductionModel) -> float:
    """En qué proporción de los tokens repetidos del examen el más probable es el bueno.

    Args:
        model: el modelo.

    Returns:
        Entre 0 y 1; al azar, 1/64.
    """
    tokens, period = induction.exam()
    repeated, _ = induction.parts(period)
    right = model(tokens)[:, :-1].argmax(-1) == tokens[:, 1:]
    return right[repeated].float().mean().item()


# --- Podar y ajustar -------------------------------------------------------------------------------------------------


def pruned(model: InductionModel, mask: Sequence[Pair]) -> InductionModel:
    """Una copia del modelo que solo tiene esas cabezas.

    Args:
        model: el modelo entero; no cambia.
        mask: las cabezas que se dejan.

    Returns:
        La copia podada.
    """
    smaller = copy.deepcopy(model)
    prune_heads(smaller, [head for head in HEADS if head not in mask])
    return smaller


def fine_tune(
    model: InductionModel, seed: int, budgets: Sequence[int] = BUDGETS, *, frozen: bool = False
) -> list[float]:
    """Ajusta un modelo, en el sitio, con la pérdida y el ritmo con que se entrenó, y lo examina por el camino.

    Args:
        model: el modelo, ya podado.
        seed: fija los lotes: con la misma, los mismos.
        budgets: pasos en los que se examina, en orden creciente; el último es el final.
        frozen: con las cabezas congeladas; se ajusta lo demás.

    Returns:
        Un acierto por presupuesto.
    """
    model.layers.requires_grad_(not frozen)
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad and parameter.numel()]
    optimizer = torch.optim.Adam(parameters, lr=LEARNING_RATE, betas=(0.9, 0.98))
    source, found = batches(5_000 + seed), []
    for step in steps(budgets[-1] + 1, "ajuste"):
        if step in budgets:
            found.append(accuracy(model))
        if step < budgets[-1]:
            tokens, _ = next(source)
            loss = F.cross_entropy(model(tokens)[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return found


# --- Elegir ----------------------------------------------------------------------------------------------------------


def _top(scores: Tensor) -> tuple[Pair, Pair]:
    """Las dos cabezas de mayor puntuación, (2, 4), en orden."""
    first, second = sorted(scores.flatten().topk(2).indices.tolist())
    return divmod(first, NUM_HEADS), divmod(second, NUM_HEADS)


def by_indices(model: InductionModel) -> tuple[Pair, Pair]:
    """La que más mira al token anterior en la capa 0 y la que más empareja el prefijo en la 1 (capítulo 06).

    Args:
        model: el modelo entero.

    Returns:
        Dos cabezas.
    """
    tokens, period = next(batches(6_000))
    measured = induction.measure(model, tokens, period)
    return (0, _argmax(measured.previous[0])), (1, _argmax(measured.prefix[1]))


def _argmax(values: Sequence[float]) -> int:
    return max(range(len(values)), key=values.__getitem__)


def importance(model: InductionModel, data: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
    """Importancia de Michel de las ocho cabezas: (2, 4).

    Args:
        model: el modelo entero.
        data: lotes.

    Returns:
        Tensor (2, 4).
    """
    return head_importance(model, data, lambda given, batch: example_losses(given, batch).sum())


def by_importance(model: InductionModel, data: Sequence[tuple[Tensor, Tensor]]) -> tuple[Pair, Pair]:
    """Las dos de mayor importancia, medida una sola vez.

    Args:
        model: el modelo entero.
        data: lotes.

    Returns:
        Dos cabezas.
    """
    return _top(importance(model, data))


def iteratively(model: InductionModel, data: Sequence[tuple[Tensor, Tensor]]) -> tuple[Pair, Pair]:
    """Quita la menos importante y vuelve a medir, hasta que quedan dos.

    Args:
        model: el modelo entero.
        data: lotes.

    Returns:
        Dos cabezas.
    """
    gates = torch.ones(2, NUM_HEADS)
    while gates.sum() > 2:
        with gate_heads(model, gates):
            scores = importance(model, data)
        least = scores.masked_fill(gates == 0, torch.inf).argmin()
        gates.view(-1)[least] = 0
    return _top(gates)


def train_gates(model: InductionModel, seed: int) -> HardConcrete:
    """Entrena puertas Hard Concrete con el modelo congelado.

    Args:
        model: el modelo entero; no cambia.
        seed: fija los lotes y los sorteos.

    Returns:
        Las ocho puertas, (2, 4).
    """
    frozen = copy.deepcopy(model).requires_grad_(False)
    gates, generator = HardConcrete(2, NUM_HEADS), torch.Generator().manual_seed(seed)
    optimizer, source = torch.optim.Adam(gates.parameters(), lr=GATE_RATE), batches(7_000 + seed)
    for _ in steps(GATE_STEPS, "puertas"):
        with gate_heads(frozen, gates.sample(BATCH, generator)):
            loss = example_losses(frozen, next(source)).mean() + PENALTY * gates.penalty()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return gates


def by_gates(gates: HardConcrete) -> tuple[Pair, Pair]:
    """Las dos puertas de mayor log α.

    Args:
        gates: (2, 4), ya entrenadas.

    Returns:
        Dos cabezas.
    """
    return _top(gates.log_alpha.detach())


def off_target(model: InductionModel) -> tuple[Pair, Pair]:
    """Una en cada capa, pero en la 0 la que MENOS mira al token anterior; en la 1, la misma que `by_indices`.

    Args:
        model: el modelo entero.

    Returns:
        Dos cabezas.
    """
    tokens, period = next(batches(6_000))
    previous = induction.measure(model, tokens, period).previous[0]
    return (0, _argmax([-score for score in previous])), by_indices(model)[1]


@torch.no_grad()
def by_trying(model: InductionModel, data: Sequence[tuple[Tensor, Tensor]]) -> tuple[Pair, Pair]:
    """La pareja que menos pierde al apagar las demás, sin ajustar nada: las prueba todas.

    Args:
        model: el modelo entero.
        data: lotes.

    Returns:
        Dos cabezas.
    """

    def loss(mask: tuple[Pair, Pair]) -> float:
        gates = torch.zeros(2, NUM_HEADS)
        for head in mask:
            gates[head] = 1
        with gate_heads(model, gates):
            return sum(float(example_losses(model, batch).mean()) for batch in data)

    return min(MASKS, key=loss)


# --- El registro -----------------------------------------------------------------------------------------------------


def measure_seed(seed: int) -> dict:
    """Todo lo de una semilla: entrena el modelo, elige de cinco maneras y prueba las 28 parejas.

    Args:
        seed: la del modelo, como en el registro `06_phase`.

    Returns:
        Valores para el registro.
    """
    model = induction.train("two", seed=seed, num_steps=NUM_STEPS).model
    source = batches(8_000 + seed)
    data = [next(source) for _ in range(NUM_CHOICE_BATCHES)]
    gates = train_gates(model, seed)
    chosen = {
        "indices": by_indices(model),
        "importance": by_importance(model, data),
        "iterative": iteratively(model, data),
        "gates": by_gates(gates),
        "trying": by_trying(model, data),
    }
    long = {name: pruned(model, chosen[name]) for name in ("indices", "importance")}
    long["off_target"] = pruned(model, off_target(model))
    long["scratch"] = pruned(induction.new_model("two", 100 + seed), ((0, 0), (1, 0)))
    return {
        "whole": round(accuracy(model), 3),
        "importance": [_round(row) for row in importance(model, data).tolist()],
        "gates_open": int(gates.binary().sum()),
        "chosen": {name: MASKS.index(mask) for name, mask in chosen.items()},
        "free": [_round(fine_tune(pruned(model, mask), seed)) for mask in MASKS],
        "frozen": {
            str(i): _round(fine_tune(pruned(model, mask), seed, FROZEN_BUDGETS, frozen=True))
            for i, mask in enumerate(MASKS)
            if across(mask)
        },
        "long": {name: _round(fine_tune(smaller, seed, LONG_BUDGETS)) for name, smaller in long.items()},
    }


def record(seeds: list[int]) -> dict:
    """Aciertos de las 28 parejas de cada semilla, con cada presupuesto, y cuál se eligió de cada manera."""
    values: dict = {
        "masks": [[list(head) for head in mask] for mask in MASKS],
        "budgets": list(BUDGETS),
        "frozen_budgets": list(FROZEN_BUDGETS),
        "long_budgets": list(LONG_BUDGETS),
    }
    values["seeds"] = {str(seed): measure_seed(seed) for seed in seeds}
    return values


def _round(values: Sequence[float]) -> list[float]:
    return [round(value, 3) for value in values]
