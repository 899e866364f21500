"""Texts to run models on."""

from analysis.data.texts import corpus as corpus, passages as passages
