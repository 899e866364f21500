"""Drawing: figure functions take arrays and return a Figure; nothing is computed or shown here."""
