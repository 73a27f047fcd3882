"""Runs: options to a plan, a plan to answers and verdicts, these to scores."""
