"""Tables of the chapter on the induction head: frames whose index names the rows."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from torch import Tensor

from analysis.transformer.induction import required_sharpness
from book.studies.induction_head import readings, walkthrough
from book.studies.induction_head.readings import Reading
from book.studies.induction_head.trained import Run, Trained

VOCAB = len(walkthrough.VOCABULARY)
CHOICES = {
    "scores": "scores",
    "shown": "scores shown",
    "normaliser": "softmax over",
    "empty": "an empty row gets",
    "weak": "weights of at most one half",
    "summed": "output sums over",
    "gain": "gain of V_2",
    "rounding": "tables rounded to",
    "attention": "attention",
}  # by field of a reading
CLOSE = 0.01  # a weight that differs by less counts as that of the closed form


def departures(of: Sequence[Reading]) -> pd.DataFrame:
    """Return what each reading changes in the equations taken at their word."""
    return pd.DataFrame({"departures": [_choices(reading) for reading in of]}, index=_numbered(of))


def nearest(of: Mapping[int, Reading], counted: Mapping[Reading, int]) -> pd.DataFrame:
    """Return, for each number of departures, a reading with the fewest differing cells, and how many they are."""
    rows = [(counted[reading], _choices(reading)) for reading in of.values()]
    return pd.DataFrame(rows, index=pd.Index(of, name="departures"), columns=["cells that differ", "reading"])


def outputs(of: Sequence[Reading], tokens: Int[Tensor, " position"]) -> pd.DataFrame:
    """Return what the rows from 1 on write of the first three tokens, by reading."""
    written = [readings.tables(tokens, VOCAB, reading)["output 2"][1:, :3].int().tolist() for reading in of]
    names = [f"row {row + 1}, {walkthrough.VOCABULARY[token]}" for row, token in enumerate(tokens[1:].tolist())]
    return pd.DataFrame(
        [[" ".join(map(str, row)) for row in rows] for rows in written], index=_numbered(of), columns=names
    )


def sharpness(differences: Mapping[int, Float[np.ndarray, " sharpness"]]) -> pd.DataFrame:
    """Return by number of keys the sharpness for half of the weight, and how near the whole head is to the form."""
    rows = {}
    for keys, gaps in differences.items():
        largest = [float(max(gaps[beta:])) for beta in range(len(gaps))]
        rows[f"{keys:,}"] = (
            required_sharpness(0.5, keys),
            f"{largest[0]:.3f}",
            next(beta for beta, gap in enumerate(largest) if gap < CLOSE),
        )
    columns = ["β for half of the weight", "largest difference", f"β from which it is below {CLOSE}"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns).rename_axis("keys")


def runs(of: Mapping[str, Run]) -> pd.DataFrame:
    """Return the end of each training run."""
    rows = {}
    for name, run in sorted(of.items(), key=_single_layer_last):
        rows[name] = (
            f"step {run.formed}" if run.formed >= 0 else "never",
            run.repeated,
            run.new,
            run.prefix,
            run.copying,
            ", ".join(f"{share:.2f}" for share in run.looking_back),
        )
    return pd.DataFrame.from_dict(
        rows,
        orient="index",
        columns=[
            "induction head formed",
            "loss on repeats",
            "loss on new tokens",
            "prefix matching",
            "copying",
            "attention to the previous token",
        ],
    ).rename_axis("run")


def _single_layer_last(item: tuple[str, Run]) -> tuple[bool, str]:
    return not item[0].startswith("seed"), item[0]


def circuits(
    trained: Trained, diagonal: Sequence[float], copies: Sequence[float], together: Sequence[float]
) -> pd.DataFrame:
    """Return the shares of rows and tokens in which a circuit does what the built one does; pairs: trained, control."""
    rows = {
        f"A_1: largest score one step back, {name}": tuple(shares) for name, shares in trained.circuits.one_back.items()
    }
    for what, (of_model, of_control) in {
        "A_2: largest score on the diagonal": diagonal,
        "V_2: own logit raised most": copies,
        "V_2: the same, all four heads": together,
    }.items():
        rows[what] = (of_model, None, of_control)
    return (
        pd.DataFrame.from_dict(rows, orient="index", columns=["trained", "second head", "control"])
        .astype(float)
        .rename_axis("circuit")
    )


def hidden(trained: Trained) -> pd.DataFrame:
    """Return prefix matching of the best head with what layer 0 wrote hidden from a part of layer 1."""
    of = trained.circuits.hidden
    return pd.DataFrame({"prefix matching": list(of.values())}, index=pd.Index(of, name="hidden from"))


def _choices(reading: Reading) -> str:
    return "; ".join(f"{CHOICES[name]}: {choice}" for name, choice in reading.departures().items()) or "none"


def _numbered(of: Sequence[Reading]) -> pd.Index:
    return pd.Index([f"reading {number}" for number in range(1, len(of) + 1)], name="choice")
