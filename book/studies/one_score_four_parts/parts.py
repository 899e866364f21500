"""The four parts of a score, and the formulas that they obey.

GPT-2 and BERT, trained or control, on passages of text; a classifier of k-mers on the gene of an invented lineage.
Everything in float64 but the distances.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from analysis.core.attention_layer import AttentionLayer
from analysis.data import texts
from analysis.decomposition import bilinear_form
from analysis.decomposition.terms import score_terms, six_terms
from analysis.maps import attribution, distance, gates, shapley_values
from analysis.models import extraction, pretrained
from analysis.models.checkpoints import Checkpoint
from analysis.models.reading import load
from analysis.transformer import constructed_heads
from analysis.transformer.attention import mask_future, softmax
from book.publish.records import Record, Result

# ---- What the chapter on the whole score measures on a model

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
SIX = ("ee", "ep", "pe", "pp", "e", "p")
COMPARED = ("content", "common", "semi_bias")
PASSAGES, TOKENS, ROWS = 8, 64, 64


@dataclass(frozen=True)
class Survey:
    """Means over texts, and over rows that see two keys or more.

    ``error`` is the largest difference between the bordered product's attention and the module's, ``gap`` between the
    parts and the divergence; ``divergence (layer, head)`` and ``parts (layer, head, part)`` are in nats, as in
    ``ScoreTerms``, about origin 0 in ``from_zero`` and in ``parts`` about ``origins (layer, model)``, the mean
    input over all texts; ``by_text (layer, text, head, part)`` are ``parts`` text by text; ``first (head, term)`` are
    the shares of ``SIX`` in layer 0; ``distance (layer, head, family)`` is the total variation to the nearest member
    of each family; ``maps`` are the maps of the first text ``(layer, head, query, key)``.
    """

    error: float
    gap: float
    divergence: np.ndarray
    parts: np.ndarray
    from_zero: np.ndarray
    by_text: np.ndarray
    origins: np.ndarray
    first: np.ndarray
    distance: np.ndarray
    maps: np.ndarray
    causal: bool

    def nearest(self, family: str) -> tuple[int, int, float]:
        """Return layer, head and distance of the head nearest to a family."""
        table = self.distance[..., list(FAMILIES).index(family)]
        layer, head = np.unravel_index(table.argmin(), table.shape)
        return int(layer), int(head), float(table.min())


def members(tokens: Tensor, *, causal: bool) -> dict[str, Tensor]:
    """Return the maps of all prototypes on these tokens, ``(member, query, key)`` by family.

    A constant pattern prefers the text's first token, or without a mask its last or commonest one (under a mask, what
    stands late is seen by few, and the map is uniform). Ramps have two slopes, circles three periods.
    """
    _, tokens = torch.unique(tokens, return_inverse=True)
    size = int(tokens.max()) + 1, len(tokens)
    favourites = dict.fromkeys((int(tokens[0]), int(tokens[-1]), int(tokens.bincount().argmax()))[: 1 if causal else 3])
    periods = [p for p in PERIODS if p <= len(tokens)] or [PERIODS[0]]
    built = {
        "uniform": [constructed_heads.uniform(*size)],
        "constant": [constructed_heads.constant_pattern(*size, t) for t in favourites],
        "previous": [constructed_heads.previous_token(*size)],
        "matched": [constructed_heads.matched_token(*size)],
        "T^p": [constructed_heads.position_bias(*size, slope) for slope in SLOPES],
        "T^pp": [constructed_heads.position_match(*size, period) for period in periods],
        "both": [constructed_heads.position_both(*size, SLOPES[1], period) for period in periods],
    }
    return {
        name: torch.stack(
            [constructed_heads.attention_map(layer.to(tokens.device), tokens, causal=causal) for layer in its]
        )
        for name, its in built.items()
    }


def distances(maps: Tensor, tokens: Tensor, *, causal: bool) -> Tensor:
    """Return the distance of each map to the nearest member of each family, ``(..., family)``, on the chosen rows."""
    found, rows = members(tokens, causal=causal), _rows(tokens)
    return torch.stack(
        [distance.mean_total_variation(maps[..., rows, :], found[name][:, rows]).amin(-1) for name in FAMILIES], -1
    )


def inputs(checkpoint: Checkpoint, source: str | Path | None = None) -> list[Tensor]:
    """Return the token ids of the texts, or of one invented lineage's gene for a classifier of k-mers.

    ``source`` is a text file, or a folder of them, to read instead of the bundled passages.
    """
    tokenizer = pretrained.tokenizer(checkpoint)
    if (checkpoint.folder / "report.json").exists():
        from book.lab.dna.kmers import kmers, load_tokenizer, words
        from book.lab.dna.simulate import invent_backbones

        lines = {b.label: b.aligned.replace("-", "") for b in invent_backbones(0)}
        tokenizer = load_tokenizer(checkpoint.folder)
        return [
            torch.tensor(tokenizer(words(lines[label]))["input_ids"][: 1 + len(kmers(lines[label]))])
            for label in ("Omicron",)
        ]
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
) -> Survey:
    """Measure a model, or its control, on the bundled passages or on those of ``source``."""
    model = pretrained.load(checkpoint, control_seed=control_seed, dtype=torch.float64, device=device)
    weights = load(model)
    layers, causal = weights.plain_layers(), weights.causal
    read, far, error, first, kept = [], [], 0.0, [], None
    for ids in (given.to(device) for given in inputs(checkpoint, source)):
        ran = model(ids[None], output_hidden_states=True, output_attentions=True)
        xs = extraction.attention_inputs(model, [state[0] for state in ran.hidden_states])
        maps = torch.stack([a[0] for a in ran.attentions])
        if kept is None:  # a model's product with a border is as wide as the model: once is enough
            error = max(identity_error(x, w, a) for x, w, a in zip(xs, layers, maps))
        far.append(distances(maps.float(), ids, causal=causal))
        first.append(first_layer(model, ids, layers[0], causal))
        read.append(xs)
        kept = maps if kept is None else kept
    by_layer = [split_layer([xs[i] for xs in read], w, causal) for i, w in enumerate(layers)]
    gap = max(found[-1] for found in by_layer)
    whole, parts, zero, by_text = (np.stack([found[k] for found in by_layer]) for k in range(4))
    origins = np.stack([mean_input([xs[i] for xs in read]).cpu().numpy() for i in range(len(layers))])
    return Survey(
        error,
        gap,
        whole,
        parts,
        zero,
        by_text,
        origins,
        torch.stack(first).mean(0).cpu().numpy(),
        torch.stack(far).mean(0).cpu().numpy(),
        kept.float().cpu().numpy(),
        causal,
    )


def identity_error(x: Tensor, layer: AttentionLayer, attention: Tensor) -> float:
    """Return how far the attention of one product with a border is from a module's."""
    one = bilinear_form.homogeneous(x)
    scores = one @ bilinear_form.bordered(layer) @ one.mT
    mine = softmax(mask_future(scores) if not attention.triu(1).any() else scores)
    return float((mine - attention).abs().max())


def visible(queries: Tensor, keys: int, causal: bool) -> Tensor:
    """Return which keys the given queries see."""
    if causal:
        return torch.arange(keys, device=queries.device) <= queries[:, None]
    return torch.ones(len(queries), keys, dtype=torch.bool, device=queries.device)


def _rows(x: Tensor) -> Tensor:
    """Choose the rows of a text that are split: all but the first, or evenly spread ones of a long text."""
    length = len(x)
    rows = torch.arange(1, length) if length <= ROWS + 1 else torch.linspace(1, length - 1, ROWS).round().long()
    return rows.to(x.device)  # rounded on the CPU: the same rows everywhere


def mean_input(xs: Sequence[Tensor]) -> Tensor:
    """Return the mean of a layer's inputs over all positions of all texts, the origin of the common part."""
    return torch.cat(list(xs)).mean(0)


def split_layer(
    xs: Sequence[Tensor], layer: AttentionLayer, causal: bool, *, first: bool = True
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, float]:
    """Split one layer's divergence on several texts, of the attention to all keys or to all but the first.

    Returns the whole, the parts about the mean input and about 0, the former text by text, and the largest gap.
    """
    origin, found = mean_input(xs), []
    for x in xs:
        rows = _rows(x)
        about = score_terms(x, layer, origin, x[rows]).stack()
        seen = visible(rows, len(x), causal)
        seen[:, 0] &= first
        split = attribution.attribute_divergence(about, seen)
        found.append((split.divergence.mean(-1), split.parts.mean(-1), split.gap))
    by_text = torch.stack([f[1] for f in found])
    whole, parts = torch.stack([f[0] for f in found]).mean(0), by_text.mean(0)
    zero = torch.stack([parts[0] + parts[1], parts[2], parts[3], parts[4]])  # additive: content is content and common
    whole, parts, zero, by_text = (t.cpu().numpy() for t in (whole, parts.T, zero.T, by_text.mT))
    return whole, parts, zero, by_text, max(f[2] for f in found)


def first_layer(model: torch.nn.Module, ids: Tensor, layer: AttentionLayer, causal: bool) -> Tensor:
    """Split the first layer's divergence over tokens and positions, ``(head, term)`` in the order of ``SIX``."""
    tokens, positions, norm = extraction.embed(model, ids)
    return split_six(tokens, positions, layer, norm, causal)


def split_six(e: Tensor, p: Tensor, layer: AttentionLayer, ln, causal: bool) -> Tensor:
    """Split the divergence of a layer that reads ``LN(e + p)`` over its six terms, ``(head, term)``."""
    terms, rows = six_terms(e, p, layer, ln), _rows(e)
    parts = [getattr(terms, name) for name in SIX[:4]]
    parts += [getattr(terms, name)[:, None].expand_as(parts[0]) for name in SIX[4:]]
    split = attribution.attribute_divergence(torch.stack(parts)[:, :, rows], visible(rows, len(e), causal))
    return split.parts.mean(-1).T


def compare_splits(x: Tensor, layer: AttentionLayer, origin: Tensor, causal: bool) -> dict[str, np.ndarray]:
    """Return, of each head, what other splits give to content, common part and semi-bias about an origin.

    ``(part, head)`` each: the path, the parts in order and in reverse, Shapley's mean over orders, dropping one.
    """
    rows = _rows(x)
    parts, seen = score_terms(x, layer, origin, x[rows]).stack(*COMPARED), visible(rows, len(x), causal)
    found = {
        "path": attribution.attribute_divergence(parts, seen).parts,
        "in order": shapley_values.in_order(parts, (0, 1, 2), seen),
        "reverse order": shapley_values.in_order(parts, (2, 1, 0), seen),
        "mean of orders": shapley_values.shapley(parts, seen),
        "drop one": shapley_values.drop_one(parts, seen),
    }
    halves = torch.cat([parts[1:], parts[:1] / 2, parts[:1] / 2])  # content cut in two
    for name, split in (
        ("path, content cut", lambda p: attribution.attribute_divergence(p, seen).parts),
        ("mean of orders, content cut", lambda p: shapley_values.shapley(p, seen)),
    ):
        common, semi, *content = split(halves)
        found[name] = torch.stack([sum(content), common, semi])
    return {name: table.mean(-1).cpu().numpy() for name, table in found.items()}


# ---- Heads from formulas and the real heads nearest to them: the tokens they read, their gates, and maps to draw

POSITIONS, VOCABULARY = 48, 12  # of the random text that the formulas read
VISIBLE = 0.1  # a gate with less of a map than this is not counted
GPT2 = "GPT-2, positions"

Map = Float[np.ndarray, "query key"]


@dataclass(frozen=True)
class Atlas:
    """Maps to draw side by side: ``columns`` holds one map for each of ``rows``, ``labels`` what stands above them."""

    rows: Sequence[str]
    columns: Mapping[str, Sequence[Map]]
    labels: Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Distances:
    """Total variation from each family of formulas to the nearest trained head and to the nearest control."""

    trained: Float[np.ndarray, " family"]
    control: Float[np.ndarray, " family"]

    def of(self, family: str) -> tuple[float, float]:
        """Return the distances to one family: of the nearest trained head, and of the nearest control."""
        index = list(FAMILIES).index(family)
        return float(self.trained[index]), float(self.control[index])


def random_tokens() -> Int[Tensor, " position"]:
    """Draw the text that the formulas read."""
    return torch.randint(VOCABULARY, (POSITIONS,), generator=torch.Generator().manual_seed(0))


def gate_shares(attention: Float[Tensor, "query key"], *, causal: bool) -> dict[str, float]:
    """Return the gates that have more than a tenth of a map, with their shares, the largest first."""
    scores = gates.read_gates(attention, causal=causal).scores.tolist()
    shares = {gate: share for gate, share in zip(gates.GATES, scores) if share > VISIBLE}
    return dict(sorted(shares.items(), key=lambda item: (-round(item[1], 2), item[0])))  # equal as printed: by name


def coarse_map(attention: np.ndarray, most: int = POSITIONS) -> Map:
    """Reduce a map to at most some positions: the first ones, or those of a long map in blocks.

    A cell of a block map is the attention to a block of keys, averaged over a block of queries.

    Examples
    --------
    >>> coarse_map(np.full((4, 4), 0.25), most=2)
    array([[0.5, 0.5],
           [0.5, 0.5]])
    """
    attention, size = np.asarray(attention, dtype=float), min(most, len(attention))
    step = max(1, len(attention) // most)
    blocks = attention[: size * step, : size * step].reshape(size, step, size, step)
    return blocks.sum(3).mean(1).round(4)


def measure_distances(
    gpt2: Record | Result, surveys: Mapping[str, Survey], controls: Mapping[str, Survey]
) -> dict[str, Distances]:
    """Return each model's distances to the formulas, GPT-2's positions first."""
    recorded = Distances(gpt2.array("distance").min(0), gpt2.array("control_distance").min(0))
    return {GPT2: recorded} | {
        name: Distances(surveys[name].distance.min((0, 1)), controls[name].distance.min((0, 1))) for name in surveys
    }


def measure_atlas(tokens: Int[Tensor, " position"], gpt2: Record | Result, surveys: Mapping[str, Survey]) -> Atlas:
    """Collect the formulas' maps and, of each model, the maps of the heads nearest to them."""
    columns = {}
    for title, causal in (("no mask", False), ("causal", True)):
        found = members(tokens, causal=causal)
        columns[title] = [coarse_map(found[family][0]) for family in FAMILIES]
    columns[GPT2] = [coarse_map(attention) for attention in gpt2.array("maps")]
    distance = gpt2.array("distance")
    labels = {GPT2: [_label(0, head, distance[head, i]) for i, head in enumerate(distance.argmin(0))]}
    for name, survey in surveys.items():
        nearest = [survey.nearest(family) for family in FAMILIES]
        columns[name] = [coarse_map(survey.maps[layer, head]) for layer, head, _ in nearest]
        labels[name] = [_label(*head) for head in nearest]
    return Atlas(list(FAMILIES.values()), columns, labels)


def _label(layer: int, head: int, distance: float) -> str:
    return f"head {layer}.{head}: {distance:.2f}"
