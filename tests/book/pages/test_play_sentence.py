"""The viewer of the first page in a real browser, from a file: its numbers against Python, its controls, its links."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import GPTNeoXForCausalLM, PreTrainedTokenizerFast

from analysis.decomposition.terms import score_terms, six_terms
from analysis.models import checkpoints, pretrained
from analysis.models.reading import load
from analysis.transformer.attention import compute_scores, mask_future, project, softmax
from analysis.transformer.layernorm import apply_norm
from book.viewers import sentence, weights_script
from tests.book.pages import play_pages
from tests.book.pages.book_pages import PHONE

pytestmark = pytest.mark.browser
TOLERANCE = 1e-2  # nats, of scores from half-precision weights
SENTENCES = (
    sentence.TEXT,
    "The function returns a list of the names.",
    "If x is None, a TypeError is raised.",
    "for i in range(10):\n    print(i, i ** 2)",
    "It's what they've said: we'd rather not.",
    "a a a a a a a a",
    "Gr\u00fc\u00dfe aus K\u00f6ln \U0001f600\u00a0!",
    "  two  blanks\tand a tab \n\n",
    "zyx 12345 3.14 __init__",
    "The class attribute is looked up in the dictionary of the class, and then in those of its base classes.",
)
RUN = """async ([text, off, name]) => {
  const model = await Play.model(name || "gpt2-mini"), ids = model.tokenizer.encode(text);
  const out = model.run(ids, new Set(off));
  return { ids, heads: out.layers, next: Array.from(out.next(ids.length - 1)) };
}"""


@pytest.fixture(scope="module")
def opened(browser, page_file):
    tab = play_pages.Tab(browser)
    yield tab.open(page_file)
    tab.close()


@pytest.fixture
def fresh(browser, page_file):
    tab = play_pages.Tab(browser, PHONE)
    page = tab.open(page_file)
    page.click(".play-more > summary")
    yield page
    tab.close()


class Reference:
    """gpt2-mini in float64 by the package and transformers, with the same switches."""

    def __init__(self):
        self.checkpoint = checkpoints.find("gpt2-mini")
        self.tokenizer = pretrained.tokenizer(self.checkpoint)
        self.model = pretrained.load(self.checkpoint, task="lm", dtype=torch.float64)

    def layer(self, n, off):
        weights = load(self.checkpoint, dtype=torch.float64).layers[n].plain()
        biases = {name: torch.zeros_like(getattr(weights, name)) for name in ("b_Q", "b_K", "b_V") if name in off}
        if "long_b_K" in off:
            lengths = weights.b_Q.norm(dim=-1, keepdim=True) / weights.b_K.norm(dim=-1, keepdim=True)
            biases["b_K"] = 4 * lengths * weights.b_K
        return replace(weights, **biases), load(self.checkpoint, dtype=torch.float64).norm("attention", n)

    @torch.no_grad()
    def run(self, text, off):
        inside = self.model.transformer
        ids = self.tokenizer.encode(text)
        e, p = inside.wte.weight[ids], inside.wpe.weight[: len(ids)] * ("positions" not in off)
        stream, maps, terms = e + p, [], []
        future = torch.ones(len(ids), len(ids)).triu(1).bool()
        for n, block in enumerate(inside.h):
            weights, ln = self.layer(n, off)
            x = apply_norm(stream, ln)
            scores = compute_scores(x, weights)
            six = six_terms(e, p, weights, ln) if n == 0 else None
            for name, part in (("T^p", six.p[:, None]), ("T^pp", six.pp)) if n == 0 else ():
                scores = scores - part if name in off else scores
            maps.append(scores)
            terms.append(score_terms(x, weights))
            attention = softmax(scores.masked_fill(future, -torch.inf))
            values = project(x, weights.W_V, weights.b_V)
            stream = stream + torch.einsum("hqk,hkc,hcm->qm", attention, values, weights.W_O) + weights.b_O
            stream = stream + block.mlp(block.ln_2(stream))
        return ids, maps, terms, torch.softmax(self.model.lm_head(inside.ln_f(stream[-1])), -1)


@pytest.fixture(scope="module")
def reference():
    return Reference()


def test_the_reference_is_the_model(reference):
    ids, _, _, following = reference.run(SENTENCES[0], set())
    due = torch.softmax(reference.model(torch.tensor([ids])).logits[0, -1], -1)
    torch.testing.assert_close(following, due, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "off",
    [(), ("b_Q", "b_V"), ("positions", "b_K"), ("long_b_K",), ("T^p",), ("T^pp",), ("T^p", "T^pp", "b_Q")],
    ids=lambda off: " ".join(off) or "whole",
)
def test_scores_parts_and_predictions_are_those_of_python(opened, reference, off):
    for text in SENTENCES[:2] if off else SENTENCES:
        page = opened.evaluate(RUN, [text, list(off)])
        ids, maps, terms, following = reference.run(text, set(off))
        assert page["ids"] == ids
        for heads, scores, parts in zip(page["heads"], maps, terms, strict=True):
            by_part = {part: np.array([head[part] for head in heads]) for part in heads[0]}
            assert np.abs(by_part["scores"] - scores.numpy()).max() < TOLERANCE
            assert np.allclose(by_part["content"] + by_part["semiBias"] + by_part["constants"], by_part["scores"])
            if not {"T^p", "T^pp"} & set(off):
                assert np.abs(by_part["semiBias"] - parts.semi_bias.numpy()).max() < TOLERANCE
                assert np.abs(by_part["content"] - parts.content.numpy()).max() < TOLERANCE
        assert np.abs(np.array(page["next"]) - following.numpy()).max() < TOLERANCE


@pytest.mark.parametrize("off", [(), ("b_Q",), ("b_K",), ("b_V",)], ids=lambda off: " ".join(off) or "whole")
def test_neox_mini_attends_and_predicts_as_in_python(opened, off):
    folder = weights_script.BUNDLED / "neox-mini"
    model = GPTNeoXForCausalLM.from_pretrained(folder, attn_implementation="eager", dtype=torch.float64).eval()
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    for layer in model.gpt_neox.layers:
        by_head = layer.attention.query_key_value.bias.data.view(8, 3, 16)
        for name in off:
            by_head[:, ("b_Q", "b_K", "b_V").index(name)] = 0
    for text in SENTENCES[:3] if off else SENTENCES:
        page = opened.evaluate(RUN, [text, list(off), "neox-mini"])
        with torch.no_grad():
            due = model(torch.tensor([tokenizer.encode(text)]), output_attentions=True)
        assert page["ids"] == tokenizer.encode(text)
        for heads, maps in zip(page["heads"], due.attentions, strict=True):
            scores, logs = np.array([head["scores"] for head in heads]), maps[0].log().numpy()
            apart = (scores - scores[..., :1]) - (logs - logs[..., :1])  # scores are known up to a row's constant
            assert np.abs(apart[np.isfinite(apart)]).max() < TOLERANCE
        assert np.abs(np.array(page["next"]) - due.logits[0, -1].softmax(-1).numpy()).max() < TOLERANCE


def numbers(page):
    return page.eval_on_selector(".play-effect", "e => ({moved: +e.dataset.moved, shifted: +e.dataset.shifted})")


def switch(page, name):
    page.locator(".play-toggle", has_text=name).locator("input").first.click()


def test_the_key_bias_changes_nothing_and_every_other_switch_the_prediction(fresh):
    own = "Its own key bias is almost zero, so its constants are too."
    assert fresh.inner_text(".play-effect") == f"The model is as it was trained. {own}"
    for name in ("bQ", "bV", "positions"):
        switch(fresh, name)
        assert numbers(fresh)["shifted"] > 1e-3, name
        shown = fresh.locator(".play-next tbody tr").first.locator("td")
        assert shown.nth(0).get_attribute("data-value") != shown.nth(1).get_attribute("data-value"), name
        switch(fresh, name)
        assert numbers(fresh)["shifted"] == 0, name
    switch(fresh, "bK")
    assert numbers(fresh)["moved"] < 1e-12
    assert numbers(fresh)["shifted"] < 1e-12
    due = "Without the key bias, nothing changed: no attention weight, no prediction."
    assert fresh.inner_text(".play-effect") == due


def test_typing_reads_the_new_sentence(fresh):
    fresh.get_by_label("Type your own sentence").fill("The value of the name")
    assert fresh.locator(".play-word").all_inner_texts() == ["The", "value", "of", "the", "name"]
    fresh.get_by_label("Type your own sentence").fill("")
    assert "at least one letter" in fresh.inner_text(".play-note")
    assert fresh.locator(".play-word").count() == 5
    fresh.get_by_label("Type your own sentence").fill("x " * 60)
    assert "the first 48 are shown" in fresh.inner_text(".play-note")
    assert fresh.locator(".play-word").count() == 48


def test_what_is_said_are_the_numbers_of_the_cell(fresh, reference):
    h, i, j = (sentence.START[name] for name in ("head", "query", "key"))
    _, maps, terms, _ = reference.run(sentence.TEXT, set())
    assert terms[0].semi_bias[:, 0].std(1).argmax() == h
    weights = mask_future(maps[0])[h].softmax(-1).tril(-1)
    assert weights[len(weights) * 2 // 3 :].max() == weights[i, j]
    due = terms[0].content[h, i, j], terms[0].semi_bias[h, 0, j], maps[0][h, i, j]
    words = fresh.inner_text(".play-said").replace("\u2212", "-").replace(" nats", "")
    said = [float(words.split(name)[1].split()[0].strip(";+=")) for name in ("content", "semi-bias", "score")]
    assert np.allclose(said, due, atol=TOLERANCE + 0.005)


def test_the_keyboard_walks_over_map_heads_and_words(fresh):
    fresh.locator(".play-map").focus()
    before = fresh.inner_text(".play-said b")
    fresh.keyboard.press("ArrowUp")
    fresh.keyboard.press("Home")
    after = fresh.inner_text(".play-said b")
    assert after != before
    assert after.endswith("to \u201cIf\u201d")
    fresh.get_by_label("Layer 0, head 7").focus()
    fresh.keyboard.press("ArrowRight")
    assert fresh.evaluate("document.activeElement.getAttribute('aria-label')") == "Layer 1, head 0"
    fresh.get_by_label("name, position 2").check(force=True)
    assert fresh.inner_text(".play-said b").startswith("\u201cname\u201d")


def test_phone_paper_and_axe(fresh):
    ink = """() => { const c = document.querySelector('.play-map canvas'), p = c.getContext('2d');
      const at = (x, y) => [...p.getImageData(x * c.width, y * c.height, 1, 1).data].join();
      return [at(.25, .99), at(.97, .3)]; }"""
    seen, masked = fresh.evaluate(ink)
    assert seen.endswith(",255")
    assert masked == "0,0,0,0"
    for box in fresh.locator(".play-toggle").all():
        assert box.bounding_box()["height"] >= 24
    assert not fresh.locator("figure > img").is_visible()


def test_the_model_is_loaded_when_the_viewer_comes_into_view(browser, tmp_path):
    tab = play_pages.Tab(browser)
    tab.page.goto(play_pages.write(tmp_path, "sentence", before=play_pages.SPACE).as_uri(), wait_until="load")
    tab.page.wait_for_function("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert not [url for url in tab.requests if url.endswith("gpt2-mini.js")]
    tab.page.locator("figure").scroll_into_view_if_needed()
    tab.page.locator(".play[data-ready]").wait_for()
    assert [url for url in tab.requests if url.endswith("gpt2-mini.js")]
    tab.close()


def test_where_the_model_is_missing_the_picture_stays(browser, tmp_path):
    file = play_pages.write(tmp_path, "sentence")
    (tmp_path / "play" / "gpt2-mini.js").unlink()
    tab = play_pages.Tab(browser)
    tab.page.goto(file.as_uri())
    tab.page.locator(".play-error").wait_for()
    assert "gpt2-mini.js could not be loaded" in tab.page.inner_text(".play-error")
    assert tab.page.locator("figure > img").is_visible()
    tab.context.close()


def test_the_number_beside_a_centred_map_is_that_of_the_cells_colour(fresh):
    fresh.get_by_label("semi-bias", exact=True).check(force=True)
    said = fresh.inner_text(".play-said").replace("\u2212", "-")
    own, apart = (float(re.search(rf"{before} \+?(-?[\d.]+)", said)[1]) for before in ("semi-bias", "colour is for"))
    assert "key semi-bias less its mean over the map" in said
    shown = fresh.evaluate("""async () => {
      const model = await Play.model("gpt2-mini"), text = document.querySelector("input[type=text]").value;
      const state = new URLSearchParams(document.querySelector(".play-link").href.split("?")[1]);
      const find = name => Number([...state].find(([key]) => key.endsWith(name))[1]);
      const head = model.run(model.tokenizer.encode(text), new Set()).layers[find("layer")][find("head")];
      return head.semiBias.map((row, i) => row.slice(0, i + 1));
    }""")
    mean = np.mean([score for row in shown for score in row])
    assert own - apart == pytest.approx(mean, abs=0.011)
    assert abs(mean) > 0.05, "of a mean near 0 nothing could be told"
