"""Prompt packs: a level keeps what makes it differ, or is refused before the first call."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
from support import stored_tables
from support.choice_prompts import task as shipped
from support.each import each
from support.intent_resolution_prompts import HOME, INFERRED, mark, plan, requests
from support.stub_script import Script
from support.stub_server import StubServer

from harness.cli import main
from harness.core import Run, Sample
from harness.errors import SpecError
from harness.parts import Decoding, Message
from harness.pipeline.plan import Plan, check_templates
from harness.text.prompts import Prompts, with_paragraph

DATA = os.environ.get("HARNESS_DATA")
PAPERS = Path(DATA or "nowhere").parent / "paper_prompts"
# The shape of a published prompt: no block, no slot for guidance, the cue to reply at its end.
PLAIN = """Answer in a sentence.
Story: {{ context }} {{ utterance }}

Answer as {{ listener }}, and mean what you say.

{{ listener }} says,
"""
GUIDED = ("cot0", "cot1", "cot2", "cot3", "cot4", "cot5", "cot6")
TWO_STEPS = ("cot0", "cot2", "cot3", "cot4")


def pack(folder: Path, **files: str) -> Path:
    """A pack of these templates of intent_resolution."""
    for name, text in files.items():
        path = folder / "intent_resolution" / f"{name}.user.j2"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return folder


def with_pack(folder: Path, *variants: str) -> Plan:
    made = plan()
    run = replace(made.run, variants=variants or made.run.variants)
    return replace(made, run=run, prompts=Prompts([folder, HOME / "prompts"]))


def asked(made: Plan, variant: str) -> list[tuple[Message, ...]]:
    cell = next(cell for cell in made.cells if cell.variant == variant)
    return [part.messages for part in requests(made, cell)]


PACKS = pytest.mark.parametrize("source", ["plain", "papers"])


def folder_of(source: str, folder: Path) -> Path:
    if source == "papers":
        if not PAPERS.is_dir():
            pytest.skip("no paper_prompts folder next to HARNESS_DATA: the wording of the papers")
        return PAPERS
    return pack(folder, base=PLAIN)


@PACKS
def test_a_prompt_worded_by_a_pack_leaves_levels_their_guidance(
    tmp_path: Path, source: str
) -> None:
    made = with_pack(folder_of(source, tmp_path))
    check_templates(made)

    words = {variant: asked(made, variant)[-1][-1].content for variant in made.run.variants}
    opening, _, cue = words["base"].rpartition("\n")
    for variant in set(GUIDED) - {"cot1"}:
        assert words[variant].startswith(f"{opening.rstrip()}\n\n")
        assert words[variant].endswith(f"\n\n{cue}")
    assert len({words[variant] for variant in ("base", "cot0", "cot1", "cot5", "cot6")}) == 5


@PACKS
def test_level_one_asks_for_reasons_last_and_the_reply_after(tmp_path: Path, source: str) -> None:
    # A last line such as "Felix:" would ask for the reply at once.
    made = with_pack(folder_of(source, tmp_path), "base", "cot1")
    [[plain]], [[level]] = asked(made, "base"), asked(made, "cot1")

    assert level.content.startswith(f"{plain.content.rstrip()}\n\nLeave that line open for now.")
    assert level.content.endswith('"Answer:" and write the turn there.\n\nFirst the reasons:')


@PACKS
@each("variant", TWO_STEPS)
def test_the_reply_has_the_cue_and_the_inferred_intention_in_view(
    tmp_path: Path, source: str, variant: str
) -> None:
    made = with_pack(folder_of(source, tmp_path))

    [first], [question, answer, then] = asked(made, variant)

    assert question == first
    assert answer == Message("assistant", INFERRED)
    assert then.role == "user"
    assert then.content.count(INFERRED) == 1


def test_a_pack_may_word_the_guidance_alone(tmp_path: Path) -> None:
    path = tmp_path / "intent_resolution" / "guidance" / "true_intention.j2"
    path.parent.mkdir(parents=True)
    path.write_text("Meant: {{ true_intention }}.")
    [[message]] = asked(with_pack(tmp_path), "cot5")

    assert message.content.endswith(f"\n\nMeant: {mark('true_intention')}.\n\n{mark('listener')}:")


def test_a_level_that_no_longer_shows_what_it_reveals_is_refused(tmp_path: Path) -> None:
    made = with_pack(pack(tmp_path, cot6=PLAIN), "cot6")

    with pytest.raises(SpecError) as caught:
        check_templates(made)
    error = str(caught.value)
    assert "variant cot6 of task intent_resolution reveals 'true_intention'" in error
    assert str(tmp_path / "intent_resolution" / "cot6.user.j2") in error


def test_an_emptied_level_is_refused_before_the_first_call(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = pack(tmp_path / "pack", cot5=PLAIN)
    options = ("--prompts", str(folder), "--results", str(tmp_path / "r"), "--limit", "2")

    with StubServer(Script()) as stub:
        monkeypatch.setenv("HARNESS_SERVER_URL", stub.url)
        code = main(["run", "--task", "intent_resolution", "--model", "local-server", *options])
        assert (code, stub.stats()["requests"]) == (2, 0)
    assert str(folder / "intent_resolution" / "cot5.user.j2") in capsys.readouterr().err


def test_a_server_is_asked_in_a_conversation_and_level_one_may_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, results = pack(tmp_path / "pack", base=PLAIN), tmp_path / "r"
    chosen = ("--variant", "cot1,cot2", "--limit", "1", "--judge", "ngram-cosine")
    options = ("--prompts", str(folder), "--results", str(results), *chosen)

    with StubServer(Script(), reply=lambda _: "She hints at it.\nAnswer: Sure.") as stub:
        monkeypatch.setenv("HARNESS_SERVER_URL", stub.url)
        code = main(["run", "--task", "intent_resolution", "--model", "local-server", *options])
        sent = [(len(body["messages"]), body["max_tokens"]) for body in stub.bodies]

    assert code == 0
    assert sorted(set(sent)) == [(1, 60), (1, 300), (3, 30)]
    [folder] = results.glob("runs/*/*/*")
    records = stored_tables.rows(folder, "answers")
    whole = "She hints at it.\nAnswer: Sure."
    assert {(r["variant"], r["answer"]) for r in records} == {("cot1", "Sure."), ("cot2", whole)}


@each(
    ("text", "expected"),
    [("a\n\nb\n\nc:", "a\n\nb\n\nP\n\nc:"), ("a\nc:", "a\n\nP\n\nc:"), ("c:", "P\n\nc:")],
)
def test_a_paragraph_is_put_in_before_the_last_line(text: str, expected: str) -> None:
    assert with_paragraph(text, "P") == expected


def stressed(emphasis: str) -> Sample:
    fields = {"context": "A: C", "speaker": "B", "before": "so ", "after": "."}
    return Sample("s1", {**fields, "emphasis": emphasis}, {"implication": ("Not she.",)})


def other_plan(name: str, folder: Path, *variants: str, of: Sample) -> Plan:
    spec = shipped(name)
    run = Run(name, variants or tuple(spec.variants), "m@1", (Decoding(),), 0, None, "p", "d")
    return Plan(run, spec, (of,), Prompts([folder, HOME / "prompts"]), "m@1")


def generate(folder: Path, words: str) -> Path:
    path = folder / "emphasized_talk" / "generate.user.j2"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(words)
    return folder


def test_orders_of_choices_that_coincide_are_no_fault(tmp_path: Path) -> None:
    # Two choices have two orders, and five are asked for.
    fields = {"scenario": "A. B.", "without_story": "A. B."}
    of = Sample("s1", fields, {}, ("yes", "no"), "yes", group="coherence_inference")
    check_templates(other_plan("intent_detection", tmp_path, "order0", "order2", "order4", of=of))


@each("name", ["hate_speech", "ishate_implicit", "ishate_subtle", "ishate_non_implicit"])
def test_a_pack_of_one_question_leaves_two_layouts_two_prompts(tmp_path: Path, name: str) -> None:
    labels = tuple(shipped(name).data.choices.values())
    of = Sample("s1", {"text": "T"}, {}, labels, labels[0])
    check_templates(other_plan(name, tmp_path, of=of))
