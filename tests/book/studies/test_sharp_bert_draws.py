"""What the chapters on BERT draw at random, fit and cut: how much of it, from which seed, and with which ridge."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from analysis.transformer.encoder import random_layers
from book.lab.mathematics.stretching import MAPS
from book.studies.bert_normality import rows
from book.studies.bert_rank import statements, switches
from book.studies.bert_similarity import asymmetry, cone, terms
from book.studies.bert_stream import controls, layer, minilm, networks
from tests.book.studies.known import double, no_norm, plain

EYE = torch.eye(2).double()


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_isotropic_directions_are_drawn_map_by_map_and_layer_by_layer(monkeypatch):
    asked = []

    def isotropic(W, samples, rng):
        asked.append((W[0, 0, 0].item(), samples, rng.random()))
        return torch.full((1, samples), W[0, 0, 0].item()).double()

    monkeypatch.setattr(cone.stretching, "isotropic_cone_positions", isotropic)
    layers = [plain(2, W_Q=k * EYE, W_K=(k + 1) * EYE, W_V=(k + 2) * EYE) for k in (1, 10)]
    each = SimpleNamespace(attention=layers, states=[torch.stack([EYE] * 3)])
    found = cone.measure_cone(SimpleNamespace(trained=each, both={"trained": each, "control": each}))
    stream = np.random.default_rng(0)
    weights = [k + place for place in range(len(MAPS)) for k in (1, 10)]
    assert asked == [(weight, 500, stream.random()) for weight in weights]
    assert found.positions["isotropic"].shape == (3, 1000)
    assert found.positions["isotropic"][:, [0, -1]].tolist() == [[1, 10], [2, 11], [3, 12]]
    np.testing.assert_allclose(found.apertures, np.arange(101) / 100)
    assert found.pairs == 3 * 2 * 2


def test_the_middle_of_the_positions_is_a_median_and_the_best_the_largest(monkeypatch):
    """Positions 0.1, 0.2, 0.95 for one map: the median is no mean, and one of three lies within a tenth."""
    positions = double([[[0.1, 0.2, 0.95]]], [[[0.9, 0.3, 0.2]]], [[[0.3, 0.89, 0.4]]])
    monkeypatch.setattr(cone.stretching, "cone_positions", lambda states, layers: positions * layers)
    monkeypatch.setattr(cone.stretching, "isotropic_cone_positions", lambda *_: double([0.5, 0.6]))
    trained = SimpleNamespace(attention=1.0, states=[None])
    control = SimpleNamespace(attention=0.5, states=[None])
    weights = SimpleNamespace(attention=[SimpleNamespace(W_Q=0, W_K=0, W_V=0)])

    class Trained(SimpleNamespace):
        @property
        def trained(self):
            return weights

    found = cone.measure_cone(Trained(both={"trained": trained, "control": control}))
    assert found.middle["trained"] == pytest.approx([0.2, 0.3, 0.4])
    assert found.middle["control"] == pytest.approx([0.1, 0.15, 0.2])
    assert found.best == pytest.approx([0.95, 0.9, 0.89])
    assert (found.pairs, found.narrow) == (9, pytest.approx(2 / 9))
    assert found.half == pytest.approx([0.8, 0.7, 0.6])


def test_the_null_of_the_test_is_drawn_from_the_first_seed(monkeypatch):
    monkeypatch.setattr(rows.normality, "simulate_null", lambda size, draws, rng: torch.tensor([rng.random()]))
    monkeypatch.setattr(rows.normality, "critical_value", lambda size: size / 1000)
    found = rows.measure_threshold(20)
    assert found.simulated.item() == pytest.approx(np.random.default_rng(0).random())
    assert (found.table, found.critical) == (0.768, 0.02)


def test_the_printed_norm_is_tried_on_six_rows_of_eight(monkeypatch):
    tried = []
    printed = statements.printed_layer_norm
    monkeypatch.setattr(statements, "printed_layer_norm", lambda x: tried.append(x) or printed(x))
    monkeypatch.setattr(
        statements,
        "compare_with_library",
        lambda *_: dict.fromkeys(("trained_gap", "read_gap", "concatenation_gap", "skipped"), 0.0),
    )
    found = statements.measure_norm(None, None)
    assert torch.equal(tried[0], drawn(6, 8))
    assert max(found.plain_error, found.affine_error) < 1e-12


def test_four_terms_are_added_for_a_head_of_bert_base(monkeypatch):
    """Scores that are twice the sum of the terms are off by half of their size."""
    seen = []

    def compute_scores(X, head):
        seen.append((X, head))
        return 2 * torch.ones(1, 1, 1).double()

    monkeypatch.setattr(terms, "compute_scores", compute_scores)
    total = SimpleNamespace(total=lambda: torch.ones(1, 1, 1).double())
    monkeypatch.setattr(terms, "score_terms", lambda X, head: total)
    assert terms.four_term_error(torch.device("cpu")) == 0.5
    ((X, head),) = seen
    generator = torch.Generator().manual_seed(0)
    due = [
        torch.randn(*shape, generator=generator, dtype=torch.float64)
        for shape in ((512, 768), (1, 768, 64), (1, 768, 64), (1, 64), (1, 64))
    ]
    for found, each in zip((X, head.W_Q, head.W_K, head.b_Q, head.b_K), due, strict=True):
        assert torch.equal(found, each)


def test_lengths_are_tried_on_the_first_text_in_the_layer_that_is_drawn(monkeypatch):
    """Three layers and two texts; the second row becomes three times as long, and nothing else."""
    texts = [drawn(4, 5, 2, seed=seed) for seed in (1, 2)]
    layers = [plain(2, W_Q=k * EYE, W_K=EYE, b_Q=double(1, 1)) for k in (1.0, 2.0, 3.0)]
    seen = []

    def compute_scores(x, weights):
        seen.append((x, weights))
        return torch.zeros(1, 5, 5).double() if len(seen) == 2 else 2 * torch.ones(1, 5, 5).double()

    monkeypatch.setattr(asymmetry, "compute_scores", compute_scores)
    monkeypatch.setattr(asymmetry.distance, "attention_moved", lambda x, weights, rows: x[0] * weights.W_Q[0, 0, 0])

    class Observed(SimpleNamespace):
        def rows(self, level):
            return texts[0][level]

    observed = Observed(layers=layers)
    trained = SimpleNamespace(attention=layers, states=texts)
    found = asymmetry.measure_lengths(SimpleNamespace(trained=trained, both={"control": observed}), 2)
    (before, weights), (after, _) = seen
    assert torch.equal(before, texts[0][2])
    assert weights.W_Q[0, 0, 0] == 3
    assert not weights.b_Q.any()
    assert torch.equal(after, before * double([1], [3], [1], [1], [1]))
    assert found.scaling_error == 1  # scores of 0 where they should be 6
    assert found.cosine_error < 1e-12
    assert found.moved == pytest.approx([np.mean([t[k, 0].mean().item() for t in texts]) * (k + 1) for k in range(3)])
    lengths = [np.linalg.norm(texts[0][k].numpy(), axis=1) for k in range(3)]
    assert found.spread["control"] == pytest.approx([each.std(ddof=1) / each.mean() for each in lengths])


# ---- the stream


def test_other_rows_and_orders_are_drawn_from_the_first_seed(monkeypatch):
    read = drawn(6, 3, seed=4)
    monkeypatch.setattr(layer, "_mean_change", lambda stations: 0.0)
    monkeypatch.setattr(layer, "_compare_jacobian", lambda row, norm: (0.0, 0.0))
    subject = SimpleNamespace(before_first=read, layer=SimpleNamespace(norm_attention=no_norm(3)), width=3)
    found = layer.measure_normalisation(subject, {})
    order = torch.randperm(6, generator=torch.Generator().manual_seed(0)).numpy()
    x = read.numpy()

    def norm(values):
        centred = values - values.mean(1, keepdims=True)
        return centred / np.sqrt(np.square(centred).mean(1, keepdims=True))

    due = norm(x + x[order])
    assert found.additivity_error == pytest.approx(np.linalg.norm(norm(x) + norm(x[order]) - due) / np.linalg.norm(due))
    assert found.length_error < 1e-9
    assert found.written_sums == pytest.approx((0, 0), abs=1e-9)


def test_blocks_are_permuted_in_the_order_of_the_first_seed():
    (encoder,) = random_layers(1, 4, 8, generator=torch.Generator().manual_seed(3))
    x = drawn(5, 8, seed=6)
    found = layer.measure_order(SimpleNamespace(first=x, heads=4, layer=encoder))
    order = torch.randperm(4, generator=torch.Generator().manual_seed(0))
    assert order.tolist() != [0, 1, 2, 3]
    columns = [2 * int(block) + k for block in order for k in (0, 1)]
    own, permuted = (layer.apply_mlp(each, encoder.mlp).numpy() for each in (x, x[:, columns]))
    assert found.permuted_change == pytest.approx(np.linalg.norm(permuted - own) / np.linalg.norm(own))
    assert found.renumbered_error < 1e-12


def test_linear_maps_are_fitted_with_a_ridge_that_is_next_to_nothing(monkeypatch):
    (encoder,) = random_layers(1, 2, 4, generator=torch.Generator().manual_seed(3))
    asked = []

    def fit_ridge(x, y, new, ridge):
        asked.append((len(x), len(new), ridge))
        return torch.zeros(len(new), y.shape[1]).double()

    for module in (minilm, controls):
        monkeypatch.setattr(module, "fit_ridge", fit_ridge)
    monkeypatch.setattr(controls, "SAMPLES", 6)
    x = drawn(21, 4)
    minilm._measure_mlp({"first": x, "mlp_output": x + 1}, encoder, torch.Generator().manual_seed(0))
    controls._pool([SimpleNamespace(x=x, first=x, heads=x)], encoder)
    assert asked == [(11, 10, 1e-6), (10, 11, 1e-3)]


def test_rows_of_a_pool_are_drawn_from_the_first_seed(monkeypatch):
    (encoder,) = random_layers(1, 2, 4, generator=torch.Generator().manual_seed(3))
    asked = []
    monkeypatch.setattr(controls, "fit_ridge", lambda x, y, new, ridge: asked.append((x, new)) or 0 * new)
    monkeypatch.setattr(controls, "additive_share", lambda function, rows, heads, generator: asked.append(rows) or 0.0)
    monkeypatch.setattr(controls, "SAMPLES", 6)
    x = drawn(9, 4)
    controls._pool(
        [SimpleNamespace(x=x[:4], first=x[:4], heads=x[:4]), SimpleNamespace(x=x[4:], first=x[4:], heads=x[4:])],
        encoder,
    )
    order = torch.randperm(9, generator=torch.Generator().manual_seed(0))
    (fit, tried), samples = asked
    assert torch.equal(fit, x[order[:4]])
    assert torch.equal(tried, x[order[4:]])
    assert torch.equal(samples, x[order[:6]])


def test_couplings_of_both_halves_are_shares_of_their_own_sum(monkeypatch):
    """Through the heads 2 of 8 lie off the diagonal, through the MLP 3 of 4."""
    (encoder,) = random_layers(1, 2, 4, generator=torch.Generator().manual_seed(3))
    found = iter([double([3, 1], [1, 3]), double([1, 2], [1, 0])] * controls.POINTS)
    monkeypatch.setattr(controls, "block_coupling", lambda function, at, heads: next(found))
    monkeypatch.setattr(controls, "SAMPLES", 6)
    x = drawn(9, 4)
    measured = controls._pool([SimpleNamespace(x=x, first=x, heads=x)], encoder)
    assert measured[-2:] == pytest.approx([2 / 8, 3 / 4])


def test_a_layer_is_measured_on_the_rows_of_all_texts(monkeypatch):
    (encoder,) = random_layers(1, 2, 4, generator=torch.Generator().manual_seed(3))
    texts, given = [drawn(3, 4), drawn(5, 4, seed=1)], {}

    def couple(rows, layer, generator):
        given["rows"], given["seed"] = rows, generator.initial_seed()
        return [1.0]

    monkeypatch.setattr(minilm, "_couple", couple)
    monkeypatch.setattr(minilm, "_measure_mlp", lambda rows, layer, generator: {"mlp": 2.0})
    monkeypatch.setattr(minilm, "_read_back", lambda passed, rows, heads, generator: [len(passed), heads])
    monkeypatch.setattr(minilm, "_align", lambda passed: [len(each.x) for each in passed])
    found = minilm.measure_layer(texts, encoder, seed=7)
    assert {name: values.tolist() for name, values in found.items()} == {
        "coupling": [1],
        "mlp": 2,
        "read_back": [2, 2],
        "cosine": [3, 5],
    }
    assert given["seed"] == 7
    assert torch.equal(given["rows"]["x"], torch.cat(texts))
    assert set(given["rows"]) == {"x", "heads", "attention_output", "first", "mlp_output", "second"}


def test_a_survey_needs_three_texts_and_says_how_far_another_machine_may_be(monkeypatch):
    with pytest.raises(ValueError, match="at least three"):
        minilm.survey("minilm", ["one", "two"])
    given = {
        "coupling": 1.0,
        "control_product_error": 2.0,
        "least_singular": 3.0,
        "control_residual": 4.0,
        "linear": 5.0,
    }
    arrays = {name: np.array([value]) for name, value in given.items()}
    monkeypatch.setattr(minilm.texts, "passages", lambda: "texts")
    monkeypatch.setattr(
        minilm, "survey", lambda name, texts, device: arrays if (name, texts) == ("minilm", "texts") else 0
    )
    found = minilm.compute(torch.device("cpu"))
    assert {name: (array.dtype, array.item()) for name, array in found.arrays.items()} == {
        name: (np.float32, value) for name, value in given.items()
    }
    assert list(found.tolerances.values()) == [1e-3, 1e-2, 1e-4, 0.05, 5e-3]


def test_columns_and_rows_that_are_not_where_the_formula_says_are_counted(monkeypatch):
    """With the first two blocks exchanged the columns of both are elsewhere."""
    own = networks.block_of

    def exchanged(k, width):
        block, place = own(k, width)
        return {1: 2, 2: 1}.get(block, block), place

    monkeypatch.setattr(networks, "block_of", exchanged)
    assert networks._count_wrong() == (2 * networks.WIDTH, 2 * networks.WIDTH)


def test_one_random_stack_has_every_set_of_parts_once(monkeypatch):
    asked = []

    def collapse(width, gain, seed, chosen, *, depth, device):
        asked.extend(chosen)
        return torch.arange(len(chosen)).double()[:, None].expand(-1, depth + 1) / 100 + 0.01

    monkeypatch.setattr(switches, "random_collapse", collapse)
    found = switches.trace_stack(1.0, 0, torch.device("cpu"))
    places = list(np.ndindex(2, 3, 2))
    for number, (skip, mlp, norm) in enumerate(places):
        each = asked[number]
        assert (each.skip, each.mlp, each.norm_attention, each.norm_mlp) == (
            bool(skip),
            mlp > 0,
            bool(norm),
            bool(norm),
        )
        assert each.linear == (mlp == 1)
        assert found[skip, mlp, norm] == pytest.approx([np.log10(0.01 * (number + 1))] * 13)


def test_every_layer_of_a_network_reads_the_state_before_it(monkeypatch):
    """Two texts and two layers, which multiply by 1 and 2; a state tells its text and its layer."""

    def hidden_states(model, tokenizer, passages, longest):
        assert (tokenizer, longest) == ("words", 50)
        return [torch.tensor([10.0, 11.0, 12.0]) * float(text) for text in passages]

    monkeypatch.setattr(networks.extraction, "hidden_states", hidden_states)
    layers = [SimpleNamespace(to=lambda dtype, by=by: by) for by in (1, 2)]
    monkeypatch.setattr(networks, "load", lambda model: SimpleNamespace(encoder_layers=lambda: layers))
    monkeypatch.setattr(networks, "run_layer", lambda x, by: (x.item(), by))
    model = SimpleNamespace(config=SimpleNamespace(max_position_embeddings=50))
    found = networks._run(model, "words", ["1", "3"])
    assert found.stations == [[(10, 1), (30, 1)], [(11, 2), (33, 2)]]
    assert [text.tolist() for text in found.states] == [[10, 11, 12], [30, 33, 36]]
    assert {text.dtype for text in found.states} == {torch.float64}
    assert (found.model, found.layers) == (model, [1, 2])
