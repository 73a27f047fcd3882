"""Optional packages, and which extra of this project installs each."""

from importlib.util import find_spec

from harness.errors import ModelError, install


def require(*packages: str, extra: str = "local", what: str = "local models need") -> None:
    """Raise ModelError, with the command that installs them, if any of the packages is missing."""
    if missing := [package for package in packages if not _is_installed(package)]:
        fact = f"{what} {' and '.join(missing)}, not installed here"
        raise ModelError(f"{fact}; run: {install(extra)}")


def _is_installed(package: str) -> bool:
    found = find_spec(package)
    return found is not None and found.origin is not None  # a folder of that name is not enough
