"""Functions that measure one thing after another: what each is handed, and in which place its answer stands."""

from dataclasses import fields
from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from analysis.maps.gates import GATES
from analysis.models.controls import RUNGS
from book.publish.records import Value
from book.studies.bert_gates import ideal_gates
from book.studies.bert_normality import controls as normality
from book.studies.one_score_four_parts import experiments as one_score
from book.studies.shared import variant_fine_tuned
from book.studies.shared.nearest_classifier import CARRIES, measure_company
from book.studies.streaming_capture import findings as streaming
from tests.book.studies.known import Known, record

exact = import_module("book.studies.exact.measure")  # the package exports a function of that name
peers = import_module("book.studies.peers.measure")
rotary = import_module("book.studies.rotary_bias.measure")


# ---- ideal gates, normality, one score


def test_every_ideal_gate_is_held_to_its_own_formulas(monkeypatch):
    drawn = SimpleNamespace(values="values", scores="scores")
    monkeypatch.setattr(ideal_gates, "draw", lambda: drawn)
    monkeypatch.setattr(ideal_gates, "measure_printed_gates", lambda: "printed")
    parts = [field.name for field in fields(ideal_gates.IdealGates) if field.name not in ("positions", "printed")]
    for name in parts:
        monkeypatch.setattr(ideal_gates, f"measure_{name}", lambda given, name=name: (name, given))
    found = ideal_gates.measure_ideal_gates()
    assert (found.positions, found.printed) == (12, "printed")
    whole = {"closed": drawn, "mixture": drawn, "softmax": "scores"}
    for name in parts:
        assert getattr(found, name) == (name, whole.get(name, "values"))


def test_drawn_weights_of_three_gates_are_shares_in_every_row():
    drawn = ideal_gates.draw(seed=3)
    generator = torch.Generator().manual_seed(3)
    values, rows, parts, scores = (
        make(*shape, generator=generator, dtype=torch.float64)
        for make, shape in (
            (torch.randn, (12, 5)),
            (torch.rand, (12, 12)),
            (torch.rand, (3, 12, 1)),
            (torch.randn, (12, 12)),
        )
    )
    assert torch.equal(drawn.values, values)
    torch.testing.assert_close(drawn.attention, rows.exp() / rows.exp().sum(-1, keepdim=True))
    torch.testing.assert_close(drawn.weights, parts / (parts[0] + parts[1] + parts[2]))
    assert torch.equal(drawn.scores, scores)


def test_the_survey_of_minilm_keeps_whole_numbers_whole(monkeypatch):
    given = {
        "tokens": np.array([3, 4]),
        "control_first_failing": np.array([0.25]),
        "pad_cone": np.array([1.0]),
        "control_pad_largest": np.array([2.0], dtype=np.float32),
        "stable_rank": np.array([2.0]),
        "D_sum": np.array([0.5]),
        "bare_outliers": np.array([7]),
    }
    monkeypatch.setattr(normality, "survey", lambda name, passages, device: given if name == "minilm" else {})
    monkeypatch.setattr(normality.texts, "passages", lambda: [])
    found = normality.measure_minilm(torch.device("cpu"))
    assert {name: array.dtype.kind for name, array in found.arrays.items()} == {
        name: "i" if name in ("tokens", "bare_outliers") else "f" for name in given
    }
    assert found.arrays["D_sum"].dtype == np.float32
    assert found.tolerances == {
        "tokens": 0,
        "control_first_failing": 0.03,
        "pad_cone": 0.5,
        "control_pad_largest": 0.05,
        "stable_rank": 0.05,
        "D_sum": 5e-3,
        "bare_outliers": 0,
    }


def test_a_survey_is_of_the_model_and_of_its_control(monkeypatch):
    """Only the first texts are padded, and fewer still have heads taken away."""
    monkeypatch.setattr(normality.checkpoints, "find", lambda name: f"found {name}")
    monkeypatch.setattr(normality.pretrained, "tokenizer", lambda checkpoint: f"tokenizer of {checkpoint}")
    monkeypatch.setattr(
        normality.pretrained, "load", lambda checkpoint, control_seed, device: (checkpoint, control_seed, device)
    )
    for name, key in (("_measure_layers", "D"), ("measure_padded", "D"), ("ablate", "effect")):
        monkeypatch.setattr(
            normality, name, lambda model, tokenizer, texts, name=name, key=key: {key: (name, model, tokenizer, texts)}
        )
    passages = [str(k) for k in range(20)]
    found = normality.survey("one", passages, "there")
    assert list(found) == ["D", "pad_D", "effect", "control_D", "control_pad_D", "control_effect"]
    for prefix, seed in (("", None), ("control_", 0)):
        model = ("found one", seed, "there")
        assert found[f"{prefix}D"] == ("_measure_layers", model, "tokenizer of found one", passages)
        assert found[f"{prefix}pad_D"][3] == passages[:12]
        assert found[f"{prefix}effect"][1::2] == (model, passages[:8])


def test_one_seed_is_surveyed_and_changed(monkeypatch):
    surveyed = Known(divergence=1, parts=2, first=3)
    monkeypatch.setattr(one_score.parts, "survey", lambda checkpoint, device: surveyed if device == "there" else None)
    monkeypatch.setattr(one_score, "measure", lambda checkpoint, device: (checkpoint, device))
    found = one_score.measure_seed("one", "there")
    assert found == {"divergence": 1, "parts": 2, "first": 3, "effects": ("one", "there")}


# ---- the classifier that was fine-tuned from text


def test_company_is_a_share_of_the_maps_with_a_cluster():
    """Two texts of one layer and four heads: one of two clusters has company, then one of three."""
    cluster, other = GATES.index("cluster"), GATES.index("open")
    gates = np.zeros((2, 1, 4, len(GATES)))
    gates[0, 0, :2, cluster], gates[1, 0, :3, cluster] = CARRIES, 0.5
    gates[0, 0, [0, 2], other], gates[1, 0, 2, other] = 0.5, CARRIES
    gates[..., len(GATES) - 1] = 0.9  # what is in no pattern is no company
    gates[0, 0, 3, cluster] = CARRIES - 0.001
    gates[0, 0, 3, other] = 0.9
    assert measure_company(gates).value == pytest.approx((1 / 2 + 1 / 3) / 2)


def test_a_fine_tuned_seed_is_measured_on_one_sequence_of_a_class(monkeypatch):
    genes = [SimpleNamespace(label=label) for label in ("A", *variant_fine_tuned.READ, "B")]
    run = SimpleNamespace(model="model", data="data")
    asked = []
    monkeypatch.setattr(
        variant_fine_tuned.variant_measures, "open_run", lambda folder, device: asked.append((folder, device)) or run
    )
    values, counts = {"right": Value(0.5)}, np.array([[2.0, 1], [0, 3]])
    monkeypatch.setattr(
        variant_fine_tuned.variant_seeds, "score_run", lambda run, seed: asked.append(seed) or (values, counts)
    )
    monkeypatch.setattr(
        variant_fine_tuned.variant_measures, "choose", lambda run, each, most: asked.append((each, most)) or genes
    )
    monkeypatch.setattr(variant_fine_tuned, "measure", lambda model, data, genes: {"measured": (model, data, genes)})
    monkeypatch.setattr(variant_fine_tuned, "level_heads", lambda model, data, genes: (model, data, genes))
    found, arrays = variant_fine_tuned.measure_seed("folder", 3, "there")
    assert asked == [("folder", "there"), 3, (1, 96)]
    assert found is values
    assert arrays["measured"] == ("model", "data", genes)
    assert arrays["effects"] == ("model", "data", genes[1:3])
    assert (arrays["confusion"].tolist(), arrays["confusion"].dtype) == ([[2, 1], [0, 3]], np.int32)


def data_of(*labels, test):
    genes = [SimpleNamespace(label=label, place=place) for place, label in enumerate(labels)]
    return SimpleNamespace(genes=genes, parts=SimpleNamespace(test=test))


def test_the_first_test_sequence_of_each_class_is_read():
    first, second = variant_fine_tuned.READ
    data = data_of(first, second, first, "other", second, test=[3, 4, 2, 1, 0])
    assert [gene.place for gene in variant_fine_tuned.of_classes(data)] == [2, 4]


def test_starts_have_the_trained_body_and_controls_have_not(monkeypatch):
    data = data_of(*variant_fine_tuned.READ, test=[0, 1])

    class Network:
        def __init__(self, *given):
            self.given = given

        def to(self, device):
            return (*self.given, device)

    monkeypatch.setattr(variant_fine_tuned, "make_model", lambda data, seed, start=True: Network(seed, start))
    monkeypatch.setattr(variant_fine_tuned, "measure", lambda model, data, genes: {"of": model, "genes": len(genes)})
    starts = list(variant_fine_tuned.measure_starts(data, "there"))
    assert starts == [{"of": (seed, True, "there"), "genes": 2} for seed in variant_fine_tuned.DRAWS]

    def make_controls(model, draw):
        assert model == "trained"
        return [SimpleNamespace(rung=rung, network=draw(seed)) for seed in (5, 6) for rung in RUNGS]

    monkeypatch.setattr(variant_fine_tuned, "make_controls", make_controls)
    monkeypatch.setattr(
        variant_fine_tuned,
        "measure",
        lambda model, data, genes: {"seed": np.array([model[0]]), "start": np.array(model[1])},
    )
    found = variant_fine_tuned.measure_ladder(SimpleNamespace(model="trained", data=data), "there")
    assert found["seed"].tolist() == [[[5], [6]]] * len(RUNGS)
    assert not found["start"].any()


def test_stacked_measurements_have_a_new_first_axis():
    found = variant_fine_tuned.stack({"a": np.array([k, 2 * k])} for k in (1, 2, 3))
    assert found["a"].tolist() == [[1, 2], [2, 4], [3, 6]]


def test_tolerances_know_a_control_by_its_name():
    tolerance = variant_fine_tuned.tolerance
    assert [tolerance(name) for name in ("start_counts", "ladder_sum_kept", "confusion")] == [3, 0.1, 2]
    assert (tolerance("ladder_effects"), tolerance("start_padded_cone"), tolerance("cosine")) == (0.05, 5, 5e-3)


# ---- families, peers, rotary positions


def test_a_family_is_compared_in_both_precisions(monkeypatch):
    errors = {True: (1e-14, 3e-14, 2e-14), False: (1e-6, 5e-6, 4e-6)}

    def agreement(model, read, inputs, in_double=False):
        assert (model, read.layers[0], inputs) == ("tiny one", "tiny one", {"pixels": "tiny one"})
        return SimpleNamespace(**dict(zip(("attention", "output", "norm"), errors[in_double], strict=True)))

    monkeypatch.setattr(exact, "tiny_model", lambda name: f"tiny {name}")
    monkeypatch.setattr(exact, "tiny_inputs", lambda model: {"pixels": model})
    monkeypatch.setattr(exact, "load", lambda model, stack: SimpleNamespace(layers=[model, stack]))
    monkeypatch.setattr(exact, "agreement", agreement)
    monkeypatch.setattr(exact, "try_biases", lambda layer: f"biases of {layer}")
    monkeypatch.setattr(exact, "pad", lambda model, read, inputs: (model, inputs["pixels"]))
    family = SimpleNamespace(name="Some", model_types=("one", "two"), stack="encoder", rounded="")
    found = exact.compare(family)
    assert (found.family, found.model_types, found.stack, found.rounded) == ("Some", ("one", "two"), "encoder", False)
    assert found.layers == ("tiny one", "encoder")
    assert found.biases == ("biases of tiny one", "biases of encoder")
    assert (found.as_it_is, found.in_double, found.padded) == (1e-6, 3e-14, ("tiny one", "tiny one"))
    errors[True] = (1e-14, 2e-14, 4e-14)
    assert exact.compare(family).in_double == 4e-14
    errors[True] = (5e-14, 2e-14, 4e-14)
    assert exact.compare(family).in_double == 5e-14


def test_families_are_counted_by_name_types_and_stacks(monkeypatch):
    def family(name, *types, files_only=False):
        return SimpleNamespace(name=name, model_types=types, files_only=files_only)

    rows = [family("A", "a", "b"), family("A", "a", "b"), family("B", "c"), family("C", "d", files_only=True)]
    monkeypatch.setattr(exact, "FAMILIES", rows)
    monkeypatch.setattr(exact, "REFUSED", dict.fromkeys("uvwxy", "why"))
    monkeypatch.setattr(exact, "compare", lambda row: row.name)
    found = exact.measure()
    assert (found.families, found.model_types, found.stacks, found.refused) == (2, 3, 3, 5)
    assert found.rows == ("A", "A", "B")
    assert found.reasons == dict.fromkeys("uvwxy", "why")


def test_the_peers_page_is_read_off_its_record(monkeypatch):
    ratios = {
        "spectra/transformer_lens": 30,
        "spectra/torch": 4,
        "semi_bias/keys_first": 2.5,
        "lilliefors/statsmodels": 12,
    }
    ratios |= {"maps/transformer_lens": 1.5, "maps/transformers": 1.25, "maps/none": 0.8}
    values = {f"{task}/ours/seconds": 2.0 for task in ("spectra", "semi_bias", "lilliefors", "maps")}
    values |= {f"{name}/seconds": 2.0 * ratio for name, ratio in ratios.items()}
    memory = {"maps/ours": 11, "maps/none": 12, "maps/transformers": 13, "maps/transformer_lens": 14}
    memory |= {"semi_bias/keys_first": 15, "semi_bias/ours": 16}
    values |= {f"{name}/megabytes": float(each) for name, each in memory.items()}
    values |= {"viewer/bertviz/hosts": 3, "viewer/ours/bytes": 12_000.0, "viewer/bertviz/bytes": 3_456_000.0}
    values |= {"maps/difference": 2e-7, "spectra/difference": 3e-6, "version/torch": "2.1", "version/x": "1"}
    table = record(**values)
    table.values = {name: Value(value) for name, value in values.items()}
    monkeypatch.setattr(peers, "live_or_record", lambda name, inputs, recompute: (table, f"from {name}"))
    found = peers.measure()
    assert (found.spectra_lens, found.spectra_dense, found.keys, found.loop) == ("30", "4.0", "2.5", "12")
    assert (found.maps_lens, found.maps_plain, found.streamed) == ("1.5", "1.2", "1.25")
    assert (found.maps_mb, found.none_mb, found.plain_mb, found.lens_mb) == ("11 MB", "12 MB", "13 MB", "14 MB")
    assert (found.keys_mb, found.semi_mb, found.hosts) == ("15 MB", "16 MB", "3")
    assert (found.viewer_kb, found.bertviz_kb, found.differ) == ("12 kB", "3,456 kB", "3e-06")
    assert found.provenance == ("from peers-packages", "torch 2.1; x 1")
    lens = next(row for row in found.rows if (row.task, row.way) == ("144 spectra", "TransformerLens"))
    assert (lens.seconds, lens.megabytes) == (60, None)


def test_rises_and_kernels_of_rotary_trainings_stand_by_variant():
    names = list(dict.fromkeys(name for name, _ in rotary.RUNS))
    rise = np.arange(len(rotary.RUNS))
    order = SimpleNamespace(rise="sequential", of_runs={"source": ("c",)})
    seed_kernels = SimpleNamespace(of_runs={"source": ("a", "b")})
    given = SimpleNamespace(seeds=SimpleNamespace(rise=rise), order=order, seed_kernels=seed_kernels)
    found = rotary.Measured.rises.fget(given)
    assert list(found) == [*names, rotary.SEQUENTIAL[0][0]]
    for name in names:
        assert found[name].tolist() == [k for k, (own, _) in enumerate(rotary.RUNS) if own == name]
    assert found[rotary.SEQUENTIAL[0][0]] == "sequential"
    assert rotary.Measured.every_kernel.fget(given) == {"source": ("a", "b", "c")}
    assert rotary.Measured.every_run.fget(given) == rotary.RUNS + rotary.SEQUENTIAL


# ---- what counts as the same


def test_statistics_agree_if_their_largest_difference_is_rounding():
    agrees = streaming.agrees
    assert [agrees(torch.tensor([0, each])) for each in (0.9e-6, -0.9e-6, 1.1e-6, -1.1e-6)] == [
        True,
        True,
        False,
        False,
    ]


def test_statistics_have_the_same_bits_if_every_total_has():
    def with_totals(one, other):
        return SimpleNamespace(state={"one": torch.tensor([1.0, one]), "other": torch.tensor([other, 2.0])})

    assert streaming.same_bits(with_totals(2, 3), with_totals(2, 3))
    assert not streaming.same_bits(with_totals(2, 3), with_totals(2, 3.5))
    assert not streaming.same_bits(with_totals(2, 3), with_totals(2.5, 3))
