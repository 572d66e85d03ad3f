"""El laboratorio, sin navegador: las palabras, los pesos que viajan en texto y lo que el texto dice del modelo."""

import base64
import json
import re
import sys
import zlib
from pathlib import Path

import pytest
import torch

from multicabeza import heads, laboratory, views
from multicabeza.laboratory import EXAMPLES, FIRST, LAST, TRIES, WORDS
from multicabeza.toys import induction
from multicabeza.toys.records import load_record

REPO = Path(__file__).parents[2]
sys.path.insert(0, str(REPO / "book" / "_ext"))

PAGE = (REPO / "book" / "laboratorio.md").read_text("utf8")


def shown(monkeypatch, book: str) -> str:
    """El HTML de un laboratorio."""
    blocks = []
    monkeypatch.setenv("MULTICABEZA_BOOK", book)
    monkeypatch.setattr(views, "display", lambda item: blocks.append(item.data))
    laboratory.lab()
    (block,) = blocks
    return block


def data_of(block: str) -> dict:
    return json.loads(re.search(r'<script type="application/json">(.*?)</script>', block, re.S)[1])


def unpack(text: str) -> torch.Tensor:
    """Lo contrario de `pack`, escrito aparte."""
    raw = zlib.decompress(base64.b85decode(text.translate(str.maketrans(",.:", "<>&"))), -15)
    half = len(raw) // 2
    mixed = bytes(byte for pair in zip(raw[half:], raw[:half], strict=True) for byte in pair)
    return torch.frombuffer(bytearray(mixed), dtype=torch.float16)


@torch.no_grad()
def run(words, off=(), step=LAST):
    """*Logits* (n, 64) y pesos (2, 4, n, n) de unas palabras o tokens, con cabezas apagadas."""
    ids = [word if isinstance(word, int) else WORDS.index(word) for word in words]
    model = induction.load_checkpoint(step)
    with heads.ablate(model, [tuple(map(int, name.split("."))) for name in off]):
        logits, weights = model(torch.tensor([ids]), need_weights=True)
    return logits[0], weights[:, 0]


def chance(words, after, off=(), step=LAST) -> float:
    return run(words, off, step)[0][-1].softmax(-1)[WORDS.index(after)].item()


# --- Palabras y ejemplos ---


def test_one_word_per_token_and_none_mistaken_for_another():
    assert len(WORDS) == induction.VOCABULARY
    assert len({laboratory.plain(word) for word in WORDS}) == len(WORDS)
    assert all(re.fullmatch(r"[a-záéíóúñ]{2,8}", word) for word in WORDS)
    assert list(WORDS) == sorted(WORDS, key=laboratory.plain)
    assert laboratory.plain("ÁRBOL") == "arbol"


def test_examples_fit_and_their_words_exist():
    for _, example in EXAMPLES:
        if isinstance(example, list):
            assert set(example) <= set(WORDS)
            assert len(example) <= induction.LENGTH
        else:
            period, turns = example
            assert period <= len(WORDS)
            assert period * turns + 1 <= induction.LENGTH


def test_what_is_proposed_exists():
    for state, title, text in TRIES:
        assert set(state) <= {"off", "step", "example"}
        assert all(re.fullmatch(r"[01]\.[0-3]", name) for name in state.get("off", []))
        assert state.get("step", LAST) in induction.CHECKPOINT_STEPS
        assert 0 <= state.get("example", 0) < len(EXAMPLES)
        assert title
        assert text.endswith((".", "?"))


# --- Pesos en texto ---


@pytest.mark.parametrize("step", induction.CHECKPOINT_STEPS)
def test_weights_arrive_whole(step):
    state = induction.load_checkpoint(step).state_dict()
    numbers = torch.cat([state[name].flatten() for name in sorted(state)])
    text = laboratory._packed(step)
    assert torch.equal(unpack(text).float(), numbers)
    assert not set(text) & set("<>&\"'\\\n")


def test_what_would_lose_digits_is_not_packed():
    with pytest.raises(ValueError, match="float16"):
        laboratory.pack({"a": torch.tensor([0.1])})
    strange = torch.tensor([0.0, -0.0, 65504.0, 6e-8, float("inf")]).half().float()
    assert torch.equal(unpack(laboratory.pack({"a": strange})).float(), strange)


def test_files_of_the_book(tmp_path):
    from libro.laboratory import weight_files, write_weights

    (make,) = weight_files('<figure class="mc-lab mc-tensor mc-fig">')
    assert not weight_files('<p class="mc-labor">mc-lab</p>')
    write_weights(tmp_path / "_static", make())
    files = {path.name: path for path in (tmp_path / "_static").iterdir()}
    assert set(files) == {f"lab-{step:04d}.js" for step in induction.CHECKPOINT_STEPS if step != LAST}
    before = {name: path.stat().st_mtime_ns for name, path in files.items()}
    files["lab-0400.js"].write_text("viejo", "utf8")
    write_weights(tmp_path / "_static", make())
    text = files["lab-0400.js"].read_text("utf8")
    assert laboratory._packed(400) in text
    assert all(path.stat().st_mtime_ns == before[name] for name, path in files.items() if name != "lab-0400.js")


# --- La salida ---


def test_in_the_book_the_page_brings_the_scripts(monkeypatch):
    block = shown(monkeypatch, "1")
    assert 'class="mc-lab mc-tensor mc-fig"' in block
    assert "<style>" not in block
    assert block.count("<script") == 1
    assert list(data_of(block)["weights"]) == [str(LAST)]


def test_in_a_notebook_everything_is_inside(monkeypatch):
    block = shown(monkeypatch, "0")
    assert "mcTensor" in block
    assert [int(step) for step in data_of(block)["weights"]] == list(induction.CHECKPOINT_STEPS)
    assert "http" not in re.sub(r'<script type="application/json">.*?</script>', "", block, flags=re.S)


def test_what_the_still_figure_says(monkeypatch):
    block = shown(monkeypatch, "1")
    likely = f"{chance(EXAMPLES[0][1], 'perro'):.2f}".replace(".", ",")
    assert f"el modelo predice «perro» ({likely}), la que siguió a «gato» las otras veces." in block
    data = data_of(block)
    assert data["words"] == list(WORDS)
    assert data["losses"] == sorted(data["losses"], reverse=True)
    assert sum(torch.Size(shape).numel() for shape in data["shapes"].values()) == 45_440


# --- Lo que el texto dice del modelo ---

DEFAULT = EXAMPLES[0][1]


def test_completes_the_repetition_and_goes_on_alone():
    words = list(DEFAULT)
    for expected in (*FIRST[1:], FIRST[0]):
        words.append(WORDS[int(run(words)[0][-1].argmax())])
        assert words[-1] == expected


def test_switching_off_0_1_sinks_it_and_layer_1_stops_looking():
    _, whole = run(DEFAULT)
    logits, off = run(DEFAULT, ["0.1"])
    ids = [WORDS.index(word) for word in DEFAULT]
    assert heads.previous_token_score(whole[0]).argmax() == 1
    assert chance(DEFAULT, "perro", ["0.1"]) < 0.05 < 0.8 < chance(DEFAULT, "perro")
    before, after = (heads.prefix_matching_score(w[1], ids) for w in (whole, off))
    assert (after < before / 2).all()
    assert logits.isfinite().all()


def test_switching_off_0_3_changes_almost_nothing():
    assert chance(DEFAULT, "perro", ["0.3"]) > 0.8


def test_switching_off_one_of_layer_1_lowers_it_but_it_holds():
    assert chance(DEFAULT, "perro", ["1.2"]) < chance(DEFAULT, "perro") - 0.1
    assert run(DEFAULT, ["1.2"])[0][-1].argmax() == WORDS.index("perro")
    assert chance(DEFAULT, "perro", ["1.0", "1.1", "1.2", "1.3"]) < 0.05


def test_at_step_600_the_diagonals_show_and_the_prediction_does_not():
    _, weights = run(DEFAULT, step=600)
    ids = [WORDS.index(word) for word in DEFAULT]
    assert (heads.previous_token_score(weights[0])[1:3] > 0.5).all()
    assert heads.prefix_matching_score(weights[1], ids).mean() > 0.4
    assert chance(DEFAULT, "perro", step=600) < 0.2
    losses = load_record("06_phase").values["checkpoints"]["float16"]
    at = dict(zip(induction.CHECKPOINT_STEPS, losses, strict=True))
    assert at[400] - at[1_000] > 0.75 * (at[0] - at[LAST])


def random_words(seed: int, count: int) -> list[list[int]]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randperm(64, generator=generator).tolist() for _ in range(count)]


def test_without_repetition_the_loss_is_usually_above_chance():
    losses = [
        torch.nn.functional.cross_entropy(run(words[:24])[0][:-1], torch.tensor(words[1:24])).item()
        for words in random_words(1, 40)
    ]
    assert sum(loss > 4.159 for loss in losses) > 30


def test_with_laps_of_four_two_are_not_enough():
    four = list(FIRST[:4])
    assert chance([*four * 2, four[0]], "perro") < 0.3
    assert chance([*four * 5, four[0]], "perro") > 0.8


def test_layer_1_copies_mostly_from_the_first_32_positions():
    words = [word for _ in range(16) for word in FIRST[:4]]
    _, weights = run(words)
    assert weights[1, :, -4:, 33:].sum(-1).mean() < 0.15
    near = [weights[0, 1, i, i - 1].item() for i in range(1, 64)]
    assert min(near[:28]) > 0.5
    assert sum(near[36:]) / len(near[36:]) < 0.2


def test_of_two_continuations_the_first_wins():
    first = last = 0.0
    for w in random_words(0, 200):
        end = run([*w[:9], w[0], *w[9:16], w[0]])[0][-1].softmax(-1)
        first, last = first + end[w[1]].item() / 200, last + end[w[9]].item() / 200
    assert 0.5 < first < 0.65
    assert 0.03 < last < 0.1


def test_no_induction_without_a_whole_layer_and_0_0_is_no_good_control():
    model = induction.load_checkpoint(LAST)
    groups = {f"{layer}.*": [(layer, head) for head in range(4)] for layer in range(2)}
    groups |= {"ninguna": [], "0.0": [(0, 0)], "0.1": [(0, 1)]}
    table = induction.ablation_table(model, groups)
    assert min(table["0.*"].repeated, table["1.*"].repeated) > 4
    assert table["0.*"].matching < 0.2
    assert table["1.*"].previous == table["ninguna"].previous
    assert table["ninguna"].repeated + 0.1 < table["0.0"].repeated < table["0.1"].repeated
    assert table["ninguna"].previous[0][0] < 0.15


def test_the_page_says_which_token_is_cat():
    assert f"«gato» es el token {WORDS.index('gato')}" in PAGE
    assert "45 440" in PAGE
