"""Many cases of one rule: cheap ones within one test, costly ones mostly in the slow tests."""

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from reprlib import Repr
from typing import Any

import pytest

Test = Callable[..., None]
NOTES = Repr()
NOTES.maxstring = NOTES.maxother = 200


def each(
    names: str | tuple[str, ...], cases: Iterable[Any] | Callable[[], Iterable[Any]]
) -> Callable[[Test], Test]:
    """Try every case within one test, where pytest's parametrize makes a test of each.

    A case is the value of the one name, or a tuple with a value a name; a function gives the
    cases when the test runs, so that collecting tests stays cheap. All cases share the fixtures
    of the test, so a test that writes to its `tmp_path` or patches is no test for this.
    """
    keys = (names,) if isinstance(names, str) else names
    held = cases if callable(cases) else list(cases)

    def decorate(test: Test) -> Test:
        @wraps(test)
        def tried(**fixtures: object) -> None:
            listed = held() if callable(held) else held
            values = [(case,) if isinstance(names, str) else case for case in listed]
            failures: list[BaseException] = []
            for row in (dict(zip(keys, part, strict=True)) for part in values):
                try:
                    test(**fixtures, **row)
                except (Exception, pytest.fail.Exception) as failure:
                    failure.add_note(f"with {NOTES.repr(row)}")
                    failures.append(failure)
            if failures:
                raise BaseExceptionGroup(f"{len(failures)} of {len(values)} cases fail", failures)

        signature = inspect.signature(test)
        left = [part for name, part in signature.parameters.items() if name not in keys]
        tried.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return tried

    return decorate


def rest_slow(cases: Iterable[Any], *, kept: int | slice) -> list[Any]:
    """The cases of a parametrized test, of which all but those kept run with `-m slow`.

    Kept are the first so many, or those of a slice.
    """
    rows = [case if isinstance(case, tuple) else (case,) for case in cases]
    quick = range(len(rows))[kept if isinstance(kept, slice) else slice(kept)]
    return [
        pytest.param(*row, marks=[pytest.mark.slow] * (at not in quick))
        for at, row in enumerate(rows)
    ]
