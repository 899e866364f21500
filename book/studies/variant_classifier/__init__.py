"""Figures that another page still draws with."""
