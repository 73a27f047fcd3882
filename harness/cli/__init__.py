"""The command line: options in, tables or JSON and an exit code out; the only place that prints.

Read app.py first: its table names each command's function. Commands only pass options on to
lower packages and print what these return; they know nothing of files' formats or of providers.
"""

from harness.cli.app import main

__all__ = ["main"]
