"""Long computations, each kept as a record: a file defines ``EXPERIMENT``, or several in ``EXPERIMENTS``."""
