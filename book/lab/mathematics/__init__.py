"""Functions on plain tensors that only this book needs: proofs by exhaustion, counts, one paper's figures."""
