"""The study behind the page bert-gates."""
