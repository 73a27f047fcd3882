"""A checkpoint's name or folder to its exact version, its tokenizer and its weights."""

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from logging import ERROR, getLogger
from pathlib import Path
from textwrap import shorten
from typing import Any

from harness.errors import ModelError
from harness.lazy import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase, torch
from harness.models.extras import require
from harness.models.local.tiny_llama import build_tiny_llama
from harness.parts import digest
from harness.specs.models import LocalSpec

READ_WHOLE = frozenset({".json", ".jinja", ".model", ".py", ".txt"})
READ_IN_BLOCKS = frozenset({".bin", ".safetensors"})
BLOCKS, BLOCK_BYTES, LARGEST_HEADER = 64, 1 << 16, 100_000_000
REMEDIES = {
    "valid model identifier|404 ": "correct the name; a private model needs `hf auth login`",
    "gated|40[13] Client": "accept its terms on the hub's page, and log in with `hf auth login`",
    "trust_remote_code": "set `trust_remote_code: true` if you trust the code that comes with it",
    "connect|offline": "download it elsewhere and point `model:` to the local folder",
    "": "point `model:` to a folder or hub name with config.json, a tokenizer and weights",
}
"""What to do, by a pattern that the hub's message has; the first that fits."""


@dataclass(frozen=True, slots=True)
class ResolvedCheckpoint:
    """A hub name with its commit, or a folder (without one) with its fingerprint, as version."""

    source: str
    commit: str | None
    version: str

    @property
    def origin(self) -> str:
        """NAME@VERSION, equal on every machine: a folder's path is not in it."""
        return f"{'folder' if self.commit is None else self.source}@{self.version}"


@dataclass(frozen=True, slots=True)
class Checkpoint(ResolvedCheckpoint):
    """A checkpoint with its configuration and tokenizer; its weights are not loaded yet."""

    config: PretrainedConfig
    tokenizer: PreTrainedTokenizerBase
    trust_remote_code: bool

    @property
    def identity(self) -> str:
        """Name, version and a digest of the tokenizer."""
        tokenizer = self.tokenizer
        ends = (tokenizer.bos_token, tokenizer.eos_token)
        read = digest((tokenizer.get_vocab(), ends, tokenizer.chat_template))
        return f"{self.origin}:{read[:16]}"


def resolve(source: str, *, revision: str | None, file: str = "config.json") -> ResolvedCheckpoint:
    """Find the version of a folder, or of a hub name whose repository has `file`."""
    require("torch", "transformers")
    if (folder := folder_of(source)) is not None:
        return ResolvedCheckpoint(str(folder), None, fingerprint(folder))
    from transformers.utils.hub import cached_file

    with explain(source):
        path = cached_file(source, file, revision=revision or "main")
    commit = Path(path or "").parent.name  # the hub's cache names the folder of a file after it
    if not re.fullmatch("[0-9a-f]{40}", commit):
        raise ModelError(f"{source}: the hub names no commit; point `model:` to a local folder")
    return ResolvedCheckpoint(source, commit, commit)


def open_checkpoint(source: str, *, revision: str | None, trust_remote_code: bool) -> Checkpoint:
    """Resolve the version of a hub name or folder; read its configuration and tokenizer."""
    resolved = resolve(source, revision=revision)
    from transformers import AutoConfig, AutoTokenizer

    name, commit = resolved.source, resolved.commit
    options = {"revision": commit or "main", "trust_remote_code": trust_remote_code}
    with explain(source):
        config = AutoConfig.from_pretrained(name, **options)
        tokenizer = AutoTokenizer.from_pretrained(name, **options)
    return Checkpoint(name, commit, resolved.version, config, tokenizer, trust_remote_code)


def open_spec(spec: LocalSpec, cache: Path) -> Checkpoint:
    """Open the checkpoint of a model's YAML; built ones are under `cache`."""
    source = spec.model if spec.build is None else str(build_tiny_llama(cache))
    return open_checkpoint(source, revision=spec.revision, trust_remote_code=spec.trust_remote_code)


def fetched(checkpoint: ResolvedCheckpoint, patterns: list[str]) -> Path:
    """The folder of a checkpoint's files, downloaded where they match one of the patterns."""
    name, commit = checkpoint.source, checkpoint.commit
    if commit is None:
        return Path(name)
    from huggingface_hub import snapshot_download

    with explain(name):
        return Path(snapshot_download(name, revision=commit, allow_patterns=patterns))


def load_weights(
    checkpoint: Checkpoint, *, dtype: str, device: str, has_head: bool = True
) -> PreTrainedModel:
    """Load the weights onto a device; without its head the model returns hidden states."""
    from transformers import AutoModel, AutoModelForCausalLM

    kind: Any = AutoModelForCausalLM if has_head else AutoModel
    with explain(checkpoint.source):
        model, loading = kind.from_pretrained(
            checkpoint.source,
            revision=checkpoint.commit or "main",
            trust_remote_code=checkpoint.trust_remote_code,
            dtype=getattr(torch, dtype),
            output_loading_info=True,
        )
    if missing := sorted(loading["missing_keys"]):
        raise ModelError(
            f"{checkpoint.source}: {len(missing)} weights are not in the checkpoint and would be "
            f"noise ({', '.join(missing[:3])}, ...); download it again or use another"
        )
    try:
        placed: PreTrainedModel = model.to(device)
    except torch.OutOfMemoryError as error:
        raise ModelError(
            f"{checkpoint.source}: its weights in {dtype} do not fit on {device}; "
            "use a smaller checkpoint, a smaller dtype or device: cpu"
        ) from error
    return placed


def device_of(wanted: str) -> str:
    """Resolve `auto` to cuda where torch finds a GPU, else to cpu."""
    if wanted != "auto":
        return wanted
    return "cuda" if torch.cuda.is_available() else "cpu"


def dtype_of(wanted: str, device: str, config: PretrainedConfig) -> str:
    """Resolve `auto` to float32 on a CPU, else to the stored dtype (float32 if there is none)."""
    if wanted != "auto":
        return wanted
    stored = getattr(config, "dtype", None) or getattr(config.get_text_config(), "dtype", None)
    return str("float32" if device == "cpu" else stored or "float32").removeprefix("torch.")


def checksum(path: Path) -> str:
    """The sha256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fingerprint(folder: Path) -> str:
    """Digest the files of a folder that determine its answers, not its path or dates.

    Of weight files size, header and evenly spaced blocks count: all of a file up to 4 MiB.
    """
    parts = []
    for path in sorted(folder.iterdir()):
        if path.suffix in READ_WHOLE:
            parts.append((path.name, checksum(path)))
        elif path.suffix in READ_IN_BLOCKS:
            parts.append((path.name, _sampled(path)))
    return digest(parts)


def _sampled(path: Path) -> str:
    size = path.stat().st_size
    digested = hashlib.sha256(str(size).encode())
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little") if path.suffix == ".safetensors" else 0
        digested.update(file.read(min(length, LARGEST_HEADER)))
        for index in range(BLOCKS):
            file.seek(index * max(size - BLOCK_BYTES, 0) // (BLOCKS - 1))
            digested.update(file.read(BLOCK_BYTES))
    return digested.hexdigest()


def folder_of(source: str) -> Path | None:
    """The folder of a source, None if it is a hub name."""
    path = Path(source).expanduser()
    if path.is_dir():
        return path
    if source.startswith((".", "/", "~")):
        raise ModelError(f"{source}: no such folder; `model:` takes the folder of the files")
    return None


@contextmanager
def explain(source: str) -> Iterator[None]:
    """Silence loading, and turn its errors into a ModelError with a remedy."""
    from pickle import UnpicklingError

    from safetensors import SafetensorError
    from transformers.utils import logging

    hub, has_bars = getLogger("huggingface_hub"), logging.is_progress_bar_enabled()
    levels = hub.level, logging.get_verbosity()
    hub.setLevel(ERROR)
    logging.set_verbosity(ERROR)
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # unannotated
    try:
        yield
    except UnpicklingError as error:
        fact = "pickled weights are not loaded; convert them to safetensors"
        raise ModelError(f"{source}: cannot be loaded: {fact}") from error
    except (OSError, ValueError, KeyError, ImportError, RuntimeError, SafetensorError) as error:
        first, *_ = re.split(r"[.!?]\s", str(error).strip(), maxsplit=1)  # whole, not clipped
        fact = shorten(first.rstrip("."), 210, placeholder=" ...") or type(error).__name__
        remedies = (what for sign, what in REMEDIES.items() if re.search(sign, str(error), re.I))
        raise ModelError(f"{source}: cannot be loaded: {fact}; {next(remedies)}") from error
    finally:
        hub.setLevel(levels[0])
        logging.set_verbosity(levels[1])
        if has_bars:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]  # unannotated
