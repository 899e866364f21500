"""Counterfeits for the claims on rank collapse and LayerNorm."""

from dataclasses import replace

from book.studies.bert_rank.stacks import NO_MLP, WHOLE


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

AT_THE_END = (slice(None), -1)  # of all texts, after the last layer
LIMITS = {
    "rows_stay_apart_without_mlps": [
        ("ladder_numbers.mlp", None, lambda m: m.ladder_numbers.whole + 0.01, 1e-4),
        ("ladder_numbers.mlp", None, lambda m: m.ladder_numbers.whole - 0.01, 1e-4),
        *[
            (
                f"rungs.measures.without the MLP.controls.{rung}",
                (2, -1),
                lambda m: m.rungs["without the MLP"].documents[:, -1].min(),
            )
            for rung in ("random, as large", "permuted")
        ],
    ],
    "B-25": [
        *[("one_layer.slopes.attention", "value", slope, 1e-3) for slope in (2.95, 3.05)],
        ("one_layer.kept_rank", None, [4, 3]),
        *[(f"trained.traced.{model}.attention", AT_THE_END, 1e-9) for model in ("trained", "control")],
    ],
    "B-26": [
        *[("one_layer.slopes.with skip", "value", slope, 1e-3) for slope in (0.95, 1.05)],
        *[("one_layer.slopes.then MLP", "value", slope, 1e-3) for slope in (2.95, 3.05)],
        ("trained.traced.trained.attention + MLP", AT_THE_END, 1e-6),
        (f"trained.traced.trained.{NO_MLP}", AT_THE_END, lambda m: m.trained.final["trained"][WHOLE] / 2),
    ],
    "B-27": [("norm.plain_error", None, 1e-12), ("norm.affine_error", None, 1e-12), ("norm.trained_gap", None, 0.01)],
    "B-30": [("norm.matrix_error", None, 1e-12), ("norm.read_gap", None, 1e-9), ("norm.concatenation_gap", None, 0.01)],
    "B-31": [("norm.constant_deviation", None, [0, 1e-3])],
    "B-32": [
        ("norm.mean_spaces", None, [(1, 2), (2, 1)]),
        ("norm.with_means", 0, [3, 2]),
        ("norm.with_means", 1, [3, 2]),
        ("norm.zero_mean_rank", None, [0, 1]),
    ],
    "B-33": [("centred.gaining", None, [0, 1])],
    "B-34": [
        ("examples.triples_failing", None, [0, 1]),
        ("examples.falls_by_more", None, [0, 1]),
        ("examples.drops_outside", None, [0, 1]),
        ("examples.update_change", None, [0, -1]),
    ],
    "B-36": [("centred.gaining", None, [0, 1])],
}
