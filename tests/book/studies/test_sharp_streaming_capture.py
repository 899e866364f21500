"""The costs of streaming statistics with clocks, processes and models that stand in for the real ones."""

from contextlib import contextmanager
from functools import partial
from importlib import import_module
from types import SimpleNamespace

import pytest
import torch

from book.studies.streaming_capture import cost, findings, gpu_cost, tables
from tests.book.studies.known import double, record

study = import_module("book.studies.streaming_capture.measure")  # the package exports a function of that name
CPU = torch.device("cpu")


@pytest.fixture
def small(monkeypatch):
    """Two sequences of five tokens, three heads of width four."""
    for name, size in {"BATCH": 2, "HEADS": 3, "N": 5, "CHANNEL": 4}.items():
        monkeypatch.setattr(cost, name, size)


def clock(*readings):
    """Return a module of the name time whose clocks show these readings, one after another."""
    shown = iter(readings)
    return SimpleNamespace(process_time=lambda: next(shown), perf_counter=lambda: next(shown))


# ---- on a CPU


def test_a_call_takes_from_the_first_reading_of_the_clock_to_the_second(monkeypatch):
    monkeypatch.setattr(cost, "time", clock(3.0, 10.0))
    assert cost._clock(lambda a, b: a - b, 9, 4) == (7, 5)


def test_both_ways_take_turns_after_a_run_that_does_not_count(monkeypatch):
    ran = []

    def way(name, output):
        return lambda made, ids: ran.append((name, made, len(ids))) or double(*output)

    monkeypatch.setattr(cost, "base", lambda layers: (f"{layers} layers", torch.arange(4)))
    monkeypatch.setattr(cost, "plain", way("plain", [1, 7]))
    monkeypatch.setattr(cost, "streamed", way("streamed", [1.25, 6]))
    monkeypatch.setattr(cost, "time", clock(0.0, 1, 10, 12, 20, 23, 30, 34))
    seconds, gap = cost.whole_model(6, 2)
    assert seconds == {"plain": [1, 3], "streamed": [2, 4]}
    assert gap == 1
    assert [name for name, *_ in ran] == ["plain"] + ["plain", "streamed"] * 2
    assert [n for *_, n in ran] == [1, 4, 4, 4, 4]
    assert {made for _, made, _ in ran} == {"6 layers"}


@pytest.mark.usefixtures("small")
def test_streaming_costs_what_it_adds_to_attention(monkeypatch):
    """With statistics 5 and 9 seconds, without 3 and 2, whole-tensor formulas 7 and 6, one by one 4 for one of two."""
    took = [5, 3, 7, 9, 2, 6, 4]
    monkeypatch.setattr(cost, "time", clock(*(reading for seconds in took for reading in (100, 100 + seconds))))
    seconds, gap = cost.one_layer(2)
    assert seconds == {"vectorised": [7, 6], "extra": [3], "naive": [8]}
    assert 0 < gap < 1e-6  # in single precision


@pytest.mark.usefixtures("small")
def test_what_streaming_adds_is_never_below_nothing(monkeypatch):
    monkeypatch.setattr(cost, "time", clock(0, 1, 0, 2, 0, 1, 0, 1))
    assert cost.one_layer(1)[0]["extra"] == [1e-9]


@pytest.mark.usefixtures("small")
def test_the_layer_that_is_timed_has_the_scores_of_its_queries_and_keys(monkeypatch):
    """The maps are computed here once more, from the same random numbers."""
    taken = []
    vectorised = cost.vectorised
    monkeypatch.setattr(cost, "vectorised", lambda maps: taken.append(maps) or vectorised(maps))
    cost.one_layer(1)
    g = torch.Generator().manual_seed(0)
    query, key = torch.randn(2, 3, 5, 4, generator=g), torch.randn(2, 3, 5, 4, generator=g)
    weights = torch.einsum("bhic,bhjc->bhij", query, key).div(2).exp()
    torch.testing.assert_close(taken[0], weights / weights.sum(3, keepdim=True))
    assert len(taken[1]) == 1  # the sequence that is also taken one by one
    assert (len(taken[2]), taken[2].dtype) == (2, torch.float64)


def test_a_process_of_its_own_tells_its_memory_last(monkeypatch):
    asked = []

    def run(command, **settings):
        asked.append((command, settings))
        return SimpleNamespace(stdout="a warning of 7\n12.5\n")

    monkeypatch.setattr(cost.subprocess, "run", run)
    assert cost.peak("streamed", 3) == 12.5
    (_, flag, script), settings = asked[0]
    assert flag == "-c"
    assert "c.streamed(*c.base(3))" in script
    assert (settings["cwd"] / "book" / "studies").is_dir()
    assert settings["check"]


def test_the_most_memory_is_read_in_megabytes(monkeypatch):
    status = SimpleNamespace(read_text=lambda encoding: "VmPeak:\t 9 kB\nVmHWM:\t    3072 kB\nVmRSS:\t 5 kB\n")
    monkeypatch.setattr(cost, "Path", lambda path: status if path == "/proc/self/status" else None)
    assert cost.most_resident() == 3


def test_the_random_model_has_matrices_twice_as_wide_as_bert_draws_them(monkeypatch):
    import transformers

    monkeypatch.setattr(transformers, "BertConfig", partial(transformers.BertConfig, vocab_size=99))  # quick to draw
    made, ids = cost.base(1)
    deviations = {name: p.std().item() for name, p in made.named_parameters() if p.ndim == 2}
    assert len(deviations) > 8
    assert list(deviations.values()) == pytest.approx([0.04] * len(deviations), rel=0.1)
    assert made.embeddings.LayerNorm.weight.unique().tolist() == [1]
    assert made.config.num_hidden_layers == 1
    assert not made.training
    assert not any(p.requires_grad for p in made.parameters())
    assert tuple(ids.shape) == (8, 512)
    torch.manual_seed(0)
    drawn = transformers.BertModel(transformers.BertConfig(num_hidden_layers=1), add_pooling_layer=False)
    assert torch.equal(made.encoder.layer[0].output.dense.weight, 2 * drawn.encoder.layer[0].output.dense.weight)
    assert torch.equal(ids, torch.randint(1000, 20000, (8, 512)))


def test_a_model_gives_the_same_with_statistics_as_without(monkeypatch):
    import transformers

    config = transformers.BertConfig(
        vocab_size=50, hidden_size=12, num_hidden_layers=2, num_attention_heads=3, intermediate_size=8
    )
    made = transformers.BertModel(config, add_pooling_layer=False).eval().requires_grad_(False)
    made.set_attn_implementation("sdpa")
    monkeypatch.setattr(cost, "HEADS", 3)
    monkeypatch.setattr(cost, "N", 7)
    counted, statistics = [], cost.streaming.MapStatistics
    monkeypatch.setattr(
        cost.streaming, "MapStatistics", lambda *sizes: counted.append(statistics(*sizes)) or counted[-1]
    )
    ids = torch.randint(50, (2, 7), generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(cost.streamed(made, ids), cost.plain(made, ids))
    torch.testing.assert_close(counted[0].row_mass(), torch.ones(2, 3, 7), check_dtype=False)


# ---- on a GPU, with a stand-in for it


def test_a_gpu_is_waited_for_before_the_clock_is_read(monkeypatch):
    log = []
    monkeypatch.setattr(gpu_cost.torch.cuda, "synchronize", lambda device: log.append("wait"))
    readings = iter((2.0, 5.5))
    monkeypatch.setattr(gpu_cost, "time", SimpleNamespace(perf_counter=lambda: log.append("clock") or next(readings)))
    assert gpu_cost.seconds_of(torch.device("cuda"), lambda: log.append("call")) == 3.5
    assert log == ["wait", "clock", "call", "wait", "clock"]
    log.clear()
    readings = iter((0.0, 1.0))
    gpu_cost.seconds_of(CPU, lambda: log.append("call"))
    assert log == ["clock", "call", "clock"]


def test_the_peak_is_the_quickest_of_ten_products(monkeypatch):
    seconds, products = iter([4, 8, 8, 8, 8, 8, 8, 8, 8, 2.0]), []

    def seconds_of(device, call):
        products.append(call())
        return next(seconds)

    monkeypatch.setattr(gpu_cost, "seconds_of", seconds_of)
    torch.manual_seed(3)
    assert gpu_cost.peak_rate(torch.float64, CPU, size=6) == 2 * 216 / 2
    torch.manual_seed(3)
    a, b = (torch.randn(6, 6, dtype=torch.float64) for _ in range(2))
    assert len(products) == 10
    torch.testing.assert_close(products[0], torch.einsum("ij,jk->ik", a, b))


def test_a_model_reads_all_batches_with_or_without_statistics(monkeypatch):
    log = []

    @contextmanager
    def with_attention(model, attend):
        log.append(attend)
        yield

    monkeypatch.setattr(gpu_cost.attention_hooks, "with_attention", with_attention)
    gpu_cost.read(log.append, iter("ab"))
    gpu_cost.read(log.append, iter("c"), SimpleNamespace(attend="counting"))
    assert log == [None, "a", "b", "counting", "c"]


def test_operations_of_one_token_in_one_layer():
    # two for each entry of four square matrices and of two wide ones, and of the scores and the mixture
    assert gpu_cost.operations(1, 2, 3, 1) == 2 * (4 * 4 + 2 * 6 + 2 * 2)
    assert gpu_cost.operations(5, 2, 3, 7) == 5 * 2 * (7 * (4 * 4 + 2 * 6) + 7 * 7 * 2 * 2)


def test_of_the_first_turn_nothing_counts_and_of_the_others_the_quickest(monkeypatch):
    """Seven sequences in batches of three; the first turn is the quickest, the second the slowest."""
    read, made = [], SimpleNamespace(config=SimpleNamespace(hidden_size=2, intermediate_size=3))
    made.to = lambda device, dtype: f"model in {dtype}"
    model = SimpleNamespace(config=made.config, to=lambda device, dtype: read.append(dtype) or made)
    monkeypatch.setattr(cost, "base", lambda layers: (model, None))
    monkeypatch.setattr(cost, "N", 4)
    monkeypatch.setattr(gpu_cost, "BATCH", 3)
    batches = []
    monkeypatch.setattr(gpu_cost, "read", lambda model, given, counted=None: batches.append((given, counted)))
    seconds, memory = iter([0.5, 0.5, 8, 10, 4, 6]), iter([0, 0, 1e6, 3e6, 2e6, 9e6])

    def seconds_of(device, call):
        call()
        return next(seconds)

    monkeypatch.setattr(gpu_cost, "seconds_of", seconds_of)
    monkeypatch.setattr(gpu_cost, "peak_memory", lambda device: next(memory))
    monkeypatch.setattr(gpu_cost, "peak_rate", lambda dtype, device, size: 1000.0 * size)
    monkeypatch.setattr(gpu_cost.torch.cuda, "reset_peak_memory_stats", lambda device: pytest.fail("no GPU is here"))
    found = gpu_cost.measure(torch.bfloat16, CPU, sequences=7, layers=5, repeats=2, product=10)
    assert read == [torch.bfloat16]
    assert [[len(ids) for ids in given] for given, _ in batches] == [[3, 3, 1]] * 6
    tokens = torch.randint(1000, 20000, (7, 4), generator=torch.Generator().manual_seed(0))
    assert torch.equal(torch.cat(batches[0][0]), tokens)
    assert [counted is None for _, counted in batches] == [True, False] * 3
    assert batches[1][1].entropy_by_query().shape == (5, 12, 4)
    work = 7 * 5 * 2 * (4 * (4 * 4 + 2 * 6) + 4 * 4 * 2 * 2)
    assert found == {
        "plain_seconds": 4,
        "streamed_seconds": 6,
        "plain_rate": 7 / 4,
        "streamed_rate": 7 / 6,
        "plain_share": pytest.approx(work / 4 / 10_000),
        "streamed_share": pytest.approx(work / 6 / 10_000),
        "time": 1.5,
        "memory": 7,
        "peak": 10_000,
    }


@pytest.mark.usefixtures("small")
def test_the_distance_is_held_to_maps_in_double_precision(monkeypatch):
    given = []
    monkeypatch.setattr(cost, "distance", lambda counted, sums: given.append((counted, sums)) or 0.25)
    assert gpu_cost.distance(CPU) == 0.25
    (counted, (_, diagonal, column, row)), *_ = given
    g = torch.Generator().manual_seed(0)
    query, key = (torch.randn(2, 3, 5, 4, generator=g).double() for _ in range(2))
    weights = torch.einsum("bhic,bhjc->bhij", query, key).div(2).exp()
    weights /= weights.sum(3, keepdim=True)
    exactly = {"rtol": 1e-12, "atol": 1e-12}
    torch.testing.assert_close(column, weights.sum((0, 2)), **exactly)
    torch.testing.assert_close(row, torch.full((3, 5), 2.0).double(), **exactly)
    torch.testing.assert_close(diagonal[:, -1], weights[:, :, 0, 4].sum(0), **exactly)
    torch.testing.assert_close(counted.column_mass()[0].double(), column / 2, rtol=1e-5, atol=1e-6)


# ---- what the page reads


def test_the_page_reads_the_costs_of_both_machines(monkeypatch):
    of_cpu = record(
        time=1.07, memory=123.4, vectorised=5.4, naive=66.6, error=2e-7, output_error=0.5, plain_seconds=9.0, threads=2
    )
    columns = {
        f"{dtype}_{way}_{column}": f"{dtype} {way} {column}"
        for dtype in ("float32", "bfloat16")
        for way in ("plain", "streamed")
        for column in ("seconds", "rate", "share")
    }
    of_gpu = record(**columns, float32_time=1.2, bfloat16_time=1.3, error=3e-7, sequences=8, batch=4)
    of_gpu.provenance = {"device": "a GPU"}
    tables = {"streaming-capture-cost": of_cpu, "streaming-capture-gpu-cost": of_gpu}
    monkeypatch.setattr(
        study, "live_or_record", lambda name, inputs, recompute: (tables[name], (name, recompute, inputs.model))
    )
    m = study.measure(model="gpt2-mini")
    assert m.sources == tuple((name, False, "gpt2-mini") for name in tables)
    assert (m.share, m.memory, m.faster, m.much_faster, m.threads) == ("7 %", "123 MB", "5", "67", 2)
    promised = {name: (c.value, c.kind, c.limit) for name, c in m.costs.items()}
    assert promised == {
        "time": (1.07, "at most", 1.15),
        "memory": (123.4, "at most", 400),
        "vectorised": (5.4, "at least", 4),
        "naive": (66.6, "at least", 30),
        "error": (2e-7, "at most", 1e-6),
    }
    assert m.costs["memory"].subject == "memory on top, MB"
    gpu = m.gpu
    assert (gpu.machine, gpu.sequences, gpu.batch, gpu.error, gpu.single, gpu.half) == ("a GPU", 8, 4, 3e-7, 1.2, 1.3)
    assert list(gpu.ways) == ["plain, float32", "streamed, float32", "plain, bfloat16", "streamed, bfloat16"]
    assert gpu.ways["streamed, bfloat16"]["share"] == "bfloat16 streamed share"
    assert gpu.ways["plain, float32"] == {key: f"float32 plain {key}" for key in ("seconds", "rate", "share")}


def test_the_table_of_the_gpu_has_whole_sequences_and_shares_in_per_cent():
    ways = {"plain": {"seconds": 1.25, "rate": 819.6, "share": 0.434}}
    row = tables.on_a_gpu(SimpleNamespace(ways=ways)).loc["plain"]
    assert row.tolist() == [1.25, 820, "43 %"]
    assert row["sequences per second"] == 820


@pytest.mark.parametrize(("gap", "holds"), [(0.9e-6, True), (1.1e-6, False)])
def test_a_gpu_gives_the_same_up_to_a_millionth(gap, holds):
    m = SimpleNamespace(gpu=SimpleNamespace(error=gap))
    assert findings.a_gpu_gives_the_same_numbers(m) is holds


def test_all_costs_have_to_be_within_their_limits():
    kept, broken = study.Cost("", 3, "at most", 4), study.Cost("", 5, "at most", 4)
    assert findings.costs_are_within_limits(SimpleNamespace(costs={"a": kept, "b": kept}))
    assert not findings.costs_are_within_limits(SimpleNamespace(costs={"a": kept, "b": broken}))
