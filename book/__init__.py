"""The book: its pages, the studies behind them (``book.studies``) and what publishes both (``book.publish``)."""
