"""What the book's explorables show at first: their static pictures and first states, one module an explorable."""
