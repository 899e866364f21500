"""The variant classifier and its ladder of controls, in the forms that the released code computes.

One sequence of Omicron goes through every network; through the trained one also a sequence of every class, and class
means of maps are taken over a few.
"""

from collections.abc import Iterable, Mapping
from itertools import chain

import numpy as np
import torch
from torch import Tensor, nn

from analysis.maps import entropy
from analysis.models import checkpoints
from analysis.models.controls import make_controls
from book.lab import classifier_survey
from book.lab import released_code as code
from book.lab import released_survey as survey
from book.lab.dna.fasta import Gene
from book.lab.training.dna_classifier import Data
from book.publish.records import Experiment, Result

MODEL, CLASS = "variant-bert-mini", "Omicron"
AVERAGED = 4
"""Sequences of each class in a class mean."""


def survey_networks(run: classifier_survey.Run, gene: Gene) -> dict[str, np.ndarray]:
    """Take one sequence through the trained network and through every control.

    Returns
    -------
    dict
        By level and measure, ``"level/measure"``, seeds first.
    """
    by_level: dict[str, list[dict[str, np.ndarray]]] = {}
    ladder = ((control.level, control.network) for control in make_controls(run.model, run.control))
    for name, model in chain([("trained", run.model)], ladder):
        passage = survey.run(model, **encode(run.data, gene))
        measured = survey.measure_rows(passage) | survey.measure_coded_maps(passage)
        if name in ("trained", "random"):
            measured |= survey.compare_attention(passage) | survey.measure_maps(passage) | survey.measure_ranks(passage)
        by_level.setdefault(name, []).append(measured)
    return {
        f"{name}/{measure}": values
        for name, found in by_level.items()
        for measure, values in survey.stacked(found).items()
    }


def encode(data: Data, gene: Gene) -> dict[str, Tensor]:
    """Return the ids and the mask of one sequence, padded as the code pads."""
    coded = data.encode([gene], code.ROWS)
    return {name: coded[name] for name in ("input_ids", "attention_mask")}


@torch.no_grad()
def survey_class_means(model: nn.Module, data: Data, genes: Mapping[str, Iterable[Gene]]) -> dict[str, np.ndarray]:
    """Average the maps of each class as the code does, and measure the means beside the maps themselves.

    Returns
    -------
    dict
        ``(class, layer, head)``: ``mean_value_entropy``, the code's entropy of the class mean; ``mean_row_entropy``,
        the rows' entropy relative to ln n, mean over sequences; ``mean_seen``, the share of the mean map's mass in
        cells that the code draws; ``mean_empty``, 1 where it draws none.
    """
    found: dict[str, list[Tensor]] = {name: [] for name in ("value_entropy", "row_entropy", "seen", "empty")}
    for sequences in genes.values():
        total, rows, count = 0, 0, 0
        for gene in sequences:
            passage = survey.run(model, **encode(data, gene))
            n = int(passage.keep.sum())
            maps = torch.stack([each.attention[:, :n, :n] for each in passage.stations])
            total, count = total + code.blank_from(maps, n), count + 1
            rows = rows + entropy.relative_entropy(maps).mean(-1)
        mean, drawn = total / count, total / count >= code.HIDDEN_BELOW
        for name, value in {
            "value_entropy": code.value_entropy(mean),
            "row_entropy": rows / count,
            "seen": (mean * drawn).sum((-2, -1)) / mean.sum((-2, -1)),
            "empty": (~drawn).flatten(-2).all(-1).float(),
        }.items():
            found[name].append(value)
    return {f"mean_{name}": torch.stack(values).cpu().numpy().astype(np.float32) for name, values in found.items()}


def compute(device: torch.device) -> Result:
    """Measure the bundled classifier."""
    run = classifier_survey.open_run(checkpoints.find(MODEL).folder, device=device)
    tested = [run.data.genes[i] for i in run.data.parts.test]
    genes = {label: [gene for gene in tested if gene.label == label][:AVERAGED] for label in run.data.labels}
    arrays = survey_networks(run, genes[CLASS][0])
    by_class = survey.stacked(
        [survey.measure_rows(survey.run(run.model, **encode(run.data, of_class[0]))) for of_class in genes.values()]
    )
    arrays |= {f"classes/{name}": by_class[name] for name in ("cone", "padded_code_cone")}
    for name, model in (("trained", run.model), ("random", run.control())):
        arrays |= {f"{name}/{key}": values for key, values in survey_class_means(model, run.data, genes).items()}
    arrays["words"] = np.array(
        [[len(code.padded_words(gene.bases)) for gene in of_class] for of_class in genes.values()]
    )
    return Result({}, arrays, {name: survey.tolerance(name) for name in arrays})


EXPERIMENT = Experiment(
    models=(MODEL,),
    compute=compute,
    minutes=6,
    seed=0,
    summary="The variant classifier and its controls in the forms that the released code of the paper computes",
)
