"""How the parts' shares in MiniLM's attention depend on how much of a text is read."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int

from analysis.data import texts
from analysis.models import checkpoints, extraction, pretrained
from book.publish import Inputs, Numbers, live_or_record
from book.publish.phrases import percent
from book.publish.records import Experiment, Result
from book.studies.one_score_four_parts.parts import PASSAGES, TOKENS, split_layer
from book.studies.one_score_four_parts.shares import CONTENT, PARTS

LENGTHS = (16, 32, TOKENS, 128, 200, 400)  # tokens


@dataclass(frozen=True)
class Lengths(Numbers):
    """The parts' shares by the number of tokens that are read of the same passages, and content's in the text."""

    prefix = "os-length"
    tokens: Int[np.ndarray, " length"]
    shares: Float[np.ndarray, "length text part"]
    passages: int
    fewest: int
    most: int
    fewest_content: str
    most_content: str


def measure_lengths(inputs: Inputs) -> Lengths:
    """Read the record."""
    record, _ = live_or_record("one-score-four-parts-lengths", inputs, recompute=False)
    tokens, nats = record.array("lengths"), record.array("parts").sum(2)
    shares = nats / nats.sum(-1, keepdims=True)
    content = shares[..., CONTENT].mean(1)
    return Lengths(
        tokens=tokens,
        shares=shares,
        passages=shares.shape[1],
        fewest=int(tokens[0]),
        most=int(tokens[-1]),
        fewest_content=percent(content[0]),
        most_content=percent(content[-1]),
    )


def compute(device: torch.device) -> Result:
    """Split the divergence of every layer on the first tokens of the same passages."""
    checkpoint = checkpoints.find("minilm")
    tokenizer = pretrained.tokenizer(checkpoint)
    model = pretrained.load(checkpoint, dtype=torch.float64, device=device)
    layers = extraction.attention_layers(model)
    long = [
        ids
        for text in texts.passages()
        if len(ids := tokenizer(text, truncation=True, max_length=LENGTHS[-1])["input_ids"]) == LENGTHS[-1]
    ][:PASSAGES]
    found = []
    for length in LENGTHS:
        states = [read(model, torch.tensor([*ids[: length - 1], ids[-1]]).to(device)) for ids in long]
        found.append([split_layer([of_text[i] for of_text in states], w, False)[3] for i, w in enumerate(layers)])
    parts = np.array(found).transpose(0, 2, 1, 3, 4)[..., : len(PARTS)]  # (length, text, layer, head, part)
    return Result({}, {"lengths": np.array(LENGTHS), "parts": parts.sum(3)}, {"parts": 1e-6})


@torch.no_grad()
def read(model: torch.nn.Module, ids: torch.Tensor) -> list[torch.Tensor]:
    """Return the inputs of every layer on one text."""
    return [state[0] for state in model(ids[None], output_hidden_states=True).hidden_states[:-1]]


EXPERIMENT = Experiment(
    "The parts' shares in MiniLM's attention, by how much of a text is read",
    compute,
    models=("minilm",),
    minutes=2,
    seed=0,
)
