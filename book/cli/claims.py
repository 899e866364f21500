"""Print the verdict on every claim, as the chapters' cells gave them."""

from collections import Counter
from pathlib import Path

from book.publish import ledger


def add_arguments(parser):
    """Take which claims to show and whether each must have a verdict."""
    parser.add_argument("ids", nargs="*", metavar="ID", help="a document's letter (K, M, I, P, B) or ids such as K-15")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a claim shown has no verdict")
    parser.add_argument(
        "--from",
        dest="folder",
        type=Path,
        default=ledger.ROOT / "book" / "recorded",
        help="folder of chapters' recorded outputs",
    )


def run(arguments) -> int:
    """Print one line a claim, then the counts."""
    if not arguments.folder.is_dir():
        raise FileNotFoundError(f"--from must be a folder of recorded outputs, and {arguments.folder} is none")
    verdicts = ledger.collect(arguments.folder)
    asked = [i.upper() for i in arguments.ids]
    known = [c.id for c in ledger.claims()]
    if unknown := [i for i in asked if i not in known and i not in ledger.DOCUMENTS]:
        raise LookupError(
            f"no claim {', '.join(unknown)}; give a document's letter "
            f"({', '.join(ledger.DOCUMENTS)}) or an id such as {known[0]}"
        )
    shown = [c for c in ledger.claims() if not asked or c.id in asked or c.id[0] in asked]
    for claim in shown:
        judged = verdicts.get(claim.id)
        print(f"{claim.id:6} {judged.outcome:15} {judged.evidence}" if judged else f"{claim.id:6} open")
    counts = Counter(verdicts[c.id].outcome if c.id in verdicts else "open" for c in shown)
    judged = len(shown) - counts["open"]
    print(f"{judged} of {len(shown)} claims have a verdict: " + ", ".join(f"{n} {o}" for o, n in counts.most_common()))
    refused = sum(len(verdicts[claim.id].counterfeits) for claim in shown if claim.id in verdicts)
    print(f"{refused} forged measurements refused")
    return 1 if arguments.check and counts["open"] else 0
