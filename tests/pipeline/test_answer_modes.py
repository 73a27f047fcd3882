"""How choices are answered: exactly where a model can, otherwise only as one asks for."""

from collections.abc import Iterable
from itertools import combinations

import pytest
from msgspec import structs
from support import sketches
from support.choice_cases import task, variants
from support.each import each

from harness.errors import SpecError
from harness.parts import Mode
from harness.pipeline.plan import SCORING, AnswerMode, decoding_label, decodings, with_mode
from harness.specs.tasks import DecodingSpec, TaskSpec

CHOOSE, TOKEN, WRITE, EMBED = Mode.CHOOSE, Mode.CHOOSE_TOKEN, Mode.GENERATE, Mode.EMBED
WRITTEN = DecodingSpec(temperature=0.7, max_tokens=12)


def asked(
    modes: Iterable[Mode], wanted: str | None = None, spec: TaskSpec | None = None
) -> TaskSpec:
    chosen = AnswerMode(wanted) if wanted else None
    return with_mode(spec or task(), frozenset(modes), chosen, model="some-model")


@each(
    ("modes", "wanted", "mode", "name"),
    [
        ((CHOOSE, TOKEN, WRITE), None, CHOOSE, "logprob"),
        ((CHOOSE, WRITE), None, CHOOSE, "logprob"),
        ((TOKEN, WRITE), None, TOKEN, "top_logprobs"),
        ((TOKEN,), None, TOKEN, "top_logprobs"),
        ((CHOOSE, TOKEN, WRITE), "logprob", CHOOSE, "logprob"),
        ((CHOOSE, TOKEN, WRITE), "top_logprobs", TOKEN, "top_logprobs"),
        ((CHOOSE, TOKEN, WRITE), "written", WRITE, "written"),
        ((WRITE,), "written", WRITE, "written"),
    ],
)
def test_choices_are_answered_as_exactly_as_a_model_can_or_as_one_asks(
    modes: tuple[Mode, ...], wanted: str | None, mode: Mode, name: str
) -> None:
    found = asked(modes, wanted)
    assert found.mode is mode
    assert decoding_label(found, found.decodings[0]) == name


def test_no_model_writes_its_choices_unasked() -> None:
    for size in (1, 2, 3, 4):
        for modes in combinations((CHOOSE, TOKEN, WRITE, EMBED), size):
            if not {CHOOSE, TOKEN} & set(modes):
                with pytest.raises(SpecError):
                    asked(modes)
            else:
                assert asked(modes).mode is not WRITE


@each(
    ("modes", "wanted", "facts", "absent"),
    [
        ((WRITE,), None, ["model some-model cannot give the log-prob", "written"], "top_logprobs"),
        ((WRITE,), "top_logprobs", ["likeliest next tokens", "--answers written,"], "logprob or"),
        ((TOKEN, WRITE), "logprob", ["--answers top_logprobs or written", "transformers"], "---"),
        ((CHOOSE, WRITE), "top_logprobs", ["--answers logprob or written"], "kind transformers"),
        ((CHOOSE,), "written", ["cannot write answers", "--answers logprob"], "written,"),
        ((EMBED,), None, ["what works: a model of kind transformers"], "--answers"),
        ((), "written", ["cannot write answers", "what works: a model"], "--answers"),
    ],
)
def test_what_a_model_cannot_do_is_refused_with_what_works(
    modes: tuple[Mode, ...], wanted: str | None, facts: list[str], absent: str
) -> None:
    with pytest.raises(SpecError) as caught:
        asked(modes, wanted)

    assert [fact for fact in facts if fact not in str(caught.value)] == []
    assert absent not in str(caught.value)


def test_a_task_without_choices_stays_as_it_is_for_any_model_that_writes() -> None:
    assert asked((WRITE,), spec=sketches.task()) == sketches.task()


def test_a_task_without_choices_is_not_for_a_model_that_only_makes_vectors() -> None:
    with pytest.raises(SpecError, match="model some-model writes no answers; name one that does"):
        asked((EMBED,), spec=sketches.task())


@pytest.mark.parametrize("wanted", ["logprob", "top_logprobs", "written"])
def test_a_neutral_step_is_for_log_probabilities_alone(wanted: str) -> None:
    found = asked(Mode, wanted, task(variants("order0", "order1", "order2")))
    named = [[step.name for step in variant.steps] for variant in found.variants.values()]
    assert named == [["answer"] if wanted == "written" else ["neutral", "answer"]] * 3


def test_only_answers_in_writing_are_drawn_as_the_task_says() -> None:
    spec = structs.replace(task(), decodings=(WRITTEN,))
    drawn = [decodings(asked(Mode, way, spec)) for way in ("logprob", "top_logprobs", "written")]

    assert drawn[:2] == [(SCORING,), (SCORING,)]
    assert [(part.temperature, part.max_tokens) for part in drawn[2]] == [(0.7, 12)]
