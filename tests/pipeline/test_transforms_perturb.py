"""Samples to perturbed ones: what goes over, what is counted, and what a model writes."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from support.sketches import task

from harness.core import Request, Response, Sample
from harness.data.choices import permutation
from harness.data.readers.labelled_table import IMPLICITNESS
from harness.errors import SpecError
from harness.models.client.cached import CachedClient
from harness.models.scripted import ScriptedModel
from harness.parts import Reason
from harness.pipeline import transforms
from harness.pipeline.transforms import BY, FROM, PerturbationPlan, build, perturbed, perturbed_task
from harness.registry import Registry, shipped_home
from harness.specs.tasks import ChoiceSpec, PerturbationSpec, StepSpec, TaskSpec, VariantSpec
from harness.storage.ledger import Ledger

REGISTRY = Registry((shipped_home(),), {}, Path())
TEXTS = ("The ferry is late.", "Tea!", "I think it is big.")


def specs(*names: str) -> Mapping[str, PerturbationSpec]:
    return {name: REGISTRY.load("configs/perturbations", name) for name in names}


def samples(*texts: str) -> list[Sample]:
    return [
        Sample(
            f"s{at}",
            {"text": text, "title": "Harbour"},
            references={IMPLICITNESS: ("0.5",), "label": ("fine",)},
            choices=("yes", "no", "perhaps"),
            gold="yes",
            group="harbour",
            cluster=f"c{at // 2}",
        )
        for at, text in enumerate(texts)
    ]


def quiz() -> TaskSpec:
    steps = (StepSpec(name="answer", template="quiz/number"),)
    variants = {
        f"order{n}": VariantSpec(about="", steps=steps, choice=ChoiceSpec(order=n))
        for n in range(2)
    }
    return task(variants=variants, default_variants=tuple(variants), judges=("gold",))


def made(*names: str, seed: int = 0) -> list[Sample]:
    """The perturbed samples alone."""
    plan = PerturbationPlan("text", specs(*names), seed)
    return perturbed(samples(*TEXTS), quiz(), plan)[0][len(TEXTS) :]


def test_a_perturbed_sample_is_its_original_with_another_text() -> None:
    original, found = samples(*TEXTS)[0], made("adverbs")[0]

    assert (found.id, found.group, found.cluster) == ("s0~adverbs", "adverbs", "c0")
    assert found.fields["text"] != original.fields["text"]
    assert found.fields["title"] == "Harbour"
    assert (found.choices, found.gold) == (original.choices, original.gold)
    assert found.references[FROM] == ("s0",)
    assert IMPLICITNESS not in found.references  # measured of the original's words alone
    assert (found.references[BY], found.references[transforms.KEEPS]) == (("adverbs",), ("yes",))


def test_choices_stand_in_the_order_of_the_original() -> None:
    by_id = {part.id: part for part in samples(*TEXTS)}

    for found in made("adverbs"):
        original = by_id[found.references[FROM][0]]
        assert [permutation(found, n) for n in (0, 1)] == [permutation(original, n) for n in (0, 1)]


def test_texts_that_cannot_be_changed_are_counted_and_left_out() -> None:
    found, counts = perturbed(
        samples(*TEXTS, ""), quiz(), PerturbationPlan("text", specs("adjectives", "eda_deletion"))
    )

    assert counts[["changed", "unchanged"]].to_numpy().tolist() == [[1, 3], [2, 2]]
    assert counts["keeps_meaning"].tolist() == [True, False]
    assert found[:4] == [replace(part, group=transforms.ORIGINAL) for part in samples(*TEXTS, "")]
    assert len(found) == 4 + 1 + 2


def test_the_same_seed_makes_the_same_samples_in_any_order() -> None:
    plan = PerturbationPlan("text", specs("adverbs", "eda_swap"), 3)
    backwards, _ = perturbed(samples(*TEXTS)[::-1], quiz(), plan)

    assert {p.id: p.fields for p in made("adverbs", "eda_swap", seed=3)} == {
        p.id: p.fields for p in backwards if BY in p.references
    }


def test_the_new_task_knows_what_it_was_made_of() -> None:
    found = perturbed_task(quiz(), name="quiz_perturbed", of="quiz", about="")
    again = perturbed_task(found, name="quiz_twice", of="quiz_perturbed", about="")

    assert (found.made_of, again.made_of) == ("quiz", "quiz")
    assert found.data.files == ()


def test_groups_that_word_prompts_stay() -> None:
    plan = PerturbationPlan("text", specs("adverbs"))
    worded = task(phrases=("phenomenon",))
    found, _ = perturbed(samples(*TEXTS), worded, plan)

    assert {part.group for part in found} == {"harbour"}


def test_what_is_perturbed_is_not_perturbed_again() -> None:
    with pytest.raises(SpecError, match="perturb its original"):
        perturbed(made("adverbs"), quiz(), PerturbationPlan("text", specs("adverbs")))


@pytest.mark.parametrize(
    ("fields", "wanted", "found"),
    [
        ({"text": "a", "story": "longer"}, None, "text"),
        ({"turn": "a", "story": "longer"}, None, "story"),
        ({"turn": "a", "story": "longer"}, "turn", "turn"),
    ],
)
def test_the_field_is_the_one_named_or_text_or_the_longest(
    fields: dict[str, str], wanted: str | None, found: str
) -> None:
    assert transforms.field_of([Sample("s", fields)], wanted) == found


def test_a_line_leaves_out_blank_references() -> None:
    assert transforms.sample_line(Sample("s", {}, {"a": ("", "x"), "b": (" ",)}))["references"] == {
        "a": ["x"]
    }


@pytest.mark.parametrize(
    ("reply", "counts"),
    [
        ("The boat comes late.", (2, 0, {})),
        ("the FERRY, is late", (1, 1, {})),  # the same words
        ("I'm sorry, I can't help with that.", (0, 0, {Reason.REFUSED: 2})),
        ("", (0, 0, {Reason.EMPTY: 2})),
        (Reason.FILTERED, (0, 0, {Reason.FILTERED: 2})),
    ],
)
@pytest.mark.parametrize("name", ["generation", "back_translation"])
def test_what_a_model_does_not_write_is_missing_by_reason(
    tmp_path: Path, name: str, reply: str | Reason, counts: tuple[int, int, dict[Reason, int]]
) -> None:
    two = samples("The ferry is late.", "The tea is cold.")
    plan = PerturbationPlan("text", specs(name))

    def answered(request: Request) -> Response:
        if isinstance(reply, Reason):
            return Response.failed(request.key, reply, "")
        return Response(request.key, (reply,))

    with CachedClient(ScriptedModel("m", answered), Ledger(tmp_path), lambda *_: None) as desk:
        ask = partial(build, prompts=REGISTRY.prompts, client=desk, seed=0)
        found, made = perturbed(two, quiz(), plan, ask)

    assert tuple(made[["changed", "unchanged", "missing"]].iloc[0]) == counts
    assert len(found) == 2 + counts[0]
