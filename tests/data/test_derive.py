"""Choice samples made of others: pairs of meanings, and right against wrong references."""

import logging
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support.each import each
from support.packages import DATA, needs_data

from harness.core import Sample
from harness.data.choices import derive
from harness.data.readers import emphasized_talk
from harness.errors import DataError, SpecError
from harness.specs.schema import load_spec
from harness.specs.tasks import DataSpec, PairsSpec, ReferenceChoiceSpec

PAIRS = PairsSpec(reference="meaning")
LABELS = ("CorrectNonLiteral", "IncorrectLiteral")
CHOICES = ReferenceChoiceSpec(
    right="meant", wrong="said", labels=LABELS, join={"dialog": ("prefix", "utterance")}
)


def stress(name: str, *meanings: str, turn: str = "t1") -> Sample:
    """A stressed word of a turn, and what its stress means."""
    return Sample(
        id=name,
        fields={"emphasis": name},
        references={"meaning": meanings} if meanings else {},
        group="long" if len(name) > 4 else "short",
        cluster=turn,
        flags=("ambiguous",),
    )


def story(name: str, *, meant: Sequence[str] = ("Go.",), **fields: str) -> Sample:
    """A remark, what it means and what it says."""
    references = {"meant": tuple(meant), "said": ("It is late.", "It is ten."), "reply": ("Oh.",)}
    return Sample(id=name, fields=fields, references=references, group="irony", cluster="c")


def test_a_pair_asks_about_each_stress_with_the_same_choices() -> None:
    first, second = derive([stress("she", "not he", "she alone"), stress("today", "now")], PAIRS)

    assert first.choices == second.choices == ("not he", "now")
    assert (first.gold, second.gold) == ("not he", "now")
    assert (first.fields, second.fields) == ({"emphasis": "she"}, {"emphasis": "today"})


def test_every_two_of_a_cluster_are_a_pair_and_no_others() -> None:
    samples = [stress(name, f"means {name}") for name in "abc"]
    samples += [stress("d", "means d", turn="t2"), stress("e", "means e", turn="t2")]
    asked = Counter(sample.choices for sample in derive(samples, PAIRS))

    duos = [("a", "b"), ("a", "c"), ("b", "c"), ("d", "e")]
    assert asked == {(f"means {one}", f"means {other}"): 2 for one, other in duos}


def test_ids_separate_pairs_and_depend_on_the_pair_alone() -> None:
    samples = [stress(name, f"means {name}") for name in "abc"]
    every, some = derive(samples, PAIRS), derive(samples[1:], PAIRS)

    assert len({sample.id for sample in every}) == 6
    assert {sample.id for sample in some} < {sample.id for sample in every}
    assert sorted(s.id.split("-")[0] for s in every) == ["a", "a", "b", "b", "c", "c"]


def test_what_makes_no_pair_is_left_out_and_counted_once(caplog: pytest.LogCaptureFixture) -> None:
    samples = [stress("a", "x"), stress("b", "y", "z"), stress("c", "Z "), stress("d")]
    samples += [stress("e", " ", turn="t1"), stress("f", "w", turn="t2")]

    with caplog.at_level(logging.WARNING):
        found = derive(samples, PAIRS)

    assert [sample.gold for sample in found] == ["x", "y", "x", "Z"]
    assert [record.getMessage() for record in caplog.records] == [
        "minimal_pairs: 4 choice samples, left out: 2 samples without 'meaning', "
        "1 samples without a partner, 1 pairs that share a text"
    ]


def test_a_blank_text_and_outer_white_space_are_no_part_of_a_choice() -> None:
    found = derive([stress("a", " ", " now\n"), stress("b", "then")], PAIRS)
    assert [sample.choices for sample in found] == [("now", "then")] * 2


def test_two_references_become_the_choices_of_the_sample_itself() -> None:
    source = story("s1", prefix="Ann says: ", utterance='"It is late."')

    [made] = derive([source], CHOICES)

    assert (made.id, made.group, made.cluster) == ("s1", "irony", "c")
    assert (made.choices, made.gold) == (("Go.", "It is late."), "Go.")
    assert made.references == {**source.references, "labels": LABELS}
    assert made.fields == {**source.fields, "dialog": 'Ann says: "It is late."'}


def test_fields_are_joined_only_where_all_are_there() -> None:
    samples = [story("s1", prefix="Ann: ", utterance="Late."), story("s2", utterance="Late.")]
    assert ["dialog" in made.fields for made in derive(samples, CHOICES)] == [True, False]


def test_a_sample_of_less_than_two_texts_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    parts = {"prefix": "a", "utterance": "b"}
    samples = [story("s1", **parts), story("s2", meant=(), **parts)]
    samples.append(story("s3", meant=("it is late. ",), **parts))

    assert [made.id for made in derive(samples, CHOICES)] == ["s1"]
    assert (
        "references: 1 choice samples, left out: 1 samples without 'meant' or 'said', "
        "1 samples whose two texts are one" in caplog.text
    )


@each(
    ("change", "fact"),
    [
        ({"right": "mean"}, "`derive` names reference 'mean'; did you mean meant"),
        ({"wrong": "sad"}, "`derive` names reference 'sad'; did you mean said"),
        ({"join": {"dialog": ["prefixes"]}}, "names field 'prefixes'; did you mean prefix"),
        ({"join": {"dialog": ["said"]}}, "names field 'said'"),
        ({"join": {"prefix": ["utterance"]}}, "`join` makes 'prefix', which samples have"),
        ({"join": {"reply": ["utterance"]}}, "`join` makes 'reply', which samples have"),
        ({"join": {"labels": ["utterance"]}}, "`join` makes 'labels', which samples have"),
    ],
)
def test_a_name_no_sample_has_or_all_have_is_refused(change: dict[str, Any], fact: str) -> None:
    said = {"kind": "references", "right": "meant", "wrong": "said", "labels": LABELS, **change}
    spec = load_spec(said, PairsSpec | ReferenceChoiceSpec, where="t.yaml")

    with pytest.raises(SpecError, match=fact):
        derive([story("s1", prefix="a", utterance="b")], spec)


@pytest.mark.parametrize(
    ("samples", "spec"),
    [
        ([stress("a", "now"), stress("b", "NOW")], PAIRS),
        ([stress("a", "now"), stress("b", "then", turn="t2")], PAIRS),
        ([story("s1", meant=["It is late."], prefix="a", utterance="b")], CHOICES),
    ],
)
def test_no_choice_sample_at_all_is_an_error(
    samples: list[Sample], spec: PairsSpec | ReferenceChoiceSpec
) -> None:
    with pytest.raises(DataError, match=r"makes no sample \(.*\); name other references"):
        derive(samples, spec)


@pytest.mark.parametrize(
    ("said", "fact"),
    [
        ({"kind": "pairs", "reference": "r"}, "unknown kind 'pairs'.*minimal_pairs"),
        ({"kind": "minimal_pairs"}, "missing required key `reference`"),
        ({"kind": "minimal_pairs", "reference": "r", "right": "a"}, "known: kind, reference"),
        ({"kind": "references", "right": "a", "wrong": "b", "labels": ["l"]}, "labels"),
    ],
)
def test_a_derivation_is_checked_as_yaml_is_read(said: dict[str, Any], fact: str) -> None:
    data = {"source": "s", "reader": "r", "files": [], "sample": "x", "derive": said}
    with pytest.raises(SpecError, match=fact):
        load_spec(data, DataSpec, where="t.yaml")


@needs_data
def test_the_released_stresses_make_1290_pairs(caplog: pytest.LogCaptureFixture) -> None:
    samples = emphasized_talk.read([Path(DATA or "", "emphasized_talk/data.json")], None)

    found = derive(samples, PairsSpec(reference="implication"))

    assert len(found) == len({sample.id for sample in found}) == 2580
    assert Counter(one.choices.index(one.gold or "") for one in found) == {0: 1290, 1: 1290}
    assert "3 pairs that share a text" in caplog.text
