"""Rows of the residual stream: anisotropy, normality, rank collapse, layer by layer."""
