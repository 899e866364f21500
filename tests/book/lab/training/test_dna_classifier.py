"""The variant classifier end to end, two layers on short invented genes: it learns, is published and loads again."""

import json

import numpy as np
import pytest
import torch

from analysis.models import checkpoints, pretrained
from analysis.models.files import MissingTensor
from analysis.models.reading import load
from book.lab.training import dna_classifier
from book.lab.training.speed import register_float32_attention
from tests.analysis.tiny import change_tensors


@pytest.fixture(scope="module")
def report(variant_folder):
    return json.loads((variant_folder / "report.json").read_text())


def test_it_learns(variant_folder, report):
    with np.load(variant_folder / "trace.npz") as trace:
        assert trace["loss"][-10:].mean() < 0.6 * trace["loss"][:5].mean()
        assert list(trace["step"]) == [0, 40, 160]
        assert trace["validation"][0] < report["validation"]
    assert report["validation"] > 0.5  # eight classes: chance is 0.125
    assert report["origin"] == "synthetic gene"


def test_it_loads_again_from_half_precision(variant_folder, variant_data, report):
    model, tokenizer, labels = dna_classifier.load(variant_folder)
    assert tuple(labels) == variant_data.labels
    genes = [variant_data.genes[i] for i in variant_data.parts.test]
    rows = dna_classifier.predict(model, tokenizer, [g.bases for g in genes])
    torch.testing.assert_close(rows.sum(-1), torch.ones(len(genes)))
    right = np.mean([labels[int(row.argmax())] == g.label for row, g in zip(rows, genes)])
    assert right == pytest.approx(report["test"], abs=2 / len(genes))


def test_the_vocabulary_is_the_training_part_alone(variant_data):
    known = set(variant_data.tokenizer.get_vocab())
    train = {w for i in variant_data.parts.train for w in dna_classifier.words(variant_data.genes[i].bases).split()}
    assert train | set(variant_data.tokenizer.all_special_tokens) == known


def test_epochs_are_whole():
    order = dna_classifier._order(16, 4, 8, [0, 7])
    assert sorted(order[:2].ravel()) == list(range(16))


def test_base_is_the_papers_architecture():
    base = dna_classifier.BASE
    assert (base.layers, base.heads, base.width, base.hidden, base.batch) == (12, 12, 768, 3072, 4)
    assert base.steps == 2 * 39522 // base.batch


def test_attention_outside_autocast_is_the_same_attention(variant_data):
    from transformers import BertForSequenceClassification

    models = []
    for kind in ("eager", register_float32_attention()):
        torch.manual_seed(0)
        models.append(
            BertForSequenceClassification._from_config(
                dna_classifier.configure(dna_classifier.TINY, variant_data), attn_implementation=kind
            ).eval()
        )
    coded = variant_data.encode(variant_data.genes[:4], pad_to=32)
    assert not coded["attention_mask"].all()  # padding must be masked
    torch.testing.assert_close(models[0](**coded).logits, models[1](**coded).logits, atol=1e-6, rtol=0)
    seen = []
    models[1].bert.encoder.layer[0].attention.output.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    with torch.autocast("cpu", torch.bfloat16):
        models[1](**coded)
    assert seen[0].dtype == torch.float32


def test_a_trained_classifier_is_a_model_like_any_other(variant_folder, variant_data, monkeypatch):
    monkeypatch.setenv("ANALYSIS_FOLDER_VARIANT_BERT_BASE", str(variant_folder))
    found = checkpoints.find("variant-bert-base")
    assert (found.source, found.licence, found.stands_in_for) == ("folder", "MIT", None)
    assert [path.name for path in found.files()] == ["model.safetensors"]
    assert len(load(found).layers) == 2
    tokens = load(found).tokens
    assert tokens.shape[0] == len(variant_data.tokenizer) == len(pretrained.tokenizer(found))
    trained = pretrained.load(found, task="classifier")
    control = pretrained.load(found, task="classifier", control_seed=1)
    again = pretrained.load(found, task="classifier", control_seed=1)
    base = pretrained.load(found)
    torch.testing.assert_close(base.embeddings.word_embeddings.weight, tokens)
    torch.testing.assert_close(trained.bert.embeddings.word_embeddings.weight, tokens)
    torch.testing.assert_close(control.classifier.weight, again.classifier.weight, rtol=0, atol=0)
    assert not torch.equal(control.classifier.weight, trained.classifier.weight)
    layer = load(found).layers[1].plain()
    expected = trained.bert.encoder.layer[1].attention.self.query.weight.T[:, :16]
    torch.testing.assert_close(layer.W_Q[0], expected)
    assert "model.safetensors" in found.provenance()["sha256"]


def test_a_classifier_without_its_pooler_is_refused(variant_folder, tmp_path):
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).write_bytes((variant_folder / name).read_bytes())
    change_tensors(tmp_path, lambda tensors: {name: tensors[name] for name in tensors if "pooler" not in name})
    found = checkpoints.find(str(tmp_path))
    pretrained.load(found)
    with pytest.raises(MissingTensor, match="pooler"):
        pretrained.load(found, task="classifier")
