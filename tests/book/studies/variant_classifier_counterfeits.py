"""Counterfeits of the measurement of the chapter on the variant classifier."""

import numpy as np

from analysis.maps.gates import GATES
from analysis.statistics.intervals import Interval


def with_one_head_of_values_as_in_the_paper(over_random):
    grown = over_random.copy()
    grown[2, 1, 4, 7] = 1.4
    return grown


def with_the_head_of_the_paper_ahead(head):
    return head._replace(ranks=(74, 14, 37))


def with_one_open_head(by_seed):
    opened = by_seed.copy()
    opened[2, 6, 2, GATES.index("open")] = 0.06
    return opened


def with_mostly_mixed_clusters(mixtures):
    first, *others = mixtures
    return first._replace(company=Interval(0.7, 0.55, 0.85)), *others


def with_one_control_that_rises(rise):
    return rise._replace(factor=(*rise.factor[:2], Interval(1.6, 1.5, 1.7)))


COUNTERFEITS = {
    "B-08": {"authors.recipe.steps": 19_761},
    "B-10": {"head.logits": 2e-4},
    "B-12": {"weights.over_random.trained": with_one_head_of_values_as_in_the_paper},
    "B-42": {"gates.heads.directional": with_the_head_of_the_paper_ahead},
    "B-46": {"gates.by_seed": with_one_open_head},
    "B-58": {"gates.mixtures": with_mostly_mixed_clusters},
    "B-77": {"table.first_layers.difference": np.full(3, 0.01)},
    "B-83": {"depth.rises.largest.control": with_one_control_that_rises},
}
