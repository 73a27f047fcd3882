"""Tests skipped where a package or the released data is missing, without importing to find out."""

import os
from importlib.util import find_spec

import pytest

DATA = os.environ.get("HARNESS_DATA")
needs_data = pytest.mark.skipif(
    DATA is None, reason="HARNESS_DATA is unset: the folder of the released data"
)


def needs(*packages: str) -> pytest.MarkDecorator:
    """A mark that skips tests where one of these packages is missing.

    Unlike pytest's importorskip it imports nothing, so collecting tests stays cheap.
    """
    missing = [package for package in packages if find_spec(package) is None]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")


def lacks(package: str) -> pytest.MarkDecorator:
    """A mark that skips tests where a package is installed; a folder of tests may be called so."""
    spec = find_spec(package)
    return pytest.mark.skipif(bool(spec and spec.origin), reason=f"{package} is installed here")
