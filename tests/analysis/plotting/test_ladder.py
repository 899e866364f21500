"""The ladder as it is drawn: what stands on each level, in one look everywhere."""

import numpy as np
import pytest

from analysis.models import controls
from analysis.plotting import ladder, style

RNG = np.random.default_rng(0)
LADDER = ladder.Ladder(RNG.random(4), {level: RNG.random((5, 4)) for level in controls.LEVELS})


def test_every_level_has_a_look():
    assert set(style.LEVELS) == {*controls.LEVELS, controls.SHARP}


def test_lines_show_the_trained_network_and_the_mean_of_each_level():
    figure = ladder.lines({"a": LADDER, "b": LADDER}, ["", ""])
    drawn = {line.get_label(): line.get_ydata() for line in figure.axes[1].lines}
    np.testing.assert_allclose(drawn["trained"], LADDER.trained)
    for level, values in LADDER.controls.items():
        np.testing.assert_allclose(drawn[level], values.mean(0))
    assert len(figure.legends[0].get_texts()) == 4
    with pytest.raises(ValueError, match=r"shorter|longer"):
        ladder.lines({"a": LADDER}, ["", ""])


def test_points_show_the_spread_over_seeds():
    figure = ladder.points({"a": LADDER}, list("abcd"), xlabels=["share"])
    ends = [np.array(each.get_segments())[:, :, 0] for each in figure.axes[0].collections]
    for (level, values), drawn in zip(LADDER.controls.items(), ends[1:]):
        np.testing.assert_allclose(drawn, np.stack([values.min(0), values.max(0)], 1), err_msg=level)


def test_a_trained_interval_is_drawn_where_it_is_given():
    figure = ladder.lines({"a": LADDER._replace(trained=np.array([[1.0, 0.5, 2.0]] * 4))}, [""])
    band = figure.axes[0].collections[-1].get_paths()[0].get_extents()
    assert (band.y0, band.y1) == (0.5, 2.0)
