"""Long computations, one file a record: each defines ``EXPERIMENT``, or several in ``EXPERIMENTS``."""
