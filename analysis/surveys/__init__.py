"""Whole models measured on data, where mathematics meets models; the form of a result in a file."""
