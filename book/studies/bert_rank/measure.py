"""What the page on rank collapse shows and what its claims rest on.

Residuals are relative, ``|X - 1 mean| / |X|`` in the Frobenius norm. *Parts* are a layer's parts in words, such as
``attention + skip``; a *run* follows the residual through one stack, state by state. Dictionaries with the keys
``trained`` and ``control`` hold one value for the model and one for its random control.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import gelu
from torch.nn.functional import layer_norm as layer_norm_of_torch

from analysis.core.weights import AttentionWeights, LayerNormWeights
from analysis.data import texts as texts_at_hand
from analysis.matrices import rank
from analysis.matrices.exact_rank import exact_rank
from analysis.matrices.rank import NormRanks, numerical_rank
from analysis.models import checkpoints, extraction, parameters, pretrained
from analysis.models.checkpoints import Checkpoint
from analysis.models.extraction import Observed
from analysis.representations import rank_collapse
from analysis.representations.rank_collapse import residual
from analysis.statistics.intervals import Interval, mean_interval
from analysis.transformer.attention import attend
from analysis.transformer.encoder import PURE_ATTENTION, Switches, encode_layer, random_layers, run_layer
from analysis.transformer.layernorm import centre, layer_norm, sigma
from book.publish import Inputs, Numbers, choose_inputs
from book.studies.bert_rank import statements
from book.studies.bert_rank.controls import LadderPhrases, measure_rungs, phrase_rungs
from book.studies.bert_rank.examples import CentredCases, Examples, find_examples, try_centring
from book.studies.shared.documents import Rungs

COUNT, LONGEST = 6, 32  # texts for the switches, and their length in tokens
SEEDS, WIDTHS, GAINS = 5, (16, 32, 64, 128), (0.55, 1.0, 2.0)  # random stacks
DEEP, DEEP_WIDTH = 48, 64  # layers and width of those that test the long run
FLOOR = 1e-16  # residuals below are rounding errors
DROPPED = 1e-14  # below this share of the largest, singular values do not count
DEAD = 1e-6  # a gain below this lets nothing through
WITH_SKIP = Switches(mlp=False, layer_norm=False)
ACTIVATIONS = {"GELU": gelu, "z / 2": lambda z: z / 2, "z": lambda z: z}
WHOLE = "attention + skip + MLP + LayerNorm"
Runs = Mapping[str, Float[np.ndarray, "run state"]]


@dataclass(frozen=True)
class Norm:
    """LayerNorm against the printed map, and what a bias can do to a rank."""

    plain_error: float  # torch's with epsilon 0, gain 1, bias 0 against (3.5)
    affine_error: float  # with gain and bias against (3.5) times g plus b
    trained_gap: float  # BERT's first against (3.5), on what it reads
    read_gap: float  # the library's output against LayerNorm of X + Conc W_O + b_O
    concatenation_gap: float  # and against LayerNorm of the concatenation
    skipped: float  # the largest entry of the skipped X
    matrix_error: float  # of D^-1 (X - E 1^T) against LayerNorm
    mean_spaces: tuple[int, int]  # ranks of [E 1^T, E] and of [1 E^T, E]
    with_means: tuple[int, int]  # ranks of X and of [X, E], for X of rank 3
    zero_mean_rank: int  # rank of E 1^T for [[1, -1]]
    only_row: Float[Tensor, "1 3"]
    opposite: LayerNormWeights  # its bias is the image of that row with the sign turned
    ranks_down: list[int]  # of that row, step by step
    constant_deviation: float  # what the printed D divides a constant row by


@dataclass(frozen=True)
class Ranks:
    """Ranks on the way through the LayerNorms after attention, by ``(trained or control, number of tokens)``."""

    width: int
    limit: int  # tokens of the longer input
    short: int  # tokens of the shorter one
    through: Mapping[tuple[str, int], list[NormRanks]]
    apart: Mapping[tuple[str, int], list[float]]  # sine of the angle between the all-one row and the row space
    reads: Mapping[str, Float[Tensor, "row model"]]  # what the first LayerNorm reads, by title of the panel
    last: NormRanks  # through the last LayerNorm of the trained model, for the longer input
    dead_gains: int  # its gains below 1e-6

    @property
    def all_steps(self) -> list[NormRanks]:
        """The ranks of all layers, models and inputs."""
        return [steps for of_layers in self.through.values() for steps in of_layers]

    @property
    def clear(self) -> bool:
        """Whether every singular value lies far from the tolerance, above or below."""
        counts = [count for steps in self.all_steps for count in steps]
        return min(c.kept for c in counts) > 1e-9 and max(c.dropped for c in counts) < DROPPED

    @property
    def lawful(self) -> bool:
        """Whether centring costs a rank exactly where the all-one row lies in the row space."""
        return all(steps.centred.rank == steps.read.rank - (distance < 1e-7) for key, of_layers in self.through.items()
                   for steps, distance in zip(of_layers, self.apart[key], strict=True))

    def of(self, step: str, tokens: int, which: str = "trained") -> list[int]:
        """Return the different ranks after one step of the LayerNorms, over all layers."""
        return sorted({getattr(steps, step).rank for steps in self.through[which, tokens]})

    def added_by_bias(self, which: str) -> list[int]:
        """Return by how much the bias changes the rank for the longer input, over all layers."""
        return sorted({steps.with_bias.rank - steps.with_gain.rank for steps in self.through[which, self.limit]})


@dataclass(frozen=True)
class OneLayer:
    """The residual after one random layer, for rows at chosen distances from their mean."""

    sizes: Float[Tensor, " size"]  # before the layer
    after: Mapping[str, Float[Tensor, "seed size"]]  # by what follows attention
    slopes: Mapping[str, Interval]
    slope_by_gain: Mapping[float, float]  # attention alone
    log_factor: Mapping[float, Interval]  # with skip connection, at the smallest size
    to_itself: AttentionWeights  # under which every row attends to itself alone
    kept_residual: float  # after twelve such layers
    kept_rank: int


@dataclass(frozen=True)
class Stacks:
    """Random stacks with parts switched on and off, by gain of the weights."""

    seeds: int
    widths: tuple[int, ...]
    runs: Mapping[float, Runs]  # twelve layers; the runs are ordered by width, then by seed
    depth: int
    deep: Mapping[float, Runs]  # of that depth, one width, with skip connections
    rate: Mapping[float, Interval]  # log of the factor a layer in the long run, with skip connections alone

    @property
    def names(self) -> list[str]:
        """The sets of parts in words."""
        return list(self.runs[1.0])

    @property
    def worst_without_skip(self) -> float:
        """The largest residual after six layers without skip connections, at gains up to 1."""
        return max(run[:, 6].max() for gain in GAINS[:2] for name, run in self.runs[gain].items() if "skip" not in name)

    @property
    def least_with_skip(self) -> float:
        """The smallest residual after six layers of attention and skip connections, at gains up to 1."""
        return min(self.runs[gain]["attention + skip"][:, 6].min() for gain in GAINS[:2])

    @property
    def linear_gain(self) -> Interval:
        """How much more a linear MLP leaves than one with GELU after twelve layers of gain 1."""
        runs = self.runs[1.0]
        return mean_interval(runs["attention + skip + linear MLP"][:, 12] - runs["attention + skip + MLP"][:, 12])

    @property
    def most_left(self) -> float:
        """The largest residual of the deep stacks of gain 1."""
        return max(run[:, self.depth].max() for run in self.deep[1.0].values())


@dataclass(frozen=True)
class Activations:
    """Random stacks of gain 1 with GELU, z/2 or z in the MLP."""

    cases: list[str]
    runs: Mapping[str, Float[np.ndarray, "case seed state"]]
    hastened: Mapping[str, float]  # residual after three layers without skip, relative to attention alone


@dataclass(frozen=True)
class TrainedStack:
    """The switches in a trained model and in its control."""

    traced: Mapping[str, Runs]  # one run for each text
    hidden: Mapping[str, Float[np.ndarray, "layer 4"]]  # mean of GELU, share below zero, residual before and after it
    ends: Mapping[str, Mapping[str, float]]  # residual after the last layer, by activation

    @property
    def final(self) -> dict[str, dict[str, float]]:
        """The residual after the last layer."""
        return {which: {name: typical(run, -1) for name, run in runs.items()} for which, runs in self.traced.items()}

    @property
    def most_without_skip(self) -> float:
        """The largest residual that a trained stack without skip connections ends at."""
        return max(value for name, value in self.final["trained"].items() if "skip" not in name)


@dataclass(frozen=True)
class Prose(Numbers):
    """The numbers of the page's text, as they are written there."""

    prefix = "rank"
    cutoff: str
    kept: str
    dropped_below: str
    short_read: str
    short_centred: str
    long_read: str
    long_centred: str
    long_bias: str
    worst_without: str
    initial_gain: str
    least_skip: str
    deep_skip: str
    deep_mlp: str
    deep_linear: str
    deep_all: str
    hard_pure: str
    hard_norm: str
    depth: int
    long_most: str
    rate_one: str
    rate_expected: str
    slow_least: str
    trained_all: str
    control_all: str
    trained_norm: str
    trained_linear: str
    trained_none: str
    dead_gains: int
    last_divided: str
    last_gain: str
    last_bias: str


@dataclass(frozen=True)
class Measured(Numbers):
    """Everything that the page shows, section by section."""

    inputs: Inputs
    checkpoint: Checkpoint
    norm: Norm
    examples: Examples
    centred: CentredCases
    ranks: Ranks
    one_layer: OneLayer
    stacks: Stacks
    activations: Activations
    trained: TrainedStack
    prose: Prose
    rungs: Rungs
    ladder_phrases: LadderPhrases


def measure(model: str = "minilm", texts: str | None = None, device: str = "auto") -> Measured:
    """Measure everything that the page shows.

    Parameters
    ----------
    model
        A BERT, by name or folder.
    texts
        A text file or a folder of them in place of the book's texts.
    device
        Where to compute.
    """
    inputs = choose_inputs(model, own="minilm", texts=texts, device=device)
    checkpoint, where = checkpoints.find(inputs.model), inputs.device
    networks = {which: pretrained.load(checkpoint, control_seed=seed, dtype=torch.float64, device=where)
                for which, seed in (("trained", None), ("control", 0))}
    tokenizer, config = pretrained.tokenizer(checkpoint), parameters.config(checkpoint)
    ranks = measure_ranks(networks, tokenizer, texts_at_hand.passages(source=inputs.texts))
    passages = texts_at_hand.passages(count=COUNT, source=inputs.texts)
    observed = {which: extraction.observe(network, tokenizer, passages, min(LONGEST, ranks.limit))
                for which, network in networks.items()}
    stacks, trained = measure_stacks(where), measure_trained_stack(observed)
    one_layer, rungs = measure_one_layer(where), measure_rungs(inputs)
    return Measured(
        inputs=inputs, checkpoint=checkpoint, ranks=ranks, stacks=stacks, trained=trained, one_layer=one_layer,
        norm=measure_norm(networks["trained"], observed["trained"]), examples=find_examples(), centred=try_centring(),
        activations=measure_activations(where), rungs=rungs, ladder_phrases=phrase_rungs(rungs),
        prose=write_prose(ranks, one_layer, stacks, trained, config.initializer_range))


def measure_norm(network: torch.nn.Module, trained: Observed) -> Norm:
    """Hold the printed map and the printed matrices to torch's LayerNorm and to the model's first."""
    g = torch.Generator().manual_seed(0)
    x = torch.randn(6, 8, generator=g, dtype=torch.float64)
    gain, shift = torch.randn(2, 8, generator=g, dtype=torch.float64)
    printed = printed_layer_norm(x)
    opposite = opposite_bias(row := torch.tensor([[1.0, -1.0, 3.0]], dtype=torch.float64))
    return Norm(
        plain_error=largest(layer_norm_of_torch(x, [8], eps=0.0) - printed),
        affine_error=largest(layer_norm_of_torch(x, [8], gain, shift, eps=0.0) - (printed * gain + shift)),
        **compare_with_library(network, trained), **measure_mean_matrices(g), only_row=row, opposite=opposite,
        ranks_down=[step.rank for step in rank.ranks_through_norm(row, opposite)],
        constant_deviation=sigma(torch.ones(1, 8, dtype=torch.float64), eps=0.0).item())


def printed_layer_norm(x: Float[Tensor, "row model"]) -> Float[Tensor, "row model"]:
    """Return (3.5): each row less its mean, divided by its standard deviation."""
    return centre(x) / sigma(x, eps=0.0)[:, None]


def compare_with_library(network: torch.nn.Module, trained: Observed) -> dict[str, float]:
    """Compare what the first LayerNorm after attention writes with what it would of other inputs, as printed."""
    first, x, norm = network.encoder.layer[0].attention, trained.states[0][0], trained.layers[0].norm_attention
    concatenation = first.self(x[None])[0]
    written, read = first.output(concatenation, x[None])[0], x + attend(x, trained.attention[0]).output
    return {"trained_gap": largest(layer_norm(read, norm) - printed_layer_norm(read)),
            "read_gap": largest(written - layer_norm(read, norm)),
            "concatenation_gap": largest(written - layer_norm(concatenation[0], norm)), "skipped": largest(x)}


def measure_mean_matrices(g: torch.Generator) -> dict:
    """Compare the matrix of row means E 1^T with the printed 1 E^T."""
    wide = torch.randn(5, 9, generator=g, dtype=torch.float64)
    ones, zeros = torch.ones(9, dtype=wide.dtype), torch.zeros(9, dtype=wide.dtype)
    E, D = wide.mean(1, keepdim=True), torch.diag(1 / sigma(wide, eps=1e-12))
    thin = torch.randn(5, 3, generator=g, dtype=torch.float64)
    square = thin @ torch.randn(3, 5, generator=g, dtype=torch.float64)
    mean, one = square.mean(1, keepdim=True), torch.ones(5, 1, dtype=torch.float64)
    of_E, printed = (numerical_rank(torch.cat([m, mean], 1)).rank for m in (mean @ one.T, one @ mean.T))
    balanced = np.array([[1, -1]], dtype=object)
    written = layer_norm(wide, LayerNormWeights(ones, zeros, 1e-12))
    return {"matrix_error": largest(D @ (wide - E @ ones[None]) - written),
            "mean_spaces": (of_E, printed),
            "with_means": (numerical_rank(square).rank, numerical_rank(torch.cat([square, mean], 1)).rank),
            "zero_mean_rank": exact_rank(2 * balanced - statements.centred(balanced))}


def opposite_bias(row: Float[Tensor, "1 model"]) -> LayerNormWeights:
    """Return a LayerNorm whose bias takes away what it makes of this row."""
    one, zero = torch.ones_like(row[0]), torch.zeros_like(row[0])
    return LayerNormWeights(one, -layer_norm(row, LayerNormWeights(one, zero, eps=0.0))[0], eps=0.0)


def measure_ranks(networks: Mapping[str, torch.nn.Module], tokenizer, passages: Sequence[str]) -> Ranks:
    """Take ranks through the LayerNorms after attention: of fewer tokens than dimensions, and of all there can be."""
    config = networks["trained"].config
    width, limit = config.hidden_size, config.max_position_embeddings
    short = max(2, min(width // 3, limit // 2))
    joined = " ".join(passages)[:20 * limit]
    through, apart, reads = {}, {}, {}
    for (which, network), tokens in product(networks.items(), (short, limit)):
        o = extraction.observe(network, tokenizer, [joined], tokens)
        read = [o.rows(i) + attend(o.rows(i), layer.attention).output for i, layer in enumerate(o.layers)]
        through[which, tokens] = [rank.ranks_through_norm(x, layer.norm_attention)
                                  for x, layer in zip(read, o.layers, strict=True)]
        apart[which, tokens] = [rank.distance_of_ones(x) for x in read]
        if which == "trained":
            reads[f"n = {len(read[0])}, d = {width}"] = read[0].cpu()
            stations, norm = run_layer(o.rows(len(o.layers) - 1), o.layers[-1]), o.layers[-1].norm_mlp
            last = rank.ranks_through_norm(stations.before_second, norm)
            dead_gains = int((norm.gain.abs() < DEAD).sum())
    return Ranks(width, limit, short, through, apart, reads, last, dead_gains)


def measure_one_layer(device: torch.device) -> OneLayer:
    """Fit how the residual after one random layer depends on the residual before it."""
    sizes = torch.logspace(-1, -4, 7, dtype=torch.float64)

    def residuals(switches: Switches, gain: float = 1.0) -> Float[Tensor, "seed size"]:
        return torch.stack([residuals_after_a_layer(sizes, seed, switches, gain, device) for seed in range(SEEDS)])

    def slope(runs: Float[Tensor, "seed size"]) -> Interval:
        return mean_interval([rank_collapse.cubic_rate(sizes, run) for run in runs])

    after = {"attention": residuals(PURE_ATTENTION), "then MLP": residuals(Switches(skip=False, layer_norm=False)),
             "then LayerNorm": residuals(Switches(skip=False, mlp=False)), "with skip": residuals(WITH_SKIP)}
    eye, nothing = torch.eye(4, dtype=torch.float64), torch.zeros(1, 4, dtype=torch.float64)
    to_itself = AttentionWeights(2000 * eye[None], *3 * [eye[None]], *3 * [nothing], nothing[0])
    x = eye
    for _ in range(12):
        x = attend(x, to_itself).output
    return OneLayer(
        sizes=sizes, after=after, slopes={name: slope(runs) for name, runs in after.items()},
        slope_by_gain={gain: slope(residuals(PURE_ATTENTION, gain)).value for gain in GAINS},
        log_factor={gain: mean_interval((residuals(WITH_SKIP, gain) / sizes)[:, -1].log().numpy()) for gain in GAINS},
        to_itself=to_itself, kept_residual=residual(x).item(), kept_rank=numerical_rank(x).rank)


def residuals_after_a_layer(sizes: Float[Tensor, " size"], seed: int, switches: Switches, gain: float,
                            device: torch.device) -> Float[Tensor, " size"]:
    """Place 32 rows at each distance from their mean, run one random layer and return their residuals."""
    g = torch.Generator().manual_seed(seed)
    layer, = random_layers(1, 4, 64, gain=gain, generator=g)
    common_row, noise = (torch.randn(*shape, generator=g, dtype=torch.float64) for shape in ((64,), (32, 64)))
    rows = [rank_collapse.scatter_around_mean(common_row, noise, float(size)).to(device) for size in sizes]
    return torch.stack([rank_collapse.trace_residual(x, [layer.to(device)], switches)[1] for x in rows]).cpu()


def all_switches() -> list[Switches]:
    """Return every set of parts beside attention: with an MLP or none first, then with a linear one."""
    on = (False, True)
    return [*(Switches(skip=s, mlp=m, layer_norm=n) for s, m, n in product(on, on, on)),
            *(Switches(skip=s, layer_norm=n, linear=True) for s, n in product(on, on))]


def measure_stacks(device: torch.device) -> Stacks:
    """Follow the residual through random stacks: twelve layers under all switches, and deep ones with skips."""
    skips = [WITH_SKIP, Switches(layer_norm=False), Switches(layer_norm=False, linear=True), Switches()]

    def follow(gain: float, widths: Sequence[int], switches: Sequence[Switches], depth: int) -> Runs:
        runs = torch.stack([rank_collapse.random_collapse(width, gain, seed, switches, depth=depth, device=device)
                            for width in widths for seed in range(SEEDS)], dim=1)
        return {s.describe(): run.cpu().numpy() for s, run in zip(switches, runs, strict=True)}

    deep = {gain: follow(gain, [DEEP_WIDTH], skips, DEEP) for gain in GAINS}
    late = {gain: np.log(runs["attention + skip"][:, [24, 36]]) for gain, runs in deep.items() if gain <= 1}
    return Stacks(seeds=SEEDS, widths=WIDTHS, depth=DEEP, deep=deep,
                  runs={gain: follow(gain, WIDTHS, all_switches(), 12) for gain in GAINS},
                  rate={gain: mean_interval((logs[:, 1] - logs[:, 0]) / 12) for gain, logs in late.items()})


def measure_activations(device: torch.device) -> Activations:
    """Compare GELU with z/2 and z in random stacks, and all of them with attention alone."""
    cases = {"no skip, 3 layers": Switches(skip=False, layer_norm=False),
             "skip, 6 layers": Switches(layer_norm=False), "all, 6 layers": Switches()}

    def follow(switches: Sequence[Switches], depth: int, activation: Callable[[Tensor], Tensor] = gelu) -> np.ndarray:
        return torch.stack([rank_collapse.random_collapse(64, 1.0, seed, switches, depth=depth, activation=activation,
                                                 device=device) for seed in range(SEEDS)], dim=1).cpu().numpy()

    runs = {name: follow(list(cases.values()), 6, activation) for name, activation in ACTIVATIONS.items()}
    alone = typical(follow([PURE_ATTENTION], 3)[0], 3)
    return Activations(list(cases), runs, {name: typical(of_cases[0], 3) / alone for name, of_cases in runs.items()})


def measure_trained_stack(observed: Mapping[str, Observed]) -> TrainedStack:
    """Switch parts of the model and its control off, and look at what GELU reads and writes."""
    def trace(o: Observed, switches: Switches, activation: Callable[[Tensor], Tensor] = gelu) -> np.ndarray:
        residuals = [rank_collapse.trace_residual(s[0], o.layers, switches, activation) for s in o.states]
        return torch.stack(residuals).cpu().numpy()

    return TrainedStack(
        traced={which: {switches.describe(): trace(o, switches) for switches in all_switches()}
                for which, o in observed.items()},
        hidden={which: measure_hidden_rows(o) for which, o in observed.items()},
        ends={which: {name: typical(trace(o, Switches(), activation), -1) for name, activation in ACTIVATIONS.items()}
              for which, o in observed.items()})


def measure_hidden_rows(o: Observed) -> Float[np.ndarray, "layer 4"]:
    """Return by layer the mean of GELU, the share of what it reads below zero, and the residual before and after it."""
    by_layer = []
    for i, layer in enumerate(o.layers):
        after_attention = torch.cat([encode_layer(s[i], layer, Switches(mlp=False)) for s in o.states])
        z = after_attention @ layer.mlp.W_in + layer.mlp.b_in
        by_layer.append(torch.stack([gelu(z).mean(), (z < 0).double().mean(), residual(z), residual(gelu(z))]))
    return torch.stack(by_layer).cpu().numpy()


def write_prose(ranks: Ranks, one_layer: OneLayer, stacks: Stacks, trained: TrainedStack, std: float) -> Prose:
    """Write the numbers of the text; ``std`` is the standard deviation of the model's weights at initialisation."""
    two = "{:.2f}".format
    counts = [count for steps in ranks.all_steps for count in steps]
    short, long = (ranks.through["trained", tokens][0] for tokens in (ranks.short, ranks.limit))
    deep = {name: two(typical(run, 12)) for name, run in stacks.runs[1.0].items()}
    slowest = min(typical(run, stacks.depth) for run in stacks.deep[0.55].values())
    final = trained.final
    return Prose(
        cutoff=f"{max(c.cutoff for c in counts):.1e}", kept=f"{min(c.kept for c in counts):.0e}",
        dropped_below=f"{DROPPED:.0e}", short_read=str(short.read.rank), short_centred=str(short.centred.rank),
        long_read=str(long.read.rank), long_centred=str(long.centred.rank), long_bias=str(long.with_bias.rank),
        worst_without=bound(stacks.worst_without_skip, 12), initial_gain=two(std * 768**0.5),
        least_skip=two(stacks.least_with_skip), deep_skip=deep["attention + skip"],
        deep_mlp=deep["attention + skip + MLP"], deep_linear=deep["attention + skip + linear MLP"],
        deep_all=deep[WHOLE], hard_pure=two(typical(stacks.runs[2.0]["attention"], 6)),
        hard_norm=f"{typical(stacks.runs[2.0]['attention + LayerNorm'], 6):.3f}", depth=stacks.depth,
        long_most=bound(stacks.most_left, 3), rate_one=two(math.exp(stacks.rate[1.0].value)),
        rate_expected=two(expected_factor(1.0)), slow_least=f"{math.floor(10 * slowest) / 10:.1f}",
        trained_all=two(final["trained"][WHOLE]), control_all=two(final["control"][WHOLE]),
        trained_norm=two(final["trained"]["attention + skip + LayerNorm"]),
        trained_linear=two(final["trained"]["attention + skip + linear MLP + LayerNorm"]),
        trained_none=bound(trained.most_without_skip, 9, "below ", "of "), dead_gains=ranks.dead_gains,
        last_divided=str(ranks.last.divided.rank), last_gain=str(ranks.last.with_gain.rank),
        last_bias=str(ranks.last.with_bias.rank))


def expected_factor(gain: float) -> float:
    """Return what a random layer with a skip connection multiplies a small residual by: (1 + g^4)^(-1/2)."""
    return (1 + gain**4) ** -0.5


def typical(run: Float[np.ndarray, "run state"], state: int) -> float:
    """Return the geometric mean over the runs, which are stacks or texts, at one state."""
    return float(np.exp(np.log(np.maximum(run[:, state], FLOOR)).mean()))


def in_words(size: float) -> str:
    """Write a residual, or that it is small.

    Examples
    --------
    >>> in_words(0.456), in_words(1e-4), in_words(1e-9)
    ('0.46', '< 0.01', '< 1e-6')
    """
    return f"{size:.2f}" if size >= 0.01 else "< 0.01" if size > 1e-6 else "< 1e-6"


def bound(size: float, digits: int, below: str = "", otherwise: str = "") -> str:
    """Write the power of ten below which a number lies, or the number itself where it does not.

    Examples
    --------
    >>> bound(1e-13, 12), bound(2e-3, 3), bound(1e-10, 9, "below ", "of ")
    ('10⁻¹²', '2e-03', 'below 10⁻⁹')
    """
    exponent = str(-digits).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{below}10{exponent}" if size < 10.0 ** -digits else f"{otherwise}{size:.0e}"


def largest(difference: Tensor) -> float:
    """Return the largest absolute entry."""
    return difference.abs().max().item()
