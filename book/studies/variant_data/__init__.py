"""The study behind the page variant-data."""
