"""A report on a model: one page of HTML and the same numbers as JSON, for any family that the adapter reads."""
