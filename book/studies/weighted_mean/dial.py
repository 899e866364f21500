"""Heads between uniform and sharp: entropies along the dial, trained and controls."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from analysis.models import checkpoints
from analysis.models.controls import RUNGS
from analysis.plotting.ladder import Ladder, spread
from book import publish
from book.publish import Inputs, Numbers
from book.studies.shared.equality import entropy_shares, log_maps
from book.studies.weighted_mean.experiments import MODELS as LADDER_MODELS

PASSAGES = 8


@dataclass(frozen=True)
class Dial(Numbers):
    """Mean entropy of the rows over the logarithm of their keys, as the scores are multiplied by a dial.

    ``panels`` and ``panel_controls`` are ``(dial, head)`` curves by title; ``rows`` and ``controls`` the heads as they
    were trained, and those of the control, by model and layer. ``key_counts`` are the keys that the rows see;
    ``control_varying`` is the spread, in nats, of the scores of each head of the control's first layer.
    """

    models: str
    half: str
    control: str
    sharpest: str
    flattest: str
    swing: str
    swing_head: str
    swing_self: str
    previous: str
    dials: np.ndarray
    panels: Mapping[str, np.ndarray]
    panel_controls: Mapping[str, np.ndarray]
    rows: Mapping[str, np.ndarray]
    controls: Mapping[str, np.ndarray]
    key_counts: np.ndarray
    control_varying: np.ndarray
    ladder: Mapping[str, Ladder]  # by model: mean entropy of a layer's heads, or of GPT-2's first layer on two inputs
    ladder_rows: int  # rows of its figure, and those in which a control is as sharp as the trained heads
    ladder_scaled: int
    ladder_flatter: int  # rows in which every seed of random weights as large is more even than every training
    ladder_sharper: str  # the names of these rows, with the entropies of control and trained heads
    ladder_permuted: int
    seeds: int  # of gpt2-mini
    seeds_low: float  # entropy share of gpt2-mini's heads, mean of all: least and largest seed
    seeds_high: float
    spread_trained: float  # range of the heads' entropies within a row, median over rows
    spread_scaled: float
    spread_ratio: float  # of the two


def measure_dial(models: tuple[str, ...], inputs: Inputs) -> tuple[Dial, str]:
    """Turn the dial for GPT-2's first layer and for whole models on text, each beside its control."""
    record, source = publish.live_or_record("weighted-mean-gpt2", inputs)
    dials = record.array("dials")
    one = dials.tolist().index(1.0)
    trained, control = (entropies_on_text(models, dials, inputs, seed) for seed in (None, 0))
    rows = {
        f"gpt2 layer 0, {label}": record.array(name)[one]
        for label, name in (("positions", "positions"), ("stand-ins", "stand_ins"))
    }
    controls = dict.fromkeys(rows, record.array("control")[one])
    for name in models:
        for layer in (0, trained[name].shape[1] - 1):
            rows[f"{name} layer {layer}, text"] = trained[name][one, layer]
            controls[f"{name} layer {layer}, text"] = control[name][one, layer]
    panels = {"gpt2, positions": record.array("positions"), "gpt2, stand-ins": record.array("stand_ins")}
    panel_controls = dict.fromkeys(panels, record.array("control"))
    panels |= {f"{name}, text": trained[name][:, 0] for name in models}
    panel_controls |= {f"{name}, text": control[name][:, 0] for name in models}
    spectra, _ = publish.live_or_record("patterns-and-messages-spectra-gpt2", inputs, recompute=False)
    return Dial(
        models=" and ".join(models),
        half=f"{entropy_lost(0.5):.3f}",
        previous=previous_token_share(inputs),
        **phrase_shares(rows, controls, record.array("stand_ins_self")),
        dials=dials,
        panels=panels,
        panel_controls=panel_controls,
        rows=rows,
        controls=controls,
        key_counts=np.arange(2, record["positions"] + 1),
        control_varying=spectra.array("control_varying")[0],
        **measure_ladder(inputs),
    ), source


def measure_ladder(inputs: Inputs) -> dict[str, object]:
    """Read the recorded entropies of trained heads and of the ladder of controls."""
    record, _ = publish.live_or_record("weighted-mean-ladder", inputs, recompute=False)
    names = ("gpt2", *LADDER_MODELS)
    trained, controls = ({name: record.array(f"{name}{end}") for name in names} for end in ("", "-controls"))
    seeds, _ = publish.live_or_record("weighted-mean-seeds", inputs, recompute=False)
    means = {name: trained[name].mean(-1) for name in names} | {
        LADDER_MODELS[0]: spread(seeds.array("shares").mean(-1))
    }
    ladders = {name: Ladder(means[name], dict(zip(RUNGS, controls[name].mean(-1), strict=True))) for name in names}
    sharper = {
        rung: sum(int((ladder.controls[rung].mean(0) <= ladder.middle).sum()) for ladder in ladders.values())
        for rung in RUNGS
    }
    of_trained, of_scaled = (
        [np.ptp(heads, axis=-1).ravel() for heads in tables]
        for tables in (trained.values(), (table[1] for table in controls.values()))
    )
    whole = seeds.array("shares").mean((1, 2))
    wide, narrow = (float(np.median(np.concatenate(spreads))) for spreads in (of_trained, of_scaled))
    return {
        "ladder": ladders,
        "seeds": len(whole),
        "seeds_low": float(whole.min()),
        "seeds_high": float(whole.max()),
        "ladder_rows": sum(len(ladder.trained) for ladder in ladders.values()),
        "ladder_scaled": sharper["random, as large"],
        "ladder_flatter": sum(map(count_flatter, ladders.values())),
        "ladder_permuted": sharper["permuted"],
        "ladder_sharper": " and ".join(name_sharper(ladders)),
        "spread_trained": wide,
        "spread_scaled": narrow,
        "spread_ratio": wide / narrow,
    }


def count_flatter(ladder: Ladder) -> int:
    """Count the layers in which every seed of random weights as large is more even than every training.

    >>> one = Ladder(np.array([0.5, 0.9]), {"random, as large": np.array([[0.6, 0.7], [0.7, 1.0]])})
    >>> count_flatter(one)
    1
    """
    highest = ladder.trained if ladder.trained.ndim == 1 else ladder.trained[:, 2]
    return int((ladder.controls["random, as large"].min(0) > highest).sum())


def name_sharper(ladders: Mapping[str, Ladder]) -> list[str]:
    """Name the rows in which random weights as large are as sharp as the trained ones, with both entropies.

    >>> one = Ladder(np.array([0.5, 0.9]), {"random, as large": np.array([[0.6, 0.7]])})
    >>> name_sharper({"minilm": one})
    ["minilm's layer 1 (0.700 against 0.900)"]
    """
    return [
        f"{name}'s layer {layer} ({control:.3f} against {trained:.3f})"
        for name, ladder in ladders.items()
        for layer, (trained, control) in enumerate(
            zip(ladder.middle, ladder.controls["random, as large"].mean(0), strict=True)
        )
        if control <= trained
    ]


def entropy_lost(spread: float) -> float:
    """Return the most entropy, in nats, that scores within ``spread`` nats of each other can cost: a bound."""
    return spread**2 / 8


def entropies_on_text(
    models: tuple[str, ...], dials: np.ndarray, inputs: Inputs, control_seed: int | None
) -> dict[str, Float[np.ndarray, "dial layer head"]]:
    """Run whole models, or their controls, on text."""
    return {
        name: entropy_shares(
            checkpoints.find(name),
            tuple(dials.tolist()),
            passages=PASSAGES,
            source=inputs.texts,
            control_seed=control_seed,
            device=inputs.device,
        )
        .cpu()
        .numpy()
        for name in models
    }


def previous_token_share(inputs: Inputs) -> str:
    """Return the least share of its weight that MiniLM's head 2 of layer 0 puts on the token before, over texts."""
    maps = log_maps(checkpoints.find("minilm"), passages=PASSAGES, source=inputs.texts, device=inputs.device)
    shares = [scores[0, 2].exp().diagonal(-1).mean().item() for scores in maps]
    return f"{100 * min(shares):.1f} %"


def phrase_shares(
    rows: Mapping[str, np.ndarray], controls: Mapping[str, np.ndarray], own_weight: Float[np.ndarray, " head"]
) -> dict[str, str]:
    """Write down the extremes over all heads, and the head of GPT-2's first layer that its input moves most."""
    positions, stand_ins = list(rows.values())[:2]
    swing = np.abs(positions - stand_ins)
    head = int(swing.argmax())
    return {
        "control": f"{min(row.min() for row in controls.values()):.3f}",
        "sharpest": f"{min(row.min() for row in rows.values()):.3f}",
        "flattest": f"{max(row.max() for row in rows.values()):.2f}",
        "swing": f"{swing.max():.2f}",
        "swing_head": str(head),
        "swing_self": f"{own_weight[head]:.0%}",
    }
