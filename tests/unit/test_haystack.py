"""Las agujas del capítulo 06: el texto de una medida exacta, la respuesta, la pérdida del dato y el índice."""

import pytest
import torch
from torch.nn import functional as F

from multicabeza.heads import ablate
from multicabeza.models import load_smollm2
from multicabeza.toys import haystack as toy
from multicabeza.toys.records import load_record


@pytest.fixture(scope="module")
def smollm2():
    return load_smollm2()


# --- El texto --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [100, 128, 224, 321])
@pytest.mark.parametrize("depth", [0.0, 0.5, 1.0])
def test_texts_measure_what_was_asked(smollm2, length, depth):
    stack = toy.build(
        smollm2, "Hugo lives in Lima.", "Lima", "Where is Hugo's house?", length=length, depth=depth, seed=3
    )
    text = smollm2.tokenizer.decode(stack.tokens)
    assert len(stack.tokens) == length
    assert smollm2.tokenizer.decode(stack.tokens[stack.needle]) == " Lima"
    assert text.count("Hugo lives in Lima.") == 1
    assert text.endswith(f"<|im_start|>assistant\n{toy.LEAD}")
    assert stack.tokens[0] == smollm2.tokenizer.bos_token_id


def test_depth_moves_the_needle(smollm2):
    options = dict(needle="The code is 4071 today.", answer="4071", question="Which number?", length=200)
    places = [toy.build(smollm2, **options, depth=depth).needle[0] for depth in (0, 0.3, 0.6, 1)]
    assert places == sorted(places)
    assert places[0] < 20
    assert places[-1] > 120


def test_the_filler_never_holds_an_answer():
    """Si el dato saliera también en el relleno, la aguja no sería la única."""
    text = " ".join(toy.PARAGRAPHS).lower()
    answers = [word for part in (toy.CHOICE, toy.TEST) for words in part.data.values() for word in words]
    assert not [answer for answer in answers if answer.lower() in text]
    assert sorted(toy.filler(1)) == sorted(toy.filler(2))
    assert toy.filler(1) != toy.filler(2)


def test_the_two_halves_share_nothing():
    sentences = [{template.needle for template in part.templates} for part in (toy.CHOICE, toy.TEST)]
    words = [{word for words in part.data.values() for word in words} for part in (toy.CHOICE, toy.TEST)]
    assert not sentences[0] & sentences[1]
    assert not words[0] & words[1]
    assert not {*toy.CHOICE.paragraphs} & {*toy.TEST.paragraphs}


def test_questions_repeat_at_most_who_is_asked_about():
    """De la aguja, la pregunta repite como mucho un nombre, una palabra gramatical o de quién se habla."""
    allowed = {"the", "in", "marta", "doctor", "klein", "laura", "hugo", "train"}
    for template in (*toy.CHOICE.templates, *toy.TEST.templates):
        assert toy.shared_words(template) <= allowed
        before = template.needle.split(" {}")[0].split()[-1].lower()
        assert before not in f"{template.question} {toy.LEAD}".lower().replace("?", "").split() or before == "in"


def test_examples_are_ordered_by_needle(smollm2):
    stacks = toy.examples(smollm2, toy.TEST, 128, seed=5)
    assert len(stacks) == 4 * 2 * 3
    assert [stack.answer for stack in stacks[::3]] == [stack.answer for stack in stacks[2::3]]
    assert len({stack.answer for stack in stacks[:6]}) == 2
    literal = toy.examples(smollm2, toy.TEST, 128, seed=5, literal=True)
    for stack, template in zip(literal[::6], toy.TEST.templates, strict=True):
        assert smollm2.tokenizer.decode(stack.tokens).endswith(template.needle.split(" {}")[0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"answer": "Oslo"}, "sale 0 veces"),
        ({"answer": ""}, "sale 0 veces"),
        ({"needle": "Lima, Lima."}, "sale 2 veces"),
        ({"depth": 1.5}, "entre 0 y 1"),
        ({"length": 20}, "Se esperaba una longitud entre"),
        ({"length": 50_000}, "Se esperaba una longitud entre"),
    ],
)
def test_errors_say_what_was_expected(smollm2, change, message):
    options = dict(needle="Hugo lives in Lima.", answer="Lima", question="Where?", length=128) | change
    with pytest.raises(ValueError, match=message):
        toy.build(smollm2, **options)


# --- Lo que responde -------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_generation_equals_generating_without_cache(smollm2):
    tokens = torch.stack([stack.tokens for stack in toy.examples(smollm2, toy.CHOICE, 96, per_template=1)[:2]])
    made = toy.generate(smollm2.model, tokens, 3)
    grown = tokens
    with torch.no_grad():
        for _ in range(3):
            grown = torch.cat([grown, smollm2.model(grown, use_cache=False).logits[:, -1:].argmax(-1)], dim=1)
    assert (made == grown[:, -3:]).all()


def test_reply_ends_where_the_turn_ends(smollm2):
    def ids(text):
        return torch.tensor(smollm2.tokenizer(text, add_special_tokens=False)["input_ids"])

    assert toy.reply(smollm2, ids(" In Lima.<|im_end|>\n<|im_start|>user")) == "In Lima."
    assert toy.reply(smollm2, ids(" In Lima\nand more")) == "In Lima"
    assert toy.is_right("It is in LIMA, of course", "Lima")
    assert not toy.is_right(toy.reply(smollm2, ids(" In Oslo\nLima")), "Lima")
    rows = [{"answer": "Lima"}, {"answer": "Oslo"}]
    assert toy.count_right(["in lima", "in Lima"], rows) == 1


@pytest.mark.slow
def test_answer_loss_by_hand(smollm2):
    """La pérdida del dato es la de una pasada corriente, texto a texto, con y sin cabezas apagadas."""
    stacks = toy.examples(smollm2, toy.CHOICE, 110, per_template=1)[::3]  # datos de distinta longitud
    assert len({len(stack.needle) for stack in stacks}) > 1
    heads = [(18, 6), (20, 1)]
    whole, fast = toy.AnswerLoss(smollm2.model, stacks), toy.AnswerLoss(smollm2.model, stacks, 18)
    for chosen in ([], heads):
        firsts, rests = [], []
        for stack in stacks:
            answer = stack.tokens[stack.needle]
            with torch.no_grad(), ablate(smollm2.model, chosen):
                logits = smollm2.model(torch.cat([stack.tokens, answer])[None], use_cache=False).logits[0]
            losses = F.cross_entropy(logits[len(stack.tokens) - 1 : -1], answer, reduction="none")
            firsts.append(losses[0])
            rests.append(losses[1:].mean())  # NaN si el dato es un solo token
        for measure in (whole, fast):
            first, rest = measure(chosen)
            torch.testing.assert_close(first, torch.stack(firsts), atol=2e-3, rtol=2e-3)
            torch.testing.assert_close(rest, torch.stack(rests), atol=2e-3, rtol=2e-3, equal_nan=True)


@pytest.mark.slow
def test_index_of_one_pass_equals_the_steps_of_generation(smollm2):
    """Lo que se mira en una pasada sobre lo generado es lo que cada paso miró al generarlo."""
    stack = toy.examples(smollm2, toy.CHOICE, 96, per_template=1)[0]
    generated = toy.generate(smollm2.model, stack.tokens[None], 3)[0]
    index = toy.retrieval_index(smollm2.model, stack, generated)
    assert index.whole.shape == (30, 9)
    assert len(stack.needle) > 1
    copied = torch.zeros(30, 9, len(stack.needle), dtype=torch.bool)
    for step in range(3):
        read = torch.cat([stack.tokens, generated[:step]])
        with torch.no_grad():
            maps = smollm2.model(read[None], output_attentions=True, use_cache=False).attentions
        attended = torch.stack([layer[0, :, -1].argmax(-1) for layer in maps])  # (30, 9)
        for k, position in enumerate(stack.needle):
            copied[..., k] |= (attended == position) & (generated[step] == stack.tokens[position])
    torch.testing.assert_close(index.whole, copied.float().mean(-1))
    torch.testing.assert_close(index.first, copied[..., 0].float())
    torch.testing.assert_close(index.rest, copied[..., 1:].float().mean(-1))


# --- Elegir y contar -------------------------------------------------------------------------------------------------


def test_groups_of_heads():
    retrieval, induction = torch.zeros(3, 9), torch.zeros(3, 9)
    retrieval[0, :6] = torch.tensor([0.9, 0.8, 0.7, 0.6, 0.5, 0.4])
    retrieval[1, :3] = torch.tensor([0.35, 0.3, 0.05])
    induction[0, :2] = torch.tensor([0.9, 0.05])
    induction[2, :6] = torch.tensor([0.8, 0.7, 0.6, 0.5, 0.4, 0.3])
    groups = toy.head_groups(retrieval, induction)
    assert groups["retrieval"] == [(0, 0), (0, 1), (0, 2), (0, 3), (0, 4)]
    assert groups["only_retrieval"] == [(0, 1), (0, 2), (0, 3), (0, 4), (0, 5)]
    assert groups["induction"] == [(0, 0), (2, 0), (2, 1), (2, 2), (2, 3)]
    assert groups["only_induction"] == [(2, 0), (2, 1), (2, 2), (2, 3), (2, 4)]


def test_share_above_resamples_needles():
    """Con agujas idénticas no hay incertidumbre; con dos muy distintas, el intervalo va de una a otra."""
    same = torch.tensor([0.0, 0.2, 0.6, 0.05]).expand(6, 4)[:, None]
    assert toy.share_above(same, torch.tensor([0, 0, 1, 1, 2, 2]), 0.1) == (0.5, 0.5, 0.5)
    apart = torch.cat([torch.zeros(3, 1, 4), torch.ones(3, 1, 4)])
    share, low, high = toy.share_above(apart, torch.tensor([0, 0, 0, 1, 1, 1]), 0.1)
    assert (share, low, high) == (1, 0, 1)


def test_the_record_is_what_the_code_says():
    """El registro lleva las mitades completas, y los grupos salen de sus propios índices."""
    values = load_record("06_retrieval").values
    for half in ("choice", "test"):
        assert len(values[half]["rows"]) == 4 * 2 * len(toy.DEPTHS) * len(toy.LENGTHS)
        for row in values[half]["rows"]:
            assert row["right"] == (row["answer"].lower() in row["reply"].lower())
    groups = toy.head_groups(*(torch.tensor(values["indices"][name]) for name in ("choice", "induction")))
    assert {name: [list(pair) for pair in heads] for name, heads in groups.items()} == values["groups"]
    layers = [layer for layer, _ in sorted(values["groups"]["retrieval"])]
    for draw in values["ablation"]["retrieval_draws"]["heads"]:
        assert sorted(layer for layer, _ in draw) == layers
        assert not {tuple(pair) for pair in draw} & {tuple(pair) for pair in values["groups"]["retrieval"]}
