"""Texts to run models on."""
