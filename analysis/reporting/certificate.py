"""The certificate of a model: whether its parts add up to what its own modules compute, as JSON, a page and a badge."""

import html
import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from analysis.core.device import describe_run
from analysis.core.files import claim_folder, sha256, write_atomically
from analysis.data.texts import digest, passages
from analysis.models import pretrained
from analysis.models.checkpoints import Checkpoint, NotFound
from analysis.models.families import expected
from analysis.models.files import MissingTensor
from analysis.models.offloading import Offloaded
from analysis.models.reading import AnyModel, Model, load
from analysis.reporting.figures import heat_map
from analysis.reporting.making import files_of
from analysis.reporting.page import Section, render
from analysis.surveys.certification import PER_HEAD, READ, SEED, Certified, certify_stack, stacks_of
from analysis.surveys.layer_runs import MAPS, check_maps

FILES = ("index.html", "certificate.json", "badge.svg")
"""All that is written."""
LONGEST = 32
"""Tokens of the text."""
STORED = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
"""What safetensors calls dtypes."""
SAID = {
    "scores": ("parts do not sum", "the parts of a score sum to what the model's own softmax reads"),
    "attention": ("attention differs", "its attention is what that softmax returns"),
    "output": ("output differs", "attention times values, and that through W_O, is what the model's own maps make"),
    "sum": ("heads do not sum", "the heads and b_O sum to what the layer writes"),
    "folds": ("folds differ", "they still do with the norm before the layer and b_V folded into other weights"),
}
"""Of each comparison: what is said where it fails, and where it holds."""
RULE = (
    "An error is counted in parts of the largest that its number could be: of a score, the product of the lengths of "
    "query and key, or its largest part. Half of the digits must agree: an error may be at most the square root of the "
    "dtype's epsilon. A wrong sign, weight or option changes the first digits of some number, rounding the last ones: "
    "a sum of n terms moves by about the square root of n epsilons, and allowed are 2,900 of them in float32 and 67 "
    "million in float64. In half precision 11 or 32 are: there the library sums in float32, and rounds what it stores. "
    "Where the model keeps its angles in float32, its numbers in float64 are compared at the precision of float32."
)
SOUNDS: dict[str, Callable[[Any], tuple[int, ...]]] = {
    "whisper": lambda config: (config.num_mel_bins, 2 * config.max_source_positions),
    "speech_to_text": lambda config: (64, config.input_feat_per_channel),
    "audio-spectrogram-transformer": lambda config: (config.max_length, config.num_mel_bins),
    "wav2vec2": lambda config: (4000,),
    "hubert": lambda config: (4000,),
}
"""The shape of a sound, by ``model_type``."""
BADGE = """<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="20" role="img" aria-label="{text}">
<title>{text}</title><rect width="{width}" height="20" rx="3" fill="{colour}"/>
<text x="{middle}" y="14" fill="#fff" font-family="Verdana,sans-serif" font-size="11" text-anchor="middle">{text}</text>
</svg>
"""


@dataclass
class Certificate:
    """What was compared in a model, what was not covered, and what repeats it."""

    model: str
    checked: list[Certified] = field(default_factory=list)
    uncovered: list[str] = field(default_factory=list)
    provenance: dict[str, str] = field(default_factory=dict)

    def failures(self) -> list[dict[str, Any]]:
        """List what is beyond its limit: scores first, then by how far it is."""
        found = [failure for of in self.checked for failure in of.failures()]
        return sorted(found, key=lambda one: (list(SAID).index(one["comparison"]), -one["times its limit"]))

    @property
    def holds(self) -> bool:
        """Whether something was compared, and all of it is within its limits."""
        return bool(self.checked) and not self.failures()

    def sentence(self) -> str:
        """Say in a few words what was found, as the badge does."""
        if not self.checked:
            return "nothing was compared"
        if failures := self.failures():
            one = failures[0]
            place = f"{one['stack']} layer {one['layer']}{'' if one['head'] is None else ' head {head}'.format(**one)}"
            return f"{SAID[one['comparison']][0]}: {place.strip()}, {one['error']:.1e}"
        most: dict[str, float] = {}
        for of in self.checked:
            most[of.dtype] = max(most.get(of.dtype, 0.0), *(float(each.max()) for each in of.errors.values()))
        return f"parts sum: within {', '.join(f'{error:.0e} in {dtype}' for dtype, error in most.items())}"


def certify(
    model: AnyModel, *, out: str | Path, texts: str | Path | None = None, longest: int = LONGEST, command: str = ""
) -> Certificate:
    """Compare each layer and head of a model with its own modules; write a page, its numbers and a badge.

    Parameters
    ----------
    model
        A model as `load` takes it.
    out
        The folder for ``index.html``, ``certificate.json`` and ``badge.svg``: new, empty, or of an earlier certificate.
    texts
        A text file or a folder, of which the longest text is read; default: the bundled passages.
    longest
        Tokens of the text, at most.
    command
        What the page says that it was made by; default: the call of this function.

    Raises
    ------
    NotFound
        If the model is not there; nothing stands in for it.
    MissingTensor
        If the files hold only a part of it, or the library renames tensors of the attention as it loads them.
    Tampered, ValueError
        As :func:`analysis.models.reading.load`.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     certificate = certify("neox-mini", out=folder)
    ...     badge = Path(folder, "badge.svg").read_text(encoding="utf-8")
    >>> certificate.holds, certificate.sentence() in badge
    (True, True)
    """
    began = time.monotonic()
    with files_of(model) as checkpoint, claim_folder(out, "certificate", FILES) as folder:
        certificate = Certificate(checkpoint.label())
        _compare(certificate, checkpoint, max(passages(source=texts), key=len), longest)
        command = command or f"analysis.certify({checkpoint.name!r}, longest={longest})"
        run = describe_run(torch.device("cpu"), time.monotonic() - began, command)
        files = [*checkpoint.files(), *checkpoint.settings()]
        certificate.provenance |= {
            "Command": command,
            "Versions": ", ".join(f"{name} {version}" for name, version in run["versions"].items()),
            "Computed on": f"{run['device']}, in {run['seconds']:.0f} s",
            "Seed": f"{SEED}, of random rows and all else that is drawn",
            **{f"sha256 of {path.name}": sha256(path) for path in files},
        }
        numbers = json.dumps(_to_json(certificate), indent=1) + "\n"
        write_atomically(folder / "certificate.json", numbers)
        write_atomically(folder / "badge.svg", badge(certificate))
        write_atomically(folder / "index.html", _page(certificate, {"certificate.json": numbers}))
    return certificate


def _compare(certificate: Certificate, checkpoint: Checkpoint, text: str, longest: int) -> None:
    """Run the model in the dtype of its files and in float64, once for each of its stacks."""
    reads: list[Model] = []
    for stack in stacks_of(checkpoint):
        try:
            reads.append(load(checkpoint, stack=stack))
        except MissingTensor as error:
            certificate.uncovered.append(f"The {stack or 'model'}: {error}.")
    if not reads:
        load(checkpoint)  # which says what is missing
    if absent := [name for read in reads for name in read.absent]:
        raise MissingTensor(f"{checkpoint.name} holds a part of its model, without {absent[0]!r}: it cannot be run")
    row, first = reads[0].family, reads[0].layers.numbers[0]
    output = f"{expected.layer_path(row, reads[0].config, first)}.{row.output}.weight"
    stored = STORED[str(reads[0].tensors.source.headers[reads[0].tensors.spelled[output]][1])]
    for dtype in dict.fromkeys((stored, torch.float64)):
        offloaded = Offloaded(checkpoint, dtype)
        rooms = [read.room for read in reads if read.family.stack != "vision"]
        length = min([longest, *filter(None, rooms)])
        inputs, certificate.provenance["Run on"] = _inputs(checkpoint, offloaded.model, text, length)
        for read in reads:
            for ids in (value for name, value in inputs.items() if name.endswith("input_ids")):
                check_maps(read.heads, len(ids), ids.shape[-1], beside=MAPS)
            certificate.checked.append(certify_stack(checkpoint, offloaded, inputs, read.family.stack))
    certificate.uncovered += _uncovered(reads, offloaded, inputs)


def _inputs(checkpoint: Checkpoint, model: torch.nn.Module, text: str, longest: int) -> tuple[dict[str, Tensor], str]:
    """Return what the model is run on, each thing twice, and say what that is."""
    config, generator, said = model.config, torch.Generator().manual_seed(SEED), []
    inputs, image = {}, getattr(config, "vision_config", config)
    if config.model_type in SOUNDS:
        inputs[model.main_input_name] = torch.randn(1, *SOUNDS[config.model_type](config), generator=generator)
    elif model.main_input_name == "pixel_values" or image is not config:
        size = (getattr(image, "num_channels", 3), image.image_size, image.image_size)
        inputs["pixel_values"] = torch.randn(1, *size, generator=generator)
    said += [f"noise in the place of {name.replace('_', ' ')}" for name in inputs]
    if model.main_input_name == "input_ids" or image is not config or config.is_encoder_decoder:
        ids, what = _ids(checkpoint, config.get_text_config(), text, longest, generator)
        wants = [name for name in ("input_ids",) if config.model_type not in SOUNDS]
        inputs |= dict.fromkeys(wants + ["decoder_input_ids"] * config.is_encoder_decoder, ids)
        said.append(f"{what}, {ids.shape[1]} tokens, sha256 of their ids {digest(json.dumps(ids[0].tolist()))}")
    return {name: value.expand(2, *value.shape[1:]).clone() for name, value in inputs.items()}, "; ".join(said)


def _ids(checkpoint: Checkpoint, config: Any, text: str, longest: int, drawn: torch.Generator) -> tuple[Tensor, str]:
    """Return the ids of a text; random ones where no tokenizer lies beside the model."""
    limits = (getattr(config, name, None) for name in ("max_position_embeddings", "max_target_positions"))
    length = min([longest, *(limit for limit in limits if limit and limit > 0)])
    try:
        ids = pretrained.tokenizer(checkpoint)(text, truncation=True, max_length=length, return_tensors="pt")[
            "input_ids"
        ]
        return ids, f"a text that begins {text[:40]!r} (sha256 {digest(text)})"
    except NotFound:
        return torch.randint(2, config.vocab_size, (1, length), generator=drawn), "random ids (no tokenizer)"


def _uncovered(reads: list[Model], offloaded: Offloaded, inputs: dict[str, Tensor]) -> Iterator[str]:
    """Describe what the comparison says nothing about."""
    yield "The library's own loading: its modules were given the tensors that have their names in the files."
    yield "Embeddings, MLPs, experts and heads of a task: they ran, and were compared with nothing."
    longest = max((value.shape[1] for name, value in inputs.items() if "ids" in name), default=0)
    yield "Padding, a cache of keys and values, training, GPUs, other kernels than the eager one (sdpa, flash)."
    if longest:
        yield f"Texts of more than {longest} tokens."
    reach = {read.mask(layer).reach for read in reads for layer in read.layers.numbers} - {None}
    if far := sorted(one for one in reach if one >= longest):
        yield f"Windows that reach further than that: {', '.join(map(str, far))} tokens."
    if offloaded.model.config.is_encoder_decoder:
        yield "Attention of the decoder to the encoder: it ran, and is not read."
    if lost := [name for name in offloaded.absent if "pooler" not in name]:
        yield (
            f"Tensors that no file has under the library's name for them ({len(lost)}, such as {lost[0]}): they counted"
            " as zero, so that layers behind them read other rows than in the whole model, and were compared on those."
        )


def badge(certificate: Certificate) -> str:
    """Draw the sentence as an SVG: white on green where all holds, on red where something does not."""
    text = certificate.sentence()
    width = 20 + round(6.6 * len(text))
    colour = "#2a7d3f" if certificate.holds else "#b3261e"
    return BADGE.format(text=html.escape(text), width=width, middle=width / 2, colour=colour)


def _to_json(certificate: Certificate) -> dict[str, Any]:
    return {
        "model": certificate.model,
        "certified": certificate.holds,
        "sentence": certificate.sentence(),
        "rule": RULE,
        "failures": [{key: _number(value) for key, value in one.items()} for one in certificate.failures()],
        "not covered": certificate.uncovered,
        "provenance": certificate.provenance,
        "stacks": [
            {
                "stack": of.stack,
                "dtype": of.dtype,
                "layers": list(of.layers),
                "largest error allowed, by layer": of.limit,
                "errors, by layer and head": {
                    name: {READ[text]: _number(each[:, text].tolist()) for text in range(2)}
                    for name, each in of.errors.items()
                },
            }
            for of in certificate.checked
        ],
    }


def _number(value: Any) -> Any:
    """Return a number with three digits; what is none in JSON as text."""
    if isinstance(value, list):
        return [_number(each) for each in value]
    return value if not isinstance(value, float) else float(f"{value:.3g}") if math.isfinite(value) else str(value)


def _page(certificate: Certificate, files: dict[str, str]) -> str:
    failures = certificate.failures()
    places = [
        f"{one['stack']} layer {one['layer']}{'' if one['head'] is None else ' head {head}'.format(**one)}, "
        f"{one['comparison']}, {one['dtype']}, {one['input']}: {one['error']:.1e}"
        for one in failures[:20]
    ]
    heads = "Each layer and head"
    sections = [
        Section("What was compared", "Layers and heads are counted from 0.", rows=[*_rows(certificate)], said=places),
        *(
            Section(
                f"{heads}, {of.stack}" if of.stack else heads,
                "The largest error of each head in float64, over its scores, its attention and its output.",
                figure=heat_map(
                    of.largest().clamp(min=1e-17).log10().numpy(),
                    xlabel="head",
                    ylabel="layer",
                    label="log10 of the error",
                ),
                alt="A cell for each layer and head; all numbers are in certificate.json.",
            )
            for of in certificate.checked
            if of.dtype == "float64"
        ),
        Section("How large an error may be", RULE),
        Section("What is not covered", "Nothing is said here about:", said=certificate.uncovered),
        Section("What repeats it", "", rows=[{"": name, "is": said} for name, said in certificate.provenance.items()]),
    ]
    found = "Certified" if certificate.holds else "Not certified"
    lead = (
        f"{found}: {certificate.sentence()}. The model ran as the library runs it, in the dtype of its files and in "
        "float64, on a text and on random rows of unit variance at each layer. Beside it each layer was computed from "
        "the tensors, positions, norms and options that this package reads."
    )
    return render(f"A certificate of {certificate.model}", lead, sections, None, files)


def _rows(certificate: Certificate) -> Iterator[dict[str, str]]:
    """Yield a row of the table for each comparison."""
    for of in certificate.checked:
        for name, (_, holds) in SAID.items():
            worst = [of.worst(name, text) for text in range(2)]
            yield {
                "compared": holds,
                "in": f"{of.stack} {of.dtype}".strip(),
                **{
                    f"on {read}": f"{error:.1e} (layer {layer}{f' head {head}' if name in PER_HEAD else ''})"
                    for read, (error, layer, head) in zip(READ, worst, strict=True)
                },
                "allowed": f"{max(of.limit):.1e}",
            }
