"""Stored runs to what a reader sees: leaderboards, agreement with people, comparisons, pictures.

The noun is the table row. Begin with `stored_runs` and `run_views` (one judge's scores of a run),
then one module a question: `leaderboard`, `agreement` (over `panels`), `compare` (over
`pairings`), `curves`, `profile`, `robustness`. `verify` and `published/` recompute the numbers of
papers. It must not ask a model, and every statistic is one of `harness.stats`.
"""
