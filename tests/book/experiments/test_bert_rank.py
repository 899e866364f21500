"""The residual with one part taken out, on a small random encoder: what is changed is that part and nothing else."""

from dataclasses import replace

import pytest
import torch

from analysis.core.attention_layer import Norm
from analysis.models.extraction import Observed
from analysis.representations.rank_collapse import residual
from analysis.transformer.encoder import encode, random_layers, run_layer
from analysis.transformer.mlp import apply_mlp
from book.experiments import bert_rank


@pytest.fixture(scope="module")
def layers():
    g = torch.Generator().manual_seed(0)
    norm = Norm(*torch.randn(2, 8, generator=g, dtype=torch.float64), eps=1e-12)
    return [replace(layer, norm_mlp=norm) for layer in random_layers(2, 2, 8, gain=2.0, generator=g)]


@pytest.fixture(scope="module")
def texts():
    return torch.randn(6, 20, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@pytest.fixture(scope="module")
def fits(layers, texts):
    return bert_rank.fit_mlps(Observed(layers, [torch.stack(encode(x, layers)) for x in texts[1:]]))


def run(name, x, layers, fits):
    return bert_rank.run_way(x, layers, fits, bert_rank.WAYS[name])


def test_the_whole_network_is_the_encoder(layers, texts, fits):
    states, _ = run("whole", texts[0], layers, fits)
    torch.testing.assert_close(states, encode(texts[0], layers))


def test_without_the_mlp_its_layer_norm_still_runs(layers, texts, fits):
    norm = layers[0].norm_mlp
    (_, after), _ = run("without the MLP", texts[0], layers[:1], fits[:1])
    (_, bare), _ = run("without the MLP and its LayerNorm", texts[0], layers[:1], fits[:1])
    torch.testing.assert_close(after, torch.nn.functional.layer_norm(bare, [8], norm.gain, norm.bias, norm.eps))
    assert abs(residual(after) - residual(bare)) > 0.01


@pytest.mark.parametrize(("name", "factor"), [("without attention", 0.0), ("attention twice as large", 2.0)])
def test_attention_is_scaled_with_its_bias(name, factor, layers, texts, fits):
    biased = replace(layers[0].attention, b_O=torch.arange(8.0, dtype=torch.float64))
    layer = replace(layers[0], attention=biased)
    _, size = run(name, texts[0], [layer], fits[:1])
    _, whole = run("whole", texts[0], [layer], fits[:1])
    torch.testing.assert_close(size, factor * whole)


def test_fits_are_least_squares(layers, texts, fits):
    read = torch.cat([run_layer(x, layers[0]).first for x in texts[1:]])
    z = read @ layers[0].mlp.W_in + layers[0].mlp.b_in
    ones = torch.ones_like(z[:, :1])
    due = torch.linalg.lstsq(torch.cat([z[:, 3:4], ones], 1), torch.nn.functional.gelu(z[:, 3:4])).solution[:, 0]
    torch.testing.assert_close(torch.stack([fits[0].slope[3], fits[0].shift[3]]), due)
    written = apply_mlp(read, layers[0].mlp)
    # behind a LayerNorm rows lie in a hyperplane, so the constant depends on them: the rank must not hang on rounding
    least = torch.linalg.lstsq(torch.cat([read, ones], 1), written, rcond=1e-9, driver="gelsd").solution
    guess, best = apply_mlp(read, fits[0].map, lambda hidden: hidden), torch.cat([read, ones], 1) @ least
    misses = [(written - each).square().sum().item() for each in (best, guess)]
    assert misses[0] <= misses[1] < misses[0] * 1.001


def test_the_theorems_factor_is_seen_where_rows_are_nearly_alike(layers, texts):
    mean, noise = texts[0, :1], 1e-4 * texts[1]
    expected, seen = bert_rank.shrink(mean + noise, layers[0])
    assert seen.item() == pytest.approx(expected.item(), rel=1e-2)


def test_a_document_is_measured_in_every_way(layers, texts, fits):
    states = torch.stack(encode(texts[0], layers))
    found = bert_rank.measure_document(states, layers, fits)
    assert found["residual"].shape == (3, len(bert_rank.WAYS))
    assert found["cosine"][0] == pytest.approx(1)
    assert found["residual"][-1, 0] == pytest.approx(residual(states[-1]).log10().item())
    assert found["cosine"][1:].max() < 1 - 1e-4
    assert found["factor"].shape == (2, len(bert_rank.FACTORS))
    assert found["fit"].shape == (2, len(bert_rank.FITS))


def test_the_switches_are_the_layers_parts(layers, texts):
    found = bert_rank.trace(list(texts[:2]), layers)
    assert found.shape == (2, 2, 2, 3)
    for place, ways in {(1, 1, 1): "whole", (1, 0, 1): "without the MLP"}.items():
        ends = [run(ways, x, layers, [None, None])[0][-1] for x in texts[:2]]
        due = torch.stack([residual(end) for end in ends]).log10().mean()
        assert found[*place, -1] == pytest.approx(due.item())
