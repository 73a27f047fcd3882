"""Optional packages, and which extra of this project installs each."""

from importlib.util import find_spec

from harness.errors import ModelError, install


def require(*packages: str, extra: str = "local", what: str = "local models need") -> None:
    """Raise ModelError, with the command that installs them, if any of the packages is missing."""
    # A folder of that name is not enough.
    if missing := [name for name in packages if getattr(find_spec(name), "origin", None) is None]:
        fact = f"{what} {' and '.join(missing)}, not installed here"
        raise ModelError(f"{fact}; run: {install(extra)}")
