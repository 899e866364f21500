"""What a page depends on, where a name comes from the library's face."""

from book.publish import dependencies
from book.publish.execution import ROOT


def test_a_page_that_imports_from_the_face_depends_on_the_module_behind_it():
    files = dependencies.reachable(dependencies.imported("from analysis import score_terms"), ROOT)
    assert ROOT / "analysis" / "decomposition" / "terms.py" in files
    assert ROOT / "analysis" / "maps" / "entropy.py" not in files
