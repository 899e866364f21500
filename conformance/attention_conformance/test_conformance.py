"""One test per layer and quantity: exact, off (a failure), or not offered (a skip)."""

import pytest


def test_conformance(conformance_case, conformance_quantity, conformance_results):
    """Compare one quantity of one layer with its golden value."""
    result = conformance_results(conformance_case)[conformance_quantity]
    if result.off is None:
        pytest.skip(result.note or "not offered")
    assert result.exact, f"off by {result.off:.1e} of the largest, {result.limit:.0e} is allowed"
