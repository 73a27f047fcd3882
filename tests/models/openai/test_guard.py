"""A guard model, which says safe or unsafe, with the real client against a stub on loopback."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support.each import each
from support.stub_script import Script
from support.stub_server import StubServer

from harness.cli import main
from harness.core import Request, Response, Sample
from harness.library import load_runs
from harness.models.labels import LabelQuestions
from harness.models.openai.model import GuardModel
from harness.parts import Decoding, Message, Mode, Reason
from harness.registry import Registry, shipped_home
from harness.specs.models import GuardSpec
from harness.text.parsers import SafetyVerdict, safety_verdict

HOME = shipped_home()
TASK = Registry((HOME,), {}, HOME / "no cache").load("tasks", "hate_speech")
REPLIES = {
    "safe": "no",
    "\n\nsafe": "no",
    "unsafe\nS10": "yes",
    "\n\nunsafe\nS1,S10\n": "yes",
    "unsafe\nS2": "yes",
    "unsafe": "yes",
}
ODD = ("Safe to say", "unsafe\nS99", "safe\nS10", "S10", "I cannot help with that.", "unsafe S10")


def request(text: str, step: str = "answer") -> Request:
    words = (Message("user", f"Text: {text}"),)
    return Request(text, "base", step, "m", words, Decoding(), Mode.CHOOSE, (" yes", " no"))


def guard(stub: StubServer, *texts: str, counted: tuple[str, ...] = ()) -> GuardModel:
    hazards = tuple(f"S{number}" for number in range(1, 15))
    spec = GuardSpec(model="guard", base_url=stub.url, hazards=hazards, counted=counted, attempts=2)
    samples = [
        Sample(text, {"text": text}, {"labels": ("hateful", "benign")}, ("yes", "no"), gold="yes")
        for text in texts
    ]
    return GuardModel("guard", spec, LabelQuestions.of(TASK, samples, model="guard"), {})


def answered(reply: str, *, counted: tuple[str, ...] = ()) -> Response:
    with StubServer(Script(replies={"": (reply,)})) as stub:
        [response] = guard(stub, "a text", counted=counted).answer([request("a text")])
        return response


def chosen(response: Response) -> str | None:
    if response.choice_scores is None:
        return None
    [yes, no] = response.choice_scores
    return "yes" if yes.logprob > no.logprob else "no"


@each(("reply", "answer"), [*REPLIES.items()])
def test_safe_is_a_no_and_unsafe_a_yes(reply: str, answer: str) -> None:
    assert chosen(answered(reply)) == answer


@each("reply", ODD)
def test_another_reply_is_missing_and_never_safe(reply: str) -> None:
    response = answered(reply)

    assert response.failure is not None
    assert response.failure.reason is Reason.UNPARSED


@each(
    ("reply", "answer"),
    [("unsafe\nS10", "yes"), ("unsafe\nS2,S10", "yes"), ("unsafe\nS2", "no"), ("safe", "no")],
)
def test_where_hatred_alone_counts_other_hazards_are_a_no(reply: str, answer: str) -> None:
    assert chosen(answered(reply, counted=("S10",))) == answer


def test_where_hatred_alone_counts_an_unsafe_without_its_code_is_missing() -> None:
    assert chosen(answered("unsafe", counted=("S10",))) is None


def test_each_hazard_is_a_number_of_the_answer() -> None:
    detail = answered("unsafe\nS1,S10").detail

    assert {name for name, value in detail.items() if value} == {"flagged_S1", "flagged_S10"}
    assert len(detail) == 14


def test_it_is_sent_the_text_and_no_prompt() -> None:
    with StubServer(Script(replies={"": ("safe",)})) as stub:
        list(guard(stub, "a text").answer([request("a text"), request("a text", "neutral")]))

        [body] = stub.bodies
    assert body["messages"] == [{"role": "user", "content": "a text"}]
    assert body["temperature"] == 0


def test_what_counts_is_part_of_the_identity() -> None:
    with StubServer(Script()) as stub:
        some, every = guard(stub, "x", counted=("S10",)), guard(stub, "x")
        some.resolve()
        every.resolve()

    assert some.identity != every.identity


def test_a_hazard_that_is_counted_and_unknown_is_refused() -> None:
    with pytest.raises(ValueError, match="S77"):
        GuardSpec(model="guard", hazards=("S1",), counted=("S77",))


def test_a_reply_names_its_hazards() -> None:
    assert safety_verdict("unsafe\nS1, S10") == SafetyVerdict(False, ("S1", "S10"))
    assert safety_verdict("safe") == SafetyVerdict(True)


def test_a_run_asks_a_guard_and_counts_what_it_flags(tmp_path: Path) -> None:
    path = tmp_path / "home" / "configs" / "models" / "mine.yaml"
    path.parent.mkdir(parents=True)
    script = Script(replies={"": ("unsafe\nS10", "safe", "unsafe\nS1", "I would rather not say.")})
    with StubServer(script) as stub:
        shipped = (HOME / "configs/models/llama-guard-3-8b.yaml").read_text("utf-8")
        path.write_text(shipped.replace("http://localhost:8000/v1", stub.url), "utf-8")
        words = "run --task hate_speech --model mine --scorer none --limit 24"
        folders = ["--home", str(tmp_path / "home"), "--results", str(tmp_path / "results")]
        code = main([*words.split(), *folders])
        said = {stub_text(body) for body in stub.bodies}

    assert code == 1  # some replies are neither safe nor unsafe
    [run] = load_runs(tmp_path / "results")
    answers = Counter(row.answer for row in run._folder.read_rows())
    lost = run.missing.query("reason == 'unparsed'")["count"].sum()
    assert answers["yes"] + answers["no"] + lost == len(said) == 24
    assert min(answers["yes"], answers["no"], lost) > 0
    assert any(row.steps[-1].detail.get("flagged_S10") for row in run._folder.read_rows())


def stub_text(body: dict[str, Any]) -> str:
    return str(body["messages"][0]["content"])
