"""The book's scripts outside a browser, in Node where there is one: Sphinx's search and the filter of the claims."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
import sphinx

ASSETS = Path(__file__).parents[3] / "book" / "assets"
SEARCH_TOOLS = Path(sphinx.__file__).parent / "themes" / "basic" / "static" / "searchtools.js"
pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="there is no Node")

PAGE = """
globalThis.addEventListener = () => {};
globalThis.location = { protocol: "http:" };
globalThis.document = { readyState: "loading", addEventListener() {} };
globalThis.DOCUMENTATION_OPTIONS = {};
globalThis.localStorage = { getItem() { return null }, removeItem() {} };
globalThis.stopwords = [];
globalThis._ready = () => {};
globalThis.Stemmer = class { stemWord(word) { return word; } };
"""
INDEX = {
    "docnames": ["a", "b"],
    "filenames": ["a.md", "b.md"],
    "titles": ["A", "B"],
    "alltitles": {},
    "indexentries": {},
    "objects": {},
    "objnames": {},
    "terms": {"head": [0, 1], "constructor-like": 1},
    "titleterms": {"gate": 0},
}
FORM = """
const form = { elements: {
  document: { value: "?", options: ["", "k", "b"].map(value => ({ value })) },
  verdict: { value: "?", options: ["", "reproduced", "not-reproduced"].map(value => ({ value })) },
  chapter: { value: "?", options: ["", "semi-bias"].map(value => ({ value })) },
  words: { value: "?" },
  order: { value: "?", options: ["", "documents"].map(value => ({ value })) } },
  addEventListener() {}, hidden: true, querySelector: () => ({}) };
globalThis.document = { querySelector: () => form, querySelectorAll: () => [] };
globalThis.FormData = class { *[Symbol.iterator]() {
  for (const [name, field] of Object.entries(form.elements)) yield [name, field.value];
} };
globalThis.history = { replaceState() {} };
"""


def run(*parts: str):
    done = subprocess.run(["node", "-e", "\n".join(parts)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("word", "pages"),
    [
        ("constructor", ["b"]),
        ("__proto__", []),
        ("valueof", []),
        ("hasownproperty", []),
        ("head", ["a", "b"]),
        ("gate", ["a"]),
        ("hea", ["a", "b"]),
    ],
)
def test_any_word_can_be_searched_for(word, pages):
    found = run(
        PAGE,
        SEARCH_TOOLS.read_text(),
        (ASSETS / "search-page.js").read_text(),
        f"Search.setIndex({json.dumps(INDEX)});",
        f"const found = Search.performTermsSearch(new Set([{json.dumps(word)}]), new Set());",
        "console.log(JSON.stringify(found.map(result => result[0])));",
    )
    assert sorted(found) == pages


@pytest.mark.parametrize(
    ("address", "chosen"),
    [
        ("", ["", "", "", "", ""]),
        ("?document=K", ["k", "", "", "", ""]),
        ("?document=k&words=(3.4)", ["k", "", "", "(3.4)", ""]),
        ("?verdict=Not+reproduced&order=documents", ["", "not-reproduced", "", "", "documents"]),
        ("?chapter=semi-bias", ["", "", "semi-bias", "", ""]),
        ("?document=Z&verdict=true&chapter=none&order=none", ["", "", "", "", ""]),
    ],
)
def test_the_address_fills_the_filter(address, chosen):
    assert chosen == run(
        FORM,
        f"globalThis.location = {{ search: {json.dumps(address)}, pathname: '', hash: '' }};",
        (ASSETS / "claims-filter.js").read_text(),
        "console.log(JSON.stringify(Object.values(form.elements).map(field => field.value)));",
    )


@pytest.mark.parametrize(
    ("hash_", "chosen", "hidden"),
    [
        ("#K-15", ["", "", "", "", ""], [False, False]),
        ("#claim-k-15", ["", "", "", "", ""], [False, False]),
        ("#M-02", ["m", "", "", "", ""], [True, False]),
        ("", ["m", "", "", "", ""], [True, False]),
        ("#nothing", ["m", "", "", "", ""], [True, False]),
        ("#%E0%A4%A", ["m", "", "", "", ""], [True, False]),
    ],
)
def test_a_claim_that_the_address_leads_to_is_shown_whatever_the_filter_hides(hash_, chosen, hidden):
    rows = """
const row = (id, letter) => ({ hidden: false, textContent: id, id: `claim-${id.toLowerCase()}`,
  classList: { contains: name => name === `document-${letter}` }, scrollIntoView() {} });
const rows = [row("K-15", "k"), row("M-02", "m")];
form.elements.document.options.push({ value: "m" });
globalThis.document.querySelectorAll = what => what === "tr.claim-row" ? rows : [];
"""
    found = run(
        FORM,
        rows,
        f"globalThis.location = {{ search: '?document=M', pathname: '', hash: {json.dumps(hash_)} }};",
        (ASSETS / "claims-filter.js").read_text(),
        "console.log(JSON.stringify([Object.values(form.elements).map(f => f.value), rows.map(row => row.hidden)]));",
    )
    assert found == [chosen, hidden]
