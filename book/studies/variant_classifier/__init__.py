"""The study behind the page variant-classifier."""
