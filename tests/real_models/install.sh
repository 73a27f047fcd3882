#!/usr/bin/env bash
# Builds the environment of the tests marked real, and fetches the weights they are about.
# Usage: tests/real_models/install.sh VENV [FOLDER]
# VENV may be one that tests/vllm/install.sh has built: it is completed then. FOLDER is .real_models.
set -euo pipefail

venv=${1:?usage: tests/real_models/install.sh VENV [FOLDER]}
root=$(cd "$(dirname "$0")/../.." && pwd)
weights=${2:-$root/.real_models}
pip=("$venv/bin/python" -m pip install --disable-pip-version-check --quiet)

if ! "$venv/bin/python" -c "import vllm, pytest" 2>/dev/null; then
    bash "$root/tests/vllm/install.sh" "$venv"
fi
# gguf and accelerate read llama.cpp's format for transformers; xllamacpp is its own server, built already
"${pip[@]}" --constraint "$root/constraints.txt" accelerate==1.15.0 gguf==0.19.0 xllamacpp==2026.10.11549
"$venv/bin/python" "$root/tests/real_models/weights.py" "$weights"
