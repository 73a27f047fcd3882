"""Readers: rows of a released file to samples, one module a format."""
