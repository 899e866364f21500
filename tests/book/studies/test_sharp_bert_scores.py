"""The similarity of rows in a BERT: positions, order, terms and architecture, with answers known by hand."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from analysis.transformer.positional_encodings import sinusoidal_positions
from book.studies.bert_similarity import asymmetry, cone, controls, networks, terms
from tests.book.studies.known import double, plain


def test_a_table_of_sines_knows_distance_only_and_has_rows_of_one_length(monkeypatch):
    table = sinusoidal_positions(7, 6)
    monkeypatch.setattr(cone, "load", lambda *_, **__: SimpleNamespace(positions=3 * table))
    found = cone.measure_positions(SimpleNamespace(checkpoint=SimpleNamespace(name="sines")))
    assert (found.learned_defect, found.sines_norm_spread) == (pytest.approx(0, abs=1e-12), pytest.approx(0, abs=1e-12))
    assert found.learned_norms == pytest.approx((27**0.5, 27**0.5))
    torch.testing.assert_close(found.tables["fixed sines"], table)
    assert torch.equal(
        found.tables["random"], torch.randn(7, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    )


def test_the_largest_change_of_a_softmax_is_told(monkeypatch):
    """With squares in the place of the softmax, 5 more changes a score of s by 10 s + 25."""
    monkeypatch.setattr(networks, "softmax", torch.square)
    monkeypatch.setattr(networks, "encode", lambda x, layers: [x, x])
    monkeypatch.setattr(networks.extraction, "accepts", lambda *_: True)
    monkeypatch.setattr(networks.extraction, "count_parameters", lambda *_: 0)
    x = double([1, 0], [0, 2])
    layer = plain(2, W_Q=torch.eye(2), W_K=torch.eye(2))
    trained = SimpleNamespace(attention=[layer], layers=[None], states=[torch.stack([x, x])])

    class Network:
        config = SimpleNamespace(max_position_embeddings=2)
        encoder = SimpleNamespace(
            layer=[SimpleNamespace(attention=SimpleNamespace(self=SimpleNamespace(query=lambda rows: rows)))]
        )

        def __call__(self, tokens, output_attentions):
            return SimpleNamespace(attentions=[torch.zeros(1, 1, 2, 2).double()])

    found = networks.measure_architecture(
        SimpleNamespace(trained=trained, network=Network(), tokens=torch.zeros(1, 2)), 0
    )
    assert found.shift_error == pytest.approx(10 * 4 / 2**0.5 + 25)
    assert (found.attention_gap, found.row_sum_error) == (pytest.approx((4 / 2**0.5) ** 2), 1)
    assert (found.order_gap, found.added_to_queries, found.added_unevenly) == (0, 0, 0)


@pytest.mark.parametrize(("limit", "longest"), [(512, 128), (40, 40)])
def test_texts_are_as_long_as_both_the_chapter_and_the_model_allow(monkeypatch, limit, longest):
    asked = []

    def tokenizer(text, **options):
        asked.append((text, options["max_length"]))
        return {"input_ids": torch.zeros(1, 3)}

    monkeypatch.setattr(networks.checkpoints, "find", lambda name: name)
    monkeypatch.setattr(networks.pretrained, "tokenizer", lambda checkpoint: tokenizer)
    monkeypatch.setattr(networks.pretrained, "load", lambda checkpoint, control_seed, device: control_seed)
    monkeypatch.setattr(
        networks.texts_at_hand, "passages", lambda count, source: [f"{source} {k}" for k in range(count)]
    )
    config = SimpleNamespace(max_position_embeddings=limit)
    monkeypatch.setattr(networks, "load", lambda checkpoint: SimpleNamespace(config=config))
    monkeypatch.setattr(
        networks.extraction, "observe", lambda network, tokenizer, texts, length: (network, len(texts), length)
    )
    found = networks.observe_models(SimpleNamespace(model="m", texts="text", device="cpu"))
    assert asked == [("text 0", longest)]
    assert (found.trained, found.control) == ((None, 16, longest), (0, 16, longest))
    assert (found.network, found.both) == (None, {"trained": found.trained, "control": found.control})


def test_a_causal_layer_is_held_to_the_first_text_and_layer_of_the_control(monkeypatch):
    monkeypatch.setattr(cone.extraction, "order_sensitivity", lambda *_: 0.0)
    eye = torch.eye(2).double()
    x, other = double([1, 0], [0, 2], [4, 0]), double([5, 5], [5, 5], [5, 5])
    layers = [plain(2, W_V=eye, W_O=eye), plain(2, W_V=eye, W_O=0 * eye)]
    control = SimpleNamespace(states=[[x, other], [other, other]], attention=layers)
    embeddings = SimpleNamespace(position_embeddings=SimpleNamespace(weight=eye.clone()))
    subjects = SimpleNamespace(
        network=SimpleNamespace(embeddings=embeddings), tokens=torch.zeros(1, 3), control=control
    )
    order = torch.randperm(3, generator=torch.Generator().manual_seed(0)).numpy()
    assert order.tolist() != [0, 1, 2]
    so_far = [[rows[: k + 1].mean(0) for k in range(3)] for rows in (x.numpy(), x.numpy()[order])]
    one, moved = (np.array(rows) for rows in so_far)
    due = np.linalg.norm(one[order] - moved) / np.linalg.norm(one[order])
    assert cone.measure_order(subjects).causal == pytest.approx(due)


def test_forms_are_drawn_under_their_titles():
    names = {"content alone": 1.0, "content less its common part, equal spread": 2.0, "control": 4.0}
    values = names | {"symmetric part of M, equal spread": 3.0, "as trained": 9.0}
    of = asymmetry.Asymmetry(
        scores={name: np.full(2, value) for name, value in values.items()},
        attention={name: np.full(2, -value) for name, value in values.items()},
        over_texts={},
        spread={},
        texts=1,
        negative={},
    )
    titles = (
        "with the whole of M",
        "without what all words ask alike",
        "with the symmetric half of M",
        "random weights",
    )
    assert {name: each[0] for name, each in of.drawn_scores.items()} == dict(zip(titles, (1, 2, 3, 4), strict=True))
    assert {name: each[0] for name, each in of.drawn_attention.items()} == dict(
        zip(titles, (-1, -2, -3, -4), strict=True)
    )


def test_biases_are_measured_over_all_layers_and_texts(monkeypatch):
    """Two layers and two texts: what moves is told by layer, the mean over texts; the ratio of biases over layers."""
    eye = torch.eye(2).double()
    layers = [
        plain(2, W_Q=eye, W_K=eye, b_Q=double(3, 0), b_K=double(0, 1)),
        plain(2, W_Q=eye, W_K=2 * eye, b_Q=double(0, 4), b_K=double(0, 2)),
    ]
    texts = [torch.stack([k * eye + 1, k * eye + 2, k * eye]) for k in (1.0, 2.0)]
    trained = SimpleNamespace(attention=layers, states=texts)
    control = SimpleNamespace(attention=layers[:1], states=texts)

    def moved(x, layer, instead):
        gone = 10 if not instead.b_Q.any() else 1
        return torch.stack([x[0, 0] * gone, x[0, 0] * gone * layer.W_K[0, 0, 0]])

    monkeypatch.setattr(terms.distance, "attention_moved", moved)
    found = terms.measure_terms(SimpleNamespace(trained=trained, control=control), 1)
    assert [each.value for each in found.without_b_K] == pytest.approx([2.5, 3.5 * 1.5])
    assert [each.value for each in found.without_b_Q] == pytest.approx([25, 35 * 1.5])
    assert [each.value for each in found.control_without_b_Q] == pytest.approx([25])
    assert found.key_bias_ratio == pytest.approx(5**0.5 / 5)
    assert max(found.model_error, found.dropped_gap) < 1e-9
    assert 0 < found.random_error < 1e-12


def test_terms_that_do_not_add_up_are_told(monkeypatch):
    """Scores that are off by a number that grows along the rows: what is left out moves the attention."""
    eye = torch.eye(2).double()
    layer = plain(2, W_Q=eye, W_K=eye, b_Q=double(1, 0))
    x = double([1, 0], [0, 1])
    trained = SimpleNamespace(attention=[layer], states=[torch.stack([x, x])])
    scores = terms.compute_scores(x, layer)
    off = double([[0, 1], [0, 3]])
    monkeypatch.setattr(terms, "compute_scores", lambda rows, weights: scores + off if rows is not None else None)
    monkeypatch.setattr(terms, "four_term_error", lambda device: 0.25)
    found = terms.measure_terms(SimpleNamespace(trained=trained, control=trained), 0)
    assert (found.model_error, found.random_error) == (3, 0.25)
    own = [torch.softmax(each, -1) for each in (scores, scores + off)]
    assert found.dropped_gap == pytest.approx((own[0] - own[1]).abs().max().item())


def softmax(scores):
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def antisymmetric(table):
    """Return the share of the squares that is antisymmetric."""
    return np.square(table - table.T).sum() / 4 / np.square(table).sum()


def test_a_layer_of_three_unlike_heads_is_measured_head_by_head_and_row_by_row():
    """Five rows of four coordinates and heads of three channels, all once more in numpy."""
    generator = torch.Generator().manual_seed(5)
    layer = plain(4, 3, W_Q=torch.zeros(4, 3), W_K=torch.zeros(4, 3), W_V=torch.zeros(4, 3), W_O=torch.zeros(3, 4))
    for name in ("W_Q", "W_K", "W_V", "b_Q", "b_K", "b_V"):
        of = getattr(layer, name)
        of[:] = torch.randn(of.shape, generator=generator, dtype=torch.float64) * 0.4
        of *= double(0.5, 1, 2.5).reshape(3, *[1] * (of.ndim - 1))
    rows = torch.randn(5, 4, generator=generator, dtype=torch.float64) + 0.3
    found, x = controls.measure_layer(rows, layer), rows.numpy()
    long = np.linalg.norm(x, axis=1)
    for k, name in enumerate("QKV"):
        W, b = getattr(layer, f"W_{name}").numpy(), getattr(layer, f"b_{name}").numpy()
        sigma = np.array([np.linalg.norm(each, 2) for each in W])
        growth = np.array([np.linalg.norm(x @ each + bias, axis=1) / long for each, bias in zip(W, b, strict=True)])
        place = [np.linalg.norm(x @ each, axis=1) / long / size for each, size in zip(W, sigma, strict=True)]
        assert found["sigma"][k] == pytest.approx(sorted(sigma)[1])
        assert found["sigma above 1"][k] == pytest.approx((sigma > 1).mean())
        assert found["amplified"][k] == pytest.approx((growth > 1).mean())
        assert found["amplified jointly"][k] == pytest.approx((np.square(growth).sum(0) > 1).mean())
        assert found["cone"][k] == pytest.approx(np.median(place))
    W_Q, W_K, b_Q, b_K = (getattr(layer, name).numpy() for name in ("W_Q", "W_K", "b_Q", "b_K"))
    keys = [x @ W + b for W, b in zip(W_K, b_K, strict=True)]
    whole = [(x @ W_Q[h] + b_Q[h]) @ keys[h].T / 3**0.5 for h in range(3)]
    no_query = [x @ W_Q[h] @ keys[h].T / 3**0.5 for h in range(3)]
    content = [x @ W_Q[h] @ W_K[h].T @ x.T / 3**0.5 for h in range(3)]
    positive = [x @ W_K[h] @ W_K[h].T @ x.T / 3**0.5 for h in range(3)]
    forms = [whole, content, [(each + each.T) / 2 for each in content], positive]
    assert controls.FORMS == ("as trained", "content alone", "symmetric part of M", "positive form")
    for k, form in enumerate(forms):
        assert found["asymmetry"][k] == pytest.approx(np.mean([antisymmetric(each) for each in form]), abs=1e-12)
        after = np.mean([antisymmetric(softmax(each)) for each in form])
        assert found["asymmetry of attention"][k] == pytest.approx(after)
    assert found["negative"] == pytest.approx(np.mean([np.diag(each) < 0 for each in content]))
    assert found["antisymmetric"] == pytest.approx(np.mean([antisymmetric(W_Q[h] @ W_K[h].T) for h in range(3)]))
    moved = [abs(softmax(a) - softmax(b)).sum(1) / 2 for a, b in zip(whole, no_query, strict=True)]
    assert found["moved"] == pytest.approx(np.mean(moved))
    assert found["lengths"] == pytest.approx(long.std(ddof=1) / long.mean())


def test_the_form_of_each_head_is_told_by_its_layer():
    """Two layers of two heads; the head that is drawn is the second of the second layer."""
    W_Q, W_K = double([2, 0], [0, 1], [0, 0]), double([1, 0], [0, -1], [0, 0])
    small, large = plain(3, 2, W_Q=W_Q, W_K=W_K), plain(3, 2, W_Q=W_Q, W_K=W_Q)
    for layer in (small, large):
        layer.W_V[:], layer.W_O[:] = 0, 0
    large.W_Q[1] = double([0, 3], [0, 0], [1, 0])
    each = SimpleNamespace(attention=[small, large])
    found = terms.measure_form(SimpleNamespace(trained=each, both={"trained": each}), SimpleNamespace(layer=1, head=1))
    forms = [layer.W_Q[h].numpy() @ layer.W_K[h].numpy().T for layer in (small, large) for h in (0, 1)]
    spectra = [np.linalg.eigvalsh((M + M.T) / 2) for M in forms]
    due = sorted({(int((each > 1e-9).sum()), int((each < -1e-9).sum())) for each in spectra})
    assert found.signs["trained"] == due
    assert sorted(found.eigenvalues["trained"][abs(found.eigenvalues["trained"]) > 1e-9]) == pytest.approx(
        [each for each in spectra[3] if abs(each) > 1e-9]
    )
    assert found.antisymmetric["trained"].ravel().tolist() == pytest.approx([antisymmetric(M) for M in forms])
    singular = [np.linalg.svd(M, compute_uv=False) for M in forms]
    assert found.last_singular_value == pytest.approx(min(each[1] / each[0] for each in singular))
    assert (found.channel, found.negative_if_equal) == (2, 0)
    assert found.next_singular_value < 1e-12


def test_heads_that_neither_stretch_nor_shrink_amplify_nothing():
    eye = torch.eye(2).double()
    found = controls.measure_layer(eye, plain(2, W_Q=eye, W_K=0.5 * eye, W_V=eye, W_O=eye))
    assert found["sigma"].tolist() == [1, 0.5, 1]
    for name in ("sigma above 1", "amplified", "amplified jointly"):
        assert found[name].tolist() == [0, 0, 0]
    silent = replace(plain(2, W_Q=eye, W_K=eye, W_V=eye, W_O=eye), W_Q=double([[0, 1], [0, 0]]))
    found = controls.measure_layer(eye, silent)  # scores of rows with themselves are 0
    assert found["negative"] == 0


def test_fixed_rows_that_are_not_of_one_length_have_a_standard_deviation(monkeypatch):
    monkeypatch.setattr(cone.positional_encodings, "sinusoidal_positions", lambda *sizes: double([1, 0], [0, 4]))
    monkeypatch.setattr(cone.positional_encodings, "toeplitz_defect", lambda gram: gram[1, 1].item())
    monkeypatch.setattr(cone, "load", lambda *_, **__: SimpleNamespace(positions=double([2, 0], [0, 3])))
    found = cone.measure_positions(SimpleNamespace(checkpoint=SimpleNamespace(name="a table")))
    assert found.sines_norm_spread == pytest.approx(4.5**0.5)
    assert (found.sines_defect, found.learned_defect, found.learned_norms) == (16, 9, (2, 3))
