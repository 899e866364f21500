"""The cells of the story on the stream compute what the study of its evidence measured."""

from types import SimpleNamespace

import pytest
import torch

from analysis.transformer.head_layout import concatenate
from book.publish import dependencies, execution, records
from book.publish.experiments import FOLDER
from book.studies.bert_stream.minilm import explained, fit_ridge
from book.studies.bert_stream.survey import measure_read_back
from book.studies.shared.ladder import by_network


@pytest.fixture(scope="module")
def ran():
    """Run the story's cells one after the other, and keep what they leave."""
    space = {"__name__": "__main__"}
    for cell in dependencies.cell_sources(execution.pages()["bert-stream"].read_text(encoding="utf-8")):
        exec(compile(cell, "story", "exec"), space)
    return SimpleNamespace(**space)


@pytest.mark.slow
def test_what_heads_write_is_what_the_study_reads_back(ran):
    layer, x = ran.seen.attention[2], ran.seen.states[0][2]
    attention = ran.attend(x, layer).attention
    values = torch.einsum("pm,hmc->hpc", x, layer.W_V) + layer.b_V[:, None]
    torch.testing.assert_close(ran.head_outputs(x, layer), concatenate(attention @ values))


def read_by(states, n):
    return {
        "x": [s[n] for s in states],
        "second": [s[n + 1] for s in states],
        "x and second": [torch.cat([s[n], s[n + 1]], 1) for s in states],
    }


@pytest.mark.slow
def test_the_share_is_that_of_a_ridge_regression(ran):
    source, heads = read_by(ran.seen.states, 2)["x"], read_by(ran.seen.states, 2)["second"]
    (x, new), (y, due) = ran.split(source), ran.split(heads)
    assert len(x) + len(new) == sum(map(len, source))
    assert abs(ran.share_read(source, heads) - explained(fit_ridge(x, y, new, 0.1), due)) < 1e-3


@pytest.mark.slow
def test_shares_are_near_those_of_the_record(ran):
    """The study's texts are longer and its ridge is chosen, so the shares are alike and not the same."""
    measured = measure_read_back(by_network(records.load("bert-stream-minilm", FOLDER).arrays))
    for n, layer in enumerate(ran.seen.attention):
        ways = read_by(ran.seen.states, n)
        heads = [ran.head_outputs(x, layer) for x in ways["x"]]
        shares = {station: ran.share_read(rows, heads) for station, rows in ways.items()}
        bands = {station: measured.band("heads", station)[n, 0] for station in ways}
        for station in ways:
            assert abs(shares[station] - bands[station]) < 0.15
        for of in (shares, bands):
            assert of["x and second"] > max(of["x"], of["second"])
