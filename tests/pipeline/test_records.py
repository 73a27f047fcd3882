"""Rows hold what happened, and trials come back from them as they were."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from support.run_tables import tables_of, with_costs
from support.sketches import Talker, failure, plan, reply, run_file, task

from harness.core import Request, Response, Verdict
from harness.errors import StoreError
from harness.parts import Reason, Superseded, Usage
from harness.pipeline import records
from harness.pipeline.execute import answer
from harness.pipeline.resolve import stored_responses
from harness.pipeline.walk import case_of, rebuild
from harness.specs.tasks import TaskSpec
from harness.storage.ledger import Ledger
from harness.storage.run_tables import SampleRecord, VerdictRecord
from harness.storage.runs import MissingCount


def tried(folder: Path, talker: Talker, *topics: str, variant: str = "think") -> list[SampleRecord]:
    return answer(plan(folder, *topics, variants=(variant,)), talker.desk(folder))


def missing(
    trial: SampleRecord, verdicts: Sequence[dict[str, VerdictRecord]]
) -> tuple[MissingCount, ...]:
    """What is missing of rows that have each of these verdicts."""
    tables = tables_of([replace(trial, verdicts=part) for part in verdicts])
    return records.missing_of(tables.files)


def lost(trial: SampleRecord, **verdicts: VerdictRecord) -> list[tuple[str, bool, Reason, int]]:
    found = missing(trial, [verdicts])
    return [(gap.judge, gap.is_reply, gap.reason, gap.count) for gap in found]


def again(folder: Path, trials: list[SampleRecord], spec: TaskSpec) -> list[SampleRecord]:
    found = Ledger(folder / "calls").find(records.step_keys(trials))
    return [rebuild(record, found, spec) for record in trials]


def test_a_row_shows_prompts_the_texts_as_they_came_and_the_answer_as_cut(tmp_path: Path) -> None:
    [row] = tried(tmp_path, Talker(lambda asked: f" {asked.step}.\n\nMore."), "tea")

    assert (row.sample.id, row.variant, row.decoding) == ("s1", "think", "T0")
    assert [step.messages[0].content for step in row.steps] == [
        "What is meant by tea?",
        "You thought: thought.\nNow answer about tea.",
    ]
    assert [step.text for step in row.steps] == [" thought.\n\nMore.", " response.\n\nMore."]
    assert row.answer == "response."


def test_an_answer_that_is_missing_is_counted_once_and_for_no_judge(tmp_path: Path) -> None:
    [trial] = tried(tmp_path, Talker(lambda asked: failure(asked, "no route")), "tea")
    verdicts = {name: VerdictRecord(None, Reason.FAILED) for name in ("one", "two")}
    assert lost(trial, **verdicts) == [("", False, Reason.FAILED, 1)]


def test_messages_that_differ_in_ids_and_times_alone_are_told_once(tmp_path: Path) -> None:
    told = "500 after {0}.5 s (req_0a1b2c3d4e{0}); call 6f1c2d{0}0-aa-41 of batch"
    notes = [told.format(n) for n in (1, 2, 3)]
    [trial] = tried(tmp_path, Talker(lambda asked: failure(asked, "no route")), "tea")
    some = [
        {"one": VerdictRecord(None, Reason.FAILED, note=note)}
        for note in [*notes, notes[1], "503 after 1.5 s (req_0a1b2c3d4e1)"]
    ]

    [found] = missing(trial, some)

    assert [(error.message, error.count) for error in found.said] == [
        ("500 after ... s (...); call ... of batch", 4),
        ("503 after 1.5 s (req_0a1b2c3d4e1)", 1),
    ]


def test_the_commonest_of_what_calls_ended_in_are_told_each_in_a_line(tmp_path: Path) -> None:
    notes = ["no route", "no\nroute", "busy", "a" * 999, "b", "c"]
    [trial] = tried(tmp_path, Talker(lambda asked: failure(asked, "no route")), "tea")
    some = [{"one": VerdictRecord(None, Reason.FAILED, note=note)} for note in notes]

    [found] = missing(trial, some)

    assert (found.judge, found.reason, found.count) == ("", Reason.FAILED, 6)
    assert [part.count for part in found.said] == [2, 1, 1]
    assert [part.message for part in found.said] == ["no route", "a" * 240 + "...", "b"]


def test_why_no_choice_could_be_read_is_told(tmp_path: Path) -> None:
    [trial] = tried(tmp_path, Talker(lambda _: "yes"), "tea", variant="plain")
    note = "no choice is one token among the 2 likeliest first tokens: '1', '2'"
    [found] = missing(trial, [{"one": VerdictRecord(None, Reason.UNPARSED, note=note)}])

    assert [error.message for error in found.said] == [note]


@pytest.mark.parametrize("reason", [Reason.UNPARSED, Reason.REFUSED, Reason.TRUNCATED])
def test_words_of_a_model_are_not_told_as_what_went_wrong(tmp_path: Path, reason: Reason) -> None:
    [trial] = tried(tmp_path, Talker(lambda _: "yes"), "tea", variant="plain")
    verdicts = {"one": VerdictRecord(None, reason, note="words of a model", keys=("k",))}
    [found] = missing(trial, [verdicts])

    assert (found.count, found.said) == (1, ())


@pytest.mark.parametrize(("keys", "is_reply"), [((), False), (("k",), True)])
def test_what_a_judge_could_not_read_is_its_reply_where_it_asked(
    tmp_path: Path, keys: tuple[str, ...], is_reply: bool
) -> None:
    [trial] = tried(tmp_path, Talker(lambda _: "yes"), "tea", variant="plain")
    verdicts = {"one": VerdictRecord(None, Reason.UNPARSED, keys=keys), "two": VerdictRecord(1.0)}
    assert lost(trial, **verdicts) == [("one", is_reply, Reason.UNPARSED, 1)]


def test_replies_that_were_asked_for_again_are_counted_once_each(tmp_path: Path) -> None:
    why = (Reason.REFUSED, Reason.FAILED, Reason.TRUNCATED, None)
    again = Usage(superseded=tuple(Superseded(Usage(), reason) for reason in why))
    trials = tried(tmp_path, Talker(lambda _: "yes"), "tea", "rain", variant="plain")
    judged = {"one": VerdictRecord(1.0, keys=("shared",), usages=(again,))}

    rows = [replace(trial, verdicts=judged) for trial in trials]

    assert with_costs(run_file(), rows).redrawn == 2


def test_an_answer_cut_at_its_limit_is_counted(tmp_path: Path) -> None:
    [row] = tried(tmp_path, Talker(lambda _: "yes"), "tea", variant="plain")
    cut = replace(row, steps=(replace(row.steps[-1], stop="length"),))

    tables = [tables_of(some) for some in ([row], [cut, row, cut])]
    assert [records.truncated_of(some.files) for some in tables] == [0, 2]


def test_a_row_of_a_failed_response_says_why(tmp_path: Path) -> None:
    [row] = tried(tmp_path, Talker(lambda asked: failure(asked, "no route")), "tea")

    [step] = row.steps
    assert (row.answer, row.served) == (None, None)
    assert (step.text, step.reason, step.note) == (None, Reason.FAILED, "no route")


@pytest.mark.parametrize(
    ("thought", "response", "served"),
    [("m-1", "m-1", "m-1"), ("m-2", "m-1", "m-1+m-2"), (None, "m-1", "m-1"), (None, None, None)],
)
def test_a_row_names_every_snapshot_behind_its_answer(
    tmp_path: Path, thought: str | None, response: str | None, served: str | None
) -> None:
    names = {"thought": thought, "response": response}
    talker = Talker(lambda asked: replace(reply(asked), served=names[asked.step]))
    [trial] = tried(tmp_path, talker, "tea")

    assert trial.served == served


def test_a_verdict_row_holds_keys_and_replies_in_their_order() -> None:
    verdict = Verdict("k", "near", 0.5, note="tie", detail={"b": 1.0, "a": 2.0}, served="j-1")
    replies = (Response("q1", texts=("1",)), Response.failed("q2", Reason.REFUSED, "no"))

    row = records.verdict_record(verdict, ("q1", "q2"), replies)

    assert (row.value, row.reason, row.note, row.served) == (0.5, None, "tie", "j-1")
    assert list(row.detail.items()) == [("a", 2.0), ("b", 1.0)]
    assert (row.keys, row.replies) == (("q1", "q2"), ("1", None))


@pytest.mark.parametrize("variant", ["plain", "think"])
def test_trials_come_back_as_they_were(tmp_path: Path, variant: str) -> None:
    def say(asked: Request) -> str | Response:
        words = asked.messages[-1].content
        return failure(asked) if "rain" in words else " " if "snow" in words else "Fine.\n\nYes."

    trials = tried(tmp_path, Talker(say), "tea", "rain", "snow", variant=variant)

    assert again(tmp_path, trials, task()) == trials


def test_trials_that_come_back_are_cut_as_the_task_now_says(tmp_path: Path) -> None:
    trials = tried(tmp_path, Talker(lambda _: "One.\n\nTwo."), "tea", variant="plain")

    [trial] = again(tmp_path, trials, task(postprocess="none"))

    assert (trials[0].answer, trial.answer) == ("One.", "One.\n\nTwo.")
    seen = case_of(trials[0], task(postprocess="none"))
    assert seen is not None
    assert seen.response.texts == ("One.\n\nTwo.",)


def test_a_variant_that_the_task_no_longer_has_is_the_users_to_mend(tmp_path: Path) -> None:
    trials = tried(tmp_path, Talker(), "tea")
    without = task(variants={"plain": task().variants["plain"]})

    with pytest.raises(StoreError, match="no longer has the variants think of this run"):
        stored_responses(Ledger(tmp_path / "calls"), trials, without)
