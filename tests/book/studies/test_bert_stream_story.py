"""The cells of the story on the stream compute what the study of its evidence measured."""

from types import SimpleNamespace

import pytest
import torch

from analysis.transformer.head_layout import concatenate
from book.publish import dependencies, execution, records
from book.studies.bert_stream.readers import explained, fit_ridge
from book.studies.bert_stream.survey import measure_read_back
from book.studies.shared.networks import by_network


@pytest.fixture(scope="module")
def ran():
    """Run the story's cells one after the other, and keep what they leave."""
    space = {"__name__": "__main__"}
    for cell in dependencies.cell_sources(execution.pages()["bert-stream"].read_text(encoding="utf-8")):
        exec(compile(cell, "story", "exec"), space)
    return SimpleNamespace(**space)


def test_what_heads_write_is_what_the_study_reads_back(ran):
    layer, x = ran.seen.attention[2], ran.seen.states[0][2]
    attention = ran.attend(x, layer).attention
    values = torch.einsum("pm,hmc->hpc", x, layer.W_V) + layer.b_V[:, None]
    torch.testing.assert_close(ran.head_outputs(x, layer), concatenate(attention @ values))


def test_the_share_is_that_of_a_ridge_regression(ran):
    (x, new), (y, due) = ([ran.rows(lambda s, n=n: s[n], third) for third in (False, True)] for n in (2, 3))
    ours = ran.share_read(lambda s: s[2], lambda s: s[3])
    assert abs(ours - explained(fit_ridge(x, y, new, 0.1), due)) < 1e-3


def test_shares_are_near_those_of_the_record(ran):
    """The study's texts are longer and its ridge is chosen, so the shares are alike and not the same."""
    measured = measure_read_back(
        by_network(records.load("bert-stream-minilm", execution.ROOT / "book" / "records").arrays)
    )
    ways = {"x": lambda s, n: s[n], "second": lambda s, n: s[n + 1]}
    ways["x and second"] = lambda s, n: s[n : n + 2].transpose(0, 1).flatten(1)
    for n, layer in enumerate(ran.seen.attention):
        heads = lambda s, n=n, layer=layer: ran.head_outputs(s[n], layer)  # noqa: E731
        for station, way in ways.items():
            share = ran.share_read(lambda s, n=n, way=way: way(s, n), heads)
            assert abs(share - measured.band("heads", station)[n, 0]) < 0.15
