"""Sphinx directive ``viewer <name>``: a picture to play with, and the static one that stands for it in print.

The viewer's script, ``book/assets/play/<name>.js``, draws it in the reader's browser; without scripts, and on paper,
the static figure stays. The body of the directive is the caption. When the HTML is built, the models and
records that viewers read are written beside the scripts.
"""

import html
import json
from importlib import import_module
from pathlib import Path
from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from matplotlib.figure import Figure

from analysis.core.files import write_atomically
from book._ext.shared import DRAWN, Directive, save
from book.publish import experiments
from book.viewers import record_script, weights_script

FOLDER = "play"
MODELS = ("gpt2-mini", "neox-mini")
RECORDS = {
    "mixer": "semi-bias-mixer",
    "atlas": "atlas-heads",
    "dial": "weighted-mean-sentence",
    "switches": "bert-rank-switches",
    "cone": "bert-normality-directions",
    "sink": "bert-gates-sink-dial",
    "arrows": "rotary-smollm2-arrows",
    "why": "why-smollm2",
}
OWN = ("score", "pattern", "sentence")
"""The viewers with a record, and those without one; their modules in ``book.viewers`` have their names."""


def picture(name: str) -> tuple[Figure, dict]:
    """Return the static picture of a viewer, of its record if it has one, and its first state."""
    viewer = import_module(f"book.viewers.{name}")
    return viewer.draw(*([experiments.load(RECORDS[name])] if name in RECORDS else [])), viewer.START


def scripts(name: str) -> list[str]:
    """Return the scripts of a viewer, in the order in which a page loads them.

    >>> scripts("sentence")
    ['play/play.js', 'play/transformer.js', 'play/sentence.js']
    """
    names = ("play", *(["transformer"] if name == "sentence" else []), name)
    return [f"{FOLDER}/{each}.js" for each in names]


def place(name: str, start: dict) -> str:
    """Return the element that a viewer fills; ``start`` is its first state.

    >>> place("sentence", {"head": 3})
    '<div class="play" id="play-sentence" data-play="sentence" data-start="{&quot;head&quot;: 3}" hidden></div>'
    """
    state = html.escape(json.dumps(start))
    return f'<div class="play" id="play-{name}" data-play="{name}" data-start="{state}" hidden></div>'


class Viewer(Directive):
    """A figure: the static picture, the place of the viewer, the caption."""

    required_arguments = 1
    option_spec: ClassVar = {"name": directives.unchanged_required, "alt": directives.unchanged_required}

    def run(self):
        """Draw the static picture and lay the viewer beside it."""
        (name,) = self.arguments
        if name not in (*RECORDS, *OWN):
            raise self.error(f"there is no viewer {name!r}; known: {', '.join((*RECORDS, *OWN))}")
        self.require(f"the viewer {name}")
        others, label = getattr(self.env, "viewers", {}), self.options["name"]
        self.env.viewers = {**others, self.env.docname: [*others.get(self.env.docname, []), name]}
        drawn, start = picture(name)
        path = save(drawn, Path(self.env.srcdir, DRAWN, label))
        return [self.figure(path, label, self.options["alt"], nodes.raw("", place(name, start), format="html"))]


def add_scripts(app, pagename, templatename, context, doctree):
    """Give the scripts and the look to the pages that have a viewer."""
    names = getattr(app.env, "viewers", {}).get(pagename)
    if doctree is not None and names:
        app.add_css_file(f"{FOLDER}/play.css")
        for file in dict.fromkeys(file for name in names for file in scripts(name)):
            app.add_js_file(file, loading_method="defer")


def write_models(app, error):
    """Write the models and the records that viewers read beside the scripts."""
    if error is None and app.builder.format == "html" and getattr(app.env, "viewers", None):
        for model in MODELS:
            write_atomically(Path(app.outdir) / "_static" / FOLDER / f"{model}.js", weights_script.script(model))
        for record in RECORDS.values():
            for part, written in record_script.scripts(record).items():
                write_atomically(Path(app.outdir) / "_static" / FOLDER / f"{part}.js", written)


def setup(app):
    """Register the directive and the events."""
    app.add_directive("viewer", Viewer)
    app.connect("html-page-context", add_scripts)
    app.connect("build-finished", write_models)
