"""Every case, held to what is known of it."""

import pytest

from attention_conformance import TOLERANCE, NotOffered, cases, compare


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_what_is_offered_is_exact(case, adapter, conformance):
    """Whatever an adapter returns is what is known, within the tolerance of its dtype."""
    try:
        layers = adapter.layers(case)
    except NotOffered as reason:
        pytest.skip(str(reason))
    assert len(layers) == len(case.about["layers"])
    off = {}
    for number, found in enumerate(layers):
        for quantity, error in compare(found, case.layer(number)).items():
            conformance[quantity][case.name] = max(conformance[quantity].get(case.name, 0.0), error)
            if error > TOLERANCE[adapter.dtype]:
                off[f"layer {number}, {quantity}"] = error
    assert not off
