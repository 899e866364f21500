"""The book: its pages, the long computations behind them, what these share, and what publishes all."""

import sys
from pathlib import Path

from analysis.models import checkpoints
from book.lab.models import MODELS

checkpoints.register(MODELS)  # the models that come with the book are found by name wherever it is imported

# The kit of the ledger lies beside the book, which finds it there: it need not be installed.
sys.path.append(str(Path(__file__).parents[1] / "claims"))
