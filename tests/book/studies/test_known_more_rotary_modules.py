"""The identities of the study of rotary positions, held to modules of transformers."""

from types import SimpleNamespace

from book.studies.rotary_bias import exactness


def test_identities_hold_to_rounding_and_the_turned_parts_do_not_cancel(monkeypatch):
    monkeypatch.setattr(exactness, "key_bias_effect", lambda case: f"effect of {case}")
    found = exactness.measure_exactness()
    assert max(found.parts.values()) < exactness.EXACT
    assert set(found.parts) == set(exactness.MODULES)
    assert max(found.kernel, found.border, found.gauge) < exactness.EXACT
    assert found.rest_share < exactness.EXACT  # the same for every key
    assert found.turned_share > 0.01
    assert found.key_bias == {case: f"effect of {case}" for case in exactness.CASES}
    assert not exactness.cancels(SimpleNamespace(change=1e-9, single=False))
    assert exactness.cancels(SimpleNamespace(change=1e-9, single=True))
