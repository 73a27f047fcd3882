#!/usr/bin/env bash
# Builds the environment of `engine: package`: this project, the llm2vec package and its old transformers.
# Usage: tests/llm2vec/install.sh VENV
set -euo pipefail

venv=${1:?usage: tests/llm2vec/install.sh VENV}
root=$(cd "$(dirname "$0")/../.." && pwd)
pip=("$venv/bin/python" -m pip install --disable-pip-version-check --quiet)

"${PYTHON:-python3}" -m venv "$venv"
# torch first and by its pinned version, so that a CPU build is taken where one is at hand
"${pip[@]}" --constraint "$root/constraints.txt" torch numpy
"${pip[@]}" --constraint "$root/constraints.txt" --editable "$root[llm2vec]"
"$venv/bin/python" - <<'PYTHON'
from importlib.metadata import version

print(*(f"{name} {version(name)}" for name in ("llm2vec", "transformers", "peft", "torch")), sep="\n")
PYTHON
