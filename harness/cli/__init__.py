"""The command line: options in, exit code out; the only place that prints."""

from harness.cli.app import main

__all__ = ["main"]
