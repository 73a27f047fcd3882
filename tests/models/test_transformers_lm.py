import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random
from shutil import copytree

import pytest

from harness.core import Request, Response
from harness.errors import ModelError
from harness.models.transformers_lm import TransformersModel
from harness.parts import Decoding, Message, Mode, Reason
from harness.specs.models import TransformersSpec
from harness.tiny_llama import build_tiny_llama

QUESTIONS = (
    "Hello.",
    "Does she mean it?",
    "He says the cake is lovely. What does he want to say about the evening?",
    "Ben asks for the salt. " * 6,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # idle threads of so small a model only wait for each other
    yield build_tiny_llama(tmp_path_factory.mktemp("cache"))
    torch.set_num_threads(threads)


def model(folder: Path, **settings: object) -> TransformersModel:
    spec = TransformersSpec(model=str(folder), **settings)  # type: ignore[arg-type]  # by kind
    return TransformersModel("tiny", spec, folder.parent)


@pytest.fixture(scope="module")
def tiny(folder: Path) -> TransformersModel:
    return model(folder)


def ask(text: str, mode: Mode = Mode.GENERATE, **decoding: float | None) -> Request:
    chosen = Decoding(**{"max_tokens": 24, "seed": 1, **decoding})  # type: ignore[arg-type]  # ints
    return Request("s", "base", "answer", "tiny", (Message("user", text),), chosen, mode)


MIXED = [
    ask(text, temperature=temperature, n=n, max_tokens=length, seed=seed)
    for text in QUESTIONS
    for temperature, n, length, seed in [(0.0, 1, 16, None), (0.5, 3, 16, 7), (1.0, 2, 9, 8)]
]


def answers(model: TransformersModel, requests: Iterable[Request]) -> dict[str, Response]:
    return {response.key: response for response in model.answer(requests)}


@pytest.mark.parametrize("batch_tokens", [1, 400, 10**6], ids=["one", "some", "all"])
@pytest.mark.parametrize("order", [1, 2])
def test_order_and_batch_size_do_not_change_an_answer(
    tiny: TransformersModel, folder: Path, batch_tokens: int, order: int
) -> None:
    shuffled = Random(order).sample(MIXED, len(MIXED))

    other = answers(model(folder, batch_tokens=batch_tokens), shuffled)

    assert other == answers(tiny, MIXED)


def test_each_request_is_answered_once_even_if_it_comes_twice(tiny: TransformersModel) -> None:
    keys = [response.key for response in tiny.answer([*MIXED, *MIXED])]

    assert sorted(keys) == sorted([request.key for request in MIXED] * 2)


def test_requests_are_taken_a_window_at_a_time(tiny: TransformersModel) -> None:
    taken = []

    def endless() -> Iterable[Request]:
        while True:
            taken.append(1)
            yield ask("Hello.", max_tokens=1)

    next(iter(tiny.answer(endless())))

    assert len(taken) == 2048


def test_replies_of_one_request_differ_and_so_do_repeats_and_seeds(
    tiny: TransformersModel,
) -> None:
    first, second = ask("Hello.", temperature=1.0, n=3), ask("Hello.", temperature=1.0, n=3, seed=2)

    texts = [text for response in tiny.answer([first, second]) for text in response.texts or ()]

    assert len(set(texts)) == 6


def test_usage_counts_no_padding_and_stop_tells_a_cut_answer(tiny: TransformersModel) -> None:
    short, long = (ask(text, max_tokens=40) for text in (QUESTIONS[0], QUESTIONS[3]))

    together, alone = answers(tiny, [short, long]), answers(tiny, [short])

    usage = together[short.key].usage
    assert usage == alone[short.key].usage
    assert together[short.key].stop == "length"
    assert (usage.prompt_tokens, usage.completion_tokens) == (9, 40)


def test_texts_hold_no_markers(tiny: TransformersModel) -> None:
    requests = [ask(text, temperature=1.5, n=20) for text in QUESTIONS]

    texts = [text for response in tiny.answer(requests) for text in response.texts or ()]

    assert not [text for text in texts if "<|" in text or "</s>" in text]


def changed(folder: Path, target: Path, name: str, settings: dict[str, object]) -> Path:
    """A copy of a checkpoint, one of its JSON files changed."""
    copytree(folder, target)
    content = json.loads((target / name).read_text()) | settings
    (target / name).write_text(json.dumps(content))
    return target


def test_a_checkpoints_own_sampling_habits_change_nothing(
    tiny: TransformersModel, folder: Path, tmp_path: Path
) -> None:
    habits: dict[str, object] = {
        "do_sample": True,
        "temperature": 0.1,
        "top_k": 1,
        "top_p": 0.1,
        "repetition_penalty": 5.0,
        "no_repeat_ngram_size": 1,
        "min_new_tokens": 20,
        "max_length": 5,
        "num_beams": 2,
    }
    other = model(changed(folder, tmp_path / "copy", "generation_config.json", habits))

    assert answers(other, MIXED) == answers(tiny, MIXED)


def test_a_checkpoints_own_end_tokens_end_its_answers(
    tiny: TransformersModel, folder: Path, tmp_path: Path
) -> None:
    from transformers import AutoTokenizer

    request = ask("Hello.", max_tokens=40)
    text = answers(tiny, [request])[request.key].texts
    assert text is not None
    end = AutoTokenizer.from_pretrained(str(folder))(text[0])["input_ids"][4]
    other = model(
        changed(folder, tmp_path / "copy", "generation_config.json", {"eos_token_id": [1, end]})
    )

    cut = answers(other, [request])[request.key]

    assert cut.stop == "stop"
    assert cut.texts is not None
    assert text[0].startswith(cut.texts[0])
    assert len(cut.texts[0]) < len(text[0])


def test_a_prompt_too_long_is_unsupported_and_both_numbers_are_named(
    tiny: TransformersModel,
) -> None:
    [response] = tiny.answer([ask("no " * 4100)])

    assert response.failure is not None
    assert response.failure.reason is Reason.UNSUPPORTED
    assert "4106 tokens" in response.failure.message
    assert "4096" in response.failure.message


def test_an_answer_is_cut_where_the_models_positions_end(tiny: TransformersModel) -> None:
    [response] = tiny.answer([ask("no " * 4080, max_tokens=500)])

    assert response.failure is None
    assert response.usage.prompt_tokens is not None
    assert response.usage.prompt_tokens + (response.usage.completion_tokens or 0) <= 4096


def test_turns_the_template_refuses_are_unsupported(folder: Path, tmp_path: Path) -> None:
    template = "{{ raise_exception('no such turns') }}"
    other = model(
        changed(folder, tmp_path / "copy", "tokenizer_config.json", {"chat_template": template})
    )

    [response] = other.answer([ask("Hello.")])

    assert response.failure is not None
    assert response.failure.reason is Reason.UNSUPPORTED
    assert "no such turns" in response.failure.message


def test_what_it_cannot_do_is_unsupported(tiny: TransformersModel) -> None:
    [response] = tiny.answer([ask("Hello.", Mode.EMBED)])

    assert response.failure is not None
    assert response.failure.message == "tiny cannot embed; it can generate"


def test_identity_names_version_tokenizer_and_dtype_and_not_the_engine(
    tiny: TransformersModel, folder: Path
) -> None:
    assert tiny.identity.startswith(f"transformers:folder@{tiny.revision}")
    assert tiny.identity.endswith(":float32")
    assert len(tiny.revision) == 7
    assert model(folder, batch_tokens=1, device="cpu").identity == tiny.identity
    assert model(folder, dtype="bfloat16").identity != tiny.identity


def test_the_built_checkpoint_is_the_folder_it_is_built_into(
    tiny: TransformersModel, folder: Path
) -> None:
    spec = TransformersSpec(model="tiny-random", build="tiny-llama")

    assert TransformersModel("tiny-random", spec, folder.parent).identity == tiny.identity


def test_identity_needs_no_weights(folder: Path, tmp_path: Path) -> None:
    copy = copytree(folder, tmp_path / "copy")
    (copy / "model.safetensors").write_bytes(b"broken")
    broken = model(copy)

    assert broken.identity

    with pytest.raises(ModelError, match="cannot be loaded"):
        list(broken.answer([ask("Hello.")]))


def test_loading_and_answering_print_nothing(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    list(model(folder).answer([ask(QUESTIONS[0]), ask("no " * 4100)]))

    assert capfd.readouterr() == ("", "")


def test_importing_the_back_end_imports_no_heavy_package() -> None:
    code = "import sys, harness.models.transformers_lm; print(*sys.modules)"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert not {"torch", "transformers", "tokenizers"} & {*done.stdout.split()}
