"""vLLM's server in a process of its own, and the checkpoints it serves."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import copytree

import pytest
from support.sketches import resolved
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, processors

from harness.models.anthropic.model import AnthropicModel
from harness.models.openai.model import OpenAIModel
from harness.specs.models import AnthropicSpec, OpenAISpec

START_S = 300
# Threads of so small a model only wait for each other.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}
WORDS = "▁the ▁He ▁he ▁she ▁wants ▁tea ▁Answer ▁say ▁that ▁it ▁is ▁not ▁▁ er ing"


@contextmanager
def served(folder: Path, log: Path, *options: str) -> Iterator[str]:
    """The base URL of a server that has the checkpoint in a folder, as tiny-random."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}/v1"
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server"]
    command += ["--model", str(folder), "--served-model-name", "tiny-random"]
    command += ["--dtype", "float32", "--enforce-eager", "--port", str(port)]
    command += ["--no-enable-chunked-prefill"]  # as docs/vllm.md has it for CPUs
    command += ["--generation-config", "vllm", *options]
    environ = os.environ | {"VLLM_CPU_KVCACHE_SPACE": "1", **ONE_THREAD}
    with log.open("wb") as out:
        process = subprocess.Popen(command, env=environ, stdout=out, stderr=subprocess.STDOUT)
    try:
        until = time.monotonic() + START_S
        while not _is_up(url):
            if process.poll() is not None or time.monotonic() > until:
                pytest.fail(f"vLLM did not start: {log.read_text()[-3000:]}")
            time.sleep(1)
        yield url
    finally:
        process.terminate()
        process.wait(60)


def as_openai(url: str, **settings: object) -> OpenAIModel:
    spec = OpenAISpec(model="auto", base_url=url, key_env=None, **settings)  # type: ignore[arg-type]  # by key
    return resolved(OpenAIModel("tiny", spec, {}))


def as_anthropic(url: str, **settings: object) -> AnthropicModel:
    address = url.removesuffix("/v1")
    spec = AnthropicSpec(model="tiny-random", base_url=address, key_env=None, **settings)  # type: ignore[arg-type]  # by key
    return resolved(AnthropicModel("tiny", spec, {}))


def _is_up(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/models", timeout=2) as reply:
            return bool(reply.status == 200)
    except OSError:
        return False


def as_llama_2(folder: Path, target: Path) -> Path:
    """A copy of the tiny checkpoint with a tokenizer of the Llama 2 and Mistral kind."""
    copytree(folder, target)
    size = json.loads((folder / "config.json").read_text())["vocab_size"]
    names = ["<s>", "</s>", "<unk>", *(f"<0x{byte:02X}>" for byte in range(256))]
    names += ["▁", *map(chr, range(33, 127)), "\n"]
    merges = []
    for word in WORDS.split():
        for end in range(1, len(word)):
            if word[: end + 1] not in names:
                names.append(word[: end + 1])
                merges.append((word[:end], word[end]))
    names += [f"<unused{number}>" for number in range(size - len(names))]
    vocabulary = {name: place for place, name in enumerate(names)}
    tokenizer = Tokenizer(
        models.BPE(vocabulary, merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True)
    )
    steps = [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    tokenizer.normalizer = normalizers.Sequence(steps)
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 0)]
    )
    tokenizer.add_special_tokens([AddedToken(name, special=True) for name in names[:3]])
    tokenizer.save(str(target / "tokenizer.json"))
    return target
