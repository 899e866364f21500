"""The study behind the page semi-bias."""
