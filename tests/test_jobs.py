"""What a command comes to: run folders, verdicts kept, evidence missed."""

import shutil
from collections import Counter
from dataclasses import replace

import pytest
from stub_script import Script
from stub_server import StubServer
from toy import DECODINGS, SAMPLES, Toy

from harness import jobs
from harness.errors import HarnessError, SpecError, StoreError
from harness.evidence import Lost
from harness.jobs import RunOptions
from harness.parts import Reason
from harness.runs import RunFolder

ANSWERS = SAMPLES * DECODINGS
BASE = RunOptions("toy", "oracle", variants=("base",))


def test_the_controls_bound_a_judge(toy: Toy) -> None:
    best = jobs.run(toy.space(), BASE)
    worst = jobs.run(toy.space(), replace(BASE, model="literal"))

    assert (best.scores[0].score.value, worst.scores[0].score.value) == (1.0, 0.0)


@pytest.mark.parametrize(
    ("variants", "chosen"),
    [
        ((), ("base", "think")),
        (("think", "base"), ("base", "think")),
        (("all",), ("base", "think")),
        (("base", "all"), ("base", "think")),
        (("think",), ("think",)),
    ],
)
def test_variants_are_those_named_in_the_order_of_the_task(
    toy: Toy, variants: tuple[str, ...], chosen: tuple[str, ...]
) -> None:
    ready = jobs.prepare(toy.space(), replace(BASE, variants=variants))

    assert ready.plan.run.variants == chosen


@pytest.mark.parametrize(
    ("options", "is_same"),
    [
        (replace(BASE, judges=("near", "near")), True),
        (replace(BASE, judges=("near", "choice")), True),
        (replace(BASE, seed=1), False),
        (replace(BASE, limit=2), False),
        (replace(BASE, variants=("think",)), False),
        (replace(BASE, model="literal"), False),
    ],
)
def test_the_digest_of_a_run_covers_all_but_its_judges(
    toy: Toy, options: RunOptions, is_same: bool
) -> None:
    digests = {jobs.prepare(toy.space(), part).file.digest for part in (BASE, options)}

    assert (len(digests) == 1) == is_same


def test_a_judge_named_twice_sits_once(toy: Toy) -> None:
    ready = jobs.prepare(toy.space(), replace(BASE, judges=("near", "near")))

    assert len(ready.seats) == 1


def test_the_run_folder_is_named_by_task_model_and_digest(toy: Toy) -> None:
    done = jobs.run(toy.space(), BASE)

    place = done.folder.path.relative_to(toy.results)
    assert place.parts == ("runs", "toy", "oracle", done.file.digest[:16])
    assert done.folder.read() == done.file


def test_missing_verdicts_are_counted_by_judge_and_reason(toy: Toy) -> None:
    with StubServer(reply=lambda _: "neither") as stub:
        environ = {"HARNESS_SERVER_URL": stub.url}
        done = jobs.run(toy.space(environ), replace(BASE, judges=("choice",)))

    assert done.missing == Counter({Lost("choice", True, Reason.UNPARSED): ANSWERS})


def test_answers_lost_from_the_ledger_are_told_with_the_remedy(toy: Toy) -> None:
    done = jobs.run(toy.space(), BASE)
    shutil.rmtree(toy.results / "calls")

    with pytest.raises(StoreError, match=f"{ANSWERS} responses .* copy its folder back"):
        jobs.read(toy.space(), done.folder)


def test_replies_lost_from_the_ledger_are_told_with_the_remedy(toy: Toy) -> None:
    with StubServer(Script(replies={"": ("1",)})) as stub:
        space = toy.space({"HARNESS_SERVER_URL": stub.url})
        done = jobs.run(space, replace(BASE, judges=("choice",)))
    shutil.rmtree(toy.results / "calls/umpire")

    with pytest.raises(StoreError, match="replies to judge choice are not in the calls ledger"):
        jobs.read(toy.space(), done.folder)


def test_a_run_folder_moved_elsewhere_is_still_read(toy: Toy) -> None:
    done = jobs.run(toy.space(), BASE)
    moved = done.folder.path.rename(toy.folder / "moved")

    assert jobs.read(toy.space(), RunFolder(moved)).changes == ()


def test_rebuilt_files_are_the_same_bytes(toy: Toy) -> None:
    jobs.run(toy.space(), BASE)
    before = toy.bytes()
    shutil.rmtree(toy.results / "runs")
    jobs.run(toy.space(), BASE)

    assert toy.bytes() == before


@pytest.mark.parametrize(
    "options",
    [
        replace(BASE, judge_model="umpire"),
        replace(BASE, variants=("bas",)),
        replace(BASE, task="tyo"),
        replace(BASE, judges=("naer",)),
        replace(BASE, model="alpha", backend="server"),
    ],
    ids=["unused judge model", "variant", "task", "judge", "back end"],
)
def test_a_mistake_is_told_before_anything_is_asked_or_written(
    toy: Toy, options: RunOptions
) -> None:
    with pytest.raises(SpecError):
        jobs.run(toy.space(), options)

    assert not toy.results.exists()


def test_a_broken_template_of_a_judge_is_told_before_the_model_is_asked(toy: Toy) -> None:
    toy.edit("prompts/judges/choice.user.j2", "option_1", "option_one")
    options = replace(BASE, model="alpha", judges=("choice",))

    with pytest.raises(HarnessError, match="option_one"):
        jobs.run(toy.space(), options)
    assert not toy.results.exists()


def test_a_judge_altered_since_keeps_its_stored_verdicts(toy: Toy) -> None:
    done = jobs.run(toy.space(), BASE)
    before = toy.bytes()
    toy.edit(
        "configs/judges/near.yaml", "accept: right, reject: wrong", "accept: wrong, reject: right"
    )

    reread = jobs.read(toy.space(), done.folder)

    assert (len(reread.changes), reread.altered) == (ANSWERS, ("judge near",))
    assert toy.bytes() == before
