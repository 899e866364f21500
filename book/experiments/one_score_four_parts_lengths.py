"""What the parts of the score explain in MiniLM's attention, by how much of a text is read.

Much of the attention goes to the first token. Without it, among the other keys alone, the same is measured again.
"""

import numpy as np
import torch

from analysis.data import texts
from analysis.models import checkpoints, pretrained
from analysis.models.reading import load
from book.lab.score_shares import PARTS, split_layer
from book.lab.score_survey import PASSAGES, TOKENS
from book.publish.records import Experiment, Result

LENGTHS = (16, 32, TOKENS, 128, 200, 400)  # tokens


def compute(device: torch.device) -> Result:
    """Split the divergence of every layer on the first tokens of the same passages."""
    checkpoint = checkpoints.find("minilm")
    tokenizer = pretrained.tokenizer(checkpoint)
    model = pretrained.load(checkpoint, dtype=torch.float64, device=device)
    layers = load(model).plain_layers()
    read = [tokenizer(text, truncation=True, max_length=LENGTHS[-1])["input_ids"] for text in texts.passages()]
    long = [ids for ids in read if len(ids) == LENGTHS[-1]][:PASSAGES]
    found = []
    for length in LENGTHS:
        states = [layer_inputs(model, torch.tensor([*ids[: length - 1], ids[-1]]).to(device)) for ids in long]
        by_layer = [[of_text[number] for of_text in states] for number in range(len(layers))]
        found.append(
            [
                [split_layer(xs, layer, causal=False, first=first).by_text for xs, layer in zip(by_layer, layers)]
                for first in (True, False)
            ]
        )
    parts = np.array(found)[..., : len(PARTS)].sum(4).transpose(1, 0, 3, 2, 4)  # (keys, length, text, layer, part)
    arrays = {"lengths": np.array(LENGTHS), "parts": parts[0], "parts of the others": parts[1]}
    return Result({}, arrays, {"parts": 1e-6, "parts of the others": 1e-6})


@torch.no_grad()
def layer_inputs(model: torch.nn.Module, ids: torch.Tensor) -> list[torch.Tensor]:
    """Return the inputs of every layer on one text."""
    return [state[0] for state in model(ids[None], output_hidden_states=True).hidden_states[:-1]]


EXPERIMENT = Experiment(
    "The parts' shares in MiniLM's attention, by how much of a text is read",
    compute,
    models=("minilm",),
    minutes=2,
    seed=0,
)
