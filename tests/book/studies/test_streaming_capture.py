"""The study of streaming capture: what it promises, and what it takes for the same numbers."""

import pytest
import torch

from analysis.maps.streaming import MapStatistics
from book.studies import streaming_capture as study
from book.studies.streaming_capture import cost, gpu_cost
from book.studies.streaming_capture.measure import LIMITS, Cost


@pytest.mark.parametrize(
    ("kind", "value", "within"),
    [("at most", 3.9, True), ("at most", 4.1, False), ("at least", 4.1, True), ("at least", 3.9, False)],
)
def test_a_promise_is_kept_on_one_side_of_its_limit(kind, value, within):
    assert Cost("", value, kind, 4).within_limit is within
    assert Cost("", 4, kind, 4).within_limit


def test_a_largest_difference_of_a_millionth_is_none():
    differences = torch.zeros(2, 3, 4, dtype=torch.float64)
    assert study.findings.agrees(differences)
    differences[1, 2, 3] = -2e-6
    assert not study.findings.agrees(differences)


def test_one_unit_more_in_one_sum_is_another_statistic():
    statistics, others = MapStatistics(1, 2, 4), MapStatistics(1, 2, 4)
    assert study.findings.same_bits(statistics, others)
    for total in others.state.values():
        total.view(-1)[-1] += 1
        assert not study.findings.same_bits(statistics, others)
        total.view(-1)[-1] -= 1


def test_the_text_names_what_the_record_holds():
    m = study.measure()
    assert list(m.costs) == list(LIMITS)
    assert m.share == f"{100 * (m.costs['time'].value - 1):.0f} %"
    assert m.faster == f"{m.costs['vectorised'].value:.0f}"
    assert m.much_faster == f"{m.costs['naive'].value:.0f}"
    assert m.memory == f"{m.costs['memory'].value:.0f} MB"
    assert not m.inputs.departs


def test_both_ways_are_measured_with_their_work(monkeypatch):
    monkeypatch.setattr(gpu_cost, "BATCH", 1)
    found = gpu_cost.measure(torch.float32, torch.device("cpu"), sequences=2, layers=1, repeats=1, product=64)
    assert found["plain_rate"] == pytest.approx(2 / found["plain_seconds"])
    work = 2 * gpu_cost.operations(1, 768, 3072, 512)
    assert found["streamed_share"] == pytest.approx(work / found["streamed_seconds"] / found["peak"])
    assert found["time"] == pytest.approx(found["streamed_seconds"] / found["plain_seconds"])


def test_the_work_is_that_of_the_matrix_products():
    from torch.utils.flop_counter import FlopCounterMode

    model, _ = cost.base(2)
    model.set_attn_implementation("eager")  # fused attention is not counted on a CPU
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(torch.ones(1, 64, dtype=torch.long))
    assert counter.get_total_flops() == gpu_cost.operations(2, 768, 3072, 64)


def test_statistics_are_near_to_those_of_double_precision():
    assert gpu_cost.distance(torch.device("cpu")) < 1e-6


def test_the_table_of_the_gpu_holds_the_record():
    table, m = study.tables.on_a_gpu(study.measure().gpu), study.measure()
    assert list(table.index) == ["plain, float32", "streamed, float32", "plain, bfloat16", "streamed, bfloat16"]
    seconds = table["seconds"]
    assert m.gpu.single == pytest.approx(seconds["streamed, float32"] / seconds["plain, float32"], rel=1e-4)
    assert m.gpu.half == pytest.approx(seconds["streamed, bfloat16"] / seconds["plain, bfloat16"], rel=1e-4)
