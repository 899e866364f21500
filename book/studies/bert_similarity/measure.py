"""What the page on Q and K shows and what its claims rest on, measured on a BERT and on its random control.

The *control* has the architecture of the trained model and random weights. Dictionaries with the keys ``trained`` and
``control`` hold one value for each of the two; lists of three are for the maps Q, K and V, in this order.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from analysis.core.weights import AttentionWeights
from analysis.data import texts as texts_at_hand
from analysis.decomposition import score_terms
from analysis.maps import distance
from analysis.matrices import amplification, singular_values, symmetry
from analysis.models import checkpoints, extraction, parameters, pretrained
from analysis.models.checkpoints import Checkpoint
from analysis.models.extraction import Observed
from analysis.statistics.intervals import Interval, mean_interval, share_interval
from analysis.transformer import positional_encodings
from analysis.transformer.attention import attend, compute_scores, softmax
from analysis.transformer.encoder import encode
from book.publish import Inputs, Numbers, choose_inputs
from book.publish.phrases import percent
from book.studies.bert_similarity.controls import (
    Classifier,
    LadderPhrases,
    measure_classifier,
    measure_rungs,
    phrase_rungs,
)
from book.studies.shared.documents import Rungs
from book.studies.shared.nearest_classifier import Nearest, read_nearest

COUNT, LONGEST = 16, 128  # how many texts, and where each is cut, in tokens
DEPTH, HEAD = 0.0, 3  # the head that is drawn: its layer as a share of the depth, and its number
FEW = 4  # texts whose whole maps are compared
MAPS = amplification.MAPS
KINDS = ("as trained", "content alone", "symmetric part of M", "positive form")


@dataclass(frozen=True)
class Models:
    """A trained BERT with its tokenizer and texts, and what it and its control do with the texts."""

    checkpoint: Checkpoint
    network: torch.nn.Module
    tokens: Tensor  # (1, position): the first text
    trained: Observed
    control: Observed

    @property
    def both(self) -> dict[str, Observed]:
        """The trained model and its control by name."""
        return {"trained": self.trained, "control": self.control}


@dataclass(frozen=True)
class DrawnHead:
    """The head that the page draws."""

    layer: int
    head: int


@dataclass(frozen=True)
class Architecture:
    """The facts about BERT as a whole, and how far our formulas are from the library's modules."""

    base: int  # parameters of the two published configurations
    large: int
    layers: int
    width: int
    tokens: int  # of the first text
    states: tuple[int, ...]  # shape of its hidden states
    limit: int  # positions of the model
    accepts_limit: bool  # whether it runs on as many tokens
    accepts_more: bool  # and on one more
    order_gap: float  # largest difference in a hidden state
    attention_gap: float  # largest difference in an attention weight
    row_sum_error: float  # of the library's attention
    shift_error: float  # largest change of our softmax when 5 is added to all scores
    channel: int
    added_to_queries: float  # the largest number that the library adds to a query of X W_Q
    added_unevenly: float  # how much of that differs from row to row


@dataclass(frozen=True)
class Positions:
    """Position tables by name, in float64, and how far their products are from knowing distance only."""

    tables: Mapping[str, Float[Tensor, "position model"]]
    sines_norm_spread: float  # standard deviation of the norms of the fixed rows
    sines_defect: float
    learned_norms: tuple[float, float]  # smallest and largest
    learned_defect: float


@dataclass(frozen=True)
class Order:
    """How far the output for permuted tokens is from the permuted output, relative to its size."""

    with_positions: float
    without_positions: float
    causal: float  # one causal layer, without positions


@dataclass(frozen=True)
class Stretching:
    """What the largest singular values allow, and what happens to the rows of the texts.

    Growth is the norm of a row of Q, K or V over the norm of its row of X, dimensionless.
    """

    norms: Mapping[str, Float[np.ndarray, "kind row"]]  # of X, Q, K, V in the drawn head
    largest: Mapping[str, Float[np.ndarray, "map head_of_all_layers"]]
    growth: Mapping[str, Float[Tensor, "map head_of_all_layers row"]]
    mean_growth: Mapping[str, Float[np.ndarray, "map head_of_all_layers"]]  # over all directions
    over: Mapping[str, list[float]]  # share of the heads with a largest singular value above 1
    alone: Mapping[str, list[Interval]]  # share of the pairs of row and head with a growth above 1
    joint: Mapping[str, list[float]]  # share of the rows that all heads of a layer together amplify
    furthest: list[float]  # the largest growth of all in the trained model
    amplified_V: int


@dataclass(frozen=True)
class Cone:
    """How near rows come to the largest stretch: 1 is the first singular vector itself."""

    apertures: Float[np.ndarray, " aperture"]
    positions: Mapping[str, Float[np.ndarray, "map pair"]]  # trained, control, isotropic
    middle: Mapping[str, list[float]]  # medians
    best: list[float]  # of the trained model
    pairs: int
    narrow: float  # share of the pairs within 10 % of the largest stretch
    half: list[float]  # the aperture at which half of the pairs are inside


@dataclass(frozen=True)
class Terms:
    """The four terms of a score, and the share of attention that moves when biases are dropped, by layer."""

    random_error: float  # relative, for random matrices of BERT BASE's size
    model_error: float
    dropped_gap: float  # largest change of an attention weight without the two row constants
    without_b_K: list[Interval]
    without_b_Q: list[Interval]
    control_without_b_Q: list[Interval]
    key_bias_ratio: float  # |b_K| / |b_Q|


@dataclass(frozen=True)
class Form:
    """The form M = W_Q W_K^T: signs of the eigenvalues of its symmetric part, its rank and its antisymmetric share."""

    eigenvalues: Mapping[str, Float[np.ndarray, " eigenvalue"]]  # of the drawn head
    signs: Mapping[str, list[tuple[int, int]]]  # all pairs of numbers of positive and negative eigenvalues
    antisymmetric: Mapping[str, Float[np.ndarray, "layer head"]]
    channel: int
    last_singular_value: float  # the smallest of the first d_k over the largest, in the worst head
    next_singular_value: float  # the one after d_k over the largest, in the worst head of the drawn layer
    negative_if_equal: int  # negative eigenvalues with W_K in place of W_Q


@dataclass(frozen=True)
class Lengths:
    """What the lengths of rows do to scores and attention."""

    spread: Mapping[str, list[float]]  # standard deviation over mean of the lengths, by layer
    scaling_error: float  # of the scores of a row that is three times as long, relative to three times the scores
    cosine_error: float  # largest change of its cosines
    moved: list[float]  # share of attention that moves with all rows at one length, by layer


@dataclass(frozen=True)
class Asymmetry:
    """The antisymmetric share of scores and of attention by layer, for several forms M."""

    scores: Mapping[str, Float[np.ndarray, " layer"]]
    attention: Mapping[str, Float[np.ndarray, " layer"]]
    negative: Mapping[str, float]  # share of the rows with a negative content score with themselves

    @property
    def mean_scores(self) -> dict[str, float]:
        """The mean over layers before the softmax."""
        return {kind: float(v.mean()) for kind, v in self.scores.items()}

    @property
    def mean_attention(self) -> dict[str, float]:
        """The mean over layers after the softmax."""
        return {kind: float(v.mean()) for kind, v in self.attention.items()}


@dataclass(frozen=True)
class Prose(Numbers):
    """The numbers of the page's text, as they are written there."""

    prefix = "similarity"
    over_Q: str
    over_K: str
    over_V: str
    grown_Q: str
    grown_K: str
    grown_V: str
    joint_Q: str
    joint_K: str
    joint_V: str
    furthest_V: str
    pairs_V: str
    amplified_V: str
    heads_V: str
    top_control: str
    best_Q: str
    best_K: str
    best_V: str
    half_Q: str
    half_K: str
    half_V: str
    middle_Q: str
    middle_K: str
    middle_V: str
    chance_Q: str
    chance_K: str
    chance_V: str
    drop_low: str
    drop_high: str
    symmetric: str
    share: str
    share_control: str
    channel: str
    skew_trained: str
    skew_content: str
    skew_symmetric: str
    skew_positive: str
    negative_trained: str
    negative_control: str


@dataclass(frozen=True)
class Measured(Numbers):
    """Everything that the page shows, section by section."""

    inputs: Inputs
    checkpoint: Checkpoint
    drawn: DrawnHead
    architecture: Architecture
    positions: Positions
    order: Order
    stretching: Stretching
    cone: Cone
    terms: Terms
    form: Form
    asymmetry: Asymmetry
    lengths: Lengths
    rungs: Rungs
    classifier: Classifier
    nearest: Nearest
    prose: Prose
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
    subjects = observe_models(inputs)
    trained = subjects.trained
    layers, heads = len(trained.layers), trained.attention[0].heads
    drawn = DrawnHead(round(DEPTH * (layers - 1)), min(HEAD, heads - 1))
    sections = {
        "architecture": measure_architecture(subjects, drawn.layer), "positions": measure_positions(subjects),
        "order": measure_order(subjects), "stretching": measure_stretching(subjects, drawn),
        "cone": measure_cone(subjects), "terms": measure_terms(subjects, drawn.layer),
        "form": measure_form(subjects, drawn), "asymmetry": measure_asymmetry(subjects),
        "lengths": measure_lengths(subjects, drawn.layer)}
    prose = write_prose(**{name: sections[name] for name in ("stretching", "cone", "terms", "form", "asymmetry")})
    rungs, nearest = measure_rungs(inputs), read_nearest(inputs)
    return Measured(inputs=inputs, checkpoint=subjects.checkpoint, drawn=drawn, **sections, prose=prose, rungs=rungs,
                    classifier=measure_classifier(inputs), nearest=nearest, ladder_phrases=phrase_rungs(rungs))


def observe_models(inputs: Inputs) -> Models:
    """Load the model and its control and run both on the texts."""
    checkpoint = checkpoints.find(inputs.model)
    tokenizer, passages = pretrained.tokenizer(checkpoint), texts_at_hand.passages(count=COUNT, source=inputs.texts)
    longest = min(LONGEST, parameters.config(checkpoint).positions)
    network, fresh = (pretrained.load(checkpoint, control_seed=seed, device=inputs.device) for seed in (None, 0))
    tokens = tokenizer(passages[0], truncation=True, max_length=longest, return_tensors="pt")["input_ids"]
    return Models(checkpoint, network, tokens.to(inputs.device),
                  *(extraction.observe(loaded, tokenizer, passages, longest) for loaded in (network, fresh)))


def measure_architecture(subjects: Models, layer: int) -> Architecture:
    """Count parameters, and hold our forward pass, attention and queries to the library's."""
    trained, network, tokens = subjects.trained, subjects.network, subjects.tokens
    first, states = trained.attention[layer], trained.states[0]
    own = encode(states[0], trained.layers)
    maps = network(tokens, output_attentions=True).attentions
    attention_gaps = [(softmax(compute_scores(states[i], weights_of_layer)) - maps[i][0]).abs().max().item()
                      for i, weights_of_layer in enumerate(trained.attention)]
    content = score_terms.score_terms(states[layer], first).content
    bare = (states[layer] @ first.W_Q).transpose(0, 1).flatten(1)  # (position, head channel)
    added = network.encoder.layer[layer].attention.self.query(states[layer]) - bare
    limit = network.config.max_position_embeddings
    return Architecture(
        base=extraction.count_parameters(12, 12, 768), large=extraction.count_parameters(24, 16, 1024),
        layers=len(trained.layers), width=first.model, tokens=tokens.shape[1], states=tuple(states.shape),
        limit=limit, accepts_limit=extraction.accepts(network, limit),
        accepts_more=extraction.accepts(network, limit + 1),
        order_gap=max((ours - theirs).abs().max().item() for ours, theirs in zip(own, states, strict=True)),
        attention_gap=max(attention_gaps), row_sum_error=max((t.sum(-1) - 1).abs().max().item() for t in maps),
        shift_error=(softmax(content + 5) - softmax(content)).abs().max().item(),
        channel=first.channel, added_to_queries=added.abs().max().item(),
        added_unevenly=(added - added.mean(0)).abs().max().item())


def measure_positions(subjects: Models) -> Positions:
    """Compare fixed sines, the model's table and a random one."""
    learned = parameters.positions(subjects.checkpoint, torch.float64)
    drawn = torch.randn(learned.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    sines, norms = positional_encodings.sinusoidal_positions(*learned.shape), learned.norm(dim=1)
    return Positions(
        tables={"fixed sines": sines, subjects.checkpoint.name: learned, "random": drawn},
        sines_norm_spread=sines.norm(dim=1).std().item(),
        sines_defect=positional_encodings.toeplitz_defect(sines @ sines.T),
        learned_norms=(norms.min().item(), norms.max().item()),
        learned_defect=positional_encodings.toeplitz_defect(learned @ learned.T))


def measure_order(subjects: Models) -> Order:
    """Permute the tokens of the first text: with positions, without them, and under a causal mask."""
    network, tokens = subjects.network, subjects.tokens
    permutation = torch.randperm(tokens.shape[1], generator=torch.Generator().manual_seed(0))
    table = network.embeddings.position_embeddings.weight
    learned = table.clone()
    with_positions = extraction.order_sensitivity(network, tokens, permutation)
    table.zero_()
    without_positions = extraction.order_sensitivity(network, tokens, permutation)
    table.copy_(learned)
    x = subjects.control.states[0][0]
    one, other = (attend(rows, subjects.control.attention[0], causal=True).output for rows in (x, x[permutation]))
    causal = ((one[permutation] - other).norm() / one.norm()).item()
    return Order(with_positions, without_positions, causal)


def measure_stretching(subjects: Models, drawn: DrawnHead) -> Stretching:
    """Measure largest singular values, and the growth of every row in every head, with biases."""
    both = subjects.both
    largest = {which: amplification.over_heads(singular_values.spectral_norm, o.attention) for which, o in both.items()}
    by_text = {which: [amplification.amplifications(s, o.attention) for s in o.states] for which, o in both.items()}
    means = {which: amplification.over_heads(amplification.mean_amplification, o.attention)
             for which, o in both.items()}
    return Stretching(
        norms={which: amplification.row_norms(o.rows(drawn.layer), o.attention[drawn.layer], drawn.head).cpu().numpy()
               for which, o in both.items()},
        largest={which: sigma.flatten(1).cpu().numpy() for which, sigma in largest.items()},
        growth={which: torch.cat(growth, -1).flatten(1, 2).cpu() for which, growth in by_text.items()},
        mean_growth={which: mean.flatten(1).cpu().numpy() for which, mean in means.items()},
        over={which: (sigma > 1).double().mean((1, 2)).tolist() for which, sigma in largest.items()},
        alone={which: [interval_over_texts([(g[k] > 1).double().mean() for g in growth]) for k in range(3)]
               for which, growth in by_text.items()},
        joint={which: [mean([(g[k].square().sum(1) > 1).double().mean() for g in growth]) for k in range(3)]
               for which, growth in by_text.items()},
        furthest=[max(g[k].max().item() for g in by_text["trained"]) for k in range(3)],
        amplified_V=int(sum((g[2] > 1).sum() for g in by_text["trained"])))


def measure_cone(subjects: Models) -> Cone:
    """Measure how near rows come to the largest stretch, and how near random directions come by chance."""
    rng, apertures = np.random.default_rng(0), np.linspace(0, 1, 101)
    place = {which: torch.cat([amplification.cone_positions(s, o.attention) for s in o.states], -1).flatten(1)
             for which, o in subjects.both.items()}
    place["isotropic"] = torch.stack([torch.cat([
        amplification.isotropic_cone_positions(getattr(layer, f"W_{name}"), 500, rng)
        for layer in subjects.trained.attention]) for name in MAPS]).flatten(1)
    trained = place["trained"]
    inside = [(p[:, None] >= 1 - apertures).mean(0) for p in trained.cpu().numpy()]
    return Cone(
        apertures=apertures, positions={which: p.cpu().numpy() for which, p in place.items()},
        middle={which: p.median(1).values.tolist() for which, p in place.items()},
        best=trained.max(1).values.tolist(), pairs=trained.numel(),
        narrow=share_interval(int((trained >= 0.9).sum()), trained.numel()).value,
        half=[float(apertures[np.argmax(share >= 0.5)]) for share in inside])


def measure_terms(subjects: Models, layer: int) -> Terms:
    """Add the four terms up, and drop them one by one."""
    trained, first = subjects.trained, subjects.trained.attention[layer]
    x = trained.states[0][layer]
    scores, terms = compute_scores(x, first), score_terms.score_terms(x, first)
    kept = softmax(terms.content + terms.semi_bias[..., None, :])
    size = {name: torch.cat([getattr(a, name) for a in trained.attention]).norm() for name in ("b_Q", "b_K")}
    return Terms(
        random_error=four_term_error(x.device), model_error=(terms.total() - scores).abs().max().item(),
        dropped_gap=(kept - softmax(scores)).abs().max().item(),
        without_b_K=attention_moved_without(trained, "b_K"), without_b_Q=attention_moved_without(trained, "b_Q"),
        control_without_b_Q=attention_moved_without(subjects.control, "b_Q"),
        key_bias_ratio=(size["b_K"] / size["b_Q"]).item())


def four_term_error(device: torch.device) -> float:
    """Return the relative error of the four terms' sum for random matrices of the size of one head of BERT BASE."""
    g = torch.Generator().manual_seed(0)
    X, W_Q, W_K, b_Q, b_K = (torch.randn(*shape, generator=g, dtype=torch.float64).to(device)
                             for shape in ((512, 768), (1, 768, 64), (1, 768, 64), (1, 64), (1, 64)))
    unread = {"W_V": W_K, "b_V": b_K, "W_O": W_K.mT.contiguous(), "b_O": X[0]}
    head = AttentionWeights(W_Q=W_Q, W_K=W_K, b_Q=b_Q, b_K=b_K, **unread)
    scores = compute_scores(X, head)
    return ((score_terms.score_terms(X, head).total() - scores).norm() / scores.norm()).item()


def attention_moved_without(o: Observed, name: str) -> list[Interval]:
    """Return the share of a row's attention that moves without one of the biases, by layer."""
    return [interval_over_texts([distance.attention_moved(
        s[i], layer, instead=symmetry.without(layer, name)).mean() for s in o.states])
        for i, layer in enumerate(o.attention)]


def measure_form(subjects: Models, drawn: DrawnHead) -> Form:
    """Take the signs, the rank and the antisymmetric share of M in every head."""
    both, attention = subjects.both, subjects.trained.attention
    forms = {which: [symmetry.symmetric_signature(a.W_Q, a.W_K) for a in o.attention] for which, o in both.items()}
    values = torch.stack([singular_values.product_singular_values(a.W_Q.double(), a.W_K.double()) for a in attention])
    shown = attention[drawn.layer]
    return Form(
        eigenvalues={which: f[drawn.layer].eigenvalues[drawn.head].cpu().numpy() for which, f in forms.items()},
        signs={which: sorted({pair for f in of_layers for pair in zip(
            f.positive.tolist(), f.negative.tolist(), strict=True)}) for which, of_layers in forms.items()},
        antisymmetric={which: torch.stack([f.antisymmetric for f in of_layers]).cpu().numpy()
                       for which, of_layers in forms.items()},
        channel=shown.channel, last_singular_value=(values[..., -1] / values[..., 0]).min().item(),
        next_singular_value=singular_value_after(shown),
        negative_if_equal=symmetry.symmetric_signature(shown.W_K, shown.W_K).negative.max().item())


def singular_value_after(layer: AttentionWeights) -> float:
    """Return singular value d_k + 1 of M over its largest, for the head where it is largest; 0 if there is none."""
    values = torch.linalg.svdvals(layer.W_Q.double() @ layer.W_K.double().mT)
    return (values[:, layer.channel:] / values[:, :1]).max().item() if values.shape[1] > layer.channel else 0.0


def measure_asymmetry(subjects: Models) -> Asymmetry:
    """Measure the antisymmetric shares, and how many rows have a negative content score with themselves."""
    def shares(turn: Callable[[Tensor], Tensor]) -> dict[str, np.ndarray]:
        of_control = antisymmetric_shares(subjects.control, turn)["content alone"]
        return antisymmetric_shares(subjects.trained, turn) | {"control": of_control}

    def negative(o: Observed) -> float:
        with_itself = [symmetry.score_variants(s[i], layer)["content alone"].diagonal(dim1=1, dim2=2)
                       for s in o.states[:FEW] for i, layer in enumerate(o.attention)]
        return mean([(scores < 0).double().mean() for scores in with_itself])

    return Asymmetry(scores=shares(lambda scores: scores), attention=shares(softmax),
                     negative={which: negative(o) for which, o in subjects.both.items()})


def antisymmetric_shares(o: Observed, turn: Callable[[Tensor], Tensor]) -> dict[str, Float[np.ndarray, " layer"]]:
    """Return for every form the antisymmetric share of ``turn(scores)``, mean over the heads and the first texts."""
    by_layer = []
    for i, layer in enumerate(o.attention):
        variants = [symmetry.score_variants(s[i], layer) for s in o.states[:FEW]]
        by_layer.append({kind: mean([symmetry.asymmetry(turn(scores[kind])).mean() for scores in variants])
                         for kind in KINDS})
    return {kind: np.array([shares[kind] for shares in by_layer]) for kind in KINDS}


def measure_lengths(subjects: Models, layer: int) -> Lengths:
    """Make one row three times as long, and all rows equally long."""
    trained = subjects.trained
    bare, x = symmetry.without(trained.attention[layer], "b_Q", "b_K"), trained.states[0][layer]
    longer = torch.cat([x[:1], 3 * x[1:2], x[2:]])
    before, after = (compute_scores(rows, bare)[:, 1, 2:] for rows in (x, longer))
    cosines, of_longer = (torch.nn.functional.cosine_similarity(rows[1:2], rows, dim=-1) for rows in (x, longer))
    return Lengths(
        spread={which: [(o.rows(i).norm(dim=1).std() / o.rows(i).norm(dim=1).mean()).item()
                        for i in range(len(o.layers))] for which, o in subjects.both.items()},
        scaling_error=((after - 3 * before).norm() / (3 * before).norm()).item(),
        cosine_error=(cosines - of_longer).abs().max().item(),
        moved=[mean([distance.attention_moved(s[i], weights_of_layer, rows=symmetry.equalise_norms(s[i])).mean()
                     for s in trained.states]) for i, weights_of_layer in enumerate(trained.attention)])


def write_prose(stretching: Stretching, cone: Cone, terms: Terms, form: Form, asymmetry: Asymmetry) -> Prose:
    """Write the numbers of the text, with the digits that they have there."""
    two = "{:.2f}".format
    antisymmetric, attention = form.antisymmetric, asymmetry.mean_attention
    medians = {which: torch.as_tensor(shares).median() for which, shares in antisymmetric.items()}
    sigma, moved = stretching.largest, [w.value for w in terms.without_b_Q]
    alone = [share.value for share in stretching.alone["trained"]]
    more_symmetric = np.mean(antisymmetric["trained"] < antisymmetric["control"].min())
    return Prose(
        **by_map("over", stretching.over["trained"], percent), **by_map("grown", alone, lambda v: percent(v, 1)),
        **by_map("joint", stretching.joint["trained"], percent), furthest_V=two(stretching.furthest[2]),
        pairs_V=f"{stretching.growth['trained'][2].numel():,}", amplified_V=f"{stretching.amplified_V:,}",
        heads_V=f"{int((sigma['trained'][2] > 1).sum())} of {sigma['trained'][2].size}",
        top_control=two(sigma["control"].max()), **by_map("best", cone.best, two), **by_map("half", cone.half, two),
        **by_map("middle", cone.middle["trained"], two), **by_map("chance", cone.middle["isotropic"], two),
        drop_low=percent(min(moved)), drop_high=percent(max(moved)), symmetric=percent(more_symmetric),
        share=two(medians["trained"]), share_control=two(medians["control"]),
        channel=str(form.channel), skew_trained=two(attention["as trained"]),
        skew_content=two(attention["content alone"]), skew_symmetric=two(attention["symmetric part of M"]),
        skew_positive=two(attention["positive form"]),
        **{f"negative_{which}": percent(share) for which, share in asymmetry.negative.items()})


def by_map(name: str, values: Sequence[float], form: Callable[[float], str]) -> dict[str, str]:
    """Write one value for each of Q, K and V, under names that end in the map's letter."""
    return {f"{name}_{letter}": form(value) for letter, value in zip(MAPS, values, strict=True)}


def mean(values: Sequence[Tensor]) -> float:
    """Return the mean of single numbers, wherever they lie."""
    return float(np.mean([float(v) for v in values]))


def interval_over_texts(values: Sequence[Tensor]) -> Interval:
    """Return the mean over texts with its 95 % interval; of one text the bounds are nan."""
    numbers = [float(v) for v in values]
    return mean_interval(numbers) if len(numbers) > 1 else Interval(numbers[0], math.nan, math.nan)
