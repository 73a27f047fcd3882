"""Measures how well language models handle meaning beyond the literal."""

__version__ = "0.1.0"
