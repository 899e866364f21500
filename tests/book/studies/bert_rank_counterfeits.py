"""Counterfeits for the claims on rank collapse and LayerNorm."""

from dataclasses import replace


def with_rank(step, change, which=0):
    """Change one rank in the last layer of one of the four pairs of a model and an input."""

    def forge(through):
        key = list(through)[which]
        *others, last = through[key]
        count = getattr(last, step)
        return {**through, key: [*others, last._replace(**{step: replace(count, rank=count.rank + change)})]}

    return forge


def one_less(count):
    """Let one matrix go against the rule."""
    return count - 1


def never_collapsing(runs):
    """Leave one deep stack with skip connections and a perceptron at a tenth."""
    deep = {name: run.copy() for name, run in runs[1.0].items()}
    deep["attention + skip + MLP"][0, -1] = 0.1
    return {**runs, 1.0: deep}


def fallen_together(name):
    """Let the rows of one document end alike in one of the ways in which the ladder is run."""

    def forge(measures):
        documents = measures[name].documents.copy()
        documents[0, -1] = -1.0  # a residual of a tenth
        return {**measures, name: replace(measures[name], documents=documents)}

    return forge


TRAINED_LONG = 1  # the keys are (trained, short), (trained, long), (control, short), (control, long)
COUNTERFEITS = {
    "B-25": {"one_layer.slopes.attention": lambda slope: slope._replace(value=2.0)},
    "B-26": {"stacks.deep": never_collapsing},
    "B-27": {"norm.affine_error": 1e-6},
    "B-28": {"centred.losing": one_less},
    "B-29": {"examples.pairs_failing": 1},
    "B-30": {"norm.read_gap": 1e-3},
    "B-31": {"norm.constant_deviation": 1.0},
    "B-32": {"norm.mean_spaces": (1, 1)},
    "B-33": {"centred.gaining": 1},
    "B-34": {"examples.printed_failing": 0},  # as if the printed condition were enough
    "B-35": {"ranks.through": with_rank("centred", -1, TRAINED_LONG)},
    "B-36": {"centred.keeping": one_less},
}
FINDINGS = {"rows_stay_apart_without_mlps": {"rungs.measures": fallen_together("without the MLP")}}
