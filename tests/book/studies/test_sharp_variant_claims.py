"""The verdicts on the variant classifier and its data: each of their conditions alone can refuse them."""

from dataclasses import replace

import numpy as np
import pytest

from analysis.maps.gates import GATES
from analysis.statistics.intervals import Interval
from book.studies.shared.nearest_classifier import START
from book.studies.variant_classifier import claims as classifier
from book.studies.variant_data import claims as data
from tests.book.studies.counterfeits import forge
from tests.book.studies.measurements import measurement

DIRECTIONAL, CLUSTER = GATES.index("directional"), GATES.index("cluster")


def in_the_order_of_the_paper(heads: int):
    """Return a change after which so many heads of 72 have the order of the paper; the named head has not."""

    def change(largest):
        ordered = np.ones_like(largest)
        flat = ordered.reshape(3, -1)
        flat[:, -heads:] = [[2], [3], [1]]
        return ordered

    return change


def with_rank(rank: int):
    """Return a change after which so many heads, less one, carry more on columns than the named one."""

    def change(gates):
        changed = gates.copy()
        columns = np.full(gates.shape[:2], 0.1)
        columns.reshape(-1)[-(rank - 1) :] = 0.6
        columns[3, 8] = 0.5
        changed[..., DIRECTIONAL] = columns
        return changed

    return change


def rising(*order: int):
    """Return a change after which the largest values, narrow intervals, have this order with depth."""
    return lambda layers: np.array([[place, place - 0.1, place + 0.1] for place in order], float)


def last_over_first(least: float, most: float):
    """Return a change after which the trained rises begin at the one bound and those of controls end at the other."""

    def change(rises):
        low, high = (Interval(3.0, bound, 4.0) for bound in (least, 2.5)), (Interval(1.0, 0.5, most),) * 2
        return {
            "trained": rises["trained"]._replace(factor=tuple(low)),
            "control": rises["control"]._replace(factor=(Interval(1.0, 0.5, 1.1), *high)),
        }

    return change


def without_clusters(shares):
    emptied = shares.copy()
    emptied[..., CLUSTER] = 0
    return emptied


HEADS = np.array([[0.9, 1.5, 1.2], [1.0, 1.4, 1.1], [0.8, 1.2, 1.3]])
PARTS = "authors.computed", "authors.recorded"
KEPT = [
    # whole batches alone are updates
    ("B-08", {"authors.training": 36_363}),
    ("B-12", {"nearest.largest_weights": in_the_order_of_the_paper(35)}),
    ("B-42", {"nearest.gates": with_rank(8)}),
    ("B-113", {"gates.clustered_sequences": np.array([6, 3, 6])}),
    ("B-83", {"nearest.layers.largest": rising(2, 1, 3, 5, 4, 6)}),  # a rank correlation of 1 - 6 * 4 / 210
    ("B-83", {"depth.rises.largest": last_over_first(2.0, 1.9)}),
    ("B-83", {"depth.largest.trained": HEADS}),
    ("B-06", dict.fromkeys(PARTS, (36_361, 3_161, 9_881))),
    ("B-07", {"corpus.reference_bases": 3_819}),
    ("B-07", {"corpus.reference_bases": 3_827}),
]
REFUSED = [
    *[
        ("B-08", {f"{whose}.{name}": value})
        for whose in ("authors.recipe", "full_size")
        for name, value in (
            ("layers", 11),
            ("heads", 8),
            ("width", 512),
            ("feed_forward", 768),
            ("positions", 511),
            ("dropout", (0.0, 0.1)),
            ("batch", 8),
        )
    ],
    ("B-08", {"authors.recipe.warmup": 0}),
    ("B-08", {"authors.epochs": 3}),
    ("B-08", {"authors.training": 36_364}),
    ("B-08", {"recipe.dropout": 0.1}),
    ("B-10", {"head.class_token_first": False}),
    ("B-10", {"head.hidden_units": 191}),
    ("B-10", {"head.outputs": 7}),
    ("B-12", {"nearest.largest_weights": in_the_order_of_the_paper(36)}),
    ("B-42", {"nearest.gates": with_rank(7)}),
    ("B-113", {f"nearest.control_gates.{START}": without_clusters}),
    ("B-113", {"gates.clustered_sequences": np.array([6, 2, 6])}),
    ("B-83", {"nearest.layers.largest": rising(2, 1, 3, 5, 6, 4)}),  # of 1 - 6 * 8 / 210 = 0.77
    ("B-83", {"depth.rises.largest": last_over_first(1.9, 2.0)}),
    ("B-83", {"depth.largest.trained": np.where(HEADS == 1.2, 0.79, HEADS)}),
    ("B-06", {"authors.computed": (36_361, 3_161, 9_881)}),
    ("B-06", dict.fromkeys(PARTS, (36_360, 3_163, 9_881))),
    ("B-06", dict.fromkeys(PARTS, (39_522, 0, 9_881))),
    ("B-06", dict.fromkeys(PARTS, (36_360, 3_162, 9_880))),
    ("B-07", {"corpus.reference_bases": 3_818}),
    ("B-07", {"corpus.reference_bases": 3_828}),
    ("B-07", {"corpus.reference_words": 425}),
    ("B-07", {"authors.tokens": 426}),
    ("B-07", {"authors.padding_rows": 84}),
    ("B-07", {"corpus.words_rejoin": False}),
]


def judge(claim_id: str, changes: dict):
    study, module = (
        ("variant_data", data) if claim_id in ("B-06", "B-07", "B-09") else ("variant_classifier", classifier)
    )
    (function,) = (each for each in vars(module).values() if getattr(each, "claim_id", None) == claim_id)
    return function(forge(measurement(study), changes))


@pytest.mark.parametrize(("claim_id", "changes"), REFUSED)
def test_each_condition_alone_refuses(claim_id, changes):
    assert not judge(claim_id, changes).holds


@pytest.mark.parametrize(("claim_id", "changes"), KEPT)
def test_what_is_on_the_right_side_of_a_condition_is_kept(claim_id, changes):
    assert judge(claim_id, changes).holds


def test_the_named_heads_weights_are_told_in_three_seeds():
    """Only the fourth head of the first layer is read, in all seeds and all three maps."""
    over = np.full((3, 3, 12, 12), 1.1)
    over[0, 1, 0, 3], over[2, 2, 0, 3], over[1, 0, 5, 4], over[1, 0, 0, 2] = 0.5, 1.25, 1.5, 0.1
    more = judge("B-12", {"weights.over_random.trained": over}).more
    assert "they are 0.50 to 1.25 times" in more
    assert "at most 1.10, 1.50, 1.25 times" in more


def test_the_order_of_the_paper_is_counted_head_by_head():
    assert "19 of 72" not in judge("B-12", {"nearest.largest_weights": in_the_order_of_the_paper(7)}).more
    assert "7 of 72" in judge("B-12", {"nearest.largest_weights": in_the_order_of_the_paper(7)}).more


def test_a_rank_counts_the_heads_with_more():
    assert "rank 9 of 72" in judge("B-42", {"nearest.gates": with_rank(9)}).evidence


def test_the_accuracy_is_that_of_the_worst_parting():
    table = measurement("variant_data").partings.table
    changed = tuple(row._replace(bert=share) for row, share in zip(table, (0.999, 0.984, 0.995), strict=True))
    found = judge("B-09", {"partings.table": changed})
    assert found.holds
    assert "98 % where whole lineages" in found.more
    least = tuple(row._replace(words=share) for row, share in zip(table, (0.999, 0.97, 0.995), strict=True))
    assert not judge("B-09", {"partings.table": least}).holds


def test_the_least_of_all_accuracies_decides():
    real = measurement("variant_data").real.table
    first = (real[0]._replace(bert=0.5), *real[1:])  # of whole lineages only
    assert judge("B-09", {"real.table": first}).holds
    deletions = measurement("variant_data").evidence.exchanged["deletions"]
    spoilt = deletions.bert.copy()
    spoilt[:, 1:] = 0.0
    assert judge("B-09", {"evidence.exchanged.deletions": replace(deletions, bert=spoilt)}).holds


def refuses(claim_id: str, **changes) -> bool:
    """Say whether a verdict is refused after changes, functions of the measurement, of fields with __ for a dot."""
    study = "variant_data" if claim_id == "B-09" else "variant_classifier"
    given = {name.replace("__", "."): change(measurement(study)) for name, change in changes.items()}
    return not judge(claim_id, given).holds


def put(array, place, value):
    changed = np.array(array, dtype=float)
    changed[place] = value
    return changed


def test_what_lies_on_a_limit_is_not_beyond_it():
    def sums(layer, column):
        return lambda m: (
            m.nearest.layers | {"D_sum": put(m.nearest.layers["D_sum"], (layer, column), m.nearest.critical)}
        )

    def rises(m):
        both = m.depth.rises["largest"]
        bound = max(factor.high for factor in both["control"].factor)
        first = both["trained"].factor[0]._replace(low=bound)
        trained = both["trained"]._replace(factor=(first, *both["trained"].factor[1:]))
        return m.depth.rises | {"largest": both | {"trained": trained}}

    def largest(m):
        layers = m.nearest.layers["largest"]
        return m.nearest.layers | {"largest": put(layers, (-1, 1), layers[0, 2])}

    def as_long(m):
        heads = np.array(m.depth.largest["trained"])
        return m.depth.largest | {"trained": put(heads, (1, 0), heads[1, 2])}

    most = {"trained": np.full((3, 3, 12, 12), 1.0)}
    assert refuses("B-77", nearest__layers=sums(1, 1))
    assert refuses("B-77", nearest__layers=sums(4, 0))
    assert refuses("B-77", table__first_layers__failing=lambda m: np.full(3, m.table.first_layers.expected_failing))
    assert refuses("B-77", table__paper=lambda m: put(m.table.paper, 3, classifier.PAPER_THRESHOLD))
    assert refuses("B-12", weights__over_random=lambda m: most, weights__paper=lambda m: np.array([1.0, 2.0, 2.0]))
    assert refuses("B-83", nearest__layers=largest)
    assert refuses("B-83", depth__rises=rises)
    assert refuses("B-83", depth__largest=as_long)
    assert refuses(
        "B-113",
        phases__holding_unchanged=lambda m: np.array([0, 0.0625, 0]),
        phases__holding_changed=lambda m: np.array([0.25] * 3),
    )
    assert refuses("B-09", authors__right=lambda m: 97, authors__rows=lambda m: 100)
    assert not refuses("B-09", authors__right=lambda m: 98, authors__rows=lambda m: 100)
