"""The vLLM back end where vLLM is not needed: what it is, and what is said without it."""

from pathlib import Path

import pytest
from support.packages import lacks

from harness.core import Model, Request
from harness.errors import ModelError
from harness.models.local.vllm_model import VllmModel
from harness.parts import Decoding, Message, Mode, Reason
from harness.specs.models import VllmSpec

without_vllm = lacks("vllm")


def model(tmp_path: Path) -> VllmModel:
    return VllmModel("tiny", VllmSpec(model="tiny-random", build="tiny-llama"), tmp_path)


def request(mode: Mode) -> Request:
    words = (Message("user", "Hello."),)
    return Request("s", "base", "answer", "m", words, Decoding(), mode, (" 1", " 2"))


def test_it_is_a_model(tmp_path: Path) -> None:
    one: Model = model(tmp_path)
    assert (one.name, one.kind) == ("tiny", "vllm")
    assert one.modes == {Mode.GENERATE, Mode.CHOOSE}


@without_vllm
@pytest.mark.parametrize("mode", [Mode.GENERATE, Mode.CHOOSE])
def test_without_vllm_it_names_what_would_work(tmp_path: Path, mode: Mode) -> None:
    words = r"kind vllm.*--backend transformers .*--backend server .*pip install .*\[vllm\]"

    with pytest.raises(ModelError, match=words):
        list(model(tmp_path).answer([request(mode)]))
    with pytest.raises(ModelError, match=words):
        model(tmp_path).resolve()


@pytest.mark.parametrize("mode", [Mode.EMBED, Mode.CHOOSE_TOKEN])
def test_what_it_cannot_do_is_unsupported(tmp_path: Path, mode: Mode) -> None:
    [response] = model(tmp_path).answer([request(mode)])

    assert response.failure is not None
    assert response.failure.reason is Reason.UNSUPPORTED
    assert response.failure.message == f"tiny: cannot {mode}; it can choose, generate"
