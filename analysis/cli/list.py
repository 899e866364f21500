"""Show the models and where each is found."""

from analysis.models import checkpoints


def add_arguments(parser):
    """Take no arguments of its own."""


def run(arguments) -> int:
    """Print one line for each model."""
    for name, known in checkpoints.KNOWN.items():
        print(f"{name:18} {_where(name):44} {known.what}; licence: {known.licence}")
    return 0


def _where(name: str) -> str:
    try:
        checkpoint = checkpoints.find(name, stand_in=True)
    except (checkpoints.NotFound, checkpoints.Tampered) as error:
        return str(error)
    if checkpoint.stands_in_for:
        return f"not here; {checkpoint.name} takes its place"
    return f"{checkpoint.source}: {checkpoint.name if checkpoint.source == 'bundled' else checkpoint.folder.name}"
