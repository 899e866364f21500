"""What the built book is, as an RO-Crate: https://www.researchobject.org/ro-crate/1.1/.

The description, ``ro-crate-metadata.json``, lies beside the pages and names what an archive or a program may want of
them: the ledger with its schema, the whole book on one page, the licence and how to cite it.
"""

from pathlib import Path

import yaml

NAME = "ro-crate-metadata.json"
FILES = {
    "index.html": ("The first page", "text/html"),
    "one-page.html": ("The whole book on one page", "text/html"),
    "ledger.json": ("Claims of five documents about attention, with verdicts and evidence", "application/json"),
    "ledger.schema.json": ("The schema of ledger.json", "application/schema+json"),
}


def describe(folder: Path, citation: Path) -> dict:
    """Return the description of the book built in a folder, of which it names the files that are there."""
    cited = yaml.safe_load(citation.read_text(encoding="utf-8"))
    files = [
        {"@id": name, "@type": "File", "name": said, "encodingFormat": kind}
        for name, (said, kind) in FILES.items()
        if (folder / name).exists()
    ]
    for file in files:
        if file["@id"] == "ledger.json":
            file["conformsTo"] = {"@id": "ledger.schema.json"}
    licence = {
        "@id": f"https://spdx.org/licenses/{cited['license']}",
        "@type": "CreativeWork",
        "name": cited["license"],
    }
    authors = [{"@id": f"#author-{k}", "@type": "Organization", **who} for k, who in enumerate(cited["authors"])]
    root = {
        "@id": "./",
        "@type": "Dataset",
        "name": cited["title"],
        "description": cited["abstract"],
        "version": cited["version"],
        "datePublished": str(cited["date-released"]),
        "keywords": cited["keywords"],
        "license": {"@id": licence["@id"]},
        "author": [{"@id": author["@id"]} for author in authors],
        "hasPart": [{"@id": file["@id"]} for file in files],
    }
    descriptor = {
        "@id": NAME,
        "@type": "CreativeWork",
        "conformsTo": {"@id": "https://w3id.org/ro/crate/1.1"},
        "about": {"@id": "./"},
    }
    return {
        "@context": "https://w3id.org/ro/crate/1.1/context",
        "@graph": [descriptor, root, *files, licence, *authors],
    }
