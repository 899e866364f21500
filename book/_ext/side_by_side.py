"""Sphinx directive ``side-by-side``: what the paper's figures measure, in the trained models and in their controls."""

from docutils import nodes

from book._ext.claims_table import Ledger, row


class SideBySide(Ledger):
    """A table: for each measure a row that names it, and a row per model."""

    def run(self):
        """Build the table."""
        from book.viewers import side_by_side

        rows = []
        for measure, by_model in side_by_side.compare():
            title = nodes.paragraph(
                "", "", nodes.strong(text=f"The paper's {measure.there}"), nodes.Text(f": {measure.name}")
            )
            rows.append(nodes.row("", nodes.entry("", title, morecols=len(side_by_side.NETWORKS)), classes=["measure"]))
            rows += [
                row([nodes.paragraph(text=text) for text in (side_by_side.MODELS[model], *cells)])
                for model, cells in by_model.items()
            ]
        widths = [36, *[16] * len(side_by_side.NETWORKS)]
        return [self.table(["model", *side_by_side.NETWORKS], rows, widths, ["side-by-side"])]


def setup(app):
    """Register the directive."""
    app.add_directive("side-by-side", SideBySide)
    return {"version": "1", "parallel_read_safe": False, "parallel_write_safe": True}
