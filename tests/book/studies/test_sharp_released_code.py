"""The released code's entropies of maps whose answer is known, and what was read off the authors' outputs."""

import json

import numpy as np
import pytest
import torch

from book.publish.records import Result
from book.studies.shared import released_code


def test_ideal_gates_are_made_of_the_rows_that_they_are_said_to_have():
    made = released_code.make_gates(200)
    column, cluster = made["directional"], made["cluster"]
    assert column[:, 5].tolist() == [1] * 200
    assert made["open"].diagonal().tolist() == [1] * 200
    assert (cluster[150, 100:164] > 0.01).all()
    assert cluster[150, 99] < cluster[150, 100] == cluster[150, 163] > cluster[150, 164]
    assert cluster[99, 100] == cluster[164, 100] < cluster[163, 100] == cluster[100, 100]
    assert made["backward"][50].argmax() == 49
    assert made["instance"].flatten().argmax() == 200 * 7 + 2
    torch.testing.assert_close(made["closed"], torch.full((200, 200), 1 / 200).double())


def test_entropies_of_a_map_are_of_its_cells_with_and_without_padding(monkeypatch):
    """Four rows, of which three are tokens; the code blanks from the last token on."""
    monkeypatch.setattr(released_code, "TOKENS", 3)
    blanked = []
    monkeypatch.setattr(
        released_code, "blank_from", lambda maps, end: blanked.append((tuple(maps.shape), end)) or torch.eye(4)
    )
    found = released_code.measure_map(torch.eye(4).double())
    quarter = -(0.25 * np.log(0.25) + 0.75 * np.log(0.75))
    assert (found.whole, found.blanked, found.rows) == pytest.approx((quarter, quarter, 0))
    assert blanked == [((3, 3), 2)]
    even = released_code.measure_map(torch.full((4, 4), 0.25).double())
    assert (even.whole, even.rows) == pytest.approx((0, 1))


def test_noise_is_a_softmax_of_scores_of_a_deviation():
    logs = released_code.draw_noise(0.5, 300).log()
    assert released_code.draw_noise(0.5, 300).sum(-1).tolist() == pytest.approx([1] * 300)
    assert float(logs.std(-1).mean()) == pytest.approx(0.5, rel=0.01)
    torch.testing.assert_close(2 * (logs - logs.mean(-1, keepdim=True)), _centred(released_code.draw_noise(1.0, 300)))
    assert list(released_code.measure_noise()) == list(released_code.DEVIATIONS)


def _centred(maps: torch.Tensor) -> torch.Tensor:
    logs = maps.log()
    return logs - logs.mean(-1, keepdim=True)


def test_what_was_read_off_the_authors_outputs_is_told_as_it_stands(tmp_path):
    path = tmp_path / "outputs.yml"
    path.write_text(
        json.dumps(
            {
                "settings": {
                    "start": "a start",
                    "batch": 4,
                    "epochs": 2,
                    "rate": 0.5,
                    "warmup_share": 0.1,
                    "rows": 9,
                    "more": 1,
                },
                "claimed_f1": {"value": 0.75},
                "minimal_keys": {"medians": [[1, 2], [3, 4]], "sequences": 5},
                "softmax_cone": {"lowest": 0.25, "sequences": 6, "in_highest_bin": 7},
                "singular_values": {"counts": {"8": 9}},
                "word_counts": {"top": 10, "plateaus": [11, 12]},
            }
        )
    )
    found = released_code.load_authors_outputs(path)
    keys = found.minimal_keys
    assert (keys.tolist(), keys.dtype, found.minimal_key_sequences) == ([[1, 2], [3, 4]], np.float64, 5)
    assert (found.start, found.batch, found.epochs, found.rate, found.warmup_share, found.rows) == (
        "a start",
        4,
        2,
        0.5,
        0.1,
        9,
    )
    assert (found.claimed_f1, found.lowest_cone, found.cone_sequences, found.in_highest_bin) == (0.75, 0.25, 6, 7)
    assert (found.singular_values, found.top_count, found.plateaus) == ({"8": 9}, 10, (11, 12))


def test_outputs_of_heads_go_together_in_means_over_sequences():
    largest, coded = np.zeros((2, 2, 2)), np.zeros((2, 2, 2))
    largest[:] = [[1, 2], [3, 4]]
    coded[0], coded[1] = [[9, 0], [0, 0]], [[0, 5], [6, 7]]  # means 4.5, 2.5, 3 and 3.5
    arrays = {"net/largest": largest, "net/code_largest": coded}
    # ranks 1 to 4 beside 4, 1, 2 and 3
    assert released_code.correlate_outputs(Result({}, arrays), "net") == pytest.approx(1 - 6 * (9 + 1 + 1 + 1) / 60)
