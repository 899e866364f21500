"""Sphinx directive ``viewer <name>``: a picture to play with, and the static one that stands for it in print.

The viewer's script, ``book/assets/play/<name>.js``, draws it in the reader's browser; without scripts, and on paper,
the static figure stays. The body of the directive is the caption. When the HTML is built, the models and
records that viewers read are written beside the scripts.
"""

import base64
import html
import json
from pathlib import Path
from typing import ClassVar

import numpy as np
from docutils import nodes
from docutils.parsers.rst import directives
from matplotlib.figure import Figure
from sphinx.util.docutils import SphinxDirective

from analysis.core.files import write_atomically
from book.publish import experiments
from book.viewers import record_script, weights_script

FOLDER = "play"
SCRIPTS = {
    "sentence": ("transformer.js", "sentence.js"),
    "mixer": ("mixer.js",),
    "atlas": ("atlas.js",),
    "dial": ("dial.js",),
    "switches": ("switches.js",),
    "cone": ("cone.js",),
    "score": ("score.js",),
    "sink": ("sink.js",),
    "arrows": ("arrows.js",),
    "pattern": ("pattern.js",),
    "why": ("why.js",),
}
MODELS = ("gpt2-mini", "neox-mini")
RECORDS = {
    "mixer": "semi-bias-mixer",
    "atlas": "atlas-heads",
    "dial": "weighted-mean-sentence",
    "switches": "bert-rank-switches",
    "cone": "bert-normality-directions",
    "sink": "bert-gates-sink-dial",
    "arrows": "rotary-bias-arrows",
    "why": "why-smollm2",
}
DRAWN = "_build/.figures"


def scripts(name: str) -> list[str]:
    """Return the scripts of a viewer, in the order in which a page loads them.

    >>> scripts("sentence")
    ['play/play.js', 'play/transformer.js', 'play/sentence.js']
    """
    return [f"{FOLDER}/{file}" for file in ("play.js", *SCRIPTS[name])]


def place(name: str, start: dict) -> str:
    """Return the element that a viewer fills; ``start`` is its first state.

    >>> place("sentence", {"head": 3})
    '<div class="play" id="play-sentence" data-play="sentence" data-start="{&quot;head&quot;: 3}" hidden></div>'
    """
    return (
        f'<div class="play" id="play-{name}" data-play="{name}" data-start="{html.escape(json.dumps(start))}" '
        "hidden></div>"
    )


class Viewer(SphinxDirective):
    """A figure: the static picture, the place of the viewer, the caption."""

    required_arguments, has_content = 1, True
    option_spec: ClassVar = {"name": directives.unchanged_required, "alt": directives.unchanged_required}

    def run(self):
        """Draw the static picture and lay the viewer beside it."""
        (name,) = self.arguments
        if name not in SCRIPTS:
            raise self.error(f"there is no viewer {name!r}; known: {', '.join(SCRIPTS)}")
        if missing := [option for option in self.option_spec if not self.options.get(option)]:
            raise self.error(f"the viewer {name} lacks {' and '.join(missing)}")
        others = getattr(self.env, "viewers", {})
        self.env.viewers = {**others, self.env.docname: [*others.get(self.env.docname, []), name]}
        label = self.options["name"]
        start = draw(name, Path(self.env.srcdir) / DRAWN / label)
        caption = nodes.caption("", "", *self.inline(" ".join(self.content)))
        caption.source, caption.line = self.state_machine.get_source_and_line(self.lineno)
        figure = nodes.figure(
            "",
            nodes.image(uri=f"/{DRAWN}/{label}.svg", alt=self.options["alt"]),
            nodes.raw("", place(name, start), format="html"),
            caption,
            classes=["align-default"],
        )
        figure["names"].append(label)
        self.state.document.note_explicit_target(figure, figure)
        return [figure]

    def inline(self, text: str) -> list[nodes.Node]:
        """Parse a line of MyST."""
        parsed, messages = self.state.inline_text(text, self.lineno)
        return [*parsed, *messages]


def draw(name: str, path: Path) -> dict:
    """Draw the static picture of a viewer beside ``path``, as SVG and with its data; return its first state."""
    from analysis.plotting.figure_data import bundle

    drawn, start = {
        "sentence": sentence,
        "mixer": mixer,
        "atlas": atlas,
        "dial": dial,
        "switches": switches,
        "cone": cone,
        "score": score,
        "sink": sink,
        "arrows": arrows,
        "pattern": pattern,
        "why": why,
    }[name]()
    path.parent.mkdir(parents=True, exist_ok=True)
    drawn.savefig(path.with_suffix(".svg"), format="svg", metadata={"Date": None})
    for ending, packed in bundle(drawn).items():
        path.with_suffix(f".{ending}").write_bytes(base64.b64decode(packed))
    return start


def sentence() -> tuple[Figure, dict]:
    """Draw one sentence in gpt2-mini."""
    from book.viewers import sentence as viewer

    parts, weights, start = viewer.take_apart()
    return viewer.draw(parts, weights), start


def mixer() -> tuple[Figure, dict]:
    """Draw one query of GPT-2's first layer, by the record of it."""
    from book.viewers import mixer as viewer

    return viewer.draw(experiments.load(RECORDS["mixer"])), viewer.start()


def atlas() -> tuple[Figure, dict]:
    """Draw every head of MiniLM on one sentence."""
    from book.viewers import atlas as viewer

    return viewer.draw(viewer.first_sentence(experiments.load(RECORDS["atlas"]))), viewer.START


def dial() -> tuple[Figure, dict]:
    """Draw one head of MiniLM at a few dials."""
    from book.viewers import dial as viewer

    return viewer.draw(experiments.load(RECORDS["dial"])), viewer.start()


def switches() -> tuple[Figure, dict]:
    """Draw the spread of MiniLM's vectors and of its controls', whole and without one part."""
    from book.viewers import switches

    return switches.draw(experiments.load(RECORDS["switches"])), switches.START


def cone() -> tuple[Figure, dict]:
    """Draw the rows of MiniLM and of random weights in space, after the last layer."""
    from book.viewers import cone as viewer

    return viewer.draw(viewer.unit_rows(experiments.load(RECORDS["cone"])), [*viewer.SHOWN.values()]), viewer.START


def score() -> tuple[Figure, dict]:
    """Draw the four parts of the scores between two words, which are 0 and 1 in the coordinate that the head reads."""
    from analysis import draw_equation

    start = {"wq": 2, "bq": 1, "wk": 1, "bk": 3}
    word, one = np.array([[0.0], [1.0]]), np.ones((2, 1))
    queries, keys = (start["wq"] * word, start["bq"] * one), (start["wk"] * word, start["bk"] * one)
    parts = [queries[q] @ keys[k].T for q, k in ((0, 0), (1, 0), (0, 1), (1, 1))]
    titles = ["score", "content", "semi-bias", "query side", "constant"]
    names = {"rows": ["A looks", "B looks"], "columns": [["at A", "at B"]] * 5}
    return draw_equation([sum(parts), *parts], "=+++", titles, kind="scores", **names), start


def sink() -> tuple[Figure, dict]:
    """Draw one row of one map of MiniLM, by the record of it."""
    from book.viewers import sink

    return sink.draw(experiments.load(RECORDS["sink"]))


def arrows() -> tuple[Figure, dict]:
    """Draw one head's kernel as arrows laid end to end."""
    from book.viewers import arrows as viewer

    return viewer.draw(experiments.load(RECORDS["arrows"])), viewer.START


def pattern() -> tuple[Figure, dict]:
    """Draw what each of three words looks for, in a plane, with discs as large as the attention that the words get."""
    from analysis.plotting import style

    words, bias = {"a": (1.0, 0.0), "b": (0.0, 1.0), "c": (1.0, 1.0)}, 1.0
    places = np.array(list(words.values()))
    figure, axes = style.new(1, 3, size="wide", sharex=True, sharey=True)
    for panel, name, (first, _) in zip(axes, words, places, strict=True):
        own = 2 * first
        weights = np.exp((own + bias) * places[:, 1])
        panel.scatter(*places.T, s=600 * weights / weights.sum(), color=style.COLOURS["token"], alpha=0.6)
        for word, (x, y) in words.items():
            panel.annotate(word, (x, y), (10, -3), textcoords="offset points")
        for low, high, part in ((0, own, "content"), (own, own + bias, "semi_bias")):
            if high > low:
                arrow = {"arrowstyle": "->", "color": style.COLOURS[part], "lw": 2, "shrinkA": 0, "shrinkB": 0}
                panel.annotate("", (0, high), (0, low), arrowprops=arrow)
        panel.set(title=f"{name} looks for (0, {own + bias:.0f})", xlim=(-0.4, 1.5), ylim=(-0.4, 3.2), xticks=[0, 1])
        panel.set(xlabel="first number", yticks=range(4))
    axes[0].set_ylabel("second number")
    return figure, {"word": "b", "bias": True}


def why() -> tuple[Figure, dict]:
    """Draw where one word of a sentence looks in SmolLM2."""
    from book.viewers import why as viewer

    return viewer.draw(experiments.load(RECORDS["why"])), viewer.START


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
            write_atomically(Path(app.outdir) / "_static" / FOLDER / f"{record}.js", record_script.script(record))


def setup(app):
    """Register the directive and the events."""
    app.add_directive("viewer", Viewer)
    app.connect("html-page-context", add_scripts)
    app.connect("build-finished", write_models)
    return {"version": "1", "parallel_read_safe": False, "parallel_write_safe": True}
