"""To be written in the next commit."""
