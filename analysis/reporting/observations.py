"""What the heads and the rows of a model do on texts, added up while it runs, one text at a time; no map is kept.

Whatever model is read (`analysis.surveys.layer_runs.visit_layers`).
"""

import math
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from analysis.core.checks import all_finite
from analysis.decomposition.terms import multiply_out
from analysis.maps import gates
from analysis.maps.attribution import attribute_divergence
from analysis.matrices.rank import effective_rank
from analysis.models.pretrained import check_rows_of
from analysis.models.reading import AnyModel
from analysis.representations.anisotropy import mean_pairwise_cosine
from analysis.representations.rank_collapse import residual
from analysis.statistics.normality import critical_value, lilliefors
from analysis.surveys.layer_runs import LayerOnText, ScoreBlock, visit_layers
from analysis.transformer.attention import visible_keys

PARTS = {"content": "content", "semi_bias": "key semi-bias", "query_side": "query side", "kernel": "kernel"}
"""The four parts of a score by their field of :class:`analysis.decomposition.terms.ScoreTerms`, in a reader's words."""
OF_HEADS = ("entropy", "sink", "sink with values", "previous", "next", "itself")
"""Numbers of a map, from 0 to 1: see `HeadNumbers`."""
OF_REPEATS = ("induction", "duplicate", "previous on random tokens")
"""Numbers of a map of random tokens that are read twice: see `read_repeats`."""
OF_STATES = ("cosine", "not normal", "rank", "residual")
"""Numbers of the rows between layers: see `describe_rows`."""

LINES = (-1, 1, 0)
"""How far the last three of `OF_HEADS` look."""
FAINT = -1000.0
"""How far below the largest score of its row a score counts: its weight is 0 from -750 on, in float64 too."""

REPEATS, PERIOD = 4, 50
"""How many sequences of random tokens are read twice, and how many tokens each has at most."""

Maps = Float[Tensor, "head query key"]
SplitBiases = Callable[[int, int], tuple[Tensor, Tensor]]
"""From a layer and a number of positions to ``b_Q`` and ``b_K`` as they stand in queries and keys,
``(head, position or 1, channel)``."""


@dataclass(frozen=True)
class Choice:
    """What is measured of a model's maps.

    Attributes
    ----------
    gates
        Whether gates are read, which takes far longer than all else.
    values
        Whether values are computed, for what the sink carries.
    heads
        Which heads, as ``(layer, head)``; default: all.
    queries
        Whose rows count, from the first to before the last; default: all. Gates are read in whole maps only.
    """

    gates: bool = True
    values: bool = True
    heads: tuple[tuple[int, int], ...] | None = None
    queries: tuple[int, int | None] = (0, None)

    def of_layer(self, number: int) -> list[int] | slice:
        """Return which heads of a layer are chosen."""
        return slice(None) if self.heads is None else [head for layer, head in self.heads if layer == number]

    def layers(self) -> set[int] | None:
        """Return the layers that a chosen head is in; ``None``: all."""
        return None if self.heads is None else {layer for layer, _ in self.heads}


ALL = Choice()


@dataclass
class Observations:
    """Sums over texts, by layer and head or by state (``states``).

    ``parts`` holds what each part of the scores explains, counted from 0; ``mean_parts`` the same, counted from the
    mean query and key (:mod:`analysis.reporting.origins`). ``repeats`` and ``ranges`` are not sums: the scores of
    `read_repeats`, and with rotary positions the largest range over heads, in nats, of the kernel of the mean input.
    """

    texts: int
    gates: Float[np.ndarray, "layer head gate"]
    heads: Float[np.ndarray, "layer head number"]
    parts: Float[np.ndarray, "layer head part"]
    mean_parts: Float[np.ndarray, "layer head part"]
    states: Float[np.ndarray, "state measure"]
    repeats: Float[np.ndarray, "layer head repeat"]
    ranges: Float[np.ndarray, " layer"]

    @classmethod
    def empty(cls, layers: int, heads: int) -> "Observations":
        """Start with nothing added up."""
        return cls(
            0,
            np.zeros((layers, heads, len(gates.GATES))),
            np.zeros((layers, heads, len(OF_HEADS))),
            *np.zeros((2, layers, heads, len(PARTS))),
            np.zeros((layers + 1, len(OF_STATES))),
            np.zeros((layers, heads, len(OF_REPEATS))),
            np.zeros(layers),
        )

    def all_reduce(self, device: torch.device | str = "cpu") -> None:
        """Add up what the processes of ``torch.distributed`` have seen, in each of them, over this device."""
        for field in fields(self):
            own = getattr(self, field.name)
            total = torch.as_tensor(own, dtype=torch.float64).to(device, copy=True)
            torch.distributed.all_reduce(total)
            setattr(self, field.name, int(total) if field.name == "texts" else total.cpu().numpy())

    def mean(self, name: str) -> np.ndarray:
        """Return one of the sums as a mean over texts; nan where nothing was read."""
        return getattr(self, name) / (self.texts or math.nan)

    def shares(self, name: str = "parts") -> Float[np.ndarray, "layer part"]:
        """Return the share of each part in the divergence of a layer's attention from uniform, over all texts.

        >>> seen = Observations.empty(1, 2)
        >>> seen.mean_parts += np.array([3.0, 1.0, 0.0, 0.0])
        >>> seen.shares("mean_parts").tolist()
        [[0.75, 0.25, 0.0, 0.0]]
        """
        sums = getattr(self, name).sum(1)
        with np.errstate(invalid="ignore"):
            return sums / sums.sum(-1, keepdims=True)


class HeadNumbers:
    """Adds up, from blocks of scores, the numbers of :data:`OF_HEADS` for every head.

    In this order: the mean entropy of a row as a share of the logarithm of the keys that it sees; the mean weight on
    the key that gets most; that key's share of the weights times the lengths of the values; the mean weights on the
    position before, the position after, and the query's own.

    Examples
    --------
    >>> numbers = HeadNumbers(1, range(2), torch.tensor([[0.0, 1.0]]))
    >>> numbers.add(ScoreBlock(slice(1), 0, torch.tensor([2, 2]), torch.zeros(1, 2, 2)))
    >>> numbers.means().tolist()
    [[1.0, 0.5, 0.0, 0.5, 0.5, 0.5]]
    """

    def __init__(self, heads: int, queries: range, value_norms: Float[Tensor, "#head key"]):
        """Start with nothing added up."""
        self.queries, self.value_norms = queries, value_norms
        self.received = value_norms.new_zeros(heads, value_norms.shape[-1])
        self.entropy, self.rows = value_norms.new_zeros(2, heads)
        self.lines = value_norms.new_zeros(heads, len(LINES))

    def add(self, block: ScoreBlock) -> None:
        """Add some queries of some heads; each is to come once."""
        few, keys, several = block.heads, block.scores.shape[-1], block.seen > 1
        top = block.scores.amax(-1, keepdim=True)
        below = (block.scores - top).clamp_(min=FAINT)  # not minus infinity, which times a weight of 0 is nan
        exps = (below / math.log(2)).exp2_()  # three times as fast as exp
        total = exps.sum(-1)
        if not all_finite(total):
            raise ValueError("attention holds nan: is what the layer reads finite?")
        # the entropy of the shares among the keys, beside a learned sink too
        entropy = (total.log() - below.mul_(exps).sum(-1) / total)[:, several]
        self.entropy[few] += (entropy / block.seen[several].to(entropy).log()).sum(-1)
        self.rows[few] += entropy.shape[-1]
        if block.sinks is not None:
            total += (block.sinks[:, None] - top[..., 0]).exp()
        share = total.reciprocal()
        self.received[few, :keys] += (share[:, None] @ exps)[:, 0]
        for number, offset in enumerate(LINES):
            start = block.first + offset
            line = exps.diagonal(start, -2, -1)
            self.lines[few, number] += (line * share[:, max(0, -start) :][:, : line.shape[-1]]).sum(-1)

    def means(self) -> Float[Tensor, "head number"]:
        """Return the means over the queries; nan where there is none, or a line has no cell."""
        first, last, n = self.queries.start, self.queries.stop, self.received.shape[-1]
        received = self.received / len(self.queries)
        (weight, key), carried = received.max(-1), received * self.value_norms
        total = carried.sum(-1)
        moved = carried.gather(-1, key[:, None])[:, 0] / torch.where(total > 0, total, 1)
        cells = [max(0, min(last, n - offset) - max(first, -offset)) for offset in LINES]
        lines = self.lines / torch.tensor(cells).to(self.lines)
        return torch.cat([torch.stack([self.entropy / self.rows, weight, moved], -1), lines], -1)


def describe_rows(rows: Float[Tensor, "position model"]) -> Float[Tensor, " measure"]:
    """Return the numbers of :data:`OF_STATES`.

    In this order: the mean cosine of two rows, the share of the rows that a test at 5 % finds not to be normal, the
    effective rank as a share of what so many rows can have, and the distance from all rows being one.

    Examples
    --------
    >>> rows = torch.eye(8, 20)
    >>> rows[0] *= 2  # singular values 2 and seven times 1: 11^2 / 23 of 8
    >>> round(describe_rows(rows).tolist()[2] * 8 * 23, 6)
    121.0
    """
    rows = rows.double()
    normal = lilliefors(rows) > critical_value(rows.shape[-1])
    rank = effective_rank(torch.linalg.svdvals(rows)) / min(rows.shape)
    return torch.stack([mean_pairwise_cosine(rows), normal.double().mean(), rank, residual(rows)])


def add_layer(sums: Observations, seen: LayerOnText, origins: Mapping[str, SplitBiases], choice: Choice = ALL) -> None:
    """Add up what one text's maps in one layer show."""
    heads, mask, n = choice.of_layer(seen.number), seen.layer.mask, len(seen.x)
    queries = range(n)[slice(*choice.queries)]
    norms = seen.value_norms()[heads] if choice.values else seen.x.new_zeros(1, n)
    numbers = HeadNumbers(len(range(seen.layer.heads)[heads] if isinstance(heads, slice) else heads), queries, norms)
    for block in seen.blocks(heads, queries):
        numbers.add(block)
    sums.heads[seen.number, heads] += numbers.means().cpu().numpy()
    if choice.gates:
        maps = seen.attention[heads]
        maps = maps if seen.layer.sinks is None else maps / maps.sum(-1, keepdim=True)  # among the keys of the text
        sums.gates[seen.number, heads] += gates.read_gates(maps, causal=mask.causal).scores.cpu().numpy()
    for name, split in origins.items():
        own = getattr(sums, name)
        visible = visible_keys(mask, n, seen.x.device)
        own[seen.number] += _attribute(*seen.queries_and_keys(), split(seen.number, n), seen.layer.scale, visible)


def _attribute(
    query: Tensor, key: Tensor, biases: tuple[Tensor, Tensor], scale: float, visible: Bool[Tensor, "query key"]
) -> np.ndarray:
    """Add up over rows what each part adds to the divergence from uniform attention."""
    query, key, b_Q, b_K = (rows.double() for rows in (query, key, *biases))
    parts = multiply_out(query - b_Q, b_Q, key - b_K, b_K, scale=scale).stack(*PARTS)
    return attribute_divergence(parts, visible).parts.sum(-1).T.cpu().numpy()


def add_text(
    sums: Observations,
    model: AnyModel,
    ids: Tensor,
    biases: SplitBiases | None = None,
    means: SplitBiases | None = None,
) -> None:
    """Run a model on one text, ``(1, position)`` ids, at least ``gates.SHORTEST``, and add what it shows.

    ``biases`` splits its scores into four parts counted from 0, and ``means`` counted from the mean query and key.
    """
    if ids.shape[-1] < gates.SHORTEST:
        raise ValueError(f"a text must have at least {gates.SHORTEST} tokens, got {ids.shape[-1]}")
    origins = {name: split for name, split in (("parts", biases), ("mean_parts", means)) if split is not None}
    output = visit_layers(model, ids, lambda seen: add_layer(sums, seen, origins), output_hidden_states=True)
    sums.states += np.stack([describe_rows(state[0].float()).cpu().numpy() for state in output.hidden_states])
    sums.texts += 1


def add_batch(
    sums: Observations, model: AnyModel, texts: Sequence[Tensor], padding: int = 0, choice: Choice = ALL
) -> None:
    """Run a model on several texts at once, ids as `add_text` takes them, and add what their maps show; no rows.

    Shorter texts are padded on the right, which nothing in them can see: in an encoder the mask hides it, in a causal
    model it comes later.
    """
    lengths = torch.tensor([ids.shape[-1] for ids in texts])
    longest = int(lengths.max())
    ids = torch.cat([torch.nn.functional.pad(ids, (0, longest - ids.shape[-1]), value=padding) for ids in texts])
    real = torch.arange(longest) < lengths[:, None]
    mask = {} if real.all() else {"attention_mask": real.long().to(ids.device)}
    add = lambda seen: add_layer(sums, seen, {}, choice)  # noqa: E731
    visit_layers(model, ids, add, lengths=lengths.tolist(), only=choice.layers(), **mask)
    sums.texts += len(texts)


def draw_repeats(first: int | None, vocabulary: int, longest: int, count: int = REPEATS) -> Int[Tensor, "n id"]:
    """Draw random tokens, each sequence of which stands twice, behind the token that every text begins with, if any.

    Ids are below ``vocabulary``; the whole has at most ``longest`` positions.

    Examples
    --------
    >>> ids = draw_repeats(7, 100, 9)
    >>> ids.shape, (ids[:, 0] == 7).all().item(), torch.equal(ids[:, 1:5], ids[:, 5:])
    (torch.Size([4, 9]), True, True)
    """
    begin = torch.full((count, first is not None), first or 0)
    period = min(PERIOD, (longest - begin.shape[1]) // 2)
    drawn = torch.randint(vocabulary, (count, period), generator=torch.Generator().manual_seed(0))
    return torch.cat([begin, drawn, drawn], 1)


def read_repeats(
    model: AnyModel, ids: Int[Tensor, "n id"], shape: tuple[int, int], only: Container[int] | None = None
) -> np.ndarray:
    """Return induction, duplicate-token and previous-token scores of every head of a causal model.

    ``(layer, head, 3)``. On random tokens that are read twice, the mean attention of the second reading to the token
    after the same one's first place (induction: the prefix matching score of Olsson et al. 2022, "In-context learning
    and induction heads"), to that place itself (duplicate-token heads, as Wang et al. 2023 name them,
    "Interpretability in the wild"), and to the position before (previous-token heads, of which induction heads are
    made: Elhage et al. 2021, "A mathematical framework for transformer circuits"). Random tokens say nothing, so that
    a head which attends to the position before does so for the sake of the position.

    ``ids`` are as `draw_repeats` makes them, ``shape`` is that of layers and heads, ``only`` are the layers to read.
    """
    scores, period = np.zeros((*shape, len(OF_REPEATS))), (ids.shape[-1]) // 2

    def add(seen: LayerOnText) -> None:
        again = seen.attention[..., -period:, :]
        start = again.shape[-1] - 2 * period
        offsets = (start + 1, start, start + period - 1)  # of the first query's key
        lines = [again.diagonal(offset, -2, -1).mean(-1) for offset in offsets]
        scores[seen.number] += torch.stack(lines, -1).cpu().numpy() / len(ids)

    visit_layers(model, ids, add, only=only)
    return scores


@dataclass(frozen=True)
class Tokenised:
    """Texts as ids, ``(1, position)`` each, with how many were left out as too short or cut at ``longest`` tokens.

    ``first`` is the token that the tokenizer puts before every text, if it does.
    """

    ids: list[Tensor]
    short: int
    cut: int
    longest: int
    first: int | None = None

    def lengths(self) -> str:
        """Say what was left out and cut; nothing where nothing was.

        >>> Tokenised([torch.zeros(1, 9)], 3, 1, 9).lengths()
        '3 of 4 texts have fewer than 8 tokens and were left out; 1 was cut to 9 tokens'
        >>> Tokenised([torch.zeros(1, 9)], 0, 0, 9).lengths()
        ''
        """
        said, total = [], len(self.ids) + self.short
        if self.short:
            one = self.short == 1
            said.append(
                f"{self.short:,} of {total:,} texts {'has' if one else 'have'} fewer than {gates.SHORTEST} tokens and "
                f"{'was' if one else 'were'} left out"
            )
        if self.cut:
            of = "" if said else f" of {total:,} texts"
            said.append(f"{self.cut:,}{of} {'was' if self.cut == 1 else 'were'} cut to {self.longest:,} tokens")
        return "; ".join(said)


def tokenise(tokenizer, texts: Sequence[str], longest: int, rows: int | None = None) -> Tokenised:
    """Turn texts into ids, cut to ``longest`` tokens; those too short for a map to be read are left out.

    Raises
    ------
    ValueError
        If none is long enough, or one has a token beyond the ``rows`` of a model.
    """

    def cut_to(length: int, text: str) -> Tensor:
        return tokenizer(text, truncation=True, max_length=length, return_tensors="pt")["input_ids"]

    ids = [cut_to(longest, text) for text in texts]
    for each in ids:
        if rows is not None and each.numel():
            check_rows_of(tokenizer, each, rows)
    long_enough = [i for i in ids if i.shape[-1] >= gates.SHORTEST]
    if not long_enough:
        raise ValueError(f"none of the {len(ids)} texts has {gates.SHORTEST} tokens or more: there is no map to read")
    full = [text for text, i in zip(texts, ids, strict=True) if i.shape[-1] == longest]
    cut = sum(cut_to(longest + 1, text).shape[-1] > longest for text in full)
    coded = tokenizer("a", return_special_tokens_mask=True)
    first = coded["input_ids"][0] if coded["special_tokens_mask"][:1] == [1] else None
    return Tokenised(long_enough, len(ids) - len(long_enough), cut, longest, first)
