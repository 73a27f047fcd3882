"""Models: requests become responses, from a server, from weights on this machine, or by a rule.

Read `scripted` first, the smallest model; then `client`, which calls and stores. `openai` and
`anthropic` are hosted, `local` runs weights, `encoders` turn texts into vectors. A model knows
requests alone: no task, judge or score.
"""
