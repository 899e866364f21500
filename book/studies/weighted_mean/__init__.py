"""The study behind the page weighted-mean."""
