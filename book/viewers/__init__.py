"""Static pictures and first states of the explorables, one module each."""
