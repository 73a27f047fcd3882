"""Judges: cases to verdicts, one module a way of judging."""
