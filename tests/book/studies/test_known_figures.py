"""Numbers that figures compute themselves: heights of bars, ends of ranges, places of curves, known by hand."""

import numpy as np
import pytest

from book.studies.bert_normality import figures as normality
from book.studies.bert_stream import figures as stream
from book.studies.shared.released_code import MapEntropies, Slices
from book.studies.text_and_code import figures as code
from book.studies.text_and_code.layers import Picture
from book.studies.variant_classifier import figures as variants


def curve(panel, number=0):
    return np.asarray(panel.lines[number].get_ydata()).tolist()


def heights(panel):
    return [round(float(patch.get_height()), 6) for patch in panel.patches]


def test_forms_of_the_index_are_over_their_value_at_the_embeddings():
    values = np.array([[2.0, 4, 8], [4, 4, 4]])
    figure = code.cone({"text": {"(5.1), tokens": values}, "text, random": {"(5.1), tokens": 2 * values + 1}})
    assert curve(figure.axes[0]) == [1, 1.5, 2.5]
    assert curve(figure.axes[0], 1) == pytest.approx([1, (9 / 5 + 1) / 2, (17 / 5 + 1) / 2])


def test_keys_are_medians_between_the_ends_of_their_range():
    recorded = np.array([[300.0, 310, 400], [461, 461, 461]])
    figure = code.minimal_keys(recorded, {"trained": np.array([[450.0, 461], [460, 461], [452, 461]])})
    assert curve(figure.axes[0]) == [310, 461]
    assert curve(figure.axes[1]) == [452, 461]
    low, high = (
        sorted(path.vertices[:, 1])[end] for end in (0, -1) for path in figure.axes[1].collections[0].get_paths()
    )
    assert (low, high) == (450, 461)


def test_entropies_of_gates_and_noise_are_bars_and_short_ones_are_written():
    ideal = {"closed": MapEntropies(0.0, 0.02, 1.0)}
    figure = code.entropies(ideal, {0.01: MapEntropies(2.5, 1.5, 0.5)})
    left, right = figure.axes
    assert [round(float(bar.get_width()), 6) for bar in left.patches] == [0, 2.5, 0.02, 1.5]
    assert [bar.get_width() for bar in right.patches] == [1, 0.5]
    assert [text.get_text() for text in left.texts] == ["0.02"]
    assert [tick.get_text() for tick in left.get_yticklabels()] == ["closed", "noise, 0.01"]


def test_shares_are_drawn_in_per_cent():
    figure = code.failing({"text": {"BERT's": np.array([[0.5, 0.1], [0.7, 0.3]]), "the code's": np.zeros((2, 2))}})
    assert curve(figure.axes[0]) == pytest.approx([60, 20])
    bars = code.frames({"own": np.array([0.5, 0.25, 0.25, 0.0])}).axes[0]
    assert heights(bars) == [50, 25, 25, 0]
    colours = [patch.get_facecolor() for patch in bars.patches]
    assert colours[0] == colours[3] != colours[1] == colours[2]


def test_one_head_is_drawn_on_one_scale_and_faults_as_means():
    picture = Picture(1, 2, np.array([[0.5, 0.5], [0.25, 0.75]]), np.array([[0.0, 1.0], [0.5, 0.5]]))
    figure = code.one_head_twice(picture, {"no mask": np.array([[0.25, 0.5], [0.75, 1.0]])})
    assert [panel.images[0].get_clim() for panel in figure.axes[:2]] == [(0, 1), (0, 1)]
    assert curve(figure.axes[2]) == [0.5, 0.75]


def test_columns_stand_over_heads_and_the_line_goes_from_least_to_most():
    values = np.arange(6.0).reshape(3, 1, 2)
    figure = code.slices({"text": Slices(values, values[::-1] + 10, np.zeros(3), np.zeros(3))})
    panel = figure.axes[0]
    assert [line.get_xdata().tolist() for line in panel.lines] == [[0, 1], [2, 3], [4, 5], [0, 15]]
    assert curve(panel) == [14, 15]
    assert curve(panel, 3) == [0, 15]


def test_class_means_begin_below_the_least_row_entropy():
    value = {"trained": np.array([[1.0, 2], [2, 2], [3, 2]]), "random": np.ones((3, 2))}
    row = {"trained": np.array([[0.9, 0.95]] * 3), "random": np.array([[0.99, 0.99]] * 3)}
    figure = code.entropy_by_layer(value, row)
    assert curve(figure.axes[0]) == [2, 2]
    assert figure.axes[1].get_ylim() == pytest.approx((0.89, 1.005))


def test_couplings_are_means_over_layers():
    off = {"trained": {"skip": np.array([0.0, 0.02]), "MLP": np.array([0.25, 0.75])}, "control": {}}
    off["control"] = {"skip": np.array([0.5, 0.5]), "MLP": np.array([1.0, 0.5])}
    panel = stream.couplings(off, 0.875).axes[0]
    assert [bar.get_width() for bar in panel.patches] == [0.01, 0.5]
    assert list(panel.lines[0].get_xdata()) == [0.5, 0.75]
    assert list(panel.lines[1].get_xdata()) == [0.875, 0.875]
    assert [text.get_text() for text in panel.texts] == ["0.01"]


def test_stations_of_the_cosine_and_what_is_read_back_are_at_their_places():
    cosine = {name: np.arange(24.0).reshape(2, 4, 3) + more for name, more in (("trained", 0), ("control", 100))}
    shares = {"trained": np.array([0.5, 0.75]), "control": np.array([0.25, 1.0])}
    halves = {name: values / 2 for name, values in shares.items()}
    left, right = stream.perceptron(shares, halves, cosine).axes
    assert [curve(left, k) for k in range(4)] == [[0.5, 0.75], [0.25, 0.375], [0.25, 1], [0.125, 0.5]]
    assert [curve(right, k) for k in range(4)] == [[0, 12], [3, 15], [9, 21], [109, 121]]
    bands = {("heads", "x"): 0.25, ("heads", "second"): 0.5, ("heads", "x and second"): 0.75}
    bands |= {("heads", "x and second", "control"): 0.125, ("first", "mlp_output"): 0.3, ("first", "second"): 0.6}
    bands[("first", "shuffled")] = 0.01

    def band(*names):
        return np.array([[bands[names], 0, 9], [bands[names] / 2, 0, 9]])

    panel = stream.read_back(band).axes[0]
    assert heights(panel) == [0.25, 0.125, 0.5, 0.25, 0.75, 0.375]
    places = [bar.get_x() + bar.get_width() / 2 for bar in panel.patches]
    assert places == pytest.approx([-0.8 / 3, 1 - 0.8 / 3, 0, 1, 0.8 / 3, 1 + 0.8 / 3])
    assert curve(panel) == [0.125, 0.0625]
    assert panel.get_ylim()[1] == pytest.approx(1.05)
    panel = stream.read_back_mlp(band).axes[0]
    assert heights(panel) == [0.3, 0.15, 0.6, 0.3]
    assert curve(panel) == [0.01, 0.005]


def test_histograms_of_statistics_and_singular_values_are_in_per_cent():
    values = {"control": np.array([0.1, 0.1]), "trained": np.array([0.2, 0.5, 0.5, 0.5])}
    panel = normality.statistics({3: values}, 0.25).axes[0]
    drawn = heights(panel)
    assert (sum(drawn), max(drawn[: len(drawn) // 2]), max(drawn)) == (200, 100, 100)
    assert drawn[-1] == 75
    assert panel.lines[0].get_xdata() == [0.25, 0.25]
    drawn = heights(normality.spectra({0: {name: one.reshape(-1, 2) for name, one in values.items()}}).axes[0])
    assert (sum(drawn), drawn[-1]) == (200, 75)


def test_coordinates_that_stand_out_are_named():
    left, right = normality.sizes({"trained": np.array([1.0, 5, 2]), "control": np.array([3.0, 1, 1])}, 3.0).axes
    assert [text.get_text() for text in left.texts] == ["1"]
    assert not right.texts  # 3 is not above 3
    assert left.get_ylim() == pytest.approx((0, 5.6))


def test_a_distribution_function_climbs_by_equal_steps():
    """The coordinates 1, 2 and 3 are -1, 0 and 1 deviations from their mean."""
    figure = normality.total({"trained": np.array([3.0, 1, 2])}, {"trained": 0.125})
    last = figure.axes[-1].lines[0]
    assert last.get_xdata().tolist() == [-4.5, -1, 0, 1, 4.5]
    assert last.get_ydata().tolist() == pytest.approx([0, 1 / 3, 2 / 3, 1, 1])
    assert figure.axes[0].get_title() == "trained\nD = 0.125"
    assert sum(heights(figure.axes[0])) * 0.2 == pytest.approx(1)  # a density in bins of 9 / 45


def test_rows_stand_at_their_angle_and_inside_of_the_cone_or_out():
    """Cosines 1, 0.5 and 0.75 with the mean direction: their mean is the resultant length 0.75."""
    far = 0.4375**0.5  # the sine of the angle with the cosine 0.75
    rows = np.array([[1.0, 0, 0], [0.5, -(0.75**0.5), 0], [0.75, 0.6 * far, 0.8 * far]])
    panel = normality.directions(rows[None].repeat(2, 0), ("one", "two")).axes[0]
    inside, outside, mean = panel.lines
    assert inside.get_ydata().tolist() == [1, 0.75]
    assert (outside.get_xdata().tolist(), outside.get_ydata().tolist()) == ([pytest.approx(-(0.75**0.5))], [0.5])
    assert inside.get_xdata().tolist() == pytest.approx([0, 0.6 * far])  # its angle in the plane has the cosine 0.6
    assert list(mean.get_ydata()) == [0, 0.75]
    edge = panel.patches[0].get_xy()
    assert (edge[:, 0].min(), edge[:, 0].max()) == pytest.approx((-far, far))


def test_pieces_of_the_large_training_stand_in_their_middle():
    losses = np.array([[2.0, 1.0], [3.0, 2.0]])
    shares = {name: np.array([0.1 * k, 1.0]) for k, name in enumerate("abc")}
    left, right = variants.full_size(losses, 40, np.array([0, 40]), shares).axes
    assert left.lines[0].get_xdata().tolist() == [10, 30]
    assert [curve(left, k) for k in range(2)] == [[2, 1], [3, 2]]
    assert curve(left, 2) == pytest.approx([np.log(8)] * 2)
    assert curve(right, 1) == [0.1, 1]
    assert curve(right, 2) == [0.2, 1]
