"""The survey of the chapter on the whole score: exact on bundled models, the control without a query bias."""

from dataclasses import fields

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertModel

from analysis.maps import attribution, distance
from analysis.models import checkpoints, pretrained
from analysis.models.reading import load
from analysis.transformer import constructed_heads
from book.studies.one_score_four_parts import experiments, parts
from tests.analysis.fake_device import GPU, OnGPU, pretended


@pytest.fixture(scope="module")
def surveys():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "PASSAGES", 2)
        patch.setattr(parts, "TOKENS", 20)
        return {
            (name, seed): parts.survey(checkpoints.find(name), control_seed=seed)
            for name in ("gpt2-mini", "minilm")
            for seed in (None, 0)
        }


def test_identity_and_split_are_exact(surveys):
    for found in surveys.values():
        assert found.error < 1e-12
        assert found.gap < 1e-6
        np.testing.assert_allclose(found.parts.sum(-1), found.divergence, atol=1e-6)
        np.testing.assert_allclose(found.from_zero.sum(-1), found.divergence, atol=1e-6)
        np.testing.assert_allclose(found.first.sum(-1), found.divergence[0], atol=1e-6)


def test_parts_are_means_over_texts_about_one_origin(surveys):
    for (name, seed), found in surveys.items():
        np.testing.assert_allclose(found.by_text.mean(1), found.parts, rtol=1e-12, atol=1e-15)
        assert found.by_text.shape[1] == 2
        assert np.abs(found.by_text[:, 0] - found.by_text[:, 1]).max() > 1e-6
        model = pretrained.load(checkpoints.find(name), control_seed=seed, dtype=torch.float64)
        if name == "minilm":
            with pytest.MonkeyPatch.context() as patch, torch.no_grad():
                patch.setattr(parts, "PASSAGES", 2)
                patch.setattr(parts, "TOKENS", 20)
                last = [
                    model(ids[None], output_hidden_states=True).hidden_states[5][0]
                    for ids in parts.inputs(checkpoints.find(name))
                ]
            np.testing.assert_allclose(found.origins[5], torch.cat(last).mean(0), rtol=1e-9, atol=1e-12)


def test_row_constants_get_nothing_and_a_control_has_no_semi_bias(surveys):
    for (_, seed), found in surveys.items():
        assert not found.parts[..., 3:].any()
        assert bool(found.parts[..., 2].any()) is (seed is None)


def test_minilm_has_a_previous_token_head_and_its_control_has_none(surveys):
    layer, _, far = surveys["minilm", None].nearest("previous")
    assert layer == 0
    assert far < 0.1
    assert surveys["minilm", 0].nearest("previous")[2] > 0.5
    assert surveys["minilm", 0].nearest("uniform")[2] < 0.1


@pytest.fixture(scope="module")
def another(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bert")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = BertModel(
            BertConfig(
                num_hidden_layers=2,
                num_attention_heads=3,
                hidden_size=24,
                intermediate_size=48,
                max_position_embeddings=20,
            )
        )
        for parameter in model.parameters():  # biases are 0 at initialisation
            torch.nn.init.normal_(parameter, mean=float(parameter.ndim == 1), std=0.5)
    model.save_pretrained(folder)
    pretrained.tokenizer(checkpoints.find("minilm")).save_pretrained(folder)
    return checkpoints.find(str(folder))


def test_another_bert_with_few_positions(another):
    found = parts.survey(another)
    assert found.maps.shape == (2, 3, 20, 20)
    assert found.gap < 1e-6
    assert found.error < 1e-12
    np.testing.assert_allclose(found.first.sum(-1), found.divergence[0], atol=1e-6)


def test_distances_are_0_for_the_prototypes_themselves():
    tokens = torch.randint(5, (24,), generator=torch.Generator().manual_seed(0))
    for causal in (False, True):
        for i, maps in enumerate(parts.members(tokens, causal=causal).values()):
            assert parts.distances(maps, tokens, causal=causal)[:, i].max() == 0


def test_the_sum_of_the_split_parts_under_another_cut():
    g = torch.Generator().manual_seed(0)
    x = torch.randn(9, 8, generator=g, dtype=torch.float64)
    layer = constructed_heads.position_both(3, 5)  # any layer of width 8
    found = parts.compare_splits(x, layer, x.mean(0), causal=True)
    whole = found["path"].sum(0)
    for name in ("in order", "reverse order", "mean of orders", "mean of orders, content cut"):
        np.testing.assert_allclose(found[name].sum(0), whole, rtol=1e-9)
    np.testing.assert_allclose(found["path, content cut"], found["path"], rtol=1e-9, atol=1e-12)
    moved = parts.compare_splits(x, layer, x[0], causal=True)
    for name in ("path", "in order", "mean of orders"):  # what leaves the content goes to the common part
        np.testing.assert_allclose(moved[name].sum(0), whole, rtol=1e-9)
        assert np.abs(moved[name][0] - found[name][0]).max() > 1e-3
    np.testing.assert_allclose(moved["path"][2], found["path"][2], rtol=1e-9, atol=1e-12)


def test_the_control_of_gpt2_has_no_semi_bias():
    layer, x = experiments.read_gpt2(checkpoints.find("gpt2-mini"), control=True)
    whole, shares, _, _, gap = parts.split_layer([x[:16]], layer, True)
    assert gap < 1e-9
    assert not shares[..., 2].any()
    assert whole.max() < 0.1


@pytest.fixture
def met(monkeypatch):
    """Return where the scores lie that are split, and the maps that are compared."""
    found = []

    def watch(module, name):
        own = getattr(module, name)
        monkeypatch.setattr(module, name, lambda first, *rest: (found.append(type(first)), own(first, *rest))[1])

    watch(attribution, "attribute_divergence")
    watch(distance, "mean_total_variation")
    return found


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")
def test_a_survey_runs_where_it_is_asked_to(another, met, monkeypatch):
    monkeypatch.setattr(parts, "PASSAGES", 2)
    monkeypatch.setattr(parts, "ROWS", 10)  # fewer than the positions: rows are chosen
    due = parts.survey(another)
    assert set(met) == {torch.Tensor}
    met.clear()
    with pretended():
        found = parts.survey(another, device=GPU)
    assert set(met) == {OnGPU}
    for field in fields(due):
        np.testing.assert_allclose(getattr(found, field.name), getattr(due, field.name), rtol=1e-9, atol=1e-12)


@pytest.mark.usefixtures("unchecked")
def test_gpt2s_positions_are_measured_where_it_is_asked_for(met, monkeypatch):
    monkeypatch.setattr(experiments, "POSITIONS", 16)
    due = experiments.measure_gpt2("cpu")
    met.clear()
    with pretended():
        found = experiments.measure_gpt2(GPU)
    assert set(met) == {OnGPU}
    for name, array in due.arrays.items():
        np.testing.assert_allclose(found.arrays[name], array, rtol=1e-9, atol=1e-12)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("causal", [False, True])
def test_other_splits_stay_where_their_input_lies(causal):
    x = torch.randn(9, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    layer, origin = constructed_heads.position_both(3, 5), x.mean(0)
    due = parts.compare_splits(x, layer, origin, causal=causal)
    with pretended():
        found = parts.compare_splits(x.to(GPU), layer.to(GPU), origin.to(GPU), causal)
    for name, table in due.items():
        np.testing.assert_allclose(found[name], table, rtol=1e-9, atol=1e-12)


def test_positions_alone_are_as_wide_as_with_a_token_of_median_width():
    """Each position is divided by the root of its own variance and of the square of the median deviation."""
    model = load(checkpoints.find("gpt2-mini"), dtype=torch.float64)
    p = model.positions
    deviation = (p.var(1, unbiased=False) + model.norm("attention").eps).sqrt()
    width = (deviation.square() + deviation.sort().values[(len(p) - 1) // 2].square()).sqrt()
    _, x = experiments.read_gpt2(checkpoints.find("gpt2-mini"))
    torch.testing.assert_close(x, (p / width[:, None])[: experiments.POSITIONS])
