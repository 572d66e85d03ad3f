"""La ventana en SmolLM2: las máscaras, el modelo con nuestra caché y la generación, que no debe notar la diferencia."""

import pytest
import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM

from multicabeza import KVCache, MultiHeadAttention, causal_mask, sliding_window_mask
from multicabeza.attention import RotaryEmbedding
from multicabeza.models import load_smollm2
from multicabeza.toys import window as toy
from multicabeza.toys.records import load_record

N = 23


def tiny_llama(num_kv_heads=2):
    """Tres capas de cuatro cabezas, sin entrenar, con pesos grandes para que la máscara se note."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=50, hidden_size=24, intermediate_size=40, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=num_kv_heads, head_dim=6, initializer_range=0.3, attn_implementation="eager",
    )  # fmt: skip
    return LlamaForCausalLM(config).eval().double()


TOKENS = torch.randint(50, (2, N), generator=torch.Generator().manual_seed(1))
MEMORIES = [(None, 0), (1, 0), (5, 0), (5, 2), (N, 3)]


@pytest.fixture(scope="module")
def smollm2():
    return load_smollm2()


# --- Textos y máscaras -----------------------------------------------------------------------------------------------


def test_texts_are_long_and_different(smollm2):
    tokens = toy.text_tokens(smollm2)
    assert tokens.shape == (11, toy.LENGTH)
    assert (tokens[:, 0] == smollm2.tokenizer.bos_token_id).all()
    assert len({tuple(row) for row in tokens[:, 1:40].tolist()}) == 11
    for row, text in zip(tokens, toy.LONG_TEXTS, strict=False):
        assert text.startswith(smollm2.tokenizer.decode(row[1:60]))
    assert tokens[8:].eq(smollm2.tokenizer.unk_token_id or -1).sum() == 0


def test_blank_sinks_change_only_the_first_tokens(smollm2):
    tokens = toy.text_tokens(smollm2)[:2]
    blank = toy.without_meaning(smollm2, tokens)
    assert smollm2.tokenizer.decode(blank[0, : toy.NUM_SINKS]) == "\n" * toy.NUM_SINKS
    assert torch.equal(blank[:, toy.NUM_SINKS :], tokens[:, toy.NUM_SINKS :])


def test_first_places_are_sinks():
    ours = toy.kept_places_mask(N, 5, range(3))
    assert torch.equal(ours, sliding_window_mask(N, 5, num_sinks=3))
    other = toy.kept_places_mask(N, 5, [4, 9])
    assert other.sum(1).tolist() == [
        len({*range(max(0, i - 4), i + 1)} | {p for p in (4, 9) if p <= i}) for i in range(N)
    ]


def test_conditions_keep_the_same_number_of_tokens():
    """Los controles guardan tantos tokens como la ventana con sumideros, y nunca los primeros."""
    masks = toy.conditions([10, 11])
    last = {name: mask[-1] for name, mask in masks.items() if mask is not None}
    same = ["64+4", "64 plus", "64 elsewhere 10", "64 elsewhere 11"]
    assert {int(last[name].sum()) for name in same} == {toy.WINDOW + toy.NUM_SINKS}
    assert last["64+4"][: toy.NUM_SINKS].all()
    for name in same[1:]:
        assert not last[name][: toy.NUM_SINKS].any()
    assert not torch.equal(last["64 elsewhere 10"], last["64 elsewhere 11"])
    assert toy.FIRST_MEASURED > max(toy.WINDOWS) + toy.NUM_SINKS  # nadie ve ya los primeros


@pytest.mark.parametrize(("window", "num_sinks"), MEMORIES[1:])
def test_the_mask_hides_what_it_says(window, num_sinks):
    """En una capa, cambiar un token tapado no mueve nada; cambiar uno visible, sí."""
    model = tiny_llama()
    model.model.layers = model.model.layers[:1]
    mask = sliding_window_mask(N, window, num_sinks=num_sinks)
    before = toy.read(model, TOKENS, mask)
    for place in (0, 1, 6, N - 2):
        changed = TOKENS.clone()
        changed[:, place] = (changed[:, place] + 1) % 50
        moved = (toy.read(model, changed, mask) - before).abs().amax((0, 2)) > 1e-9
        assert torch.equal(moved, mask[:, place])


def test_no_mask_is_the_causal_one():
    model = tiny_llama()
    torch.testing.assert_close(toy.read(model, TOKENS), toy.read(model, TOKENS, causal_mask(N)))
    with torch.no_grad():
        logits = model(input_ids=TOKENS).logits
    expected = nn.functional.cross_entropy(logits[:, 4:-1].transpose(1, 2), TOKENS[:, 5:], reduction="none")
    torch.testing.assert_close(toy.losses(model, TOKENS, start=4), expected)


def test_head_output_norms_are_those_of_o_proj():
    model = tiny_llama()
    seen = []
    hook = model.model.layers[1].self_attn.o_proj.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    found = toy.head_output_norms(model, TOKENS, sliding_window_mask(N, 4), start=7)
    hook.remove()
    assert found.shape == (3, 4)
    torch.testing.assert_close(found[1, 2], seen[0][:, 7:, 12:18].norm(dim=-1).mean())
    assert not any(layer.self_attn.o_proj._forward_pre_hooks for layer in model.model.layers)


@pytest.mark.parametrize("num_kv_heads", [4, 2, 1])
def test_silencing_keeps_the_weight_and_drops_the_value(num_kv_heads):
    """En una capa: lo de sin el token, multiplicado por 1 − p; y el token mismo, como estaba."""
    model = tiny_llama(num_kv_heads)
    model.model.layers = model.model.layers[:1]
    layer = model.model.layers[0]
    attention = MultiHeadAttention.from_transformers(layer)
    mask, place = sliding_window_mask(N, 5, num_sinks=1), 0
    ours = toy.read_silencing(model, [attention], TOKENS, mask, place)
    with torch.no_grad():
        hidden = model.model.embed_tokens(TOKENS)
        normed = layer.input_layernorm(hidden)
        _, weights = attention(normed, mask=mask, is_causal=True, need_weights=True)
        without = mask.clone()
        without[1:, place] = False
        heads = []
        layer_output = attention.out_proj.register_forward_pre_hook(lambda _, args: heads.append(args[0]))
        attention(normed, mask=without, is_causal=True)
        layer_output.remove()
        share = 1 - weights[..., place].transpose(1, 2)  # (B, n, h)
        share[:, place] = 1
        scaled = (heads[0].unflatten(-1, (4, -1)) * share[..., None]).flatten(-2)
        hidden = hidden + attention.out_proj(scaled)
        expected = model.model.norm(hidden + layer.mlp(layer.post_attention_layernorm(hidden)))
    torch.testing.assert_close(ours, expected, atol=1e-9, rtol=0)
    assert (ours - toy.read(model, TOKENS, mask))[:, 1:].abs().max() > 1e-3
    torch.testing.assert_close(ours[:, 0], toy.read(model, TOKENS, mask)[:, 0], atol=1e-5, rtol=0)


# --- Generar con la caché --------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("num_kv_heads", [4, 2, 1], ids=["MHA", "GQA", "MQA"])
@pytest.mark.parametrize(("window", "num_sinks"), MEMORIES)
@pytest.mark.parametrize("chunks", [[N], [1] * N, [9, 1, 4, 1, 8]], ids=["de una vez", "de uno en uno", "por trozos"])
def test_decoder_equals_the_model_with_the_mask(num_kv_heads, window, num_sinks, chunks):
    """Los logits con caché son los del modelo entero con la máscara, y la caché no pasa de lo prometido."""
    model = tiny_llama(num_kv_heads)
    mask = None if window is None else sliding_window_mask(N, window, num_sinks=num_sinks)
    with torch.no_grad():
        expected = model.lm_head(toy.read(model, TOKENS, mask))
    decoder = toy.WindowedDecoder(model, window, num_sinks)
    pieces = []
    for i, piece in enumerate(TOKENS.split(chunks, dim=1)):
        pieces.append(decoder(piece))
        seen = sum(chunks[: i + 1])
        kept = seen if window is None else min(seen, window + num_sinks)
        assert {len(cache) for cache in decoder.caches} == {kept}
        assert decoder.cache_bytes() == 2 * 3 * num_kv_heads * 6 * kept * 8 * len(TOKENS)
    torch.testing.assert_close(torch.cat(pieces, dim=1), expected, atol=1e-5, rtol=0)  # RoPE de transformers: float32


@pytest.mark.parametrize(("window", "num_sinks"), [(4, 0), (4, 2)])
def test_generation_writes_the_same_as_without_a_cache(window, num_sinks):
    """Token a token, lo que se elige con la caché es lo que se elegiría leyendo todo con la máscara."""
    model = tiny_llama()
    ours = toy.WindowedDecoder(model, window, num_sinks).generate(TOKENS, 12)
    written = TOKENS
    for _ in range(12):
        mask = sliding_window_mask(written.shape[1], window, num_sinks=num_sinks)
        with torch.no_grad():
            logits = model.lm_head(toy.read(model, written, mask)[:, -1])
        written = torch.cat([written, logits.argmax(-1, keepdim=True)], dim=1)
    assert torch.equal(ours, written[:, N:])
    full = toy.WindowedDecoder(model).generate(TOKENS, 12)
    assert not torch.equal(full, ours)  # la ventana importa en este ejemplo


class TinyDecoder(nn.Module):
    """Dos capas nuestras y una lectura: para la generación sin transformers de por medio."""

    def __init__(self, num_kv_heads):
        super().__init__()
        torch.manual_seed(2)
        self.embedding = nn.Embedding(31, 24)
        rotary = RotaryEmbedding(4)
        self.layers = nn.ModuleList(
            MultiHeadAttention(24, 6, num_kv_heads=num_kv_heads, rotary=rotary) for _ in range(2)
        )
        self.head = nn.Linear(24, 31)

    def forward(self, tokens, caches=(None, None), mask=None):
        x = self.embedding(tokens)
        for layer, cache in zip(self.layers, caches, strict=True):
            x = x + layer(x, mask=mask, is_causal=True, cache=cache)
        return self.head(x)


@pytest.mark.parametrize("num_kv_heads", [6, 3, 2, 1])
@pytest.mark.parametrize(("window", "num_sinks"), [(None, 0), (6, 0), (6, 3)])
def test_our_layers_generate_the_same_with_and_without_a_cache(num_kv_heads, window, num_sinks):
    """En float32, logits a 1e-5, para MHA, GQA y MQA, con y sin ventana."""
    model = TinyDecoder(num_kv_heads).eval()
    caches = [KVCache(window, num_sinks) for _ in model.layers]
    tokens, new = TOKENS[:, :9] % 31, TOKENS[:, :9] % 31
    with torch.no_grad():
        for _ in range(20):
            logits = model(new, caches)[:, -1]
            n = tokens.shape[1]
            mask = None if window is None else sliding_window_mask(n, window, num_sinks=num_sinks)
            torch.testing.assert_close(logits, model(tokens, mask=mask)[:, -1], atol=1e-5, rtol=0)
            new = logits.argmax(-1, keepdim=True)
            tokens = torch.cat([tokens, new], dim=1)
            assert len(caches[0]) == (n if window is None else min(n, window + num_sinks))


# --- SmolLM2 y los registros -----------------------------------------------------------------------------------------


def test_smollm2_with_our_cache(smollm2):
    """El modelo de verdad, con ventana y sumideros: mismos logits que con la máscara, y menos caché."""
    tokens = toy.text_tokens(smollm2)[:1, :48]
    mask = sliding_window_mask(48, 16, num_sinks=4)
    with torch.no_grad():
        expected = smollm2.model.lm_head(toy.read(smollm2.model, tokens, mask))
    decoder = toy.WindowedDecoder(smollm2.model, 16, 4)
    ours = torch.cat([decoder(piece) for piece in tokens.split([40, 1, 7], dim=1)], dim=1)
    torch.testing.assert_close(ours, expected, atol=1e-3, rtol=1e-5)  # logits de hasta 30, en float32
    assert decoder.cache_bytes() == 2 * 30 * 3 * 64 * 20 * 4


def test_window_record_says_what_the_chapter_tells():
    """Perder los primeros tokens se paga en todos los textos; guardarlos lo evita, y guardar otros, no."""
    loss = load_record("09_window").values["loss"]
    assert {len(row) for row in loss.values()} == {11}
    for width in toy.WINDOWS:
        for full, alone, sinks in zip(loss["full"], loss[f"{width}"], loss[f"{width}+4"], strict=True):
            assert full - 0.05 < sinks < alone


@pytest.mark.slow
def test_one_text_of_the_record_again(smollm2):
    """Rehacer un texto con tres máscaras da los números del registro."""
    record = load_record("09_window").values
    tokens = toy.text_tokens(smollm2)[2:3]
    for name in ("full", "64", "64+4"):
        found = float(toy.losses(smollm2.model, tokens, toy.conditions([])[name], toy.FIRST_MEASURED).mean())
        assert abs(found - record["loss"][name][2]) < 5e-3


def test_needle_record_is_about_the_window():
    """Con ventana se acierta dentro y no fuera; con la caché entera, en los dos sitios. Y los aciertos lo son."""
    record = load_record("09_needle").values
    assert len(record["rows"]) == 48
    outside = [row for row in record["rows"] if row["distance"] > record["window"]]
    inside = [row for row in record["rows"] if row["distance"] <= record["window"]]
    assert {row["depth"] for row in inside} == {0.9}
    assert len(outside) == 32
    shares = {
        (place, name): sum(row["right"][name] for row in rows) / len(rows)
        for place, rows in (("fuera", outside), ("dentro", inside))
        for name in toy.MEMORIES
    }
    assert (
        shares["fuera", "window"]
        < 0.1
        < 0.7
        < min(shares["fuera", "full"], *(shares["dentro", m] for m in toy.MEMORIES))
    )
    for row in record["rows"]:
        assert {m: row["answer"].lower() in text.lower() for m, text in row["replies"].items()} == row["right"]


@pytest.mark.slow
def test_one_text_of_the_silenced_sink_again(smollm2):
    """Rehacer un texto sin el valor del primer token da el número del registro, entre los dos extremos."""
    loss, silent = load_record("09_window").values["loss"], load_record("09_sink").values["loss"]
    row = toy.text_tokens(smollm2)[3:4]
    attentions = [MultiHeadAttention.from_transformers(layer) for layer in smollm2.model.model.layers]
    mask = sliding_window_mask(toy.LENGTH, toy.WINDOW, num_sinks=1)
    hidden = toy.read_silencing(smollm2.model, attentions, row, mask)[0, toy.FIRST_MEASURED : -1]
    with torch.no_grad():
        found = nn.functional.cross_entropy(smollm2.model.lm_head(hidden), row[0, toy.FIRST_MEASURED + 1 :])
    assert abs(float(found) - silent["64+1"][3]) < 5e-3
    assert loss["64+1"][3] + 0.1 < silent["64+1"][3] < loss["64"][3] - 0.1
