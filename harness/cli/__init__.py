"""The command line: options in, tables or JSON and an exit code out; app.py has all commands."""

from harness.cli.app import main

__all__ = ["main"]
