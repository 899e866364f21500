"""How much each part of the score explains: by model, by layer, by text, over tokens and positions, in other splits."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from analysis.decomposition.terms import score_terms
from analysis.models import checkpoints, pretrained
from analysis.models.reading import load
from analysis.statistics.intervals import FEWEST, mean_interval
from book.publish import Inputs, Numbers
from book.publish.phrases import percent
from book.studies.one_score_four_parts import parts
from book.studies.one_score_four_parts.parts import SIX, Survey

PARTS = ("content", "common", "semi-bias")
CONTENT, SEMI_BIAS = 0, 2


@dataclass(frozen=True)
class HeadShares:
    """Divergence from uniform of every head of a model and of its control, and the parts' shares in it, in nats."""

    divergence: Float[np.ndarray, " head"]
    parts: Float[np.ndarray, "head part"]
    control: Float[np.ndarray, " head"]

    def share(self, part: int) -> float:
        """Return the share of a part in the divergence of all heads."""
        return float(self.parts[:, part].mean() / self.divergence.mean())


@dataclass(frozen=True)
class TextShares:
    """What varies from text to text: the parts' shares, and the number of heads in which content has less than half."""

    shares: Float[np.ndarray, "text part"]
    content_minority: Float[np.ndarray, " text"]


@dataclass(frozen=True)
class FirstLayer:
    """The divergence of layer 0's heads and its split over tokens and positions, in nats; terms in order of ``SIX``."""

    divergence: Float[np.ndarray, " head"]
    terms: Float[np.ndarray, "head term"]

    @property
    def shares(self) -> Float[np.ndarray, " term"]:
        """The share of each term in the layer."""
        return self.terms.mean(0) / self.divergence.mean()

    @property
    def mixed(self) -> Float[np.ndarray, " head"]:
        """The share of the two mixed terms, token against position and the reverse, in each head."""
        return self.terms[:, 1:3].sum(1) / self.divergence


@dataclass(frozen=True)
class ModelNumbers(Numbers):
    """One model in the text: nats per row, shares in percent, and in how many heads which part has the most.

    ``semi_majority`` heads get more from the semi-bias than from the other two parts, ``content_minority`` heads less
    from content than from the two parts that do not depend on the query.
    """

    heads: int
    divergence: str
    control: str
    content: str
    common: str
    semi: str
    content_interval: str
    semi_majority: int
    content_minority: int
    content_minority_interval: str
    ee: str
    pp: str
    e: str
    p: str


@dataclass(frozen=True)
class MiniLMNumbers(ModelNumbers):
    """MiniLM in the text; beyond the other models, the share of content by layer, and when counted from 0."""

    prefix = "os-minilm"
    content_0: str
    content_low: str
    content_high: str
    zero: str


@dataclass(frozen=True)
class GPT2MiniNumbers(ModelNumbers):
    """gpt2-mini in the text."""

    prefix = "os-gpt2-mini"


@dataclass(frozen=True)
class VariantNumbers(ModelNumbers):
    """The variant classifier in the text."""

    prefix = "os-variant-bert-mini"


@dataclass(frozen=True)
class MixedTerms(Numbers):
    """The mixed terms of layer 0: their largest share in a model, and their lowest and highest in a single head."""

    prefix = "os"
    mixed: str
    mixed_low: str
    mixed_high: str


@dataclass(frozen=True)
class OneText:
    """MiniLM on one text, with the origins of all texts.

    ``parts (part, query, key)`` are content, common part and semi-bias of the head to which the semi-bias gives most,
    in nats; ``splits`` holds what each way of splitting gives to the parts, mean over heads, ``(layer, part)``.
    """

    layer: int
    head: int
    parts: Float[Tensor, "part query key"]
    splits: Mapping[str, Float[np.ndarray, "layer part"]]


@dataclass(frozen=True)
class OtherSplits(Numbers):
    """What other splits give, as shares of the whole: in all layers and, with ``_1``, in layer 1."""

    prefix = "os"
    drop_sum: str
    path_one: str
    first: str
    first_1: str
    last: str
    last_1: str
    semi_first: str
    semi_last: str


def measure_heads(survey: Survey, control: Survey) -> HeadShares:
    """Return the shares of the three parts in every head, heads in order of layers."""
    return HeadShares(survey.divergence.ravel(), heads_of(survey.parts), control.divergence.ravel())


def heads_of(parts: np.ndarray) -> Float[np.ndarray, "head part"]:
    """Return the three parts that reach the attention, heads in order of layers."""
    return parts[..., : len(PARTS)].reshape(-1, len(PARTS))


def measure_texts(survey: Survey) -> TextShares:
    """Return the shares of the parts, and the heads with less content than the rest, text by text."""
    parts = survey.by_text[..., : len(PARTS)]  # (layer, text, head, part)
    shares = parts.sum((0, 2)) / parts.sum((0, 2, 3))[:, None]
    return TextShares(shares, (parts[..., 1:].sum(-1) > parts[..., CONTENT]).sum((0, 2)).astype(float))


def measure_layers(survey: Survey) -> Float[np.ndarray, "layer part"]:
    """Return the shares of the parts layer by layer."""
    parts = survey.parts[..., : len(PARTS)].sum(1)
    return parts / parts.sum(1, keepdims=True)


def interval_text(values: np.ndarray, form: str, unit: str = "") -> str:
    """Say the interval of a mean over texts, or that there are too few texts."""
    if len(values) < FEWEST:
        return "too few texts to tell"
    return mean_interval(values).format(form) + unit


def model_numbers(heads: HeadShares, texts: TextShares, first: FirstLayer) -> dict[str, int | str]:
    """Return the fields of :class:`ModelNumbers`."""
    rest = {part: heads.parts.sum(1) - heads.parts[:, part] for part in (CONTENT, SEMI_BIAS)}
    content, common, semi = (percent(heads.share(part)) for part in range(len(PARTS)))
    return {
        "heads": len(heads.parts),
        "divergence": f"{heads.divergence.mean():.2f}",
        "control": f"{heads.control.mean():.3f}",
        "content": content,
        "common": common,
        "semi": semi,
        "content_interval": interval_text(100 * texts.shares[:, CONTENT], ".0f", " %"),
        "semi_majority": int((heads.parts[:, SEMI_BIAS] > rest[SEMI_BIAS]).sum()),
        "content_minority": int((rest[CONTENT] > heads.parts[:, CONTENT]).sum()),
        "content_minority_interval": interval_text(texts.content_minority, ".1f"),
        **{term: percent(share) for term, share in zip(SIX, first.shares) if term in ("ee", "pp", "e", "p")},
    }


def minilm_numbers(survey: Survey, layers: Float[np.ndarray, "layer part"]) -> dict[str, str]:
    """Return the fields that MiniLM has beyond the other models."""
    content = layers[:, CONTENT]
    return {
        "content_0": percent(content[0]),
        "content_low": percent(content[1:].min()),
        "content_high": percent(content[1:].max()),
        "zero": percent(survey.from_zero[..., CONTENT].sum() / survey.divergence.sum()),
    }


def mixed_terms(layers: Mapping[str, FirstLayer]) -> MixedTerms:
    """Return how much the mixed terms get, over all models."""
    return MixedTerms(
        mixed=percent(max(layer.shares[1:3].sum() for layer in layers.values())),
        mixed_low=percent(min(layer.mixed.min() for layer in layers.values())),
        mixed_high=percent(max(layer.mixed.max() for layer in layers.values())),
    )


@torch.no_grad()
def measure_one_text(name: str, survey: Survey, inputs: Inputs) -> OneText:
    """Split one text's attention along the path, and in other ways, about the origins of all texts."""
    checkpoint = checkpoints.find(name)
    model = pretrained.load(checkpoint, dtype=torch.float64, device=inputs.device)
    ids = parts.inputs(checkpoint, inputs.texts)[-1].to(inputs.device)
    states = [states[0] for states in model(ids[None], output_hidden_states=True).hidden_states[:-1]]
    layers, origins = load(model).plain_layers(), torch.tensor(survey.origins, device=inputs.device)
    semi_bias = survey.parts[..., SEMI_BIAS]
    layer, head = (int(index) for index in np.unravel_index(semi_bias.argmax(), semi_bias.shape))
    by_part = score_terms(states[layer], layers[layer], origins[layer]).stack(*parts.COMPARED)[:, head]
    tables = [parts.compare_splits(*of_layer, causal=False) for of_layer in zip(states, layers, origins)]
    splits = {split: np.stack([table[split].mean(1) for table in tables]) for split in tables[0]}
    return OneText(layer, head, by_part.cpu(), splits)


def other_splits(text: OneText) -> OtherSplits:
    """Return the shares of content and semi-bias in other splits."""
    whole = text.splits["path"].sum(1)

    def share(split: str, part: int) -> str:
        return percent(text.splits[split][:, part].sum() / whole.sum())

    def share_1(split: str, part: int) -> str:
        return percent(text.splits[split][1, part] / whole[1])

    return OtherSplits(
        drop_sum=percent(text.splits["drop one"].sum() / whole.sum()),
        path_one=share("path", CONTENT),
        first=share("in order", CONTENT),
        first_1=share_1("in order", CONTENT),
        last=share("reverse order", CONTENT),
        last_1=share_1("reverse order", CONTENT),
        semi_first=share("reverse order", SEMI_BIAS),
        semi_last=share("in order", SEMI_BIAS),
    )
