"""Buscar en una tabla con una cabeza: ¿qué pasa al entrenar con y sin dividir entre √d_k? (capítulo 02).

Cada secuencia es una tabla de 32 fichas: una clave (distinta en cada ficha, de 64 posibles) y un valor (de 16).
Se pregunta por una de las claves y hay que decir su valor: la atención tiene que encontrar la ficha. Al azar, 1/16.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..attention import scaled_dot_product_attention
from .training import steps

NUM_KEYS, NUM_VALUES, NUM_CARDS = 64, 16, 32
ARMS = ("scaled", "raw", "raw_small_init")


def sample_tables(batch: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Sortea tablas y preguntas.

    Args:
        batch: número de tablas.
        generator: de donde salen los números.

    Returns:
        Claves (batch, 32), valores (batch, 32), clave preguntada (batch,) y valor correcto (batch,).
    """
    keys = torch.rand(batch, NUM_KEYS, generator=generator).argsort(-1)[:, :NUM_CARDS]
    values = torch.randint(NUM_VALUES, (batch, NUM_CARDS), generator=generator)
    asked = torch.randint(NUM_CARDS, (batch, 1), generator=generator)
    return keys, values, keys.gather(1, asked)[:, 0], values.gather(1, asked)[:, 0]


class LookupHead(nn.Module):
    """Una cabeza que lee la tabla: softmax(QKᵀ/√d_k)V, o sin la escala, y una lectura lineal del valor.

    La entrada pasa por LayerNorm y las proyecciones nacen con varianza 1/d_model: al empezar, cada componente de una
    consulta o de una clave tiene varianza cercana a 1, que es el supuesto con que se justifica √d_k.

    Args:
        head_dim: d_k, anchura de consultas, claves y valores.
        arm: "scaled" divide entre √d_k; "raw" no divide; "raw_small_init" tampoco, pero W_Q nace √d_k veces menor,
            de modo que las puntuaciones iniciales son las mismas que con la escala.
        d_model: anchura de los embeddings.
    """

    def __init__(self, head_dim: int, arm: str = "scaled", d_model: int = 64):
        super().__init__()
        if arm not in ARMS:
            raise ValueError(f"Se esperaba una variante de {', '.join(ARMS)}; llegó «{arm}».")
        self.key_embedding = nn.Embedding(NUM_KEYS, d_model)
        self.value_embedding = nn.Embedding(NUM_VALUES, d_model)
        self.norm = nn.LayerNorm(d_model)
        self.w_q, self.w_k, self.w_v = (nn.Parameter(torch.randn(d_model, head_dim) / d_model**0.5) for _ in range(3))
        self.read = nn.Linear(head_dim, NUM_VALUES)
        if arm == "raw_small_init":
            self.w_q.data /= head_dim**0.5
        # Quien no quiere la escala la deshace: (√d_k · q) · k / √d_k = q · k.
        self.undo = 1.0 if arm == "scaled" else head_dim**0.5

    def forward(self, keys: Tensor, values: Tensor, asked: Tensor) -> tuple[Tensor, Tensor]:
        """Responde a las preguntas.

        Args:
            keys, values: fichas de cada tabla, (batch, 32).
            asked: clave preguntada, (batch,).

        Returns:
            *Logits* del valor (batch, 16) y pesos de atención sobre las fichas (batch, 32).
        """
        cards = self.norm(self.key_embedding(keys) + self.value_embedding(values))  # (batch, 32, d_model)
        question = self.norm(self.key_embedding(asked))[:, None]  # (batch, 1, d_model)
        output, weights = scaled_dot_product_attention(
            question @ self.w_q * self.undo, cards @ self.w_k, cards @ self.w_v, need_weights=True
        )
        return self.read(output[:, 0]), weights[:, 0]


@dataclass
class LookupRun:
    """Lo que deja un entrenamiento: el acierto en tablas nuevas y la pérdida de cada paso (nats)."""

    accuracy: float
    losses: list[float]


def train(head_dim: int, arm: str = "scaled", *, lr: float = 1e-3, seed: int = 0, num_steps: int = 400) -> LookupRun:
    """Entrena una cabeza con Adam (lotes de 64 tablas nuevas) y la examina con 2000 tablas más.

    Args:
        head_dim: d_k.
        arm: una de `ARMS`.
        lr: tasa de aprendizaje.
        seed: fija los pesos iniciales y las tablas; dos variantes con la misma semilla ven lo mismo.
        num_steps: pasos de entrenamiento.

    Returns:
        Acierto y pérdidas.
    """
    generator = torch.Generator().manual_seed(1_000 + seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LookupHead(head_dim, arm)
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    losses = []
    for _ in steps(num_steps, f"d_k = {head_dim}, {'con' if arm == 'scaled' else 'sin'} escala"):
        keys, values, asked, answer = sample_tables(64, generator)
        loss = F.cross_entropy(model(keys, values, asked)[0], answer)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    with torch.no_grad():
        keys, values, asked, answer = sample_tables(2_000, generator)
        accuracy = (model(keys, values, asked)[0].argmax(-1) == answer).float().mean().item()
    return LookupRun(accuracy, losses)


def record(seeds: list[int]) -> dict:
    """El barrido del capítulo 02: acierto por variante, d_k y tasa de aprendizaje, una cifra por semilla."""
    rates = (3e-4, 1e-3, 3e-3, 1e-2)
    head_dims = {"scaled": (16, 64, 256), "raw": (16, 64, 256), "raw_small_init": (256,)}

    def accuracies(head_dim: int, arm: str, lr: float, num_steps: int = 400) -> list[float]:
        runs = (train(head_dim, arm, lr=lr, seed=seed, num_steps=num_steps) for seed in seeds)
        return [round(run.accuracy, 4) for run in runs]

    return {
        "num_steps": 400,
        "learning_rates": list(rates),
        "accuracy": {
            arm: {str(d_k): {str(lr): accuracies(d_k, arm, lr) for lr in rates} for d_k in dims}
            for arm, dims in head_dims.items()
        },
        "raw_256_lr_0.001_2000_steps": accuracies(256, "raw", 1e-3, num_steps=2_000),
    }
