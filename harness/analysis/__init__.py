"""Stored runs to what a reader sees; a row of a table is the noun. It asks no model.

Begin with `pairings` (one judge's scores of a run, and two of them side by side), then one module a
question. `verify` and `published/` recompute the numbers of papers.
"""
