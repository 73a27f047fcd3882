"""Every stage is planned minus stored: nothing is asked twice, and nothing missing is judged."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

import pytest
from support.sketches import HOSTILE, Talker, plan, reply, request, run_file, task

from harness.core import Case, Request, Response, Sample, Verdict
from harness.errors import StoreError
from harness.models.client.cached import CachedClient
from harness.models.scripted import ScriptedModel
from harness.parts import Decoding, Failure, Message, Reason
from harness.pipeline.execute import answer, ask, read
from harness.pipeline.records import with_verdicts
from harness.pipeline.walk import case_of, cases_of
from harness.specs.tasks import StepSpec, VariantSpec
from harness.storage.ledger import Ledger
from harness.storage.run_tables import SampleRecord, VerdictRecord
from harness.storage.runs import RunFolder

BOTH = ("plain", "think")


@dataclass
class Asker:
    """A judge that asks twice about each answer and wants to hear "good" both times."""

    name: str = "asker"
    metric: str = "accuracy"
    recipe: str = "asker:00|twice"
    cases: list[Case] = field(default_factory=list)

    def ask(self, sample: Sample, response: Response) -> tuple[Request, ...]:
        """One question in each of two wordings."""
        assert response.texts is not None, "a judge is asked about answers only"
        words = [f"{word} {response.texts[0]} on {sample.fields['topic']}?" for word in "AB"]
        said = [(Message("user", text),) for text in words]
        return tuple(Request(sample.id, "asker", "q", "j@1", m, Decoding()) for m in said)

    def read(self, cases: Sequence[Case]) -> list[Verdict]:
        """The share of good replies, or the reason of the first that failed."""
        self.cases += cases
        return [self._verdict(case) for case in cases]

    def _verdict(self, case: Case) -> Verdict:
        bad = [part.failure for part in case.replies if part.failure]
        if bad:
            return Verdict(case.response.key, self.name, None, bad[0].reason, bad[0].message)
        heard = [(part.texts or ("",))[0] == "good" for part in case.replies]
        return Verdict(case.response.key, self.name, sum(heard) / len(heard))


def said_of(topic: str, text: str, *, step: str = "") -> Callable[[Request], str]:
    """A model that says `text` where a prompt is about `topic`, at one step or at all."""

    def say(asked: Request) -> str:
        is_meant = topic in asked.messages[-1].content and step in asked.step
        return text if is_meant else f"On {asked.step}."

    return say


def failing_on(topic: str, reason: Reason = Reason.REFUSED) -> Callable[[Request], str | Response]:
    """A model that has no answer where a prompt is about `topic`."""

    def say(asked: Request) -> str | Response:
        fails = topic in asked.messages[-1].content
        return Response.failed(asked.key, reason, "no") if fails else "Fine."

    return say


def seen(record: SampleRecord, step: str | None = None) -> Response:
    case = case_of(record, task(), step=step)
    assert case is not None
    return case.response


def why(record: SampleRecord) -> Failure:
    failure = seen(record).failure
    assert failure is not None
    return failure


def cases(records: Sequence[SampleRecord]) -> list[Case]:
    return list(cases_of(records, task(), step=None).values())


def texts(records: Sequence[SampleRecord]) -> list[str | None]:
    found = [(seen(record).texts or (None,))[0] for record in records]
    assert [record.answer for record in records] == found
    return found


# Answering


def test_each_cell_is_asked_once_and_answered_in_the_order_of_the_plan(tmp_path: Path) -> None:
    talker = Talker(lambda asked: asked.messages[-1].content.upper())
    trials = answer(plan(tmp_path, "tea", "rain"), talker.desk(tmp_path))

    assert texts(trials) == ["SAY SOMETHING ABOUT TEA.", "SAY SOMETHING ABOUT RAIN."]
    places = [(t.sample.id, t.variant, t.decoding) for t in trials]
    assert places == [(name, "plain", "T0") for name in ("s1", "s2")]


def test_what_is_stored_is_not_asked_again(tmp_path: Path) -> None:
    talker, planned = Talker(), plan(tmp_path, variants=BOTH)

    first = answer(planned, talker.desk(tmp_path))
    count = len(talker.heard)
    second = answer(planned, talker.desk(tmp_path))

    assert (count, len(talker.heard)) == (9, 9)  # 3 topics: 3 plain, 3 thoughts, 3 after them
    assert second == first


@pytest.mark.parametrize(
    ("reason", "asked", "then"),
    [(Reason.FAILED, ["Say something about rain."], "On response."), (Reason.REFUSED, [], None)],
)
def test_only_what_failed_is_asked_again(
    tmp_path: Path, reason: Reason, asked: list[str], then: str | None
) -> None:
    planned, good = plan(tmp_path), Talker()
    first = answer(planned, Talker(failing_on("rain", reason)).desk(tmp_path))
    second = answer(planned, good.desk(tmp_path))

    assert texts(first) == ["Fine.", None, "Fine."]
    assert (texts(second), good.prompts) == (["Fine.", then, "Fine."], asked)


def test_a_model_that_breaks_down_loses_nothing_that_came_before(tmp_path: Path) -> None:
    def say(asked: Request) -> str:
        if "snow" in asked.messages[-1].content:
            raise RuntimeError("a bug of ours")
        return "Fine."

    with pytest.raises(RuntimeError, match="a bug of ours"), Talker(say).desk(tmp_path) as desk:
        answer(plan(tmp_path), desk)
    talker = Talker()
    trials = answer(plan(tmp_path), talker.desk(tmp_path))

    assert talker.prompts == ["Say something about snow."]
    assert texts(trials) == ["Fine.", "Fine.", "On response."]


def test_nothing_is_asked_where_nothing_can_be_stored(tmp_path: Path) -> None:
    (tmp_path / "calls").symlink_to(tmp_path / "a disk that is not there")
    talker = Talker()
    with pytest.raises(StoreError, match="--results"):
        answer(plan(tmp_path), talker.desk(tmp_path))

    assert talker.heard == []


@pytest.mark.parametrize(("stored", "missing"), [(0, 3), (1, 2), (2, 1)])
def test_offline_missing_calls_are_an_error(tmp_path: Path, stored: int, missing: int) -> None:
    topics, talker = ("tea", "rain", "snow"), Talker()
    if stored:
        answer(plan(tmp_path, *topics[:stored]), Talker().desk(tmp_path))

    with pytest.raises(StoreError, match=f"{missing} of 3 calls are not stored; .*--offline"):
        answer(plan(tmp_path, *topics), talker.desk(tmp_path, is_offline=True))

    assert talker.heard == []


def test_offline_a_stored_failure_stands_and_is_not_asked_again(tmp_path: Path) -> None:
    planned = plan(tmp_path, "tea", "rain")
    first = answer(planned, Talker(failing_on("tea", Reason.FAILED)).desk(tmp_path))
    again = answer(planned, Talker().desk(tmp_path, is_offline=True))

    assert again == first


@pytest.mark.parametrize("seed", range(3))
def test_answers_that_come_in_any_order_reach_their_own_samples(tmp_path: Path, seed: int) -> None:
    class Shuffled(ScriptedModel):
        """Answers in another order than it was asked."""

        def answer(self, requests: Iterable[Request]) -> Iterator[Response]:
            asked = list(requests)
            return map(self.reply, Random(seed).sample(asked, len(asked)))

    model = Shuffled("m", lambda asked: reply(asked, asked.messages[-1].content))
    desk = CachedClient(model, Ledger(tmp_path / "calls"), lambda *_: None)

    trials = answer(plan(tmp_path, *"abcdefgh"), desk)

    assert texts(trials) == [f"Say something about {topic}." for topic in "abcdefgh"]


@pytest.mark.parametrize(
    ("said", "seen"),
    [
        *(("Fine.", "Fine."), ("  Fine.\n", "Fine."), ("One.\n\nTwo.", "One.")),
        *(("\n\nOne.\n  \nTwo.", "One."), ("One.\nTwo.", "One.\nTwo.")),
    ],
)
def test_judges_see_the_answer_as_the_task_cuts_it(tmp_path: Path, said: str, seen: str) -> None:
    [trial] = answer(plan(tmp_path, "tea"), Talker(lambda _: said).desk(tmp_path))
    assert texts([trial]) == [seen]
    assert trial.steps[0].text == said


@pytest.mark.parametrize(
    ("said", "stop", "expected"),
    [
        ("She hints.\nAnswer: Sure.", "stop", ("Sure.",)),
        ("She hints.\nAnswer: Sure, I", "length", ("Sure, I",)),
        ("Sure.", "stop", ("Sure.",)),
        ("She hints.\nSure.", "stop", Reason.UNPARSED),
        ("She chose these words because", "length", Reason.TRUNCATED),
        ("", "length", Reason.EMPTY),
    ],
)
def test_an_answer_is_cut_out_of_its_reasoning_or_is_missing(
    tmp_path: Path, said: str, stop: str, expected: tuple[str, ...] | Reason
) -> None:
    step = StepSpec(name="response", template="toy/plain", postprocess="answer_line")
    spec = task(variants={"plain": VariantSpec(about="", steps=(step,))})
    talker = Talker(lambda asked: replace(reply(asked, said), stop=stop))
    with talker.desk(tmp_path) as desk:
        [record] = answer(plan(tmp_path, "tea", spec=spec), desk)

    case = case_of(record, spec)
    assert case is not None
    failure = case.response.failure
    assert (failure.reason if failure else case.response.texts) == expected
    assert record.answer == (expected[0] if isinstance(expected, tuple) else None)


# Steps


@pytest.mark.parametrize("reason", list(Reason))
def test_a_failed_or_blank_first_step_is_missing_and_the_end(
    tmp_path: Path, reason: Reason
) -> None:
    is_blank = reason is Reason.EMPTY
    say = said_of("rain", " \n", step="thought") if is_blank else failing_on("rain", reason)
    talker = Talker(say)

    trials = answer(plan(tmp_path, "tea", "rain", variants=("think",)), talker.desk(tmp_path))

    assert why(trials[1]).reason is reason
    assert why(trials[1]).message == f"step thought: {'the answer is blank' if is_blank else 'no'}"
    assert [asked.sample_id for asked in talker.heard] == ["s1", "s2", "s1"]


def test_first_steps_that_failed_are_asked_again_and_then_go_on(tmp_path: Path) -> None:
    planned = plan(tmp_path, "tea", "rain", variants=("think",))
    answer(planned, Talker(failing_on("rain", Reason.FAILED)).desk(tmp_path))
    talker = Talker()

    trials = answer(planned, talker.desk(tmp_path))

    heard = [(asked.sample_id, asked.step) for asked in talker.heard]
    assert heard == [("s2", "thought"), ("s2", "response")]
    assert texts(trials) == ["Fine.", "On response."]


# Judging


def judged(
    folder: Path, judge: Asker, *topics: str, model: Talker, oracle: Talker
) -> list[VerdictRecord]:
    """Verdicts on what `model` says, by what `oracle` tells the judge."""
    trials = answer(plan(folder, *topics), model.desk(folder))
    return ask(cases(trials), judge, oracle.desk(folder / "judge"))


def test_a_judges_replies_reach_the_answers_they_are_about(tmp_path: Path) -> None:
    oracle = Talker(lambda asked: "good" if "tea" in asked.messages[-1].content else "bad")

    topics, model = ("rain", "tea", "snow"), Talker()

    found = judged(tmp_path, Asker(), *topics, model=model, oracle=oracle)

    assert [part.value for part in found] == [0.0, 1.0, 0.0]
    assert [len(part.keys) for part in found] == [2, 2, 2]
    assert [part.replies for part in found] == [("bad",) * 2, ("good",) * 2, ("bad",) * 2]
    assert len({key for part in found for key in part.keys}) == 6
    # Repeated, the command asks nothing again.
    assert found == judged(tmp_path, Asker(), *topics, model=model, oracle=oracle)
    assert (len(model.heard), len(oracle.heard)) == (3, 6)


@pytest.mark.parametrize("reason", list(Reason))
def test_a_missing_answer_keeps_its_reason_and_has_no_judge(tmp_path: Path, reason: Reason) -> None:
    judge, oracle = Asker(), Talker(lambda _: "good")
    model = Talker(failing_on("rain", reason))

    _, lost = judged(tmp_path, judge, "tea", "rain", model=model, oracle=oracle)

    assert [case.sample.id for case in judge.cases] == ["s1"]
    assert {asked.sample_id for asked in oracle.heard} == {"s1"}
    assert (lost.keys, lost.replies) == ((), ())
    assert (lost.value, lost.reason, lost.note) == (None, reason, "no")


@pytest.mark.parametrize("reason", list(Reason))
def test_a_judge_reads_why_it_got_no_reply(tmp_path: Path, reason: Reason) -> None:
    oracle = Talker(failing_on("B Fine", reason))
    [found] = judged(tmp_path, Asker(), "tea", model=Talker(lambda _: "Fine."), oracle=oracle)
    assert (found.value, found.reason) == (None, reason)


def test_stored_replies_can_be_read_again_without_a_call(tmp_path: Path) -> None:
    trials = answer(plan(tmp_path, "tea", "rain"), Talker(failing_on("rain")).desk(tmp_path))
    first = ask(cases(trials), Asker(), Talker(lambda _: "good").desk(tmp_path / "judge"))
    keys = [part.keys for part in first]
    stored = Ledger(tmp_path / "judge" / "calls").find([key for part in keys for key in part])

    assert read(cases(trials), Asker(), keys=keys, replies=stored) == first


# Earlier steps


def test_a_judge_of_a_step_sees_what_that_step_came_to_as_the_task_cuts_it(tmp_path: Path) -> None:
    planned = plan(tmp_path, "tea", variants=("think",))
    talker = Talker(said_of("tea", " A hint.\n\nMore.", step="thought"))
    [trial] = answer(planned, talker.desk(tmp_path))

    case = case_of(trial, planned.task, step="thought")

    assert case is not None
    assert (case.response.texts, case.response.key) == (("A hint.",), trial.steps[0].key)
    assert (case.sample, case.variant) == (trial.sample, trial.variant)


@pytest.mark.parametrize(
    ("topic", "texts", "reason"),
    [("What is meant", None, Reason.REFUSED), ("You thought", ("Fine.",), None)],
    ids=["the step itself", "a later step"],
)
def test_a_step_is_missing_where_it_failed_and_not_where_a_later_one_did(
    tmp_path: Path, topic: str, texts: tuple[str, ...] | None, reason: Reason | None
) -> None:
    planned = plan(tmp_path, "tea", variants=("think",))
    [trial] = answer(planned, Talker(failing_on(topic)).desk(tmp_path))

    viewed = seen(trial, "thought")

    assert viewed.texts == texts
    assert (viewed.failure and viewed.failure.reason) == reason
    assert seen(trial).failure is not None


# Whole runs


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_answer_is_the_same_now_and_when_read_again(tmp_path: Path, text: str) -> None:
    planned = plan(tmp_path, "tea", variants=BOTH)
    first = answer(planned, Talker(lambda _: text).desk(tmp_path))
    second = answer(planned, Talker().desk(tmp_path, is_offline=True))

    assert second == first
    assert all(seen(trial).texts for trial in first)


def write(folder: Path, records: Sequence[SampleRecord]) -> object:
    """The digests of the tables after these records are judged and written."""
    found = ask(cases(records), Asker(), Talker(lambda _: "good").desk(folder / "judge"))
    rows = with_verdicts(records, "asker", dict(enumerate(found)))
    RunFolder(folder / "run").write(run_file(len(rows), *BOTH), rows)
    return RunFolder(folder / "run").read().tables


@pytest.mark.parametrize("stop", range(1, 9))
def test_a_run_that_was_stopped_anywhere_ends_in_the_same_bytes(tmp_path: Path, stop: int) -> None:
    planned = plan(tmp_path, variants=BOTH)
    whole = write(tmp_path / "whole", answer(planned, Talker().desk(tmp_path / "whole")))
    before, after = Talker(), Talker()

    def say(asked: Request) -> str:
        if len(before.heard) > stop:
            raise KeyboardInterrupt
        return f"On {asked.step}."

    before.say = say

    with pytest.raises(KeyboardInterrupt), before.desk(tmp_path / "torn") as desk:
        answer(planned, desk)
    resumed = write(tmp_path / "torn", answer(planned, after.desk(tmp_path / "torn")))

    assert resumed == whole
    assert len(after.heard) == 9 - stop


def test_a_desk_asks_for_each_key_once_and_answers_by_key(tmp_path: Path) -> None:
    talker, asked = Talker(), [request("a"), request("b"), request("a")]
    with talker.desk(tmp_path) as desk:
        found = desk.answer(asked, stage="answers")

    assert talker.prompts == ["a", "b"]
    assert found == {part.key: reply(part, "On response.") for part in asked}
