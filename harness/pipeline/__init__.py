"""Runs: options to a plan, a plan to answers and verdicts, these to scores.

Read `resolve` first, then `execute` and `score`: names and options become a `RunPlan`, every
request goes through a `CachedClient`, and the results are `SampleRecord`s. `setup` builds models
and judges, `plan` and `walk` say what is asked, and `preview` ends before anything is. After
`resolve` nothing knows a workspace or a registry, and no module knows a back end.
"""
