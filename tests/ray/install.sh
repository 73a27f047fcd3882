#!/usr/bin/env bash
# Builds the environment of the tests marked ray: this project, Ray and pytest.
# Usage: tests/ray/install.sh VENV
set -euo pipefail

venv=${1:?usage: tests/ray/install.sh VENV}
root=$(cd "$(dirname "$0")/../.." && pwd)
pip=("$venv/bin/python" -m pip install --disable-pip-version-check --quiet)

"${PYTHON:-python3}" -m venv "$venv"
# torch first and by its pinned version, so that a CPU build is taken where one is at hand
"${pip[@]}" --constraint "$root/constraints.txt" torch numpy
"${pip[@]}" --constraint "$root/constraints.txt" --editable "$root[local,ray]" pytest
"$venv/bin/python" - <<'PYTHON'
from importlib.metadata import version

print(*(f"{name} {version(name)}" for name in ("ray", "transformers", "torch")), sep="\n")
PYTHON
