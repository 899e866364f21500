"""Experiments: what is recorded because it needs a model, a GPU or minutes."""
