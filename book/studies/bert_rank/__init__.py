"""The study behind the page bert-rank."""
