"""What the page on families shows: a tiny random model of each, read by the adapter and compared with itself."""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from analysis.core.attention_layer import AttentionLayer
from analysis.core.positions import Rotary, ScoreTable
from analysis.decomposition.folding import fold_value_bias
from analysis.models.families import FAMILIES, REFUSED, Family
from analysis.models.families.tiny import tiny_inputs, tiny_model
from analysis.models.reading import Model, load
from analysis.surveys.family_agreement import agreement
from analysis.transformer.attention import attend
from book.publish import Inputs, Numbers, choose_inputs

LENGTH = 12  # positions of random rows


@dataclass(frozen=True)
class Biases:
    """What becomes of the biases of one layer, tried on random rows.

    Attributes
    ----------
    key
        The largest change of its attention when a random bias is added to all keys; 0 where the key bias cancels.
    unturned
        The same for the coordinates that rotary positions leave as they are; ``None`` where there are none, or where
        positions are not rotary.
    value
        The largest change of its output, in parts of its largest entry, when the value bias is folded into the output
        bias; ``None`` where that is refused.
    """

    key: float
    unturned: float | None
    value: float | None


@dataclass(frozen=True)
class Row:
    """One stack of one family: what the adapter found in it, and how far its attention is from the model's own.

    Attributes
    ----------
    family, model_types, stack, rounded
        The name of the row of the adapter's table, what config.json calls its models, which of several stacks it is,
        and whether the model's own numbers are known in float32 only.
    layers, biases
        Of the tiny model, layer by layer; kinds of layers alternate in some families.
    as_it_is
        The largest difference of an entry of the attention maps with the model as it runs.
    in_double
        The largest difference, of maps, outputs (in parts of the largest) and norms (likewise), with the model in
        float64 throughout.
    padded
        The largest difference of maps and outputs with padding on the right in one text and on the left in another;
        ``None`` for images and sounds.
    """

    family: str
    model_types: tuple[str, ...]
    stack: str
    rounded: bool
    layers: tuple[AttentionLayer, ...]
    biases: tuple["Biases", ...]
    as_it_is: float
    in_double: float
    padded: float | None


@dataclass(frozen=True)
class Measured(Numbers):
    """The rows of the table and how many there are.

    ``families`` counts rows of the table, an encoder and a decoder of one model as one; ``model_types`` what
    config.json may call a model; ``stacks`` what was compared; ``refused`` model types that are refused with a reason.
    """

    prefix: ClassVar[str] = "exact"

    inputs: Inputs
    families: int
    model_types: int
    stacks: int
    refused: int
    reasons: dict[str, str]
    rows: tuple[Row, ...]


def measure() -> Measured:
    """Build a tiny random model of the first model type of each row, and run every stack both ways."""
    families = [row for row in FAMILIES if not row.files_only]
    rows = tuple(compare(row) for row in families)
    model_types = {model_type for row in families for model_type in row.model_types}
    return Measured(
        choose_inputs(device="cpu"),
        len({row.name for row in families}),
        len(model_types),
        len(rows),
        len(REFUSED),
        dict(REFUSED),
        rows,
    )


def compare(family: Family) -> Row:
    """Read one tiny model and compare its attention with its own."""
    model = tiny_model(family.model_types[0])
    read, inputs = load(model, stack=family.stack), tiny_inputs(model)
    double = agreement(model, read, inputs, in_double=True)
    every = tuple(read.layers)
    return Row(
        family.name,
        family.model_types,
        family.stack,
        bool(family.rounded),
        every,
        tuple(map(try_biases, every)),
        agreement(model, read, inputs).attention,
        max(double.attention, double.output, double.norm),
        pad(model, read, inputs),
    )


def try_biases(layer: AttentionLayer) -> Biases:
    """Add a bias to the keys of a layer, and fold that of its values."""
    length = layer.positions.table.shape[-1] if isinstance(layer.positions, ScoreTable) else LENGTH
    generator = torch.Generator().manual_seed(0)
    x, bias = (
        torch.randn(*shape, generator=generator, dtype=torch.float64)
        for shape in ((length, layer.model), layer.b_K.shape)
    )
    ours = attend(x, layer)

    def moved(coordinates: slice) -> float:
        b_K = layer.b_K.clone()
        b_K[:, coordinates] += bias[:, coordinates]
        return (attend(x, replace(layer, b_K=b_K)).attention - ours.attention).abs().max().item()

    partial = isinstance(layer.positions, Rotary) and layer.positions.coordinates < layer.channel
    value = None
    if layer.sinks is None:
        change = attend(x, fold_value_bias(layer)).output - ours.output
        value = (change.abs().max() / ours.output.abs().max()).item()
    return Biases(moved(slice(None)), moved(slice(layer.positions.coordinates, None)) if partial else None, value)


def pad(model: torch.nn.Module, read: Model, inputs: dict) -> float | None:
    """Compare once more with padding on either side."""
    if "input_ids" not in inputs or read.family.stack == "vision":
        return None
    mask = torch.ones_like(inputs["input_ids"])
    mask[0, -3:], mask[1, :3] = 0, 0
    masks = {"attention_mask": mask} | ({"decoder_attention_mask": mask} if "decoder_input_ids" in inputs else {})
    error = agreement(model, read, inputs | masks, in_double=True)
    return max(error.attention, error.output)
