"""The measurements of whole chapters on BERT: every section is given the model, texts and arrays that it is of."""

from dataclasses import fields
from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from analysis.statistics.intervals import Interval
from book.studies.bert_normality.measure import _phrase_heads, _phrase_sums

# the packages export functions of the name of their module
rank = import_module("book.studies.bert_rank.measure")
similarity = import_module("book.studies.bert_similarity.measure")
normality = import_module("book.studies.bert_normality.measure")
stream = import_module("book.studies.bert_stream.measure")
INPUTS = SimpleNamespace(model="a model", texts="some texts", device="there")


def told(monkeypatch, module, **known):
    """Let every section say its own name and what it was given, unless what it returns is known."""
    monkeypatch.setattr(module, "choose_inputs", lambda model, own, texts, device: INPUTS if own == "minilm" else None)
    for name in vars(module).copy():
        if name in known:
            monkeypatch.setattr(module, name, known[name])
        elif name.startswith(("measure_", "_phrase", "phrase_", "write_", "find_", "try_", "describe", "read_nearest")):
            monkeypatch.setattr(module, name, lambda *given, name=name, **more: (name, *given, *more.items()))


def sections(measured):
    return {field.name: getattr(measured, field.name) for field in fields(measured)}


@pytest.mark.parametrize(("limit", "longest"), [(512, 32), (32, 32), (20, 20)])
def test_the_chapter_on_rank_runs_both_networks_on_six_short_texts(monkeypatch, limit, longest):
    ranks = SimpleNamespace(limit=limit)
    told(
        monkeypatch,
        rank,
        measure_ranks=lambda networks, tokenizer, texts: asked.append((networks, tokenizer, texts)) or ranks,
    )
    asked = []
    monkeypatch.setattr(rank.checkpoints, "find", lambda name: f"checkpoint of {name}")
    monkeypatch.setattr(rank.pretrained, "load", lambda *given, **more: (*given, *more.values()))
    monkeypatch.setattr(rank.pretrained, "tokenizer", lambda checkpoint: "words")
    config = SimpleNamespace(initializer_range=0.02)
    monkeypatch.setattr(rank, "load", lambda checkpoint: SimpleNamespace(config=config))
    monkeypatch.setattr(rank.texts_at_hand, "passages", lambda count=None, source=None: (count, source))
    monkeypatch.setattr(rank.extraction, "observe", lambda *given: given)
    found = sections(rank.measure("x", "y", "z"))
    networks = {which: ("checkpoint of a model", seed, torch.float64, "there") for which, seed in rank.SEEDS.items()}
    assert asked == [(networks, "words", (None, "some texts"))]
    observed = {which: (network, "words", (6, "some texts"), longest) for which, network in networks.items()}
    rungs = ("measure_rungs", INPUTS)
    stacks, trained = ("measure_stacks", "there"), ("measure_trained_stack", observed)
    assert found == {
        "inputs": INPUTS,
        "checkpoint": "checkpoint of a model",
        "norm": ("measure_norm", networks["trained"], observed["trained"]),
        "examples": ("find_examples",),
        "centred": ("try_centring",),
        "ranks": ranks,
        "one_layer": ("measure_one_layer", "there"),
        "stacks": stacks,
        "activations": ("measure_activations", "there"),
        "trained": trained,
        "prose": ("write_prose", ranks, stacks, trained, 0.02),
        "rungs": rungs,
        "ladder_numbers": ("write_ladder", rungs),
    }


def test_the_chapter_on_similarity_draws_one_head_and_looks_at_its_layer(monkeypatch):
    subjects, drawn = SimpleNamespace(trained="trained", checkpoint="checkpoint"), SimpleNamespace(layer=4, head=2)
    told(
        monkeypatch,
        similarity,
        observe_models=lambda inputs: subjects if inputs is INPUTS else None,
        choose_head={"trained": drawn}.__getitem__,
    )
    found = sections(similarity.measure("x", "y", "z"))
    given = {
        "architecture": (subjects, 4),
        "positions": (subjects,),
        "order": (subjects,),
        "stretching": (subjects, drawn),
        "cone": (subjects,),
        "terms": (subjects, 4),
        "form": (subjects, drawn),
        "asymmetry": (subjects,),
        "lengths": (subjects, 4),
        "rungs": (INPUTS,),
        "classifier": (INPUTS,),
    }
    for name, of in given.items():
        assert found.pop(name) == (f"measure_{name}", *of)
    told_of = [
        (name, (f"measure_{name}", *given[name])) for name in ("stretching", "cone", "terms", "form", "asymmetry")
    ]
    assert found == {
        "inputs": INPUTS,
        "checkpoint": "checkpoint",
        "drawn": drawn,
        "nearest": ("read_nearest", INPUTS),
        "prose": ("write_prose", *told_of),
        "ladder_phrases": ("phrase_rungs", ("measure_rungs", INPUTS)),
    }


def surveyed(name, most):
    """Return a survey that was made of a record's name, and at most so many texts of a reader."""

    def load_survey(record, survey, inputs, count):
        assert (record, inputs, count) == (name, INPUTS, most)
        return SimpleNamespace(arrays="arrays", survey=survey)

    return load_survey


def test_the_chapter_on_normality_holds_the_survey_to_its_own_critical_value(monkeypatch):
    told(
        monkeypatch,
        normality,
        load_survey=surveyed("bert-normality-minilm", 8),
        run_networks=lambda inputs: "text" if inputs is INPUTS else None,
        describe=lambda text: SimpleNamespace(width=384, of=text),
        measure_threshold=lambda width: SimpleNamespace(critical=0.05, width=width),
    )
    found = sections(normality.measure("x", "y", "z"))
    subject, threshold, survey = found.pop("subject"), found.pop("threshold"), found.pop("survey")
    assert (subject.of, threshold.width, survey.survey) == ("text", 384, normality.controls.survey)
    rows, sums = ("measure_rows", "text", "arrays", 384), ("measure_sums", "text", "arrays", 0.05)
    padding, cone = ("measure_padding", "arrays", 0.05), ("measure_cone", "text", "arrays")
    effects, rungs = ("measure_effects", "arrays"), ("measure_rungs", INPUTS)
    assert found == {
        "inputs": INPUTS,
        "invariance": ("measure_invariance", "text", 0.05),
        "rows": rows,
        "sums": sums,
        "padding": padding,
        "cone": cone,
        "spectra": ("measure_spectra", "text", "arrays"),
        "entropies": ("measure_entropies", "text", "arrays"),
        "effects": effects,
        "total": ("measure_total", "text", "arrays"),
        "released": ("measure_released", "text", INPUTS),
        "rungs": rungs,
        "silenced": ("measure_silenced", INPUTS),
        "classifier": ("measure_classifier", INPUTS),
        "nearest": ("read_nearest", INPUTS),
        "row_phrases": ("_phrase_rows", threshold, rows, 384),
        "sum_phrases": ("_phrase_sums", sums, padding, cone),
        "head_phrases": ("_phrase_heads", effects),
        "control_phrases": ("phrase_rungs", rungs),
    }


def test_the_chapter_on_the_stream_looks_at_the_trained_network_and_its_survey(monkeypatch):
    networks = {"trained": "trained network", "control": "control network"}
    told(
        monkeypatch,
        stream,
        load_survey=surveyed("bert-stream-minilm", 24),
        run_networks=lambda inputs: ("subject", networks) if inputs is INPUTS else None,
    )
    found = sections(stream.measure("x", "y", "z"))
    assert found.pop("survey").survey is stream.minilm.survey
    of_arrays = {name: (f"measure_{name}", "arrays") for name in ("coupling", "sums", "read_back", "patterns")}
    of_both = {
        name: (f"measure_{name}", "subject", networks) for name in ("normalisation", "perceptron", "composition")
    }
    of_trained = {name: (f"measure_{name}", "subject", "trained network") for name in ("heads", "biases", "real_rows")}
    rungs = ("measure_rungs", INPUTS)
    anisotropy = ("measure_anisotropy", rungs)
    assert found == of_arrays | of_both | of_trained | {
        "inputs": INPUTS,
        "subject": "subject",
        "algebra": ("measure_algebra",),
        "order": ("measure_order", "subject"),
        "expansion": ("measure_expansion", "subject"),
        "rungs": rungs,
        "anisotropy": anisotropy,
        "nearest": ("read_nearest", INPUTS),
        "mixing_phrases": ("_phrase_mixing", of_arrays["coupling"]),
        "sum_phrases": ("_phrase_sums", of_arrays["sums"]),
        "read_back_phrases": ("_phrase_read_back", of_arrays["read_back"]),
        "ladder_phrases": ("phrase_rungs", rungs, anisotropy),
    }


# ---- phrases where there is nothing, or more than two layers


def test_where_no_coordinate_is_silent_and_no_head_is_a_sink_there_is_none():
    by_layer = {
        kind: np.array([[0.1, 0.0, 9.0], [0.3, 0.0, 9.0], [0.2, 0.0, 9.0]]) for kind in ("trained", "plain", "control")
    }
    sums = SimpleNamespace(statistics=by_layer, silent=[], silent_share=0.0)
    padding = SimpleNamespace(
        texts=1,
        sums={"trained": {"with": by_layer["plain"]}},
        last_sum_fails={"trained": {"with": 1.0}},
        cone_ratio={"trained": 2.0, "control": 1.0},
    )
    cone = SimpleNamespace(climb={"trained": 0.0, "control": 0.0})
    found = _phrase_sums(sums, padding, cone)
    assert (found.silent, found.sum_low, found.sum_last, found.sum_control) == ("none", "0.10", "0.200", "0.300")
    whole = Interval(0.5, 0.25, 0.75)
    both = {"trained": whole, "control": whole}
    effects = SimpleNamespace(
        with_entropy=both,
        with_depth=both,
        within=[whole._replace(value=value) for value in (0.1, 0.2, 0.3)],
        effect={"trained": [1, 2, 3]},
        is_sink=np.zeros((3, 5), dtype=bool),
        sink_places={},
        chance=[0.25, 0.9, 0.125],
    )
    found = _phrase_heads(effects)
    assert (found.sink_places, found.sinks, found.heads, found.ablated) == ("none", 0, 5, 3)
    assert (found.linked_first[:4], found.linked_last[:4], found.chance_ends) == ("0.10", "0.30", "25.0 %")


def test_the_last_of_three_layers_is_told_and_a_head_as_symmetric_as_the_least_is_not_more():
    kinds = similarity.TRAINED, similarity.CONTENT, similarity.SYMMETRIC, similarity.POSITIVE, similarity.LESS_COMMON
    names = [*kinds, similarity.COMMON, *(kind + similarity.EQUAL for kind in kinds)]
    attention = {name: np.array([0.1, 0.2, 0.3]) + 0.01 * k for k, name in enumerate(names)}
    form = SimpleNamespace(
        antisymmetric={"trained": np.array([0.25, 0.5, 0.125, 0.75]), "control": np.array([0.5, 0.625])}, channel=8
    )
    one = SimpleNamespace(value=0.5)
    three = [0.1, 0.2, 0.3]
    found = similarity.write_prose(
        SimpleNamespace(
            largest={"trained": [None, None, np.array([1.0, 2.0])], "control": np.array([0.5])},
            alone={"trained": [one] * 3},
            over={"trained": three},
            joint={"trained": three},
            furthest=three,
            growth={"trained": [None, None, torch.zeros(2, 2)]},
            amplified_V=0,
        ),
        SimpleNamespace(best=three, half=three, middle={"trained": three, "isotropic": three}),
        SimpleNamespace(without_b_Q=[one]),
        form,
        SimpleNamespace(
            attention=attention,
            mean_attention={name: values.mean() for name, values in attention.items()},
            negative={"trained": 0.0, "control": 0.0},
        ),
    )
    assert found.symmetric == "50 %"  # two of four lie below 0.5, the least of the control
    assert (found.skew_last_content, found.heads_V) == ("0.31", "1 of 2")
    assert found.skew_last_symmetric == f"{0.3 + 0.01 * names.index(similarity.SYMMETRIC + similarity.EQUAL):.2f}"
    assert (found.share, found.share_control) == ("0.25", "0.50")  # of an even number, torch takes the lower middle
