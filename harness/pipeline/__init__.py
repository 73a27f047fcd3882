"""Runs: options to a plan, a plan to answers and verdicts, these to scores.

Read `resolve` first, then `execute` and `score`: names and options become a `RunPlan`, every
request goes through a `CachedClient`, and the results are `SampleRecord`s. `plan` and `walk` say
what is asked; `preview` and `dry_run` end before anything is asked. After `resolve` nothing knows
a workspace or a registry, and no module knows a back end.
"""
