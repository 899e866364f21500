"""Normality (Lilliefors), intervals, correlations, and sums that do not depend on the order of the terms."""
