"""The shipped task intent_resolution: what each variant shows, and what none may show.

Every field and every reference of the sample is a word of its own, so that a word in a prompt
shows where it comes from.
"""

import os
from pathlib import Path

import pytest
from support import intent_resolution_prompts
from support.each import each
from support.intent_resolution_prompts import GROUPS, HOME, INFERRED, mark, plan, prompts, requests

from harness.data.readers import intent_resolution, samples_jsonl
from harness.parts import Message
from harness.pipeline.plan import check_templates
from harness.specs.data import OverlaySpec
from harness.specs.schema import load_spec, read_yaml

TASK = intent_resolution_prompts.shipped_task()
DATA = os.environ.get("HARNESS_DATA")
VARIANTS = ("base", "cot0", "cot1", "cot2", "cot3", "cot4", "cot5", "cot6")
TWO_STEPS = ("cot0", "cot2", "cot3", "cot4")
# A word by which each phenomenon would be named.
NAMES = {"indirect_speech": "indirect", "irony": "iron", "maxims": "maxim", "metaphor": "metaphor"}
CUE = f"\n\n{mark('listener')}:"


def test_the_task_has_the_eight_variants_and_runs_them_all() -> None:
    assert tuple(TASK.variants) == VARIANTS
    assert TASK.default_variants == VARIANTS


@each("group", GROUPS)
@each("variant", VARIANTS)
def test_a_reference_is_in_a_prompt_only_where_it_is_revealed(variant: str, group: str) -> None:
    words = "\n".join(prompts(variant, group))
    shown = [name for name in intent_resolution_prompts.REFERENCES if mark(name) in words]
    assert shown == (["true_intention"] if variant in ("cot5", "cot6") else [])


@pytest.mark.parametrize("variant", ["cot5", "cot6"])
def test_the_true_intention_is_shown_verbatim(variant: str) -> None:
    revealing = intent_resolution_prompts.sample()
    references = {
        **revealing.references,
        "true_intention": ("She's cold; 'shut' the {{ window }}!",),
    }
    made = plan(type(revealing)(revealing.id, revealing.fields, references, group="irony"))

    [asked] = requests(made, next(cell for cell in made.cells if cell.variant == variant))

    assert ": She's cold; 'shut' the {{ window }}!\n" in asked.messages[-1].content


@each("group", GROUPS)
@each("variant", VARIANTS)
def test_the_phenomenon_is_named_by_levels_two_four_and_six_alone(variant: str, group: str) -> None:
    first, *later = [words.lower() for words in prompts(variant, group)]

    named = [name for name, word in NAMES.items() if word in first]
    assert named == ([group] if variant in ("cot2", "cot4", "cot6") else [])
    assert [word for words in later for word in NAMES.values() if word in words] == []


@pytest.mark.parametrize("variant", TWO_STEPS)
def test_the_second_step_is_the_base_prompt_and_the_inferred_intention(variant: str) -> None:
    [base] = prompts("base")
    first, second = prompts(variant)

    guidance = f"\n\n{mark('speaker')} wants to get this across: {INFERRED}"
    assert second == base.removesuffix(CUE) + guidance + CUE
    assert INFERRED not in first


@pytest.mark.parametrize("variant", TWO_STEPS)
def test_the_reply_is_asked_for_in_one_conversation_with_the_intention(variant: str) -> None:
    made = plan()
    first, second = requests(made, next(c for c in made.cells if c.variant == variant))
    assert second.messages[:-1] == (*first.messages, Message("assistant", INFERRED))


def test_answers_are_drawn_as_the_released_generator_drew_them() -> None:
    assert [(d.temperature, d.max_tokens) for d in TASK.decodings] == [(0.3, 30), (0.5, 30)]
    assert TASK.postprocess == "blank_line"
    assert TASK.chance == 0.5


@each("variant", VARIANTS)
def test_an_empty_context_leaves_no_stray_blank(variant: str) -> None:
    with_context, without = prompts(variant), prompts(variant, context="")

    assert without == [words.replace(f"{mark('context')} ", "") for words in with_context]
    for words in without:
        assert f"Situation: {mark('prefix')}" in words


def test_each_template_renders_as_the_golden_file_shows() -> None:
    # After a deliberate change: python -m tests.intent_resolution_prompts
    assert (
        intent_resolution_prompts.golden_text()
        == intent_resolution_prompts.GOLDEN.read_bytes().decode()
    )


def test_the_golden_file_shows_every_template_of_the_task() -> None:
    folder = HOME / "prompts" / "intent_resolution"
    shipped = {path.name.removesuffix(".user.j2") for path in folder.glob("*.user.j2")}
    steps = [step.template for spec in TASK.variants.values() for step in spec.steps]

    # intention is the parent of the first steps.
    assert {template.rpartition("/")[2] for template in steps} == shipped - {"intention"}


@pytest.mark.parametrize("source", ["sample", "corrected", "released"])
def test_no_reference_of_the_data_is_in_a_prompt_that_does_not_reveal_it(source: str) -> None:
    if source == "sample":
        read = samples_jsonl.read([HOME / "tasks" / TASK.data.sample], None)
    elif DATA is None:
        pytest.skip("HARNESS_DATA is unset: the folder of the released data")
    else:
        path = HOME / "tasks" / "overlays" / "intent_resolution.yaml"
        overlay = load_spec(read_yaml(path), OverlaySpec, where=str(path))
        files = [Path(DATA) / TASK.data.source / name for name in TASK.data.files]
        read = intent_resolution.read(files, overlay if source == "corrected" else None)

    made = plan(*read)
    check_templates(made)
    for cell in made.cells:
        words = "\n".join(r.messages[-1].content for r in requests(made, cell))
        [intention] = cell.sample.references["true_intention"]
        assert (intention in words) == (cell.variant in ("cot5", "cot6"))
