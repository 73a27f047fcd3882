"""Samples to requests: which are taken, how draws are seeded, what a step may show."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec import structs
from support import sketches
from support.each import each

from harness.core import Sample
from harness.errors import SpecError
from harness.pipeline import plan as plans
from harness.pipeline.plan import Plan, check_templates, request, subsample, variant_digest
from harness.specs.tasks import ChoiceSpec, DecodingSpec, StepSpec, TaskSpec, VariantSpec
from harness.text.prompts import Prompts

# Sizes of groups: even, uneven, one large beside many small ones, the largest last, one alone.
SIZES = [(21, 21, 21, 21), (30, 14, 5, 1), (60, *[1] * 40), (1, 2, 3, 50), (7,), (3, 3, 3, 3, 3, 3)]
STEP = StepSpec(name="response", template="toy/plain")


def grouped(*sizes: int) -> list[Sample]:
    """Samples of groups of these sizes, the groups mixed as in a shuffled file."""
    made = [
        Sample(f"g{g}-{n}", {}, group=f"g{g}") for g, size in enumerate(sizes) for n in range(size)
    ]
    return sorted(made, key=lambda sample: sample.id[::-1])


def ids(samples: Sequence[Sample]) -> list[str]:
    return [sample.id for sample in samples]


@each("sizes", SIZES)
def test_groups_have_their_share_and_a_subset_is_in_a_larger_one(sizes: tuple[int, ...]) -> None:
    samples, total = grouped(*sizes), sum(sizes)

    subsets = [subsample(samples, limit, seed=3) for limit in range(1, total + 1)]

    assert all({*ids(small)} < {*ids(large)} for small, large in pairwise(subsets))
    for limit, subset in enumerate(subsets, 1):
        counts = Counter(sample.group for sample in subset)
        shares = {f"g{g}": Fraction(limit * size, total) for g, size in enumerate(sizes)}
        assert counts.total() == limit
        assert [g for g, share in shares.items() if not abs(counts[g] - share) < 1] == []


def test_a_subset_does_not_depend_on_the_order_of_the_file() -> None:
    samples = grouped(30, 14, 5, 1)
    forwards, backwards = (ids(subsample(s, 20, seed=0)) for s in (samples, samples[::-1]))
    assert forwards == backwards[::-1]


def test_by_cluster_no_dialogue_is_torn_and_a_smaller_subset_lies_within_a_larger_one() -> None:
    samples = [
        Sample(f"s{n}-{k}", {}, cluster=f"c{n}") for n in range(12) for k in range(1 + n % 3)
    ]
    subsets = [ids(subsample(samples, n, seed=3, is_by_cluster=True)) for n in range(3, 24)]

    assert all(set(small) <= set(large) for small, large in pairwise(subsets))
    for limit, chosen in enumerate(subsets, start=3):
        clusters = {name.partition("-")[0][1:] for name in chosen}
        whole = [sample.id for sample in samples if sample.cluster[1:] in clusters]
        assert chosen == whole
        assert limit - 2 <= len(chosen) <= limit


def test_a_limit_below_the_first_cluster_still_gives_samples() -> None:
    samples = [Sample(f"s{n}-{k}", {}, cluster=f"c{n}") for n in range(4) for k in range(3)]
    assert len(subsample(samples, 2, seed=3, is_by_cluster=True)) == 2


def test_another_seed_takes_another_subset() -> None:
    samples = grouped(21, 21, 21, 21)
    subsets = {tuple(ids(subsample(samples, 20, seed=seed))) for seed in range(5)}

    assert len(subsets) == 5
    assert ids(subsample(samples, 20, seed=0)) in [list(subset) for subset in subsets]


def test_a_small_subset_is_pinned() -> None:
    # Written down once, so that a subset named in a paper stays what it was.
    assert sorted(ids(subsample(grouped(6, 3), 3, seed=0))) == ["g0-1", "g0-3", "g1-0"]


@pytest.mark.parametrize("limit", [None, 9, 10])
def test_without_a_limit_that_binds_all_are_taken(limit: int | None) -> None:
    assert ids(subsample(grouped(6, 3), limit, seed=0)) == [sample.id for sample in grouped(6, 3)]


def drawn(plan: Plan, cell: plans.PlannedResponse, step: StepSpec = STEP) -> int | None:
    return request(plan, cell, step=step, earlier={}).decoding.seed


WARM = DecodingSpec(temperature=0.3, max_tokens=30)


def warm(folder: Path, *topics: str) -> Plan:
    decodings = (WARM, DecodingSpec(temperature=0.5, max_tokens=30))
    return sketches.plan(folder, *topics, spec=sketches.task(decodings=decodings))


def test_every_draw_of_every_seed_of_a_run_has_a_seed_of_its_own(tmp_path: Path) -> None:
    plan = warm(tmp_path)
    other = replace(plan, run=replace(plan.run, seed=1))
    cells = [replace(cell, variant=v) for cell in plan.cells for v in ("plain", "think")]
    steps = (STEP, StepSpec(name="other", template="toy/plain"))

    seeds = [drawn(one, cell, step) for one in (plan, other) for cell in cells for step in steps]

    # 2 seeds of the run, 3 samples, 2 temperatures, 2 variants, 2 steps
    assert len(set(seeds)) == len(seeds) == 48


def test_a_seed_depends_on_its_place_alone(tmp_path: Path) -> None:
    plan, cell = warm(tmp_path), warm(tmp_path).cells[0]
    words = replace(cell, sample=replace(cell.sample, fields={"topic": "other"}, group="other"))
    short = replace(cell, decoding=DecodingSpec(temperature=0.3, max_tokens=5))
    fewer = replace(plan, samples=plan.samples[:1], identity="m@2")

    seeds = {drawn(plan, c) for c in (cell, words, short)} | {drawn(fewer, cell)}

    assert len(seeds) == 1


def test_a_greedy_answer_has_no_seed_and_a_drawn_one_such_as_servers_take(tmp_path: Path) -> None:
    greedy, plan = sketches.plan(tmp_path / "greedy"), warm(tmp_path, *map(str, range(100)))
    assert [drawn(greedy, cell) for cell in greedy.cells] == [None] * 3
    assert all(0 <= (drawn(plan, cell) or 0) < 2**31 for cell in plan.cells)


def test_cells_stand_in_the_order_of_variant_decoding_and_sample(tmp_path: Path) -> None:
    plan = warm(tmp_path, "tea", "rain")
    both = replace(plan, run=replace(plan.run, variants=("plain", "think")))

    places = [
        (c.variant, plans.decoding_label(both.task, c.decoding), c.sample.id) for c in both.cells
    ]

    labels = [("plain", "T0.3"), ("plain", "T0.5"), ("think", "T0.3"), ("think", "T0.5")]
    assert places == [(*label, sample) for label in labels for sample in ("s1", "s2")]


def test_a_step_asks_in_its_words_with_its_own_limit_and_shows_what_was_said_as_data(
    tmp_path: Path,
) -> None:
    plan = sketches.plan(tmp_path, "tea", variants=("think",))
    first, second = plan.task.variants["think"].steps

    asked = request(plan, plan.cells[0], step=first, earlier={})
    then = request(plan, plan.cells[0], step=second, earlier={"thought": "leaves"})

    assert asked.messages[-1].content == "What is meant by tea?"
    assert then.messages[-1].content == "You thought: leaves\nNow answer about tea."
    assert (asked.decoding.max_tokens, then.decoding.max_tokens) == (9, 30)
    assert (then.sample_id, then.variant, then.step) == ("s1", "think", "response")

    said = {"thought": "{{ 7*7 }} <|im_end|> >>> {topic}"}
    asked = request(plan, plan.cells[0], step=plan.task.variants["think"].steps[1], earlier=said)
    assert "You thought: {{ 7*7 }} < |im_end| > > > > {topic}\n" in asked.messages[-1].content


@pytest.mark.parametrize(("identity", "keys"), [("m@1", 1), ("scripted:echo@1", 2)])
def test_equal_prompts_share_an_answer_but_for_controls(
    tmp_path: Path, identity: str, keys: int
) -> None:
    plan = replace(sketches.plan(tmp_path, "tea", "tea"), identity=identity)
    asked = [request(plan, cell, step=STEP, earlier={}) for cell in plan.cells]
    assert len({part.key for part in asked}) == keys


def revealing(*names: str, template: str = "toy/plain") -> TaskSpec:
    steps = (StepSpec(name="response", template=template),)
    return sketches.task(variants={"plain": VariantSpec(about="", steps=steps, reveals=names)})


def test_a_step_may_show_fields_and_what_its_variant_reveals(tmp_path: Path) -> None:
    plan = sketches.plan(tmp_path, "tea", spec=revealing("good"))
    assert plans.template_values(plan, plan.cells[0], step=STEP) == {"topic": "tea", "good": "kind"}


@pytest.mark.parametrize("references", [{}, {"good": ()}])
def test_a_reference_to_reveal_that_is_missing_is_named(
    tmp_path: Path, references: dict[str, tuple[str, ...]]
) -> None:
    plan = sketches.plan(tmp_path, "tea", spec=revealing("good"))
    cell = replace(plan.cells[0], sample=replace(plan.samples[0], references=references))

    error = "variant plain reveals 'good', which sample s1 does not have"
    with pytest.raises(SpecError, match=error):
        plans.template_values(plan, cell, step=STEP)


def test_a_template_may_not_ask_for_what_is_not_revealed(tmp_path: Path) -> None:
    plan = sketches.plan(tmp_path, "tea", spec=revealing("bad", template="toy/peek"))
    (tmp_path / "prompts" / "toy" / "peek.user.j2").write_text("{{ good }} {{ bad }}")

    with pytest.raises(SpecError) as caught:
        check_templates(plan)
    told = str(caught.value)
    assert "prompts/toy/peek.user.j2, variant plain: slot 'good' is not defined here" in told
    assert "it is a reference: add it to `reveals` of plain" in told
    assert "known: bad, topic" in told


def test_a_template_may_ask_for_earlier_steps_only(tmp_path: Path) -> None:
    plan = sketches.plan(tmp_path, "tea", variants=("plain", "think"))
    think = plan.task.variants["think"]
    backwards = structs.replace(think, steps=think.steps[::-1])
    wrong = structs.replace(plan.task, variants={**plan.task.variants, "think": backwards})

    check_templates(plan)
    with pytest.raises(SpecError, match=r"then\.user\.j2, variant think: slot 'thought' is not"):
        check_templates(replace(plan, task=wrong))


def thinking(folder: Path, *, then: str, is_follow_up: bool = False, **slots: str) -> Plan:
    """A plan of the variant that thinks first, its second prompt in other words."""
    plan = sketches.plan(folder, "tea", variants=("think",))
    (folder / "prompts" / "toy" / "then.user.j2").write_text(then)
    first, second = plan.task.variants["think"].steps
    steps = (first, structs.replace(second, is_follow_up=is_follow_up))
    spec = structs.replace(plan.task.variants["think"], steps=steps, slots=slots)
    return replace(plan, task=structs.replace(plan.task, variants={"think": spec}))


def test_a_step_whose_answer_reaches_no_later_prompt_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"think of task toy has step 'thought' answered first, "):
        check_templates(thinking(tmp_path, then="Now answer about {{ topic }}."))


def test_a_step_that_follows_up_has_the_question_and_the_answer_in_view(tmp_path: Path) -> None:
    plan = thinking(tmp_path, then="Now answer.", is_follow_up=True)
    said = {"thought": "leaves <|im_end|>"}
    check_templates(plan)

    asked = request(plan, plan.cells[0], step=plan.task.variants["think"].steps[1], earlier=said)

    assert [turn.role for turn in asked.messages] == ["user", "assistant", "user"]
    contents = [turn.content for turn in asked.messages]
    assert contents == ["What is meant by tea?", "leaves < |im_end| >", "Now answer."]


def test_a_conversation_has_one_system_turn(tmp_path: Path) -> None:
    plan = thinking(tmp_path, then="Now answer.", is_follow_up=True)
    folder = tmp_path / "prompts" / "toy"
    (folder / "then.system.j2").write_text("Be kind.")

    with pytest.raises(SpecError, match=r"then\.user\.j2: step response goes on in the conver"):
        check_templates(plan)
    (folder / "think.system.j2").write_text("Be kind.")
    plan = thinking(tmp_path, then="Now answer.", is_follow_up=True)
    check_templates(plan)
    asked = request(plan, plan.cells[0], step=STEP_TWO, earlier={"thought": "leaves"})
    assert [turn.role for turn in asked.messages] == ["system", "user", "assistant", "user"]


STEP_TWO = StepSpec(name="response", template="toy/then", is_follow_up=True)


@each(("steps", "choice"), [((STEP_TWO,), None), ((STEP, STEP_TWO), ChoiceSpec())])
def test_the_first_step_follows_nothing_up_nor_does_a_choice(
    steps: tuple[StepSpec, ...], choice: ChoiceSpec | None
) -> None:
    with pytest.raises(ValueError, match="`is_follow_up` is for a step behind another one"):
        VariantSpec(about="", steps=steps, choice=choice)


def test_a_slot_of_a_variant_may_show_an_earlier_answer(tmp_path: Path) -> None:
    plan = thinking(tmp_path, then="Note: {{ guidance }} {{ topic }}?", guidance="toy/guidance")
    (tmp_path / "prompts" / "toy" / "guidance.j2").write_text("meant is {{ thought }}.")
    check_templates(plan)

    [_, step] = plan.task.variants["think"].steps
    asked = request(plan, plan.cells[0], step=step, earlier={"thought": "leaves"})

    assert asked.messages[-1].content == "Note: meant is leaves. tea?"


PHRASED = sketches.task(phrases=("cue",))


def phrased(folder: Path, words: str, **phrases: str) -> Plan:
    plan = sketches.plan(folder, "tea", spec=PHRASED)
    toy = folder / "prompts" / "toy"
    (toy / "plain.user.j2").write_text(words)
    (toy / "cue").mkdir()
    for group, text in phrases.items():
        (toy / "cue" / f"{group}.j2").write_text(text)
    return plan


@pytest.mark.parametrize(("group", "expected"), [("calm", "tea, softly"), ("loud", "TEA!")])
def test_a_phrase_is_worded_by_the_group(tmp_path: Path, group: str, expected: str) -> None:
    plan = phrased(tmp_path, "{{ cue }}", calm="{{ topic }}, softly\n", loud="TEA!\n")
    cell = replace(plan.cells[0], sample=replace(plan.samples[0], group=group))
    assert request(plan, cell, step=STEP, earlier={}).messages[-1].content == expected


def test_a_task_made_of_another_one_is_worded_by_its_phrases(tmp_path: Path) -> None:
    plan = phrased(tmp_path, "{{ cue }}", calm="softly")
    cell = replace(plan.cells[0], sample=replace(plan.samples[0], group="calm"))
    made = structs.replace(PHRASED, made_of="toy")
    other = replace(plan, run=replace(plan.run, task="toy_perturbed"), task=made)

    asked = [request(one, cell, step=STEP, earlier={}).messages for one in (plan, other)]

    assert asked[0] == asked[1]
    words = {"prompts": plan.prompts, "name": "toy_perturbed"}
    assert variant_digest(made, "plain", **words) == digest_of(tmp_path)  # type: ignore[arg-type]  # as named


@pytest.mark.parametrize("group", ["wild", "../plain.user", "../../secret"])
def test_a_group_without_a_phrase_is_named(tmp_path: Path, group: str) -> None:
    (tmp_path / "secret.j2").write_text("secret")
    plan = phrased(tmp_path, "{{ cue }}", calm="softly")
    cell = replace(plan.cells[0], sample=replace(plan.samples[0], group=group))

    with pytest.raises(SpecError, match=r"template 'toy/cue/.*\.j2' is in none of"):
        request(plan, cell, step=STEP, earlier={})


def digest_of(folder: Path, task: TaskSpec = PHRASED) -> str:
    """The digest of one variant, its words read anew."""
    return variant_digest(task, "plain", prompts=Prompts([folder / "prompts"]), name="toy")


def test_a_variants_digest_covers_its_template_and_its_phrases(tmp_path: Path) -> None:
    phrased(tmp_path, "{{ cue }}", calm="softly")
    digests = [digest_of(tmp_path)]

    for file, text in (("cue/calm.j2", "gently"), ("cue/new.j2", ""), ("plain.user.j2", "{{cue}}")):
        (tmp_path / "prompts" / "toy" / file).write_text(text)
        digests.append(digest_of(tmp_path))

    assert len(set(digests)) == 4


def test_a_variants_digest_does_not_cover_what_it_does_not_show(tmp_path: Path) -> None:
    phrased(tmp_path, "plain words", calm="softly")
    before = digest_of(tmp_path)
    (tmp_path / "prompts" / "toy" / "cue" / "calm.j2").write_text("gently")
    (tmp_path / "prompts" / "toy" / "then.user.j2").write_text("other")

    assert digest_of(tmp_path) == before


LONGER = StepSpec(name="response", template="toy/plain", max_tokens=99)


@pytest.mark.parametrize(
    ("changes", "is_same"),
    [
        ({"about": "another"}, True),
        ({"judges": ()}, True),
        ({"chance": 0.25}, True),
        ({"controls": {"echo": {"response": ("topic",)}}}, True),
        ({"default_variants": ("plain",)}, True),
        ({"postprocess": "none"}, False),
        ({"decodings": (WARM,)}, False),
        ({"variants": {"plain": VariantSpec(about="another", steps=(STEP,))}}, True),
        ({"variants": {"plain": VariantSpec(about="", steps=(LONGER,))}}, False),
        ({"variants": {"plain": VariantSpec(about="", steps=(STEP,), reveals=("good",))}}, False),
    ],
    ids=str,
)
def test_a_variants_digest_changes_with_what_shapes_its_answers(
    tmp_path: Path, changes: dict[str, object], is_same: bool
) -> None:
    phrased(tmp_path, "plain words")
    changed = structs.replace(PHRASED, **changes)
    assert (digest_of(tmp_path, changed) == digest_of(tmp_path)) == is_same
