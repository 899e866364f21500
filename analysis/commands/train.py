"""Train one of the book's small models from scratch; an interrupted run goes on where it stopped."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

RUNS = Path("runs")


@dataclass(frozen=True)
class Recipe:
    """What can be trained: ``train(out, **options)`` takes ``device``, ``resume``, and ``steps`` and ``seed`` if given.

    It writes the model's folder and returns its card, a dict with the final numbers.
    """

    summary: str
    train: Callable[..., dict]


def _gpt2_mini(out: Path, **options) -> dict:
    from analysis.experiments.gpt2_mini_emergence import semi_bias_probe
    from analysis.training import gpt2_mini
    return gpt2_mini.train(out, probe=semi_bias_probe, report=_Doublings(), **options)


def _induction(out: Path, **options) -> dict:
    from analysis.experiments.induction_training import probe
    from analysis.training import induction
    _, run = induction.train(out, probe=probe(induction.Config()), **options)
    card = induction.load(out)[1]
    return card | {name: float(run.trace[name][-1]) for name in ("new", "repeated")} | {
        "prefix_matching": float(run.trace["prefix"][-1].max()), "copying": float(run.trace["copying"][-1].max())}


TRAINABLE = {
    "gpt2-mini": Recipe("GPT-2 architecture, 0.7 M parameters, on Python's documentation; minutes on 2 cores",
                        _gpt2_mini),
    "induction": Recipe("two attention-only layers, 0.3 M parameters, on repeated random tokens; minutes on 2 cores",
                        _induction),
}


class _Doublings:
    """Print the held-out loss each time the steps have doubled, so that a log stays short."""

    def __init__(self):
        self.next = 0

    def __call__(self, step: int, held_out: float) -> None:
        from tqdm.auto import tqdm
        if step >= self.next:
            tqdm.write(f"after {step:>6} steps: held-out loss {held_out:.4f} nats a token")
            self.next = max(1, 2 * step)


def add_arguments(parser):
    """Take the model's name and what may differ from its recipe."""
    parser.add_argument("name", choices=sorted(TRAINABLE), metavar="MODEL",
                        help="; ".join(f"{name}: {recipe.summary}" for name, recipe in sorted(TRAINABLE.items())))
    parser.add_argument("--steps", type=int, help="number of updates (default: the recipe's)")
    parser.add_argument("--seed", type=int, help="of initialisation and batches (default: 0)")
    parser.add_argument("--out", type=Path, help="folder to write (default: runs/MODEL)")
    parser.add_argument("--fresh", action="store_true", help="start anew, even where a run can go on")


def run(arguments) -> int:
    """Train, and print the card."""
    out = arguments.out or RUNS / arguments.name
    given = {name: getattr(arguments, name) for name in ("steps", "seed") if getattr(arguments, name) is not None}
    card = TRAINABLE[arguments.name].train(out, device=arguments.device, resume=not arguments.fresh, **given)
    for name, value in card.items():
        print(f"{name.replace('_', ' '):>18}  {f'{value:.4f}' if isinstance(value, float) else value}")
    variable = f"ANALYSIS_FOLDER_{arguments.name.upper().replace('-', '_')}"
    print(f"written to {out}; to use it in place of the bundled one: {variable}={out.resolve()}")
    return 0
