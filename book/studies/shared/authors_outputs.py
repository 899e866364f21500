"""The numbers that were read off the authors' recorded outputs, from ``authors_outputs.yml`` beside this module."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import yaml
from jaxtyping import Float

PATH = Path(__file__).with_name("authors_outputs.yml")


@dataclass(frozen=True)
class AuthorsOutputs:
    """What the recorded outputs show; the file names commit and cell of each.

    ``minimal_keys`` are medians over rows, ``singular_values`` how many sequences have how many of them.
    """

    start: str
    batch: int
    epochs: int
    rate: float
    warmup_share: float
    rows: int
    claimed_f1: float
    minimal_keys: Float[np.ndarray, "layer head"]
    minimal_key_sequences: int
    lowest_cone: float
    cone_sequences: int
    in_highest_bin: int
    singular_values: dict[int, int]
    top_count: int
    plateaus: tuple[int, ...]


@cache
def load(path: Path = PATH) -> AuthorsOutputs:
    """Read the file."""
    entries = yaml.safe_load(path.read_text(encoding="utf-8"))
    settings, keys, cone = (entries[name] for name in ("settings", "minimal_keys", "softmax_cone"))
    return AuthorsOutputs(
        **{name: settings[name] for name in ("start", "batch", "epochs", "rate", "warmup_share", "rows")},
        claimed_f1=entries["claimed_f1"]["value"],
        minimal_keys=np.array(keys["medians"], float),
        minimal_key_sequences=keys["sequences"],
        lowest_cone=cone["lowest"],
        cone_sequences=cone["sequences"],
        in_highest_bin=cone["in_highest_bin"],
        singular_values=entries["singular_values"]["counts"],
        top_count=entries["word_counts"]["top"],
        plateaus=tuple(entries["word_counts"]["plateaus"]),
    )
