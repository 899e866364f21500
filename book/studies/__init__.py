"""The code behind the pages: one package for each chapter, with what it measures, draws and claims.

``book/studies/<chapter>/measure.py`` computes everything that the page shows, once; ``figures.py`` draws it;
``claims`` judges the documents' claims by it, one function for each claim. Other modules of a study measure one thing
each and are named after it, or are experiments, whose results are recorded. A study never imports another; what two of
them share lies in ``shared``.
"""
