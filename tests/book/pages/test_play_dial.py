"""The dial in a real browser, from a file: its weights, entropies and distances against Python, its controls, links."""

import numpy as np
import pytest
import torch

from analysis.decomposition.uniform import uniform_causal
from analysis.maps.entropy import row_entropy
from analysis.models import checkpoints, extraction, pretrained
from analysis.models.reading import load
from analysis.transformer.attention import project, softmax
from book.experiments import weighted_mean_sentence as sentence

pytestmark = pytest.mark.browser


@pytest.fixture
def fresh(visit):
    """The page as trained, with all its controls open; one visit serves all tests."""
    for label in ("MiniLM", "trained", "Layer 0, head 5"):
        visit.get_by_label(label, exact=True).check(force=True)
    visit.get_by_role("button", name="as trained").click()
    return visit


def numbers(page, t):
    return page.evaluate(
        """t => { const n = document.querySelector('.play').numbers;
      return { weights: Array.from(n.weights(t)), share: n.share(t), ...n.distances(t) }; }""",
        t,
    )


class Model:
    """One head in float64, from the model itself rather than from the record."""

    def __init__(self, name, layer, head):
        checkpoint = checkpoints.find(name)
        model = pretrained.load(checkpoint, task=sentence.MODELS[name], dtype=torch.float64)
        ids = pretrained.tokenizer(checkpoint)(sentence.TEXT, return_tensors="pt")["input_ids"]
        with torch.no_grad():
            out = model(ids, output_hidden_states=True, output_attentions=True)
        inputs = extraction.attention_inputs(model, [state[0] for state in out.hidden_states])
        weights = load(model).plain_layers()[layer]
        self.own = out.attentions[layer][0, head]
        self.values = project(inputs[layer], weights.W_V, weights.b_V)[head] @ weights.W_O[head]

    def turn(self, t):
        seen = (self.own > 0).double()
        return softmax(t * self.own.log()) if t else seen / seen.sum(-1, keepdim=True)

    def distance(self, t, other):
        unit = (self.turn(1.0) - self.turn(0.0)) @ self.values
        return float(((self.turn(t) - self.turn(other)) @ self.values).norm() / unit.norm())


@pytest.mark.parametrize(("name", "layer", "head"), [("minilm", 0, 5), ("minilm", 4, 11), ("gpt2-mini", 1, 3)])
def test_weights_entropy_and_distances_are_the_models(fresh, name, layer, head):
    model = Model(name, layer, head)
    fresh.get_by_label({"minilm": "MiniLM"}.get(name, name), exact=True).check(force=True)
    fresh.get_by_label(f"Layer {layer}, head {head}", exact=True).check(force=True)
    for t in (0.0, 0.5, 1.0, 3.0):
        shown, due = numbers(fresh, t), model.turn(t)
        np.testing.assert_allclose(np.reshape(shown["weights"], due.shape), due, atol=2e-3)
        keys = (due > 0).sum(-1) if name == "gpt2-mini" else torch.full(due.shape[:1], len(due))
        share = (row_entropy(due) / keys.log())[keys > 1].mean()
        assert shown["share"] == pytest.approx(float(share), abs=2e-3)
        assert shown["mean"] == pytest.approx(model.distance(t, 0.0), abs=0.02)
        assert shown["own"] == pytest.approx(model.distance(t, 1.0), abs=0.02)


def test_at_zero_every_head_is_the_mean_of_what_it_sees(fresh):
    fresh.get_by_label("gpt2-mini", exact=True).check(force=True)
    n = int(len(numbers(fresh, 0)["weights"]) ** 0.5)
    np.testing.assert_allclose(np.reshape(numbers(fresh, 0)["weights"], (n, n)), uniform_causal(n).numpy(), atol=1e-12)
    fresh.get_by_role("button", name="plain mean").click()
    row = fresh.evaluate("Number(new URLSearchParams(document.querySelector('.play-link').search).get('dial.query'))")
    share = 100 / (row + 1)
    assert f"gets {share:.{1 if share < 9.95 else 0}f}\u00a0%" in fresh.inner_text(".play-said")
    assert len(set(fresh.locator(".play-row li span:last-child").all_inner_texts())) == 1
    assert "The evenness of the rows is 1.00" in fresh.inner_text(".play-more")
    assert "now lies 0.00 from the plain mean of the values and 1.00 from what" in fresh.inner_text(".play-more")


def test_the_keyboard_turns_the_dial_and_walks_over_map_and_heads(fresh):
    fresh.get_by_label("Dial", exact=True).focus()
    fresh.keyboard.press("Home")
    assert fresh.inner_text(".play-said b") == "A plain mean:"
    fresh.keyboard.press("End")
    assert fresh.get_by_label("Dial", exact=True).get_attribute("aria-valuetext") == "10"
    fresh.get_by_label("Layer 0, head 5", exact=True).focus()
    fresh.keyboard.press("ArrowRight")
    assert "layer 0, head 6" in fresh.inner_text(".play-two .play-head >> nth=0")
    assert fresh.inner_text(".play-said b") == "Sharper than the head is:"
    fresh.locator(".play-map").focus()
    fresh.keyboard.press("End")
    assert "to \u201c[SEP]\u201d" in fresh.inner_text(".play-said")
