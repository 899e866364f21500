"""The study behind the page streaming-capture."""
