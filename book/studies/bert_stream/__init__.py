"""The study behind the page bert-stream."""
