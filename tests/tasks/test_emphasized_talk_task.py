"""The shipped task emphasized_talk: what each variant shows, and what none may show."""

import os
import re
from collections.abc import Callable, Iterable
from itertools import groupby
from pathlib import Path

import pytest
from support.each import each, rest_slow

from harness.core import Run, Sample
from harness.data.readers import emphasized_talk, samples_jsonl
from harness.parts import Decoding, Message
from harness.pipeline.plan import Plan, PlannedResponse, check_templates, request, template_values
from harness.pipeline.resolve import RunOptions, resolve
from harness.registry import Registry
from harness.specs.tasks import TaskSpec
from harness.text.prompts import Prompts
from harness.workspace import Workspace

HOME = Path(__file__).parents[2]
REGISTRY = Registry((HOME,), {}, HOME / "no cache")
SHIPPED = Prompts([HOME / "prompts"])
TASK: TaskSpec = REGISTRY.load("tasks", "emphasized_talk")
DATA = os.environ.get("HARNESS_DATA")
MARKERS = {
    "quotes": ('"', '"'),
    "bold": ("**", "**"),
    "italics": ("_", "_"),
    "asterisks": ("*", "*"),
    "caps": ("", ""),
    "underline": ("<u>", "</u>"),
    "em": ("<em>", "</em>"),
    "brackets": ("[", "]"),
    "none": ("", ""),
}
VARIANTS = [f"marker:{name}{end}" for end in ("", ":bare") for name in MARKERS]
TRICKY = (
    ("", "i", "'m sure i did, if i may"),
    ("i said there is ", "he", ", and he isn't there"),
    ("no, ", "no", ", no"),
    ("it costs ", "5.50", ""),
    ("so ", "that's it", "."),
    ("he *said* ", "_so_", ' in [brackets], "quotes" and <u>more</u>'),
    ("", "{{ context }}", " and {% raw %}"),
    ("", "all of it!", ""),
)


def stressed(before: str, emphasis: str, after: str, **fields: str) -> Sample:
    """A sample of these three pieces of a turn."""
    pieces = {"before": before, "emphasis": emphasis, "after": after}
    shown = {"context": "0: CONTEXT-MARK", "speaker": "1", **pieces, **fields}
    name = f"{before}|{emphasis}|{after}"
    return Sample(name, shown, {"implication": ("IMPLICATION-MARK",)}, cluster="one")


def plan(*samples: Sample, prompts: Prompts = SHIPPED) -> Plan:
    run = Run("emphasized_talk", tuple(TASK.variants), "m@1", (Decoding(),), 0, None, "p", "d")
    return Plan(run, TASK, samples, prompts, "m@1")


def asked(sample: Sample, variant: str) -> str:
    made = plan(sample)
    cell = PlannedResponse(sample, variant, TASK.decodings[0])
    [step] = TASK.variants[variant].steps
    [message] = request(made, cell, step=step, earlier={}).messages
    return message.content


def current(sample: Sample, marker: str) -> str:
    """The turn as a marker shows it."""
    variant = f"marker:{marker}"
    cell = PlannedResponse(sample, variant, TASK.decodings[0])
    return str(template_values(plan(sample), cell, step=TASK.variants[variant].steps[0])["current"])


@pytest.fixture(scope="module", params=rest_slow(["sample", "released"], kept=1))
def samples(request: pytest.FixtureRequest) -> list[Sample]:
    if request.param == "sample":
        return samples_jsonl.read([HOME / "tasks" / TASK.data.sample], None)
    if DATA is None:
        pytest.skip("HARNESS_DATA is unset: the folder of the released data")
    return emphasized_talk.read([Path(DATA, TASK.data.source, *TASK.data.files)], None)


def test_the_task_has_every_marker_with_and_without_its_explanation() -> None:
    assert list(TASK.variants) == VARIANTS
    assert TASK.default_variants == ("marker:quotes",)


def test_answers_are_drawn_as_the_released_script_for_open_models_drew_them() -> None:
    assert [(d.temperature, d.max_tokens) for d in TASK.decodings] == [(0.0, 200)]
    assert (TASK.postprocess, TASK.chance) == ("lead_in", None)


@each("pieces", TRICKY)
@each("marker", sorted(MARKERS.keys() - {"caps"}))
def test_a_marker_is_around_the_stressed_span(marker: str, pieces: tuple[str, str, str]) -> None:
    before, emphasis, after = pieces
    opening, closing = MARKERS[marker]
    marked = current(stressed(*pieces), marker)

    assert marked == before + opening + emphasis + closing + after


@each("pieces", TRICKY)
def test_capitals_mark_the_stressed_span_and_nothing_else(pieces: tuple[str, str, str]) -> None:
    before, emphasis, after = pieces
    marked = current(stressed(*pieces), "caps")

    assert marked == before + emphasis.upper() + after
    assert marked.lower() == "".join(pieces).lower()


@each("variant", VARIANTS)
def test_no_implication_is_in_a_prompt(samples: list[Sample], variant: str) -> None:
    for sample in samples:
        words = asked(sample, variant)
        assert [text for text in sample.references["implication"] if text in words] == []


@each("variant", VARIANTS)
def test_a_prompt_shows_the_whole_dialogue_and_no_reference(variant: str) -> None:
    sample = stressed("so ", "that's it", ".")
    words = asked(sample, variant)

    assert "IMPLICATION-MARK" not in words
    assert "\n0: CONTEXT-MARK\n" in words
    assert f"\n1: {current(sample, variant.split(':')[1])}\n" in words


@each("marker", MARKERS)
def test_a_bare_variant_leaves_out_the_explanation_and_nothing_else(marker: str) -> None:
    sample = stressed("so ", "that's it", ".")
    words = (HOME / f"prompts/emphasized_talk/explain/{marker}.j2").read_text("utf-8")
    explanation = words.splitlines()[1]

    explained, bare = (asked(sample, f"marker:{marker}{end}") for end in ("", ":bare"))

    assert explanation not in bare
    assert explained.replace(f"\n\n{explanation}\n", "\n") == bare


@pytest.mark.parametrize("variant", ["marker:none", "marker:none:bare"])
def test_without_a_marker_all_stresses_are_one_prompt(samples: list[Sample], variant: str) -> None:
    for _, members in by_dialogue(samples):
        assert len({asked(sample, variant) for sample in members}) == 1


@each("variant", [name for name in VARIANTS if "none" not in name])
def test_with_a_marker_each_stress_of_a_dialogue_has_a_prompt_of_its_own(
    samples: list[Sample], variant: str
) -> None:
    for name, members in by_dialogue(samples):
        prompts = {asked(sample, variant) for sample in members}
        # One released fragment is a misspelling of another: both are the same stress.
        stresses = {(sample.fields["before"], sample.fields["emphasis"]) for sample in members}
        assert len(prompts) == len(stresses), name


def by_dialogue(samples: Iterable[Sample]) -> Iterable[tuple[str, list[Sample]]]:
    key: Callable[[Sample], str] = lambda sample: sample.cluster  # noqa: E731 - typed for groupby
    return ((name, list(run)) for name, run in groupby(sorted(samples, key=key), key=key))


def test_the_wording_of_the_paper_reaches_the_model_byte_for_byte() -> None:
    pack = Path(DATA or ".", "..", "paper_prompts")
    file = pack / "emphasized_talk" / "generate.user.j2"
    if DATA is None or not file.is_file():
        pytest.skip("no paper_prompts folder next to HARNESS_DATA: the wording of the papers")
    sample = stressed("so ", "that's it", ".")
    made = plan(sample, prompts=Prompts([pack, HOME / "prompts"]))
    cell = PlannedResponse(sample, "marker:quotes", TASK.decodings[0])
    check_templates(made)

    [message] = request(made, cell, step=TASK.variants[cell.variant].steps[0], earlier={}).messages

    text = file.read_bytes().decode().removesuffix("\n")
    filled = {"context": "0: CONTEXT-MARK", "current": 'so "that\'s it".'}
    expected = re.sub(r"{{ (\w+) }}", lambda slot: filled[slot[1]], text)
    assert message == Message("user", expected)


@pytest.mark.parametrize(
    ("given", "chosen"),
    [
        ((), ("marker:quotes",)),
        (("quotes",), ("marker:quotes",)),
        (("caps", "marker:quotes"), ("marker:quotes", "marker:caps")),
        (("none:bare",), ("marker:none:bare",)),
        (("quotes", "marker:quotes"), ("marker:quotes",)),
    ],
)
def test_a_marker_may_be_named_without_its_prefix(
    tmp_path: Path, given: tuple[str, ...], chosen: tuple[str, ...]
) -> None:
    space = Workspace(REGISTRY, tmp_path, None, "corrected", lambda *_: None)
    options = RunOptions("emphasized_talk", "oracle", judges=("ngram-cosine",), variants=given)
    assert resolve(space, options).plan.run.variants == chosen
