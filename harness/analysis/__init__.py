"""Stored runs to what a reader sees: leaderboards, agreement with people, comparisons, pictures.

The noun is the table row. Begin with `pairings` (one judge's scores of a run, and two of them side
by side), then one module a question: `compare`, `leaderboard`, `agreement` (over `panels`),
`curves`, `profile`; `figures` draws. `verify` and `published/` recompute the numbers of papers. It
must not ask a model, and every statistic is one of `harness.stats`.
"""
