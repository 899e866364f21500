"""The atlas of heads in a real browser, from a file: its numbers against Python's, its controls and links."""

import numpy as np
import pytest
import torch

from analysis.maps.gates import GATES
from analysis.models import checkpoints, pretrained
from book.experiments import atlas_heads as heads
from tests.book.pages import play_pages

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("name", ["minilm", "gpt2-mini"])
def test_weights_and_values_are_the_models(fresh, name):
    checkpoint, text = checkpoints.find(name), heads.SENTENCES[1]
    model = pretrained.load(checkpoint, task=heads.MODELS[name], dtype=torch.float64)
    reading = heads.read(model, pretrained.tokenizer(checkpoint), text)
    fresh.get_by_label({"minilm": "MiniLM"}.get(name, name), exact=True).check(force=True)
    fresh.get_by_label("Sentence").select_option("1")
    assert fresh.locator(".play-word").all_inner_texts() == reading.tokens
    layers, count, n, _ = reading.weights.shape
    shown = np.array(
        fresh.evaluate(f"""() => {{ const {{ weight, moved }} = document.querySelector('.play').numbers;
      const range = n => [...Array(n).keys()];
      return range({layers}).map(l => range({count}).map(h => range({n}).map(
        i => [range({n}).map(j => weight(l, h, i, j)), moved(l, h, i)]))); }}""")
    )
    np.testing.assert_allclose(shown[..., 0, :], reading.weights, atol=0.004)
    moved = reading.weights * reading.lengths[:, :, None]
    np.testing.assert_allclose(shown[..., 1, :], moved / moved.sum(-1, keepdim=True), atol=0.03)


def test_a_head_silenced_by_hand_loses_what_the_record_says(record):
    checkpoint = checkpoints.find("gpt2-mini")
    model, tokenizer = pretrained.load(checkpoint, task="lm"), pretrained.tokenizer(checkpoint)
    inputs = [tokenizer(text, return_tensors="pt")["input_ids"] for text in heads.SENTENCES]

    def loss():
        with torch.no_grad():
            return np.mean([float(model(i, labels=i).loss) for i in inputs])

    whole = loss()
    values = slice(2 * 128 + 3 * 16, 2 * 128 + 4 * 16)
    model.transformer.h[1].attn.c_attn.weight.data[:, values] = 0
    model.transformer.h[1].attn.c_attn.bias.data[values] = 0
    assert loss() - whole == pytest.approx(float(record.array("gpt2-mini_effect")[1, 3]), abs=1e-4)


def test_what_the_table_says_is_the_record(fresh, record):
    fresh.get_by_label("Layer 1, head 4", exact=True).check(force=True)
    rows = dict(row.split("\t") for row in fresh.inner_text(".play-facts tbody").replace("\u00a0", " ").splitlines())
    assert rows["entropy, of the largest possible"] == f"{100 * record.array('minilm_entropy')[1, 4]:.0f} %"
    content = rows["content in the scores, counted from 0 (rest: semi-bias)"]
    assert content == f"{100 * record.array('minilm_content')[1, 4]:.0f} %"
    nearest = heads.CONSTRUCTED[record.array("minilm_nearest")[1, 4]]
    assert rows["nearest constructed head"].startswith(nearest)
    shares = {name: of for name, of in zip(GATES, record.array("minilm_shares")[1, 4], strict=True) if of >= 0.005}
    assert len([name for name in rows if name.endswith("gate")]) == len(shares)


def test_keyboard_looks_and_models(fresh):
    fresh.get_by_label("Layer 0, head 11", exact=True).focus()
    fresh.keyboard.press("ArrowRight")
    assert fresh.inner_text(".play-two .play-head >> nth=0") == "MiniLM, layer 1, head 0"
    fresh.get_by_label("gates", exact=True).check(force=True)
    legend = fresh.inner_text(".play-legend").splitlines()
    assert {"directional", "backward", "residual"} <= set(legend), "gates of other heads of the sheet have a colour too"
    fresh.get_by_label("gpt2-mini", exact=True).check(force=True)
    assert fresh.locator(".play-thumb").count() == 16
    fresh.locator(".play-map").focus()
    fresh.keyboard.press("End")
    assert "which the query does not see" in fresh.inner_text(".play-said")


def test_the_chapters_that_it_leads_to_exist(fresh):
    for link in fresh.locator(".play-two a").all():
        name = link.get_attribute("href").removesuffix(".html")
        assert (play_pages.ASSETS.parent / f"{name}.md").exists()
