"""Tests skipped where an optional package is not installed, without importing it to find out."""

from importlib.util import find_spec

import pytest


def needs(*packages: str) -> pytest.MarkDecorator:
    """A mark that skips tests where one of these packages is missing.

    Unlike pytest's importorskip it imports nothing, so collecting tests stays cheap.
    """
    missing = [package for package in packages if find_spec(package) is None]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")
