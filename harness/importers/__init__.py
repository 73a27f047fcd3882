"""Answers that other programs stored to judged runs: each format is a module in `formats`."""
