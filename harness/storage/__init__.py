"""Records to files that we keep, and back: the ledger of calls, run folders, tables, scores.

Read `ledger.py` first, then `runs.py`; `tables.py` reads any table, `files.py` writes whole files.
Nothing here asks a model, builds a prompt or computes a score.
"""
