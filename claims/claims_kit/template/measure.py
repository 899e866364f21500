"""What the claims need to be measured; it knows nothing of verdicts."""

import random
import statistics


def deviation(n: int, repeats: int = 2000) -> float:
    """Return the standard deviation of the mean of ``n`` standard normal draws."""
    draw = random.Random(0).gauss
    return statistics.pstdev(statistics.fmean(draw(0, 1) for _ in range(n)) for _ in range(repeats))
