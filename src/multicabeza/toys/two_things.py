"""Dos cosas para la misma consulta: ¿basta una cabeza? (capítulo 03).

Cada posición i de una secuencia lleva un dato y señala una posición p_i, al azar y distinta de i − 1. Ha de entregar
dos datos, el de la posición anterior (i − 1, en círculo) y el de la señalada: una sola consulta que pide dos cosas.

Hay cuatro tareas. En «symbols» los datos son símbolos de un vocabulario de 10 y se pide el par ordenado: si se acierta
uno y el otro se echa a suertes, 1/10. En las demás los datos son vectores gaussianos de 12 componentes: «vectors» pide
los dos, «sum» su suma y «difference» su resta.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..attention import MultiHeadAttention
from .training import steps

NUM_SYMBOLS, VECTOR_DIM = 10, 12


@dataclass(frozen=True)
class Task:
    """Lo que distingue una tarea de otra.

    Attributes:
        length: posiciones de cada secuencia, n.
        num_outputs: números que se leen en cada posición.
    """

    length: int
    num_outputs: int


TASKS = {
    "symbols": Task(48, 2 * NUM_SYMBOLS),
    "vectors": Task(24, 2 * VECTOR_DIM),
    "sum": Task(24, VECTOR_DIM),
    "difference": Task(24, VECTOR_DIM),
}


def sample(task: str, batch: int, length: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Sortea secuencias.

    Args:
        task: una clave de `TASKS`.
        batch: número de secuencias.
        length: posiciones, n ≥ 3.
        generator: de donde salen los números.

    Returns:
        Los datos, (batch, n) símbolos o (batch, n, 12) vectores, y las posiciones señaladas (batch, n), nunca i − 1.

    Raises:
        ValueError: si la tarea no existe.
    """
    if task not in TASKS:
        raise ValueError(f"Se esperaba una tarea de {', '.join(TASKS)}; llegó «{task}».")
    if task == "symbols":
        payload = torch.randint(NUM_SYMBOLS, (batch, length), generator=generator)
    else:
        payload = torch.randn(batch, length, VECTOR_DIM, generator=generator)
    jump = torch.randint(length - 1, (batch, length), generator=generator)  # 0 … n − 2: de i, que vale, a i − 2
    return payload, (torch.arange(length) + jump) % length


def wanted(payload: Tensor, pointers: Tensor) -> tuple[Tensor, Tensor]:
    """Los dos datos que pide cada posición.

    Args:
        payload: (batch, n) o (batch, n, 12).
        pointers: (batch, n).

    Returns:
        El dato de la posición anterior y el de la señalada, cada uno con la forma de `payload`.
    """
    rows = torch.arange(len(payload))[:, None]
    return payload.roll(1, dims=1), payload[rows, pointers]


class TwoThings(nn.Module):
    """Una capa de atención sin máscara, sin residuo y, si no se pide otra cosa, sin nada detrás que no sea lineal.

    x_i = dato + posición + posición señalada;  y = Concat(head_1 … head_h) W^O;  salida = lectura lineal de y.

    Los parámetros no dependen de h: cambiar el número de cabezas solo cambia cómo se usan las mismas matrices.

    Args:
        num_heads: h, divisor de d_model.
        task: una clave de `TASKS`.
        length: posiciones, n; si falta, las de la tarea.
        d_model: anchura de la capa.
        mlp: añade tras la atención una red *feed-forward* con su residuo, y + W_2 GELU(W_1 y), de anchura 4·d_model.
    """

    def __init__(
        self,
        num_heads: int,
        task: str = "symbols",
        *,
        length: int | None = None,
        d_model: int = 32,
        mlp: bool = False,
    ):
        super().__init__()
        if task not in TASKS:
            raise ValueError(f"Se esperaba una tarea de {', '.join(TASKS)}; llegó «{task}».")
        self.task, self.length = task, length or TASKS[task].length
        self.data = (
            nn.Embedding(NUM_SYMBOLS, d_model) if task == "symbols" else nn.Linear(VECTOR_DIM, d_model, bias=False)
        )
        self.position = nn.Embedding(self.length, d_model)
        self.pointer = nn.Embedding(self.length, d_model)
        self.attention = MultiHeadAttention(d_model, num_heads, bias=False)
        self.mlp = (
            nn.Sequential(nn.Linear(d_model, 4 * d_model), nn.GELU(), nn.Linear(4 * d_model, d_model)) if mlp else None
        )
        self.read = nn.Linear(d_model, TASKS[task].num_outputs)

    def forward(self, payload: Tensor, pointers: Tensor, *, need_weights: bool = False) -> tuple[Tensor, Tensor | None]:
        """Entrega lo que pide cada posición.

        Args:
            payload: (batch, n) símbolos o (batch, n, 12) vectores.
            pointers: (batch, n), posición que señala cada una.
            need_weights: devuelve también los pesos.

        Returns:
            La lectura (batch, n, num_outputs) y los pesos (batch, h, n, n), o `None` si no se piden.
        """
        x = self.data(payload) + self.position.weight + self.pointer(pointers)  # (batch, n, d_model)
        y, weights = self.attention(x, need_weights=True) if need_weights else (self.attention(x), None)
        if self.mlp is not None:
            y = y + self.mlp(y)
        return self.read(y), weights


def loss_of(task: str, output: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """Lo que se minimiza: entropía cruzada de los dos símbolos (nats) o error cuadrático medio.

    Args:
        task: una clave de `TASKS`.
        output: (batch, n, num_outputs).
        first, second: los dos datos pedidos, como los da `wanted`.

    Returns:
        Escalar.
    """
    if task == "symbols":
        logits = output.unflatten(-1, (2, NUM_SYMBOLS))
        return F.cross_entropy(logits.flatten(0, 2), torch.stack([first, second], -1).flatten())
    target = {"vectors": torch.cat([first, second], -1), "sum": first + second, "difference": first - second}[task]
    return F.mse_loss(output, target)


def scores_of(task: str, output: Tensor, first: Tensor, second: Tensor) -> dict[str, float]:
    """El acierto: proporción en «symbols», R² en las demás (1 = exacto; 0 = como decir siempre la media).

    Args:
        task: una clave de `TASKS`.
        output: (batch, n, num_outputs).
        first, second: los dos datos pedidos.

    Returns:
        `both`, la nota de la tarea (el par entero en «symbols»; la media de los dos R² en «vectors»), y, donde se piden
        dos datos, `first` y `second` por separado.
    """
    if task == "symbols":
        guess = output.unflatten(-1, (2, NUM_SYMBOLS)).argmax(-1)
        hits = guess == torch.stack([first, second], -1)
        shares = {"both": hits.all(-1), "first": hits[..., 0], "second": hits[..., 1]}
        return {name: share.float().mean().item() for name, share in shares.items()}

    def r2(guess: Tensor, target: Tensor) -> float:
        return 1 - F.mse_loss(guess, target).item() / target.var().item()

    if task == "vectors":
        parts = [r2(guess, target) for guess, target in zip(output.chunk(2, -1), (first, second), strict=True)]
        return {"both": sum(parts) / 2, "first": parts[0], "second": parts[1]}
    return {"both": r2(output, first + second if task == "sum" else first - second)}


def where_heads_look(weights: Tensor, pointers: Tensor) -> Tensor:
    """Peso medio de cada cabeza en la posición anterior y en la señalada.

    Args:
        weights: (batch, h, n, n).
        pointers: (batch, n).

    Returns:
        (h, 2): columna 0, la anterior; columna 1, la señalada.
    """
    n = weights.shape[-1]
    previous = weights[..., torch.arange(n), torch.arange(n) - 1]  # (batch, h, n); −1 es la última
    pointed = weights.gather(-1, pointers[:, None, :, None].expand(-1, weights.shape[1], -1, 1))[..., 0]
    return torch.stack([previous.mean((0, 2)), pointed.mean((0, 2))], -1)


@dataclass
class TwoThingsRun:
    """Lo que deja un entrenamiento: el modelo, sus notas en secuencias nuevas y adónde mira cada cabeza, (h, 2)."""

    model: TwoThings
    scores: dict[str, float]
    looks: Tensor


def train(
    num_heads: int,
    task: str = "symbols",
    *,
    length: int | None = None,
    d_model: int = 32,
    mlp: bool = False,
    seed: int = 0,
    num_steps: int = 800,
    lr: float = 5e-3,
) -> TwoThingsRun:
    """Entrena con Adam y OneCycle (lotes de 64 secuencias nuevas) y examina con 300 secuencias más.

    Args:
        num_heads: h.
        task: una clave de `TASKS`.
        length, d_model, mlp: los de `TwoThings`.
        seed: fija los pesos iniciales y las secuencias; con la misma semilla, dos h ven los mismos datos.
        num_steps: pasos de entrenamiento.
        lr: la mayor tasa de aprendizaje del programa OneCycle.

    Returns:
        Modelo, notas y adónde mira cada cabeza.
    """
    generator = torch.Generator().manual_seed(1_000 + seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = TwoThings(num_heads, task, length=length, d_model=d_model, mlp=mlp)
    optimizer = torch.optim.Adam(model.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, lr, total_steps=num_steps)
    for _ in steps(num_steps, f"h = {num_heads}"):
        payload, pointers = sample(task, 64, model.length, generator)
        loss = loss_of(task, model(payload, pointers)[0], *wanted(payload, pointers))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        payload, pointers = sample(task, 300, model.length, generator)
        output, weights = model(payload, pointers, need_weights=True)
        scores = scores_of(task, output, *wanted(payload, pointers))
        return TwoThingsRun(model.eval(), scores, where_heads_look(weights, pointers))


def read_mixture(
    weight: float, *, mlp: bool = False, d_model: int = 32, seed: int = 0, num_steps: int = 1_000
) -> float:
    """Regala la mezcla exacta, α·e_a + (1 − α)·e_b, y entrena solo lo que queda: los vectores e y la lectura.

    Sin buscar posiciones ni pesos que aprender, lo que falle aquí no es del entrenamiento de la atención. Los datos son
    los 100 pares (a, b), completos en cada paso.

    Args:
        weight: α, el peso del primer dato; el segundo lleva 1 − α.
        mlp: lee a través de una red *feed-forward* con residuo, como en `TwoThings`, y no solo con una matriz.
        d_model: anchura de los vectores e.
        seed: fija los pesos iniciales.
        num_steps: pasos de Adam, con OneCycle hasta 1e-2.

    Returns:
        Proporción de los 100 pares que se aciertan enteros.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        vectors = nn.Embedding(NUM_SYMBOLS, d_model)
        inner = nn.Sequential(nn.Linear(d_model, 4 * d_model), nn.GELU(), nn.Linear(4 * d_model, d_model))
        read = nn.Linear(d_model, 2 * NUM_SYMBOLS)
    first, second = torch.cartesian_prod(torch.arange(NUM_SYMBOLS), torch.arange(NUM_SYMBOLS)).unbind(1)

    def output() -> Tensor:
        y = weight * vectors(first) + (1 - weight) * vectors(second)  # (100, d_model)
        return read(y + inner(y) if mlp else y)

    parameters = [*vectors.parameters(), *read.parameters(), *(inner.parameters() if mlp else ())]
    optimizer = torch.optim.Adam(parameters)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=num_steps)
    for _ in steps(num_steps, f"α = {weight}"):
        loss = loss_of("symbols", output()[None], first[None], second[None])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        return scores_of("symbols", output()[None], first[None], second[None])["both"]


def record(seeds: list[int]) -> dict:
    """Las medidas del capítulo 03, una cifra por semilla."""

    def runs(num_heads: int, task: str = "symbols", **options) -> dict[str, list]:
        measured = [train(num_heads, task, seed=seed, **options) for seed in seeds]
        notes = {name: [round(run.scores[name], 4) for run in measured] for name in measured[0].scores}
        # Adónde mira cada cabeza, solo si son pocas: una lista (h, 2) por semilla.
        looks = [[[round(x, 3) for x in head] for head in run.looks.tolist()] for run in measured]
        return {**notes, "looks": looks} if num_heads <= 2 else notes

    def mixtures(mlp: bool) -> dict[str, list[float]]:
        weights = (0.5, 0.6, 0.7, 0.8, 0.9)
        return {
            str(weight): [round(read_mixture(weight, mlp=mlp, seed=seed), 2) for seed in seeds] for weight in weights
        }

    shapes = {"n48_d32": (48, 32), "n24_d32": (24, 32), "n24_d64": (24, 64)}
    return {
        "parameters": {str(h): sum(p.numel() for p in TwoThings(h).parameters()) for h in (1, 2, 4, 8, 16, 32)},
        "symbols": {str(h): runs(h) for h in (1, 2, 4, 8, 16, 32)},
        "symbols_4000_steps": {"1": runs(1, num_steps=4_000)},
        "symbols_rates": {"1": {str(lr): runs(1, lr=lr) for lr in (1e-3, 2e-2)}},
        "symbols_mlp": {
            **{f"{shape}_h1": runs(1, length=n, d_model=d, mlp=True) for shape, (n, d) in shapes.items()},
            "n48_d32_h2": runs(2, mlp=True),
        },
        "symbols_n24_d64": {"1": runs(1, length=24, d_model=64)},
        "vectors": {str(h): runs(h, "vectors") for h in (1, 2, 4, 8, 16)},
        "vectors_mlp": {str(h): runs(h, "vectors", mlp=True) for h in (1, 2)},
        "sum": {str(h): runs(h, "sum") for h in (1, 2)},
        "difference": {str(h): runs(h, "difference") for h in (1, 2)},
        "mixture": {"linear": mixtures(False), "mlp": mixtures(True)},
    }
