"""La elección con dos cabezas de ocho y la poda de SmolLM2: los órdenes, los sorteos, la copia podada y el ajuste."""

import itertools
from collections import Counter

import pytest
import torch

import multicabeza as mc
from multicabeza.toys import choice, induction, smollm_heads
from multicabeza.toys import smollm_pruning as pruning

# --- La elección -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model():
    return induction.load_checkpoint(1_600)


@pytest.fixture(scope="module")
def data():
    source = choice.batches(99)
    return [next(source) for _ in range(2)]


def test_every_pair_of_heads_is_tried():
    assert len(choice.MASKS) == len({frozenset(mask) for mask in choice.MASKS}) == 28
    assert sum(map(choice.across, choice.MASKS)) == 16


@pytest.mark.parametrize("mask", [((0, 2), (1, 3)), ((0, 0), (0, 1)), ((1, 0), (1, 2))])
def test_the_pruned_copy_is_the_model_with_the_others_off(model, mask):
    before = {name: value.clone() for name, value in model.state_dict().items()}
    tokens, _ = induction.exam()
    with torch.no_grad(), mc.ablate(model, [head for head in choice.HEADS if head not in mask]):
        expected = model(tokens)
    smaller = choice.pruned(model, mask)
    torch.testing.assert_close(smaller(tokens), expected, atol=1e-5, rtol=0)
    removed = 6 * (3 * 16 * 64 + 16 * 64)
    assert sum(p.numel() for p in model.parameters()) - sum(p.numel() for p in smaller.parameters()) == removed
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_losses_of_each_example_average_to_the_loss_of_the_exam(model):
    tokens, period = induction.exam()
    losses = choice.example_losses(model, (tokens, period))
    repeated, _ = induction.parts(period)
    weighted = (losses * repeated.sum(1)).sum() / repeated.sum()
    assert weighted.item() == pytest.approx(induction.measure(model, tokens, period).repeated, abs=1e-5)


def test_accuracy_counts_only_what_can_be_known(model):
    assert 0.85 < choice.accuracy(model) < 1
    assert choice.accuracy(induction.new_model("two", 5)) < 0.06


def test_tuning_with_frozen_heads_moves_the_rest_only(model):
    for frozen in (True, False):
        smaller = choice.pruned(model, ((0, 2), (1, 3)))
        before = {name: value.clone() for name, value in smaller.named_parameters()}
        scores = choice.fine_tune(smaller, 0, (0, 2, 4), frozen=frozen)
        moved = {name for name, value in smaller.named_parameters() if not torch.equal(value, before[name])}
        assert len(scores) == 3
        assert ("layers.0.qkv_proj.weight" in moved) == (not frozen)
        assert ("layers.1.out_proj.weight" in moved) == (not frozen)
        assert {"tokens.weight", "norms.1.weight", "unembed.weight"} <= moved


def test_tuning_repeats_itself_with_the_same_seed(model):
    scores = [choice.fine_tune(choice.pruned(model, ((0, 1), (1, 0))), seed, (0, 3)) for seed in (7, 7, 8)]
    assert scores[0] == scores[1]
    states = []
    for seed in (7, 7, 8):
        smaller = choice.pruned(model, ((0, 1), (1, 0)))
        choice.fine_tune(smaller, seed, (0, 2))
        states.append(smaller.unembed.weight)
    assert torch.equal(states[0], states[1])
    assert not torch.equal(states[0], states[2])


@pytest.mark.slow
def test_a_head_that_stays_alone_in_its_layer_can_be_repaired_and_an_empty_layer_cannot(model):
    """Es la conclusión del capítulo, con pocos pasos y mucho margen."""
    one_each = choice.fine_tune(choice.pruned(model, choice.by_indices(model)), 0, (0, 60))
    same_layer = choice.fine_tune(choice.pruned(model, ((1, 0), (1, 1))), 0, (0, 60))
    assert one_each[-1] > 0.6
    assert same_layer[-1] < 0.2


def masked_loss(model, mask, batches):
    with torch.no_grad(), mc.ablate(model, [head for head in choice.HEADS if head not in mask]):
        return sum(choice.example_losses(model, batch).mean().item() for batch in batches)


def test_choosing_by_trying_finds_the_least_loss(model, data):
    best = min(choice.MASKS, key=lambda mask: masked_loss(model, mask, data))
    assert choice.by_trying(model, data) == best


def test_choosing_by_importance_takes_the_two_greatest(model, data):
    scores = choice.importance(model, data)
    first, second = choice.by_importance(model, data)
    assert first < second
    assert {scores[first].item(), scores[second].item()} == set(scores.flatten().sort().values[-2:].tolist())


def test_choosing_by_turns_measures_again_each_time(model, data):
    """Con las manos: en cada vuelta, la menos importante de las que quedan, con las demás apagadas."""
    left = list(choice.HEADS)
    while len(left) > 2:
        with mc.ablate(model, [head for head in choice.HEADS if head not in left]):
            scores = choice.importance(model, data)
        left.remove(min(left, key=lambda head: scores[head].item()))
    assert choice.iteratively(model, data) == tuple(left)


def test_choosing_by_gates_leaves_the_model_alone(model, monkeypatch):
    monkeypatch.setattr(choice, "GATE_STEPS", 3)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    gates = choice.train_gates(model, 0)
    assert (gates.log_alpha != 2).any()
    first, second = choice.by_gates(gates)
    assert first < second
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(parameter.requires_grad for parameter in model.parameters())


# --- SmolLM2 ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 3])
def test_random_orders_are_spread_over_the_layers(seed):
    order = pruning.stratified_order(30, 9, seed)
    assert sorted(order) == list(itertools.product(range(30), range(9)))
    for k in (1, 27, 30, 81, 200, 270):
        counts = Counter(layer for layer, _ in order[:k])
        lost = [counts[layer] for layer in range(30)]
        assert max(lost) - min(lost) <= 1
    assert order == pruning.stratified_order(30, 9, seed)
    assert order != pruning.stratified_order(30, 9, seed + 1)
    assert [head for _, head in order[:30]] != [order[0][1]] * 30


def test_ascending_order_and_its_ties():
    scores = torch.tensor([[0.3, 0.1], [0.1, 0.2]])
    assert pruning.ascending(scores) == [(0, 1), (1, 0), (1, 1), (0, 0)]


def test_groups_and_their_heads():
    assert pruning.heads_of([(2, 0), (5, 2)]) == [(2, 0), (2, 1), (2, 2), (5, 6), (5, 7), (5, 8)]
    assert pruning.whole_groups(pruning.heads_of([(2, 0), (5, 2)])) == 2
    assert pruning.whole_groups([(0, 0), (0, 1), (0, 3), (1, 2)]) == 0
    assert pruning.whole_groups([(0, 0), (0, 1), (0, 2), (0, 2), (0, 3)]) == 1


def test_choosing_in_turns_switches_off_what_is_gone(monkeypatch):
    seen, base = [], torch.arange(270.0).view(30, 9)

    class Loaded:
        model = None

    def importance(_loaded, _tokens):
        return base.clone()

    def gate_heads(_model, gates):
        seen.append(gates.clone())
        return mc.ablate(induction.new_model("two"), [])

    monkeypatch.setattr(pruning, "importance", importance)
    monkeypatch.setattr(pruning, "gate_heads", gate_heads)
    lists = pruning.iterative_orders(Loaded, None, [0, 27, 54])
    assert [len(gone) for gone in lists] == [0, 27, 54]
    assert lists[2][:27] == lists[1] == pruning.ascending(base)[:27]
    assert [int(gates.sum()) for gates in seen] == [270, 243]


def test_the_texts_of_choosing_are_not_those_of_measuring():
    texts = [*pruning.CHOICE_PARAGRAPHS, *smollm_heads.PARAGRAPHS]
    assert len(set(texts)) == len(texts) == 20
    words = [set(text.lower().split()) for text in texts]
    for one, other in itertools.combinations(range(20), 2):
        assert len(words[one] & words[other]) / len(words[one] | words[other]) < 0.3


def test_turns_and_ratios(monkeypatch):
    durations = {"whole": 6.0, "pruned": 3.0}
    now = [0.0]
    monkeypatch.setattr(pruning.time, "perf_counter", lambda: now[0])
    calls = []

    def runs(name):
        def run():
            calls.append(name)
            now[0] += durations[name] * (10 if len(calls) <= 2 else 1)

        return run

    times = pruning.alternate({name: runs(name) for name in durations}, rounds=4)
    assert calls == ["whole", "pruned"] * 5
    assert times == {"whole": [6.0] * 4, "pruned": [3.0] * 4}
    assert pruning.speedup(times, "pruned") == [2.0, 2.0, 2.0]


@pytest.mark.slow
def test_importance_of_smollm2_and_its_loss_agree_with_what_is_written():
    loaded = mc.load_smollm2()
    tokens = pruning.choice_tokens(loaded)
    assert tokens.shape == (10, smollm_heads.TEXT_LENGTH)
    assert (tokens[:, 0] == loaded.tokenizer.bos_token_id).all()
    short = tokens[:2, :24]
    with torch.no_grad():
        expected = smollm_heads.text_losses(loaded.model, short).mean(1).sum()
        torch.testing.assert_close(pruning.text_loss(loaded.model, short), expected)
    scores = pruning.importance(loaded, short)
    assert scores.shape == (30, 9)
    assert scores.min() > 0


def test_the_same_layers_lose_as_many():
    heads = [(0, 3), (0, 4), (7, 0), (7, 1), (7, 2), (29, 8)]
    draws = [pruning.same_layers(heads, 9, seed) for seed in range(20)]
    for draw in draws:
        assert len(set(draw)) == len(heads)
        assert sorted(layer for layer, _ in draw) == [layer for layer, _ in heads]
        assert all(0 <= head < 9 for _, head in draw)
    assert len({tuple(draw) for draw in draws}) == 20
    assert pruning.same_layers(heads, 9, 3) == draws[3]
    assert sorted(pruning.same_layers([(2, head) for head in range(9)], 9, 0)) == [(2, head) for head in range(9)]
