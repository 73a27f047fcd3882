"""Commands for many machines and processes: parts of a run, putting them together, scripts."""
