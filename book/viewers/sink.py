"""The viewer of the sink: what one row of one map gives each token, and what arrives from there."""

import json

from matplotlib.figure import Figure

from analysis.plotting import style
from book.publish.records import Record

START = {"way": "out", "amount": 100}  # all of the weight is left out


@style.in_style
def draw(record: Record) -> Figure:
    """Draw what one query gives each token, and beside it the length of what arrives from there."""
    weights, lengths = record.array("weights"), record.array("lengths")
    tokens, query = json.loads(record["tokens"]), record["query"]
    figure, panels = style.new(1, 2, sharey=True)
    colours = [style.COLOURS["highlight"]] + [style.COLOURS["trained"]] * (len(tokens) - 1)
    titles = f"the weight that '{query}' gives", "what arrives from there"
    for panel, values, title in zip(panels, (weights, weights * lengths), titles, strict=True):
        panel.barh(range(len(tokens)), values, color=colours)
        panel.set(title=title, xlim=(0, None))
    panels[0].set_yticks(range(len(tokens)), tokens)
    panels[0].invert_yaxis()
    panels[0].set(xlabel="share of the row")
    panels[1].set(xlabel="length, weighted")
    return figure
