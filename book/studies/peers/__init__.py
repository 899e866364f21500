"""This package beside its peers: the recorded seconds, memory and agreement."""

from book.studies.peers import tables
from book.studies.peers.measure import measure

__all__ = ["measure", "tables"]
