"""The census: what it counts, that processes share it exactly, and what it refuses."""

import json

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertModel

from analysis.__main__ import main
from analysis.data import texts
from analysis.maps import gates
from analysis.maps.gates import synthetic
from analysis.models import checkpoints, pretrained
from analysis.models.reading import load
from analysis.statistics import exact_sums
from analysis.surveys import census, census_state, map_counts
from book.studies.bert_gates import ablation, query_bias
from book.studies.gate_detector import specimens
from tests.analysis.fake_device import GPU, OnGPU, pretended
from tests.analysis.processes import run_together

TEXTS = texts.passages(longest=45)[:3]


@pytest.fixture(scope="module")
def minilm():
    found = checkpoints.find("minilm")
    return pretrained.load(found), pretrained.tokenizer(found)


@pytest.fixture(scope="module")
def taken(minilm):
    return census.take_census(*minilm, TEXTS)


def test_scores_are_those_of_the_eager_maps(minilm, taken):
    model, tokenizer = minilm
    due = []
    for text in TEXTS:
        with torch.no_grad():
            maps = model(**tokenizer(text, return_tensors="pt"), output_attentions=True).attentions
        due.append(gates.read_gates(torch.cat(maps)).scores)
    assert torch.allclose(taken.scores.mean(), torch.stack(due).double().mean(0), atol=5e-3)
    assert taken.state["names"].sum() == 3 * 72
    assert taken.number("maps").tolist() == [72, 72, 72]


def test_numbers_hang_together(taken):
    for name, (part, whole) in census.RATIOS.items():
        if name not in (
            "points_a_map",
            "points_a_row",
            "rows_a_map",
            "bias_correlation",
            "bias_other",
            "end_of_diagonal",
        ):
            assert 0 <= taken.number(part).sum() <= taken.number(whole).sum() * (1 + 1e-6), name
    attention = sum(taken.number(f"attention_{kind}") for kind in census.KINDS)
    assert np.allclose(attention, taken.number("maps"), atol=1e-3)
    assert (taken.number("tokens_first") > 0).all()


def test_the_control_shows_closed_gates_only(minilm):
    control = pretrained.load(checkpoints.find("minilm"), control_seed=0)
    scores = census.take_census(control, minilm[1], TEXTS[:1]).scores.mean()
    assert scores[..., gates.GATES.index("closed")].min() > 0.8
    assert scores[..., :7].sum(-1).max() < 0.05


def test_scores_by_text_and_the_permutation_null(minilm, taken):
    by_text = taken.state["by_text"].double() / 2**32 / 72
    assert torch.allclose(by_text.sum(-1), torch.ones(3, dtype=torch.float64), atol=1e-4)
    assert torch.allclose(by_text.mean(0), taken.scores.mean().mean((0, 1)), atol=1e-6)
    null = taken.state["null"].double() / 2**32 / 72
    assert null[0].sum() == pytest.approx(1, abs=1e-4)
    assert null[1:].abs().sum() == 0  # every fourth text only
    assert null[0, :5].sum() < 0.01 < by_text[0, :5].sum()
    assert taken.state["null_names"].sum() == 72


def test_short_verticals_count_clusters_by_their_height():
    n = 24
    for high, short in ((20, 0.0), (8, 1.0)):
        maps = gates.cluster(n, range(2, 2 + high), range(6, 14))[None]
        reading = gates.read_gates(maps)
        kinds = torch.nn.functional.one_hot(torch.zeros(n, dtype=torch.long), len(census.KINDS)).double()
        numbers = map_counts.measure_columns(maps, reading, kinds)
        assert numbers["vertical_short"] / numbers["vertical_mass"] == pytest.approx(short)
        assert numbers["directional_mass"] == 0


def test_residual_is_told_apart():
    n = 40
    maps = np.exp(0.5 * np.random.default_rng(0).standard_normal((n, n)))
    maps = torch.as_tensor(maps / maps.sum(1, keepdims=True))[None]
    flat = map_counts.measure_residual(maps, gates.read_gates(maps))
    assert flat["residual_mass"] == pytest.approx(gates.read_gates(maps).score("residual").item())
    assert flat["loud_pairs"] / flat["loud_above"] == pytest.approx(float(flat["loud"] / flat["told"]), abs=0.06)
    patchy = maps.clone()
    patchy[0, ::8, 5:9] *= 4  # loud cells in rows that are not neighbours
    patchy[0, 20:24, 30] *= 4  # four below each other, too few for a column
    patchy = patchy / patchy.sum(-1, keepdim=True)
    told = map_counts.measure_residual(patchy, gates.read_gates(patchy))
    assert told["loud"] > flat["loud"]
    assert told["residual_quiet"] < told["residual_mass"]
    near = map_counts.measure_residual(maps, gates.read_gates(maps))["near_cells"]
    assert near == pytest.approx(sum(min(n, q + 9) - max(0, q - 8) for q in range(n)) / n**2)


def test_company_counts_the_other_side_or_the_diagonal():
    n = 32
    both = (gates.backward(n, 1) + gates.forward(n, 1)) / 2
    opened = (gates.backward(n, 2) + gates.open_gate(n)) / 2
    alone = gates.backward(n, 1)
    numbers = map_counts.count_patterns(gates.read_gates(torch.stack([both, opened, alone, gates.open_gate(n)])))
    assert [numbers[name].item() for name in ("either", "both", "either_open", "company")] == [3, 1, 1, 2]


def test_exchanging_biases(minilm):
    model, tokenizer = minilm
    own = [layer.b_Q for layer in load(model).layers]
    none = [0 * b for b in own]
    found = query_bias.exchange(model, tokenizer, TEXTS[:1], {"own": own, "none": none})
    assert found.shape == (1, 2, 6, 12, len(gates.GATES))
    inputs = tokenizer(TEXTS[0], return_tensors="pt")
    with torch.no_grad():
        maps = model(**inputs, output_attentions=True)
    assert np.allclose(found[0, 0], gates.read_gates(torch.cat(maps.attentions)).scores.numpy(), atol=5e-3)
    bare = pretrained.load(checkpoints.find("minilm"))
    bare.encoder.layer[0].attention.self.query.bias.data.zero_()  # the first layer's input does not change
    with torch.no_grad():
        first = bare(**inputs, output_attentions=True).attentions[0]
    assert np.allclose(found[0, 1, 0], gates.read_gates(first).scores[0].numpy(), atol=5e-3)
    columns = found[0, :, ..., 0].mean((1, 2))
    assert columns[0] > columns[1]


def test_token_kinds(minilm):
    tokenizer = minilm[1]
    ids = tokenizer("Well, (yes).")["input_ids"]
    assert census.token_kinds(tokenizer, ids).tolist() == [0, 3, 2, 2, 3, 2, 2, 1]


@pytest.mark.slow
def test_a_census_and_its_studies_run_where_the_models_lie(minilm):
    settings = BertConfig(
        num_hidden_layers=2,
        num_attention_heads=3,
        hidden_size=24,
        intermediate_size=48,
        max_position_embeddings=32,
        initializer_range=0.4,
    )

    def one(seed):
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            model = BertModel(settings).eval().requires_grad_(False)
            for layer in model.encoder.layer:
                layer.attention.self.query.bias.normal_()
        return model

    def studied(*pair):
        taken = census.take_census(pair[0], minilm[1], TEXTS[:2])
        results = [census.summarise(taken), query_bias.survey(*pair, minilm[1], TEXTS[:2])]
        return taken, *results, ablation.effects(pair[0], minilm[1], TEXTS[:2])[0]

    _, *due, effects = studied(one(0), one(1))
    with pretended():
        taken, *found, moved = studied(one(0).to(GPU), one(1).to(GPU))
    assert all(isinstance(total, OnGPU) for total in taken.state.values())
    for mine, right in zip(found, due, strict=True):
        assert {n: v.value for n, v in mine.values.items()} == pytest.approx(
            {n: v.value for n, v in right.values.items()}, rel=1e-3, abs=1e-4, nan_ok=True
        )
        for name, array in right.arrays.items():
            np.testing.assert_allclose(mine.arrays[name], array, atol=1e-3, err_msg=name)
    np.testing.assert_allclose(moved, effects, atol=1e-5)
    assert due[1].values["maps_mostly"].value > 0


def test_the_reader_is_held_to_known_truth_on_the_device(monkeypatch):
    for name, few in (("SIZES", {16: 1}), ("TUNING", ()), ("HELD_OUT", ("ragged",))):
        monkeypatch.setattr(specimens, name, few)
    due, read = specimens.compute(torch.device("cpu")), []
    real = specimens.gates.read_gates
    for module in (specimens.gates, synthetic):
        monkeypatch.setattr(module, "read_gates", lambda maps, **how: read.append(maps) or real(maps, **how))
    with pretended():
        found = specimens.compute(GPU)
    assert {type(maps) for maps in read} == {OnGPU}
    for name, array in due.arrays.items():
        np.testing.assert_allclose(found.arrays[name], array, atol=1e-6, err_msg=name)


def test_shares_add_up_to_the_whole(minilm, taken):
    parts = [census.take_census(*minilm, TEXTS, share=(rank, 2)) for rank in (0, 1)]
    parts[0].merge(parts[1])
    assert all(torch.equal(parts[0].state[name], taken.state[name]) for name in taken.state)


@pytest.mark.slow
def test_two_processes_write_the_record_of_one(tmp_path):
    file = tmp_path / "texts.txt"
    file.write_text("\n\n".join(text.replace("\n\n", "\n") for text in TEXTS[:2]))
    written = []
    for processes in (1, 2):
        folder = tmp_path / str(processes)
        run_together(
            main,
            processes,
            ["census", "--model", "minilm", "--texts", str(file), "--device", "cpu", "--folder", str(folder)],
        )
        body = json.loads((folder / "census-minilm.json").read_text())
        with np.load(folder / "census-minilm.npz") as arrays:
            written.append((body["values"], {name: arrays[name] for name in arrays.files}))
        assert not list(folder.glob(".census*"))
    assert written[0][0] == written[1][0]
    assert all(np.array_equal(written[0][1][name], written[1][1][name], equal_nan=True) for name in written[0][1])
    assert written[0][0]["count_maps"]["value"] == 144


def test_ratios():
    interval = census.ratio_interval(np.array([1.0, 0.0, 1.0]), np.array([2.0, 2.0, 2.0]))
    assert interval.value == pytest.approx(1 / 3)
    assert interval.low < 1 / 3 < interval.high
    assert np.isnan(census.ratio_interval(np.zeros(2), np.zeros(2)).value)


def test_refusals(minilm):
    with pytest.raises(ValueError, match="texts is empty"):
        census.take_census(*minilm, [])
    with pytest.raises(ValueError, match=r"text 1 has 3 tokens.*at least 8"):
        census.take_census(*minilm, ["some words here that are enough for a map", "a"])


def test_an_interrupted_census_goes_on_to_the_same_bits(minilm, taken, tmp_path):
    model, tokenizer = minilm
    state, read = tmp_path / "state.safetensors", []

    def stops(text, **kwargs):
        if len(read) == 2:
            raise KeyboardInterrupt
        read.append(text)
        return tokenizer(text, **kwargs)

    stops.convert_ids_to_tokens = tokenizer.convert_ids_to_tokens
    stops.sep_token_id, stops.eos_token_id = tokenizer.sep_token_id, tokenizer.eos_token_id
    with pytest.raises(KeyboardInterrupt):
        census.take_census(model, stops, TEXTS, state=state, identity="one")
    read.clear()
    resumed = census.take_census(model, stops, TEXTS, state=state, identity="one")
    assert read == TEXTS[2:]
    assert all(torch.equal(total, taken.state[name]) for name, total in resumed.state.items())
    with pytest.raises(ValueError, match="state of another census"):
        census.take_census(model, tokenizer, TEXTS, state=state, identity="another")
    state.write_bytes(state.read_bytes()[:-9])
    with pytest.raises(ValueError, match=r"no state of a census.*delete it"):
        census.take_census(model, tokenizer, TEXTS, state=state, identity="one")
    assert [path.name for path in tmp_path.iterdir()] == [state.name]


def test_the_identity_of_a_census_knows_what_is_counted():
    due = census_state.identity({"name": "a"}, ["x"], (0, 1), None)
    assert due == census_state.identity({"name": "a"}, ["x"], (0, 1), None)
    others = [
        ({"name": "b"}, ["x"], (0, 1), None),
        ({"name": "a"}, ["y"], (0, 1), None),
        ({"name": "a"}, ["x"], (0, 2), None),
        ({"name": "a"}, ["x"], (0, 1), 3),
    ]
    assert len({due, *(census_state.identity(*other) for other in others)}) == 5


def test_a_state_of_other_sizes_is_refused_and_not_spread_out(tmp_path):
    kept = exact_sums.Moments((1,))
    kept.add(torch.ones(1))
    census_state.save(tmp_path / "state", kept, "name", 1, 2.5)
    assert census_state.restore(tmp_path / "state", exact_sums.Moments((1,)), "name") == (1, 2.5)
    with pytest.raises(ValueError, match=r"sum must be \(3,\).*delete it"):
        census_state.restore(tmp_path / "state", exact_sums.Moments((3,)), "name")
