"""Texts to texts, values and messages; no file formats, models or runs."""
