"""The first screen of a report: heads before layers, which token the sink is, what positions are preferred."""

import numpy as np
import pytest
import torch

import analysis
from analysis.models import checkpoints, pretrained
from analysis.reporting import making, sections
from analysis.reporting.measurement import SinkKeys, measure_parameters
from analysis.reporting.observations import OF_HEADS
from analysis.reporting.summary import statements
from tests.analysis.reporting.random_models import make_random, save
from tests.analysis.reporting.test_comparison import said, seen, with_controls

TEXTS = ("The old bridge was closed because the river had risen.", "Nobody had seen the ferry since the week before.")


def with_sinks(positions: list[list[int]], tokens: list[list[str]]) -> str:
    """Return what is said of a sink in heads 0 and 1 of layer 0, whose keys are these by text and head."""
    own = seen(0)
    own.heads[0, :2, OF_HEADS.index("sink")] += 0.5
    measured = with_controls(own)
    where, what = np.full((len(tokens), 6, 4), 7), np.full((len(tokens), 6, 4), "of another head")
    where[:, 0, :2], what[:, 0, :2] = positions, tokens
    measured.sinks = SinkKeys(where, what)
    [sentence] = [of for of in said(measured) if of.startswith("Weight on one key")]
    return sentence


@pytest.mark.parametrize(
    ("positions", "tokens", "named"),
    [
        ([[0, 0], [0, 0]], [["[CLS]"] * 2] * 2, "all of them, on all 2 texts, this key is '[CLS]', the first token."),
        ([[0, 0], [0, 0]], [["The"] * 2, ["A"] * 2], "this key is the first token, whatever it is."),
        ([[9, 9], [5, 5]], [["[SEP]"] * 2] * 2, "In all of them, on all 2 texts, this key is '[SEP]'."),
        ([[0, 4], [3, 3]], [["[CLS]", "."], [".", "."]], "not always the same token: most often, in 75%, it is '.'."),
    ],
)
def test_the_token_of_the_sink_is_named(positions, tokens, named):
    assert with_sinks(positions, tokens).endswith(named)


def test_no_sink_is_named_where_none_is_beyond_the_controls():
    measured = with_controls(seen(0, previous=0.5))
    measured.sinks = SinkKeys(np.zeros((1, 6, 4), int), np.full((1, 6, 4), "[CLS]"))
    assert "[CLS]" not in " ".join(said(measured))


def test_the_keys_of_the_sinks_are_those_of_the_models_own_maps():
    checkpoint = checkpoints.find("gpt2-mini")
    model, tokenizer = pretrained.load(checkpoint), pretrained.tokenizer(checkpoint)
    ids = [tokenizer(text, return_tensors="pt")["input_ids"] for text in TEXTS]
    names = [making.name_tokens(tokenizer, of[0].tolist()) for of in ids]
    found = making.find_sinks(model, ids, names)
    model.set_attn_implementation("eager")
    for text, (positions, tokens) in enumerate(zip(found.positions, found.tokens, strict=True)):
        own = torch.cat(model(ids[text], output_attentions=True).attentions)
        due = own.mean(-2).argmax(-1)
        assert positions.tolist() == due.tolist()
        assert tokens.tolist() == [[names[text][place] for place in row] for row in due.tolist()]


def test_a_preference_for_positions_is_said_with_its_size_also_where_the_model_is_not_run():
    checkpoint = checkpoints.find("gpt2-mini")
    measured = measure_parameters(checkpoint, analysis.load(checkpoint))
    measured.not_run = "only its weights were asked for"
    [sentence] = map(str, statements(measured, None))
    curves = measured.position_curves
    half = curves.shape[1] // 2
    apart = curves[:, half:].mean(1) - curves[:, :half].mean(1)
    assert f"in 8 of 8 heads of the first layer, whatever the text is, most in head {apart.argmax()}: " in sentence
    assert sentence.startswith("A preference for late positions")
    assert f"{apart.max():.1f} nats between the halves" in sentence
    first = sections.make_sections(measured)[0]
    assert list(map(str, first.said)) == [sentence]
    measured.position_curves = -curves
    assert str(statements(measured, None)[0]).startswith("A preference for early positions in 8 of 8 heads")
    measured.about["Positions"] = "sinusoidal"
    assert statements(measured, None) == [], "nobody learned these"


@pytest.mark.slow
def test_a_model_that_puts_all_weight_on_its_first_token_is_said_to(tmp_path):
    """Plant a sink: queries alike, and a key that only the first token of a text has."""
    model = make_random("GPT2Config", seed=3, n_embd=64, n_layer=2, n_head=4)
    with torch.no_grad():
        model.wpe.weight[0] = 0
        model.wpe.weight[0, :2] = torch.tensor([3.0, -3.0])
        fused = model.h[0].attn.c_attn
        fused.weight[:, :16] = fused.weight[:, 64:80] = 0  # queries and keys of the first head
        fused.bias[0] = 8.0
        fused.weight[0, 64], fused.weight[1, 64] = 1.0, -1.0
    (tmp_path / "texts.txt").write_text("\n\n".join(TEXTS))
    page = analysis.report(save(model, tmp_path / "model"), out=tmp_path / "out", texts=tmp_path / "texts.txt")
    first_screen = page.read_text().split("<nav")[0]
    assert "<strong>Weight on one key (the attention sink)</strong> in 1 of 8 heads: layer 0, head 0 (" in first_screen
    assert "In all of them, on all 2 texts, this key is the first token, whatever it is." in first_screen
