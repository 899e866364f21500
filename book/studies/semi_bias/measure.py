"""What the chapter on the semi-bias measures: GPT-2 from its record, gpt2-mini and its untrained control live."""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
from jaxtyping import Int
from torch import Tensor

from analysis.data import texts
from analysis.models import checkpoints, pretrained
from analysis.models.checkpoints import Checkpoint
from book.lab.training import gpt2_mini
from book.publish import Inputs, Numbers, choose_inputs, live_or_record
from book.publish.records import Record, Result
from book.studies.semi_bias import first_layer
from book.studies.semi_bias.first_layer import (
    Chance,
    FirstLayer,
    Losses,
    Sentence,
    SharedDirection,
    measure_chance,
    measure_losses,
    measure_sentence,
    measure_shared_direction,
)
from book.studies.semi_bias.gpt2 import measure as measure_gpt2
from book.studies.semi_bias.locality import Locality, MiniLocality, measure_locality, measure_mini_locality
from book.studies.semi_bias.tilt import (
    FirstKey,
    Layers,
    PositionTable,
    Rise,
    Tilt,
    measure_first_key,
    measure_layers,
    measure_rise,
    measure_table,
    measure_tilt,
)
from book.studies.semi_bias.tokens import Tokens, measure_tokens
from book.studies.semi_bias.training import Emergence, Endings, measure_emergence, measure_endings

EXACT = ("attention", "output", "four_terms", "two_terms", "six_terms", "value_folded", "no_key_bias", "bias_outside")


@dataclass(frozen=True)
class Measured(Numbers):
    """Everything that the chapter shows. Scores are in nats; heads and layers are counted from 0.

    ``errors`` are those of ``book.studies.semi_bias.first_layer.equality``: model to name to error.
    """

    prefix: ClassVar[str] = "sb"

    inputs: Inputs
    sources: tuple[str, ...]
    checkpoints: tuple[Checkpoint, ...]
    mini: FirstLayer
    errors: dict[str, dict[str, float]]
    sentence: Sentence
    table: PositionTable
    tilt: Tilt
    rise: Rise
    first_key: FirstKey
    losses: Losses
    chance: Chance
    shared_direction: SharedDirection
    locality: Locality
    mini_locality: MiniLocality
    layers: Layers
    tokens: Tokens
    emergence: Emergence
    endings: Endings

    @property
    def exact_errors(self) -> dict[str, dict[str, float]]:
        """The errors of what should be exact."""
        return {model: {name: errors[name] for name in EXACT} for model, errors in self.errors.items()}

    def largest_error(self, name: str) -> float:
        """Return the larger of the two models' errors of that name."""
        return max(errors[name] for errors in self.errors.values())

    def smallest_error(self, name: str) -> float:
        """Return the smaller of the two models' errors of that name."""
        return min(errors[name] for errors in self.errors.values())


def measure(model: str = "gpt2", texts: str | None = None, device: str = "auto") -> Measured:
    """Measure everything that the chapter shows.

    Parameters
    ----------
    model
        Any GPT-2, by name or folder; its attention, LayerNorm and position parameters are enough.
    texts
        A text file, or a folder of them, that gpt2-mini reads in place of the book's held-out passages.
    device
        ``"auto"``, ``"cpu"``, ``"cuda"`` or ``"cuda:N"``.
    """
    inputs = choose_inputs(model, own="gpt2", texts=texts, device=device, whole=False)
    shown, mini_checkpoint = checkpoints.find(model), checkpoints.find("gpt2-mini")
    gpt2, source = live_or_record("semi-bias-gpt2", inputs, elsewhere=partial(measure_gpt2, shown, inputs.device))
    mini = first_layer.read(mini_checkpoint, device=inputs.device)
    control = first_layer.control(mini_checkpoint, device=inputs.device)
    language_model = pretrained.load(mini_checkpoint, task="lm", dtype=torch.float64, device=inputs.device)
    windows = held_out_windows(mini_checkpoint, inputs)
    sentence = measure_sentence(mini_checkpoint, mini)
    tilt = measure_tilt(gpt2)
    locality = measure_locality(gpt2, tilt, inputs)
    local = locality.local_heads
    return Measured(
        inputs=inputs,
        sources=(source,),
        checkpoints=(mini_checkpoint, shown),
        mini=mini,
        errors=measure_errors(gpt2, mini, sentence.ids),
        sentence=sentence,
        table=measure_table(gpt2),
        tilt=tilt,
        rise=measure_rise(gpt2, tilt, local),
        first_key=measure_first_key(gpt2, tilt),
        losses=measure_losses(gpt2, language_model, windows, inputs),
        chance=measure_chance(gpt2, control),
        shared_direction=measure_shared_direction(gpt2, local),
        locality=locality,
        mini_locality=measure_mini_locality(mini, windows[:8]),
        layers=measure_layers(gpt2, mini, language_model, windows),
        tokens=measure_tokens(mini, shown, inputs),
        emergence=measure_emergence(inputs),
        endings=measure_endings(inputs),
    )


def held_out_windows(checkpoint: Checkpoint, inputs: Inputs) -> Int[Tensor, "window position"]:
    """Cut the held-out passages into windows of gpt2-mini's tokens."""
    text = "\n\n".join(texts.passages(source=inputs.texts))
    ids = gpt2_mini.encode(pretrained.tokenizer(checkpoint), text)
    return gpt2_mini.windows(ids, first_layer.WINDOWS).to(inputs.device)


def measure_errors(gpt2: Record | Result, mini: FirstLayer, ids: Int[Tensor, " token"]) -> dict[str, dict[str, float]]:
    """Hold the rewriting to the transformers module: GPT-2 by its record, gpt2-mini on the sentence."""
    embedded, p = mini.tokens[ids], mini.positions[: len(ids)]
    errors = first_layer.equality(embedded, p, mini.weights, mini.ln)
    errors["map"] = first_layer.map_error(mini.positions, mini.weights)
    return {"gpt2-mini": errors, "GPT-2": {name: gpt2[f"error_{name}"] for name in errors}}
