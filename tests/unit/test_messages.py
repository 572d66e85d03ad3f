"""Llamar mal a las funciones públicas: cada una acepta lo que llega o lo explica en español, con un error propio.

De cada parámetro se prueba todo lo que alguien podría pasar por error: otra clase de cosa, otra forma, otro tipo de
número, nada, NaN. Lo que no puede pasar es que salga el error de torch, de NumPy o de Python, en inglés y desde dentro.
"""

import functools
import logging
import re
import traceback
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch

import multicabeza as mc
from multicabeza import attention, cost, heads, models, plots, views
from multicabeza.toys import intervals

PACKAGE = Path(mc.__file__).parent
NAN, INF = float("nan"), float("inf")

random = torch.Generator().manual_seed(0)


def rand(*shape):
    return torch.randn(*shape, generator=random)


class Net(torch.nn.Module):
    """Dos capas: MHA y GQA."""

    def __init__(self):
        super().__init__()
        self.first = mc.MultiHeadAttention(12, 6)
        self.second = mc.MultiHeadAttention(12, 6, num_kv_heads=2)

    def forward(self, x):
        return self.second(self.first(x))


QKV = rand(2, 3, 5, 4)
X = rand(2, 5, 12)
MAPS = rand(2, 3, 5, 5).softmax(-1)
TOKENS = list("abcde")
LAYER, NET = mc.MultiHeadAttention(12, 6), Net()
ALT = "Una línea recta que sube de uno a dos."


def figure(*_):
    return plots.lines([1, 2], {"a": [1, 2]}, xlabel="x", ylabel="y")


# --- Lo que se puede pasar por error -----------------------------------------------------------------------------

THINGS = {
    "None": None, "texto": "hola", "texto vacío": "", "entero": 3, "negativo": -1, "real": 1.5, "NaN": NAN, "sí": True,
    "lista": [1, 2], "lista vacía": [], "textos": ["a", "b"], "diccionario": {}, "tensor": rand(3),
    "array": np.ones(3), "función": len, "clase": int, "bytes": b"x", "pareja": ("a", 1), "conjunto": {1, 2},
    "complejo": 1j, "infinito": INF,
}  # fmt: skip
INTEGERS = THINGS | {
    "cero": 0, "real entero": 4.0, "texto con número": "4", "de numpy": np.int64(4), "tensor de uno": torch.tensor(4),
    "grande": 4099, "no divide": 7,
}  # fmt: skip
TENSORS = THINGS | {
    "vacío": torch.empty(0), "escalar": torch.tensor(1.0), "2-D": rand(5, 4), "5-D": rand(1, 2, 3, 5, 4),
    "int64": torch.ones(2, 3, 5, 4).long(), "bool": torch.ones(2, 3, 5, 4).bool(), "float16": QKV.half(),
    "bfloat16": QKV.bfloat16(), "float64": QKV.double(), "complex64": QKV.to(torch.complex64),
    "float8": QKV.to(torch.float8_e4m3fn), "disperso": QKV.to_sparse(), "con NaN": QKV * NAN, "con gradiente":
    QKV.clone().requires_grad_(), "n = 0": rand(2, 3, 0, 4), "batch = 0": rand(0, 3, 5, 4), "d_k = 0": rand(2, 3, 5, 0),
    "h = 0": rand(2, 0, 5, 4), "otra d_k": rand(2, 3, 5, 3), "otra n": rand(2, 3, 4, 4), "en meta": QKV.to("meta"),
}  # fmt: skip
SEQUENCES = TENSORS | {
    "otra d_model": rand(2, 5, 13), "sin batch": rand(5, 12), "identificadores": torch.ones(2, 5).long(),
    "de tres, enteros": torch.ones(2, 5, 12).long(), "otro batch": rand(3, 5, 12), "doble": X.double(),
    "dispersa": X.to_sparse(),
}  # fmt: skip
MASKS = THINGS | {
    "enteros": torch.ones(5, 5).long(), "que se suma": torch.zeros(5, 5), "1-D": torch.ones(5).bool(),
    "3-D": torch.ones(2, 5, 5).bool(), "5-D": torch.ones(1, 2, 3, 5, 5).bool(), "otra n": torch.ones(4, 5).bool(),
    "del tokenizador": torch.ones(2, 5).bool(), "nadie": torch.zeros(5, 5).bool(), "vacía": torch.empty(0).bool(),
    "otras cabezas": torch.ones(2, 7, 5, 5).bool(), "dispersa": torch.ones(5, 5).bool().to_sparse(),
    "escalar": torch.tensor(True), "de numpy": np.ones((5, 5), bool),
}  # fmt: skip
WEIGHTS = THINGS | {
    "2-D": MAPS[0, 0], "no cuadrada": rand(3, 4, 5).softmax(-1), "vacíos": torch.empty(0, 3, 5, 5), "un token":
    torch.ones(3, 1, 1), "complejos": MAPS.to(torch.complex64), "dispersos": MAPS.to_sparse(), "en meta":
    MAPS.to("meta"), "con NaN": MAPS * NAN, "puntuaciones": rand(3, 5, 5) * 3, "float16": MAPS.half(), "de numpy":
    MAPS.numpy(), "float8": MAPS.to(torch.float8_e4m3fn), "una máscara": torch.ones(3, 5, 5).bool(), "por columnas":
    MAPS.mT, "tupla": (MAPS, MAPS),
}  # fmt: skip
KEEP = THINGS | {
    "enteros": torch.ones(5).long(), "corta": torch.ones(4).bool(), "ninguno": torch.zeros(5).bool(),
    "otras dimensiones": torch.ones(3, 5).bool(),
}  # fmt: skip
HEADS = THINGS | {
    "una pareja": (0, 1), "como en el texto": ["0.1"], "reales": [(0.0, 1)], "booleanos": [(0, True)],
    "cabeza que no existe": [(0, 6)], "capa que no existe": [(2, 0)], "negativa": [(0, -1)], "repetida":
    [(0, 1), (0, 1)], "tres números": [(0, 1, 2)], "de numpy": np.array([[0, 1]]), "textos en pareja": [("0", "1")],
    "al revés": [(5, 0)], "anidada": [[(0, 1)]],
}  # fmt: skip
NETS = THINGS | {
    "otra capa": torch.nn.Linear(3, 3),
    "la de torch": torch.nn.MultiheadAttention(12, 3),
    "lista": [LAYER],
}
WORDS = THINGS | {
    "reales": [1.0, 2.0, 1.0, 2.0, 1.0], "mezcla": [1, "1", 1, "a", 1], "cortos": [1, 2],
    "sin repetir": [1, 2, 3, 4, 5],
    "de numpy": np.array([1, 2, 1, 2, 1]), "anidados": [[1, 2, 1, 2, 1]], "None": [None] * 5,
    "tensor real": torch.ones(5), "tensor bool": torch.ones(5).bool(), "tensor complejo": torch.ones(5) * 1j,
}  # fmt: skip
LENGTHS = THINGS | {
    "reales": [1.5, 2.0], "negativa": [-1, 2], "larga": [9], "mezcla": [1, "a"], "desiguales": [[1, 2], [3]],
    "con None": [None, 1], "booleanos": torch.tensor([True]), "complejas": torch.tensor([1j]),
    "textos de numpy": np.array(["a", "b"]), "generador": (i for i in [1, 2]),
}  # fmt: skip
GATES = THINGS | {
    "otra h": torch.ones(2, 5), "otras capas": torch.ones(3, 6), "una capa": torch.ones(6), "otro lote":
    torch.ones(2, 3, 6), "4-D": torch.ones(1, 2, 2, 6), "vacías": torch.empty(0),
}  # fmt: skip
LAYERS = THINGS | {"repetidas": [0, 0], "de más": [0, 2], "reales": [0.0, 1.0], "cortas": [0]}
ATTENTIONS = WEIGHTS | {
    "tupla de None": (None, None), "tupla vacía": (), "sin lote": tuple(MAPS), "frases": (torch.cat([MAPS, MAPS]),) * 2,
    "5-D": MAPS[None], "de 60": rand(2, 3, 60, 60).softmax(-1), "modelo": torch.nn.Linear(2, 2),
}  # fmt: skip
CHOSEN = THINGS | {
    "de numpy": np.int64(1), "tensor de uno": torch.tensor(1), "repetidos": [0, 0], "que no existe": 5,
    "rango": range(2),
    "como texto": "0", "fuera": [5], "real entero": 1.0,
}  # fmt: skip
ROLES = THINGS | {
    "cabeza que no existe": {"a": [(5, 1)]}, "muchos": {str(i): [(0, 0)] for i in range(7)}, "None": {"a": None},
    "una pareja": {"a": (0, 1)}, "como en el texto": {"a": ["0.1"]}, "sin nombre": {"": [(0, 0)]},
    "nombre numérico": {1: [(0, 0)]},
}  # fmt: skip
CONTROLS = THINGS | {
    "tres": {"a": [1, 2], "b": [1, 2], "c": [1, 2]}, "un valor": {"a": [1]}, "iguales": {"a": [1, 1.0]}, "texto":
    {"a": "abc"}, "número": {"a": 3}, "array sin dimensiones": {"a": np.array(3)}, "nombre numérico": {3: [1, 2]},
    "generador": {"a": (i for i in range(3))}, "ninguno": {"a": None},
}  # fmt: skip
DRAWERS = {name: thing for name, thing in THINGS.items() if name not in ("función", "clase")} | {
    "sin argumentos": lambda: figure(), "con dos": lambda a, b: figure(), "no devuelve": lambda a: None,
    "los ejes": lambda a: figure().axes[0],
}  # fmt: skip


def gated(model, gates, layers=None):
    with mc.gate_heads(model, gates, layers=layers):
        return model(X)


def ablated(model, heads, how="zero"):
    with mc.ablate(model, heads, how=how):
        return model(X)


def pruned(model, heads):
    return mc.prune_heads(Net() if model is NET else model, heads)


def added(key, value):
    cache = mc.KVCache()
    cache.update(QKV, QKV)
    return cache.update(key, value)


def show(fig=None, alt=ALT, caption=None):
    views.show(figure() if fig is None else fig, alt, caption)


def explore(draw=figure, controls=None, alt=ALT, caption=None):
    views.explore(draw, {"a": [1, 2]} if controls is None else controls, alt=alt, caption=caption)


SIZES = dict.fromkeys(("num_heads", "n", "batch"), INTEGERS)
CACHE = dict.fromkeys(("n_layers", "num_kv_heads", "head_dim", "n_tokens", "batch", "bytes_per_element"), INTEGERS)
SHAPE = dict.fromkeys(("d_model", "num_heads", "num_kv_heads", "head_dim"), INTEGERS)
SHOWN = {"attentions": ATTENTIONS, "tokens": THINGS, "title": THINGS}

# Función, una llamada buena, y qué se prueba en cada parámetro.
CALLS = {
    "split_heads": (mc.split_heads, {"x": X, "num_heads": 3}, {"x": TENSORS, "num_heads": INTEGERS}),
    "merge_heads": (mc.merge_heads, {"x": QKV}, {"x": TENSORS}),
    "causal_mask": (mc.causal_mask, {"n_q": 3, "n_k": 5}, {"n_q": INTEGERS, "n_k": INTEGERS}),
    "padding_mask": (mc.padding_mask, {"lengths": [2, 3], "n": 4}, {"lengths": LENGTHS, "n": INTEGERS}),
    "sliding_window_mask": (
        mc.sliding_window_mask,
        {"n_q": 3, "window": 2, "n_k": 5},
        dict.fromkeys(("n_q", "window", "n_k", "num_sinks"), INTEGERS),
    ),
    "atención": (
        mc.scaled_dot_product_attention,
        {"query": QKV, "key": QKV, "value": QKV},
        {"query": TENSORS, "key": TENSORS, "value": TENSORS, "mask": MASKS},
    ),
    "atención con pesos": (
        functools.partial(mc.scaled_dot_product_attention, need_weights=True),
        {"query": QKV, "key": QKV, "value": QKV},
        {"query": TENSORS, "key": TENSORS, "value": TENSORS, "mask": MASKS},
    ),
    "los tres iguales": (
        lambda x: mc.scaled_dot_product_attention(x, x, x, need_weights=True),
        {"x": 0},
        {"x": TENSORS},
    ),
    "KVCache": (mc.KVCache, {}, {"window": INTEGERS, "num_sinks": INTEGERS}),
    "KVCache.update": (added, {"key": QKV, "value": QKV}, {"key": TENSORS, "value": TENSORS}),
    "MultiHeadAttention": (
        mc.MultiHeadAttention,
        {"d_model": 12, "num_heads": 6},
        SHAPE | {"dropout": INTEGERS | {"uno": 1, "porcentaje": 50}, "rotary": DRAWERS},
    ),
    "la capa": (LAYER, {"x": X}, {"x": SEQUENCES, "context": SEQUENCES, "mask": MASKS, "cache": THINGS}),
    "from_torch": (mc.MultiHeadAttention.from_torch, {"module": 0}, {"module": NETS}),
    "from_transformers": (mc.MultiHeadAttention.from_transformers, {"layer": 0}, {"layer": NETS}),
    "weight_shapes": (cost.weight_shapes, {"d_model": 12, "num_heads": 6}, SHAPE),
    "attention_params": (cost.attention_params, {"d_model": 12, "num_heads": 6}, SHAPE),
    "attention_flops": (cost.attention_flops, {"d_model": 12, "num_heads": 6, "n": 5}, SHAPE | SIZES),
    "score_elements": (cost.score_elements, {"num_heads": 6, "n": 5}, SIZES),
    "score_bytes": (cost.score_bytes, {"num_heads": 6, "n": 5}, SIZES | {"bytes_per_element": INTEGERS}),
    "kv_cache_bytes": (
        cost.kv_cache_bytes,
        {"n_layers": 2, "num_kv_heads": 6, "head_dim": 4, "n_tokens": 5},
        CACHE,
    ),
    "cache_bytes": (cost.MODELS["Llama-3-8B"].cache_bytes, {}, dict.fromkeys(("n_tokens", "batch"), INTEGERS)),
    "ablate": (ablated, {"model": NET, "heads": [(0, 1)]}, {"model": NETS, "heads": HEADS, "how": THINGS}),
    "prune_heads": (pruned, {"model": NET, "heads": [(0, 1)]}, {"model": NETS, "heads": HEADS}),
    "gate_heads": (
        gated,
        {"model": NET, "gates": torch.ones(2, 6)},
        {"model": NETS, "gates": GATES, "layers": LAYERS},
    ),
    "head_importance": (
        functools.partial(mc.head_importance, loss=lambda model, batch: model(batch).square().sum()),
        {"model": NET, "batches": [X]},
        {"model": NETS, "layers": LAYERS},
    ),
    "HardConcrete": (lambda size: mc.HardConcrete(size, 6), {"size": 2}, {"size": INTEGERS}),
    "HardConcrete.sample": (mc.HardConcrete(2, 6).sample, {}, {"n": INTEGERS}),
    "output_matrix": (heads.output_matrix, {"model": NET, "layer": 0}, {"model": NETS, "layer": INTEGERS}),
    "positional_score": (
        heads.positional_score,
        {"weights": MAPS, "offset": -1},
        {"weights": WEIGHTS, "offset": INTEGERS, "keep": KEEP},
    ),
    "previous_token_score": (heads.previous_token_score, {"weights": MAPS}, {"weights": WEIGHTS}),
    "confidence": (heads.confidence, {"weights": MAPS}, {"weights": WEIGHTS, "keep": KEEP}),
    "attention_entropy": (heads.attention_entropy, {"weights": MAPS}, {"weights": WEIGHTS}),
    "head_divergence": (heads.head_divergence, {"weights": MAPS}, {"weights": WEIGHTS}),
    "sink_score": (heads.sink_score, {"weights": MAPS}, {"weights": WEIGHTS, "position": INTEGERS}),
    "prefix_matching_score": (
        heads.prefix_matching_score,
        {"weights": MAPS, "tokens": [1, 2, 1, 2, 1]},
        {"weights": WEIGHTS, "tokens": WORDS},
    ),
    "duplicate_token_score": (
        heads.duplicate_token_score,
        {"weights": MAPS, "tokens": [1, 2, 1, 2, 1]},
        {"weights": WEIGHTS, "tokens": WORDS},
    ),
    "induction_offset_score": (
        heads.induction_offset_score,
        {"weights": MAPS, "period": 2},
        {"weights": WEIGHTS, "period": INTEGERS},
    ),
    "t_interval": (intervals.t_interval, {"values": [1.0, 2.0]}, {"values": THINGS | {"con NaN": [1.0, NAN]}}),
    "wilson_interval": (intervals.wilson_interval, {"hits": 2, "n": 5}, {"hits": INTEGERS, "n": INTEGERS}),
    "show": (show, {}, {"fig": THINGS, "alt": THINGS, "caption": THINGS}),
    "explore": (explore, {}, {"draw": DRAWERS, "controls": CONTROLS, "alt": DRAWERS, "caption": THINGS}),
    "head_view": (
        views.head_view,
        {"attentions": MAPS, "tokens": TOKENS, "title": "Vista"},
        SHOWN | {"layer": CHOSEN, "heads": CHOSEN, "layers": CHOSEN},
    ),
    "model_view": (
        views.model_view,
        {"attentions": MAPS, "tokens": TOKENS, "title": "Vista"},
        SHOWN | {"heads": CHOSEN, "layers": CHOSEN},
    ),
    "token_view": (
        views.token_view,
        {"attentions": MAPS, "tokens": TOKENS, "title": "Vista"},
        SHOWN | {"layer": CHOSEN, "head": CHOSEN, "roles": ROLES, "caption": THINGS},
    ),
    "predict": (
        views.predict,
        {"id": "02-a", "question": "¿Sí?", "options": ["a", "b"], "answer": 0, "explanation": "Sí."},
        dict.fromkeys(("id", "question", "options", "answer", "explanation"), THINGS),
    ),
    "activity": (views.activity, {"chapter": "04"}, {"chapter": THINGS}),
    "calculator": (views.calculator, {"name": "heads"}, {"name": THINGS | {"otra": "Heads"}}),
    "claim": (
        views.claim,
        {"id": "02-a", "value": 1.0},
        dict.fromkeys(("id", "value", "n", "seeds", "control"), THINGS)
        | {"interval": THINGS | {"mezcla": ("a", 1), "al revés": (2, 1), "tres": (1, 2, 3), "NaN": (NAN, 1)}},
    ),
    "load_bert": (lambda name: models.load_bert(name), {"name": 0}, {"name": {**THINGS, "None": "x"}}),
    "spanish_number": (plots.spanish_number, {"value": 1.5}, {"value": THINGS, "digits": THINGS}),
    "heatmap": (
        plots.heatmap,
        {"weights": MAPS[0, 0]},
        dict.fromkeys(("weights", "row_labels", "column_labels", "title", "xlabel", "ylabel"), THINGS),
    ),
    "lines": (
        plots.lines,
        {"x": [1, 2], "series": {"a": [1, 2]}, "xlabel": "x", "ylabel": "y"},
        dict.fromkeys(("x", "series", "xlabel", "ylabel", "title", "xscale", "references"), THINGS),
    ),
    "bars": (
        plots.bars,
        {"labels": ["a", "b"], "values": [1, 2], "xlabel": "x"},
        dict.fromkeys(("labels", "values", "xlabel", "title", "references"), THINGS),
    ),
    "arcs": (plots.arcs, {"tokens": list("ab"), "weights": MAPS[0, 0, :2, :2]}, {"tokens": THINGS, "weights": THINGS}),
    "vectors2d": (plots.vectors2d, {"vectors": {"a": [1, 2]}}, {"vectors": THINGS, "title": THINGS}),
}


@pytest.fixture(autouse=True)
def _quiet(monkeypatch):
    """Nada se enseña, fuera del libro y sin kernel."""
    monkeypatch.delenv("MULTICABEZA_BOOK", raising=False)
    monkeypatch.setattr(views, "display", lambda *_: None)
    yield
    plt.close("all")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "parameter"), [(name, p) for name, (*_, spots) in CALLS.items() for p in spots])
def test_accepted_or_explained(name, parameter):
    """Ningún error ajeno, ni avisos en inglés: o vale, o lo dice un ValueError nuestro, en español."""
    function, good, spots = CALLS[name]
    foreign = []
    for label, value in spots[parameter].items():
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            try:
                function(**{**good, parameter: value})
            except ValueError as error:
                last = traceback.extract_tb(error.__traceback__)[-1]
                if not last.filename.startswith(str(PACKAGE)) or not last.line.startswith("raise"):
                    foreign.append(f"{label}: {error}")
            except Exception as error:
                foreign.append(f"{label}: {type(error).__name__}: {error}")
    assert not foreign


# --- Lo que antes pasaba en silencio -----------------------------------------------------------------------------


WRONG_ROWS = {
    "traspuestos": (MAPS.mT, "softmax en otro eje"),
    "softmax por columnas": (rand(1, 3, 5, 5).softmax(-2), "softmax en otro eje"),
    "una máscara": (torch.ones(1, 3, 5, 5).bool(), "la máscara en vez de los pesos"),
}


@pytest.mark.parametrize("case", WRONG_ROWS)
def test_indices_and_views_recognise_what_are_not_weights(case):
    weights, message = WRONG_ROWS[case]
    with pytest.raises(ValueError, match=message):
        heads.sink_score(weights)
    with pytest.raises(ValueError, match=message):
        views.head_view(weights, TOKENS, title="Vista")
    with pytest.raises(ValueError, match="con dropout"):
        views.head_view(MAPS * 1.02, TOKENS, title="Vista")


def test_views_and_indices_accept_a_piece_of_the_sentence():
    """Es lo que se aconseja cuando la frase es larga; en `token_view`, que pide filas enteras, no se aconseja."""
    slice_ = MAPS[..., 1:4, 1:4]
    heads.sink_score(slice_)
    views.head_view(slice_, TOKENS[1:4], title="Vista")
    views.model_view(slice_, TOKENS[1:4], title="Vista")
    n = views.MAX_VIEW_TOKENS + 1
    long = rand(1, 1, n, n).softmax(-1)
    with pytest.raises(ValueError, match="quédate con un trozo"):
        views.head_view(long, ["a"] * n, title="Vista")
    with pytest.raises(ValueError, match=r"Acorta la frase\.$"):
        views.token_view(long, ["a"] * n, title="Vista")


def test_copying_with_nan_is_not_perfect_copying():
    """Con NaN ningún token queda por encima del suyo: el índice salía 1."""
    written = rand(2, 3, 5, 8) * NAN
    with pytest.raises(ValueError, match="written con números finitos"):
        heads.copying_score(written, MAPS, torch.tensor([1, 2, 1, 2, 1]), rand(11, 8))


def test_tokens_do_not_mix_numbers_and_texts():
    """Un texto se numera por orden de aparición, y ese número podía ser el de otro token."""
    with pytest.raises(ValueError, match="todos enteros o todos textos"):
        heads.prefix_matching_score(MAPS, [1, "a", 1, "b", 1])
    expected = heads.prefix_matching_score(MAPS, [1, 2, 1, 2, 1])
    for tokens in (np.array([1, 2, 1, 2, 1]), list(np.array([1, 2, 1, 2, 1])), ("a", "b", "a", "b", "a")):
        torch.testing.assert_close(heads.prefix_matching_score(MAPS, tokens), expected)


def test_frequency_that_is_not_a_number_is_refused():
    with pytest.raises(ValueError, match="frequencies con números finitos"):
        heads.rare_token_score(MAPS, [1.0, 2.0, NAN, 4.0, 5.0])


@pytest.mark.parametrize("layer", [np.int64(1), torch.tensor(1)], ids=["numpy", "tensor"])
def test_layer_from_an_argmax_is_accepted(layer, monkeypatch):
    """Elegir con argmax la capa que se enseña es lo corriente."""
    shown = []
    serial = re.compile(r"mc-\w+-\d+-|bertviz-\w+")
    monkeypatch.setattr(views, "display", lambda block: shown.append(serial.sub("", block.data)))
    for value in (1, layer):
        views.head_view(MAPS, TOKENS, title="Vista", layer=value, heads=value)
        views.token_view(MAPS, TOKENS, title="Vista", layer=value, head=value)
    assert shown[0] == shown[2]
    assert shown[1] == shown[3]


def test_very_long_word_leaves_room_for_the_map():
    """Matplotlib avisaba, en inglés, de que la figura se quedaba en nada."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        for view in (views.head_view, views.token_view):
            view(MAPS, ["a", "b", "c", "d", "https://" + "e" * 200], title="Vista")


def test_a_text_is_not_its_letters():
    """`seeds="hola"` contaba cuatro semillas."""
    with pytest.raises(ValueError, match="«seeds» debe ser un entero positivo"):
        views.claim("02-a", 1.0, seeds="hola")


# --- Errores que se veían mal o no se veían ----------------------------------------------------------------------


def test_an_error_on_moving_the_control_is_seen(monkeypatch):
    """En un cuaderno, el error de un control se pierde en un registro y la figura de antes pasaría por la de ahora."""
    shown = []
    monkeypatch.setattr(views, "get_ipython", lambda: object())
    monkeypatch.setattr(views, "display", shown.append)

    def draw(a):
        if a == 2:
            raise ZeroDivisionError("entre <b>cero</b>")
        return figure()

    views.explore(draw, {"a": [1, 2, 3]}, alt=ALT)
    slider, picture = shown[0].children
    first = picture.value
    slider.value = 1
    assert "No se ha podido dibujar este estado (a: 2). ZeroDivisionError: entre &lt;b&gt;cero" in picture.value
    assert "<img" not in picture.value
    slider.value = 0
    assert picture.value == first
    with pytest.raises(ZeroDivisionError):  # el primero sí sale en la celda
        views.explore(draw, {"a": [2, 3, 1]}, alt=ALT)


def test_loaded_model_says_where_the_transformers_part_is():
    loaded = models.LoadedModel(model=NET, tokenizer=None, source="prueba")
    with pytest.raises(AttributeError, match=r"no tiene «config»\. Lo de transformers está en \.model y \.tokenizer"):
        _ = loaded.config
    assert not hasattr(loaded, "attentions")
    with pytest.raises(AttributeError, match="no tiene «config»"):  # lo que se ve al confundirlo con su .model
        models.forward_with_cache(loaded, torch.ones(1, 3).long())


def test_too_long_a_sentence_is_explained_only_in_spanish(caplog):
    bert = models.load_bert()
    logging.getLogger("transformers").addHandler(caplog.handler)
    try:
        with pytest.raises(ValueError, match="La frase ocupa 1202 tokens y este modelo admite 512 posiciones"):
            bert.attend("hola " * 600)
        with pytest.raises(ValueError, match="medio carácter"):
            bert.attend("adiós \ud83d")
    finally:
        logging.getLogger("transformers").removeHandler(caplog.handler)
    assert not caplog.records


def test_similar_name_is_suggested():
    for name, meant in {"MultiheadAttention": "MultiHeadAttention", "loadbert": "load_bert", "Check": "check"}.items():
        with pytest.raises(AttributeError, match=f"no tiene «{name}». ¿Querías decir «{meant}»"):
            getattr(mc, name)
    with pytest.raises(AttributeError, match=r"no tiene «zzz»\. Lo que ofrece: HardConcrete, KVCache"):
        _ = mc.zzz


def test_a_model_not_in_the_table_says_which_there_are():
    with pytest.raises(KeyError, match=r"No hay ningún modelo 'GPT-4'\. Los que hay: Transformer base"):
        _ = cost.MODELS["GPT-4"]
    assert cost.MODELS.get("GPT-4") is None
    assert "GPT-4" not in cost.MODELS


def test_eight_bit_and_sparse_weights_are_named():
    with pytest.raises(ValueError, match="float8_e4m3fn"):
        mc.scaled_dot_product_attention(*[QKV.to(torch.float8_e4m3fn)] * 3)
    with pytest.raises(ValueError, match=r"disperso .*to_dense"):
        attention.split_heads(X.to_sparse(), 3)
