"""Answers that other programs stored to judged runs: each format is a module in `formats`.

Read `import_files.py` first: it chooses the format, finds the sample of each answer (record,
lookup), and joins earlier imports. Nothing here asks a model.
"""
