"""El cuadro de interruptores, sin navegador: lo que viaja en la página y los pesos que se piden aparte."""

import json
import re
import sys
from pathlib import Path

import pytest
import torch

from multicabeza import switches, views
from multicabeza.toys import translator
from multicabeza.toys.bilingual import corpus
from multicabeza.toys.records import load_record
from tests.unit.test_laboratory import unpack

sys.path.insert(0, str(Path(__file__).parents[2] / "book" / "_ext"))


def shown(monkeypatch, book: str) -> str:
    """El HTML de un cuadro."""
    blocks = []
    monkeypatch.setenv("MULTICABEZA_BOOK", book)
    monkeypatch.setattr(views, "display", lambda item: blocks.append(item.data))
    switches.switchboard()
    (block,) = blocks
    return block


def data_of(block: str) -> dict:
    return json.loads(re.search(r'<script type="application/json">(.*?)</script>', block, re.S)[1])


def test_weights_arrive_whole():
    state = translator.load_checkpoint("base").state_dict()
    numbers = torch.cat([state[name].flatten() for name in sorted(state)])
    assert torch.equal(unpack(switches._packed()).float(), numbers)
    (text,) = switches.weight_files().values()
    assert switches._packed() in text
    assert len(text) < 500_000


def test_book_writes_the_weights_if_a_page_wants_them(tmp_path):
    from libro.laboratory import weight_files, write_weights

    (make,) = weight_files('<figure class="mc-switchboard mc-tensor mc-fig" id="x">')
    write_weights(tmp_path / "_static", make())
    assert {path.name for path in (tmp_path / "_static").iterdir()} == {switches.WEIGHTS}
    assert len(weight_files('<p class="mc-lab "></p><p class="mc-switchboard"></p>')) == 2


@pytest.mark.parametrize("book", ["0", "1"])
def test_output(monkeypatch, book):
    block = shown(monkeypatch, book)
    assert 'class="mc-switchboard mc-tensor mc-fig"' in block
    assert ("<style>" in block) == (book == "0")
    assert ("weights" in data_of(block)) == (book == "0")
    assert block.count("data-head=") == 32
    assert "http" not in re.sub(r'<script type="application/json">.*?</script>', "", block, flags=re.S).replace(
        "http://www.w3.org/2000/svg", ""
    )


def test_what_it_tells_is_what_was_measured(monkeypatch):
    data, record = data_of(shown(monkeypatch, "1")), load_record("07_translation")
    curves = record.values["runs"][str(record.seeds[0])]["curves"]
    model, sentences = translator.load_checkpoint("base"), corpus("test", switches.NUM_SENTENCES)
    hits = translator.exact_matches(model, sentences)
    assert data["wrong"] == (~hits).nonzero().flatten().tolist()
    assert data["whole"] == pytest.approx(100 * hits.float().mean().item())
    assert data["curves"]["michel"] == pytest.approx([100 * value for value in curves["one_shot"]["exact"]])
    assert sorted(data["order"]) == sorted(f"{layer}.{head}" for layer, head in translator.ALL_HEADS)
    assert data["curves"]["kept"][0] == 32
    assert data["curves"]["kept"][-1] == 0
    assert len(data["curves"]["random"]) == 10
    assert data["curves"]["mean"][0] == pytest.approx(data["curves"]["random"][0][0], abs=0.1)
    for index, said in data["said"].items():
        assert said != data["sentences"][int(index)]["target"][1:-1]
    assert [[data["spanish"][word] for word in row["source"][:-1]] for row in data["sentences"]] == [
        list(sentence.spanish) for sentence in sentences
    ]
