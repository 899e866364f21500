"""The same computations rewritten exactly: parts of scores, merged matrices, folded biases."""
