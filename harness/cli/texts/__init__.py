"""The commands on tables of texts: before a run, and after it."""
