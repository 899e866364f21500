"""The real reference gene, from NCBI, where the user allows the network; its clades are then invented around it."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from urllib.request import urlopen

from book.lab.dna.fasta import read_fasta
from book.lab.dna.simulate import STOPS

ACCESSION = "NC_045512.2"
FIRST, LAST = 21563, 25384
"""Genome positions of the spike gene's first and last base, counted from 1."""
ADDRESS = (
    "https://eutils.ncbi.nlm.nih.gov/entrez/eutils/efetch.fcgi?db=nuccore&rettype=fasta&retmode=text"
    f"&id={ACCESSION}&seq_start={FIRST}&seq_stop={LAST}"
)


def fetch_reference(download: bool | None = None, *, opener: Callable = urlopen) -> str:
    """Download the spike gene of the SARS-CoV-2 reference genome and check that it is a gene of that length.

    Parameters
    ----------
    download
        Whether the network may be asked; default: whether ``ANALYSIS_DOWNLOAD`` is ``1``.
    opener
        Address and ``timeout`` to a readable context manager; for tests.

    References
    ----------
    NCBI Nucleotide, Wuhan-Hu-1, positions 21563 to 25384.
    """
    if not (os.environ.get("ANALYSIS_DOWNLOAD") == "1" if download is None else download):
        raise PermissionError(
            f"{ACCESSION} is downloaded from NCBI only where that is allowed: give --download, "
            "or set ANALYSIS_DOWNLOAD=1"
        )
    with opener(ADDRESS, timeout=60) as answer:
        content = answer.read(2**20)  # the gene takes 4 kB
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "reference.fasta"
        path.write_bytes(content)
        genes = read_fasta(path)
    bases = genes[0].bases
    codons = [bases[i : i + 3] for i in range(0, len(bases), 3)]
    whole = len(genes) == 1 and len(bases) == LAST - FIRST + 1 and not set(bases) - set("ACGT")
    if not (whole and codons[0] == "ATG" and sum(c in STOPS for c in codons) == 1 and codons[-1] in STOPS):
        raise ValueError(
            f"NCBI's answer for {ACCESSION}, {FIRST}-{LAST}, is not the spike gene: "
            f"{len(genes)} records, {len(bases)} bases in the first"
        )
    return bases
