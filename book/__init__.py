"""The book: its pages, the studies behind them (``book.studies``) and what publishes both (``book.publish``)."""

from analysis.models import checkpoints
from book.lab.models import MODELS

checkpoints.register(MODELS)  # the models that come with the book are found by name wherever it is imported
