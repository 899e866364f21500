"""Gene sequences for the case study: read (``fasta``), cut (``kmers``), make (``simulate``), part (``splits``) them.

Nothing here knows of a model; training is in :mod:`book.lab.training.dna_classifier`.
"""
