"""The package ``analysis``: everything, on the rows that a layer reads, in float64."""

from importlib.metadata import PackageNotFoundError, version

import torch

from analysis import attend, fold_norm, fold_value_bias, load, score_terms, semi_bias
from analysis.transformer.attention import queries_and_keys
from attention_conformance.cases import Case, NotOffered


class Adapter:
    """Hands each layer to the functions of the package."""

    library = "analysis"
    computes_in = "float64"
    try:
        version = version("attention-taken-apart")
    except PackageNotFoundError:
        version = "of the working tree"

    def compute(self, case: Case) -> dict[str, torch.Tensor | NotOffered | None]:
        """Return all quantities of a layer."""
        layer = load(case.folder, stack=case.stack or None, dtype=torch.float64).layers[case.layer]
        x, folded = case.x, fold_norm(layer) if layer.norm() else layer
        ran, terms, values = attend(x, layer), score_terms(x, layer, x.mean(0)), x @ layer.W_V + layer.b_V[:, None]
        found = dict(zip(("queries", "keys"), queries_and_keys(x, layer), strict=True)) | vars(terms)
        found |= {"scores": ran.scores, "attention": ran.attention, "output": ran.output}
        found["weighted_values"] = ran.attention @ layer.per_head(values, -3)
        if layer.sinks is None:
            found["folded_b_O"] = fold_value_bias(layer).b_O
        found["folded_W"] = torch.cat([folded.W_Q, folded.W_K, folded.W_V])
        found["folded_b"] = torch.cat([folded.b_Q, folded.b_K, folded.b_V])
        if case.position_rows is not None:
            refused = NotOffered(f"semi_bias_by_position: {'; '.join(layer.reasons())}") if layer.reasons() else None
            found["semi_bias_by_position"] = refused or semi_bias(case.position_rows, folded)
        return found
