"""The models of the case study, which come with the book and not with the library."""

from pathlib import Path

from analysis.models.checkpoints import ModelSpec

BUNDLED = Path(__file__).parents[1] / "bundled"
MODELS = {
    "variant-bert-mini": ModelSpec(
        "BERT classifier of spike genes, 12 layers, 12 heads, width 192, trained by this project",
        licence="MIT",
        command="python -m book train variant-bert-mini",
        bundle=BUNDLED,
    ),
    "variant-bert-base": ModelSpec(
        "the same at the size of BERT_BASE, 86 M parameters and its words; not distributed",
        licence="MIT",
        stand_in="variant-bert-mini",
        command="python -m book train variant-bert-base --device cuda",
        bundle=BUNDLED,
    ),
}
"""What is known of each by its name; `book/__init__.py` makes :func:`analysis.models.checkpoints.find` know it."""
