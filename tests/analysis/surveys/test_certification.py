"""Each layer and head is held to the model's own: one changed weight, option or sign is named where it is."""

import math
from dataclasses import replace

import pytest
import torch

from analysis.core.attention_layer import Mask
from analysis.decomposition import terms
from analysis.models.checkpoints import find
from analysis.models.families import FAMILIES
from analysis.models.families.tiny import tiny_inputs, tiny_model
from analysis.models.offloading import Offloaded
from analysis.models.reading import Model
from analysis.surveys.certification import Certified, Passed, certify_stack, layer_errors, stacks_of
from tests.analysis.models.test_families import other_pairing
from tests.analysis.tiny import draw, random_layer

LAYER = 1
"""The one that is changed, of two; heads 2 and 3 share its second key."""


def certified(folder, model_type, dtype=torch.float64, **settings):
    model = tiny_model(model_type, **settings)
    model.to(dtype).save_pretrained(folder)
    checkpoint = find(str(folder))
    offloaded = Offloaded(checkpoint, dtype)
    return [certify_stack(checkpoint, offloaded, tiny_inputs(model), stack) for stack in stacks_of(checkpoint)]


def weight(name, *place):
    """Return a change of one weight of a layer by a thousandth."""

    def change(layer):
        tensor = getattr(layer, name).clone()
        tensor[place] += 1e-3
        return replace(layer, **{name: tensor})

    return change


CHANGES = {
    "one weight of a key": ("qwen2", weight("W_K", 1, 5, 3), "scores", {2, 3}),
    "one weight of a value": ("t5", weight("W_V", 2, 0, 0), "output", {2}),
    "one weight of an output": ("gpt2", weight("W_O", 1, 2, 9), "output", {1}),
    "one sink": ("gpt_oss", weight("sinks", 2), "attention", {2}),
    "a norm": ("llama", lambda layer: replace(layer, norms=(replace(layer.norms[0], eps=1e-3),)), "folds", {None}),
    "the output bias": ("gpt2", weight("b_O", 3), "sum", {None}),
    "the scale": ("gemma3_text", lambda layer: replace(layer, scale=1.01 * layer.scale), "scores", {0, 1, 2, 3}),
    "a cap left out": ("gemma2", lambda layer: replace(layer, soft_cap=None), "scores", {0, 1, 2, 3}),
    "a window left out": ("mistral", lambda layer: replace(layer, mask=Mask(causal=True)), "attention", {0, 1, 2, 3}),
    "later keys": ("gemma3_text", lambda layer: replace(layer, mask=Mask()), "attention", {0, 1, 2, 3}),
    "the pairing of coordinates": ("llama", other_pairing, "scores", {0, 1, 2, 3}),
    "the sign of a bias": ("gpt2", lambda layer: replace(layer, b_Q=-layer.b_Q), "scores", {0, 1, 2, 3}),
}


@pytest.mark.parametrize("name", CHANGES)
def test_one_change_is_named_with_its_layer_and_heads(name, tmp_path, monkeypatch):
    model_type, change, comparison, heads = CHANGES[name]
    read = Model.read_layer
    monkeypatch.setattr(Model, "read_layer", lambda self, n: change(read(self, n)) if n == LAYER else read(self, n))
    failures = certified(tmp_path, model_type)[0].failures()
    assert {failure["layer"] for failure in failures} == {LAYER}
    assert {failure["head"] for failure in failures if failure["comparison"] == comparison} == heads
    assert {failure["input"] for failure in failures if failure["comparison"] == comparison} == {"text", "random"}


WHOLE = [("gpt2", dtype) for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16)]
WHOLE += [("qwen2", torch.bfloat16), ("bloom", torch.float32), ("t5", torch.float16), ("whisper", torch.float32)]
WHOLE += [("gptj", torch.float16), ("gpt_oss", torch.bfloat16)]


@pytest.mark.parametrize(("model_type", "dtype"), WHOLE)
def test_nothing_is_found_where_nothing_is_changed(model_type, dtype, tmp_path):
    for stack in certified(tmp_path, model_type, dtype):
        assert stack.failures() == []
        assert stack.largest().isfinite().all()
        assert stack.largest().numel() > 0


REFUSED = ("jina_embeddings_v3", "nomic_bert", "siglip_text_model")
"""What the library lays out anew as it loads it, and what it does not build alone."""


@pytest.mark.slow
@pytest.mark.parametrize("model_type", sorted({kind for row in FAMILIES for kind in row.model_types}))
def test_every_family_is_its_own_or_refused(model_type, tmp_path):
    if model_type in REFUSED:
        with pytest.raises((LookupError, ValueError), match=r"renames it as it loads|builds no whole"):
            certified(tmp_path, model_type)
        return
    for stack in certified(tmp_path, model_type):
        assert stack.failures() == []
        assert stack.largest().nan_to_num().max() < (1e-12 if stack.limit[0] < 1e-6 else 1e-6)


def test_what_is_no_number_is_no_agreement():
    errors = torch.zeros(2, 2, 3).double()
    errors[1, 0, 2] = torch.nan
    (failure,) = Certified("", "float64", {"scores": errors}, [1e-9] * 2).failures()
    assert (failure["layer"], failure["head"], failure["input"]) == (1, 2, "text")


def found_by_hand():
    """Return errors of two layers of three heads, with the first layer's limit half of the second's."""
    errors = {name: torch.zeros(2, 2, 3).double() for name in ("scores", "attention", "output")}
    errors |= {name: torch.zeros(2, 2, 1).double() for name in ("sum", "folds")}
    errors["scores"][0, 0] = torch.tensor([0.5, 3.0, 1.0])
    errors["scores"][1, 0] = torch.tensor([4.0, 5.0, 0.0])
    errors["scores"][1, 1] = torch.tensor([0.0, 7.0, 0.0])
    errors["attention"][0, 1] = torch.tensor([0.75, 0.0, 0.0])
    errors["sum"][1, 1] = 6.0
    return Certified("decoder", "float32", errors, [1.0, 2.0])


def test_errors_are_held_against_the_limit_of_their_layer():
    found = found_by_hand()
    assert found.worst("scores", 0) == (3.0, 0, 1)  # three times its limit; 5 is two and a half times
    assert found.worst("scores", 1) == (7.0, 1, 1)
    assert found.worst("sum", 1) == (6.0, 1, 0)
    assert found.largest().tolist() == [[0.75, 3.0, 1.0], [4.0, 7.0, 0.0]]
    told = [(f["comparison"], f["input"], f["layer"], f["head"], f["times its limit"]) for f in found.failures()]
    assert told == [
        ("scores", "text", 0, 1, 3.0),
        ("scores", "text", 1, 0, 2.0),
        ("scores", "text", 1, 1, 2.5),
        ("scores", "random", 1, 1, 3.5),
        ("sum", "random", 1, None, 3.0),
    ]
    assert {(f["stack"], f["dtype"]) for f in found.failures()} == {("decoder", "float32")}


def passed_by(layer, x, before=None):
    """Return what a plain layer passes, written out head by head."""
    heads = range(layer.heads)
    scores = [(x @ layer.W_Q[h] + layer.b_Q[h]) @ (x @ layer.W_K[h] + layer.b_K[h]).mT / 2 for h in heads]
    hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
    scores = torch.stack(scores, 1)
    attention = scores.masked_fill(hidden, -math.inf).softmax(-1)
    mixed = torch.stack([attention[:, h] @ (x @ layer.W_V[h] + layer.b_V[h]) for h in range(layer.heads)], 1)
    written = sum(mixed[:, h] @ layer.W_O[h] for h in range(layer.heads)) + layer.b_O
    by_head = torch.stack([mixed[:, h, -1] @ layer.W_O[h] for h in range(layer.heads)], 1)
    return Passed(x, scores, attention, mixed, by_head, written, before)


def reach_of(x, layer, text, head):
    queries, keys = x[text] @ layer.W_Q[head] + layer.b_Q[head], x[text] @ layer.W_K[head] + layer.b_K[head]
    parts = [part[text, head].abs().max() for part in terms.score_terms(x, layer).stack()]
    return float(max(queries.norm(dim=-1).max() * keys.norm(dim=-1).max() / 2, *parts))


def test_errors_are_in_parts_of_what_the_numbers_could_be():
    layer, x = random_layer(3, 6, 4, causal=True), draw(2, 5, 6)
    passed = passed_by(layer, x)
    for error in layer_errors(passed, layer).values():
        assert error.max() < 1e-13

    def with_added(name, place, size):
        tensor = getattr(passed, name).clone()
        tensor[place] += size
        return layer_errors(replace(passed, **{name: tensor}), layer)

    found = with_added("scores", (1, 2, 4, 3), -0.3)["scores"]
    assert found[1, 2].item() == pytest.approx(0.3 / reach_of(x, layer, 1, 2))
    assert found.flatten().sort().values[-2] < 1e-13
    assert with_added("scores", (1, 2, 3, 4), 9.0)["scores"].max() < 1e-13, "a query sees no later key"
    due = 0.2 / max(1.0, reach_of(x, layer, 0, 1))
    assert with_added("attention", (0, 1, 4, 0), 0.2)["attention"][0, 1].item() == pytest.approx(due)
    values = (x[1] @ layer.W_V[0] + layer.b_V[0]).abs().max()
    assert with_added("mixed", (1, 0, 2, 3), 0.4)["output"][1, 0].item() == pytest.approx((0.4 / values).item())
    updates = torch.stack([passed.attention[:, h] @ (x @ layer.W_V[h] + layer.b_V[h]) @ layer.W_O[h] for h in range(3)])
    size = updates[:, 1].abs().sum(0).max() + layer.b_O.abs().max()
    found = with_added("written", (1, 2, 3), 0.6)
    for name in ("sum", "folds"):
        assert found[name].shape == (2, 1)
        assert found[name][1, 0].item() == pytest.approx((0.6 / size).item())
        assert found[name][0, 0] < 1e-13
