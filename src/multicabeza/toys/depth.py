"""Apilar bloques de transformer: qué cambia con y sin conexión residual, y según dónde se normalice (capítulo 04).

Un bloque es atención multicabeza y red *feed-forward*. Tres variantes con los mismos parámetros y los mismos pesos
iniciales; solo cambia lo que se hace con la entrada x y la salida f(x) de cada pieza:

    "none"   x ← LN(f(x))          sin conexión residual
    "post"   x ← LN(x + f(x))      Post-LN, la de 2017
    "pre"    x ← x + f(LN(x))      Pre-LN, la más corriente hoy

La tarea del entrenamiento es leer una secuencia y decirla al revés. Una sola capa de atención puede hacerlo, así que
si una pila honda no lo aprende no es porque le falten piezas. Al azar se acierta 1 de cada 10.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..attention import MultiHeadAttention
from .training import steps

ARMS = ("none", "post", "pre")
NUM_SYMBOLS, LENGTH = 10, 12
D_MODEL, NUM_HEADS = 32, 4
BATCH = 32


def sample_sequences(batch: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Sortea secuencias y su respuesta.

    Args:
        batch: número de secuencias.
        generator: de donde salen los números.

    Returns:
        Secuencias (batch, 12) de símbolos entre 0 y 9, y lo que hay que decir: las mismas, al revés.
    """
    symbols = torch.randint(NUM_SYMBOLS, (batch, LENGTH), generator=generator)
    return symbols, symbols.flip(1)


class Block(nn.Module):
    """Atención multicabeza y red *feed-forward*, cada una con su normalización.

    Args:
        arm: una de `ARMS`.
        d_model: anchura del flujo residual.
        num_heads: número de cabezas.

    Raises:
        ValueError: si la variante no existe.
    """

    def __init__(self, arm: str, d_model: int = D_MODEL, num_heads: int = NUM_HEADS):
        super().__init__()
        if arm not in ARMS:
            raise ValueError(f"Se esperaba una variante de {', '.join(ARMS)}; llegó «{arm}».")
        self.arm = arm
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.mlp = nn.Sequential(nn.Linear(d_model, 4 * d_model), nn.ReLU(), nn.Linear(4 * d_model, d_model))
        self.norms = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        """Aplica el bloque.

        Args:
            x: (batch, n, d_model).

        Returns:
            (batch, n, d_model).
        """
        for piece, norm in zip((self.attention, self.mlp), self.norms, strict=True):
            if self.arm == "pre":
                x = x + piece(norm(x))
            elif self.arm == "post":
                x = norm(x + piece(x))
            else:
                x = norm(piece(x))
        return x


class Stack(nn.Module):
    """Una pila de bloques sobre embeddings de símbolo y de posición, con una lectura lineal en cada posición.

    Las matrices nacen con la inicialización de Xavier y los sesgos a 0, como en el análisis de Xiong et al. (2020);
    los embeddings, con varianza 1/2 cada uno, para que su suma tenga varianza 1. Todas las variantes llevan una
    LayerNorm antes de la lectura: Pre-LN la necesita y a las otras, al nacer, no les cambia nada.

    Args:
        depth: número de bloques.
        arm: una de `ARMS`.
    """

    def __init__(self, depth: int, arm: str):
        super().__init__()
        self.symbols = nn.Embedding(NUM_SYMBOLS, D_MODEL)
        self.positions = nn.Embedding(LENGTH, D_MODEL)
        self.blocks = nn.ModuleList(Block(arm) for _ in range(depth))
        self.final_norm = nn.LayerNorm(D_MODEL)
        self.read = nn.Linear(D_MODEL, NUM_SYMBOLS)
        for embedding in (self.symbols, self.positions):
            nn.init.normal_(embedding.weight, std=0.5**0.5)
        for module in self.modules():
            if isinstance(module, MultiHeadAttention):
                for weight in module.qkv_proj.weight.chunk(3):  # W^Q, W^K y W^V, cada una por separado
                    nn.init.xavier_uniform_(weight)
                nn.init.xavier_uniform_(module.out_proj.weight)
            elif isinstance(module, nn.Sequential):
                for linear in (module[0], module[2]):
                    nn.init.xavier_uniform_(linear.weight)
                    nn.init.zeros_(linear.bias)

    def forward(self, symbols: Tensor) -> Tensor:
        """Dice un símbolo en cada posición.

        Args:
            symbols: (batch, 12).

        Returns:
            *Logits* (batch, 12, 10).
        """
        return self.read(self.final_norm(self.streams(symbols)[-1]))

    def streams(self, symbols: Tensor) -> list[Tensor]:
        """El vector de cada token a la entrada y tras cada bloque: depth + 1 tensores (batch, 12, d_model)."""
        states = [self.symbols(symbols) + self.positions.weight]
        for block in self.blocks:
            states.append(block(states[-1]))
        return states


def bag_accuracy(num_sequences: int = 20_000) -> float:
    """Lo que acierta quien sabe qué símbolos hay en la secuencia pero no dónde: decir siempre el más repetido."""
    symbols, _ = sample_sequences(num_sequences, torch.Generator().manual_seed(0))
    counts = F.one_hot(symbols, NUM_SYMBOLS).sum(1)  # (num_sequences, 10)
    return (counts.amax(1) / LENGTH).mean().item()


def new_stack(depth: int, arm: str, seed: int = 0) -> Stack:
    """Una pila recién nacida; con la misma semilla, las tres variantes tienen los mismos pesos."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Stack(depth, arm)


# --- Al nacer --------------------------------------------------------------------------------------------------------


def spread(x: Tensor) -> float:
    """Cuánto se distinguen los tokens de una secuencia: la parte de sus vectores que no es común a todos.

    ‖X − 1·x̄ᵀ‖ / ‖X‖ en norma de Frobenius, con x̄ la media de los tokens; media de las secuencias. Vale 0 si todos los
    tokens son el mismo vector.

    Args:
        x: (batch, n, d_model).

    Returns:
        Un número entre 0 y 1.

    Fuente: Dong, Cordonnier y Loukas (2021) miden el mismo residuo, sin dividir y con otra norma.
    """
    return ((x - x.mean(1, keepdim=True)).norm(dim=(1, 2)) / x.norm(dim=(1, 2))).mean().item()


@dataclass
class Birth:
    """Una pila recién nacida, medida con un lote.

    Attributes:
        spread: cuánto se distinguen los tokens a la entrada y tras cada bloque (depth + 1 números).
        gradient: norma del gradiente de la segunda matriz de la *feed-forward* de cada bloque (depth números), la que
            miden Xiong et al. (2020).
    """

    spread: list[float]
    gradient: list[float]


def at_birth(depth: int, arm: str, *, seed: int = 0) -> Birth:
    """Mide una pila antes de entrenarla, en float64: sin residual hay diferencias que float32 no distingue de 0.

    Args:
        depth: número de bloques.
        arm: una de `ARMS`.
        seed: fija los pesos y el lote.

    Returns:
        La distinción entre tokens y los gradientes, por bloque.
    """
    model = new_stack(depth, arm, seed).double()
    symbols, answers = sample_sequences(BATCH, torch.Generator().manual_seed(1_000 + seed))
    with torch.no_grad():
        spreads = [spread(state) for state in model.streams(symbols)]
    F.cross_entropy(model(symbols).flatten(0, 1), answers.flatten()).backward()
    return Birth(spreads, [block.mlp[2].weight.grad.norm().item() for block in model.blocks])


# --- Entrenar --------------------------------------------------------------------------------------------------------


@dataclass
class DepthRun:
    """Lo que deja un entrenamiento: el acierto en secuencias nuevas y la pérdida de cada paso (nats por símbolo)."""

    accuracy: float
    losses: list[float]


def train(depth: int, arm: str, *, lr: float = 1e-3, warmup: int = 0, seed: int = 0, num_steps: int = 300) -> DepthRun:
    """Entrena una pila con Adam (lotes de 32 secuencias nuevas) y la examina con 500 más.

    Args:
        depth: número de bloques.
        arm: una de `ARMS`.
        lr: tasa de aprendizaje.
        warmup: pasos en los que la tasa sube en línea recta hasta `lr`; después se queda ahí.
        seed: fija los pesos iniciales y los datos; dos variantes con la misma semilla ven lo mismo.
        num_steps: pasos de entrenamiento.

    Returns:
        Acierto y pérdidas.
    """
    generator = torch.Generator().manual_seed(1_000 + seed)
    model = new_stack(depth, arm, seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=lr, fused=True)
    losses = []
    for step in steps(num_steps, f"{depth} bloques, {arm}"):
        for group in optimizer.param_groups:
            group["lr"] = lr * min(1.0, (step + 1) / warmup) if warmup else lr
        symbols, answers = sample_sequences(BATCH, generator)
        loss = F.cross_entropy(model(symbols).flatten(0, 1), answers.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    with torch.no_grad():
        symbols, answers = sample_sequences(500, generator)
        accuracy = (model(symbols).argmax(-1) == answers).float().mean().item()
    return DepthRun(accuracy, losses)


# --- El registro -----------------------------------------------------------------------------------------------------


def record(seeds: list[int]) -> dict:
    """Las medidas del capítulo 04, una cifra por semilla: al nacer, y el acierto por hondura, tasa y calentamiento."""
    blocks = (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48)
    depths = (2, 4, 6, 12, 24, 48)
    # En vez de decimales fijos, tres cifras: hay medidas de 1e-16.
    births = {(arm, depth): [at_birth(depth, arm, seed=seed) for seed in seeds] for arm in ARMS for depth in depths}
    values: dict = {"bag_accuracy": round(bag_accuracy(), 3), "spread": {}, "first_gradient": {}, "last_gradient": {}}
    for arm in ARMS:
        deepest = births[arm, max(depths)]
        values["spread"][arm] = {str(block): [_short(birth.spread[block]) for birth in deepest] for block in blocks}
        for name, place in (("first_gradient", 0), ("last_gradient", -1)):
            values[name][arm] = {
                str(depth): [_short(birth.gradient[place]) for birth in births[arm, depth]] for depth in depths
            }

    def accuracies(depth: int, arm: str, lr: float, warmup: int, num_steps: int = 300) -> list[float]:
        runs = (train(depth, arm, lr=lr, warmup=warmup, seed=seed, num_steps=num_steps) for seed in seeds)
        return [round(run.accuracy, 4) for run in runs]

    grid = {2: ((1e-3, 3e-3, 1e-2), (0,)), 6: ((1e-3, 3e-3, 1e-2), (0, 100)), 12: ((1e-3, 3e-3), (0, 100))}
    values["num_steps"] = 300
    values["accuracy"] = {
        arm: {
            str(depth): {
                str(warmup): {str(lr): accuracies(depth, arm, lr, warmup) for lr in rates} for warmup in warmups
            }
            for depth, (rates, warmups) in grid.items()
        }
        for arm in ARMS
    }
    values["accuracy_1000_steps"] = {
        "none_6": accuracies(6, "none", 1e-3, 100, num_steps=1_000),
        "post_12": accuracies(12, "post", 1e-3, 100, num_steps=1_000),
    }
    return values


def _short(value: float) -> float:
    return float(f"{value:.3g}")
