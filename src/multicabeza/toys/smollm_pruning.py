"""Cuánto pierde SmolLM2 al quitarle cabezas, según cuáles sean, y qué se gana al quitarlas de verdad (capítulo 07).

La importancia de cada cabeza se mide con unos textos (`CHOICE_PARAGRAPHS`) y lo que se pierde, con otros (los párrafos
corrientes del capítulo 06). Al lado, los sorteos: las mismas cabezas en número, al azar y repartidas por las capas.
Nada se reentrena. Los pesos de SmolLM2 son una aproximación de 4 bits de los publicados: lo que salga vale para ese
modelo.

Letras de las formas: h cabezas de consulta, n tokens, B textos.
"""

import copy
import random
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..attention import MultiHeadAttention
from ..heads import Pair
from ..models import LoadedModel, forward_with_cache, load_bert, load_smollm2
from ..pruning import gate_heads, head_importance, prune_heads
from .smollm_heads import TEXT_LENGTH, text_losses, text_tokens

# Escritos para este experimento, como los del capítulo 06 y de otros asuntos.
CHOICE_PARAGRAPHS = (
    "The night train to the coast no longer has a dining car. Travellers bring their own supper, wrapped in foil, and "
    "share it with whoever sits across the aisle. By midnight the lamps are dimmed and the carriage smells of oranges "
    "and cheese. Someone always snores, someone always reads under the blanket with a small torch, and the conductor "
    "walks through at two in the morning to count the feet that stick out of the beds. At dawn the sea appears on the "
    "left, flat and grey, and everybody stands up at once.",
    "Bees do not make honey because they are generous. A colony that wants to live through the winter must store about "
    "twenty kilos of it, and the workers who gather the nectar in May will never taste what they have saved. They live "
    "for six weeks. The ones born in autumn, which hardly fly at all, spend the cold months packed in a ball around "
    "the queen, shivering on purpose, and eat the honey from the centre outwards. If it runs out in March, the whole "
    "ball falls silent within a night.",
    "Our street was dug up again in October. First it was the gas, then the water, and now a thin orange cable that "
    "nobody could explain. The workmen were polite about it. They laid boards over the trench so that the pram from "
    "number nine could pass, and one of them carried Mrs. Keller's shopping up to the fourth floor every day for two "
    "weeks. When they finally closed the hole, the asphalt had a darker stripe down the middle, and the children used "
    "it as a net for tennis.",
    "Learning to float is mostly a matter of doing less. Beginners lift the head to see what is happening, and the "
    "moment the head comes up the hips go down. So the teacher stands behind them with two fingers under the neck and "
    "asks them to listen to the water instead. When the ears are under, the noise of the pool disappears, the "
    "shoulders stop fighting, and the legs rise by themselves. Most people laugh when they notice it, and then of "
    "course they sink.",
    "The map was wrong, and it had been wrong for two hundred years. Every copy showed a river that turned north "
    "beyond the hills, because the first surveyor had been told so by a farmer and had not gone to look. Later "
    "surveyors trusted the first. It was a schoolteacher on a walking holiday who followed the bank for an afternoon "
    "and found that the river went south. She wrote a letter to the institute, enclosed a drawing, and received a "
    "reply which thanked her for her interest.",
    "Concrete does not dry; it cures. The water in the mix is not meant to leave but to react with the cement, and the "
    "reaction goes on for months after the surface feels hard. That is why builders keep a new floor wet, cover it "
    "with sheets in summer and complain about the wind. A slab that loses its water too soon will look perfect for a "
    "year, then dust, then crack along the lines where the boots went. Good concrete is patient work disguised as "
    "brute force.",
    "She had promised to sell the violin only to someone who would play it. Three buyers came that week. The first "
    "turned it over and asked about the label; the second measured the back with a steel ruler; the third was a boy of "
    "about fifteen who did not ask anything at all. He tuned it, played half of a slow movement, stopped in the middle "
    "of a phrase and said that his bow was bad. She gave him a better bow and told him to start again from the "
    "beginning.",
    "Most of the dust in a house is not dirt from outside. It is cloth: fibres that leave the sofa, the curtains and "
    "the clothes every time somebody moves. Add to that some skin, some soil from the shoes and whatever the cat "
    "brings in. It settles fastest in rooms where people sleep, since a bed is shaken twice a day. Opening the window "
    "helps less than one would hope, because the draught lifts as much as it carries away. A damp rag is still the "
    "best invention.",
    "The referee was nineteen and it was her first final. In the last minute a defender put out an arm, or perhaps the "
    "ball hit the arm by itself, and eleven players on one side and two thousand people on the other began to explain "
    "to her what she had seen. She walked to the spot, looked at the ground as if the answer were written there, and "
    "pointed at the centre of the field. Years later both teams still agree that she was right, though for different "
    "reasons.",
    "In the north of the island they build their walls without mortar. A good stone is never cut; it is turned in the "
    "hands until it shows which side wants to lie down. Two large ones carry a third, small ones fill the gaps, and "
    "every metre a long flat stone goes right through the wall and ties its faces together. The wind passes between "
    "the stones and loses its strength there, which is why these walls stand where stronger ones have fallen. Sheep "
    "sleep on the quiet side.",
)  # fmt: skip

SHARES = (0, 10, 20, 30, 40, 50, 60)
"""Tanto por ciento de cabezas que se quita."""
GROUP_SHARES = (0, 20, 40, 60)
"""Tanto por ciento de grupos de claves y valores que se quita, con sus tres cabezas."""


# --- Los textos y lo que se mide -------------------------------------------------------------------------------------


def choice_tokens(loaded: LoadedModel) -> Tensor:
    """Los párrafos de elegir, con el token de comienzo y cortados a la misma longitud: (10, 96)."""
    rows = [
        loaded.tokenizer(text, add_special_tokens=False)["input_ids"][: TEXT_LENGTH - 1] for text in CHOICE_PARAGRAPHS
    ]
    return torch.tensor([[loaded.tokenizer.bos_token_id, *row] for row in rows])


def text_loss(model: nn.Module, tokens: Tensor) -> Tensor:
    """Suma, sobre los textos, de la pérdida media por token de cada uno: lo que pide `head_importance`.

    Args:
        model: un LLaMA de transformers.
        tokens: (B, n).

    Returns:
        Un escalar, en nats.
    """
    logits = model(input_ids=tokens, use_cache=False).logits[:, :-1]
    losses = F.cross_entropy(logits.transpose(1, 2), tokens[:, 1:], reduction="none")  # (B, n − 1)
    return losses.mean(dim=1).sum()


def importance(loaded: LoadedModel, tokens: Tensor, normalize: str | None = None) -> Tensor:
    """Importancia de Michel de las 270 cabezas: (30, 9). De dos en dos textos, para no ocupar memoria.

    Args:
        loaded: SmolLM2.
        tokens: (B, n).
        normalize: como en `head_importance`.

    Returns:
        Tensor (n_layers, h).
    """
    return head_importance(loaded.model, tokens.split(2), text_loss, normalize=normalize)


# --- En qué orden se quitan ------------------------------------------------------------------------------------------


def ascending(scores: Tensor) -> list[Pair]:
    """Las parejas (capa, cabeza) de menor a mayor puntuación; los empates, por su número.

    Args:
        scores: (n_layers, h).

    Returns:
        n_layers · h parejas.
    """
    order = scores.flatten().argsort(stable=True).tolist()
    return [divmod(place, scores.shape[1]) for place in order]


def stratified_order(n_layers: int, per_layer: int, seed: int) -> list[Pair]:
    """Un orden al azar repartido por las capas: nadie pierde su segunda cabeza hasta que todas han perdido una.

    Así, las k primeras son un sorteo por capas para cualquier k.

    Args:
        n_layers: número de capas.
        per_layer: cabezas (o grupos) de cada una.
        seed: semilla.

    Returns:
        Todas las parejas (capa, cabeza).
    """
    rng = random.Random(seed)
    heads = [rng.sample(range(per_layer), per_layer) for _ in range(n_layers)]
    order = []
    for turn in range(per_layer):
        order += [(layer, heads[layer][turn]) for layer in rng.sample(range(n_layers), n_layers)]
    return order


def same_layers(heads: Iterable[Pair], per_layer: int, seed: int) -> list[Pair]:
    """Otras tantas cabezas al azar, con el mismo reparto: de cada capa, las que quita la lista.

    Args:
        heads: parejas (capa, cabeza).
        per_layer: cabezas de cada capa.
        seed: semilla.

    Returns:
        Parejas (capa, cabeza); puede repetir alguna de las dadas.
    """
    rng = random.Random(f"mismo reparto {seed}")
    counts = Counter(layer for layer, _ in heads)
    return [(layer, head) for layer in sorted(counts) for head in rng.sample(range(per_layer), counts[layer])]


def heads_of(groups: Iterable[Pair], shared: int = 3) -> list[Pair]:
    """Las cabezas de consulta de unos grupos de claves y valores.

    Args:
        groups: parejas (capa, grupo).
        shared: cabezas de consulta por grupo.

    Returns:
        Parejas (capa, cabeza).
    """
    return [(layer, shared * group + i) for layer, group in groups for i in range(shared)]


def whole_groups(heads: Iterable[Pair], shared: int = 3) -> int:
    """Cuántos grupos pierden a la vez todas sus cabezas: los únicos que dejan sitio en la caché.

    Args:
        heads: parejas (capa, cabeza).
        shared: cabezas de consulta por grupo.

    Returns:
        Número de grupos.
    """
    lost: dict[Pair, int] = {}
    for layer, head in set(heads):
        lost[layer, head // shared] = lost.get((layer, head // shared), 0) + 1
    return sum(count == shared for count in lost.values())


def iterative_orders(loaded: LoadedModel, tokens: Tensor, sizes: Sequence[int]) -> list[list[Pair]]:
    """Quita por tandas: en cada una se vuelve a medir la importancia con las anteriores ya apagadas.

    Fuente: Michel et al. (2019), §4.1.

    Args:
        loaded: SmolLM2.
        tokens: (B, n), los textos de elegir.
        sizes: cuántas deben faltar al final de cada tanda, en orden creciente.

    Returns:
        Una lista de parejas por tamaño; cada una contiene la anterior.
    """
    gone: list[Pair] = []
    lists = []
    gates = torch.ones(30, 9)
    for size in sizes:
        if size > len(gone):
            with gate_heads(loaded.model, gates):
                scores = importance(loaded, tokens)
            left = [pair for pair in ascending(scores) if pair not in gone]
            gone = gone + left[: size - len(gone)]
            for layer, head in gone:
                gates[layer, head] = 0
        lists.append(list(gone))
    return lists


# --- El registro de SmolLM2 ------------------------------------------------------------------------------------------


def record(seeds: list[int]) -> dict:
    """Pérdida por texto frente a la parte de cabezas que se quita: por importancia, por grupos y al azar.

    Al azar, de dos modos: repartidas por igual entre las capas, y con el reparto que deja la importancia.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        loaded = load_smollm2()
        chosen, tokens = choice_tokens(loaded), text_tokens(loaded)

        def losses(heads: Sequence[Pair]) -> list[float]:
            return _round(text_losses(loaded.model, tokens, heads).mean(1))

        halves = [importance(loaded, part) for part in chosen.split(5)]
        raw = (halves[0] + halves[1]) / 2  # la media sobre los diez textos
        groups = raw.unflatten(1, (3, 3)).sum(-1)  # (30, 3): la suma de sus tres cabezas
        sizes = [round(share * 270 / 100) for share in SHARES]
        group_sizes = [round(share * 90 / 100) for share in GROUP_SHARES]
        normalised = F.normalize(raw, dim=-1)
        none = losses([])
        values: dict = {
            "shares": list(SHARES),
            "group_shares": list(GROUP_SHARES),
            "tokens": tokens[:, 1:].numel(),
            "importance": [_round(row, 5) for row in raw],
            "agreement": _agreement(*halves, sizes),
            "none": none,
        }
        orders = {"raw": ascending(raw), "l2": ascending(normalised)}
        lists = {name: [order[:size] for size in sizes] for name, order in orders.items()}
        lists["iterative"] = iterative_orders(loaded, chosen, sizes)
        lists["groups"] = [heads_of(ascending(groups)[:size]) for size in group_sizes]
        for name, removed in lists.items():
            values[name] = {
                "losses": [losses(heads) if heads else none for heads in removed],
                "whole_groups": [whole_groups(heads) for heads in removed],
                "most_in_a_layer": [_most_in_a_layer(heads) for heads in removed],
            }
        values["random"], values["random_groups"], values["random_same_layers"] = {}, {}, {}
        for seed in seeds:
            order, group_order = stratified_order(30, 9, seed), stratified_order(30, 3, seed)
            values["random"][str(seed)] = [losses(order[:size]) if size else none for size in sizes]
            values["random_same_layers"][str(seed)] = [
                losses(same_layers(removed, 9, seed)) if removed else none for removed in lists["raw"]
            ]
            values["random_groups"][str(seed)] = [
                losses(heads_of(group_order[:size])) if size else none for size in group_sizes
            ]
        return values
    finally:
        torch.set_num_threads(threads)


def _agreement(first: Tensor, second: Tensor, sizes: Sequence[int]) -> list[float]:
    """Qué parte de las cabezas que se quitarían coincide al medir con una mitad de los textos y con la otra."""
    orders = ascending(first), ascending(second)
    return [round(len({*orders[0][:size]} & {*orders[1][:size]}) / size, 3) if size else 1.0 for size in sizes]


def _most_in_a_layer(heads: Sequence[Pair]) -> int:
    return max((sum(layer == where for where, _ in heads) for layer in range(30)), default=0)


def _round(values: Iterable[float], digits: int = 3) -> list[float]:
    return [round(float(value), digits) for value in values]


# --- El registro de la velocidad -------------------------------------------------------------------------------------

ROUNDS = 15


def alternate(functions: dict[str, Callable[[], object]], rounds: int = ROUNDS) -> dict[str, list[float]]:
    """Cronometra varias funciones por turnos, para que lo que pase en la máquina les toque a todas por igual.

    Args:
        functions: nombre → función sin argumentos.
        rounds: vueltas que cuentan; antes se da una de calentamiento.

    Returns:
        nombre → segundos de cada vuelta.
    """
    times: dict[str, list[float]] = {name: [] for name in functions}
    for turn in range(rounds + 1):
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            if turn:
                times[name].append(time.perf_counter() - start)
    return times


def speedup(times: dict[str, list[float]], name: str) -> list[float]:
    """Veces más rápido que el modelo entero: primer cuartil, mediana y tercer cuartil de los cocientes por vuelta.

    Args:
        times: lo que devuelve `alternate`, con una entrada «whole».
        name: la que se compara.

    Returns:
        Tres números.
    """
    return statistics.quantiles([whole / other for whole, other in zip(times["whole"], times[name], strict=True)], n=4)


def record_speed(seeds: list[int]) -> dict:
    """Cuánto acelera apagar y cuánto quitar, en un solo hilo: nuestra capa, MiniLM y SmolLM2."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.inference_mode():
            return _speeds(seeds[0])
    finally:
        torch.set_num_threads(threads)


def _speeds(seed: int) -> dict:
    generator = torch.Generator().manual_seed(seed)
    values: dict = {"threads": 1, "rounds": ROUNDS}

    layer, x = MultiHeadAttention(512, 8).eval(), torch.randn(8, 256, 512, generator=generator)
    half = [(0, head) for head in range(4)]
    values["ours"] = _compare(layer, half, lambda module: module(x), batch=8, tokens=256)

    bert = load_bert().model
    half = [(layer, head) for layer in range(6) for head in range(6)]
    for batch in (1, 16, 64):
        ids = torch.randint(1000, 20_000, (batch, 32), generator=generator)
        values[f"minilm_{batch}"] = _compare(bert, half, lambda module, ids=ids: module(ids), batch=batch, tokens=32)

    llama = load_smollm2().model
    third = heads_of([(layer, layer % 3) for layer in range(30)])
    ids = torch.randint(1000, 20_000, (4, 128), generator=generator)
    values["smollm2"] = _compare(llama, third, lambda module: module.model(ids, use_cache=False), batch=4, tokens=128)
    values["smollm2"] |= _cache_numbers(llama, third, ids)
    return values


def _compare(
    model: nn.Module, heads: list[Pair], run: Callable[[nn.Module], object], *, batch: int, tokens: int
) -> dict:
    """El modelo entero, con esas cabezas apagadas y sin ellas."""
    smaller = copy.deepcopy(model)
    pruned = prune_heads(smaller, heads)
    gates = [torch.ones(size) for size in _heads_per_layer(model)]
    for layer, head in heads:
        gates[layer][head] = 0

    def masked() -> None:
        with gate_heads(model, gates):
            run(model)

    times = alternate({"whole": lambda: run(model), "masked": masked, "pruned": lambda: run(smaller)})
    return {
        "batch": batch,
        "tokens": tokens,
        "heads": len(heads),
        "of": sum(map(len, gates)),
        "params": pruned.params,
        "params_before": sum(parameter.numel() for parameter in model.parameters()),
        "masked": _round(speedup(times, "masked")),
        "pruned": _round(speedup(times, "pruned")),
    }


def _heads_per_layer(model: nn.Module) -> list[int]:
    if isinstance(model, MultiHeadAttention):
        return [model.num_heads]
    return [model.config.num_attention_heads] * model.config.num_hidden_layers


def _cache_numbers(model: nn.Module, heads: list[Pair], ids: Tensor) -> dict:
    """Los números que guarda la caché: entero, sin esos grupos y sin otras tantas cabezas sueltas."""
    singles = [(layer, head) for layer in range(30) for head in (0, 3, 6)]  # una de cada grupo
    stored = {}
    for name, removed in {"whole": [], "groups": heads, "singles": singles}.items():
        smaller = copy.deepcopy(model)
        prune_heads(smaller, removed)
        _, cache = forward_with_cache(smaller, ids)
        stored[name] = sum(layer.keys.numel() + layer.values.numel() for layer in cache.layers)
    return {"cache": stored}
