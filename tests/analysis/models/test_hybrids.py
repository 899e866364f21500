"""Hybrids, some of whose layers have no attention: each layer that has some is known by its own number.

The oracle is what the library's own modules read and return, named by their places in the model.
"""

import json

import pytest
import torch

from analysis import census, layer_inputs, load, report, score_parts
from analysis.models.extraction import attention_inputs
from analysis.models.families import FAMILIES
from analysis.models.families.tiny import tiny_inputs, tiny_model
from analysis.reporting.certificate import certify
from analysis.surveys.layer_runs import visit_layers
from analysis.surveys.logit_attribution import logit_parts
from tests.analysis.models.test_inputs import own_maps
from tests.analysis.models.test_missing_tensors import extra
from tests.analysis.reporting.test_every_model_is_measured import TEXTS, WORDS
from tests.analysis.tiny import change_tensors

HYBRIDS = [kind for row in FAMILIES if row.hybrid for kind in row.model_types]
SOME = ["jamba", "granitemoehybrid", "lfm2", "nemotron_h"]


def attention_modules(model):
    """Return the modules that make queries, by the number of their layer."""
    named = [(name.split("."), module) for name, module in model.named_modules()]
    return {int(path[1]): module for path, module in named if path[-1] == "q_proj" and path[-2] != "linear_attn"}


@pytest.mark.parametrize("kind", HYBRIDS)
def test_a_layer_is_called_by_its_place_among_all_layers(kind):
    model = tiny_model(kind)
    read, inputs, seen = load(model), tiny_inputs(model), {}
    modules = attention_modules(model)
    for number, module in modules.items():
        module.register_forward_hook(lambda _, args, __, number=number: seen.update({number: args[0]}))
    own = dict(own_maps(model, read, inputs))
    assert list(read.layers.numbers) == sorted(modules) == sorted(own)
    assert 0 < len(read.layers) == len(list(read.layers)) < read.depth
    for number, maps in own.items():
        assert torch.equal(layer_inputs(model, inputs, number), seen[number])
        assert torch.equal(layer_inputs(model, inputs, number - read.depth), seen[number])
        hidden = torch.where(maps == 0, -torch.inf, score_parts(model, inputs, number).total())
        torch.testing.assert_close(hidden.softmax(-1), maps.double(), rtol=0, atol=1e-6)
    numbers = []
    visit_layers(model, inputs["input_ids"], lambda layer: numbers.append(layer.number), only=[3])
    assert numbers == [3, 3]


def test_a_layer_without_attention_is_refused_with_those_that_have_some():
    model = tiny_model("jamba")
    read = load(model)
    assert "attention in layers 1 and 3 of 4" in repr(read)
    for call in (lambda: read.layers[0], lambda: read.layers[-2], lambda: layer_inputs(model, [[2, 3]], 2)):
        with pytest.raises(IndexError, match=r"layer [02] has no attention: attention in layers 1 and 3 of 4"):
            call()
    with pytest.raises(IndexError, match=r"layer must be 0\.\.3, got 4"):
        read.queries_and_keys(4)
    with pytest.raises(ValueError, match="no layer with attention: its layer_types are linear_attention, linear"):
        load(tiny_model("bamba", attn_layer_indices=[]))


@pytest.mark.parametrize("kind", SOME)
def test_a_census_names_the_layers(kind):
    model = tiny_model(kind).float()
    read = load(model, tokenizer=WORDS)
    table = census(read, TEXTS[:1])
    rows = table.rows()
    assert [(row["layer"], row["head"]) for row in rows] == [(layer, head) for layer in (1, 3) for head in range(4)]
    ids = WORDS(TEXTS[0], return_tensors="pt")["input_ids"]
    own = dict(own_maps(model, read, {"input_ids": ids}))
    for row in rows:
        assert row["itself"] == pytest.approx(own[row["layer"]][0, row["head"]].diagonal().mean().item(), abs=1e-5)
    (one,) = census(read, TEXTS[:1], heads=[(3, 2)], measures=["itself"]).rows()
    assert one == {"layer": 3, "head": 2, "itself": pytest.approx(rows[6]["itself"], abs=1e-6)}
    assert repr(table).startswith("2 layers of 4 heads, 1 text")
    assert len(table.to_csv().splitlines()) == 9
    with pytest.raises(ValueError, match=r"got \(2, 0\): attention in layers 1 and 3 of 4"):
        census(read, TEXTS[:1], heads=[(2, 0)])


@pytest.mark.parametrize("kind", SOME)
def test_a_certificate_names_the_layers(kind, tmp_path):
    model = tiny_model(kind).float()
    model.save_pretrained(tmp_path / "model")
    assert certify(tmp_path / "model", out=tmp_path / "out").holds
    told = json.loads((tmp_path / "out" / "certificate.json").read_text(encoding="utf-8"))
    assert [stack["layers"] for stack in told["stacks"]] == [[1, 3]] * 2


def test_what_needs_every_layer_is_refused(tmp_path):
    import transformers

    model = transformers.AutoModelForCausalLM.from_config(tiny_model("jamba").config, attn_implementation="eager")
    with pytest.raises(ValueError, match="a jamba has attention in layers 1 and 3 of 4: what its other layers write"):
        logit_parts(model.eval(), [[2, 3, 4]])
    model.save_pretrained(tmp_path / "model")
    with pytest.raises(ValueError, match="a jamba has attention in layers 1 and 3 of 4, and a report compares every"):
        report(tmp_path / "model", out=tmp_path / "out", weights_only=True)


def test_the_states_that_the_attention_of_a_hybrid_reads():
    model = tiny_model("jamba")
    inputs = tiny_inputs(model)
    states = model(**inputs, output_hidden_states=True).hidden_states
    for number, x in zip((1, 3), attention_inputs(model, states), strict=True):
        torch.testing.assert_close(x, layer_inputs(model, inputs, number), rtol=0, atol=1e-6)


@pytest.mark.parametrize(("kind", "output"), [("jamba", "self_attn.o_proj"), ("nemotron_h", "mixer.o_proj")])
def test_attention_in_the_files_of_a_layer_that_has_none_is_refused(kind, output, tmp_path):
    model = tiny_model(kind)
    model.save_pretrained(tmp_path)
    change_tensors(tmp_path, lambda tensors: extra(tensors, (f"layers.1.{output}.weight", f"layers.0.{output}.weight")))
    with pytest.raises(ValueError, match=rf"layers\.0\.{output}.*knows nothing"):
        load(tmp_path)


@pytest.mark.parametrize("settings", [{"position_embedding_type": "rope"}, {"num_local_experts": 0}])
def test_granite_with_positions_and_without_experts(settings):
    model = tiny_model("granitemoehybrid", **settings)
    read, inputs = load(model), tiny_inputs(model)
    assert read.layers[1].positions.kind == ("rotary" if "position_embedding_type" in settings else "none")
    for number, maps in own_maps(model, read, inputs):
        hidden = torch.where(maps == 0, -torch.inf, score_parts(model, inputs, number).total())
        torch.testing.assert_close(hidden.softmax(-1), maps.double(), rtol=0, atol=1e-6)
