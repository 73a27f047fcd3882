#!/usr/bin/env bash
# Writes core.lock, local.lock and dev.lock anew from pyproject.toml: every version with the sha256 of each of its files,
# for all systems and for Python 3.11 and newer. Versions that are locked stay where they still fit; `--upgrade` takes newer ones.
#
#     bash requirements/lock.sh [--upgrade]      # or: make lock
#
# torch is left out, with the CUDA libraries that its usual build wants: which build of it is right depends on the machine, and
# a CPU build has other files under the same version. constraints.txt pins its version.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=.venv-lock
[ -x $venv/bin/uv ] || { python3 -m venv $venv && $venv/bin/pip install -q uv; }

lock() { # NAME, then further arguments
    $venv/bin/uv pip compile pyproject.toml --output-file "requirements/$1.lock" "${@:2}" \
        --constraints constraints.txt --excludes requirements/not-locked.txt --no-emit-package torch \
        --universal --python-version 3.11 --fork-strategy fewest --generate-hashes \
        --no-header --no-annotate --quiet
}

# the widest first: the others take its versions
lock dev --extra dev "$@"
lock local --extra local --constraints requirements/dev.lock
lock core --constraints requirements/dev.lock
