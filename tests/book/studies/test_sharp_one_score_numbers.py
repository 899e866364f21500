"""The whole score: numbers of its records, counted a second time on random arrays of more than two layers."""

from statistics import median

import numpy as np
import pytest

from analysis.models.controls import RUNGS
from book.studies.one_score_four_parts import causes, shares, tables
from book.studies.one_score_four_parts.shares import FirstLayer, HeadShares, OneText
from tests.book.studies.known import Known, record


def percent(value: float) -> str:
    return f"{100 * value:.0f} %"


def test_content_in_the_ladder_is_a_share_of_the_divergence(monkeypatch):
    rng = np.random.default_rng(0)
    trained, controls = rng.random((4, 4)), rng.random((3, 5, 4, 4))  # (rung, seed, layer, measure)
    monkeypatch.setattr(
        causes, "live_or_record", lambda *_, recompute: (record(trained=trained, controls=controls), recompute)
    )
    found = causes.measure_rungs(None)
    overall = [
        [sum(controls[k, seed, :, 1]) / sum(controls[k, seed, :, 0]) for seed in range(5)] for k in range(len(RUNGS))
    ]
    spans = [f"{100 * min(of):.0f} to {100 * max(of):.0f} %" for of in overall]
    assert [found.rung_random, found.rung_scaled, found.rung_permuted] == spans
    assert found.rung_trained == percent(sum(trained[:, 1]) / sum(trained[:, 0]))
    scaled = RUNGS.index("random, as large")
    last = [controls[scaled, seed, 3, 1] / controls[scaled, seed, 3, 0] for seed in range(5)]
    assert (found.rung_scaled_last, found.rung_trained_last) == (
        percent(sum(last) / 5),
        percent(trained[3, 1] / trained[3, 0]),
    )
    drawn, share = found.panels["divergence"], found.panels["content's share"]
    assert drawn.trained.tolist() == trained[:, 0].tolist()
    for k, rung in enumerate(RUNGS):
        np.testing.assert_array_equal(drawn.controls[rung], controls[k, ..., 0])
        for place in np.ndindex(5, 4):
            assert share.controls[rung][place] == pytest.approx(controls[k][place][1] / controls[k][place][0])


def test_shares_by_length_are_means_over_texts_of_all_layers(monkeypatch):
    rng = np.random.default_rng(1)
    of = {"parts": rng.random((6, 4, 5, 3)), "parts of the others": rng.random((6, 4, 5, 3))}  # layers are 5
    of["lengths"] = np.array([16, 32, 64, 128, 200, 400])
    monkeypatch.setattr(shares, "live_or_record", lambda *_, recompute: (record(**of), recompute))
    found = shares.measure_lengths(None)

    def share(name, length, text):
        by_part = [sum(of[name][length, text, :, part]) for part in range(3)]
        return [part / sum(by_part) for part in by_part]

    for name, table in (("parts", found.shares), ("parts of the others", found.others)):
        for place in np.ndindex(6, 4):
            assert table[place].tolist() == pytest.approx(share(name, *place))

    def content(name, length):
        return percent(sum(share(name, length, text)[0] for text in range(4)) / 4)

    assert (found.fewest, found.most, found.passages, found.tokens.tolist()) == (16, 400, 4, of["lengths"].tolist())
    assert (found.fewest_content, found.most_content) == (content("parts", 0), content("parts", 5))
    others = tuple(content("parts of the others", length) for length in (0, 2, 5))
    assert (found.fewest_others, found.usual_others, found.most_others) == others
    at_64 = of["parts of the others"][2]
    by_layer = [sum(at_64[text, layer, 0] / sum(at_64[text, layer]) for text in range(4)) / 4 for layer in range(5)]
    assert found.others_above_half == sum(value > 0.5 for value in by_layer)
    assert (found.others_lowest, found.others_least) == (by_layer.index(min(by_layer)), percent(min(by_layer)))


def test_causes_are_medians_and_counts_over_all_heads(monkeypatch):
    rng = np.random.default_rng(2)
    of = {"minilm": rng.normal(size=(4, 3, 5)), "gpt2-mini": rng.normal(size=(4, 3, 5))}
    monkeypatch.setattr(causes, "live_or_record", lambda *_, recompute: (record(**of), recompute))
    heads = {name: HeadShares(rng.random(15) + 1, rng.random((15, 3)), rng.random(15)) for name in of}
    found = causes.measure_causes(heads, None)
    size = {way: [abs(value) for value in of["minilm"][k].ravel()] for k, way in enumerate(causes.WAYS)}
    pairs = {way: list(zip(size[way], size["uniform"], strict=True)) for way in ("mean query", "constant map")}
    counts = {way: sum(own >= even / 2 for own, even in of_way) for way, of_way in pairs.items()}
    assert (found.constant_heads, found.papa_heads) == (counts["mean query"], counts["constant map"])
    medians = [median(size[way]) for way in ("mean query", "constant map", "uniform")]
    assert [found.query_median, found.papa_median, found.uniform_median] == pytest.approx(medians)

    def ranks(values):
        return [sum(other < value for other in values) for value in values]

    def rank_correlation(one, other):
        return np.corrcoef(ranks(one), ranks(other))[0, 1]

    content, semi = (heads["minilm"].parts[:, part].tolist() for part in (0, 2))
    depth = [layer for layer in range(3) for _ in range(5)]
    own = rank_correlation(size["mean query"], content)
    assert found.cause_content == round(own, 2)
    assert found.cause_semi == round(rank_correlation(size["no query bias"], semi), 2)
    share = [part / whole for part, whole in zip(content, heads["minilm"].divergence, strict=True)]
    assert found.cause_content_share == round(rank_correlation(size["mean query"], share), 2)
    mini = heads["gpt2-mini"].parts
    own_mini = [abs(value) for value in of["gpt2-mini"][0].ravel()]
    assert found.cause_mini_content == pytest.approx(rank_correlation(own_mini, mini[:, 0].tolist()))
    own_mini = [abs(value) for value in of["gpt2-mini"][1].ravel()]
    assert found.cause_mini_semi == pytest.approx(rank_correlation(own_mini, mini[:, 2].tolist()))
    layers = [sum(other < each for other in depth) + 2 for each in depth]  # the mean rank of five that tie
    with_depth = np.corrcoef(ranks(size["mean query"]), layers)[0, 1]
    assert found.effects["minilm"]["mean query"].with_depth == pytest.approx(with_depth)
    assert found.effects["minilm"]["mean query"].nats.value == pytest.approx(own)


def test_parts_of_a_survey_are_shared_by_layer_and_by_text():
    rng = np.random.default_rng(3)
    survey = Known(
        parts=rng.random((4, 3, 5)),
        by_text=rng.random((4, 6, 3, 5)),
        divergence=rng.random((4, 3)),
        from_zero=rng.random((4, 3, 4)),
        arrays={},
    )
    heads = shares.measure_heads(survey, Known(divergence=rng.random((4, 3)), arrays={}))
    for layer, head in np.ndindex(4, 3):
        assert heads.parts[3 * layer + head].tolist() == survey.parts[layer, head, :3].tolist()
        assert heads.divergence[3 * layer + head] == survey.divergence[layer, head]
    for part in range(3):
        assert heads.share(part) == pytest.approx(sum(survey.parts[..., part].ravel()) / sum(survey.divergence.ravel()))
    layers = shares.measure_layers(survey)
    for layer in range(4):
        nats = [sum(survey.parts[layer, :, part]) for part in range(3)]
        assert layers[layer].tolist() == pytest.approx([each / sum(nats) for each in nats])
    texts = shares.measure_texts(survey)
    for text in range(6):
        nats = [sum(survey.by_text[:, text, :, part].ravel()) for part in range(3)]
        assert texts.shares[text].tolist() == pytest.approx([each / sum(nats) for each in nats])
        rows = survey.by_text[:, text].reshape(12, 5)
        assert texts.content_minority[text] == sum(row[1] + row[2] > row[0] for row in rows)
    found = shares.minilm_numbers(survey, layers)
    content = layers[:, 0].tolist()
    assert found == {
        "content_0": percent(content[0]),
        "content_low": percent(min(content[1:])),
        "content_high": percent(max(content[1:])),
        "zero": percent(sum(survey.from_zero[..., 0].ravel()) / sum(survey.divergence.ravel())),
    }
    first = FirstLayer(rng.random(3) + 1, rng.random((3, 6)))
    numbers = shares.model_numbers(heads, texts, first)
    six = [sum(first.terms[:, k]) / sum(first.divergence) for k in range(6)]
    assert [numbers[name] for name in ("ee", "pp", "e", "p")] == [percent(six[k]) for k in (0, 3, 4, 5)]
    rows = heads.parts.tolist()
    assert numbers["semi_majority"] == sum(row[2] > row[0] + row[1] for row in rows)
    assert numbers["content_minority"] == sum(row[1] + row[2] > row[0] for row in rows)
    assert (numbers["heads"], numbers["divergence"]) == (12, f"{sum(heads.divergence) / 12:.2f}")
    assert numbers["control"] == f"{sum(heads.control) / 12:.3f}"
    assert [numbers[name] for name in ("content", "common", "semi")] == [percent(heads.share(k)) for k in range(3)]
    mixed = shares.mixed_terms({"one": first, "two": FirstLayer(first.divergence * 4, first.terms)})
    by_head = [(row[1] + row[2]) / whole for row, whole in zip(first.terms, first.divergence, strict=True)]
    assert (mixed.mixed, mixed.mixed_low, mixed.mixed_high) == (
        percent(six[1] + six[2]),
        percent(min(by_head) / 4),
        percent(max(by_head)),
    )


def test_other_splits_are_shares_of_all_layers_or_of_the_second():
    rng = np.random.default_rng(4)
    splits = {name: rng.random((4, 3)) for name in ("path", "drop one", "in order", "reverse order", "mean of orders")}
    found = shares.other_splits(OneText(0, 0, None, splits))
    whole, second = sum(splits["path"].ravel()), sum(splits["path"][1])
    assert vars(found) == {
        "drop_sum": percent(sum(splits["drop one"].ravel()) / whole),
        "path_one": percent(sum(splits["path"][:, 0]) / whole),
        "first": percent(sum(splits["in order"][:, 0]) / whole),
        "first_1": percent(splits["in order"][1, 0] / second),
        "last": percent(sum(splits["reverse order"][:, 0]) / whole),
        "last_1": percent(splits["reverse order"][1, 0] / second),
        "semi_first": percent(sum(splits["reverse order"][:, 2]) / whole),
        "semi_last": percent(sum(splits["in order"][:, 2]) / whole),
    }
    table = tables.content_by_layer(splits)
    for name in ("path", "in order", "reverse order", "mean of orders"):
        for layer in range(4):
            due = splits[name][layer, 0] / sum(splits["path"][layer])
            assert table.loc[name, f"layer {layer}"] == pytest.approx(due)
    nats = tables.splits(splits).loc["drop one"].tolist()
    parts = [sum(splits["drop one"][:, part]) / 4 for part in range(3)]
    assert nats == pytest.approx([*parts, sum(parts)])
