"""What the parts of the score explain in every head of a GPT-2 or BERT, and how near its maps are to formulas.

Divergence from even attention is split over the parts of the score, about an origin, or over tokens and positions. The
models read passages, a classifier of k-mers the gene of an invented lineage. Everything in float64 but the distances.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from analysis.core.attention_layer import AttentionLayer
from analysis.data import texts
from analysis.decomposition import bilinear_form
from analysis.decomposition.terms import score_terms, six_terms
from analysis.maps import attribution, distance
from analysis.models import extraction, pretrained
from analysis.models.checkpoints import Checkpoint
from analysis.models.reading import load
from analysis.transformer import constructed_heads
from analysis.transformer.attention import mask_future, softmax

PARTS = ("content", "common", "semi-bias")  # what reaches the attention; the parts of a split begin with these
SIX = ("ee", "ep", "pe", "pp", "e", "p")  # of a layer that reads tokens and positions
ROWS = 64  # of a long text that are split
FAMILIES = {
    "uniform": "uniform",
    "constant": "constant pattern",
    "previous": "previous token",
    "matched": "matched token",
    "T^p": "T^p",
    "T^pp": "T^pp",
    "both": "T^p and T^pp",
}
SLOPES, PERIODS = (1.0, 0.1), (8, 16, 64)
PASSAGES, TOKENS = 8, 64


# ---- The split of one layer


class Split(NamedTuple):
    """A layer's divergence from even attention, mean over rows and texts, in nats.

    ``parts (head, part)`` are about the mean input, ``from_zero`` about 0, ``by_text (text, head, part)`` are the
    former text by text. ``gap`` is how far the parts of a row are from its divergence at most.
    """

    divergence: Float[np.ndarray, " head"]
    parts: Float[np.ndarray, "head part"]
    from_zero: Float[np.ndarray, "head part"]
    by_text: Float[np.ndarray, "text head part"]
    gap: float


def choose_rows(x: Tensor) -> Int[Tensor, " row"]:
    """Choose the rows of a text that are split: all but the first, or evenly spread ones of a long text."""
    length = len(x)
    rows = torch.arange(1, length) if length <= ROWS + 1 else torch.linspace(1, length - 1, ROWS).round().long()
    return rows.to(x.device)  # rounded on the CPU: the same rows everywhere


def visible(queries: Int[Tensor, " row"], keys: int, causal: bool) -> Bool[Tensor, "row key"]:
    """Return which keys the given queries see."""
    if causal:
        return torch.arange(keys, device=queries.device) <= queries[:, None]
    return torch.ones(len(queries), keys, dtype=torch.bool, device=queries.device)


def mean_input(xs: Sequence[Tensor]) -> Float[Tensor, " model"]:
    """Return the mean of a layer's inputs over all positions of all texts, the origin of the common part."""
    return torch.cat(list(xs)).mean(0)


def split_layer(xs: Sequence[Tensor], layer: AttentionLayer, causal: bool, *, first: bool = True) -> Split:
    """Split one layer's divergence on several texts, of the attention to all keys or to all but the first."""
    origin, found = mean_input(xs), []
    for x in xs:
        rows = choose_rows(x)
        parts = score_terms(x, layer, origin, x[rows]).stack()
        seen = visible(rows, len(x), causal)
        seen[:, 0] &= first
        split = attribution.attribute_divergence(parts, seen)
        found.append((split.divergence.mean(-1), split.parts.mean(-1), split.gap))
    by_text = torch.stack([parts for _, parts, _ in found])
    whole, parts = torch.stack([divergence for divergence, *_ in found]).mean(0), by_text.mean(0)
    zero = torch.stack([parts[0] + parts[1], *parts[2:]])  # counted from 0 the common part is in the content
    return Split(*(t.cpu().numpy() for t in (whole, parts.T, zero.T, by_text.mT)), max(gap for *_, gap in found))


def split_six(
    e: Float[Tensor, "position model"], p: Float[Tensor, "position model"], layer: AttentionLayer, norm, causal: bool
) -> Float[Tensor, "head term"]:
    """Split the divergence of a layer that reads ``LN(e + p)`` over its terms, in the order of ``SIX``."""
    terms, rows = six_terms(e, p, layer, norm), choose_rows(e)
    parts = [getattr(terms, name) for name in SIX[:4]]
    parts += [getattr(terms, name)[:, None].expand_as(parts[0]) for name in SIX[4:]]
    split = attribution.attribute_divergence(torch.stack(parts)[:, :, rows], visible(rows, len(e), causal))
    return split.parts.mean(-1).T


# ---- Maps of heads that a formula defines, and how far other maps on the same tokens are from them


def members(tokens: Int[Tensor, " position"], *, causal: bool) -> dict[str, Float[Tensor, "member query key"]]:
    """Return the maps of all formulas on these tokens, by family.

    A constant pattern prefers the text's first token, or without a mask its last or commonest one (under a mask, what
    stands late is seen by few, and the map is uniform). Ramps have two slopes, circles three periods.
    """
    _, tokens = torch.unique(tokens, return_inverse=True)
    size = int(tokens.max()) + 1, len(tokens)
    favourites = dict.fromkeys((int(tokens[0]), int(tokens[-1]), int(tokens.bincount().argmax()))[: 1 if causal else 3])
    periods = [period for period in PERIODS if period <= len(tokens)] or [PERIODS[0]]
    built = {
        "uniform": [constructed_heads.uniform(*size)],
        "constant": [constructed_heads.constant_pattern(*size, token) for token in favourites],
        "previous": [constructed_heads.previous_token(*size)],
        "matched": [constructed_heads.matched_token(*size)],
        "T^p": [constructed_heads.position_bias(*size, slope) for slope in SLOPES],
        "T^pp": [constructed_heads.position_match(*size, period) for period in periods],
        "both": [constructed_heads.position_both(*size, SLOPES[1], period) for period in periods],
    }

    def attend(layer):
        return constructed_heads.attention_map(layer.to(tokens.device), tokens, causal=causal)

    return {name: torch.stack([attend(layer) for layer in its]) for name, its in built.items()}


def distances(
    maps: Float[Tensor, "*batch head query key"], tokens: Int[Tensor, " position"], *, causal: bool
) -> Float[Tensor, "*batch head family"]:
    """Return the distance of each map to the nearest member of each family, on the rows that are split."""
    found, rows = members(tokens, causal=causal), choose_rows(tokens)
    return torch.stack(
        [distance.mean_total_variation(maps[..., rows, :], found[name][:, rows]).amin(-1) for name in FAMILIES], -1
    )


# ---- Whole models


def read_texts(checkpoint: Checkpoint, source: str | Path | None = None) -> list[Tensor]:
    """Return the token ids of the texts, or of one invented lineage's gene for a classifier of k-mers.

    ``source`` is a text file, or a folder of them, to read instead of the bundled passages.
    """
    if (checkpoint.folder / "report.json").exists():
        from book.lab.dna.kmers import kmers, load_tokenizer, words
        from book.lab.dna.simulate import invent_backbones

        gene = next(b.aligned.replace("-", "") for b in invent_backbones(0) if b.label == "Omicron")
        ids = load_tokenizer(checkpoint.folder)(words(gene))["input_ids"]
        return [torch.tensor(ids[: 1 + len(kmers(gene))])]
    tokenizer = pretrained.tokenizer(checkpoint)
    longest = min(TOKENS, load(checkpoint).config.max_position_embeddings)
    found = [
        torch.tensor(tokenizer(text, truncation=True, max_length=longest)["input_ids"])
        for text in texts.passages(count=PASSAGES, source=source)
    ]
    return [ids for ids in found if len(ids) > 1]


@torch.no_grad()
def survey(
    checkpoint: Checkpoint,
    *,
    control_seed: int | None = None,
    source: str | Path | None = None,
    device: torch.device | str = "cpu",
) -> dict[str, np.ndarray]:
    """Measure a model, or its control, on the bundled passages or on those of ``source``.

    Returns
    -------
    dict
        Means over texts, and over rows that see two keys or more. In nats: ``divergence (layer, head)``, ``parts
        (layer, head, part)`` about ``origins (layer, model)``, which are the mean inputs over all texts, ``from_zero``
        the same about 0, ``by_text (layer, text, head, part)``, and ``first (head, term)``, layer 0 split over tokens
        and positions. ``distance (layer, head, family)`` is to the nearest map of each family of formulas, ``maps
        (layer, head, query, key)`` are of the first text. ``error`` is how far the attention of one product with a
        border is from the module's, ``gap`` how far the parts of a row are from its divergence.
    """
    model = pretrained.load(checkpoint, control_seed=control_seed, dtype=torch.float64, device=device)
    weights = load(model)
    layers, causal = weights.plain_layers(), weights.causal
    read, first, far, maps_of_first, error = [], [], [], None, 0.0
    for ids in (given.to(device) for given in read_texts(checkpoint, source)):
        ran = model(ids[None], output_hidden_states=True, output_attentions=True)
        xs = extraction.attention_inputs(model, [state[0] for state in ran.hidden_states])
        maps = torch.stack([attention[0] for attention in ran.attentions])
        if maps_of_first is None:  # the product with a border is as wide as the model: once is enough
            error = max(identity_error(x, layer, of_layer) for x, layer, of_layer in zip(xs, layers, maps))
            maps_of_first = maps
        tokens, positions, norm = extraction.embed(model, ids)
        first.append(split_six(tokens, positions, layers[0], norm, causal))
        far.append(distances(maps.float(), ids, causal=causal))
        read.append(xs)
    inputs = [[xs[number] for xs in read] for number in range(len(layers))]
    splits = [split_layer(xs, layer, causal) for xs, layer in zip(inputs, layers)]
    by_layer = {name: np.stack([getattr(split, name) for split in splits]) for name in splits[0]._fields}
    return by_layer | {
        "gap": by_layer["gap"].max(),
        "error": np.float64(error),
        "origins": np.stack([mean_input(xs).cpu().numpy() for xs in inputs]),
        "first": torch.stack(first).mean(0).cpu().numpy(),
        "distance": torch.stack(far).mean(0).cpu().numpy(),
        "maps": maps_of_first.float().cpu().numpy(),
    }


def identity_error(
    x: Float[Tensor, "position model"], layer: AttentionLayer, attention: Float[Tensor, "head query key"]
) -> float:
    """Return how far the attention of one product with a border is from a module's."""
    one = bilinear_form.homogeneous(x)
    scores = one @ bilinear_form.bordered(layer) @ one.mT
    mine = softmax(mask_future(scores) if not attention.triu(1).any() else scores)
    return float((mine - attention).abs().max())
