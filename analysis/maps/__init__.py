"""Attention maps: entropy, distance, locality, gates, what their divergence is due to, statistics in one pass."""
