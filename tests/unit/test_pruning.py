"""La importancia frente a diferencias finitas, las puertas frente a sus fórmulas y la poda frente a enmascarar."""

import copy
import math

import pytest
import torch
from torch import nn
from transformers import BertConfig, BertLMHeadModel, LlamaConfig, LlamaForCausalLM

import multicabeza as mc
from multicabeza import heads, models, pruning
from multicabeza.attention import KVCache, MultiHeadAttention, RotaryEmbedding, padding_mask
from tests.unit.test_heads import (
    MODELS,
    OurStack,
    generator,
    hooks,
    ids,
    output_projections,
    randn,
    run,
    tiny_bert,
    tiny_llama,
)

TIGHT = {"atol": 1e-12, "rtol": 0}
CLOSE = {"atol": 1e-5, "rtol": 0}

every_model = pytest.mark.parametrize("name", [name for name in MODELS if name != "una suelta"])
prunable = pytest.mark.parametrize("name", ["LLaMA eager", "LLaMA sdpa", "BERT eager", "BERT sdpa", "nuestras"])


def uniform(name):
    """El modelo, en float64; del nuestro, las dos capas con cuatro cabezas."""
    model = MODELS[name]().double()
    return (model, [0, 2]) if isinstance(model, OurStack) else (model, [0, 1, 2])


def example_losses(model, batch):
    """Una pérdida por ejemplo, (batch,), que no es lineal y cambia de signo."""
    return run(model, batch)[:, -3:].double().sin().sum(dim=(1, 2))


def total_loss(model, batch):
    return example_losses(model, batch).sum()


# --- Importancia -----------------------------------------------------------------------------------------------------


@every_model
def test_importance_equals_finite_differences_of_each_example(name):
    model, layers = uniform(name)
    batches = [ids(3, seed=1), ids(2, seed=2)]
    importance = mc.head_importance(model, batches, total_loss, layers=layers)
    # LLaMA normaliza siempre en float32: con un paso menor, la diferencia sería redondeo.
    step, margin = (1e-2, 1e-3) if name.startswith("LLaMA") else (1e-5, 1e-6)
    expected = torch.zeros(len(layers), 4, dtype=torch.float64)
    for row in range(len(layers)):
        for head in range(4):
            for batch in batches:
                losses = []
                for sign in (1, -1):
                    gates = torch.ones(len(layers), 4, dtype=torch.float64)
                    gates[row, head] += sign * step
                    with torch.no_grad(), mc.gate_heads(model, gates, layers=layers):
                        losses.append(example_losses(model, batch))
                expected[row, head] += ((losses[0] - losses[1]) / (2 * step)).abs().sum() / 5
    torch.testing.assert_close(importance, expected, atol=margin / 10, rtol=margin)
    assert importance.min() > 1e-4


@every_model
def test_importance_equals_output_times_gradient_without_gates(name):
    """La otra mitad de la fórmula: E|head·∂L/∂head|, con la entrada de W^O de cada ejemplo por separado."""
    model, layers = uniform(name)
    batch, expected = ids(4, seed=3), torch.zeros(len(layers), 4, dtype=torch.float64)
    for b in range(4):
        seen = {}

        def note(layer, seen=seen):
            def hook(_module, inputs):
                inputs[0].retain_grad()
                seen[layer] = inputs[0]

            return hook

        paths = [path for path, _ in output_projections(model)]
        handles = [model.get_submodule(p).register_forward_pre_hook(note(layer)) for layer, p in enumerate(paths)]
        total_loss(model, batch[b : b + 1]).backward()
        for handle in handles:
            handle.remove()
        for row, layer in enumerate(layers):
            product = (seen[layer] * seen[layer].grad).unflatten(-1, (4, -1))  # (1, n, h, d_k)
            expected[row] += product.sum(dim=(0, 1, 3)).abs().detach() / 4
    torch.testing.assert_close(mc.head_importance(model, [batch], total_loss, layers=layers), expected, **TIGHT)


def test_the_absolute_value_is_taken_for_each_example():
    """Un ejemplo y su contrario: en media no hay gradiente, y la cabeza importa en los dos."""

    class Opposite(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.attention = MultiHeadAttention(8, 2)

        def forward(self, x):
            return self.attention(x)

    def loss(model, x):
        return (model(x).sum(dim=(1, 2)) * torch.tensor([1.0, -1.0])).sum()

    x = randn(1, 5, 8).expand(2, 5, 8)
    together = mc.head_importance(Opposite(), [x], loss)
    gates = torch.ones(1, 2, requires_grad=True)
    model = Opposite()
    with mc.gate_heads(model, gates):
        loss(model, x).backward()
    torch.testing.assert_close(gates.grad, torch.zeros(1, 2), **CLOSE)
    assert together.min() > 0.01


def test_importance_does_not_depend_on_how_examples_are_batched():
    model, batch = tiny_llama().double(), ids(6, seed=4)
    whole = mc.head_importance(model, [batch], total_loss)
    uneven = mc.head_importance(model, iter([batch[:1], batch[1:5], batch[5:]]), total_loss)
    torch.testing.assert_close(uneven, whole, **TIGHT)
    assert whole.shape == (3, 4)


def test_importance_normalised_by_layer():
    model, batch = tiny_bert(), ids()
    raw = mc.head_importance(model, [batch], total_loss)
    normalised = mc.head_importance(model, [batch], total_loss, normalize="l2")
    torch.testing.assert_close(normalised, raw / raw.pow(2).sum(1, keepdim=True).sqrt())
    assert not torch.allclose(normalised, raw)


def test_importance_leaves_no_trace():
    model = tiny_llama()
    model.lm_head.weight.grad = torch.ones_like(model.lm_head.weight)
    before = copy.deepcopy(model.state_dict())
    with torch.no_grad():  # también dentro de no_grad
        mc.head_importance(model, [ids()], total_loss)
    assert not hooks(model)
    assert model.lm_head.weight.grad.eq(1).all()
    assert all(p.grad is None for name, p in model.named_parameters() if "proj" in name)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())

    def broken(_model, _batch):
        raise KeyError

    with pytest.raises(KeyError):
        mc.head_importance(model, [ids()], broken)
    assert not hooks(model)


def test_importance_takes_the_loaded_model_and_frozen_parameters():
    inner = tiny_llama().requires_grad_(False)
    loaded = models.LoadedModel(inner, None, "al azar")
    importance = mc.head_importance(loaded, [ids()], lambda given, batch: total_loss(given.model, batch))
    torch.testing.assert_close(importance, mc.head_importance(inner, [ids()], total_loss))


def test_the_order_of_the_layers_is_the_one_asked_for():
    model = tiny_bert()
    all_layers = mc.head_importance(model, [ids()], total_loss)
    torch.testing.assert_close(mc.head_importance(model, [ids()], total_loss, layers=[2, 0]), all_layers[[2, 0]])


IMPORTANCE_ERRORS = {
    "sin lotes": (lambda m: mc.head_importance(m, [], total_loss), "generador ya recorrido"),
    "norma": (lambda m: mc.head_importance(m, [ids()], total_loss, normalize="L2"), "«l2»"),
    "por ejemplo": (lambda m: mc.head_importance(m, [ids()], example_losses), "escalar"),
    "sin gradiente": (lambda m: mc.head_importance(m, [ids()], lambda m, b: total_loss(m, b).detach()), "escalar"),
    "número": (lambda m: mc.head_importance(m, [ids()], lambda m, b: total_loss(m, b).item()), "llegó float"),
    "capa": (lambda m: mc.head_importance(m, [ids()], total_loss, layers=[3]), "capa entre 0 y 2"),
    "capas repetidas": (lambda m: mc.head_importance(m, [ids()], total_loss, layers=[0, 0]), "distintas"),
    "cabezas distintas": (lambda _: mc.head_importance(OurStack(), [ids()], total_loss), "4, 6"),
    "otro modelo": (lambda m: mc.head_importance(m, [ids()], lambda _, b: total_loss(tiny_bert(), b)), "no pasa"),
}


@pytest.mark.parametrize("case", IMPORTANCE_ERRORS)
def test_importance_refuses(case):
    call, message = IMPORTANCE_ERRORS[case]
    model = tiny_llama()
    with pytest.raises(ValueError, match=message):
        call(model)
    assert not hooks(model)


# --- Puertas en el modelo --------------------------------------------------------------------------------------------


@every_model
def test_gates_of_zero_and_one_equal_ablation(name):
    model, layers = uniform(name)
    gates = torch.ones(len(layers), 4)
    gates[0, 1] = gates[-1, 3] = gates[-1, 0] = 0
    with mc.ablate(model, [(layers[0], 1), (layers[-1], 3), (layers[-1], 0)]):
        expected = run(model, ids())
    with mc.gate_heads(model, gates, layers=layers):
        torch.testing.assert_close(run(model, ids()), expected, **TIGHT)
    assert (expected - run(model, ids())).abs().max() > 1e-3
    assert not hooks(model)


@every_model
def test_a_gate_scales_the_columns_of_w_o(name):
    model, layers = uniform(name)
    gates = torch.rand(len(layers), 4, generator=generator()).double()
    reference = copy.deepcopy(model)
    with torch.no_grad():
        for row, layer in enumerate(layers):
            for head in range(4):
                heads.output_matrix(reference, layer)[head].mul_(gates[row, head])
    with mc.gate_heads(model, gates, layers=layers):
        torch.testing.assert_close(run(model, ids()), run(reference, ids()), **TIGHT)


def test_one_gate_per_example():
    model, gates = tiny_llama().double(), torch.rand(3, 2, 4, generator=generator()).double()
    batch = ids(2)
    with mc.gate_heads(model, gates):
        together = run(model, batch)
        with pytest.raises(ValueError, match="último lote más corto"):
            run(model, batch[:1])
    for b in range(2):
        with mc.gate_heads(model, gates[:, b]):
            torch.testing.assert_close(run(model, batch[b : b + 1]), together[b : b + 1], **TIGHT)


def test_blocks_of_gates_nest_and_are_restored_after_an_exception():
    model = tiny_bert().double()
    one, other = torch.rand(2, 3, 4, generator=generator()).double()
    with mc.gate_heads(model, one * other):
        product = run(model, ids())
    with mc.gate_heads(model, one), mc.gate_heads(model, other):
        torch.testing.assert_close(run(model, ids()), product, **TIGHT)
    whole = run(model, ids())
    with pytest.raises(KeyError), mc.gate_heads(model, one):
        raise KeyError
    assert not hooks(model)
    assert torch.equal(run(model, ids()), whole)


def test_layers_with_different_numbers_of_heads_take_a_list():
    model = OurStack()
    with mc.ablate(model, [(1, 5)]):
        expected = run(model, ids())
    with mc.gate_heads(model, [torch.ones(4), torch.tensor([1.0, 1, 1, 1, 1, 0]), torch.ones(4)]):
        torch.testing.assert_close(run(model, ids()), expected)


def test_only_a_part_of_the_model():
    model = tiny_llama()
    with mc.ablate(model, [(1, 2)]):
        expected = run(model, ids())
    with mc.gate_heads(model.model.layers[1], torch.tensor([[1.0, 1, 0, 1]])):
        torch.testing.assert_close(run(model, ids()), expected)


@pytest.mark.parametrize(
    ("gates", "message"),
    [
        (torch.ones(4), "3 capas"),
        (torch.ones(2, 4), "3 capas"),
        (torch.ones(3, 5), "capa 0, que tiene 4"),
        (torch.ones(3, 4, 3), "n_layers, batch, h"),
        ([torch.ones(4)] * 2 + [[1, 1, 1, 1]], "capa 2"),
        (None, "3 capas"),
    ],
)
def test_gates_that_do_not_fit_are_refused(gates, message):
    model = tiny_llama()
    with pytest.raises(ValueError, match=message), mc.gate_heads(model, gates):
        pass
    assert not hooks(model)


# --- Hard Concrete ---------------------------------------------------------------------------------------------------

SETTINGS = [(2 / 3, -0.1, 1.1), (0.33, -0.1, 1.1), (0.5, -0.3, 1.05)]


@pytest.mark.parametrize(("beta", "gamma", "zeta"), SETTINGS)
def test_samples_agree_with_the_closed_forms(beta, gamma, zeta):
    gates = mc.HardConcrete(2, 3, beta=beta, gamma=gamma, zeta=zeta)
    with torch.no_grad():
        gates.log_alpha.copy_(torch.tensor([[-3.0, -1.0, -0.2], [0.1, 0.7, 2.5]]))
    n = 200_000
    sample = gates.sample(n, generator=generator())
    assert sample.shape == (2, n, 3)
    assert 0 <= sample.min()
    assert sample.max() <= 1
    closed = (sample == 0).double().mean(1)
    one = (sample == 1).double().mean(1)
    margin = {"atol": 4.5 * 0.5 / math.sqrt(n), "rtol": 0}
    torch.testing.assert_close(closed, gates.expected_closed().double(), **margin)
    torch.testing.assert_close(1 - closed, gates.expected_open().double(), **margin)
    torch.testing.assert_close(one, gates.expected_one().double(), **margin)
    torch.testing.assert_close(gates.expected_closed() + gates.expected_open(), torch.ones(2, 3))
    torch.testing.assert_close(gates.penalty(), gates.expected_open().sum())
    majority = (one >= closed).float()
    assert torch.equal(gates.binary(), majority)
    assert {0.0, 1.0} == set(gates.binary().flatten().tolist())


def test_known_values_at_log_alpha_zero():
    """log α = 0 y β = 2/3: P(0) = P(1) = 0,168; con β = 1/3, 0,310."""
    for beta, expected in ((2 / 3, 0.168), (1 / 3, 0.310)):
        gates = mc.HardConcrete(1, beta=beta, init=0.0)
        assert gates.expected_closed().item() == pytest.approx(expected, abs=5e-4)
        assert gates.expected_one().item() == pytest.approx(expected, abs=5e-4)
    assert mc.HardConcrete(1, init=-1e-3).binary().item() == 0
    assert mc.HardConcrete(1, init=1e-3).binary().item() == 1


def test_a_gate_in_the_middle_is_the_formula():
    gates = mc.HardConcrete(50, init=0.3)
    u = torch.rand(50, generator=generator(5))
    s = 1 / (1 + torch.exp(-((u / (1 - u)).log() + 0.3) / (2 / 3)))
    expected = torch.minimum(torch.ones(50), torch.maximum(torch.zeros(50), s * 1.2 - 0.1))
    torch.testing.assert_close(gates.sample(generator=generator(5)), expected)
    assert ((expected > 0) & (expected < 1)).sum() > 20


def test_the_deterministic_gate_closes_and_opens():
    gates = mc.HardConcrete(3)
    limit = math.log(11)  # σ(log α)·1,2 − 0,1 = 0  ⇔  log α = −log 11
    with torch.no_grad():
        gates.log_alpha.copy_(torch.tensor([-limit - 0.01, 0.0, limit + 0.01]))
    torch.testing.assert_close(gates.deterministic(), torch.tensor([0.0, 0.5, 1.0]))


def test_gradients_reach_log_alpha_through_the_model_and_through_the_penalty():
    model = tiny_bert().requires_grad_(False)
    gates = mc.HardConcrete(3, 4, init=0.0)
    sample = gates.sample(3, generator=generator())  # (3 capas, 3 ejemplos, 4)
    with mc.gate_heads(model, sample):
        total_loss(model, ids()).backward()
    middle = ((sample > 0) & (sample < 1)).any(dim=1)
    assert torch.equal(gates.log_alpha.grad != 0, middle)
    assert middle.sum() > 6
    assert gates.log_alpha.grad.isfinite().all()
    gates.zero_grad()
    gates.penalty().backward()
    opened = gates.expected_open().detach()
    torch.testing.assert_close(gates.log_alpha.grad, opened * (1 - opened))


def test_the_gradient_is_finite_at_the_ends_of_the_uniform(monkeypatch):
    for value in (0.0, 1 - 2**-24):
        monkeypatch.setattr(torch, "rand", lambda shape, value=value, **_: torch.full(tuple(shape), value))
        gates = mc.HardConcrete(2)
        gates.sample().sum().backward()
        assert gates.log_alpha.grad.isfinite().all()


def test_training_closes_the_useless_gates_and_keeps_the_useful_ones():
    gates = mc.HardConcrete(4)
    optimizer = torch.optim.Adam(gates.parameters(), lr=0.1)
    useful, shuffle = torch.tensor([1.0, 1.0, 0.0, 0.0]), generator()
    for _ in range(200):
        optimizer.zero_grad()
        (((1 - gates.sample(generator=shuffle)) * useful).sum() + 0.1 * gates.penalty()).backward()
        optimizer.step()
    assert gates.binary().tolist() == useful.tolist()


@pytest.mark.parametrize("wrong", [{"beta": 0.0}, {"gamma": 0.0}, {"gamma": 0.1}, {"zeta": 1.0}])
def test_parameters_without_mass_at_the_ends_are_refused(wrong):
    with pytest.raises(ValueError, match="γ < 0 y ζ > 1"):
        mc.HardConcrete(2, **wrong)
    for shape in ((), (0,), (2.0,)):
        with pytest.raises(ValueError, match=r"forma|entero"):
            mc.HardConcrete(*shape)


# --- Poda física -----------------------------------------------------------------------------------------------------

REMOVED = {
    "algunas": [(0, 0), (0, 1), (2, 1), (2, 3)],  # en GQA: un grupo entero; una cabeza de cada grupo
    "una capa entera": [(0, 0), (0, 1), (0, 2), (0, 3), (2, 0), (2, 1)],
    "la última capa": [(2, head) for head in range(4)],
    "todas": [(layer, head) for layer in (0, 2) for head in range(4)] + [(1, head) for head in range(4)],
}


def every_head(model):
    return [(layer, head) for layer, (_, h) in enumerate(output_projections(model)) for head in range(h)]


@prunable
@pytest.mark.parametrize("case", REMOVED)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_pruning_equals_masking(name, case, dtype):
    model = MODELS[name]().to(dtype)
    removed = every_head(model) if case == "todas" else REMOVED[case]
    with torch.no_grad():
        for name_, parameter in model.named_parameters():  # sesgos que se noten
            if name_.endswith("bias"):
                parameter.normal_(generator=generator(len(name_)))
        with mc.ablate(model, removed):
            expected = run(model, ids())
        whole = run(model, ids())
        pruned = mc.prune_heads(model, removed)
        torch.testing.assert_close(run(model, ids()), expected, **(TIGHT if dtype == torch.float64 else CLOSE))
    assert (whole - expected).abs().max() > 1e-3
    assert sorted(pruned.heads) == sorted(removed)


def expected_parameters(name, removed):
    """Parámetros que se van, contados a mano: filas con su sesgo y columnas."""
    if name.startswith("BERT"):
        return len(removed) * (3 * 6 * (24 + 1) + 6 * 24)
    if name.startswith("LLaMA"):
        groups = [(layer, group) for layer in range(3) for group in range(2)]
        gone = [pair for pair in groups if all((pair[0], 2 * pair[1] + i) in removed for i in range(2))]
        return len(removed) * 2 * 10 * 24 + len(gone) * 2 * 10 * 24
    total = 0
    for layer, size in ((0, 6), (1, 5), (2, 6)):
        mine = [head for where, head in removed if where == layer]
        groups = sum({2 * g, 2 * g + 1} <= set(mine) for g in range(2)) if layer == 0 else len(mine)
        total += size * (len(mine) * (25 + 24) + 2 * groups * 25)
    return total


@prunable
@pytest.mark.parametrize("case", REMOVED)
def test_it_removes_the_parameters_that_it_says(name, case):
    model = MODELS[name]()
    removed = every_head(model) if case == "todas" else REMOVED[case]
    before = sum(parameter.numel() for parameter in model.parameters())
    pruned = mc.prune_heads(model, removed)
    after = sum(parameter.numel() for parameter in model.parameters())
    assert pruned.params == before - after == expected_parameters(name, removed)


def test_it_says_which_way_each_head_went():
    pruned = mc.prune_heads(tiny_llama(), [(0, 1), (0, 0), (2, 1), (2, 3), (2, 3)])
    assert pruned.heads == [(0, 0), (0, 1), (2, 1), (2, 3)]
    assert pruned.groups == [(0, 0)]
    assert pruned.queries_only == [(2, 1), (2, 3)]
    assert str(pruned) == (
        "4 cabezas menos: 2 con sus claves y valores (1 grupo entero); 2 solo de consulta (su grupo sigue, y su sitio "
        "en la caché también). 2\N{NO-BREAK SPACE}400 parámetros menos."
    )
    pruned = mc.prune_heads(tiny_bert(), [(1, 2)])
    assert pruned.groups == [(1, 2)]
    assert str(pruned) == "1 cabeza menos: 1 con sus claves y valores (1 grupo entero). 594 parámetros menos."
    assert pruned.queries_only == []
    assert mc.prune_heads(tiny_bert(), []) == ([], [], 0, [])


def state_of(model):
    return copy.deepcopy(model.state_dict()), [type(module) for module in model.modules()]


@pytest.mark.parametrize(
    ("build", "removed", "message"),
    [
        (tiny_llama, [(0, 0), (0, 1), (2, 1)], r"capa 2.*con 1, 2 cabezas.*grupos enteros.*cabezas 0, 1\)"),
        (OurStack, [(2, 0), (0, 3)], r"capa 0.*con 2, 1 cabezas"),
        (tiny_bert, [(0, 0), (3, 0)], "capa entre 0 y 2"),
        (tiny_bert, [(0, 0), (1, 4)], "cabeza entre 0 y 3"),
        (tiny_bert, (0, 0), "lista de parejas"),
        (MODELS["GPT-2 eager"], [(0, 0)], "GPT2Attention.*from_transformers"),
    ],
)
def test_a_refusal_leaves_the_model_whole(build, removed, message):
    model = build()
    before, kinds = state_of(model)
    whole = run(model, ids())
    with pytest.raises(ValueError, match=message):
        mc.prune_heads(model, removed)
    after, same = state_of(model)
    assert kinds == same
    assert all(torch.equal(before[name], after[name]) for name in {*before, *after})
    assert torch.equal(run(model, ids()), whole)


def test_wrapped_projections_are_refused():
    class Wrapped(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

    model = tiny_bert()
    model.encoder.layer[1].attention.self.key = Wrapped(model.encoder.layer[1].attention.self.key)
    with pytest.raises(ValueError, match=r"capa 1 hay Wrapped"):
        mc.prune_heads(model, [(0, 0), (1, 0)])
    assert model.encoder.layer[0].attention.self.num_attention_heads == 4
    model = tiny_bert()
    nn.utils.parametrizations.weight_norm(model.encoder.layer[1].attention.self.key)
    with pytest.raises(ValueError, match=r"capa 1 hay ParametrizedLinear"):
        mc.prune_heads(model, [(0, 0), (1, 0)])


@pytest.mark.parametrize("model", [nn.Linear(2, 2), None, nn.MultiheadAttention(8, 2)])
def test_models_without_heads_are_refused(model):
    with pytest.raises(ValueError, match="capas de atención"):
        mc.prune_heads(model, [(0, 0)])


@pytest.mark.parametrize("removed", [[0, 1], [1, 3], [0, 1, 2, 3], [0, 1, 3, 2]])
@pytest.mark.parametrize("bias", [True, False])
def test_our_layer_in_every_use(removed, bias):
    """Autoatención, atención cruzada, máscaras con filas vacías, pesos y caché; con GQA y cabezas de otro tamaño."""
    torch.manual_seed(0)
    whole = MultiHeadAttention(12, 4, num_kv_heads=2, head_dim=5, bias=bias).double()
    if bias:
        nn.init.normal_(whole.qkv_proj.bias)
        nn.init.normal_(whole.out_proj.bias)
    layer = copy.deepcopy(whole)
    mc.prune_heads(layer, [(0, head) for head in removed])
    kept = [head for head in range(4) if head not in removed]
    x, context = randn(3, 6, 12).double(), randn(3, 4, 12, seed=1).double()
    uses = {
        "propia": ((x,), {}),
        "causal": ((x,), {"is_causal": True}),
        "cruzada": ((x, context), {}),
        "relleno": ((x,), {"mask": padding_mask([6, 2, 0], 6)}),
        "cruzada con relleno": ((x, context), {"mask": padding_mask([4, 0, 1], 4)}),
        "matriz": ((x,), {"mask": torch.rand(6, 6, generator=generator()) < 0.3}),
    }
    for arguments, options in uses.values():
        with mc.ablate(whole, [(0, head) for head in removed]):
            expected, weights = whole(*arguments, need_weights=True, **options)
        torch.testing.assert_close(layer(*arguments, **options), expected, **TIGHT)
        output, smaller = layer(*arguments, need_weights=True, **options)
        torch.testing.assert_close(output, expected, **TIGHT)
        torch.testing.assert_close(smaller, weights[:, kept], **TIGHT)
    for window in (None, 3):
        caches = [KVCache(window, num_sinks=1), KVCache(window, num_sinks=1)]
        with torch.no_grad():
            for piece in (x[:, :2], x[:, 2:3], x[:, 3:]):
                with mc.ablate(whole, [(0, head) for head in removed]):
                    expected = whole(piece, is_causal=True, cache=caches[0])
                torch.testing.assert_close(layer(piece, is_causal=True, cache=caches[1]), expected, **TIGHT)
        assert caches[1].keys.shape[1] == layer.num_kv_heads
        assert len(caches[1]) == len(caches[0])


def test_our_rotary_layer_keeps_its_positions():
    torch.manual_seed(0)
    whole = MultiHeadAttention(12, 6, num_kv_heads=3, head_dim=4, rotary=RotaryEmbedding(4)).double()
    for removed in ([2, 3], [0, 3, 5], range(6)):
        layer = copy.deepcopy(whole)
        mc.prune_heads(layer, [(0, head) for head in removed])
        with mc.ablate(whole, [(0, head) for head in removed]):
            expected = whole(randn(2, 5, 12).double(), is_causal=True)
        torch.testing.assert_close(layer(randn(2, 5, 12).double(), is_causal=True), expected, **TIGHT)


CACHED = {
    "grupo y capa 0": [(0, 0), (0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 0), (2, 2)],
    "todas": [(layer, head) for layer in range(3) for head in range(4)],
}


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("case", CACHED)
def test_llama_generates_with_a_cache_as_the_masked_one(attention, case):
    """También si la capa 0, por la que la caché cuenta los tokens, se queda sin cabezas."""
    model, tokens = tiny_llama(attention).double(), ids(2, 8)
    pruned = copy.deepcopy(model)
    mc.prune_heads(pruned, CACHED[case])
    with torch.no_grad():
        with mc.ablate(model, CACHED[case]):
            whole = model(tokens).logits
            generated = model.generate(tokens, max_new_tokens=6, do_sample=False, pad_token_id=0)
        output, cache = models.forward_with_cache(pruned, tokens[:, :3])
        pieces = [output.logits]
        for start, end in ((3, 4), (4, 7), (7, 8)):
            output, cache = models.forward_with_cache(pruned, tokens[:, start:end], cache)
            pieces.append(output.logits)
        torch.testing.assert_close(torch.cat(pieces, dim=1), whole, **TIGHT)
        assert torch.equal(pruned.generate(tokens, max_new_tokens=6, do_sample=False, pad_token_id=0), generated)
    shapes = [tuple(layer.keys.shape) for layer in cache.layers]
    assert shapes[0] == (2, 1, 8, 1)  # una marca por token
    if case != "todas":
        assert shapes[1:] == [(2, 1, 8, 10), (2, 2, 8, 10)]  # el grupo se va de la caché; las consultas, no


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_padded_batches_agree_too(attention):
    for model in (tiny_llama(attention).double(), tiny_bert(attention).double()):
        removed = [(0, head) for head in range(4)] + [(1, 0), (1, 1)]
        batch = {"input_ids": ids(3, 6), "attention_mask": torch.tensor([[1] * 6, [1] * 4 + [0] * 2, [1] * 5 + [0]])}
        with torch.no_grad(), mc.ablate(model, removed):
            expected = model(**batch)[0]
        mc.prune_heads(model, removed)
        with torch.no_grad():
            torch.testing.assert_close(model(**batch)[0], expected, **TIGHT)


def test_bert_as_a_decoder_with_a_cache():
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=60, hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4, is_decoder=True
    )
    model, tokens = BertLMHeadModel(config).eval().double(), ids(2, 6)
    removed = [(0, head) for head in range(4)] + [(1, 2)]
    with torch.no_grad(), mc.ablate(model, removed):
        expected = model(tokens).logits
    mc.prune_heads(model, removed)
    with torch.no_grad():
        first, cache = models.forward_with_cache(model, tokens[:, :4])
        second, _ = models.forward_with_cache(model, tokens[:, 4:], cache)
    torch.testing.assert_close(torch.cat([first.logits, second.logits], 1), expected, **TIGHT)


@pytest.mark.parametrize("build", [tiny_llama, tiny_bert])
def test_attentions_keep_a_place_for_every_layer(build):
    model = build().double()
    removed = [(1, head) for head in range(4)] + [(2, 0), (2, 1)]
    with mc.ablate(model, removed):
        masked = model(ids(), output_attentions=True).attentions
    mc.prune_heads(model, removed)
    attentions = model(ids(), output_attentions=True).attentions
    assert [tuple(a.shape[:2]) for a in attentions] == [(3, 4), (3, 0), (3, 2)]
    torch.testing.assert_close(attentions[0], masked[0], **TIGHT)
    torch.testing.assert_close(attentions[2], masked[2][:, 2:], **TIGHT)


@pytest.mark.parametrize("build", [tiny_llama, tiny_bert, OurStack])
def test_the_rest_of_the_module_works_on_a_pruned_model(build):
    """Tras podar, `ablate`, `record_heads`, `gate_heads` y otra poda ven las cabezas que quedan."""
    model = build().double()
    first = [(0, head) for head in range(4)] + [(2, 0), (2, 1)]
    then = [(0, head) for head in range(4)] + [(2, 0), (2, 1), (2, 3), (1, 1), (1, 0)]
    if build is tiny_llama:
        then = [(0, head) for head in range(4)] + [(2, 0), (2, 1), (2, 3), (1, 1), (1, 2)]
    with mc.ablate(model, then):
        expected = run(model, ids())
    mc.prune_heads(model, first)
    again = sorted((layer, head - 2 if layer == 2 else head) for layer, head in set(then) - set(first))
    sizes = [0, 6 if build is OurStack else 4, 2]
    gates = [torch.tensor([float((i, head) not in again) for head in range(size)]) for i, size in enumerate(sizes)]
    with mc.ablate(model, again), heads.record_heads(model) as record:
        torch.testing.assert_close(run(model, ids()), expected, **TIGHT)
    assert set(record) == {1, 2}
    assert record[2].shape[1] == 2
    with mc.gate_heads(model, gates):
        torch.testing.assert_close(run(model, ids()), expected, **TIGHT)
    assert mc.head_importance(model, [ids()], total_loss, layers=[2]).shape == (1, 2)
    with pytest.raises(ValueError, match="podada entera"):
        mc.head_importance(model, [ids()], total_loss, layers=[0])
    with pytest.raises(ValueError, match="la capa 0 tiene 0"):
        mc.prune_heads(model, [(0, 0)])
    pruned = mc.prune_heads(model, again)
    assert pruned.heads == again
    torch.testing.assert_close(run(model, ids()), expected, **TIGHT)


@pytest.mark.parametrize("build", [tiny_llama, tiny_bert, OurStack])
def test_the_state_is_saved_and_read_back(build):
    removed = [(0, head) for head in range(4)] + [(2, 0), (2, 1)]
    model = build()
    mc.prune_heads(model, removed)
    torch.manual_seed(1)
    other = build()
    for parameter in other.parameters():
        nn.init.normal_(parameter, std=0.02)
    mc.prune_heads(other, removed)
    other.load_state_dict(model.state_dict())
    assert torch.equal(run(other, ids()), run(model, ids()))
    for module in model.modules():
        if isinstance(module, nn.Linear):
            assert module.weight.shape == (module.out_features, module.in_features)
            assert module.bias is None or module.bias.shape == (module.out_features,)
    twin = copy.deepcopy(model)
    assert torch.equal(run(twin, ids()), run(model, ids()))


def test_the_copy_does_not_share_the_configuration():
    model = tiny_llama()
    mc.prune_heads(model, [(0, 0), (0, 1)])
    twin = copy.deepcopy(model)
    twin.set_attn_implementation("sdpa")
    assert twin.model.layers[0].self_attn.config._attn_implementation == "sdpa"
    assert model.model.layers[0].self_attn.config._attn_implementation == "eager"
    assert model.config.num_attention_heads == 4
    torch.testing.assert_close(run(twin, ids()), run(model, ids()), **CLOSE)


def test_a_pruned_layer_of_llama_can_be_copied_to_ours():
    model = tiny_llama()
    mc.prune_heads(model, [(0, 1), (0, 3), (1, 0), (1, 1)])
    x = randn(2, 5, 24)
    rotary = model.model.rotary_emb(x, torch.arange(5)[None])
    for layer in model.model.layers[:2]:
        ours = MultiHeadAttention.from_transformers(layer)
        mask = torch.full((5, 5), -torch.inf).triu(1)[None, None]
        theirs, _ = layer.self_attn(x, position_embeddings=rotary, attention_mask=mask)
        torch.testing.assert_close(ours(x, is_causal=True), theirs, **CLOSE)
        assert ours.num_heads == 2


@prunable
def test_a_pruned_model_trains(name):
    model = MODELS[name]()
    mc.prune_heads(model, [(0, head) for head in range(4)] + [(2, 0), (2, 1)])
    total_loss(model, ids()).backward()
    unused = {"model.layers.0.input_layernorm.weight", "pooler.dense.weight", "pooler.dense.bias"}
    for path, parameter in model.named_parameters():
        assert parameter.grad is not None or parameter.numel() == 0 or path in unused
    frozen = MODELS[name]().requires_grad_(False)
    mc.prune_heads(frozen, [(2, 0), (2, 1)])
    assert not any(parameter.requires_grad for parameter in frozen.parameters())


def test_mqa_loses_single_query_heads_or_everything():
    config = LlamaConfig(
        vocab_size=60, hidden_size=24, intermediate_size=40, num_hidden_layers=1, num_attention_heads=4,
        num_key_value_heads=1, attention_bias=True,
    )  # fmt: skip
    torch.manual_seed(0)
    model = LlamaForCausalLM(config).eval().double()
    for removed, groups in (([1], []), ([0, 2, 3], []), ([0, 1, 2, 3], [(0, 0)])):
        smaller = copy.deepcopy(model)
        pruned = mc.prune_heads(smaller, [(0, head) for head in removed])
        assert pruned.groups == groups
        with mc.ablate(model, [(0, head) for head in removed]):
            torch.testing.assert_close(run(smaller, ids()), run(model, ids()), **TIGHT)


def test_minilm_from_load_bert():
    loaded = mc.load_bert()
    batch = loaded.tokenizer(["The cat sat on the mat.", "The dog barked."], padding=True, return_tensors="pt")
    removed = [(0, 2), (3, 5), *((4, head) for head in range(12)), (5, 11)]
    with torch.no_grad():
        with mc.ablate(loaded, removed):
            expected = loaded.model(**batch).last_hidden_state
        pruned = mc.prune_heads(loaded, removed)
        torch.testing.assert_close(loaded.model(**batch).last_hidden_state, expected, **CLOSE)
    assert pruned.params == 15 * (3 * 32 * 385 + 32 * 384)


def test_public_names():
    assert mc.prune_heads is pruning.prune_heads
    assert mc.pruning.HardConcrete is mc.HardConcrete
