"""One source of published numbers a module: its files to the values that `verify` compares."""
