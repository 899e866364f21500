"""Rank, the stream of a layer and records of trainings on inputs whose answer is known by hand."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from analysis.maps.gates import GATES
from analysis.transformer.encoder import random_layers
from book.publish.records import Value
from book.studies.bert_rank import stacks, statements
from book.studies.bert_stream import layer, networks
from book.studies.variant_data import partings
from tests.book.studies.known import Known, double, no_norm, plain, record


def test_errors_are_over_what_is_exact():
    value, exact = double([3, 4], [0, 0]), double([0, 4], [0, 3])
    assert networks.relative_error(value, exact) == pytest.approx(18**0.5 / 5)
    assert networks.largest_error(value, exact) == 3


def test_identities_of_the_stream_hold_and_the_printed_indices_do_not():
    found = networks.measure_algebra()
    assert (found.wrong_columns, found.wrong_rows) == (0, 0)
    # as printed the block is (64 a + 1) / 12, an odd number over an even one; the column is 0 once for each head
    assert (found.whole, found.zeros) == (0, networks.HEADS)
    assert max(found.product_error, found.sum_error, found.four_terms_error) < 1e-12
    assert networks._mixture_error() < 1e-12
    assert networks._printed_context_error() > 0.1


def test_the_printed_context_is_the_product_where_the_rows_are_a_symmetric_matrix(monkeypatch):
    """(5.17) multiplies by the rows from the right where their transpose belongs."""
    drawn = networks.draw

    def symmetric(*sizes, **options):
        matrices = drawn(*sizes, **options)
        return matrices + matrices.mT

    monkeypatch.setattr(networks, "draw", symmetric)
    assert networks._printed_context_error() < 1e-12


def test_texts_are_cut_where_the_page_cuts_them_or_earlier_where_the_model_ends(monkeypatch):
    monkeypatch.setattr(networks, "load", lambda _: SimpleNamespace(encoder_layers=list))
    monkeypatch.setattr(networks.extraction, "hidden_states", lambda *given: [torch.tensor(given[-1])])
    for limit, longest in ((512, networks.LONGEST), (networks.LONGEST, networks.LONGEST), (20, 20)):
        model = SimpleNamespace(config=SimpleNamespace(max_position_embeddings=limit))
        assert networks._run(model, None, ["text"]).states == [longest]


def test_a_change_is_the_mean_over_texts_and_layers():
    def texts(*sizes):
        return [SimpleNamespace(before_first=double([3, 4]), first=double([3 + 5 * size, 4])) for size in sizes]

    assert layer._mean_change([texts(0.2, 0.4), texts(0.0, 1.0)]) == pytest.approx(0.4)


def test_a_jacobian_is_the_closed_form_and_takes_two_directions_away():
    row = double(1, 2, 4, 8, -3)
    error, third = layer._compare_jacobian(row, no_norm(5, 1e-12))
    assert error < 1e-12
    assert third < 1e-9


def test_the_composition_of_heads_is_scored_between_neighbours(monkeypatch):
    monkeypatch.setattr(layer, "composition_scores", lambda W_O, W_Q: W_O[0, 0, :1] * 10 + W_Q[0, 0, :1])
    layers = [SimpleNamespace(attention=plain(2, W_Q=k * torch.eye(2), W_O=k * torch.eye(2))) for k in (1, 2, 3)]
    stations = SimpleNamespace(heads=double([3, 4], [0, 0]))
    network = SimpleNamespace(layers=layers, stations={0: [stations]})
    subject = SimpleNamespace(level=0, heads=1, layer=layers[1])
    found = layer.measure_composition(subject, {"trained": network})
    numbers, sizes = vars(found).values()
    assert np.ravel(numbers["trained"]).tolist() == [12, 23]
    assert sizes.tolist() == pytest.approx([5.0])  # twice (3, 4), and nothing: mean 5


def test_ranks_of_means_are_those_of_their_formulas():
    found = statements.measure_mean_matrices(torch.Generator().manual_seed(1))
    assert found["matrix_error"] < 1e-9
    # E 1^T has the columns of E, [1 E^T, E] has those of 1 and E; X of rank 3 gets a direction more or not
    assert found["mean_spaces"] == (1, 2)
    assert found["with_means"] == (3, 3)
    assert found["zero_mean_rank"] == 0  # 1 and -1 have the mean 0


def test_a_layernorm_as_printed_divides_by_the_standard_deviation():
    found = statements.printed_layer_norm(double([1, 3], [0, 10]))
    assert found.tolist() == [[-1, 1], [-1, 1]]
    opposite = statements.opposite_bias(double([1, 3]))
    assert opposite.bias.tolist() == [1, -1]


def test_rules_on_ranks_are_tried_on_matrices_whose_rank_is_known():
    exact = lambda *rows: np.array(rows, dtype=object)  # noqa: E731
    unit = exact([1, 0], [0, 1])
    assert statements.rule_for_sums(unit, exact([0, 0], [0, 0]))
    assert statements.rule_for_updates(unit, exact([-1], [0]), exact([1, 0]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(statements, "rank_change", lambda *_: 0)
        assert not statements.rule_for_updates(unit, exact([-1], [0]), exact([1, 0]))


def test_hidden_rows_of_an_mlp_of_zeros_are_zero(monkeypatch):
    (drawn,) = random_layers(1, 1, 2, std=0.0, generator=torch.Generator())
    x = double([1, 2], [3, 5])
    mlp = SimpleNamespace(W_in=torch.eye(2).double(), b_in=double(-2, 0))
    monkeypatch.setattr(stacks, "run_layer", lambda x, layer: SimpleNamespace(first=x))
    observed = SimpleNamespace(layers=[SimpleNamespace(mlp=mlp, attention=drawn.attention)], states=[[x]])
    mean, below, before, after = stacks.measure_hidden_rows(observed)[0]
    z = double([-1, 2], [1, 5])
    gelu = z * torch.distributions.Normal(0.0, 1.0).cdf(z)
    assert (mean, below) == (pytest.approx(gelu.mean().item()), 0.25)
    assert before == pytest.approx(((1 + 1 + 1.5**2 * 2) / (1 + 4 + 1 + 25)) ** 0.5)
    centred = gelu - gelu.mean(0)
    assert after == pytest.approx((centred.norm() / gelu.norm()).item())


def test_residuals_are_averaged_as_logarithms():
    run = np.array([[1.0, 4.0], [1.0, 1.0], [1.0, 2.0]])
    assert stacks.typical(run, 1) == pytest.approx(2)
    assert stacks.typical(np.zeros((2, 1)), 0) == pytest.approx(stacks.FLOOR)
    assert stacks.expected_factor(1.0) == pytest.approx(0.5**0.5)


def test_accuracy_of_several_seeds_is_that_over_all_their_sequences():
    sizes = {0: (0.5, 10), 1: (0.9, 30), 2: (1.0, 40)}
    values = {
        f"whole_{part}_{seed}": Value(share, 0.0, n=n)
        for part in ("validation", "test")
        for seed, (share, n) in sizes.items()
    }
    arrays = {name: np.zeros((3, 2)) for name in ("trace_loss", "trace_step", "trace_validation")}
    found = partings.measure_training(Known(values=values, arrays=arrays))
    assert found.test_share.value == pytest.approx((5 + 27 + 40) / 80)
    assert (found.test_share.n, found.whole_test) == (80, "90.0 %")


def test_heads_are_averaged_and_the_control_is_read_at_the_first_of_each_class():
    sequences = np.arange(2.0)[:, None, None, None] + np.arange(3.0)[None, None, :, None]  # (2, 1, 3, 1)
    control = np.arange(6.0)[:, None, None, None] * np.ones((1, 1, 3, 1))
    records = {
        "pretraining": record(gates=sequences, trace_gates=[[7.0]]),
        "seeds": record(gates=np.stack([sequences, sequences + 10])),
        "measures": record(control_gates=control),
    }
    found = {name: values.ravel().tolist() for name, values in partings.average_heads(records, "gates", 2).items()}
    assert found == {
        "pre-trained": [1, 2],
        "seed 0": [1, 2],
        "seed 1": [11, 12],
        "control": [0, 3],
        "before the classes": [7],
    }


def test_pretraining_is_compared_in_the_last_layer():
    gate = GATES.index("directional")
    gates = np.zeros((2, 2, 3, len(GATES)))  # (sequence, layer, head, gate)
    gates[:, 1, :, gate], gates[:, 0, :, gate] = 0.5, 0.9
    before = np.zeros((2, len(GATES)))
    before[:, gate] = 0.2, 0.4
    control = np.zeros((2, 2, 3, len(GATES)))
    control[..., gate] = 0.01
    exchanged = {"exchanged_bases": 0.1, "exchanged_deletions": 0.8}
    pretraining = record(
        gates=gates,
        trace_gates=[before],
        trace_entropy=[before],
        entropy=gates[..., gate],
        updates=9,
        pretrain_loss=[1.0],
        **exchanged,
    )
    pretraining.values = {"whole_test": Value(0.99)}
    seeds = record(gates=np.stack([gates, gates / 2, gates / 5]), entropy=np.stack([gates[..., gate]] * 3))
    measures = record(control_gates=control, control_entropy=control[..., gate])
    found = partings.measure_pretraining({"pretraining": pretraining, "seeds": seeds, "measures": measures}, 2)
    assert (found.before, found.before_control, found.top) == ("30.0 %", "1.0 %", "50 %")
    assert (found.top_seeds, found.updates) == ("50 %, 25 %, 10 %", 9)
    assert found.exchanged == {"bases": 0.1, "deletions": 0.8}
    np.testing.assert_allclose(found.curves["directional"]["seed 1"], [[45, 25]] * 2)
    np.testing.assert_allclose(found.curves["missing entropy"]["control"], 99)
    assert found.gates["three seeds, not"].shape == (3, 2, 3, len(GATES))
    np.testing.assert_allclose(found.gates["pre-trained"], [gates.mean(0)])
    np.testing.assert_allclose(found.gates["control"], [control.mean(0)])
