"""Products of weights as matrices: singular values, rank, symmetry, how far rows are stretched."""
