"""The error tree: what can go wrong outside our own code, by whose hand it is mended.

Every message names the fact, the value and the remedy. Nothing here formats or prints.
"""

import difflib


class HarnessError(Exception):
    """Something a person can mend; the command line shows its message without a traceback."""


class SpecError(HarnessError):
    """A name, a YAML file, a template or an option is wrong."""


class DataError(HarnessError):
    """A data file is missing, unreadable or not of the form its reader knows."""


class StoreError(HarnessError):
    """Stored evidence is damaged, absent or cannot be written."""


class ModelError(HarnessError):
    """A model or its server cannot be reached, loaded or used for what is asked."""


class BudgetReached(HarnessError):
    """The next call might cost more than a command may; what is stored stays."""


def did_you_mean(name: str, known: list[str]) -> str:
    """A sentence end that names the closest known names, and all of them where few."""
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    hint = f"; did you mean {' or '.join(close)}?" if close else ""
    return f"{hint or ';'} known: {', '.join(sorted(known)) or 'none'}"
