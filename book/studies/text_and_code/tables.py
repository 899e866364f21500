"""Tables of the chapter on the paper and its code: frames whose index names the rows."""

from collections.abc import Mapping

import pandas as pd
from jaxtyping import Float
from numpy import ndarray

from book.studies.text_and_code.outputs import Sizes, Words

PRODUCTS = {"maps": "S", "outputs": "S V"}


def distances(of: Mapping[str, Mapping[str, Float[ndarray, "passage layer"]]]) -> pd.DataFrame:
    """Return how far the code's maps lie from the model's, by what differs (rows) and network (columns)."""
    columns = {
        network: {fault: float(values.mean()) for fault, values in faults.items()} for network, faults in of.items()
    }
    return pd.DataFrame(columns).rename_axis("what differs")


def counts(sizes: Sizes, words: Words) -> pd.DataFrame:
    """Return what the paper prints beside what the code computes, and how."""
    rows = {
        "training sequences": ("39,522", sizes.training, "without the validation part"),
        "validation sequences": ("", sizes.validation, "ceil(0.08 × 39,522)"),
        "test sequences": ("9,881", sizes.tested, "ceil(0.20 × 49,403)"),
        "updates": ("", sizes.updates, "2 floor(36,360 / 4)"),
        "words of a gene": ("", words.padded_words, f"{words.bare_words} without padding to a multiple of 12"),
        "tokens of a sequence": ("512", words.tokens, f"and {words.padding_rows} rows of padding"),
        "parameters": ("110 M", f"{words.parameters} M", f"of which {words.fresh} M start fresh"),
    }
    return pd.DataFrame.from_dict(rows, orient="index", columns=["paper", "code", "how"]).rename_axis("count")


def logits(by_class: Mapping[str, tuple[int, int, float, float]]) -> pd.DataFrame:
    """Return how many recorded sequences of each class are right, with 95 % intervals of the share."""
    rows = {
        name: (f"{right} of {count}", f"{100 * low:.1f} to {100 * high:.1f} %")
        for name, (right, count, low, high) in by_class.items()
    }
    return pd.DataFrame.from_dict(rows, orient="index", columns=["right", "95 % interval"]).rename_axis("class")


def ranks(of: Mapping[str, Mapping[str, tuple[int, int]]]) -> pd.DataFrame:
    """Return the lowest and the highest rank of each product, by source."""
    rows = {
        source: {f"rank of {PRODUCTS[name]}": f"{least} to {most}" for name, (least, most) in products.items()}
        for source, products in of.items()
    }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("source")
