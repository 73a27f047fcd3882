"""The errors that a user can mend (a message names fact, value and remedy), and the exit codes."""

import difflib
from collections.abc import Collection, Iterable, Mapping
from enum import IntEnum
from typing import Final

MOST_NAMES = 20
LEFT_OUT: Final[Mapping[str, object]] = {"is_once": True, "is_missing": True}
"""The `extra` of a warning of what is left out: shown once, and the exit code is not DONE."""


class HarnessError(Exception):
    """An error that a user can mend; the command line shows its message without a traceback."""


class SpecError(HarnessError):
    """A name, a YAML file, a template or an option is wrong."""


class DataError(HarnessError):
    """A data file is missing, unreadable or not in the format that its reader expects."""


class StoreError(HarnessError):
    """A stored file is damaged, missing or cannot be written."""


class ModelError(HarnessError):
    """A model or its server cannot be reached, loaded or used for what is asked."""


class NoServerError(ModelError):
    """No server of a model can be reached."""


class BudgetReached(HarnessError):
    """The next call could exceed the command's budget; what is stored stays."""


def of_model(name: str, error: object) -> str:
    """An error's message behind `model NAME:`, which it may begin with already."""
    message, head = str(error), f"model {name}"
    return message if message.startswith((f"{head}:", f"{head} ")) else f"{head}: {message}"


def install(extra: str) -> str:
    """The command that installs an extra: the package is on no index, so from its folder."""
    return f'pip install -e ".[{extra}]" in the folder of this program'


def did_you_mean(name: str, known: list[str], listing: str = "") -> str:
    """The end of an error message: up to three close names, else known ones; or how to list all."""
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    facts = [f"did you mean {' or '.join(close)}?"] if close else []
    more = len(known) - MOST_NAMES
    if not (close and listing):
        names = ", ".join(sorted(known)[:MOST_NAMES]) or "none"
        facts.append(f"known: {names}{f' and {more} more' if more > 0 else ''}")
    if listing and (close or more > 0):
        facts.append(f"(`{listing}` lists all)")
    return f"; {' '.join(facts)}"


def check_names(
    fact: str,
    names: Iterable[str],
    known: Collection[str],
    *,
    then: str = "",
    error: type[Exception] = SpecError,
) -> None:
    """Raise an error for the first unknown name: the fact, the name, `then`, what is known."""
    for name in names:
        if name not in known:
            raise error(f"{fact} {name!r}{then}{did_you_mean(name, [*known])}")


class ExitCode(IntEnum):
    """How a command ended, for the shell."""

    DONE = 0
    DONE_WITH_MISSING = 1
    CHECK_FAILED = 1  # the same code: the command ran, and its result is not all that was wanted
    USER_MISTAKE = 2
    REGRESSION = 3  # of `compare --gate`: a greater drop than allowed
    INCONCLUSIVE = 4  # of `compare --gate`: these items cannot decide
    OUR_BUG = 70
    INTERRUPTED = 130  # or out of budget: the same command resumes

    @classmethod
    def of(cls, has_missing: object) -> "ExitCode":
        """DONE, or DONE_WITH_MISSING where anything is missing."""
        return cls.DONE_WITH_MISSING if has_missing else cls.DONE
