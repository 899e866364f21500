"""The ladder of controls of rotary positions: every number of it is counted head by head a second time."""

from statistics import median

import numpy as np
import pytest

from analysis.models.controls import RUNGS
from book.studies.rotary_bias import ladder
from book.studies.rotary_bias.parts import WAYS
from tests.book.studies.known import record

PLACES = [(source, layer) for source in (0, 2) for layer in (0, 1)]  # the biases, then the mean input


@pytest.fixture(scope="module")
def drawn() -> dict[str, np.ndarray]:
    """Draw a record of the ladder: two layers, five heads, three seeds; no two numbers are alike."""
    rng = np.random.default_rng(3)
    shapes = {
        "range": (3, 2, 5),
        "slope": (2, 5),
        "rise": (2, len(WAYS)),
        "shares": (2, 2, 5, 5),
        "loss": (),
        "previous": (2, len(WAYS), 2, 5),
    }
    arrays = {f"trained_{name}": np.asarray(rng.normal(size=shape)) for name, shape in shapes.items()}
    arrays |= {f"control_{name}": rng.normal(size=(3, 3, *shape)) for name, shape in shapes.items()}
    for kind in ("trained", "control"):
        for name in ("range", "shares"):
            arrays[f"{kind}_{name}"] = np.abs(arrays[f"{kind}_{name}"])
        arrays[f"{kind}_peak"] = rng.integers(0, 9, arrays[f"{kind}_range"].shape)
        arrays[f"{kind}_range"].flat[::7] = 0  # no kernel: its largest value is nowhere
    return arrays | {"rise_random_phases": rng.normal(size=(3, 2))}


def near(of: dict[str, np.ndarray], kind: str, place: tuple[int, ...], distance: int) -> int:
    """Count the heads at a place that have a kernel, and have it largest within some distance."""
    heads = zip(of[f"{kind}_peak"][place], of[f"{kind}_range"][place], strict=True)
    return sum(1 for peak, size in heads if peak <= distance and size > 0)


def every_control(values: np.ndarray) -> list[tuple[int, int]]:
    return list(np.ndindex(values.shape[:2]))


def whole_share(shares: np.ndarray, counted: int, part: int) -> float:
    """Return a part's nats over those of the first four parts, of all heads."""
    nats = [[float(head[k]) for layer in shares[counted] for head in layer] for k in range(4)]
    return sum(nats[part]) / sum(map(sum, nats))


def test_ladders_have_a_row_for_each_source_and_layer_and_for_each_part(drawn):
    of = [{name.removeprefix(kind): x for name, x in drawn.items() if name.startswith(kind)} for kind in KINDS]
    sizes, names, worths, parts_names = ladder._ladders(*of)
    assert names == ("biases, layer 0", "biases, layer 1", "mean input, layer 0", "mean input, layer 1")
    assert parts_names == (
        *("semi-bias, biases", "query side, biases", "kernel, biases"),
        *("semi-bias, mean input", "query side, mean input", "kernel, mean input"),
    )
    assert (list(sizes), list(worths)) == (["size", "near keys"], ["worth to the loss", "share of the attention"])
    due = {
        "size": lambda kind, *at: [median(drawn[f"{kind}_range"][*at, *place]) for place in PLACES],
        "near keys": lambda kind, *at: [near(drawn, kind, (*at, *place), 4) for place in PLACES],
        "worth to the loss": lambda kind, *at: [
            drawn[f"{kind}_rise"][*at, counted, list(WAYS).index(f"no {part}")]
            for counted in (0, 1)
            for part in ("semi-bias", "query side", "kernel")
        ],
        "share of the attention": lambda kind, *at: [
            whole_share(drawn[f"{kind}_shares"][at], counted, part) for counted in (0, 1) for part in (1, 2, 3)
        ],
    }
    for name, row in due.items():
        found = (sizes | worths)[name]
        np.testing.assert_allclose(found.trained, row("trained"), err_msg=name)
        assert list(found.controls) == list(RUNGS)
        for k, rung in enumerate(RUNGS):
            np.testing.assert_allclose(found.controls[rung], [row("control", k, seed) for seed in range(3)])


KINDS = ("trained_", "control_")


def test_numbers_of_the_ladder_are_those_of_the_heads_one_by_one(drawn, monkeypatch):
    monkeypatch.setattr(ladder, "live_or_record", lambda name, inputs: (record(**drawn), name))
    monkeypatch.setattr(ladder, "_ladders", lambda trained, control: ("sizes", "names", "parts", "parts names"))
    found, _ = ladder.measure_rungs(None)
    large, permuted = RUNGS.index("random, as large"), RUNGS.index("permuted")

    def seeds(value, rung):
        return [value("control", rung, seed) for seed in range(3)]

    def middle(source, layer):
        return lambda kind, *at: median(drawn[f"{kind}_range"][*at, source, layer])

    def count(source, distance):
        return lambda kind, *at: sum(near(drawn, kind, (*at, source, layer), distance) for layer in (0, 1))

    def kernel_share(kind, *at):
        heads = drawn[f"{kind}_shares"][*at, 1, 1, :, :4]
        return sum(head[3] for head in heads) / sum(map(sum, heads))

    def fallen(kind, *at):
        return sum(1 for slope in drawn[f"{kind}_slope"][at].ravel() if slope < 0)

    def share(counted, part):
        return lambda kind, *at: whole_share(drawn[f"{kind}_shares"][at], counted, part)

    rises = drawn["control_rise"].ravel().tolist()
    mean_ranges = [drawn["control_range"][*at, 2] for at in every_control(drawn["control_range"])]
    biased = {part: seeds(share(0, part), large) + seeds(share(0, part), permuted) for part in (1, 2)}
    phases = [[row[k] for row in drawn["rise_random_phases"].tolist()] for k in (0, 1)]
    assert vars(found) == pytest.approx(
        {
            **{"sizes": "sizes", "sizes_names": "names", "parts": "parts", "parts_names": "parts names"},
            "rise_mean_kernel": drawn["trained_rise"][1, list(WAYS).index("no kernel")],
            "rise_control_high": max(rises),
            "fall_control_high": -min(rises),
            **{"own_semi": share(0, 1)("trained"), "own_semi_low": min(biased[1]), "own_semi_high": max(biased[1])},
            **{"own_side": share(0, 2)("trained"), "own_side_low": min(biased[2]), "own_side_high": max(biased[2])},
            "own_kernel": share(1, 3)("trained"),
            "own_kernel_high": max(share(1, 3)("control", *at) for at in every_control(drawn["control_shares"])),
            "range_most": max(max(map(max, heads)) for heads in mean_ranges),
            **{"phases_bias_low": min(phases[0]), "phases_bias_high": max(phases[0])},
            **{"phases_mean_low": min(phases[1]), "phases_mean_high": max(phases[1])},
            "near": count(2, 4)("trained"),
            "near_large_high": max(seeds(count(2, 4), large)),
            "near_permuted_high": max(seeds(count(2, 4), permuted)),
            "nearest": count(0, 2)("trained"),
            "nearest_large_high": max(seeds(count(0, 2), large)),
            "range_mean": middle(2, 1)("trained"),
            "range_mean_large_high": max(seeds(middle(2, 1), large)),
            "range_mean_permuted_low": min(seeds(middle(2, 1), permuted)),
            "range_mean_permuted_high": max(seeds(middle(2, 1), permuted)),
            "range_bias": middle(0, 0)("trained"),
            "range_bias_large_low": min(seeds(middle(0, 0), large)),
            "range_bias_large_high": max(seeds(middle(0, 0), large)),
            "slope_down": fallen("trained"),
            "slope_down_random_high": max(fallen("control", *at) for at in every_control(drawn["control_slope"])),
            "kernel_share": kernel_share("trained"),
            "kernel_share_large_high": max(seeds(kernel_share, large)),
            "kernel_share_permuted_low": min(seeds(kernel_share, permuted)),
            "kernel_share_permuted_high": max(seeds(kernel_share, permuted)),
            "loss_large_low": min(drawn["control_loss"][large]),
            "previous_large_high": max(drawn["control_previous"][large, seed, 0, 0].max() for seed in range(3)),
            **{"nearest_limit": 2, "windows": 16},
        }
    )
