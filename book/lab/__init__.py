"""What only this book needs: its trainings, gene sequences and documents, and what is measured for its records alone.

It stands on the library, as the studies do, and knows of no study and of no page.
"""
