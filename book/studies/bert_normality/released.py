"""The same measures as the released code takes them, and on the classifier that was trained for this book."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.stats import spearmanr

from analysis.models import checkpoints
from analysis.models.reading import load
from analysis.representations import anisotropy
from analysis.statistics.normality import critical_value
from book.publish import Inputs, Numbers, live_or_record
from book.studies.bert_normality.rows import DrawnText
from book.studies.shared import released_code
from book.studies.shared import released_code as code
from book.studies.shared.averages import by_layer
from book.studies.shared.released_code import MapEntropies

# ---- The same measures on the classifier of virus variants that was trained for this book, and on its control

NAMES = ("first_failing", "D_sum", "D_total", "cone", "cosine", "largest", "entropy")


@dataclass(frozen=True)
class Classifier:
    """Means over sequences (and heads) by layer, trained and control; and the critical value for its width."""

    trained: Mapping[str, Float[np.ndarray, " layer"]]
    control: Mapping[str, Float[np.ndarray, " layer"]]
    critical: float


def measure_classifier(inputs: Inputs) -> Classifier:
    """Read the record of the case study."""
    record, _ = live_or_record("variant-measures", inputs, recompute=False)
    width = load(checkpoints.find("variant-bert-mini")).width
    trained, control = (
        {name: by_layer(record.array(prefix + name)).astype(float) for name in NAMES} for prefix in ("", "control_")
    )
    return Classifier(trained, control, critical_value(width))


# ---- What the released code of the paper computes in this section's place: its cone index, its rows, its entropy

SHARP = ("directional", "open", "backward", "instance")


@dataclass(frozen=True)
class Released(Numbers):
    """The code's steps, on the drawn text, on ideal gates, and in the records of the page on the text and its code.

    ``index_error`` is how far the code's index is from n times the resultant length, relative. ``failing`` has the
    shares of rows that fail after BERT's first LayerNorm (``own``) and after the code's (``coded``), by layer, in
    MiniLM. ``gates`` and ``noise`` are entropies of maps whose answer is known, ``noise`` by the deviation of scores.
    ``value_rises`` are rank correlations with depth of the code's entropy in the variant classifier, by class;
    ``minimal_keys`` is the authors' record of how many keys hold 0.90 of a row, by layer, the median over heads.
    """

    prefix = "normality-code"
    closed: str
    faint: str
    tokens: int
    padding: int
    index_error: float
    failing: Mapping[str, Float[np.ndarray, " layer"]]
    gates: Mapping[str, MapEntropies]
    noise: Mapping[float, MapEntropies]
    value_rises: Float[np.ndarray, " class"]
    minimal_keys: Float[np.ndarray, " layer"]


def measure_released(text: DrawnText, inputs: Inputs) -> Released:
    """Take the code's steps where their answer is known, and read what they give on the models at hand."""
    minilm, classifier = (
        live_or_record(name, inputs, recompute=False)[0]
        for name in ("text-and-code-minilm", "text-and-code-classifier")
    )
    rows = text.states["trained"][1:].double()
    expected = rows.shape[1] * anisotropy.resultant_length(rows)
    gates, noise = released_code.measure_gates(), released_code.measure_noise()
    value = classifier.array("trained/mean_value_entropy").mean(2)
    return Released(
        closed=f"{gates['closed'].whole:.0f}",
        faint=f"{noise[min(noise)].whole:.1f}",
        tokens=code.TOKENS,
        padding=code.ROWS - code.TOKENS,
        index_error=float((code.cone_index(rows) / expected - 1).abs().max()),
        failing={
            kind: minilm.array(f"trained/{name}").mean(0)
            for kind, name in (("own", "failing"), ("coded", "code_failing"))
        },
        gates=gates,
        noise=noise,
        value_rises=np.array([spearmanr(range(len(each)), each).statistic for each in value]),
        minimal_keys=np.median(released_code.load_authors_outputs().minimal_keys, 1),
    )
