"""Tables, records and small rules of several studies that nothing else runs, on numbers known by hand."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from analysis.statistics.intervals import FEWEST, Interval
from book.studies.bert_gates import experiments as gate_experiments
from book.studies.bert_gates import sink
from book.studies.bert_gates import tables as gates
from book.studies.bert_normality import cone
from book.studies.bert_rank import statements
from book.studies.bert_rank import tables as rank
from book.studies.bert_rank.statements import CentredCases
from book.studies.bert_similarity import asymmetry
from book.studies.bert_similarity import tables as similarity
from book.studies.one_score_four_parts import experiments as one_score
from book.studies.one_score_four_parts import shares
from book.studies.one_score_four_parts import tables as parts
from book.studies.patterns_and_messages import tables as patterns
from book.studies.rotary_bias import runs
from book.studies.rotary_bias import tables as rotary
from book.studies.semi_bias import tables as semi_bias
from book.studies.shared import ladder, released_code
from book.studies.shared.documents import DocumentLadder, Rungs
from book.studies.text_and_code import minilm
from book.studies.variant_classifier import controls as variant
from book.studies.variant_classifier import sequence
from tests.book.studies.known import double, plain, record

# ---- statements about ranks


def test_centring_keeps_the_rank_of_these_matrices_and_not_of_those():
    """(1, 0) and (0, 1) become (1, -1) / 2 and its negative: one rank of two. A constant row has no LayerNorm."""
    assert not statements.layer_norm_keeps_rank(np.array([[1, 0], [0, 1]]))
    assert statements.layer_norm_keeps_rank(np.array([[1, 0], [2, 0]]))
    assert statements.layer_norm_keeps_rank(np.array([[1, 1], [0, 1]]))


def test_the_printed_rule_for_updates_holds_for_zeros_and_fails_for_the_smallest_case():
    """1 + 1 1 is 2: the rank stays, although both vectors lie in the spaces. 1 - 1 is 0, as the rule says."""
    one = np.array([[1]])
    assert not statements.printed_rule_for_updates(one, one, one)
    assert statements.printed_rule_for_updates(one, one, -one)
    assert statements.printed_rule_for_updates(one, 0 * one, one)
    assert statements.printed_rule_for_updates(0 * one, one, one)  # outside, and the rank rises
    two = np.array([[1, 0], [0, 0]])
    outside = np.array([[0], [1]])
    assert statements.printed_rule_for_updates(two, outside, np.array([[1, 0]]))


def test_the_smallest_counterexamples_are_found():
    found = statements.find_examples()
    assert (found.lost, found.lost_ranks) == ([[0, 1], [1, 0]], (2, 1))
    assert found.gained_ranks[1] == found.gained_ranks[0] + 1
    assert (found.update, found.update_change) == (([[1]], [[1]], [[1]]), 0)
    assert (found.pairs, found.triples) == (3**8 + 2**12, 3**8)
    assert found.pairs_failing == found.triples_failing == found.falls_by_more == found.drops_outside == 0


def test_printed_and_corrected_rules_are_counted_over_all_triples(monkeypatch):
    """Of the two 1 by 1 matrices 0 and 1 three each: 8 triples, and the printed rule fails for one."""
    monkeypatch.setattr(statements, "small_matrices", lambda shapes, entries: [np.array([[k]]) for k in (0, 1)])
    found = statements.try_updates()
    assert (found["triples"], found["triples_failing"], found["printed_failing"]) == (8, 0, 1)
    assert (found["falls_by_more"], found["drops_outside"]) == (0, 0)


def test_the_row_space_decides_if_both_cases_occur_and_none_departs():
    assert CentredCases(3, 2, 1, 3, 2, 0).decided
    for departing in (
        (3, 2, 0, 3, 2, 0),
        (3, 2, 1, 2, 2, 0),
        (3, 2, 1, 3, 1, 0),
        (0, 2, 1, 0, 2, 0),
        (3, 0, 1, 3, 0, 0),
    ):
        assert not CentredCases(*departing).decided


def test_factors_stand_by_layer_trained_first():
    names = list(rank.FACTORS)
    measures = {
        name: DocumentLadder(
            np.array([[1.0, 2], [3, 6]]) + 10 * k,
            {rung: np.array([[5.0, 7], [7, 7]]) + 10 * k for rung in ("random, as large", "permuted")},
        )
        for k, name in enumerate(names)
    }
    table = rank.factors(Rungs("", measures))
    assert list(table.columns) == ["layer 0", "layer 1"]
    assert table.loc[f"trained, {names[1]}"].tolist() == [12, 14]
    assert table.loc[f"permuted, {names[0]}"].tolist() == [6, 7]
    assert table.index[0].startswith("trained")
    assert table.index[-1].startswith("permuted")


# ---- tables


def test_kinds_and_strongest_heads_keep_their_rows():
    shares = {"tokens": [0.1, 0.9], "attention": [0.3, 0.7], "on columns": [0.6, 0.4], "further": [9, 9]}
    table = gates.kinds(SimpleNamespace(kind_shares=shares, token_kinds=("special", "word")))
    assert table.loc["special"].to_dict() == {"tokens": 0.1, "attention": 0.3, "on columns": 0.6}
    best = SimpleNamespace(layer=3, head=5, share=Interval(0.5, 0.25, 0.75))
    row = gates.strongest(SimpleNamespace(best={"open": best})).loc["open"]
    assert row.tolist() == [3, 5, "0.500 (0.250 to 0.750)"]


def test_asymmetry_is_told_with_and_without_its_interval():
    kinds = (*similarity.KINDS, "control")
    of = SimpleNamespace(
        mean_scores={kind: 0.1 + k for k, kind in enumerate(kinds)},
        spread={kind: 10.0 + k for k, kind in enumerate(kinds)},
        over_texts={kind: (0.5 + k, 0.25, 0.75) for k, kind in enumerate(kinds)}
        | {kind + similarity.EQUAL: (0.125 + k, np.nan, np.nan) for k, kind in enumerate(kinds)},
    )
    table = similarity.asymmetry(of)
    assert table.iloc[1].tolist() == [1.1, 11, "1.50 (0.25 to 0.75)", "1.12"]
    assert table.loc["control"].tolist()[2:] == [f"{len(kinds) - 0.5:.2f} (0.25 to 0.75)", ""]


def test_models_and_texts_of_the_four_parts():
    heads = SimpleNamespace(
        divergence=np.array([1.0, 2, 6]), parts=np.arange(9.0).reshape(3, 3), control=np.array([0.5, 0.25])
    )
    assert parts.models({"m": heads}).loc["m"].tolist() == [3, 3, 4, 5, 0.375]
    texts = np.tile([0.5, 0.25, 0.75], (FEWEST, 1))
    few = SimpleNamespace(shares=texts[1:], content_minority=np.full(FEWEST - 1, 2.0))
    many = SimpleNamespace(shares=texts, content_minority=np.full(FEWEST, 2.0))
    table = parts.texts({"few": few, "many": many})
    assert list(table.index) == ["many"]
    assert table.iloc[0].tolist() == [*(f"{x:.2f} ({x:.2f} to {x:.2f})" for x in (0.5, 0.25, 0.75)), "2.0 (2.0 to 2.0)"]
    read = parts.gates({"head": [{"open": 0.5, "closed": 0.25}, {"cluster": 1.0}]})
    assert read.loc["head"].tolist() == ["open 0.50, closed 0.25", "cluster 1.00"]


def test_counts_and_ranges_of_patterns():
    table = patterns.counts({"one": SimpleNamespace(counted=3, formula=4)})
    assert table.loc["one"].to_dict() == {"counted": 3, "formula": 4}
    trained = {key: np.array([[0.5, 0.25], [1, 0.75]]) + k for k, key in enumerate(patterns.READINGS)}
    found = patterns.on_text(SimpleNamespace(trained=trained, control={key: v * 0 for key, v in trained.items()}))
    assert found["trained"].tolist() == [f"{k + 0.25:.2f} to {k + 1:.2f}" for k in range(len(trained))]
    assert set(found["control"]) == {"0.00 to 0.00"}
    assert list(found.index) == list(patterns.READINGS.values())


def test_identities_hold_to_rounding_or_do_not():
    of = SimpleNamespace(parts={"a": 1e-13, "b": 1e-11}, kernel=1e-13, border=1e-11, gauge=1e-13)
    table = rotary.errors(of)["exact"].to_dict()
    assert table == {"four parts, a": True, "four parts, b": False, "kernel": True, "border": False, "gauge": True}


def test_errors_of_the_semi_bias_stand_by_rewriting_and_model():
    name, label = next(iter(semi_bias.LABELS.items()))
    table = semi_bias.errors({"GPT-2": {name: 1.0}, "mini": {name: 2.0}})
    assert table.loc[label].to_dict() == {"GPT-2": 1, "mini": 2}


# ---- records and runs


def test_a_survey_is_read_or_taken_of_the_readers_texts(monkeypatch):
    arrays = {"D": np.array([1.0]), "control_D": np.array([2.0])}
    monkeypatch.setattr(ladder, "live_or_record", lambda name, inputs: (SimpleNamespace(arrays=arrays), f"from {name}"))
    found = ladder.load_survey("name", None, SimpleNamespace(departs=False), 3)
    assert (found.arrays["trained"]["D"], found.arrays["control"]["D"], found.source) == (1, 2, "from name")
    monkeypatch.setattr(ladder.texts, "passages", lambda **given: given)

    def survey(model, passages, device):
        assert (model, passages, device) == ("own", {"count": 3, "source": "mine"}, "there")
        return {name: 10 * array for name, array in arrays.items()}

    inputs = SimpleNamespace(departs=True, model="own", texts="mine", device="there")
    assert ladder.load_survey("name", survey, inputs, 3).arrays["control"]["D"] == 20


def test_records_of_the_classifier_are_read_in_their_order(monkeypatch):
    for module in (variant, sequence):
        monkeypatch.setattr(
            module, "live_or_record", lambda name, inputs, recompute: (f"record {name}", f"source {name}")
        )
    found = variant.read_records(None)
    assert found.sources == tuple(f"source {name}" for name in variant.RECORDS)
    assert list(vars(found).values())[:-1] == [f"record {name}" for name in variant.RECORDS]
    names = list(sequence.FineTunedSequence.__dataclass_fields__)
    table = record(**{name: [k + 0.5] for k, name in enumerate(names)})
    monkeypatch.setattr(sequence, "live_or_record", lambda *_, **given: (table, str(given["recompute"])))
    read, source = sequence.read_sequence(None)
    assert source == "False"
    for k, name in enumerate(names):
        value = getattr(read, name)
        assert value.tolist() == ([k] if name == "heads" else [k + 0.5])


def test_the_classifier_of_the_released_code_is_bert_base():
    model = released_code.build_classifier(vocabulary=100, classes=7)
    assert (model.config.vocab_size, model.classifier.out_features, model.config.hidden_size) == (100, 7, 768)
    assert next(model.parameters()).device.type == "meta"


def test_a_layers_inputs_are_all_states_but_the_last():
    states = [torch.full((1, 2, 3), float(k)) for k in range(4)]
    found = shares.read(lambda ids, output_hidden_states: SimpleNamespace(hidden_states=states), torch.zeros(2))
    assert [each.tolist() for each in found] == [[[k] * 3] * 2 for k in range(3)]


def test_gates_are_counted_on_all_texts_and_in_the_control_on_every_fourth(monkeypatch):
    module = gate_experiments
    monkeypatch.setattr(module.checkpoints, "find", lambda name: name)
    monkeypatch.setattr(module.pretrained, "tokenizer", lambda checkpoint: None)
    monkeypatch.setattr(module.pretrained, "load", lambda found, control_seed, device: control_seed)
    monkeypatch.setattr(module.texts, "passages", lambda: list(range(9)))
    monkeypatch.setattr(module, "take_census", lambda model, tokenizer, some: (model, some))

    def summarise(census, prefix):
        return SimpleNamespace(
            values={prefix + "v": census}, arrays={prefix + "a": census}, tolerances={prefix + "a": 0.5}
        )

    monkeypatch.setattr(module, "summarise", summarise)
    found = module.count_gates("cpu")
    assert found.values == {"v": (None, list(range(9))), "control_v": (module.SEED, [0, 4, 8])}
    assert set(found.arrays) == set(found.tolerances) == {"a", "control_a"}


def test_cells_are_chosen_by_the_name_that_the_detector_gives_them(monkeypatch):
    cells = torch.tensor([[0, 1], [2, 1]])
    monkeypatch.setattr(sink.gates, "read_gates", lambda maps: SimpleNamespace(cells=cells))
    assert sink.choose_gate(1)(None).tolist() == [[False, True], [False, True]]


def test_the_static_picture_shows_the_last_rows_of_the_first_text():
    rows = np.arange(len(cone.NETWORKS) * 2 * 3 * 4.0).reshape(len(cone.NETWORKS), 2, 3, 4)
    found = cone.directions(record(rows=rows))
    places = [cone.NETWORKS.index(name) for name in cone.SHOWN]
    assert next(v for v in vars(found).values() if isinstance(v, np.ndarray)).tolist() == rows[places, 0, 2].tolist()


def test_observed_attention_keeps_queries_and_maps():
    """Scores 0 and ln 3 in the second row: weights of a quarter and three."""
    query, key = double([[[0], [1]]]), double([[[0], [np.log(3)]]])
    seen = one_score.Observe()
    out = seen(2, query, key, double([[[4], [8]]]), scale=1.0, causal=True)
    assert out.squeeze().tolist() == pytest.approx([4, 7])
    assert seen.maps[2].squeeze()[1].tolist() == pytest.approx([0.25, 0.75])
    assert seen.queries[2] is query


def test_longer_rows_have_longer_scores_and_the_same_angles(monkeypatch):
    """Lengths 1, 2 and 3 spread by half of their mean; what moves is the mean over two texts, here of 12 and 48."""
    x = double([1, 0], [2**0.5, 2**0.5], [3, 0])
    layer = plain(2, W_Q=torch.eye(2), W_K=torch.eye(2), b_Q=double(1, 0), b_K=double(0, 1))
    observed = SimpleNamespace(layers=[None], rows=lambda i: x)
    trained = SimpleNamespace(attention=[layer], states=[[x], [2 * x]])

    def moved(own, weights, rows):
        assert rows.norm(dim=1).std() < 1e-9  # all at one length
        return torch.stack([own[:, 0].square().sum()])

    monkeypatch.setattr(asymmetry.distance, "attention_moved", moved)
    found = asymmetry.measure_lengths(SimpleNamespace(trained=trained, both={"trained": observed}), 0)
    assert found.spread["trained"] == [pytest.approx(0.5)]
    assert max(found.scaling_error, found.cosine_error) < 1e-12
    assert found.moved == [pytest.approx(30)]


def test_a_text_model_is_measured_on_the_first_passages(monkeypatch):
    monkeypatch.setattr(minilm.texts, "passages", lambda count: count)
    monkeypatch.setattr(
        minilm, "survey_texts", lambda name, passages, device: {f"{name} {passages} {device}": np.zeros(1)}
    )
    found = minilm.survey_model("one", "there")
    name = f"one {minilm.PASSAGES} there"
    assert list(found.arrays) == [name]
    assert found.tolerances == {name: minilm.tolerance(name)}


@pytest.mark.parametrize(("scaling", "changed"), [("as trained", 1.0), ("linear", 2.0), ("NTK", 3.0), ("YaRN", 4.0)])
def test_a_models_rotation_gets_the_frequencies_of_each_way(monkeypatch, scaling, changed):
    def stretched(by):
        return lambda rotary, *given: SimpleNamespace(frequencies=by * rotary.frequencies, attention_factor=by)

    for name, by in (("interpolate_positions", 2.0), ("ntk_aware", 3.0), ("yarn", 4.0)):
        monkeypatch.setattr(runs, name, stretched(by))
    embedding = SimpleNamespace(inv_freq=torch.zeros(2), attention_scaling=0.0)
    model = SimpleNamespace(gpt_neox=SimpleNamespace(rotary_emb=embedding))
    trained = SimpleNamespace(frequencies=torch.tensor([1.0, 0.5]), attention_factor=1.0)
    assert runs._stretch(model, trained, scaling) is model
    assert embedding.inv_freq.tolist() == [changed, changed / 2]
    assert embedding.attention_scaling == changed


def test_a_run_is_measured_on_its_windows_and_on_longer_text(monkeypatch):
    """What each measure is handed: all windows for the losses, a few for single heads, first rows for the shares."""
    windows = torch.arange(40 * 100).reshape(40, 100)
    corpus = SimpleNamespace(windows=windows, held_out=torch.arange(runs.LONG_TOKENS + 5))
    trace = {name: f"trace {name}" for name in (*runs.TRACED, "step")}
    monkeypatch.setattr(runs.gpt2_mini, "read_trace", lambda folder: (None, trace))
    monkeypatch.setattr(runs, "load", lambda folder, device: "model")
    monkeypatch.setattr(
        runs.reading, "load", lambda model: SimpleNamespace(layers=[SimpleNamespace(positions="rotary")])
    )
    monkeypatch.setattr(runs, "biases_of", lambda trace: {"bias": "own", "mean": "means"})
    monkeypatch.setattr(runs, "choose_windows", lambda given: given[::10])
    code = {"own": 1.0, "means": 2.0}
    monkeypatch.setattr(runs, "lose_parts", lambda model, rows, biases, rotary: [len(rows) * code[biases]])
    monkeypatch.setattr(runs, "lose_pieces", lambda model, rows, biases, rotary: [0.5 * len(rows) * code[biases]] * 2)
    monkeypatch.setattr(
        runs, "lose_heads", lambda model, rows, biases, rotary: {"by_head": np.array([len(rows) * code[biases]])}
    )
    monkeypatch.setattr(
        runs, "split_attention", lambda model, rows, both, rotary: SimpleNamespace(means=lambda: rows.shape)
    )
    monkeypatch.setattr(runs, "_stretch", lambda model, rotary, scaling: scaling)
    monkeypatch.setattr(runs, "cut", lambda long, length: (len(long), length))
    asked = []
    monkeypatch.setattr(runs, "evaluate", lambda model, rows, batch: asked.append((model, rows)) or (1.0, 2.0))
    found = runs.measure_run(None, corpus, None)
    assert found["step"] == "trace step"
    assert found["without"].tolist() == [[40], [80]]
    assert found["without_piece"].tolist() == [[20, 20], [40, 40]]
    assert (found["by_head_bias"].tolist(), found["by_head_mean"].tolist()) == ([4], [8])
    assert tuple(found["shares"]) == (runs.SHARE_WINDOWS, runs.SHARE_TOKENS)
    lengths = [("model", (runs.LONG_TOKENS, length)) for length in runs.LENGTHS]
    assert asked == lengths + [(scaling, (runs.LONG_TOKENS, runs.STRETCHED)) for scaling in runs.SCALINGS]
    assert found["longer"].shape == (len(runs.LENGTHS), 2)
