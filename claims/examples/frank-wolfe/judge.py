"""The verdicts. A threshold without a comment lies between two sides that differ by far."""

# %%
import math

from measure import (
    EVEN,
    NEAR,
    SEEDS,
    STEP,
    collapse,
    contraction,
    corners_and_inner,
    draws,
    energy_times_t,
    halved_step,
    limit_gap,
    moving_corners,
    paths,
    same_target,
    semidefinite_heads,
    slowest,
    soft_from_hard,
    stay,
)

from claims_kit import judge

seeds = range(SEEDS)

# %%
gap = limit_gap()
same = {name: same_target(name) for name in ("gpt2-mini", "minilm")}
one_sign = sum(semidefinite_heads(name) for name in ("gpt2-first-layer", "gpt2-mini", "minilm"))
judge(
    "F-1",
    "conditional",
    f"It is for a symmetric matrix; trained heads choose the token that their symmetric part chooses for "
    f"{min(same.values()):.0%} to {max(same.values()):.0%} of tokens.",
    more=f"Of all heads of GPT-2's first layer, a small GPT-2 and MiniLM {one_sign} have a symmetric part that is "
    "semidefinite, which both cases of the abstract need: eigenvalues of both signs are equally many.",
    when=lambda gap, same, one_sign: gap < 1e-9 and max(same.values()) < 0.5 and one_sign == 0,
    turned_by={"gap": 1e-3, "same": {"gpt2-mini": 1.0, "minilm": 1.0}, "one_sign": 1},
)

# %%
factors, sizes, centres = zip(*(contraction(seed) for seed in seeds), strict=True)
judge(
    "F-2",
    "reproduced",
    f"In every draw each step leaves {factors[0]:.2f} of the diameter, which is one minus the step; at the end it is "
    f"{max(sizes):.0e} of the first.",
    when=lambda factors, sizes: max(abs(f - (1 - STEP)) for f in factors) < 1e-6 and max(sizes) < 1e-5,
    turned_by={"factors": [0.9], "sizes": [0.1]},
)
judge(
    "F-3",
    "corrected",
    f"The cluster is at {min(centres):.1g} to {max(centres):.1g} first diameters from the origin, at least "
    f"{min(centres) / max(sizes):.0f} times its own diameter, when it no longer moves.",
    more="On the hull of the first tokens, which holds the origin, they do come to it, but then not linearly. For "
    "the softmax the version at ICML speaks of some point within the initial convex hull.",
    when=lambda centres, sizes: min(centres) > 100 * max(sizes),
    turned_by={"centres": [1e-7], "sizes": [0.1]},
)

# %%
fixed, moving = ([energy_times_t(seed, shrinks) for seed in seeds] for shrinks in (False, True))
fixed_growth, moving_growth = (max(late / early for early, late in runs) for runs in (fixed, moving))
judge(
    "F-4",
    "conditional",
    f"On the hull of the first tokens t times the energy falls; on that of the moving ones it grows "
    f"{moving_growth:.0f} fold while t grows tenfold.",
    more="There the energy levels off above its least value in the first hull, which holds the origin in every draw.",
    when=lambda fixed_growth, moving_growth: fixed_growth <= 1 and moving_growth > 5,
    turned_by={"fixed_growth": 1.1, "moving_growth": 1.0},
)

# %%
equal, unequal = ([moving_corners(seed, alike) for seed in seeds] for alike in (True, False))
judge(
    "F-5",
    "conditional",
    f"Corners of equal length in the matrix's norm stay; of unequal length {min(unequal):.0%} to {max(unequal):.0%} of "
    "the corners move to a longer one.",
    when=lambda equal, unequal: max(equal) == 0 and min(unequal) > 0.25,
    turned_by={"equal": [0.1], "unequal": [0.0]},
)

# %%
changed, off = map(max, zip(*(paths(corners_and_inner(seed), EVEN) for seed in seeds), strict=True))
changed_unequal, off_unequal = map(max, zip(*(paths(draws(seed, width=2), EVEN) for seed in seeds), strict=True))
judge(
    "F-6",
    "conditional",
    f"With equal corners every token keeps its target and its line; with normal tokens up to {changed_unequal:.0%} "
    "change their target.",
    when=lambda changed, off, changed_unequal: changed == 0 and off < 1e-12 and changed_unequal > 0.1,
    turned_by={"changed": 0.05, "off": 1e-3, "changed_unequal": 0.0},
)
steady, shrinking = (max(slowest(seed, shrinks) for seed in seeds) for shrinks in (False, True))
judge(
    "F-7",
    "reproduced",
    f"Steps of one size leave {steady:.2f} of the distance each; of steps that shrink as 1/t the last leave "
    f"{shrinking:.2f}, and later ones more.",
    when=lambda steady, shrinking: abs(steady - (1 - STEP)) < 1e-6 and shrinking > 0.95,
    turned_by={"steady": 0.9, "shrinking": 0.8},
)

# %%
runs = {beta: [stay(beta, seed) for seed in range(3)] for beta in (9, 10, 11)}
arrival = max(arrived for run in runs.values() for arrived, _ in run)
rates = [math.log(last[1] / first[1]) / 2 for first, last in zip(runs[9], runs[11], strict=True)]
judge(
    "F-8",
    "reproduced",
    f"All tokens are near after {arrival} steps at most; the time that they stay grows as exp of {min(rates):.2f} to "
    f"{max(rates):.2f} times beta.",
    more="A corner scores itself by 1.5 more than it scores another, which is the exponent that a softmax suggests. "
    "We ran the softmax itself, three starts, and not the paper's chain of random choices.",
    when=lambda arrival, rates: arrival <= 25 and all(abs(rate - 1.5) < 0.3 for rate in rates),
    turned_by={"arrival": 200, "rates": [0.5]},
)

# %%
widths, places = zip(*(collapse(6, seed) for seed in seeds), strict=True)
judge(
    "F-9",
    "corrected",
    f"The tokens meet at {min(places):.2f} to {max(places):.2f} from the origin, where corners are at 1.",
    more="Both versions agree that they meet. That it is at some point of the hull is what the version at ICML says.",
    when=lambda widths, places: max(widths) < 1e-9 and min(places) > 0.05,
    turned_by={"widths": [0.1], "places": [0.0]},
)

# %%
apart = {beta: max(soft_from_hard(beta, seed, steps=1000) for seed in range(3)) for beta in (6, 10)}
judge(
    "F-10",
    "reproduced",
    f"After 1000 steps the median token is {apart[10]:.2f} away from where the hard rule has it at beta 10, and "
    f"{apart[6]:.2f} at 6, where none stays.",
    when=lambda apart: apart[10] < NEAR < apart[6],
    turned_by={"apart": {6: 1.0, 10: 0.5}},
)

# %%
halvings = [halved_step(0.05, seed) / halved_step(0.1, seed) for seed in seeds]
judge(
    "F-11",
    "not testable",
    f"A computation cannot prove it; halving the steps leaves {max(halvings):.2f} of the difference that halving made "
    "before, as it does where there is a limit.",
    when=lambda halvings: all(0.4 < ratio < 0.6 for ratio in halvings),
    turned_by={"halvings": [1.0]},
)
