"""The project's own texts for the two tasks of three labels: their form and their balance."""

import re
from collections import Counter
from pathlib import Path

import pytest

from harness.core import Sample
from harness.data.readers.samples_jsonl import read
from harness.registry import Registry, shipped_home
from harness.text.dedup import normal

HOME = shipped_home()
TASKS = ("ishate_implicit", "ishate_subtle")
PAIRS = ("ishate_non_implicit", "ishate_non_explicit")
EVERY = (*TASKS, *PAIRS)
REGISTRY = Registry((HOME,), {}, HOME / "no cache")


def samples(task: str) -> list[Sample]:
    return read([Path(HOME / "tasks" / REGISTRY.load("tasks", task).data.sample)], None)


@pytest.mark.parametrize("task", EVERY)
def test_every_label_of_the_task_has_a_dozen_texts(task: str) -> None:
    counts = Counter(sample.references["label"][0] for sample in samples(task))

    assert counts == dict.fromkeys(REGISTRY.load("tasks", task).data.choices, 12)


@pytest.mark.parametrize("task", EVERY)
def test_labels_and_answers_are_those_of_the_task(task: str) -> None:
    choices = REGISTRY.load("tasks", task).data.choices

    for sample in samples(task):
        assert sample.references["labels"] == tuple(choices)
        assert sample.choices == tuple(choices.values())
        assert sample.gold == choices[sample.references["label"][0]]


@pytest.mark.parametrize("task", EVERY)
def test_each_invented_group_is_a_cluster_with_a_text_of_each_label(task: str) -> None:
    labels: dict[str, list[str]] = {}
    for sample in samples(task):
        labels.setdefault(sample.cluster, []).append(sample.references["label"][0])

    assert all(
        sorted(part) == sorted(REGISTRY.load("tasks", task).data.choices)
        for part in labels.values()
    )


def test_no_text_stands_in_both_sets_or_twice() -> None:
    texts = [normal(sample.fields["text"]) for task in TASKS for sample in samples(task)]

    assert len(set(texts)) == len(texts)


def test_only_implicit_texts_have_properties() -> None:
    held = [s.references["label"][0] for s in samples(TASKS[0]) if "properties" in s.references]

    assert held == ["implicit"] * 12


@pytest.mark.parametrize("task", [*TASKS, "hate_speech"])
def test_targets_are_invented_groups_of_four_kinds_and_no_trades(task: str) -> None:
    kinds: dict[str, set[str]] = {}
    for sample in samples(task):
        kinds.setdefault(sample.references["target"][0], set()).update(
            sample.references["target_kind"]
        )
    trades = ("baker", "weaver", "clerk", "cutter", "keeper", "tender", "blower", "fisher", "miner")

    assert all(len(of) == 1 for of in kinds.values())
    assert set.union(*kinds.values()) == {"people", "faith", "origin", "disability"}
    assert [name for name in kinds if any(trade in name for trade in trades)] == []


@pytest.mark.parametrize("task", [*EVERY, "hate_speech"])
def test_no_group_has_the_name_of_a_real_one_or_of_a_colour_of_skin(task: str) -> None:
    real = ("old-calendar", "brisk", "sallow")  # a faith, a school of scholars, a skin
    places = ("tarn", "orrin", "brack", "ostel", "corbelin", "quillon", "cupra", "sarrin")
    families = ("pellish", "salvane")
    conditions = ("deaf", "blind", "lame", "mute", "disabled", "wheelchair", "disorder", "syndrome")

    texts = [set(re.findall(r"[a-z-]+", repr(sample).lower())) for sample in samples(task)]

    named = {*real, *places, *families, *conditions}
    assert [sorted(words & named) for words in texts if words & named] == []


@pytest.mark.parametrize("task", PAIRS)
def test_a_task_of_two_classes_has_the_texts_of_these_two(task: str) -> None:
    asked = {s.fields["text"]: s.references["label"] for s in samples(task)}
    of_three = {s.fields["text"]: s.references["label"] for s in samples(TASKS[0])}

    assert {one[0] for one in asked.values()} == {"non", task.rpartition("_")[2]}
    assert asked.items() <= of_three.items()
