"""The study behind the page induction-head."""
