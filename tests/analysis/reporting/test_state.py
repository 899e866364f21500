"""What an unfinished measurement is named by: all that its numbers depend on."""

import pytest

from analysis.reporting.state import identity

MODEL = {"name": "tiny", "sha256": {"model.safetensors": "1"}, "settings": {"config.json": "2"}}


@pytest.mark.parametrize(
    ("place", "other"),
    [
        (0, MODEL | {"sha256": {"model.safetensors": "3"}}),
        (0, MODEL | {"settings": {"config.json": "3"}}),
        (1, [[1, 2, 4]]),
        (2, {"batch": 2}),
    ],
)
def test_another_measurement_has_another_name(place, other):
    given = [MODEL, [[1, 2, 3]], {"batch": 1}]
    name = identity(*given)
    assert name == identity(*given)
    assert identity(*given[:place], other, *given[place + 1 :]) != name
