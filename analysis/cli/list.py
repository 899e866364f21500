"""Show the models and where each is found, the experiments and their records."""

from analysis import experiments
from analysis.models import checkpoints
from analysis.surveys import records


def add_arguments(parser):
    """Take no arguments of its own."""


def run(arguments) -> int:
    """Print one line a model and one line an experiment."""
    print("Models")
    for name, known in checkpoints.KNOWN.items():
        print(f"  {name:18} {_where(name):44} {known.what}; licence: {known.licence}")
    print("Experiments")
    for name in experiments.NAMES:
        spec = experiments.find(name)
        state = "recorded" if (records.FOLDER / f"{name}.json").exists() else "no record"
        lacks = spec.missing() + ([experiments.AWAITED[name]] if name in experiments.AWAITED else [])
        needs = f"needs {', '.join(lacks)}" if lacks else "can run here"
        print(f"  {name:28} {state:10} {needs:34} {spec.minutes:5.1f} min  {spec.summary}")
    return 0


def _where(name: str) -> str:
    try:
        found = checkpoints.find(name)
    except (checkpoints.NotFound, checkpoints.Tampered) as error:
        return str(error)
    return f"{found.source}: " + (f"stood in for by {found.name}" if found.stands_in_for else found.folder.name)
