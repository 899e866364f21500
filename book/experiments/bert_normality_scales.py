"""How far rows point the same way in random networks of which only some matrices are as large as MiniLM's."""

import re

import numpy as np
import torch

from analysis.models import checkpoints, extraction, pretrained
from analysis.models.controls import SEEDS
from analysis.representations import anisotropy
from book.lab.documents import load_documents
from book.publish.records import Experiment, Result

SCORES = r"self\.(query|key)"
OUTPUTS = r"self\.value|attention\.output\.dense"
MLP = r"(intermediate|\d\.output)\.dense"
SCALED = {
    "none": "(?!)",
    "queries and keys": SCORES,
    "values and outputs": OUTPUTS,
    "MLPs": MLP,
    "values, outputs and MLPs": f"{OUTPUTS}|{MLP}",
    "all but queries and keys": f"^(?!.*{SCORES})",
    "all": "",
}
"""Which matrices are as large as MiniLM's, by a pattern of their names; the last two scale the embeddings, too."""
WITHOUT_TYPE = "all, without a token type"
LONGEST = 128  # tokens of a document


def compute(device: torch.device) -> Result:
    """Mean cosine of two rows in random networks of which some matrices are as large as MiniLM's.

    Take the mean cosine of two rows in every state, mean over one document of each kind.
    """
    checkpoint = checkpoints.find("minilm")
    tokenizer = pretrained.tokenizer(checkpoint)
    texts = [document.text for document in load_documents(each=1)]
    trained = pretrained.load(checkpoint, device=device)

    def measure(network: torch.nn.Module) -> np.ndarray:
        states = extraction.hidden_states(network, tokenizer, texts, LONGEST)
        cosines = [[float(anisotropy.mean_pairwise_cosine(rows)) for rows in of_text] for of_text in states]
        return np.mean(cosines, axis=0)

    found: dict[str, list[np.ndarray]] = {name: [] for name in (*SCALED, WITHOUT_TYPE)}
    for seed in SEEDS:
        for name, pattern in SCALED.items():
            network = pretrained.load(checkpoint, control_seed=seed, device=device)
            scale_some(network, trained, pattern)
            found[name].append(measure(network))
        network.embeddings.token_type_embeddings.weight.zero_()  # of the last network, which has all scaled
        found[WITHOUT_TYPE].append(measure(network))
    arrays = {name: np.stack(values).astype(np.float32) for name, values in found.items()}
    return Result({}, arrays, dict.fromkeys(arrays, 5e-3))


@torch.no_grad()
def scale_some(random: torch.nn.Module, trained: torch.nn.Module, pattern: str) -> list[str]:
    """Give the matrices whose names have a pattern the Frobenius norms of another network; return their names.

    >>> random, trained = torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)
    >>> _ = torch.nn.init.constant_(random.weight, 1.0), torch.nn.init.constant_(trained.weight, 5.0)
    >>> scale_some(random, trained, "weight"), random.weight.data.round(decimals=3)
    (['weight'], tensor([[5., 5.]]))
    """
    norms = {name: matrix.norm() for name, matrix in trained.named_parameters()}
    named = [
        (name, matrix) for name, matrix in random.named_parameters() if matrix.ndim == 2 and re.search(pattern, name)
    ]
    for name, matrix in named:
        matrix.mul_(norms[name] / matrix.norm())
    return [name for name, _ in named]


EXPERIMENT = Experiment(compute, models=("minilm",), minutes=1, seed=0)
