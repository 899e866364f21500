"""The study of patterns and messages: texts that are too short to tell, and the post's lists run as printed."""

from types import SimpleNamespace

import pytest
import torch

from analysis.decomposition import qk_ov
from analysis.transformer.attention import attend, softmax
from book.publish import Inputs
from book.studies.patterns_and_messages import claims
from book.studies.patterns_and_messages.readings import FIRST_LIST, SECOND_LIST, measure_readings, measure_spaces, run
from book.studies.shared.equality import draw, random_layer


def test_texts_that_are_too_short_leave_verdicts_open(tmp_path):
    (tmp_path / "own.txt").write_text("Two words.\n\nOne.")
    inputs = Inputs("gpt2-mini", "gpt2-mini", texts=str(tmp_path / "own.txt"))
    m = SimpleNamespace(readings=measure_readings(inputs), spaces=measure_spaces(inputs))
    for function in (
        claims.scores_set_the_influence,
        claims.row_is_the_pattern_sought,
        claims.model_space_is_more_interpretable,
    ):
        assert not function(m).decided


def test_the_second_list_is_the_layer_and_the_first_does_not_run():
    layer, x = random_layer(2, 6, 3), draw(1, 5, 6)
    zero = {name: 0 * getattr(layer, name) for name in ("b_Q", "b_K", "b_V", "b_O")}
    layer = type(layer)(**{**vars(layer), **zero})
    names = {
        "X": x[:, None],
        "W_P": qk_ov.qk_matrix(layer),
        "W_M": qk_ov.ov_matrix(layer),
        "softmax": softmax,
        "root": 3**0.5,
    }
    torch.testing.assert_close(run(SECOND_LIST, names), attend(x, layer).output, rtol=1e-12, atol=1e-12)
    with pytest.raises(NameError, match="'P' is not defined"):
        run(FIRST_LIST, names)
