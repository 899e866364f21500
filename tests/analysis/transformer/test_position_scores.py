"""What positions add to scores, against the printed formulas, pair by pair."""

import math

import pytest
import torch
from transformers.models.deberta_v2 import modeling_deberta_v2

from analysis.core.positions import Alibi, Disentangled, RelativeBuckets, Tempered
from analysis.transformer.position_scores import (
    _log_bucket,
    alibi_slopes,
    bucket_scores,
    disentangled_scores,
    relative_bucket,
    temperatures,
)
from tests.analysis.tiny import draw


def test_temperatures_grow_at_every_step():
    found = temperatures(Tempered(3.0, 0.5), 7)  # the first two grow nothing, then three are in a step
    due = [1 + 0.5 * math.log(1 + steps) for steps in (0, 0, 1, 1, 1, 2, 2)]
    assert found.tolist() == pytest.approx(due)


def test_slopes_of_six_heads_are_those_of_four_and_two_in_between():
    found = alibi_slopes(Alibi(6, exponent=4.0))
    assert found.tolist() == pytest.approx([0.5, 0.25, 0.125, 0.0625, 2**-0.5, 2**-1.5])
    assert alibi_slopes(Alibi(4, exponent=4.0)).tolist() == [0.5, 0.25, 0.125, 0.0625]
    assert alibi_slopes(Alibi(2), torch.float32).dtype == torch.float32


def test_far_buckets_grow_geometrically():
    """In 16 .. 128 lie 16 buckets, so distance a is in bucket 16 + 16 log(a / 16) / log 8, rounded down."""
    away = [17, 32, 33, 64, 100, 127]
    due = [16, 21, 21, 26, 30, 31]
    assert [math.floor(16 + 16 * math.log(a / 16) / math.log(8)) for a in away] == due
    assert relative_bucket(-torch.tensor(away), 32, 128, two_sided=False).tolist() == due
    assert relative_bucket(torch.tensor(away), 32, 128, two_sided=False).tolist() == [0] * 6
    both = relative_bucket(torch.tensor([7, 20, -20, -40, 0, 200]), 32, 128, two_sided=True)
    assert both.tolist() == [16 + 7, 16 + 10, 10, 12, 0, 16 + 15]  # of 16 buckets a side: 8 + 8 log(a / 8) / log 16


def test_a_table_of_buckets_is_read_at_key_less_query():
    table = torch.tensor([[1.0, 10.0], [2.0, 20.0], [3.0, 30.0], [4.0, 40.0]])
    found = bucket_scores(RelativeBuckets(table, 9, two_sided=True), 2, 3)  # buckets: itself 0, before 1, after 2 + 1
    assert found.tolist() == [[[1, 4, 4], [2, 1, 4]], [[10, 40, 40], [20, 10, 40]]]
    before = bucket_scores(RelativeBuckets(table, 9, two_sided=False), 3, 2)  # buckets 0, 1, 2 of 0, 1, 2 places before
    assert before[1].tolist() == [[10, 10], [20, 10], [30, 20]]


def bucketed(distance, buckets, longest):
    """DeBERTa-v2's ``make_log_bucket_position`` for one distance."""
    middle = buckets // 2
    if not buckets or abs(distance) <= middle:
        return distance
    steps = math.ceil(math.log(abs(distance) / middle) / math.log((longest - 1) / middle) * (middle - 1))
    return math.copysign(middle + steps, distance)


def test_buckets_of_all_sizes_are_the_library_s():
    for buckets in range(4, 200, 2):
        for longest in {buckets - 1, buckets, buckets + 1, 2 * buckets, 128, 512, 513}:
            if longest - 1 > buckets // 2:
                distance = torch.arange(1 - longest, longest)
                due = modeling_deberta_v2.make_log_bucket_position(distance, buckets, longest)
                assert _log_bucket(distance[None], buckets, longest)[0].equal(due.long()), (buckets, longest)


@pytest.mark.parametrize("parts", ["both", "keys", "queries"])
@pytest.mark.parametrize("buckets", [None, 8])
def test_both_parts_of_disentangled_scores_pair_by_pair(buckets, parts):
    batch, heads, positions, channel, span = 2, 3, 14, 4, 6
    queries, keys = draw(batch, heads, positions, channel), draw(batch, heads, positions, channel, seed=2)
    of_keys, of_queries = draw(heads, 2 * span, channel, seed=3), draw(heads, 2 * span, channel, seed=4)
    tables = of_keys if parts != "queries" else None, of_queries if parts != "keys" else None
    found = disentangled_scores(queries, keys, Disentangled(*tables, span, buckets, 20))
    due = torch.zeros(batch, heads, positions, positions, dtype=torch.float64)
    for i in range(positions):
        for j in range(positions):
            row = int(min(max(bucketed(i - j, buckets or 0, 20) + span, 0), 2 * span - 1))
            there = int(min(max(span - bucketed(j - i, buckets or 0, 20), 0), 2 * span - 1))
            assert row == there
            if parts != "queries":
                due[..., i, j] += (queries[..., i, :] * of_keys[:, row]).sum(-1)
            if parts != "keys":
                due[..., i, j] += (keys[..., j, :] * of_queries[:, row]).sum(-1)
    torch.testing.assert_close(found, due)
