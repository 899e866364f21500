"""Claims about gates and about the semi-bias exactly on their limits: on a limit is not beyond it."""

from types import SimpleNamespace

import numpy as np
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


@pytest.mark.parametrize(
    "claim_of", [formulas.entries_are_0_and_1_in_the_limit, formulas.softmax_whitens_as_scores_grow]
)
def test_what_lies_off_a_pattern_may_exceed_its_bound_by_rounding(claim_of):
    measured = measurement("bert_gates")
    bound = measured.ideal.softmax.bounds[2]

    def off(much):
        change = {"ideal.softmax.off_pattern": counterfeits.put(2, much)}
        bounds = {"ideal.softmax.bounds": counterfeits.put(2, 0.001)}
        return claim_of(counterfeits.forge(counterfeits.forge(measured, bounds), change)).holds

    assert bound > 0.01
    assert off(0.001 + 0.5e-12)
    assert off(0.001 + formulas.EXACT)
    assert not off(0.001 + 2e-12)


def test_the_printed_cluster_must_be_there_and_be_wrong():
    measured = measurement("bert_gates")
    none = {"ideal.printed.against_rules.cluster": 0, "ideal.printed.gates.cluster": 0}
    one = {"ideal.printed.against_rules.cluster": 1, "ideal.printed.gates.cluster": 1}
    assert not formulas.entries_follow_the_rules(counterfeits.forge(measured, none)).holds
    assert formulas.entries_follow_the_rules(counterfeits.forge(measured, one)).holds


@pytest.mark.parametrize("gone", ["closed_heads", "others_in_first_layer"])
def test_without_closed_heads_or_others_there_is_nothing_to_compare(gone):
    forged = counterfeits.forge(measurement("bert_gates"), {f"ablation.{gone}": 0})
    assert not maps.closed_heads_are_not_idle(forged).decided
    assert maps.closed_heads_are_not_idle(measurement("bert_gates")).decided


def test_points_are_told_with_the_most_of_any_control():
    measured = measurement("bert_gates")
    changes = {
        f"nearest.control_ratios.{rung}.points_a_map": np.array([0.1, 0.2 + k, 0.3])
        for k, rung in enumerate(measured.nearest.control_ratios)
    }
    most = len(changes) - 1 + 0.2
    assert (
        f"at most {most:.2f} in a control"
        in maps.points_are_of_little_weight_and_rare(counterfeits.forge(measured, changes)).more
    )


def test_one_seed_of_one_rung_with_compositions_is_one_too_many():
    """In the other seeds and rungs no map is composed."""
    measured = measurement("bert_gates")
    controls = measured.rungs["maps with two or more"].controls
    seeds, layers = next(iter(controls.values())).shape
    for chosen in controls:
        for seed in (0, seeds - 1):
            shares = {rung: np.zeros((seeds, layers)) for rung in controls}
            shares[chosen][seed] = 0.6
            forged = counterfeits.forge(measured, {"rungs.measures.maps with two or more.controls": shares})
            assert not maps.most_maps_are_compositions(forged).holds


def test_heads_stand_side_by_side_only_if_their_widths_make_the_stream():
    def holds(model, off=0.0):
        weights = SimpleNamespace(heads=3, channel=4, model=model)
        sentence = SimpleNamespace(identities=SimpleNamespace(input_columns=off))
        measured = SimpleNamespace(mini=SimpleNamespace(weights=weights), sentence=sentence)
        return claims.input_matrices_stand_side_by_side(measured).holds

    assert [holds(12), holds(13), holds(12, 1e-9)] == [True, False, False]


def test_a_table_of_another_shape_is_not_the_one_that_is_described():
    for change in ({"table.places": 1023}, {"table.width": 767}):
        forged = counterfeits.forge(measurement("semi_bias"), change)
        assert not claims.positions_are_learned(forged).holds


def test_ranges_and_masses_are_told_by_head():
    """Heads range over positions, not positions over heads; the mass of the sum is told beside that of T^p."""
    measured = measurement("semi_bias")
    raw = np.zeros_like(measured.tilt.raw)
    raw[:, 0] = 10 + np.arange(len(raw))
    forged = counterfeits.forge(measured, {"tilt.raw": raw})
    assert f"range over 10 to {9 + len(raw)} nats" in claims.map_is_that_of_the_module(forged).more
    mass = measured.locality.mass.copy()
    mass[1, 0] = [[0.05] * mass.shape[-1], [0.2] * mass.shape[-1], [0.4] * mass.shape[-1]]
    forged = counterfeits.forge(measured, {"locality.mass": mass})
    told = claims.semi_bias_alone_joins_no_pieces(forged).evidence
    assert "puts 5% of the weight" in told
    assert "against position 40%" in told


def test_every_claim_is_a_function_of_these_modules():
    for name, modules in MODULES.items():
        assert {function.__module__ for function in functions(name).values()} == {each.__name__ for each in modules}
