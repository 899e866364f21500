"""Train one of the book's small models from scratch; an interrupted run goes on where it stopped."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from analysis.core.files import claim_folder

RUNS = Path("runs")
VARIANTS = ("backbones", "batch", "pretrain")
"""Settings that only the variant classifiers have."""


@dataclass(frozen=True)
class Recipe:
    """What can be trained: ``train(out, **options)`` takes ``device``, ``resume``, and ``steps`` and ``seed`` if given.

    It writes the model's folder and returns its card, a dict with the final numbers. ``options`` names the settings
    of the command line that this model has beside those.
    """

    summary: str
    train: Callable[..., dict]
    options: tuple[str, ...] = ()


def _gpt2_mini(out: Path, **options) -> dict:
    from book.lab.gpt2_mini_runs import semi_bias_probe
    from book.lab.training import gpt2_mini

    return gpt2_mini.train(out, probe=semi_bias_probe, report=_Doublings(), **options)


def _neox_mini(name: str, out: Path, **options) -> dict:
    from book.lab.rotary_probe import make_probe
    from book.lab.training import gpt2_mini, neox_mini

    corpus = gpt2_mini.read_corpus()
    return neox_mini.train(out, name, probe=make_probe(corpus.windows), corpus=corpus, report=_Doublings(), **options)


def _induction(out: Path, **options) -> dict:
    from book.lab.induction_probe import make_probe
    from book.lab.training import attention_only

    _, run = attention_only.train(out, probe=make_probe(attention_only.Config()), **options)
    card = attention_only.load(out)[1]
    return (
        card
        | {name: float(run.trace[name][-1]) for name in ("new", "repeated")}
        | {"prefix_matching": float(run.trace["prefix"][-1].max()), "copying": float(run.trace["copying"][-1].max())}
    )


def _variants(recipe: str, out: Path, *, device: str | None, seed: int = 0, **options) -> dict:
    from analysis.core import device as devices
    from book.lab import dna_probe
    from book.lab.training import dna_classifier

    backbones, batch = options.pop("backbones", None), options.pop("batch", None)
    changes = {"steps": options.pop("steps", None), "pretrain_steps": options.pop("pretrain", None)}
    chosen = getattr(dna_classifier, recipe)
    chosen = dna_classifier.rebatched(chosen, batch) if batch is not None else chosen
    chosen = dna_classifier.shortened(chosen, **{name: value for name, value in changes.items() if value is not None})
    data = dna_classifier.make_data(chosen, seed, backbones)
    report = dna_classifier.train(
        chosen,
        out,
        device=devices.choose(device),
        seed=seed,
        data=data,
        probe=dna_probe.make_probe(data),
        probe_at=dna_probe.at(chosen.steps),
        **options,
    )
    return {name: value for name, value in report.items() if not isinstance(value, dict)}


NEOX = {
    "neox-mini": "the same with rotary positions, as GPT-NeoX and Pythia are built",
    "neox-mini-partial": "the same, a quarter of the coordinates rotary",
    "neox-mini-unbiased": "the same, all coordinates rotary and no bias anywhere",
    "neox-mini-sequential": "the same, the MLP after attention",
}
GENES = {
    "variant-bert-mini": ("MINI", "BERT classifier of spike genes, 12 layers of width 192; minutes on 2 cores"),
    "variant-bert-base": ("BASE", "the same at the size of BERT_BASE; minutes on a GPU"),
}
TRAINABLE = {
    "gpt2-mini": Recipe(
        "GPT-2 architecture, 0.7 M parameters, on Python's documentation; minutes on 2 cores", _gpt2_mini
    ),
    **{name: Recipe(f"{said}; minutes on 2 cores", partial(_neox_mini, name)) for name, said in NEOX.items()},
    "induction": Recipe(
        "two attention-only layers, 0.3 M parameters, on repeated random tokens; minutes on 2 cores", _induction
    ),
    **{name: Recipe(said, partial(_variants, of), VARIANTS) for name, (of, said) in GENES.items()},
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
    parser.add_argument(
        "name",
        choices=sorted(TRAINABLE),
        metavar="MODEL",
        help="; ".join(f"{name}: {recipe.summary}" for name, recipe in sorted(TRAINABLE.items())),
    )
    parser.add_argument("--steps", type=int, help="number of updates (default: the recipe's)")
    parser.add_argument("--seed", type=int, help="of initialisation and batches (default: 0)")
    parser.add_argument("--out", type=Path, help="folder to write (default: runs/MODEL)")
    parser.add_argument(
        "--backbones",
        type=Path,
        metavar="PATH",
        help="variant classifiers: lineages to simulate around, a folder of real ones, a FASTA file "
        "that is aligned, or NC_045512.2: invented clades of the reference gene, downloaded from "
        "NCBI if --download allows it (default: an invented gene)",
    )
    parser.add_argument("--batch", type=int, help="variant classifiers: sequences an update; epochs stay the same")
    parser.add_argument(
        "--pretrain",
        type=int,
        metavar="STEPS",
        help="variant classifiers: guess masked k-mers for so many updates first",
    )
    parser.add_argument("--fresh", action="store_true", help="start anew, even where a run can go on")


def run(arguments) -> int:
    """Train, and print the card."""
    from book.lab.training.loop import SEEDS, STEPS

    out, recipe = arguments.out or RUNS / arguments.name, TRAINABLE[arguments.name]
    if arguments.seed is not None and arguments.seed not in SEEDS:
        raise ValueError(f"--seed must be 0 to 2**40 - 1, got {arguments.seed}")
    for name, least in (("steps", 1), ("pretrain", 0)):
        if (steps := getattr(arguments, name)) is not None and not least <= steps <= STEPS[-1]:
            raise ValueError(f"--{name} must be {least} to {STEPS[-1]:,}, got {steps}")
    given = {
        name: getattr(arguments, name) for name in ("steps", "seed", *VARIANTS) if getattr(arguments, name) is not None
    }
    if foreign := set(given) & set(VARIANTS) - set(recipe.options):
        raise ValueError(f"--{min(foreign)} is no setting of {arguments.name}")
    with claim_folder(out, f"training of {arguments.name}"):
        card = recipe.train(out, device=arguments.device, resume=not arguments.fresh, **given)
    for name, value in card.items():
        print(f"{name.replace('_', ' '):>18}  {f'{value:.4f}' if isinstance(value, float) else value}")
    variable = f"ANALYSIS_FOLDER_{arguments.name.upper().replace('-', '_')}"
    print(f"written to {out}; to use it in place of the bundled one: {variable}={out.resolve()}")
    return 0
