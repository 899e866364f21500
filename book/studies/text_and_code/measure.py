"""Everything that the page on the text and its code shows."""

from dataclasses import dataclass
from typing import ClassVar

from analysis.data import texts
from analysis.models import checkpoints, pretrained
from analysis.models.checkpoints import Checkpoint
from book.publish import Inputs, Numbers, choose_inputs, live_or_record
from book.publish.records import Result
from book.studies.shared import released_code, variant_measures
from book.studies.text_and_code import classifier, minilm, survey
from book.studies.text_and_code.layers import (
    Cone,
    Drawn,
    Entropies,
    FirstRows,
    Heads,
    measure_cone,
    measure_drawn,
    measure_entropies,
    measure_first_rows,
    measure_heads,
)
from book.studies.text_and_code.outputs import (
    Closing,
    Frames,
    Logits,
    Sizes,
    Words,
    measure_closing,
    measure_frames,
    measure_logits,
    measure_sizes,
    measure_words,
)


@dataclass(frozen=True)
class Measured(Numbers):
    """The measurement, by section of the page; ``sources`` says where its records come from."""

    prefix: ClassVar[str] = "code"
    inputs: Inputs
    checkpoint: Checkpoint
    sources: tuple[str, ...]
    heads: Heads
    cone: Cone
    entropies: Entropies
    drawn: Drawn
    rows: FirstRows
    sizes: Sizes
    words: Words
    frames: Frames
    logits: Logits
    closing: Closing


def measure(model: str = "minilm", device: str = "auto") -> Measured:
    """Compute the code's quantities beside the paper's, on a text model and on the bundled variant classifier.

    Parameters
    ----------
    model
        A BERT, by name or folder, in the place of MiniLM.
    device
        Where the models run.
    """
    inputs = choose_inputs(model, own=minilm.MODEL, device=device)

    def survey_model() -> Result:
        return minilm.survey_model(inputs.model, inputs.device)

    text, first = live_or_record("text-and-code-minilm", inputs, recompute=False, elsewhere=survey_model)
    of_classifier, second = live_or_record("text-and-code-classifier", inputs, recompute=False)
    repository, third = live_or_record("text-and-code-repository", inputs)
    checkpoint = checkpoints.find(inputs.model)
    trained = pretrained.load(checkpoint, device=inputs.device)
    drawn = survey.run(trained, **minilm.encode(checkpoint, texts.passages(count=1)[0]))
    run = variant_measures.open_run(checkpoints.find(classifier.MODEL).folder, device=inputs.device)
    authors = released_code.load_authors_outputs()
    return Measured(
        inputs,
        checkpoint,
        (first, second, third),
        heads=measure_heads({"text model": trained, "classifier": run.model}, drawn, text, of_classifier),
        cone=measure_cone(text, of_classifier),
        entropies=measure_entropies(text, of_classifier),
        drawn=measure_drawn(text, of_classifier),
        rows=measure_first_rows(text, of_classifier),
        sizes=measure_sizes(repository),
        words=measure_words(repository),
        frames=measure_frames(repository, authors, run.data),
        logits=measure_logits(repository, authors),
        closing=measure_closing(repository, authors, text, of_classifier),
    )
