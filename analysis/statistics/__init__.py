"""Normality (Lilliefors), intervals, correlations, and sums that do not depend on the order of the terms."""

from analysis.statistics.correlation import (
    partial_rank_correlation as partial_rank_correlation,
    rank_correlation as rank_correlation,
)
from analysis.statistics.intervals import (
    Interval as Interval,
    grouped_share_interval as grouped_share_interval,
    mean_interval as mean_interval,
    share_interval as share_interval,
)
from analysis.statistics.normality import (
    critical_value as critical_value,
    excess_kurtosis as excess_kurtosis,
    lilliefors as lilliefors,
    outlier_dimensions as outlier_dimensions,
)
