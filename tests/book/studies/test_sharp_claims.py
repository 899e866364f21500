"""Claims about gates and about the semi-bias exactly on their limits: on a limit is not beyond it."""

import pytest

from book.studies.bert_gates.claims import formulas, maps
from book.studies.semi_bias import claims
from tests.book.studies import counterfeits
from tests.book.studies.measurements import measurement
from tests.book.studies.test_claims import functions

MODULES = {"bert_gates": (formulas, maps), "semi_bias": (claims,)}
MAY_BE_MET = {("B-71", 1), ("B-71", 2), ("B-111", 3)}  # what lies off a pattern may be as much as its bound
IN_ROUNDING = {("B-41", 3), ("B-41", 4)}  # a mean of numbers on the limit may round to either side
COUNTS = {("B-38", 0), ("B-47", 1), ("B-52", 0), ("B-52", 1), ("B-57", 0)}  # nothing lies between two whole numbers
CASES = [
    (name, claim_id, place)
    for name in MODULES
    for claim_id, limits in counterfeits.limits_of_study(name).items()
    for place in range(len(limits))
    if (claim_id, place) not in IN_ROUNDING | COUNTS and not isinstance(limits[place][2], list)
]


@pytest.mark.parametrize(("name", "claim_id", "place"), CASES)
def test_a_limit_itself_is_not_beyond_the_limit(name, claim_id, place):
    measured, function = measurement(name), functions(name)[claim_id]
    path, index, limit, *_ = counterfeits.limits_of_study(name)[claim_id][place]
    limit = limit(measured) if callable(limit) else limit
    on_it = counterfeits.forge(measured, {path: limit if index is None else counterfeits.put(index, limit)})
    assert bool(function(on_it).holds) is ((claim_id, place) in MAY_BE_MET)


def forged_mass(reach, few, many):
    """Return the chapter's measurement with seven of twelve heads that put little on the nearest keys, or much."""
    measured = measurement("semi_bias")
    mass = measured.locality.mass.copy()
    mass[1, reach, 0] = [few] * 7 + [many] * 5
    return counterfeits.forge(measured, {"locality.mass": mass})


def test_the_nearest_keys_are_judged_by_the_median_head():
    """A few heads that are much more local, or much less, do not turn a verdict; means would."""
    uniform = measurement("semi_bias").locality.uniform[1]
    later, alone = claims.later_keys_score_higher, claims.semi_bias_alone_joins_no_pieces
    assert later(forged_mass(1, 2.1 * uniform, 0)).holds
    assert not later(forged_mass(1, 1.9 * uniform, 1)).holds
    assert alone(forged_mass(0, 0.09, 1)).holds
    assert not alone(forged_mass(0, 0.11, 0)).holds


def test_every_claim_is_a_function_of_these_modules():
    for name, modules in MODULES.items():
        assert {function.__module__ for function in functions(name).values()} == {each.__name__ for each in modules}
