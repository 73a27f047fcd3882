"""Files of one data set to samples, one module for each layout; `read` is its only entry.

Read `samples_jsonl.py` first. A reader changes no text and guesses nothing; it raises DataError.
"""
