"""The census: what it counts, that processes share it exactly, and what it refuses."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch

from analysis import checkpoints, gates, models, texts
from analysis.experiments import census

TEXTS = texts.passages(longest=45)[:3]


@pytest.fixture(scope="module")
def minilm():
    found = checkpoints.find("minilm")
    return models.load(found), models.tokenizer(found)


@pytest.fixture(scope="module")
def taken(minilm):
    return census.take(*minilm, TEXTS)


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
        if name not in ("points_a_map", "points_a_row", "rows_a_map", "bias_correlation", "bias_other",
                        "end_of_diagonal"):
            assert 0 <= taken.number(part).sum() <= taken.number(whole).sum() * (1 + 1e-6), name
    attention = sum(taken.number(f"attention_{kind}") for kind in census.KINDS)
    assert np.allclose(attention, taken.number("maps"), atol=1e-3)
    assert (taken.number("tokens_first") > 0).all()


def test_the_control_shows_closed_gates_only(minilm):
    control = models.load(checkpoints.find("minilm"), control_seed=0)
    scores = census.take(control, minilm[1], TEXTS[:1]).scores.mean()
    assert scores[..., gates.GATES.index("closed")].min() > 0.8
    assert scores[..., :7].sum(-1).max() < 0.05


def test_token_kinds(minilm):
    tokenizer = minilm[1]
    ids = tokenizer("Well, (yes).")["input_ids"]
    assert census.token_kinds(tokenizer, ids).tolist() == [0, 3, 2, 2, 3, 2, 2, 1]


def test_shares_add_up_to_the_whole(minilm, taken):
    parts = [census.take(*minilm, TEXTS, share=(rank, 2)) for rank in (0, 1)]
    parts[0].merge(parts[1])
    assert all(torch.equal(parts[0].state[name], taken.state[name]) for name in taken.state)


def test_two_processes_write_the_record_of_one(tmp_path):
    file = tmp_path / "texts.txt"
    file.write_text("\n\n".join(text.replace("\n\n", "\n") for text in TEXTS[:2]))
    written = []
    for processes in (1, 2):
        folder = tmp_path / str(processes)
        subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}",
                        "-m", "analysis", "census", "--model", "minilm", "--texts", str(file), "--device", "cpu",
                        "--folder", str(folder)], check=True, capture_output=True, timeout=240)
        body = json.loads((folder / "census-minilm.json").read_text())
        with np.load(folder / "census-minilm.npz") as arrays:
            written.append((body["values"], {name: arrays[name] for name in arrays.files}))
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
        census.take(*minilm, [])
    with pytest.raises(ValueError, match="text 1 has 3 tokens"):
        census.take(*minilm, ["some words here", "a"])
