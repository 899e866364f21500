"""Show the experiments, which have a record, and what they need."""

from book.publish import experiments


def add_arguments(parser):
    """Take no arguments of its own."""


def run(arguments) -> int:
    """Print one line for each experiment."""
    for name in experiments.modules():
        spec = experiments.find(name)
        state = "recorded" if (experiments.FOLDER / f"{name}.json").exists() else "no record"
        lacks = spec.missing()
        needs = f"needs {', '.join(lacks)}" if lacks else "can run here"
        print(f"{name:36} {state:10} {needs:34} {spec.minutes:5.1f} min  {spec.summary}")
    return 0
