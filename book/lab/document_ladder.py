"""A trained BERT and its ladder of controls on documents of four kinds: surveys, and what chapters read off them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from analysis.core.attention_layer import AttentionLayer
from analysis.models import checkpoints, extraction, pretrained
from analysis.models.controls import LARGE, PERMUTED, RANDOM, SEEDS, SHARP, make_controls
from analysis.models.reading import load
from analysis.plotting.ladder import Ladder
from analysis.statistics.intervals import Interval, mean_interval
from book.lab.documents import KINDS, load_documents
from book.publish.records import Record, Result

LADDER = (RANDOM, SHARP, LARGE, PERMUTED)
CONTROLS = " of controls"  # ends the name of an array that holds the controls
Arrays = dict[str, np.ndarray]


def survey_documents(
    measure: Callable[[torch.nn.Module, str, torch.nn.Module], Arrays],
    *,
    each: int | None = None,
    each_of_controls: int | None = None,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
    tolerance: float = 1e-3,
) -> Result:
    """Measure MiniLM on every document, and each of its controls in the mean over the same or fewer documents.

    ``measure`` is given a network, a text, and the trained network, whose biases a control can borrow.

    Returns
    -------
    Result
        Arrays ``(document, ...)`` of the trained network, and ``(level, seed, ...)`` of the controls, in the order of
        :data:`LADDER`; the names of the latter end in :data:`CONTROLS`.
    """
    checkpoint = checkpoints.find("minilm")

    def draw(seed: int | None) -> torch.nn.Module:
        return pretrained.load(checkpoint, control_seed=seed, dtype=dtype, device=device)

    trained = draw(None)
    arrays = _stack([measure(trained, document.text, trained) for document in load_documents(each=each)])
    fewer, means = [document.text for document in load_documents(each=each_of_controls)], []
    for control in make_controls(trained, draw, levels=LADDER):
        by_text = _stack([measure(control.network, text, trained) for text in fewer])
        means.append({name: values.mean(0) for name, values in by_text.items()})
    for name, values in _stack(means).items():
        arrays[name + CONTROLS] = values.reshape(len(SEEDS), len(LADDER), *values.shape[1:]).swapaxes(0, 1)
    return Result(
        {}, {name: values.astype(np.float32) for name, values in arrays.items()}, dict.fromkeys(arrays, tolerance)
    )


def _stack(measured: Sequence[Arrays]) -> Arrays:
    return {name: np.stack([one[name] for one in measured]) for name in measured[0]}


@dataclass(frozen=True)
class DocumentLadder:
    """One measure, by layer or whatever else stands last, of a trained network and of its controls."""

    documents: Float[np.ndarray, "document layer"]
    controls: Mapping[str, Float[np.ndarray, "seed layer"]]

    def __add__(self, other: "DocumentLadder") -> "DocumentLadder":
        """Return the ladder of the sum of two measures."""
        return DocumentLadder(
            self.documents + other.documents,
            {level: values + other.controls[level] for level, values in self.controls.items()},
        )

    @property
    def interval(self) -> Float[np.ndarray, "layer 3"]:
        """The trained network's mean over documents with Student's interval of them."""
        return np.array([mean_interval(values) for values in self.documents.T])

    @property
    def ladder(self) -> Ladder:
        """The same, to be drawn."""
        return Ladder(self.interval, self.controls)

    @property
    def by_kind(self) -> dict[str, Float[np.ndarray, " layer"]]:
        """The mean of each kind of document."""
        return dict(zip(KINDS, self.documents.reshape(len(KINDS), -1, self.documents.shape[1]).mean(1), strict=True))

    @property
    def whole(self) -> Interval:
        """The mean over layers, with its interval over documents."""
        return mean_interval(self.documents.mean(1))

    def range_of(self, level: str) -> tuple[float, float]:
        """Return the least and the largest mean over layers among a level's seeds."""
        means = self.controls[level].mean(1)
        return float(means.min()), float(means.max())


def survey_layers(
    measure_layer: Callable[[Tensor, AttentionLayer], Arrays],
    longest: int,
    *,
    each_of_controls: int,
    device: torch.device | str = "cpu",
    tolerance: float = 1e-3,
) -> Result:
    """Measure each attention layer on what it reads of every document: :func:`survey_documents`, stacked by layer."""
    tokenizer = pretrained.tokenizer(checkpoints.find("minilm"))

    def measure(network: torch.nn.Module, text: str, _: torch.nn.Module) -> Arrays:
        (states,) = extraction.hidden_states(network, tokenizer, [text], longest)
        return _stack([measure_layer(x, layer) for x, layer in zip(states, load(network).plain_layers())])

    return survey_documents(measure, each_of_controls=each_of_controls, device=device, tolerance=tolerance)


def read_ladder(result: Record | Result, name: str, *places: int) -> DocumentLadder:
    """Read one measure off a survey; ``places`` choose along axes behind the layers."""
    documents, controls = result.array(name), result.array(name + CONTROLS)
    chosen = (..., *places)
    return DocumentLadder(
        documents[chosen].astype(float),
        {level: values[chosen].astype(float) for level, values in zip(LADDER, controls, strict=True)},
    )
