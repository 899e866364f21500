"""What Q and K measure in MiniLM on documents of four kinds, and what the ladder of its controls says of it."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from analysis.maps import distance
from analysis.matrices import spectra, symmetry
from analysis.models import checkpoints, extraction, pretrained
from analysis.models.controls import PERMUTED, SHARP
from analysis.models.reading import load
from analysis.transformer.attention import softmax
from book.lab.mathematics import stretching
from book.publish import Inputs, Numbers, live_or_record
from book.publish.phrases import percent
from book.publish.records import Experiment, Result
from book.studies.shared.documents import Rungs, load_rungs, survey_documents

# ---- What Q and K measure in MiniLM on documents of four kinds, and in the ladder of its controls

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


# ---- What the ladder of controls, and the classifier of virus variants

PANELS = ("rows amplified, Q", "antisymmetric share of M", "asymmetry of attention", "negative scores with itself")
PLACES = {
    **{f"sigma above 1, {name}": ("sigma above 1", k) for k, name in enumerate(stretching.MAPS)},
    **{f"rows amplified, {name}": ("amplified", k) for k, name in enumerate(stretching.MAPS)},
    **{f"amplified jointly, {name}": ("amplified jointly", k) for k, name in enumerate(stretching.MAPS)},
    **{f"cone, {name}": ("cone", k) for k, name in enumerate(stretching.MAPS)},
    "asymmetry of attention": ("asymmetry of attention", FORMS.index("content alone")),
    "symmetric form": ("asymmetry of attention", FORMS.index("symmetric part of M")),
    "antisymmetric share of M": ("antisymmetric",),
    "negative scores with itself": ("negative",),
    "moved without b_Q": ("moved",),
    "spread of lengths": ("lengths",),
}


@dataclass(frozen=True)
class Classifier:
    """The classifier that was trained from random weights: largest singular values, and how far rows grow."""

    largest: Float[Tensor, "map head_of_all_layers"]
    growth: float  # the largest of any row, in any map and head


@dataclass(frozen=True)
class LadderPhrases(Numbers):
    """Means over layers in the page's text."""

    prefix = "similarity"

    over_sharp: str
    joint_sharp: str
    amplified_trained: str
    amplified_most: str
    cone_trained: str
    cone_sharp: str
    cone_permuted: str
    share_trained: str
    share_sharp: str
    share_permuted: str
    attention_trained: str
    attention_sharp: str
    attention_symmetric_trained: str
    attention_symmetric_sharp: str
    negative_documents: str
    negative_sharp: str
    negative_permuted: str
    moved_trained: str
    moved_permuted: str


def measure_rungs(inputs: Inputs) -> Rungs:
    """Read the ladder."""
    return load_rungs("bert-similarity-ladder", inputs, PLACES)


def measure_classifier(inputs: Inputs) -> Classifier:
    """Take the singular values of the bundled weights, and the growth of rows from the record of the case study."""
    checkpoint = checkpoints.find("variant-bert-mini")
    layers = load(checkpoint).plain_layers()
    record, _ = live_or_record("variant-measures", inputs, recompute=False)
    largest = torch.stack(
        [
            torch.cat([spectra.spectral_norm(getattr(layer, f"W_{name}")) for layer in layers])
            for name in stretching.MAPS
        ]
    )
    return Classifier(largest, float(record.array("growth").max()))


def phrase_rungs(rungs: Rungs) -> LadderPhrases:
    """Write the means."""

    def trained(name: str) -> float:
        return rungs[name].documents.mean()

    def rung(name: str, which: str) -> float:
        return rungs[name].controls[which].mean()

    cone = {
        name: max(rungs[f"cone, {letter}"].controls[which].mean() for letter in "QK")
        for name, which in (("sharp", SHARP), ("permuted", PERMUTED))
    }
    both = [rungs[f"rows amplified, {letter}"] for letter in "QK"]
    return LadderPhrases(
        over_sharp=percent(min(rung(f"sigma above 1, {letter}", SHARP) for letter in "QK")),
        joint_sharp=percent(min(rung(f"amplified jointly, {letter}", SHARP) for letter in "QK")),
        amplified_trained=percent(max(each.documents.mean() for each in both), 1),
        amplified_most=percent(max(values.mean() for each in both for values in each.controls.values()), 1),
        cone_trained=f"{max(trained('cone, Q'), trained('cone, K')):.2f}",
        cone_sharp=f"{cone['sharp']:.2f}",
        cone_permuted=f"{cone['permuted']:.2f}",
        share_trained=f"{trained('antisymmetric share of M'):.2f}",
        share_sharp=f"{rung('antisymmetric share of M', SHARP):.2f}",
        share_permuted=f"{rung('antisymmetric share of M', PERMUTED):.2f}",
        attention_trained=f"{trained('asymmetry of attention'):.2f}",
        attention_sharp=f"{rung('asymmetry of attention', SHARP):.2f}",
        attention_symmetric_trained=f"{trained('symmetric form'):.2f}",
        attention_symmetric_sharp=f"{rung('symmetric form', SHARP):.2f}",
        negative_documents=percent(trained("negative scores with itself")),
        negative_sharp=percent(rung("negative scores with itself", SHARP)),
        negative_permuted=percent(rung("negative scores with itself", PERMUTED)),
        moved_trained=percent(trained("moved without b_Q")),
        moved_permuted=percent(rung("moved without b_Q", PERMUTED)),
    )


EXPERIMENTS = {
    "ladder": Experiment(
        "What Q and K measure in MiniLM, and in the ladder of its controls",
        compute,
        models=("minilm",),
        minutes=2,
        seed=0,
    )
}
