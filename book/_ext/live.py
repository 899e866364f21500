"""Cells that live in the page: beside a cell tagged ``live`` the button "Change it", which starts a Python in the page.
The directive ``check`` gives an exercise code to complete, with the button "Try it"; ``live_check`` says what it holds.

That Python is Pyodide, from npm: the build fetches the pinned package once, holds it to its hash and writes it beside
the pages with the weights that cells ask for, as scripts, since a page opened from a file reads no other data. Where
the package can't be had, pages have no button. Nothing of it is read before a reader presses one.
"""

import base64
import contextlib
import gzip
import hashlib
import json
import re
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

from docutils import nodes
from safetensors.numpy import load_file

import analysis
from analysis.core.files import write_atomically
from book._ext import live_check
from book._ext.shared import Directive
from book.publish import execution

VERSION = "314.0.7"
HASH = "66b7949e5a0cba2250b586d7e368bf12fb482800748d182c4618254b685ffaa0"
ENGINE = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip")
ARCHIVE = f"pyodide-{VERSION}.tgz"
MODELS = {"gpt2": "gpt2-first-layer", "gpt2-mini": "gpt2-mini"}
READ = ("wpe", "wte", "ln_1", "attn")  # what the shim's layers are made of
MODULES = ("live_shim.py", "live_check.py")
CHECK = re.compile(r"^(`{3,})\{check\}\n(.*?)^\1\s*$", re.DOTALL | re.MULTILINE)
LICENCE = f"""engine.js holds Pyodide {VERSION} (pyodide.*, python_stdlib.zip), packed.
Copyright (C) the Pyodide contributors and Mozilla. Mozilla Public License 2.0: https://mozilla.org/MPL/2.0/
Unchanged, from https://registry.npmjs.org/pyodide/-/{ARCHIVE}; source: https://github.com/pyodide/pyodide
In it is CPython 3.14 and its standard library, copyright (C) 2001 Python Software Foundation, all rights reserved,
under the PSF License Version 2: https://docs.python.org/3.14/license.html
"""
LOADER = "live-buttons.js"
"""All that a page which is only read has of it."""


def archive(folder: Path = execution.BUILD / ".vendor") -> Path | None:
    """Return the pinned package, fetched if need be; ``None`` where it can't be had."""
    path = folder / ARCHIVE
    if not path.exists() and shutil.which("npm"):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as new, contextlib.suppress(subprocess.TimeoutExpired):
            command = ["npm", "pack", f"pyodide@{VERSION}", "--fetch-retries=0", "--pack-destination", new]
            if subprocess.run(command, cwd=new, capture_output=True, timeout=300, check=False).returncode == 0:
                Path(new, ARCHIVE).replace(path)
    if not path.exists():
        return None
    if (found := hashlib.sha256(path.read_bytes()).hexdigest()) != HASH:
        raise ValueError(f"{path} must be the pinned package, but its sha256 is {found}")
    return path


def packed(content: bytes) -> str:
    """Return bytes as a script may hold them: compressed, in base64."""
    return base64.b64encode(gzip.compress(content, 6, mtime=0)).decode()


def engine(path: Path) -> dict[str, str]:
    """Return Python's files and what its cells import, packed."""
    with tarfile.open(path) as tar:
        found = {name: tar.extractfile(f"package/{name}") for name in (*ENGINE, "pyodide-lock.json")}
        files = {name: file.read() for name, file in found.items() if file}
    files["pyodide-lock.json"] = json.dumps({**json.loads(files["pyodide-lock.json"]), "packages": {}}).encode()
    files |= {name: Path(__file__).with_name(name).read_bytes() for name in MODULES}
    return {name: packed(content) for name, content in files.items()}


def weights(name: str) -> dict[str, str]:
    """Return the parts of a bundled model that cells may ask for, each as 32-bit floats, packed."""
    stored = load_file(Path(analysis.__file__).parent / "bundled" / MODELS[name] / "model.safetensors")
    short = {key.removeprefix("transformer."): values for key, values in stored.items()}
    return {f"{name}.{key}": packed(x.tobytes()) for key, x in short.items() if set(key.split(".")) & set(READ)}


class Check(Directive):
    """Show the code that an exercise begins with; solution, tries and hints are read when the reader's is checked."""

    def run(self):
        """Return the code, as a cell of a notebook shows it."""
        start = "\n".join(self.content).split("\n---\n")[0]
        shown = nodes.container("", nodes.literal_block(start, start, language="python"), classes=["cell_input"])
        return [nodes.container("", shown, classes=["check", "tag_live"])]


def checks(text: str) -> dict[str, str]:
    """Return the checks of a page by the functions that they ask for."""
    blocks = [match[2] for match in CHECK.finditer(text)]
    return {live_check.functions(block)[0]: block for block in blocks}


def write(folder: Path, path: Path, blocks: dict[str, str]) -> None:
    """Write everything that live cells and checks load."""
    folder.mkdir(parents=True, exist_ok=True)
    parts = {"engine": engine(path)} | {name: part for model in MODELS for name, part in weights(model).items()}
    parts |= {f"check.{name}": block for name, block in blocks.items()}
    for name, part in parts.items():
        text = f"Live.files[{json.dumps(name)}] = {json.dumps(part)};\n"
        write_atomically(folder / f"{name}.js", text)
    write_atomically(folder / "LICENCE.txt", LICENCE)


def add_loader(app, pagename, templatename, context, doctree):
    """Give the stories that have cells the script that makes the buttons."""
    studied = pagename.replace("book/", "book/evidence/") in app.env.found_docs
    body = context.get("body", "")
    if doctree is not None and app.config.live_archive and ("tag_live" in body or (studied and "cell_input" in body)):
        app.add_js_file(LOADER, loading_method="defer")


def find_archive(app):
    """Look for the package before pages are written."""
    if app.config.live_archive is None:
        app.config.live_archive = str(archive() or "")


def write_engine(app, error):
    """Write Python and weights once the pages are there."""
    if error is None and app.builder.format == "html" and app.config.live_archive:
        pages = [Path(app.env.doc2path(page)) for page in app.env.found_docs]
        texts = [page.read_text(encoding="utf-8") for page in pages]
        blocks = {name: block for text in texts for name, block in checks(text).items()}
        write(Path(app.outdir) / "_static" / "live", Path(app.config.live_archive), blocks)


def setup(app):
    """Connect the above; ``live_archive`` is the package's file, or empty for pages without buttons."""
    app.add_config_value("live_archive", None, "html", (str, type(None)))
    app.add_directive("check", Check)
    app.connect("builder-inited", find_archive)
    app.connect("html-page-context", add_loader)
    app.connect("build-finished", write_engine)
