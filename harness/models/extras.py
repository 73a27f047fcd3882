"""Optional packages, and which extra of this project installs each."""

from importlib.util import find_spec

from harness.errors import ModelError


def require(*packages: str, extra: str = "local") -> None:
    """Raise ModelError, with the command that installs them, if any of the packages is missing."""
    if missing := [package for package in packages if find_spec(package) is None]:
        raise ModelError(
            f"local models need {' and '.join(missing)}, not installed here; "
            f'run: pip install "pragmatics-harness[{extra}]"'
        )
