"""What Q and K measure in MiniLM on documents of four kinds, and in the ladder of its controls."""

import numpy as np
import torch

from analysis.maps import distance
from analysis.matrices import spectra, symmetry
from analysis.models import checkpoints, extraction, pretrained
from analysis.models.reading import load
from analysis.transformer.attention import softmax
from book.lab.mathematics import stretching
from book.publish.records import Experiment, Result
from book.studies.shared.documents import survey_documents

LONGEST = 64  # tokens of a document
FORMS = ("as trained", "content alone", "symmetric part of M", "positive form")


def compute(device: torch.device) -> Result:
    """Survey the documents; what concerns weights alone is the same for each."""
    tokenizer = pretrained.tokenizer(checkpoints.find("minilm"))

    def measure(network: torch.nn.Module, text: str, _: torch.nn.Module) -> dict[str, np.ndarray]:
        (states,) = extraction.hidden_states(network, tokenizer, [text], LONGEST)
        layers = load(network).plain_layers()
        by_layer = [measure_layer(x, layer) for x, layer in zip(states, layers)]
        return {name: np.stack([layer[name] for layer in by_layer]) for name in by_layer[0]}

    return survey_documents(measure, each_of_controls=1, device=device)


def measure_layer(x: torch.Tensor, layer) -> dict[str, np.ndarray]:
    """Measure one layer; arrays over the maps Q, K and V, or over ``FORMS``, or one number."""
    growth = stretching.amplifications(x[None], [layer])[:, 0]
    place = stretching.cone_positions(x[None], [layer])[:, 0]
    sigma = torch.stack([spectra.spectral_norm(getattr(layer, f"W_{name}")) for name in stretching.MAPS])
    variants = symmetry.score_variants(x, layer)
    shares = torch.stack(
        [
            torch.stack([symmetry.asymmetry(variants[form]).mean(), symmetry.asymmetry(softmax(variants[form])).mean()])
            for form in FORMS
        ]
    )
    itself = variants["content alone"].diagonal(dim1=1, dim2=2)
    form = symmetry.symmetric_signature(layer.W_Q, layer.W_K)
    moved = distance.attention_moved(x, layer, instead=symmetry.without(layer, "b_Q"))
    lengths = x.norm(dim=1)
    measured = {
        "sigma above 1": (sigma > 1).double().mean(1),
        "sigma": sigma.double().median(1).values,
        "amplified": (growth > 1).double().mean((1, 2)),
        "amplified jointly": (growth.square().sum(1) > 1).double().mean(1),
        "cone": place.double().flatten(1).median(1).values,
        "asymmetry": shares[:, 0],
        "asymmetry of attention": shares[:, 1],
        "negative": (itself < 0).double().mean(),
        "antisymmetric": form.antisymmetric.mean(),
        "moved": moved.mean(),
        "lengths": lengths.std() / lengths.mean(),
    }
    return {name: value.numpy(force=True) for name, value in measured.items()}


EXPERIMENT = Experiment(
    "What Q and K measure in MiniLM, and in the ladder of its controls", compute, models=("minilm",), minutes=2, seed=0
)
