"""Sphinx directive ``chapter-costs``: the table of what each chapter's execution cost, of the runs that the book shows
and, where a chapter has none, from ``book/costs.json``.
"""

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.util.docutils import SphinxDirective

from book.publish.costs import FILE, chapters, path, present


class Costs(SphinxDirective):
    """The table: one row a chapter, in the order of the book."""

    def run(self):
        """Read what was measured; say of what is missing that it was not."""
        for file in (FILE, *(path(name) for name in chapters())):
            self.env.note_dependency(str(file))
        try:
            found = present()
        except ValueError as error:
            raise self.error(str(error)) from error
        cpu, gpu = (found.get(kind, {}).get("chapters", {}) for kind in ("cpu", "gpu"))
        if not cpu:
            return [nodes.paragraph(text="Nothing was measured yet; make costs does it.")]
        header = ["Chapter", "Processor seconds", "Peak memory, MiB", "With a GPU, seconds", "GPU memory, MiB"]
        columns = len(header) if gpu else len(header) - 2  # nothing stands in the GPU's where none was there
        header = header[:columns]
        rows = [self.row(name, cpu.get(name), gpu.get(name), columns) for name in chapters()]
        total = ["All that was measured", f"{sum(c['cpu_seconds'] for c in cpu.values()):.0f}", "", "", ""][:columns]
        rows.append(nodes.row("", *(nodes.entry("", nodes.paragraph(text=t)) for t in total), classes=["total"]))
        group = nodes.tgroup("", *(nodes.colspec(colwidth=w) for w in (40, 15, 15, 15, 15)[:columns]), cols=columns)
        group += nodes.thead("", nodes.row("", *(nodes.entry("", nodes.paragraph(text=t)) for t in header)))
        group += nodes.tbody("", *rows)
        said = "; ".join(f"{kind.upper()}: {found[kind]['machine']}" for kind in ("cpu", "gpu") if kind in found)
        said += "" if gpu else "; no chapter was measured on a GPU"
        return [nodes.table("", group, classes=["counts"]), nodes.paragraph(text=f"Measured on: {said}.")]

    def row(self, name: str, cost: dict | None, on_gpu: dict | None, columns: int) -> nodes.row:
        """Write what was measured of a chapter, in so many columns."""
        page = f"book/{name}"
        here = page in self.env.found_docs
        first = (
            pending_xref(
                "",
                nodes.inline(text=name),
                refdomain="std",
                reftype="doc",
                reftarget=f"/{page}",
                refexplicit=False,
                refwarn=True,
                refdoc=self.env.docname,
            )
            if here
            else nodes.Text(name)
        )
        words = [
            *([f"{cost['cpu_seconds']:.0f}", f"{cost['peak_mib']:,}"] if cost else ["not measured"] * 2),
            *([f"{on_gpu['seconds']:.0f}", f"{on_gpu['gpu_mib']:,}"] if on_gpu else ["not measured"] * 2),
        ]
        return nodes.row(
            "",
            nodes.entry("", nodes.paragraph("", "", first)),
            *(nodes.entry("", nodes.paragraph(text=t)) for t in words[: columns - 1]),
        )


def setup(app):
    """Register the directive."""
    app.add_directive("chapter-costs", Costs)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
