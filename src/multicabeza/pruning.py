"""Poda de cabezas: cuánto importa cada una, puertas que aprenden a cerrarse y cómo quitarlas de verdad.

El archivo se lee de arriba abajo: una puerta por cabeza (`gate_heads`), la importancia de Michel (`head_importance`),
las puertas Hard Concrete (`HardConcrete`) y la poda física (`prune_heads`). Las tres primeras apagan; solo la última
quita parámetros y tiempo.

Letras de las formas: h cabezas de consulta, g cabezas de claves y valores, d_k dimensión de una cabeza, d_model la del
modelo. Capas y cabezas se cuentan desde 0, en el orden de `heads.ablate`.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache as memoize
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from .attention import MultiHeadAttention, _check_integer, _shape
from .heads import _attention_layers, _attention_modules, _check_heads, _check_layer, _kind, _Layer

__all__ = ["HardConcrete", "Pruned", "gate_heads", "head_importance", "prune_heads"]

Pair = tuple[int, int]


# --- Una puerta por cabeza -------------------------------------------------------------------------------------------


@contextmanager
def gate_heads(
    model: object, gates: Tensor | Sequence[Tensor], *, layers: Sequence[int] | None = None
) -> Iterator[None]:
    """Multiplica lo que escribe cada cabeza por su puerta mientras dura el bloque.

    MultiHead = Concat(g_0·head_0, …, g_{h−1}·head_{h−1}) W^O. El gradiente llega a las puertas y pasa a través de
    ellas. Con puertas 0 y 1 equivale a `ablate(…, how="zero")`. Al salir, también por una excepción, el modelo queda
    como estaba; los bloques anidados multiplican sus puertas. En un codificador–decodificador, pasa solo la parte que
    te interesa (`gate_heads(model.encoder, …)`) o di sus capas con `layers`.

    Args:
        model: lo que acepta `heads.ablate`.
        gates: (n_layers, h), o (n_layers, batch, h) con una puerta por ejemplo (lo que da
            `HardConcrete(n_layers, h).sample(batch)`). Si las capas no tienen las mismas cabezas, una lista con un
            tensor (h,) o (batch, h) por capa.
        layers: a qué capas corresponden, en orden; si falta, a todas.

    Raises:
        ValueError: si el modelo no vale o las formas no casan con sus capas; y, ya dentro del bloque, si hay una puerta
            por ejemplo y el lote tiene otro tamaño.

    Fuente:
        Voita et al. (2019), §6.1; Michel et al. (2019), §2.3 (allí, ξ_h).
    """
    chosen = _chosen_layers(model, layers)
    per_layer = list(gates) if isinstance(gates, Tensor | list | tuple) else None
    if per_layer is None or len(per_layer) != len(chosen):
        raise ValueError(
            f"Se esperaban puertas para {len(chosen)} capas, (n_layers, h) o (n_layers, batch, h), y llegó "
            f"{_shape(gates)}. Lo habitual: las puertas de una sola capa (usa gates[None]), o las del codificador con "
            "el modelo entero (usa layers=…)."
        )
    for (number, layer), gate in zip(chosen.items(), per_layer, strict=True):
        if not isinstance(gate, Tensor) or gate.ndim not in (1, 2) or gate.shape[-1] != layer.num_heads:
            raise ValueError(
                f"Se esperaban puertas de forma ({layer.num_heads},) o (batch, {layer.num_heads}) para la capa "
                f"{number}, que tiene {layer.num_heads} cabezas, y llegó {_shape(gate)}. Lo habitual: (batch, "
                "n_layers, h) en vez de (n_layers, batch, h), o capas podadas con distinto número de cabezas."
            )

    def gating(number: int, gate: Tensor) -> Callable:
        def hook(_projection: nn.Module, inputs: tuple[Tensor]) -> Tensor:
            concatenated = inputs[0]  # (batch, n, h·d_k)
            if gate.ndim == 2 and len(gate) != len(concatenated):
                raise ValueError(
                    f"Se esperaba una puerta por ejemplo del lote, ({len(concatenated)}, h), y en la capa {number} "
                    f"llegó {_shape(gate)}. Lo habitual: un último lote más corto."
                )
            return _gated(concatenated, gate)

        return hook

    with ExitStack() as stack:
        for (number, layer), gate in zip(chosen.items(), per_layer, strict=True):
            stack.enter_context(layer.projection.register_forward_pre_hook(gating(number, gate)))
        yield


def _gated(concatenated: Tensor, gate: Tensor) -> Tensor:
    """Las cabezas concatenadas, (batch, n, h·d_k), por sus puertas, (h,) o (batch, h)."""
    gate = gate.to(concatenated)[..., None]  # (h, 1) o (batch, h, 1)
    if gate.ndim == 3:
        gate = gate[:, None]  # (batch, 1, h, 1)
    return (concatenated.unflatten(-1, (gate.shape[-2], -1)) * gate).flatten(-2)


def _chosen_layers(model: object, layers: Sequence[int] | None) -> dict[int, _Layer]:
    """Las capas pedidas, por su número y en el orden pedido."""
    known = _attention_layers(model)
    if layers is not None and not isinstance(layers, Iterable):
        layers = [layers]
    numbers = range(len(known)) if layers is None else [_check_layer(layer, known) for layer in layers]
    if not numbers or len(set(numbers)) < len(numbers):
        raise ValueError(f"Se esperaba una lista de capas distintas y llegó layers = {layers!r}.")
    return {number: known[number] for number in numbers}


# --- La importancia de Michel ----------------------------------------------------------------------------------------


def head_importance(
    model: object,
    batches: Iterable[Any],
    loss: Callable[[Any, Any], Tensor],
    *,
    normalize: str | None = None,
    layers: Sequence[int] | None = None,
) -> Tensor:
    """Importancia de cada cabeza: cuánto cambiaría la pérdida de cada ejemplo, a primer orden, al mover su puerta.

    I_i = E_x |∂L(x)/∂g_i| = E_x |head_i(x)ᵀ ∂L(x)/∂head_i(x)|, con la puerta g_i = 1 y el producto sobre posiciones y
    dimensiones. El valor absoluto va por ejemplo, dentro de la esperanza: fuera, los ejemplos a los que la cabeza ayuda
    se anulan con aquellos a los que estorba. Cuesta una pasada hacia delante y otra hacia atrás. Es una derivada en
    g = 1: no sabe qué pasa al quitar la cabeza del todo, ni al quitar varias.

    No toca `.grad` ni los parámetros. El modelo se usa en el modo en que esté: ponlo en `eval()` si tiene dropout.

    Args:
        model: lo que acepta `heads.ablate`; se le pasa tal cual a `loss`.
        batches: los lotes; cada uno es lo que espera `loss`.
        loss: función (model, batch) → escalar: la SUMA, sobre los ejemplos, de la pérdida de cada uno (la de un ejemplo
            puede ser su media por token). Con la media del lote, todo saldría dividido entre su tamaño.
        normalize: None, o "l2" para dividir cada capa entre su norma ℓ2, como hace Michel.
        layers: qué capas, en orden; si falta, todas. Deben tener el mismo número de cabezas.

    Returns:
        Tensor (n_layers, h), ≥ 0, en unidades de pérdida.

    Raises:
        ValueError: si no hay lotes, la pérdida no es un escalar que dependa de las cabezas, o las capas no valen.

    Fuente:
        Michel et al. (2019), §4.1; equivale al criterio de Taylor de Molchanov et al. (2017).
    """
    if normalize not in (None, "l2"):
        raise ValueError(f"Se esperaba normalize = None o «l2» y llegó {normalize!r}.")
    chosen = _chosen_layers(model, layers)
    sizes = sorted({layer.num_heads for layer in chosen.values()})
    if len(sizes) > 1:
        raise ValueError(
            f"Se esperaban capas con el mismo número de cabezas y las hay con {', '.join(map(str, sizes))}: no caben "
            "en una tabla (n_layers, h). Pídelas por partes con layers=…, o apaga con puertas en vez de podar."
        )
    total, num_examples = 0.0, 0
    for batch in batches:
        gradient = _gate_gradients(model, batch, loss, chosen)  # (n_layers, batch, h)
        total = total + gradient.abs().sum(dim=1)
        num_examples += gradient.shape[1]
    if not num_examples:
        raise ValueError("Se esperaba algún lote y no llegó ninguno. Lo habitual: un generador ya recorrido.")
    importance = total / num_examples
    if normalize == "l2":
        importance = nn.functional.normalize(importance, dim=-1)
    return importance


def _gate_gradients(
    model: object, batch: object, loss: Callable[[Any, Any], Tensor], chosen: dict[int, _Layer]
) -> Tensor:
    """∂L(x)/∂g de cada ejemplo del lote: (n_layers, batch, h)."""
    gates: dict[int, Tensor] = {}

    def gating(number: int, num_heads: int) -> Callable:
        def hook(_projection: nn.Module, inputs: tuple[Tensor]) -> Tensor:
            concatenated = inputs[0]
            if number not in gates:  # una capa usada dos veces en la misma pasada es la misma cabeza
                gates[number] = concatenated.new_ones(len(concatenated), num_heads).requires_grad_()
            return _gated(concatenated, gates[number])

        return hook

    with torch.enable_grad(), ExitStack() as stack:
        for number, layer in chosen.items():
            stack.enter_context(layer.projection.register_forward_pre_hook(gating(number, layer.num_heads)))
        value = loss(model, batch)
        if not isinstance(value, Tensor) or value.numel() != 1 or not value.requires_grad:
            raise ValueError(
                "Se esperaba que loss devolviera un escalar con gradiente, la suma de la pérdida de cada ejemplo, y "
                f"llegó {_shape(value)}. Lo habitual: reduction='none', .item(), o torch.no_grad() dentro de loss."
            )
        missing = sorted(set(chosen) - set(gates))
        if missing:
            raise ValueError(
                f"La pérdida no pasa por la capa {missing[0]}. Lo habitual: calcularla con otro modelo, con solo una "
                "parte (elige sus capas con layers=…), o una capa podada entera."
            )
        sizes = sorted({len(gate) for gate in gates.values()})
        if len(sizes) > 1:
            raise ValueError(
                f"Se esperaba un mismo lote en todas las capas y los hay de {', '.join(map(str, sizes))} ejemplos: no "
                "se sabe cuál es cuál. Elige capas con layers=…"
            )
        gates = {number: gates[number] for number in chosen}  # en el orden pedido
        gradients = torch.autograd.grad(value.squeeze(), list(gates.values()), allow_unused=True)
    pairs = zip(gates.values(), gradients, strict=True)
    stacked = torch.stack([torch.zeros_like(gate) if gradient is None else gradient for gate, gradient in pairs])
    return stacked.to(torch.promote_types(stacked.dtype, torch.float32))


# --- Puertas que aprenden a cerrarse ---------------------------------------------------------------------------------


class HardConcrete(nn.Module):
    """Puertas estocásticas que valen 0 o 1 con probabilidad positiva y dejan pasar el gradiente.

    u ~ U(0, 1);  s = σ((log u − log(1 − u) + log α)/β);  g = min(1, max(0, s·(ζ − γ) + γ)).

    El estiramiento a (γ, ζ) deja masa fuera de [0, 1], que se acumula en los dos extremos:
    P(g ≠ 0) = σ(log α − β log(−γ/ζ)),  P(g = 1) = σ(log α − β log((1 − γ)/(ζ − 1))). La penalización L0 es el número
    esperado de puertas abiertas, Σ P(g ≠ 0), y tiene gradiente aunque la muestra esté en un extremo.

    Los valores de por defecto de β, γ y ζ son los de Louizos. El artículo de Voita no da ninguno; el código que publicó
    usa β = 0,33.

    Fuente:
        Louizos, Welling y Kingma (2018); Voita et al. (2019), §6.1 y nota 7.

    Attributes:
        log_alpha: parámetro con la forma pedida.
    """

    def __init__(
        self, *shape: int, beta: float = 2 / 3, gamma: float = -0.1, zeta: float = 1.1, init: float = 2.0
    ) -> None:
        """Crea las puertas, casi siempre abiertas con el `init` de por defecto.

        Args:
            shape: la forma; para un modelo entero, `HardConcrete(n_layers, h)`.
            beta: temperatura β > 0.
            gamma: extremo inferior γ < 0.
            zeta: extremo superior ζ > 1.
            init: valor inicial de log α.

        Raises:
            ValueError: si la forma o los parámetros no valen.
        """
        super().__init__()
        for size in shape:
            _check_integer("shape", size)
        if not shape or not (beta > 0 and gamma < 0 and zeta > 1):
            raise ValueError(
                "Se esperaban una forma, β > 0, γ < 0 y ζ > 1, y llegaron "
                f"{shape}, β = {beta}, γ = {gamma} y ζ = {zeta}. Sin γ < 0 y ζ > 1 ninguna puerta llega a 0 ni a 1."
            )
        self.beta, self.gamma, self.zeta = float(beta), float(gamma), float(zeta)
        self.log_alpha = nn.Parameter(torch.full(shape, float(init)))

    def extra_repr(self) -> str:
        """Forma y parámetros, para `print(gates)`."""
        shape = ", ".join(map(str, self.log_alpha.shape))
        return f"{shape}, beta={self.beta:.3g}, gamma={self.gamma}, zeta={self.zeta}"

    def sample(self, n: int | None = None, generator: torch.Generator | None = None) -> Tensor:
        """Sortea las puertas.

        Args:
            n: cuántas veces: una muestra por ejemplo del lote. Si falta, una sola, con la forma de las puertas.
            generator: generador de números al azar.

        Returns:
            Tensor en [0, 1], con gradiente hacia log α: (..., h), o (..., n, h) con n muestras: para
            `HardConcrete(n_layers, h)`, (n_layers, n, h), lo que pide `gate_heads`.
        """
        *leading, h = self.log_alpha.shape
        log_alpha = self.log_alpha
        if n is not None:
            _check_integer("n", n)
            log_alpha = log_alpha.unsqueeze(-2).expand(*leading, n, h)
        u = torch.rand(log_alpha.shape, generator=generator, dtype=log_alpha.dtype, device=log_alpha.device)
        s = torch.sigmoid((u.log() - torch.log1p(-u) + log_alpha) / self.beta)
        return self._stretched(s)

    def expected_open(self) -> Tensor:
        """P(g ≠ 0) de cada puerta: σ(log α − β log(−γ/ζ))."""
        return torch.sigmoid(self._open_logit())

    def expected_closed(self) -> Tensor:
        """P(g = 0) de cada puerta: 1 − P(g ≠ 0)."""
        return torch.sigmoid(-self._open_logit())

    def expected_one(self) -> Tensor:
        """P(g = 1) de cada puerta: σ(log α − β log((1 − γ)/(ζ − 1)))."""
        return torch.sigmoid(self._one_logit())

    def penalty(self) -> Tensor:
        """La penalización L0 relajada: Σ P(g ≠ 0), el número esperado de puertas abiertas."""
        return self.expected_open().sum()

    def binary(self) -> Tensor:
        """Las puertas para evaluar: 1 si P(g = 1) ≥ P(g = 0), y 0 si no. Sin gradiente.

        Con un estiramiento simétrico (γ = 1 − ζ) es lo mismo que log α ≥ 0.
        """
        return (self._one_logit() >= -self._open_logit()).to(self.log_alpha.dtype)

    def deterministic(self) -> Tensor:
        """La puerta sin sorteo de Louizos: min(1, max(0, σ(log α)(ζ − γ) + γ)). Puede quedar a medias."""
        return self._stretched(torch.sigmoid(self.log_alpha))

    def _stretched(self, s: Tensor) -> Tensor:
        return (s * (self.zeta - self.gamma) + self.gamma).clamp(0, 1)

    def _open_logit(self) -> Tensor:
        return self.log_alpha - self.beta * math.log(-self.gamma / self.zeta)

    def _one_logit(self) -> Tensor:
        return self.log_alpha - self.beta * math.log((1 - self.gamma) / (self.zeta - 1))


# --- Quitarlas de verdad ---------------------------------------------------------------------------------------------


class Pruned(NamedTuple):
    """Lo que se quitó de un modelo.

    Attributes:
        heads: cabezas de consulta quitadas, parejas (capa, cabeza) con la numeración de antes de podar.
        groups: cabezas de claves y valores quitadas, (capa, grupo). En MHA cada cabeza tiene la suya y coinciden.
        params: parámetros que el modelo tiene de menos.
        queries_only: de `heads`, las que se fueron solas: su grupo sigue, con sus claves, sus valores y su sitio en la
            caché, porque lo usan otras.
    """

    heads: list[Pair]
    groups: list[Pair]
    params: int
    queries_only: list[Pair]

    def __str__(self) -> str:
        ways = []
        if with_group := len(self.heads) - len(self.queries_only):
            ways.append(f"{with_group} con sus claves y valores ({_counted(len(self.groups), 'grupo entero')})")
        if self.queries_only:
            ways.append(f"{len(self.queries_only)} solo de consulta (su grupo sigue, y su sitio en la caché también)")
        heads, params = _counted(len(self.heads), "cabeza"), f"{self.params:,}".replace(",", "\N{NO-BREAK SPACE}")
        return f"{heads} menos{': ' if ways else ''}{'; '.join(ways)}. {params} parámetros menos."


def _counted(n: int, noun: str) -> str:
    """«1 grupo entero», «3 grupos enteros»."""
    return f"{n} {noun}" if n == 1 else f"{n} {' '.join(word + 's' for word in noun.split())}"


class _Linears(NamedTuple):
    """Las proyecciones de una capa de atención y qué filas de cada una son de consultas, claves y valores."""

    inputs: list[tuple[nn.Linear, tuple[str, ...]]]
    output: nn.Linear
    num_heads: int
    num_kv_heads: int
    head_dim: int


class _Plan(NamedTuple):
    """Lo que quedará de una capa."""

    module: nn.Module
    linears: _Linears
    heads: list[int]
    groups: list[int]


def prune_heads(model: object, heads: Iterable[Pair]) -> Pruned:
    """Quita cabezas de un modelo, en el sitio: matrices más pequeñas, no ceros.

    La salida es la que daría apagarlas (`ablate` con "zero"): quitar la cabeza i es quitar sus filas de W^Q, W^K y W^V
    (con sus sesgos) y sus columnas de W^O. El sesgo de W^O no es de nadie y queda. Una capa puede perder todas sus
    cabezas: sigue ahí, con su número, y escribe solo ese sesgo.

    Con claves compartidas (GQA, MQA) hay dos maneras, y el resultado dice cuál fue: si se van todas las cabezas de un
    grupo, se va el grupo entero; si se van algunas, se quitan solo sus consultas, y entonces todos los grupos que
    queden en la capa deben conservar el mismo número (así los reparte GQA). Lo demás se rechaza sin tocar nada.

    Las cabezas que quedan se renumeran. Los parámetros son nuevos: haz el optimizador después. Para guardar el modelo,
    guarda `state_dict()` y la lista de cabezas; para leerlo, crea el original, pódalo igual y usa `load_state_dict`.

    Args:
        model: una `MultiHeadAttention` o un módulo que contenga varias; un modelo BERT o LLaMA de transformers; lo que
            devuelven `load_bert` y `load_smollm2`. GPT-2, no.
        heads: parejas (capa, cabeza de consulta) desde 0, con la numeración de ahora.

    Returns:
        `Pruned`: las cabezas, los grupos y los parámetros que se fueron.

    Raises:
        ValueError: si el modelo no vale, alguna cabeza no existe o su grupo no se puede dejar así. El modelo no cambia.

    Fuente:
        Michel et al. (2019), §4.3: enmascarar no acelera, quitar sí. Ainslie et al. (2023) para los grupos.
    """
    chosen = _check_heads(heads, _attention_layers(model))
    modules = _attention_modules(model)
    plans = {number: _plan(modules[number], number, chosen[number]) for number in sorted(chosen)}  # aquí se rechaza
    root = model if isinstance(model, nn.Module) else model.model
    before = _count(root)
    gone, groups, queries_only = [], [], []
    for number, plan in plans.items():
        _apply(plan)
        lost = set(range(plan.linears.num_kv_heads)) - set(plan.groups)
        shared = plan.linears.num_heads // plan.linears.num_kv_heads
        groups += [(number, group) for group in sorted(lost)]
        gone += [(number, head) for head in sorted(chosen[number])]
        queries_only += [(number, head) for head in sorted(chosen[number]) if head // shared not in lost]
    return Pruned(gone, groups, before - _count(root), queries_only)


def _count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def _plan(module: nn.Module, number: int, removed: set[int]) -> _Plan:
    """Qué cabezas y qué grupos quedan en una capa; rechaza lo que GQA no sabe repartir."""
    linears = _linears(module, number)
    shared = linears.num_heads // linears.num_kv_heads  # cabezas de consulta por grupo
    kept = [head for head in range(linears.num_heads) if head not in removed]
    left = {group: sum(head // shared == group for head in kept) for group in range(linears.num_kv_heads)}
    if len(set(left.values()) - {0}) > 1:
        listed = ", ".join(f"{count}" for count in left.values())
        first = ", ".join(str(head) for head in range(shared))
        raise ValueError(
            f"En la capa {number}, los grupos de claves y valores se quedarían con {listed} cabezas de consulta, y GQA "
            "las reparte por igual: los que queden deben conservar las mismas. Se pueden quitar grupos enteros (el "
            f"primero es el de las cabezas {first}) o el mismo número en cada grupo que quede. Para apagar estas sin "
            "quitarlas: ablate o gate_heads."
        )
    return _Plan(module, linears, kept, [group for group, count in left.items() if count])


def _linears(module: nn.Module, number: int) -> _Linears:
    """Dónde están las proyecciones de cada clase de atención."""
    kind = _kind(module)
    if isinstance(module, MultiHeadAttention):
        inputs, output = [(module.qkv_proj, ("query", "key", "value"))], module.out_proj
        sizes = (module.num_heads, module.num_kv_heads, module.head_dim)
    elif kind == "BertAttention":
        inner = module.self
        inputs = [(inner.query, ("query",)), (inner.key, ("key",)), (inner.value, ("value",))]
        output = module.output.dense
        sizes = (inner.num_attention_heads, inner.num_attention_heads, inner.attention_head_size)
    elif kind == "LlamaAttention":
        inputs = [(module.q_proj, ("query",)), (module.k_proj, ("key",)), (module.v_proj, ("value",))]
        output = module.o_proj
        sizes = (module.config.num_attention_heads, module.config.num_key_value_heads, module.head_dim)
    else:
        raise ValueError(
            f"Se esperaba una capa MultiHeadAttention, BERT o LLaMA y la {number} es {kind}, que junta sus "
            "proyecciones de otra manera. Cópiala con MultiHeadAttention.from_transformers, o usa ablate o gate_heads."
        )
    for linear in (*(linear for linear, _ in inputs), output):
        if not isinstance(linear, nn.Linear) or linear._parameters.get("weight") is None:
            raise ValueError(
                f"Se esperaban proyecciones nn.Linear y en la capa {number} hay {type(linear).__name__}, cuyos pesos "
                "no se pueden recortar. Lo habitual: un modelo cuantizado o con adaptadores; poda antes de ponerlos."
            )
    return _Linears(inputs, output, *sizes)


def _apply(plan: _Plan) -> None:
    """Recorta las proyecciones y pone al día los tamaños que la capa tiene apuntados."""
    module, (inputs, output, num_heads, num_kv_heads, head_dim) = plan.module, plan.linears
    sizes = {"query": num_heads, "key": num_kv_heads, "value": num_kv_heads}
    kept = {"query": plan.heads, "key": plan.groups, "value": plan.groups}
    for linear, parts in inputs:
        rows, first = [], 0
        for part in parts:
            rows += [first + head for head in kept[part]]
            first += sizes[part]
        _shrink(linear, _positions(rows, head_dim), dim=0)
    _shrink(output, _positions(plan.heads, head_dim), dim=1)
    num_heads, num_kv_heads = len(plan.heads), len(plan.groups)
    if isinstance(module, MultiHeadAttention):
        module.num_heads, module.num_kv_heads = num_heads, num_kv_heads
        if not num_heads:
            module.__class__ = _headless(type(module), _HeadlessOurs)
    elif _kind(module) == "BertAttention":
        inner = module.self
        inner.num_attention_heads, inner.all_head_size = num_heads, num_heads * head_dim
        if not num_heads:
            inner.__class__ = _headless(type(inner), _HeadlessBert)
    else:
        module.config = _LayerConfig(
            module.config, num_attention_heads=num_heads, num_key_value_heads=num_kv_heads, head_dim=head_dim
        )
        module.num_key_value_groups = num_heads // max(num_kv_heads, 1)
        if not num_heads:
            module.__class__ = _headless(type(module), _HeadlessLlama)


def _positions(heads: list[int], head_dim: int) -> Tensor:
    """Las filas (o columnas) de esas cabezas: d_k seguidas por cada una."""
    return (torch.tensor(heads, dtype=torch.long)[:, None] * head_dim + torch.arange(head_dim)).flatten()


def _shrink(linear: nn.Linear, positions: Tensor, *, dim: int) -> None:
    """Deja solo esas filas (dim 0, con su sesgo) o columnas (dim 1) de una proyección."""
    names = ("weight", "bias") if dim == 0 else ("weight",)
    for name in names:
        parameter = getattr(linear, name)
        if parameter is not None:
            smaller = parameter.detach().index_select(dim, positions.to(parameter.device))
            setattr(linear, name, nn.Parameter(smaller, requires_grad=parameter.requires_grad))
    linear.out_features, linear.in_features = linear.weight.shape


class _LayerConfig:
    """La configuración común del modelo, con los tamaños propios de una capa.

    En LLaMA todas las capas comparten una configuración: cambiarla cambiaría las demás, y copiarla dejaría a esta sin
    enterarse de lo que cambie después (`set_attn_implementation`).
    """

    def __init__(self, shared: object, **own: int) -> None:
        self.__dict__.update(own, _shared=shared._shared if isinstance(shared, _LayerConfig) else shared)

    def __getattr__(self, name: str) -> Any:
        if name == "_shared" or name.startswith("__"):  # al copiarla, aún vacía
            raise AttributeError(name)
        return getattr(self._shared, name)


# --- Capas sin cabezas -----------------------------------------------------------------------------------------------


class _HeadlessOurs:
    """Lo que cambia en una `MultiHeadAttention` sin cabezas: las proyecciones salen vacías.

    Lo demás sigue igual (máscaras, caché, pesos), con cero cabezas: la salida es el sesgo de W^O.
    """

    def _project(self, x: Tensor, context: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        def empty(source: Tensor) -> Tensor:
            return source.new_zeros(source.shape[0], 0, source.shape[1], self.head_dim)

        context = x if context is None else context
        return empty(x), empty(context), empty(context)


class _HeadlessTransformers:
    """Lo que cambia en una atención de transformers sin cabezas.

    La caché cuenta los tokens por los números que guarda la capa 0; una capa vacía deja uno por token (un cero) para
    que la cuenta siga saliendo.
    """

    def forward(
        self, hidden_states: Tensor, *_: object, cache: Any = None, past_key_values: Any = None, **__: object
    ) -> tuple[Tensor, Tensor | None]:
        batch, n, _width = hidden_states.shape
        cache, n_k = past_key_values if cache is None else cache, n
        if cache is not None:
            mark = hidden_states.new_zeros(batch, 1, n, 1)
            cache = getattr(cache, "self_attention_cache", cache)
            n_k = cache.update(mark, mark, self.layer_idx)[0].shape[-2]
        eager = self.config._attn_implementation == "eager"
        weights = hidden_states.new_zeros(batch, 0, n, n_k) if eager else None
        return self._written(hidden_states.new_zeros(batch, n, 0)), weights


class _HeadlessBert(_HeadlessTransformers):
    def _written(self, nothing: Tensor) -> Tensor:
        return nothing  # W^O va después, en BertSelfOutput


class _HeadlessLlama(_HeadlessTransformers):
    def _written(self, nothing: Tensor) -> Tensor:
        return self.o_proj(nothing)


@memoize
def _headless(original: type, behaviour: type) -> type:
    """La clase de una capa que se queda sin cabezas; sigue siendo de la clase original."""
    return type(f"Headless{original.__name__}", (behaviour, original), {"pruned_from": original.__name__})
