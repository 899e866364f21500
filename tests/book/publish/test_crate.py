"""The description of the built book for archives and programs."""

from pathlib import Path

from book.publish import crate

CITATION = Path(__file__).parents[3] / "CITATION.cff"


def test_what_the_crate_names_is_described_and_is_there(tmp_path):
    (tmp_path / "index.html").touch()
    (tmp_path / "ledger.json").touch()
    graph = crate.describe(tmp_path, CITATION)["@graph"]
    entities = {entity["@id"]: entity for entity in graph}
    assert len(entities) == len(graph)
    root = entities["./"]
    assert entities[crate.NAME]["about"] == {"@id": "./"}
    assert [part["@id"] for part in root["hasPart"]] == ["index.html", "ledger.json"]
    for link in (*root["hasPart"], *root["author"], root["license"]):
        assert entities[link["@id"]]["name"]
    assert f'"{root["datePublished"]}"' in CITATION.read_text(encoding="utf-8")
    assert entities["ledger.json"]["conformsTo"] == {"@id": "ledger.schema.json"}
