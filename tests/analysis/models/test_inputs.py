"""What a model is given is followed or refused by name: positions, masks, padding, in every family that reads text.

The oracle is the attention that the library's own module returns for the same arguments.
"""

import pytest
import torch

from analysis import attend, layer_inputs, load, score_parts
from analysis.models.families.table import FAMILIES
from analysis.models.families.tiny import POSITIONS, tiny_inputs, tiny_model
from analysis.models.inputs import FOLLOWED, SKIPS_PADDING

KINDS = list(dict.fromkeys(kind for row in FAMILIES for kind in row.model_types if not row.stack))
PLACES = torch.tensor([[0, 1, 2, 3, 9, 10, 11, 12, 40, 41], [0, 1, 2, 3, 4, 0, 1, 2, 3, 4]])
"""With gaps, and of two texts in one."""
LEFT = torch.tensor([[0, 0, 0, 1, 1, 1, 1, 1, 1, 1], [1] * 10])
MASK = torch.tensor([[1, 1, 1, 0, 1, 1, 1, 1, 1, 1], [1] * 8 + [0, 0]])
"""With a hole, and with padding on the right."""


def text(model, mask=None, **named):
    """Ten tokens in two texts, with padding tokens where the mask says so."""
    ids = tiny_inputs(model)["input_ids"][:, : POSITIONS - 2]
    if mask is not None:
        padding = getattr(model.config, "pad_token_id", None)
        ids = ids.masked_fill(mask == 0, 1 if padding is None else padding)
        named["attention_mask"] = mask
    return {"input_ids": ids} | named


def own_maps(model, read, given):
    """The attention that a model returns, with the number of the layer that has it."""
    maps = model(**given, output_attentions=True).attentions
    places = range(read.depth) if len(maps) == read.depth else read.layers.numbers  # a MiniMax returns all layers'
    return [(number, own) for number, own in zip(places, maps, strict=True) if number in read.layers.numbers]


def worst(model, inputs):
    """The largest difference between the softmax of the parts and the attention that the module itself returns."""
    read, largest = load(model), 0.0
    for number, own in own_maps(model, read, inputs):
        cap = read.layers[number].soft_cap
        total = score_parts(model, inputs, number).total()
        total = total if cap is None else cap * torch.tanh(total / cap)
        ours = total.masked_fill(own == 0, -torch.inf).softmax(-1)
        gap = (ours - own / own.sum(-1, keepdim=True)).abs().transpose(1, 2)  # without a sink's share
        real = inputs.get("attention_mask", torch.ones(gap.shape[:2])).bool()
        largest = max(largest, gap[real].max().item())
    return largest


def worst_or_refusal(model, inputs):
    """The largest difference, or the words of a refusal with none."""
    try:
        return worst(model, inputs), ""
    except ValueError as refused:
        return 0.0, str(refused)


@pytest.mark.parametrize("kind", KINDS)
def test_parts_are_those_of_what_the_model_was_given(kind):
    model = tiny_model(kind).float()
    if set(tiny_inputs(model)) != {"input_ids"}:
        pytest.skip("reads images or sounds")
    assert worst(model, text(model, MASK)) < 1e-4
    given = text(model, LEFT)
    error, refused = worst_or_refusal(model, given)
    assert error < 1e-4
    if refused:
        assert "attention_mask has padding on the left" in refused
        alone = model(given["input_ids"][:1, 3:])[0][0]  # of which the scores would have been others
        assert (model(**given)[0][0, 3:] - alone).abs().max() > 1e-3 or kind == "llama4_text"  # whose steps are longer
    error, refused = worst_or_refusal(model, text(model, position_ids=PLACES))
    assert error < 1e-4
    if refused:
        assert "takes no position_ids: leave it out" in refused
        assert kind in ("bloom", "mpt", "roformer")


@pytest.mark.parametrize("kind", ["llama", "bloom", "opt", "roberta", "esm", "mpnet", "jamba", "lfm2", "olmo_hybrid"])
def test_scores_of_a_text_padded_on_the_left_are_those_of_the_text_alone(kind):
    model = tiny_model(kind).float()
    given = text(model, LEFT)
    padded = score_parts(model, given, -1).total()[0, :, 3:, 3:]
    alone = score_parts(model, given["input_ids"][:1, 3:], -1).total()[0]
    torch.testing.assert_close(padded, alone, rtol=0, atol=1e-4)


@pytest.mark.parametrize("kind", ["gpt2", "bert"])
def test_padding_that_would_count_as_positions_is_refused_with_what_to_do(kind):
    model = tiny_model(kind)
    given = text(model, LEFT)
    with pytest.raises(ValueError, match=r"attention_mask has padding on the left.*pad on the right.*position_ids"):
        score_parts(model, given)
    given["position_ids"] = (LEFT.cumsum(-1) - 1).clamp(min=0)  # as the message says
    padded = score_parts(model, given, -1).total()[0, :, 3:, 3:]
    alone = score_parts(model, given["input_ids"][:1, 3:], -1).total()[0]
    torch.testing.assert_close(padded, alone, rtol=0, atol=1e-6)


def test_padding_told_by_ids_counts_where_the_ids_are_others():
    model = tiny_model("roberta")
    given = text(model, LEFT)
    score_parts(model, given)
    with pytest.raises(ValueError, match="padding on the left"):
        score_parts(model, given | {"input_ids": given["input_ids"].masked_fill(LEFT == 0, 7)})
    rows = model.get_input_embeddings()(given["input_ids"])
    with pytest.raises(ValueError, match="padding on the left"):
        score_parts(model, {"inputs_embeds": rows, "attention_mask": LEFT})
    assert set(SKIPS_PADDING) < {kind for row in FAMILIES for kind in row.model_types}


@pytest.mark.parametrize("kind", ["gpt2", "roberta", "opt", "esm", "mpnet"])
def test_a_text_longer_than_the_table_of_positions_is_refused_before_the_model_runs(kind):
    model = tiny_model(kind).float()
    read = load(model)
    if read.room is None or read.positions is None:
        pytest.skip("has no table of positions")
    ids = torch.full((1, read.room + 1), 5)
    with pytest.raises(
        ValueError, match=f"input_ids has {read.room + 1} tokens, .* has positions for {read.room}: give"
    ):
        layer_inputs(model, ids)
    assert layer_inputs(model, ids[:, 1:]).shape[-2] == read.room


@pytest.mark.parametrize("stack", ["encoder", "decoder"])
@pytest.mark.parametrize("kind", ["bart", "marian", "t5", "m2m_100"])
def test_masks_of_both_stacks(kind, stack):
    model = tiny_model(kind)
    given = text(model, LEFT, decoder_input_ids=tiny_inputs(model)["input_ids"])
    if kind in ("bart", "marian"):
        with pytest.raises(ValueError, match=r"has padding on the left.*padding_side = 'right'"):
            layer_inputs(model, given, stack=stack)
    else:
        assert not layer_inputs(model, given, stack="encoder")[0, :3].any()
    mask = torch.ones_like(given["decoder_input_ids"])
    mask[0, -2:] = 0
    given = text(model, MASK, decoder_input_ids=given["decoder_input_ids"], decoder_attention_mask=mask)
    rows, real = layer_inputs(model, given, stack=stack), MASK if stack == "encoder" else mask
    assert torch.equal(rows.abs().sum(-1) == 0, real == 0)


def test_positions_of_a_layer_are_those_that_attend_takes():
    model = tiny_model("llama")
    given = text(model, position_ids=PLACES[:1])
    own = model(**given, output_attentions=True).attentions[1]
    ours = attend(layer_inputs(model, given, 1), load(model).layers[1], positions=PLACES[:1]).attention
    torch.testing.assert_close(ours, own.double(), rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_reads_as_many_tokens_as_there_is_room_for(kind):
    """Positions of a RoBERTa begin behind that of the padding token, so that it reads fewer than its table has rows."""
    model = tiny_model(kind).float()
    if set(tiny_inputs(model)) != {"input_ids"}:
        pytest.skip("reads images or sounds")
    read = load(model)
    assert (read.room or 1000) >= 20
    model(torch.full((1, read.room or 20), 5))
    if read.positions is not None:
        assert read.room == len(read.positions)


ROW = torch.arange(10)


@pytest.mark.parametrize(("embedded", "dtype"), [(False, torch.float64), (True, torch.float32), (True, torch.bfloat16)])
@pytest.mark.parametrize("positions", [ROW[None] + 5, ROW.flip(0).expand(2, -1), (ROW % 5).expand(2, -1)])
@pytest.mark.parametrize("kind", ["gpt2", "llama", "bert"])
def test_positions_of_any_order_embeddings_and_other_precisions_are_followed(kind, positions, embedded, dtype):
    model = tiny_model(kind).to(dtype)
    given = text(model, MASK, position_ids=positions)
    if embedded:
        given["inputs_embeds"] = model.get_input_embeddings()(given.pop("input_ids"))
    assert worst(model, given) < (0.05 if dtype == torch.bfloat16 else 1e-4)


REFUSED = {
    "past_key_values": "past_key_values is not followed here: give the whole text at once",
    "head_mask": "head_mask is not followed here: leave it out",
    "offset_mapping": "offset_mapping is not followed here",
    "use_cache": "use_cache is not followed here",
    "token_type_ids": "LlamaModel takes no token_type_ids: leave it out",
    "pixel_values": "LlamaModel takes no pixel_values: leave it out",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_followed_is_refused_by_name_before_the_model_runs(name):
    model = tiny_model("llama")
    model.register_forward_pre_hook(lambda *_: pytest.fail("the model ran"))
    with pytest.raises(ValueError, match=REFUSED[name]):
        score_parts(model, text(model, **{name: torch.ones(2, 10, dtype=torch.long)}))
    assert name not in FOLLOWED or "takes no" in REFUSED[name]


@pytest.mark.parametrize("call", [score_parts, layer_inputs])
@pytest.mark.parametrize(
    ("named", "message"),
    [
        (
            {"attention_mask": torch.zeros(2, 1, 10, 10)},
            r"attention_mask must be 1 for a token and 0 for padding, \(2, 10",
        ),
        ({"attention_mask": torch.ones(2, 10, 10)}, "masks of another form are not followed"),
        ({"attention_mask": torch.ones(2, 12)}, r"\(2, 10\) as input_ids has them, got \(2, 12\)"),
        ({"attention_mask": torch.full((2, 10), 2)}, "must be 1 for a token"),
        ({"position_ids": torch.arange(9)[None]}, r"one for each token, \(2, 10\) or \(1, 10\) here, got \(1, 9\)"),
        ({"position_ids": torch.arange(10)[None] - 1}, "from 0 on"),
        ({"position_ids": torch.zeros(3, 2, 10, dtype=torch.long)}, "position_ids must be"),
        ({"position_ids": torch.arange(10.0)[None]}, "position_ids must be .* whole numbers"),
        ({"input_ids": torch.arange(10)}, r"input_ids must be \(batch, position\)"),
        ({"input_ids": torch.zeros(2, 10)}, "input_ids must be .* whole numbers"),
    ],
)
def test_another_form_is_refused(call, named, message):
    model = tiny_model("llama")
    with pytest.raises(ValueError, match=message):
        call(model, text(model) | named)


def test_lists_and_what_is_none_are_taken():
    model = tiny_model("llama")
    ids = tiny_inputs(model)["input_ids"]
    given = {"input_ids": ids.tolist(), "attention_mask": None, "past_key_values": None}
    assert torch.equal(layer_inputs(model, given), layer_inputs(model, ids))


def test_a_mask_of_sounds_is_refused_and_that_of_texts_is_not_one_of_images():
    model = tiny_model("wav2vec2")
    sound = dict(tiny_inputs(model))
    with pytest.raises(ValueError, match="attention_mask is followed of tokens alone"):
        layer_inputs(model, sound | {"attention_mask": torch.ones(2, 200, dtype=torch.long)})
    both = tiny_model("clip")
    given = dict(tiny_inputs(both))
    mask = torch.ones_like(given["input_ids"])
    mask[0, -2:] = 0
    rows = layer_inputs(both, given | {"attention_mask": mask}, stack="vision")
    assert torch.equal(rows, layer_inputs(both, given, stack="vision"))
    assert not layer_inputs(both, given | {"attention_mask": mask}, stack="text")[0, -2:].any()
