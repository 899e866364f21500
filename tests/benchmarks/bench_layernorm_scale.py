"""Mean and percentiles of 1/sigma over all pairs of a token and a position, against position by position."""

import torch

from analysis.transformer.layernorm import sigma
from analysis.transformer.layernorm_scale import inverse_sigma
from tests.benchmarks.machine import FLOAT, fresh_interpreter, probes, race

TOKENS, POSITIONS, MODEL = 50257, 1024, 768


def test_the_pairs_are_never_formed(say, at_least):
    """It is many times faster than forming all sums; one position in 1,024 tells how long those take."""
    generator = torch.Generator().manual_seed(0)
    tokens, positions = (torch.randn(n, MODEL, generator=generator) for n in (TOKENS, POSITIONS))

    def one_position():
        (1 / sigma(tokens + positions[0])).quantile(torch.tensor([0.05, 0.5, 0.95]))

    found = race({"ours": lambda: inverse_sigma(tokens, positions), "one": one_position, **probes()}, rounds=3)
    over_limit = found.over_limit("ours", multiply_adds=TOKENS * POSITIONS * MODEL)
    say(
        f"mean and percentiles of 1/sigma, {TOKENS:,} x {POSITIONS:,}: {found.least('ours'):.1f} s, {over_limit:.1f} "
        f"times this machine's limit ({found.machine()}); position by position {found.least('one') * POSITIONS:.0f} s"
    )
    at_least("1/sigma of all pairs: position by position / ours", found.ratio("one", "ours") * POSITIONS)


def test_the_memory_is_that_of_the_tables(say):
    """It needs less memory than twice the two tables, these included."""
    added = fresh_interpreter(f"""
        import torch
        from analysis.transformer.layernorm_scale import inverse_sigma
        tokens, positions = (torch.randn(n, {MODEL}) for n in ({TOKENS}, {POSITIONS}))
        torch.mm(tokens[:64], tokens[:64].T)
        before = peak()
        inverse_sigma(tokens, positions)
        print(peak() - before)
    """)
    tables = FLOAT * MODEL * (TOKENS + POSITIONS) / 2**20
    say(f"1/sigma of all pairs: {added:.0f} MB beyond the tables of {tables:.0f} MB")
    assert added + tables <= 350
