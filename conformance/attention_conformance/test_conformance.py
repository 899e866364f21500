"""Every case, held to what is known of it."""

import pytest

from attention_conformance import NotOffered, cases, compare


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_what_is_offered_is_exact(case, adapter, conformance):
    try:
        layers = adapter.layers(case)
    except NotOffered as reason:
        pytest.skip(str(reason))
    assert len(layers) == len(case.about["layers"])
    off = {}
    for number, found in enumerate(layers):
        for quantity, (error, tolerance) in compare(found, case.layer(number)).items():
            worst, _ = conformance[quantity].get(case.name, (0.0, tolerance))
            conformance[quantity][case.name] = max(worst, error), tolerance
            if not error <= tolerance:
                off[f"layer {number}, {quantity}"] = error
    assert not off
