"""The study of the atlas: every head of MiniLM and gpt2-mini on a few sentences."""

from book.studies.atlas.shown import Overview, overview

__all__ = ["Overview", "overview"]
