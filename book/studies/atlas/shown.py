"""What the atlas shows at first, and on paper: all heads of MiniLM on one sentence."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from analysis.maps.gates import GATES
from analysis.plotting import style
from book.publish.records import Record, Result


@dataclass(frozen=True)
class Overview:
    """Every head's weights on the first sentence."""

    weights: Float[np.ndarray, "layer head query key"]

    def start(self) -> dict[str, str | int | list[str]]:
        """Return what the viewer opens at first, and the colours of the gates."""
        return {"model": "minilm", "sentence": 0, "layer": 2, "head": 9, "colours": [style.GATES[g] for g in GATES]}


def overview(record: Record | Result, model: str = "minilm") -> Overview:
    """Take the weights of the first sentence out of the record, its own length only."""
    weights = (record.array(f"{model}_weights")[0].astype(float) / 255) ** 2
    length = int((weights[0, 0].sum(-1) > 0).sum())
    return Overview(weights[..., :length, :length])
