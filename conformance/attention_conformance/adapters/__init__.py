"""Adapters of some libraries; each imports its own library and is at most 40 lines long."""
