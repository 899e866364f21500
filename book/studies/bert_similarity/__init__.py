"""The study behind the page bert-similarity."""
