"""What a census counts on maps: see :mod:`book.lab.map_counts`, which this hands on until all import it from there."""

from book.lab.map_counts import *  # noqa: F403
