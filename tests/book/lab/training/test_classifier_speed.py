"""What the large classifier is trained with, on two layers: fixed length, compiled, pre-trained, other batches."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from book.lab.training import dna_classifier, loop

SMALL = dna_classifier.shortened(dna_classifier.TINY, sequences=160, steps=12, batch=4, warmup=2, dropout=0.0)


def run(recipe, out, data, **more):
    report = dna_classifier.train(recipe, out, data=data, **more)
    return report, load_file(out / "model.safetensors")


def test_padding_to_a_fixed_length_changes_nothing(tmp_path, variant_data):
    _, loose = run(SMALL, tmp_path / "a", variant_data)
    _, fixed = run(dna_classifier.shortened(SMALL, pad_to=32), tmp_path / "b", variant_data)
    for name, tensor in loose.items():
        torch.testing.assert_close(tensor, fixed[name], atol=2e-3, rtol=0)


@pytest.mark.slow
def test_the_compiled_model_learns_the_same(tmp_path, variant_data):
    """On a CPU the graph is traced and run without code of its own."""
    recipe = dna_classifier.shortened(SMALL, pad_to=32)
    report, eager = run(recipe, tmp_path / "a", variant_data)
    again, compiled = run(dna_classifier.shortened(recipe, compiled=True), tmp_path / "b", variant_data)
    assert report["final_loss"] == pytest.approx(again["final_loss"], abs=1e-3)
    for name, tensor in eager.items():
        torch.testing.assert_close(tensor, compiled[name], atol=2e-3, rtol=0)


@pytest.mark.slow
def test_pretraining_lowers_its_loss(tmp_path, variant_data):
    recipe = dna_classifier.shortened(SMALL, pretrain_steps=120, batch=8)
    report, _ = run(recipe, tmp_path / "a", variant_data)
    with np.load(tmp_path / "a" / "trace.npz") as trace:
        losses = trace["pretrain_loss"]
    assert losses.shape == (120,)
    assert losses[-10:].mean() < 0.9 * losses[:10].mean()
    assert report["pretrain_loss"] == pytest.approx(losses[-20:].mean())
    assert json.loads((tmp_path / "a" / "report.json").read_text())["recipe"]["pretrain_steps"] == 120


def test_the_classifier_starts_from_what_was_pretrained(tmp_path, variant_data, monkeypatch):
    recipe = dna_classifier.shortened(SMALL, pretrain_steps=3)
    seen = {}

    def stop(model, batch, loss, settings, out, **more):
        if out.name == "state":
            seen["encoder"] = model.bert.encoder.layer[1].output.dense.weight.detach().clone()
            raise KeyboardInterrupt
        return train(model, batch, loss, settings, out, **more)

    train = loop.train
    monkeypatch.setattr(loop, "train", stop)
    with pytest.raises(KeyboardInterrupt):
        run(recipe, tmp_path, variant_data)
    kept = load_file(tmp_path / "pretraining" / loop.STATE)
    torch.testing.assert_close(seen["encoder"], kept["model/bert.encoder.layer.1.output.dense.weight"])


def test_other_batches_keep_the_epochs():
    wide = dna_classifier.rebatched(dna_classifier.BASE, 32)
    assert wide.steps * wide.batch == pytest.approx(dna_classifier.BASE.steps * dna_classifier.BASE.batch, rel=1e-3)
    assert wide.rate == pytest.approx(dna_classifier.BASE.rate * 8**0.5)
    with pytest.raises(ValueError, match="batch must be 1 to "):
        dna_classifier.rebatched(dna_classifier.BASE, 0)


@pytest.mark.slow
def test_base_has_the_papers_number_of_training_sequences():
    from book.lab.dna.fasta import Gene
    from book.lab.dna.simulate import CLASSES
    from book.lab.dna.splits import split

    genes = [Gene(str(i), "A", CLASSES[i % 8]) for i in range(dna_classifier.BASE.sequences)]
    assert len(split(genes, dna_classifier.BASE.by, 0).train) == pytest.approx(39_522, abs=8)


@pytest.mark.parametrize("pad_to", [None, 90, 20])
def test_encoding_is_the_tokenizers(variant_data, pad_to):
    genes = [variant_data.genes[i] for i in variant_data.parts.test]  # some k-mers of theirs are unknown
    how = {"padding": "max_length", "max_length": pad_to} if pad_to else {"padding": True}
    words = [dna_classifier.words(g.bases) for g in genes]
    due = variant_data.tokenizer(words, truncation=True, return_tensors="pt", **how)
    coded = variant_data.encode(genes, pad_to)
    assert set(coded) == {"input_ids", "attention_mask", "labels"}
    assert (due["input_ids"] == variant_data.tokenizer.unk_token_id).any()
    for name in ("input_ids", "attention_mask"):
        assert torch.equal(coded[name], due[name])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_on_a_gpu_the_compiled_base_model_takes_less_than_thirty_milliseconds_a_step(tmp_path):
    """Two epochs of batches of 4 must fit ten minutes: 19,761 steps of less than 30 ms."""
    recipe = dna_classifier.shortened(dna_classifier.BASE, sequences=800, steps=120)
    report = dna_classifier.train(recipe, tmp_path, device="cuda")
    assert report["ms_per_step"] < 30
    assert np.isfinite(report["final_loss"])
