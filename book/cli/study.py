"""Execute one page of evidence with several models, and set what it says of each side by side in one table.

The rows are the page's own table that sums it up, in a cell tagged ``study``, and the claims whose verdict is another
one than in the book. Each model has a folder with the executed page.
"""

from pathlib import Path

from analysis.core.files import write_atomically, write_json
from book.cli.run import check_folder, choose_values
from book.publish import execution, ledger
from book.publish import run as runs

TAG = "study"


def add_arguments(parser):
    """Take the page, the models, and where to write."""
    parser.add_argument("page", help=f"a page with a table that sums it up: {', '.join(summed_up())}")
    parser.add_argument("models", nargs="+", metavar="MODEL", help="names, folders or hub ids, one or more")
    parser.add_argument("--texts", type=Path, metavar="FILE", help="a text file, or a folder of .txt files")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="where to write (default: runs/study-PAGE)")
    parser.add_argument("--html", action="store_true", help="render each model's page as well")


def run(arguments) -> int:
    """Refuse what cannot be before anything runs; then execute, model after model, and print the table."""
    import pandas as pd
    from nbformat import read

    page = execution.chapter(arguments.page, evidence=True)
    if page not in summed_up():
        raise LookupError(f"{page} has no table that sums it up; these pages have: {', '.join(summed_up())}")
    values = {model: choose_values(model, arguments.texts, arguments.device) for model in arguments.models}
    names = {model: Path(of["MODEL"]).name for model, of in values.items()}
    if len(set(names.values())) < len(arguments.models):
        raise ValueError(f"the models must have different names, got {', '.join(arguments.models)}")
    out = check_folder(arguments.out or Path("runs") / f"study-{Path(page).name}")

    tables, notebooks = {}, {}
    for model, name in names.items():
        folder = runs.run(page, out / name, values[model], html=arguments.html)
        notebooks[name] = read(folder / f"{Path(page).name}.ipynb", as_version=4)
        tables[name] = summary(notebooks[name])
    judged = {name: verdicts(notebook) for name, notebook in notebooks.items()}
    book = ledger.collect().items()
    told = {claim: of.outcome for claim, of in book if ledger.claim_of(claim).chapter == page}
    for claim in sorted(told):
        if any(of.get(claim) != told[claim] for of in judged.values()):
            for name, of in judged.items():
                tables[name][f"{claim}, in the book {told[claim]}"] = of.get(claim, "not here")
    table = pd.DataFrame(tables).fillna("").rename_axis(page)
    write_atomically(out / "table.csv", table.to_csv())
    write_json(out / "table.json", {"page": page, "models": tables, "verdicts": judged})
    print(table.to_string())
    print(f"written to {out / 'table.csv'}; a model's page is in the folder of its name")
    return 0


def summed_up() -> list[str]:
    """Return the pages with a table that sums them up.

    >>> "evidence/semi-bias" in summed_up()
    True
    """
    pages = execution.pages().items()
    return [name for name, path in pages if f", {TAG}]" in path.read_text(encoding="utf-8")]


def summary(notebook) -> dict[str, str]:
    """Return the rows of the page's table that sums it up: the first cell names a row, the second is the model's."""
    for cell in notebook.cells:
        if TAG in cell.metadata.get("tags", []):
            _caption, _header, *rows = cell.outputs[0].data["text/plain"].splitlines()
            return dict(row.split(" | ", 1) for row in rows)
    raise LookupError("the page has no table that sums it up")


def verdicts(notebook) -> dict[str, str]:
    """Return the outcome of each claim that the page judged for its model."""
    outputs = (out for cell in notebook.cells for out in cell.get("outputs", []))
    given = (out.get("data", {}).get(ledger.MIME) for out in outputs)
    return {verdict["id"]: verdict["outcome"] for verdict in given if verdict}
