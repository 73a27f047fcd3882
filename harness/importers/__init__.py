"""Answers that other programs stored to judged runs: each format is a module in `formats`.

A format gives answers, each to a sample under a variant (record); `run` makes a run of them.
"""
