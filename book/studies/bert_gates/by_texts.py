"""What columns, the first token and compositions weigh on each set of texts that the chapter reads, side by side."""

import math
from typing import TYPE_CHECKING

import pandas as pd

from analysis.maps.gates import GATES
from book.studies.bert_gates import bias_exchange, ladder, query_bias

if TYPE_CHECKING:
    from book.studies.bert_gates.measure import Measured

COLUMNS = ("columns", "on the first token", "maps with a pattern", "with two or more")


def by_texts(m: "Measured") -> pd.DataFrame:
    """Return, for each set of texts, shares in per cent of the attention and of the maps; nan where none was counted.

    The documents of four kinds are read by the book's own model, whatever model and texts a reader chooses.
    """
    census, trained = m.census_numbers, m.census.trained
    words = bias_exchange.WORDS if m.inputs.departs else query_bias.WORDS
    exchanged = m.exchange.columns["columns_own"]
    counted = [trained.ratios[name].value for name in ("attention_first", "patterned", "composed")]
    rows = {
        f"{census.texts} passages, {census.shortest} to {census.longest} tokens": [
            float(trained.by_text[:, GATES.index("directional")].mean()),
            *counted,
        ]
    }
    rows |= {
        f"of these, those of {span} tokens": [mean.value]
        for span, mean in zip(m.census.spans, m.census.by_length["directional"], strict=False)
    }
    rows[f"{exchanged.texts} passages of at most {words} words"] = [exchanged.value]
    documents = len(m.rungs["columns"].documents)
    rows[f"{documents} documents of four kinds, cut at {ladder.LONGEST} tokens"] = [
        m.rungs["columns"].whole.value,
        m.carried["as trained"].whole.value,
        m.rungs["maps with a pattern"].whole.value,
        m.rungs["maps with two or more"].whole.value,
    ]
    filled = [[100 * value for value in row] + [math.nan] * (len(COLUMNS) - len(row)) for row in rows.values()]
    return pd.DataFrame(filled, pd.Index(rows, name="texts"), COLUMNS)
