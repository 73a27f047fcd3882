import hashlib
from pathlib import Path

import pytest

from harness.models.local.tiny_llama import build_tiny_llama


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_llama(tmp_path_factory.mktemp("cache"))


def digests(folder: Path) -> dict[str, str]:
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.iterdir()}


def test_two_builds_hold_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    again = build_tiny_llama(tmp_path)
    assert again != folder
    assert digests(again) == digests(folder)


def test_a_built_folder_is_used_again_untouched(folder: Path) -> None:
    before = [(p.name, p.stat().st_mtime_ns) for p in sorted(folder.iterdir())]
    assert build_tiny_llama(folder.parent) == folder
    assert [(p.name, p.stat().st_mtime_ns) for p in sorted(folder.iterdir())] == before


def test_a_half_built_folder_of_a_killed_process_is_not_used(folder: Path, tmp_path: Path) -> None:
    left_over = tmp_path / f".{folder.name}-killed"
    left_over.mkdir()
    (left_over / "config.json").write_text("{")

    assert digests(build_tiny_llama(tmp_path)) == digests(folder)


def test_building_leaves_nothing_but_the_finished_folder(folder: Path) -> None:
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_building_does_not_disturb_the_global_generator(tmp_path: Path) -> None:
    import torch

    before = torch.get_rng_state()

    build_tiny_llama(tmp_path)

    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    "text", ["She said the lights were lovely.", "naïve 寓意 🙂", "  two  spaces\n\ttab", "<|user"]
)
def test_its_tokenizer_loses_no_byte(folder: Path, text: str) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(str(folder))
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


def test_its_weights_fill_exactly_the_model_its_config_describes(folder: Path) -> None:
    from safetensors.torch import load_file
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.from_pretrained(str(folder))
    model = AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]

    assert {name: w.shape for name, w in load_file(folder / "model.safetensors").items()} == {
        name: w.shape for name, w in model.state_dict().items()
    }
