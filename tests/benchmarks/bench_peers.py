"""This package beside its peers: prints the table that the page shows, and holds the ways to each other's numbers.

``make bench`` runs it in the environment that ``make peers`` makes, and leaves it out where there is none.
"""

import pytest

from book.studies.peers import packages


@pytest.mark.slow
def test_peers_agree_and_what_each_costs(capsys):
    absent = packages.EXPERIMENT.missing()
    if absent:
        pytest.skip(f"the comparison with peers needs {', '.join(absent)}")
    with capsys.disabled():
        print()
        measured, versions = packages.measure(print)
        print(", ".join(f"{name} {version}" for name, version in versions.items()))
    assert set(measured) == {(task, way) for task, ways in packages.TASKS.items() for way in ways}
    for task in ("spectra", "semi_bias", "lilliefors"):
        for way in packages.TASKS[task][1:]:
            assert measured[task, "ours"]["seconds"] < measured[task, way]["seconds"]
    assert measured["maps", "ours"]["megabytes"] < measured["maps", "transformers"]["megabytes"]
    assert measured["viewer", "ours"]["hosts"] == 0
    assert measured["viewer", "ours"]["megabytes"] < measured["viewer", "bertviz"]["megabytes"]
