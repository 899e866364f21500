"""The static pictures of the explorables, and their first states: one file a picture."""
