"""The study behind the page patterns-and-messages."""
