"""The recorded training of gpt2-mini: it removes what it wrote itself, and nothing else."""

import pytest
import torch

from analysis.core.files import Refused
from analysis.training import gpt2_mini
from book.studies.semi_bias import emergence


def test_a_folder_of_that_name_with_something_else_in_it_stays(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(gpt2_mini, "train", lambda *_, **__: pytest.fail("was trained"))
    letter = tmp_path / "runs" / "semi-bias-emergence-1" / "letter.txt"
    letter.parent.mkdir(parents=True)
    letter.write_text("dear")
    with pytest.raises(Refused, match=r"not written here: letter\.txt"):
        emergence.compute(torch.device("cpu"))
    assert letter.read_text() == "dear"
