"""LLM2Vec checkpoints on today's transformers: what a row is made of, and what names it."""

import json
import subprocess
import sys
from pathlib import Path
from shutil import copytree
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from support.tiny_llm2vec import TinyLlm2Vec, build_tiny_llm2vec

from harness.errors import ModelError
from harness.models.encoders.llm2vec import Llm2Vec

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

TEXTS = ["Could you close the window?", "", "It is cold.", "It was hot. " * 40, "窗户", "Yes."]
TALE = "She said it was cold"


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> TinyLlm2Vec:
    pytest.importorskip("peft")
    return build_tiny_llm2vec(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def encoder(tiny: TinyLlm2Vec) -> Llm2Vec:
    return on_cpu(tiny.mntp, tiny.supervised)


def on_cpu(base: str, *adapters: str, **options: Any) -> Llm2Vec:  # noqa: ANN401  # passed on
    return Llm2Vec(base, adapters, device="cpu", **options)


def states(encoder: Llm2Vec, text: str) -> "Tensor":
    seen: list[Tensor] = []
    norm: Module = encoder._model.norm  # type: ignore[assignment]  # a Llama's last layer
    hook = norm.register_forward_hook(lambda *call: seen.append(call[2][0]))
    encoder.encode([text])
    hook.remove()
    return seen[0]


def test_a_later_token_changes_the_states_of_earlier_ones(encoder: Llm2Vec) -> None:
    hot, cold = states(encoder, f"{TALE}!"), states(encoder, f"{TALE}?")
    assert hot.shape == cold.shape
    assert (hot - cold).abs().max(dim=1).values.min() > 1e-4


@pytest.mark.parametrize("instruction", ["", "Tell what the speaker means:"])
def test_a_row_is_the_mean_of_text_and_turn_end_without_the_instruction(
    tiny: TinyLlm2Vec, instruction: str
) -> None:
    encoder = on_cpu(tiny.mntp, tiny.supervised, instruction=instruction)
    # One token a byte: the tiny vocabulary has no pair of figures. The end of the turn is one more.
    mean = states(encoder, "1234")[-5:].mean(dim=0)

    row = encoder.encode(["1234"])[0]
    assert np.abs(row - (mean / mean.norm()).numpy()).max() < 1e-6


@pytest.mark.parametrize("batch_tokens", [1, 64, 100_000])
def test_rows_move_by_float_noise_only_with_other_texts(
    tiny: TinyLlm2Vec, encoder: Llm2Vec, batch_tokens: int
) -> None:
    alone = np.array([encoder.encode([text])[0] for text in TEXTS])
    batched = on_cpu(tiny.mntp, tiny.supervised, batch_tokens=batch_tokens)
    assert np.abs(batched.encode(TEXTS) - alone).max() < 1e-5


def test_a_base_with_its_own_adapter_is_that_adapter_on_the_base_it_names(
    tiny: TinyLlm2Vec, encoder: Llm2Vec
) -> None:
    spelled_out = on_cpu(tiny.base, tiny.mntp, tiny.supervised)
    assert (spelled_out.encode(TEXTS) == encoder.encode(TEXTS)).all()
    assert spelled_out.digest == encoder.digest


# --- names and digests ---


@pytest.mark.parametrize(
    "changes",
    [{"instruction": "Say:"}, {"max_length": 256}, {"dtype": "bfloat16"}, {"adapters": ()}],
    ids=str,
)
def test_what_changes_vectors_changes_the_digest(
    tiny: TinyLlm2Vec, encoder: Llm2Vec, changes: dict[str, Any]
) -> None:
    options = {"adapters": (tiny.supervised,), "device": "cpu"} | changes
    assert Llm2Vec(tiny.mntp, **options).digest != encoder.digest


def test_the_turn_of_its_model_changes_the_digest(tiny: TinyLlm2Vec, tmp_path: Path) -> None:
    other = build_tiny_llm2vec(tmp_path, trained_on="some/base")
    assert on_cpu(other.base).digest != on_cpu(tiny.base).digest


def test_a_copied_adapter_is_the_same_and_a_retrained_one_is_not(
    tiny: TinyLlm2Vec, encoder: Llm2Vec, tmp_path: Path
) -> None:
    copy = copytree(tiny.supervised, tmp_path / "a@b")
    assert on_cpu(tiny.mntp, str(copy)).digest == encoder.digest
    path = copy / "adapter_model.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"\x01")

    assert on_cpu(tiny.mntp, str(copy)).digest != encoder.digest


def test_a_digest_opens_no_weights_and_no_text_opens_nothing(tiny: TinyLlm2Vec) -> None:
    encoder = on_cpu(tiny.mntp)

    assert len(encoder.encode([])) == 0
    assert "_stack" not in vars(encoder)
    assert len(encoder.digest) == 64
    assert "_model" not in vars(encoder)


# --- what is refused ---


def test_a_missing_package_names_the_install_line(tiny: TinyLlm2Vec) -> None:
    code = (
        "import sys; sys.modules['peft'] = None\n"
        "from harness.models.encoders.llm2vec import Llm2Vec\n"
        f"Llm2Vec({tiny.mntp!r}).encode(['a'])"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert 'need peft, not installed here; run: pip install -e ".[local]"' in done.stderr


@pytest.mark.parametrize(
    ("changes", "fact"),
    [
        ({"target_modules": ["q_proj"]}, "weights of the adapter and of the model do not match"),
        ({"r": 2}, "cannot be loaded"),
    ],
)
def test_an_adapter_that_does_not_fit_is_refused(
    tiny: TinyLlm2Vec, tmp_path: Path, changes: dict[str, Any], fact: str
) -> None:
    path = copytree(tiny.supervised, tmp_path / "adapter") / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    with pytest.raises(ModelError, match=fact):
        on_cpu(tiny.base, str(path.parent)).encode(["a"])


def test_an_adapter_of_another_kind_is_refused(tiny: TinyLlm2Vec, tmp_path: Path) -> None:
    settings = {"peft_type": "IA3", "base_model_name_or_path": tiny.base}
    (tmp_path / "adapter_config.json").write_text(json.dumps(settings))

    with pytest.raises(ModelError, match="IA3 adapter; give a LoRA adapter"):
        on_cpu(tiny.base, str(tmp_path)).encode(["a"])


def test_a_base_that_is_no_llama_is_refused(tiny: TinyLlm2Vec, tmp_path: Path) -> None:
    path = copytree(tiny.base, tmp_path / "base") / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"model_type": "mistral"}))

    with pytest.raises(ModelError, match="is a mistral; LLM2Vec here runs Llamas"):
        on_cpu(str(path.parent)).encode(["a"])
