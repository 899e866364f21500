"""What the simulator does to bases, and lineages rebuilt from a table: on data small enough to see."""

import gzip

import numpy as np
import pytest

from book.lab.dna import simulate
from book.lab.dna.fasta import GAP


def spoil(runs, singles, seed, length=3822):
    bases = np.full(length, ord("A"), np.uint8)
    return simulate._spoilt(bases, runs, singles, np.random.default_rng(seed)) == ord("N")


def stretches(marked):
    """Return the lengths of the runs of marks."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], marked.astype(int), [0]])))
    return (edges[1::2] - edges[::2]).tolist()


def test_a_run_of_n_is_one_of_10_to_200():
    found = [stretches(spoil(1.0, 0.0, seed)) for seed in range(300)]
    assert all(len(lengths) == 1 for lengths in found)
    whole = [lengths[0] for seed, lengths in enumerate(found) if not spoil(1.0, 0.0, seed)[-1]]
    assert 10 <= min(whole) < 20
    assert 190 < max(whole) <= 200
    assert np.mean(whole) == pytest.approx(105, abs=10)


def test_runs_come_as_often_as_asked_and_never_unasked():
    assert np.mean([spoil(0.25, 0.0, seed).any() for seed in range(1200)]) == pytest.approx(0.25, abs=0.04)
    assert not any(spoil(0.0, 0.0, seed).any() for seed in range(50))


def test_single_ns_are_scattered_and_as_many_as_asked():
    found = [spoil(0.0, 4.0, seed) for seed in range(400)]
    counts = [marked.sum() for marked in found]
    assert np.mean(counts) == pytest.approx(4.0, rel=0.08)
    assert np.var(counts) == pytest.approx(4.0, rel=0.25)  # Poisson
    assert max(length for marked in found for length in stretches(marked)) <= 3
    places = np.concatenate([np.flatnonzero(marked) for marked in found])
    assert np.histogram(places, 6, (0, 3822))[0] == pytest.approx(len(places) / 6, rel=0.25)


def test_simulated_sequences_have_runs_and_single_ns():
    genes = list(simulate.simulate(simulate.invent_backbones(0), 800, seed=5))
    longest = [max(map(len, "".join(c if c == "N" else " " for c in gene.bases).split()), default=0) for gene in genes]
    assert np.mean([n >= 10 for n in longest]) == pytest.approx(0.08, abs=0.03)
    assert np.mean([0 < n < 10 for n in longest]) == pytest.approx(1 - np.exp(-0.3), abs=0.06)


def test_spectrum_has_its_second_kind_too():
    template = simulate.invent_backbones(0)[0]
    counts = {}
    for gene in simulate.simulate([template], 600, runs=0.0, singles=0.0, clades=1, shared=0.0, private=5.0):
        for a, b in zip(template.aligned, gene.aligned):
            if a != b:
                counts[a + b] = counts.get(a + b, 0) + 1
    assert sum(counts.values()) / 600 == pytest.approx(5.0, rel=0.1)
    shares = {kind: count / sum(counts.values()) for kind, count in counts.items()}
    assert sorted(shares, key=shares.get)[-2:] == ["GT", "CT"]
    for kind, due in simulate.SPECTRUM.items():
        assert shares.get(kind, 0) == pytest.approx(due, abs=0.035), kind


REFERENCE = "ATGAAACCCGGGTTTACGTAA"
FIRST = 21563
ROWS = {  # name: class, substitutions, deletions, insertions, bases
    "B.1": ("Mu", "", "", "", REFERENCE),
    "B.2": ("Beta", f"A{FIRST + 3}T,C{FIRST + 8}G", "", "", "ATGTAACCGGGGTTTACGTAA"),
    "B.3": ("Beta", "", f"{FIRST + 6}-{FIRST + 8},{FIRST + 20}", "", "ATGAAAGGGTTTACGTA"),
    "B.4": ("Alpha", f"G{FIRST + 2}C", f"{FIRST + 12}-{FIRST + 14}", f"{FIRST + 5}:CAT", "ATCAAACATCCCGGGACGTAA"),
    "B.5": ("Alpha", "", "", f"{FIRST + 5}:C,{FIRST + 17}:GG", "ATGAAACCCCGGGTTTACGGGTAA"),
}


def write_folder(folder, rows=ROWS, columns=simulate.COLUMNS):
    (folder / "reference_S.fasta").write_text(f">reference\n{REFERENCE}\n")
    fasta = "".join(f">{name} class={row[0]}\n{row[4]}\n" for name, row in rows.items())
    (folder / "lineages_S.fasta.gz").write_bytes(gzip.compress(fasta.encode()))
    lines = ["\t".join(columns)]
    for name, (label, *changes, _) in rows.items():
        cells = dict(zip(("class", "lineage", "substitutions", "deletions", "insertions"), (label, name, *changes)))
        lines.append("\t".join(cells[column] for column in columns))
    (folder / "lineages.tsv").write_text("\n".join(lines) + "\n")
    return folder


def test_lineages_are_rebuilt_and_aligned(tmp_path):
    found = {b.name: b for b in simulate.read_backbones(write_folder(tmp_path))}
    assert {name: b.label for name, b in found.items()} == {name: row[0] for name, row in ROWS.items()}
    assert {name: b.aligned.replace(GAP, "") for name, b in found.items()} == {n: row[4] for n, row in ROWS.items()}
    # columns: six bases, three for the longest insertion, twelve bases, two more of an insertion, three bases
    assert found["B.1"].aligned == "ATGAAA---CCCGGGTTTACG--TAA"
    assert found["B.2"].aligned == "ATGTAA---CCGGGGTTTACG--TAA"
    assert found["B.3"].aligned == "ATGAAA------GGGTTTACG--TA-"
    assert found["B.4"].aligned == "ATCAAACATCCCGGG---ACG--TAA"
    assert found["B.5"].aligned == "ATGAAAC--CCCGGGTTTACGGGTAA"


def test_a_table_in_another_order_of_columns_says_the_same(tmp_path):
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    one = simulate.read_backbones(write_folder(tmp_path / "one"))
    assert simulate.read_backbones(write_folder(tmp_path / "two", columns=simulate.COLUMNS[::-1])) == one


def test_a_lineage_that_differs_from_its_sequence_is_refused(tmp_path):
    wrong = {**ROWS, "B.2": (*ROWS["B.2"][:4], REFERENCE)}
    with pytest.raises(ValueError, match=r"B\.2 rebuilt from lineages.tsv differs"):
        simulate.read_backbones(write_folder(tmp_path, wrong))


def test_a_table_without_a_column_is_refused(tmp_path):
    write_folder(tmp_path)
    table = (tmp_path / "lineages.tsv").read_text().replace("deletions", "gaps")
    (tmp_path / "lineages.tsv").write_text(table)
    with pytest.raises(ValueError, match="lacks the column 'deletions'"):
        simulate.read_backbones(tmp_path)
