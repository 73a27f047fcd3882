"""vLLM in this process: the tiny random checkpoint, beside the same through transformers."""

import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from shutil import copytree
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from in_process import answers, ask, failure_of, model
from posed import OURS, asked, by_forward_pass, loaded
from support.sketches import resolved
from support.toy import Toy

from harness.cli import main
from harness.core import Request
from harness.errors import ModelError
from harness.models.local.transformers_lm import TransformersModel
from harness.models.local.vllm_model import VllmModel
from harness.parts import ChoiceScore, Reason
from harness.specs.models import TransformersSpec

pytest_plugins = ["vllm_fixtures"]
pytestmark = pytest.mark.vllm
QUESTIONS = ("Hello.", "Does she mean it?", "Ben asks for the salt. " * 6, "What does he want?")


@pytest.fixture(scope="module")
def tiny(folder: Path) -> Iterator[VllmModel]:
    one = model(folder)
    yield one
    one.close()


@pytest.fixture(scope="module")
def other(folder: Path) -> TransformersModel:
    return resolved(TransformersModel("tiny", TransformersSpec(model=str(folder)), folder.parent))


GREEDY = [ask(text, max_tokens=length) for text in QUESTIONS for length in (1, 24, 60)]
DRAWN = [
    ask(text, temperature=temperature, n=n, seed=seed)
    for text in QUESTIONS
    for temperature, n, seed in [(0.5, 3, 7), (1.0, 2, 8)]
]


def test_greedy_answers_equal_transformers(tiny: VllmModel, other: TransformersModel) -> None:
    found = answers(tiny, GREEDY)
    assert found == answers(other, GREEDY)
    assert {response.stop for response in found.values()} == {"stop", "length"}


def changed(folder: Path, target: Path, **settings: object) -> Path:
    """A copy of a checkpoint with other habits of generating."""
    copytree(folder, target)
    path = target / "generation_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))
    return target


def test_of_a_checkpoints_habits_its_end_tokens_are_kept_and_no_other(
    tiny: VllmModel, folder: Path, tmp_path: Path
) -> None:
    request = ask("Hello.")
    cut = answers(tiny, [request])[request.key].texts or ("",)
    end = tiny._checkpoint.tokenizer(cut[0])["input_ids"][4]  # the fifth token it says
    habits = {"temperature": 2.0, "top_k": 1, "repetition_penalty": 5.0, "do_sample": True}
    one = model(changed(folder, tmp_path / "copy", eos_token_id=[1, end], **habits))

    found = answers(one, [request, *GREEDY])
    one.close()

    by_transformers = resolved(
        TransformersModel("tiny", TransformersSpec(model=str(tmp_path / "copy")), tmp_path)
    )
    assert found == answers(by_transformers, [request, *GREEDY])
    assert found[request.key].stop == "stop"


def test_what_has_no_room_is_refused_and_never_cut(tiny: VllmModel, folder: Path) -> None:
    requests = [ask("Hello.", max_tokens=20), ask("Hello.", max_tokens=60)]
    small = model(folder, max_model_len=40)

    found = answers(small, requests)
    small.close()

    assert resolved(small).identity == resolved(tiny).identity
    assert found[requests[0].key] == answers(tiny, requests)[requests[0].key]
    assert failure_of(found[requests[1].key])[0] is Reason.UNSUPPORTED
    assert "raise max_model_len" in failure_of(found[requests[1].key])[1]


def test_closing_early_frees_the_engine_for_others(tiny: VllmModel) -> None:
    left = tiny.answer([ask(f"Hello, {n}.", max_tokens=40) for n in range(20)])
    next(left)
    del left

    assert len(answers(tiny, GREEDY)) == len(GREEDY)
    assert not tiny._engine()._engine.has_unfinished_requests()


def test_one_engine_runs_at_a_time_and_an_idle_one_gives_way(tiny: VllmModel, folder: Path) -> None:
    second = model(folder)
    first_half = tiny.answer(GREEDY[:1] * 3)
    begun = [next(first_half).texts for _ in range(3)]

    texts = answers(second, GREEDY)[GREEDY[0].key].texts

    assert begun == [texts] * 3
    assert list(first_half) == []
    assert answers(tiny, GREEDY) == answers(second, GREEDY)
    second.close()


def test_two_engines_at_once_are_refused_with_what_works(tiny: VllmModel, folder: Path) -> None:
    at_work = tiny.answer([ask(f"Hello, {n}.", max_tokens=n + 1) for n in range(40)])
    next(at_work)

    with pytest.raises(ModelError, match=r"cannot answer at the same time.*--backend server"):
        list(model(folder).answer(GREEDY))
    at_work.close()


@pytest.mark.parametrize(
    ("settings", "fact"),
    [
        ({"quantization": "no-such-thing"}, "quantization"),
        ({"max_model_len": 1 << 20}, "max_model_len"),
    ],
)
def test_an_engine_that_does_not_start_is_one_message_with_a_remedy(
    folder: Path, settings: dict[str, object], fact: str
) -> None:
    with pytest.raises(ModelError, match=fact):
        list(model(folder, **settings).answer([ask("Hello.")]))


@pytest.mark.parametrize("task", ["intent_resolution", "intent_detection"])
def test_a_task_runs_in_process_and_again_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, task: str
) -> None:
    monkeypatch.delenv("HARNESS_DATA", raising=False)
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    command = ["run", "--task", task, "--model", "tiny-random", "--backend", "vllm", "--limit", "4"]
    command += ["--judge", "ngram-cosine"] if task == "intent_resolution" else []
    command += ["--results", str(tmp_path / "results")]

    assert main(command) in (0, 1)
    files = {p: p.read_bytes() for p in tmp_path.rglob("results/**/*") if p.is_file()}
    assert main([*command, "--offline"]) in (0, 1)
    assert files == {p: p.read_bytes() for p in tmp_path.rglob("results/**/*") if p.is_file()}


if TYPE_CHECKING:
    from torch import Tensor

SETTINGS = """
    kind: vllm
    model: {folder}
    dtype: bfloat16
    quantization: fp8_per_channel
    max_model_len: 512
    gpu_memory_utilization: 0.05
    enforce_eager: true
"""


def test_keys_of_the_yaml_reach_the_engine(toy: Toy, folder: Path) -> None:
    toy.write("configs/models/set.yaml", SETTINGS.format(folder=folder))
    registry = toy.space().registry
    one = registry.model("set", registry.load("configs/models", "set"))
    assert isinstance(one, VllmModel)

    config: Any = one._engine()._engine.vllm_config
    one.close()

    assert (config.model_config.model, str(config.model_config.dtype)) == (
        str(folder),
        "torch.bfloat16",
    )
    assert (config.model_config.quantization, config.model_config.max_model_len) == (
        "fp8_per_channel",
        512,
    )
    assert config.cache_config.gpu_memory_utilization == 0.05
    assert config.model_config.enforce_eager


def in_fp8(values: "Tensor") -> "Tensor":
    """Rows rounded to eight bits, each by its own scale."""
    import torch

    scale = values.abs().amax(-1, keepdim=True) / 448
    return (values / scale).to(torch.float8_e4m3fn).float() * scale


def quantized(folder: Path) -> Any:  # noqa: ANN401 - a model of transformers
    """The checkpoint's model with weights and what they are multiplied by rounded by hand."""
    import torch

    model = deepcopy(loaded(folder))
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.Linear) and name != "lm_head":
            module.weight.data = in_fp8(module.weight.data)
            module.register_forward_pre_hook(lambda _, given: (in_fp8(given[0]),))
    return model


def distance(one: tuple[ChoiceScore, ...], other: tuple[ChoiceScore, ...]) -> float:
    return float(np.mean([abs(a.logprob - b.logprob) for a, b in zip(one, other, strict=True)]))


def test_quantization_rounds_as_its_name_says(folder: Path) -> None:
    one = model(folder, dtype="bfloat16", quantization="fp8_per_channel")
    requests: list[Request] = [asked(context, choices) for context, choices in OURS]

    found = answers(one, requests)
    one.close()

    scores = {request: found[request.key].choice_scores or () for request in requests}
    by_hand, whole = quantized(folder), loaded(folder)
    near = [distance(s, by_forward_pass(folder, r, by_hand)) for r, s in scores.items()]
    far = [distance(s, by_forward_pass(folder, r, whole)) for r, s in scores.items()]
    assert np.mean(near) < 0.75 * np.mean(far)
