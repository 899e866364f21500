"""The parts of a score against transformers' own GPT-2 attention: random tiny configurations, and real weights."""

import pytest
import torch
from safetensors.torch import save_file
from transformers import GPT2Config, GPT2LMHeadModel

from analysis import checkpoints, weights
from analysis.attention import attend, compute_scores
from analysis.bias import fold_value_bias, score_terms, semi_bias, six_terms
from analysis.experiments.semi_bias import equality, fill_module, loss_without, map_error, read, token_table
from analysis.layernorm import layer_norm

TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-5}


def assert_near(found, due, dtype):
    """Relative to the scale of what is due."""
    scale = due[due.isfinite()].abs().max()
    torch.testing.assert_close(found / scale, due / scale, rtol=0, atol=TOLERANCE[dtype])


def causal_mask(n, dtype):
    return torch.full((n, n), torch.finfo(dtype).min, dtype=dtype).triu(1)[None, None]


def tiny(seed, dtype, **kwargs):
    """Return a random model (biases too) and its checkpoint-like parts."""
    torch.manual_seed(seed)
    config = GPT2Config(vocab_size=50, n_positions=24, n_layer=2, bos_token_id=0, eos_token_id=0,
                        attn_implementation="eager", **kwargs)
    model = GPT2LMHeadModel(config).to(dtype).eval().requires_grad_(False)
    for parameter in model.parameters():
        parameter.add_(0.3 * torch.randn_like(parameter))
    return model


@pytest.fixture(params=[(16, 4), (24, 3), (10, 1)], ids=["16x4", "24x3", "10x1"])
def folder(request, tmp_path):
    """A made-up GPT-2 laid out like the hub's, with its token table."""
    width, heads = request.param
    model = tiny(width, torch.float32, n_embd=width, n_head=heads)
    model.save_pretrained(tmp_path)
    return tmp_path, model


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_parts_equal_the_module_in_a_model_laid_out_like_the_hubs(folder, dtype):
    path, model = folder
    model = model.to(dtype)
    ck = checkpoints.find("made-up", folder=path)
    ids = torch.randint(0, 50, (2, 20), generator=torch.Generator().manual_seed(1))
    e, p = weights.tokens(ck, dtype=dtype)[ids], weights.positions(ck, dtype=dtype)[:20]
    layer, ln = weights.attention_layer(ck, 0, dtype=dtype), weights.layer_norm(ck, "attention", 0, dtype=dtype)
    out = model(ids, output_attentions=True)
    x = layer_norm(e + p, ln)
    ours = attend(x, layer, causal=True)
    assert_near(ours.attention, out.attentions[0], dtype)
    assert_near(ours.output, model.transformer.h[0].attn(model.transformer.h[0].ln_1(e + p), attention_mask=
                                                        causal_mask(20, dtype))[0], dtype)
    due = compute_scores(x, layer)
    assert_near(score_terms(x, layer).total(), due, dtype)
    assert_near(six_terms(e, p, layer, ln).total(), due, dtype)


@pytest.fixture(scope="module")
def real():
    try:
        ck = checkpoints.find("gpt2", sources=("folder", "hub", "models"))
    except checkpoints.NotFound:
        pytest.skip("the parameters of GPT-2 are not on this machine (set ANALYSIS_MODELS)")
    return ck


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_parts_equal_the_module_on_the_real_first_layer(real, dtype):
    layer = weights.attention_layer(real, 0, dtype=dtype)
    ln, p = weights.layer_norm(real, "attention", 0, dtype=dtype), weights.positions(real, dtype=dtype)[:100]
    e = 0.14 * torch.randn(p.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(dtype)
    x = layer_norm(e + p, ln)
    module = fill_module(layer)
    mask = causal_mask(len(x), dtype)
    with torch.no_grad():
        output, attention = module(x[None], attention_mask=mask)[:2]
        ours = attend(x, layer, causal=True)
        assert_near(ours.attention, attention[0], dtype)
        assert_near(ours.output, output[0], dtype)
        due = compute_scores(x, layer)
        assert_near(score_terms(x, layer).total(), due, dtype)
        assert_near(six_terms(e, p, layer, ln).total(), due, dtype)
        module.c_attn.bias[768:1536] = 0
        assert_near(module(x[None], attention_mask=mask)[0], output, dtype)
        folded = fold_value_bias(layer)
        assert_near(fill_module(folded)(x[None], attention_mask=mask)[0], output, dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("width", "heads"), [(16, 4), (24, 3), (10, 1)])
def test_key_bias_and_value_bias_in_the_module(width, heads, dtype):
    module = tiny(3, dtype, n_embd=width, n_head=heads).transformer.h[0].attn
    x, mask = torch.randn(1, 12, width, dtype=dtype), causal_mask(12, dtype)
    before = module(x, attention_mask=mask)[0]
    module.c_attn.bias[width:2 * width] = 0
    assert_near(module(x, attention_mask=mask)[0], before, dtype)
    module.c_proj.bias += module.c_attn.bias[2 * width:] @ module.c_proj.weight
    module.c_attn.bias[2 * width:] = 0
    assert_near(module(x, attention_mask=mask)[0], before, dtype)
    module.c_attn.bias[:width] = 0
    assert (module(x, attention_mask=mask)[0] - before).abs().max() > 1e-3


def test_semi_bias_of_tokens_when_a_checkpoint_has_them(folder):
    path, model = folder
    ck = checkpoints.find("made-up", folder=path)
    assert weights.has(ck, "wte.weight")
    layer = weights.attention_layer(ck, 0)
    width, attn = layer.model, model.transformer.h[0].attn
    keys = (model.transformer.wte.weight @ attn.c_attn.weight[:, width:2 * width]).view(-1, layer.heads, layer.channel)
    due = torch.einsum("hc,vhc->hv", attn.c_attn.bias[:width].view(layer.heads, -1), keys) / layer.channel**0.5
    assert_near(semi_bias(weights.tokens(ck), layer), due, torch.float32)
    table = token_table(ck, "a text")
    assert_near(torch.tensor(table.scores).float(), due, torch.float32)
    assert table.norm.shape == table.counts.shape == (50,)
    assert not table.counts.any()  # a folder without a tokenizer counts nothing


def test_a_checkpoint_without_tokens_says_so(folder, tmp_path):
    _, model = folder
    part = tmp_path / "part"
    part.mkdir()
    (part / "config.json").write_text((tmp_path / "config.json").read_text())
    state = {k: v.contiguous() for k, v in model.transformer.state_dict().items() if k != "wte.weight"}
    save_file(state, part / "model.safetensors")
    ck = checkpoints.find("made-up", folder=part)
    assert not weights.has(ck, "wte.weight")
    assert token_table(ck, "a text") is None
    assert read(ck).tokens is None
    with pytest.raises(weights.MissingTensor, match=r"wte\.weight"):
        weights.tokens(ck)


def test_equality_tells_identities_from_misprints(folder):
    ck = checkpoints.find("made-up", folder=folder[0])
    layer = read(ck)
    found = equality(layer.tokens[:20], layer.positions[:20], layer.weights, layer.ln)
    wrong = {"no_query_bias", "two_terms_unscaled", "value_at_query", "bias_in_sum_over_keys"}
    if layer.weights.heads > 1:
        wrong.add("bias_in_sum_over_heads")
    assert {name for name, gap in found.items() if gap > 1e-12} == wrong


def test_the_map_of_the_semi_bias_is_that_of_the_module(folder, monkeypatch):
    layer = read(checkpoints.find("made-up", folder=folder[0]))
    assert map_error(layer.positions, layer.weights) < 1e-12
    monkeypatch.setattr("analysis.experiments.semi_bias.semi_bias", lambda y, w: 1.001 * semi_bias(y, w))
    assert map_error(layer.positions, layer.weights) == pytest.approx(1e-3)


def test_loss_changes_with_the_query_bias_only():
    model = tiny(5, torch.float64, n_embd=16, n_head=4)
    windows = torch.randint(0, 50, (3, 15), generator=torch.Generator().manual_seed(1))
    whole = loss_without(model, windows)
    assert abs(loss_without(model, windows, "b_K", (0, 1)) - whole) < 1e-12
    assert abs(loss_without(model, windows, "b_Q", (0,)) - whole) > 1e-4
    assert abs(loss_without(model, windows) - whole) < 1e-15  # the model itself was left alone
