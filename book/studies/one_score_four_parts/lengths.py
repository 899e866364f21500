"""How the parts' shares in MiniLM's attention depend on how much of a text is read, and on its first token.

Much of the attention goes to the first token. Without it, among the other keys alone, the shares are measured again.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int

from analysis.data import texts
from analysis.models import checkpoints, pretrained
from analysis.models.reading import load
from book.publish import Inputs, Numbers, live_or_record
from book.publish.phrases import percent
from book.publish.records import Experiment, Result
from book.studies.one_score_four_parts.parts import PASSAGES, TOKENS, split_layer
from book.studies.one_score_four_parts.shares import CONTENT, PARTS

LENGTHS = (16, 32, TOKENS, 128, 200, 400)  # tokens


@dataclass(frozen=True)
class Lengths(Numbers):
    """The parts' shares by the number of tokens that are read of the same passages, and content's in the text.

    ``others`` are the shares among all keys but the first; ``others_lowest`` is the layer in which content has least of
    them at ``TOKENS``, and ``others_least`` what it has there.
    """

    prefix = "os-length"
    tokens: Int[np.ndarray, " length"]
    shares: Float[np.ndarray, "length text part"]
    passages: int
    fewest: int
    most: int
    fewest_content: str
    most_content: str
    others: Float[np.ndarray, "length text part"]
    fewest_others: str
    usual_others: str
    most_others: str
    others_above_half: int  # layers
    others_lowest: int
    others_least: str


def measure_lengths(inputs: Inputs) -> Lengths:
    """Read the record."""
    record, _ = live_or_record("one-score-four-parts-lengths", inputs, recompute=False)
    tokens, usual = record.array("lengths"), LENGTHS.index(TOKENS)
    shares, others = (shares_of(record.array(name).sum(2)) for name in ("parts", "parts of the others"))
    content, of_others = shares[..., CONTENT].mean(1), others[..., CONTENT].mean(1)
    by_layer = shares_of(record.array("parts of the others")[usual])[..., CONTENT].mean(0)
    return Lengths(
        tokens=tokens,
        shares=shares,
        passages=shares.shape[1],
        fewest=int(tokens[0]),
        most=int(tokens[-1]),
        fewest_content=percent(content[0]),
        most_content=percent(content[-1]),
        others=others,
        fewest_others=percent(of_others[0]),
        usual_others=percent(of_others[usual]),
        most_others=percent(of_others[-1]),
        others_above_half=int((by_layer > 0.5).sum()),
        others_lowest=int(by_layer.argmin()),
        others_least=percent(by_layer.min()),
    )


def shares_of(nats: Float[np.ndarray, "*any part"]) -> Float[np.ndarray, "*any part"]:
    """Return each part's share of the sum.

    >>> shares_of(np.array([1.0, 3.0])).tolist()
    [0.25, 0.75]
    """
    return nats / nats.sum(-1, keepdims=True)


def compute(device: torch.device) -> Result:
    """Split the divergence of every layer on the first tokens of the same passages."""
    checkpoint = checkpoints.find("minilm")
    tokenizer = pretrained.tokenizer(checkpoint)
    model = pretrained.load(checkpoint, dtype=torch.float64, device=device)
    layers = load(model).plain_layers()
    long = [
        ids
        for text in texts.passages()
        if len(ids := tokenizer(text, truncation=True, max_length=LENGTHS[-1])["input_ids"]) == LENGTHS[-1]
    ][:PASSAGES]
    found = []
    for length in LENGTHS:
        states = [read(model, torch.tensor([*ids[: length - 1], ids[-1]]).to(device)) for ids in long]
        by_layer = [[of_text[layer] for of_text in states] for layer in range(len(layers))]
        found.append(
            [[split_layer(xs, w, False, first=first)[3] for xs, w in zip(by_layer, layers)] for first in (True, False)]
        )
    parts = np.array(found)[..., : len(PARTS)].sum(4).transpose(1, 0, 3, 2, 4)  # (keys, length, text, layer, part)
    arrays = {"lengths": np.array(LENGTHS), "parts": parts[0], "parts of the others": parts[1]}
    return Result({}, arrays, {"parts": 1e-6, "parts of the others": 1e-6})


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
