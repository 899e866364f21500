"""What the released code of the paper computes in this section's place: its cone index, its rows, its entropy."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.stats import spearmanr

from analysis.representations import anisotropy
from book.publish import Inputs, Numbers, live_or_record
from book.studies.bert_normality.drawn import DrawnText
from book.studies.shared import authors_outputs, map_entropies
from book.studies.shared import released_code as code
from book.studies.shared.map_entropies import MapEntropies

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
    gates, noise = map_entropies.measure_gates(), map_entropies.measure_noise()
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
        minimal_keys=np.median(authors_outputs.load().minimal_keys, 1),
    )
