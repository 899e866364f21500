"""How local a first layer is, and where the ends of a text come in."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from analysis.data import texts
from analysis.decomposition.terms import semi_bias
from analysis.maps.locality import PositionOnly, causal_attention, position_only, position_scores
from analysis.models import checkpoints, pretrained
from analysis.models.controls import make_controls, random_attention_layer
from analysis.models.reading import load
from analysis.statistics.correlation import partial_rank_correlation, rank_correlation, recency
from analysis.transformer.attention import attend
from analysis.transformer.layernorm import apply_norm, sigma
from analysis.transformer.layernorm_scale import inverse_sigma
from book.lab.training import gpt2_mini
from book.publish import Inputs, Numbers
from book.publish.records import Record, Result
from book.studies.semi_bias import first_layer
from book.studies.semi_bias.first_layer import FirstLayer
from book.studies.semi_bias.tilt import Tilt, name_heads, steady_heads
from book.studies.shared.ladder import measure_controls

# ---- How near the attention of positions alone lies, in GPT-2's first layer and in gpt2-mini's

NEARBY = 5  # a key at most so many positions back is near the query
NEAREST = (3, 16)  # reaches in gpt2-mini, whose context is an eighth of GPT-2's


@dataclass(frozen=True)
class Locality(Numbers):
    """Attention of GPT-2's positions alone: the mass on the nearest keys, and where the largest weight lies.

    ``mass`` is for three widths of a token, two reaches, the parts T^p, T^pp and their sum, and the heads;
    ``local_heads`` put more than a third of the weight of the sum on the nearest three keys.
    """

    mass: Float[np.ndarray, "width reach part head"]
    uniform: Float[np.ndarray, " reach"]
    peaks: Int[np.ndarray, "part head query"]
    local_heads: tuple[int, ...]
    alias: int  # rising heads whose largest weight of T^pp lies far back, and how far in their median
    period: float
    alias_low: float  # in these heads, share of the queries from a third on whose largest weight of T^pp lies nearby
    alias_high: float
    alias_sum_low: float  # and that of T^p + T^pp
    mass_p: float  # on the nearest 50 keys, median head: T^p, equal weights, and the sum
    mass_u: float
    mass_sum: float
    mass_w0: float  # that of the sum for tokens of no width, and for tokens twice as wide as positions
    mass_w2: float
    near_p: float  # on the nearest 3 keys, median head
    near_sum: float
    near_heads: str


@dataclass(frozen=True)
class MiniLocality(Numbers):
    """The same for gpt2-mini with its exact sigma; masses are those on the nearest 16 keys."""

    approx: float  # largest relative error of sigma for tokens without a preferred direction
    mini_heads: int
    mini_u: float  # equal weights
    overlap_low: float  # of the attention on text with that of positions alone, mean over queries: lowest head
    overlap_high: float
    overlap_uniform: float  # the median head, for equal weights in the place of positions


def measure_locality(gpt2: Record | Result, tilt: Tilt, inputs: Inputs) -> Locality:
    """Say how near the attention of GPT-2's positions alone lies."""
    mass, uniform, peaks = gpt2.array("mass"), gpt2.array("uniform"), gpt2.array("peak")
    median_distance = np.median(peaks[:, :, tilt.marks.half : -1], axis=2)
    steady = steady_heads(tilt)
    if median_distance[2][steady].max() > 0 and not inputs.departs:
        raise AssertionError("a head's largest weight is not on the query itself, while the page says that it is")
    far = [head for head in steady if median_distance[1][head] > tilt.marks.early] or list(range(tilt.heads))
    nearby = (peaks[:, :, tilt.marks.third : -1] <= NEARBY).mean(2)
    near_sum = mass[1, 0, 2]
    local = tuple(head for head in range(tilt.heads) if near_sum[head] > 1 / 3)
    return Locality(
        mass,
        uniform,
        peaks,
        local,
        alias=len(far),
        period=float(np.median(median_distance[1][far])),
        alias_low=float(nearby[1][far].min()),
        alias_high=float(nearby[1][far].max()),
        alias_sum_low=float(nearby[2][far].min()),
        mass_p=float(np.median(mass[1, 1, 0])),
        mass_u=float(uniform[1]),
        mass_sum=float(np.median(mass[1, 1, 2])),
        mass_w0=float(np.median(mass[0, 1, 2])),
        mass_w2=float(np.median(mass[2, 1, 2])),
        near_p=float(np.median(mass[1, 0, 0])),
        near_sum=float(np.median(near_sum)),
        near_heads=name_heads(local),
    )


def measure_mini_locality(mini: FirstLayer, windows: Int[Tensor, "window position"]) -> MiniLocality:
    """Say the same of gpt2-mini, with sigma averaged over the vocabulary; compare with text."""
    overlap, of_uniform = overlap_with_text(mini, windows[:, :-1])
    own, trained = attention_of_positions(mini)
    mean_width = (mini.sigma_p**2 + sigma(mini.tokens, 0.0).square().mean()).sqrt()
    inverse = inverse_sigma(mini.tokens, mini.positions, mini.ln.eps).mean
    return MiniLocality(
        approx=float((mean_width * inverse - 1).abs().max()),
        mini_heads=len(own),
        mini_u=float(trained.uniform[1]),
        overlap_low=float(overlap.min()),
        overlap_high=float(overlap.max()),
        overlap_uniform=float(of_uniform.median()),
    )


def overlap_with_text(
    layer: FirstLayer, tokens: Int[Tensor, "text position"]
) -> tuple[Float[Tensor, " head"], Float[Tensor, " head"]]:
    """Return how much of the attention on text lies where positions alone put it, and where equal weights do.

    One less the total variation of the two, mean over texts and over queries from the larger reach on.
    """
    width = 1 / inverse_sigma(layer.tokens, layer.positions, layer.ln.eps).mean
    own, both = position_scores(layer.positions, width, layer.folded)
    expected = causal_attention(own[:, None] + both)[:, NEAREST[1] :]
    uniform = causal_attention(torch.zeros_like(both))[:, NEAREST[1] :]
    x = apply_norm(layer.tokens[tokens] + layer.positions, layer.ln)
    maps = attend(x, layer.weights).attention[:, :, NEAREST[1] :]
    return tuple(1 - (maps - other).abs().sum(-1).mean((0, -1)) / 2 for other in (expected, uniform))


def attention_of_positions(layer: FirstLayer) -> tuple[Float[Tensor, "head position"], PositionOnly]:
    """Return T^p and how near the attention of positions alone lies."""
    width = 1 / inverse_sigma(layer.tokens, layer.positions, layer.ln.eps).mean
    own, both = position_scores(layer.positions, width, layer.folded)
    return own, position_only(own, both, NEAREST, first=NEAREST[1])


# ---- What the semi-bias of gpt2-mini is like when a training has ended

TEXTS = 8  # windows on which the attention is compared with that of positions alone
MEASURES = ("correlation", "spread", "mass of T^p", "mass of both")


def tilt(layer: FirstLayer) -> np.ndarray:
    """Return of ``T^p`` the rank correlation with the position and the spread in nats, and how near attention lies.

    Returns
    -------
    np.ndarray
        ``(measure, head)`` in the order of :data:`MEASURES`; a head without any semi-bias has a correlation of 0.
    """
    own, positions = attention_of_positions(layer)
    mass = positions.mass[1]
    return torch.stack([recency(own).nan_to_num(), own.std(-1), mass[0], mass[2]]).cpu().numpy()


@torch.no_grad()
def measure(folder: Path, frequency: torch.Tensor, device: torch.device | str = "cpu") -> dict[str, np.ndarray]:
    """Measure a trained gpt2-mini.

    Returns
    -------
    dict
        ``tilt`` as above; ``overlap (head,)`` of the attention on text with that of positions alone; ``tokens
        (2, head)``, the rank correlations of token norm and semi-bias, plain and at equal frequency; ``losses (2,)`` on
        the passages in nats per token, as trained and without ``b_Q`` in the first layer.
    """
    checkpoint = checkpoints.find(str(folder))
    layer = first_layer.read(checkpoint, device=device)
    ids = gpt2_mini.encode(pretrained.tokenizer(checkpoint), "\n\n".join(texts.passages()))
    windows = gpt2_mini.windows(ids, first_layer.WINDOWS).to(device)
    model = pretrained.load(checkpoint, task="lm", dtype=torch.float64, device=device)
    norm, scores = layer.tokens.norm(dim=1), semi_bias(layer.tokens, layer.weights)
    tokens = [
        [rank_correlation(norm, head).value for head in scores],
        [partial_rank_correlation(norm, head, frequency.to(norm)) for head in scores],
    ]
    return {
        "tilt": tilt(layer),
        "overlap": overlap_with_text(layer, windows[:TEXTS, :-1])[0].cpu().numpy(),
        "tokens": np.array(tokens),
        "losses": np.array([first_layer.loss_without(model, windows, part) for part in (None, "b_Q")]),
    }


def measure_ladder(folder: Path, device: torch.device | str = "cpu") -> np.ndarray:
    """Return ``tilt`` of the controls, ``(rung, seed, measure, head)``.

    Only the matrices of the first layer are exchanged: LayerNorm, positions and tokens stay the trained ones, and so
    do, in the last rung, the biases. What the first two have of a semi-bias comes from the LayerNorm's bias.
    """
    checkpoint = checkpoints.find(str(folder))
    trained, model = first_layer.read(checkpoint, device=device), load(checkpoint)

    def draw(seed: int):
        return random_attention_layer(model, 0, seed, torch.float64).to(device)

    def measured(weights) -> np.ndarray:
        return tilt(FirstLayer(weights, trained.ln, trained.positions, trained.tokens))

    return measure_controls(make_controls(trained.weights, draw), measured)
