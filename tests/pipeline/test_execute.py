"""What a command comes to: run folders, verdicts kept, evidence missed."""

import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
from support import jobs as run
from support.each import each
from support.stub_script import Script
from support.stub_server import StubServer
from support.toy import DECODINGS, SAMPLES, Toy

from harness.errors import HarnessError, SpecError, StoreError
from harness.models.function import FunctionModel
from harness.pipeline import execute
from harness.pipeline.resolve import RunOptions, resolve
from harness.storage.run_tables import SampleRecord
from harness.storage.runs import RunFolder

ANSWERS = SAMPLES * DECODINGS
BASE = RunOptions("toy", "oracle", variants=("base",))


@each(
    ("variants", "chosen"),
    [
        *(((), "base think"), (("think", "base"), "base think"), (("all",), "base think")),
        *((("base", "all"), "base think"), (("think",), "think")),
    ],
)
def test_variants_are_in_the_task_s_order(toy: Toy, variants: tuple[str, ...], chosen: str) -> None:
    ready = resolve(toy.space(), replace(BASE, variants=variants))
    assert " ".join(ready.plan.run.variants) == chosen


def test_of_two_same_runs_at_once_the_later_ends_with_what_the_first_wrote(toy: Toy) -> None:
    replies = map(str, count())
    model = FunctionModel("mine", lambda _: next(replies), version="1")
    asked = replace(BASE, model=model, judges=("near",))
    first, later = (resolve(toy.space(), asked) for _ in range(2))
    for plan in (first, later):
        execute.prepare(plan)
    whole = execute.run_one(first)
    before = toy.bytes()
    shutil.rmtree(toy.results / "calls")  # the later one has answers of its own

    assert execute.run_one(later).scores == whole.scores
    assert toy.bytes() == before


@pytest.mark.parametrize(
    ("options", "is_same"),
    [
        (replace(BASE, judges=("near", "near")), True),
        (replace(BASE, judges=("near", "choice")), True),
        *((replace(BASE, seed=1), False), (replace(BASE, limit=2), False)),
        *((replace(BASE, variants=("think",)), False), (replace(BASE, model="literal"), False)),
    ],
)
def test_a_digest_covers_all_but_judges(toy: Toy, options: RunOptions, is_same: bool) -> None:
    digests = {resolve(toy.space(), part).file.digest for part in (BASE, options)}
    assert (len(digests) == 1) == is_same


def test_a_run_folder_is_named_by_task_model_and_digest_and_read_elsewhere(toy: Toy) -> None:
    done = run.run(toy.space(), BASE)

    place = done.folder.path.relative_to(toy.results)
    assert place.parts == ("runs", "toy", "oracle", done.file.digest[:16])
    assert replace(done.folder.read(), tables={}) == done.file

    moved = done.folder.path.rename(toy.folder / "moved")
    assert run.read(toy.space(), RunFolder(moved)).changes == ()


@pytest.mark.parametrize(
    ("lost", "told"),
    [
        ("", f"{ANSWERS} responses .* copy its folder back"),
        ("umpire", "replies to judge choice are not in the calls ledger"),
    ],
)
def test_calls_lost_from_a_ledger_are_told_with_the_remedy(toy: Toy, lost: str, told: str) -> None:
    with StubServer(Script(replies={"": ("1",)})) as stub:
        space = toy.space({"HARNESS_SERVER_URL": stub.url})
        done = run.run(space, replace(BASE, judges=("choice",)))
    shutil.rmtree(toy.results / "calls" / lost)

    with pytest.raises(StoreError, match=told):
        run.read(toy.space(), done.folder)


def test_a_broken_template_of_a_judge_is_told_before_the_model_is_asked(toy: Toy) -> None:
    toy.edit("prompts/judges/choice.user.j2", "option_1", "option_one")
    options = replace(BASE, model="alpha", judges=("choice",))

    with pytest.raises(HarnessError, match="option_one"):
        run.run(toy.space(), options)
    assert not toy.results.exists()


def test_a_judge_altered_since_keeps_its_stored_verdicts(toy: Toy) -> None:
    done = run.run(toy.space(), BASE)
    before = toy.bytes()
    options = "accept: right, reject: wrong", "accept: wrong, reject: right"
    toy.edit("configs/judges/near.yaml", *options)

    reread = run.read(toy.space(), done.folder)

    assert (len(reread.changes), reread.altered) == (ANSWERS, ("judge near",))
    assert toy.bytes() == before


# Judges of an earlier step

THOUGHT = """
    about: By spelling, what was thought.
    kind: cosine
    encoder: {kind: char-ngrams}
    step: thought
    options: {accept: right, reject: wrong}
"""
BOTH = replace(BASE, variants=("base", "think"), judges=("near", "near-thought"))


@pytest.fixture
def thoughtful(toy: Toy) -> Toy:
    """A toy with a judge of thoughts; its oracle thinks the wrong thing and says the right one."""
    toy.write("configs/judges/near-thought.yaml", THOUGHT)
    toy.edit("tasks/toy.yaml", "oracle: {thought: [right]", "oracle: {thought: [wrong]")
    return toy


def verdicts(rows: Sequence[SampleRecord], judge: str) -> dict[str, set[float | None]]:
    found: dict[str, set[float | None]] = {row.variant: set() for row in rows}
    for row in rows:
        found[row.variant] |= {v.value for name, v in row.verdicts.items() if name == judge}
    return found


def test_a_judge_of_a_step_reads_that_step_and_no_row_without_it(thoughtful: Toy) -> None:
    rows = run.run(thoughtful.space(), BOTH).folder.read_rows()
    assert verdicts(rows, "near") == {"base": {1.0}, "think": {1.0}}
    assert verdicts(rows, "near-thought") == {"base": set(), "think": {0.0}}


def test_a_judge_of_a_step_can_be_sent_later_and_remembered_with_its_step(thoughtful: Toy) -> None:
    space = thoughtful.space()
    first = run.run(space, replace(BOTH, judges=("near",)))

    done = run.judge(space, first.folder, ["near-thought"])

    steps = {entry.name: entry.step for entry in done.file.judges}
    assert steps == {"near": None, "near-thought": "thought"}
    assert verdicts(done.folder.read_rows(), "near-thought") == {"base": set(), "think": {0.0}}


def test_an_asking_judge_of_a_step_is_shown_that_step_alone(thoughtful: Toy) -> None:
    choice = (thoughtful.home / "configs/judges/choice.yaml").read_text("utf-8")
    thoughtful.write("configs/judges/choice-thought.yaml", f"{choice}\nstep: thought")
    with StubServer(reply=lambda _: "1") as stub:
        space = thoughtful.space({"HARNESS_SERVER_URL": stub.url})
        done = run.run(space, replace(BOTH, judges=("choice-thought",)))
        asked = [body["messages"][-1]["content"] for body in stub.bodies]

    assert len(asked) == 2 * SAMPLES  # both orders; the thoughts of both decodings are one
    assert all(text.startswith("Judge never ") for text in asked)
    assert not done.missing


def test_verdicts_on_a_step_are_read_anew_from_that_step(thoughtful: Toy) -> None:
    space = thoughtful.space()
    done = run.run(space, BOTH)
    rows = [
        replace(row, verdicts={name: replace(v, value=0.25) for name, v in row.verdicts.items()})
        for row in done.folder.read_rows()
    ]
    done.folder.write(done.file, rows)

    reread = run.read(space, done.folder)

    changed = Counter((c.judge, c.row.variant, c.after.value) for c in reread.changes)
    anew = [("near", "base", 1.0), ("near", "think", 1.0), ("near-thought", "think", 0.0)]
    assert changed == dict.fromkeys(anew, ANSWERS)
    assert not any(reread.stale.values())
    assert run.read(space, done.folder).changes == ()


def test_a_judge_of_a_step_that_no_variant_has_is_refused_before_a_call(thoughtful: Toy) -> None:
    thoughtful.edit("configs/judges/near-thought.yaml", "step: thought", "step: thoughts")

    with pytest.raises(SpecError, match=r"near-thought reads step 'thoughts'.*mean thought\?"):
        run.run(thoughtful.space(), BOTH)
    assert not thoughtful.results.exists()


# One direction


@each("name", ["execute", "plan", "preview", "records", "score", "walk"])
def test_nothing_behind_resolve_knows_a_workspace_or_a_registry(name: str) -> None:
    source = (Path(execute.__file__).parent / f"{name}.py").read_text("utf-8")

    assert "import Workspace" not in source
    assert "harness.registry" not in source
    assert "workspace: " not in source
