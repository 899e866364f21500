"""The records on weighted means, on tiny models and on sources made for the survey."""

import numpy as np
import pytest
import torch

from analysis.models import checkpoints, pretrained
from analysis.models.reading import load
from book.experiments import weighted_mean, weighted_mean_sentence
from book.experiments.weighted_mean_output_projections import judge
from tests.analysis.tiny import GPT2, write_model

CPU = torch.device("cpu")

QKV = "self.query = nn.Linear(d, d); self.key = nn.Linear(d, d); self.value = nn.Linear(d, d)"
HEAD = "class {}(nn.Module):\n    def __init__(self, d):\n        {}\n"


def verdicts(*classes):
    return dict(judge("\n".join(HEAD.format(name, body) for name, body in classes)))


def test_own_beside_none():
    assert verdicts(("AAttention", f"{QKV}; self.o_proj = nn.Linear(d, d)")) == {"AAttention": "own"}
    assert verdicts(("ASelfAttention", QKV)) == {"ASelfAttention": "none"}
    assert verdicts(("ASelfAttention", QKV), ("ASelfOutput", "self.dense = nn.Linear(d, d)")) == {
        "ASelfAttention": "beside"
    }
    assert verdicts(("ASelfAttention", QKV), ("ABlock", "self.a = ASelfAttention(d); self.proj = nn.Linear(d, d)")) == {
        "ASelfAttention": "beside"
    }
    assert verdicts(("ASelfAttention", QKV), ("ABlock", "self.a = ASelfAttention(d); self.proj = nn.Dropout(d)")) == {
        "ASelfAttention": "none"
    }


def test_what_is_no_attention_with_values_is_left_out():
    assert verdicts(("AMap", QKV)) == {}
    assert verdicts(("AMapAttention", "self.q_proj = nn.Linear(d, d); self.k_proj = nn.Linear(d, d)")) == {}


def test_fused_projections_count_and_are_no_output():
    assert verdicts(("AAttention", "self.c_attn = Conv1D(3 * d, d)")) == {"AAttention": "none"}
    assert verdicts(("AAttention", "self.qkv_out = nn.Linear(d, 3 * d)")) == {"AAttention": "none"}


def test_a_projection_counts_only_in_a_class_that_holds_the_attention():
    projects = "self.proj = nn.Linear(d, d)"
    attention = ("ASelfAttention", QKV)
    assert verdicts(attention, ("AHead", projects)) == {"ASelfAttention": "none"}
    twice = f"self.a = ASelfAttention(d)\n        self.name = 'ASelfAttention'\n        {projects}"
    assert verdicts(attention, ("ABlock", twice)) == {"ASelfAttention": "beside"}
    assert verdicts(attention, ("ABlock", f"self.a = AnASelfAttention(d)\n        {projects}")) == {
        "ASelfAttention": "none"
    }


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A random GPT-2 of two layers and three heads, with 16 positions."""
    folder = write_model(tmp_path_factory.mktemp("gpt2") / "tiny", GPT2 | {"n_positions": 16})
    return checkpoints.find(str(folder))


def test_the_dial_starts_at_equal_weights_and_turns_them_sharper(tiny):
    found = weighted_mean.turn(load(tiny, dtype=torch.float64), CPU).arrays
    for name in ("positions", "stand_ins", "control"):
        assert found[name].shape == (len(weighted_mean.DIALS), GPT2["n_head"])
        np.testing.assert_allclose(found[name][0], 1)
        assert (np.diff(found[name], axis=0) < 1e-9).all()


def test_every_control_of_a_first_layer_reads_both_inputs(tiny):
    found = weighted_mean.of_first_layer(load(tiny, dtype=torch.float64), CPU)
    assert found[""].shape == (2, GPT2["n_head"])
    for controls in (found["-controls"], found["-sizes"]):
        assert controls.shape == (3, 5, *found[""].shape)
        assert ((controls > 0) & (controls <= 1)).all()


@pytest.mark.parametrize("name", ["gpt2-mini", "minilm"])
def test_each_random_head_has_the_size_of_its_own_trained_one_and_the_norms_are_fresh_or_trained(name):
    files = checkpoints.find(name)
    trained, random = (pretrained.load(files, control_seed=seed, dtype=torch.float64) for seed in (None, 0))
    by_head, with_norms, both = (load(net) for net in weighted_mean.as_large(random, trained))
    own = load(trained)
    for k, layer in enumerate(own.layers):
        for which in ("W_Q", "W_K", "W_V", "W_O"):
            sizes = getattr(layer, which).norm(dim=(1, 2))
            for network in (by_head, both):
                torch.testing.assert_close(getattr(network.layers[k], which).norm(dim=(1, 2)), sizes)
            of_matrix = getattr(with_norms.layers[k], which)
            torch.testing.assert_close(of_matrix.norm(), sizes.norm())
            assert not torch.allclose(of_matrix.norm(dim=(1, 2)), sizes, rtol=1e-2)
        fresh, *norms = (net.norm("attention", k) for net in (by_head, both, own))
        assert set(fresh.gain.tolist()) == {1.0}
        torch.testing.assert_close(norms[0].gain, norms[1].gain, rtol=0, atol=0)


def test_a_seed_has_a_share_for_every_head():
    folder = checkpoints.find("gpt2-mini").folder
    shares = weighted_mean.share_of_runs([folder], CPU).arrays["shares"]
    assert shares.shape == (1, 2, 8)
    assert ((shares > 0) & (shares < 1)).all()


def test_scores_of_a_row_are_below_its_largest_and_products_of_values_have_their_largest_on_the_diagonal(tiny):
    model = pretrained.load(tiny, dtype=torch.float64)
    scores, products = weighted_mean_sentence.read(model, torch.tensor([[3, 1, 4, 1, 5]]))
    assert scores.shape == products.shape == (GPT2["n_layer"], GPT2["n_head"], 5, 5)
    assert (scores.max(-1) == 0).all()
    assert (products == products.swapaxes(2, 3)).all()
    assert (np.diagonal(products, axis1=2, axis2=3).max(-1) == 1).all()
