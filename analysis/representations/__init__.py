"""Rows of the residual stream: anisotropy, rank collapse, layer by layer."""
