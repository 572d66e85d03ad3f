"""Las formas de calcular la atención que compara el capítulo 09, y cómo se mide lo que cuestan."""

import math

import pytest
import torch
import torch.nn.functional as F

from multicabeza import cost, sliding_window_mask
from multicabeza.toys import long_sequences as toy
from multicabeza.toys.records import load_record


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("n", [5, 12, 29, 64])
@pytest.mark.parametrize("window", [1, 4, 7, 64])
def test_block_window_equals_the_mask(n, window):
    """Por bloques, con cualquier resto, lo mismo que con la máscara: salida y gradientes."""
    parts = [random(2, 3, n, 5, seed=i).requires_grad_() for i in range(3)]
    ours = toy.block_window_attention(*parts, window)
    theirs = F.scaled_dot_product_attention(*parts, attn_mask=sliding_window_mask(n, window))
    torch.testing.assert_close(ours, theirs, atol=1e-12, rtol=0)
    gradients = [torch.autograd.grad(x.square().sum(), parts, retain_graph=True) for x in (ours, theirs)]
    for mine, reference in zip(*gradients, strict=True):
        torch.testing.assert_close(mine, reference, atol=1e-10, rtol=0)


def test_block_window_mask_is_a_band():
    window = 4
    mask = toy.block_window_mask(window)
    whole = sliding_window_mask(3 * window, window)
    assert torch.equal(mask, whole[window : 2 * window, : 2 * window])


def test_ways_compute_the_same():
    """La explícita y el núcleo dan la misma salida; las causales, la suya."""
    parts = [random(1, 2, 9, 4, seed=i) for i in range(3)]
    exact = F.scaled_dot_product_attention(*parts)
    torch.testing.assert_close(toy.explicit_attention(*parts), exact, atol=1e-12, rtol=0)
    torch.testing.assert_close(toy.fused_attention(*parts), exact, atol=1e-12, rtol=0)
    causal = toy.causal_fused_attention(*parts)
    masked = toy.masked_window_attention(*parts, sliding_window_mask(9, 9))
    torch.testing.assert_close(causal, masked, atol=1e-12, rtol=0)
    assert (causal - exact).abs().max() > 0.1


def test_build_stops_where_it_should():
    short, long = toy.build(16, 0), toy.build(toy.LONGEST["explicit"] * 2, 0)
    assert [*short] == ["projections", "explicit", "fused", "causal", "mask", "blocks"]
    assert {*short} - {*long} == {"explicit"}
    assert {way().shape for name, way in short.items() if name != "projections"} == {(1, 8, 16, 64)}
    assert short["projections"]().shape == (16, 512)
    n = toy.WINDOW + 40
    torch.testing.assert_close(toy.build(n, 3)["mask"](), toy.build(n, 3)["blocks"](), atol=1e-5, rtol=0)


def test_alternate_runs_everything_the_same_number_of_times():
    calls = []
    seconds = toy.alternate({name: lambda name=name: calls.append(name) for name in "ab"}, rounds=3, warm_up=0)
    assert {name: len(times) for name, times in seconds.items()} == {"a": 3, "b": 3}
    assert calls == ["a", "b", "b", "a", "a", "b"]


def test_crossing_interpolates_in_logarithms():
    assert toy.crossing([100, 400], [0.5, 2]) == pytest.approx(200)
    assert toy.crossing([100, 400, 800], [0.1, 0.2, 0.5]) == math.inf
    assert toy.crossing([100, 400], [3, 5]) == 100


def test_slope_is_the_exponent():
    assert toy.slope([1, 2, 4], [5, 20, 80]) == pytest.approx(2)


@pytest.mark.slow
@pytest.mark.parametrize("mode", toy.MODES)
def test_memory_is_measured_and_agrees_with_the_formula(mode):
    """Un proceso aparte pide lo que dice la cuenta: 2 o 3 matrices por cabeza, y el núcleo fusionado, mucho menos."""
    explicit, fused = (toy.peak_bytes(way, 1024, mode) for way in ("explicit", "fused"))
    formula = toy.formula_bytes("explicit", 1024, mode)
    assert formula == (2 if mode == "forward" else 3) * cost.score_bytes(toy.NUM_HEADS, 1024)
    assert 0.85 < explicit / formula < 1.5
    assert fused < 0.35 * explicit


def test_the_record_grows_as_it_says():
    """Lo registrado: exponentes de 1 y de 2, y la memoria explícita pegada a su cuenta en todas las longitudes."""
    values = load_record("09_cost").values
    for way, exponent in {"projections": 1, "blocks": 1, "explicit": 2, "fused": 2}.items():
        times = {n: values["times"]["ms"][str(n)].get(way) for n in values["lengths"] if n >= 1024}
        seen = {n: t[1] for n, t in times.items() if t}
        assert abs(toy.slope([*seen], [*seen.values()]) - exponent) < 0.4, way
    for mode in toy.MODES:
        for n in (2048, 4096):
            measured = values["memory"][mode][str(n)]["explicit"]
            assert len(measured) == toy.MEMORY_RUNS
            assert 0.9 < min(measured) / toy.formula_bytes("explicit", n, mode)
            assert max(measured) / toy.formula_bytes("explicit", n, mode) < 1.2
