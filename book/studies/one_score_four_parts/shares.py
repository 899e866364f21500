"""The shares of the parts in attention, and how they change with the length of a text.

Much of the attention goes to the first token. Without it, among the other keys alone, the shares are measured again.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from analysis.data import texts
from analysis.decomposition.terms import score_terms
from analysis.models import checkpoints, pretrained
from analysis.models.reading import load
from analysis.statistics.intervals import FEWEST, mean_interval
from book.publish import Inputs, Numbers, live_or_record
from book.publish.phrases import percent
from book.publish.records import Experiment, Result
from book.studies.one_score_four_parts import parts
from book.studies.one_score_four_parts.parts import PASSAGES, SIX, TOKENS, Survey, split_layer

# ---- How much each part of the score explains

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


# ---- How the parts' shares in MiniLM's attention depend on how much of a text is read, and on its first token

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


EXPERIMENTS = {
    "lengths": Experiment(
        "The parts' shares in MiniLM's attention, by how much of a text is read",
        compute,
        models=("minilm",),
        minutes=2,
        seed=0,
    )
}
