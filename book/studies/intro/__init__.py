"""The study of the first page: one sentence in gpt2-mini, as the page shows it before a reader types another."""

from book.studies.intro.sentence import Sentence, measure

__all__ = ["Sentence", "measure"]
