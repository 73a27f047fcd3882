"""The moderation endpoint as a model, with the real client library against a stub on loopback."""

from collections.abc import Mapping

import pytest
from support.each import each
from support.stub_script import Script
from support.stub_server import StubServer

from harness.core import Request, Response, Sample
from harness.errors import ModelError, SpecError
from harness.models.labels import LabelQuestions
from harness.models.openai.model import ModerationModel
from harness.parts import Decoding, Message, Mode, Reason
from harness.registry import Registry, shipped_home
from harness.specs.models import ModerationSpec

KEY = "sk-a-key-nobody-may-see"
HOME = shipped_home()
TASK = Registry((HOME,), {}, HOME / "no cache").load("tasks", "hate_speech")
FAULTS: Mapping[str, tuple[Reason | None, str]] = {
    "429": (Reason.FAILED, "429"),
    "500": (Reason.FAILED, "500"),
    "cut": (Reason.FAILED, "payload is not completed"),
    "garbled-head": (Reason.FAILED, "Bad status line"),
    "long-header": (Reason.FAILED, "8190 bytes"),
    "late": (Reason.FAILED, "no answer within"),
    "malformed": (Reason.FAILED, "not JSON"),
    "error-200": (Reason.FAILED, "upstream is busy"),
    "no-results": (Reason.FAILED, "no results"),
    "text-score": (Reason.FAILED, "not well formed (results)"),
    "nan-score": (Reason.FAILED, "odd names or scores"),
    "many-categories": (Reason.FAILED, "more than 100 categories"),
    "escaped-category": (Reason.FAILED, "odd names or scores"),
    "long-category": (Reason.FAILED, "odd names or scores"),
    "400-filter": (Reason.FILTERED, "400"),
    "null-category": (None, ""),
    "bare-flag": (None, ""),
}


def sample(text: str, labels: tuple[str, ...] = ("hateful", "benign")) -> Sample:
    choices = ("yes", "no", "maybe")[: len(labels)]
    return Sample(text, {"text": text}, {"labels": labels}, choices=choices, gold="yes")


def request(text: str, step: str = "answer") -> Request:
    words = (Message("user", f"Text: {text}"),)
    return Request(text, "base", step, "m", words, Decoding(), Mode.CHOOSE, (" yes", " no"))


def model(stub: StubServer, *texts: str, key: str = KEY) -> ModerationModel:
    spec = ModerationSpec(
        model="mod", base_url=stub.url, key_env="STUB_KEY", attempts=1, timeout_s=0.5
    )
    questions = LabelQuestions.of(TASK, [sample(text) for text in texts], model="mod")
    return ModerationModel("mod", spec, questions, {"STUB_KEY": key})


def answered(script: Script, *texts: str) -> dict[str, Response]:
    with StubServer(script) as stub:
        asked = {request(text).key: text for text in texts}
        found = model(stub, *texts).answer([request(text) for text in texts])
        return {asked[response.key]: response for response in found}


def chosen(response: Response) -> str:
    [yes, no] = response.choice_scores or ()
    return "yes" if yes.logprob > no.logprob else "no"


def test_any_flag_is_a_yes_and_every_score_is_kept() -> None:
    found = answered(Script(), "a FLAG here", "all quiet")

    assert [chosen(found[text]) for text in ("a FLAG here", "all quiet")] == ["yes", "no"]
    assert found["a FLAG here"].detail == {
        "hate": 0.91,
        "violence": 0.25,
        "flagged_hate": 1.0,
        "flagged_violence": 0.0,
    }
    assert found["all quiet"].served == "mod-2024"


def test_a_flagged_category_counts_where_the_whole_does_not() -> None:
    found = answered(Script(faults={"": ("flag-alone",)}), "all quiet")
    assert chosen(found["all quiet"]) == "yes"


def test_of_the_other_label_a_bound_alone_is_known() -> None:
    found = answered(Script(), "all quiet")["all quiet"]
    assert [score.is_bound for score in found.choice_scores or ()] == [True, False]


@pytest.fixture(scope="module")
def lasting() -> dict[str, Response]:
    texts = [f"<{name}>" for name in FAULTS]
    script = Script(faults={text: (text[1:-1],) for text in texts}, late_s=1.0)
    return answered(script, *texts)


@each("name", FAULTS)
def test_a_fault_is_a_reason_and_never_an_answer(name: str, lasting: dict[str, Response]) -> None:
    response, (reason, word) = lasting[f"<{name}>"], FAULTS[name]

    assert (response.failure.reason if response.failure else None) is reason
    assert word in (response.failure.message if response.failure else "")
    assert KEY not in str(response)


def test_a_key_that_is_refused_ends_the_run_and_is_not_reported() -> None:
    with StubServer(Script(key="another")) as stub:
        asked = model(stub, "x").answer([request("x")])
        with pytest.raises(ModelError, match="STUB_KEY") as told:
            list(asked)

    assert KEY not in str(told.value)


def test_it_is_sent_the_text_and_no_prompt() -> None:
    with StubServer(Script()) as stub:
        list(model(stub, "all quiet").answer([request("all quiet")]))
        assert stub.bodies == [{"model": "mod", "input": "all quiet"}]


def test_a_step_without_a_text_is_no_call() -> None:
    with StubServer(Script()) as stub:
        [response] = model(stub, "x").answer([request("x", "neutral")])

        assert len({score.logprob for score in response.choice_scores or ()}) == 1
        assert stub.stats()["requests"] == 0


def test_a_task_of_three_labels_is_refused() -> None:
    questions = LabelQuestions.of(TASK, [sample("x", ("hateful", "benign", "odd"))], model="mod")
    with pytest.raises(SpecError, match="two labels"):
        ModerationModel("mod", ModerationSpec(model="mod"), questions, {})
