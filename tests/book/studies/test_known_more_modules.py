"""Identities of the studies that are held to modules of transformers, which take seconds to import."""

from types import SimpleNamespace

from book.studies.patterns_and_messages import forms
from book.studies.rotary_bias import parts
from book.studies.shared.equality import draw, random_layer


def test_identities_hold_to_rounding_and_the_turned_parts_do_not_cancel(monkeypatch):
    monkeypatch.setattr(parts, "key_bias_effect", lambda case: f"effect of {case}")
    found = parts.measure_exactness()
    assert max(found.parts.values()) < parts.EXACT
    assert set(found.parts) == set(parts.MODULES)
    assert max(found.kernel, found.border, found.gauge) < parts.EXACT
    assert found.rest_share < parts.EXACT  # the same for every key
    assert found.turned_share > 0.01
    assert found.key_bias == {case: f"effect of {case}" for case in parts.CASES}
    assert not parts.cancels(SimpleNamespace(change=1e-9, single=False))
    assert parts.cancels(SimpleNamespace(change=1e-9, single=True))


def test_every_step_of_a_layer_without_biases_is_the_modules():
    layer = random_layer(3, 12, 4)
    for bias in (layer.b_Q, layer.b_K, layer.b_V, layer.b_O):
        bias.zero_()
    found = forms.measure_bias_free(layer, draw(2, 6, 12, seed=1))
    assert len(found.errors) == 11
    assert max(found.errors.values()) < 1e-12
    assert found.one_input > 0.1
    assert found.other_messages == 0
    layer.b_V.fill_(3)
    assert forms.measure_bias_free(layer, draw(2, 6, 12, seed=1)).errors["sum of messages"] > 0.1
