import json
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path
from random import Random
from shutil import copytree

import pytest
from support.sketches import resolved

from harness.core import Request, Response
from harness.errors import ModelError
from harness.models.local.tiny_llama import build_tiny_llama
from harness.models.local.transformers_lm import TransformersModel
from harness.parts import Decoding, Message, Mode, Reason
from harness.specs.models import TransformersSpec

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


@pytest.mark.slow
def test_order_and_batch_size_change_no_answer(tiny: TransformersModel, folder: Path) -> None:
    expected = answers(tiny, MIXED)

    for order, batch_tokens in ((1, 1), (2, 400), (1, 10**6)):
        shuffled = Random(order).sample(MIXED, len(MIXED))
        other = answers(model(folder, batch_tokens=batch_tokens), shuffled)
        assert other == expected, (order, batch_tokens)


def test_replies_of_one_request_differ_and_so_do_repeats_and_seeds(tiny: TransformersModel) -> None:
    first, second = ask("Hello.", temperature=1.0, n=3), ask("Hello.", temperature=1.0, n=3, seed=2)
    texts = [text for response in tiny.answer([first, second]) for text in response.texts or ()]
    assert len(set(texts)) == 6


def test_usage_counts_no_padding_and_stop_says_a_cut_answer(tiny: TransformersModel) -> None:
    short, long = (ask(text, max_tokens=40) for text in (QUESTIONS[0], QUESTIONS[3]))

    together, alone = answers(tiny, [short, long]), answers(tiny, [short])

    usage = together[short.key].usage
    assert usage == alone[short.key].usage
    assert together[short.key].stop == "length"
    assert (usage.prompt_tokens, usage.completion_tokens) == (9, 40)


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


def test_a_prompt_too_long_is_unsupported_and_both_numbers_named(tiny: TransformersModel) -> None:
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


def test_identity_names_version_tokenizer_and_dtype_and_not_the_engine(
    tiny: TransformersModel, folder: Path
) -> None:
    identity = resolved(tiny).identity

    assert identity.startswith(f"transformers:folder@{tiny.revision}")
    assert identity.endswith(":float32")
    assert len(tiny.revision or "") == 7
    assert resolved(model(folder, batch_tokens=1, device="cpu")).identity == identity
    assert resolved(model(folder, dtype="bfloat16")).identity != identity
    assert resolved(model(folder, choice_prompt="chat")).identity == f"{identity}:chat-choices"


SCORED = Decoding(max_tokens=1)
OPTIONS = (" He wants it.", " Not the cake.", " 3")


def choose(context: str, *choices: str, model: str = "tiny") -> Request:
    turns = (Message("user", context),)
    return Request("s", "base", "answer", model, turns, SCORED, Mode.CHOOSE, choices)


CHOOSING = [
    choose(f"{story}{order}\nAnswer:", *choices)
    for story in QUESTIONS
    for order in ("1) Yes 2) No", "1) No 2) Yes", "")
    for choices in ((" 1", " 2"), OPTIONS)
]


def logprobs(responses: Iterable[Response]) -> dict[str, list[float]]:
    return {r.key: [score.logprob for score in r.choice_scores or ()] for r in responses}


def differ(one: dict[str, list[float]], other: dict[str, list[float]]) -> float:
    assert one.keys() == other.keys()
    pairs = [zip(one[key], other[key], strict=True) for key in one]
    return max(abs(left - right) for pair in pairs for left, right in pair)


def test_a_choice_is_scored_by_the_sum_over_its_tokens_given_the_context(
    tiny: TransformersModel, folder: Path
) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(str(folder))
    context = tokenizer(QUESTIONS[2])["input_ids"]
    tokens = tokenizer(QUESTIONS[2] + OPTIONS[0])["input_ids"]
    logits = AutoModelForCausalLM.from_pretrained(str(folder))(torch.tensor([tokens])).logits[0]
    told = torch.log_softmax(logits.double(), -1)
    places = range(len(context), len(tokens))

    [response] = tiny.answer([choose(QUESTIONS[2], *OPTIONS)])

    assert tokens[: len(context)] == context
    assert response.choice_scores is not None
    score = response.choice_scores[0]
    assert score.logprob == pytest.approx(sum(told[p - 1, tokens[p]].item() for p in places))
    assert (score.tokens, score.bytes, score.spanned) == (len(places), 13, 0)
    assert (response.usage.prompt_tokens, response.usage.completion_tokens) == (len(context), 0)


def test_order_and_batch_size_change_no_choice(tiny: TransformersModel, folder: Path) -> None:
    expected = logprobs(tiny.answer(CHOOSING))

    for order, batch_tokens in product((1, 2), (1, 300, 10**6)):
        shuffled = Random(order).sample(CHOOSING, len(CHOOSING))
        other = logprobs(model(folder, batch_tokens=batch_tokens).answer(shuffled))
        assert differ(other, expected) < 1e-5, (order, batch_tokens)


def test_wrong_weights_are_named_where_they_are_used(folder: Path, tmp_path: Path) -> None:
    copy = copytree(folder, tmp_path / "broken")
    (copy / "model.safetensors").write_bytes(b"no weights")
    broken = model(copy)

    for _ in range(2):  # asked again, it is tried again
        with pytest.raises(ModelError, match="cannot be loaded"):
            list(broken.answer([CHOOSING[0]]))


def test_a_run_taken_up_again_scores_the_same_together(tiny: TransformersModel) -> None:
    requests = [choose(f"{number} ", " 1", " 2") for number in range(600)]
    requests[5], requests[300] = choose("no " * 4100, " 1"), choose("no " * 4200, " 1")
    whole = answers(tiny, requests)

    running, kept = tiny.answer(requests), dict[str, Response]()
    while sum(response.failure is None for response in kept.values()) < 256:
        response = next(running)
        kept[response.key] = response
    taken = [r for r in requests if r.key not in kept or kept[r.key].failure is not None]

    assert kept | answers(tiny, taken) == whole


@pytest.mark.parametrize(
    ("context", "choice", "fact"),
    [
        ("no " * 4100, " 1", "context and choice have 4104 tokens, and the model has 4096"),
        ("", " one", "there is nothing before the choices"),
        ("Hello.", "", "a choice is ''"),
    ],
    ids=["too long", "nothing before", "empty"],
)
def test_what_cannot_be_scored_is_unsupported_and_never_cut(
    tiny: TransformersModel, context: str, choice: str, fact: str
) -> None:
    [response] = tiny.answer([choose(context, choice)])

    assert response.failure is not None
    assert response.failure.reason is Reason.UNSUPPORTED
    assert fact in response.failure.message


@pytest.mark.parametrize(("count", "fits"), [(4093, True), (4094, False)])
def test_the_last_token_of_a_choice_needs_no_position(
    tiny: TransformersModel, count: int, *, fits: bool
) -> None:
    [response] = tiny.answer([choose("no " * count, " 1")])
    assert (response.failure is None) == fits


def test_in_chat_form_a_choice_opens_the_models_turn(tiny: TransformersModel, folder: Path) -> None:
    template = "<s><|user|>Hello.</s><|assistant|>"
    chat = model(folder, choice_prompt="chat")

    [found] = logprobs(chat.answer([choose("Hello.", *OPTIONS)])).values()
    unspaced = [choice.strip() for choice in OPTIONS]
    [plain] = logprobs(tiny.answer([choose(template, *unspaced)])).values()

    assert found == pytest.approx(plain, abs=1e-5)


def test_an_encoder_with_a_decoder_is_refused_by_name(folder: Path, tmp_path: Path) -> None:
    other = changed(
        folder, tmp_path / "copy", "config.json", {"model_type": "t5", "architectures": ["T5Model"]}
    )

    with pytest.raises(ModelError, match="t5 is an encoder with a decoder"):
        list(model(other).answer([choose("Hello.", " 1")]))


def test_what_does_not_fit_in_memory_by_itself_failed_and_neighbours_did_not(folder: Path) -> None:
    import torch

    def check(_: object, __: object, given: dict[str, torch.Tensor]) -> None:
        if given["input_ids"].numel() > 60:
            raise torch.OutOfMemoryError("no room")

    cramped = model(folder)
    cramped._weights.register_forward_pre_hook(check, with_kwargs=True)
    requests = [choose(text, " 1", " 2") for text in QUESTIONS]

    found = answers(cramped, requests)

    reasons = [r.failure.reason if (r := found[q.key]).failure else None for q in requests]
    assert reasons == [None, None, None, Reason.FAILED]


def test_a_log_probability_that_is_no_number_is_a_failure(folder: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    copy = copytree(folder, tmp_path / "copy")
    head = weights["lm_head.weight"] * 1e38
    save_file(weights | {"lm_head.weight": head}, copy / "model.safetensors", {"format": "pt"})

    [response] = model(copy).answer([choose("Hello.", " 1")])

    assert response.failure is not None
    assert response.failure.reason is Reason.FAILED
    assert "in float32; use another dtype" in response.failure.message
