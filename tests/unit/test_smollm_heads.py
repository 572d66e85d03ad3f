"""Lo que el capítulo 06 mide en SmolLM2: los textos, los sorteos, la ablación desde una capa y el corte por una vía."""

from collections import Counter

import pytest
import torch
from torch.nn import functional as F
from transformers import LlamaConfig, LlamaForCausalLM

from multicabeza.heads import ablate
from multicabeza.models import load_smollm2
from multicabeza.toys import smollm_heads as toy
from multicabeza.toys.records import load_record

HEADS = [(1, 2), (2, 0), (2, 3)]


def tiny_llama():
    """Cuatro capas de cuatro cabezas, sin entrenar, con pesos grandes para que apagar una se note."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=50, hidden_size=24, intermediate_size=40, num_hidden_layers=4, num_attention_heads=4,
        num_key_value_heads=2, head_dim=6, initializer_range=0.3, attn_implementation="eager",
    )  # fmt: skip
    return LlamaForCausalLM(config).eval()


@pytest.fixture(scope="module")
def model():
    return tiny_llama()


@pytest.fixture(scope="module")
def tokens():
    once = torch.stack([torch.randperm(48, generator=torch.Generator().manual_seed(i))[:7] + 2 for i in range(3)])
    return torch.cat([torch.ones(3, 1, dtype=torch.long), once, once], dim=1)  # (3, 15)


@pytest.fixture(scope="module")
def smollm2():
    return load_smollm2()


# --- Los textos ------------------------------------------------------------------------------------------------------


def test_repeated_tokens():
    made = toy.repeated_tokens(3, batch=5, period=9)
    assert made.shape == (5, 19)
    assert (made[:, 0] == 1).all()
    assert (made[:, 1:10] == made[:, 10:]).all()
    assert all(len(set(row.tolist())) == 9 for row in made[:, 1:10])
    assert set(made[:, 1:].flatten().tolist()) <= set(toy.VOCABULARY)
    assert (made == toy.repeated_tokens(3, batch=5, period=9)).all()
    assert (made != toy.repeated_tokens(4, batch=5, period=9)).any()


def test_completes_a_pair_by_hand():
    text = torch.tensor([[5, 6, 7, 5, 6, 8, 6, 7], [1, 1, 1, 2, 3, 4, 2, 4]])
    expected = [[False, False, False, True, False, False, True], [False, True, False, False, False, False, False]]
    assert toy.completes_a_pair(text).tolist() == expected


def test_texts_are_whole_and_equally_long(smollm2):
    made = toy.text_tokens(smollm2)
    assert made.shape == (10, toy.TEXT_LENGTH)
    assert (made[:, 0] == smollm2.tokenizer.bos_token_id).all()
    assert len({tuple(row) for row in made.tolist()}) == 10
    assert smollm2.tokenizer.decode(made[0, 1:6]) == " ".join(toy.PARAGRAPHS[0].split()[:5])


@pytest.mark.parametrize("mark", toy.PATTERNS.values())
def test_patterns_have_their_answer_twice(smollm2, mark):
    """La respuesta es lo que sigue a la palabra preguntada, las dos veces que sale, y no es la última pareja."""
    prompts = toy.pattern_prompts(smollm2, 12, seed=5, mark=mark)
    step = len(mark)
    for row, answer, rivals in zip(*(x.tolist() for x in prompts), strict=True):
        asked = row[-1 - step]
        followers = [row[i + 1 + step] for i, token in enumerate(row[: -1 - step]) if token == asked]
        assert followers == [answer, answer]
        assert row[-3 - step] != answer  # lo último que se leyó antes del salto de línea
        assert Counter(rivals)[answer] == 1
        assert len(rivals) == 4
    places = {rivals.index(answer) for answer, rivals in zip(*(x.tolist() for x in prompts[1:]), strict=True)}
    assert len(places) > 2


@pytest.mark.parametrize("task", toy.TASKS)
def test_tasks_ask_a_new_word_and_are_balanced(smollm2, task):
    prompts = toy.task_prompts(smollm2, task, 10, seed=5)
    animals = set(toy.single_tokens(smollm2.tokenizer, toy.ANIMALS).values())
    labels = [*toy.single_tokens(smollm2.tokenizer, toy.TASKS[task]).values()]
    assert len(labels) == 2
    for row, answer in zip(prompts.tokens.tolist(), prompts.answer.tolist(), strict=True):
        words, said = row[1:-2:4], row[3:-2:4]
        assert sorted(Counter(said).values()) == [3, 3]
        assert all((word in animals) == (label == labels[0]) for word, label in zip(words, said, strict=True))
        assert row[-2] not in words
        assert answer == labels[row[-2] not in animals]
    assert Counter(prompts.answer.tolist()) == {labels[0]: 5, labels[1]: 5}


def test_words_are_single_tokens(smollm2):
    assert toy.single_tokens(smollm2.tokenizer, ["river", "incomprehensibly"]).keys() == {"river"}
    assert not set(toy.ANIMALS) & set(toy.FRUITS)
    assert len(toy.single_tokens(smollm2.tokenizer, toy.WORDS)) >= 50


# --- Los índices -----------------------------------------------------------------------------------------------------


def test_indices_on_made_maps(tokens):
    """Cada cabeza, un mapa perfecto: inducción, token anterior, token duplicado y sumidero."""
    n, period = tokens.shape[1], 7
    i = torch.arange(n)
    repeat = i > period
    targets = [
        torch.where(repeat, i - period + 1, i),
        (i - 1).clamp(min=0),
        torch.where(repeat, i - period, i),
        i * 0,
    ]
    maps = F.one_hot(torch.stack(targets), n).float().expand(1, 3, 4, n, n)
    found = toy.head_indices(maps, tokens)
    for place, name in enumerate(("prefix", "previous", "duplicate", "sink")):
        assert found[name].shape == (1, 4)
        assert found[name][0, place] == pytest.approx(1)
        assert toy.top_heads(found[name], 1) == [(0, place)]
        assert toy.above(found[name], 0.9) == [(0, place)]


def test_top_heads_and_above():
    scores = torch.tensor([[0.1, 0.5, 0.3], [0.9, 0.0, 0.4]])
    assert toy.top_heads(scores, 3) == [(1, 0), (0, 1), (1, 2)]
    assert toy.above(scores, 0.4) == [(0, 1), (1, 0), (1, 2)]


# --- Los sorteos -----------------------------------------------------------------------------------------------------


def test_matched_draws():
    chosen = [(18, 6), (17, 3), (17, 4), (18, 7), (17, 5)]
    draws = toy.matched_draws(chosen, 9, 60)
    assert len({frozenset(draw) for draw in draws}) == 60
    for draw in draws:
        assert Counter(layer for layer, _ in draw) == {17: 3, 18: 2}
        assert not set(draw) & set(chosen)
        assert len(set(draw)) == 5
    assert {pair for draw in draws for pair in draw} == {(a, b) for a in (17, 18) for b in range(9)} - set(chosen)
    assert draws == toy.matched_draws(chosen, 9, 60)
    with pytest.raises(ValueError, match="20 sorteos"):
        toy.matched_draws([(0, 0), (0, 1), (0, 2)], 9, 21)


def test_free_draws():
    draws = toy.free_draws(4, range(2, 6), 5, 30, excluding=[(3, 1), (3, 2)])
    drawn = {pair for draw in draws for pair in draw}
    assert all(len(set(draw)) == 4 for draw in draws)
    assert drawn == {(a, b) for a in range(2, 6) for b in range(5)} - {(3, 1), (3, 2)}
    with_one = toy.free_draws(4, range(2, 6), 5, 30, excluding=[(3, 1)], including=[(3, 2)])
    assert all(draw[0] == (3, 2) and draw.count((3, 2)) == 1 and len(set(draw)) == 4 for draw in with_one)


# --- Medir desde una capa --------------------------------------------------------------------------------------------


def whole_losses(model, tokens, heads, how):
    with torch.no_grad(), ablate(model, heads, how=how):
        logits = model(input_ids=tokens, use_cache=False).logits
    return -logits[:, :-1].log_softmax(-1).gather(-1, tokens[:, 1:, None])[..., 0]


@pytest.mark.parametrize("how", toy.HOWS)
def test_tail_equals_the_whole_model(model, tokens, how):
    expected = whole_losses(model, tokens, HEADS, how)
    tail = toy.Tail(model, tokens, 1)
    torch.testing.assert_close(tail.losses(HEADS, how), expected)
    torch.testing.assert_close(tail.losses(HEADS, how, start=5), expected[:, 5:])
    torch.testing.assert_close(toy.text_losses(model, tokens, HEADS, how), expected)
    assert toy.copy_loss(model, tokens, HEADS, how) == pytest.approx(float(expected[:, 8:].mean()), rel=1e-5)
    assert (expected - whole_losses(model, tokens, [], how)).abs().max() > 0.05


def test_tail_last_logits(model, tokens):
    with torch.no_grad(), ablate(model, HEADS):
        expected = model(input_ids=tokens, use_cache=False).logits[:, -1]
    torch.testing.assert_close(toy.Tail(model, tokens, 1).last_logits(HEADS), expected)


def test_tail_leaves_the_model_as_it_was(model, tokens):
    before = whole_losses(model, tokens, [], "zero")
    tail = toy.Tail(model, tokens, 2)
    with pytest.raises(ValueError, match=r"1\.2"):
        tail.losses(HEADS)
    broken = toy.Tail(model, tokens, 2)
    broken.stream = broken.stream[..., :3]
    with pytest.raises(RuntimeError):  # falla a media pasada
        broken.hidden()
    assert len(model.model.layers) == 4
    torch.testing.assert_close(whole_losses(model, tokens, [], "zero"), before, rtol=0, atol=0)


def test_score_answers_by_hand():
    logits = torch.tensor([[0.0, 5.0, 1.0, 2.0], [3.0, 0.0, 4.0, 0.0]])
    prompts = toy.Prompts(torch.zeros(2, 1), torch.tensor([3, 0]), torch.tensor([[2, 3], [0, 1]]))
    everyone = toy.score_answers(logits, prompts, among_rivals=False)
    assert everyone.right.tolist() == [False, False]
    torch.testing.assert_close(everyone.loss, -logits.log_softmax(1)[[0, 1], [3, 0]])
    rivals = toy.score_answers(logits, prompts, among_rivals=True)
    assert rivals.right.tolist() == [True, True]
    expected = -torch.tensor([[1.0, 2.0], [3.0, 0.0]]).log_softmax(1)[[0, 1], [1, 0]]
    torch.testing.assert_close(rivals.loss, expected)


# --- El corte --------------------------------------------------------------------------------------------------------


def projected(model, tokens):
    """Lo que sale de las tres proyecciones de la capa 2, y las pérdidas."""
    seen = {}
    hooks = [
        getattr(model.model.layers[2].self_attn, part).register_forward_hook(
            lambda _m, _i, out, part=part: seen.__setitem__(part, out)
        )
        for part in toy.READERS.values()
    ]
    losses = whole_losses(model, tokens, [], "zero")
    for hook in hooks:
        hook.remove()
    return seen, losses


@pytest.mark.parametrize("reader", toy.READERS)
def test_cut_changes_one_reader_only(model, tokens, reader):
    heads = [(1, 2)]
    intact, losses = projected(model, tokens)
    with ablate(model, heads):
        silenced, _ = projected(model, tokens)
    with toy.cut(model, toy.Tail(model, tokens, 1), heads, [2], reader):
        found, cut_losses = projected(model, tokens)
    for name, part in toy.READERS.items():
        expected = silenced if name == reader else intact
        torch.testing.assert_close(found[part], expected[part])
        assert (silenced[part] - intact[part]).abs().max() > 1e-3
    assert (cut_losses - losses).abs().max() > 1e-3
    torch.testing.assert_close(whole_losses(model, tokens, [], "zero"), losses)  # al salir, todo como estaba


def test_cut_refuses_other_readers(model, tokens):
    with (
        pytest.raises(ValueError, match="query, key, value"),
        toy.cut(model, toy.Tail(model, tokens, 1), [(1, 2)], [2], "output"),
    ):
        pass


# --- Copiar ----------------------------------------------------------------------------------------------------------


def test_copying_by_hand(model, tokens):
    """El puesto del token atendido, contado aparte para una cabeza."""
    layer, head = 1, 2
    in_top, percentile = toy.copying(model, tokens, [(layer, head)])[layer, head]
    with torch.no_grad():
        output = model(input_ids=tokens, output_attentions=True, output_hidden_states=True, use_cache=False)
        block = model.model.layers[layer]
        weights = output.attentions[layer][:, head]  # (3, 15, 15)
        values = block.self_attn.v_proj(block.input_layernorm(output.hidden_states[layer]))[..., 6:12]  # grupo 1 de 2
        written = weights @ values @ block.self_attn.o_proj.weight[:, 12:18].T  # (3, 15, 24)
        logits = written * model.model.norm.weight @ model.lm_head.weight.T  # (3, 15, 50)
    below, top = [], []
    for b in range(3):
        for i in range(8, 15):
            z = logits[b, i]
            own = z[tokens[b, weights[b, i].argmax()]]
            below.append(float((z < own).sum()) / 49)
            top.append(float((z > own).sum() < 10))
    assert percentile == pytest.approx(sum(below) / len(below), abs=1e-3)
    assert in_top == pytest.approx(sum(top) / len(top), abs=1e-6)
    assert 0 < in_top < 1


# --- El modelo y el registro -----------------------------------------------------------------------------------------


def test_record_is_what_it_says(smollm2):
    """Las cabezas salen de las semillas de elegir, y los sorteos, de su función; una medida se rehace aquí."""
    record = load_record("06_ablation")
    values = record.values
    assert not set(values["choice"]["seeds"]) & set(record.seeds)
    chosen = [tuple(pair) for pair in values["choice"]["heads"]]
    assert values["choice"]["scores"] == sorted(values["choice"]["scores"], reverse=True)
    ablation = values["ablation"]
    assert [[tuple(pair) for pair in draw] for draw in ablation["matched_draws"]] == toy.matched_draws(chosen, 9, 50)
    assert toy.PREVIOUS not in {tuple(pair) for draw in ablation["matched_draws"] for pair in draw}
    assert all(list(toy.PREVIOUS) in draw for draw in ablation["previous_draws"])
    assert not any(list(toy.PREVIOUS) in draw for draw in ablation["free_draws"])
    tokens = toy.repeated_tokens(record.seeds[0])
    assert toy.copy_loss(smollm2.model, tokens, chosen) == pytest.approx(ablation["zero"]["chosen"][0], abs=0.05)
    found = toy.head_indices(toy.attention_maps(smollm2.model, tokens), tokens)["prefix"]
    for name, scores in values["indices"]["prefix"]["top"].items():
        layer, head = map(int, name.split("."))
        assert float(found[layer, head]) == pytest.approx(scores[0], abs=0.02)
