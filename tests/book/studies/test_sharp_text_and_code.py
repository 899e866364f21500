"""The paper's text and its code: the whole measurement of the chapter, surveys of networks, readers of a clone."""

import subprocess
from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from book.studies.text_and_code import classifier, layers, minilm, outputs, repository, survey, tables
from tests.book.studies.known import double, record

measure = import_module("book.studies.text_and_code.measure")


# ---- the chapter


def test_each_part_of_the_chapter_is_handed_its_own_records_and_networks(monkeypatch):
    inputs = SimpleNamespace(model="mine", device="there")
    asked = []

    def live_or_record(name, given, **named):
        assert given is inputs
        if elsewhere := named.pop("elsewhere", None):
            named["elsewhere"] = elsewhere()
        asked.append((name, named))
        return name.rpartition("-")[2], f"sentence of {name}"

    run = SimpleNamespace(model="variants", data="data")
    for module, name, answer in (
        (measure, "choose_inputs", lambda model, own, device: asked.append((model, own, device)) or inputs),
        (measure, "live_or_record", live_or_record),
        (measure.minilm, "survey_model", lambda *given: ("surveyed", *given)),
        (measure.minilm, "encode", lambda found, text: {"coded": (found, text)}),
        (measure.checkpoints, "find", lambda name: SimpleNamespace(folder=f"folder of {name}")),
        (measure.pretrained, "load", lambda found, device: ("model", found.folder, device)),
        (measure.texts, "passages", lambda count: [f"first of {count}"]),
        (measure.survey, "run", lambda model, coded: (model, coded[0].folder, coded[1])),
        (measure.variant_measures, "open_run", lambda folder, device: asked.append((folder, device)) or run),
        (measure.released_code, "load_authors_outputs", lambda: "authors"),
    ):
        monkeypatch.setattr(module, name, answer)
    sections = ("heads", "cone", "entropies", "drawn", "first_rows", "sizes", "words", "frames", "logits", "closing")
    for name in sections:
        monkeypatch.setattr(measure, f"measure_{name}", lambda *given, name=name: (name, *given))
    found = measure.measure("mine", "cuda")
    assert asked == [
        ("mine", "minilm", "cuda"),
        ("text-and-code-minilm", {"recompute": False, "elsewhere": ("surveyed", "mine", "there")}),
        ("text-and-code-classifier", {"recompute": False}),
        ("text-and-code-repository", {}),
        ("folder of variant-bert-mini", "there"),
    ]
    assert (found.inputs, found.checkpoint.folder) == (inputs, "folder of mine")
    assert found.sources == tuple(
        f"sentence of text-and-code-{name}" for name in ("minilm", "classifier", "repository")
    )
    trained = ("model", "folder of mine", "there")
    drawn = (trained, "folder of mine", "first of 1")
    assert found.heads == ("heads", {"text model": trained, "classifier": "variants"}, drawn, "minilm", "classifier")
    both = ("minilm", "classifier")
    assert (found.cone, found.entropies, found.drawn) == (("cone", *both), ("entropies", *both), ("drawn", *both))
    assert found.rows == ("first_rows", *both)
    assert (found.sizes, found.words) == (("sizes", "repository"), ("words", "repository"))
    assert found.frames == ("frames", "repository", "authors", "data")
    assert found.logits == ("logits", "repository", "authors")
    assert found.closing == ("closing", "repository", "authors", *both)


# ---- surveys of networks


def test_a_text_is_measured_in_all_four_ways_and_counted_without_its_padding(monkeypatch):
    asked = []
    passage = SimpleNamespace(keep=torch.tensor([True, True, True, False]))
    monkeypatch.setattr(survey, "run", lambda *given: asked.append(given) or passage)
    for k, name in enumerate(("compare_attention", "measure_rows", "measure_maps", "measure_ranks")):
        monkeypatch.setattr(survey, name, lambda given, name=name, k=k: {name: k, "own": given is passage})
    found = minilm._measure("model", {"input_ids": "ids", "attention_mask": "mask"})
    assert asked == [("model", "ids", "mask")]
    assert int(found.pop("tokens")) == 3
    ways = ("compare_attention", "measure_rows", "measure_maps", "measure_ranks")
    assert found == {"own": True, **{name: k for k, name in enumerate(ways)}}


def test_texts_are_cut_at_the_tokens_of_a_gene_and_padded(monkeypatch):
    asked = []

    class Tokenizer:
        pad_token_id = 7

        def __call__(self, text, **named):
            asked.append((text, named))
            return {"input_ids": torch.ones(1, 427).long(), "attention_mask": torch.ones(1, 427).long()}

    monkeypatch.setattr(minilm.pretrained, "tokenizer", {"checkpoint": Tokenizer()}.__getitem__)
    found = minilm.encode("checkpoint", "text")
    assert asked == [("text", {"truncation": True, "max_length": 427, "return_tensors": "pt"})]
    assert found["input_ids"][0].tolist() == [1] * 427 + [7] * 85
    assert found["attention_mask"][0].tolist() == [1] * 427 + [0] * 85


def test_texts_are_measured_in_the_trained_model_and_the_longest_in_its_controls(monkeypatch):
    sizes = {"a": 3, "b": 9, "c": 5}
    monkeypatch.setattr(minilm.checkpoints, "find", lambda name: f"found {name}")
    monkeypatch.setattr(
        minilm.pretrained, "load", lambda found, control_seed=-1, device=None: (found, control_seed, device)
    )
    monkeypatch.setattr(minilm, "encode", lambda found, text: {"input_ids": torch.zeros(1, sizes[text])})
    seen = []

    def take(model, coded):
        seen.append(model[::2])
        return {"size": np.array([model[1], coded["input_ids"].shape[1]])}

    monkeypatch.setattr(minilm, "_measure", take)
    found = minilm.survey_texts("mine", ["a", "b", "c"], "there")
    assert set(seen) == {("found mine", "there")}
    assert {name: array.tolist() for name, array in found.items()} == {
        "trained/size": [[-1, 3], [-1, 9], [-1, 5]],
        "random/size": [[seed, 9] for seed in minilm.SEEDS],
    }


def test_every_network_is_surveyed_and_two_of_them_in_full(monkeypatch):
    controls = [SimpleNamespace(rung=rung, network=f"{rung} {k}") for k in (0, 1) for rung in ("random", "permuted")]
    run = SimpleNamespace(model="trained 0", control="draw", data="data")

    def make_controls(model, draw):
        assert (model, draw) == ("trained 0", "draw")
        return iter(controls)

    monkeypatch.setattr(classifier, "make_controls", make_controls)
    monkeypatch.setattr(classifier, "encode", lambda data, gene: {"coded": (data, gene)})
    monkeypatch.setattr(survey, "run", lambda model, coded: f"{model} {' '.join(coded)}")
    for name in ("measure_rows", "measure_coded_maps", "compare_attention", "measure_maps", "measure_ranks"):
        monkeypatch.setattr(survey, name, lambda passage, name=name: {name: np.array(passage)})
    found = {name: array.tolist() for name, array in classifier.survey_networks(run, "gene").items()}
    every, few = ("measure_rows", "measure_coded_maps"), ("compare_attention", "measure_maps", "measure_ranks")
    due = {f"trained/{name}": ["trained 0 data gene"] for name in (*every, *few)}
    due |= {f"random/{name}": [f"random {k} data gene" for k in (0, 1)] for name in (*every, *few)}
    due |= {f"permuted/{name}": [f"permuted {k} data gene" for k in (0, 1)] for name in every}
    assert found == due


def test_a_gene_is_padded_to_the_rows_of_the_code():
    asked = []

    def encode(genes, positions):
        asked.append((genes, positions))
        return {"input_ids": 1, "attention_mask": 2, "labels": 3}

    assert classifier.encode(SimpleNamespace(encode=encode), "gene") == {"input_ids": 1, "attention_mask": 2}
    assert asked == [(["gene"], 512)]


def test_tolerances_go_by_the_end_of_a_name():
    due = {
        "failing": 0.03,
        "padded_code_failing": 0.03,
        "padded_cone": 5.0,
        "softmax_cone": 5.0,
        "minimal_keys": 2.0,
        "singular_values": 2.0,
        "rank_maps": 3.0,
        "rank_outputs": 2.0,
        "rank_layers": 2.0,
        "mean_value_entropy": 0.05,
        "code_largest": 0.05,
        "code_grown": 0.01,
        "mean_empty": 1.0,
        "words": 0.0,
        "mean_row_entropy": 5e-3,
        "rank_maps_of": 5e-3,
    }
    assert {name: classifier.tolerance(f"random, as large/{name}") for name in due} == due
    assert classifier.tolerance("words") == 0
    assert classifier.tolerance("words/seen") == 5e-3  # what stands before the measure does not count


def test_a_row_that_keeps_its_length_has_not_grown(monkeypatch):
    """Two layers, three maps and two heads; of four tokens one keeps its length to the last digit."""
    asked = []

    def amplifications(rows, weights):
        asked.append((rows.tolist(), weights))
        return double(1.0, 1.5, 0.5, 1.000001).expand(3, 2, 2, 4)

    monkeypatch.setattr(survey.stretching, "amplifications", amplifications)
    monkeypatch.setattr(survey.code, "with_stored_blocks", lambda weights: f"blocks of {weights}")
    states = [double([k, k], [9, 9]) for k in range(3)]
    stations = [SimpleNamespace(x=states[0], second=states[1]), SimpleNamespace(x=states[1], second=states[2])]
    own = [SimpleNamespace(attention=f"layer {k}") for k in range(2)]
    found = survey.count_grown_rows(survey.Passage(own, stations, torch.tensor([True, False])))
    first, second = asked
    assert first == ([[[k, k]] for k in range(3)], ["layer 0", "layer 1"])
    assert second == ([[[k, k]] for k in (1, 2)], ["blocks of layer 0", "blocks of layer 1"])  # what the layers wrote
    assert {name: share.tolist() for name, share in found.items()} == {
        "grown": [[[0.5, 0.5]] * 2] * 3,
        "code_grown": [[[0.5, 0.5]] * 2] * 3,
    }


def test_rows_fail_above_the_critical_value_not_at_it(monkeypatch):
    """Of three rows of tokens and one of padding, the statistics are 0.1, 0.2, 0.3 and 0.4; 0.2 is critical."""
    statistics = double(0.1, 0.2, 0.3, 0.4)
    monkeypatch.setattr(survey.normality, "critical_value", lambda width: {5: 0.2}[width])
    monkeypatch.setattr(
        survey.normality, "lilliefors", lambda rows: statistics.expand(rows.shape[:-1]) + rows[..., 0] / 18
    )
    monkeypatch.setattr(survey, "_first_rows", lambda passage, layer: torch.full((4, 5), layer + 1.0).double())
    monkeypatch.setattr(survey.anisotropy, "cone_index", lambda states: states.sum((-2, -1)))
    monkeypatch.setattr(survey.code, "cone_index", lambda states: 2 * states.sum((-2, -1)))
    zeros = torch.zeros(4, 5).double()
    stations = [
        SimpleNamespace(x=zeros + 1, second=zeros + 2, first=zeros),
        SimpleNamespace(second=zeros + 4, first=zeros),
    ]
    passage = survey.Passage([None, None], stations, torch.tensor([True, True, True, False]))
    found = {name: array.tolist() for name, array in survey.measure_rows(passage).items()}
    third = pytest.approx([1 / 3] * 2)
    assert found == {
        **{"cone": [15, 30, 60], "padded_cone": [20, 40, 80]},
        **{"code_cone": [30, 60, 120], "padded_code_cone": [40, 80, 160]},
        **{"failing": third, "padded_failing": [0.5, 0.5]},
        **{"code_failing": [pytest.approx(2 / 3), 1], "padded_code_failing": [0.75, 1]},
    }


# ---- heads, layers and tables


def test_a_picture_shows_tokens_only_and_the_head_with_least_entropy(monkeypatch):
    """Of two heads the first is sharp in its first row alone, the second in its second and third."""
    sharp, even = [1.0, 0, 0], [1 / 3] * 3
    maps = double([sharp, even, even], [even, sharp, sharp])
    padded = torch.nn.functional.pad(maps, (0, 2, 0, 2), value=9.0)
    asked = []

    def attend(fault, passage, layer):
        asked.append((fault, passage, layer))
        return torch.arange(50.0).reshape(2, 5, 5)

    monkeypatch.setattr(survey, "attend_with_fault", attend)
    stations = [SimpleNamespace(attention=padded.flip(0)), SimpleNamespace(attention=padded)]
    passage = SimpleNamespace(keep=torch.tensor([True] * 3 + [False] * 2), stations=stations)
    found = layers.draw(passage)
    assert asked == [("all four", passage, 1)]
    assert (found.layer, found.head) == (1, 1)
    np.testing.assert_allclose(found.own, [even, sharp, sharp])
    assert found.coded.tolist() == [[25, 26, 27], [30, 31, 32], [35, 36, 37]]


def test_counts_stand_beside_what_is_printed():
    sizes = SimpleNamespace(training=11, validation=12, tested=13, updates=14)
    words = SimpleNamespace(padded_words=15, bare_words=16, tokens=17, padding_rows=18, parameters="19.5", fresh="2.5")
    table = tables.counts(sizes, words)
    assert table["code"].to_dict() == {
        "training sequences": 11,
        "validation sequences": 12,
        "test sequences": 13,
        "updates": 14,
        "words of a gene": 15,
        "tokens of a sequence": 17,
        "parameters": "19.5 M",
    }
    assert table["paper"].tolist() == ["39,522", "", "9,881", "", "", "512", "110 M"]
    assert table["how"].tolist()[4:] == [
        "16 without padding to a multiple of 12",
        "and 18 rows of padding",
        "of which 2.5 M start fresh",
    ]


def test_a_consensus_goes_by_column():
    genes = [SimpleNamespace(aligned=bases) for bases in ("ACGT", "AC-T", "TCGA", "AGGT")]
    assert outputs.consensus(genes) == "ACGT"


# ---- a clone of the authors' repository


def test_a_file_is_shown_as_of_a_commit(tmp_path):
    def git(*words):
        own = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
        return subprocess.run(
            ["git", "-C", tmp_path, *own, *words], check=True, capture_output=True, encoding="utf-8"
        ).stdout.strip()

    git("init")
    commits = []
    for text in ("old", "new é"):
        (tmp_path / "file").write_text(text, encoding="utf-8")
        git("add", "file")
        git("commit", "-m", text)
        commits.append(git("rev-parse", "HEAD"))
    assert [repository.show(tmp_path, commit, "file") for commit in commits] == ["old", "new é"]
    with pytest.raises(subprocess.CalledProcessError):
        repository.show(tmp_path, commits[0], "other")


GENE = "ACGTTGCAAGCTTACGGATCCATGCAAGTCTGACCTGAATCGGTCA"


def test_frames_are_counted_on_a_gene_that_was_shifted():
    """Words of frames 0, 3 and 4; one with N, one that lies nowhere, and one of them written small."""
    at = lambda start: GENE[start : start + 12]  # noqa: E731
    words = [at(0), at(9).lower(), at(3), at(12), at(4), "N" + at(9)[1:], "T" * 12]
    values, arrays = repository.count_frames(words, GENE)
    assert {name: value.value for name, value in values.items()} == {
        "words": 7,
        "words_with_n": 1,
        "placed": 5,
        "uncodonic": pytest.approx(1 / 5),
    }
    assert arrays["frame_shares"].tolist() == pytest.approx([2 / 5, 0, 0, 2 / 5, 1 / 5, 0, 0, 0, 0])
    # 46 bases: frames 0 to 7 have the words that start at most at 34
    due = [[len(range(frame, 35, 9)), 0] for frame in range(9)]
    due[0][1], due[3][1], due[4][1] = 2, 2, 1
    assert arrays["reference_frames"].tolist() == due


def test_the_threshold_of_a_rank_is_of_the_larger_side():
    """Three rows of two: the second value is a hair above or below 3 times the precision of the first."""
    eps = torch.finfo(torch.float32).eps
    for factor, due in ((3.1, 2), (2.9, 1)):
        matrix = double([1, 0], [0, factor * eps], [0, 0])
        assert int(survey.rank(matrix)) == int(survey.rank(matrix.mT)) == due


def test_numbers_of_the_records_are_single():
    found = survey._arrays(a=torch.tensor([1, 2]), b=double(0.5))
    assert {name: (array.dtype, array.tolist()) for name, array in found.items()} == {
        "a": (np.float32, [1, 2]),
        "b": (np.float32, [0.5]),
    }
    assert survey._median(torch.tensor([[1, 2, 9], [4, 6, 8]])).tolist() == [2, 6]


def test_a_records_ends_are_means_over_passages():
    table = record(**{"trained/tokens": np.array([427, 100])})
    assert layers._rows(table).tolist() == [512, 120]  # 119.9
    assert layers._ends(np.array([[1.0, 9, 2], [2, 9, 5]]), ".1f") == "1.5 to 3.5"
    assert layers._range({"all four": np.array([[0.1, 0.5, 0.2], [0.3, 0.5, 0.4]])}) == "0.20 to 0.50"


def test_a_run_of_one_base_is_no_copy():
    """A third T is no copy, but a T behind the G; an A written twice is a copy, and a G behind the A is put in."""
    gene = "A" + "CGTTACGAGCA" + "TC"  # one window alone
    more, copied, inserted = "CGTT" + "T" + "ACGAGCA", "cgtta" + "a" + "cgagca", "CGTTA" + "G" + "CGAGCA"
    found = {name: value.value for name, value in repository.count_copies([more, copied, inserted], gene).items()}
    assert (found["copied"], found["inserted"]) == (1, 2)
