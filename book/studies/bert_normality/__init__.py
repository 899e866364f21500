"""The study behind the page bert-normality."""
