"""The adapter beside TransformerLens: seconds, memory and numbers, for families that both read.

``make bench`` runs it in the environment that ``make peers`` makes, and leaves it out where there is none.
"""

import numpy as np
import pytest

from book.studies.peers import packages

ROOM = 20  # times TransformerLens, which checks nothing and copies nothing that is not asked for


@pytest.mark.slow
def test_the_adapter_reads_what_transformer_lens_reads(tmp_path, capsys):
    if absent := packages.EXPERIMENT.missing():
        pytest.skip(f"the comparison with peers needs {', '.join(absent)}")
    ways, found = ("ours", "transformer_lens"), {}
    for way in ways:
        found[way] = packages.measure_way("families", way, "time", tmp_path / f"{way}.npy")
        found[way] |= packages.measure_way("families", way, "memory", tmp_path / f"{way}.npy")
    ours, theirs = (np.load(tmp_path / f"{way}.npy", allow_pickle=False) for way in ways)
    with capsys.disabled():
        print()
        for way in ways:
            print(f"heads of five models, {way:17} {found[way]['seconds']:.3g} s, {found[way]['megabytes']:.0f} MB")
        print(f"largest difference of a number: {np.abs(ours - theirs).max():.0e}")
    assert np.array_equal(ours, theirs)
    assert np.abs(ours).max() > 0
    assert found["ours"]["seconds"] < ROOM * found["transformer_lens"]["seconds"]
    assert found["ours"]["megabytes"] < 2 * found["transformer_lens"]["megabytes"] + 50
