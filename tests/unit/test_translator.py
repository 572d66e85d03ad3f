"""El mini traductor: sus frases, el modelo, cómo se mide y cómo se poda."""

import copy
import hashlib
import re
from itertools import pairwise

import pytest
import torch

from multicabeza.attention import padding_mask
from multicabeza.heads import ablate
from multicabeza.toys import bilingual, translator
from multicabeza.toys.bilingual import corpus
from multicabeza.toys.records import load_record, results_folders


@pytest.fixture(scope="module")
def parts():
    return {part: corpus(part) for part in bilingual.SIZES}


@pytest.fixture(scope="module")
def base():
    return translator.load_checkpoint("base")


# --- Las frases ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_corpus_is_always_the_same(parts):
    """La misma semilla da las mismas frases: dos generadores recién hechos, y el que hizo el registro."""
    bilingual._stream.cache_clear()
    assert corpus("test", 300) == parts["test"][:300]
    text = "\n".join(" ".join(s.spanish) + "\t" + " ".join(s.english) for s in parts["test"])
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "b293369c06e567d8"


@pytest.mark.slow
def test_nothing_of_the_test_is_trained(parts):
    """Ni una frase de prueba, ni una primera oración suya, sale en el entrenamiento; tampoco las de validación."""
    for part in ("test", "validation"):
        held = parts[part]
        assert not {s.spanish for s in held} & {s.spanish for s in parts["train"]}
        assert not {s.first for s in held} & {s.first for s in parts["train"]}
    assert not {s.first for s in parts["test"]} & {s.first for s in parts["validation"]}
    times = {time for time, _ in bilingual.TIMES.values()}
    for sentence in parts["test"]:  # la primera oración es la que es: con ella empieza la frase
        start = sentence.spanish[1:] if sentence.spanish[0] in times else sentence.spanish
        assert start[: len(sentence.first)] == sentence.first
        assert len(start) == len(sentence.first) or start[len(sentence.first)] in ("y", "porque")


def test_sentences_are_distinct_and_have_one_translation(parts):
    """Ninguna frase se repite, y la misma frase española nunca se traduce de dos maneras."""
    sentences = [sentence for part in parts.values() for sentence in part]
    assert len({s.spanish for s in sentences}) == len(sentences) == sum(bilingual.SIZES.values())
    assert {word for s in sentences for word in s.spanish} == set(bilingual.SPANISH[3:])
    assert {word for s in sentences for word in s.english} == set(bilingual.ENGLISH[3:])
    assert max(len(s.spanish) for s in sentences) + 1 < translator.MAX_LENGTH


def test_spanish_agrees(parts):
    """Artículos, clíticos y adjetivos concuerdan; «su» va con un nombre de género a la vista."""
    gender = {}
    for noun in (*bilingual.PEOPLE, *bilingual.THINGS):
        for plural, form in enumerate(noun.spanish):
            gender.setdefault(form, set()).add((noun.gender, bool(plural)))
    article = {"el": ("m", False), "la": ("f", False), "los": ("m", True), "las": ("f", True)}
    article |= {"un": ("m", False), "una": ("f", False), "al": ("m", False), "del": ("m", False)}
    for sentence in parts["test"]:
        words = sentence.spanish
        for word, after in pairwise(words):
            if word in article and after in gender:
                assert article[word] in gender[after], sentence
            if word in ("su", "sus"):
                assert after not in {form for noun in bilingual.AMBIGUOUS for form in (noun, noun + "s")}, sentence
        text = " ".join(words)
        assert not re.search(r"\b(de|a) el\b", text), sentence


def test_english_is_grammatical(parts):
    """«a» o «an» según lo que sigue; tras un auxiliar, la forma base; el sujeto «they» no lleva tercera persona."""
    bases = {sense[0].split("_")[0] for verb in (*bilingual.VERBS, bilingual.OWN) for sense in verb.senses.values()}
    thirds = {sense[1].split("_")[0] for verb in (*bilingual.VERBS, bilingual.OWN) for sense in verb.senses.values()}
    for sentence in parts["test"]:
        words = sentence.english
        for word, after in pairwise(words):
            if word in ("a", "an"):
                assert (word == "an") == (after[0] in "aeiou"), sentence
            if word in ("not", "will"):
                assert after in bases or (word == "will" and after == "not") or after in ("not",), sentence
            if word == "they":
                assert after not in thirds | {"is", "was", "does"}, sentence
            if word in ("he", "she", "it"):
                assert after not in (bases - {"will"}) | {"are", "were", "do"}, sentence


PRONOUNS = {"m": ("him", "he", "his"), "f": ("her", "she", "her")}


def test_pronouns_follow_their_antecedent(parts):
    """El clítico y el posesivo se traducen según el nombre al que apunta la relación anotada."""
    nouns = {(form, bool(i)): noun for noun in bilingual.PEOPLE for i, form in enumerate(noun.spanish)}
    names = {noun.spanish[0]: noun for noun in bilingual.NAMES}
    checked = 0
    for sentence in parts["test"]:
        for name, place in (("clitic", 0), ("possessive", 2)):
            for dependent, governor in sentence.relations.get(name, []):
                word = sentence.spanish[dependent]
                assert word in (("lo", "la", "los", "las") if name == "clitic" else ("su", "sus"))
                head = sentence.spanish[governor]
                couple = sentence.spanish[governor + 1 : governor + 2] == ("y",) and head in names
                noun = names.get(head) or nouns.get((head, False))
                if noun is None or couple:
                    continue
                assert PRONOUNS[noun.gender][place] in sentence.english, sentence
                checked += 1
    assert checked > 500


@pytest.mark.slow
def test_agreement_leaves_one_antecedent():
    """Escritas a mano: el clítico y el atributo buscan el único nombre con el que concuerdan."""
    known = {}
    for part in ("test", "validation"):
        known |= {s.spanish: s for s in corpus(part)}
    found = [s for s in known.values() if "clitic" in s.phenomena and "him" in s.english[-1:]]
    assert len(found) > 40
    for sentence in found:
        ((dependent, governor),) = sentence.relations["clitic"]
        assert sentence.spanish[dependent] == "lo"
        assert sentence.spanish[governor] in {n.spanish[0] for n in (*bilingual.NAMES, *bilingual.PEOPLE)}


def test_every_phenomenon_is_common_enough(parts):
    """Cada fenómeno de la tabla sale, y sale bastante para medirlo."""
    listed = set(re.findall(r"^\| `(\w+)` \|", bilingual.__doc__, re.M))
    counts = {name: sum(name in s.phenomena for s in parts["test"]) for name in listed}
    assert set().union(*(s.phenomena for s in parts["test"])) == listed
    assert min(counts.values()) >= 60


@pytest.mark.slow
def test_examples_of_the_docstring_are_right(parts):
    """Las parejas de la tabla de fenómenos las escribe de verdad la gramática (en fragmentos)."""
    text = "\n".join(" ".join(s.spanish) + " = " + " ".join(s.english) for part in parts.values() for s in part)
    for spanish, english in (("porque estaba lista", "was ready"), ("porque era lista", "was smart")):
        lines = re.findall(rf".* {spanish} = .*", text)
        assert lines
        assert all(line.endswith(english) for line in lines)
    assert "Ana lleva las faldas del piano nuevas" in text


@pytest.mark.parametrize(("part", "n"), [("prueba", 3), ("test", 0), ("test", 2_001)])
def test_corpus_refuses(part, n):
    """Una parte que no existe, o más frases de las que tiene."""
    with pytest.raises(ValueError, match="Se esperaba"):
        corpus(part, n)


def test_encoding():
    """Las palabras tienen su puesto; mayúscula y punto no estorban; una desconocida se nombra."""
    assert bilingual.encode_spanish("La médica ve a Ana.") == bilingual.encode_spanish("la médica ve a Ana".split())
    assert bilingual.encode_spanish("Ana")[-1] == bilingual.EOS
    assert bilingual.SPANISH[bilingual.encode_spanish("Ana")[0]] == "Ana"
    with pytest.raises(ValueError, match="«dragón»"):
        bilingual.encode_spanish("Ana ve un dragón")


# --- El modelo y sus medidas -----------------------------------------------------------------------------------------


def test_batches_cover_everything_once(parts):
    """Cada frase sale una vez, en un lote de frases tan largas como ella, con su traducción."""
    sentences = parts["test"][:300]
    for generator in (None, torch.Generator().manual_seed(0)):
        seen = []
        for batch in translator.batches(sentences, 16, generator):
            assert len(batch.index) <= 16
            assert batch.source.min() > bilingual.PAD
            for i, source, target in zip(batch.index.tolist(), batch.source, batch.target, strict=True):
                assert source.tolist() == bilingual.encode_spanish(sentences[i].spanish)
                assert [t for t in target.tolist() if t] == bilingual.encode_english(sentences[i].english)
                seen.append(i)
        assert sorted(seen) == list(range(300))


def test_sizes():
    """32 cabezas en el codificador; los pesos del docstring caben en el archivo que se promete."""
    model = translator.new_model(0)
    assert [layer.num_heads for layer in model.encoder.attention] == [8] * 4
    assert len(translator.ALL_HEADS) == 32 >= 24
    assert sum(p.numel() for p in model.parameters()) == 211_264
    torch.testing.assert_close(translator.new_model(0).state_dict(), model.state_dict())


def test_decoder_does_not_see_the_future():
    """Cambiar un token inglés no cambia lo que se predice antes; y la caché da lo mismo que una sola pasada."""
    from multicabeza.attention import KVCache

    model = translator.new_model(1).eval()
    source = torch.randint(3, 100, (2, 7), generator=torch.Generator().manual_seed(0))
    target = torch.randint(3, 100, (2, 6), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        whole = model(source, target)
        changed = target.clone()
        changed[:, 4] += 1
        assert torch.equal(model(source, changed)[:, :4], whole[:, :4])
        memory, cache = model.encoder(source), KVCache()
        steps = torch.cat([model.decoder(target[:, i : i + 1], memory, cache=cache) for i in range(6)], 1)
    torch.testing.assert_close(steps, whole, atol=1e-5, rtol=1e-5)


def test_padding_mask_of_the_encoder():
    """Con relleno y su máscara sale lo mismo que sin relleno."""
    model = translator.new_model(1).eval()
    source = torch.tensor([bilingual.encode_spanish("Ana ve la mesa")])
    padded = torch.nn.functional.pad(source, (0, 3))
    with torch.no_grad():
        exact = model.encoder(source)
        masked = model.encoder(padded, mask=padding_mask([5], 8))
        assert not torch.allclose(model.encoder(padded)[:, :5], exact, atol=1e-3)
    torch.testing.assert_close(masked[:, :5], exact, atol=1e-5, rtol=1e-5)


def test_teacher_forcing_counts_the_same_sentences(base):
    """Frase exacta con la buena delante = frase exacta generando, también con casi todas las cabezas apagadas."""
    sentences = corpus("test", 300)
    for off in ([], translator.ALL_HEADS[3:]):
        with ablate(base.encoder, off):
            forced = translator.exact_matches(base, sentences)
            texts = translator.translate(base, [s.spanish for s in sentences])
        greedy = [text == " ".join(s.english) for text, s in zip(texts, sentences, strict=True)]
        assert greedy == forced.tolist()
    assert 0 < sum(greedy) < 300 * 0.9


def test_translations_do_not_depend_on_the_batch(base):
    """Una frase sola se traduce como en compañía."""
    texts = [" ".join(s.spanish) for s in corpus("test", 40)]
    together = translator.translate(base, texts)
    assert together == [translator.translate(base, [text])[0] for text in texts]


def test_bleu():
    """100 si todo es igual; menos, y como sacrebleu, si no."""
    from sacrebleu import corpus_bleu

    good = ["Ana saw the red table", "Luis did not look for him yesterday"]
    assert translator.bleu(good, good) == pytest.approx(100)
    worse = ["Ana saw the red table", "Luis did not look for her yesterday"]
    assert translator.bleu(worse, good) == corpus_bleu(worse, [good], tokenize="none").score < 90


def test_base_translates(base):
    """El punto de control traduce casi todo lo que no vio."""
    assert translator.exact_matches(base, corpus("test", 500)).float().mean() > 0.93


# --- Podar -----------------------------------------------------------------------------------------------------------


def test_keep_only_is_masking(base):
    """Quitar cabezas da lo mismo que apagarlas, también con capas vacías o sin ninguna cabeza."""
    batch = next(translator.batches(corpus("test", 50)))
    for kept in ([(0, 1), (2, 3), (2, 7)], [], list(translator.ALL_HEADS)):
        small = translator.keep_only(translator.copy_of(base), kept)
        with torch.no_grad(), ablate(base.encoder, translator.others(kept)):
            masked = base(batch.source, batch.target)
            torch.testing.assert_close(small(batch.source, batch.target), masked, atol=1e-4, rtol=1e-4)
        fewer = sum(p.numel() for p in base.parameters()) - sum(p.numel() for p in small.parameters())
        assert fewer == (32 - len(kept)) * 4 * 8 * 64


@pytest.fixture
def short(monkeypatch):
    """Unas pocas frases de entrenamiento: bastan para comprobar qué cambia y qué no."""
    few = corpus("train", 600)
    monkeypatch.setattr(translator, "corpus", lambda part, n=None: few if part == "train" else corpus(part, n))


def test_tuning_leaves_the_decoder_alone(base, short):
    """Se mueve el codificador; el decodificador y el modelo de partida, no."""
    before = copy.deepcopy(base.state_dict())
    kept = [(0, 0), (1, 5), (3, 2)]
    tuned, said = translator.tune(base, kept, gated_steps=2, fixed_steps=2)
    assert said == kept
    assert [layer.num_heads for layer in tuned.encoder.attention] == [1, 1, 0, 1]
    for name, weight in tuned.decoder.state_dict().items():
        assert torch.equal(weight, before[f"decoder.{name}"])
    assert not torch.equal(tuned.encoder.tokens.weight, base.encoder.tokens.weight)
    torch.testing.assert_close(base.state_dict(), before, atol=0, rtol=0)


@pytest.mark.slow
def test_gates_close_more_with_more_pressure(base, short):
    """Con mucha λ se cierran todas las puertas; sin ella, ninguna; y quedan abiertas las que se devuelven."""
    seen = []
    _, none = translator.tune(
        base, strength=10.0, gated_steps=70, fixed_steps=0, progress=lambda step, gates: seen.append(gates.binary())
    )
    _, every = translator.tune(base, strength=0.0, gated_steps=5, fixed_steps=0)
    assert none == []
    assert every == list(translator.ALL_HEADS)
    assert len(seen) == 70
    assert seen[0].sum() == 32 > seen[-1].sum() == 0


def test_tune_wants_one_way_of_choosing(base):
    """La máscara o λ: una de las dos."""
    for arguments in ({}, {"kept": [], "strength": 0.1}):
        with pytest.raises(ValueError, match="solo una"):
            translator.tune(base, **arguments)


def test_from_scratch_never_had_the_others(short):
    """Desde cero, con las cabezas que se piden y ninguna más."""
    model = translator.from_scratch([(1, 1)], num_steps=2)
    assert [layer.num_heads for layer in model.encoder.attention] == [0, 1, 0, 0]


def test_importance_and_orders(base):
    """La cabeza apagada no importa nada; los órdenes son permutaciones que empiezan por la menos importante."""
    seen = corpus("train", 120)
    scores = translator.importance(base, seen)
    assert scores.shape == (4, 8)
    torch.testing.assert_close(scores.norm(dim=1), torch.ones(4))
    assert translator.importance(base, seen, [(2, 5)])[2, 5] == 0
    order = translator.michel_order(base, seen, iterative=False)
    assert sorted(order) == list(translator.ALL_HEADS)
    assert order == sorted(translator.ALL_HEADS, key=lambda pair: scores[pair])
    assert order[:2] != order[-2:]


def test_random_masks():
    """El mismo sorteo con la misma semilla, k cabezas distintas en cada uno."""
    masks = translator.random_masks(6, 40, 3)
    assert masks == translator.random_masks(6, 40, 3) != translator.random_masks(6, 40, 4)
    assert all(len(set(mask)) == 6 for mask in masks)
    assert len({pair for mask in masks for pair in mask}) == 32


@pytest.mark.parametrize(
    ("validation", "chosen"),
    [
        ({0.001: 0.97, 0.01: 0.95, 0.1: 0.8}, 0.01),
        ({0.001: 0.97, 0.01: 0.939, 0.1: 0.8}, 0.001),
        ({0.001: 0.9, 0.01: 0.85}, 0.001),
        ({0.001: 0.99, 0.01: 0.99, 0.1: 0.99}, 0.1),
    ],
)
def test_choice_of_strength(validation, chosen):
    """La mayor λ que pierde como mucho tres puntos; si no hay, la menor."""
    assert translator.choose_strength(validation, whole=0.97) == chosen


# --- Qué miran, e intervalos -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_roles_tell_a_relation_from_a_distance(monkeypatch):
    """Una cabeza que sigue el posesivo cuenta; una que mira siempre igual de lejos, no (pero es posicional)."""

    def maps(_model, sentences):
        found = []
        for sentence in sentences:
            n = len(sentence.spanish)
            follows, before = torch.zeros(n, n), torch.zeros(n, n)
            before[torch.arange(n), (torch.arange(n) - 1).clamp_min(0)] = 1
            follows[:, 0] = 1
            for dependent, governor in sentence.relations.get("possessive", []):
                follows[dependent] = torch.nn.functional.one_hot(torch.tensor(governor), n).float()
            found.append(torch.stack([follows, before]))
        return found

    monkeypatch.setattr(translator, "encoder_maps", maps)
    table = translator.roles(None, corpus("validation", 300), corpus("test", 300))
    assert table["relations"]["possessive"]["passes"] == [0]
    assert table["relations"]["possessive"]["accuracy"][0] == 1
    assert all(1 not in row["passes"] for row in table["relations"].values())
    assert table["positional"][1] == 1 > 0.9 > table["positional"][0]


def test_relation_pairs_both_ways():
    """Con «~», del núcleo al dependiente."""
    sentences = corpus("test", 50)
    straight = translator.relation_pairs(sentences, "verb_object")
    assert [[(b, a) for a, b in row] for row in straight] == translator.relation_pairs(sentences, "~verb_object")
    assert sum(map(len, straight)) > 50


@pytest.mark.slow
def test_paired_interval():
    """Una ventaja clara deja el cero fuera; un grupo contra sí mismo, dentro y con media cero."""
    rng = torch.Generator().manual_seed(0)
    runs = []
    for _ in range(3):
        weak = torch.rand(2_000, generator=rng) < 0.8
        strong = weak | (torch.rand(2_000, generator=rng) < 0.3)
        runs.append({"a": strong, "b": weak, "c": torch.rand(2_000, generator=rng) < 0.8})
    found = translator._paired(runs, ["a"], ["b", "c"])
    assert found["mean"] == pytest.approx(6, abs=1.5)
    assert 0 < found["interval"][0] < found["mean"] < found["interval"][1]
    assert len(found["seeds"]) == 3
    same = translator._paired(runs, ["b"], ["b"])
    assert same["mean"] == same["interval"][0] == same["interval"][1] == 0
    noise = translator._paired(runs, ["b"], ["c"])
    assert noise["interval"][0] < 0 < noise["interval"][1]


# --- Puntos de control -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", translator.CHECKPOINTS)
def test_checkpoints_are_the_recorded_ones(name):
    """Los archivos son los del registro, pequeños, y sus cabezas, las que dice."""
    saved = load_record("07_translation").values["checkpoints"]
    relative = translator.checkpoint_path(name)
    path = next(folder / relative for folder in results_folders() if (folder / relative).is_file())
    content = path.read_bytes()
    assert hashlib.sha256(content).hexdigest() == saved["sha256"][relative]
    assert len(content) <= 450_000
    model = translator.load_checkpoint(name)
    per_layer = [sum(label.startswith(f"{layer}.") for label in saved["heads"][name]) for layer in range(4)]
    assert [layer.num_heads for layer in model.encoder.attention] == per_layer


def test_a_checkpoint_is_read_as_it_was_written(base, short):
    """Guardar y leer solo redondea a float16, también cuando una capa se queda sin cabezas."""
    tuned, kept = translator.tune(base, [(1, 2), (3, 3)], gated_steps=1, fixed_steps=1)
    again = translator._halved(tuned, kept)
    for name, weight in tuned.state_dict().items():
        torch.testing.assert_close(again.state_dict()[name], weight.half().float(), atol=0, rtol=0)


def test_load_checkpoint_refuses():
    """Un nombre que no existe."""
    with pytest.raises(ValueError, match="base, pruned"):
        translator.load_checkpoint("entero")
