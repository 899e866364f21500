"""Every page of evidence that takes a GPT-2 runs on another one, with three texts and with one."""

import re

import pytest
import torch

from analysis.models import checkpoints, pretrained
from book.publish import execution
from tests.analysis import tiny
from tests.book.test_evidence import check_verdicts, run

PAGES = {
    name: path
    for name, path in execution.pages().items()
    if re.search(r'^MODEL = "gpt2', path.read_text("utf-8"), re.MULTILINE)
}
SENTENCES = "The value of the name is returned. ", "The name of a file. ", "Is the value an expression? "
LONG = [40 * sentence for sentence in SENTENCES]  # more than the context of gpt2-mini
TEXTS = {"one text": LONG[:1], "three texts": LONG}


@pytest.fixture(params=TEXTS.values(), ids=TEXTS)
def parameters(request, tmp_path):
    """What an execution with a reader's model and texts injects after the cell of parameters."""
    with torch.random.fork_rng():
        tiny.write_model(tmp_path / "my-gpt2", tiny.GPT2 | {"vocab_size": 2048, "n_positions": 40})
    pretrained.tokenizer(checkpoints.find("gpt2-mini")).save_pretrained(tmp_path / "my-gpt2")
    (tmp_path / "texts.txt").write_text("\n\n".join(request.param))
    return {"MODEL": str(tmp_path / "my-gpt2"), "TEXTS": str(tmp_path / "texts.txt"), "DEVICE": "cpu"}


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_a_page_runs_on_another_gpt2_and_says_of_each_claim_whether_it_holds_there(name, parameters, monkeypatch):
    monkeypatch.setattr("jaxtyping.config.jaxtyping_disable", True)  # outside the tests nothing checks annotations
    check_verdicts(name, run(PAGES[name], parameters))
