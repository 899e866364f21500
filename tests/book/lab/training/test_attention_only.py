"""The trained model: batches that repeat, files that are whole, refusals."""

import pytest

from book.lab.induction_probe import make_probe, split_loss
from book.lab.training import attention_only
from tests.book.lab.test_induction_probe import SMALL


def test_batches_repeat_with_their_own_period_and_depend_on_the_seed_alone():
    tokens, repeated = attention_only.draw_batch(SMALL, 50, seed=3)
    periods = SMALL.length - repeated.sum(1)
    assert set(periods.tolist()) == {3, 4, 5, 6, 7}
    for row, known, period in zip(tokens, repeated, periods, strict=True):
        assert (row[period:] == row[:-period]).all()
        assert known[period - 1 :].all()
        assert not known[: period - 1].any()
    assert (attention_only.draw_batch(SMALL, 50, seed=3)[0] == tokens).all()
    assert (attention_only.draw_batch(SMALL, 50, seed=4)[0] != tokens).any()


def test_trains_writes_loads_and_probes(tmp_path, monkeypatch):
    model, run = attention_only.train(
        tmp_path, steps=60, config=SMALL, probe=make_probe(SMALL), name=None, device="cpu"
    )
    assert run.losses[-10:].mean() < run.losses[:10].mean()
    assert list(run.trace["step"]) == [0, 25, 50, 60]
    assert run.trace["prefix"].shape == (4, 2, 3)
    loaded, card = attention_only.load(tmp_path)
    tokens, repeated = attention_only.held_out(SMALL)
    assert split_loss(loaded, tokens, repeated) == split_loss(model, tokens, repeated)
    assert run.trace["repeated"][-1] == pytest.approx(split_loss(loaded, tokens, repeated)[1])
    assert attention_only.load()[1]["parameters"] == 331_776  # the bundled one
    monkeypatch.setenv("ANALYSIS_FOLDER_INDUCTION", str(tmp_path))
    assert attention_only.load()[1] == card
    assert card["parameters"] == sum(p.numel() for p in model.parameters())
    weights = tmp_path / attention_only.WEIGHTS
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    with pytest.raises(ValueError, match="sha256"):
        attention_only.load(tmp_path)
    weights.unlink()
    with pytest.raises(FileNotFoundError, match="train induction"):
        attention_only.load(tmp_path)


@pytest.mark.parametrize("sizes", [{"longest": 64}, {"shortest": 0}])
def test_blocks_that_do_not_fit_are_refused(sizes):
    with pytest.raises(ValueError, match="blocks must be"):
        attention_only.Config(**sizes)
