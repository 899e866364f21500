"""Streamed statistics: equal to those of stored maps, mergeable to the last bit, alone and across processes."""

import pytest
import torch
import torch.distributed as dist

from analysis.maps import streaming
from analysis.maps.streaming import MapStatistics
from analysis.statistics.exact_sums import Moments
from tests.analysis.fake_device import GPU, pretended
from tests.analysis.processes import run_together

LAYERS, HEADS, POSITIONS = 2, 3, 14


def draw(n, batch=2, seed=0, channel=4):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(batch, HEADS, n, channel, generator=generator, dtype=torch.float64) for _ in range(3)]


def reference(query, key, causal=False):
    """All maps at once, the plain way."""
    scores = query @ key.transpose(-1, -2) * 0.5
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:]).triu(1).bool(), -torch.inf)
    maps = scores.softmax(-1)
    entropy = -torch.xlogy(maps, maps).sum(-1)
    n = maps.shape[-1]
    diagonal = torch.stack([maps.diagonal(o, -2, -1).mean(-1) for o in range(-n + 1, n)], -1)
    return maps, entropy, diagonal


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("n", [1, 2, 9, 14, 300])  # the last one in more than one tile
def test_equals_stored_maps(n, causal):
    query, key, value = draw(n)
    positions = max(n, POSITIONS)
    statistics = MapStatistics(LAYERS, HEADS, positions)
    for layer in range(LAYERS):
        output = statistics.attend(layer, query * (1 + layer), key, value, scale=0.5, causal=causal)
    maps, entropy, diagonal = reference(query * 2, key, causal)
    assert torch.allclose(output, maps @ value)
    assert torch.allclose(statistics.entropy()[1], entropy.mean((0, -1)), atol=1e-8)
    assert torch.allclose(statistics.entropy_by_query()[1, :, :n], entropy.mean(0), atol=1e-8)
    assert torch.allclose(statistics.column_mass()[1, :, :n], maps.sum(-2).mean(0), atol=1e-8)
    assert torch.allclose(statistics.row_mass()[..., :n], torch.ones(LAYERS, HEADS, n, dtype=torch.float64), atol=1e-8)
    profile = statistics.diagonal_profile()[1, :, positions - n : positions + n - 1]
    assert torch.allclose(profile, diagonal.mean(0), atol=1e-8)
    assert statistics.sequences()[n] == 2


def test_padding_is_neither_seen_nor_counted():
    query, key, value = draw(10)
    padded, apart = MapStatistics(1, HEADS, POSITIONS), MapStatistics(1, HEADS, POSITIONS)
    output = padded.attend(0, query, key, value, scale=0.5, lengths=[10, 6])
    apart.attend(0, query[:1], key[:1], value[:1], scale=0.5)
    short = apart.attend(0, query[1:, :, :6], key[1:, :, :6], value[1:, :, :6], scale=0.5)
    assert torch.equal(output[1:, :, :6], short)
    assert (output[1, :, 6:] == 0).all()
    assert all(torch.equal(padded.state[name], apart.state[name]) for name in padded.state)


def test_sequences_of_many_lengths_average_over_cells_that_exist():
    statistics = MapStatistics(1, HEADS, POSITIONS)
    total, cells = torch.zeros(HEADS, dtype=torch.float64), 0
    for n in (5, 9, 14):
        query, key, value = draw(n, seed=n)
        statistics.attend(0, query, key, value, scale=0.5)
        maps, _, _ = reference(query, key)
        total += maps.diagonal(-2, -2, -1).sum((0, -1))
        cells += 2 * (n - 2)
    assert torch.allclose(statistics.diagonal_profile()[0, :, POSITIONS - 1 - 2], total / cells, atol=1e-8)
    assert statistics.column_mass()[0, 0, 13].isfinite()


def test_merging_is_exact_in_any_order():
    batches = [draw(n, batch=1, seed=n) for n in (3, 7, 14, 11)]
    whole, parts = MapStatistics(1, HEADS, POSITIONS), [MapStatistics(1, HEADS, POSITIONS) for _ in range(2)]
    for i, (query, key, value) in enumerate(batches):
        whole.attend(0, query, key, value, scale=0.5)
        parts[i % 2].attend(0, query, key, value, scale=0.5)
    merged = parts[1].merge(parts[0])
    assert all(torch.equal(whole.state[name], merged.state[name]) for name in whole.state)


def test_processes_refuse_sums_at_the_end_of_64_bits():
    moments = Moments((1,))
    moments.add(torch.tensor([2.0]))
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        assert moments.all_reduce().mean() == 2
        moments.state["sum"][0] = torch.iinfo(torch.int64).max
        with pytest.raises(OverflowError, match="beyond"):
            moments.all_reduce()
    finally:
        dist.destroy_process_group()


def test_visiting_maps():
    query, key, value = draw(9)
    seen = []
    attend = streaming.visit_maps(lambda layer, maps: seen.append((layer, maps)))
    output = attend(1, query, key, value, scale=0.5)
    maps, _, _ = reference(query, key)
    assert seen[0][0] == 1
    assert torch.allclose(seen[0][1], maps)
    assert torch.allclose(output, maps @ value)
    seen.clear()
    attend(0, query, key, value, scale=0.5, lengths=[9, 4])
    assert [tuple(maps.shape) for _, maps in seen] == [(1, HEADS, 9, 9), (1, HEADS, 4, 4)]


def test_refusals():
    query, key, value = draw(14)
    with pytest.raises(ValueError, match="at most 8"):
        MapStatistics(1, HEADS, 8).attend(0, query, key, value, scale=0.5)
    with pytest.raises((ValueError, TypeError), match="position"):
        MapStatistics(1, HEADS, 14).attend(0, query, key[:, :, :3], value, scale=0.5)
    for number in (0, 1.5, True):
        with pytest.raises((ValueError, TypeError)):
            MapStatistics(1, number, 1)
    with pytest.raises(ValueError, match="no samples yet"):
        Moments((2,)).mean()


def count_a_share(out):
    """Count every second of five maps, or all where there is one process, and save the sum of all processes."""
    dist.init_process_group("gloo")
    rank, processes = dist.get_rank(), dist.get_world_size()
    statistics = MapStatistics(1, 3, 14)
    for i in range(rank, 5, processes):
        generator = torch.Generator().manual_seed(i)
        q, k, v = (torch.randn(1, 3, 6 + i, 4, generator=generator) for _ in range(3))
        statistics.attend(0, q, k, v, scale=0.5)
    statistics.all_reduce()
    if rank == 0:
        torch.save(statistics.state, out)
    dist.destroy_process_group()


def test_two_processes_count_what_one_counts(tmp_path):
    states = []
    for processes in (1, 2):
        out = tmp_path / f"{processes}.pt"
        run_together(count_a_share, processes, out)
        states.append(torch.load(out))
    assert states[0]["lengths"].sum() == 5
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def assert_a_sum_depends_on_no_other_map(device):
    query, key, value = (part.to(device) for part in draw(14, batch=7, seed=4))
    lengths, whole, single = [14, 9, 14, 5, 9, 9, 14], *(MapStatistics(1, HEADS, POSITIONS, device) for _ in range(2))
    output = whole.attend(0, query, key, value, scale=0.5, lengths=lengths)
    for b in reversed(range(7)):
        one = single.attend(0, *(part[b : b + 1] for part in (query, key, value)), scale=0.5, lengths=[lengths[b]])
        assert torch.equal(one[0], output[b])
    assert all(torch.equal(whole.state[name], single.state[name]) for name in whole.state)


@pytest.mark.usefixtures("unchecked")
def test_a_sum_depends_on_no_other_map_of_its_batch():
    assert_a_sum_depends_on_no_other_map("cpu")
    with pretended():
        assert_a_sum_depends_on_no_other_map(GPU)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.usefixtures("unchecked")
def test_tiles_of_a_gpu_give_the_cpus_numbers(causal):
    query, key, value = draw(14, batch=3)
    here = MapStatistics(1, HEADS, POSITIONS)
    due = here.attend(0, query, key, value, scale=0.5, causal=causal, lengths=[14, 14, 9])
    with pretended():
        there, parts = MapStatistics(1, HEADS, POSITIONS, GPU), [part.to(GPU) for part in (query, key, value)]
        output = there.attend(0, *parts, scale=0.5, causal=causal, lengths=[14, 14, 9])
        assert torch.allclose(output.cpu(), due, atol=1e-12)
        for name, total in there.state.items():
            assert (total.cpu() - here.state[name]).abs().max() <= 8


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_gpu_a_sum_depends_on_no_other_map_of_its_batch():
    assert_a_sum_depends_on_no_other_map("cuda")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("causal", [False, True])
def test_half_precision_is_summed_in_single(dtype, causal):
    query, key, value = (part.to(dtype) for part in draw(14, seed=3))
    statistics = MapStatistics(1, HEADS, POSITIONS)
    output = statistics.attend(0, query, key, value, scale=0.5, causal=causal)
    maps, entropy, _ = reference(query.double(), key.double(), causal)
    assert output.dtype == dtype
    assert torch.allclose(output.double(), maps @ value.double(), atol=1e-2)
    assert (statistics.entropy()[0] - entropy.mean((0, -1))).abs().max() < 1e-6
    assert (statistics.column_mass()[0] - maps.sum(-2).mean(0)).abs().max() < 1e-5
    seen = []
    streaming.visit_maps(lambda _, m: seen.append(m))(0, query, key, value, scale=0.5, causal=causal)
    assert (seen[0] - maps).abs().max() < 1e-6


def test_the_future_weighs_exactly_nothing_however_large_the_scores():
    query, key, value = draw(9, seed=5)
    statistics = MapStatistics(1, HEADS, POSITIONS)
    output = statistics.attend(0, query * 1e3, key * 1e3, value, scale=0.5, causal=True)  # scores of a million
    maps, entropy, _ = reference(query * 1e3, key * 1e3, causal=True)
    assert torch.allclose(output, maps @ value)
    assert torch.allclose(statistics.entropy()[0], entropy.mean((0, -1)), atol=1e-8)
    assert (statistics.state["diagonal"][0, :, POSITIONS:] == 0).all()


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
@pytest.mark.parametrize("causal", [False, True])
def test_a_map_that_is_not_finite_is_refused_and_not_counted(bad, causal):
    query, key, value = draw(9)
    query[1, 2, 4, 0] = bad
    statistics = MapStatistics(1, HEADS, POSITIONS)
    with pytest.raises(ValueError, match="holds nan or inf"):
        statistics.attend(0, query, key, value, scale=0.5, causal=causal)  # the first of the two would be fine
    assert all((total == 0).all() for total in statistics.state.values())
    with pytest.raises(ValueError, match="layer 3 holds nan"):
        streaming.visit_maps(lambda *_: None)(3, query, key, value, scale=0.5, causal=causal)


def test_counting_goes_on_outside_of_inference_mode():
    query, key, value = draw(9)
    with torch.inference_mode():
        statistics = MapStatistics(1, HEADS, POSITIONS)
        first = statistics.attend(0, *(part.clone() for part in (query, key, value)), scale=0.5)
    assert torch.equal(statistics.attend(0, query, key, value, scale=0.5), first)
    assert statistics.sequences()[9] == 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lengths": [9, 2.5]}, "whole numbers"),
        ({"lengths": [9]}, "lengths must be 2"),
        ({"lengths": [9, 10]}, "from 1 to 9"),
        ({"heads": 1}, "exactly 3"),
        ({"layer": 1}, "below 1"),
        ({"scale": torch.inf}, "scale"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_what_does_not_fit_is_refused_before_anything_is_counted(change, message):
    query, key, value = (part[:, : change.get("heads", HEADS)] for part in draw(9))
    statistics = MapStatistics(1, HEADS, POSITIONS)
    more = {"scale": change.get("scale", 0.5), "lengths": change.get("lengths")}
    with pytest.raises(ValueError, match=message):
        statistics.attend(change.get("layer", 0), query, key, value, **more)
    assert all((total == 0).all() for total in statistics.state.values())


def test_layers_that_saw_different_sequences_have_no_common_mean():
    query, key, value = draw(9)
    statistics = MapStatistics(2, HEADS, POSITIONS)
    assert statistics.entropy().isnan().all()  # of nothing
    statistics.attend(0, query, key, value, scale=0.5)
    with pytest.raises(ValueError, match=r"they saw \[2, 0\]"):
        statistics.entropy()
    statistics.attend(1, query, key, value, scale=0.5)
    assert statistics.entropy().isfinite().all()


def test_sums_that_outgrow_their_bits_are_refused():
    moments, other = Moments((1,)), Moments((1,))
    moments.add(torch.tensor([40_000.0]))
    other.add(torch.tensor([40_000.0]))
    with pytest.raises(OverflowError, match="beyond 2147483648"):  # two squares of 1.6 billion
        moments.merge(other)
    with pytest.raises(OverflowError, match="beyond"):
        other.add(torch.tensor([40_000.0]))
    negative = Moments((1,))
    for _ in range(3):
        negative.add(torch.tensor([-20_000.0]))
    assert negative.mean() == -20_000


def test_a_refused_merge_adds_nothing():
    less, more = MapStatistics(1, HEADS, 8), Moments((2,))
    more.add(torch.ones(2))
    with pytest.raises(ValueError, match="cannot merge"):
        more.merge(less)
    with pytest.raises(ValueError, match="cannot merge"):
        more.merge(Moments((3,)))
    assert more.state["count"] == 1
