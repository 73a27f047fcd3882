"""The tiny random checkpoint, and vLLM's server that has it, once for all tests of a session.

In the environment that install.sh builds: `python -m pytest -m vllm tests/vllm`.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from served import served

from harness.models.local.tiny_llama import build_tiny_llama

# What docs/vllm.md has for forms that Anthropic's API fills in by calls of a tool.
TOOLS = (
    *("--enable-auto-tool-choice", "--tool-call-parser", "hermes"),
    *("--tool-strict-level", "parameter"),
)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import torch

    torch.set_num_threads(1)  # threads of so small a model only wait for each other
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
    return build_tiny_llama(tmp_path_factory.mktemp("checkpoints"))


@pytest.fixture(scope="session")
def server(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(folder, tmp_path_factory.mktemp("log") / "server.log", *TOOLS) as url:
        yield url
