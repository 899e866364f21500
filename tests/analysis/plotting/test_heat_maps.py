"""Heat maps of attention and of scores: what stands where, on which scale."""

import numpy as np
import pytest
import torch

from analysis.plotting import style
from analysis.plotting.heat_maps import draw_maps, draw_scores

RNG = np.random.default_rng(0)


def test_maps_beside_each_other_share_a_scale_and_name_their_tokens():
    maps = {"faint": torch.full((3, 3), 0.1), "strong": torch.eye(3)}
    figure = draw_maps(maps, ["a", "b", "c"])
    drawn = [axes.collections[0] for axes in figure.axes[:2]]
    assert [mesh.get_clim() for mesh in drawn] == [(0, 1), (0, 1)]
    shown = drawn[1].get_array().reshape(3, 3)
    np.testing.assert_array_equal(np.ma.getmaskarray(shown), ~np.eye(3, dtype=bool))
    assert (shown.compressed() == 1).all()
    assert [text.get_text() for text in figure.axes[0].get_yticklabels()] == ["a", "b", "c"]
    assert [text.get_text() for text in figure.axes[1].get_xticklabels()] == ["a", "b", "c"]


def test_a_map_of_other_tokens_is_refused():
    with pytest.raises(ValueError, match=r"the map 'head 1' must be of 2 x 2 tokens, got \(3, 3\)"):
        draw_maps({"head 0": np.eye(2), "head 1": np.eye(3)}, ["a", "b"])


def test_the_heads_of_a_layer_are_titled_by_their_numbers():
    heads = torch.stack([torch.eye(2), torch.full((2, 2), 0.5)])
    figure = draw_maps(heads, ["a", "b"])
    assert [axes.get_title(loc="left") for axes in figure.axes[:2]] == ["head 0", "head 1"]
    assert (figure.axes[1].collections[0].get_array() == 0.5).all()


def test_of_many_tokens_every_few_are_written():
    names = [f"t{place}" for place in range(256)]
    figure = draw_maps({"a": np.eye(256)}, names)
    for axis in (figure.axes[0].xaxis, figure.axes[0].yaxis):
        written = dict(zip(axis.get_ticklocs(), (each.get_text() for each in axis.get_ticklabels()), strict=True))
        assert 16 < len(written) <= 48
        assert all(text == names[int(place)] for place, text in written.items())


def test_a_cell_of_a_long_map_shows_the_largest_of_its_weights():
    weights, names = np.zeros((2000, 2000)), [str(place) for place in range(2000)]
    weights[1999, 3] = 0.9
    panel = draw_maps({"a": weights}, names).axes[0]
    shown = panel.collections[0].get_array()
    assert shown.shape == (500, 500)
    assert (shown[499, 0], shown.count()) == (0.9, 1)
    assert [label.get_text() for label in panel.get_xticklabels()] == [f"{250 * place:,}" for place in range(8)]


def test_one_query_is_a_row():
    panel = draw_maps(torch.eye(5)[None, 4:], "abcde", queries="e").axes[0]
    assert panel.collections[0].get_array().shape == (1, 5)
    assert [label.get_text() for label in panel.get_yticklabels()] == ["e"]
    with pytest.raises(ValueError, match=r"1 x 5 tokens, got \(2, 5\): queries="):
        draw_maps(torch.eye(5)[None, 3:], "abcde", queries="e")


@pytest.mark.parametrize("nothing", [{}, torch.zeros(0, 2, 2)])
def test_no_map_is_refused(nothing):
    with pytest.raises(ValueError, match="there is no map to draw"):
        draw_maps(nothing, ["a", "b"])


def test_heads_are_rows_around_0_and_the_strongest_tenth_is_drawn_in_full():
    scores = RNG.normal(size=(4, 100))
    mesh = draw_scores(scores, "four heads").axes[0].collections[0]
    np.testing.assert_allclose(mesh.get_array().reshape(4, 100), scores)
    limit = np.quantile(np.abs(scores), 0.9)
    assert mesh.get_clim() == pytest.approx((-limit, limit))
    assert mesh.get_cmap().name == style.SCORE_CMAP
    assert mesh.get_rasterized()
