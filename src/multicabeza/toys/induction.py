"""Cabezas de inducción que se forman en segundos (capítulo 06): [A][B] … [A] → [B].

La tarea es predecir el token siguiente de una secuencia al azar que se repite: token i = token (i mod P), con un
periodo P distinto en cada secuencia, de 8 a 32. Como P cambia, no vale aprender «mira tantas posiciones atrás»: hay
que encontrar dónde salió antes el token actual y copiar lo que lo siguió.

El modelo solo tiene atención, para poder mirarlo entero y llevarlo a otro lenguaje sin sorpresas. Con n tokens y 64
componentes:

    x = tokens[t] + positions[0 … n−1]
    por cada capa l:   x ← x + layers[l](norms[l](x))        4 cabezas causales de 16 componentes, sin sesgos
    logits = unembed(final_norm(x))

Las LayerNorm son las de PyTorch (eps = 1e-5). Los parámetros, con los nombres de su `state_dict` (45 440 con dos
capas):

| nombre | forma | qué es |
|---|---|---|
| `tokens.weight` | (64, 64) | el vector de cada token |
| `positions.weight` | (64, 64) | el de cada posición |
| `norms.l.weight`, `norms.l.bias` | (64,) | LayerNorm antes de la capa l |
| `layers.l.qkv_proj.weight` | (192, 64) | filas 0–63 de Q, 64–127 de K, 128–191 de V; en cada una, 16 por cabeza |
| `layers.l.out_proj.weight` | (64, 64) | W^O traspuesta: las columnas 16i … 16i + 15 son de la cabeza i |
| `final_norm.weight`, `final_norm.bias` | (64,) | LayerNorm de salida |
| `unembed.weight` | (64, 64) | del vector a los *logits*; no se comparte con `tokens` |

Fuente: Elhage et al. (2021), «A Mathematical Framework for Transformer Circuits»; Olsson et al. (2022), «In-context
Learning and Induction Heads».
"""

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..attention import MultiHeadAttention, causal_mask, merge_heads, scaled_dot_product_attention, split_heads
from ..heads import ablate, prefix_matching_score, previous_token_score
from .training import steps

VOCABULARY, LENGTH, PERIODS = 64, 64, (8, 32)
D_MODEL, NUM_HEADS = 64, 4
BATCH, LEARNING_RATE = 32, 1e-3
EXAM = 128  # secuencias con las que se mide, siempre las mismas

# Lo que se compara. La intervención de cada una es la única diferencia con «two».
ARMS = {
    "two": "dos capas",
    "one": "una capa",
    "smeared": "una capa, claves emborronadas",
    "blind_1": "la capa 0 no ve el token anterior",
    "blind_2": "la capa 0 no ve el de dos atrás",
}


# --- Datos -----------------------------------------------------------------------------------------------------------


def sample_sequences(batch: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Sortea secuencias que se repiten.

    Args:
        batch: número de secuencias.
        generator: de donde salen los números.

    Returns:
        Los tokens (batch, 64) y el periodo de cada secuencia (batch, 1), entre 8 y 32.
    """
    base = torch.randint(VOCABULARY, (batch, LENGTH), generator=generator)
    low, high = PERIODS
    period = torch.randint(low, high + 1, (batch, 1), generator=generator)
    return base.gather(1, torch.arange(LENGTH) % period), period


def exam() -> tuple[Tensor, Tensor]:
    """Las secuencias con que se mide todo: 128, siempre las mismas, que no salen al entrenar."""
    return sample_sequences(EXAM, torch.Generator().manual_seed(999))


def parts(period: Tensor) -> tuple[Tensor, Tensor]:
    """En qué consultas se puede acertar, y en cuáles no.

    Repetidas: las i ≥ P; el token actual ya salió y el siguiente también. Nuevas: las que predicen un token de la
    primera vuelta, que es puro azar. La consulta P − 1 no es de ninguna: el siguiente es viejo, pero nada lo anuncia.

    Args:
        period: (batch, 1).

    Returns:
        Dos booleanas (batch, 63): una entrada por predicción.
    """
    query = torch.arange(LENGTH - 1)
    return query >= period, query + 1 < period


def plateau(tokens: Tensor, period: Tensor) -> float:
    """La pérdida, en la parte repetida, de quien sabe qué tokens hay en el periodo y no en qué orden van.

    Da a cada token la frecuencia que tiene en el periodo: la media de −log(veces/P). Es lo mejor que puede hacer quien
    solo dice «alguno de los de antes».

    Args:
        tokens: (batch, 64).
        period: (batch, 1).

    Returns:
        Nats por token.
    """
    repeated, _ = parts(period)
    first_turn = torch.arange(LENGTH) < period  # (batch, 64)
    same = tokens[:, 1:, None] == tokens[:, None, :]  # (batch, 63, 64): el siguiente, contra cada token
    share = (same & first_turn[:, None]).sum(-1) / period  # (batch, 63)
    return -share[repeated].log().mean().item()


# --- El modelo -------------------------------------------------------------------------------------------------------


class SmearedKeys(nn.Module):
    """Claves emborronadas: k_j ← σ(α)·k_j + (1 − σ(α))·k_{j−1}, con un α por cabeza que se aprende.

    Cada clave lleva algo de la anterior, así que una cabeza puede preguntar «¿qué iba antes de ti?» sin ayuda de otra.
    Se pone en el sitio de `rotary`. La primera clave se mezcla consigo misma.

    Fuente: Olsson et al. (2022), «Argument 2».

    Args:
        num_heads: número de cabezas h.
    """

    def __init__(self, num_heads: int = NUM_HEADS):
        super().__init__()
        self.alpha = nn.Parameter(torch.zeros(num_heads, 1, 1))

    def forward(self, query: Tensor, key: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Mezcla cada clave con la anterior.

        Args:
            query: (batch, h, n, d_k); queda igual.
            key: (batch, h, n, d_k).
            positions: no se usan.

        Returns:
            Consultas y claves.
        """
        before = torch.cat([key[..., :1, :], key[..., :-1, :]], dim=-2)
        gate = self.alpha.sigmoid()
        return query, gate * key + (1 - gate) * before


class InductionModel(nn.Module):
    """Transformer causal de solo atención; la forma de sus parámetros está al principio del archivo.

    Args:
        num_layers: capas de atención.
        smeared: con claves emborronadas (`SmearedKeys`).
        blind: distancia a la que la capa 0 no puede mirar (1, el token anterior); None, sin prohibición.
    """

    def __init__(self, num_layers: int = 2, *, smeared: bool = False, blind: int | None = None):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, D_MODEL)
        self.positions = nn.Embedding(LENGTH, D_MODEL)
        self.layers = nn.ModuleList(
            MultiHeadAttention(D_MODEL, NUM_HEADS, bias=False, rotary=SmearedKeys() if smeared else None)
            for _ in range(num_layers)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(D_MODEL) for _ in range(num_layers))
        self.final_norm = nn.LayerNorm(D_MODEL)
        self.unembed = nn.Linear(D_MODEL, VOCABULARY, bias=False)
        self.mask = None
        if blind is not None:
            position = torch.arange(LENGTH)
            self.mask = causal_mask(LENGTH) & (position[:, None] - position != blind)

    def forward(self, tokens: Tensor, *, need_weights: bool = False) -> Tensor | tuple[Tensor, Tensor]:
        """Predice el token siguiente en cada posición.

        Args:
            tokens: (batch, n), con n ≤ 64.
            need_weights: devuelve también los pesos de atención.

        Returns:
            *Logits* (batch, n, 64), o la pareja con los pesos (num_layers, batch, h, n, n).

        Raises:
            ValueError: si la secuencia no cabe.
        """
        n = tokens.shape[-1]
        if n > LENGTH:
            raise ValueError(
                f"Se esperaban {LENGTH} tokens como mucho y llegaron {n}: no hay más posiciones aprendidas."
            )
        x = self.tokens(tokens) + self.positions.weight[:n]  # (batch, n, d_model)
        maps = []
        for number, (layer, norm) in enumerate(zip(self.layers, self.norms, strict=True)):
            mask = self.mask[:n, :n] if self.mask is not None and number == 0 else None
            written = layer(norm(x), mask=mask, is_causal=True, need_weights=need_weights)
            if need_weights:
                written, weights = written
                maps.append(weights)
            x = x + written
        logits = self.unembed(self.final_norm(x))
        return (logits, torch.stack(maps)) if need_weights else logits


def new_model(arm: str = "two", seed: int = 0) -> InductionModel:
    """Un modelo recién nacido; los de dos capas, con la misma semilla, tienen los mismos pesos.

    Args:
        arm: una de `ARMS`.
        seed: fija los pesos.

    Returns:
        El modelo.

    Raises:
        ValueError: si la variante no existe.
    """
    if arm not in ARMS:
        raise ValueError(f"Se esperaba una variante de {', '.join(ARMS)}; llegó «{arm}».")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return InductionModel(
            1 if arm in ("one", "smeared") else 2,
            smeared=arm == "smeared",
            blind={"blind_1": 1, "blind_2": 2}.get(arm),
        )


# --- Medir -----------------------------------------------------------------------------------------------------------


@dataclass
class Measure:
    """Un modelo, medido con las secuencias del examen.

    Attributes:
        repeated: pérdida en la parte repetida (nats por token).
        fresh: pérdida en la primera vuelta, donde el token siguiente es puro azar.
        prefix: índice de emparejamiento de prefijo de cada cabeza, sumado sobre todas las copias (num_layers × h).
        previous: índice de token anterior de cada cabeza (num_layers × h).
    """

    repeated: float
    fresh: float
    prefix: list[list[float]]
    previous: list[list[float]]

    @property
    def matching(self) -> float:
        """El emparejamiento de prefijo de la última capa: la media de sus cabezas."""
        return sum(self.prefix[-1]) / len(self.prefix[-1])


@torch.no_grad()
def measure(model: InductionModel, tokens: Tensor, period: Tensor) -> Measure:
    """Mide un modelo.

    Args:
        model: el modelo.
        tokens: (batch, 64).
        period: (batch, 1).

    Returns:
        Pérdidas e índices.
    """
    return _summary(*model(tokens, need_weights=True), tokens, period)


def _summary(logits: Tensor, weights: Tensor, tokens: Tensor, period: Tensor) -> Measure:
    """Las medidas de una pasada: *logits* (batch, 64, 64) y pesos (num_layers, batch, h, 64, 64)."""
    losses = F.cross_entropy(logits[:, :-1].transpose(1, 2), tokens[:, 1:], reduction="none")  # (batch, 63)
    repeated, fresh = parts(period)
    return Measure(
        losses[repeated].mean().item(),
        losses[fresh].mean().item(),
        prefix_matching_score(weights, tokens).mean(1).tolist(),
        previous_token_score(weights).mean(1).tolist(),
    )


def ablation_table(model: InductionModel, groups: dict[str, list[tuple[int, int]]], how: str = "zero") -> dict:
    """Mide un modelo con cada grupo de cabezas apagado.

    Args:
        model: el modelo.
        groups: nombre → parejas (capa, cabeza).
        how: como en `mc.ablate`.

    Returns:
        nombre → `Measure`.
    """
    tokens, period = exam()
    table = {}
    for name, heads in groups.items():
        with ablate(model, heads, how=how):
            table[name] = measure(model, tokens, period)
    return table


def previous_heads(measured: Measure) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Las cuatro cabezas de la capa 0, en dos mitades: las que más miran al token anterior, y las otras.

    Args:
        measured: medida de un modelo.

    Returns:
        Dos listas de parejas (0, cabeza), de la que más mira a la que menos.
    """
    order = sorted(range(NUM_HEADS), key=lambda head: -measured.previous[0][head])
    pairs = [(0, head) for head in order]
    return pairs[: NUM_HEADS // 2], pairs[NUM_HEADS // 2 :]


@torch.no_grad()
def measure_cut(model: InductionModel, heads: list[tuple[int, int]], reader: str) -> Measure:
    """Mide un modelo de dos capas en el que la capa 1 no puede leer, por una sola vía, lo que escriben unas cabezas.

    Apagar una cabeza de la capa 0 le quita a la capa 1 lo que leían sus consultas, sus claves y sus valores. Aquí se
    corta una sola de las tres: consultas, claves y valores se calculan como siempre, menos los de la vía `reader`, que
    se proyectan de un flujo en el que esas cabezas no han escrito. Es la manera de ver por dónde se componen dos capas.

    Fuente: Elhage et al. (2021), que llaman composición Q, K y V a las tres vías.

    Args:
        model: un modelo de dos capas.
        heads: parejas (0, cabeza).
        reader: «query», «key» o «value».

    Returns:
        La medida, con las secuencias del examen.

    Raises:
        ValueError: si la vía no existe.
    """
    readers = ("query", "key", "value")
    if reader not in readers:
        raise ValueError(f"Se esperaba una vía de {', '.join(readers)}; llegó «{reader}».")
    tokens, period = exam()
    first, second = model.layers
    embedded = model.tokens(tokens) + model.positions.weight
    written, first_weights = first(model.norms[0](embedded), mask=model.mask, is_causal=True, need_weights=True)
    with ablate(first, heads):
        silenced = first(model.norms[0](embedded), mask=model.mask, is_causal=True)
    streams = [embedded + (silenced if name == reader else written) for name in readers]
    projected = [
        split_heads(second.qkv_proj(model.norms[1](stream)).chunk(3, dim=-1)[place], NUM_HEADS)
        for place, stream in enumerate(streams)
    ]  # (batch, h, 64, d_k) ×3
    output, second_weights = scaled_dot_product_attention(*projected, is_causal=True, need_weights=True)
    stream = embedded + written + second.out_proj(merge_heads(output))
    logits = model.unembed(model.final_norm(stream))
    return _summary(logits, torch.stack([first_weights, second_weights]), tokens, period)


# --- Entrenar --------------------------------------------------------------------------------------------------------


@dataclass
class Run:
    """Lo que deja un entrenamiento.

    Attributes:
        steps: pasos en los que se midió.
        measures: una medida por paso de `steps`.
        model: el modelo, al final.
        states: paso → copia de los pesos, en los pasos que se pidieron.
    """

    steps: list[int]
    measures: list[Measure]
    model: InductionModel
    states: dict[int, dict[str, Tensor]] = field(default_factory=dict)

    def curve(self, name: str) -> list[float]:
        """Una medida a lo largo del entrenamiento: «repeated», «fresh», «matching» o «previous» (la mejor cabeza)."""
        if name == "previous":
            return [max(measured.previous[0]) for measured in self.measures]
        return [getattr(measured, name) for measured in self.measures]


def schedule(num_steps: int) -> list[int]:
    """Cuándo se mide: 0, 1, 2, 5, 10, 20 y, después, cada 50 pasos."""
    return sorted({step for step in (0, 1, 2, 5, 10, 20, *range(50, num_steps + 1, 50)) if step <= num_steps})


def train(arm: str = "two", *, seed: int = 0, num_steps: int = 1_200, keep: Iterable[int] = ()) -> Run:
    """Entrena una variante con Adam y lotes de 32 secuencias nuevas, y la mide por el camino.

    Args:
        arm: una de `ARMS`.
        seed: fija los pesos iniciales y los datos; dos variantes con la misma semilla ven las mismas secuencias.
        num_steps: pasos de entrenamiento.
        keep: pasos cuyos pesos se guardan en `Run.states`.

    Returns:
        El entrenamiento.

    Raises:
        ValueError: si la variante no existe.
    """
    model = new_model(arm, seed)
    generator = torch.Generator().manual_seed(1_000 + seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE, betas=(0.9, 0.98), fused=True)
    run, when, kept = Run([], [], model), set(schedule(num_steps)), set(keep)
    tokens, period = exam()
    for step in steps(num_steps + 1, ARMS[arm]):
        if step in when:
            run.steps.append(step)
            run.measures.append(measure(model, tokens, period))
        if step in kept:
            run.states[step] = {name: weight.clone() for name, weight in model.state_dict().items()}
        if step < num_steps:
            batch, _ = sample_sequences(BATCH, generator)
            loss = F.cross_entropy(model(batch)[:, :-1].flatten(0, 1), batch[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return run


def steepest(when: Sequence[int], losses: Sequence[float], window: int = 200) -> tuple[float, int]:
    """Cómo de brusca es una bajada: la parte que ocurre en los `window` pasos en que más baja.

    Args:
        when: pasos en que se midió, en orden.
        losses: la pérdida en cada uno.
        window: anchura de la ventana, en pasos.

    Returns:
        La parte de la bajada total (de la primera medida a la menor), y el paso en que empieza la ventana.
    """
    at = dict(zip(when, losses, strict=True))
    falls = {step: at[step] - at[step + window] for step in at if step + window in at}
    start = max(falls, key=falls.__getitem__)
    return falls[start] / (losses[0] - min(losses)), start


# --- Puntos de control -----------------------------------------------------------------------------------------------

CHECKPOINT_STEPS = (0, 400, 500, 600, 700, 800, 1_000, 1_600)
NUM_STEPS, LONG_STEPS = 1_600, 3_200


@cache
def _recorded_run(arm: str, seed: int) -> Run:
    """Un entrenamiento del registro; el de los puntos de control sirve para las dos cosas."""
    return train(arm, seed=seed, num_steps=LONG_STEPS if arm == "one" else NUM_STEPS, keep=CHECKPOINT_STEPS)


def checkpoint_path(step: int) -> str:
    """Dónde está, dentro de `results/`, el punto de control de un paso."""
    return f"induction/step_{step:04d}.safetensors"


def checkpoint_files(seeds: Sequence[int]) -> dict[str, bytes]:
    """Los puntos de control: los pesos de la primera semilla en ocho momentos, en float16.

    Args:
        seeds: las del registro.

    Returns:
        Ruta dentro de `results/` → contenido en formato safetensors.
    """
    from safetensors.torch import save

    states = _recorded_run("two", seeds[0]).states
    return {
        checkpoint_path(step): save(
            {name: weight.half().contiguous() for name, weight in states[step].items()},
            # Un solo dato: con dos, safetensors los escribe cada vez en un orden, y la huella del archivo cambia.
            metadata={"training": f"semilla {seeds[0]}, paso {step}"},
        )
        for step in CHECKPOINT_STEPS
    }


def load_checkpoint(step: int) -> InductionModel:
    """El modelo de dos capas tal como estaba en un paso de su entrenamiento, desde su punto de control.

    Los pesos se guardan en float16 y se usan en float32; lo que se pierde al redondear está en el registro `06_phase`.

    Args:
        step: uno de `CHECKPOINT_STEPS`.

    Returns:
        El modelo.

    Raises:
        ValueError: si no hay punto de control de ese paso.
        FileNotFoundError: si falta el archivo.
    """
    from safetensors.torch import load_file

    from .records import results_folders

    if step not in CHECKPOINT_STEPS:
        raise ValueError(
            f"No hay punto de control del paso {step}. Los que hay: {', '.join(map(str, CHECKPOINT_STEPS))}."
        )
    found = [folder / checkpoint_path(step) for folder in results_folders()]
    path = next((path for path in found if path.is_file()), None)
    if path is None:
        raise FileNotFoundError(
            f"Falta {checkpoint_path(step)} en results/. Rehazlo con: python -m multicabeza.toys.records 06_phase"
        )
    model = new_model("two")
    model.load_state_dict({name: weight.float() for name, weight in load_file(path).items()})
    return model.eval()


# --- El registro -----------------------------------------------------------------------------------------------------


def record(seeds: list[int]) -> dict:
    """Las medidas del capítulo 06: las curvas de cada variante y semilla, las ablaciones y los puntos de control."""
    tokens, period = exam()
    values: dict = {"plateau": round(plateau(tokens, period), 3), "chance": round(math.log(VOCABULARY), 3)}
    values["curves"] = {arm: {} for arm in ARMS}
    for arm in ARMS:
        runs = [_recorded_run(arm, seed) for seed in seeds]
        curves = values["curves"][arm]
        curves["steps"] = runs[0].steps
        for name in ("repeated", "fresh", "matching", "previous"):
            curves[name] = {str(seed): _round(run.curve(name)) for seed, run in zip(seeds, runs, strict=True)}
        last = [run.measures[-1] for run in runs]
        curves["final"] = {name: [round(getattr(measured, name), 3) for measured in last] for name in _NAMES}
    values["ablation"] = {str(seed): _ablations(_recorded_run("two", seed)) for seed in seeds}
    values["checkpoints"] = {"seed": seeds[0], "steps": list(CHECKPOINT_STEPS), "repeated": [], "float16": []}
    run = _recorded_run("two", seeds[0])
    for step in CHECKPOINT_STEPS:
        model = new_model("two")
        exact = run.measures[run.steps.index(step)].repeated
        model.load_state_dict({name: weight.half().float() for name, weight in run.states[step].items()})
        values["checkpoints"]["repeated"].append(round(exact, 4))
        values["checkpoints"]["float16"].append(round(measure(model, tokens, period).repeated, 4))
    contents = checkpoint_files(seeds)
    values["checkpoints"]["sha256"] = {path: hashlib.sha256(data).hexdigest() for path, data in contents.items()}
    return values


_NAMES = ("repeated", "fresh", "matching")


def _ablations(run: Run) -> dict:
    """Lo que pasa al apagar cada cabeza, y cada mitad de la capa 0, en un modelo entrenado."""
    whole = run.measures[-1]
    strong, weak = previous_heads(whole)
    single = {f"{layer}.{head}": [(layer, head)] for layer in range(2) for head in range(NUM_HEADS)}
    table = {"previous": _round(whole.previous[0]), "prefix": _round(whole.prefix[1])}
    for how in ("zero", "mean", "resample"):
        groups = {"none": [], "strong": strong, "weak": weak, **(single if how == "zero" else {})}
        table[how] = {
            name: {key: round(getattr(measured, key), 3) for key in _NAMES}
            for name, measured in ablation_table(run.model, groups, how).items()
        }
    table["cut"] = {
        reader: {key: round(getattr(measure_cut(run.model, strong, reader), key), 3) for key in _NAMES}
        for reader in ("query", "key", "value")
    }
    return table


def _round(values: Iterable[float]) -> list[float]:
    return [round(value, 3) for value in values]
