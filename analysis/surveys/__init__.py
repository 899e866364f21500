"""Whole models measured on data, where mathematics meets models."""
