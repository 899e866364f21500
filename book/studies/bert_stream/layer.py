"""One layer: what its heads hand on, what LayerNorm and the MLP make of it, and what the next layer reads."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import cosine_similarity

from analysis.core.attention_layer import AttentionLayer, Norm
from analysis.core.weights import EncoderLayer
from analysis.decomposition.block_mixing import expand_score, vanishing
from analysis.maps.distance import total_variation
from analysis.transformer.activations import LayerActivations
from analysis.transformer.attention import softmax
from analysis.transformer.attention_only import composition_scores
from analysis.transformer.encoder import encode
from analysis.transformer.head_layout import concatenate, split
from analysis.transformer.layernorm import apply_norm, centre, jacobian, normalise, sigma
from analysis.transformer.mlp import activation_mask, apply_masked_mlp, apply_mlp, fold_layer
from book.studies.bert_stream.networks import LONGEST, Network, Subject, largest_error, relative_error

# ---- What the heads hand on, and what LayerNorm does to it


@dataclass(frozen=True)
class Heads:
    """Formula (5.8) held to the modules of the model."""

    errors: Mapping[str, float]
    """Largest difference from the model's modules: ``heads`` before W_O and b_O, ``attention_output`` after them."""
    without_output: float
    """How far the head outputs are from the attention's output, relative to it: what W_O and b_O do."""
    one_map: float
    """How far the head outputs are off, relative to them, if all heads have the attention map of the first."""


@dataclass(frozen=True)
class Normalisation:
    """The first LayerNorm: errors of its formulas, and how much it changes rows."""

    formula_error: float
    doubled_error: float
    """Largest entry of LN(2x) - LN(x), without gain and bias."""
    additivity_error: float
    """LN(x + y) against LN(x) + LN(y), without gain and bias: relative to LN(x + y)."""
    largest_row_sum: float
    length_error: float
    """Largest difference of a plain row's squared length from the number of its coordinates."""
    negative: float
    """The share of negative entries in plain rows."""
    negative_written: float
    """The same in the rows with gain and bias."""
    written_sums: tuple[float, float]
    """The least and the largest sum of such a row."""
    change: Mapping[str, float]
    """By network: how much the first LayerNorms change a text's rows, relative to their length, on average."""
    other_rows: float
    """Largest change of row 0 of the output when all other rows of the input change."""
    jacobian_error: float
    third_singular: float
    """Of the Jacobian less its diagonal part, which has rank 2."""


def measure_heads(subject: Subject, trained: Network) -> Heads:
    """Compare the head outputs and the attention's output of the first text with what the model's modules compute."""
    stations = trained.stations[subject.level][0]
    modules = _outputs_of_modules(trained.model.encoder.layer[subject.level], stations.x)
    one_map = concatenate(stations.attention[:1] @ stations.values)
    return Heads(
        errors={name: largest_error(getattr(stations, name), output) for name, output in modules.items()},
        without_output=relative_error(stations.heads, stations.attention_output),
        one_map=relative_error(one_map, stations.heads),
    )


def _outputs_of_modules(layer: torch.nn.Module, rows: Tensor) -> dict[str, Tensor]:
    """Run a layer of the model itself, and return what its attention computes before and after W_O and b_O."""
    outputs = {}

    def keep(name: str, module: torch.nn.Module, inputs: tuple, output: Tensor | tuple) -> None:
        outputs[name] = (output[0] if isinstance(output, tuple) else output)[0].double()

    hooks = [
        layer.attention.self.register_forward_hook(partial(keep, "heads")),
        layer.attention.output.dense.register_forward_hook(partial(keep, "attention_output")),
    ]
    with torch.no_grad():
        layer(rows.to(layer.output.dense.weight.dtype)[None])
    for hook in hooks:
        hook.remove()
    return outputs


def measure_normalisation(subject: Subject, networks: Mapping[str, Network]) -> Normalisation:
    """Test what the paper says of LayerNorm on the rows that the first one of the layer reads."""
    rows, norm = subject.before_first, subject.layer.norm_attention
    others = rows[torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))]
    plain, moved, written = normalise(rows), rows.clone(), apply_norm(rows, norm)
    moved[1:] += 1
    jacobian_error, third_singular = _compare_jacobian(rows[0], norm)
    return Normalisation(
        formula_error=largest_error(_written_out(rows, norm), apply_norm(rows, norm)),
        doubled_error=largest_error(normalise(2 * rows), plain),
        additivity_error=relative_error(plain + normalise(others), normalise(rows + others)),
        largest_row_sum=plain.sum(1).abs().max().item(),
        length_error=(plain.square().sum(1) - subject.width).abs().max().item(),
        negative=(plain < 0).double().mean().item(),
        negative_written=(written < 0).double().mean().item(),
        written_sums=(written.sum(1).min().item(), written.sum(1).max().item()),
        change={name: _mean_change(network.stations) for name, network in networks.items()},
        other_rows=largest_error(apply_norm(moved, norm)[0], apply_norm(rows, norm)[0]),
        jacobian_error=jacobian_error,
        third_singular=third_singular,
    )


def _written_out(rows: Tensor, norm: Norm) -> Tensor:
    """Apply LayerNorm in the matrices of the corrected (5.9)."""
    ones = rows.new_ones(rows.shape[1], 1)
    return (rows - rows @ ones @ ones.T / len(ones)) / sigma(rows, norm.eps)[:, None] * norm.gain + norm.bias


def _mean_change(by_layer: list[list[LayerActivations]]) -> float:
    return float(
        np.mean([relative_error(stations.first, stations.before_first) for texts in by_layer for stations in texts])
    )


def _compare_jacobian(row: Tensor, norm: Norm) -> tuple[float, float]:
    """Compare the closed form of LayerNorm's Jacobian with autograd; return also its third singular value.

    That is of what is left when the Jacobian is divided by gain and 1/sigma, and the identity is taken away.
    """
    exact = torch.func.jacrev(partial(apply_norm, norm=norm))(row)
    identity = torch.eye(len(row), dtype=row.dtype, device=row.device)
    low_rank = exact / norm.gain[:, None] * sigma(row, norm.eps) - identity
    return largest_error(jacobian(row, norm), exact), torch.linalg.svdvals(low_rank)[2].item()


# ---- The MLP of the layer: its mask, its two biases, and the order of its input's blocks


@dataclass(frozen=True)
class Perceptron:
    """The forms (5.11) to (5.13): errors, and what ReLU in place of GELU does to the sentence."""

    mask_error: float
    blocks_error: float
    relu_cosine: Mapping[str, float]
    """By network: the mean cosine of a text's mean row at the end with what it is with ReLU in all layers."""


@dataclass(frozen=True)
class Biases:
    """The two biases at the end of (5.14)."""

    variation: float
    """How much of what arrives of b_1 varies from token to token, relative to its size."""
    zeroed_cosine: float
    """The mean cosine of the sentence with what it is without b_2 in any layer."""
    fold_error: float


@dataclass(frozen=True)
class Order:
    """Blocks of the MLP's input in another order."""

    renumbered_error: float
    """With the rows of W_1 in the same order."""
    permuted_change: float
    """Without: how much the output changes, relative to its size."""
    inverse_error: float
    """Of the input, computed back from the hidden units before the activation."""


def measure_perceptron(subject: Subject, networks: Mapping[str, Network]) -> Perceptron:
    """Check the mask form and the product by blocks, and replace GELU by ReLU in all layers."""
    x, mlp = subject.first, subject.layer.mlp
    masked = apply_masked_mlp(x, mlp, activation_mask(x, mlp))
    by_blocks = (split(x, subject.heads) @ mlp.W_in.unflatten(0, (subject.heads, -1))).sum(0)
    cosines = {}
    for name, network in networks.items():
        relu = sentences(network, network.layers, activation=torch.relu)
        cosines[name] = cosine_similarity(relu, sentences(network, network.layers)).mean().item()
    return Perceptron(largest_error(masked, apply_mlp(x, mlp)), largest_error(by_blocks, x @ mlp.W_in), cosines)


def sentences(network: Network, layers: list[EncoderLayer], **options: Callable) -> Float[Tensor, "text model"]:
    """Run layers on what the first one of a network reads, and return the mean row at the end, of each text."""
    return torch.stack([encode(text[0], layers, **options)[-1].mean(0) for text in network.states])


def measure_biases(subject: Subject, trained: Network) -> Biases:
    """Measure what arrives of b_1, and set b_2 to zero or fold it into the biases before it, in all layers."""
    mlp, layers = subject.layer.mlp, trained.layers
    arriving = (mlp.b_in * activation_mask(subject.first, mlp)) @ mlp.W_out
    own = sentences(trained, layers)
    zeroed = sentences(trained, [_without_output_bias(layer) for layer in layers])
    folded = sentences(trained, [fold_layer(layer) for layer in layers])
    return Biases(
        variation=((arriving - arriving.mean(0)).norm() / arriving.norm()).item(),
        zeroed_cosine=cosine_similarity(zeroed, own).mean().item(),
        fold_error=largest_error(folded, own),
    )


def _without_output_bias(layer: EncoderLayer) -> EncoderLayer:
    return replace(layer, mlp=replace(layer.mlp, b_out=torch.zeros_like(layer.mlp.b_out)))


def measure_order(subject: Subject) -> Order:
    """Permute the blocks of the MLP's input, with and without the rows of W_1."""
    x, mlp, heads = subject.first, subject.layer.mlp, subject.heads
    order = torch.randperm(heads, generator=torch.Generator().manual_seed(0))
    permuted = concatenate(split(x, heads)[order])
    renumbered = replace(mlp, W_in=mlp.W_in.unflatten(0, (heads, -1))[order].flatten(0, 1))
    output = apply_mlp(x, mlp)
    return Order(
        renumbered_error=largest_error(apply_mlp(permuted, renumbered), output),
        permuted_change=relative_error(apply_mlp(permuted, mlp), output),
        inverse_error=largest_error(x @ mlp.W_in @ torch.linalg.pinv(mlp.W_in), x),
    )


# ---- What the next layer reads: composition of heads, and the terms of a score


@dataclass(frozen=True)
class Composition:
    """How differently later heads read earlier ones."""

    scores: Mapping[str, Float[Tensor, "pair head later"]]
    """By network: composition through queries, for the heads of every two successive layers."""
    lengths: Float[np.ndarray, " head"]
    """The mean length of what each head of the layer adds to a row of the first text."""

    @property
    def length_ratio(self) -> float:
        """The longest mean update of a head over the shortest."""
        return self.lengths.max() / self.lengths.min()

    def peak(self, network: str) -> float:
        """Return the largest composition score over the median one."""
        return (self.scores[network].max() / self.scores[network].median()).item()


@dataclass(frozen=True)
class Expansion:
    """One head's score, of rows of the paper's form (5.16), as a table of terms."""

    parts: Float[Tensor, "part position model"]
    """What the rows are a sum of: the blocks, then the constants of b_1 and of b_2."""
    terms: int
    vanishing: int
    sum_error: float
    context_error: float
    """Of (5.17) with the transpose that it lacks."""


@dataclass(frozen=True)
class RealRows:
    """The same for a row as BERT has it: skip connection, masked MLP, b_1 and b_2, normalised, and beta."""

    parts: Float[Tensor, "part position model"]
    sum_error: float
    vanishing: Bool[np.ndarray, "query_part key_part"]
    moved: float
    """How much of a row's attention moves, in total variation, when b_2 is taken out of the keys."""


def measure_composition(subject: Subject, networks: Mapping[str, Network]) -> Composition:
    """Score the composition of heads in successive layers, and measure the update of every head."""
    scores = {
        name: torch.stack(
            [
                composition_scores(layer.attention.W_O, after.attention.W_Q)
                for layer, after in zip(network.layers, network.layers[1:])
            ]
        )
        for name, network in networks.items()
    }
    stations = networks["trained"].stations[subject.level][0]
    updates = split(stations.heads, subject.heads) @ subject.layer.attention.W_O
    return Composition(scores, updates.norm(dim=-1).mean(1).cpu().numpy())


def first_head(attention: AttentionLayer) -> list[Tensor]:
    """Return W_Q, W_K, b_Q and b_K of the first head."""
    return [attention.W_Q[0], attention.W_K[0], attention.b_Q[0], attention.b_K[0]]


def measure_expansion(subject: Subject) -> Expansion:
    """Multiply out a score of the first head of the next layer, for rows of the form that (5.16) gives them."""
    heads, mlp = subject.heads, subject.layer.mlp
    blocks = split(subject.first[:LONGEST], heads) @ mlp.W_in.unflatten(0, (heads, -1)) @ mlp.W_out
    constants = torch.stack([mlp.b_in @ mlp.W_out, mlp.b_out])
    parts = torch.cat([blocks, constants[:, None].expand(2, *blocks.shape[1:])])
    W_Q, W_K, b_Q, b_K = first_head(subject.after)
    terms, rows = expand_score(parts, W_Q, W_K, b_Q, b_K), parts.sum(0)
    context = sum(a @ W_Q @ W_K.T @ b.T for a in blocks for b in blocks)
    constant = vanishing(terms)
    return Expansion(
        parts=parts,
        terms=constant.numel(),
        vanishing=int(constant.sum()),
        sum_error=relative_error(terms.sum((0, 1)), (rows @ W_Q + b_Q) @ (rows @ W_K + b_K).T),
        context_error=relative_error(terms[:heads, :heads].sum((0, 1)), context),
    )


def measure_real_rows(subject: Subject, trained: Network) -> RealRows:
    """Multiply out the score of the rows that the next layer really reads, those of the first text."""
    stations = trained.stations[subject.level][0]
    parts = _parts_of_output(stations, subject)
    terms = expand_score(parts, *first_head(subject.after)) / subject.after.channel**0.5
    scores = terms.sum((0, 1))
    without = softmax((scores - terms[:, 3].sum(0))[None])
    return RealRows(
        parts=parts,
        sum_error=largest_error(parts.sum(0), stations.second),
        vanishing=vanishing(terms).cpu().numpy(),
        moved=total_variation(softmax(scores[None]), without).mean().item(),
    )


def _parts_of_output(stations: LayerActivations, subject: Subject) -> Tensor:
    """Split what the layer writes: all parts but beta are centred, multiplied by the gain and divided by sigma."""
    mlp, norm, x = subject.layer.mlp, subject.layer.norm_mlp, stations.first
    gates = activation_mask(x, mlp)
    raw = torch.stack([x, x @ mlp.W_in * gates @ mlp.W_out, mlp.b_in * gates @ mlp.W_out, mlp.b_out.expand_as(x)])
    scaled = centre(raw) / sigma(stations.before_second, norm.eps)[:, None] * norm.gain
    return torch.cat([scaled, norm.bias.expand_as(x)[None]])
