"""Los experimentos del capítulo 08: el modelo pequeño, la conversión, la velocidad y las cabezas que comparten."""

import statistics
from unittest.mock import patch

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM
from transformers.models.llama import modeling_llama

import multicabeza as mc
from multicabeza import cost, models
from multicabeza.toys import decoding, gqa, shared_kv, smollm_heads
from multicabeza.toys.records import load_record

TIGHT = {"atol": 1e-5, "rtol": 1e-5}
SHAPES = {"MHA": gqa.ARMS["8"], "GQA": gqa.ARMS["2"], "MQA": gqa.ARMS["1"]}


# --- Generar con caché y sin ella ------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_generating_with_the_cache_equals_without(shape):
    """Los mismos tokens, y los *logits* de cada paso a 1e-5, con un modelo de varias capas."""
    model, start = (
        gqa.new_model(shape, 40, seed=3),
        torch.randint(40, (3, 9), generator=torch.Generator().manual_seed(1)),
    )
    plain, caches = gqa.generate(model, start, 20), model.new_caches()
    assert torch.equal(gqa.generate(model, start, 20, caches), plain)
    whole = torch.cat([start, plain], dim=1)
    caches = model.new_caches()
    with torch.no_grad():
        pieces = [model(piece, caches) for piece in whole.split([9] + [1] * 20, dim=1)]
        torch.testing.assert_close(torch.cat(pieces, dim=1), model(whole), **TIGHT)


@pytest.mark.parametrize("num_sinks", [0, 2])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_generating_with_a_window_equals_the_mask_and_stays_bounded(shape, num_sinks):
    """Con ventana y sumideros: lo mismo que con la máscara de ventana sobre toda la secuencia, y memoria acotada."""
    window, n = 6, 30
    model = gqa.new_model(shape, 40, seed=4)
    tokens = torch.randint(40, (2, n), generator=torch.Generator().manual_seed(2))
    mask = mc.sliding_window_mask(n, window, num_sinks=num_sinks)
    with torch.no_grad():
        x = model.tokens(tokens)
        for block in model.blocks:
            x = x + block.attention(block.norms[0](x), mask=mask)
            x = x + block.mlp(block.norms[1](x))
        expected = model.final_norm(x) @ model.tokens.weight.T
        caches, pieces, sizes = model.new_caches(window, num_sinks), [], []
        for piece in tokens.split([4] + [1] * (n - 4), dim=1):
            pieces.append(model(piece, caches))
            sizes.append(gqa.cache_bytes(caches))
    torch.testing.assert_close(torch.cat(pieces, dim=1), expected, **TIGHT)
    limit = cost.kv_cache_bytes(gqa.NUM_LAYERS, shape.num_kv_heads, gqa.HEAD_DIM, window + num_sinks, 2, 4)
    assert max(sizes) == sizes[-1] == limit


# --- Los bytes de verdad ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_formula_equals_our_caches(shape, dtype):
    model, caches = gqa.new_model(shape, 40).to(dtype), None
    caches = model.new_caches()
    with torch.no_grad():
        for piece in torch.zeros(3, 17, dtype=torch.long).split([15, 1, 1], dim=1):
            model(piece, caches)
    expected = cost.kv_cache_bytes(gqa.NUM_LAYERS, shape.num_kv_heads, gqa.HEAD_DIM, 17, 3, dtype.itemsize)
    assert gqa.cache_bytes(caches) == expected


def tiny(g):
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=50, hidden_size=24, intermediate_size=16, num_hidden_layers=3, num_attention_heads=6,
            num_key_value_heads=g,
        )
    )  # fmt: skip


@pytest.mark.parametrize("g", [6, 3, 2, 1])
def test_formula_equals_the_caches_of_transformers(g):
    model = tiny(g).eval()
    with torch.no_grad():
        _, cache = models.forward_with_cache(model, torch.zeros(2, 7, dtype=torch.long))
        _, cache = models.forward_with_cache(model, torch.zeros(2, 1, dtype=torch.long), cache)
    tensors = shared_kv.cache_tensors(cache)
    assert {tuple(tensor.shape) for tensor in tensors} == {(2, g, 8, 4)}
    assert sum(tensor.nbytes for tensor in tensors) == cost.kv_cache_bytes(3, g, 4, 8, 2, 4)


def test_formula_equals_the_cache_of_gpt2():
    model = GPT2LMHeadModel(GPT2Config(vocab_size=50, n_embd=24, n_layer=2, n_head=3, n_positions=16)).eval()
    with torch.no_grad():
        _, cache = models.forward_with_cache(model, torch.zeros(1, 9, dtype=torch.long))
    assert sum(t.nbytes for t in shared_kv.cache_tensors(cache)) == cost.kv_cache_bytes(2, 3, 8, 9, 1, 4)


@pytest.mark.slow
def test_formula_equals_the_cache_of_smollm2():
    model, shape = mc.load_smollm2().model, cost.MODELS["SmolLM2-135M"]
    with torch.no_grad():
        _, cache = models.forward_with_cache(model, torch.arange(100, 113)[None])
        _, cache = models.forward_with_cache(model, torch.tensor([[7]]), cache)
    tensors = shared_kv.cache_tensors(cache)
    assert len(tensors) == 2 * shape.n_layers
    assert sum(t.nbytes for t in tensors) == shape.cache_bytes(14, bytes_per_element=4)
    assert 3 * sum(t.nbytes for t in tensors) == shape.mha_cache_bytes(14, bytes_per_element=4)


# --- Los textos ------------------------------------------------------------------------------------------------------


def test_made_language_follows_its_tables():
    symbols, chances = gqa.sample_made(50, torch.Generator().manual_seed(5))
    assert symbols.shape == chances.shape == (50, gqa.SOURCES["made"].length + 1)
    for row, i in ((0, 10), (7, 40)):
        votes = sum(gqa.tables()[k][symbols[row, i - 1 - k]] for k in range(gqa.ORDER))
        torch.testing.assert_close(chances[row, i], votes.log_softmax(0)[symbols[row, i]])


def test_floor_is_below_what_anyone_can_do_and_above_certainty():
    """Quien conoce la lengua pierde la entropía; quien solo conoce tres de las cuatro tablas, más."""
    symbols, chances = gqa.sample_made(400, torch.Generator().manual_seed(6))
    shifted = [symbols[:, gqa.ORDER - 1 - k : symbols.shape[1] - 1 - k] for k in range(gqa.ORDER)]
    target = symbols[:, gqa.ORDER :, None]

    def loss(known):
        votes = sum(gqa.tables()[k][shifted[k]] for k in known)
        return -votes.log_softmax(-1).gather(-1, target).mean().item()

    assert loss(range(4)) == pytest.approx(-chances[:, gqa.ORDER :].mean().item(), abs=1e-4)
    assert loss(range(4)) + 0.2 < min(loss([k for k in range(4) if k != gone]) for gone in range(4))
    assert gqa.floor() == pytest.approx(loss(range(4)), abs=0.05)


def test_english_topics_do_not_mix():
    train, test = gqa.text()
    assert len(train) > 200_000
    assert len(test) > 60_000
    assert set(train + test) <= set(gqa.ALPHABET)
    chunks = {test[i : i + 200] for i in range(0, len(test) - 200, 2_000)}
    assert not any(chunk in train for chunk in chunks)
    assert gqa.decode(gqa.encode(test[:500])) == test[:500]


@pytest.mark.parametrize("source", gqa.SOURCES)
def test_batches_are_windows_of_the_text_and_repeat_with_the_seed(source):
    _, length, batch, n, _ = gqa.SOURCES[source]
    first, again, other = (list(gqa.batches(source, 2, seed)) for seed in (0, 0, 1))
    assert [tuple(b.shape) for b in first] == [(batch, length + 1)] * 2
    assert torch.equal(torch.cat(first), torch.cat(again))
    assert not torch.equal(torch.cat(first), torch.cat(other))
    assert gqa.exam(source).shape == (n, length + 1)


# --- Los modelos -----------------------------------------------------------------------------------------------------


def test_arms_differ_as_they_say():
    params = {arm: sum(p.numel() for p in gqa.new_model(shape, 32).parameters()) for arm, shape in gqa.ARMS.items()}
    assert params["8"] > params["4"] > params["2"] > params["1"] > params["one head"]
    assert abs(params["1 wide"] / params["8"] - 1) < 0.002
    sizes = {arm: gqa.measured_bytes(gqa.new_model(shape, 32)) for arm, shape in gqa.ARMS.items()}
    assert sizes["8"] == 2 * sizes["4"] == 4 * sizes["2"] == 8 * sizes["1"]
    assert sizes["one head"] == sizes["1"] == sizes["1 wide"]


@pytest.mark.slow
def test_training_learns_and_repeats():
    first, again = (gqa.train("2", "made", seed=1, num_steps=60) for _ in range(2))
    assert torch.equal(first.tokens.weight, again.tokens.weight)
    assert gqa.floor() < gqa.test_loss(first, "made") < 3.2  # sin aprender nada, log 32 ≈ 3,47


@pytest.mark.parametrize(("arm", "source"), [("3", "made"), ("8", "castellano")])
def test_unknown_names_are_refused(arm, source):
    with pytest.raises(ValueError, match="Se esperaba uno de"):
        gqa.train(arm, source)


# --- La conversión ---------------------------------------------------------------------------------------------------


def heads_of(model, block=0):
    """W^Q, W^K y W^V, por cabezas: (·, d_k, d_model)."""
    g = model.shape.num_kv_heads
    parts = model.blocks[block].attention.qkv_proj.weight.split([64, 8 * g, 8 * g])
    return [part.unflatten(0, (-1, gqa.HEAD_DIM)) for part in parts]


@pytest.mark.parametrize("g", [4, 2, 1])
def test_convert_pools_groups_of_consecutive_heads(g):
    model = gqa.new_model(gqa.ARMS["8"], 32, seed=1)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    _, *whole = heads_of(model)
    made = {how: heads_of(gqa.convert(model, g, how, seed=2)) for how in gqa.METHODS}
    for k in (0, 1):
        groups = whole[k].unflatten(0, (g, -1))
        torch.testing.assert_close(made["mean"][1 + k], groups.mean(1))
        assert torch.equal(made["first"][1 + k], groups[:, 0])
        near = torch.corrcoef(torch.cat([made["new"][1 + k], whole[k]]).flatten(1))[:g, g:]
        assert near.abs().max() < 0.3  # las nuevas no se parecen a ninguna
    for j in range(g):
        picked = [
            [i for i in range(8 // g) if torch.equal(made["pick"][1 + k][j], whole[k].unflatten(0, (g, -1))[j, i])]
            for k in (0, 1)
        ]
        assert picked[0] == picked[1]  # claves y valores, de la misma
        assert len(picked[0]) == 1
    for how in gqa.METHODS:
        assert torch.equal(made[how][0], heads_of(model)[0])
    converted = gqa.convert(model, g).state_dict()
    for name, weight in model.state_dict().items():
        assert torch.equal(weight, before[name])
        if not name.endswith("qkv_proj.weight"):
            assert torch.equal(weight, converted[name])


def test_convert_of_equal_heads_changes_nothing():
    """Si las cabezas de un grupo ya eran iguales, la media y la primera calculan lo mismo que antes."""
    model = gqa.new_model(gqa.ARMS["8"], 32, seed=1)
    with torch.no_grad():
        for block in model.blocks:
            for part in block.attention.qkv_proj.weight.split(64)[1:]:
                groups = part.view(2, 4, 8, 64)
                groups.copy_(groups[:, :1].clone())
        tokens = torch.randint(32, (2, 12), generator=torch.Generator().manual_seed(0))
        for how in ("mean", "first", "pick"):
            torch.testing.assert_close(gqa.convert(model, 2, how)(tokens), model(tokens), **TIGHT)
        assert not torch.allclose(gqa.convert(model, 2, "new")(tokens), model(tokens), atol=1e-3)


def test_convert_to_all_heads_is_a_copy():
    model = gqa.new_model(gqa.ARMS["8"], 32, seed=1)
    copy = gqa.copied(model)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), copy.parameters(), strict=True))
    gqa.train_more(copy, "made", 0, (1,))
    assert not torch.equal(copy.tokens.weight, model.tokens.weight)


@pytest.mark.parametrize(
    ("shape", "g", "how", "message"),
    [("8", 3, "mean", "divida a 8"), ("8", 2, "suma", "un modo de"), ("2", 1, "mean", "ya comparte: 2 de 8")],
)
def test_convert_explains(shape, g, how, message):
    with pytest.raises(ValueError, match=message):
        gqa.convert(gqa.new_model(gqa.ARMS[shape], 32), g, how)


def test_checkpoint_is_the_recorded_model():
    """El punto de control, en float16, pierde lo que dice el registro."""
    recorded = load_record("08_gqa").values["loss"]["english"]["8"][0]
    assert gqa.test_loss(gqa.load_checkpoint(), "english") == pytest.approx(recorded, abs=0.01)


# --- La velocidad ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(1, 7), (3, 20)])
def test_every_way_of_sharing_computes_the_same(size):
    calls = decoding.step_calls(*size)
    assert set(calls) == {(way, g) for way in decoding.WAYS for g in decoding.KV_HEADS[1:]} | {("filas", 16)}
    for g in decoding.KV_HEADS[1:]:
        outputs = [calls[way, g]() for way in decoding.WAYS]
        assert outputs[0].shape == (size[0], decoding.NUM_HEADS, 1, decoding.HEAD_DIM)
        for other in outputs[1:]:
            torch.testing.assert_close(other, outputs[0], **TIGHT)


def test_layers_measured_have_the_tokens_they_say():
    for g, call in decoding.layer_calls(2, 30).items():
        cache = call.__defaults__[1]
        assert len(cache) == 30
        assert cache.keys.shape == (2, g, 30, decoding.HEAD_DIM)
        with torch.no_grad():
            call()
        assert len(cache) == 31


def test_every_round_has_all_calls_in_any_order_and_ratios_are_by_round():
    order, threads = [], torch.get_num_threads()
    times = decoding.alternate({name: lambda name=name: order.append(name) for name in "abc"}, rounds=8)
    rounds = [tuple(order[i : i + 3]) for i in range(0, len(order), 3)]
    assert len(rounds) == 8 + decoding.WARM_UP
    assert all(sorted(each) == list("abc") for each in rounds)
    assert len(set(rounds)) > 2
    assert [len(taken) for taken in times.values()] == [8, 8, 8]
    assert torch.get_num_threads() == threads
    ratio = decoding.faster([4.0, 9.0, 16.0], [2.0, 3.0, 4.0])
    assert ratio == (3.0, 2.5, 3.5)
    assert f"{ratio:.1f}" == "3.0 [2.5, 3.5]"


def test_decoding_times_come_from_equal_contexts(monkeypatch):
    monkeypatch.setattr(gqa, "SPEED_BATCH", 2)
    monkeypatch.setattr(gqa, "SPEED_CONTEXT", 256)
    times = gqa.decoding_times({name: gqa.new_model(gqa.ARMS[name], 32) for name in "81"}, rounds=3)
    assert {name: len(taken) for name, taken in times.items()} == {"8": 3, "1": 3}
    assert min(statistics.fmean(taken) for taken in times.values()) > 0


# --- Las que comparten -----------------------------------------------------------------------------------------------


def test_sharing_test_finds_what_is_there_and_nothing_else():
    same = shared_kv.same_group(9, 3).double()
    assert same.sum() == 18
    noise = torch.randn(20, 9, 9, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    noise = noise + noise.mT
    planted = shared_kv.sharing_test(same + 0.3 * noise, 3, draws=400)
    assert planted.p == pytest.approx(1 / 401)
    assert planted.same > planted.other + 0.5
    ps = torch.tensor([shared_kv.sharing_test(noise.roll(k, 1).roll(k, 2), 3, draws=200).p for k in range(9)])
    assert ps.median() > 0.05
    whole = torch.cat([planted.null, torch.tensor([planted.same])])
    assert planted.null.max() < whole.max()


def test_sharing_test_by_hand():
    """Una capa, cuatro cabezas, una sola pareja parecida que comparte: una de cada tres barajas la junta."""
    similarity = torch.zeros(1, 4, 4)
    similarity[0, 0, 1] = similarity[0, 1, 0] = 1
    found = shared_kv.sharing_test(similarity, 2, draws=3_000)
    assert (found.same, found.other) == (0.5, 0)
    assert found.p == pytest.approx(1 / 3, abs=0.04)


def test_similarities_by_hand():
    scores = torch.tensor([[0.5, 0.1, 0.9]])
    assert shared_kv.both(scores, 0.4)[0].tolist() == [[1, 0, 1], [0, 0, 0], [1, 0, 1]]
    assert shared_kv.closeness(scores)[0, 0].tolist() == pytest.approx([0, -0.4, -0.4])
    maps = torch.zeros(1, 1, 2, 4, 4)
    maps[0, 0, 0, 2, 1] = maps[0, 0, 1, 2, 1] = 1
    maps[0, 0, :, :, 0] = torch.tensor([[0.0], [1.0]])  # el sumidero no cuenta
    assert shared_kv.map_correlation(maps)[0, 0, 1].item() == pytest.approx(1)
    maps[0, 0, 1, 2] = torch.tensor([0.0, 0, 1, 0])
    assert shared_kv.map_correlation(maps)[0, 0, 1].item() < 0


def test_regrouped_maps_change_only_who_reads_what():
    """En orden, los mapas del modelo; en ciclo, los de repetir las claves 0, 1, 0, 1…, capa a capa."""
    model, tokens = tiny(2).eval(), torch.randint(50, (2, 7), generator=torch.Generator().manual_seed(0))
    model.set_attn_implementation("eager")
    plain = smollm_heads.attention_maps(model, tokens)
    torch.testing.assert_close(shared_kv.regrouped_maps(model, tokens, torch.arange(6)), plain, **TIGHT)
    order = torch.arange(6).view(3, 2).T.flatten()
    assert order.tolist() == [0, 2, 4, 1, 3, 5]
    cycled = torch.empty_like(plain)
    cycled[:, :, order] = shared_kv.regrouped_maps(model, tokens, order)
    with patch.object(modeling_llama, "repeat_kv", lambda x, times: x.repeat(1, times, 1, 1)):
        first = smollm_heads.attention_maps(model, tokens)[0]  # la capa 0 lee lo mismo en los dos casos
    torch.testing.assert_close(cycled[0], first, **TIGHT)
    assert not torch.allclose(cycled[0], plain[0], atol=1e-4)
    assert torch.equal(smollm_heads.attention_maps(model, tokens), plain)  # el modelo no cambia


def test_sharing_test_explains():
    with pytest.raises(ValueError, match="múltiplo de g = 2"):
        shared_kv.sharing_test(torch.zeros(2, 9, 9), 2)
