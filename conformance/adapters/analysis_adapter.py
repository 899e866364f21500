"""The package ``analysis``: every quantity of every case."""

import torch
from attention_conformance import Case

import analysis


class Analysis:
    """Reads a layer from the files, and computes from the rows that it reads."""

    library, version, dtype, notes = "analysis", analysis.__version__, torch.float64, {}

    def layers(self, case: Case):
        """Return the quantities of each layer."""
        model = analysis.load(case.folder, dtype=torch.float64)
        return [self.quantities(layer, case.layer(n), model.positions) for n, layer in enumerate(model.layers)]

    def quantities(self, layer, known, table):
        """Return what `analysis` says of a layer that reads these rows."""
        rows = known["rows"]
        queries, keys = analysis.queries_and_keys(rows, layer)
        terms, attended = analysis.score_terms(rows, layer), analysis.attend(rows, layer)
        square = (layer.heads, len(rows), len(rows))
        parts = {"content": terms.content, "semi-bias": terms.semi_bias, "query side": terms.query_side}
        parts |= {"kernel": terms.kernel, "position bias": terms.positions}
        found = {name: part.expand(square) for name, part in parts.items() if part is not None}
        found |= {"queries": queries, "keys": keys, "scores": attended.scores}
        found |= {"attention": attended.attention, "output": attended.output}
        if layer.sinks is None:
            found["value bias folded"] = analysis.fold_value_bias(layer).b_O
        if layer.norm():
            folded = analysis.fold_norm(layer)
            found |= {"norm folded into W_Q": folded.W_Q, "norm folded into b_Q": folded.b_Q}
        if "semi-bias of positions" in known:
            found["semi-bias of positions"] = analysis.semi_bias(table[:6].double(), layer)
        return found
