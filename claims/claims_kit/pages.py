"""A judged paper for readers: a table, a page, a summary of one page, a badge, and the ledger as data."""

import json
from collections.abc import Iterable, Mapping
from html import escape
from importlib import resources
from pathlib import Path
from string import Template

from claims_kit import ledger
from claims_kit.ledger import MEANINGS, Claim, Verdict
from claims_kit.runs import Run

PARTS = {
    "scope": "Scope of reproducibility",
    "method": "Methodology",
    "results": "Results",
    "easy": "What was easy",
    "hard": "What was difficult",
    "authors": "Communication with the authors",
}  # the parts of a report of a reproducibility challenge, by what the ledger calls them under `paper`


def table(claims: Iterable[Claim], verdicts: Mapping[str, Verdict]) -> str:
    """Write claims as a table in HTML, what may surprise first."""
    rows = "\n".join(_row(claim, verdicts.get(claim.id)) for claim in ledger.surprising_first(claims, verdicts))
    head = "".join(f"<th>{name}</th>" for name in ("Claim", "What the paper says", "Verdict", "What we found"))
    return f"<table><thead><tr>{head}</tr></thead><tbody>\n{rows}\n</tbody></table>"


def _row(claim: Claim, verdict: Verdict | None) -> str:
    outcome, found = verdict.outcome if verdict else ledger.OPEN, ""
    says = f'<span class="place">{escape(claim.place)}</span><br/>{escape(claim.claim)}'
    says += f"<blockquote>{escape(claim.quote)}</blockquote>" if claim.quote else ""
    says += f"Setting: {escape(claim.setting)}" if claim.setting else ""
    if verdict:
        detail = [verdict.more, claim.matters and f"Why it matters: {claim.matters}", f"Judged in {verdict.where}."]
        inner = "".join(f"<p>{escape(said)}</p>" for said in detail if said)
        found = f"{escape(verdict.evidence)}<details><summary>Detail and condition</summary>{inner}"
        found += f"<pre>{escape(verdict.condition)}</pre></details>"
    mark = f'<span class="outcome {outcome.replace(" ", "-")}">{outcome}</span>'
    cells = f"<strong>{escape(claim.id)}</strong>", says, mark, found
    return f'<tr id="{escape(claim.id.lower())}">{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'


def page(run: Run) -> str:
    """Write a page in HTML that needs no other file."""
    title, link, about = escape(run.title), escape(run.paper.get("link", "")), report(run)
    used = sorted({verdict.outcome for verdict in run.verdicts.values()}, key=ledger.ORDER.index)
    tables = [
        f"<h2>{name}</h2>\n{table(some, run.verdicts)}"
        for name, kind in (("Claims", False), ("Definitions and identities", True))
        if (some := [claim for claim in run.claims if claim.is_definition is kind])
    ]
    return Template(resources.files("claims_kit").joinpath("page.html").read_text(encoding="utf-8")).substitute(
        title=title,
        named=f'<a href="{link}">{title}</a>' if link.startswith("https://") else title,
        by=escape(run.paper.get("by", "")),
        counted=run.counted,
        tables="\n".join(tables),
        about="".join(f"<h2>{name}</h2>\n<p>{escape(said)}</p>\n" for name, said in about.items()),
        meanings="".join(f"<dt>{outcome}</dt><dd>{MEANINGS[outcome]}</dd>" for outcome in used),
        provenance="<br/>".join(f"{escape(name)} <code>{value[:16]}</code>" for name, value in run.provenance.items()),
    )


def report(run: Run) -> dict[str, str]:
    """Return what the ledger says of the paper, by the parts of a report."""
    return {name: run.paper[key].strip() for key, name in PARTS.items() if run.paper.get(key)}


def summary(run: Run) -> str:
    """Write one page of Markdown in the form of the reports of reproducibility challenges."""
    own = [claim for claim in run.claims if not claim.is_definition]
    rows = "\n".join(
        f"* **{claim.id}, {ledger.outcome_of(claim, run.verdicts)}.** {claim.claim}"
        + (f" *{run.verdicts[claim.id].evidence}*" if claim.id in run.verdicts else "")
        for claim in ledger.surprising_first(own, run.verdicts)
    )
    said = report(run)
    said[PARTS["results"]] = "\n\n".join(filter(None, [f"{run.counted}.", said.get(PARTS["results"]), rows]))
    parts = (f"## {name}\n\n{said[name]}\n" for name in PARTS.values() if name in said)
    return "\n".join([f"# {run.title}: reproducibility summary\n", f"{run.paper.get('by', '')}\n", *parts])


def badge(run: Run) -> str:
    """Draw a badge as SVG: how many claims hold as stated, and how many forged measurements were refused."""
    counts = ledger.count(run.claims, run.verdicts)
    holds = counts["reproduced"] + counts["holds on a stand-in"]
    text = f"{holds} of {sum(counts.values())} hold, {run.refused} forgeries refused"
    left, right, colour = 52, 6 * len(text) + 14, "#777" if run.problems else "#1d6b35"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="20" role="img" '
        f'aria-label="claims: {text}"><rect width="{left}" height="20" fill="#444"/>'
        f'<rect x="{left}" width="{right}" height="20" fill="{colour}"/>'
        '<g fill="#fff" font-family="sans-serif" font-size="11" text-anchor="middle">'
        f'<text x="{left / 2}" y="14">claims</text><text x="{left + right / 2}" y="14">{text}</text></g></svg>\n'
    )


def write(run: Run, out: Path) -> None:
    """Write page, summary, badge, and the ledger as data with its schema into a folder."""
    out.mkdir(parents=True, exist_ok=True)
    rows = [ledger.row(claim, run.verdicts.get(claim.id)) for claim in run.claims]
    data = {"paper": run.paper, "outcomes": MEANINGS, "provenance": run.provenance, "claims": rows}
    texts = {"index.html": page(run), "summary.md": summary(run), "badge.svg": badge(run)}
    for name, body in (("ledger.json", data), ("ledger.schema.json", ledger.schema())):
        texts[name] = json.dumps(body, indent=1, ensure_ascii=False) + "\n"
    for name, text in texts.items():
        (out / name).write_text(text, encoding="utf-8")
