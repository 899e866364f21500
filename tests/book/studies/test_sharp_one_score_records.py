"""The whole score: what is recorded of its parts, and its tables."""

from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from analysis.core.attention_layer import Norm
from analysis.statistics.intervals import FEWEST
from book.publish.records import Value
from book.studies.one_score_four_parts import experiments, parts, shares, tables
from book.studies.one_score_four_parts.shares import HeadShares, TextShares
from tests.book.studies.known import record

measure = import_module("book.studies.one_score_four_parts.measure")


def test_the_first_layer_of_gpt2_is_recorded_beside_its_control(monkeypatch):
    """Of three heads the second and the third are nearest to a family; their maps are kept, cut short."""
    monkeypatch.setattr(experiments, "SHOWN", 1)
    monkeypatch.setattr(experiments, "FAMILIES", {"one": "", "two": ""})
    asked = []

    def read(found, control, device):
        asked.append((found, control, device))
        return ("control" if control else "trained"), torch.zeros(2, 1)

    heads = torch.arange(3.0)[:, None, None].expand(3, 2, 2) / 4
    distances = {"trained": [[0.5, 0.3], [0.25, 0.4], [0.75, 0.125]], "control": [[0.1, 0.9]] * 3}
    monkeypatch.setattr(experiments.checkpoints, "find", lambda name: f"found {name}")
    monkeypatch.setattr(experiments, "read_gpt2", read)
    monkeypatch.setattr(
        experiments,
        "split_layer",
        lambda xs, layer, causal: (
            f"{layer} {causal} {len(xs)}",
            [1.0],
            None,
            None,
            {"trained": 1.0, "control": 2.0}[layer],
        ),
    )

    class Maps(tuple):
        """A layer's name with its maps."""

        def __getitem__(self, place):
            return heads[place]

    monkeypatch.setattr(experiments, "attend", lambda x, layer: SimpleNamespace(attention=Maps((layer,))))
    monkeypatch.setattr(
        experiments, "distances", lambda maps, tokens, causal: torch.tensor(distances[next(iter(maps))]) + 0 * tokens[0]
    )
    found = experiments.measure_gpt2("cpu")
    assert asked == [("found gpt2", False, "cpu"), ("found gpt2", True, "cpu")]
    assert found.values == {
        "gap": Value(1.0, tolerance=1e-9),
        "control_gap": Value(2.0, tolerance=1e-9),
        "families": Value(2),
    }
    assert found.arrays["maps"].tolist() == [[[0.25]], [[0.5]]]  # of heads 1 and 2
    assert (str(found.arrays["divergence"]), str(found.arrays["control_divergence"])) == (
        "trained True 1",
        "control True 1",
    )
    np.testing.assert_allclose(found.arrays["distance"], distances["trained"], rtol=1e-6)
    assert found.tolerances == {name: 1e-3 if name == "maps" else 1e-6 for name in found.arrays}


def test_the_ladder_reads_three_texts_in_the_model_and_in_its_controls(monkeypatch):
    loaded = []

    def load(found, **named):
        loaded.append((found, named))
        return named.get("control_seed", "trained")

    monkeypatch.setattr(experiments.checkpoints, "find", lambda name: f"found {name}")
    monkeypatch.setattr(experiments, "inputs", lambda found: [torch.tensor([k]) for k in range(9)])
    monkeypatch.setattr(experiments.pretrained, "load", load)
    monkeypatch.setattr(experiments, "make_controls", lambda trained, draw: (trained, draw(4)))
    monkeypatch.setattr(experiments, "measure_controls", lambda controls, take: [take(each) for each in controls])
    monkeypatch.setattr(experiments, "nats", lambda network, texts: (network, [int(ids) for ids in texts]))
    found = experiments.measure_ladder("cpu")
    assert found.arrays == {"trained": ("trained", [0, 1, 2]), "controls": [("trained", [0, 1, 2]), (4, [0, 1, 2])]}
    assert found.tolerances == {"trained": 1e-4, "controls": 1e-4}
    named = {"dtype": torch.float64, "device": "cpu"}
    assert loaded == [("found minilm", named), ("found minilm", {"control_seed": 4, **named})]


def test_both_models_are_changed_where_it_is_asked_for(monkeypatch):
    monkeypatch.setattr(experiments.checkpoints, "find", {"minilm": 1.0, "gpt2-mini": 2.0}.__getitem__)
    monkeypatch.setattr(experiments, "measure", lambda found, device: np.array([found, device]))
    found = experiments.intervene(8.0)
    assert {name: array.tolist() for name, array in found.arrays.items()} == {"minilm": [1, 8], "gpt2-mini": [2, 8]}
    assert {str(array.dtype) for array in found.arrays.values()} == {"float32"}
    assert found.tolerances == {"minilm": 1e-4, "gpt2-mini": 1e-4}


def test_windows_are_of_all_passages_without_their_last_token(monkeypatch):
    monkeypatch.setattr(experiments, "passages", lambda: ["one", "two"])
    monkeypatch.setattr(experiments.pretrained, "tokenizer", lambda found: f"tokenizer of {found}")
    monkeypatch.setattr(experiments.gpt2_mini, "encode", lambda *given: given)
    asked = []
    monkeypatch.setattr(
        experiments.gpt2_mini, "windows", lambda *given: asked.append(given) or torch.tensor([[1, 2, 3], [4, 5, 6]])
    )
    assert experiments.windows("mine").tolist() == [[1, 2], [4, 5]]
    assert asked == [(("tokenizer of mine", "one\n\ntwo"), 24)]


def test_tables_of_models_and_texts_have_means_with_intervals():
    heads = {"a": HeadShares(np.array([1.0, 4]), np.array([[1.0, 0, 2], [2, 1, 3]]), np.array([0.25, 0.75]))}
    assert tables.models(heads).loc["a"].to_dict() == {
        "divergence": 2.5,
        "content": 1.5,
        "common": 0.5,
        "semi-bias": 2.5,
        "control": 0.5,
    }
    rng = np.random.default_rng(0)
    enough = TextShares(rng.random((FEWEST, 3)), rng.random(FEWEST) * 9)
    few = TextShares(rng.random((FEWEST - 1, 3)), rng.random(FEWEST - 1))
    table = tables.texts({"a": enough, "b": few})
    assert list(table.index) == ["a"]
    assert list(table.columns) == ["content", "common", "semi-bias", "heads with less content"]

    def written(values, digits):
        from scipy.stats import t

        half = t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / len(values) ** 0.5
        mean = values.mean()
        return f"{mean:.{digits}f} ({mean - half:.{digits}f} to {mean + half:.{digits}f})"

    due = [*(written(column, 2) for column in enough.shares.T), written(enough.content_minority, 1)]
    assert table.loc["a"].tolist() == due
    of = SimpleNamespace(
        tokens=np.array([16, 32]), shares=rng.random((2, FEWEST, 3)), others=rng.random((2, FEWEST, 3))
    )
    by_length = tables.lengths(of)
    assert list(by_length.index) == [16, 32]
    for k, tokens in enumerate((16, 32)):
        row = [*(written(column, 2) for column in of.shares[k].T), written(of.others[k, :, 0], 2)]
        assert by_length.loc[tokens].tolist() == row


def test_gates_are_written_with_their_shares():
    table = tables.gates({"head": [{"open": 0.256, "closed": 0.5}, {}]})
    assert table.loc["head"].to_dict() == {"without a mask": "open 0.26, closed 0.50", "causal": ""}


def test_gates_with_less_than_a_tenth_are_not_told_and_the_largest_stands_first(monkeypatch):
    names = list(parts.gates.GATES)
    scores = torch.tensor([0.1, 0.3, 0.101, 0.5, *[0.0] * (len(names) - 4)], dtype=torch.float64)
    monkeypatch.setattr(parts.gates, "read_gates", lambda attention, causal: SimpleNamespace(scores=scores))
    found = parts.gate_shares(torch.zeros(1, 1), causal=True)
    assert list(found.items()) == [(names[3], 0.5), (names[1], 0.3), (names[2], 0.101)]


def test_a_long_map_is_made_of_blocks():
    """Five positions to at most two: blocks of two, the last position left out."""
    attention = np.arange(25.0).reshape(5, 5)
    # queries 0 and 1, keys 0 and 1: (0 + 1 + 5 + 6) / 2, and so on
    assert parts.coarse_map(attention, most=2).tolist() == [[6, 10], [26, 30]]
    assert parts.coarse_map(attention / 3, most=5)[0].tolist() == [0, 0.3333, 0.6667, 1, 1.3333]
    assert parts.coarse_map(attention, most=48).shape == (5, 5)


def test_an_interval_is_told_if_there_are_texts_enough():
    assert shares.interval_text(np.ones(FEWEST - 1), ".1f", " %") == "too few texts to tell"
    assert shares.interval_text(np.full(FEWEST, 2.0), ".1f", " %") == "2.0 to 2.0 %"


def test_the_inputs_of_all_layers_are_read_of_one_text():
    states = [torch.full((1, 2, 3), float(k)) for k in range(4)]

    def model(ids, output_hidden_states):
        assert (ids.tolist(), output_hidden_states) == ([[5, 6]], True)
        return SimpleNamespace(hidden_states=states)

    found = shares.read(model, torch.tensor([5, 6]))
    assert [(state.shape, state[0, 0].item()) for state in found] == [((2, 3), k) for k in range(3)]


def test_heads_are_far_from_uniform_above_half_a_nat_and_against_it_below_a_tenth(monkeypatch):
    semi = np.array([0.2, -0.105, 0.3, -0.095, 0.1])
    heads = HeadShares(np.array([0.52, 0.48, 2, 0.5, 0.6]), np.stack([semi * 0, semi * 0, semi], 1), np.zeros(5))
    found = measure.measure_positions(heads)
    assert (found.far_heads, found.early, found.against) == ("0, 2, 4", "15 %", "1")
    both = HeadShares(heads.divergence, heads.parts - [0, 0, 0.2], np.zeros(5))
    assert measure.measure_positions(both).against == "1 and 3"


def test_layers_with_more_than_half_of_content_are_counted(monkeypatch):
    """At 64 tokens content has 0.52, 0.48 and 0.5 of three layers, the same in both texts."""
    content = np.array([0.52, 0.48, 0.5])
    of = np.stack([content, 0.6 * (1 - content), 0.4 * (1 - content)], -1)
    others = np.zeros((6, 2, 3, 3))
    others[:] = [1, 0, 0]
    others[shares.LENGTHS.index(64)] = of
    table = record(**{"lengths": np.array(shares.LENGTHS), "parts": others, "parts of the others": others})
    monkeypatch.setattr(shares, "live_or_record", lambda name, _, recompute: (table, name))
    found = shares.measure_lengths(None)
    assert (found.others_above_half, found.others_lowest, found.others_least) == (1, 1, "48 %")
    assert (found.fewest, found.most, found.passages, found.usual_others) == (16, 400, 2, "50 %")


def test_the_control_of_gpt2_draws_its_positions(monkeypatch):
    """Of a drawn table of 6 positions and 4 coordinates; the layer is drawn as well, and its norm has no gain."""
    model = SimpleNamespace(config=SimpleNamespace(max_position_embeddings=6), width=4)
    monkeypatch.setattr(experiments, "load", lambda found, dtype: {"found": model}[found])
    monkeypatch.setattr(experiments, "random_attention_layer", lambda given, layer, dtype: Drawn(layer))
    monkeypatch.setattr(
        experiments, "fold_norm", lambda layer, norm: (layer.layer, norm.gain.tolist(), norm.bias.tolist())
    )
    monkeypatch.setattr(experiments, "POSITIONS", 5)
    folded, x = experiments.read_gpt2("found", control=True)
    assert folded == (0, [1] * 4, [0] * 4)
    p = 0.02 * torch.randn(6, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    widths = [((row - row.mean()).square().mean().item() + Norm(p[0], p[0]).eps) ** 0.5 for row in p]
    middle = sorted(widths)[2]
    for row, own, width in zip(x.tolist(), p.tolist(), widths, strict=False):
        assert row == pytest.approx([cell / (width**2 + middle**2) ** 0.5 for cell in own])
    assert len(x) == 5


class Drawn(SimpleNamespace):
    """A layer that says which it is."""

    def __init__(self, layer):
        super().__init__(layer=layer)

    def to(self, device):
        return self


def test_seeds_may_differ_by_half(monkeypatch):
    monkeypatch.setattr(experiments, "find_run", lambda seed, device: (seed, device))
    monkeypatch.setattr(experiments.checkpoints, "find", lambda name: name)
    monkeypatch.setattr(experiments, "measure_seed", lambda found, device: {"a": np.array([len(found), 1.5])})
    found = experiments.measure_seeds("cpu")
    assert found.arrays["a"].tolist() == [[len(str((seed, "cpu"))), 1.5] for seed in experiments.SEEDS]
    assert (found.arrays["a"].dtype, found.tolerances) == (np.float32, {"a": 0.5})
