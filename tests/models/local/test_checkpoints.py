import json
import os
import subprocess
import sys
from pathlib import Path
from shutil import copytree

import pytest

from harness.errors import ModelError
from harness.models.extras import require
from harness.models.local import checkpoints
from harness.models.local.checkpoints import Checkpoint, explain, fingerprint, load_weights
from harness.models.local.tiny_llama import build_tiny_llama

COMMIT = "0123456789abcdef0123456789abcdef01234567"
IDENTITY_OF = """
import sys
from harness.models.local.checkpoints import open_checkpoint
from harness.errors import ModelError
for name in sys.argv[1:]:
    try:
        print(open_checkpoint(name, revision=None, trust_remote_code=False).identity)
    except ModelError as error:
        print(error)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_llama(tmp_path_factory.mktemp("cache"))


def opened(source: Path | str) -> Checkpoint:
    return checkpoints.open_checkpoint(str(source), revision=None, trust_remote_code=False)


def copied(folder: Path, target: Path, **settings: object) -> Path:
    """A copy of a folder, some settings of its tokenizer changed."""
    copytree(folder, target)
    path = target / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))
    return target


def test_a_copied_folder_is_the_same_checkpoint(folder: Path, tmp_path: Path) -> None:
    copy = copytree(folder, tmp_path / "elsewhere")
    os.utime(copy / "model.safetensors", (1, 1))
    (copy / "README.md").write_text("notes")

    assert opened(copy).identity == opened(folder).identity


def test_another_chat_template_is_another_checkpoint(folder: Path, tmp_path: Path) -> None:
    copy = copied(folder, tmp_path / "copy", chat_template="{{ messages[0].content }}")
    assert opened(copy).identity != opened(folder).identity


@pytest.mark.parametrize("at", [200, 300_000, -1], ids=["header", "middle", "last"])
def test_other_weights_are_another_checkpoint(folder: Path, tmp_path: Path, at: int) -> None:
    copy = copytree(folder, tmp_path / "copy")
    content = bytearray((copy / "model.safetensors").read_bytes())
    content[at] ^= 1
    (copy / "model.safetensors").write_bytes(content)

    assert fingerprint(copy) != fingerprint(folder)


def test_a_large_weight_file_is_distinguished_by_header_length_and_blocks(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    seen = set()
    for length, at in [(32 << 20, 0), (32 << 20, 5_000_000), (32 << 20, -1), (33 << 20, 0)]:
        content = bytearray(length)
        content[:8] = (6 << 20).to_bytes(8, "little")
        content[at] ^= 1
        path.write_bytes(content)
        seen.add(fingerprint(tmp_path))

    assert len(seen) == 4


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="gone: no such folder"):
        opened(tmp_path / "gone")


def test_a_folder_without_a_checkpoint_is_named_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"cannot be loaded: .* point `model:` to a folder"):
        opened(tmp_path)


@pytest.mark.parametrize(
    ("fact", "remedy"),
    [
        ("You are trying to access a gated repo. 401 Client Error.", "log in with `hf auth login`"),
        ("403 Client Error. (Request ID: Root=1)", "accept its terms on the hub's page"),
        ("a/b is not a valid model identifier; private? `hf auth login`", "correct the name"),
        ("Loading it requires you to pass `trust_remote_code=True`", "if you trust the code"),
        (f"We couldn't connect to {'a ' * 80}.\nCheck it.", "a; download it elsewhere"),
        ("word " * 400, "config.json, a tokenizer and weights"),
    ],
)
def test_a_checkpoint_that_fails_to_load_has_a_remedy_for_its_cause(fact: str, remedy: str) -> None:
    with pytest.raises(ModelError) as caught, explain("a/b"):
        raise OSError(fact)

    assert remedy in str(caught.value)
    assert len(str(caught.value)) < 320


def test_missing_packages_are_named_with_the_install_line() -> None:
    with pytest.raises(ModelError, match=r'no_such_package.*pip install -e "\.\['):
        require("json", "no_such_package")


@pytest.mark.slow
def test_a_hub_checkpoint_is_its_commit_a_missing_one_told(folder: Path, tmp_path: Path) -> None:
    hub = tmp_path / "hub" / "models--some--model"
    copytree(folder, hub / "snapshots" / COMMIT)
    (hub / "refs").mkdir()
    (hub / "refs" / "main").write_text(COMMIT)
    offline = {**os.environ, "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"}

    command = [sys.executable, "-c", IDENTITY_OF, "some/model", "some/other"]
    done = subprocess.run(command, env=offline, capture_output=True, text=True, check=True)

    found, missing = done.stdout.splitlines()
    assert found.startswith(f"some/model@{COMMIT}:")
    assert missing.startswith("some/other: cannot be loaded")
    assert missing.endswith("; download it elsewhere and point `model:` to the local folder")
    assert len(missing) < 320
    assert done.stderr == ""


def test_a_checkpoint_without_all_its_weights_is_refused(folder: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    copy = copytree(folder, tmp_path / "copy")
    weights = load_file(copy / "model.safetensors")
    del weights["lm_head.weight"]
    save_file(weights, copy / "model.safetensors", metadata={"format": "pt"})

    with pytest.raises(ModelError, match=r"1 weights are not in the checkpoint .*lm_head"):
        load_weights(opened(copy), dtype="float32", device="cpu")
