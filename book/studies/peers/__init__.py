"""The study behind the page peers."""
