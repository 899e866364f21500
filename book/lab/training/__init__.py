"""Training the small models of the book from scratch, on the text and the sequences at hand.

:mod:`.loop` is the one training loop: seeded by step, resumable, atomic. Beside it, one module per model: its
architecture, its batches, its loss, what it writes. What is measured along the way is given from above as a *probe*,
since nothing here imports the mathematics.
"""
