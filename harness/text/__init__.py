"""Texts to texts, values and messages; no file formats, models or runs.

Prompts become messages (prompts), replies become values (parsers, cleanup), texts are compared by
their words (dedup) and changed by word lists (words, edits). Read `prompts.py` first. Nothing here
knows a task or asks a model.
"""
