"""What experiments compute of a tiny BERT or of gpt2-mini, held to weights that were changed by hand and to sums."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from analysis.data import texts
from analysis.models import checkpoints, pretrained
from analysis.models.controls import SHARP, make_controls
from analysis.models.reading import load
from book.studies.atlas import heads as atlas
from book.studies.bert_gates import controls as gates_controls
from book.studies.bert_gates import interventions
from book.studies.one_score_four_parts import parts
from book.studies.semi_bias import experiments as semi_bias
from book.studies.semi_bias import first_layer, locality
from tests.analysis.tiny import random_layer
from tests.book.studies.known import save_bert

CPU = torch.device("cpu")
LAYERS, HEADS, CHANNEL = 2, 3, 8
TEXTS = ("A few words.", "The cat sat on the mat and looked at the other cat.")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A BERT of two layers and three heads, all parameters random, with MiniLM's words."""
    path = tmp_path_factory.mktemp("bert") / "tiny"
    shape = {"num_attention_heads": HEADS, "hidden_size": HEADS * CHANNEL, "intermediate_size": 48}
    return save_bert(path, noise=0.2, max_position_embeddings=48, **shape)


@pytest.fixture
def minilm(tiny, monkeypatch):
    """The tiny model in the place of MiniLM."""
    monkeypatch.setattr(checkpoints, "find", lambda name: tiny)
    return tiny


def embedding(model, ids):
    """The mean of the last rows."""
    with torch.no_grad():
        return model(**ids).last_hidden_state[0].double().mean(0).numpy()


def turn(a, b):
    """One less the cosine."""
    return 1 - a @ b / np.sqrt((a @ a) * (b @ b))


def test_heads_are_silenced_and_levelled_one_at_a_time(minilm):
    tokenizer = pretrained.tokenizer(minilm)
    model = pretrained.load(minilm, attention="sdpa")
    found, whole = interventions.measure_effects(model, tokenizer, TEXTS)
    assert found.shape == (2, LAYERS, HEADS, 2)
    for i, text in enumerate(TEXTS):
        ids = tokenizer(text, return_tensors="pt")
        own = embedding(model, ids)
        np.testing.assert_allclose(whole[i], own, rtol=1e-4, atol=1e-6)
        for layer in range(LAYERS):
            for head in range(HEADS):
                silent, level = (pretrained.load(minilm, attention="sdpa") for _ in range(2))
                at = slice(head * CHANNEL, (head + 1) * CHANNEL)
                with torch.no_grad():
                    silent.encoder.layer[layer].attention.output.dense.weight[:, at] = 0
                    query = level.encoder.layer[layer].attention.self.query
                    query.weight[at], query.bias[at] = 0, 0
                due = [turn(embedding(changed, ids), own) for changed in (silent, level)]
                np.testing.assert_allclose(found[i, layer, head], due, rtol=1e-2, atol=1e-6)


def test_the_turn_of_a_head_is_beside_that_between_texts(minilm, monkeypatch):
    monkeypatch.setattr(interventions.texts, "passages", lambda longest: [*TEXTS, "Rain.", "x"])
    monkeypatch.setattr(interventions, "TEXTS", 3)
    found = interventions.compute(CPU)
    tokenizer = pretrained.tokenizer(minilm)
    for prefix, seed in {"": None, "control_": 0}.items():
        model = pretrained.load(minilm, control_seed=seed, attention="sdpa")
        effect, whole = interventions.measure_effects(model, tokenizer, [*TEXTS, "Rain."])
        np.testing.assert_allclose(found.arrays[f"{prefix}zero"], effect[..., 0], atol=1e-6)
        np.testing.assert_allclose(found.arrays[f"{prefix}uniform"], effect[..., 1], atol=1e-6)
        between = [turn(whole[i], whole[j]) for i, j in ((0, 1), (0, 2), (1, 2))]
        assert found.values[f"{prefix}between_texts"].value == pytest.approx(np.mean(between), rel=1e-2, abs=1e-6)
        assert found.values[f"{prefix}between_texts"].n == 3


def test_columns_with_and_without_the_type_and_the_turn_where_one_volume_is_taken(minilm, monkeypatch):
    documents = [SimpleNamespace(text=text) for text in TEXTS[::-1]]
    monkeypatch.setattr(gates_controls, "load_documents", lambda each=None: documents[:1] if each else documents)
    for longest in ("LONGEST", "LONGEST_OF_MAPS"):
        monkeypatch.setattr(gates_controls, longest, 48)
    found = gates_controls.try_objections(CPU).arrays
    assert found["columns"].shape == found["patterned"].shape == (5, 2)
    tokenizer, trained = pretrained.tokenizer(minilm), pretrained.load(minilm)
    drawn = make_controls(trained, lambda seed: pretrained.load(minilm, control_seed=seed), rungs=(SHARP,))
    for seed, control in enumerate(drawn):
        for k, factor in enumerate((1, 0)):
            with torch.no_grad():
                control.network.embeddings.token_type_embeddings.weight.mul_(factor)
                states = control.network(**tokenizer(TEXTS[1], return_tensors="pt"), output_hidden_states=True)
            layers = load(control.network).plain_layers()
            read = [gates_controls.read_layer(x[0], layer, layer.b_Q) for x, layer in zip(states.hidden_states, layers)]
            columns = np.mean([layer["gates"][gates_controls.DIRECTIONAL] for layer in read])
            patterned = np.mean([layer["patterned"] for layer in read])
            assert found["columns"][seed, k] == pytest.approx(columns, abs=1e-4)
            assert found["patterned"][seed, k] == pytest.approx(patterned, abs=1e-6)
    model = trained.double()
    layers = load(model).encoder_layers()
    for i, text in enumerate(TEXTS[::-1]):
        with torch.no_grad():
            states = model(**tokenizer(text, return_tensors="pt"), output_hidden_states=True).hidden_states
        rows, _ = gates_controls.run_without(
            states[0][0], layers, lambda maps: maps * gates_controls.choose_sink(maps), gates_controls.hold_volume
        )
        held = turn(rows.mean(0).numpy(), states[-1][0].mean(0).numpy())
        assert found["held"][i] == pytest.approx(held, rel=1e-3)
        assert held > 1e-7


def test_a_sentence_is_read_with_the_lengths_of_what_each_key_brings(minilm):
    model, tokenizer = pretrained.load(minilm, dtype=torch.float64), pretrained.tokenizer(minilm)
    found = atlas.read(model, tokenizer, TEXTS[1])
    with torch.no_grad():
        out = model(**tokenizer(TEXTS[1], return_tensors="pt"), output_hidden_states=True, output_attentions=True)
    assert found.tokens[:3] == ["[CLS]", "the", "cat"]
    for i, layer in enumerate(load(model).layers):
        x = out.hidden_states[i][0]
        for h in range(HEADS):
            brought = (x @ layer.W_V[h] + layer.b_V[h]) @ layer.W_O[h]
            torch.testing.assert_close(found.lengths[i, h], brought.square().sum(1).sqrt())
            torch.testing.assert_close(found.weights[i, h], out.attentions[i][0, h])
            keys = x @ layer.W_K[h]
            content = x @ layer.W_Q[h] @ keys.T / CHANNEL**0.5
            semi = layer.b_Q[h] @ keys.T / CHANNEL**0.5
            share = content.var(1, correction=0).mean() / (content.var(1, correction=0).mean() + semi.var(correction=0))
            assert found.content[i, h].item() == pytest.approx(share.item())


def test_parts_of_the_divergence_text_by_text_have_the_mean_of_all():
    layer = random_layer()
    xs = [torch.randn(n, 12, generator=torch.Generator().manual_seed(n), dtype=torch.float64) / 5 for n in (5, 9)]
    whole, mean, _, by_text, _ = parts.split_layer(xs, layer, True)
    assert (whole.shape, by_text.shape) == ((3,), (2, *mean.shape))
    np.testing.assert_allclose(by_text.mean(0), mean)
    np.testing.assert_allclose(mean.sum(1), whole)
    assert abs(by_text[0] - by_text[1]).max() > 1e-3


def test_seeds_are_traced_with_their_ends(monkeypatch):
    steps = np.array([0, 1, 2, 4])
    generator = np.random.default_rng(0)
    traces = {}
    for seed in semi_bias.SEEDS:
        traces[seed] = {name: generator.uniform(-0.4, 0.4, (4, 2, 3)) for name in semi_bias.KEPT} | {"step": steps}
        traces[seed]["held_out"] = np.array([5.0, 4, 3, 2 + seed / 10])
        traces[seed]["loss"] = np.arange(4.0)
        traces[seed]["rank_correlation"][:, 1] = 0.9  # of the second layer, which is not asked
    traces[0]["rank_correlation"][2:, 0, :2] = 0.75
    traces[1]["rank_correlation"][1:, 0] = 0.75
    monkeypatch.setattr(semi_bias, "find_run", lambda seed, device: (seed, device))
    monkeypatch.setattr(semi_bias.gpt2_mini, "read_trace", lambda folder: ("card", traces[folder[0]]))
    monkeypatch.setattr(semi_bias, "count_tokens", lambda device: SimpleNamespace(arrays={"per_million": [3.0, 1.0]}))
    ends = lambda folder, frequency, device: {"tilt": frequency.numpy() * (folder[0] + 1)}  # noqa: E731
    monkeypatch.setattr(semi_bias.locality, "measure", ends)
    monkeypatch.setattr(semi_bias.locality, "measure_ladder", lambda folder, device: np.array([folder[0] + 7]))
    found = semi_bias.trace_seeds(CPU)
    for name in semi_bias.KEPT:
        np.testing.assert_allclose(found.arrays[name], np.stack([traces[s][name] for s in semi_bias.SEEDS]), rtol=1e-6)
    assert [found.values[f"held_out_{s}"].value for s in semi_bias.SEEDS] == pytest.approx(
        [2 + s / 10 for s in semi_bias.SEEDS]
    )
    recent = [found.values[f"recent_heads_{seed}"].value for seed in semi_bias.SEEDS]
    assert recent == [2, 3, *[0] * (len(recent) - 2)]
    assert found.values["recent_heads_0"].n == 3
    assert [found.values[f"appears_{seed}"].value for seed in (0, 1, 2)] == [2, 1, -1]
    assert found.arrays["tilt"].tolist() == [[3 * (s + 1), s + 1] for s in semi_bias.SEEDS]
    assert found.arrays["ladder"].tolist() == [7]
    assert found.arrays["step"].tolist() == steps.tolist()


def test_tokens_are_counted_in_a_million(monkeypatch):
    text = "\n\n".join(texts.passages(count=2))
    monkeypatch.setattr(semi_bias.texts, "corpus", lambda: text)
    found = semi_bias.count_tokens(CPU)
    checkpoint = checkpoints.find("gpt2-mini")
    ids = pretrained.tokenizer(checkpoint)(text)["input_ids"]
    rows = len(load(checkpoint).tokens)
    assert found.values["tokens"].value == len(ids)
    assert found.values["never"].value == rows - len(set(ids))
    assert found.values["never"].n == rows
    due = np.array([ids.count(token) for token in range(rows)]) / len(ids) * 1e6
    np.testing.assert_allclose(found.arrays["per_million"], due, rtol=1e-6)


def test_the_end_of_a_training_is_measured_on_its_first_layer(monkeypatch):
    monkeypatch.setattr(first_layer, "WINDOWS", 3)
    monkeypatch.setattr(locality, "TEXTS", 2)
    checkpoint = checkpoints.find("gpt2-mini")
    layer = first_layer.read(checkpoint)
    rows = len(layer.tokens)
    frequency = torch.rand(rows, generator=torch.Generator().manual_seed(0))
    asked = []
    overlap = lambda layer, windows: asked.append(windows) or (double_of(layer), None)  # noqa: E731
    monkeypatch.setattr(locality, "overlap_with_text", overlap)
    monkeypatch.setattr(locality, "tilt", lambda layer: np.array([[1.0, 2.0]]))
    found = locality.measure(checkpoint.folder, frequency)
    assert found["tilt"].tolist() == [[1, 2]]
    ids = pretrained.tokenizer(checkpoint)("\n\n".join(texts.passages()))["input_ids"]
    assert asked[0].shape == (2, locality.gpt2_mini.CONTEXT)
    assert asked[0][0].tolist() == ids[: locality.gpt2_mini.CONTEXT]
    scores = [
        layer.tokens @ layer.weights.W_K[h] @ layer.weights.b_Q[h] / layer.weights.channel**0.5
        for h in range(layer.weights.heads)
    ]
    norms = layer.tokens.square().sum(1).sqrt()
    plain = [spearmanr(norms, row).statistic for row in scores]
    assert found["tokens"][0].tolist() == pytest.approx(plain, abs=1e-6)
    with_norm = spearmanr(norms, frequency).statistic
    with_frequency = [spearmanr(frequency, row).statistic for row in scores]
    partial = [
        (own - with_norm * other) / np.sqrt((1 - with_norm**2) * (1 - other**2))
        for own, other in zip(plain, with_frequency)
    ]
    assert found["tokens"][1].tolist() == pytest.approx(partial, abs=1e-6)
    model = pretrained.load(checkpoint, task="lm", dtype=torch.float64)
    context = locality.gpt2_mini.CONTEXT
    every = [ids[i : i + context + 1] for i in range(0, len(ids) - context, context)]
    windows = torch.tensor([every[k * len(every) // 3] for k in range(3)])
    losses = []
    for cut in (None, layer.weights.heads * layer.weights.channel):
        with torch.no_grad():
            if cut:
                model.transformer.h[0].attn.c_attn.bias[:cut] = 0
            logs = model(windows[:, :-1]).logits.log_softmax(-1)
        losses.append(-logs.gather(-1, windows[:, 1:, None]).mean().item())
    assert found["losses"].tolist() == pytest.approx(losses, rel=1e-6)
    assert found["losses"][0] != found["losses"][1]


def double_of(layer):
    """One number a head."""
    return torch.arange(layer.weights.heads).double()
