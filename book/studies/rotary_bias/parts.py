"""The parts of a rotary score, exact and in a model."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from analysis.core.positions import Rotary
from analysis.decomposition.bilinear_form import homogeneous
from analysis.decomposition.rotary_channels import split_channels
from analysis.decomposition.rotary_kernel import distance_kernel
from analysis.decomposition.terms import score_terms
from analysis.maps.attribution import attribute_divergence
from analysis.models import attention_hooks
from analysis.models.key_bias import CASES, Effect, key_bias_effect
from analysis.transformer.attention import mask_future
from analysis.transformer.rotary import rotate
from analysis.transformer.rotary_scaling import rotary_frequencies
from book.lab.mathematics.rotary_product import change_gauge, rotary_border
from book.lab.rotary_modules import rotary_module_scores
from book.publish import Numbers
from book.studies.shared.equality import draw, random_layer, relative_gap

# ---- How much each part of a rotary score explains, and what a language model loses without it

WAYS: Mapping[str, tuple[str, ...]] = {
    "whole": (),
    "no semi-bias": ("semi_bias",),
    "no query side": ("query_side",),
    "no kernel": ("kernel",),
    "no query bias": ("semi_bias", "kernel"),
    "no key bias": ("query_side", "kernel"),
    "content only": ("semi_bias", "query_side", "kernel"),
}
"""What is left out of every score, by the name of what remains or goes."""


@dataclass
class Scores:
    """Attention whose scores lack some parts, for `attention_hooks.with_attention`.

    ``previous`` holds, by layer, the attention to the previous position of each head in each way that is watched, from
    the same queries and keys, summed over rows that have a previous position; ``rows`` counts these.

    Attributes
    ----------
    biases
        By layer, what is constant in queries and in keys before they are turned: the biases, or the mean query and key.
    rotary
        How they are turned; ``None`` where they are not.
    drop
        The parts to leave out.
    head
        ``(layer, head)`` of the only head to leave them out of; default all.
    instead
        By layer, ``(head, query, key)`` nats that take the place of what is left out.
    watch
        Which of :data:`WAYS` to watch the attention to the previous position in; default none.
    """

    biases: Sequence[tuple[Float[Tensor, "head channel"], Float[Tensor, "head channel"]]]
    rotary: Rotary | None
    drop: Collection[str] = ()
    head: tuple[int, int] | None = None
    instead: Sequence[Float[Tensor, "head query key"]] | None = None
    watch: Collection[str] = ()
    previous: dict[int, Float[Tensor, "way head"]] = field(default_factory=dict)
    rows: dict[int, int] = field(default_factory=dict)

    def __call__(self, layer, query, key, value, *, scale, causal=False, lengths=None):
        """Attend."""
        whole = scale * query @ key.mT
        if self.watch:
            self._watch(layer, whole, self._parts(layer, query, key, scale))
        if self.drop and (self.head is None or self.head[0] == layer):
            parts = self._parts(layer, query, key, scale)
            less = sum(parts[name] for name in self.drop)
            if self.instead is not None:
                less = less - self.instead[layer].to(whole)
            if self.head is None:
                whole = whole - less
            else:
                chosen = torch.arange(whole.shape[1], device=whole.device) == self.head[1]
                whole = torch.where(chosen[:, None, None], whole - less, whole)
        return (mask_future(whole) if causal else whole).softmax(-1) @ value

    def _parts(self, layer: int, query: Tensor, key: Tensor, scale: float) -> dict[str, Tensor]:
        b_Q, b_K = (self._turn(bias.to(query), query.shape[-2]) for bias in self.biases[layer])
        bare_query, bare_key = query - b_Q, key - b_K
        return {
            "semi_bias": scale * b_Q @ bare_key.mT,
            "query_side": scale * bare_query @ b_K.mT,
            "kernel": (scale * b_Q @ b_K.mT)[None],
        }

    def _turn(self, bias: Tensor, positions: int) -> Tensor:
        rows = bias[:, None].expand(-1, positions, -1)
        return rows if self.rotary is None else rotate(rows, self.rotary)

    def _watch(self, layer: int, whole: Tensor, parts: Mapping[str, Tensor]) -> None:
        masses = []
        for drop in (WAYS[way] for way in self.watch):
            scores = whole - sum(parts[name] for name in drop) if drop else whole
            back = mask_future(scores).softmax(-1).diagonal(-1, -2, -1)
            masses.append(back.sum((0, -1)))
        self.previous[layer] = self.previous.get(layer, 0) + torch.stack(masses)
        self.rows[layer] = self.rows.get(layer, 0) + whole.shape[0] * (whole.shape[-1] - 1)

    def previous_attention(self) -> Float[Tensor, "way layer head"]:
        """Return the mean attention to the previous position of what was watched."""
        return torch.stack([self.previous[layer] / self.rows[layer] for layer in sorted(self.rows)], 1).cpu()


@torch.no_grad()
def evaluate(
    model: nn.Module,
    windows: Int[Tensor, "window position"],
    scores: Callable[..., Tensor] | None = None,
    *,
    batch: int = 16,
) -> tuple[float, float]:
    """Return the loss in nats per token and the share of tokens guessed right, with other attention where it is given.

    Windows hold one token more than the model reads.
    """
    loss = right = 0.0
    where = next(model.parameters()).device
    for part in windows.to(where).split(batch):
        if scores is None:
            logits = model(input_ids=part[:, :-1], use_cache=False).logits
        else:
            with attention_hooks.with_attention(model, scores):
                logits = model(input_ids=part[:, :-1], use_cache=False).logits
        loss += cross_entropy(logits.flatten(0, 1), part[:, 1:].flatten(), reduction="sum").item()
        right += (logits.argmax(-1) == part[:, 1:]).sum().item()
    tokens = windows[:, 1:].numel()
    return loss / tokens, right / tokens


def cut(ids: Int[Tensor, " token"], length: int) -> Int[Tensor, "window position"]:
    """Cut a text into windows of ``length + 1`` tokens that overlap by one; what is left at the end goes."""
    return ids.unfold(0, length + 1, length)


PARTS = ("content", "semi_bias", "query_side", "kernel")
REST = "rest"
"""What the coordinates of the key bias add that nothing turns: the same for every key, so its share must be 0."""
COUNTED = ("bias", "mean")


@dataclass
class SplitRows:
    """Attention as it is, which adds up the shares of the parts by what they are counted from."""

    biases: Mapping[str, Sequence[tuple[Tensor, Tensor]]]
    rotary: Rotary
    shares: dict[tuple[str, int], Float[Tensor, "part head"]] = field(default_factory=dict)
    rows: int = 0
    gap: float = 0.0

    def __call__(self, layer, query, key, value, *, scale, causal=False, lengths=None):
        """Attend, and count."""
        visible = torch.ones(query.shape[-2], query.shape[-2], dtype=torch.bool, device=query.device).tril()
        for counted, biases in self.biases.items():
            parts = self._split(query.double(), key.double(), biases[layer], scale)
            split = attribute_divergence(parts, visible)
            self.gap = max(self.gap, split.gap)
            before = self.shares.get((counted, layer), 0)
            self.shares[counted, layer] = before + split.parts[..., 1:].sum((1, -1))  # row 0 sees one key
        if layer == 0:
            self.rows += query.shape[0] * (query.shape[-2] - 1)
        return mask_future(scale * query @ key.mT).softmax(-1) @ value

    def _split(self, query: Tensor, key: Tensor, biases: tuple[Tensor, Tensor], scale: float) -> Tensor:
        b_Q, b_K = (bias.to(query) for bias in biases)
        rest = split_channels(b_K, self.rotary)[1]
        turned = [rotate(bias[:, None].expand(-1, query.shape[-2], -1), self.rotary) for bias in (b_Q, b_K - rest)]
        bare_query, bare_key = query - turned[0], key - turned[1] - rest[:, None]
        kernel = (turned[0] @ turned[1].mT)[None].expand(*query.shape[:-1], -1)
        constant = (query @ rest[:, :, None]).expand(*query.shape[:-1], query.shape[-2])
        return scale * torch.stack(
            [bare_query @ bare_key.mT, turned[0] @ bare_key.mT, bare_query @ turned[1].mT, kernel, constant]
        )

    def means(self) -> Float[np.ndarray, "counted layer head part"]:
        """Return the mean share of each part per row in nats, the last part being :data:`REST`."""
        layers = range(1 + max(layer for _, layer in self.shares))
        return (
            torch.stack([torch.stack([self.shares[kind, i].mT / self.rows for i in layers]) for kind in self.biases])
            .cpu()
            .numpy()
        )


@dataclass(frozen=True)
class Shares(Numbers):
    """Mean shares of the parts in nats per row, by what they are counted from.

    The numbers are shares of the whole divergence, of both layers' heads together.
    """

    prefix = "rb"

    shares: Mapping[str, Float[np.ndarray, "layer head part"]]
    kernel_share_bias: float
    kernel_share_mean: float
    content_share_bias: float
    content_share_mean: float
    query_share_bias: float
    query_share_mean: float
    semi_share_bias: float
    semi_share_mean: float
    kernel_share_last: float  # with the mean input, in the last layer


@torch.no_grad()
def split_attention(
    model: nn.Module, rows: Iterable[Tensor], biases: Mapping[str, Sequence[tuple[Tensor, Tensor]]], rotary: Rotary
) -> SplitRows:
    """Run the model on each row of token ids and split the attention of every head."""
    split = SplitRows(biases, rotary)
    with attention_hooks.with_attention(model, split):
        for ids in rows:
            model(input_ids=ids[None].to(model.device), use_cache=False)
    return split


def biases_of(trace: Mapping[str, np.ndarray]) -> dict[str, list[tuple[Tensor, Tensor]]]:
    """Return query and key vector of every layer at the end of a trace, by what parts are counted from."""
    return {
        kind: [
            (torch.from_numpy(query), torch.from_numpy(key))
            for query, key in zip(trace[f"query_{kind}"][-1], trace[f"key_{kind}"][-1], strict=True)
        ]
        for kind in COUNTED
    }


def measure_shares(
    model: nn.Module,
    tokenizer,
    texts: Sequence[str],
    trace: Mapping[str, np.ndarray],
    *,
    rotary: Rotary,
    tokens: int = 48,
) -> Shares:
    """Split the attention of every head on the texts, cut after so many tokens."""
    texts_ids = [tokenizer(text, truncation=True, max_length=tokens)["input_ids"] for text in texts]
    split = split_attention(model, map(torch.tensor, texts_ids), biases_of(trace), rotary)
    shares = dict(zip(COUNTED, split.means()[..., : len(PARTS)], strict=True))
    whole = {kind: values.sum((0, 1)) / values.sum() for kind, values in shares.items()}
    last = shares["mean"][-1].sum(0)
    return Shares(
        shares,
        kernel_share_bias=float(whole["bias"][3]),
        kernel_share_mean=float(whole["mean"][3]),
        content_share_bias=float(whole["bias"][0]),
        content_share_mean=float(whole["mean"][0]),
        query_share_bias=float(whole["bias"][2]),
        query_share_mean=float(whole["mean"][2]),
        semi_share_bias=float(whole["bias"][1]),
        semi_share_mean=float(whole["mean"][1]),
        kernel_share_last=float(last[3] / last.sum()),
    )


# ---- The chapter's identities held to modules of transformers, and where the key bias cancels in them

EXACT, SINGLE = 1e-12, 1e-6
"""Bounds of errors in float64, and where the module computes its softmax in float32."""
HEADS, CHANNEL, POSITIONS = 4, 16, 12
MODULES = {
    "GPT-NeoX, a quarter turned": ("gpt_neox", 4),
    "GPT-NeoX, all turned": ("gpt_neox", 16),
    "Phi, half turned": ("phi", 8),
    "Qwen2, all turned": ("qwen2", 16),
}


@dataclass(frozen=True)
class Exactness(Numbers):
    """Largest errors as a share of the largest score, by module; and what a zero key bias changes, by case.

    ``rest_share`` is the largest share of the un-rotated key bias in a row's divergence from uniform, in nats, and
    ``turned_share`` the largest of the query side and the kernel.
    """

    prefix = "rb"

    parts: Mapping[str, float]
    kernel: float
    border: float
    gauge: float
    key_bias: Mapping[str, Effect]
    rest_share: float
    turned_share: float


def measure_exactness() -> Exactness:
    """Hold the parts, the kernel, the border and its gauge to modules with random weights, in float64."""
    layer, x = random_layer(HEADS, HEADS * CHANNEL, CHANNEL), draw(1, POSITIONS, HEADS * CHANNEL)
    errors = {}
    for name, (family, coordinates) in MODULES.items():
        scores = rotary_module_scores(family, layer, _turn(coordinates), x)
        errors[name] = relative_gap(score_terms(x, replace(layer, positions=_turn(coordinates))).total(), scores)
    rotary = _turn(4)
    layer = replace(layer, positions=rotary)
    terms = score_terms(x, layer)
    total, place = terms.total(), torch.arange(POSITIONS, dtype=torch.float64)
    kernel = distance_kernel(layer.b_Q, layer.b_K, rotary).at(place)
    border, extended = rotary_border(layer), homogeneous(x)[0]
    last = torch.stack(
        [torch.einsum("m,hmn,n->h", extended[-1], border.at(POSITIONS - 1 - j), extended[j]) for j in range(POSITIONS)],
        -1,
    )
    factors = torch.complex(draw(HEADS, 2, seed=2), draw(HEADS, 2, seed=3))
    other = change_gauge(layer, factors, draw(HEADS, CHANNEL - 4, CHANNEL - 4, seed=4))
    visible = torch.ones(POSITIONS, POSITIONS, dtype=torch.bool).tril()
    rest = score_terms(x, replace(layer, b_K=split_channels(layer.b_K, rotary)[1]))
    cancelling = (rest.query_side + rest.kernel)[None]
    shares = attribute_divergence(torch.cat([terms.stack(), cancelling, -cancelling]), visible).parts
    return Exactness(
        errors,
        relative_gap(kernel, terms.kernel[0, :, :, 0]),
        relative_gap(last, total[0, :, -1]),
        relative_gap(score_terms(x, other).total(), total),
        {case: key_bias_effect(case) for case in CASES},
        rest_share=float(shares[5].abs().max()),
        turned_share=float(shares[3:5].abs().max()),
    )


def cancels(effect: Effect) -> bool:
    """Whether a module's attention changes by rounding alone."""
    return effect.change < (SINGLE if effect.single else EXACT)


def _turn(coordinates: int) -> Rotary:
    return Rotary(rotary_frequencies(coordinates), CHANNEL)
