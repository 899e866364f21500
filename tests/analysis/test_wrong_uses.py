"""First uses that cannot work: each gets one line that says what to do."""

import pytest
import torch

import analysis
from analysis.models.families.tiny import tiny_model

X, IDS = torch.randn(5, 128), torch.arange(5)[None]
WRONG = {
    "a name that is not there": (lambda m: analysis.qk_circuit, r"did you mean circuits, qk_matrix\?"),
    "another width": (lambda m: analysis.attend(X[:, :64], m.layers[0]), r"x must be \(5, 128\) .* got \(5, 64\)"),
    "ids for rows": (lambda m: analysis.attend(IDS, m.layers[0]), "got torch.int64: convert it"),
    "swapped": (lambda m: analysis.attend(m.layers[0], X), "layer must be AttentionLayer, got Tensor$"),
    "a model for a layer": (lambda m: analysis.attend(X, m), "got Model; give one of its layers$"),
    "a matrix for a layer": (lambda m: analysis.qk_matrix(m.layers[0].W_Q), "must be AttentionLayer, got Tensor$"),
    "a matrix for its singular values": (lambda m: analysis.effective_rank(X), r"give torch\.linalg\.svdvals"),
    "a model for its maps": (lambda m: analysis.induction_score(m, IDS), "got Model; census measures the heads of"),
    "scores for maps": (lambda m: analysis.read_gates(torch.randn(1, 9, 9)), "give weights after the softmax"),
    "a name of the hub": (lambda m: analysis.load("bert-base-uncased"), r"a folder, a hub id \(owner/model\) or one"),
    "a model that is not here": (lambda m: analysis.load("gpt-neo-7"), "unknown model 'gpt-neo-7'"),
    "rows for a model": (lambda m: analysis.score_parts(X, "hello"), "a Model, got Tensor$"),
    "a text without a tokenizer": (
        lambda m: analysis.score_parts(tiny_model("gpt2"), "hello"),
        r"load\(model, tokenizer=\.\.\.\) takes it along, or give ids",
    ),
    "texts without a tokenizer": (lambda m: analysis.census(tiny_model("gpt2")), r"load\(model, tokenizer=\.\.\.\)"),
    "no such layer": (lambda m: analysis.circuits(m, 2), r"layer must be 0\.\.1, got 2"),
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_work_says_in_a_line_what_to_do(case):
    use, said = WRONG[case]
    with pytest.raises((AttributeError, LookupError, TypeError, ValueError), match=said) as raised:
        use(analysis.load("gpt2-mini"))
    assert "\n" not in str(raised.value)
