"""A report on a model: one page of HTML and the same numbers as JSON, for any family that the adapter reads.

What belongs here: what a report measures, its figures, its sentences, its page. What does not: the measures themselves,
which are those of the rest of the package.
"""
