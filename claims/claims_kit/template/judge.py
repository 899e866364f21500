"""The verdicts, each under a condition on what was measured; each counterfeit in turned_by must make it false."""

# %%
from measure import deviation

from claims_kit import judge

# %%
at_100, at_200 = deviation(100), deviation(200)
expected = 1 / 100**0.5

# %%
judge(
    "C-1",
    "reproduced",
    f"With 100 draws it is {at_100:.3f}, and {expected:.3f} is expected.",
    when=lambda at_100, expected: abs(at_100 / expected - 1) < 0.05,  # three times the error of 2000 repeats
    turned_by={"at_100": 0.2},
)

# %%
judge(
    "C-2",
    "corrected",
    f"With twice the draws it is {at_200 / at_100:.2f} times as large, which is one over the root of two.",
    when=lambda at_100, at_200: abs(at_200 / at_100 - 0.5**0.5) < 0.05 and abs(at_200 / at_100 - 0.5) > 0.15,
    turned_by={"at_200": 0.05},
)
