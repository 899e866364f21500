"""The book: its pages, the long computations behind them, what these share, and what publishes all."""

from analysis.models import checkpoints
from book.lab.models import MODELS

checkpoints.register(MODELS)  # the models that come with the book are found by name wherever it is imported
