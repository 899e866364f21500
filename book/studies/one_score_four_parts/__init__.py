"""The study behind the page one-score-four-parts."""
