"""How a chapter shows its verdicts: what the document says, what we found and where it is shown; the surprising first.

The cell that judges (``publish.judge``) gives one output for each verdict. Here each becomes a box with an
anchor that other pages link to. Claims that hold as stated are folded behind a line that counts them.
"""

import re

from docutils import nodes
from sphinx.addnodes import pending_xref

from book.publish import ledger

EMITTED = re.compile(rf"([A-Z]-\d+) · ({'|'.join(ledger.OUTCOMES)}) · ")
SHOWN = "shown"  # the type of the references to what decides a claim
ORDER = (
    "not reproduced",
    "fails on a stand-in",
    "corrected",
    "conditional",
    "not testable",
    "holds on a stand-in",
    "reproduced",
)
"""What may surprise comes first: what fails, what is misprinted, what holds in some cases only."""


def anchor(kind: str, claim_id: str) -> str:
    """Return the anchor of a claim (``claim-k-15``) or of its verdict in the chapter (``verdict-k-15``)."""
    return f"{kind}-{claim_id.lower()}"


def slug(outcome: str) -> str:
    """Return an outcome as a CSS class: ``not-reproduced``."""
    return outcome.replace(" ", "-")


def places(shown: str, docname: str) -> list[nodes.Node]:
    """Refer to the figures, sections and proofs, named by their labels, that show what decides a claim."""
    links = [
        pending_xref(
            "",
            nodes.inline(text=label),
            refdomain="",
            reftype=SHOWN,
            reftarget=label,
            refexplicit=False,
            refwarn=True,
            refdoc=docname,
        )
        for label in shown.split()
    ]
    return [node for link in links for node in (nodes.Text(", "), link)][1:]


def resolve(app, env, node, content) -> nodes.Node | None:
    """Find what a label of ``shown`` names: a figure, a section, an equation or a proposition."""
    if node["reftype"] != SHOWN:
        return None
    label = node["reftarget"]
    if label in getattr(env, "proof_list", {}):
        kinds = [("prf", "ref")]
    else:
        kinds = [("std", "numref" if label.startswith("fig-") else "ref"), ("math", "eq")]
    for node["refdomain"], role in kinds:
        domain = env.get_domain(node["refdomain"])
        if link := domain.resolve_xref(env, node["refdoc"], app.builder, role, label, node, content):
            return link if role != "eq" else _named(link)
    return None


def _named(link: nodes.Element) -> nodes.Element:
    """Call an equation by its name: the places stand in brackets already, and so does an equation's number."""
    for text in list(link.findall(nodes.Text)):
        text.parent.replace(text, nodes.Text(f"Eq. {text.astext().strip('()')}"))
    return link


def arrange(app, doctree):
    """Make boxes of the emitted verdicts, those that a reader would not expect first."""
    emitted: dict[nodes.Element, list[nodes.container]] = {}
    markdown = [node for node in doctree.findall(nodes.container) if node.get("mime_type") == "text/markdown"]
    for output in markdown:
        if output.children and EMITTED.match(output[0].astext()):
            bundle = output.parent
            emitted.setdefault(bundle.parent, []).append(output)
            bundle.parent.remove(bundle)
    for cell, outputs in emitted.items():
        cell.extend(_in_order([box(app, output) for output in outputs]))


def box(app, output: nodes.container) -> nodes.container:
    """Return one verdict as a box, and make its anchor known."""
    claim_id, outcome = EMITTED.match(output[0].astext()).groups()
    claim, name = ledger.claim_of(claim_id), anchor("verdict", claim_id)
    app.env.domaindata["std"]["anonlabels"][name] = (app.env.docname, name)
    head, says, ours, *rest = output.children
    row = pending_xref(
        "",
        nodes.inline(text="In the ledger"),
        refdomain="std",
        reftype="ref",
        reftarget=anchor("claim", claim_id),
        refexplicit=True,
        refwarn=False,
        refdoc=app.env.docname,
        classes=["to-ledger"],
    )
    head += [nodes.Text(" "), row]
    if claim.shown:
        ours += [nodes.Text(" ("), *places(claim.shown, app.env.docname), nodes.Text(")")]
    shown, folded = rest[: bool(claim.matters)], rest[bool(claim.matters) :]
    parts = [head, says, ours, *shown, *(fold("verdict-detail", "Detail and condition", folded) if folded else [])]
    kind = {"outcome": outcome, "definition": claim.is_definition}
    return nodes.container("", *parts, ids=[name], classes=["verdict", slug(outcome)], **kind)


def fold(name: str, summary: str, content: list[nodes.Node]) -> list[nodes.Node]:
    """Return what unfolds at a line of summary."""
    start = f'<details class="{name}"><summary>{summary}</summary>'
    return [nodes.raw("", start, format="html"), *content, nodes.raw("", "</details>", format="html")]


def _in_order(boxes: list[nodes.container]) -> list[nodes.Node]:
    boxes = sorted(boxes, key=lambda verdict: ORDER.index(verdict["outcome"]))
    expected = [verdict for verdict in boxes if verdict["outcome"] == "reproduced"]
    rest = boxes[: len(boxes) - len(expected)]
    for one, several, definition in (("claim", "claims", False), ("definition", "definitions and identities", True)):
        folded = [box for box in expected if box["definition"] == definition]
        if folded:
            count = f"One {one} holds" if len(folded) == 1 else f"{len(folded)} {several} hold"
            rest += fold("verdicts-expected", f"{count} as stated", folded)
    return rest


def setup(app):
    """Connect."""
    app.connect("doctree-read", arrange)
    app.connect("missing-reference", resolve)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
