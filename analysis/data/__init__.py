"""Texts and nucleotide sequences."""
