"""How a chapter shows its verdicts: what the document says, what we found and where it is shown; the surprising first.

The cell that judges (``publish.judge``) gives one output for each verdict. Here each becomes a box with an
anchor that other pages link to. Claims that hold as stated are folded behind a line that counts them.
"""

import re

from docutils import nodes

from book._ext.shared import fold, xref
from book.publish import ledger
from book.publish.ledger import ORDER

EMITTED = re.compile(rf"([A-Z]-\d+) · ({'|'.join(ledger.OUTCOMES)}) · ")
SHOWN = "shown"  # the type of the references to what decides a claim


def anchor(kind: str, claim_id: str) -> str:
    """Return the anchor of a claim (``claim-k-15``) or of its verdict in the chapter (``verdict-k-15``)."""
    return f"{kind}-{claim_id.lower()}"


def slug(outcome: str) -> str:
    """Return an outcome as a CSS class: ``not-reproduced``."""
    return outcome.replace(" ", "-")


def places(shown: str, docname: str) -> list[nodes.Node]:
    """Refer to the figures, sections and proofs, named by their labels, that show what decides a claim."""
    links = [xref(docname, SHOWN, label, label, refdomain="", refexplicit=False) for label in shown.split()]
    return [node for link in links for node in (nodes.Text(", "), link)][1:]


def resolve(app, env, node, content) -> nodes.Node | None:
    """Find what a label of ``shown`` names: a figure, a section, an equation or a proposition."""
    if node["reftype"] != SHOWN:
        return None
    label = node["reftarget"]
    kinds = [("std", "numref" if label.startswith("fig-") else "ref"), ("math", "eq")]
    if label in getattr(env, "proof_list", {}):
        kinds = [("prf", "ref")]
    for node["refdomain"], role in kinds:
        domain = env.get_domain(node["refdomain"])
        if link := domain.resolve_xref(env, node["refdoc"], app.builder, role, label, node, content):
            # The places stand in brackets already, and so does an equation's number.
            for text in list(link.findall(nodes.Text)) if role == "eq" else ():
                text.parent.replace(text, nodes.Text(f"Eq. {text.astext().strip('()')}"))
            return link
    return None


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
    claim, name, here = ledger.claim_of(claim_id), anchor("verdict", claim_id), app.env.docname
    app.env.domaindata["std"]["anonlabels"][name] = (here, name)
    head, says, ours, *rest = output.children
    head += nodes.Text(" ")
    head += xref(here, "ref", anchor("claim", claim_id), "In the ledger", warn=False, classes=["to-ledger"])
    if claim.shown:
        ours += [nodes.Text(" ("), *places(claim.shown, here), nodes.Text(")")]
    shown, folded = rest[: bool(claim.matters)], rest[bool(claim.matters) :]
    parts = [head, says, ours, *shown, *(fold("verdict-detail", "Detail and condition", folded) if folded else [])]
    kind = {"outcome": outcome, "definition": claim.is_definition}
    return nodes.container("", *parts, ids=[name], classes=["verdict", slug(outcome)], **kind)


def _in_order(boxes: list[nodes.container]) -> list[nodes.Node]:
    boxes = sorted(boxes, key=lambda verdict: ORDER.index(verdict["outcome"]))
    rest = [verdict for verdict in boxes if verdict["outcome"] != "reproduced"]
    expected = boxes[len(rest) :]
    for one, several, definition in (("claim", "claims", False), ("definition", "definitions and identities", True)):
        folded = [verdict for verdict in expected if verdict["definition"] == definition]
        if folded:
            count = f"One {one} holds" if len(folded) == 1 else f"{len(folded)} {several} hold"
            rest += fold("verdicts-expected", f"{count} as stated", folded)
    return rest


def setup(app):
    """Connect."""
    app.connect("doctree-read", arrange)
    app.connect("missing-reference", resolve)
