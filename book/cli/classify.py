"""Name the class of each sequence in a FASTA file with a variant classifier, or say why it names none.

A classifier has an answer for anything, even for what it has never seen a word of. So a sequence more than half of
whose k-mers are unknown to the model, or N throughout, gets no class; its probabilities are printed all the same. The
bundled model knows an invented gene: every real sequence is unknown to it.
"""

import json
import sys

from analysis.core import device
from analysis.core.files import read_json_object
from analysis.models import checkpoints, pretrained
from analysis.models.reading import load

HIGH, LIMIT = 0.2, 0.5
"""Shares of unknown k-mers: above the first a warning, above the second no class."""
CHUNK = 64
"""Sequences between two looks at how far it is; whole batches, so that probabilities do not depend on it."""


def add_arguments(parser):
    """Take the file, the model and the form of the output."""
    parser.add_argument(
        "file", metavar="FILE", help="FASTA, plain or gzipped; unaligned spike genes; '-' for standard input"
    )
    parser.add_argument("--model", default="variant-bert-mini", help="a name that `list` shows, or a trained folder")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="one JSON object, unrounded")
    form.add_argument("--tsv", action="store_true", help="one row a sequence, tab-separated")


def run(arguments) -> int:
    """Print one line per sequence; exit with 1 if a sequence got no class."""
    from tqdm import tqdm

    from book.lab.dna import fasta, kmers

    checkpoint = checkpoints.find(arguments.model)
    model = load(checkpoint)
    if "classifier.weight" not in model.tensors.source.headers:
        raise ValueError(f"--model must be a variant classifier; {checkpoint.name} has no tensor 'classifier.weight'")
    longest = kmers.longest(model.config.max_position_embeddings)
    records = fasta.iterate_fasta(arguments.file, shortest=kmers.K, longest=longest)
    genes = list(tqdm(records, desc="reading", unit=" sequences", disable=None))
    rows, labels = _classify(genes, checkpoint, arguments.device)
    _print(rows, labels, checkpoint, arguments)
    _warn(rows, checkpoint)
    return 1 if any(row["class"] is None for row in rows) else 0


def _classify(genes: list, checkpoint: checkpoints.Checkpoint, device_name: str | None) -> tuple[list[dict], list[str]]:
    """Return a row for each sequence and the names of the classes; show how far it is."""
    from tqdm import tqdm

    from book.lab.dna import kmers
    from book.lab.training import dna_classifier

    model, tokenizer = (
        pretrained.load(checkpoint, task="classifier", attention="sdpa", device=device.choose(device_name)),
        pretrained.tokenizer(checkpoint),
    )
    labels = [model.config.id2label[i] for i in range(model.config.num_labels)]
    rows = []
    with tqdm(total=len(genes), desc="classifying", unit=" sequences", disable=None) as bar:
        for start in range(0, len(genes), CHUNK):
            part = genes[start : start + CHUNK]
            for gene, row in zip(part, dna_classifier.predict(model, tokenizer, [gene.bases for gene in part])):
                best = labels[int(row.argmax())] if kmers.unread_share(tokenizer, gene.bases) <= LIMIT else None
                rows.append(
                    {
                        "name": gene.name,
                        "class": best,
                        "probabilities": dict(zip(labels, row.tolist())),
                        "unknown": kmers.unknown_share(tokenizer, gene.bases),
                    }
                )
            bar.update(len(part))
    return rows, labels


def _print(rows: list[dict], labels: list[str], checkpoint: checkpoints.Checkpoint, arguments) -> None:
    if arguments.json:
        about = {"model": checkpoint.label(), "trained_on": _origin(checkpoint), "sequences": rows}
        print(json.dumps(about, indent=1))
        return
    head = ["name", "class", "unknown", *labels]
    cells = [
        [
            row["name"],
            row["class"] or "none",
            f"{row['unknown']:.3f}",
            *(f"{row['probabilities'][label]:.4f}" for label in labels),
        ]
        for row in rows
    ]
    if arguments.tsv:
        print("\n".join("\t".join(line) for line in [head, *cells]))
        return
    widths = [max(len(line[i]) for line in [head, *cells]) for i in range(len(head))]
    for line in [head, *cells]:
        texts = (cell.ljust(width) if i < 2 else cell.rjust(width) for i, (cell, width) in enumerate(zip(line, widths)))
        print("  ".join(texts).rstrip())


def _origin(checkpoint: checkpoints.Checkpoint) -> str | None:
    """Return what the model was trained on, as its report has it."""
    try:
        origin = read_json_object(checkpoint.folder / "report.json").get("origin")
    except (OSError, ValueError):
        return None
    return origin if isinstance(origin, str) and origin.isprintable() else None


def _warn(rows: list[dict], checkpoint: checkpoints.Checkpoint) -> None:
    """Say on stderr what the numbers cannot be trusted for."""
    refused = [row["name"] for row in rows if row["class"] is None and row["unknown"] > LIMIT]
    empty = [row["name"] for row in rows if row["class"] is None and row["unknown"] <= LIMIT]
    doubtful = [row["name"] for row in rows if row["class"] is not None and row["unknown"] > HIGH]
    if refused:
        knows = f", which was trained on: {origin}" if (origin := _origin(checkpoint)) else ""
        print(
            f"warning: {_some(refused)}: no class, because more than {LIMIT:.0%} of the k-mers are unknown to "
            f"{checkpoint.name}{knows}",
            file=sys.stderr,
        )
    if empty:
        print(
            f"warning: {_some(empty)}: no class, because more than {LIMIT:.0%} of the k-mers are unknown or N "
            "throughout",
            file=sys.stderr,
        )
    if doubtful:
        print(
            f"warning: {_some(doubtful)}: more than {HIGH:.0%} of the k-mers are unknown, the class is doubtful",
            file=sys.stderr,
        )


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
