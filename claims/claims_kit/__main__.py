"""The command line: ``claims new PAPER`` lays a folder for a paper, ``claims check`` judges what lies there."""

import argparse
import json
import re
import sys
from importlib import resources
from pathlib import Path
from string import Template

from claims_kit import ledger, pages, runs

PLACES = {"ledger.yml": ledger.NAME, "ci.yml": ".github/workflows/claims.yml"}  # of the template, by other names


def new(paper: str, folder: Path, notebook: bool = False) -> list[Path]:
    """Lay a folder for a paper, named by its title or by a number or address of arXiv; return the files.

    They are a ledger of two claims, a measurement, what judges them (a script or a notebook), and a file for
    continuous integration. A folder that holds a ledger is refused.
    """
    if (folder / ledger.NAME).exists():
        raise FileExistsError(f"{folder / ledger.NAME} is there already")
    number = re.search(r"\d{4}\.\d{4,5}", paper)
    link = f"https://arxiv.org/abs/{number[0]}" if number else paper if paper.startswith("https://") else ""
    named, laid = {"paper": json.dumps(paper), "link": json.dumps(link)}, []
    for source in sorted(resources.files("claims_kit").joinpath("template").iterdir(), key=lambda s: s.name):
        if not source.is_file():
            continue
        text = Template(source.read_text(encoding="utf-8")).safe_substitute(named)
        path = folder / PLACES.get(source.name, source.name)
        if notebook and source.name == "judge.py":
            path, text = path.with_suffix(".ipynb"), as_notebook(text)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        laid.append(path)
    return laid


def as_notebook(script: str) -> str:
    """Make a notebook of a script whose cells begin with ``# %%``; the docstring before them becomes text."""
    text, *codes = re.split(r"^# %%.*\n", script, flags=re.MULTILINE)
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    code = {"cell_type": "code", "metadata": {}, "execution_count": None, "outputs": []}
    first = {"cell_type": "markdown", "metadata": {}, "source": text.strip().strip('"')}
    cells = [first, *({**code, "source": each.strip()} for each in codes)]
    whole = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 4}
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def check(folders: list[Path], out: Path | None = None) -> int:
    """Judge the ledgers in folders, print verdicts and problems, and count the forged measurements refused."""
    found = [folder for given in folders for folder in runs.ledgers(given)]
    if not found:
        raise FileNotFoundError(f"no {ledger.NAME} with a judge*.py or judge*.ipynb in {', '.join(map(str, folders))}")
    done = []
    for one in map(runs.run, found):
        done.append(one)
        print(one.title)
        for claim in one.claims:
            verdict = one.verdicts.get(claim.id)
            outcome, said = (verdict.outcome, verdict.evidence) if verdict else ("open", one.problems[claim.id])
            forged = f" (never forged: {', '.join(one.unforged[claim.id])})" if claim.id in one.unforged else ""
            print(f"  {claim.id:6} {outcome:20} {said}{forged}")
        print(*(f"  {said}" for name, said in one.problems.items() if "." in name), f"  {one.counted}", sep="\n")
        if out:
            pages.write(one, out if len(found) == 1 else out / one.folder.name)
    if len(done) > 1:
        print(f"{len(done)} ledgers: {sum(one.refused for one in done)} forged measurements refused")
    return int(any(one.problems for one in done))


def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit status."""
    parser = argparse.ArgumentParser(prog="claims", description="Judge a paper claim by claim.")
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("new", help="lay a folder with a ledger, a measurement, what judges, a CI file")
    one.add_argument("paper", help="a title, or a number or address of arXiv")
    one.add_argument("--into", type=Path, help="the folder; default: the paper's name in small letters")
    one.add_argument("--notebook", action="store_true", help="let a notebook judge in place of a script")
    one = commands.add_parser("check", help="run every judgement and its counterfeits")
    one.add_argument("folders", nargs="*", type=Path, default=[Path()], metavar="FOLDER")
    one.add_argument("--out", type=Path, help="write page, summary, badge and data into this folder")
    asked = parser.parse_args(argv)
    try:
        if asked.command == "check":
            return check(asked.folders, asked.out)
        folder = asked.into or Path(re.sub(r"\W+", "-", asked.paper.lower()).strip("-"))
        print("\n".join(map(str, new(asked.paper, folder, asked.notebook))))
        return 0
    except (ledger.BadLedger, OSError) as error:
        print(f"claims: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
