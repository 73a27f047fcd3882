"""Data-making jobs: what each question may see, what is kept, what is left out."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from support.each import each
from support.sketches import Talker

from harness.core import Request, Response, Sample
from harness.errors import SpecError
from harness.parts import Reason
from harness.pipeline.transforms import Built, build, chosen, sample_line
from harness.registry import Registry, shipped_home
from harness.specs.tasks import BuildSpec
from harness.text.parsers import closing_yes_no
from harness.text.prompts import Prompts

REGISTRY = Registry((shipped_home(),), {}, Path("no cache"))
PROMPTS: Prompts = REGISTRY.prompts
STORY = Sample(
    "s1",
    {name: f"<{name}>" for name in ("context", "prefix", "utterance", "speaker", "listener")},
    references={"true_intention": ("<true>",), "literal_intention": ("<literal>",)},
)
MEANINGS = Sample("s2", {"turn": "Tea."}, {"implication": ("Only tea.", "Nothing but tea.")})
ALONE = Sample("s3", {"turn": "Tea."}, {"implication": ("Only tea.",)})
# what may stand in the question of each step of the chains
SEEN = {
    "turn1_literal": {"<speaker>", "<listener>", "<literal>"},
    "turn1_true": {"<speaker>", "<listener>", "<context>", "<true>"},
    "turn2_literal": {"<speaker>", "<listener>", "(turn1_literal)"},
    "turn2_true": {"<speaker>", "<listener>", "<context>", "(turn1_true)"},
}


def made(
    folder: Path,
    job: str,
    *samples: Sample,
    say: Callable[[Request], str | Response] = lambda asked: f"({asked.step})",
) -> tuple[Built, Talker]:
    talker = Talker(say)
    with talker.desk(folder) as desk:
        spec: BuildSpec = REGISTRY.load("configs/builds", job)
        return build(samples, spec, prompts=PROMPTS, client=desk, seed=0), talker


def dialogue(turns: int, turn: str, name: str = "d") -> Sample:
    context = "\n".join(f"{n % 2}: Something is said." for n in range(turns))
    return Sample(name, {"context": context, "speaker": "1", "turn": turn}, {})


@each(
    ("turns", "turn", "is_asked"),
    [
        (3, "Nora painted her kitchen yellow yesterday.", True),  # five content words
        (2, "Nora painted her kitchen yellow yesterday.", False),
        (3, "She painted the kitchen yellow, and then it was so.", False),  # three
        (3, "I don't think that he'll ever paint kitchens yellow.", True),
    ],
)
def test_turns_are_chosen_by_length_before_a_model_is_asked(
    tmp_path: Path, turns: int, turn: str, is_asked: bool
) -> None:
    built, talker = made(tmp_path, "turns", dialogue(turns, turn), say=lambda _: "Two.\nyes")
    assert (len(talker.heard), len(built.finished)) == (is_asked, is_asked)
    assert built.dropped == 1 - is_asked
    rule: BuildSpec = REGISTRY.load("configs/builds", "turns-by-length")
    assert chosen([dialogue(turns, turn)], rule) == replace(
        built, finished=built.finished and ((dialogue(turns, turn), {}),)
    )


def test_turns_found_worth_no_stress_are_dropped_and_others_kept_whole(tmp_path: Path) -> None:
    said = "Nora painted her kitchen yellow yesterday."
    samples = [dialogue(3, f"{name}, {said}", name) for name in ("Ann", "Ben", "Cyd")]
    replies = {"Ann": "Two.\nyes", "Ben": "None.\nno", "Cyd": "perhaps"}

    def say(asked: Request) -> str:
        return next(said for name, said in replies.items() if name in asked.messages[-1].content)

    built, _ = made(tmp_path, "turns", *samples, say=say)

    assert [sample for sample, _ in built.finished] == [samples[0]]
    assert (built.dropped, dict(built.missing)) == (1, {Reason.UNPARSED: 1})
    assert sample_line(*built.finished[0])["fields"]["turn"] == f"Ann, {said}"


def test_a_dialogue_without_its_context_is_refused(tmp_path: Path) -> None:
    bare = Sample("d", {"speaker": "1", "turn": "So."}, {})
    with pytest.raises(SpecError, match="'context', which step worth_a_stress sees"):
        made(tmp_path, "turns", bare)


@pytest.mark.parametrize("step", SEEN)
def test_each_link_of_a_chain_is_made_from_what_it_may_see(tmp_path: Path, step: str) -> None:
    _, talker = made(tmp_path, "chains", STORY)

    (asked,) = [part for part in talker.heard if part.step == step]
    words = {*STORY.fields.values(), "<true>", "<literal>", *(f"({name})" for name in SEEN)}
    assert {word for word in words if word in asked.messages[0].content} == SEEN[step]


def test_a_story_without_a_context_leaves_no_heading_of_one(tmp_path: Path) -> None:
    _, talker = made(tmp_path, "chains", replace(STORY, fields={**STORY.fields, "context": ""}))
    assert [part.step for part in talker.heard if "Situation" in part.messages[0].content] == []
    assert [part.messages[0].content[:9] for part in talker.heard] == ["<speaker>"] * 4


def test_a_chain_becomes_references_with_provenance_and_is_made_once(tmp_path: Path) -> None:
    built, _ = made(tmp_path, "chains", STORY)

    (said,) = [sample_line(*one) for one in built.finished]
    assert said["references"]["turn2_true"] == ["(turn2_true)"]
    assert said["references"]["true_intention"] == ["<true>"]
    assert said["provenance"]["turn1_true"]["template"].startswith("build/turn1_true@")

    with pytest.raises(SpecError, match="has the reference 'turn1_literal' already"):
        made(tmp_path, "chains", built.finished[0][0])


def test_a_job_repeated_asks_nothing_and_makes_the_same(tmp_path: Path) -> None:
    first, _ = made(tmp_path, "chains", STORY)
    second, talker = made(tmp_path, "chains", STORY)

    assert talker.heard == []
    assert second == first


@pytest.mark.parametrize(("said", "kept"), [("A little.\nyes", 1), ("A little.\nNo.", 0)])
def test_meanings_are_kept_only_where_found_close(tmp_path: Path, said: str, kept: int) -> None:
    built, _ = made(tmp_path, "agreement", MEANINGS, say=lambda _: said)
    assert (len(built.finished), built.dropped) == (kept, 1 - kept)


def test_one_meaning_alone_is_kept_unasked(tmp_path: Path) -> None:
    built, talker = made(tmp_path, "agreement", ALONE)
    assert talker.heard == []
    assert [sample for sample, _ in built.finished] == [ALONE]


@pytest.mark.parametrize(
    ("said", "reason"), [("", Reason.EMPTY), ("Yes, they are close, I think", Reason.UNPARSED)]
)
def test_a_reply_that_cannot_be_read_leaves_the_sample_out_and_is_counted(
    tmp_path: Path, said: str, reason: Reason
) -> None:
    built, _ = made(tmp_path, "agreement", MEANINGS, ALONE, say=lambda _: said)
    assert built.missing == {reason: 1}
    assert [sample.id for sample, _ in built.finished] == ["s3"]


def test_a_failed_call_ends_a_chain_with_its_reason(tmp_path: Path) -> None:
    def say(asked: Request) -> Response:
        return Response.failed(asked.key, Reason.FILTERED, "")

    built, talker = made(tmp_path, "chains", STORY, say=say)

    assert built.missing == {Reason.FILTERED: 1}
    assert [asked.step for asked in talker.heard] == ["turn1_literal"]


def test_a_sample_without_what_a_step_sees_is_refused_before_a_call(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"s2 has no field or reference 'speaker'"):
        made(tmp_path, "chains", MEANINGS)


@each(
    ("text", "expected"),
    [
        *(("yes", True), ("They are alike.\n\n**Yes.**\n", True), ("no", False)),
        *(("Yes and no", Reason.UNPARSED), ("no\nbecause they differ", Reason.UNPARSED)),
        (" \n", Reason.EMPTY),
    ],
)
def test_a_verdict_is_the_last_line_alone(text: str, expected: bool | Reason) -> None:
    assert closing_yes_no(text) is expected
